"""What an expression means over a domain: a number of a row, or a condition on it, and its SQL in an engine's words.

Conditions are in SQL's three-valued logic: what is missing meets none. The two call each other: a condition compares
numbers, and a number may be chosen by a condition.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

from sordino.ask.queries.expressions import declared_values
from sordino.ask.queries.expressions.bound_number import (
    BoundNumber,
    Interval,
    absolute,
    binary,
    category_code,
    clip,
    code_cell,
    code_of,
    common_unit,
    compare_steps,
    constant,
    is_one_of,
    negate,
    number_cell,
    rescale,
    truth,
)
from sordino.ask.queries.expressions.declared_values import (
    MOST_VALUES,
    DeclaredValues,
    choose_values,
    either_value,
    is_text,
    number_of_text,
    pair_values,
    pattern_test,
    show_text,
)
from sordino.ask.queries.expressions.nodes import (
    MIRROR,
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
    Exists,
    IsIn,
    IsNull,
    Match,
    Name,
    Node,
    Not,
    Released,
    Shift,
    TextFunction,
    Value,
    When,
    Windowed,
    depth,
    describe,
    plain_value,
)
from sordino.ask.queries.expressions.released import is_released, released_lookup, released_number
from sordino.ask.queries.expressions.row_functions import apply_function
from sordino.ask.queries.expressions.sql_trees import Build, comparison, plus, trees, truth_as_number, whole
from sordino.ask.queries.expressions.times import (
    LENGTHS,
    TIMES,
    as_moment,
    clip_bound,
    constant_like,
    constant_time,
    format_time,
    length_of_time,
    moment_constant,
    part_of_time,
    shift_time,
    time_label,
    truncate_time,
)
from sordino.core.domain import Boolean, Category, Domain, Fill, Identifier
from sordino.core.errors import QuestionRefused
from sordino.core.estimates.evaluation import OPERATORS
from sordino.core.primitives import OutOfRange, Primitives

if TYPE_CHECKING:
    from sqlglot import exp

T = TypeVar("T")
# Each declared value has a token of its own in the text.
_MOST_RELEASED = 2_000


def bind_number(node: Node, domain: Domain) -> BoundNumber:
    """Compile a numeric expression; raises QuestionRefused for any other."""
    depth(node)
    return replace(number(node, domain), meaning=node)


def bind_condition(node: Node, domain: Domain) -> Build:
    """Compile a condition; raises QuestionRefused for any other expression."""
    depth(node)
    return _condition(node, domain)


def presence(node: Node, domain: Domain) -> BoundNumber:
    """Return a measure that is missing where `node` is, for counting the rows that have a value."""
    depth(node)
    column = domain[node.name] if isinstance(node, Name) else None
    if isinstance(node, DateFormat):
        return replace(number(node.of, domain), meaning=node.of)
    ends = [end for end in _ends(node) if end is not None]
    if any(_has_codes(end, domain) for end in ends):
        missable = not isinstance(getattr(column, "missing", "drop"), Fill)
        one = Interval.point(Fraction(1))
        return BoundNumber(Fraction(1), one, one, missable, _any_cell(node, domain), meaning=("present", node))
    return replace(number(node, domain), meaning=node)


def _ends(node: Node | None) -> Iterator[Node | None]:
    """Yield what a choice ends in, in each of its cases; an expression that is no choice ends in itself."""
    while isinstance(node, When):
        yield from _ends(node.left)
        node = node.right
    yield node


def _has_codes(node: Node, domain: Domain) -> bool:
    """Return whether the cells of an expression are no numbers: values, truths, identifiers, texts."""
    if isinstance(node, Constant):
        return isinstance(node.value, str)
    column = domain[node.name] if isinstance(node, Name) else None
    return isinstance(column, (Category, Boolean, Identifier)) or is_text(node)


def is_declared(node: Node | None, domain: Domain) -> bool:
    """Return whether an expression is of declared values: a category, a truth, a text, a choice between such."""
    if isinstance(node, When):
        ends = [end for end in _ends(node) if end is not None]
        return all(isinstance(end, Constant) or is_declared(end, domain) for end in ends) and any(
            is_declared(end, domain) for end in ends
        )
    if isinstance(node, Constant):
        return isinstance(node.value, str)
    column = domain[node.name] if isinstance(node, Name) else None
    return (
        (node is not None and is_text(node)) or isinstance(node, DateFormat) or isinstance(column, (Category, Boolean))
    )


def bind_values(node: Node, domain: Domain) -> DeclaredValues:
    """Return what an expression is for each declared value; raises QuestionRefused where there is no list of values.

    A text may be made of whole numbers with bounds and of days too.
    """
    return declared_values.bind_values(node, domain, lambda other: _other_values(other, domain))


def _other_values(node: Node, domain: Domain) -> DeclaredValues:
    """Return the values of a choice, a format of days, a condition, or of a number or day with bounds."""
    if isinstance(node, DateFormat):
        return format_time(node.format, number(node.of, domain))
    if isinstance(node, When) and is_declared(node, domain):
        rest = None if node.right is None else bind_values(node.right, domain)
        return either_value(_condition(node.of, domain), bind_values(node.left, domain), rest)
    of = number(node, domain)
    low, high = of.interval.lower, of.interval.upper
    if of.kind == "datetime" or of.unit != 1:
        raise QuestionRefused(
            f"{describe(node)} as text is not supported: whole numbers and days are; round it, or format it as text first",
            sql=f"{describe(node)} as text is not supported: whole numbers and days are; use ROUND, or STRFTIME(d, '%Y-%m')",
        )
    if low is None or high is None or high - low >= MOST_VALUES:
        raise QuestionRefused(
            f"{describe(node)} as text has more than {MOST_VALUES} values: clip it, or group it by bins"
        )
    values = tuple(time_label(step, of) if of.kind in TIMES else step for step in range(int(low), int(high) + 1))

    def build(on: Primitives) -> exp.Expression:
        # A number that is stored past its bounds is none of the values.
        code = plus(of.build(on), -int(low))
        within = trees().Between(this=trees().paren(code), low=whole(0), high=whole(len(values) - 1))
        case: exp.Expression = trees().Paren(this=trees().Case(ifs=[trees().If(this=within, true=code.copy())]))
        return case

    return DeclaredValues(values, build)


def _any_cell(node: Node, domain: Domain) -> Build:
    if isinstance(node, When) and node.right is None:
        return _either(_condition(node.of, domain), _any_cell(node.left, domain), None)
    # its cells may be of several types, so each says only whether it is there
    if isinstance(node, When):
        cases = [_mark_present(_any_cell(case, domain)) for case in (node.left, node.right) if case is not None]
        return _either(_condition(node.of, domain), cases[0], cases[1])
    if isinstance(node, Constant):
        return lambda _: whole(1)
    column = domain[node.name] if isinstance(node, Name) else None
    if isinstance(node, Name) and isinstance(column, (Category, Boolean, Identifier)):
        return code_cell(node.name, column)
    of = node.of if isinstance(node, DateFormat) else node
    return bind_values(node, domain).build if is_text(node) else number(of, domain).build


def _mark_present(cell: Build) -> Build:
    """Return 1 where there is a cell, and NULL where it is missing."""
    return lambda on: trees().Paren(
        this=trees().Case(
            ifs=[
                trees().If(
                    this=trees().Not(this=trees().Is(this=trees().Paren(this=cell(on)), expression=trees().Null())),
                    true=whole(1),
                )
            ]
        )
    )


# ---- numbers


def number(node: Node, domain: Domain) -> BoundNumber:
    """Compile a number; raises QuestionRefused for any other expression, and where it may grow past the range of primitives."""
    return _in_range(node, lambda: _number(node, domain))


def _in_range(node: Node, make: Callable[[], T]) -> T:
    """Return what `make` does; where it is out of range, the refusal says which expression is."""
    outcome: T | None = None
    try:
        outcome = make()
    except OutOfRange:
        outcome = None
    if outcome is None:
        raise QuestionRefused(
            f"{describe(node)} may grow past 37 digits: clip its columns first, or declare their bounds"
        )
    return outcome


def _number(node: Node, domain: Domain) -> BoundNumber:
    if isinstance(node, Name) and not isinstance(domain[node.name], Boolean):
        return number_cell(node.name, domain[node.name])
    if isinstance(node, Constant):
        return constant(node.value)
    if isinstance(node, Released) and node.kind == "number":
        return released_number(node)
    if isinstance(node, Released) and node.kind == "lookup" and node.of is not None:
        return released_lookup(*_declared_codes(node.of, node, domain), node)
    if isinstance(node, Arithmetic):
        return _arithmetic(node, domain)
    if isinstance(node, Absolute):
        return absolute(plain_number(node.of, domain))
    if isinstance(node, Clip):
        clipped = number(node.of, domain)
        return clip(clipped, clip_bound(node.lower, clipped), clip_bound(node.upper, clipped))
    if isinstance(node, TextFunction) and not is_text(node):
        cast_number = node.function == "number" and not is_declared(node.of, domain)
        return plain_number(node.of, domain) if cast_number else number_of_text(node, bind_values(node.of, domain))
    if isinstance(node, Apply) and node.function in LENGTHS:
        return length_of_time(node.function, plain_number(node.of, domain))
    if isinstance(node, Apply):
        return apply_function(node, lambda operand: plain_number(operand, domain))
    if isinstance(node, (DatePart, DateTrunc, Shift)):
        return _time(node, domain)
    if isinstance(node, When):
        return _choose(node, domain)
    if isinstance(node, Bin):
        raise QuestionRefused("bins are keys for group_by; they cannot be summed or compared")
    return _truth_number(node, domain)


def _truth_number(node: Node, domain: Domain) -> BoundNumber:
    """Return a condition as a number: 1 where it is met, 0 where it is not, missing where it is neither."""
    values = Interval(Fraction(0), Fraction(1))
    return BoundNumber(Fraction(1), values, values, True, truth_as_number(_condition(node, domain)))


def plain_number(node: Node, domain: Domain) -> BoundNumber:
    bound = number(node, domain)
    if bound.kind != "number":
        raise QuestionRefused(
            f"{describe(node)} is a date: take a part of it, as its year, or the time between two, (end - start).days()",
            sql=f"{describe(node)} is a date: take a part of it, as its year, or the time between two, DATEDIFF('day', a, b)",
        )
    return bound


def _arithmetic(node: Arithmetic, domain: Domain) -> BoundNumber:
    left, right = _pair(node.left, node.right, domain)
    if left.kind in TIMES or right.kind in TIMES:
        return _keep_sign(node, domain, _time_arithmetic(node, left, right))
    missable = left.missable or right.missable
    if node.op == "*":
        same = node.left == node.right
        pair = [(m.interval, m.stored) for m in (left, right)]
        interval = pair[0][0].square() if same else pair[0][0].times(pair[1][0])
        stored = pair[0][1].square() if same else pair[0][1].times(pair[1][1])
        unit = left.unit * right.unit
        return BoundNumber(unit, interval, stored, missable, binary("*", left, right, stored))
    unit = common_unit(left.unit, right.unit)
    left = rescale(left, unit)
    right = rescale(right, unit)
    sign = right if node.op == "+" else negate(right)
    interval = left.interval.plus(sign.interval)
    stored = left.stored.plus(sign.stored)
    return _keep_sign(node, domain, BoundNumber(unit, interval, stored, missable, binary(node.op, left, right, stored)))


def _keep_sign(node: Arithmetic, domain: Domain, difference: BoundNumber) -> BoundNumber:
    """Return a difference clipped to the sign that it has in every row, as a day has less the day before in the person's order.

    The clip changes no cell, but the bounds rest on it, not on the order.
    """
    if node.op != "-" or difference.kind != "number":
        return difference
    for less, more in _known_orders(domain):
        for pair in _growing_pairs(node.left, node.right):
            if pair == (more, less):
                return clip(difference, Fraction(0), None)
            if pair == (less, more):
                return clip(difference, None, Fraction(0))
    return difference


def _known_orders(domain: Domain) -> list[tuple[Node, Node]]:
    """Return pairs of expressions of a row of which the first is never above the second, where both are there."""
    orders: list[tuple[Node, Node]] = []
    for step in domain.steps:
        # What every row meets after the step; None where it makes other rows.
        facts: Sequence[Node] | None = getattr(step, "implied_conditions", tuple)()
        if facts is None:
            orders.clear()
        for fact in facts or ():
            either = fact.left if isinstance(fact, Connective) else None
            if isinstance(either, Compare):
                pair = (either.left, either.right)
                orders.append(pair if either.op == "<=" else pair[::-1])
    return orders


def _growing_pairs(one: Node, other: Node) -> Iterator[tuple[Node, Node]]:
    """Give pairs of expressions of which two are one function of times that never falls as they grow, from the outside in."""
    yield one, other
    if isinstance(one, DateTrunc) and isinstance(other, DateTrunc):
        if (one.unit, one.count) == (other.unit, other.count):
            yield from _growing_pairs(one.of, other.of)
    elif isinstance(one, DatePart) and isinstance(other, DatePart):
        grows = " since " in one.part or one.part in ("epoch", "date", "year")
        yield from _growing_pairs(one.of, other.of) if grows and one.part == other.part else ()


def _pair(one: Node, other: Node, domain: Domain) -> tuple[BoundNumber, BoundNumber]:
    """Return two operands; a constant beside a date or a datetime is one too, and so is a date beside a datetime."""
    if isinstance(one, Constant) and not isinstance(other, Constant):
        right, left = _pair(other, one, domain)
        return left, right
    left = number(one, domain)
    if isinstance(other, Constant) and left.kind in TIMES and not isinstance(other.value, Fraction):
        return left, constant_like(other.value, left)
    right = number(other, domain)
    if {left.kind, right.kind} == TIMES:
        return as_moment(left, right.zone), as_moment(right, left.zone)
    return left, right


def _time_arithmetic(node: Arithmetic, left: BoundNumber, right: BoundNumber) -> BoundNumber:
    """Return the time between two dates or moments, as a number of days or seconds, or one moved by a number."""
    both = left.kind == right.kind
    days = left.kind == "date" and right.kind == "number" and (right.unit.denominator == 1)
    lasting = left.kind == "datetime" and right.kind == "number" and right.seconds > 0
    if node.op == "*" or (both and node.op == "+") or not (both or days or lasting):
        raise QuestionRefused(
            f"{describe(node)} computes with a date: subtract two, (end - start).days(), or move one by a whole number of days",
            sql=f"{describe(node)} computes with a date: subtract two, DATEDIFF('day', a, b), or add an INTERVAL",
        )
    if lasting:
        right = replace(right, unit=right.unit * right.seconds)
    unit = common_unit(left.unit, right.unit)
    left = rescale(left, unit)
    right = rescale(right, unit)
    sign = right if node.op == "+" else negate(right)
    interval = left.interval.plus(sign.interval)
    stored = left.stored.plus(sign.stored)
    number = BoundNumber(unit, interval, stored, left.missable or right.missable, binary(node.op, left, right, stored))
    if both:
        return replace(number, seconds=86_400 if left.kind == "date" else 1)
    return replace(number, kind=left.kind, zone=left.zone)


def _time(node: DatePart | DateTrunc | Shift, domain: Domain) -> BoundNumber:
    of = constant_time(node.of) if isinstance(node.of, Constant) else number(node.of, domain)
    if of.kind not in TIMES:
        raise QuestionRefused(f"{describe(node)} needs a date or a datetime: {describe(node.of)} is a number")
    if isinstance(node, DatePart):
        return part_of_time(node.part, of)
    if isinstance(node, DateTrunc):
        return truncate_time(node.unit, int(node.count), of).value
    return shift_time(int(node.months), node.seconds, int(node.days), of)


def _choose(node: When, domain: Domain) -> BoundNumber:
    """Return a choice between numbers: the range that holds both, on the grid that holds both."""
    condition = _condition(node.of, domain)
    if node.right is None:
        one = number(node.left, domain)
        return replace(one, missable=True, build=_either(condition, one.build, None))
    one, other = _pair(node.left, node.right, domain)
    if one.kind != other.kind or one.zone != other.zone:
        raise QuestionRefused(f"{describe(node)} is a date in one case and a number in another")
    unit = common_unit(one.unit, other.unit)
    one = rescale(one, unit)
    other = rescale(other, unit)
    interval = one.interval.hull(other.interval)
    stored = one.stored.hull(other.stored)
    build = _either(condition, one.build, other.build)
    missable = one.missable or other.missable
    seconds = one.seconds if one.seconds == other.seconds else 0
    return BoundNumber(unit, interval, stored, missable, build, one.kind, one.zone, seconds)


def _either(condition: Build, one: Build, other: Build | None) -> Build:
    def build(on: Primitives) -> exp.Expression:
        from sqlglot import exp

        rest = exp.Null() if other is None else other(on)
        return exp.Paren(this=exp.Case(ifs=[exp.If(this=exp.Paren(this=condition(on)), true=one(on))], default=rest))

    return build


# ---- conditions


def _condition(node: Node, domain: Domain) -> Build:
    if isinstance(node, Connective):
        return _connective(node, domain)
    if isinstance(node, Not):
        inner = _condition(node.of, domain)
        return lambda on: trees().Not(this=trees().Paren(this=inner(on)))
    if isinstance(node, Compare):
        return _compare(node, domain)
    if isinstance(node, IsIn):
        return _is_in(node, domain)
    if isinstance(node, Match):
        return _match(node, domain)
    if isinstance(node, Exists):
        raise QuestionRefused(
            f"{describe(node)} needs a table of a project: plan or ask it through that table, as a count or a sum"
        )
    if isinstance(node, IsNull):
        value = _any_cell(node.of, domain)
        return lambda on: trees().Paren(this=trees().Is(this=trees().Paren(this=value(on)), expression=trees().Null()))
    if isinstance(node, When):
        rest = None if node.right is None else _condition(node.right, domain)
        return _either(_condition(node.of, domain), _condition(node.left, domain), rest)
    column = domain[node.name] if isinstance(node, Name) else None
    if isinstance(node, Name) and isinstance(column, Boolean):
        return truth(node.name, column)
    if isinstance(node, Constant) and isinstance(node.value, bool):
        is_true = node.value
        return lambda _: trees().true() if is_true else trees().false()
    if isinstance(node, Windowed):
        raise QuestionRefused(
            f"{describe(node)} looks at other rows of a person: end it with .over(unit, order_by=...), inside with_columns"
        )
    raise QuestionRefused(f"a condition is needed, such as age > 30, not {describe(node)}")


def _connective(node: Connective, domain: Domain) -> Build:
    """Join conditions; a chain of one kind stays a chain, so that a long one does not nest."""
    parts = [_condition(part, domain) for part in _chain(node)]

    def build(on: Primitives) -> exp.Expression:
        from sqlglot import exp

        join = exp.and_ if node.op == "and" else exp.or_
        return exp.Paren(this=join(*(exp.Paren(this=part(on)) for part in parts), wrap=False, copy=False))

    return build


def _chain(node: Connective) -> list[Node]:
    """Return the conditions that a chain of one connective joins, in order, without recursion."""
    conditions: list[Node] = []
    nodes: list[Node] = [node]
    while nodes:
        at = nodes.pop()
        if isinstance(at, Connective) and at.op == node.op:
            nodes += [at.right, at.left]
        else:
            conditions.append(at)
    return conditions


def _compare(node: Compare, domain: Domain) -> Build:
    left = node.left
    right = node.right
    op = node.op
    if isinstance(left, Constant) and not isinstance(right, Constant):
        left, right, op = right, left, MIRROR[op]
    for of, value in ((left, right), (right, left)):
        if isinstance(value, Released) and value.kind == "values":
            return _compare_released(of, op, value, domain)
    if _is_truth(left, domain) and _is_truth(right, domain) and not isinstance(right, Constant):
        return comparison(_condition(left, domain), op, _condition(right, domain))
    column = domain[left.name] if isinstance(left, Name) else None
    if isinstance(column, Identifier):
        return _compare_identifier(left, op, right, domain)
    right_column = domain[right.name] if isinstance(right, Name) else None
    if isinstance(right_column, Identifier):
        return _compare_identifier(right, MIRROR[op], left, domain)
    if is_declared(left, domain):
        return _compare_values(left, op, right, domain)
    if not isinstance(right, Constant) and is_declared(right, domain):
        return _compare_values(right, MIRROR[op], left, domain)
    if isinstance(right, Constant):
        a = number(left, domain)
        return _against_constant(a, op, _constant_beside(a, node, right.value, domain))
    a, b = _pair(left, right, domain)
    _check_kinds(a, b, node)
    unit = common_unit(a.unit, b.unit)
    one, other = _in_range(node, lambda: (rescale(a, unit), rescale(b, unit)))
    return comparison(one.build, op, other.build)


def _constant_beside(of: BoundNumber, node: Compare, value: Value, domain: Domain) -> Fraction:
    """Return the constant that a number, a date or a moment is compared with, in units of its own kind."""
    if of.kind in TIMES and not isinstance(value, Fraction):
        return moment_constant(value, of)
    constant_number = number(Constant(value), domain)
    _check_kinds(of, constant_number, node)
    return constant_number.unit * (constant_number.interval.lower or 0)


def _check_kinds(a: BoundNumber, b: BoundNumber, node: Compare) -> None:
    if a.kind != b.kind:
        raise QuestionRefused(f"{describe(node)} compares a date with a number: write a day such as '2000-01-31'")


def _against_constant(of: BoundNumber, op: str, value: Fraction) -> Build:
    """Compare whole steps with a constant exactly: the constant moves to the whole step that says the same."""
    steps = value / of.unit
    if steps.denominator != 1:
        if op in ("=", "!="):
            steps = Fraction(0)
            op = {"=": "never", "!=": "always"}[op]
        elif op in ("<", "<="):
            steps = Fraction(math.floor(steps))
            op = "<="
        else:
            steps = Fraction(math.ceil(steps))
            op = ">="
    # compared with itself, so that a missing value stays missing
    if op in ("never", "always"):
        never = op == "never"
        return comparison(of.build, "!=" if never else "=", of.build)
    return compare_steps(of, op, int(steps))


def _match(node: Match, domain: Domain) -> Build:
    """Return the condition that a text matches a pattern: of declared values by their codes, of identifiers by LIKE."""
    column = domain[node.of.name] if isinstance(node.of, Name) else None
    if not isinstance(node.of, Name) or not isinstance(column, Identifier):
        matches = pattern_test(node.kind, node.pattern)
        return choose_values(bind_values(node.of, domain), lambda v: matches(show_text(v)))
    if node.kind == "regex":
        raise QuestionRefused(
            f"{node.of.name} is an identifier, whose text is matched by LIKE, not by a regular expression"
        )
    name = node.of.name
    return lambda on: on.like(on.text(name), node.kind, node.pattern)


def _is_truth(node: Node, domain: Domain) -> bool:
    """Return whether an expression is a condition, so that it can be compared with another one."""
    if isinstance(node, Name):
        return isinstance(domain[node.name], Boolean)
    return isinstance(node, (Compare, Connective, Not, IsIn, IsNull, Match, Exists))


def _compare_identifier(left: Node, op: str, right: Node, domain: Domain) -> Build:
    if op not in ("=", "!="):
        raise QuestionRefused(f"{describe(left)} is an identifier: it can be compared with = and != only")
    if not isinstance(right, Constant):
        return comparison(_text_of(left, domain), op, _text_of(right, domain))
    return _equal_or_not(op, _is_in(IsIn(left, (right.value,)), domain))


def _equal_or_not(op: str, equal: Build) -> Build:
    """Return a condition that two values are equal, or its negation, as `op` says."""
    return equal if op == "=" else lambda on: trees().Not(this=trees().Paren(this=equal(on)))


def _text_of(node: Node, domain: Domain) -> Build:
    """Compile the text of an identifier, or of declared values; raises QuestionRefused for any other expression."""
    column = domain[node.name] if isinstance(node, Name) else None
    if isinstance(node, Name) and isinstance(column, Identifier):
        name = node.name
        return lambda on: on.text(name)
    if not is_declared(node, domain):
        raise QuestionRefused(
            f"{describe(node)} is no text: an identifier is compared with a value, an identifier or a text of declared values"
        )
    declared = bind_values(node, domain)
    labels = [None if value is None else show_text(value) for value in declared.values]
    return lambda on: on.label(declared.build(on), labels)


def _compare_values(left: Node, op: str, right: Node, domain: Domain) -> Build:
    """Compare declared values with a constant or with each other: text by its characters, truths and numbers as such.

    Which values meet the comparison is public, so that it is computed beforehand for each.
    """
    if isinstance(right, Constant) and op in ("=", "!="):
        return _equal_or_not(op, _is_in(IsIn(left, (right.value,)), domain))
    one = bind_values(left, domain)
    numbers = all(v is None or (isinstance(v, int) and not isinstance(v, bool)) for v in one.values)
    if not isinstance(right, Constant) and numbers and not is_declared(right, domain):
        # A category of whole numbers beside a number.
        return _compare(Compare(op, TextFunction("number", left), right), domain)
    if not isinstance(right, Constant) and not is_declared(right, domain):
        raise QuestionRefused(
            f"{describe(left)} is text or a truth, and {describe(right)} is neither: cast one of them"
        )
    other = DeclaredValues((plain_value(right.value),), lambda _: whole(0)) if isinstance(right, Constant) else None
    values = pair_values(
        one, other or bind_values(right, domain), _comparison(op, left, right), Compare(op, left, right)
    )
    return choose_values(values, bool)


def _comparison(op: str, left: Node, right: Node) -> Callable[[Any, Any], bool]:
    """Return the comparison of two declared values, which are of one type."""

    def compare(a: Any, b: Any) -> bool:
        kinds = {str if isinstance(v, str) else bool if isinstance(v, bool) else Fraction for v in (a, b)}
        if len(kinds) > 1:
            raise QuestionRefused(
                f"{describe(left)} and {describe(right)} are compared, of which one is text and the other is not: cast one"
            )
        return bool(OPERATORS[op](a, b))

    return compare


def _compare_released(of: Node, op: str, released: Released, domain: Domain) -> Build:
    """Return the condition that an expression has one of the released values: of declared values, or of few numbers."""
    if op not in ("=", "!="):
        raise QuestionRefused(f"{describe(released)} is not a number: compare it with = and != only")
    return _equal_or_not(op, is_released(*_declared_codes(of, released, domain), released))


def _declared_codes(of: Node, released: Released, domain: Domain) -> tuple[tuple[Any, ...], Build]:
    """Return the values that an expression may have, and the code of a row's value among them."""
    column = domain[of.name] if isinstance(of, Name) else None
    if isinstance(column, Identifier):
        raise QuestionRefused(f"{describe(of)} names single persons: it is never compared with released values")
    values: tuple[Any, ...]
    if is_declared(of, domain):
        declared = bind_values(of, domain)
        values = declared.values
        code = declared.build
    else:
        steps = number(of, domain)
        low, high = steps.interval.lower, steps.interval.upper
        if low is None or high is None or high - low >= _MOST_RELEASED:
            many = f"{describe(of)} has more than {_MOST_RELEASED} declared values"
            raise QuestionRefused(f"{many}: compare a coarser value with {describe(released)}")
        first = int(low)
        values = tuple(
            time_label(step, steps) if steps.kind in TIMES else step * steps.unit
            for step in range(first, int(high) + 1)
        )
        code = lambda on: plus(steps.build(on), -first)  # noqa: E731
    if len(values) > _MOST_RELEASED:
        raise QuestionRefused(f"{describe(of)} has more than {_MOST_RELEASED} declared values")
    return values, code


