"""A series: one count or sum a period, by declared keys, released period after period for one loss.

Which rows a step counts is settled here: a period's bounds follow from its number alone, so that no row is in two steps.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast, get_args

from sordino.ask.queries.aggregates.sums import Count, Sum
from sordino.ask.queries.aggregation import Aggregation, Grouping
from sordino.ask.queries.build import AggregateExpr, Column, groupings
from sordino.ask.queries.expressions.bound_number import BoundNumber
from sordino.ask.queries.expressions.compile import bind_number
from sordino.ask.queries.expressions.expr import Expr, col
from sordino.ask.queries.expressions.keys import Keys
from sordino.ask.queries.expressions.nodes import Name, Node, describe, plain
from sordino.ask.queries.expressions.sql_trees import add, constant
from sordino.ask.queries.expressions.times import truncate_time
from sordino.ask.queries.query import Aggregate
from sordino.ask.queries.question_records import question_from_json, question_to_json
from sordino.ask.queries.tabulation import CompiledTabulation, Tabulation, compile_tabulation, read_cells
from sordino.core.domain import Date, DateTime, Domain
from sordino.core.errors import QuestionRefused, nearest
from sordino.core.mechanisms.continual_noise import MOST_STEPS_OF_UNITS, Participation

if TYPE_CHECKING:
    from fractions import Fraction
    from types import TracebackType

    import pyarrow as pa
    from sqlglot import exp

    from sordino.ask.queries.adaptive.marginal import Integers
    from sordino.core.neighbors import Neighbors
    from sordino.core.primitives import Primitives
    from sordino.core.release import Release

Every = Literal["day", "week", "month", "quarter", "year"]

# Names of the columns beside the measure's own.
TOTAL = "total"
# The number of periods where none is stated.
DEFAULT_HORIZON = 10_000
_MOST_HORIZON = 100_000
_MONTHS = {"month": 1, "quarter": 3, "year": 12}


# ---- Periods, numbered from the beginning of the calendar


def period_index(day: datetime.date, every: Every) -> int:
    """Return the number of the period that a day lies in; weeks begin on Monday.

    >>> period_index(datetime.date(2026, 11, 24), "month") - period_index(datetime.date(2025, 11, 1), "month")
    12
    """
    if every == "day":
        return day.toordinal()
    if every == "week":
        return (day.toordinal() - 1) // 7
    return (day.year * 12 + day.month - 1) // _MONTHS[every]


def period_start(index: int, every: Every) -> datetime.date:
    """Return the first day of a period; raises OverflowError or ValueError beyond the calendar.

    >>> period_start(period_index(datetime.date(2026, 11, 25), "week"), "week").isoformat()
    '2026-11-23'
    """
    if every == "day":
        return datetime.date.fromordinal(index)
    if every == "week":
        return datetime.date.fromordinal(index * 7 + 1)
    months = index * _MONTHS[every]
    return datetime.date(months // 12, months % 12 + 1, 1)


def period_name(index: int, every: Every) -> str:
    """Return the text of a period: its first day, or its year and month, quarter or year alone.

    >>> [period_name(period_index(datetime.date(2026, 11, 24), every), every) for every in ("day", "week", "month", "quarter")]
    ['2026-11-24', '2026-11-23', '2026-11', '2026-Q4']
    """
    start = period_start(index, every)
    if every in ("day", "week"):
        return start.isoformat()
    if every == "quarter":
        return f"{start.year:04d}-Q{(start.month + 2) // 3}"
    return f"{start.year:04d}-{start.month:02d}" if every == "month" else f"{start.year:04d}"


def read_period(value: object, every: Every) -> int:
    """Return the number of the period that a date or ISO text names; raises QuestionRefused for anything else."""
    day: datetime.date | None = None
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        day = value
    elif isinstance(value, str):
        day = _parse(value.strip(), every)
    if day is None:
        example = period_name(period_index(datetime.date(2026, 11, 24), every), every)
        raise QuestionRefused(f"a period is a date or text such as {example!r}, not {str(value)!r:.60}")
    return period_index(day, every)


def _parse(text: str, every: Every) -> datetime.date | None:
    """Return a day of the period that a text names; None where it names none."""
    try:
        if every == "quarter" and text[4:6].upper() == "-Q":
            return datetime.date(int(text[:4]), 3 * int(text[6:]) - 2, 1)
        if every in ("month", "quarter", "year") and len(text) == 7 and text[4] == "-":
            return datetime.date(int(text[:4]), int(text[5:]), 1)
        if every == "year" and len(text) == 4:
            return datetime.date(int(text), 1, 1)
        return datetime.date.fromisoformat(text)
    except ValueError:
        return None


# ---- The question


@dataclass(frozen=True, slots=True)
class SeriesQuestion:
    """Ask for a measure of the rows of each period, by declared keys, with running totals.

    `over` is the column of days or moments that says in which period a row lies, `start` the number of the first period,
    None for the first that is released; `horizon` is the most periods, counted from `start`. Where a column names the units,
    one counts in at most `max_periods` of each `window` periods, in the first that it has rows in, with at most
    `max_rows_per_period` rows each; windows follow each other from `start` on.
    """

    measure: Aggregate
    over: str
    every: Every
    by: tuple[Grouping, ...] = ()
    where: Node | None = None
    horizon: int = DEFAULT_HORIZON
    start: int | None = None
    max_periods: int | None = None
    window: int | None = None
    max_rows_per_period: int | None = None

    @property
    def participation(self) -> Participation | None:
        """In which periods a unit may count; None where nothing is stated."""
        if self.max_periods is None:
            return None
        return Participation(self.max_periods, self.horizon if self.window is None else self.window)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns of keys."""
        return tuple(key.alias for key in self.by)

    def describe(self) -> str:
        """Return the question as a sentence."""
        keys = [describe(key.of) for key in self.by]
        by = f" by {' and '.join(keys)}" if keys else ""
        where = "" if self.where is None else f", where {describe(self.where)}"
        start = "" if self.start is None else f" from {period_name(self.start, self.every)} on"
        return f"{self.measure.describe()}{by}{where}, each {self.every} of {self.over}{start}, with running totals"

    def identity(self) -> str:
        """Return canonical text: equal for equal questions."""
        # what was not stated is left out, so that a series opened before there were such arguments is the same
        unstated = {name for name in _OF_UNITS if getattr(self, name) is None}
        arguments = {n: value for n, value in self.arguments().items() if n != "question" and n not in unstated}
        return json.dumps(["series", arguments], sort_keys=True, separators=(",", ":"))

    def arguments(self) -> dict[str, Any]:
        """Return what was asked for as plain data, by the names of the arguments."""
        return {
            "question": question_to_json(Aggregation(self.where, self.by, (self.measure,))),
            "measure": [self.measure.alias, cast("Any", self.measure).plain()],
            "over": self.over,
            "every": self.every,
            "by": [[key.alias, plain(key.of)] for key in self.by],
            "where": plain(self.where),
            "horizon": self.horizon,
            "start": None if self.start is None else period_name(self.start, self.every),
            **{name: getattr(self, name) for name in _OF_UNITS},
        }

    def query(self, first: int, last: int, domain: Domain, *, start: int) -> PeriodQuery:
        """Return the query of the exact numbers of the rows of some periods of a series that starts with `start`, by the keys."""
        begin = first
        bound = None
        if self.participation is not None and self.max_rows_per_period is not None:
            bound = PeriodBound(self, first, start, domain)
            begin = bound.begin
        question = self._tabulation(period_start(begin, self.every), _after(last, self.every))
        return PeriodQuery(compile_tabulation(question, domain), bound)

    def _tabulation(self, begin: datetime.date, end: datetime.date) -> Tabulation:
        column = col(self.over)
        within = (column >= begin) & (column < end)
        where = within.node if self.where is None else (Expr(self.where) & within).node
        return Tabulation((self.names,), self.by, (self.measure,), "raw", where)

    def compile(self, domain: Domain) -> CompiledSeries:
        """Return what the series means over a domain; raises QuestionRefused where it has no private answer."""
        column = domain[self.over]
        if not isinstance(column, (Date, DateTime)):
            kind = type(column).__name__.lower()
            raise QuestionRefused(
                f"over names the column of days or moments that places a row in its period; {self.over!r} is of type {kind}"
            )
        days = (column.lower, column.upper)
        first, last = (period_index(d.date() if isinstance(d, datetime.datetime) else d, self.every) for d in days)
        if self.start is not None and not first <= self.start <= last:
            raise QuestionRefused(
                f"start {period_name(self.start, self.every)!r} lies outside of the declared days of {self.over!r}, "
                f"{period_name(first, self.every)} to {period_name(last, self.every)}"
            )
        # Wherever it starts, the condition of a period has the same form.
        compiled = compile_tabulation(
            self._tabulation(period_start(first, self.every), _after(last, self.every)), domain
        )
        if not compiled.is_additive(0):
            raise QuestionRefused(
                f"a series takes a count of rows or a sum of a bounded number, not {self.measure.describe()}: different "
                "values do not add up over periods"
            )
        return CompiledSeries(self, compiled, first, last)


