"""Private keys: thresholds on exact tails, the chance that a key shows, and (epsilon, delta) by closed form.

Seeded; each statistical test would alarm falsely for one seed in 100,000 or more.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest

from sordino.core.loss import Grid
from sordino.core.mechanisms.threshold import GaussianThreshold, LaplaceThreshold, gaussian_threshold_for_pair
from sordino.core.noise.rng import Rng
from sordino.errors import DeclarationError

SMALL = Fraction(1, 10**6)
MADE: list[LaplaceThreshold | GaussianThreshold] = [
    LaplaceThreshold(1, Fraction(1), SMALL),
    LaplaceThreshold(3, Fraction(1, 2), Fraction(1, 1000)),
    LaplaceThreshold(8, Fraction(4), Fraction(1, 10**9)),
    LaplaceThreshold(1, Fraction(20), Fraction(1, 10)),
    GaussianThreshold(1, Fraction(1, 2), SMALL),
    GaussianThreshold(5, Fraction(1, 100), Fraction(1, 10**5)),
    gaussian_threshold_for_pair(keys=2, epsilon=Fraction(1), delta=SMALL),
]
EVERY = pytest.mark.parametrize("made", MADE, ids=lambda m: m.describe())


def exact_mass(made: LaplaceThreshold | GaussianThreshold, x: int) -> float:
    """Return P(Z = x) by the definition of the law."""
    if isinstance(made, LaplaceThreshold):
        q = math.exp(-float(made.epsilon / made.keys))
        return (1 - q) / (1 + q) * q ** abs(x)
    rate = float(made.rho / made.keys)
    return math.exp(-rate * x * x) / normalizer(rate)


@lru_cache
def normalizer(rate: float) -> float:
    reach = math.ceil(40 / math.sqrt(rate))
    return math.fsum(math.exp(-rate * y * y) for y in range(-reach, reach + 1))


@EVERY
def test_threshold_is_the_least_on_the_exact_tail(made: LaplaceThreshold | GaussianThreshold) -> None:
    threshold, far = made.threshold, 3000
    tail = math.fsum(exact_mass(made, x) for x in range(threshold - 1, threshold + far))
    assert made.keys * tail <= made.delta * (1 + 1e-9)
    assert made.appears(1) == pytest.approx(tail, rel=1e-9)
    assert made.keys * made.appears(1) <= made.delta
    more = tail + exact_mass(made, threshold - 2)
    assert threshold == 2 or made.keys * more > made.delta


@pytest.mark.parametrize("keys", [1, 2, 16])
@pytest.mark.parametrize("epsilon", ["1/10", "1", "5"])
@pytest.mark.parametrize("delta", ["1/1000", "1/1000000000"])
def test_reference_page_formula(keys: int, epsilon: str, delta: str) -> None:
    """1 + ceil((m / epsilon) ln(m / ((1 + r) delta))), and the continuous formula is short by up to 1.9 times."""
    loss, chance = Fraction(epsilon), Fraction(delta)
    r = math.exp(-loss / keys)
    made = LaplaceThreshold(keys, loss, chance)
    assert made.threshold == 1 + math.ceil(keys / loss * math.log(keys / ((1 + r) * chance)))


def test_continuous_threshold_would_be_short() -> None:
    """At epsilon 5 the discrete tail at the continuous threshold 1 + ln(1 / (2 delta)) / epsilon passes delta."""
    worst = 0.0
    for places in range(3, 12):
        made = LaplaceThreshold(1, Fraction(5), Fraction(1, 10**places))
        continuous = 1 + math.ceil(math.log(10**places / 2) / 5)
        worst = max(worst, made.law.upper_tail(continuous - 2) * 10**places)
    assert worst > 1
    r = math.exp(-5)
    assert worst < 2 / (1 + r) + 1e-9


def release_probability(made: LaplaceThreshold | GaussianThreshold, count: int, shown: int | None) -> float:
    """Return P(the key of `count` units shows as `shown`), None for not at all; a key of no units never shows."""
    if shown is None:
        return 1 - made.appears(count)
    return exact_mass(made, shown - count) if count else 0.0


@pytest.mark.parametrize(
    "made", [LaplaceThreshold(2, Fraction(1), Fraction(1, 20)), LaplaceThreshold(2, Fraction(2), Fraction(1, 500))]
)
def test_laplace_threshold_is_epsilon_delta_private_exactly(made: LaplaceThreshold) -> None:
    """Two keys in all, neighbors by one unit in both: the hockey-stick over all outcomes stays within delta."""
    reach, top = range(made.threshold, made.threshold + 60), math.exp(made.epsilon)
    for counts in itertools.product((0, 1, 4), repeat=2):
        for move in ((1, 1), (1, 0), (0, 1)):
            moved = tuple(c + m for c, m in zip(counts, move, strict=True))
            if isinstance(made, LaplaceThreshold):
                laws = [
                    [np.array([release_probability(made, c, s) for s in (None, *reach)]) for c in table]
                    for table in (counts, moved)
                ]
            here, there = (np.outer(first, second).ravel() for first, second in laws)
            for p, q in ((here, there), (there, here)):
                assert np.maximum(p - top * q, 0).sum() <= made.delta * (1 + 1e-9)


@pytest.mark.deep
@EVERY
def test_chance_of_appearing_by_simulation(made: LaplaceThreshold | GaussianThreshold) -> None:
    """Within 4.5 deviations (one false alarm in 147,000) at counts where a key shows often, at times, and hardly."""
    rng, keys = Rng.seeded(41), 20_000
    for count in (1, max(1, made.threshold // 2), made.threshold - 1, made.threshold, made.threshold + 3):
        found = len(made.release(dict.fromkeys(range(keys), count), rng))
        p = made.appears(count)
        assert abs(found - keys * p) <= 4.5 * math.sqrt(keys * p * (1 - p)) + 0.5
    assert made.appears(0) == 0
    assert made.appears(10**9) == 1


@EVERY
def test_noisy_counts_are_the_counts_with_noise(made: LaplaceThreshold | GaussianThreshold) -> None:
    """Mean and coverage of the noise in counts far above the threshold, at 4.5 deviations."""
    high, keys = made.threshold * 100 + 10**6, 20_000
    shown = made.release(dict.fromkeys(range(keys), high), Rng.seeded(42))
    noise = np.array(list(shown.values())) - high
    assert len(noise) == keys
    assert abs(noise.mean()) <= 4.5 * math.sqrt(made.law.variance() / keys)
    error = made.law.error(0.95)
    assert (np.abs(noise) > error).mean() <= 0.05 + 4.5 * math.sqrt(0.0475 / keys)


def test_order_and_traces() -> None:
    made, rng = LaplaceThreshold(1, Fraction(10), SMALL), Rng.seeded(2)
    table = {("b", None): 900, ("b", 2): 900, ("a", 3): 900, (None, 1): 900, ("c", 1): 1, ("d", 1): 0}
    assert list(made.release(table, rng)) == [("a", 3), ("b", 2), ("b", None), (None, 1)]
    assert list(made.release(dict(reversed(table.items())), rng)) == [("a", 3), ("b", 2), ("b", None), (None, 1)]
    assert list(made.release({"y": 10**30, 3: 500, None: 700}, rng)) == [3, "y", None]
    assert made.release({}, rng) == {}
    assert made.release({"none": 0, "less": -5}, rng) == {}
    often = LaplaceThreshold(1, Fraction(1), Fraction(1, 3))  # a key of one unit shows one time in three
    assert 0 < len(often.release(dict.fromkeys(range(300), 1), rng)) < 300
    assert often.release(dict.fromkeys(range(300), 0), rng) == {}


@EVERY
def test_event_and_repr(made: LaplaceThreshold | GaussianThreshold) -> None:
    names = {"LaplaceThreshold": LaplaceThreshold, "GaussianThreshold": GaussianThreshold, "Fraction": Fraction}
    assert eval(repr(made), names) == made
    event = made.event
    assert (event.pure(), event.rho(), event.renyi(2.0)) == (None, None, None)
    assert event.delta == made.delta
    if isinstance(made, LaplaceThreshold):
        assert event.approx() == (made.epsilon, made.delta)
    else:
        assert event.inner.rho() == made.rho
        assert made.law.sigma_squared == made.keys / (2 * made.rho)
    profile = event.profile(Grid(1e-3, 1e-15))
    assert profile is None or profile.removed.infinite >= made.delta


def test_pair_is_split_and_holds() -> None:
    made = gaussian_threshold_for_pair(keys=2, epsilon=Fraction(1), delta=SMALL)
    assert made.event.approx() == (Fraction(1), SMALL)
    assert made.delta == SMALL / 2


def test_bad_arguments_are_refused_by_name() -> None:
    for make in (LaplaceThreshold, GaussianThreshold):
        for arguments, name in (
            ((0, Fraction(1), SMALL), "keys"),
            ((True, Fraction(1), SMALL), "keys"),
            ((1, Fraction(0), SMALL), "above 0"),
            ((1, Fraction(1), Fraction(0)), "delta, where keys are private"),
            ((1, Fraction(1), Fraction(1)), "delta"),
            ((1, Fraction(1), 1e-6), "delta"),
        ):
            with pytest.raises(DeclarationError, match=name):
                make(*arguments)
    with pytest.raises(DeclarationError, match="delta"):
        gaussian_threshold_for_pair(keys=1, epsilon=Fraction(1), delta=Fraction(0))
    with pytest.raises(DeclarationError, match="count"):
        MADE[0].appears(-1)
