"""Cells that stand for all that a column may hold: what a question makes of any cell, it makes of one of these.

A category and a truth are listed whole, and so is a number that the question computes with. Where it only compares a number or
a moment with constants, or reads no more of a moment than its hour or its day, what it makes of a cell changes at few places:
one cell on either side of each stands for all between. So the answer to a question over these cells has every group that it
has over all declared cells, and no other.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sordino.ask.queries.expressions.bound_number import BoundNumber, number_cell
from sordino.ask.queries.expressions.nodes import (
    MIRROR,
    Apply,
    Bin,
    Clip,
    Compare,
    Constant,
    DateFormat,
    DatePart,
    DateTrunc,
    IsIn,
    IsNull,
    Match,
    Name,
    Node,
    TextFunction,
    children,
)
from sordino.ask.queries.expressions.times import DAY_PARTS, moment_constant
from sordino.core.domain import Boolean, Category, Column, Date, DateTime, Domain, Identifier, Integer, Real
from sordino.core.time_zones import offsets

if TYPE_CHECKING:
    import pyarrow as pa

MOST_COMBINATIONS = 2**20
_DAY = 86_400
_HOUR = 3_600
_MINUTE = 60
_CLOCKS = {"minute": _MINUTE, "hour": _HOUR, "hours since 1970": _HOUR, "minutes since 1970": _MINUTE}
_DAYS = frozenset({"day", "week", "month", "quarter", "year"})
_WHOLE = (None, None)
# the steps within which a double names one step
_EXACT = 10**15
# a label is a double, its value a decimal
_SLACK = Fraction(1, 1000)
# a text that no question names and no public table holds: it stands for all others
_TEXT = "\x01"


@dataclass(slots=True)
class Uses:
    """What some expressions look at of one column: each value within `spans`, elsewhere only where it lies between `cuts`.

    Spans and cuts are in whole or broken steps of the column; None is its own end. `clock` is the length of time, in seconds,
    below which nothing is read of a moment. `texts` are those that an identifier is compared with.
    """

    spans: set[tuple[Fraction | None, Fraction | None]] = field(default_factory=set)
    cuts: set[Fraction] = field(default_factory=set)
    clock: int | None = None
    texts: set[str] = field(default_factory=set)


def find_uses(nodes: Iterable[Node], domain: Domain) -> dict[str, Uses]:
    """Return the parts of each named column that expressions depend on."""
    uses: dict[str, Uses] = {}
    rest = list(nodes)
    while rest:
        node = rest.pop()
        if isinstance(node, Name):
            uses.setdefault(node.name, Uses()).spans.add(_WHOLE)
        elif not (_divide_clock(node, domain, uses) or _look_up(node, domain, uses)):
            rest += children(node)
    return uses


def _look_up(node: Node, domain: Domain, uses: dict[str, Uses]) -> bool:
    """Note the parts of a column that a simple expression over it depends on; False for any other expression."""
    of, values = _split_comparison(node)
    if not isinstance(of, Name):
        return False
    column = domain[of.name]
    use = uses.setdefault(of.name, Uses())
    if isinstance(node, (IsNull, Match)) or isinstance(column, (Category, Boolean)):
        if isinstance(node, Match):
            use.spans.add(_WHOLE)
        return True
    if isinstance(column, Identifier):
        use.texts |= {str(v) for v in values}
        return True
    cell = number_cell(of.name, column)
    if isinstance(node, (Compare, IsIn)):
        if cell.kind != "number":
            use.cuts |= {moment_constant(v, cell) / cell.unit for v in values}
            return True
        use.cuts |= {Fraction(v) / cell.unit for v in values if isinstance(v, (Fraction, int))}
        return True
    if isinstance(node, Bin):
        use.cuts |= set(_bin_edges(node, column))
        return True
    if isinstance(node, Clip):
        ends = [_steps(end, cell) for end in (node.lower, node.upper)]
        use.spans.add((ends[0], ends[1]))
        use.cuts |= {end for end in ends if end is not None}
        return True
    clock = _clock(node) if isinstance(column, DateTime) else None
    if clock is None:
        use.spans.add(_WHOLE)
        return True
    use.clock = clock if use.clock is None else math.gcd(use.clock, clock)
    return True


def _divide_clock(node: Node, domain: Domain, uses: dict[str, Uses]) -> bool:
    """Note the length of time that FLOOR(EPOCH(moment) / 300) tells apart; False for any other expression."""
    if not isinstance(node, Apply) or node.function not in ("floor", "truncate"):
        return False
    quotient = node.of
    if not isinstance(quotient, Apply) or quotient.function != "divide" or not isinstance(quotient.right, Constant):
        return False
    of = quotient.of
    length = quotient.right.value
    while isinstance(of, TextFunction) and of.function == "number":
        of = of.of
    if not isinstance(of, DatePart) or of.part != "epoch" or not isinstance(of.of, Name):
        return False
    if not isinstance(domain[of.of.name], DateTime) or not isinstance(length, Fraction):
        return False
    if isinstance(length, bool) or length.denominator != 1 or length <= 1:
        return False
    use = uses.setdefault(of.of.name, Uses())
    use.clock = int(length) if use.clock is None else math.gcd(use.clock, int(length))
    return True


def _split_comparison(node: Node) -> tuple[Node | None, Sequence[Any]]:
    """Return the operand of a simple expression, and the constants that it is compared with."""
    if isinstance(node, Compare):
        left = node.left
        right = node.right
        if isinstance(left, Constant) and node.op in MIRROR:
            left, right = right, left
        return (left, (right.value,)) if isinstance(right, Constant) else (None, ())
    if isinstance(node, IsIn):
        return node.of, node.values
    if isinstance(node, (IsNull, Match, Bin, Clip, DateTrunc, DatePart, DateFormat)):
        return node.of, ()
    return None, ()


def _bin_edges(node: Bin, column: Column) -> list[Fraction]:
    """Return the edges of bins in steps of their column; those of a width begin at the lower bound."""
    assert isinstance(node.of, Name)
    cell = number_cell(node.of.name, column)
    if node.edges is not None:
        return [step for e in node.edges if (step := _steps(e, cell)) is not None]
    low = cell.values.lower
    high = cell.values.upper
    width = node.width or Fraction(1)
    assert low is not None
    assert high is not None
    return [(low + width * i) / cell.unit for i in range(math.ceil((high - low) / width) + 1)]


def _steps(end: Fraction | datetime.date | None, cell: BoundNumber) -> Fraction | None:
    """Return a constant beside a column in the column's steps."""
    if end is None:
        return None
    return (moment_constant(end, cell) if isinstance(end, datetime.date) else end) / cell.unit


