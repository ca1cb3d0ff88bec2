"""Plan: what a question would cost and how wrong its answer would be, from public facts alone; nothing is spent.

It follows from what is publicly known of the table, and from what is asked about the split of the loss. Its procedure says
how it is answered, and what that may do: before the charge write statements, after it run them. `DataAccess` is the only way
to the exact answers; what comes out of it never leaves the curator without noise.

How each kind of question is planned stands in a registry, which code in the curator's own process may add to. A procedure
that is registered here is trusted as all code of the curator's process is: nothing checks its proof. What it is handed before
the charge writes statements and cannot run them. When it may register, core/registration.py says. Plans, records and releases
name a procedure that is not Sordino's own, and so does the error where it fails.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeAlias, get_args

from sordino.ask.engines.kept_numbers import MOST_KEPT, KeptNumbers
from sordino.ask.queries.expressions.released import ReleasedValues, check_tokens
from sordino.ask.queries.joins import MOST_ROWS, no_values
from sordino.ask.queries.queryable import ReleaseContent
from sordino.ask.queries.row_steps import RowStep, apply_steps, step_neighbors
from sordino.ask.queries.same_people import seen_from
from sordino.core.accounting.composition import charge_amounts
from sordino.core.domain import Domain
from sordino.core.errors import DeclarationError, QuestionRefused, arg, check_confidence
from sordino.core.loss import (
    ZCDP,
    Event,
    Loss,
    LossArguments,
    Number,
    currencies_to_dict,
    loss_from,
    loss_to_numbers,
    to_fraction,
)
from sordino.core.neighbors import Neighbors
from sordino.core.noise.rng import Rng
from sordino.core.primitives import Primitives
from sordino.core.release import Key, Output, other_currencies, show_number
from sordino.core.source import PrivateTable, PublicTable

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp

    from sordino.ask.engines.engine import Engine, Statement, TableCounter
    from sordino.ask.queries.aggregation import Grouping, Possible
    from sordino.ask.queries.expressions.keys import Keys
    from sordino.ask.queries.expressions.nodes import Node
from sordino.core.registration import check_registering, is_own, name_provider

# ---- What is known before a question is asked, and how its loss is split


@dataclass(frozen=True, slots=True)
class TableContext:
    """What is public of a table: its name, columns, neighbors, the cap that it is charged to, its declaration's digest.

    `public` are the tables that may be joined, `private` the other private tables of the project, `dialect` that of SQL
    that names none. `public_rows` are the rows of the public tables, as they were opened, `declared` is the declaration
    itself, `possible` a cache of the possible keys of questions.
    """

    name: str
    domain: Domain
    neighbors: Neighbors
    cap: Loss
    declaration: str
    public: Mapping[str, PublicTable] = field(default_factory=dict)
    private: Mapping[str, PrivateTable] = field(default_factory=dict)
    dialect: str | None = None
    public_rows: Mapping[str, pa.Table] = field(default_factory=dict, repr=False, compare=False)
    declared: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    possible: dict[str, Possible] = field(default_factory=dict, repr=False, compare=False)

    def find_possible(
        self, groups: Sequence[Grouping], declared: Sequence[Keys], where: Node | None, steps: Sequence[RowStep]
    ) -> Possible:
        """Return the codes of the keys that the rows of a question may have, from public facts."""
        from sordino.ask.curator.possible_keys import PossibleKeys

        return PossibleKeys(self.domain, self.public_rows, self.possible).find(groups, declared, where, steps)

    @property
    def own(self) -> PrivateTable:
        """The public facts of this table that questions of other tables may use."""
        return PrivateTable(self.domain, self.neighbors, self.declared)

    def public_values(self, name: str, columns: Sequence[str]) -> Sequence[tuple[Any, ...]]:
        """Return some columns of each row of a public table as declared, or of its key, `sordino_key_0`.., as it is joined by."""
        from sordino.ask.engines.public import declared_values

        if name not in self.public_rows:
            return no_values(name, columns)
        # One row more than a question may search says that there are too many.
        rows = self.public_rows[name].slice(0, MOST_ROWS + 1)
        return declared_values(rows, self.public[name].columns, columns)

    def other(self, name: str | None) -> TableContext:
        """Return the context of another private table that one statement asks about with this one; itself for None.

        Their losses add up where one budget counts both (basic composition), and a ledger protects one kind of unit under one
        relation. Raises QuestionRefused elsewhere.
        """
        if name is None:
            return self
        other = self.private[name]
        both = f"{self.name} and {name} cannot be asked about in one statement"
        rest = "ask about each by itself, and combine the answers"
        if not other.shares_budget:
            raise QuestionRefused(f"{both}: they draw on different budgets; {rest}")
        if other.apart:
            raise QuestionRefused(f"{both}: {name} lies elsewhere, and {other.apart}; {rest}")
        return TableContext(
            name,
            other.domain,
            other.neighbors,
            self.cap,
            self.declaration,
            public=self.public,
            private=seen_from(name, self.private, self.name, self.own),
            dialect=self.dialect,
            public_rows=self.public_rows,
            declared=other.declaration,
        )


Share: TypeAlias = Literal["equal", "relative", "error"]
Weights: TypeAlias = Sequence[Number] | Mapping[str, Number]


class PlanArguments(LossArguments, total=False):
    """How a call states the loss of a question, how its parts share it, and a public guess of the number of rows."""

    weights: Weights | None
    share: Share
    scale: Mapping[str, Number] | None
    assume_rows: int | None


def take_loss(arguments: PlanArguments) -> LossArguments:
    """Return the loss out of the arguments of a plan."""
    return {"epsilon": arguments.get("epsilon"), "delta": arguments.get("delta"), "rho": arguments.get("rho")}


@dataclass(frozen=True, slots=True)
class LossSplit:
    """How a loss is split: in proportion to `weights`, or for the least weighted sum of errors.

    `share` is "equal", "error" (each error in its own unit) or "relative" (each divided by the size of its answer, which
    `scale` states by name). `exact` holds the shares of a plan that was made before, one an aggregate.
    """

    weights: tuple[Fraction, ...] | Mapping[str, Fraction] | None = None
    share: Share = "equal"
    scale: Mapping[str, Fraction] = field(default_factory=dict)
    exact: tuple[Fraction, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Whether nothing but equal shares is asked for."""
        return self.weights is None and self.share == "equal" and not self.exact


