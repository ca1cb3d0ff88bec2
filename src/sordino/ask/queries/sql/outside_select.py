"""The SELECT around private blocks: what it may call, how it is written, and which of its columns are released ones as they are.

It reads answers alone, so it is post-processing (Dwork & Roth 2014, Proposition 2.1). This file knows trees alone. Where a
value that is computed from answers lies follows from declarations, by interval arithmetic over a SELECT of answers. The value
is clipped into this range before it is used, so a range that is too narrow costs accuracy and never privacy.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sordino.ask.queries.aggregates.most_common import MostCommon
from sordino.ask.queries.aggregates.quantile import Quantile
from sordino.ask.queries.aggregates.sums import Average, Count
from sordino.ask.queries.aggregation import Aggregation
from sordino.ask.queries.expressions.bound_number import Interval
from sordino.ask.queries.expressions.compile import number
from sordino.ask.queries.expressions.sql_trees import from_of, trees, with_of, write_duckdb
from sordino.ask.queries.row_steps import step_domain
from sordino.core.domain import Domain
from sordino.core.errors import QuestionRefused

BLOCK = "sordino_block_"
VALUE = "sordino_value_"
KEY = "sordino_key_"
# The row of a block that a row of the answer was made of: its number, in each block and in the outside.
ROW = "sordino_row"
# What would make an answer depend on more than the released values, or take more than a statement may.
_REFUSED = (
    *("Rand", "Randn", "Randstr", "Uuid", "CurrentUser", "CurrentSchema", "ReadCSV", "ReadParquet", "Repeat", "Pad"),
    *("CurrentDate", "CurrentDatetime", "CurrentTime", "CurrentTimestamp", "Localtime", "Localtimestamp"),
    *(
        "GenerateSeries",
        "ExplodingGenerateSeries",
        "Explode",
        "Unnest",
        "Lateral",
        "TableSample",
        "Command",
        "Into",
        "Lock",
    ),
)
# What names of DuckDB's catalog begin with, and those of answers here.
RESERVED = ("sordino_", "duckdb_", "pg_", "sqlite_", "pragma_", "information_schema")
# Functions that sqlglot has no class for, of keys and released numbers.
_ALLOWED = frozenset(
    (
        "bar",
        "format",
        "printf",
        "strftime",
        "strptime",
        "monthname",
        "dayname",
        "even",
        "cbrt",
        "nextafter",
        "fdiv",
        "fmod",
    )
)


@dataclass(frozen=True, slots=True)
class Trace:
    """A column of the answer that is a released one as it is: its place, the block, and the column there.

    The row of the block stands in the column `ROW` of the outside, which is no column of the answer. Where noisy values
    may choose which rows are shown, that leaves all rows of a block that has at most `kept`; None where they choose nothing.
    """

    place: int
    block: int
    column: str
    kept: int | None = None

    def chooses(self, rows: int | None) -> bool:
        """Return whether noisy values may leave out some of so many rows; None for any number."""
        return self.kept is not None and (rows is None or rows > self.kept)


def write_outside(outside: Any) -> str:
    """Return the outside in DuckDB's SQL, in which calls that noise could make fail give NULL.

    Raises QuestionRefused for a function of another dialect that is written with one that is refused: SPACE as REPEAT.
    """
    import sqlglot
    from sqlglot.errors import SqlglotError

    text = write_duckdb(_totalize(outside))
    try:
        parsed = sqlglot.parse_one(text, read="duckdb")
    except SqlglotError:
        raise QuestionRefused("what surrounds the private questions cannot be written in DuckDB's SQL") from None
    check_functions(parsed)
    return text


def read_outside(text: str, tables: Iterable[str]) -> Any:
    """Parse an outside that a release holds, over answers and public tables of these names.

    Raises QuestionRefused for what no statement's outside is.
    """
    import sqlglot
    from sqlglot.errors import SqlglotError

    exp = trees()
    try:
        parsed = sqlglot.parse(text, read="duckdb")
    except (SqlglotError, RecursionError):
        parsed = []
    if len(parsed) != 1 or not isinstance(parsed[0], exp.Query):
        raise QuestionRefused("what surrounds the private questions is no SELECT")
    names = {name.lower() for name in tables} | {cte.alias.lower() for cte in parsed[0].find_all(exp.CTE)}
    for node in parsed[0].walk():
        if isinstance(node, exp.Table) and (node.name.lower() not in names or len(node.parts) != 1):
            raise QuestionRefused("what surrounds the private questions reads another table")
    check_functions(parsed[0])
    return parsed[0]


def check_functions(outside: Any) -> None:
    """Raise QuestionRefused for a function that is not allowed outside, or may exceed a statement's limits."""
    exp = trees()
    for node in outside.walk():
        kind = type(node).__name__
        recursive = isinstance(node, exp.With) and node.args.get("recursive")
        if recursive:
            raise QuestionRefused(
                "WITH RECURSIVE is not supported around private questions: how often one is asked may not follow from its answer"
            )
        if kind in _REFUSED or kind.startswith(("Current", "Session")):
            word = node.sql_name() if isinstance(node, exp.Func) else kind.upper()
            raise QuestionRefused(
                f"{word} is not supported around private questions: it is no function of released values"
            )
        if isinstance(node, exp.CTE) and node.alias.lower().startswith(RESERVED):
            # Read before it is defined, such a name is DuckDB's own view of its catalog.
            raise QuestionRefused(f"WITH may not define {node.alias!r}: it is a reserved name; any other works")
        if isinstance(node, exp.Anonymous) and str(node.this).lower() not in _ALLOWED:
            raise QuestionRefused(f"{str(node.this).upper()} is no known function of released values")


