"""Search: clipping bounds for a number, found privately by a histogram, a list of clipped sums, sparse vector or a quantile.

The bounds of one mean are found by a selection at each end that is not declared. Every method is an algorithm over a
Queryable: what it returns is post-processing of noisy answers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Unpack

from sordino.ask.clipping import METHODS, Method
from sordino.ask.clipping.bins import (
    ClippedSums,
    bounds_in_steps,
    check_reach,
    clip_edges,
    equal_bins,
    find_occupied,
    is_narrow,
    refine_ends,
    rows_at_most,
    search_edges,
    sums_by_bound,
    trim_ends,
)
from sordino.ask.clipping.contribution_bounds import losses_by_bound
from sordino.ask.queries.adaptive.magnitudes import (
    MagnitudeHistogram,
    OutsideCount,
    TailCount,
    powers_of_two,
    search_number,
)
from sordino.ask.queries.aggregates.sums import Sum
from sordino.ask.queries.aggregation import Aggregation, compile_query
from sordino.ask.queries.build import Column, label
from sordino.ask.queries.expressions.bound_number import BoundNumber
from sordino.ask.queries.expressions.expr import Expr, col
from sordino.ask.queries.expressions.nodes import Clip, Node, describe
from sordino.ask.queries.queryable import Adaptive, Queryable, ReleaseContent, is_monotone
from sordino.core.accounting.concentration import bounded_range_epsilon_for, pure_epsilon_for
from sordino.core.errors import QuestionRefused, arg
from sordino.core.estimates.noisy import Noisy
from sordino.core.estimates.weighted_sum import NoisyCurve
from sordino.core.loss import (
    ZCDP,
    Loss,
    LossArguments,
    Number,
    format_number,
    loss_from,
    share_loss,
    show_arguments,
    to_fraction,
)
from sordino.core.neighbors import Neighbors
from sordino.core.release import Key, Output, Release, show_number

_TEACHING = {
    "ladder": 'a teaching tool: a mean within its bounds erred up to 8 times more than by method="histogram"',
    "sparse_vector": 'a teaching tool: a mean within its bounds erred up to 2.1 times more than by method="quantile"',
}
_MOST_BOUNDS = 256
# Sparse vector leaves about this many rows times ln(bins) / epsilon; the quantile 2 (ln(bins) + this) / epsilon.
_LEFT = 4
# The chance that noise leads the search to a power of two that holds nothing, which could be any.
_ASTRAY = 1e-6
# The chance that more rows than the notes say lie beyond.
_MISS = 0.05
# The share of the rows counted beyond which the notes warn.
_MUCH = 0.05
# Bins in each power of two for sparse vector; half for the quantile.
_BINS_EACH = 8


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds found, None where there are none, the clipped sums they were chosen from, and how, in words.

    `beyond` says in words what may lie beyond them, from noisy numbers and public parameters alone.
    """

    lower: Fraction | None
    upper: Fraction | None
    curves: tuple[ClippedSums, ...]
    how: str
    beyond: str = "how many rows lie beyond is not known"


