"""A question built without SQL: measures, conditions and groups become the text of one SELECT. It sees declared columns only."""

from __future__ import annotations

import csv
import datetime
import re
from collections.abc import Iterator, Mapping
from typing import Any

from sordino.core.errors import DeclarationError
from sordino.core.loss import to_fraction

Columns = Mapping[str, Mapping[str, Any]]
_NUMBERS = ("integer", "real")
# The words of each measure, its SQL, and the types of column it takes.
MEASURES: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "count": ("how many rows", "COUNT(*)", ()),
    "mean": ("the mean of", "AVG({})", _NUMBERS),
    "sum": ("the sum of", "SUM({})", _NUMBERS),
    "median": ("the median of", "MEDIAN({})", _NUMBERS),
    "quantile": ("a quantile of", "QUANTILE_CONT({}, {})", _NUMBERS),
    "deviation": ("the standard deviation of", "STDDEV_SAMP({})", _NUMBERS),
    "variance": ("the variance of", "VAR_SAMP({})", _NUMBERS),
    "different": ("how many different values of", "COUNT(DISTINCT {})", ("integer", "category", "boolean", "date")),
}
# How many measures and conditions the form has room for; SQL has no such limit.
MEASURES_AT_ONCE = 3
CONDITIONS = 4
_OPERATORS = {
    "is": "=",
    "is not": "<>",
    "is one of": "IN",
    "at least": ">=",
    "at most": "<=",
    "above": ">",
    "below": "<",
}
_EQUALITY = ("is", "is not", "is one of")
# A ready question has a row for each value of a column with so many at most.
_FEW_VALUES = 20


def filter_operators() -> tuple[str, ...]:
    """Return the words that a condition compares by."""
    return tuple(_OPERATORS)


def build_select(table: Mapping[str, Any], form: Mapping[str, str]) -> str:
    """Return the SELECT that the fields of a form state, about a table as the service lists it; raises DeclarationError.

    >>> people = {"name": "people", "columns": {"age": {"type": "integer"}, "sex": {"type": "category", "values": ["f"]}}}
    >>> fields = {"measure": "mean", "of": "age", "group:sex": "on", "column:1": "sex", "operator:1": "is", "value:1": "f"}
    >>> build_select(people, fields)
    "SELECT sex, AVG(age) AS mean FROM people WHERE sex = 'f' GROUP BY sex"
    >>> fields = {"measure:2": "quantile", "of:2": "age", "part:2": "0.9", "match": "any"}
    >>> fields |= {"column:1": "age", "operator:1": "is one of", "value:1": "3, 5", "column:2": "age", "value:2": "9"}
    >>> build_select(people, fields)
    'SELECT COUNT(*) AS "count", QUANTILE_CONT(age, 0.9) AS quantile FROM people WHERE age IN (3, 5) OR age = 9'
    """
    columns: Columns = table["columns"]
    groups = [_name(column) for column in columns if form.get(f"group:{column}")]
    conditions = [_condition(columns, form, i) for i in range(1, CONDITIONS + 1) if form.get(f"column:{i}")]
    joined_by = _joined_by(form.get("match", "all"))
    parts = [f"SELECT {', '.join([*groups, *_measures(columns, form)])} FROM {_name(table['name'])}"]
    parts += [f"WHERE {joined_by.join(conditions)}"] if conditions else []
    parts += [f"GROUP BY {', '.join(groups)}"] if groups else []
    return " ".join(parts)


