"""Values of one person: rows grouped by the privacy unit, and the columns that this makes.

They may be joined back, so that a value of its unit stands beside each row. Only declarations are known here.

Theorem: what is joined is one row a unit at most, a function of the unit's own rows in the table that it is taken of, none of
them capped (`per_unit`). So each row of the left side meets one row or none, of its own unit, and no other unit's row is looked
at: the bounds on a unit's rows stay as they are, and so do all sensitivities (stability; McSherry 2009, section 2.3). Where
both tables are private, a neighbor changes the rows of one unit in both.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, cast

from sordino.ask.queries.aggregates.distinct import Distinct, distinct_cell
from sordino.ask.queries.aggregates.sums import Average, Count, Sum
from sordino.ask.queries.expressions.bound_number import BoundNumber, Interval
from sordino.ask.queries.expressions.compile import bind_condition, bind_number, presence
from sordino.ask.queries.expressions.declared_values import is_text
from sordino.ask.queries.expressions.keys import keys
from sordino.ask.queries.expressions.missing import may_be_missing
from sordino.ask.queries.expressions.nodes import (
    Bin,
    Clip,
    Compare,
    Connective,
    IsIn,
    IsNull,
    Match,
    Name,
    Node,
    Not,
    When,
    depth,
    describe,
    plain,
    walk,
)
from sordino.ask.queries.expressions.sql_trees import Build
from sordino.ask.queries.post_processing import FormulaColumn, rename
from sordino.ask.queries.query import Aggregate
from sordino.core.domain import STORED, Boolean, Category, Column, Date, DateTime, Domain, Identifier, Integer, Real
from sordino.core.errors import QuestionRefused
from sordino.core.loss import format_number
from sordino.core.neighbors import Neighbors, PrivacyUnit
from sordino.core.primitives import Primitives, UnitCell, check_range
from sordino.core.time_zones import EPOCH, local_time

if TYPE_CHECKING:
    from sordino.ask.queries.aggregation import Aggregation
from typing import TYPE_CHECKING, Literal

from sordino.ask.queries.row_steps import RowStep, apply_steps, step_domain
from sordino.core.domain import List, keep_missing
from sordino.core.source import PrivateTable

if TYPE_CHECKING:
    from collections.abc import Mapping


# ---- One value a person: the row step that makes one row of all rows of each privacy unit. It knows declarations only
#
# Theorem: after the step a neighbor under add_remove has one row more or less, and under replace one row exchanged, or one
# more or less where the inner condition leaves a unit without rows. Proof: each value is a function of the set of its own
# unit's rows - counts, exact whole sums, extremes in a total order - so the rows of all other units stay as they are
# (stability; McSherry 2009, section 2.3). No rows are capped before the step, so C is 1 after it, however many rows a unit
# has. What bounds a sensitivity is the range of a unit's value: that of its column for extremes and averages, and for sums
# and counts the clip that the question states.
#
# No row can make a value fail: sums are of 128 bits and hold any number of rows (`_MOST_ROWS`), averages are divisions of
# whole numbers rounded to a public grid, and numbers leave as wide integers that are clipped when they are read.

# the largest row_ceiling that can be declared
_MOST_ROWS = 2**48
# an average is rounded to this part of its column's step
MEAN_PARTS = 1000
_CONDITIONS = (Compare, Connective, Not, IsIn, IsNull, Match)
_WORDS = {
    "rows": "the number of rows",
    "count": "the number of rows with {of}",
    "distinct": "the number of different values of {of}",
    "sum": "the sum of {of}",
    "mean": "the mean of {of}",
    "median": "the median of {of}",
    "variance": "the sample variance of {of}",
    "variance_pop": "the variance of {of}",
    "mode": "the most frequent {of}",
    "min": "the least {of}",
    "max": "the largest {of}",
    "any": "whether any row has {of}",
    "all": "whether all rows have {of}",
    "first": "the first {of} by {by}",
    "last": "the last {of} by {by}",
}


@dataclass(frozen=True, slots=True)
class UnitValue:
    """One value of all rows of a unit; `kind` is rows, count, distinct, or one of all rows: sum, mean, median, mode, first ...

    It is an aggregate that stands inside `per_unit` alone.
    """

    kind: str
    of: Node | None
    alias: str
    by: Node | None = None

    def __post_init__(self) -> None:
        if self.kind not in _WORDS:
            raise QuestionRefused(f"{self.kind!r} is no value of a unit: it is one of {', '.join(_WORDS)}")
        if (self.of is None) != (self.kind == "rows") or (self.by is None) == (self.kind in ("first", "last")):
            raise QuestionRefused(f"{self.kind} of a unit's rows needs other operands")

    def plain(self) -> Any:
        """Return the value as canonical JSON data."""
        return [self.kind, plain(self.of), plain(self.by)]

    def describe(self) -> str:
        """Return the value in words."""
        of, by = (None if node is None else describe(node) for node in (self.of, self.by))
        return _WORDS[self.kind].format(of=of, by=by)

    def read(self, domain: Domain) -> UnitColumn:
        """Return the value's column over the domain of the rows; raises QuestionRefused for an unsupported one."""
        for node in (self.of, self.by):
            if node is not None:
                depth(node)
        if self.kind in ("rows", "count", "distinct"):
            return _count(self, domain)
        assert self.of is not None
        if self.kind in ("any", "all"):
            condition = bind_condition(self.of, domain)
            column: Column = Boolean(missing=self.missing_rule(domain))
            return UnitColumn(column, lambda on: UnitCell(self.kind, "truth", condition(on)))
        if self.kind in ("sum", "mean"):
            return _total(self, bind_number(self.of, domain), self.missing_rule(domain))
        if self.kind in ("median", "variance", "variance_pop"):
            return _middle_or_spread(self, bind_number(self.of, domain), self.missing_rule(domain))
        if self.kind == "mode":
            return _mode(self, self.of, domain)
        return _pick(self, self.of, domain)

    def missing_rule(self, domain: Domain) -> str:
        """Return "keep" where rows in which the value is missing have a group of their own, else "drop"."""
        reasons = may_be_missing(self.of, domain)
        if self.by is not None:
            reasons |= may_be_missing(self.by, domain)
        return "keep" if reasons.is_key else "drop"

    # ---- as an aggregate of rows, which it is not

    def parts(self, domain: Domain) -> NoReturn:
        """Raise QuestionRefused: outside of `per_unit` single rows decide it."""
        del domain
        instead = "sd.quantile(...)" if self.kind in ("min", "max") else "sd.count() with .where(...)"
        raise QuestionRefused(
            f"{self.describe()} is decided by single rows: ask for {instead}, or take one value per person with "
            ".per_unit(...), and then an aggregate of these"
        )

    def estimate(self, parts: Any, noisy: Any, shared: Any = None) -> NoReturn:
        """Raise QuestionRefused, as `parts` does."""
        del parts, noisy, shared
        self.parts(_NOTHING)

    def error(self, parts: Any, expected: Any) -> NoReturn:
        """Raise QuestionRefused, as `parts` does."""
        del parts, expected
        self.parts(_NOTHING)


