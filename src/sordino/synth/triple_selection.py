"""Which triples of columns to measure: those whose noisy score shows what no pair of them does. Knows no data.

A score is the l1 distance between a triple's table and the model's. Few triples are looked at, those with the fewest cells:
each costs noise in every score, and a scan.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from sordino.synth.arrays import Floats
from sordino.synth.junction_tree import Pair
from sordino.synth.markov_random_field import MarkovRandomField
from sordino.synth.measurement import FitSession, share_of
from sordino.synth.one_way_marginals import CompressedMarginals
from sordino.synth.pair_selection import Columns, expected_gains, model_pairs, score_pairs

_SHARE = 0.005  # of the loss, for the scores
_CLEAR = 0.03  # the noise of a score, in shares of the rows, up to which triples are looked at
_SHOWN = 4.0  # deviations of its noise above which a score shows a dependence
_STRONG = 0.05  # of the rows: a distance below it is left to pairs
_BEYOND = 3.0  # times the farthest pair of a triple
_VISIBLE = 0.5  # of a distance that a measurement must take away
_FEWEST, _MOST = 8, 60  # triples looked at, unless there are fewer
_ROWS = 2_000_000  # rows counted for all triples together, above the fewest: it bounds the time
_CELLS = 20_000  # of one triple


def choose_triples(
    session: FitSession,
    compressed: CompressedMarginals,
    field: MarkovRandomField | None,
    scores: Mapping[Pair, float],
    tables: int,
) -> list[Columns]:
    """Return the triples to measure beside `tables` pairs, the best first; `field` None compares with independent columns.

    `scores` are the distances of pairs from the same model: a triple is at least as far as its pairs, and only what is
    beyond the farthest of them shows a dependence that no pair has.

    Theorem: one unit of C rows moves each distance by at most C (2C under replace), as it moves the triple's table by that
    in l1 and | |H - M| - |H' - M| | <= |H - H'|; so T scores have an l2 sensitivity of sqrt(T) C: `Distances`. How many are
    asked follows from released numbers, what they are compared with likewise; the choice among them is post-processing.
    """
    candidates = _candidates(session, compressed)
    if not candidates:
        return []
    share = share_of(_SHARE)
    if field is None:
        models = [compressed.independent(t) for t in candidates]
    else:
        models = model_pairs(session, compressed, field, candidates)
    excess, deviation = score_pairs(session, compressed, candidates, models, share)
    within = [max(scores.get(pair, 0.0) for pair in itertools.combinations(t, 2)) for t in candidates]
    excess = np.where(excess > _BEYOND * np.array(within), excess, 0.0)
    shown = [i for i, x in enumerate(excess.tolist()) if x > max(_SHOWN * deviation, _STRONG * compressed.rows)]
    return _worthwhile(
        session, [candidates[i] for i in shown], excess[shown], [models[i] for i in shown], compressed, tables
    )


def edges_of(triples: Sequence[Columns]) -> list[Pair]:
    """Return the pairs of the triples: a clique that holds all three of one holds the triple."""
    return list(dict.fromkeys((a, b) for t in triples for a, b in itertools.combinations(t, 2)))


def _candidates(session: FitSession, compressed: CompressedMarginals) -> list[Columns]:
    """Return the triples to score: as many as keep the noise of each score clear, none where that is too few."""
    sizes, rows = compressed.sizes, compressed.rows
    live = [c for c, size in enumerate(sizes) if size > 1]
    every = math.comb(len(live), 3)
    clear = (_CLEAR * rows) ** 2 / session.variance(share_of(_SHARE))
    if session.split.currency == "epsilon":  # Laplace noise grows with the number of scores, not with its root
        clear = math.sqrt(clear)
    count = int(min(clear, max(_ROWS / rows, _FEWEST), _MOST))
    if share_of(_SHARE) >= session.left or not every or count < min(_FEWEST, every):
        return []
    cells = [(sizes[a] * sizes[b] * sizes[c], (a, b, c)) for a, b, c in itertools.combinations(live, 3)]
    return [columns for n, columns in sorted(cells)[:count] if n <= _CELLS]


def _worthwhile(
    session: FitSession,
    triples: Sequence[Columns],
    distances: Floats,
    models: Sequence[Floats],
    compressed: CompressedMarginals,
    tables: int,
) -> list[Columns]:
    """Return those of which a measurement beside the others is expected to take away half of the distance and more."""
    order = np.argsort(-distances, kind="stable").tolist()[: 1 + len(compressed.sizes) // 4]
    while order:
        deviation = math.sqrt(session.variance(tables=tables + len(order)))
        chosen = [models[i] for i in order]
        gains = expected_gains(distances[order], chosen, compressed.rows, deviation)
        if float((gains / distances[order]).min()) >= _VISIBLE:
            break
        order = order[:-1]
    return [triples[i] for i in order]
