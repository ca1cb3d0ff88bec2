"""Events: what was run, as frozen data whose methods bound its privacy loss.

Architecture. A mechanism states what it ran as an event. A ledger stores the event as JSON (`event_fields`); composition
(`composition`, `renyi`, `pld`, `belief`) takes lists of events and asks each for its bounds: `pure`, `approx`, `rho`,
`renyi`, `profile`, each a number rounded up or None where no such bound is known. An event knows neither data nor how noise
is drawn, and composition never asks for an event's class. What only some events know, they say in methods that others leave
out:

- `approximate_rho()`: the (rho, delta) of delta-approximate rho-zCDP, for an event that has no rho by itself;
- `parts()`: the events that it is composed of;
- `summands()`: events that sum to it, with how often each occurs;
- `common_law()`: the common law that dominates it (`common_laws`), so that thousands of such events are composed at once.

Compatibility. A published event never changes its meaning: its kind, its fields and what they guarantee stand in ledgers,
and a ledger must be worth as much in ten years as today. A bound may become tighter where a better theorem is found, since
the theorem holds for what was run then, too. An event that would mean something else gets a new kind.

A new event is a class with `@register_event("its name")` above it, in any file, ours or not; nothing else needs a change. A
record of a kind that nobody registered is read as an `UnknownEvent`, with the bounds that were stored beside it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sordino.core.accounting.concentration import bounded_range_rho, laplace_rho, pure_rho
from sordino.core.accounting.discretize import (
    BoundedRange,
    CommonLaw,
    Concentrated,
    Response,
    ShiftedGaussian,
    ShiftedLaplace,
)
from sordino.core.accounting.event_fields import check_order, read_amount, register_event
from sordino.core.errors import DeclarationError
from sordino.core.loss import ApproxDP, Event, Grid, Losses, Number, PrivacyLoss, format_number, to_fraction
from sordino.core.rounding import float_down, float_up

# ---- The event of a selection by the exponential mechanism: bounded range. It knows neither scores nor candidates

_BLOCKS = 1 << 22


@register_event("bounded_range")
@dataclass(frozen=True, slots=True, init=False)
class BoundedRangeEvent:
    """The event of a mechanism of epsilon-bounded range: its privacy losses lie in one interval of length epsilon.

    The exponential mechanism has it (Durfee & Rogers 2019, Practical differentially private top-k selection, Lemma 4.1).
    As the interval holds 0, pure epsilon follows; rho is the least that all of them have (`concentration`, theorem 4),
    below the epsilon^2 / 8 of Hoeffding's lemma (Cesar & Rogers 2021, Bounding, concentrating, and truncating).

    Theorem (`renyi`): given the interval [t - e, t] of losses, E[exp((order - 1) loss)] is largest with all mass on its
    ends (convexity), where normalising fixes the masses: (exp(e) - exp(t)) / (exp(e) - 1) on t (Dong, Durfee, Rogers
    2020, section 3.1). With A = exp(e) - exp(-(order - 1) e) and B = 1 - exp(-(order - 1) e) the worst t is
    ln((order - 1) A / (order B)), and the divergence there t + ln(A / (order (exp(e) - 1))) / (order - 1).

    Raises DeclarationError unless epsilon is a finite number, 0 or more.

    >>> float(BoundedRangeEvent(1).rho())
    0.123301561483
    """

    epsilon: Fraction

    def __init__(self, epsilon: Number) -> None:
        object.__setattr__(self, "epsilon", read_amount(epsilon, name="epsilon", of=" of an event"))

    def pure(self) -> Fraction:
        """Return epsilon."""
        return self.epsilon

    def approx(self) -> tuple[Fraction, Fraction]:
        """Return (epsilon, 0)."""
        return self.epsilon, Fraction(0)

    def common_law(self) -> BoundedRange:
        """Return its law: several compose better by their rho."""
        return BoundedRange(float_up(self.epsilon))

    def rho(self) -> Fraction:
        """Return the exact rho, rounded up, about epsilon^2 / 8."""
        return bounded_range_rho(self.epsilon)

    def renyi(self, order: float) -> float:
        """Return the worst divergence at `order` > 1, rounded up, at most epsilon and order * rho."""
        check_order(order)
        most = float_up(self.epsilon)
        if most == 0 or math.isinf(order):
            return most
        concentrated = float_up(Fraction(order) * self.rho())
        # there the closed form has lost its digits, or would overflow
        if not 1e-4 < most < 600 or order > 1e6:
            return min(most, concentrated)
        fallen = -math.expm1(-(order - 1) * most)
        numerator = math.expm1(most) + fallen
        worst = math.log((order - 1) * numerator / (order * fallen))
        rest = math.log(numerator / (order * math.expm1(most))) / (order - 1)
        # a few roundings of the logarithms' arguments
        slack = 1e-14 * (1 + abs(worst) + abs(rest) + 1 / (order - 1))
        return min(most, concentrated, worst + rest + slack)

    def profile(self, grid: Grid) -> PrivacyLoss | None:
        """Return the losses of the least pair that dominates all mechanisms of epsilon-bounded range, both ways alike.

        Theorem: the two-point pair of `renyi` has delta(x) = (exp(e) - exp(t)) (1 - exp(x - t)) / (exp(e) - 1), largest
        at t = (e + x) / 2, where it is (exp(e/2) - exp(x/2))^2 / (exp(e) - 1). As a function of exp(x) that is convex, so
        a pair has it (Zhu, Dong, Wang 2022): its losses l in [-e, e] have the densities
        exp(l/2) / (4 sinh(e/2)) under P and exp(-l/2) / (4 sinh(e/2)) under Q.
        """
        import numpy as np

        from sordino.core.accounting.discretize import LARGEST_LOSS, approximate, discretize_blocks

        most = float_up(self.epsilon)
        # Where it is too fine or too wide for the grid, any pure mechanism's pair dominates it.
        if most < 1e-9 or most > min(LARGEST_LOSS, _BLOCKS * grid.step / 4):
            return approximate(most, 0.0, grid)
        count = math.ceil(4 * most / grid.step)
        edges = np.linspace(-most, most, count + 1)
        half = np.diff(edges) / 2
        slack = 1e-13 * (1 + most)
        p = np.exp(edges[:-1] / 2) * np.expm1(half) / (2 * math.sinh(most / 2)) * (1 + slack)
        r = np.exp(-edges[:-1] / 2) * -np.expm1(-half) / (2 * math.sinh(most / 2)) * (1 - slack)
        losses = discretize_blocks(p, r, edges[:-1], edges[1:], 0.0, grid)
        return PrivacyLoss(losses, losses)


# ---- The event of a release whose bound fails with a small probability. It knows neither keys nor counts


@register_event("threshold")
@dataclass(frozen=True, slots=True, init=False)
class ThresholdEvent:
    """The event of running `inner`, except with probability `delta`, such as that of showing a key of one unit.

    With inner (epsilon, d) the whole is (epsilon, d + delta); with inner rho-zCDP it is delta-approximate rho-zCDP
    (Bun & Steinke 2016, Definition 8.1), and composes by sums of rho and of delta. `rho` is None, since no rho alone
    holds: a cap on rho with a slack charges `inner.rho()` and `delta`.

    Raises DeclarationError unless inner is an event and delta lies in [0, 1).

    >>> from sordino.core.accounting.events import LaplaceEvent
    >>> ThresholdEvent(LaplaceEvent(1), "1e-6").approx()
    (Fraction(1, 1), Fraction(1, 1000000))
    """

    inner: Event
    delta: Fraction

    def __init__(self, inner: Event, delta: Number) -> None:
        if not isinstance(inner, Event):
            raise DeclarationError("inner must be an event: LaplaceEvent, GaussianEvent or the like")
        object.__setattr__(self, "inner", inner)
        object.__setattr__(self, "delta", ApproxDP(0, delta).delta)

    def pure(self) -> Fraction | None:
        """Return the inner bound where delta is 0."""
        return self.inner.pure() if self.delta == 0 else None

    def approx(self) -> tuple[Fraction, Fraction] | None:
        """Return the inner pair with delta added."""
        pair = self.inner.approx()
        return None if pair is None or pair[1] + self.delta >= 1 else (pair[0], pair[1] + self.delta)

    def approximate_rho(self) -> Certificate | None:
        """Return the inner bound with delta added."""
        inner = approximate_rho(self.inner)
        return None if inner is None or inner[1] + self.delta >= 1 else (inner[0], inner[1] + self.delta)

    def rho(self) -> Fraction | None:
        """Return the inner bound where delta is 0."""
        return self.inner.rho() if self.delta == 0 else None

    def renyi(self, order: float) -> float | None:
        """Return the inner bound where delta is 0."""
        return self.inner.renyi(order) if self.delta == 0 else None

    def profile(self, grid: Grid) -> PrivacyLoss | None:
        """Return the inner losses with probability 1 - delta, infinite ones with the rest.

        Theorem: let d, d' <= delta be the chances of the event on two neighbors, c = (1 - d') / (1 - d), y = exp(x) and
        H(y) the inner delta(x), which falls, is convex in y and has H(0) = 1. The whole has at most d + (1 - d) H(c y). For
        c >= 1 that is at most d + (1 - d) H(y); else H(c y) <= c H(y) + 1 - c makes it d' + (1 - d') H(y). Both are at most
        delta + (1 - delta) H(y).
        """
        inner = self.inner.profile(grid)
        if inner is None:
            return None
        removed = _mix(inner.removed, self.delta)
        return PrivacyLoss(removed, removed if inner.added is inner.removed else _mix(inner.added, self.delta))


def _mix(losses: Losses, delta: Fraction) -> Losses:
    """Return losses of which a part `delta` has become infinite, rounded up."""
    lost = math.nextafter(float(delta), math.inf) if delta else 0.0
    rest = math.nextafter(1 - float(delta), math.inf)
    return Losses(losses.at, losses.mass * rest, losses.infinite * rest + lost)


# ---- Noise on whole numbers as events that state their own law, and so their tight losses. It draws no noise
#
# Theorem (one number stands for a vector). Let Z be noise on the whole numbers of log-concave, symmetric law, added
# independently to each cell. Where neighbors differ by whole numbers v_1, ..., v_k with |v_1| + ... + |v_k| <= s, the
# release is dominated by Z against Z + s.
#
# Proof. Write T(P, Q) for the trade-off function: the least type II error at each type I error. (1) By log-concavity the
# likelihood ratio of Z against Z + a is monotone, so the best tests are half-lines, with coins at their ends: 1 - T(Z, Z +
# a) takes P[Z > t] to P[Z > t - a] and is straight between. Hence it falls in a, and with f_a = T(Z, Z + a),
# f_b(1 - f_a) = f_(a+b): knots go to knots. (2) For any P, Q, R with T(P, Q) >= f and T(Q, R) >= g: T(P, R) >= g(1 - f)
# (Dong, Roth, Su 2022, Lemma A.5). Go from (0, ..., 0) to (v_1, ..., v_k) one cell at a time: each step is the shift of one
# cell, |v_i| by symmetry, the other cells being alike on both sides. So T >= f_(|v_1| + ... + |v_k|) >= f_s, and a smaller
# trade-off function is that of a dominating pair (Blackwell 1951). The tests check it by enumeration.

Certificate = tuple[Fraction, Fraction]


@register_event("discrete_laplace")
@dataclass(frozen=True, slots=True, init=False)
class DiscreteLaplaceEvent:
    """The event of adding discrete Laplace noise of scale steps / epsilon to whole numbers of l1 sensitivity `steps`.

    Vectors included, by the theorem above. Epsilon aside, every bound is the law's own; rho is exact (`concentration`,
    theorem 3). Raises DeclarationError unless epsilon >= 0 and steps is a whole number, 1 or more.

    >>> float(DiscreteLaplaceEvent(1, 1).rho()), float(DiscreteLaplaceEvent(1, 1000).rho())
    (0.462117157261, 0.367879546525)
    """

    epsilon: Fraction
    steps: int

    def __init__(self, epsilon: Number, steps: int) -> None:
        object.__setattr__(self, "epsilon", read_amount(epsilon, name="epsilon", of=" of an event"))
        object.__setattr__(self, "steps", _whole(steps, "steps"))

    def pure(self) -> Fraction:
        """Return epsilon."""
        return self.epsilon

    def approx(self) -> Certificate:
        """Return (epsilon, 0)."""
        return self.epsilon, Fraction(0)

    def common_law(self) -> Response | ShiftedLaplace:
        """Return the law and its shift; noise shifted by one step is randomized response."""
        epsilon = float_up(self.epsilon)
        return Response(epsilon, 0.0) if self.steps == 1 else ShiftedLaplace(epsilon, self.steps)

    def rho(self) -> Fraction:
        """Return epsilon - (1 - exp(-epsilon)) c / sinh(c), c = epsilon / steps, rounded up."""
        return laplace_rho(self.epsilon, self.steps)

    def renyi(self, order: float) -> float:
        """Return the divergence of the law from its shift, rounded up, at most epsilon.

        With a the order, q = exp(-epsilon / steps), r = q^(2a - 1): ln((e^((a-1) epsilon) (1 + (1 - q) r (1 -
        r^(steps-1)) / (1 - r)) + e^(-a epsilon)) / (1 + q)) / (a - 1).
        """
        check_order(order)
        most = float_up(self.epsilon)
        if most == 0 or math.isinf(order):
            return most
        rate = most / self.steps
        turn = (2 * order - 1) * rate
        middle = math.exp(-turn) * -math.expm1(-rate) * (math.expm1(-(self.steps - 1) * turn) / math.expm1(-turn))
        rest = middle + math.exp((1 - 2 * order) * most) - math.exp(-rate)
        value = most + math.log1p(rest / (1 + math.exp(-rate))) / (order - 1)
        # the two terms nearly cancel
        slack = 1e-14 * value + 4e-15 * (1 + most) * (1 + 1 / (order - 1))
        return min(most, order * most * most / 2 * (1 + 1e-14), max(0.0, value + slack))

    def profile(self, grid: Grid) -> PrivacyLoss:
        """Return the law's own losses."""
        from sordino.core.accounting.discretize import laplace_losses

        return laplace_losses(float_up(self.epsilon), self.steps, grid)