_NOTHING = Domain({"nothing": Boolean()})


@dataclass(frozen=True, slots=True)
class UnitColumn:
    """How a unit's value is declared, and how an engine computes it."""

    column: Column
    build: Callable[[Primitives], UnitCell]


@dataclass(frozen=True, slots=True)
class PerUnit:
    """One row of all rows of a unit that meet `where`: its own column and `values`; a unit without any has no row.

    `unit` is the column of the unit, once it is known; `limits` are the values that the question clips only because it needs
    bounds, with those that the declaration implies.
    """

    values: tuple[UnitValue, ...]
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
        """The values that are never missing: numbers of rows, 0 where there are none."""
        return tuple(v.alias for v in self.values if v.kind in ("rows", "count", "distinct"))

    def implied_conditions(self) -> None:
        """Return None: it makes other rows, of which conditions on earlier ones say nothing."""
        return

    def domain(self, domain: Domain) -> Domain:
        """Return the domain of the units: the unit's column, and one column a value."""
        if self.unit is None:
            raise QuestionRefused(
                "ask for one value per person through the table: visits.plan(visits.per_unit(...).agg(...))"
            )
        columns: dict[str, Column] = {self.unit: domain[self.unit]}
        for value in self.values:
            if value.alias.lower() in {name.lower() for name in columns}:
                raise QuestionRefused(f"two columns of per_unit are named {value.alias!r}: name one another way")
            if not value.alias or "\x00" in value.alias or "sordino_" in value.alias.lower():
                raise QuestionRefused(f"a column of per_unit cannot be named {value.alias!r}: name it another way")
            columns[value.alias] = value.read(domain).column
        if self.where is not None:
            bind_condition(self.where, domain)
        return Domain(columns, row_ceiling=domain.row_ceiling, unreadable_rows=True)

    def neighbors(self, neighbors: Neighbors) -> Neighbors:
        """Return the relation of the units: one row each, of all of its rows."""
        # A table's own questions take its unit; the laboratory is given question and unit apart.
        if neighbors.unit is None or neighbors.unit.column != self.unit:
            raise QuestionRefused(
                f"one value per {self.unit!r} is asked, which is not the privacy unit: give "
                f"privacy_unit=PrivacyUnit({self.unit!r}, max_rows=...)"
            )
        unit = PrivacyUnit(neighbors.unit.column, max_rows=1, of=neighbors.unit.of)
        return Neighbors(neighbors.relation, unit, capped=False)

    def apply(self, on: Primitives, domain: Domain) -> Primitives:
        """Return the primitives of one row a unit."""
        if self.where is not None:
            on.keep(bind_condition(self.where, domain)(on))
        return on.unit_rows({value.alias: value.read(domain).build(on) for value in self.values})

    def implied_bounds(self, domain: Domain, most: int) -> dict[str, tuple[Fraction, Fraction]]:
        """Return where the values without bounds of their own lie among at most `most` rows of one unit."""
        bounds = {v.alias: row_bounds(v.kind, v.of, domain, most) for v in self.values}
        return {alias: ends for alias, ends in bounds.items() if ends is not None}

    def describe(self) -> str:
        """Return the step in words."""
        where = [] if self.where is None else [f"of its rows where {describe(self.where)}"]
        words = "; ".join([*where, *(f"{v.alias}: {v.describe()}" for v in self.values)])
        return f"one row a {self.unit or 'person'}{f' ({words})' if words else ''}"

    def plain(self) -> Any:
        """Return the step as canonical JSON data."""
        return ["per_unit", self.unit, plain(self.where), [[v.alias, v.plain()] for v in self.values]]


