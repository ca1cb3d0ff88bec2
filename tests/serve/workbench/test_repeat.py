"""Exports of every kind of answer: files of its numbers, and programs that are run and ask the same again."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from serving import Served
from sordino.core.loss import ApproxDP
from sordino.serve.server.opening import open_service
from sordino.serve.workbench.workbench_app import workbench_app
from visiting import Person, listening, person_of

PROJECT = """
[budgets.visits]
cap = {epsilon = 100, delta = "1e-3"}
ledger = "visits.ledger"

[tables.visits]
source = "visits.parquet"
budget = "visits"
neighbors = "add_remove"
privacy_unit = {column = "who", max_rows = 4}

[tables.visits.columns]
who = {type = "identifier"}
age = {type = "integer", lower = 0, upper = 120}
town = {type = "identifier"}
sex = {type = "category", values = ["f", "m"]}
day = {type = "date", lower = 2024-01-01, upper = 2024-12-31}

[serve]
answer_every = "1ms"
"""
DELTA = {"epsilon": "1", "delta": "1e-6"}
KINDS: dict[str, dict[str, Any]] = {
    "groups": {"sql": "SELECT sex, COUNT(*) AS n, AVG(age) AS a FROM visits GROUP BY sex", "epsilon": "1/3"},
    "weights": {
        "sql": "SELECT COUNT(*) AS n, MEDIAN(age) AS s FROM visits",
        "epsilon": "1",
        "weights": {"n": 1, "s": "5/2"},
    },
    "quantiles": {"sql": "SELECT MEDIAN(age) AS m, QUANTILE_CONT(age, 0.9) AS q FROM visits", "epsilon": "1"},
    "private keys": {"sql": "SELECT town, COUNT(*) AS n FROM visits GROUP BY town", "min_units": 10, **DELTA},
    "dialect": {"sql": 'SELECT COUNT(*) AS n FROM visits WHERE sex = "f"', "dialect": "bigquery", "epsilon": "1"},
    "bounds": {"sql": "SELECT COUNT(*) AS n FROM visits", "max_rows": 2, "epsilon": "1"},
    "hints": {"sql": 'SELECT COUNT(*) AS n FROM visits /* \'an "aside"\\ */', "epsilon": "1"},
    "keys": {
        "sql": "SELECT town, COUNT(*) AS n FROM visits GROUP BY town",
        "keys": [["t1"], ['it\'s "t"']],
        "epsilon": "1",
    },
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Person, str]]:
    directory = tmp_path_factory.mktemp("repeat")
    rows = range(4000)
    columns: dict[str, Any] = {"who": [f"w{i // 2}" for i in rows], "age": [i % 100 for i in rows]}
    columns |= {"town": [f"t{i % 7}" for i in rows], "sex": ["fm"[i % 2] for i in rows]}
    columns["day"] = pa.array([19723 + i % 300 for i in rows], pa.int32()).cast(pa.date32())
    pq.write_table(pa.table(columns), directory / "visits.parquet")
    (directory / "sordino.toml").write_text(PROJECT)
    made = Served(open_service(directory / "sordino.toml"))
    made.add("ana", "analyst")
    made.service.set_share("test", "ana", "visits", lambda _: ApproxDP("90", delta="9e-4"))
    person = person_of(made)
    with listening(workbench_app(made.service)) as address:
        yield made, person, address
    made.service.close()


def run(program: str) -> sd.Release:
    names: dict[str, Any] = {}
    exec(compile(program, "repeat", "exec"), names)
    made = names["release"]
    assert isinstance(made, sd.Release)
    return made


def programs(person: Person, place: str) -> tuple[str, str]:
    """Return the script, and the notebook's code."""
    notebook = person.get(f"{place}/export/ipynb").json()
    assert "cells" in notebook, notebook
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return person.get(f"{place}/export/py").text, "\n".join(cells)


def check(site: tuple[Served, Person, str], charge: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at each file of an answer, then run its script beside the project file and its notebook far away."""
    server, person, address = site
    place = f"/history/visits/{charge}"
    first = sd.Release.from_dict(json.loads(server.service.ledger("visits").answer(charge)))
    assert sd.Release.from_dict(person.get(f"{place}/export/json").json()) == first
    head, *rows = csv.reader(io.StringIO(person.get(f"{place}/export/csv").text))
    assert head[: len(first.keys)] == [key.name for key in first.keys]
    assert len(rows) == first.table.num_rows
    assert person.get(f"{place}/export/png").content.startswith(b"\x89PNG")
    path = str(server.service.project.path)
    monkeypatch.setenv("SORDINO_TOKEN", server.tokens["ana"])
    script, notebook = programs(person, place)
    assert "https://curator.example" not in script + notebook
    assert server.tokens["ana"] not in script + notebook
    near = "\n".join(line for line in script.splitlines() if not line.startswith("connection = "))
    near = near.replace("# connection = sd.connect('sordino.toml')", f"connection = sd.connect({path!r})")
    for program in (near, notebook.replace("http://test", address)):
        made = run(program)
        assert (made.question, made.cost) == (first.question, first.cost)
        assert [(o.name, o.mechanism) for o in made.outputs] == [(o.name, o.mechanism) for o in first.outputs]


@pytest.mark.deep
@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_in_sql_is_exported_and_repeated(
    site: tuple[Served, Person, str], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = site[0].send("POST", "/v1/ask", json=KINDS[kind])
    assert answer.status_code == 200, answer.text
    check(site, answer.json()["charge"], monkeypatch)


@pytest.mark.deep
def test_each_of_a_batch_is_repeated_at_its_own_loss(
    site: tuple[Served, Person, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "SELECT COUNT(*) AS n FROM visits; SELECT MEDIAN(age) AS m FROM visits"
    answers = site[0].send("POST", "/v1/ask", json={"sql": text, "epsilon": "1", "weights": [1, 3]}).json()
    charges = [one["charge"] for one in answers]
    assert len(charges) == 2
    for charge in charges:
        check(site, charge, monkeypatch)


def test_a_question_in_python_is_repeated(site: tuple[Served, Person, str], monkeypatch: pytest.MonkeyPatch) -> None:
    server, _, address = site
    with sd.connect(address, token=server.tokens["ana"]) as connection:
        table = connection.table("visits")
        asked = table.where(sd.col("age") > 30).group_by("sex").agg(sd.mean("age").alias("a"), sd.count().alias("n"))
        made = table.ask(asked, epsilon="1/2", share="relative", scale={"a": 2, "n": 9}, assume_rows=900)
        check(site, made.charge, monkeypatch)
        planned = table.ask(table.plan([sd.count().alias("n")], error=40))
        check(site, (planned[0] if isinstance(planned, list) else planned).charge, monkeypatch)
