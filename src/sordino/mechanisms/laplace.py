"""The discrete Laplace mechanism: pure differential privacy for vectors of whole numbers with bounded l1 sensitivity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from sordino.accounting.events import DiscreteLaplaceEvent, LaplaceEvent
from sordino.errors import DeclarationError
from sordino.loss import format_number
from sordino.mechanisms.mechanism import add_noise
from sordino.noise.laws import DiscreteLaplace
from sordino.noise.rng import Rng

__all__ = ["Laplace"]


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

    @property
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