def _count(value: UnitValue, domain: Domain) -> UnitColumn:
    """Return a number of rows or of different values: at least 0, and at most the number of declared values."""
    if value.of is None:
        return UnitColumn(Integer(0, None), lambda _: UnitCell("rows", "number"))
    cell, most = (presence(value.of, domain), None) if value.kind == "count" else distinct_cell(value.of, domain)
    return UnitColumn(Integer(0, most), lambda on: UnitCell(value.kind, "number", cell.build(on)))


def _total(value: UnitValue, of: BoundNumber, missing: str) -> UnitColumn:
    """Return the sum of a number, of one sign where the number is, or its average, within the number's bounds."""
    if of.kind != "number":
        raise QuestionRefused(f"{value.describe()} is not supported: {describe(value.of)} is a date")  # type: ignore[arg-type]
    low, high = of.ends
    check_range(low * _MOST_ROWS, high * _MOST_ROWS, 2 * MEAN_PARTS * (high - low) * _MOST_ROWS)
    interval = of.interval
    if value.kind == "sum":
        below = interval.lower is not None and interval.lower >= 0
        above = interval.upper is not None and interval.upper <= 0
        signs = Interval(Fraction(0) if below else None, Fraction(0) if above else None)
        return UnitColumn(number_column(of.unit, signs, missing), lambda on: UnitCell("sum", "number", of.build(on)))
    column = number_column(of.unit / MEAN_PARTS, interval.scale(Fraction(MEAN_PARTS)), missing)
    return UnitColumn(column, lambda on: UnitCell("mean", "number", of.build(on), low=low, parts=MEAN_PARTS))


