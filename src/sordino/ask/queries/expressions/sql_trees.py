"""SQL trees that every expression is built from: constants, comparisons, membership, clauses. Knows no engine and no column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sordino.core.primitives import Primitives, check_range

if TYPE_CHECKING:
    from sqlglot import exp

Build = Callable[[Primitives], "exp.Expression"]


def whole(number: int) -> exp.Expression:
    """Return a whole number as SQL; raises QuestionRefused past 37 digits, the last guard before any engine."""
    from sqlglot import exp

    check_range(number)
    if abs(number) >= 2**63:
        return exp.Cast(this=exp.Literal.string(str(number)), to=exp.DataType.build("DECIMAL(38, 0)"))
    literal = exp.Literal.number(number) if abs(number) < 2**31 else exp.Literal.string(str(number))
    # to parse "BIGINT" takes 20 times as long
    kind = exp.DataType(this=exp.DataType.Type.BIGINT, nested=False)
    return exp.Cast(this=literal, to=kind)


def greatest(*present: exp.Expression) -> exp.Expression:
    """Return the largest of numbers of which none is ever missing.

    Of numbers that may be missing sqlglot writes each twice for DuckDB, once to ask whether it is, and nested ones four times.

    >>> greatest(plus(whole(1), 0), whole(2)).sql(dialect="duckdb")
    'GREATEST(CAST(1 AS BIGINT), CAST(2 AS BIGINT))'
    """
    from sqlglot import exp

    return exp.Greatest(this=present[0], expressions=list(present[1:]), ignore_nulls=True)


def least(*present: exp.Expression) -> exp.Expression:
    """Return the smallest of numbers of which none is ever missing."""
    from sqlglot import exp

    return exp.Least(this=present[0], expressions=list(present[1:]), ignore_nulls=True)


def plus(value: exp.Expression, number: int) -> exp.Expression:
    from sqlglot import exp

    return value if number == 0 else exp.Paren(this=exp.Add(this=value, expression=whole(number)))


def comparison(left: Build, op: str, right: Build) -> Build:
    def build(on: Primitives) -> exp.Expression:
        from sqlglot import exp

        kinds: dict[str, Any] = {
            "=": exp.EQ,
            "!=": exp.NEQ,
            "<": exp.LT,
            "<=": exp.LTE,
            ">": exp.GT,
            ">=": exp.GTE,
        }
        tree: exp.Expression = kinds[op](this=exp.Paren(this=left(on)), expression=exp.Paren(this=right(on)))
        return exp.Paren(this=tree)

    return build


def trees() -> Any:
    """Return the module of SQL trees, imported on first use."""
    from sqlglot import exp

    return exp


def constant(number: int) -> Build:
    return lambda _: whole(number)


def within(of: Build, least: int, most: int) -> Build:
    """Return a number that is never outside [least, most], clipped to it: an engine names what it clips, computed once.

    What an engine has named is not built again for the same words, as a calendar uses it many times over.
    """
    named: dict[str, tuple[Primitives, exp.Expression]] = {}

    def build(on: Primitives) -> exp.Expression:
        last = named.get("last")
        if last is None or last[0] is not on:
            last = (on, on.clip(of(on), least, most))
            # at once, as several threads may build
            named["last"] = last
        return last[1].copy()

    return build


def add(one: Build, other: Build) -> Build:
    return lambda on: _combine("Add", one(on), other(on))


def subtract(one: Build, other: Build) -> Build:
    return lambda on: _combine("Sub", one(on), other(on))


def multiply(one: Build, number: int) -> Build:
    return one if number == 1 else lambda on: _combine("Mul", one(on), whole(number))


def divide(one: Build, number: int) -> Build:
    """Return the whole quotient of a number that is never below 0."""
    return one if number == 1 else lambda on: _combine("IntDiv", one(on), whole(number))


def _combine(kind: str, one: exp.Expression, other: exp.Expression) -> exp.Expression:
    from sqlglot import exp

    tree: exp.Expression = getattr(exp, kind)(this=one, expression=other)
    return exp.Paren(this=tree)


def truth_as_number(condition: Build) -> Build:
    """Return 1 where a condition is true, 0 where it is false, NULL where it is neither."""

    def build(on: Primitives) -> exp.Expression:
        from sqlglot import exp

        holds = exp.Paren(this=condition(on))
        ifs = [exp.If(this=holds, true=whole(1)), exp.If(this=exp.Not(this=holds.copy()), true=whole(0))]
        return exp.Paren(this=exp.Case(ifs=ifs, default=exp.Null()))

    return build


# ---- Clauses of SELECTs that were parsed


def from_of(select: Any) -> Any:
    """Return the FROM clause of a SELECT, None without one; versions of sqlglot differ in its name."""
    return select.args.get("from_") or select.args.get("from")


def with_of(query: Any) -> Any:
    """Return the WITH clause of a query, None without one."""
    return query.args.get("with_") or query.args.get("with")


def and_parts(condition: Any) -> list[Any]:
    """Return the conditions that AND joins at the top of a condition; none for None."""
    if condition is None:
        return []
    return list(condition.flatten()) if isinstance(condition, trees().And) else [condition]


def move_to_on(select: Any, join: Any, conditions: Sequence[Any]) -> None:
    """Move some conditions of WHERE to the ON of a comma join or CROSS JOIN; the tree is changed."""
    where = select.args["where"]
    rest = [part for part in and_parts(where.this) if not any(part is condition for condition in conditions)]
    unnested = [condition.unnest() for condition in conditions]
    join.set("on", trees().and_(*unnested, copy=False) if len(unnested) > 1 else unnested[0])
    join.set("kind", None)
    if rest:
        where.set("this", trees().and_(*rest, copy=False))
    else:
        select.set("where", None)


def write_duckdb(tree: Any) -> str:
    """Return a tree in DuckDB's SQL; words that it lacks are refused where they are read, and logged nowhere."""
    from sqlglot.errors import ErrorLevel

    text: str = tree.sql(dialect="duckdb", unsupported_level=ErrorLevel.IGNORE)
    return text
