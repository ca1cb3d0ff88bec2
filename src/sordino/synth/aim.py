"""AIM: adaptive rounds that each measure the pair of a workload that the model answers worst. Knows no data."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from sordino.synth.arrays import Floats
from sordino.synth.encoded_column import EncodedColumn
from sordino.synth.fitted_model import FittedModel, Measured, fit_field, independent_model, merge_measurements
from sordino.synth.junction_tree import Pair, grow_clique
from sordino.synth.measurement import FitSession, share_of
from sordino.synth.pair_selection import model_pairs, score_pairs

_ONE_WAY = 0.2
_ROUNDS = 8
_SWEEPS, _SWEEPS_LAST = 10, 40
_SCORES = 0.3  # of a round's part, for its scores
_MEAN = math.sqrt(2.0 / math.pi)


def fit_aim(session: FitSession, columns: Sequence[EncodedColumn], *, cap: float) -> FittedModel:
    """Return a model fitted in rounds: score the pairs against the model, measure the worst, fit, spend more on the next.

    After AIM (McKenna, Mullins, Sheldon, Miklau 2022, algorithm 2): score = distance - sqrt(2 / pi) sigma cells, rounds
    that double their part of the loss. Pairs are scored by one noisy vector a round, and several are measured in it, since
    each selection by itself would cost a pass over the data.
    """
    if len(columns) == 1:
        return independent_model(session.measure_one_way(columns, session.left), "AIM")
    one_way = session.measure_one_way(columns, share_of(_ONE_WAY * float(session.left)))
    compressed = one_way.compress()
    pairs = list(itertools.combinations(range(len(columns)), 2))
    measured: Measured = {}
    potentials: dict[tuple[int, ...], Floats] = {}
    edges: list[Pair] = []
    cliques = [1 << i for i in range(len(columns))]
    field = fit_field(compressed, {}, cliques, sweeps=0, potentials={})
    most = max(1, len(columns) // 4)
    for turn in range(_ROUNDS):
        part = _round(session.left, turn)
        scores_share = share_of(float(part) * _SCORES)
        models = model_pairs(session, compressed, field, pairs)
        distance, _ = score_pairs(session, compressed, pairs, models, scores_share)
        rest = part - scores_share if turn < _ROUNDS - 1 else session.left
        deviation = math.sqrt(session.variance(rest, tables=most))
        visible = np.array([_visible_cells(m, deviation) for m in models])
        worth = distance - _MEAN * deviation * visible
        order = [pairs[i] for i in np.argsort(-worth, kind="stable").tolist() if worth[i] > 0]
        best = order or [pairs[int(np.argmax(distance))]]
        taken, cliques = grow_clique(best, compressed.sizes, cap=cap, start=edges, most=most)
        taken = taken or edges[:1]
        if not taken:
            break
        counts = session.measure_weighted([compressed.table(p) for p in taken], rest, [1.0] * len(taken))
        measured = merge_measurements(measured, {taken[i]: c for i, c in counts.items()})
        edges = list(dict.fromkeys([*edges, *taken]))
        sweeps = _SWEEPS_LAST if turn == _ROUNDS - 1 else _SWEEPS
        field = fit_field(compressed, measured, cliques, sweeps=sweeps, potentials=potentials)
    return FittedModel(one_way, compressed, field, measured, f"AIM: {len(measured)} pairs in {_ROUNDS} rounds")


def _round(left: Fraction, turn: int) -> Fraction:
    """Return this round's part of what is left: parts grow by half from round to round."""
    weights = [1.5**i for i in range(turn, _ROUNDS)]
    return share_of(float(left) * weights[0] / sum(weights))


def _visible_cells(model: Floats, deviation: float) -> float:
    """Return the number of cells that stand out from the noise of a measurement: others cost nothing, as the fit ignores them."""
    return float((model > 0.8 * deviation).sum())