def _middle_or_spread(value: UnitValue, of: BoundNumber, missing: str) -> UnitColumn:
    """Return the mean of the two middle values, in halves of a step, or a variance within the bounds that a range implies.

    No variance is above a quarter of the squared range, and that of a sample of two rows is twice that of the rows (Popoviciu
    1935).
    """
    if of.kind != "number":
        raise QuestionRefused(f"{value.describe()} is not supported: {describe(value.of)} is a date")  # type: ignore[arg-type]
    low, high = of.ends
    if value.kind == "median":
        check_range(2 * low, 2 * high)
        column = number_column(of.unit / 2, of.interval.scale(Fraction(2)), missing)
        return UnitColumn(column, lambda on: UnitCell("median", "number", of.build(on)))
    check_range(4 * MEAN_PARTS * (high - low) ** 2 * _MOST_ROWS, 2 * MEAN_PARTS * _MOST_ROWS**2)
    inside = of.interval
    ends = None if inside.lower is None or inside.upper is None else (inside.upper - inside.lower) ** 2 * MEAN_PARTS
    is_sample = value.kind == "variance"
    most = None if ends is None else ends / (2 if is_sample else 4)
    # Of a sample of one row there is none.
    rule = "keep" if is_sample else missing
    column = number_column(of.unit**2 / MEAN_PARTS, Interval(Fraction(0), most), rule)
    return UnitColumn(column, lambda on: UnitCell(value.kind, "number", of.build(on), low=low, parts=MEAN_PARTS))


# the most values that a mode is among: each is counted
_MOST_MODES = 100


def _mode(value: UnitValue, of: Node, domain: Domain) -> UnitColumn:
    """Return the most frequent of declared values, in ascending order, or of a few whole numbers; the least of several."""
    column, _, form = value_cell(of, domain, value.missing_rule(domain))
    many = f"{value.describe()} is not supported: it has no bounds, or more than {_MOST_MODES} values"
    if form == "number" and not isinstance(column, Category):
        number = bind_number(of, domain)
        low, high = number.stored.lower, number.stored.upper
        if number.kind != "number" or low is None or high is None or high - low >= _MOST_MODES:
            raise QuestionRefused(f"{many}. Clip it, or take the median")
        count = int(high - low) + 1
        return UnitColumn(column, lambda on: UnitCell("mode", "number", number.build(on), low=int(low), parts=count))
    if isinstance(column, Identifier):
        raise QuestionRefused(f"{value.describe()} is not supported: an identifier has no declared values")
    declared = keys(of, domain)
    labels = tuple(sorted(label for label in declared.labels if label is not None))
    if len(labels) > _MOST_MODES:
        raise QuestionRefused(many)
    ranks = [None if label is None else labels.index(label) for label in declared.labels]

    def cell(on: Primitives) -> UnitCell:
        return UnitCell("mode", form, on.label(declared.row_code(on), ranks), parts=len(labels), labels=labels)

    return UnitColumn(column, cell)


def _pick(value: UnitValue, of: Node, domain: Domain) -> UnitColumn:
    """Return one of the values that the rows have: the least, the largest, the first or the last by another column."""
    by = None if value.by is None else bind_number(value.by, domain).build
    column, build, form = value_cell(of, domain, value.missing_rule(domain))

    def cell(on: Primitives) -> UnitCell:
        return UnitCell(value.kind, form, build(on), None if by is None else by(on))

    return UnitColumn(column, cell)


