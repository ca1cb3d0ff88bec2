"""What deeper questions cost beside plain DuckDB doing the same without privacy: time as a ratio of the same run.

python bench/deeper.py [--rows 10000000] [--json]

For a question that plain SQL has no words for, the baseline is what an analyst would ask instead: for clipping bounds
the 0.1% and 99.9% quantiles, for the most common value a count of each.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from timing import compare, fetch

ROWS = 10_000_000
PEOPLE = 1_000_000
KEYS = 50_000
HIGHEST = 1_000_000
JOBS = tuple(f"job {i}" for i in range(15))
TWO_WAYS = (
    "SELECT CASE WHEN age < 30 THEN 'under 30' WHEN age < 50 THEN '30 to 49' ELSE '50 and over' END AS band, job, "
    "COUNT(*) AS n FROM people GROUP BY band, job HAVING n > 1000 ORDER BY n DESC LIMIT 10"
)


def run(rows: int = ROWS, repeats: int = 3) -> dict[str, Any]:
    """Return milliseconds as medians of runs that alternate, and their ratio, for a million rows and for `rows`."""
    found: dict[str, Any] = {}
    for size in sorted({min(PEOPLE, rows), rows}):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "people.parquet"
            _write(path, size)
            found[f"rows_{size}"] = _times(path, repeats)
    return found


def _times(path: Path, repeats: int) -> dict[str, Any]:
    import duckdb

    import sordino as sd

    people = _protected(path)
    plain = duckdb.connect()
    plain.execute(f"CREATE VIEW people AS SELECT * FROM read_parquet('{path}')")
    by_key = people.group_by("code").agg(sd.count().alias("n"))
    asked: list[tuple[str, Callable[[], Any], str]] = [
        ("median", lambda: people.ask(sd.median("income"), epsilon=1), "quantile_cont(income, 0.5)"),
        ("variance", lambda: people.ask(sd.variance("income"), epsilon=1), "var_pop(income)"),
        ("std", lambda: people.ask(sd.std("income"), epsilon=1), "stddev_pop(income)"),
        ("correlation", lambda: people.ask(sd.correlation("age", "income"), epsilon=1), "corr(age, income)"),
        ("count_distinct_units", lambda: people.ask(sd.count_distinct("person"), epsilon=1), "count(DISTINCT person)"),
        ("most_common", lambda: people.ask(sd.most_common("job"), epsilon=1), "job, count(*)"),
        ("private_keys_50000", lambda: people.ask(by_key, epsilon=1, delta="1e-9"), "code, count(*)"),
        ("bounds", lambda: people.find_bounds("loose", epsilon=1), "quantile_cont(income, [0.001, 0.999])"),
        ("two_ways", lambda: people.ask(sd.sql(TWO_WAYS), epsilon=1), TWO_WAYS),
    ]
    told: dict[str, Any] = {}
    for name, ours, theirs in asked:
        text = theirs if theirs.startswith("SELECT") else f"SELECT {theirs} FROM people"
        text += " GROUP BY 1" if theirs.endswith(", count(*)") else ""
        a, b = compare(ours, partial(fetch, plain, text), repeats)
        told[name] = {"sordino_ms": a, "duckdb_ms": b, "ratio": round(a / b, 2)}
    plain.close()
    people.close()
    return told


def _protected(path: Path) -> Any:
    import sordino as sd

    return sd.protect(
        path,
        domain=sd.Domain(
            {
                "person": sd.Identifier(),
                "age": sd.Integer(0, 125),
                "income": sd.Real(0, HIGHEST, resolution=0.01),
                "loose": sd.Real(resolution=0.01),
                "job": sd.Category(JOBS),
                "code": sd.Identifier(),
            }
        ),
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.ApproxDP(1_000_000, 0.5),
        ledger=None,
        name="people",
    )


def _write(path: Path, rows: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    made = np.random.default_rng(1)
    income = made.lognormal(10, 1, rows)
    columns = {
        "person": pa.array(made.integers(0, max(1, rows // 2), rows)).cast(pa.string()),
        "age": made.integers(17, 91, rows),
        "income": income,
        "loose": income,
        "job": pa.DictionaryArray.from_arrays(made.integers(0, len(JOBS), rows, dtype=np.int32), list(JOBS)),
        "code": pa.DictionaryArray.from_arrays(
            (made.random(rows) ** 2 * KEYS).astype(np.int32), [f"code {i}" for i in range(KEYS)]
        ),
    }
    pq.write_table(pa.table(columns), path)


def main() -> None:
    """Print the figures as a table, or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = run(options.rows)
    if options.json:
        print(json.dumps(found, indent=2))
        return
    for size, questions in found.items():
        print(size)
        for name, told in questions.items():
            print(f"  {name:24} {told['sordino_ms']:>10} ms, DuckDB {told['duckdb_ms']:>10} ms: {told['ratio']} times")


if __name__ == "__main__":
    main()
