"""Sequences within one unit: what a row is among its own unit's rows, as LAG and ROW_NUMBER say it. It knows declarations only.

Theorem: the step adds to each row cells that are a function of the bag of its own unit's rows: all rows that a window looks at
agree in the unit, and rows that its order does not tell apart are alike in every cell (`SqlPrimitives.add_windows`). No row
comes or goes but by the step's own condition on single rows, and no row of another unit changes. So putting in or taking out
one unit puts in or takes out its own rows, and replacing one replaces its own; the unit's cap on rows acts after the step, so
every sensitivity is that of the rows without it (stability; McSherry 2009, section 2.3). Where a row is a unit the theorem
fails: a row more changes the LAG of the next, so that two rows of the answer move; there the step is refused.

What bounds a sensitivity is a value's range: for LAG, LEAD, FIRST_VALUE, MIN and MAX it is that of the column; a row's
number, a rank, a count and a sum have no upper bound of their own, as a unit may own more rows than its cap, and are clipped
where bounds are needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from typing import Any

from sordino.ask.queries.expressions.bound_number import Interval
from sordino.ask.queries.expressions.compile import bind_condition, bind_number, presence
from sordino.ask.queries.expressions.declared_values import is_text
from sordino.ask.queries.expressions.nodes import (
    Compare,
    Connective,
    IsNull,
    Name,
    Node,
    Windowed,
    depth,
    describe,
    plain,
    walk,
)
from sordino.ask.queries.expressions.sql_trees import Build
from sordino.ask.queries.per_unit import (
    MEAN_PARTS,
    PerUnit,
    UnitValue,
    clip_notes,
    number_column,
    row_bounds,
    value_cell,
)
from sordino.core.domain import Boolean, Category, Column, Domain, Identifier, Integer, List, keep_missing
from sordino.core.errors import QuestionRefused
from sordino.core.loss import format_number
from sordino.core.neighbors import Neighbors, PrivacyUnit
from sordino.core.primitives import NARROW, Primitives, UnitWindow, WindowOrder

_PLACES = ("row_number", "rank", "dense_rank", "ntile")
_PICKS = ("lag", "lead", "first_value", "last_value")
_NTH = "nth_value"
_WORDS = {
    "lag": "{of} {n} before",
    "lead": "{of} {n} after",
    "first_value": "the first {of}",
    "last_value": "the last {of}",
    _NTH: "{of} of row {n}",
    "row_number": "the row's number",
    "rank": "the row's rank",
    "dense_rank": "the row's dense rank",
    "ntile": "the part of {n}",
    "rows": "the number of rows",
    "count": "the number of rows with {of}",
    "sum": "the sum of {of}",
    "mean": "the mean of {of}",
    "min": "the least {of}",
    "max": "the largest {of}",
}
SEQUENCE_KINDS = frozenset(_WORDS)
# the most rows between a row and one that it looks at
MOST_OFFSET = 1_000
# in seconds
_DAY = 86_400
# in steps: 64 bits hold the ends of every range
_FARTHEST = 2**61
_EXAMPLE = "LAG(day) OVER (PARTITION BY {unit} ORDER BY day)"


@dataclass(frozen=True, slots=True)
class SequenceOrder:
    """What a unit's rows are ordered by."""

    by: Node
    descending: bool = False
    nulls_first: bool = False

    def plain(self) -> Any:
        """Return the order as canonical JSON data."""
        return [plain(self.by), self.descending, self.nulls_first]

    def describe(self) -> str:
        """Return the order in words."""
        return f"{describe(self.by)}{' descending' if self.descending else ''}"

    def build(self, domain: Domain) -> Build:
        """Return the cell by which every engine orders rows alike: a number, a place in the alphabet, or an identifier's text."""
        of = self.by
        column = domain[of.name] if isinstance(of, Name) else None
        if isinstance(of, Name) and isinstance(column, Identifier):
            name = of.name
            return lambda on: on.raw(name)
        if is_text(of) or isinstance(column, (Category, Boolean)):
            return _alphabetical(of, domain)
        return bind_number(of, domain).build


