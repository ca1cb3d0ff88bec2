"""The exact rho of pure mechanisms: the least at which each law is concentrated, rounded up, and the way back.

It knows laws by their parameters only. Harrison & Manurangsi 2026 (arXiv:2510.25746) found these constants; the proofs
here are our own. Write D_a for the Renyi divergence of order a and v = 2 a - 1, so that v^2 - 1 = 4 a (a - 1).

Theorem 1. Let ln E[exp((a - 1) loss)] = (a - 1) D_a be concave in v^2. Then D_a <= a D_1 for all a > 1, where D_1 is the
mean of the loss; and no smaller factor holds, since D_a / a tends to D_1.
Proof. It is 0 at v^2 = 1, so concavity puts it below slope * (v^2 - 1) = 4 slope * a (a - 1); divide by (a - 1), let a
tend to 1. It is concave where E, as a function of v^2, has order below 1, is positive at 0 and has its zeros on the
negative reals: then it is a constant times a product of factors 1 + v^2 / z, z > 0 (Hadamard).

Theorem 2. Every epsilon-private mechanism is (epsilon tanh(epsilon / 2))-zCDP, and randomized response no less.
Proof. It is a post-processing of randomized response (Kairouz, Oh, Viswanath 2015, Theorem 2.5), for which E is
cosh(v epsilon / 2) / cosh(epsilon / 2); the zeros of cosh are imaginary.

Theorem 3. Discrete Laplace noise of ratio q = exp(-c) on a whole number moved by n steps, epsilon = n c, is rho-zCDP for
rho = epsilon - (1 - exp(-epsilon)) c / sinh(c), and no less; for n to infinity epsilon - 1 + exp(-epsilon).
Proof. With z = exp(v c), E times exp((1 + v) epsilon / 2) (1 + q) is 1 + (1 - q)(z + ... + z^(n-1)) + z^n =
(z^n (z - q) - (1 - q z)) / (z - 1). At a zero z^n = (1 - q z) / (z - q); on |z| > 1 the left side is longer than 1 and the
right one shorter, on |z| < 1 the other way about. So |z| = 1 and v^2 <= 0. The mean loss is c (E|Z - n| - E|Z|).

Theorem 4. Mechanisms of epsilon-bounded range are rho-zCDP for rho = ln(sinh(y) / y) + y coth(y) - 1, y = epsilon / 2,
below epsilon^2 / 8, and no less.
Proof. With g(x) = x ln(sinh(x y) / (x y)) the worst (a - 1) D_a (`BoundedRangeEvent`) is g(a) - g(a - 1) - g(1). Euler's
product for sinh makes g a sum of terms h(x) = x ln(1 + x^2 / b), b > 0, and it is enough that each has
f(s) = s (s + 1) h'(1) - h(s + 1) + h(s) + h(1) >= 0. f and f' are 0 at 0, and f'' = 2 h'(1) - h''(s + 1) + h''(s). Now
h''(x) / x = 2 (3 b + x^2) / (b + x^2)^2 falls, so h''(s + 1) <= h''(s) + h''(1); and h''(1) <= 2 h'(1), since with w = 1 / b
half of the difference, ln(1 + w) + (w^2 - w) / (1 + w)^2, is 0 at 0 and has the slope (w^2 + 5 w) / (1 + w)^3.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from functools import lru_cache

from sordino.core.errors import DeclarationError
from sordino.core.loss import format_number
from sordino.core.rounding import bisect_whole, float_up

# a factor for sums of a few positive terms
_SLACK = 1 + 2e-14
_UP = Context(prec=12, rounding=ROUND_CEILING)
_KEPT = 1 << 12


@lru_cache(_KEPT)
def pure_rho(epsilon: Fraction) -> Fraction:
    """Return epsilon tanh(epsilon / 2), rounded up: the rho of any epsilon-private mechanism (theorem 2).

    >>> float(pure_rho(Fraction(1)))
    0.462117157261
    """
    most = float_up(epsilon)
    return _round_up(most * math.tanh(most / 2), min(epsilon, epsilon**2 / 2))


@lru_cache(_KEPT)
def laplace_rho(epsilon: Fraction, steps: int) -> Fraction:
    """Return the rho of discrete Laplace noise on a whole number that moves by `steps`, rounded up (theorem 3).

    >>> float(laplace_rho(Fraction(1), 10**6))  # 1 / e, of continuous noise
    0.367879441172
    """
    most = float_up(epsilon)
    return _round_up(_drift(most) - math.expm1(-most) * _shortfall(most / steps), pure_rho(epsilon))


@lru_cache(_KEPT)
def bounded_range_rho(epsilon: Fraction) -> Fraction:
    """Return the rho of mechanisms of epsilon-bounded range, rounded up (theorem 4).

    >>> float(bounded_range_rho(Fraction(1)))
    0.123301561483
    """
    y = float_up(epsilon) / 2
    if y < 1:
        # sinh(y) - y, and y cosh(y) - sinh(y), without their cancellation
        sine = _series(y, power=0)
        bend = _series(y, power=1)
        value = math.log1p(sine / y) + bend / (y + sine) if y else 0.0
    else:
        far = math.exp(-2 * y)
        value = 2 * y + math.log1p(-far) - math.log(2 * y) + 2 * y * far / (1 - far) - 1
    return _round_up(value, epsilon**2 / 8)


@lru_cache(_KEPT)
def pure_epsilon_for(rho: Fraction) -> Fraction:
    """Return the largest epsilon whose pure mechanisms rho pays for, rounded down at nine decimals, or six digits.

    >>> float(pure_epsilon_for(Fraction(1, 2)))
    1.043626895
    """
    return _inverse(pure_rho, rho)


@lru_cache(_KEPT)
def bounded_range_epsilon_for(rho: Fraction) -> Fraction:
    """Return the largest epsilon whose mechanisms of bounded range rho pays for, rounded down like `pure_epsilon_for`."""
    return _inverse(bounded_range_rho, rho)


def _inverse(rho_of: Callable[[Fraction], Fraction], rho: Fraction) -> Fraction:
    if rho <= 0:
        raise DeclarationError(f"rho must be above 0, not {format_number(rho)}")
    high = math.sqrt(2 * float_up(rho))
    while rho_of(Fraction(high)) <= rho:
        high *= 2
    places = 9 if high >= 1e-3 else 6 - math.floor(math.log10(high))
    step = Fraction(1, 10**places)
    return (bisect_whole(lambda n: rho_of(n * step) > rho, 0, math.ceil(high / step)) - 1) * step


def _drift(x: float) -> float:
    """Return x - 1 + exp(-x): for small x exp(-x) times the sum of (k - 1) x^k / k!."""
    if x > 1:
        return x + math.expm1(-x)
    term = x
    total = 0.0
    for k in range(2, 22):
        term *= x / k
        total += (k - 1) * term
    return math.exp(-x) * total


def _shortfall(c: float) -> float:
    """Return 1 - c / sinh(c)."""
    if c > 1:
        return 1 - 2 * c * math.exp(-c) / -math.expm1(-2 * c)
    sine = _series(c, power=0)
    return sine / (c + sine) if c else 0.0


def _series(x: float, *, power: int) -> float:
    """Return the sum of (2 k)^power x^(2 k + 1) / (2 k + 1)! from k = 1 on, for x of at most 1."""
    term = x
    total = 0.0
    for k in range(1, 11):
        term *= x * x / (2 * k * (2 * k + 1))
        total += (2 * k) ** power * term
    return total


def _round_up(value: float, most: Fraction) -> Fraction:
    """Return a float sum rounded up at twelve digits, at most the bound that is exact."""
    if not math.isfinite(value):
        return most
    return min(most, Fraction(_UP.create_decimal_from_float(value * _SLACK)))