EQUAL = LossSplit()


def read_split(arguments: PlanArguments) -> LossSplit:
    """Return how `weights=`, `share=` and `scale=` split a loss; raises DeclarationError where they make no sense."""
    weights = arguments.get("weights")
    share = arguments.get("share", "equal")
    scale = arguments.get("scale")
    if weights is None and scale is None and share == "equal":
        return EQUAL
    if share not in get_args(Share):
        raise DeclarationError(f'share is "equal", "relative" or "error", not {share!r}')
    if scale is not None and share != "relative":
        raise DeclarationError(f'scale states what errors are divided by: it goes with {arg("share=")}"relative"')
    if scale is not None and not isinstance(scale, Mapping):
        raise DeclarationError(f'scale states sizes by name, such as {arg("scale=")}{{"income": 50000}}')
    sizes = {name: _above_zero(size, name="scale") for name, size in (scale or {}).items()}
    if weights is None or isinstance(weights, Mapping):
        stated = None if weights is None else {name: _above_zero(w, name="weights") for name, w in weights.items()}
        return LossSplit(stated, share, sizes)
    if isinstance(weights, (str, bytes)) or not isinstance(weights, Sequence):
        raise DeclarationError('weights are numbers in order, or by name, such as weights={"n": 1, "total": 3}')
    return LossSplit(tuple(_above_zero(w, name="weights") for w in weights), share, sizes)


def states_split(arguments: PlanArguments) -> bool:
    """Return whether anything but equal shares is asked for; raises DeclarationError where that makes no sense."""
    return not read_split(arguments).is_equal


def _above_zero(value: Any, *, name: str) -> Fraction:
    number = to_fraction(value, name=name)
    if number <= 0:
        raise DeclarationError("must be above 0", key=name)
    return number


# ---- The rows of a question: its statements are written before the charge, and run after it

Answer = tuple[tuple[Key, ...], tuple[Output, ...]]


@contextmanager
def open_rows(engine: Engine, others: Collection[str] = ()) -> Iterator[DataAccess]:
    """Give access to one state of the rows of a table, and of the `others` that a question reads too."""
    with (engine.open_tables(others) if others else engine).snapshot() as snapshot:
        yield DataAccess(snapshot)


