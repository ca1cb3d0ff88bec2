"""Heavy hitters of an open domain: each device reports one prefix of its text, hashed and randomised, by a group at random.

It may not know collectors, tasks or devices; `estimates.prefix_tree` finds the frequent texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.core.loss import Number, format_number, to_fraction
from sordino.core.noise.rng import Rng
from sordino.local.draws import keep_or_replace, next_u32, next_uniform_int, uniform_int
from sordino.local.estimates.frequency import variance
from sordino.local.estimates.prefix_tree import CANDIDATES, HeavyHittersEstimate, find_heavy_hitters
from sordino.local.labels import Label, Labels, Texts, check_labels, labels_hash
from sordino.local.protocols.randomizer import LocalProtocol
from sordino.local.reports import Parameters, Reports, Rows, SupportCounts, count_support, own
from sordino.local.thresholds import BITS, FULL, check_epsilon, check_threshold, exp_over, floor_share, log_up

# At most 2 to this power prefixes are compared in one group.
_WIDE = 21
# The largest size of a hash: it fits a byte.
_LARGEST = 251
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True, init=False, repr=False)
class HeavyHitters(LocalProtocol):
    """Randomise a text of up to `length` of the `labels`, which are characters, so that frequent ones can be found.

    A text is a number, its digits in base g; group i asks for the first l_i digits. A device draws its group uniformly,
    and a hash function h_a(v) = a_1 v_1 + ... + a_l v_l modulo g with a uniform, g prime, and reports (group, a, y): y =
    h_a(prefix) with probability p, any other value alike. Every device reports once, in one group.

    Theorem: group and a do not depend on the text, and y is generalised randomized response with p = T / 2^32, T =
    floor(2^32 E / (E + g - 1)), so a report's probability differs by a factor p (g - 1) / (1 - p) <= E at most. Two
    prefixes differ in some digit, which is invertible modulo g, so they collide with probability 1 / g exactly: within a
    group, (c / n - 1/g) / (p - 1/g) is unbiased for the share of a prefix. A text that does not fit (too long, or with
    other characters), an empty one and None send a uniform y: they count in n and support nothing.

    `levels` are the l_i. The last two are equal: the last group only confirms texts that the others found, so that no
    interval is of the reports that picked its text. Few wide steps find more than many narrow ones (`bench/local.py
    --hitters`: PEM beside TreeHist, which steps by a character): the default takes steps of up to 2^21 prefixes at once.

    Raises DeclarationError for labels that are not single characters, texts beyond 256 bits, or epsilon not above 0.

    Papers: Wang, Li, Jha 2021, Locally differentially private heavy hitter identification (PEM); Bassily, Nissim,
    Stemmer, Thakurta 2017, Practical locally private heavy hitters (TreeHist).

    >>> words = HeavyHitters("abcdefghijklmnopqrstuvwxyz", length=10, epsilon=1)
    >>> words.levels, words.width
    ((13, 22, 30, 30), 8)
    """

    labels: tuple[Label, ...]
    length: int
    claim: Fraction
    g: int
    threshold: int
    levels: tuple[int, ...]

    kind = "heavy_hitters"
    number = 11
    name = "heavy hitters"

    def __init__(
        self, alphabet: Labels | str, *, length: int, epsilon: Number, levels: Sequence[int] | None = None
    ) -> None:
        labels = check_labels(tuple(alphabet) if isinstance(alphabet, str) else alphabet)
        claim = check_epsilon(epsilon)
        texts = Texts.declare(labels, length)
        g = _best_hash(claim, texts)
        steps = _even_levels(g, texts.count_digits(g)) if levels is None else tuple(levels)
        self._fill(labels, length, claim, g=g, threshold=floor_share(claim, g - 1), levels=steps)

    @classmethod
    def from_parameters(cls, parameters: Parameters, labels: Labels) -> Self:
        """Return the protocol of these parameters; raises DeclarationError where they do not fit each other."""
        g, length, levels = (parameters.get(name) for name in ("g", "length", "levels"))
        if not isinstance(g, int) or not 2 <= g <= _LARGEST or any(g % i == 0 for i in range(2, int(g**0.5) + 1)):
            raise DeclarationError("g must be a prime number from 2 to 251")
        if not isinstance(length, int) or not isinstance(levels, str) or not levels.replace(",", "").isdigit():
            raise DeclarationError('length must be a whole number, and levels text such as "12,21,21"')
        protocol = object.__new__(cls)
        claim = to_fraction(str(parameters.get("epsilon")), name="epsilon")
        checked = check_labels(labels)
        steps = tuple(int(part or 0) for part in levels.split(","))
        protocol._fill(
            checked, length, claim, g=g, threshold=check_threshold(parameters.get("p"), name="p"), levels=steps
        )
        return protocol

    def _fill(
        self,
        labels: tuple[Label, ...],
        length: int,
        claim: Fraction,
        *,
        g: int,
        threshold: int,
        levels: tuple[int, ...],
    ) -> None:
        digits = Texts.declare(labels, length).count_digits(g)
        rising = all(a < b for a, b in zip((0, *levels[:-2]), levels[:-1], strict=True))
        if not 2 <= len(levels) <= 64 or not rising or levels[-2:] != (digits, digits):
            raise DeclarationError(f"levels must rise to {digits} digits, which come twice: found, then confirmed")
        self._set(labels=labels, length=length, claim=claim, g=g, threshold=threshold, levels=levels)
        if self.p <= self.q:
            raise DeclarationError("p must be above 1 / g: epsilon is too small for thresholds of 32 bits")
        if log_up(self.p * (g - 1) / (1 - self.p), digits=40) > claim:
            raise DeclarationError(f"p and g give an epsilon above the stated {format_number(claim)}")

    @property
    def texts(self) -> Texts:
        """The texts that an answer may be."""
        return Texts.declare(self.labels, self.length)

    @property
    def p(self) -> Fraction:
        """The probability that a report of a group supports the respondent's own prefix."""
        return Fraction(self.threshold, FULL)

    @property
    def q(self) -> Fraction:
        """The probability that it supports another prefix."""
        return Fraction(1, self.g)

    @property
    def groups(self) -> int:
        """How many groups share the respondents."""
        return len(self.levels)

    @property
    def width(self) -> int:
        """Bytes of one report: the group, y, and the hash function."""
        return 2 + sum(size for _, _, size in self._words)

    @property
    def _words(self) -> list[tuple[int, int, int]]:
        """The first digit, the number of digits and the bytes of each word of a hash function: 32 bits hold a word."""
        most = max(c for c in range(1, 33) if self.g**c <= FULL)
        parts = [(start, min(most, self.levels[-1] - start)) for start in range(0, self.levels[-1], most)]
        return [(start, many, -(-int(self.g**many - 1).bit_length() // 8)) for start, many in parts]

    def parameters(self) -> Parameters:
        """Return the public parameters, as canonical JSON data."""
        return {
            "kind": self.kind,
            "k": len(self.labels),
            "labels_hash": labels_hash(self.labels),
            "bits": BITS,
            "length": self.length,
            "g": self.g,
            "levels": ",".join(map(str, self.levels)),
            "p": self.threshold,
            "epsilon": format_number(self.claim),
        }

    def perturb(self, answers: Iterable[str | None], rng: Rng) -> Reports:
        """Return a batch of reports, one a text; one that does not fit supports nothing, but counts."""
        table, codes = self.texts.digits_of(answers, self.g)
        out = np.zeros((codes.size, self.width), dtype=np.uint8)
        for start in range(0, codes.size, _CHUNK):
            some = codes[start : start + _CHUNK]
            out[start : start + _CHUNK] = self._reports(table[np.maximum(some, 0)], some < 0, rng)
        return Reports.of(self, out)

    def _reports(self, digits: np.ndarray[Any, Any], absent: np.ndarray[Any, Any], rng: Rng) -> Rows:
        n = len(digits)
        group = uniform_int(self.groups, n, rng)
        out = np.zeros((n, self.width), dtype=np.uint8)
        factors = np.zeros(digits.shape, dtype=np.uint8)
        at = 2
        for start, many, size in self._words:
            word = uniform_int(self.g**many, n, rng).astype("<u4")
            out[:, at : at + size] = word.view(np.uint8).reshape(n, 4)[:, :size]
            factors[:, start : start + many] = _unpack(word, many, self.g)
            at += size
        within_level = np.arange(digits.shape[1])[None, :] < np.array(self.levels)[group][:, None]
        y = ((digits.astype(np.int64) * factors * within_level).sum(axis=1) % self.g).astype(np.uint32)
        keep_or_replace(y, self.g, self.threshold, rng)
        places = np.flatnonzero(absent)
        y[places] = uniform_int(self.g, places.size, rng)
        out[:, 0] = group
        out[:, 1] = y
        return out

    def perturb_words(self, answer: str | None, words: Iterable[int]) -> bytes:
        """Return the report of a text made from 32-bit words: for devices.

        Uniform numbers by rejection: the group below the number of groups; each word of a; then, for a text that fits, a
        word u: h_a where u < T, else a number r below g - 1, which stands for r, or r + 1 from h_a on. Else y below g.
        """
        source = iter(words)
        table, codes = self.texts.digits_of([answer], self.g)
        group = next_uniform_int(self.groups, source)
        factors = []
        out = b""
        for _, many, size in self._words:
            word = next_uniform_int(self.g**many, source)
            out += word.to_bytes(size, "little")
            factors += [word // self.g**i % self.g for i in range(many)]
        if codes[0] < 0:
            y = next_uniform_int(self.g, source)
        else:
            y = sum(a * int(v) for a, v in zip(factors[: self.levels[group]], table[0], strict=False)) % self.g
            y = self._keep_or_replace(y, source)
        return bytes([group, y]) + out

    def _keep_or_replace(self, y: int, drawn: Iterator[int]) -> int:
        if next_u32(drawn) < self.threshold:
            return y
        other = next_uniform_int(self.g - 1, drawn)
        return other + (other >= y)

    def check(self, rows: Rows) -> None:
        """Raise DeclarationError where a row names a group, a value or a hash function that does not exist."""
        if not rows.size:
            return
        if int(rows[:, 0].max()) >= self.groups or int(rows[:, 1].max()) >= self.g:
            raise DeclarationError("a report names a group or a hash beyond the last")
        if any(int(word.max()) >= self.g**many for word, many in self._words_of(rows)):
            raise DeclarationError("a report names a hash function beyond the last")

    def _words_of(self, rows: Rows) -> Iterator[tuple[np.ndarray[Any, Any], int]]:
        at = 2
        for _, many, size in self._words:
            wide = np.zeros((len(rows), 4), dtype=np.uint8)
            wide[:, :size] = rows[:, at : at + size]
            yield wide.view("<u4").reshape(-1), many
            at += size

    def group_of(self, reports: Reports, group: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Return the hash functions (a row of digits each) and the values y of the reports of one group."""
        rows = own(reports, self)
        rows = rows[rows[:, 0] == group]
        factors = [_unpack(word, many, self.g) for word, many in self._words_of(rows)]
        return np.concatenate(factors, axis=1), rows[:, 1]

    def count(self, reports: Reports) -> SupportCounts:
        """Return how many reports each group has; what they support is asked of the reports, see `find`."""
        return count_support(reports, np.bincount(own(reports, self)[:, 0], minlength=self.groups))

    def find(self, reports: Reports) -> HeavyHittersEstimate:
        """Return the frequent texts, with intervals; raises DeclarationError where a group has no report yet."""
        return find_heavy_hitters(self, reports)

    def inputs(self) -> Sequence[int | None]:
        """Return inputs that stand for every pair: some hash function distinguishes any two prefixes like 0 and 1."""
        return (0, 1, None)

    def channel(self, value: int | None) -> Sequence[tuple[Fraction, ...]]:
        """Return the law of y given group and hash function, for a text whose hash is `value`; None where none fits."""
        if value is None:
            return [(Fraction(1, self.g),) * self.g]
        other = (1 - self.p) / (self.g - 1)
        return [tuple(self.p if y == value % self.g else other for y in range(self.g))]

    def __repr__(self) -> str:
        texts = f"texts of up to {self.length} of {len(self.labels)} characters"
        return f"<heavy hitters among {texts}, {self.groups} groups, epsilon {format_number(self.claim)}>"


def _best_hash(epsilon: Fraction, texts: Texts) -> int:
    """Return the prime g of least variance, counting in that more groups have fewer respondents each."""
    grown = exp_over(min(epsilon, Fraction(20)))
    primes = [g for g in range(2, _LARGEST + 1) if all(g % i for i in range(2, int(g**0.5) + 1))]

    def weight(g: int) -> float:
        groups = len(_even_levels(g, texts.count_digits(g)))
        return groups * variance(grown / (grown + g - 1), 1 / g, share=0.0, n=1)

    return min(primes, key=weight)


def _even_levels(g: int, digits: int) -> tuple[int, ...]:
    """Return the fewest levels that compare 2^21 prefixes at once at most, the later ones extending CANDIDATES each."""
    first = max(1, min(digits, int(np.log(2**_WIDE) / np.log(g) + 1e-9)))
    step = max(1, int(np.log(2**_WIDE / CANDIDATES) / np.log(g) + 1e-9))
    more = -(-(digits - first) // step)
    later = [digits - (more - i) * (digits - first) // more for i in range(1, more + 1)] if more else []
    return (first, *later, digits)


def _unpack(words: np.ndarray[Any, Any], many: int, g: int) -> np.ndarray[Any, Any]:
    """Return the digits of words in base g, the least first."""
    rest = words.astype(np.uint32)
    out = np.empty((words.size, many), dtype=np.uint8)
    for place in range(many):
        out[:, place] = rest % np.uint32(g)
        rest = rest // np.uint32(g)
    return out
