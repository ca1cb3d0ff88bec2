"""Rows that a text writes out: VALUES, SELECT of constants, lists and series of constant ends.

Outside of private questions they are tables like any other; a series is written out, as no function that makes rows runs there.
Within one, each row of the private table meets at most one of them: what it says of the row is a constant, or a choice among
constants, a function of the row alone. So no row becomes several, and all sensitivities stay. It knows trees alone.
"""

from __future__ import annotations

import calendar
import datetime
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sordino.ask.queries.expressions.sql_trees import from_of, trees
from sordino.core.errors import QuestionRefused

# the most rows of a series
MOST_ROWS = 10_000
# the most rows that one private row is compared with
_MOST_CHOICES = 100
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_MONTHS = {"month": 1, "quarter": 3, "year": 12, "decade": 120, "century": 1200}
_SERIES = "sordino_series"


@dataclass(frozen=True, slots=True)
class LiteralTable:
    """Rows of constants, as trees, and the names of their columns in lower case."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def read_literals(query: Any, ctes: Mapping[str, LiteralTable], names: Sequence[str] = ()) -> LiteralTable | None:
    """Return the rows of constants that a query is; None for any other. `ctes` are those that WITH names."""
    exp = trees()
    while isinstance(query, (exp.Subquery, exp.Paren)):
        names = names or getattr(query, "alias_column_names", ())
        query = query.this
    if isinstance(query, exp.Values):
        rows = [tuple(row.expressions) if isinstance(row, exp.Tuple) else (row,) for row in query.expressions]
        width = len(rows[0])
        columns = [*(names or query.alias_column_names), *(f"col{i}" for i in range(width))][:width]
        return _literal_table([name.lower() for name in columns], rows)
    if isinstance(query, exp.Union) and not query.args.get("order"):
        one = read_literals(query.this, ctes)
        other = read_literals(query.expression, ctes)
        if one is None or other is None or len(one.columns) != len(other.columns):
            return None
        united = [*one.rows, *other.rows]
        rows = list(dict.fromkeys(united)) if query.args.get("distinct") else united
        return _literal_table([name.lower() for name in names] or list(one.columns), rows)
    if not isinstance(query, exp.Select) or any(
        v for n, v in query.args.items() if n not in ("expressions", "from_", "from", "kind")
    ):
        return None
    start = from_of(query)
    if start is None:
        row = tuple(item.unalias() for item in query.expressions)
        columns = list(names) or [item.output_name for item in query.expressions]
        return _literal_table([name.lower() for name in columns], [row])
    inner = literals_of(start.this, ctes)
    if inner is None:
        return None
    if (
        len(query.expressions) == 1
        and isinstance(query.expressions[0], exp.Star)
        and not any(query.expressions[0].args.values())
    ):
        return _literal_table([name.lower() for name in names] or list(inner.columns), list(inner.rows))
    items = [item.unalias() for item in query.expressions]
    if not all(isinstance(item, exp.Column) and item.name.lower() in inner.columns for item in items):
        return None
    places = [inner.columns.index(item.name.lower()) for item in items]
    columns = list(names) or [item.output_name for item in query.expressions]
    return _literal_table([name.lower() for name in columns], [tuple(row[i] for i in places) for row in inner.rows])


def literals_of(source: Any, ctes: Mapping[str, LiteralTable]) -> LiteralTable | None:
    """Return the rows of constants that a source of FROM is; None for any other."""
    exp = trees()
    if isinstance(source, exp.Table) and not source.db and not source.args.get("sample"):
        table = ctes.get(source.name.lower())
        names = [name.lower() for name in source.alias_column_names]
        return table if table is None or not names else LiteralTable((*names, *table.columns[len(names) :]), table.rows)
    return read_literals(source, ctes) if isinstance(source, (exp.Values, exp.Subquery)) else None


def _literal_table(columns: list[str], rows: list[tuple[Any, ...]]) -> LiteralTable | None:
    """Return the table where all of its cells are constants and its columns have names of their own."""
    exp = trees()
    computed = (
        exp.Column,
        exp.Query,
        exp.AggFunc,
        exp.Window,
        exp.Star,
        exp.Anonymous,
        exp.Explode,
        exp.GenerateSeries,
    )
    plain = all(len(row) == len(columns) and not any(cell.find(*computed) for cell in row) for row in rows)
    named = all(columns) and len(set(columns)) == len(columns)
    return LiteralTable(tuple(columns), tuple(rows)) if plain and named and rows else None


def join_literals(select: Any, ctes: Mapping[str, LiteralTable], own: frozenset[str]) -> None:
    """Put constants in the place of the columns of the rows that a SELECT writes out and joins; `own` are its other columns.

    Joined without a condition there is one such row. Of several each row of the other side meets one at most, by comparisons of
    one value with constants; then a column is a choice among them. Raises QuestionRefused where it may meet two.
    """
    joins = select.args.get("joins") or []
    part = "from_" if select.args.get("from_") is not None else "from"
    start = select.args.get(part)
    plain = all(not join.args.get("side") and not join.args.get("method") for join in joins)
    if start is not None and joins and plain and literals_of(start.this, ctes) is not None:
        # The rows that are written out stand first: their order says nothing.
        other = next((join for join in joins if literals_of(join.this, ctes) is None), None)
        if other is None:
            return
        first = start.this
        start.set("this", other.this.copy())
        other.set("this", first.copy())
    for join in list(select.args.get("joins") or []):
        table = literals_of(join.this, ctes)
        if table is None:
            continue
        side = str(join.args.get("side") or "").upper()
        name = join.this.alias_or_name.lower()
        if side not in ("", "LEFT") or join.args.get("method") or join.args.get("using"):
            raise QuestionRefused(
                f"rows that are written out are joined to those of persons by JOIN ... ON and LEFT JOIN ... ON: {name}"
            )
        _join_one(select, join, table, name, own, left=side == "LEFT")


def _join_one(select: Any, join: Any, table: LiteralTable, name: str, own: frozenset[str], *, left: bool) -> None:
    """Replace the columns of one joined table of constants by its constants, chosen by the conditions of the join."""
    exp = trees()

    def is_theirs(node: Any) -> bool:
        if not isinstance(node, exp.Column) or node.name.lower() not in table.columns:
            return False
        return node.table.lower() == name if node.table else node.name.lower() not in own

    def put(tree: Any, row: tuple[Any, ...]) -> Any:
        """Return a condition with a row's constants in it."""
        changed = exp.paren(tree.copy())
        for column in [c for c in changed.find_all(exp.Column) if is_theirs(c)]:
            column.replace(row[table.columns.index(column.name.lower())].copy())
        return changed.this

    on = join.args.get("on")
    parts = [] if on is None else _conjuncts(on)
    where = select.args.get("where")
    if not parts and where is not None:
        # FROM t, v WHERE v.k = t.k: what compares both says which row is met.
        every = _conjuncts(where.this)
        parts = [part for part in every if any(map(is_theirs, part.find_all(exp.Column)))]
        if len(table.rows) > 1:
            rest = [part for part in every if part not in parts]
            select.set("where", exp.Where(this=exp.and_(*(p.copy() for p in rest))) if rest else None)
        else:
            parts = []
    if len(table.rows) > _MOST_CHOICES:
        raise QuestionRefused(
            f"{name} has {len(table.rows)} rows, above {_MOST_CHOICES} that are joined as they are written: declare it as a "
            "public table"
        )
    conditions = [[put(part, row) for part in parts] for row in table.rows]
    if len(table.rows) > 1 and not _are_apart(conditions):
        raise QuestionRefused(
            f"a row of a person may meet two rows of {name}: compare one value with its columns for equality, or with ends that "
            "do not overlap, x >= lo AND x < hi; or declare it as a public table"
        )
    # The join goes: an inner one leaves a condition that some row is met, and each column becomes a choice.
    join.pop()
    row_conditions = [exp.and_(*(part.copy() for part in condition)) if condition else None for condition in conditions]
    if not left and any(condition is not None for condition in row_conditions):
        select.where(
            exp.paren(exp.or_(*(condition.copy() for condition in row_conditions if condition is not None))), copy=False
        )
    for place, item in enumerate(select.expressions):
        if is_theirs(item):
            select.expressions[place].replace(exp.alias_(item.copy(), item.name))
    for column in [c for c in select.find_all(exp.Column) if is_theirs(c)]:
        values = [row[table.columns.index(column.name.lower())] for row in table.rows]
        if len(values) == 1 and not (left and row_conditions[0] is not None):
            column.replace(exp.paren(values[0].copy()) if isinstance(values[0], exp.Binary) else values[0].copy())
            continue
        ifs = [
            exp.If(this=exp.true() if condition is None else condition.copy(), true=value.copy())
            for condition, value in zip(row_conditions, values, strict=True)
        ]
        column.replace(exp.Case(ifs=ifs))


