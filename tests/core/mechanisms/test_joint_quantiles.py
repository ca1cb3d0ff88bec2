"""Several quantiles by one selection: its cost, its law, its loss and its error, on all small tables."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest

from battery import chi_square_tail
from quantile_law import Counted
from sordino.core.mechanisms.joint_quantiles import JointQuantiles, _Walk, keeping_chance
from sordino.core.mechanisms.partition import Partition
from sordino.core.neighbors import Neighbors, PrivacyUnit, Relation
from sordino.core.noise.bernoulli import CertifiedProbability
from sordino.core.noise.rng import Rng
from sordino.errors import DeclarationError

F = Fraction
Table = tuple[int, ...]
LEVELS = [(F(1, 4), F(3, 4)), (F(0), F(1)), (F(1, 3), F(1, 2), F(5, 6))]
TABLES: list[Table] = [(), (1,), (0, 0, 2), (1, 1, 1, 2), (0, 1, 1, 2, 2), (1, 1, 1, 1, 1, 1, 1)]


def _made(
    levels: tuple[Fraction, ...], relation: Relation = "add_remove", rows: int = 1, groups: int = 1
) -> JointQuantiles:
    unit = None if rows == 1 else PrivacyUnit("id", max_rows=rows)
    return JointQuantiles(levels, F(1), Neighbors(relation, unit), groups)


def _walk(made: JointQuantiles, table: Table, values: int) -> _Walk:
    here, rows = np.unique(np.array(table, dtype=np.int64), return_counts=True)
    return made.walk(Partition.of(here, here, rows), 0, values - 1)


@lru_cache(None)
def _cost(levels: tuple[Fraction, ...], table: Table, found: Table) -> Fraction:
    """The least cost by trying every way to divide ties by whole parts of a row: no walk, no clipping."""
    parts = math.lcm(*(q.denominator for q in levels))
    rows, shares = len(table) * parts, [b - a for a, b in itertools.pairwise((F(0), *levels, F(1)))]
    best: dict[int, Fraction] = {0: F(0)}
    for value, share in zip((*found, None), shares, strict=True):
        below = rows if value is None else sum(x < value for x in table) * parts
        above = rows if value is None else sum(x <= value for x in table) * parts
        best = {
            s: min(cost + abs(s - before - share * rows) for before, cost in best.items() if before <= s)
            for s in range(below, above + 1)
            if any(before <= s for before in best)
        }
    return best[rows] / parts


def _logs(made: JointQuantiles, table: Table, values: int) -> dict[Table, float]:
    """The law by its definition: the log chance of each outcome."""
    found = itertools.combinations_with_replacement(range(values), len(made.levels))
    weights = {o: -float(made.rate * _cost(made.levels, table, o)) for o in found}
    whole = math.log(math.fsum(math.exp(w) for w in weights.values()))
    return {o: w - whole for o, w in weights.items()}


@pytest.mark.each(7)
@pytest.mark.parametrize("levels", [*LEVELS, (F(1, 8), F(1, 4), F(1, 2), F(7, 8))], ids=str)
@pytest.mark.parametrize("table", TABLES, ids=str)
def test_what_is_proposed_and_kept_has_the_law(levels: tuple[Fraction, ...], table: Table) -> None:
    # every way through the states: none is proposed less than its weight, and the rest is less than a millionth
    walk, values = _walk(_made(levels), table, 3), 3
    weights = {}
    for o, cost, proposed, excess in _ways(walk):
        assert cost == _cost(levels, table, o) * math.lcm(*(q.denominator for q in levels))
        low, high = keeping_chance(cost * walk.rate, excess).bounds(60)
        assert 0.99 < low <= high <= 1
        weights[o] = proposed * Fraction(low)
        exact = math.exp(-float(cost * walk.rate)) / walk.start
        assert float(weights[o]) == pytest.approx(exact, rel=1e-13)
    assert sum(weights.values()) > 1 - F(1, 10**6)
    law = _logs(_made(levels), table, values)
    assert weights.keys() == law.keys()
    whole = sum(weights.values())
    assert {o: float(w / whole) for o, w in weights.items()} == pytest.approx(
        {o: math.exp(w) for o, w in law.items()}, rel=1e-12
    )


def _ways(walk: _Walk) -> Iterator[tuple[Table, int, Fraction, Fraction]]:
    """Yield the values, the cost, the chance to be proposed and the excess of each way; check each state's total."""

    def follow(
        place: int, o: Table, rank: int, weight: float, cost: int, chance: Fraction, excess: Fraction
    ) -> Iterator[tuple[Table, int, Fraction, Fraction]]:
        if place == len(walk.gaps):
            yield o, cost, chance, excess
            return
        first = o[-1] if o else 0
        terms, after, ranks = walk.steps(place, first, rank)
        exact = [Fraction(float(t)) for t in terms]
        assert sum(exact) <= Fraction(weight) <= sum(exact) * (1 + F(1, 2**28))
        for i, term in enumerate(exact):
            there = (int(ranks[i]), float(after[i]), cost + abs(int(ranks[i]) - rank - walk.gaps[place]))
            more = (chance * term / Fraction(weight), excess * term / Fraction(float(after[i])))
            longer = o if place == len(walk.gaps) - 1 else (*o, first + i)
            yield from follow(place + 1, longer, *there, *more)

    return follow(0, (), 0, walk.start, 0, F(1), F(1))


