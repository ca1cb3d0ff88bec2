"""How a tabulation is answered: measure tables by a strategy, make the estimates agree, and lay out the release."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sordino.ask.queries.queryable import ExpectedColumn, NoiseForecast, Queryable, ReleaseContent
from sordino.ask.queries.tabulation import (
    CompiledTabulation,
    Tabulation,
    TabulationQuery,
    compile_tabulation,
    describe_left_out,
)
from sordino.core.estimates.noisy import to_units
from sordino.core.estimates.table_cells import BY_COLUMNS, CellNoise, TableCells, name_table
from sordino.core.loss import ZCDP, Loss, PureDP
from sordino.core.noise.laws import NoiseLaw
from sordino.core.release import Key, Output, show_number
from sordino.core.release_exports import label_kind

# Tables whose errors a plan lists in words; `Plan.error` has all of them.
_LISTED = 24
# Shares of a loss are rounded to this part.
_PART = 1 << 24


@dataclass(frozen=True, slots=True)
class MeasuredMeasure:
    """One measure of a tabulation: the query that it is released by, its loss, and the noise of each table that is answered."""

    query: TabulationQuery
    loss: Loss
    laws: tuple[NoiseLaw, ...]
    noise: tuple[CellNoise, ...]


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

    def queries(self) -> list[TabulationQuery]:
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
            columns.append(
                ExpectedColumn(aggregate.alias, aggregate.describe(), float(widest), "value", words, tuple(lines))
            )
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
        for i, aggregate in enumerate(self.question.measures):
            measure = self.measures[i]
            released = queryable.release(measure.query, measure.loss)
            noisy = [output.estimate for output in released.outputs]
            estimate = self._estimate(i, noisy)
            outputs.append(Output(aggregate.alias, estimate, released.outputs[0].mechanism))
        return ReleaseContent(self._keys(), tuple(outputs), notes=self.notes)

    def _estimate(self, place: int, noisy: Sequence[Any]) -> TableCells:
        """Return the cells of one measure from its noisy vectors."""
        measure = self.measures[place]
        unit = measure.query.unit
        cells = tuple(to_units(step, unit) for vector in noisy for step in vector.steps)
        return TableCells(self.question.tables, tuple(self.sizes), cells, (), measure.noise, unit)

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
    """Return how a tabulation is answered; raises QuestionRefused where it has no private answer."""
    compiled = compile_tabulation(question, forecast.domain)
    count = len(question.measures)
    loss = _share(forecast.loss, Fraction(1, count))
    measures = tuple(_measure_each(question, compiled, i, loss, forecast) for i in range(count))
    return PreparedTabulation(question, compiled, measures, describe_left_out(question, forecast.domain))


def _measure_each(
    question: Tabulation, compiled: CompiledTabulation, measure: int, loss: Loss, forecast: NoiseForecast
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
    query = TabulationQuery(question, measure, tables, _shares(scores), unit)
    laws = tuple(forecast.laws(query, loss))
    noise = tuple(CellNoise(law.variance() * float(unit) ** 2, own=law) for law in laws)
    return MeasuredMeasure(query, loss, laws, noise)


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
