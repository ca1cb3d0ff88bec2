"""How a tabulation is answered: measure tables by a strategy, make the estimates agree, and lay out the release."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, cast

import numpy as np

from sordino.ask.queries.aggregates.sums import Count
from sordino.ask.queries.queryable import ExpectedColumn, NoiseForecast, Queryable, ReleaseContent
from sordino.ask.queries.tabulation import (
    CompiledTabulation,
    Tabulation,
    TabulationQuery,
    compile_tabulation,
    describe_left_out,
)
from sordino.core.estimates.noisy import Noisy, to_units
from sordino.core.estimates.table_cells import BY_COLUMNS, CellNoise, Finish, TableCells, TableStrategy, name_table
from sordino.core.loss import ZCDP, Loss, PureDP, format_number
from sordino.core.noise.laws import NoiseLaw
from sordino.core.release import Key, Output, show_number
from sordino.core.release_exports import label_kind
from sordino.tables.least_squares import Estimate, estimate_tables
from sordino.tables.residual_query import ResidualQuery
from sordino.tables.strategy import Measured, choose_marginals, choose_residuals, subsets
from sordino.tables.whole_tables import NotWhole, make_whole

# Tables whose errors a plan lists in words; `Plan.error` has all of them.
_LISTED = 24
# Shares of a loss are rounded to this part.
_PART = 1 << 24
# The least variance that least squares weighs by, in square steps: noise of a large loss may have one of 0 in floats.
_LEAST = 1e-12
_BIAS = (
    "tables were made whole and not negative after the noise, so small cells are too large on average and large ones too "
    "small; intervals are those of the unbiased estimates before that, cut at 0"
)
_NOT_WHOLE = "no whole tables with these shared margins were found, so these are the linear estimates, some below 0"


Axes = tuple[int, ...]
Form = Literal["residuals", "marginals", "own"]


@dataclass(frozen=True, slots=True)
class MeasuredMeasure:
    """One measure of a tabulation: its query, the loss of that, and what is made of the noisy vectors.

    `form` says what was measured: residuals or marginals, from which the tables follow by least squares; or each table by its
    `own`. `laws` are those of the noise of each vector's entries, in its own steps. `noise` is that of each table's cells.
    """

    query: TabulationQuery | ResidualQuery
    loss: Loss
    form: Form
    measured: tuple[Axes, ...]
    laws: tuple[NoiseLaw, ...]
    noise: tuple[CellNoise, ...]
    finish: Finish
    is_sum: bool

    @property
    def coarse_step(self) -> int:
        """The steps that whole cells are multiples of: 1 for counts, for sums a power of ten up to a hundredth of the deviation.

        It follows from public parameters. A sum of cents with a deviation of 10^9 cents has no use for single cents, and to
        make whole tables of them agree would move these one by one.
        """
        if not self.is_sum:
            return 1
        deviation = min(math.sqrt(noise.variance) for noise in self.noise) / float(self.query.unit)
        return int(10 ** max(0, math.floor(math.log10(max(deviation, 1)) - 2)))

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
        """The weighted sum of squared errors of all cells, each measure in its own steps."""
        weights = self.question.weights or (Fraction(1),) * len(self.question.tables)
        return math.fsum(
            float(weight) * size * noise.variance / float(measure.query.unit) ** 2
            for measure in self.measures
            for weight, size, noise in zip(weights, self.sizes, measure.noise, strict=True)
        )

    def queries(self) -> list[TabulationQuery | ResidualQuery]:
        """Return the query of each measure."""
        return [measure.query for measure in self.measures]

    def columns(self, confidence: float) -> list[ExpectedColumn]:
        """Return the widest error of each measure, and the error of each table in words."""
        columns = []
        for aggregate, measure in zip(self.question.measures, self.measures, strict=True):
            widths = [noise.error(confidence, measure.query.unit) for noise in measure.noise]
            names = [name_table(table) or "total" for table in self.question.tables]
            lines = [f"{name}: +-{show_number(width)}" for name, width in zip(names, widths, strict=True)]
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
            vectors = [output.estimate for output in released.outputs]
            estimate = self._estimate(measure, [cast(Noisy, vector).steps for vector in vectors])
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
            counts = next(
                i for i, measure in enumerate(question.measures) if isinstance(measure, Count) and measure.of is None
            )
            small = [i for i, cell in enumerate(estimates[counts].cells) if cell < question.suppress_below]
            estimates = [estimate.suppress(small) for estimate in estimates]
            notes.append(f"{len(small):,} of {len(estimates[counts].cells):,} cells are not shown")
        if question.round_to is not None:
            estimates = [estimate.round_to(question.round_to) for estimate in estimates]
        shown = zip(outputs, estimates, strict=True)
        return tuple(replace(output, estimate=estimate) for output, estimate in shown), notes

    def _mechanism(self, measure: MeasuredMeasure, first: str) -> str:
        """Return in words how the cells of a measure were made."""
        if measure.form == "own":
            return f"noise in every cell; of the first table: {first}"
        what = "residuals of tables" if measure.form == "residuals" else "tables"
        return f"least squares over {len(measure.measured):,} {what} with noise; of the first: {first}"

    def _estimate(self, measure: MeasuredMeasure, vectors: Sequence[Sequence[int]]) -> TableCells:
        """Return the cells of one measure from its noisy vectors."""
        unit = measure.query.unit
        about: dict[str, Any] = {
            "tables": self.question.tables,
            "sizes": tuple(self.sizes),
            "noise": measure.noise,
            "unit": unit,
        }
        if measure.form == "own":
            own = {}
            for axes, vector in zip(measure.measured, vectors, strict=True):
                shape = [self.compiled.sizes[axis] for axis in axes]
                own[axes] = np.array([*vector], dtype=object).reshape(shape)
            steps = self._in_order(own, 1)
            if measure.finish != "whole":
                return TableCells(cells=tuple(to_units(step, unit) for step in steps), linear=(), **about)
            linear = tuple(float(step * unit) for step in steps)
            return TableCells(
                cells=tuple(to_units(max(step, 0), unit) for step in steps), linear=linear, least=0, **about
            )
        own_order = tuple(tuple(self.compiled.places(table)) for table in self.question.tables)
        about["strategy"] = TableStrategy(self.compiled.sizes, own_order, measure.form, measure.measured, measure.laws)
        estimates = _estimate_cells(self.compiled.sizes, measure, vectors, self.compiled.axes)
        cells = {axes: estimate.cells for axes, estimate in estimates.items()}
        linear = self._in_order(cells, float(unit))
        if measure.finish == "whole":
            step = measure.coarse_step
            try:
                whole = make_whole({axes: estimate / step for axes, estimate in cells.items()})
            except NotWhole:
                pass
            else:
                shown = tuple(to_units(int(count) * step, unit) for count in self._in_order(whole, 1))
                return TableCells(cells=shown, linear=linear, least=0, **about)
        return TableCells(cells=linear, linear=(), **about)

    def _in_order(self, cells: Mapping[Axes, Any], factor: float) -> tuple[Any, ...]:
        """Return the cells of all tables, times a factor: each in the order of the table's own columns."""
        flat: list[Any] = []
        for table, axes in zip(self.question.tables, self.compiled.axes, strict=True):
            own = [axes.index(place) for place in self.compiled.places(table)]
            turned = cells[axes].transpose(own) * factor
            flat += np.reshape(turned, -1).tolist()
        return tuple(flat)

    def _keys(self) -> tuple[Key, ...]:
        """Return the keys of all cells: which table they are of, and the label in each column, None in columns it has not."""
        labels: dict[str, list[Any]] = {name: [] for name in self.groups}
        for table, size in zip(self.question.tables, self.sizes, strict=True):
            labels[BY_COLUMNS] += [name_table(table)] * size
            own = {name: i for i, name in enumerate(table)}
            declared = [self._labels(name) for name in table]
            rows = list(itertools.product(*declared))
            for key in self.question.keys:
                name = key.alias
                labels[name] += [row[own[name]] for row in rows] if name in own else [None] * size
        kinds = {name: label_kind(self._labels(name)) for name in self.groups[1:]}
        return tuple(Key(name, tuple(column), kinds.get(name, "text")) for name, column in labels.items())

    def _labels(self, name: str) -> tuple[Any, ...]:
        place = next(i for i, key in enumerate(self.question.keys) if key.alias == name)
        return self.compiled.keys[place].labels


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
    notes = list(describe_left_out(question, forecast.domain))
    for i, aggregate in enumerate(question.measures):
        bounds = compiled.vectors[i].bounds
        finish = question.finish
        if finish == "whole" and bounds is not None and bounds[0] < 0:
            notes.append(f"{aggregate.alias} may be below 0, so its tables are linear estimates, not whole ones")
            finish = "linear"
        if finish == "raw" or not compiled.is_additive(i):
            if finish != "raw":
                notes.append(
                    f"{aggregate.alias} counts different values, which do not add up: its tables need not agree in their margins"
                )
            measures.append(_measure_each(question, compiled, i, loss, forecast, finish))
        else:
            measures.append(_measure_strategy(question, compiled, i, loss, forecast, finish))
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
    if question.round_to is not None:
        notes.append(
            f"what is shown is rounded to multiples of {format_number(question.round_to)}, each cell by itself: margins may "
            "differ from the sums of their parts by that"
        )
    return PreparedTabulation(question, compiled, tuple(measures), tuple(notes))


