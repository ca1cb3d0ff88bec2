"""The keys of sordino.toml, stated once: the JSON Schema that editors read is also what a file is checked by.

It knows the words of a declaration, not their meaning: bounds, names and files are judged by project/load.py. A rule's
title says in messages what a value must be, its description what to state where a key is missing.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import islice
from typing import Any

from sordino.ask.project.positions import Path
from sordino.ask.queries.sql.text import DIALECTS
from sordino.core.errors import DeclarationError, nearest
from sordino.core.loss import to_fraction
from sordino.core.source import FORMATS

# What `sordino init` writes where only a person can know the value.
FILL_IN = "FILL IN"

# A JSON Schema, of the few keywords that are used here.
Rule = dict[str, Any]


def _keys(title: str, about: str, needs: str, **keys: Rule) -> Rule:
    """Return the rule of a table that holds only these keys, and some of them always."""
    rule: Rule = {"type": "object", "title": title, "description": about, "properties": keys}
    return {**rule, "required": needs.split(), "additionalProperties": False}


def _amounts(title: str, about: str, purpose: str) -> Rule:
    """Return the rule of a table of amounts of a loss, of which any may be stated."""
    amounts = {name: _say(_NUMBER, f"the {name} {purpose}") for name in ("epsilon", "delta", "rho")}
    return _keys(title, about, "", **amounts)


def _names(of: Rule, state: str, *, pattern: str = "") -> Rule:
    rule: Rule = {"type": "object", "title": "a table of names", "description": state}
    return {**rule, "patternProperties": {pattern or _NAME: of}, "additionalProperties": False}


def _word(*words: str, state: str = "", other: str = "") -> Rule:
    *most, last = (f'"{word}"' for word in words)
    title = f"{', '.join(most)} or {last}" if most else last
    also = f" (or {other})" if other and most else f" or {other}" if other else ""
    return {"enum": list(words), "title": title + also, "description": state}


def _say(rule: Rule, state: str, **more: Any) -> Rule:
    return {**rule, "description": state, **more}


_NAME = "^[A-Za-z_][A-Za-z0-9_]*$"
# Of a table: catalog.schema.name.
_DOTTED_NAME = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*){0,2}$"
_STRING: Rule = {"type": "string", "title": "text in quotes"}
_TEXT: Rule = {**_STRING, "minLength": 1}
_WHOLE: Rule = {"type": "integer", "title": "a whole number"}
_FLAG: Rule = {"type": "boolean", "title": "true or false"}
_DAY: Rule = {"type": "string", "format": "date", "title": "a day such as 2000-01-31"}
_MOMENT: Rule = {"type": "string", "format": "iso-8601", "title": "a moment such as 2000-01-31 10:30:00"}
_NUMBER_OR_WORD: Rule = {"type": ["string", "number"], "title": 'a word such as "minute", or a number of seconds'}
_NUMBER: Rule = {"type": ["number", "string"], "title": 'a number such as 0.5, or text such as "1/3"'}
_LABEL: Rule = {"type": ["string", "integer"], "title": "text or a whole number"}
_LABELS: Rule = {
    "type": "array",
    "title": 'a list of texts or of whole numbers, such as ["no", "yes"]',
    "items": _LABEL,
}
_LIST: Rule = {"type": "array", "title": "a list [...]"}
_WORDS: Rule = {
    "type": ["string", "array"],
    "title": 'a text, or a list of texts such as ["J", "Ja"]',
    "items": _TEXT,
    "minLength": 1,
}
_COLUMN_NAMES: Rule = {
    "type": ["string", "array"],
    "title": 'a column, or a list of columns such as ["state", "year"]',
    "items": {"type": "string", "title": "text in quotes", "minLength": 1},
    "minLength": 1,
}
_CELL: Rule = {
    "type": ["number", "string", "boolean"],
    "title": "one value of the column: a number, a text, a day, true or false",
}
_PUBLIC_KNOWLEDGE = "from public knowledge and not from the data"
_BOUNDS = {
    "lower": _say(_NUMBER, f"the smallest possible value, {_PUBLIC_KNOWLEDGE}"),
    "upper": _say(_NUMBER, f"the largest possible value, {_PUBLIC_KNOWLEDGE}"),
}
_MISSING: Rule = {
    "default": "drop",
    "anyOf": [
        _word("drop", "keep", other="{fill = value}"),
        _keys(
            "missing",
            "A missing cell counts as this value.",
            "fill",
            fill=_say(_CELL, "the value that a missing cell counts as: {fill = value}"),
        ),
    ],
}

_ITEMS = ("integer", "real", "category", "boolean", "date")
_COLUMNS = {
    "integer": _keys(
        "an integer column",
        "Whole numbers between two bounds; cells outside are clipped to them.",
        "type",
        type={"const": "integer"},
        **_BOUNDS,
        missing=_MISSING,
    ),
    "real": _keys(
        "a real column",
        "Numbers between two bounds, read to the nearest step of a public grid.",
        "type",
        type={"const": "real"},
        **_BOUNDS,
        resolution=_say(_NUMBER, "the smallest difference that counts, such as 0.01"),
        missing=_MISSING,
    ),
    "category": _keys(
        "a category column",
        "Declared values, here or one a line in the first column of a public file.",
        "type",
        type={"const": "category"},
        values=_say(_LABELS, f"every value that the column may take, {_PUBLIC_KNOWLEDGE}", minItems=1),
        values_from=_say(_TEXT, "a public CSV file of values, relative to this file"),
        values_header=_say(_FLAG, "whether that file has a header line", default=False),
        other=_say(_LABEL, "the value that all other values count as"),
        missing=_MISSING,
    ),
    "boolean": _keys("a boolean column", "True and false.", "type", type={"const": "boolean"}, missing=_MISSING),
    "date": _keys(
        "a date column",
        "Calendar days between two days; cells outside are clipped to them.",
        "type lower upper",
        type={"const": "date"},
        lower=_say(_DAY, "the first day that counts, as 2000-01-31"),
        upper=_say(_DAY, "the last day that counts, as 2000-01-31"),
        missing=_MISSING,
    ),
    "datetime": _keys(
        "a datetime column",
        "Moments between two, by the clock of a stated time zone; cells outside are clipped to them.",
        "type lower upper zone",
        type={"const": "datetime"},
        lower=_say(_MOMENT, "the first moment that counts, as 2000-01-31 10:30:00"),
        upper=_say(_MOMENT, "the last moment that counts, as 2000-01-31 10:30:00; a day counts as a whole"),
        zone=_say(_TEXT, 'the time zone of cells without an offset, such as "UTC" or "Europe/Berlin"'),
        resolution=_say(_NUMBER_OR_WORD, "second, minute, hour, day, or a number of seconds", default="second"),
        missing=_MISSING,
    ),
    "identifier": _keys(
        "an identifier column",
        "Text with values that are not public: equality in WHERE, the privacy unit, or private keys of GROUP BY.",
        "type",
        type={"const": "identifier"},
    ),
}
_COLUMNS["list"] = _keys(
    "a list column",
    "Lists of items, each read as `of` declares; only the first max_items of a row's list count.",
    "type of max_items",
    type={"const": "list"},
    of={"anyOf": [_COLUMNS[kind] for kind in _ITEMS], "description": f"what an item is, one of: {', '.join(_ITEMS)}"},
    max_items=_say(_WHOLE, "the most items of one row that count, up to 10,000", minimum=1),
)
_COLUMNS["category"]["oneOf"] = [{"required": ["values"]}, {"required": ["values_from"]}]
_COLUMN: Rule = {"anyOf": list(_COLUMNS.values()), "description": f"one of: {', '.join(_COLUMNS)}"}

# How cells of CSV are written; of all columns whose declared type it concerns, or of one.
_CELLS: dict[str, Rule] = {
    "decimal": _say(_word(".", ","), "the decimal mark of numbers"),
    "thousands": _say(_word(".", ",", "'", " "), "the mark of thousands in numbers"),
    "date": _say(_WORDS, "how days and moments are written, such as %d.%m.%Y"),
    "true": _say(_WORDS, "the words that mean true"),
    "false": _say(_WORDS, "the words that mean false"),
}
_CSV = _keys(
    "csv",
    "How a CSV file is written: cells between delimiters, trimmed; one line is one row; nothing is sniffed.",
    "header",
    header=_say(_FLAG, "true (the first line holds names) or false (names lists them); it is never sniffed"),
    names=_say(_LIST, "the name of every column, in order", items=_TEXT),
    delimiter=_say(_STRING, "one character; without it a tab in a .tsv file, else a comma", default=""),
    quote={**_word("", '"', "'", state="what cells may be quoted with"), "default": ""},
    null_values=_say(_LIST, "the cells that mean: missing; empty ones always do", items=_STRING, default=[]),
    encoding=_say(_TEXT, "the encoding of the file, such as latin-1 or cp1252", default="utf-8"),
    header_rows=_say(_WHOLE, "how many lines hold names; an upper one of merged cells reaches to its next", default=1),
    skip_first=_say(_WHOLE, "lines above the header that are none of the table, such as a title", default=0),
    totals=_say(_WORDS, "first cells of lines that are no rows, such as Total; other lines decide nothing"),
    **_CELLS,
    columns={
        "type": "object",
        "title": "a table of names",
        "description": "what is written otherwise in one column: {cost = {type = ..., null_values = [...]}}",
        "additionalProperties": _keys(
            "the cells of a column",
            "How the cells of one column are written, where that is not as in all others.",
            "",
            type=_say(_word("amount", "percent"), "amount (cells have a currency) or percent (60% is 0.6)"),
            **_CELLS,
            null_values=_say(_LIST, "the cells that mean: missing, in addition", items=_STRING),
        ),
    },
)
_SOURCE = {
    "source": _say(
        _TEXT,
        "where the table lies: a CSV, JSON lines, Parquet (a file, a glob, or a folder that ends in /), Arrow, DuckDB or "
        "SQLite file, relative to this one, or the URL of a "
        "PostgreSQL server without a password: postgresql://USER@HOST/DATABASE; or a table of a Spark session: "
        "spark:catalog.schema.table",
    ),
    "format": _say(
        _TEXT,
        f"how the source is kept, where its name does not say so: {', '.join(FORMATS)}",
        # Examples alone, for editors: a format may be registered from outside, and a source knows which there are.
        examples=list(FORMATS),
    ),
    "engine": _say(
        _TEXT,
        "what reads Parquet, Delta or Iceberg files in place of DuckDB: spark; also s3://, hdfs://",
        examples=["spark"],
    ),
    "relation": _say(
        _TEXT, "the table or view of a DuckDB or SQLite file or of a PostgreSQL server, or a query of the latter"
    ),
    "csv": _CSV,
    "columns": {
        "type": "object",
        "title": "a table of names",
        "description": "what may be asked about, in [tables.NAME.columns]",
        "additionalProperties": _COLUMN,
    },
}
_UNIT = _keys(
    "a privacy unit",
    "Protect all rows that share one value of an identifier column, of which at most max_rows are used; or at most "
    "max_rows_per_group in each of max_groups groups. Without a column, max_rows is a promise that nothing enforces.",
    "",
    column=_say(_TEXT, "the identifier column whose values are the units"),
    max_rows=_say(_WHOLE, "the most rows of one unit that count in one question"),
    max_groups=_say(_WHOLE, "the most groups of one question that one unit counts in"),
    max_rows_per_group=_say(_WHOLE, "the most rows of one unit that count in one group"),
    of=_say(_TEXT, "whose rows these are, such as person: tables of the same people can be joined by their units"),
)
_UNIT["anyOf"] = [{"required": ["max_rows"]}, {"required": ["column", "max_groups", "max_rows_per_group"]}]
_TABLE = _keys(
    "a table",
    "A table: where it lies, who is protected, and what is public about its columns.",
    "source budget neighbors privacy_unit columns",
    **_SOURCE,
    budget=_say(_TEXT, "which of [budgets] this table draws on"),
    neighbors=_word(
        "add_remove",
        "replace",
        state='"add_remove" (hides whether a unit is in the table at all; the number of units is private) '
        'or "replace" (hides what a unit\'s rows say; the number of units is taken as known); neither is guessed',
    ),
    privacy_unit={
        "anyOf": [_word("row", other='{column = "user_id", max_rows = 5}'), _UNIT],
        "description": '"row" (each row is one person) or {column = "user_id", max_rows = 5} '
        "(all rows of one value of an identifier column are one person, of which max_rows count); neither is guessed; "
        "{max_rows = 5} alone promises that no person has more rows",
    },
    row_ceiling=_say(_WHOLE, "public bound on the rows that the table can ever have"),
    rules=_say(
        _LIST,
        "what is publicly known of every row and holds in every synthetic one, a line each, such as "
        '"above + basement = living", "start <= end", "blank income when age < 15", "never age < 15 and married", '
        '"determines FILE.csv", "allowed FILE.csv"',
        items=_TEXT,
        default=[],
    ),
)
_PUBLIC = _keys(
    "a public table",
    "A table that holds nothing private, to be joined by its key.",
    "source key columns",
    **_SOURCE,
    key=_say(
        _COLUMN_NAMES, "the column of the public table that a private table's column is compared with, or several"
    ),
    max_rows=_say(_WHOLE, "the most of its rows that share a key; checked when it is opened", default=1),
)
_CAP = _keys(
    "a cap",
    "{epsilon = ...}, {epsilon = ..., delta = ...} or {rho = ..., delta = ...}, here with slack = ... or not; none is guessed",
    "",
    epsilon=_say(_NUMBER, "the epsilon that may ever be lost, such as 1.0"),
    delta=_say(_NUMBER, "a delta far below 1 / number of people"),
    rho=_say(_NUMBER, "the rho that may ever be lost, such as 0.5"),
    slack=_say(_NUMBER, "beside rho: the delta that private keys may spend in all, such as 1e-7"),
)
_CAP["oneOf"] = [
    {"required": kind, "minProperties": len(kind), "maxProperties": len(kind)}
    for kind in (["epsilon"], ["epsilon", "delta"], ["rho", "delta"], ["rho", "delta", "slack"])
]
_SHARE = _keys(
    "a share",
    "What one spender, a team or a program, may charge to the budget and no more, of the cap's kind: {epsilon = 0.5}.",
    "",
    epsilon=_say(_NUMBER, "the epsilon of the share, at most that of the cap"),
    delta=_say(_NUMBER, "the delta of the share, at most that of the cap"),
    rho=_say(_NUMBER, "the rho of the share, at most that of the cap"),
)
_ALLOWANCE = _keys(
    "an allowance",
    'What the budget may spend in each month, quarter or year, of the cap\'s kind: {every = "year", rho = 0.5}.',
    "every",
    every=_word("month", "quarter", "year", state="the periods that it holds for, by the calendar, in UTC"),
    epsilon=_say(_NUMBER, "the epsilon of a period, at most that of the cap"),
    delta=_say(_NUMBER, "the delta of a period, at most that of the cap"),
    rho=_say(_NUMBER, "the rho of a period, at most that of the cap"),
    rolling=_say(
        _FLAG, "whether it holds for every run of as many months, such as the 12 that end with any", default=False
    ),
)
_BUDGET = _keys(
    "a budget",
    "A budget, which belongs to the people in the tables that draw on it.",
    "cap ledger",
    cap=_CAP,
    ledger=_say(
        _TEXT,
        'what holds every charge: a SQLite file, relative to this one, such as "people.ledger", or '
        '"postgresql://HOST/DATABASE#NAME"',
    ),
    reason=_say(_TEXT, "the reason for the cap, for readers of the reports"),
    shares=_names(
        _SHARE, "what each spender may charge and no more: [budgets.people.shares] research = {epsilon = 0.5}"
    ),
    allowance=_ALLOWANCE,
)
_SETTINGS = _keys(
    "the project's settings",
    "How questions of this project are read.",
    "",
    dialect=_word(*DIALECTS, state="whose SQL the questions are written in, where they do not say so themselves"),
)
_ENGINE = _keys(
    "the settings of engines",
    "How the engines are reached that are not in this process.",
    "",
    spark={
        **_names(
            _TEXT,
            'the settings of the Spark session that is made where none is active: "spark.master" = "local[4]"',
            pattern=r"^spark\.[A-Za-z0-9_.-]+$",
        ),
        "$comment": 'a setting\'s name is one key in quotes that begins with spark., such as "spark.master"',
    },
)
_SERVE = _keys(
    "the settings of the server",
    "How `sordino serve` serves the tables.",
    "",
    store=_say(
        _TEXT,
        "where accounts, approvals and the audit log are kept: a SQLite file, relative to this one, or "
        '"postgresql://HOST/DATABASE"',
        default="sordino-server.db",
    ),
    answer_every=_say(
        _TEXT,
        'the tick of the clock on which answers leave, such as "250ms"; "0s" where how long an answer takes may be known',
        default="250ms",
    ),
    approve_above=_amounts(
        "what needs no officer",
        "A question that costs more than this waits for an officer: {epsilon = 0.5}.",
        "that an analyst may spend on one question alone",
    ),
    approve_above_daily=_amounts(
        "what needs no officer in a day",
        "A question that takes what a share is charged for one table within 24 hours above this waits for an officer.",
        "that a share may spend on one table within 24 hours without an officer",
    ),
    two_person=_say(
        _FLAG,
        "whether an officer may not approve questions of an account that they made, reset or funded; a site with one "
        "officer says false, which each such approval puts into the audit log",
        default=True,
    ),
    two_person_days=_say(_WHOLE, "for how many days after that", default=7),
    postgres_port=_say(_WHOLE, "the port for SQL clients, which speak as to PostgreSQL, such as 5432"),
    postgres_certificate=_say(_TEXT, "the certificate of that port, with its chain, in PEM, relative to this file"),
    postgres_key=_say(_TEXT, "the key of that certificate, in PEM"),
    collections=_say(
        _LIST, "the stores of collectors whose estimates accounts may read: SQLite files or addresses", items=_TEXT
    ),
    log=_say(
        _TEXT, 'the form of the lines that requests write to standard error: "text", "json" or "off"', default="text"
    ),
    origin=_say(_TEXT, 'where browsers find the server, such as "https://curator.example"'),
    openid=_keys(
        "an OpenID provider",
        "Where people of an organisation sign in; the client's secret is SORDINO_OPENID_SECRET in the environment.",
        "issuer client",
        issuer=_say(_TEXT, 'the provider\'s address, such as "https://login.example/realm"'),
        client=_say(_TEXT, "the name under which the provider knows this server"),
    ),
)
_PROJECT = _keys(
    "the project",
    "A project: budgets, the tables that draw on them, and public tables that these may be joined with.",
    "budgets tables",
    budgets=_names(_BUDGET, 'who may lose how much: [budgets.people] with cap = {...} and ledger = "..."'),
    tables=_names(_TABLE, "at least one: [tables.NAME]", pattern=_DOTTED_NAME),
    project=_SETTINGS,
    public=_names(_PUBLIC, "the tables that hold nothing private: [public.NAME]"),
    engine=_ENGINE,
    serve=_SERVE,
)
_TYPES = {"string": (str,), "integer": (int,), "number": (int, Decimal), "boolean": (bool,), "array": (list,)}


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of sordino.toml, for editors.

    >>> sorted(json_schema()["properties"])
    ['budgets', 'engine', 'project', 'public', 'serve', 'tables']
    """
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_PROJECT, "title": "sordino.toml"}


