"""What a list of events costs together, and what one event adds under a cap. Nothing here stores or spends.

A finished list, fixed beforehand, may be stated by its best valid bound. A cap is another matter: its filter is a plain
sum fixed when the ledger is created, because picking the better certificate at each charge can give twice the delta.

The composition theorems in closed form for pure events - what many runs of a known epsilon cost at a delta - know no event.
They hold where the epsilons are fixed beforehand, whatever is asked with them (k-fold adaptive composition): not where an
epsilon is chosen after answers, for which only the ledger's filter certifies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from sordino.core.accounting.event_fields import event_from_dict
from sordino.core.accounting.events import approximate_rho, parts
from sordino.core.accounting.renyi import renyi_epsilon
from sordino.core.accounting.zcdp import epsilon_of
from sordino.core.errors import DeclarationError, arg
from sordino.core.loss import ApproxDP, Event, Loss, Number, PureDP, format_number, round_up, shorten_up, to_fraction
from sordino.core.rounding import bisect, float_up

# relative: more than the float steps below can lose
_SLACK = 1e-14


def optimal(epsilon: Number, k: int, delta: Number) -> float:
    """Return the least epsilon that `k` runs of epsilon-DP have at `delta`: the exact answer, rounded up.

    Kairouz, Oh, Viswanath 2015, Theorem 3.3, at every epsilon and not only at multiples: randomized response is the
    worst case, whose loss is (k - 2 j) epsilon with probability C(k, j) e^((k - j) epsilon) / (1 + e^epsilon)^k. Raises
    DeclarationError unless epsilon, k >= 0 and 0 < delta < 1.

    >>> optimal(1, 500, 1e-5) < compose_kairouz([1.0] * 500, Fraction(1, 10**5))
    True
    >>> round(optimal(1, 1, 1e-9), 6)
    1.0
    """
    import numpy as np

    each, runs, bits = _read_runs(epsilon, k, delta)
    if not runs or not each:
        return 0.0
    j = np.arange(runs + 1, dtype=np.float64)
    factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, runs + 1, dtype=np.float64)))])
    logs = factorials[-1] - factorials - factorials[::-1] - j * each - runs * math.log1p(math.exp(-each))
    losses = (runs - 2 * j) * each
    # ln delta, less what the sum of logarithms may have lost
    goal = -bits - 1e-13 * (1 + float(factorials[-1]))

    def holds(candidate: float) -> bool:
        above = losses > candidate
        with np.errstate(divide="ignore"):
            terms = logs[above] + np.log(-np.expm1(candidate - losses[above]))
        if not terms.size:
            return True
        top = float(terms.max())
        return top == -math.inf or top + math.log(float(np.exp(terms - top).sum())) <= goal

    return 0.0 if holds(0.0) else bisect(holds, 0.0, runs * each, relative=1e-13)[1] * (1 + _SLACK)


def compose_advanced(epsilons: Sequence[float], slack: Fraction) -> float:
    """Return advanced composition of pure losses of several sizes (Dwork, Rothblum, Vadhan 2010, Theorem III.3).

    sqrt(2 ln(1/slack) sum e^2) + sum e (e^e - 1), the same proof, rounded up.
    """
    if max(epsilons, default=0.0) > 600:
        return math.inf
    grown = math.fsum(each * math.expm1(each) for each in epsilons)
    return (math.sqrt(2 * _bits(slack) * math.fsum(each * each for each in epsilons)) + grown) * (1 + _SLACK)


def compose_kairouz(epsilons: Sequence[float], slack: Fraction) -> float:
    """Return the composition of pure losses of several sizes (Kairouz, Oh, Viswanath 2015, Theorem 3.5), rounded up.

    With S = sum e^2: sum e tanh(e/2) + sqrt(2 S ln(x)), x the lesser of 1/slack and e + sqrt(S)/slack; or the plain sum.
    """
    squares = math.fsum(each * each for each in epsilons)
    drift = math.fsum(each * math.tanh(each / 2) for each in epsilons)
    bits = _bits(slack)
    # from 1 on, 1/slack is the lesser
    if squares < 1:
        bits = min(bits, bits + math.log(math.e * math.exp(-bits) + math.sqrt(squares) * (1 + _SLACK)))
    spread = math.sqrt(2 * squares * max(bits, 0.0))
    return min(math.fsum(epsilons), drift + spread) * (1 + _SLACK)


def _read_runs(epsilon: Number, k: int, slack: Number) -> tuple[float, int, float]:
    each = to_fraction(epsilon, name="epsilon")
    spare = to_fraction(slack, name="slack")
    if each < 0 or k < 0:
        raise DeclarationError("epsilon and k must not be negative")
    if not 0 < spare < 1:
        raise DeclarationError(
            f"slack, the delta spent by composition, must lie between 0 and 1, not {format_number(spare)}"
        )
    return float_up(each), k, _bits(spare)


def _bits(slack: Fraction) -> float:
    """Return ln(1/slack)."""
    return math.log(slack.denominator) - math.log(slack.numerator)


Pair = tuple[Fraction, Fraction]


@dataclass(frozen=True, slots=True)
class Best:
    """The least epsilon known of a finished list at `delta`, the method that proved it, and the bound of each method.

    `table` has None where a method has no bound at this delta.
    """

    epsilon: float
    delta: Fraction
    method: str
    table: Mapping[str, float | None]

    def describe(self) -> str:
        """Return one line: the epsilon, its delta and the method."""
        return f"epsilon {round_up(self.epsilon, digits=6)} at delta {format_number(self.delta)} by {self.method}"


def best(events: Sequence[Event], delta: Number) -> Best:
    """Return the least epsilon known for a finished list of events at `delta`, rounded up, and all that were compared.

    Plain sums; advanced composition (Dwork, Rothblum, Vadhan 2010); Kairouz, Oh, Viswanath 2015, Theorem 3.5, and 3.3
    (optimal) where all are alike; zCDP (Bun, Steinke 2016); Renyi divergences (Mironov 2017); privacy loss
    distributions (`pld`). Each is valid by itself for the list as it stands, so the least is. Where a method does not
    cover an event, that event's (epsilon, delta) is added and the others take the delta that is left.

    Valid for a list that was fixed before its first answer, at a delta fixed likewise. Not a filter: where the list
    depends on answers (each charge of a ledger may), only the filter of the ledger's cap certifies, and choosing the
    better certificate at each charge can give twice the delta.

    Raises DeclarationError unless 0 <= delta < 1, and where no bound is known at this delta.

    >>> from sordino.core.accounting.events import LaplaceEvent
    >>> bound = best([LaplaceEvent(1)] * 500, 1e-5)
    >>> bound.method, round(bound.epsilon, 2)
    ('optimal composition', 311.77)
    >>> best([LaplaceEvent(1)] * 2, 0).describe()
    'epsilon 2 at delta 0 by sum'
    """
    target = to_fraction(delta, name="delta")
    if not 0 <= target < 1:
        raise DeclarationError(f"delta must be at least 0 and below 1, not {format_number(target)}")
    table = {name: _finite(method(events, target)) for name, method in _METHODS}
    finite = [(value, name) for name, value in table.items() if value is not None]
    if not finite:
        raise DeclarationError(
            f"no bound is known for these events at delta {format_number(target)}; try a larger delta"
        )
    value, name = min(finite, key=lambda pair: pair[0])
    return Best(value, target, name, table)


class RecordedCharge(Protocol):
    """A charge as a ledger records it: its event is plain data."""

    @property
    def event(self) -> Mapping[str, Any]:
        """The event as `to_dict` wrote it."""


def tight(charges: Sequence[RecordedCharge] | Sequence[Event], delta: Number) -> Best:
    """Return `best` of a ledger's charges, those that failed or are in doubt included, or of events.

    It says what the charges made so far would cost as a list fixed beforehand. The cap and what is left are unaffected.
    """
    events: list[Any] = [getattr(one, "event", one) for one in charges]
    return best([event_from_dict(e) if isinstance(e, Mapping) else e for e in events], delta)


def currencies(event: Event, delta: Number | None = None) -> dict[str, Fraction | Pair | None]:
    """Return what an event costs in each currency: `epsilon` (pure), `approx` (epsilon, delta), `rho`; None without one.

    With `delta`, `approx` is the least epsilon known at this delta, as for a list of this event alone.

    >>> from sordino.core.accounting.events import LaplaceEvent
    >>> float(currencies(LaplaceEvent("1/2"))["rho"])
    0.122459331202
    """
    pair = event.approx()
    if delta is not None:
        try:
            tightest = best([event], delta)
        except DeclarationError:
            pair = None
        else:
            pair = (to_fraction(tightest.epsilon, name="epsilon"), tightest.delta)
    return {"epsilon": event.pure(), "approx": pair, "rho": event.rho()}


def charge_amounts(event: Event, cap: Loss) -> dict[str, Fraction]:
    """Return what a filter with this cap adds for the event, by the names of `cap.amounts()`.

    The filter is a plain sum under the cap: for rho, and for rho with a slack, it is valid in fully adaptive composition
    (Whitehouse, Ramdas, Rogers, Wu 2023, Theorem 1), for epsilon and delta by Rogers, Roth, Ullman, Vadhan 2016.

    Exact, except that an amount of more than sixty decimals is rounded up there. Raises DeclarationError where the event
    has no bound of the kind that the cap counts.

    >>> from sordino.core.accounting.events import LaplaceEvent
    >>> charge_amounts(LaplaceEvent("1/3"), PureDP(1))
    {'epsilon': Fraction(1, 3)}
    """
    return {name: shorten_up(amount) for name, amount in _amounts(event, cap).items()}


def _amounts(event: Event, cap: Loss) -> dict[str, Fraction]:
    pure = event.pure()
    if isinstance(cap, PureDP):
        if pure is None:
            raise DeclarationError(
                f"this budget counts epsilon alone, and a loss in rho, or with a delta, has none; ask with "
                f"{arg('epsilon=')} alone"
            )
        return {"epsilon": pure}
    if isinstance(cap, ApproxDP):
        pair = (pure, Fraction(0)) if pure is not None else event.approx()
        if pair is None:
            raise DeclarationError(
                f"this budget counts epsilon and delta; ask with {arg('epsilon=')} (and {arg('delta=')}), not {arg('rho=')}"
            )
        return {"epsilon": pair[0], "delta": pair[1]}
    rho = event.rho()
    if cap.slack is None:
        if rho is None:
            raise DeclarationError(
                f"this budget counts rho, and a loss in epsilon and delta has none; ask with "
                f"{arg('rho=')} (or {arg('epsilon=')} alone)"
            )
        return {"rho": rho}
    bound = approximate_rho(event)
    if bound is None:
        raise DeclarationError(
            f"this budget counts rho and delta, and this mechanism has no such bound; ask with {arg('rho=')}"
        )
    return {"rho": bound[0], "delta": bound[1]}


def _pairs(events: Sequence[Event]) -> list[Pair] | None:
    """Return each event's (epsilon, 0), else its (epsilon, delta); None where one has neither."""
    pairs: list[Pair] = []
    for event in events:
        pure = event.pure()
        pair = (pure, Fraction(0)) if pure is not None else event.approx()
        if pair is None:
            return None
        pairs.append(pair)
    return pairs


