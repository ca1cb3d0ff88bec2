"""Quantiles from a table: the counts that their selections ask for, in few scans. Only the curator runs it, after the charge."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from sordino.ask.queries.aggregates.quantile import MOST_LEVELS, Quantile, bin_select
from sordino.ask.queries.aggregation import CompiledQuery
from sordino.ask.queries.expressions.bound_number import BoundNumber
from sordino.ask.queries.expressions.keys import Keys
from sordino.ask.queries.expressions.nodes import plain
from sordino.core.accounting.concentration import bounded_range_epsilon_for
from sordino.core.accounting.events import BoundedRangeEvent, Composed
from sordino.core.domain import Domain
from sordino.core.errors import QuestionRefused
from sordino.core.estimates.choices import Ranks
from sordino.core.estimates.estimate import ColumnEstimate
from sordino.core.estimates.time_values import TimeValues
from sordino.core.loss import ZCDP, Event, Loss
from sordino.core.mechanisms.joint_quantiles import JointQuantiles
from sordino.core.mechanisms.partition import Partition
from sordino.core.mechanisms.pivots import with_pivots
from sordino.core.mechanisms.quantile_selection import QuantileSelection, Segment, halving_stages
from sordino.core.neighbors import Neighbors
from sordino.core.noise.rng import Rng
from sordino.core.primitives import Primitives
from sordino.core.release import Output

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp

    from sordino.ask.engines.engine import Statement

_MOST_GROUPS = 10_000
# the groups of private keys, while it is not known how many show: more than one
_SOME_GROUPS = 2
_MOST_BINS = 100_000
# the most groups times bins of one scan
_MOST_CELLS = 4_000_000
_FEWEST_BINS = 256

Array: TypeAlias = "np.ndarray[Any, Any]"


class Texts(Protocol):
    """Writes the scans: primitives for one tree, and its text."""

    def primitives(self) -> Primitives:
        """Return new primitives for one tree."""

    def write(self, select: exp.Select) -> Statement:
        """Return the engine's text of a tree."""


class Scans(Texts, Protocol):
    """Runs the scans: returns the exact answer of a text."""

    def run(self, statement: Statement) -> pa.Table:
        """Return the exact answer of a text."""