def _clock(node: Node) -> int | None:
    """Return the length of time, in seconds, of which a function of a moment reads no part; None for a second and less."""
    if isinstance(node, DateTrunc):
        if node.unit in _DAYS:
            return _DAY
        length = _CLOCKS.get(node.unit, 1) * int(node.count)
        return length if length > 1 and _DAY % length == 0 else None
    if isinstance(node, DatePart):
        return _DAY if node.part in DAY_PARTS or node.part == "date" else _CLOCKS.get(node.part)
    if isinstance(node, DateFormat):
        letters = {node.format[i + 1 :].lstrip("-")[:1] for i, c in enumerate(node.format) if c == "%"}
        if letters & set("SfTsXc"):
            return None
        return _MINUTE if letters & set("MR") else _HOUR if letters & set("HIp") else _DAY
    return None


def list_cells(column: Column, uses: Uses, keys: Iterable[Any] = ()) -> list[Any] | None:
    """Return the cells that stand for all of a column, missing ones apart; None where they are too many to list.

    `keys` are cells of public tables that it is joined with. Numbers, days and moments are in whole steps.
    """
    if isinstance(column, Category):
        return list(column.values)
    if isinstance(column, Boolean):
        return [False, True]
    if isinstance(column, Identifier):
        return None if uses.spans else [*dict.fromkeys([*sorted(uses.texts), *keys, _TEXT])]
    low, high = number_cell("", column).ends
    cuts = [*uses.cuts, *(Fraction(k) for k in keys)]
    if isinstance(column, Real):
        if any(abs(cut) >= _EXACT for cut in cuts):
            return None
        # Beyond, a double does not name one step, and nothing changes there.
        low = max(low, -_EXACT)
        high = min(high, _EXACT)
    steps = {low, high}
    for span in uses.spans:
        start = low if span[0] is None else max(low, math.floor(span[0]))
        end = high if span[1] is None else min(high, math.ceil(span[1]))
        if end - start >= MOST_COMBINATIONS:
            return None
        steps.update(range(start, end + 1))
    for cut in cuts:
        steps |= {math.floor(cut) - 1, math.floor(cut), math.ceil(cut), math.ceil(cut) + 1}
    if uses.clock is not None:
        assert isinstance(column, DateTime)
        if (high - low) * column.resolution / uses.clock >= MOST_COMBINATIONS:
            return None
        steps |= _ticks(column, uses.clock, low, high)
    return sorted(step for step in steps if low <= step <= high)


