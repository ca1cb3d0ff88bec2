"""The commands on a table of a PostgreSQL server: they work as on a file, and a model is fitted with as many scans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

import postgres_server as postgres
import sordino as sd
from cli.support import Run, read_json
from sordino import synth
from sordino.ask.engines.duckdb import DuckDBEngine
from sordino.ask.engines.postgres import PostgresSnapshot
from sordino.errors import SourceError

ROWS = """
    SELECT CAST(i AS TEXT) AS id, CAST(i * i % 97 AS INTEGER) AS age, CASE i % 3 WHEN 0 THEN 'F' WHEN 1 THEN ' M ' END AS sex,
        CAST(i % 60 AS DOUBLE PRECISION) / 4 AS cost, CAST('2024-01-01' AS DATE) + CAST(i % 360 AS INTEGER) AS day
    FROM generate_series(1, 3000) AS numbers(i)
"""
PROJECT = """
[budgets.all]
cap = {epsilon = 100, delta = 1e-6}
ledger = "all.ledger"

[tables.people]
source = "SOURCE"
relation = "people"
budget = "all"
neighbors = "add_remove"
privacy_unit = {column = "id", max_rows = 1}

[tables.people.columns]
id = {type = "identifier"}
age = {type = "integer", lower = 0, upper = 125}
sex = {type = "category", values = ["F", "M"], missing = "keep"}
cost = {type = "real", lower = 0, upper = 20, resolution = 0.25}
day = {type = "date", lower = "2024-01-01", upper = "2024-12-31"}
"""


@pytest.fixture
def places(postgres_server: postgres.Server, postgres_database: str, tmp_path: Path) -> dict[str, str]:
    """The same rows on the server and in a DuckDB file."""
    postgres_server.execute(f"CREATE TABLE people AS {ROWS}", database=postgres_database.rpartition("/")[2])
    with duckdb.connect(str(tmp_path / "people.duckdb")) as file:
        file.execute(f"CREATE TABLE people AS {ROWS}")
    return {"server": postgres_database, "file": str(tmp_path / "people.duckdb")}


@pytest.fixture
def project(places: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project of the table on the server, as the working directory."""
    (tmp_path / "sordino.toml").write_text(PROJECT.replace("SOURCE", places["server"]))
    monkeypatch.chdir(tmp_path)


def open_people(place: str) -> sd.Curator:
    loaded: dict[str, Any] = {
        "id": sd.Identifier(),
        "age": sd.Integer(0, 125),
        "sex": sd.Category(["F", "M"], missing="keep"),
        "cost": sd.Real(0, 20, resolution=0.25),
        "day": sd.Date("2024-01-01", "2024-12-31"),
    }
    return sd.protect(
        place,
        relation="people",
        domain=sd.Domain(loaded),
        neighbors="add_remove",
        privacy_unit=sd.PrivacyUnit("id", max_rows=1),
        budget=sd.ApproxDP(1000, "1e-3"),
        ledger=None,
        rng=sd.Rng.seeded(5),
    )


@pytest.mark.deep
@pytest.mark.parametrize("method", [synth.MST().fit, synth.fit], ids=["MST", "adaptive"])
def test_a_model_of_a_server_is_that_of_a_file_with_as_many_scans(
    method: Any, places: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seeded noise over the same exact counts: the same model, row by row."""
    scans: Counter[str] = Counter()

    def count(owner: Any, name: str) -> None:
        run = owner.run

        def counted(self: Any, select: Any) -> Any:
            scans[name] += 1
            return run(self, select)

        monkeypatch.setattr(owner, "run", counted)

    count(PostgresSnapshot, "server")
    # In arrays a file counts more tables in a scan: it is compared where both scan by SQL.
    monkeypatch.delattr(DuckDBEngine, "count_tables")
    count(DuckDBEngine, "file")
    drawn = {}
    for name, place in places.items():
        people = open_people(place)
        model = method(people, epsilon=20, rng=sd.Rng.seeded(2))
        drawn[name] = model.sample(500, rng=sd.Rng.seeded(1))
        people.close()
    assert str(drawn["server"]) == str(drawn["file"])
    assert scans["server"] == scans["file"] <= 12


SEARCHES: list[Callable[[sd.Curator], Any]] = [
    lambda people: people.find_bounds("cost", epsilon=50),
    lambda people: people.find_bounds("age", method="quantile", epsilon=50),
    lambda people: people.find_contribution_bounds(by="day", epsilon=50),
    lambda people: people.find_contribution_bounds(epsilon=50),
    lambda people: people.ask(
        sd.sql("SELECT sex, QUANTILE_CONT(cost, 0.1), MEDIAN(age) FROM people GROUP BY sex"), epsilon=50
    ),
]


@pytest.mark.deep
@pytest.mark.parametrize("search", SEARCHES)
def test_searches_find_on_a_server_what_they_find_in_a_file(search: Any, places: dict[str, str]) -> None:
    found = []
    for place in places.values():
        people = open_people(place)
        found.append(search(people).rows)
        people.close()
    assert found[0] == found[1]


@pytest.mark.usefixtures("project")
def test_each_command_that_reads_a_table_reads_it_from_a_server(run: Run) -> None:
    assert run("check").code == 0
    assert "3,000" in run("check", "--against-data").out
    fitted = run("synth", "fit", "--epsilon", "5", "--columns", "age,sex,day", "-o", "people.model")
    assert fitted.code == 0, fitted.err
    assert (
        len(
            read_json(
                run(
                    "synth",
                    "answer",
                    "people.model",
                    "SELECT sex, COUNT(*) FROM people GROUP BY sex",
                    "--format",
                    "json",
                )
            )["rows"]
        )
        == 3
    )
    assert read_json(run("bounds", "cost", "--epsilon", "5", "--format", "json"))["charge"] == "c-0002"
    assert run("caps", "--by", "day", "--epsilon", "5").code == 0
    asked = read_json(
        run("ask", "SELECT sex, MEDIAN(age) FROM people GROUP BY sex", "--epsilon", "5", "--format", "json")
    )
    assert len(asked["rows"]) == 3
    assert run("dummy", "-o", "dummy.parquet").code == 0
    assert run("report", "-o", "board.html").code == 0
    assert read_json(run("budget", "--format", "json"))
    assert run("ledger", "verify").code == 0


@pytest.mark.usefixtures("project")
def test_a_server_that_is_down_costs_nothing(run: Run, postgres_server: postgres.Server) -> None:
    """Neither a model, nor a search, nor a session, nor a question."""
    people = sd.connect().table("people")
    postgres_server.stop("fast")
    try:
        for attempt in (
            lambda: people.find_bounds("cost", epsilon=1),
            lambda: synth.fit(people, columns=["age"], epsilon=1),
            lambda: people.above_threshold(count=1, epsilon=1),
            lambda: people.ask(sd.mean("cost"), epsilon=1),
        ):
            with pytest.raises(SourceError, match="no server answers there"):
                attempt()
        assert run("synth", "fit", "--epsilon", "5", "-o", "people.model").code == 2
        assert run("ask", "SELECT COUNT(*) FROM people", "--epsilon", "5").code == 2
    finally:
        postgres_server.start()
    assert people.spent.amounts()["epsilon"] == 0
    assert not Path("people.model").exists()
    assert abs(people.ask(sd.count(), epsilon=20).value - 3000) < 9