def _measure_each(
    question: Tabulation,
    compiled: CompiledTabulation,
    measure: int,
    loss: Loss,
    forecast: NoiseForecast,
    finish: Finish,
) -> MeasuredMeasure:
    """Return the measure that is released table by table, each with noise of its own."""
    tables = compiled.axes
    moved = [compiled.sensitivity(measure, axes, forecast.neighbors) for axes in tables]
    weights = question.weights or (Fraction(1),) * len(tables)
    pure = isinstance(loss, PureDP)
    # Laplace noise has a variance of l1^2 / share^2, Gaussian noise of l2^2 / share: these shares make the weighted sum least.
    scores = []
    for weight, axes, sensitivity in zip(weights, tables, moved, strict=True):
        cells = float(weight) * compiled.cells(axes)
        scores.append(
            (cells * float(sensitivity.l1) ** 2) ** (1 / 3)
            if pure
            else math.sqrt(cells * float(sensitivity.l2_squared))
        )
    unit = compiled.vectors[measure].unit
    is_sum = compiled.vectors[measure].bounds is not None
    query = TabulationQuery(question, measure, tables, _shares(scores), unit)
    laws = tuple(forecast.laws(query, loss))
    noise = tuple(CellNoise(law.variance() * float(unit) ** 2, own=law) for law in laws)
    return MeasuredMeasure(query, loss, "own", tables, laws, noise, finish, is_sum)


