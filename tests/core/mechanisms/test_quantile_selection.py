"""Quantiles: the score's sensitivity, the loss on all small neighbors, and the drawn law. False alarms: 1e-6 a test."""

from __future__ import annotations

import collections
import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from battery import audited_epsilon, chi_square_tail
from quantile_law import Counted, law, single_law
from sordino.core.estimates.choices import Ranks
from sordino.core.estimates.registry import estimate_from_dict
from sordino.core.mechanisms import partition, quantile_selection, tie_places
from sordino.core.mechanisms.partition import Partition
from sordino.core.mechanisms.quantile_selection import QuantileSelection, halving_stages
from sordino.core.mechanisms.tie_places import PARTS, cut, place_count
from sordino.core.neighbors import Neighbors, PrivacyUnit, Relation
from sordino.core.noise.rng import Rng
from sordino.errors import DeclarationError

F = Fraction
ALARM = 1e-6
RELATIONS: tuple[Relation, ...] = ("add_remove", "replace")
ROW = {r: Neighbors(r, None) for r in RELATIONS}
PAIR = {r: Neighbors(r, PrivacyUnit("id", max_rows=2)) for r in RELATIONS}
LEVELS = [F(0), F(1, 4), F(1, 2), F(2, 3), F(1)]
HALF, THREE = (F(1, 2),), (F(1, 4), F(1, 2), F(3, 4))


def _tables(values: int, most: int) -> list[tuple[int, ...]]:
    return [t for n in range(most + 1) for t in itertools.combinations_with_replacement(range(values), n)]


def _neighbors(table: Sequence[int], values: int, made: Neighbors) -> Iterator[tuple[int, ...]]:
    """Yield tables with one unit's rows more; under replace, with one unit's rows for another's (either may be none)."""
    rows = _tables(values, made.contributions)
    if made.relation == "add_remove":
        yield from (tuple(sorted((*table, *more))) for more in rows)
        return
    for size in range(min(made.contributions, len(table)) + 1):
        for away in set(itertools.combinations(range(len(table)), size)):
            rest = [x for i, x in enumerate(table) if i not in away]
            yield from (tuple(sorted((*rest, *more))) for more in rows)


def _worst(one: dict[Any, float], other: dict[Any, float]) -> float:
    assert one.keys() == other.keys()
    return max(abs(math.log(one[o] / other[o])) for o in one)


def _range(one: dict[Any, float], other: dict[Any, float]) -> float:
    ratios = [math.log(one[o] / other[o]) for o in one]
    return max(ratios) - min(ratios)


def _check_law(counts: dict[Any, int], expected: dict[Any, float]) -> None:
    """Chi-square over cells of 10 or more expected draws, the rest as one cell."""
    assert set(counts) <= set(expected)
    total = sum(counts.values())
    large = [o for o, p in expected.items() if p * total >= 10]
    pairs = [(counts.get(o, 0), expected[o] * total) for o in large]
    rest = total - sum(e for _, e in pairs)
    if rest >= 10:
        pairs.append((total - sum(c for c, _ in pairs), rest))
    statistic = sum((c - e) ** 2 / e for c, e in pairs)
    assert chi_square_tail(statistic, max(1, len(pairs) - 1)) > ALARM


@pytest.mark.each(7)
@pytest.mark.parametrize("unit", [ROW, PAIR], ids=["row", "two rows"])
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("level", LEVELS, ids=str)
def test_the_score_moves_by_no_more_than_the_theorem(
    relation: Relation, unit: dict[str, Neighbors], level: Fraction
) -> None:
    """On every table of up to 4 rows over 4 values: empty, constant, ties, two values; and the bound is reached."""
    made = unit[relation]
    bound = made.contributions * (max(level, 1 - level) if relation == "add_remove" else 1)
    costs = {}
    for table in _tables(4, 4 + made.contributions):
        aim = level * len(table)
        ends = [(sum(x < v for x in table), sum(x <= v for x in table)) for v in range(4)]
        costs[table] = [max(F(0), a - aim, aim - b) for a, b in ends]
    moved = [
        max(abs(a - b) for a, b in zip(costs[t], costs[u], strict=True))
        for t in _tables(4, 4)
        for u in _neighbors(t, 4, made)
    ]
    assert max(moved) == bound


