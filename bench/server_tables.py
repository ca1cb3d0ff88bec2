"""An ask of a million rows on a PostgreSQL server beside the plain aggregate there, best of three; see docs/engines.md.

Run `python bench/server_tables.py [ROWS [REPEATS]]`. It starts a server of its own, of the package that
scripts/system-packages installs.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import postgres_server as postgres
import sordino as sd
from sordino.ask.curator.adaptive_session import AdaptiveSession
from sordino.ask.curator.plan import DataAccess

if TYPE_CHECKING:
    import pyarrow as pa

    from sordino.ask.engines.engine import Statement
    from sordino.ask.queries.queryable import Inquiry
    from sordino.core.loss import Loss

ROWS = """
    CREATE TABLE people AS SELECT CAST(i % 100000 AS TEXT) AS id, i % 97 AS age, CAST(i % 777 AS DOUBLE PRECISION) / 7 AS gain,
        CAST(CAST(i % 1000 AS NUMERIC) / 100 AS NUMERIC(10, 2)) AS cost, (ARRAY['F', 'M'])[1 + i % 2] AS sex
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
    "median": (
        "SELECT MEDIAN(age) FROM people",
        False,
        "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY LEAST(GREATEST(age, 0), 125)) FROM people",
    ),
    "count, max_rows 5": (
        "SELECT COUNT(*) FROM people",
        True,
        f"SELECT COUNT(*) FROM (SELECT {RANK} FROM people) AS ranked WHERE n <= 5",
    ),
}


def measure(work: Callable[[], object], repeats: int = 3) -> float:
    """Return the least of so many times, in milliseconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return 1000 * min(times)


def fit(curator: sd.Curator) -> str:
    """Fit a model; return how long it took, and how often it read the table for how many questions of its own."""
    scans, releases = 0, 0
    run, release = DataAccess.run, AdaptiveSession.release

    def count_scan(self: DataAccess, statement: Statement) -> pa.Table:
        nonlocal scans
        scans += 1
        return run(self, statement)

    def count_release(self: AdaptiveSession, query: Inquiry, loss: Loss) -> sd.Release:
        nonlocal releases
        releases += 1
        return release(self, query, loss)

    with patch.object(DataAccess, "run", count_scan), patch.object(AdaptiveSession, "release", count_release):
        spent = measure(partial(sd.synth.fit, curator, epsilon=1), 1)
    return f"synth fit: {spent:.0f} ms, {scans} scans for {releases} rounds"


def run(server: postgres.Server, rows: int, repeats: int) -> None:
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
            ask = measure(partial(curators[capped].ask, sd.sql(question), epsilon=1), repeats)
            beside = measure(partial(plain.execute, aggregate.encode()), repeats)
            print(f"{name}: {ask:.0f} ms, plain {beside:.0f} ms, {ask / beside:.2f} times", flush=True)
    print(fit(curators[0]))
    for curator in curators:
        curator.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="sordino-bench-", ignore_cleanup_errors=True) as place:
        started = postgres.start(Path(place))
        try:
            given = [int(text) for text in sys.argv[1:]]
            run(started, *given, *(1_000_000, 3)[len(given) :])
        finally:
            started.stop()
