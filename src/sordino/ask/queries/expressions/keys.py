"""The declared keys of a group-by column: public labels, and the SQL that gives each row its code."""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sordino.ask.queries.expressions.bound_number import BoundNumber, bin_index, integer_cell
from sordino.ask.queries.expressions.column_codes import encode_category, truth_code, whole_values
from sordino.ask.queries.expressions.compile import bind_condition, bind_number, plain_number
from sordino.ask.queries.expressions.declared_values import bind_values, is_text, value_keys
from sordino.ask.queries.expressions.missing import may_be_missing
from sordino.ask.queries.expressions.nodes import (
    Absolute,
    Apply,
    Arithmetic,
    Bin,
    Clip,
    Compare,
    Connective,
    Constant,
    DateFormat,
    DatePart,
    DateTrunc,
    IsIn,
    IsNull,
    Match,
    Name,
    Node,
    Not,
    Shift,
    TextFunction,
    When,
    depth,
    describe,
    sql_name,
    walk,
)
from sordino.ask.queries.expressions.sql_trees import Build, plus, sql, whole
from sordino.ask.queries.expressions.time_formats import format_time
from sordino.ask.queries.expressions.times import TIMES, moment_constant, time_label, truncate_time
from sordino.core.domain import Boolean, Category, Date, DateTime, Domain, Identifier, Integer, Real
from sordino.core.errors import QuestionRefused
from sordino.core.loss import format_number
from sordino.core.primitives import Primitives
from sordino.core.time_zones import show_time

if TYPE_CHECKING:
    from sqlglot import exp

_MOST_KEYS = 1_000_000
_MOST_BINS = 100_000  # each has two fractions for its ends, and a label: a second's work


def _time_keys(node: Node, of: BoundNumber) -> tuple[tuple[Any, ...], Build]:
    """Return the labels and the code of a key that is made of a date or a moment `of`.

    Labels are dates, moments on the zone's clock, or texts of a format. Raises QuestionRefused where they are too many.
    """
    if isinstance(node, DateFormat):
        found = format_time(node.format, of)
        return (found.values, found.build) if len(set(found.values)) == len(found.values) else value_keys(found)
    if isinstance(node, Bin):
        return _time_bins(node, of)
    if isinstance(node, DateTrunc):
        truncation = truncate_time(node.unit, int(node.count), of)
        low, high = _ends(truncation.index, node)
        return tuple(truncation.label(i) for i in range(low, high + 1)), _from(truncation.index, low)
    low, high = _ends(of, node)
    return tuple(time_label(i, of) for i in range(low, high + 1)), _from(of, low)


def _from(of: BoundNumber, low: int) -> Build:
    return lambda on: plus(of.build(on), -low)


def _ends(of: BoundNumber, node: Node) -> tuple[int, int]:
    low, high = int(of.interval.lower or 0), int(of.interval.upper or 0)
    if high - low >= _MOST_KEYS:
        many, words = f"{describe(node)} has {high - low + 1} declared values, too many keys", describe(node)
        raise QuestionRefused(
            f'{many}: group by a coarser part, such as .truncate("day")',
            sql=f"{many}: group by a coarser part, such as DATE_TRUNC('day', {words})",
        )
    return low, high


