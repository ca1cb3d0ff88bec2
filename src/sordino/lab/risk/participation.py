"""What taking part does to a person: how much likelier a disclosure becomes, and what it costs; with the inverses.

It may not know data, queries or a ledger. Everything here reads epsilon under add_remove: a person is in or out, and a
person who is in under another value is two steps away. A loss that is stated under replace bounds none of it.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial

from sordino.core.accounting.belief import largest_epsilon, least_epsilon
from sordino.core.arguments import amount, chance, whole
from sordino.core.errors import DeclarationError
from sordino.core.loss import Number, to_fraction
from sordino.core.rounding import bisect_whole

_EXP_MOST = 700.0
# Steps of a study's error that are looked at one by one.
_BLOCKS = 10_000


def relative_bound(epsilon: Number, *, prior: Number, participation: Number) -> float:
    """Return the most by which a release multiplies the chance that a person is in the table with a sensitive value.

    1 / (q p + e^(-2 eps) (1 - q) p + e^(-eps) (1 - p)): p = `participation`, the probability that the person is in the
    table; q = `prior`, that the value is sensitive given that (1 where being in the table is itself the secret).
    Reads epsilon under add_remove, for rows that are independent of one another. Raises DeclarationError unless
    epsilon >= 0 and 0 < prior, participation <= 1. Kazan & Reiter 2024, Prior-itizing privacy, Theorem 1.

    >>> round(relative_bound(1, prior=0.1, participation=0.5), 6)
    3.391663
    """
    eps = amount(epsilon, name="epsilon", zero=True)
    q = chance(prior, name="prior", one=True)
    p = chance(participation, name="participation", one=True)
    return _relative(eps, q, p)


def epsilon_for_relative(
    ratio: Number, *, prior: Number | None = None, participation: Number | None = None, tolerated: Number = 0
) -> float:
    """Return the largest epsilon at which no disclosure becomes more than `ratio` times as likely.

    The least over all priors and participations that are not given (None); with neither, ln(ratio) / 2. `tolerated` is
    a posterior that is never of concern: the bound asked is then max(a / (q p), ratio), and with prior 1
    epsilon = ln((r - a) / (1 - a)). math.inf where the ratio cannot be passed at any epsilon. The inverse of
    `relative_bound`, under add_remove. Raises DeclarationError unless ratio > 1 and 0 <= tolerated < 1.
    Kazan & Reiter 2024, Theorems 2 and 3 and equation 13; section 4 for `tolerated`.

    >>> round(epsilon_for_relative(3), 6), round(epsilon_for_relative(3, prior=1, tolerated=0.25), 6)
    (0.549306, 1.299283)
    """
    r = amount(ratio, name="ratio")
    if r <= 1:
        raise DeclarationError(f"ratio must be above 1, such as 1.5, not {r:g}: at epsilon 0 the ratio is 1")
    q = None if prior is None else chance(prior, name="prior", one=True)
    p = None if participation is None else chance(participation, name="participation", one=True)
    a = chance(tolerated, name="tolerated", zero=True)
    return min(
        largest_epsilon(partial(_relative, prior=q, participation=p), limit) for q, p, limit in _worst(r, q, p, a)
    )


def epsilon_for_cost(budget: Number, *, people: int, cost: Number) -> float:
    """Return the largest epsilon at which `budget` pays `people` for what taking part costs: ln(1 + B / (N E)).

    Taking part adds at most (e^eps - 1) E to the cost E that a person expects to have over the same events without it.
    Under add_remove; `budget` and `cost` in one unit. Raises DeclarationError unless budget > 0, people >= 1 and cost > 0.
    Hsu et al. 2014, Differential privacy: an economic method for choosing epsilon, section 4.

    >>> round(epsilon_for_cost(1000, people=100, cost=20), 6)  # ln 1.5
    0.405465
    """
    b = amount(budget, name="budget")
    n = whole(people, name="people", least=1)
    each = amount(cost, name="cost")
    return largest_epsilon(lambda eps: n * _cost(eps, each), b)


def study_failure(epsilon: Number, *, error: Number, people: int) -> float:
    """Return the chance that a count of `people` is wrong by more than the share `error` of them.

    The law of the noise that counts get: P(|Z| > T n) = 2 q^m / (1 + q) with q = e^-eps, m the first whole number above
    T n. (Hsu et al. 2014 have e^(-T n eps), of continuous noise: less, by up to half.) Reads epsilon under add_remove, in
    which one person moves a count by 1. Raises DeclarationError unless epsilon >= 0, 0 < error < 1 and people >= 1.

    >>> round(study_failure(1, error=0.01, people=299), 6)
    0.072795
    """
    first = _first_failure(error, people)
    return _miss_probability(amount(epsilon, name="epsilon", zero=True), first)


def epsilon_for_study(error: Number, *, people: int, failure: Number) -> float:
    """Return the least epsilon at which `study_failure` is at most `failure`.

    `error` is the share T of the people, under add_remove. Raises DeclarationError unless 0 < error, failure < 1 and
    people >= 1. After Hsu et al. 2014, section 5.

    >>> round(epsilon_for_study(0.01, people=299, failure=0.05), 6)
    1.136876
    """
    return _least_epsilon(_first_failure(error, people), chance(failure, name="failure"))


def people_for_study(error: Number, *, failure: Number, budget: Number, cost: Number) -> int | None:
    """Return the number of people from which on some epsilon is both accurate and paid for; None where there is none.

    All n whose T n has the same whole part need the same epsilon, e(m), m that part + 1; the last of them is paid for
    least. It is below m / T, where ln(1 + B / (n E)) m rises in m, and e(m) m falls to ln(1 / a): so beyond some m all
    are feasible, unless ln(1 / a) / T >= B / E. Units, relation and errors as `epsilon_for_study` and `epsilon_for_cost`.

    >>> people_for_study(0.01, failure=0.05, budget=10_000, cost=20)
    400
    """
    share = to_fraction(error, name="error")
    a = chance(failure, name="failure")
    chance(error, name="error")
    most = amount(budget, name="budget") / amount(cost, name="cost")
    if -math.log(a) / share >= most:
        return None

    def short(first: int, people: float | Fraction) -> bool:
        return _least_epsilon(first, a) > math.log1p(most / people)

    low = 0
    high = 1
    while short(high, high / share):
        if high > 2**60:
            return None
        low = high
        high = 2 * high
    first = high = bisect_whole(lambda m: not short(m, m / share), low, high)
    while first > max(1, high - _BLOCKS) and not short(first - 1, math.ceil((first - 1) / share) - 1):
        first -= 1
    return max(1, math.ceil((first - 1) / share))


def people_for_accuracy(error: Number, *, failure: Number, epsilon: Number) -> int:
    """Return the number of people from which on `study_failure` is at most `failure` at `epsilon`.

    >>> people_for_accuracy(0.01, failure=0.05, epsilon=1)
    300
    """
    share = to_fraction(error, name="error")
    a = chance(failure, name="failure")
    eps = amount(epsilon, name="epsilon")
    first = max(1, math.ceil(math.log(2 / (a * (1 + math.exp(-eps)))) / eps) - 1)
    while _miss_probability(eps, first) > a:
        first += 1
    return max(1, math.ceil((first - 1) / share))


def _first_failure(error: Number, people: int) -> int:
    """Return the first whole number above the share `error` of the people."""
    chance(error, name="error")
    return math.floor(to_fraction(error, name="error") * whole(people, name="people", least=1)) + 1


def _miss_probability(epsilon: float, first: int) -> float:
    """Return P(|Z| >= first) of discrete Laplace noise of scale 1 / epsilon."""
    return 2 * math.exp(-first * epsilon) / (1 + math.exp(-epsilon))


def _least_epsilon(first: int, failure: float) -> float:
    """Return the least epsilon at which `_miss_probability` is at most `failure`."""
    return least_epsilon(lambda eps: _miss_probability(eps, first), failure)


def _relative(epsilon: float, prior: float, participation: float) -> float:
    joint = prior * participation
    other = (1 - prior) * participation
    rest = joint + math.exp(-2 * epsilon) * other + math.exp(-epsilon) * (1 - participation)
    return 1 / rest if rest else math.inf


def _worst(r: float, q: float | None, p: float | None, a: float) -> list[tuple[float, float, float]]:
    """Return the (prior, participation, ratio allowed) among which the least epsilon over what is unknown lies.

    1 / bound is linear in q and in p, and 1 / allowed = min(q p / a, 1 / r) is concave in each: their difference is
    convex, and least at an end or at the kink q p = a / r. Over both, the worst at a given q p is p = 1.
    """
    kink = a / r
    if q is None and p is None:
        return [(kink, 1.0, r)]
    if p is None and q is not None:
        ends = [(q, 1.0, max(a / q, r))]
        return [*ends, (q, kink / q, r)] if kink < q else ends
    if q is None and p is not None:
        return [(kink / p, p, r)] if kink < p else [(1.0, p, max(a / p, r))]
    assert q is not None
    assert p is not None
    return [(q, p, max(a / (q * p), r))]


def _cost(epsilon: float, each: float) -> float:
    return math.inf if epsilon > _EXP_MOST else math.expm1(epsilon) * each
