"""Joins of the table with public tables by key: what the question may then name, and how many rows one row becomes.

A row meets the rows of a public table whose key is equal to one of its cells, as both are declared; a key of several
columns is equal where each is. A missing cell meets none. What is compared may be computed of the row, such as an age band.
What else ON asks of both sides drops pairs, or, of a row that is kept, blanks the public cells. Theorem: with at most m rows a
key, putting in or taking out one row of the table puts in or takes out at most m joined rows, whatever the other rows are. So
a unit of C rows has at most C m joined rows, and every sensitivity of the joined table follows with C m for C (stability;
McSherry 2009, section 2.3). Only public tables can be joined so.

Unnest makes one row for each item of a row's list, in which the column is the item. Of each list the first `max_items`
count, duplicates among them; a list that is missing or empty gives no row. Theorem: the rows that one row becomes are a
function of that row alone, and at most m = max_items of them, so putting in or taking out one row of the table puts in or
takes out at most m rows, whatever the other rows are. A unit of C rows has at most C m, and every sensitivity follows with
C m for C, under both relations (stability of a flat map; McSherry 2009, section 2.3). How many rows there are is private
even where rows are replaced, as lists differ in length.

Which row of a public table each row meets, where ON compares no more than a key: ranges, or columns that are no key.

Theorem: which public row a private row meets is a function of that row alone, written from the public rows before any private
one is read: the place of a public row, found by comparisons with constants. So one row becomes at most one joined row, and all
sensitivities stay (stability; McSherry 2009, section 2.3). That SQL means the same is checked over the public rows: no value
may meet two of them.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from sordino.ask.queries.expressions.bound_number import BoundNumber, category_code, number_cell, rescale, truth_code
from sordino.ask.queries.expressions.compile import bind_condition, bind_number, is_declared
from sordino.ask.queries.expressions.declared_values import bind_values, is_text
from sordino.ask.queries.expressions.expr import Expr
from sordino.ask.queries.expressions.keys import keys
from sordino.ask.queries.expressions.nodes import (
    MIRROR,
    Arithmetic,
    Compare,
    Connective,
    Constant,
    Exists,
    IsIn,
    IsNull,
    Match,
    Name,
    Node,
    Not,
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
from sordino.ask.queries.expressions.sql_trees import Build, trees
from sordino.core.domain import Boolean, Category, Column, Date, Domain, Identifier, Integer, List, keep_missing
from sordino.core.errors import QuestionRefused, UnknownName, nearest
from sordino.core.estimates.evaluation import OPERATORS
from sordino.core.loss import format_number
from sordino.core.neighbors import Neighbors
from sordino.core.primitives import Primitives
from sordino.core.source import PublicTable

if TYPE_CHECKING:
    from sqlglot import exp


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


JoinKind = Literal["inner", "left", "semi", "anti"]


@dataclass(frozen=True, slots=True)
class Join:
    """A join of public table `table` where its key equals `on`: a row step. "inner" drops rows without a match.

    `on` are columns of the rows before, or expressions of them, and `key` the public columns that the question compares them
    with, the declared key where None. `condition` is what else ON asks, of both sides. `to` is the declared table, once it is
    known which one is meant, and `matched` which row is met where these are no key.
    """

    table: str
    on: tuple[str | Node, ...]
    how: Literal["inner", "left"]
    key: tuple[str, ...] | None = None
    to: PublicTable | None = None
    condition: Node | None = None
    matched: Matched | None = None

    @property
    def reading(self) -> tuple[Node, ...]:
        """The expressions of the rows before, and of both sides, that it looks at, apart from columns in `on`."""
        nodes = [node for node in self.on if not isinstance(node, str)]
        nodes += [] if self.matched is None else [self.matched.place]
        return (*nodes, *([] if self.rest is None else [self.rest]))

    @property
    def rest(self) -> Node | None:
        """The condition on a joined pair beyond the key."""
        return self.condition if self.matched is None else self.matched.rest

    def domain(self, domain: Domain) -> Domain:
        """Return the domain of the joined rows: the columns before, and those of the public table as table.column."""
        to = public_table(self)
        columns: dict[str, Column | List] = dict(domain.stored)
        # Rows without a match are kept by the question, so their missing cells are a group of their own.
        columns.update(
            {
                qualify(self.table, name): keep_missing(to.columns[name]) if self.how == "left" else to.columns[name]
                for name in to.columns
            }
        )
        lost = self.how != "left" or to.max_rows > 1
        ceiling = domain.row_ceiling * to.max_rows
        return Domain(columns, row_ceiling=ceiling, unreadable_rows=domain.unreadable_rows or lost)

    def neighbors(self, neighbors: Neighbors) -> Neighbors:
        """Return the relation of the joined rows: each row of a unit may have become several."""
        copies = public_table(self).max_rows
        return replace(neighbors, copies=neighbors.copies * copies) if copies > 1 else neighbors

    def apply(self, on: Primitives, domain: Domain) -> Primitives:
        """Add the join to an engine's primitives."""
        to = public_table(self)
        cells: list[exp.Expression] = []
        keys: list[exp.Expression] = []
        for place, (cell, key) in enumerate(self._compared_cells(on, domain)):
            column = trees().column(f"sordino_key_{place}")
            cells.append(cell)
            keys.append(column if key is None else on.code_of(column, key, None))
        on.join(self.table, cells, keys, left=self.how == "left", copies=to.max_rows)
        if self.rest is not None:
            # Its public cells are read as rows that meet none have them: missing.
            holds = bind_condition(self.rest, self.domain(domain))(on)
            if self.how == "left":
                on.blank([qualify(self.table, name) for name in to.columns], holds)
            else:
                on.keep(holds)
        return on

    def _compared_cells(
        self, on: Primitives, domain: Domain
    ) -> Iterator[tuple[exp.Expression, Sequence[str] | Sequence[int] | None]]:
        """Give the cells that are compared with the key, each with the values whose places they are, if they are places."""
        if self.matched is not None:
            place = rescale(bind_number(self.matched.place, domain), Fraction(1)).build(on)
            for labels in zip(*self.matched.keys, strict=True):
                yield on.label(place.copy(), labels), None
            return
        for one in self.on:
            if isinstance(one, str):
                column = domain[one]
                yield join_cell(one, column)[1](on), column.values if isinstance(column, Category) else None
            else:
                yield computed_cell(one, domain)[1](on), None

    def describe(self) -> str:
        """Return the join in words."""
        unmatched = ", rows without a match kept" if self.how == "left" else ""
        by = [one if isinstance(one, str) else describe(one) for one in self.on]
        words = f" by {' and '.join(by)}" if by else ""
        where = "" if self.condition is None else f" where {describe(self.condition)}"
        return f"joined with {self.table}{words}{where}{unmatched}"

    def plain(self) -> Any:
        """Return the join as canonical JSON data."""
        by = [one if isinstance(one, str) else plain(one) for one in self.on]
        data = [
            self.table,
            by[0] if len(by) == 1 and isinstance(by[0], str) else by,
            self.how,
            None if self.to is None else self.to.to_dict(),
        ]
        if self.condition is not None:
            data += [plain(self.condition), None if self.matched is None else self.matched.plain()]
        return data