def _conjuncts(node: Any) -> list[Any]:
    exp = trees()
    node = node.unnest() if isinstance(node, exp.Paren) else node
    if isinstance(node, exp.And):
        return [*_conjuncts(node.this), *_conjuncts(node.expression)]
    return [node]


def _are_apart(conditions: Sequence[Sequence[Any]]) -> bool:
    """Return whether no row meets two of some conditions: one value lies in ranges that do not overlap."""
    ranges_of_rows = [_ranges(condition) for condition in conditions]
    shared = set.intersection(*(set(ranges) for ranges in ranges_of_rows))
    return any(
        all(_do_not_meet(one[value], other[value]) for one, other in itertools.combinations(ranges_of_rows, 2))
        for value in shared
    )


# a constant, and whether it belongs to the range
_End = tuple[Any, bool]
_Range = tuple[_End | None, _End | None]


def _ranges(condition: Sequence[Any]) -> dict[str, _Range]:
    """Return the range in which each value that a condition compares with constants lies, by the value's text."""
    exp = trees()
    ranges: dict[str, _Range] = {}
    mirrored = {exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE, exp.EQ: exp.EQ}
    for part in condition:
        if isinstance(part, exp.Between):
            pairs = [(exp.GTE, part.this, part.args["low"]), (exp.LTE, part.this, part.args["high"])]
        elif type(part) in mirrored:
            pairs = [(type(part), part.this, part.expression), (mirrored[type(part)], part.expression, part.this)]
        else:
            continue
        for operator, value, end in pairs:
            constant = _number_of(end)
            if constant is None or value.find(exp.Column) is None:
                continue
            low, high = ranges.get(value.sql(), (None, None))
            if operator in (exp.GT, exp.GTE, exp.EQ) and low is None:
                low = (constant, operator is not exp.GT)
            if operator in (exp.LT, exp.LTE, exp.EQ) and high is None:
                high = (constant, operator is not exp.LT)
            ranges[value.sql()] = (low, high)
    return ranges


