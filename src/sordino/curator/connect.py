"""connect(...) and protect(...): from a project file, or from arguments, to the Curator of a table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sordino.curator.curator import Curator
from sordino.domain import Domain
from sordino.engines.duckdb import DuckDBEngine
from sordino.engines.frames import arrow_of
from sordino.engines.public import public_cells
from sordino.errors import DeclarationError, UnknownName, nearest
from sordino.ledger.ledger import Ledger
from sordino.loss import Loss
from sordino.neighbors import Neighbors, PrivacyUnit, neighbors_from
from sordino.noise.rng import Rng
from sordino.project.load import Budget, DeclaredTable, Project, find_project, load_project
from sordino.source import Csv, PublicTable, Source, source_from

__all__ = ["Connection", "connect", "declaration_of", "protect"]


class Connection:
    """Hold a project: `.table(name)` gives the Curator of a declared table; tables of one budget share its ledger."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._ledgers: dict[str, Ledger] = {}
        self._curators: dict[str, Curator] = {}

    def table(self, name: str) -> Curator:
        """Return the Curator of a declared table; raises UnknownName, SourceError, DeclarationChanged or LedgerError."""
        if name not in self._curators:
            declared = self._declared(name)
            budget = self.project.budgets[declared.budget]
            engine = DuckDBEngine(
                declared.source,
                domain=declared.domain,
                unit=declared.neighbors.unit,
                public=public_cells(self.project.public),
            )
            self._curators[declared.name] = _curator(
                declared.name,
                engine=engine,
                domain=declared.domain,
                neighbors=declared.neighbors,
                source=declared.source,
                ledger=self.ledger(budget.name),
                rng=Rng.secure(),
                public=self.project.public,
                others=tuple(self.project.tables),
            )
        return self._curators[name]

    def ledger(self, budget: str) -> Ledger:
        """Return the ledger of a declared budget, opening or creating it."""
        if budget not in self._ledgers:
            self._ledgers[budget] = Ledger.open(self._budget(budget).ledger, cap=self._budget(budget).cap)
        return self._ledgers[budget]

    def _declared(self, name: str) -> DeclaredTable:
        if name not in self.project.tables:
            raise UnknownName(
                f"table {name!r} is not declared in {self.project.path}; {nearest(name, self.project.tables)}"
            )
        return self.project.tables[name]

    def _budget(self, name: str) -> Budget:
        if name not in self.project.budgets:
            raise UnknownName(
                f"budget {name!r} is not declared in {self.project.path}; {nearest(name, self.project.budgets)}"
            )
        return self.project.budgets[name]

    def __repr__(self) -> str:
        return f"<Connection to {self.project.path}: tables {', '.join(self.project.tables)}>"


def connect(project: str | Path | None = None) -> Connection:
    """Return the connection that a project file declares; without a path, the sordino.toml found upward from here.

    Raises DeclarationError, with file, line and column, where the file breaks a rule.
    """
    return Connection(load_project(find_project() if project is None else Path(project)))


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
) -> Curator:
    """Return the Curator of a table declared by arguments: nothing here is read from the data.

    `source`: a path (CSV with `csv=Csv(...)`, Parquet file or glob, DuckDB file with `relation=`), an Arrow table, a
    pandas or polars frame, or a DuckDB relation. `ledger`: a path, or None to keep the budget in memory. `rng`: a seeded
    one is accepted with `ledger=None` only, and its releases say NOT PRIVATE. `amend`: the reason, on record, for a
    declaration or cap that differs from the ledger's; spend is carried over. `public`: tables that may be joined, by name,
    made by sd.public(...).

    Raises DeclarationError where an argument breaks a rule, SourceError where the source cannot be opened,
    DeclarationChanged where the ledger holds another declaration.
    """
    if not isinstance(domain, Domain):
        raise DeclarationError('domain must be a Domain, such as sd.Domain({"age": sd.Integer(0, 125)})')
    if not isinstance(budget, Loss):
        raise DeclarationError("budget must be PureDP(epsilon), ApproxDP(epsilon, delta) or ZCDP(rho)")
    if not all(budget.amounts().get(n, 1) for n in ("epsilon", "rho")):
        raise DeclarationError("budget must be above 0")
    unit = neighbors_from(neighbors=neighbors, privacy_unit=privacy_unit)
    generator = Rng.secure() if rng is None else rng
    if not generator.private and ledger is not None:
        raise DeclarationError(
            "seeded noise is not private, so a durable ledger refuses it: use ledger=None in tests, or Rng.secure()"
        )
    named: Source | None = None
    if isinstance(source, (str, Path)):
        named = source_from(source, relation=relation, csv=csv)
    elif csv is not None or relation is not None:
        raise DeclarationError("csv and relation go with a path")
    table = name or _table_name(source)
    owner = None if unit.unit is None else unit.unit.column
    held = named if named is not None else arrow_of(source, domain, unit=owner)
    joinable = _public_tables(public, table)
    engine = DuckDBEngine(held, domain=domain, unit=unit.unit, public=public_cells(joinable))
    if amend is not None and ledger is not None and Path(ledger).exists():
        known = Ledger.existing(ledger)
        changed = {table: declaration_of(domain, unit, named)} if table in known.declarations() else None
        known.amend(reason=amend, cap=budget if known.cap != budget else None, declarations=changed)
        known.close()
    book = Ledger.open(None if ledger is None else Path(ledger), cap=budget)
    return _curator(
        table,
        engine=engine,
        domain=domain,
        neighbors=unit,
        source=named,
        ledger=book,
        rng=generator,
        public=joinable,
    )


def declaration_of(domain: Domain, neighbors: Neighbors, source: Source | None) -> dict[str, Any]:
    """Return what the ledger holds of a declaration: columns, neighbors, unit, and how CSV cells are written."""
    written = source.csv.to_dict() if source is not None and source.csv is not None else None
    return {**domain.to_dict(), **neighbors.to_dict(), "csv": written}


def _curator(
    name: str,
    *,
    engine: DuckDBEngine,
    domain: Domain,
    neighbors: Neighbors,
    source: Source | None,
    ledger: Ledger,
    rng: Rng,
    public: Mapping[str, PublicTable],
    others: Sequence[str] = (),
) -> Curator:
    declaration = declaration_of(domain, neighbors, source)
    known = Domain(domain.columns, row_ceiling=domain.row_ceiling, unreadable_rows=engine.unreadable_rows)
    return Curator(
        name,
        engine=engine,
        domain=known,
        neighbors=neighbors,
        ledger=ledger,
        declaration=declaration,
        rng=rng,
        public=public,
        others=others,
    )


def _public_tables(public: Mapping[str, PublicTable] | None, table: str) -> Mapping[str, PublicTable]:
    """Return the public tables by name; raises DeclarationError for names that SQL could not tell apart."""
    found = dict(public or {})
    for name, declared in found.items():
        if not isinstance(declared, PublicTable):
            raise DeclarationError(f"public[{name!r}] must be made by sd.public(source, key=..., columns=...)")
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise DeclarationError(f"a public table's name is letters, digits and _, not {name!r}")
    if len({n.lower() for n in (*found, table)}) != len(found) + 1:
        raise DeclarationError("the table and its public tables need different names, whatever their case")
    return found


def _table_name(source: Any) -> str:
    if not isinstance(source, (str, Path)):
        return "data"
    stem = re.sub(r"\W", "_", Path(str(source)).stem).strip("_")
    return stem if stem and not stem[0].isdigit() else f"t_{stem}" if stem else "data"
