"""Where a value that is computed from answers lies, by declarations alone: interval arithmetic over a SELECT of answers.

The value is clipped into this range before it is used, so a range that is too narrow costs accuracy and never privacy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from sordino.ask.queries.aggregates.most_common import MostCommon
from sordino.ask.queries.aggregates.quantile import Quantile
from sordino.ask.queries.aggregates.sums import Average, Count
from sordino.ask.queries.aggregation import Aggregation
from sordino.ask.queries.expressions.bound_number import Interval
from sordino.ask.queries.expressions.compile import number
from sordino.ask.queries.expressions.sql_trees import from_of, trees, with_of
from sordino.ask.queries.row_steps import step_domain
from sordino.ask.queries.sql.outside_select import BLOCK
from sordino.core.domain import Domain
from sordino.core.errors import QuestionRefused

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