class StatementWriter:
    """Writes the statements of a question before the charge; it cannot run them, so nothing that it makes depends on a row."""

    def __init__(
        self,
        engine: Engine,
        *,
        steps: Sequence[RowStep] = (),
        domain: Domain | None = None,
        expects: frozenset[str] = frozenset(),
        released: ReleasedValues | None = None,
        table: str | None = None,
    ) -> None:
        self._engine = engine
        self._table = table
        self._steps = steps
        self._domain = domain
        self._expects = expects
        self._released = released

    def follow(self, steps: Sequence[RowStep], domain: Domain) -> Self:
        """Return the same over the rows that the steps make of these, which `domain` declares."""
        if self._domain is not None:
            # These rows are made by steps themselves: those come first.
            return self._with(self._engine, steps=(*self._steps, *steps))
        return self._with(self._engine, steps=steps, domain=domain)

    def of_table(self, name: str | None) -> Self:
        """Return the same over another private table that the engine reads; None for its own."""
        return self._with(self._engine, table=name)

    def expect_released(self, names: Iterable[str]) -> Self:
        """Return a writer whose texts may hold tokens of these released values, which are known before these texts run."""
        return self._with(self._engine, expects=frozenset(names))

    def check_sample(self) -> None:
        """Raise QuestionRefused where the engine draws no samples."""
        if getattr(self._engine, "sample", None) is None:
            raise QuestionRefused("the engine of this table draws no samples: ask of all rows, without SAMPLE")

    def primitives(self) -> Primitives:
        """Return the engine's primitives for one tree; take new ones for each."""
        primitives = self._engine.primitives
        if self._table is not None:
            primitives = primitives.other_rows(self._table)
        return primitives if self._domain is None else apply_steps(primitives, self._steps, self._domain)

    def write(self, select: exp.Select) -> Statement:
        """Return the engine's text of a tree; reads nothing, so a plan writes all that it can before the charge."""
        statement = self._engine.write(select)
        check_tokens(statement.text, self._expects)
        return statement

    def _with(self, engine: Engine, **changed: Any) -> Self:
        """Return a copy over another engine or other rows."""
        current = {
            "steps": self._steps,
            "domain": self._domain,
            "expects": self._expects,
            "released": self._released,
            "table": self._table,
        }
        return type(self)(engine, **{**current, **changed})


class DataAccess(StatementWriter):
    """Runs statements over the curator's table; the curator makes it and hands it to one plan after the charge."""

    _kept: KeptNumbers | None = None

    def writer(self) -> StatementWriter:
        """Return the part of it that may be used before the charge."""
        return StatementWriter(self._engine, steps=self._steps, domain=self._domain, table=self._table)

    def bind(self, released: ReleasedValues) -> DataAccess:
        """Return the same access, which puts released values in the place of their tokens."""
        return self._with(self._engine, expects=released.names, released=released)

    @contextmanager
    def sample(self, rate: Fraction, rng: Rng) -> Iterator[DataAccess]:
        """Draw a Poisson sample, each unit with chance `rate` rounded down to 2^-64, and forget it at the end."""
        sample = self._engine.sample(threshold=math.floor(rate * 2**64), key=rng.bytes(32))
        try:
            yield self._with(sample)
        finally:
            sample.close()

    @contextmanager
    def keep_bounded(self) -> Iterator[DataAccess]:
        """Give access to the same rows for several scans that bound them alike: an engine may do that once."""
        keep = getattr(self._engine, "keep_bounded", None)
        if keep is None:
            yield self
            return
        engine = keep()
        try:
            yield self._with(engine)
        finally:
            engine.close()

    @contextmanager
    def keep_numbers(self, statements: Iterable[Statement]) -> Iterator[DataAccess]:
        """Give access to the same rows for the scans of one run: what several of them read may be read once.

        `statements` are what will be run; what was read is dropped at the end.
        """
        access = self._with(self._engine)
        access._kept = KeptNumbers(
            [(statement.text, statement.products) for statement in statements if statement.products is not None],
            MOST_KEPT,
        )
        try:
            yield access
        finally:
            access._kept.clear()

    def run(self, statement: Statement) -> pa.Table:
        """Return the exact answer of a text; raises EngineFailed, without the engine's message."""
        if self._released is not None:
            statement = replace(statement, text=self._released.bind(statement.text))
        if self._kept is not None and statement.products is not None:
            statement = replace(statement, kept=self._kept)
        return self._engine.run(statement)

    @property
    def table_counter(self) -> TableCounter | None:
        """What returns the exact counts of many tables over a text's keys, in one scan; None where the engine has no such way."""
        counter: TableCounter | None = getattr(self._engine, "count_tables", None)
        released = self._released
        if counter is None or released is None:
            return counter
        return lambda keys, tables: counter(replace(keys, text=released.bind(keys.text)), tables)


