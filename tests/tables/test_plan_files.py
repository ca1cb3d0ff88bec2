"""Tabulations as data: plan files on the command line, the same keys over HTTP, and what is refused of them."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import python_calamine

import sordino as sd
from serving import Served, served
from sordino.ask.queries.sql.tabulation_plan import read_tabulation
from sordino.cli.main import main
from sordino.core.release import Release
from sordino.serve.remote.questions import RemotePlan

PLAN = """
table = "people"
tables = [["sex", "decade"], ["sex"], []]
epsilon = 0.5
where = "age < 90"

[columns]
decade = "BIN(age, 0, 30, 60, 120)"

[measures]
n = "COUNT(*)"
years = "SUM(age)"

[weights]
"decade, sex" = 2
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server for questions that it refuses."""
    with served(tmp_path_factory.mktemp("refusing")) as made:
        yield made


def write_plan(server: Served, text: str = PLAN) -> tuple[Path, Path, list[str]]:
    """Return a plan file, a folder for its tables, and the options that name the project."""
    path = server.service.project.path
    assert path is not None
    plan = path.parent / "plan.toml"
    plan.write_text(text)
    return plan, path.parent / "tables", ["--project", str(path)]


def test_a_folder_of_tables(server: Served, capsys: pytest.CaptureFixture[str]) -> None:
    plan, folder, project = write_plan(server)
    assert main(["tabulate", str(plan), "-o", str(folder), *project]) == 0
    assert "wrote 3 tables" in capsys.readouterr().err
    assert sorted(path.name for path in folder.iterdir()) == [
        "csv-metadata.json",
        "release.json",
        "sex.csv",
        "sex_decade.csv",
        "total.csv",
    ]
    release = Release.from_dict(json.loads((folder / "release.json").read_text()))
    with (folder / "sex_decade.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    assert [row["n"] for row in rows] == [str(row["n"]) for row in release.tables["sex", "decade"].to_pylist()]
    about = json.loads((folder / "csv-metadata.json").read_text())
    for table in about["tables"]:
        with (folder / table["url"]).open() as lines:
            assert next(csv.reader(lines)) == [column["name"] for column in table["tableSchema"]["columns"]]
    assert {column["name"]: column["datatype"] for column in about["tables"][0]["tableSchema"]["columns"]}[
        "n"
    ] == "integer"
    assert release.charge == "c-0001"


def test_a_plan_is_free_and_says_each_table(server: Served, capsys: pytest.CaptureFixture[str]) -> None:
    plan, folder, project = write_plan(server)
    assert main(["tabulate", str(plan), "--plan", *project]) == 0
    words = capsys.readouterr().out
    assert "sex, decade: +-" in words
    assert "nothing was spent" in words
    assert main(["tabulate", str(plan), "--plan", "--format", "json", *project]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [part["columns"] for part in data["columns"][0]["parts"]] == [["sex", "decade"], ["sex"], []]
    assert not folder.exists()
    assert server.send("GET", "/v1/releases").json()["releases"] == []


def test_a_workbook_has_a_sheet_for_each_table(server: Served) -> None:
    plan, folder, project = write_plan(server)
    path = folder.with_name("tables.xlsx")
    assert main(["tabulate", str(plan), "-o", str(path), "--request-id", "w", *project]) == 0
    assert main(["tabulate", str(plan), "-o", str(folder), "--request-id", "w", *project]) == 0
    release = Release.from_dict(json.loads((folder / "release.json").read_text()))
    book = python_calamine.CalamineWorkbook.from_path(str(path))
    assert book.sheet_names == ["Contents", "sex_decade", "sex", "total"]
    rows = book.get_sheet_by_name("sex").to_python()
    assert rows[0][0] == "by sex"
    expected = release.tables["sex"].to_pylist()
    assert [row[:2] for row in rows[3 : 3 + len(expected)]] == [[row["sex"], row["n"]] for row in expected]
    notes = [row[0] for row in rows[3 + len(expected) :]]
    assert any("made whole" in str(note) for note in notes)
    assert any("charge c-0001" in str(note) for note in notes)


def test_areas_of_a_public_file(server: Served, capsys: pytest.CaptureFixture[str]) -> None:
    text = 'tables = [["all"], ["sex"]]\nepsilon = 1\n[levels]\ncolumns = ["all", "sex"]\nareas_from = "areas.csv"'
    plan, folder, project = write_plan(server, text)
    assert main(["tabulate", str(plan), "--plan", *project]) in (2, 3)
    assert "levels.areas_from 'areas.csv' cannot be read: No such file" in capsys.readouterr().err
    plan.with_name("areas.csv").write_text("sex,everyone\nf,x\nm,x\n")
    assert main(["tabulate", str(plan), "--plan", *project]) in (2, 3)
    assert "has no column 'all'" in capsys.readouterr().err
    plan.with_name("areas.csv").write_text("sex,all\nf,x\nm,x\n")
    assert main(["tabulate", str(plan), "-o", str(folder), *project]) == 0
    release = Release.from_dict(json.loads((folder / "release.json").read_text()))
    assert sum(release.tables["sex"]["count"].to_pylist()) == release.tables["all"]["count"].to_pylist()[0]
    inline = {"columns": ["all", "sex"], "areas": [["x", "f"], ["x", "m"]]}
    body: dict[str, Any] = {
        "table": "people",
        "epsilon": "1",
        "tabulate": {"tables": [["all"], ["sex"]], "levels": inline},
    }
    assert server.send("POST", "/v1/plan", json=body).status_code == 200
    body["tabulate"]["levels"] = {"columns": ["all", "sex"], "areas_from": "areas.csv"}
    answer = server.send("POST", "/v1/plan", json=body)
    assert answer.status_code == 400
    assert "a server does not read" in answer.text


def test_parquet_files_and_a_page_hold_the_same_tables(server: Served) -> None:
    plan, folder, project = write_plan(server)
    ask = ["tabulate", str(plan), "--request-id", "w", *project]
    assert main([*ask, "-o", str(folder), "--format", "parquet"]) == 0
    assert main([*ask, "-o", str(folder.with_name("tables.html")), "--confidence", "0.8"]) == 0
    assert {path.name for path in folder.iterdir()} == {
        "release.json",
        "sex.parquet",
        "sex_decade.parquet",
        "total.parquet",
    }
    release = Release.from_dict(json.loads((folder / "release.json").read_text()))
    for table in release.tables:
        stored = pq.read_table(folder / f"{'_'.join(table) or 'total'}.parquet")
        assert stored.to_pylist() == release.tables[table].to_pylist()
        about = json.loads(stored.schema.metadata[b"sordino.release"])
        assert any("charge c-0001" in note for note in about["notes"])
    page = folder.with_name("tables.html").read_text()
    assert page.count("<section id=") == 3
    assert "intervals are at 80%" in page


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-o", "tables", "--format", "json"], "json goes with --plan"),
        (["--plan", "--format", "parquet"], "parquet is of a folder of tables"),
        (["-o", "tables.html", "--format", "csv"], "csv is of a folder of tables"),
    ],
)
def test_a_format_that_would_change_nothing_is_refused(
    server: Served, capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    plan, _, project = write_plan(server)
    assert main(["tabulate", str(plan), *options, *project]) == 2
    assert words in capsys.readouterr().err
    assert server.send("GET", "/v1/releases").json()["releases"] == []


def test_a_plan_of_several_selects_says_what_one_tabulation_would_save(
    server: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    _, _, project = write_plan(server)
    ages = "BIN(age, 0, 30, 60, 120)"
    keys = ("sex, age_group", "sex", "age_group")
    text = "; ".join(
        f"SELECT {by.replace('age_group', f'{ages} AS age_group')}, COUNT(*) AS n FROM people "
        f"GROUP BY {by.replace('age_group', ages)}"
        for by in keys
    )
    assert main(["plan", text, "--epsilon", "0.5", *project]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert 'sd.tabulate([["sex", "age_group"], ["sex"], ["age_group"]])' in shown
    assert main(["plan", text, "--epsilon", "0.5", "--format", "json", *project]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["as_tabulation"]["tables"] == [["sex", "age_group"], ["sex"], ["age_group"]]
    assert len(data["as_tabulation"]["errors_now"]) == 3


@pytest.mark.deep
def test_a_repeated_request_is_charged_once(server: Served) -> None:
    plan, folder, project = write_plan(server)
    for name in ("one", "two"):
        assert main(["tabulate", str(plan), "-o", str(folder.parent / name), "--request-id", "r", *project]) == 0
    first, second = ((folder.parent / name / "release.json").read_text() for name in ("one", "two"))
    assert first == second


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tables = 3", "tables must be a list of tables"),
        ('tables = [["sex"]]\nfinnish = "raw"', "no such key; did you mean 'finish'"),
        ('tables = [["sex"]', "is not TOML"),
        ('tables = [["sexes"]]\nepsilon = 1', "sexes"),
        ('tables = [["sex"]]', "loss"),
        ('tables = [["sex"]]\nepsilon = true', "epsilon must be a number"),
        ('tables = [["sex"]]\nepsilon = 1\nwhere = "age >"', "where"),
        ('tables = [["sex"]]\nepsilon = 1\n[measures]\nx = "AVG(age)"', "the mean of age"),
        ('tables = [["sex"]]\nepsilon = 1\n[measures]\nx = "COUNT(*), SUM(age)"', "not one aggregate"),
        ('tables = [["sex"]]\nepsilon = 1\n[weights]\nage = 3', "not tabulated"),
        ('tables = [["sex"]]\nepsilon = 1\n[errors]\nage = 3', "errors name a table 'age'"),
        ('tables = [["sex"]]\nepsilon = 1\n[errors]\nsex = 0.01', "epsilon 289 would do"),
        ('tables = [["sex"]]\nepsilon = 1\nobjective = "most"', 'objective is "sum" or "greatest"'),
        ('tables = [["sex"]]\nepsilon = 1\n[columns]\nx = "age"', "no table names"),
    ],
)
def test_a_plan_file_that_makes_no_sense_costs_nothing(
    shared_server: Served, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    plan, folder, project = write_plan(shared_server, text)
    assert main(["tabulate", str(plan), "-o", str(folder), *project]) in (2, 3)
    assert words in capsys.readouterr().err
    assert not folder.exists()
    assert [path.name for path in folder.parent.iterdir() if path.name.startswith(".tables")] == []
    assert shared_server.send("GET", "/v1/releases").json()["releases"] == []


def test_a_folder_that_is_there_is_never_written_to(server: Served, capsys: pytest.CaptureFixture[str]) -> None:
    plan, folder, project = write_plan(server)
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    assert main(["tabulate", str(plan), "-o", str(folder), *project]) == 2
    assert "exists already" in capsys.readouterr().err
    assert main(["tabulate", str(plan), *project]) == 2
    assert main(["tabulate", str(plan), "--epsilon", "1", "--plan", *project]) == 2
    assert server.send("GET", "/v1/releases").json()["releases"] == []


def test_the_server_answers_the_keys_of_a_plan_file(server: Served) -> None:
    body: dict[str, Any] = {
        "table": "people",
        "epsilon": "0.5",
        "tabulate": {
            "tables": [["sex", "decade"], ["sex"], []],
            "columns": {"decade": "BIN(age, 0, 30, 60, 120)"},
            "measures": {"n": "COUNT(*)", "years": "SUM(age)"},
            "where": "age < 90",
            "errors": {"sex": {"n": 50}},
            "objective": "sum",
            "ordered": [],
        },
    }
    plan = server.send("POST", "/v1/plan", json=body)
    assert plan.status_code == 200, plan.text
    far = RemotePlan({}, plan.json()).error(0.95)
    assert list(far) == [("sex", "decade"), ("sex",), ()]
    assert set(far["sex",]) == {"n", "years"}
    answer = server.send("POST", "/v1/ask", json=body, headers={"idempotency-key": "k"})
    assert answer.status_code == 200, answer.text
    assert server.send("POST", "/v1/ask", json=body, headers={"idempotency-key": "k"}).json() == answer.json()
    release = Release.from_dict(answer.json())
    assert list(release.tables) == [("sex", "decade"), ("sex",), ()]
    assert release.tables["sex"].num_rows == 2
    python = {"table": "people", "epsilon": "0.5", "question": sd_question()}
    assert server.send("POST", "/v1/plan", json=python).status_code == 200


def sd_question() -> Any:
    """Return a tabulation as Python's client sends it."""
    from sordino.ask.queries.question_records import question_to_json

    return question_to_json(sd.tabulate([["sex"]]))


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"table": None}, 400, "table"),
        ({"tabulate": {}}, 400, "tabulate.tables"),
        ({"tabulate": {"tables": [["sex"]], "finish": 3}}, 400, "tabulate.finish"),
        ({"sql": "SELECT COUNT(*) FROM people"}, 400, "sql"),
        ({"tabulate": {"tables": [["sex"], ["sex"]]}}, 422, "are the same"),
        ({"tabulate": {"tables": [["sex"]], "where": "EXISTS (SELECT 1 FROM people)"}}, 422, ""),
    ],
)
def test_bad_bodies_are_refused(shared_server: Served, change: dict[str, Any], status: int, words: str) -> None:
    body = {"table": "people", "epsilon": "0.5", "tabulate": {"tables": [["sex"]]}, **change}
    answer = shared_server.send(
        "POST", "/v1/ask", json={name: value for name, value in body.items() if value is not None}
    )
    assert answer.status_code == status, answer.text
    assert words in answer.text
    assert shared_server.send("GET", "/v1/releases").json()["releases"] == []


def test_names_of_columns_are_never_read_as_sql() -> None:
    question = read_tabulation({"tables": [["a); DROP", "b"]]})
    assert [key.alias for key in question.keys] == ["a); DROP", "b"]