@show_arguments(LossArguments)
def find_bounds(
    source: Adaptive,
    of: Column,
    *,
    method: Method = "histogram",
    ladder: Sequence[Number] | None = None,
    **loss: Unpack[LossArguments],
) -> Release:
    """Return a release with `.lower` and `.upper`: bounds beyond which so few rows lie that noise hides them.

    Where no row stands out of the noise and no bounds are declared, nothing is found: `.found` is False, `.value` None, and
    asking for `.lower` or `.upper` is refused. The notes say how many rows may lie beyond the bounds.

    Needs no declared bounds, and respects those that are declared. `method`:

    - "histogram" (one scan or two): a noisy histogram, with bins of equal width where the declared bounds are near, else
      by powers of two and then finely within the ends found; all clipped sums follow from it.
    - "quantile": the bound with about as many rows beyond as the exponential mechanism needs to prefer it to empty ones.
    - "ladder", for teaching: sums clipped at each bound of `ladder` (ascending upper bounds), an equal share of the loss
      each, smoothed to the nearest rising concave curve; the bound with the least expected squared error: what
      is lost there, squared, and the variance of the noise.
    - "sparse_vector", for teaching: the first bound with few rows beyond, by AboveThreshold (Lyu, Su, Li 2017).

    Methods for teaching are much worse for some columns (`bench/bounds.py`), and the release says so.

    Raises QuestionRefused for a column without numbers or a ladder that does not ascend, before anything is spent.
    """
    node = (col(of) if isinstance(of, str) else of).node if isinstance(of, (str, Expr)) else None
    if node is None:
        raise QuestionRefused("a column is named by text or by col(...)")
    if method not in METHODS:
        raise QuestionRefused(f"method is one of {', '.join(METHODS)}, not {str(method)[:40]!r}")
    number = search_number(node, source.domain, coarse=False)
    cuts = _cuts(ladder, method, number)
    if method == "ladder":
        # A sum that cannot be asked is refused before the charge.
        compile_query(_sums(node, number, cuts), source.domain)
    else:
        check_reach(number)
    words = f"bounds of {describe(node)}, by {method.replace('_', ' ')}"
    if method == "ladder":
        words += f" of {len(cuts)} clipped sums up to {format_number(cuts[-1])}"

    def content(bounds: Bounds) -> ReleaseContent:
        return _release_content(bounds, label(node), source.neighbors, _TEACHING.get(method))

    search = search_by(method, node, number, cuts)
    _, release = source.adapt(search, describe=words, record=content, **loss)
    return release


def search_by(
    method: Method, node: Node, number: BoundNumber, cuts: tuple[Fraction, ...] = ()
) -> Callable[[Queryable], Bounds]:
    """Return the algorithm of a method; `cuts` are the bounds that "ladder" tries."""
    if method == "ladder":
        return lambda q: _by_sums(q, node, number, cuts)
    if method == "histogram":
        return lambda q: _by_histogram(q, node, number)
    return lambda q: _by_edges(q, node, number, method)


def _cuts(ladder: Sequence[Number] | None, method: Method, number: BoundNumber) -> tuple[Fraction, ...]:
    """Return the bounds that the textbook search tries; raises QuestionRefused unless they ascend and end."""
    if method != "ladder":
        if ladder is not None:
            raise QuestionRefused(
                f'a ladder of bounds goes with {arg("method=")}"ladder"; the other methods make their own'
            )
        return ()
    if ladder is None:
        if number.interval.upper is None:
            raise QuestionRefused(
                f'{arg("method=")}"ladder" needs {arg("ladder=")}[...], ascending bounds, as the column declares none'
            )
        top = max(number.values.upper or Fraction(1), number.unit)
        return tuple(top * i / 100 for i in range(1, 101))
    if not isinstance(ladder, (list, tuple, range)) or not 2 <= len(ladder) <= _MOST_BOUNDS:
        raise QuestionRefused(
            f"a ladder has 2 to {_MOST_BOUNDS} bounds, such as list(range(5, 101, 5)) or powers of two"
        )
    cuts = tuple(to_fraction(b, name="a bound of the ladder") for b in ladder)
    if any(a >= b for a, b in itertools.pairwise(cuts)):
        raise QuestionRefused("a ladder's bounds must ascend")
    declared = number.values.upper
    # Sums clipped past the declared bound are all the same one.
    different = len(cuts) if declared is None else sum(b < declared for b in cuts) + 1
    return cuts[: max(2, different)]


# ---- a histogram


