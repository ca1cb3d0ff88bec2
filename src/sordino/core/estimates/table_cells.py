"""Cells of tables that were released together: one measure of a tabulation, the tables one below the other."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from statistics import NormalDist
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from sordino.core.columns import LISTED, NumberColumn, TiledColumn, read_numbers, write_numbers
from sordino.core.estimates.estimate import ESTIMATES, Number, estimate_to_dict
from sordino.core.estimates.noisy import to_units
from sordino.core.estimates.selected import simultaneous_confidence
from sordino.core.lazy import load_feature
from sordino.core.noise.laws import NoiseLaw

Finish = Literal["whole", "linear", "raw"]

# What an end may be off by for the rounding of floats.
_CLOSE = 1e-6
# Numbers below it are 64-bit integers with room to add two of them.
_SMALL = 2.0**61

Array = np.ndarray[Any, np.dtype[Any]]


def _write_places(places: Sequence[int]) -> Any:
    """Return the places of the shown rows as JSON data: none where they are all rows, and many."""
    if isinstance(places, range) and len(places) > LISTED:
        return None
    return write_numbers(places)


def _read_places(data: Any) -> Sequence[int] | None:
    return None if data is None else read_numbers(data)


# Columns of numbers in a record: those of many rows are packed.
Numbers = Annotated[Sequence[Any], write_numbers, read_numbers]
Places = Annotated[Sequence[int], _write_places, _read_places]

# The column of a release of many tables that says which table a row is of.
BY_COLUMNS = "by_columns"


def name_table(columns: tuple[str, ...]) -> str:
    """Return the name of a table: its columns, in order; nothing for the total.

    >>> name_table(("region", "sex"))
    'region, sex'
    """
    return ", ".join(columns)


@dataclass(frozen=True, slots=True)
class CellNoise:
    """The noise of each cell of one table, the same law for all of them.

    It is `own` where the cell was measured by itself; else a weighted sum of independent noises, of which the variance, in
    square units of the measure, and the excess kurtosis are held. Where cells differ, as by their place on an ordered column,
    the variance is the largest, and `parts` has that of each cell as a part of it, in order.
    """

    variance: float
    excess: float = 0.0
    own: NoiseLaw | None = None
    parts: Numbers = ()

    def error(self, confidence: float, unit: Fraction) -> Number:
        """Return the error that is not exceeded with probability `confidence`, in units of the measure."""
        if self.own is not None:
            return to_units(self.own.error(confidence), unit)
        return math.sqrt(self.variance) * standard_quantile(float(confidence), round(self.excess, 6))

    def chance_beyond(self, number: Fraction, unit: Fraction) -> float:
        """Return the chance that the noise of a cell is a number above 0, in units of the measure, or more."""
        if self.own is not None:
            return self.own.upper_tail(math.ceil(number / unit) - 1)
        if not self.variance:
            return 0.0
        return standard_tail(float(number) / math.sqrt(self.variance), round(self.excess, 6))


@dataclass(frozen=True, slots=True)
class TableStrategy:
    """How the cells of tables follow from the noise that was added: all that is needed to draw that noise again.

    `sizes` are the numbers of keys of all columns, `tables` the columns of each table in its own order, by their places.
    `measured` are the columns of each vector with noise of the law beside it: residuals of tables, each in its own steps,
    or marginals in steps of the measure (`sordino.tables`). Columns that are `ordered`, by their places, were measured for
    ranges: residuals in a basis of these, marginals by single keys. In the form "levels" each vector is of the areas of one
    level, its first column, by all others, and `parents` has the area above each area of every level but the first. The margins
    on the columns in `known` are public: no noise is in them.
    """

    sizes: tuple[int, ...]
    tables: tuple[tuple[int, ...], ...]
    form: Literal["residuals", "marginals", "levels"]
    measured: tuple[tuple[int, ...], ...]
    laws: tuple[NoiseLaw, ...]
    ordered: tuple[int, ...] = ()
    parents: tuple[tuple[int, ...], ...] = ()
    known: tuple[tuple[int, ...], ...] = ()


@ESTIMATES.register("table cells")
@dataclass(frozen=True, slots=True)
class TableCells:
    """One measure of all cells of several `tables`, which have `sizes` cells each, in order.

    `cells` are shown. Where these were made whole and not negative, `linear` are the unbiased estimates that they were made
    of: an interval is that of the linear estimate, cut at `least`, and reaches the cell that is shown. It covers as often as
    the linear one does, since no true value lies below `least`, and reaching further covers more. Where cells were shown for
    being the largest of a group, all of the group's intervals hold together, so that those of the shown ones do.
    """

    tables: tuple[tuple[str, ...], ...]
    sizes: tuple[int, ...]
    cells: Numbers
    linear: Numbers
    noise: tuple[CellNoise, ...]
    unit: Fraction
    least: int | None = None
    strategy: TableStrategy | None = None
    counts_rows: bool = False
    suppressed: Numbers = ()
    # Where the largest cells of each group are shown, the most that these were chosen among.
    among: int = 1
    places: Places | None = None

    per_row: ClassVar[tuple[str, ...]] = ("places",)

    def __post_init__(self) -> None:
        if len(self.sizes) != len(self.tables) or len(self.noise) != len(self.tables):
            raise ValueError("each table has a size and a noise")
        for name in ("cells", "linear"):
            if not isinstance(getattr(self, name), NumberColumn):
                object.__setattr__(self, name, NumberColumn(getattr(self, name)))
        if self.places is None:
            object.__setattr__(self, "places", range(len(self.cells)))
        elif not isinstance(self.places, range):
            places = tuple(self.places)
            run = range(places[0], places[0] + len(places)) if places else ()
            object.__setattr__(self, "places", run if places == tuple(run) else places)
        if sum(self.sizes) != len(self.cells) or len(self.linear) not in (0, len(self.cells)):
            raise ValueError("the tables have as many cells as their sizes say")

    def starts(self) -> list[int]:
        """Return where each table begins among the cells, and where the last one ends."""
        return [0, *itertools.accumulate(self.sizes)]

    def values(self) -> Sequence[Number | None]:
        """Return the cells, None for one that is suppressed."""
        if self.is_whole_release and not len(self.suppressed):
            return self.cells
        return self._hide(np.asarray(self.cells)[self._rows()])

    def errors(self, confidence: float) -> Sequence[Number | None]:
        """Return the error of each cell's linear estimate, the same for all cells of a table."""
        return self._hide(self._widths(confidence))

    def suppress(self, places: Array) -> TableCells:
        """Return the cells without those at these places, which are not held any more."""
        hidden = np.zeros(len(self.cells), dtype=bool)
        hidden[places] = True
        hidden[np.asarray(self.suppressed, dtype=np.int64)] = True
        cells = NumberColumn(np.where(hidden, 0, np.asarray(self.cells)))
        linear = NumberColumn(np.where(hidden, 0.0, np.asarray(self.linear))) if self.linear else self.linear
        return replace(self, cells=cells, linear=linear, suppressed=NumberColumn(np.flatnonzero(hidden)))

    def round_to(self, base: Fraction) -> TableCells:
        """Return the cells rounded to multiples of a base; intervals stay those of the estimates before that."""
        rounded = [to_units(math.floor(Fraction(cell) / base + Fraction(1, 2)), base) for cell in self.cells]
        linear = self.linear or NumberColumn(np.asarray(self.cells).astype(np.float64))
        return replace(self, cells=NumberColumn(rounded), linear=linear)

    def intervals(self, confidence: float) -> list[tuple[Number | None, Number | None]]:
        """Return the interval of each cell by itself."""
        lows, highs = self.ends(confidence)
        return list(zip(lows, highs, strict=True))

    def ends(self, confidence: float) -> tuple[Sequence[Number | None], Sequence[Number | None]]:
        """Return the lower and the upper ends of all intervals."""
        rows = self._rows()
        cells = np.asarray(self.cells)[rows]
        centers = np.asarray(self.linear)[rows] if self.linear else cells
        widths = self._widths(confidence)
        # In Python's own numbers where these could pass 64 bits.
        arrays = cells, centers, widths
        if len(cells) and not max(max(float(some.max()), -float(some.min())) for some in arrays) < _SMALL:
            cells, centers, widths = (some.astype(object) for some in (cells, centers, widths))
        lows = centers - widths
        highs = centers + widths
        # Where cells were made whole, a true one is a whole number of steps, so ends move inwards to the next one.
        if self.linear and self.unit.denominator == 1:
            lows = _round_each(lows - _CLOSE, math.ceil)
            highs = _round_each(highs + _CLOSE, math.floor)
        if self.least is not None:
            lows = np.maximum(lows, self.least)
            highs = np.maximum(highs, self.least)
        return self._hide(np.minimum(lows, cells)), self._hide(np.maximum(highs, cells))

    to_dict = estimate_to_dict

    @property
    def is_whole_release(self) -> bool:
        """Whether these are all cells of all tables, in order."""
        return self.places == range(len(self.cells))

    @property
    def noise_law_is_known(self) -> bool:
        """Whether the noise of all cells can be drawn again, jointly; not where some are not shown."""
        if len(self.suppressed):
            return False
        return self.strategy is not None or all(noise.own is not None for noise in self.noise)

    def draw(self, count: int, points: Callable[[int], Any]) -> Any:
        """Return what the true values of the shown rows may be, in `count` replicates: the linear estimates less noise.

        `points` gives so many numbers between 0 and 1, at which the laws of the noise are taken.
        """
        released = np.asarray(self.linear or self.cells).astype(np.float64)
        if self.strategy is not None:
            noise = load_feature("draw_table_noise")(self.strategy, count, points) * float(self.unit)
        else:
            drawn = []
            for size, cell in zip(self.sizes, self.noise, strict=True):
                assert cell.own is not None
                drawn.append(
                    np.asarray(cell.own.quantiles(points(count * size))).reshape(count, size) * float(self.unit)
                )
            noise = np.concatenate(drawn, axis=1)
        return (released[None, :] - noise)[:, self._rows()]

    def _rows(self) -> Any:
        """Return the places of the shown rows, to index an array with."""
        if isinstance(self.places, range):
            return slice(self.places.start, self.places.stop)
        return np.array(self.places, dtype=np.int64)

    def _hide(self, numbers: Array) -> Sequence[Number | None]:
        """Return a number for each shown row, None for one that is suppressed."""
        if not len(self.suppressed):
            return NumberColumn(numbers)
        hidden = np.zeros(len(self.cells), dtype=bool)
        hidden[np.asarray(self.suppressed, dtype=np.int64)] = True
        shown = numbers.astype(object)
        shown[hidden[self._rows()]] = None
        return list(shown)

    def _widths(self, confidence: float) -> Array:
        """Return the error of every shown cell."""
        confidence = simultaneous_confidence(confidence, self.among)
        rows = self._rows()
        first, last = (rows.start, rows.stop) if isinstance(rows, slice) else (0, len(self.cells))
        widths = []
        start = 0
        for size, noise in zip(self.sizes, self.noise, strict=True):
            low = max(first - start, 0)
            high = min(last - start, size)
            start += size
            if low >= high:
                continue
            widest = noise.error(confidence, self.unit)
            if len(noise.parts):
                parts = noise.parts.to_numpy() if isinstance(noise.parts, TiledColumn) else np.asarray(noise.parts)
                widths.append(widest * np.sqrt(parts[low:high]))
            else:
                widths.append(np.full(high - low, widest, dtype=object if abs(widest) >= _SMALL else None))
        together = np.concatenate(widths) if widths else np.zeros(0)
        return together if isinstance(rows, slice) else together[rows]