@register_event("discrete_gaussian")
@dataclass(frozen=True, slots=True, init=False)
class DiscreteGaussianEvent:
    """The event of adding discrete Gaussian noise to whole numbers, at most `cells` of them moved by at most `shift`.

    Each moved cell's losses are those of the law shifted by `shift`, since smaller shifts are dominated (step 1 of the
    theorem above), and cells add up. rho = cells shift^2 / (2 sigma_squared) (Canonne, Kamath, Steinke 2020, Theorem
    4). `certificate` is an (epsilon, delta) proven for it, the one charged under a cap on sums.

    Raises DeclarationError unless sigma_squared > 0 and shift and cells are whole numbers, 1 or more.

    >>> DiscreteGaussianEvent(4, 1, 1).rho()
    Fraction(1, 8)
    """

    sigma_squared: Fraction
    shift: int
    cells: int
    certificate: Certificate | None

    def __init__(self, sigma_squared: Number, shift: int, cells: int, certificate: Certificate | None = None) -> None:
        variance = to_fraction(sigma_squared, name="sigma_squared")
        if variance <= 0:
            raise DeclarationError(f"sigma_squared of an event must be above 0, not {format_number(variance)}")
        object.__setattr__(self, "sigma_squared", variance)
        object.__setattr__(self, "shift", _whole(shift, "shift"))
        object.__setattr__(self, "cells", _whole(cells, "cells"))
        object.__setattr__(self, "certificate", _certificate(certificate))

    def pure(self) -> None:
        """Return None: Gaussian noise has no pure bound."""

    def approx(self) -> Certificate | None:
        """Return the certificate."""
        return self.certificate

    def common_law(self) -> ShiftedGaussian:
        """Return the law, its shift and how many cells have it."""
        return ShiftedGaussian(self.sigma_squared, self.shift, self.cells)

    def summands(self) -> list[tuple[Event, int]]:
        """Return the event of one cell, once for each moved cell."""
        return [(DiscreteGaussianEvent(self.sigma_squared, self.shift, 1), self.cells)]

    def rho(self) -> Fraction:
        """Return cells shift^2 / (2 sigma_squared)."""
        return self.cells * self.shift**2 / (2 * self.sigma_squared)

    def renyi(self, order: float) -> float:
        """Return order * rho, rounded up."""
        check_order(order)
        return float_up(Fraction(order) * self.rho()) if math.isfinite(order) else math.inf

    def profile(self, grid: Grid) -> PrivacyLoss:
        """Return the law's own losses, summed over the cells by repeated doubling."""
        from sordino.core.accounting.discretize import compose, gaussian_losses

        total = None
        power = gaussian_losses(float_down(self.sigma_squared), self.shift, grid)
        left = self.cells
        while True:
            if left & 1:
                total = power if total is None else compose(total, power, grid)
            left >>= 1
            if not left:
                return total if total is not None else power
            power = compose(power, power, grid)


