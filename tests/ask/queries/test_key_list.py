"""Listed keys: exactly these rows, in this order, in Python and SQL; what is wrong with a list is said before the charge."""

from __future__ import annotations

import datetime
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sordino as sd
from protecting import protect
from sordino import col
from sordino.ask.queries.aggregation import Aggregation, compile_query
from sordino.ask.queries.build import Selection
from sordino.ask.queries.expressions.keys import MOST_LISTED
from sordino.core.neighbors import Neighbors
from sordino.errors import DeclarationError, QuestionRefused, UnknownName

S = Selection()
DOMAIN = sd.Domain(
    {
        "state": sd.Category(["NY", "CA", "TX"], missing="keep"),
        "year": sd.Integer(2000, 2030),
        "town": sd.Identifier(),
        "zip": sd.Integer(),
        "born": sd.Date("1999-12-30", "2000-01-05"),
        "x": sd.Integer(0, 10),
    }
)
ROWS = {
    "state": ["NY", "CA", "TX", None] * 100,
    "year": [2020, 2021, 2022, 2020] * 100,
    "town": ["Oslo", "Bergen", "d'Or; \ue000", None] * 100,
    "zip": [1000, 2000, 3000, None] * 100,
    "born": [datetime.date(2000, 1, 1)] * 400,
    "x": [1, 2, 3, 4] * 100,
}


def ask(question: Any, **loss: Any) -> list[dict[str, Any]]:
    curator = protect(pa.table(ROWS), DOMAIN, budget=sd.PureDP(10**6), seed=3)
    found: list[dict[str, Any]] = curator.ask(question, **(loss or {"epsilon": 10**5})).table.to_pylist()
    return found


def test_exactly_the_listed_rows_appear_in_their_order_and_others_are_dropped() -> None:
    listed = [("TX", 2022), (None, 2020), ("CA", 2000), ("NY", 2020)]
    found = ask(S.group_by("state", "year", keys=listed).agg(sd.count(), sd.sum("x"), sd.median("x")))
    assert [(r["state"], r["year"], r["count"], r["sum_x"]) for r in found] == [
        ("TX", 2022, 100, 300),
        (None, 2020, 100, 400),
        ("CA", 2000, 0, 0),
        ("NY", 2020, 100, 100),
    ]
    assert [r["median_x"] for i, r in enumerate(found) if i != 2] == [3, 4, 1]


def test_columns_without_declared_values_are_listed_and_cost_no_delta() -> None:
    found = ask(S.group_by("town", keys=["d'Or; \ue000", "Mars", "Oslo"]).agg(n=sd.count()))
    assert found == [{"town": "d'Or; \ue000", "n": 100}, {"town": "Mars", "n": 0}, {"town": "Oslo", "n": 100}]
    found = ask(S.group_by("zip", "town", keys=[(3000, "Oslo"), ("1000", "Oslo")]).agg(n=sd.count()))
    assert found == [{"zip": 3000, "town": "Oslo", "n": 0}, {"zip": 1000, "town": "Oslo", "n": 100}]


def test_columns_that_the_list_leaves_out_take_every_declared_value() -> None:
    found = ask(S.group_by("zip", keys=[3000]).group_by("state").agg(n=sd.count()))
    assert [(r["zip"], r["state"], r["n"]) for r in found] == [
        (3000, "NY", 0),
        (3000, "CA", 0),
        (3000, "TX", 100),
        (3000, None, 0),
    ]
    with pytest.raises(QuestionRefused, match="the keys of 'town' are private: list them too"):
        ask(S.group_by("zip", keys=[3000]).group_by("town").agg(sd.count()))


@pytest.mark.deep
@pytest.mark.parametrize(
    "frame",
    [
        pa.table({"year": [2022, 2020], "state": ["TX", "NY"]}),
        pd.DataFrame({"state": ["TX", "NY"], "year": [2022, 2020]}),
        pl.DataFrame({"state": ["TX", "NY"], "year": [2022, 2020]}),
        pa.table({"year": ["2022", "2020"], "state": ["TX", "NY"]}),
    ],
)
def test_a_public_table_lists_keys_by_its_columns_names(frame: Any) -> None:
    said = [{"state": "TX", "year": 2022, "n": 100}, {"state": "NY", "year": 2020, "n": 100}]
    assert ask(S.group_by("state", "year", keys=frame).agg(n=sd.count())) == said
    assert ask(sd.sql("SELECT state, year, COUNT(*) AS n FROM data GROUP BY state, year", keys=frame)) == said


def test_sql_lists_keys_by_row_values_and_python_and_sql_ask_the_same() -> None:
    text = """SELECT state, year, COUNT(*) AS n FROM data
        WHERE x < 9 AND ((state, year) IN (('TX', 2022), ('NY', 2000), ('TX', 2022))) GROUP BY state, year"""
    found = ask(sd.sql(text))
    assert found == [{"state": "TX", "year": 2022, "n": 100}, {"state": "NY", "year": 2000, "n": 0}]
    curator = protect(pa.table(ROWS), DOMAIN, budget=sd.PureDP(1))
    python = S.where(col("x") < 9).group_by("state", "year", keys=[("TX", 2022), ("NY", 2000)]).agg(n=sd.count())
    assert curator.plan(python, epsilon=1).identity() == curator.plan(sd.sql(text), epsilon=1).identity()
    other = S.where(col("x") < 9).group_by("state", "year", keys=[("NY", 2000), ("TX", 2022)]).agg(n=sd.count())
    assert curator.plan(python, epsilon=1).identity() != curator.plan(other, epsilon=1).identity()
    assert curator.plan(python, epsilon=1).rows.words == "2: the listed keys"


