"""Search: clipping bounds for a number, found privately - by a ladder of sums, a histogram, sparse vector or a quantile.

Every method is an algorithm over a Queryable: what it returns is post-processing of what it was told.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from sordino.clipping.rungs import (
    Clipped,
    clipped_sums,
    declared,
    ends_within,
    linear,
    narrow,
    occupied,
    refined,
    rows_within,
    spread,
    within,
)
from sordino.errors import QuestionRefused
from sordino.estimates.curve import Curve
from sordino.estimates.noisy import Noisy
from sordino.loss import ZCDP, Loss, Number, PureDP, format_number, to_fraction
from sordino.neighbors import Neighbors
from sordino.queries.adaptive.magnitudes import MagnitudeHistogram, TailCount, powers_of_two, search_number
from sordino.queries.aggregates.sums import Sum
from sordino.queries.aggregation import Aggregation, compile_query
from sordino.queries.build import Column, label
from sordino.queries.expressions.bound_number import BoundNumber
from sordino.queries.expressions.expr import Expr, col
from sordino.queries.expressions.nodes import Clip, Node, describe
from sordino.queries.queryable import Adaptive, Queryable, ReleaseContent
from sordino.release import Key, Output, Release, show_number

__all__ = ["Bounds", "Method", "find_bounds"]

Method = Literal["histogram", "ladder", "sparse_vector", "quantile"]
_METHODS = ("histogram", "ladder", "sparse_vector", "quantile")
_MOST_BOUNDS = 256
_LEFT = 4  # sparse vector leaves about this many rows times ln(rungs) / epsilon; the quantile 2 (ln(rungs) + this) / epsilon
_ASTRAY = 1e-6  # the chance that noise leads the search to an octave that holds nothing, which could be any
_MISS = 0.05  # the chance that more rows than the notes say lie beyond
_MUCH = 0.05  # of the rows counted: beyond it the notes warn
_ACROSS = 8  # rungs an octave for those two


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds found, None where there are none, the clipped sums they were chosen from, and how, in words.

    `beyond` says in words what may lie beyond them, from noisy numbers and public parameters alone.
    """

    lower: Fraction | None
    upper: Fraction | None
    curves: tuple[Clipped, ...]
    how: str
    beyond: str = "how many rows lie beyond is not known"


def find_bounds(
    source: Adaptive,
    of: Column,
    *,
    method: Method = "histogram",
    ladder: Sequence[Number] | None = None,
    epsilon: Number | None = None,
    delta: Number | None = None,
    rho: Number | None = None,
) -> Release:
    """Return a release with `.lower` and `.upper`: bounds beyond which so few rows lie that noise hides them.

    Where no row stands out of the noise and no bounds are declared, nothing is found: `.found` is False, `.value` None, and
    asking for `.lower` or `.upper` is refused. The notes say how many rows may lie beyond the bounds.

    Needs no declared bounds, and respects those that are declared. `method`:

    - "histogram" (one scan or two): a noisy histogram over a ladder, linear where the declared bounds are near, else by
      magnitude and then finely within the ends found; all clipped sums follow from it.
    - "ladder": sums clipped at each bound of `ladder` (ascending upper bounds), an equal share of the loss each; the
      first bound after which the sum is flat within its noise.
    - "sparse_vector": the first bound with few rows beyond, by AboveThreshold (Dwork & Roth 2014, section 3.6).
    - "quantile": the bound with so few rows beyond that the exponential mechanism still tells it from the empty ones.

    Raises QuestionRefused for a column without numbers or a ladder that does not ascend, before anything is spent.
    """
    node = (col(of) if isinstance(of, str) else of).node if isinstance(of, (str, Expr)) else None
    if node is None:
        raise QuestionRefused("a column is named by text or by col(...)")
    if method not in _METHODS:
        raise QuestionRefused(f"method is one of {', '.join(_METHODS)}, not {str(method)[:40]!r}")
    found = search_number(node, source.domain, coarse=False)
    cuts = _cuts(ladder, method, found)
    if cuts:
        compile_query(_sums(node, found, cuts), source.domain)  # what cannot be asked is refused before the charge
    algorithm = _algorithm(method, node, found, cuts)
    words = f"bounds of {describe(node)}, by {method.replace('_', ' ')}"
    if method == "ladder":
        words += f" of {len(cuts)} clipped sums up to {format_number(cuts[-1])}"
    named = label(node)
    _, release = source.adapt(
        algorithm,
        describe=words,
        tell=lambda b: _told(b, named, source.neighbors),
        epsilon=epsilon,
        delta=delta,
        rho=rho,
    )
    return release