def _time_bins(node: Bin, of: BoundNumber) -> tuple[tuple[datetime.date, ...], Build]:
    """Return bins from the lower bound on, by a width in days or seconds, or by edges; each is shown by where it begins."""
    values = of.values
    if node.edges is None:
        width, low, high = node.width or Fraction(1), values.lower or Fraction(0), values.upper or Fraction(0)
        if (width / of.unit).denominator != 1:
            what = "whole days" if of.kind == "date" else f"a multiple of {format_number(of.unit)} seconds"
            raise QuestionRefused(f"bins of {describe(node.of)} have a width of {what}, not {format_number(width)}")
        count = int((high - low) // width) + 1
        if count > _MOST_KEYS:
            raise QuestionRefused(f"bins of {describe(node.of)} make {count} keys, too many: take a larger width")
        starts = [low + width * i for i in range(count)]
        steps = [int(s / of.unit) for s in [*starts, low + width * count]]
    else:
        edges = [moment_constant(edge, of) for edge in node.edges]
        if any(a >= b for a, b in itertools.pairwise(edges)) or any((e / of.unit).denominator != 1 for e in edges):
            raise QuestionRefused(f"the edges of bins of {describe(node.of)} ascend, each a step of its resolution")
        starts, steps = edges[:-1], [int(e / of.unit) for e in edges]
    return tuple(show_time(s, of.kind, of.zone) for s in starts), bin_index(of, steps)


@dataclass(frozen=True, slots=True)
class Keys:
    """The declared keys of one group-by column: one label a code, from 0; `build` gives the code, NULL for dropped.

    Where there is `code`, `build` gives a raw cell and `code` makes the code of it: rows are grouped by the cell first,
    which is the faster for text, and the few groups by their codes after.

    Where missing is a key of its own its label is None and its code the last; the SQL already says so. Where the keys are
    `private`, there are no labels and `build` gives the cell itself.
    """

    labels: tuple[Any, ...]
    build: Build
    code: Callable[[Primitives, exp.Expression], exp.Expression] | None = None
    private: bool = False
    column: str | None = None


def keys(node: Node, domain: Domain) -> Keys:
    """Return the declared keys of a group-by expression: a category, a boolean, a bounded whole number, bins, a choice.

    Raises QuestionRefused where the keys are not public, or too many.
    """
    depth(node)
    of = _time(node, domain)
    if of is not None:
        labels, build = _time_keys(node, of)
        return _keep_missing(labels, build, node, domain)
    if isinstance(node, Bin):
        return _bins(node, domain)
    if isinstance(node, When):
        return _choice(node, domain)
    if isinstance(node, DatePart):
        return _parts(node, domain)
    if is_text(node):
        labels, build = value_keys(bind_values(node, domain))
        return _keep_missing(labels, build, node, domain)
    if isinstance(node, (Compare, Connective, Not, IsIn, IsNull, Match)):
        return _truths(node, domain)
    if isinstance(node, (Apply, Arithmetic, Absolute, Clip, TextFunction)):
        return _numbers(node, domain)
    if not isinstance(node, Name):
        raise QuestionRefused(f"cannot group by {describe(node)}: group by a column, or by bins of a number")
    return _column_keys(node, domain)


def _column_keys(node: Name, domain: Domain) -> Keys:
    """Return the declared keys of a column; raises QuestionRefused where it declares none."""
    column = domain[node.name]
    if isinstance(column, Category):
        return _category(node.name, column)
    if isinstance(column, Boolean):
        return _keep_missing((False, True), truth_code(node.name, column), node, domain)
    if isinstance(column, Integer) and column.lower is not None and column.upper is not None:
        count = column.upper - column.lower + 1
        if count > _MOST_KEYS:
            many, width = f"column {node.name!r} has {count} declared values, too many keys", max(1, count // 100)
            raise QuestionRefused(
                f'{many}: group by bins, such as col("{node.name}").bin(width={width})',
                sql=f"{many}: group by bins, such as BIN({sql_name(node.name)}, {width})",
            )
        cell, low = integer_cell(node.name, column), column.lower
        labels = tuple(range(column.lower, column.upper + 1))
        return _keep_missing(labels, lambda on: plus(cell.build(on), -low), node, domain)
    if isinstance(column, Real) and column.resolution is not None and None not in (column.lower, column.upper):
        return _numbers(node, domain)
    if isinstance(column, Identifier):
        return Keys((), lambda on: on.text(node.name), private=True, column=node.name)
    if any(node.name in getattr(step, "names", ()) for step in domain.steps):
        many = f"cannot group by {node.name!r}: a unit's value has no bounds of its own. Clip it"
        at = sql_name(node.name)
        raise QuestionRefused(
            f'{many}, col("{node.name}").clip(0, 10), or group by bins',
            sql=f"{many}, LEAST({at}, 10), or BIN({at}, 1, 3, 10)",
        )
    raise QuestionRefused(
        f"cannot group by {node.name!r}: its keys are not public. Declare it as a category with its values, "
        "or give a number bounds and group by its bins; keys of an identifier are selected privately, with a delta"
    )


def _time(node: Node, domain: Domain) -> BoundNumber | None:
    """Return the date or moment that the keys of an expression are made of, None where they are made of something else."""
    if isinstance(node, Name) and not isinstance(domain[node.name], (Date, DateTime)):
        return None
    if isinstance(node, (Bin, DateTrunc, DateFormat)):
        of = bind_number(node.of, domain) if _has_time(node, domain) else None
        return of if of is not None and (of.kind in TIMES or not isinstance(node, Bin)) else None
    if isinstance(node, (Name, DatePart, Shift, Clip, Arithmetic)) and _has_time(node, domain):
        of = bind_number(node, domain)
        return of if of.kind in TIMES else None
    return None


def _has_time(node: Node, domain: Domain) -> bool:
    """Return whether an expression reads a date or a datetime."""
    return any(isinstance(at, Name) and isinstance(domain[at.name], (Date, DateTime)) for at in walk(node))


def _category(name: str, column: Category) -> Keys:
    code = encode_category(column)
    kept = column.missing == "keep"

    def encode(on: Primitives, cell: exp.Expression) -> exp.Expression:
        found = code(on, cell)
        return sql().Coalesce(this=found, expressions=[sql().Literal.number(len(column.values))]) if kept else found

    labels = (*column.values, None) if kept else column.values
    return Keys(labels, lambda on: on.category_cell(name, whole=whole_values(column)), encode)


def _bins(node: Bin, domain: Domain) -> Keys:
    of = plain_number(node.of, domain)
    edges = None if node.edges is None else tuple(e for e in node.edges if isinstance(e, Fraction))
    if edges is not None and edges != node.edges:
        raise QuestionRefused(f"{describe(node.of)} is a number: its bins have numbers as edges")
    if edges is None:
        width, values = node.width or Fraction(1), of.values
        if values.lower is None or values.upper is None:
            raise QuestionRefused(f"bins of {describe(node.of)} by width need declared bounds: give edges, or clip it")
        count = max(1, math.ceil((values.upper - values.lower) / width))
        if count > _MOST_BINS:
            least = (values.upper - values.lower) / _MOST_BINS
            raise QuestionRefused(
                f"bins of width {format_number(width)} make {count:,} keys, above {_MOST_BINS:,}: take a width of at least "
                f"{format_number(least)}, or clip {describe(node.of)}"
            )
        edges = tuple(values.lower + width * i for i in range(count + 1))
    steps = [math.ceil(e / of.unit) for e in edges]
    steps[-1] = math.floor(edges[-1] / of.unit)  # the last bin is closed
    if any(a >= b for a, b in itertools.pairwise(steps[:-1])) or steps[-2] > steps[-1]:
        raise QuestionRefused(
            f"bins of {describe(node.of)} are finer than its grid of {format_number(of.unit)}: widen them"
        )
    last = len(edges) - 2
    labels = tuple(
        f"[{format_number(a)}, {format_number(b)}{']' if i == last else ')'}"
        for i, (a, b) in enumerate(itertools.pairwise(edges))
    )
    return _keep_missing(labels, bin_index(of, steps), node, domain)


def _parts(node: DatePart, domain: Domain) -> Keys:
    """Return the parts of days, such as years, that the declared days allow."""
    found = bind_number(node, domain)
    low, high = (int(b or 0) for b in (found.interval.lower, found.interval.upper))
    if high - low >= _MOST_KEYS:
        raise QuestionRefused(f"{describe(node)} has {high - low + 1} values, too many keys: group by a coarser part")
    labels = tuple(range(low, high + 1))
    return _keep_missing(labels, lambda on: plus(found.build(on), -low), node, domain)


def _truths(node: Node, domain: Domain) -> Keys:
    """Return the keys of a condition: false and true."""
    condition = bind_condition(node, domain)

    def build(on: Primitives) -> exp.Expression:
        from sqlglot import exp

        found = exp.paren(condition(on))
        ifs = [exp.If(this=found, true=whole(1)), exp.If(this=exp.Not(this=found.copy()), true=whole(0))]
        return exp.paren(exp.Case(ifs=ifs, default=exp.Null()))

    return _keep_missing((False, True), build, node, domain)


def _numbers(node: Node, domain: Domain) -> Keys:
    """Return the values that a bounded expression may have on its grid."""
    of = plain_number(node, domain)
    if not of.interval.bounded:
        raise QuestionRefused(f"cannot group by {describe(node)}: its values have no bounds. Clip it, or group by bins")
    low, high = int(of.interval.lower or 0), int(of.interval.upper or 0)
    if high - low >= _MOST_KEYS:
        raise QuestionRefused(
            f"{describe(node)} may have {high - low + 1} values, too many keys: group by bins, or round it"
        )
    labels = tuple(_show_value(of.unit * n) for n in range(low, high + 1))
    return _keep_missing(labels, lambda on: plus(of.build(on), -low), node, domain)


def _show_value(value: Fraction) -> int | float:
    return int(value) if value.denominator == 1 else float(value)


def _choice(node: When, domain: Domain) -> Keys:
    """Return what a choice is between, in the order in which it is written: constants, and columns of declared values."""
    cases: list[tuple[Build | None, Node]] = []
    at: Node | None = node
    while isinstance(at, When):
        cases.append((bind_condition(at.of, domain), at.left))
        at = at.right
    cases += [] if at is None else [(None, at)]
    if not all(isinstance(case, (Constant, When)) or _is_declared(case, domain) for _, case in cases):
        return _numbers(node, domain)
    found = [(condition, _case_keys(case, node, domain)) for condition, case in cases]
    labels = tuple(dict.fromkeys(v for _, case in found for v in case.labels if v is not None))
    if len({type(v) for v in labels}) > 1:
        raise QuestionRefused(f"cannot group by {describe(node)}: its values must be all text or all whole numbers")
    places = {v: i for i, v in enumerate(labels)}

    def build(on: Primitives) -> exp.Expression:
        from sqlglot import exp

        made = [(condition, _place(case, places, on)) for condition, case in found]
        ifs = [exp.If(this=exp.paren(condition(on)), true=place) for condition, place in made if condition is not None]
        last = next((place for condition, place in made if condition is None), exp.Null())
        return exp.Case(ifs=ifs, default=last)

    return _keep_missing(labels, lambda on: sql().paren(build(on)), node, domain)


def _is_declared(node: Node, domain: Domain) -> bool:
    """Return whether an expression has declared values: a category, a truth, a text."""
    return is_text(node) or (isinstance(node, Name) and isinstance(domain[node.name], (Category, Boolean)))


def _case_keys(node: Node, choice: When, domain: Domain) -> Keys:
    """Return the labels that one case of a choice may have."""
    if isinstance(node, Constant):
        return Keys((_label(node, choice),), lambda _: whole(0))
    return _choice(node, domain) if isinstance(node, When) else Keys(*value_keys(bind_values(node, domain)))


def _place(case: Keys, places: dict[Any, int], on: Primitives) -> exp.Expression:
    """Return the place of a case's label among those of the whole choice."""
    from sqlglot import exp

    code = case.build(on)
    if isinstance(code, exp.Literal):
        return whole(places[case.labels[0]])
    known = [(i, v) for i, v in enumerate(case.labels) if v is not None]
    ifs = [exp.If(this=exp.EQ(this=code.copy(), expression=whole(i)), true=whole(places[v])) for i, v in known]
    return exp.paren(exp.Case(ifs=ifs, default=exp.Null()))


def _label(node: Constant, choice: When) -> str | int | bool:
    """Return the label that a constant stands for."""
    value = node.value
    if isinstance(value, (str, bool)):
        return value
    if isinstance(value, Fraction) and value.denominator == 1:
        return int(value)
    raise QuestionRefused(
        f"cannot group by {describe(choice)}: its values must be constants, text or whole numbers, so that they are public"
    )


def _keep_missing(labels: tuple[Any, ...], build: Build, node: Node, domain: Domain) -> Keys:
    """Return the keys with a group for rows in which the expression is missing, if such rows have one."""
    if not may_be_missing(node, domain).is_key:
        return Keys(labels, build)
    last = len(labels)
    return Keys((*labels, None), lambda on: sql().Coalesce(this=build(on), expressions=[sql().Literal.number(last)]))
