"""How a statement around private questions is answered: its blocks as one charge, and what surrounds them for free.

Theorem: the blocks are answered under sequential composition, each with its share of the loss, and all else is a function of
their released values and of public facts (post-processing; Dwork & Roth 2014, Proposition 2.1 and Theorem 3.16).

Questions that are tables of one cube are asked as one tabulation, so that their totals agree: those of a batch, and the
groupings of CUBE, ROLLUP and GROUPING SETS, whose surroundings read its answer.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

from sordino.ask.curator.aggregation_procedure import (
    AggregationProcedure,
    count_groups,
    plan_aggregation,
    selection_note,
)
from sordino.ask.curator.most_common_procedure import plan_most_common
from sordino.ask.curator.plan import (
    UNKNOWN_ROWS,
    DataAccess,
    Plan,
    PlannedColumn,
    Procedure,
    StatementWriter,
    TableContext,
    price,
    registered_procedure,
)
from sordino.ask.queries.aggregates.most_common import MostCommon
from sordino.ask.queries.aggregation import Aggregation
from sordino.ask.queries.expressions.nodes import Released
from sordino.ask.queries.expressions.released import ReleasedValues, label_text, whole_steps
from sordino.ask.queries.queryable import ReleaseContent
from sordino.ask.queries.sql.block_splitter import ReleasedQuery
from sordino.ask.queries.sql.noise_lineage import Noise, follow_noise, table_answers
from sordino.ask.queries.sql.outside_select import BLOCK, ROW, Trace, released_range
from sordino.ask.queries.sql.statement import Statement
from sordino.ask.queries.tabulation import Tabulation
from sordino.core.accounting.events import Composed, LaplaceEvent
from sordino.core.errors import DeclarationError, QuestionRefused
from sordino.core.estimates.estimate import take_rows
from sordino.core.estimates.replicates import BlockAnswer, Computed, ReleasedStatement, cells_of
from sordino.core.estimates.selected import Selected
from sordino.core.estimates.table_cells import BY_COLUMNS
from sordino.core.loss import Event, Loss, share_loss
from sordino.core.noise.rng import Rng
from sordino.core.release import Key, Output
from sordino.core.source import PrivateTable

if TYPE_CHECKING:
    import pyarrow as pa
from typing import cast

from sordino.ask.queries.aggregation import Grouping
from sordino.ask.queries.expressions.nodes import describe as describe_expression
from sordino.ask.queries.expressions.sql_trees import trees, write_duckdb
from sordino.ask.queries.query import Aggregate
from sordino.ask.queries.sql.block_splitter import GROUPINGS
from sordino.ask.queries.sql.outside_select import KEY
from sordino.ask.queries.tabulation import check_tabulation, compile_tabulation
from sordino.core.errors import SordinoError
from sordino.core.estimates.table_cells import name_table

_NO_ENDS = "no ends: noise alone may leave it without a value, such as a divisor of 0, or move it to one side"

# The confidence of errors that a note states.
_STATED = 0.95

P = TypeVar("P", Key, Output, "Key | Output")
Types = Mapping[str, Sequence[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class StatementQuestion:
    """A statement: its private blocks as questions, and the SQL that is computed from their answers.

    `tables` names the private table that each block is about, None for the statement's own; `private` are the others.
    """

    text: str
    blocks: tuple[Aggregation | MostCommon | Tabulation, ...]
    statement: Statement
    released: tuple[Released, ...] = ()
    weights: tuple[Fraction, ...] = ()
    tables: tuple[str | None, ...] = ()
    private: Mapping[str, PrivateTable] = field(default_factory=dict, hash=False, repr=False)
    # What NOW() is, where the text reads it.
    moment: datetime.datetime | None = None
    # Of each grouping that one tabulation answers: its columns, each with the name of that in the tabulation's answer.
    columns: tuple[tuple[tuple[str, str], ...], ...] = ()

    def identity(self) -> str:
        """Return canonical text: equal for equal statements."""
        parts: list[Any] = [[block.identity() for block in self.blocks], self.statement.outside]
        if self.statement.constants:
            parts.append([[constant.name, constant.outside] for constant in self.statement.constants])
        if weights := self.weights or self.statement.weights:
            parts.append([str(weight) for weight in weights])
        if any(self.tables):
            parts.append(list(self.tables))
        return json.dumps(parts)

    def describe(self) -> str:
        """Return the statement as it was written, on one line, and what NOW() is in it."""
        when = "" if self.moment is None else f", where NOW() is {self.moment:%Y-%m-%d %H:%M:%S} UTC"
        return " ".join(self.text.split()) + when

    @property
    def reads(self) -> dict[str, PrivateTable]:
        """The other private tables that blocks are about, or read in their steps."""
        tables = {name: self.private[name] for name in self.tables if name is not None}
        for block in self.blocks:
            tables |= block.reads if isinstance(block, Aggregation) else {}
        return tables

    @property
    def steps(self) -> tuple[Any, ...]:
        """The steps of the blocks: which other private tables they read."""
        return tuple(step for block in self.blocks if isinstance(block, Aggregation) for step in block.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementProcedure(Procedure):
    """Answers the blocks of a statement, each by its own procedure, and runs the outside over the answers.

    `types` are the types of the columns of each block and public table, `names` the columns of the answer with theirs, and
    `public` the rows of the public tables that are read outside of the blocks, as they were opened. `table_shares` is how much of
    the loss is of questions about each private table.
    """

    question: StatementQuestion
    plans: tuple[Plan, ...]
    types: Types
    names: tuple[tuple[str, str], ...]
    public: Mapping[str, pa.Table]
    table_shares: Mapping[str, Fraction] = field(default_factory=dict)

    def columns(self, confidence: float) -> Sequence[PlannedColumn]:
        """Return the columns of the answer; those that are released as they are have the error of their block."""
        words = "computed from released values, at no cost"
        columns = [PlannedColumn((name,), name, (None,), "value", (words,), (), ()) for name, _ in self.names]
        for trace in self.question.statement.traces:
            block = self.plans[trace.block].procedure
            if isinstance(block, AggregationProcedure):
                own = block.columns(confidence, chosen=_chooses(trace, block))
            else:
                own = block.columns(confidence)
            planned = {n: c for c in own for n in c.names}
            column = planned.get(trace.column)
            if column is not None and len(column.names) == 1:
                columns[trace.place] = replace(column, names=(self.names[trace.place][0],))
        return columns

    def write(self, rows: StatementWriter) -> list[Any]:
        """Write the statements of the blocks; a token stands for each value that an earlier block releases."""
        constants = self.question.statement.constants
        return [
            plan.procedure.write(rows.of_table(about).expect_released(c.name for c in constants if c.after <= place))
            for place, (plan, about) in enumerate(zip(self.plans, self.question.tables, strict=True))
        ]

    def release(self, statements: list[Any], rows: DataAccess, rng: Rng) -> ReleaseContent:
        """Answer the blocks, then compute the rest from their released values alone."""
        from sordino.ask.engines.outer import run

        tables: dict[str, pa.Table] = dict(self.public)
        estimates: list[dict[str, Output]] = []
        answers: list[BlockAnswer] = []
        notes: list[str] = []
        constants = _Constants(self.question, self.types)
        for place, (plan, statement) in enumerate(zip(self.plans, statements, strict=True)):
            released = constants.of_block(place, tables, notes)
            block_rows = rows.of_table(self.question.tables[place])
            answer = plan.procedure.release(statement, block_rows.bind(released), rng)
            content = answer if isinstance(answer, ReleaseContent) else ReleaseContent(*answer)
            tables[f"{BLOCK}{place}"] = _block_table(content, [name for name, _ in self.types[f"{BLOCK}{place}"]])
            estimates.append({output.name: output for output in content.outputs})
            answers.append(_block_answer(f"{BLOCK}{place}", plan, content, self.types[f"{BLOCK}{place}"]))
            notes += content.notes
        names = [name for name, _ in self.names]
        public = tuple(_public_answer(name, table, self.types[name]) for name, table in self.public.items())
        statement = ReleasedStatement(self.question.statement.outside, tuple(answers), public, ())
        noises, identity = trace_noise(statement, names, traced=bool(self.question.statement.traces))
        computed = run(identity, tables, self.types)
        if computed is None:
            # The charge stands: the answer says so, and nothing that was released is lost.
            notes.append("what surrounds the private questions could not be computed from their answers, which were:")
            notes += [
                f"{name}: {json.dumps(table.to_pylist(), default=str)}"
                for name, table in tables.items()
                if name not in self.public
            ]
            nothing = Computed((None,), "no value: it could not be computed")
            outputs = tuple(Output(name, nothing, "computed from released values") for name in names)
            return ReleaseContent((), outputs, tuple(notes))
        traced = {
            names[trace.place]: as_chosen(estimates[trace.block][trace.column], trace)
            for trace in self.question.statement.traces
        }
        places = computed.column(len(names)).to_pylist() if traced else []
        keys, outputs = as_parts(computed.select(range(len(names))), names, traced, places)
        statement = replace(statement, identity=tuple(map(str, computed.column(computed.num_columns - 1).to_pylist())))
        outputs = tuple(
            output if output.name in traced else add_replicates(output, names, noises, statement) for output in outputs
        )
        return ReleaseContent(keys, outputs, tuple(notes))


class _Constants:
    """The values that blocks take from the answers of those before them, each computed once."""

    def __init__(self, question: StatementQuestion, types: Types) -> None:
        self._statement = question.statement
        self._nodes = question.released
        self._types = types
        self._numbers: dict[str, int | None] = {}
        self._lookups: dict[str, dict[str | None, int | None]] = {}
        self._values: dict[str, frozenset[str | None]] = {}
        self._known: set[str] = set()

    def of_block(self, place: int, tables: Mapping[str, pa.Table], notes: list[str]) -> ReleasedValues:
        """Return the values that a block's text may name; `tables` are the answers of the blocks before it."""
        from sordino.ask.engines.outer import plain_cells, run

        types = {name: self._types[name] for name in tables}
        for constant, node in zip(self._statement.constants, self._nodes, strict=True):
            if constant.name in self._known or constant.after > place:
                continue
            self._known.add(constant.name)
            table = run(constant.outside, tables, types)
            columns = [[None]] * 2 if table is None else [plain_cells(column) for column in table.columns]
            if table is None:
                notes.append(f"({node.words}) could not be computed from what was released: it counts as NULL")
            if constant.kind == "value" and len(columns[0]) != 1:
                notes.append(f"({node.words}) has {len(columns[0])} rows where one is compared: it counts as NULL")
                columns = [[None]]
            if constant.kind == "lookup":
                pairs = zip(*columns, strict=True)
                self._lookups[constant.name] = {_label(key): whole_steps(value, node) for key, value in pairs}
            elif node.kind == "values":
                self._values[constant.name] = frozenset(map(_label, columns[0]))
            else:
                self._numbers[constant.name] = whole_steps(columns[0][0], node)
        return ReleasedValues(self._numbers, self._lookups, self._values)


