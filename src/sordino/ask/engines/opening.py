"""The engines by name, and the engine of a source: the one place that chooses among engines, by the source of the table.

An engine from outside joins by `register_engine`, in the curator's own process.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sordino.ask.engines.duckdb import DuckDBEngine, FileVersions
from sordino.ask.engines.engine import Engine
from sordino.ask.engines.frames import arrow_of
from sordino.ask.engines.table_layout import PeopleTable, is_spark
from sordino.core.domain import Domain
from sordino.core.errors import DeclarationError
from sordino.core.neighbors import PrivacyUnit
from sordino.core.registration import check_registering, name_provider
from sordino.core.source import FORMATS, Csv, Format, Source, add_formats, source_from

if TYPE_CHECKING:
    import pyarrow as pa

    from sordino.ask.engines.postgres import PostgresEngine
    from sordino.ask.engines.spark import SparkEngine


class OpenEngine(Protocol):
    """Opens the engine of one table; raises SourceError where it is missing, DeclarationError where it is not as declared.

    `public` holds the rows of public tables, `people` the other private tables that `Engine.open_tables` may name.
    """

    def __call__(
        self,
        source: Any,
        *,
        domain: Domain,
        unit: PrivacyUnit | None,
        public: Mapping[str, pa.Table] | None,
        people: Mapping[str, PeopleTable] | None,
    ) -> Engine: ...


def _reads_none(frame: Any) -> bool:
    del frame
    return False


def _one_place(source: Any) -> str:
    del source
    return ""


@dataclass(frozen=True, slots=True)
class EngineKind:
    """A registered engine: how it opens a table, which frames it `takes` besides the sources of its formats, and its provider.

    Two private tables can be read in one question where `place` is the same for both; None if it reads one at a time.
    """

    open: OpenEngine
    takes: Callable[[Any], bool] = _reads_none
    place: Callable[[Any], str] | None = None
    provider: str = ""


def _open_duckdb(
    source: Source | pa.Table,
    *,
    domain: Domain,
    unit: PrivacyUnit | None,
    public: Mapping[str, pa.Table] | None,
    people: Mapping[str, PeopleTable] | None,
) -> FileVersions:
    def open_version(reads: Collection[str]) -> DuckDBEngine:
        return DuckDBEngine(source, domain=domain, unit=unit, public=public, people=people, reads=reads)

    return FileVersions(open_version)


def _open_postgres(source: Any, **tables: Any) -> PostgresEngine:
    from sordino.ask.engines.postgres import PostgresEngine

    return PostgresEngine(source, **tables)


def _open_spark(source: Any, **tables: Any) -> SparkEngine:
    from sordino.ask.engines.spark import SparkEngine

    return SparkEngine(source, **tables)


ENGINES: dict[str, EngineKind] = {
    "duckdb": EngineKind(_open_duckdb, place=_one_place),
    "postgresql": EngineKind(_open_postgres, place=lambda source: str(source.path)),
    "spark": EngineKind(_open_spark, takes=is_spark, place=_one_place),
}


def register_engine(name: str, kind: EngineKind, *formats: Format, module: str = "", version: str = "") -> None:
    """Add an engine from outside, and the formats whose sources it reads.

    With Format("mine", "a table of mine", prefixes=("mine:",)) it reads "mine:people". An engine sees exact values, and is
    trusted like all code of the curator's process. `module` and `version` name the code: releases state them. Raises
    DeclarationError where a name is in use, and once a table is open.
    """
    if name in ENGINES:
        raise DeclarationError(f"{name!r}: an engine of this name exists; choose another name")
    check_registering(kind.open, f"engine {name!r}")
    provider = name_provider(kind.open, "an engine", module, version)
    add_formats(*(replace(each, engine=name, provider=provider) for each in formats))
    ENGINES[name] = replace(kind, provider=provider)


def hold_source(
    source: Any, domain: Domain, *, unit: str | None = None, csv: Csv | None = None, relation: str | None = None
) -> Any:
    """Return a table in the form that an engine opens: the Source of a path, a frame that an engine takes, else an Arrow table.

    `unit` names the column of the privacy units. Raises DeclarationError for a source that no engine reads.
    """
    if isinstance(source, (str, Path)):
        return source_from(source, relation=relation, csv=csv)
    if csv is not None or relation is not None:
        raise DeclarationError("csv and relation go with a path")
    if isinstance(source, Source) or _kind(source) is not ENGINES["duckdb"]:
        return source
    return arrow_of(source, domain, unit=unit)


def open_source(
    source: Source | pa.Table,
    *,
    domain: Domain,
    unit: PrivacyUnit | None,
    public: Mapping[str, pa.Table] | None = None,
    people: Mapping[str, PeopleTable] | None = None,
) -> Engine:
    """Return the engine that reads a source; raises SourceError or DeclarationError as it does."""
    return _kind(source).open(source, domain=domain, unit=unit, public=public, people=people)


def why_apart(one: Source | pa.Table, other: Source | pa.Table) -> str:
    """Return why no engine reads two private tables in one question, by their declared sources alone; "" where one does."""
    kind = _kind(one)
    if kind is _kind(other) and kind.place is not None and kind.place(one) == kind.place(other):
        return ""
    return "both must be read by DuckDB, or by Spark, or lie in one PostgreSQL database, under the same URL"


def provider_of(source: Source | pa.Table) -> str:
    """Return the module and version of the code that reads a source, "" for Sordino's own."""
    return FORMATS[source.format].provider if isinstance(source, Source) else _kind(source).provider


def _kind(source: Any) -> EngineKind:
    if isinstance(source, Source):
        return ENGINES[source.engine or "duckdb"]
    return next((kind for kind in ENGINES.values() if kind.takes(source)), ENGINES["duckdb"])
