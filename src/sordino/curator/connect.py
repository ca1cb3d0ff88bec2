"""connect(...) and protect(...): from a project file, or from arguments, to the Curator of a table."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, overload

from sordino.curator.batch import Batch, plan_batch
from sordino.curator.curator import Curator
from sordino.curator.plan import Plan, Share, Weights, read_split
from sordino.domain import Domain
from sordino.engines.engine import Engine
from sordino.engines.frames import arrow_of
from sordino.engines.opening import open_source, why_apart
from sordino.engines.public import public_cells
from sordino.engines.table_layout import PeopleTable, is_spark
from sordino.errors import DeclarationError, UnknownName, nearest
from sordino.ledger.declarations import accept_new, declaration_of
from sordino.ledger.ledger import Ledger
from sordino.ledger.location import locate
from sordino.ledger.records import check_share
from sordino.ledger.writer import exists
from sordino.loss import Loss, Number
from sordino.neighbors import Neighbors, PrivacyUnit, neighbors_from
from sordino.noise.rng import Rng
from sordino.project.budget_ledger import amend_ledger, find_release
from sordino.project.budget_status import BudgetStatus, budget_status
from sordino.project.load import Budget, DeclaredTable, Project, find_project, load_project
from sordino.queries.sql.parse import SqlText, sql
from sordino.queries.sql.text import known_dialect
from sordino.release import Release
from sordino.reporting.board import board_page
from sordino.source import SERVERS, SPARK, Csv, PrivateTable, PublicTable, Source, source_from

__all__ = ["Connection", "connect", "open_engine", "protect", "report"]

_BUDGET = "default"  # the name of the budget that arguments declare


class Connection:
    """Hold a project, or the tables of `protect`: `.table(name)` gives the Curator of one; those of a budget share its ledger.

    With a `spender`, everything asked counts against its share of each budget too.
    What was spent and released is read without the data: `.budgets()`, `.release(charge)`, `.report()`.
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
        self._resumes = False
        self._curators: dict[str, Curator] = {}

    def spend_as(self, spender: str) -> Connection:
        """Return a connection to the same data and ledgers where what is asked counts against a spender's share as well.

        There a request whose process stopped, charged but not answered, is answered under its charge when it is asked again.
        """
        made = Connection(self.project, spender=spender, dialect=self.dialect, rng=self._rng)
        made._ledgers, made._engines, made._resumes = self._ledgers, self._engines, True
        return made

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
            engine = self._engines.get(declared.name) or open_engine(self.project, declared)
            self._engines[declared.name] = engine
            others = {name: _as_other(table, declared) for name, table in self.project.tables.items()}
            del others[declared.name]
            self._curators[declared.name] = Curator(
                declared.name,
                engine=engine,
                domain=declared.domain,
                neighbors=declared.neighbors,
                ledger=self.ledger(declared.budget),
                declaration=declaration_of(declared.domain, declared.neighbors, declared.source),
                rng=self._rng,
                public=self.project.public,
                others=others,
                share=share,
                dialect=self.dialect,
                resumes=self._resumes,
            )
        return self._curators[declared.name]

    def _share(self, spender: str, budget: str) -> Loss:
        """Return a share that the project declares, or that was declared on the ledger alone, as a server's officer does."""
        declared = self.project.budget(budget)
        known = {} if spender in declared.shares else self.ledger(budget).shares()
        return known[spender].cap if spender in known else declared.share(spender)

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

    def read_sql(self, text: str | SqlText, *, dialect: str | None = None) -> tuple[Curator, SqlText]:
        """Return the Curator of the table that a SQL text is about, and the question to ask of it; the text is parsed once.

        `shop.orders` finds a table declared as orders, and orders one declared as "shop.orders", where only one is so.
        """
        return self._read(sql(text, dialect=dialect) if isinstance(text, str) else text)

    def _read(self, asked: SqlText) -> tuple[Curator, SqlText]:
        columns = [column for table in self.project.tables.values() for column in table.domain]
        select = asked.in_dialect(self.dialect).parse(columns, self.project.public)
        same = [name for name in self.project.tables if name.lower() == select.table.lower()]
        return self.table(same[0] if same else select.table), replace(asked, select=select)

    def ledger(self, budget: str | None = None) -> Ledger:
        """Return the ledger of a declared budget, or of the only one there is, opening or creating it."""
        declared = self.project.budget(budget)
        if declared.name not in self._ledgers:
            held = declared.ledger
            self._ledgers[declared.name] = held if isinstance(held, Ledger) else Ledger.open(held, cap=declared.cap)
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
        where = "" if self.project.path is None else f" to {self.project.path}"
        return f"<Connection{where}: tables {', '.join(self.project.tables)}>"


