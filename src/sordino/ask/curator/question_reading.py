"""Reads questions in Python or SQL, and registers the procedures of those that the curator answers itself."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from sordino.ask.curator.most_common_procedure import plan_most_common
from sordino.ask.curator.plan import PlannedQuestion, TableContext, register_procedure, registered_procedure
from sordino.ask.curator.statement_procedure import StatementQuestion, declare_released, join_groupings, plan_statement
from sordino.ask.queries.aggregates.most_common import MostCommon
from sordino.ask.queries.aggregation import Aggregation
from sordino.ask.queries.build import AggregateExpr, as_aggregation
from sordino.ask.queries.expressions.nodes import Released, has_exists
from sordino.ask.queries.joined_names import bind_names
from sordino.ask.queries.same_people import mark_units
from sordino.ask.queries.sql.block_splitter import ReleasedQuery
from sordino.ask.queries.sql.parse import SqlText, parse_question
from sordino.ask.queries.sql.statement import read_statement, surrounds_questions
from sordino.ask.queries.sql.text import is_same_table
from sordino.ask.queries.sql.time_functions import reads_clock
from sordino.ask.queries.sql.whole_division import Kind
from sordino.ask.queries.tabulation import Tabulation
from sordino.core.domain import Boolean, Category, Date, Domain, Identifier, Integer
from sordino.core.errors import QuestionRefused

if TYPE_CHECKING:
    import pyarrow as pa

# ---- From what a person asks in Python or SQL to a question whose tables and unit are bound. Nothing is planned here

Whole: TypeAlias = Aggregation | SqlText | MostCommon | Tabulation
Question: TypeAlias = PlannedQuestion | AggregateExpr | Sequence[AggregateExpr] | SqlText | str


def read_question(question: Question, table: TableContext) -> PlannedQuestion:
    """Return the question that Python or SQL asks of a table, its public tables bound; SQL is parsed here, once.

    Raises QuestionRefused for anything that is no question, UnknownName for names that are not declared.
    """
    if registered_procedure(question) is not None:
        return cast(PlannedQuestion, question)
    if isinstance(question, str):
        raise QuestionRefused('write SQL as sd.sql("SELECT ..."): text alone could mean a column')
    if not isinstance(question, SqlText):
        return bind_tables(as_aggregation(cast(Any, question)), table, names="written")
    return _read_sql(question, table)


def _read_sql(question: SqlText, table: TableContext) -> Aggregation | MostCommon:
    """Parse a text that is one question."""
    parsed = parse_question(
        question.in_dialect(table.dialect),
        table=table.name,
        columns=tuple(table.domain.stored),
        public={name: tuple(joinable.columns) for name, joinable in table.public.items()},
        private={name: tuple(other.domain) for name, other in table.private.items()},
        kinds=_column_kinds(table),
    )
    return parsed if isinstance(parsed, MostCommon) else bind_tables(parsed, table, names="resolved")


def read_statement_question(
    question: SqlText, table: TableContext, weights: tuple[Fraction, ...] = ()
) -> PlannedQuestion | None:
    """Read a text as a statement around private questions, which share its loss by `weights`.

    Returns None for a text with a list of keys beside it, which is one question. Raises QuestionRefused for a text that is no
    statement.
    """
    if question.keys is not None:
        return None
    reader = _BlockReader(question, table)
    dialect = question.in_dialect(table.dialect).dialect
    statement = read_statement(
        question.text,
        table=table.name,
        columns=tuple(table.domain.stored),
        others={name: tuple(other.domain.stored) for name, other in table.private.items()},
        truths=[
            name for domain in _domains(table) for name, column in domain.stored.items() if isinstance(column, Boolean)
        ],
        public={name: tuple(public.columns) for name, public in table.public.items()},
        determines=lambda *columns: determines(table.public_rows, *columns),
        declared=_declared_lists(table),
        unit=table.neighbors.id_column,
        units={
            neighbors.id_column.lower()
            for neighbors in (table.neighbors, *(other.neighbors for other in table.private.values()))
            if neighbors.id_column is not None
        },
        reader=reader,
        dialect=dialect,
        moment=question.moment,
        kinds=_column_kinds(table),
    )
    blocks = tuple(reader.blocks[text] for text in statement.blocks)
    tables = tuple(reader.tables[text] for text in statement.blocks)
    released = tuple(reader.released[constant.name] for constant in statement.constants)
    moment = question.moment if reads_clock(question.text) else None
    asked = StatementQuestion(question.text, blocks, statement, released, weights, tables, table.private, moment)
    return join_groupings(asked, table)


def truer_refusal(
    question: SqlText, table: TableContext, one: QuestionRefused, other: QuestionRefused
) -> QuestionRefused:
    """Return the refusal of a text that applies: that of it as `one` question, or that of it as a statement."""
    dialect = question.in_dialect(table.dialect).dialect
    unit = table.neighbors.id_column
    units = [unit] if unit else [name for name, column in table.domain.stored.items() if isinstance(column, Identifier)]
    around = question.keys is None and surrounds_questions(question.text, units=units, dialect=dialect)
    return other if around else one


def _domains(table: TableContext) -> list[Domain]:
    """Return the domains of public tables, of other private ones, and of the table itself, which comes last."""
    public = [public.columns for public in table.public.values()]
    return [*public, *(other.domain for other in table.private.values()), table.domain]


def _column_kinds(table: TableContext) -> dict[str, dict[str, Kind]]:
    """Return which columns of every table are whole numbers and which are days, by what a SQL client is told."""
    domains = {name: public.columns for name, public in table.public.items()}
    domains |= {name: other.domain for name, other in table.private.items()}
    domains[table.name] = table.domain
    return {
        name: {column: _kind_of(declared) for column, declared in domain.stored.items()}
        for name, domain in domains.items()
    }


def _kind_of(column: Any) -> Kind:
    if isinstance(column, Category):
        numbers = [value for value in column.values if value is not None]
        return "whole" if numbers and all(type(value) is int for value in numbers) else "other"
    return "whole" if isinstance(column, Integer) else "day" if isinstance(column, Date) else "other"


def determines(rows: Mapping[str, pa.Table], table: str, columns: Collection[str], column: str) -> bool:
    """Return whether all rows of a public table that agree in some columns agree in another one.

    A row without a match, which LEFT JOIN keeps, has no value in any of them.
    """
    cells = {name.lower(): rows[table].column(name).to_pylist() for name in rows[table].column_names}
    values: dict[tuple[Any, ...], Any] = {(None,) * len(columns): None}
    pairs = zip(zip(*(cells[name] for name in columns), strict=True), cells[column], strict=True)
    return all(values.setdefault(key, value) == value for key, value in pairs)


def _declared_lists(table: TableContext) -> dict[str, tuple[Any, ...]]:
    """Return the values of the columns that declare them, by their names in lower case."""
    return {
        name.lower(): tuple(column.values) if isinstance(column, Category) else (False, True)
        for domain in _domains(table)
        for name, column in domain.stored.items()
        if isinstance(column, (Boolean, Category))
    }


_PLACE = re.compile(r"^line \d+, column \d+: ")


class _BlockReader:
    """Reads the private blocks of a statement, in which released values of earlier blocks may stand."""

    def __init__(self, question: SqlText, table: TableContext) -> None:
        self._question = question
        self._table = table
        self.blocks: dict[str, Aggregation | MostCommon] = {}
        # The private table that each block is about, None for the question's own.
        self.tables: dict[str, str | None] = {}
        self.released: dict[str, Released] = {}

    def accept(self, text: str) -> None:
        block = replace(self._question, text=text, select=None, dialect="duckdb", released=self.released)
        try:
            table = self._find_table(block)
            self.blocks[text] = _read_sql(block, self._table.other(table))
        except QuestionRefused as refused:
            # Its place refers to the block's text, which nobody wrote.
            raise type(refused)(_PLACE.sub("", str(refused.in_sql()))) from None
        self.tables[text] = table

    def _find_table(self, block: SqlText) -> str | None:
        """Return the other private table that a block is about, None for the question's own."""
        if not self._table.private:
            return None
        columns = [column for domain in _domains(self._table) for column in domain]
        written = block.parse(columns, self._table.public).table
        if is_same_table(written, self._table.name):
            return None
        return next((name for name in self._table.private if is_same_table(written, name)), None)

    def declare(self, query: ReleasedQuery, blocks: list[str]) -> None:
        questions = [self.blocks[text] for text in blocks]
        contexts = [self._table.other(self.tables[text]) for text in blocks]
        self.released[query.name] = declare_released(query, blocks, questions, self.released, contexts, self._table)


def bind_tables(question: Aggregation, table: TableContext, *, names: Literal["written", "resolved"]) -> Aggregation:
    """Return the question with its tables and its unit; `names` says whether its columns are resolved already."""
    expressions = question.expressions()
    if question.steps or (expressions and has_exists(expressions)):
        question = mark_units(question, table.private, table.name, table.own)
    if not question.steps:
        return question
    return bind_names(
        question,
        public=table.public,
        table=table.name,
        domain=table.domain,
        names=names,
        private=table.private,
        neighbors=table.neighbors,
        values=table.public_values,
        declared=table.declared,
    )


def is_batch(question: object) -> bool:
    """Return whether this is a list of whole questions, or several SELECTs; a list of aggregates is one question."""
    if isinstance(question, SqlText):
        return len(question.statements()) > 1
    return isinstance(question, (list, tuple)) and any(isinstance(q, Whole) for q in question)


register_procedure(MostCommon, plan_most_common)
register_procedure(StatementQuestion, plan_statement)