@dataclass(frozen=True, slots=True)
class PlannedQuantile:
    """A planned aggregate of quantiles with its selection; nothing is spent, nothing of the data is used.

    `lead` is the aggregate that it is found together with.
    """

    aggregate: Quantile
    selection: QuantileSelection | JointQuantiles
    resolved: CompiledQuery
    measure: BoundNumber
    low: int
    high: int
    row_ceiling: int
    # the groups that one unit's rows fall in, one row each, where that makes rho less
    spread_over: int = 1
    lead: int | None = None
    # the widths of its bins, scan by scan
    widths: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "widths", tuple(bin_widths(self.high - self.low + 1, self.selection.groups)))

    @property
    def event(self) -> Event:
        """What it amounts to: one bounded-range event a stage of the halving, or one for each group of a unit.

        Theorem: where a unit has one row in each of at most m groups, the rows that it adds move each of these groups'
        selections, which are independent, by 1 / C of what C rows in one group could; so m events of epsilon / C follow,
        whose rho is about m / C^2 of one event's of epsilon.
        """
        over = self.spread_over
        each = self.selection.epsilon / (self.selection.neighbors.contributions if over > 1 else 1)
        stages: list[Event] = [BoundedRangeEvent(each)] * (self.selection.stages * over)
        return stages[0] if len(stages) == 1 else Composed(stages)

    def errors(self, confidence: float, *, assume_rows: int | None) -> list[float]:
        """Return, for each column, the rank error not exceeded with probability `confidence`, at most."""
        rows = self.row_ceiling if assume_rows is None else assume_rows
        return [float(e.errors(confidence)[0]) for e in self._ranks([[self.low] * self._count], rows)]

    def describe(self) -> str:
        """Return the selection in words."""
        return self.selection.describe()

    def select(self, on: Primitives) -> exp.Select:
        """Return the SQL tree of the first scan; those that follow differ by their bins alone."""
        return self._select(on, self.widths[0], None, 1)

    def write(self, rows: Texts) -> Statement:
        """Write the first scan's statement, and a finer scan's of one bin: the others differ from it by which bins alone."""
        for parent, width in itertools.pairwise(self.widths[:2]):
            bins = [(self.low, min(self.low + parent - 1, self.high))]
            rows.write(self._select(rows.primitives(), width, bins, parent))
        return rows.write(self.select(rows.primitives()))

    def scan(self, rows: Scans, width: int, segments: Sequence[Segment] | None) -> pa.Table:
        """Return the exact counts in bins of `width` steps, of the segments given or of all."""
        parent = 1 if segments is None else self.widths[self.widths.index(width) - 1]
        within = None if segments is None else _merge(segments)
        return rows.run(rows.write(self._select(rows.primitives(), width, within, parent)))

    def _select(self, on: Primitives, width: int, within: Sequence[Segment] | None, parent: int) -> exp.Select:
        return bin_select(on, self.resolved, self.measure, low=self.low, width=width, within=within, parent=parent)

    def of_keys(self, listed: Keys) -> PlannedQuantile:
        """Return the same selection for the groups that some keys list, which were private until they were selected."""
        resolved = replace(self.resolved, keys=(listed,), listed=True)
        return replace(self, resolved=resolved, selection=replace(self.selection, groups=len(listed.labels)))

    def draw(self, rows: Scans, rng: Rng, *, first: Statement | None = None) -> Sequence[Sequence[int]]:
        """Return the value of each level in each group, in steps; the data is scanned as often as the draws ask for.

        `first` is the statement of the first scan, where it was written before the groups were known.
        """
        # of private keys none may show
        if not self.selection.groups:
            return []
        return self.selection.release(_ExactCounts(self, rows, first), low=self.low, high=self.high, rng=rng)

    def outputs(self, draws: Sequence[Sequence[int]]) -> list[Output]:
        """Return the outputs of what was drawn, one a column, a value a group."""
        names = self.aggregate.columns()
        words = self.selection.describe()
        return [Output(n, e, words) for n, e in zip(names, self._estimates(draws, self.row_ceiling), strict=True)]

    def stated_and_dense(self) -> tuple[float, float]:
        """Return two sums over the levels asked: errors stated at 95%, and deviations of ranks for dense values."""
        dense = self.selection.dense_errors(self.aggregate.levels)
        return math.fsum(self.errors(0.95, assume_rows=None)), math.fsum(dense)

    @property
    def _count(self) -> int:
        return len(self.selection.levels)

    def _estimates(self, draws: Sequence[Sequence[int]], rows: int) -> Sequence[ColumnEstimate]:
        """Return one estimate a column; those of dates and moments are such."""
        ranks = self._ranks(draws, rows)
        of = self.measure
        if of.kind == "number" or self.aggregate.spread:
            return ranks
        return [TimeValues(one, of.kind, of.zone, of.unit) for one in ranks]

    def _ranks(self, draws: Sequence[Sequence[int]], rows: int) -> list[Ranks]:
        """Return one estimate a column; the error of a difference is the sum of its ends' errors."""
        values = self.high - self.low + 1
        places = [self.selection.levels.index(level) for level in self.aggregate.levels]
        columns = [tuple(group[p] for group in draws) for p in places]
        if not self.aggregate.spread:
            stages = self.selection.error_stages([[p] for p in places], values=values, rows=rows)
            return [Ranks(c, self.measure.unit, s, chained=True) for c, s in zip(columns, stages, strict=True)]
        ranges = tuple(b - a for a, b in zip(columns[0], columns[-1], strict=True))
        (both,) = self.selection.error_stages([[places[0], places[-1]]], values=values, rows=rows)
        return [Ranks(ranges, self.measure.unit, both, chained=True)]