def declare_released(
    query: ReleasedQuery,
    blocks: Sequence[str],
    questions: Sequence[Aggregation | MostCommon],
    released: Mapping[str, Released],
    contexts: Sequence[TableContext],
    table: TableContext,
) -> Released:
    """Return what a sub-query of earlier blocks gives, as a value in the blocks after it.

    `contexts` are the tables that the blocks are about. The range of a number follows from the declarations, by interval
    arithmetic over the blocks' aggregates; what has no range there can be compared with, and not summed.
    """
    from sordino.ask.engines.outer import describe

    columns = describe(query.outside, _block_types(blocks, released, table))
    count = 2 if query.kind == "lookup" else 1
    if len(columns) != count:
        raise QuestionRefused(f"({query.words}) has {len(columns)} columns where one value is compared")
    is_number = _is_number(columns[-1][1])
    if query.kind == "lookup" and not is_number:
        raise QuestionRefused(f"({query.words}) is no number of each {columns[0][0]}: compare keys with IN")
    if query.kind == "list" or not is_number:
        return Released(query.name, "values", query.words)
    low, high = released_range(query.outside, questions, [context.domain for context in contexts])
    kind = "number" if query.kind == "value" else "lookup"
    return Released(query.name, kind, query.words, _unit(low, high), low, high)


