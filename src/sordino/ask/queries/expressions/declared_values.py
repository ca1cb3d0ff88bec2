"""Functions of text over declared values: computed beforehand for each declared value, never for a row.

A category has a public list of values. What UPPER, SUBSTR, LIKE or a concatenation makes of each is public too, and a row
has the code of its value: so these functions are total, exact on every engine, and their results are public keys.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sordino.ask.queries.expressions.bound_number import BoundNumber, Interval, category_code, truth_code
from sordino.ask.queries.expressions.nodes import Apply, Constant, Name, Node, TextFunction, When, describe, walk
from sordino.ask.queries.expressions.sql_trees import Build, plus, trees, whole
from sordino.core.domain import Boolean, Category, Domain, Identifier
from sordino.core.errors import DeclarationError, QuestionRefused
from sordino.core.loss import to_fraction
from sordino.core.primitives import Primitives

if TYPE_CHECKING:
    from sqlglot import exp

MOST_VALUES = 100_000
_LONGEST_PATTERN = 1_000
# beyond so many values, their places are looked up by halving
_FEW_VALUES = 32


@dataclass(frozen=True, slots=True)
class DeclaredValues:
    """What an expression is for each combination of declared values: `values` by code; `build` gives a row's code.

    A value of None is missing, and so is the code of a row with a missing cell.
    """

    values: tuple[Any, ...]
    build: Build


def is_text(node: Node) -> bool:
    """Return whether an expression is made of text: a function of it that is no number."""
    return isinstance(node, TextFunction) and node.function not in ("length", "number", "strpos")


def _refuse_other(node: Node) -> DeclaredValues:
    raise QuestionRefused(f"a function of text needs a column of declared values, not {describe(node)}")


def bind_values(node: Node, domain: Domain, other: Callable[[Node], DeclaredValues] = _refuse_other) -> DeclaredValues:
    """Return what an expression is for each declared value; raises QuestionRefused where values are not declared.

    `other` says it of expressions that are neither columns of declared values nor functions of text.
    """
    if isinstance(node, Constant):
        return DeclaredValues((show_text(node.value),), lambda _: whole(0))
    if isinstance(node, Name):
        column = domain[node.name]
        if isinstance(column, Category):
            return DeclaredValues(column.values, category_code(node.name, column))
        if isinstance(column, Boolean):
            return DeclaredValues((False, True), truth_code(node.name, column))
        if isinstance(column, Identifier) or other is _refuse_other:
            raise QuestionRefused(
                f"{node.name} has no declared values: functions of text need a category, declared with its values"
            )
    if not is_text(node) or not isinstance(node, TextFunction):
        return other(node)
    if node.function in ("concat", "join"):
        parts = [(part, bind_values(part, domain, other)) for part in (node.of, node.right or Constant(""))]
        if node.function == "join":
            parts = [(part, _or_empty(values) if keeps_missing(part, domain) else values) for part, values in parts]
        return pair_values(parts[0][1], parts[1][1], lambda a, b: show_text(a) + show_text(b), node)
    of = bind_values(node.of, domain, other)
    function = _FUNCTIONS[node.function]
    return DeclaredValues(
        tuple(None if v is None else function(show_text(v), *node.arguments) for v in of.values), of.build
    )


def keeps_missing(node: Node, domain: Domain) -> bool:
    """Return whether rows in which an expression is missing count: by a column that keeps them, or by the question."""
    return any(
        (isinstance(at, When) and at.right is None)
        or (isinstance(at, Apply) and at.right is not None)
        or (isinstance(at, Name) and getattr(domain[at.name], "missing", "drop") == "keep")
        for at in walk(node)
    )


def _or_empty(of: DeclaredValues) -> DeclaredValues:
    """Return the values with an empty text in place of missing ones."""
    values = tuple("" if v is None else v for v in of.values)

    def build(on: Primitives) -> exp.Expression:
        filled: exp.Expression = trees().Coalesce(this=of.build(on), expressions=[whole(len(values))])
        return filled

    return DeclaredValues((*values, ""), build)


def pair_values(
    one: DeclaredValues, other: DeclaredValues, function: Callable[[Any, Any], Any], node: Node
) -> DeclaredValues:
    """Return what a function makes of each pair of values, missing where either is; `node` is what a refusal names."""
    many = len(one.values) * len(other.values)
    if many > MOST_VALUES:
        raise QuestionRefused(f"{describe(node)} has {many} possible values, above {MOST_VALUES}")
    values = tuple(None if a is None or b is None else function(a, b) for a in one.values for b in other.values)
    return DeclaredValues(values, lambda on: _pair(one.build(on), other.build(on), len(other.values)))


def either_value(condition: Build, one: DeclaredValues, other: DeclaredValues | None) -> DeclaredValues:
    """Return the first values where a condition is true, else the other ones; missing without these."""
    rest = DeclaredValues((), lambda _: trees().Null()) if other is None else other

    def build(on: Primitives) -> exp.Expression:
        kinds = trees()
        first = kinds.If(this=kinds.paren(condition(on)), true=one.build(on))
        last = kinds.Null() if other is None else plus(other.build(on), len(one.values))
        case: exp.Expression = kinds.paren(kinds.Case(ifs=[first], default=last))
        return case

    return DeclaredValues((*one.values, *rest.values), build)


def _pair(one: exp.Expression, other: exp.Expression, size: int) -> exp.Expression:
    from sqlglot import exp

    first = exp.paren(exp.Mul(this=exp.paren(one), expression=whole(size)))
    return exp.paren(exp.Add(this=first, expression=exp.paren(other)))


def choose_values(of: DeclaredValues, accepts: Callable[[Any], bool]) -> Build:
    """Return the condition that an expression has one of the values that are chosen; missing where it is missing."""
    codes = [i for i, v in enumerate(of.values) if v is not None and accepts(v)]
    missing = [i for i, v in enumerate(of.values) if v is None]

    def build(on: Primitives) -> exp.Expression:
        from sqlglot import exp

        code = of.build(on)
        if missing:
            code = exp.paren(
                exp.Case(
                    ifs=[exp.If(this=on.is_code(code, missing, below=len(of.values)), true=exp.Null())],
                    default=code.copy(),
                )
            )
        return on.is_code(code, codes or (-1,), below=len(of.values))

    return build


def value_keys(of: DeclaredValues) -> tuple[tuple[Any, ...], Build]:
    """Return the different values, in order of their first code, and the place of a row's value among them."""
    labels = tuple(dict.fromkeys(v for v in of.values if v is not None))
    if not labels:
        raise QuestionRefused("every declared value is missing there: there is nothing to group by")
    codes: dict[Any, list[int]] = {v: [] for v in labels}
    for i, value in enumerate(of.values):
        if value is not None:
            codes[value].append(i)

    def build(on: Primitives) -> exp.Expression:
        from sqlglot import exp

        code = of.build(on)
        if len(of.values) > _FEW_VALUES:
            # A choice among so many would hold the code's text once for each: a day cast to text took 30 s to write.
            places = {v: i for i, v in enumerate(labels)}
            place = _look_up(on, code, [None if v is None else places[v] for v in of.values], missing=-1)
            present = exp.GTE(this=place, expression=whole(0))
            return exp.paren(exp.Case(ifs=[exp.If(this=present, true=place.copy())]))
        ifs = [
            exp.If(this=on.is_code(code.copy(), codes[v], below=len(of.values)), true=whole(i))
            for i, v in enumerate(labels)
        ]
        return exp.paren(exp.Case(ifs=ifs, default=exp.Null()))

    return labels, build


