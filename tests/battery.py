"""What every mechanism must pass: its law, its error, its audited loss, its event, its repr. A new one is one line here."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sordino.core.mechanisms.additive_noise import Laplace, Mechanism, Staircase, gaussian_for_pair, gaussian_for_rho
from sordino.core.mechanisms.selection import Exponential, PermuteAndFlip
from sordino.core.noise.rng import Rng
from sordino.lab.audit.sampled_audit import choose_event, read_outputs
from sordino.lab.audit.verdict import least_epsilon


@dataclass(frozen=True)
class MechanismCase:
    """A mechanism with the farthest neighbor of the zero vector, and the (epsilon, delta) it must hold for that pair."""

    name: str
    made: Mechanism
    neighbor: tuple[int, ...]
    epsilon: float
    delta: float = 0.0


def _at_delta(rho: float, delta: float) -> float:
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))


MECHANISMS = [
    MechanismCase("laplace", Laplace(Fraction(1), Fraction(1, 2)), (1,), 0.5),
    MechanismCase("laplace wide", Laplace(Fraction(125), Fraction(1)), (125,), 1.0),
    MechanismCase("laplace tiny noise", Laplace(Fraction(1), Fraction(3)), (1,), 3.0),
    MechanismCase("laplace vector", Laplace(Fraction(2), Fraction(1)), (1, -1, 0), 1.0),
    MechanismCase("staircase", Staircase(9, Fraction(2)), (9,), 2.0),
    MechanismCase("staircase beside a cell that stays", Staircase(40, Fraction(3)), (0, -40), 3.0),
    MechanismCase(
        "gaussian rho", gaussian_for_rho(l2_squared=Fraction(1), rho=Fraction(1, 2)), (1,), _at_delta(0.5, 1e-3), 1e-3
    ),
    MechanismCase(
        "gaussian vector",
        gaussian_for_rho(l2_squared=Fraction(2), rho=Fraction(1, 8)),
        (1, -1),
        _at_delta(0.125, 1e-3),
        1e-3,
    ),
    MechanismCase(
        "gaussian pair", gaussian_for_pair(shift=3, epsilon=Fraction(1), delta=Fraction(1, 1000)), (3,), 1.0, 1e-3
    ),
]


@dataclass(frozen=True)
class SelectionCase:
    """A selection with scores, those of a neighbor that is bad for it, and the epsilon it must hold everywhere."""

    name: str
    made: Exponential | PermuteAndFlip
    scores: tuple[int | Fraction, ...]
    neighbor: tuple[int | Fraction, ...]
    epsilon: float
    monotone: bool = False


SELECTIONS = [
    SelectionCase("exponential", Exponential(Fraction(1), Fraction(1)), (5, 4, 2, 2, 0), (4, 5, 3, 3, 1), 1.0),
    SelectionCase(
        "exponential monotone", Exponential(Fraction(1), Fraction(1), True), (5, 4, 2, 2), (5, 5, 3, 3), 1.0, True
    ),
    SelectionCase(
        "exponential fractions",
        Exponential(Fraction(1, 3), Fraction(2)),
        (Fraction(1, 3), 0, 1),
        (0, Fraction(1, 3), Fraction(2, 3)),
        2.0,
    ),
    SelectionCase("permute and flip", PermuteAndFlip(Fraction(1), Fraction(1)), (5, 4, 2, 2, 0), (4, 5, 3, 3, 1), 1.0),
    SelectionCase(
        "permute and flip monotone",
        PermuteAndFlip(Fraction(2), Fraction(3), True),
        (9, 8, 9, 1),
        (9, 10, 9, 1),
        3.0,
        True,
    ),
    SelectionCase(
        "permute and flip fractions",
        PermuteAndFlip(Fraction(1, 2), Fraction(2)),
        (0, Fraction(1, 3), 1),
        (Fraction(1, 2), 0, 1),
        2.0,
    ),
]


def coverage_slack(runs: int) -> float:
    """Return 4.5 standard errors of a share of 95% in so many runs: exceeded by chance once in 300,000."""
    return 4.5 * math.sqrt(0.05 * 0.95 / runs)


def draws(case: MechanismCase, at: tuple[int, ...], count: int, seed: int) -> np.ndarray[Any, Any]:
    """Return `count` releases of the vector `at`, one a row."""
    rng = Rng.seeded(seed)
    flat = case.made.release([x for x in at for _ in range(count)], rng)
    return np.array(flat, dtype=np.int64).reshape(len(at), count).T


def probabilities(upper_tail: Callable[[int], float], low: int, high: int) -> list[float]:
    """Return P(X <= low), P(X = low + 1), ..., P(X = high), P(X > high)."""
    tails = [upper_tail(t) for t in range(low, high + 1)]
    return [1 - tails[0], *(a - b for a, b in itertools.pairwise(tails)), tails[-1]]


def chi_square_tail(statistic: float, freedom: int) -> float:
    """Return P(chi-square > statistic), by SciPy."""
    # Not by scipy.stats, whose import takes a second.
    from scipy.special import chdtrc

    return float(chdtrc(freedom, statistic))


def binomial_law(counts: Any, runs: int, chance: float) -> Any:
    """Return the chance of each number of heads in so many flips, by the gamma function."""
    from scipy.special import gammaln, xlog1py, xlogy

    rest = runs - counts
    ways = gammaln(runs + 1) - gammaln(counts + 1) - gammaln(rest + 1)
    return np.exp(ways + xlogy(counts, chance) + xlog1py(rest, -chance))


def audited_epsilon(here: np.ndarray[Any, Any], there: np.ndarray[Any, Any], delta: float, alarm: float) -> float:
    """Return a lower bound on epsilon, wrong with probability at most `alarm`, from samples on two neighbors.

    By the project's own audit: an event chosen on the first half of the samples, and measured on the second.
    """
    runs = min(len(here), len(there))
    half = runs // 2
    ours, theirs = (read_outputs(samples[:runs], runs=runs) for samples in (here, there))
    event, swapped = choose_event(ours[:half], theirs[:half], delta=delta, alarm=alarm)
    hits = [event.count(samples[half:]) for samples in (ours, theirs)]
    more, less = reversed(hits) if swapped else hits
    return least_epsilon(more, less, runs=runs - half, delta=delta, alarm=alarm)
