"""Projective-geometry response: a report is one point, which lies on the label's own hyperplane more often than chance.

It may not know collectors, tasks or devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sordino.errors import DeclarationError
from sordino.local.draws import bernoulli, next_u32, next_uniform_int, number_width, uniform_int
from sordino.local.estimates.frequency import variance
from sordino.local.labels import Answers, Labels, check_labels, codes_of
from sordino.local.protocols.finite_field import FiniteField, finite_field, is_prime_power
from sordino.local.protocols.randomizer import ThresholdOracle
from sordino.local.reports import Reports, Rows, SupportCounts, check_numbers, count_support, own_numbers, rows_of
from sordino.local.thresholds import check_epsilon, exp_over, floor_share
from sordino.loss import Number, format_number
from sordino.noise.rng import Rng

__all__ = ["ProjectiveResponse", "projective_order"]

_LARGEST = 512  # of an order: its tables have so many rows and columns
_CELLS = 1 << 22  # of the table that counts
_CHUNK = 1 << 14


@dataclass(frozen=True, slots=True, init=False, repr=False)
class ProjectiveResponse(ThresholdOracle):
    """Randomise by projective-geometry response: a point of a finite projective space, on the label's hyperplane with p.

    Labels are points of the space of t coordinates over the field of `order` elements, f: vectors up to a factor, K =
    (f^t - 1) / (f - 1) of them. A report is a point u; it supports every label v with <u, v> = 0, which are c =
    (f^(t-1) - 1) / (f - 1) points, and any two labels share d = (f^(t-2) - 1) / (f - 1) of theirs.

    Theorem: with p = T / 2^32, T = floor(2^32 c E / (c E + K - c)), each of the c points of the label's hyperplane has
    probability p / c and each of the K - c others (1 - p) / (K - c); their ratio is p (K - c) / ((1 - p) c) <= E. Another
    label is supported with q = p d / c + (1 - p) (c - d) / (K - c), so (c_v / n - q) / (p - q) is unbiased. Near f = E + 1
    the variance is that of subset selection to within a percent; `order` is the prime power of least variance. A report
    is a number below K, in 1, 2 or 4 bytes, where a subset takes a bit a label.

    From words: u < T by the first says whether the point lies on the hyperplane; then a uniform number r, in [1, f^(t-1))
    where it does and [0, f^(t-1)) where not, has the coordinates other than the label's leading one as its digits, and
    the leading one is what makes <u, v> 0, or 1. A missing answer needs a label of its own: list None.

    Raises DeclarationError for fewer than 2 labels, repeated ones, or epsilon not above 0.

    Paper: Feldman, Nelson, Nguyen, Talwar 2022, Private frequency estimation via projective geometry, section 3.

    >>> ProjectiveResponse(range(1024), epsilon=1).width
    2
    """

    order: int
    threshold: int

    def __init__(self, labels: Labels, *, epsilon: Number) -> None:
        kept, claim = check_labels(labels), check_epsilon(epsilon)
        order = projective_order(len(kept), claim)
        points, own, _ = _sizes(order, _coordinates(len(kept), order))
        self._fill(kept, claim, order=order, threshold=floor_share(claim, Fraction(points - own, own)))

    name = "projective geometry"
    kind = "projective"
    size_field = "order"

    @classmethod
    def _check_size(cls, value: object, k: int) -> int:
        if not isinstance(value, int) or not is_prime_power(value) or not _is_countable(value, k):
            raise DeclarationError(
                "order must be a prime power from 2 to 512 whose table of counts has 2^22 cells at most"
            )
        return value

    def _odds(self, p: Fraction) -> tuple[Fraction, Fraction]:
        points, own, shared = _sizes(self.order, self.coordinates)
        q = p * shared / own + (1 - p) * (own - shared) / (points - own)
        return q, p * (points - own) / ((1 - p) * own)

    @property
    def overlap(self) -> Fraction:
        """P(a report supports the respondent's label and any one other)."""
        _, own, shared = _sizes(self.order, self.coordinates)
        return self.p * shared / own

    @property
    def coordinates(self) -> int:
        """t, how many coordinates a point has."""
        return _coordinates(len(self.labels), self.order)

    @property
    def points(self) -> int:
        """K, how many different reports there are."""
        return _sizes(self.order, self.coordinates)[0]

    @property
    def width(self) -> int:
        """Bytes of one report."""
        return number_width(self.points)

    def perturb(self, answers: Answers, rng: Rng) -> Reports:
        """Return a batch of reports, one an answer.

        Raises DeclarationError where an answer is none of the labels, or missing without a label for it.
        """
        codes = codes_of(answers, self.labels, missing=False)
        inside = bernoulli(self.threshold, codes.size, rng)
        free = np.empty(codes.size, dtype=np.int64)
        room = self.order ** (self.coordinates - 1)
        free[inside] = uniform_int(room - 1, int(inside.sum()), rng).astype(np.int64) + 1
        free[~inside] = uniform_int(room, int((~inside).sum()), rng)
        vectors = _vectors(np.arange(len(self.labels)), self.order, self.coordinates)
        found = np.empty(codes.size, dtype=np.int64)
        for start in range(0, codes.size, _CHUNK):
            some = slice(start, start + _CHUNK)
            found[some] = self._point(vectors[codes[some]], inside[some], free[some])
        return Reports.of(self, rows_of(found, self.width))

    def perturb_words(self, value: int, words: Iterable[int]) -> bytes:
        """Return the report of label number `value` made from 32-bit words, by the rule above.

        >>> ProjectiveResponse(range(13), epsilon=1).perturb_words(0, [0, 4]).hex()
        '0b'
        """
        if not 0 <= value < len(self.labels):
            raise DeclarationError(f"value must be the number of a label, 0 to {len(self.labels) - 1}")
        drawn, room = iter(words), self.order ** (self.coordinates - 1)
        inside = next_u32(drawn) < self.threshold
        free = 1 + next_uniform_int(room - 1, drawn) if inside else next_uniform_int(room, drawn)
        label = _vectors(np.array([value]), self.order, self.coordinates)
        return int(self._point(label, np.array([inside]), np.array([free]))[0]).to_bytes(self.width, "little")

    def _point(self, labels: np.ndarray[Any, Any], inside: np.ndarray[Any, Any], free: np.ndarray[Any, Any]) -> Any:
        """Return the numbers of the points that these free coordinates make, on the labels' hyperplanes or off them."""
        field, t = finite_field(self.order), self.coordinates
        lead = (labels != 0).argmax(axis=1)
        digits = free[:, None] // self.order ** np.arange(t - 1)[None, :] % self.order
        place = np.arange(t)[None, :]
        taken = np.take_along_axis(digits, np.minimum(place - (place > lead[:, None]), t - 2), axis=1)
        point = np.where(place == lead[:, None], 0, taken)
        rest = field.dot(point, labels)
        rows = np.arange(len(point))
        point[rows, lead] = field.add[np.where(inside, 0, 1), field.negative[rest]]
        return _numbers(field, point)

    def check(self, rows: Rows) -> None:
        """Raise DeclarationError where a row names no point."""
        check_numbers(rows, self.points, width=self.width, what="point")

    def count(self, reports: Reports) -> SupportCounts:
        """Return how many reports support each label: one transform over the points, not n k steps."""
        found = np.bincount(own_numbers(reports, self), minlength=self.points)
        return count_support(reports, self._incidences(found)[: len(self.labels)])

    def _incidences(self, found: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return for each point v how many of the points found have <u, v> = 0.

        With w(u) the number of reports on the line of u != 0, the sum over u of w(u) chi(<u, v>) is f C(v) - n for every
        character chi: all multiples of u sum to f - 1 where <u, v> = 0 and to -1 elsewhere. It is one Fourier transform
        over coordinates modulo p; a whole number, so rounding floats (some 1e-15 n) off gives it exactly.
        """
        field, f, t = finite_field(self.order), self.order, self.coordinates
        points = _vectors(np.arange(self.points), f, t)
        whole = np.zeros(f**t)
        for factor in range(1, f):
            whole[_codes(field.product[points, factor], f)] = found
        p, e = field.characteristic, field.degree
        sums = np.fft.fftn(whole.reshape((p,) * (e * t))).real.reshape(-1)[_codes(field.dual[points], f)]
        counts: np.ndarray[Any, np.dtype[np.int64]] = (np.rint(sums).astype(np.int64) + int(found.sum())) // f
        return counts

    def inputs(self) -> Sequence[int | None]:
        """Return inputs that stand for every pair: linear maps take any two points to any two others."""
        return (0, 1)

    def channel(self, value: int | None) -> Sequence[tuple[Fraction, ...]]:
        """Return the law of a report of label number `value`: the probability of each point."""
        points, own, _ = _sizes(self.order, self.coordinates)
        vectors = _vectors(np.arange(points), self.order, self.coordinates)
        on = finite_field(self.order).dot(vectors, vectors[[self._number(value)]]) == 0
        inner, outer = self.p / own, (1 - self.p) / (points - own)
        return [tuple(inner if here else outer for here in on.tolist())]

    def __repr__(self) -> str:
        space = f"{self.points} points of order {self.order}"
        return f"<projective geometry of {len(self.labels)} labels, {space}, epsilon {format_number(self.claim)}>"


def projective_order(k: int, epsilon: Fraction) -> int:
    """Return the order of least variance of a rare label among k, of those whose reports can be counted.

    >>> [projective_order(1024, Fraction(e)) for e in (1, 2, 3)]
    [4, 8, 23]
    """
    grown = exp_over(min(epsilon, Fraction(20)))
    orders = (f for f in range(2, _LARGEST + 1) if is_prime_power(f) and _is_countable(f, k))
    return min(orders, key=lambda f: (_rare_variance(f, k, grown), f))


def _rare_variance(order: int, k: int, grown: float) -> float:
    points, own, shared = _sizes(order, _coordinates(k, order))
    p = grown * own / (grown * own + points - own)
    q = p * shared / own + (1 - p) * (own - shared) / (points - own)
    return variance(p, q, share=0.0, n=1) if p > q else float("inf")


def _is_countable(order: int, k: int) -> bool:
    return order <= _LARGEST and order ** _coordinates(k, order) <= _CELLS


def _coordinates(k: int, order: int) -> int:
    t = 2
    while _sizes(order, t)[0] < k:
        t += 1
    return t


def _sizes(order: int, t: int) -> tuple[int, int, int]:
    """Return how many points there are, lie on one hyperplane, and on two."""
    every, one, two = ((order ** (t - i) - 1) // (order - 1) for i in range(3))
    return every, one, two


def _vectors(numbers: np.ndarray[Any, Any], order: int, t: int) -> np.ndarray[Any, Any]:
    """Return points by their numbers: first those that begin with 1, then with 0 1, and so on, each in order of the rest."""
    rest = numbers.copy()
    out = np.zeros((numbers.size, t), dtype=np.int64)
    left = np.ones(numbers.size, dtype=np.bool_)
    for lead in range(t):
        room = order ** (t - 1 - lead)
        here = np.flatnonzero(left & (rest < room))
        out[here, lead] = 1
        for place in range(lead + 1, t):
            out[here, place] = rest[here] // order ** (t - 1 - place) % order
        left[here] = False
        rest = np.where(left, rest - room, rest)
    return out


def _codes(vectors: np.ndarray[Any, Any], order: int) -> Any:
    """Return vectors read as numbers, their last coordinate fastest."""
    return vectors @ order ** np.arange(vectors.shape[1] - 1, -1, -1)


def _numbers(field: FiniteField, vectors: np.ndarray[Any, Any]) -> Any:
    """Return the numbers of the points that these vectors, not 0, lie on."""
    f, t = field.order, vectors.shape[1]
    lead = (vectors != 0).argmax(axis=1)
    scale = field.inverse[vectors[np.arange(len(vectors)), lead]]
    points = field.product[vectors, scale[:, None]]
    before = np.array([sum(f ** (t - 1 - i) for i in range(j)) for j in range(t)])
    return _codes(points, f) - f ** (t - 1 - lead) + before[lead]
