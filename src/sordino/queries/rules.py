"""Worst-case sensitivities of counts and sums: how far one unit can move them, over all tables that a domain allows.

With C the rows one unit may have, exact in whole steps of the lattice:

    count               add_remove: C          replace: C; 0 only if the unit is a row and no row can drop out
    group-by count      add_remove: C, C, C    replace: 2C, sqrt(2) C, C                          (l1, l2, linf)
    sum of x in [l, u]  add_remove: C M        replace: C (max(u,0) - min(l,0)); u - l only if no row can drop out
    group-by sum        add_remove: C M        replace: 2 C M, C max(sqrt(2) M, max(u,0) - min(l,0))

where M = max(|l|, |u|). A filter does not change a count's sensitivity, except that 0.
"""

from __future__ import annotations

from fractions import Fraction

from sordino.loss import shown
from sordino.neighbors import Neighbors, Sensitivity

__all__ = ["count_sensitivity", "stacked", "sum_sensitivity"]


def count_sensitivity(neighbors: Neighbors, *, cells: int, droppable: bool) -> Sensitivity:
    """Return how far one unit moves a count (`cells` = 1) or a vector of counts over disjoint groups.

    `droppable` says whether a row may fail to be counted: by a filter, a missing cell or an unreadable row.
    """
    c = neighbors.contributions
    unit = "one row" if neighbors.unit is None else f"one {neighbors.unit.column} with at most {c} rows"
    if neighbors.relation == "add_remove":
        touched = min(c, cells)
        return Sensitivity(
            touched, Fraction(c), Fraction(c * c), Fraction(c), f"add_remove of {unit} moves counts by {c}"
        )
    if cells == 1:
        if not droppable and neighbors.unit is None:
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
    span = f"[{shown(lower)}, {shown(upper)}]"
    if neighbors.relation == "add_remove":
        move = c * largest
        because = f"add_remove of {c} row(s) with values in {span} moves the sum by at most {shown(move)}"
        return Sensitivity(min(c, cells), move, move**2, move, because)
    if cells == 1:
        if not droppable and neighbors.unit is None:
            move = upper - lower
            because = f"replace of one row, which cannot drop out, moves a sum of values in {span} by {shown(move)}"
        else:
            move = c * spread
            because = f"replace of {c} row(s) with values in {span}, or dropped, moves the sum by {shown(move)}"
        return Sensitivity(1, move, move**2, move, because)
    squared = c * c * max(2 * largest**2, spread**2)
    because = f"replace of {c} row(s) with values in {span} moves two groups by {shown(c * largest)} each"
    return Sensitivity(min(2 * c, cells), 2 * c * largest, squared, c * spread, because)


def stacked(parts: list[Sensitivity]) -> Sensitivity:
    """Return the sensitivity of several answers told together: l0, l1 and l2 squared add, linf is the largest."""
    if len(parts) == 1:
        return parts[0]
    return Sensitivity(
        sum(p.l0 for p in parts),
        sum((p.l1 for p in parts), Fraction(0)),
        sum((p.l2_squared for p in parts), Fraction(0)),
        max(p.linf for p in parts),
        "; ".join(dict.fromkeys(p.because for p in parts)),
    )