def plan_quantile(
    aggregate: Quantile, resolved: CompiledQuery, *, domain: Domain, neighbors: Neighbors, loss: Loss
) -> PlannedQuantile:
    """Return the plan of one aggregate of quantiles for the whole of `loss`; `resolved` gives its keys and condition.

    Raises QuestionRefused where the number has no bounds, or where there are too many groups.
    """
    number, low, high = aggregate.measure(domain)
    groups = _SOME_GROUPS if resolved.private_keys else resolved.cells
    if groups > _MOST_GROUPS:
        raise QuestionRefused(
            f"quantiles of {resolved.cells} groups: above {_MOST_GROUPS} their draws take too long; group by fewer keys"
        )
    over = 1
    if isinstance(loss, ZCDP) and groups > 1 and neighbors.relation == "add_remove" and neighbors.rows_per_group == 1:
        over = neighbors.contributions if resolved.private_keys else min(neighbors.contributions, groups)

    def select(selection: QuantileSelection | JointQuantiles) -> PlannedQuantile:
        return PlannedQuantile(aggregate, selection, resolved, number, low, high, domain.row_ceiling, over)

    levels = with_pivots(tuple(sorted(aggregate.levels)))
    epsilon = _stage_epsilon(loss, len(halving_stages(len(levels))), neighbors, over)
    halving = select(QuantileSelection(levels, epsilon, neighbors, groups))
    levels = tuple(sorted(set(aggregate.levels)))
    if resolved.private_keys or not JointQuantiles.suits(levels, values=high - low + 1, groups=groups):
        return halving
    joint = select(JointQuantiles(levels, _stage_epsilon(loss, 1, neighbors, over), neighbors, groups))
    return min(halving, joint, key=lambda one: _joint_error([one]))


def _stage_epsilon(loss: Loss, stages: int, neighbors: Neighbors, over: int) -> Fraction:
    """Return the epsilon of each of so many selections, `over` groups of a unit in each, that amount to `loss`."""
    if not isinstance(loss, ZCDP):
        return loss.epsilon / stages
    wide = neighbors.contributions if over > 1 else 1
    return wide * bounded_range_epsilon_for(loss.rho / (stages * over))


def share_draws(
    planned: dict[int, PlannedQuantile], joint: Callable[[Quantile, Sequence[int]], PlannedQuantile]
) -> dict[int, PlannedQuantile]:
    """Return the plans of several aggregates, those of one number found together where they err less.

    `joint` plans levels together for the loss of the aggregates at these places. Compared is the product of the errors that
    are stated and of those for dense values: by what is stated alone, levels of narrow columns would be found one by one,
    and err up to four times as much.
    """
    by_number: dict[str, list[int]] = {}
    for place, one in planned.items():
        by_number.setdefault(json.dumps(plain(one.aggregate.of)), []).append(place)
    plans = dict(planned)
    for places in by_number.values():
        levels = tuple(sorted({q for p in places for q in planned[p].aggregate.levels}))
        if not 2 <= len(levels) <= MOST_LEVELS or len(places) == 1:
            continue
        whole = joint(Quantile(planned[places[0]].aggregate.of, levels, ""), places)
        together = {p: replace(whole, aggregate=planned[p].aggregate, lead=places[0]) for p in places}
        if _joint_error(together.values()) < _joint_error(planned[p] for p in places):
            plans |= together
    return plans


def _joint_error(plans: Iterable[PlannedQuantile]) -> float:
    stated, dense = zip(*(p.stated_and_dense() for p in plans), strict=True)
    return math.fsum(stated) * math.fsum(dense)


