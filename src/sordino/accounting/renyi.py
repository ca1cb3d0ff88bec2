"""Renyi divergences of a finished list of events, at the order that tells the least epsilon. It knows events only.

Every order gives a valid bound: the search over orders can only be loose, never wrong.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction

from sordino.accounting.zcdp import epsilon_from_renyi, epsilon_of
from sordino.errors import DeclarationError
from sordino.loss import Event, Number, exact, shown

__all__ = ["renyi_curve", "renyi_epsilon"]

_GOLDEN = (math.sqrt(5) - 1) / 2
_SLACK = 1e-14  # relative: more than sums of floats can lose
_LOWEST, _HIGHEST = -9.0, 14.0  # of ln(order - 1): orders from 1.0001 to a million


def renyi_curve(events: Sequence[Event], orders: Sequence[float]) -> list[float | None]:
    """Return the divergence of all events together at each order > 1, rounded up: the sum (Mironov 2017, Proposition 1).

    None at an order where an event has no bound.

    >>> from sordino.accounting.events import GaussianEvent
    >>> [round(d, 9) for d in renyi_curve([GaussianEvent("1/8")] * 4, [2, 16])]
    [1.0, 8.0]
    """
    counts = Counter(events)
    return [_summed(counts, float(order)) for order in orders]


def renyi_epsilon(events: Sequence[Event], delta: Number) -> tuple[float, float]:
    """Return the least epsilon known at `delta` from the events' divergences, rounded up, and the order that tells it.

    At each order a: D + ln(1 - 1/a) - (ln delta + ln a) / (a - 1) (Canonne, Kamath, Steinke 2020, Proposition 12; Balle,
    Barthe, Gaboardi, Hsu, Sato 2020). Orders are searched from the best one of zCDP on, by golden section over
    ln(a - 1); where all events have a rho, the result is never worse than zCDP's own. Infinity where an event has no
    divergence. Raises DeclarationError unless 0 < delta < 1.

    >>> from sordino.accounting.events import GaussianEvent
    >>> from sordino.accounting.zcdp import epsilon_of
    >>> renyi_epsilon([GaussianEvent("1/2")], 1e-5)[0] <= epsilon_of("1/2", 1e-5)
    True
    """
    target = exact(delta, name="delta")
    if not 0 < target < 1:
        raise DeclarationError(f"delta must lie between 0 and 1, both excluded, not {shown(target)}; try 1e-6")
    counts = Counter(events)
    if any(event.renyi(2.0) is None for event in counts):
        return math.inf, math.inf
    rhos = [(event.rho(), times) for event, times in counts.items()]
    known = [rho * times for rho, times in rhos if rho is not None]
    total = sum(known, Fraction(0))
    bits = math.log(target.denominator) - math.log(target.numerator)
    guess = 0.5 * math.log(bits / float(total)) if total else 0.0

    def at(log_order: float) -> float:
        order = 1 + math.exp(log_order)
        divergence = _summed(counts, order)
        return math.inf if divergence is None else epsilon_from_renyi(order, divergence, target)

    value, place = _least(at, min(max(guess, _LOWEST), _HIGHEST))
    order = 1 + math.exp(place)
    if len(known) == len(rhos):
        simple = epsilon_of(total, target)
        if simple < value:
            return simple, order
    return value, order


def _summed(counts: Counter[Event], order: float) -> float | None:
    parts = []
    for event, times in counts.items():
        divergence = event.renyi(order)
        if divergence is None:
            return None
        parts.append(times * divergence)
    return math.fsum(parts) * (1 + _SLACK)


def _least(at: Callable[[float], float], start: float) -> tuple[float, float]:
    """Return the least value found near `start` and its place: steps downhill, then golden section in the bracket."""
    found = {start: at(start)}

    def value(place: float) -> float:
        if place not in found:
            found[place] = at(place)
        return found[place]

    step, middle = 0.5, start
    while middle - step > _LOWEST and value(middle - step) < value(middle):
        middle -= step
    while middle + step < _HIGHEST:
        if value(middle + step) >= value(middle):
            break
        middle += step
    low, high = middle - step, middle + step
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    while high - low > 1e-3:  # the curve is flat at its least: epsilon is right to about 1e-7
        if value(left) <= value(right):
            high, right = right, left
            left = high - _GOLDEN * (high - low)
        else:
            low, left = left, right
            right = low + _GOLDEN * (high - low)
    place = min(found, key=lambda key: found[key])
    return found[place], place
