"""Conversions between rho-zCDP and (epsilon, delta), sound as floats: each result is rounded to the safe side.

Nothing here knows what was run. Both conversions hold for any rho-zCDP mechanism; the optimal one is never worse.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

from sordino.core.accounting.event_fields import read_amount, read_delta
from sordino.core.errors import DeclarationError
from sordino.core.loss import Number, format_number
from sordino.core.rounding import bisect

# relative error allowed to each term of a float sum: several times what rounding can do
_SLACK = 4e-15
# digits of a rho found by bisection
_DIGITS = 12


def basic_epsilon_of(rho: Number, delta: Number) -> float:
    """Return rho + 2 sqrt(rho ln(1/delta)), rounded up (Bun & Steinke 2016, Proposition 1.3).

    Raises DeclarationError unless rho >= 0 and 0 < delta < 1.

    >>> round(basic_epsilon_of(0.5, 1e-5), 12)
    5.298525912188
    """
    cost = read_amount(rho, name="rho")
    target = read_delta(delta)
    bits = -_log(target)
    value = float(cost) + 2 * math.sqrt(float(cost) * bits)
    return value * (1 + _SLACK)


def epsilon_of(rho: Number, delta: Number) -> float:
    """Return the least epsilon known such that rho-zCDP implies (epsilon, delta)-DP, rounded up.

    The better of `basic_epsilon_of` and the optimal-order conversion (Canonne, Kamath, Steinke 2020, Proposition 12;
    Balle, Barthe, Gaboardi, Hsu, Sato 2020). Raises DeclarationError unless rho >= 0 and 0 < delta < 1.

    >>> epsilon_of(0.5, 1e-5) < basic_epsilon_of(0.5, 1e-5)
    True
    """
    cost = float(read_amount(rho, name="rho"))
    goal = _log(read_delta(delta)) - 1e-15
    high = basic_epsilon_of(rho, delta)
    if _log_delta(cost, 0.0) <= goal:
        return 0.0
    return bisect(lambda epsilon: _log_delta(cost, epsilon) <= goal, 0.0, high, relative=1e-14)[1]


def delta_of(rho: Number, epsilon: Number) -> float:
    """Return the least delta known such that rho-zCDP implies (epsilon, delta)-DP, rounded up, at most 1.

    The minimum over orders a of exp((a - 1)(a rho - epsilon)) (1 - 1/a)^a / (a - 1) (Canonne, Kamath, Steinke 2020,
    Proposition 12). Raises DeclarationError where rho or epsilon is negative.

    >>> delta_of(0.5, 5.2985) < 1e-5
    True
    """
    cost = read_amount(rho, name="rho")
    bound = read_amount(epsilon, name="epsilon")
    if cost == 0:
        return 0.0
    value = math.exp(min(0.0, _log_delta(float(cost), math.nextafter(float(bound), 0.0))))
    return min(1.0, math.nextafter(value * (1 + _SLACK), math.inf))


def rho_for(epsilon: Number, delta: Number) -> Fraction:
    """Return the largest rho, rounded down to twelve digits, such that rho-zCDP implies (epsilon, delta)-DP.

    By bisection on the optimal conversion of `delta_of`. Raises DeclarationError unless epsilon >= 0, 0 < delta < 1.

    >>> epsilon_of(rho_for(1, 1e-5), 1e-5) <= 1
    True
    """
    bound = read_amount(epsilon, name="epsilon")
    goal = _log(read_delta(delta)) - 1e-15
    if bound > 10**6:
        raise DeclarationError(f"epsilon must be at most 10^6 to be converted to rho, not {format_number(bound)}")
    target = math.nextafter(float(bound), 0.0) * (1 - 2e-14)
    low, _ = bisect(lambda rho: _log_delta(rho, target) > goal, 0.0, 2.0 * float(bound) + 1, relative=1e-14)
    return _round_down(low)


def epsilon_from_renyi(order: float, divergence: float, delta: Number) -> float:
    """Return the epsilon that a Renyi divergence of one order implies at `delta`, rounded up, at least 0.

    divergence + ln(1 - 1/order) - (ln delta + ln order) / (order - 1) (Canonne, Kamath, Steinke 2020, Proposition 12).
    """
    terms = [divergence, math.log1p(-1 / order), -_log(read_delta(delta)) / (order - 1), -math.log(order) / (order - 1)]
    return max(0.0, math.fsum(terms) + _SLACK * math.fsum(abs(term) for term in terms))


def _log_delta(rho: float, epsilon: float) -> float:
    """Return an upper bound on ln delta: it is convex in the order, so its slope is bisected."""
    if rho <= 0:
        return -math.inf

    def slope(order: float) -> float:
        return (2 * order - 1) * rho - epsilon + math.log1p(-1 / order)

    order = 1 + bisect(lambda above: slope(1 + above) > 0, 1e-9, (epsilon + 1) / (2 * rho) + 1, relative=1e-9)[1]
    terms = [(order - 1) * order * rho, -(order - 1) * epsilon, (order - 1) * math.log1p(-1 / order), -math.log(order)]
    return math.fsum(terms) + _SLACK * math.fsum(abs(term) for term in terms)


def _log(value: Fraction) -> float:
    if value > Fraction(1, 2):
        return math.log1p(-float(1 - value))
    return math.log(value.numerator) - math.log(value.denominator)


def _round_down(value: float) -> Fraction:
    whole = Decimal(value)
    if whole == 0:
        return Fraction(0)
    step = Fraction(10) ** (whole.adjusted() - _DIGITS + 1)
    return (Fraction(value) // step) * step