def value_cell(of: Node, domain: Domain, missing: str) -> tuple[Column, Build, str]:
    """Return the declaration of a row's value, its cell as stored in a unit's row, and the form of that cell."""
    column = domain[of.name] if isinstance(of, Name) else None
    if isinstance(of, Name) and isinstance(column, Identifier):
        name = of.name
        return column, lambda on: on.text(name), "text"
    if isinstance(of, _CONDITIONS) or is_text(of) or isinstance(column, (Category, Boolean)):
        return _declared_cell(of, domain, missing)
    try:
        number = bind_number(of, domain)
    except QuestionRefused:
        if not isinstance(of, When):
            raise
        return _declared_cell(of, domain, missing)
    if number.kind == "number":
        return number_column(number.unit, number.interval, missing), number.build, "number"
    low, high = number.interval.lower, number.interval.upper
    if low is None or high is None:
        raise QuestionRefused(
            f"{describe(of)} has no bounds, so it cannot be taken from a person's rows: clip it first"
        )
    if number.kind == "datetime":
        ends = (local_time(end * number.unit, number.zone) for end in (low, high))
        return DateTime(*ends, zone=number.zone, resolution=number.unit, missing=missing), number.build, "number"
    return Date(_day(low), _day(high), missing=missing), number.build, "number"


def _declared_cell(of: Node, domain: Domain, missing: str) -> tuple[Column, Build, str]:
    """Return the same for an expression with declared values: text, whole numbers or truths."""
    declared = keys(of, domain)
    values = tuple(v for v in declared.labels if v is not None)

    if all(isinstance(v, bool) for v in values):
        return Boolean(missing=missing), lambda on: on.label(declared.row_code(on), declared.labels), "truth"
    form = "text" if isinstance(values[0], str) else "number"
    return Category(values, missing=missing), lambda on: on.label(declared.row_code(on), declared.labels), form


def number_column(unit: Fraction, interval: Interval, missing: str) -> Column:
    """Return the declaration of numbers in steps of a unit; an end beyond the storable range is open."""
    low, high = (None if end is None or abs(end) >= STORED else end for end in (interval.lower, interval.upper))
    if unit == 1:
        return Integer(None if low is None else int(low), None if high is None else int(high), missing=missing)
    ends = [None if end is None else end * unit for end in (low, high)]
    return Real(ends[0], ends[1], resolution=unit, missing=missing)


def _day(steps: Fraction) -> datetime.date:
    return EPOCH + datetime.timedelta(days=int(steps))


# ---- The bounds that a declaration implies for a unit's own values: numbers of rows, and sums


class UnitStep(Protocol):
    """A step whose values of a unit may have no bounds of their own."""

    @property
    def limits(self) -> tuple[tuple[str, Fraction, Fraction], ...]:
        """The values that the question clips only because it needs bounds, with those that the declaration implies."""

    def implied_bounds(self, domain: Domain, most: int) -> dict[str, tuple[Fraction, Fraction]]:
        """Return where such values of at most `most` rows of one unit lie, in their own units."""


def clip_notes(limits: Sequence[tuple[str, Fraction, Fraction]], unit: str | None) -> tuple[str, ...]:
    """Return notes on values that are clipped only because the question needs bounds."""
    return tuple(
        f"{name} of one {unit} counts within [{format_number(low)}, {format_number(high)}], as max_rows implies: "
        "clip it for other bounds"
        for name, low, high in limits
    )


