"""MostCommon: the declared value of a column that most rows have - a choice, not a count. Knows no data."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Literal, overload

from sordino.ask.queries.aggregates.sums import Count
from sordino.ask.queries.aggregation import Aggregation, CompiledQuery, FindPossible, Grouping, compile_query, tighten
from sordino.ask.queries.build import Column, Selection, count, label
from sordino.ask.queries.expressions.expr import Expr, col
from sordino.ask.queries.expressions.nodes import IsNull, Node, Not, conjoin, describe, plain
from sordino.core.domain import Domain
from sordino.core.errors import QuestionRefused
from sordino.core.neighbors import ContributionBounds


@dataclass(frozen=True, slots=True)
class MostCommon:
    """The declared value (or bin) of a column that most of the rows that meet `where` have.

    What is missing is a value where the column keeps it, but not to SQL's MODE (`present`): it then counts no row.
    """

    of: Node
    where: Node | None
    alias: str
    bounds: ContributionBounds | None = None
    present: bool = False
    # the dialect of the SQL that it was written in
    dialect: str = field(default="duckdb", compare=False)

    def bound_contributions(
        self, *, max_rows: int | None = None, max_groups: int | None = None, max_rows_per_group: int | None = None
    ) -> MostCommon:
        """Return the question in which one unit contributes no more than this; each value is a group."""
        return replace(self, bounds=tighten(self.bounds, ContributionBounds(max_rows, max_groups, max_rows_per_group)))

    def compile_query(self, domain: Domain, *, possible: FindPossible | None = None) -> CompiledQuery:
        """Return the counts that the choice is scored by; raises QuestionRefused where the values are not declared."""
        groups = (Grouping(self.alias, self.of),)
        rows = (Count(None, "rows"),)
        compiled = compile_query(Aggregation(self.where, groups, rows, bounds=self.bounds), domain, possible=possible)
        if self.present and not compiled.private_keys and None in compiled.keys[0].labels:
            where = conjoin([self.where, Not(IsNull(self.of))])
            compiled = compile_query(Aggregation(where, groups, rows, bounds=self.bounds), domain, possible=possible)
        if not compiled.cells:
            # No row can have a value: the choice is among all of them, since an answer names one.
            return self.compile_query(domain)
        if compiled.private_keys:
            raise QuestionRefused("a choice is among declared values: declare the column as a category with its values")
        return compiled

    def describe(self) -> str:
        """Return the question as a sentence."""
        where = "" if self.where is None else f", where {describe(self.where)}"
        bounds = "" if self.bounds is None else f", {self.bounds.describe()} of one unit"
        return f"the most common {describe(self.of)}{where}{bounds}"

    def identity(self) -> str:
        """Return canonical text: equal for equal questions."""
        bounds = [] if self.bounds is None else [self.bounds.to_dict()]
        present = ["present"] if self.present else []
        return json.dumps(["most common", plain(self.of), plain(self.where), self.alias, *bounds, *present])


@overload
def most_common(
    of: Column, *, where: Expr | None = None, alias: str | None = None, k: Literal[1] = 1
) -> MostCommon: ...
@overload
def most_common(
    of: Column, *, where: Expr | None = None, alias: str | None = None, k: int
) -> MostCommon | Aggregation: ...
def most_common(
    of: Column, *, where: Expr | None = None, alias: str | None = None, k: int = 1
) -> MostCommon | Aggregation:
    """Ask for the most common declared value of a column, or for the `k` most common, chosen privately.

    One value is a choice, cheaper than all counts. Several are the largest of all noisy counts, which are shown beside them:
    a row has one value, so all counts together move by no more than one may, and any number of them costs what one costs.
    Choosing k values one by one, each at epsilon / k, errs k times as much; the joint exponential mechanism (Gillenwater,
    Joseph, Munoz, Ribero 2022) and one-shot selection (Durfee, Rogers 2019) are for rows that count for many values.

    >>> most_common("occupation").describe()
    'the most common occupation'
    >>> most_common("occupation", k=3).describe()
    'the number of rows, for each occupation; ordered by count descending, the first 3'
    """
    expression = col(of) if isinstance(of, str) else of
    if not isinstance(expression, Expr) or not (where is None or isinstance(where, Expr)):
        raise QuestionRefused('most_common takes a column, and where a condition, such as col("age") > 30')
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise QuestionRefused("k, how many of the most common values to return, must be a whole number, 1 or more")
    node = expression.node
    if k == 1:
        return MostCommon(node, None if where is None else where.node, alias or f"most_common_{label(node)}")
    rows = Selection() if where is None else Selection().where(where)
    return (
        rows.group_by(expression if alias is None else expression.alias(alias))
        .agg(count())
        .order_by(-col("count"))
        .limit(k)
    )
