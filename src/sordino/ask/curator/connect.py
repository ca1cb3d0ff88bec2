"""connect(...): from a project file, or the address of a server, to what answers questions about its tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from sordino.ask.curator.batch import Batch, plan_batch
from sordino.ask.curator.curator import Curator
from sordino.ask.curator.plan import Plan, PlanArguments, read_split, states_split, take_loss
from sordino.ask.engines.engine import Engine
from sordino.ask.engines.opening import open_source, provider_of, why_apart
from sordino.ask.engines.public import public_cells
from sordino.ask.engines.table_layout import PeopleTable
from sordino.ask.project.budget import BudgetStatus, amend_ledger, budget_status, find_release, open_ledger
from sordino.ask.project.edit import compared_on
from sordino.ask.project.load import DeclaredTable, Project, find_project, load_project
from sordino.ask.queries.sql.parse import SqlText, sql
from sordino.ask.queries.sql.statement import tables_of
from sordino.ask.queries.sql.text import is_same_table, known_dialect
from sordino.core.errors import DeclarationError, QuestionRefused
from sordino.core.lazy import load_feature
from sordino.core.ledger.ledger import Ledger
from sordino.core.loss import Loss, Number, show_arguments
from sordino.core.noise.rng import Rng
from sordino.core.release import Release
from sordino.core.source import PrivateTable
from sordino.core.text_table import html_table

if TYPE_CHECKING:
    import pyarrow as pa

NEVER_COMPARED = (
    "never compared with the data: cells or lines that are written otherwise than declared would not be noticed; for the "
    "curator: sordino check --against-data"
)


class Connection:
    """The tables of a project, or of `protect`: `.table(name)` gives the Curator of one; those of a budget share its ledger.

    With a `spender`, every charge counts against its share of each budget too. `.budgets()`, `.release(charge)` and `.report()`
    read what was spent and released, without the data.
    """

    def __init__(
        self, project: Project, *, spender: str | None = None, dialect: str | None = None, rng: Rng | None = None
    ) -> None:
        self.project = project
        self.spender = spender
        self.dialect = project.dialect if dialect is None else known_dialect(dialect)
        self._rng = Rng.secure() if rng is None else rng
        self._ledgers: dict[str, Ledger] = {}
        self._engines: dict[str, Engine] = {}
        # the rows of public tables, as each of the engines opened them
        self._public_rows: dict[str, Mapping[str, pa.Table]] = {}
        # whether it is a server's, whose accounts `spend_as` names
        self._serves = False
        self._curators: dict[str, Curator] = {}

    def spend_as(self, spender: str, *, rng: Rng | None = None) -> Connection:
        """Return a connection to the same data and ledgers whose charges count against a spender's share as well.

        There a request whose process stopped, charged but not answered, is answered under its charge when it is asked again.
        Its noise is of `rng`, or else of the same source as here.
        """
        source = self._rng if rng is None else rng
        connection = Connection(self.project, spender=spender, dialect=self.dialect, rng=source)
        connection._ledgers = self._ledgers
        connection._engines = self._engines
        connection._public_rows = self._public_rows
        connection._serves = True
        return connection

    def table(self, name: str | None = None) -> Curator:
        """Return the Curator of a declared table, or of the only one there is.

        Raises UnknownName, DeclarationError where several are declared and none is named, SourceError,
        DeclarationChanged or LedgerError.
        """
        declared = self.project.table(name)
        if declared.name not in self._curators:
            share = None
            if self.spender is not None:
                share = self.spender, self._share(self.spender, declared.budget)
            if declared.name not in self._engines:
                public_rows = public_cells(self.project.public)
                self._engines[declared.name] = open_engine(self.project, declared, public_rows)
                self._public_rows[declared.name] = public_rows
            engine = self._engines[declared.name]
            tables = self.project.tables.items()
            others = {name: _as_other(table, declared) for name, table in tables if name != declared.name}
            self._curators[declared.name] = Curator(
                declared.name,
                engine=engine,
                domain=declared.domain,
                neighbors=declared.neighbors,
                ledger=self.ledger(declared.budget),
                declaration=declared.declaration,
                rng=self._rng,
                public=self.project.public,
                public_rows=self._public_rows[declared.name],
                others=others,
                share=share,
                dialect=self.dialect,
                resumes=self._serves,
                remarks=partial(_remarks, self.project, declared, provider_of(declared.source)),
            )
        return self._curators[declared.name]

    def _share(self, spender: str, budget: str) -> Loss:
        """Return a share that the project declares, or one on the ledger alone, as a server's officers grant them."""
        declared = self.project.budget(budget)
        if spender not in declared.shares:
            with open_ledger(declared) as ledger:
                recorded = {} if ledger is None else ledger.shares()
            if spender in recorded:
                return recorded[spender].cap
        return declared.share(spender)

    @show_arguments(PlanArguments, share="equal")
    def plan(
        self,
        question: SqlText,
        *,
        error: Number | Sequence[Number] | None = None,
        confidence: float = 0.95,
        assume_mean: float | None = None,
        **arguments: Unpack[PlanArguments],
    ) -> Plan | Batch:
        """Return the plan of a SELECT, of the table that it names, as `Curator.plan`; of several SELECTs their Batch.

        With `error`, one number or one a SELECT, a Batch of the least losses whose expected errors at `confidence` are at most
        that, as `Curator.plan`. The tables of a batch draw on one budget. Raises DeclarationError where they do not.
        """
        read = [self._read(one) for one in question.in_dialect(self.dialect).statements()]
        if len(read) == 1:
            curator, one = read[0]
            return curator.plan(one, error=error, confidence=confidence, assume_mean=assume_mean, **arguments)
        self._check_one_budget([curator.name for curator, _ in read])
        assume_rows = arguments.get("assume_rows")

        def plan_one(pair: tuple[Curator, SqlText], **loss: Any) -> Plan:
            plan: Plan = pair[0].plan(pair[1], assume_rows=assume_rows, assume_mean=assume_mean, **loss)
            return plan

        return plan_batch(
            read,
            plan_one,
            error=error,
            losses=take_loss(arguments),
            # All draw on one budget, so the first table's says what it counts in.
            counted="rho" if "rho" in read[0][0].remaining.amounts() else "epsilon",
            confidence=confidence,
            split=read_split(arguments),
            assume_rows=assume_rows,
        )

    @show_arguments(PlanArguments, share="equal")
    def ask(
        self,
        asked: SqlText | Plan | Batch,
        *,
        request_id: str | None = None,
        on: Literal["data", "dummy"] = "data",
        confirm: Callable[[Plan], None] | None = None,
        **arguments: Unpack[PlanArguments],
    ) -> Release | list[Release]:
        """Return the private answer of a SELECT or a plan, or those of several, each charged once, as `Curator.ask`.

        Nothing of a batch is asked where the budget does not cover all of it. `confirm` is shown each plan before any charge.
        """
        once: dict[str, Any] = {"request_id": request_id, "on": on, "confirm": confirm}
        several = asked.statements() if isinstance(asked, SqlText) else [asked]
        if isinstance(asked, Plan) or (isinstance(asked, SqlText) and len(several) == 1):
            curator, one = self._read(asked) if isinstance(asked, SqlText) else (self.table(asked.table_name), asked)
            release: Release = curator.ask(one, **once, **arguments)
            return release
        batch = self.plan(asked, **arguments) if isinstance(asked, SqlText) else asked
        stated = (*take_loss(arguments).values(), arguments.get("assume_rows"))
        if batch is asked and (any(v is not None for v in stated) or states_split(arguments)):
            raise DeclarationError(
                "a batch states its losses already: ask(batch), without epsilon, delta, rho or shares"
            )
        assert isinstance(batch, Batch)
        return self._ask_batch(batch, request_id=request_id, on=on, confirm=confirm)

    def _ask_batch(
        self,
        batch: Batch,
        *,
        request_id: str | None,
        on: Literal["data", "dummy"],
        confirm: Callable[[Plan], None] | None,
    ) -> list[Release]:
        if request_id is not None:
            raise DeclarationError("each answer of a batch is a charge of its own: a request id goes with one question")
        self._check_one_budget([p.table_name for p in batch.plans])
        if confirm is not None:
            for plan in batch.plans:
                confirm(plan)
        if on == "data":
            batch.check_covered(self.table(batch.plans[0].table_name).remaining)
        return [self.table(p.table_name).ask(p, on=on) for p in batch.plans]

    def _check_one_budget(self, tables: Sequence[str]) -> None:
        budgets = dict.fromkeys(self.project.table(name).budget for name in tables)
        if len(budgets) > 1:
            raise DeclarationError(
                f"a batch draws on one budget, and these tables draw on {' and '.join(budgets)}: ask about each by itself"
            )

    def read_sql(self, text: str | SqlText, *, dialect: str | None = None) -> tuple[Curator, SqlText]:
        """Return the Curator of the table that a SQL text is about, and the question to ask of it; the text is parsed once.

        `shop.orders` finds a table declared as orders, and orders one declared as "shop.orders", where only one is so.
        """
        return self._read(sql(text, dialect=dialect) if isinstance(text, str) else text)

    def _read(self, question: SqlText) -> tuple[Curator, SqlText]:
        columns = [column for table in self.project.tables.values() for column in table.domain]
        try:
            select = question.in_dialect(self.dialect).parse(columns, self.project.public)
        except QuestionRefused:
            # A statement around private questions may be no SELECT of one table; it is about the one that it names.
            named = tables_of(question.text, dialect=question.in_dialect(self.dialect).dialect)
            tables = {table for table in self.project.tables for name in named if is_same_table(name, table)}
            if not tables and named and all(map(self._is_public, named)):
                return self._any_table(), question
            if not tables:
                raise
            # Of several, it is charged as a question about the one that it names first.
            first = next(table for name in named for table in self.project.tables if is_same_table(name, table))
            return self.table(first), question
        same = [name for name in self.project.tables if name.lower() == select.table.lower()]
        if not same and self._is_public(select.table):
            return self._any_table(), question
        return self.table(same[0] if same else select.table), replace(question, select=select)

    def _is_public(self, name: str) -> bool:
        return name.lower() in {table.lower() for table in self.project.public}

    def _any_table(self) -> Curator:
        """Return a table under which to answer a statement of public tables alone; any will do, as it costs nothing."""
        return self.table(next(iter(self.project.tables)))

    def ledger(self, budget: str | None = None) -> Ledger:
        """Return the ledger of a declared budget, or of the only one there is, opening or creating it."""
        declared = self.project.budget(budget)
        if declared.name not in self._ledgers:
            place = declared.ledger
            ledger = place if isinstance(place, Ledger) else Ledger.open(place, cap=declared.cap)
            ledger.declare_allowance(declared.allowance)
            self._ledgers[declared.name] = ledger
        return self._ledgers[declared.name]

    def budgets(self, name: str | None = None, *, tight_at: Number | None = None) -> list[BudgetStatus]:
        """Return how each budget stands, or the one named: `.cap`, `.spent`, `.remaining`, and its charges; costs nothing.

        With a delta `tight_at` also `.tight`, the loss of all charges so far as one list; the cap is unaffected.
        """
        return [budget_status(budget, tight_at=tight_at) for budget in self.project.budgets_named(name)]

    def release(self, charge: str, *, budget: str | None = None) -> Release:
        """Return a past release as it was; costs nothing. Raises UnknownName for a charge that is not there."""
        return find_release(self.project, charge, budget=budget)

    def report(self, *, budget: str | None = None) -> str:
        """Return one HTML page for a board: what was asked, and what all of it reveals at most; costs nothing.

        It is about all budgets, or the one named, and loads nothing from elsewhere:
        `Path("board.html").write_text(sd.connect().report())`.
        """
        page: str = load_feature("board_page")(self.project, budget=budget)
        return page

    def amend(self, *, reason: str, budget: str | None = None, renamed: Mapping[str, str] | None = None) -> list[str]:
        """Make a ledger follow the project file, with a reason that stays on record; return what changed, in words.

        `renamed` maps old names of tables to new. What was spent carries over. The neighbor relation, the privacy unit
        and the kind of cap cannot be amended: DeclarationError.
        """
        return amend_ledger(self.project, self.project.budget(budget), reason=reason, renamed=renamed)

    def __repr__(self) -> str:
        where = "" if self.project.path is None else f" to {self.project.path}"
        return f"<Connection{where}: tables {', '.join(self.project.tables)}>"

    def _repr_html_(self) -> str:
        tables = self.project.tables
        rows = [(n, t.neighbors.describe(), t.budget, ", ".join(t.domain.stored)) for n, t in tables.items()]
        return html_table("Tables", ("table", "protects", "budget", "columns"), rows)


