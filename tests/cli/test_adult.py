"""The main job on the real extract, as a CSV file: where it is absent, these tests skip."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.support import Run
from places import ADULT, needs_adult
from sordino.core.domain import Category
from sordino.datasets import adult_domain


def declared() -> str:
    def column(words: Any) -> str:
        if isinstance(words, Category):
            return f'{{type = "category", values = {json.dumps(list(words.values))}, missing = "keep"}}'
        return f'{{type = "integer", lower = {words.lower}, upper = {words.upper}}}'

    domain = adult_domain()
    columns = "\n".join(f"{name} = {column(domain[name])}" for name in domain)
    return f"""\
[budgets.people]
cap = {{epsilon = 2.0}}
ledger = "people.ledger"
[tables.adult]
source = {json.dumps(str(ADULT))}
budget = "people"
neighbors = "add_remove"
privacy_unit = "row"
[tables.adult.csv]
header = false
names = {json.dumps(list(domain))}
null_values = ["?"]
[tables.adult.columns]
{columns}
"""


@pytest.mark.deep
@needs_adult
def test_the_main_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run, spawn: Run) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sordino.toml").write_text(declared())
    assert run("check").code == 0
    sql = "SELECT occupation, COUNT(*) AS n, AVG(age) AS age FROM adult WHERE education_num > 10 GROUP BY occupation"
    told = json.loads(run("ask", sql, "--epsilon", "0.5", "--format", "json").out)
    counts = {row["occupation"]: row["n"] for row in told["rows"]}
    assert sum(counts.values()) == pytest.approx(10_516, abs=15 * 12 * 5)  # scale 4 a cell: chance below 1e-12
    assert len(counts) == 15
    for _ in range(2):
        assert run("ask", "SELECT COUNT(*) AS n FROM adult", "--epsilon", "0.5").code == 0
    assert spawn("ask", "SELECT COUNT(*) AS n FROM adult", "--epsilon", "0.5").code == 0
    done = spawn("ask", "SELECT COUNT(*) AS n FROM adult", "--epsilon", "0.5")
    assert done.code == 4
    value = json.loads(run("show", "c-0002", "--format", "json").out)["rows"][0]["n"]
    assert value == pytest.approx(32_561, abs=80)  # scale 2: chance below 1e-17


@needs_adult
def test_a_project_file_shows_nothing_of_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("init", str(ADULT), "--no-header", "--columns", "15").code == 0
    text = Path("sordino.toml").read_text()
    cells = {cell.strip() for cell in ADULT.read_text().partition("\n")[0].split(",")}
    for cell in cells - {"0", "13", "40"}:
        assert cell not in text.replace(str(ADULT), ""), cell
    assert run("check").code == 2
