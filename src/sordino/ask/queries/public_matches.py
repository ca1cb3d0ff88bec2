"""Which row of a public table each row meets, where ON compares no more than a key: ranges, or columns that are no key.

Theorem: which public row a private row meets is a function of that row alone, written from the public rows before any private
one is read: the place of a public row, found by comparisons with constants. So one row becomes at most one joined row, and all
sensitivities stay (stability; McSherry 2009, section 2.3). That SQL means the same is checked over the public rows: no value
may meet two of them.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sordino.ask.queries.expressions.declared_values import bind_values, is_text
from sordino.ask.queries.expressions.nodes import (
    MIRROR,
    Arithmetic,
    Compare,
    Constant,
    IsIn,
    Name,
    Node,
    Value,
    When,
    conjoin,
    conjuncts,
    depth,
    describe,
    plain,
    plain_value,
    walk,
)
from sordino.core.domain import Category, Domain
from sordino.core.errors import QuestionRefused
from sordino.core.estimates.evaluation import OPERATORS
from sordino.core.loss import format_number
from sordino.core.source import PublicTable

# Gives some columns of each row of a public table, as declared, and its key as it is joined by, sordino_key_0..
PublicValues = Callable[[str, Sequence[str]], Sequence[tuple[Any, ...]]]

# the most rows of a public table that is searched by comparisons: each stands in the question's text
MOST_ROWS = 500
_RANGES = ("<", "<=", ">", ">=")
_WRITE = "write ON s.low <= t.age AND t.age < s.high, or compare the declared key"


@dataclass(frozen=True, slots=True)
class Matched:
    """The place of the public row that a row meets, missing where it meets none, the key of each, and what is left of ON."""

    place: Node
    keys: tuple[tuple[str | int, ...], ...]
    rest: Node | None

    def plain(self) -> Any:
        """Return the match as canonical JSON data."""
        keys = [[str(value) for value in key] for key in self.keys]
        return [plain(self.place), keys, plain(self.rest)]


def no_values(table: str, columns: Sequence[str]) -> Sequence[tuple[Any, ...]]:
    """Raise QuestionRefused: the rows of public tables are known where the table is open."""
    del columns
    raise QuestionRefused(f"{table} is joined by its rows: ask through its own table, such as visits.plan(...)")


def find_match(condition: Node, table: str, to: PublicTable, domain: Domain, values: PublicValues) -> Matched:
    """Return which row of public table `table` a row meets by a condition on its columns and those of `domain`.

    Raises QuestionRefused where it is not a search for one row: at least one comparison, no value in two rows.
    """
    if to.max_rows != 1:
        raise QuestionRefused(
            f"{table} is joined by its declared key where several of its rows share one: declare a key with max_rows = 1 to "
            "join it by a range"
        )
    reader = _Condition(table, to, domain)
    rest = [part for part in conjuncts(condition) if not reader.take(part)]
    if not reader.equal and not reader.ranges:
        raise QuestionRefused(f"JOIN compares columns of {table} with the rows before it: {_WRITE}")
    rows = reader.rows(values)
    searched = _Search([node for node, _ in reader.equal], reader.ranged, domain, table)
    place = searched.find(rows, 0)
    if place is None:
        raise QuestionRefused(f"no row of {table} can meet this condition: compare values that both tables declare")
    depth(place)
    keys = tuple(row.key for row in rows)
    return Matched(place, keys, conjoin(rest))


@dataclass(frozen=True, slots=True)
class _Row:
    """A public row: its place, its key, what each equality compares with, and the ends of its range."""

    place: int
    key: tuple[Any, ...]
    equal: tuple[Value, ...]
    ends: tuple[tuple[str, Fraction], ...]
    words: str


class _Condition:
    """The comparisons of ON that find a public row."""

    def __init__(self, table: str, to: PublicTable, domain: Domain) -> None:
        self._table = table
        self._to = to
        self._domain = domain
        # pairs of an expression of a row and the public one that it equals
        self.equal: list[tuple[Node, Node]] = []
        # comparisons of the ranged expression with public ones
        self.ranges: list[tuple[str, Node]] = []
        self.ranged: Node | None = None

    def take(self, part: Node) -> bool:
        """Take a comparison of one side with the other; False for any other condition."""
        if not isinstance(part, Compare):
            return False
        ours = part.left
        theirs = part.right
        op = part.op
        if self._names(ours) == {True}:
            ours, theirs, op = theirs, ours, MIRROR[op]
        if self._names(theirs) != {True} or self._names(ours) != {False}:
            return False
        if op == "=":
            self.equal.append((ours, theirs))
            return True
        if op not in _RANGES or (self.ranged is not None and ours != self.ranged):
            return False
        self.ranged = ours
        self.ranges.append((op, theirs))
        return True

    def _names(self, node: Node) -> set[bool]:
        """Return whether names in an expression are of the public table."""
        columns = {f"{self._table}.{column}" for column in self._to.columns}
        return {at.name in columns for at in walk(node) if isinstance(at, Name)}

    def rows(self, values: PublicValues) -> list[_Row]:
        """Return the public rows that can be met: those whose compared cells are not missing."""
        columns = tuple(self._to.columns)
        public_rows = values(self._table, [*columns, *(f"sordino_key_{i}" for i in range(len(self._to.keys)))])
        if len(public_rows) > MOST_ROWS:
            raise QuestionRefused(
                f"{self._table} has more than {MOST_ROWS:,} rows, too many to be searched by a range: join it by its key"
            )
        matches: list[_Row] = []
        for row in public_rows:
            cells = dict(zip(columns, row, strict=False))
            equal = [self._value(node, cells) for _, node in self.equal]
            ends = [(op, self._value(node, cells)) for op, node in self.ranges]
            if None in equal or any(end is None for _, end in ends):
                continue
            key = tuple(v for v in row[len(columns) :] if v is not None)
            numbers = tuple((op, self._number(end)) for op, end in ends)
            words = ", ".join(_show(cells[name]) for name in self._to.keys)
            matches.append(_Row(len(matches), key, tuple(v for v in equal if v is not None), numbers, words))
        return matches

    def _number(self, value: Value | None) -> Fraction:
        if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
            return Fraction(value.toordinal())
        if isinstance(value, Fraction):
            return value
        raise QuestionRefused(f"a range of {self._table} is between numbers or days: {_WRITE}")

    def _value(self, node: Node, cells: dict[str, Value | None]) -> Value | None:
        """Return the value of a public expression in one row: a cell, a sum or product of cells, a function of text."""
        if isinstance(node, Constant):
            return node.value
        if isinstance(node, Name):
            return cells[node.name.removeprefix(f"{self._table}.")]
        if isinstance(node, Arithmetic):
            sides = [self._value(side, cells) for side in (node.left, node.right)]
            if None in sides:
                return None
            if all(isinstance(side, Fraction) for side in sides):
                return Fraction(OPERATORS[node.op](*sides))
        names = [at for at in walk(node) if isinstance(at, Name)]
        if is_text(node) and len(names) == 1:
            column = names[0].name.removeprefix(f"{self._table}.")
            declared = self._to.columns[column]
            if cells[column] is None:
                return None
            if isinstance(declared, Category):
                texts = bind_values(node, Domain({names[0].name: declared})).values
                value: str | None = texts[declared.values.index(plain_value(cells[column]))]
                return value
        raise QuestionRefused(
            f"{describe(node)} of {self._table} is not computed in ON: compare its columns, sums of them, or functions of text "
            "of declared values"
        )


# A number, and whether the range's first or last value comes after it (1), is it (0), or comes before it (-1).
_End = tuple[Fraction, int]
_Range = tuple[_End, _End, _Row]


class _Search:
    """Writes the search for a row: by each equality in turn, and then in the range."""

    def __init__(self, equal: Sequence[Node], ranged: Node | None, domain: Domain, table: str) -> None:
        self._equal = equal
        self._ranged = ranged
        self._domain = domain
        self._table = table

    def find(self, rows: Sequence[_Row], at: int) -> Node | None:
        """Return the place of the row that is met among these, which agree in the first `at` equalities; None for none."""
        if at == len(self._equal):
            return self._range(rows)
        by: dict[Value, list[_Row]] = {}
        for row in rows:
            if self._can_equal(self._equal[at], row.equal[at]):
                by.setdefault(row.equal[at], []).append(row)
        choices = [(value, choice) for value, some in by.items() if (choice := self.find(some, at + 1)) is not None]
        return self._choose(self._equal[at], choices)

    def _choose(self, of: Node, choices: Sequence[tuple[Value, Node]]) -> Node | None:
        """Return the choice among values by halves, so that no expression is deeper than it must be."""
        if not choices:
            return None
        if len(choices) == 1:
            value, choice = choices[0]
            return When(Compare("=", of, Constant(value)), choice, None)
        half = len(choices) // 2
        first = self._choose(of, choices[:half])
        assert first is not None
        return When(IsIn(of, tuple(value for value, _ in choices[:half])), first, self._choose(of, choices[half:]))

    def _can_equal(self, of: Node, value: Value) -> bool:
        """Return whether a column may have a value: one that it does not declare meets no row."""
        column = self._domain[of.name] if isinstance(of, Name) else None
        return not isinstance(column, Category) or plain_value(value) in column.values

    def _range(self, rows: Sequence[_Row]) -> Node | None:
        if not rows:
            return None
        if self._ranged is None:
            if len(rows) > 1:
                raise self._refuse_two(rows[0], rows[1])
            return Constant(Fraction(rows[0].place))
        intervals = [(*_interval(row.ends), row) for row in rows]
        nonempty = (interval for interval in intervals if interval[0] <= interval[1])
        ranges = sorted(nonempty, key=lambda interval: interval[:2])
        for (_, end, one), (start, _, other) in itertools.pairwise(ranges):
            if start <= end:
                raise self._refuse_two(one, other)
        return self._tree(ranges)

    def _tree(self, ranges: Sequence[_Range]) -> Node | None:
        """Return the search among ranges in order, none of which meets another, by halves."""
        if not ranges:
            return None
        if len(ranges) == 1:
            row = ranges[0][2]
            comparisons = [Compare(op, self._of, Constant(self._constant(end))) for op, end in row.ends]
            condition = conjoin(comparisons)
            assert condition is not None
            return When(condition, Constant(Fraction(row.place)), None)
        half = len(ranges) // 2
        (start, is_after) = ranges[half][0]
        above = Compare(">" if is_after else ">=", self._of, Constant(self._constant(start)))
        first = self._tree(ranges[half:])
        assert first is not None
        return When(above, first, self._tree(ranges[:half]))

    @property
    def _of(self) -> Node:
        assert self._ranged is not None
        return self._ranged

    def _constant(self, end: Fraction) -> Value:
        return datetime.date.fromordinal(int(end)) if self._is_time else end

    @property
    def _is_time(self) -> bool:
        from sordino.ask.queries.expressions.compile import bind_number

        return bind_number(self._of, self._domain).kind != "number"

    def _refuse_two(self, one: _Row, other: _Row) -> QuestionRefused:
        return QuestionRefused(
            f"a value may meet two rows of {self._table}, those of {one.words} and of {other.words}: a join by a range meets one "
            "row at most, so let ranges end before the next begins, as in low <= x AND x < high"
        )


def _interval(ends: Sequence[tuple[str, Fraction]]) -> tuple[_End, _End]:
    """Return the ends of a range."""
    lows = [(value, int(op == ">")) for op, value in ends if op in (">", ">=")]
    highs = [(value, -int(op == "<")) for op, value in ends if op in ("<", "<=")]
    return max(lows, default=(Fraction(-(10**40)), 0)), min(highs, default=(Fraction(10**40), 0))


def _show(value: Value | None) -> str:
    return format_number(value) if isinstance(value, Fraction) and not isinstance(value, bool) else str(value)
