"""Keys of the values of a given table: for evaluation that is not private, and for synthetic rows. Never a curator's table."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.domain import Boolean, Category, Date, Domain, Fill
from sordino.errors import QuestionRefused
from sordino.noise.lattice import scale_of, to_lattice
from sordino.queries.expressions.bound_number import EPOCH
from sordino.queries.expressions.compile import bind_number
from sordino.queries.expressions.nodes import Name
from sordino.synth.columns import EncodedColumn
from sordino.synth.sampler import Codes

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["encode_column", "encode_table"]


def encode_table(table: pa.Table, columns: tuple[EncodedColumn, ...], domain: Domain) -> list[Codes]:
    """Return the key of each row in each column, -1 where the declaration drops it; raises QuestionRefused without a column."""
    absent = [c.name for c in columns if c.name not in table.column_names]
    if absent:
        raise QuestionRefused(f"the table to compare with has no column {absent[0]!r}")
    return [encode_column(c, table.column(c.name), domain) for c in columns]


def encode_column(column: EncodedColumn, cells: Any, domain: Domain) -> Codes:
    """Return the keys of an Arrow column by the declaration: values outside the bounds are clipped to them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    flat = cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells
    declared = column.column
    if isinstance(declared, (Category, Boolean)):
        if isinstance(declared, Category):
            kind = pa.string() if isinstance(declared.values[0], str) else pa.int64()
            values = pa.array(list(declared.values), type=kind)
            found = pc.index_in(flat.cast(kind), value_set=values)
            if declared.other is not None:
                other = declared.values.index(declared.other)
                found = pc.if_else(pc.and_(pc.is_valid(flat), pc.is_null(found)), pa.scalar(other, found.type), found)
        else:
            found = flat.cast(pa.int64())
        return _fill_keys(column, np.asarray(pc.fill_null(found.cast(pa.int64()), -1)))
    of = bind_number(Name(column.name), domain)
    numbers = flat.cast(pa.date32()).cast(pa.int32()) if isinstance(declared, Date) else flat
    missing = np.asarray(pc.is_null(numbers, nan_is_null=True))
    values = np.asarray(pc.fill_null(numbers.cast(pa.float64()), 0.0))
    values = np.where(missing, 0.0, values)
    op, factor = scale_of(of.unit)
    steps = np.floor((values * factor if op == "*" else values / factor) + 0.5)
    low, high = int(of.interval.lower or 0), int(of.interval.upper or 0)
    steps = np.clip(steps, low, high).astype(np.int64)
    rule = getattr(declared, "missing", None)
    if isinstance(rule, Fill):
        fill: Any = rule.value
        steps[missing] = (fill - EPOCH).days if isinstance(declared, Date) else to_lattice(Fraction(fill), of.unit)
        missing = np.zeros_like(missing)
    if column.edges is None:
        keys = steps - low
    else:
        keys = np.searchsorted(np.asarray(column.edges[:-1], dtype=np.int64), steps, side="right") - 1
    keys[missing] = column.size - 1 if column.missing else -1
    made: Codes = keys.astype(np.int64)
    return made


def _fill_keys(column: EncodedColumn, keys: Codes) -> Codes:
    declared = column.column
    if column.missing:
        return np.where(keys < 0, column.size - 1, keys)
    if isinstance(declared, Category) and isinstance(declared.missing, Fill):
        return np.where(keys < 0, declared.values.index(declared.missing.value), keys)
    if isinstance(declared, Boolean) and isinstance(declared.missing, Fill):
        return np.where(keys < 0, int(bool(declared.missing.value)), keys)
    return keys
