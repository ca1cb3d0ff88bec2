"""The domain of a table, as public knowledge: the type, bounds, values and missing rule of each column.

Nothing here is ever read from the data, and nothing has a default that would be a guess about it.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any, get_args

from sordino.core.cell_grammar import is_unicode
from sordino.core.declared_times import check_offsets, declared_day, declared_moment, declared_step
from sordino.core.errors import DeclarationError, QuestionRefused, UnknownName, hint_quotes, nearest
from sordino.core.loss import Number, format_number, to_fraction
from sordino.core.text_table import COLUMN_HEAD, align_cells, column_cells, html_table
from sordino.core.time_zones import local_time, parse_moment, seconds_since, time_zone

# integers are stored, and unbounded reals saturate, within [-STORED, STORED] lattice steps
STORED = 2**62
# from 0 to the larger bound, where no resolution is declared: squares still sum exactly
_MOST_STEPS = 10**12
# the default bound on a table's rows: proves that exact sums cannot overflow
ROW_CEILING = 2**40


@dataclass(frozen=True, slots=True)
class Fill:
    """The rule that a missing cell counts as `value`."""

    value: int | float | str | bool | datetime.date | Fraction


# "drop", "keep" or Fill(value)
Missing = str | Fill


def _column_to_dict(column: Any) -> dict[str, Any]:
    """Return the declaration as plain, canonical data: the type, and the keys that declare it."""
    return {"type": type(column).__name__.lower()} | {f.name: _plain(getattr(column, f.name)) for f in fields(column)}


@dataclass(frozen=True, slots=True, init=False)
class Integer:
    """A column of whole numbers between two bounds, both included; cells outside are clipped to them.

    A column without bounds can be filtered on and clipped, but not summed. `missing`: "drop" (a missing cell takes no
    part), "keep" (as a key of its own in group-bys), or Fill(value).

    >>> Integer(0, 125).upper
    125
    """

    lower: int | None
    upper: int | None
    missing: Missing

    def __init__(
        self, lower: int | None = None, upper: int | None = None, *, missing: Missing | Mapping[str, Any] = "drop"
    ) -> None:
        low = _whole(lower, name="lower")
        high = _whole(upper, name="upper")
        _check_order(low, high)
        object.__setattr__(self, "lower", low)
        object.__setattr__(self, "upper", high)
        rule = _missing(missing)
        if isinstance(rule, Fill):
            rule = Fill(_check_within(_whole(rule.value, name="fill"), low, high))
        object.__setattr__(self, "missing", rule)

    to_dict = _column_to_dict


@dataclass(frozen=True, slots=True, init=False)
class Real:
    """A column of real numbers between two bounds, rounded to the nearest multiple of `resolution`.

    Without a resolution, a column with both bounds has as its `step` the finest power of ten that takes at most 10^12 steps to
    the larger bound. Declare the resolution where you know it: a coarser step makes quantiles less noisy. Cells outside the
    bounds are clipped to them, NaN is missing, infinities are clipped.

    >>> Real(0, 5000, resolution=0.01).step, Real(-1, 4).step
    (Fraction(1, 100), Fraction(1, 100000000000))
    """

    lower: Fraction | None
    upper: Fraction | None
    resolution: Fraction | None
    missing: Missing

    def __init__(
        self,
        lower: Number | None = None,
        upper: Number | None = None,
        *,
        resolution: Number | None = None,
        missing: Missing | Mapping[str, Any] = "drop",
    ) -> None:
        low = None if lower is None else to_fraction(lower, name="lower")
        high = None if upper is None else to_fraction(upper, name="upper")
        _check_order(low, high)
        step = None if resolution is None else to_fraction(resolution, name="resolution")
        if step is not None and step <= 0:
            raise DeclarationError("must be above 0 (the smallest difference that counts)", key="resolution")
        if step is not None and step < Fraction(1, 2**512):
            raise DeclarationError("must be at least 2^-512: a double cannot represent finer steps", key="resolution")
        if step is not None and step > 2**512:
            raise DeclarationError("must be at most 2^512", key="resolution")
        if step is not None and any(b is not None and abs(b) >= step * STORED for b in (low, high)):
            raise DeclarationError(
                "is too fine for these bounds: bound / resolution must stay below 2^62", key="resolution"
            )
        object.__setattr__(self, "lower", low)
        object.__setattr__(self, "upper", high)
        object.__setattr__(self, "resolution", step)
        rule = _missing(missing)
        if isinstance(rule, Fill):
            value = rule.value
            if isinstance(value, datetime.date):
                raise DeclarationError("must be a number", key="fill")
            rule = Fill(_check_within(to_fraction(value, name="fill"), low, high))
        object.__setattr__(self, "missing", rule)

    @property
    def step(self) -> Fraction | None:
        """The grid's step: the resolution; without one a power of ten by the bounds, None where one is missing too."""
        if self.resolution is not None or self.lower is None or self.upper is None:
            return self.resolution
        largest = max(abs(self.lower), abs(self.upper)) or Fraction(1)
        digits = len(str(math.ceil(largest))) if largest >= 1 else -len(str(math.floor(1 / largest)))
        step = Fraction(10) ** (digits - 13)
        while largest > _MOST_STEPS * step:
            step *= 10
        return step

    to_dict = _column_to_dict