# Arguments that a series has where a column names the units.
_OF_UNITS = ("max_periods", "window", "max_rows_per_period")
# Arguments that may be left out, as every way in names them.
OPTIONS = ("horizon", "start", *_OF_UNITS)


@dataclass(frozen=True)
class PeriodBound:
    """Bounds the rows of units in periods from `first` on, for a series that starts with `start`."""

    question: SeriesQuestion
    first: int
    start: int
    domain: Domain

    @property
    def participation(self) -> Participation:
        """In which periods a unit may count."""
        assert self.question.participation is not None
        return self.question.participation

    @property
    def begin(self) -> int:
        """The first period whose rows are read: that of the window of `first`, where earlier periods matter."""
        if self.participation.max_periods == self.participation.window:
            return self.first
        return self.first - (self.first - self.start) % self.participation.window

    def __call__(self, on: Primitives) -> None:
        """Leave the rows that count."""
        most = self.question.max_rows_per_period
        assert most is not None
        period, number_before = self._period
        # windows are counted from the series' start
        window = on.quotient(period.build(on), number_before - self.start, self.participation.window)
        participation = (self.participation.max_periods, self.participation.window)
        at = add(period.build, constant(number_before))(on)
        on.bound_periods(at, window, first=self.first, participation=participation, most=most)

    @cached_property
    def _period(self) -> tuple[BoundNumber, int]:
        """Return a row's period as a number, and what is added for the number of the calendar's period."""
        every = self.question.every
        truncation = truncate_time(every, 1, bind_number(Name(self.question.over), self.domain))
        low = truncation.index.ends[0]
        label = truncation.label(low)
        day = label.date() if isinstance(label, datetime.datetime) else label
        return truncation.index, period_index(day, every) - low