def _whole(value: int, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise DeclarationError(f"{name} of an event must be a whole number, 1 or more")
    return value


# ---- Events of which only a bound is known: pure, concentrated, (epsilon, delta); and all of several together


@register_event("laplace")
@dataclass(frozen=True, slots=True, init=False)
class LaplaceEvent:
    """The event of an epsilon-differentially private mechanism: Laplace noise, a selection, any pure mechanism.

    rho = epsilon tanh(epsilon / 2), exactly (`concentration`, theorem 2). The Renyi divergence of order a is at most that of
    randomized response, log(cosh((a - 1/2) epsilon) / cosh(epsilon / 2)) / (a - 1) (Kairouz, Oh, Viswanath 2015,
    Theorem 2.5, with post-processing), and at most epsilon. `LaplaceEvent(0)` is the free event.

    Raises DeclarationError unless epsilon is a finite number, 0 or more.

    >>> float(LaplaceEvent(0.1).rho())
    0.00499583749579
    >>> LaplaceEvent(Fraction(1, 10))
    LaplaceEvent(epsilon=Fraction(1, 10))
    """

    epsilon: Fraction

    def __init__(self, epsilon: Number) -> None:
        object.__setattr__(self, "epsilon", read_amount(epsilon, name="epsilon", of=" of an event"))

    def pure(self) -> Fraction:
        """Return epsilon."""
        return self.epsilon

    def approx(self) -> Certificate:
        """Return (epsilon, 0)."""
        return self.epsilon, Fraction(0)

    def common_law(self) -> Response:
        """Return randomized response, whose losses dominate those of every pure mechanism."""
        return Response(float_up(self.epsilon), 0.0)

    def rho(self) -> Fraction:
        """Return epsilon tanh(epsilon / 2), rounded up."""
        return pure_rho(self.epsilon)

    def renyi(self, order: float) -> float:
        """Return the divergence of randomized response at `order` > 1, rounded up, at most epsilon."""
        check_order(order)
        most = float_up(self.epsilon)
        if most == 0 or math.isinf(order):
            return most
        if order * most < 500:
            grown = 2 * math.sinh(order * most / 2) * math.sinh((order - 1) * most / 2) / math.cosh(most / 2)
            value = math.log1p(grown) / (order - 1)
        else:
            value = most - (math.log1p(math.exp(-most)) - math.log1p(math.exp((1 - 2 * order) * most))) / (order - 1)
        return min(most, value * (1 + 1e-13))

    def profile(self, grid: Grid) -> PrivacyLoss:
        """Return the losses of randomized response, which dominate those of every pure mechanism."""
        from sordino.core.accounting.discretize import approximate

        return approximate(float_up(self.epsilon), 0.0, grid)


@register_event("staircase")
@dataclass(frozen=True, slots=True, init=False)
class StaircaseEvent:
    """The event of adding staircase noise to whole numbers of which one moves, by at most `steps`; `early` is its shape.

    It is epsilon-differentially private (`noise.staircase`). The law is not log-concave, so no single move of the number
    dominates the others: its rho, divergences and losses are bounded by those of any pure mechanism, as of `LaplaceEvent`.
    Beside discrete Laplace noise of the same epsilon it has less variance and reveals more in these terms, so under a cap on rho
    it is not used.

    Raises DeclarationError unless epsilon >= 0 and 1 <= early <= steps are whole numbers.

    >>> StaircaseEvent(3, 10, 3).pure()
    Fraction(3, 1)
    """

    epsilon: Fraction
    steps: int
    early: int

    def __init__(self, epsilon: Number, steps: int, early: int) -> None:
        object.__setattr__(self, "epsilon", read_amount(epsilon, name="epsilon", of=" of an event"))
        object.__setattr__(self, "steps", _whole(steps, "steps"))
        object.__setattr__(self, "early", _whole(early, "early"))
        if self.early > self.steps:
            raise DeclarationError(f"early of an event must be at most its steps, {self.steps}, not {self.early}")

    def pure(self) -> Fraction:
        """Return epsilon."""
        return self.epsilon

    def approx(self) -> Certificate:
        """Return (epsilon, 0)."""
        return self.epsilon, Fraction(0)

    def common_law(self) -> Response:
        """Return randomized response, whose losses dominate those of every pure mechanism."""
        return LaplaceEvent(self.epsilon).common_law()

    def rho(self) -> Fraction:
        """Return epsilon tanh(epsilon / 2), rounded up."""
        return pure_rho(self.epsilon)

    def renyi(self, order: float) -> float:
        """Return the divergence of randomized response at `order` > 1, rounded up, at most epsilon."""
        return LaplaceEvent(self.epsilon).renyi(order)

    def profile(self, grid: Grid) -> PrivacyLoss:
        """Return the losses of randomized response, which dominate those of every pure mechanism."""
        return LaplaceEvent(self.epsilon).profile(grid)


@register_event("gaussian")
@dataclass(frozen=True, slots=True, init=False)
class GaussianEvent:
    """The event of a rho-zCDP mechanism, such as Gaussian noise; `certificate` is an (epsilon, delta) proven for it.

    The discrete Gaussian of parameter sigma has rho = (l2 sensitivity)^2 / (2 sigma^2) (Canonne, Kamath, Steinke 2020,
    Theorem 4). No pure bound holds. The certificate comes of the mechanism's own law, and only it may be charged under
    a cap on sums of epsilon and delta.

    Raises DeclarationError unless rho is 0 or more and the certificate, where given, has a delta in [0, 1).

    >>> GaussianEvent(Fraction(1, 8)).renyi(2.0) >= 0.25
    True
    """

    zcdp: Fraction
    certificate: Certificate | None

    def __init__(self, rho: Number, certificate: Certificate | None = None) -> None:
        object.__setattr__(self, "zcdp", read_amount(rho, name="rho", of=" of an event"))
        object.__setattr__(self, "certificate", _certificate(certificate))

    def __repr__(self) -> str:
        return f"GaussianEvent(rho={self.zcdp!r}, certificate={self.certificate!r})"

    def pure(self) -> None:
        """Return None: Gaussian noise has no pure bound."""

    def approx(self) -> Certificate | None:
        """Return the certificate."""
        return self.certificate

    def common_law(self) -> Concentrated:
        """Return rho: it bounds the divergence of each order, and nothing more is known."""
        return Concentrated(self.zcdp)

    def rho(self) -> Fraction:
        """Return rho."""
        return self.zcdp

    def renyi(self, order: float) -> float:
        """Return order * rho, rounded up (the definition of zCDP; Bun & Steinke 2016, Definition 1.1)."""
        check_order(order)
        return float_up(Fraction(order) * self.zcdp) if math.isfinite(order) else math.inf if self.zcdp else 0.0

    def profile(self, grid: Grid) -> None:
        """Return None: rho is all that is known, and rhos are best summed before they become losses."""


@register_event("approx")
@dataclass(frozen=True, slots=True, init=False)
class ApproxEvent:
    """The event of an (epsilon, delta)-private mechanism with no known pure or concentrated bound.

    Raises DeclarationError unless epsilon is 0 or more and delta lies in [0, 1).

    >>> ApproxEvent(1, "1e-6").approx()
    (Fraction(1, 1), Fraction(1, 1000000))
    """

    epsilon: Fraction
    delta: Fraction

    def __init__(self, epsilon: Number, delta: Number) -> None:
        pair = ApproxDP(epsilon, delta)
        object.__setattr__(self, "epsilon", pair.epsilon)
        object.__setattr__(self, "delta", pair.delta)

    def pure(self) -> None:
        """Return None."""

    def approx(self) -> Certificate:
        """Return (epsilon, delta)."""
        return self.epsilon, self.delta

    def rho(self) -> None:
        """Return None: a delta of this kind bounds no Renyi divergence."""

    def common_law(self) -> Response:
        """Return randomized response that reveals all with probability delta."""
        return Response(float_up(self.epsilon), float_up(self.delta))

    def approximate_rho(self) -> Certificate:
        """Return (epsilon tanh(epsilon / 2), delta): except with probability delta, randomized response is the worst case."""
        return pure_rho(self.epsilon), self.delta

    def renyi(self, order: float) -> None:
        """Return None."""
        check_order(order)

    def profile(self, grid: Grid) -> PrivacyLoss:
        """Return the losses of randomized response that reveals all with probability delta."""
        from sordino.core.accounting.discretize import approximate

        return approximate(float_up(self.epsilon), float_up(self.delta), grid)


@register_event("composed")
@dataclass(frozen=True, slots=True, init=False)
class Composed:
    """The event of running all of `events` on one table: each bound is the sum of the parts', None if a part has none.

    Sequential composition (Dwork & Roth 2014, Theorem 3.16; for rho Bun & Steinke 2016, Lemma 1.7; for Renyi
    divergences Mironov 2017, Proposition 1). `certificate` is an (epsilon, delta) proven for the whole.

    >>> Composed((LaplaceEvent("1/3"), LaplaceEvent("2/3"))).pure()
    Fraction(1, 1)
    """

    events: tuple[Event, ...]
    certificate: Certificate | None

    def __init__(self, events: Iterable[Event], certificate: Certificate | None = None) -> None:
        several = tuple(events)
        if not all(isinstance(event, Event) for event in several):
            raise DeclarationError("events must be events: LaplaceEvent, GaussianEvent, Composed or the like")
        object.__setattr__(self, "events", several)
        object.__setattr__(self, "certificate", _certificate(certificate))

    def __repr__(self) -> str:
        return f"Composed(events={self.events!r}, certificate={self.certificate!r})"

    def parts(self) -> tuple[Event, ...]:
        """Return the events that were run; the event itself where some of them say less than its certificate."""
        several = tuple(deeper for event in self.events for deeper in parts(event))
        enough = self.certificate is None or all(p.approx() is not None or p.rho() is not None for p in several)
        return several if enough else (self,)

    def pure(self) -> Fraction | None:
        """Return the sum of the parts' epsilons."""
        return _total([event.pure() for event in self.events])

    def approx(self) -> Certificate | None:
        """Return the certificate of the whole, else the sums of the parts' epsilons and deltas."""
        if self.certificate is not None:
            return self.certificate
        pairs = [event.approx() or (None, None) for event in self.events]
        epsilon = _total(pair[0] for pair in pairs)
        delta = _total(pair[1] for pair in pairs)
        return None if epsilon is None or delta is None or delta >= 1 else (epsilon, delta)

    def rho(self) -> Fraction | None:
        """Return the sum of the parts' rhos."""
        return _total([event.rho() for event in self.events])

    def approximate_rho(self) -> Certificate | None:
        """Return the sums of the parts' rhos and deltas."""
        pairs = [approximate_rho(event) or (None, None) for event in self.events]
        rho = _total(pair[0] for pair in pairs)
        delta = _total(pair[1] for pair in pairs)
        return None if rho is None or delta is None or delta >= 1 else (rho, delta)

    def renyi(self, order: float) -> float | None:
        """Return the sum of the parts' divergences of `order` > 1, rounded up."""
        check_order(order)
        divergences = [part for event in self.events if (part := event.renyi(order)) is not None]
        return math.nextafter(math.fsum(divergences), math.inf) if len(divergences) == len(self.events) else None

    def profile(self, grid: Grid) -> PrivacyLoss | None:
        """Return the sum of the parts' losses, all independent (adaptive choice within dominating pairs included)."""
        from sordino.core.accounting.discretize import compose

        total = LaplaceEvent(0).profile(grid)
        for event in self.events:
            part = event.profile(grid)
            if part is None:
                return None
            total = compose(total, part, grid)
        return total


def approximate_rho(event: Event) -> Certificate | None:
    """Return (rho, delta) such that the event is delta-approximate rho-zCDP (Bun & Steinke 2016, Definition 8.1).

    What has a rho needs no delta. None where nothing of the kind is known.

    >>> approximate_rho(ThresholdEvent(GaussianEvent("1/8"), "1e-6"))
    (Fraction(1, 8), Fraction(1, 1000000))
    """
    rho = event.rho()
    if rho is not None:
        return rho, Fraction(0)
    bound: Certificate | None = _ask(event, "approximate_rho")
    return bound


def parts(event: Event) -> tuple[Event, ...]:
    """Return the events that were run: those of a Composed, recursively, else the event itself.

    A Composed stays whole, with its certificate, if some part has neither an (epsilon, delta) nor a rho.
    """
    several: tuple[Event, ...] | None = _ask(event, "parts")
    return (event,) if several is None else several


def summands(event: Event) -> list[tuple[Event, int]]:
    """Return the events that were run, as `parts` does, with how often: Gaussian noise once for each moved cell."""
    several: list[tuple[Event, int]] = []
    for part in parts(event):
        several += _ask(part, "summands") or [(part, 1)]
    return several


def common_law(event: Event) -> CommonLaw | None:
    """Return the common law that dominates the event; None where it names none."""
    law: CommonLaw | None = _ask(event, "common_law")
    return law


def _ask(event: Event, method: str) -> Any:
    """Return what an optional method of the event says; None where it has none."""
    optional = getattr(event, method, None)
    return None if optional is None else optional()


def _certificate(pair: Certificate | None) -> Certificate | None:
    if pair is None:
        return None
    if len(pair) != 2:
        raise DeclarationError("a certificate is a pair: (epsilon, delta)")
    loss = ApproxDP(*pair)
    return loss.epsilon, loss.delta


def _total(amounts: Iterable[Fraction | None]) -> Fraction | None:
    total = Fraction(0)
    for amount in amounts:
        if amount is None:
            return None
        total += amount
    return total