def open_engine(project: Project, table: DeclaredTable) -> Engine:
    """Return the engine of a declared table, its source and the public tables opened; raises SourceError."""
    public = public_cells(project.public)
    people = {name: PeopleTable(t.source, t.domain, t.neighbors.unit) for name, t in project.tables.items()}
    return open_source(table.source, domain=table.domain, unit=table.neighbors.unit, public=public, people=people)


def _as_other(table: DeclaredTable, beside: DeclaredTable) -> PrivateTable:
    """Return what the questions of one declared table may know of another."""
    declared = declaration_of(table.domain, table.neighbors, table.source)
    apart = why_apart(beside.source, table.source)
    return PrivateTable(table.domain, table.neighbors, declared, table.budget == beside.budget, apart)


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


@overload
def protect(
    source: Mapping[str, Any],
    *,
    domain: Mapping[str, Domain],
    neighbors: str,
    privacy_unit: Mapping[str, str | PrivacyUnit],
    budget: Loss,
    ledger: str | Path | None,
    name: None = None,
    csv: Mapping[str, Csv] | None = None,
    relation: Mapping[str, str] | None = None,
    rng: Rng | None = None,
    amend: str | None = None,
    public: Mapping[str, PublicTable] | None = None,
    shares: Mapping[str, Loss] | None = None,
    spender: str | None = None,
) -> Connection: ...


@overload
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
) -> Curator: ...


def protect(
    source: Any,
    *,
    domain: Domain | Mapping[str, Domain],
    neighbors: str,
    privacy_unit: str | PrivacyUnit | Mapping[str, str | PrivacyUnit],
    budget: Loss,
    ledger: str | Path | None,
    name: str | None = None,
    csv: Csv | Mapping[str, Csv] | None = None,
    relation: str | Mapping[str, str] | None = None,
    rng: Rng | None = None,
    amend: str | None = None,
    public: Mapping[str, PublicTable] | None = None,
    shares: Mapping[str, Loss] | None = None,
    spender: str | None = None,
) -> Curator | Connection:
    """Return the Curator of a table declared by arguments, of several tables their Connection: no data is read here.

    `source`: a path (CSV with `csv=Csv(...)`, Parquet file or glob, DuckDB file with `relation=`), an Arrow table, dataset
    or stream, a pandas, polars or Spark frame, a DuckDB relation, a list of dicts, spark:TABLE of the active session, or
    the URL of a PostgreSQL server (its password in PGPASSWORD, ~/.pgpass or a service file) with `relation=` its table or a
    query. Several, {name: table}, share the budget and the ledger; `domain` and `privacy_unit` then have those names too,
    and `csv` and `relation` those of them that they concern. `ledger`: a path, or None to keep the budget in memory. `rng`:
    a seeded one is accepted with `ledger=None` only, and its releases say NOT PRIVATE. `amend`: the reason, on record, for
    a declaration or cap that differs from the ledger's; spend is carried over. `public`: tables that may be joined, by
    name, made by sd.public(...). `shares`: what each spender may charge and no more, by name; `spender`: whose share is
    spent.

    Raises DeclarationError where an argument breaks a rule, SourceError where the source cannot be opened,
    DeclarationChanged where the ledger holds another declaration.
    """
    several = isinstance(source, Mapping)
    stated = {"source": source, "domain": domain, "privacy_unit": privacy_unit, "csv": csv, "relation": relation}
    named = _by_name(stated, name) if several else {name or _table_name(source, relation): stated}
    for table in named.values():
        _check_declared(table["domain"], budget)
    generator = Rng.secure() if rng is None else rng
    if not generator.private and ledger is not None:
        raise DeclarationError(
            "seeded noise is not private, so a durable ledger refuses it: use ledger=None in tests, or Rng.secure()"
        )
    joinable = _public_tables(public, list(named))
    capped = _check_shares(shares or {}, spender, budget)
    tables = {n: _declare(n, neighbors=neighbors, several=several, **table) for n, table in named.items()}
    _check_people(tables)
    held = Ledger.open(None, cap=budget) if ledger is None else locate(ledger)
    charged = Budget(_BUDGET, budget, held, None, capped)
    connection = Connection(Project(None, {_BUDGET: charged}, tables, joinable), spender=spender, rng=generator)
    if amend is not None and not isinstance(held, Ledger) and exists(held):
        amend_ledger(connection.project, charged, reason=amend)
    curators = [connection.table(table) for table in tables]
    return connection if several else curators[0]


