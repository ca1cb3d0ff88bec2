"""Series over a curator's table: opened for one charge, then released period by period with noise from one key.

Only the curator sees exact numbers. A step's record is durable before its numbers leave, and there is one record a step, so
no draw hides two different numbers.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.ask.curator.adaptive_session import adaptive_event
from sordino.ask.curator.charging import Charging, failure_of, name_tables, write_answer
from sordino.ask.curator.explain import explain_charge
from sordino.ask.curator.plan import (
    Answer,
    DataAccess,
    Plan,
    PlannedColumn,
    PlannedRows,
    Procedure,
    StatementWriter,
    TableContext,
    open_rows,
    price,
)
from sordino.ask.engines.engine import Engine
from sordino.ask.queries.query import refuse_foreign
from sordino.ask.queries.queryable import ReleaseContent
from sordino.ask.queries.series import (
    TOTAL,
    CompiledSeries,
    SeriesQuestion,
    SeriesStep,
    opening_note,
    period_name,
    read_period,
    recall_series,
)
from sordino.ask.queries.tabulation import describe_left_out
from sordino.core.errors import DeclarationError, LedgerError, QuestionRefused, SourceError, UnknownName, arg
from sordino.core.ledger.series_ledger import SeriesLedger, SeriesRecord, StepRecord
from sordino.core.loss import ZCDP, Loss, PureDP, loss_from_numbers, loss_to_numbers
from sordino.core.mechanisms.continual_noise import (
    ContinualDraws,
    ContinualGaussian,
    bound_moves,
    bound_unit_moves,
)
from sordino.core.neighbors import Neighbors
from sordino.core.noise.laws import DiscreteGaussian
from sordino.core.noise.rng import NoiseKey, Rng
from sordino.core.release import Release, show_number

if TYPE_CHECKING:
    from sordino.ask.engines.engine import Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesProcedure(Procedure):
    """How a series is priced: one event for all of its periods."""

    compiled: CompiledSeries
    noise: ContinualGaussian
    table: TableContext

    def columns(self, confidence: float) -> Sequence[PlannedColumn]:
        """Return the error of a period's number, and that of a running total at the last period."""
        series = self.compiled.question
        horizon = series.horizon
        measure = series.measure
        one = [(1, horizon), (-1, horizon - 1)]
        about = (
            (measure.alias, measure.describe(), one, f"of one {series.every}"),
            (TOTAL, f"the running total of {measure.describe()}", [(1, horizon)], f"after {horizon:,} periods"),
        )
        columns = []
        for name, question, terms, words in about:
            law_of_noise = DiscreteGaussian(Fraction(math.ceil(self.noise.noise_variance(terms))))
            error = float(law_of_noise.error(confidence) * self.compiled.unit / self.noise.fine)
            spoken = f"+-{show_number(error)} at {100 * confidence:g}% {words}"
            law = {"expected_error": error, "mechanism": self.noise.describe()}
            columns.append(PlannedColumn((name,), question, (error,), "value", (spoken,), (law,), ()))
        return columns

    def write(self, rows: StatementWriter) -> list[Statement]:
        """Write the statements of the first period that may have rows, so that what an engine cannot express is refused."""
        question = self.compiled.question
        first = self.compiled.first if question.start is None else question.start
        query = question.query(first, first, self.table.domain, start=first)
        return [rows.write(query.select(rows.primitives()))]

    def release(self, statements: Any, rows: DataAccess, rng: Rng) -> Answer:
        """Raise QuestionRefused: a series is opened by its own call."""
        del statements, rows, rng
        raise QuestionRefused('a series is opened by table.series(...), and released by series.release("2026-11-24")')