def _round_each(numbers: Array, way: Callable[[float], int]) -> Array:
    """Return each number rounded up or down, as a whole one."""
    if numbers.dtype == object:
        return np.array([way(number) for number in numbers], dtype=object)
    return (np.ceil(numbers) if way is math.ceil else np.floor(numbers)).astype(np.int64)


@functools.lru_cache(maxsize=1024)
def standard_quantile(confidence: float, excess: float) -> float:
    """Return the t with P(|X| > t) = 1 - confidence for a symmetric X of variance 1 and this excess kurtosis, from 0 to 3.

    X is the difference of two gamma variables of shape 3 / excess: normal at 0, Laplace at 3, and between these the law of a
    sum of as many alike Laplace variables (Kotz, Kozubowski, Podgorski 2001, section 4.1). Weighted sums of Laplace variables
    are taken for the one with their variance and kurtosis.

    >>> round(standard_quantile(0.95, 0.0), 4), round(standard_quantile(0.95, 3.0), 4)
    (1.96, 2.1183)
    """
    if excess <= 1e-3:
        return NormalDist().inv_cdf((1 + confidence) / 2)

    def tail(t: float) -> float:
        return 2 * standard_tail(t, excess)

    low = 0.0
    high = 2.0
    while tail(high) > 1 - confidence and high < 1e6:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle) > 1 - confidence else (low, middle)
    return high


def standard_tail(t: float, excess: float) -> float:
    """Return P(X > t), t at least 0, of the law of `standard_quantile`.

    >>> round(standard_tail(1.96, 0.0), 4), round(standard_tail(2.1183, 3.0), 4)
    (0.025, 0.025)
    """
    if excess <= 1e-3:
        return math.erfc(t / math.sqrt(2)) / 2
    return sum(weight * math.erfc(t / deviation) for weight, deviation in _mixture(excess)) / 2


@functools.lru_cache(maxsize=64)
def _mixture(excess: float) -> list[tuple[float, float]]:
    """Return weights of normal laws, and their deviations times the root of 2, that make up the law of this excess kurtosis."""
    shape = 3 / excess
    step = 0.05
    # X given G is normal of variance G / shape, and G is a gamma variable: the trapezoid rule in log G.
    middle = math.log(shape)
    logs = [middle + step * i for i in range(-400, 160)]
    weights = [math.exp(shape * u - math.exp(u) - math.lgamma(shape)) * step for u in logs]
    deviations = [math.sqrt(math.exp(u) / shape) for u in logs]
    return [(w, d * math.sqrt(2)) for w, d in zip(weights, deviations, strict=True) if w > 1e-18]
