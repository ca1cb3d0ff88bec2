"""Fits of trees and cliques: MST, Tree, AIM, and the adaptive engine."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.synth.encoded_column import EncodedColumn, Floats
from sordino.synth.fitted_model import (
    FittedModel,
    Measured,
    fit_field,
    independent_model,
    merge_measurements,
    sharpen_counts,
)
from sordino.synth.junction_tree import Pair, columns_of, count_cells, grow_clique, maximal_cliques
from sordino.synth.markov_random_field import MarkovRandomField
from sordino.synth.measurement import FitSession, Step, rest, share_of
from sordino.synth.one_way_marginals import CompressedMarginals, OneWayMarginals, combine_one_way
from sordino.synth.pair_forest import MEASURE_FEW, fit_forest
from sordino.synth.pair_selection import (
    SCORE_PAIRS,
    SCORE_TRIPLES,
    Columns,
    beyond_forest,
    choose_pairs,
    choose_triples,
    edges_of,
    look_pays,
    measure_pairs,
    model_pairs,
    restrain_pairs,
    score_independence,
    score_pairs,
    score_ranges,
    shrink_scores,
)

# ---- Trees of pairs and fixed tables: MST, a PrivBayes-like tree, and marginals that a person names. Knows no data

_TREE_SWEEPS = 40

MST_STEPS = (
    Step("measure the one-way marginals", Fraction(1, 3)),
    Step("select the pairs of the maximum spanning tree", Fraction(1, 3)),
    Step("measure the two-way marginals of these pairs", Fraction(1, 3)),
)
TREE_STEPS = (
    Step("measure the one-way marginals", 0.3),
    Step("learn the network: a parent for each column", 0.15, of="left"),
    rest("learn the distributions: measure each column with its parent"),
)
MARGINALS_STEPS = (
    Step("measure the one-way marginals", Fraction(1, 3)),
    rest("measure the marginals that you name"),
)


def fit_mst(session: FitSession, columns: Sequence[EncodedColumn]) -> FittedModel:
    """Return the tree of the d - 1 pairs that lie farthest from independence.

    McKenna, Miklau, Sheldon 2021, Winning the NIST contest, section 4 - with one noisy vector of all scores in place of
    d - 1 exponential mechanisms, and codes merged under two deviations in place of three.
    """
    if len(columns) == 1:
        return independent_model(session.measure_one_way(columns, session.left), "MST")
    return _fit_tree(session, columns, MST_STEPS, _spanning_tree, "MST: a tree of pairs")


def fit_tree(session: FitSession, columns: Sequence[EncodedColumn]) -> FittedModel:
    """Return a Bayesian network of one parent a column, grown from the column with the most keys that show.

    After PrivBayes (Zhang, Cormode, Procopiuc, Srivastava, Xiao 2017, section 4): each column joins the parent it lies
    farthest from independent of, by noisy distances rather than mutual information, whose sensitivity is larger.
    """
    if len(columns) == 1:
        return independent_model(session.measure_one_way(columns, session.left), "tree")
    return _fit_tree(session, columns, TREE_STEPS, _grow_tree, "a tree of one parent a column")


def fit_marginals(
    session: FitSession, columns: Sequence[EncodedColumn], cliques: Sequence[tuple[str, ...]]
) -> FittedModel:
    """Return the model fitted to one-way counts and to the tables of the cliques named."""
    place = {c.name: i for i, c in enumerate(columns)}
    wanted = [tuple(sorted(place[n] for n in clique)) for clique in cliques]
    several = list(dict.fromkeys(w for w in wanted if len(w) > 1))
    if not several:
        return independent_model(session.measure_one_way(columns, session.left), "one-way marginals")
    measure_one_way, measure_named = MARGINALS_STEPS
    one_way = session.measure_one_way(columns, session.share(measure_one_way))
    compressed = one_way.compress(one_way.named_codes(session.pair_deviation(columns)))
    masks = _maximal_cliques(several, compressed.sizes)
    tables = [compressed.table(w) for w in several]
    counts = session.measure_weighted(tables, session.share(measure_named), [1.0] * len(several))
    measured = {several[i]: c for i, c in counts.items()}
    field = fit_field(compressed, measured, masks, sweeps=_TREE_SWEEPS, potentials={}, last=True)
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
    columns: Sequence[EncodedColumn],
    steps: tuple[Step, Step, Step],
    choose: Callable[[dict[Pair, float], Sequence[int]], list[Pair]],
    tier: str,
) -> FittedModel:
    """Return the model of a tree of pairs: measure one-way marginals, select the tree by noisy scores, measure its pairs."""
    measure_one_way, select, measure_two_way = steps
    one_way = session.measure_one_way(columns, session.share(measure_one_way))
    compressed = one_way.compress(pair_deviation=session.pair_deviation(columns))
    pairs = list(itertools.combinations(range(len(compressed.columns)), 2))
    scores, _ = score_independence(session, compressed, pairs, session.share(select))
    distances = dict(zip(pairs, scores.tolist(), strict=True))
    tree = choose(distances, compressed.sizes)
    measured = measure_pairs(
        session, compressed, tree, session.share(measure_two_way), {}, [distances[p] for p in tree]
    )
    cliques = _maximal_cliques(tree, compressed.sizes)
    field = fit_field(compressed, measured, cliques, sweeps=_TREE_SWEEPS, potentials={})
    return FittedModel(one_way, compressed, field, measured, tier)


def _spanning_tree(scores: dict[Pair, float], sizes: Sequence[int]) -> list[Pair]:
    """Return the spanning tree of the greatest total score, the best pair first (Kruskal)."""
    root = list(range(len(sizes)))
    tree: list[Pair] = []
    for a, b in sorted(scores, key=lambda p: -scores[p]):
        if root[a] != root[b]:
            tree.append((a, b))
            root = [root[a] if r == root[b] else r for r in root]
    return tree


def _grow_tree(scores: dict[Pair, float], sizes: Sequence[int]) -> list[Pair]:
    """Return the same tree, grown from the column of the most codes (Prim)."""
    joined = {int(np.argmax(sizes))}
    tree: list[Pair] = []
    while len(joined) < len(sizes):
        best = max((p for p in scores if (p[0] in joined) != (p[1] in joined)), key=lambda p: (scores[p], p))
        tree.append(best)
        joined |= set(best)
    return tree


def _maximal_cliques(cliques: Sequence[Sequence[int]], sizes: Sequence[int]) -> list[int]:
    around = [0] * len(sizes)
    for clique in cliques:
        for a, b in itertools.permutations(clique, 2):
            around[a] |= 1 << b
    return maximal_cliques(around, sizes, cap=math.inf) or []


# ---- AIM: adaptive rounds that each measure the pair of a workload that the model answers worst. Knows no data

_ROUNDS = 8
_AIM_SWEEPS = 10
_AIM_LAST_SWEEPS = 40
_MEAN = math.sqrt(2.0 / math.pi)

AIM_STEPS = (
    Step("measure the one-way marginals", 0.2),
    Step(f"select, in {_ROUNDS} rounds: score the pairs against the model", 0.3, of="round"),
    rest(f"measure, in {_ROUNDS} rounds: the pairs that the model answers worst"),
)


def fit_aim(session: FitSession, columns: Sequence[EncodedColumn], *, cap: float) -> FittedModel:
    """Return a model fitted in rounds: score the pairs against the model, measure the worst, fit, spend more on the next.

    After AIM (McKenna, Mullins, Sheldon, Miklau 2022, algorithm 2): score = distance - sqrt(2 / pi) sigma cells, rounds
    that double their part of the loss. Pairs are scored by one noisy vector a round, and several are measured in it, since
    each selection by itself would cost a pass over the data.
    """
    if len(columns) == 1:
        return independent_model(session.measure_one_way(columns, session.left), "AIM")
    measure_one_way, select, measure_worst = AIM_STEPS
    one_way = session.measure_one_way(columns, session.share(measure_one_way))
    compressed = one_way.compress(pair_deviation=session.pair_deviation(columns))
    pairs = list(itertools.combinations(range(len(columns)), 2))
    measured: Measured = {}
    potentials: dict[tuple[int, ...], Floats] = {}
    edges: list[Pair] = []
    cliques = [1 << i for i in range(len(columns))]
    field = fit_field(compressed, {}, cliques, sweeps=0, potentials={})
    most = max(1, len(columns) // 4)
    for turn in range(_ROUNDS):
        part = _round(session.left, turn)
        scores_share = select.part(part)
        models = model_pairs(session, compressed, field, pairs)
        distance, _ = score_pairs(session, compressed, pairs, models, scores_share)
        measurement_share = part - scores_share if turn < _ROUNDS - 1 else session.share(measure_worst)
        deviation = math.sqrt(session.variance(measurement_share, tables=most))
        visible = np.array([_visible_cells(m, deviation) for m in models])
        worth = distance - _MEAN * deviation * visible
        order = [pairs[i] for i in np.argsort(-worth, kind="stable").tolist() if worth[i] > 0]
        best = order or [pairs[int(np.argmax(distance))]]
        best_pairs, cliques = grow_clique(best, compressed.sizes, cap=cap, start=edges, most=most)
        best_pairs = best_pairs or edges[:1]
        if not best_pairs:
            break
        counts = session.measure_weighted(
            [compressed.table(p) for p in best_pairs], measurement_share, [1.0] * len(best_pairs)
        )
        measured = merge_measurements(measured, {best_pairs[i]: c for i, c in counts.items()})
        edges = list(dict.fromkeys([*edges, *best_pairs]))
        last = turn == _ROUNDS - 1
        sweeps = _AIM_LAST_SWEEPS if last else _AIM_SWEEPS
        field = fit_field(compressed, measured, cliques, sweeps=sweeps, potentials=potentials, last=last)
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

_COUNT_ROWS = Step("count the rows, if no guess is given", 0.008, of="loss")
_MEASURE_ONE_WAY = Step("measure the one-way marginals", 0.2, of="loss", most=0.5)
_MEASURE_ONE_WAY_AGAIN = Step(
    "measure these again, if that saves more error than pairs do", Fraction(0), of="left", most=1.0
)
_MEASURE_PAIRS = Step("measure the pairs that save the most error", 0.3, of="left")
_SCORE_PAIRS_AGAIN = replace(SCORE_PAIRS, name="score the pairs against the model of these")
_MEASURE_MORE = rest("measure more pairs, and triples")

AUTO_STEPS = (
    _COUNT_ROWS,
    _MEASURE_ONE_WAY,
    SCORE_PAIRS,
    _MEASURE_ONE_WAY_AGAIN,
    _MEASURE_PAIRS,
    _SCORE_PAIRS_AGAIN,
    SCORE_TRIPLES,
    _MEASURE_MORE,
    MEASURE_FEW,
)

# The mean error of one-way counts above which they get more of the loss.
_ONE_WAY_ERROR = 0.006
# What one-way counts may save, in shares of what pairs save with all that is left, beyond which a second round of pairs does
# not pay: .16 on 16,000 houses of 20 columns at epsilon 1, which gain by it, .24 on as many of 9, which do not.
_FAINT = 0.2
# Deviations of its noise above which a score shows a dependence, and the share of the rows from which on it is strong: such
# pairs are not given up for one-way counts.
_SHOWN = 3.0
_STRONG = 0.2
# The noise of a score, in shares of the rows, that is small enough.
_SHARP = 0.012
# Deviations of the count of rows that it is taken to be too large by, where it decides on a forest.
_SURE = 0.5
# Cells of all cliques in the first and the last round: pairs beyond them shape the rows alone.
_SMALL = 3e4
_LARGE = 1.5e5
_AUTO_SWEEPS = 10
_AUTO_LAST_SWEEPS = 30


def fit_adaptive(
    session: FitSession,
    columns: Sequence[EncodedColumn],
    *,
    cap: float | None = None,
    pairs: Sequence[Pair] | None = None,
    rows: float | None = None,
    predict: Sequence[int] = (),
) -> FittedModel:
    """Return the model fitted through the session, spending all that is left of it; `pairs` None looks at all.

    `rows` is a guess at their number, None counts them. Pairs with a column to `predict` come first.
    """
    pairs = list(itertools.combinations(range(len(columns)), 2)) if pairs is None else pairs
    uncertain = 0.0
    if rows is None:
        share = session.share(_COUNT_ROWS)
        uncertain = math.sqrt(session.variance(share))
        rows = session.count_rows(min(columns, key=lambda c: c.size), share)
    if not look_pays(session.split, session.gaussian, columns, pairs=len(pairs), rows=rows, predict=bool(predict)):
        # Rows that may be noise pay for no pair.
        sure = max(rows - _SURE * uncertain, 1.0)
        return fit_forest(session, columns, pairs, rows=sure, predict=predict)
    session.turn_gaussian()
    one_way = _measure_one_way(session, columns)
    compressed = one_way.compress(pair_deviation=session.pair_deviation(columns))
    excess, deviation = score_independence(
        session, compressed, pairs, _share_of_scores(session, SCORE_PAIRS, pairs, one_way.rows)
    )
    scores = shrink_scores(excess, deviation)
    ranges = score_ranges(compressed, pairs, excess, deviation)
    first = dict(zip(pairs, scores.tolist(), strict=True))
    shown = float(excess.max()) > max(_SHOWN * deviation, _STRONG * compressed.rows)
    part, first_pairs, faint = _share_of_one_way(session, one_way, compressed, pairs, scores, predict, shown=shown)
    large = _LARGE if cap is None else cap
    if faint and first_pairs and not predict and any(c.released for c in compressed.columns):
        # No second look at the pairs will show which of them follow from others.
        beyond = beyond_forest(first, _spanning_tree(first, compressed.sizes), len(columns), compressed.rows)
        chosen, _ = choose_pairs(
            compressed,
            pairs,
            np.array([beyond[p] for p in pairs]),
            variance_each=session.variance(session.left * (1 - part)),
            cap=_SMALL,
        )
        first_pairs = chosen or first_pairs
    if faint:
        # What no pair shows three columns together may.
        triples = _fitting(
            choose_triples(session, compressed, None, first, len(first_pairs)), compressed, first_pairs, large
        )
        return _fit_in_one_round(session, one_way, compressed, first, first_pairs, triples, part, ranges, large)
    return _fit_in_two_rounds(session, one_way, compressed, first, ranges, large, predict)


def _fit_in_two_rounds(
    session: FitSession,
    one_way: OneWayMarginals,
    compressed: CompressedMarginals,
    first: dict[Pair, float],
    ranges: dict[Pair, tuple[float, float]],
    large: float,
    predict: Sequence[int],
) -> FittedModel:
    """Return the model of pairs chosen twice, by their `first` scores and by those against the model of the first round."""
    pairs = list(first)
    budget = session.share(_MEASURE_PAIRS)
    each = session.variance(budget)
    # By cells, as a weak correlation mostly follows from stronger ones; and where columns are wide, whose pairs of three mostly
    # follow from two of them, a forest. What does not follow is seen in the scores against its model.
    wide = any(c.released for c in compressed.columns)
    candidates = _spanning_tree(first, compressed.sizes) if wide and not predict else pairs
    first_pairs, _ = choose_pairs(
        compressed,
        candidates,
        np.array([first[p] for p in candidates]),
        variance_each=each,
        cap=min(_SMALL, large),
        predict=predict,
        by_cells=True,
    )
    measured = measure_pairs(session, compressed, first_pairs, budget, {}, [first[p] for p in first_pairs])
    inside, cliques = grow_clique(first_pairs, compressed.sizes, cap=min(_SMALL, large))
    potentials: dict[tuple[int, ...], Floats] = {}
    field = fit_field(compressed, measured, cliques, sweeps=_AUTO_SWEEPS, potentials=potentials)
    share = _share_of_scores(session, _SCORE_PAIRS_AGAIN, pairs, compressed.rows)
    # What the model's own columns err by is in every pair, and no pair that is measured takes it away.
    margins = (compressed.independent_variance(p) for p in pairs)
    # The tables of all pairs are not kept beyond their scores: of a hundred columns they take 100 MB.
    excess, deviation = score_pairs(
        session, compressed, pairs, model_pairs(session, compressed, field, pairs), share, margins=margins
    )
    again = dict(zip(pairs, shrink_scores(excess, deviation), strict=True))
    triples = _fitting(
        choose_triples(session, compressed, field, again, 2 * len(first_pairs)), compressed, inside, large
    )
    inside = list(dict.fromkeys([*inside, *edges_of(triples)]))
    wanted = _choose_again(session, compressed, again, first, first_pairs, inside, large, predict)
    edges = _edges_of_cliques(wanted, triples, inside, first, compressed, large)
    far = [*(first[p] for p in wanted), *(0.0 for _ in triples)]
    more = measure_pairs(session, compressed, [*wanted, *triples], session.share(_MEASURE_MORE), measured, far)
    return _fit_final(
        session, one_way, compressed, merge_measurements(measured, more), edges, ranges, large, potentials
    )


def _edges_of_cliques(
    pairs: Sequence[Pair],
    triples: Sequence[Columns],
    inside: Sequence[Pair],
    distances: Mapping[Pair, float],
    compressed: CompressedMarginals,
    cap: float,
) -> list[Pair]:
    """Return the pairs that the cliques of the last fit hold: those `inside` already, and of the others what fits beside them.

    Where these leave no cells for pairs that are much farther from independence, cliques are grown anew, from the farthest.
    """
    beside = list(dict.fromkeys([*inside, *grow_clique(pairs, compressed.sizes, cap=cap, start=inside)[0]]))
    farthest = sorted(pairs, key=lambda p: -distances[p])
    anew = grow_clique([*farthest, *edges_of(triples)], compressed.sizes, cap=cap)[0]
    # A triple may have a pair that was not looked at.
    more = sum(distances.get(p, 0.0) for p in anew) - sum(distances.get(p, 0.0) for p in beside)
    return anew if more > _STRONG * compressed.rows else beside


def _share_of_scores(session: FitSession, step: Step, pairs: Sequence[Pair], rows: float) -> Fraction:
    """Return the share for one round of scores: no more than makes their noise small beside the rows."""
    beyond = session.variance(share_of(step.most), tables=len(pairs)) / (_SHARP * rows) ** 2
    power = 0.5 if session.split.currency == "epsilon" else 1.0
    return share_of(min(max(step.most * beyond**power, float(step.share)), step.most))


def _fitting(
    triples: Sequence[Columns], compressed: CompressedMarginals, inside: Sequence[Pair], cap: float
) -> list[Columns]:
    """Return the triples that cliques within the cap hold beside the pairs `inside`."""
    fitting_triples: list[Columns] = []
    start = list(inside)
    for triple in triples:
        edges = edges_of([triple])
        inside_cap, _ = grow_clique(edges, compressed.sizes, cap=cap, start=start)
        if len(inside_cap) == len(edges):
            fitting_triples.append(triple)
            start += edges
    return fitting_triples


def _fit_final(
    session: FitSession,
    one_way: OneWayMarginals,
    compressed: CompressedMarginals,
    measured: Measured,
    edges: Sequence[Pair],
    ranges: dict[Pair, tuple[float, float]],
    cap: float,
    potentials: dict[Columns, Floats] | None = None,
) -> FittedModel:
    """Return the model of the last round."""
    compressed = sharpen_counts(compressed, measured)
    field = _fit_restrained(session, compressed, measured, edges, ranges, cap, {} if potentials is None else potentials)
    triples = any(len(columns) > 2 for columns in measured)
    return FittedModel(
        one_way, compressed, field, measured, f"a clique tree of pairs{' and triples' if triples else ''}"
    )


def _fit_restrained(
    session: FitSession,
    compressed: CompressedMarginals,
    measured: Measured,
    edges: Sequence[Pair],
    ranges: dict[Pair, tuple[float, float]],
    cap: float,
    potentials: dict[Columns, Floats],
) -> MarkovRandomField:
    """Return the field of cliques that hold the `edges`, and pairs that would else depend by more than `ranges` allow."""
    cliques = grow_clique([], compressed.sizes, cap=cap, start=edges)[1]
    if not ranges:
        return fit_field(compressed, measured, cliques, sweeps=_AUTO_LAST_SWEEPS, potentials=potentials, last=True)
    field = fit_field(compressed, measured, cliques, sweeps=_AUTO_SWEEPS, potentials=potentials)
    restrained = restrain_pairs(session, compressed, field, ranges)
    cliques = grow_clique(list(restrained), compressed.sizes, cap=cap, start=edges)[1]
    return fit_field(
        compressed,
        measured,
        cliques,
        sweeps=_AUTO_LAST_SWEEPS,
        potentials=potentials,
        last=True,
        restrained=restrained,
    )


def _measure_one_way(session: FitSession, columns: Sequence[EncodedColumn]) -> OneWayMarginals:
    """Return the one-way counts, asked again where their error is large."""
    first = session.share(_MEASURE_ONE_WAY)
    one_way = session.measure_one_way(columns, first)
    error = float(one_way.errors().mean())
    wanted = float(_MEASURE_ONE_WAY.share) * (error / _ONE_WAY_ERROR) ** 2
    more = share_of(min(wanted, _MEASURE_ONE_WAY.most)) - first
    return combine_one_way(one_way, session.measure_one_way(one_way.columns, more)) if more > 0 else one_way


def _choose_again(
    session: FitSession,
    compressed: CompressedMarginals,
    scores: dict[Pair, float],
    first: dict[Pair, float],
    done: list[Pair],
    inside: list[Pair],
    cap: float,
    predict: Sequence[int],
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
        predict=predict,
    )
    return [*done, *more]


def _share_of_one_way(
    session: FitSession,
    one_way: OneWayMarginals,
    compressed: CompressedMarginals,
    pairs: Sequence[Pair],
    scores: Floats,
    predict: Sequence[int],
    *,
    shown: bool,
) -> tuple[Fraction, list[Pair], bool]:
    """Return the part of what is left to spend on one-way counts - none, half or all - and the pairs that the rest measures.

    The last says whether pairs are so faint beside the error of one-way counts that one round is best.

    It is the part that saves the most error: an error of one-way counts is in d - 1 pairs, and a measured pair saves what
    stands out of the noise that the rest can pay. Where no pair shows, all goes to one-way counts.
    """
    errors = one_way.errors() * 2.0 * compressed.rows
    have = float(np.mean([1.0 / v for v in one_way.variances]))
    best: tuple[float, Fraction, list[Pair]] = (-1.0, Fraction(1), [])
    saved = 0.0
    most = 0.0
    for part in (Fraction(0), Fraction(1, 2), *([] if shown else [Fraction(1)])):
        more = 1.0 / session.variance(session.left * part, tables=len(errors)) if part else 0.0
        gain = (len(errors) - 1) * float(errors.sum()) * (1.0 - math.sqrt(have / (have + more)))
        measurable: list[Pair] = []
        worth = 0.0
        if part < 1:
            each = session.variance(session.left * (1 - part))
            measurable, worth = choose_pairs(compressed, pairs, scores, variance_each=each, cap=_SMALL, predict=predict)
        most = max(most, worth)
        if gain + worth > best[0]:
            best = (gain + worth, part, measurable)
            saved = gain
    return (best[1], best[2], saved > _FAINT * most) if best[2] else (Fraction(1), [], True)


def _fit_in_one_round(
    session: FitSession,
    one_way: OneWayMarginals,
    compressed: CompressedMarginals,
    distances: Mapping[Pair, float],
    pairs: Sequence[Pair],
    triples: Sequence[Columns],
    part: Fraction,
    ranges: dict[Pair, tuple[float, float]],
    cap: float,
) -> FittedModel:
    """Spend a part of what is left on one-way counts, and the rest on the pairs and triples taken; all where there are none."""
    if part and (pairs or not triples):
        one_way = combine_one_way(one_way, session.measure_one_way(compressed.columns, session.left * part))
    if not pairs and not triples:
        return independent_model(one_way, "independent columns: no pair shows above the noise")
    compressed = one_way.compress(compressed.codes)
    far = [*(distances[p] for p in pairs), *(0.0 for _ in triples)]
    measured = measure_pairs(session, compressed, [*pairs, *triples], session.left, {}, far)
    if triples:
        return _fit_final(
            session, one_way, compressed, measured, [*pairs, *edges_of(triples)], ranges if pairs else {}, cap
        )
    compressed = sharpen_counts(compressed, measured)
    held = grow_clique(pairs, compressed.sizes, cap=_SMALL)[0]
    field = _fit_restrained(session, compressed, measured, held, ranges, _LARGE, {})
    return FittedModel(one_way, compressed, field, measured, "a small tree of pairs")
