"""Unary encoding: one bit a label, each flipped by a coin of its own; symmetric, optimised, or with any p and q.

It may not know collectors, tasks or devices.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.core.loss import Number, format_number, to_fraction
from sordino.core.noise.rng import Rng
from sordino.local.draws import bernoulli, bit_sums, bytes_for, next_u32, pack_bernoulli
from sordino.local.labels import Answers, Labels, check_labels, codes_of
from sordino.local.protocols.randomizer import FrequencyOracle, ThresholdOracle
from sordino.local.reports import Reports, Rows, SupportCounts, check_padding, count_support, own
from sordino.local.thresholds import FULL, check_epsilon, floor_share, log_up

_SAME_CUT = 1e-4  # between cuts that are the same but for the rounding of coins


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Unary(ThresholdOracle):
    """Randomise by unary encoding: bit j says 1 with probability p if j is the label, else with probability q.

    Theorem: with p = T_p / 2^32 > q = T_q / 2^32, two labels differ in two bits, so a report's probability differs by a
    factor p (1 - q) / ((1 - p) q) at most; epsilon is its logarithm, rounded up. A missing answer sets no bit before
    the coins: it differs from a label in one bit only, and counts in n. (c_v / n - q) / (p - q) is unbiased.

    The rule from 32-bit words to the report, the same in every language: for j = 0, 1, ..., k - 1 one word u; bit j is
    1 if u < (T_p if j is the label's number else T_q). Bit j is bit j mod 8 (of value 2^(j mod 8)) of byte j div 8, in
    ceil(k / 8) bytes; the other bits of the last byte are 0.

    `Unary(labels, p=, q=)` rounds p down and q up to thresholds. Raises DeclarationError for fewer than 2 labels,
    repeated ones, p or q outside (0, 1), or p not above q.

    Paper: Erlingsson, Pihur, Korolova 2014, section 2; Wang, Blocki, Li, Jha 2017, section 4.3.

    >>> Unary(["a", "b"], p=0.75, q=0.25).epsilon
    2.1972245773362196
    """

    threshold_p: int
    threshold_q: int

    def __init__(self, labels: Labels, *, p: Number, q: Number) -> None:
        kept = check_labels(labels)
        high = to_fraction(p, name="p")
        low = to_fraction(q, name="q")
        for name, value in (("p", high), ("q", low)):
            if not 0 < value < 1:
                raise DeclarationError(f"{name} must lie between 0 and 1, not {format_number(value)}")
        if high <= low:
            way = "equal ones reveal nothing" if high == low else "swap them"
            raise DeclarationError(f"p must be above q, not {format_number(high)} and {format_number(low)}: {way}")
        top, bottom = max(1, math.floor(high * FULL)), min(FULL - 1, math.ceil(low * FULL))
        if top <= bottom:
            raise DeclarationError("p must be above q: they are too near each other for thresholds of 32 bits")
        self._fill(
            kept, log_up(_ratio(Fraction(top, FULL), Fraction(bottom, FULL))), threshold_p=top, threshold_q=bottom
        )

    kind = "unary"
    on_device = True
    number = 2
    stated = MappingProxyType({"p": "threshold_p", "q": "threshold_q"})

    @property
    def name(self) -> str:
        """SUE where the coins mirror each other, OUE where p is 1/2, THE where they are those of its best cut, else unary."""
        if self.threshold_p + self.threshold_q == FULL:
            return "SUE"
        if 2 * self.threshold_p == FULL:
            return "OUE"
        return "THE" if _is_cut_at_best(1 - self.p, self.q) else "unary"

    def _odds(self, p: Fraction) -> tuple[Fraction, Fraction]:
        q = Fraction(self.threshold_q, FULL)
        return q, _ratio(p, q)

    @property
    def bit_count(self) -> int:
        """Bits of one report: one a label."""
        return len(self.labels)

    @property
    def width(self) -> int:
        """Bytes of one report."""
        return bytes_for(len(self.labels))

    def perturb(self, answers: Answers, rng: Rng) -> Reports:
        """Return a batch of reports, one an answer; a missing answer sends coins of q alone.

        Raises DeclarationError where an answer is none of the labels.
        """
        codes = codes_of(answers, self.labels, missing=True)
        rows = pack_bernoulli(self.threshold_q, codes.size, len(self.labels), rng)
        true = bernoulli(self.threshold_p, codes.size, rng)
        present = codes >= 0
        everyone = bool(present.all())
        who = np.arange(codes.size) if everyone else np.flatnonzero(present)
        places, coins = (codes, true) if everyone else (codes[who], true[who])
        cells = rows[who, places >> 3]
        bit = (places & 7).astype(np.uint8)
        rows[who, places >> 3] = cells & ~(np.uint8(1) << bit) | coins.astype(np.uint8) << bit
        return Reports.of(self, rows)

    def perturb_words(self, value: int | None, words: Iterable[int]) -> bytes:
        """Return the report of label number `value` (None: missing) from 32-bit words, by the rule above.

        >>> Unary(["a", "b", "c"], p=0.75, q=0.25).perturb_words(1, [2**30, 2**30, 0]).hex()
        '06'
        """
        if value is not None and not 0 <= value < len(self.labels):
            raise DeclarationError(f"value must be the number of a label, 0 to {len(self.labels) - 1}, or None")
        return self.perturb_bits(0 if value is None else 1 << value, words)

    def perturb_bits(self, bits: int, words: Iterable[int]) -> bytes:
        """Return the report of packed bits, from one word a bit: 1 with probability p where a bit is set, else q."""
        drawn = iter(words)
        number = 0
        for j in range(len(self.labels)):
            threshold = self.threshold_p if bits >> j & 1 else self.threshold_q
            number |= (next_u32(drawn) < threshold) << j
        return number.to_bytes(self.width, "little")

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
        """Return the law of a report of label number `value`: one part a bit, the probabilities of 0 and 1."""
        return bit_laws(self, value)


def bit_laws(protocol: FrequencyOracle, value: int | None) -> Sequence[tuple[Fraction, ...]]:
    """Return the law of a report of independent bits, 1 with probability p for label `value` and q for another."""
    own = (1 - protocol.p, protocol.p)
    other = (1 - protocol.q, protocol.q)
    return [own if j == value else other for j in range(len(protocol.labels))]


def SUE(labels: Labels, *, epsilon: Number) -> Unary:
    """Return symmetric unary encoding: p = e^(epsilon/2) / (e^(epsilon/2) + 1), q = 1 - p (one-time basic RAPPOR).

    Paper: Erlingsson, Pihur, Korolova 2014, section 3.1.

    >>> SUE(["a", "b"], epsilon=1).name
    'SUE'
    """
    kept = check_labels(labels)
    claim = check_epsilon(epsilon)
    top = floor_share(claim / 2, 1)
    return Unary._make(kept, claim, threshold_p=top, threshold_q=FULL - top)


def OUE(labels: Labels, *, epsilon: Number) -> Unary:
    """Return optimised unary encoding: p = 1/2, q = 1 / (e^epsilon + 1), the least variance for rare labels.

    Paper: Wang, Blocki, Li, Jha 2017, section 4.3.

    >>> OUE(["a", "b"], epsilon=1).p
    Fraction(1, 2)
    """
    kept = check_labels(labels)
    claim = check_epsilon(epsilon)
    return Unary._make(kept, claim, threshold_p=FULL // 2, threshold_q=FULL - floor_share(claim, 1))


def THE(labels: Labels, *, epsilon: Number) -> Unary:
    """Return histogram encoding with a threshold: Laplace noise on each number of the one-hot row, and what is above theta.

    The row of 0s and a 1 moves by 2 in l1 from label to label, so noise of scale 2 / epsilon makes it private, and which
    numbers are above theta is post-processing: bits with p = 1 - exp(epsilon (theta - 1) / 2) / 2 and q = exp(-epsilon
    theta / 2) / 2, theta in (1/2, 1) of the least variance q (1 - q) / (p - q)^2. The bits are drawn as such, without the
    noise; they reveal less than the numbers would, so the epsilon of this protocol is below the one asked for.

    Paper: Wang, Blocki, Li, Jha 2017, section 4.2 (THE).

    >>> made = THE(["a", "b"], epsilon=2)
    >>> made.name, made.epsilon < 2
    ('THE', True)
    """
    kept = check_labels(labels)
    claim = check_epsilon(epsilon)
    miss, false = _coins_at(float(claim), _best_cut(float(claim)))
    top, bottom = FULL - max(1, math.ceil(miss * FULL)), max(1, math.ceil(false * FULL))
    while top > bottom and (found := log_up(_ratio(Fraction(top, FULL), Fraction(bottom, FULL)))) > claim:
        top -= 1  # floats may have rounded a coin by a step of 2^-32
    if top <= bottom:
        raise DeclarationError("epsilon is too small for thresholds of 32 bits: p and q would be equal; try 0.001")
    return Unary._make(kept, found, threshold_p=top, threshold_q=bottom)


def _coins_at(epsilon: float, cut: float) -> tuple[float, float]:
    """Return 1 - p and q of histogram encoding cut at `cut`."""
    return math.exp(epsilon * (cut - 1) / 2) / 2, math.exp(-epsilon * cut / 2) / 2


def _best_cut(epsilon: float) -> float:
    """Return the cut in [1/2, 1] with the least variance of a rare label's share, by golden section."""

    def spread(cut: float) -> float:
        miss, false = _coins_at(epsilon, cut)
        return math.sqrt(false * (1 - false)) / (1 - miss - false)

    low = 0.5
    high = 1.0
    part = (math.sqrt(5) - 1) / 2
    for _ in range(60):
        left, right = high - part * (high - low), low + part * (high - low)
        low, high = (low, right) if spread(left) < spread(right) else (left, high)
    return (low + high) / 2


def _is_cut_at_best(miss: Fraction, false: Fraction) -> bool:
    """Return whether coins are those of histogram encoding at its best cut, for the epsilon that they imply."""
    if not (0 < 2 * miss < 1 and 0 < 2 * false < 1):
        return False
    epsilon = -2 * math.log(2 * miss) - 2 * math.log(2 * false)
    return abs(-2 * math.log(2 * false) / epsilon - _best_cut(epsilon)) < _SAME_CUT


def _ratio(p: Fraction, q: Fraction) -> Fraction:
    return p * (1 - q) / ((1 - p) * q)
