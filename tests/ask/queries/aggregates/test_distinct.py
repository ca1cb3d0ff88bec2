"""Counts of different values: brute force over units of several rows never beats the declared sensitivity, and reaches it."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

import sordino as sd
from ask.queries.support import DOMAIN, arrow, duckdb_exact
from protecting import protect
from sordino.ask.curator.aggregation_procedure import exact_vectors
from sordino.ask.engines.duckdb import DuckDBEngine
from sordino.ask.queries.aggregation import compile_query
from sordino.ask.queries.build import Selection, as_aggregation, count_distinct
from sordino.ask.queries.sensitivity_rules import distinct_sensitivity
from sordino.core.neighbors import Neighbors, PrivacyUnit

S = Selection()
Rows = tuple[tuple[int, int], ...]  # (group, value)


def counts(rows: Rows, groups: int) -> list[int]:
    """Return the number of different values in each group."""
    return [len({v for g, v in rows if g == at}) for at in range(groups)]


def largest_move(before: list[int], after: list[int]) -> tuple[int, int, int, int]:
    gaps = [abs(a - b) for a, b in zip(before, after, strict=True)]
    return sum(gaps), sum(g * g for g in gaps), max(gaps), sum(1 for g in gaps if g)


@pytest.mark.each(5)
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize(
    ("contributions", "groups", "values"), list(itertools.product([1, 2, 3], [1, 2, 3], [1, 2, 3]))
)
def test_units_of_many_rows(contributions: int, groups: int, values: int, relation: Any) -> None:
    """Every pair of a unit's rows (of all sizes up to the cap) beside every small table of others."""
    cells = list(itertools.product(range(groups), range(values)))
    units = [u for n in range(contributions + 1) for u in itertools.combinations_with_replacement(cells, n)]
    others: list[Rows] = [u for n in range(2) for u in itertools.combinations(cells, n)]
    unit = PrivacyUnit("id", contributions)
    found = distinct_sensitivity(Neighbors(relation, unit), cells=groups, values=values, column="job")
    most = [0, 0, 0, 0]
    for rest in others:
        told = [counts(rest + u, groups) for u in units] if relation == "replace" else [counts(rest, groups)]
        for u in units:
            after = counts(rest + u, groups)
            for before in told:
                most = [max(m, x) for m, x in zip(most, largest_move(before, after), strict=True)]
    bounds = [found.l1, found.l2_squared, found.linf, Fraction(found.l0)]
    assert all(m <= b for m, b in zip(most, bounds, strict=True)), (most, bounds)
    if relation == "add_remove" or groups == 1:
        assert most[:3] == bounds[:3]  # no larger than needed


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize(("contributions", "groups"), list(itertools.product([1, 2, 3], [1, 2, 3])))
def test_numbers_of_units(contributions: int, groups: int, relation: Any) -> None:
    """A unit is in some groups: its own value, which no other unit has, is there or is not."""
    found = distinct_sensitivity(
        Neighbors(relation, PrivacyUnit("id", contributions)), cells=groups, values=None, column="id"
    )
    sets = [set(u) for n in range(contributions + 1) for u in itertools.combinations(range(groups), n)]
    pairs = itertools.product(sets, sets if relation == "replace" else [set()])
    gaps = [[abs((g in a) - (g in b)) for g in range(groups)] for a, b in pairs]
    assert max(sum(g) for g in gaps) == found.l1
    assert max(sum(x * x for x in g) for g in gaps) == found.l2_squared
    assert found.linf == 1


def test_figures() -> None:
    one, many = Neighbors("add_remove", None), Neighbors("replace", PrivacyUnit("id", 5))
    assert count_distinct("c").aggregate.parts(DOMAIN)[0].sensitivity(one, cells=1, droppable=True).l1 == 1
    assert distinct_sensitivity(many, cells=1, values=3, column="job").l1 == 3
    assert distinct_sensitivity(many, cells=1, values=None, column="job").l1 == 5
    assert distinct_sensitivity(many, cells=1, values=None, column="id").l1 == 1
    assert distinct_sensitivity(many, cells=9, values=None, column="id").l1 == 9
    assert distinct_sensitivity(many, cells=20, values=2, column="job").l1 == 10
    assert "units" in distinct_sensitivity(many, cells=1, values=None, column="id").because


