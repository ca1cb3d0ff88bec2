"""Gaussian differential privacy of discrete Gaussian noise: vectors at (epsilon, delta) with no more noise than they need.

It draws no noise. Costs are stated as rho = mu^2 / 2, which sums, of mechanisms no easier to distinguish than N(0, 1) and
N(mu, 1) (Dong, Roth, Su 2022, numbered as in arXiv:1905.02383): also adaptively, under a cap (Smith & Thakurta 2022;
Koskela, Tobaben, Honkela 2022).

Theorem (discreteness costs a tenth of a step squared). Let X be discrete Gaussian noise of parameter sigma >= 1, added
independently to each cell of whole numbers, and y <= pi^2 / 2 with y (1 - y / pi^2) >= 1 / sigma^2: then y is about
1 / (sigma^2 - 1 / pi^2). Where neighbors differ by a vector of length l, the release is l sqrt(y)-GDP.
Proof. Write P[X > t] = 1 - Phi(z(t)), p(t) = P[X = t], and m for the largest step z(t) - z(t - 1).
(1) m^2 <= y is enough: the best tests of X against X + v are half-lines, with z(t) against z(t - v) <= z(t) + v m, the
errors between them are mixed, and those of N(0, 1) against N(v m, 1) are convex: so that pair dominates. Cells compose as
the root of the sum of squares (Corollary 3.3 there).
(2) The steps tend to 1 / sigma. Else let t have the largest, [z(t - 1), z(t)] = [c - m/2, c + m/2], and let A(c) be the
mass of N(0, 1) on it. The neighboring steps are no longer than m, so p(t + 1) <= A(c + m), p(t - 1) <= A(c - m), and
exp(-1 / sigma^2) = p(t + 1) p(t - 1) / p(t)^2 <= A(c + m) A(c - m) / A(c)^2. The second derivative of ln A is V - 1, V the
variance of N(0, 1) on an interval of length m, at most m^2 / pi^2 (Payne & Weinberger 1960: log-concave laws). So
1 / sigma^2 >= m^2 (1 - m^2 / pi^2), which leaves m^2 <= y once m < 2 < pi / sqrt(2).
(3) m < 2. By symmetry t >= 0. For t = 0, m = 2 z(0) < 1.06, as p(0) < .4. For t >= 1 and a = z(t - 1) >= 0, a step of 2
would give P[X > t] <= exp(-2 a - 2) P[X > t - 1]; but P[X > t - 1] <= (1 + p(t) / p(t + 1)) P[X > t], which is
1 + exp((2 t + 1) / (2 sigma^2)). So 2 a + 2 + ln(1 - e^-2) < (2 t + 1) / (2 sigma^2), while a >= (t - 1) / sigma
(Canonne, Kamath, Steinke 2020, Proposition 25): for sigma >= 1 and t >= 1 both cannot be.

Calibration of one number's noise takes the law's upper tail as a function: nothing here knows how noise is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from fractions import Fraction

from sordino.core.accounting.event_fields import read_amount, read_delta
from sordino.core.errors import DeclarationError, arg
from sordino.core.loss import Number, format_number
from sordino.core.rounding import bisect, bisect_whole, float_up

# rounded down
_PI_SQUARED = Fraction(98696, 10**4)
_DIGITS = 12
_UP = Context(prec=_DIGITS, rounding=ROUND_CEILING)
_DOWN = Context(prec=_DIGITS, rounding=ROUND_FLOOR)
_ULP = 2.3e-16


def gaussian_delta(rho: Number, epsilon: Number) -> float:
    """Return the delta at `epsilon` of N(0, 1) against N(mu, 1), rho = mu^2 / 2, rounded up.

    Phi(mu / 2 - epsilon / mu) - e^epsilon Phi(-mu / 2 - epsilon / mu) (Balle & Wang 2018, Theorem 8). Where the two terms
    nearly cancel, phi(x) mu (1 - x R(x)) with x = epsilon / mu - mu / 2 and R(x) = Phi(-x) / phi(x): above it, as R is
    convex and has the slope x R(x) - 1. Raises DeclarationError where rho or epsilon is negative.

    >>> gaussian_delta(0.5, 1) < 0.126937
    True
    """
    cost = float_up(read_amount(rho, name="rho"))
    bound = float(read_amount(epsilon, name="epsilon"))
    return _delta(cost, math.nextafter(bound, 0.0)) if cost else 0.0


def gaussian_rho_for(epsilon: Number, delta: Number) -> Fraction:
    """Return the largest mu^2 / 2, rounded down, such that N(0, 1) against N(mu, 1) is (epsilon, delta)-private.

    Above `rho_for`: of all that is rho-zCDP, Gaussian noise is not the worst. Raises DeclarationError unless
    epsilon >= 0 and 0 < delta < 1.

    >>> from sordino.core.accounting.zcdp import rho_for
    >>> round(float(gaussian_rho_for(1, 1e-9)), 5), round(float(rho_for(1, 1e-9)), 5)
    (0.01656, 0.01497)
    """
    bound = read_amount(epsilon, name="epsilon")
    goal = read_delta(delta)
    if bound > 10**6:
        raise DeclarationError(f"epsilon must be at most 10^6 to be converted to rho, not {format_number(bound)}")
    most = math.nextafter(float(bound), 0.0)
    target = math.nextafter(float(goal), 0.0)
    high = 1.0 + float(bound)
    while _delta(high, most) <= target:
        high *= 2
    low, _ = bisect(lambda rho: _delta(rho, most) > target, 0.0, high, relative=1e-15)
    return Fraction(_DOWN.create_decimal_from_float(low))


def vectors_rho_for(epsilon: Number, delta: Number) -> Fraction | None:
    """Return the rho of Gaussian DP that a run of vectors alone may sum up to at (epsilon, delta); None above 1/2.

    There, noise on a count that gets all of it would have a sigma below a step, which the theorem does not cover.
    """
    rho = gaussian_rho_for(epsilon, delta)
    return rho if rho <= Fraction(1, 2) else None


def gaussian_variance(l2_squared: Fraction, rho: Fraction) -> Fraction | None:
    """Return a sigma^2 at which discrete Gaussian noise is sqrt(2 rho)-GDP, by the theorem above; None below 1.

    `l2_squared` is in whole steps of the lattice, as sigma is. Rounded up at twelve digits.

    >>> float(gaussian_variance(Fraction(1), Fraction(1, 50)))  # 25 of continuous noise, and 1 / pi^2
    25.1017335396
    """
    smooth = l2_squared / (2 * rho)
    if smooth < 1:
        return None
    exact = smooth / (1 - 1 / (_PI_SQUARED * smooth))
    return Fraction(_UP.divide(_UP.create_decimal(exact.numerator), _DOWN.create_decimal(exact.denominator)))


def _delta(rho: float, epsilon: float) -> float:
    if rho == 0:
        return 0.0
    mu = math.sqrt(2 * rho)
    x = epsilon / mu - mu / 2
    far = x + mu
    # roundings of tails at arguments this large
    slack = 8 * _ULP * (2 + x * x + far * far)
    near = 0.5 * math.erfc(x / math.sqrt(2)) * (1 + slack)
    other = math.exp(epsilon) * 0.5 * math.erfc(far / math.sqrt(2)) * (1 - slack) if epsilon < 700 else 0.0
    direct = near - max(other, 0.0)
    if x <= 0:
        return min(1.0, direct)
    density = math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    return min(1.0, direct, mu * (density - x * near * (1 - 2 * slack) + slack * density))


UpperTail = Callable[[int], float]

# relative error allowed to the tails that are passed in
_SLACK = 1e-9


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
    bound = read_amount(epsilon, name="epsilon")
    target = read_delta(delta)
    if bound == 0:
        raise DeclarationError(
            f"epsilon must be above 0 for Gaussian noise; ask with {arg('rho=')} or a larger {arg('epsilon=')}"
        )

    def holds(variance: Fraction) -> bool:
        value = discrete_gaussian_delta(bound, shift=shift, sigma_squared=variance, upper_tail=law(variance))
        return Fraction(value) <= target

    first = Fraction(analytic_gaussian_sigma(bound, target, float(shift))) ** 2
    step = Fraction(10) ** (math.floor(math.log10(first)) - 6)
    high = math.ceil(first / step)
    while not holds(high * step):
        high += max(1, high // 64)
    # what holds may not be the least: go down in growing strides to a value that does not hold
    low = high - max(1, high // 64)
    while low > 0 and holds(low * step):
        step_down = max(1, 2 * (high - low))
        high = low
        low -= step_down
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
    bound = float(read_amount(epsilon, name="epsilon"))
    target = float(read_delta(delta))
    if not 0 < sensitivity < math.inf:
        raise DeclarationError("sensitivity must be above 0 and finite")

    def delta_at(sigma: float) -> float:
        near = _normal(0.5 / sigma - bound * sigma)
        far = _normal(-0.5 / sigma - bound * sigma)
        return near - (math.exp(bound) * far if bound < 700 else 0.0)

    low = 0.0
    high = 1.0
    while delta_at(high) > target:
        low = high
        high *= 2
    _, high = bisect(lambda sigma: delta_at(sigma) <= target, low, high, relative=1e-15)
    # the difference of two near tails has lost digits
    return high * (1 + 1e-12) * sensitivity


def _normal(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))
