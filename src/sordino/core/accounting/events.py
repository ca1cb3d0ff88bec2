"""What was run, as frozen data that states its own privacy loss. An event knows neither data nor how noise is drawn.

A new event class is one file with `@event_kind("its name")` above it, imported here so that ledgers can be read;
composition and the ledger need no change.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from sordino.core.accounting.concentration import pure_rho
from sordino.core.accounting.discrete import DiscreteGaussianEvent
from sordino.core.accounting.event_fields import check_order, event_kind, read_amount
from sordino.core.accounting.threshold_event import ThresholdEvent
from sordino.core.errors import DeclarationError
from sordino.core.loss import ApproxDP, Event, Grid, Number, PrivacyLoss
from sordino.core.rounding import float_up

Certificate = tuple[Fraction, Fraction]


@event_kind("laplace")
@dataclass(frozen=True, slots=True, init=False)
class LaplaceEvent:
    """State that something epsilon-differentially private was run: Laplace noise, a selection, any pure mechanism.

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


@event_kind("gaussian")
@dataclass(frozen=True, slots=True, init=False)
class GaussianEvent:
    """State that something rho-zCDP was run, such as Gaussian noise; `certificate` an (epsilon, delta) proven for it.

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

    def rho(self) -> Fraction:
        """Return rho."""
        return self.zcdp

    def renyi(self, order: float) -> float:
        """Return order * rho, rounded up (the definition of zCDP; Bun & Steinke 2016, Definition 1.1)."""
        check_order(order)
        return float_up(Fraction(order) * self.zcdp) if math.isfinite(order) else math.inf if self.zcdp else 0.0

    def profile(self, grid: Grid) -> None:
        """Return None: rho is all that is known, and rhos are best summed before they become losses."""


@event_kind("approx")
@dataclass(frozen=True, slots=True, init=False)
class ApproxEvent:
    """State that something (epsilon, delta)-private was run of which no pure or concentrated bound is known.

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

    def approximate_rho(self) -> Certificate:
        """Return (epsilon tanh(epsilon / 2), delta): randomized response, but for delta, is its worst case."""
        return pure_rho(self.epsilon), self.delta

    def renyi(self, order: float) -> None:
        """Return None."""
        check_order(order)

    def profile(self, grid: Grid) -> PrivacyLoss:
        """Return the losses of randomized response that reveals all with probability delta."""
        from sordino.core.accounting.discretize import approximate

        return approximate(float_up(self.epsilon), float_up(self.delta), grid)


@event_kind("composed")
@dataclass(frozen=True, slots=True, init=False)
class Composed:
    """State that all of `events` were run on one table: each bound is the sum of the parts', None if a part has none.

    Sequential composition (Dwork & Roth 2014, Theorem 3.16; for rho Bun & Steinke 2016, Lemma 1.7; for Renyi
    divergences Mironov 2017, Proposition 1). `certificate` is an (epsilon, delta) proven for the whole.

    >>> Composed((LaplaceEvent("1/3"), LaplaceEvent("2/3"))).pure()
    Fraction(1, 1)
    """

    events: tuple[Event, ...]
    certificate: Certificate | None

    def __init__(self, events: Iterable[Event], certificate: Certificate | None = None) -> None:
        kept = tuple(events)
        if not all(isinstance(event, Event) for event in kept):
            raise DeclarationError("events must be events: LaplaceEvent, GaussianEvent, Composed or the like")
        object.__setattr__(self, "events", kept)
        object.__setattr__(self, "certificate", _certificate(certificate))

    def __repr__(self) -> str:
        return f"Composed(events={self.events!r}, certificate={self.certificate!r})"

    def pure(self) -> Fraction | None:
        """Return the sum of the parts' epsilons."""
        return _total([event.pure() for event in self.events])

    def approx(self) -> Certificate | None:
        """Return the certificate of the whole, else the sums of the parts' epsilons and deltas."""
        if self.certificate is not None:
            return self.certificate
        pairs = [event.approx() or (None, None) for event in self.events]
        epsilon, delta = _total([pair[0] for pair in pairs]), _total([pair[1] for pair in pairs])
        return None if epsilon is None or delta is None or delta >= 1 else (epsilon, delta)

    def rho(self) -> Fraction | None:
        """Return the sum of the parts' rhos."""
        return _total([event.rho() for event in self.events])

    def approximate_rho(self) -> Certificate | None:
        """Return the sums of the parts' rhos and deltas."""
        pairs = [approximate_rho(event) or (None, None) for event in self.events]
        rho, delta = _total([pair[0] for pair in pairs]), _total([pair[1] for pair in pairs])
        return None if rho is None or delta is None or delta >= 1 else (rho, delta)

    def renyi(self, order: float) -> float | None:
        """Return the sum of the parts' divergences of `order` > 1, rounded up."""
        check_order(order)
        several = [event.renyi(order) for event in self.events]
        known = [part for part in several if part is not None]
        return math.nextafter(math.fsum(known), math.inf) if len(known) == len(several) else None

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
    if isinstance(event, ThresholdEvent):
        inner = approximate_rho(event.inner)
        return None if inner is None or inner[1] + event.delta >= 1 else (inner[0], inner[1] + event.delta)
    return event.approximate_rho() if isinstance(event, ApproxEvent | Composed) else None


def parts(event: Event) -> tuple[Event, ...]:
    """Return the events that were run: those of a Composed, and of theirs, else the event itself.

    A Composed that some part of it says less than (no loss distribution, no rho) stays whole, with its certificate.
    """
    if not isinstance(event, Composed):
        return (event,)
    found = tuple(deeper for part in event.events for deeper in parts(part))
    whole = event.certificate is None or all(part.approx() is not None or part.rho() is not None for part in found)
    return found if whole else (event,)


def summands(event: Event) -> list[tuple[Event, int]]:
    """Return the events that were run, as `parts` does, with how often: Gaussian noise once for each moved cell."""
    return [
        (DiscreteGaussianEvent(part.sigma_squared, part.shift, 1), part.cells)
        if isinstance(part, DiscreteGaussianEvent)
        else (part, 1)
        for part in parts(event)
    ]


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
