"""The laws of noise as textbooks write them, over real numbers and over whole ones: their shape, width and draws in floats.

Nothing here may be used on data: a float made from a uniform one reveals in its low bits what it hides in its high ones
(Mironov 2012). It knows no table and no budget.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sordino.core.errors import DeclarationError
from sordino.core.noise.laws import DiscreteGaussian, DiscreteLaplace
from sordino.core.noise.rng import Rng

Floats = NDArray[np.float64]
Kind = Literal["Laplace", "Gaussian", "discrete Laplace", "discrete Gaussian"]


@dataclass(frozen=True, slots=True)
class NoiseShape:
    """What a mechanism adds to a number: a law around 0 and its `scale` (for a Gaussian its sigma), in the number's unit.

    `sd.plot` draws it.

    >>> NoiseShape("Laplace", 2.0)
    Laplace noise of scale 2: standard deviation 2.83, 95% of draws within 5.99
    """

    kind: Kind
    scale: float

    @property
    def is_whole(self) -> bool:
        """Whether it is a law of whole numbers."""
        return self.kind.startswith("discrete")

    @property
    def deviation(self) -> float:
        """The standard deviation."""
        if self.is_whole:
            return math.sqrt(self._exact().variance())
        return self.scale if self.kind == "Gaussian" else self.scale * math.sqrt(2)

    def within(self, confidence: float) -> float:
        """Return how far from 0 so large a share of the draws stays; raises DeclarationError unless it lies in (0, 1)."""
        if not 0 < confidence < 1:
            raise DeclarationError("must lie between 0 and 1, such as 0.95", key="confidence")
        if self.is_whole:
            return float(self._exact().error(confidence))
        if self.kind == "Laplace":
            return -self.scale * math.log1p(-confidence)
        from statistics import NormalDist

        return self.scale * NormalDist().inv_cdf((1 + confidence) / 2)

    def density(self, noise: float) -> float:
        """Return the density at a number, or the probability of it for a law of whole numbers."""
        if self.is_whole:
            if noise != int(noise):
                return 0.0
            law = self._exact()
            return law.upper_tail(int(noise) - 1) - law.upper_tail(int(noise))
        if self.kind == "Laplace":
            return math.exp(-abs(noise) / self.scale) / (2 * self.scale)
        return math.exp(-((noise / self.scale) ** 2) / 2) / (self.scale * math.sqrt(2 * math.pi))

    def draw(self, rng: Rng, size: int) -> Floats:
        """Return so many draws, floats; those of a law of whole numbers are exact."""
        if self.is_whole:
            return self._exact().sample(rng, size=size).astype(np.float64)
        if self.kind == "Laplace":
            return laplace_of(rng.uniform_doubles(size), self.scale)
        # Box and Muller 1958: a radius and an angle
        radius = np.sqrt(-2 * np.log1p(-rng.uniform_doubles(size)))
        return np.asarray(self.scale * radius * np.cos(2 * np.pi * rng.uniform_doubles(size)))

    def _exact(self) -> DiscreteLaplace | DiscreteGaussian:
        scale = Fraction(repr(self.scale))
        return DiscreteLaplace(scale) if self.kind == "discrete Laplace" else DiscreteGaussian(scale**2)

    def __repr__(self) -> str:
        word = "sigma" if "Gaussian" in self.kind else "scale"
        return (
            f"{self.kind} noise of {word} {self.scale:.6g}: standard deviation {self.deviation:.3g}, 95% of draws within "
            f"{self.within(0.95):.3g}"
        )


def laplace_of(uniform: Any, scale: float) -> Floats:
    """Return the Laplace noise that each uniform number of [0, 1) becomes: the inverse of the distribution function.

    >>> laplace_of(np.array([0.25, 0.5, 0.75]), 1.0).round(6).tolist()
    [-0.693147, 0.0, 0.693147]
    """
    centred = np.asarray(uniform, dtype=np.float64) - 0.5
    return np.asarray(-np.sign(centred) * scale * np.log1p(-2 * np.abs(centred).clip(max=0.5 - 2.0**-54)))
