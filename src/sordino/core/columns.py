"""Columns of many rows without a Python object a row: numbers in an array, and labels that repeat by a rule.

Both are sequences that give Python's own numbers and labels, and equal a tuple of these. A release holds them; what reads a
column item by item needs not know.
"""

from __future__ import annotations

import base64
import bisect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from sordino.core.errors import DeclarationError

if TYPE_CHECKING:
    import pyarrow as pa

Array = np.ndarray[Any, np.dtype[Any]]

# A column of at most so many items is a list in JSON, which people read; a longer one is packed.
LISTED = 1_000
# The types that numbers are packed as, the narrowest first; all little-endian.
_WHOLE = ("i1", "i2", "i4", "i8")
_PACKED = frozenset((*_WHOLE, "f8"))


class NumberColumn(Sequence[Any]):
    """Numbers in a read-only array: 64-bit integers, doubles, or Python's integers where some do not fit.

    >>> NumberColumn([3, 1, 2])[1:].tolist()
    [1, 2]
    """

    __slots__ = ("_numbers",)

    def __init__(self, numbers: Any) -> None:
        # An array of a list would hold large integers as doubles, where some are beside others.
        array = numbers if isinstance(numbers, np.ndarray) else np.array([*numbers], dtype=object)
        if array.dtype.kind == "f":
            array = array.astype(np.float64)
        elif array.dtype.kind == "i":
            array = array.astype(np.int64)
        else:
            array = _narrow(array.astype(object))
        # A view of its own, since the array may be the caller's.
        self._numbers = array.view()
        self._numbers.flags.writeable = False

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self._numbers, dtype=dtype, copy=copy)

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, place: int) -> Any: ...
    @overload
    def __getitem__(self, place: slice) -> NumberColumn: ...
    def __getitem__(self, place: int | slice) -> Any:
        item = self._numbers[place]
        if isinstance(place, slice):
            return NumberColumn(item)
        return item.item() if isinstance(item, np.generic) else item

    def __iter__(self) -> Iterator[Any]:
        return iter(self._numbers.tolist())

    def tolist(self) -> list[Any]:
        """Return Python's own numbers."""
        return list(self)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, NumberColumn):
            return np.array_equal(self._numbers, other._numbers)
        if isinstance(other, (tuple, list)):
            return len(other) == len(self) and self.tolist() == list(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"<{len(self):,} numbers>" if len(self) > LISTED else repr(tuple(self))


class TiledColumn(Sequence[Any]):
    """Labels, or numbers, of the rows of crossed columns: blocks (values, each, times), one below the other.

    A block repeats each of its values `each` times, and all of that `times` times: so do the labels of one column of a table
    in row-major order.

    >>> TiledColumn([(("f", "m"), 1, 2), ((None,), 3, 1)])[1:6]
    ('m', 'f', 'm', None, None)
    """

    __slots__ = ("_blocks", "_starts")

    def __init__(self, blocks: Sequence[tuple[Sequence[Any], int, int]]) -> None:
        self._blocks = tuple((tuple(values), int(each), int(times)) for values, each, times in blocks)
        if any(each < 0 or times < 0 for _, each, times in self._blocks):
            raise DeclarationError("a column repeats its labels 0 times or more")
        lengths = [len(values) * each * times for values, each, times in self._blocks]
        self._starts = [0, *itertools.accumulate(lengths)]

    @property
    def blocks(self) -> tuple[tuple[tuple[Any, ...], int, int], ...]:
        """The values of each block, how often each is repeated, and how often all of that."""
        return self._blocks

    def __len__(self) -> int:
        return self._starts[-1]

    @overload
    def __getitem__(self, place: int) -> Any: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Any]: ...
    def __getitem__(self, place: int | slice) -> Any:
        if isinstance(place, slice):
            start, stop, step = place.indices(len(self))
            if step == 1 and start in self._starts and stop in self._starts and start <= stop:
                return TiledColumn(self._blocks[self._starts.index(start) : self._starts.index(stop)])
            return tuple(self[i] for i in range(start, stop, step))
        index = place + len(self) if place < 0 else place
        if not 0 <= index < len(self):
            raise IndexError("the column has no such row")
        block = bisect.bisect_right(self._starts, index) - 1
        values, each, _ = self._blocks[block]
        return values[(index - self._starts[block]) // each % len(values)]

    def __iter__(self) -> Iterator[Any]:
        for values, each, times in self._blocks:
            for _ in range(times):
                yield from itertools.chain.from_iterable(itertools.repeat(value, each) for value in values)

    def to_numpy(self) -> Array:
        """Return a column of numbers as an array."""
        tiles = [np.tile(np.repeat(np.array(values), each), times) for values, each, times in self._blocks]
        return np.concatenate(tiles) if tiles else np.zeros(0)

    def to_arrow(self, kind: pa.DataType | None = None) -> pa.Array:
        """Return the column as an Arrow array, of a type if one is given."""
        import pyarrow as pa

        labels = list(dict.fromkeys(itertools.chain.from_iterable(values for values, _, _ in self._blocks)))
        places = {label: place for place, label in enumerate(labels)}
        coded = TiledColumn([([places[v] for v in values], each, times) for values, each, times in self._blocks])
        return pa.array(labels, kind).take(pa.array(coded.to_numpy().astype(np.int32)))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TiledColumn) and other._blocks == self._blocks:
            return True
        if isinstance(other, (tuple, list, NumberColumn, TiledColumn)):
            return len(other) == len(self) and all(a == b for a, b in zip(self, other, strict=True))
        return NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"<{len(self):,} labels>" if len(self) > LISTED else repr(tuple(self))