# ---- How one kind of question is answered


class PlannedQuestion(Protocol):
    """A question as the curator plans it: it can be distinguished from others and described in words."""

    def identity(self) -> str:
        """Return canonical text of the question, whatever the loss."""

    def describe(self) -> str:
        """Return the question as a sentence."""


GUESS = "(give {name}, a public guess)"


@dataclass(frozen=True, slots=True)
class PlannedColumn:
    """What a plan says of one aggregate: its columns, their expected errors and the noise behind them.

    `words` say each column's error to a person; `vectors` hold the mechanisms as data, `lines` the same in words. `share` is
    the part of the loss that it gets, None where there is one part or none. `missing` is the argument that would make the error a
    number.
    """

    names: tuple[str, ...]
    question: str
    errors: tuple[float | None, ...]
    unit: str
    words: tuple[str, ...]
    vectors: tuple[dict[str, Any], ...]
    lines: tuple[str, ...]
    assumes: str = ""
    error_times_rows: float | None = None
    share: Fraction | None = None
    missing: str = ""

    def say(self, hint: str = GUESS) -> tuple[str, ...]:
        """Return each column's error in words, with a hint where an argument that is missing would make it a number."""
        more = f" {hint.format(name=self.missing)}" if self.missing else ""
        return tuple(f"{words}{more}" for words in self.words)


@dataclass(frozen=True, slots=True)
class PlannedRows:
    """The rows that an answer will have: their number where it is public, in words where there are groups.

    `private_keys` says which keys show, `sample` what a sample means for the answer and its price; None without either.
    """

    count: int | None = 1
    words: str | None = None
    private_keys: str | None = None
    sample: str | None = None