def open_engine(project: Project, table: DeclaredTable, public: Mapping[str, pa.Table]) -> Engine:
    """Return the engine of a declared table, its source opened beside the rows of public tables; raises SourceError."""
    people = {name: PeopleTable(t.source, t.domain, t.neighbors.unit) for name, t in project.tables.items()}
    return open_source(table.source, domain=table.domain, unit=table.neighbors.unit, public=public, people=people)


def _remarks(project: Project, table: DeclaredTable, provider: str) -> tuple[str, ...]:
    """Return the notes that every answer about a table carries: who reads it, and that it was never compared with its data.

    `provider` is whose code reads it, empty for Sordino's own. A table that Python code protects gets no note of the second
    kind: it has no project file, and its author holds the data.
    """
    notes: list[str] = []
    if provider:
        notes.append(
            f"read by code of {provider}, which is not Sordino's own: that rows are read as declared is theirs to say"
        )
    if project.path is not None and compared_on(table) is None:
        notes.append(NEVER_COMPARED)
    return tuple(notes)


def _as_other(table: DeclaredTable, beside: DeclaredTable) -> PrivateTable:
    """Return the public facts of another table that questions of one declared table may use."""
    apart = why_apart(beside.source, table.source)
    return PrivateTable(table.domain, table.neighbors, table.declaration, table.budget == beside.budget, apart)


def open_project(
    project: str | Path | None = None, *, spender: str | None = None, dialect: str | None = None
) -> Connection:
    """Return the connection that a project file declares; without a path, the sordino.toml found upward from here."""
    declared = load_project(find_project() if project is None else Path(project))
    return Connection(declared, spender=spender, dialect=dialect)
