"""Hadamard response: one random row of a Hadamard matrix and one noisy bit; small reports, a fast transform to count.

It may not know collectors, tasks or devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sordino.core.loss import Number
from sordino.core.noise.rng import Rng
from sordino.local.draws import bernoulli, number_width
from sordino.local.labels import Answers, Labels, check_labels, codes_of
from sordino.local.protocols.randomizer import ThresholdOracle
from sordino.local.reports import (
    Reports,
    Rows,
    SupportCounts,
    check_numbers,
    count_support,
    numbers_of,
    own_numbers,
    rows_of,
)
from sordino.local.thresholds import check_epsilon, floor_share


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Hadamard(ThresholdOracle):
    """Randomise by Hadamard response for high privacy: a row of the matrix, and its entry at the label with a noisy sign.

    With K the least power of two at or above k, a report is (j, b): j uniform in [0, K) and b the parity of j AND v,
    flipped with probability 1 - p. It supports every label u whose parity with j is b.

    Theorem: j does not depend on the label and b is a coin of p = T / 2^32, T = floor(2^32 E / (E + 1)), so a report's
    probability differs by a factor p / (1 - p) <= E at most. For u != v the parities agree for exactly half of all j,
    so q = 1/2 exactly and the estimate is unbiased. A missing answer sends a fair b, which supports every label alike.

    The report is 2 j + b, little-endian in 1, 2 or 4 bytes.

    Raises DeclarationError for fewer than 2 labels, repeated ones, or epsilon not above 0.

    Paper: Acharya, Sun, Zhang 2019, section 4; the same as binary local hashing of Bassily & Smith 2015.

    >>> Hadamard(["a", "b", "c"], epsilon=1).q
    Fraction(1, 2)
    """

    threshold: int

    def __init__(self, labels: Labels, *, epsilon: Number) -> None:
        claim = check_epsilon(epsilon)
        self._fill(check_labels(labels), claim, threshold=floor_share(claim, 1))

    name = "Hadamard"
    kind = "hadamard"
    number = 4

    def _odds(self, p: Fraction) -> tuple[Fraction, Fraction]:
        return Fraction(1, 2), p / (1 - p)

    @property
    def size(self) -> int:
        """K, the order of the matrix."""
        return 1 << (len(self.labels) - 1).bit_length()

    @property
    def width(self) -> int:
        """Bytes of one report."""
        return number_width(2 * self.size)

    def perturb(self, answers: Answers, rng: Rng) -> Reports:
        """Return a batch of reports, one an answer; raises DeclarationError where an answer is none of the labels."""
        codes = codes_of(answers, self.labels, missing=True)
        row = rng.words(codes.size, np.uint32) & np.uint32(self.size - 1)
        bit = np.bitwise_count(row & codes.view(np.uint32)) & np.uint8(1)
        bit ^= ~bernoulli(self.threshold, codes.size, rng)
        absent = np.flatnonzero(codes < 0)
        if absent.size:
            bit[absent] = rng.words(absent.size, np.uint8) & np.uint8(1)
        return Reports.of(self, rows_of(row << np.uint32(1) | bit, self.width))

    @property
    def public_values(self) -> int:
        """How many values the part of a report has that does not depend on the answer."""
        return self.size

    def public_part(self, rows: Rows) -> np.ndarray[Any, Any]:
        """Return the part of each report that does not depend on the answer: uniform for honest respondents."""
        return numbers_of(rows, self.width).astype(np.uint64) >> np.uint64(1)

    def check(self, rows: Rows) -> None:
        """Raise DeclarationError where a row of the matrix does not exist."""
        check_numbers(rows, 2 * self.size, width=self.width, what="row and bit of the matrix")

    def count(self, reports: Reports) -> SupportCounts:
        """Return how many reports support each label, by one Walsh-Hadamard transform."""
        pairs = np.bincount(own_numbers(reports, self), minlength=2 * self.size).reshape(-1, 2)
        signed = walsh_hadamard(pairs[:, 0] - pairs[:, 1])
        return count_support(reports, (len(reports) + signed[: len(self.labels)]) // 2)

    def inputs(self) -> Sequence[int | None]:
        """Return inputs that stand for every pair: all pairs of columns agree in half of the rows."""
        return (*range(min(len(self.labels), 4)), len(self.labels) - 1, None)

    def channel(self, value: int | None) -> Sequence[tuple[Fraction, ...]]:
        """Return the law of a report of label number `value`: one part, the probability of each (j, b), b fastest."""
        law: list[Fraction] = []
        for j in range(self.size):
            true = Fraction(1, 2) if value is None else 1 - self.p if (j & value).bit_count() % 2 else self.p
            law += [true / self.size, (1 - true) / self.size]
        return [tuple(law)]


def walsh_hadamard(values: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the Walsh-Hadamard transform of whole numbers: at v, the sum over j of values[j] (-1)^parity(j AND v).

    >>> walsh_hadamard(np.array([1, 2, 0, 0])).tolist()
    [3, -1, 3, -1]
    """
    out = values.astype(np.int64)
    half = 1
    while half < out.size:
        pairs = out.reshape(-1, 2, half)
        out = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(-1)
        half *= 2
    return out
