"""A list of declared values stands in a statement twice at most, however often a condition names its column."""

from __future__ import annotations

import pyarrow as pa
import pytest

import sordino as sd
from ask.engines.sql_texts import KINDS
from protecting import protect
from sordino.ask.engines.sql_primitives import SqlPrimitives
from sordino.ask.engines.table_layout import TableLayout
from sordino.ask.queries.aggregation import Aggregation, compile_query
from sordino.ask.queries.sql.parse import parse_question

VALUES = [f"value number {i}" for i in range(100)]
DOMAIN = sd.Domain(
    {
        "word": sd.Category(VALUES),
        "other": sd.Category(VALUES, other=VALUES[3], missing=sd.Fill(VALUES[4])),
        "number": sd.Category(list(range(10_100, 10_200))),
    }
)
LAYOUT = TableLayout(dict(zip(DOMAIN.stored, ("VARCHAR", "VARCHAR", "BIGINT"), strict=True)), DOMAIN, None, None)
CONDITIONS = {
    "word": "word = 'value number {}'",
    "other": "other = 'value number {}'",
    "number": "number = {}",
    "text": "UPPER(word) LIKE '%{}X'",
    "choice": "CASE WHEN word = 'value number {}' THEN 1 ELSE 2 END = 1",
    "both": "(word = 'value number {0}' AND other = 'value number {0}')",
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("form", CONDITIONS)
def test_a_list_stands_twice_in_a_statement_at_most(kind: type[SqlPrimitives], form: str) -> None:
    """Two hundred comparisons of two columns of two thousand values each took 3 GB."""

    def write(mentions: int) -> str:
        numbers = [i + 10_100 * (form == "number") for i in range(mentions)]
        condition = " OR ".join(CONDITIONS[form].format(i) for i in numbers)
        asked = parse_question(
            sd.sql(f"SELECT COUNT(*) AS n FROM people WHERE {condition}"), table="people", columns=DOMAIN.stored
        )
        assert isinstance(asked, Aggregation)
        on = kind(LAYOUT)
        text: str = compile_query(asked, DOMAIN).select(on).sql(dialect=on.dialect)
        return text

    last = "10199" if form == "number" else "value number 99"
    once = write(1)
    often = write(20)
    assert often.count(last) <= 2 * once.count(last)
    assert len(often) - 2 * len(once) < 20 * 250


@pytest.mark.parametrize("group", ["", " GROUP BY number"])
def test_a_value_that_is_found_again_past_the_bounds_is_read_there(group: str) -> None:
    """Rows within the bounds were taken for rows of which no cell is read: the statement failed after its charge."""
    table = pa.table({"id": [i // 3 for i in range(300)], "word": ["a", "b", "c"] * 100, "number": [1] * 300})
    domain = sd.Domain(
        {"id": sd.Identifier(), "word": sd.Category(["a", "b", "c"], other="c"), "number": sd.Integer(1, 2)}
    )
    people = protect(table, domain, unit=sd.PrivacyUnit("id", max_rows=2), budget=sd.PureDP(10**9))
    again = f"SELECT SUM(CASE WHEN word = 'a' THEN 1 ELSE 0 END) AS n FROM data WHERE word = 'a' OR word = 'b'{group}"
    assert abs(people.ask(sd.sql(again), epsilon=10**5).table["n"][0].as_py() - 100) < 1