def _by_histogram(q: Queryable, node: Node, number: BoundNumber) -> Bounds:
    """Search by powers of two first, unless the declared bounds are near, then count finely within the ends found."""
    if is_narrow(number):
        edges = equal_bins(*bounds_in_steps(number))
        rows, curves = _count_bins(q, MagnitudeHistogram(node, edges, offsets=True), number, q.loss)
        return _histogram_bounds(edges, rows, find_occupied(rows), curves, number, (0.0, 0.0))
    third = _share(q.loss, 1, 3)
    coarse = False
    powers, counts, occupied = _search_powers(q, node, number, third, coarse=coarse)
    rest = _share(q.loss, 2, 3)
    wide = search_number(node, q.domain, coarse=True)
    if (
        occupied is not None
        and wide.unit != number.unit
        and max(-powers[occupied[0]], powers[occupied[1] + 1]) >= 2**61
    ):
        # The rows lie beyond the fine grid: another third looks on the coarse one, and the last is left to count finely.
        number = wide
        coarse = True
        rest = third
        powers, counts, occupied = _search_powers(q, node, number, third, coarse=coarse)
    if occupied is None:
        return _nothing(number)
    edges = refine_ends(powers, *occupied)
    rows, curves = _count_bins(q, MagnitudeHistogram(node, edges, offsets=True, coarse=coarse), number, rest)
    ends = trim_ends(edges, rows, powers[occupied[0] + 1], powers[occupied[1]])
    below = rows_at_most(counts, range(occupied[0]))
    above = rows_at_most(counts, range(occupied[1] + 1, len(counts.steps)))
    return _histogram_bounds(edges, rows, ends, curves, number, (below, above))


def _search_powers(
    q: Queryable, node: Node, number: BoundNumber, loss: Loss, *, coarse: bool
) -> tuple[tuple[int, ...], Noisy, tuple[int, int] | None]:
    """Return the powers of two within the declared bounds, the noisy rows between them, and which of these hold rows."""
    powers = clip_edges(powers_of_two(), number)
    counts = _noisy(q.release(MagnitudeHistogram(node, powers, offsets=False, coarse=coarse), loss), 0)
    return powers, counts, find_occupied(counts, _ASTRAY)


def _count_bins(
    q: Queryable, histogram: MagnitudeHistogram, number: BoundNumber, loss: Loss
) -> tuple[Noisy, tuple[ClippedSums, ...]]:
    answer = q.release(histogram, loss)
    rows = _noisy(answer, 0)
    offsets = _noisy(answer, 1)
    return rows, tuple(sums_by_bound(histogram.edges, number.unit, rows, offsets))


def _histogram_bounds(
    edges: tuple[int, ...],
    rows: Noisy,
    ends: tuple[int, int] | None,
    curves: tuple[ClippedSums, ...],
    number: BoundNumber,
    outer: tuple[float, float],
) -> Bounds:
    """Return the bounds at these end bins. The end bins also count what lies outside; where kept, `outer` bounds that."""
    if ends is None:
        return _nothing(number, curves)
    first, last = ends
    size = len(rows.steps)
    below = rows_at_most(rows, range(first)) if first else outer[0]
    above = rows_at_most(rows, range(last + 1, size)) if last < size - 1 else outer[1]
    warning = _warning(below + above, math.fsum(rows.steps) * float(rows.unit))
    each = f"{_round(below):,} below, {_round(above):,} above"
    beyond = f"up to about {_round(below + above):,} rows may lie beyond these bounds: {each}{warning}"
    how = f"the outermost of {size} bin{'s' if size > 1 else ''} that stand out of the noise"
    return Bounds(*_values(edges, first, last + 1, number), curves, how, beyond)


# ---- the textbook: sums clipped at each bound


