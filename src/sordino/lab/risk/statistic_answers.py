"""What a statistic answers in each possible world, counted without listing the worlds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import chain, combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.core.errors import DeclarationError
from sordino.lab.sensitivity.enumeration import MOST_TABLES, answer_tables
from sordino.lab.sensitivity.statistics import Statistic
from sordino.lab.sensitivity.universe import Floats, as_number, column_names, numbers_from, rational_from

# ---- A query over a universe of numbers as exact integers, and its answer in every world, in the order of combinations
#
# A universe is held as integers over one denominator, and an answer as an integer key over one unit, so that equal answers
# are equal. It may not know noise, priors or privacy parameters.

# Integers: int64 where they fit, Python's otherwise.
Numbers = NDArray[Any]

# Records in the worlds that are listed one by one.
ENTRIES = 10_000_000
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
        # a function's keys are its answers
        powers = {"count": 0, "sum": 1, "mean": 1, "var": 2, "std": 2, "function": 0}[self.kind]
        return int(
            self.denominator**powers * {"mean": self.size, "var": self.size**2, "std": self.size**2}.get(self.kind, 1)
        )

    @property
    def largest(self) -> int:
        """A bound on every integer that a key is computed from."""
        most = max(abs(x) for x in self.numbers)
        if self.kind == "quantile":
            return 2 * most * self.ranks()[2]
        if self.kind == "function":
            return int(abs(answer_worlds(self)).max())
        return most * (self.size + 1) if self.kind in ("sum", "mean") else (most * (self.size + 1)) ** 2 * 2

    def ranks(self) -> tuple[int, int, int]:
        """Return the lower rank of a quantile and the share s/t of the next one: (rank, s, t)."""
        place = (self.size - 1) * Fraction(repr(float(self.statistic.q)))
        low = math.floor(place)
        return low, (place - low).numerator, (place - low).denominator

    def values(self, keys: Numbers, *, above: Any = 0) -> Floats:
        """Return the answers of keys, as floats; `above` is a key that is taken off first, where that keeps digits."""
        # These are answers already.
        if keys.dtype.kind == "f":
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

    def extremes(self) -> tuple[Any, Any]:
        """Return the smallest and the largest key over all worlds; without a list of them, in O(N), but for a function."""
        if self.kind == "function":
            keys = answer_worlds(self)
            return keys.min(), keys.max()
        ordered = sorted(self.numbers)
        size = self.size
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
        first = _running(ordered)
        second = _running([x * x for x in ordered])
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
    people = len(answers.numbers)
    size = answers.size
    worlds = answers.worlds
    if answers.kind == "count":
        return np.full(worlds, size) if worlds <= ENTRIES else None
    if answers.kind == "function":
        return answer_worlds(answers)
    if worlds == people and people > 2:
        return _one_out(answers) if size > 1 else _one_kept(answers)
    if worlds * size > ENTRIES:
        return None
    numbers = integers(answers.numbers, answers.largest)
    tables = tables_of(people, size)
    if answers.kind == "quantile":
        low, s, t = answers.ranks()
        ordered = np.sort(numbers[tables], axis=1)
        return np.asarray(ordered[:, low] * (t - s) + ordered[:, low + (s > 0)] * s)
    first = numbers[tables].sum(axis=1)
    if answers.kind in ("sum", "mean"):
        return np.asarray(first)
    return np.asarray(size * (numbers * numbers)[tables].sum(axis=1) - first * first)


@lru_cache(maxsize=8)
def answer_worlds(answers: Answers) -> Numbers:
    """Return a function's answer in every world, in the order of itertools.combinations: float64, or Python's integers.

    Answers that rounding alone separates are made equal, as worlds of equal answers hide each other. Raises
    DeclarationError where there are more than 2,000,000 worlds.
    """
    if answers.worlds > MOST_TABLES:
        raise DeclarationError(
            f"query {answers.statistic.name} is answered by enumeration, of {answers.worlds:,} worlds here: at most "
            f"{MOST_TABLES:,}; take a smaller universe or size, or a query that is known by a word"
        )
    values = [as_number(Fraction(number, answers.denominator)) for number in answers.numbers]
    tables = tables_of(len(values), answers.size).tolist()
    listed = answer_tables(answers.statistic, [tuple(sorted(values[place] for place in row)) for row in tables])
    if all(float(answer).is_integer() for answer in listed):
        return np.array([int(answer) for answer in listed], dtype=object)
    numbers = np.array([float(answer) for answer in listed])
    order = np.argsort(numbers, kind="stable")
    ascending = numbers[order]
    starts = np.append(True, np.diff(ascending) > 1e-13 * np.abs(numbers).max())
    numbers[order] = ascending[np.flatnonzero(starts)][np.cumsum(starts) - 1]
    return numbers


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


# ---- How many worlds give each answer, in exact integers, without a list of the worlds. It may not know noise or
# priors

# Below it, listing is as quick as counting.
_LISTED_FIRST = 200_000
# Cells that a subset-sum count may touch.
_WORK = 1_500_000_000
# Cells that it may hold.
_CELLS = 40_000_000
# Pairs of neighboring order statistics.
_PAIRS = 4_000_000
# Bits in one column of binomials.
_DIGITS = 400_000_000


@dataclass(frozen=True, slots=True)
class Tally:
    """Hold the distinct keys in ascending order and how many worlds give each: exact, or logarithms where too many."""

    keys: Numbers
    counts: Numbers | None
    log_counts: Floats


def tally(answers: Answers) -> Tally | None:
    """Return how many worlds give each answer, or None where neither counting nor listing is feasible.

    Sum and mean by subset-sum counting over 1/denominator, var and std by counting (sum x, sum x^2) together, quantiles
    by binomials of positions: a table has position i at rank r in C(i, r) C(N-1-i, m-1-r) ways.

    >>> from sordino.lab.sensitivity.statistics import statistic_from
    >>> found = tally(Answers((1, 2, 3, 10), 1, statistic_from("median", ddof=0), 3))
    >>> found.keys.tolist(), found.counts.tolist()
    ([2, 3], [2, 2])
    """
    if answers.kind == "count":
        return _tally(np.array([answers.size]), [answers.worlds])
    if answers.kind == "quantile":
        return _quantile_tally(answers)
    people = len(answers.numbers)
    if answers.worlds * answers.size > _LISTED_FIRST and answers.worlds != people:
        counted = _count_tables(answers)
        if counted is not None:
            return counted
    keys = listing(answers)
    if keys is None:
        return None
    distinct, counts = np.unique(keys, return_counts=True)
    return Tally(distinct, counts, np.log(counts))


def subset_sums(numbers: list[int], size: int) -> tuple[Numbers, Numbers] | None:
    """Return the sums of all subsets of `size` nonnegative integers, ascending, and exactly how many subsets give each.

    O(N m R) for sums up to R; None where that is too much.

    >>> [part.tolist() for part in subset_sums([0, 1, 1, 2], 2)]
    [[1, 2, 3], [2, 2, 2]]
    """
    people = len(numbers)
    flipped = 2 * size > people
    fewer = people - size if flipped else size
    ordered = sorted(numbers)
    ways = math.comb(people, fewer)
    top = sum(ordered[people - fewer :])
    limbs = -(-(ways.bit_length() + 1) // 64)
    cells = (top + 1) * (fewer + 1) * limbs // 2
    if cells > _CELLS or cells * people // 2 > _WORK:
        return None
    counts = _small_counts(ordered, fewer, top) if limbs == 1 else _large_counts(ordered, fewer, limbs)
    sums = np.flatnonzero(counts)
    counts = counts[sums]
    if flipped:
        return np.asarray(sum(numbers) - sums[::-1]), counts[::-1]
    return np.asarray(sums), counts


def _small_counts(ordered: list[int], size: int, top: int) -> Numbers:
    """Count in int64: row j holds the number of subsets of j records for each sum up to the largest of j records."""
    people = len(ordered)
    rows = [np.zeros(sum(ordered[people - j :]) + 1, dtype=np.int64) for j in range(size)]
    rows.append(np.zeros(top + 1, dtype=np.int64))
    rows[0][0] = 1
    # The largest sum of j records so far.
    reach = [0] * (size + 1)
    for before, number in enumerate(ordered):
        # Fewer records could not grow to `size`.
        for j in range(min(before + 1, size), max(0, size - people + before), -1):
            width = reach[j - 1] + 1
            rows[j][number : number + width] += rows[j - 1][:width]
            # Records come ascending, so the last ones give the largest sum.
            reach[j] = reach[j - 1] + number
    return rows[size]


def _large_counts(ordered: list[int], count: int, limbs: int) -> Numbers:
    """Count in Python's integers: a row is one integer with a count in each block of `limbs` words."""
    bits = 64 * limbs
    rows = [1] + [0] * count
    for before, number in enumerate(ordered):
        for j in range(min(before + 1, count), max(0, count - len(ordered) + before), -1):
            rows[j] += rows[j - 1] << (number * bits)
    size = bits // 8
    raw = rows[count].to_bytes(-(-rows[count].bit_length() // bits) * size, "little")
    return np.array([int.from_bytes(raw[at : at + size], "little") for at in range(0, len(raw), size)], dtype=object)


def _count_tables(answers: Answers) -> Tally | None:
    """Count the sums, or the pairs (sum x, sum x^2) as one number, of the numbers shifted and reduced."""
    least = min(answers.numbers)
    size = answers.size
    step = math.gcd(*(x - least for x in answers.numbers)) or 1
    small = [(x - least) // step for x in answers.numbers]
    if answers.kind in ("sum", "mean"):
        counted = subset_sums(small, size)
        if counted is None:
            return None
        keys = integers(counted[0].tolist(), sum(small) * step + size * abs(least)) * step + size * least
        return _tally(keys, counted[1])
    radix = sum(sorted(x * x for x in small)) + 1
    counted = subset_sums([x * radix + x * x for x in small], size)
    if counted is None:
        return None
    pairs = ((int(both) // radix, int(both) % radix) for both in counted[0])
    merged: dict[int, int] = {}
    for (first, second), ways in zip(pairs, counted[1].tolist(), strict=True):
        key = (size * second - first * first) * step * step
        merged[key] = merged.get(key, 0) + ways
    ordered = sorted(merged)
    return _tally(integers(ordered, max(ordered)), [merged[key] for key in ordered])


def _quantile_tally(answers: Answers) -> Tally | None:
    """Count the worlds by the order statistic, or the pair of neighboring ones, that a quantile is made of."""
    ordered = sorted(answers.numbers)
    size = answers.size
    people = len(ordered)
    low, s, t = answers.ranks()
    if (people - size + 2) * answers.worlds.bit_length() > _DIGITS:
        return None
    # The positions that either rank can hold.
    last = people - size + low + 1
    positions = range(low, min(last, people - 1) + 1)
    # C(i, r): the others under position i.
    below = _column(positions, low)
    above = _column([people - 1 - i for i in reversed(positions)], size - 1 - low)[::-1]
    distinct: dict[int, int] = {}
    # Ways to fill ranks 0..r with this value at rank r.
    lefts: list[int] = []
    # Worlds with this value at rank r.
    singles: list[int] = []
    for i, under, over in zip(positions, below, above, strict=True):
        if ordered[i] not in distinct:
            distinct[ordered[i]] = i
            lefts.append(0)
            singles.append(0)
        lefts[-1] += under
        singles[-1] += under * over
    values = list(distinct)
    if not s:
        worlds_by_key = [(value * t, ways) for value, ways in zip(values, singles, strict=True) if ways]
        return _tally(integers([k for k, _ in worlds_by_key], answers.largest), [ways for _, ways in worlds_by_key])
    if len(values) ** 2 // 2 > _PAIRS:
        return None
    # The first position past each value.
    starts = [*list(distinct.values())[1:], positions[-1] + 1]
    # Ways for the ranks above r to lie past the value.
    beyond = [math.comb(people - start, size - 1 - low) for start in starts]
    equal = [single - left * after for single, left, after in zip(singles, lefts, beyond, strict=True)]
    rights = [before - after for before, after in zip([beyond[0], *beyond], beyond, strict=False)]
    numbers = integers(values, answers.largest)
    return _merge_pairs(numbers, lefts, rights, equal, answers.denominator, s=s, t=t)


def _merge_pairs(
    numbers: Numbers, lefts: list[int], rights: list[int], equal: list[int], denominator: int, *, s: int, t: int
) -> Tally:
    """Merge the pairs low < high and the equal pairs into one tally; exact while there are few."""
    lower, upper = np.triu_indices(len(numbers), k=1)
    ties = np.arange(len(numbers))
    if lower.size <= 20_000:
        merged: dict[int, int] = {}
        ways = chain((lefts[i] * rights[j] for i, j in zip(lower, upper, strict=True)), equal)
        ends = chain(zip(lower, upper, strict=True), zip(ties, ties, strict=True))
        for (i, j), way in zip(ends, ways, strict=True):
            if way:
                key = int(numbers[i]) * (t - s) + int(numbers[j]) * s
                merged[key] = merged.get(key, 0) + way
        ordered = sorted(merged)
        return _tally(integers(ordered, max(map(abs, ordered))), [merged[key] for key in ordered])
    # There is no room for exact keys: answers are floats, where rounding may separate equal ones.
    if numbers.dtype == object:
        floats = np.array([int(x) / denominator for x in numbers])
        keys = np.concatenate([floats[lower] + (floats[upper] - floats[lower]) * (s / t), floats])
    else:
        keys = np.concatenate([numbers[lower] * (t - s) + numbers[upper] * s, numbers * t])
    logs = np.concatenate([_logs(lefts)[lower] + _logs(rights)[upper], _logs(equal)])
    finite = logs > -math.inf
    keys = keys[finite]
    logs = logs[finite]
    order = np.argsort(keys)
    keys = keys[order]
    logs = logs[order]
    firsts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    if firsts.size < keys.size:
        keys = keys[firsts]
        logs = np.asarray(np.logaddexp.reduceat(logs, firsts))
    return Tally(keys, None, logs)


def _column(positions: Iterable[int], rank: int) -> list[int]:
    """Return C(i, chosen) for ascending consecutive positions, each from the one before."""
    column: list[int] = []
    for i in positions:
        if i <= rank or not column or not column[-1]:
            column.append(math.comb(i, rank))
        else:
            column.append(column[-1] * i // (i - rank))
    return column


def _tally(keys: Numbers, counts: Any) -> Tally:
    listed = counts.tolist() if isinstance(counts, np.ndarray) else list(counts)
    exact = integers(listed, max(listed))
    return Tally(np.asarray(keys), exact, np.log(exact) if exact.dtype != object else _logs(listed))


def _logs(counts: list[int]) -> Floats:
    return np.array([math.log(count) if count else -math.inf for count in counts])
