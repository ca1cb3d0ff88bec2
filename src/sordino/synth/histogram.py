"""Histogram: a synthetic representation of one column - one release, then any number of range queries and rows.

Everything after the release is post-processing of its noisy counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sordino.domain import Date, DateTime
from sordino.errors import DeclarationError, QuestionRefused
from sordino.estimates.noisy import Law
from sordino.loss import Number, PureDP, format_number, to_fraction
from sordino.noise.rng import Rng
from sordino.queries.adaptive.marginal import ContingencyTable
from sordino.queries.expressions.bound_number import number_cell
from sordino.queries.expressions.times import moment_constant
from sordino.queries.queryable import Adaptive, Queryable, ReleaseContent
from sordino.synth.arrays import Codes, Floats
from sordino.synth.encoded_column import EncodedColumn, histogram_column, steps_of, values_of
from sordino.synth.hierarchy import (
    Layout,
    best_layout,
    combine_levels,
    layout_of,
    quantile,
    range_variances,
    sum_quantile,
    weights_of,
)
from sordino.synth.measurement import NoisyTable, release_counts, share_of, split_loss
from sordino.synth.one_way_marginals import project
from sordino.synth.sampler import draw_within

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Histogram", "Range", "RangePlan", "Representation", "plan_ranges"]

_MOST_BINS = 4096  # of a hierarchy
_FEW = 60.0  # deviations up to which whole steps matter, and the exact law is computed
_COUNTED = 0.1  # of the loss, for the number of rows where it is asked for


@dataclass(frozen=True, slots=True)
class Range:
    """An estimated number of rows in a range, with its error: `.value`, `.interval(0.95)`, `.error(0.95)`.

    In a flat histogram the error is a sum of `bins` draws of one `law`, in whole rows; in a hierarchy the law is None.
    """

    value: float
    deviation: float
    excess: float
    law: Law | None = None
    bins: int = 0

    def error(self, confidence: float) -> float:
        """Return the error not exceeded with this probability."""
        if isinstance(confidence, bool) or not 0 < confidence < 1:
            raise DeclarationError("confidence must lie between 0 and 1, such as 0.95")
        if self.law is not None and 0 < self.deviation <= _FEW:
            return float(sum_quantile(self.law, self.bins, confidence))
        reach = self.deviation * quantile(confidence, self.excess)
        return reach if self.law is None else float(math.ceil(reach))

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return (lower, upper); a count is at least 0."""
        reach = self.error(confidence)
        return max(self.value - reach, 0.0), max(self.value + reach, 0.0)

    def __float__(self) -> float:
        return self.value


@dataclass(frozen=True, slots=True)
class Histogram:
    """Ask for a noisy histogram of one column: a bin a declared value, or of `width`; `ranges` chooses the cheaper kind.

    `ranges`, pairs (a, b) for a <= x < b, are what it will be asked: where many are long, runs of bins are counted as well
    and the answers combined, if that makes the expected squared error less. `rows` asks for the number of rows too, with a
    tenth of the loss.

    >>> Histogram("age").ranges is None
    True
    """

    column: str
    width: Number | None = None
    ranges: Sequence[tuple[Any, Any]] | None = None
    rows: bool = False

    def fit(
        self,
        source: Adaptive,
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        rho: Number | None = None,
    ) -> Representation:
        """Return the representation, charged once; everything asked of it later is free.

        Theorem: a row is in one bin of a level, so a level is one release by parallel composition, and k levels cost k of
        them. Raises UnknownName, QuestionRefused or DeclarationError before anything is spent.
        """
        column = _bins(self.column, source, self.width)
        pure = rho is None and (delta is None or to_fraction(delta, name="delta") == 0)
        size = column.value_count
        if self.ranges is not None and size > _MOST_BINS:
            raise QuestionRefused(f"a hierarchy of {size} bins is too large: give a larger width")
        wanted = None if self.ranges is None else [_bins_between(column, a, b) for a, b in self.ranges]
        layout = layout_of(size, None) if not wanted else best_layout(size, wanted, pure=pure)
        words = f"a histogram of {self.column}" + ("" if layout.flat else f" in {len(layout.widths)} levels")
        (levels, total), release = source.adapt(
            lambda data: _release_levels(data, column, layout, self.rows),
            describe=words,
            record=lambda _: ReleaseContent(notes=(f"{words}: {size} bins",)),
            epsilon=epsilon,
            delta=delta,
            rho=rho,
            draws="vectors",
        )
        seal = "" if release.private else "NOT PRIVATE (seeded noise). "
        facts = f"{seal}{words}; cost: {release.cost.describe()}; charge {release.charge}"
        return Representation(column, layout, tuple(levels), total, column.unit, facts)