@dataclass(frozen=True, slots=True)
class FrameReach:
    """How far a frame reaches from a row by the value that orders it: numbers, or seconds; None for all on a side."""

    first: Fraction | None
    last: Fraction | None
    is_time: bool

    def plain(self) -> Any:
        """Return the reach as canonical JSON data."""
        return [*(None if end is None else format_number(end) for end in (self.first, self.last)), self.is_time]

    def describe(self) -> str:
        """Return the reach in words."""
        unit = " seconds" if self.is_time else ""
        first, last = ("any" if end is None else f"{format_number(end)}{unit}" for end in (self.first, self.last))
        return f"from {first} to {last} away"

    def steps(self, order: Node, domain: Domain) -> tuple[int | None, int | None]:
        """Return the ends in steps of what the rows are ordered by; raises QuestionRefused where these are no whole numbers."""
        number = bind_number(order, domain)
        words = describe(order)
        if self.is_time != (number.kind != "number"):
            raise QuestionRefused(
                f"a RANGE of {words} reaches {'a number' if self.is_time else 'a length of time, such as INTERVAL 7 DAYS'}"
            )
        unit = Fraction(_DAY) if number.kind == "date" else number.unit
        ends = [None if end is None else end / unit for end in (self.first, self.last)]
        if number.zone not in ("", "UTC") and any(end and abs(end * unit) >= _DAY for end in ends):
            raise QuestionRefused(
                f"a RANGE of days of {words} is not supported in {number.zone}, whose days differ in length: take hours"
            )
        far = max((abs(end) for end in ends if end is not None), default=Fraction(0))
        largest = number.stored.largest
        if largest is None or max(largest, far) >= _FARTHEST or any(end and end.denominator != 1 for end in ends):
            raise QuestionRefused(f"a RANGE of {words} reaches whole steps of it, which are {format_number(unit)}")
        first, last = (None if end is None else int(end) for end in ends)
        return first, last