def clip_unit_values(question: Aggregation, step: UnitStep, domain: Domain, most: int) -> Aggregation:
    """Return the question in which a unit's number of rows, or a sum of them, lies within what `most` rows may make of it.

    It is clipped so where an aggregate or a key needs bounds and the question states none itself: what is clipped, cut into
    bins or compared there stays as it is. `domain` is that of the rows before the step.
    """
    bounds = step.implied_bounds(domain, most)
    if not bounds:
        return question
    aggregates = tuple(a if isinstance(a, (Count, Distinct)) else _clip_bare(a, bounds) for a in question.aggregates)
    clipped = replace(question, groups=_clip_bare(question.groups, bounds), aggregates=aggregates)
    if clipped == question:
        return question
    limits = tuple((name, *ends) for name, ends in bounds.items() if _clips(clipped, name) > _clips(question, name))
    return replace(
        clipped,
        steps=tuple(
            replace(cast(Any, step), limits=limits) if cast(Any, one) is step else one for one in question.steps
        ),
    )


def _clips(question: Aggregation, name: str) -> int:
    """Return how often a question clips a value."""
    nodes = (at for node in question.expressions() for at in walk(node))
    return sum(isinstance(at, Clip) and at.of == Name(name) for at in nodes)


def row_bounds(kind: str, of: Node | None, domain: Domain, most: int) -> tuple[Fraction, Fraction] | None:
    """Return where a value of at most `most` rows of one unit lies, in its own units; None where nothing follows."""
    if kind == "rows":
        # A unit without rows has no value.
        return Fraction(1), Fraction(most)
    if kind == "count":
        return Fraction(0), Fraction(most)
    if kind == "distinct" and of is not None:
        # Of declared values there are so many at most as it is.
        return (Fraction(0), Fraction(most)) if distinct_cell(of, domain)[1] is None else None
    if kind != "sum" or of is None:
        return None
    values = bind_number(of, domain).values
    if values.lower is None or values.upper is None:
        return None
    return min(values.lower, values.lower * most), max(values.upper, values.upper * most)


def _clip_bare(thing: Any, bounds: Mapping[str, tuple[Fraction, Fraction]]) -> Any:
    """Return an expression, or what holds some, with the names of values that state no bounds themselves clipped."""
    if isinstance(thing, Name):
        return Clip(thing, *bounds[thing.name]) if thing.name in bounds else thing
    if isinstance(thing, tuple):
        return tuple(_clip_bare(item, bounds) for item in thing)
    if not is_dataclass(thing) or isinstance(thing, type):
        return thing
    stated = isinstance(thing, (Clip, Compare, IsIn, IsNull)) or (isinstance(thing, Bin) and thing.edges is not None)
    changed = {}
    for field in fields(thing):
        part = getattr(thing, field.name)
        if not (stated and isinstance(part, Name)):
            changed[field.name] = _clip_bare(part, bounds)
    return replace(thing, **changed)


# ---- The columns of per_unit: which values of a unit they are made of, and what each is over those. Knows no
# declaration


class UnitExpr(Protocol):
    """A column as a person writes it: an aggregate, or a formula over several."""

    @property
    def aggregate(self) -> Aggregate:
        """The first aggregate."""

    @property
    def others(self) -> tuple[Aggregate, ...]:
        """What else a formula is computed from."""

    @property
    def formula(self) -> FormulaColumn | None:
        """The formula, over the aggregates' own words."""


def unit_columns(
    stated: Sequence[UnitExpr], condition: UnitExpr | None = None
) -> tuple[tuple[UnitValue, ...], Mapping[str, Node], Node | None]:
    """Return a unit's values, each once, and what each column asked for, and the condition, is over them.

    A value that is asked for alone, or clipped, bears the column's name; others go by their own words.
    """
    values: dict[str, UnitValue] = {}
    columns: dict[str, Node] = {}
    for one in sorted(stated, key=lambda a: len(a.others)):
        parts = (one.aggregate, *one.others)
        alias = _column_name(one)
        if alias in columns:
            raise QuestionRefused(f"two columns of per_unit are named {alias!r}: name one another way with .alias(...)")
        for part in parts:
            name = alias if len(parts) == 1 else part.describe()
            values.setdefault(part.describe(), _unit_value(part, name))
        columns[alias] = _over_values(one, values)
    if condition is None:
        return tuple(values.values()), columns, None
    for part in (condition.aggregate, *condition.others):
        values.setdefault(part.describe(), _unit_value(part, part.describe()))
    return tuple(values.values()), columns, _over_values(condition, values)


