"""TableFace: how a question about a table begins, on a Curator and on a remote table alike. It asks nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from sordino.ask.queries.aggregation import Aggregation
from sordino.ask.queries.build import AggregateExpr, Selection
from sordino.ask.queries.expressions.expr import Expr
from sordino.ask.queries.frame_words import unknown_word
from sordino.ask.queries.joins import JoinKind
from sordino.core.domain import Domain, Integer, Real
from sordino.core.errors import QuestionRefused
from sordino.core.loss import Number


class TableFace(ABC):
    """The beginnings of questions about a table; nothing is released by it."""

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """What is declared about the table."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the declared columns."""
        return tuple(self.domain.stored)

    @property
    def schema(self) -> Domain:
        """What is declared about each column: it is `domain`."""
        return self.domain

    def where(self, *conditions: Expr, **equal: Any) -> Selection:
        """Return the selection of the rows that meet each of the conditions; end it with `.agg(...)`.

        `where(sex="F")` is `where(col("sex") == "F")`.
        """
        return Selection().where(*conditions, **equal)

    def filter(self, *conditions: Expr, **equal: Any) -> Selection:
        """Return the selection of the rows that meet each of the conditions: it is `where`."""
        return Selection().where(*conditions, **equal)

    def count(self) -> Aggregation:
        """Return the question for the number of rows: it is `agg(sd.count())`."""
        return Selection().count()

    def with_columns(self, *columns: Expr, **named: str | Expr) -> Selection:
        """Return the table with more columns, each a name for an expression, for what comes after it."""
        return Selection().with_columns(*columns, **named)

    def select(self, *aggregates: AggregateExpr | Sequence[AggregateExpr], **named: AggregateExpr) -> Aggregation:
        """Return the question for aggregates over all rows: it is `agg`."""
        return Selection().select(*aggregates, **named)

    def value_counts(self, *columns: str | Expr, sort: bool = False) -> Aggregation:
        """Return the question for the number of rows of each value; with `sort` the most frequent come first."""
        return Selection().value_counts(*columns, sort=sort)

    def describe(self, *columns: str | Expr) -> Aggregation:
        """Return the question for count, mean, standard deviation and quartiles of columns, under one loss.

        Without `columns` it is of every number with declared bounds.
        """
        numbers = [
            name
            for name, column in self.domain.stored.items()
            if isinstance(column, (Integer, Real)) and None not in (column.lower, column.upper)
        ]
        return Selection().describe(*(columns or numbers))

    def group_by(self, *columns: str | Expr, keys: Any = None, min_units: int = 1, **named: str | Expr) -> Selection:
        """Return the table grouped by columns or bins; `keys` lists the answer's rows, `min_units` hides small private keys."""
        return Selection().group_by(*columns, keys=keys, min_units=min_units, **named)

    def sample(self, rate: Number) -> Selection:
        """Return a sample of the units, each in it with chance `rate` by a secret coin; end it with `.agg(...)`."""
        return Selection().sample(rate)

    def join(self, table: str, *, on: str | Sequence[str] = (), how: JoinKind = "inner") -> Selection:
        """Return the rows joined with a public table by its key, or with a private one of the same people by the unit."""
        return Selection().join(table, on=on, how=how)

    def unnest(self, column: str) -> Selection:
        """Return one row for each item of a column of lists, at most its declared `max_items` a row."""
        return Selection().unnest(column)

    def per_unit(self, *values: AggregateExpr | Sequence[AggregateExpr], **named: AggregateExpr) -> Selection:
        """Return one row for each privacy unit, of all of its rows, with these values; then `.where` and `.agg(...)`."""
        return Selection().per_unit(*values, **named)

    def agg(self, *aggregates: AggregateExpr | Sequence[AggregateExpr], **named: AggregateExpr) -> Aggregation:
        """Return the question for aggregates over all rows, a keyword naming the aggregate's column."""
        return Selection().agg(*aggregates, **named)

    def __getitem__(self, name: object) -> NoReturn:
        """Refuse: a column never leaves."""
        raise QuestionRefused(
            'rows and columns are never released: ask for an aggregate, such as sd.mean("age"); in an expression write col("age")'
        )

    def __len__(self) -> NoReturn:
        """Refuse: how many rows there are is private."""
        raise TypeError("the number of rows is private: write ask(table.count(), epsilon=...)")

    def __bool__(self) -> bool:
        """Return true: a table is never empty to those who may not count it."""
        return True

    def head(self, rows: int = 5) -> NoReturn:
        """Refuse: rows are never released."""
        del rows
        raise QuestionRefused(
            "rows are never released: ask for an aggregate, such as sd.count() or sd.histogram('age')"
        )

    if not TYPE_CHECKING:

        def __getattr__(self, word: str) -> Any:
            """Name the word that was meant."""
            raise unknown_word(self, word, kind="rows")
