"""Public tables, read as declared and checked: at most `max_rows` of their rows share a key. Nothing in them is private."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sordino.ask.engines.engine import Engine, EngineFailed
from sordino.ask.engines.opening import hold_source, open_source
from sordino.ask.queries.joins import join_cell
from sordino.core.domain import Category
from sordino.core.errors import DeclarationError, SordinoError, SourceError
from sordino.core.source import PublicTable

if TYPE_CHECKING:
    import pyarrow as pa

_MOST = 10_000_000  # rows: a public table is held in memory


def public_cells(public: Mapping[str, PublicTable]) -> dict[str, pa.Table]:
    """Return each public table's cells beside `sordino_key_0`.., its key as declared; rows without a key are left out.

    Raises SourceError where one cannot be read, DeclarationError where a key has more rows than declared or a table
    more than ten million.
    """
    return {name: _check(name, _read(name, table), table) for name, table in public.items()}


def _read(name: str, table: PublicTable) -> pa.Table:
    from sqlglot import exp

    engine: Engine | None = None
    try:
        engine = open_source(hold_source(table.source, table.columns), domain=table.columns, unit=None)
        on = engine.primitives
        keys = [join_cell(name, table.columns[name])[1](on) for name in table.keys]
        chosen = [exp.alias_(key, f"sordino_key_{i}") for i, key in enumerate(keys)]
        chosen += [exp.alias_(on.raw(c), f"sordino_cell_{i}") for i, c in enumerate(table.columns)]
        rows = engine.run(exp.Select(expressions=chosen).from_(on.source()).limit(_MOST + 1))
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
    for place, (named, column) in enumerate(zip(names, (table.columns[key] for key in table.keys), strict=True)):
        key: Any = cells[named]
        if isinstance(column, Category):  # its code among its own values: reported as the value
            key = pa.chunked_array([pa.array(column.values).take(pc.cast(key, pa.int64()).combine_chunks())])
        cells = cells.set_column(place, named, key).filter(pc.is_valid(key))
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