def bin_widths(values: int, groups: int) -> list[int]:
    """Return the widths of bins, in steps, from the first scan's to 1: each a whole multiple of the next.

    Public: a function of the bounds and the number of declared groups.

    >>> bin_widths(100, 1), bin_widths(10**9, 1), bin_widths(10**9, 1000), bin_widths(10**9, 0)
    ([1], [31623, 1], [1000000, 1000, 1], [31623, 1])
    """
    # a question whose conditions exclude every key has no group
    most = min(_MOST_BINS, max(_FEWEST_BINS, _MOST_CELLS // max(groups, 1)))
    scans = 1
    while most**scans < values:
        scans += 1
    ratio = most
    # the least ratio that does with as many scans
    if scans > 1:
        low = 1
        high = most
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if middle**scans >= values else (middle + 1, high)
        ratio = low
    return [ratio**i for i in range(scans - 1, -1, -1)]


class _ExactCounts:
    """The exact counts of each group's values so far; an instance lives for one release."""

    def __init__(self, plan: PlannedQuantile, rows: Scans, first: Statement | None = None) -> None:
        self._plan = plan
        self._rows = rows
        self._widths = plan.widths
        whole = plan.scan(rows, self._widths[0], None) if first is None else rows.run(first)
        self._exact: list[Partition] = self._count(whole, self._widths[0])

    def known(self, group: int) -> Partition:
        """Return the current partition of a group."""
        return self._exact[group]

    def refine(self, wanted: Sequence[tuple[int, Segment]]) -> None:
        """Count the wanted segments by finer bins: one scan for all that get the same width."""
        by_width: dict[int, list[tuple[int, Segment]]] = {}
        for group, segment in wanted:
            width = next(w for w in self._widths if w < segment[1] - segment[0] + 1)
            by_width.setdefault(width, []).append((group, segment))
        for width, segments in by_width.items():
            finer = self._count(self._plan.scan(self._rows, width, sorted({s for _, s in segments})), width)
            for group, segment in segments:
                exact_part = _part(finer[group], segment)
                self._exact[group] = self._exact[group].refine(segment, exact_part)

    def _count(self, table: pa.Table, width: int) -> list[Partition]:
        """Return each group's partition in bins of `width` steps."""
        plan = self._plan
        last = len(plan.resolved.keys)
        bins = table.column(f"k{last}")
        counts = table.column("t0")
        places, counted = _places([table.column(f"k{i}") for i in range(last)], plan.resolved, bins)
        first = _numbers(bins, counted)
        first = first * width + plan.low if _fits(plan.low, plan.high) else first.astype(object) * width + plan.low
        exact_rows = _numbers(counts, counted).astype(np.int64)
        order = np.lexsort((first, places)) if first.dtype != object else _sort_wide(places, first)
        places = places[order]
        first = first[order]
        exact_rows = exact_rows[order]
        edges = np.searchsorted(places, np.arange(plan.selection.groups + 1))
        ends = np.minimum(first + (width - 1), plan.high)
        return [Partition.of(first[a:b], ends[a:b], exact_rows[a:b]) for a, b in itertools.pairwise(edges.tolist())]


def _part(finer: Partition, segment: Segment) -> Partition:
    """Return the part of a partition that lies in a segment."""
    a = int(np.searchsorted(finer.first, segment[0], "left"))
    b = int(np.searchsorted(finer.first, segment[1], "right"))
    return Partition.of(finer.first[a:b], finer.last[a:b], np.diff(finer.below)[a:b])


def _merge(segments: Sequence[Segment]) -> list[Segment]:
    """Return sorted segments with neighbors made one."""
    merged: list[Segment] = []
    for first, last in segments:
        if merged and merged[-1][1] + 1 == first:
            merged[-1] = (merged[-1][0], last)
        else:
            merged.append((first, last))
    return merged


def _places(codes: list[Any], resolved: CompiledQuery, bins: Any) -> tuple[Array, Array]:
    """Return the group's place of each kept line, and which lines are kept: those with a declared key and a value."""
    counted = np.asarray(bins.is_valid().to_numpy(zero_copy_only=False), dtype=bool)
    for code in codes:
        counted = counted & np.asarray(code.is_valid().to_numpy(zero_copy_only=False), dtype=bool)
    place = np.zeros(int(counted.sum()), dtype=np.int64)
    for code, key in zip(codes, resolved.keys, strict=True):
        place = place * len(key.labels) + _numbers(code, counted).astype(np.int64)
    return place, counted


def _numbers(column: Any, mask: Array) -> Array:
    """Return the kept cells of a column of whole numbers, as 64-bit ones or, where they do not fit, as Python's."""
    import pyarrow as pa

    cells = column.filter(pa.array(mask))
    try:
        return np.asarray(cells.cast(pa.int64()).to_numpy(), dtype=np.int64)
    except pa.ArrowInvalid:
        return np.array([None, *(int(v) for v in cells.to_pylist())], dtype=object)[1:]


def _fits(low: int, high: int) -> bool:
    return max(abs(low), abs(high)) < 2**61


def _sort_wide(places: Array, first: Array) -> Array:
    return np.array(sorted(range(len(places)), key=lambda i: (places[i], first[i])), dtype=np.int64)
