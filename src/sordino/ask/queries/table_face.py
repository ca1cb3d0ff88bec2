"""TableFace: how a question about a table begins, where the table is held and where it is far away. It asks nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from sordino.ask.queries.aggregation import Aggregation
from sordino.ask.queries.build import AggregateExpr, Selection
from sordino.ask.queries.expressions.expr import Expr
from sordino.ask.queries.joins import JoinKind
from sordino.core.errors import QuestionRefused
from sordino.core.loss import Number


class TableFace:
    """Begin questions about a table; rows and columns are never released it."""

    def where(self, condition: Expr) -> Selection:
        """Return the selection of the rows that meet `condition`; end it with `.agg(...)`."""
        return Selection().where(condition)

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

    def filter(self, *conditions: object) -> NoReturn:
        """Refuse: rows are chosen with `where`."""
        del conditions
        raise QuestionRefused('rows are chosen with .where(col("age") > 30), and end in .agg(sd.count())')

    def head(self, rows: int = 5) -> NoReturn:
        """Refuse: rows are never released."""
        del rows
        raise QuestionRefused(
            "rows are never released: ask for an aggregate, such as sd.count() or sd.histogram('age')"
        )
