"""Whole tables without negative cells, whose margins agree exactly: from consistent least-squares estimates.

Post-processing of released numbers, from the total down: each set of axes that tables share is made whole once, within what
was made whole before it. So a table holds exactly what its margins say, and a margin is never moved by what raising the
negative cells of a larger table to 0 would add to it: the errors of large sums are those of their own estimates.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from sordino.core.errors import DeclarationError, SordinoError
from sordino.tables.least_squares import join_parts, split_table
from sordino.tables.strategy import Axes

Floats = np.ndarray[Any, np.dtype[np.float64]]
Integers = np.ndarray[Any, np.dtype[np.int64]]

# Rounds of the search for the nearest cells of at least 0 within several margins, and the error of a margin at which it ends.
_ROUNDS = 200
_STILL = 0.02
# The penalty of the method of multipliers and its relaxation: with 3 and 1.7, 50 rounds come as near as 400 with 1 and 1.
_PENALTY = 3.0
_RELAXED = 1.7
# The largest sum of cells of which floats hold every unit, with digits to spare.
_MOST = 2.0**50
# Cells of all tables whose margins have a cycle up to which whole ones are searched for, and nodes of each search: integer
# programs of 55,000 cells in 35 tables take 20 s.
_HARD_CELLS = 100_000
_HARD_NODES = 200
# Halvings of the shift by which cells within bounds get their sums.
_HALVINGS = 60


class NotWhole(SordinoError):
    """No whole tables with these margins were found: their shared margins form a cycle, as in all tables of three columns."""


def make_whole(
    tables: Mapping[Axes, Floats], *, ordered: Collection[int] = (), known: Mapping[Axes, Integers] | None = None
) -> dict[Axes, Integers]:
    """Return whole tables without negative cells, near consistent estimates, whose margins agree exactly.

    `tables` are the cells that `estimate_tables` returns. All tables have one total, the estimated one rounded, or 0; two
    tables agree in the margin on the axes that they share, and a table that is within another is its margin. Within its
    margins, a table is the nearest one without negative cells, in squared differences, rounded. On an `ordered` axis, ranges are
    halved from the whole axis down, so that sums over ranges are near theirs, see `_halve_ranges`. Margins in `known` are kept as
    they are: whole, not negative, and agreeing where they overlap.

    Theorem: for tables of at most two axes, and wherever the margins that a table shares with others have no cycle, whole
    tables with the rounded margins exist: two margins that agree where they overlap are those of a whole table that is not
    negative (the transport problem), and the margins of an acyclic set are put together one by one (Vorob'ev 1962; Beeri,
    Fagin, Maier, Yannakakis 1983). Else, whole tables are searched for, near the estimates. Raises NotWhole where none is
    found, and DeclarationError where a cell is no number.

    >>> make_whole({(0,): np.array([4.6, -1.2, 0.5])})[0,].tolist()
    [4, 0, 0]
    """
    for table, cells in tables.items():
        if not np.isfinite(cells).all():
            raise DeclarationError(f"the table {table} has cells that are no numbers")
        if float(np.abs(cells).sum()) > _MOST:
            raise NotWhole(f"the table {table} has sums that floats do not hold to a unit: state a coarser resolution")
    known = known or {}
    sets = sorted(_shared_sets([*tables, *known]), key=lambda entry: (len(entry), entry))
    inside = {axes: _widest_within(axes, sets) for axes in sets}
    cyclic = [axes for axes in sets if _join_order(inside[axes]) is None]
    if sum(math.prod(_keys(tables, axes)) for axes in cyclic) > _HARD_CELLS:
        raise _explain_failure(cyclic[0])
    whole: dict[Axes, Integers] = {}
    estimates = tables
    for axes in sets:
        public = next((margin for margin in known if set(axes) <= set(margin)), None)
        if public is not None:
            whole[axes] = np.asarray(_margin(public, known[public], axes), dtype=np.int64)
            continue
        # Margins that were made whole one by one may be those of no table at all where they have a cycle: what has
        # more than one axis is then brought above 0 together, once.
        if cyclic and len(axes) > 1 and estimates is tables:
            estimates = agree_above_zero(tables, whole)
        # The margin comes from the smallest table that has it: all agree.
        table = min((t for t in tables if set(axes) <= set(t)), key=lambda t: (tables[t].size, t))
        cells = _margin(table, estimates[table].astype(np.float64), axes)
        margins = {margin: whole[margin] for margin in inside[axes]}
        whole[axes] = _make_one_whole(axes, cells, margins, ordered)
    return {table: whole[table] for table in tables}


def check_margins(margins: Mapping[Axes, Integers]) -> None:
    """Raise NotWhole where no table of cells of at least 0 has these margins, which agree where they overlap.

    Without a cycle there always is one (see `make_whole`); else a linear program says so, for up to a number of cells.
    """
    widest = [axes for axes in margins if not any(set(axes) < set(other) for other in margins)]
    if len(widest) < 3 or _join_order(widest) is not None:
        return
    union = tuple(sorted({axis for axes in widest for axis in axes}))
    sizes = {axis: values.shape[place] for axes, values in margins.items() for place, axis in enumerate(axes)}
    shape = [sizes[axis] for axis in union]
    if math.prod(shape) > _HARD_CELLS:
        raise _explain_failure(union)
    # Imported here, since few tables have a cycle and the import takes most of a second.
    from scipy import sparse
    from scipy.optimize import linprog

    number = np.arange(math.prod(shape)).reshape(shape)
    rows = []
    for axes in widest:
        groups = _group_cells(union, number, axes)
        picks = (np.ones(groups.size), (np.repeat(np.arange(len(groups)), groups.shape[1]), groups.ravel()))
        rows.append(sparse.csr_matrix(picks, shape=(len(groups), number.size)))
    sums = np.concatenate([margins[axes].ravel() for axes in widest]).astype(np.float64)
    if linprog(np.zeros(number.size), A_eq=sparse.vstack(rows), b_eq=sums, method="highs").status != 0:
        raise _explain_failure(union)


def _make_one_whole(axes: Axes, cells: Floats, margins: Mapping[Axes, Integers], ordered: Collection[int]) -> Integers:
    """Return a whole table within its whole margins."""
    for axis in axes:
        # Several margins with the axis are more than halves can be split by.
        if axis in ordered and sum(axis in margin for margin in margins) <= 1:
            return _halve_ranges(axes, cells, margins, axis, ordered)
    return _round_within(axes, remove_negatives(axes, cells, margins), margins)


def _halve_ranges(
    axes: Axes, cells: Floats, margins: Mapping[Axes, Integers], axis: int, ordered: Collection[int]
) -> Integers:
    """Return a whole table whose sums over ranges of one axis are near those of the estimates.

    The nearest cells that are not negative are far off in sums over many keys, each raised a little, where the noise of
    single keys is larger than that of ranges. So first the table without the axis is made whole, then each range of keys is
    split in two: the first half gets what it has by the estimates, half of what their sum and difference say, cut to what the
    range has, and shifted to the sums of the one margin that has the axis. Each step is within what stands, so it always can
    be taken.
    """
    rest = tuple(other for other in axes if other != axis)
    place = axes.index(axis)
    own = next((margin for margin in margins if axis in margin), None)
    if own is None and rest:
        total = next(iter(margins.values())).sum() if margins else np.floor(max(float(cells.sum()), 0.0) + 0.5)
        own = (axis,)
        sums = _halve_ranges(own, _margin(axes, cells, own), {(): np.array(total, dtype=np.int64)}, axis, ordered)
    elif own is not None:
        sums = margins[own]
    inner = {margin: values for margin, values in margins.items() if axis not in margin}
    group: Axes = ()
    if own is not None:
        group = tuple(other for other in own if other != axis)
        inner[group] = sums.sum(axis=own.index(axis))
    inner = {m: values for m, values in inner.items() if not any(set(m) < set(wider) for wider in inner)}
    whole = inner[()] if not rest and inner else _make_one_whole(rest, cells.sum(axis=place), inner, ordered)
    # Axes: nodes or keys, the cells of the margin with the axis, and what it does not hold down.
    split = [axes.index(other) for other in (*group, *[other for other in rest if other not in group])]
    width = math.prod(cells.shape[axes.index(other)] for other in group)
    keys = cells.shape[place]
    estimates = cells.transpose(place, *split).reshape(keys, width, -1)
    order = [rest.index(axes[other]) for other in split]
    ranges = [(0, keys)]
    nodes = np.asarray(whole).transpose(order).reshape(1, width, -1)
    wanted = None
    if rest:
        assert own is not None
        turned = sums.transpose(own.index(axis), *[own.index(other) for other in group]).reshape(keys, width)
        wanted = np.concatenate([np.zeros((1, width), dtype=np.int64), turned.cumsum(axis=0)])
    below = np.concatenate([np.zeros((1, *estimates.shape[1:])), estimates.cumsum(axis=0)])
    while any(high - low > 1 for low, high in ranges):
        wide = np.array([high - low > 1 for low, high in ranges])
        lows, highs = np.array(ranges).T
        middles = np.where(wide, (lows + highs) // 2, highs)
        first = below[middles] - below[lows]
        second = below[highs] - below[middles]
        aim = (first - second + nodes) / 2
        halves = nodes.copy()
        target = None if wanted is None else (wanted[middles] - wanted[lows])[wide]
        halves[wide] = _fill_within(aim[wide], nodes[wide], target)
        split_nodes = []
        split_ranges = []
        for node, half, low, middle, high in zip(nodes, halves, lows, middles, highs, strict=True):
            split_nodes.append(half)
            split_ranges.append((int(low), int(middle)))
            if middle < high:
                split_nodes.append(node - half)
                split_ranges.append((int(middle), int(high)))
        nodes = np.stack(split_nodes)
        ranges = split_ranges
    back = nodes.reshape(keys, *[cells.shape[other] for other in split])
    return back.transpose(np.argsort([place, *split]))


def _fill_within(aim: Floats, most: Integers, sums: Integers | None) -> Integers:
    """Return the nearest whole cells from 0 to `most`, whose last axis has these sums where they are given."""
    if sums is None:
        return np.clip(np.floor(aim + 0.5), 0, most).astype(np.int64)
    low = -np.maximum(aim.max(axis=-1), 0.0) - 1
    high = (most - aim).max(axis=-1) + 1
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        less = np.clip(aim + middle[..., None], 0, most).sum(axis=-1) < sums
        low = np.where(less, middle, low)
        high = np.where(less, high, middle)
    cells = np.clip(aim + high[..., None], 0, most)
    whole = np.floor(cells + 1e-9).astype(np.int64)
    need = sums - whole.sum(axis=-1)
    while need.any():
        # Units go to the cells furthest below what they are near, among those with room, or come from those furthest above.
        rest = cells - whole
        gain = np.argsort(np.argsort(-np.where(whole < most, rest, -np.inf), axis=-1, kind="stable"), axis=-1)
        lose = np.argsort(np.argsort(np.where(whole > 0, rest, np.inf), axis=-1, kind="stable"), axis=-1)
        step = (gain < need[..., None]) & (whole < most)
        back = (lose < -need[..., None]) & (whole > 0)
        whole = whole + step - back
        need = sums - whole.sum(axis=-1)
    return np.asarray(whole)


def remove_negatives(axes: Axes, cells: Floats, margins: Mapping[Axes, Integers]) -> Floats:
    """Return the nearest cells of at least 0 that have these margins, up to a small error of the margins.

    The nearest cells in squared differences are max(0, cell + a sum of one number for each margin's cell), by the conditions
    of Karush, Kuhn and Tucker; each margin in turn sets its numbers so that it is met exactly, which raises the dual of the
    problem until all are met. One margin is met at once.
    """
    if not margins:
        return np.maximum(cells, 0.0)
    if _join_order(list(margins)) is None:
        return np.maximum(cells, 0.0)
    shifted = cells.flatten()
    number = np.arange(cells.size).reshape(cells.shape)
    groups = {margin: _group_cells(axes, number, margin) for margin in margins}
    for _ in range(_ROUNDS):
        worst = 0.0
        for margin, sums in margins.items():
            block = shifted[groups[margin]]
            step = shift_to_sums(block, sums.ravel().astype(np.float64))
            if len(margins) > 1:
                gap = np.maximum(block, 0.0).sum(axis=1) - sums.ravel()
                worst = max(worst, float(np.abs(gap).max()))
            shifted[groups[margin]] = block + step[:, None]
        if worst < _STILL:
            break
    return np.maximum(shifted, 0.0).reshape(cells.shape)


def agree_above_zero(tables: Mapping[Axes, Floats], known: Mapping[Axes, Integers]) -> dict[Axes, Floats]:
    """Return tables near the given ones whose margins agree, of cells of at least 0, with the margins in `known`.

    They minimise the sum over tables of mean squared differences, by the alternating direction method of multipliers (Boyd
    et al. 2011, section 5): agreement is a mean on each part by itself, and cells of at least 0 are a clip.
    """
    exact = {part: cells for table, sums in known.items() for part, cells in split_table(table, sums).items()}
    positive = {table: np.maximum(cells, 0.0) for table, cells in tables.items()}
    dual = {table: np.zeros(cells.shape) for table, cells in tables.items()}
    for _ in range(_ROUNDS):
        parts: dict[Axes, Any] = {}
        norms: dict[Axes, int] = {}
        for table, cells in tables.items():
            # The copies above 0 weigh _PENALTY times the estimates.
            middle = (cells + _PENALTY * (positive[table] - dual[table])) / (1 + _PENALTY)
            for part, values in split_table(table, middle).items():
                weight = values.size
                parts[part] = parts[part] + weight * values if part in parts else weight * values
                norms[part] = norms.get(part, 0) + weight
        means = {part: exact[part] if part in exact else summed / norms[part] for part, summed in parts.items()}
        furthest = 0.0
        for table, cells in tables.items():
            agreeing = join_parts(table, cells.shape, means)
            relaxed = _RELAXED * agreeing + (1 - _RELAXED) * positive[table]
            positive[table] = np.maximum(relaxed + dual[table], 0.0)
            dual[table] += relaxed - positive[table]
            furthest = max(furthest, float(np.abs(agreeing - positive[table]).max()))
        if furthest < _STILL:
            break
    return positive


def _widest_within(axes: Axes, sets: Sequence[Axes]) -> list[Axes]:
    """Return the sets within a set of axes, other than itself, that are in no larger one of them."""
    inner = [other for other in sets if set(other) < set(axes)]
    return [other for other in inner if not any(set(other) < set(wider) for wider in inner)]


def _group_cells(axes: Axes, number: Any, margin: Axes) -> Any:
    """Return, for each cell of a margin, the numbers of the cells of a table that it sums."""
    places = [axes.index(axis) for axis in (*margin, *[axis for axis in axes if axis not in margin])]
    count = math.prod(number.shape[axes.index(axis)] for axis in margin)
    return number.transpose(places).reshape(count, -1)


def shift_to_sums(rows: Floats, sums: Floats) -> Floats:
    """Return for each row the number that, added to its cells, makes those above 0 sum to what it should."""
    ordered = -np.sort(-rows, axis=1)
    # With the k largest cells above 0, each is raised by (sum - their sum) / k; the right k is the last that keeps them so.
    raised = (sums[:, None] - np.cumsum(ordered, axis=1)) / np.arange(1, rows.shape[1] + 1)
    last = np.maximum((ordered + raised > 0).sum(axis=1) - 1, 0)
    step: Floats = np.take_along_axis(raised, last[:, None], axis=1)[:, 0]
    return step


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
    rows = round_rows(turned.reshape(joined.size, -1), joined.ravel())
    return np.asarray(rows.reshape(turned.shape).transpose(np.argsort(split)))


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

    >>> round_matrix(np.array([[0.6, 0.4], [0.4, 0.6]]), np.array([1, 1]), np.array([1, 1])).tolist()
    [[1, 0], [0, 1]]
    """
    if cells.shape[0] < cells.shape[1]:
        return round_matrix(cells.T, column_sums, row_sums).T
    whole = round_rows(cells, row_sums)
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
        # Where margins are far off, as after a search that ended early, more than one unit moves at a time.
        units = max(1, min(int(excess[giver]), -int(excess[taker]), int(whole[row, giver])) // 2)
        for column, step in ((giver, -units), (taker, units)):
            whole[row, column] += step
            over[row, column] += step
            excess[column] += step
    return whole


def round_rows(cells: Floats, sums: Integers) -> Integers:
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

    base = np.floor(cells).astype(np.int64).ravel()
    rest = cells.ravel() - base
    number = np.arange(cells.size).reshape(cells.shape)
    rows = []
    sums = []
    for margin, values in margins.items():
        groups = _group_cells(axes, number, margin)
        picks = (np.ones(groups.size), (np.repeat(np.arange(values.size), groups.shape[1]), groups.ravel()))
        row = sparse.csr_matrix(picks, shape=(values.size, cells.size))
        rows.append(row)
        sums.append(values.ravel() - row @ base)
    matrix = sparse.vstack(rows)
    # Each cell is its floor plus a first step up, plus more, less some down; squared differences grow along them.
    cost = np.concatenate([1 - 2 * rest, 3 - 2 * rest, 1 + 2 * rest])
    upper = np.concatenate([np.ones(cells.size), np.full(cells.size, np.inf), base])
    bound = np.concatenate(sums).astype(np.float64)
    answer = milp(
        cost,
        integrality=np.ones(3 * cells.size),
        bounds=Bounds(0, upper),
        constraints=LinearConstraint(sparse.hstack([matrix, matrix, -matrix]).tocsr(), bound, bound),
        options={"node_limit": _HARD_NODES, "mip_rel_gap": 1.0},
    )
    if answer.x is None:
        raise _explain_failure(axes)
    first, second, down = np.rint(answer.x).astype(np.int64).reshape(3, -1)
    whole: Integers = (base + first + second - down).reshape(cells.shape)
    if any((_margin(axes, whole, margin) != values).any() for margin, values in margins.items()):
        raise _explain_failure(axes)
    return whole


def _explain_failure(axes: Axes) -> NotWhole:
    return NotWhole(
        f"no whole table on {axes} has the margins that it shares with others: ask for tables of at most two columns, or "
        "for estimates that are not rounded"
    )


def _keys(tables: Mapping[Axes, Floats], axes: Axes) -> list[int]:
    """Return the numbers of keys of some axes, from a table that has them."""
    table = next(t for t in tables if set(axes) <= set(t))
    return [tables[table].shape[table.index(axis)] for axis in axes]
