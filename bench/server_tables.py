"""An ask of a million rows on a PostgreSQL server beside the plain aggregate there, best of three; see docs/design.md.

Run `python bench/server_tables.py [ROWS]`. It starts a server of its own, of the package that scripts/system-packages installs.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import postgres_server as postgres
import sordino as sd

ROWS = """
    CREATE TABLE people AS SELECT CAST(i % 100000 AS TEXT) AS id, i % 97 AS age, CAST(i % 777 AS DOUBLE PRECISION) / 7 AS gain,
        CAST(i % 1000 AS NUMERIC(10, 2)) / 100 AS cost, (ARRAY['F', 'M'])[1 + i % 2] AS sex
    FROM generate_series(1, {rows}) AS numbers(i)
"""
DOMAIN = sd.Domain(
    {
        "id": sd.Identifier(),
        "age": sd.Integer(0, 125),
        "gain": sd.Real(0, 111, resolution=0.01),
        "cost": sd.Real(0, 10, resolution=0.01),
        "sex": sd.Category(["F", "M"]),
    }
)
RANK = "row_number() OVER (PARTITION BY id ORDER BY hashtextextended(CAST(people AS TEXT), 0)) AS n"
WORK = {  # the question, whether each person's rows are capped, and the plain aggregate
    "count": ("SELECT COUNT(*) FROM people", False, "SELECT COUNT(*) FROM people"),
    "sum of a float": ("SELECT SUM(gain) FROM people", False, "SELECT SUM(LEAST(GREATEST(gain, 0), 111)) FROM people"),
    "sum of a numeric": ("SELECT SUM(cost) FROM people", False, "SELECT SUM(LEAST(GREATEST(cost, 0), 10)) FROM people"),
    "group-by count and mean": (
        "SELECT sex, COUNT(*), AVG(age) FROM people GROUP BY sex",
        False,
        "SELECT sex, COUNT(*), AVG(LEAST(GREATEST(age, 0), 125)) FROM people GROUP BY sex",
    ),
    "count, max_rows 5": (
        "SELECT COUNT(*) FROM people",
        True,
        f"SELECT COUNT(*) FROM (SELECT {RANK} FROM people) AS ranked WHERE n <= 5",
    ),
}


def measure(work: Callable[[], object]) -> float:
    """Return the least of three times, in milliseconds."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return 1000 * min(times)


def run(server: postgres.Server, rows: int) -> None:
    """Print a line for each piece of work."""
    import psycopg

    server.execute(ROWS.format(rows=rows), "VACUUM ANALYZE people")
    url = f"{server.url}/postgres"
    curators = [
        sd.protect(
            url,
            relation="people",
            domain=DOMAIN,
            neighbors="add_remove",
            privacy_unit=unit,
            budget=sd.PureDP(10**6),
            ledger=None,
        )
        for unit in ("row", sd.PrivacyUnit("id", max_rows=5))
    ]
    with psycopg.connect(url, autocommit=True) as plain:
        plain.execute("SET jit = off")
        for name, (question, capped, aggregate) in WORK.items():
            ask = measure(partial(curators[capped].ask, sd.sql(question), epsilon=1))
            beside = measure(partial(plain.execute, aggregate.encode()))
            print(f"{name}: {ask:.0f} ms, plain {beside:.0f} ms, {ask / beside:.2f} times")
    for curator in curators:
        curator.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="sordino-bench-", ignore_cleanup_errors=True) as place:
        started = postgres.start(Path(place))
        try:
            run(started, int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
        finally:
            started.stop()
