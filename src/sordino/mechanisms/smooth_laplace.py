"""Noise in proportion to a smooth upper bound on local sensitivity: Laplace for (epsilon, delta), Cauchy for pure epsilon."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from sordino.accounting.events import ApproxEvent, LaplaceEvent
from sordino.errors import DeclarationError
from sordino.loss import format_number
from sordino.mechanisms.statistic import FINE
from sordino.noise.cauchy import draw_rounded_cauchy
from sordino.noise.discrete import discrete_laplace
from sordino.noise.rng import Rng

__all__ = ["SmoothLaplace"]

_MOST_DELTA = Fraction("0.7357")


@dataclass(frozen=True, slots=True)
class SmoothLaplace:
    """Add noise of scale 2 S / epsilon, S a beta-smooth upper bound on the local sensitivity of a whole number.

    Theorem (Nissim, Raskhodnikova, Smith 2007, Lemma 2.5 and Examples 1, 3): S is beta-smooth if it is at least the local
    sensitivity everywhere and S(D) <= e^beta S(D') for neighbors. A shift by S then costs epsilon / 2, and the change of
    the scale by e^beta the other half:

    - delta > 0: discrete Laplace noise; beta = ln(1 + epsilon / (2 ln(2 / delta))) gives (epsilon, delta). Proof: let s and
      s' be the scales of neighbors, P(z) = tanh(1 / 2s) e^(-|z| / s). First the scale, at the same place. If s < s', then
      tanh(1 / 2s) <= (s' / s) tanh(1 / 2s'), as tanh is concave and 0 at 0, and the exponential only falls: a factor of
      e^beta at most, below e^(epsilon / 2) since ln(2 / delta) >= 1. If s > s', the normaliser helps, which is not
      counted, and the exponential costs |z| (1 / s' - 1 / s) <= (|z| / s) (e^beta - 1); that passes epsilon / 2 only
      where |z| / s > ln(2 / delta), of which the chance under P is at most 2 e^(-ln(2 / delta)) = delta. Then the shift,
      at scale s': a factor of e^(epsilon / 2), with S' at least the local sensitivity. Together e^epsilon and delta.
    - delta = 0: Cauchy noise, rounded; beta = epsilon / 2. |d/dz ln(1 + z^2)| <= 1 pays the shift, and
      ln((1 + e^(2 beta) z^2) / (1 + z^2)) - beta lies within -+ beta: pure epsilon, at the price of heavy tails.

    The width of the noise follows the data, so it is private, and no error is stated. Raises DeclarationError unless
    epsilon > 0 and 0 <= delta <= 0.7357 (2 / e, above which the proof does not go).

    >>> SmoothLaplace(Fraction(1), Fraction(0)).beta < 0.5
    True
    """

    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        if self.epsilon <= 0:
            raise DeclarationError(f"epsilon must be above 0, not {format_number(self.epsilon)}")
        if not 0 <= self.delta <= _MOST_DELTA:
            rule = f"delta must lie between 0 and {format_number(_MOST_DELTA)}, not {format_number(self.delta)}"
            raise DeclarationError(f"{rule}: smooth noise has no proof above; 1e-6 is common")

    @property
    def beta(self) -> float:
        """The smoothness that S must have, a hair below the theorem's, so that rounding in S cannot pass it."""
        half = float(self.epsilon) / 2
        if self.delta == 0:
            return half * (1 - 1e-6)
        tail = math.log(2 * self.delta.denominator) - math.log(self.delta.numerator)
        return math.log1p(half / tail) * (1 - 1e-6)

    @property
    def event(self) -> LaplaceEvent | ApproxEvent:
        """What one release amounts to."""
        return LaplaceEvent(self.epsilon) if self.delta == 0 else ApproxEvent(self.epsilon, self.delta)

    def width(self, smooth: float) -> Fraction:
        """Return S in the parts of a step in which statistics are told, and one part more for their rounding.

        Exact: S + a constant is as smooth as S, but S rounded to whole parts would jump by more than e^beta.
        """
        return Fraction(smooth) * FINE + 1

    def release(self, exact: int, width: Fraction, rng: Rng) -> int:
        """Return x + (2 width / epsilon) Z, in parts of a step."""
        scale = 2 * width / self.epsilon
        return exact + (draw_rounded_cauchy(scale, rng) if self.delta == 0 else discrete_laplace(scale, rng))

    def describe(self) -> str:
        """Return the mechanism in words."""
        law = "Cauchy" if self.delta == 0 else "discrete Laplace"
        return f"{law}, scale 2 S / epsilon, S smooth at beta {self.beta:.6g}: its width is private"
