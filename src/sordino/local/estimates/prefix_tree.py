"""Frequent texts from prefixes: one group of reports after another extends the likeliest prefixes, the last confirms texts.

It may not know devices or tasks. Everything here is post-processing of reports.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.local.estimates.frequency import USUAL_MALICIOUS, FrequencyEstimate
from sordino.local.labels import Texts
from sordino.local.protocols.hashing import hash_supports
from sordino.local.reports import Reports, SupportCounts

if TYPE_CHECKING:
    import pyarrow as pa

# Prefixes that go on from one group to the next.
CANDIDATES = 64

Digits = np.ndarray[Any, np.dtype[np.uint8]]


class PrefixProtocol(Protocol):
    """What a search must know of the protocol of its reports."""

    @property
    def levels(self) -> tuple[int, ...]:
        """How many digits each group was asked for."""

    @property
    def g(self) -> int:
        """The base of digits and hashes, a prime."""

    @property
    def p(self) -> Fraction:
        """P(a report supports the respondent's own prefix)."""

    @property
    def q(self) -> Fraction:
        """P(a report supports another prefix)."""

    @property
    def texts(self) -> Texts:
        """The texts that an answer may be."""

    def count(self, reports: Reports) -> SupportCounts:
        """Return how many reports each group has."""

    def group_of(self, reports: Reports, group: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Return the hash functions and the values of the reports of one group."""


@dataclass(frozen=True, slots=True, repr=False)
class HeavyHittersEstimate:
    """Hold the texts that the last group was asked about, with what its reports say of each: `.table`, `.values`.

    Theorem: the candidates are a function of the other groups' reports, so to the last group they are fixed labels; its
    respondents are a uniform sample of all. Intervals at confidence 1 - a / m for each of m candidates hold all at once
    with 1 - a, whichever of them are looked at (Bonferroni): selection does no harm, and with 95% no text is found that
    nobody has. A text is found where its interval begins above 0.
    """

    candidates: tuple[str, ...]
    supports: tuple[int, ...]
    group: int
    n: int
    p: Fraction
    q: Fraction

    @property
    def values(self) -> list[str]:
        """The texts found at 95%, the most frequent first."""
        labels: list[str] = self.table.column("label").to_pylist()
        return labels

    @property
    def table(self) -> pa.Table:
        """An Arrow table of the texts found: label, count, frequency, lower, upper, adversarial_lower and _upper."""
        return self.interval(0.95)

    def interval(self, confidence: float, *, malicious: float = USUAL_MALICIOUS) -> pa.Table:
        """Return the texts found at this confidence, with intervals of shares of all respondents that hold all at once.

        Raises DeclarationError unless 0 < confidence < 1 and 0 <= malicious < 1.
        """
        import pyarrow as pa

        columns: dict[str, Any] = {name: [] for name in _COLUMNS}
        if self.candidates:
            estimate = FrequencyEstimate(self.candidates, self.supports, self.group, self.p, self.q, "heavy hitters")
            ends = estimate.interval(confidence, about="population", malicious=malicious, simultaneous=True).to_pydict()
            shares = estimate.frequencies.tolist()
            order = sorted((i for i in range(len(shares)) if ends["lower"][i] > 0), key=lambda i: (-shares[i], i))
            whole = {**ends, "frequency": shares, "count": [share * self.n for share in shares]}
            columns = {name: [whole[name][i] for i in order] for name in _COLUMNS}
        kinds = [pa.string(), *[pa.float64()] * (len(_COLUMNS) - 1)]
        return pa.table({name: pa.array(columns[name], kind) for name, kind in zip(_COLUMNS, kinds, strict=True)})

    def __repr__(self) -> str:
        return f"<{len(self.values)} heavy hitters found at 95% by {self.n:,} reports, of {len(self.candidates)} candidates>"


_COLUMNS = ("label", "count", "frequency", "lower", "upper", "adversarial_lower", "adversarial_upper")


def find_heavy_hitters(protocol: PrefixProtocol, reports: Reports) -> HeavyHittersEstimate:
    """Return the texts found in the reports of all groups; raises DeclarationError where a group has none."""
    if not all(protocol.count(reports).supports):
        raise DeclarationError(f"one of the {len(protocol.levels)} groups has no report yet: wait for more respondents")
    prefixes = np.zeros((1, 0), dtype=np.uint8)
    depth = 0
    for group, level in enumerate(protocol.levels[:-1]):
        prefixes = _extend(protocol, prefixes, level - depth, *protocol.group_of(reports, group))
        depth = level
    texts = [protocol.texts.decode(_number(row, protocol.g)) for row in prefixes]
    text_rows = [row for row, text in zip(prefixes, texts, strict=True) if text is not None]
    factors, y = protocol.group_of(reports, len(protocol.levels) - 1)
    supports = [int((_hash(factors, row, protocol.g) == y).sum()) for row in text_rows]
    labels = tuple(text for text in texts if text is not None)
    return HeavyHittersEstimate(labels, tuple(supports), y.size, len(reports), protocol.p, protocol.q)


def _extend(protocol: PrefixProtocol, prefixes: Digits, step: int, factors: Digits, y: Digits) -> Digits:
    """Return the CANDIDATES prefixes of `step` more digits with the most support in a group."""
    g = protocol.g
    depth = prefixes.shape[1]
    step_hash = np.zeros(y.size, dtype=np.uint64)
    for place in range(depth, depth + step):
        step_hash = step_hash * np.uint64(g) + factors[:, place]
    supports = []
    for row in prefixes:
        moved = (y.astype(np.int64) - _hash(factors, row, g)) % g
        supports.append(hash_supports(moved.astype(np.uint64) * np.uint64(g**step) + step_hash, g**step, g=g, m=step))
    every = np.concatenate(supports)
    best = np.argsort(-every, kind="stable")[: 4 * CANDIDATES]
    parents = best // g**step
    codes = best % g**step
    digits = (codes[:, None] // g ** np.arange(step)[None, :] % g).astype(np.uint8)
    longer: Digits = np.concatenate([prefixes[parents], digits], axis=1)
    rest = g ** (protocol.levels[-1] - depth - step)
    possible = [_number(row, g) * rest < protocol.texts.numbers for row in longer]
    candidates: Digits = longer[np.array(possible)][:CANDIDATES]
    return candidates


def _hash(factors: Digits, digits: Digits, g: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    hashed: np.ndarray[Any, np.dtype[np.int64]] = (
        factors[:, : digits.size].astype(np.int64) @ digits.astype(np.int64) % g
    )
    return hashed


def _number(digits: Digits, g: int) -> int:
    number = 0
    for digit in digits.tolist():
        number = number * g + int(digit)
    return number
