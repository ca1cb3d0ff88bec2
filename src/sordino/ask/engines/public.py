"""Public tables, read as declared and checked: at most `max_rows` of their rows share a key. Nothing in them is private."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sordino.ask.engines.cells import reader
from sordino.ask.engines.engine import Engine, EngineFailed
from sordino.ask.engines.opening import hold_source, open_source
from sordino.ask.queries.joins import join_cell
from sordino.core.cell_grammar import BLANKS
from sordino.core.domain import Boolean, Category, Column, Date, DateTime, Domain, Fill, Identifier, Integer, Real
from sordino.core.errors import DeclarationError, SordinoError, SourceError
from sordino.core.noise.lattice import to_lattice
from sordino.core.source import PublicTable

if TYPE_CHECKING:
    import pyarrow as pa

# rows, since a public table is read into memory
_MOST = 10_000_000


def public_cells(public: Mapping[str, PublicTable]) -> dict[str, pa.Table]:
    """Return each public table's cells beside `sordino_key_0`.., its key as declared; rows without a key are left out.

    Raises SourceError where one cannot be read, DeclarationError where a key has more rows than declared or a table
    more than ten million.
    """
    return {name: _check(name, _read(name, table), table) for name, table in public.items()}


def declared_values(cells: pa.Table, domain: Domain, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return some columns of each row as values of a question: numbers within their bounds, declared texts, days, booleans.

    None is missing, and so is a moment, which a question does not read in this way. A column of the key has its joined values.
    """
    values = [
        cells[name].to_pylist() if name not in domain else _values(cells[name].to_pylist(), domain[name])
        for name in columns
    ]
    return list(zip(*values, strict=True))


def _values(cells: Sequence[Any], column: Column) -> list[Any]:
    """Return cells as a question's values of a column."""
    read, _ = reader(column)
    rule = getattr(column, "missing", None)
    missing = rule.value if isinstance(rule, Fill) else None
    values = (read(cell) for cell in cells)
    return [_value(missing if value is None else value, column) for value in values]


def _value(value: Any, column: Column) -> Any:
    if value is None or isinstance(column, DateTime):
        return None
    if isinstance(column, Category):
        value = value.strip(BLANKS) if isinstance(value, str) and value not in column.values else value
        declared = value if value in column.values else column.other
        return Fraction(declared) if isinstance(declared, int) else declared
    if isinstance(column, Integer):
        least = value if column.lower is None else column.lower
        most = value if column.upper is None else column.upper
        return Fraction(max(least, min(most, value)))
    if isinstance(column, Real) and column.step is not None:
        low, high = (None if end is None else Fraction(end) for end in (column.lower, column.upper))
        if math.isinf(value):
            return high if value > 0 else low
        steps = to_lattice(Fraction(value), column.step) * Fraction(column.step)
        return max(steps if low is None else low, min(steps if high is None else high, steps))
    if isinstance(column, Date):
        return max(column.lower, min(column.upper, value))
    return value if isinstance(column, (Boolean, Identifier)) else None


def _read(name: str, table: PublicTable) -> pa.Table:
    from sqlglot import exp

    engine: Engine | None = None
    try:
        engine = open_source(hold_source(table.source, table.columns), domain=table.columns, unit=None)
        on = engine.primitives
        keys = [join_cell(name, table.columns[name])[1](on) for name in table.keys]
        items = [exp.alias_(key, f"sordino_key_{i}") for i, key in enumerate(keys)]
        items += [exp.alias_(on.raw(c), f"sordino_cell_{i}") for i, c in enumerate(table.columns)]
        # one row more shows that there are too many
        rows = engine.run(exp.Select(expressions=items).from_(on.source()).limit(_MOST + 1))
    except EngineFailed:
        raise SourceError(f"public table {name!r} cannot be read: check that it is whole") from None
    except SordinoError as error:
        raise type(error)(f"public table {name!r}: {error}") from None
    finally:
        if engine is not None:
            engine.close()
    return rows.rename_columns([*_key_names(table), *table.columns])


def _key_names(table: PublicTable) -> list[str]:
    return [f"sordino_key_{i}" for i in range(len(table.keys))]


def _check(name: str, cells: pa.Table, table: PublicTable) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    if len(cells) > _MOST:
        raise DeclarationError(
            f"public table {name!r} has more than {_MOST:,} rows: join one row a key, and fewer keys"
        )
    names = _key_names(table)
    for place, (key_name, column) in enumerate(zip(names, (table.columns[key] for key in table.keys), strict=True)):
        key: Any = cells[key_name]
        # a category is read as the code of its value
        if isinstance(column, Category):
            key = pa.chunked_array([pa.array(column.values).take(pc.cast(key, pa.int64()).combine_chunks())])
        cells = cells.set_column(place, key_name, key).filter(pc.is_valid(key))
    counts = cells.select(names).group_by(names).aggregate([([], "count_all")])
    most = pc.max(counts["count_all"]).as_py() or 0
    if most > table.max_rows:
        shared = ", ".join(map(repr, table.keys))
        raise DeclarationError(
            f"public table {name!r}: {most:,} of its rows share one {shared}, and max_rows = {table.max_rows} is "
            f"declared. A join would multiply rows, and the noise, by that: declare max_rows = {most}, or make the key "
            "unique"
        )
    return cells