def _algorithm(
    method: Method, node: Node, found: BoundNumber, cuts: tuple[Fraction, ...]
) -> Callable[[Queryable], Bounds]:
    if method == "ladder":
        return lambda q: _by_sums(q, node, found, cuts)
    if method == "histogram":
        return lambda q: _by_histogram(q, node, found)
    return lambda q: _by_edges(q, node, found, method)


def _cuts(ladder: Sequence[Number] | None, method: Method, found: BoundNumber) -> tuple[Fraction, ...]:
    """Return the bounds that the textbook search tries; raises QuestionRefused unless they ascend and end."""
    if method != "ladder":
        if ladder is not None:
            raise QuestionRefused('a ladder of bounds goes with method="ladder"; the other methods make their own')
        return ()
    if ladder is None:
        if found.interval.upper is None:
            raise QuestionRefused('method="ladder" needs ladder=[...], ascending bounds, as the column declares none')
        top = max(found.values.upper or Fraction(1), found.unit)
        return tuple(top * i / 100 for i in range(1, 101))
    if not isinstance(ladder, (list, tuple, range)) or not 2 <= len(ladder) <= _MOST_BOUNDS:
        raise QuestionRefused(
            f"a ladder has 2 to {_MOST_BOUNDS} bounds, such as list(range(5, 101, 5)) or powers of two"
        )
    cuts = tuple(to_fraction(b, name="a bound of the ladder") for b in ladder)
    if any(a >= b for a, b in itertools.pairwise(cuts)):
        raise QuestionRefused("a ladder's bounds must ascend")
    return cuts


# ---- a histogram over a ladder


def _by_histogram(q: Queryable, node: Node, found: BoundNumber) -> Bounds:
    """Search by magnitude first, unless the declared bounds are near, then count finely within the ends found."""
    spare, coarse, seen, outer = q.loss, False, None, (0.0, 0.0)
    rough: tuple[int, ...] = ()
    if narrow(found):
        edges = linear(*declared(found))
    else:
        third = _part(q.loss, Fraction(1, 3))
        rough = within(powers_of_two(), found)
        counts = _noisy(q.release(MagnitudeHistogram(node, rough, offsets=False), third), 0)
        seen = occupied(counts, _ASTRAY)
        spare = _part(q.loss, Fraction(2, 3))
        wide = search_number(node, q.domain, coarse=True)
        if seen is not None and wide.unit != found.unit and max(-rough[seen[0]], rough[seen[1] + 1]) >= 2**61:
            coarse, found, rough = (
                True,
                wide,
                within(powers_of_two(), wide),
            )  # beyond the fine grid: look on the coarse one
            counts = _noisy(q.release(MagnitudeHistogram(node, rough, offsets=False, coarse=True), third), 0)
            seen = occupied(counts, _ASTRAY)
            spare = third
        if seen is None:
            return _nothing(found)
        edges = refined(rough, *seen)
        outer = rows_within(counts, range(seen[0])), rows_within(counts, range(seen[1] + 1, len(counts.steps)))
    told = q.release(MagnitudeHistogram(node, edges, offsets=True, coarse=coarse), spare)
    rows, offsets = _noisy(told, 0), _noisy(told, 1)
    curves = tuple(clipped_sums(edges, found.unit, rows, offsets))
    ends = occupied(rows) if seen is None else ends_within(edges, rows, rough[seen[0] + 1], rough[seen[1]])
    if ends is None:
        return _nothing(found, curves)
    how = f"the outermost of {len(edges) - 1} rung{'s' if len(edges) > 2 else ''} that stand out of the noise"
    return Bounds(*_ends(edges, ends[0], ends[1] + 1, found), curves, how, _beyond(rows, *ends, outer))


# ---- the textbook: sums clipped at each bound