def state_join(table: str, *, on: str | Expr | Sequence[str | Expr], how: JoinKind) -> Join | Expr:
    """Return the stated join; a semi-join or anti-join is a condition on the rows as they are."""
    columns_stated = (on,) if isinstance(on, (str, Expr)) else tuple(on) if isinstance(on, (list, tuple)) else (None,)
    if not isinstance(table, str) or not all(isinstance(one, (str, Expr)) for one in columns_stated):
        raise QuestionRefused('join takes names: join("regions", on="state"), or on=["state", "year"]')
    columns = tuple(_compared_node(one) for one in columns_stated if one is not None)
    if how in ("semi", "anti"):
        if any(not isinstance(one, str) for one in columns):
            raise QuestionRefused('a semi-join or anti-join is by a column: join("visits", on="person", how="semi")')
        has = Expr(Exists(table, None, (str(columns[0]), "") if columns else None))
        return has if how == "semi" else ~has
    if how not in ("inner", "left"):
        raise QuestionRefused(f'how is "inner", "left", "semi" or "anti", not {how!r}')
    return Join(table, columns, how)


def _compared_node(one: str | Expr) -> str | Node:
    if isinstance(one, str):
        return one
    depth(one.node)
    return one.node.name if isinstance(one.node, Name) else one.node


def qualify(table: str, column: str) -> str:
    """Return the name of a joined column."""
    return f"{table}.{column}"


