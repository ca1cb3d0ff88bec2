"""Rungs: which public ladders to try, which noisy rungs hold rows, and the clipped sums that follow from them.

All of it is public facts or post-processing of noisy numbers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sordino.estimates.moments import combined_margin
from sordino.estimates.noisy import Noisy
from sordino.queries.adaptive.magnitudes import powers_of_two
from sordino.queries.expressions.bound_number import BoundNumber

__all__ = [
    "Clipped",
    "clipped_sums",
    "declared",
    "ends_within",
    "linear",
    "narrow",
    "occupied",
    "refined",
    "rows_within",
    "spread",
    "within",
]

_NARROW = 4096  # steps between declared bounds up to which one linear ladder does
_RUNGS = 64  # of a linear ladder
_PIECES = 8  # rungs within the highest and the lowest octave found: a bound is at most an eighth too wide
_PLAIN = 4.5  # deviations of its noise that the rows beyond a bound within an octave must pass to be seen
_SURE = 0.05  # the chance that noise alone makes any empty rung look occupied


@dataclass(frozen=True, slots=True)
class Clipped:
    """The sum of values clipped at each bound of one side, with the deviation of its noise, in the question's units."""

    side: str
    bounds: tuple[float, ...]
    sums: tuple[float, ...]
    deviations: tuple[float, ...]


def declared(found: BoundNumber) -> tuple[int, int]:
    """Return the declared bounds, in steps, of a number that has both."""
    low, high = found.interval.lower, found.interval.upper
    assert low is not None
    assert high is not None
    return int(low), int(high)


def narrow(found: BoundNumber) -> bool:
    """Return whether the declared bounds are so close that one linear ladder tells all."""
    low, high = found.interval.lower, found.interval.upper
    return low is not None and high is not None and high - low <= _NARROW


