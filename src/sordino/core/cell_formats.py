"""How cells of text are written: numbers with their marks, amounts, percent, days, moments, truths.

A format is a pattern that a cell must match. `sordino import` finds the one that all cells of a column have; a project
file states it beside the source, and then each cell is read by itself. `readers/cell_formats.py` has the SQL of both.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from sordino.core.cell_grammar import FALSE, TRUE
from sordino.core.domain import Boolean, Date, DateTime, Integer, Real
from sordino.core.errors import DeclarationError

Kind = Literal["integer", "real", "percent", "amount", "date", "moment", "boolean", "text"]
NUMBERS: tuple[Kind, ...] = ("integer", "real", "percent", "amount")
KINDS: tuple[Kind, ...] = (*NUMBERS, "date", "moment", "boolean", "text")

# The signs and codes that may stand before or after an amount.
_CURRENCIES = (
    "€",
    "[$]",
    "£",
    "¥",
    "₹",
    "EUR",
    "USD",
    "GBP",
    "CHF",
    "JPY",
    "SEK",
    "NOK",
    "DKK",
    "PLN",
    "CZK",
    "kr[.]?",
)
AFFIX = f"(?:{'|'.join(_CURRENCIES)})"
# Spaces that stand between thousands: a plain one, one that does not break, a narrow one.
SPACES = "[ \u00a0\u202f]"
# Marks of thousands, as they are stated and in a pattern.
THOUSANDS = {"": "", ",": ",", ".": "[.]", "'": "['\u2019]", " ": SPACES}
_DECIMALS = {".": "[.]", ",": ","}
# Styles of numbers in the order in which they are tried: (the decimal mark, the mark of thousands).
_STYLES = ((".", ""), (",", ""), (".", ","), (",", "."), (",", " "), (".", "'"), (".", " "))
# Dates and moments in the order in which they are tried.
DAY_FORMATS = (
    *("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y"),
    *("%d-%m-%Y", "%m-%d-%Y", "%d.%m.%y", "%d %b %Y", "%d-%b-%Y"),
)
# Moments as ISO 8601 has them, which DuckDB reads by itself: without a zone, and with one in every cell.
_ISO_MOMENT = "[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.][0-9]{1,9})?)?"
ISO_FORMATS = {"iso": _ISO_MOMENT, "iso zoned": _ISO_MOMENT + " ?(?:Z|UTC|[+-][0-9]{2}(?::?[0-9]{2})?)"}
_CLOCKS = (" %H:%M:%S", " %H:%M", "T%H:%M:%S", "T%H:%M")
_FIELDS = {
    **{"%Y": "[0-9]{4}", "%y": "[0-9]{2}", "%m": "[0-9]{1,2}", "%d": "[0-9]{1,2}", "%j": "[0-9]{1,3}"},
    **{"%b": "[A-Za-z]{3}", "%B": "[A-Za-z]+", "%H": "[0-9]{1,2}", "%I": "[0-9]{1,2}", "%p": "[AaPp][Mm]"},
    **{"%M": "[0-9]{2}", "%S": "[0-9]{2}", "%f": "[0-9]{1,6}"},
}
_STORED = {
    "integer": "BIGINT",
    "real": "DOUBLE",
    "percent": "DOUBLE",
    "amount": "DOUBLE",
    "date": "DATE",
    "moment": "TIMESTAMP",
    "boolean": "BOOLEAN",
    "text": "VARCHAR",
}


@dataclass(frozen=True, slots=True)
class CellFormat:
    """How all cells of a column are written: the kind of value, the marks of numbers, the format of days, the words of truths.

    `true` and `false` are compared without regard to case; empty ones are the words that Sordino reads everywhere. A
    number may have leading zeros where its column is declared as one (`zeros`); where that is a guess, it is a code.
    """

    kind: Kind
    decimal: str = "."
    thousands: str = ""
    date: str = ""
    true: tuple[str, ...] = ()
    false: tuple[str, ...] = ()
    zeros: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise DeclarationError(f"{self.kind!r} is no type of cells: use {', '.join(KINDS)}")
        if self.decimal not in _DECIMALS:
            raise DeclarationError(f"a decimal mark is . or a comma, not {self.decimal!r}")
        if self.thousands not in THOUSANDS or self.thousands == self.decimal:
            raise DeclarationError(
                f"thousands are marked by a point, a comma, a space or an apostrophe that is not the decimal mark "
                f"{self.decimal!r}, not by {self.thousands!r}"
            )
        if self.kind in ("date", "moment"):
            _date_pattern(self.date)

    @property
    def pattern(self) -> str:
        """The pattern that every cell must match, in the words of RE2."""
        number = _number_pattern(self)
        if self.kind in ("integer", "real"):
            return _negated(f"[+-]?{number}", number)
        if self.kind == "percent":
            return f"[+-]?{number}{SPACES}?%"
        if self.kind == "amount":
            amount = f"(?:{AFFIX}{SPACES}?{number}|{number}{SPACES}?{AFFIX})"
            return _negated(f"[+-]?(?:{AFFIX}{SPACES}?[+-]?{number}|{number}{SPACES}?{AFFIX})", amount)
        if self.kind in ("date", "moment"):
            return _date_pattern(self.date)
        if self.kind == "boolean":
            return f"(?i)(?:{'|'.join(re.escape(word) for word in (*self.true_words, *self.false_words))})"
        return "(?s).*"

    def has(self, cell: str) -> bool:
        """Return whether a cell is written in the format, trimmed and not empty; its value may still not exist.

        >>> CellFormat("percent", decimal=",").has("12,5 %"), CellFormat("date", date="%d.%m.%Y").has("x")
        (True, False)
        """
        return _compile_pattern(self).fullmatch(cell) is not None

    @property
    def true_words(self) -> tuple[str, ...]:
        """The words that mean true."""
        return self.true or TRUE

    @property
    def false_words(self) -> tuple[str, ...]:
        """The words that mean false."""
        return self.false or FALSE

    @property
    def stored(self) -> str:
        """The type that the values have in Parquet, in DuckDB's word."""
        if self.date == "iso zoned":
            return "TIMESTAMPTZ"
        return _STORED[self.kind]

    def describe(self) -> str:
        """Return the format in words.

        >>> CellFormat("real", decimal=",", thousands=".").describe()
        'real, decimal comma, thousands by .'
        >>> CellFormat("date", date="%d.%m.%Y").describe()
        'date as %d.%m.%Y'
        """
        words: str = self.kind
        if self.kind in ("date", "moment"):
            return f"{words} as {self.date}"
        if self.kind == "boolean" and self.true:
            return f"boolean, true {'/'.join(self.true)}, false {'/'.join(self.false)}"
        if self.kind in ("real", "percent", "amount") and self.decimal == ",":
            words += ", decimal comma"
        if self.kind != "text" and self.thousands:
            words += f", thousands by {'a space' if self.thousands == ' ' else self.thousands}"
        return words