def _measure_strategy(
    question: Tabulation,
    compiled: CompiledTabulation,
    measure: int,
    loss: Loss,
    forecast: NoiseForecast,
    finish: Finish,
) -> MeasuredMeasure:
    """Return the measure whose tables follow by least squares from what a strategy measures."""
    unit = compiled.vectors[measure].unit
    is_sum = compiled.vectors[measure].bounds is not None
    tables = compiled.axes
    pure = isinstance(loss, PureDP)
    strategy = _choose(compiled.sizes, tables, question.weights, pure=pure)
    measured = tuple(entry.axes for entry in strategy)
    marginals = TabulationQuery(question, measure, measured, tuple(entry.share for entry in strategy), unit)
    query = marginals if pure else ResidualQuery(marginals)
    laws = tuple(forecast.laws(query, loss))
    draft = MeasuredMeasure(query, loss, "marginals" if pure else "residuals", measured, laws, (), finish, is_sum)
    blank = [np.zeros(compiled.cells(axes)) for axes in measured]
    expected = _estimate_cells(compiled.sizes, draft, blank, tables)
    square = float(unit) ** 2
    noise = []
    for axes in tables:
        excess = weighted_excess(compiled.sizes, measured, draft.variances, axes) if pure else 0.0
        noise.append(CellNoise(expected[axes].variance * square, excess))
    return replace(draft, noise=tuple(noise))


@functools.lru_cache(maxsize=64)
def _choose(
    sizes: tuple[int, ...], tables: tuple[Axes, ...], weights: tuple[Fraction, ...], *, pure: bool
) -> tuple[Measured, ...]:
    """Return the strategy; every measure of a question, and the plan that is made again when it is asked, has the same one."""
    stated = [float(weight) for weight in weights] if weights else None
    return (choose_marginals if pure else choose_residuals)(sizes, tables, weights=stated)


def _estimate_cells(
    sizes: Sequence[int], measure: MeasuredMeasure, vectors: Sequence[Any], tables: Sequence[Axes]
) -> dict[Axes, Estimate]:
    """Return the least-squares estimate of each table, in steps of the measure."""
    form = measure.form
    assert form != "own"
    noisy = {}
    for axes, vector in zip(measure.measured, vectors, strict=True):
        noisy[axes] = np.array([float(step) for step in vector]).reshape([sizes[axis] for axis in axes])
    return estimate_tables(sizes, noisy, dict(zip(measure.measured, measure.variances, strict=True)), tables, form=form)


def weighted_excess(sizes: Sequence[int], measured: Sequence[Axes], variances: Sequence[float], table: Axes) -> float:
    """Return the excess kurtosis of a cell of a table that follows by least squares from marginals with Laplace noise.

    A cell is a weighted sum of all noises. The fourth cumulant of a sum of independent variables is that of each times the
    fourth power of its weight; that of Laplace noise is 3 squared variances. A weight depends on which axes of the noise's
    cell agree with the cell that is estimated, so it is found once for each such pattern.
    """

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


def _share(loss: Loss, share: Fraction) -> Loss:
    """Return a part of a loss."""
    if isinstance(loss, ZCDP):
        return ZCDP(loss.rho * share)
    assert isinstance(loss, PureDP)
    return PureDP(loss.epsilon * share)
