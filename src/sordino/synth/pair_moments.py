"""Moments of pairs that rise together: a fitted field is moved to those that were measured. Knows released numbers only.

Each pair is read by itself, and the readings of several pairs in one clique contradict each other a little: the fit settles
between them cell by cell, which costs a strong correlation up to a tenth. The moment of a pair, the sum of x y over its rows for
scores x and y of its codes, is one number of little noise, and the moments measured agree with each other. So the fitted
tables are tilted by factors exp(t x y), margins kept, until their moments are those.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from sordino.synth.denoising import rake
from sordino.synth.encoded_column import Floats
from sordino.synth.junction_tree import Pair
from sordino.synth.markov_random_field import MarkovRandomField, make_consistent, marginal, spread
from sordino.synth.measurement import NoisyTable
from sordino.synth.one_way_marginals import CompressedMarginals

# Correlations from which on a pair's moment is met, and the largest.
_STRONG = 0.5
_MOST = 0.98
# The largest noise of a correlation that is met, one deviation, and how many of them a field must be off.
_CLEAR = 0.01
_OFF = 2.0
# Turns over all pairs, steps to a moment, how near to one, and the most that a step moves the log of a cell.
_TURNS = 4
_STEPS = 12
_NEAR = 1e-3
_FARTHEST = 20.0
_TINY = 1e-250


def meet_moments(
    field: MarkovRandomField, compressed: CompressedMarginals, measured: Mapping[tuple[int, ...], NoisyTable]
) -> None:
    """Tilt the tables of a field, in place, so that pairs of strongly correlated columns have the moments measured."""
    goals = _strong_moments(field, compressed, measured)
    for _ in range(_TURNS if goals else 0):
        off = False
        for pair, (x, y, goal, least) in goals.items():
            home = field.tree.require_home(pair, compressed.sizes)
            now = marginal(field.tables[home], field.tree.cliques[home], pair)
            tilted = _tilt_to(now, x, y, goal, least)
            if tilted is not None:
                off = True
                ratio = np.divide(tilted, now, out=np.zeros_like(now), where=now > _TINY)
                field.tables[home] *= spread(ratio, pair, field.tree.cliques[home])
        if not off:
            break
        make_consistent(field)


def _strong_moments(
    field: MarkovRandomField, compressed: CompressedMarginals, measured: Mapping[tuple[int, ...], NoisyTable]
) -> dict[Pair, tuple[Floats, Floats, float, float]]:
    """Return for each strong pair that a clique holds its scores, of mean 0 and deviation 1, its correlation and how near.

    Scores are values where the noise of their moment is small, else normal scores.
    """
    goals: dict[Pair, tuple[Floats, Floats, float, float]] = {}
    for columns, counts in measured.items():
        if len(columns) != 2 or field.tree.home(columns, compressed.sizes) is None:
            continue
        a, b = columns
        margins = compressed.counts[a], compressed.counts[b]
        for x, y in reversed(list(zip(compressed.scores(a), compressed.scores(b), strict=False))):
            scaled = [_standardize(s, m) for s, m in zip((x, y), margins, strict=True)]
            deviation = math.sqrt(counts.variance * math.prod(float(s @ s) for s in scaled)) / compressed.rows
            if not 0.0 < deviation <= _CLEAR:
                continue
            goal = float(scaled[0] @ counts.cells @ scaled[1]) / compressed.rows
            if abs(goal) >= _STRONG:
                goals[a, b] = scaled[0], scaled[1], min(max(goal, -_MOST), _MOST), max(_OFF * deviation, _NEAR)
            break
    return goals


def _standardize(scores: Floats, counts: Floats) -> Floats:
    """Return scores with mean 0 and deviation 1 over the counts; zeros where they do not vary."""
    shares = counts / max(float(counts.sum()), 1e-9)
    centered = scores - float(scores @ shares)
    deviation = math.sqrt(float(np.square(centered) @ shares))
    standard: Floats = centered / deviation if deviation > 1e-9 else np.zeros_like(centered)
    return standard


def _tilt_to(table: Floats, x: Floats, y: Floats, goal: float, least: float) -> Floats | None:
    """Return a table times exp(t x y), scaled to its own margins, whose moment is the goal; None where it is so near already."""
    total = max(float(table.sum()), 1e-9)
    rows = table.sum(axis=1)
    columns = table.sum(axis=0)

    def moment(counts: Floats) -> float:
        return float(x @ counts @ y) / total

    start = moment(table)
    if abs(goal - start) <= least:
        return None
    product = np.outer(x, y)
    bound = _FARTHEST / max(float(np.abs(product).max()), 1e-9)
    low, high = (0.0, bound) if goal > start else (-bound, 0.0)
    best = table
    for _ in range(_STEPS):
        t = (low + high) / 2.0
        best = rake(table * np.exp(t * product), rows, columns)
        short = goal - moment(best)
        if abs(short) < _NEAR:
            break
        low, high = (t, high) if short > 0 else (low, t)
    return best
