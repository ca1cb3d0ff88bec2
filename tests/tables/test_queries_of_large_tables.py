"""Queries of a release of many cells: intervals of a table's own, where a SELECT names the one table that it reads."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sordino as sd
from protecting import protect
from sordino.core.release import Release

PAGES = [f"p{i:05}" for i in range(11_000)]
DOMAIN = sd.Domain({"country": sd.Category(["FR", "PE"]), "page": sd.Category(PAGES)})


def ask(finish: Any, tables: list[list[str]], loss: dict[str, Any]) -> tuple[Release, dict[tuple[str, ...], float]]:
    draws = np.random.default_rng(1)
    places = (len(PAGES) * draws.random(3_000) ** 6).astype(int)
    table = pa.table({"country": draws.choice(["FR", "PE"], 3_000), "page": pa.array(PAGES).take(pa.array(places))})
    budget: Any = sd.ZCDP(2, "1e-6") if "rho" in loss else sd.PureDP(2)
    people = protect(table, DOMAIN, budget=budget)
    plan = people.plan(sd.tabulate(tables, finish=finish), **loss)
    return people.ask(plan), plan.error(0.95)


@pytest.mark.each(3)
@pytest.mark.parametrize("finish", ["linear", "whole", "raw"])
def test_a_select_that_names_a_small_table_has_intervals(finish: Any) -> None:
    """They are those of the noise of that table alone, also on record and read again."""
    answer, errors = ask(finish, [["country", "page"], ["country"], []], {"rho": "0.1"})
    text = "SELECT country, 2 * count AS twice FROM answer WHERE by_columns = 'country' ORDER BY country"
    doubled = answer.query(text)
    ends = doubled.interval(0.95).to_pylist()
    assert [row["country"] for row in ends] == ["FR", "PE"]
    for row in ends:
        assert (row["twice_upper"] - row["twice_lower"]) / 4 == pytest.approx(errors["country",], rel=0.15)
    again = Release.from_dict(json.loads(json.dumps(doubled.to_record())))
    assert again.interval(0.95).to_pylist() == ends
    # The same rows as from all tables.
    plain = {row["country"]: row["count"] for row in answer.tables["country"].to_pylist()}
    assert {row["country"]: row["twice"] / 2 for row in doubled.rows} == plain
    unnamed = answer.query("SELECT SUM(count) AS n FROM answer WHERE by_columns = 'country' OR country IS NULL")
    assert unnamed.interval(0.95) == (None, None)


@pytest.mark.deep
def test_a_slice_of_many_rows_is_the_same_on_record() -> None:
    answer, _ = ask("linear", [["country"], ["page"], ["country", "page"]], {"rho": "0.1"})
    pages = answer.tables.answer(["page"])
    assert len(pages.rows) == len(PAGES)
    again = Release.from_dict(json.loads(json.dumps(pages.to_record())))
    assert again.rows == pages.rows


@pytest.mark.deep
def test_marginals_of_a_pure_epsilon_have_none_where_too_many_are_drawn() -> None:
    answer, _ = ask("linear", [["country", "page"], ["country"]], {"epsilon": "0.5"})
    total = answer.query("SELECT SUM(count) AS n FROM answer WHERE by_columns = 'country'")
    assert total.interval(0.95) == (None, None)
    assert "too many rows" in str(total)
