"""How much Gaussian noise an (epsilon, delta) needs: on the discrete law, which is drawn, and on the continuous one.

The law's upper tail is passed in as a function: nothing here draws noise or knows how it is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from sordino.accounting.event_fields import read_amount, read_delta
from sordino.errors import DeclarationError
from sordino.loss import Number
from sordino.rounding import bisect, bisect_whole

__all__ = ["analytic_gaussian_sigma", "calibrate_gaussian", "discrete_gaussian_delta"]

UpperTail = Callable[[int], float]

_SLACK = 1e-9  # relative error allowed to the tails that are passed in


def discrete_gaussian_delta(epsilon: Number, *, shift: int, sigma_squared: Fraction, upper_tail: UpperTail) -> float:
    """Return the delta, rounded up, of discrete Gaussian noise of parameter sigma on an integer of sensitivity `shift`.

    P[X > epsilon sigma^2 / D - D / 2] - e^epsilon P[X > epsilon sigma^2 / D + D / 2] with D = `shift` (Canonne, Kamath,
    Steinke 2020, Theorem 7); the supremum over half-lines grows with the shift, so it holds for smaller ones too.
    `upper_tail(t)` is P[X > t], accurate to 1e-9 relative; that much is added for cancellation.

    Raises DeclarationError unless epsilon >= 0, shift >= 1 and sigma_squared > 0.
    """
    bound = read_amount(epsilon, name="epsilon")
    if isinstance(shift, bool) or not isinstance(shift, int) or shift < 1:
        raise DeclarationError("shift, the sensitivity in lattice steps, must be a whole number, 1 or more")
    if sigma_squared <= 0:
        raise DeclarationError("sigma_squared must be above 0")
    start = math.floor(bound * sigma_squared / shift - Fraction(shift, 2))
    near = upper_tail(start)
    far = upper_tail(start + shift) if bound < 700 else 0.0
    grown = math.exp(float(bound)) * far if far else 0.0
    return min(1.0, max(0.0, near - grown) + _SLACK * (near + grown))


def calibrate_gaussian(epsilon: Number, delta: Number, *, shift: int, law: Callable[[Fraction], UpperTail]) -> Fraction:
    """Return the least sigma^2, rounded up at seven digits, at which the discrete Gaussian is (epsilon, delta)-DP.

    `law(sigma_squared)` returns the upper tail t -> P[X > t] of that discrete Gaussian. The value returned has itself
    been checked by `discrete_gaussian_delta`, and one unit less of its seventh digit fails. Where the delta, whose
    half-lines start at whole numbers, is not monotone in sigma, a smaller value may hold too.

    Raises DeclarationError unless epsilon > 0, 0 < delta < 1 and shift >= 1.
    """
    bound, target = read_amount(epsilon, name="epsilon"), read_delta(delta)
    if bound == 0:
        raise DeclarationError("epsilon must be above 0 for Gaussian noise; ask with rho= or a larger epsilon=")

    def holds(variance: Fraction) -> bool:
        value = discrete_gaussian_delta(bound, shift=shift, sigma_squared=variance, upper_tail=law(variance))
        return Fraction(value) <= target

    first = Fraction(analytic_gaussian_sigma(bound, target, float(shift))) ** 2
    step = Fraction(10) ** (math.floor(math.log10(first)) - 6)
    high = math.ceil(first / step)
    while not holds(high * step):
        high += max(1, high // 64)
    low = high - max(1, high // 64)
    while low > 0 and holds(low * step):
        low, high = low - max(1, 2 * (high - low)), low
    low = max(low, 0)
    return bisect_whole(lambda steps: holds(steps * step), low, high) * step


def analytic_gaussian_sigma(epsilon: Number, delta: Number, sensitivity: float = 1.0) -> float:
    """Return the least sigma at which continuous Gaussian noise is (epsilon, delta)-DP, rounded up.

    Phi(s / (2 sigma) - epsilon sigma / s) - e^epsilon Phi(-s / (2 sigma) - epsilon sigma / s) <= delta (Balle & Wang
    2018, Theorem 8), with s the l2 sensitivity. For comparison: what is drawn is discrete, see `calibrate_gaussian`.

    Raises DeclarationError unless epsilon >= 0, 0 < delta < 1 and sensitivity > 0.

    >>> round(analytic_gaussian_sigma(1, 1e-5), 9)
    3.730631635
    """
    bound, target = float(read_amount(epsilon, name="epsilon")), float(read_delta(delta))
    if not 0 < sensitivity < math.inf:
        raise DeclarationError("sensitivity must be above 0 and finite")

    def spent(sigma: float) -> float:
        near = _normal(0.5 / sigma - bound * sigma)
        far = _normal(-0.5 / sigma - bound * sigma)
        return near - (math.exp(bound) * far if bound < 700 else 0.0)

    low, high = 0.0, 1.0
    while spent(high) > target:
        low, high = high, 2 * high
    _, high = bisect(lambda sigma: spent(sigma) <= target, low, high, relative=1e-15)
    return high * (1 + 1e-12) * sensitivity  # the difference of two near tails has lost digits


def _normal(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))
