"""Two invented tables that are neighbors under a declaration, and as far apart as its bounds allow. No data is read."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sordino.ask.curator.dummy_table import dummy
from sordino.core.domain import Boolean, Category, Domain, Identifier, List
from sordino.core.errors import DeclarationError
from sordino.core.neighbors import PrivacyUnit, neighbors_from
from sordino.core.noise.rng import Rng

if TYPE_CHECKING:
    import pyarrow as pa

_CHANGED = "the unit that changes"
_MOST_ROWS = 1000
_REACH = 1000  # where a column has no bound


def neighbor_tables(
    domain: Domain,
    *,
    neighbors: str,
    privacy_unit: str | PrivacyUnit,
    rows: int = 20,
    changed: Mapping[str, Any] | None = None,
    seed: int = 1,
) -> tuple[pa.Table, pa.Table]:
    """Return two made-up tables, the second with one unit more (add_remove) or another one in its place (replace).

    The unit that changes has as many rows as its caps allow, up to 1,000, each with every column at its upper bound or last
    value, but for what `changed` states; the one that it replaces has the lower bounds. The other rows are as of `sd.dummy`.

    >>> from sordino import Integer
    >>> here, there = neighbor_tables(Domain({"age": Integer(0, 125)}), neighbors="add_remove", privacy_unit="row")
    >>> len(there) - len(here), there.column("age")[-1].as_py()
    (1, 125)
    """
    import pyarrow as pa

    stated = neighbors_from(neighbors=neighbors, privacy_unit=privacy_unit)
    unknown = [name for name in changed or {} if name not in domain.stored]
    if unknown:
        raise DeclarationError(f"changed names {unknown[0]!r}, which is not a column of the domain")
    base = dummy(domain, rows=rows, unit=stated.unit, rng=Rng.seeded(seed))
    column = None if stated.unit is None else stated.unit.column
    if column is not None:
        base = base.set_column(
            base.schema.get_field_index(column), column, pa.array([f"unit {i}" for i in range(rows)], pa.string())
        )
    copies = 1 if stated.unit is None else min(stated.unit.total_rows, _MOST_ROWS)
    first, last = (
        {**extreme_row(domain, upper=upper), **((changed or {}) if upper else {})} for upper in (False, True)
    )
    ends = []
    for row in (first, last):
        named = row if column is None else {**row, column: _CHANGED}
        ends.append(pa.concat_tables([base, pa.Table.from_pylist([named] * copies, schema=base.schema)]))
    return (base if neighbors == "add_remove" else ends[0]), ends[1]


def extreme_row(domain: Domain, *, upper: bool) -> dict[str, Any]:
    """Return a row with every column at its upper bound or last value, or at its lower bound or first value."""
    return {name: _extreme(column, upper) for name, column in domain.stored.items()}


def _extreme(column: Any, upper: bool) -> Any:
    if isinstance(column, List):
        return [_extreme(column.of, upper)] * min(column.max_items, _MOST_ROWS)
    if isinstance(column, Category):
        return column.values[-1 if upper else 0]
    if isinstance(column, Boolean):
        return upper
    if isinstance(column, Identifier):
        return "last" if upper else "first"
    end, other = (column.upper, column.lower) if upper else (column.lower, column.upper)
    if isinstance(end, (datetime.date, datetime.datetime)):
        return end
    if end is None:
        end = (other or 0) + (_REACH if upper else -_REACH)
    return int(end) if isinstance(end, int) else float(end)
