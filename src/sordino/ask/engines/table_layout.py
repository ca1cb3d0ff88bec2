"""TableLayout: how one table is held by an engine, beside what is declared of it. It knows no cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sordino.ask.engines.readers.physical_column import PhysicalColumn
from sordino.ask.engines.sql_text import people_name
from sordino.core.domain import Domain
from sordino.core.errors import DeclarationError, nearest
from sordino.core.neighbors import PrivacyUnit
from sordino.core.source import Csv, Source

if TYPE_CHECKING:
    import pyarrow as pa

# Physical types of the items of a list that can be read.
_ITEMS = frozenset(
    [
        *("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER"),
        *("UBIGINT", "FLOAT", "DOUBLE", "DECIMAL", "VARCHAR", "DATE"),
    ]
)


@dataclass(frozen=True, slots=True)
class PeopleTable:
    """A private table: where it lies and how it is declared."""

    source: Source | pa.Table
    domain: Domain
    unit: PrivacyUnit | None


def is_spark(source: Any) -> bool:
    """Return whether a Spark session reads a source, or it is a DataFrame of one."""
    if isinstance(source, Source):
        return source.engine == "spark"
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
    has_dictionaries: bool = False  # whether few different cells of a column are held once each, as in Parquet
    digits: Mapping[str, tuple[int, int]] = field(
        default_factory=dict
    )  # of decimals (DuckDB's in 64 bits): all, and after the point, where it is known
    owner: str = ""  # the column that names the unit, where each row is made of all rows of one

    def find(self, relation: str) -> TableLayout:
        """Return the layout of another table of the same people by the name it is held under; this one by any other."""
        before = people_name("")
        return self.people[relation.removeprefix(before)] if relation.startswith(before) else self


def check_columns(
    table: PeopleTable,
    columns: Mapping[str, PhysicalColumn],
    *,
    readable: frozenset[str],
    items: frozenset[str],
    cast: str,
) -> None:
    """Raise DeclarationError where a table is not held as declared; `cast` says where its columns can be cast."""
    for name in columns:
        if name.lower().startswith("sordino_"):
            raise DeclarationError(f"column {name!r}: names that start with sordino_ are reserved; rename it")
    for name in table.domain.stored:
        if name not in columns:
            raise DeclarationError(
                f"column {name!r} is declared but the source has no such column; {nearest(name, columns)}"
            )
        kind = columns[name].kind
        if name in table.domain.lists and columns[name].item not in items:
            raise DeclarationError(
                f"column {name!r} is declared as a list, but is not held as an array of numbers, text, booleans or days"
            )
        if name not in table.domain.lists and kind not in readable:
            raise DeclarationError(
                f"column {name!r} is held as {kind.lower()}, which no declared type reads: cast it {cast} to a number, "
                "text, a boolean or a day"
            )
    check_unit(table)


def check_unit(table: PeopleTable) -> None:
    """Raise DeclarationError where the column that names the units is not declared."""
    if table.unit is not None and table.unit.column is not None and table.unit.column not in table.domain:
        raise DeclarationError(
            f"the privacy unit's column {table.unit.column!r} is not declared; add it to the domain as Identifier()"
        )


def list_items(domain: Domain, types: Mapping[str, str], *, csv: bool) -> dict[str, str]:
    """Return the physical type of an item of each column of lists; raises DeclarationError where none can be read."""
    items = {}
    for name in domain.lists:
        if csv:
            raise DeclarationError(f"column {name!r} is declared as a list, and a CSV file holds none: use Parquet")
        stored = types[name]
        kind = stored[:-2].split("(", 1)[0].strip() if stored.endswith("[]") else ""
        if kind not in _ITEMS:
            raise DeclarationError(
                f"column {name!r} is declared as a list, but is not held as a list of numbers, text, booleans or days: "
                "store it as such a list, without other lists in it"
            )
        items[name] = kind
    return items