def _by_pairs(bound: Callable[[list[Fraction], Fraction], float | None]) -> Callable[..., float | None]:
    """Return the method that composes (epsilon, delta) pairs: deltas are summed, the bound takes the delta left."""

    def method(events: Sequence[Event], target: Fraction) -> float | None:
        pairs = _pairs(events)
        left = target - sum((delta for _, delta in pairs), Fraction(0)) if pairs is not None else Fraction(-1)
        return None if pairs is None or left < 0 else bound([epsilon for epsilon, _ in pairs], left)

    return method


def _partly(
    covers: Callable[[Event], bool], bound: Callable[[list[Event], Fraction], float]
) -> Callable[..., float | None]:
    """Return the method that composes the events it covers, and takes the others at their (epsilon, delta)."""

    def method(events: Sequence[Event], target: Fraction) -> float | None:
        several = [part for event in events for part in parts(event)]
        # each kind is asked once, however often it occurs
        covered = {event: covers(event) for event in set(several)}
        inside = [event for event in several if covered[event]]
        pairs = _pairs([event for event in several if not covered[event]])
        if pairs is None:
            return None
        left = target - sum((delta for _, delta in pairs), Fraction(0))
        if left < 0 or (inside and left == 0):
            return None
        rest = sum((epsilon for epsilon, _ in pairs), Fraction(0))
        value = bound(inside, left) if inside else 0.0
        return float_up(Fraction(value) + rest) if math.isfinite(value) else None

    return method