def join_cell(name: str, column: Column) -> tuple[str, Build]:
    """Return the kind of key of a column, and its cell to compare: a category's code, else the value itself.

    Raises QuestionRefused for reals, which are never equal for sure.
    """
    if isinstance(column, Category):
        return ("text" if isinstance(column.values[0], str) else "whole"), category_code(name, column)
    if isinstance(column, Identifier):
        return "text", lambda on: on.text(name)
    if isinstance(column, Integer):
        return "whole", number_cell(name, column).build
    if isinstance(column, Date):
        return "day", number_cell(name, column).build
    if isinstance(column, Boolean):
        return "truth", truth_code(name, column)
    raise QuestionRefused(f"column {name!r} holds reals, which cannot be compared for equality: join by another column")


def computed_cell(node: Node, domain: Domain) -> tuple[str, Build]:
    """Return the kind of key of an expression, and its cell to compare: a text, a number, a day, a truth as 1 or 0.

    Raises QuestionRefused for what is not one of them.
    """
    of = None if is_declared(node, domain) else _number_or_none(node, domain)
    if of is None:
        declared = keys(node, domain)
        kinds = {type(label) for label in declared.labels if label is not None}
        labels = [int(label) if isinstance(label, bool) else label for label in declared.labels]

        def build(on: Primitives) -> exp.Expression:
            return on.label(declared.row_code(on), labels)

        return ("text" if kinds == {str} else "truth" if kinds == {bool} else "whole"), build
    if of.kind == "datetime":
        raise QuestionRefused(f"{describe(node)} is a moment, and no key is: truncate it to a day")
    if of.unit.denominator != 1:
        raise QuestionRefused(f"{describe(node)} has fractions, and no key has: round it, with FLOOR or ROUND")
    return ("whole" if of.kind == "number" else "day"), rescale(of, Fraction(1)).build


def _number_or_none(node: Node, domain: Domain) -> BoundNumber | None:
    """Return the number or day that an expression is; None for a choice between texts, and for a condition."""
    if isinstance(node, (Compare, Connective, Not, IsIn, IsNull, Match)):
        return None
    try:
        return bind_number(node, domain)
    except QuestionRefused:
        if not isinstance(node, When):
            raise
        return None


def public_table(join: Join) -> PublicTable:
    """Return the public table that a join is with; raises QuestionRefused where no curator has found it yet."""
    if join.to is None:
        raise QuestionRefused(f"{join.describe()}: hand a join to plan or ask of its own table, or write it in SQL")
    return join.to


# as a domain may declare: sums of so many are proved exact
_MOST_ROWS = 2**48


@dataclass(frozen=True, slots=True)
class Unnest:
    """One row for each item of a row's list in `column`: a row step.

    `most` is the declared max_items, 0 until the table is known.
    """

    column: str
    most: int = 0

    def bind(self, domain: Domain) -> Unnest:
        """Return the step with its declared bound; raises UnknownName or QuestionRefused where the column holds no lists."""
        if self.column in domain.lists:
            return Unnest(self.column, domain.lists[self.column].max_items)
        if self.column in domain:
            raise QuestionRefused(
                f"column {self.column!r} is not declared as a list, so it cannot be unnested; declare "
                "sd.List(..., max_items=...), and unnest it once, before per_unit"
            )
        raise UnknownName(f"column {self.column!r} is not declared; {nearest(str(self.column), domain.stored)}")

    def domain(self, domain: Domain) -> Domain:
        """Return the domain of the items' rows: the column is declared as an item is."""
        most = self.bind(domain).most
        if most != self.most:
            raise QuestionRefused(f"{self.describe()}: hand it to plan or ask of its own table, or write it in SQL")
        if domain.row_ceiling * most > _MOST_ROWS:
            raise QuestionRefused(
                "these items could make more than 2^48 rows: declare the table's row_ceiling, a public bound on its rows"
            )
        columns = {**domain.stored, self.column: domain.lists[self.column].of}
        return Domain(columns, row_ceiling=domain.row_ceiling * most, unreadable_rows=True)

    def neighbors(self, neighbors: Neighbors) -> Neighbors:
        """Return the relation of the items' rows: each row of a unit may have become several."""
        if not self.most:
            raise QuestionRefused(f"{self.describe()}: hand it to plan or ask of its own table, or write it in SQL")
        return replace(neighbors, copies=neighbors.copies * self.most)

    def apply(self, on: Primitives, domain: Domain) -> Primitives:
        """Add UNNEST to an engine's primitives."""
        # for its check of the bound
        self.domain(domain)
        on.unnest(self.column, self.most)
        return on

    def describe(self) -> str:
        """Return the step in words."""
        most = f", at most {self.most:,} of a row" if self.most else ""
        return f"one row for each item of {self.column}{most}"

    def plain(self) -> Any:
        """Return the step as canonical JSON data."""
        return ["unnest", self.column, self.most]
