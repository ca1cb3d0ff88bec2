"""Which pairs of columns to measure: noisy scores, what they mean, what a measurement would gain, and the measurements.

A score is the l1 distance between a pair's table and the model's, less what sampling and the noise of the model's own
margins account for. All here is post-processing of released scores. Knows no data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from sordino.synth.arrays import Floats
from sordino.synth.fitted_model import Measured
from sordino.synth.junction_tree import Pair, grow_clique
from sordino.synth.markov_random_field import MarkovRandomField, marginal
from sordino.synth.measurement import FitSession
from sordino.synth.one_way_marginals import CompressedMarginals
from sordino.synth.sampler import draw_codes, spacings

Columns = tuple[int, ...]

_MEAN = 0.8  # E|Z| of a standard normal, about sqrt(2 / pi)
_THRESHOLDS = np.arange(0.5, 4.25, 0.25)
_LOG_FACTORIALS = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1.0, 1002.0)))])
_SAMPLE = 200_000
_OUTSIDE = 0.4  # of the gain where no clique can hold a pair: it shapes the rows, but not what other tables say of it


def score_independence(
    session: FitSession, compressed: CompressedMarginals, pairs: Sequence[Pair], share: Fraction
) -> tuple[Floats, float]:
    """Return the scores of the pairs against independent columns, and the deviation of the scores."""
    models = [compressed.independent(p) for p in pairs]
    margins = [compressed.independent_variance(p) for p in pairs]
    return score_pairs(session, compressed, pairs, models, share, margins=margins)


def score_pairs(
    session: FitSession,
    compressed: CompressedMarginals,
    pairs: Sequence[Columns],
    models: Sequence[Floats],
    share: Fraction,
    *,
    margins: Sequence[Floats | float] | None = None,
) -> tuple[Floats, float]:
    """Return how much farther each pair's table lies from its model than noise explains, and the deviation of the scores.

    `margins` are the variances of the models' own cells.
    """
    raw, variance = session.measure_distances([compressed.table(p) for p in pairs], models, share)
    floors = [mean_distance(m, v) for m, v in zip(models, margins or [0.0] * len(models), strict=True)]
    return raw - np.array(floors), math.sqrt(variance)


def measure_pairs(
    session: FitSession, compressed: CompressedMarginals, pairs: Sequence[Columns], share: Fraction, known: Measured
) -> Measured:
    """Return noisy tables of the pairs, or of more columns, with more of the share for those with more cells above the noise."""
    each = session.variance(share)
    floor = _MEAN * math.sqrt(each * max(len(pairs), 1))
    cells = [float((compressed.independent(p) > floor).sum()) for p in pairs]
    weights = allocation(cells, [1.0 / known[p].variance if p in known else 0.0 for p in pairs], 1.0 / each)
    found = session.measure_weighted([compressed.table(p) for p in pairs], share, weights)
    return {pairs[i]: counts for i, counts in found.items()}


def model_pairs(
    session: FitSession, compressed: CompressedMarginals, field: MarkovRandomField, pairs: Sequence[Columns]
) -> list[Floats]:
    """Return the model's table of each set of columns: exact within a clique, else counted in rows drawn from the model."""
    sizes, tree = compressed.sizes, field.tree
    rows = int(max(min(2 * compressed.rows, _SAMPLE), 1000))
    drawn = None
    found: list[Floats] = []
    for columns in pairs:
        home = tree.home(columns, sizes)
        if home is not None:
            found.append(marginal(field.tables[home], tree.cliques[home], columns))
            continue
        if drawn is None:
            drawn = draw_codes(field, sizes, rows=rows, alphas=spacings(), rng=session.rng)
        shape = [sizes[c] for c in columns]
        counts = np.bincount(np.ravel_multi_index([drawn[c] for c in columns], shape), minlength=math.prod(shape))
        found.append(np.asarray(counts.reshape(shape) * (compressed.rows / rows), dtype=np.float64))
    return found


