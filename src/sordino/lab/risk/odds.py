"""Sums of worlds weighed by exp(-rate |f_i - f_j|), at every answer f_i, in log space. It may not know queries or budgets.

A forward and a backward recursion over the sorted answers take O(V); few answers are summed pair by pair, which keeps
every digit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sordino.core.arguments import amount, finite_number
from sordino.core.errors import DeclarationError
from sordino.core.loss import Number
from sordino.lab.sensitivity.universe import Floats

# Up to so many answers each pair is summed.
PAIRWISE = 400
_ROW = 1024
_NEAR = 2048
# exp(-750) is 0.
_GONE = 750.0
# exp(-600) is the least that a row of plain sums is trusted with.
_STEEP = 600.0


def least_sum(offsets: Floats, log_weights: Floats, log_tops: Floats, rate: float) -> float:
    """Return the least over i of log sum_j exp(log_weights_j - log_tops_i - rate |f_i - f_j|): minus the log risk.

    `offsets` ascend. About 1e-15 relative where pairs are summed, else 1e-12.

    >>> import numpy as np
    >>> round(math.exp(-least_sum(np.array([0.0, 1.0]), np.log([1.0, 2.0]), np.zeros(2), 0.0)), 12)
    0.333333333333
    """
    if offsets.size <= PAIRWISE:
        terms = log_weights[None, :] - rate * np.abs(offsets[:, None] - offsets[None, :])
        tops = terms.max(axis=1)
        totals = tops + np.log(np.exp(terms - tops[:, None]).sum(axis=1))
        return float((totals - log_tops).min())
    forward = _log_decaying_sum(offsets, log_weights, rate)
    backward = _log_decaying_sum(-offsets[::-1], log_weights[::-1], rate)[::-1]
    # the answer's own weight is in both: it is taken off the backward sum before that is carried on
    after = np.append(backward[1:] - rate * np.diff(offsets), -np.inf)
    return float((np.logaddexp(forward, after) - log_tops).min())


def least_sum_at(
    places: Iterable[int], offsets: Floats, log_weights: Floats, log_tops: Floats, rate: float, *, enough: float
) -> float:
    """Return what `least_sum` does, over a few places i only; a sum that is past `enough` may be left unfinished."""
    least = math.inf
    heaviest = float(log_weights.max())
    for i in places:
        top = float(log_tops[i])
        here = float(offsets[i])
        reach = (_GONE + max(0.0, heaviest - top)) / rate
        first, last = np.searchsorted(offsets, [here - reach, here + reach])
        for near in (_NEAR, offsets.size):
            part = slice(max(int(first), i - near), min(int(last), i + near) + 1)
            terms = log_weights[part] - top - rate * np.abs(offsets[part] - here)
            peak = float(terms.max())
            total = peak + math.log(float(np.exp(terms - peak).sum()))
            if total > enough:
                break
        least = min(least, total)
    return least


def softmax(log_weights: Floats) -> Floats:
    """Return weights that sum to one; finite wherever one of the logarithms is."""
    shifted = np.exp(log_weights - log_weights.max())
    return np.asarray(shifted / math.fsum(shifted.tolist()), dtype=np.float64)


def rising_root(rises: Callable[[float], float], low: float, high: float, *, tolerance: float) -> tuple[float, float]:
    """Return a bracket (a, b) of the root of a rising function, rises(a) <= 0 < rises(b), b within `tolerance` of a.

    The Illinois method, with a bisection wherever three steps have not halved the bracket.
    """
    at_low = rises(low)
    at_high = rises(high)
    width = high - low
    stale = 0
    side = 0
    while high - low > tolerance * low:
        guess = low - at_low * (high - low) / (at_high - at_low)
        nudge = 0.25 * tolerance * low
        if stale >= 3 or not low < guess < high:
            guess = low + (high - low) / 2
            stale = 0
            width = (high - low) / 2
        guess = min(max(guess, low + nudge), high - nudge)
        if not low < guess < high:
            break
        value = rises(guess)
        if value > 0:
            high = guess
            at_high = value
            at_low = at_low / 2 if side == 1 else at_low
            side = 1
        else:
            low = guess
            at_low = value
            at_high = at_high / 2 if side == -1 else at_high
            side = -1
        stale += 1
        if high - low <= width / 2:
            stale = 0
            width = high - low
    return low, high


def _log_decaying_sum(offsets: Floats, log_weights: Floats, rate: float) -> Floats:
    """Return log sum over j <= k of exp(log_weights_j - rate (offsets_k - offsets_j)) for every k, row by row."""
    out = np.empty(offsets.size)
    carry = -math.inf
    last = float(offsets[0])
    for start in range(0, offsets.size, _ROW):
        part = slice(start, start + _ROW)
        # Counted from the row's own start, which keeps the digits of near answers.
        run = rate * (offsets[part] - offsets[start])
        raised = log_weights[part] + run
        peak = float(raised.max())
        if peak - float(raised[0]) > _STEEP:
            sums = np.logaddexp.accumulate(raised)
        else:
            sums = peak + np.log(np.cumsum(np.exp(raised - peak)))
        carry -= rate * (float(offsets[start]) - last)
        out[part] = np.logaddexp(sums, carry) - run
        carry = float(out[part][-1])
        last = float(offsets[part][-1])
    return out


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
