"""Drawing keys within codes so that columns that rise together do so within their codes too. Knows released numbers only.

Pairs are measured over few codes, so a model says nothing of how rows lie within a cell: keys drawn independently there lose
an eighth of a strong correlation. Here each ordered column is a normal variable cut at the codes' shares of the rows; the
correlations of these variables are those that the model's own pairs imply. A row's variables are drawn given its codes, and the
rows of a code get its keys in the order of their variable: every column's own counts stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from sordino.core.noise.rng import Rng
from sordino.synth.denoising import normal_ends, normal_scores
from sordino.synth.encoded_column import Codes, Floats
from sordino.synth.junction_tree import Pair

# Correlations below which two columns are taken to be unrelated within codes, and the largest.
_LEAST = 0.2
_MOST = 0.97
# Rounds of proportional fitting, and of drawing each variable given the others.
_FITTED = 10
_DRAWN = 4
# A logistic variable times this is a normal one, within .01 in probability.
_LOGISTIC = 1.702
_NEWTON = 6
_TINY = 1e-12


def correlations_within(tables: Mapping[Pair, Floats], sizes: Mapping[int, int]) -> dict[Pair, float]:
    """Return the correlation of each pair of ordered columns as normal variables, where there is one to speak of.

    `sizes` gives for each ordered column how many of its codes hold values; a missing value's comes after them. With x and y
    the mean normal score of each code and V their variances, E[x y] = r V V' + r^3 sqrt((V - V^2) (V' - V'^2)) + ...: the
    first two terms of Mehler's series (1866), all of the rest as if of the third order.
    """
    correlations: dict[Pair, float] = {}
    for (a, b), whole in tables.items():
        if a not in sizes or b not in sizes:
            continue
        table = whole[: sizes[a], : sizes[b]]
        total = max(float(table.sum()), _TINY)
        margins = table.sum(axis=1), table.sum(axis=0)
        x, y = (normal_scores(m) for m in margins)
        variances = [float(np.square(s) @ m) / total for s, m in zip((x, y), margins, strict=True)]
        first = math.prod(variances)
        third = math.sqrt(math.prod(max(v - v * v, 0.0) for v in variances))
        moment = float(x @ table @ y) / total
        if first <= _TINY:
            continue
        r = min(max(moment / first, -1.0), 1.0)
        for _ in range(_NEWTON):
            r -= (first * r + third * r**3 - moment) / (first + 3.0 * third * r * r)
        if abs(r) >= _LEAST:
            correlations[a, b] = min(max(r, -_MOST), _MOST)
    return correlations


def fit_normal(correlations: Mapping[Pair, float]) -> tuple[list[int], Floats]:
    """Return the columns named, and the covariance of normal variables with these correlations and no more dependence.

    Proportional fitting of normal densities (Speed and Kiiveri 1986): each pair in turn gets its correlation, with all else
    given the pair as it was. What comes of it is a covariance even where no variables have all of the correlations.
    """
    columns = sorted({c for pair in correlations for c in pair})
    place = {c: i for i, c in enumerate(columns)}
    covariance = np.eye(len(columns))
    # the strongest last: where not all can be met, these are
    order = sorted(correlations, key=lambda p: abs(correlations[p]))
    for _ in range(_FITTED):
        for a, b in order:
            both = [place[a], place[b]]
            r = correlations[a, b]
            now = covariance[np.ix_(both, both)]
            slopes = np.linalg.solve(now, covariance[both])
            covariance = covariance + slopes.T @ (np.array([[1.0, r], [r, 1.0]]) - now) @ slopes
    scale = 1.0 / np.sqrt(np.diag(covariance))
    return columns, covariance * np.outer(scale, scale)


def draw_latent(
    columns: Sequence[int], covariance: Floats, codes: Sequence[Codes], counts: Mapping[int, Floats], rng: Rng
) -> dict[int, Floats]:
    """Return for each column the normal variable of each row, drawn given the codes of the row in all of them.

    `counts` are those of the codes that hold values; a code beyond them leaves the variable free. Each variable is drawn
    in turn given the others, within the ends of its code (Geman & Geman 1984; Geweke 1991).
    """
    precision = np.linalg.inv(covariance)
    lows = []
    highs = []
    latent = []
    for c in columns:
        ends = normal_ends(counts[c])
        free = codes[c] >= len(counts[c])
        at = np.minimum(codes[c], len(counts[c]) - 1)
        lows.append(np.where(free, -np.inf, ends[at]))
        highs.append(np.where(free, np.inf, ends[at + 1]))
        latent.append(np.where(free, 0.0, normal_scores(counts[c])[at]))
    variables = np.array(latent)
    for _ in range(_DRAWN):
        for i in range(len(columns)):
            deviation = 1.0 / math.sqrt(precision[i, i])
            mean = variables[i] - (precision[i] @ variables) / precision[i, i]
            below, above = (1.0 / (1.0 + np.exp(-_LOGISTIC / deviation * (e[i] - mean))) for e in (lows, highs))
            share = below + rng.uniform_doubles(len(mean)) * (above - below)
            share = np.clip(share, _TINY, 1.0 - _TINY)
            drawn = mean + deviation / _LOGISTIC * np.log(share / (1.0 - share))
            variables[i] = np.clip(drawn, lows[i], highs[i])
    return {c: variables[i] for i, c in enumerate(columns)}


def hand_out_keys(codes: Codes, latent: Floats, table: Floats, rng: Rng) -> Codes:
    """Return a key for each row, by the order of its variable among the rows of its code: as many of each as the shares say.

    `table` has a row a code and the share of each key in it.
    """
    # a number between 0 and 1 that rises with the variable: the rows are sorted by code, then by it
    order = np.argsort(codes + 1.0 / (1.0 + np.exp(-_LOGISTIC * latent)), kind="stable")
    ranked = codes[order]
    counts = np.bincount(codes, minlength=len(table))
    starts = np.cumsum(counts) - counts
    rank = np.arange(len(codes)) - starts[ranked]
    quantile = (rank + rng.uniform_doubles(len(table))[ranked]) / counts[ranked]
    rising = np.cumsum(table, axis=1)
    empty = rising[:, -1] <= 0.0
    rising[empty] = np.arange(1.0, table.shape[1] + 1)
    rising /= rising[:, -1:]
    rising += np.arange(len(table), dtype=np.float64)[:, None]
    positions = np.searchsorted(rising.ravel(), ranked + quantile, side="right") - ranked * table.shape[1]
    keys = np.empty(len(codes), dtype=np.int64)
    keys[order] = np.clip(positions, 0, table.shape[1] - 1)
    return keys