# ---- As JSON


def write_numbers(column: Sequence[Any]) -> Any:
    """Return numbers as JSON data: a list, or where they are many their bytes, in the narrowest type that holds them.

    >>> write_numbers((1, 2)), write_numbers(NumberColumn(range(2_000)))["type"]
    ([1, 2], 'i2')
    """
    if isinstance(column, TiledColumn) and len(column) > LISTED:
        return write_tiles(column, write_numbers)
    if len(column) <= LISTED:
        return list(column)
    numbers = np.asarray(column if isinstance(column, NumberColumn) else NumberColumn(column))
    if numbers.dtype == object:
        return numbers.tolist()
    kind = "f8" if numbers.dtype.kind == "f" else _narrowest(numbers)
    return {"type": kind, "base64": base64.b64encode(numbers.astype("<" + kind).tobytes()).decode("ascii")}


def read_numbers(data: Any) -> Sequence[Any]:
    """Return the numbers that `write_numbers` wrote; raises DeclarationError for anything else."""
    if isinstance(data, list):
        if not all(type(item) in (int, float) for item in data):
            raise DeclarationError("a column of numbers holds numbers")
        return NumberColumn(data) if data else ()
    if isinstance(data, Mapping) and set(data) == {"values", "tiles"}:
        return read_tiles(data, read_numbers)
    if not isinstance(data, Mapping) or set(data) != {"type", "base64"} or data["type"] not in _PACKED:
        raise DeclarationError("a packed column of numbers has a type and its bytes")
    raw = base64.b64decode(data["base64"], validate=True)
    numbers = np.frombuffer(raw, dtype="<" + data["type"])
    if numbers.dtype.kind == "f" and not np.isfinite(numbers).all():
        raise DeclarationError("a column of numbers holds numbers")
    return NumberColumn(numbers)


def write_tiles(column: TiledColumn, write: Callable[[Sequence[Any]], Any]) -> dict[str, Any]:
    """Return a tiled column as JSON data: each list of values once, by `write`, and the blocks that name these."""
    lists: dict[tuple[Any, ...], int] = {}
    tiles = []
    for values, each, times in column.blocks:
        # Truths and whole numbers are equal, but not alike in JSON.
        kind = tuple(map(type, values[:1]))
        place = lists.setdefault((kind, values), len(lists))
        tiles.append([place, each, times])
    return {"values": [write(values) for _, values in lists], "tiles": tiles}


def read_tiles(data: Mapping[str, Any], read: Callable[[Any], Sequence[Any]]) -> TiledColumn:
    """Return the column that `write_tiles` wrote; raises DeclarationError for blocks that are none."""
    lists = [tuple(read(values)) for values in data["values"]]
    tiles = data["tiles"]
    if not all(len(tile) == 3 and all(type(n) is int and n >= 0 for n in tile) for tile in tiles):
        raise DeclarationError("a tiled column has, for each block, its values and how often they are repeated")
    return TiledColumn([(lists[place], each, times) for place, each, times in tiles])


def _narrow(items: Array) -> Array:
    """Return Python's numbers as integers or doubles of 64 bits where all of them are such."""
    if all(type(item) is float for item in items):
        return items.astype(np.float64)
    if any(isinstance(item, float) for item in items):
        return np.array([float(item) for item in items])
    if all(-(2**63) <= item < 2**63 for item in items):
        return np.array([int(item) for item in items], dtype=np.int64)
    return items


def _narrowest(numbers: Array) -> str:
    low = int(numbers.min(initial=0))
    high = int(numbers.max(initial=0))
    return next(kind for kind in _WHOLE if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
