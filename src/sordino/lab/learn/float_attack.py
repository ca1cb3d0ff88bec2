"""Why noise in floats is unsafe, as an attack that runs: which noisy floats could have come from which value.

Mironov 2012, "On significance of the least significant bits for differential privacy": a textbook sampler turns 2^53 uniform
numbers into noise, so that value + noise reaches only some of the floats, and others from another value. An answer that one of
two values cannot give names the other, whatever epsilon is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sordino.core.arguments import amount, finite_number, whole
from sordino.core.loss import Number
from sordino.core.noise.rng import Rng
from sordino.lab.learn.bare_noise import Floats, laplace_of

# Uniform numbers that are tried on either side of the one that would give an answer, were there no rounding.
_TRIED = 24
_GRID = 2.0**53


@dataclass(frozen=True, slots=True)
class FloatAttack:
    """What an attacker sees in `answers` noisy answers about the value `true`, who wonders whether it is `other`.

    `impossible` counts those that no noise makes of `other`: each names the true value with certainty. A mechanism that is
    epsilon-private has none.
    """

    true: float
    other: float
    epsilon: float
    answers: int
    impossible: int
    reachable: int

    @property
    def share(self) -> float:
        """The share of the answers that name the true value."""
        return self.impossible / self.answers

    def __repr__(self) -> str:
        return (
            f"{self.impossible:,} of {self.answers:,} noisy answers about {self.true:g} cannot come from {self.other:g}: "
            f"each names the value with certainty, though epsilon is {self.epsilon:g}"
        )


def attack_floats(
    true: Number, other: Number, *, sensitivity: Number, epsilon: Number, answers: int, rng: Rng
) -> FloatAttack:
    """Return how many noisy answers of `laplace_mech` about `true` an attacker knows not to be about `other`.

    `reachable` counts the answers that the same test finds possible of `true` itself: all of them, which shows that the test
    does not accuse wrongly. Time and memory grow with `answers`.

    >>> found = attack_floats(1, 0, sensitivity=1, epsilon="1/10", answers=500, rng=Rng.seeded(1))
    >>> found.reachable, found.share > 0.2
    (500, True)
    """
    first = finite_number(true, "true")
    second = finite_number(other, "other")
    loss = amount(epsilon, name="epsilon")
    scale = amount(sensitivity, name="sensitivity") / loss
    count = whole(answers, name="answers", least=1)
    outputs = first + laplace_of(rng.uniform_doubles(count), scale)
    impossible = int((~is_reachable(outputs, second, scale)).sum())
    return FloatAttack(first, second, loss, count, impossible, int(is_reachable(outputs, first, scale).sum()))


def is_reachable(outputs: Floats, value: float, scale: float) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return of each output whether value + noise can be exactly that float.

    The uniform number that would give it without rounding lies at most a few steps of 2^-53 from any that does; where the
    output is so coarse that more of them fall on it, it is taken to be reachable.
    """
    noise = outputs - value
    half = np.exp(-np.abs(noise) / scale) / 2
    centre = np.rint(np.where(noise < 0, half, 1 - half) * _GRID)
    steps = centre[:, None] + np.arange(-_TRIED, _TRIED + 1)
    uniform = steps.clip(0, _GRID - 1) / _GRID
    hit = (value + laplace_of(uniform, scale) == outputs[:, None]).any(axis=1)
    # the floats that one output stands for, in steps of the uniform number
    width = np.spacing(np.abs(outputs)) / scale * half * _GRID
    return np.asarray(hit | (width > _TRIED / 2))
