"""Random SQL never gives anything but a question or a refusal of one line."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sordino as sd
from sordino.ask.queries.aggregation import Aggregation, compile_query
from sordino.ask.queries.sql.parse import parse_sql
from sordino.errors import QuestionRefused

DOMAIN = sd.Domain(
    {
        "age": sd.Integer(0, 125),
        "occ": sd.Category(["a", "b"]),
        "ok": sd.Boolean(),
        "id": sd.Identifier(),
        "born": sd.Date("1999-12-30", "2001-02-03"),
    }
)
LINES = (
    "SELECT FROM WHERE GROUP BY AS COUNT ( ) * , age occ ok id adult SUM AVG + - / % = <> < > <= AND OR NOT IN ",
    "IS NULL BETWEEN 1 2.5 1e9 'a' 'b' TRUE FALSE CLIP LEAST GREATEST ABS BIN DISTINCT HAVING ORDER LIMIT JOIN ",
    "ON UNION ALL WITH CASE WHEN THEN ELSE END CAST :: INT DATE '2000-01-01' OVER PARTITION random() ; -- /* ",
    "*/ \" ' $$ ? $1 [ ] { } . -> MIN MAX EXISTS ANY FILTER QUALIFY PIVOT VALUES INTERVAL LAMBDA x: COLUMNS ",
    "EXCLUDE REPLACE ROLLUP CUBE GROUPING SETS TRY_CAST EXTRACT POSITION SUBSTRING TRIM COLLATE ESCAPE SIMILAR ",
    "VAR_POP STDDEV CORR COVAR_SAMP MEDIAN QUANTILE_CONT WITHIN PERCENTILE_CONT YEAR MONTH DOW born TABLESAMPLE ",
    "BERNOULLI PERCENT COALESCE RECURSIVE DESC NULLS FIRST OFFSET IF ",
    "ILIKE GLOB \x00 \ufeff é 𝟙 0x1F 1_0 .5 5. @ # ~ ^ | & !",
)
WORDS = [word for line in LINES for word in line.rstrip(" ").split(" ")]
TAILS = (
    "SELECT COUNT(*) FROM adult WHERE ",
    "SELECT ",
    "SELECT occ, AVG(age) FROM adult GROUP BY ",
    "",
    "SELECT COUNT(*) AS n FROM (SELECT ",
    "SELECT occ, COUNT(*) AS n FROM adult GROUP BY occ HAVING ",
    "WITH w AS (SELECT age, occ FROM adult) SELECT VAR_POP(age) FROM w ORDER BY ",
    "SELECT SUM(CASE WHEN age > 3 THEN ",
)


def assert_parsed_or_refused(text: str) -> None:
    try:
        found = parse_sql(text, table="adult", columns=DOMAIN)
        assert isinstance(found, Aggregation)
        compile_query(found, DOMAIN)
        assert found.identity()
        assert "\n" not in found.describe()
    except QuestionRefused as refusal:
        said = str(refusal)
    else:
        return
    assert "\n" not in said, text
    assert len(said) < 1000, text


def grammar() -> st.SearchStrategy[str]:
    leaves = st.sampled_from(
        ["age", "occ", "ok", "id", "born", "1", "-2.5", "'a'", "TRUE", "NULL", "DATE '2000-01-01'"]
    )

    def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        pair = st.tuples(inner, st.sampled_from(["+", "-", "*", "=", "<>", "<", ">=", "AND", "OR"]), inner)
        return st.one_of(
            pair.map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
            inner.map(lambda e: f"NOT {e}"),
            inner.map(lambda e: f"ABS({e})"),
            inner.map(lambda e: f"{e} IS NULL"),
            inner.map(lambda e: f"CLIP({e}, 0, 9)"),
            st.tuples(inner, inner, inner).map(lambda t: f"{t[0]} BETWEEN {t[1]} AND {t[2]}"),
            st.tuples(inner, inner).map(lambda t: f"{t[0]} IN ({t[1]})"),
            st.tuples(inner, inner, inner).map(lambda t: f"CASE WHEN {t[0]} THEN {t[1]} ELSE {t[2]} END"),
            st.tuples(inner, inner).map(lambda t: f"COALESCE({t[0]}, {t[1]})"),
            inner.map(lambda e: f"EXTRACT(MONTH FROM {e})"),
        )

    return st.recursive(leaves, grown, max_leaves=8)


def write_sentence(condition: str, number: str, group: str) -> str:
    return f"SELECT {group}, COUNT(*), SUM({number}) FROM adult WHERE {condition} GROUP BY {group}"


def write_nested(condition: str, number: str, outer: str, word: str) -> str:
    opened = word if word.endswith("DISTINCT") else f"{word}("
    return (
        f"WITH w AS (SELECT *, {number} AS x FROM adult WHERE {condition}) "
        f"SELECT occ, {opened} x) AS n FROM (SELECT x, occ, age, ok, id, born FROM w WHERE {outer}) GROUP BY occ "
        "HAVING n > 1 ORDER BY n DESC LIMIT 3"
    )


GROUPS = st.sampled_from(["occ", "age", "BIN(age, 10)", "ok", "1"])
AGGREGATES = st.sampled_from(["VAR_POP", "STDDEV", "COUNT(DISTINCT", "MEDIAN", "SUM"])
TEXTS = {
    "soups of words": st.builds(
        str.__add__, st.sampled_from(TAILS), st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join)
    ),
    "soups of letters": st.builds(
        str.__add__, st.sampled_from(["", "SELECT COUNT(*) FROM adult WHERE "]), st.text(max_size=40)
    ),
    "sentences of the grammar": st.builds(write_sentence, grammar(), grammar(), GROUPS),
    "sentences through sub-queries": st.builds(write_nested, grammar(), grammar(), grammar(), AGGREGATES),
}


@pytest.mark.each(2)
@pytest.mark.parametrize("kind", TEXTS)
@settings(max_examples=6, deadline=None, derandomize=True)
@given(st.data())
def test_a_text_is_parsed_or_refused_in_one_line(kind: str, data: st.DataObject) -> None:
    assert_parsed_or_refused(data.draw(TEXTS[kind]))


@pytest.mark.deep
@pytest.mark.parametrize("kind", TEXTS)
@settings(max_examples=1500, deadline=None)
@given(st.data())
def test_many_texts_are_parsed_or_refused_in_one_line(kind: str, data: st.DataObject) -> None:
    """Other texts in every run."""
    assert_parsed_or_refused(data.draw(TEXTS[kind]))
