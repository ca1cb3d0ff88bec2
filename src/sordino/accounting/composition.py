"""What a list of events costs as a whole, and what one event adds under a cap. Nothing here stores or spends.

A finished list may be told by its best valid bound. A cap is another matter: its filter is a plain sum fixed when the
ledger is created, because picking the better certificate at each charge can give twice the delta.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from sordino.accounting.zcdp import epsilon_from_renyi, epsilon_of
from sordino.errors import DeclarationError
from sordino.loss import ApproxDP, Event, Loss, Number, PureDP, exact, shown

__all__ = ["advanced", "best_epsilon", "charge_amounts", "kairouz"]

_GOLDEN = (math.sqrt(5) - 1) / 2
_SLACK = 1e-14  # relative: more than the float steps below can lose


def advanced(epsilon: Number, k: int, slack: Number) -> float:
    """Return the epsilon of `k` runs of epsilon-DP at delta = `slack` by advanced composition, rounded up.

    epsilon sqrt(2 k ln(1/slack)) + k epsilon (e^epsilon - 1) (Dwork, Rothblum, Vadhan 2010, Theorem III.3). Never
    better than `kairouz`; kept for comparison. Raises DeclarationError unless epsilon, k >= 0 and 0 < slack < 1.

    >>> round(advanced(1, 500, 1e-5), 6)
    966.439216
    """
    each, runs, bits = _repeated(epsilon, k, slack)
    grown = math.expm1(each) if each < 700 else math.inf
    return (each * math.sqrt(2 * runs * bits) + (runs * each * grown if runs and each else 0.0)) * (1 + _SLACK)


def kairouz(epsilon: Number, k: int, slack: Number) -> float:
    """Return the epsilon of `k` runs of epsilon-DP at delta = `slack`, rounded up.

    k epsilon tanh(epsilon / 2) + epsilon sqrt(2 k ln(1/slack)) (Kairouz, Oh, Viswanath 2015, Theorem 3.4). Raises
    DeclarationError unless epsilon, k >= 0 and 0 < slack < 1.

    >>> round(kairouz(1, 500, 1e-5), 2)
    338.36
    """
    each, runs, bits = _repeated(epsilon, k, slack)
    return (runs * each * math.tanh(each / 2) + each * math.sqrt(2 * runs * bits)) * (1 + _SLACK)


def best_epsilon(events: Sequence[Event], delta: Number) -> tuple[float, str]:
    """Return the least epsilon known for a finished list of events at `delta`, rounded up, and the method that gave it.

    Tries plain sums, heterogeneous optimal composition of pure events (Kairouz, Oh, Viswanath 2015, Theorem 3.5), zCDP
    (Bun & Steinke 2016) and Renyi divergences (Mironov 2017), each alone; where some events have only a certificate,
    these are summed first and the others take the delta that is left. All are valid for the list as it stands, so the
    least is. Not a filter: do not use it to decide whether one more question may be asked.

    Raises DeclarationError unless 0 <= delta < 1, and where no bound is known at this delta.

    >>> from sordino.accounting.events import LaplaceEvent
    >>> best_epsilon([LaplaceEvent(1)] * 2, 1e-5)
    (2.0, 'sum')
    """
    target = exact(delta, name="delta")
    if not 0 <= target < 1:
        raise DeclarationError(f"delta must be at least 0 and below 1, not {shown(target)}")
    found: list[tuple[float, str]] = []
    for known, bound, method in _METHODS:
        rest = [event for event in events if not known(event)]
        pairs = [event.approx() for event in rest]
        certified = [pair for pair in pairs if pair is not None]
        left = target - sum((pair[1] for pair in certified), Fraction(0))
        if len(certified) != len(pairs) or left < 0:
            continue
        if any(known(event) for event in events):
            value = bound([event for event in events if known(event)], left)
            words = method if not certified else f"{method}, the rest by certificates"
        else:
            value, words = 0.0, "sum of certificates" if certified else "sum"
        if value is not None and math.isfinite(value):
            found.append((_up(sum((pair[0] for pair in certified), Fraction(value))), words))
    if not found:
        raise DeclarationError(f"no bound is known for these events at delta {shown(target)}; try a larger delta")
    return min(found, key=lambda pair: pair[0])


def charge_amounts(event: Event, cap: Loss) -> dict[str, Fraction]:
    """Return what a filter with this cap adds for the event, by the names of `cap.amounts()`.

    The filter is a plain sum under the cap: for rho it is valid in fully adaptive composition (Whitehouse, Ramdas,
    Rogers, Wu 2023), for epsilon and delta by Rogers, Roth, Ullman, Vadhan 2016. Raises DeclarationError where the
    event has no bound of the kind that the cap counts.

    >>> from sordino.accounting.events import LaplaceEvent
    >>> charge_amounts(LaplaceEvent("1/3"), PureDP(1))
    {'epsilon': Fraction(1, 3)}
    """
    pure = event.pure()
    if isinstance(cap, PureDP):
        if pure is None:
            raise DeclarationError("this budget counts epsilon, and this mechanism has none; ask with epsilon= alone")
        return {"epsilon": pure}
    if isinstance(cap, ApproxDP):
        pair = (pure, Fraction(0)) if pure is not None else event.approx()
        if pair is None:
            raise DeclarationError("this budget counts epsilon and delta; ask with epsilon= (and delta=), not rho=")
        return {"epsilon": pair[0], "delta": pair[1]}
    rho = event.rho()
    if rho is None:
        raise DeclarationError("this budget counts rho, and this mechanism has none; ask with rho= (or epsilon= alone)")
    return {"rho": rho}


def _repeated(epsilon: Number, k: int, slack: Number) -> tuple[float, int, float]:
    each, spare = exact(epsilon, name="epsilon"), exact(slack, name="slack")
    if each < 0 or k < 0:
        raise DeclarationError("epsilon and k must not be negative")
    if not 0 < spare < 1:
        raise DeclarationError(f"slack, the delta spent by composition, must lie between 0 and 1, not {shown(spare)}")
    return _up(each), k, math.log(spare.denominator) - math.log(spare.numerator)


def _sum(events: Sequence[Event], delta: Fraction) -> float | None:
    del delta  # a plain sum of pure events needs none
    return _up(sum((event.pure() or Fraction(0) for event in events), Fraction(0)))


def _optimal(events: Sequence[Event], delta: Fraction) -> float | None:
    if delta <= 0:
        return None
    each = [_up(event.pure() or Fraction(0)) for event in events]
    bits = math.log(delta.denominator) - math.log(delta.numerator)
    drift = math.fsum(epsilon * math.tanh(epsilon / 2) for epsilon in each)
    return (drift + math.sqrt(2 * bits * math.fsum(epsilon * epsilon for epsilon in each))) * (1 + _SLACK)


def _concentrated(events: Sequence[Event], delta: Fraction) -> float | None:
    if delta <= 0:
        return None
    return epsilon_of(sum((event.rho() or Fraction(0) for event in events), Fraction(0)), delta)


def _renyi(events: Sequence[Event], delta: Fraction) -> float | None:
    if delta <= 0:
        return None

    counts: dict[Event, int] = {}
    for event in events:
        counts[event] = counts.get(event, 0) + 1

    def at(log_order: float) -> float:
        order = 1 + math.exp(log_order)
        divergence = math.fsum(n * (event.renyi(order) or 0.0) for event, n in counts.items()) * (1 + _SLACK)
        return epsilon_from_renyi(order, divergence, delta)

    grid = [-7 + step / 4 for step in range(57)]  # orders from 1.001 to 1,000
    best = min(range(len(grid)), key=lambda i: at(grid[i]))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    for _ in range(40):  # every order gives a valid bound: the search can only be loose, never wrong
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        low, high = (low, right) if at(left) <= at(right) else (left, high)
    return min(at((low + high) / 2), at(grid[best]))


def _is_pure(event: Event) -> bool:
    return event.pure() is not None


def _is_concentrated(event: Event) -> bool:
    return event.rho() is not None


def _is_renyi(event: Event) -> bool:
    return event.renyi(2.0) is not None


_METHODS: list[tuple[Callable[[Event], bool], Callable[[Sequence[Event], Fraction], float | None], str]] = [
    (_is_pure, _sum, "sum"),
    (_is_pure, _optimal, "optimal composition"),
    (_is_concentrated, _concentrated, "zCDP"),
    (_is_renyi, _renyi, "Renyi"),
]


def _up(value: Fraction) -> float:
    """Return the least float at or above `value`."""
    near = value.numerator / value.denominator
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)
