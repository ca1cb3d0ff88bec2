"""The auditor of the local model: epsilon from the probabilities that the integers in use really have.

It may not know how a protocol chose its thresholds.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

from sordino.core.errors import DeclarationError
from sordino.local.protocols.randomizer import Channel
from sordino.local.thresholds import float_up, log_up


def exact_ratio(mechanism: Channel) -> Fraction:
    """Return the largest ratio of a report's probabilities under two inputs, as an exact fraction.

    Every output of every independent part is enumerated for every pair of the mechanism's `inputs`; the ratio of
    independent parts is the product of theirs. Raises DeclarationError where a report is possible under one input only.
    """
    worst = Fraction(1)
    laws = {value: tuple(mechanism.channel(value)) for value in mechanism.inputs()}
    for here, there in permutations(laws.values(), 2):
        ratio = Fraction(1)
        for part, other in zip(here, there, strict=True):
            if part != other:
                ratio *= _worst(part, other)
        worst = max(worst, ratio)
    return worst


def exact_epsilon(mechanism: Channel) -> float:
    """Return the epsilon of one report, computed from the thresholds in use and rounded up to a float.

    Theorem: it is at most the mechanism's claim; tests assert so for every protocol. The probabilities are fractions
    over powers of 2^32, their largest ratio is exact, and its logarithm is bounded from above by 40 digits.

    >>> from sordino.local.protocols.response import fair_coins
    >>> exact_epsilon(fair_coins())
    1.0986122886681098
    """
    return float_up(log_up(exact_ratio(mechanism), digits=40))


def _worst(here: tuple[Fraction, ...], there: tuple[Fraction, ...]) -> Fraction:
    worst = Fraction(1)
    for a, b in zip(here, there, strict=True):
        if (a == 0) != (b == 0):
            raise DeclarationError("a report is possible under one input and not under another: no epsilon is finite")
        if b:
            worst = max(worst, a / b)
    return worst
