"""Several quantiles found by halving beside one joint exponential mechanism over all of them: of incomes, and of ages.

python bench/joint_quantiles.py [--draws 20] [--json]

JointExp (Gillenwater, Joseph, Kulesza 2021, "Differentially private quantiles") draws all values at once, with weight
exp(-epsilon u / (2 D)), where u sums how far the numbers of rows between neighboring values are from those aimed at: D is 2
under replace, and 2 (1 - the least gap of levels) under add_remove. Incomes have 10^8 steps, so that its law is drawn here by
one pass forward and one back, in floating-point numbers: good for a comparison, not for a release. Ages, 0 to 125, are drawn
by the mechanism that is released for narrow columns; beside the errors are those stated at 95%, as means over the levels.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sordino.core.estimates.choices import Ranks
from sordino.core.mechanisms.joint_quantiles import JointQuantiles
from sordino.core.mechanisms.partition import Partition
from sordino.core.mechanisms.pivots import with_pivots
from sordino.core.mechanisms.quantile_selection import QuantileSelection, halving_stages
from sordino.core.neighbors import Neighbors, Relation
from sordino.core.noise.rng import Rng

ROWS = 19_980  # a multiple of each number of parts
HIGHEST = 1_000_000
SCALE = 100  # steps a unit
COUNTS = (3, 5, 9, 19)
RELATIONS: tuple[Relation, ...] = ("add_remove", "replace")


def run(draws: int = 20) -> dict[str, dict[str, float]]:
    """Return the mean rank errors of even levels, over the draws, of both ways."""
    values = np.sort(np.minimum(np.random.default_rng(1).lognormal(10.5, 0.8, ROWS), HIGHEST))
    found: dict[str, dict[str, float]] = {}
    for relation in RELATIONS:
        for count in COUNTS:
            levels = tuple(Fraction(i + 1, count + 1) for i in range(count))
            for epsilon in ("0.1", "1"):
                found[f"{relation}, {count} levels, epsilon {epsilon}"] = {
                    "halving": round(halving_error(values, levels, Fraction(epsilon), relation, draws), 2),
                    "joint": round(joint_error(values, levels, float(epsilon), relation, draws), 2),
                }
            for epsilon in ("0.1", "1"):
                made = ages_errors(levels, Fraction(epsilon), relation, draws)
                found[f"ages, {relation}, {count} levels, epsilon {epsilon}"] = made
    return found


def ages_errors(
    levels: tuple[Fraction, ...], epsilon: Fraction, relation: Relation, draws: int, rows: int = 32_561
) -> dict[str, float]:
    """Return mean rank errors on ages that many share, and what is stated for them, by both ways."""
    ages = np.sort(np.random.default_rng(2).gamma(5.0, 5.0, rows).astype(np.int64) + 17).clip(0, 125)
    here, counts = np.unique(ages, return_counts=True)
    both, neighbors = with_pivots(levels), Neighbors(relation, None)
    ways: dict[str, QuantileSelection | JointQuantiles] = {
        "halving": QuantileSelection(both, epsilon / len(halving_stages(len(both))), neighbors, 1),
        "joint": JointQuantiles(levels, epsilon, neighbors, 1),
    }
    counted, made = _Counts(Partition.of(here, here, counts)), {}
    for name, way in ways.items():
        rng, off = Rng.seeded(4), []
        for _ in range(draws):
            drawn = way.release(counted, low=0, high=125, rng=rng)[0]
            off += [_rank_error(ages, drawn[way.levels.index(q)], float(q) * rows) for q in levels]
        stages = way.error_stages([[way.levels.index(q)] for q in levels], values=126, rows=rows)
        stated = [Ranks((0,), Fraction(1), one, chained=True).errors(0.95)[0] for one in stages]
        made[name], made[f"{name}, stated"] = round(float(np.mean(off)), 2), round(float(np.mean(stated)), 1)
    return made


def halving_error(values: Any, asked: tuple[Fraction, ...], epsilon: Fraction, relation: Relation, draws: int) -> float:
    """Return the mean rank error of the quantiles as they are asked for here."""
    levels = with_pivots(asked)
    made = QuantileSelection(levels, epsilon / len(halving_stages(len(levels))), Neighbors(relation, None), 1)
    steps, rows = np.unique(np.floor(values * SCALE).astype(np.int64), return_counts=True)
    ordered, known = np.sort(np.floor(values * SCALE)), Partition.of(steps, steps, rows)

    rng, off = Rng.seeded(4), []
    for _ in range(draws):
        drawn = made.release(_Counts(known), low=0, high=HIGHEST * SCALE, rng=rng)[0]
        off += [_rank_error(ordered, drawn[levels.index(level)], float(level * len(values))) for level in asked]
    return float(np.mean(off))


@dataclass(frozen=True)
class _Counts:
    """The counts of one table, all of them known."""

    held: Partition

    def known(self, group: int) -> Partition:
        del group
        return self.held

    def refine(self, wanted: Any) -> None:
        raise AssertionError(wanted)


def _rank_error(ordered: Any, value: int, aim: float) -> float:
    low, high = np.searchsorted(ordered, value, "left"), np.searchsorted(ordered, value, "right")
    return float(max(0.0, low - aim, aim - high))


def joint_error(values: Any, levels: Sequence[Fraction], epsilon: float, relation: Relation, draws: int) -> float:
    """Return the mean rank error of JointExp at these levels of sorted values, whose ranks are whole."""
    rows, count = len(values), len(levels)
    aims = [0, *(int(level * rows) for level in levels), rows]
    gaps = [b - a for a, b in itertools.pairwise(aims)]
    rate = epsilon / (2 * (2.0 if relation == "replace" else 2.0 * (1 - min(gaps) / rows)))
    widths = np.diff(np.concatenate([[0.0], values, [float(HIGHEST)]]))  # interval i has i rows below it
    ranks = np.arange(rows + 1)
    forward = [widths * np.exp(-rate * np.abs(ranks - gaps[0]))]
    for gap in gaps[1:-1]:
        spread = _two_sided(forward[-1] / forward[-1].sum(), math.exp(-rate))
        forward.append(widths * np.concatenate([np.zeros(gap), spread[: rows + 1 - gap]]))
    rng, off = np.random.default_rng(6), []
    for _ in range(draws):
        above = rows
        for place in range(count, 0, -1):
            weights = forward[place - 1] * np.exp(-rate * np.abs(above - ranks - gaps[place])) * (ranks <= above)
            above = int(rng.choice(rows + 1, p=weights / weights.sum()))
            off.append(abs(above - aims[place]))
    return float(np.mean(off))


def _two_sided(weights: Any, decay: float) -> Any:
    """Return the sum over j of weights[j] decay^|i - j| at each i."""
    rising, falling, total = [], [], 0.0
    for w in weights.tolist():
        total = total * decay + w
        rising.append(total)
    total = 0.0
    for w in reversed(weights.tolist()):
        falling.append(total)  # what lies above, without i itself
        total = (total + w) * decay
    return np.array(rising) + np.array(falling[::-1])


def main() -> None:
    """Print the figures as a table, or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = run(options.draws)
    if options.json:
        print(json.dumps(found, indent=2))
        return
    for name, one in found.items():
        print(f"{name:44}", *(f"{way} {error:8.2f}  " for way, error in one.items()))


if __name__ == "__main__":
    main()
