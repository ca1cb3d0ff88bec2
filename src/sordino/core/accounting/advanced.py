"""Composition theorems in closed form for pure events: what many runs of a known epsilon cost at a delta.

It knows no event. They hold where the epsilons are fixed beforehand, whatever is asked with them (k-fold adaptive
composition): not where an epsilon is chosen after answers, for which only the ledger's filter certifies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from sordino.core.errors import DeclarationError
from sordino.core.loss import Number, format_number, to_fraction
from sordino.core.rounding import bisect, float_up

# relative: more than the float steps below can lose
_SLACK = 1e-14


def advanced(epsilon: Number, k: int, slack: Number) -> float:
    """Return the epsilon of `k` runs of epsilon-DP at delta = `slack` by advanced composition, rounded up.

    epsilon sqrt(2 k ln(1/slack)) + k epsilon (e^epsilon - 1) (Dwork, Rothblum, Vadhan 2010, Theorem III.3). Never
    better than `kairouz`; kept for comparison. Raises DeclarationError unless epsilon, k >= 0 and 0 < slack < 1.

    >>> round(advanced(1, 500, 1e-5), 6)
    966.439216
    """
    each, runs, bits = _read_runs(epsilon, k, slack)
    grown = math.expm1(each) if each < 700 else math.inf
    return (each * math.sqrt(2 * runs * bits) + (runs * each * grown if runs and each else 0.0)) * (1 + _SLACK)


def kairouz(epsilon: Number, k: int, slack: Number) -> float:
    """Return the epsilon of `k` runs of epsilon-DP at delta = `slack`, rounded up.

    k epsilon tanh(epsilon / 2) + epsilon sqrt(2 k ln(1/slack)) (Kairouz, Oh, Viswanath 2015, Theorem 3.4). Raises
    DeclarationError unless epsilon, k >= 0 and 0 < slack < 1.

    >>> round(kairouz(1, 500, 1e-5), 2)
    338.36
    """
    each, runs, bits = _read_runs(epsilon, k, slack)
    return (runs * each * math.tanh(each / 2) + each * math.sqrt(2 * runs * bits)) * (1 + _SLACK)


def optimal(epsilon: Number, k: int, delta: Number) -> float:
    """Return the least epsilon that `k` runs of epsilon-DP have at `delta`: the exact answer, rounded up.

    Kairouz, Oh, Viswanath 2015, Theorem 3.3, at every epsilon and not only at multiples: randomized response is the
    worst case, whose loss is (k - 2 j) epsilon with probability C(k, j) e^((k - j) epsilon) / (1 + e^epsilon)^k. Raises
    DeclarationError unless epsilon, k >= 0 and 0 < delta < 1.

    >>> optimal(1, 500, 1e-5) < kairouz(1, 500, 1e-5)
    True
    >>> round(optimal(1, 1, 1e-9), 6)
    1.0
    """
    import numpy as np

    each, runs, bits = _read_runs(epsilon, k, delta)
    if not runs or not each:
        return 0.0
    j = np.arange(runs + 1, dtype=np.float64)
    factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, runs + 1, dtype=np.float64)))])
    logs = factorials[-1] - factorials - factorials[::-1] - j * each - runs * math.log1p(math.exp(-each))
    losses = (runs - 2 * j) * each
    # ln delta, less what the sum of logarithms may have lost
    goal = -bits - 1e-13 * (1 + float(factorials[-1]))

    def holds(candidate: float) -> bool:
        above = losses > candidate
        with np.errstate(divide="ignore"):
            terms = logs[above] + np.log(-np.expm1(candidate - losses[above]))
        if not terms.size:
            return True
        top = float(terms.max())
        return top == -math.inf or top + math.log(float(np.exp(terms - top).sum())) <= goal

    return 0.0 if holds(0.0) else bisect(holds, 0.0, runs * each, relative=1e-13)[1] * (1 + _SLACK)


def compose_advanced(epsilons: Sequence[float], slack: Fraction) -> float:
    """Return advanced composition of pure losses of several sizes (Dwork, Rothblum, Vadhan 2010, Theorem III.3).

    sqrt(2 ln(1/slack) sum e^2) + sum e (e^e - 1), the same proof, rounded up.
    """
    if max(epsilons, default=0.0) > 600:
        return math.inf
    grown = math.fsum(each * math.expm1(each) for each in epsilons)
    return (math.sqrt(2 * _bits(slack) * math.fsum(each * each for each in epsilons)) + grown) * (1 + _SLACK)


def compose_kairouz(epsilons: Sequence[float], slack: Fraction) -> float:
    """Return the composition of pure losses of several sizes (Kairouz, Oh, Viswanath 2015, Theorem 3.5), rounded up.

    With S = sum e^2: sum e tanh(e/2) + sqrt(2 S ln(x)), x the lesser of 1/slack and e + sqrt(S)/slack; or the plain sum.
    """
    squares = math.fsum(each * each for each in epsilons)
    drift = math.fsum(each * math.tanh(each / 2) for each in epsilons)
    bits = _bits(slack)
    # from 1 on, 1/slack is the lesser
    if squares < 1:
        bits = min(bits, bits + math.log(math.e * math.exp(-bits) + math.sqrt(squares) * (1 + _SLACK)))
    spread = math.sqrt(2 * squares * max(bits, 0.0))
    return min(math.fsum(epsilons), drift + spread) * (1 + _SLACK)


def _read_runs(epsilon: Number, k: int, slack: Number) -> tuple[float, int, float]:
    each = to_fraction(epsilon, name="epsilon")
    spare = to_fraction(slack, name="slack")
    if each < 0 or k < 0:
        raise DeclarationError("epsilon and k must not be negative")
    if not 0 < spare < 1:
        raise DeclarationError(
            f"slack, the delta spent by composition, must lie between 0 and 1, not {format_number(spare)}"
        )
    return float_up(each), k, _bits(spare)


def _bits(slack: Fraction) -> float:
    """Return ln(1/slack)."""
    return math.log(slack.denominator) - math.log(slack.numerator)
