"""A query over a universe of numbers as exact integers, and its answer in every world, in the order of combinations.

A universe is held as integers over one denominator, and an answer as an integer key over one unit, so that equal answers
are equal. It may not know noise, priors or privacy parameters.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.core.errors import DeclarationError
from sordino.lab.sensitivity.statistics import Statistic
from sordino.lab.sensitivity.universe import Floats, column_names, numbers_from, rational_from

Numbers = NDArray[Any]  # integers: int64 where they fit, Python's otherwise

ENTRIES = 10_000_000  # records in the worlds that are listed one by one
_SAFE = 1 << 62


@dataclass(frozen=True, slots=True)
class Answers:
    """Hold a universe as `numbers` / `denominator` in the order given, and the query that is asked of `size` of them."""

    numbers: tuple[int, ...]
    denominator: int
    statistic: Statistic
    size: int

    @property
    def kind(self) -> str:
        """The kind of the query."""
        return self.statistic.kind

    @property
    def worlds(self) -> int:
        """The exact number of worlds, C(N, m)."""
        return math.comb(len(self.numbers), self.size)

    @property
    def unit(self) -> int:
        """The integer that a key is divided by to give the answer (its square, for std)."""
        if self.kind == "quantile":
            return self.denominator * self.ranks()[2]
        powers = {"count": 0, "sum": 1, "mean": 1, "var": 2, "std": 2}[self.kind]
        return int(
            self.denominator**powers * {"mean": self.size, "var": self.size**2, "std": self.size**2}.get(self.kind, 1)
        )

    @property
    def largest(self) -> int:
        """A bound on every integer that a key is computed from."""
        most = max(abs(x) for x in self.numbers)
        if self.kind == "quantile":
            return 2 * most * self.ranks()[2]
        return most * (self.size + 1) if self.kind in ("sum", "mean") else (most * (self.size + 1)) ** 2 * 2

    def ranks(self) -> tuple[int, int, int]:
        """Return the lower rank of a quantile and the share s/t of the next one: (rank, s, t)."""
        place = (self.size - 1) * Fraction(repr(float(self.statistic.q)))
        low = math.floor(place)
        return low, (place - low).numerator, (place - low).denominator

    def values(self, keys: Numbers, *, above: Any = 0) -> Floats:
        """Return the answers of keys, as floats; `above` is a key that is taken off first, where that keeps digits."""
        if keys.dtype.kind == "f":  # answers already
            return np.asarray(keys - above)
        unit = self.unit
        if self.kind == "std":
            return np.array([math.sqrt(int(k) / unit) for k in keys])
        if keys.dtype == object or unit >= _SAFE:
            return np.array([(int(k) - int(above)) / unit for k in keys])
        return np.asarray((keys - above) / np.float64(unit), dtype=np.float64)

    def distances(self, keys: Numbers, output: Fraction) -> Floats:
        """Return how far the answers of keys lie from an output, without rounding either first."""
        if self.kind == "std" or keys.dtype.kind == "f":
            return np.abs(self.values(keys) - float(output))
        nearest = round(output * self.unit)
        beyond = float(Fraction(nearest, self.unit) - output)
        if abs(nearest) >= _SAFE:
            keys = keys.astype(object)
        return np.abs(self.values(keys, above=nearest) + beyond)

    def extremes(self) -> tuple[int, int]:
        """Return the smallest and the largest key over all worlds, without a list of them: O(N)."""
        ordered, size = sorted(self.numbers), self.size
        outside = len(ordered) - size
        if self.kind == "count":
            return size, size
        if self.kind in ("sum", "mean"):
            return sum(ordered[:size]), sum(ordered[outside:])
        if self.kind == "quantile":
            low, s, t = self.ranks()
            high = low + (s > 0)
            least = ordered[low] * (t - s) + ordered[high] * s
            return least, ordered[outside + low] * (t - s) + ordered[outside + high] * s
        first, second = _running(ordered), _running([x * x for x in ordered])
        # the least spread is that of neighbors in order, the largest that of a bottom and a top
        inner = ((first[i + size] - first[i], second[i + size] - second[i]) for i in range(outside + 1))
        outer = (
            (first[i] + first[-1] - first[outside + i], second[i] + second[-1] - second[outside + i])
            for i in range(size + 1)
        )
        return min(size * q - s * s for s, q in inner), max(size * q - s * s for s, q in outer)


def lattice_from(universe: Iterable[Any]) -> tuple[Sequence[Any], tuple[int, ...], int]:
    """Return the values as given, and as integers over a common denominator.

    A float means its shortest decimal (0.1 is 1/10); Fraction and Decimal are taken as they are. DeclarationError for
    text, values that are not finite numbers, and an empty universe.

    >>> lattice_from([0.5, 2, 0.25])[1:]
    ((2, 8, 1), 4)
    """
    if names := column_names(universe):
        raise DeclarationError(
            f"universe must be one flat sequence of numbers, not a table: choose a column, as table[{names[0]!r}]; "
            "sordino.risk.assess_risk takes all columns of a table at once"
        )
    values = numbers_from(universe, argument="universe")
    exact = [rational_from(value) for value in values]
    denominator = math.lcm(*(x.denominator for x in exact))
    return values, tuple(x.numerator * (denominator // x.denominator) for x in exact), denominator


def integers(numbers: Iterable[int], largest: int) -> Numbers:
    """Return integers as an array: int64 if `largest` leaves room, else Python's."""
    return np.array(list(numbers), dtype=np.int64 if largest < _SAFE else object)


