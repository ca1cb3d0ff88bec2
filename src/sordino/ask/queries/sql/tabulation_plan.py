"""Tabulations as plain data: the keys of plan.toml, which a server reads as JSON too. Measures and conditions are SQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
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
    "row_weights": ((str,), "the column of sampling weights"),
    "suppress_below": ((int, float, str), "the least released count that is shown, such as 10"),
    "round_to": ((int, float, str), "what released numbers are rounded to multiples of, such as 5"),
}
_LONGEST = 20_000
_PLACE = re.compile(r"^line \d+, column \d+: ")


def read_tabulation(plain: Mapping[str, Any]) -> Tabulation:
    """Return the tabulation that plain data states: `tables`, and the other keys of `TABULATION_KEYS`.

    A table is a list of names; a name that `columns` has is that expression. Raises DeclarationError for a key that is none, or
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
        weights = _by_table(weights, plain["tables"])
    return tabulate(
        tables,
        measures if "measures" in plain else None,
        finish=plain.get("finish", "whole"),
        where=where,
        weights=weights,
        row_weights=plain.get("row_weights"),
        suppress_below=plain.get("suppress_below"),
        round_to=plain.get("round_to"),
    )


def _by_table(weights: Mapping[str, Any], tables: list[Any]) -> dict[Any, Any]:
    """Return weights by table, out of those by the table's name: its columns with a comma between them, in any order."""
    named = {}
    for table in tables:
        columns = (table,) if isinstance(table, str) else tuple(table)
        named[frozenset(columns)] = columns
    weight_of = {}
    for name, weight in weights.items():
        columns = tuple(part.strip() for part in name.split(",")) if name else ()
        if frozenset(columns) not in named:
            near = nearest(name, [name_table(table) for table in named.values()])
            raise QuestionRefused(f"weights name a table {name!r:.60} that is not tabulated; {near}")
        weight_of[named[frozenset(columns)]] = weight
    return weight_of


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