def _by_sums(q: Queryable, node: Node, found: BoundNumber, cuts: tuple[Fraction, ...]) -> Bounds:
    """Return the first bound after which no clipped sum is higher by more than the noise of both."""
    low, told = _floor(found, cuts), q.release(_sums(node, found, cuts), q.loss)
    values = [float(o.estimate.values()[0] or 0) for o in told.outputs]
    sure = 1 - 0.05 / len(cuts)  # all margins hold together with probability 0.95
    margins = [float(o.estimate.errors(sure)[0] or 0) for o in told.outputs]
    chosen = next(
        i
        for i in range(len(cuts))
        if all(values[j] - values[i] <= margins[i] + margins[j] for j in range(i + 1, len(cuts)))
    )
    spreads = tuple(math.sqrt(o.estimate.law.variance()) * float(o.estimate.unit) for o in told.outputs)  # type: ignore[attr-defined]
    curve = Clipped("upper", tuple(map(float, cuts)), tuple(values), spreads)
    more = max(0.0, values[-1] - values[chosen] + margins[-1] + margins[chosen]) if chosen < len(cuts) - 1 else 0.0
    beyond = f"clipped at {format_number(cuts[-1])}, the sum may be larger by up to about {show_number(_round(more))}"
    how = "the first bound after which the sum is flat within its noise"
    return Bounds(low, cuts[chosen], (curve,), how, beyond)


def _sums(node: Node, found: BoundNumber, cuts: Sequence[Fraction]) -> Aggregation:
    """Return the question for the sums clipped at each bound."""
    low = _floor(found, cuts)
    return Aggregation(None, (), tuple(Sum(Clip(node, low, b), f"sum_{i}") for i, b in enumerate(cuts)))


def _floor(found: BoundNumber, cuts: Sequence[Fraction]) -> Fraction:
    """Return the lower bound of every clip."""
    return min(found.values.lower if found.values.lower is not None else Fraction(0), cuts[0])


# ---- sparse vector, and a private quantile


