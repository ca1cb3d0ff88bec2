"""Moments of pairs that rise together: readings and a fitted field are moved to those measured. Knows released numbers only.

A pair is read cell by cell, and a cell of two tails holds less than its noise: what is lost there is most of a correlation.
The sum of x y over all cells, x and y the values of the codes, has little noise. So a reading is tilted by a factor exp(t x y)
towards the correlation of its noisy cells. The readings of several pairs in one clique still contradict each other a little:
the fit settles between them cell by cell, which costs a strong correlation up to a tenth. So the fitted tables are tilted until
they have the correlations read; columns keep their counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from sordino.synth.denoising import rake
from sordino.synth.encoded_column import Floats
from sordino.synth.junction_tree import Pair
from sordino.synth.markov_random_field import HARDEST, Factor, MarkovRandomField, calibrate, marginal
from sordino.synth.measurement import NoisyTable
from sordino.synth.one_way_marginals import CompressedMarginals

# Correlations from which on a pair's moment is met: where cells have little noise, in deviations of its own, and always.
_WEAK = 0.1
_CLEAR = 3.0
_STRONG = 0.3
# The largest.
_MOST = 0.98
# How far from the one read a field's correlation is moved, a reading from that of its cells, and how near they then come.
_FAR = 0.02
_OFF = 0.005
_NEAR = 0.0025
# About the error of a reading's correlation beside which the noise of the cells' own counts, and the largest.
_TYPICAL = 0.06
_LARGEST = 0.3
# Turns over all pairs, sweeps of the fit in each, steps to a correlation, and the most that the log of a cell is moved.
_TURNS = 4
_SWEEPS = 2
_STEPS = 12
_FARTHEST = 20.0


def keep_moment(table: Floats, noisy: NoisyTable, scores: tuple[Floats, Floats]) -> Floats:
    """Return the table that a pair's noisy counts are read as, tilted towards the correlation that these have.

    With `scores` x and y of mean 0 and deviation 1 (`moment_scores`) the correlation of the noisy cells, sum x y n / sum n,
    has no bias, and the deviation s = sigma |x| |y| / sum n. It is taken over by t^2 / (t^2 + s^2), t the error of the
    reading: about what readings err by, or what the difference d shows above its own noise, d^2 - s^2, within bounds. The
    margins stay.
    """
    x, y = scores
    total = max(float(table.sum()), 1e-9)
    now = float(x @ table @ y) / total
    variance = noisy.variance * float(x @ x) * float(y @ y) / total**2
    beyond = float(x @ noisy.cells @ y) / total - now
    error = min(max(beyond**2 - variance, _TYPICAL**2), _LARGEST**2)
    goal = now + beyond * error / (error + variance)
    tilted = _tilt_to(table, x, y, min(max(goal, -_MOST), _MOST), off=_OFF)
    return table if tilted is None else tilted


def moment_scores(compressed: CompressedMarginals, pair: Pair) -> tuple[Floats, Floats] | None:
    """Return the values of the codes of two columns, of mean 0 and deviation 1 over their counts; None without an order."""
    values = [compressed.scores(column)[1:] for column in pair]
    if not all(values):
        return None
    x, y = (standardize(v[0], compressed.counts[column]) for v, column in zip(values, pair, strict=True))
    return x, y


def meet_moments(
    field: MarkovRandomField,
    compressed: CompressedMarginals,
    readings: Mapping[Pair, Floats],
    variances: Mapping[Pair, float],
) -> None:
    """Tilt the tables of a field, in place, so that pairs of clearly correlated columns are correlated as they were read.

    `variances` are those of a cell of each pair's noisy table: what a moment's own noise may be is left as it was fitted.

    Tables and columns are fitted one after the other: of columns that follow each other each would make up for all.
    """
    goals = _clear_moments(field, compressed, readings, variances)
    hardest = HARDEST * compressed.rows
    columns = (
        [((c,), np.array(_counts(field, compressed, (c,)))) for c in range(len(compressed.sizes))] if goals else []
    )
    for _ in range(_TURNS if goals else 0):
        tilted = [
            (pair, table)
            for pair, (x, y, goal) in goals.items()
            if (table := _tilt_to(_counts(field, compressed, pair), x, y, goal, off=_FAR)) is not None
        ]
        if not tilted:
            break
        factors = [Factor(c, t, hardest, np.zeros_like(t)) for c, t in (*tilted, *columns)]
        calibrate(field, factors, compressed.sizes, sweeps=_SWEEPS)


def _counts(field: MarkovRandomField, compressed: CompressedMarginals, columns: tuple[int, ...]) -> Floats:
    """Return the field's counts over one or two columns that a clique holds."""
    home = field.tree.require_home(columns, compressed.sizes)
    return marginal(field.tables[home], field.tree.cliques[home], columns)


def _clear_moments(
    field: MarkovRandomField,
    compressed: CompressedMarginals,
    readings: Mapping[Pair, Floats],
    variances: Mapping[Pair, float],
) -> dict[Pair, tuple[Floats, Floats, float]]:
    """Return for each clear pair that a clique holds the values of its codes, of mean 0 and deviation 1, and its correlation."""
    goals: dict[Pair, tuple[Floats, Floats, float]] = {}
    for pair, table in readings.items():
        scores = moment_scores(compressed, pair)
        if scores is None or field.tree.home(pair, compressed.sizes) is None:
            continue
        x, y = scores
        total = max(float(table.sum()), 1e-9)
        goal = float(x @ table @ y) / total
        noise = math.sqrt(variances[pair] * float(x @ x) * float(y @ y)) / total
        if abs(goal) >= min(max(_WEAK, _CLEAR * noise), _STRONG):
            goals[pair] = x, y, min(max(goal, -_MOST), _MOST)
    # the strongest last: what turns leave open is theirs least
    return dict(sorted(goals.items(), key=lambda one: abs(one[1][2])))


def standardize(scores: Floats, counts: Floats) -> Floats:
    """Return scores of codes with mean 0 and deviation 1 over the counts; zeros where they do not vary."""
    shares = counts / max(float(counts.sum()), 1e-9)
    centered = scores - float(scores @ shares)
    deviation = math.sqrt(float(np.square(centered) @ shares))
    standard: Floats = centered / deviation if deviation > 1e-9 else np.zeros_like(centered)
    return standard


def _tilt_to(table: Floats, x: Floats, y: Floats, goal: float, *, off: float) -> Floats | None:
    """Return a table times exp(t x y), scaled to its own margins, whose moment is the goal; None where it is `off` by no more."""
    total = max(float(table.sum()), 1e-9)
    rows = table.sum(axis=1)
    columns = table.sum(axis=0)

    def moment(counts: Floats) -> float:
        return float(x @ counts @ y) / total

    start = moment(table)
    if abs(goal - start) <= off:
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
