"""Trees of pairs and fixed tables: MST, a PrivBayes-like tree, and marginals that a person names. Knows no data."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from sordino.errors import DeclarationError
from sordino.synth.access import NoisyTable
from sordino.synth.adaptive import measure_pairs, score_pairs
from sordino.synth.columns import EncodedColumn
from sordino.synth.junction import Pair, columns_of, count_cells, maximal_cliques
from sordino.synth.loss_shares import share_of
from sordino.synth.outcome import FittedModel, compress_columns, keep_codes
from sordino.synth.pairs import CompressedMarginals, fit_field, pair_table
from sordino.synth.projection import Floats
from sordino.synth.session import FitSession
from sordino.synth.ways import OneWayMarginals

__all__ = ["fit_marginals", "fit_mst", "fit_tree", "require_cells"]

_SWEEPS = 40
_THIRD = Fraction(1, 3)


def fit_mst(session: FitSession, columns: Sequence[EncodedColumn]) -> FittedModel:
    """Return the tree of the d - 1 pairs that lie farthest from independence, a third of the loss each step.

    McKenna, Miklau, Sheldon 2021, Winning the NIST contest, section 4 - with one noisy vector of all scores in place of
    d - 1 exponential mechanisms, and codes merged under two deviations in place of three.
    """
    if len(columns) == 1:
        return _only_ways(session, columns, "MST")
    one_way = session.measure_one_way(columns, _THIRD * session.left)
    compressed = compress_columns(one_way, one_way.compress_domain())
    pairs = list(itertools.combinations(range(len(columns)), 2))
    models = [compressed.independent(p) for p in pairs]
    margins = [compressed.independent_variance(p) for p in pairs]
    scores, _ = score_pairs(session, compressed, pairs, models, session.left / 2, margins=margins)
    tree = _spanning(pairs, scores, len(columns))
    return _of_pairs(session, one_way, compressed, tree, "MST: a tree of pairs")


def fit_tree(session: FitSession, columns: Sequence[EncodedColumn]) -> FittedModel:
    """Return a Bayesian network of one parent a column, grown from the column with the most keys that show.

    After PrivBayes (Zhang, Cormode, Procopiuc, Srivastava, Xiao 2017, section 4): each column joins the parent it lies
    farthest from independent of, by noisy distances with a tenth of the loss rather than mutual information, whose
    sensitivity is larger.
    """
    if len(columns) == 1:
        return _only_ways(session, columns, "tree")
    one_way = session.measure_one_way(columns, share_of(float(session.left) * 0.3))
    compressed = compress_columns(one_way, one_way.compress_domain())
    pairs = list(itertools.combinations(range(len(columns)), 2))
    models = [compressed.independent(p) for p in pairs]
    margins = [compressed.independent_variance(p) for p in pairs]
    scores, _ = score_pairs(session, compressed, pairs, models, share_of(float(session.left) * 0.15), margins=margins)
    by_pair = dict(zip(pairs, scores.tolist(), strict=True))
    joined = [int(np.argmax(compressed.sizes))]
    chosen: list[Pair] = []
    while len(joined) < len(columns):
        left = [c for c in range(len(columns)) if c not in joined]
        best = max(((min(a, b), max(a, b)) for a in joined for b in left), key=lambda p: (by_pair[p], p))
        chosen.append(best)
        joined.append(best[0] if best[0] in left else best[1])
    return _of_pairs(session, one_way, compressed, chosen, "a tree of one parent a column")


def fit_marginals(
    session: FitSession, columns: Sequence[EncodedColumn], cliques: Sequence[tuple[str, ...]]
) -> FittedModel:
    """Return the model fitted to one-way counts (a third of the loss) and to the tables of the cliques named."""
    place = {c.name: i for i, c in enumerate(columns)}
    wanted = [tuple(sorted(place[n] for n in clique)) for clique in cliques]
    several = list(dict.fromkeys(w for w in wanted if len(w) > 1))
    if not several:
        return _only_ways(session, columns, "one-way marginals")
    one_way = session.measure_one_way(columns, _THIRD * session.left)
    compressed = compress_columns(one_way, keep_codes(one_way))
    masks = _masks(several, compressed.sizes)
    counts = session.measure_weighted([pair_table(compressed, w) for w in several], session.left, [1.0] * len(several))
    measured: dict[tuple[int, ...], NoisyTable] = {several[i]: c for i, c in counts.items()}
    field = fit_field(compressed, measured, masks, sweeps=_SWEEPS, kept={})
    return FittedModel(one_way, compressed, field, measured, f"{len(several)} marginals")


def require_cells(columns: Sequence[EncodedColumn], cliques: Sequence[tuple[str, ...]], cap: float) -> int:
    """Return the cells of the tree that holds the cliques; raises DeclarationError where they pass `cap`."""
    place = {c.name: i for i, c in enumerate(columns)}
    sizes = [c.size for c in columns]
    masks = _masks([tuple(place[n] for n in clique) for clique in cliques], sizes)
    worst = max(masks, key=lambda m: count_cells(m, sizes))
    total = sum(count_cells(m, sizes) for m in masks)
    if total > cap:
        names = ", ".join(columns[c].name for c in columns_of(worst))
        raise DeclarationError(
            f"these marginals need {total:,} cells, above the cap of {int(cap):,}; the largest table joins {names}. "
            "Name fewer columns together, bin or group their declared values, or use synth.fit, which chooses by itself"
        )
    return total


def _masks(cliques: Sequence[Sequence[int]], sizes: Sequence[int]) -> list[int]:
    around = [0] * len(sizes)
    for clique in cliques:
        for a, b in itertools.permutations(clique, 2):
            around[a] |= 1 << b
    return maximal_cliques(around, sizes, cap=math.inf) or []


def _spanning(pairs: Sequence[Pair], scores: Floats, columns: int) -> list[Pair]:
    """Return the spanning tree of the greatest total score (Kruskal)."""
    root = list(range(columns))

    def top(c: int) -> int:
        while root[c] != c:
            c = root[c]
        return c

    chosen = []
    for i in np.argsort(-scores, kind="stable").tolist():
        a, b = pairs[i]
        if top(a) != top(b):
            root[top(a)] = top(b)
            chosen.append((a, b))
    return chosen


def _of_pairs(
    session: FitSession, one_way: OneWayMarginals, compressed: CompressedMarginals, pairs: Sequence[Pair], tier: str
) -> FittedModel:
    measured = measure_pairs(session, compressed, pairs, session.left, {})
    field = fit_field(compressed, measured, _masks(pairs, compressed.sizes), sweeps=_SWEEPS, kept={})
    return FittedModel(one_way, compressed, field, measured, tier)


def _only_ways(session: FitSession, columns: Sequence[EncodedColumn], tier: str) -> FittedModel:
    from sordino.synth.outcome import independent_model

    return independent_model(session.measure_one_way(columns, session.left), tier)
