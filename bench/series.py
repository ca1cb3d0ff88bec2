"""A step of a series with 10,000 groups beside the plain query, and how near running totals are: `python bench/series.py`.

The reach: at most 1.5 times the CPU of the plain GROUP BY and 50 ms; exits 1 where a step takes more. The plain query counts the
rows of the same period by the same groups in DuckDB, one after the other with the step, over one table in memory.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable
from datetime import date, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import sordino as sd
from sordino.core.mechanisms.continual_noise import ContinualGaussian, Participation

RESULT = Path(__file__).parent / "results" / "series.md"
FIRST = date(2026, 1, 1)
DAYS = 64
MOST_RATIO = 1.5
MOST_MORE = 0.05


def make_visits(rows: int, groups: int) -> pa.Table:
    """Return visits of people to places over some days."""
    draws = np.random.default_rng(1)
    days = (np.datetime64(FIRST) + draws.integers(0, DAYS, rows)).astype("datetime64[D]")
    places = np.array([f"place {i:05}" for i in range(groups)])
    return pa.table(
        {
            "day": pa.array(days),
            "place": pa.array(places[draws.integers(0, groups, rows)]),
            "person": pa.array(draws.integers(0, rows // 10, rows)),
        }
    )


def open_visits(visits: pa.Table, groups: int, unit: Any) -> sd.Curator:
    """Return the curator of the visits."""
    return sd.protect(
        visits,
        domain=sd.Domain(
            {
                "day": sd.Date("2026-01-01", "2030-12-31"),
                "place": sd.Category([f"place {i:05}" for i in range(groups)]),
                "person": sd.Identifier(),
            }
        ),
        neighbors="add_remove",
        privacy_unit=unit,
        budget=sd.ZCDP(10),
        ledger=None,
        rng=sd.Rng.seeded(1),
        name="visits",
    )


def cpu_of(work: Callable[[], object]) -> float:
    """Return the CPU seconds of some work, all threads of this process together."""
    before = time.process_time()
    work()
    return time.process_time() - before


def time_steps(visits: pa.Table, groups: int, unit: Any, **limits: Any) -> tuple[list[float], list[float]]:
    """Return the CPU of each step of a series, and of the plain query of the same day."""
    people = open_visits(visits, groups, unit)
    series = people.series(
        sd.count(), over="day", every="day", by=["place"], rho="0.5", horizon=365, name="places", **limits
    )
    # each has its own connection, on as many threads
    plain = duckdb.connect()
    plain.register("visits", visits)
    steps: list[float] = []
    queries: list[float] = []
    for number in range(DAYS):
        day = FIRST + timedelta(days=number)
        query = "SELECT place, COUNT(*) FROM visits WHERE day = ? GROUP BY place"

        def ask_plain(day: date = day, query: str = query) -> None:
            plain.execute(query, [day]).to_arrow_table()

        def release(day: date = day) -> None:
            series.release(day)

        queries.append(cpu_of(ask_plain))
        steps.append(cpu_of(release))
    return steps, queries


def main() -> int:
    """Time the steps, write the page, and return 1 where a step is beyond the reach."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("-o", "--output", type=Path, default=RESULT)
    asked = parser.parse_args()
    visits = make_visits(asked.rows, asked.groups)
    cases: list[tuple[str, Any, dict[str, int]]] = [
        ("a row", "row", {}),
        ("a person, 5 days of all", sd.PrivacyUnit("person", max_rows=1), {"max_periods": 5}),
        ("a person, 1 day of each 7", sd.PrivacyUnit("person", max_rows=1), {"max_periods": 1, "window": 7}),
    ]
    lines = [
        "# Series: a step beside the plain query, and how near totals are",
        "",
        f"`python bench/series.py`: {asked.rows:,} rows, {asked.groups:,} groups, {DAYS} days, DuckDB over a table in memory;",
        f"CPU seconds, the median of the first {DAYS // 2} days and of the last. The reach, for rows, is {MOST_RATIO} times the",
        f"plain query and {1000 * MOST_MORE:.0f} ms.",
        "",
        "| protected | days | plain GROUP BY | step | times plain | beyond 1.5 times |",
        "|---|---|---:|---:|---:|---:|",
    ]
    worst = -math.inf
    for words, unit, limits in cases:
        steps, queries = time_steps(visits, asked.groups, unit, **limits)
        for name, part in (("first", slice(1, DAYS // 2)), ("last", slice(DAYS // 2, None))):
            step = statistics.median(steps[part])
            plain = statistics.median(queries[part])
            more = step - MOST_RATIO * plain
            worst = max(worst, more) if unit == "row" else worst
            lines.append(
                f"| {words} | {name} {DAYS // 2} | {plain:.3f} | {step:.3f} | {step / plain:.2f} | {1000 * more:+.0f} ms |"
            )
    lines += [
        "",
        "Greatest standard deviation of a running total at rho .5, in rows:",
        "",
        "| horizon | one row | a person, 5 periods | 1 of each 28 | 1 of each 7 |",
        "|---:|---:|---:|---:|---:|",
    ]
    for horizon in (365, 3_650, 10_000):
        figures = []
        for limits_of in (None, Participation(5, horizon), Participation(1, 28), Participation(1, 7)):
            noise = ContinualGaussian(Fraction(1), 1, Fraction(1, 2), horizon, limits_of)
            figures.append(f"{math.sqrt(noise.total_variance(horizon)):.3g}")
        lines.append(f"| {horizon:,} | {' | '.join(figures)} |")
    text = "\n".join([*lines, ""])
    asked.output.write_text(text, encoding="utf-8")
    print(text)
    return int(worst > MOST_MORE)


if __name__ == "__main__":
    sys.exit(main())
