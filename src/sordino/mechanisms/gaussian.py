"""The discrete Gaussian mechanism: zCDP for vectors with bounded l2 sensitivity, (epsilon, delta) for scalars."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from sordino.accounting.events import DiscreteGaussianEvent, GaussianEvent
from sordino.accounting.gaussian_calibration import calibrate_gaussian
from sordino.accounting.gaussian_dp import gaussian_variance
from sordino.errors import DeclarationError
from sordino.loss import format_number
from sordino.mechanisms.mechanism import add_noise
from sordino.noise.laws import DiscreteGaussian
from sordino.noise.rng import Rng

__all__ = ["Gaussian", "gaussian_for_gdp", "gaussian_for_pair", "gaussian_for_rho"]


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
