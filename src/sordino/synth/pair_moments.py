"""Moments of pairs that rise together: a fitted field is moved to those that were measured. Knows released numbers only.

Each pair is read by itself, and the readings of several pairs in one clique contradict each other a little: the fit settles
between them cell by cell, which costs a strong correlation up to a tenth. The correlations read agree with each other. So the
fitted tables are tilted by factors exp(t x y), x and y the values of the codes, until they have them; columns keep their counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from sordino.synth.denoising import rake
from sordino.synth.encoded_column import Floats
from sordino.synth.junction_tree import Pair
from sordino.synth.markov_random_field import HARDEST, Factor, MarkovRandomField, calibrate, marginal
from sordino.synth.one_way_marginals import CompressedMarginals

# Correlations from which on a pair's moment is met, and the largest.
_STRONG = 0.5
_MOST = 0.98
# How far from the one read a correlation is moved, and how near it then comes.
_FAR = 0.02
_NEAR = 0.0025
# Turns over all pairs, sweeps of the fit in each, steps to a correlation, and the most that the log of a cell is moved.
_TURNS = 4
_SWEEPS = 2
_STEPS = 12
_FARTHEST = 20.0


def meet_moments(field: MarkovRandomField, compressed: CompressedMarginals, readings: Mapping[Pair, Floats]) -> None:
    """Tilt the tables of a field, in place, so that pairs of strongly correlated columns are correlated as they were read.

    Tables and columns are fitted one after the other: of columns that follow each other each would make up for all.
    """
    goals = _strong_moments(field, compressed, readings)
    hardest = HARDEST * compressed.rows
    columns = (
        [((c,), np.array(_counts(field, compressed, (c,)))) for c in range(len(compressed.sizes))] if goals else []
    )
    for _ in range(_TURNS if goals else 0):
        tilted = [
            (pair, table)
            for pair, (x, y, goal) in goals.items()
            if (table := _tilt_to(_counts(field, compressed, pair), x, y, goal)) is not None
        ]
        if not tilted:
            break
        factors = [Factor(c, t, hardest, np.zeros_like(t)) for c, t in (*tilted, *columns)]
        calibrate(field, factors, compressed.sizes, sweeps=_SWEEPS)


def _counts(field: MarkovRandomField, compressed: CompressedMarginals, columns: tuple[int, ...]) -> Floats:
    """Return the field's counts over one or two columns that a clique holds."""
    home = field.tree.require_home(columns, compressed.sizes)
    return marginal(field.tables[home], field.tree.cliques[home], columns)


def _strong_moments(
    field: MarkovRandomField, compressed: CompressedMarginals, readings: Mapping[Pair, Floats]
) -> dict[Pair, tuple[Floats, Floats, float]]:
    """Return for each strong pair that a clique holds the values of its codes, of mean 0 and deviation 1, and its correlation."""
    goals: dict[Pair, tuple[Floats, Floats, float]] = {}
    for (a, b), table in readings.items():
        if field.tree.home((a, b), compressed.sizes) is None:
            continue
        values = [compressed.scores(c)[1:] for c in (a, b)]
        if not all(values):
            continue
        x, y = (_standardize(v[0], compressed.counts[c]) for v, c in zip(values, (a, b), strict=True))
        goal = float(x @ table @ y) / max(float(table.sum()), 1e-9)
        if abs(goal) >= _STRONG:
            goals[a, b] = x, y, min(max(goal, -_MOST), _MOST)
    # the strongest last: what turns leave open is theirs least
    return dict(sorted(goals.items(), key=lambda one: abs(one[1][2])))


def _standardize(scores: Floats, counts: Floats) -> Floats:
    """Return scores with mean 0 and deviation 1 over the counts; zeros where they do not vary."""
    shares = counts / max(float(counts.sum()), 1e-9)
    centered = scores - float(scores @ shares)
    deviation = math.sqrt(float(np.square(centered) @ shares))
    standard: Floats = centered / deviation if deviation > 1e-9 else np.zeros_like(centered)
    return standard


def _tilt_to(table: Floats, x: Floats, y: Floats, goal: float) -> Floats | None:
    """Return a table times exp(t x y), scaled to its own margins, whose moment is the goal; None where it is so near already."""
    total = max(float(table.sum()), 1e-9)
    rows = table.sum(axis=1)
    columns = table.sum(axis=0)

    def moment(counts: Floats) -> float:
        return float(x @ counts @ y) / total

    start = moment(table)
    if abs(goal - start) <= _FAR:
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
