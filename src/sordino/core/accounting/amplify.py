"""Amplification by Poisson sampling: what something costs when it sees each unit only with probability `rate`.

It flips no coins. All of it holds under add_remove only: each unit's coin is its own, secret, and never shown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sordino.core.accounting.concentration import pure_rho
from sordino.core.accounting.event_fields import register_event
from sordino.core.errors import DeclarationError
from sordino.core.loss import Event, Grid, Number, PrivacyLoss, format_number, to_fraction
from sordino.core.rounding import float_up

if TYPE_CHECKING:
    from sordino.core.loss import Losses

# grid steps to an epsilon, where a Renyi divergence is read off the losses
_FINE = 512
# the largest order of the binomial sums
_HIGHEST = 2000


def poisson_sampled(event: Event, *, rate: Number, relation: str) -> Event:
    """Return the event of running `event` on a secret Poisson sample: every unit in it by a coin of probability rate.

    At rate 1, and within 2^-53 of it, it is the event itself. Raises DeclarationError where relation is not "add_remove"
    (under replace, or for a sample of fixed size, other theorems hold) or rate does not lie in (0, 1].

    >>> from sordino.core.accounting.events import LaplaceEvent
    >>> float(poisson_sampled(LaplaceEvent(1), rate=0.1, relation="add_remove").pure())
    0.158565078741
    """
    if relation != "add_remove":
        raise DeclarationError(
            f"sampling makes questions cheaper under neighbors add_remove only, not {relation!r}; ask without sampling"
        )
    sampled = Sampled(event, rate)
    return event if sampled.whole else sampled


@register_event("sampled")
@dataclass(frozen=True, slots=True, init=False)
class Sampled:
    """The event of running `inner` on a Poisson sample at `rate`; for add_remove only: see `poisson_sampled`.

    With q the rate:

    - pure: ln(1 + q (e^epsilon - 1)) (Li, Qardaji, Su 2012, Theorem 1; Balle, Barthe, Gaboardi 2018, Theorem 8);
    - (epsilon, delta): the same epsilon, and q delta (the same theorem);
    - rho and any divergence: never above the inner ones, since divergences are quasi-convex in pairs;
    - Renyi of pure events: read off the profile; of others at whole orders a, E = sum over k of C(a, k) (1 - q)^(a - k)
      q^k exp((k - 1) D_k), ln(E) / (a - 1): exact for the unit removed, and as a bound for it added where the losses of
      both directions are alike (Mironov, Talwar, Zhang 2019, Theorems 4 and 5), as with Gaussian noise on whole numbers. For
      other events terms from k = 3 on count three times (Zhu, Wang 2019, Theorem 5: any mechanism). Between whole orders
      (a - 1) D_a is convex, so straight lines bound it;
    - profile: both directions of the mixture (Zhu, Dong, Wang 2022, Theorem 11).

    Raises DeclarationError unless 0 < rate <= 1.
    """

    inner: Event
    rate: Fraction

    def __init__(self, inner: Event, rate: Number) -> None:
        share = to_fraction(rate, name="rate")
        if not 0 < share <= 1:
            raise DeclarationError(
                f"rate, the chance that a unit is in the sample, must lie in (0, 1], not {format_number(share)}"
            )
        if not isinstance(inner, Event):
            raise DeclarationError("inner must be an event: LaplaceEvent, GaussianEvent, Composed or the like")
        object.__setattr__(self, "inner", inner)
        object.__setattr__(self, "rate", share)

    @property
    def whole(self) -> bool:
        """Whether the rate rounds up to 1 as a float: then the event is bounded by the inner one."""
        return float_up(self.rate) == 1.0

    def pure(self) -> Fraction | None:
        """Return ln(1 + rate (e^epsilon - 1)), rounded up at twelve digits."""
        whole = self.inner.pure()
        return None if whole is None else _amplify(whole, self.rate)

    def approx(self) -> tuple[Fraction, Fraction] | None:
        """Return (ln(1 + rate (e^epsilon - 1)), rate delta)."""
        pair = self.inner.approx()
        return None if pair is None else (_amplify(pair[0], self.rate), self.rate * pair[1])

    def rho(self) -> Fraction | None:
        """Return the event's own rho, or that of its pure epsilon where that is less."""
        pure = self.pure()
        rho = self.inner.rho()
        if pure is None:
            return rho
        return pure_rho(pure) if rho is None else min(rho, pure_rho(pure))

    def renyi(self, order: float) -> float | None:
        """Return the least bound known on the divergence at `order` > 1, rounded up."""
        inner = self.inner.renyi(order)
        bounds = [] if inner is None else [inner]
        pure = self.pure()
        if pure is not None:
            bounds += [float_up(pure), self._read_off(order, float_up(pure))]
        elif 1 < order <= _HIGHEST and bounds and not self.whole:
            # the bounds hold at whole orders, and (order - 1) times the divergence is convex between them
            low = math.floor(order)
            ends = [0.0 if a == 1 else self._binomial(a) for a in (low, math.ceil(order))]
            bounds.append((ends[0] + (order - low) * (ends[1] - ends[0])) / (order - 1) * (1 + 1e-14))
        return min(bounds, default=None)

    def profile(self, grid: Grid) -> PrivacyLoss:
        """Return the losses of the mixture in both directions; the event's own losses may come of its rho or pair."""
        from sordino.core.accounting.discretize import subsample

        if self.whole:
            return _losses(self.inner, grid)
        rho = self.inner.rho()
        scale = math.sqrt(2 * float(rho)) if rho is not None else 0.0
        # a thousandth of the losses' scale is fine enough for the inner ones, however fine the result's grid
        base = Grid(max(grid.step, scale / 1000), grid.tail)
        return subsample(_losses(self.inner, base), base, float_up(self.rate), grid)

    def _read_off(self, order: float, most: float) -> float:
        """Return the divergence of the losses on a fine grid, the larger of both directions."""
        if most == 0 or math.isinf(order):
            return most
        grid = Grid(most / _FINE, 1e-300)
        loss = self.profile(grid)
        return max(_divergence(one, grid.step, order) for one in (loss.removed, loss.added))

    def _binomial(self, order: int) -> float:
        """Return (order - 1) times the bound on the divergence at a whole order of 2 or more."""
        scale = math.sqrt(2 * float(self.inner.rho() or 1))
        base = Grid(scale / 100, 1e-30)
        loss = self.inner.profile(base)
        alike = loss is not None and loss.added is loss.removed
        rate = float_up(self.rate)
        # the terms k = 0 and k = 1 together
        terms = [(order - 1) * math.log1p(-rate) + math.log1p((order - 1) * rate)]
        for k in range(2, order + 1):
            divergence = self.inner.renyi(float(k)) or 0.0
            # where both directions are alike the theorem is about the pair of these losses, so their divergence counts
            if alike and loss is not None:
                divergence = max(divergence, _divergence(loss.removed, base.step, float(k)))
            ways = math.lgamma(order + 1) - math.lgamma(k + 1) - math.lgamma(order - k + 1)
            term = ways + (order - k) * math.log1p(-rate) + k * math.log(rate) + (k - 1) * divergence
            terms.append(term + (math.log(3) if k > 2 and not alike else 0.0))
        top = max(terms)
        total = top + math.log(math.fsum(math.exp(term - top) for term in terms))
        return max(0.0, total + 1e-12 * (1 + abs(top)) * math.log(order + 1))


