"""Unnest: one row for each item of a row's list, in which the column is the item.

Of each list the first `max_items` count, duplicates among them; a list that is missing or empty gives no row. Theorem:
the rows that one row becomes are a function of that row alone, and at most m = max_items of them, so putting in or taking
out one row of the table puts in or takes out at most m rows, whatever the other rows are. A unit of C rows has at most
C m, and every sensitivity follows with C m for C, under both relations (stability of a flat map; McSherry 2009, section
3.4). How many rows there are is private even where rows are replaced, as lists differ in length.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sordino.domain import Domain
from sordino.errors import QuestionRefused, UnknownName, nearest
from sordino.neighbors import Neighbors
from sordino.primitives import Primitives

__all__ = ["Unnest"]

_MOST_ROWS = 2**48  # as a domain may declare: sums of so many are proved exact


@dataclass(frozen=True, slots=True)
class Unnest:
    """Turn each row into one for each item of its list in `column`: a row step.

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
            raise QuestionRefused(f"{self.describe()}: it is asked of its table, as in posts.unnest(...) or in SQL")
        if domain.row_ceiling * most > _MOST_ROWS:
            raise QuestionRefused(
                "these items could make more than 2^48 rows: declare the table's row_ceiling, a public bound on its rows"
            )
        columns = {**domain.stored, self.column: domain.lists[self.column].of}
        return Domain(columns, row_ceiling=domain.row_ceiling * most, unreadable_rows=True)

    def neighbors(self, neighbors: Neighbors) -> Neighbors:
        """Return the relation of the items' rows: each row of a unit may have become several."""
        if not self.most:
            raise QuestionRefused(f"{self.describe()}: it is asked of its table, as in posts.unnest(...) or in SQL")
        return replace(neighbors, copies=neighbors.copies * self.most)

    def apply(self, on: Primitives, domain: Domain) -> Primitives:
        """Return an engine's words with the items said."""
        self.domain(domain)  # which checks the bound
        on.unnest(self.column, self.most)
        return on

    def describe(self) -> str:
        """Return the step in words."""
        most = f", at most {self.most:,} of a row" if self.most else ""
        return f"one row for each item of {self.column}{most}"

    def plain(self) -> Any:
        """Return the step as canonical JSON data."""
        return ["unnest", self.column, self.most]
