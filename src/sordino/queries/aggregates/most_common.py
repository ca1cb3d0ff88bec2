"""MostCommon: the declared value of a column that most rows have - a choice, not a count. Knows no data."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from sordino.domain import Domain
from sordino.errors import QuestionRefused
from sordino.neighbors import ContributionBounds
from sordino.queries.aggregates.count import Count
from sordino.queries.aggregation import Aggregation, CompiledQuery, Grouping, compile_query, tighten
from sordino.queries.build import Column, label
from sordino.queries.expressions.expr import Expr, col
from sordino.queries.expressions.nodes import Node, describe, plain

__all__ = ["MostCommon", "most_common"]


@dataclass(frozen=True, slots=True)
class MostCommon:
    """Ask which declared value (or bin) of a column most of the rows that meet `where` have."""

    of: Node
    where: Node | None
    alias: str
    bounds: ContributionBounds | None = None

    def bound_contributions(
        self, *, max_rows: int | None = None, max_groups: int | None = None, max_rows_per_group: int | None = None
    ) -> MostCommon:
        """Return the question in which one unit contributes no more than this; each value is a group."""
        return replace(self, bounds=tighten(self.bounds, ContributionBounds(max_rows, max_groups, max_rows_per_group)))

    def compile_query(self, domain: Domain) -> CompiledQuery:
        """Return the counts that the choice is scored by; raises QuestionRefused where the values are not declared."""
        groups, rows = (Grouping(self.alias, self.of),), (Count(None, "rows"),)
        found = compile_query(Aggregation(self.where, groups, rows, bounds=self.bounds), domain)
        if found.private_keys:
            raise QuestionRefused("a choice is among declared values: declare the column as a category with its values")
        return found

    def describe(self) -> str:
        """Return the question as a sentence."""
        where = "" if self.where is None else f", where {describe(self.where)}"
        bounds = "" if self.bounds is None else f", {self.bounds.describe()} of one unit"
        return f"the most common {describe(self.of)}{where}{bounds}"

    def identity(self) -> str:
        """Return canonical text: equal for equal questions."""
        bounds = [] if self.bounds is None else [self.bounds.to_dict()]
        return json.dumps(["most common", plain(self.of), plain(self.where), self.alias, *bounds])


def most_common(of: Column, *, where: Expr | None = None, alias: str | None = None) -> MostCommon:
    """Ask for the most common declared value of a column, chosen privately: cheaper than all counts, one answer.

    >>> most_common("occupation").describe()
    'the most common occupation'
    """
    expression = col(of) if isinstance(of, str) else of
    if not isinstance(expression, Expr) or not (where is None or isinstance(where, Expr)):
        raise QuestionRefused('most_common takes a column, and where a condition, such as col("age") > 30')
    node = expression.node
    return MostCommon(node, None if where is None else where.node, alias or f"most_common_{label(node)}")
