"""Histograms of a column or several: flat or in levels, their errors, range queries."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np

from sordino.ask.queries.adaptive.marginal import ContingencyTable
from sordino.ask.queries.expressions.bound_number import number_cell
from sordino.ask.queries.expressions.times import moment_constant
from sordino.ask.queries.queryable import Adaptive, Queryable, ReleaseContent
from sordino.core.domain import Date, DateTime, Domain
from sordino.core.errors import DeclarationError, QuestionRefused, nearest
from sordino.core.loss import Loss, LossArguments, Number, PureDP, format_number, read_loss, show_arguments, to_fraction
from sordino.core.noise.laws import DiscreteGaussian, DiscreteLaplace, NoiseLaw
from sordino.core.noise.rng import Rng
from sordino.core.text_table import align_cells, html_table
from sordino.synth.encoded_column import (
    Codes,
    EncodedColumn,
    Floats,
    encode_table,
    histogram_column,
    label_of,
    steps_of,
    values_of,
)
from sordino.synth.measurement import NoisyTable, release_counts, share_of, split_loss
from sordino.synth.one_way_marginals import project
from sordino.synth.sampler import draw_within
from sordino.synth.sources import require_table

if TYPE_CHECKING:
    import pyarrow as pa


# ---- Flat and hierarchical histograms: what to count, how to combine the counts, and which is cheaper for ranges.
# Public only
#
# A hierarchical histogram counts runs of b^0, b^1, ... keys as well, each level with its part of the loss; the best linear
# unbiased combination of all levels (Hay, Rastogi, Miklau, Suciu 2010) makes long ranges cheap and short ones dearer.

BRANCHES = (2, 4, 8, 16)
_NEGLIGIBLE = 1e-14


@dataclass(frozen=True, slots=True)
class Layout:
    """The widths, in keys, of the runs that are counted: (1,) is a flat histogram."""

    size: int
    widths: tuple[int, ...]

    @property
    def flat(self) -> bool:
        """Whether only single keys are counted."""
        return self.widths == (1,)

    def codes(self, width: int) -> Codes:
        """Return the run of each key."""
        return np.arange(self.size) // width


def layout_of(size: int, branch: int | None) -> Layout:
    """Return the levels of a hierarchy that branches by `branch`, flat for None; its top run is never all keys."""
    if branch is None:
        return Layout(size, (1,))
    widths = [1]
    while widths[-1] * branch < size:
        widths.append(widths[-1] * branch)
    return Layout(size, tuple(widths))


def best_layout(size: int, ranges: Sequence[tuple[int, int]], *, pure: bool) -> Layout:
    """Return the layout with the least total variance over ranges of keys [a, b): by public parameters alone."""
    layouts = [layout_of(size, b) for b in (None, *BRANCHES) if b is None or b < size]
    return min(layouts, key=lambda layout: float(range_variances(layout, ranges, pure=pure).sum()))


def range_variances(layout: Layout, ranges: Sequence[tuple[int, int]], *, pure: bool) -> Floats:
    """Return the variance of each range, in units of that of a flat histogram's cell at the same loss.

    With k levels a level's noise has k^2 times the variance for a pure loss, k times for rho.
    """
    level = float(len(layout.widths)) ** (2 if pure else 1)
    in_range = np.zeros((len(ranges), layout.size))
    for row, (low, high) in enumerate(ranges):
        in_range[row, low:high] = 1.0
    variances: Floats = level * ((in_range @ _spread(layout)) * in_range).sum(axis=1)
    return variances


def combine_levels(layout: Layout, levels: Sequence[Floats]) -> Floats:
    """Return the best linear unbiased counts of single keys from the noisy counts of every level, equally noisy."""
    sums = np.zeros(layout.size)
    for width, level_counts in zip(layout.widths, levels, strict=True):
        sums += level_counts[layout.codes(width)]
    counts: Floats = _spread(layout) @ sums
    return counts


@lru_cache(maxsize=16)
def _spread(layout: Layout) -> Floats:
    """Return the covariance of the combined counts in units of a level's variance: the inverse of A'A."""
    square = np.zeros((layout.size, layout.size))
    for width in layout.widths:
        run = layout.codes(width)
        square += run[:, None] == run[None, :]
    covariance: Floats = np.asarray(np.linalg.inv(square), dtype=np.float64)
    return covariance


def weights_of(layout: Layout, low: int, high: int) -> list[Floats]:
    """Return how much each level's counts weigh in the estimate of a range."""
    in_range = np.zeros(layout.size)
    in_range[low:high] = 1.0
    spread = _spread(layout) @ in_range
    codes = [layout.codes(w) for w in layout.widths]
    weights: list[Floats] = [np.asarray(np.bincount(c, weights=spread), dtype=np.float64) for c in codes]
    return weights


