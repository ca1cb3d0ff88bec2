"""How many worlds give each answer, in exact integers, without a list of the worlds. It may not know noise or priors."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from sordino.lab.risk.statistic_answers import Answers, Numbers, integers, listing
from sordino.lab.sensitivity.universe import Floats

_LISTED_FIRST = 200_000  # below it, listing is as quick as counting
_WORK = 1_500_000_000  # cells that a subset-sum count may touch
_CELLS = 40_000_000  # cells that it may hold
_PAIRS = 4_000_000  # pairs of neighboring order statistics
_DIGITS = 400_000_000  # bits in one column of binomials


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
    kept = people - size if flipped else size
    ordered, ways = sorted(numbers), math.comb(people, kept)
    top = sum(ordered[people - kept :])
    limbs = -(-(ways.bit_length() + 1) // 64)
    cells = (top + 1) * (kept + 1) * limbs // 2
    if cells > _CELLS or cells * people // 2 > _WORK:
        return None
    counts = _small_counts(ordered, kept, top) if limbs == 1 else _large_counts(ordered, kept, limbs)
    sums = np.flatnonzero(counts)
    counts = counts[sums]
    if flipped:
        return np.asarray(sum(numbers) - sums[::-1]), counts[::-1]
    return np.asarray(sums), counts


def _small_counts(ordered: list[int], kept: int, top: int) -> Numbers:
    """Count in int64: row j holds the number of subsets of j records for each sum up to the largest of j records."""
    people = len(ordered)
    rows = [np.zeros(sum(ordered[people - j :]) + 1, dtype=np.int64) for j in range(kept)]
    rows.append(np.zeros(top + 1, dtype=np.int64))
    rows[0][0] = 1
    reach = [0] * (kept + 1)  # the largest sum of j records seen so far
    for seen, number in enumerate(ordered):
        for j in range(min(seen + 1, kept), max(0, kept - people + seen), -1):  # fewer could not grow to `kept`
            width = reach[j - 1] + 1
            rows[j][number : number + width] += rows[j - 1][:width]
            reach[j] = reach[j - 1] + number  # ascending: the last ones are the largest
    return rows[kept]


def _large_counts(ordered: list[int], kept: int, limbs: int) -> Numbers:
    """Count in Python's integers: a row is one integer with a count in each block of `limbs` words."""
    bits = 64 * limbs
    rows = [1] + [0] * kept
    for seen, number in enumerate(ordered):
        for j in range(min(seen + 1, kept), max(0, kept - len(ordered) + seen), -1):
            rows[j] += rows[j - 1] << (number * bits)
    size = bits // 8
    raw = rows[kept].to_bytes(-(-rows[kept].bit_length() // bits) * size, "little")
    return np.array([int.from_bytes(raw[at : at + size], "little") for at in range(0, len(raw), size)], dtype=object)


def _count_tables(answers: Answers) -> Tally | None:
    """Count the sums, or the pairs (sum x, sum x^2) as one number, of the numbers shifted and reduced."""
    least, size = min(answers.numbers), answers.size
    step = math.gcd(*(x - least for x in answers.numbers)) or 1
    small = [(x - least) // step for x in answers.numbers]
    if answers.kind in ("sum", "mean"):
        found = subset_sums(small, size)
        if found is None:
            return None
        keys = integers(found[0].tolist(), sum(small) * step + size * abs(least)) * step + size * least
        return _tally(keys, found[1])
    radix = sum(sorted(x * x for x in small)) + 1
    found = subset_sums([x * radix + x * x for x in small], size)
    if found is None:
        return None
    pairs = ((int(both) // radix, int(both) % radix) for both in found[0])
    merged: dict[int, int] = {}
    for (first, second), ways in zip(pairs, found[1].tolist(), strict=True):
        key = (size * second - first * first) * step * step
        merged[key] = merged.get(key, 0) + ways
    ordered = sorted(merged)
    return _tally(integers(ordered, max(ordered)), [merged[key] for key in ordered])


def _quantile_tally(answers: Answers) -> Tally | None:
    """Count the worlds by the order statistic, or the pair of neighboring ones, that a quantile is made of."""
    ordered, size = sorted(answers.numbers), answers.size
    people, (low, s, t) = len(ordered), answers.ranks()
    if (people - size + 2) * answers.worlds.bit_length() > _DIGITS:
        return None
    first, last = low, people - size + low + 1  # the positions that either rank can hold
    positions = range(first, min(last, people - 1) + 1)
    below = _column(positions, low)  # C(i, r): the others under position i
    above = _column([people - 1 - i for i in reversed(positions)], size - 1 - low)[::-1]
    distinct: dict[int, int] = {}
    lefts: list[int] = []  # ways to fill ranks 0..r with this value at rank r
    singles: list[int] = []  # worlds with this value at rank r
    for i, under, over in zip(positions, below, above, strict=True):
        if ordered[i] not in distinct:
            distinct[ordered[i]] = i
            lefts.append(0)
            singles.append(0)
        lefts[-1] += under
        singles[-1] += under * over
    values = list(distinct)
    if not s:
        held = [(value * t, ways) for value, ways in zip(values, singles, strict=True) if ways]
        return _tally(integers([k for k, _ in held], answers.largest), [ways for _, ways in held])
    if len(values) ** 2 // 2 > _PAIRS:
        return None
    starts = [*list(distinct.values())[1:], positions[-1] + 1]  # first position past each value
    beyond = [math.comb(people - start, size - 1 - low) for start in starts]  # ranks above r, all past the value
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
    if numbers.dtype == object:  # no room for exact keys: answers as floats, where rounding may separate equal ones
        floats = np.array([int(x) / denominator for x in numbers])
        keys = np.concatenate([floats[lower] + (floats[upper] - floats[lower]) * (s / t), floats])
    else:
        keys = np.concatenate([numbers[lower] * (t - s) + numbers[upper] * s, numbers * t])
    logs = np.concatenate([_logs(lefts)[lower] + _logs(rights)[upper], _logs(equal)])
    held = logs > -math.inf
    keys, logs = keys[held], logs[held]
    order = np.argsort(keys)
    keys, logs = keys[order], logs[order]
    firsts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    if firsts.size < keys.size:
        keys, logs = keys[firsts], np.asarray(np.logaddexp.reduceat(logs, firsts))
    return Tally(keys, None, logs)


def _column(positions: Iterable[int], chosen: int) -> list[int]:
    """Return C(i, chosen) for ascending consecutive positions, each from the one before."""
    column: list[int] = []
    for i in positions:
        if i <= chosen or not column or not column[-1]:
            column.append(math.comb(i, chosen))
        else:
            column.append(column[-1] * i // (i - chosen))
    return column


def _tally(keys: Numbers, counts: Any) -> Tally:
    listed = counts.tolist() if isinstance(counts, np.ndarray) else list(counts)
    exact = integers(listed, max(listed))
    return Tally(np.asarray(keys), exact, np.log(exact) if exact.dtype != object else _logs(listed))


def _logs(counts: list[int]) -> Floats:
    return np.array([math.log(count) if count else -math.inf for count in counts])
