"""How a tabulation is answered: measure tables by a strategy, make the estimates agree, and lay out the release."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal, cast

import numpy as np

from sordino.ask.queries.aggregates.sums import Count
from sordino.ask.queries.queryable import ExpectedColumn, LossTooSmall, NoiseForecast, Queryable, ReleaseContent
from sordino.ask.queries.tabulation import (
    CompiledTabulation,
    Objective,
    Table,
    Tabulation,
    TabulationQuery,
    compile_tabulation,
    describe_left_out,
)
from sordino.core.columns import NumberColumn, TiledColumn
from sordino.core.errors import QuestionRefused
from sordino.core.estimates.noisy import Noisy, scale_steps
from sordino.core.estimates.table_cells import BY_COLUMNS, CellNoise, Finish, TableCells, TableStrategy, name_table
from sordino.core.loss import ZCDP, Loss, PureDP, format_number
from sordino.core.neighbors import Relation
from sordino.core.noise.laws import NoiseLaw
from sordino.core.release import Key, Output, show_number
from sordino.core.release_exports import label_kind
from sordino.tables.hierarchy import estimate_levels, make_levels_whole
from sordino.tables.least_squares import Estimate, cell_variances, estimate_tables, mean_variance, range_variances
from sordino.tables.level_tables import (
    LevelQuery,
    choose_shares,
    find_area_variances,
    find_hierarchy,
    find_level,
    level_axes,
    sum_table,
)
from sordino.tables.range_basis import RangeBasis, find_cell_basis, find_range_basis
from sordino.tables.residual_query import ResidualQuery, find_bases
from sordino.tables.strategy import Measured, choose_marginals, choose_residuals, subsets
from sordino.tables.whole_tables import NotWhole, check_margins, make_whole

# Tables whose errors a plan lists in words; `Plan.error` has all of them.
_LISTED = 24
# Shares of a loss are rounded to this part.
_PART = 1 << 24
# Strategies that are tried until stated errors are kept: each corrects the limits by the noise that the one before would get.
_TRIES = 8
_NEARER = 1e-4
_FAR = 1.01
# What a width may be off by for the rounding of floats.
_CLOSE = 1e-9
# The least variance that least squares weighs by, in square steps: noise of a large loss may have one of 0 in floats.
_LEAST = 1e-12
_BIAS = (
    "tables were made whole and not negative after the noise, so small cells are too large on average and large ones too "
    "small; intervals are those of the unbiased estimates before that"
)
_NOT_WHOLE = "no whole tables with these shared margins were found, so these are the linear estimates, some below 0"


Axes = tuple[int, ...]
Array = np.ndarray[Any, np.dtype[Any]]
Form = Literal["residuals", "marginals", "levels", "own"]


@dataclass(frozen=True, slots=True)
class MeasuredMeasure:
    """One measure of a tabulation: its query, the loss of that, and what is made of the noisy vectors.

    `form` says what was measured: residuals, marginals or levels, from which the tables follow by least squares; or each by its
    `own`. `laws` are those of the noise of each vector's entries, in its own steps. `noise` is that of each table's cells, and
    `ranges` has the largest variance over all ranges of each ordered column of a table, its other columns at one key.
    """

    query: TabulationQuery | ResidualQuery | LevelQuery
    loss: Loss
    form: Form
    measured: tuple[Axes, ...]
    laws: tuple[NoiseLaw, ...]
    noise: tuple[CellNoise, ...]
    finish: Finish
    is_sum: bool
    ranges: Mapping[Table, tuple[tuple[str, float], ...]] = field(default_factory=dict)
    # Of each table, the mean variance over all ranges of its ordered columns; empty where there are none.
    mean_variances: tuple[float, ...] = ()
    # The greatest common divisor of public sums, in steps: what whole cells are multiples of divides it.
    public_step: int = 0

    @property
    def coarse_step(self) -> int:
        """The steps that whole cells are multiples of: 1 for counts, for sums a power of ten up to a hundredth of the deviation.

        It follows from public parameters. A sum of cents with a deviation of 10^9 cents has no use for single cents, and to
        make whole tables of them agree would move these one by one.
        """
        if not self.is_sum:
            return 1
        deviation = min(math.sqrt(noise.variance) for noise in self.noise) / float(self.query.unit)
        step = int(10 ** max(0, math.floor(math.log10(max(deviation, 1)) - 2)))
        while self.public_step % step:
            step //= 10
        return step

    @property
    def variances(self) -> tuple[float, ...]:
        """The variance of the noise of each vector's entries, in its own steps, and above 0."""
        return tuple(max(law.variance(), _LEAST) for law in self.laws)