def _sum(epsilons: list[Fraction], left: Fraction) -> float:
    del left  # a plain sum needs none
    return float_up(sum(epsilons, Fraction(0)))


def _compose_advanced(epsilons: list[Fraction], left: Fraction) -> float | None:
    return compose_advanced([float_up(each) for each in epsilons], left) if left > 0 else None


def _kairouz(epsilons: list[Fraction], left: Fraction) -> float | None:
    return compose_kairouz([float_up(each) for each in epsilons], left) if left > 0 else None


def _optimal(epsilons: list[Fraction], left: Fraction) -> float | None:
    alike = len(set(epsilons)) == 1 and left > 0
    return optimal(epsilons[0], len(epsilons), left) if alike else None


def _zcdp(events: list[Event], left: Fraction) -> float:
    return epsilon_of(sum((event.rho() or Fraction(0) for event in events), Fraction(0)), left)


def _renyi(events: list[Event], left: Fraction) -> float:
    return renyi_epsilon(events, left)[0]


def _distributions(events: Sequence[Event], target: Fraction) -> float | None:
    if target == 0:
        return None
    from sordino.core.accounting.pld import pld_epsilon

    try:
        return pld_epsilon(events, target)
    except DeclarationError:
        # some event has no bound of any kind
        return None


def _has_rho(event: Event) -> bool:
    return event.rho() is not None


def _has_renyi(event: Event) -> bool:
    return event.renyi(2.0) is not None


_METHODS: list[tuple[str, Callable[[Sequence[Event], Fraction], float | None]]] = [
    ("sum", _by_pairs(_sum)),
    ("advanced composition", _by_pairs(_compose_advanced)),
    ("Kairouz, Oh, Viswanath", _by_pairs(_kairouz)),
    ("optimal composition", _by_pairs(_optimal)),
    ("zCDP", _partly(_has_rho, _zcdp)),
    ("Renyi", _partly(_has_renyi, _renyi)),
    ("PLD", _distributions),
]


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