def _over_values(one: UnitExpr, values: Mapping[str, UnitValue]) -> Node:
    """Return a column over the values of a unit by their names."""
    if one.formula is None:
        return Name(values[one.aggregate.describe()].alias)
    return rename(one.formula.node, {words: value.alias for words, value in values.items()})


def _column_name(one: UnitExpr) -> str:
    """Return a column's name: as it was given, else that of its first aggregate."""
    if one.formula is None:
        return one.aggregate.alias
    own = rename(one.formula.node, {a.describe(): a.alias for a in (one.aggregate, *one.others)})
    unnamed = one.formula.alias == describe(own) and not one.others
    return one.aggregate.alias if unnamed else one.formula.alias


def _unit_value(of: Aggregate, alias: str) -> UnitValue:
    """Return an aggregate as a value of one unit; raises QuestionRefused for one that is not computed for a person."""
    if isinstance(of, Count):
        return UnitValue("rows" if of.of is None else "count", of.of, alias)
    if isinstance(of, UnitValue):
        return UnitValue(of.kind, of.of, alias, of.by)
    kind = getattr(of, "unit_kind", None)
    if kind is not None:
        return UnitValue(kind, getattr(of, "of", None), alias)
    if isinstance(of, Sum) and of.per_unit is not None:
        raise QuestionRefused("inside per_unit a sum is of one unit already: clip it, sd.sum(...).clip(lower, upper)")
    kinds: dict[type, str] = {Sum: "sum", Average: "mean", Distinct: "distinct"}
    if type(of) not in kinds or (isinstance(of, Distinct) and of.others):
        raise QuestionRefused(
            f"{of.describe()} is not computed for one person: inside per_unit are count, sum, mean, median, var, min, max, any, "
            "all, count_distinct, first and last"
        )
    return UnitValue(kinds[type(of)], getattr(of, "of", None), alias)


_KNOWN = {"min": "<=", "max": ">="}


