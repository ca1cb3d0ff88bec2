"""Our own SQL text, and its trees: only names and values that we quoted ourselves are in it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, cast

from sordino.ask.engines.quoting import quote_text
from sordino.core.primitives import WIDEST, check_range

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.dialects.dialect import DialectType

CHOICE = "sordino"  # public: keys the hashes, so that no other program's are the same


def parse_own(text: str, dialect: DialectType = "duckdb") -> exp.Expression:
    """Return the tree of an expression; equal texts are parsed once."""
    return _parse_once(text, dialect).copy()


def parse_relation(text: str, dialect: DialectType = "duckdb") -> exp.Expression:
    """Return the tree of a relation, such as a sub-query with its name."""
    select = _parse_once(f"SELECT 1 FROM {text}", dialect).copy()
    found: exp.Expression = (select.args.get("from_") or select.args["from"]).this
    return found


@functools.lru_cache(maxsize=512)
def _parse_once(text: str, dialect: DialectType) -> exp.Expression:
    from sqlglot import parse_one

    return cast("exp.Expression", parse_one(text, dialect=dialect))


@functools.lru_cache(maxsize=512)
def translate(text: str, dialect: DialectType) -> str:
    """Return our own text in a dialect's words; equal texts are parsed once."""
    from sqlglot import parse_one

    return parse_one(text, dialect=dialect).sql(dialect=dialect, copy=False)


def people_name(table: str) -> str:
    """Return the name under which another private table of the same people is held."""
    return f"sordino_people_{table}"


def public_name(table: str) -> str:
    """Return the name under which a public table is held."""
    return f"sordino_public_{table}"


def case_bounds(cell: str, lower: int | None, upper: int | None) -> str:
    """Return the branches of a CASE that clip a cell; None leaves a side open."""
    low = "" if lower is None else f"WHEN {cell} < {whole_text(lower)} THEN {whole_text(lower)} "
    high = "" if upper is None else f"WHEN {cell} > {whole_text(upper)} THEN {whole_text(upper)}"
    return low + high


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
