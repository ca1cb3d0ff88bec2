"""SQL text of trees: quoted names and texts, reserved names, writers."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any, cast

from sordino.core.primitives import WIDEST, check_range

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.dialects.dialect import DialectType


# ---- Texts and names as SQL quotes them: nothing that is declared or written in a file becomes a word of SQL


def quote_text(value: str) -> str:
    """Return a text as a SQL constant."""
    return "'" + value.replace("'", "''") + "'"


def quote_name(value: str) -> str:
    """Return a column or table name as SQL quotes it."""
    return '"' + value.replace('"', '""') + '"'


# ---- Our own SQL text, and its trees: only names and values that we quoted ourselves are in it

# public: keys the hashes, so that no other program has the same
CHOICE = "sordino"


def parse_own(text: str) -> exp.Expression:
    """Return the tree of an expression; equal texts are parsed once."""
    return _parse_once(text).copy()


def parse_relation(text: str) -> exp.Expression:
    """Return the tree of a relation, such as a sub-query with its name."""
    select = _parse_once(f"SELECT 1 FROM {text}").copy()
    relation: exp.Expression = (select.args.get("from_") or select.args["from"]).this
    return relation


@functools.lru_cache(maxsize=512)
def _parse_once(text: str) -> exp.Expression:
    from sqlglot import parse_one

    return cast("exp.Expression", parse_one(text, dialect="duckdb"))


@functools.lru_cache(maxsize=512)
def translate(text: str, dialect: DialectType) -> str:
    """Return our own text in a dialect; equal texts are parsed once."""
    from sqlglot import parse_one

    return parse_one(text, dialect=dialect).sql(dialect=dialect, copy=False)


def people_name(table: str) -> str:
    """Return the name of another private table of the same people in our SQL."""
    return f"sordino_people_{table}"


def public_name(table: str) -> str:
    """Return the name of a public table in our SQL."""
    return f"sordino_public_{table}"


def case_bounds(cell: str, lower: int | None, upper: int | None) -> str:
    """Return the branches of a CASE that clip a cell; None leaves a side open."""
    branches = []
    for sign, bound in (("<", lower), (">", upper)):
        if bound is not None:
            text = whole_text(bound)
            branches.append(f"WHEN {cell} {sign} {text} THEN {text}")
    return " ".join(branches)


def whole_text(number: int) -> str:
    """Return a whole number in the narrowest type that holds it; raises OutOfRange past 37 digits."""
    if not -WIDEST <= number <= WIDEST:
        check_range(number)
    return f"CAST('{number}' AS {'BIGINT' if abs(number) < 2**63 else 'HUGEINT'})"


def float_text(number: float) -> str:
    """Return a float as it is."""
    return f"CAST('{number!r}' AS DOUBLE)"


def literal_text(label: str | int | bool | None) -> str:
    """Return a label as a constant."""
    if label is None or isinstance(label, bool):
        return {None: "NULL", True: "true", False: "false"}[label]
    return quote_text(label) if isinstance(label, str) else whole_text(label)


# ---- DuckDB's text of a tree: it knows the few nodes that our own statements are made of
#
# sqlglot writes any tree, a model's statement in the time that DuckDB takes to count ten small tables; so it writes the other
# nodes alone.

# our own names, which need no quotes
_NAME = re.compile(r"[a-z][0-9]*(_[0-9]+)*|sordino_[a-z]+|fold|bin")
# By the type of a node and the parts that it has; a literal that is text has is_string as well.
_FORMS = {
    ("Var", "this"): "{this}",
    ("Literal", "this"): "{this}",
    ("Identifier", "this"): "{this}",
    ("Column", "this"): "{this}",
    ("Column", "table", "this"): "{table}.{this}",
    ("Star",): "*",
    ("Null",): "NULL",
    ("Paren", "this"): "({this})",
    ("Not", "this"): "NOT {this}",
    ("Abs", "this"): "ABS({this})",
    ("Greatest", "expressions", "ignore_nulls", "this"): "GREATEST({this}, {expressions})",
    ("Least", "expressions", "ignore_nulls", "this"): "LEAST({this}, {expressions})",
    ("Count", "this"): "COUNT({this})",
    ("Sum", "this"): "SUM({this})",
    ("Cast", "this", "to"): "CAST({this} AS {to})",
    ("Alias", "alias", "this"): "{this} AS {alias}",
    ("TableAlias", "this"): "{this}",
    ("Subquery", "alias", "this"): "({this}) AS {alias}",
    ("From", "this"): "FROM {this}",
    ("Where", "this"): "WHERE {this}",
    ("Group", "expressions"): "GROUP BY {expressions}",
    ("Select", "expressions", "from_"): "SELECT {expressions} {from_}",
    ("Select", "expressions", "from_", "group"): "SELECT {expressions} {from_} {group}",
    ("Select", "expressions", "from_", "where"): "SELECT {expressions} {from_} {where}",
    ("Select", "expressions", "from_", "group", "where"): "SELECT {expressions} {from_} {where} {group}",
}
_OPERATORS = {
    **{"Add": "+", "Sub": "-", "Mul": "*", "IntDiv": "//", "Is": "IS", "And": "AND", "Or": "OR"},
    **{"EQ": "=", "NEQ": "<>", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="},
}
# the parts of an operation: two sides, and not IS NOT or an operator of the user's
_SIDES = {"this", "expression"}


def write_tree(tree: exp.Expression) -> str:
    """Return DuckDB's text of a tree, the same as sqlglot's.

    >>> from sqlglot import exp
    >>> write_tree(exp.Select(expressions=[exp.Count(this=exp.Star())]).from_(exp.Var(this='"people"')))
    'SELECT COUNT(*) FROM "people"'
    """
    parts = {name: part for name, part in tree.args.items() if part}
    kind = type(tree).__name__
    if kind in _OPERATORS and parts.keys() == _SIDES:
        return _write_chain(tree, _OPERATORS[kind])
    if kind == "Case" and "this" not in parts:
        return _write_case(parts)
    if kind == "DataType" and len(parts) == 1:
        return _type_name(tree.this)
    form = _FORMS.get((kind, *sorted(parts)))
    if form is None or (kind == "Identifier" and not _NAME.fullmatch(tree.this)):
        return tree.sql(dialect="duckdb", copy=False)
    return form.format(**{name: _write(part) for name, part in parts.items()})


def _write(part: Any) -> str:
    if isinstance(part, list):
        return ", ".join(map(write_tree, part))
    return part if isinstance(part, str) else write_tree(part) if hasattr(part, "args") else ""


def _write_chain(tree: Any, operator: str) -> str:
    """Return a + b + c, whose first operation is the left side of the second."""
    kind = type(tree)
    operands = [write_tree(tree.expression)]
    first = tree.this
    # a sum of a thousand columns is as many levels deep
    while type(first) is kind and _is_plain(first):
        operands.append(write_tree(first.expression))
        first = first.this
    operands.append(write_tree(first))
    return f" {operator} ".join(reversed(operands))


def _is_plain(operation: Any) -> bool:
    """Tell whether it is two sides and an operator, and not IS NOT or an operator of the user's."""
    return {name for name, part in operation.args.items() if part} == _SIDES


def _write_case(parts: dict[str, Any]) -> str:
    branches = [f"WHEN {write_tree(branch.this)} THEN {write_tree(branch.args['true'])}" for branch in parts["ifs"]]
    rest = [f"ELSE {write_tree(parts['default'])}"] if "default" in parts else []
    return " ".join(["CASE", *branches, *rest, "END"])


@functools.lru_cache(maxsize=64)
def _type_name(kind: Any) -> str:
    from sqlglot import exp

    return exp.DataType(this=kind).sql(dialect="duckdb")
