"""An attacker who plays: true worlds drawn from the prior, noisy answers, and the guess of the likeliest world.

It may not know queries, universes or budgets: answers come with the weight of their worlds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sordino.core.noise.rng import Rng
from sordino.lab.risk.odds import softmax
from sordino.lab.sensitivity.universe import Floats

_CELLS = 2_000_000


@dataclass(frozen=True, slots=True)
class Simulation:
    """Hold what an attacker achieved: the share of `runs` where the top world was the true one, beside what bounds it.

    `risk` is the exact worst risk over all outputs, `bound` the closed form above it.
    """

    runs: int
    share: float
    risk: float
    bound: float


def play(offsets: Floats, log_weights: Floats, log_tops: Floats, rate: float, *, runs: int, rng: Rng) -> float:
    """Return the share of runs where the likeliest world, given an output, is the one it was drawn from.

    Floating Laplace noise of scale 1/rate: a simulation, not a release. A guess of the right answer names the right world
    with the share that its heaviest world has of it, so a coin decides between worlds that tie.
    """
    shares = softmax(log_weights)
    truth = np.searchsorted(np.cumsum(shares), rng.uniform_doubles(runs), side="right").clip(max=shares.size - 1)
    centred = rng.uniform_doubles(runs) - 0.5
    noise = -np.sign(centred) * np.log1p(-2 * np.abs(centred).clip(max=0.5 - 2.0**-54)) / (rate or 1.0)
    outputs = offsets[truth] + noise
    right = rng.uniform_doubles(runs) < np.exp(log_tops[truth] - log_weights[truth])
    return float((right & (_guesses(outputs, offsets, log_tops, rate) == truth)).mean())


def _guesses(
    outputs: Floats, offsets: Floats, log_tops: Floats, rate: float
) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    if (log_tops == log_tops[0]).all():  # equal weights: the nearest answer
        return np.searchsorted((offsets[1:] + offsets[:-1]) / 2, outputs)
    guesses = np.empty(outputs.size, dtype=np.intp)
    rows = max(1, _CELLS // offsets.size)
    for start in range(0, outputs.size, rows):
        part = outputs[start : start + rows, None]
        guesses[start : start + rows] = (log_tops - rate * np.abs(part - offsets)).argmax(axis=1)
    return guesses
