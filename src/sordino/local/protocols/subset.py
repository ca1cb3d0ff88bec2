"""Subset selection: a report is a set of labels of fixed size that holds the true one more often than chance.

It may not know collectors, tasks or devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb
from typing import Any

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.core.loss import Number, format_number
from sordino.core.noise.rng import Rng
from sordino.local.draws import bernoulli, bit_sums, bytes_for, uniform_int
from sordino.local.estimates.frequency import variance
from sordino.local.labels import Answers, Labels, check_labels, codes_of
from sordino.local.protocols.randomizer import ThresholdOracle
from sordino.local.reports import Reports, Rows, SupportCounts, check_padding, count_support, own
from sordino.local.thresholds import check_epsilon, exp_over, floor_share

# Cells of a table of members at a time.
_CHUNK = 1 << 22


def subset_size(k: int, epsilon: Fraction) -> int:
    """Return w, the better of floor and ceiling of k / (E + 1) by the variance of a rare label, at least 1.

    >>> subset_size(14, Fraction(1))
    4
    """
    near = k / (exp_over(epsilon) + 1)
    return min({max(1, int(near)), min(k - 1, int(near) + 1)}, key=lambda w: (_rare_variance(k, w, epsilon), w))


@dataclass(frozen=True, slots=True, init=False, repr=False)
class SubsetSelection(ThresholdOracle):
    """Randomise by subset selection: a uniform set of w labels that holds the true one with probability p.

    Theorem: with p = T / 2^32, T = floor(2^32 w E / (w E + k - w)), each of the C(k-1, w-1) sets with the label has
    probability p / C(k-1, w-1) and each of the C(k-1, w) others (1 - p) / C(k-1, w); their ratio is
    p (k - w) / ((1 - p) w) <= E. Another label is in the set with probability q = (p (w-1) + (1-p) w) / (k - 1), so
    (c_v / n - q) / (p - q) is unbiased. Its variance is the least or tied among the protocols here.

    The report is the set as packed bits, as in unary encoding. A missing answer needs a label of its own: list None.

    Raises DeclarationError for fewer than 2 labels, repeated ones, or epsilon not above 0.

    Paper: Ye & Barg 2018, section III; Wang et al. 2016 (k-subset mechanism).

    >>> SubsetSelection(range(14), epsilon=1).w
    4
    """

    w: int
    threshold: int

    def __init__(self, labels: Labels, *, epsilon: Number) -> None:
        checked = check_labels(labels)
        claim = check_epsilon(epsilon)
        w = subset_size(len(checked), claim)
        self._fill(checked, claim, w=w, threshold=floor_share(claim, Fraction(len(checked) - w, w)))

    name = "subset selection"
    kind = "subset"
    number = 5
    size_field = "w"

    @classmethod
    def _check_size(cls, value: object, k: int) -> int:
        if not isinstance(value, int) or not 1 <= value < k:
            raise DeclarationError("w must be a whole number from 1 to k - 1: the size of a report's set")
        return value

    def _odds(self, p: Fraction) -> tuple[Fraction, Fraction]:
        k = len(self.labels)
        w = self.w
        return (p * (w - 1) + (1 - p) * w) / (k - 1), p * (k - w) / ((1 - p) * w)

    @property
    def confusion(self) -> Fraction:
        """P(a report supports a given other label, and not the respondent's)."""
        return (1 - self.p) * self.w / (len(self.labels) - 1)

    @property
    def overlap(self) -> Fraction:
        """P(a report supports the respondent's label and a given other one)."""
        return self.p * (self.w - 1) / (len(self.labels) - 1)

    @property
    def bit_count(self) -> int:
        """Bits of one report: one a label."""
        return len(self.labels)

    @property
    def width(self) -> int:
        """Bytes of one report."""
        return bytes_for(len(self.labels))

    def perturb(self, answers: Answers, rng: Rng) -> Reports:
        """Return a batch of reports, one an answer.

        Raises DeclarationError where an answer is none of the labels, or missing without a label for it.
        """
        codes = codes_of(answers, self.labels, missing=False)
        out = np.empty((codes.size, self.width), dtype=np.uint8)
        step = max(1, _CHUNK // len(self.labels))
        for start in range(0, codes.size, step):
            members = self._members(codes[start : start + step], rng)
            out[start : start + step] = np.packbits(members, axis=1, bitorder="little")
        return Reports.of(self, out)

    def _members(self, codes: np.ndarray[Any, Any], rng: Rng) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return a table of members: the true label by its coin, others by Floyd's draw without replacement.

        Floyd: for j from (k - 1) - s to k - 2, a uniform t in [0, j] joins, or j itself where t is in already; every
        set of s of the k - 1 others has the same probability (Bentley & Floyd 1987). Where the true label is in, the
        first step of s = w is left out. Other number t stands for label t, or t + 1 from the true one on.
        """
        rows = np.arange(codes.size)
        k = len(self.labels)
        members = np.zeros((codes.size, k), dtype=np.bool_)
        own_in = bernoulli(self.threshold, codes.size, rng)
        members[rows, codes] = own_in
        for j in range(k - 1 - self.w, k - 1):
            who = np.flatnonzero(~own_in) if j == k - 1 - self.w else rows
            at = codes[who]
            other = uniform_int(j + 1, who.size, rng).astype(np.int64)
            label = other + (other >= at)
            last = j + (j >= at)
            members[who, np.where(members[who, label], last, label)] = True
        return members

    def check(self, rows: Rows) -> None:
        """Raise DeclarationError where a set is not of size w, or holds a label beyond the last."""
        check_padding(rows, len(self.labels))
        if rows.size and (np.bitwise_count(rows).sum(axis=1, dtype=np.int64) != self.w).any():
            raise DeclarationError(f"a report does not hold {self.w} labels, as every report of this protocol does")

    def count(self, reports: Reports) -> SupportCounts:
        """Return how many reports hold each label."""
        return count_support(reports, bit_sums(own(reports, self), len(self.labels)))

    def inputs(self) -> Sequence[int | None]:
        """Return inputs that stand for every pair: labels are alike under every permutation."""
        return (0, 1)

    def channel(self, value: int | None) -> Sequence[tuple[Fraction, ...]]:
        """Return the law of a report of label number `value`, seen by label 0 or 1 and another: the probability of a set
        that holds (both, label 0 only, label 1 only, neither) of labels 0 and 1.

        Labels beyond the two that are compared are alike under every permutation, so a set's probability depends on
        these four cases only. Label 1 stands for any `value` other than 0.
        """
        k = len(self.labels)
        w = self.w
        with_label = self.p / comb(k - 1, w - 1)
        without_label = (1 - self.p) / comb(k - 1, w)
        own_only, other_only = (with_label, without_label) if self._number(value) == 0 else (without_label, with_label)
        return [(with_label, own_only, other_only, without_label)]

    def __repr__(self) -> str:
        return f"<subset selection of {self.w} of {len(self.labels)} labels, epsilon {format_number(self.claim)}>"


def _rare_variance(k: int, w: int, epsilon: Fraction) -> float:
    grown = w * exp_over(epsilon)
    p = grown / (grown + k - w)
    q = (p * (w - 1) + (1 - p) * w) / (k - 1)
    return variance(p, q, share=0.0, n=1) if p > q else float("inf")
