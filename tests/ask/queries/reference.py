"""An evaluator of questions in plain Python and Fractions: the oracle that engines and sensitivities are held against.

It shares the trees with the package and nothing else: no interval, no SQL, no lattice code.
"""

from __future__ import annotations

import datetime
import fnmatch
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from sordino.ask.queries.aggregates.distinct import Distinct, DistinctSum
from sordino.ask.queries.aggregates.sums import Average, Count, Sum
from sordino.ask.queries.aggregation import Aggregation
from sordino.ask.queries.expressions.nodes import (
    Absolute,
    Apply,
    Arithmetic,
    Bin,
    Clip,
    Compare,
    Connective,
    Constant,
    DatePart,
    IsIn,
    IsNull,
    Match,
    Name,
    Node,
    Not,
    TextFunction,
    When,
)
from sordino.core.domain import Boolean, Category, Date, Domain, Fill, Integer, Real

Row = Mapping[str, Any]
OPS = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def unit_of(column: Real) -> Fraction:
    """Return the declared resolution: the grid itself."""
    assert column.resolution is not None
    return column.resolution


def cell(name: str, row: Row, domain: Domain) -> Any:
    """Return the cell as declared: clipped, on its grid, filled; None where it is missing."""
    column, raw = domain[name], row[name]
    if isinstance(raw, float) and math.isnan(raw):
        raw = None
    found: Any = None
    if isinstance(column, Integer):
        found = None if raw is None or raw != int(raw) else _clip(Fraction(raw), column.lower, column.upper)
    elif isinstance(column, Real) and raw is not None:
        unit = unit_of(column)
        low = None if column.lower is None else unit * math.floor(column.lower / unit)
        high = None if column.upper is None else unit * math.ceil(column.upper / unit)
        if math.isinf(raw):
            found = high if raw > 0 else low
        else:
            found = _clip(unit * math.floor(Fraction(raw) / unit + Fraction(1, 2)), low, high)
    elif isinstance(column, Category) and raw is not None:
        found = raw if raw in column.values else column.other
    elif isinstance(column, Boolean):
        found = raw
    elif isinstance(column, Date) and raw is not None:
        found = _clip(raw, column.lower, column.upper)
    missing = getattr(column, "missing", "drop")
    if found is not None or not isinstance(missing, Fill):
        return found
    if isinstance(column, Real):
        return unit_of(column) * math.floor(Fraction(str(missing.value)) / unit_of(column) + Fraction(1, 2))
    return missing.value


def value(node: Node, row: Row, domain: Domain) -> Any:
    """Return the value of an expression in a row; None where a column it needs is missing."""
    if isinstance(node, Name):
        return cell(node.name, row, domain)
    if isinstance(node, Constant):
        return node.value
    if isinstance(node, Clip):
        of = value(node.of, row, domain)
        return None if of is None else _clip(of, node.lower, node.upper)
    if isinstance(node, Absolute):
        of = value(node.of, row, domain)
        return None if of is None else abs(of)
    if isinstance(node, When):
        chosen = node.left if truth(node.of, row, domain) is True else node.right
        return None if chosen is None else value(chosen, row, domain)
    if isinstance(node, DatePart):
        of = value(node.of, row, domain)
        return None if of is None else Fraction(part_of(node.part, of))
    if isinstance(node, Apply):
        return applied(node, row, domain)
    if isinstance(node, TextFunction):
        return text_value(
            node, value(node.of, row, domain), None if node.right is None else value(node.right, row, domain)
        )
    if isinstance(node, (Compare, Connective, Not, IsIn, IsNull, Match)):
        met = truth(node, row, domain)
        return None if met is None else Fraction(met)
    assert isinstance(node, Arithmetic)
    left, right = value(node.left, row, domain), value(node.right, row, domain)
    if left is None or right is None:
        return None
    return left + right if node.op == "+" else left - right if node.op == "-" else left * right


def applied(node: Apply, row: Row, domain: Domain) -> Any:
    """Return a function of a number, in exact fractions."""
    of = value(node.of, row, domain)
    right: Any = None if node.right is None else value(node.right, row, domain)
    if of is None:
        return None
    if node.function == "round":
        scale = Fraction(10) ** int(right)
        return Fraction(math.floor(abs(of) * scale + Fraction(1, 2))) / scale * (-1 if of < 0 else 1)
    if node.function == "divide":
        return of / right
    if node.function == "modulo":
        return of - right * math.floor(of / right)
    if node.function == "remainder":
        return of - right * math.trunc(of / right)
    return {
        "half_even": lambda: Fraction(round(of)),
        "floor": lambda: Fraction(math.floor(of)),
        "ceil": lambda: Fraction(math.ceil(of)),
        "truncate": lambda: Fraction(math.trunc(of)),
        "sign": lambda: Fraction((of > 0) - (of < 0)),
    }[node.function]()


