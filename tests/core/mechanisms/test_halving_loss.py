"""Halving with places among ties: its law and its loss on all small tables, on a grid as uneven as the one released.

The law is computed from the code that draws (candidates, ranks, distances, rates), and compared with the definition.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest

from quantile_law import law
from sordino.core.mechanisms import partition, quantile_selection, tie_places
from sordino.core.mechanisms.partition import Partition
from sordino.core.mechanisms.quantile_selection import Node, QuantileSelection, halving_stages
from sordino.core.mechanisms.tie_places import cut, place_count
from sordino.core.neighbors import Neighbors, PrivacyUnit, Relation

F = Fraction
Table = tuple[int, ...]
Label = tuple[int, int]  # what is released and kept: a value and a place among its ties
Found = dict[int, tuple[int, int]]
LEVELS = [(F(1, 4), F(3, 4)), (F(0), F(1)), (F(1, 4), F(1, 2), F(9, 10))]
DEEP = [*LEVELS, (F(0), F(1, 2), F(1)), (F(1, 3), F(2, 3))]


@pytest.fixture(autouse=True)
def _coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen parts to a row and 13 places: 0, 1, 2, 3, 4, 6, 8 and their mirror, denser near the ends."""
    for module in (partition, quantile_selection, tie_places):
        monkeypatch.setattr(module, "PARTS", 16)
    monkeypatch.setattr(tie_places, "_BITS", 1)


class Law(NamedTuple):
    """The log chances of one selection's outcomes, and what follows each of them."""

    logs: dict[Label, float]
    found: dict[Label, tuple[int, int]]


class Laws:
    """The selections of a table, each given what was found before it; by the code that draws."""

    def __init__(self, made: QuantileSelection, table: Table, values: int) -> None:
        here, rows = np.unique(np.array(table, dtype=np.int64), return_counts=True)
        self.made, self.known = made, Partition.of(here, here, rows)
        self.start: Found = {-1: (0, 0), len(made.levels): (values - 1, len(table) * 16)}
        self.seen: dict[tuple[Node, tuple[int, int], tuple[int, int]], Law] = {}

    def at(self, node: Node, found: Found) -> Law:
        key = node, found[node.lower], found[node.upper]
        if key not in self.seen:
            problem = self.made._problem(found, node)
            rate = float(problem.rate / problem.parts)
            weights, ends = {}, {}
            for label in itertools.product(range(problem.low, problem.high + 1), range(problem.places)):
                least, most = quantile_selection._ranks(self.known, *label, problem)
                weights[label] = -rate * problem.distance(least, most)
                ends[label] = label[0], problem.clip(most) * 16 // problem.parts
            whole = math.log(math.fsum(math.exp(w) for w in weights.values()))
            self.seen[key] = Law({label: w - whole for label, w in weights.items()}, ends)
        return self.seen[key]


def _tables(values: int, most: int) -> list[Table]:
    return [t for n in range(most + 1) for t in itertools.combinations_with_replacement(range(values), n)]


def _neighbors(table: Table, values: int, relation: Relation, unit: int) -> Iterator[Table]:
    """Yield tables with up to `unit` rows more; under replace, with up to so many rows for as many or fewer or more."""
    away = {()} if relation == "add_remove" else {c for n in range(unit + 1) for c in itertools.combinations(table, n)}
    for gone in away:
        rest = list(table)
        for x in gone:
            rest.remove(x)
        yield from {tuple(sorted((*rest, *more))) for more in _tables(values, unit)}


def _outermost(
    a: Laws, b: Laws, stages: tuple[tuple[Node, ...], ...], found: tuple[Found, Found]
) -> tuple[float, float, float]:
    """Return the greatest and least log ratio of all that is released, and the widest range of one stage's ratios."""
    if not stages:
        return 0.0, 0.0, 0.0
    each, width = [], 0.0
    for node in stages[0]:
        one, other = a.at(node, found[0]), b.at(node, found[1])
        assert one.logs.keys() == other.logs.keys()  # what may be found is the same for neighbors
        ratios = {label: one.logs[label] - other.logs[label] for label in one.logs}
        width += max(ratios.values()) - min(ratios.values())
        each.append([(r, node.place, one.found[label], other.found[label]) for label, r in ratios.items()])
    if len(stages) == 1:
        most, least = (math.fsum(end(r for r, *_ in outcomes) for outcomes in each) for end in (max, min))
        return most, least, width
    high, low = -math.inf, math.inf
    for outcomes in itertools.product(*each):
        later = {p: x for _, p, x, _ in outcomes}, {p: y for _, p, _, y in outcomes}
        most, least, wide = _outermost(a, b, stages[1:], (found[0] | later[0], found[1] | later[1]))
        total = math.fsum(r for r, *_ in outcomes)
        high, low, width = max(high, total + most), min(low, total + least), max(width, wide)
    return high, low, width