@dataclass(frozen=True, slots=True)
class PreparedTabulation:
    """A tabulation with all that is settled before it is paid."""

    question: Tabulation
    compiled: CompiledTabulation
    measures: tuple[MeasuredMeasure, ...]
    notes: tuple[str, ...]

    @property
    def groups(self) -> tuple[str, ...]:
        """The name of the column that says which table a row is of, then the columns of all tables."""
        return (BY_COLUMNS, *(key.alias for key in self.question.keys))

    @property
    def rows(self) -> int:
        """The number of cells of all tables."""
        return sum(self.sizes)

    @property
    def sizes(self) -> list[int]:
        """The number of cells of each table."""
        return [self.compiled.cells(axes) for axes in self.compiled.axes]

    @property
    def squared_error(self) -> float:
        """The weighted sum of squared errors of all cells, or the greatest of them, each measure in its own steps."""
        weights = self.question.weights or (Fraction(1),) * len(self.question.tables)
        errors = [
            float(weight) * variance / float(measure.query.unit) ** 2
            for measure in self.measures
            for weight, variance in zip(
                weights, measure.mean_variances or [noise.variance for noise in measure.noise], strict=True
            )
        ]
        if self.question.objective == "greatest":
            return max(errors)
        return math.fsum(error * size for error, size in zip(errors, self.sizes * len(self.measures), strict=True))

    def queries(self) -> list[TabulationQuery | ResidualQuery | LevelQuery]:
        """Return the query of each measure."""
        return [measure.query for measure in self.measures]

    def columns(self, confidence: float) -> list[ExpectedColumn]:
        """Return the widest error of each measure, and the error of each table in words."""
        columns = []
        for aggregate, measure in zip(self.question.measures, self.measures, strict=True):
            widths = [noise.error(confidence, measure.query.unit) for noise in measure.noise]
            names = [name_table(table) or "total" for table in self.question.tables]
            lines = []
            for table, name, width in zip(self.question.tables, names, widths, strict=True):
                line = f"{name}: +-{show_number(width)}"
                for column, variance in measure.ranges.get(table, ()):
                    # A sum of Laplace noises has tails between theirs and normal ones.
                    excess = 3.0 if measure.form == "marginals" else 0.0
                    widest_range = CellNoise(variance, excess).error(confidence, measure.query.unit)
                    line += f", +-{show_number(widest_range)} in the widest range of {column}"
                lines.append(line)
            if len(lines) > _LISTED:
                lines = [*lines[:_LISTED], f"and {len(lines) - _LISTED:,} more tables: error(confidence) has each"]
            widest = max(widths)
            words = f"+-{show_number(widest)} at {100 * confidence:g}% in a cell of the widest table"
            parts = tuple((t, float(width)) for t, width in zip(self.question.tables, widths, strict=True))
            about = aggregate.alias, aggregate.describe(), float(widest)
            columns.append(ExpectedColumn(*about, "value", words, parts, tuple(lines)))
        return columns

    def error(self, confidence: float) -> dict[tuple[str, ...], Any]:
        """Return the widest half-width of each table: a number for one measure, a dict by name for several."""
        names = [aggregate.alias for aggregate in self.question.measures]
        widths = [[noise.error(confidence, m.query.unit) for noise in m.noise] for m in self.measures]
        by_table = zip(*widths, strict=True)
        return {
            table: errors[0] if len(names) == 1 else dict(zip(names, errors, strict=True))
            for table, errors in zip(self.question.tables, by_table, strict=True)
        }

    def answer(self, queryable: Queryable) -> ReleaseContent:
        """Release each measure, and return all tables one below the other."""
        outputs = []
        # What the plan says is in its release too: only what follows from the noisy values is new.
        notes: list[str] = []
        for aggregate, measure in zip(self.question.measures, self.measures, strict=True):
            released = queryable.release(measure.query, measure.loss)
            vectors = [np.asarray(cast(Noisy, output.estimate).steps) for output in released.outputs]
            estimate = self._estimate(measure, vectors)
            counts_rows = isinstance(aggregate, Count) and aggregate.of is None and self.question.row_weights is None
            estimate = replace(estimate, counts_rows=counts_rows)
            if measure.finish == "whole" and not estimate.linear:
                notes.append(f"{aggregate.alias}: {_NOT_WHOLE}")
            outputs.append(Output(aggregate.alias, estimate, self._mechanism(measure, released.outputs[0].mechanism)))
        published, more = self._publish(outputs)
        return ReleaseContent(self._keys(), published, notes=(*notes, *more))

    def _publish(self, outputs: Sequence[Output]) -> tuple[tuple[Output, ...], list[str]]:
        """Return what is shown of released numbers, by their own values alone: without small cells, and rounded."""
        question = self.question
        estimates = [cast(TableCells, output.estimate) for output in outputs]
        notes = []
        if question.suppress_below is not None:
            counts = _find_counts(question)
            released = np.asarray(estimates[counts].cells)
            # The least number of the cells' own kind that is not below the threshold.
            least = math.ceil(question.suppress_below) if released.dtype.kind != "f" else float(question.suppress_below)
            if least < question.suppress_below:
                least = math.nextafter(least, math.inf)
            small = np.flatnonzero(released < least)
            estimates = [estimate.suppress(small) for estimate in estimates]
            # The noise of other measures has no part in which cells are shown.
            estimates[counts] = replace(estimates[counts], cells_for_shown=self._cells_for_shown(small))
            notes.append(f"{len(small):,} of {len(estimates[counts].cells):,} cells are not shown")
        if question.largest is not None:
            counts = _find_counts(question)
            small = self._find_smaller(np.asarray(estimates[counts].cells), question.largest)
            among = max(len(self._labels(table[-1])) for table in question.tables if table)
            estimates = [replace(estimate.suppress(small), among=among) for estimate in estimates]
            notes.append(f"{len(estimates[counts].cells) - len(estimates[counts].suppressed):,} cells are shown")
        if question.round_to is not None:
            estimates = [estimate.round_to(question.round_to) for estimate in estimates]
        shown = zip(outputs, estimates, strict=True)
        return tuple(replace(output, estimate=estimate) for output, estimate in shown), notes

    def _cells_for_shown(self, hidden: Array) -> tuple[int, ...]:
        """Return for each table how many cells there are for one that is shown, rounded up."""
        starts = np.cumsum([0, *self.sizes])
        shown = np.array(self.sizes) - np.diff(np.searchsorted(hidden, starts))
        return tuple(-(-size // max(int(kept), 1)) for size, kept in zip(self.sizes, shown, strict=True))

    def _find_smaller(self, counts: Array, largest: int) -> Array:
        """Return the places of cells that are not among the largest released counts of their group; ties go to earlier keys."""
        smaller = np.zeros(len(counts), dtype=bool)
        start = 0
        for table, size in zip(self.question.tables, self.sizes, strict=True):
            if table:
                groups = counts[start : start + size].reshape(-1, len(self._labels(table[-1])))
                order = np.argsort(-groups, axis=1, kind="stable")
                np.put_along_axis(smaller[start : start + size].reshape(groups.shape), order[:, largest:], True, axis=1)
            start += size
        return np.flatnonzero(smaller)

    def _mechanism(self, measure: MeasuredMeasure, first: str) -> str:
        """Return in words how the cells of a measure were made."""
        if measure.form == "own":
            return f"noise in every cell; of the first table: {first}"
        what = {"residuals": "residuals of tables", "marginals": "tables", "levels": "levels of areas"}[measure.form]
        return f"least squares over {len(measure.measured):,} {what} with noise; of the first: {first}"

    def _estimate(self, measure: MeasuredMeasure, vectors: Sequence[Array]) -> TableCells:
        """Return the cells of one measure from its noisy vectors."""
        about: dict[str, Any] = {
            "tables": self.question.tables,
            "sizes": tuple(self.sizes),
            "noise": measure.noise,
            "unit": measure.query.unit,
        }
        if measure.form == "own":
            own = {
                axes: vector.reshape([self.compiled.sizes[axis] for axis in axes])
                for axes, vector in zip(measure.measured, vectors, strict=True)
            }
            steps = self._in_order(own)
            if measure.finish != "whole":
                return TableCells(cells=scale_cells(steps, measure.query.unit), linear=(), **about)
            shown = scale_cells(np.maximum(steps, 0), measure.query.unit)
            linear = steps.astype(np.float64) * float(measure.query.unit)
            return TableCells(cells=shown, linear=NumberColumn(linear), least=0, **about)
        own_order = tuple(tuple(self.compiled.places(table)) for table in self.question.tables)
        if measure.form == "levels":
            return self._estimate_areas(measure, vectors, own_order, about)
        bases = _bases_of(self.compiled, pure=measure.form == "marginals")
        public = self.compiled.invariants[self.measures.index(measure)]
        about["strategy"] = TableStrategy(
            self.compiled.sizes,
            own_order,
            measure.form,
            measure.measured,
            measure.laws,
            tuple(bases),
            (),
            tuple(public),
        )
        estimates = _estimate_cells(self.compiled.sizes, measure, vectors, self.compiled.axes, bases, public)
        cells = {axes: estimate.cells for axes, estimate in estimates.items()}
        whole = None
        if measure.finish == "whole":
            step = measure.coarse_step
            with contextlib.suppress(NotWhole):
                facts = {axes: exact // step for axes, exact in public.items()}
                whole = make_whole({axes: cells[axes] / step for axes in cells}, ordered=bases, known=facts)
        return self._finish(measure, cells, whole, about)

    def _estimate_areas(
        self, measure: MeasuredMeasure, vectors: Sequence[Array], own_order: tuple[Axes, ...], about: dict[str, Any]
    ) -> TableCells:
        """Return the cells of one measure in nested areas, whole from the widest area down."""
        hierarchy = find_hierarchy(self.compiled)
        parents = tuple(tuple(parent.tolist()) for parent in self.compiled.parents)
        about["strategy"] = TableStrategy(
            self.compiled.sizes, own_order, "levels", measure.measured, measure.laws, (), parents
        )
        noisy = [
            vector.astype(np.float64).reshape(areas, -1) for vector, areas in zip(vectors, hierarchy.areas, strict=True)
        ]
        levels = [estimate.cells for estimate in estimate_levels(hierarchy, noisy, measure.variances)]
        del noisy

        def collect(cells: Sequence[Any]) -> dict[Axes, Any]:
            return {axes: sum_table(axes, self.compiled.sizes, measure.measured, cells) for axes in self.compiled.axes}

        whole = None
        if measure.finish == "whole":
            step = measure.coarse_step
            scaled = levels if step == 1 else [cells / step for cells in levels]
            whole = collect(make_levels_whole(hierarchy, scaled))
        return self._finish(measure, collect(levels), whole, about)

    def _finish(
        self,
        measure: MeasuredMeasure,
        linear: Mapping[Axes, Array],
        whole: Mapping[Axes, Array] | None,
        about: Mapping[str, Any],
    ) -> TableCells:
        """Return the cells that are shown: the linear estimates, in steps, or whole ones, in coarse steps, that they became."""
        unit = measure.query.unit
        estimates = NumberColumn(self._in_order(linear) * float(unit))
        if whole is None:
            return TableCells(cells=estimates, linear=(), **about)
        shown = scale_cells(self._in_order(whole), measure.coarse_step * unit)
        return TableCells(cells=shown, linear=estimates, least=0, **about)

    def _in_order(self, cells: Mapping[Axes, Array]) -> Array:
        """Return the cells of all tables, each in the order of the table's own columns."""
        flat = []
        for table, axes in zip(self.question.tables, self.compiled.axes, strict=True):
            own = [axes.index(place) for place in self.compiled.places(table)]
            flat.append(cells[axes].transpose(own).reshape(-1))
        return np.concatenate(flat)

    def _keys(self) -> tuple[Key, ...]:
        """Return the keys of all cells: which table they are of, and the label in each column, None in columns it has not."""
        blocks: dict[str, list[tuple[Sequence[Any], int, int]]] = {name: [] for name in self.groups}
        for table, size in zip(self.question.tables, self.sizes, strict=True):
            blocks[BY_COLUMNS].append(((name_table(table),), size, 1))
            counts = [len(self._labels(name)) for name in table]
            for key in self.question.keys:
                if key.alias in table:
                    place = table.index(key.alias)
                    each = math.prod(counts[place + 1 :])
                    blocks[key.alias].append((self._labels(key.alias), each, math.prod(counts[:place])))
                else:
                    blocks[key.alias].append(((None,), size, 1))
        kinds = {name: label_kind(self._labels(name)) for name in self.groups[1:]}
        return tuple(Key(name, TiledColumn(tiles), kinds.get(name, "text")) for name, tiles in blocks.items())

    def _labels(self, name: str) -> tuple[Any, ...]:
        place = next(i for i, key in enumerate(self.question.keys) if key.alias == name)
        return self.compiled.keys[place].labels


@dataclass(frozen=True, slots=True)
class MeasureTask:
    """One measure of a tabulation that is to be measured, by its place, at a loss, and how it will be finished."""

    question: Tabulation
    compiled: CompiledTabulation
    measure: int
    loss: Loss
    forecast: NoiseForecast
    finish: Finish

    @property
    def is_pure(self) -> bool:
        """Whether the noise is Laplace."""
        return isinstance(self.loss, PureDP)

    @property
    def unit(self) -> Fraction:
        """The step in which the measure is counted."""
        return self.compiled.vectors[self.measure].unit

    def draft(
        self, query: TabulationQuery | ResidualQuery | LevelQuery, form: Form, measured: tuple[Axes, ...]
    ) -> MeasuredMeasure:
        """Return what a query measures, with the laws of its noise; what that makes of the cells is still to be found."""
        laws = tuple(self.forecast.laws(query, self.loss))
        is_sum = self.compiled.vectors[self.measure].bounds is not None
        return MeasuredMeasure(query, self.loss, form, measured, laws, (), self.finish, is_sum)


def prepare_tabulation(question: Tabulation, forecast: NoiseForecast) -> PreparedTabulation:
    """Return how a tabulation is answered; raises QuestionRefused where it has no private answer.

    Measures share the loss equally, since their errors have no common unit. Tables whose margins add up are measured by the
    strategy of the least sum of squared errors: residuals for Gaussian noise, marginals for Laplace noise; others each by
    itself.
    """
    compiled = compile_tabulation(question, forecast.domain)
    count = len(question.measures)
    loss = _share(forecast.loss, Fraction(1, count))
    measures = []
    refusals: list[LossTooSmall] = []
    notes = list(describe_left_out(question, forecast.domain))
    for i, aggregate in enumerate(question.measures):
        bounds = compiled.vectors[i].bounds
        finish = question.finish
        if finish == "whole" and bounds is not None and bounds[0] < 0:
            notes.append(f"{aggregate.alias} may be below 0, so its tables are linear estimates, not whole ones")
            finish = "linear"
        own = finish == "raw" or not compiled.is_additive(i)
        task = MeasureTask(question, compiled, i, loss, forecast, finish)
        try:
            prepare = _measure_each if own else _measure_strategy if question.levels is None else _measure_levels
            measures.append(prepare(task))
        except LossTooSmall as refused:
            refusals.append(refused)
        if own and finish != "raw":
            notes.append(
                f"{aggregate.alias} counts different values, which do not add up: its tables need not agree in their margins"
            )
    if refusals:
        # The largest loss that a measure needs: with it all measures are as they should be.
        raise max(refusals, key=_needed_amount)
    notes += _describe_invariants(question)
    if any(measure.finish == "whole" for measure in measures):
        notes.append(_BIAS)
    for aggregate, measure in zip(question.measures, measures, strict=True):
        if measure.finish == "whole" and measure.coarse_step > 1:
            step = show_number(float(measure.coarse_step * measure.query.unit))
            notes.append(
                f"{aggregate.alias} is rounded to multiples of {step}, at most a hundredth of its noise's deviation"
            )
    if question.suppress_below is not None:
        notes.append(
            f"cells with a released count below {format_number(question.suppress_below)} are not shown, in any measure"
        )
        notes.append(
            "intervals of shown counts are widened for being chosen: where R of a table's m cells are shown, each has the "
            "confidence 1 - 0.05 R / m, so that at most 5% of the shown ones are expected not to cover (Benjamini, Yekutieli "
            "2005)"
        )
        notes += _describe_threshold(question, compiled, measures[_find_counts(question)])
    if question.largest is not None:
        notes.append(
            f"the {question.largest:,} largest released counts of each group are shown, of the cells that agree in all columns "
            "of a table but its last; chosen for being large, they are too large on average. Their intervals hold together for "
            "the whole group they were chosen from"
        )
    if question.round_to is not None:
        notes.append(
            f"what is shown is rounded to multiples of {format_number(question.round_to)}, each cell by itself: margins may "
            "differ from the sums of their parts by that"
        )
    return PreparedTabulation(question, compiled, tuple(measures), tuple(notes))


def _find_counts(question: Tabulation) -> int:
    """Return the place of the measure that counts rows."""
    return next(i for i, measure in enumerate(question.measures) if isinstance(measure, Count) and measure.of is None)


def _describe_threshold(question: Tabulation, compiled: CompiledTabulation, counts: MeasuredMeasure) -> list[str]:
    """Return how many empty cells a threshold is expected to show, and which cells it hides, from public parameters alone.

    A cell of no rows is shown where its noise reaches the threshold, so of N cells at most N times the chance of that are
    expected, whatever the table is. A cell of as many rows as the threshold is shown half of the time, noise being symmetric.
    """
    threshold = question.suppress_below
    assert threshold is not None
    whole = ", of estimates before tables are made whole" if counts.finish == "whole" else ""
    notes = []
    for table, axes, noise in list(zip(question.tables, compiled.axes, counts.noise, strict=True))[:_LISTED]:
        cells = compiled.cells(axes)
        spurious = show_number(float(f"{cells * noise.chance_beyond(threshold, counts.query.unit):.3g}"))
        # The one-sided quantile of 95% is the two-sided one of 90%.
        sure = float(threshold) + float(noise.error(0.9, counts.query.unit))
        notes.append(
            f"by {name_table(table) or 'no column'}: of {cells:,} cells, at most {spurious} without a row are expected to be "
            f"shown; cells of {show_number(float(threshold))} are shown half of the time, of {show_number(math.ceil(sure))} "
            f"95%{whole}"
        )
    return notes


def _describe_invariants(question: Tabulation) -> list[str]:
    """Return what is to be known of public counts."""
    return [
        f"{i.measure} by {name_table(i.columns) or 'no column'} is public, exact, and not read from the data here "
        f"(SHA-256 {i.digest}): no noise protects it. The loss is that of the noise of everything else, before these "
        "counts were put in: it bounds what is learnt beyond them, not what they tell"
        for i in question.invariants
    ]


def _check_public(compiled: CompiledTabulation, public: Mapping[Axes, Any]) -> None:
    """Raise QuestionRefused where public counts that agree with each other are those of no table."""
    try:
        check_margins(public)
    except NotWhole:
        names = [compiled.question.keys[axis].alias for axis in sorted({axis for axes in public for axis in axes})]
        raise QuestionRefused(
            f"the invariants over {', '.join(names)} are those of no table of counts, or of too many cells to know: each agrees "
            "with each, all of them together do not; leave one out"
        ) from None


def _needed_amount(refused: LossTooSmall) -> float:
    return math.inf if refused.needed is None else float(next(iter(refused.needed.amounts().values())))


def _measure_each(task: MeasureTask) -> MeasuredMeasure:
    """Return the measure that is released table by table, each with noise of its own."""
    question = task.question
    tables = task.compiled.axes
    moved = [task.compiled.sensitivity(task.measure, axes, task.forecast.neighbors) for axes in tables]
    weights = question.weights or (Fraction(1),) * len(tables)
    pure = task.is_pure
    # Laplace noise has a variance of l1^2 / share^2, Gaussian noise of l2^2 / share: these shares make the weighted sum least,
    # or the greatest weighted variance.
    costs = [float(s.l1) if pure else float(s.l2_squared) for s in moved]
    scores = []
    for weight, axes, cost in zip(weights, tables, costs, strict=True):
        if question.objective == "greatest":
            scores.append(math.sqrt(weight) * cost if pure else float(weight) * cost)
        else:
            cells = float(weight) * task.compiled.cells(axes)
            scores.append((cells * cost**2) ** (1 / 3) if pure else math.sqrt(cells * cost))

    def measure_within(limits: Mapping[Axes, float]) -> MeasuredMeasure:
        # Which shares of the loss the limited tables need, beside those that they have without limits.
        needed = [
            score / sum(scores) * limits.get(axes, math.inf) ** (-0.5 if pure else -1)
            for score, axes in zip(scores, tables, strict=True)
        ]
        shares = _shares(_keep_needed(scores, needed))
        draft = task.draft(TabulationQuery(question, task.measure, tables, shares, task.unit), "own", tables)
        square = float(task.unit) ** 2
        return replace(draft, noise=tuple(CellNoise(law.variance() * square, own=law) for law in draft.laws))

    return _keep_errors(task, measure_within)


def _keep_needed(scores: Sequence[float], needed: Sequence[float]) -> list[float]:
    """Return shares in proportion to scores, none below what is needed: the needed ones alone where these pass 1."""
    if sum(needed) >= 1:
        return [max(need, 1e-9) for need in needed]
    fixed: set[int] = set()
    while True:
        left = 1 - sum(needed[place] for place in fixed)
        total = sum(score for place, score in enumerate(scores) if place not in fixed) or 1.0
        shares = [needed[place] if place in fixed else left * score / total for place, score in enumerate(scores)]
        short = {place for place, share in enumerate(shares) if place not in fixed and share < needed[place]}
        if not short:
            return shares
        fixed |= short


def _measure_strategy(task: MeasureTask) -> MeasuredMeasure:
    """Return the measure whose tables follow by least squares from what a strategy measures."""
    question = task.question
    compiled = task.compiled
    tables = compiled.axes
    sizes = compiled.sizes
    pure = task.is_pure
    square = float(task.unit) ** 2
    bases = _bases_of(compiled, pure=pure)
    public = compiled.invariants[task.measure]
    low, high = compiled.vectors[task.measure].bounds or (0, 1)
    # Of values of both signs any margins that agree are those of some table.
    if low >= 0:
        _check_public(compiled, public)
    # A positive value exchanged for a negative one moves the residuals as one added row does, only further.
    relation: Relation = "add_remove" if low < 0 < high else task.forecast.neighbors.relation

    def measure_within(limits: Mapping[Axes, float]) -> MeasuredMeasure:
        strategy = _choose(
            sizes,
            tables,
            question.weights,
            question.objective,
            tuple(limits.items()),
            tuple(bases),
            tuple(public),
            relation=None if pure else relation,
        )
        if not strategy:
            raise QuestionRefused("the invariants say all that the tables ask: nothing is left to measure")
        measured = tuple(entry.axes for entry in strategy)
        shares = tuple(entry.share for entry in strategy)
        marginals = TabulationQuery(question, task.measure, measured, shares, task.unit)
        draft = task.draft(
            marginals if pure else ResidualQuery(marginals), "marginals" if pure else "residuals", measured
        )
        blank = [np.zeros(compiled.cells(axes)) for axes in measured]
        expected = _estimate_cells(sizes, draft, blank, tables, bases, public)
        noise = []
        ranges = {}
        for table, axes in zip(question.tables, tables, strict=True):
            excess = weighted_excess(sizes, measured, draft.variances, axes, known=tuple(public)) if pure else 0.0
            variance = expected[axes].variance
            differing: Sequence[float] = ()
            if any(axis in bases for axis in axes):
                of_cells = cell_variances(sizes, expected[axes].parts, axes, bases) / max(variance, 1e-300)
                own = [axes.index(place) for place in compiled.places(table)]
                differing = NumberColumn(np.minimum(of_cells.transpose(own).reshape(-1), 1.0))
            noise.append(CellNoise(variance * square, excess, None, differing))
            of_ranges = {
                axis: float(range_variances(sizes, expected[axes].parts, axes, axis, bases).max()) * square
                for axis in axes
                if axis in bases
            }
            ranges[table] = tuple((question.keys[axis].alias, variance) for axis, variance in of_ranges.items())
        means: tuple[float, ...] = ()
        if bases:
            means = tuple(mean_variance(sizes, expected[axes].parts, axes, bases) * square for axes in tables)
        divisor = int(np.gcd.reduce([np.gcd.reduce(exact, axis=None) for exact in public.values()] or [0]))
        return replace(draft, noise=tuple(noise), ranges=ranges, mean_variances=means, public_step=divisor)

    return _keep_errors(task, measure_within)


def _measure_levels(task: MeasureTask) -> MeasuredMeasure:
    """Return the measure whose tables are sums over nested areas, each level of which is measured."""
    question = task.question
    compiled = task.compiled
    hierarchy = find_hierarchy(compiled)
    measured = tuple(level_axes(compiled))
    base: list[float] = []

    def measure_within(limits: Mapping[Axes, float]) -> MeasuredMeasure:
        shares = choose_shares(compiled, limits, base, pure=task.is_pure)
        draft = task.draft(LevelQuery(question, task.measure, shares, task.unit), "levels", measured)
        areas = find_area_variances(hierarchy, draft.variances)
        if not limits:
            base[:] = [float(variances.mean()) for variances in areas]
        noise = []
        for table, axes in zip(question.tables, compiled.axes, strict=True):
            level = find_level(axes, measured)
            of_areas = areas[level or 0] if level is not None else np.array([areas[0].sum()])
            # Other cells of an area have noise of their own: a sum of them has the sum of their variances.
            cells = math.prod(compiled.sizes[axis] for axis in measured[0][1:])
            kept = compiled.cells(axes) / len(of_areas)
            variances = of_areas * float(task.unit) ** 2 * cells / kept
            widest = float(variances.max())
            parts: Sequence[float] = ()
            if level is not None and float(variances.min()) < widest * (1 - 1e-9):
                own = [compiled.sizes[place] for place in compiled.places(table)]
                place = compiled.places(table).index(measured[level][0])
                parts = TiledColumn(
                    [((variances / widest).tolist(), math.prod(own[place + 1 :]), math.prod(own[:place]))]
                )
            # A sum of several Laplace noises has tails between those of one of them and normal ones.
            noise.append(CellNoise(widest, 3.0 if task.is_pure else 0.0, None, parts))
        return replace(draft, noise=tuple(noise))

    return _keep_errors(task, measure_within)


def _keep_errors(
    task: MeasureTask, measure_within: Callable[[Mapping[Axes, float]], MeasuredMeasure]
) -> MeasuredMeasure:
    """Return the measure within the errors that are stated for it; raises LossTooSmall where the loss allows none.

    `measure_within` takes the parts of its variance that each table may keep, as its strategy reckons them. What a unit moves
    and the law of the noise make the widths a little wider or narrower than that, so what was missed is corrected for.
    """
    question = task.question
    loss = task.forecast.loss
    alias = question.measures[task.measure].alias
    stated = {error.table: float(error.half_width) for error in question.errors if error.measure == alias}
    answer = measure_within({})
    if not stated:
        return answer
    places = {table: place for place, table in enumerate(question.tables) if table in stated}

    def find_ratios(answer: MeasuredMeasure) -> dict[Table, float]:
        widths = {table: float(answer.noise[place].error(0.95, answer.query.unit)) for table, place in places.items()}
        if answer.form != "own":
            return {table: (width / stated[table]) ** 2 for table, width in widths.items()}
        # Widths of a table with noise of its own are whole steps: one stands for up to half a step more.
        step = float(answer.query.unit)
        aims = {table: math.floor(stated[table] / step + _CLOSE) for table in widths}
        return {table: ((width / step + 0.5) / (aims[table] + 0.5)) ** 2 for table, width in widths.items()}

    first = find_ratios(answer)
    ratios = first
    correction = 1.0
    for _ in range(_TRIES):
        if max(ratios.values()) <= 1 + _CLOSE:
            return answer
        limits = {task.compiled.axes[places[table]]: correction / ratio for table, ratio in first.items() if ratio > 0}
        before = max(ratios.values())
        answer = measure_within(limits)
        ratios = find_ratios(answer)
        correction /= max(ratios.values()) * (1 + _NEARER)
        # A strategy that is far off and no nearer, though the limits are tighter, is as near as any.
        if answer.form != "own" and max(ratios.values()) > max(_FAR, before * (1 - _NEARER)):
            break
    worst = max(ratios, key=lambda table: ratios[table])
    if ratios[worst] <= 1 + _CLOSE:
        return answer
    width = show_number(float(answer.noise[places[worst]].error(0.95, answer.query.unit)))
    # A variance falls with rho, and with the square of epsilon; that of noise in whole steps falls no slower.
    factor = ratios[worst] if isinstance(loss, ZCDP) else math.sqrt(ratios[worst])
    raise LossTooSmall(
        f"{alias} by {name_table(worst) or 'no column'} would be +-{width} at 95% at this loss, not within the "
        f"+-{show_number(stated[worst])} that errors state",
        _share(loss, Fraction(factor) * Fraction(1005, 1000)),
    )


@functools.lru_cache(maxsize=64)
def _choose(
    sizes: tuple[int, ...],
    tables: tuple[Axes, ...],
    weights: tuple[Fraction, ...],
    objective: Objective,
    limits: tuple[tuple[Axes, float], ...],
    ordered: tuple[int, ...],
    known: tuple[Axes, ...],
    *,
    relation: Relation | None,
) -> tuple[Measured, ...]:
    """Return the strategy, of Laplace noise where `relation` is None.

    It is kept: every measure of a question, and the plan that is made again when it is asked, has the same one.
    """
    stated = [float(weight) for weight in weights] if weights else None
    if relation is None:
        return choose_marginals(
            sizes,
            tables,
            weights=stated,
            objective=objective,
            known=known,
            limits=dict(limits),
            ordered={axis: find_cell_basis(sizes[axis]) for axis in ordered},
        )
    return choose_residuals(
        sizes,
        tables,
        weights=stated,
        objective=objective,
        known=known,
        limits=dict(limits),
        ordered={axis: find_range_basis(sizes[axis]) for axis in ordered},
        relation=relation,
    )


def _bases_of(compiled: CompiledTabulation, *, pure: bool) -> dict[int, RangeBasis]:
    """Return the basis in which each ordered column is measured: of ranges under Gaussian noise, of keys under Laplace noise."""
    bases = find_bases(compiled)
    return {axis: find_cell_basis(basis.keys) for axis, basis in bases.items()} if pure else bases


def _estimate_cells(
    sizes: Sequence[int],
    measure: MeasuredMeasure,
    vectors: Sequence[Any],
    tables: Sequence[Axes],
    bases: Mapping[int, RangeBasis],
    public: Mapping[Axes, Any],
) -> dict[Axes, Estimate]:
    """Return the least-squares estimate of each table, in steps of the measure."""
    form = measure.form
    assert form in ("residuals", "marginals")
    noisy = {}
    for axes, vector in zip(measure.measured, vectors, strict=True):
        noisy[axes] = vector.astype(np.float64).reshape([sizes[axis] for axis in axes])
    variances = dict(zip(measure.measured, measure.variances, strict=True))
    return estimate_tables(sizes, noisy, variances, tables, form=form, known=public, ordered=bases)


def weighted_excess(
    sizes: Sequence[int],
    measured: Sequence[Axes],
    variances: Sequence[float],
    table: Axes,
    *,
    known: Sequence[Axes] = (),
) -> float:
    """Return the excess kurtosis of a cell of a table that follows by least squares from marginals with Laplace noise.

    A cell is a weighted sum of all noises. The fourth cumulant of a sum of independent variables is that of each times the
    fourth power of its weight; that of Laplace noise is 3 squared variances. A weight depends on which axes of the noise's
    cell agree with the cell that is estimated, so it is found once for each such pattern. Parts of `known` tables have no noise.
    """
    exact = {part for axes in known for part in subsets(axis for axis in axes if sizes[axis] > 1)}

    def cells(axes: Sequence[int]) -> float:
        return float(math.prod(sizes[axis] for axis in axes))

    wide = [tuple(axis for axis in axes if sizes[axis] > 1) for axes in measured]
    parts = subsets(axis for axis in table if sizes[axis] > 1)
    precision = {
        part: sum(
            cells(part) / (cells(axes) * variance)
            for axes, variance in zip(wide, variances, strict=True)
            if set(part) <= set(axes)
        )
        for part in parts
    }
    second = 0.0
    fourth = 0.0
    for axes, variance in zip(wide, variances, strict=True):
        shared = [axis for axis in axes if axis in table]
        weights = np.zeros(1 << len(shared))
        times = np.full(len(weights), cells([axis for axis in axes if axis not in table]))
        agreeing = [np.arange(len(weights)) >> place & 1 == 1 for place in range(len(shared))]
        for axis, agrees in zip(shared, agreeing, strict=True):
            times = times * np.where(agrees, 1.0, sizes[axis] - 1.0)
        for part in subsets(shared):
            if part in exact:
                continue
            factor = np.full(len(weights), cells(part) ** 2 / (cells(axes) * variance * precision[part] * cells(table)))
            for axis, agrees in zip(shared, agreeing, strict=True):
                if axis in part:
                    factor = factor * np.where(agrees, 1 - 1 / sizes[axis], -1 / sizes[axis])
            weights = weights + factor
        second += float((weights**2 * times).sum()) * variance
        fourth += float((weights**4 * times).sum()) * variance**2
    return min(3.0, 3 * fourth / second**2) if second > 0 else 0.0


def _shares(scores: Sequence[float]) -> tuple[Fraction, ...]:
    """Return shares in proportion to scores, rounded so that they sum to 1 at most; none is 0."""
    total = math.fsum(scores)
    if not total > 0:
        return (Fraction(1, len(scores)),) * len(scores)
    part = _PART * len(scores)
    raised = [max(1, math.floor(score / total * part)) for score in scores]
    return tuple(Fraction(n, max(part, sum(raised))) for n in raised)


def scale_cells(steps: Array, unit: Fraction) -> NumberColumn:
    """Return whole steps in the measure's units, as `scale_steps`: an array where 64 bits and floats hold every product."""
    if steps.dtype == np.int64 and len(steps):
        # Not abs: of the least integer of 64 bits that is itself.
        largest = max(int(steps.max()), -int(steps.min())) * unit.numerator
        if unit.denominator == 1 and largest < 2**63:
            return NumberColumn(steps * unit.numerator)
        # A quotient of two floats that are exact is rounded once, as that of two whole numbers is.
        if unit.denominator != 1 and max(largest, unit.denominator) <= 2**53:
            return NumberColumn(steps * unit.numerator / unit.denominator)
    return NumberColumn(scale_steps(steps.tolist(), unit))


def _share(loss: Loss, share: Fraction) -> Loss:
    """Return a part of a loss."""
    if isinstance(loss, ZCDP):
        return ZCDP(loss.rho * share)
    assert isinstance(loss, PureDP)
    return PureDP(loss.epsilon * share)
