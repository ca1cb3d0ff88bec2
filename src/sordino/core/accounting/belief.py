"""What an attacker believes after releases, and the power of tests: bounds that follow from events alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from fractions import Fraction
from functools import lru_cache

from sordino.core.accounting.composition import best
from sordino.core.accounting.discretize import ShiftedGaussian
from sordino.core.accounting.events import ApproxEvent, LaplaceEvent, approximate_rho, common_law, parts
from sordino.core.accounting.zcdp import basic_epsilon_of, epsilon_of
from sordino.core.arguments import amount, chance, require_above, whole
from sordino.core.errors import DeclarationError
from sordino.core.loss import ApproxDP, Event, Loss, Number, PureDP, format_number, round_down, round_up, to_fraction
from sordino.core.rounding import bisect, float_up

# ---- The epsilon at which a figure that changes with it meets a limit, from the feasible side. It knows no figure

# beyond it every exponential of an epsilon is 0 or infinite, so that no figure changes
_MOST = 2048.0


def largest_epsilon(figure: Callable[[float], float], limit: float) -> float:
    """Return the largest epsilon at which a figure that rises with it is within `limit`; math.inf where it always is.

    >>> largest_epsilon(lambda epsilon: epsilon * epsilon, 4.0)
    2.0
    """
    high = 1.0
    while figure(high) <= limit:
        if high > _MOST:
            return math.inf
        high *= 2
    return bisect(lambda epsilon: figure(epsilon) > limit, 0.0, high)[0]


def least_epsilon(figure: Callable[[float], float], limit: float) -> float:
    """Return the least epsilon above 0 at which a figure that falls with it is within `limit`.

    >>> least_epsilon(lambda epsilon: 1 / epsilon, 0.5)
    2.0
    """
    high = 1.0
    while figure(high) > limit:
        high *= 2
    return bisect(lambda epsilon: figure(epsilon) <= limit, 0.0, high)[1]


# ---- What an attacker who weighs two hypotheses can learn at an epsilon, and the epsilon for what he may learn
#
# It may not know data, queries or a ledger. The hypotheses are two tables that are neighbors: under add_remove "this
# person is in it or not", under replace "this person's record is this or that". Each bound holds for the relation that
# epsilon is stated for; epsilon under add_remove is at most 2 epsilon under replace, never the reverse. Bounds are floats;
# every inverse is returned from the feasible side: its figure, computed forward, is within the limit.

# of the numbers of people that two tables may differ in, how many are summed
_TERMS = 20_000
# beyond it exp overflows, and every bound below has reached its limit
_EXP_MOST = 700.0


def posterior_bounds(epsilon: Number, *, prior: Number) -> tuple[float, float]:
    """Return the least and the largest posterior of a hypothesis whose prior probability is `prior`.

    p / (p + (1 - p) e^eps) <= posterior <= p e^eps / (1 - p + p e^eps), whatever the release and whatever else the
    attacker knows. Reads the relation that epsilon is stated for. Raises DeclarationError unless epsilon >= 0 and
    0 < prior < 1. Dwork & McSherry; Kasiviswanathan & Smith 2014, On the "semantics" of differential privacy.

    >>> [round(p, 4) for p in posterior_bounds(1, prior=0.5)]
    [0.2689, 0.7311]
    """
    eps = amount(epsilon, name="epsilon", zero=True)
    p = chance(prior, name="prior")
    return _posterior(-eps, p), _posterior(eps, p)


def epsilon_for_posterior(most: Number, *, prior: Number) -> float:
    """Return the largest epsilon at which a hypothesis of prior `prior` has posterior at most `most`.

    epsilon = ln(m / (1 - m)) - ln(p / (1 - p)), the inverse of the upper end of `posterior_bounds`, in the same
    relation. Raises DeclarationError unless prior < most < 1.

    >>> round(epsilon_for_posterior(0.75, prior=0.5), 6)  # ln 3
    1.098612
    """
    limit = chance(most, name="most")
    p = chance(prior, name="prior")
    require_above(limit, p, name="most", because="the posterior")
    return largest_epsilon(lambda eps: _posterior(eps, p), limit)


def epsilon_for_gain(most: Number) -> float:
    """Return the largest epsilon at which no prior rises by more than `most`: 4 artanh(most).

    No posterior is more than tanh(eps / 4) above its prior, and that at prior 1 / (1 + e^(eps / 2)): the derivative of
    `posterior_bounds` in the prior is zero where prior + posterior = 1. In the relation that epsilon is stated for. Raises
    DeclarationError unless 0 < most < 1.

    >>> round(epsilon_for_gain("0.24491866"), 6)
    1.0
    """
    limit = chance(most, name="most")
    return largest_epsilon(lambda eps: math.tanh(eps / 4), limit)


def power_bound(epsilon: Number, *, level: Number, delta: Number = 0) -> float:
    """Return the largest power of any test of one hypothesis against the other at `level`, its false-alarm rate a.

    min(e^eps a + delta, 1 - e^-eps (1 - delta - a)). Reads the relation that (epsilon, delta) is stated for. Raises
    DeclarationError unless epsilon >= 0, 0 < level < 1 and 0 <= delta < 1. Wasserman & Zhou 2010, Theorem 2.4;
    Kairouz, Oh, Viswanath 2015, Theorem 2.1.

    >>> round(power_bound(1, level=0.05), 8)
    0.13591409
    """
    eps = amount(epsilon, name="epsilon", zero=True)
    a = chance(level, name="level")
    return _power(eps, a, chance(delta, name="delta", zero=True))


def epsilon_for_power(most: Number, *, level: Number, delta: Number = 0) -> float:
    """Return the largest epsilon at which no test at `level` has a power above `most`.

    max(ln((m - delta) / a), ln((1 - delta - a) / (1 - m))), the inverse of `power_bound`, in the same relation and at
    the same delta. Raises DeclarationError unless level + delta < most < 1.

    >>> round(epsilon_for_power(0.25, level=0.05), 6)  # ln 5
    1.609438
    """
    limit = chance(most, name="most")
    a = chance(level, name="level")
    d = chance(delta, name="delta", zero=True)
    require_above(limit, _power(0.0, a, d), name="most", because="the power")
    return largest_epsilon(lambda eps: _power(eps, a, d), limit)


def advantage_bound(epsilon: Number, *, delta: Number = 0) -> float:
    """Return the largest total-variation advantage: detections less false alarms of the best test at any level.

    (e^eps - 1 + 2 delta) / (e^eps + 1). Reads the relation that (epsilon, delta) is stated for. Raises
    DeclarationError unless epsilon >= 0 and 0 <= delta < 1. Kairouz, Oh, Viswanath 2015, Remark 2.2.

    >>> round(advantage_bound(1), 7)
    0.4621172
    """
    return _advantage(amount(epsilon, name="epsilon", zero=True), chance(delta, name="delta", zero=True))


def epsilon_for_advantage(most: Number, *, delta: Number = 0) -> float:
    """Return the largest epsilon at which no test has an advantage above `most`: ln((1 + m - 2 delta) / (1 - m)).

    The inverse of `advantage_bound`, in the same relation and at the same delta. Raises DeclarationError unless
    delta < most < 1.

    >>> round(epsilon_for_advantage(0.5), 6)  # ln 3
    1.098612
    """
    limit = chance(most, name="most")
    d = chance(delta, name="delta", zero=True)
    require_above(limit, d, name="most", because="the advantage")
    return largest_epsilon(lambda eps: _advantage(eps, d), limit)


def epsilon_for_identification(risk: Number, *, candidates: int) -> float:
    """Return the largest epsilon under replace at which no candidate is identified with a posterior above `risk`.

    ln((m - 1) rho / (1 - rho)): rho-differential identifiability, the posterior of one of m candidates who are equally likely
    before being 1 / (1 + (m - 1) e^-eps). Any two give neighbors under replace, as one is in the place of the other; a loss
    stated under add_remove counts twice. Raises DeclarationError unless 1 / candidates < risk < 1. Lee & Clifton 2012,
    Differential identifiability, section 3 and Theorem 1.

    >>> round(epsilon_for_identification("1/3", candidates=8), 9)  # ln 3.5
    1.252762968
    """
    limit = chance(risk, name="risk")
    m = whole(candidates, name="candidates", least=2)
    require_above(limit, 1 / m, name="risk", because=f"the posterior of one of {m} candidates")
    return largest_epsilon(lambda eps: _identification_risk(eps, m), limit)


def tables_bound(epsilon: Number, *, people: int, size: int, heaviest: Number | None = None) -> float:
    """Return the largest posterior of any table of `size` of the `people`, whatever is released and however often.

    Two such tables that differ in j people are 2 j steps apart under add_remove, so that the odds between them move by
    e^(2 j eps) at most: with every table equally likely before, 1 / (sum over j of C(m, j) C(N - m, j) e^(-2 j eps)). With
    `heaviest`, the largest prior p of a table, p / (p + (1 - p) e^(-2 k eps)), k = min(m, N - m) the most people that
    two tables differ in. `epsilon` is the total of all releases, under add_remove. Raises DeclarationError unless
    epsilon >= 0, people > size >= 1 and 0 < heaviest < 1. After Lee & Clifton 2012 (one person left out: N = m + 1).

    >>> round(tables_bound("0.2027325", people=4, size=3), 6)
    0.333333
    """
    eps = amount(epsilon, name="epsilon", zero=True)
    return _table_posterior(eps, _log_weights(people, size, heaviest))


def epsilon_for_tables(risk: Number, *, people: int, size: int, heaviest: Number | None = None) -> float:
    """Return the largest total epsilon under add_remove at which `tables_bound` is at most `risk`.

    Raises DeclarationError as that does, and unless the risk is above what it is at epsilon 0 and below 1.

    >>> round(epsilon_for_tables("1/3", people=4, size=3), 6)  # ln(1.5) / 2
    0.202733
    """
    limit = chance(risk, name="risk")
    logs = _log_weights(people, size, heaviest)
    require_above(limit, _table_posterior(0.0, logs), name="risk", because="the largest prior of a table")
    return largest_epsilon(lambda eps: _table_posterior(eps, logs), limit)


def _log_weights(people: int, size: int, heaviest: Number | None) -> list[tuple[int, float]]:
    """Return (steps, log weight) of the other tables, relative to the weight of the table in question."""
    m = whole(size, name="size", least=1)
    spare = whole(people, name="people", least=m + 1) - m
    most = min(m, spare)
    if heaviest is not None:
        p = chance(heaviest, name="heaviest")
        return [(2 * most, math.log1p(-p) - math.log(p))]
    return [(2 * j, _log_choose(m, j) + _log_choose(spare, j)) for j in range(1, min(most, _TERMS) + 1)]


def _table_posterior(epsilon: float, logs: list[tuple[int, float]]) -> float:
    """Return 1 / (1 + the weights of the other tables); terms left out (beyond `_TERMS`) only raise it."""
    exponents = [weight - steps * epsilon for steps, weight in logs]
    top = max(0.0, *exponents)
    return math.exp(-top) / (math.exp(-top) + math.fsum(math.exp(e - top) for e in exponents))


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _posterior(epsilon: float, prior: float) -> float:
    """Return p e^eps / (1 - p + p e^eps), without overflow at either end."""
    if epsilon >= 0:
        return prior / (prior + (1 - prior) * math.exp(-epsilon))
    raised = prior * math.exp(epsilon)
    return raised / (1 - prior + raised)


def _power(epsilon: float, level: float, delta: float) -> float:
    first = math.inf if epsilon > _EXP_MOST else math.exp(epsilon) * level + delta
    return min(first, 1 - math.exp(-epsilon) * (1 - delta - level), 1.0)


def _advantage(epsilon: float, delta: float) -> float:
    shrunk = math.exp(-epsilon)
    return (-math.expm1(-epsilon) + 2 * delta * shrunk) / (1 + shrunk)


def _identification_risk(epsilon: float, candidates: int) -> float:
    return 1 / (1 + (candidates - 1) * math.exp(-epsilon))


# ---- How sure an attacker can be after answers whose noise has no pure bound, and how rarely that is passed
#
# It may not know data or ledgers: it reads events. Let P and Q be the laws of what is released on two neighbors, L = ln(P/Q)
# at what was released. From even odds, whoever knows everything else is then sure of P to 1 / (1 + e^-L). So "at most
# 1 / (1 + e^-e)" is passed with probability P(L > e) if P is true, and Q(L > e) <= e^-e P(L > e) if Q is.
#
# That probability is not the delta of (e, delta)-privacy, which is E[(1 - exp(e - L))+] and less: for Gaussian noise
# by a factor of 2 to 150. What bounds it:
#
# 1. Pure epsilon: L <= epsilon always.
# 2. rho-zCDP: E[exp((a - 1) L)] <= exp((a - 1) a rho); Markov's inequality at the best order a gives
#    P(L > rho + 2 sqrt(rho ln(1/c))) <= c (Bun & Steinke 2016, Lemma 3.5 and Proposition 1.3).
# 3. The discrete Gaussian of one moved cell: L = (v^2 - 2 v X) / (2 sigma^2) at a shift v, so L > e is X < v/2 - e sigma^2 / v,
#    which rises in v for e >= 0: the largest shift is the worst, and its tail is summed.
# 4. Any delta(x) that holds for all neighbors, such as that of a privacy loss distribution: for s > 0, where L > x + s,
#    1 - exp(x - L) > 1 - e^-s; so P(L > x + s) <= delta(x) / (1 - e^-s) (Kasiviswanathan & Smith 2014, Lemma 3.3, there with
#    x = s = epsilon: 2 epsilon but with 2 delta / (1 - e^-epsilon), both directions counted). s = ln 2 gives 2 delta.
#
# A list of charges is read as if it had been fixed before its first answer.

# orders of the Renyi divergences that bound a power
_ORDERS = (1.02, 1.1, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 20.0, 40.0)
# the delta of a rho whose budget states none
_DELTA = 1e-6
# the largest sigma at which a discrete Gaussian's tail is summed term by term
_SUMMED = 1000.0


@dataclass(frozen=True, slots=True)
class Belief:
    """A bound on what an attacker learns: odds move by e^epsilon at most, each way except with probability `chance`."""

    epsilon: float
    chance: Fraction

    @property
    def most(self) -> float:
        """The most that an attacker with even odds before is sure of, unless with that chance."""
        return 1 / (1 + math.exp(-self.epsilon))

    @property
    def percent(self) -> str:
        """The most that such an attacker is sure of, in percent, rounded up to a digit that shows it is not certain.

        >>> Belief(1.0, Fraction(0)).percent, Belief(9.0, Fraction(0)).percent
        ('73.2%', '99.988%')
        """
        rest = 100 / (1 + math.exp(self.epsilon)) if self.epsilon < 700 else 0.0
        digits = 1 if rest >= 0.1 else 3
        least = Decimal(rest).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_FLOOR)
        return f"{100 - least:f}%"

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
    >>> belief = belief_after([ApproxEvent(1, "1e-6")], delta="1e-6")  # 1 + ln 2
    >>> round(belief.epsilon, 6), float(belief.chance)
    (1.693147, 2e-06)
    """
    target = to_fraction(delta, name="delta")
    if not 0 <= target < 1:
        raise DeclarationError(f"delta must be at least 0 and below 1, not {format_number(target)}")
    return _after(tuple(events), target)


