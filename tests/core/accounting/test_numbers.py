"""Conversions, composition and calibration: the published numbers, and soundness against brute force."""

import functools
import math
from collections.abc import Callable
from fractions import Fraction

import pytest

from published import rows_of
from sordino.core.accounting.composition import best, charge_amounts
from sordino.core.accounting.concentration import pure_rho
from sordino.core.accounting.events import ApproxEvent, Composed, GaussianEvent, LaplaceEvent
from sordino.core.accounting.gaussian_dp import (
    analytic_gaussian_sigma,
    calibrate_gaussian,
    discrete_gaussian_delta,
)
from sordino.core.accounting.zcdp import basic_epsilon_of, delta_of, epsilon_of, rho_for
from sordino.core.loss import ZCDP, ApproxDP, PureDP
from sordino.errors import DeclarationError


@pytest.mark.parametrize(*rows_of("accounting", "zcdp_to_approx"))
def test_bun_steinke_2016_conversion(rho: str, delta: float, epsilon: float) -> None:
    assert basic_epsilon_of(rho, delta) == pytest.approx(epsilon, rel=1e-13)
    assert basic_epsilon_of(rho, delta) >= epsilon
    assert epsilon_of(rho, delta) <= basic_epsilon_of(rho, delta)


def test_reference_composition_of_500_laplace_at_epsilon_1() -> None:
    assert basic_epsilon_of(250, 1e-5) == pytest.approx(357.3, abs=0.05)
    found = best([LaplaceEvent(1)] * 500, 1e-5)
    assert found.method == "optimal composition"
    assert 258.3 < found.epsilon < 338.36  # above Laplace noise's own figure: any pure mechanism is meant
    found = best([LaplaceEvent(1)] * 500, 0)
    assert (found.epsilon, found.method) == (500.0, "sum")


@pytest.mark.parametrize(
    ("epsilon", "count", "in_all"),
    [("0.01", 100, 0.430), ("0.01", 1000, 1.47), ("0.1", 10, 1.47), ("0.1", 100, 5.22)],
)
def test_proofs_and_error_g4_many_small_charges_under_a_filter_on_rho(epsilon: str, count: int, in_all: float) -> None:
    """A cap on the rho that converts to (epsilon, delta) is fixed in advance; by a paper's closed form 1.71 for 1.47."""
    one = LaplaceEvent(epsilon).rho()
    assert epsilon_of(count * one, 1e-6) == pytest.approx(in_all, rel=0.005)
    cap = ZCDP(rho_for(round(in_all * 1.005, 6), 1e-6), delta="1e-6")
    assert count * one <= cap.rho < 1.05 * count * one
    if count == 1000:
        assert basic_epsilon_of(count * one, 1e-6) == pytest.approx(1.71, abs=0.005)


@pytest.mark.deep
def test_best_epsilon_of_gaussians_is_within_the_exact_value_and_zcdp() -> None:
    rho = Fraction(1, 2 * 200**2)
    value = best([GaussianEvent(rho)] * 500, 1e-5).epsilon
    exact_epsilon = next(e / 1000 for e in range(1, 600) if analytic_gaussian_sigma(e / 1000, 1e-5) <= 200 / 500**0.5)
    assert exact_epsilon - 0.001 <= value <= epsilon_of(500 * rho, 1e-5)


def test_best_epsilon_mixes_certificates_with_the_rest_and_takes_their_delta_first() -> None:
    only = Composed((), (Fraction(1, 2), Fraction(1, 10**6)))
    keyed = Composed((GaussianEvent(0.01, (Fraction(1), Fraction(1, 10**6))), LaplaceEvent(1)))
    assert only.approx() == (Fraction(1, 2), Fraction(1, 10**6))
    assert best([keyed, LaplaceEvent("1/2")], 1e-5).epsilon <= 2.5
    with pytest.raises(DeclarationError, match="larger delta"):
        best([GaussianEvent(1)], 0)
    assert best([], 0).epsilon == 0


def test_what_has_an_epsilon_and_a_delta_alone_is_added_to_the_rest_and_its_deltas_to_each_other() -> None:
    pair, noise = ApproxEvent(1, "1e-7"), GaussianEvent("1/8")
    beside = best([pair, noise], "1e-6").table["zCDP"]
    assert beside == pytest.approx(1 + epsilon_of("1/8", "9e-7"), rel=1e-9)
    assert best([pair] * 3, "3e-7").table["sum"] == 3
    with pytest.raises(DeclarationError, match="larger delta"):
        best([pair] * 3, "2e-7")


