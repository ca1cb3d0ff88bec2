"""Randomized response: the true label with a known probability, else another one; fair coins are its oldest case.

It may not know collectors, tasks or devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.core.loss import Number
from sordino.core.noise.rng import Rng
from sordino.local.draws import keep_or_replace, next_u32, next_uniform_int, number_width
from sordino.local.labels import Answers, Labels, check_labels, codes_of
from sordino.local.protocols.randomizer import ThresholdOracle
from sordino.local.reports import (
    Reports,
    Rows,
    SupportCounts,
    check_numbers,
    count_support,
    own_numbers,
    rows_of,
)
from sordino.local.thresholds import FULL, check_epsilon, floor_share, log_up


@dataclass(frozen=True, slots=True, init=False, repr=False)
class GRR(ThresholdOracle):
    """Randomise by generalised randomized response: keep the label with probability p, else any other one alike.

    Theorem: with T = floor(2^32 E / (E + k - 1)), E = exp(epsilon), p = T / 2^32 and q = (1 - p) / (k - 1), a report's
    probability under two labels differs by a factor p / q = T (k - 1) / (2^32 - T) <= E at most, so it is
    epsilon-differentially private in the local model. (c_v / n - q) / (p - q) is unbiased for the share of v.

    The rule from 32-bit words to the report, the same in every language: the first word u; if u < T, the label itself.
    Else words until one is under L = 2^32 - 2^32 mod (k - 1); its remainder r by k - 1 names the answer: r where r is
    below the label's number, r + 1 otherwise. The report is the label's number, little-endian in 1, 2 or 4 bytes (k <=
    256, 65,536, more).

    A missing answer needs a label of its own: list None among the labels.

    Raises DeclarationError for fewer than 2 labels, repeated ones, or epsilon not above 0.

    Paper: Warner 1965 (k = 2); Kairouz, Bonawitz, Ramage 2016, section 2; Wang, Blocki, Li, Jha 2017, section 4.1.

    >>> rr = GRR(["a", "b", "c"], epsilon=1)
    >>> rr.p > rr.q, rr.epsilon
    (True, 1.0)
    """

    threshold: int

    def __init__(self, labels: Labels, *, epsilon: Number) -> None:
        checked = check_labels(labels)
        claim = check_epsilon(epsilon)
        self._fill(checked, claim, threshold=floor_share(claim, len(checked) - 1))

    name = "GRR"
    kind = "grr"
    on_device = True
    number = 1

    def _odds(self, p: Fraction) -> tuple[Fraction, Fraction]:
        q = (1 - p) / (len(self.labels) - 1)
        return q, p / q

    @property
    def confusion(self) -> Fraction:
        """P(a report supports a given other label, and not the respondent's)."""
        return self.q

    @property
    def overlap(self) -> Fraction:
        """P(a report supports the respondent's label and a given other one): none does."""
        return Fraction(0)

    @property
    def width(self) -> int:
        """Bytes of one report."""
        return number_width(len(self.labels))

    def perturb(self, answers: Answers, rng: Rng) -> Reports:
        """Return a batch of reports, one an answer.

        Raises DeclarationError where an answer is none of the labels, or missing without a label for it.
        """
        return Reports.of(self, self.perturb_numbers(codes_of(answers, self.labels, missing=False), rng))

    def perturb_numbers(self, numbers: np.ndarray[Any, Any], rng: Rng) -> Rows:
        """Return a report for each number of a label, a row each."""
        reported = numbers.astype(np.uint32)
        keep_or_replace(reported, len(self.labels), self.threshold, rng)
        return rows_of(reported, self.width)

    def perturb_words(self, value: int | None, words: Iterable[int]) -> bytes:
        """Return the report of label number `value` made from 32-bit words, by the rule above.

        >>> GRR(["a", "b", "c"], epsilon=1).perturb_words(1, [0xFFFFFFFF, 5]).hex()
        '02'
        """
        if value is None or not 0 <= value < len(self.labels):
            raise DeclarationError(f"value must be the number of a label, 0 to {len(self.labels) - 1}")
        source = iter(words)
        if next_u32(source) >= self.threshold:
            other = next_uniform_int(len(self.labels) - 1, source)
            value = other if other < value else other + 1
        return value.to_bytes(self.width, "little")

    def check(self, rows: Rows) -> None:
        """Raise DeclarationError where a row names no label."""
        check_numbers(rows, len(self.labels), width=self.width, what="label")

    def count(self, reports: Reports) -> SupportCounts:
        """Return how many reports support each label."""
        return count_support(reports, np.bincount(own_numbers(reports, self), minlength=len(self.labels)))

    def inputs(self) -> Sequence[int | None]:
        """Return inputs that stand for every pair: labels are alike under every permutation."""
        return (*range(min(3, len(self.labels))),)

    def channel(self, value: int | None) -> Sequence[tuple[Fraction, ...]]:
        """Return the law of a report of label number `value`: one part, the probability of each label."""
        number = self._number(value)
        return [tuple(self.p if v == number else self.q for v in range(len(self.labels)))]


def fair_coins(labels: Labels = (False, True)) -> GRR:
    """Return Warner's question with two fair coins: heads, the truth; tails, a second coin answers. epsilon = ln 3.

    The truth is reported with probability 3/4 and its opposite with 1/4, so ln 3 is exact; 2 (yes / n - 1/4) is unbiased.

    Paper: Warner 1965; Dwork & Roth 2014, section 3.2.

    >>> fair_coins().epsilon
    1.0986122886681098
    """
    checked = check_labels(labels)
    if len(checked) != 2:
        raise DeclarationError(f"fair coins answer one of 2 labels, not {len(checked)}; GRR takes more")
    return GRR._make(checked, log_up(Fraction(3)), threshold=3 * FULL // 4)
