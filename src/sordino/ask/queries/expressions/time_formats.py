"""Dates and moments as text: a format such as %Y-%m makes declared values, one for each part that a row may fall in."""

from __future__ import annotations

import datetime
import re
from fractions import Fraction

from sordino.ask.queries.expressions.bound_number import BoundNumber
from sordino.ask.queries.expressions.declared_values import DeclaredValues
from sordino.ask.queries.expressions.sql_trees import plus
from sordino.ask.queries.expressions.times import TIMES, part_of_time, truncate_time
from sordino.core.errors import QuestionRefused

_MOST = 100_000
_CODE = re.compile("%[-]?.")
_UNITS = (  # the codes that a format may have, and the truncation of which each text is one value
    ("Y", "year"),
    ("YmbB", "month"),
    ("GV", "week"),
    ("YmbBdejFaAuwGV", "day"),
    ("YmbBdejFaAuwGVH", "hour"),
    ("YmbBdejFaAuwGVHMR", "minute"),
    ("YmbBdejFaAuwGVHMRST", "second"),
)
_PARTS = {"m": "month", "b": "month", "B": "month", "d": "day", "j": "doy", "a": "dow", "A": "dow", "w": "dow"} | {
    "u": "isodow",
    "H": "hour",
    "M": "minute",
    "S": "second",
    "V": "week",
}
_SAMPLES = {  # a moment of which a part has this value
    "month": lambda n: datetime.datetime(2000, n, 1),
    "day": lambda n: datetime.datetime(2000, 1, n),
    "doy": lambda n: datetime.datetime(2000, 1, 1) + datetime.timedelta(days=n - 1),
    "dow": lambda n: datetime.datetime(2000, 1, 2) + datetime.timedelta(days=n),
    "isodow": lambda n: datetime.datetime(2000, 1, 2) + datetime.timedelta(days=n),
    "hour": lambda n: datetime.datetime(2000, 1, 1, n),
    "minute": lambda n: datetime.datetime(2000, 1, 1, 0, n),
    "second": lambda n: datetime.datetime(2000, 1, 1, 0, 0, n),
    "week": lambda n: datetime.datetime.fromisocalendar(2004, n, 1),
}


def format_time(form: str, of: BoundNumber) -> DeclaredValues:
    """Return the texts that a format makes of what a row may hold; raises QuestionRefused for an unknown format."""
    if of.kind not in TIMES:
        raise QuestionRefused("only dates and datetimes are formatted")
    codes = {c[-1] for c in _CODE.findall(form) if c[-1] != "%"}
    parts = {_PARTS.get(c) for c in codes}
    if len(parts) == 1 and None not in parts:
        return _of_part(form, parts.pop() or "", of)
    unit = next((unit for known, unit in _UNITS if codes and codes <= set(known) and codes & set("YGF")), None)
    if unit is None:
        raise QuestionRefused(
            f"the format {form[:40]!r} is not supported: use %Y, %m, %d, %H, %M, %S, %b, %B, %a, %A, %j, %G-%V"
        )
    found = truncate_time("day" if unit == "week day" else unit, 1, of)
    low, high = int(found.index.interval.lower or 0), int(found.index.interval.upper or 0)
    if high - low >= _MOST:
        raise QuestionRefused(
            f"the format {form[:40]!r} has {high - low + 1} values here, above {_MOST}: truncate further"
        )
    texts = tuple(_write(form, found.label(i)) for i in range(low, high + 1))
    return DeclaredValues(texts, lambda on: plus(found.index.build(on), -low))


def _of_part(form: str, part: str, of: BoundNumber) -> DeclaredValues:
    found = part_of_time(part, of)
    low, high = int(found.interval.lower or 0), int(found.interval.upper or Fraction(0))
    texts = tuple(_write(form, _SAMPLES[part](n)) for n in range(low, high + 1))
    return DeclaredValues(texts, lambda on: plus(found.build(on), -low))


def _write(form: str, moment: datetime.date) -> str:
    """Return a moment as text; a year has four digits, and names are English whatever the machine's language."""
    names = {
        "%Y": f"{moment.year:04d}",
        "%G": f"{moment.isocalendar().year:04d}",
        "%F": f"{moment.year:04d}-{moment.month:02d}-{moment.day:02d}",
        "%B": _MONTHS[moment.month - 1],
        "%b": _MONTHS[moment.month - 1][:3],
        "%A": _DAYS[moment.weekday()],
        "%a": _DAYS[moment.weekday()][:3],
    }
    return _CODE.sub(lambda code: names.get(code.group()) or moment.strftime(code.group()), form)


_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