def _ticks(column: DateTime, clock: int, low: int, high: int) -> set[int]:
    """Return the first step of each length of time, by the zone's clock and by that of UTC, and where the clock changes."""
    unit = column.resolution
    parts = unit.denominator
    whole = unit.numerator
    first = math.floor(low * unit)
    last = math.ceil(high * unit)
    zone = offsets(column.zone, first, last)
    moments = set(zone.starts)
    for away in {0, *zone.values}:
        begin = (first + away) // clock * clock - away
        moments.update(range(begin, last + clock + 1, clock))
    # A year has half a million minutes, and whole numbers are divided ten times faster than fractions.
    return {-(-moment * parts // whole) for moment in moments}


def cell_array(column: Column, cells: Sequence[Any], *, missing: bool) -> pa.Array:
    """Return cells as a table holds them; with `missing`, one more that is missing."""
    import pyarrow as pa

    more: list[Any] = [None] if missing else []
    if isinstance(column, Category):
        kind = pa.int64() if isinstance(column.values[0], int) else pa.string()
        return pa.array([*cells, *more], kind)
    if isinstance(column, Boolean):
        return pa.array([*cells, *more], pa.bool_())
    if isinstance(column, Identifier):
        return pa.array([*cells, *more], pa.string())
    if isinstance(column, Integer):
        return pa.array([*cells, *more], pa.int64())
    if isinstance(column, Date):
        return pa.array([*cells, *more], pa.int32()).cast(pa.date32())
    if isinstance(column, DateTime):
        # Every resolution is a whole number of microseconds.
        micros = int(column.resolution * 1_000_000)
        return pa.array([*(step * micros for step in cells), *more], pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    assert isinstance(column, Real)
    unit = number_cell("", column).unit
    whole, parts = unit.as_integer_ratio()
    return pa.array([*(step * whole / parts for step in cells), *more], pa.float64())


def label_cells(labels: Iterable[Any], column: Column) -> list[Any] | None:
    """Return the labels of keys as cells of a column, numbers and moments in its steps; None where one lies on no step."""
    cells: list[Any] = []
    for label in labels:
        if label is None or isinstance(column, (Category, Boolean, Identifier)):
            cells.append(label)
            continue
        cell = number_cell("", column)
        value = moment_constant(label, cell) if isinstance(label, datetime.date) else Fraction(label)
        steps = round(value / cell.unit)
        if abs(value / cell.unit - steps) > _SLACK:
            return None
        cells.append(steps)
    return cells