def plan_series(question: SeriesQuestion, table: TableContext, *, asked: Loss) -> Plan:
    """Return the plan of a whole series: its event is that of all its periods together.

    Raises QuestionRefused for a loss without Gaussian noise, a privacy unit of rows that cannot be bounded from the past
    alone, and a series that has no private answer.
    """
    refuse_foreign(question)
    if isinstance(asked, PureDP):
        raise QuestionRefused(
            "a series draws Gaussian noise, for which no epsilon alone is enough: state rho, or epsilon and delta"
        )
    compiled = question.compile(table.domain)
    neighbors = table.neighbors
    question = _settle_limits(question, neighbors)
    compiled = replace(compiled, question=question)
    event, inner = adaptive_event(asked)
    assert isinstance(inner, ZCDP)
    participation = question.participation
    if participation is None:
        rows = neighbors.contributions
        moved = bound_moves(compiled.bounds, rows, neighbors.relation)
    else:
        each = question.max_rows_per_period
        assert each is not None
        rows = each * participation.most(question.horizon)
        moved = bound_unit_moves(compiled.bounds, each, neighbors.relation)
    # Under replace a unit's rows leave as many cells as they enter.
    touched = rows if neighbors.relation == "add_remove" else 2 * rows
    if not moved:
        raise QuestionRefused("no row can change this series: the bounds of its measure are 0")
    noise = ContinualGaussian(moved, min(touched, compiled.cells), inner.rho, question.horizon, participation)
    procedure = SeriesProcedure(
        question=question,
        event=event,
        groups=question.names,
        rows=PlannedRows(compiled.cells, f"{compiled.cells:,} a period"),
        notes=(
            *_notes(question),
            *_left_out(compiled, table),
            *_describe_limits(question, neighbors),
        ),
        compiled=compiled,
        noise=noise,
        table=table,
    )
    return price(procedure, table, asked=asked)


def _settle_limits(question: SeriesQuestion, neighbors: Neighbors) -> SeriesQuestion:
    """Return the question with the bounds on a unit's periods and rows that it is asked with.

    Raises QuestionRefused where a column names the units and no periods are stated, or none does and they are; and where more
    rows of a period are stated than the declaration allows.
    """
    if neighbors.id_column is None:
        if question.max_periods is None:
            return question
        reason = (
            "each row is one" if neighbors.unit is None else "their rows are promised, and nothing can enforce more"
        )
        raise QuestionRefused(
            f"max_periods bounds the periods in which one unit counts, and this table has no column of units: {reason}. Leave "
            "it out, or declare PrivacyUnit(column, max_rows=...)"
        )
    people = neighbors.people
    if question.max_periods is None:
        every = question.every
        raise QuestionRefused(
            f"this table protects all rows of one {people}: state in how many periods one counts, such as "
            f"{arg('max_periods=')}4, of all {question.horizon:,} {every}s of the series, or of each so many with "
            f"{arg('window=')}28. Which rows count follows from earlier ones alone, so what was released stays true"
        )
    assert neighbors.unit is not None
    most = neighbors.unit.total_rows
    rows = most if question.max_rows_per_period is None else question.max_rows_per_period
    if rows > most:
        raise QuestionRefused(
            f"max_rows_per_period = {rows:,} is above the {most:,} rows of one {people} that the table's declaration allows: a "
            "series's bounds may only be tighter"
        )
    return replace(question, max_rows_per_period=rows)


def _describe_limits(question: SeriesQuestion, neighbors: Neighbors) -> tuple[str, ...]:
    """Return notes about rows of a unit that do not count."""
    participation = question.participation
    if participation is None:
        return neighbors.describe_caps()
    rows = question.max_rows_per_period
    assert rows is not None
    people = neighbors.people
    windows = "counted from the series' first, " if participation.window < question.horizon else ""
    return (
        f"one {people} counts in {participation.describe(question.every)}, {windows}the first in which it has rows, and with at "
        f"most {rows:,} row{'' if rows == 1 else 's'} in each; its rows beyond are not counted",
        *neighbors.describe_ids(),
    )


def _left_out(compiled: CompiledSeries, table: TableContext) -> list[str]:
    notes = describe_left_out(compiled.tabulation.question, table.domain)
    return [note.replace("of every table", "of every period") for note in notes]


def _notes(question: SeriesQuestion) -> tuple[str, ...]:
    return (
        f"one charge for the whole series of at most {question.horizon:,} periods, counted from its first",
        "rows are append-only, as you declare: a row whose date or key is edited after its release counts twice, and a row "
        "that comes after its period was released is in no later period",
    )


