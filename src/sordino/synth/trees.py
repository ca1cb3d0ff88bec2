"""Fits of trees and cliques: MST, Tree, AIM, and the adaptive engine."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.synth.encoded_column import EncodedColumn, Floats
from sordino.synth.fitted_model import FittedModel, Measured, fit_field, independent_model, merge_measurements
from sordino.synth.junction_tree import Pair, columns_of, count_cells, grow_clique, maximal_cliques
from sordino.synth.measurement import FitSession, share_of
from sordino.synth.one_way_marginals import CompressedMarginals, OneWayMarginals, combine_one_way
from sordino.synth.pair_selection import (
    SCORES,
    Columns,
    choose_pairs,
    choose_triples,
    edges_of,
    look_pays,
    measure_pairs,
    model_pairs,
    score_independence,
    score_pairs,
    shrink_scores,
)

# ---- Trees of pairs and fixed tables: MST, a PrivBayes-like tree, and marginals that a person names. Knows no data

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
    compressed = one_way.compress(pair_deviation=math.sqrt(session.variance(tables=2 * len(one_way.columns))))
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


# ---- AIM: adaptive rounds that each measure the pair of a workload that the model answers worst. Knows no data

_ONE_WAY = 0.2
_ROUNDS = 8
_SWEEPS_aim = 10
_SWEEPS_LAST = 40
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
    compressed = one_way.compress(pair_deviation=math.sqrt(session.variance(tables=2 * len(one_way.columns))))
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
        sweeps = _SWEEPS_LAST if turn == _ROUNDS - 1 else _SWEEPS_aim
        field = fit_field(compressed, measured, cliques, sweeps=sweeps, potentials=potentials)
    return FittedModel(one_way, compressed, field, measured, f"AIM: {len(measured)} pairs in {_ROUNDS} rounds")


def _round(left: Fraction, turn: int) -> Fraction:
    """Return this round's part of what is left: parts grow by half from round to round."""
    weights = [1.5**i for i in range(turn, _ROUNDS)]
    return share_of(float(left) * weights[0] / sum(weights))


def _visible_cells(model: Floats, deviation: float) -> float:
    """Return the number of cells that stand out from the noise of a measurement: others cost nothing, as the fit ignores them."""
    return float((model > 0.8 * deviation).sum())


# ---- The default synthesizer: independent columns, then a graph of measured pairs, as large as the budget can pay
#
# Every access is a release of tables of counts or of distances to a public model; all that is decided between is
# post-processing, so the privacy proof is the curator's. Knows no data.

_COUNT = 0.004  # of the loss, for the number of rows
_ONE_WAY_MOST = 0.5  # where their error is large
_ONE_WAY_ERROR = 0.006  # the mean error of one-way counts above which they get more
_SHARP, _SCORES_LEAST = 0.012, 0.01  # noise of a score, in shares of the rows, that is small; what scores get at least
_FIRST = 0.3  # of what is left after the first scores, for the first round of pairs
_SMALL, _LARGE = 3e4, 1.5e5  # cells of all cliques, first and last round: pairs beyond them shape the rows alone
_SWEEPS_adaptive = 10
_SWEEPS_LAST_adaptive = 30
_FAINT_ERROR = 0.02  # the mean error of one-way counts above which a second round of pairs does not pay


