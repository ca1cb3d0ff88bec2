"""Amplification by shuffling: what reports reveal where someone independent mixes them before the collector sees any.

It knows of a protocol how often a report supports another label alone, no more. The condition is part of every result,
since nothing in Sordino shuffles.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol, runtime_checkable

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.core.loss import Number, format_number, round_up, to_fraction
from sordino.core.rounding import bisect
from sordino.local.estimates.binomial import Floats, binomial_law

CONDITION = (
    "only if an independent shuffler, who never tells the collector who sent what, mixes all n reports, "
    "and all n respondents report honestly"
)
_BUCKETS = 400
_LEAST = Fraction(1, 10**12)
# More than rounding and the tails left out can hide.
_ROUNDING = 1e-14
# The points of the grid of a blanket's sums, the exponent of the chance beyond, and the error of a factor of their transform.
_GRID = 1 << 15
_FAR = 45.0
_TRANSFORM = 2e-14
# The longest laws of clones that are kept for all steps of a bisection: 400 of them take 30 MB.
_KEPT = 1 << 12
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
class TwoLevels(Protocol):
    """A protocol whose report is more likely, by one factor of at most e^epsilon, from all labels that it supports.

    All pairs of labels are alike, and every respondent has one.
    """

    @property
    def epsilon(self) -> float:
        """What one report may reveal at most."""

    @property
    def confusion(self) -> Fraction:
        """P(a report supports a given other label, and not the respondent's)."""

    @property
    def overlap(self) -> Fraction:
        """P(a report supports the respondent's label and a given other one)."""


def shuffled(epsilon0: Number, n: int, delta: Number, *, protocol: TwoLevels | None = None) -> Shuffled:
    """Return the central (epsilon, delta) of n shuffled reports of local epsilon `epsilon0`, under replacement of one.

    Theorem: the reports of the n - 1 others hold C ~ Binomial(n - 1, exp(-epsilon0)) clones of the two answers in
    question, A ~ Binomial(C, 1/2) of them of the first. What is revealed of the answer is at most what is revealed by
    (A + D, C - A + 1 - D), D a coin of e^epsilon0 / (e^epsilon0 + 1). `epsilon` bounds this from above by summing the
    hockey-stick divergence, C rounded down in steps; `closed_form` is the theorem's formula, None where n is too small
    for it; `simple_form` its coarser statement.

    Theorem (`protocol`: GRR, subset selection; the privacy blanket of the protocol itself). Let m(y) be the least probability of
    a report y, over labels: a label that y supports gives it E m(y), any other m(y), with ln E the protocol's epsilon. Each of
    the n - 1 others' reports is with probability g = m(all y) a draw of m / g, whatever its label. Tell the collector which are:
    with B of them, the B + 1 reports left have, against B + 1 draws of m / g, the density of mean P_u(y) g / m(y) under label u
    in question. So delta is E[(sum of L over B + 1 draws)+ / (B + 1)], L = (P_u - e^epsilon P_v) g / m, and as P(B = b) / (b + 1)
    is P(M = b + 1) / (n g) for M ~ Binomial(n, g), that is E[(Y_1 + ... + Y_n)+] / n for independent Y: E - e^epsilon with
    probability a, 1 - E e^epsilon with a, E (1 - e^epsilon) with s, 1 - e^epsilon with 1 - (E + 1) a - E s, else 0. Here a is
    the chance that a report under u supports v alone, E s that it supports both. The law of the sum is a power of one Fourier
    transform: each Y goes to its neighbors on a grid, at its own mean, which raises the mean of the convex (.)+; what lies
    beyond the grid is bounded by Bernstein's inequality, and the rounding of the transform is added.

    With two labels that is the bound of 2023. For other protocols the proof of that was withdrawn (errata of that paper), so they
    keep the bound of 2021.

    Raises DeclarationError unless epsilon0 > 0, n >= 2 and 0 < delta < 1, and where the protocol's epsilon is above
    epsilon0.

    Papers: Feldman, McMillan, Talwar 2021, Hiding among the clones, theorem 3.1 and its proof; 2023, Stronger privacy
    amplification by shuffling; Balle, Bell, Gascon, Nissim 2019, The privacy blanket of the shuffle model; Su, Cheng, Wang 2025
    (arXiv:2504.07414), who show that no decomposition gives less.

    >>> round(shuffled(4, 100_000, "1e-6").closed_form, 4)
    0.5378
    >>> from sordino.local.protocols.response import GRR
    >>> [round(shuffled(4, 100_000, "1e-6", protocol=GRR(range(k), epsilon=4)).epsilon, 3) for k in (2, 14)]
    [0.118, 0.106]
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
    clones = _Clones(_count_clones(math.exp(-local), n), local)
    bounds = [local if closed is None else closed, _least(clones.delta, local, small)]
    if protocol is not None:
        if protocol.epsilon > local * (1 + _ROUNDING):
            raise DeclarationError(f"a report of this protocol reveals more than epsilon0: {protocol.epsilon:.6g}")
        bounds.append(_least(_Blanket.of(protocol, n).delta, float(protocol.epsilon), small))
    return Shuffled(min(bounds), small, closed, simple, local, n)


def _forms(local: float, n: int, delta: float) -> tuple[float | None, float | None]:
    """Return the closed form and the simpler one, where the theorem's condition on n holds."""
    # The theorem is remembered with ln(2 / delta) here. Its proof takes 8 ln(4 / delta) clones to be at most half of their mean,
    # and so does the authors' code: the stricter condition, where the sum over clones is the lesser bound anyhow.
    if n * math.exp(-local) < 16 * math.log(4 / delta):
        return None, None
    grown = math.exp(local)
    a = 8 * math.sqrt(grown * math.log(4 / delta) / n)
    c = 8 * grown / n
    first = math.log1p(a + c)
    closed = math.log1p((1 - math.exp(-local)) / (1 + math.exp(-local - first)) * (a + c))
    simple = math.log1p((grown - 1) / (grown + 1) * (a + c))
    return closed, simple


def _least(delta_at: Callable[[float], float], local: float, delta: float) -> float:
    """Return the least epsilon, rounded up, at which a bound on delta is at most this one; `local` where none below it is."""
    # Else no bisection towards 0 would end before the least float.
    if delta_at(0.0) <= delta:
        return 0.0
    return bisect(lambda epsilon: delta_at(epsilon) <= delta, 0.0, local, relative=_TIGHT)[1]


@dataclass(frozen=True, slots=True)
class _Clones:
    """The delta of clones of two answers: numbers of them with their probabilities."""

    counts: list[tuple[int, float]]
    local: float
    kept: dict[int, tuple[Floats, Floats]] = field(default_factory=dict)

    def delta(self, epsilon: float) -> float:
        """Return the hockey-stick divergence at e^epsilon, summed over the number of clones."""
        return _ROUNDING + sum(weight * self._given(count, epsilon) for count, weight in self.counts if weight > 0)

    def _given(self, count: int, epsilon: float) -> float:
        here, there = self.kept.get(count) or self._find_laws(count)
        return float(np.maximum(here - math.exp(epsilon) * there, 0.0).sum())

    def _find_laws(self, count: int) -> tuple[Floats, Floats]:
        """Return the probabilities of each number of clones of the first answer, under either answer."""
        keep = 1 / (1 + math.exp(-self.local))
        _, mass = binomial_law(count, 0.5)
        # P(A = a - 1) beside P(A = a)
        shifted = np.append(0.0, mass)
        same = np.append(mass, 0.0)
        here = keep * shifted + (1 - keep) * same
        there = (1 - keep) * shifted + keep * same
        # Every step of a bisection asks for them again.
        if mass.size <= _KEPT:
            self.kept[count] = here, there
        return here, there


def _count_clones(rate: float, n: int) -> list[tuple[int, float]]:
    """Return numbers of clones with their probabilities, each number the least of its bucket: fewer clones hide less."""
    first, mass = binomial_law(n - 1, rate)
    edges = np.unique(np.linspace(0, mass.size, _BUCKETS + 1).astype(np.int64))
    sums = np.add.reduceat(mass, edges[:-1])
    return [(int(first + edge), float(weight)) for edge, weight in zip(edges[:-1], sums, strict=True)]


@dataclass(frozen=True, slots=True)
class _Blanket:
    """The delta of a protocol's own privacy blanket: masses of m that support one label in question, both, and none."""

    odds: float
    one: float
    both: float
    none: float
    n: int

    @classmethod
    def of(cls, protocol: TwoLevels, n: int) -> _Blanket:
        """Return the masses of a protocol."""
        odds = math.exp(float(protocol.epsilon))
        one = float(protocol.confusion)
        both = float(protocol.overlap) / odds
        return cls(odds, one, both, max(0.0, 1 - (odds + 1) * one - odds * both), n)

    def delta(self, epsilon: float) -> float:
        """Return E[(Y_1 + ... + Y_n)+] / n, rounded up."""
        grown = math.exp(epsilon)
        values = np.array([self.odds - grown, 1 - self.odds * grown, self.odds * (1 - grown), 1 - grown])
        masses = np.array([self.one, self.one, self.both, self.none])
        mean = float(values @ masses)
        variance = self.n * max(0.0, float(np.square(values) @ masses) - mean**2)
        most = float(np.abs(values).max()) + abs(mean)
        # Bernstein: the sum passes its mean by this much with a probability of e^-_FAR at most.
        far = _FAR / 3 * most + math.sqrt((_FAR / 3 * most) ** 2 + 2 * _FAR * variance)
        top = self.n * mean + far
        if top <= 0:
            past = -self.n * mean
            exponent = past**2 / 2 / (variance + most * past / 3)
            return _ROUNDING + math.exp(-exponent) * past / exponent / self.n
        # The two ends, and all between them as whole steps.
        step = 2 * far / (_GRID - 4)
        places = values / step
        low = np.floor(places)
        law = np.zeros(_GRID)
        np.add.at(law, low.astype(np.int64) % _GRID, masses * (1 - (places - low)))
        np.add.at(law, (low.astype(np.int64) + 1) % _GRID, masses * (places - low))
        law[0] += max(0.0, 1 - float(masses.sum()))
        transform = np.fft.rfft(law)
        sums = np.fft.irfft(transform**self.n, _GRID)
        bottom = math.ceil((self.n * mean - far) / step)
        positive = np.maximum(bottom + (np.arange(_GRID) - bottom) % _GRID, 0.0) * step
        # Each of the n factors is off by a few roundings.
        error = _TRANSFORM * float(np.mean(np.abs(transform) ** (self.n - 1))) * float(positive.sum())
        beyond = math.exp(-_FAR) * (top + far / _FAR) / self.n
        return (float((positive * sums).sum()) / self.n + error + beyond) * (1 + 1e-12) + _ROUNDING