def _label(value: Any) -> str | None:
    return None if value is None else label_text(value)


def _is_number(kind: str) -> bool:
    return (
        kind.startswith(("DECIMAL", "DOUBLE", "FLOAT", "HUGEINT", "UHUGEINT"))
        or kind.endswith("INT")
        or kind == "INTEGER"
    )


def _unit(low: Fraction | None, high: Fraction | None) -> Fraction:
    """Return the step of a released number: a power of ten, a trillionth of its range or a millionth of one."""
    if low is None or high is None:
        return Fraction(1, 10**6)
    largest: Fraction = max(abs(low), abs(high))
    digits = len(str(int(largest)))
    return Fraction(1, 10 ** max(0, 12 - digits))


def _block_types(
    blocks: Sequence[str], released: Mapping[str, Released], table: TableContext
) -> dict[str, list[tuple[str, str]]]:
    """Return the columns of each block's answer, with their types; a released value has the type that it is compared as."""
    from sordino.ask.engines.outer import describe

    declared = _declared_types(table)
    types = {name: declared[name] for name in table.public}
    for place, text in enumerate(blocks):
        for name, node in released.items():
            value = "NULL" if node.kind == "values" else "CAST(NULL AS DOUBLE)"
            text = re.sub(rf"\b{name}\b(\([^()]*\))?", value, text, flags=re.IGNORECASE)
        columns = [(name, _released_type(kind)) for name, kind in describe(text, declared)]
        types[f"{BLOCK}{place}"] = [*columns, (ROW, "BIGINT")]
    return types


