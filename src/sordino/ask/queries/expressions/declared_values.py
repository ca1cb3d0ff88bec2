"""Functions of text over declared values: computed beforehand for each declared value, never for a row.

A category has a public list of values. What UPPER, SUBSTR, LIKE or a concatenation makes of each is public too, and a row
has the code of its value: so these functions are total, exact on every engine, and their results are public keys.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sordino.ask.queries.expressions.bound_number import BoundNumber, Interval, category_code, truth_code
from sordino.ask.queries.expressions.nodes import Constant, Match, Name, Node, TextFunction, describe
from sordino.ask.queries.expressions.sql_trees import Build, one_of, whole
from sordino.core.domain import Boolean, Category, Domain
from sordino.core.errors import DeclarationError, QuestionRefused
from sordino.core.loss import to_fraction
from sordino.core.primitives import Primitives

if TYPE_CHECKING:
    from sqlglot import exp

_MOST_VALUES = 100_000
_LONGEST_PATTERN = 1_000


@dataclass(frozen=True, slots=True)
class DeclaredValues:
    """What an expression is for each combination of declared values: `values` by code; `build` gives a row's code.

    A value of None is missing, and so is the code of a row with a missing cell.
    """

    values: tuple[Any, ...]
    build: Build


def is_text(node: Node) -> bool:
    """Return whether an expression is made of text: a function of it that is no number."""
    return isinstance(node, TextFunction) and node.function not in ("length", "number")


def bind_values(node: Node, domain: Domain) -> DeclaredValues:
    """Return what an expression is for each declared value; raises QuestionRefused where values are not declared."""
    if isinstance(node, Constant):
        return DeclaredValues((_text(node.value),), lambda _: whole(0))
    if isinstance(node, Name):
        column = domain[node.name]
        if isinstance(column, Category):
            return DeclaredValues(column.values, category_code(node.name, column))
        if isinstance(column, Boolean):
            return DeclaredValues((False, True), truth_code(node.name, column))
        raise QuestionRefused(
            f"{node.name} has no declared values: functions of text need a category, declared with its values"
        )
    if not isinstance(node, TextFunction):
        raise QuestionRefused(f"a function of text needs a column of declared values, not {describe(node)}")
    if node.function == "concat":
        return _concat(bind_values(node.of, domain), bind_values(node.right or Constant(""), domain), node)
    of = bind_values(node.of, domain)
    function = _FUNCTIONS[node.function]
    return DeclaredValues(
        tuple(None if v is None else function(_text(v), *node.arguments) for v in of.values), of.build
    )


def _concat(one: DeclaredValues, other: DeclaredValues, node: Node) -> DeclaredValues:
    many = len(one.values) * len(other.values)
    if many > _MOST_VALUES:
        raise QuestionRefused(f"{describe(node)} has {many} possible values, above {_MOST_VALUES}")
    values = tuple(None if a is None or b is None else _text(a) + _text(b) for a in one.values for b in other.values)
    return DeclaredValues(values, lambda on: _pair(one.build(on), other.build(on), len(other.values)))


def _pair(one: exp.Expression, other: exp.Expression, size: int) -> exp.Expression:
    from sqlglot import exp

    first = exp.paren(exp.Mul(this=exp.paren(one), expression=whole(size)))
    return exp.paren(exp.Add(this=first, expression=exp.paren(other)))


def match_text(node: Match, domain: Domain) -> Build:
    """Return the condition that a text matches: by the codes of the declared values that do."""
    found = bind_values(node.of, domain)
    matches = pattern_test(node.kind, node.pattern)
    return choose_values(found, lambda v: matches(_text(v)))


def choose_values(of: DeclaredValues, chosen: Callable[[Any], bool]) -> Build:
    """Return the condition that an expression has one of the values that are chosen; missing where it is missing."""
    codes = [i for i, v in enumerate(of.values) if v is not None and chosen(v)]
    missing = [i for i, v in enumerate(of.values) if v is None]

    def build(on: Primitives) -> exp.Expression:
        from sqlglot import exp

        code = of.build(on)
        if missing:
            code = exp.paren(
                exp.Case(
                    ifs=[exp.If(this=one_of(code, [whole(c) for c in missing]), true=exp.Null())], default=code.copy()
                )
            )
        return one_of(code, [whole(c) for c in codes or (-1,)])

    return build


def value_keys(of: DeclaredValues) -> tuple[tuple[Any, ...], Build]:
    """Return the different values, in order of their first code, and the place of a row's value among them."""
    labels = tuple(dict.fromkeys(v for v in of.values if v is not None))
    if not labels:
        raise QuestionRefused("every declared value is missing there: there is nothing to group by")
    codes = {v: [i for i, w in enumerate(of.values) if w == v and type(w) is type(v)] for v in labels}

    def build(on: Primitives) -> exp.Expression:
        from sqlglot import exp

        code = of.build(on)
        ifs = [
            exp.If(this=one_of(code.copy(), [whole(c) for c in codes[v]]), true=whole(i)) for i, v in enumerate(labels)
        ]
        return exp.paren(exp.Case(ifs=ifs, default=exp.Null()))

    return labels, build


