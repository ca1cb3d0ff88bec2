"""How an engine stores one table, with its declaration, and each of its columns as the catalog states them. It knows no cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sordino.ask.engines.sql_text import people_name
from sordino.core.domain import Domain
from sordino.core.errors import DeclarationError, nearest
from sordino.core.neighbors import PrivacyUnit
from sordino.core.source import Csv, Source

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class PhysicalColumn:
    """How one column is stored: the kind, by a name that engines share, and of an array the kind of its items.

    `digits` of a decimal, where they are stated: all, and after the point.
    """

    kind: str
    item: str = ""
    digits: tuple[int, int] | None = None


# Physical types of the items of a list that can be read.
_ITEMS = frozenset(
    [
        *("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER"),
        *("UBIGINT", "FLOAT", "DOUBLE", "DECIMAL", "VARCHAR", "DATE"),
    ]
)


@dataclass(frozen=True, slots=True)
class PeopleTable:
    """A private table: its source and its declaration."""

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
    """How one table is stored: the physical type of each column, the declaration, the capped unit, the CSV rules."""

    physical: Mapping[str, str]
    domain: Domain
    unit: PrivacyUnit | None
    csv: Csv | None
    source: str = '"source"'
    # each public table's columns and their physical types
    public: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    # columns that are stored in steps of their own grid, days among them
    steps: frozenset[str] = frozenset()
    # other tables of the same people
    people: Mapping[str, TableLayout] = field(default_factory=dict)
    # the physical type of an item of each column of lists
    items: Mapping[str, str] = field(default_factory=dict)
    # whether a column of few different cells is stored with a dictionary, as in Parquet
    has_dictionaries: bool = False
    # of decimals (DuckDB's in 64 bits): all digits, and those after the point, where they are known
    digits: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    # the column that names the unit, where each row is made of all rows of one
    owner: str = ""

    def find(self, relation: str) -> TableLayout:
        """Return the layout of another table of the same people by its name in our SQL; this one for any other name."""
        prefix = people_name("")
        return self.people[relation.removeprefix(prefix)] if relation.startswith(prefix) else self


def check_columns(
    table: PeopleTable,
    columns: Mapping[str, PhysicalColumn],
    *,
    readable: frozenset[str],
    items: frozenset[str],
    cast: str,
) -> None:
    """Raise DeclarationError where a table is not stored as declared; `cast` says where its columns can be cast."""
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