@dataclass(frozen=True)
class PeriodQuery:
    """The query of the exact numbers of some periods, one a cell."""

    tabulation: CompiledTabulation
    bound: PeriodBound | None

    def select(self, on: Primitives) -> exp.Select:
        """Return the SQL tree; its rows are read by `read`."""
        return self.tabulation.select(on, self.tabulation.axes[0], self.bound)

    def read(self, table: pa.Table) -> Integers:
        """Return the exact numbers in the order of the keys, in steps."""
        cells: Integers = read_cells(table, self.tabulation.axes[0], 0, self.tabulation.sizes)
        return cells.reshape(-1)


def _after(index: int, every: Every) -> datetime.date:
    """Return the day after a period, or the last day that there is."""
    try:
        return period_start(index + 1, every)
    except (OverflowError, ValueError):
        return datetime.date.max


@dataclass(frozen=True)
class CompiledSeries:
    """A series over a domain: its keys in order, and the first and last period that may have rows."""

    question: SeriesQuestion
    tabulation: CompiledTabulation
    first: int
    last: int

    @property
    def keys(self) -> tuple[Keys, ...]:
        """The keys of each column."""
        return self.tabulation.keys

    @property
    def cells(self) -> int:
        """The number of cells of one period."""
        return self.tabulation.cells(self.tabulation.axes[0])

    @property
    def unit(self) -> Fraction:
        """The step in which the measure is counted."""
        return self.tabulation.vectors[0].unit

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the largest number that a row adds, in steps; a row may also add nothing."""
        return self.tabulation.vectors[0].bounds or (0, 1)

    def check(self, period: int) -> None:
        """Raise QuestionRefused for a period outside of the declared days."""
        if not self.first <= period <= self.last:
            every = self.question.every
            raise QuestionRefused(
                f"{_name_or_number(period, every)} lies outside of the declared days of {self.question.over!r}, "
                f"{period_name(self.first, every)} to {period_name(self.last, every)}: declare a later upper day, and amend"
            )


def _name_or_number(period: int, every: Every) -> str:
    try:
        return period_name(period, every)
    except (OverflowError, ValueError):
        return f"{every} {period}"


def ask_series(
    measure: object,
    *,
    over: object,
    every: object,
    by: object = (),
    where: object = None,
    horizon: object = None,
    start: object = None,
    max_periods: object = None,
    window: object = None,
    max_rows_per_period: object = None,
) -> SeriesQuestion:
    """Return the question of a series; raises QuestionRefused for arguments that make no sense.

    >>> from sordino.ask.queries.build import count
    >>> ask_series(count(), over="day", every="day", by=["ward"], horizon=365).describe()
    'the number of rows by ward, each day of day, with running totals'
    """
    if isinstance(measure, Aggregation):
        aggregate, groups, condition = _read_whole(measure, by, where)
    else:
        if not isinstance(measure, AggregateExpr) or measure.formula is not None:
            raise QuestionRefused(
                'a series takes one measure, sd.count() or sd.sum("income"): open another for another'
            )
        if where is not None and not isinstance(where, Expr):
            raise QuestionRefused('where takes a condition, such as col("age") > 30')
        aggregate = measure.aggregate
        groups = _read_keys(by)
        condition = None if where is None else where.node
    if not isinstance(aggregate, (Count, Sum)) or getattr(aggregate, "per_unit", None) is not None:
        raise QuestionRefused(
            f"a series takes a count of rows or a sum of a bounded number, not {aggregate.describe()}: open a series of each "
            "part of a mean, and divide their totals"
        )
    if not isinstance(over, str):
        raise QuestionRefused('over is the name of the column of days or moments, such as over="day"')
    if every not in get_args(Every):
        raise QuestionRefused(f"every is a kind of period; {nearest(str(every), get_args(Every))}")
    most = DEFAULT_HORIZON if horizon is None else horizon
    if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= _MOST_HORIZON:
        raise QuestionRefused(
            f"horizon is the number of periods of the series, from 1 to {_MOST_HORIZON:,}, not {horizon!r:.40}"
        )
    period = cast("Every", every)
    first = None if start is None else read_period(start, period)
    limits = _read_limits(max_periods, window, max_rows_per_period, most)
    question = SeriesQuestion(aggregate, over, period, groups, condition, most, first, *limits)
    shown = [*question.names, *(f"{name}{end}" for name in (aggregate.alias, TOTAL) for end in ("", "_low", "_high"))]
    lower = [name.lower() for name in shown]
    twice = next((name for i, name in enumerate(shown) if name.lower() in lower[:i]), None)
    if twice is not None:
        raise QuestionRefused(
            f"two columns of the series are named {twice!r}: name the measure or a key with .alias(...)"
        )
    return question


def _read_limits(
    max_periods: object, window: object, rows: object, horizon: int
) -> tuple[int | None, int | None, int | None]:
    """Return the bounds on the periods and rows of a unit; raises QuestionRefused for bounds that make no sense."""
    for name, value, most in (
        ("max_periods", max_periods, horizon),
        ("window", window, horizon),
        ("max_rows_per_period", rows, 10**9),
    ):
        whole = isinstance(value, int) and not isinstance(value, bool)
        if value is not None and not (whole and 1 <= cast("int", value) <= most):
            raise QuestionRefused(f"{name} is {_LIMITS[name]}, from 1 to {most:,}, not {value!r:.40}")
    periods, size, each = (cast("int | None", value) for value in (max_periods, window, rows))
    if periods is None:
        if size is not None or each is not None:
            name = "window" if size is not None else "max_rows_per_period"
            raise QuestionRefused(f"{name} goes with max_periods, {_LIMITS['max_periods']}: state that too")
        return None, None, None
    if size is not None and periods > size:
        raise QuestionRefused(f"max_periods = {periods:,} of a window of {size:,} periods: state at most {size:,}")
    if horizon > MOST_STEPS_OF_UNITS:
        raise QuestionRefused(
            f"a series with max_periods has a horizon of at most {MOST_STEPS_OF_UNITS:,} periods, not {horizon:,}"
        )
    return periods, size, each


_LIMITS = {
    "max_periods": "the most periods of a window in which one unit counts",
    "window": "the number of periods of a window",
    "max_rows_per_period": "the most rows of one unit that count in one period",
}


def recall_series(arguments: Mapping[str, Any]) -> SeriesQuestion:
    """Return the question whose `arguments` these are."""
    names = ("over", "every", "horizon", "start")
    stated = {name: arguments[name] for name in names} | {name: arguments.get(name) for name in _OF_UNITS}
    return ask_series(question_from_json(arguments["question"]), **stated)


def _read_whole(
    question: Aggregation, by: object, where: object
) -> tuple[Aggregate, tuple[Grouping, ...], Node | None]:
    """Return the measure, the keys and the condition of a whole question; raises QuestionRefused where it has more than these."""
    if by != () or where is not None:
        raise QuestionRefused("a whole question states its keys and its condition itself: leave by= and where= out")
    plainest = Aggregation(question.where, question.groups, question.aggregates)
    if len(question.aggregates) != 1 or replace(question, layout=()) != plainest:
        raise QuestionRefused(
            "a series takes a question of one count or sum by declared keys of one table, with a condition, such as SELECT ward, "
            "COUNT(*) AS count FROM visits GROUP BY ward: without joins, HAVING, ORDER BY, samples and formulas"
        )
    return question.aggregates[0], question.groups, question.where


def _read_keys(by: Any) -> tuple[Grouping, ...]:
    listed: Sequence[Column] = [by] if isinstance(by, (str, Expr)) else by
    if not isinstance(listed, (list, tuple)) or not all(isinstance(column, (str, Expr)) for column in listed):
        raise QuestionRefused("by is a list of columns with declared keys, such as by=['ward']")
    expressions = [col(column) if isinstance(column, str) else column for column in listed]
    return tuple(replace(group) for group in groupings([(e.name, e.node) for e in expressions]))


def opening_note(name: str) -> str:
    """Return the note of the release on record of a series' charge, which has no numbers."""
    return f"the series {name!r}, released period by period"