class SeriesSession:
    """An open series: reads what its steps released, and releases the next one (a `SeriesQueryable`).

    Theorem: the releases of a series on record are `ContinualGaussian`'s, so the charge pays for all of them. Proof: a step's
    number follows from its period, and the rows of a period from its days, so a row is in one step. The numbers of a step
    are functions of the rows read for it and of the draws of its key up to it. They leave only when they are on record, and a
    transaction records one step of each number, after the one that the step was computed from: so whatever fails, and
    whoever else releases, what is seen of a step is one reading of its rows. Steps between are computed into the total
    alone, which is a function of what they would have released. A step that failed left nothing, and its draws hide the
    next reading of the same step alone.
    """

    def __init__(
        self,
        record: SeriesRecord,
        plan: Plan,
        *,
        table: TableContext,
        charging: Charging,
        engine: Engine,
        private: bool,
    ) -> None:
        assert isinstance(plan.procedure, SeriesProcedure)
        self._record = record
        self._plan = plan
        self._procedure = plan.procedure
        self._table = table
        self._charging = charging
        self._series = SeriesLedger(charging.ledger)
        self._engine = engine
        self._private = private
        self._draws: tuple[NoiseKey, ContinualDraws] | None = None

    @property
    def name(self) -> str:
        """The name of the series."""
        return self._record.name

    @property
    def compiled(self) -> CompiledSeries:
        """The question, over the table's domain."""
        return self._procedure.compiled

    @property
    def neighbors(self) -> Neighbors:
        """Which tables count as neighbors."""
        return self._table.neighbors

    @property
    def fine(self) -> int:
        """The fine steps of a step of the measure."""
        return self._procedure.noise.fine

    @property
    def plan(self) -> Plan:
        """The plan of the whole series."""
        return self._plan

    @property
    def opening(self) -> Release:
        """The release on record of the charge that paid for the series."""
        return Release.from_dict(json.loads(self._charging.ledger.answer(self._record.charge)))

    @property
    def mechanism(self) -> str:
        """The mechanism in words."""
        return self._procedure.noise.describe()

    def noise_variance(self, terms: Sequence[tuple[int, int]]) -> Fraction:
        """Return a bound of the variance of a sum of totals' noises, in squared fine steps; `terms` are (weight, step)."""
        return self._procedure.noise.noise_variance(terms)

    def steps(self) -> list[SeriesStep]:
        """Return all released steps, in order."""
        return [self._read(record) for record in self._series.steps(self.name)]

    def periods(self) -> list[int]:
        """Return the released periods, in order; no number is read."""
        start = self.start()
        return [] if start is None else [start + number - 1 for number in self._series.numbers(self.name)]

    def step_at(self, period: int) -> SeriesStep | None:
        """Return the released step of a period; None where it was not released."""
        start = self.start()
        if start is None or period < start:
            return None
        record = self._series.step(self.name, period - start + 1)
        return None if record is None else self._read(record)

    def explain(self) -> str:
        """Return what the whole series reveals at most about one unit."""
        return explain_charge(self._charging.ledger, self.opening)

    def check_next(self, period: int) -> None:
        """Raise QuestionRefused for a period that could not be released now; nothing is read but the ledger."""
        self.compiled.check(period)
        if self.step_at(period) is not None:
            return
        start = self.start()
        first = period if start is None else start
        self._check_order(period, period - first + 1, first, self._series.last(self.name))

    def advance(self, period: int) -> SeriesStep:
        """Release a period that comes after all that were released, for good; return it as recorded.

        Raises QuestionRefused for a period outside of the declared days, before the last one released, or beyond the horizon;
        LedgerError where the series has ended or its key is lost; SourceError where the rows cannot be read, which
        leaves the series as it was.
        """
        question = self.compiled.question
        self.compiled.check(period)
        while True:
            start = self.start()
            first = period if start is None else start
            step = period - first + 1
            last = self._series.last(self.name)
            if last is not None and last.step == step:
                return self._read(last)
            self._check_order(period, step, first, last)
            key, draws = self._open_draws()
            before = 0 if last is None else last.step
            answer, seal = self._compute(step, period, last, key, draws)
            text = period_name(period, question.every)
            recorded = self._series.record(self.name, StepRecord(step, text, answer, seal, ""), after=before)
            # None where another process released another period in the meantime
            if recorded is not None and recorded.period == text:
                return self._read(recorded)

    def _check_order(self, period: int, step: int, first: int, last: StepRecord | None) -> None:
        question = self.compiled.question
        text = period_name(period, question.every)
        if last is not None and step < last.step:
            raise QuestionRefused(
                f"{text} comes before {last.period}, the last period released, and was not released itself: a series only goes "
                f"on. Release {period_name(period + last.step - step + 1, question.every)} or later"
            )
        if step < 1:
            raise QuestionRefused(f"{text} comes before {period_name(first, question.every)}, where the series starts")
        if step > question.horizon:
            end = period_name(first + question.horizon - 1, question.every)
            raise QuestionRefused(
                f"{text} lies beyond the horizon of {question.horizon:,} periods, which ends with {end}: open another series, "
                "under another name, which is charged anew"
            )

    def start(self) -> int | None:
        """Return the first period of the series; None while that is open."""
        question = self.compiled.question
        if question.start is not None:
            return question.start
        first = self._series.first(self.name)
        return None if first is None else read_period(first.period, question.every) - first.step + 1

    def _open_draws(self) -> tuple[NoiseKey, ContinualDraws]:
        """Return the key and its draws; the ledger is asked each time whether the series may go on."""
        record = self._series.get(self.name)
        key = self._series.key(record, private=self._private)
        if self._draws is None or record != self._record:
            self._record = record
            self._draws = key, ContinualDraws(self._procedure.noise, key, self.compiled.cells)
        return self._draws

    def _compute(
        self, step: int, period: int, last: StepRecord | None, key: NoiseKey, draws: ContinualDraws
    ) -> tuple[str, str]:
        """Return the numbers of a step as JSON text, and the seal of its noise. Nothing of it may leave before it is recorded."""
        before = 0 if last is None else last.step
        noise_before, noise_previous, noise = draws.totals([before, step - 1, step])
        if last is not None and _seal(key, before, noise_before) != last.seal:
            raise LedgerError(
                f"the series {self.name!r} cannot go on: its noise, drawn again, is not that of {last.period}. Use the version "
                "of Sordino that released it"
            )
        domain = self._table.domain
        question = self.compiled.question
        start = period - step + 1
        queries = [question.query(period, period, domain, start=start)]
        if step - 1 > before:
            queries.append(question.query(start + before, period - 1, domain, start=start))
        try:
            with open_rows(self._engine) as rows:
                writer = rows.writer()
                statements = [writer.write(query.select(writer.primitives())) for query in queries]
                exact = [query.read(rows.run(statement)) for query, statement in zip(queries, statements, strict=True)]
        except Exception as failure:
            # of any kind: its message may quote a cell
            cause = failure_of(failure).cause or "check that the source is whole and readable"
        else:
            cause = ""
        if cause:
            raise SourceError(
                f"the period could not be computed: {cause}. Nothing was released or charged, and the series is as it was: "
                "ask again"
            )
        fine = self._procedure.noise.fine
        counts = _scale(exact[0], fine) + (noise - noise_previous)
        added = sum((_scale(one, fine) for one in exact[1:]), start=_scale(exact[0], fine))
        totals = added + (noise - noise_before)
        if last is not None:
            totals = totals + np.array(json.loads(last.answer)["totals"], dtype=object)
        answer = {"counts": counts.tolist(), "totals": totals.tolist()}
        return json.dumps(answer, separators=(",", ":")), _seal(key, step, noise)

    def _read(self, record: StepRecord) -> SeriesStep:
        numbers = json.loads(record.answer)
        period = read_period(record.period, self.compiled.question.every)
        return SeriesStep(
            period, record.step, tuple(numbers["counts"]), tuple(numbers["totals"]), record.time, record.record
        )