def _join_types(
    question: StatementQuestion, types: Mapping[str, list[tuple[str, str]]]
) -> dict[str, list[tuple[str, str]]]:
    """Return the types of one tabulation's answer in place of those of the groupings that it answers.

    Tables that are all parts of one have whole counts; others may have linear estimates.
    """
    tabulation = question.blocks[0]
    assert isinstance(tabulation, Tabulation)
    whole = any(set(table) == {key.alias for key in tabulation.keys} for table in tabulation.tables)
    measures = {measure.alias for measure in tabulation.measures}
    columns = {BY_COLUMNS: "VARCHAR"}
    for place, pairs in enumerate(question.columns):
        of_block = dict(types[f"{BLOCK}{place}"])
        for name, own in pairs:
            columns[own] = of_block[name] if whole or own not in measures else "DOUBLE"
    rest = {name: kept for name, kept in types.items() if not name.startswith(BLOCK)}
    return {**rest, f"{BLOCK}0": [*columns.items(), (ROW, "BIGINT")]}


def _declared_types(table: TableContext) -> dict[str, list[tuple[str, str]]]:
    """Return the columns that SQL may read, with their types, of the private and the public tables."""
    from sordino.ask.engines.outer import declared_types

    types = {name: declared_types(public.columns) for name, public in table.public.items()}
    types |= {name.rpartition(".")[2]: declared_types(other.domain) for name, other in table.private.items()}
    return {**types, table.name.rpartition(".")[2]: declared_types(table.domain)}


def plan_statement(question: StatementQuestion, table: TableContext, *, asked: Loss) -> Plan:
    """Return the plan of a statement: its blocks share the loss equally, or in proportion to the question's weights.

    Blocks that are answered from public facts alone, such as the declared keys, take no share.

    Raises QuestionRefused where a block has no plan, DeclarationError for other weights than one a block.
    """
    from sordino.ask.engines.outer import check_cells, describe

    count = len(question.blocks)
    weights = question.weights or question.statement.weights or (Fraction(1),) * count
    if len(weights) != count:
        raise DeclarationError(
            f"this statement asks {count} private question{'s' * (count != 1)}: state one weight for each, not {len(weights)}"
        )
    contexts = [table.other(name) for name in question.tables]
    samples = [getattr(block, "sample", None) is not None for block in question.blocks]
    if any(name and sampled for name, sampled in zip(question.tables, samples, strict=True)):
        raise QuestionRefused(
            "TABLESAMPLE draws from the table that a statement names first: ask about the other one by itself"
        )
    plans = _plan_blocks(question, contexts, weights, asked)
    if free := [place for place, plan in enumerate(plans) if plan.is_free]:
        # What a question costs is known from its plan; whether it costs anything does not follow from the loss.
        weights = tuple(Fraction(0) if place in free else weight for place, weight in enumerate(weights))
        plans = _plan_blocks(question, contexts, weights, asked)
    declared = _declared_types(table)
    released = {node.name: node for node in question.released}
    types = _block_types(question.statement.blocks, released, table)
    if question.columns:
        types = _join_types(question, types)
    described = describe(question.statement.outside, types)
    # A cell that no record holds would fail after the charge.
    check_cells(described)
    if question.statement.traces:
        described.pop()
    usual = [name for name, _ in described]
    names = shown_names(question.statement.whole, declared, usual, written=question.statement.names)
    notes = list(dict.fromkeys(note for plan in plans for note in plan.notes))
    notes += _price_notes(question, plans)
    selections = [
        selection_note(count_groups(block.compiled))
        for trace in question.statement.traces
        if isinstance(block := plans[trace.block].procedure, AggregationProcedure) and _chooses(trace, block)
    ]
    notes += dict.fromkeys(selections)
    shares: dict[str, Fraction] = {}
    for context, weight in zip(contexts, weights, strict=True):
        shares[context.name] = shares.get(context.name, Fraction(0)) + weight / (sum(weights) or 1)
    procedure = StatementProcedure(
        question=question,
        event=_event_of(plans),
        rows=UNKNOWN_ROWS,
        notes=tuple(notes),
        layout=tuple(names),
        plans=plans,
        types=types,
        names=tuple(zip(names, (kind for _, kind in described), strict=True)),
        public={
            name: table.public_rows[name].select(list(table.public[name].columns)) for name in question.statement.public
        },
        table_shares=shares,
    )
    return price(procedure, table, asked=asked)


