"""Moving drawn rows towards tables of pairs: what drawing row by row leaves of sampling noise. Knows released numbers only.

Post-processing of a model: rows are moved, a column at a time, where that lowers the squared distance between the counts of
pairs in the rows and the counts expected.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from sordino.core.noise.rng import Rng
from sordino.synth.encoded_column import Codes, Floats
from sordino.synth.junction_tree import Pair
from sordino.synth.markov_random_field import MarkovRandomField, marginal
from sordino.synth.measurement import NoisyTable
from sordino.synth.one_way_marginals import project
from sordino.synth.pair_moments import keep_moment

# In each sweep, the rows that leave one code, or come to one, by the same residuals.
_MOVES = (16, 8, 4, 2, 1)
# The share of the rows, those that fit worst, that is looked at in each sweep.
_LOOKED_AT = 0.2
# Rows looked at together: they move by the same residuals.
_TOGETHER = 200
# Added to the expected rows of a cell for its variance.
_LEAST_VARIANCE = 0.3
# Expected rows below which a cell is as good as impossible.
_EMPTY = 1e-3
# The least tau, see `expected_pairs`.
_LEAST = 0.01
# The noise of a correlation beyond which a loose pair is left as its cells have it.
_FAINT = 0.1
# Added to the excess of such a cell.
_BARRED = 8.0
# Tables of three columns and more that rows are held to, at most: each is one more sum for every row.
_MOST_WIDER = 12


def expected_pairs(
    field: MarkovRandomField,
    codes: Sequence[Codes],
    loose: Mapping[tuple[int, ...], NoisyTable],
    scores: Mapping[int, Floats],
) -> dict[Pair, Floats]:
    """Return the table expected of each pair that a clique holds, and of those measured without one (`loose`).

    A loose table is the drawn rows', drawn in turn towards the noisy counts: a cell is taken to lie about its drawn count
    with variance tau m, tau by empirical Bayes, as in the fit. Two columns with an order, whose `scores` are the values of
    their codes with mean 0 and deviation 1, are correlated as the noisy counts are, as far as noise allows (`keep_moment`).
    """
    tables: dict[Pair, Floats] = {}
    for i in sorted(range(len(field.tables)), key=lambda i: field.tables[i].size):
        for pair in itertools.combinations(field.tree.cliques[i], 2):
            if pair not in tables:
                tables[pair] = marginal(field.tables[i], field.tree.cliques[i], pair)
    if len(codes[0]):
        scale = float(field.tables[0].sum()) / len(codes[0])
        for (a, b), noisy in ((columns, noisy) for columns, noisy in loose.items() if len(columns) == 2):
            rows, columns = noisy.cells.shape
            counts = np.bincount(codes[a] * columns + codes[b], minlength=rows * columns)
            table = _shrink(np.asarray(counts * scale, dtype=np.float64).reshape(rows, columns), noisy)
            if {a, b} <= set(scores):
                x, y = scores[a], scores[b]
                noise = math.sqrt(noisy.variance * float(x @ x) * float(y @ y)) / max(float(table.sum()), 1e-9)
                if noise <= _FAINT:
                    table = keep_moment(table, noisy, (x, y))
            tables[a, b] = table
    return tables


def expected_wider(
    field: MarkovRandomField, sizes: Sequence[int], measured: Collection[tuple[int, ...]]
) -> dict[tuple[int, ...], Floats]:
    """Return the tables expected of three columns and more that were measured and that a clique holds, the smallest first.

    Pairs know nothing of what such a table shows: of a column that is the exclusive or of two others, rows moved by pairs
    alone lose it.
    """
    wider = [columns for columns in measured if len(columns) > 2 and field.tree.home(columns, sizes) is not None]
    wider = sorted(wider, key=lambda columns: (math.prod(sizes[c] for c in columns), columns))[:_MOST_WIDER]
    homes = {columns: field.tree.require_home(columns, sizes) for columns in wider}
    return {columns: marginal(field.tables[home], field.tree.cliques[home], columns) for columns, home in homes.items()}


def _shrink(drawn: Floats, noisy: NoisyTable) -> Floats:
    """Return drawn counts moved towards noisy ones by as much as the latter show above their noise, of the same total."""
    total = max(float(drawn.sum()), 1e-9)
    means = (drawn + np.multiply.outer(drawn.sum(axis=1), drawn.sum(axis=0)) / total) / 2.0
    beyond = noisy.cells - drawn
    tau = max((float(np.square(beyond).sum()) - beyond.size * noisy.variance) / total, _LEAST)
    return project(drawn + beyond * (tau * means / (tau * means + noisy.variance)), total)


def refine_rows(
    codes: Sequence[Codes],
    sizes: Sequence[int],
    targets: Mapping[Pair, Floats],
    rng: Rng,
    *,
    counts: Sequence[Floats] = (),
    wider: Mapping[tuple[int, ...], Floats] | None = None,
    together: Collection[Pair] = (),
) -> list[Codes]:
    """Return the rows, some with a code changed in some columns, so that pairs occur about as often as `targets` expect.

    So do the sets of three columns and more of `wider`, and the codes of each column, by `counts`. With R the rows in a cell
    less those expected, a row that goes from code v of a column to t changes the sum of w R^2 by the sum over the tables of
    the column of w_t (2 R_t + 1) - w_v (2 R_v - 1): it goes where that is least, if it is below 0. Few rows move by the same
    residuals, and fewer from sweep to sweep, so that they do not all fill the same cells. The weights w are 1, but for pairs
    of columns that rise or fall `together`: see `_weights`.
    """
    refined = [np.array(c) for c in codes]
    rows = len(refined[0]) if refined else 0
    if rows < 2:
        return refined
    for most in _MOVES:
        for column in np.argsort(rng.uniform_doubles(len(refined)), kind="stable").tolist():
            pairs = {c: (min(c, column), max(c, column)) for c in range(len(refined)) if c != column}
            others = [c for c, pair in pairs.items() if pair in targets]
            if not others or sizes[column] < 2:
                continue
            tables = [targets[c, column] if c < column else targets[column, c].T for c in others]
            beside = [refined[c] for c in others]
            # Pairs that disagree about a column would move its own counts, which are better known than either.
            if counts:
                beside.append(np.zeros(rows, dtype=np.int64))
                tables.append(counts[column][None, :])
            for columns, table in (wider or {}).items():
                if column in columns:
                    place = columns.index(column)
                    rest = [c for c in columns if c != column]
                    beside.append(np.ravel_multi_index([refined[c] for c in rest], [sizes[c] for c in rest]))
                    tables.append(np.moveaxis(table, place, -1).reshape(-1, sizes[column]))
            expected = [t * (rows / max(float(t.sum()), 1e-9)) for t in tables]
            weighted = [pairs[c] in together for c in others] + [False] * (len(beside) - len(others))
            weights = [_weights(t) if w else np.ones(t.shape) for w, t in zip(weighted, expected, strict=True)]
            _move_column(refined[column], beside, expected, weights, most, rng)
    return refined


def _weights(expected: Floats) -> Floats:
    """Return weights in inverse proportion to the variance of a cell, 1 for the mean row.

    Where two columns follow each other, most cells hold next to nothing. A few rows in each of those, which other pairs
    would gain by, cost little in squares and most of the correlation.
    """
    weights = 1.0 / (expected + _LEAST_VARIANCE)
    scaled: Floats = weights * (float(expected.sum()) / max(float((weights * expected).sum()), 1e-9))
    return scaled


def _move_column(
    own: Codes,
    others: Sequence[Codes],
    expected: Sequence[Floats],
    weights: Sequence[Floats],
    most: int,
    rng: Rng,
) -> None:
    """Move the rows that fit worst to other codes of one column, in place; `most` leave or join a code by the same residuals.

    `expected` and `weights` have for each other column a row for each of its codes, and a column for each of this one's.
    """
    rows = len(own)
    size = expected[0].shape[1]
    excesses = []
    worse = np.zeros(rows)
    for codes, table, weight in zip(others, expected, weights, strict=True):
        cells = codes * size + own
        counts = np.bincount(cells, minlength=table.size).reshape(table.shape)
        excesses.append(weight * (counts - table) + _BARRED * (table < _EMPTY))
        worse += excesses[-1].reshape(-1)[cells]
    worst = min(rows, max(int(rows * _LOOKED_AT), _TOGETHER))
    candidates = np.argpartition(-worse, worst - 1)[:worst]
    candidates = candidates[np.argsort(rng.uniform_doubles(worst), kind="stable")]
    excess = np.concatenate(excesses)
    weight = np.concatenate(weights)
    starts = np.cumsum([0, *(len(e) for e in excesses)])
    places = np.stack([codes[candidates] + start for codes, start in zip(others, starts.tolist(), strict=False)])
    for start in range(0, worst, _TOGETHER):
        some = candidates[start : start + _TOGETHER]
        at = places[:, start : start + _TOGETHER]
        here = own[some]
        each = np.arange(len(some))
        joining = excess + weight / 2.0
        there = joining[at[0]]
        for place in at[1:]:
            there += joining[place]
        # what leaving a code saves is what joining it would cost, less the weights
        now = there[each, here] - weight[at, here].sum(axis=0)
        there[each, here] = np.inf
        best = there.argmin(axis=1)
        gain = now - there[each, best]
        moved = np.argsort(-gain, kind="stable")
        moved = moved[gain[moved] > 0]
        for ends in (best, here):
            moved = moved[_rank(ends[moved]) < most]
        for ends, sign in ((here, -1.0), (best, 1.0)):
            cells = at[:, moved] * size + ends[moved]
            np.add.at(excess.reshape(-1), cells, sign * weight.reshape(-1)[cells])
        own[some[moved]] = best[moved]


def _rank(codes: Codes) -> Codes:
    """Return for each place how many places before it hold the same code."""
    order = np.argsort(codes, kind="stable")
    ranked = codes[order]
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(codes)) - np.searchsorted(ranked, ranked)
    return ranks