def belief_within(loss: Loss) -> Belief:
    """Return the most that odds move through any answers that a loss allows, however they are spent.

    For (epsilon, delta), and a rho at its own delta, by the fourth bound above.

    >>> belief_within(PureDP(1))
    Belief(epsilon=1.0, chance=Fraction(0, 1))
    """
    epsilon, delta = epsilon_and_delta(loss)
    if isinstance(loss, PureDP):
        return belief_after([LaplaceEvent(loss.epsilon)] if loss.epsilon else [])
    return belief_after([ApproxEvent(epsilon, delta)] if epsilon else [], delta=delta)


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

    An event is (epsilon(d), d)-private for each d, and each pair bounds the power (`power_bound`); so does each Renyi
    divergence, since reporting only whether the test rejects cannot raise it (data processing). The least is returned. For
    Gaussian noise a bound at a small delta alone is up to four times too large, for a median at a pure epsilon alone twice.

    >>> from sordino.core.accounting.events import LaplaceEvent
    >>> round(power_after(LaplaceEvent(1), epsilon=1.0, delta=0.0, level=0.05), 6)
    0.135914
    """
    return min(power_bound(epsilon, level=level, delta=delta), _power_of((event,), level))


@lru_cache(maxsize=1024)
def _power_of(alone: tuple[Event], level: float) -> float:
    """Return the least bound on the power at `level` that follows from the event alone, 1 where none does."""
    from sordino.core.accounting.pld import pld_power

    (event,) = alone

    bounds = [1.0]
    # refused where the event has neither losses, nor a rho, nor an (epsilon, delta)
    with suppress(DeclarationError):
        bounds.append(pld_power([event], level))
    bounds += [_power_within(event.renyi(order), order, level) for order in _ORDERS]
    certificate = approximate_rho(event)
    if certificate is not None and certificate[1]:
        # Given an event of probability 1 - delta on either side, it is rho-zCDP (Bun & Steinke 2016, Definition 8.1).
        rho = float_up(certificate[0])
        delta = float_up(certificate[1])
        inside = min(level / (1 - delta), 1.0)
        if inside < 1:
            bounds.append(delta + min(_power_within(order * rho, order, inside) for order in _ORDERS))
    return min(bounds)


def _power_within(divergence: float | None, order: float, level: float) -> float:
    """Return the largest power at `level` whose own Renyi divergences from it, both ways, are at most this one.

    >>> round(_power_within(2.0, 2.0, 0.05), 4)  # power^2 / .05 + (1 - power)^2 / .95 = e^2
    0.6009
    """
    if divergence is None or not math.isfinite(divergence):
        return 1.0

    def renyi(p: float, q: float) -> float:
        one, other = (order * math.log(x) + (1 - order) * math.log(y) for x, y in ((p, q), (1 - p, 1 - q)))
        log_sum = max(one, other) + math.log1p(math.exp(-abs(one - other)))
        return log_sum / (order - 1)

    return bisect(lambda power: max(renyi(power, level), renyi(level, power)) > divergence, level, 1 - 1e-12)[1]


@lru_cache(maxsize=4096)
def _after(events: tuple[Event, ...], target: Fraction) -> Belief:
    pures = [event.pure() for event in events]
    bounds: list[tuple[float, Fraction]] = []
    if None not in pures:
        bounds.append((float_up(sum((pure for pure in pures if pure is not None), Fraction(0))), Fraction(0)))
    several = [part for event in events for part in parts(event)]
    rhos = [rho for event in several if (rho := event.rho()) is not None]
    concentrated = len(rhos) == len(several)
    # no bound on L holds at the delta of an event that fails outright with a probability of its own
    chance = target if concentrated else 2 * target
    if 0 < chance < 1:
        if concentrated:
            bounds.append((basic_epsilon_of(sum(rhos, Fraction(0)), chance), chance))
        single = several[0] if len(several) == 1 else None
        law = None if single is None else common_law(single)
        if isinstance(law, ShiftedGaussian) and law.cells == 1:
            bounds.append((_gaussian(law, float(chance)), chance))
        elif single is None or isinstance(law, ShiftedGaussian) or not rhos:
            bounds.append((_by_delta(events, chance), chance))
    return Belief(*min(bounds, default=(math.inf, Fraction(0))))


def _gaussian(law: ShiftedGaussian, chance: float) -> float:
    """Return the loss at the first draw that is not among those of probability `chance` at most (3)."""
    variance = float(law.sigma_squared)
    sigma = math.sqrt(variance)
    if sigma > _SUMMED:
        # P(X >= m) <= P(N >= m - 1) (Canonne, Kamath, Steinke 2020, Proposition 25)
        low = 0.0
        high = 40.0
        while high - low > 1e-12:
            middle = (low + high) / 2
            low, high = (low, middle) if math.erfc(middle / math.sqrt(2)) / 2 <= chance else (middle, high)
        reach = math.ceil(high * sigma) + 1
    else:
        weights = [math.exp(-x * x / (2 * variance)) for x in range(math.ceil(40 * sigma) + 2)]
        limit = chance * (2 * math.fsum(weights) - 1) * (1 - 1e-12)
        beyond = 0.0
        reach = len(weights)
        while reach > 1 and beyond + weights[reach - 1] <= limit:
            reach -= 1
            beyond += weights[reach]
    return law.shift * (law.shift + 2 * (reach - 1)) / (2 * variance) * (1 + 1e-12)


def _by_delta(events: Sequence[Event], chance: Fraction) -> float:
    """Return the least x + s found with delta(x) <= chance (1 - e^-s) (4)."""

    def at(s: float, share: Fraction) -> float:
        try:
            return best(events, chance * share).epsilon + s
        except DeclarationError:
            return math.inf

    two = math.nextafter(math.log(2), 1.0)
    half = at(two, Fraction(1, 2))
    # the slope of ln P(L > x), were it Gaussian, and the best s for a tail of that slope
    slope = -2 * math.log(chance) / max(half - two, 1e-9)
    first = math.log1p(1 / slope) if slope else two
    shares = [(s, Fraction(-math.expm1(-s) * (1 - 1e-12))) for s in (first, 2 * first, 4 * first)]
    return min(half, *(at(s, share) for s, share in shares))
