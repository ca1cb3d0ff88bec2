"""Expressions over the columns of a row: `col(...)` and `when(...)`, to write the trees of nodes.py. Knows no data."""

from __future__ import annotations

import datetime
import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sordino.ask.queries.expressions.nodes import (
    MIRROR,
    Absolute,
    Apply,
    Arithmetic,
    Bin,
    Clip,
    Compare,
    Connective,
    Constant,
    DateFormat,
    DatePart,
    DateTrunc,
    IsIn,
    IsNull,
    Match,
    Name,
    Node,
    Not,
    Shift,
    TextFunction,
    Value,
    When,
    Windowed,
    describe,
    walk,
)
from sordino.ask.queries.frame_words import unknown_word
from sordino.core.errors import QuestionRefused
from sordino.core.lazy import load_feature
from sordino.core.loss import Number, format_number, to_fraction
from sordino.core.time_zones import parse_moment

_MOST_POWER = 16
# The type, where `str` is the property of an expression.
_Text = str
# the most rows between a row and one that it looks at
_MOST_OFFSET = 1_000


@dataclass(frozen=True, slots=True, eq=False)
class Expr:
    """An expression over the columns of a row: arithmetic `+ - *`, comparisons, `&`, `|`, `~`, and the methods below.

    Its truth is refused, so that `0 < col("x") < 9` cannot lose its half.

    >>> str((col("age") > 30) & ~col("occ").is_in(["Sales"]))
    "age > 30 and not occ in ('Sales')"
    """

    node: Node
    # the name of the key in group_by; what is made of the expression has none
    name: _Text | None = None

    def alias(self, name: _Text) -> Expr:
        """Return the expression under a name, for group_by: `group_by(col("born").year().alias("year"))`."""
        if not isinstance(name, _Text) or not name.strip():
            raise QuestionRefused("alias takes a name that is not empty")
        return Expr(self.node, name)

    def clip(self, lower: Number | datetime.date | None, upper: Number | datetime.date | None) -> Expr:
        """Return the expression clipped to [lower, upper]; None leaves a side open. Dates are clipped to dates."""
        low = None if lower is None else _clip_bound(lower, "clip's lower bound")
        high = None if upper is None else _clip_bound(upper, "clip's upper bound")
        if isinstance(low, Fraction) and isinstance(high, Fraction) and low > high:
            raise QuestionRefused(
                f"clip's bounds cross: {format_number(low)} is above {format_number(high)}; swap them"
            )
        return Expr(Clip(self.node, low, high))

    def abs(self) -> Expr:
        """Return the absolute value."""
        return Expr(Absolute(self.node))

    def round(self, digits: int = 0) -> Expr:
        """Return the value rounded to so many decimal digits, halves away from 0; negative digits round to tens."""
        return Expr(Apply("round", self.node, Constant(to_fraction(digits, name="round's digits"))))

    def floor(self) -> Expr:
        """Return the largest whole number that is not above the value."""
        return Expr(Apply("floor", self.node))

    def ceil(self) -> Expr:
        """Return the least whole number that is not below the value."""
        return Expr(Apply("ceil", self.node))

    def truncate(self, unit: _Text | None = None, *, count: int = 1) -> Expr:
        """Return a number without its decimals; or a date or datetime at the begin of its year, quarter, month, ...

        `unit` is year, quarter, month, week (from Monday), day, hour, minute or second; `count` of them are one part.
        """
        if unit is None:
            return Expr(Apply("truncate", self.node))
        return Expr(DateTrunc(_unit(unit), self.node, _count(count)))

    def sign(self) -> Expr:
        """Return -1, 0 or 1."""
        return Expr(Apply("sign", self.node))

    def sqrt(self) -> Expr:
        """Return the square root; missing below 0. The value needs bounds, and lands on the finest grid of 10^12 steps."""
        return Expr(Apply("sqrt", self.node))

    def ln(self) -> Expr:
        """Return the natural logarithm; missing at 0 and below."""
        return Expr(Apply("ln", self.node))

    def log2(self) -> Expr:
        """Return the logarithm to base 2; missing at 0 and below."""
        return Expr(Apply("log2", self.node))

    def log10(self) -> Expr:
        """Return the logarithm to base 10; missing at 0 and below."""
        return Expr(Apply("log10", self.node))

    def exp(self) -> Expr:
        """Return e to the power of the value."""
        return Expr(Apply("exp", self.node))

    def power(self, exponent: Number) -> Expr:
        """Return the value to a whole power from 0 to 16, exactly; to the power 1/2 its square root."""
        wanted = to_fraction(exponent, name="power's exponent")
        if wanted == Fraction(1, 2):
            return self.sqrt()
        if wanted.denominator != 1 or not 0 <= wanted <= _MOST_POWER:
            raise QuestionRefused(f"power takes a whole exponent from 0 to {_MOST_POWER}, or 0.5")
        one = Constant(Fraction(1))
        product: Node = one
        # by squaring, from the highest bit of the exponent down
        for bit in f"{int(wanted):b}":
            product = self.node if product == one and bit == "1" else _square(product, self.node, bit == "1")
        return Expr(product)

    def bin(
        self,
        edges: Sequence[Any] | None = None,
        *,
        width: Number | None = None,
        days: int | None = None,
        hours: int | None = None,
    ) -> Expr:
        """Return the bin the value falls in, by ascending `edges`, or by `width` from the lower bound; for group_by.

        Dates and datetimes take edges that are dates, or a width in `days` or `hours`; hours are counted from midnight.
        """
        if sum(option is not None for option in (edges, width, days, hours)) != 1:
            raise QuestionRefused(
                "bin takes either edges, such as [0, 18, 65, 125], or a width: width=10, days=7, hours=6"
            )
        if days is not None:
            return Expr(Bin(DatePart("date", self.node), None, _count(days)))
        if hours is not None:
            return self.truncate("hour", count=hours)
        if width is not None:
            step = to_fraction(width, name="bin's width")
            if step <= 0:
                raise QuestionRefused(f"bin's width must be above 0, not {format_number(step)}")
            return Expr(Bin(self.node, None, step))
        if not isinstance(edges, (list, tuple, range)):
            raise QuestionRefused("bin's edges are a list, such as [0, 18, 65, 125]; a width is given as width=10")
        cuts = tuple(_clip_bound(e, "bin's edge") for e in edges)
        numbers = [c for c in cuts if isinstance(c, Fraction)]
        if len(cuts) < 2 or len(numbers) not in (0, len(cuts)) or any(a >= b for a, b in itertools.pairwise(numbers)):
            raise QuestionRefused("bin's edges must ascend and be two or more, such as [0, 18, 65, 125]")
        return Expr(Bin(self.node, cuts, None))

    def is_in(self, values: Iterable[Any]) -> Expr:
        """Return whether the value is one of `values`."""
        if isinstance(values, (_Text, Expr)):
            raise QuestionRefused('is_in takes a list of values, such as is_in(["Sales", "Tech-support"])')
        listed = tuple(as_value(v) for v in values)
        if not listed:
            raise QuestionRefused("is_in needs at least one value")
        return Expr(IsIn(self.node, listed))

    def is_between(self, lower: Any, upper: Any) -> Expr:
        """Return whether lower <= value <= upper."""
        least = Compare(">=", self.node, as_node(lower))
        return Expr(Connective("and", least, Compare("<=", self.node, as_node(upper))))

    def is_null(self) -> Expr:
        """Return whether the value is missing."""
        return Expr(IsNull(self.node))

    def is_not_null(self) -> Expr:
        """Return whether the value is there."""
        return ~self.is_null()

    def fill_null(self, value: Any) -> Expr:
        """Return the value, and `value` where it is missing, as SQL's COALESCE does."""
        return Expr(When(IsNull(self.node), as_node(value), self.node))

    # ---- aggregates of the column: those of `sd`, which are made where aggregates are

    def count(self) -> Any:
        """Return the aggregate `sd.count(x)`: the number of rows in which it is not missing."""
        return load_feature("count")(self)

    def sum(self, *, per_unit: tuple[Number, Number] | None = None) -> Any:
        """Return the aggregate `sd.sum(x)`."""
        return load_feature("sum")(self, per_unit=per_unit)

    def mean(self) -> Any:
        """Return the aggregate `sd.mean(x)`."""
        return load_feature("mean")(self)

    def median(self) -> Any:
        """Return the aggregate `sd.median(x)`."""
        return load_feature("median")(self)

    def quantile(self, level: Number) -> Any:
        """Return the aggregate `sd.quantile(x, level)`."""
        return load_feature("quantile")(self, level)

    def std(self, *, ddof: int = 1) -> Any:
        """Return the aggregate `sd.std(x, ddof=1)`: of a sample, as polars and pandas have it; `sd.std` alone has ddof=0."""
        return load_feature("std")(self, ddof=ddof)

    def var(self, *, ddof: int = 1) -> Any:
        """Return the aggregate `sd.variance(x, ddof=1)`: of a sample, as polars and pandas have it."""
        return load_feature("variance")(self, ddof=ddof)

    def n_unique(self) -> Any:
        """Return the aggregate `sd.count_distinct(x)`; a missing value is none, as in pandas' nunique and SQL."""
        return load_feature("count_distinct")(self)

    def min(self) -> Any:
        """Return `sd.min(x)`, the least value of a person, inside `.per_unit(...)`."""
        return load_feature("min")(self)

    def max(self) -> Any:
        """Return `sd.max(x)`, the largest value of a person, inside `.per_unit(...)`."""
        return load_feature("max")(self)

    def any(self) -> Any:
        """Return `sd.any(x)`, whether a condition holds for any row of a person, inside `.per_unit(...)`."""
        return load_feature("any")(self)

    def all(self) -> Any:
        """Return `sd.all(x)`, whether a condition holds for all rows of a person, inside `.per_unit(...)`."""
        return load_feature("all")(self)

    def first(self, *, by: _Text | Expr) -> Any:
        """Return `sd.first(x, by=...)`, inside `.per_unit(...)`."""
        return load_feature("first")(self, by=by)

    def last(self, *, by: _Text | Expr) -> Any:
        """Return `sd.last(x, by=...)`, inside `.per_unit(...)`."""
        return load_feature("last")(self, by=by)

    def value_counts(self, *, sort: bool = False) -> Any:
        """Return the question for the number of rows of each value: `table.value_counts(x)`."""
        return load_feature("Selection")().value_counts(self, sort=sort)

    def over(
        self,
        *columns: _Text | Expr,
        order_by: _Text | Expr | Iterable[_Text | Expr] | None = None,
        descending: bool = False,
    ) -> Expr:
        """Return a value of each row among its person's rows: `col("x").shift(1).over("id", order_by="day")`.

        `columns` name the privacy unit's column, and perhaps others. Name it with `with_columns`. Raises QuestionRefused where
        nothing in the expression looks at other rows.
        """
        windows = [at for at in walk(self.node) if isinstance(at, Windowed) and not at.partition]
        if not windows:
            raise QuestionRefused(
                f"{self}.over(...) is a value of each row, and rows are never released: windows run over an answer at no cost, "
                "release.query('SELECT *, n / SUM(n) OVER () AS share FROM answer'), or in sd.sql; over a person's own rows are "
                "shift, diff, cum_sum and cum_count, and sums, means and counts"
            )
        partition = tuple(_column_node(c) for c in columns)
        if not partition:
            raise QuestionRefused('over names the privacy unit\'s column: .over("id", order_by="day")')
        by = () if order_by is None else (order_by,) if isinstance(order_by, (_Text, Expr)) else tuple(order_by)
        order = tuple((_column_node(c), bool(descending)) for c in by)
        if not order and any(at.running or at.kind in ("lag", "lead") for at in windows):
            raise QuestionRefused(f'{self} depends on the order of rows: .over("id", order_by="day")')
        return Expr(_place_over(self.node, partition, order))

    def diff(self, n: int = 1) -> Expr:
        """Return the value less that of `n` rows before among the person's rows: end it with `.over("id", order_by="day")`."""
        return self - self.shift(n)

    def cum_sum(self) -> Expr:
        """Return the sum of the person's rows up to this one: end it with `.over("id", order_by="day")`."""
        return Expr(Windowed("sum", self.node, running=True))

    def cum_count(self) -> Expr:
        """Return how many of the person's rows up to this one have a value: end it with `.over("id", order_by="day")`."""
        return Expr(Windowed("count", self.node, running=True))

    @property
    def dt(self) -> DateParts:
        """The parts of a date or datetime by the words of polars."""
        return DateParts(self)

    @property
    def str(self) -> TextParts:
        """The functions of text by the words of polars and pandas."""
        return TextParts(self)

    def like(self, pattern: _Text) -> Expr:
        """Return whether a text matches SQL's LIKE: % stands for any text, _ for one character."""
        return self._match("like", pattern)

    def ilike(self, pattern: _Text) -> Expr:
        """Return whether a text matches LIKE, whatever the case of its letters."""
        return self._match("ilike", pattern)

    def matches(self, pattern: _Text) -> Expr:
        """Return whether a declared value has a part that matches a regular expression."""
        return self._match("regex", pattern)

    def starts_with(self, text: _Text) -> Expr:
        """Return whether a text begins so."""
        return self._match("prefix", text)

    def ends_with(self, text: _Text) -> Expr:
        """Return whether a text ends so."""
        return self._match("suffix", text)

    def contains(self, text: _Text) -> Expr:
        """Return whether a text has this part."""
        return self._match("part", text)

    def upper(self) -> Expr:
        """Return a declared value in capitals."""
        return Expr(TextFunction("upper", self.node))

    def lower(self) -> Expr:
        """Return a declared value in small letters."""
        return Expr(TextFunction("lower", self.node))

    def trim(self) -> Expr:
        """Return a declared value without the blanks around it."""
        return Expr(TextFunction("trim", self.node))

    def substr(self, start: int, length: int | None = None) -> Expr:
        """Return a part of a declared value, counted from 1 as in SQL; a negative start counts from the end."""
        place = [start] if length is None else [start, length]
        return Expr(TextFunction("substr", self.node, tuple(to_fraction(g, name="substr's place") for g in place)))

    def replace(self, old: _Text, new: _Text) -> Expr:
        """Return a declared value with one text in place of another."""
        return Expr(TextFunction("replace", self.node, (old, new)))

    def concat(self, other: Any) -> Expr:
        """Return two texts one after the other: declared values, or constants."""
        return Expr(TextFunction("concat", self.node, (), as_node(other)))

    def length(self) -> Expr:
        """Return the number of characters of a declared value."""
        return Expr(TextFunction("length", self.node))

    def _match(self, kind: _Text, pattern: _Text) -> Expr:
        if not isinstance(pattern, _Text):
            raise QuestionRefused(f"a pattern is text, not a {type(pattern).__name__}")
        return Expr(Match(kind, self.node, pattern))

    def year(self) -> Expr:
        """Return the year of a day."""
        return Expr(DatePart("year", self.node))

    def quarter(self) -> Expr:
        """Return the quarter of a day, 1 to 4."""
        return Expr(DatePart("quarter", self.node))

    def month(self) -> Expr:
        """Return the month of a day, 1 to 12."""
        return Expr(DatePart("month", self.node))

    def day(self) -> Expr:
        """Return the day of the month, 1 to 31."""
        return Expr(DatePart("day", self.node))

    def day_of_week(self) -> Expr:
        """Return the day of the week, 0 (Sunday) to 6, as SQL's DOW does."""
        return Expr(DatePart("dow", self.node))

    def iso_day_of_week(self) -> Expr:
        """Return the day of the week as ISO 8601 counts, 1 (Monday) to 7."""
        return Expr(DatePart("isodow", self.node))

    def day_of_year(self) -> Expr:
        """Return the day of the year, 1 to 366."""
        return Expr(DatePart("doy", self.node))

    def week(self) -> Expr:
        """Return the week of ISO 8601, 1 to 53."""
        return Expr(DatePart("week", self.node))

    def hour(self) -> Expr:
        """Return the hour of a datetime by its zone's clock, 0 to 23."""
        return Expr(DatePart("hour", self.node))

    def minute(self) -> Expr:
        """Return the minute of a datetime, 0 to 59."""
        return Expr(DatePart("minute", self.node))

    def second(self) -> Expr:
        """Return the second of a datetime, 0 to 59."""
        return Expr(DatePart("second", self.node))

    def date(self) -> Expr:
        """Return the day of a datetime by its zone's clock."""
        return Expr(DatePart("date", self.node))

    def strftime(self, form: _Text) -> Expr:
        """Return a date or datetime as text, by a format such as "%Y-%m"; for group_by and comparisons."""
        if not isinstance(form, _Text):
            raise QuestionRefused('strftime takes a format, such as "%Y-%m"')
        return Expr(DateFormat(form, self.node))

    def shift(
        self, n: int | None = None, *, months: int = 0, days: int = 0, hours: int = 0, seconds: Number = 0
    ) -> Expr:
        """Return a date or datetime moved by months and days of the clock, and by hours and seconds.

        With `n`, or with nothing, the value of so many rows before among the person's rows, after where below 0, as in polars:
        end it with `.over("id", order_by="day")`.
        """
        n = 1 if n is None and not (months or days or hours or seconds) else n
        if n is not None:
            if (
                isinstance(n, bool)
                or not isinstance(n, int)
                or not 0 < abs(n) <= _MOST_OFFSET
                or months
                or days
                or hours
            ):
                raise QuestionRefused(f"shift takes a number of rows up to {_MOST_OFFSET:,}, or days=..., months=...")
            return Expr(Windowed("lag" if n > 0 else "lead", self.node, offset=abs(n)))
        amounts = [to_fraction(n, name="shift's amount") for n in (months, days, hours, seconds)]
        if any(n.denominator != 1 for n in amounts[:3]):
            raise QuestionRefused("shift moves by whole months, days and hours")
        return Expr(Shift(self.node, amounts[0], amounts[1], 3600 * amounts[2] + amounts[3]))

    def weeks(self) -> Expr:
        """Return the time between two dates or datetimes in weeks: `(col("end") - col("start")).weeks()`."""
        return Expr(Apply("weeks", self.node))

    def days(self) -> Expr:
        """Return the time between two dates or datetimes in days; of datetimes with its fraction."""
        return Expr(Apply("days", self.node))

    def hours(self) -> Expr:
        """Return the time between two dates or datetimes in hours."""
        return Expr(Apply("hours", self.node))

    def minutes(self) -> Expr:
        """Return the time between two dates or datetimes in minutes."""
        return Expr(Apply("minutes", self.node))

    def seconds(self) -> Expr:
        """Return the time between two dates or datetimes in seconds."""
        return Expr(Apply("seconds", self.node))

    def __add__(self, other: Any) -> Expr:
        return Expr(Arithmetic("+", self.node, as_node(other)))

    def __radd__(self, other: Any) -> Expr:
        return Expr(Arithmetic("+", as_node(other), self.node))

    def __sub__(self, other: Any) -> Expr:
        return Expr(Arithmetic("-", self.node, as_node(other)))

    def __rsub__(self, other: Any) -> Expr:
        return Expr(Arithmetic("-", as_node(other), self.node))

    def __mul__(self, other: Any) -> Expr:
        return Expr(Arithmetic("*", self.node, as_node(other)))

    def __rmul__(self, other: Any) -> Expr:
        return Expr(Arithmetic("*", as_node(other), self.node))

    def __neg__(self) -> Expr:
        return Expr(Arithmetic("*", Constant(Fraction(-1)), self.node))

    def __abs__(self) -> Expr:
        return self.abs()

    def __truediv__(self, other: Any) -> Expr:
        return Expr(Apply("divide", self.node, as_node(other)))

    def __rtruediv__(self, other: Any) -> Expr:
        return Expr(Apply("divide", as_node(other), self.node))

    def __floordiv__(self, other: Any) -> Expr:
        return Expr(Apply("floor", Apply("divide", self.node, as_node(other))))

    def __mod__(self, other: Any) -> Expr:
        return Expr(Apply("modulo", self.node, as_node(other)))

    def __pow__(self, exponent: Any) -> Expr:
        return self.power(exponent)

    def __round__(self, digits: int = 0) -> Expr:
        return self.round(digits)

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]  # a comparison builds a tree, as in every frame
        return _compare("=", self.node, as_node(other))

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]  # likewise
        return _compare("!=", self.node, as_node(other))

    def __lt__(self, other: Any) -> Expr:
        return _compare("<", self.node, as_node(other))

    def __le__(self, other: Any) -> Expr:
        return _compare("<=", self.node, as_node(other))

    def __gt__(self, other: Any) -> Expr:
        return _compare(">", self.node, as_node(other))

    def __ge__(self, other: Any) -> Expr:
        return _compare(">=", self.node, as_node(other))

    def __and__(self, other: Any) -> Expr:
        return Expr(Connective("and", self.node, as_node(other)))

    def __rand__(self, other: Any) -> Expr:
        return Expr(Connective("and", as_node(other), self.node))

    def __or__(self, other: Any) -> Expr:
        return Expr(Connective("or", self.node, as_node(other)))

    def __ror__(self, other: Any) -> Expr:
        return Expr(Connective("or", as_node(other), self.node))

    def __invert__(self) -> Expr:
        return Expr(Not(self.node))

    def __hash__(self) -> int:
        return hash(self.node)

    def __bool__(self) -> bool:
        raise QuestionRefused(
            "an expression has no truth value: write & | ~ instead of and, or, not, "
            "and is_between(a, b) instead of a <= x <= b"
        )

    def __iter__(self) -> Any:
        raise TypeError("an expression cannot be iterated over")

    if not TYPE_CHECKING:

        def __getattr__(self, word: _Text) -> Any:
            """Name the word that was meant."""
            raise unknown_word(self, word, kind="Expr")

    def __str__(self) -> _Text:
        return describe(self.node)

    def __repr__(self) -> _Text:
        return f"<Expr {describe(self.node)}>"


