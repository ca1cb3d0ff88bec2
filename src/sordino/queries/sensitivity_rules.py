"""Worst-case sensitivities of counts and sums: how far one unit can move them, over all tables that a domain allows.

With C the rows one unit may have, exact in whole steps of the lattice:

    count               add_remove: C          replace: C; 0 only if the unit is a row and no row can drop out
    group-by count      add_remove: C, C, C    replace: 2C, sqrt(2) C, C                          (l1, l2, linf)
    sum of x in [l, u]  add_remove: C M        replace: C (max(u,0) - min(l,0)); u - l only if no row can drop out
    group-by sum        add_remove: C M        replace: 2 C M, C max(sqrt(2) M, max(u,0) - min(l,0))

where M = max(|l|, |u|). A filter does not change a count's sensitivity, except that 0.

    count of different values, v of them possible      add_remove: m = min(C, v)     replace: m
    the same by group, k groups                        l1 min(C, k m)                l1 min(2C, k m)
    count of units (of the unit's own column)          1; by group l1 min(C, k)      1; by group l1 min(2C, k)

Proof: putting a row in, or taking one out, changes the set of values of its own group by one value at most. So one
unit's rows change group g by at most m_g <= m (1 for the unit's own column: it has one value), with sum of m_g <= C.
Under add_remove all changes have one sign; a sum of squares under these limits is largest where as many groups as can be
move by m. Under replace first the old rows go, then the new ones come: group g moves by a_g - r_g, a_g and r_g each within
the limits above, so by m at most, the sum by 2C at most, and (a - r)^2 <= a^2 + r^2 doubles the square.
"""

from __future__ import annotations

from fractions import Fraction

from sordino.loss import format_number
from sordino.neighbors import Neighbors, Sensitivity

__all__ = ["count_sensitivity", "distinct_sensitivity", "stack", "sum_sensitivity"]


def count_sensitivity(neighbors: Neighbors, *, cells: int, droppable: bool) -> Sensitivity:
    """Return how far one unit moves a count (`cells` = 1) or a vector of counts over disjoint groups.

    `droppable` says whether a row may fail to be counted: by a filter, a missing cell or an unreadable row.
    """
    c = neighbors.contributions
    unit = _unit(neighbors)
    if neighbors.relation == "add_remove":
        touched = min(c, cells)
        return Sensitivity(
            touched, Fraction(c), Fraction(c * c), Fraction(c), f"add_remove of {unit} moves counts by {c}"
        )
    if cells == 1:
        if not droppable and neighbors.unit is None and c == 1:
            because = "replace of one row, which no filter or missing cell can drop, leaves the count as it is"
            return Sensitivity(0, Fraction(0), Fraction(0), Fraction(0), because)
        return Sensitivity(1, Fraction(c), Fraction(c * c), Fraction(c), f"replace of {unit} moves the count by {c}")
    because = f"replace of {unit} lowers some counts by {c} in all and raises others by {c}"
    return Sensitivity(min(2 * c, cells), Fraction(2 * c), Fraction(2 * c * c), Fraction(c), because)


def sum_sensitivity(
    neighbors: Neighbors, *, lower: Fraction, upper: Fraction, cells: int, droppable: bool
) -> Sensitivity:
    """Return how far one unit moves a sum of values in [lower, upper], or a vector of such sums over disjoint groups.

    >>> unit = Neighbors("replace", None)
    >>> sum_sensitivity(unit, lower=Fraction(-5), upper=Fraction(3), cells=1, droppable=True).l1
    Fraction(8, 1)
    """
    c = neighbors.contributions
    largest = max(abs(lower), abs(upper))
    spread = max(upper, Fraction(0)) - min(lower, Fraction(0))
    span = f"[{format_number(lower)}, {format_number(upper)}]"
    if neighbors.relation == "add_remove":
        move = c * largest
        because = f"add_remove of {c} row(s) with values in {span} moves the sum by at most {format_number(move)}"
        return Sensitivity(min(c, cells), move, move**2, move, because)
    if cells == 1:
        if not droppable and neighbors.unit is None and c == 1:
            move = upper - lower
            because = (
                f"replace of one row, which cannot drop out, moves a sum of values in {span} by {format_number(move)}"
            )
        else:
            move = c * spread
            because = f"replace of {c} row(s) with values in {span}, or dropped, moves the sum by {format_number(move)}"
        return Sensitivity(1, move, move**2, move, because)
    squared = c * c * max(2 * largest**2, spread**2)
    because = f"replace of {c} row(s) with values in {span} moves two groups by {format_number(c * largest)} each"
    return Sensitivity(min(2 * c, cells), 2 * c * largest, squared, c * spread, because)


def distinct_sensitivity(neighbors: Neighbors, *, cells: int, values: int | None, column: str | None) -> Sensitivity:
    """Return how far one unit moves a count of different values, or a vector of such counts over disjoint groups.

    `values` is how many values are possible, None where that is open; `column` is the column that the values are of.

    >>> distinct_sensitivity(Neighbors("replace", None), cells=3, values=None, column="job").l1
    Fraction(2, 1)
    """
    c = neighbors.contributions
    own = neighbors.unit is not None and neighbors.unit.column == column
    most = 1 if own else c if values is None else min(c, values)
    rows = 1 if own and cells == 1 else c  # of one unit, those that can each bring another value to their group
    sides = 1 if neighbors.relation == "add_remove" or cells == 1 else 2
    l1 = min(sides * rows, cells * most)
    full, rest = divmod(min(rows, cells * most), most) if most else (0, 0)
    l2_squared = min(sides * (full * most**2 + rest**2), cells * most**2)
    what = "units" if own else "different values"
    because = f"{neighbors.relation} of {_unit(neighbors)} moves a count of {what} by at most {most}"
    if cells > 1:
        because += f", and all groups together by at most {l1}"
    return Sensitivity(min(l1, cells), Fraction(l1), Fraction(l2_squared), Fraction(most), because)


def stack(parts: list[Sensitivity]) -> Sensitivity:
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


def _unit(neighbors: Neighbors) -> str:
    joined = "" if neighbors.copies == 1 else f", each joined with up to {neighbors.copies} public rows"
    if neighbors.unit is None:
        return f"one row{joined}"
    if not neighbors.capped:
        return f"one {neighbors.unit.people}{joined}"
    return f"one {neighbors.unit.people} with at most {neighbors.unit.max_rows} rows{joined}"
