"""What fails on Spark: before the charge where it can be known, else the charge stands and says why, in our own words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from protecting import protect
from sordino.ask.engines.readers.spark_tables import check_settings
from sordino.core.source import Source
from sordino.errors import ChargedError, DeclarationError, QuestionRefused, SourceError
from test_forks import in_child

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


DOMAIN = sd.Domain({"age": sd.Integer(0, 125), "name": sd.Identifier()})
SECRET = "S3CRET-9f"
PROJECT = """
[budgets.people]
cap = {{epsilon = 100}}
ledger = "{ledger}.ledger"

[tables.people]
source = "{source}"
{more}
budget = "people"
neighbors = "add_remove"
privacy_unit = "row"

[tables.people.columns]
age = {{type = "integer", lower = 0, upper = 125}}
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with 1,000 people in two Parquet files."""
    (tmp_path / "people").mkdir()
    for part in (0, 1):
        rows = range(part, 1000, 2)
        cells = {"age": pa.array([i % 90 for i in rows], pa.int32()), "name": [f"n{i}" for i in rows]}
        pq.write_table(pa.table(cells), tmp_path / "people" / f"{part}.parquet")
    return tmp_path / "people"


def test_what_changed_since_it_was_opened_is_refused_before_the_charge(spark: SparkSession, place: Path) -> None:
    spark.read.parquet(str(place)).write.saveAsTable("changing")
    try:
        people = protect("spark:changing", DOMAIN)
        plan = people.plan(sd.count(), epsilon=1)
        people.ask(plan)
        spark.sql("DROP TABLE changing")
        with pytest.raises(SourceError, match="there is no such table or view"):
            people.ask(sd.sum("age"), epsilon=1)
        spark.sql("CREATE TABLE changing AS SELECT 'x' AS age, 'n' AS name")
        with pytest.raises(SourceError, match="not as it was when it was opened"):
            people.ask(sd.sum("age"), epsilon=1)
        spark.sql("DROP TABLE changing")
        spark.sql("CREATE TABLE changing AS SELECT 'n' AS name")
        with pytest.raises(DeclarationError, match="no such column"):
            people.ask(sd.sum("age"), epsilon=1)
        assert people.spent.amounts() == {"epsilon": 1}
    finally:
        spark.sql("DROP TABLE IF EXISTS changing")


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("spark:no_such_table", "there is no such table or view"),
        ("spark:no_such_catalog.a.b", "no such"),
        ("spark:a; DROP TABLE b", "spark:catalog.schema.table"),
        (Source("no-such-folder", "parquet", engine="spark"), "there is no such path"),
        (
            Source("no-such-folder", "delta"),
            "no reader of delta tables: .*io.delta:delta-spark_2.13.*without Spark, sd.protect",
        ),
        (
            Source("no-such-folder", "iceberg"),
            "no reader of iceberg tables: start it with .*iceberg-spark-runtime-4.0_2.13.*without Spark, sd.protect",
        ),
    ],
)
def test_a_source_that_is_not_there_says_so(source: Any, says: str, spark: SparkSession) -> None:
    from sordino.ask.engines.opening import open_source

    assert spark.version
    held = source if isinstance(source, Source) else Source(source, "spark")
    with pytest.raises(SourceError, match=says):
        open_source(held, domain=DOMAIN, unit=None)


def test_the_files_of_a_delta_table_are_not_read_as_parquet(spark: SparkSession, tmp_path: Path) -> None:
    from sordino.ask.engines.opening import open_source

    assert spark.version
    (tmp_path / "people" / "_delta_log").mkdir(parents=True)
    with pytest.raises(SourceError, match=r"a Delta table, among them .* by Spark with format = 'delta'"):
        open_source(Source(str(tmp_path / "people"), "parquet", engine="spark"), domain=DOMAIN, unit=None)


def test_a_file_that_goes_in_mid_question_leaves_the_charge(spark: SparkSession, place: Path, tmp_path: Path) -> None:
    frame = spark.read.parquet(str(place))
    people = protect(frame, DOMAIN, ledger=tmp_path / "a.ledger")
    people.ask(sd.count(), epsilon=1)
    (place / "0.parquet").rename(place / "gone")
    with pytest.raises(ChargedError, match=r"the charge stands\. The table, or a file of it, is not there any more"):
        people.ask(sd.sum("age"), epsilon=1)
    assert [c.state for c in people.ledger.charges()] == ["committed", "failed"]
    (place / "gone").rename(place / "0.parquet")
    assert abs(people.ask(sd.sum("age"), epsilon=10**4).value - 44_110) < 50  # the next ask works
    people.close()


def test_what_spark_says_of_a_row_is_not_passed_on(
    spark: SparkSession, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A view that fails on a row is the user's own; its charge stands and nothing of the row is told."""
    frame = spark.sql(f"SELECT CAST(id AS INT) AS age, IF(id = 7, '{SECRET}', 'n') AS name FROM range(9)")
    failing = frame.selectExpr("age + CAST(IF(name = 'n', '0', name) AS INT) AS age", "name")
    people = protect(failing, DOMAIN, ledger=tmp_path / "a.ledger")
    with pytest.raises(ChargedError) as failed:
        people.ask(sd.sum("age"), epsilon=1)
    assert "could not be computed; the charge stands" in str(failed.value)
    cause: BaseException | None = failed.value
    while cause is not None:
        assert SECRET not in str(cause)
        cause = cause.__cause__ or cause.__context__
    shown = capfd.readouterr()
    assert SECRET not in shown.out + shown.err
    assert SECRET not in (tmp_path / "a.ledger").read_bytes().decode("latin-1")


