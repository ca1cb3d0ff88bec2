"""`sordino bounds`: what it prints where bounds are found, and that nothing found ends with 5 and says so."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

PROJECT = """
[budgets.b]
cap = {epsilon = 100}
ledger = "b.ledger"

[tables.t]
source = "t.parquet"
budget = "b"
neighbors = "add_remove"
privacy_unit = "row"
[tables.t.columns]
few = {type = "integer"}
many = {type = "integer"}
day = {type = "date", lower = 1990-01-01, upper = 2030-01-01}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    table = pa.table(
        {
            "few": [100 if i < 5 else None for i in range(9000)],
            "many": [100 + i % 50 for i in range(9000)],
            "day": [datetime.date(2020, 1, 1 + i % 28) for i in range(9000)],
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    (tmp_path / "sordino.toml").write_text(PROJECT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("project")
def test_nothing_found_is_charged_and_ends_with_5(run: Any) -> None:
    ended = run("bounds", "few", "--epsilon", "0.1", "--format", "json")
    assert ended.code == 5
    assert json.loads(ended.out)["chosen"] == {"lower": None, "upper": None}
    assert "no bounds were found" in ended.err
    assert "ask with more epsilon" in ended.err
    plain = run("bounds", "few", "--epsilon", "0.1")
    assert plain.code == 5
    assert "lower" not in plain.out


@pytest.mark.usefixtures("project")
def test_found_bounds_say_how_many_rows_may_lie_beyond(run: Any) -> None:
    ended = run("bounds", "many", "--epsilon", "5")
    assert ended.code == 0
    assert "lower  " in ended.out
    assert "rows may lie beyond these bounds" in ended.out + ended.err


@pytest.mark.usefixtures("project")
def test_dates_are_refused_with_the_question_that_says_where_they_lie(run: Any) -> None:
    ended = run("bounds", "day", "--epsilon", "1")
    assert ended.code == 3
    assert "day is a date" in ended.err
    assert "QUANTILE_CONT(day, 0.01)" in " ".join(ended.err.split())
    low = run("ask", "SELECT QUANTILE_CONT(day, 0.01) AS low FROM t", "--epsilon", "5")
    assert low.code == 0
    assert "2020-01-0" in low.out or "2019-12" in low.out