ONE_ROW = PlannedRows()
UNKNOWN_ROWS = PlannedRows(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Procedure(ABC):
    """How one kind of question is answered, from its event to the release; made without data.

    `event` is what the release amounts to, `groups` the names of the group-by columns, `rows` which rows the answer will have,
    `notes` what a release must say beside its numbers, from public facts, and `layout` the order of the answer's columns where
    it is not keys first. Where `error_is_private`, no loss can be planned from a wanted error.
    """

    question: PlannedQuestion
    event: Event
    groups: tuple[str, ...] = ()
    rows: PlannedRows = ONE_ROW
    notes: tuple[str, ...] = ()
    layout: tuple[str, ...] = ()
    error_is_private: bool = False

    @property
    def words(self) -> str:
        """The question as a sentence."""
        return self.question.describe()

    @abstractmethod
    def columns(self, confidence: float) -> Sequence[PlannedColumn]:
        """Return each aggregate's planned columns; errors are not exceeded with probability `confidence`."""

    def error(self, confidence: float) -> Any:
        """Return the expected error as `Plan.error` shows it: a number for a single column, a dict by name for several."""
        errors = {n: e for c in self.columns(confidence) for n, e in zip(c.names, c.errors, strict=True)}
        return next(iter(errors.values())) if len(errors) == 1 else errors

    @abstractmethod
    def write(self, rows: StatementWriter) -> Any:
        """Write the statements of the exact answer, before the charge; `release` runs exactly these.

        Raises QuestionRefused where the engine cannot express it. Reads nothing.
        """

    @abstractmethod
    def release(self, statements: Any, rows: DataAccess, rng: Rng) -> Answer | ReleaseContent:
        """Return the keys and noisy outputs of the release; every exact value is given its noise here."""


# ---- A question with its price


@dataclass(frozen=True, slots=True, repr=False)
class Plan:
    """A priced question: its cost, its mechanisms, its sensitivities with reasons, and its expected error.

    Give it to `ask` to spend exactly `cost`. `asked` is the loss that it was planned at, `earlier` names the charges that
    answered the same question before, `unknown` says what is not known of the ledger, `provider` is the module and version of a
    procedure that is not Sordino's own, `advice` what would answer the same with less error.
    """

    question: PlannedQuestion
    table: TableContext
    asked: Loss
    procedure: Procedure
    event: Event
    cost: Loss
    words: str
    earlier: tuple[str, ...] = ()
    provider: str = ""
    unknown: str = ""
    advice: tuple[str, ...] = ()

    @property
    def is_free(self) -> bool:
        """Whether it costs nothing at any loss, as a question that declared keys or public tables alone answer."""
        return self.event.pure() == 0

    @property
    def table_name(self) -> str:
        """The table that it was planned for."""
        return self.table.name

    @property
    def table_shares(self) -> Mapping[str, Fraction]:
        """The share of its cost that each private table has: all is its own table's, unless it is a statement."""
        shares: Mapping[str, Fraction] = getattr(self.procedure, "table_shares", {})
        return shares or {self.table.name: Fraction(1)}

    @property
    def domain(self) -> Domain:
        """What is declared about the table."""
        return self.table.domain

    @property
    def neighbors(self) -> Neighbors:
        """Which tables count as neighbors, and the privacy unit."""
        return self.table.neighbors

    @property
    def protects(self) -> Neighbors:
        """The neighbors of the rows that the question is about, after its steps, such as joins."""
        steps = getattr(self.question, "steps", ())
        return step_neighbors(self.table.neighbors, steps) if steps else self.table.neighbors

    @property
    def reads(self) -> Mapping[str, PrivateTable]:
        """The other private tables that it reads."""
        tables: Mapping[str, PrivateTable] = getattr(self.question, "reads", {})
        return tables

    @property
    def declaration(self) -> str:
        """The digest of the declaration that it was planned under."""
        return self.table.declaration

    @property
    def names(self) -> list[str]:
        """The names of the answer's columns, keys first."""
        return [*self.groups, *(n for c in self.procedure.columns(0.95) for n in c.names)]

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of its group-by columns."""
        return self.procedure.groups

    @property
    def rows(self) -> PlannedRows:
        """Which rows its answer will have."""
        return self.procedure.rows

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes that its release must carry."""
        if not self.provider:
            return self.procedure.notes
        words = (
            f"priced and answered by a procedure of {self.provider}, which is not Sordino's own: its proof is theirs"
        )
        return (*self.procedure.notes, words)

    def error(self, confidence: float) -> Any:
        """Return the expected error, not exceeded with probability `confidence`, of each value by itself.

        A number for a single column, a dict by column name for several; in the unit that `to_dict` states. A mean's, and
        that of any statistic made of several sums, is None unless `assume_rows` was given; it is an upper bound (the mean
        at its worst) unless `assume_mean` was given too. A quantile's is in rows.
        Where HAVING or LIMIT select rows by noisy values it is not exceeded in any group, all together, as in the release.
        None where the noise's width is private. Of a tabulation it is a dict by table: the widest error of its cells.
        Raises DeclarationError unless the confidence lies between 0 and 1.
        """
        return self.procedure.error(check_confidence(confidence))

    def error_times_rows(self, confidence: float) -> dict[str, float]:
        """Return, for each mean, its expected error times the number of rows in its group, a public figure."""
        return self._error_times_rows(self.procedure.columns(confidence))

    def sentence(self) -> str:
        """Return the question in words."""
        return self.words

    def identity(self) -> str:
        """Return canonical text of the table and the question, whatever the loss."""
        return json.dumps([self.table.name, self.question.identity()])

    def seen_before(self, charges: tuple[str, ...], unknown: str) -> Plan:
        """Return the plan with the charges that answered the same question before, and what is not known of the ledger."""
        return replace(self, earlier=charges, unknown=unknown)

    def entries(self, confidence: float, *, hint: str = GUESS) -> list[tuple[str, str]]:
        """Return what the plan says, line by line: a label, which may be empty, and its text; `hint` as in `say`."""
        lines = [("question", self.sentence()), ("cost", self.cost.describe())]
        lines += [("", words) for words in other_currencies(self.event, self.cost)]
        lines.append(("protects", self.protects.describe()))
        rows = self.rows
        lines += [(label, words) for label, words in (("sample", rows.sample), ("rows", rows.words)) if words]
        for column in self.procedure.columns(confidence):
            lines += zip(column.names, column.say(hint), strict=True)
            lines += [("", line) for line in column.lines]
            if column.share is not None:
                lines.append(("", f"share: {show_number(100 * float(column.share))}% of the loss"))
        return lines + [("note", note) for note in (*self.notes, *self.advice)]

    def describe(self, confidence: float = 0.95) -> str:
        """Return the plan in a few lines."""
        lines = [f"{label:<10} {text}" for label, text in self.entries(confidence)]
        if self.earlier:
            lines.append(f"earlier    answered before as {', '.join(self.earlier)}: `sordino show` it at no cost")
        if self.unknown:
            lines.append(f"ledger     {self.unknown}")
        return "\n".join(lines)

    def to_dict(self, *, confidence: float = 0.95) -> dict[str, Any]:
        """Return the plan as JSON data, the same for every kind of question."""
        rows = self.rows
        columns = self.procedure.columns(confidence)
        return {
            "schema": 1,
            "question": self.sentence(),
            "table": self.table.name,
            "cost": loss_to_numbers(self.cost),
            "currencies": currencies_to_dict(self.event),
            "neighbors": self.neighbors.relation,
            "privacy_unit": self.neighbors.to_dict()["privacy_unit"],
            "sample": rows.sample,
            "rows": rows.count,
            "private_keys": rows.private_keys,
            "confidence": confidence,
            "columns": [
                {
                    "name": name,
                    "question": column.question,
                    "expected_error": error,
                    "error_unit": column.unit,
                    "error_supposes": column.assumes or None,
                    "share": None if column.share is None else str(column.share),
                    "parts": list(column.vectors),
                }
                for column in columns
                for name, error in zip(column.names, column.errors, strict=True)
            ],
            "error_times_rows": self._error_times_rows(columns),
            "notes": [*self.notes, *self.advice, *([self.unknown] if self.unknown else [])],
            "earlier": list(self.earlier),
            "declaration": self.declaration,
        }

    def _error_times_rows(self, columns: Sequence[PlannedColumn]) -> dict[str, float]:
        return {c.names[0]: c.error_times_rows for c in columns if c.error_times_rows is not None}

    def __repr__(self) -> str:
        return f"<Plan {self.sentence()}; cost {self.cost.describe()}, nothing spent>"

    def __str__(self) -> str:
        return self.describe()

    def _repr_html_(self) -> str:
        from html import escape

        return f'<pre style="font-family: monospace">{escape(self.describe())}</pre>'


def cost_of(event: Event, cap: Loss) -> Loss:
    """Return what an event costs in the currency of a cap; raises DeclarationError where the cap cannot count it."""
    return loss_from(charge_amounts(event, cap), delta=cap.delta if isinstance(cap, ZCDP) else None)


def price(procedure: Procedure, table: TableContext, *, asked: Loss) -> Plan:
    """Return the plan of the question that a procedure answers, at its cost in the currency of the table's cap."""
    event = procedure.event
    return Plan(procedure.question, table, asked, procedure, event, cost_of(event, table.cap), procedure.words)


class PlanQuestion(Protocol):
    """Plans a question of one class at a loss; raises QuestionRefused where its theorem does not hold for the table."""

    def __call__(self, question: Any, table: TableContext, *, asked: Loss) -> Plan: ...


@dataclass(frozen=True, slots=True)
class RegisteredProcedure:
    """How questions of one class are planned, and whose code that is: empty for Sordino's own."""

    plan: PlanQuestion
    provider: str

    def plan_question(self, question: Any, table: TableContext, *, asked: Loss) -> Plan:
        """Return the plan, which names its provider.

        What foreign code states of its cost is not taken: its procedure is priced anew. Raises DeclarationError where the
        plan states another question, event or cost than that.
        """
        plan = self.plan(question, table, asked=asked)
        if not self.provider:
            return plan
        priced = price(plan.procedure, table, asked=asked)
        stated = (plan.question, plan.asked, plan.event, plan.cost)
        if plan.table is not table or stated != (question, asked, priced.event, priced.cost):
            raise DeclarationError(
                f"the plan of {self.provider} is not that of its procedure: it states another question, event or cost; make it "
                "with price(procedure, table, asked=asked), and report this to its authors"
            )
        return replace(priced, provider=self.provider)


_PROCEDURES: dict[type, RegisteredProcedure] = {}


def register_procedure(
    question: type[PlannedQuestion], plan: PlanQuestion, *, module: str = "", version: str = ""
) -> None:
    """Let questions of a class be planned by `plan`, which makes a `Procedure` and prices it with `price`.

    `module` and `version` say whose code it is: plans, records and releases name them, and only Sordino's own modules leave
    them out. Raises DeclarationError for a class that is planned already, for foreign code without a name, and once a table is
    open.
    """
    if question in _PROCEDURES:
        raise DeclarationError(f"questions of class {question.__name__} have a procedure already")
    check_registering(plan, f"a procedure for {question.__name__}")
    if is_own(question) and not is_own(plan):
        raise DeclarationError(
            f"{question.__name__} is Sordino's own question: register a procedure for a class of yours"
        )
    _PROCEDURES[question] = RegisteredProcedure(plan, name_provider(plan, "a procedure", module, version))


def registered_procedure(question: object) -> RegisteredProcedure | None:
    """Return how a question is planned; None where its class is not registered."""
    return _PROCEDURES.get(type(question))