def _do_not_meet(one: _Range, other: _Range) -> bool:
    def before(first: _Range, second: _Range) -> bool:
        end = first[1]
        start = second[0]
        if end is None or start is None or type(end[0]) is not type(start[0]):
            return False
        return bool(end[0] < start[0] or (end[0] == start[0] and not (end[1] and start[1])))

    same_kind = one[0] is not None and other[0] is not None and isinstance(one[0][0], str)
    if same_kind and one[0] == one[1] and other[0] == other[1]:
        return bool(one[0] != other[0])
    return before(one, other) or before(other, one)


def _number_of(node: Any) -> Any:
    """Return a constant as a number, a day or a text; None for anything else."""
    exp = trees()
    if isinstance(node, exp.Neg):
        number = _number_of(node.this)
        return -number if isinstance(number, Fraction) else None
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.this.is_string:
        return _moment_of(node)
    if not isinstance(node, exp.Literal):
        return None
    return str(node.this) if node.is_string else Fraction(str(node.this))


def _moment_of(node: Any) -> datetime.datetime | None:
    if node.to.this.name not in ("DATE", "TIMESTAMP", "DATETIME", "TIMESTAMPNTZ"):
        return None
    try:
        return datetime.datetime.fromisoformat(str(node.this.this))
    except ValueError:
        return None


# ---- series of constant ends, outside of private questions


