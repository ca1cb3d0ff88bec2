"""The engine of a source: the one place that chooses among engines, by where the table lies."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from sordino.ask.engines.duckdb import DuckDBEngine
from sordino.ask.engines.file_versions import FileVersions
from sordino.ask.engines.table_layout import PeopleTable, is_spark
from sordino.core.domain import Domain
from sordino.core.neighbors import PrivacyUnit
from sordino.core.source import Source

if TYPE_CHECKING:
    import pyarrow as pa

    from sordino.ask.engines.postgres import PostgresEngine
    from sordino.ask.engines.spark import SparkEngine


def open_source(
    source: Source | pa.Table,
    *,
    domain: Domain,
    unit: PrivacyUnit | None,
    public: Mapping[str, pa.Table] | None = None,
    people: Mapping[str, PeopleTable] | None = None,
) -> FileVersions | PostgresEngine | SparkEngine:
    """Return the engine that reads a source; raises SourceError or DeclarationError as it does."""
    if isinstance(source, Source) and source.format == "postgresql":
        from sordino.ask.engines.postgres import PostgresEngine

        return PostgresEngine(source, domain=domain, unit=unit, public=public, people=people)
    if is_spark(source):
        from sordino.ask.engines.spark import SparkEngine

        return SparkEngine(source, domain=domain, unit=unit, public=public, people=people)

    def open_version(reads: Collection[str]) -> DuckDBEngine:
        return DuckDBEngine(source, domain=domain, unit=unit, public=public, people=people, reads=reads)

    return FileVersions(open_version)


def why_apart(one: Source | pa.Table, other: Source | pa.Table) -> str:
    """Return why no engine reads two private tables in one question, as their declared sources alone say; else nothing."""
    if _place(one) == _place(other):
        return ""
    return "both must be read by DuckDB, or by Spark, or lie in one PostgreSQL database, under the same URL"


def _place(source: Source | pa.Table) -> str:
    """Return where an engine reads a source: those of one place are read together."""
    if is_spark(source):
        return "Spark"
    return source.path if isinstance(source, Source) and source.format == "postgresql" else "DuckDB"