def _totalize(outside: Any) -> Any:
    """Return the outside with functions that noise could make fail as NULL there: logarithms, roots, casts."""
    exp = trees()

    def change(node: Any) -> Any:
        if isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast):
            return exp.TryCast(**dict(node.args.items()))
        if isinstance(node, (exp.Ln, exp.Sqrt)) and not isinstance(node.parent, exp.If):
            limit = exp.GT if isinstance(node, exp.Ln) else exp.GTE
            condition = limit(this=exp.paren(node.this.copy()), expression=exp.Literal.number(0))
            return exp.Case(ifs=[exp.If(this=condition, true=node.copy())])
        return node

    return outside.transform(change)


def trace_columns(outside: Any) -> tuple[Trace, ...]:
    """Return the columns that are unchanged released ones, and let the outside identify their rows.

    Only where each row of the answer is a row of one block, and none stands twice.
    """
    exp = trees()
    if not isinstance(outside, exp.Select):
        return ()
    clause = with_of(outside)
    # One that WITH gives other names for its columns is not followed.
    ctes = [] if clause is None else [cte for cte in clause.expressions if not cte.alias_column_names]
    named = {cte.alias.lower(): cte.this for cte in ctes}
    lineage = _lineage(outside, named)
    if lineage is None:
        return ()
    traces = [
        Trace(place, *lineage.columns[item.output_name.lower()], lineage.kept)
        for place, item in enumerate(outside.expressions)
        if item.output_name.lower() in lineage.columns
    ]
    if traces:
        _show_rows(outside, named)
    return tuple(traces)


@dataclass(frozen=True, slots=True)
class _Lineage:
    """The columns of a SELECT that are released ones as they are, by block and name; those that are keys; `kept` as in Trace."""

    columns: dict[str, tuple[int, str]]
    keys: frozenset[str]
    kept: int | None


