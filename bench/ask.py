"""What an ask costs beside plain DuckDB doing the same aggregates: time as a ratio of the same run, and peak memory.

python bench/ask.py [--rows 10000000] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from timing import compare, fetch

ROWS = 10_000_000
SQL = "SELECT occupation, COUNT(*) AS n, AVG(age) AS age FROM people WHERE education_num > 10 GROUP BY occupation"
SQL_ALL = "SELECT occupation, COUNT(*) AS n, AVG(age) AS age FROM people GROUP BY occupation"
SQL_SUM = "SELECT SUM(gain) AS gain FROM people"
SQL_COUNT = "SELECT COUNT(*) AS n FROM people"
_PEAK = """
import sys
import sordino as sd
from sordino.lab.datasets.census import census_domain
people = sd.protect(sys.argv[1], domain=census_domain(), neighbors="add_remove", privacy_unit="row",
                    budget=sd.PureDP(10), ledger=None, name="people")
for text in sys.argv[2:]:
    people.ask(sd.sql(text), epsilon=0.5)
# not ru_maxrss, which counts what the parent held
print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))
"""


def run(rows: int = ROWS, repeats: int = 9) -> dict[str, Any]:
    """Return the measurements: milliseconds as medians, ratios pair by pair of runs that alternate."""
    import duckdb
    import pyarrow.parquet as pq

    import sordino as sd
    from sordino.lab.datasets.census import census_domain, make_census

    found: dict[str, Any] = {"rows": rows, "processors": os.cpu_count()}
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SORDINO_STATE"] = directory
        path, small = Path(directory) / "people.parquet", Path(directory) / "small.parquet"
        table = make_census(rows, sd.Rng.seeded(1))
        pq.write_table(table, path)
        pq.write_table(table.slice(0, 1000), small)
        del table
        people = _protected(path, ledger=None)
        plain = duckdb.connect()
        for name, text in (
            ("group_by_where", SQL),
            ("group_by", SQL_ALL),
            ("sum", SQL_SUM),
            ("count", SQL_COUNT),
        ):
            same = text.replace("FROM people", f"FROM read_parquet('{path}')")
            ours, theirs = compare(
                partial(_ask, people, text),
                partial(fetch, plain, same),
                repeats,
            )
            found[name] = {
                "ask_ms": ours,
                "duckdb_ms": theirs,
                "ratio": round(ours / theirs, 2),
                "within_1.5x_plus_30ms": ours <= 1.5 * theirs + 30,
            }
        for name, ledger in (("memory_ledger", None), ("durable_ledger", Path(directory) / "small.ledger")):
            few = _protected(small, ledger=ledger)
            ours, theirs = compare(
                partial(few.ask, sd.count(), epsilon=0.001),
                lambda: plain.execute(f"SELECT COUNT(*) FROM read_parquet('{small}')").fetchall(),
                50,
            )
            found[f"count_1000_rows_{name}"] = {"ask_ms": ours, "duckdb_ms": theirs, "ratio": round(ours / theirs, 2)}
        peak = subprocess.run(
            [sys.executable, "-c", _PEAK, str(path), SQL, SQL_SUM], capture_output=True, text=True, check=True
        )
        found["peak_memory_mb"] = round(int(peak.stdout) / 1024, 1)
        assert census_domain() is not None
    found["import_s"] = _import_seconds()
    return found


def _ask(people: Any, text: str) -> object:
    import sordino as sd

    return people.ask(sd.sql(text), epsilon=0.001)


def _protected(path: Path, *, ledger: Path | None) -> Any:
    import sordino as sd
    from sordino.lab.datasets.census import census_domain

    return sd.protect(
        path,
        domain=census_domain(),
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.PureDP(1000),
        ledger=ledger,
        name="people",
    )


def _import_seconds(repeats: int = 7) -> dict[str, float]:
    """Return whole-process seconds of `import sordino` and of an empty program, and their difference."""
    timed: dict[str, list[float]] = {"import sordino": [], "pass": []}
    for _ in range(repeats):
        for program, found in timed.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", program], check=True)
            found.append(time.perf_counter() - start)
    whole, empty = (statistics.median(timed[p]) for p in ("import sordino", "pass"))
    return {"process": round(whole, 3), "empty_process": round(empty, 3), "import": round(whole - empty, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = run(options.rows)
    if options.json:
        print(json.dumps(found, indent=2))
        return
    for name, value in found.items():
        print(f"{name:32} {value}")


if __name__ == "__main__":
    main()