def open_series_session(
    table: TableContext,
    charging: Charging,
    engine: Engine,
    rng: Rng,
    *,
    question: SeriesQuestion | None,
    name: str | None,
    asked: Loss | None,
    confirm: Callable[[Plan], None] | None = None,
) -> SeriesSession:
    """Return the series of this name: charged and put on record now, or opened again with the same arguments at no cost.

    Without a question and a loss it is opened again with those on record; raises UnknownName where there is none.
    Raises QuestionRefused where a durable ledger has no name for it, or where a series of this name was opened with other
    arguments; BudgetExhausted where the budget does not cover it.
    """
    series = SeriesLedger(charging.ledger)
    if name is None:
        if charging.ledger.path is not None:
            raise QuestionRefused(
                'a series on a durable ledger has a name, by which it is opened again: name="visits by ward"'
            )
        name = f"series {len(series.names()) + 1}"
    if not isinstance(name, str) or not name.strip() or len(name) > 200:
        raise QuestionRefused("the name of a series is text of 1 to 200 characters")
    if question is None or asked is None:
        opened_before = series.get(name).arguments
        if opened_before["table"] != table.name:
            raise UnknownName(
                f"the series {name!r:.60} is of the table {opened_before['table']!r:.60}, not of {table.name!r:.60}"
            )
        question = recall_series(opened_before)
        asked = loss_from_numbers(opened_before["loss"])
    plan = plan_series(question, table, asked=asked)
    assert isinstance(plan.procedure, SeriesProcedure)
    arguments = _arguments(plan, plan.procedure)
    record = series.find(name)
    if record is None:
        with open_rows(engine) as rows:
            # what the engine cannot express is refused here, and costs nothing
            plan.procedure.write(rows.writer())
        if confirm is not None:
            confirm(charging.look_back(plan))
        charging.declare()
        opened = name

        def answer(charge: Any) -> str:
            content = ReleaseContent(notes=(opening_note(opened),))
            return write_answer(charging.make_release(plan, charge, content), charge)

        record = series.open(
            name,
            event=plan.event,
            note=f"{name_tables(plan.table_shares)}: {plan.words}"[:1000],
            question=plan.identity(),
            arguments=arguments,
            key=series.draw_key(rng),
            answer=answer,
            spender=charging.spender,
        )
    _refuse_other(name, record.arguments, arguments)
    return SeriesSession(record, plan, table=table, charging=charging, engine=engine, private=rng.private)