def test_delta_of_is_never_below_the_exact_delta_of_a_gaussian() -> None:
    for sigma in (0.5, 1.0, 4.0, 30.0):
        for epsilon in (0.0, 0.1, 1.0, 5.0):
            near, far = (
                0.5 * math.erfc(-x / 2**0.5) for x in (0.5 / sigma - epsilon * sigma, -0.5 / sigma - epsilon * sigma)
            )
            assert near - math.exp(epsilon) * far <= delta_of(Fraction(1) / Fraction(2 * sigma**2), epsilon)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.001, 1e-9), (0.1, 1e-5), (1, 1e-6), (10, 1e-12), (500, 0.01), (0, 0.1)]
)
def test_rho_for_is_the_largest_that_converts_back(epsilon: float, delta: float) -> None:
    rho = rho_for(epsilon, delta)
    assert epsilon_of(rho, delta) <= epsilon
    assert epsilon_of(rho * (1 + Fraction(1, 10**8)), delta) > epsilon
    assert delta_of(rho, epsilon) <= delta * (1 + 1e-12)


def test_conversions_at_the_edges() -> None:
    assert epsilon_of(0, 1e-5) == 0
    assert delta_of(0, 0) == 0
    assert 0 < delta_of(1e-9, 100) <= 1e-300
    assert delta_of(1000, 0) <= 1
    for wrong in (
        lambda: epsilon_of(1, 0),
        lambda: epsilon_of(-1, 0.1),
        lambda: rho_for(-1, 0.1),
        lambda: delta_of(1, -1),
    ):
        with pytest.raises(DeclarationError):
            wrong()


@pytest.mark.parametrize(*rows_of("accounting", "analytic_gaussian_sigma"))
def test_balle_wang_2018_analytic_sigma(epsilon: float, delta: float, sigma: float) -> None:
    assert analytic_gaussian_sigma(epsilon, delta) == pytest.approx(sigma, rel=1e-11)
    assert analytic_gaussian_sigma(epsilon, delta, 3.0) == pytest.approx(3 * sigma, rel=1e-11)


@functools.cache
def pmf(sigma_squared: Fraction) -> dict[int, float]:
    reach = int(40 * math.sqrt(sigma_squared)) + 5
    weights = {x: math.exp(-x * x / (2 * float(sigma_squared))) for x in range(-reach, reach + 1)}
    total = math.fsum(weights.values())
    return {x: weight / total for x, weight in weights.items()}


def law(sigma_squared: Fraction) -> Callable[[int], float]:
    table = pmf(sigma_squared)
    return lambda t: math.fsum(p for x, p in table.items() if x > t)


@pytest.mark.each(2)
@pytest.mark.parametrize(
    ("epsilon", "delta", "shift"), [(1, 1e-5, 1), (2, 1e-6, 1), (0.5, 1e-6, 3), (10, 1e-6, 1), (1, 1e-5, 7)]
)
def test_calibrated_discrete_gaussian_holds_by_brute_force(epsilon: float, delta: float, shift: int) -> None:
    variance = calibrate_gaussian(epsilon, delta, shift=shift, law=law)
    table = pmf(variance)
    brute = max(
        math.fsum(max(0.0, p - math.exp(epsilon) * table.get(x + s, 0.0)) for x, p in table.items())
        for s in range(1, shift + 1)
    )
    assert brute <= delta
    told = discrete_gaussian_delta(epsilon, shift=shift, sigma_squared=variance, upper_tail=law(variance))
    assert brute <= told <= brute * (1 + 1e-6)
    assert brute >= 0.9 * delta or variance < Fraction(1, 2)
    assert variance.denominator <= 10**9


def test_continuous_sigma_falls_short_on_the_discrete_law() -> None:
    variance = Fraction(analytic_gaussian_sigma(2, 1e-6)).limit_denominator(10**9) ** 2
    assert discrete_gaussian_delta(2, shift=1, sigma_squared=variance, upper_tail=law(variance)) > 1e-6


def test_charge_amounts_by_the_kind_of_cap() -> None:
    certified = GaussianEvent(0.01, (Fraction(1), Fraction(1, 10**6)))
    assert charge_amounts(LaplaceEvent(0.1), PureDP(1)) == {"epsilon": Fraction(1, 10)}
    assert charge_amounts(LaplaceEvent(0.1), ApproxDP(1, 1e-6)) == {"epsilon": Fraction(1, 10), "delta": 0}
    assert charge_amounts(certified, ApproxDP(1, 1e-6)) == {"epsilon": 1, "delta": Fraction(1, 10**6)}
    assert charge_amounts(LaplaceEvent(0.1), ZCDP(1)) == {"rho": pure_rho(Fraction(1, 10))}
    with pytest.raises(DeclarationError, match="counts epsilon"):
        charge_amounts(certified, PureDP(1))
    with pytest.raises(DeclarationError, match="epsilon and delta"):
        charge_amounts(GaussianEvent(1), ApproxDP(1, 1e-6))
