"""The losses of many different events at once, laid out as rows: the same as each event's profile, in fewer calls.

It knows the laws of a few common events, which it places on the grid together; all others by their own profiles.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from sordino.accounting.discretize import (
    GridRows,
    approximate,
    gaussian_outcomes,
    laplace_rows,
    outcome_rows,
    response_rows,
    zcdp_losses,
)
from sordino.accounting.events import ApproxEvent, DiscreteGaussianEvent, DiscreteLaplaceEvent, LaplaceEvent
from sordino.accounting.fft import PldRows
from sordino.errors import DeclarationError
from sordino.loss import Event, Grid, Losses, PrivacyLoss
from sordino.rounding import float_up

__all__ = ["lay_out", "rough_rho"]

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