@pytest.mark.each(2)
@pytest.mark.parametrize("unit", [ROW, PAIR], ids=["row", "two rows"])
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("level", LEVELS, ids=str)
def test_the_loss_of_one_quantile_on_all_small_neighbors(
    relation: Relation, unit: dict[str, Neighbors], level: Fraction
) -> None:
    neighbors, epsilon = unit[relation], F(3, 2)
    rate = QuantileSelection((level,), epsilon, neighbors, groups=1).rate(0)
    laws = {t: single_law(t, level, rate, range(4)) for t in _tables(4, 3 + neighbors.contributions)}
    worst = max(_worst(laws[t], laws[u]) for t in _tables(4, 3) for u in _neighbors(t, 4, neighbors))
    assert worst <= float(epsilon) * (1 + 1e-12)
    assert worst > float(epsilon) / 3  # not idle
    widest = max(_range(laws[t], laws[u]) for t in _tables(4, 3) for u in _neighbors(t, 4, neighbors))
    assert widest <= float(epsilon) * (1 + 1e-12)  # so rho = epsilon^2 / 8
    if level in (0, 1):
        assert widest > 0.99 * float(epsilon)  # the bound is reached: there is no slack to spend


@pytest.mark.each(2)
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("level", [F(0), F(1, 2), F(2, 3), F(1)], ids=str)
def test_the_loss_over_groups(relation: Relation, level: Fraction) -> None:
    """A unit of two rows over two groups: rows are (group, value); the answers are independent."""
    neighbors, epsilon = PAIR[relation], F(1)
    rate = QuantileSelection((level,), epsilon, neighbors, groups=2).rate(0)

    def both(table: Sequence[int]) -> dict[Any, float]:
        one, two = ([x % 3 for x in table if x // 3 == g] for g in (0, 1))
        laws = [single_law(t, level, rate, range(3)) for t in (one, two)]
        return {(a, b): p * q for a, p in laws[0].items() for b, q in laws[1].items()}

    laws = {t: both(t) for t in _tables(6, 4)}
    worst = max(_worst(laws[t], laws[u]) for t in _tables(6, 2) for u in _neighbors(t, 6, neighbors))
    assert epsilon / 4 < worst <= float(epsilon) * (1 + 1e-12)


@pytest.mark.each(11)
@pytest.mark.parametrize("unit", [ROW, PAIR], ids=["row", "two rows"])
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("levels", [(F(1, 4), F(3, 4)), THREE, (F(0), F(1)), (F(0), F(1, 2), F(1))])
def test_the_loss_of_halving(relation: Relation, unit: dict[str, Neighbors], levels: tuple[Fraction, ...]) -> None:
    """Of all that is released and kept: values and the places among ties, three parts to a row."""
    neighbors, epsilon, places = unit[relation], F(1), 3
    made = QuantileSelection(levels, epsilon, neighbors, groups=1)
    most = 2 if neighbors.contributions == 2 else 3
    laws = {t: law(made, t, 0, 2, places) for t in _tables(3, most + neighbors.contributions)}
    worst = max(_worst(laws[t], laws[u]) for t in _tables(3, most) for u in _neighbors(t, 3, neighbors))
    assert float(epsilon) / 3 < worst <= made.stages * float(epsilon) * (1 + 1e-12)


DRAWS = [300, pytest.param(3_000, marks=pytest.mark.deep)]
TABLES = {
    "empty": (),
    "constant": (7,) * 9,
    "two values": (2,) * 5 + (20,) * 6,
    "ties": (0, 3, 3, 3, 4, 9, 9, 25, 26),
    "spread": tuple(range(0, 27, 2)),
    "at the ends": (0, 0, 0, 26, 26),
}


@pytest.mark.deep
@pytest.mark.parametrize("draws", DRAWS)
@pytest.mark.parametrize("level", [F(0), F(1, 2), F(9, 10), F(1)], ids=str)
@pytest.mark.parametrize("name", TABLES)
def test_draws_have_the_law_whatever_was_counted_first(name: str, level: Fraction, draws: int) -> None:
    """Direct counts, and bins of 9, 3 and 1 steps refined as the draws ask for: both follow the definition."""
    table = TABLES[name]
    for widths, neighbors in (((1,), ROW["add_remove"]), ((9, 3, 1), ROW["replace"])):
        made = QuantileSelection((level,), F(1), neighbors, groups=1)
        rng, found = Rng.seeded(5), collections.Counter[tuple[int, ...]]()
        for _ in range(draws):
            found[tuple(made.release(Counted([table], 0, 26, widths), low=0, high=26, rng=rng)[0])] += 1
        _check_law(found, single_law(table, level, made.rate(0), range(27)))


@pytest.mark.deep
@pytest.mark.parametrize("draws", DRAWS)
@pytest.mark.parametrize("name", ["ties", "constant", "empty"])
def test_draws_of_halving_have_the_law(name: str, draws: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three parts to a row, so that every outcome can be listed; values as released."""
    for module in (partition, quantile_selection, tie_places):
        monkeypatch.setattr(module, "PARTS", 3)
    table = tuple(min(x, 5) for x in TABLES[name])
    made = QuantileSelection((F(1, 4), F(1, 2), F(9, 10)), F(2), ROW["add_remove"], groups=1)
    expected: dict[tuple[int, ...], float] = collections.defaultdict(float)
    for outcome, chance in law(made, table, 0, 5, 3).items():
        expected[tuple(v for v, _ in outcome)] += chance
    rng, found = Rng.seeded(6), collections.Counter[tuple[int, ...]]()
    for _ in range(draws):
        found[tuple(made.release(Counted([table], 0, 5, (3, 1)), low=0, high=5, rng=rng)[0])] += 1
    _check_law(found, dict(expected))


@pytest.mark.parametrize("draws", [150, pytest.param(3_000, marks=pytest.mark.deep)])
def test_the_first_selection_of_halving_has_its_law_with_all_its_parts(draws: int) -> None:
    """As released: the places of a value that c rows tie at, dense near their ends, as an average over them."""
    table, high = (3,) * 12 + (7,) * 20 + (8,) * 5, 15
    made = QuantileSelection(THREE, F(2), ROW["add_remove"], groups=1)
    rate, aim = float(made.rate(1)), len(table) / 2
    places = [place_count() * (2 * i + 1) // 4_000 for i in range(2_000)]
    shares = np.array([cut(p) / PARTS for p in places])
    weights = {}
    for v in range(high + 1):
        ranks = sum(x < v for x in table) + table.count(v) * shares
        weights[(v,)] = float(np.exp(-rate * np.abs(ranks - aim)).mean())
    total = math.fsum(weights.values())
    rng, found = Rng.seeded(8), collections.Counter[tuple[int, ...]]()
    for _ in range(draws):
        found[(made.release(Counted([table], 0, high, (1,)), low=0, high=high, rng=rng)[0][1],)] += 1
    _check_law(found, {v: w / total for v, w in weights.items()})


@pytest.mark.deep
@pytest.mark.parametrize("levels", [HALF, THREE], ids=["one", "three"])
@pytest.mark.parametrize("draws", DRAWS)
def test_audited_epsilon(levels: tuple[Fraction, ...], draws: int) -> None:
    """Neighbors that the theorem is tight for: all rows at one end, and one row less."""
    made = QuantileSelection(levels, F(1), ROW["add_remove"], groups=1)
    here, there = (
        np.array(
            [made.release(Counted([t], 0, 9, (1,)), low=0, high=9, rng=rng)[0][len(levels) // 2] for _ in range(draws)]
        )
        for t, rng in (((5,) * 3 + (0,) * 3, Rng.seeded(1)), ((5,) * 3 + (0,) * 2, Rng.seeded(2)))
    )
    for a, b in ((here, there), (there, here), (-here, -there)):
        assert audited_epsilon(a.astype(float), b.astype(float), 0.0, ALARM) <= made.stages


@pytest.mark.deep
def test_ties_are_split_where_the_quantiles_lie() -> None:
    """Nine tenths of the rows are 0: the lower quartiles are 0, the last lies among the others."""
    table = (0,) * 900 + tuple(range(1, 101))
    made = QuantileSelection((F(1, 4), F(1, 2), F(3, 4), F(19, 20)), F(1), ROW["add_remove"], groups=1)
    for seed in range(20):
        found = made.release(Counted([table], 0, 1000, (1,)), low=0, high=1000, rng=Rng.seeded(seed))[0]
        assert found[:3] == [0, 0, 0]
        assert 20 <= found[3] <= 80


@pytest.mark.deep
def test_the_mean_rank_error_is_that_of_the_law() -> None:
    """Issue 5, point 2: within 1.1 of the exponential mechanism's own law, whatever was counted first."""
    table = np.unique((np.exp(np.random.default_rng(3).normal(8, 1, 1500))).astype(np.int64))
    low, high, rows = 0, 2**20, len(table)
    made = QuantileSelection(HALF, F(1), ROW["add_remove"], groups=1)
    edges = [low, *table.tolist(), high + 1]
    sizes = np.diff(edges) - np.array([0] + [1] * rows)  # of the gaps; each value itself is a candidate more
    distances = np.abs(np.arange(rows + 1) - rows / 2)
    own = np.maximum(0, np.maximum(np.arange(rows) - rows / 2, rows / 2 - np.arange(1, rows + 1)))
    weights = np.concatenate([sizes * np.exp(-distances), np.exp(-own)])
    expected = float((weights * np.concatenate([distances, own])).sum() / weights.sum())
    errors, rng = [], Rng.seeded(11)
    for _ in range(1500):
        v = made.release(Counted([table.tolist()], low, high, (1024, 1)), low=low, high=high, rng=rng)[0][0]
        a, b = np.searchsorted(table, v, "left"), np.searchsorted(table, v, "right")
        errors.append(max(0.0, a - rows / 2, rows / 2 - b))
    spread = float(np.std(errors)) / math.sqrt(len(errors))
    assert abs(np.mean(errors) - expected) < 5 * spread
    assert 1 / 1.1 < np.mean(errors) / expected < 1.1


@pytest.mark.each(3)
@pytest.mark.parametrize("levels", [HALF, (F(1, 4), F(3, 4)), THREE], ids=["one", "two", "three"])
def test_the_stated_rank_error_holds(levels: tuple[Fraction, ...]) -> None:
    """At 50% and 90%, on a table that is bad for it: few rows, ties, a wide domain. 150 draws each."""
    table = (1,) * 30 + (2,) * 30 + (3,) * 30 + (4,) * 30
    low, high, rows = 0, 2**30, len(table)
    made = QuantileSelection(levels, F(1), ROW["replace"], groups=1)
    rng = Rng.seeded(12)
    drawn = [made.release(Counted([table], low, high, (1,)), low=low, high=high, rng=rng)[0] for _ in range(150)]
    bounds = made.error_stages([[place] for place in range(len(levels))], values=high - low + 1, rows=rows)
    for place, (level, stages) in enumerate(zip(levels, bounds, strict=True)):
        for confidence in (0.5, 0.9):
            bound = Ranks((0,), F(1), stages, chained=True).errors(confidence)[0]
            off = 0
            for found in drawn:
                v, aim = found[place], float(level * rows)
                a, b = sum(x < v for x in table), sum(x <= v for x in table)
                off += max(0.0, a - aim, aim - b) > bound
            chance = 1 - confidence
            assert off <= 150 * chance + 5 * math.sqrt(150 * chance * confidence)


def test_a_single_bound_by_hand() -> None:
    """(ln U + ln 1/beta) / rate: 2^20 values, rate 1/2, 95%."""
    made = QuantileSelection(HALF, F(1), ROW["replace"], groups=1)
    (stages,) = made.error_stages([[0]], values=2**20, rows=10)
    assert Ranks((0,), F(1), stages).errors(0.95)[0] == pytest.approx((math.log(2**20) + math.log(20)) * 2)


def test_rates_follow_the_table_of_sensitivities() -> None:
    """Reference, mechanisms: C max(q, 1-q) add_remove, C replace; more than one selection at once: 2 C max(q, 1-q).

    Findings, F9: half of each at levels 0 and 1.
    """
    for made, groups, level, bound in [
        (ROW["add_remove"], 1, F(1, 2), F(1, 2)),
        (ROW["add_remove"], 9, F(9, 10), F(9, 10)),
        (PAIR["add_remove"], 1, F(1, 4), F(3, 2)),
        (ROW["replace"], 1, F(1, 4), F(1)),
        (PAIR["replace"], 1, F(1, 2), F(2)),
        (ROW["replace"], 2, F(1, 4), F(3, 2)),
        (ROW["add_remove"], 1, F(1), F(1, 2)),
        (PAIR["add_remove"], 3, F(0), F(1)),
        (ROW["replace"], 1, F(0), F(1, 2)),
        (PAIR["replace"], 2, F(1), F(2)),
    ]:
        assert QuantileSelection((level,), F(3), made, groups).rate(0) == F(3) / (2 * bound)


@pytest.mark.parametrize("count", range(1, 40))
def test_halving_finds_every_level_in_the_fewest_stages(count: int) -> None:
    stages = halving_stages(count)
    assert sorted(n.place for nodes in stages for n in nodes) == list(range(count))
    assert len(stages) == math.ceil(math.log2(count + 1))
    done = {-1, count}
    for nodes in stages:
        for node in nodes:
            assert node.lower in done
            assert node.upper in done
            assert node.last == (node.upper - node.lower == 2)
        done |= {n.place for n in nodes}


def test_extreme_rates_and_wide_domains() -> None:
    """A wide lattice, beyond 64 bits, and rates from 1e-9 to 1e4: draws end and stay inside."""
    low, high = -(10**30), 10**30
    first = np.array([-(10**29), 5, 10**28], dtype=object)
    known = Partition.of(first, first, np.array([4, 5, 6]))

    class Known:
        def known(self, group: int) -> Partition:
            del group
            return known

        def refine(self, wanted: object) -> None:
            del wanted
            raise AssertionError("all is known")

    for epsilon in (F(1, 10**9), F(1), F(10**4)):
        for levels in (HALF, THREE):
            made = QuantileSelection(levels, epsilon, ROW["add_remove"], groups=1)
            found = made.release(Known(), low=low, high=high, rng=Rng.seeded(1))[0]
            assert low <= min(found) <= max(found) <= high
            assert sorted(found) == found
    assert found == [-(10**29), 5, 10**28]


def test_what_is_refused() -> None:
    for levels, epsilon in [((), 1), ((F(3, 2),), 1), ((F(1, 2), F(1, 4)), 1), ((F(1, 2), F(1, 2)), 1), (HALF, 0)]:
        with pytest.raises(DeclarationError):
            QuantileSelection(levels, F(epsilon), ROW["replace"], groups=1)


def test_ranks_go_round() -> None:
    made = QuantileSelection(THREE, F(1, 3), ROW["replace"], groups=2)
    (stages,) = made.error_stages([[0]], values=10**9, rows=2**40)
    found = Ranks((1, 2**70), F(1, 4), stages)
    again = estimate_from_dict(found.to_dict())
    assert again == found
    assert found.values() == [0.25, 2.0**68]
    assert found.intervals(0.95) == [(None, None), (None, None)]
    assert found.errors(0.5)[0] < found.errors(0.99)[0]
