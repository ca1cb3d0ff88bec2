"""Record and replay: run on one table, run on its neighbor with the same noise, and see what moved, and how far.

It may be given vectors of numbers that some function added noise to. Mechanisms that draw more often for some data than for
other data, as selections do, are told apart by the next word of their generator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from html import escape
from typing import Any, Literal

from sordino.core.errors import DeclarationError
from sordino.core.noise.rng import Rng

Norm = Literal["l1", "l2", "linf"]
_ROUNDING = 1e-9  # relative, of functions that return floats


@dataclass(frozen=True, slots=True)
class ReplayedVector:
    """Hold how far one vector moved between two neighbors, how far it may, and whether its noise stayed the same."""

    name: str
    norm: Norm
    moved: float
    allowed: float
    same_noise: bool

    @property
    def holds(self) -> bool:
        """Whether it moved no further than declared, by exact values alone."""
        return self.same_noise and self.moved <= self.allowed * (1 + _ROUNDING)


@dataclass(frozen=True, slots=True, repr=False)
class Replay:
    """Hold what moved between two runs with the same noise: `vectors`, and whether both drew the same random words."""

    subject: str
    vectors: tuple[ReplayedVector, ...]
    same_draws: bool
    seed: int

    @property
    def holds(self) -> bool:
        """Whether nothing moved but exact values, and none further than declared."""
        return self.same_draws and all(v.holds for v in self.vectors)

    def describe(self) -> str:
        """Return what was found, a sentence a vector."""
        found = []
        for v in self.vectors:
            why = "" if v.holds else (": FURTHER THAN DECLARED" if v.same_noise else ": ITS NOISE DEPENDS ON THE DATA")
            found.append(f"{v.name} moved by {v.moved:g} in {v.norm}, of {v.allowed:g} declared{why}")
        drawn = "" if self.same_draws else "; THE TWO RUNS DREW DIFFERENT RANDOM WORDS"
        return f"{self.subject}, replayed: {'; '.join(found)}{drawn}."

    def __repr__(self) -> str:
        return f"<Replay, NOT PRIVATE: {self.describe()}>"

    def _repr_html_(self) -> str:
        return f"<p><b>Replay, NOT PRIVATE.</b> {escape(self.describe())}</p>"


def replay_function(
    function: Callable[[Any, Rng], Any],
    here: Any,
    there: Any,
    *,
    sensitivity: float,
    norm: Norm = "l1",
    seed: int = 1,
    subject: str = "a function",
) -> Replay:
    """Run `function(table, rng)` on two neighbors with the same words of an `Rng`, and compare how far its numbers moved.

    Theorem: if the function adds noise that does not depend on the data, its outputs differ by exactly what its exact values
    differ by, so one pair that moves further than `sensitivity` proves the declared sensitivity, or the independence of the
    noise, wrong, whatever epsilon is. That none does proves nothing about other pairs. Where the noise is drawn in another
    order, or more of it, the generator's next word differs (a chance of 2^-64 otherwise).

    >>> def clumsy(table, rng):  # sums without a clip
    ...     return sum(table) + rng.below(100)
    >>> replay_function(clumsy, [1, 2], [1, 2, 50], sensitivity=10).holds
    False
    """
    runs = []
    for table in (here, there):
        rng = Rng.seeded(seed)
        runs.append((_numbers(function(table, rng)), rng.bits(64)))
    (first, word), (second, other) = runs
    if len(first) != len(second):
        raise DeclarationError("a replayed function returns as many numbers for both tables")
    moved = distance([b - a for a, b in zip(first, second, strict=True)], norm)
    same = word == other
    return Replay(subject, (ReplayedVector("the output", norm, moved, float(sensitivity), same),), same, seed)


def distance(differences: Sequence[Fraction | float | int], norm: Norm) -> float:
    """Return the length of a vector of differences."""
    sizes = [abs(Fraction(d)) for d in differences]
    if norm == "l2":
        return math.sqrt(math.fsum(float(s) ** 2 for s in sizes))
    if norm == "l1":
        return float(sum(sizes))
    if norm == "linf":
        return float(max(sizes, default=0))
    raise DeclarationError(f"norm is l1, l2 or linf, not {norm!r}")


def _numbers(output: Any) -> list[Any]:
    return list(output) if isinstance(output, (list, tuple)) or hasattr(output, "tolist") else [output]
