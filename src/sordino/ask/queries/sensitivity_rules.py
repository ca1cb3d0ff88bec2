"""Worst-case sensitivities of counts and sums: how far one unit can move them, over all tables that a domain allows.

Of one unit at most C rows count in a question, in at most G of its groups, at most R in one group (`ContributionBounds`;
R = C and G = C where nothing else is stated). T = min(C, G R), and k is the number of groups. Exact in whole steps of the
lattice, with L = floor(T / R) R^2 + (T mod R)^2 and M = max(|l|, |u|):

    (l1, l2 squared, linf)   add_remove: T, L, min(R, T)          replace: twice T and L, min(R, T)
    count by group           G groups of one row each: G, G, 1    C rows, nothing else stated: C, C^2, C
    sum of x in [l, u]       T M, L M^2, R M                      2 T M; see below; R (max(u, 0) - min(l, 0))
    without GROUP BY         C; C M                               C; C (max(u, 0) - min(l, 0))
    where the unit is a row that cannot drop out, replace moves a count by 0 and a sum by u - l
    sum of unit totals, each clipped to [l, u]: as a sum with one row a unit and group, G groups and R = 1

A filter does not change these, except that a row may then drop out.

Theorem (stability of the caps). A question keeps, of each unit, some of its rows that meet the condition and, with GROUP
BY, have declared keys: first those of at most G groups, then at most R of each group, then at most C. Which ones follows
from a total order of that unit's rows and groups by their own cells, so the kept rows are a disjoint union over the units
of f(rows of the unit), and |f| is within the bounds. Putting a unit in, or taking it out, thus puts in or takes out f of
its rows and changes nothing else, whatever the condition is: a cap may act after WHERE (Wilson, Zhang, Lam, Desfontaines,
Simmons-Marengo, Gipson 2020, section 3). Joins with public tables act on each row by itself, so they may come before.

Proof of the table. The kept rows of one unit are a_g in group g, with 0 <= a_g <= R, sum a_g <= C and at most G of them
above 0, so sum a_g <= T. A convex function is largest at a vertex: floor(T / R) groups of R and one of the rest, hence L;
G rows in groups of their own (R = 1) move l2 by sqrt(G) only. A row adds at most M to a sum. Under replace, rows a_g come
after rows r_g went. With v = max(u, 0), w = max(-l, 0), m = min(v, w), group g moves by at most
max(a_g v + r_g w, a_g w + r_g v), which is convex in (a, r) as well: both are vertices, and what remains is how their
groups overlap. Full on full gives R^2 (v + w)^2, apart 2 R^2 M^2, a rest on a full group (R M + rest m)^2; the largest of
these sums is taken. A count is the sum of ones: l = 0, u = 1.

    count of different values, v of them possible      as a count with R = m = min(R, v); replace without groups: m
    count of units (of the unit's own column)          as a count with R = 1, whatever R is

Proof: putting a row in, or taking one out, changes the set of values of its own group by one value at most. So one
unit's rows change group g by at most m (1 for the unit's own column: it has one value), and all groups by C. Under replace
first the old rows go, then the new ones come: group g moves by a_g - r_g, each within the limits above, so by m at most,
the sum by 2C at most, and (a - r)^2 <= a^2 + r^2 doubles the square.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from sordino.core.errors import QuestionRefused
from sordino.core.loss import format_number
from sordino.core.neighbors import ContributionBounds, Neighbors, Sensitivity


def count_sensitivity(neighbors: Neighbors, *, cells: int, droppable: bool) -> Sensitivity:
    """Return how far one unit moves a count (`cells` = 1) or a vector of counts over disjoint groups.

    `droppable` says whether a row may fail to be counted: by a filter, a missing cell or an unreadable row.

    >>> from sordino.core.neighbors import PrivacyUnit
    >>> unit = PrivacyUnit("id", max_groups=4, max_rows_per_group=1)
    >>> by_group = Neighbors("add_remove", unit).enforce(None, by_group=True)
    >>> count_sensitivity(by_group, cells=100, droppable=True).l2
    2.0
    """
    c = neighbors.contributions
    unit = _unit(neighbors)
    if neighbors.relation == "replace" and cells == 1 and not droppable and neighbors.unit is None and c == 1:
        because = "replace of one row, which no filter or missing cell can drop, leaves the count as it is"
        return Sensitivity(0, Fraction(0), Fraction(0), Fraction(0), because)
    if neighbors.relation == "add_remove":
        because = f"add_remove of {unit} moves counts by {c}"
    elif cells == 1:
        because = f"replace of {unit} moves the count by {c}"
    else:
        because = f"replace of {unit} lowers some counts by {c} in all and raises others by {c}"
    return _sum_of_rows(neighbors, lower=0, upper=1, cells=cells, because=because)


def sum_sensitivity(
    neighbors: Neighbors, *, lower: Fraction, upper: Fraction, cells: int, droppable: bool
) -> Sensitivity:
    """Return how far one unit moves a sum of values in [lower, upper], or a vector of such sums over disjoint groups.

    >>> unit = Neighbors("replace", None)
    >>> sum_sensitivity(unit, lower=Fraction(-5), upper=Fraction(3), cells=1, droppable=True).l1
    Fraction(8, 1)
    """
    c = neighbors.contributions
    each = neighbors.rows_per_group
    largest = max(abs(lower), abs(upper))
    spread = max(upper, Fraction(0)) - min(lower, Fraction(0))
    span = f"[{format_number(lower)}, {format_number(upper)}]"
    if neighbors.relation == "add_remove":
        because = (
            f"add_remove of {c} row(s) with values in {span} moves the sum by at most {format_number(c * largest)}"
        )
    elif cells > 1:
        because = (
            f"replace of {c} row(s) with values in {span} moves two groups by {format_number(each * largest)} each"
        )
    elif not droppable and neighbors.unit is None and c == 1:
        move = upper - lower
        because = f"replace of one row, which cannot drop out, moves a sum of values in {span} by {format_number(move)}"
        return Sensitivity(1, move, move**2, move, because)
    else:
        move = c * spread
        because = f"replace of {c} row(s) with values in {span}, or dropped, moves the sum by {format_number(move)}"
    return _sum_of_rows(neighbors, lower=lower, upper=upper, cells=cells, because=because)


def unit_total_sensitivity(neighbors: Neighbors, *, lower: Fraction, upper: Fraction, cells: int) -> Sensitivity:
    """Return how far one unit moves a sum over units, or such sums by group, of the unit's total clipped to the bounds.

    However many rows a unit has, it adds one number in [lower, upper] to each group that it counts in. Raises
    QuestionRefused where no column names the units.

    >>> from sordino.core.neighbors import PrivacyUnit
    >>> unit = Neighbors("add_remove", PrivacyUnit("id", max_rows=50))
    >>> unit_total_sensitivity(unit, lower=Fraction(0), upper=Fraction(500), cells=1).l1
    Fraction(500, 1)
    """
    if neighbors.id_column is None:
        raise QuestionRefused(
            "a total per unit needs a column that names each row's unit: declare PrivacyUnit(column, max_rows=...); where a "
            "row is the unit, clip the column, col(...).clip(lower, upper)"
        )
    if not neighbors.capped:
        raise QuestionRefused(
            f"each {neighbors.people} is one row here: clip its value, col(...).clip(lower, upper), in place of per_unit"
        )
    groups = min(neighbors.groups, cells)
    alone = replace(neighbors, bounds=ContributionBounds(groups, groups, 1))
    span = f"[{format_number(lower)}, {format_number(upper)}]"
    because = (
        f"{neighbors.relation} of one {neighbors.people} moves {groups} group(s), by a total clipped to {span} each"
    )
    return _sum_of_rows(alone, lower=lower, upper=upper, cells=cells, because=because)


def distinct_sensitivity(neighbors: Neighbors, *, cells: int, values: int | None, column: str | None) -> Sensitivity:
    """Return how far one unit moves a count of different values, or a vector of such counts over disjoint groups.

    `values` is how many values are possible, None where that is open; `column` is the column that the values are of.

    >>> distinct_sensitivity(Neighbors("replace", None), cells=3, values=None, column="job").l1
    Fraction(2, 1)
    """
    own = neighbors.id_column is not None and neighbors.id_column == column
    most = 1 if own else min(neighbors.rows_per_group, neighbors.contributions if values is None else values)
    # the rows that each bring their group a value
    rows = min(neighbors.contributions, min(neighbors.groups, cells) * most)
    sides = 1 if neighbors.relation == "add_remove" or cells == 1 else 2
    l1 = min(sides * rows, cells * most)
    l2_squared = min(sides * _squares(rows, most), cells * most**2)
    what = "units" if own else "different values"
    because = f"{neighbors.relation} of {_unit(neighbors)} moves a count of {what} by at most {most}"
    if cells > 1:
        because += f", and all groups together by at most {l1}"
    return Sensitivity(min(l1, cells), Fraction(l1), Fraction(l2_squared), Fraction(most), because)


def stack(parts: Sequence[Sensitivity]) -> Sensitivity:
    """Return the sensitivity of several answers released together: l0, l1 and l2 squared add, linf is the largest."""
    if len(parts) == 1:
        return parts[0]
    return Sensitivity(
        sum(p.l0 for p in parts),
        sum((p.l1 for p in parts), Fraction(0)),
        sum((p.l2_squared for p in parts), Fraction(0)),
        max(p.linf for p in parts),
        "; ".join(dict.fromkeys(p.because for p in parts)),
    )


def block_sensitivity(
    neighbors: Neighbors, corners: Sequence[Sequence[int]], *, cells: int, droppable: bool
) -> Sensitivity:
    """Return how far one unit moves several vectors together, where a row adds a point of the hull of `corners`.

    A corner has one number for each vector. `droppable` says whether a row may add nothing.

    Theorem. With v, w over the corners, V the largest norm of v and D that of v - w (w = 0 too where a row may add nothing,
    as where units have several rows), T and L as in the table above:

        (l1, l2 squared)   add_remove: T V1, L V2^2      replace without GROUP BY: C D1, C^2 D2^2
                           replace: 2 T V1, L (2 V2^2 + 2 max(0, -min v w))

    Proof. Norms are convex, so they are largest at corners. What a unit adds to group g is a_g times a point of the hull, so
    its norm is a_g V at most, and the table's bounds of sum a_g and sum a_g^2 apply. Under replace without groups rows come
    in pairs, the old and the new, each pair at most D apart. With groups the l1 norms add up, and with p from a new rows and q
    from r old ones |p - q|^2 <= (a^2 + r^2) V2^2 + 2 a r max(0, -min v w), where 2 a r <= a^2 + r^2.

    >>> block_sensitivity(Neighbors("add_remove", None), [(5, 0), (0, 5)], cells=1, droppable=False).l1
    Fraction(5, 1)
    """
    groups = min(neighbors.groups, cells)
    total = min(neighbors.contributions, groups * neighbors.rows_per_group)
    each = min(neighbors.rows_per_group, total)
    several = len(corners[0])
    fixed = not droppable and neighbors.unit is None and neighbors.contributions == 1
    points = corners if fixed else [*corners, (0,) * several]
    apart = [[a - b for a, b in zip(v, w, strict=True)] for v, w in itertools.product(points, points)]
    if neighbors.relation == "add_remove":
        apart = [list(corner) for corner in corners]
    one, square, most = (max(map(norm, apart)) for norm in (_l1, _l2_squared, _linf))
    rows = total
    squares = _squares(total, each)
    if neighbors.relation == "replace" and cells > 1:
        longest = max(map(_l2_squared, corners))
        against = max(
            0, -min(sum(a * b for a, b in zip(v, w, strict=True)) for v, w in itertools.product(corners, corners))
        )
        one = max(map(_l1, corners))
        square = 2 * longest + 2 * against
        rows = 2 * total
    elif neighbors.relation == "replace":
        squares = rows**2
    because = (
        f"{neighbors.relation} of {_unit(neighbors)} moves these {several} vectors together by {_steps(rows * one)}"
    )
    touched = min(rows, cells if cells == 1 else groups * (1 if neighbors.relation == "add_remove" else 2)) * several
    return Sensitivity(touched, Fraction(rows * one), Fraction(squares * square), Fraction(each * most), because)


def _steps(count: int) -> str:
    return "1 step" if count == 1 else f"{count:,} steps"


def _l1(vector: Sequence[int]) -> int:
    return sum(map(abs, vector))


def _l2_squared(vector: Sequence[int]) -> int:
    return sum(x * x for x in vector)


def _linf(vector: Sequence[int]) -> int:
    return max(map(abs, vector))


def _sum_of_rows(
    neighbors: Neighbors, *, lower: Fraction | int, upper: Fraction | int, cells: int, because: str
) -> Sensitivity:
    """Return how far one unit's rows, or their exchange for another's, move sums over disjoint groups; see the proof."""
    groups = min(neighbors.groups, cells)
    total = min(neighbors.contributions, groups * neighbors.rows_per_group)
    each = min(neighbors.rows_per_group, total)
    most = upper if upper >= -lower else -lower
    if neighbors.relation == "add_remove":
        l1, square, linf = (Fraction(x) for x in (total * most, _squares(total, each) * most * most, each * most))
        return Sensitivity(min(groups, total), l1, square, linf, because)
    high = max(Fraction(upper), Fraction(0))
    low = max(Fraction(-lower), Fraction(0))
    linf = each * (high + low)
    l1 = min(2 * total * Fraction(most), cells * linf)
    square = min(_exchange_squares(total, each, high, low), cells * linf**2)
    return Sensitivity(min(2 * groups, 2 * total, cells), l1, square, linf, because)


def _squares(rows: int, each: int) -> int:
    """Return the largest sum of squares of so many rows, at most `each` in a group."""
    full, rest = divmod(rows, each) if each else (0, 0)
    return full * each**2 + rest**2


def _exchange_squares(rows: int, each: int, high: Fraction, low: Fraction) -> Fraction:
    """Return the largest sum of squares when so many rows go and as many come, worth up to `high` and down to -`low`."""
    full, rest = divmod(rows, each) if each else (0, 0)
    most = max(high, low)
    least = min(high, low)
    spread = high + low
    # a full group in the place of a full one, and two full groups apart
    same = (each * spread) ** 2
    apart = 2 * (each * most) ** 2
    largest = max(same, apart) * full + max((rest * spread) ** 2, 2 * (rest * most) ** 2)
    if rest and full:
        largest = max(largest, max(same, apart) * (full - 1) + 2 * (each * most + rest * least) ** 2)
    return largest


def _unit(neighbors: Neighbors) -> str:
    joined = "" if neighbors.copies == 1 else f", each joined with up to {neighbors.copies} rows"
    if neighbors.unit is None:
        return f"one row{joined}"
    if not neighbors.capped:
        return f"one {neighbors.unit.people}{joined}"
    if neighbors.unit.column is None:
        return f"one unit with, as is promised, at most {neighbors.unit.max_rows} rows{joined}"
    if neighbors.bounds is not None and neighbors.bounds.max_rows != neighbors.copies * neighbors.unit.total_rows:
        return f"one {neighbors.unit.people} with at most {neighbors.contributions} rows{_by_group(neighbors)}"
    return f"one {neighbors.unit.people} with at most {neighbors.unit.total_rows} rows{joined}{_by_group(neighbors)}"


def _by_group(neighbors: Neighbors) -> str:
    most = neighbors.contributions
    groups = neighbors.groups
    each = neighbors.rows_per_group
    words = [f"in at most {groups} groups"] * (groups < most) + [f"at most {each} a group"] * (each < most)
    return "".join(f", {w}" for w in words)