def _plan_blocks(
    question: StatementQuestion, contexts: Sequence[TableContext], weights: Sequence[Fraction], loss: Loss
) -> tuple[Plan, ...]:
    """Return the plans of the blocks at their shares of the loss; one of weight 0 is free, at any loss."""
    shares = [weight / sum(weights) if weight else Fraction(1) for weight in weights]
    return tuple(
        _plan_block(block, context, share_loss(loss, share))
        for block, context, share in zip(question.blocks, contexts, shares, strict=True)
    )


def _plan_block(block: Aggregation | MostCommon | Tabulation, table: TableContext, loss: Loss) -> Plan:
    if isinstance(block, MostCommon):
        return plan_most_common(block, table, asked=loss)
    if isinstance(block, Tabulation):
        registered = registered_procedure(block)
        assert registered is not None
        return registered.plan_question(block, table, asked=loss)
    return plan_aggregation(block, table, asked=loss)


def _event_of(plans: Sequence[Plan]) -> Event:
    """Return the event of the blocks together; a statement without blocks loses nothing."""
    if not plans:
        return LaplaceEvent(Fraction(0))
    return plans[0].event if len(plans) == 1 else Composed(plan.event for plan in plans)


def _price_notes(question: StatementQuestion, plans: Sequence[Plan]) -> list[str]:
    """Return notes on the private questions, the loss of each, and the range of a value that one takes from another."""
    if not plans:
        return ["it reads public tables alone and costs nothing"]
    rest = "all else is computed from what they release, at no cost"
    notes = _key_notes(plans) if question.statement.combines else []
    if question.columns:
        return [f"the groupings are one tabulation, in which totals agree: {_list_errors(plans[0])}", *notes]
    if len(plans) == 1:
        return [f"1 private question; {rest}", *notes]
    questions = [
        f"{'nothing' if plan.is_free else plan.asked.describe()} for {plan.procedure.question.describe()}"
        f"{f', of {about}' if about else ''}"
        for plan, about in zip(plans, question.tables, strict=True)
    ]
    notes.insert(0, f"{len(plans)} private questions: {'; '.join(questions)}; {rest}")
    for node in question.released:
        ends = "" if node.lower is None or node.upper is None else f", within [{node.lower}, {node.upper}]"
        notes.append(
            f"({node.words}) is answered first, and what it releases is a constant of the question around it{ends}"
        )
    return notes


def _list_errors(plan: Plan) -> str:
    """Return the errors at 95% of each table of a tabulation, in words."""
    columns = plan.procedure.columns(_STATED)
    errors = [f"{column.names[0]} by {'; '.join(column.lines)}" for column in columns]
    return f"{', and '.join(errors)}, at {100 * _STATED:g}%"


