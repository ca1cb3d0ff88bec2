"""Additive noise on vectors of whole numbers: discrete Laplace and discrete Gaussian, and which of them errs least for a loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Protocol

from sordino.accounting.events import Composed, DiscreteGaussianEvent, DiscreteLaplaceEvent, GaussianEvent, LaplaceEvent
from sordino.accounting.gaussian_dp import calibrate_gaussian, gaussian_rho_for, gaussian_variance
from sordino.accounting.zcdp import rho_for
from sordino.errors import DeclarationError
from sordino.estimates.noisy import Law
from sordino.loss import ApproxDP, Event, Loss, PureDP, format_number
from sordino.neighbors import Sensitivity
from sordino.noise.laws import DiscreteGaussian, DiscreteLaplace
from sordino.noise.rng import Rng

__all__ = [
    "Chosen",
    "Gaussian",
    "Laplace",
    "Mechanism",
    "add_noise",
    "cheapest",
    "gaussian_for_gdp",
    "gaussian_for_pair",
    "gaussian_for_rho",
    "smooth_vectors",
]


class Mechanism(Protocol):
    """Add noise to a vector of whole numbers on a public lattice."""

    @property
    def event(self) -> Event:
        """What one release amounts to."""

    @property
    def law(self) -> Law:
        """The law of the noise in each cell, in steps."""

    def release(self, exact: Sequence[int], rng: Rng) -> list[int]:
        """Return the vector with independent noise in each cell."""

    def describe(self) -> str:
        """Return the mechanism in words."""


def add_noise(exact: Sequence[int], law: Law, rng: Rng) -> list[int]:
    """Return each number plus a fresh draw of `law`, in Python's unbounded integers."""
    if len(exact) == 1:
        return [int(exact[0]) + int(law.sample(rng))]
    drawn = law.sample(rng, size=len(exact))
    return [int(x) + z for x, z in zip(exact, drawn.tolist(), strict=True)]


@dataclass(frozen=True)
class Laplace:
    """Add independent discrete Laplace noise of scale l1 / epsilon to each cell.

    Theorem (Dwork, McSherry, Nissim, Smith 2006, Proposition 1; Ghosh, Roughgarden, Sundararajan 2009): if neighboring
    vectors differ by at most `l1` in l1 distance, the release is epsilon-differentially private, since P(Z = z) is
    proportional to exp(-|z| epsilon / l1). An l1 of 0 needs no noise and costs nothing.

    `l1` is in whole steps of the lattice; epsilon is exact. Raises DeclarationError unless epsilon > 0 and l1 >= 0.

    >>> Laplace(l1=Fraction(1), epsilon=Fraction(1, 2)).law.scale
    Fraction(2, 1)
    """

    l1: Fraction
    epsilon: Fraction

    def __post_init__(self) -> None:
        if self.epsilon <= 0:
            raise DeclarationError(f"epsilon must be above 0, not {format_number(self.epsilon)}")
        if self.l1 < 0:
            raise DeclarationError("l1 must not be negative")

    @cached_property
    def event(self) -> LaplaceEvent | DiscreteLaplaceEvent:
        """What one release amounts to: pure epsilon, with the law where l1 is whole; nothing where l1 is 0."""
        if self.l1 > 0 and Fraction(self.l1).denominator == 1:
            return DiscreteLaplaceEvent(self.epsilon, int(self.l1))
        return LaplaceEvent(self.epsilon if self.l1 > 0 else Fraction(0))

    @cached_property
    def law(self) -> DiscreteLaplace:
        """The law of the noise in each cell."""
        return DiscreteLaplace(Fraction(self.l1) / self.epsilon)

    def release(self, exact: Sequence[int], rng: Rng) -> list[int]:
        """Return x + Z, Z discrete Laplace, independent in each cell."""
        return add_noise(exact, self.law, rng)

    def describe(self) -> str:
        """Return the mechanism in words."""
        if self.l1 == 0:
            return "no noise: no unit can move it"
        scale = self.l1 / self.epsilon
        return f"discrete Laplace, scale {format_number(scale)} step{'' if scale == 1 else 's'}"


