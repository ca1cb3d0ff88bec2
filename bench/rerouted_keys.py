"""Whether weights that go on from common keys to rare ones would show more private keys than two rounds do.

python bench/rerouted_keys.py [--keys 100000] [--rows 1000000]

MaxAdaptiveDegree (Chen, Cohen-Addad, Epasto, Zadimoghaddam 2025, "Scalable private partition selection via adaptive
weighting") gives a key no more weight than its threshold needs and hands the rest back to its units, for their other keys.
Here a unit gets all of it back, to spread over its keys, at the best of five caps: more than the paper's sensitivity allows,
so this is what it could win at the most. Expected numbers of keys, by the normal law, at the same rho and delta.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from keys import DELTA, draw_table
from scipy.stats import norm

from sordino.core.mechanisms.weighted_selection import WeightedRound, WeightedSelection, weighted_selection_for_pair

Floats = np.ndarray[Any, np.dtype[np.float64]]
CAPS = (0, 1, 2, 3, 5)  # deviations above the threshold that a key may weigh


def run(keys: int = 100_000, rows: int = 1_000_000) -> Iterator[str]:
    """Yield a line for each table and epsilon."""
    for shape, most in (("alike", 8), ("geometric", 8), ("geometric", 64)):
        for epsilon in (Fraction(1, 10), Fraction(1), Fraction(3)):
            _, plain, best = count_shown(shape, most, epsilon, keys=keys, rows=rows)
            place = f"{shape}, up to {most} keys, epsilon {float(epsilon):g}"
            yield f"{place:36} two rounds {plain:6,.0f}   rerouted {best:6,.0f} ({best / plain - 1:+.1%})"


def count_shown(shape: str, most: int, epsilon: Fraction, *, keys: int, rows: int) -> tuple[int, float, float]:
    """Return how many keys there are, how many two rounds show, and how many at most with weights rerouted in the second."""
    table = draw_table(keys, rows, shape)
    unit, word = _capped(table["id"].to_numpy(), table["word"].to_numpy().astype(np.int64), most)
    selection = weighted_selection_for_pair(groups=most, moved=1, epsilon=epsilon, delta=DELTA)
    best = max(_expected(unit, word, keys, selection, cap) for cap in CAPS)
    return len(np.unique(word)), _expected(unit, word, keys, selection, None), best


def _expected(unit: Any, word: Any, keys: int, selection: WeightedSelection, cap: int | None) -> float:
    """Return the keys that the first round shows, drawn twice, and those expected of the second, rerouted with a cap."""
    (first, own), (second, threshold) = (_scale(one) for one in selection.rounds)
    total = 0.0
    for seed in (0, 1):
        weight = _weights(unit, word, keys)
        noisy = weight + first * np.random.default_rng(seed).normal(size=keys)
        shown = (weight > 0) & (noisy >= own)
        hidden = ~shown[word]
        weight = _weights(unit[hidden], word[hidden], keys, None if cap is None else threshold + cap * second)
        total += float(shown.sum() + np.sum(norm.sf((threshold - weight) / second) * (weight > 0)))
    return total / 2


def _weights(unit: Any, word: Any, keys: int, most: float | None = None) -> Floats:
    """Return what the keys weigh: 1 / sqrt(k) of each unit of k; with `most`, of which 1 / k was rerouted above it."""
    many = np.bincount(unit).astype(float)
    share = 1 / np.sqrt(many[unit])
    found: Floats = np.bincount(word, weights=share, minlength=keys).astype(float)
    if most is None:
        return found
    even = 1 / many[unit]
    adaptive = np.bincount(word, weights=even, minlength=keys)
    spare = np.divide(np.maximum(0.0, adaptive - most), adaptive, out=np.zeros(keys), where=adaptive > 0)
    back = np.bincount(unit, weights=even * spare[word])
    found += np.bincount(word, weights=back[unit] * even, minlength=keys) - adaptive * spare
    return found


def _scale(one: WeightedRound) -> tuple[float, float]:
    return float(one.law.sigma_squared) ** 0.5 / one.whole, one.threshold / one.whole


def _capped(unit: Any, word: Any, most: int) -> tuple[Any, Any]:
    """Return the pairs of which each unit keeps at most so many keys, drawn."""
    order = np.lexsort((np.random.default_rng(2).random(len(unit)), unit))
    unit, word = unit[order], word[order]
    place = np.arange(len(unit))
    first = np.maximum.accumulate(np.where(np.r_[True, unit[1:] != unit[:-1]], place, 0))
    return unit[place - first < most], word[place - first < most]


def main() -> None:
    """Print the figures."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--keys", type=int, default=100_000)
    reader.add_argument("--rows", type=int, default=1_000_000)
    options = reader.parse_args()
    for line in run(options.keys, options.rows):
        print(line, flush=True)


if __name__ == "__main__":
    main()
