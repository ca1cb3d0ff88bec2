"""Sums of each unit's clipped total: against plain Python, with and without groups, conditions and other aggregates."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

import sordino as sd
from ask.engines.support import exact
from sordino import col
from sordino.ask.queries.build import Selection
from sordino.core.neighbors import PrivacyUnit
from sordino.errors import QuestionRefused

S = Selection()
DOMAIN = sd.Domain(
    {"id": sd.Identifier(), "c": sd.Category(["a", "b"]), "x": sd.Integer(), "r": sd.Real(resolution="0.5")}
)
KINDS = {"id": pa.string(), "c": pa.string(), "x": pa.int64(), "r": pa.float64()}
Row = tuple[Any, ...]


def rows_of(seed: int) -> list[Row]:
    """Return units of 0 to 40 rows, some cells missing, huge or of no declared key."""
    rng = random.Random(seed)
    names = [None, *(f"u{i}" for i in range(12))]
    return [
        (
            name,
            rng.choice(["a", "b", "q", None]),
            rng.choice([None, -7, 0, 3, 50, 10**12]),
            rng.choice([None, 0.5, -1.0]),
        )
        for name in names
        for _ in range(rng.choice([0, 1, 3, 40]))
    ]


def ask(rows: list[Row], question: Any, unit: PrivacyUnit) -> list[list[Fraction]]:
    columns = {n: pa.array([r[i] for r in rows], kind) for i, (n, kind) in enumerate(KINDS.items())}
    return exact(pa.table(columns), DOMAIN, question, unit=unit)


def clipped_totals(rows: list[Row], low: int, high: int) -> Fraction:
    """Return the sum over units of their clipped total of x; a unit without any value adds nothing."""
    units: dict[str, int] = {}
    for name, _, x, _ in rows:
        if name is not None and x is not None:
            units[name] = units.get(name, 0) + x
    return Fraction(sum(min(max(total, low), high) for total in units.values()))


@pytest.mark.each(5)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("low", "high"), [(0, 100), (-5, 5), (2, 60)])
def test_every_row_of_a_unit_is_in_its_total_whatever_the_cap(seed: int, low: int, high: int) -> None:
    rows, unit = rows_of(seed), PrivacyUnit("id", max_rows=2)
    total = sd.sum("x", per_unit=(low, high))
    assert ask(rows, total, unit) == [[clipped_totals(rows, low, high)]]
    some = [r for r in rows if r[2] is not None and r[2] > 0]
    assert ask(rows, S.where(col("x") > 0).agg(total), unit) == [[clipped_totals(some, low, high)]]
    by_key = [clipped_totals([r for r in rows if r[1] == key], low, high) for key in "ab"]
    assert ask(rows, S.group_by("c").agg(total), unit) == [by_key]


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(4))
def test_other_aggregates_beside_a_total_count_the_same_rows_as_without(seed: int) -> None:
    rows, unit = rows_of(seed), PrivacyUnit("id", None, 2, 2)
    others = [
        sd.count(),
        sd.count("x"),
        sd.sum(col("x").clip(0, 9)),
        sd.count_distinct("x"),
        sd.mean(col("r").clip(-1, 1)),
    ]
    for rest in (S, S.group_by("c")):
        alone = ask(rows, rest.agg(*others), unit)
        assert ask(rows, rest.agg(sd.sum("x", per_unit=(0, 9)).alias("t"), *others), unit)[1:] == alone


def test_groups_bound_totals_where_rows_do_not() -> None:
    rows = [("u", key, 4, None) for key in "ab" for _ in range(9)]
    total = S.group_by("c").agg(sd.sum("x", per_unit=(0, 10)))
    assert ask(rows, total, PrivacyUnit("id", max_rows=2)) == [[10, 10]]
    for unit in (PrivacyUnit("id", max_rows=1), PrivacyUnit("id", max_rows=9, max_groups=1)):
        assert sorted(ask(rows, total, unit)[0]) == [0, 10]


def test_totals_keep_the_grid_of_reals() -> None:
    rows: list[Row] = [("u", "a", None, 0.5)] * 3 + [("v", "a", None, 9.0)]
    assert ask(rows, sd.sum("r", per_unit=("0.25", 2)), PrivacyUnit("id", 1)) == [[Fraction(7, 2)]]


def test_what_has_no_units_has_no_totals() -> None:
    for unit in (None, PrivacyUnit(None, max_rows=3)):
        with pytest.raises(QuestionRefused, match="needs a column that names each row's unit"):
            S.agg(sd.sum("x", per_unit=(0, 5))).sensitivity(DOMAIN, sd.Neighbors("add_remove", unit))
    bounds: list[Any] = [(0,), (5, 0), 7]
    for bad in bounds:
        with pytest.raises(QuestionRefused, match="per_unit takes"):
            sd.sum("x", per_unit=bad)