@dataclass(frozen=True)
class Gaussian:
    """Add independent discrete Gaussian noise with parameter sigma_squared to each cell.

    Theorem (Canonne, Kamath, Steinke 2020, Theorem 14): if neighboring vectors of whole numbers differ by at most the
    root of `l2_squared` in Euclidean distance, the release is rho-zCDP with rho = l2_squared / (2 sigma_squared).
    `certificate`, where given, is an (epsilon, delta) pair proved for these very parameters. `moved`, where given, says
    that at most so many cells move, each by at most so many steps, and that this is what l2_squared adds up to: the
    event then states the law itself, at the same rho.

    Lengths are in whole steps of the lattice. Raises DeclarationError unless sigma_squared > 0.
    """

    l2_squared: Fraction
    sigma_squared: Fraction
    certificate: tuple[Fraction, Fraction] | None = None
    moved: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.sigma_squared <= 0 or self.l2_squared < 0:
            raise DeclarationError("sigma_squared must be above 0 and l2_squared not negative")
        if self.moved is not None and self.moved[0] * self.moved[1] ** 2 != self.l2_squared:
            raise DeclarationError("moved, (cells, steps), must add up to l2_squared: cells times steps squared")

    @property
    def event(self) -> GaussianEvent | DiscreteGaussianEvent:
        """What one release amounts to."""
        if self.moved is not None:
            return DiscreteGaussianEvent(self.sigma_squared, self.moved[1], self.moved[0], self.certificate)
        return GaussianEvent(self.l2_squared / (2 * self.sigma_squared), self.certificate)

    @cached_property
    def law(self) -> DiscreteGaussian:
        """The law of the noise in each cell."""
        return DiscreteGaussian(self.sigma_squared)

    def release(self, exact: Sequence[int], rng: Rng) -> list[int]:
        """Return x + Z, Z discrete Gaussian, independent in each cell."""
        return add_noise(exact, self.law, rng)

    def describe(self) -> str:
        """Return the mechanism in words."""
        return f"discrete Gaussian, sigma {float(self.sigma_squared) ** 0.5:.6g} steps"


def gaussian_for_rho(*, l2_squared: Fraction, rho: Fraction, moved: tuple[int, int] | None = None) -> Gaussian:
    """Return the mechanism whose cost is exactly rho-zCDP: sigma_squared = l2_squared / (2 rho).

    `moved` is (cells, steps), where at most so many cells move, each by at most so many steps: see `Gaussian`.

    >>> gaussian_for_rho(l2_squared=Fraction(1), rho=Fraction(1, 2)).sigma_squared
    Fraction(1, 1)
    """
    if rho <= 0:
        raise DeclarationError(f"rho must be above 0, not {format_number(rho)}")
    return Gaussian(l2_squared, l2_squared / (2 * rho), moved=moved)


def gaussian_for_gdp(found: Gaussian, rho: Fraction) -> Gaussian | None:
    """Return the mechanism for the same vectors whose noise is sqrt(2 rho)-GDP; None where its sigma is below a step.

    >>> made = gaussian_for_gdp(gaussian_for_rho(l2_squared=Fraction(1), rho=Fraction(1, 60)), Fraction(1, 50))
    >>> float(made.sigma_squared)
    25.1017335396
    """
    variance = gaussian_variance(found.l2_squared, rho)
    return None if variance is None else Gaussian(found.l2_squared, variance, found.certificate, found.moved)


def gaussian_for_pair(*, shift: int, epsilon: Fraction, delta: Fraction) -> Gaussian:
    """Return the least noise that makes one whole number, moved by at most `shift`, (epsilon, delta)-private.

    Calibrated on the discrete law itself (Canonne, Kamath, Steinke 2020, Theorem 7): the continuous sigma falls short.
    """

    def law(sigma_squared: Fraction) -> Callable[[int], float]:
        return DiscreteGaussian(sigma_squared).upper_tail

    sigma_squared = calibrate_gaussian(epsilon, delta, shift=shift, law=law)
    return Gaussian(Fraction(shift * shift), sigma_squared, (epsilon, delta), (1, shift))


Chosen = tuple[list[Mechanism], Event]
_CONFIDENCE = 0.95