def _losses(event: Event, grid: Grid) -> PrivacyLoss:
    """Return losses that dominate the event: its own, else those that its rho or its (epsilon, delta) imply."""
    from sordino.core.accounting.discretize import approximate, zcdp_losses

    losses = event.profile(grid)
    if losses is not None:
        return losses
    rho = event.rho()
    if rho is not None:
        return zcdp_losses(float_up(rho), grid)
    pair = event.approx()
    if pair is None:
        raise DeclarationError("nothing is known of the event that is sampled; give one with epsilon, rho or losses")
    return approximate(float_up(pair[0]), float_up(pair[1]), grid)


def _divergence(losses: Losses, step: float, order: float) -> float:
    """Return the Renyi divergence of the finite losses."""
    import numpy as np

    exponent = (order - 1) * losses.at * step + np.log(losses.mass)
    top = float(exponent.max())
    return float((top + math.log(float(np.exp(exponent - top).sum()))) / (order - 1)) * (1 + 1e-13)


def _amplify(epsilon: Fraction, rate: Fraction) -> Fraction:
    """Return ln(1 + rate (e^epsilon - 1)), rounded up at twelve digits, at most epsilon."""
    most = float_up(epsilon)
    share = float_up(rate)
    if most == 0:
        return Fraction(0)
    value = math.log1p(share * math.expm1(most)) if most < 30 else most + math.log(share + math.exp(-most))
    digits = Fraction(10) ** (math.floor(math.log10(value)) - 11)
    return min(epsilon, math.ceil(Fraction(value * (1 + 1e-14)) / digits) * digits)
