"""TableLayout: how one table is held by an engine, beside what is declared of it. It knows no cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sordino.domain import Domain
from sordino.neighbors import PrivacyUnit
from sordino.source import Csv, Source

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["PeopleTable", "TableLayout", "is_spark"]


@dataclass(frozen=True, slots=True)
class PeopleTable:
    """A private table: where it lies and how it is declared."""

    source: Source | pa.Table
    domain: Domain
    unit: PrivacyUnit | None


def is_spark(source: Any) -> bool:
    """Return whether a Spark session reads a source, or it is a DataFrame of one."""
    if isinstance(source, Source):
        return source.on_spark
    return type(source).__module__.startswith("pyspark.") and hasattr(source, "sparkSession")


@dataclass(frozen=True, slots=True)
class TableLayout:
    """How one table is held: the physical type of each column, what is declared, the capped unit, the CSV rules."""

    physical: Mapping[str, str]
    domain: Domain
    unit: PrivacyUnit | None
    csv: Csv | None
    source: str = '"source"'
    public: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # each public table's columns, and how held
    steps: frozenset[str] = frozenset()  # columns that are held in steps of their own grid, days among them
    people: Mapping[str, TableLayout] = field(default_factory=dict)  # other tables of the same people
    items: Mapping[str, str] = field(default_factory=dict)  # of each column of lists, the physical type of an item
    owner: str = ""  # the column that names the unit, where each row is made of all rows of one
