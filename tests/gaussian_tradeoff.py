"""What an attacker can tell through Gaussian noise: power and delta from mu, and their inverses.

It may not know data, queries or a ledger. mu is the shift between two neighbors over the noise's sigma, sqrt(2 rho) of
a rho-zCDP Gaussian: it reads the relation that the shift was bounded for. Under replace the shift of an add_remove
sensitivity is at most doubled, so mu under add_remove is at most 2 mu under replace, never the reverse. The theorems are
about continuous noise; on whole numbers the discrete Gaussian agrees with them once sigma is a few steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

from sordino.core.arguments import amount, chance, require_above
from sordino.core.loss import Number

_NORMAL = NormalDist()
_FAR = 12.0  # from here on the Mills ratio comes from its continued fraction, whose 60 terms give all digits


def gaussian_power(mu: Number, *, level: Number) -> float:
    """Return the power of the best test at `level`: Phi(Phi^-1(a) + mu).

    Raises DeclarationError unless mu >= 0 and 0 < level < 1. Dong, Roth, Su 2022, Definition 2.6 (Gaussian trade-off).

    >>> round(gaussian_power(1, level=0.05), 7)
    0.259511
    """
    return _cdf(_NORMAL.inv_cdf(chance(level, name="level")) + amount(mu, name="mu", zero=True))


def mu_for_power(most: Number, *, level: Number) -> float:
    """Return the largest mu at which no test at `level` has a power above `most`: Phi^-1(m) - Phi^-1(a).

    Raises DeclarationError unless level < most < 1.

    >>> round(mu_for_power("0.2595110", level=0.05), 6)
    1.0
    """
    limit, a = chance(most, name="most"), chance(level, name="level")
    require_above(limit, a, name="most", because="the power")
    return _bisected(lambda mu: _cdf(_NORMAL.inv_cdf(a) + mu) <= limit)


def gaussian_delta(epsilon: Number, *, mu: Number) -> float:
    """Return the least delta of (epsilon, delta)-privacy: Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2).

    Raises DeclarationError unless epsilon >= 0 and mu > 0. Dong, Roth, Su 2022, Corollary 2.13; Balle & Wang 2018.

    >>> round(gaussian_delta(1, mu=1), 7)
    0.1269367
    """
    return _delta(amount(epsilon, name="epsilon", zero=True), amount(mu, name="mu"))


def gaussian_epsilon(delta: Number, *, mu: Number) -> float:
    """Return the least epsilon at which `gaussian_delta` is at most `delta`; 0 where that holds at once.

    Raises DeclarationError unless 0 < delta < 1 and mu > 0.

    >>> round(gaussian_epsilon("0.12693674", mu=1), 6)
    1.0
    """
    limit, shift = chance(delta, name="delta"), amount(mu, name="mu")
    if _delta(0.0, shift) <= limit:
        return 0.0
    below = _bisected(lambda eps: _delta(eps, shift) > limit)
    return math.nextafter(below, math.inf)


def mu_for_loss(epsilon: Number, *, delta: Number) -> float:
    """Return the largest mu that is (epsilon, delta)-private: the inverse of `gaussian_delta` in mu.

    Raises DeclarationError unless epsilon >= 0 and 0 < delta < 1.

    >>> round(mu_for_loss(1, delta="0.12693674"), 6)
    1.0
    """
    eps, limit = amount(epsilon, name="epsilon", zero=True), chance(delta, name="delta")
    return _bisected(lambda mu: _delta(eps, mu) <= limit)


def mu_for_rho(rho: Number) -> float:
    """Return the mu of a Gaussian whose loss is rho-zCDP: sqrt(2 rho). Raises DeclarationError unless rho >= 0.

    >>> mu_for_rho(0.5)
    1.0
    """
    return math.sqrt(2 * amount(rho, name="rho", zero=True))


def _cdf(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def _delta(epsilon: float, mu: float) -> float:
    """Return delta(eps) as phi(u) (R(u) - R(v)), u = eps/mu - mu/2, v = eps/mu + mu/2, R the Mills ratio."""
    u, v = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    density = math.exp(-u * u / 2) / math.sqrt(2 * math.pi)  # e^eps phi(v) = phi(u): no overflow
    if u < 0:
        return max(_cdf(-u) - density * _mills(v), 0.0)
    return max(density * (_mills(u) - _mills(v)), 0.0)


def _mills(x: float) -> float:
    """Return (1 - Phi(x)) / phi(x) for x >= 0."""
    if x < _FAR:
        return math.sqrt(math.pi / 2) * math.exp(x * x / 2) * math.erfc(x / math.sqrt(2))
    tail = x
    for k in range(60, 0, -1):
        tail = x + k / tail
    return 1 / tail


def _bisected(holds: Callable[[float], bool]) -> float:
    """Return the largest float at which `holds`, a claim true from 0 to somewhere."""
    low, high = 0.0, 1.0
    while holds(high):
        low, high = high, 2 * high
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