def _lineage(select: Any, named: dict[str, Any]) -> _Lineage | None:
    """Return which columns of a SELECT are released ones; None where rows are mixed.

    `named` are the queries of WITH by their names.
    """
    exp = trees()
    others = ("joins", "group", "having", "distinct", "laterals")
    source = only_source(select, named)
    if source is None or any(select.args.get(part) for part in others):
        return None
    if any(not isinstance(a.parent, exp.Window) for item in select.expressions for a in item.find_all(exp.AggFunc)):
        return None
    # A star would show the rows of the block too.
    if any(isinstance(star.parent, (exp.Select, exp.Column)) for star in select.find_all(exp.Star)):
        return None
    inner = None
    block = 0
    if isinstance(source, exp.Table):
        block = int(source.name.removeprefix(BLOCK))
    else:
        inner = _lineage(source, named)
        if inner is None:
            return None
    columns: dict[str, tuple[int, str]] = {}
    names = [item.output_name.lower() for item in select.expressions]
    for item in select.expressions:
        column = item.unalias()
        # Of two columns of one name, which is meant is DuckDB's to say.
        if not isinstance(column, exp.Column) or names.count(item.output_name.lower()) > 1:
            continue
        if inner is None and column.name.startswith(VALUE):
            columns[item.output_name.lower()] = (block, column.name)
        elif inner is not None and column.name.lower() in inner.columns:
            columns[item.output_name.lower()] = inner.columns[column.name.lower()]
    keys = (
        {c.name.lower() for c in select.find_all(exp.Column) if c.name.startswith(KEY)} if inner is None else inner.keys
    )
    key_names = {
        item.output_name.lower()
        for item in select.expressions
        if isinstance(item.unalias(), exp.Column) and item.unalias().name.lower() in keys
    }
    limits = [_limit_of(select, keys | key_names), None if inner is None else inner.kept]
    return _Lineage(columns, frozenset(key_names), min((n for n in limits if n is not None), default=None))


def _limit_of(select: Any, keys: Collection[str]) -> int | None:
    """Return how many rows a SELECT keeps, though it leaves out others by more than its keys; None where it does not."""
    exp = trees()

    def by_values(node: Any) -> bool:
        return any(column.name.lower() not in keys for column in node.find_all(exp.Column))

    if any(by_values(node) for node in (select.args.get("where"), select.args.get("qualify")) if node is not None):
        return 0
    order = select.args.get("order")
    limit = select.args.get("limit")
    # A number in ORDER BY is the place of any column.
    members = [] if order is None else order.expressions
    if not any(by_values(one) or not isinstance(one.this, exp.Column) for one in members):
        return None
    if select.args.get("offset") is not None:
        return 0
    if limit is None:
        return None
    number: Any = limit.expression if isinstance(limit, exp.Limit) else None
    is_plain = isinstance(number, exp.Literal) and not number.is_string and number.this.isdigit()
    return int(number.this) if is_plain else 0


def only_source(select: Any, named: dict[str, Any]) -> Any:
    """Return the table of a block, or the SELECT, that is all that a SELECT reads; None where it reads anything else.

    What is turned by PIVOT, or has other names for its columns, is something else.
    """
    exp = trees()
    start = from_of(select)
    source = None if start is None else start.this
    while isinstance(source, (exp.Table, exp.Subquery)):
        if source.alias_column_names or any(source.args.get(part) for part in ("pivots", "joins", "sample")):
            return None
        if isinstance(source, exp.Subquery):
            source = source.this
        elif source.name.lower() in named:
            source = named[source.name.lower()]
        else:
            return source if source.name.startswith(BLOCK) else None
    return source if isinstance(source, exp.Select) else None


def _show_rows(select: Any, named: dict[str, Any]) -> None:
    """Let a SELECT, and those that it reads, give the row of the block too."""
    exp = trees()
    source = only_source(select, named)
    if isinstance(source, exp.Select):
        _show_rows(source, named)
    select.set("expressions", [*select.expressions, exp.column(ROW)])


_ANYWHERE = Interval(None, None)


