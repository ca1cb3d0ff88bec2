"""What a condition on a row means over a domain, in SQL's three-valued logic: what is missing meets no condition."""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sordino.domain import Boolean, Category, Domain, Identifier
from sordino.errors import QuestionRefused
from sordino.primitives import Primitives
from sordino.queries.cells import any_cell, category_code, place
from sordino.queries.expr import (
    MIRROR,
    Compare,
    Connective,
    Constant,
    IsIn,
    IsNull,
    Name,
    Node,
    Not,
    Value,
    depth,
    describe,
)
from sordino.queries.measure import WIDEST, Measure, common, number, rescaled
from sordino.queries.words import Build, compared, one_of, sql, whole

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = ["Predicate", "predicate"]


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition on a row, in SQL's three-valued logic."""

    build: Build


def predicate(node: Node, domain: Domain) -> Predicate:
    """Return what a condition means; raises QuestionRefused for what is none."""
    depth(node)
    return Predicate(_condition(node, domain))


def _condition(node: Node, domain: Domain) -> Build:
    if isinstance(node, Connective):
        return _connective(node, domain)
    if isinstance(node, Not):
        inner = _condition(node.of, domain)
        return lambda on: sql().Not(this=sql().paren(inner(on)))
    if isinstance(node, Compare):
        return _compared(node, domain)
    if isinstance(node, IsIn):
        return _is_in(node, domain)
    if isinstance(node, IsNull):
        cell = any_cell(node.of, domain)
        return lambda on: sql().paren(sql().Is(this=sql().paren(cell(on)), expression=sql().Null()))
    if isinstance(node, Name) and isinstance(domain[node.name], Boolean):
        return any_cell(node, domain)
    if isinstance(node, Constant) and isinstance(node.value, bool):
        value = node.value
        return lambda _: sql().true() if value else sql().false()
    raise QuestionRefused(f"a condition is needed, such as age > 30, not {describe(node)}")


def _connective(node: Connective, domain: Domain) -> Build:
    """Join conditions; a chain of one kind stays a chain, so that a long one does not nest."""
    parts = [_condition(part, domain) for part in _chain(node)]

    def build(on: Primitives) -> exp.Expression:
        from sqlglot import exp

        join = exp.and_ if node.op == "and" else exp.or_
        return exp.paren(join(*(exp.paren(part(on)) for part in parts), wrap=False, copy=False))

    return build


def _chain(node: Connective) -> list[Node]:
    """Return the conditions that a chain of one connective joins, in order, without recursion."""
    found: list[Node] = []
    nodes: list[Node] = [node]
    while nodes:
        at = nodes.pop()
        if isinstance(at, Connective) and at.op == node.op:
            nodes += [at.right, at.left]
        else:
            found.append(at)
    return found


def _compared(node: Compare, domain: Domain) -> Build:
    left, right, op = node.left, node.right, node.op
    if isinstance(left, Constant) and not isinstance(right, Constant):
        left, right, op = right, left, MIRROR[op]
    column = domain[left.name] if isinstance(left, Name) else None
    if isinstance(column, (Category, Boolean, Identifier)):
        return _compared_cell(left, op, right, domain)
    a = number(left, domain)
    if a.kind == "date" and isinstance(right, Constant) and isinstance(right.value, str):
        right = Constant(_day(right.value))
    b = number(right, domain)
    if a.kind != b.kind:
        raise QuestionRefused(f"{describe(node)} compares a date with a number: write a day such as '2000-01-31'")
    if isinstance(right, Constant):
        return _against_constant(a, op, b.unit * (b.interval.lower or 0))
    unit = common(a.unit, b.unit)
    return compared(rescaled(a, unit).build, op, rescaled(b, unit).build)


def _against_constant(of: Measure, op: str, value: Fraction) -> Build:
    """Compare whole steps with a constant exactly: the constant moves to the whole step that says the same."""
    steps = value / of.unit
    if steps.denominator != 1:
        if op in ("=", "!="):
            steps, op = Fraction(0), {"=": "never", "!=": "always"}[op]
        elif op in ("<", "<="):
            steps, op = Fraction(math.floor(steps)), "<="
        else:
            steps, op = Fraction(math.ceil(steps)), ">="
    bound = max(-WIDEST, min(WIDEST, int(steps)))
    if op in ("never", "always"):  # keeps missing missing
        never = op == "never"
        return compared(of.build, "!=" if never else "=", of.build)
    return compared(of.build, op, lambda _: whole(bound))


def _compared_cell(left: Node, op: str, right: Node, domain: Domain) -> Build:
    if op not in ("=", "!="):
        raise QuestionRefused(f"{describe(left)} is no number: it can be compared with = and != only")
    if not isinstance(right, Constant):
        raise QuestionRefused(f"{describe(left)} can be compared with a value only, not with {describe(right)}")
    chosen = _is_in(IsIn(left, (right.value,)), domain)
    return chosen if op == "=" else lambda on: sql().Not(this=sql().paren(chosen(on)))


def _is_in(node: IsIn, domain: Domain) -> Build:
    column = domain[node.of.name] if isinstance(node.of, Name) else None
    if isinstance(node.of, Name) and isinstance(column, Category):
        codes = sorted({place(node.of.name, column, v) for v in node.values})
        cell = category_code(node.of.name, column)
        return lambda on: one_of(cell(on), [whole(c) for c in codes])
    if isinstance(node.of, Name) and isinstance(column, Identifier):
        name, texts = node.of.name, sorted({_identifier(v) for v in node.values})
        return lambda on: one_of(on.text(name), [sql().Literal.string(t) for t in texts])
    if isinstance(node.of, Name) and isinstance(column, Boolean):
        if not all(isinstance(v, bool) for v in node.values):
            raise QuestionRefused(f"column {node.of.name!r} is true or false: compare it with those")
        truth = any_cell(node.of, domain)
        return lambda on: one_of(truth(on), [sql().true() if v else sql().false() for v in node.values])
    built = [_compared(Compare("=", node.of, Constant(v)), domain) for v in node.values]

    def build(on: Primitives) -> exp.Expression:
        from sqlglot import exp

        return exp.paren(exp.or_(*(b(on) for b in built)))

    return build


def _identifier(value: Value) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Fraction) and not isinstance(value, bool) and value.denominator == 1:
        return str(value)
    raise QuestionRefused("an identifier is compared with text or a whole number")


def _day(text: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise QuestionRefused(f"a day is written as 2000-01-31, not {text[:20]!r}") from None