def ready_questions(table: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the fields of up to three questions that fit any table of these columns: a count, its parts, a mean.

    >>> columns = {"age": {"type": "integer"}, "sex": {"type": "category", "values": ["f", "m"]}}
    >>> for fields in ready_questions({"name": "people", "columns": columns}):
    ...     print(build_select({"name": "people", "columns": columns}, fields))
    SELECT COUNT(*) AS "count" FROM people
    SELECT sex, COUNT(*) AS "count" FROM people GROUP BY sex
    SELECT sex, AVG(age) AS mean FROM people GROUP BY sex
    """
    columns: Columns = table["columns"]
    sizes = {name: _number_of_values(column) for name, column in columns.items()}
    parts = sorted((name for name, size in sizes.items() if 2 <= size <= _FEW_VALUES), key=lambda name: -sizes[name])
    numbers = [name for name, column in columns.items() if column["type"] in _NUMBERS]
    questions: list[dict[str, str]] = [{"measure": "count"}]
    questions += [{"measure": "count", f"group:{name}": "on"} for name in parts[:1]]
    if numbers:
        # The fewest groups have the most rows each, and so the least error of a mean.
        group = {f"group:{parts[-1]}": "on"} if parts else {}
        questions.append({"measure": "mean", "of": numbers[0], **group})
    questions += [{"measure": "count", f"group:{name}": "on"} for name in parts[1:]]
    questions += [{"measure": "median", "of": name} for name in numbers]
    return questions[:3]


def _number_of_values(column: Mapping[str, Any]) -> int:
    return 2 if column["type"] == "boolean" else len(column.get("values") or ())


def _measures(columns: Columns, form: Mapping[str, str]) -> Iterator[str]:
    """Yield each measure of the form as SQL; where two have one name, the name of their column joins it."""
    numbers = [i for i in range(1, MEASURES_AT_ONCE + 1) if i == 1 or form.get(f"measure:{i}")]
    stated = [_measure(columns, form, i) for i in numbers]
    words = [word for word, _, _ in stated]
    names = [word if words.count(word) == 1 or not of else f"{word}_{of}" for word, of, _ in stated]
    # Quantiles of one column differ by their part alone.
    names = [name if names.count(name) == 1 else f"{name}_{i}" for i, name in enumerate(names, 1)]
    texts = [text for _, _, text in stated]
    if len(set(texts)) < len(texts):
        raise DeclarationError("states one measure twice: choose another one", key="measure")
    for name, text in zip(names, texts, strict=True):
        yield f"{text} AS {_name(name)}"


def _measure(columns: Columns, form: Mapping[str, str], number: int) -> tuple[str, str, str]:
    """Return one measure's word, its column ("" for rows) and its SQL."""
    place = "" if number == 1 else f":{number}"
    word = form.get(f"measure{place}", "count")
    if word not in MEASURES:
        raise DeclarationError("must be one of the measures in the list", key=f"measure{place}")
    _, template, types = MEASURES[word]
    if not types:
        return word, "", template
    of = _column(columns, form.get(f"of{place}", ""), key=f"of{place}")
    if columns[of]["type"] not in types:
        raise DeclarationError(f"takes a column of type {', '.join(types)}; choose another one", key=word)
    if word != "quantile":
        return word, of, template.format(_name(of))
    key = f"the quantile{place}"
    part = _decimal(form.get(f"part{place}") or "", key=key)
    if not 0 <= to_fraction(part, name=key) <= 1:
        raise DeclarationError("is between 0 and 1: at 0.9 nine in ten values lie below it", key=key)
    return word, of, template.format(_name(of), part)


def _joined_by(match: str) -> str:
    if match not in ("all", "any"):
        raise DeclarationError("is all or any of the conditions", key="match")
    return " AND " if match == "all" else " OR "


def _column(columns: Columns, name: str, *, key: str) -> str:
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


def _condition(columns: Columns, form: Mapping[str, str], place: int) -> str:
    key = f"condition {place}"
    name = _column(columns, form[f"column:{place}"], key=key)
    operator = form.get(f"operator:{place}", "is")
    column = columns[name]
    if operator not in _OPERATORS or (
        operator not in _EQUALITY and column["type"] in ("category", "boolean", "identifier")
    ):
        raise DeclarationError(f"compares {name} by is, is not or is one of", key=key)
    text = form.get(f"value:{place}", "")
    if operator == "is one of":
        listed = ", ".join(_literal(column, value, key=key) for value in _split_values(column, text, key=key))
        return f"{_name(name)} IN ({listed})"
    return f"{_name(name)} {_OPERATORS[operator]} {_literal(column, text, key=key)}"


def _split_values(column: Mapping[str, Any], text: str, *, key: str) -> list[str]:
    """Return the values of a list that commas separate; one with a comma of its own stands in double quotes."""
    # A declared value may hold commas and quotes itself.
    if text in map(str, column.get("values") or ()):
        return [text]
    values = [value.strip() for row in csv.reader([text], skipinitialspace=True) for value in row if value.strip()]
    if not values:
        raise DeclarationError("lists one value or more, separated by commas", key=key)
    return values


def _literal(column: Mapping[str, Any], text: str, *, key: str) -> str:
    kind = column["type"]
    if kind in _NUMBERS or (kind == "category" and _is_number(column)):
        return _decimal(text, key=key)
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