def cheapest(parts: Sequence[tuple[Sensitivity, Fraction]], loss: Loss) -> Chosen:
    """Return one mechanism a part, and the event they amount to together, for the loss asked.

    `parts` gives each vector's sensitivity, in whole steps of its lattice, and its share of the loss; shares of those
    that need noise sum to 1. Pure losses get Laplace, rho gets the Gaussian (its l2 error is below Laplace's at the same
    rho), and (epsilon, delta) whichever errs less at 95%: for one number Laplace wins unless delta is large.
    """
    if isinstance(loss, PureDP):
        return _laplace(parts, loss.epsilon)
    if isinstance(loss, ApproxDP):
        pure = _laplace(parts, loss.epsilon)
        if loss.delta == 0 or not any(share for _, share in parts):
            return pure
        smooth = _pair(parts, loss)
        ratios = [
            b.law.error(_CONFIDENCE) / max(1, a.law.error(_CONFIDENCE)) for a, b in zip(pure[0], smooth[0], strict=True)
        ]
        return smooth if sum(ratios) < len(ratios) else pure
    made = [_gaussian(s, loss.rho * share) for s, share in parts]
    return made, _event([m.event for m in made])


def smooth_vectors(parts: Sequence[tuple[Sensitivity, Fraction]], rho: Fraction) -> Chosen:
    """Return Gaussian noise a part, together sqrt(2 rho)-GDP: squares of mu add up (Dong, Roth, Su 2022, Corollary 3.3).

    Where a sigma would be below a step, noise of about a step is drawn: less is lost than is paid.
    """
    made: list[Mechanism] = []
    for sensitivity, share in parts:
        budget = min(rho * share, sensitivity.l2_squared / 2)
        found = _gaussian(sensitivity, budget)
        smooth = gaussian_for_gdp(found, budget) if isinstance(found, Gaussian) else None
        made.append(found if smooth is None else smooth)
    return made, _event([m.event for m in made])


def _laplace(parts: Sequence[tuple[Sensitivity, Fraction]], epsilon: Fraction) -> Chosen:
    alike = {
        pair: Laplace(pair[0], epsilon * pair[1] if pair[0] else epsilon) for pair in {(s.l1, p) for s, p in parts}
    }
    made: list[Mechanism] = [alike[s.l1, share] for s, share in parts]  # of many tables that move alike, one
    return made, _event([m.event for m in made])


def _pair(parts: Sequence[tuple[Sensitivity, Fraction]], loss: ApproxDP) -> Chosen:
    noisy = [s for s, share in parts if share]
    if len(noisy) == 1 and noisy[0].l0 == 1:
        made: list[Mechanism] = [
            gaussian_for_pair(shift=int(s.linf), epsilon=loss.epsilon, delta=loss.delta)
            if share
            else _gaussian(s, share)
            for s, share in parts
        ]
        return made, _event([m.event for m in made])
    made = _vectors(parts, loss)
    return made, Composed(tuple(m.event for m in made), (loss.epsilon, loss.delta))


def _vectors(parts: Sequence[tuple[Sensitivity, Fraction]], loss: ApproxDP) -> list[Mechanism]:
    """Return Gaussian noise of all vectors, calibrated as Gaussian DP, else as zCDP where its sigma is below a step.

    Both sum over vectors and hold by themselves: the one with less noise is certified.
    """
    concentrated = rho_for(loss.epsilon, loss.delta)
    made = [_gaussian(s, concentrated * share) for s, share in parts]
    budget = gaussian_rho_for(loss.epsilon, loss.delta)
    smooth = [
        gaussian_for_gdp(m, budget * share) if isinstance(m, Gaussian) else m
        for m, (_, share) in zip(made, parts, strict=True)
    ]
    better = [m for m in smooth if m is not None]
    if len(better) < len(made) or any(b.law.variance() > m.law.variance() for b, m in zip(better, made, strict=True)):
        return made
    return better


def _gaussian(sensitivity: Sensitivity, rho: Fraction) -> Mechanism:
    if sensitivity.l2_squared == 0:
        return Laplace(Fraction(0), Fraction(1))
    steps = sensitivity.linf
    alike = steps.denominator == 1 and sensitivity.l0 * steps**2 == sensitivity.l2_squared
    moved = (sensitivity.l0, int(steps)) if alike else None
    return gaussian_for_rho(l2_squared=sensitivity.l2_squared, rho=rho, moved=moved)


def _event(events: list[Event]) -> Event:
    return events[0] if len(events) == 1 else Composed(tuple(events))