def _key_notes(plans: Sequence[Plan]) -> list[str]:
    """Return which rows take part where the rows of answers are aggregated once more."""
    procedures = [plan.procedure for plan in plans if isinstance(plan.procedure, AggregationProcedure)]
    grouped = [procedure for procedure in procedures if procedure.question.groups]
    hidden = any(procedure.allocation.threshold is not None for procedure in grouped)
    declared = any(procedure.allocation.threshold is None for procedure in grouped)
    notes = [
        "what is computed across groups takes in every declared key, also one without rows, whose count is noise around 0"
    ]
    notes = notes if declared else []
    return [*notes, "what is computed across groups leaves out those that a threshold hides"] if hidden else notes


def shown_names(whole: str, declared: Types, usual: list[str], *, written: Sequence[str | None] = ()) -> list[str]:
    """Return the names that DuckDB gives the columns of the whole statement; else those of the outside.

    Names of computed columns are those of the text as it is `written`, where they are known: written anew, some are others.
    """
    from sordino.ask.engines.outer import describe

    try:
        names = [name for name, _ in describe(whole, declared)]
    except QuestionRefused:
        names = usual
    names = names if len(names) == len(usual) else usual
    if len(written) == len(names):
        # A column has its declared name, whatever its case in the text.
        pairs = zip(names, written, strict=True)
        names = [
            name if as_written is None or as_written.lower() == name.lower() else as_written
            for name, as_written in pairs
        ]
    lower_names = [name.lower() for name in names]
    twice = next((names[place] for place, name in enumerate(lower_names) if name in lower_names[:place]), None)
    if twice is not None:
        raise QuestionRefused(f"two columns of the answer are named {twice!r}: give one another name with AS")
    return names


def _released_type(kind: str) -> str:
    """Return the type of a released number: noisy sums of whole numbers stay whole, and need no 128 bits."""
    return "DOUBLE" if kind.startswith(("DECIMAL", "HUGEINT", "FLOAT")) else kind


def _block_table(content: ReleaseContent, names: Sequence[str]) -> pa.Table:
    """Return a block's released cells as a table, its columns in the order of the block's text."""
    from sordino.core.release_exports import arrow_table

    cells: dict[str, Sequence[Any]] = {key.name: key.labels for key in content.keys}
    cells |= {output.name: output.estimate.values() for output in content.outputs}
    cells[ROW] = range(max(map(len, cells.values()), default=0))
    return local_times(arrow_table({name: list(cells[name]) for name in names}, dict.fromkeys(names, "real")))


def local_times(table: pa.Table) -> pa.Table:
    """Convert the moments of a released table to wall-clock time of their zone, so that functions of them follow that clock."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for place, column in enumerate(table.schema):
        if pa.types.is_timestamp(column.type) and column.type.tz is not None:
            table = table.set_column(place, column.name, pc.local_timestamp(table.column(place)))
    return table


def _block_answer(name: str, plan: Plan, content: ReleaseContent, columns: Sequence[tuple[str, str]]) -> BlockAnswer:
    """Return a block's answer with its estimates, from which its noise can be drawn again."""
    cells: dict[str, Any] = {key.name: tuple(key.labels) for key in content.keys}
    cells |= {output.name: output.estimate for output in content.outputs}
    cells[ROW] = tuple(range(max((len(cells_of(column)) for column in cells.values()), default=0)))
    procedure = plan.procedure
    hides = isinstance(procedure, AggregationProcedure) and procedure.allocation.threshold is not None
    hidden_rows = "it combines rows of private keys, which noisy counts selected" if hides else ""
    return BlockAnswer(name, tuple((column, kind, cells[column]) for column, kind in columns), hidden_rows)


def _public_answer(name: str, table: pa.Table, columns: Sequence[tuple[str, str]]) -> BlockAnswer:
    cells = [tuple(column.to_pylist()) for column in table.columns]
    return BlockAnswer(name, tuple((n, kind, c) for (n, kind), c in zip(columns, cells, strict=True)))


def trace_noise(statement: ReleasedStatement, names: Sequence[str], *, traced: bool) -> tuple[list[Noise], str]:
    """Return how noise reaches each column of the answer, and the outside query with a column that identifies its rows."""
    from sordino.ask.engines.outer import identify_rows
    from sordino.ask.queries.sql.outside_select import read_outside

    tables = [block.name for block in (*statement.blocks, *statement.public)]
    noises: list[Noise] = []
    # Nothing fails after the charge: what cannot be read again has no intervals.
    with contextlib.suppress(QuestionRefused):
        noises = follow_noise(read_outside(statement.outside, tables), table_answers(statement)).columns
    if len(noises) != len(names) + traced:
        noises = [Noise(True, why="how noise reaches it is not known")] * (len(names) + traced)
    places = [place for place, noise in enumerate(noises) if not noise.noisy and not noise.why]
    columns = [f"c{place}" for place in range(len(noises))]
    renamed = f"({statement.outside}) AS given({', '.join(columns)})"
    return noises[: len(names)], f"SELECT *, {identify_rows(columns, places)} FROM {renamed}"