def _check_loss(
    levels: tuple[Fraction, ...], relation: Relation, unit: PrivacyUnit | None, values: int, most: int
) -> None:
    epsilon, rows = F(1), 1 if unit is None else 2
    made = QuantileSelection(levels, epsilon, Neighbors(relation, unit), groups=1)
    laws = {t: Laws(made, t, values) for t in _tables(values, most + rows)}
    worst = widest = 0.0
    for table in _tables(values, most):
        for other in _neighbors(table, values, relation, rows):
            a, b = laws[table], laws[other]
            high, low, width = _outermost(a, b, halving_stages(len(levels)), (a.start, b.start))
            worst, widest = max(worst, high, -low), max(widest, width)
    assert float(epsilon) / 3 < worst <= made.stages * float(epsilon) * (1 + 1e-12)
    assert widest <= float(epsilon) * (1 + 1e-12)  # given what was found before: so rho is epsilon^2 / 8 a stage
    assert levels != (F(0), F(1)) or widest > 0.9 * float(epsilon)  # not idle


@pytest.mark.each(3)
@pytest.mark.parametrize("levels", [(F(1, 4), F(3, 4)), (F(1, 4), F(1, 2), F(9, 10))], ids=str)
@pytest.mark.parametrize("table", [(), (1,), (0, 0, 2), (1, 1, 1, 2), (0, 1, 1, 2, 2)], ids=str)
def test_the_law_is_that_of_the_definition(levels: tuple[Fraction, ...], table: Table) -> None:
    made = QuantileSelection(levels, F(2), Neighbors("add_remove", None), groups=1)
    cuts = [cut(place) for place in range(place_count())]
    assert cuts == [0, 1, 2, 3, 4, 6, 8, 10, 12, 13, 14, 15, 16]
    laws = Laws(made, table, 3)
    joint: dict[tuple[Label, ...], float] = {}
    for labels, chance in _outcomes(laws, halving_stages(len(levels)), laws.start):
        key = tuple((v, 0 if p in _last(levels) else cuts[j]) for p, (v, j) in sorted(labels.items()))
        joint[key] = joint.get(key, 0.0) + chance
    assert joint == pytest.approx(law(made, table, 0, 2, 16, cuts), abs=1e-12)


def _last(levels: tuple[Fraction, ...]) -> set[int]:
    return {node.place for nodes in halving_stages(len(levels)) for node in nodes if node.last}


def _outcomes(
    laws: Laws, stages: tuple[tuple[Node, ...], ...], found: Found
) -> Iterator[tuple[dict[int, Label], float]]:
    if not stages:
        yield {}, 1.0
        return
    each = [[(node, label, math.exp(log)) for label, log in laws.at(node, found).logs.items()] for node in stages[0]]
    for chosen in itertools.product(*each):
        later = found | {node.place: laws.at(node, found).found[label] for node, label, _ in chosen}
        chance = math.prod(c for *_, c in chosen)
        for labels, rest in _outcomes(laws, stages[1:], later):
            yield {**labels, **{node.place: label for node, label, _ in chosen}}, chance * rest


@pytest.mark.each(12)
@pytest.mark.parametrize("unit", [None, PrivacyUnit("id", max_rows=2)], ids=["row", "two rows"])
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("levels", LEVELS, ids=str)
def test_the_loss_on_all_neighbors_of_few_rows(
    relation: Relation, unit: PrivacyUnit | None, levels: tuple[Fraction, ...]
) -> None:
    _check_loss(levels, relation, unit, values=3, most=2)


@pytest.mark.deep
@pytest.mark.parametrize("unit", [None, PrivacyUnit("id", max_rows=2)], ids=["row", "two rows"])
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("levels", DEEP, ids=str)
def test_the_loss_on_all_neighbors_of_five_rows(
    relation: Relation, unit: PrivacyUnit | None, levels: tuple[Fraction, ...]
) -> None:
    _check_loss(levels, relation, unit, values=4, most=5)