def write_series(query: Any) -> None:
    """Write out lists and series of constant ends that a query has for rows: no function that makes rows runs outside.

    UNNEST(generate_series(DATE '2024-01-01', DATE '2024-06-01', INTERVAL 1 MONTH)) becomes VALUES of six moments.
    """
    exp = trees()
    for select in list(query.find_all(exp.Select)):
        alone = not from_of(select) and len(select.expressions) == 1
        inner = select.expressions[0].find(exp.Explode) if alone else None
        if inner is not None and (values := _values_of(inner.this)) is not None:
            name = select.expressions[0].alias or "unnest"
            inner.replace(exp.column(name, quoted=True))
            select.set(
                "from_" if "from_" in exp.Select.arg_types else "from", exp.From(this=_write(values, _SERIES, name))
            )
    for source in list(query.find_all(exp.Table, exp.Unnest)):
        series = source.this if isinstance(source, exp.Table) else None
        name = "unnest"
        if isinstance(series, exp.GenerateSeries):
            name = "range" if series.args.get("is_end_exclusive") else "generate_series"
        elif isinstance(source, exp.Unnest) and len(source.expressions) == 1 and not source.args.get("offset"):
            series = source.expressions[0]
        values = None if series is None else _values_of(series)
        if values is not None and isinstance(source.parent, (exp.From, exp.Join)):
            named = source.alias_column_names
            source.replace(_write(values, source.alias or name, named[0] if named else name))


def _write(values: Sequence[Any], table: str, column: str) -> Any:
    exp = trees()
    alias = exp.TableAlias(this=exp.to_identifier(table), columns=[exp.to_identifier(column, quoted=True)])
    return exp.Values(expressions=[exp.Tuple(expressions=[value]) for value in values], alias=alias)


def _values_of(node: Any) -> list[Any] | None:
    """Return the constants that a list or a series is, as trees; None where it is no such."""
    exp = trees()
    if isinstance(node, exp.Array):
        plain = node.expressions and not any(item.find(exp.Column, exp.Query, exp.Func) for item in node.expressions)
        return [item.copy() for item in node.expressions] if plain else None
    if not isinstance(node, exp.GenerateSeries):
        return None
    step = node.args.get("step")
    first = _number_of(node.args.get("start"))
    last = _number_of(node.args.get("end"))
    before_end = bool(node.args.get("is_end_exclusive"))
    if isinstance(first, Fraction) and isinstance(last, Fraction):
        by = Fraction(1) if step is None else _number_of(step)
        if not isinstance(by, Fraction) or not by or any(n.denominator != 1 for n in (first, last, by)):
            return None
        numbers = range(int(first), int(last) + (0 if before_end else 1 if by > 0 else -1), int(by))
        _check_size(len(numbers))
        return [
            exp.Literal.number(number) if number >= 0 else exp.Neg(this=exp.Literal.number(-number))
            for number in numbers
        ]
    if not isinstance(first, datetime.datetime) or not isinstance(last, datetime.datetime):
        return None
    length = _interval_of(step)
    if length is None:
        return None
    months, seconds = length
    moments: list[datetime.datetime] = []
    at = first
    rises = months > 0 or seconds > 0
    while (at < last or (at == last and not before_end)) if rises else (at > last or (at == last and not before_end)):
        moments.append(at)
        _check_size(len(moments))
        try:
            at = _add(at, months, seconds)
        except (ValueError, OverflowError):
            break
    return [exp.cast(exp.Literal.string(moment.isoformat(sep=" ")), "TIMESTAMP") for moment in moments] or None


def _check_size(count: int) -> None:
    if count > MOST_ROWS:
        raise QuestionRefused(f"a series has at most {MOST_ROWS:,} rows: take larger steps")


def _interval_of(node: Any) -> tuple[int, int] | None:
    """Return the months and the seconds of an interval of one unit, above or below 0; None for any other."""
    exp = trees()
    if not isinstance(node, exp.Interval) or not isinstance(node.this, exp.Literal) or node.unit is None:
        return None
    unit = str(node.unit.name).lower().removesuffix("s")
    try:
        count = int(str(node.this.this))
    except ValueError:
        return None
    months = _MONTHS.get(unit, 0) * count
    seconds = _SECONDS.get(unit, 0) * count
    return (months, seconds) if months or seconds else None


def _add(moment: datetime.datetime, months: int, seconds: int) -> datetime.datetime:
    """Return a moment so much later; of a month that is too short its last day."""
    place = moment.year * 12 + moment.month - 1 + months
    year, month = divmod(place, 12)
    day = min(moment.day, calendar.monthrange(year, month + 1)[1])
    return moment.replace(year=year, month=month + 1, day=day) + datetime.timedelta(seconds=seconds)
