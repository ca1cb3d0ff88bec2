"""Intervals of shares by exact sums: they cover every share, and no share beside 0 or 1 more than by whole steps."""

from __future__ import annotations

import numpy as np
import pytest

from sordino.local.estimates.binomial import binomial_law, population_interval, respondents_interval

CONFIDENCES = [0.5, 0.9, 0.95, 0.99]
COINS = [(0.75, 0.25), (0.5, 0.2), (0.9, 0.01), (0.3, 0.05)]


def coverage(how: str, own: int | float, n: int, p: float, q: float, confidence: float) -> tuple[float, float]:
    """Return how often the interval holds the share, and the largest probability of one number of supports."""
    if how == "respondents":
        first, mass = binomial_law(round(own), p)
        second, more = binomial_law(n - round(own), q)
        first, law, share = first + second, np.convolve(mass, more), own / n
    else:
        first, law = binomial_law(n, own / n * p + (1 - own / n) * q)
        share = own / n
    supports = tuple(range(first, first + law.size))
    ends = respondents_interval if how == "respondents" else population_interval
    low, high = ends(supports, n=n, p=p, q=q, confidence=confidence)
    held = (low - 1e-12 <= share) & (share <= high + 1e-12)
    return float(law @ held), float(law.max())


@pytest.mark.deep
@pytest.mark.parametrize("confidence", CONFIDENCES)
@pytest.mark.parametrize(("p", "q"), COINS)
@pytest.mark.parametrize(("how", "n", "slack"), [
    ("respondents", 60, 1e-9), ("population", 60, 1e-9), ("respondents", 20_000, 0.002), ("population", 20_000, 0.002),
])  # fmt: skip
def test_shares_of_every_size(how: str, n: int, slack: float, p: float, q: float, confidence: float) -> None:
    """Of few people by exact tails, of many by the score test: within .002, and above by no more than two steps."""
    places = sorted(
        {round(x * n) for x in (0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.3, 0.5, 0.8, 0.95, 0.99, 1)}
    )
    for own in places:
        found, step = coverage(how, own, n, p, q, confidence)
        assert found >= confidence - slack, own
        assert found <= confidence + slack + 2.1 * step, own


@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_without_coins_the_ends_are_quantiles_of_the_beta_law(n: int) -> None:
    """Clopper and Pearson 1934 for every count, those of none and all among them, by SciPy."""
    from scipy.special import betaincinv

    counts = np.arange(n + 1)
    low, high = population_interval(tuple(counts.tolist()), n=n, p=1.0, q=0.0, confidence=0.95)
    assert low[1:] == pytest.approx(betaincinv(counts[1:], n - counts[1:] + 1, 0.025), abs=1e-9)
    assert high[:-1] == pytest.approx(betaincinv(counts[:-1] + 1, n - counts[:-1], 0.975), abs=1e-9)
    assert (low[0], high[-1]) == (0, 1)
