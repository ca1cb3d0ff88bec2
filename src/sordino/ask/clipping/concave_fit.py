"""The rising concave curve nearest to noisy sums clipped at rising bounds, and what clipping loses beside the noise.

It sees released sums only, so all of it is post-processing and free.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

# Deviations from which a rise is no chance.
_CLEAR = 3.0
# The most rounds of the search, times the number of bounds: it visits no support twice, and seldom more than a few dozen.
_STEPS = 3


def fit_concave(bounds: Sequence[float], sums: Sequence[float], deviations: Sequence[float]) -> Floats:
    """Return the rising concave sequence nearest to the sums, each weighted by the deviation of its noise.

    Values clipped at b add up to a concave function of b: its slope is the number of values above b, which falls. So
    every such curve is a constant and a sum of min(b, b_j), each weighted by how many values lie at b_j, at least 0. The
    nearest one solves a nonnegative least squares problem, by active sets (Lawson and Hanson 1974, chapter 23).

    >>> fit_concave([1, 2, 3, 4], [10, 14, 19, 18], [1, 1, 1, 1]).round(2).tolist()
    [9.91, 14.18, 18.45, 18.45]
    """
    at, noisy, noise = (np.asarray(list(values), dtype=np.float64) for values in (bounds, sums, deviations))
    least = noise[noise > 0].min(initial=np.inf)
    weights = 1 / np.maximum(noise, least if np.isfinite(least) else 1.0)
    hinges = np.minimum.outer(at - at[0], (at - at[0])[1:])
    columns = np.column_stack([np.ones(at.size), -np.ones(at.size), hinges]) * weights[:, None]
    lengths = np.linalg.norm(columns, axis=0)
    shares = _solve(columns / lengths, noisy * weights)
    return np.asarray((columns / lengths) @ shares / weights, dtype=np.float64)


def losses_by_bound(
    bounds: Sequence[float], sums: Sequence[float], deviations: Sequence[float]
) -> list[tuple[float, float]]:
    """Return for each bound what clipping there loses, as far as that stands out of the noise, and the noise of its sum.

    With f the fitted curve and v(c) three deviations of a level that all sums from c / 2 on are averaged to, clipping at b
    loses the largest f(c) - f(b) - v(c) over c > b, at least 0: a higher sum counts where its noise cannot explain it. Without
    v the noise of the last sums would count as lost, and a ladder of powers of two would end far too high. (This is the
    comparison of Goldenshluger and Lepski 2011, with the pooled noise of the fit.)

    >>> [(round(lost, 1), noise) for lost, noise in losses_by_bound([1, 2, 3], [100, 140, 150], [1, 2, 3])]
    [(45.0, 1), (5.0, 2), (0.0, 3)]
    """
    fitted = fit_concave(bounds, sums, deviations)
    noise = np.asarray(list(deviations), dtype=np.float64)
    precise = 1 / np.maximum(noise, noise[noise > 0].min(initial=np.inf) if noise.any() else 1.0) ** 2
    reach = np.asarray(list(bounds), dtype=np.float64) - float(bounds[0])
    pooled = [_CLEAR / np.sqrt(precise[reach >= end / 2].sum()) if noise.any() else 0.0 for end in reach]
    highest = np.maximum.accumulate((fitted - pooled)[::-1])[::-1]
    return [(max(float(top - here), 0.0), own) for top, here, own in zip(highest, fitted, deviations, strict=True)]


def _solve(columns: Floats, target: Floats) -> Floats:
    """Return the nonnegative shares of the columns that come nearest to the target."""
    shares = np.zeros(columns.shape[1])
    free = np.zeros(shares.size, dtype=bool)
    enough = 1e-10 * float(np.abs(columns.T @ target).max(initial=0.0))
    for _ in range(_STEPS * shares.size):
        gain = np.where(free, -np.inf, columns.T @ (target - columns @ shares))
        if free.all() or gain.max() <= enough:
            break
        free[int(gain.argmax())] = True
        while free.any():
            best = np.zeros(shares.size)
            best[free] = np.linalg.lstsq(columns[:, free], target, rcond=None)[0]
            short = free & (best <= 0)
            if not short.any():
                shares = best
                break
            step = float((shares[short] / (shares[short] - best[short] + 1e-300)).min())
            shares = np.maximum(shares + step * (best - shares), 0.0)
            free &= shares > 1e-12 * shares.max(initial=0.0)
    return shares
