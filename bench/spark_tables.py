"""An ask of three million rows in Parquet on Spark beside the plain SQL in the same session, best of three; see docs/engines.md.

Run `python bench/spark_tables.py [ROWS [REPEATS]]`. It needs pyspark and Java 17, and starts a session of two threads.
"""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))

from pyspark.sql import SparkSession
from server_tables import fit, measure

import sordino as sd

ROWS = """
    SELECT CAST(id % 97 AS INT) AS age, CAST(id % 777 AS DOUBLE) / 7 AS gain,
        CAST(CAST(id % 1000 AS DECIMAL(10, 2)) / 100 AS DECIMAL(10, 2)) AS cost, IF(id % 2 = 0, 'F', 'M') AS sex
    FROM RANGE(1, {rows} + 1, 1, 4)
"""
DOMAIN = sd.Domain(
    {
        "age": sd.Integer(0, 125),
        "gain": sd.Real(0, 111, resolution=0.01),
        "cost": sd.Real(0, 10, resolution=0.01),
        "sex": sd.Category(["F", "M"]),
    }
)
WORK = {  # the question, and the plain aggregate, which clips as the question does
    "count": ("SELECT COUNT(*) FROM people", "SELECT COUNT(*) FROM people"),
    "group-by count and mean": (
        "SELECT sex, COUNT(*), AVG(age) FROM people GROUP BY sex",
        "SELECT sex, COUNT(*), AVG(LEAST(GREATEST(age, 0), 125)) FROM people GROUP BY sex",
    ),
    "median": (
        "SELECT MEDIAN(age) FROM people",
        "SELECT percentile(LEAST(GREATEST(age, 0), 125), 0.5) FROM people",
    ),
    "sum of a float": ("SELECT SUM(gain) FROM people", "SELECT SUM(LEAST(GREATEST(gain, 0), 111)) FROM people"),
    "sum of a decimal": ("SELECT SUM(cost) FROM people", "SELECT SUM(LEAST(GREATEST(cost, 0), 10)) FROM people"),
}


def collect(session: SparkSession, text: str) -> object:
    """Return the answer of plain SQL."""
    return session.sql(text).toArrow()


def run(session: SparkSession, place: str, rows: int, repeats: int) -> None:
    """Print a line for each piece of work."""
    session.sql(ROWS.format(rows=rows)).write.parquet(place)
    frame = session.read.parquet(place)
    frame.createOrReplaceTempView("people")
    held = sd.protect(
        frame,
        name="people",
        domain=DOMAIN,
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.PureDP(10**6),
        ledger=None,
    )
    for name, (question, aggregate) in WORK.items():
        ask = measure(partial(held.ask, sd.sql(question), epsilon=1), repeats)
        beside = measure(partial(collect, session, aggregate), repeats)
        print(f"{name}: {ask:.0f} ms, plain {beside:.0f} ms, {ask / beside:.2f} times", flush=True)
    print(fit(held))
    held.close()


if __name__ == "__main__":
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.sql.shuffle.partitions", "2")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    started = builder.getOrCreate()
    started.sparkContext.setLogLevel("OFF")
    try:
        with tempfile.TemporaryDirectory(prefix="sordino-bench-", ignore_cleanup_errors=True) as directory:
            given = [int(text) for text in sys.argv[1:]]
            run(started, f"{directory}/people", *given, *(3_000_000, 3)[len(given) :])
    finally:
        started.stop()
