"""Whole tables without negative cells, whose margins agree exactly: from consistent least-squares estimates.

Post-processing of released numbers. First the nearest tables without negative cells that still agree in their margins; then
whole numbers, from the total down: each set of axes that tables share is rounded once, within what was rounded before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from sordino.core.errors import DeclarationError, SordinoError
from sordino.tables.least_squares import Floats, split_table
from sordino.tables.strategy import Axes, subsets

Integers = np.ndarray[Any, np.dtype[np.int64]]

# Rounds of the search for the nearest tables without negative cells, and the step, in deviations of a cell, at which it ends.
_ROUNDS = 300
_STILL = 0.01
# Cells, and nodes of the search, up to which a table is rounded within margins that leave no certain way.
_HARD_CELLS = 20_000
_HARD_NODES = 200


class NotWhole(SordinoError):
    """No whole tables with these margins were found: their shared margins form a cycle, as in all tables of three columns."""


def make_whole(tables: Mapping[Axes, Floats], variances: Mapping[Axes, float]) -> dict[Axes, Integers]:
    """Return whole tables without negative cells, near the estimates given, whose margins agree exactly.

    `tables` are consistent estimates, as `estimate_tables` returns them, with the variance of a cell of each. The total is
    the estimated total, rounded, or 0. Two tables agree in the margin on the axes that they share, and a table that is within
    another is its margin.

    Theorem: for tables of at most two axes, and wherever the margins that a table shares with others have no cycle, whole
    tables with the rounded margins exist: two margins that agree where they overlap are those of a whole table that is not
    negative (the transport problem), and the margins of an acyclic set are put together one by one (Vorob'ev 1962; Beeri,
    Fagin, Maier, Yannakakis 1983). Else, whole tables are searched for, near the estimates. Raises NotWhole where none is
    found.

    >>> make_whole({(0,): np.array([4.6, -1.2, 0.5])}, {(0,): 1.0})[0,].tolist()
    [4, 0, 0]
    """
    nearest = remove_negatives(tables, variances)
    return round_tables(nearest)


def remove_negatives(tables: Mapping[Axes, Floats], variances: Mapping[Axes, float]) -> dict[Axes, Floats]:
    """Return the nearest consistent tables whose cells are at least 0 up to a hundredth of a deviation.

    They minimise the sum over tables of squared differences over `variances`, subject to agreeing margins, cells of at least
    0 and the total as it was (0 if it was negative). By the alternating direction method of multipliers (Boyd et al. 2011,
    section 5): agreement is a projection that works on each part by itself, and cells of at least 0 are a clip.
    """
    for table, cells in tables.items():
        if not np.isfinite(cells).all():
            raise DeclarationError(f"the table {table} has cells that are no numbers")
    total = max(0.0, float(np.mean([cells.sum() for cells in tables.values()])))
    weights = {table: 1.0 / max(float(variances[table]), 1e-12) for table in tables}
    if total == 0:
        return {table: np.zeros_like(cells, dtype=np.float64) for table, cells in tables.items()}
    if all(float(cells.min()) >= 0 for cells in tables.values()):
        return {table: cells.astype(np.float64) for table, cells in tables.items()}
    target = {table: cells.astype(np.float64) for table, cells in tables.items()}
    positive = {table: np.maximum(cells, 0.0) for table, cells in target.items()}
    dual = {table: np.zeros_like(cells) for table, cells in target.items()}
    agreeing = target
    for _ in range(_ROUNDS):
        # Distance to the estimates and to the positive copy weigh the same, so their minimum is at the mean.
        middle = {table: (target[table] + positive[table] - dual[table]) / 2 for table in target}
        agreeing = agree(middle, weights, total=total)
        moved = 0.0
        for table in target:
            clipped = np.maximum(agreeing[table] + dual[table], 0.0)
            gap = agreeing[table] - clipped
            change = max(float(np.abs(clipped - positive[table]).max()), float(np.abs(gap).max()))
            moved = max(moved, change * math.sqrt(weights[table]))
            positive[table] = clipped
            dual[table] = dual[table] + gap
        if moved < _STILL:
            break
    return agreeing


def agree(
    tables: Mapping[Axes, Floats], weights: Mapping[Axes, float], *, total: float | None = None
) -> dict[Axes, Floats]:
    """Return the nearest tables whose margins agree, by squared differences with a weight a table; `total` fixes theirs.

    A part of several tables becomes the mean of what they say of it; one that spreads it over n cells a cell counts 1/n.
    """
    sums: dict[Axes, Any] = {}
    norms: dict[Axes, float] = {}
    for table, cells in tables.items():
        for part, values in split_table(table, cells).items():
            weight = weights[table] * values.size / cells.size
            sums[part] = sums[part] + weight * values if part in sums else weight * values
            norms[part] = norms.get(part, 0.0) + weight
    means = {part: summed / norms[part] for part, summed in sums.items()}
    if total is not None:
        means[()] = np.array(total)
    answer = {}
    for table, cells in tables.items():
        mean = np.zeros(cells.shape)
        wide = [axis for axis, size in zip(table, cells.shape, strict=True) if size > 1]
        for part in subsets(wide):
            shape = [size if axis in part else 1 for axis, size in zip(table, cells.shape, strict=True)]
            mean += means[part].reshape(shape) * (means[part].size / cells.size)
        answer[table] = mean
    return answer


def round_tables(tables: Mapping[Axes, Floats]) -> dict[Axes, Integers]:
    """Return whole tables near consistent tables without negative cells; see `make_whole`."""
    sets = _shared_sets(tables)
    whole: dict[Axes, Integers] = {}
    for axes in sorted(sets, key=lambda entry: (len(entry), entry)):
        # The margin comes from one of the tables that have it, which agree.
        table = min((t for t in tables if set(axes) <= set(t)), key=lambda t: (tables[t].size, t))
        cells = np.maximum(_margin(table, tables[table], axes), 0.0)
        inner = [other for other in whole if set(other) < set(axes)]
        widest = [other for other in inner if not any(set(other) < set(wider) for wider in inner)]
        whole[axes] = _round_within(axes, cells, {margin: whole[margin] for margin in widest})
    return {table: whole[table] for table in tables}


def _shared_sets(tables: Iterable[Axes]) -> set[Axes]:
    """Return the tables, (), and every set of axes that is what several of them have in common."""
    sets = {(), *tables}
    fresh = set(sets)
    while fresh:
        shared = {tuple(sorted(set(one) & set(other))) for one in fresh for other in sets}
        fresh = shared - sets
        sets |= fresh
    return sets


def _margin(table: Axes, cells: Any, axes: Axes) -> Any:
    """Return the margin of a table on some of its axes."""
    return cells.sum(axis=tuple(place for place, axis in enumerate(table) if axis not in axes))


def _round_within(axes: Axes, cells: Floats, margins: Mapping[Axes, Integers]) -> Integers:
    """Return whole cells with the given whole margins; without any, with the rounded total."""
    if not margins:
        return np.asarray(np.floor(cells + 0.5), dtype=np.int64)
    order = _join_order(list(margins))
    if order is None:
        return _search_whole(axes, cells, margins)
    union = order[0]
    joined = margins[union]
    for margin in order[1:]:
        wider = tuple(sorted({*union, *margin}))
        joined = _join_margins(wider, _margin(axes, cells, wider), (union, joined), (margin, margins[margin]))
        union = wider
    if union == axes:
        return joined
    # What no margin holds down is spread within each cell of the margins, by largest remainders.
    rest = [axis for axis in axes if axis not in union]
    split = [*[axes.index(axis) for axis in union], *[axes.index(axis) for axis in rest]]
    turned = cells.transpose(split)
    rows = _round_rows(turned.reshape(joined.size, -1), joined.ravel())
    return rows.reshape(turned.shape).transpose(np.argsort(split))


def _join_order(margins: Sequence[Axes]) -> list[Axes] | None:
    """Return the margins so that each meets the union of those before it within one of them; None where they have a cycle."""
    left = sorted(margins, key=lambda entry: (len(entry), entry))
    removed = []
    while len(left) > 1:
        for ear in left:
            others = [set(other) for other in left if other != ear]
            meeting = set(ear) & set().union(*others)
            if any(meeting <= other for other in others):
                break
        else:
            return None
        left.remove(ear)
        removed.append(ear)
    return [*left, *reversed(removed)]


def _join_margins(axes: Axes, cells: Floats, left: tuple[Axes, Integers], right: tuple[Axes, Integers]) -> Integers:
    """Return a whole table on the union of two sets of axes that has both whole margins, near the cells given."""
    common = [axis for axis in left[0] if axis in right[0]]
    rows = [axis for axis in left[0] if axis not in common]
    columns = [axis for axis in right[0] if axis not in common]
    places = [axes.index(axis) for axis in (*common, *rows, *columns)]
    turned = cells.transpose(places)
    shape = [math.prod(cells.shape[axes.index(axis)] for axis in group) for group in (common, rows, columns)]
    blocks = turned.reshape(shape)
    row_sums = left[1].transpose([left[0].index(axis) for axis in (*common, *rows)]).reshape(shape[0], shape[1])
    column_sums = right[1].transpose([right[0].index(axis) for axis in (*common, *columns)]).reshape(shape[0], shape[2])
    whole = np.stack([round_matrix(b, r, c) for b, r, c in zip(blocks, row_sums, column_sums, strict=True)])
    return whole.reshape(turned.shape).transpose(np.argsort(places))


def round_matrix(cells: Floats, row_sums: Integers, column_sums: Integers) -> Integers:
    """Return a whole matrix without negative cells that has these sums, near the cells given.

    Each row is rounded by largest remainders; then units move within rows, from columns with too much to columns with too
    little, each time where the sum of squared differences grows least. A column with too much has a cell of at least 1, so
    there always is a move, and each ends one unit nearer: the sums must be whole, not negative, and have one total.

    >>> round_matrix(np.array([[0.5, 0.5], [0.5, 0.5]]), np.array([1, 1]), np.array([1, 1])).tolist()
    [[1, 0], [0, 1]]
    """
    if cells.shape[0] < cells.shape[1]:
        return round_matrix(cells.T, column_sums, row_sums).T
    whole = _round_rows(cells, row_sums)
    excess = whole.sum(axis=0) - column_sums
    over = whole - cells
    while excess.any():
        giving = np.flatnonzero(excess > 0)
        taking = np.flatnonzero(excess < 0)
        # The change of a squared difference d to (d - 1)^2 or (d + 1)^2 is 1 - 2d or 1 + 2d.
        down = np.where(whole[:, giving] > 0, -over[:, giving], np.inf)
        up = over[:, taking]
        row = int(np.argmin(down.min(axis=1) + up.min(axis=1)))
        giver = giving[np.argmin(down[row])]
        taker = taking[np.argmin(up[row])]
        for column, step in ((giver, -1), (taker, 1)):
            whole[row, column] += step
            over[row, column] += step
            excess[column] += step
    return whole


def _round_rows(cells: Floats, sums: Integers) -> Integers:
    """Return whole rows with these sums, by largest remainders; cells are first scaled to a sum that is far from theirs."""
    width = cells.shape[1]
    have = cells.sum(axis=1)
    far = np.abs(have - sums) > 1.5
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where(have > 0, sums / have, 0.0)
    scaled = np.where(far[:, None], cells * factor[:, None], cells)
    # A row of zeros has its sum spread evenly.
    empty = far & (have <= 0)
    scaled = np.where(empty[:, None], (sums / width)[:, None], scaled)
    whole = np.floor(scaled).astype(np.int64)
    need = sums - whole.sum(axis=1)
    while need.any():
        # A row gains a unit where its cells are furthest above the whole ones, and loses one where they are least.
        rest = scaled - whole
        gain = np.argsort(np.argsort(-rest, axis=1, kind="stable"), axis=1) < np.minimum(need, width)[:, None]
        removable = np.where(whole > 0, rest, np.inf)
        lose = np.argsort(np.argsort(removable, axis=1, kind="stable"), axis=1) < np.minimum(-need, width)[:, None]
        whole += gain
        whole -= lose & (whole > 0) & (need < 0)[:, None]
        need = sums - whole.sum(axis=1)
    return whole


def _search_whole(axes: Axes, cells: Floats, margins: Mapping[Axes, Integers]) -> Integers:
    """Return whole cells with margins that have a cycle, by integer programming; raises NotWhole where none are found."""
    from scipy import sparse
    from scipy.optimize import Bounds, LinearConstraint, milp

    failure = NotWhole(
        f"no whole table on {axes} has the margins that it shares with others: ask for tables of at most two columns, or "
        "for estimates that are not rounded"
    )
    if cells.size > _HARD_CELLS:
        raise failure
    base = np.floor(cells).astype(np.int64).ravel()
    rest = cells.ravel() - base
    number = np.arange(cells.size).reshape(cells.shape)
    rows = []
    sums = []
    for margin, values in margins.items():
        places = [axes.index(axis) for axis in (*margin, *[axis for axis in axes if axis not in margin])]
        groups = number.transpose(places).reshape(values.size, -1)
        picks = (np.ones(groups.size), (np.repeat(np.arange(values.size), groups.shape[1]), groups.ravel()))
        row = sparse.csr_matrix(picks, shape=(values.size, cells.size))
        rows.append(row)
        sums.append(values.ravel() - row @ base)
    matrix = sparse.vstack(rows)
    # Each cell is its floor plus a first step up, plus a second, less one down; squared differences grow along them.
    cost = np.concatenate([1 - 2 * rest, 3 - 2 * rest, 1 + 2 * rest])
    upper = np.concatenate([np.ones(2 * cells.size), np.minimum(base, 1)])
    bound = np.concatenate(sums).astype(np.float64)
    answer = milp(
        cost,
        integrality=np.ones(3 * cells.size),
        bounds=Bounds(0, upper),
        constraints=LinearConstraint(sparse.hstack([matrix, matrix, -matrix]).tocsr(), bound, bound),
        options={"node_limit": _HARD_NODES, "mip_rel_gap": 0.05},
    )
    if answer.x is None:
        raise failure
    first, second, down = np.rint(answer.x).astype(np.int64).reshape(3, -1)
    whole = (base + first + second - down).reshape(cells.shape)
    if any((_margin(axes, whole, margin) != values).any() for margin, values in margins.items()):
        raise failure
    return whole