def fit_adaptive(
    session: FitSession,
    columns: Sequence[EncodedColumn],
    *,
    cap: float | None = None,
    pairs: Sequence[Pair] | None = None,
    rows: float | None = None,
) -> FittedModel:
    """Return the model fitted through the session, spending all that is left of it; `pairs` None looks at all.

    `rows` is a guess at their number, None counts them.
    """
    pairs = list(itertools.combinations(range(len(columns)), 2)) if pairs is None else pairs
    if rows is None:
        rows = session.count_rows(min(columns, key=lambda c: c.size), share_of(_COUNT))
    if not look_pays(session.split, session.gaussian, columns, pairs=len(pairs), rows=rows):
        tier = "independent columns: the loss is too small for more, with so few rows"
        return independent_model(session.measure_one_way(columns, session.left), tier)
    session.turn_gaussian()
    one_way = _measure_one_way(session, columns)
    compressed = one_way.compress(pair_deviation=math.sqrt(session.variance(tables=2 * len(one_way.columns))))
    excess, deviation = score_independence(session, compressed, pairs, _share_of_scores(session, pairs, one_way.rows))
    scores = shrink_scores(excess, deviation)
    first = dict(zip(pairs, scores.tolist(), strict=True))
    part, taken = _share_of_one_way(session, one_way, compressed, pairs, scores)
    large = _LARGE if cap is None else cap
    if not taken:
        triples = _fitting(choose_triples(session, compressed, None, first, 0), compressed, [], large)
        if triples:
            measured = measure_pairs(session, compressed, triples, session.left, {})
            return _fit_final(
                one_way, compressed, measured, grow_clique(edges_of(triples), compressed.sizes, cap=large)[1]
            )
    if not taken or (part and float(one_way.errors().mean()) > _FAINT_ERROR):
        return _fit_in_one_round(session, one_way, compressed, taken, part)
    return _fit_in_two_rounds(session, one_way, compressed, first, large)


def _fit_in_two_rounds(
    session: FitSession,
    one_way: OneWayMarginals,
    compressed: CompressedMarginals,
    first: dict[Pair, float],
    large: float,
) -> FittedModel:
    """Return the model of pairs chosen twice, by their `first` scores and by those against the model of the first round."""
    pairs = list(first)
    scores = np.array(list(first.values()))
    budget = share_of(float(session.left) * _FIRST)
    each = session.variance(budget)
    taken, _ = choose_pairs(compressed, pairs, scores, variance_each=each, cap=min(_SMALL, large))
    measured = measure_pairs(session, compressed, taken, budget, {})
    inside, cliques = grow_clique(taken, compressed.sizes, cap=min(_SMALL, large))
    potentials: dict[tuple[int, ...], Floats] = {}
    field = fit_field(compressed, measured, cliques, sweeps=_SWEEPS_adaptive, potentials=potentials)
    models = model_pairs(session, compressed, field, pairs)
    share = _share_of_scores(session, pairs, compressed.rows)
    again = dict(zip(pairs, shrink_scores(*score_pairs(session, compressed, pairs, models, share)), strict=True))
    triples = _fitting(choose_triples(session, compressed, field, again, 2 * len(taken)), compressed, inside, large)
    inside = list(dict.fromkeys([*inside, *edges_of(triples)]))
    wanted = _choose_again(session, compressed, again, first, taken, inside, large)
    cliques = grow_clique(wanted, compressed.sizes, cap=large, start=inside)[1]
    more = measure_pairs(session, compressed, [*wanted, *triples], session.left, measured)
    return _fit_final(one_way, compressed, merge_measurements(measured, more), cliques, potentials)


def _share_of_scores(session: FitSession, pairs: Sequence[Pair], rows: float) -> Fraction:
    """Return the share for one round of scores: no more than makes their noise small beside the rows."""
    beyond = session.variance(share_of(SCORES), tables=len(pairs)) / (_SHARP * rows) ** 2
    power = 0.5 if session.split.currency == "epsilon" else 1.0
    return share_of(min(max(SCORES * beyond**power, _SCORES_LEAST), SCORES))


def _fitting(
    triples: Sequence[Columns], compressed: CompressedMarginals, inside: Sequence[Pair], cap: float
) -> list[Columns]:
    """Return the triples that cliques within the cap hold beside the pairs `inside`."""
    found: list[Columns] = []
    start = list(inside)
    for triple in triples:
        edges = edges_of([triple])
        taken, _ = grow_clique(edges, compressed.sizes, cap=cap, start=start)
        if len(taken) == len(edges):
            found.append(triple)
            start += edges
    return found


