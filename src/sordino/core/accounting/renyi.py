"""Renyi divergences of a finished list of events, at the order that gives the least epsilon. It knows events only.

Every order gives a valid bound: the search over orders can only be loose, never wrong.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sordino.core.accounting.discretize import Concentrated, Response, ShiftedGaussian, ShiftedLaplace
from sordino.core.accounting.event_fields import read_delta
from sordino.core.accounting.events import common_law
from sordino.core.accounting.zcdp import epsilon_from_renyi, epsilon_of
from sordino.core.loss import Event, Number
from sordino.core.rounding import float_up

Array = np.ndarray[Any, np.dtype[Any]]

_GOLDEN = (math.sqrt(5) - 1) / 2
# relative: more than sums of floats can lose
_SLACK = 1e-14
# of ln(order - 1): orders from 1.0001 to a million
_LOWEST = -9.0
_HIGHEST = 14.0


def renyi_epsilon(events: Sequence[Event], delta: Number) -> tuple[float, float]:
    """Return the least epsilon known at `delta` from the events' divergences, rounded up, and the order that gives it.

    At each order a: D + ln(1 - 1/a) - (ln delta + ln a) / (a - 1) (Canonne, Kamath, Steinke 2020, Proposition 12; Balle,
    Barthe, Gaboardi, Hsu, Sato 2020). Orders are searched from the best one of zCDP on, by golden section over
    ln(a - 1); where all events have a rho, the result is never worse than zCDP's own. Infinity where an event has no
    divergence. Raises DeclarationError unless 0 < delta < 1.

    >>> from sordino.core.accounting.events import GaussianEvent
    >>> from sordino.core.accounting.zcdp import epsilon_of
    >>> renyi_epsilon([GaussianEvent("1/2")], 1e-5)[0] <= epsilon_of("1/2", 1e-5)
    True
    """
    target = read_delta(delta)
    groups = _gather(events)
    if any(event.renyi(2.0) is None for event, _ in groups.others):
        return math.inf, math.inf
    rhos = [rho for event in events if (rho := event.rho()) is not None]
    total = sum(rhos, Fraction(0))
    bits = math.log(target.denominator) - math.log(target.numerator)
    # the best order of zCDP
    guess = 0.5 * math.log(bits / float(total)) if total else 0.0

    def at(log_order: float) -> float:
        order = 1 + math.exp(log_order)
        divergence = _sum(groups, order)
        return math.inf if divergence is None else epsilon_from_renyi(order, divergence, target)

    value, place = _least(at, min(max(guess, _LOWEST), _HIGHEST))
    order = 1 + math.exp(place)
    if len(rhos) == len(events):
        value = min(value, epsilon_of(total, target))
    return value, order


@dataclass(frozen=True, slots=True)
class _Groups:
    """Events by law: pure ones and discrete Laplace noise as columns, the sum of rhos, and all others with counts."""

    pure: Array
    pure_times: Array
    laplace: Array
    steps: Array
    laplace_times: Array
    rho: Fraction
    others: list[tuple[Event, int]]


def _gather(events: Iterable[Event]) -> _Groups:
    rho = Fraction(0)
    others: list[tuple[Event, int]] = []
    pure: list[tuple[float, int]] = []
    laplace: list[tuple[float, int, int]] = []
    for event, times in Counter(events).items():
        match common_law(event):
            case Response(epsilon, 0.0):
                pure.append((epsilon, times))
            case ShiftedLaplace(epsilon, steps):
                laplace.append((epsilon, steps, times))
            case Concentrated(amount):
                rho += times * amount
            case ShiftedGaussian(sigma_squared, shift, cells):
                rho += times * cells * shift**2 / (2 * sigma_squared)
            case _:
                others.append((event, times))
    two = np.array(pure, dtype=np.float64).reshape(-1, 2).T
    three = np.array(laplace, dtype=np.float64).reshape(-1, 3).T
    return _Groups(two[0], two[1], three[0], three[1], three[2], rho, others)


def _sum(groups: _Groups, order: float) -> float | None:
    infinite = math.inf if groups.rho else 0.0
    parts = [
        float(groups.pure_times @ responses_renyi(groups.pure, order)),
        float(groups.laplace_times @ laplaces_renyi(groups.laplace, groups.steps, order)),
        float_up(Fraction(order) * groups.rho) if math.isfinite(order) else infinite,
    ]
    for event, times in groups.others:
        divergence = event.renyi(order)
        if divergence is None:
            return None
        parts.append(times * divergence)
    return math.fsum(parts) * (1 + _SLACK + 2.3e-16 * (groups.pure.size + groups.laplace.size))


def responses_renyi(epsilon: Array, order: float) -> Array:
    """Return `LaplaceEvent.renyi` of many epsilons at one order, by the same formula."""
    if math.isinf(order):
        return epsilon
    small = np.minimum(epsilon, 500 / order)
    grown = 2 * np.sinh(order * small / 2) * np.sinh((order - 1) * small / 2) / np.cosh(small / 2)
    large = epsilon - (np.log1p(np.exp(-epsilon)) - np.log1p(np.exp((1 - 2 * order) * epsilon))) / (order - 1)
    value = np.where(order * epsilon < 500, np.log1p(grown) / (order - 1), large)
    return np.asarray(np.minimum(epsilon, value * (1 + 1e-13)))


def laplaces_renyi(epsilon: Array, steps: Array, order: float) -> Array:
    """Return `DiscreteLaplaceEvent.renyi` of many epsilons and steps at one order, by the same formula."""
    if math.isinf(order):
        return epsilon
    # an epsilon of 0 would divide by 0: it stands as 1 here, and has the divergence 0 at the end
    most = np.where(epsilon > 0, epsilon, 1.0)
    rate = most / steps
    turn = (2 * order - 1) * rate
    middle = np.exp(-turn) * -np.expm1(-rate) * (np.expm1(-(steps - 1) * turn) / np.expm1(-turn))
    rest = middle + np.exp((1 - 2 * order) * most) - np.exp(-rate)
    value = most + np.log1p(rest / (1 + np.exp(-rate))) / (order - 1)
    slack = 1e-14 * value + 4e-15 * (1 + most) * (1 + 1 / (order - 1))
    bound = np.minimum(np.minimum(most, order * most * most / 2 * (1 + 1e-14)), np.maximum(0.0, value + slack))
    return np.asarray(np.where(epsilon > 0, bound, 0.0))


def _least(at: Callable[[float], float], start: float) -> tuple[float, float]:
    """Return the least value found near `start` and its place: steps downhill, then golden section in the bracket."""
    values = {start: at(start)}

    def value(place: float) -> float:
        if place not in values:
            values[place] = at(place)
        return values[place]

    step = 0.5
    middle = start
    while middle - step > _LOWEST and value(middle - step) < value(middle):
        middle -= step
    while middle + step < _HIGHEST:
        if value(middle + step) >= value(middle):
            break
        middle += step
    low = middle - step
    high = middle + step
    left = high - _GOLDEN * (high - low)
    right = low + _GOLDEN * (high - low)
    # the curve is flat at its least: epsilon is right to about 1e-7
    while high - low > 1e-3:
        if value(left) <= value(right):
            high = right
            right = left
            left = high - _GOLDEN * (high - low)
        else:
            low = left
            left = right
            right = low + _GOLDEN * (high - low)
    place = min(values, key=lambda key: values[key])
    return values[place], place