def sum_quantile(law: NoiseLaw, count: int, confidence: float) -> int:
    """Return the least whole t with P(|X1 + ... + Xn| > t) <= 1 - confidence for n draws of a law: by its exact convolution.

    >>> from fractions import Fraction
    >>> from sordino.core.noise.laws import DiscreteLaplace
    >>> sum_quantile(DiscreteLaplace(Fraction(2)), 1, 0.95) == DiscreteLaplace(Fraction(2)).error(0.95)
    True
    """
    tails = [1.0]
    while tails[-1] > _NEGLIGIBLE:
        tails.append(law.tail(len(tails) - 1))
    # P(|X| = 0), P(|X| = 1), ...
    sides = -np.diff(tails)
    one = np.concatenate([sides[:0:-1] / 2.0, sides[:1], sides[1:] / 2.0])
    width = (len(one) - 1) * count + 1
    law_of_sum = np.fft.irfft(np.fft.rfft(one, 2 * width) ** count, 2 * width)[:width]
    middle = width // 2
    cumulative = np.cumsum(np.concatenate([law_of_sum[middle : middle + 1], 2.0 * law_of_sum[middle + 1 :]]))
    return int(np.searchsorted(cumulative, min(confidence + 1e-10, cumulative[-1])))


def quantile(confidence: float, excess: float) -> float:
    """Return the quantile of |X| / deviation for a sum of that excess kurtosis (Cornish & Fisher 1938), at least normal.

    >>> 2.1 < quantile(0.95, 3.0) < 2.2
    True
    """
    from statistics import NormalDist

    z = NormalDist().inv_cdf(0.5 + confidence / 2.0)
    return max(z + (z**3 - 3.0 * z) * excess / 24.0, z) if z < 3.5 else z * (1.0 + math.log1p(excess))


# ---- What a histogram's counts say and how far they err: a range with its error, and the plan of a histogram
# beforehand
#
# It knows noise and public parameters, no table.

# Deviations up to which whole steps matter, and the exact law is computed.
_FEW = 60.0


@dataclass(frozen=True, slots=True, repr=False)
class Range:
    """An estimated number of rows in a range, with its error: `.value`, `.interval(0.95)`, `.error(0.95)`.

    In a flat histogram the error is a sum of `bins` draws of one `law`, in whole rows; in a hierarchy the law is None.
    """

    value: float
    deviation: float
    excess: float
    law: NoiseLaw | None = None
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
        """Return (lower, upper); a count is at least 0, unless noise has carried the value itself below."""
        reach = self.error(confidence)
        return min(max(self.value - reach, 0.0), self.value), max(self.value + reach, 0.0)

    def __float__(self) -> float:
        return self.value

    def __repr__(self) -> str:
        low, high = self.interval(0.95)
        ends = "exact" if self.deviation == 0 else f"{low:,.0f} to {high:,.0f} at 95%"
        return f"{self.value:,.0f} ({ends})"


@dataclass(frozen=True, slots=True)
class HistogramPlan:
    """What a histogram will cost and how far it will err: `.error(0.95)` of a bin, `.error(0.95, bins=10)` of ten together.

    `levels` is 1 but for a hierarchy, whose ranges `plan_ranges` compares. `law` is that of the noise in each count.
    """

    columns: tuple[str, ...]
    bins: int
    levels: int
    cost: Loss
    law: DiscreteLaplace | DiscreteGaussian

    def error(self, confidence: float, *, bins: int = 1) -> float:
        """Return the error, in rows, of a sum of so many bins that is not exceeded with this probability.

        Raises DeclarationError for a hierarchy, where it depends on the range, and for other than 1 to all of the bins.
        """
        if self.levels > 1:
            raise DeclarationError("the error in a hierarchy depends on the range: plan_ranges states it beforehand")
        if isinstance(bins, bool) or not isinstance(bins, int) or not 1 <= bins <= self.bins:
            raise DeclarationError(f"bins must be a whole number from 1 to {self.bins:,}, all of them")
        return Range(0.0, math.sqrt(self.law.variance() * bins), 3.0 / bins, self.law, bins).error(confidence)

    def to_dict(self, confidence: float = 0.95) -> dict[str, Any]:
        """Return the plan as JSON data: `errors` of 1, 10, 100, 1,000 and all bins together, in rows, by the number of bins.

        Raises DeclarationError for a hierarchy, where errors depend on the range.
        """
        sizes = [*(n for n in (1, 10, 100, 1_000) if n < self.bins), self.bins]
        return {
            "columns": list(self.columns),
            "bins": self.bins,
            "cost": self.cost.describe(),
            "confidence": confidence,
            "errors": {str(n): self.error(confidence, bins=n) for n in sizes},
        }

    def describe(self) -> str:
        """Return the plan as a sentence."""
        where = f"a histogram of {' and '.join(self.columns)}: {self.bins:,} bins, cost {self.cost.describe()}"
        if self.levels > 1:
            return f"{where}, in {self.levels} levels"
        whole = self.error(0.95, bins=self.bins)
        return f"{where}; each count within {self.error(0.95):,.0f} at 95%, all together within {whole:,.0f}"

    def __str__(self) -> str:
        return self.describe()


