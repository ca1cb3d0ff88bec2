"""Bins: their public edges, which noisy bins hold rows, and the sums of clipped values that follow from them.

All of it is public facts or post-processing of noisy numbers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sordino.ask.queries.adaptive.magnitudes import TOP, powers_of_two
from sordino.ask.queries.expressions.bound_number import BoundNumber
from sordino.core.errors import QuestionRefused
from sordino.core.estimates.noisy import Noisy
from sordino.core.estimates.second_moments import sum_margin

# Steps between declared bounds up to which bins of equal width serve, and how many of these there are.
_NARROW = 4096
_BINS = 64
# Bins within the highest and the lowest power of two found: a bound is at most an eighth too wide.
_PIECES = 8
# Deviations of its noise that the rows beyond a bound within a power of two must pass to count as rows.
_VISIBLE = 4.5
# The chance that noise alone makes any empty bin look occupied.
_FALSE_ALARM = 0.05


@dataclass(frozen=True, slots=True)
class ClippedSums:
    """The sum of values clipped at each bound of one side, with the deviation of its noise, in the question's units."""

    side: str
    bounds: tuple[float, ...]
    sums: tuple[float, ...]
    deviations: tuple[float, ...]


def bounds_in_steps(number: BoundNumber) -> tuple[int, int]:
    """Return the declared bounds, in steps, of a number that has both."""
    low = number.interval.lower
    high = number.interval.upper
    assert low is not None
    assert high is not None
    return int(low), int(high)


def is_narrow(number: BoundNumber) -> bool:
    """Return whether the declared bounds are so close that bins of equal width serve."""
    low = number.interval.lower
    high = number.interval.upper
    return low is not None and high is not None and high - low <= _NARROW