def _check_people(tables: Mapping[str, DeclaredTable]) -> None:
    """Raise DeclarationError where tables of one budget protect different people, as the ledger would later."""
    known: dict[str, dict[str, Any]] = {}
    for name, table in tables.items():
        words = declaration_of(table.domain, table.neighbors, table.source)
        accept_new(name, words, known)
        known[name] = words


def _check_shares(shares: Mapping[str, Loss], spender: str | None, budget: Loss) -> Mapping[str, Loss]:
    """Return each spender's share of the budget; raises UnknownName where the spender has none."""
    checked = {name: check_share(name, share, of=budget) for name, share in shares.items()}
    if spender is not None and spender not in checked:
        raise UnknownName(f"no share of {spender!r} is stated; {nearest(spender, checked)}")
    return checked


def _by_name(stated: Mapping[str, Any], name: str | None) -> dict[str, dict[str, Any]]:
    """Return what is stated of each of several tables; raises DeclarationError where the names are not the same."""
    tables = stated["source"]
    if name is not None:
        raise DeclarationError("is of one table: several have their names in {name: table}", key="name")
    if not tables:
        raise DeclarationError("has no table: pass a table, or {name: table, ...}", key="source")
    for table in tables:
        if not isinstance(table, str) or not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*){0,2}", table, re.ASCII):
            raise DeclarationError(f"a table's name is letters, digits and _, not {table!r}")
    for key, of in stated.items():
        optional = key in ("csv", "relation")
        if optional and of is None:
            continue
        if not isinstance(of, Mapping):
            raise DeclarationError(f"must be a mapping by the tables' names, {{{next(iter(tables))!r}: ...}}", key=key)
        for table in of:
            if table not in tables:
                raise DeclarationError(f"has {table!r}, which is no table of source; {nearest(table, tables)}", key=key)
        lacking = [table for table in tables if table not in of]
        if lacking and not optional:
            raise DeclarationError(f"lacks table {lacking[0]!r}: state it for each table of source", key=key)
    return {table: {key: (of or {}).get(table) for key, of in stated.items()} for table in tables}


def _declare(
    name: str,
    *,
    source: Any,
    domain: Domain,
    neighbors: str,
    privacy_unit: str | PrivacyUnit,
    csv: Csv | None,
    relation: str | None,
    several: bool,
) -> DeclaredTable:
    """Return a table as declared; what is wrong with one of several is said with its name."""
    try:
        unit = neighbors_from(neighbors=neighbors, privacy_unit=privacy_unit)
        opened = _open_source(source, domain, unit, csv=csv, relation=relation)
    except DeclarationError as error:
        if not several:
            raise
        raise type(error)(f"table {name!r}: {error}") from None
    lossy = isinstance(opened, Source) and opened.lossy
    read = Domain(domain.stored, row_ceiling=domain.row_ceiling, unreadable_rows=lossy)
    return DeclaredTable(name, opened, _BUDGET, read, unit)


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
    if is_spark(source):
        return source
    return arrow_of(source, domain, unit=neighbors.id_column)


def _public_tables(public: Mapping[str, PublicTable] | None, tables: Sequence[str]) -> Mapping[str, PublicTable]:
    """Return the public tables by name; raises DeclarationError for names that SQL cannot distinguish."""
    found = dict(public or {})
    for name, declared in found.items():
        if not isinstance(declared, PublicTable):
            raise DeclarationError(f"public[{name!r}] must be made by sd.public(source, key=..., columns=...)")
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise DeclarationError(f"a public table's name is letters, digits and _, not {name!r}")
    if len({n.lower() for n in (*found, *tables)}) != len(found) + len(tables):
        raise DeclarationError("the table and its public tables need different names, ignoring case")
    return found


def _table_name(source: Any, relation: object) -> str:
    if not isinstance(source, (str, Path)):
        return "data"
    if str(source).startswith(SPARK):
        return re.sub(r"\W", "", str(source).rpartition(".")[2].removeprefix(SPARK)) or "data"
    if str(source).startswith(SERVERS):  # the table's name on the server, where it is one
        return str(relation).rpartition(".")[2] if re.fullmatch(r"(\w+\.)?[A-Za-z_]\w*", str(relation)) else "data"
    stem = re.sub(r"\W", "_", Path(str(source)).stem).strip("_")
    return stem if stem and not stem[0].isdigit() else f"t_{stem}" if stem else "data"