def test_a_text_that_spark_cannot_read_is_refused_before_the_charge(
    spark: SparkSession, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = protect(spark.read.parquet(str(place)), DOMAIN)
    monkeypatch.setattr("sordino.ask.engines.spark._WIDE", "DECIMAL(38, 0")
    for attempt in (people.plan, people.ask):
        with pytest.raises(QuestionRefused, match="Spark cannot read"):
            attempt(sd.sql("SELECT SUM(DISTINCT age) FROM data"), epsilon=1)
    assert people.spent == sd.PureDP(0)


def test_settings_are_set_before_each_question_or_refused_by_name(spark: SparkSession, place: Path) -> None:
    people = protect(spark.read.parquet(str(place)), DOMAIN)
    names = {"spark.sql.ansi.enabled": "false", "spark.sql.parquet.filterPushdown": "true"}
    for name, wrong in names.items():
        spark.conf.set(name, wrong)
    people.ask(sd.count(), epsilon=1)
    assert {spark.conf.get(name) for name in names} == {"true", "false"}


class Locked:
    """The settings of a session that keeps one of them as it is."""

    def __init__(self, session: SparkSession, name: str, value: str) -> None:
        self.conf, self._real, self._locked = self, session.conf, (name, value)

    def get(self, name: str) -> str | None:
        return self._locked[1] if name == self._locked[0] else self._real.get(name)

    def set(self, name: str, value: str) -> None:
        if name != self._locked[0]:
            self._real.set(name, value)


@pytest.mark.parametrize(
    ("name", "wrong"), [("spark.sql.ansi.enabled", "false"), ("spark.sql.parquet.filterPushdown", "true")]
)
def test_a_setting_that_cannot_be_set_is_named(name: str, wrong: str, spark: SparkSession) -> None:
    locked: Any = Locked(spark, name, wrong)
    with pytest.raises(SourceError, match=f"does not let {name} be {'true' if wrong == 'false' else 'false'}"):
        check_settings(locked)


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda s: s.sql("SELECT 1 AS age, binary('a') AS name"), "is held as binary"),
        (lambda s: s.sql("SELECT map(1, 2) AS age, 'a' AS name"), "is held as map"),
        (lambda s: s.sql("SELECT 1 AS age, 'a' AS name, 2 AS sordino_x"), "are reserved"),
        (lambda s: s.sql("SELECT 1 AS age, 'a' AS name, 2 AS AGE"), "name differs only in case"),
        (lambda s: s.sql("SELECT 1 AS Age, 'a' AS name"), "no such column"),
    ],
)
def test_columns_that_cannot_be_read_are_refused(
    build: Callable[[SparkSession], Any], says: str, spark: SparkSession
) -> None:
    with pytest.raises(DeclarationError, match=says):
        protect(build(spark), DOMAIN)


def test_a_project_file_names_a_table_or_files(spark: SparkSession, place: Path, tmp_path: Path) -> None:
    spark.read.parquet(str(place)).createOrReplaceTempView("people_view")
    for source, more in (("spark:people_view", ""), ("people", 'engine = "spark"')):
        path = tmp_path / "sordino.toml"
        path.write_text(
            PROJECT.format(source=source, more=more, ledger=more[:6] or "name")
            + '[engine.spark]\n"spark.master" = "local[2]"\n'
        )
        assert sd.check_project(path) == []
        people = sd.connect(path).table("people")
        assert abs(people.ask(sd.count(), epsilon=10).value - 1000) < 10
        people.close()
    for line, says in (
        ('"spark.hadoop.fs.s3a.secret.key" = "x"', "is a secret"),
        ('spark.master = "local[2]"', "one key in quotes"),
        ('"master" = "local[2]"', "one key in quotes"),
    ):
        path.write_text(PROJECT.format(source="spark:t", more="", ledger="a") + f"[engine.spark]\n{line}\n")
        assert says in str(sd.check_project(path)[0])
    path.write_text(
        PROJECT.format(source="a.csv", more='engine = "spark"\nformat = "csv"\ncsv = {header = true}', ledger="a")
    )
    assert "reads Parquet, Delta and Iceberg" in str(sd.check_project(path)[0])


def test_a_session_that_is_stopped_is_refused_before_the_charge() -> None:
    stopped: Any = type("Stopped", (), {"conf": property(lambda _: (_ for _ in ()).throw(RuntimeError("stopped")))})()
    with pytest.raises(SourceError, match="the Spark session is stopped"):
        check_settings(stopped)


def test_a_forked_process_is_refused_before_the_charge(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.sql("SELECT 1 AS age, 'a' AS name")
    people = protect(frame, DOMAIN, ledger=tmp_path / "people.ledger")
    people.ask(sd.count(), epsilon=1)
    refusal = in_child(lambda: people.ask(sd.count(), epsilon=1).value)
    assert refusal.startswith("SourceError: a forked process cannot use the Spark session")
    assert [charge.state for charge in people.ledger.charges()] == ["committed"]
    people.ask(sd.count(), epsilon=1)
