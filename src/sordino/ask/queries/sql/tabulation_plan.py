"""Tabulations as plain data: the keys of plan.toml, which a server reads as JSON too. Measures and conditions are SQL."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from sordino.ask.queries.aggregation import Aggregation
from sordino.ask.queries.build import AggregateExpr
from sordino.ask.queries.expressions.expr import Expr, col
from sordino.ask.queries.sql.parse import parse_sql
from sordino.ask.queries.tabulation import Tabulation, tabulate
from sordino.core.errors import DeclarationError, QuestionRefused, nearest
from sordino.core.estimates.table_cells import name_table

T = TypeVar("T")

# The keys of a tabulation, each with the kinds of its values in JSON or TOML, and what they are in words.
TABULATION_KEYS: Mapping[str, tuple[tuple[type, ...], str]] = {
    "tables": ((list,), "a list of tables, each a list of columns"),
    "columns": ((dict,), 'SQL by name, such as {"year": "YEAR(visited)"}'),
    "measures": ((dict,), 'SQL by name, such as {"income": "SUM(income)"}'),
    "finish": ((str,), '"whole", "linear" or "raw"'),
    "where": ((str,), "what follows WHERE in SQL"),
    "weights": ((dict, list), 'numbers by table, such as {"region, sex": 3}, or one for each in order'),
    "ordered": ((list,), 'columns whose ranges will be added up, such as ["age"]'),
    "levels": (
        (dict,),
        'nested areas from the widest, {"columns": ["state", "tract"], "areas": [["01", "01-1"], ...]}; in a plan file '
        'areas_from = "areas.csv"',
    ),
    "invariants": (
        (dict,),
        'exact public counts or sums by columns, {"region": [{"region": "north", "count": 120}, ...]}; in a plan file a CSV file',
    ),
    "objective": ((str,), '"sum" or "greatest"'),
    "errors": (
        (dict,),
        'half-widths at 95% by table, such as {"region, sex": 50}, or {"region, sex": {"income": 5000}}',
    ),
    "row_weights": ((str,), "the column of sampling weights"),
    "suppress_below": ((int, float, str), "the least released count that is shown, such as 10"),
    "round_to": ((int, float, str), "what released numbers are rounded to multiples of, such as 5"),
    "largest": ((int,), "how many of the largest released counts of each group are shown, such as 10"),
}
_LONGEST = 20_000
_PLACE = re.compile(r"^line \d+, column \d+: ")


def read_tabulation(plain: Mapping[str, Any], *, beside: Path | None = None) -> Tabulation:
    """Return the tabulation that plain data states: `tables`, and the other keys of `TABULATION_KEYS`.

    A table is a list of names; a name that `columns` has is that expression. Public files are named relative to the folder
    `beside`, and not at all where there is none, as on a server. Raises DeclarationError for a key that is none, or
    a value of another kind; QuestionRefused for what `tabulate` refuses, and for SQL that is no aggregate or condition.

    >>> read_tabulation({"tables": [["region", "sex"], ["year"]], "where": "age >= 18"}).describe()
    'the number of rows, by region and sex; by year, where age >= 18; as whole tables that agree, none below 0'
    """
    for name, value in plain.items():
        if name not in TABULATION_KEYS:
            raise DeclarationError(f"a tabulation has no such key; {nearest(name, TABULATION_KEYS)}", key=name)
        kinds, words = TABULATION_KEYS[name]
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise DeclarationError(f"must be {words}", key=name)
    if "tables" not in plain:
        raise DeclarationError('is missing; state the tables, such as [["region", "sex"], ["year"]]', key="tables")
    columns = {name: _read_column(name, text) for name, text in plain.get("columns", {}).items()}
    tables = []
    for table in plain["tables"]:
        names = [table] if isinstance(table, str) else table
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise DeclarationError("must be a list of tables, each a list of columns", key="tables")
        tables.append([columns.get(name, col(name)) for name in names])
    measures = {name: _read_measure(name, text) for name, text in plain.get("measures", {}).items()}
    idle = next((name for name in columns if not any(name in table for table in plain["tables"])), None)
    if idle is not None:
        raise DeclarationError(f"has {idle!r}, which no table names", key="columns")
    where = _read_where(plain["where"]) if "where" in plain else None
    weights = plain.get("weights")
    if isinstance(weights, dict):
        weights = _by_table(weights, plain["tables"], "weights")
    return tabulate(
        tables,
        measures if "measures" in plain else None,
        finish=plain.get("finish", "whole"),
        where=where,
        weights=weights,
        ordered=plain.get("ordered", ()),
        invariants=_read_invariants(plain["invariants"], beside) if "invariants" in plain else None,
        levels=_read_levels(plain["levels"], beside) if "levels" in plain else None,
        objective=plain.get("objective", "sum"),
        errors=_by_table(plain["errors"], plain["tables"], "errors") if "errors" in plain else None,
        row_weights=plain.get("row_weights"),
        suppress_below=plain.get("suppress_below"),
        round_to=plain.get("round_to"),
        largest=plain.get("largest"),
    )


def _read_levels(stated: Mapping[str, Any], beside: Path | None) -> dict[str, Any]:
    """Return the levels, with the areas of the public file that they name."""
    levels = dict(stated)
    named = levels.pop("areas_from", None)
    if named is None:
        return levels
    columns = levels.get("columns")
    if "areas" in levels or not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
        raise DeclarationError('needs columns = ["state", "tract"], and areas or areas_from, not both', key="levels")
    levels["areas"] = read_public_rows(named, columns, beside, key="levels.areas_from")
    return levels


def _read_invariants(stated: Mapping[str, Any], beside: Path | None) -> dict[tuple[str, ...], Any]:
    """Return public counts by columns, of rows or of the public files that are named."""
    invariants = {}
    for name, source in stated.items():
        columns = tuple(part.strip() for part in name.split(",")) if name else ()
        rows = source
        if isinstance(source, str):
            rows = read_public_file(source, beside, key=f"invariants.{name or 'total'}")
        invariants[columns] = rows
    return invariants


def read_public_rows(named: Any, columns: list[str], beside: Path | None, *, key: str) -> list[tuple[str, ...]]:
    """Return some columns of a public CSV file; raises DeclarationError where it cannot be read or lacks one."""
    table = read_public_file(named, beside, key=key)
    header = list(table[0]) if table else []
    missing = next((name for name in columns if name not in header), None)
    if missing is not None:
        raise DeclarationError(f"{named!r:.80} has no column {missing!r:.40}; {nearest(missing, header)}", key=key)
    return [tuple(row[name] or "" for name in columns) for row in table]


def read_public_file(named: Any, beside: Path | None, *, key: str) -> list[dict[str, str]]:
    """Return the rows of a public CSV file by column; raises DeclarationError where it cannot be read."""
    if beside is None:
        raise DeclarationError("names a file, which a server does not read: send its rows", key=key)
    if not isinstance(named, str):
        raise DeclarationError("must be the path of a public CSV file", key=key)
    try:
        with (beside / named).open(encoding="utf-8-sig", newline="") as lines:
            return list(csv.DictReader(lines, strict=True))
    except OSError as error:
        raise DeclarationError(f"{named!r:.80} cannot be read: {error.strerror}", key=key) from None
    except (UnicodeDecodeError, csv.Error):
        raise DeclarationError(f"{named!r:.80} is not a CSV file in UTF-8", key=key) from None


def _by_table(stated: Mapping[str, Any], tables: list[Any], key: str) -> dict[Any, Any]:
    """Return what a key states by table; there its name is its columns with a comma between them, in any order."""
    named = {}
    for table in tables:
        columns = (table,) if isinstance(table, str) else tuple(table)
        named[frozenset(columns)] = columns
    found = {}
    for name, value in stated.items():
        columns = tuple(part.strip() for part in name.split(",")) if name else ()
        if frozenset(columns) not in named:
            near = nearest(name, [name_table(table) for table in named.values()])
            raise QuestionRefused(f"{key} name a table {name!r:.60} that is not tabulated; {near}")
        found[named[frozenset(columns)]] = value
    return found


def _read_column(name: str, text: Any) -> Expr:
    """Return the expression of a column, under its name."""

    def key(question: Aggregation) -> Expr:
        return Expr(question.groups[0].of).alias(name)

    return _read("SELECT COUNT(*) AS n FROM t GROUP BY ({}\n)", text, f"columns: {name}", key, groups=1)


def _read_measure(name: str, text: Any) -> AggregateExpr:
    def aggregate(question: Aggregation) -> AggregateExpr:
        return AggregateExpr(question.aggregates[0])

    return _read("SELECT {} AS m FROM t", text, f"measures: {name}", aggregate)


def _read_where(text: str) -> Expr:
    def condition(question: Aggregation) -> Expr:
        assert question.where is not None
        return Expr(question.where)

    return _read("SELECT COUNT(*) AS n FROM t WHERE ({}\n)", text, "where", condition, where=True)


def _read(
    form: str, text: Any, key: str, part: Callable[[Aggregation], T], *, groups: int = 0, where: bool = False
) -> T:
    """Return a part of the question that a form makes of a text, which may say nothing else of a question."""
    if not isinstance(text, str) or not text.strip() or ";" in text or "--" in text or len(text) > _LONGEST:
        raise DeclarationError("must be SQL text, such as COUNT(*), SUM(income) or age >= 18", key=key)
    try:
        question = parse_sql(form.format(text), table="t")
    except QuestionRefused as refused:
        # The place is one in a text that nobody wrote.
        raise type(refused)(f"{key}: {_PLACE.sub('', str(refused.in_sql()))}") from None
    plain = Aggregation(question.where if where else None, question.groups if groups else (), question.aggregates)
    rest = (question.formulas, question.hidden, question.after, question.steps, question.sample, question.key_list)
    same = (question.where, question.groups, len(question.aggregates)) == (plain.where, plain.groups, 1)
    if not same or any(rest) or len(question.groups) != groups or (question.where is not None) != where:
        raise QuestionRefused(f"{key}: {text!r:.60} is not one aggregate, key or condition by itself")
    return part(question)
