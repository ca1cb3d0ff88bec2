"""A question built without SQL: measure, filters, groups become the text of one SELECT. It sees declared columns only."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Any

from sordino.core.errors import DeclarationError
from sordino.core.loss import to_fraction

MEASURES: Mapping[str, tuple[str, str, tuple[str, ...]]] = {  # the words of each, its SQL, the types of column it takes
    "count": ("how many rows", "COUNT(*)", ()),
    "mean": ("the mean of", "AVG({})", ("integer", "real")),
    "sum": ("the sum of", "SUM({})", ("integer", "real")),
    "median": ("the median of", "MEDIAN({})", ("integer", "real")),
    "deviation": ("the standard deviation of", "STDDEV_SAMP({})", ("integer", "real")),
    "variance": ("the variance of", "VAR_SAMP({})", ("integer", "real")),
    "different": ("how many different values of", "COUNT(DISTINCT {})", ("integer", "category", "boolean", "date")),
}
FILTERS = 3
_OPERATORS = {"is": "=", "is not": "<>", "at least": ">=", "at most": "<=", "above": ">", "below": "<"}
_EQUALITY = ("is", "is not")


def filter_operators() -> tuple[str, ...]:
    """Return the words that a filter compares by."""
    return tuple(_OPERATORS)


def build_select(table: Mapping[str, Any], form: Mapping[str, str]) -> str:
    """Return the SELECT that the fields of a form state, about a table as the service lists it; raises DeclarationError.

    >>> people = {"name": "people", "columns": {"age": {"type": "integer"}, "sex": {"type": "category", "values": ["f"]}}}
    >>> fields = {"measure": "mean", "of": "age", "group:sex": "on", "column:1": "sex", "operator:1": "is", "value:1": "f"}
    >>> build_select(people, fields)
    "SELECT sex, AVG(age) AS mean FROM people WHERE sex = 'f' GROUP BY sex"
    """
    columns: Mapping[str, Mapping[str, Any]] = table["columns"]
    measure = form.get("measure", "count")
    if measure not in MEASURES:
        raise DeclarationError("must be one of the measures in the list", key="measure")
    _, template, types = MEASURES[measure]
    if types:
        of = _column(columns, form.get("of", ""), key="of")
        if columns[of]["type"] not in types:
            raise DeclarationError(f"takes a column of type {', '.join(types)}; choose another one", key=measure)
        template = template.format(_name(of))
    groups = [_name(column) for column in columns if form.get(f"group:{column}")]
    where = [_filter(columns, form, place) for place in range(1, FILTERS + 1) if form.get(f"column:{place}")]
    parts = [f"SELECT {', '.join([*groups, f'{template} AS {_name(measure)}'])} FROM {_name(table['name'])}"]
    parts += [f"WHERE {' AND '.join(where)}"] if where else []
    parts += [f"GROUP BY {', '.join(groups)}"] if groups else []
    return " ".join(parts)


def _column(columns: Mapping[str, Any], name: str, *, key: str) -> str:
    if name not in columns:
        raise DeclarationError("must be a declared column: choose one from the list", key=key)
    return name


def _name(name: str) -> str:
    """Return a name as SQL writes it, quoted where it is not plain."""
    plain = name.isascii() and name.replace("_", "a").isalnum() and name[0].isalpha() and name.islower()
    return name if plain and _RESERVED.fullmatch(name) is None else '"' + name.replace('"', '""') + '"'


_RESERVED = re.compile(
    "all|and|as|asc|between|by|case|cast|count|create|cross|current|date|desc|distinct|else|end|exists|false|first|from|full|"
    "group|having|in|index|inner|interval|into|is|join|key|last|left|like|limit|not|null|offset|on|or|order|outer|primary|"
    "range|references|right|row|rows|schema|select|set|some|sum|table|then|time|timestamp|to|true|union|unique|update|user|"
    "using|values|view|when|where|with"
)


def _filter(columns: Mapping[str, Mapping[str, Any]], form: Mapping[str, str], place: int) -> str:
    name = _column(columns, form[f"column:{place}"], key=f"filter {place}")
    operator = form.get(f"operator:{place}", "is")
    kind = columns[name]["type"]
    if operator not in _OPERATORS or (operator not in _EQUALITY and kind in ("category", "boolean", "identifier")):
        raise DeclarationError(f"compares {name} by is or is not", key=f"filter {place}")
    return (
        f"{_name(name)} {_OPERATORS[operator]} {_literal(kind, columns[name], form.get(f'value:{place}', ''), place)}"
    )


def _literal(kind: str, column: Mapping[str, Any], text: str, place: int) -> str:
    key = f"filter {place}"
    if kind in ("integer", "real") or (kind == "category" and _is_number(column)):
        return str(_decimal(text, key=key))
    if kind == "boolean":
        if text.lower() not in ("true", "false"):
            raise DeclarationError("is true or false", key=key)
        return text.upper()
    if kind == "date":
        try:
            return f"DATE '{datetime.date.fromisoformat(text)}'"
        except ValueError:
            raise DeclarationError("is a day, such as 2024-05-31", key=key) from None
    return "'" + text.replace("'", "''") + "'"


def _is_number(column: Mapping[str, Any]) -> bool:
    return all(isinstance(value, int) for value in column.get("values", ()))


def _decimal(text: str, *, key: str) -> str:
    """Return a number as SQL writes it; the text of a form is read whole, so nothing else gets in."""
    number = to_fraction(text, name=key)
    if number.denominator == 1:
        return str(number.numerator)
    plain = text.strip()
    if not plain.replace(".", "", 1).lstrip("-").isdigit():
        raise DeclarationError("is a number, such as 12.5", key=key)
    return plain
