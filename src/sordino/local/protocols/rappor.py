"""RAPPOR: a permanent noisy answer, and fresh noise on it in every report; two rounds of unary encoding.

It may not know where a permanent answer is kept, nor who counts reports.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sordino.core.errors import DeclarationError
from sordino.core.loss import Number, format_number, to_fraction
from sordino.core.noise.rng import Rng
from sordino.local.draws import bit_sums, bytes_for, pack_bernoulli
from sordino.local.labels import Answers, Label, Labels, check_labels
from sordino.local.protocols.randomizer import FrequencyOracle
from sordino.local.protocols.unary import Unary, bit_laws
from sordino.local.reports import Parameters, Reports, Rows, SupportCounts, check_padding, count_support, own
from sordino.local.thresholds import FULL, check_threshold, log_up


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Rappor(FrequencyOracle):
    """Randomise by RAPPOR with a bit a label (h = 1): a permanent answer, then an instantaneous one on top of it.

    The permanent bit keeps its value with probability 1 - f / 2; the instantaneous bit is 1 with probability q where
    the permanent one is 1, with p where it is 0 (RAPPOR's letters: here q > p).

    Theorem: two labels differ in two bits. All reports ever made of one permanent answer reveal at most the permanent
    answer itself, `lifetime_epsilon` = 2 ln((1 - f/2) / (f/2)). A single report reveals at most `epsilon` =
    ln[s (1 - r) / (r (1 - s))], where s = (1 - f/2) q + (f/2) p is the probability that the own label's bit is 1 and
    r = (1 - f/2) p + (f/2) q that of another's. Both are computed from the thresholds. The support estimate has
    `.p` = s and `.q` = r, and s - r = (1 - f)(q - p).

    `perturb` makes both rounds for respondents asked once; for repeated asking keep the rows of `permanent.perturb` on
    the device and send `report(rows)` each time.

    Raises DeclarationError for fewer than 2 labels, repeated ones, f outside (0, 1), or p not below q.

    Paper: Erlingsson, Pihur, Korolova 2014, sections 2 and 3, theorems 1 and 2, h = 1 without a Bloom filter.

    >>> r = Rappor(["a", "b", "c"], f=0.5, p=0.25, q=0.75)
    >>> r.epsilon < r.lifetime_epsilon
    True
    """

    permanent: Unary
    zero: int
    one: int
    claim: Fraction

    def __init__(self, labels: Labels, *, f: Number, p: Number, q: Number) -> None:
        flip = to_fraction(f, name="f")
        low = to_fraction(p, name="p")
        high = to_fraction(q, name="q")
        if not 0 < flip < 1:
            raise DeclarationError(f"f must lie between 0 and 1, not {format_number(flip)}")
        if not 0 <= low < high <= 1:
            raise DeclarationError(
                f"p must be below q, both from 0 to 1, not {format_number(low)} and {format_number(high)}"
            )
        permanent = Unary(labels, p=1 - flip / 2, q=flip / 2)
        self._fill(permanent, max(1, math.ceil(low * FULL)), min(FULL - 1, math.floor(high * FULL)))

    @classmethod
    def from_parameters(cls, parameters: Parameters, labels: Labels) -> Rappor:
        """Return the protocol of these parameters; raises DeclarationError where labels or thresholds do not fit them."""
        protocol = object.__new__(cls)
        keep, zero, one = (check_threshold(parameters.get(n), name=n) for n in ("keep", "p", "q"))
        high = Fraction(keep, FULL)
        protocol._fill(Unary(check_labels(labels), p=high, q=1 - high), zero, one)
        return protocol

    def _fill(self, permanent: Unary, zero: int, one: int) -> None:
        if zero >= one:
            raise DeclarationError("p must be below q: they are too near each other for thresholds of 32 bits")
        self._set(permanent=permanent, zero=zero, one=one)
        self._set(claim=log_up(self.p * (1 - self.q) / ((1 - self.p) * self.q)))

    name = "RAPPOR"
    kind = "rappor"
    number = 6

    @property
    def labels(self) -> tuple[Label, ...]:
        """The labels."""
        return self.permanent.labels

    @property
    def p(self) -> Fraction:
        """The probability that a report sets the bit of the respondent's own label."""
        keep = self.permanent.p
        return (keep * self.one + (1 - keep) * self.zero) / FULL

    @property
    def q(self) -> Fraction:
        """The probability that a report sets the bit of another label."""
        set_ = self.permanent.q
        return (set_ * self.one + (1 - set_) * self.zero) / FULL

    @property
    def lifetime_epsilon(self) -> float:
        """What all reports of one permanent answer reveal together, at most."""
        return self.permanent.epsilon

    @property
    def bit_count(self) -> int:
        """Bits of one report: one a label."""
        return len(self.labels)

    @property
    def width(self) -> int:
        """Bytes of one report."""
        return bytes_for(len(self.labels))

    def thresholds(self) -> Parameters:
        """Return the fields of `parameters` that are this protocol's own: "keep" is the threshold of 1 - f/2."""
        return {"keep": self.permanent.threshold_p, "p": self.zero, "q": self.one}

    def perturb(self, answers: Answers, rng: Rng) -> Reports:
        """Return a batch of reports, one an answer, both rounds at once; a missing answer sets no bit before them."""
        return self.report(self.permanent.perturb(answers, rng), rng)

    def report(self, permanent: Reports, rng: Rng) -> Reports:
        """Return one instantaneous report of each permanent answer, which `permanent.perturb` made."""
        rows = own(permanent, self.permanent)
        bits = len(self.labels)
        ones, zeros = (pack_bernoulli(t, len(rows), bits, rng) for t in (self.one, self.zero))
        return Reports.of(self, rows & ones | ~rows & zeros)

    def check(self, rows: Rows) -> None:
        """Raise DeclarationError where a padding bit is set: every other row can be a report."""
        check_padding(rows, len(self.labels))

    def count(self, reports: Reports) -> SupportCounts:
        """Return how many reports set each label's bit."""
        return count_support(reports, bit_sums(own(reports, self), len(self.labels)))

    def inputs(self) -> Sequence[int | None]:
        """Return inputs that stand for every pair: bits are alike under every permutation of the labels."""
        return (0, 1, None)

    def channel(self, value: int | None) -> Sequence[tuple[Fraction, ...]]:
        """Return the law of one report of label number `value`: one part a bit, the probabilities of 0 and 1."""
        return bit_laws(self, value)

    def __repr__(self) -> str:
        return (
            f"<RAPPOR of {len(self.labels)} labels, epsilon {self.epsilon:.4g} a report, "
            f"{self.lifetime_epsilon:.4g} for ever>"
        )
