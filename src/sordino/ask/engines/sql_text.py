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


def parse_own(text: str, dialect: DialectType = "duckdb") -> exp.Expression:
    """Return the tree of an expression; equal texts are parsed once."""
    return _parse_once(text, dialect).copy()


def parse_relation(text: str, dialect: DialectType = "duckdb") -> exp.Expression:
    """Return the tree of a relation, such as a sub-query with its name."""
    select = _parse_once(f"SELECT 1 FROM {text}", dialect).copy()
    relation: exp.Expression = (select.args.get("from_") or select.args["from"]).this
    return relation


@functools.lru_cache(maxsize=512)
def _parse_once(text: str, dialect: DialectType) -> exp.Expression:
    from sqlglot import parse_one

    return cast("exp.Expression", parse_one(text, dialect=dialect))


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


# ---- DuckDB's text of a SELECT whose cells are texts already, as most are: it knows the few nodes above cells
#
# sqlglot writes any tree, in a fifth of the time that DuckDB takes to count a small table; so it writes the other nodes alone.

# our own names, which need no quotes
_NAME = re.compile(r"[kt][0-9]+|sordino_[a-z]+")
# By the type of a node and the parts that it has; a literal that is text has is_string as well.
_FORMS = {
    ("Var", "this"): "{this}",
    ("Literal", "this"): "{this}",
    ("Identifier", "this"): "{this}",
    ("Column", "this"): "{this}",
    ("Star",): "*",
    ("Count", "this"): "COUNT({this})",
    ("Sum", "this"): "SUM({this})",
    ("Alias", "alias", "this"): "{this} AS {alias}",
    ("TableAlias", "this"): "{this}",
    ("Subquery", "alias", "this"): "({this}) AS {alias}",
    ("From", "this"): "FROM {this}",
    ("Group", "expressions"): "GROUP BY {expressions}",
    ("Select", "expressions", "from_"): "SELECT {expressions} {from_}",
    ("Select", "expressions", "from_", "group"): "SELECT {expressions} {from_} {group}",
}


def write_tree(tree: exp.Expression) -> str:
    """Return DuckDB's text of a tree, the same as sqlglot's.

    >>> from sqlglot import exp
    >>> write_tree(exp.Select(expressions=[exp.Count(this=exp.Star())]).from_(exp.Var(this='"people"')))
    'SELECT COUNT(*) FROM "people"'
    """
    parts = {name: part for name, part in tree.args.items() if part}
    kind = type(tree).__name__
    form = _FORMS.get((kind, *sorted(parts)))
    if form is None or (kind == "Identifier" and not _NAME.fullmatch(tree.this)):
        return tree.sql(dialect="duckdb", copy=False)
    return form.format(**{name: _write(part) for name, part in parts.items()})


def _write(part: Any) -> str:
    if isinstance(part, list):
        return ", ".join(map(write_tree, part))
    return part if isinstance(part, str) else write_tree(part) if hasattr(part, "args") else ""