def equal_bins(low: int, high: int, bins: int = _BINS) -> tuple[int, ...]:
    """Return the edges of at most `bins` bins of about the same width from low to high, in steps.

    >>> equal_bins(0, 10, 4)
    (0, 3, 6, 9, 11)
    """
    width = max(1, -(-(high + 1 - low) // bins))
    return (*range(low, high + 1, width), high + 1)


def check_reach(number: BoundNumber) -> None:
    """Raise QuestionRefused where a declared bound lies beyond all bins, before a search is charged.

    A bound that is declared may be an edge itself, below 2^TOP; one that is to be found lies among `powers_of_two`.
    """
    low = number.interval.lower
    high = number.interval.upper
    reach = 2 ** (TOP - 1)
    beyond = any(abs(int(end)) >= 2 * reach for end in (low, high) if end is not None)
    nothing_above = low is not None and high is None and low > reach
    nothing_below = high is not None and low is None and high < -reach
    if beyond or nothing_above or nothing_below:
        raise QuestionRefused(
            f"bounds are found among numbers of up to 2^{TOP - 1} steps of their grid, and a declared end of this one lies "
            "beyond: clip it first, as in CLIP(x, 0, 100)"
        )


def clip_edges(edges: Sequence[int], number: BoundNumber) -> tuple[int, ...]:
    """Return the edges inside the declared bounds, with those bounds as the ends where they are declared."""
    low = None if number.interval.lower is None else int(number.interval.lower)
    high = None if number.interval.upper is None else int(number.interval.upper) + 1
    inner = [e for e in edges if (low is None or e > low) and (high is None or e < high)]
    return (*([] if low is None else [low]), *inner, *([] if high is None else [high]))


def search_edges(number: BoundNumber, each: int) -> tuple[int, ...]:
    """Return edges within the declared bounds: of equal bins where these are narrow, else `each` bins a power of two."""
    if is_narrow(number):
        return equal_bins(*bounds_in_steps(number), 4 * _BINS)
    powers = powers_of_two()
    edges = {low + (high - low) * i // each for low, high in itertools.pairwise(powers) for i in range(each)}
    return clip_edges(sorted({*edges, powers[-1]}), number)


def find_occupied(rows: Noisy, false_alarm: float = _FALSE_ALARM) -> tuple[int, int] | None:
    """Return the first and last bin that hold more rows than noise explains, or None where no bin does.

    `false_alarm` is the chance that noise alone makes any empty bin look occupied.

    A bin is found by its own count, or by a run of bins to the end of the histogram that holds enough together: the
    threshold of each is the quantile of its noise below which all empty ones stay with probability 1 - `false_alarm`.
    """
    counts = rows.steps
    size = len(rows.steps)
    threshold = rows.law.error(1 - false_alarm / size)
    deviation = math.sqrt(rows.law.variance())
    depth = math.log(4 * size / false_alarm)

    def outermost(order: Sequence[int]) -> int | None:
        """Return the first occupied bin of `order`."""
        total = 0
        for length, i in enumerate(order, start=1):
            total += counts[i]
            run = deviation * 2 * max(math.sqrt(length * depth), depth)
            if counts[i] > threshold or (length > 1 and total > run):
                return i
        return None

    first = outermost(range(size))
    last = outermost(range(size - 1, -1, -1))
    # A run is found at its inner end, so the two can cross.
    return None if last is None or first is None else (min(first, last), max(first, last))


def rows_at_most(rows: Noisy, places: Sequence[int]) -> float:
    """Return at most how many rows the bins at these places, from an end of the histogram, hold: noisy sum plus margin.

    With probability 0.95 the margin holds for all runs from both ends together (Bonferroni), so also for a run whose
    length follows from the noise.

    >>> from sordino.core.noise.laws import DiscreteLaplace
    >>> rows_at_most(Noisy((5, 7, 900), Fraction(1), DiscreteLaplace(Fraction(0))), [0, 1])
    12.0
    """
    unit = float(rows.unit)
    length = len(places)
    confidence = 1 - _FALSE_ALARM / (2 * len(rows.steps))
    margin = sum_margin([rows.law] * length, [unit] * length, confidence) if length else 0.0
    return max(0.0, math.fsum(rows.steps[i] * unit for i in places) + margin)


def trim_ends(edges: Sequence[int], rows: Noisy, low: int, high: int) -> tuple[int, int]:
    """Return the first and last bin to keep of refined edges whose end powers of two lie below `low` and above `high`.

    From each end inward, bins are dropped while the rows dropped so far are below 4.5 deviations of their noise. No union
    bound: here noise costs a factor of two at most, and missed rows would cost bias. An end power of two in which no bin
    stands out, but which holds some rows by this second count too, is kept entirely; else it was noise, and is dropped.
    """
    deviation = math.sqrt(rows.law.variance())

    def outermost(order: Sequence[int], refined: int) -> int:
        total = 0
        for length, i in enumerate(order, start=1):
            total += rows.steps[i]
            noise = deviation * math.sqrt(length)
            if total > _VISIBLE * noise:
                return i
            if length == refined and total > noise:
                return order[0]
        return order[0]

    size = len(rows.steps)
    below = sum(edge <= low for edge in edges[1:])
    above = sum(edge >= high for edge in edges[:-1])
    first = outermost(range(size), below)
    last = outermost(range(size - 1, -1, -1), above)
    return min(first, last), max(first, last)


def refine_ends(edges: Sequence[int], first: int, last: int) -> tuple[int, ...]:
    """Return the edges from bin `first` to bin `last`: these two cut finely, those between as they are."""
    refined = set(edges[first : last + 2])
    for low, high in ((edges[place], edges[place + 1]) for place in (first, last)):
        refined.update(low + (high - low) * i // _PIECES for i in range(_PIECES + 1))
    return tuple(sorted(refined))


def sums_by_bound(edges: Sequence[int], unit: Fraction, rows: Noisy, offsets: Noisy) -> list[ClippedSums]:
    """Return the sum clipped at each edge, for the upper side and, where edges lie below zero, the lower one.

    S(b_j) = sum over bins below j of (start_i n_i + r_i), plus b_j times the rows above; mirrored for the lower side.
    The deviation follows from the laws of the two noisy vectors.
    """
    step = float(rows.unit)
    n = [s * step for s in rows.steps]
    r = [s * float(offsets.unit) for s in offsets.steps]
    noise_n = rows.law.variance() * step**2
    noise_r = offsets.law.variance() * float(offsets.unit) ** 2
    starts = [float(e) for e in edges]
    scale = float(unit)
    widths = [b - a for a, b in itertools.pairwise(starts)]
    # Each bin's own sum: its start for every row, and the rows' offsets, which are released in widths of the bin.
    bin_sums = [f * c + w * o for f, c, w, o in zip(starts, n, widths, r, strict=False)]

    def sum_at(j: int, upper: bool) -> tuple[float, float]:
        inner, outer = (range(j), range(j, len(n))) if upper else (range(j, len(n)), range(j))
        total = math.fsum(bin_sums[i] for i in inner) + starts[j] * math.fsum(n[i] for i in outer)
        squares = math.fsum(starts[i] ** 2 * noise_n + widths[i] ** 2 * noise_r for i in inner)
        return total * scale, math.sqrt(squares + len(outer) * starts[j] ** 2 * noise_n) * scale

    curves: list[ClippedSums] = []
    for side in ("upper", "lower") if edges[0] < 0 else ("upper",):
        upper = side == "upper"
        places = range(1, len(edges)) if upper else range(len(edges) - 1)
        sums, deviations = zip(*(sum_at(j, upper) for j in places), strict=True)
        curves.append(ClippedSums(side, tuple(starts[j] * scale for j in places), sums, deviations))
    return curves