@dataclass(frozen=True, slots=True)
class DateParts:
    """The parts of a date or datetime, as polars names them: `col("begin").dt.year()`."""

    of: Expr

    def year(self) -> Expr:
        """Return the year."""
        return self.of.year()

    def quarter(self) -> Expr:
        """Return the quarter, 1 to 4."""
        return self.of.quarter()

    def month(self) -> Expr:
        """Return the month, 1 to 12."""
        return self.of.month()

    def week(self) -> Expr:
        """Return the week of ISO 8601, 1 to 53."""
        return self.of.week()

    def day(self) -> Expr:
        """Return the day of the month, 1 to 31."""
        return self.of.day()

    def weekday(self) -> Expr:
        """Return the day of the week, 1 (Monday) to 7, as polars counts: `iso_day_of_week()`."""
        return self.of.iso_day_of_week()

    def ordinal_day(self) -> Expr:
        """Return the day of the year, 1 to 366: `day_of_year()`."""
        return self.of.day_of_year()

    def hour(self) -> Expr:
        """Return the hour, 0 to 23."""
        return self.of.hour()

    def minute(self) -> Expr:
        """Return the minute, 0 to 59."""
        return self.of.minute()

    def second(self) -> Expr:
        """Return the second, 0 to 59."""
        return self.of.second()

    def date(self) -> Expr:
        """Return the day of a datetime."""
        return self.of.date()

    def truncate(self, every: str) -> Expr:
        """Return the begin of the part, such as "1y", "1q", "1mo", "1w", "1d", "6h", "15m" or "30s", as polars writes them."""
        match = re.fullmatch(r"([0-9]{1,5})(y|q|mo|w|d|h|m|s)", every) if isinstance(every, str) else None
        count = 0 if match is None else int(match[1])
        unit, whole = ("", 1) if match is None else _EVERY[match[2]]
        # Of other numbers the parts would begin elsewhere than those of polars.
        if not count or whole % count:
            raise QuestionRefused(
                'dt.truncate takes "1y", "1q", "1mo", "1w", "1d", or hours, minutes and seconds that divide a day, an hour and a '
                'minute, such as "6h"; others are written truncate("month", count=2)'
            )
        return self.of.truncate(unit, count=count)

    def strftime(self, form: str) -> Expr:
        """Return it as text, by a format such as "%Y-%m"."""
        return self.of.strftime(form)

    def to_string(self, form: str) -> Expr:
        """Return it as text, as `strftime` does."""
        return self.of.strftime(form)

    def total_seconds(self) -> Expr:
        """Return the time between two datetimes in seconds: `(col("end") - col("start")).dt.total_seconds()`."""
        return self.of.seconds()

    if not TYPE_CHECKING:

        def __getattr__(self, word: str) -> Any:
            """Name the word that was meant."""
            raise unknown_word(self, word, kind="DateParts")


