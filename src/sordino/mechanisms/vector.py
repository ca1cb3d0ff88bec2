"""Adding noise of a known law to a vector of whole numbers, exactly, whatever their size."""

from __future__ import annotations

from collections.abc import Sequence

from sordino.estimates.noisy import Law
from sordino.noise.rng import Rng

__all__ = ["add_noise"]


def add_noise(exact: Sequence[int], law: Law, rng: Rng) -> list[int]:
    """Return each number plus a fresh draw of `law`, in Python's unbounded integers."""
    if len(exact) == 1:
        return [int(exact[0]) + int(law.sample(rng))]
    drawn = law.sample(rng, size=len(exact))
    return [int(x) + z for x, z in zip(exact, drawn.tolist(), strict=True)]
