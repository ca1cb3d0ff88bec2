"""A finite universe of public numbers, and the place of a table in it. It may not know queries or neighbors.

Searches run on float64, and a figure that is called exact must not depend on what float64 cannot hold: nanoseconds since
1970 and many ids are whole numbers past 2^53, where neighboring floats are 2 to 256 apart. Values that float64 does not
hold with room to spare are therefore held as whole steps from one of them; where the steps do not fit either, they are
refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.core.errors import DeclarationError
from sordino.core.loss import to_fraction

Floats = NDArray[np.float64]
# Positions in the sorted universe, ascending.
Places = NDArray[np.intp]

# Whole numbers up to here are float64s.
_HELD = 1 << 53
# Up to here their quantiles, means and squares keep their digits too.
_ROOM = 1 << 40
_MOST = 1e150


@dataclass(frozen=True, slots=True)
class Universe:
    """Sorted values, each `origin` + `step` times its float; origin 0 and step 1 where the floats are the values."""

    floats: Floats
    origin: Fraction = Fraction(0)
    step: Fraction = Fraction(1)

    @property
    def size(self) -> int:
        """The number of values."""
        return int(self.floats.size)

    @property
    def is_plain(self) -> bool:
        """Whether the floats are the values themselves."""
        return self.step == 1 and not self.origin

    @property
    def offset(self) -> Fraction:
        """How many steps the origin lies from 0."""
        return self.origin / self.step

    def values(self, places: Places) -> tuple[float, ...]:
        """Return the values at these places, those past 2^53 as int."""
        floats = self.floats[places].tolist()
        if self.is_plain:
            return tuple(floats)
        return tuple(as_number(self.origin + self.step * int(steps)) for steps in floats)

    def places(self, table: Iterable[Any]) -> Places:
        """Return the places that the records of `table` take; equal values take the first ones."""
        if self.is_plain:
            return places_of(table, self.floats)
        steps = [(rational_from(value) - self.origin) / self.step for value in numbers_from(table, argument="table")]
        # what is no whole number of steps is a value that the universe lacks, as nan is
        return _places([float(x) if x.denominator == 1 and abs(x) <= _HELD else math.nan for x in steps], self.floats)

    def require_floats(self, what: str) -> None:
        """Raise DeclarationError unless float64 holds every value, which `what` needs."""
        if not self.is_plain and not all(isinstance(value, float) for value in self.values(np.arange(self.size))):
            raise DeclarationError(
                f"{what} needs values that a 64-bit float holds, as whole numbers up to 2^53: subtract the smallest from all"
            )


def numbers_from(values: Iterable[Any], *, argument: str) -> Sequence[Any]:
    """Return finite numbers, at least one and none past 1e150: a float64 array, or a list of Python's own numbers."""
    if isinstance(values, str | bytes):
        raise DeclarationError(f"{argument} must be a sequence of numbers, not text")
    names = [str(name) for name in values] if isinstance(values, Mapping) else column_names(values)
    if names:
        raise DeclarationError(
            f"{argument} must be one flat sequence of numbers, not a table: choose a column, as table[{names[0]!r}]; "
            "sensitivity_profile takes all columns of a table at once"
        )
    listed: Any
    # A pyarrow array, or a pandas or polars series.
    if isinstance(values, np.ndarray) or hasattr(values, "to_numpy"):
        array = np.asarray(values)
        listed = array if array.dtype == np.float64 else array.tolist()
        flat = array.ndim == 1
        kind = array.dtype.kind
    else:
        try:
            listed = list(values)
        except TypeError:
            raise DeclarationError(f"{argument} must be a sequence of numbers, not {type(values).__name__}") from None
        flat = True
        kind = "O"
    if not flat or len(listed) == 0:
        raise DeclarationError(f"{argument} must hold at least one number, in one flat sequence")
    if kind in "mM":
        raise DeclarationError(
            f"{argument} must hold only numbers: write moments as whole numbers of a unit, as seconds"
        )
    plain = (int, float, np.integer, np.floating, Fraction, Decimal)
    if kind not in "iuf" and any(isinstance(value, bool) or not isinstance(value, plain) for value in listed):
        raise DeclarationError(f"{argument} must hold only numbers: text, empty values and true/false are refused")
    if isinstance(listed, list):
        listed = [value.item() if isinstance(value, np.generic) else value for value in listed]
        finite = all(not isinstance(value, float | Decimal) or math.isfinite(value) for value in listed)
    else:
        finite = bool(np.isfinite(listed).all())
    if not finite:
        raise DeclarationError(f"{argument} must hold only finite numbers: it has nan, or infinity; leave them out")
    if max(abs(max(listed)), abs(min(listed))) > _MOST:
        raise DeclarationError(f"{argument} must hold numbers of at most 1e150: their squares would overflow")
    return listed  # type: ignore[no-any-return]  # an array is indexed and measured as a list is


