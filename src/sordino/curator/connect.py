"""connect(...) and protect(...): from a project file, or from arguments, to the Curator of a table."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from sordino.curator.batch import Batch, plan_batch
from sordino.curator.curator import Curator
from sordino.curator.loss_split import Share, Weights, read_split
from sordino.curator.plan import Plan
from sordino.domain import Domain
from sordino.engines.duckdb import DuckDBEngine, PeopleTable
from sordino.engines.frames import arrow_of
from sordino.engines.public import public_cells
from sordino.errors import DeclarationError, UnknownName, nearest
from sordino.ledger.declarations import declaration_of
from sordino.ledger.ledger import Ledger
from sordino.ledger.records import check_share
from sordino.loss import Loss, Number
from sordino.neighbors import Neighbors, PrivacyUnit, neighbors_from
from sordino.noise.rng import Rng
from sordino.project.budget_ledger import amend_ledger, find_release
from sordino.project.budget_status import BudgetStatus, budget_status
from sordino.project.load import DeclaredTable, Project, find_project, load_project
from sordino.queries.sql.parse import SqlText, sql
from sordino.queries.sql.text import known_dialect
from sordino.release import Release
from sordino.reporting.board import board_page
from sordino.source import Csv, PrivateTable, PublicTable, Source, source_from

__all__ = ["Connection", "connect", "open_engine", "protect", "report"]


class Connection:
    """Hold a project: `.table(name)` gives the Curator of a declared table; tables of one budget share its ledger.

    With a `spender`, everything asked counts against its share of each budget too.
    What was spent and released is read without the data: `.budgets()`, `.release(charge)`, `.report()`.
    """

    def __init__(self, project: Project, *, spender: str | None = None, dialect: str | None = None) -> None:
        self.project = project
        self.spender = spender
        self.dialect = project.dialect if dialect is None else known_dialect(dialect)
        self._ledgers: dict[str, Ledger] = {}
        self._curators: dict[str, Curator] = {}

    def table(self, name: str | None = None) -> Curator:
        """Return the Curator of a declared table, or of the only one there is.

        Raises UnknownName, DeclarationError where several are declared and none is named, SourceError,
        DeclarationChanged or LedgerError.
        """
        declared = self.project.table(name)
        if declared.name not in self._curators:
            share = None
            if self.spender is not None:
                share = self.spender, self.project.budget(declared.budget).share(self.spender)
            engine = open_engine(self.project, declared)
            others = {name: _as_other(table, declared) for name, table in self.project.tables.items()}
            del others[declared.name]
            self._curators[declared.name] = Curator(
                declared.name,
                engine=engine,
                domain=_as_read(declared.domain, engine),
                neighbors=declared.neighbors,
                ledger=self.ledger(declared.budget),
                declaration=declaration_of(declared.domain, declared.neighbors, declared.source),
                rng=Rng.secure(),
                public=self.project.public,
                others=others,
                share=share,
                dialect=self.dialect,
            )
        return self._curators[declared.name]

    def plan(
        self,
        question: SqlText,
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        rho: Number | None = None,
        weights: Weights | None = None,
        share: Share = "equal",
        scale: Mapping[str, Number] | None = None,
        assume_rows: int | None = None,
    ) -> Plan | Batch:
        """Return the plan of a SELECT, of the table that it names, as `Curator.plan`; of several SELECTs their Batch.

        The tables of a batch draw on one budget. Raises DeclarationError where they do not.
        """
        read = [self._read(one) for one in question.in_dialect(self.dialect).statements()]
        given: dict[str, Any] = {"assume_rows": assume_rows}
        split: dict[str, Any] = {"weights": weights, "share": share, "scale": scale}
        losses: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "rho": rho}
        if len(read) == 1:
            single: Plan = read[0][0].plan(read[0][1], **losses, **split, **given)
            return single
        self._check_one_budget([curator.name for curator, _ in read])

        def plan_one(pair: tuple[Curator, SqlText], **loss: Any) -> Plan:
            planned: Plan = pair[0].plan(pair[1], **loss, **given)
            return planned

        return plan_batch(
            read, plan_one, error=None, losses=losses, counted="", confidence=0.95, split=read_split(**split), **given
        )

    def ask(
        self,
        asked: SqlText | Plan | Batch,
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        rho: Number | None = None,
        weights: Weights | None = None,
        share: Share = "equal",
        scale: Mapping[str, Number] | None = None,
        assume_rows: int | None = None,
        request_id: str | None = None,
        on: Literal["data", "dummy"] = "data",
        confirm: Callable[[Plan], None] | None = None,
    ) -> Release | list[Release]:
        """Return the private answer of a SELECT or a plan, or those of several, each charged once, as `Curator.ask`.

        Nothing of a batch is asked where the budget does not cover all of it. `confirm` is shown each plan before any charge.
        """
        losses: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "rho": rho, "assume_rows": assume_rows}
        split: dict[str, Any] = {"weights": weights, "share": share, "scale": scale}
        once: dict[str, Any] = {"request_id": request_id, "on": on, "confirm": confirm}
        several = asked.statements() if isinstance(asked, SqlText) else [asked]
        if isinstance(asked, Plan) or (isinstance(asked, SqlText) and len(several) == 1):
            curator, one = self._read(asked) if isinstance(asked, SqlText) else (self.table(asked.table_name), asked)
            release: Release = curator.ask(one, **losses, **split, **once)
            return release
        batch = self.plan(asked, **losses, **split) if isinstance(asked, SqlText) else asked
        if batch is asked and (any(v is not None for v in losses.values()) or not read_split(**split).is_equal):
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

    def read_sql(self, text: str, *, dialect: str | None = None) -> tuple[Curator, SqlText]:
        """Return the Curator of the table that a SQL text is about, and the question to ask of it; the text is parsed once.

        `shop.orders` finds a table declared as orders, and orders one declared as "shop.orders", where only one is so.
        """
        return self._read(sql(text, dialect=dialect))

    def _read(self, asked: SqlText) -> tuple[Curator, SqlText]:
        columns = [column for table in self.project.tables.values() for column in table.domain]
        select = asked.in_dialect(self.dialect).parse(columns, self.project.public)
        same = [name for name in self.project.tables if name.lower() == select.table.lower()]
        return self.table(same[0] if same else select.table), replace(asked, select=select)

    def ledger(self, budget: str | None = None) -> Ledger:
        """Return the ledger of a declared budget, or of the only one there is, opening or creating it."""
        declared = self.project.budget(budget)
        if declared.name not in self._ledgers:
            self._ledgers[declared.name] = Ledger.open(declared.ledger, cap=declared.cap)
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
        return board_page(self.project, budget=budget)

    def amend(self, *, reason: str, budget: str | None = None, renamed: Mapping[str, str] | None = None) -> list[str]:
        """Make a ledger follow the project file, with a reason that stays on record; return what changed, in words.

        `renamed` maps old names of tables to new. What was spent carries over. The neighbor relation, the privacy unit
        and the kind of cap cannot be amended: DeclarationError.
        """
        return amend_ledger(self.project, self.project.budget(budget), reason=reason, renamed=renamed)

    def __repr__(self) -> str:
        return f"<Connection to {self.project.path}: tables {', '.join(self.project.tables)}>"


def open_engine(project: Project, table: DeclaredTable) -> DuckDBEngine:
    """Return the engine of a declared table, its source and the public tables opened; raises SourceError."""
    public = public_cells(project.public)
    people = {name: PeopleTable(t.source, t.domain, t.neighbors.unit) for name, t in project.tables.items()}
    return DuckDBEngine(table.source, domain=table.domain, unit=table.neighbors.unit, public=public, people=people)


def _as_other(table: DeclaredTable, beside: DeclaredTable) -> PrivateTable:
    """Return what the questions of one declared table may know of another."""
    declared = declaration_of(table.domain, table.neighbors, table.source)
    return PrivateTable(table.domain, table.neighbors, declared, table.budget == beside.budget)


def connect(project: str | Path | None = None, *, spender: str | None = None, dialect: str | None = None) -> Connection:
    """Return the connection that a project file declares; without a path, the sordino.toml found upward from here.

    `spender` names a team or a program with a declared share of the budget, [budgets.NAME.shares]: what is asked counts
    against the share and the budget, and is refused where either is used up. `dialect` says whose SQL the questions are
    written in, in place of what the project file says.

    Raises DeclarationError, with file, line and column, where the file breaks a rule.
    """
    found = load_project(find_project() if project is None else Path(project))
    return Connection(found, spender=spender, dialect=dialect)


def report(
    project: str | Path | Connection | None = None, *, budget: str | None = None, output: str | Path | None = None
) -> str:
    """Return one HTML page for a board: what was asked, and what all of it reveals at most; costs nothing, reads no data.

    `project` is a connection, or what `connect` takes. The page is about all budgets, or the one named, and loads nothing
    from elsewhere; `output` names a file that it is written to as well, over what is there. Raises DeclarationError where
    the project file breaks a rule, UnknownName for a budget that is not declared.
    """
    page = (project if isinstance(project, Connection) else connect(project)).report(budget=budget)
    if output is not None:
        Path(output).write_text(page, encoding="utf-8", errors="backslashreplace")
    return page


def protect(
    source: Any,
    *,
    domain: Domain,
    neighbors: str,
    privacy_unit: str | PrivacyUnit,
    budget: Loss,
    ledger: str | Path | None,
    name: str | None = None,
    csv: Csv | None = None,
    relation: str | None = None,
    rng: Rng | None = None,
    amend: str | None = None,
    public: Mapping[str, PublicTable] | None = None,
    shares: Mapping[str, Loss] | None = None,
    spender: str | None = None,
) -> Curator:
    """Return the Curator of a table declared by arguments: nothing here is read from the data.

    `source`: a path (CSV with `csv=Csv(...)`, Parquet file or glob, DuckDB file with `relation=`), an Arrow table, a
    pandas or polars frame, or a DuckDB relation. `ledger`: a path, or None to keep the budget in memory. `rng`: a seeded
    one is accepted with `ledger=None` only, and its releases say NOT PRIVATE. `amend`: the reason, on record, for a
    declaration or cap that differs from the ledger's; spend is carried over. `public`: tables that may be joined, by name,
    made by sd.public(...). `shares`: what each spender may charge and no more, by name; `spender`: whose share is spent.

    Raises DeclarationError where an argument breaks a rule, SourceError where the source cannot be opened,
    DeclarationChanged where the ledger holds another declaration.
    """
    _check_declared(domain, budget)
    unit = neighbors_from(neighbors=neighbors, privacy_unit=privacy_unit)
    generator = Rng.secure() if rng is None else rng
    if not generator.private and ledger is not None:
        raise DeclarationError(
            "seeded noise is not private, so a durable ledger refuses it: use ledger=None in tests, or Rng.secure()"
        )
    table = name or _table_name(source)
    joinable = _public_tables(public, table)
    share = _share_of(spender, shares or {}, budget)
    opened = _open_source(source, domain, unit, csv=csv, relation=relation)
    declaration = declaration_of(domain, unit, opened if isinstance(opened, Source) else None)
    engine = DuckDBEngine(opened, domain=domain, unit=unit.unit, public=public_cells(joinable))
    if amend is not None and ledger is not None and Path(ledger).exists():
        with Ledger.existing(ledger) as known:
            changed = {table: declaration} if table in known.declarations() else None
            changed_share = None if share is None or share[0] not in known.shares() else dict([share])
            cap = budget if known.cap != budget else None
            known.amend(reason=amend, cap=cap, declarations=changed, shares=changed_share)
    return Curator(
        table,
        engine=engine,
        domain=_as_read(domain, engine),
        neighbors=unit,
        ledger=Ledger.open(None if ledger is None else Path(ledger), cap=budget),
        declaration=declaration,
        rng=generator,
        public=joinable,
        share=share,
    )


def _share_of(spender: str | None, shares: Mapping[str, Loss], budget: Loss) -> tuple[str, Loss] | None:
    """Return the spender with its share, None for the budget alone; every share is checked against the budget."""
    checked = {name: check_share(name, share, of=budget) for name, share in shares.items()}
    if spender is None:
        return None
    if spender not in checked:
        raise UnknownName(f"no share of {spender!r} is stated; {nearest(spender, checked)}")
    return spender, checked[spender]


def _check_declared(domain: object, budget: object) -> None:
    if not isinstance(domain, Domain):
        raise DeclarationError('domain must be a Domain, such as sd.Domain({"age": sd.Integer(0, 125)})')
    if not isinstance(budget, Loss):
        raise DeclarationError("budget must be PureDP(epsilon), ApproxDP(epsilon, delta) or ZCDP(rho)")
    if not all(budget.amounts().get(n, 1) for n in ("epsilon", "rho")):
        raise DeclarationError("budget must be above 0")


def _open_source(source: Any, domain: Domain, neighbors: Neighbors, *, csv: Csv | None, relation: str | None) -> Any:
    """Return a source by its path, or the Arrow table of what is held in memory."""
    if isinstance(source, (str, Path)):
        return source_from(source, relation=relation, csv=csv)
    if csv is not None or relation is not None:
        raise DeclarationError("csv and relation go with a path")
    return arrow_of(source, domain, unit=neighbors.id_column)


def _as_read(domain: Domain, engine: DuckDBEngine) -> Domain:
    """Return the domain, and whether the engine may lose rows of its source."""
    return Domain(domain.columns, row_ceiling=domain.row_ceiling, unreadable_rows=engine.unreadable_rows)


def _public_tables(public: Mapping[str, PublicTable] | None, table: str) -> Mapping[str, PublicTable]:
    """Return the public tables by name; raises DeclarationError for names that SQL cannot distinguish."""
    found = dict(public or {})
    for name, declared in found.items():
        if not isinstance(declared, PublicTable):
            raise DeclarationError(f"public[{name!r}] must be made by sd.public(source, key=..., columns=...)")
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise DeclarationError(f"a public table's name is letters, digits and _, not {name!r}")
    if len({n.lower() for n in (*found, table)}) != len(found) + 1:
        raise DeclarationError("the table and its public tables need different names, ignoring case")
    return found


def _table_name(source: Any) -> str:
    if not isinstance(source, (str, Path)):
        return "data"
    stem = re.sub(r"\W", "_", Path(str(source)).stem).strip("_")
    return stem if stem and not stem[0].isdigit() else f"t_{stem}" if stem else "data"