def _arguments(plan: Plan, procedure: SeriesProcedure) -> dict[str, Any]:
    """Return what a series was opened with, and what its noise follows from, as plain data."""
    compiled = procedure.compiled
    noise = procedure.noise
    labels = json.dumps([[str(label) for label in key.labels] for key in compiled.keys], ensure_ascii=False)
    return {
        "table": plan.table_name,
        **compiled.question.arguments(),
        "loss": {**loss_to_numbers(plan.asked)},
        "keys": hashlib.sha256(labels.encode()).hexdigest(),
        "step": str(compiled.unit),
        "moved_squared": str(noise.moved_squared),
        "cells": noise.cells,
        "neighbors": plan.neighbors.to_dict(),
    }


_WORDS = {
    "keys": "the declared keys of by=",
    "step": "the measure's declared resolution",
    "moved_squared": "the measure's declared bounds",
    "cells": "the declared keys of by=",
    "neighbors": "the declared neighbors",
    "loss": "the loss",
    "table": "the table",
}


def _refuse_other(name: str, recorded: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    """Raise DeclarationError where a series of this name was opened with other arguments."""
    # as both are in JSON
    now = json.loads(json.dumps(arguments))
    # the whole question says the same as measure, by and where
    changed = [name for name in now if name != "question" and now[name] != recorded.get(name)]
    if not changed:
        return
    first = changed[0]
    words = _WORDS.get(first, f"{first}=")
    values = f": {recorded.get(first)!r:.80} then, {now[first]!r:.80} now" if first not in ("keys", "cells") else ""
    raise DeclarationError(
        f"the series {name!r:.60} was opened with another value of {words}{values}. Open it with the same arguments, or "
        "another one under another name, which is charged"
    )


def _scale(exact: Any, fine: int) -> Any:
    """Return exact numbers in fine steps, in whole numbers of any size where 64 bits might not hold them and their noise."""
    numbers = np.asarray(exact)
    largest = int(np.abs(numbers).max(initial=0))
    return (numbers if largest * fine < 1 << 60 else numbers.astype(object)) * fine


def _seal(key: NoiseKey, step: int, noise: Any) -> str:
    """Return the code of the noise of a step's totals, by which noise that is drawn otherwise later is noticed."""
    return key.seal(json.dumps(noise.tolist()).encode(), "totals", step)