def exact_universe_from(values: Iterable[Any]) -> Universe:
    """Return a universe that holds the values exactly; raise DeclarationError unless they are finite numbers.

    Numbers are int, float, Fraction and Decimal, and numpy's. Beside a number that is no float64 a float is its shortest
    decimal. Raises DeclarationError too where the values span more than 2^53 of their common steps.

    >>> exact_universe_from([2**60 + 10, 2**60, 2**60 + 1])
    Universe(floats=array([-1.,  0.,  9.]), origin=Fraction(1152921504606846977, 1), step=Fraction(1, 1))
    """
    listed = numbers_from(values, argument="universe")
    floats = _floats(listed)
    if floats is not None:
        return Universe(np.sort(floats))
    exact = [value if isinstance(value, int) else rational_from(value) for value in listed]
    denominator = math.lcm(*(value.denominator for value in exact))
    numbers = sorted(value.numerator * (denominator // value.denominator) for value in exact)
    origin = numbers[len(numbers) // 2]
    step = math.gcd(*(number - origin for number in numbers)) or 1
    if numbers[-1] - numbers[0] > _HELD * step:
        raise DeclarationError(
            "universe must hold numbers that lie at most 2^53 of their common steps apart, for these differ by less than "
            "a 64-bit float shows: round them, or subtract from each the smallest of those that matter"
        )
    steps = np.array([(number - origin) // step for number in numbers], dtype=np.float64)
    return Universe(steps, Fraction(origin, denominator), Fraction(step, denominator))


def rational_from(value: Any) -> Fraction:
    """Return the rational that a number means: a float is its shortest decimal.

    >>> rational_from(0.1), rational_from(2**60 + 1)
    (Fraction(1, 10), Fraction(1152921504606846977, 1))
    """
    if isinstance(value, Fraction | int | Decimal):
        return Fraction(value)
    if isinstance(value, str):
        return to_fraction(value, name="a number")
    return Fraction(int(value)) if isinstance(value, np.integer) else Fraction(repr(float(value)))


def as_number(value: Fraction) -> float:
    """Return a rational as a float, or as an int where it is whole and past 2^53.

    >>> as_number(Fraction(1, 3)), as_number(Fraction(2**60 + 1))
    (0.3333333333333333, 1152921504606846977)
    """
    return value.numerator if value.denominator == 1 and abs(value) > _HELD else float(value)


def format_value(value: float) -> str:
    """Return a value in words: ten digits, and every digit of an int past 2^53.

    >>> format_value(2.50), format_value(2**60 + 1)
    ('2.5', '1152921504606846977')
    """
    return str(value) if isinstance(value, int) and abs(value) > _HELD else f"{value:.10g}"


def places_of(table: Iterable[Any], universe: Floats) -> Places:
    """Return the places that the records of `table` take in the sorted universe; equal values take the first ones.

    >>> places_of([2, 2, 5], np.array([1.0, 2.0, 2.0, 2.0, 5.0]))
    array([1, 2, 4])
    """
    return _places(numbers_from(table, argument="table"), universe)


def column_names(table: Any) -> list[str]:
    """Return the names of the columns of a table of pandas, polars or Arrow; none for what is no such table."""
    names = getattr(table, "column_names", None) or getattr(table, "columns", None)
    return [str(name) for name in names] if names is not None and hasattr(table, "__getitem__") else []


def columns_of_table(values: Any) -> dict[str | None, Any]:
    """Return the columns of a mapping or a table by name; one flat sequence has no name.

    >>> columns_of_table({"age": [1, 2]}), columns_of_table([1, 2])
    ({'age': [1, 2]}, {None: [1, 2]})
    """
    if isinstance(values, Mapping):
        return {str(name): column for name, column in values.items()}
    return {name: values[name] for name in column_names(values)} or {None: values}


def size_in(size: Any, *, people: int) -> int:
    """Return `size` as an int; raise DeclarationError unless so many can be taken from a universe of `people` values."""
    if isinstance(size, bool) or not isinstance(size, int | np.integer):
        raise DeclarationError(f"size must be a whole number of records, not {type(size).__name__}")
    if not 1 <= size <= people:
        raise DeclarationError(f"size must be from 1 to {people}, the size of the universe, not {size}")
    return int(size)


def _places(table: Sequence[Any], universe: Floats) -> Places:
    wanted = np.sort(np.array(table, dtype=np.float64))
    rank = np.arange(wanted.size) - np.searchsorted(wanted, wanted, side="left")
    places = np.searchsorted(universe, wanted, side="left") + rank
    present = places < universe.size
    present[present] = universe[places[present]] == wanted[present]
    if not present.all():
        missing = int((~present).sum())
        raise DeclarationError(
            f"table must be a part of the universe, each value at most as often as there: {missing} of its "
            f"{wanted.size} values are not in it, or occur too often; add them to the universe"
        )
    return np.asarray(places, dtype=np.intp)


def _floats(values: Sequence[Any]) -> Floats | None:
    """Return numbers as float64 if that holds them with room for their quantiles and sums, else None."""
    if isinstance(values, list) and not all(isinstance(value, int | float) for value in values):
        return None
    floats = np.array(values, dtype=np.float64)
    if float(np.abs(floats).max()) <= _ROOM:
        return floats
    whole = bool((floats == np.floor(floats)).all())
    narrow = float(floats.max()) - float(floats.min()) <= _HELD
    lossless = not isinstance(values, list) or all(
        value == number for value, number in zip(values, floats.tolist(), strict=True)
    )
    return floats if lossless and not (whole and narrow) else None
