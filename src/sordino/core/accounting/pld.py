"""Privacy loss distributions of a finished list of events: its epsilon at a delta, and its delta at an epsilon.

It knows events by their profiles only. The list must be fixed beforehand: nothing here is a filter that decides whether
one more question may be asked. Whatever it returns is at or above the true value.

Events of a few common laws are placed on the grid together, as rows; all others by their own profiles.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from sordino.core.accounting.bounded_range import BoundedRangeEvent
from sordino.core.accounting.discrete import DiscreteGaussianEvent, DiscreteLaplaceEvent
from sordino.core.accounting.discretize import (
    GridRows,
    approximate,
    gaussian_outcomes,
    laplace_rows,
    outcome_rows,
    response_rows,
    zcdp_losses,
)
from sordino.core.accounting.event_fields import read_amount, read_delta
from sordino.core.accounting.events import ApproxEvent, Composed, GaussianEvent, LaplaceEvent, parts, summands
from sordino.core.accounting.fft import (
    PldRows,
    PmfSum,
    convolve,
    deviation,
    step_data,
    tabulate,
    tilt_for_delta,
    tilt_for_epsilon,
)
from sordino.core.errors import DeclarationError
from sordino.core.loss import Event, Grid, Losses, Number, PrivacyLoss
from sordino.core.rounding import float_up

_TOGETHER = 32  # Gaussians, of some hundred outcomes each
_WIDE = 4096  # blocks of one Laplace law, beyond which it has rows of its own
_Counts = list[tuple[Event, int]]


def lay_out(counts: Mapping[Event, int], grid: Grid) -> tuple[list[PldRows], list[PldRows]]:
    """Return the losses of all events as rows, with the unit removed and added; one list twice where they are alike.

    What has only a rho is summed by rho first. Raises DeclarationError where an event has no bound at all.
    """
    responses: list[tuple[float, float, int]] = []
    laplaces: list[tuple[float, int, int]] = []
    gaussians: list[tuple[DiscreteGaussianEvent, int]] = []
    others: _Counts = []
    for event, times in counts.items():
        if isinstance(event, LaplaceEvent | ApproxEvent) and event.epsilon:
            delta = float_up(event.delta) if isinstance(event, ApproxEvent) else 0.0
            responses.append((float_up(event.epsilon), delta, times))
        elif isinstance(event, DiscreteLaplaceEvent) and event.epsilon and event.steps < _WIDE:
            if event.steps == 1:
                responses.append((float_up(event.epsilon), 0.0, times))
            else:
                laplaces.append((float_up(event.epsilon), event.steps, times))
        elif isinstance(event, DiscreteGaussianEvent) and event.cells == 1:
            gaussians.append((event, times))
        else:
            others.append((event, times))
    losses = _profiles(others, grid)
    alike = [
        part for part in (_responses(responses, grid), _laplaces(laplaces, grid), *_gaussians(gaussians, grid)) if part
    ]
    removed = _rows([(loss.removed, times) for loss, times in losses])
    if all(loss.added is loss.removed for loss, _ in losses):
        both = [*alike, *removed]
        return both, both
    return [*alike, *removed], [*alike, *_rows([(loss.added, times) for loss, times in losses])]


def rough_rho(event: Event) -> float:
    """Return about the rho of an event, to choose a grid by; 1 where nothing is known."""
    if isinstance(event, LaplaceEvent | ApproxEvent | DiscreteLaplaceEvent):
        return float(event.epsilon) ** 2 / 2
    if isinstance(event, DiscreteGaussianEvent):
        return event.cells * event.shift**2 / (2 * float(event.sigma_squared))
    rho, pair = event.rho(), event.approx()
    return float(rho) if rho is not None else float(pair[0]) ** 2 / 2 if pair is not None else 1.0


def _responses(several: list[tuple[float, float, int]], grid: Grid) -> PldRows | None:
    """Lay out randomized responses that reveal all with probability delta."""
    if not several:
        return None
    epsilon, delta, times = (np.array(column) for column in zip(*several, strict=True))
    return PldRows(*response_rows(epsilon, delta, grid), times, delta)


def _laplaces(several: list[tuple[float, int, int]], grid: Grid) -> PldRows | None:
    if not several:
        return None
    epsilon, steps, times = (np.array(column) for column in zip(*several, strict=True))
    return PldRows(*laplace_rows(epsilon, steps.astype(np.float64), grid), times, np.zeros(times.size))


def _gaussians(several: list[tuple[DiscreteGaussianEvent, int]], grid: Grid) -> list[PldRows]:
    """Lay out discrete Gaussian noise, a few of like losses at a time, so that the arrays stay small."""
    ordered = sorted(several, key=lambda pair: pair[0].shift / math.sqrt(pair[0].sigma_squared))
    found = []
    for first in range(0, len(ordered), _TOGETHER):
        some = ordered[first : first + _TOGETHER]
        outcomes = [gaussian_outcomes(-float_up(-event.sigma_squared), event.shift, grid) for event, _ in some]
        for width in {len(each) for each in outcomes}:
            chosen = [i for i, each in enumerate(outcomes) if len(each) == width]
            row = np.repeat(np.arange(len(chosen)), [outcomes[i][0].size for i in chosen])
            columns = [np.concatenate([outcomes[i][k] for i in chosen]) for k in range(width)]
            where = outcome_rows(columns, row, grid)
            times = np.array([some[i][1] for i in chosen])
            found.append(PldRows(*_together(where), times, np.full(times.size, grid.tail)))
    return found


def _together(found: GridRows) -> GridRows:
    """Return one mass for each loss of a row."""
    row, at, mass = found
    start, slack = int(at.min()), 1 + 2.3e-16 * at.size  # of sums
    width = int(at.max()) - start + 1
    if width * (int(row.max()) + 1) > 8 * at.size + 4096:
        return found
    summed = np.bincount(row * width + (at - start), weights=mass)
    kept = np.flatnonzero(summed)
    return kept // width, kept % width + start, summed[kept] * slack


def _rows(losses: list[tuple[Losses, int]]) -> list[PldRows]:
    """Return the rows of losses that were computed one by one."""
    if not losses:
        return []
    row = np.repeat(np.arange(len(losses)), [one.at.size for one, _ in losses])
    at, mass = np.concatenate([one.at for one, _ in losses]), np.concatenate([one.mass for one, _ in losses])
    infinite, times = np.array([one.infinite for one, _ in losses]), np.array([times for _, times in losses])
    return [PldRows(row, at, mass, times, infinite)]


def _profiles(counts: _Counts, grid: Grid) -> list[tuple[PrivacyLoss, int]]:
    """Return the losses of each event; at the end those of all that have only a rho."""
    found: list[tuple[PrivacyLoss, int]] = []
    rho = Fraction(0)
    for event, times in counts:
        loss = event.profile(grid)
        if loss is not None:
            found.append((loss, times))
            continue
        concentration, pair = event.rho(), event.approx()
        if concentration is not None:
            rho += times * concentration
        elif pair is not None:
            found.append((approximate(float_up(pair[0]), float_up(pair[1]), grid), times))
        else:
            raise DeclarationError("an event has neither losses, rho nor (epsilon, delta): nothing bounds the list")
    return [*found, (zcdp_losses(float_up(rho), grid), 1)] if rho else found


_ACCURACY = 1e-4  # of the whole, that the grid may add
_COARSEST = 2.5e-4  # of the whole: a step, so that a few events too have a fine grid
_PLAUSIBLE = 0.05  # of the deviation: a normal loss of small deviation has .4 of it as its delta at 0
_FINEST = 1e-14  # a step: losses below it are nothing
_MOST_STEPS = 2e6  # that the whole may have


def pld_epsilon(events: Sequence[Event], delta: Number) -> float:
    """Return the least epsilon at `delta` of all events together, by their privacy loss distributions, rounded up.

    Sommer, Meiser, Mohammadi 2019; Koskela, Jalko, Honkela 2020. Events without losses of their own are summed by rho
    first, or taken at their (epsilon, delta). So are events of bounded range where that gives less: no one pair of laws is
    the worst for all of them, and the least that dominates them all composes badly.

    Returns infinity where delta cannot be reached. Raises DeclarationError unless
    0 < delta < 1, and where an event has no bound at all.

    >>> from sordino.core.accounting.events import LaplaceEvent
    >>> round(pld_epsilon([LaplaceEvent(1)] * 2, 1e-6), 4)
    2.0
    """
    target = read_delta(delta)
    goal = math.nextafter(target.numerator / target.denominator, 0.0)
    return min(_epsilon(several, goal) for several in _readings(events))


def _epsilon(events: Sequence[Event], goal: float) -> float:
    worst = 0.0
    pures = [event.pure() for event in events]
    whole = math.inf if None in pures else float_up(sum((pure for pure in pures if pure is not None), Fraction(0)))
    for sums in _totals(events, goal, tail=goal * 1e-9):
        left = goal - sums.infinite
        if left <= 0:
            return math.inf
        worst = max(worst, min(_least(sums, goal, left), _all_of(sums)))
    return min(worst, whole)


def pld_delta(events: Sequence[Event], epsilon: Number) -> float:
    """Return the least delta at `epsilon` of all events together, by their privacy loss distributions, rounded up.

    Raises DeclarationError where epsilon is negative, and where an event has no bound at all.

    >>> from sordino.core.accounting.events import LaplaceEvent
    >>> round(pld_delta([LaplaceEvent(1)], 0), 6)  # tanh(1/2)
    0.462117
    """
    bound = read_amount(epsilon, name="epsilon")
    least = math.nextafter(bound.numerator / bound.denominator, 0.0)
    return min(_delta(several, least) for several in _readings(events))


def _delta(events: Sequence[Event], least: float) -> float:
    worst = 0.0
    for sums in _totals(events, 1.0, tail=1e-20):
        if least >= sums.most:
            worst = max(worst, sums.infinite)
            continue
        found = convolve(sums, tilt_for_epsilon(sums, least), log_goal=-60.0, below=least)
        worst = max(worst, found.delta(least))
    return worst


def _readings(events: Sequence[Event]) -> list[Sequence[Event]]:
    """Return the list as it is and, with several of bounded range, those as their rho: either is valid for the list."""
    several = [part for event in events for part in parts(event)]
    ranges = [event for event in several if isinstance(event, BoundedRangeEvent)]
    if len(ranges) < 2:
        return [events]
    rho = sum((event.rho() for event in ranges), Fraction(0))
    return [events, [GaussianEvent(rho), *(event for event in several if not isinstance(event, BoundedRangeEvent))]]


def _least(sums: PmfSum, goal: float, left: float) -> float:
    """Return the epsilon in one direction; a window that begins above it is moved down."""
    if goal > _PLAUSIBLE * min(1.0, deviation(sums)):  # else delta at 0 is far above it
        found = convolve(sums, tilt_for_epsilon(sums, 0.0), log_goal=math.log(left), below=0.0)
        if found.delta(0.0) <= goal:
            return 0.0
    tilt, least = tilt_for_delta(sums, left), math.inf
    below = math.inf
    for turn in range(8):
        found = convolve(sums, tilt, log_goal=math.log(left), below=below)
        epsilon = found.epsilon(goal)
        least = min(least, epsilon)
        if epsilon == 0:
            break
        if epsilon > found.first * found.step:
            wanted = tilt_for_epsilon(sums, min(epsilon, found.top))
            if tilt < 1.5 * wanted:
                break
            tilt, below = wanted, epsilon / 2  # of a tilt far off, delta at epsilon has few digits
            continue
        below = max(0.0, epsilon * (1 - (turn + 1) / 7))
        tilt = min(tilt_for_epsilon(sums, epsilon), 0.7 * tilt)
    return least


def _all_of(sums: PmfSum) -> float:
    """Return the largest finite loss: beyond it delta is what is infinite."""
    return max(0.0, sums.most) * (1 + 1e-14)


def _totals(events: Sequence[Event], delta: float, *, tail: float) -> list[PmfSum]:
    """Return what is summed in each direction that differs, on a grid fine enough for it; `tail` in all is infinite."""
    counts, split = Counter(events), Counter[Event]()
    for event in [event for event in counts if isinstance(event, Composed | DiscreteGaussianEvent)]:
        found = summands(event)
        if found != [(event, 1)]:
            times = counts.pop(event)
            for part, each in found:
                split[part] += times * each
    counts.update(split)
    if not counts:
        return []
    several = sum(counts.values())
    share = max(tail / several, 1e-300)
    largest = max((float_up(pure) for event in counts if (pure := event.pure()) is not None), default=0.0)
    step, floor = _fit_step(max(_first_step(counts), _FINEST), largest), 0.0
    for _ in range(8):
        rows, others = lay_out(counts, Grid(step, share))
        widest = max(int(np.abs(one.at).max()) for one in (*rows, *others))
        if widest > _MOST_STEPS:  # one event alone reaches too far for so fine a grid
            step = _fit_step(step * widest / _MOST_STEPS * 4, largest)
            floor = step
            continue
        sums = [tabulate(rows, step)] if others is rows else [tabulate(rows, step), tabulate(others, step)]
        reach = max(one.reach for one in sums)
        wanted = _fit_step(max(_step_for(sums, several, delta), floor, reach / _MOST_STEPS, _FINEST), largest)
        if wanted > 0.6 * step:
            break
        step = wanted
    return sums


def _first_step(counts: Counter[Event]) -> float:
    """Return a step from the parameters alone, coarse where they say little."""
    rho = math.fsum(times * rough_rho(event) for event, times in counts.items())
    return _step(rho, 2 * rho, sum(counts.values())) or 1.0


def _step_for(sums: Sequence[PmfSum], several: int, delta: float) -> float:
    """Return the step that the losses themselves ask for; rare large ones count where one alone passes delta."""
    mean, variance, far = (max(column) for column in zip(*(step_data(one, delta) for one in sums), strict=True))
    return _step(max(mean, 0.0), variance, several, far) or sums[0].step


def _step(mean: float, variance: float, several: int, far: float = 0.0) -> float:
    """Return the step at which a grid adds about `_ACCURACY` to an epsilon of about mean + 3 deviations, or far / 2.

    A step h adds up to h^2 / 6 to each mean and h^2 / 4 to each variance (twice that over the deviation to epsilon).
    """
    deviation = math.sqrt(variance)
    epsilon = max(mean + 3 * deviation, far / 2)
    whole = _ACCURACY * epsilon
    square = min(6 * whole, max(1.6 * whole * deviation, 4 * (whole / 5) ** 2)) / several
    return max(min(math.sqrt(square), _COARSEST * epsilon), epsilon / _MOST_STEPS)


def _fit_step(step: float, epsilon: float) -> float:
    """Return a step a little smaller, of which epsilon is a whole multiple: the end of its losses then needs no rounding."""
    return epsilon / math.ceil(epsilon / step) if epsilon > step else step
