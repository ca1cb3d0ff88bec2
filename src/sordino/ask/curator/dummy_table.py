"""Made-up rows of the declared shape, and a curator of them that spends nothing."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

from sordino.ask.curator.plan import TableContext
from sordino.ask.engines.opening import open_source
from sordino.ask.engines.table_layout import PeopleTable
from sordino.core.domain import Boolean, Category, Column, Date, DateTime, Domain, Identifier, Integer, List, Real
from sordino.core.errors import DeclarationError
from sordino.core.ledger.ledger import Ledger
from sordino.core.loss import Loss
from sordino.core.neighbors import PrivacyUnit
from sordino.core.noise.rng import Rng
from sordino.core.time_zones import local_time

# ---- A made-up table of a declared shape, to practise on: types, bounds, values and missing cells, nothing read
# from data
#
# It knows the declaration alone, so what a question answers on it says nothing about anybody.

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from sordino.ask.engines.engine import Engine

    Doubles = npt.NDArray[np.float64]

_MOST_ROWS = 10**8
# the most items of a made-up list
_MOST_ITEMS = 5
# the share of cells that are missing in each column that may miss some
_MISSING = 0.05
# how far from a lone bound, or from 0, a column without bounds goes
_REACH = 1000
# how often an identifier occurs, on average
_ROWS_PER_KEY = 3


def dummy(domain: Domain, *, rows: int = 1000, unit: PrivacyUnit | None = None, rng: Rng | None = None) -> pa.Table:
    """Return a made-up Arrow table of the declared shape, to try questions without spending; nothing in it is read from data.

    Numbers and days are uniform between their bounds, values of categories and booleans equally likely, one cell in 20
    is missing, an identifier occurs about three times and is never missing, a list has up to 5 items. A column without
    bounds takes whole numbers up to 1,000 away from the bound that it has, or from 0. `unit`: the privacy unit, whose column
    is added as text where the domain does not declare it. The same seed gives the same table.

    Raises DeclarationError unless `rows` is from 0 to 10^8.

    >>> dummy(Domain({"age": Integer(0, 125), "job": Category(["nurse", "cook"])}), rows=50).schema.names
    ['age', 'job']
    """
    import pyarrow as pa

    if not isinstance(domain, Domain):
        raise DeclarationError('domain must be a Domain, such as sd.Domain({"age": sd.Integer(0, 125)})')
    if isinstance(rows, bool) or not isinstance(rows, int) or not 0 <= rows <= _MOST_ROWS:
        raise DeclarationError(f"rows must be a whole number from 0 to 10^8, not {rows!r}")
    source = Rng.secure() if rng is None else rng
    columns = dict(domain.columns)
    if unit is not None and unit.column is not None and unit.column not in columns:
        columns[unit.column] = Identifier()
    lists = {name: _lists(column, rows, source) for name, column in domain.lists.items()}
    return pa.table({name: _cells(column, rows, source) for name, column in columns.items()} | lists)


def _cells(column: Column, rows: int, rng: Rng) -> pa.Array:
    """Return the cells of one column; each kind of column turns uniform numbers of [0, 1) into its values."""
    import pyarrow as pa

    shares = rng.uniform_doubles(rows)
    if isinstance(column, Identifier):
        keys = max(rows // _ROWS_PER_KEY, 1)
        return pa.array([f"id{int(n):06d}" for n in shares * keys], pa.string())
    missing = rng.uniform_doubles(rows) < _MISSING
    kinds = {Integer: pa.int64(), Real: pa.float64(), Boolean: pa.bool_(), Date: pa.date32()}
    numbered = isinstance(column, Category) and isinstance(column.values[0], int)
    kind = kinds.get(type(column), pa.int64() if numbered else pa.string())
    if isinstance(column, DateTime):
        kind = pa.timestamp("us", column.zone)
    return pa.array(_MAKERS[type(column)](column, shares), kind, mask=missing)


def _lists(column: List, rows: int, rng: Rng) -> pa.Array:
    """Return lists of equally likely lengths, from none to a few items."""
    import pyarrow as pa

    most = min(column.max_items, _MOST_ITEMS)
    ends = [0, *itertools.accumulate(int(s * (most + 1)) for s in rng.uniform_doubles(rows))]
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), _cells(column.of, ends[-1], rng))


def _integers(column: Integer, shares: Doubles) -> Any:
    lower, upper = _ends(column.lower, column.upper)
    return [int(lower) + int(s * (int(upper) - int(lower) + 1)) for s in shares]


def _reals(column: Real, shares: Doubles) -> Any:
    lower, upper = _ends(column.lower, column.upper)
    step = column.step or Fraction(1, 100)
    steps = (upper - lower) // step
    return [float(lower + step * int(s * (int(steps) + 1))) for s in shares]


def _ends(lower: int | Fraction | None, upper: int | Fraction | None) -> tuple[Fraction, Fraction]:
    low, high = (None if b is None else Fraction(b) for b in (lower, upper))
    if low is None:
        low = (high or Fraction(0)) - _REACH
    return low, low + _REACH if high is None else high


def _categories(column: Category, shares: Doubles) -> Any:
    return [column.values[int(s * len(column.values))] for s in shares]


def _booleans(column: Boolean, shares: Doubles) -> Any:
    del column
    return [bool(s < 0.5) for s in shares]


def _days(column: Date, shares: Doubles) -> Any:
    span = (column.upper - column.lower).days + 1
    return [column.lower + datetime.timedelta(days=int(s * span)) for s in shares]


def _moments(column: DateTime, shares: Doubles) -> Any:
    low, high = column.steps
    return [local_time((low + int(s * (high - low + 1))) * column.resolution, column.zone) for s in shares]


_MAKERS: dict[type, Callable[[Any, Doubles], Any]] = {
    Integer: _integers,
    Real: _reals,
    Category: _categories,
    Boolean: _booleans,
    Date: _days,
    DateTime: _moments,
}


# ---- Practice without spending: a curator of a made-up table of the declared shape. It may not know the true table

_ROWS = 1000
C = TypeVar("C")


def check_target(on: object) -> None:
    """Raise DeclarationError unless a question is asked of the data, or of a made-up table."""
    if on not in ("data", "dummy"):
        raise DeclarationError(f'on is "data" or "dummy", a made-up table to practise on, not {on!r}')


def open_dummy(table: TableContext) -> Engine:
    """Return the engine of made-up rows, of a table and of those of the same people: nothing is read from data."""
    unit = table.neighbors.unit
    rows = dummy(table.domain, rows=_ROWS, unit=unit)
    people = {
        name: PeopleTable(
            dummy(other.domain, rows=_ROWS, unit=other.neighbors.unit), other.domain, other.neighbors.unit
        )
        for name, other in table.private.items()
    }
    # Read once more where what is asked of another table has a condition on this one.
    people[table.name] = PeopleTable(rows, table.domain, unit)
    return open_source(rows, domain=table.domain, unit=unit, public=table.public_rows, people=people)


def dummy_curator(
    make: Callable[..., C], table: TableContext, engine: Engine, *, cap: Loss, declared: dict[str, Any]
) -> C:
    """Return the curator that `make` makes of made-up rows: the same declaration, a budget of its own that nobody keeps."""
    return make(
        table.name,
        engine=engine,
        domain=table.domain,
        neighbors=table.neighbors,
        ledger=Ledger.open(None, cap=cap),
        declaration=declared,
        rng=Rng.secure(),
        public=table.public,
        public_rows=table.public_rows,
        others=table.private,
        dialect=table.dialect,
    )