def _by_edges(q: Queryable, node: Node, found: BoundNumber, method: Method) -> Bounds:
    """Return the outer edges with few rows beyond, each for 9/20 of the loss.

    A tenth counts the rows: neither method can tell an empty table from one of zeros.
    """
    edges = spread(found, _ACROSS if method == "sparse_vector" else _ACROSS // 2)
    ladder = MagnitudeHistogram(node, edges, offsets=False)
    counted = _noisy(
        q.release(MagnitudeHistogram(node, (edges[0], edges[-1]), offsets=False), _part(q.loss, Fraction(1, 10))), 0
    )
    half = _part(q.loss, Fraction(9, 20))
    worth = _epsilon(half)
    top = len(edges) - 1
    if method == "sparse_vector":
        target = math.ceil(_LEFT * math.log(top) / worth) * q.neighbors.contributions
        high = q.above([TailCount(ladder, j, target, "few", below=False) for j in range(top + 1)], 0, half).value
        down = range(top, -1, -1)  # from above, where all rows are below: empty edges come last
        low = q.above([TailCount(ladder, j, target, "few", below=True) for j in down], 0, half).value
        first, last = 0 if low is None else top - low, top if high is None else high
        most = target + 8 * (math.log(top) + math.log(2 / _MISS)) / worth * q.neighbors.contributions
    else:
        target = math.ceil(2 * (math.log(top) + _LEFT) / worth) * q.neighbors.contributions
        step = math.ceil(2 / worth) * q.neighbors.contributions  # each rung away from 0 is e times less likely
        zero = next((j for j, e in enumerate(edges) if e >= 0), top)

        def near(below: bool) -> list[TailCount]:
            return [TailCount(ladder, j, target, "near", below, step * abs(j - zero)) for j in range(top + 1)]

        last, first = q.select(near(False), half).value, q.select(near(True), half).value
        gap = 2 * (math.log(top + 1) + math.log(2 / _MISS)) / worth * q.neighbors.contributions
        spared = max(
            top - zero - abs(last - zero), zero - abs(first - zero), 0
        )  # rungs nearer than the last, empty one
        most = 2 * target + step * spared + gap
    if (
        last <= first or counted.steps[0] - counted.law.error(1 - _MISS) < target
    ):  # few rows lie above the one and below the other: few rows there are
        return _nothing(found)
    how = f"about {target} rows left beyond each end, among {top} rungs"
    beyond = f"up to about {_round(most):,} rows may lie beyond each end{_warning(2 * most, counted.steps[0])}"
    return Bounds(*_ends(edges, first, last, found), (), how, beyond)


def _nothing(found: BoundNumber, curves: tuple[Clipped, ...] = ()) -> Bounds:
    """Return what is known where too few rows are to be seen: the declared bounds where there are two, else nothing."""
    low, high = found.values.lower, found.values.upper
    if low is not None and high is not None:
        how = "nothing stood out of the noise, so these are the declared bounds"
        return Bounds(low, high, curves, how, "no rows lie beyond them, as cells are clipped to what is declared")
    how = "no bounds were found, as too few rows stood out of the noise: ask with more epsilon, or declare bounds you know"
    return Bounds(None, None, curves, how)


def _beyond(rows: Noisy, first: int, last: int, outer: tuple[float, float]) -> str:
    """Return how many rows may lie beyond the rungs kept, at 95%, with a warning where that is much of what was counted.

    The end rungs also count what lies outside the ladder; where they are kept, `outer` bounds those rows from the search
    by magnitude before.
    """
    size = len(rows.steps)
    below = rows_within(rows, range(first)) if first else outer[0]
    above = rows_within(rows, range(last + 1, size)) if last < size - 1 else outer[1]
    warning = _warning(below + above, math.fsum(rows.steps) * float(rows.unit))
    each = f"{_round(below):,} below, {_round(above):,} above"
    return f"up to about {_round(below + above):,} rows may lie beyond these bounds: {each}{warning}"


def _warning(most: float, counted: float) -> str:
    """Return what to do where `most` rows, that may lie beyond, are much of the noisy number of rows."""
    if most <= _MUCH * counted:
        return ""
    share = f"{100 * most / counted:.0f}%" if counted > most else "all"
    return f"; that may be {share} of the rows counted, about {max(0, _round(counted)):,}: ask with more epsilon"


def _round(value: float) -> int:
    """Return a number of rows rounded up to two figures.

    >>> _round(1234.5), _round(7.2), _round(0.0)
    (1300, 8, 0)
    """
    size = int(10 ** max(0, len(str(math.ceil(abs(value)))) - 2))
    return math.ceil(value / size) * size


def _ends(edges: Sequence[int], first: int, last: int, found: BoundNumber) -> tuple[Fraction, Fraction]:
    """Return the values at two edges, within the declared bounds; below the upper one: a step less on whole numbers."""
    unit, low, high = found.unit, found.values.lower, found.values.upper
    lower, upper = edges[first] * unit, (edges[last] - 1) * unit if unit.denominator == 1 else edges[last] * unit
    return (lower if low is None else max(lower, low)), (upper if high is None else min(upper, high))


def _part(loss: Loss, share: Fraction) -> Loss:
    amounts = loss.amounts()
    return ZCDP(amounts["rho"] * share) if "rho" in amounts else PureDP(amounts["epsilon"] * share)


def _epsilon(loss: Loss) -> float:
    amounts = loss.amounts()
    return math.sqrt(2 * amounts["rho"]) if "rho" in amounts else float(amounts["epsilon"])


def _noisy(told: Release, place: int) -> Noisy:
    estimate = told.outputs[place].estimate
    assert isinstance(estimate, Noisy)
    return estimate


def _told(found: Bounds, name: str, neighbors: Neighbors) -> ReleaseContent:
    rows = [(c.side, b) for c in found.curves for b in c.bounds]
    keys = (Key("side", tuple(s for s, _ in rows)), Key("bound", tuple(b for _, b in rows)))
    curve = Curve(tuple(v for c in found.curves for v in c.sums), tuple(d for c in found.curves for d in c.deviations))
    chosen = (("lower", found.lower), ("upper", found.upper))
    notes = (found.how, found.beyond, *neighbors.describe_caps())
    return ReleaseContent(keys, (Output(f"clipped_sum_{name}", curve, found.how),), notes, chosen)