def released_range(
    text: str, blocks: Sequence[Aggregation | MostCommon], domains: Sequence[Domain]
) -> tuple[Fraction | None, Fraction | None]:
    """Return the least and the greatest value that the last column of a SELECT over answers may have; None for no bound.

    `blocks` are the questions whose answers the tables `sordino_block_0`, ... hold, `domains` those of the tables asked.
    """
    import sqlglot

    pairs = zip(blocks, domains, strict=True)
    tables = {f"{BLOCK}{place}": _block_ranges(block, domain) for place, (block, domain) in enumerate(pairs)}
    columns = _query_ranges(sqlglot.parse_one(text, read="duckdb"), tables)
    last_column = list(columns.values())[-1] if columns else _ANYWHERE
    return last_column.lower, last_column.upper


def _block_ranges(block: Aggregation | MostCommon, domain: Domain) -> dict[str, Interval]:
    """Return where the columns of a block's answer lie."""
    if isinstance(block, MostCommon):
        try:
            return {block.alias.lower(): number(block.of, domain).values}
        except QuestionRefused:
            # A value that is no number has no range.
            return {}
    rows = step_domain(domain, block.steps)
    ranges: dict[str, Interval] = {}
    for aggregate in block.aggregates:
        name = aggregate.alias.lower()
        if isinstance(aggregate, Count):
            ranges[name] = Interval(Fraction(0), None)
        elif isinstance(aggregate, (Average, Quantile)):
            ranges[name] = number(aggregate.of, rows).values
    for group in block.groups:
        try:
            ranges[group.alias.lower()] = number(group.of, rows).values
        except QuestionRefused:
            # A key that is no number has no range.
            continue
    return ranges


def _query_ranges(query: Any, tables: Mapping[str, dict[str, Interval]]) -> dict[str, Interval]:
    """Return where the columns of a SELECT lie, those of `tables` being known."""
    exp = trees()
    ranges = dict(tables)
    clause = with_of(query)
    for cte in [] if clause is None else clause.expressions:
        ranges[cte.alias.lower()] = _query_ranges(cte.this, ranges)
    if not isinstance(query, exp.Select):
        return {}
    start = from_of(query)
    columns: dict[str, Interval] = {}
    for source in [] if start is None else [start.this, *(join.this for join in query.args.get("joins") or [])]:
        if isinstance(source, exp.Subquery):
            columns |= _query_ranges(source.this, ranges)
        else:
            columns |= ranges.get(source.name.lower(), {})
    if any(isinstance(item, exp.Star) for item in query.expressions):
        return columns
    return {item.output_name.lower(): _range(item.unalias(), columns) for item in query.expressions}


def _range(node: Any, columns: Mapping[str, Interval]) -> Interval:
    exp = trees()
    if isinstance(node, exp.Column):
        return columns.get(node.name.lower(), _ANYWHERE)
    if isinstance(node, exp.Literal) and not node.is_string:
        return Interval.point(Fraction(node.this))
    if isinstance(node, (exp.Paren, exp.Round, exp.Cast)):
        return _range(node.this, columns)
    if isinstance(node, exp.Neg):
        return _range(node.this, columns).negate()
    if isinstance(node, (exp.Avg, exp.Max, exp.Min, exp.Median, exp.Quantile, exp.PercentileCont, exp.AnyValue)):
        return _range(node.this, columns)
    if isinstance(node, (exp.Add, exp.Sub, exp.Mul, exp.Div)):
        left = _range(node.this, columns)
        right = _range(node.expression, columns)
        if isinstance(node, exp.Add):
            return left.plus(right)
        if isinstance(node, exp.Sub):
            return left.plus(right.negate())
        if isinstance(node, exp.Mul):
            return left.times(right)
        if right.lower is not None and right.lower == right.upper and right.lower != 0:
            return left.scale(1 / right.lower)
    if isinstance(node, exp.Coalesce):
        parts = [_range(part, columns) for part in (node.this, *node.expressions)]
        hull = parts[0]
        for part in parts[1:]:
            hull = hull.hull(part)
        return hull
    return _ANYWHERE
