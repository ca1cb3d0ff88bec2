"""The pair of neighbors of a given size whose monotone answers differ most, over a whole universe. It may not know var.

Let D = C + A and D' = C + B (A removed, B added, C common) and let the answer rise. Exchanging a record of B for a
larger one that is free, in A or in C never shrinks the rise; likewise a record of A for a smaller one. So B are the top
of the universe and A the bottom, and the rise is linear in the order statistics of C, which is chosen from the middle:
a programme "choose c of m in sorted order". A mean weighs all of C alike, so C is a bottom or a top; a quantile weighs at
most four order statistics, so a running maximum for each of them is the whole programme. O(N) for each (removed, added).
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sordino.lab.sensitivity.moves import Moves
from sordino.lab.sensitivity.running_sums import exact_running_sums
from sordino.lab.sensitivity.statistics import Statistic
from sordino.lab.sensitivity.universe import Floats, Places


def farthest_pair(
    universe: Floats, statistic: Statistic, moves: Moves, *, offset: Fraction = Fraction(0)
) -> tuple[Places, Places]:
    """Return the places of a table of `moves.size` records and of its neighbor whose answers differ most.

    The values are those of `universe`, each `offset` higher: that matters to sums of tables of two sizes alone.
    """
    if statistic.kind == "mean":  # an offset moves no difference of means, but would cost digits in running sums
        universe = universe - universe.mean()
    best: float | Fraction = -np.inf
    pair = (np.arange(0), np.arange(0))
    for mirror in (False, True):  # in the mirror a fall of the answer is a rise
        values = -universe[::-1] if mirror else universe
        totals = np.append(0.0, np.cumsum(values))
        if statistic.kind == "sum":
            own_offset = -offset if mirror else offset
            lowest = exact_running_sums(values[: max(removed for removed, _ in moves.pairs)].tolist(), own_offset)
            highest = exact_running_sums(values[::-1][: max(added for _, added in moves.pairs)].tolist(), own_offset)
        for removed, added in moves.pairs:
            common = moves.size - removed
            score: float | Fraction
            steps: _Steps
            if statistic.kind == "sum":
                score, steps = highest[added] - lowest[removed], []
            elif statistic.kind == "quantile":
                score, steps = _rise_of_quantile(values, statistic, removed, added, common, mirror)
            else:
                score, steps = _rise_of_mean(totals, statistic, removed, added, common)
            if score > best:
                best = score
                chosen = np.arange(common) + removed
                for rank, shift in steps:
                    chosen[rank:] = np.arange(rank, common) + removed + shift
                first = np.concatenate([np.arange(removed), chosen])
                second = np.concatenate([chosen, np.arange(values.size - added, values.size)])
                pair = (values.size - 1 - first[::-1], values.size - 1 - second[::-1]) if mirror else (first, second)
    return pair


_Steps = list[tuple[int, int]]  # from this rank in C on, the records lie `shift` places above the lowest choice


def _rise_of_mean(totals: Floats, statistic: Statistic, removed: int, added: int, common: int) -> tuple[float, _Steps]:
    """Return the largest rise of a count or a mean when the bottom leave and the top come, and C."""
    before, after = common + removed, common + added
    if statistic.kind == "count":
        return float(abs(after - before)), []
    free = totals.size - 1 - removed - added - common
    shift = free if after < before else 0  # a mean over more records wants C low, over fewer high
    body = totals[removed + shift + common] - totals[removed + shift]
    rise = body + totals[-1] - totals[-1 - added], body + totals[removed]
    return float(rise[0] / after - rise[1] / before), [(0, shift)]


def _rise_of_quantile(
    values: Floats, statistic: Statistic, removed: int, added: int, common: int, mirror: bool
) -> tuple[float, _Steps]:
    """Return the largest rise of a quantile when the bottom leave and the top come, and C.

    C's record of rank i stands at place i + y_i of the middle, 0 <= y_0 <= y_1 <= ... <= free.
    """
    fixed = 0.0
    weights: dict[int, float] = {}
    for size, sign, lead in ((common + added, 1.0, 0), (common + removed, -1.0, removed)):
        low, high, share = statistic.positions(size)
        for position, weight in ((low, sign * (1 - share)), (high, sign * share)):
            rank = (size - 1 - position if mirror else position) - lead
            if 0 <= rank < common:
                weights[rank] = weights.get(rank, 0.0) + weight
            else:
                fixed += weight * float(values[rank + removed if rank < 0 else values.size - added + rank - common])
    choices = values.size - removed - added - common + 1
    ranks = sorted(weights)
    score = np.zeros(choices)
    traces = []
    for rank in ranks:
        score = score + weights[rank] * values[removed + rank : removed + rank + choices]
        highest = np.maximum.accumulate(score)
        traces.append((score, highest))
        score = highest
    shift = choices - 1
    steps = []
    for rank, (here, highest) in zip(reversed(ranks), reversed(traces), strict=True):
        shift = int(np.argmax(here[: shift + 1] == highest[shift]))
        steps.append((rank, shift))
    return fixed + float(score[-1]), steps[::-1]
