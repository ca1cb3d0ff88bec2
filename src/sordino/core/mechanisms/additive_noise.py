"""Additive noise on vectors of whole numbers: discrete Laplace, staircase and discrete Gaussian."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Protocol

import numpy as np

from sordino.core.accounting.events import (
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    GaussianEvent,
    LaplaceEvent,
    StaircaseEvent,
)
from sordino.core.accounting.gaussian_dp import calibrate_gaussian, gaussian_variance
from sordino.core.columns import NumberColumn
from sordino.core.errors import DeclarationError
from sordino.core.loss import Event, format_number
from sordino.core.noise.laws import DiscreteGaussian, DiscreteLaplace, NoiseLaw
from sordino.core.noise.rng import Rng
from sordino.core.noise.staircase import Staircase as StaircaseLaw
from sordino.core.noise.staircase import best_staircase

# Two whole numbers within it add up in 64 bits.
_FITS = 1 << 62


class Mechanism(Protocol):
    """A mechanism that adds noise to a vector of whole numbers on a public lattice."""

    @property
    def event(self) -> Event:
        """What one release amounts to."""

    @property
    def law(self) -> NoiseLaw:
        """The law of the noise in each cell, in steps."""

    def release(self, exact: Sequence[int], rng: Rng) -> Sequence[int]:
        """Return the vector with independent noise in each cell."""

    def describe(self) -> str:
        """Return the mechanism in words."""


def add_noise(exact: Sequence[int], law: NoiseLaw, rng: Rng) -> Sequence[int]:
    """Return each number plus a fresh draw of `law`, in Python's unbounded integers; of an array, where all fit, as a column."""
    # most questions release one number, for which no array is needed
    if len(exact) == 1:
        return [int(exact[0]) + int(law.sample(rng))]
    noise = law.sample(rng, size=len(exact))
    if isinstance(exact, NumberColumn):
        whole = np.asarray(exact)
        if all(array.dtype == np.int64 and array.min() > -_FITS and array.max() < _FITS for array in (whole, noise)):
            return NumberColumn(whole + noise)
    return [int(x) + z for x, z in zip(exact, noise.tolist(), strict=True)]


@dataclass(frozen=True)
class Laplace:
    """The Laplace mechanism: independent discrete Laplace noise of scale l1 / epsilon in each cell.

    Theorem (Dwork, McSherry, Nissim, Smith 2006, Proposition 1; Ghosh, Roughgarden, Sundararajan 2009): if neighboring
    vectors differ by at most `l1` in l1 distance, the release is epsilon-differentially private, since P(Z = z) is
    proportional to exp(-|z| epsilon / l1). If l1 is 0, no noise is needed and the release costs nothing.

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

    def release(self, exact: Sequence[int], rng: Rng) -> Sequence[int]:
        """Return x + Z, Z discrete Laplace, independent in each cell."""
        return add_noise(exact, self.law, rng)

    def describe(self) -> str:
        """Return the mechanism in words."""
        if self.l1 == 0:
            return "no noise: no unit can move it"
        scale = self.l1 / self.epsilon
        return f"discrete Laplace, scale {format_number(scale)} step{'' if scale == 1 else 's'}"


@dataclass(frozen=True)
class Staircase:
    """The staircase mechanism: staircase noise in each cell, for vectors of which one cell moves, by at most `l1` steps.

    Theorem (Geng, Viswanath 2016, for whole numbers): the release is epsilon-differentially private. Proof: the cell that
    moves does so by d, |d| <= l1, and P(Z = z) <= e^epsilon P(Z = z + d) (`noise.staircase.Staircase`); the noise of the other
    cells is independent of it and has one law on both sides. Where two cells move it is not private at this epsilon: by half of
    l1 each, their ratios may be e^epsilon both.

    `early`, public, is that of the least variance. Raises DeclarationError unless epsilon > 0 and l1 is a whole number above 0.

    >>> Staircase(10, Fraction(3)).describe()
    'staircase noise, 3 of 10 steps early, epsilon 3'
    """

    l1: int
    epsilon: Fraction

    def __post_init__(self) -> None:
        if self.epsilon <= 0:
            raise DeclarationError(f"epsilon must be above 0, not {format_number(self.epsilon)}")
        if isinstance(self.l1, bool) or not isinstance(self.l1, int) or self.l1 < 1:
            raise DeclarationError(f"l1 of staircase noise must be a whole number above 0, not {self.l1!r}")

    @cached_property
    def event(self) -> StaircaseEvent:
        """What one release amounts to."""
        return StaircaseEvent(self.epsilon, self.l1, self.law.early)

    @cached_property
    def law(self) -> StaircaseLaw:
        """The law of the noise in each cell."""
        return best_staircase(self.l1, self.epsilon)

    def release(self, exact: Sequence[int], rng: Rng) -> Sequence[int]:
        """Return x + Z, Z of the staircase law, independent in each cell."""
        return add_noise(exact, self.law, rng)

    def describe(self) -> str:
        """Return the mechanism in words."""
        return f"staircase noise, {self.law.early} of {self.l1} steps early, epsilon {format_number(self.epsilon)}"


@dataclass(frozen=True)
class Gaussian:
    """The Gaussian mechanism: independent discrete Gaussian noise with parameter sigma_squared in each cell.

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

    def release(self, exact: Sequence[int], rng: Rng) -> Sequence[int]:
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


def gaussian_for_gdp(gaussian: Gaussian, rho: Fraction) -> Gaussian | None:
    """Return the mechanism for the same vectors whose noise is sqrt(2 rho)-GDP; None where its sigma is below a step.

    >>> smooth = gaussian_for_gdp(gaussian_for_rho(l2_squared=Fraction(1), rho=Fraction(1, 60)), Fraction(1, 50))
    >>> float(smooth.sigma_squared)
    25.1017335396
    """
    variance = gaussian_variance(gaussian.l2_squared, rho)
    return None if variance is None else replace(gaussian, sigma_squared=variance)


def gaussian_for_pair(*, shift: int, epsilon: Fraction, delta: Fraction) -> Gaussian:
    """Return the least noise that makes one whole number, moved by at most `shift`, (epsilon, delta)-private.

    Calibrated on the discrete law itself (Canonne, Kamath, Steinke 2020, Theorem 7): the continuous sigma falls short.
    """

    def law(sigma_squared: Fraction) -> Callable[[int], float]:
        return DiscreteGaussian(sigma_squared).upper_tail

    sigma_squared = calibrate_gaussian(epsilon, delta, shift=shift, law=law)
    return Gaussian(Fraction(shift * shift), sigma_squared, (epsilon, delta), (1, shift))
