"""Joins of the table with public tables by key: what the question may then name, and how many rows one row becomes.

A row meets the rows of a public table whose key is equal to one of its cells, as both are declared; a key of several
columns is equal where each is. A missing cell meets none. Theorem: with at most m rows a key, putting in or taking out
one row of the table puts in or takes out at most m joined rows, whatever the other rows are. So a unit of C rows has at
most C m joined rows, and every sensitivity of the joined table follows with C m for C (stability; McSherry 2009, section
3.4). Only public tables can be joined.

Unnest makes one row for each item of a row's list, in which the column is the item. Of each list the first `max_items`
count, duplicates among them; a list that is missing or empty gives no row. Theorem: the rows that one row becomes are a
function of that row alone, and at most m = max_items of them, so putting in or taking out one row of the table puts in or
takes out at most m rows, whatever the other rows are. A unit of C rows has at most C m, and every sensitivity follows with
C m for C, under both relations (stability of a flat map; McSherry 2009, section 3.4). How many rows there are is private
even where rows are replaced, as lists differ in length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from sordino.ask.queries.expressions.bound_number import category_code, number_cell, truth_code
from sordino.ask.queries.expressions.expr import Expr
from sordino.ask.queries.expressions.nodes import Exists
from sordino.ask.queries.expressions.sql_trees import Build
from sordino.core.domain import Boolean, Category, Column, Date, Domain, Identifier, Integer, List, keep_missing
from sordino.core.errors import QuestionRefused, UnknownName, nearest
from sordino.core.neighbors import Neighbors
from sordino.core.primitives import Primitives
from sordino.core.source import PublicTable

JoinKind = Literal["inner", "left", "semi", "anti"]


@dataclass(frozen=True, slots=True)
class Join:
    """Join public table `table` where its key equals columns `on`: a row step. "inner" drops rows that meet none.

    `key` are the public columns that the question compares with `on`, the declared key where None; `to` is the declared
    table, once it is known which one is meant.
    """

    table: str
    on: tuple[str, ...]
    how: Literal["inner", "left"]
    key: tuple[str, ...] | None = None
    to: PublicTable | None = None

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
        """Return an engine's words with the join said."""
        from sqlglot import exp

        cells: list[exp.Expression] = []
        keys: list[exp.Expression] = []
        for place, name in enumerate(self.on):
            column = domain[name]
            key = exp.column(f"sordino_key_{place}")
            cells.append(join_cell(name, column)[1](on))
            keys.append(on.code_of(key, column.values, None) if isinstance(column, Category) else key)
        on.join(self.table, cells, keys, left=self.how == "left", copies=public_table(self).max_rows)
        return on

    def describe(self) -> str:
        """Return the join in words."""
        kept = ", rows without a match kept" if self.how == "left" else ""
        return f"joined with {self.table} by {' and '.join(self.on)}{kept}"

    def plain(self) -> Any:
        """Return the join as canonical JSON data."""
        on = self.on[0] if len(self.on) == 1 else list(self.on)
        return [self.table, on, self.how, None if self.to is None else self.to.to_dict()]


def state_join(table: str, *, on: str | Sequence[str], how: JoinKind) -> Join | Expr:
    """Return the join that a person states; a semi-join or anti-join is a condition on the rows as they are."""
    columns = (on,) if isinstance(on, str) else tuple(on) if isinstance(on, (list, tuple)) else (None,)
    if not isinstance(table, str) or not all(isinstance(c, str) for c in columns):
        raise QuestionRefused('join takes names: join("regions", on="state"), or on=["state", "year"]')
    if how in ("semi", "anti"):
        has = Expr(Exists(table, None, (columns[0], "") if columns else None))
        return has if how == "semi" else ~has
    if how not in ("inner", "left"):
        raise QuestionRefused(f'how is "inner", "left", "semi" or "anti", not {how!r}')
    return Join(table, columns, how)


def qualify(table: str, column: str) -> str:
    """Return the name of a joined column."""
    return f"{table}.{column}"


def join_cell(name: str, column: Column) -> tuple[str, Build]:
    """Return what kind of key a column is, and its cell to compare: a category's code, else the value itself.

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


def public_table(join: Join) -> PublicTable:
    """Return the public table that a join is with; raises QuestionRefused where no curator has found it yet."""
    if join.to is None:
        raise QuestionRefused(f"{join.describe()}: hand a join to plan or ask of its own table, or write it in SQL")
    return join.to


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