@dataclass(frozen=True, slots=True, repr=False)
class Representation:
    """A released histogram: `.range(a, b)`, `.counts()`, `.sample(rows)`; all free."""

    column: EncodedColumn
    layout: Layout
    levels: tuple[NoisyTable, ...]
    total: NoisyTable | None
    unit: Fraction
    facts: str

    def range(self, lower: Any, upper: Any) -> Range:
        """Return the estimated number of rows with lower <= x < upper, in whole bins; unlimited, free.

        A sum of r bins of a flat histogram has r times the variance of one, so its error grows like sqrt(r).
        """
        low, high = _bins_between(self.column, lower, upper)
        weights = weights_of(self.layout, low, high)
        value = float(sum(w @ level.cells[: len(w)] for w, level in zip(weights, self.levels, strict=True)))
        variance = self.levels[0].variance
        squares = float(sum(np.square(w).sum() for w in weights))
        fourths = float(sum((w**4).sum() for w in weights))
        excess = 3.0 * fourths / squares**2 if squares > 0 else 0.0
        law = self.levels[0].law if self.layout.flat else None
        return Range(value, math.sqrt(variance * squares), excess, law, high - low)

    def counts(self) -> Floats:
        """Return the unbiased noisy count of each bin, missing last where the column keeps it; some may be negative."""
        size = self.layout.size
        runs = [-(-size // w) for w in self.layout.widths]
        inner = combine_levels(self.layout, [level.cells[:n] for n, level in zip(runs, self.levels, strict=True)])
        return np.append(inner, self.levels[0].cells[-1]) if self.column.missing else inner

    def sample(self, rows: int | None = None, *, rng: Rng | None = None) -> pa.Table:
        """Return rows drawn from the projected counts, each value drawn evenly from its bin.

        Without `rows`, as many as were asked for privately; refused where the fit did not ask (`rows=True`).
        """
        import pyarrow as pa

        source = Rng.secure() if rng is None else rng
        if rows is None:
            if self.total is None:
                raise QuestionRefused(
                    "the number of rows was not asked for: give rows, or fit Histogram(..., rows=True), which pays for it"
                )
            rows = max(round(float(self.total.cells.sum())), 0)
        weights = project(self.counts(), max(float(self.counts().sum()), 1.0))
        group = np.zeros(rows, dtype=np.int64)
        keys = draw_within(weights[None, :], group, [], alpha=math.sqrt(2.0) % 1.0, rng=source)
        return pa.table({self.column.name: values_of(self.column, keys, steps_of(self.column, keys, source))})

    def __repr__(self) -> str:
        return f"<Representation: {self.facts}>"


@dataclass(frozen=True, slots=True)
class RangePlan:
    """The root mean squared error, in rows, of each way to count the ranges at the same loss; hierarchy None: not feasible.

    `cheapest` names the least. Asking directly answers these ranges only; the other two any range, unlimited.
    """

    direct: float
    flat: float
    hierarchy: float | None

    @property
    def cheapest(self) -> Literal["direct", "flat", "hierarchy"]:
        """The way that errs least."""
        found: dict[Literal["direct", "flat", "hierarchy"], float] = {"direct": self.direct, "flat": self.flat}
        if self.hierarchy is not None:
            found["hierarchy"] = self.hierarchy
        return min(found, key=lambda n: found[n])

    def describe(self) -> str:
        """Return the comparison as a sentence."""
        tree = "too many bins" if self.hierarchy is None else f"{self.hierarchy:,.1f}"
        words = f"asked one by one {self.direct:,.1f}, as a histogram {self.flat:,.1f}, as a hierarchy {tree}"
        return f"expected error of a range, in rows: {words}; cheapest: {self.cheapest}"


def plan_ranges(
    source: Adaptive, column: str, ranges: Sequence[tuple[Any, Any]], *, epsilon: Number, width: Number | None = None
) -> RangePlan:
    """Return what each way of counting ranges [a, b) of a column costs in error at a pure loss, before anything is spent.

    Theorem: with m ranges over one value at most, a row is in m of them, so asking all at once errs by sqrt(2) m / epsilon
    each (add_remove; rows of a unit and replacement scale all three alike). A flat histogram errs by sqrt(2 r) / epsilon
    over r bins; a hierarchy as `Histogram(..., ranges=...)` combines it.
    """
    if not ranges:
        raise DeclarationError("plan_ranges takes one range or more, such as [(20, 30), (30, 65)]")
    bins = _bins(column, source, width)
    cell = split_loss(PureDP(to_fraction(epsilon, name="epsilon")), source.neighbors).variance(1.0, tables=1)
    size = bins.value_count
    places = [_bins_between(bins, a, b) for a, b in ranges]
    rises = np.zeros(size + 1)
    for low, high in places:
        if low < high:
            rises[low] += 1
            rises[high] -= 1
    deepest = max(float(np.cumsum(rises).max()), 1.0)
    mean_bins = float(np.mean([high - low for low, high in places]))
    tree = None
    if 2 < size <= _MOST_BINS:
        layouts = [best_layout(size, places, pure=True)]
        layouts += [layout_of(size, 2)] if layouts[0].flat else []
        tree = math.sqrt(cell * float(range_variances(layouts[-1], places, pure=True).mean()))
    return RangePlan(deepest * math.sqrt(cell), math.sqrt(mean_bins * cell), tree)


def _release_levels(
    data: Queryable, column: EncodedColumn, layout: Layout, rows: bool
) -> tuple[list[NoisyTable], NoisyTable | None]:
    split = split_loss(data.loss, data.neighbors)
    share = share_of(_COUNTED) if rows else Fraction(0)
    tables = [ContingencyTable((column.axis(_codes(column, layout, width)),)) for width in layout.widths]
    levels = release_counts(data, tables, split.loss(1 - share))
    if not rows:
        return levels, None
    alone = ContingencyTable((column.axis(np.zeros(column.size, dtype=np.int64)),))
    return levels, release_counts(data, [alone], split.loss(share))[0]


def _codes(column: EncodedColumn, layout: Layout, width: int) -> Codes:
    """Return the run of each key; a missing value, where it is a key, is in a run of its own on every level."""
    inner = layout.codes(width)
    return np.append(inner, inner[-1] + 1) if column.missing else inner


def _bins(name: str, source: Adaptive, width: Number | None) -> EncodedColumn:
    """Return the bins of a column: its declared keys, or runs of `width`."""
    found = histogram_column(name, source.domain)
    if width is None:
        return found
    if not found.ordered:
        raise QuestionRefused(f"{name!r} is not a number: its bins are its values, so leave out width")
    steps = to_fraction(width, name="width") / found.unit
    if steps < 1 or steps.denominator != 1:
        raise DeclarationError(f"width must be a whole number of steps of {format_number(found.unit)}, one or more")
    high = found.highest
    edges = (*range(found.lowest, high + 1, int(steps)), high)  # the last bin is closed: it holds the upper bound
    return replace(found, edges=edges, size=len(edges) - 1 + found.missing)


def _bins_between(column: EncodedColumn, lower: Any, upper: Any) -> tuple[int, int]:
    """Return the bins [i, j) of a range of values; raises QuestionRefused for what is no range of whole bins."""
    if not column.ordered:
        raise QuestionRefused(f"{column.name!r} has no order, so it has no ranges: read .counts()")
    ends = [_step(column, v) for v in (lower, upper)]
    if column.edges is None:
        low, high = (min(max(math.ceil(e) - column.lowest, 0), column.value_count) for e in ends)
    else:
        inner = column.edges[:-1]
        if any(inner[0] < e < inner[-1] + 1 and math.ceil(e) not in inner for e in ends):
            raise QuestionRefused("a range must begin and end between bins: move it, or fit with a smaller width")
        low, high = (sum(1 for edge in inner if edge < math.ceil(e)) for e in ends)
    if low > high:
        raise QuestionRefused("a range is lower <= x < upper: the lower end is above the upper; swap them")
    return low, high


def _step(column: EncodedColumn, value: Any) -> Fraction:
    if isinstance(column.column, (Date, DateTime)):
        of = number_cell(column.name, column.column)
        return moment_constant(value, of) / of.unit
    return to_fraction(value, name="an end of the range") / column.unit
