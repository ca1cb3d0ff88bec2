"""What DuckDB plans of a question grows with its text: nothing that a column is made of is written out where it is used.

Above a join that a sub-query or a list after IN becomes (MARK, SINGLE), DuckDB's planner writes out each column that is computed,
each part as often as it is used: a part of a date uses the part before it three times over, through seven steps. So its plans
hold none, which a test can count on a busy machine as well as on an idle one.
"""

from __future__ import annotations

import datetime
import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest
from sqlglot import exp

import sordino as sd
from protecting import protect
from sordino.ask.engines.duckdb import DuckDBEngine
from sordino.ask.engines.engine import Statement
from sordino.errors import QuestionRefused

_WORDS = [f"w{i}" for i in range(60)]
_DOMAIN = sd.Domain(
    {
        "id": sd.Identifier(),
        "member": sd.Boolean(),
        "word": sd.Category(_WORDS),
        "town": sd.Identifier(),
        "age": sd.Integer(0, 125),
        "joined": sd.Date("2000-01-01", "2024-12-31"),
        "seen": sd.DateTime("2000-01-01", "2024-12-31", zone="Europe/Berlin"),
    }
)
_MOMENT = datetime.datetime(2010, 5, 1, 12)
_ROWS = pa.table(
    {
        "id": ["p1", "p2", "p2"],
        "member": ["true", "no", "?"],
        "word": ["w1", "w59", None],
        "town": ["t1", "t40", None],
        "age": [1, 2, 3],
        "joined": pa.array([_MOMENT] * 3, pa.timestamp("us")),
        "seen": pa.array([_MOMENT] * 3, pa.timestamp("us")),
    }
)
_MANY = ", ".join(f"'w{i}'" for i in range(0, 60, 1) if i % 7)
_TOWNS = ", ".join(f"'t{i}'" for i in range(50))

_NUMBERS = (
    "IF(member, 0, 1)",
    "YEAR(joined)",
    "DAYOFWEEK(seen)",
    f"IF(word IN ({_MANY}), 1, 0)",
    "MONTH(joined) * age",
)
_CONDITIONS = (
    "TRUE",
    "member",
    "MONTH(joined) IN (1, 2, 3, 5, 6, 7, 8)",
    f"word IN ({_MANY})",
    f"word NOT IN ({_MANY})",
    f"town IN ({_TOWNS})",
    "YEAR(seen) = 2010",
)
_KEYS = ("member, YEAR(joined), MONTH(joined)", "DAY(joined), MONTH(joined), word", "DAYOFWEEK(seen), MONTH(joined)")


def _questions() -> Iterator[str]:
    for (a, b), where in itertools.product(itertools.combinations(_NUMBERS, 2), _CONDITIONS):
        yield f"SELECT COVAR_POP({a}, {b}), REGR_SLOPE({b}, {a}) FROM data WHERE {where}"
        yield f"SELECT COUNT(*) FILTER (WHERE {where}), MEDIAN({a}), SUM({b}) FROM data WHERE {a} > 0"
    for keys, where, number in itertools.product(_KEYS, _CONDITIONS, _NUMBERS):
        yield f"SELECT {keys}, COUNT(*), AVG({number}) FROM data WHERE {where} GROUP BY ALL"
        yield f"SELECT {keys}, COUNT(DISTINCT word) FROM data WHERE {where} GROUP BY ALL"


_QUESTIONS = random.Random(0).sample([*_questions()], 90)


def joins_of(plan: Any) -> Iterator[str]:
    """Yield the kind of each join of a plan that DuckDB describes as JSON."""
    for node in plan if isinstance(plan, list) else [plan]:
        kind = node.get("extra_info", {}).get("Join Type")
        yield from [str(kind)] if kind else ["DELIM"] if "DELIM" in node["name"] else []
        yield from joins_of(node.get("children", []))


@pytest.fixture(scope="module", params=["arrow", "csv"])
def tables(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[sd.Curator]:
    """Tables of the same rows: each row a unit, and people of at most two rows."""
    path: Path = tmp_path_factory.mktemp("rows") / "rows.csv"
    pyarrow.csv.write_csv(_ROWS, path)
    nulls = sd.Csv(header=True, null_values=("", "NA", "N/A", "null", "none", "-", "?"))
    source: Any = _ROWS if request.param == "arrow" else path
    csv = nulls if request.param == "csv" else None
    units: tuple[Any, ...] = ("row", sd.PrivacyUnit("id", max_rows=2))
    return [protect(source, _DOMAIN, unit=unit, csv=csv, budget=sd.PureDP(10**9), name="data") for unit in units]


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.deep) for part in range(1, 72))])
def test_no_plan_of_a_question_writes_out_what_a_column_is_made_of(
    part: int, tables: list[sd.Curator], monkeypatch: pytest.MonkeyPatch
) -> None:
    written = 0

    def look(engine: DuckDBEngine, select: exp.Select) -> Statement:
        nonlocal written
        statement = write(engine, select)
        (_, plan), *_ = engine._connection.execute(f"EXPLAIN (FORMAT JSON) {statement.text}").fetchall()
        assert set(joins_of(json.loads(plan))) <= {"LEFT", "RIGHT", "INNER"}, statement.text
        written += 1
        return statement

    write = DuckDBEngine.write
    monkeypatch.setattr(DuckDBEngine, "write", look)
    questions = _QUESTIONS[part::72]
    for place, text in enumerate(questions):
        tables[place % 2].plan(sd.sql(text), epsilon=1)
    assert written >= len(questions)


def test_a_sum_beside_a_long_list_is_not_pushed_below_its_join(tables: list[sd.Curator]) -> None:
    """The day of the week of a zoned moment, beside a list of 50 texts, took 18 GB to plan in DuckDB, after the charge."""
    towns = ", ".join(f"'t{i}'" for i in range(50))
    text = f"SELECT COUNT(*) FILTER (WHERE town IN ({towns})), SUM(DAYOFWEEK(seen)) FROM data WHERE YEAR(joined) > 0"
    for table in tables:
        assert table.ask(sd.sql(text), epsilon=1).rows


@pytest.mark.deep
@pytest.mark.parametrize("width", [10, 31])
def test_bins_of_a_long_time_are_refused_by_their_number(width: int, tables: list[sd.Curator]) -> None:
    """Seconds of 25 years by tens: they would be listed before they are refused."""
    text = f"SELECT BIN(EPOCH(seen) / 10, {width}) AS b, COUNT(*) FROM data GROUP BY 1"
    with pytest.raises(QuestionRefused, match=r"above 100,000: take a width of at least"):
        tables[0].plan(sd.sql(text), epsilon=1)
