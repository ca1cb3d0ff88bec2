"""What a mechanism is: frozen parameters, the event it amounts to, how it adds its noise, and how wrong that makes an answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sordino.estimates.noisy import Law
from sordino.loss import Event
from sordino.noise.rng import Rng

__all__ = ["Mechanism", "add_noise"]


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