@dataclass(frozen=True, slots=True)
class TextParts:
    """The functions of text, as polars and pandas name them: `col("job").str.to_uppercase()`."""

    of: Expr

    def to_uppercase(self) -> Expr:
        """Return the text in capitals."""
        return self.of.upper()

    def to_lowercase(self) -> Expr:
        """Return the text in small letters."""
        return self.of.lower()

    def upper(self) -> Expr:
        """Return the text in capitals."""
        return self.of.upper()

    def lower(self) -> Expr:
        """Return the text in small letters."""
        return self.of.lower()

    def strip_chars(self) -> Expr:
        """Return the text without the blanks around it."""
        return self.of.trim()

    def strip(self) -> Expr:
        """Return the text without the blanks around it."""
        return self.of.trim()

    def starts_with(self, prefix: str) -> Expr:
        """Return whether the text begins so."""
        return self.of.starts_with(prefix)

    def ends_with(self, suffix: str) -> Expr:
        """Return whether the text ends so."""
        return self.of.ends_with(suffix)

    def startswith(self, prefix: str) -> Expr:
        """Return whether the text begins so."""
        return self.of.starts_with(prefix)

    def endswith(self, suffix: str) -> Expr:
        """Return whether the text ends so."""
        return self.of.ends_with(suffix)

    def contains(self, pattern: str, *, literal: bool = False) -> Expr:
        """Return whether a part of the text matches a regular expression, as `matches`; is `pattern` itself where `literal`."""
        return self.of.contains(pattern) if literal or _is_literal(pattern) else self.of.matches(pattern)

    def replace_all(self, pattern: str, value: str, *, literal: bool = False) -> Expr:
        """Return the text with `value` in the place of each `pattern`; raises QuestionRefused for a regular expression."""
        if not literal and not (_is_literal(pattern) and _is_literal(value)):
            raise QuestionRefused("regular expressions are not replaced: write literal=True for the text itself")
        return self.of.replace(pattern, value)

    def slice(self, offset: int, length: int | None = None) -> Expr:
        """Return a part of the text, counted from 0; a negative offset counts from the end. It is `substr(offset + 1)`."""
        if isinstance(offset, bool) or not isinstance(offset, int):
            raise QuestionRefused("str.slice takes a whole offset, from 0, such as str.slice(0, 3)")
        return self.of.substr(offset if offset < 0 else offset + 1, length)

    def len_chars(self) -> Expr:
        """Return the number of characters."""
        return self.of.length()

    def len(self) -> Expr:
        """Return the number of characters."""
        return self.of.length()

    if not TYPE_CHECKING:

        def __getattr__(self, word: str) -> Any:
            """Name the word that was meant."""
            raise unknown_word(self, word, kind="TextParts")