# ---- Histogram: a synthetic representation of one column or a few - one release, then any number of range queries
# and rows
#
# Everything after the release is post-processing of its noisy counts.

# The most bins of a hierarchy.
_MOST_BINS = 4096
_EXACT = "NOT PRIVATE (exact counts)"
# Bins that a prompt shows.
_SHOWN = 12
_SYNTHETIC = "counts of synthetic rows"
# The share of the loss for the number of rows, where it is asked for.
_COUNTED = 0.1


@dataclass(frozen=True, slots=True)
class Histogram:
    """Ask for a noisy histogram of one column: a bin a declared value, or of `width`; `ranges` chooses the cheaper kind.

    Of several columns, `Histogram(("age", "job"))`, it is their contingency table, a bin a combination of values; `width`
    is then a mapping of those of its columns that have one. `ranges`, pairs (a, b) for a <= x < b, are what it will be asked:
    where many are long, runs of bins are counted as well and the answers combined, if that makes the expected squared error
    less. `rows` asks for the number of rows too, with a tenth of the loss.

    >>> Histogram("age").ranges is None
    True
    """

    column: str | Sequence[str]
    width: Number | Mapping[str, Number] | None = None
    ranges: Sequence[tuple[Any, Any]] | None = None
    rows: bool = False

    @show_arguments(LossArguments)
    def fit(
        self,
        source: Adaptive,
        **loss: Unpack[LossArguments],
    ) -> Representation:
        """Return the representation, charged once; everything asked of it later is free.

        Theorem: a row is in one bin of a level, so a level is one release by parallel composition, and k levels cost k of
        them. Raises UnknownName, QuestionRefused or DeclarationError before anything is spent.
        """
        require_table(source)
        columns = self._columns(source.domain)
        layout = self._layout(columns, pure=isinstance(read_loss(**loss), PureDP))
        words = self._words() + ("" if layout.flat else f" in {len(layout.widths)} levels")
        size = math.prod(c.value_count for c in columns)
        (levels, total), release = source.adapt(
            lambda data: _release_levels(data, columns, layout, self.rows),
            describe=words,
            record=lambda _: ReleaseContent(notes=(f"{words}: {size} bins",)),
            **loss,
            draws="vectors",
        )
        seal = "" if release.private else "NOT PRIVATE (seeded noise). "
        facts = f"{seal}{words}; cost: {release.cost.describe()}; charge {release.charge}"
        return Representation(columns[0], layout, tuple(levels), total, columns[0].unit, facts, tuple(columns[1:]))

    @show_arguments(LossArguments)
    def plan(
        self,
        source: Adaptive,
        **loss: Unpack[LossArguments],
    ) -> HistogramPlan:
        """Return what `fit` would cost and how far its counts would err, from public facts; nothing is charged.

        Raises UnknownName, QuestionRefused or DeclarationError as `fit` does.
        """
        columns = self._columns(source.domain)
        requested = read_loss(**loss)
        split = split_loss(requested, source.neighbors)
        layout = self._layout(columns, pure=split.currency == "epsilon")
        part = (1 - share_of(_COUNTED) if self.rows else Fraction(1)) / len(layout.widths)
        spread = split.total * part
        law = (
            DiscreteLaplace(split.move_l1 / spread)
            if split.currency == "epsilon"
            else DiscreteGaussian(split.move_l2_squared / (2 * spread))
        )
        bins = math.prod(c.size for c in columns)
        return HistogramPlan(tuple(c.name for c in columns), bins, len(layout.widths), requested, law)

    def exact(self, table: pa.Table, *, domain: Domain, synthetic: bool = False) -> Representation:
        """Return the exact counts of rows that one may see, as a representation: NOT PRIVATE, for teaching, and marked so.

        `table` is an Arrow table, such as `sd.datasets.load_adult(path)`. Its ranges have no error. With `synthetic` the rows
        are drawn ones, such as `model.sample(1_000)`: they were paid for, and the figures say whose they are.
        """
        columns = self._columns(domain)
        keys = np.array(encode_table(table, columns))
        complete = keys[:, (keys >= 0).all(axis=0)]
        shape = tuple(c.size for c in columns)
        counts = np.bincount(np.ravel_multi_index(tuple(complete), shape), minlength=math.prod(shape)).reshape(shape)
        exact = NoisyTable(counts.astype(np.float64), 0.0)
        rows = NoisyTable(np.array([float(complete.shape[1])]), 0.0)
        facts = f"{_SYNTHETIC}: {self._words()}" if synthetic else f"{_EXACT}: {self._words()}, without noise"
        layout = layout_of(columns[0].value_count, None)
        return Representation(columns[0], layout, (exact,), rows, columns[0].unit, facts, tuple(columns[1:]))

    def _columns(self, domain: Domain) -> list[EncodedColumn]:
        names = [self.column] if isinstance(self.column, str) else list(self.column)
        if not names or len(set(names)) != len(names):
            raise DeclarationError("a histogram is of one column or more, each once: Histogram(('age', 'occupation'))")
        if len(names) > 1 and self.width is not None and not isinstance(self.width, Mapping):
            raise DeclarationError(f"of several columns, width names which it is of: width={{{names[0]!r}: 10}}")
        widths = self.width if isinstance(self.width, Mapping) else {names[0]: self.width}
        if strange := [name for name in widths if name not in names]:
            raise DeclarationError(
                f"width is of {strange[0]!r}, which this histogram is not of; {nearest(strange[0], names)}"
            )
        return [_bins(name, domain, widths.get(name)) for name in names]

    def _layout(self, columns: Sequence[EncodedColumn], *, pure: bool) -> Layout:
        column = columns[0]
        size = columns[0].value_count
        if not self.ranges:
            return layout_of(size, None)
        if len(columns) > 1:
            raise QuestionRefused("ranges choose between histograms of one column: leave them out, or name one column")
        if size > _MOST_BINS:
            raise QuestionRefused(f"a hierarchy of {size} bins is too large: give a larger width")
        return best_layout(size, [_bins_between(column, a, b) for a, b in self.ranges], pure=pure)

    def _words(self) -> str:
        return f"a histogram of {self.column if isinstance(self.column, str) else ' and '.join(self.column)}"