def choose_pairs(
    compressed: CompressedMarginals,
    pairs: Sequence[Pair],
    distances: Floats,
    *,
    variance_each: float,
    cap: float,
    start: Sequence[Pair] = (),
    kept: Sequence[Pair] = (),
    kept_distances: Sequence[float] = (),
) -> tuple[list[Pair], float]:
    """Return the new pairs to measure, the best first, and the gain expected: how many is chosen by the total gain.

    Cliques within the `cap` of cells, grown from the pairs `start`, hold some of the pairs; others count for less.
    `variance_each` is the variance of a cell where one table gets the whole loss; m tables get m times that.
    `kept` are pairs measured before, which are measured again.
    """
    rows = compressed.rows
    means, kept_means = ([compressed.independent(p) for p in some] for some in (pairs, kept))
    best: tuple[list[Pair], float] = [], 0.0
    first = expected_gains(distances, means, rows, math.sqrt(variance_each * (2 * len(compressed.sizes) + len(kept))))
    best_first = [pairs[i] for i in np.argsort(-first, kind="stable").tolist() if first[i] > 0]
    inside = set(grow_clique(best_first, compressed.sizes, cap=cap, start=start)[0])
    weight = np.array([1.0 if p in inside else _OUTSIDE for p in pairs])
    counts = sorted({max(1, round(f * len(compressed.sizes))) for f in (0.25, 0.5, 1, 1.5, 2, 3, 4, 6, 8)})
    for count in [0, *counts] if kept else counts:
        deviation = math.sqrt(variance_each * (count + len(kept)))
        worth = expected_gains(distances, means, rows, deviation) * weight
        order = [i for i in np.argsort(-worth, kind="stable").tolist() if worth[i] > 0][:count]
        gain = float(worth[order].sum()) + float(expected_gains(kept_distances, kept_means, rows, deviation).sum())
        if gain > best[1]:
            best = [pairs[i] for i in order], gain
        if len(order) < count:
            break
    return best


def allocation(cells: Sequence[float], known: Sequence[float], total: float) -> list[float]:
    """Return the information (1 / variance) to add to each table so that sum n / sqrt(info) is least.

    At the optimum info is proportional to n^(2/3), but not below what is known already: water-filling by bisection.
    `total` is the information to hand out.
    """
    weights = np.maximum(np.asarray(cells, dtype=np.float64), 1.0) ** (2.0 / 3.0)
    have = np.asarray(known, dtype=np.float64)
    low, high = 0.0, (total + float(have.sum())) / float(weights.min()) + 1.0
    for _ in range(100):
        level = (low + high) / 2
        spent = float(np.maximum(weights * level - have, 0.0).sum())
        low, high = (low, level) if spent > total else (level, high)
    extra = np.maximum(weights * low - have, 0.0)
    scale = total / float(extra.sum()) if extra.sum() > 0 else 0.0
    made: list[float] = (extra * scale).tolist()
    return made


def mean_distance(model: Floats, margin_variance: Floats | float = 0.0) -> float:
    """Return the l1 distance to the model of a table whose cells are Poisson with the model's means.

    E|X - m| = 2 m^(k+1) e^-m / k! with k = floor(m) (Crow 1958); `margin_variance` is that of the model's cells, combined
    in squares.
    """
    means = np.asarray(model, dtype=np.float64).ravel()
    spread = _poisson_deviation(means)
    variance = np.minimum(np.broadcast_to(margin_variance, model.shape).ravel(), means**2)
    return float(np.sqrt(spread**2 + _MEAN**2 * variance).sum())


def shrink_scores(scores: Floats, deviation: float) -> Floats:
    """Return max(x - t, 0), t chosen among multiples of the noise by Stein's unbiased risk estimate.

    Risk(t) = P s^2 + sum over x > t of t^2, over others of x^2 - 2 s^2 (Donoho & Johnstone 1995).
    """
    if deviation <= 0 or not len(scores):
        return np.maximum(scores, 0.0)
    variance = deviation**2
    risks = [float(np.where(scores > t, t * t, scores**2 - 2 * variance).sum()) for t in deviation * _THRESHOLDS]
    threshold = deviation * float(_THRESHOLDS[int(np.argmin(risks))])
    return np.maximum(scores - threshold, 0.0)


def expected_gains(
    distances: Sequence[float] | Floats, means: Sequence[Floats], rows: float, deviation: float
) -> Floats:
    """Return for each pair how much l1 distance a measurement with noise of this deviation would take away.

    A cell's distance from the model is taken to be exponential with mean r m, r = distance / rows and m the model's cell;
    what exceeds the noise .8 s is kept: the sum of r m exp(-.8 s / (r m)).
    """
    found = np.zeros(len(distances))
    for i, (distance, cells) in enumerate(zip(distances, means, strict=True)):
        if distance <= 0:
            continue
        spread = cells * (distance / rows)
        live = spread[spread > _MEAN * deviation / 30.0]
        found[i] = float((live * np.exp(-_MEAN * deviation / live)).sum())
    return found


def _poisson_deviation(means: Floats) -> Floats:
    """Return E|X - m| for X Poisson of mean m; by its limit sqrt(2 m / pi) above a thousand."""
    small = means < 1000.0
    made = np.sqrt(2.0 * means / math.pi)
    m = np.maximum(means[small], 1e-300)
    k = np.floor(m).astype(np.int64)
    made[small] = 2.0 * np.exp((k + 1) * np.log(m) - m - _LOG_FACTORIALS[k])
    return made
