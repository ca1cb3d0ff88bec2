"""A finite universe of public numbers, and the place of a table in it. It may not know queries or neighbors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.errors import DeclarationError

__all__ = ["Floats", "Places", "column_names", "columns_of_table", "places_of", "size_in", "universe_from"]

Floats = NDArray[np.float64]
Places = NDArray[np.intp]  # positions in the sorted universe, ascending


def universe_from(values: Iterable[Any]) -> Floats:
    """Return the values of a universe as float64, sorted; raise DeclarationError unless they are finite numbers.

    >>> universe_from([3, 1, 2.5])
    array([1. , 2.5, 3. ])
    """
    return np.sort(_numbers(values, argument="universe"))


def places_of(table: Iterable[Any], universe: Floats) -> Places:
    """Return the places that the records of `table` take in the sorted universe; equal values take the first ones.

    >>> places_of([2, 2, 5], np.array([1.0, 2.0, 2.0, 2.0, 5.0]))
    array([1, 2, 4])
    """
    wanted = np.sort(_numbers(table, argument="table"))
    rank = np.arange(wanted.size) - np.searchsorted(wanted, wanted, side="left")
    places = np.searchsorted(universe, wanted, side="left") + rank
    found = places < universe.size
    found[found] = universe[places[found]] == wanted[found]
    if not found.all():
        missing = int((~found).sum())
        raise DeclarationError(
            f"table must be a part of the universe, each value at most as often as there: {missing} of its "
            f"{wanted.size} values are not in it, or occur too often; add them to the universe"
        )
    return np.asarray(places, dtype=np.intp)


def column_names(table: Any) -> list[str]:
    """Return the names of the columns of a table of pandas, polars or Arrow; none for what is no such table."""
    found = getattr(table, "column_names", None) or getattr(table, "columns", None)
    return [str(name) for name in found] if found is not None and hasattr(table, "__getitem__") else []


def columns_of_table(values: Any) -> dict[str | None, Any]:
    """Return the columns of a mapping or a table by name; one flat sequence has no name.

    >>> columns_of_table({"age": [1, 2]}), columns_of_table([1, 2])
    ({'age': [1, 2]}, {None: [1, 2]})
    """
    if isinstance(values, Mapping):
        return {str(name): column for name, column in values.items()}
    return {name: values[name] for name in column_names(values)} or {None: values}


def size_in(size: Any, universe: Floats) -> int:
    """Return `size` as an int; raise DeclarationError unless a table of that size can be taken from the universe."""
    if isinstance(size, bool) or not isinstance(size, int | np.integer):
        raise DeclarationError(f"size must be a whole number of records, not {type(size).__name__}")
    if not 1 <= size <= universe.size:
        raise DeclarationError(f"size must be from 1 to {universe.size}, the size of the universe, not {size}")
    return int(size)


def _numbers(values: Iterable[Any], *, argument: str) -> Floats:
    if isinstance(values, str | bytes):
        raise DeclarationError(f"{argument} must be a sequence of numbers, not text")
    names = [str(name) for name in values] if isinstance(values, Mapping) else column_names(values)
    if names:
        raise DeclarationError(
            f"{argument} must be one flat sequence of numbers, not a table: choose a column, as table[{names[0]!r}]; "
            "sensitivity_profile takes all columns of a table at once"
        )
    listed = values if isinstance(values, np.ndarray) else _list(values, argument=argument)
    array = np.asarray(listed)
    if array.ndim != 1 or array.size == 0:
        raise DeclarationError(f"{argument} must hold at least one number, in one flat sequence")
    if array.dtype.kind not in "iuf":
        raise DeclarationError(f"{argument} must hold only numbers: text, empty values and true/false are refused")
    numbers = array.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise DeclarationError(f"{argument} must hold only finite numbers: it has nan, or infinity; leave them out")
    if float(np.abs(numbers).max()) > 1e150:
        raise DeclarationError(f"{argument} must hold numbers of at most 1e150: their squares would overflow")
    return numbers


def _list(values: Iterable[Any], *, argument: str) -> list[Any] | NDArray[Any]:
    if hasattr(values, "to_numpy"):  # a pyarrow array, a pandas or polars series
        return np.asarray(values)
    try:
        listed = list(values)
    except TypeError:
        raise DeclarationError(f"{argument} must be a sequence of numbers, not {type(values).__name__}") from None
    plain = (int, float, np.integer, np.floating)
    if any(isinstance(value, bool) or not isinstance(value, plain) for value in listed):
        raise DeclarationError(f"{argument} must hold only numbers: text, empty values and true/false are refused")
    try:
        return [float(value) for value in listed]
    except OverflowError:
        raise DeclarationError(f"{argument} must hold numbers of at most 1e150: their squares would overflow") from None