# ---- What a curator hands to whoever releases the series


@dataclass(frozen=True, slots=True)
class SeriesStep:
    """What one step released: its period, its number, and noisy numbers in fine steps, one a cell."""

    period: int
    step: int
    counts: tuple[int, ...]
    totals: tuple[int, ...]
    time: str


class SeriesQueryable(Protocol):
    """All that a series may do with its table: read what its steps released, and release the next one."""

    @property
    def name(self) -> str:
        """The name of the series."""

    @property
    def compiled(self) -> CompiledSeries:
        """The question, over the table's domain."""

    @property
    def neighbors(self) -> Neighbors:
        """Which tables count as neighbors."""

    @property
    def fine(self) -> int:
        """The fine steps of a step of the measure."""

    @property
    def mechanism(self) -> str:
        """The mechanism in words."""

    @property
    def opening(self) -> Release:
        """The release on record of the charge that paid for the series."""

    def noise_variance(self, terms: Sequence[tuple[int, int]]) -> Fraction:
        """Return a bound of the variance of a sum of totals' noises, in squared fine steps; `terms` are (weight, step)."""

    def steps(self) -> Sequence[SeriesStep]:
        """Return all released steps, in order."""

    def periods(self) -> Sequence[int]:
        """Return the released periods, in order; no number is read."""

    def step_at(self, period: int) -> SeriesStep | None:
        """Return the released step of a period; None where it was not released."""

    def check_next(self, period: int) -> None:
        """Raise QuestionRefused for a period that could not be released now."""

    def start(self) -> int | None:
        """Return the first period of the series; None while that is open."""

    def advance(self, period: int) -> SeriesStep:
        """Release a period that comes after all that were released, for good; return it as recorded."""


class SeriesHandle(Protocol):
    """A series as its user holds it: see `sordino.series.series.Series`."""

    @property
    def name(self) -> str:
        """The name that the series is opened by."""

    @property
    def opening(self) -> Release:
        """The release of its charge: what the series cost, with no numbers."""

    @property
    def periods(self) -> list[str]:
        """The periods that were released, in order."""

    @property
    def table(self) -> pa.Table:
        """All released periods as one Arrow table, with intervals at 95%."""

    def release(self, period: datetime.date | str) -> Release:
        """Return the release of a period: the next one, or one that was released before, which is the same as then."""

    def check(self, period: datetime.date | str) -> None:
        """Raise QuestionRefused for a period that could not be released now; nothing is released."""

    def step(self, period: datetime.date | str) -> int:
        """Return the number of a period of the series, from 1 for its first on."""

    def window(self, first: datetime.date | str, last: datetime.date | str) -> Release:
        """Return the total of the periods from `first` to `last`, both included, from what was released."""

    def difference(self, period: datetime.date | str, other: datetime.date | str) -> Release:
        """Return the number of a period less that of another, from what was released."""

    def close(self) -> None:
        """Close this handle; the series goes on, and is opened again by its name."""

    def __enter__(self) -> SeriesHandle: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
