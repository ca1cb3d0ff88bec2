"""Histogram: a synthetic representation of one column - one release, then any number of range queries and rows.

Everything after the release is post-processing of its noisy counts.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.domain import Boolean, Category, Date
from sordino.errors import DeclarationError, QuestionRefused
from sordino.estimates.noisy import Law
from sordino.loss import Number, format_number, to_fraction
from sordino.noise.rng import Rng
from sordino.queries.adaptive.marginal import ContingencyTable
from sordino.queries.expressions.bound_number import EPOCH
from sordino.queries.expressions.compile import bind_number
from sordino.queries.expressions.nodes import Name
from sordino.queries.queryable import Adaptive, Queryable, ReleaseContent
from sordino.synth.access import NoisyTable, release_counts
from sordino.synth.columns import EncodedColumn, histogram_column, steps_of, values_of
from sordino.synth.levels import Layout, best_layout, combine_levels, layout_of, quantile, sum_quantile, weights_of
from sordino.synth.loss_shares import share_of, split_loss
from sordino.synth.projection import Floats, project
from sordino.synth.sampler import draw_within

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Histogram", "Range", "Representation", "histogram_bins", "place_of"]

_MOST_LEVELS_SIZE = 4096
_FEW = 60.0  # deviations up to which whole steps matter, and the exact law is reckoned
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
    and the answers combine_levels, if that makes the expected squared error less. `rows` asks for the number of rows too, with a
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
        column = histogram_bins(self.column, source, self.width)
        pure = rho is None and (delta is None or to_fraction(delta, name="delta") == 0)
        size = column.size - column.missing
        if self.ranges is not None and size > _MOST_LEVELS_SIZE:
            raise QuestionRefused(f"a hierarchy of {size} bins is too large: give a larger width")
        wanted = None if self.ranges is None else [place_of(column, source, a, b) for a, b in self.ranges]
        layout = layout_of(size, None) if not wanted else best_layout(size, wanted, pure=pure)
        told = f"a histogram of {self.column}" + ("" if layout.flat else f" in {len(layout.widths)} levels")
        made, release = source.adapt(
            lambda data: _release_levels(data, column, layout, self.rows),
            describe=told,
            tell=lambda _: ReleaseContent(notes=(f"{told}: {size} bins",)),
            epsilon=epsilon,
            delta=delta,
            rho=rho,
        )
        levels, total = made
        seal = "" if release.private else "NOT PRIVATE (seeded noise). "
        facts = f"{seal}{told}; cost: {release.cost.describe()}; charge {release.charge}"
        step = bind_number(Name(self.column), source.domain) if column.ordered else None
        unit = Fraction(1) if step is None else step.unit
        return Representation(column, layout, tuple(levels), total, unit, facts)


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
        low, high = _steps_between(self.column, self.unit, lower, upper)
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


def _release_levels(
    data: Queryable, column: EncodedColumn, layout: Layout, rows: bool
) -> tuple[list[NoisyTable], NoisyTable | None]:
    split = split_loss(data.loss, data.neighbors)
    share = share_of(_COUNTED) if rows else Fraction(0)
    tables = [ContingencyTable((column.with_codes(_codes(column, layout, width)),)) for width in layout.widths]
    levels = release_counts(data, tables, split.loss(1 - share))
    if not rows:
        return levels, None
    alone = ContingencyTable((column.with_codes([0] * column.size),))
    return levels, release_counts(data, [alone], split.loss(share))[0]


def _codes(column: EncodedColumn, layout: Layout, width: int) -> list[int]:
    """Return the run of each key; a missing value, where it is a key, is in a run of its own on every level."""
    inner = layout.codes(width)
    return [*inner, inner[-1] + 1] if column.missing else inner


def histogram_bins(name: str, source: Adaptive, width: Number | None) -> EncodedColumn:
    """Return the bins of a column: its declared keys, or runs of `width`."""
    found = histogram_column(name, source.domain)
    if width is None:
        return found
    if isinstance(found.column, (Category, Boolean)):
        raise QuestionRefused(f"{name!r} is no number: its bins are its values, so leave out width")
    of = bind_number(Name(name), source.domain)
    steps = to_fraction(width, name="width") / of.unit
    if steps < 1 or steps.denominator != 1:
        raise DeclarationError(f"width must be a whole number of steps of {format_number(of.unit)}, one or more")
    low, high = int(of.interval.lower or 0), int(of.interval.upper or 0)
    cuts = (*range(low, high + 1, int(steps)),)
    edges = (*cuts, high)  # the last bin is closed: it holds the upper bound
    return EncodedColumn(name, found.column, edges, len(edges) - 1 + found.missing, True, found.missing)


def place_of(column: EncodedColumn, source: Adaptive, lower: Any, upper: Any) -> tuple[int, int]:
    """Return the bins [i, j) of the range of values lower <= x < upper."""
    unit = bind_number(Name(column.name), source.domain).unit if column.ordered else Fraction(1)
    return _steps_between(column, unit, lower, upper)


def _steps_between(column: EncodedColumn, unit: Fraction, lower: Any, upper: Any) -> tuple[int, int]:
    """Return the bins [i, j) of a range of values; raises QuestionRefused for what is no range of whole bins."""
    if not column.ordered:
        raise QuestionRefused(f"{column.name!r} has no order, so it has no ranges: read .counts()")
    ends = [_step(column, unit, v) for v in (lower, upper)]
    size = column.size - column.missing
    if column.edges is None:
        least = _least(column)
        low, high = (min(max(math.ceil(e) - least, 0), size) for e in ends)
    else:
        inner = column.edges[:-1]
        if any(inner[0] < e < inner[-1] + 1 and math.ceil(e) not in inner for e in ends):
            raise QuestionRefused("a range must begin and end between bins: move it, or fit with a smaller width")
        low, high = (sum(1 for edge in inner if edge < math.ceil(e)) for e in ends)
    if low > high:
        raise QuestionRefused("a range is lower <= x < upper: the lower end is above the upper; swap them")
    return low, high


def _step(column: EncodedColumn, unit: Fraction, value: Any) -> Fraction:
    if isinstance(column.column, Date):
        day = datetime.date.fromisoformat(value) if isinstance(value, str) else value
        return Fraction((day - EPOCH).days)
    return to_fraction(value, name="an end of the range") / unit


def _least(column: EncodedColumn) -> int:
    declared = column.column
    if isinstance(declared, Date):
        return (declared.lower - EPOCH).days
    return int(getattr(declared, "lower", 0) or 0)
