"""How sure an attacker can be after answers whose noise has no pure bound, and how rarely that is passed.

It may not know data or ledgers: it reads events. Let P and Q be the laws of what is released on two neighbors, L = ln(P/Q)
at what was released. From even odds, whoever knows everything else is then sure of P to 1 / (1 + e^-L). So "at most
1 / (1 + e^-e)" is passed with probability P(L > e) if P is true, and Q(L > e) <= e^-e P(L > e) if Q is.

That probability is not the delta of (e, delta)-privacy, which is E[(1 - exp(e - L))+] and less: for Gaussian noise
by a factor of 2 to 150. What bounds it:

1. Pure epsilon: L <= epsilon always.
2. rho-zCDP: E[exp((a - 1) L)] <= exp((a - 1) a rho); Markov's inequality at the best order a gives
   P(L > rho + 2 sqrt(rho ln(1/c))) <= c (Bun & Steinke 2016, Lemma 3.5 and Proposition 1.3).
3. The discrete Gaussian of one moved cell: L = (v^2 - 2 v X) / (2 sigma^2) at a shift v, so L > e is X < v/2 - e sigma^2 / v,
   which rises in v for e >= 0: the largest shift is the worst, and its tail is summed.
4. Any delta(x) that holds for all neighbors, such as that of a privacy loss distribution: for s > 0, where L > x + s,
   1 - exp(x - L) > 1 - e^-s; so P(L > x + s) <= delta(x) / (1 - e^-s) (Kasiviswanathan & Smith 2014, Lemma 3.3, there with
   x = s = epsilon: 2 epsilon but with 2 delta / (1 - e^-epsilon), both directions counted). s = ln 2 gives 2 delta.

A list of charges is read as if it had been fixed before its first answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from sordino.core.accounting.composition import best
from sordino.core.accounting.discrete import DiscreteGaussianEvent
from sordino.core.accounting.events import parts
from sordino.core.accounting.hypotheses import power_bound
from sordino.core.accounting.zcdp import basic_epsilon_of, epsilon_of
from sordino.core.errors import DeclarationError
from sordino.core.loss import ApproxDP, Event, Loss, Number, PureDP, format_number, round_down, round_up, to_fraction
from sordino.core.rounding import float_up

_DELTAS = tuple(Fraction(d) for d in ("0.001", "0.005", "0.02", "0.05", "0.1", "0.2", "0.4"))  # for the power of a test
_DELTA = 1e-6  # the delta of a rho whose budget states none
_SUMMED = 1000.0  # sigma up to which a discrete Gaussian's tail is summed term by term


@dataclass(frozen=True, slots=True)
class Belief:
    """State that odds move by a factor of e^epsilon at most, up or down; each way passed with probability `chance` at most."""

    epsilon: float
    chance: Fraction

    @property
    def most(self) -> float:
        """The most that an attacker with even odds before is sure of, unless with that chance."""
        return 1 / (1 + math.exp(-self.epsilon))

    def describe(self, *, of: str) -> str:
        """Return how sure such an attacker is afterwards, `of` saying after what; figures are rounded outward.

        >>> Belief(1.0, Fraction(1, 10**6)).describe(of="it afterwards")
        'at most 73.11% sure of it afterwards, and at least 26.89%; each bound is passed with probability at most 1e-6'
        """
        rest = 100 / (1 + math.exp(self.epsilon)) if self.epsilon < 700 else 0.0
        least = round_down(rest, digits=4 if rest >= 1 else 2)
        words = f"at most {100 - Decimal(least):f}% sure of {of}, and at least {least}%"
        if not self.chance:
            return words
        return f"{words}; each bound is passed with probability at most {round_up(self.chance, digits=2)}"


def belief_after(events: Sequence[Event], *, delta: Number = 0) -> Belief:
    """Return the most that odds move through all events together, but with probability `delta` for each direction.

    Where some event fails outright with a probability of its own (a threshold on private keys, or all that is known is
    (epsilon, delta)), the chance is twice `delta`: no bound on L holds at the delta of such an event itself. Epsilon is
    infinite, and so the belief anything from 0 to 1, where nothing bounds the events at that delta.

    Raises DeclarationError unless 0 <= delta < 1.

    >>> from sordino.core.accounting.events import ApproxEvent, LaplaceEvent
    >>> belief_after([LaplaceEvent(1)])
    Belief(epsilon=1.0, chance=Fraction(0, 1))
    >>> found = belief_after([ApproxEvent(1, "1e-6")], delta="1e-6")  # 1 + ln 2
    >>> round(found.epsilon, 6), float(found.chance)
    (1.693147, 2e-06)
    """
    target = to_fraction(delta, name="delta")
    if not 0 <= target < 1:
        raise DeclarationError(f"delta must be at least 0 and below 1, not {format_number(target)}")
    return _after(tuple(events), target)


def epsilon_and_delta(loss: Loss) -> tuple[float, float]:
    """Return a loss as (epsilon, delta): a rho at its own delta, or at 1e-6 where it states none.

    >>> epsilon_and_delta(PureDP("1/2"))
    (0.5, 0.0)
    """
    if isinstance(loss, PureDP):
        return float(loss.epsilon), 0.0
    if isinstance(loss, ApproxDP):
        return float(loss.epsilon), float(loss.delta)
    delta = float(loss.delta or _DELTA)
    slack = float(loss.slack or 0)
    return (epsilon_of(loss.rho, delta), delta + slack) if loss.rho else (0.0, slack)


def power_after(event: Event, *, epsilon: float, delta: float, level: float) -> float:
    """Return the largest power of any test at `level`, its rate of false alarms, of an event that is (epsilon, delta)-private.

    An event is (epsilon(d), d)-private for each d, and each pair bounds the power (`power_bound`): the least is returned. Of
    Gaussian noise a bound at a small delta alone is up to four times too large.

    >>> from sordino.core.accounting.events import LaplaceEvent
    >>> round(power_after(LaplaceEvent(1), epsilon=1.0, delta=0.0, level=0.05), 6)
    0.135914
    """
    least = power_bound(epsilon, level=level, delta=delta)
    if event.pure() is None:
        for other in _DELTAS:
            try:
                found = best([event], other).epsilon
            except DeclarationError:
                continue
            if math.isfinite(found):
                least = min(least, power_bound(found, level=level, delta=other))
    return least


@lru_cache(maxsize=4096)
def _after(events: tuple[Event, ...], target: Fraction) -> Belief:
    pures = [event.pure() for event in events]
    bounds: list[tuple[float, Fraction]] = []
    if None not in pures:
        bounds.append((float_up(sum((pure for pure in pures if pure is not None), Fraction(0))), Fraction(0)))
    several = [part for event in events for part in parts(event)]
    rhos = [event.rho() for event in several]
    known = [rho for rho in rhos if rho is not None]
    chance = target if len(known) == len(rhos) else 2 * target
    if 0 < chance < 1:
        if len(known) == len(rhos):
            bounds.append((basic_epsilon_of(sum(known, Fraction(0)), chance), chance))
        single = several[0] if len(several) == 1 else None
        if isinstance(single, DiscreteGaussianEvent) and single.cells == 1:
            bounds.append((_gaussian(single, float(chance)), chance))
        elif single is None or isinstance(single, DiscreteGaussianEvent) or not known:
            bounds.append((_by_delta(events, chance), chance))
    return Belief(*min(bounds, default=(math.inf, Fraction(0))))


def _gaussian(event: DiscreteGaussianEvent, chance: float) -> float:
    """Return the loss at the first draw that is not among those of probability `chance` at most (3)."""
    variance, sigma = float(event.sigma_squared), math.sqrt(float(event.sigma_squared))
    if sigma > _SUMMED:  # P(X >= m) <= P(N >= m - 1) (Canonne, Kamath, Steinke 2020, Proposition 25)
        low, high = 0.0, 40.0
        while high - low > 1e-12:
            middle = (low + high) / 2
            low, high = (low, middle) if math.erfc(middle / math.sqrt(2)) / 2 <= chance else (middle, high)
        reach = math.ceil(high * sigma) + 1
    else:
        weights = [math.exp(-x * x / (2 * variance)) for x in range(math.ceil(40 * sigma) + 2)]
        limit, beyond, reach = chance * (2 * math.fsum(weights) - 1) * (1 - 1e-12), 0.0, len(weights)
        while reach > 1 and beyond + weights[reach - 1] <= limit:
            reach -= 1
            beyond += weights[reach]
    return event.shift * (event.shift + 2 * (reach - 1)) / (2 * variance) * (1 + 1e-12)


def _by_delta(events: Sequence[Event], chance: Fraction) -> float:
    """Return the least x + s found with delta(x) <= chance (1 - e^-s) (4)."""

    def at(s: float, share: Fraction) -> float:
        try:
            return best(events, chance * share).epsilon + s
        except DeclarationError:
            return math.inf

    two = math.nextafter(math.log(2), 1.0)
    half = at(two, Fraction(1, 2))
    slope = -2 * math.log(chance) / max(half - two, 1e-9)  # of ln P(L > x), were it Gaussian
    first = math.log1p(1 / slope) if slope else two  # the best s for a tail of that slope
    shares = [(s, Fraction(-math.expm1(-s) * (1 - 1e-12))) for s in (first, 2 * first, 4 * first)]
    return min(half, *(at(s, share) for s, share in shares))