def shape_problems(document: Mapping[str, Any], *, most: int) -> list[tuple[Path, str]]:
    """Return the places of the document that have the wrong shape, with what is wrong, the rule and the nearest key.

    The search stops at `most`: to compare a key with the keys of a table takes a while.
    """
    return list(islice(_problems(document, _PROJECT, ()), most))


def _problems(value: Any, rule: Rule, at: Path) -> Iterator[tuple[Path, str]]:
    table = isinstance(value, Mapping)
    if _is_blank(value):
        state = "" if "properties" in rule else rule.get("description")
        yield at, f"is still to be filled in: state {state or 'what holds'}"
        return
    if rule in (_COLUMN, _COLUMNS["list"]["properties"]["of"]):
        kind = value.get("type") if table else None
        if not isinstance(kind, str) or kind not in (_COLUMNS if rule is _COLUMN else _ITEMS):
            yield (*at, "type"), _type_rule(value, rule)
            return
        rule = _COLUMNS[kind]
    if "anyOf" in rule and "type" not in rule:
        rule = rule["anyOf"][table]
    if rule.get("type") == "object" and table:
        yield from _key_problems(value, rule, at)
    elif (problem := _misfit(value, rule, name=str(at[-1]))) is not None:
        yield at, problem
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _problems(item, {"description": rule["description"], **rule["items"]}, (*at, place))


