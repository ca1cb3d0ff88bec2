"""What a batch says that one tabulation in its place would save: by the tabulation's own plan, and only where it can be one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sordino as sd
from protecting import protect
from sordino import col
from sordino.ask.queries.build import Selection
from sordino.core.loss import ZCDP

DOMAIN = sd.Domain(
    {
        "region": sd.Category(["north", "east", "south"]),
        "sex": sd.Category(["f", "m"]),
        "year": sd.Integer(2020, 2023),
        "town": sd.Identifier(),
        "income": sd.Integer(0, 90),
    }
)
EMPTY = pa.table(
    {
        "region": pa.array([], pa.string()),
        "sex": pa.array([], pa.string()),
        "year": pa.array([], pa.int64()),
        "town": pa.array([], pa.string()),
        "income": pa.array([], pa.int64()),
    }
)
S = Selection()
BY_SEX = sd.sql("SELECT region, sex, COUNT(*) AS n FROM data GROUP BY region, sex ORDER BY n DESC")
BY_YEAR = sd.sql("SELECT year, COUNT(*) AS of_year FROM data GROUP BY year")


def people(**options: Any) -> Any:
    return protect(EMPTY, DOMAIN, budget=options.pop("budget", ZCDP(10, delta="1e-9")), **options)


@pytest.mark.each(10)
@pytest.mark.parametrize(
    ("loss", "budget"),
    [
        ({"rho": "0.5"}, ZCDP(10, delta="1e-9")),
        ({"epsilon": 1}, sd.PureDP(10)),
        ({"epsilon": 1, "delta": "1e-6"}, sd.ApproxDP(10, "1e-3")),
    ],
)
@pytest.mark.parametrize("where", [None, col("income") > 5])
def test_the_errors_are_those_of_the_tabulation_at_the_same_loss(loss: Any, budget: Any, where: Any) -> None:
    table = people(budget=budget)
    select = S if where is None else S.where(where)
    questions = [
        select.group_by(*by).agg(sd.count()) for by in (["region", "sex"], ["sex", "year"], ["year", "region"])
    ]
    saving = table.plan(questions, **loss).saving()
    tables = [["region", "sex"], ["sex", "year"], ["year", "region"]]
    expected = table.plan(sd.tabulate(tables, where=where), **loss).error(0.95)
    assert list(saving.then) == pytest.approx([expected[tuple(by)] for by in tables])
    assert saving.now == tuple(table.plan(questions, **loss).errors())
    assert sum(saving.then) < sum(saving.now)


@pytest.mark.deep
@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_several_measures_and_orders_of_columns(data: st.DataObject) -> None:
    """Each aggregate of each question is compared with the same measure of the same table, whatever it is named there."""
    table = people()
    measures = {"count": sd.count(), "income": sd.sum("income")}
    columns = st.lists(st.sampled_from(["region", "sex", "year"]), unique=True, max_size=3)
    asked = data.draw(st.lists(columns, min_size=2, max_size=4, unique_by=frozenset))
    aggregates = [data.draw(st.permutations([sd.count(), sd.sum("income")])) for _ in asked]
    questions = [
        S.group_by(*by).agg(list(of)) if by else S.agg(list(of)) for by, of in zip(asked, aggregates, strict=True)
    ]
    saving = table.plan(questions, rho="0.5").saving()
    expected = table.plan(sd.tabulate(asked, measures), rho="0.5").error(0.95)
    stated = [expected[tuple(by)] for by in asked]
    if saving is None:
        return
    for place, (by, of) in enumerate(zip(asked, aggregates, strict=True)):
        for number, aggregate in enumerate(of):
            name = "count" if aggregate.aggregate == sd.count().aggregate else "income"
            assert saving.tables[2 * place + number] == tuple(by) or set(saving.tables[2 * place + number]) == set(by)
            assert saving.then[2 * place + number] == pytest.approx(stated[place][name])


def test_it_is_said_in_words_and_in_json() -> None:
    batch = people().plan([BY_SEX, BY_YEAR], rho="0.01")
    note = next(line for line in str(batch).splitlines() if line.startswith("note"))
    assert 'sd.tabulate([["region", "sex"], ["year"]])' in note
    assert "region, sex +-" in note
    assert "in place of +-20" in note
    assert "all tables would agree" in note
    data = batch.to_dict()
    assert data["as_tabulation"]["tables"] == [["region", "sex"], ["year"]]
    assert data["as_tabulation"]["errors_now"] == data["errors"]
    assert data["notes"][0] in batch._repr_html_().replace("&quot;", '"')
    assert batch.to_dict(confidence=0.5)["as_tabulation"]["errors"] < data["as_tabulation"]["errors"]


@pytest.mark.each(2)
@pytest.mark.parametrize(
    "questions",
    [
        [BY_YEAR],
        [BY_YEAR, BY_YEAR],
        [BY_SEX, sd.sql("SELECT year, COUNT(*) FROM data WHERE income > 5 GROUP BY year")],
        [BY_SEX, sd.sql("SELECT town, COUNT(*) FROM data GROUP BY town")],
        [BY_SEX, sd.sql("SELECT year, AVG(income) FROM data GROUP BY year")],
        [BY_SEX, sd.sql("SELECT year, COUNT(*) * 2 AS n FROM data GROUP BY year")],
        [BY_SEX, sd.tabulate(["year"])],
        [BY_SEX, sd.most_common("region")],
        [BY_SEX, sd.sql("SELECT SUM(n) FROM (SELECT year, COUNT(*) AS n FROM data GROUP BY year)")],
    ],
)
def test_nothing_is_said_where_the_questions_are_no_marginals_of_one_cube(questions: Any) -> None:
    table = people(budget=sd.ApproxDP(10, "1e-3"))
    batch = table.plan(questions, epsilon=1, delta="1e-6", assume_rows=100)
    assert batch.saving() is None
    assert "as_tabulation" not in batch.to_dict()
    assert "tabulate" not in str(batch)


def test_groupings_that_stay_questions_of_their_own_say_what_a_tabulation_would_save() -> None:
    """Where a unit's groups are bounded; by the plans of the groupings, in the plan alone, not in the answer."""
    unit = sd.PrivacyUnit("town", max_groups=1, max_rows_per_group=1)
    table = people(unit=unit)
    sets = "GROUPING SETS ((region, sex), (sex, year))"
    plan = table.plan(
        sd.sql(f"SELECT region, sex, year, GROUPING(region) AS g, COUNT(*) AS n FROM data GROUP BY {sets}"), rho="0.01"
    )
    note = next(text for label, text in plan.entries(0.95) if label == "note" and "sd.tabulate(" in text)
    assert '[["region", "sex"], ["sex", "year"]]' in note
    assert note in plan.to_dict()["notes"]
    expected = table.plan(sd.tabulate([["region", "sex"], ["sex", "year"]]), rho="0.01").error(0.95)
    assert f"region, sex +-{expected['region', 'sex']:.3g} in place of" in note
    assert not any("sd.tabulate(" in remark for remark in table.ask(plan).remarks)
    several = sd.sql("SELECT COUNT(*) * 1.0 / (SELECT COUNT(*) FROM data WHERE income > 5) AS share FROM data")
    assert table.plan(several, rho="0.01").advice == ()
