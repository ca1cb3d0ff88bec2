"""The event of a selection by the exponential mechanism: bounded range. It knows neither scores nor candidates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from sordino.core.accounting.concentration import bounded_range_rho
from sordino.core.accounting.event_fields import check_order, event_kind, read_amount
from sordino.core.loss import Grid, Number, PrivacyLoss
from sordino.core.rounding import float_up

_LARGEST = 600.0
_BLOCKS = 1 << 22


@event_kind("bounded_range")
@dataclass(frozen=True, slots=True, init=False)
class BoundedRangeEvent:
    """State that something of epsilon-bounded range was run: its privacy losses lie in one interval of length epsilon.

    The exponential mechanism has it (Durfee & Rogers 2019, Practical differentially private top-k selection). As the
    interval holds 0, pure epsilon follows; rho is the least that all of them have (`concentration`, theorem 4), below the
    epsilon^2 / 8 of Hoeffding's lemma (Cesar & Rogers 2021, Bounding, concentrating, and truncating).

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
        if not 1e-4 < most < 600 or order > 1e6:  # the closed form has lost its digits, or would overflow
            return min(most, concentrated)
        fallen = -math.expm1(-(order - 1) * most)
        numerator = math.expm1(most) + fallen
        worst = math.log((order - 1) * numerator / (order * fallen))
        rest = math.log(numerator / (order * math.expm1(most))) / (order - 1)
        slack = 1e-14 * (1 + abs(worst) + abs(rest) + 1 / (order - 1))  # a few roundings of the logarithms' arguments
        return min(most, concentrated, worst + rest + slack)

    def profile(self, grid: Grid) -> PrivacyLoss | None:
        """Return the losses of the least pair that dominates all mechanisms of epsilon-bounded range, both ways alike.

        Theorem: the two-point pair of `renyi` has delta(x) = (exp(e) - exp(t)) (1 - exp(x - t)) / (exp(e) - 1), largest
        at t = (e + x) / 2, where it is (exp(e/2) - exp(x/2))^2 / (exp(e) - 1). As a function of exp(x) that is convex, so
        a pair has it (Zhu, Dong, Wang 2022): its losses l in [-e, e] have the densities
        exp(l/2) / (4 sinh(e/2)) under P and exp(-l/2) / (4 sinh(e/2)) under Q.
        """
        import numpy as np

        from sordino.core.accounting.discretize import approximate, discretize_blocks

        most = float_up(self.epsilon)
        if most < 1e-9 or most > min(
            _LARGEST, _BLOCKS * grid.step / 4
        ):  # too fine or too wide: any pure mechanism's pair
            return approximate(most, 0.0, grid)
        count = math.ceil(4 * most / grid.step)
        edges = np.linspace(-most, most, count + 1)
        half = np.diff(edges) / 2
        slack = 1e-13 * (1 + most)
        p = np.exp(edges[:-1] / 2) * np.expm1(half) / (2 * math.sinh(most / 2)) * (1 + slack)
        r = np.exp(-edges[:-1] / 2) * -np.expm1(-half) / (2 * math.sinh(most / 2)) * (1 - slack)
        losses = discretize_blocks(p, r, edges[:-1], edges[1:], 0.0, grid)
        return PrivacyLoss(losses, losses)
