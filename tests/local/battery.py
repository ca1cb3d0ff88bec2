"""What every protocol of the local model must pass: law, epsilon, error, wire. A new one is one line in RANDOMIZERS."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from sordino.core.noise.rng import Rng
from sordino.local import (
    BLH,
    GRR,
    OLH,
    OUE,
    SHE,
    SUE,
    THE,
    Hadamard,
    Rappor,
    SubsetSelection,
    Unary,
)

NARROW, WIDE = 14, 128


@dataclass(frozen=True)
class RandomizerCase:
    """A protocol made for a number of labels, and whether an answer may be missing without a label of its own."""

    name: str
    made: Callable[[Any], Any]
    missing: bool


RANDOMIZERS = [
    RandomizerCase("grr", lambda labels: GRR(labels, epsilon=1), missing=False),
    RandomizerCase("unary", lambda labels: Unary(labels, p=0.75, q=0.25), missing=True),
    RandomizerCase("sue", lambda labels: SUE(labels, epsilon=1), missing=True),
    RandomizerCase("oue", lambda labels: OUE(labels, epsilon=1), missing=True),
    RandomizerCase("olh", lambda labels: OLH(labels, epsilon=1), missing=True),
    RandomizerCase("olh, odd g", lambda labels: OLH(labels, epsilon=0.5), missing=True),
    RandomizerCase("hadamard", lambda labels: Hadamard(labels, epsilon=1), missing=True),
    RandomizerCase("subset", lambda labels: SubsetSelection(labels, epsilon=1), missing=False),
    RandomizerCase("blh", lambda labels: BLH(labels, epsilon=1), missing=True),
    RandomizerCase("the", lambda labels: THE(labels, epsilon=1), missing=True),
    RandomizerCase("she", lambda labels: SHE(labels, epsilon=1), missing=True),
    RandomizerCase("rappor", lambda labels: Rappor(labels, f=0.25, p=0.35, q=0.65), missing=True),
]


def population(k: int, n: int) -> np.ndarray[Any, Any]:
    """Return n label numbers, small ones more often: shares fall like 1 / (v + 1)."""
    weights = 1 / np.arange(1, k + 1)
    counts = np.floor(n * weights / weights.sum()).astype(np.int64)
    counts[0] += n - counts.sum()
    return np.repeat(np.arange(k, dtype=np.int32), counts)


def squared_errors(protocol: Any, *, k: int, n: int, runs: int, seed: int) -> np.ndarray[Any, Any]:
    """Return (error of share)^2 / variance formula, a row a run and a column a label; its mean is 1."""
    truth = population(k, n)
    shares = np.bincount(truth, minlength=k) / n
    formula = np.array([protocol.variance(share=float(s), n=n) for s in shares])
    rng = Rng.seeded(seed)
    found = np.empty((runs, k))
    for run in range(runs):
        found[run] = protocol.estimate(protocol.count(protocol.perturb(truth, rng))).frequencies
    return np.asarray(np.square(found - shares) / formula)


def squared_errors_until(protocol: Any, *, k: int, within: float, chance: float, seed: int) -> np.ndarray[Any, Any]:
    """Return squared errors over the formula of as many runs as make a false alarm of `within` less likely than `chance`.

    The protocol decides how many that are: one with rare supports has heavier tails. At least 40 runs are made, and more
    by halves; the number depends on how the runs scatter, not on where their mean lies.
    """
    ratios = squared_errors(protocol, k=k, n=1000, runs=40, seed=seed)
    while false_alarm(ratios, within=within) >= chance:
        seed += 1
        more = squared_errors(protocol, k=k, n=1000, runs=len(ratios) // 2, seed=1000 * seed)
        ratios = np.concatenate([ratios, more])
    return ratios


def false_alarm(ratios: np.ndarray[Any, Any], *, within: float) -> float:
    """Return how likely the mean over a run's labels and all runs leaves 1 -+ within, were the formula right.

    The runs are independent; the deviation of a run's mean is taken from the runs, the sum of runs as normal.
    """
    means = ratios.mean(axis=1)
    return 2 * NormalDist().cdf(-within / (float(means.std(ddof=1)) / math.sqrt(len(means))))