# Keys of `sordino import` that a project file cannot have, and what to write in their place.
_REPLACED = {
    "skip_last": "lines are counted from the end there, so a person's absence would bring back the row of another: state "
    'totals = ["Total"], the first cell of each line that is no row, or import the file with --skip-last'
}


def _key_problems(table: Mapping[str, Any], rule: Rule, at: Path) -> Iterator[tuple[Path, str]]:
    keys = rule.get("properties", {})
    # What a table's own keys must look like; empty where the keys are stated.
    names = next(iter(rule.get("patternProperties", {})), "")
    hints: set[str] = set()
    for key, value in table.items():
        if keys and key not in keys:
            hint = _REPLACED.get(key) or nearest(key, keys)
            hints.add(hint)
            yield (*at, key), f"{rule['title']} has no such key; {hint}"
        elif names and not re.search(names, key):
            yield (*at, key), rule.get("$comment") or _name_rule(key)
        else:
            of = keys.get(key) or rule.get("patternProperties", {}).get(names) or rule["additionalProperties"]
            yield from _problems(value, of, (*at, key))
    for key in rule.get("required", ()):
        # A key that a misspelled one was near is not missing.
        if key not in table and f"did you mean {key!r}?" not in hints:
            yield (*at, key), f"is missing; state {keys[key]['description']}"