def _by_sums(q: Queryable, node: Node, number: BoundNumber, cuts: tuple[Fraction, ...]) -> Bounds:
    """Return the bound with the least expected squared error: what clipping loses of the fitted sums, and the noise."""
    outputs = q.release(_sums(node, number, cuts), q.loss).outputs
    values = [float(o.estimate.values()[0] or 0) for o in outputs]
    # All margins hold together with probability 0.95.
    confidence = 1 - 0.05 / len(cuts)
    margins = [float(o.estimate.errors(confidence)[0] or 0) for o in outputs]
    deviations = tuple(math.sqrt(o.estimate.law.variance()) * float(o.estimate.unit) for o in outputs)  # type: ignore[attr-defined]
    curve = ClippedSums("upper", tuple(map(float, cuts)), tuple(values), deviations)
    errors = [math.hypot(*pair) for pair in losses_by_bound(curve.bounds, values, deviations)]
    best = errors.index(min(errors))
    more = max(0.0, values[-1] - values[best] + margins[-1] + margins[best]) if best < len(cuts) - 1 else 0.0
    beyond = f"clipped at {format_number(cuts[-1])}, the sum may be larger by up to about {show_number(_round(more))}"
    how = "the bound with the least squared error: what clipping loses of the smoothed sums, and the noise"
    return Bounds(_lower_clip(number, cuts), cuts[best], (curve,), how, beyond)


def _sums(node: Node, number: BoundNumber, cuts: Sequence[Fraction]) -> Aggregation:
    """Return the question for the sums clipped at each bound."""
    low = _lower_clip(number, cuts)
    return Aggregation(None, (), tuple(Sum(Clip(node, low, b), f"sum_{i}") for i, b in enumerate(cuts)))


def _lower_clip(number: BoundNumber, cuts: Sequence[Fraction]) -> Fraction:
    return min(number.values.lower if number.values.lower is not None else Fraction(0), cuts[0])


# ---- sparse vector, and a private quantile