def _is_in(node: IsIn, domain: Domain) -> Build:
    column = domain[node.of.name] if isinstance(node.of, Name) else None
    if isinstance(node.of, Name) and isinstance(column, Category):
        # An empty text that is not declared is no mistake in writing: tools ask for what is not empty.
        values = [v for v in node.values if v != "" or v in column.values]
        codes = sorted({code_of(node.of.name, column, v) for v in values}) or [-1]
        code = category_code(node.of.name, column)
        return lambda on: on.is_code(code(on), codes)
    if isinstance(node.of, Name) and isinstance(column, Identifier):
        name = node.of.name
        texts = sorted({_identifier(v) for v in node.values})
        return lambda on: on.is_text(on.text(name), texts)
    if isinstance(node.of, Name) and isinstance(column, Boolean):
        # 1 and 0 are how dialects without truths write them.
        if not all(isinstance(v, bool) or v in (0, 1) for v in node.values):
            raise QuestionRefused(f"column {node.of.name!r} is true or false: compare it with those")
        cell = truth(node.of.name, column)
        return lambda on: trees().Paren(
            this=trees().In(
                this=trees().Paren(this=cell(on)),
                expressions=[trees().true() if v else trees().false() for v in node.values],
            )
        )
    if is_declared(node.of, domain):
        listed = {v if isinstance(v, str) else describe(Constant(v)) for v in node.values}
        return choose_values(bind_values(node.of, domain), lambda v: show_text(v) in listed)
    of = number(node.of, domain)
    return is_one_of(of, [_constant_beside(of, Compare("=", node.of, Constant(v)), v, domain) for v in node.values])


def _identifier(value: Value) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Fraction) and not isinstance(value, bool) and value.denominator == 1:
        return str(value)
    raise QuestionRefused("an identifier is compared with text or a whole number")