def linear(low: int, high: int, rungs: int = _RUNGS) -> tuple[int, ...]:
    """Return the edges of at most `rungs` rungs of about the same width from low to high, in steps.

    >>> linear(0, 10, 4)
    (0, 3, 6, 9, 11)
    """
    width = max(1, -(-(high + 1 - low) // rungs))
    edges = list(range(low, high + 1, width))
    return (*edges, high + 1)


def within(edges: Sequence[int], found: BoundNumber) -> tuple[int, ...]:
    """Return the edges that lie inside the declared bounds, with those bounds as the ends where they are declared."""
    low = None if found.interval.lower is None else int(found.interval.lower)
    high = None if found.interval.upper is None else int(found.interval.upper) + 1
    inner = [e for e in edges if (low is None or e > low) and (high is None or e < high)]
    return (*([] if low is None else [low]), *inner, *([] if high is None else [high]))


def spread(found: BoundNumber, each: int) -> tuple[int, ...]:
    """Return a ladder over the declared bounds: linear where they are narrow, else with `each` rungs an octave."""
    if narrow(found):
        return linear(*declared(found), 4 * _RUNGS)
    edges: set[int] = set()
    rough = powers_of_two()
    for low, high in itertools.pairwise(rough):
        edges.update(low + (high - low) * i // each for i in range(each))
    return within(sorted({*edges, rough[-1]}), found)


def occupied(rows: Noisy, sure: float = _SURE) -> tuple[int, int] | None:
    """Return the first and last rung that hold more rows than noise explains, or None where no rung does.

    `sure` is the chance that noise alone makes any empty rung look occupied.

    A rung is told by its own count, or by a run of rungs to the end of the ladder that holds enough together: the
    threshold of each is the quantile of its noise at which all empty ones stay below it with probability 1 - `sure`.
    """
    counts, size = rows.steps, len(rows.steps)
    own = rows.law.error(1 - sure / size)
    deviation = math.sqrt(rows.law.variance())
    depth = math.log(4 * size / sure)

    def reached(order: Sequence[int]) -> int | None:
        """Return the rung nearest to the end of `order` that is occupied."""
        total = 0
        for length, i in enumerate(order, start=1):
            total += counts[i]
            run = deviation * 2 * max(math.sqrt(length * depth), depth)
            if counts[i] > own or (length > 1 and total > run):
                return i
        return None

    last, first = reached(range(size - 1, -1, -1)), reached(range(size))
    return None if last is None or first is None else (min(first, last), max(first, last))


def _margin(rows: Noisy, length: int) -> float:
    """Return what the noise of `length` rungs from an end of the ladder adds up to at most, in rows.

    With probability 0.95 it holds for all runs from both ends together (Bonferroni), so also for a run whose length
    follows from the noise.
    """
    if not length:
        return 0.0
    sure = 1 - _SURE / (2 * len(rows.steps))
    return combined_margin([rows.law] * length, [float(rows.unit)] * length, sure)


def rows_within(rows: Noisy, places: Sequence[int]) -> float:
    """Return at most how many rows the rungs at these places, from an end of the ladder, hold: noisy sum plus margin.

    >>> from sordino.noise.laws import DiscreteLaplace
    >>> rows_within(Noisy((5, 7, 900), Fraction(1), DiscreteLaplace(Fraction(0))), [0, 1])
    12.0
    """
    total = math.fsum(rows.steps[i] * float(rows.unit) for i in places)
    return max(0.0, total + _margin(rows, len(places)))


def ends_within(edges: Sequence[int], rows: Noisy, low: int, high: int) -> tuple[int, int]:
    """Return the first and last rung to keep of a refined ladder whose end octaves, up to `low` and from `high`, look occupied.

    From each end inward, rungs are dropped while the rows dropped so far are below 4.5 deviations of their noise. No union
    bound: here noise costs a factor of two at most, and rows that were missed would cost bias. An end octave in which no
    place is told, but which holds some rows by this second count too, is kept whole; else it was noise, and is left.
    """
    deviation = math.sqrt(rows.law.variance())

    def kept(order: Sequence[int], inside: int) -> int:
        total = 0
        for length, i in enumerate(order, start=1):
            total += rows.steps[i]
            noise = deviation * math.sqrt(length)
            if total > _PLAIN * noise:
                return i
            if length == inside and total > noise:
                return order[0]
        return order[0]

    size = len(rows.steps)
    below, above = (sum(1 for i in range(size) if edges[i + 1] <= low), sum(1 for i in range(size) if edges[i] >= high))
    first, last = kept(range(size), below), kept(range(size - 1, -1, -1), above)
    return min(first, last), max(first, last)


def refined(edges: Sequence[int], first: int, last: int) -> tuple[int, ...]:
    """Return the ladder from rung `first` to rung `last`: the two ends cut finely, those between as they are."""
    found = set(edges[first : last + 2])
    for low, high in ((edges[rung], edges[rung + 1]) for rung in (first, last)):
        found.update(low + (high - low) * i // _PIECES for i in range(_PIECES + 1))
    return tuple(sorted(found))


def clipped_sums(edges: Sequence[int], unit: Fraction, rows: Noisy, offsets: Noisy) -> list[Clipped]:
    """Return the sum clipped at each edge, for the upper side and, where the ladder goes below zero, the lower one.

    S(b_j) = sum over rungs below j of (foot_i n_i + r_i), plus b_j times the rows above; mirrored for the lower side.
    The deviation follows from the laws of the two noisy vectors.
    """
    step = float(rows.unit)
    n = [s * step for s in rows.steps]
    r = [s * float(offsets.unit) for s in offsets.steps]
    noise_n, noise_r = rows.law.variance() * step**2, offsets.law.variance() * float(offsets.unit) ** 2
    feet, scale = [float(e) for e in edges], float(unit)
    widths = [b - a for a, b in itertools.pairwise(feet)]
    whole = [f * c + w * o for f, c, w, o in zip(feet, n, widths, r, strict=False)]

    def at(j: int, upper: bool) -> tuple[float, float]:
        inner = range(j) if upper else range(j, len(n))
        total = math.fsum(whole[i] for i in inner)
        squares = math.fsum(feet[i] ** 2 * noise_n + widths[i] ** 2 * noise_r for i in inner)
        outer = range(j, len(n)) if upper else range(j)
        total += feet[j] * math.fsum(n[i] for i in outer)
        return total * scale, math.sqrt(squares + len(outer) * feet[j] ** 2 * noise_n) * scale

    sides = [("upper", True)] + ([("lower", False)] if edges[0] < 0 else [])
    made: list[Clipped] = []
    for name, upper in sides:
        places = range(1, len(edges)) if upper else range(len(edges) - 1)
        found = [at(j, upper) for j in places]
        bounds = tuple(feet[j] * scale for j in places)
        made.append(Clipped(name, bounds, tuple(s for s, _ in found), tuple(d for _, d in found)))
    return made
