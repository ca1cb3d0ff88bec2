"""Amplification by shuffling: what reports reveal where someone independent mixes them before the collector sees any.

It knows of a protocol how often a report supports two labels at once, no more. The condition is part of every result,
since nothing in Sordino shuffles.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, runtime_checkable

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.core.loss import Number, format_number, round_up, to_fraction
from sordino.core.rounding import bisect
from sordino.local.estimates.binomial import binomial_law

CONDITION = (
    "only if an independent shuffler, who never tells the collector who sent what, mixes all n reports, "
    "and all n respondents report honestly"
)
_BUCKETS = 400
_LEAST = Fraction(1, 10**12)
# More than rounding and the tails left out can hide.
_ROUNDING = 1e-14
# The relative width at which bisection stops.
_TIGHT = 1e-4


@dataclass(frozen=True, slots=True)
class Shuffled:
    """Hold an amplified epsilon at delta, the closed form beside it, and the condition on which both hold."""

    epsilon: float
    delta: float
    closed_form: float | None
    simple_form: float | None
    local_epsilon: float
    n: int
    condition: str = CONDITION

    def __repr__(self) -> str:
        epsilon = round_up(self.epsilon, digits=4)
        return (
            f"<Shuffled: epsilon {epsilon} at delta {self.delta:.3g} in the central model, {self.condition}; "
            f"without one, the local epsilon {self.local_epsilon:.4g}>"
        )


@runtime_checkable
class Overlapping(Protocol):
    """A protocol whose report is more likely, by one factor of at most e^epsilon, from all labels that it supports."""

    @property
    def epsilon(self) -> float:
        """What one report may reveal at most."""

    @property
    def overlap(self) -> Fraction:
        """P(a report supports the respondent's label and any one other)."""


def shuffled(epsilon0: Number, n: int, delta: Number, *, protocol: Overlapping | None = None) -> Shuffled:
    """Return the central (epsilon, delta) of n shuffled reports of local epsilon `epsilon0`, under replacement of one.

    Theorem: the reports of the n - 1 others hold C ~ Binomial(n - 1, exp(-epsilon0)) clones of the two answers in
    question, A ~ Binomial(C, 1/2) of them of the first. What is revealed of the answer is at most what is revealed by
    (A + D, C - A + 1 - D), D a coin of e^epsilon0 / (e^epsilon0 + 1). `epsilon` bounds this from above by summing the
    hockey-stick divergence, C rounded down in steps; `closed_form` is the theorem's formula, None where n is too small
    for it; `simple_form` its coarser statement.

    Theorem (`protocol`: GRR, subset selection). Let m(y) be the least probability of a report y, over
    labels; a label that y supports gives it e^epsilon0 m(y) at most, and any other m(y). Let b be the chance that a report
    supports both labels in question, and tell the collector when that is so of the report in question: it then reveals
    nothing. Else its two laws sum to (e^epsilon0 + 1) m(y) at most, so each other report is with probability c = 2 (1 - b)
    / (e^epsilon0 + 1) a draw from their mean, that is a clone of one of the two answers above, by a coin. Hence delta is at
    most 1 - b times that of C ~ Binomial(n - 1, c). With b = 0 this is the bound of 2023; for other protocols its proof was
    withdrawn (errata of that paper), so they keep the bound of 2021.

    Raises DeclarationError unless epsilon0 > 0, n >= 2 and 0 < delta < 1, and where the protocol's epsilon is above
    epsilon0.

    Papers: Feldman, McMillan, Talwar 2021, Hiding among the clones, theorem 3.1 and its proof; 2023, Stronger privacy
    amplification by shuffling.

    >>> round(shuffled(4, 100_000, "1e-6").closed_form, 4)
    0.5378
    >>> from sordino.local.protocols.response import GRR
    >>> round(shuffled(4, 100_000, "1e-6", protocol=GRR(range(14), epsilon=4)).epsilon, 3)
    0.118
    """
    loss = to_fraction(epsilon0, name="epsilon0")
    chance = to_fraction(delta, name="delta")
    if loss <= 0:
        raise DeclarationError(f"epsilon0 must be above 0, not {format_number(loss)}")
    if isinstance(n, bool) or not isinstance(n, int) or n < 2:
        raise DeclarationError("n must be a whole number of respondents, 2 or more")
    if not 0 < chance < 1:
        raise DeclarationError(f"delta must lie between 0 and 1, not {format_number(chance)}")
    if chance < _LEAST:
        raise DeclarationError("delta must be 1e-12 or more: smaller ones are lost in the sums of floats")
    local = float(loss)
    small = float(chance)
    closed, simple = _forms(local, n, small)
    bounds = [local if closed is None else closed, _least(_clones(math.exp(-local), n), local, small)]
    if protocol is not None:
        if protocol.epsilon > local * (1 + _ROUNDING):
            raise DeclarationError(f"a report of this protocol reveals more than epsilon0: {protocol.epsilon:.6g}")
        apart = float(1 - protocol.overlap) * (1 + _ROUNDING)
        clones = _clones(2 * apart * (1 - 2 * _ROUNDING) / (math.exp(local) + 1), n)
        bounds.append(_least([(count, apart * weight) for count, weight in clones], local, small))
    return Shuffled(min(bounds), small, closed, simple, local, n)


def _forms(local: float, n: int, delta: float) -> tuple[float | None, float | None]:
    """Return the closed form and the simpler one, where the theorem's condition on n holds."""
    if local > math.log(n / (16 * math.log(2 / delta))) if n > 16 * math.log(2 / delta) else True:
        return None, None
    grown = math.exp(local)
    a = 8 * math.sqrt(grown * math.log(4 / delta) / n)
    c = 8 * grown / n
    first = math.log1p(a + c)
    closed = math.log1p((1 - math.exp(-local)) / (1 + math.exp(-local - first)) * (a + c))
    simple = math.log1p((grown - 1) / (grown + 1) * (a + c))
    return closed, simple


def _least(clones: list[tuple[int, float]], local: float, delta: float) -> float:
    """Return the least epsilon, rounded up, at which the divergence over these clones is delta."""
    return bisect(lambda epsilon: _divergence(clones, local, epsilon) <= delta, 0.0, local, relative=_TIGHT)[1]


def _clones(rate: float, n: int) -> list[tuple[int, float]]:
    """Return numbers of clones with their probabilities, each number the least of its bucket: fewer clones hide less."""
    first, mass = binomial_law(n - 1, rate)
    edges = np.unique(np.linspace(0, mass.size, _BUCKETS + 1).astype(np.int64))
    sums = np.add.reduceat(mass, edges[:-1])
    return [(int(first + edge), float(weight)) for edge, weight in zip(edges[:-1], sums, strict=True)]


def _divergence(clones: list[tuple[int, float]], local: float, epsilon: float) -> float:
    """Return the hockey-stick divergence at e^epsilon, summed over the number of clones."""
    return _ROUNDING + sum(weight * _given(count, local, epsilon) for count, weight in clones if weight > 0)


def _given(count: int, local: float, epsilon: float) -> float:
    keep = 1 / (1 + math.exp(-local))
    _, mass = binomial_law(count, 0.5)
    # P(A = a - 1) beside P(A = a)
    shifted = np.append(0.0, mass)
    same = np.append(mass, 0.0)
    here = keep * shifted + (1 - keep) * same
    there = (1 - keep) * shifted + keep * same
    return float(np.maximum(here - math.exp(epsilon) * there, 0.0).sum())
