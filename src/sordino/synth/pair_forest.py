"""A forest of few pairs, for a loss that cannot pay for a look at all of them: each is selected, then all are measured.

Knows no data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sordino.synth.encoded_column import EncodedColumn
from sordino.synth.fitted_model import FittedModel, fit_field, independent_model, sharpen_counts
from sordino.synth.junction_tree import Pair, grow_clique
from sordino.synth.measurement import FitSession, LossShares, Step, all_rows, share_of
from sordino.synth.one_way_marginals import CompressedMarginals, combine_one_way
from sordino.synth.pair_selection import mean_distance, measure_pairs, noisy_keys, one_way_noise, score_independence

# ---- Why a forest: a selection by the exponential mechanism errs by 2 ln(m) / epsilon rows among m pairs, a vector of all m
# distances with Laplace noise by m / epsilon. So one strong pair can be found where a look at all would drown.
#
# The constants were chosen on tables of 7 and 14 columns, of 500 to 30,000 rows, at epsilon .1 to 6.

MEASURE_FEW = Step(
    "in place of scores and what follows, where these cost too much: select a few pairs, and measure them",
    Fraction(0),
    of="left",
    most=0.85,
)
# The error of a selection, in shares of the rows.
_CLEAR = 0.2
# The share of the loss that measures pairs, times the error that one-way counts would have with the whole of it: where that
# is large, pairs would only make it larger. And the most, for measuring and for selecting.
_PAIRS = 0.0035
_MOST = 0.5
_MOST_SELECTED = 0.25
_SELECTED = 0.33
# What measures a pair, in shares of what selects one: as much at least.
_MEASURED = 1.5
# The strongest pairs are worth more than that to whoever asks of them: so many are taken in any case, for at most this share of
# the loss, if the distance that such a pair takes from the mean pair is more than its cost adds to that of all pairs.
_STRONGEST = 2
_MOST_STRONGEST = 0.25
_STRONG = 0.3
# Columns to predict are what the fit is for: they get so many times the share, half of it to select by, and each a few pairs.
# On 34,000 rows with 15 other columns at epsilon .1, four pairs rank real rows by an AUC of .79, and all fifteen by .55.
_PREDICTED = 10.0
_SELECTED_PREDICTED = 0.5
_MOST_PREDICTED = 4
# What the noise of a pair's table puts in place of its distance, in deviations a cell: half of its mean, as the fit evens it out.
_REPLACED = 0.5 * math.sqrt(0.5)
# Where no pair depends one is selected by chance once in 1 + e^2 times.
_SURE = 2.0
_SWEEPS = 30


def fit_forest(
    session: FitSession,
    columns: Sequence[EncodedColumn],
    pairs: Sequence[Pair],
    *,
    rows: float,
    predict: Sequence[int] = (),
) -> FittedModel:
    """Return the model of a forest of a few of the pairs beside all one-way counts, or of independent columns.

    `rows` is about their number, by a guess or a noisy count. How many pairs are taken follows from it and from public
    facts: those that the loss can show; where fewer show, one-way counts get what is left. With `predict` each pair has one of
    these columns.

    Theorem: each selection is the exponential mechanism (McSherry, Talwar 2007, Theorem 6), or a post-processing of one noisy
    vector, over distances to public models, which a unit moves by no more than it moves the table of a pair: `Distances`.
    """
    candidates = [p for p in pairs if set(p) & set(predict)] if predict else list(pairs)
    plan = _plan(session, columns, candidates, rows, len(predict))
    if not plan.count:
        tier = "independent columns: the loss is too small for more, with so few rows"
        return independent_model(session.measure_one_way(columns, session.left), tier)
    one_way = session.measure_one_way(columns, session.left - plan.select - plan.measure)
    deviation = math.sqrt(session.variance(plan.measure, tables=plan.count))
    compressed = one_way.compress(pair_deviation=deviation, merge_rare=True)
    chosen = _select_forest(session, compressed, candidates, plan)
    # What pairs that were not found would have cost goes to one-way counts.
    spare = session.left - plan.measure * len(chosen) / plan.count
    if len(chosen) < plan.count and spare > 0:
        one_way = combine_one_way(one_way, session.measure_one_way(one_way.columns, spare))
        compressed = one_way.compress(pair_deviation=deviation, merge_rare=True)
    if not chosen:
        return independent_model(one_way, "independent columns: no pair shows above the noise", compressed)
    measured = measure_pairs(session, compressed, chosen, session.left, {})
    compressed = sharpen_counts(compressed, measured)
    cliques = grow_clique(chosen, compressed.sizes, cap=math.inf)[1]
    field = fit_field(compressed, measured, cliques, sweeps=_SWEEPS, potentials={})
    names = ", ".join(f"{columns[a].name} with {columns[b].name}" for a, b in chosen)
    return FittedModel(one_way, compressed, field, measured, f"a forest of the pairs that show most: {names}")


@dataclass(frozen=True, slots=True)
class _Plan:
    """How many pairs to take, and the shares of the loss that select and that measure them; all are taken if `in_any_case`."""

    count: int
    select: Fraction
    measure: Fraction
    in_any_case: bool


_NONE = _Plan(0, Fraction(0), Fraction(0), in_any_case=False)


def _plan(
    session: FitSession, columns: Sequence[EncodedColumn], candidates: Sequence[Pair], rows: float, targets: int
) -> _Plan:
    """Return how to spend the loss; `targets` is the number of columns to predict."""
    live = {c for pair in candidates for c in pair}
    if len(live) < 2:
        return _NONE
    split = session.split
    gaussian = split.currency == "rho"
    left = float(session.left)
    # Noise grows with 1 / epsilon, or with 1 / sqrt(rho)
    error = one_way_noise(split, noisy_keys(columns)) / (2.0 * rows * len(columns) * left ** (0.5 if gaussian else 1.0))
    pairs_share = min(_PAIRS * (_PREDICTED if targets else 1.0) / error, _MOST) * left
    pairs = len(candidates)
    clear = _CLEAR * rows
    if gaussian:
        # One vector of all scores, of which two deviations are clear: a session of Gaussian vectors selects nothing.
        scores = split.variance(1.0, tables=pairs) / (clear / 2.0) ** 2
    else:
        # The error falls with the share that selects.
        scores = _selection_error(split, math.log(max(pairs, 2)), 1.0) / clear
    count = min(math.floor(pairs_share / (_MEASURED * scores) + 0.3), len(live) - 1)
    few = count < _STRONGEST
    if not targets and few:
        count = _afford_strongest(
            scores, error, left, pairs=pairs, gaussian=gaussian, most=min(_STRONGEST, len(live) - 1)
        )
        pairs_share = max(pairs_share, count * _MEASURED * scores)
    if targets:
        count = min(count, _MOST_PREDICTED * targets)
    if not count:
        return _NONE
    # Weaker pairs are told from none where there is more to spend, up to a part of what is left of the loss.
    needed = scores if gaussian else scores * count
    select = min(max(needed, (_SELECTED_PREDICTED if targets else _SELECTED) * pairs_share), _MOST_SELECTED * left)
    return _Plan(count, share_of(select), share_of(pairs_share), in_any_case=bool(targets) or few)


def _selection_error(split: LossShares, nats: float, share: float) -> float:
    """Return how many rows less than the farthest table one lies that is e^`nats` times as rarely selected."""
    # Twice what one unit moves a distance by, as for any score that may rise and fall.
    return 2.0 * float(split.move_l1) * nats / (share * float(split.total))


def _afford_strongest(scores: float, error: float, left: float, *, pairs: int, gaussian: bool, most: int) -> int:
    """Return how many of the strongest pairs pay for themselves: those each take `_STRONG` from the distance of one of `pairs`.

    `scores` is the share of the loss that selects one, or all by Gaussian noise; `error` that of a column's counts with the
    whole. What goes to pairs adds to the error of every column, by as much as noise grows: half of that in Gaussian noise.
    """
    for count in range(most, 0, -1):
        cost = scores * (1.0 + _MEASURED * count if gaussian else (1.0 + _MEASURED) * count)
        if cost <= _MOST_STRONGEST * left:
            added = error * cost / (left - cost) * (0.5 if gaussian else 1.0)
            if added <= _STRONG * count / pairs:
                return count
    return 0


def _select_forest(
    session: FitSession, compressed: CompressedMarginals, candidates: Sequence[Pair], plan: _Plan
) -> list[Pair]:
    """Return pairs that lie far from independence, the first the farthest, no three columns in a ring.

    Distances are those beyond what sampling and the noise of the columns' own counts explain. Selection ends, unless the pairs
    are taken in any case, where none is clear of the error of a selection, or larger than what the noise of its own table would
    put in its place: the table of all rows, at no distance from its model, is one more candidate. To find that nothing shows
    costs no more than to select.
    """
    group = list(range(len(compressed.sizes)))
    chosen: list[Pair] = []
    by_score: list[Pair] | None = None
    if session.split.currency == "rho":
        scores, _ = score_independence(session, compressed, candidates, plan.select)
        by_score = [candidates[i] for i in np.argsort(-scores, kind="stable").tolist()]
    smallest = min(compressed.columns, key=lambda c: c.size)
    each = plan.select / plan.count
    clear = _selection_error(session.split, math.log(len(candidates)) + _SURE, float(each))
    noise = _REPLACED * math.sqrt(session.variance(plan.measure, tables=plan.count))
    for _ in range(plan.count):
        open_pairs = [p for p in (by_score or candidates) if group[p[0]] != group[p[1]]]
        if not open_pairs:
            break
        place = 0
        if by_score is None:
            models = [compressed.independent(p) for p in open_pairs]
            tables = [compressed.table(p) for p in open_pairs]
            margins = [compressed.independent_variance(p) for p in open_pairs]
            floors = [mean_distance(m, v) for m, v in zip(models, margins, strict=True)]
            if not plan.in_any_case:
                floors = [floor + max(clear, noise * m.size) for floor, m in zip(floors, models, strict=True)]
                models.append(np.array([compressed.rows]))
                tables.append(all_rows(smallest))
                floors.append(0.0)
            place = session.select_farthest(tables, models, floors, each)
        if place == len(open_pairs):
            break
        a, b = open_pairs[place]
        chosen.append((a, b))
        group = [group[a] if g == group[b] else g for g in group]
    return chosen
