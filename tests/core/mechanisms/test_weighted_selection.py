"""Weighted selection of keys: its weights, thresholds and noise by the theorem, and the law of the keys shown over two rounds."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest

from sordino.core.accounting.gaussian_dp import gaussian_rho_for
from sordino.core.mechanisms.weighted_selection import WeightedRound, WeightedSelection, weighted_selection_for_pair
from sordino.errors import DeclarationError

DELTA = Fraction(1, 10**6)
MADE = [
    weighted_selection_for_pair(groups=m, moved=moved, epsilon=epsilon, delta=DELTA)
    for m, moved, epsilon in [
        (1, 1, Fraction(1)),
        (8, 1, Fraction(1, 10)),
        (8, 2, Fraction(3)),
        (200, 1, Fraction(1)),
        (10**6, 2, Fraction(1, 2)),
        (8, 1, Fraction(10**5)),
        (
            10**6,
            1,
            Fraction(1, 10**5),
        ),  # so much noise that a weight has 16 steps, and one of 257 keys or more has none
    ]
] + [WeightedSelection(8, 2, Fraction(1, 50), DELTA), WeightedSelection(3, 1, Fraction(40), Fraction(1, 10))]
EVERY = pytest.mark.parametrize("made", MADE, ids=repr)


@pytest.mark.each(3)
@EVERY
def test_a_unit_of_any_number_of_keys_has_length_one_at_most(made: WeightedSelection) -> None:
    for one in made.rounds:
        # Each number where few are the rule, and one in twenty above.
        sizes = [
            *range(1, min(made.groups, 80) + 1),
            *range(81, min(made.groups, 400) + 1, 20),
            *(end - 1 for end in one.starts[1:]),
            made.groups,
        ]
        for keys in sizes:
            weight = one.weight(keys)
            assert keys * weight**2 <= one.whole**2
            if keys <= 64:
                assert keys * (weight + 1) ** 2 > one.whole**2  # no larger weight would do
        assert one.weight(1) == one.whole
        assert list(one.weights) == sorted(one.weights, reverse=True)


@EVERY
def test_new_keys_of_one_unit_show_with_probability_delta_at_most_whatever_their_number(
    made: WeightedSelection,
) -> None:
    assert sum((d for d in (made.delta / 10, made.delta * 9 / 10)), Fraction(0)) == made.delta
    for one, delta in zip(made.rounds, (made.delta / 10, made.delta * 9 / 10), strict=True):
        ends = (end - 1 for end in one.starts[1:])
        sizes = [*range(1, min(made.groups, 80) + 1), *range(81, min(made.groups, 300) + 1, 20), *ends, made.groups]

        def worst(threshold: int, one: WeightedRound = one, sizes: list[int] = sizes) -> float:
            return max(k * one.law.upper_tail(threshold - 1 - one.weight(k)) for k in sizes)

        assert worst(one.threshold) <= float(delta) * (1 + 1e-9)
        if made.groups <= 64:
            assert worst(one.threshold - 1 - one.whole // 50) > float(delta) * (1 - 1e-9)


@EVERY
def test_the_noise_of_all_rounds_amounts_to_rho(made: WeightedSelection) -> None:
    smooth = made.certificate is not None
    excess = 1 / math.pi**2 if smooth else 0
    amounts = [made.moved * one.whole**2 / (2 * (float(one.law.sigma_squared) - excess)) for one in made.rounds]
    assert math.fsum(amounts) == pytest.approx(float(made.rho), rel=1e-5)
    assert amounts[0] == pytest.approx(float(made.rho) / 10, rel=1e-5)
    pair = made.event.approx()
    if made.certificate is not None:
        assert math.fsum(amounts) <= float(gaussian_rho_for(*made.certificate)) * (1 + 1e-5)
        assert pair == (made.certificate[0], DELTA)
    else:
        assert pair is None
        assert made.event.inner.rho() == made.rho
        assert math.fsum(amounts) <= float(made.rho) * (1 + 1e-12)


Table = tuple[frozenset[int], ...]


def transcripts(made: WeightedSelection, table: Table, keys: int) -> dict[tuple[frozenset[int], ...], float]:
    """Return the probability of each pair of sets of keys that the two rounds show."""
    found: dict[tuple[frozenset[int], ...], float] = {(): 1.0}
    for one in made.rounds:
        after: dict[tuple[frozenset[int], ...], float] = {}
        for before, chance in found.items():
            shown = frozenset().union(*before) if before else frozenset()
            weights = [0] * keys
            for unit in table:
                left = unit - shown
                for key in left:
                    weights[key] += one.weight(len(left))
            show = [one.law.upper_tail(one.threshold - 1 - w) if w else 0.0 for w in weights]
            for coins in itertools.product((False, True), repeat=keys):
                p = math.prod(s if coin else 1 - s for s, coin in zip(show, coins, strict=True))
                if p:
                    step = (*before, frozenset(k for k, coin in enumerate(coins) if coin))
                    after[step] = after.get(step, 0.0) + chance * p
        found = after
    return found


def excess(p: dict[tuple[frozenset[int], ...], float], q: dict[tuple[frozenset[int], ...], float], e: float) -> float:
    return math.fsum(max(0.0, chance - math.exp(e) * q.get(step, 0.0)) for step, chance in p.items())


@pytest.mark.deep
@pytest.mark.parametrize(("epsilon", "delta"), [(Fraction(1), Fraction(1, 20)), (Fraction(3), Fraction(1, 100))])
@pytest.mark.parametrize("moved", [1, 2])
def test_the_keys_of_two_rounds_are_private_on_every_small_neighbor(
    epsilon: Fraction, delta: Fraction, moved: int
) -> None:
    """The hockey-stick over all transcripts of both rounds, of tables of up to 12 units over 3 keys and one unit more."""
    made = weighted_selection_for_pair(groups=3, moved=moved, epsilon=epsilon, delta=delta)
    units = [frozenset(u) for size in range(4) for u in itertools.combinations(range(3), size)]
    worst = 0.0
    for crowd in itertools.product((0, 2, 6), repeat=3):
        base: Table = tuple(frozenset([key]) for key, count in enumerate(crowd) for _ in range(count))
        base += (frozenset([0, 1]), frozenset([1, 2])) * (sum(crowd) > 6)
        laws = {u: transcripts(made, (*base, u), 3) for u in units}
        for one, other in itertools.permutations(units, 2):
            if moved == 2 or not (one and other):
                worst = max(worst, excess(laws[one], laws[other], float(epsilon)))
    assert worst <= float(delta) * (1 + 1e-9)
    assert worst > 0.3 * float(made.delta)


def test_a_key_needs_more_units_the_more_keys_they_have() -> None:
    made = weighted_selection_for_pair(groups=16, moved=1, epsilon=Fraction(1), delta=DELTA)
    needed = [made.units_to_show(0.5, groups=k) for k in (1, 4, 16)]
    assert needed[0] < needed[1] < needed[2] == made.units_to_show(0.5)
    assert needed[2] == pytest.approx(4 * needed[0], rel=0.1)
    assert made.appears(needed[2]) >= 0.5 > made.appears(needed[2] - 1)
    assert made.appears(0) == 0


@pytest.mark.parametrize(
    ("groups", "moved", "rho", "delta"),
    [
        (0, 1, Fraction(1), DELTA),
        (2, 0, Fraction(1), DELTA),
        (2, 1, Fraction(0), DELTA),
        (2, 1, Fraction(1), Fraction(1)),
    ],
)
def test_what_makes_no_sense_is_refused(groups: int, moved: int, rho: Fraction, delta: Fraction) -> None:
    with pytest.raises(DeclarationError):
        WeightedSelection(groups, moved, rho, delta)


@pytest.mark.parametrize("delta", [Fraction(1, 2), Fraction(3, 5), Fraction(9, 10), Fraction(99, 100)])
@pytest.mark.parametrize("rho", [Fraction(1, 50), Fraction(1), Fraction(50)])
@pytest.mark.parametrize("groups", [1, 2, 5])
def test_a_delta_of_a_half_or_more_holds_too(groups: int, rho: Fraction, delta: Fraction) -> None:
    """A unit's own keys show with delta at most, whatever delta: k P(Z >= threshold - weight) by the noise's own law."""
    for one, share in zip(
        WeightedSelection(groups, 1, rho, delta).rounds, (Fraction(1, 10), Fraction(9, 10)), strict=True
    ):
        for keys in range(1, groups + 1):
            chance = keys * one.law.upper_tail(one.threshold - 1 - one.weight(keys))
            assert chance <= float(delta * share) * (1 + 1e-9)