# What polars calls the parts of time: our unit, and how many of them make the next larger whole.
_EVERY = {
    "y": ("year", 1),
    "q": ("quarter", 1),
    "mo": ("month", 1),
    "w": ("week", 1),
    "d": ("day", 1),
    "h": ("hour", 24),
    "m": ("minute", 60),
    "s": ("second", 60),
}


def _is_literal(pattern: object) -> bool:
    """Return whether a text means itself as a regular expression too."""
    return isinstance(pattern, str) and not re.search(r"[\\^$.|?*+()\[\]{}]", pattern)


def _square(of: Node, base: Node, odd: bool) -> Node:
    """Return of * of, times `base` where `odd`: one step of a power by squaring."""
    if of == Constant(Fraction(1)):
        return of
    twice = Arithmetic("*", of, of)
    return Arithmetic("*", twice, base) if odd else twice


def _compare(op: str, left: Node, right: Node) -> Expr:
    """Return left op right, a constant on the right where there is one: `30 < x` and `x > 30` are one question."""
    if isinstance(left, Constant) and not isinstance(right, Constant):
        left, right, op = right, left, MIRROR[op]
    return Expr(Compare(op, left, right))


def col(name: str) -> Expr:
    """Name a declared column in a question.

    >>> col("age").clip(0, 90) * 2
    <Expr clip(age, 0, 90) * 2>
    """
    if not isinstance(name, str) or not name:
        raise QuestionRefused("col takes the name of a declared column")
    return Expr(Name(name))


