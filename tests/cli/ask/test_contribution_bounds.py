"""`sordino caps`, and public tables and samples from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

PROJECT = """
[budgets.people]
cap = {epsilon = 10}
ledger = "people.ledger"

[tables.visits]
source = "visits.parquet"
budget = "people"
neighbors = "add_remove"
privacy_unit = {column = "id", max_rows = 2}
[tables.visits.columns]
id = {type = "identifier"}
ward = {type = "category", values = ["a", "b", "c"]}
word = {type = "identifier"}

[public.wards]
source = "wards.parquet"
key = "ward"
[public.wards.columns]
ward = {type = "identifier"}
beds = {type = "integer", lower = 0, upper = 50}
"""


@pytest.fixture
def visits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    wards = [["a", "b", "c"][i % 3] for i in range(6000)]
    table = pa.table({"id": [f"u{i % 2000}" for i in range(6000)], "ward": wards, "word": wards})
    pq.write_table(table, tmp_path / "visits.parquet")
    pq.write_table(pa.table({"ward": ["a", "b"], "beds": [10, 20]}), tmp_path / "wards.parquet")
    (tmp_path / "sordino.toml").write_text(PROJECT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_caps_are_chosen_charged_and_drawn(visits: Path, run: Any) -> None:
    said = run("caps", "--epsilon", "1", "--by", "word", "--assume-keys", "3", "--plot", "caps.svg")
    assert said.code == 0, said.err
    told = dict(line.split() for line in said.out.splitlines() if line.startswith("max_"))
    assert told["max_rows"] == "3"  # every unit has three rows
    assert told["max_groups"] in ("1", "2", "3")
    assert (visits / "caps.svg").read_text().startswith("<svg")
    assert "1 spent of 10, 9 left" in run("budget").out


@pytest.mark.usefixtures("visits")
def test_caps_as_json_are_the_release(run: Any) -> None:
    said = run("caps", "--epsilon", "1", "--format", "json", "--quiet")
    data = json.loads(said.out)
    assert data["chosen"] == {"max_rows": "3"}
    assert {row["cap"] for row in data["rows"]} == {"max_rows"}


@pytest.mark.usefixtures("visits")
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--epsilon", "1", "--by", "word"), 3, "--assume-keys"),
        (("--epsilon", "1", "--by", "nothing"), 3, "not declared"),
        ((), 2, "state a privacy loss"),
        (("--epsilon", "11"), 4, "budget"),
        (("--epsilon", "1", "--plot", "caps.txt"), 2, "svg"),
    ],
)
def test_refusals_spend_nothing(run: Any, arguments: tuple[str, ...], code: int, words: str) -> None:
    said = run("caps", *arguments)
    assert (said.code, words in said.err) == (code, True), said.err
    assert "0 spent of 10, 10 left" in run("budget").out


@pytest.mark.deep
@pytest.mark.usefixtures("visits")
def test_joins_and_samples_are_asked_like_anything_else(run: Any) -> None:
    assert "1 public table" in run("check").err + run("check").out
    joined = "SELECT w.beds, COUNT(*) AS n FROM visits JOIN wards w ON visits.ward = w.ward GROUP BY w.beds"
    assert "joined with wards by ward" in run("plan", joined, "--epsilon", "1").out
    assert run("ask", joined, "--epsilon", "1").code == 0
    sample = "SELECT COUNT(*) AS n FROM visits TABLESAMPLE BERNOULLI (10 PERCENT)"
    said = run("plan", sample, "--epsilon", "1")
    assert "epsilon 0.158565078741" in said.out
    assert run("ask", sample, "--epsilon", "1").code == 0
    assert "8.84143" in run("budget").out


def test_check_finds_a_public_table_with_more_rows_a_key(visits: Path, run: Any) -> None:
    pq.write_table(pa.table({"ward": ["a", "a"], "beds": [10, 20]}), visits / "wards.parquet")
    said = run("check")
    assert said.code == 2
    assert "max_rows = 1" in said.out + said.err
