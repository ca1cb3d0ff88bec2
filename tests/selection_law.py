"""The law of each selection on given scores, by closed form and quadrature: an oracle, in floats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sordino.core.mechanisms.selection import Exponential, PermuteAndFlip, Scores, gaps_below_best

Floats = np.ndarray[Any, np.dtype[np.float64]]


def selection_probabilities(
    made: Exponential | PermuteAndFlip, scores: Scores, weights: Sequence[int] | None = None
) -> Floats:
    """Return the probability of each index; of permute-and-flip to about ten digits."""
    gaps, denominator = gaps_below_best(scores)
    step = made.rate / denominator
    exponents = np.array([-float(step * g) if step * g < 10**6 else -1e6 for g in gaps.tolist()])
    if isinstance(made, PermuteAndFlip):
        return flip_probabilities(np.exp(exponents))
    with np.errstate(divide="ignore"):
        exponents += 0 if weights is None else np.log(np.asarray(weights, dtype=np.float64))
    shares = np.exp(exponents - exponents.max())
    return np.asarray(shares / shares.sum())


def flip_probabilities(heads: Floats) -> Floats:
    """Return the law of permute-and-flip from each coin's probability of heads, to about ten digits.

    Theorem: the choice is uniform among the heads, so P(i) = h_i E[1 / (1 + K)], K the other heads; as 1 / (1 + K) is
    the integral of s^K over [0, 1], that is h_i times the integral over u = 1 - s of the product of 1 - h_j u, j != i.
    The product falls like exp(-u sum h_j): Gauss-Legendre panels double in width from 1 / sum h_j on.
    """
    nodes, masses = np.polynomial.legendre.leggauss(24)
    edge, reach = 0.0, 1 / float(heads.sum())
    out = np.zeros(len(heads))
    while edge < 1 and edge * heads.sum() < 45:
        end = min(1.0, edge + reach)
        for node, mass in zip(nodes.tolist(), masses.tolist(), strict=True):
            u = min(
                (end - edge) * (node + 1) / 2 + edge, 1 - 2.0**-50
            )  # a node may round to 1, where a sure head has log 0
            logs = np.log1p(-heads * u)
            out += (end - edge) / 2 * mass * np.exp(logs.sum() - logs)
        edge, reach = end, end
    return heads * out
