"""Two generated tables that obey public rules: people of whom children neither marry nor earn, and houses whose areas add up."""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa

import sordino as sd
from sordino import synth
from sordino.synth.rules import Rule

STATES = ("CA", "NY", "TX")
CITIES = ("Fresno", "Napa", "Utica", "Waco")


@cache
def people(rows: int = 4000, seed: int = 0) -> tuple[pa.Table, sd.Domain, tuple[Rule, ...]]:
    """Return people with their rules."""
    rng = np.random.default_rng(seed)
    age = np.clip(rng.gamma(3.0, 13.0, rows), 0, 95).astype(np.int64)
    child = age < 15
    married = ~child & (rng.random(rows) < 0.6)
    income = np.minimum(rng.lognormal(10.0, 0.8, rows) * (1.0 + 0.01 * np.minimum(age, 60)), 500_000).astype(np.int64)
    hired = age * 365 + rng.integers(-9000, 0, rows)
    city = rng.integers(0, len(CITIES), rows)
    table = pa.table(
        {
            "age": age,
            "married": married,
            "income": pa.array(income, mask=child),
            "tax": pa.array((income * rng.uniform(0.0, 0.4, rows)).astype(np.int64), mask=child),
            "start": pa.array(hired.astype(np.int32) - 5000).cast(pa.date32()),
            "end": pa.array((hired + rng.exponential(900.0, rows)).astype(np.int32) - 5000).cast(pa.date32()),
            "city": [CITIES[c] for c in city],
            "state": [("CA", "CA", "NY", "TX")[c] for c in city],
        }
    )
    domain = sd.Domain(
        {
            "age": sd.Integer(0, 120),
            "married": sd.Boolean(),
            "income": sd.Integer(0, 1_000_000, missing="keep"),
            "tax": sd.Integer(0, 1_000_000),
            "start": sd.Date("1900-01-01", "2060-12-31"),
            "end": sd.Date("1900-01-01", "2060-12-31"),
            "city": sd.Category(list(CITIES)),
            "state": sd.Category(list(STATES)),
        }
    )
    rules = (
        synth.never("age < 15 AND married"),
        synth.blank("income", when="age < 15"),
        synth.at_most("tax", "income"),
        synth.at_most("start", "end"),
        synth.determines("city", "state", dict(zip(CITIES, ("CA", "CA", "NY", "TX"), strict=True))),
    )
    return table, domain, rules


@cache
def houses(rows: int = 4000, seed: int = 0) -> tuple[pa.Table, sd.Domain, tuple[Rule, ...]]:
    """Return houses with their rules: areas in tenths, which add up."""
    rng = np.random.default_rng(seed)
    above = np.clip(rng.lognormal(7.4, 0.4, rows), 300, 9000).astype(np.int64)
    basement = np.where(rng.random(rows) < 0.6, 0, np.clip(above * rng.uniform(0.2, 0.9, rows), 100, 4000)).astype(int)
    built = 2015 - np.minimum(rng.exponential(40.0, rows), 115).astype(np.int64)
    zone = rng.integers(0, 3, rows)
    table = pa.table(
        {
            "above": above / 10.0,
            "basement": basement / 10.0,
            "living": (above + basement) / 10.0,
            "built": built,
            "renovated": pa.array(np.minimum(built + rng.integers(0, 60, rows), 2015), mask=rng.random(rows) < 0.8),
            "zone": [("rural", "town", "city")[z] for z in zone],
            "floors": np.minimum(1 + rng.integers(0, 2 + 2 * (zone == 2), rows), 3),
        }
    )
    domain = sd.Domain(
        {
            "above": sd.Real(0, 2_000, resolution=0.1),
            "basement": sd.Real(0, 1_000, resolution=0.1),
            "living": sd.Real(0, 2_000, resolution=0.1),
            "built": sd.Integer(1900, 2015),
            "renovated": sd.Integer(1900, 2015, missing="keep"),
            "zone": sd.Category(["rural", "town", "city"]),
            "floors": sd.Integer(1, 3),
        }
    )
    rules = (
        synth.equal("above + basement", "living"),
        synth.at_most("built", "renovated"),
        synth.allowed(
            {"zone": ["rural", "rural", "town", "town", "city", "city", "city"], "floors": [1, 2, 1, 2, 1, 2, 3]}
        ),
    )
    return table, domain, rules


def broken(table: pa.Table) -> dict[str, int]:
    """Return how many rows break each rule of either table, by plain Python over the rows."""
    rows = table.to_pylist()
    if "age" in table.column_names:
        tests = {
            "married": lambda r: r["age"] is not None and r["age"] < 15 and bool(r["married"]),
            "blank": lambda r: (r["age"] is not None and r["age"] < 15) != (r["income"] is None),
            "tax": lambda r: None not in (r["tax"], r["income"]) and r["tax"] > r["income"],
            "dates": lambda r: None not in (r["start"], r["end"]) and r["start"] > r["end"],
            "state": lambda r: (
                r["city"] is not None
                and r["state"] != dict(zip(CITIES, ("CA", "CA", "NY", "TX"), strict=True))[r["city"]]
            ),
        }
    else:
        tests = {
            "sum": lambda r: (
                None not in (r["above"], r["basement"], r["living"])
                and round(10 * r["above"]) + round(10 * r["basement"]) != round(10 * r["living"])
            ),
            "renovated": lambda r: None not in (r["built"], r["renovated"]) and r["built"] > r["renovated"],
            "floors": lambda r: None not in (r["zone"], r["floors"]) and r["floors"] > 2 and r["zone"] != "city",
        }
    return {name: sum(map(test, rows)) for name, test in tests.items()}
