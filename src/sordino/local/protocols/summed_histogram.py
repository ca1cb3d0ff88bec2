"""Summed histogram encoding: a one-hot row of numbers, each with noise of its own, and sums of what is reported.

It may not know collectors, tasks or devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.core.loss import Number, format_number
from sordino.core.noise.bernoulli import CertifiedProbability
from sordino.core.noise.rng import Rng
from sordino.local.draws import bernoulli, next_u32
from sordino.local.estimates.noisy_sums import NoisySumEstimate, sum_variance
from sordino.local.labels import Answers, Labels, check_labels, codes_of
from sordino.local.protocols.randomizer import ThresholdOracle
from sordino.local.reports import Reports, Rows, SupportCounts, check_numbers, count_support, numbers_of, own, rows_of
from sordino.local.thresholds import BITS, FULL, check_epsilon, log_up

_LIMITS = {1: 127, 2: 32_767}  # by the bytes of a number: what it is clipped to, so that a row of 0xff is no report
_CLIPPED = 1e-12  # how likely noise reaches beyond the limit, at most


@dataclass(frozen=True, slots=True, init=False, repr=False)
class SHE(ThresholdOracle):
    """Randomise by summed histogram encoding: 1 for the label and 0 for every other, plus discrete Laplace noise each.

    Theorem: with r = T / 2^32, T = floor(2^32 exp(-epsilon / 2)) + 1, each noise Z has P(Z = z) = (1 - r) / (1 + r) r^|z|,
    the difference of two geometric numbers. Two labels differ by 1 in two numbers, so a report's probability differs by a
    factor r^-2 <= exp(epsilon) at most; a missing answer, a row of 0s, differs from a label in one number only. Numbers are
    clipped to 1 - L .. L, which is post-processing, L = 127 or 32,767 so that noise passes it with probability 1e-12 at
    most; but for that the mean of the numbers is the unbiased share, of variance 2 r / ((1 - r)^2 n) whatever the share.

    Scale 2 / epsilon on whole numbers errs less than on real ones, 8 / epsilon^2. All that a number reveals is whether it
    is above 0: P(y | 1) / P(y | 0) is 1 / r for every y >= 1 and r for every other. The bits y >= 1 are symmetric unary
    encoding of the same epsilon, with exactly half this variance for a label that nobody has. So SHE is for learning.

    The rule from 32-bit words to the report, the same in every language: for each label in order, words until one is not
    below T, g of them below it; the same again, h of them; y = (1 if it is the label's number else 0) + g - h, clipped, and
    y + L - 1 is sent, little-endian in 1 byte (L = 127) or 2.

    Raises DeclarationError for fewer than 2 labels, repeated ones, or an epsilon below 0.0017.

    Paper: Wang, Blocki, Li, Jha 2017, section 4.2 (SHE); Ghosh, Roughgarden, Sundararajan 2009 (noise of whole numbers).

    >>> made = SHE(["a", "b", "c"], epsilon=1)
    >>> made.numbers(made.perturb(["b"], Rng.seeded(1))).tolist()
    [[-1, 3, 0]]
    """

    threshold: int
    limit: int

    def __init__(self, labels: Labels, *, epsilon: Number) -> None:
        kept = check_labels(labels)
        claim = check_epsilon(epsilon)
        self._fill(kept, claim, threshold=CertifiedProbability.exp_minus(claim / 2).digits(BITS) + 1)

    name = "SHE"
    kind = "histogram"
    on_device = True
    number = 12
    stated = MappingProxyType({"ratio": "threshold"})

    def _fill(self, labels: Any, claim: Fraction, **fields: int) -> None:
        ratio = Fraction(fields["threshold"], FULL)
        if ratio < 1 and log_up(1 / ratio**2, digits=40) > claim:
            raise DeclarationError(f"the noise gives an epsilon above the stated {format_number(claim)}")
        limit = next((limit for limit in _LIMITS.values() if float(ratio) ** limit <= _CLIPPED), None)
        if limit is None:
            raise DeclarationError("epsilon must be 0.0017 or more for noisy numbers of 2 bytes; SUE takes less")
        self._set(labels=labels, claim=claim, p=Fraction(1), q=Fraction(0), limit=limit, **fields)

    def _odds(self, p: Fraction) -> tuple[Fraction, Fraction]:
        return 1 - p, 1 / self.ratio**2

    @property
    def ratio(self) -> Fraction:
        """r: how much likelier each noise is than the next one further from 0."""
        return Fraction(self.threshold, FULL)

    @property
    def width(self) -> int:
        """Bytes of one report."""
        return self._bytes * len(self.labels)

    @property
    def _bytes(self) -> int:
        return next(size for size, limit in _LIMITS.items() if limit == self.limit)

    @property
    def estimator(self) -> str:
        """How reports become an estimate, in a sentence."""
        deviation = self.variance(share=0.0, n=1) ** 0.5
        return (
            f"a report has a number for each answer, 1 for one's own and 0 for others, plus noise of deviation "
            f"{deviation:.3g}; the estimate is their sum"
        )

    def perturb(self, answers: Answers, rng: Rng) -> Reports:
        """Return a batch of reports, one an answer; a missing answer sends noise alone.

        Raises DeclarationError where an answer is none of the labels.
        """
        codes = codes_of(answers, self.labels, missing=True)
        shape = (codes.size, len(self.labels))
        noisy = self._heads(codes.size * len(self.labels), rng) - self._heads(codes.size * len(self.labels), rng)
        rows = noisy.reshape(shape)
        present = np.flatnonzero(codes >= 0)
        rows[present, codes[present]] += 1
        sent = np.clip(rows, 1 - self.limit, self.limit) + (self.limit - 1)
        return Reports.of(self, rows_of(sent.reshape(-1), self._bytes).reshape(codes.size, self.width))

    def _heads(self, count: int, rng: Rng) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return geometric numbers: how many coins of the ratio show heads before the first that does not."""
        heads = np.zeros(count, dtype=np.int64)
        active = np.arange(count)
        while active.size:
            active = active[bernoulli(self.threshold, active.size, rng)]
            heads[active] += 1
        return heads

    def perturb_words(self, value: int | None, words: Iterable[int]) -> bytes:
        """Return the report of label number `value` (None: missing) from 32-bit words, by the rule above.

        >>> SHE(["a", "b"], epsilon=1).perturb_words(1, [0, 2**32 - 1, 2**32 - 1, 2**32 - 1, 2**32 - 1]).hex()
        '7f7f'
        """
        if value is not None and not 0 <= value < len(self.labels):
            raise DeclarationError(f"value must be the number of a label, 0 to {len(self.labels) - 1}, or None")
        drawn = iter(words)
        report = b""
        for label in range(len(self.labels)):
            noise = self._next_heads(drawn) - self._next_heads(drawn)
            number = max(1 - self.limit, min(self.limit, (label == value) + noise))
            report += (number + self.limit - 1).to_bytes(self._bytes, "little")
        return report

    def _next_heads(self, words: Iterator[int]) -> int:
        heads = 0
        while next_u32(words) < self.threshold:
            heads += 1
        return heads

    def numbers(self, reports: Reports) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the noisy numbers of each report, a row each in the order of the labels; refuses another task's."""
        return self._read(own(reports, self))

    def _read(self, rows: Rows) -> np.ndarray[Any, np.dtype[np.int64]]:
        sent = numbers_of(rows, self._bytes).reshape(-1, len(self.labels))
        return sent.astype(np.int64) - (self.limit - 1)

    def check(self, rows: Rows) -> None:
        """Raise DeclarationError where a number lies beyond the limit."""
        check_numbers(rows, 2 * self.limit, width=self._bytes, what="noisy number")

    def count(self, reports: Reports) -> SupportCounts:
        """Return the sum of the numbers of each label; by chance it may be negative."""
        return count_support(reports, self.numbers(reports).sum(axis=0))

    def estimate(self, counts: SupportCounts) -> NoisySumEstimate:
        """Return the estimate of each label's share, with its intervals.

        Raises DeclarationError for another task's counts, or for none.
        """
        plain = super(SHE, self).estimate(counts)
        return NoisySumEstimate(
            plain.labels, plain.supports, plain.n, plain.p, plain.q, plain.protocol, float(self.ratio), self.limit
        )

    def variance(self, *, share: float, n: int) -> float:
        """Return the variance of an estimated share of n respondents: that of the noise alone."""
        del share  # noise on numbers does not depend on them
        return sum_variance(float(self.ratio), n) / n**2

    def shift(self, malicious: float) -> tuple[float, float]:
        """Return what a share of malicious clients can add to an estimated share, and take from it: the limit, each."""
        return malicious * self.limit, malicious * self.limit

    def inputs(self) -> Sequence[int | None]:
        """Return inputs that stand for every pair: numbers are alike under every permutation of the labels."""
        return (0, 1, None)

    def channel(self, value: int | None) -> Sequence[tuple[Fraction, ...]]:
        """Return the law of what a report reveals: one part a label, P(y <= 0) and P(y >= 1), which the theorem proves enough."""
        near = 1 / (1 + self.ratio)
        far = self.ratio / (1 + self.ratio)
        return [(far, near) if label == value else (near, far) for label in range(len(self.labels))]
