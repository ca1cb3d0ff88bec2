"""Memoization: a permanent randomised answer, randomised once more for every report; its p, q and both epsilons.

It may not know devices or tasks. The permanent answer bounds what all reports together reveal, the second round lowers
what one report reveals and keeps two reports of one device from being linked by equality.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.core.loss import Number, format_number
from sordino.core.noise.rng import Rng
from sordino.core.rounding import bisect_whole
from sordino.local.labels import Answers, Label
from sordino.local.protocols.catalog import PERMANENT
from sordino.local.protocols.randomizer import FrequencyOracle, Randomizer
from sordino.local.protocols.response import GRR
from sordino.local.protocols.unary import Unary, bit_laws
from sordino.local.reports import Parameters, Reports, Rows, SupportCounts, numbers_of, own
from sordino.local.thresholds import BITS, FULL, check_epsilon, log_up


@dataclass(frozen=True, slots=True, repr=False)
class Memoized(FrequencyOracle):
    """Hold the rounds (p1, q1), made once, and (p2, q2), made for every report, both GRR or both unary.

    Theorem: a report supports the true label with probability p = p1 p2 + (1 - p1) q2, another one with q = q1 p2 +
    (1 - q1) q2, so p - q = (p1 - q1)(p2 - q2). One report is epsilon-differentially private with epsilon = ln(p / q) for
    GRR, ln[p (1 - q) / ((1 - p) q)] for unary; any number of reports of one permanent answer have the first round's
    epsilon, as they are functions of it and of fresh coins.

    Raises DeclarationError where the rounds differ in kind or labels, or one report reveals more than the claim.

    Paper: Erlingsson, Pihur, Korolova 2014 (RAPPOR), section 3; Arcolezi et al. 2022, Improving the utility of locally
    differentially private protocols for longitudinal and multidimensional frequency estimates, section 4.

    >>> from sordino.local.protocols.response import GRR
    >>> rounds = memoize(GRR(range(14), epsilon=2), epsilon=1)
    >>> rounds.epsilon, rounds.permanent_epsilon, round(float(rounds.permanent.p), 3), round(float(rounds.p), 3)
    (1.0, 2.0, 0.362, 0.173)
    """

    permanent: GRR | Unary
    instant: GRR | Unary
    claim: Fraction

    def __post_init__(self) -> None:
        if type(self.permanent) is not type(self.instant) or self.permanent.labels != self.instant.labels:
            raise DeclarationError("both rounds must be of one protocol, grr or unary, and of the same labels")
        if log_up(_ratio(self.permanent, self.instant), digits=40) > self.claim:
            raise DeclarationError(
                f"p and q of both rounds give an epsilon above the stated {format_number(self.claim)}"
            )

    @property
    def labels(self) -> tuple[Label, ...]:
        """The labels."""
        return self.permanent.labels

    @property
    def name(self) -> str:
        """L- and the protocol of both rounds; L-OSUE where an optimised round is followed by a symmetric one."""
        return "L-OSUE" if self.permanent.name == "OUE" else f"L-{self.permanent.name}"

    @property
    def permanent_epsilon(self) -> float:
        """What all reports of one permanent answer reveal at most."""
        return self.permanent.epsilon

    @property
    def p(self) -> Fraction:
        """The probability that a report supports the respondent's own label."""
        return _twice(self.permanent.p, self.instant)

    @property
    def q(self) -> Fraction:
        """The probability that a report supports a label that is not the respondent's."""
        return _twice(self.permanent.q, self.instant)

    @property
    def kind(self) -> str:
        """The kind of both rounds, whose form reports have."""
        return self.instant.kind

    @property
    def number(self) -> int:
        """The second round's number in the wire format."""
        return self.instant.number

    @property
    def width(self) -> int:
        """Bytes of one report."""
        return self.instant.width

    def parameters(self) -> Parameters:
        """Return the second round's parameters, whose form reports have, and the first round's thresholds."""
        first = self.permanent.parameters()
        second = self.instant.parameters()
        return {**second, "epsilon": format_number(self.claim), "first_p": first["p"], "first_q": first.get("q")}

    def perturb(self, answers: Answers, rng: Rng) -> Reports:
        """Return a batch of reports, one an answer, both rounds at once: for respondents asked once."""
        return Reports.of(self, self.reports(self.permanent.perturb(answers, rng).rows, rng))

    def check(self, rows: Rows) -> None:
        """Raise DeclarationError where a row is no report."""
        self.instant.check(rows)

    def count(self, reports: Reports) -> SupportCounts:
        """Return how many reports support each label."""
        return replace(self.instant.count(Reports.of(self.instant, own(reports, self))), task=reports.task)

    def report(self, permanent: bytes, words: Iterable[int]) -> bytes:
        """Return one report of a permanent answer, from 32-bit words: as GRR's rule, and for unary one word a bit."""
        number = int.from_bytes(permanent, "little")
        perturb = self.instant.perturb_words if isinstance(self.instant, GRR) else self.instant.perturb_bits
        return perturb(number, words)

    def reports(self, permanent: Rows, rng: Rng) -> Rows:
        """Return one report of each permanent answer, a row each."""
        if isinstance(self.instant, GRR):
            return self.instant.perturb_numbers(numbers_of(permanent, self.width), rng)
        k = len(self.labels)
        bits = np.unpackbits(permanent, axis=1, bitorder="little")[:, :k].astype(np.bool_)
        words = rng.words(bits.shape, np.uint32)
        top = np.uint32(self.instant.threshold_p)
        bottom = np.uint32(self.instant.threshold_q)
        return np.packbits(words < np.where(bits, top, bottom), axis=1, bitorder="little")

    def inputs(self) -> Sequence[int | None]:
        """Return inputs that stand for every pair: labels are alike under every permutation."""
        return self.permanent.inputs()

    def channel(self, value: int | None) -> Sequence[tuple[Fraction, ...]]:
        """Return the law of one report of label number `value`, summed over the permanent answers in between."""
        if isinstance(self.instant, Unary):
            return bit_laws(self, value)
        number = self._number(value)
        return [tuple(self.p if v == number else self.q for v in range(len(self.labels)))]

    def __repr__(self) -> str:
        both = f"epsilon {self.epsilon:g} a report, {format_number(self.permanent.claim)} for ever"
        return f"<{self.name}, {len(self.labels)} labels, {both}>"