@dataclass(frozen=True, slots=True, init=False)
class Category:
    """A column of known values, all text or all whole numbers, in the order in which they are shown.

    A cell with another value counts as `other`, where that is given (it becomes a value), else as missing.
    """

    values: tuple[str, ...] | tuple[int, ...]
    missing: Missing
    other: str | int | None

    def __init__(
        self,
        values: Sequence[str] | Sequence[int],
        *,
        missing: Missing | Mapping[str, Any] = "drop",
        other: str | int | None = None,
    ) -> None:
        if isinstance(values, str) or not isinstance(values, Sequence):
            raise DeclarationError("must be a list of the values that the column may take", key="values")
        allowed = tuple(values) if other is None or other in values else (*values, other)
        if not allowed:
            raise DeclarationError("must not be empty: list every value that the column may take", key="values")
        if not (all(isinstance(v, str) for v in allowed) or all(type(v) is int for v in allowed)):
            raise DeclarationError("must be all text or all whole numbers", key="values")
        if not is_unicode("".join(map(str, allowed))):
            raise DeclarationError("hold half of a character (a lone surrogate): write whole text", key="values")
        if any(type(v) is int and abs(v) > STORED for v in allowed):
            raise DeclarationError(
                "that are whole numbers must lie within -2^62 and 2^62; declare larger as text", key="values"
            )
        if len(set(allowed)) != len(allowed):
            twice = next(v for i, v in enumerate(allowed) if v in allowed[:i])
            raise DeclarationError(f"must not repeat: {twice!r} occurs twice", key="values")
        object.__setattr__(self, "values", allowed)
        object.__setattr__(self, "other", other)
        rule = _missing(missing)
        if isinstance(rule, Fill) and rule.value not in allowed:
            hint = nearest(str(rule.value), map(str, allowed))
            raise DeclarationError(f"must be one of the values, not {rule.value!r}; {hint}", key="fill")
        object.__setattr__(self, "missing", rule)

    to_dict = _column_to_dict


@dataclass(frozen=True, slots=True, init=False)
class Boolean:
    """A column of true and false."""

    missing: Missing

    def __init__(self, *, missing: Missing | Mapping[str, Any] = "drop") -> None:
        rule = _missing(missing)
        if isinstance(rule, Fill) and not isinstance(rule.value, bool):
            raise DeclarationError("must be true or false", key="fill")
        object.__setattr__(self, "missing", rule)

    to_dict = _column_to_dict


@dataclass(frozen=True, slots=True, init=False)
class Date:
    """A column of calendar days between two days, both included; cells outside are clipped to them."""

    lower: datetime.date
    upper: datetime.date
    missing: Missing

    def __init__(
        self, lower: datetime.date | str, upper: datetime.date | str, *, missing: Missing | Mapping[str, Any] = "drop"
    ) -> None:
        low = declared_day(lower, name="lower")
        high = declared_day(upper, name="upper")
        _check_order(low, high)
        object.__setattr__(self, "lower", low)
        object.__setattr__(self, "upper", high)
        rule = _missing(missing)
        if isinstance(rule, Fill):
            if not isinstance(rule.value, (str, datetime.date)):
                raise DeclarationError("must be a day, such as 2000-01-31", key="fill")
            rule = Fill(_check_within(declared_day(rule.value, name="fill"), low, high))
        object.__setattr__(self, "missing", rule)

    to_dict = _column_to_dict