@pytest.mark.deep
@pytest.mark.parametrize("table", [(0, 0, 2), (), (0, 1, 1, 2, 2)], ids=str)
def test_draws_have_the_law(table: Table) -> None:
    # chi-square of 1,000 draws: rejects a right law with chance 1e-6
    made, rng = _made((F(1, 3), F(1, 2), F(5, 6))), Rng.seeded(5)
    walk, law = _walk(made, table, 3), _logs(made, table, 3)
    drawn = [tuple(walk.draw(rng)) for _ in range(1000)]
    expected = np.array([1000 * math.exp(w) for w in law.values()])
    counted = np.array([drawn.count(o) for o in law])
    expected *= 1000 / expected.sum()
    assert chi_square_tail(((counted - expected) ** 2 / expected).sum(), len(expected) - 1) > 1e-6


def test_what_is_not_kept_is_proposed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proposal lies within a millionth of the law, so no sample of draws tells whether its coin is tossed."""
    walk = _walk(_made((F(1, 4), F(3, 4))), (0, 0, 2), 3)
    tossed = []

    def toss(coin: CertifiedProbability, rng: Rng) -> bool:
        del rng
        tossed.append(coin.first)
        return len(tossed) == 3

    monkeypatch.setattr("sordino.core.mechanisms.joint_quantiles.bernoulli", toss)
    walk.draw(Rng.seeded(3))
    assert len(tossed) == 3
    assert all(2**63 < first < 2**64 for first in tossed)


def _tables(values: int, most: int) -> list[Table]:
    return [t for n in range(most + 1) for t in itertools.combinations_with_replacement(range(values), n)]


@pytest.mark.each(7)
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("levels", LEVELS, ids=str)
def test_the_loss_on_all_neighbors(relation: Relation, rows: int, levels: tuple[Fraction, ...]) -> None:
    made, worst, widest = _made(levels, relation, rows), 0.0, 0.0
    laws = {t: _logs(made, t, 3) for t in _tables(3, 4 + rows)}
    for table, gone in itertools.product(_tables(3, 4), range(rows + 1) if relation == "replace" else [0]):
        for kept in set(itertools.combinations(table, len(table) - gone)) if len(table) >= gone else ():
            for more in _tables(3, rows):
                one, other = laws[table], laws[tuple(sorted((*kept, *more)))]
                ratios = [one[o] - other[o] for o in one]
                worst, widest = max(worst, *map(abs, ratios)), max(widest, max(ratios) - min(ratios))
    assert worst <= 1 + 1e-12
    assert widest <= 1 + 1e-12
    assert widest > (
        0.49 if levels == (F(0), F(1)) else 0.6
    )  # not idle; at both ends costs go one way, and half is used


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_the_loss_in_two_groups(relation: Relation) -> None:
    made, widest = _made((F(1, 4), F(3, 4)), relation, 2, groups=2), 0.0
    laws = {t: _logs(made, t, 3) for t in _tables(3, 5)}
    ranges: dict[tuple[int, int], float] = {}  # by rows gone and rows that come, in one group
    for table, gone, more in itertools.product(_tables(3, 3), range(3), _tables(3, 2)):
        if len(table) < gone or (relation == "add_remove" and gone):
            continue
        for kept in set(itertools.combinations(table, len(table) - gone)):
            one, other = laws[table], laws[tuple(sorted((*kept, *more)))]
            ratios = [one[o] - other[o] for o in one]
            key = gone, len(more)
            ranges[key] = max(ranges.get(key, 0.0), max(ratios) - min(ratios))
    for (gone, come), (gone_there, come_there) in itertools.product(ranges, ranges):
        if gone + gone_there <= 2 and come + come_there <= 2:
            widest = max(widest, ranges[gone, come] + ranges[gone_there, come_there])
    assert 0.6 < widest <= 1 + 1e-12


@pytest.mark.deep
@pytest.mark.parametrize("levels", LEVELS, ids=str)
def test_errors_are_no_more_than_stated(levels: tuple[Fraction, ...]) -> None:
    made, both = _made(levels, "replace"), (0, len(levels) - 1)
    for table in _tables(4, 4):
        law = {o: math.exp(w) for o, w in _logs(made, table, 4).items()}
        off = {o: [_distance(table, q, v) for q, v in zip(levels, o, strict=True)] for o in law}
        for places in ((0,), (len(levels) - 1,), both):
            ((stage,),) = made.error_stages([places], values=4, rows=4)
            for o in law:  # a row of error costs at least what the bound takes it to cost
                assert _cost(levels, table, o) * made.rate >= stage.rate * sum(off[o][i] for i in places)
            for t in (0.5, 1, 2, 3):
                tail = math.fsum(p for o, p in law.items() if sum(off[o][i] for i in places) >= t)
                assert tail <= math.exp(stage.choices - float(stage.rate) * t) * (1 + 1e-12)


def _distance(table: Table, level: Fraction, value: int) -> Fraction:
    below, above, aim = sum(x < value for x in table), sum(x <= value for x in table), level * len(table)
    return max(F(0), below - aim, aim - above)


@pytest.mark.deep
def test_errors_of_dense_values_are_those_expected() -> None:
    # the deviations of 200 draws are within 30% of the law's but for a chance below 1e-5
    values, levels = 400, tuple(F(i, 5) for i in range(1, 5))
    steps = np.arange(values, dtype=np.int64)
    made = JointQuantiles(levels, F(1), Neighbors("replace", None), groups=1)
    walk, rng = made.walk(Partition.of(steps, steps, np.ones(values, dtype=np.int64)), 0, values - 1), Rng.seeded(2)
    off = np.array([walk.draw(rng) for _ in range(200)]) + 0.5 - np.array(levels, dtype=float) * values
    found = np.sqrt(np.mean(np.square(off), axis=0)) / made.dense_errors(levels)
    assert ((found > 0.7) & (found < 1.3)).all()


@pytest.mark.parametrize("epsilon", [F(1, 10**400), F(10**400)], ids=["tiny", "huge"])
def test_any_loss_is_drawn(epsilon: Fraction) -> None:
    made = JointQuantiles((F(1, 4), F(3, 4)), epsilon, Neighbors("add_remove", None), groups=2)
    counted = Counted([[3, 3, 4, 9], []], 0, 9, [5, 1])
    (one, other) = made.release(counted, low=0, high=9, rng=Rng.seeded(1))
    assert counted.asked == 1  # all that is coarse at once
    assert 0 <= one[0] <= one[1] <= 9
    assert 0 <= other[0] <= other[1] <= 9
    if epsilon > 1:
        assert one[0] == 3
        assert 4 <= one[1] <= 9


def test_values_beyond_64_bits_are_found() -> None:
    far = 10**30
    made = JointQuantiles((F(1, 4), F(3, 4)), F(100), Neighbors("replace", None), groups=1)
    here = np.array([far + 2, far + 7], dtype=object)
    known = Partition.of(here, here, np.array([50, 50]))
    assert [far + step for step in made.walk(known, far, far + 9).draw(Rng.seeded(1))] == [far + 2, far + 7]


def test_wide_columns_many_groups_and_odd_levels_are_left_to_halving() -> None:
    levels = (F(1, 4), F(3, 4))
    assert JointQuantiles.suits(levels, values=5000, groups=1)
    assert not JointQuantiles.suits(levels, values=5001, groups=1)
    assert not JointQuantiles.suits(levels, values=500, groups=101)
    assert not JointQuantiles.suits((F(1, 4), F(1, 10**6 + 3)), values=2, groups=1)
    assert not JointQuantiles.suits((F(1, 2),), values=2, groups=1)


@pytest.mark.parametrize(
    ("levels", "epsilon"),
    [((F(1, 2),), F(1)), ((F(1, 2), F(1, 2)), F(1)), ((F(1, 2), F(2)), F(1)), ((F(1, 4), F(1, 2)), F(0))],
    ids=str,
)
def test_what_cannot_be_is_refused(levels: tuple[Fraction, ...], epsilon: Fraction) -> None:
    with pytest.raises(DeclarationError):
        JointQuantiles(levels, epsilon, Neighbors("add_remove", None), groups=1)