def add_replicates(
    output: Output, names: Sequence[str], noises: Sequence[Noise], statement: ReleasedStatement
) -> Output:
    """Return a computed column with its replicates, or with the reason why it has none."""
    place = names.index(output.name)
    why = noises[place].why
    cells = output.estimate.values()
    if not any(isinstance(cell, (int, float)) and not isinstance(cell, bool) for cell in cells):
        why = "it is no number"
    elif len(set(statement.identity)) != len(statement.identity):
        why = why or "its rows have no key that tells them apart"
    elif not statement.is_small:
        why = why or "too many rows take part to draw their noise again"
    if why:
        return replace(output, estimate=Computed(tuple(cells), f"no interval: {why}"))
    return replace(output, estimate=Computed(tuple(cells), _NO_ENDS, place, statement, tuple(range(len(cells)))))


def as_parts(
    table: pa.Table, names: Sequence[str], released: Mapping[str, Key | Output], places: Sequence[int]
) -> tuple[tuple[Key, ...], tuple[Output, ...]]:
    """Return computed rows as keys and outputs: a single row has values alone, several rows at least one key.

    Of the columns `names`, those in `released` are released ones as they are, at the rows `places`: they keep what they were.
    """
    from sordino.ask.engines.outer import plain_cells
    from sordino.core.release_exports import label_kind

    columns = {name: plain_cells(column) for name, column in zip(names, table.columns, strict=True)}
    labels: list[str] = []
    if table.num_rows != 1:
        labels = [name for name in names if isinstance(released.get(name), Key) or not _are_numbers(columns[name])]
        labels = labels or [next((name for name in names if name not in released), names[0])]
    keys: list[Key] = []
    outputs: list[Output] = []
    for name in names:
        source = released.get(name)
        if name in labels:
            cells = tuple(source.labels[i] for i in places) if isinstance(source, Key) else tuple(columns[name])
            keys.append(Key(name, cells, source.kind if isinstance(source, Key) else label_kind(cells)))
        elif isinstance(source, Output):
            outputs.append(Output(name, take_rows(source.estimate, places), source.mechanism))
        else:
            outputs.append(Output(name, Computed(tuple(columns[name])), "computed from released values"))
    return tuple(keys), tuple(outputs)


def as_chosen(part: P, trace: Trace) -> P:
    """Return a released column; where noisy values choose the rows that show, its intervals hold for all rows together."""
    if not isinstance(part, Output) or isinstance(part.estimate, Selected):
        return part
    rows = len(part.estimate.values())
    return replace(part, estimate=Selected(part.estimate, rows)) if trace.chooses(rows) else part


def _chooses(trace: Trace, block: AggregationProcedure) -> bool:
    """Return whether noisy values may leave out rows of a block's answer."""
    return trace.chooses(count_groups(block.compiled))


def _are_numbers(cells: Sequence[Any]) -> bool:
    return all(cell is None or isinstance(cell, (int, float)) for cell in cells)


def join_questions(questions: Sequence[Any]) -> Tabulation | None:
    """Return the tabulation that questions are the tables of; None where they are not about the same rows of one table.

    Each has the same condition, no join, sample or list of keys, and counts or sums alone; what is done to answers afterwards,
    such as ORDER BY, can be done to tables too.
    """
    if len(questions) < 2:
        return None
    keys: dict[Any, Grouping] = {}
    measures: dict[Any, Aggregate] = {}
    tables: dict[frozenset[str], tuple[str, ...]] = {}
    for question in questions:
        if not isinstance(question, Aggregation) or question.where != getattr(questions[0], "where", None):
            return None
        # The same question without what a tabulation has no words for.
        rest = replace(question, after=None, layout=(), dialect="duckdb")
        if rest != Aggregation(question.where, question.groups, question.aggregates):
            return None
        for group in question.groups:
            # The blocks of a statement have names of their own for the columns of the text.
            name = describe_expression(group.of) if group.alias.startswith(KEY) else group.alias
            keys.setdefault(group.of, Grouping(name, group.of))
        for aggregate in question.aggregates:
            measures.setdefault(unnamed(aggregate), replace(cast(Any, aggregate), alias=aggregate.describe()))
        names = tuple(keys[group.of].alias for group in question.groups)
        tables.setdefault(frozenset(names), names)
    if len(tables) < 2 or not measures:
        return None
    try:
        return check_tabulation(
            Tabulation(tuple(tables.values()), tuple(keys.values()), tuple(measures.values()), where=questions[0].where)
        )
    except QuestionRefused:
        return None