def _look_up(on: Primitives, code: exp.Expression, results: Sequence[int | None], *, missing: int) -> exp.Expression:
    """Return the result of a code, which is its place among them; `missing` for None."""
    numbers = [missing if result is None else result for result in results]
    starts = [i for i in range(1, len(numbers)) if numbers[i] != numbers[i - 1]]
    return on.look_up(code, starts, [numbers[i] for i in (0, *starts)])


def number_of_text(node: TextFunction, of: DeclaredValues) -> BoundNumber:
    """Return the number that a function makes of declared values: LENGTH, STRPOS, or CAST of values that are numbers."""
    numbers = [None if v is None else text_number(node.function, v, *node.arguments) for v in of.values]
    present = [n for n in numbers if n is not None]
    if not present:
        raise QuestionRefused(f"{describe(node)}: no declared value is a number")
    unit = Fraction(1, math.lcm(*(n.denominator for n in present)))
    interval = Interval(min(present) / unit, max(present) / unit)
    steps = DeclaredValues(tuple(None if n is None else int(n / unit) for n in numbers), of.build)

    def build(on: Primitives) -> exp.Expression:
        from sqlglot import exp

        if len(of.values) > _FEW_VALUES:
            absent = min(n for n in steps.values if n is not None) - 1
            number = _look_up(on, of.build(on), steps.values, missing=absent)
            present = exp.GT(this=number, expression=whole(absent))
            return exp.paren(exp.Case(ifs=[exp.If(this=present, true=number.copy())]))
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
    compiled: re.Pattern[str] | None = None
    try:
        compiled = re.compile(pattern)
    except re.error:
        compiled = None
    if compiled is None:
        raise QuestionRefused(f"{pattern[:60]!r} is not a valid regular expression")
    search = compiled.search
    return lambda text: search(text) is not None


def text_number(function: str, value: Any, *arguments: Any) -> Fraction | None:
    """Return the number that length, strpos or number makes of a declared value; None where it is no number.

    >>> text_number("strpos", "south", "th"), text_number("strpos", "south", "x"), text_number("length", "south")
    (Fraction(4, 1), Fraction(0, 1), Fraction(5, 1))
    """
    text = show_text(value)
    if function == "length":
        return Fraction(len(text))
    if function == "strpos":
        return Fraction(text.find(str(arguments[0])) + 1)
    try:
        return Fraction(text == "true") if text in ("true", "false") else to_fraction(text.strip(), name="a value")
    except DeclarationError:
        return None


def show_text(value: Any) -> str:
    """Return a declared value as the text that a cast makes of it.

    >>> show_text(True), show_text(7), show_text("a")
    ('true', '7', 'a')
    """
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


def _fill(text: str, length: Any, words: str) -> str:
    """Return the words that fill a text up to a length, cut where they are too many."""
    missing = max(int(length) - len(text), 0)
    return (words * missing)[:missing]


def _split_part(text: str, between: str, place: Any) -> str:
    """Return the part of a text at a place among those that a separator divides it into, from 1; from the end below 0."""
    parts = text.split(between) if between else [text]
    at = int(place) - 1 if place > 0 else len(parts) + int(place)
    return parts[at] if place and 0 <= at < len(parts) else ""


_FUNCTIONS: dict[str, Callable[..., str]] = {
    "reverse": lambda text: text[::-1],
    "split_part": _split_part,
    "lpad": lambda text, length, words: (_fill(text, length, words) + text)[: int(length)],
    "rpad": lambda text, length, words: (text + _fill(text, length, words))[: int(length)],
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
