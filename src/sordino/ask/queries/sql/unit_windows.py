"""OVER in a sub-query of rows of the private table: what a row is among its own unit's rows. It knows no declaration.

Whether PARTITION BY names the unit, the curator says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

from sordino.ask.queries.expressions.cases import when
from sordino.ask.queries.expressions.expr import Expr
from sordino.ask.queries.expressions.nodes import Constant, Name, Node
from sordino.ask.queries.expressions.sql_trees import trees
from sordino.ask.queries.sequences import FrameReach, SequenceOrder, SequenceValue
from sordino.ask.queries.sql.text import Place
from sordino.ask.queries.sql.time_functions import read_interval
from sordino.ask.queries.sql.values import Translator

_PLACED = {
    "Lag": "lag",
    "Lead": "lead",
    "FirstValue": "first_value",
    "LastValue": "last_value",
    "RowNumber": "row_number",
    "Rank": "rank",
    "DenseRank": "dense_rank",
    "Ntile": "ntile",
    "NthValue": "nth_value",
    "PercentRank": "percent_rank",
    "CumeDist": "cume_dist",
}
_TOTALS = {"Avg": "mean", "Count": "count", "Sum": "sum", "Min": "min", "Max": "max"}
KNOWN = (
    "LAG, LEAD, FIRST_VALUE, LAST_VALUE, NTH_VALUE, ROW_NUMBER, RANK, DENSE_RANK, PERCENT_RANK, CUME_DIST, NTILE, COUNT, SUM, "
    "AVG, MIN and MAX"
)
_MOST_OFFSET = 1_000
_DAY = 86_400
# Of so many rows of one person PERCENT_RANK and CUME_DIST are a share: quotients have public bounds.
_MOST_SHARED = 1_000_000


class WindowReader:
    """Reads the windows of one sub-query; `values` are those found, equal ones once."""

    def __init__(self, place: Place, select: Any, inner: Translator) -> None:
        self.values: dict[SequenceValue, None] = {}
        self._place = place
        self._inner = inner
        self._named = {str(w.this.name).lower(): w for w in select.args.get("windows") or ()}

    def read(self, item: Any) -> Expr | None:
        """Return the column that a window makes; None for any other expression."""
        kinds = trees()
        if not isinstance(item, kinds.Window):
            return None
        function = item.this
        if isinstance(function, (kinds.IgnoreNulls, kinds.Filter, kinds.WithinGroup)):
            word = {"IgnoreNulls": "IGNORE NULLS", "Filter": "FILTER"}.get(type(function).__name__, "WITHIN GROUP")
            raise self._place.refuse(
                item,
                f"{word} of a window over one person's rows is not supported: "
                "filter rows with WHERE in the inner SELECT, or aggregate CASE WHEN ... END",
            )
        if isinstance(function, kinds.RespectNulls):
            function = function.this
        kind = type(function).__name__
        partition, order = self._parts(item)
        if kind in _PLACED:
            return self._value_of_row(item, function, _PLACED[kind], partition, order)
        if kind in _TOTALS:
            return self._total(item, function, partition, order)
        word = function.sql_name() if isinstance(function, kinds.Func) else kind.upper()
        raise self._place.refuse(item, f"{word} OVER one person's rows is not supported: {KNOWN} are")

    def _value_of_row(
        self, item: Any, function: Any, kind: str, partition: tuple[Node, ...], order: tuple[SequenceOrder, ...]
    ) -> Expr:
        """Return the value of another row, or the place of this one."""
        word = function.sql_name()
        if not order:
            raise self._place.refuse(
                item, f"{word} needs an order of the person's rows: OVER (PARTITION BY ... ORDER BY day)"
            )
        if kind in ("row_number", "rank", "dense_rank"):
            self._check_frame(item, word, (None, 0))
            return self._add(SequenceValue(kind, None, partition, order))
        if kind == "ntile":
            self._check_frame(item, word, (None, 0))
            parts = self._number(function.this)
            if parts is None or not parts:
                raise self._place.refuse(item, f"NTILE takes a number of parts from 1 to {_MOST_OFFSET:,}")
            return self._add(SequenceValue(kind, None, partition, order, parts))
        if kind in ("percent_rank", "cume_dist"):
            self._check_frame(item, word, (None, 0))
            return self._share(kind, partition, order)
        of = self._inner.value(function.this).node
        if isinstance(of, Constant):
            raise self._place.refuse(item, f"{word} of a constant is not supported: take it of a column")
        if kind == "first_value":
            self._check_frame(item, word, (None, 0), (None, None))
            return self._add(SequenceValue(kind, of, partition, order))
        if kind == "last_value":
            self._check_frame(item, word, (None, None), default=False)
            return self._add(SequenceValue(kind, of, partition, order))
        if kind == "nth_value":
            return self._nth(item, function, SequenceValue(kind, of, partition, order))
        self._check_frame(item, word, (None, 0), (None, None))
        offset = self._offset(item, function)
        value = self._add(SequenceValue(kind, of, partition, order, offset))
        default = function.args.get("default")
        if default is None or isinstance(default, trees().Null):
            return value
        # A row has the default where there is no such row; a missing value of a row that is there stays missing.
        place = self._add(SequenceValue("row_number", None, partition, order))
        last = self._add(SequenceValue("rows", None, partition)) if kind == "lead" else None
        has = place > offset if last is None else place <= last - offset
        return when(has, value).otherwise(self._inner.value(default))

    def _share(self, kind: str, partition: tuple[Node, ...], order: tuple[SequenceOrder, ...]) -> Expr:
        """Return which share of the unit's rows come before this one, or up to it and those of equal order."""
        rows = self._add(SequenceValue("rows", None, partition)).clip(1, _MOST_SHARED)
        if kind == "cume_dist":
            return (self._add(SequenceValue("rows", None, partition, order)).clip(1, _MOST_SHARED) / rows).clip(0, 1)
        rank = self._add(SequenceValue("rank", None, partition, order)).clip(1, _MOST_SHARED)
        # Of the other rows; a row alone has none before it.
        return when(rows > 1, ((rank - 1) / (rows - 1)).clip(0, 1)).otherwise(0)

    def _nth(self, item: Any, function: Any, value: SequenceValue) -> Expr:
        """Return the value of the nth row, where the frame reaches it: all rows, or those up to this one and its peers."""
        offset = function.args.get("offset")
        place = None if offset is None else self._number(offset)
        if not place:
            raise self._place.refuse(
                item, f"NTH_VALUE takes the number of a row from 1 to {_MOST_OFFSET:,}: NTH_VALUE(x, 2)"
            )
        self._check_frame(item, "NTH_VALUE", (None, 0), (None, None))
        nth = self._add(replace(value, offset=place))
        frame = self._frame(item)
        if frame == (None, None):
            return nth
        kind = "row_number" if frame == (None, 0) else "rows"
        return when(self._add(SequenceValue(kind, None, value.partition, value.order)) >= place, nth).otherwise(None)

    def _offset(self, item: Any, function: Any) -> int:
        number = function.args.get("offset")
        if number is None:
            return 1
        offset = self._number(number)
        if offset is None:
            raise self._place.refuse(item, f"{function.sql_name()} takes a number of rows from 0 to {_MOST_OFFSET:,}")
        return offset

    def _number(self, literal: Any) -> int | None:
        """Return a whole number of rows or parts; None for anything else, and for too large a number."""
        digits = str(literal.this) if isinstance(literal, trees().Literal) and not literal.is_string else ""
        return int(digits) if digits.isdigit() and int(digits) <= _MOST_OFFSET else None

    def _total(self, item: Any, function: Any, partition: tuple[Node, ...], order: tuple[SequenceOrder, ...]) -> Expr:
        """Return an aggregate of the unit's rows, or of those up to this one."""
        kinds = trees()
        word = function.sql_name()
        if isinstance(function.this, kinds.Distinct) or function.expressions:
            raise self._place.refuse(item, f"{word} OVER a person's rows takes * or one column, without DISTINCT")
        kind = _TOTALS[type(function).__name__]
        of: Node | None = None
        if kind != "count" or not isinstance(function.this, kinds.Star):
            of = self._inner.value(function.this).node
        if isinstance(of, Constant) and kind in ("count", "sum"):
            if kind == "sum" and of.value != 1:
                raise self._place.refuse(item, "SUM of a constant is not supported: take COUNT(*)")
            of = None
        if of is None:
            kind = "rows"
        reach = self._reach(item, order)
        if reach is not None:
            return self._add(SequenceValue(kind, of, partition, order, reach=reach))
        frame = self._frame(item)
        if frame is not None and not order:
            raise self._place.refuse(item, "ROWS BETWEEN needs an order of the person's rows: ORDER BY day")
        if frame == (None, None):
            return self._add(SequenceValue(kind, of, partition))
        return self._add(SequenceValue(kind, of, partition, order, frame=frame))

    def _add(self, value: SequenceValue) -> Expr:
        self.values[value] = None
        return Expr(Name(value.alias))

    # ---- the parts of OVER

    def _parts(self, item: Any) -> tuple[tuple[Node, ...], tuple[SequenceOrder, ...]]:
        """Return what a window is partitioned and ordered by, that of a named one where it has a name."""
        named = self._window_of(item)
        keys = item.args.get("partition_by") or (named.args.get("partition_by") if named is not None else None) or []
        order = item.args.get("order") or (named.args.get("order") if named is not None else None)
        partition = tuple(self._inner.value(key).node for key in keys)
        if not partition:
            raise self._place.refuse(
                item,
                "a window over rows of several persons is not private: PARTITION BY names the privacy unit's column, as in "
                "LAG(day) OVER (PARTITION BY customer ORDER BY day); windows over an answer need none",
            )
        orders = []
        for one in [] if order is None else order.expressions:
            by = self._inner.value(one.this).node
            if not isinstance(by, Constant):
                orders.append(SequenceOrder(by, bool(one.args.get("desc")), bool(one.args.get("nulls_first"))))
        return partition, tuple(orders)

    def _window_of(self, item: Any) -> Any:
        name = str(item.args.get("alias") or "").lower().strip('"')
        if not name:
            return None
        if name not in self._named:
            raise self._place.refuse(item, f"there is no window {name!r}: write WINDOW {name} AS (...)")
        named = self._named[name]
        if named.args.get("alias") or named.args.get("spec"):
            raise self._place.refuse(
                item, f"window {name!r} is made of another, or has a frame: write it out in OVER (...)"
            )
        return named

    def _reach(self, item: Any, order: tuple[SequenceOrder, ...]) -> FrameReach | None:
        """Return how far a frame by value reaches; None for any other frame."""
        spec = item.args.get("spec")
        if spec is None or str(spec.args.get("kind")).upper() != "RANGE" or spec.args.get("exclude"):
            return None
        ends = [(spec.args.get(end), str(spec.args.get(f"{end}_side") or "").upper()) for end in ("start", "end")]
        if all(str(end).upper() in ("UNBOUNDED", "CURRENT ROW") or end is None for end, _ in ends):
            return None
        if len(order) != 1:
            raise self._place.refuse(item, "RANGE BETWEEN needs an order by one number or day: ORDER BY day")
        bounds: list[Fraction | None] = []
        is_time = False
        for (end, side), outward in zip(ends, (-1, 1), strict=True):
            sign = -1 if side == "PRECEDING" else 1
            if end is None or str(end).upper() == "CURRENT ROW":
                bounds.append(Fraction(0))
            elif str(end).upper() == "UNBOUNDED":
                if sign != outward:
                    raise self._place.refuse(item, "a frame holds rows from its first end to its last")
                bounds.append(None)
            else:
                away, timed = self._away(item, end)
                is_time = is_time or timed
                bounds.append(sign * away)
        first, last = bounds
        if first is not None and last is not None and first > last:
            raise self._place.refuse(
                item, "a frame ends before it begins: write RANGE BETWEEN 7 PRECEDING AND CURRENT ROW"
            )
        return FrameReach(first, last, is_time)

    def _away(self, item: Any, end: Any) -> tuple[Fraction, bool]:
        """Return the distance of a frame's end by value, and whether it is in seconds."""
        kinds = trees()
        if isinstance(end, kinds.Literal) and not end.is_string:
            return Fraction(end.this), False
        interval = read_interval(end, self._inner.value)
        if interval is None or interval[0]:
            raise self._place.refuse(
                item,
                "a RANGE reaches a number, or an INTERVAL of days or less: RANGE BETWEEN INTERVAL 7 DAYS PRECEDING AND"
                " CURRENT ROW",
            )
        return interval[1] * _DAY + interval[2], True

    def _frame(self, item: Any) -> tuple[int | None, int | None] | None:
        """Return the rows that a frame holds, by their distance from this one; None for the rows up to this one's peers."""
        spec = item.args.get("spec")
        if spec is None:
            return None
        kind = str(spec.args.get("kind")).upper()
        ends = (self._frame_end(item, spec, "start", -1), self._frame_end(item, spec, "end", 1))
        if spec.args.get("exclude"):
            raise self._place.refuse(item, "EXCLUDE in a frame is not supported: leave it out")
        if kind == "RANGE" and ends == (None, 0):
            return None
        if kind != "ROWS" and ends not in ((None, None), (0, None), (0, 0)):
            raise self._place.refuse(
                item, f"{kind} in a frame is not supported here: write ROWS BETWEEN 2 PRECEDING AND CURRENT ROW"
            )
        first, last = ends
        if first is not None and last is not None and first > last:
            raise self._place.refuse(
                item, "a frame ends before it begins: write ROWS BETWEEN 2 PRECEDING AND CURRENT ROW"
            )
        return ends

    def _frame_end(self, item: Any, spec: Any, end: str, outward: int) -> int | None:
        place = spec.args.get(end)
        side = str(spec.args.get(f"{end}_side") or "").upper()
        if place is None or str(place).upper() == "CURRENT ROW":
            return 0
        sign = -1 if side == "PRECEDING" else 1
        if str(place).upper() == "UNBOUNDED":
            if sign == outward:
                return None
            raise self._place.refuse(item, "a frame holds rows from its first end to its last")
        number = str(place.this) if isinstance(place, trees().Literal) and not place.is_string else ""
        if not number.isdigit() or int(number) > _MOST_OFFSET:
            raise self._place.refuse(item, f"a frame's end is a number of rows up to {_MOST_OFFSET:,}")
        return sign * int(number)

    def _check_frame(
        self, item: Any, word: str, *supported: tuple[int | None, int | None], default: bool = True
    ) -> None:
        """Raise QuestionRefused for a frame by which a function would mean something else."""
        frame = self._frame(item)
        if frame is None and not default:
            raise self._place.refuse(
                item,
                f"{word} without a frame is the row itself: write {word}(x) OVER (... ROWS BETWEEN UNBOUNDED PRECEDING AND "
                "UNBOUNDED FOLLOWING)",
            )
        if frame is not None and frame not in supported:
            raise self._place.refuse(item, f"{word} with this frame is not supported: leave the frame out")


def has_window(select: Any) -> bool:
    """Return whether a SELECT has a window of its own rows."""
    kinds = trees()
    roots = [*select.expressions, *(p for p in (select.args.get("qualify"),) if p is not None)]
    return any(
        isinstance(node, kinds.Window)
        for root in roots
        for node in root.walk(prune=lambda n: isinstance(n, (kinds.Query, kinds.Window)))
    )


def own_aggregate(item: Any) -> Any:
    """Return the first aggregate in an item of SELECT that is not one over a window; None where it has none."""
    kinds = trees()
    for node in item.walk(prune=lambda n: isinstance(n, kinds.Window)):
        if isinstance(node, kinds.AggFunc):
            return node
    return None


def qualify_names(select: Any, owns: Callable[[str], bool]) -> Callable[[Any], Any]:
    """Return what finds the item of SELECT that a name in QUALIFY means; None where it is a column."""
    kinds = trees()
    aliases = {e.alias.lower(): e.this for e in select.expressions if isinstance(e, kinds.Alias)}

    def meant(item: Any) -> Any:
        if item.table or owns(item.name) or item.name.lower() not in aliases:
            return None
        return aliases[item.name.lower()]

    return meant