def test_row_values_of_other_columns_are_a_condition() -> None:
    text = "SELECT COUNT(*) AS n FROM data WHERE (state, year) IN (VALUES ('TX', 2022), ('NY', 2000), ('CA', 2021))"
    assert ask(sd.sql(text)) == [{"n": 200}]
    with pytest.raises(QuestionRefused, match="each row of this IN is 2 constants"):
        ask(sd.sql("SELECT COUNT(*) AS n FROM data WHERE (state, year) IN (('TX', 2022, 1))"))


def test_a_condition_on_open_keys_lists_them() -> None:
    said = [{"town": "Mars", "n": 0}, {"town": "Oslo", "n": 100}]
    assert ask(S.where(col("town").is_in(["Mars", "Oslo"])).group_by("town").agg(n=sd.count())) == said
    assert ask(sd.sql("SELECT town, COUNT(*) AS n FROM data WHERE town IN ('Mars', 'Oslo') GROUP BY town")) == said
    whole = "SELECT zip, COUNT(*) AS n FROM data WHERE zip IN (1000, 7) GROUP BY zip"
    assert ask(sd.sql(whole)) == [{"zip": 1000, "n": 100}, {"zip": 7, "n": 0}]
    with pytest.raises(QuestionRefused, match="private"):
        ask(S.where((col("town").is_in(["Mars"])) | (col("x") > 3)).group_by("town").agg(n=sd.count()))


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_cells_are_those_listed_and_rows_may_drop_out(relation: Any) -> None:
    asked = S.group_by("state", "year", keys=[("TX", 2022)]).agg(sd.count())
    found = compile_query(asked, DOMAIN)
    assert (found.cells, found.key_rows()) == (1, [("TX", 2022)])
    assert found.bound(Neighbors(relation, None)).sensitivities[0][0].l1 == 1
    two = compile_query(S.group_by("town", keys=["a", "b"]).agg(sd.count()), DOMAIN)
    assert two.bound(Neighbors(relation, None)).sensitivities[0][0].l1 == (1 if relation == "add_remove" else 2)


def test_the_limit_counts_the_list_and_not_the_product(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = sd.Domain({"a": sd.Integer(0, 2000), "b": sd.Integer(0, 2000)})
    with pytest.raises(QuestionRefused, match="above 1000000"):
        compile_query(S.group_by("a", "b").agg(sd.count()), wide)
    listed = S.group_by("a", "b", keys=[(1, 2), (2000, 0)]).agg(sd.count())
    assert compile_query(listed, wide).cells == 2
    assert MOST_LISTED == 10**6
    monkeypatch.setattr("sordino.ask.queries.expressions.keys.MOST_LISTED", 1000)
    with pytest.raises(QuestionRefused, match="1 to 1,000 rows, not more"):
        S.group_by("a", "b", keys=((n, n) for n in range(1001)))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ([], "1 to 1,000,000 rows, not none"),
        ("NY", "takes a list"),
        (7, "takes a list"),
        ([("NY", 2020), ("NY",)], "has 2 values, for state, year"),
        ([("NY", 2020), ("NY", "2020")], "the same row twice"),
        ([("NY", object())], "not a object"),
        (pa.table({"state": ["NY"], "yaer": [2020]}), "'yaer'"),
    ],
)
def test_a_list_that_is_none_is_refused_by_what_is_wrong(keys: Any, message: str) -> None:
    with pytest.raises(QuestionRefused, match=message):
        compile_query(S.group_by("state", "year", keys=keys).agg(sd.count()), DOMAIN)


def test_values_must_be_declared_where_any_are() -> None:
    with pytest.raises(UnknownName, match="'NJ', which is not a declared key of 'state'"):
        compile_query(S.group_by("state", keys=["NJ"]).agg(sd.count()), DOMAIN)
    for keys, column in (([None], "town"), ([2.5], "zip"), ([2**63], "zip")):
        with pytest.raises(QuestionRefused, match=column):
            compile_query(S.group_by(column, keys=keys).agg(sd.count()), DOMAIN)
    with pytest.raises(QuestionRefused, match="goes with GROUP BY"):
        ask(sd.sql("SELECT COUNT(*) FROM data", keys=["NY"]))


def test_other_questions_of_the_same_keys_keep_their_identity() -> None:
    plain = S.group_by("state").agg(sd.count())
    assert '"keys"' not in plain.identity()
    asked: Aggregation = S.group_by("state", keys=["NY"]).agg(sd.count())
    assert asked.describe() == "the number of rows, for each state of 1 listed key"


def test_a_key_that_is_no_whole_text_is_refused_when_it_is_stated() -> None:
    with pytest.raises(QuestionRefused, match="lone surrogate"):
        S.group_by("id", keys=["a", "b\ud800"])
    with pytest.raises(DeclarationError, match="lone surrogate"):
        sd.Category(["a", "\udfff"])