@dataclass(frozen=True, slots=True, repr=False)
class Representation:
    """A released histogram: `.range(a, b)`, `.cell(value)`, `.counts()`, `.probabilities()`, `.sample(rows)`; all free.

    `others` are its columns but the first, where it is of several.
    """

    column: EncodedColumn
    layout: Layout
    levels: tuple[NoisyTable, ...]
    total: NoisyTable | None
    unit: Fraction
    facts: str
    others: tuple[EncodedColumn, ...] = ()

    @property
    def columns(self) -> tuple[EncodedColumn, ...]:
        """The columns, in the order of the axes of `counts`."""
        return (self.column, *self.others)

    @property
    def is_exact(self) -> bool:
        """Whether it holds exact counts, which are NOT PRIVATE."""
        return self.facts.startswith(_EXACT)

    @property
    def is_synthetic(self) -> bool:
        """Whether it counts synthetic rows, which needs no noise and no mark."""
        return self.facts.startswith(_SYNTHETIC)

    def range(self, lower: Any, upper: Any, *, column: str | None = None) -> Range:
        """Return the estimated number of rows with lower <= x < upper, in whole bins; unlimited, free.

        A sum of r bins of a flat histogram has r times the variance of one, so its error grows like sqrt(r). Of several
        columns, `column` says which one is meant; rows of every value of the others are counted.
        """
        if self.others:
            axis = self._axis(column)
            first, last = _bins_between(self.columns[axis], lower, upper)
            return self._sum(self.counts().take(np.arange(first, last), axis=axis))
        if column is not None:
            self._axis(column)
        return self._between(*_bins_between(self.column, lower, upper))

    def cell(self, *values: Any) -> Range:
        """Return the estimated number of rows in the bin of a value, one value a column; None is a missing one.

        Raises QuestionRefused for a value that is not declared, and for other than one value a column.
        """
        if len(values) != len(self.columns):
            names = ", ".join(c.name for c in self.columns)
            raise QuestionRefused(f"a cell has a value for each of its columns, in their order: {names}")
        keys = tuple(_key_of(c, v) for c, v in zip(self.columns, values, strict=True))
        if self.layout.flat or keys[0] == self.column.value_count:
            return self._sum(self.counts()[keys].reshape(1))
        return self._between(keys[0], keys[0] + 1)

    def counts(self) -> Floats:
        """Return the unbiased noisy count of each bin, missing last where the column keeps it; some may be negative.

        It has an axis a column.
        """
        if self.others:
            return self.levels[0].cells
        size = self.layout.size
        runs = [-(-size // w) for w in self.layout.widths]
        inner = combine_levels(self.layout, [level.cells[:n] for n, level in zip(runs, self.levels, strict=True)])
        return np.append(inner, self.levels[0].cells[-1]) if self.column.missing else inner

    def probabilities(self) -> Floats:
        """Return the share of rows in each bin: the nearest counts that are not negative and keep their sum, over that sum.

        Cutting each negative count to 0 instead would leave positive noise alone and add rows to every empty bin.
        """
        counts = self.counts()
        total = max(float(counts.sum()), 1.0)
        shares: Floats = project(counts, total) / total
        return shares

    def to_arrow(self) -> pa.Table:
        """Return a row a bin: the label of each column, its count and its probability."""
        import pyarrow as pa

        labels = [[label_of(c, key) for key in range(c.size)] for c in self.columns]
        bins = zip(*itertools.product(*labels), strict=True)
        cells: dict[str, Any] = {c.name: list(column) for c, column in zip(self.columns, bins, strict=True)}
        return pa.table(cells | {"count": self.counts().ravel(), "probability": self.probabilities().ravel()})

    def to_pandas(self) -> Any:
        """Return `to_arrow` as a data frame; needs pandas."""
        return self.to_arrow().to_pandas()

    def __getitem__(self, values: Any) -> Range:
        """Return the `cell` of a value, of several columns of a value each: `histogram[21]`, `histogram[17, "Sales"]`."""
        return self.cell(*(values if isinstance(values, tuple) else (values,)))

    def sample(self, rows: int | None = None, *, rng: Rng | None = None, independent: bool = False) -> pa.Table:
        """Return rows drawn from the probabilities, each value drawn evenly from its bin.

        The rows are not independent: the count of each bin is within a few rows of its probability times `rows`, so a
        chi-square test, a bootstrap or a standard error over many draws comes out far too small. `independent=True` draws
        each row by itself: the counts are then multinomial.

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
        group = np.zeros(rows, dtype=np.int64)
        weights = self.probabilities()
        bins = draw_within(
            weights.reshape(1, -1), group, [], alpha=math.sqrt(2.0) % 1.0, rng=source, independent=independent
        )
        each = zip(self.columns, np.unravel_index(bins, weights.shape), strict=True)
        return pa.table({c.name: values_of(c, keys, steps_of(c, keys, source)) for c, keys in each})

    def _between(self, low: int, high: int) -> Range:
        """Return the number of rows in the bins [low, high) of the one column, by all levels."""
        weights = weights_of(self.layout, low, high)
        value = float(sum(w @ level.cells[: len(w)] for w, level in zip(weights, self.levels, strict=True)))
        variance = self.levels[0].variance
        squares = float(sum(np.square(w).sum() for w in weights))
        fourths = float(sum((w**4).sum() for w in weights))
        excess = 3.0 * fourths / squares**2 if squares > 0 else 0.0
        law = self.levels[0].law if self.layout.flat else None
        return Range(value, math.sqrt(variance * squares), excess, law, high - low)

    def _axis(self, name: str | None) -> int:
        names = [c.name for c in self.columns]
        if name is None:
            raise QuestionRefused(f"this histogram is of {' and '.join(names)}: say which, as column={names[0]!r}")
        if name not in names:
            raise QuestionRefused(f"this histogram is not of {name!r}; {nearest(name, names)}")
        return names.index(name)

    def _sum(self, cells: Floats) -> Range:
        """Return the sum of cells of a flat histogram, each with noise of its own."""
        level = self.levels[0]
        count = cells.size
        return Range(float(cells.sum()), math.sqrt(level.variance * count), 3.0 / max(count, 1), level.law, count)

    def __repr__(self) -> str:
        bins = self._bins(_SHOWN)
        return f"<Representation: {self.facts}>\n{align_cells(self._heading(), bins)}{self._others(len(bins))}"

    def _repr_html_(self) -> str:
        bins = self._bins(_SHOWN)
        return html_table(self.facts, self._heading(), bins, foot=self._others(len(bins)).strip())

    def _heading(self) -> tuple[str, ...]:
        return (*(c.name for c in self.columns), "count", "share")

    def _bins(self, most: int) -> list[tuple[str, ...]]:
        """Return the first bins as text: their labels, count and share."""
        shape = tuple(c.size for c in self.columns)
        counts = self.counts().ravel()[:most]
        shares = self.probabilities().ravel()[:most]
        labels = [
            [
                "missing" if label_of(c, key) is None else str(label_of(c, key))
                for c, key in zip(self.columns, keys, strict=True)
            ]
            for keys in zip(*np.unravel_index(np.arange(counts.size), shape), strict=True)
        ]
        return [
            (*label, f"{count:,.0f}", f"{share:.2%}")
            for label, count, share in zip(labels, counts.tolist(), shares.tolist(), strict=True)
        ]

    def _others(self, shown: int) -> str:
        size = math.prod(c.size for c in self.columns)
        return "" if shown == size else f"\nand {size - shown:,} bins more: .to_pandas() has all"


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
        errors: dict[Literal["direct", "flat", "hierarchy"], float] = {"direct": self.direct, "flat": self.flat}
        if self.hierarchy is not None:
            errors["hierarchy"] = self.hierarchy
        return min(errors, key=lambda n: errors[n])

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
    bins = _bins(column, source.domain, width)
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
    data: Queryable, columns: Sequence[EncodedColumn], layout: Layout, rows: bool
) -> tuple[list[NoisyTable], NoisyTable | None]:
    split = split_loss(data.loss, data.neighbors)
    share = share_of(_COUNTED) if rows else Fraction(0)
    column, *others = columns
    rest = tuple(other.axis() for other in others)
    tables = [ContingencyTable((column.axis(_codes(column, layout, width)), *rest)) for width in layout.widths]
    levels = release_counts(data, tables, split.loss(1 - share))
    if not rows:
        return levels, None
    alone = ContingencyTable((column.axis(np.zeros(column.size, dtype=np.int64)),))
    return levels, release_counts(data, [alone], split.loss(share))[0]


def _codes(column: EncodedColumn, layout: Layout, width: int) -> Codes:
    """Return the run of each key; a missing value, where it is a key, is in a run of its own on every level."""
    inner = layout.codes(width)
    return np.append(inner, inner[-1] + 1) if column.missing else inner


def _bins(name: str, domain: Domain, width: Number | None) -> EncodedColumn:
    """Return the bins of a column: its declared keys, or runs of `width`."""
    encoded = histogram_column(name, domain)
    if width is None:
        return encoded
    if not encoded.ordered:
        raise QuestionRefused(f"{name!r} is not a number: its bins are its values, so leave out width")
    steps = to_fraction(width, name="width") / encoded.unit
    if steps < 1 or steps.denominator != 1:
        raise DeclarationError(f"width must be a whole number of steps of {format_number(encoded.unit)}, one or more")
    high = encoded.highest
    # The last bin is closed: it holds the upper bound.
    edges = (*range(encoded.lowest, high + 1, int(steps)), high)
    return replace(encoded, edges=edges, size=len(edges) - 1 + encoded.missing)


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


def _key_of(column: EncodedColumn, value: Any) -> int:
    """Return the bin of a value; raises QuestionRefused for one that is not declared."""
    if value is None and column.missing:
        return column.size - 1
    if not column.ordered:
        labels = [label_of(column, key) for key in range(column.value_count)]
        if value in labels:
            return labels.index(value)
        raise QuestionRefused(f"a value of {column.name!r} is not declared; {nearest(str(value), map(str, labels))}")
    step = None if value is None else _step(column, value)
    if step is None or step.denominator != 1 or not column.lowest <= step <= column.highest:
        raise QuestionRefused(f"a value of {column.name!r} is not declared: it has a step, within its bounds")
    if column.edges is None:
        return int(step) - column.lowest
    return min(bisect.bisect_right(column.edges, int(step)) - 1, column.value_count - 1)


def _step(column: EncodedColumn, value: Any) -> Fraction:
    if isinstance(column.column, (Date, DateTime)):
        of = number_cell(column.name, column.column)
        return moment_constant(value, of) / of.unit
    return to_fraction(value, name="an end of the range") / column.unit
