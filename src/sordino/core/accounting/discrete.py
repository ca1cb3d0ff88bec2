"""Noise on whole numbers as events that state their own law, and so their tight losses. It draws no noise.

Theorem (one number stands for a vector). Let Z be noise on the whole numbers of log-concave, symmetric law, added
independently to each cell. Where neighbors differ by whole numbers v_1, ..., v_k with |v_1| + ... + |v_k| <= s, the
release is dominated by Z against Z + s.

Proof. Write T(P, Q) for the trade-off function: the least type II error at each type I error. (1) By log-concavity the
likelihood ratio of Z against Z + a is monotone, so the best tests are half-lines, with coins at their ends: 1 - T(Z, Z +
a) takes P[Z > t] to P[Z > t - a] and is straight between. Hence it falls in a, and with f_a = T(Z, Z + a),
f_b(1 - f_a) = f_(a+b): knots go to knots. (2) For any P, Q, R with T(P, Q) >= f and T(Q, R) >= g: T(P, R) >= g(1 - f)
(Dong, Roth, Su 2022, Lemma A.5). Go from (0, ..., 0) to (v_1, ..., v_k) one cell at a time: each step is the shift of one
cell, |v_i| by symmetry, the other cells being alike on both sides. So T >= f_(|v_1| + ... + |v_k|) >= f_s, and a smaller
trade-off function is that of a dominating pair (Blackwell 1951). The tests check it by enumeration.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from sordino.core.accounting.concentration import laplace_rho
from sordino.core.accounting.event_fields import check_order, event_kind, read_amount
from sordino.core.errors import DeclarationError
from sordino.core.loss import ApproxDP, Grid, Number, PrivacyLoss, format_number, to_fraction
from sordino.core.rounding import float_down, float_up

Certificate = tuple[Fraction, Fraction]


@event_kind("discrete_laplace")
@dataclass(frozen=True, slots=True, init=False)
class DiscreteLaplaceEvent:
    """State that discrete Laplace noise of scale steps / epsilon was added to whole numbers of l1 sensitivity `steps`.

    Vectors included, by the theorem above. Epsilon aside, every bound is the law's own; rho is exact (`concentration`,
    theorem 3). Raises DeclarationError unless epsilon >= 0 and steps is a whole number, 1 or more.

    >>> float(DiscreteLaplaceEvent(1, 1).rho()), float(DiscreteLaplaceEvent(1, 1000).rho())
    (0.462117157261, 0.367879546525)
    """

    epsilon: Fraction
    steps: int

    def __init__(self, epsilon: Number, steps: int) -> None:
        object.__setattr__(self, "epsilon", read_amount(epsilon, name="epsilon", of=" of an event"))
        object.__setattr__(self, "steps", _whole(steps, "steps"))

    def pure(self) -> Fraction:
        """Return epsilon."""
        return self.epsilon

    def approx(self) -> Certificate:
        """Return (epsilon, 0)."""
        return self.epsilon, Fraction(0)

    def rho(self) -> Fraction:
        """Return epsilon - (1 - exp(-epsilon)) c / sinh(c), c = epsilon / steps, rounded up."""
        return laplace_rho(self.epsilon, self.steps)

    def renyi(self, order: float) -> float:
        """Return the divergence of the law from its shift, rounded up, at most epsilon.

        With a the order, q = exp(-epsilon / steps), r = q^(2a - 1): ln((e^((a-1) epsilon) (1 + (1 - q) r (1 -
        r^(steps-1)) / (1 - r)) + e^(-a epsilon)) / (1 + q)) / (a - 1).
        """
        check_order(order)
        most = float_up(self.epsilon)
        if most == 0 or math.isinf(order):
            return most
        rate = most / self.steps
        turn = (2 * order - 1) * rate
        middle = math.exp(-turn) * -math.expm1(-rate) * (math.expm1(-(self.steps - 1) * turn) / math.expm1(-turn))
        rest = middle + math.exp((1 - 2 * order) * most) - math.exp(-rate)
        value = most + math.log1p(rest / (1 + math.exp(-rate))) / (order - 1)
        slack = 1e-14 * value + 4e-15 * (1 + most) * (1 + 1 / (order - 1))  # the two terms nearly cancel
        return min(most, order * most * most / 2 * (1 + 1e-14), max(0.0, value + slack))

    def profile(self, grid: Grid) -> PrivacyLoss:
        """Return the law's own losses."""
        from sordino.core.accounting.discretize import laplace_losses

        return laplace_losses(float_up(self.epsilon), self.steps, grid)


@event_kind("discrete_gaussian")
@dataclass(frozen=True, slots=True, init=False)
class DiscreteGaussianEvent:
    """State that discrete Gaussian noise was added to whole numbers, at most `cells` of them moved by at most `shift`.

    Each moved cell's losses are those of the law shifted by `shift`, since smaller shifts are dominated (step 1 of the
    theorem above), and cells add up. rho = cells shift^2 / (2 sigma_squared) (Canonne, Kamath, Steinke 2020, Theorem
    4). `certificate` is an (epsilon, delta) proven for it, the one charged under a cap on sums.

    Raises DeclarationError unless sigma_squared > 0 and shift and cells are whole numbers, 1 or more.

    >>> DiscreteGaussianEvent(4, 1, 1).rho()
    Fraction(1, 8)
    """

    sigma_squared: Fraction
    shift: int
    cells: int
    certificate: Certificate | None

    def __init__(self, sigma_squared: Number, shift: int, cells: int, certificate: Certificate | None = None) -> None:
        variance = to_fraction(sigma_squared, name="sigma_squared")
        if variance <= 0:
            raise DeclarationError(f"sigma_squared of an event must be above 0, not {format_number(variance)}")
        object.__setattr__(self, "sigma_squared", variance)
        object.__setattr__(self, "shift", _whole(shift, "shift"))
        object.__setattr__(self, "cells", _whole(cells, "cells"))
        pair = None if certificate is None else ApproxDP(*certificate)
        object.__setattr__(self, "certificate", None if pair is None else (pair.epsilon, pair.delta))

    def pure(self) -> None:
        """Return None: Gaussian noise has no pure bound."""

    def approx(self) -> Certificate | None:
        """Return the certificate."""
        return self.certificate

    def rho(self) -> Fraction:
        """Return cells shift^2 / (2 sigma_squared)."""
        return self.cells * self.shift**2 / (2 * self.sigma_squared)

    def renyi(self, order: float) -> float:
        """Return order * rho, rounded up."""
        check_order(order)
        return float_up(Fraction(order) * self.rho()) if math.isfinite(order) else math.inf

    def profile(self, grid: Grid) -> PrivacyLoss:
        """Return the law's own losses, summed over the cells by repeated doubling."""
        from sordino.core.accounting.discretize import compose, gaussian_losses

        total, power, left = None, gaussian_losses(float_down(self.sigma_squared), self.shift, grid), self.cells
        while True:
            if left & 1:
                total = power if total is None else compose(total, power, grid)
            left >>= 1
            if not left:
                return total if total is not None else power
            power = compose(power, power, grid)


def _whole(value: int, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise DeclarationError(f"{name} of an event must be a whole number, 1 or more")
    return value
