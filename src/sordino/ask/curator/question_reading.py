"""What is asked, in Python or SQL, as a question whose procedure is registered."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, Protocol, TypeAlias, cast

from sordino.ask.curator.plan import Plan, PlannedQuestion, TableContext
from sordino.ask.queries.aggregates.most_common import MostCommon
from sordino.ask.queries.aggregation import Aggregation
from sordino.ask.queries.build import AggregateExpr, as_aggregation
from sordino.ask.queries.expressions.nodes import Released, has_exists
from sordino.ask.queries.joined_names import bind_names
from sordino.ask.queries.same_people import mark_units
from sordino.ask.queries.sql.moments import reads_clock
from sordino.ask.queries.sql.parse import SqlText, parse_question
from sordino.ask.queries.sql.statement import ReleasedQuery, read_statement, surrounds_questions
from sordino.core.domain import Boolean, Category, Identifier
from sordino.core.errors import DeclarationError, QuestionRefused
from sordino.core.loss import Loss
from sordino.core.source import PrivateTable

# ---- How each kind of question is planned: a registry, which code in the curator's own process may add to
#
# A procedure that is registered here is trusted as all code of the curator's process is: nothing checks its proof. What it
# is handed before the charge writes statements and cannot run them. Registering is an act of the curator, in code; by rule
# before the first table is opened. No entry point, project file, SQL, request or stored record registers anything. Plans,
# records and releases name a procedure that is not Sordino's own.


class PlanQuestion(Protocol):
    """Plans a question of one class at a loss; raises QuestionRefused where its theorem does not hold for the table."""

    def __call__(self, question: Any, table: TableContext, *, asked: Loss) -> Plan: ...


@dataclass(frozen=True, slots=True)
class RegisteredProcedure:
    """How questions of one class are planned, and whose code that is: empty for Sordino's own."""

    plan: PlanQuestion
    provider: str

    def plan_question(self, question: Any, table: TableContext, *, asked: Loss) -> Plan:
        """Return the plan, which names its provider."""
        return replace(self.plan(question, table, asked=asked), provider=self.provider)


_PROCEDURES: dict[type, RegisteredProcedure] = {}


def register_procedure(
    question: type[PlannedQuestion], plan: PlanQuestion, *, module: str = "", version: str = ""
) -> None:
    """Let questions of a class be planned by `plan`, which makes a `Procedure` and prices it with `price`.

    `module` and `version` say whose code it is: plans, records and releases name them, and only Sordino's own modules leave
    them out. Raises DeclarationError for a class that is planned already, and for foreign code without a name.
    """
    if question in _PROCEDURES:
        raise DeclarationError(f"questions of class {question.__name__} have a procedure already")
    own = getattr(plan, "__module__", "").startswith("sordino.")
    if question.__module__.startswith("sordino.") and not own:
        raise DeclarationError(
            f"{question.__name__} is Sordino's own question: register a procedure for a class of yours"
        )
    if not own and not (module and version):
        raise DeclarationError(
            "a procedure that is not Sordino's own states its module and version, such as module='mypackage', version='1.0': "
            "plans and releases name them"
        )
    _PROCEDURES[question] = RegisteredProcedure(plan, f"{module} {version}".strip())


def registered_procedure(question: object) -> RegisteredProcedure | None:
    """Return how a question is planned; None where its class is not registered."""
    return _PROCEDURES.get(type(question))


# ---- What a person asks of a table, in Python or SQL, as a question of ours with its tables and its unit found. It
# plans nothing

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
    return _read_sql(question, table)


def _read_sql(question: SqlText, table: TableContext) -> Aggregation | MostCommon:
    """Return the one question that a text is."""
    asked = parse_question(
        question.in_dialect(table.dialect),
        table=table.name,
        columns=tuple(table.domain.stored),
        public={name: tuple(joinable.columns) for name, joinable in table.public.items()},
        private={name: tuple(other.domain) for name, other in table.private.items()},
    )
    return asked if isinstance(asked, MostCommon) else bind_tables(asked, table, names="resolved")


def read_statement_question(
    question: SqlText, table: TableContext, weights: tuple[Fraction, ...] = ()
) -> PlannedQuestion | None:
    """Return the statement around private questions that a text is, which share its loss by `weights`.

    Returns None for a text with a list of keys beside it, which is one question. Raises QuestionRefused for what is no statement.
    """
    from sordino.ask.curator.statement_procedure import StatementQuestion

    if question.keys is not None:
        return None
    reader = _BlockReader(question, table)
    dialect = question.in_dialect(table.dialect).dialect
    statement = read_statement(
        question.text,
        table=table.name,
        columns=tuple(table.domain.stored),
        truths=[
            name
            for domain in (table.domain, *(public.columns for public in table.public.values()))
            for name, column in domain.stored.items()
            if isinstance(column, Boolean)
        ],
        # Where several rows share a key, it determines none of their columns.
        public={name: tuple(public.columns) if public.max_rows == 1 else () for name, public in table.public.items()},
        declared=_declared_lists(table),
        unit=table.neighbors.id_column,
        reader=reader,
        dialect=dialect,
        moment=question.moment,
    )
    blocks = tuple(reader.blocks[text] for text in statement.blocks)
    released = tuple(reader.released[constant.name] for constant in statement.constants)
    moment = question.moment if reads_clock(question.text) else None
    return StatementQuestion(question.text, blocks, statement, released, weights, moment)


def truer_refusal(
    question: SqlText, table: TableContext, one: QuestionRefused, other: QuestionRefused
) -> QuestionRefused:
    """Return which refusal of a text is true: of it as `one` question, or as the statement that it would be."""
    dialect = question.in_dialect(table.dialect).dialect
    unit = table.neighbors.id_column
    units = [unit] if unit else [name for name, column in table.domain.stored.items() if isinstance(column, Identifier)]
    around = question.keys is None and surrounds_questions(question.text, units=units, dialect=dialect)
    return other if around else one


def _declared_lists(table: TableContext) -> dict[str, tuple[Any, ...]]:
    """Return the values of the columns that declare them, by their names in lower case."""
    domains = [*(public.columns for public in table.public.values()), table.domain]
    return {
        name.lower(): tuple(column.values) if isinstance(column, Category) else (False, True)
        for domain in domains
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
        self.released: dict[str, Released] = {}

    def accept(self, text: str) -> None:
        asked = replace(self._question, text=text, select=None, dialect="duckdb", released=self.released)
        try:
            self.blocks[text] = _read_sql(asked, self._table)
        except QuestionRefused as refused:
            # Its place is one in the block's own text, which nobody wrote.
            raise type(refused)(_PLACE.sub("", str(refused.in_sql()))) from None

    def declare(self, query: ReleasedQuery, blocks: list[str]) -> None:
        from sordino.ask.curator.statement_procedure import declare_released

        questions = [self.blocks[text] for text in blocks]
        self.released[query.name] = declare_released(query, blocks, questions, self.released, self._table)


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