def _misfit(value: Any, rule: Rule, *, name: str) -> str | None:
    """Return why a value is not what a rule without keys allows, None where it is."""
    must = f"must be {'a table {...}' if 'properties' in rule else rule.get('title')}, not {_quote(value)}"
    if "const" in rule:
        return None
    if "enum" in rule:
        if value in rule["enum"]:
            return None
        hint = nearest(value, rule["enum"]) if isinstance(value, str) else ""
        return must + (f"; {hint}" if "did" in hint else "")
    kinds = rule["type"] if isinstance(rule["type"], list) else [rule["type"]]
    # TOML has days, JSON has not.
    dated = "format" in rule or rule["type"] == _CELL["type"]
    allowed = [t for kind in kinds for t in _TYPES.get(kind, ())] + [datetime.date] * dated
    fits = bool in allowed if isinstance(value, bool) else isinstance(value, tuple(allowed))
    if not fits:
        return must
    if rule["type"] == _NUMBER["type"]:
        try:
            to_fraction(value, name=name)
        except DeclarationError as error:
            return str(error)
    return "must not be empty" if rule.get("minLength") and not value else None


def _type_rule(column: Any, rule: Rule) -> str:
    if not isinstance(column, Mapping) or "type" not in column:
        return f"is missing; state {rule['description']}"
    kind = column["type"]
    if _is_blank(kind):
        return f"is still to be filled in: state {rule['description']}"
    return f"must be the type of a column, not {_quote(kind)}; {nearest(str(kind), _COLUMNS if rule is _COLUMN else _ITEMS)}"


def _is_blank(value: object) -> bool:
    return isinstance(value, str) and value.strip().upper().startswith(FILL_IN)


def _name_rule(name: str) -> str:
    better = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name) or "people"
    better = f"_{better}" if better[0].isdigit() else better
    return f"a budget's or table's name is letters, digits and _ and starts with no digit, as in SQL; try {better!r}"


def _quote(value: object) -> str:
    if isinstance(value, (Mapping, list)):
        return "a table" if isinstance(value, Mapping) else "a list"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value[:40]}"' if isinstance(value, str) else str(value)[:40]
