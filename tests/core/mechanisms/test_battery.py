"""The battery for mechanisms. Seeded; each statistical test would alarm falsely for one seed in 100,000 or more."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest

from battery import MECHANISMS, MechanismCase, audited_epsilon, chi_square_tail, draws, probabilities
from sordino.core.accounting.event_fields import event_from_dict, event_to_dict
from sordino.core.estimates.noisy import Noisy
from sordino.core.estimates.registry import estimate_from_dict
from sordino.core.mechanisms.additive_noise import Laplace, gaussian_for_pair, gaussian_for_rho
from sordino.core.noise.rng import Rng
from sordino.errors import DeclarationError

ALARM = 1e-5
EVERY = pytest.mark.parametrize("case", MECHANISMS, ids=lambda c: c.name)


@pytest.mark.each(2)
@EVERY
def test_law_by_chi_square(case: MechanismCase) -> None:
    count = 80_000
    found = draws(case, (5,), count, seed=11)[:, 0] - 5
    reach = max(1, case.made.law.error(0.9))
    step = max(1, 2 * reach // 60)
    expected = probabilities(case.made.law.upper_tail, -reach, reach)
    cells = np.clip(found, -reach, reach + 1) + reach
    observed = np.bincount(cells, minlength=2 * reach + 2)
    starts = range(0, len(expected), step)
    wanted = np.add.reduceat(np.array(expected), starts) * count
    seen = np.add.reduceat(observed, starts)
    # A law may end within the reach: nothing is drawn beyond it.
    possible = wanted > 0
    assert not seen[~possible].any()
    statistic = float(((seen - wanted)[possible] ** 2 / wanted[possible]).sum())
    assert chi_square_tail(statistic, int(possible.sum()) - 1) > ALARM


@pytest.mark.each(2)
@EVERY
def test_law_by_scores(case: MechanismCase) -> None:
    """Mean, spread and sign, each against its standard error: 4.5 sigma is one false alarm in 147,000."""
    count = 80_000
    noise = draws(case, (0,), count, seed=12)[:, 0].astype(float)
    deviation = math.sqrt(case.made.law.variance())
    assert abs(noise.mean()) < 4.5 * deviation / math.sqrt(count)
    fourth = float((noise**4).mean())
    spread = math.sqrt(max(fourth - deviation**4, 0.0) / count)
    assert abs((noise**2).mean() - deviation**2) < 4.5 * spread
    signed = noise[noise != 0]
    assert abs((signed > 0).mean() - 0.5) < 4.5 * 0.5 / math.sqrt(len(signed))


@pytest.mark.each(4)
@EVERY
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_error_is_covered_and_no_larger_than_needed(case: MechanismCase, confidence: float) -> None:
    error = case.made.law.error(confidence)
    assert case.made.law.tail(error) <= 1 - confidence + 1e-12
    assert error == 0 or case.made.law.tail(error - 1) > 1 - confidence - 1e-9
    count = 40_000
    beyond = float((np.abs(draws(case, (0,), count, seed=13)) > error).mean())
    assert beyond <= 1 - confidence + 4.5 * math.sqrt(confidence * (1 - confidence) / count)


@pytest.mark.each(4)
@EVERY
def test_audited_epsilon_is_below_the_claim(case: MechanismCase) -> None:
    """Half-lines along the difference of two neighbors; the bound is wrong for one seed in 100,000."""
    assert audit(case, 40_000) <= case.epsilon


@pytest.mark.deep
@EVERY
def test_audited_epsilon_of_a_million_draws_is_below_the_claim(case: MechanismCase) -> None:
    """The same, with bounds three times as near."""
    assert audit(case, 1_000_000) <= case.epsilon


def audit(case: MechanismCase, count: int) -> float:
    """Return the audited epsilon of so many draws of a mechanism on each of two neighbors."""
    zero = tuple(0 for _ in case.neighbor)
    along = np.array([np.sign(x) for x in case.neighbor])
    here, there = (draws(case, at, count, seed) @ along for at, seed in ((zero, 14), (case.neighbor, 15)))
    return audited_epsilon(here, there, case.delta, ALARM)


def test_audit_has_teeth() -> None:
    """The same audit finds most of a true epsilon, so a mechanism that claimed half of its loss would be caught."""
    case = MECHANISMS[0]
    here, there = (draws(case, at, 150_000, seed)[:, 0] for at, seed in (((0,), 14), (case.neighbor, 15)))
    assert audited_epsilon(here, there, 0.0, ALARM) > 0.9 * case.epsilon


@EVERY
def test_event_is_sane(case: MechanismCase) -> None:
    event = case.made.event
    pure, pair, rho = event.pure(), event.approx(), event.rho()
    if pure is not None:
        assert rho is not None
        assert rho <= pure**2 / 2
        assert pair == (pure, Fraction(0))
    if rho is None:  # then a delta alone bounds it, and no Renyi divergence
        assert pair is not None
        assert event.renyi(2) is None
        return
    assert rho > 0
    orders = [1.5, 2, 4, 16, 64]
    renyi = [event.renyi(order) for order in orders]
    assert all(r is not None and r >= 0 for r in renyi)
    assert renyi == sorted(r for r in renyi if r is not None)
    assert all(r is not None and r <= order * float(rho) * (1 + 1e-12) for r, order in zip(renyi, orders, strict=True))


@EVERY
def test_repr_round_trip(case: MechanismCase) -> None:
    names = {type(case.made).__name__: type(case.made), "Fraction": Fraction}
    assert eval(repr(case.made), names) == case.made
    assert case.made.describe()


@EVERY
def test_its_releases_and_its_event_are_stored_and_read_again(case: MechanismCase) -> None:
    release = Noisy((3,), Fraction(1), case.made.law)
    assert estimate_from_dict(json.loads(json.dumps(release.to_dict()))) == release
    assert event_from_dict(json.loads(json.dumps(event_to_dict(case.made.event)))) == case.made.event


@EVERY
def test_noise_is_fresh_and_whole(case: MechanismCase) -> None:
    rng = Rng.seeded(3)
    first, second = (case.made.release([0] * 64, rng) for _ in range(2))
    assert first != second
    assert all(type(x) is int for x in first)
    huge = case.made.release([2**80], rng)[0]
    assert abs(huge - 2**80) < 2**40


def test_laplace_ratio_is_exact_everywhere() -> None:
    """P(Z = z) / P(Z = z + shift) is at most e^epsilon for every z: the theorem, on the law itself."""
    made = Laplace(Fraction(3), Fraction(1, 2))
    mass = [made.law.upper_tail(t - 1) - made.law.upper_tail(t) for t in range(-60, 61)]
    ratios = [a / b for a, b in zip(mass[:-3], mass[3:], strict=True)] + [
        b / a for a, b in zip(mass[:-3], mass[3:], strict=True)
    ]
    assert max(ratios) <= math.exp(0.5) * (1 + 1e-9)
    assert max(ratios) >= math.exp(0.5) * (1 - 1e-9)


def test_no_sensitivity_needs_no_noise_and_costs_nothing() -> None:
    made = Laplace(Fraction(0), Fraction(1))
    assert made.release([7, -3], Rng.seeded(1)) == [7, -3]
    assert made.event.pure() == 0


def test_rho_is_exactly_what_was_asked() -> None:
    assert gaussian_for_rho(l2_squared=Fraction(7, 3), rho=Fraction(1, 10)).event.rho() == Fraction(1, 10)


def test_discrete_calibration_beats_no_continuous_one() -> None:
    """Canonne, Kamath, Steinke 2020, Theorem 7: the delta of the chosen sigma holds on the discrete law itself."""
    made = gaussian_for_pair(shift=1, epsilon=Fraction(1), delta=Fraction(1, 10**5))
    sigma_squared, tail = float(made.sigma_squared), made.law.upper_tail
    delta = tail(math.floor(sigma_squared - 0.5)) - math.e * tail(math.floor(sigma_squared + 0.5))
    assert delta <= 1e-5 * (1 + 1e-9)


@pytest.mark.parametrize("bad", [Fraction(0), Fraction(-1)])
def test_losses_must_be_positive(bad: Fraction) -> None:
    with pytest.raises(DeclarationError):
        Laplace(Fraction(1), bad)
    with pytest.raises(DeclarationError):
        gaussian_for_rho(l2_squared=Fraction(1), rho=bad)