def tables_of(people: int, size: int) -> NDArray[np.intp]:
    """Return the places of each world in the order of itertools.combinations, one row a world."""
    rows = math.comb(people, size)
    flat = chain.from_iterable(combinations(range(people), size))
    return np.fromiter(flat, dtype=np.intp, count=rows * size).reshape(rows, size)


def listing(answers: Answers) -> Numbers | None:
    """Return the key of every world in the order of itertools.combinations, or None where there are too many.

    One record left out and one record kept need no list of tables: O(N log N).

    >>> from sordino.lab.sensitivity.statistics import statistic_from
    >>> listing(Answers((1, 2, 3, 10), 1, statistic_from("mean", ddof=0), 3)).tolist()
    [6, 13, 14, 15]
    """
    people, size, worlds = len(answers.numbers), answers.size, answers.worlds
    if answers.kind == "count":
        return np.full(worlds, size) if worlds <= ENTRIES else None
    if worlds == people and people > 2:
        return _one_out(answers) if size > 1 else _one_kept(answers)
    if worlds * size > ENTRIES:
        return None
    numbers = integers(answers.numbers, answers.largest)
    tables = tables_of(people, size)
    if answers.kind == "quantile":
        low, s, t = answers.ranks()
        chosen = np.sort(numbers[tables], axis=1)
        return np.asarray(chosen[:, low] * (t - s) + chosen[:, low + (s > 0)] * s)
    first = numbers[tables].sum(axis=1)
    if answers.kind in ("sum", "mean"):
        return np.asarray(first)
    return np.asarray(size * (numbers * numbers)[tables].sum(axis=1) - first * first)


def _one_out(answers: Answers) -> Numbers:
    """Return the keys of the worlds that leave out the last record, the one before it, and so on."""
    numbers = integers(answers.numbers, answers.largest)[::-1]
    if answers.kind == "quantile":
        low, s, t = answers.ranks()
        order = np.argsort(numbers, kind="stable")
        place = np.empty(numbers.size, dtype=np.intp)
        place[order] = np.arange(numbers.size)
        ordered = numbers[order]
        high = low + (s > 0)
        return np.asarray(ordered[low + (place <= low)] * (t - s) + ordered[high + (place <= high)] * s)
    first = numbers.sum() - numbers
    if answers.kind in ("sum", "mean"):
        return np.asarray(first)
    squares = numbers * numbers
    return np.asarray(answers.size * (squares.sum() - squares) - first * first)


def _one_kept(answers: Answers) -> Numbers:
    numbers = integers(answers.numbers, answers.largest)
    return numbers * 0 if answers.kind in ("var", "std") else numbers


def _running(numbers: list[int]) -> list[int]:
    totals = [0]
    for number in numbers:
        totals.append(totals[-1] + number)
    return totals