def as_value(value: Any) -> Value:
    """Return a constant in the form that trees hold: numbers as fractions."""
    if isinstance(value, (str, bool)):
        return value
    if isinstance(value, datetime.date):
        return value.to_pydatetime() if hasattr(value, "to_pydatetime") else value
    if isinstance(value, (int, float, Decimal, Fraction)) or hasattr(value, "__float__"):
        return to_fraction(value, name="a constant")
    raise QuestionRefused(f"a constant must be a number, text, true or false, or a day, not a {type(value).__name__}")


def _column_node(column: str | Expr) -> Node:
    """Return the expression of a column named by text, or an expression as it is; raises QuestionRefused for anything else."""
    if not isinstance(column, (str, Expr)):
        raise QuestionRefused(f'over takes columns, such as over("id", order_by="day"), not a {type(column).__name__}')
    return col(column).node if isinstance(column, str) else column.node


def _place_over(thing: Any, partition: tuple[Node, ...], order: tuple[tuple[Node, bool], ...]) -> Any:
    """Return an expression whose windows without a partition have this one."""
    if isinstance(thing, Windowed) and not thing.partition:
        return replace(thing, partition=partition, order=order)
    if isinstance(thing, tuple):
        return tuple(_place_over(item, partition, order) for item in thing)
    if not is_dataclass(thing) or isinstance(thing, type):
        return thing
    return replace(
        thing, **{part.name: _place_over(getattr(thing, part.name), partition, order) for part in fields(thing)}
    )


def as_node(value: Any) -> Node:
    """Return the tree of an Expr, or of a constant."""
    return value.node if isinstance(value, Expr) else Constant(as_value(value))


def _unit(unit: str) -> str:
    """Return the unit of a truncation; raises QuestionRefused for an unknown one."""
    word = str(unit).lower().removesuffix("s")
    if word not in _UNITS:
        raise QuestionRefused(f"a date is truncated to one of {', '.join(_UNITS)}, not {str(unit)[:20]!r}")
    return word


def _count(count: object) -> Fraction:
    """Return how many units, days or hours are one part."""
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= 100_000:
        raise QuestionRefused("a date is cut into parts of a whole number of units, from 1 to 100000")
    return Fraction(count)


def _clip_bound(value: object, name: str) -> Fraction | datetime.date:
    """Return a number, or a date or moment, that bounds a clip or a bin."""
    if isinstance(value, str):
        try:
            return parse_moment(value)
        except ValueError:
            return to_fraction(value, name=name)
    bound = as_value(value)
    return bound if isinstance(bound, datetime.date) else to_fraction(bound, name=name)


_UNITS = ("second", "minute", "hour", "day", "week", "month", "quarter", "year", "decade", "century")