def test_cells_that_share_a_code_are_not_added_up() -> None:
    """Two raw texts count as `other`: their rows are one group, in which a value counts once."""
    table = [dict.fromkeys(DOMAIN) | {"e": e, "i": i} for e, i in [("w", 1), ("v", 1), ("x", 1), ("x", 2), ("u", 2)]]
    asked = S.group_by("e").agg(count_distinct("i"), sd.count())
    assert duckdb_exact(asked, arrow(table)) == [[2, 0, 2], [2, 0, 3]]  # x, y, z


def test_of_identifiers_and_units() -> None:
    domain = sd.Domain({"id": sd.Identifier(), "job": sd.Category(["a", "b"], missing="keep")})
    table = pa.table({"id": ["u", "u", "v", None, "w"], "job": ["a", "b", "a", "a", None]})
    for unit, units in ((PrivacyUnit("id", 2), [3]), (None, [3])):
        engine = DuckDBEngine(table, domain=domain, unit=unit)
        found = compile_query(as_aggregation(count_distinct("id")), domain)
        assert exact_vectors(engine.run(found.select(engine.primitives)), found) == [units]
        grouped = compile_query(S.group_by("job").agg(count_distinct("id")), domain)
        assert exact_vectors(engine.run(grouped.select(engine.primitives)), grouped) == [[2, 1, 1]]
        engine.close()


def test_bounds_of_the_answer_are_public() -> None:
    people = protect(arrow([]), DOMAIN, budget=sd.PureDP(9))
    release = people.ask(count_distinct("t"), epsilon=0.1)
    low, high = release.interval(0.95)
    assert min(0, release.value) <= low <= high <= max(2, release.value)  # cut to what is possible, or to the value
    assert count_distinct("t").aggregate.describe() == "the number of different values of t"


def test_bins_are_refused() -> None:
    with pytest.raises(sd.errors.QuestionRefused, match="group by it"):
        count_distinct(sd.col("i").bin([0, 1])).aggregate.parts(DOMAIN)


def test_combinations_of_columns_in_python_and_sql() -> None:
    table = pa.table({"town": ["a", "a", "b", "b", None, "a"], "sex": ["f", "m", "f", "f", "f", None]})
    domain = sd.Domain({"town": sd.Identifier(), "sex": sd.Category(["f", "m"])})
    people = protect(table, domain, budget=sd.PureDP(10**6))
    asked = sd.count_distinct("town", "sex")
    assert people.ask(asked, epsilon=10**4).value == 3  # (a, f), (a, m), (b, f)
    whole = sd.count_distinct("town", "sex", missing=True)  # and (missing, f), (a, missing)
    for text, question, count in (("town, sex", asked, 3), ("(town, sex)", whole, 5)):
        sql = sd.sql(f"SELECT COUNT(DISTINCT {text}) AS distinct_town_sex FROM data")
        assert people.plan(sql, epsilon=1).identity() == people.plan(question, epsilon=1).identity()
        assert people.ask(sql, epsilon=10**4).value == count
    assert people.plan(asked, epsilon=1).sentence() == "the number of different combinations of town, sex"
    assert people.plan(sd.count_distinct("sex"), epsilon=1).identity() != people.plan(asked, epsilon=1).identity()


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_a_combination_with_the_units_column_is_not_one_a_unit(relation: Any) -> None:
    """Units of up to 3 rows have up to 3 combinations, of their own column and another."""
    neighbors = Neighbors(relation, PrivacyUnit("id", max_rows=3))
    domain = sd.Domain({"id": sd.Identifier(), "x": sd.Integer(0, 9), "t": sd.Boolean()})
    for columns, moved in ((("id",), 1), (("id", "x"), 3), (("t", "x"), 3)):
        part = sd.count_distinct(*columns).aggregate.parts(domain)[0]
        assert part.sensitivity(neighbors, cells=1, droppable=True).l1 == moved
    pairs = sd.count_distinct("t", "x").aggregate.parts(domain)[0]  # 20 of them, of 2 and of 10 values
    for rows, moved in ((15, 15), (50, 20)):
        unit = PrivacyUnit("id", max_rows=rows)
        assert pairs.sensitivity(Neighbors(relation, unit), cells=1, droppable=True).l1 == moved
    small = sd.count_distinct("t", sd.when(sd.col("x") > 3, 1).otherwise(0)).aggregate.parts(domain)[0]
    assert small.sensitivity(Neighbors(relation, PrivacyUnit("id", max_rows=9)), cells=1, droppable=True).l1 == 4
