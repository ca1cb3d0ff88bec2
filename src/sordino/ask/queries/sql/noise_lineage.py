"""Which columns of a statement have replicates: how noise reaches them, from the text alone.

A column's interval comes from its replicates, which hold their coverage where it is nearly linear in the noise, or increases
with one noisy value. This file follows the noise from the blocks through the SELECTs around them and says where that is not
so: extremes, ranks, rows that noisy values choose, what was selected and not noised. What it does not know has no interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sordino.ask.queries.expressions.sql_trees import from_of, trees, with_of
from sordino.ask.queries.sql.outside_select import BLOCK
from sordino.core.estimates.replicates import ReleasedStatement, explain_no_replicate

REPLICATE = "sordino_replicate"
SIGN = "sordino_sign"
_DRAWN = "sordino_drawn"

_CHOSEN = "its rows are chosen or ordered by noisy values"
_EXTREME = "it is an extreme of noisy values, which noise moves to one side"
_RANK = "it is a rank or an order of noisy values, which no replicates cover"
_SPREAD = "it is a spread of noisy values, to which the noise adds"
_JUMPS = "it combines values that jump or bend, such as rounded ones, powers, or conditions on noisy values"
_SQUARE = "it multiplies a noisy value with itself, to which the noise adds"
_UNKNOWN = "how noise reaches it is not known"

_EXTREMES = frozenset(
    [
        "Max",
        "Min",
        "ArgMax",
        "ArgMin",
        "Median",
        "Mode",
        "Quantile",
        "PercentileCont",
        "PercentileDisc",
        "ApproxQuantile",
        "ApproxTopK",
    ]
)
_SPREADS = frozenset(["Stddev", "StddevPop", "StddevSamp", "Variance", "VariancePop", "Corr", "CovarPop", "CovarSamp"])
_RANKS = frozenset(["RowNumber", "Rank", "DenseRank", "Ntile", "PercentRank", "CumeDist"])
_SHIFTS = frozenset(
    ["Lag", "Lead", "FirstValue", "LastValue", "NthValue", "First", "Last", "AnyValue", "IgnoreNulls", "RespectNulls"]
)
_LINEAR = frozenset(["Sum", "Avg"])
# Increasing or nearly linear functions of one value, and what only passes values on.
_SMOOTH = frozenset(
    [
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Neg",
        "Paren",
        "Alias",
        "Coalesce",
        "Nullif",
        "Exp",
        "Ln",
        "Log",
        "Sqrt",
        "Cbrt",
        "Abs",
        "Pow",
        "Tuple",
        "Literal",
        "Null",
        "Boolean",
        "DataType",
        "Interval",
        "Placeholder",
        "Var",
        "Identifier",
    ]
)
_STEPS = frozenset(["Round", "Floor", "Ceil", "Trunc", "IntDiv", "Sign", "If", "Case"])


@dataclass(frozen=True, slots=True)
class Noise:
    """How noise reaches a value: not at all, smoothly, in `steps`; `why` says in words that replicates do not cover it."""

    noisy: bool = False
    steps: bool = False
    why: str = ""

    def join(self, other: Noise) -> Noise:
        """Return how noise reaches a value that is computed from both."""
        return Noise(self.noisy or other.noisy, self.steps or other.steps, self.why or other.why)


@dataclass(frozen=True, slots=True)
class Answer:
    """How noise reaches a table: its columns by name in lower case, and which rows it has.

    `chosen` says that noisy values of the statement chose the rows. `hidden` says that a threshold chose them before: then
    what is computed of one row holds given that it shows, and what combines rows does not. It has `most` rows at most.
    """

    columns: dict[str, Noise]
    chosen: str = ""
    hidden: str = ""
    most: int = 1


@dataclass(slots=True)
class Lineage:
    """What is known of a statement's columns, and the divisors and arguments whose sign noise may change."""

    columns: list[Noise]
    guarded: list[Any] = field(default_factory=list)


def follow_noise(outside: Any, tables: Mapping[str, Answer]) -> Lineage:
    """Return how noise reaches the columns of a statement's outside, a tree, over tables of these answers."""
    reader = _Reader()
    try:
        answer = reader.read(outside, dict(tables), ())
    except _Unread:
        return Lineage([], [])
    columns = [noise if not answer.chosen else replace(noise, why=noise.why or answer.chosen) for noise in reader.last]
    return Lineage(columns, list(reader.guarded.values()))


