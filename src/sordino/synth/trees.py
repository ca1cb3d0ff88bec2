"""Trees of pairs and fixed tables: MST, a PrivBayes-like tree, and marginals that a person names. Knows no data."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.synth.encoded_column import EncodedColumn
from sordino.synth.fitted_model import FittedModel, fit_field, independent_model
from sordino.synth.junction_tree import Pair, columns_of, count_cells, maximal_cliques
from sordino.synth.measurement import FitSession, share_of
from sordino.synth.one_way_marginals import OneWayMarginals
from sordino.synth.pair_selection import measure_pairs, score_independence

_SWEEPS = 40


def fit_mst(session: FitSession, columns: Sequence[EncodedColumn]) -> FittedModel:
    """Return the tree of the d - 1 pairs that lie farthest from independence, a third of the loss each step.

    McKenna, Miklau, Sheldon 2021, Winning the NIST contest, section 4 - with one noisy vector of all scores in place of
    d - 1 exponential mechanisms, and codes merged under two deviations in place of three.
    """
    if len(columns) == 1:
        return independent_model(session.measure_one_way(columns, session.left), "MST")
    one_way = session.measure_one_way(columns, session.left / 3)
    return _fit_tree(session, one_way, session.left / 2, _spanning_tree, "MST: a tree of pairs")


def fit_tree(session: FitSession, columns: Sequence[EncodedColumn]) -> FittedModel:
    """Return a Bayesian network of one parent a column, grown from the column with the most keys that show.

    After PrivBayes (Zhang, Cormode, Procopiuc, Srivastava, Xiao 2017, section 4): each column joins the parent it lies
    farthest from independent of, by noisy distances with a tenth of the loss rather than mutual information, whose
    sensitivity is larger.
    """
    if len(columns) == 1:
        return independent_model(session.measure_one_way(columns, session.left), "tree")
    one_way = session.measure_one_way(columns, share_of(float(session.left) * 0.3))
    scoring = share_of(float(session.left) * 0.15)
    return _fit_tree(session, one_way, scoring, _grow_tree, "a tree of one parent a column")


def fit_marginals(
    session: FitSession, columns: Sequence[EncodedColumn], cliques: Sequence[tuple[str, ...]]
) -> FittedModel:
    """Return the model fitted to one-way counts (a third of the loss) and to the tables of the cliques named."""
    place = {c.name: i for i, c in enumerate(columns)}
    wanted = [tuple(sorted(place[n] for n in clique)) for clique in cliques]
    several = list(dict.fromkeys(w for w in wanted if len(w) > 1))
    if not several:
        return independent_model(session.measure_one_way(columns, session.left), "one-way marginals")
    one_way = session.measure_one_way(columns, session.left / 3)
    compressed = one_way.compress(one_way.identity_codes())
    masks = _maximal_cliques(several, compressed.sizes)
    counts = session.measure_weighted([compressed.table(w) for w in several], session.left, [1.0] * len(several))
    measured = {several[i]: c for i, c in counts.items()}
    field = fit_field(compressed, measured, masks, sweeps=_SWEEPS, potentials={})
    return FittedModel(one_way, compressed, field, measured, f"{len(several)} marginals")


def require_cells(columns: Sequence[EncodedColumn], cliques: Sequence[tuple[str, ...]], cap: float) -> None:
    """Raise DeclarationError where the tree that holds the cliques has more cells than `cap`."""
    place = {c.name: i for i, c in enumerate(columns)}
    sizes = [c.size for c in columns]
    masks = _maximal_cliques([tuple(place[n] for n in clique) for clique in cliques], sizes)
    total = sum(count_cells(m, sizes) for m in masks)
    if total > cap:
        worst = max(masks, key=lambda m: count_cells(m, sizes))
        names = ", ".join(columns[c].name for c in columns_of(worst))
        raise DeclarationError(
            f"these marginals need {total:,} cells, above the cap of {int(cap):,}; the largest table joins {names}. "
            "Name fewer columns together, bin or group their declared values, or use synth.fit, which chooses by itself"
        )


def _fit_tree(
    session: FitSession,
    one_way: OneWayMarginals,
    scoring: Fraction,
    choose: Callable[[dict[Pair, float], Sequence[int]], list[Pair]],
    tier: str,
) -> FittedModel:
    """Return the model of a tree of pairs, chosen by scores for the share `scoring`; what is left measures them."""
    compressed = one_way.compress()
    pairs = list(itertools.combinations(range(len(compressed.columns)), 2))
    scores, _ = score_independence(session, compressed, pairs, scoring)
    tree = choose(dict(zip(pairs, scores.tolist(), strict=True)), compressed.sizes)
    measured = measure_pairs(session, compressed, tree, session.left, {})
    cliques = _maximal_cliques(tree, compressed.sizes)
    field = fit_field(compressed, measured, cliques, sweeps=_SWEEPS, potentials={})
    return FittedModel(one_way, compressed, field, measured, tier)


def _spanning_tree(scores: dict[Pair, float], sizes: Sequence[int]) -> list[Pair]:
    """Return the spanning tree of the greatest total score, the best pair first (Kruskal)."""
    root = list(range(len(sizes)))
    chosen: list[Pair] = []
    for a, b in sorted(scores, key=lambda p: -scores[p]):
        if root[a] != root[b]:
            chosen.append((a, b))
            root = [root[a] if r == root[b] else r for r in root]
    return chosen


def _grow_tree(scores: dict[Pair, float], sizes: Sequence[int]) -> list[Pair]:
    """Return the same tree, grown from the column of the most codes (Prim)."""
    joined = {int(np.argmax(sizes))}
    chosen: list[Pair] = []
    while len(joined) < len(sizes):
        best = max((p for p in scores if (p[0] in joined) != (p[1] in joined)), key=lambda p: (scores[p], p))
        chosen.append(best)
        joined |= set(best)
    return chosen


def _maximal_cliques(cliques: Sequence[Sequence[int]], sizes: Sequence[int]) -> list[int]:
    around = [0] * len(sizes)
    for clique in cliques:
        for a, b in itertools.permutations(clique, 2):
            around[a] |= 1 << b
    return maximal_cliques(around, sizes, cap=math.inf) or []