@dataclass(frozen=True, slots=True, init=False)
class DateTime:
    """A column of moments between two, both included, rounded down to `resolution`; cells outside are clipped.

    `zone` is a name of the tz database. Cells and constants without an offset from UTC are times of its clock, and parts
    such as the hour are those of its clock. A day as upper bound includes all of that day. `resolution` is second, minute, hour,
    day, millisecond, or a number of seconds that divides a day.

    >>> DateTime("2020-01-01", "2020-12-31", zone="Europe/Berlin", resolution="minute").upper.isoformat()
    '2020-12-31T23:59:00+01:00'
    """

    lower: datetime.datetime
    upper: datetime.datetime
    zone: str
    resolution: Fraction
    missing: Missing

    def __init__(
        self,
        lower: datetime.date | str,
        upper: datetime.date | str,
        *,
        zone: str,
        resolution: str | Number = "second",
        missing: Missing | Mapping[str, Any] = "drop",
    ) -> None:
        if not isinstance(zone, str):
            raise DeclarationError('must be a name of the tz database, such as "UTC" or "Europe/Berlin"', key="zone")
        time_zone(zone)
        step = declared_step(resolution)
        low = declared_moment(lower, zone, name="lower")
        high = declared_moment(upper, zone, name="upper")
        # a day as upper bound ends with its last step
        if not isinstance(upper, datetime.datetime) and not isinstance(parse_moment(str(upper)), datetime.datetime):
            high = seconds_since(declared_day(upper, name="upper") + datetime.timedelta(days=1), zone) - step
        _check_order(low, high)
        ends = [local_time(end // step * step, zone) for end in (low, high)]
        _check_order(*ends)
        check_offsets(low, high, zone, step)
        object.__setattr__(self, "lower", ends[0])
        object.__setattr__(self, "upper", ends[1])
        object.__setattr__(self, "zone", zone)
        object.__setattr__(self, "resolution", step)
        rule = _missing(missing)
        if isinstance(rule, Fill):
            if not isinstance(rule.value, (str, datetime.date)):
                raise DeclarationError("must be a moment, such as 2000-01-31 10:30:00", key="fill")
            at = local_time(declared_moment(rule.value, zone, name="fill") // step * step, zone)
            rule = Fill(_check_within(at, *ends))
        object.__setattr__(self, "missing", rule)

    @property
    def steps(self) -> tuple[int, int]:
        """The bounds in whole steps of the resolution since 1970 in UTC."""
        low, high = (int(seconds_since(end, self.zone) / self.resolution) for end in (self.lower, self.upper))
        return low, high

    to_dict = _column_to_dict


@dataclass(frozen=True, slots=True)
class Identifier:
    """A column of text whose values are not public: for equality, as the privacy unit, or as private keys of a group-by."""

    to_dict = _column_to_dict


Column = Integer | Real | Category | Boolean | Date | DateTime | Identifier


@dataclass(frozen=True, slots=True, init=False)
class List:
    """A column of lists, whose items are read as the column `of`; only the first `max_items` of a row's list count.

    A question can only `unnest` it and read the items one by one: a list is no value, key or condition.

    >>> List(Category(["a", "b"]), max_items=5).to_dict()["max_items"]
    5
    """

    of: Category | Integer | Real | Boolean | Date
    max_items: int

    def __init__(self, of: Column, *, max_items: int) -> None:
        if not isinstance(of, (Category, Integer, Real, Boolean, Date)):
            raise DeclarationError("must be a Category, Integer, Real, Boolean or Date: what an item is", key="of")
        if isinstance(max_items, bool) or not isinstance(max_items, int) or not 1 <= max_items <= 10_000:
            raise DeclarationError("must be from 1 to 10,000: the most items of one row that count", key="max_items")
        object.__setattr__(self, "of", of)
        object.__setattr__(self, "max_items", max_items)

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration as plain, canonical data."""
        return {"type": "list", "of": self.of.to_dict(), "max_items": self.max_items}


COLUMN_TYPES: dict[str, type[Column]] = {kind.__name__.lower(): kind for kind in get_args(Column)}


def column_from_dict(data: Mapping[str, Any]) -> Column:
    """Return the column whose `to_dict` gave this data.

    >>> column_from_dict(Integer(0, 125).to_dict())
    Integer(lower=0, upper=125, missing='drop')
    """
    return COLUMN_TYPES[data["type"]](**{key: value for key, value in data.items() if key != "type"})


def keep_missing(column: Column) -> Column:
    """Return the column with its missing cells kept as a value, where the declaration would drop them.

    >>> keep_missing(Boolean()).to_dict()["missing"]
    'keep'
    """
    if isinstance(column, Identifier) or column.missing != "drop":
        return column
    return replace(column, missing="keep")


@dataclass(frozen=True, slots=True, init=False)
class Domain:
    """The declared columns of a table: only these can be used in questions.

    `row_ceiling` bounds the rows the table can ever have (public; used only to prove that exact sums cannot overflow).
    `unreadable_rows` says that a row of the source may be unreadable (CSV), so that the number of rows is private even when rows
    are replaced. `steps` are those of a question that made its rows: no part of a declaration.

    >>> Domain({"age": Integer(0, 125)})["age"].upper
    125
    """

    columns: Mapping[str, Column]
    row_ceiling: int
    unreadable_rows: bool
    steps: tuple[object, ...]
    # Columns of lists: separate, since only `unnest` can use them.
    lists: Mapping[str, List]
    # Every declared column, lists among them.
    stored: Mapping[str, Column | List] = field(compare=False)

    def __init__(
        self,
        columns: Mapping[str, Column | List],
        *,
        row_ceiling: int = ROW_CEILING,
        unreadable_rows: bool = False,
        steps: tuple[object, ...] = (),
    ) -> None:
        if not isinstance(columns, Mapping) or not columns:
            raise DeclarationError('a domain needs at least one column, such as {"age": Integer(0, 125)}')
        folded: dict[str, str] = {}
        for name, column in columns.items():
            if not isinstance(name, str) or not name or "\x00" in name:
                raise DeclarationError("a column's name must be text that is not empty")
            if not isinstance(column, Column | List):
                raise DeclarationError(
                    f"column {name!r}: use one of Integer, Real, Category, Boolean, Date, DateTime, Identifier, List"
                )
            if name.lower() in folded:
                raise DeclarationError(f"columns {folded[name.lower()]!r} and {name!r} differ only in case")
            folded[name.lower()] = name
        if isinstance(row_ceiling, bool) or not isinstance(row_ceiling, int) or not 1 <= row_ceiling <= 2**48:
            raise DeclarationError("must be a whole number from 1 to 2^48", key="row_ceiling")
        lists = {name: column for name, column in columns.items() if isinstance(column, List)}
        plain = {name: column for name, column in columns.items() if not isinstance(column, List)}
        object.__setattr__(self, "columns", MappingProxyType(plain))
        object.__setattr__(self, "lists", MappingProxyType(lists))
        object.__setattr__(self, "stored", MappingProxyType({**plain, **lists}))
        object.__setattr__(self, "row_ceiling", row_ceiling)
        object.__setattr__(self, "unreadable_rows", unreadable_rows)
        object.__setattr__(self, "steps", steps)

    def __getitem__(self, name: str) -> Column:
        if name in self.lists:
            raise QuestionRefused(refused_list(name))
        if name not in self.columns:
            hint = nearest(name, self.columns) + hint_quotes(name, self.columns)
            raise UnknownName(f"column {name!r} is not declared, so it cannot be asked about; {hint}")
        return self.columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def __repr__(self) -> str:
        return f"Domain({dict(self.stored)!r})"

    def __str__(self) -> str:
        return align_cells(COLUMN_HEAD, column_cells({n: c.to_dict() for n, c in self.stored.items()}))

    def _repr_html_(self) -> str:
        return html_table(
            "declared columns", COLUMN_HEAD, column_cells({n: c.to_dict() for n, c in self.stored.items()})
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration as plain, canonical data, the same for the same declaration."""
        return {
            "columns": {n: self.stored[n].to_dict() for n in sorted(self.stored)},
            "row_ceiling": self.row_ceiling,
        }


def refused_list(name: str) -> str:
    """Return the refusal of a column of lists used as a value, with the nearest thing that works."""
    return f"column {name!r} holds lists: ask about its items, with .unnest({name!r}) or UNNEST({name}) in SQL"


def _whole(value: object, *, name: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, datetime.date) or not isinstance(value, Number):
        raise DeclarationError("must be a whole number", key=name)
    number = to_fraction(value, name=name)
    if number.denominator != 1:
        raise DeclarationError(
            f"of an integer column must be whole, not {format_number(number)}; use Real for others", key=name
        )
    if abs(number) > STORED:
        raise DeclarationError("must lie within -2^62 and 2^62", key=name)
    return int(number)


def _check_order(lower: Any, upper: Any) -> None:
    if lower is not None and upper is not None and lower > upper:
        raise DeclarationError(f"must not be above upper, not {lower} and {upper}; swap them", key="lower")


def _check_within(value: Any, lower: Any, upper: Any) -> Any:
    if value is None or (lower is not None and value < lower) or (upper is not None and value > upper):
        raise DeclarationError(f"must lie within the bounds {lower} and {upper}, not {value}", key="fill")
    return value


def _missing(rule: object) -> Missing:
    if isinstance(rule, Fill):
        return rule
    if isinstance(rule, Mapping) and set(rule) == {"fill"}:
        return Fill(rule["fill"])
    if rule in ("drop", "keep"):
        return str(rule)
    raise DeclarationError(f'must be "drop", "keep" or {{fill = value}}, not {rule!r}', key="missing")


def _plain(value: Any) -> Any:
    if isinstance(value, Fill):
        return {"fill": _plain(value.value)}
    if isinstance(value, Fraction):
        return format_number(value)
    if isinstance(value, tuple):
        return list(value)
    return value.isoformat() if isinstance(value, datetime.date) else value
