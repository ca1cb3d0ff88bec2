"""Contribution bounds: brute force over all that one unit can add, and over all small neighbor pairs through the engine."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

import sordino as sd
from ask.engines.support import assert_within_sensitivity, exact
from sordino import col
from sordino.ask.queries.build import Selection
from sordino.ask.queries.sensitivity_rules import (
    count_sensitivity,
    distinct_sensitivity,
    sum_sensitivity,
    unit_total_sensitivity,
)
from sordino.core.neighbors import ContributionBounds, Neighbors, PrivacyUnit, Relation, Sensitivity
from sordino.errors import DeclarationError, QuestionRefused

S = Selection()
BOUNDS = [
    (c, g, r)
    for c, g, r in itertools.product((1, 2, 3, 4, None), (1, 2, 3, None), (1, 2, 3, None))
    if c is not None or (g is not None and r is not None and g * r <= 6)
]


def spread_rows(neighbors: Neighbors, cells: int) -> Iterator[tuple[int, ...]]:
    """Yield every way in which the rows of one unit can lie in the groups."""
    most = min(neighbors.rows_per_group, neighbors.contributions)
    for counts in itertools.product(range(most + 1), repeat=cells):
        if sum(counts) <= neighbors.contributions and sum(map(bool, counts)) <= neighbors.groups:
            yield counts


def contributions(rows: Sequence[int], values: Sequence[int]) -> set[tuple[int, ...]]:
    """Return the sums by group that rows can have whose values are each one of `values`: their ends are what matters."""
    sums = [sorted({n * v for v in values} | {0} if n else {0}) for n in rows]
    return set(itertools.product(*sums))


def enforce(relation: Relation, bounds: tuple[int | None, int | None, int | None], cells: int) -> Neighbors:
    return Neighbors(relation, PrivacyUnit("id", *bounds)).enforce(None, by_group=cells > 1)


def check(found: Sensitivity, relation: Relation, one_unit: set[tuple[int, ...]]) -> tuple[int, int]:
    """Hold all that one unit can add, or two can exchange, against the bound; return the largest l1 and l2 squared."""
    pairs = (
        ((a, (0,) * len(a)) for a in one_unit) if relation == "add_remove" else itertools.product(one_unit, repeat=2)
    )
    most = (0, 0)
    for one, other in pairs:
        moved = [abs(x - y) for x, y in zip(one, other, strict=True)]
        l1, l2_squared = sum(moved), sum(m * m for m in moved)
        assert l1 <= found.l1
        assert l2_squared <= found.l2_squared
        assert max(moved) <= found.linf
        assert sum(map(bool, moved)) <= found.l0
        most = max(most[0], l1), max(most[1], l2_squared)
    return most


@pytest.mark.each(7)
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("cells", [1, 2, 3])
@pytest.mark.parametrize("ends", [(0, 1), (-1, 2), (-3, 1), (1, 2), (-2, 2)])
def test_no_unit_moves_sums_by_more_and_some_unit_by_as_much(
    relation: Relation, cells: int, ends: tuple[int, int]
) -> None:
    low, high = ends
    for bounds in BOUNDS:
        near = enforce(relation, bounds, cells)
        if ends == (0, 1):
            found = count_sensitivity(near, cells=cells, droppable=True)
            one_unit = set(spread_rows(near, cells))
        else:
            found = sum_sensitivity(near, lower=Fraction(low), upper=Fraction(high), cells=cells, droppable=True)
            one_unit = {s for rows in spread_rows(near, cells) for s in contributions(rows, ends)}
        l1, l2_squared = check(found, relation, one_unit)
        if relation == "add_remove" or cells == 1:
            assert (Fraction(l1), Fraction(l2_squared)) == (found.l1, found.l2_squared), (bounds, found)


@pytest.mark.each(3)
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("bounds", [(3, None, 2), (4, 2, 3), (None, 2, 2), (5, None, 2)])
def test_exchanges_reach_the_bound_where_there_is_room(relation: Relation, bounds: Any) -> None:
    """A full group beside the rest of another, as in ((2, 1), (1, 2)), moves more than either by itself."""
    near = enforce(relation, bounds, 4)
    found = sum_sensitivity(near, lower=Fraction(-1), upper=Fraction(2), cells=4, droppable=True)
    one_unit = {s for rows in spread_rows(near, 4) for s in contributions(rows, (-1, 2))}
    assert check(found, relation, one_unit)[1] == found.l2_squared


@pytest.mark.deep
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize(("cells", "values"), [(1, 2), (2, 2), (3, 1), (3, None)])
def test_no_unit_moves_counts_of_different_values_by_more(relation: Relation, cells: int, values: int | None) -> None:
    for bounds in BOUNDS:
        near = enforce(relation, bounds, cells)
        found = distinct_sensitivity(near, cells=cells, values=values, column="x")
        most = near.contributions if values is None else values
        one_unit = {tuple(min(n, most) for n in rows) for rows in spread_rows(near, cells)}
        if cells > 1 or relation == "add_remove":
            check(found, relation, one_unit)
        units = distinct_sensitivity(near, cells=cells, values=None, column="id")
        check(units, relation, {tuple(min(n, 1) for n in rows) for rows in spread_rows(near, cells)})


@pytest.mark.each(5)
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("cells", [1, 2, 3])
@pytest.mark.parametrize("ends", [(0, 5), (-2, 3), (-4, -1), (2, 5)])
def test_no_unit_moves_sums_of_clipped_totals_by_more(relation: Relation, cells: int, ends: tuple[int, int]) -> None:
    for bounds in BOUNDS:
        near = enforce(relation, bounds, cells)
        found = unit_total_sensitivity(near, lower=Fraction(ends[0]), upper=Fraction(ends[1]), cells=cells)
        totals = [(0, *ends) if i < near.groups else (0,) for i in range(cells)]
        one_unit = {p for t in itertools.product(*totals) for p in itertools.permutations(t)}
        check(found, relation, one_unit)


def test_one_row_in_each_of_m_groups_moves_l2_by_the_root_of_m() -> None:
    near = Neighbors("add_remove", PrivacyUnit("id", max_rows=50))
    asked = ContributionBounds(max_groups=9, max_rows_per_group=1)
    found = count_sensitivity(near.enforce(asked, by_group=True), cells=100, droppable=True)
    assert (found.l0, int(found.l1), found.l2, int(found.linf)) == (9, 9, 3.0, 1)
    assert count_sensitivity(near, cells=100, droppable=True).l2 == 50
    assert count_sensitivity(near.enforce(None, by_group=True), cells=100, droppable=True).l2 == 50


# ---- through the engine: the rows that are kept are within what the sensitivity supposes

DOMAIN = sd.Domain(
    {"id": sd.Identifier(), "x": sd.Integer(-2, 3), "c": sd.Category(["a", "b", "c"]), "w": sd.Integer()}
)
UNITS = [PrivacyUnit("id", 2), PrivacyUnit("id", None, 2, 1), PrivacyUnit("id", 3, 2), PrivacyUnit("id", 3, None, 1)]
QUESTIONS: list[Any] = [
    sd.count(),
    sd.sum("x"),
    S.where(col("w") > 0).agg(sd.count(), sd.mean("x")),
    S.group_by("c").agg(sd.count(), sd.sum("x")),
    S.group_by("c").agg(sd.variance("x"), sd.count_distinct("x"), sd.count_distinct("id")),
    S.where(col("w") > 0).group_by("c").agg(sd.sum(sd.when(col("x") > 0, col("x")).otherwise(0)), sd.count("x")),
    S.group_by("c", col("x").bin([-2, 0, 3])).agg(sd.count()),
    S.group_by("c").agg(sd.count(), sd.sum("x")).bound_contributions(max_rows=1),
    S.group_by("c").agg(sd.sum("w", per_unit=(-3, 4)), sd.count(), sd.mean("x")),
    S.where(col("x") > 0).agg(sd.sum("w", per_unit=(0, 1)), sd.sum("x")),
    sd.histogram("x"),
]
KINDS = {"id": pa.string(), "x": pa.int64(), "c": pa.string(), "w": pa.int64()}
CELLS = [(1, "a", 1), (-2, "a", 0), (3, "b", 1), (None, "c", 1), (2, None, 1), (3, "q", 1)]


def table(*units: tuple[str, Sequence[tuple[Any, ...]]]) -> pa.Table:
    rows = [(name, *cells) for name, several in units for cells in several]
    return pa.table({n: pa.array([r[i] for r in rows], kind) for i, (n, kind) in enumerate(KINDS.items())})


@pytest.mark.each(90)
@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda q: getattr(q, "describe", q.__repr__)()[:50])
def test_no_small_neighbors_differ_by_more_than_declared(question: Any, unit: PrivacyUnit) -> None:
    beside = ("u", [CELLS[0], CELLS[2], CELLS[2], CELLS[3]])
    one_units = list(itertools.combinations_with_replacement(CELLS, 1))
    one_units += list(itertools.combinations_with_replacement(CELLS, 2))[::5]
    one_units += list(itertools.combinations_with_replacement(CELLS, 3))[::19]
    several: list[tuple[Any, ...]] = [*one_units, (CELLS[0],) * 5, (*CELLS, *CELLS)]
    alone = exact(table(beside), DOMAIN, question, unit=unit)
    answers = [exact(table(("v", cells), beside), DOMAIN, question, unit=unit) for cells in several]
    for answer in answers:
        assert_within_sensitivity(DOMAIN, question, alone, answer, Neighbors("add_remove", unit))
    for one, other in itertools.combinations(answers, 2):
        assert_within_sensitivity(DOMAIN, question, one, other, Neighbors("replace", unit))


# ---- what may be stated


@pytest.mark.parametrize(
    ("stated", "says"),
    [
        ({"column": "id"}, "state the most rows of one unit that count, or both"),
        ({"column": "id", "max_groups": 3}, "or both max_groups and max_rows_per_group"),
        ({"column": "id", "max_rows_per_group": 0, "max_rows": 1}, "from 1 to 10"),
        ({"column": None, "max_groups": 3, "max_rows_per_group": 1}, "a promise about rows alone"),
        ({"column": None}, "state max_rows"),
    ],
)
def test_units_that_bound_nothing_are_refused(stated: dict[str, Any], says: str) -> None:
    with pytest.raises(DeclarationError, match=says):
        PrivacyUnit(**stated)


def test_old_declarations_keep_their_words() -> None:
    assert Neighbors("replace", PrivacyUnit("id", 5)).to_dict()["privacy_unit"] == {"column": "id", "max_rows": 5}
    old = Neighbors("replace", PrivacyUnit("id", 5, 2)).to_dict()["privacy_unit"]
    assert old == {"column": "id", "max_rows": 5, "max_groups": 2}
    assert Neighbors("replace", None).to_dict()["privacy_unit"] == "row"


@pytest.mark.parametrize(
    ("unit", "asked", "by_group", "says"),
    [
        (PrivacyUnit("id", 5), {"max_rows": 6}, True, "above the 5 that the table's declaration allows"),
        (PrivacyUnit("id", 5, 2), {"max_groups": 3}, True, "above the 2"),
        (PrivacyUnit("id", 5), {"max_groups": 1}, False, "this question has none: use max_rows"),
        (PrivacyUnit(None, 5), {"max_rows": 1}, True, "needs a column that names each row's unit"),
        (None, {"max_rows": 1}, True, "needs a column that names each row's unit"),
    ],
)
def test_bounds_that_cannot_be_enforced_are_refused(
    unit: PrivacyUnit | None, asked: dict[str, int], by_group: bool, says: str
) -> None:
    with pytest.raises(QuestionRefused, match=says):
        Neighbors("add_remove", unit).enforce(ContributionBounds(**asked), by_group=by_group)


def test_bounds_of_a_question_only_ever_tighten() -> None:
    asked = S.group_by("c").bound_contributions(max_rows=4).agg(sd.count()).bound_contributions(max_groups=3)
    assert asked.bound_contributions(max_rows=9).bounds == ContributionBounds(4, 3)
    assert asked.describe() == "the number of rows, for each c, at most 4 row(s) and 3 group(s) of one unit"
    assert asked.identity() != S.group_by("c").agg(sd.count()).identity()
    with pytest.raises(QuestionRefused, match="takes max_rows"):
        asked.bound_contributions()
