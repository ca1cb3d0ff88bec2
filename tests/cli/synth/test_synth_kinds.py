"""Columns as people have them, from a project file to synthetic rows: every kind, missing values, units of several rows."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from cli.support import Run, enter_copy
from sordino.cli.main import main

ROWS = 4_000
PROJECT = """\
[budgets.people]
cap = {epsilon = 1000.0, delta = 1e-3}
ledger = "people.ledger"
[tables.people]
source = "people.parquet"
budget = "people"
neighbors = "add_remove"
privacy_unit = {column = "household", max_rows = 3}
[tables.people.columns]
household = {type = "identifier"}
age = {type = "integer", lower = 0, upper = 110, missing = "keep"}
pay = {type = "real", lower = 0, upper = 5000, resolution = 0.5}
born = {type = "date", lower = "1930-01-01", upper = "2020-12-31"}
member = {type = "boolean", missing = "keep"}
town = {type = "category", values = ["North", "South", "elsewhere"], other = "elsewhere", missing = "keep"}
grade = {type = "category", values = [1, 2, 3]}
"""


NEVER = "age < 18 AND pay > 0"


@pytest.fixture(scope="module")
def modelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of households, and a model of every column, fitted on the command line."""
    directory = tmp_path_factory.mktemp("households")
    write_households(directory)
    words = [
        "--epsilon",
        "100",
        "--delta",
        "1e-9",
        "--cap",
        "20000",
        "--never",
        NEVER,
        "-q",
        "--project",
        str(directory),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SORDINO_STATE", str(directory / "state"))
        assert main(["synth", "fit", *words, "-o", str(directory / "m.model")]) == 0
    return directory


@pytest.fixture
def households(modelled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return enter_copy(modelled, tmp_path / "here", monkeypatch)


def write_households(directory: Path) -> None:
    """Households of one to three people; one town is not declared, and cells are missing."""
    rng = np.random.default_rng(8)
    home = np.repeat(np.arange(ROWS), rng.integers(1, 4, ROWS))[:ROWS]
    age = rng.integers(0, 100, ROWS)
    pay = np.where(age < 18, 0.0, np.round(rng.gamma(2.0, 600.0, ROWS).clip(0, 6000) * 2) / 2)
    born = np.datetime64("2020-01-01") - (age * 365 + rng.integers(0, 365, ROWS)).clip(0, 32000)
    town = rng.choice(["North", "South", "Faraway"], ROWS, p=[0.5, 0.3, 0.2])

    def some(values: np.ndarray, share: float) -> pa.Array:
        return pa.array(values, mask=rng.random(ROWS) < share)

    table = pa.table(
        {
            "household": pa.array(home),
            "age": some(age, 0.05),
            "pay": pa.array(pay),
            "born": pa.array(born.astype("datetime64[D]")),
            "member": some(age > 40, 0.2),
            "town": some(town, 0.1),
            "grade": pa.array(1 + (age // 40).clip(0, 2)),
        }
    )
    pq.write_table(table, directory / "people.parquet")
    (directory / "sordino.toml").write_text(PROJECT)


def share(values: list[Any], test: Callable[[Any], bool]) -> float:
    return sum(map(test, values)) / len(values)


@pytest.mark.deep
@pytest.mark.usefixtures("households")
def test_every_kind_of_column_from_end_to_end(run: Run) -> None:
    """Noise of a unit of three rows at epsilon 100 stays below a tenth of a share: false alarms below 1e-9 each."""
    refused = run("synth", "fit", "--epsilon", "1", "--at-most", "town,age", "-o", "n.model")
    assert refused.code in (2, 3)  # a town is no number
    shown = json.loads(run("synth", "show", "m.model", "--format", "json").out)
    assert {c["name"]: c["type"] for c in shown["columns"]} == {
        "age": "integer",
        "pay": "real",
        "born": "date",
        "member": "boolean",
        "town": "category",
        "grade": "category",
    }
    assert {c["name"] for c in shown["columns"] if c["missing"]} == {"age", "member", "town"}
    assert run("synth", "sample", "m.model", "--rows", str(ROWS), "-o", "s.parquet").code == 0
    made, true = pq.read_table("s.parquet"), pq.read_table("people.parquet")
    kinds = {f.name: f.type for f in made.schema}
    assert kinds == {
        "age": pa.int64(),
        "pay": pa.float64(),
        "born": pa.date32(),
        "member": pa.bool_(),
        "town": pa.string(),
        "grade": pa.int64(),
    }
    columns = {n: made[n].to_pylist() for n in made.column_names}
    real = {n: true[n].to_pylist() for n in made.column_names}
    assert all(v is None or 0 <= v <= 110 for v in columns["age"])
    assert all(0 <= v <= 5000 and (2 * v).is_integer() for v in columns["pay"])  # on the resolution of a half
    low, high = datetime.date(1930, 1, 1), datetime.date(2020, 12, 31)
    assert all(low <= v <= high for v in columns["born"])
    assert set(columns["town"]) == {"North", "South", "elsewhere", None}  # the value that is not declared has no name
    assert set(columns["grade"]) <= {1, 2, 3}
    for name in ("age", "member", "town"):
        missing = share(columns[name], lambda v: v is None)
        assert missing == pytest.approx(share(real[name], lambda v: v is None), abs=0.1)
    assert None not in columns["pay"] + columns["born"] + columns["grade"]
    assert share(columns["town"], lambda v: v == "elsewhere") == pytest.approx(
        share(real["town"], lambda v: v == "Faraway"), abs=0.1
    )
    adults = [(a, p) for a, p in zip(columns["age"], columns["pay"], strict=True) if a is not None]
    assert [1 for a, p in adults if a < 18 and p > 0] == []  # the declared zero stays zero
    pairs = [(m, a) for m, a in zip(columns["member"], columns["age"], strict=True) if m is not None and a is not None]
    assert share([a for m, a in pairs if m], lambda a: a > 40) > 0.75  # what depends keeps depending


@pytest.mark.usefixtures("households")
def test_questions_of_every_kind(run: Run) -> None:
    true = pq.read_table("people.parquet").to_pylist()
    for condition, test in (
        ("town IS NULL", lambda r: r["town"] is None),
        ("member", lambda r: r["member"] is True),
        ("born < DATE '1960-01-01'", lambda r: r["born"] < datetime.date(1960, 1, 1)),
        ("pay >= 1000", lambda r: r["pay"] >= 1000),
        ("grade = 2 AND age IS NOT NULL", lambda r: r["grade"] == 2 and r["age"] is not None),
    ):
        done = run(
            "synth", "answer", "m.model", f"SELECT COUNT(*) AS n FROM people WHERE {condition}", "--format", "json"
        )
        assert done.code == 0, done.err
        assert json.loads(done.out)["rows"][0]["n"] == pytest.approx(sum(map(test, true)), abs=0.1 * ROWS), condition
    grouped = run("synth", "answer", "m.model", "SELECT town, COUNT(*) AS n FROM people GROUP BY town").out
    assert "(missing)" in grouped
    assert "elsewhere" in grouped
    drawn = run("synth", "sample", "m.model", "--rows", "40", "--where", "born >= DATE '1990-01-01' AND town IS NULL")
    assert drawn.code == 0, drawn.err
    assert len(drawn.out.splitlines()) == 41


@pytest.mark.deep
@pytest.mark.usefixtures("households")
def test_a_unit_of_several_rows_pays_more_and_its_cap_is_noted(run: Run) -> None:
    """The same epsilon hides whole households of three rows: three times the noise of a row's, by public parameters."""
    words = ["--epsilon", "2", "--method", "independent", "--columns", "member,grade,town"]
    errors = []
    assert run("synth", "fit", *words, "-o", "u.model").code == 0
    errors.append(sd.synth.Histogram("age").fit(sd.connect("sordino.toml").table("people"), epsilon=1).range(18, 65))
    file = Path("sordino.toml")
    text = file.read_text().replace("people.ledger", "rows.ledger")
    file.write_text(text.replace('{column = "household", max_rows = 3}', '"row"'))
    assert run("synth", "fit", *words, "-o", "r.model").code == 0
    errors.append(sd.synth.Histogram("age").fit(sd.connect("sordino.toml").table("people"), epsilon=1).range(18, 65))
    told = [json.loads(run("synth", "show", m, "--format", "json").out) for m in ("u.model", "r.model")]
    assert "household" in told[0]["protects"]
    assert told[1]["protects"] == "one row, add/remove"
    caps = "at most 3 rows of one household count; rows beyond are not counted; rows whose household is missing are left out"
    assert [one["note"] for one in told] == [caps, None]
    assert caps in " ".join(run("synth", "show", "u.model").out.split())
    done = run(
        "synth", "report", "u.model", "--against", "people.parquet", "--non-private", "--rows", "50", "-o", "c.html"
    )
    assert done.code == 0, done.err
    assert caps in Path("c.html").read_text()
    assert run("synth", "report", "u.model", "--epsilon", "1", "--rows", "50", "-o", "d.html").code == 0
    assert caps in Path("d.html").read_text()
    assert errors[0].error(0.95) == pytest.approx(3 * errors[1].error(0.95), rel=0.06)  # in whole rows a little more


@pytest.mark.usefixtures("households")
@pytest.mark.deep
def test_a_report_of_every_kind(run: Run) -> None:
    private = run("synth", "report", "m.model", "--epsilon", "20", "--predict", "member", "-o", "p.html")
    assert private.code == 0, private.err
    against = run("synth", "report", "m.model", "--against", "people.parquet", "--non-private", "-o", "n.html")
    assert against.code == 0, against.err
    # distances, correlations of ranks and of values, three columns of numbers, six pairs
    compared = 1 + 2 + 3 + 6
    assert Path("p.html").read_text().count("<img") == compared + 1  # the model
    assert Path("n.html").read_text().count("<img") == compared + 6  # six columns beside the original
