"""One event run many times, and the events of others read as ours: what training elsewhere puts on the same ledger."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sordino.core.accounting.amplify import Sampled
from sordino.core.accounting.event_fields import check_order, register_event
from sordino.core.accounting.events import Composed, GaussianEvent, LaplaceEvent
from sordino.core.errors import DeclarationError
from sordino.core.loss import ApproxDP, Event, Grid, Losses, Number, PrivacyLoss, to_fraction
from sordino.core.rounding import float_up

_MOST_TIMES = 10**9
_DEEPEST = 30


@register_event("normal")
@dataclass(frozen=True, slots=True, init=False)
class NormalEvent:
    """The event of Gaussian noise on real numbers, of standard deviation `noise_multiplier` times the l2 sensitivity.

    It has rho 1 / (2 s^2), with equality at every order (Bun & Steinke 2016, Proposition 1.6), and losses that are normal with
    mean rho and variance 2 rho (Balle & Wang 2018, Lemma 3). Nothing here draws such noise: floats would not keep its promise. It
    is for runs of others, on their word. Raises DeclarationError unless the multiplier is above 0.

    >>> NormalEvent(2).rho()
    Fraction(1, 8)
    """

    noise_multiplier: Fraction

    def __init__(self, noise_multiplier: Number) -> None:
        noise = to_fraction(noise_multiplier, name="noise_multiplier")
        if noise <= 0:
            raise DeclarationError("a noise multiplier must be above 0: none protects nothing", key="event")
        object.__setattr__(self, "noise_multiplier", noise)

    def pure(self) -> None:
        """Return None: Gaussian noise has no pure bound."""

    def approx(self) -> None:
        """Return None: a pair is proven for a whole run, at one delta."""

    def rho(self) -> Fraction:
        """Return 1 / (2 s^2)."""
        return 1 / (2 * self.noise_multiplier**2)

    def renyi(self, order: float) -> float:
        """Return order * rho, rounded up."""
        check_order(order)
        return float_up(Fraction(order) * self.rho()) if math.isfinite(order) else math.inf

    def profile(self, grid: Grid) -> PrivacyLoss:
        """Return the normal losses, each rounded up to the grid; both directions are alike."""
        import numpy as np
        from scipy.special import ndtr, ndtri

        deviation = float_up(1 / self.noise_multiplier)
        mean = deviation**2 / 2
        reach = -float(ndtri(grid.tail / 2)) * deviation
        least = math.floor((mean - reach) / grid.step)
        most = math.ceil((mean + reach) / grid.step)
        ends = (np.arange(least - 1, most + 1) * grid.step - mean) / deviation
        # The smaller of both tails has the digits.
        mass = np.where(ends[1:] <= 0, ndtr(ends[1:]) - ndtr(ends[:-1]), ndtr(-ends[:-1]) - ndtr(-ends[1:]))
        mass[0] += float(ndtr(ends[0]))
        losses = Losses(np.arange(least, most + 1), mass * (1 + 1e-12), float(ndtr(-ends[-1])) * (1 + 1e-12))
        return PrivacyLoss(losses, losses)


@register_event("repeated")
@dataclass(frozen=True, slots=True, init=False)
class Repeated:
    """The event of running `inner` `times` times on one table; `certificate` is an (epsilon, delta) proven for the whole.

    Each bound is `times` that of the inner event (sequential composition, as `Composed`); none is lost by writing it once.
    Raises DeclarationError unless `times` is a whole number of 1 or more.

    >>> Repeated(LaplaceEvent("1/3"), 6).pure()
    Fraction(2, 1)
    """

    inner: Event
    times: int
    certificate: tuple[Fraction, Fraction] | None

    def __init__(self, inner: Event, times: int, certificate: tuple[Any, Any] | None = None) -> None:
        if not isinstance(inner, Event):
            raise DeclarationError("inner must be an event: LaplaceEvent, GaussianEvent, Composed or the like")
        if isinstance(times, bool) or not isinstance(times, int) or not 1 <= times <= _MOST_TIMES:
            raise DeclarationError("times must be a whole number from 1 to 10^9")
        pair = None if certificate is None else ApproxDP(*certificate)
        object.__setattr__(self, "inner", inner)
        object.__setattr__(self, "times", times)
        object.__setattr__(self, "certificate", None if pair is None else (pair.epsilon, pair.delta))

    def pure(self) -> Fraction | None:
        """Return `times` the inner epsilon."""
        epsilon = self.inner.pure()
        return None if epsilon is None else self.times * epsilon

    def approx(self) -> tuple[Fraction, Fraction] | None:
        """Return the certificate of the whole, else `times` the inner epsilon and delta."""
        if self.certificate is not None:
            return self.certificate
        pair = self.inner.approx()
        return None if pair is None or self.times * pair[1] >= 1 else (self.times * pair[0], self.times * pair[1])

    def rho(self) -> Fraction | None:
        """Return `times` the inner rho."""
        rho = self.inner.rho()
        return None if rho is None else self.times * rho

    def renyi(self, order: float) -> float | None:
        """Return `times` the inner divergence of `order` > 1, rounded up."""
        check_order(order)
        divergence = self.inner.renyi(order)
        return None if divergence is None else math.nextafter(self.times * divergence, math.inf)

    def profile(self, grid: Grid) -> PrivacyLoss | None:
        """Return the losses of the whole, by squaring: as many compositions as `times` has binary digits, twice."""
        return _compose_all(self, grid)


# A charge asks for the losses of one run at its plan, at its price and at its explanation, on the same few grids.
@functools.lru_cache(4)
def _compose_all(run: Repeated, grid: Grid) -> PrivacyLoss | None:
    from sordino.core.accounting.discretize import compose

    power = run.inner.profile(grid)
    total = LaplaceEvent(0).profile(grid)
    times = run.times
    while power is not None:
        if times % 2:
            total = compose(total, power, grid)
        times //= 2
        if not times:
            return total
        power = compose(power, power, grid)
    return None


# ---- Events of others, by the names of their classes in dp_accounting


def read_event(event: Any) -> Event:
    """Return an event of dp_accounting as ours, by the name of its class; one of ours as it is.

    Noise multipliers are of a sensitivity of 1: GaussianDpEvent(s) is a NormalEvent, LaplaceDpEvent(b)
    has epsilon 1 / b. Raises DeclarationError for an event of another name, and for one that protects nothing.

    >>> class GaussianDpEvent:
    ...     noise_multiplier = 2.0
    >>> read_event(GaussianDpEvent()).rho()
    Fraction(1, 8)
    """
    return _read(event, _DEEPEST)


def _read(event: Any, depth: int) -> Event:
    name = type(event).__name__
    if depth <= 0:
        raise DeclarationError("the event is nested too deep: compose it of fewer levels")
    if name in _READERS:
        try:
            return _READERS[name](event, depth - 1)
        except DeclarationError:
            raise
        except (AttributeError, TypeError, ValueError):
            raise DeclarationError(f"is a {name} without the fields of dp_accounting's", key="event") from None
    if isinstance(event, Event):
        return event
    if name == "NonPrivateDpEvent":
        raise DeclarationError("protects nothing (NonPrivateDpEvent): nothing can be charged for it", key="event")
    raise DeclarationError(
        f"is a {name:.60}, which is not counted here: give one of {', '.join(_READERS)}", key="event"
    )


def _count(value: Any) -> int:
    count = to_fraction(value, name="count")
    if count.denominator != 1:
        raise DeclarationError("has a count that is no whole number", key="event")
    return int(count)


def _composed(event: Any, depth: int) -> Event:
    parts = [_read(part, depth) for part in event.events]
    return parts[0] if len(parts) == 1 else Composed(parts)


def _self_composed(event: Any, depth: int) -> Event:
    times = _count(event.count)
    inner = _read(event.event, depth)
    return LaplaceEvent(0) if times == 0 else inner if times == 1 else Repeated(inner, times)


def _concentrated(event: Any) -> Event:
    if getattr(event, "xi", 0):
        raise DeclarationError("has a xi above 0, which is not counted here: give one of rho alone", key="event")
    return GaussianEvent(event.rho)


_READERS: Mapping[str, Callable[[Any, int], Event]] = {
    "GaussianDpEvent": lambda event, _: NormalEvent(event.noise_multiplier),
    "LaplaceDpEvent": lambda event, _: LaplaceEvent(1 / NormalEvent(event.noise_multiplier).noise_multiplier),
    "PoissonSampledDpEvent": lambda event, depth: Sampled(_read(event.event, depth), event.sampling_probability),
    "SelfComposedDpEvent": _self_composed,
    "ComposedDpEvent": _composed,
    "ZCDpEvent": lambda event, _: _concentrated(event),
    "NoOpDpEvent": lambda *_: LaplaceEvent(0),
}


def is_sampled(event: Event) -> bool:
    """Return whether an event counts on a secret sample, which it may under add_remove alone."""
    if isinstance(event, Sampled):
        return True
    if isinstance(event, Repeated):
        return is_sampled(event.inner)
    return isinstance(event, Composed) and any(map(is_sampled, event.events))