def write_replicated(outside: Any, lineage: Lineage, columns: Mapping[str, Sequence[str]], *, count: int) -> str:
    """Return SQL that gives the answer of each replicate 0, ..., `count`, whose number stands in each block's table.

    `columns` are the names of the blocks' columns. A divisor, or what is taken the logarithm, root, power or size of, counts
    where it has the sign of the token `sordino_sign`; else its quotient is NaN, which what is computed from it is too.
    """
    exp = trees()
    _guard(lineage.guarded)
    if not outside.args.get("limit") and not outside.args.get("offset"):
        outside.set("order", None)
    for table in list(outside.find_all(exp.Table)):
        if table.name.startswith(BLOCK):
            rows = exp.Select(expressions=[exp.column(name) for name in columns[table.name]]).from_(table.name)
            rows.where(exp.EQ(this=exp.column(REPLICATE), expression=exp.column("number", _DRAWN)), copy=False)
            alias = exp.TableAlias(this=exp.to_identifier(table.alias_or_name))
            table.replace(exp.Subquery(this=rows, alias=alias))
    text = outside.sql(dialect="duckdb")
    return f"SELECT {_DRAWN}.number, given.* FROM range({count + 1}) AS {_DRAWN}(number), LATERAL ({text}) AS given"


def _guard(nodes: Iterable[Any]) -> None:
    """Replace each of these, from the innermost on, by NaN where its argument has another sign."""
    exp = trees()
    for node in sorted(nodes, key=lambda one: -one.depth):
        sign = exp.Mul(this=exp.paren(_argument(node).copy()), expression=exp.column(SIGN))
        has_sign = exp.GT(this=sign, expression=exp.Literal.number(0))
        nan = exp.cast(exp.Literal.string("NaN"), "DOUBLE")
        node.replace(exp.paren(exp.Case(ifs=[exp.If(this=has_sign, true=node.copy())], default=nan)))


def table_answers(statement: ReleasedStatement) -> dict[str, Answer]:
    """Return how noise reaches the tables of a statement: the answers of its blocks, and public tables, which have none."""
    answers = {}
    for block in (*statement.blocks, *statement.public):
        columns = {}
        for name, _, column in block.columns:
            why = "" if isinstance(column, tuple) else explain_no_replicate(column)
            columns[name.lower()] = Noise(not isinstance(column, tuple), why=why)
        answers[block.name.lower()] = Answer(columns, hidden=block.chosen, most=block.height)
    return answers


class _Unread(Exception):
    """Part of a statement whose columns are not known one by one."""


Scope = tuple[tuple[str, Answer], ...]