def memoize(permanent: Randomizer, *, epsilon: Number) -> Memoized:
    """Return the second round that reveals at most `epsilon` a report, with the least noise that does.

    The second round is GRR for GRR and symmetric for unary; its threshold is found by bisection on exact epsilons.
    Raises DeclarationError for another protocol, and unless epsilon is below the permanent answer's.
    """
    if not isinstance(permanent, GRR | Unary):
        raise DeclarationError(f"permanent answers are made by {', '.join(PERMANENT)}, not by {permanent.kind}")
    most = check_epsilon(epsilon)
    if most >= permanent.claim:
        rule = (
            f"epsilon must be below the permanent answer's, {format_number(permanent.claim)}, not {format_number(most)}"
        )
        raise DeclarationError(f"{rule}: with equal ones, reports could be the permanent answer itself")
    k = len(permanent.labels)
    low = FULL // (k if isinstance(permanent, GRR) else 2) + 1
    if log_up(_ratio(permanent, _second(permanent, low)), digits=40) > most:
        raise DeclarationError(f"epsilon {format_number(most)} is too small for thresholds of {BITS} bits")
    passes = bisect_whole(lambda t: log_up(_ratio(permanent, _second(permanent, t)), digits=40) > most, low, FULL)
    return Memoized(permanent, _second(permanent, passes - 1), most)


def _twice(first: Fraction, second: GRR | Unary) -> Fraction:
    return first * second.p + (1 - first) * second.q


def _ratio(first: GRR | Unary, second: GRR | Unary) -> Fraction:
    """Return the largest factor between the probabilities of one report under two labels."""
    p = _twice(first.p, second)
    q = _twice(first.q, second)
    return p / q if isinstance(second, GRR) else p * (1 - q) / ((1 - p) * q)


def _second(permanent: GRR | Unary, threshold: int) -> GRR | Unary:
    """Return a second round of this threshold, which claims its own epsilon."""
    odds = Fraction(threshold, FULL - threshold)
    if isinstance(permanent, GRR):
        return GRR._make(permanent.labels, log_up(odds * (len(permanent.labels) - 1)), threshold=threshold)
    return Unary._make(permanent.labels, log_up(odds**2), threshold_p=threshold, threshold_q=FULL - threshold)