def number_of_text(node: TextFunction, domain: Domain) -> BoundNumber:
    """Return the number that a function makes of declared values: LENGTH, or CAST of values that are numbers."""
    of = bind_values(node.of, domain)
    made = [None if v is None else text_number(node.function, v) for v in of.values]
    known = [n for n in made if n is not None]
    if not known:
        raise QuestionRefused(f"{describe(node)}: no declared value is a number")
    unit = Fraction(1, math.lcm(*(n.denominator for n in known)))
    interval = Interval(min(known) / unit, max(known) / unit)
    steps = DeclaredValues(tuple(None if n is None else int(n / unit) for n in made), of.build)

    def build(on: Primitives) -> exp.Expression:
        from sqlglot import exp

        labels, place = value_keys(steps)
        code = place(on)
        ifs = [exp.If(this=exp.EQ(this=code.copy(), expression=whole(i)), true=whole(v)) for i, v in enumerate(labels)]
        return exp.paren(exp.Case(ifs=ifs, default=exp.Null()))

    return BoundNumber(unit, interval, interval, True, build)


def pattern_test(kind: str, pattern: str) -> Callable[[str], bool]:
    """Return the test of a pattern: like, ilike (% and _ stand for any), regex (anywhere in the text), prefix, suffix, part.

    >>> pattern_test("like", "S%s")("Sales"), pattern_test("regex", "^[A-C]")("Sales")
    (True, False)
    """
    if len(pattern) > _LONGEST_PATTERN:
        raise QuestionRefused(f"a pattern may have {_LONGEST_PATTERN} characters, not {len(pattern)}")
    if kind in ("like", "ilike"):
        parts = [".*" if c == "%" else "." if c == "_" else re.escape(c) for c in pattern]
        whole_text = re.compile("".join(parts), re.DOTALL | (re.IGNORECASE if kind == "ilike" else 0))
        return lambda text: whole_text.fullmatch(text) is not None
    if kind == "regex":
        return _regex(pattern)
    return {
        "prefix": lambda text: text.startswith(pattern),
        "suffix": lambda text: text.endswith(pattern),
        "part": lambda text: pattern in text,
    }[kind]


def _regex(pattern: str) -> Callable[[str], bool]:
    found: re.Pattern[str] | None = None
    try:
        found = re.compile(pattern)
    except re.error:
        found = None
    if found is None:
        raise QuestionRefused(f"{pattern[:60]!r} is not a valid regular expression")
    search = found.search
    return lambda text: search(text) is not None


def text_number(function: str, value: Any) -> Fraction | None:
    """Return the number that length or number makes of a declared value; None where it is no number."""
    text = _text(value)
    if function == "length":
        return Fraction(len(text))
    try:
        return Fraction(text == "true") if text in ("true", "false") else to_fraction(text.strip(), name="a value")
    except DeclarationError:
        return None


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


def _substring(text: str, start: Any, length: Any = None) -> str:
    """Return a part of a text as SQL counts: from 1; a negative start counts from the end."""
    first = int(start) - 1 if start > 0 else len(text) + int(start) if start < 0 else 0
    end = len(text) if length is None else first + int(length) - (1 if start == 0 else 0)
    return text[max(first, 0) : max(end, 0)]


def _end(text: str, count: Any) -> str:
    return text[max(len(text) - int(count), 0) :] if count > 0 else ""


_FUNCTIONS: dict[str, Callable[..., str]] = {
    "upper": str.upper,
    "lower": str.lower,
    "trim": lambda text: text.strip(" "),
    "ltrim": lambda text: text.lstrip(" "),
    "rtrim": lambda text: text.rstrip(" "),
    "substr": _substring,
    "left": lambda text, count: text[: max(int(count), 0)],
    "right": _end,
    "replace": lambda text, old, new: text.replace(old, new) if old else text,
}