class _Reader:
    """Reads one statement from the inside out."""

    def __init__(self) -> None:
        self.guarded: dict[int, Any] = {}
        # The columns of the query read last, in order.
        self.last: list[Noise] = []

    def read(self, query: Any, tables: dict[str, Answer], outer: Scope) -> Answer:
        """Return how noise reaches a query's columns and rows."""
        exp = trees()
        tables = dict(tables)
        clause = with_of(query)
        for cte in [] if clause is None else clause.expressions:
            tables[cte.alias.lower()] = _rename_columns(self.read(cte.this, tables, outer), cte)
        if isinstance(query, exp.Subquery) and not query.args.get("pivots"):
            return self.read(query.this, tables, outer)
        if isinstance(query, exp.SetOperation):
            return self._read_set(query, tables, outer)
        if not isinstance(query, exp.Select) or query.args.get("laterals"):
            raise _Unread
        return self._read_select(query, tables, outer)

    def _read_set(self, query: Any, tables: dict[str, Answer], outer: Scope) -> Answer:
        exp = trees()
        left = self.read(query.this, tables, outer)
        columns = self.last
        right = self.read(query.expression, tables, outer)
        if len(columns) != len(self.last):
            raise _Unread
        joined = [one.join(other) for one, other in zip(columns, self.last, strict=True)]
        compared = not isinstance(query, exp.Union) or query.args.get("distinct")
        most = left.most + right.most
        cut = _cuts(query, most)
        selection = left.chosen or right.chosen
        if (compared or cut) and any(noise.noisy for noise in joined):
            selection = selection or _CHOSEN
        self.last = joined
        return Answer(dict(zip(left.columns, joined, strict=False)), selection, left.hidden or right.hidden, most)

    def _read_select(self, select: Any, tables: dict[str, Answer], outer: Scope) -> Answer:
        exp = trees()
        scope: Scope = ()
        selection = hidden = ""
        most = 1
        start = from_of(select)
        joins = select.args.get("joins") or []
        for source in [] if start is None else [start.this, *(join.this for join in joins)]:
            answer = self._read_source(source, tables, outer)
            scope = (*scope, (source.alias_or_name.lower(), answer))
            selection = selection or answer.chosen
            hidden = hidden or answer.hidden
            most *= max(1, answer.most)
        inside = _Expressions(self, tables, (*scope, *outer), selection or hidden)
        items = self._items(select, scope)
        # Names of items may stand in conditions and in the order.
        inside.named = {name: item for name, item in items if isinstance(item, exp.Expression)}
        group = select.args.get("group")
        if group is not None and group.args.get("all"):
            raise _Unread
        joined = {name.name.lower() for join in joins for name in join.args.get("using") or []}
        deciding = [answer.columns.get(name, Noise()) for name in joined for _, answer in scope]
        rows = [*(join.args.get("on") for join in joins), select.args.get("where")]
        deciding += [inside.of(node) for node in rows if node is not None]
        if any(noise.noisy or noise.why for noise in deciding):
            selection = selection or _CHOSEN
            inside.chosen = inside.chosen or selection
        later = [select.args.get("qualify"), select.args.get("having"), *_members(group, items)]
        if _cuts(select, most):
            later += _members(select.args.get("order"), items)
        columns = [(name, item if isinstance(item, Noise) else inside.of(item)) for name, item in items]
        deciding = [inside.of(node) for node in later if node is not None]
        deciding += [noise for _, noise in columns] if select.args.get("distinct") else []
        is_cut = any(noise.noisy or noise.why for noise in deciding)
        # What aggregates without GROUP BY has one row, whatever the rows are: what they do to its columns is known there.
        single = group is None and any(isinstance(i, exp.Expression) and _aggregates(i) for _, i in items)
        selection = "" if single else selection
        self.last = [noise for _, noise in columns]
        return Answer(
            dict(columns), selection or (_CHOSEN if is_cut else ""), "" if single else hidden, 1 if single else most
        )

    def _read_source(self, source: Any, tables: dict[str, Answer], outer: Scope) -> Answer:
        exp = trees()
        if source.args.get("joins"):
            raise _Unread
        if isinstance(source, exp.Table) and source.name.lower() in tables:
            answer = tables[source.name.lower()]
        elif isinstance(source, exp.Subquery):
            answer = self.read(source.this, tables, outer)
        elif isinstance(source, exp.Values):
            width = len(source.expressions[0].expressions)
            answer = Answer({f"col{i}": Noise() for i in range(width)}, most=len(source.expressions))
        else:
            raise _Unread
        pivots = source.args.get("pivots") or []
        return (
            self._pivot(answer, pivots[0], tables, outer)
            if len(pivots) == 1
            else _rename_columns(answer, source, pivots)
        )

    def _pivot(self, answer: Answer, pivot: Any, tables: dict[str, Answer], outer: Scope) -> Answer:
        """Return the columns of a PIVOT over listed values: what it groups by, then an aggregate for each value."""
        exp = trees()
        fields = pivot.args.get("fields") or []
        listed = all(isinstance(field, exp.In) and field.expressions for field in fields)
        if pivot.args.get("unpivot") or pivot.args.get("group") or not fields or not listed:
            raise _Unread
        inside = _Expressions(self, tables, (("", answer), *outer), answer.chosen or answer.hidden)
        used = {column.name.lower() for part in (*fields, *pivot.expressions) for column in part.find_all(exp.Column)}
        columns = {name: noise for name, noise in answer.columns.items() if name not in used}
        keys = [*columns.values(), *(inside.of(field.this) for field in fields)]
        cells = math.prod(len(field.expressions) for field in fields)
        aggregates = [inside.of(one.unalias()) for one in pivot.expressions]
        # DuckDB names them by the values; only a star shows them.
        columns |= {f"sordino_pivot_{i}": noise for i, noise in enumerate(aggregates * cells)}
        selection = answer.chosen or (_CHOSEN if any(noise.noisy or noise.why for noise in keys) else "")
        return replace(answer, columns=columns, chosen=selection)

    def _items(self, select: Any, scope: Scope) -> list[tuple[str, Any]]:
        """Return the columns of a SELECT by name: expressions, or how noise reaches the columns of a star."""
        exp = trees()
        items: list[tuple[str, Any]] = []
        for item in select.expressions:
            star = item if isinstance(item, exp.Star) else item.this if isinstance(item, exp.Column) else None
            if not isinstance(star, exp.Star):
                items.append((item.output_name.lower() or f"sordino_item_{len(items)}", item))
                continue
            if any(star.args.get(part) for part in ("except_", "except", "replace", "rename")):
                raise _Unread
            table = item.table.lower() if isinstance(item, exp.Column) else ""
            if (select.args.get("joins") or []) and any(join.args.get("using") for join in select.args["joins"]):
                raise _Unread
            for name, answer in scope:
                if table in ("", name):
                    items += list(answer.columns.items())
        return items


