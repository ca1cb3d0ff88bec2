"""The odds that one noisy answer gives for one exact answer against another. It may not know worlds, priors or tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sordino.core.arguments import amount, finite_number
from sordino.core.errors import DeclarationError
from sordino.core.loss import Number


@dataclass(frozen=True, slots=True)
class AnswerOdds:
    """Hold how likely a noisy answer is under each of two exact ones - a density, or the probability of a tail - and the odds.

    `odds` is the second over the first: what the answer multiplies an attacker's prior odds of the second by.
    """

    first: float
    second: float
    odds: float


def answer_odds(
    output: float, *, answers: Sequence[float], scale: Number, tail: Literal["at", "above", "below"] = "at"
) -> AnswerOdds:
    """Return the odds of two exact `answers`, the second against the first, once Laplace noise of `scale` gave `output`.

    "at" compares the densities at the output; "above" and "below" the probabilities of an answer past it. With scale Df /
    epsilon and answers at most Df apart the odds lie between e^-epsilon and e^epsilon in each case: that is what epsilon-
    differential privacy promises. Raises DeclarationError for other than two answers, and a scale that is not above 0.

    Source: Lee & Clifton 2011, How Much Is Enough? Choosing epsilon for Differential Privacy, section 4.1.

    >>> seen = answer_odds(3.1677, answers=(2, 4), scale="17/12", tail="above")
    >>> round(seen.first, 4), round(seen.second, 4), round(seen.odds, 3)
    (0.2193, 0.7221, 3.293)
    """
    if isinstance(answers, str) or len(answers) != 2:
        raise DeclarationError("answers must be two numbers, the first and the second exact answer: answers=(2, 4)")
    if tail not in ("at", "above", "below"):
        raise DeclarationError(f"tail must be 'at', 'above' or 'below', not {tail!r}")
    width = amount(scale, name="scale")
    far = [(finite_number(output, "output") - finite_number(one, "answers")) / width for one in answers]
    if tail == "at":
        logs = [-abs(z) - math.log(2 * width) for z in far]
    else:
        logs = [_log_tail(z if tail == "above" else -z) for z in far]
    gained = logs[1] - logs[0]
    return AnswerOdds(math.exp(logs[0]), math.exp(logs[1]), math.exp(gained) if gained < 709 else math.inf)


def _log_tail(z: float) -> float:
    """Return the logarithm of P(Z > z) for Laplace noise Z of scale 1."""
    return math.log(0.5) - z if z >= 0 else math.log1p(-0.5 * math.exp(z))
