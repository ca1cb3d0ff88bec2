"""The law of quantiles by its definition, over every candidate and every part of a row: the oracle of the fast draws."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from sordino.core.mechanisms.partition import Partition
from sordino.core.mechanisms.quantile_selection import QuantileSelection, halving_stages

Part = tuple[int, int]  # a value and which part of its row


class Counted:
    """The counts of small tables: coarse bins first, `ratio` times finer at each asking; `asked` counts askings."""

    def __init__(self, tables: Sequence[Sequence[int]], low: int, high: int, widths: Sequence[int]) -> None:
        self.tables, self.low, self.high, self.widths, self.asked = tables, low, high, widths, 0
        self.now = [self._bin(t, widths[0]) for t in tables]

    def known(self, group: int) -> Partition:
        return self.now[group]

    def refine(self, wanted: Sequence[tuple[int, tuple[int, int]]]) -> None:
        self.asked += 1
        for group, (first, last) in wanted:
            width = next(w for w in self.widths if w < last - first + 1)
            inside = [v for v in self.tables[group] if first <= v <= last]
            self.now[group] = self.now[group].refine((first, last), self._bin(inside, width))

    def _bin(self, values: Sequence[int], width: int) -> Partition:
        firsts, rows = np.unique([(v - self.low) // width * width + self.low for v in values], return_counts=True)
        firsts = firsts.astype(np.int64)
        return Partition.of(firsts, np.minimum(firsts + width - 1, self.high), rows)


def single_law(
    table: Sequence[int], level: Fraction, rate: Fraction, candidates: Sequence[int]
) -> dict[tuple[int, ...], float]:
    """Return P(v) for one level, from the score's definition."""
    aim = level * len(table)
    weights = {}
    for v in candidates:
        below, not_above = sum(x < v for x in table), sum(x <= v for x in table)
        weights[(v,)] = math.exp(-rate * max(Fraction(0), below - aim, aim - not_above))
    total = math.fsum(weights.values())
    return {v: w / total for v, w in weights.items()}


def law(
    made: QuantileSelection, table: Sequence[int], low: int, high: int, places: int, cuts: Sequence[int] | None = None
) -> dict[tuple[Part, ...], float]:
    """Return the joint law of all selections, as (value, place) in order of levels, with `places` parts to a row.

    `cuts` are the parts at which ties may be split: all of them unless given.
    """
    levels = made.levels
    data = sorted((x, i) for x in table for i in range(places))
    stages = halving_stages(len(levels))

    def chosen(node_place: int, found: dict[int, Part], last: bool) -> Iterator[tuple[Part, float]]:
        node = next(n for nodes in stages for n in nodes if n.place == node_place)
        lower = found.get(node.lower, (low, 0))
        upper = found.get(node.upper, (high, places))
        begin = levels[node.lower] if node.lower in found else Fraction(0)
        end = levels[node.upper] if node.upper in found else Fraction(1)
        inner = (levels[node_place] - begin) / (end - begin)
        inside = [
            p
            for p in data
            if (p >= lower if node.lower in found else True) and (p < upper if node.upper in found else True)
        ]
        aim, weights = inner * len(inside), {}
        for v in range(lower[0], upper[0] + 1):
            for j in [0] if last else cuts or range(places + 1):
                if last:
                    a, b = sum(p[0] < v for p in inside), sum(p[0] <= v for p in inside)
                else:
                    a = b = sum(p < (v, j) for p in inside)
                distance = max(Fraction(0), a - aim, aim - b) / places
                weights[v, j] = math.exp(-made.rate(node_place) * distance)
        total = math.fsum(weights.values())
        for outcome, weight in weights.items():
            yield outcome, weight / total

    joint: dict[tuple[tuple[int, Part], ...], float] = {(): 1.0}
    for nodes in stages:
        for node in nodes:
            grown = {}
            for before, chance in joint.items():
                for outcome, more in chosen(node.place, dict(before), node.last):
                    grown[(*before, (node.place, outcome))] = chance * more
            joint = grown
    return {tuple(o for _, o in sorted(outcomes)): chance for outcomes, chance in joint.items()}