@dataclass(slots=True)
class _Expressions:
    """Reads the expressions of one SELECT; `chosen` says how the rows that it combines were chosen, if they were."""

    reader: _Reader
    tables: dict[str, Answer]
    scope: Scope
    chosen: str
    named: dict[str, Any] = field(default_factory=dict)

    def of(self, node: Any) -> Noise:
        """Return how noise reaches an expression."""
        exp = trees()
        if isinstance(node, exp.Column):
            return self._column(node)
        if isinstance(node, (exp.Subquery, exp.Exists)) or (isinstance(node, exp.In) and node.args.get("query")):
            return self._query(node)
        if isinstance(node, exp.Window):
            return self._window(node)
        if isinstance(node, exp.Filter):
            value = self._aggregate(node.this)
            condition = self.of(node.expression.this)
            return replace(value, noisy=True, why=value.why or _CHOSEN) if condition.noisy or condition.why else value
        if isinstance(node, (exp.AggFunc, exp.WithinGroup)):
            return self._aggregate(node)
        return self._function(node)

    def _column(self, node: Any) -> Noise:
        name = node.name.lower()
        table = node.table.lower()
        columns = [
            answer.columns[name] for alias, answer in self.scope if table in ("", alias) and name in answer.columns
        ]
        if columns:
            return columns[0] if table else _join(columns)
        if not table and name in self.named:
            item = self.named.pop(name)
            noise = self.of(item)
            self.named[name] = item
            return noise
        return Noise(True, why=_UNKNOWN)

    def _query(self, node: Any) -> Noise:
        exp = trees()
        query = node.args.get("query") if isinstance(node, exp.In) else node.this
        before = self.reader.last
        answer = self.reader.read(query.this if isinstance(query, exp.Subquery) else query, self.tables, self.scope)
        noise = _join(self.reader.last)
        self.reader.last = before
        if answer.chosen or answer.hidden:
            noise = Noise(True, noise.steps, noise.why or answer.chosen or answer.hidden)
        if isinstance(node, exp.In):
            noise = noise.join(self.of(node.this))
        return replace(noise, steps=noise.noisy) if isinstance(node, (exp.In, exp.Exists)) else noise

    def _window(self, node: Any) -> Noise:
        exp = trees()
        order = [node.args.get("order"), *(node.args.get("partition_by") or [])]
        ordered = _join(self.of(part) for one in order if one is not None for part in _parts(one))
        function = node.this
        while isinstance(function, (exp.IgnoreNulls, exp.RespectNulls)):
            function = function.this
        kind = type(function).__name__
        if ordered.noisy or ordered.why:
            return Noise(True, why=_RANK)
        if kind in _RANKS:
            return Noise(bool(self.chosen), why=self.chosen)
        if kind in _SHIFTS:
            value = _join(self.of(part) for part in function.iter_expressions())
            return value if not self.chosen else replace(value, noisy=True, why=value.why or self.chosen)
        if isinstance(function, (exp.AggFunc, exp.Filter)):
            return self.of(function)
        return Noise(True, why=_UNKNOWN)

    def _aggregate(self, node: Any) -> Noise:
        exp = trees()
        kind = type(node).__name__
        value = _join(self.of(part) for part in node.iter_expressions())
        if self.chosen:
            return Noise(True, why=value.why or self.chosen)
        if isinstance(node, exp.Count) and isinstance(node.this, (exp.Star, exp.Column)):
            return Noise(why=value.why)
        if not value.noisy or value.why:
            return value
        if kind in _LINEAR and not isinstance(node.this, exp.Distinct):
            return replace(value, why=_JUMPS if value.steps else "")
        if kind in _EXTREMES:
            return replace(value, why=_EXTREME)
        if kind in _SPREADS:
            return replace(value, why=_SPREAD)
        # One value of several, as the order of the rows has it.
        return replace(value, why=_UNKNOWN)

    def _function(self, node: Any) -> Noise:
        exp = trees()
        kind = type(node).__name__
        parts = [self.of(part) for part in node.iter_expressions()]
        value = _join(parts)
        if not value.noisy or value.why:
            return value
        if isinstance(node, (exp.Greatest, exp.Least)):
            several = sum(part.noisy for part in parts) > 1
            return replace(value, steps=True, why=_EXTREME if several else "")
        if isinstance(node, exp.Mul) and all(part.noisy for part in parts) and self._share_noise(node):
            return replace(value, why=_SQUARE)
        if isinstance(node, exp.Pow):
            value = replace(value, steps=True)
        if isinstance(node, exp.Cast):
            return replace(value, steps=value.steps or not node.to.is_type("double", "float", "decimal"))
        if isinstance(node, (exp.Predicate, exp.Connector, exp.Not)) or kind in _STEPS:
            # A choice by what has no noise jumps nowhere.
            steps = _choice_steps(self, node) if isinstance(node, (exp.Case, exp.If)) else True
            value = replace(value, steps=value.steps or steps)
        elif kind not in _SMOOTH and not isinstance(node, (exp.Ordered, exp.Where, exp.Having, exp.Qualify)):
            return replace(value, why=f"{_name(node)} of noisy values has no replicates that are known to cover it")
        self._note_guard(node)
        return value

    def _share_noise(self, product: Any) -> bool:
        """Return whether both sides of a product read the same noisy column."""
        exp = trees()
        left, right = (
            {
                (column.table.lower(), column.name.lower())
                for column in side.find_all(exp.Column)
                if self.of(column).noisy
            }
            for side in (product.this, product.expression)
        )
        return bool(left & right)

    def _note_guard(self, node: Any) -> None:
        """Note an expression at whose argument noise cannot be followed: a divisor of 0, the sign of a size."""
        exp = trees()
        guarded = (exp.Div, exp.IntDiv, exp.Abs, exp.Pow, exp.Ln, exp.Log, exp.Sqrt)
        if isinstance(node, guarded) and self.of(_argument(node)).noisy:
            self.reader.guarded[id(node)] = node