@dataclass(frozen=True, slots=True)
class SequenceValue:
    """A value of a row among the rows that agree in `partition`, the unit's column and perhaps others.

    `kind` is that of `UnitWindow`.
    """

    kind: str
    of: Node | None
    partition: tuple[Node, ...]
    order: tuple[SequenceOrder, ...] = ()
    offset: int = 1
    frame: tuple[int | None, int | None] | None = None
    # of a frame by value, such as RANGE BETWEEN
    reach: FrameReach | None = None

    @property
    def alias(self) -> str:
        """The name of its column: what it says."""
        of = "" if self.of is None else describe(self.of)
        n = (
            f"{self.offset}"
            if self.kind in ("ntile", _NTH)
            else "one row"
            if self.offset == 1
            else f"{self.offset} rows"
        )
        words = _WORDS[self.kind].format(of=of, n=n)
        if self.reach is not None:
            words += f" {self.reach.describe()}"
        if self.frame is not None:
            words += f" from {_place_words(self.frame[0], 'first')} to {_place_words(self.frame[1], 'last')}"
        by = ", ".join(o.describe() for o in self.order)
        return f"{words} of each {', '.join(map(describe, self.partition))}{f' by {by}' if by else ''}"

    def implied_condition(self) -> Node | None:
        """Return a condition that every row meets, whatever the table; None where nothing follows from what the value is.

        A person's least day is no later than any of its days, and the day before, by day, no later than this one.
        """
        if self.of is None or self.frame is not None or self.reach is not None:
            return None
        op = {"min": "<=", "max": ">="}.get(self.kind)
        if self.kind in _PICKS and self.order and self.order[0].by == self.of:
            before = self.kind in ("lag", "first_value")
            op = "<=" if before != self.order[0].descending else ">="
        if op is None:
            return None
        compared = Compare(op, Name(self.alias), self.of)
        unknown = Connective("or", IsNull(Name(self.alias)), IsNull(self.of))
        return Connective("or", compared, unknown)

    def plain(self) -> Any:
        """Return the value as canonical JSON data."""
        order = [o.plain() for o in self.order]
        partition = [plain(p) for p in self.partition]
        data = [self.kind, plain(self.of), partition, order, self.offset, None if self.frame is None else [*self.frame]]
        if self.reach is not None:
            data.append(self.reach.plain())
        return data

    @property
    def most_rows(self) -> int | None:
        """How many rows it looks at, where its frame says so."""
        first, last = (None, None) if self.frame is None else self.frame
        return None if first is None or last is None else last - first + 1

    def read(self, domain: Domain, unit: str) -> tuple[Column, Any]:
        """Return the value's declaration and its builder; raises QuestionRefused for an unsupported one."""
        for node in (self.of, *self.partition, *(o.by for o in self.order)):
            if node is not None:
                depth(node)
        column, build, form, wide = self._cell(domain)
        steps = self.frame if self.reach is None else self.reach.steps(self.order[0].by, domain)
        low = self._low(domain)
        within = [value_cell(p, domain, "keep")[1] for p in self.partition if p != Name(unit)]
        order = [(o.build(domain), o.descending, o.nulls_first) for o in self.order]

        def window(on: Primitives) -> UnitWindow:
            value = None if build is None else build(on)
            return UnitWindow(
                self.kind,
                form,
                value,
                within=tuple(part(on) for part in within),
                order=tuple(WindowOrder(by(on), descending, first) for by, descending, first in order),
                offset=self.offset,
                frame=steps,
                wide=wide,
                by_value=self.reach is not None,
                low=low,
                parts=MEAN_PARTS,
            )

        return column, window

    def _low(self, domain: Domain) -> int:
        """Return the least value of a mean, in steps of its operand; 0 for all else."""
        return int(bind_number(self.of, domain).stored.lower or 0) if self.kind == "mean" and self.of is not None else 0

    def _cell(self, domain: Domain) -> tuple[Column, Build | None, str, bool]:
        """Return the value's declaration, the cell that it is made of, its form, and whether it takes more than 64 bits."""
        of = self.of
        most = self.most_rows
        if self.kind == "ntile":
            return Integer(1, self.offset), None, "number", False
        if self.kind in _PLACES or of is None:
            least = 1 if self.frame is None and self.reach is None else 0
            return Integer(least, most), None, "number", False
        if self.kind == "mean":
            # As the mean of a person's rows is, and missing where a frame holds none.
            unit_value = UnitValue("mean", of, self.alias)
            rule = "keep" if self.frame is not None or self.reach is not None else unit_value.missing_rule(domain)
            return (
                keep_missing(unit_value.read(domain).column) if rule == "keep" else unit_value.read(domain).column,
                (bind_number(of, domain).build),
                "number",
                True,
            )
        if self.kind == "count":
            return Integer(0, most), presence(of, domain).build, "number", False
        if self.kind == "sum":
            unit_value = UnitValue("sum", of, self.alias)
            column = unit_value.read(domain).column
            number = bind_number(of, domain)
            ends = None if most is None else row_bounds("sum", of, domain, most)
            if ends is not None:
                column = number_column(
                    number.unit, Interval(*(end / number.unit for end in ends)), unit_value.missing_rule(domain)
                )
            return column, number.build, "number", True
        if self.kind in ("min", "max") and self._is_declared(domain):
            raise QuestionRefused(
                f"{self.alias} is not supported: {describe(of)} is no number and no date; the first and the last by an order are"
            )
        # The first row has none before it, the last none after, and a person may have fewer rows than the nth.
        missing = (
            "keep" if self.kind in ("lag", "lead", _NTH) else UnitValue("max", of, self.alias).missing_rule(domain)
        )
        column, build, form = value_cell(of, domain, missing)
        return column, build, form, form == "number" and not _is_narrow(of, domain)

    def _is_declared(self, domain: Domain) -> bool:
        column = domain[self.of.name] if isinstance(self.of, Name) else None
        return is_text(self.of) or isinstance(column, (Category, Boolean, Identifier))  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class UnitSequence:
    """Window values of each row that meets `where` among the rows of its unit that do: a row step.

    `unit` is the column of the unit, once it is known; `limits` are as of `PerUnit`.
    """

    values: tuple[SequenceValue, ...]
    where: Node | None = None
    unit: str | None = None
    limits: tuple[tuple[str, Fraction, Fraction], ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What an answer says of the limits."""
        return clip_notes(self.limits, self.unit)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the values."""
        return tuple(v.alias for v in self.values)

    @property
    def always_present(self) -> tuple[str, ...]:
        """The values that are never missing."""
        return tuple(
            v.alias
            for v in self.values
            if v.kind in (*_PLACES, "rows", "count") and v.frame is None and v.reach is None
        )

    def implied_conditions(self) -> tuple[Node, ...]:
        """Return conditions that every row meets, whatever the table."""
        return tuple(condition for value in self.values if (condition := value.implied_condition()) is not None)

    def bind(self, unit: PrivacyUnit | None, before: Sequence[Any]) -> UnitSequence:
        """Return the step with its unit; raises QuestionRefused where a window would look at rows of several."""
        if unit is None or unit.column is None:
            what = "each row is a unit of its own" if unit is None else "no column names each row's unit"
            raise QuestionRefused(
                f"a window over a private table looks at the rows of one unit, but here {what}: a row would change what its "
                "neighbors are. Declare PrivacyUnit(column, max_rows=...), or ask about the rows themselves"
            )
        for value in self.values:
            if Name(unit.column) not in value.partition:
                example = _EXAMPLE.format(unit=unit.column)
                raise QuestionRefused(
                    f"a window over rows of several persons is not private: PARTITION BY names the privacy unit's column "
                    f"{unit.column!r}, such as {example}; windows over an answer need none"
                )
        if any(isinstance(step, PerUnit) for step in before):
            raise QuestionRefused(
                f"the rows are one for each {unit.column} already, so a window over one {unit.people} has one row: take the "
                "window first, and then one value per person"
            )
        # Limits are found anew: a question that came from elsewhere states none.
        return UnitSequence(self.values, self.where, unit.column)

    def domain(self, domain: Domain) -> Domain:
        """Return the domain with the columns."""
        if self.unit is None:
            raise QuestionRefused("ask for a window over a unit's rows through the table: visits.plan(...)")
        columns: dict[str, Column | List] = dict(domain.stored)
        for value in self.values:
            if value.alias in columns:
                raise QuestionRefused(f"column {value.alias!r} is in the table already: rename one")
            columns[value.alias] = value.read(domain, self.unit)[0]
        if self.where is not None:
            bind_condition(self.where, domain)
        lost = domain.unreadable_rows or self.where is not None
        return Domain(columns, row_ceiling=domain.row_ceiling, unreadable_rows=lost)

    def neighbors(self, neighbors: Neighbors) -> Neighbors:
        """Return the relation as it is: the rows of a unit stay its own, and are bounded afterwards."""
        return neighbors

    def apply(self, on: Primitives, domain: Domain) -> Primitives:
        """Add the columns to an engine's primitives."""
        assert self.unit is not None
        if self.where is not None:
            on.keep(bind_condition(self.where, domain)(on))
        on.add_windows({value.alias: value.read(domain, self.unit)[1](on) for value in self.values})
        return on

    def implied_bounds(self, domain: Domain, most: int) -> dict[str, tuple[Fraction, Fraction]]:
        """Return where the values without bounds of their own lie among at most `most` rows of one unit."""
        kinds = dict.fromkeys((*_PLACES, "rows"), "rows") | {"count": "count", "sum": "sum"}
        bounds = {}
        for value in self.values:
            if value.kind in kinds and value.kind != "ntile" and value.most_rows is None:
                ends = row_bounds(kinds[value.kind], value.of, domain, most)
                if ends is not None:
                    # A frame may hold no row at all.
                    framed = value.frame is not None or value.reach is not None
                    bounds[value.alias] = ends if not framed else (min(ends[0], Fraction(0)), ends[1])
        return bounds

    def describe(self) -> str:
        """Return the step in words."""
        where = "" if self.where is None else f" of rows where {describe(self.where)}"
        return f"with {'; '.join(self.names)}{where}"

    def plain(self) -> Any:
        """Return the step as canonical JSON data."""
        return ["sequence", self.unit, plain(self.where), [v.plain() for v in self.values]]


def check_sequence(value: SequenceValue) -> None:
    """Raise QuestionRefused for a value that no builder makes: without its operand or order, or with too wide a frame."""
    ends = [value.offset, *(end for end in value.frame or () if end is not None)]
    if (
        any(abs(end) > MOST_OFFSET for end in ends)
        or value.offset < 0
        or (value.kind in ("ntile", _NTH) and not value.offset)
    ):
        raise QuestionRefused(f"a window reaches up to {MOST_OFFSET:,} rows")
    first, last = value.frame or (None, None)
    if first is not None and last is not None and first > last:
        raise QuestionRefused("a frame ends before it begins")
    placed = value.kind in (*_PLACES, *_PICKS, _NTH)
    if (value.of is None) != (value.kind in (*_PLACES, "rows")) or (placed and not value.order):
        raise QuestionRefused(f"{value.kind} of a person's rows needs other operands")
    if (placed and (value.frame or value.reach)) or (value.frame and (value.reach or not value.order)):
        raise QuestionRefused(f"{value.kind} of a person's rows has no such frame")
    if value.reach is not None and len(value.order) != 1:
        raise QuestionRefused("RANGE BETWEEN needs an order by one number or day")


def place_windows(node: Node, values: dict[SequenceValue, None]) -> Node:
    """Replace each window that a person wrote by its column; `values` collects the windows' values.

    Raises QuestionRefused for a window without a partition, or over another.
    """

    def place(thing: Any) -> Any:
        if isinstance(thing, Windowed):
            order = tuple(SequenceOrder(by, descending) for by, descending in thing.order)
            if not thing.partition:
                raise QuestionRefused(
                    f'{describe(thing)} looks at other rows of a person: end it with .over("id", order_by="day")'
                )
            if any(isinstance(at, Windowed) for at in walk(thing.of)):
                raise QuestionRefused(
                    f"{describe(thing)} is a window over another: name the inner one with with_columns first"
                )
            frame = (None, 0) if thing.running else None
            value = SequenceValue(thing.kind, thing.of, thing.partition, order, thing.offset, frame)
            check_sequence(value)
            values[value] = None
            return Name(value.alias)
        if isinstance(thing, tuple):
            return tuple(place(item) for item in thing)
        if not is_dataclass(thing) or isinstance(thing, type):
            return thing
        return replace(thing, **{part.name: place(getattr(thing, part.name)) for part in fields(thing)})

    depth(node)
    placed: Node = place(node)
    return placed


def _alphabetical(of: Node, domain: Domain) -> Build:
    """Return the place of a declared value among all of them in ascending order."""
    from sordino.ask.queries.expressions.keys import keys

    declared = keys(of, domain)
    labels = [label for label in declared.labels if label is not None]
    places = {label: place for place, label in enumerate(sorted(labels))}
    ranks = [places[label] for label in labels]

    def build(on: Primitives) -> Any:
        return on.label(declared.row_code(on), [*ranks, *([None] * (len(declared.labels) - len(labels)))])

    return build


def _is_narrow(of: Node, domain: Domain) -> bool:
    """Return whether a number's stored steps take at most 64 bits."""
    try:
        number = bind_number(of, domain)
    except QuestionRefused:
        return False
    largest = number.stored.largest
    return largest is not None and largest < NARROW


def _place_words(place: int | None, end: str) -> str:
    if place is None:
        return f"the {end}"
    return "this" if place == 0 else f"{abs(place)} {'before' if place < 0 else 'after'}"
