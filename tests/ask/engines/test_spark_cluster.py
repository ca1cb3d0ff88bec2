"""A real cluster of several processes, and Spark Connect: answers are exact, an executor may die, failures tell nothing."""

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
found = people.ask(sd.sql("SELECT COUNT(*) AS n, SUM(age) AS years FROM data"), epsilon=10**6).rows[0]
expected = sum(i % 90 for i in range(200_000))
assert (round(found["n"]), round(found["years"])) == (200_000, expected), found

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
found = watched.ask(sd.sql("SELECT COUNT(*) AS n, SUM(age) AS years FROM data"), epsilon=10**6).rows[0]
thread.join()
assert killed
assert (round(found["n"]), round(found["years"])) == (200_000, expected), found

"""


STOP = """
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
CONNECT = """
import pyarrow as pa
import sordino as sd
from sordino.ask.engines.readers.spark_tables import open_session
from sordino.errors import ChargedError, SourceError
from sordino.ask.queries.build import Selection

SECRET = "S3CRET-9f"
session = open_session([("spark.remote", "local[2]"), ("spark.sql.shuffle.partitions", "2")])
assert "connect" in type(session).__module__
rows = session.range(2000).selectExpr(
    "CAST(id % 90 AS INT) AS age", "CAST(id % 800 AS STRING) AS id", "IF(id % 2 = 0, 'F', 'M') AS sex"
)
sizes = sd.public(
    pa.table({"sex": ["F", "M"], "size": ["s", "l"]}), key="sex",
    columns=sd.Domain({"sex": sd.Category(["F", "M"]), "size": sd.Category(["s", "l"])}),
)
domain = sd.Domain({"age": sd.Integer(0, 125), "id": sd.Identifier(), "sex": sd.Category(["F", "M"])})


def protect(source, unit, **more):
    return sd.protect(
        source, domain=domain, neighbors="add_remove", privacy_unit=unit, budget=sd.ApproxDP(10**9, "0.9"), **more
    )


people = protect(rows, sd.PrivacyUnit("id", max_rows=3), ledger=None, public={"sizes": sizes})
asked = "SELECT sex, COUNT(*) AS n, SUM(age) AS years, MEDIAN(age) AS middle FROM data GROUP BY sex"
found = people.ask(sd.sql(asked), epsilon=10**6).rows
ages = {sex: [i % 90 for i in range(2000) if i % 2 == (sex == "M")] for sex in "FM"}
assert [(r["sex"], r["n"], r["years"]) for r in found] == [(s, 1000, sum(a)) for s, a in ages.items()], found
assert [r["middle"] for r in found] == [44, 45], found
asked = "SELECT sizes.size, COUNT(*) FROM data JOIN sizes USING (sex) GROUP BY sizes.size"
assert {r["size"]: round(r["count_star()"]) for r in people.ask(sd.sql(asked), epsilon=10**6).rows} == {"s": 1000, "l": 1000}
found = people.ask(Selection().sample("1/2").agg(sd.count(), sd.median("age")), epsilon=50, delta="1e-9").rows[0]
assert 600 < found["count"] < 1400, found

rows.createOrReplaceTempView("ages")
named = protect("spark:ages", "row", ledger=None)
assert named.ask(sd.count(), epsilon=10**6).value == 2000
try:
    protect("spark:no_such", "row", ledger=None)
except SourceError as error:
    assert "there is no such table or view" in str(error), error
else:
    raise AssertionError("a table that is not there was opened")

broken = f"CAST(IF(id = '7', '{SECRET}', '0') AS INT) + age AS age"
failing = protect(rows.selectExpr(broken, "id", "sex"), "row", ledger=None)
try:
    failing.ask(sd.sum("age"), epsilon=1)
except ChargedError as error:
    while error is not None:
        assert SECRET not in str(error), error
        error = error.__cause__ or error.__context__
else:
    raise AssertionError("a view that fails answered")

"""


@pytest.mark.deep
@pytest.mark.parametrize("program", [PROGRAM, CONNECT], ids=["local-cluster", "connect"])
def test_a_cluster_of_processes_answers(program: str) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not here: pip install 'sordino[spark]'")
    if program == CONNECT:
        pytest.importorskip("grpc_status", reason="pip install 'pyspark[connect]'")
    if shutil.which("java") is None:
        pytest.skip("Java is not here: scripts/system-packages installs it (apt-get install openjdk-17-jre-headless)")
    done = subprocess.run(
        [sys.executable, "-c", program + STOP],
        capture_output=True,
        text=True,
        timeout=500,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        check=False,
    )
    assert done.stdout.endswith("all is well\n"), done.stderr[-3000:]
    assert "S3CRET" not in done.stdout
