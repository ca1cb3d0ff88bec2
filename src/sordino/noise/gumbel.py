"""Exact one-sided noise for noisy maxima: the geometric law, the whole part of exponential noise.

It may not know what competes. (Gumbel noise itself is never drawn: the winner it names has the law of `selection.Urn`.)
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sordino.errors import DeclarationError
from sordino.noise.bernoulli import as_fraction
from sordino.noise.discrete import Integers, discrete_laplace
from sordino.noise.rng import Rng

__all__ = ["geometric"]


def geometric(scale: Fraction | int, rng: Rng, size: int) -> Integers:
    """Draw `size` numbers of the geometric law: P(G = g) = (1 - q) q^g for g >= 0, with q = exp(-1 / scale).

    Theorem: discrete Laplace X given X >= 0 has P(X = x) proportional to q^x, so that law; negative draws, of
    probability q / (1 + q) < 1/2, are drawn again. For E exponential of mean `scale`, floor(E) has the same law.

    Returns an int64 array, or one of Python ints for scales from 2^56 on. Raises DeclarationError unless scale > 0.

    >>> int(geometric(Fraction(3), Rng.seeded(1), 100).min())
    0
    """
    exact = as_fraction(scale, "scale")
    if exact <= 0:
        raise DeclarationError(f"scale must be above 0, not {exact}")
    out = discrete_laplace(exact, rng, size)
    again = np.flatnonzero(out < 0)
    while len(again):
        out[again] = discrete_laplace(exact, rng, len(again))
        again = again[out[again] < 0]
    return out