def text_value(node: TextFunction, of: Any, right: Any) -> Any:
    """Return a function of a text."""
    if of is None or (node.function == "concat" and right is None):
        return None
    if node.function == "substr":
        start, length = (int(a) for a in node.arguments)
        return of[start - 1 : start - 1 + length]
    if node.function == "concat":
        return of + right
    return {"upper": of.upper, "lower": of.lower, "length": lambda: Fraction(len(of))}[node.function]()


def part_of(part: str, day: datetime.date) -> int:
    """Return a part of a day by Python's calendar; weeks begin on Sunday, 0."""
    parts = {"year": day.year, "quarter": 1 + (day.month - 1) // 3, "month": day.month, "day": day.day}
    return parts.get(part, int(day.strftime("%w")))


def truth(node: Node, row: Row, domain: Domain) -> bool | None:
    """Return the truth of a condition in SQL's three values."""
    if isinstance(node, Not):
        inner = truth(node.of, row, domain)
        return None if inner is None else not inner
    if isinstance(node, Connective):
        pair = truth(node.left, row, domain), truth(node.right, row, domain)
        decided = node.op == "or"
        return decided if decided in pair else None if None in pair else not decided
    if isinstance(node, IsNull):
        return value(node.of, row, domain) is None
    if isinstance(node, Match):
        text = value(node.of, row, domain)
        if text is None:
            return None
        if node.kind == "regex":
            return bool(re.search(node.pattern, text))
        return fnmatch.fnmatchcase(text, node.pattern.replace("%", "*").replace("_", "?"))
    if isinstance(node, IsIn):
        of = value(node.of, row, domain)
        return None if of is None else of in node.values
    if isinstance(node, Compare):
        left, right = value(node.left, row, domain), value(node.right, row, domain)
        if isinstance(left, datetime.date) and isinstance(right, str):
            right = datetime.date.fromisoformat(right)
        return None if left is None or right is None else OPS[node.op](left, right)
    found = value(node, row, domain)
    assert found is None or isinstance(found, bool)
    return found


def keys_of(node: Node, domain: Domain) -> list[Any]:
    """Return the declared keys of a group-by expression, None last where missing is kept."""
    if isinstance(node, Bin):
        assert node.edges is not None
        return list(range(len(node.edges) - 1))
    if isinstance(node, DatePart):
        assert isinstance(node.of, Name)
        held = domain[node.of.name]
        assert isinstance(held, Date)
        days = [held.lower + datetime.timedelta(days=i) for i in range((held.upper - held.lower).days + 1)]
        seen = [part_of(node.part, day) for day in days]
        return list(range(min(seen), max(seen) + 1))
    if isinstance(node, When):
        cases = [k for case in (node.left, node.right) if case is not None for k in keys_of(case, domain)]
        cases += [None] * (node.right is None)  # no ELSE
        return [*dict.fromkeys(k for k in cases if k is not None), *([None] if None in cases else [])]
    if isinstance(node, Constant):
        return [node.value]
    if isinstance(node, (Compare, Match)):
        kept = [None] if any(getattr(domain[n], "missing", "") == "keep" for n in names_in(node)) else []
        return [False, True, *kept]
    if isinstance(node, TextFunction):
        made = [text_value(node, v, None) for v in keys_of(node.of, domain)]
        return [*dict.fromkeys(v for v in made if v is not None), *([None] if None in made else [])]
    if isinstance(node, Apply):
        assert node.function == "modulo"
        return [Fraction(n) for n in range(int(getattr(node.right, "value", 1)))]
    assert isinstance(node, Name)
    column = domain[node.name]
    if isinstance(column, Category):
        found: list[Any] = list(column.values)
    elif isinstance(column, Boolean):
        found = [False, True]
    elif isinstance(column, Real):
        unit, low, high = unit_of(column), column.lower or Fraction(0), column.upper or Fraction(0)
        found = [n * unit for n in range(math.floor(low / unit), math.ceil(high / unit) + 1)]
    else:
        assert isinstance(column, Integer)
        assert column.lower is not None
        assert column.upper is not None
        found = list(range(column.lower, column.upper + 1))
    return [*found, None] if column.missing == "keep" else found


def names_in(node: Node) -> set[str]:
    """Return the columns that an expression names."""
    below = [getattr(node, field, None) for field in ("of", "left", "right")]
    found = {node.name} if isinstance(node, Name) else set()
    return found.union(*(names_in(b) for b in below if b is not None))


def key(node: Node, row: Row, domain: Domain) -> Any:
    """Return the key of a row; a bin's is its place, None where it falls in none."""
    if isinstance(node, (Compare, Match)):
        return truth(node, row, domain)
    if not isinstance(node, Bin):
        return value(node, row, domain)
    of, edges = value(node.of, row, domain), node.edges or ()
    if of is None or not edges[0] <= of <= edges[-1]:
        return None
    return next((i for i in range(len(edges) - 1) if of < edges[i + 1]), len(edges) - 2)


def exact(question: Aggregation, rows: Sequence[Row], domain: Domain) -> list[list[Fraction]]:
    """Return the exact value of each noisy part in each declared cell, in the question's own units.

    A mean has two parts: its sum, not centred (the test that compares does that), and its count. Spreads have none here.
    """
    parts: list[list[Fraction]] = []
    cells, placed = placed_rows(question, rows, domain)
    for aggregate in question.aggregates:
        if isinstance(aggregate, Distinct):
            parts.append(
                [Fraction(len(s)) for s in _different((aggregate.of, *aggregate.others), cells, placed, domain)]
            )
            continue
        if isinstance(aggregate, DistinctSum):
            different: dict[tuple[Any, ...], set[Any]] = {cell: set() for cell in cells}
            for at, row in placed:
                of = value(aggregate.of, row, domain)
                if at in different and of is not None:
                    different[at].add(of)
            parts.append([sum(values, Fraction(0)) for values in different.values()])
            continue
        if not isinstance(aggregate, (Count, Sum, Average)):
            continue  # a spread: `moments` tells its parts
        sums, counts = dict.fromkeys(cells, Fraction(0)), dict.fromkeys(cells, Fraction(0))
        for at, row in placed:
            of = 1 if aggregate.of is None else value(aggregate.of, row, domain)
            if at in sums and of is not None:
                counts[at] += 1
                sums[at] += of if isinstance(of, (int, Fraction)) else 0
        if isinstance(aggregate, Count):
            parts.append(list(counts.values()))
        elif isinstance(aggregate, Sum):
            parts.append(list(sums.values()))
        else:
            parts += [list(sums.values()), list(counts.values())]
    return parts


def placed_rows(
    question: Aggregation, rows: Sequence[Row], domain: Domain
) -> tuple[list[tuple[Any, ...]], list[tuple[tuple[Any, ...], Row]]]:
    """Return the declared cells in order, and each row that meets the condition with the cell it falls in."""
    if question.key_list is not None:  # the tests list all group-by columns
        cells: list[tuple[Any, ...]] = list(question.key_list.rows)
    else:
        cells = list(itertools.product(*(keys_of(g.of, domain) for g in question.groups)))
    kept = [r for r in rows if question.where is None or truth(question.where, r, domain) is True]
    return cells, [(tuple(key(g.of, r, domain) for g in question.groups), r) for r in kept]


def moments(
    question: Aggregation, of: Sequence[Node], powers: Sequence[int], rows: Sequence[Row], domain: Domain, centers: Any
) -> list[Fraction]:
    """Return, in each cell, the sum of products of the columns less their centers, each to its power."""
    cells, placed = placed_rows(question, rows, domain)
    sums = dict.fromkeys(cells, Fraction(0))
    for at, row in placed:
        found = [value(node, row, domain) for node in of]
        if at in sums and None not in found:
            sums[at] += math.prod((v - c) ** p for v, c, p in zip(found, centers, powers, strict=True))
    return list(sums.values())


def _different(of: Sequence[Node], cells: Any, placed: Any, domain: Domain) -> list[set[Any]]:
    found: dict[Any, set[Any]] = {cell: set() for cell in cells}
    for at, row in placed:
        seen = tuple(value(node, row, domain) for node in of)
        if at in found and None not in seen:
            found[at].add(seen)
    return list(found.values())


def _clip(of: Any, low: Any, high: Any) -> Any:
    of = of if low is None else max(of, low)
    return of if high is None else min(of, high)