@dataclass(frozen=True, slots=True)
class UnitValues:
    """Values of a row's unit beside the row: what `steps` make of a table's rows, of units that meet `having`. A row step.

    "inner" drops the rows of units that have none. `on` is the column of the rows that is compared with the unit `of_unit` of
    the other side. `to` is the other table, and `own` the question's own, once they are known; `is_own` says which is meant.
    """

    table: str
    steps: tuple[RowStep, ...]
    having: Node | None
    how: Literal["inner", "left"]
    on: str
    to: PrivateTable | None = None
    is_own: bool = False
    limits: tuple[tuple[str, Fraction, Fraction], ...] = ()

    @property
    def values(self) -> PerUnit:
        """The step that makes one row a unit."""
        per_unit = self.steps[-1]
        assert isinstance(per_unit, PerUnit)
        return per_unit

    @property
    def reads(self) -> dict[str, PrivateTable]:
        """The other private tables that it reads."""
        return {} if self.is_own or self.to is None else {self.table: self.to}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the values."""
        return tuple(self.column(value.alias) for value in self.values.values)

    @property
    def always_present(self) -> tuple[str, ...]:
        """The values that are never missing, where every row has a match."""
        return () if self.how == "left" else tuple(map(self.column, self.values.always_present))

    @property
    def notes(self) -> tuple[str, ...]:
        """What an answer says of the limits."""
        return clip_notes(self.limits, self.values.unit)

    @property
    def key(self) -> str:
        """The name of the column that is the unit where it has values."""
        return self.column(self.values.unit or "")

    def column(self, alias: str) -> str:
        """Return the name of a value beside the rows."""
        value = next((v for v in self.values.values if v.alias == alias), None)
        words = alias if value is None else value.describe()
        before = "".join(f", {step.describe()}" for step in self.steps[:-1])
        where = "" if self.values.where is None else f" where {describe(self.values.where)}"
        having = "" if self.having is None else f" having {describe(self.having)}"
        return f"{words} of one {self.values.unit} in {self.table}{before}{where}{having}"

    def domain(self, domain: Domain) -> Domain:
        """Return the domain with the values."""
        units = self._units()
        columns: dict[str, Column | List] = {**domain.stored, self.key: Identifier()}
        for value in self.values.values:
            column = units[value.alias]
            columns[self.column(value.alias)] = keep_missing(column) if self.how == "left" else column
        if self.having is not None:
            bind_condition(self.having, units)
        lost = domain.unreadable_rows or self.how == "inner"
        return Domain(columns, row_ceiling=domain.row_ceiling, unreadable_rows=lost)

    def neighbors(self, neighbors: Neighbors) -> Neighbors:
        """Return the relation as it is: each row meets one row at most."""
        return neighbors

    def apply(self, on: Primitives, domain: Domain) -> Primitives:
        """Add the values to an engine's primitives."""
        del domain
        assert self.to is not None
        rows = apply_steps(on.other_rows(None if self.is_own else self.table), self.steps, self.to.domain)
        condition = None if self.having is None else bind_condition(self.having, self._units())(rows)
        columns = {self.column(value.alias): value.alias for value in self.values.values}
        on.join_values(columns, rows, condition, key=self.key, left=self.how == "left")
        return on

    def implied_bounds(self, domain: Domain, most: int) -> dict[str, tuple[Fraction, Fraction]]:
        """Return where the values without bounds of their own lie among the rows of one unit that its table declares."""
        del domain
        if self.to is None:
            return {}
        rows = most if self.is_own else self.to.neighbors.contributions
        before = step_domain(self.to.domain, self.steps[:-1])
        return {self.column(alias): ends for alias, ends in self.values.implied_bounds(before, rows).items()}

    def implied_conditions(self) -> tuple[Node, ...]:
        """Return conditions that every row meets: a unit's least value is no larger than any of its rows' own."""
        if not self.is_own or self.having is not None or self.values.where is not None or len(self.steps) > 1:
            return ()
        return tuple(_compare(value, self.column(value.alias)) for value in self.values.values if value.kind in _KNOWN)

    def _units(self) -> Domain:
        if self.to is None:
            raise QuestionRefused("ask for values of a unit beside its rows through the table: visits.plan(...)")
        return step_domain(self.to.domain, self.steps)

    def describe(self) -> str:
        """Return the step in words."""
        unmatched = ", rows without any kept" if self.how == "left" else ""
        return f"with {'; '.join(self.names) or self.key}{unmatched}"

    def plain(self) -> Any:
        """Return the step as canonical JSON data."""
        declared = None if self.is_own or self.to is None else self.to.declaration
        return ["values", self.table, [s.plain() for s in self.steps], plain(self.having), self.how, declared]


def bind_values(
    step: UnitValues,
    steps: tuple[RowStep, ...],
    having: Node | None,
    name: str | None,
    to: PrivateTable,
    unit: str | None,
) -> UnitValues:
    """Return the step with its table, `name` where that is another; raises QuestionRefused where it is not by the unit."""
    bound = replace(step, table=name or step.table, steps=steps, having=having, to=to, is_own=name is None, limits=())
    if step.on != unit:
        raise QuestionRefused(
            f"values of one {bound.values.unit} are joined by the privacy unit, which is {unit!r} here, not by {step.on!r}: by "
            "other columns one person's values would meet the rows of many"
        )
    return bound


def _compare(value: UnitValue, name: str) -> Node:
    assert value.of is not None
    unknown = Connective("or", IsNull(Name(name)), IsNull(value.of))
    return Connective("or", Compare(_KNOWN[value.kind], Name(name), value.of), unknown)


def column_names(step: UnitValues) -> Mapping[str, str]:
    """Return the names beside the rows of what the sub-query's columns are made of."""
    names = {value.alias: step.column(value.alias) for value in step.values.values}
    return {**names, step.values.unit or "": step.key}