def _by_edges(q: Queryable, node: Node, number: BoundNumber, method: Method) -> Bounds:
    """Return the outer edges with few rows beyond, each for 9/20 of the loss.

    A tenth counts the rows: neither method can distinguish an empty table from one of zeros.
    """
    sparse = method == "sparse_vector"
    edges = search_edges(number, _BINS_EACH if sparse else _BINS_EACH // 2)
    all_rows = MagnitudeHistogram(node, (edges[0], edges[-1]), offsets=False)
    total = _noisy(q.release(all_rows, _share(q.loss, 1, 10)), 0)
    histogram = MagnitudeHistogram(node, edges, offsets=False)
    find = _first_crossings if sparse else _quantile_edges
    first, last, target, most = find(q, histogram, _share(q.loss, 9, 20))
    # Where few rows lie above the one edge and below the other, there are few rows.
    if last <= first or total.steps[0] - total.law.error(1 - _MISS) < target:
        return _nothing(number)
    how = f"about {target} rows left beyond each end, among {len(edges) - 1} bins"
    beyond = f"up to about {_round(most):,} rows may lie beyond each end{_warning(2 * most, total.steps[0])}"
    return Bounds(*_values(edges, first, last, number), (), how, beyond)


def _first_crossings(q: Queryable, histogram: MagnitudeHistogram, loss: Loss) -> tuple[int, int, int, float]:
    """Return the outer edges by sparse vector, the rows aimed at beyond each, and at most how many there may be."""
    top = len(histogram.edges) - 1
    moved = q.neighbors.contributions
    epsilon = _epsilon(loss, pure_epsilon_for)
    # The scales of the noise, times epsilon / moved.
    at_threshold, at_edge = (2.0, 2.0) if q.neighbors.relation == "add_remove" else (2.6, 3.27)
    target = math.ceil(_LEFT / 4 * at_edge * math.log(top) / epsilon) * moved
    high = q.above([TailCount(histogram, j, target, "few", below=False) for j in range(top + 1)], 0, loss).value
    # From above, where all rows are below: empty edges come last.
    down = range(top, -1, -1)
    low = q.above([TailCount(histogram, j, target, "few", below=True) for j in down], 0, loss).value
    fails = math.log(2 / _MISS)
    most = target + (at_threshold * fails + at_edge * (math.log(top) + fails)) / epsilon * moved
    return 0 if low is None else top - low, top if high is None else high, target, most


def _quantile_edges(q: Queryable, histogram: MagnitudeHistogram, loss: Loss) -> tuple[int, int, int, float]:
    """Return the outer edges by the exponential mechanism, the rows aimed at beyond each, and at most how many."""
    edges = histogram.edges
    moved = q.neighbors.contributions
    epsilon = _epsilon(loss, bounded_range_epsilon_for)
    top = len(edges) - 1
    target = math.ceil(2 * (math.log(top) + _LEFT) / epsilon) * moved
    # Each bin away from 0 is e times less likely.
    step = math.ceil(2 / epsilon) * moved
    zero = next((j for j, e in enumerate(edges) if e >= 0), top)

    def select(*, below: bool) -> int:
        candidates = [TailCount(histogram, j, target, "near", below, step * abs(j - zero)) for j in range(top + 1)]
        return int(q.select(candidates, loss).value)

    last = select(below=False)
    first = select(below=True)
    gap = 2 * (math.log(top + 1) + math.log(2 / _MISS)) / epsilon * moved
    # How many bins nearer to 0 than the last, empty one the ends are.
    nearer = max(top - zero - abs(last - zero), zero - abs(first - zero), 0)
    return first, last, target, 2 * target + step * nearer + gap


# ---- what all methods return


def _nothing(number: BoundNumber, curves: tuple[ClippedSums, ...] = ()) -> Bounds:
    """Return what is known where too few rows are visible: the declared bounds where there are two, else nothing."""
    low = number.values.lower
    high = number.values.upper
    if low is not None and high is not None:
        how = "nothing stood out of the noise, so these are the declared bounds"
        return Bounds(low, high, curves, how, "no rows lie beyond them, as cells are clipped to what is declared")
    how = "no bounds were found, as too few rows stood out of the noise: ask with more epsilon, or declare bounds you know"
    return Bounds(None, None, curves, how)


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


def _values(edges: Sequence[int], first: int, last: int, number: BoundNumber) -> tuple[Fraction, Fraction]:
    """Return the values at two edges, within the declared bounds; below the upper one: a step less on whole numbers."""
    unit = number.unit
    low = number.values.lower
    high = number.values.upper
    lower = edges[first] * unit
    upper = (edges[last] - 1) * unit if unit.denominator == 1 else edges[last] * unit
    return (lower if low is None else max(lower, low)), (upper if high is None else min(upper, high))


def _share(loss: Loss, parts: int, of: int) -> Loss:
    return loss_from({name: amount * parts / of for name, amount in loss.amounts().items()})


def _epsilon(loss: Loss, of_rho: Callable[[Fraction], Fraction]) -> float:
    """Return the epsilon of the mechanism that a loss buys; `of_rho` is its own conversion."""
    return float(of_rho(loss.rho) if isinstance(loss, ZCDP) else loss.epsilon)


def _noisy(answer: Release, place: int) -> Noisy:
    estimate = answer.outputs[place].estimate
    assert isinstance(estimate, Noisy)
    return estimate


def _release_content(bounds: Bounds, name: str, neighbors: Neighbors, teaching: str | None) -> ReleaseContent:
    rows = [(c.side, b) for c in bounds.curves for b in c.bounds]
    keys = (Key("side", tuple(s for s, _ in rows)), Key("bound", tuple(b for _, b in rows)))
    curve = NoisyCurve(
        tuple(v for c in bounds.curves for v in c.sums), tuple(d for c in bounds.curves for d in c.deviations)
    )
    values = (("lower", bounds.lower), ("upper", bounds.upper))
    notes = (bounds.how, bounds.beyond, *neighbors.describe_caps(), *([teaching] if teaching else []))
    return ReleaseContent(keys, (Output(f"clipped_sum_{name}", curve, bounds.how),), notes, values)


# The shares of a question's loss.
SHARES = {"upper": Fraction(1, 4), "lower": Fraction(3, 20), "beyond": Fraction(1, 20)}
# Candidates in each power of two.
EACH = 4
# The handicap of a lower end, for each doubling of the width.
_DOUBLING = 12


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