def unnamed(aggregate: Aggregate) -> Any:
    """Return an aggregate without its name, to compare what it computes."""
    return replace(cast(Any, aggregate), alias="")


def name_groups(groups: Sequence[Grouping], tabulation: Tabulation) -> tuple[str, ...]:
    """Return the names that a tabulation has for the group-by columns of a question."""
    names = {key.of: key.alias for key in tabulation.keys}
    return tuple(names[group.of] for group in groups)


def join_groupings(question: StatementQuestion, table: TableContext) -> StatementQuestion:
    """Return a statement whose groupings are one tabulation, or the statement as it is where they are none.

    They are where all private questions of the statement are groupings of the same rows by declared keys, with the same
    counts and sums. Bounds on the groups of a unit are of one grouping, and stay with questions of their own.
    """
    statement = question.statement
    own = question.weights or statement.weights or statement.constants or statement.traces or any(question.tables)
    unit = table.neighbors.unit
    if GROUPINGS not in statement.outside or own or (unit is not None and unit.max_groups is not None):
        return question
    tabulation = join_questions(question.blocks)
    if tabulation is None:
        return question
    blocks = [cast(Aggregation, block) for block in question.blocks]
    if any({unnamed(a) for a in block.aggregates} != set(map(unnamed, tabulation.measures)) for block in blocks):
        return question
    try:
        compile_tabulation(tabulation, table.domain)
    # Keys that are not public, means, too many cells: these are asked one by one.
    except SordinoError:
        return question
    columns = tuple(_find_columns(block, tabulation) for block in blocks)
    names = [name_table(tabulation.tables[_place_of(block, tabulation)]) for block in blocks]
    return replace(
        question,
        blocks=(tabulation,),
        tables=(None,),
        statement=replace(statement, outside=_read_tables(statement.outside, names, columns)),
        columns=columns,
    )


def _place_of(block: Aggregation, tabulation: Tabulation) -> int:
    names = frozenset(name_groups(block.groups, tabulation))
    return next(place for place, table in enumerate(tabulation.tables) if frozenset(table) == names)


def _find_columns(block: Aggregation, tabulation: Tabulation) -> tuple[tuple[str, str], ...]:
    """Return each column of a block's answer with the name of the tabulation's column that it is."""
    keys = zip((group.alias for group in block.groups), name_groups(block.groups, tabulation), strict=True)
    measures = {unnamed(measure): measure.alias for measure in tabulation.measures}
    return (*keys, *((aggregate.alias, measures[unnamed(aggregate)]) for aggregate in block.aggregates))


def _read_tables(outside: str, names: Sequence[str], columns: Sequence[Sequence[tuple[str, str]]]) -> str:
    """Return the SQL around the blocks with each of them read from the rows of its table in the tabulation's answer."""
    import sqlglot

    exp = trees()
    tree = sqlglot.parse_one(outside, read="duckdb")
    places = {f"{BLOCK}{place}": place for place in range(len(names))}
    for node in [node for node in tree.find_all(exp.Table) if node.name in places]:
        place = places[node.name]
        items = [exp.alias_(exp.column(own, quoted=True), name) for name, own in columns[place]]
        rows = exp.Select(expressions=[*items, exp.column(ROW)]).from_(exp.to_table(f"{BLOCK}0"))
        of_table = exp.EQ(this=exp.column(BY_COLUMNS), expression=exp.Literal.string(names[place]))
        alias = exp.TableAlias(this=exp.to_identifier(node.alias_or_name))
        node.replace(exp.Subquery(this=rows.where(of_table), alias=alias))
    return write_duckdb(tree)
