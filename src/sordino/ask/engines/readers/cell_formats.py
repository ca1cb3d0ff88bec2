"""How the cells of a column of text are written - numbers, amounts, percent, days, moments, truths - and what reads them.

A format is a pattern that all cells of a column must match, and the SQL that turns them into values. It is for the
curator, who imports a file and may see it: NOT PRIVATE.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from sordino.core.cell_grammar import FALSE, TRUE
from sordino.core.errors import DeclarationError, instead_of

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
_AFFIX = f"(?:{'|'.join(_CURRENCIES)})"
# Spaces that stand between thousands: a plain one, one that does not break, a narrow one.
_SPACES = "[ \u00a0\u202f]"
# Marks of thousands, as they are stated and in a pattern.
_THOUSANDS = {"": "", ",": ",", ".": "[.]", "'": "['\u2019]", " ": _SPACES}
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

    `true` and `false` are compared without regard to case; empty ones are the words that Sordino reads everywhere.
    """

    kind: Kind
    decimal: str = "."
    thousands: str = ""
    date: str = ""
    true: tuple[str, ...] = ()
    false: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise DeclarationError(f"{self.kind!r} is no type of cells: use {', '.join(KINDS)}")
        if self.decimal not in _DECIMALS:
            raise DeclarationError(f"a decimal mark is . or a comma: {instead_of(self.decimal)}")
        if self.thousands not in _THOUSANDS or self.thousands == self.decimal:
            raise DeclarationError(
                f"thousands are marked by a point, a comma, a space or an apostrophe that is not the decimal mark: "
                f"{instead_of(self.thousands)}"
            )
        if self.kind in ("date", "moment"):
            _date_pattern(self.date)

    @property
    def pattern(self) -> str:
        """The pattern that every cell must match, in the words of RE2."""
        number = _number_pattern(self.decimal, self.thousands, self.kind)
        if self.kind in ("integer", "real"):
            return f"[+-]?{number}"
        if self.kind == "percent":
            return f"[+-]?{number}{_SPACES}?%"
        if self.kind == "amount":
            return f"[+-]?(?:{_AFFIX}{_SPACES}?[+-]?{number}|{number}{_SPACES}?{_AFFIX})"
        if self.kind in ("date", "moment"):
            return _date_pattern(self.date)
        if self.kind == "boolean":
            return f"(?i)(?:{'|'.join(re.escape(word) for word in (*self._true, *self._false))})"
        return "(?s).*"

    @property
    def _true(self) -> tuple[str, ...]:
        return self.true or TRUE

    @property
    def _false(self) -> tuple[str, ...]:
        return self.false or FALSE

    @property
    def stored(self) -> str:
        """The type that the values have in Parquet, in DuckDB's word."""
        if self.date == "iso zoned":
            return "TIMESTAMPTZ"
        return _STORED[self.kind]

    def value(self, cell: str) -> str:
        """Return the SQL that reads a cell, the SQL of a text that matches the pattern; NULL where the value does not exist."""
        if self.kind == "text":
            return cell
        if self.kind == "boolean":
            words = ", ".join(quote_literal(word.lower()) for word in self._true)
            return f"CASE WHEN {cell} IS NULL THEN NULL ELSE lower({cell}) IN ({words}) END"
        if self.date in ISO_FORMATS:
            return f"TRY_CAST({cell} AS {self.stored})"
        if self.kind in ("date", "moment"):
            return f"CAST(try_strptime({cell}, {quote_literal(self.date)}) AS {self.stored})"
        kept = f"regexp_replace({cell}, {quote_literal(f'{_AFFIX}|%|{_SPACES}')}, '', 'g')"
        if self.thousands and self.thousands != " ":
            kept = f"regexp_replace({kept}, {quote_literal(_THOUSANDS[self.thousands])}, '', 'g')"
        if self.decimal == ",":
            kept = f"replace({kept}, ',', '.')"
        if self.kind == "integer":
            return f"TRY_CAST(split_part({kept}, '.', 1) AS BIGINT)"
        number = f"TRY_CAST({kept} AS DOUBLE)"
        # 60% is .6, as spreadsheets hold it; the division is by a power of ten, so it is the nearest double
        return f"{number} / 100" if self.kind == "percent" else number

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


def quote_literal(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def quote_name(name: str) -> str:
    """Return a name as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def _number_pattern(decimal: str, thousands: str, kind: Kind) -> str:
    whole = kind == "integer"
    # a number with a leading zero is a code, and stays text
    plain = "(?:0|[1-9][0-9]{0,17})" if whole else "(?:0|[1-9][0-9]{0,400})"
    digits = f"(?:{plain}|[1-9][0-9]{{0,2}}(?:{_THOUSANDS[thousands]}[0-9]{{3}}){{1,5}})" if thousands else plain
    point = _DECIMALS[decimal]
    if whole:
        return f"{digits}(?:{point}0{{0,400}})?"
    if kind == "amount":
        # no currency has three decimals here: in $4,000 the comma marks thousands
        return f"{digits}(?:{point}(?:[0-9]{{0,2}}|[0-9]{{4,400}}))?"
    exponent = "(?:[eE][+-]?[0-9]{1,4})?" if decimal == "." and not thousands else ""
    return f"(?:{digits}(?:{point}[0-9]{{0,400}})?|{point}[0-9]{{1,400}}){exponent}"


def _date_pattern(date: str) -> str:
    """Return the pattern of a format of days; raises DeclarationError for a field that is not read."""
    if date in ISO_FORMATS:
        return ISO_FORMATS[date]
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
        raise DeclarationError(f"a date is written with fields, such as %d.%m.%Y: {instead_of(date)}")
    return pattern
