"""protect(...): from arguments to the Curator of a table, or the Connection of several. No data is read here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, overload

from sordino.ask.curator.connect import Connection
from sordino.ask.curator.curator import Curator
from sordino.ask.engines.opening import hold_source
from sordino.ask.project.budget import amend_ledger
from sordino.ask.project.load import Budget, DeclaredTable, Project
from sordino.core.domain import Domain
from sordino.core.errors import DeclarationError, UnknownName, nearest
from sordino.core.ledger.allowance import Allowance
from sordino.core.ledger.ledger import Ledger
from sordino.core.ledger.location import locate
from sordino.core.ledger.records import accept_new, check_share
from sordino.core.ledger.writer import exists
from sordino.core.loss import Loss
from sordino.core.neighbors import PrivacyUnit, neighbors_from
from sordino.core.noise.rng import Rng
from sordino.core.source import Csv, PublicTable, Source, address_format

# the name of the budget that arguments declare
_BUDGET = "default"


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
    allowance: Allowance | None = None,
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
    allowance: Allowance | None = None,
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
    allowance: Allowance | None = None,
    spender: str | None = None,
) -> Curator | Connection:
    """Return the Curator of a table declared by arguments, of several tables their Connection: no data is read here.

    `source`: a path (CSV with `csv=Csv(...)`, Parquet file or glob, DuckDB file with `relation=`), an Arrow table, dataset
    or stream, a pandas, polars or Spark frame, a DuckDB relation, a table of deltalake or pyiceberg, a list of dicts,
    spark:TABLE of the active session, or the URL of a PostgreSQL server (its password in PGPASSWORD, ~/.pgpass or a service
    file) with `relation=` its table or a query. Several, {name: table}, share the budget and the ledger; `domain` and
    `privacy_unit` then have those names too, and `csv` and `relation` those of them that they concern. `ledger`: a path, or
    None to keep the budget in memory. `rng`: a seeded one is accepted with `ledger=None` only, and its releases say NOT
    PRIVATE. `amend`: the reason, on record, for a declaration or cap that differs from the ledger's; spend is carried over.
    `public`: tables that may be joined, by name, made by sd.public(...). `shares`: what each spender may charge and no
    more, by name; `spender`: whose share is spent. `allowance`: what may be spent in each month, quarter or year.

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
    if allowance is not None:
        if not isinstance(allowance, Allowance):
            raise DeclarationError('must be an allowance, such as sd.Allowance("year", rho="0.5")', key="allowance")
        allowance.check(budget)
    tables = {n: _declare(n, neighbors=neighbors, several=several, **table) for n, table in named.items()}
    _check_people(tables)
    place = Ledger.open(None, cap=budget) if ledger is None else locate(ledger)
    charged = Budget(_BUDGET, budget, place, None, capped, allowance)
    connection = Connection(Project(None, {_BUDGET: charged}, tables, joinable), spender=spender, rng=generator)
    if amend is not None and not isinstance(place, Ledger) and exists(place):
        amend_ledger(connection.project, charged, reason=amend)
    curators = [connection.table(table) for table in tables]
    return connection if several else curators[0]


def _check_people(tables: Mapping[str, DeclaredTable]) -> None:
    """Raise DeclarationError where tables of one budget protect different people, as the ledger would later."""
    accepted: dict[str, dict[str, Any]] = {}
    for name, table in tables.items():
        accept_new(name, table.declaration, accepted)
        accepted[name] = table.declaration


def _check_shares(shares: Mapping[str, Loss], spender: str | None, budget: Loss) -> Mapping[str, Loss]:
    """Return each spender's share of the budget; raises UnknownName where the spender has none."""
    checked = {name: check_share(name, share, of=budget) for name, share in shares.items()}
    if spender is not None and spender not in checked:
        raise UnknownName(f"no share of {spender!r} is stated; {nearest(spender, checked)}")
    return checked


def _by_name(stated: Mapping[str, Any], name: str | None) -> dict[str, dict[str, Any]]:
    """Return the arguments of each of several tables; raises DeclarationError where their names differ."""
    tables = stated["source"]
    if name is not None:
        raise DeclarationError("is for one table: give several tables their names in {name: table}", key="name")
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
                raise DeclarationError(
                    f"has {table!r}, which is not a table of source; {nearest(table, tables)}", key=key
                )
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
    """Declare a table; an error about one of several names it."""
    try:
        unit = neighbors_from(neighbors=neighbors, privacy_unit=privacy_unit)
        opened = hold_source(source, domain, unit=unit.id_column, csv=csv, relation=relation)
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


def _public_tables(public: Mapping[str, PublicTable] | None, tables: Sequence[str]) -> Mapping[str, PublicTable]:
    """Return the public tables by name; raises DeclarationError for names that SQL cannot distinguish."""
    joinable = dict(public or {})
    for name, declared in joinable.items():
        if not isinstance(declared, PublicTable):
            raise DeclarationError(f"public[{name!r}] must be made by sd.public(source, key=..., columns=...)")
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise DeclarationError(f"a public table's name is letters, digits and _, not {name!r}")
    if len({n.lower() for n in (*joinable, *tables)}) != len(joinable) + len(tables):
        raise DeclarationError("the table and its public tables need different names, ignoring case")
    return joinable


def _table_name(source: Any, relation: object) -> str:
    if not isinstance(source, (str, Path)):
        return "data"
    address = address_format(source)
    # the table's name on the server, where it is one
    if address is not None and address.of_several:
        return str(relation).rpartition(".")[2] if re.fullmatch(r"(\w+\.)?[A-Za-z_]\w*", str(relation)) else "data"
    if address is not None:
        return re.sub(r"\W", "", re.split(r"[.:/]", str(source))[-1]) or "data"
    stem = re.sub(r"\W", "_", Path(str(source)).stem).strip("_")
    return stem if stem and not stem[0].isdigit() else f"t_{stem}" if stem else "data"
