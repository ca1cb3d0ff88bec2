"""Tails, errors and variances against brute-force sums in 60-digit Decimal."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from mistyping import mistype
from sordino.core.noise import laws
from sordino.core.noise.laws import DiscreteGaussian, DiscreteLaplace
from sordino.core.noise.rng import Rng
from sordino.errors import DeclarationError

SCALES = [Fraction(1, 50), Fraction(1, 3), Fraction(7, 3), Fraction(20), Fraction(300)]
VARIANCES = [Fraction(1, 100), Fraction(1, 4), Fraction(3), Fraction(4), Fraction(7, 3), Fraction(50), Fraction(10**4)]
CONFIDENCES = [0.01, 0.3, 0.5, 0.9, 0.95, 0.99, 0.999999]


def weigh(law: DiscreteLaplace | DiscreteGaussian) -> tuple[list[Decimal], Decimal]:
    """Return P(X > t) for t = 0, 1, ... and the variance, summed term by term."""
    with localcontext() as context:
        context.prec = 60
        if isinstance(law, DiscreteLaplace):
            rate = Decimal(law.scale.denominator) / Decimal(law.scale.numerator)
            weights = [(-rate * x).exp() for x in range(math.ceil(60 * law.scale) + 3)]
        else:
            rate = Decimal(law.sigma_squared.denominator) / Decimal(2 * law.sigma_squared.numerator)
            weights = [(-rate * x * x).exp() for x in range(math.ceil(40 * math.sqrt(law.sigma_squared)) + 10)]
        total = weights[0] + 2 * sum(weights[1:])
        beyond, tails = Decimal(0), []
        for weight in reversed(weights[1:]):
            beyond += weight
            tails.append(beyond / total)
        return tails[::-1], 2 * sum(x * x * weight for x, weight in enumerate(weights)) / total


LAWS = [*map(DiscreteLaplace, SCALES), *map(DiscreteGaussian, VARIANCES)]


@pytest.mark.each(3)
@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_tails_errors_and_variances_are_the_sums(law: DiscreteLaplace | DiscreteGaussian) -> None:
    tails, variance = weigh(law)
    usable = len(tails) // 2  # the sums leave e^-60 or less out, which is small only against these
    for t in range(0, usable, max(1, usable // 60)):
        truth = tails[t]
        if truth < Decimal("1e-290"):
            assert law.tail(t) > 0 or truth == 0
            break
        assert abs(Decimal(law.upper_tail(t)) / truth - 1) < Decimal("1e-12")
        assert 2 * truth * (1 - Decimal("1e-12")) <= Decimal(law.tail(t)) <= 2 * truth * (1 + Decimal("4e-12"))
        assert law.upper_tail(-t - 1) == pytest.approx(float(1 - truth), rel=1e-14)
    assert law.tail(-1) == 1.0
    assert law.variance() == pytest.approx(float(variance), rel=1e-12)
    for confidence in CONFIDENCES:
        allowed = 1 - Decimal(repr(confidence))
        expected = next(t for t in range(usable + 1) if 2 * tails[t] <= allowed)
        assert law.error(confidence) == expected


@pytest.mark.each(5)
@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_tail_is_never_below_the_truth(law: DiscreteLaplace | DiscreteGaussian) -> None:
    tails, _ = weigh(law)
    cut = Decimal("1e-10")  # where the sums themselves are exact enough to say
    assert all(Decimal(law.tail(t)) >= 2 * tails[t] for t in range(len(tails)) if tails[t] > cut)


@pytest.mark.parametrize("sigma", [1000, 1500, 3000])
def test_summed_and_integrated_tails_agree(sigma: int) -> None:
    for t in range(0, 36 * sigma, 997):
        summed = laws._tail_by_sum(Fraction(sigma**2), t)
        assert laws._tail_by_integral(Fraction(sigma**2), t) == pytest.approx(summed, rel=5e-13, abs=1e-290)


def test_enormous_scales() -> None:
    scale = 10**12
    by_hand = math.ceil(scale * math.log(20) + 0.5) - 1  # ln(2 / (1 + q)) is 1 / (2 scale)
    assert DiscreteLaplace(Fraction(scale)).error(0.95) == by_hand
    gaussian = DiscreteGaussian(Fraction(scale) ** 2)
    assert gaussian.error(0.95) == pytest.approx(1.959963984540054 * scale, rel=1e-11)
    assert gaussian.upper_tail(5 * scale) == pytest.approx(math.erfc(5 / math.sqrt(2)) / 2, rel=1e-10)
    assert gaussian.upper_tail(60 * scale) == 0.0
    assert 0 < gaussian.tail(60 * scale) < 1e-300
    assert DiscreteLaplace(Fraction(10) ** 30).error(0.5) == pytest.approx(math.log(2) * 1e30, rel=1e-12)


def test_degenerate_laws() -> None:
    for law in (DiscreteLaplace(Fraction(0)), DiscreteGaussian(Fraction(0))):
        assert (law.tail(-1), law.tail(0), law.upper_tail(0), law.upper_tail(-1)) == (1.0, 0.0, 0.0, 1.0)
        assert (law.error(0.99), law.variance(), law.sample(Rng.seeded(1))) == (0, 0.0, 0)
    for law in (DiscreteLaplace(Fraction(1, 10**6)), DiscreteGaussian(Fraction(1, 10**6))):
        assert law.error(0.999) == 0
        assert law.variance() == 0.0
        assert 0 < law.tail(0) < 1e-300


def test_errors_cover_what_is_drawn() -> None:
    """False alarm 1e-6: of 100,000 draws, misses exceed 5% by 4.8 deviations (331) with probability 8e-7."""
    for law in (DiscreteLaplace(Fraction(20)), DiscreteGaussian(Fraction(400))):
        drawn = law.sample(Rng.seeded(2), 100_000)
        error = law.error(0.95)
        assert np.count_nonzero(np.abs(drawn) > error) < 5331
        assert np.count_nonzero(np.abs(drawn) > error - 2) > 5000  # and is not much too large
        assert np.var(drawn) == pytest.approx(law.variance(), rel=0.03)


def test_repr_round_trips_and_ints_become_fractions() -> None:
    for law in (DiscreteLaplace(Fraction(7, 3)), DiscreteGaussian(Fraction(9, 4)), DiscreteLaplace(mistype(3))):
        assert eval(repr(law)) == law
        assert hash(eval(repr(law))) == hash(law)
    assert DiscreteLaplace(mistype(3)).scale == Fraction(3)


def test_bad_arguments_are_refused_by_name() -> None:
    for make, name in ((DiscreteLaplace, "scale"), (DiscreteGaussian, "sigma_squared")):
        for bad in (0.5, -1, None):
            with pytest.raises(DeclarationError, match=name):
                make(mistype(bad))
        for confidence in (0.0, 1.0, 1.5, -0.1, math.nan, Fraction(1)):
            with pytest.raises(DeclarationError, match="confidence"):
                make(Fraction(2)).error(confidence)
    with pytest.raises(DeclarationError, match="1e-290"):
        DiscreteGaussian(Fraction(2)).error(1 - Fraction(1, 10**300))
