"""Poisoning: how far malicious clients can move an estimate, and whether the shape of reports is that of honest ones.

No local protocol can distinguish a malicious report from noise; these are bounds and tests, not defenses. It may not
know who sent a report.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sordino.local.estimates.binomial import binomial_law, tail
from sordino.local.protocols.hadamard import Hadamard
from sordino.local.protocols.hashing import OLH
from sordino.local.protocols.randomizer import Randomizer
from sordino.local.protocols.rappor import Rappor
from sordino.local.protocols.summed_histogram import SHE
from sordino.local.protocols.unary import Unary
from sordino.local.reports import Reports, own

# The greatest probability that an honest report is called odd.
_ODD = 1e-3
_CELLS = 256


@dataclass(frozen=True, slots=True)
class ShapeTest:
    """Hold what the shape of reports says: the probability that honest reports look at least so odd, and in words."""

    p_value: float
    odd: int
    expected: float
    n: int
    finding: str

    @property
    def suspicious(self) -> bool:
        """Whether honest reports look so less than once in 10,000 batches."""
        return self.p_value < 1e-4


def attainable_shift(protocol: Randomizer, *, malicious: float) -> tuple[float, float]:
    """Return how much a share of malicious respondents can add to a label's share, and take from one, on average.

    A malicious client adds (1 - q) / (p - q) where an honest report adds 0 on average: at epsilon 1 and 128 labels, 1%
    of them add 75 points by GRR and 2.2 by Hadamard response. No test finds those that keep the shape of honest reports.

    Paper: Cheu, Smith, Ullman 2021; Cao, Jia, Gong 2021 (maximal gain attack).

    >>> from sordino.local.protocols.hadamard import Hadamard
    >>> round(attainable_shift(Hadamard(range(128), epsilon=1), malicious=0.01)[0], 3)
    0.022
    """
    return protocol.shift(malicious)


def shape_test(protocol: Randomizer, reports: Reports) -> ShapeTest:
    """Return a test of the hypothesis that every report was made by the protocol, whatever the answers.

    Unary encoding and RAPPOR: the number of bits set is Binomial(k - 1, q) and one coin of p (or none, where the answer
    is missing); reports further out than honest ones are once in 1,000 are counted. Hashing and Hadamard response: the
    hash function or the row is uniform (chi-square over at most 256 cells). SHE: reports with a number as far from 1/2 as
    honest ones have once in 1,000. GRR and subset selection: every report that
    passes the check is as likely as any other of some answers; nothing is tested.

    Raises DeclarationError for another task's reports.
    """
    rows = own(reports, protocol)
    n = len(reports)
    if n == 0 or not isinstance(protocol, (Unary, Rappor, OLH, Hadamard, SHE)):
        return ShapeTest(
            1.0, 0, 0.0, n, "nothing to test: every report of the right size has the shape of an honest one"
        )
    if isinstance(protocol, (Unary, Rappor)):
        return _bits_set(protocol, np.bitwise_count(rows).sum(axis=1, dtype=np.int64))
    if isinstance(protocol, SHE):
        return _farthest(protocol, protocol.numbers(reports))
    return _uniform(protocol.public_part(rows), protocol.public_values, n)


def _bits_set(protocol: Unary | Rappor, ones: np.ndarray[Any, Any]) -> ShapeTest:
    """Test the numbers of bits set, by the binomial tail of how many are odd."""
    k = len(protocol.labels)
    p = float(protocol.p)
    q = float(protocol.q)
    n = ones.size
    least = max((c for c in range(k + 2) if tail(c, 1, k, p, q) > _ODD), default=0)
    most = min((c for c in range(k + 1) if 1.0 - tail(c + 1, 0, k, p, q) > _ODD), default=k)
    odd = int(((ones > least) | (ones < most)).sum())
    chance = max(
        (tail(least + 1, m, k, p, q) if least < k else 0.0) + (1.0 - tail(most, m, k, p, q) if most else 0.0)
        for m in (0, 1)
    )
    value = _at_least(odd, n, chance)
    words = (
        f"{odd:,} of {n:,} reports set fewer than {most} or more than {least} bits; at most {n * chance:,.1f} expected"
    )
    return ShapeTest(value, odd, n * chance, n, words)


def _farthest(protocol: SHE, numbers: np.ndarray[Any, Any]) -> ShapeTest:
    """Test the number that lies farthest from 1/2 in each report: 1/2 + d or more, or 1/2 - d or less, whatever the answer."""
    ratio = float(protocol.ratio)
    n = len(numbers)
    k = numbers.shape[1]

    # P(a number is above `steps` or at most -steps) is r^steps, alike for 0 and for 1.
    def likely(steps: int) -> float:
        return float(-np.expm1(k * np.log1p(-(ratio**steps))))

    reach = next(steps for steps in range(1, protocol.limit + 1) if likely(steps) <= _ODD)
    odd = int(((numbers > reach) | (numbers <= -reach)).any(axis=1).sum())
    expected = n * likely(reach)
    words = f"{odd:,} of {n:,} reports have a number above {reach} or below {1 - reach}; {expected:,.1f} expected"
    return ShapeTest(_at_least(odd, n, likely(reach)), odd, expected, n, words)


def _uniform(parts: np.ndarray[Any, Any], values: int, n: int) -> ShapeTest:
    """Test that public parts of reports are uniform, in cells of equal numbers of values, by chi-square."""
    # chdtrc is P(chi-square > statistic).
    from scipy.special import chdtrc

    cells = max(c for c in range(1, min(_CELLS, values) + 1) if values % c == 0)
    counts = np.bincount((parts // np.uint64(values // cells)).astype(np.int64), minlength=cells)
    expected = n / cells
    statistic = float(np.square(counts - expected).sum() / expected)
    value = float(chdtrc(cells - 1, statistic)) if cells > 1 else 1.0
    most = int(counts.max())
    words = f"the public part of {n:,} reports in {cells} cells: at most {most:,} in one, {expected:,.1f} expected"
    return ShapeTest(value, most, expected, n, words)


def _at_least(count: int, n: int, chance: float) -> float:
    """Return P(Binomial(n, chance) >= count)."""
    if count == 0:
        return 1.0
    first, mass = binomial_law(n, chance)
    return float(mass[max(count - first, 0) :].sum())
