"""A real cluster of several processes: answers are exact, an executor may die, and a session that stopped costs nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from places import ROOT

PROGRAM = """
import os, signal, threading, time
from pathlib import Path
from pyspark.sql import SparkSession
import sordino as sd
from sordino.errors import SourceError

session = (
    SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false")
    .config("spark.driver.memory", "1g").config("spark.sql.shuffle.partitions", "4")
    .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
)
session.sparkContext.setLogLevel("OFF")
application = session.sparkContext.applicationId


def executors():
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes().decode("utf-8", "replace").split("\\0")
        except OSError:
            continue
        if application in words and any("ExecutorBackend" in word for word in words):
            found.append(int(place.parent.name))
    return found


def protect(frame):
    return sd.protect(
        frame, domain=sd.Domain({"age": sd.Integer(0, 125), "id": sd.Identifier()}), neighbors="add_remove",
        privacy_unit=sd.PrivacyUnit("id", max_rows=3), budget=sd.PureDP(10**9), ledger=None,
    )


rows = session.range(200_000).selectExpr("CAST(id % 90 AS INT) AS age", "CAST(id % 80000 AS STRING) AS id")
people = protect(rows.repartition(8))
assert len(executors()) == 2
found = people.ask(sd.sql("SELECT COUNT(*), SUM(age) FROM data"), epsilon=10**6).rows[0]
expected = sum(i % 90 for i in range(200_000))
assert (round(found["count"]), round(found["sum_age"])) == (200_000, expected), found

slow = rows.repartition(8).where("length(sha2(repeat(CAST(age AS STRING), 20000), 512)) > 0")
watched = protect(slow)
killed = []


def kill():
    time.sleep(2)
    one = executors()[0]
    os.kill(one, signal.SIGKILL)
    killed.append(one)


thread = threading.Thread(target=kill)
thread.start()
found = watched.ask(sd.sql("SELECT COUNT(*), SUM(age) FROM data"), epsilon=10**6).rows[0]
thread.join()
assert killed
assert (round(found["count"]), round(found["sum_age"])) == (200_000, expected), found

spent = people.spent.amounts()
session.stop()
try:
    people.ask(sd.sql("SELECT COUNT(*) FROM data WHERE age > 3"), epsilon=1)
except SourceError as error:
    assert "the Spark session is stopped, or its cluster was lost" in str(error), error
else:
    raise AssertionError("a stopped session answered")
assert people.spent.amounts() == spent
print("all is well")
"""


@pytest.mark.deep
def test_a_cluster_of_processes_answers_and_may_lose_one() -> None:
    pytest.importorskip("pyspark", reason="pyspark is not here: pip install 'sordino[spark]'")
    if shutil.which("java") is None:
        pytest.skip("Java is not here: scripts/system-packages installs it (apt-get install openjdk-17-jre-headless)")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=500,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        check=False,
    )
    assert done.stdout.endswith("all is well\n"), done.stderr[-3000:]
