"""What the tests of noise/ share: scripted bits, a chi-square test, and textbook samplers as oracles.

The oracles are the algorithms 1 to 3 of Canonne, Kamath, Steinke 2020 (section 5), over exact uniform integers; they
share nothing with the fast samplers but the Rng.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import isqrt

import numpy as np
from scipy.special import chdtrc

from sordino.core.noise.rng import Rng

FALSE_ALARM = 1e-6  # of each statistical test here; seeds are fixed, so a pass stays a pass


class ScriptedRng(Rng):
    """An Rng that plays the given bytes and fails when they run out."""

    __slots__ = ("script",)

    def __init__(self, script: bytes) -> None:
        super().__init__(key=bytes(32))
        self.script = script

    def _fill(self, out: memoryview) -> None:
        assert len(self.script) >= len(out), f"the script ran out: {len(out)} bytes asked, {len(self.script)} left"
        out[:], self.script = self.script[: len(out)], self.script[len(out) :]


def words(*values: int, width: int = 64) -> bytes:
    """Return the little-endian bytes that play `values`, each of `width` bits."""
    return b"".join(value.to_bytes(width // 8, "little") for value in values)


def chi_square(counts: Sequence[float], expected: Sequence[float]) -> float:
    """Return the p-value of counts against expected counts; bins expecting under 10 are pooled with their neighbors."""
    pooled: list[list[float]] = [[0.0, 0.0]]
    for count, expect in zip(counts, expected, strict=True):
        if pooled[-1][1] >= 10:
            pooled.append([0.0, 0.0])
        pooled[-1][0] += count
        pooled[-1][1] += expect
    if pooled[-1][1] < 10 and len(pooled) > 1:
        last = pooled.pop()
        pooled[-1] = [pooled[-1][0] + last[0], pooled[-1][1] + last[1]]
    if len(pooled) == 1:
        assert pooled[0][0] == round(pooled[0][1]) or abs(pooled[0][1]) < 10
        return 1.0
    statistic = sum((count - expect) ** 2 / expect for count, expect in pooled)
    return float(chdtrc(len(pooled) - 1, statistic))


def two_sample(first: np.ndarray, second: np.ndarray) -> float:
    """Return the p-value of two samples of integers having one law: a chi-square test over at most 60 pooled bins."""
    both = np.concatenate([first, second])
    edges = np.unique(np.quantile(both, np.linspace(0, 1, 61), method="lower"))
    counts = np.array(
        [np.bincount(np.searchsorted(edges, s, side="right"), minlength=len(edges) + 1) for s in (first, second)],
        dtype=float,
    )
    counts = counts[:, counts.sum(axis=0) > 0]
    expected = counts.sum(axis=0) * (counts.sum(axis=1) / counts.sum())[:, None]
    return float(chdtrc(counts.shape[1] - 1, ((counts - expected) ** 2 / expected).sum()))


def textbook_bernoulli_exp(gamma: Fraction, rng: Rng) -> bool:
    """Algorithm 1: True with probability exp(-gamma)."""
    while gamma > 1:
        if not textbook_bernoulli_exp(Fraction(1), rng):
            return False
        gamma -= 1
    k = 1
    while rng.below(gamma.denominator * k) < gamma.numerator:
        k += 1
    return k % 2 == 1


def textbook_laplace(scale: Fraction, rng: Rng) -> int:
    """Algorithm 2: discrete Laplace of scale t / s."""
    t, s = scale.numerator, scale.denominator
    while True:
        u = rng.below(t)
        if not textbook_bernoulli_exp(Fraction(u, t), rng):
            continue
        v = 0
        while textbook_bernoulli_exp(Fraction(1), rng):
            v += 1
        y = (u + t * v) // s
        negative = rng.below(2) == 1
        if not (negative and y == 0):
            return -y if negative else y


def textbook_gaussian(sigma_squared: Fraction, rng: Rng) -> int:
    """Algorithm 3: discrete Gaussian."""
    t = isqrt(sigma_squared.numerator // sigma_squared.denominator) + 1
    while True:
        y = textbook_laplace(Fraction(t), rng)
        if textbook_bernoulli_exp((abs(y) - sigma_squared / t) ** 2 / (2 * sigma_squared), rng):
            return y
