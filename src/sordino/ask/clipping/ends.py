"""Ends: the bounds of a number for one mean, found by a selection at each end that is not declared. Only queries."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sordino.ask.clipping.bins import check_reach, clip_edges
from sordino.ask.queries.adaptive.magnitudes import MagnitudeHistogram, OutsideCount, TailCount, powers_of_two
from sordino.ask.queries.expressions.bound_number import BoundNumber
from sordino.ask.queries.expressions.nodes import Node
from sordino.ask.queries.queryable import Queryable, is_monotone
from sordino.core.estimates.noisy import Noisy
from sordino.core.loss import Loss, share_loss

# The shares of a question's loss.
SHARES = {"upper": Fraction(1, 4), "lower": Fraction(3, 20), "beyond": Fraction(1, 20)}
# Candidates in each power of two.
EACH = 4
# The handicap of a lower end, for each doubling of the width.
_DOUBLING = 12
# The chance that more rows than stated lie beyond.
_MISS = 0.05


@dataclass(frozen=True, slots=True)
class Ends:
    """The bounds found, in the column's units, with at most how many rows lie beyond each, and about how many were counted.

    Both numbers of rows hold together with probability 95%.
    """

    lower: Fraction
    upper: Fraction
    below: float
    above: float
    counted: float


def find_ends(q: Queryable, node: Node, number: BoundNumber, loss: Loss) -> Ends | None:
    """Return bounds for a mean of `node`, by these shares of a question's `loss`; None where no row stands out.

    Each end that is not declared is one selection among edges, four to a power of two: the upper one first, then the
    lower one among those below it. Chosen is about the one with the least

        rows beyond the edge + handicap,    the handicap growing by 1 / rate with each edge outward.

    So the next edge is worth about 1 / rate rows, and the choice is where it would take in fewer than that: what optimal
    clipping needs, but for the logarithm of the number of edges (Huang, Liang, Yi 2021, "Instance-optimal mean estimation
    under differential privacy", section 3: about 1 / epsilon rows stay beyond). Below 0 the upper end's handicap falls by
    an eighth of that with each edge: small tables need not reach all the way down. Below 0 the lower end's handicap grows
    with the width between the ends, as the noise does, and by an eighth at least.

    Theorem: the rows beyond an edge are a count, which an added unit of C rows raises by 0 to C at every edge, so under
    add_remove the scores are monotone and the rate is epsilon / C (`Exponential`); else half of it. The handicap is public.
    """
    histogram = ends_histogram(node, number)
    edges = histogram.edges
    first = 0
    last = len(edges) - 1
    top = len(edges) - 1
    if number.interval.upper is None:
        zero = next((j for j, edge in enumerate(edges) if edge >= 0), top)
        steps = [Fraction(max(j - zero, 0)) + Fraction(min(j - zero, 0), 8) for j in range(top + 1)]
        last = max(1, _select(q, histogram, share_loss(loss, SHARES["upper"]), steps, below=False))
    if number.interval.lower is None:
        first = _select(
            q, histogram, share_loss(loss, SHARES["lower"]), _lower_handicaps(edges[: last + 1]), below=True
        )
    answer = q.release(OutsideCount(histogram, first, last), share_loss(loss, SHARES["beyond"]))
    outside = answer.outputs[0].estimate
    assert isinstance(outside, Noisy)
    margin = outside.law.error(1 - _MISS / 2)
    below, inside, above = outside.steps
    if inside <= margin:
        return None
    lower = edges[first] * number.unit
    upper = edges[last] * number.unit
    low = number.values.lower
    high = number.values.upper
    return Ends(
        lower if low is None else max(low, lower),
        upper if high is None else min(high, upper),
        max(0.0, below + margin) if first else 0.0,
        max(0.0, above + margin) if last < top else 0.0,
        float(below + inside + above),
    )


def ends_histogram(node: Node, number: BoundNumber) -> MagnitudeHistogram:
    """Return the bins whose edges are the candidates; raise QuestionRefused where a declared end lies beyond all bins."""
    check_reach(number)
    return MagnitudeHistogram(node, clip_edges(_edges(), number), offsets=False)


def _edges() -> tuple[int, ...]:
    powers = powers_of_two()
    cut = {low + (high - low) * i // EACH for low, high in itertools.pairwise(powers) for i in range(EACH)}
    return tuple(sorted({*cut, powers[-1]}))


def _lower_handicaps(edges: Sequence[int]) -> list[Fraction]:
    """Return the handicaps of a lower end at each edge but the last, which is the upper end; the one below it has none.

    An edge outward costs 1 down to 0, and below it twelve for each doubling of the width, at most 1 and at least an eighth:
    so ends far apart on both sides of 0 are found by tables that are not large, and few edges are passed that widen the ends.
    Of sixteen columns at epsilon 0.1, 1 and 10 the mean then errs by at most 1.12 times the best of eleven such rules; by 1 an
    edge up to 9.7 times, by four a doubling up to 1.12 and on average 4% more (`lower_rules` in `bench/bounds.py`).
    """
    top = edges[-1]
    handicaps = [Fraction(0)]
    for inner, outer in itertools.pairwise(edges[-2::-1]):
        wider = _DOUBLING * (math.log2(top - outer) - math.log2(top - inner))
        handicaps.append(
            handicaps[-1] + (Fraction(1) if inner > 0 else min(Fraction(1), max(Fraction(1, 8), Fraction(wider))))
        )
    return handicaps[::-1]


def _select(
    q: Queryable, histogram: MagnitudeHistogram, loss: Loss, handicaps: Sequence[Fraction], *, below: bool
) -> int:
    """Return the place of the edge chosen; the handicaps are in units of 1 / rate."""
    monotone = is_monotone([TailCount(histogram, 0, 0, "few", below)], q.neighbors)
    amounts = loss.amounts()
    epsilon = Fraction(math.sqrt(8 * amounts["rho"])) if "rho" in amounts else amounts["epsilon"]
    step = (1 if monotone else 2) * q.neighbors.contributions / epsilon
    candidates = [TailCount(histogram, j, 0, "few", below, math.ceil(h * step)) for j, h in enumerate(handicaps)]
    return int(q.select(candidates, loss).value)