# What may be stated of the cells of a column of each type.
_STATED = {
    Integer: ("decimal", "thousands", "type"),
    Real: ("decimal", "thousands", "type"),
    Date: ("date",),
    DateTime: ("date",),
    Boolean: ("true", "false"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvCells:
    """How the cells of a CSV file are written, as it is declared: of one column, or of all of a type.

    `type` is amount (cells may have a currency) or percent (60% is 0.6); `date` holds formats such as %d.%m.%Y, of which the
    first that a cell has reads it; `true` and `false` are words. `null_values` mean missing. Raises DeclarationError, with the
    key at fault, for what no cell is written as.
    """

    type: str = ""
    decimal: str = ""
    thousands: str = ""
    date: tuple[str, ...] = ()
    true: tuple[str, ...] = ()
    false: tuple[str, ...] = ()
    null_values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("date", "true", "false", "null_values"):
            stated = getattr(self, name)
            object.__setattr__(self, name, (stated,) if isinstance(stated, str) else tuple(stated))
        if self.type not in ("", "amount", "percent"):
            raise DeclarationError(
                f"must be amount or percent, not {self.type!r}: other types are declared in columns", key="type"
            )
        if bool(self.true) != bool(self.false):
            raise DeclarationError("and false are stated together: the words that mean either", key="true")
        for key, rules in (("decimal", self.numbers), ("date", self.days)):
            try:
                _ = [form.pattern for form in rules()]
            except DeclarationError as error:
                misplaced = key == "decimal" and self.decimal in ("", *_DECIMALS)
                raise DeclarationError(str(error), key="thousands" if misplaced else key) from None

    def over(self, other: CsvCells) -> CsvCells:
        """Return what is stated here and, where nothing is, what `other` states; either's `null_values` mean missing."""
        merged = {each.name: getattr(self, each.name) or getattr(other, each.name) for each in fields(self)}
        # a mark that is stated here means nothing else here
        if merged["decimal"] == merged["thousands"]:
            merged["thousands" if self.decimal else "decimal"] = ""
        return CsvCells(**{**merged, "null_values": (*self.null_values, *other.null_values)})

    def numbers(self, column: object = Real) -> list[CellFormat]:
        """Return the formats of numbers; none where they are written as everywhere."""
        if not (self.type or self.decimal or self.thousands):
            return []
        plain: Kind = "integer" if column is Integer and not self.type else "real"
        kinds: list[Kind] = ["percent"] if self.type == "percent" else [plain]
        if self.type == "amount":
            kinds.insert(0, "amount")
        return [CellFormat(kind, self.decimal or ".", self.thousands, zeros=True) for kind in kinds]

    def days(self) -> list[CellFormat]:
        """Return the stated formats of days and moments."""
        return [form for stated in self.date for form in day_formats(stated)]

    def formats(self, column: object) -> list[CellFormat]:
        """Return the formats in which cells of a declared column are read before all others; none where it is as everywhere."""
        if isinstance(column, (Integer, Real)):
            return self.numbers(type(column))
        if isinstance(column, (Date, DateTime)):
            return self.days()
        return (
            [CellFormat("boolean", true=self.true, false=self.false)]
            if isinstance(column, Boolean) and self.true
            else []
        )

    def check_column(self, column: object) -> None:
        """Raise DeclarationError where something is stated that says nothing of a column of this type."""
        for name in ("type", "decimal", "thousands", "date", "true", "false"):
            if getattr(self, name) and name not in _STATED.get(type(column), ()):
                kind = type(column).__name__.lower()
                raise DeclarationError(f"says nothing of a column that is declared as {kind}: leave it out", key=name)

    def to_dict(self) -> dict[str, Any]:
        """Return what is stated as plain, canonical data."""
        plain = CsvCells()
        stated = {each.name: getattr(self, each.name) for each in fields(self)}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in stated.items()
            if value != getattr(plain, name)
        }


@functools.lru_cache(maxsize=1000)
def _compile_pattern(form: CellFormat) -> re.Pattern[str]:
    return re.compile(form.pattern)


def number_formats(decimal: str | None, thousands: str | None) -> Iterator[CellFormat]:
    """Yield the formats of numbers that the stated marks leave, the plain ones first; None for a mark that is not stated."""
    styles = [
        (point, mark)
        for point, mark in _STYLES
        if decimal in (None, point) and (thousands is None or (mark in ("", thousands) and point != thousands))
    ]
    if decimal is not None and (decimal, thousands or "") not in styles:
        # of marks that no usual style has, a format says what is wrong with them
        styles.append((decimal, thousands or ""))
    for point, mark in styles:
        for kind in NUMBERS:
            yield CellFormat(kind, point, mark)


def day_formats(stated: str | None) -> Iterator[CellFormat]:
    """Yield the formats of days and moments: the stated one alone, or all that are tried."""
    if stated is not None:
        has_clock = stated in ISO_FORMATS or "%H" in stated or "%I" in stated
        yield CellFormat("moment" if has_clock else "date", date=stated)
        return
    for date in DAY_FORMATS:
        yield CellFormat("date", date=date)
    for date in ISO_FORMATS:
        yield CellFormat("moment", date=date)
    for date in DAY_FORMATS[1:5]:
        for clock in _CLOCKS:
            yield CellFormat("moment", date=date + clock)


def truth_formats(true: Sequence[str], false: Sequence[str]) -> Iterator[CellFormat]:
    """Yield the stated words of truths, and the usual ones."""
    if true and false:
        yield CellFormat("boolean", true=tuple(true), false=tuple(false))
    yield CellFormat("boolean")


def conflicting(first: CellFormat, other: CellFormat) -> bool:
    """Return whether two formats read the same cells as other values, where nothing in the cells says which is meant.

    Days before months or after them; a comma that marks decimals or thousands. A point is taken for a decimal point.
    """
    if first.kind in ("date", "moment") and other.kind == first.kind:
        orders = {
            ("%d" + mark + "%m" in date, "%m" + mark + "%d" in date)
            for mark in "/-"
            for date in (first.date, other.date)
        }
        return {(True, False), (False, True)} <= orders
    return (
        first.kind in NUMBERS
        and other.kind in NUMBERS
        and {first.decimal, other.decimal} == {".", ","}
        and "," in (first.thousands, other.thousands)
    )


def _negated(signed: str, plain: str) -> str:
    """Return the pattern of a number with its sign, or as bookkeepers write what is below 0: 12- and (12)."""
    return f"(?:{signed}|{plain}-|[(]{plain}[)])"


def _number_pattern(form: CellFormat) -> str:
    whole = form.kind == "integer"
    most = 18 if whole else 401
    # a number with a leading zero is a code, and stays text, unless its column is declared to hold numbers
    plain = f"[0-9]{{1,{most}}}" if form.zeros else f"(?:0|[1-9][0-9]{{0,{most - 1}}})"
    digits = plain
    if form.thousands:
        digits = f"(?:{plain}|[1-9][0-9]{{0,2}}(?:{THOUSANDS[form.thousands]}[0-9]{{3}}){{1,5}})"
    point = _DECIMALS[form.decimal]
    if whole:
        return f"{digits}(?:{point}0{{0,400}})?"
    if form.kind == "amount":
        # no currency has three decimals here: in $4,000 the comma marks thousands
        return f"{digits}(?:{point}(?:[0-9]{{0,2}}|[0-9]{{4,400}}))?"
    exponent = "(?:[eE][+-]?[0-9]{1,4})?" if form.decimal == "." and not form.thousands else ""
    return f"(?:{digits}(?:{point}[0-9]{{0,400}})?|{point}[0-9]{{1,400}}){exponent}"


def _date_pattern(date: str) -> str:
    """Return the pattern of a format of days, or of several; raises DeclarationError for a field that is not read."""
    if date in ISO_FORMATS:
        return ISO_FORMATS[date]
    if "|" in date:
        return f"(?:{'|'.join(_date_pattern(one) for one in date.split('|'))})"
    pattern = ""
    place = 0
    fields = 0
    while place < len(date):
        field = date[place : place + 2]
        if field.startswith("%"):
            if field not in _FIELDS:
                raise DeclarationError(f"{field!r} is no field of a date; those are {', '.join(_FIELDS)}")
            pattern += _FIELDS[field]
            fields += 1
            place += 2
        else:
            pattern += re.escape(date[place])
            place += 1
    if fields == 0:
        raise DeclarationError(f"a date is written with fields, such as %d.%m.%Y, not as {date!r}")
    return pattern
