"""What a person asks of a table, in Python or SQL, as a question of ours with its tables and its unit found. It plans nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, cast

from sordino.ask.curator.plan import PlannedQuestion, TableContext
from sordino.ask.curator.procedures import registered_procedure
from sordino.ask.queries.aggregates.most_common import MostCommon
from sordino.ask.queries.aggregation import Aggregation
from sordino.ask.queries.build import AggregateExpr, as_aggregation
from sordino.ask.queries.expressions.nodes import has_exists
from sordino.ask.queries.joined_names import bind_names
from sordino.ask.queries.same_people import mark_units
from sordino.ask.queries.sql.parse import SqlText, parse_question
from sordino.core.errors import QuestionRefused
from sordino.core.source import PrivateTable

Whole: TypeAlias = Aggregation | SqlText | MostCommon
Question: TypeAlias = PlannedQuestion | AggregateExpr | Sequence[AggregateExpr] | SqlText | str


def read_question(question: Question, table: TableContext) -> PlannedQuestion:
    """Return the question that Python or SQL asks of a table, with its public tables found; SQL is parsed here, once.

    Raises QuestionRefused for what is no question, UnknownName for names that are not declared.
    """
    if registered_procedure(question) is not None:
        return cast(PlannedQuestion, question)
    if isinstance(question, str):
        raise QuestionRefused('write SQL as sd.sql("SELECT ..."): text alone could mean a column')
    if not isinstance(question, SqlText):
        return bind_tables(as_aggregation(cast(Any, question)), table, names="written")
    public = {name: tuple(joinable.columns) for name, joinable in table.public.items()}
    private = {name: tuple(other.domain) for name, other in table.private.items()}
    asked = parse_question(
        question.in_dialect(table.dialect),
        table=table.name,
        columns=tuple(table.domain.stored),
        public=public,
        private=private,
    )
    return asked if isinstance(asked, MostCommon) else bind_tables(asked, table, names="resolved")


def bind_tables(asked: Aggregation, table: TableContext, *, names: Literal["written", "resolved"]) -> Aggregation:
    """Return the question with its tables and its unit; `names` says whether its columns are resolved already."""
    own = PrivateTable(table.domain, table.neighbors, {})
    expressions = asked.expressions()
    if asked.steps or (expressions and has_exists(expressions)):
        asked = mark_units(asked, table.private, table.name, own)
    if not asked.steps:
        return asked
    return bind_names(
        asked,
        public=table.public,
        table=table.name,
        domain=table.domain,
        names=names,
        private=table.private,
        neighbors=table.neighbors,
    )
