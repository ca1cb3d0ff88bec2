"""Local hashing: each respondent draws a hash function onto few values and randomises the hash of the label.

It may not know collectors, tasks or devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.core.loss import Number, format_number
from sordino.core.noise.rng import Rng
from sordino.local.draws import keep_or_replace, next_u32, next_uniform_int, uniform_int
from sordino.local.estimates.frequency import variance
from sordino.local.labels import Answers, Labels, check_labels, codes_of
from sordino.local.protocols.randomizer import ThresholdOracle
from sordino.local.reports import Reports, Rows, SupportCounts, count_support, own
from sordino.local.thresholds import FULL, check_epsilon, exp_over, floor_share

Codes = np.ndarray[Any, np.dtype[np.uint64]]

# Reports are numbers below this one.
_ROOM = 1 << 63
# Cells of a table to count by.
_TABLE = 1 << 23
_ROOMY = 1 << 24
_LARGEST = 1 << 20
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True, init=False, repr=False)
class OLH(ThresholdOracle):
    """Randomise by optimised local hashing: a random hash function onto g values, and its value at the label, randomised.

    The functions are linear: label number v is written in m digits v_i of base f, the least prime factor of g, and
    h_a(v) = a_1 v_1 + ... + a_m v_m modulo g with a uniform in {0 .. g - 1}^m. A report is (a, y), y = h_a(v) with
    probability p and any other value alike. It supports each u with h_a(u) = y.

    Theorem: a does not depend on the label, and y is generalised randomized response with p = T / 2^32,
    T = floor(2^32 E / (E + g - 1)), so a report's probability differs by a factor p (g - 1) / (1 - p) <= E at most.
    For u != v some u_i - v_i is not 0 and smaller than f, hence has an inverse modulo g, so h_a(u) - h_a(v) is uniform:
    two labels collide with probability 1 / g exactly, q = 1 / g, and the estimate is unbiased, without an assumption
    about a hash. A missing answer sends a uniform y, which supports every label alike.

    g = round(E) + 1, the least variance; where that has so small a factor that no table of 2^24 cells holds a report, the
    better of the two primes next to it: 3% more variance at most, for shorter reports that are counted much faster.
    The report is ((y g + a_1) g + ...) g + a_m, little-endian in as few bytes as hold all.

    Counting is a transform over the digits, on whole numbers: about n + g^(m + 1) steps instead of n k.

    Raises DeclarationError for fewer than 2 labels, repeated ones, or epsilon not above 0.

    Paper: Wang, Blocki, Li, Jha 2017, section 4.5; Carter & Wegman 1979 for the hash family.

    >>> OLH(["a", "b", "c"], epsilon=1).g
    4
    """

    g: int
    threshold: int

    def __init__(self, labels: Labels, *, epsilon: Number) -> None:
        checked = check_labels(labels)
        claim = check_epsilon(epsilon)
        g = _best_size(exp_over(min(claim, Fraction(20))), len(checked))
        self._fill(checked, claim, g=g, threshold=floor_share(claim, g - 1))

    kind = "olh"
    number = 3
    size_field = "g"

    @classmethod
    def _check_size(cls, value: object, k: int) -> int:
        if not isinstance(value, int) or not 2 <= value <= _LARGEST or value ** (_digits(k, value) + 1) > _ROOM:
            raise DeclarationError("g must be a whole number from 2 on, so small that 63 bits hold a report")
        return value

    def _odds(self, p: Fraction) -> tuple[Fraction, Fraction]:
        return Fraction(1, self.g), p * (self.g - 1) / (1 - p)

    @property
    def name(self) -> str:
        """BLH where a label is hashed onto one bit, else OLH."""
        return "BLH" if self.g == 2 else "OLH"

    @property
    def digits(self) -> int:
        """m, how many digits a label has."""
        return _digits(len(self.labels), self.g)

    @property
    def width(self) -> int:
        """Bytes of one report."""
        largest: int = self.g ** (self.digits + 1) - 1
        return -(-largest.bit_length() // 8)

    def perturb(self, answers: Answers, rng: Rng) -> Reports:
        """Return a batch of reports, one an answer; raises DeclarationError where an answer is none of the labels."""
        codes = codes_of(answers, self.labels, missing=True)
        out = np.empty((codes.size, self.width), dtype=np.uint8)
        for start in range(0, codes.size, _CHUNK):
            some = codes[start : start + _CHUNK]
            whole = self._reports(some, rng).astype("<u8").view(np.uint8).reshape(-1, 8)
            out[start : start + _CHUNK] = whole[:, : self.width]
        return Reports.of(self, out)

    def _reports(self, codes: np.ndarray[Any, Any], rng: Rng) -> Codes:
        g = self.g
        base = _least_factor(self.g)
        rest = np.maximum(codes, 0).astype(np.uint32)
        narrow: Any = np.uint32 if g ** (self.digits + 1) <= FULL else np.uint64
        number: np.ndarray[Any, Any] = np.zeros(codes.size, dtype=narrow)
        hashed = np.zeros(codes.size, dtype=np.uint32)
        for _ in range(self.digits):
            factor = uniform_int(g, codes.size, rng)
            number *= narrow(g)
            number += factor
            if base == 2:
                factor *= rest & np.uint32(1)
                rest >>= np.uint32(1)
            else:
                factor *= rest % np.uint32(base)
                rest //= np.uint32(base)
            hashed += factor
        hashed = hashed & np.uint32(g - 1) if g & (g - 1) == 0 else hashed % np.uint32(g)
        keep_or_replace(hashed, g, self.threshold, rng)
        absent = np.flatnonzero(codes < 0)
        hashed[absent] = uniform_int(g, absent.size, rng)
        reports: Codes = (number + hashed.astype(narrow) * narrow(g**self.digits)).astype(np.uint64)
        return reports

    def perturb_words(self, value: int | None, words: Iterable[int]) -> bytes:
        """Return the report of label number `value` (None: missing) from 32-bit words, the same in every language.

        For each digit of the label, the least first, a_i is the next number uniform in 0 .. g - 1 (words from 2^32 - 2^32
        mod g on are passed over); then y is the hash where the next word is below T, else one of the g - 1 others, uniform.
        A missing answer sends a uniform y.

        >>> BLH(["a", "b", "c"], epsilon=1).perturb_words(2, [1, 1, 0]).hex()
        '07'
        """
        if value is not None and not 0 <= value < len(self.labels):
            raise DeclarationError(f"value must be the number of a label, 0 to {len(self.labels) - 1}, or None")
        source = iter(words)
        base = _least_factor(self.g)
        number = 0
        hashed = 0
        rest = value or 0
        for _ in range(self.digits):
            rest, digit = divmod(rest, base)
            factor = next_uniform_int(self.g, source)
            number = number * self.g + factor
            hashed = hashed + factor * digit
        hashed %= self.g
        if value is None:
            hashed = next_uniform_int(self.g, source)
        elif next_u32(source) >= self.threshold:
            other = next_uniform_int(self.g - 1, source)
            hashed = other if other < hashed else other + 1
        return (hashed * self.public_values + number).to_bytes(self.width, "little")

    @property
    def public_values(self) -> int:
        """How many values the part of a report has that does not depend on the answer."""
        return int(self.g**self.digits)

    def public_part(self, rows: Rows) -> Codes:
        """Return the part of each report that does not depend on the answer: uniform for honest respondents."""
        return _wide(rows) % np.uint64(self.public_values)

    def check(self, rows: Rows) -> None:
        """Raise DeclarationError where a row is a number that no report has."""
        if rows.size and int(_wide(rows).max()) >= self.g ** (self.digits + 1):
            raise DeclarationError("a report holds a number beyond the last hash function")

    def count(self, reports: Reports) -> SupportCounts:
        """Return how many reports support each label, by a transform over the digits."""
        numbers = _wide(own(reports, self))
        return count_support(reports, hash_supports(numbers, len(self.labels), g=self.g, m=self.digits))

    def inputs(self) -> Sequence[int | None]:
        """Return inputs that stand for every pair: some hash function distinguishes any two labels like 0 and 1."""
        return (0, 1, None)

    def channel(self, value: int | None) -> Sequence[tuple[Fraction, ...]]:
        """Return the law of a report of label number `value`, given the hash function: the probability of each y.

        The function is public and uniform for every label; the part is that of the function which gives label v the
        hash v mod g, as some function does for any two labels.
        """
        if value is None:
            return [(Fraction(1, self.g),) * self.g]
        other = (1 - self.p) / (self.g - 1)
        return [tuple(self.p if y == value % self.g else other for y in range(self.g))]

    def __repr__(self) -> str:
        return f"<OLH of {len(self.labels)} labels, g = {self.g}, epsilon {format_number(self.claim)}>"


def BLH(labels: Labels, *, epsilon: Number) -> OLH:
    """Return binary local hashing: a random hash function onto one bit, which is kept with probability E / (E + 1).

    p = E / (E + 1), q = 1/2: the variance of a rare label's share is ((E + 1) / (E - 1))^2 / n, that of Hadamard response.
    OLH hashes onto more values and has less variance, but for small epsilon, where it is this.

    Paper: Bassily & Smith 2015; Wang, Blocki, Li, Jha 2017, section 4.4 (BLH).

    >>> made = BLH(["a", "b", "c"], epsilon=1)
    >>> made.name, made.q
    ('BLH', Fraction(1, 2))
    """
    checked = check_labels(labels)
    claim = check_epsilon(epsilon)
    return OLH._make(checked, claim, g=2, threshold=floor_share(claim, 1))


def _best_size(grown: float, k: int) -> int:
    """Return g for e^epsilon: the whole number of least variance, or the better prime next to it."""
    near = min(round(grown) + 1, _LARGEST)
    if _least_factor(near) == near or near ** (_digits(k, near) + 1) <= _ROOMY:
        return near
    primes = [next(c for c in way if _least_factor(c) == c) for way in (range(near, 1, -1), range(near, 2 * near))]
    fitting = [g for g in primes if g <= _LARGEST]
    return min(fitting, key=lambda g: variance(grown / (grown + g - 1), 1 / g, share=0.0, n=1))


def hash_supports(numbers: Codes, k: int, *, g: int, m: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return, for each of k labels, how many reports (y, a) have a . digits = y modulo g.

    The upper digits are set by enumeration, each setting moving y by what they add; the lower `low` of them by summing the
    table of (y, a) over one a_i after the other: with digit d, y becomes y - a_i d. Digits come least first. Where g is so
    large that no table holds two of its digits, the least digit is found by a division modulo g, which is prime then.
    """
    base = _least_factor(g)
    n = numbers.size
    if g * g > _TABLE:
        return _divide(numbers, k, g=g, m=m)

    def cost(low: int) -> float:
        settings = -(-k // base**low)
        loops = sum(min(base, -(-k // base ** (i - 1))) * g * 8000 for i in range(2, low + 1))
        cells = sum(4 * base ** (low - i + 1) * g ** (i + 1) for i in range(2, low + 1)) + 2 * g ** (low + 1)
        return float(settings * (12 * n * (m - low + 1) + loops + cells))

    low = min((i for i in range(1, m + 1) if g ** (i + 1) <= _TABLE), key=cost)
    upper = _factors(numbers % np.uint64(g ** (m - low)), g=g, m=m - low)
    rest = numbers // np.uint64(g ** (m - low))
    tail = (rest % np.uint64(g**low)).astype(np.int64)
    hashed = (rest // np.uint64(g**low)).astype(np.int64)
    block = base**low
    out = np.zeros(-(-k // block) * block, dtype=np.int64)
    for setting, first in enumerate(range(0, k, block)):
        moved = (hashed - _hash(upper, setting, base)) % g
        table = np.bincount(moved * g**low + tail, minlength=g ** (low + 1))
        sums = _sum(table, g=g, m=low, base=base, k=min(block, k - first))
        out[first : first + sums.size] = sums
    return out[:k]


def _divide(numbers: Codes, k: int, *, g: int, m: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the same for a prime g: with the upper digits set, one least digit solves a_1 d = y, or all do, or none."""
    factors = _factors(numbers, g=g, m=m)
    hashed = (numbers // np.uint64(g**m)).astype(np.int64)
    first = factors[0]
    inverse = _inverses(first, g)
    out = np.zeros(-(-k // g) * g, dtype=np.int64)
    for setting in range(-(-k // g)):
        moved = (hashed - _hash(factors[1:], setting, g)) % g
        some = np.bincount(moved * inverse % g, weights=first > 0, minlength=g).astype(np.int64)
        out[setting * g : (setting + 1) * g] = some + int(((first == 0) & (moved == 0)).sum())
    return out[:k]


def _inverses(numbers: np.ndarray[Any, Any], g: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the inverses modulo a prime, 0 for 0: n^(g - 2) by squaring (Fermat)."""
    result = np.ones_like(numbers)
    square = numbers.copy()
    power = g - 2
    while power:
        if power & 1:
            result = result * square % g
        square = square * square % g
        power = power >> 1
    return result


def _factors(numbers: Codes, *, g: int, m: int) -> list[np.ndarray[Any, Any]]:
    """Return the last m digits of numbers in base g, the first of them first."""
    return [(numbers // np.uint64(g ** (m - 1 - i)) % np.uint64(g)).astype(np.int64) for i in range(m)]


def _hash(factors: list[np.ndarray[Any, Any]], label: int, base: int) -> Any:
    """Return the sum of factors times the digits of a label."""
    total: Any = np.int64(0)
    for factor in factors:
        label, digit = divmod(label, base)
        if digit:
            total = total + digit * factor
    return total


def _sum(table: np.ndarray[Any, Any], *, g: int, m: int, base: int, k: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the counts at y = 0 of the first settings of m digits, k or some more, the first digit fastest."""
    # The axes: setting, y, the earlier a, the last a.
    parts = table.reshape(1, g, -1, g)
    for i in range(m, 1, -1):
        settings = parts.shape[0]
        digits = base if settings > 1 else min(base, -(-k // base ** (i - 1)))
        summed = np.zeros((settings, digits, g, parts.shape[2]), dtype=np.int64)
        columns = [np.ascontiguousarray(parts[:, :, :, a]) for a in range(g)]
        for digit in range(digits):
            for a, column in enumerate(columns):
                turn = a * digit % g
                summed[:, digit, : g - turn] += column[:, turn:]
                summed[:, digit, g - turn :] += column[:, :turn]
        parts = summed.reshape(settings * digits, g, -1, g)
    every = np.arange(g)[None, :]
    digits_ = np.arange(base)[:, None]
    counts: np.ndarray[Any, np.dtype[np.int64]] = parts[:, every * digits_ % g, 0, every].sum(axis=-1).reshape(-1)
    return counts


def _wide(rows: Rows) -> Codes:
    """Return little-endian rows as 64-bit numbers."""
    padded = np.zeros((len(rows), 8), dtype=np.uint8)
    padded[:, : rows.shape[1]] = rows
    return padded.view("<u8").reshape(-1)


def _digits(k: int, g: int) -> int:
    """Return how many digits of base f, the least prime factor of g, distinguish k labels."""
    base = _least_factor(g)
    digits = 0
    room = 1
    while room < k:
        room = room * base
        digits = digits + 1
    return digits


def _least_factor(g: int) -> int:
    return next((c for c in range(2, int(g**0.5) + 1) if g % c == 0), g)
