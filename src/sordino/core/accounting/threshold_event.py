"""The event of a release whose bound fails with a small probability. It knows neither keys nor counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from sordino.core.accounting.event_fields import event_kind
from sordino.core.errors import DeclarationError
from sordino.core.loss import ApproxDP, Event, Grid, Losses, Number, PrivacyLoss


@event_kind("threshold")
@dataclass(frozen=True, slots=True, init=False)
class ThresholdEvent:
    """State that `inner` was run, except with probability `delta`, such as that of showing a key of one unit.

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
    kept = math.nextafter(1 - float(delta), math.inf)
    return Losses(losses.at, losses.mass * kept, losses.infinite * kept + lost)