def _fit_final(
    one_way: OneWayMarginals,
    compressed: CompressedMarginals,
    measured: Measured,
    cliques: Sequence[int],
    potentials: dict[Columns, Floats] | None = None,
) -> FittedModel:
    """Return the model of the last round."""
    field = fit_field(compressed, measured, cliques, sweeps=_SWEEPS_LAST_adaptive, potentials=potentials or {})
    triples = any(len(columns) > 2 for columns in measured)
    return FittedModel(
        one_way, compressed, field, measured, f"a clique tree of pairs{' and triples' if triples else ''}"
    )


def _measure_one_way(session: FitSession, columns: Sequence[EncodedColumn]) -> OneWayMarginals:
    """Return the one-way counts, asked again where their error is large."""
    first = share_of(_ONE_WAY)
    one_way = session.measure_one_way(columns, first)
    error = float(one_way.errors().mean())
    more = share_of(min(_ONE_WAY * (error / _ONE_WAY_ERROR) ** 2, _ONE_WAY_MOST)) - first
    return combine_one_way(one_way, session.measure_one_way(one_way.columns, more)) if more > 0 else one_way


def _choose_again(
    session: FitSession,
    compressed: CompressedMarginals,
    scores: dict[Pair, float],
    first: dict[Pair, float],
    done: list[Pair],
    inside: list[Pair],
    cap: float,
) -> list[Pair]:
    """Return all pairs to measure, old ones first, by their second `scores`, against the model."""
    fresh = [p for p in scores if p not in done]
    more, _ = choose_pairs(
        compressed,
        fresh,
        np.array([scores[p] for p in fresh]),
        variance_each=session.variance(),
        cap=cap,
        start=inside,
        kept=done,
        kept_distances=[first[p] for p in done],
    )
    return [*done, *more]


def _share_of_one_way(
    session: FitSession,
    one_way: OneWayMarginals,
    compressed: CompressedMarginals,
    pairs: Sequence[Pair],
    scores: Floats,
) -> tuple[Fraction, list[Pair]]:
    """Return the part of what is left to spend on one-way counts - none, half or all - and the pairs that the rest measures.

    It is the part that saves the most error: an error of one-way counts is in d - 1 pairs, and a measured pair saves what
    stands out of the noise that the rest can pay. Where no pair shows, all goes to one-way counts.
    """
    errors = one_way.errors() * 2.0 * compressed.rows
    have = float(np.mean([1.0 / v for v in one_way.variances]))
    best: tuple[float, Fraction, list[Pair]] = (-1.0, Fraction(1), [])
    for part in (Fraction(0), Fraction(1, 2), Fraction(1)):
        more = 1.0 / session.variance(session.left * part, tables=len(errors)) if part else 0.0
        gain = (len(errors) - 1) * float(errors.sum()) * (1.0 - math.sqrt(have / (have + more)))
        taken: list[Pair] = []
        worth = 0.0
        if part < 1:
            each = session.variance(session.left * (1 - part))
            taken, worth = choose_pairs(compressed, pairs, scores, variance_each=each, cap=_SMALL)
        if gain + worth > best[0]:
            best = (gain + worth, part, taken)
    return (best[1], best[2]) if best[2] else (Fraction(1), [])


def _fit_in_one_round(
    session: FitSession,
    one_way: OneWayMarginals,
    compressed: CompressedMarginals,
    taken: Sequence[Pair],
    part: Fraction,
) -> FittedModel:
    """Spend a part of what is left on one-way counts, and the rest on the pairs taken."""
    if part:
        one_way = combine_one_way(one_way, session.measure_one_way(compressed.columns, session.left * part))
    if not taken:
        return independent_model(one_way, "independent columns: no pair shows above the noise")
    compressed = one_way.compress(compressed.codes)
    measured = measure_pairs(session, compressed, taken, session.left, {})
    cliques = grow_clique(taken, compressed.sizes, cap=_SMALL)[1]
    field = fit_field(compressed, measured, cliques, sweeps=_SWEEPS_LAST_adaptive, potentials={})
    return FittedModel(one_way, compressed, field, measured, "a small tree of pairs")