def _argument(node: Any) -> Any:
    """Return the part of an expression whose sign matters: a divisor, or the argument of a function."""
    exp = trees()
    second = isinstance(node, (exp.Div, exp.IntDiv)) or (isinstance(node, exp.Log) and node.expression)
    return node.expression if second else node.this


def _choice_steps(reader: _Expressions, node: Any) -> bool:
    exp = trees()
    choices = node.args.get("ifs") or [node]
    tests = [choice.this for choice in choices] + ([node.this] if isinstance(node, exp.Case) and node.this else [])
    return any(reader.of(test).noisy for test in tests)


def _join(noises: Iterable[Noise]) -> Noise:
    joined = Noise()
    for noise in noises:
        joined = joined.join(noise)
    return joined


def _cuts(query: Any, most: int) -> bool:
    """Return whether LIMIT or OFFSET may leave out a row, of so many at most; tools write limits that never do."""
    exp = trees()
    limit = query.args.get("limit")
    if limit is None:
        return query.args.get("offset") is not None
    number = limit.expression if isinstance(limit, exp.Limit) else None
    is_plain = isinstance(number, exp.Literal) and not number.is_string
    if query.args.get("offset") is not None or number is None or not is_plain or not number.this.isdigit():
        return True
    return int(number.this) < most


def _members(clause: Any, items: Sequence[tuple[str, Any]]) -> list[Any]:
    """Return the members of GROUP BY or ORDER BY; a number is the item at this place."""
    exp = trees()
    members = []
    for member in [] if clause is None else clause.iter_expressions():
        plain = member.this if isinstance(member, exp.Ordered) else member
        if isinstance(plain, exp.Literal) and not plain.is_string:
            if not 1 <= int(plain.this) <= len(items) or isinstance(items[int(plain.this) - 1][1], Noise):
                raise _Unread
            plain = items[int(plain.this) - 1][1]
        members.append(plain)
    return members


def _parts(node: Any) -> list[Any]:
    exp = trees()
    return list(node.expressions) if isinstance(node, exp.Order) else [node]


def _aggregates(item: Any) -> bool:
    """Return whether an item aggregates rows: no aggregate of a sub-query, or over a window, does."""
    exp = trees()
    for node in item.walk(prune=lambda n: isinstance(n, (exp.Query, exp.Window))):
        if isinstance(node, exp.AggFunc) and not isinstance(node.parent, exp.Window):
            return True
    return False


def _name(node: Any) -> str:
    exp = trees()
    if isinstance(node, exp.Anonymous):
        return str(node.this).upper()
    return str(node.sql_name()) if isinstance(node, exp.Func) else type(node).__name__.upper()


def _rename_columns(answer: Answer, source: Any, pivots: Sequence[Any] = ()) -> Answer:
    """Rename an answer's columns as a source or a name of WITH lists them."""
    if pivots:
        raise _Unread
    alias = source.args.get("alias")
    names = [] if alias is None else [column.name.lower() for column in alias.args.get("columns") or []]
    if not names:
        return answer
    if len(names) != len(answer.columns):
        raise _Unread
    return replace(answer, columns=dict(zip(names, answer.columns.values(), strict=True)))
