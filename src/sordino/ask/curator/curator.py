"""Curator: holds one sensitive table, and answers questions about it - charge first, then data, then noise, then Release.

It is the only object that sees exact answers, and it keeps none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, cast, overload

# Importing it registers the questions that algorithms answer.
import sordino.ask.curator.algorithm_procedure  # noqa: F401
from sordino.ask.clipping import Method
from sordino.ask.clipping.contribution_bounds import find_contribution_bounds
from sordino.ask.clipping.search import find_bounds
from sordino.ask.curator.above_threshold import AboveThreshold, open_above_threshold
from sordino.ask.curator.adaptive_session import plan_adaptive, run_adaptive
from sordino.ask.curator.aggregation_procedure import AggregationProcedure, plan_aggregation
from sordino.ask.curator.batch import Batch, advise, plan_batch
from sordino.ask.curator.charging import Charging, Failure, failure_of, write_answer
from sordino.ask.curator.combined_charge import PartTable, plan_parts, price_parts, run_parts
from sordino.ask.curator.dummy_table import check_target, dummy_curator, open_dummy
from sordino.ask.curator.explain import explain_charge
from sordino.ask.curator.foreign_event import plan_event
from sordino.ask.curator.found_bounds_procedure import plan_with_found_bounds
from sordino.ask.curator.joined_rows import JoinedRows
from sordino.ask.curator.plan import (
    EQUAL,
    DataAccess,
    LossSplit,
    Plan,
    PlanArguments,
    PlannedQuestion,
    StatementWriter,
    TableContext,
    open_rows,
    read_split,
    registered_procedure,
    states_split,
    take_loss,
)
from sordino.ask.curator.question_reading import (
    Question,
    Whole,
    bind_tables,
    is_batch,
    read_question,
    read_statement_question,
    truer_refusal,
)
from sordino.ask.curator.series_session import open_series_session
from sordino.ask.engines.engine import Engine
from sordino.ask.queries.aggregation import Aggregation
from sordino.ask.queries.build import AggregateExpr, Column, Selection
from sordino.ask.queries.expressions.expr import Expr
from sordino.ask.queries.query import check_planning, refuse_foreign
from sordino.ask.queries.queryable import ChargePart, Draws, Queryable, ReleaseContent
from sordino.ask.queries.series import Every, SeriesHandle, ask_series
from sordino.ask.queries.sql.parse import SqlText
from sordino.ask.queries.sql.time_functions import current_moment
from sordino.ask.queries.table_face import TableFace
from sordino.core.domain import Domain
from sordino.core.errors import DeclarationError, QuestionRefused
from sordino.core.lazy import load_feature
from sordino.core.ledger.ledger import Ledger
from sordino.core.ledger.records import Charge
from sordino.core.loss import Loss, LossArguments, Number, read_loss, show_arguments
from sordino.core.neighbors import Neighbors
from sordino.core.noise.rng import Rng
from sordino.core.registration import close_registries
from sordino.core.release import Release
from sordino.core.source import PrivateTable, PublicTable
from sordino.core.text_table import COLUMN_HEAD, column_cells, html_table

if TYPE_CHECKING:
    import datetime

    import pyarrow as pa

T = TypeVar("T")


class Curator(TableFace):
    """Answers questions about one table, under one budget.

    Made by `connect(...).table(name)` or `protect(...)`. `plan` is free and uses nothing of the data; `ask` charges the
    ledger durably before the data is touched, and a failure after the charge stays charged.
    """

    def __init__(
        self,
        name: str,
        *,
        engine: Engine,
        domain: Domain,
        neighbors: Neighbors,
        ledger: Ledger,
        declaration: dict[str, Any],
        rng: Rng,
        public: Mapping[str, PublicTable] | None = None,
        others: Mapping[str, PrivateTable] | None = None,
        share: tuple[str, Loss] | None = None,
        dialect: str | None = None,
        resumes: bool = False,
        public_rows: Mapping[str, pa.Table] | None = None,
        remarks: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        if not rng.private and ledger.path is not None:
            raise DeclarationError(
                "seeded noise is not private, so a durable ledger refuses it: use ledger=None in tests, or Rng.secure()"
            )
        close_registries(name)
        self._engine = engine
        # Of made-up rows, opened when a question is first asked of them.
        self._dummy_engine: Engine | None = None
        self._ledger = ledger
        account: dict[str, Any] = {"private": rng.private, "share": share, "resumes": resumes, "remarks": remarks}
        self._charging = Charging(name, ledger=ledger, declared=declaration, neighbors=neighbors, **account)
        self._rng = rng
        public_facts = (self._charging.declaration, dict(public or {}), dict(others or {}), dialect)
        self._table = TableContext(
            name,
            domain,
            neighbors,
            ledger.cap,
            *public_facts,
            public_rows=dict(public_rows or {}),
            declared=declaration,
        )

    # ---- plan and ask

    @overload
    def plan(
        self,
        question: Question,
        *,
        error: None = None,
        confidence: float = 0.95,
        assume_mean: float | None = None,
        **arguments: Unpack[PlanArguments],
    ) -> Plan: ...

    @overload
    def plan(
        self,
        question: Sequence[Whole],
        *,
        error: None = None,
        confidence: float = 0.95,
        assume_mean: float | None = None,
        **arguments: Unpack[PlanArguments],
    ) -> Batch: ...

    @overload
    def plan(
        self,
        question: Question | Sequence[Whole],
        *,
        error: Number | Sequence[Number],
        confidence: float = 0.95,
        assume_mean: float | None = None,
        **arguments: Unpack[PlanArguments],
    ) -> Batch: ...

    @overload
    def plan(
        self,
        question: Question | Sequence[Whole],
        *,
        error: Number | Sequence[Number] | None = None,
        confidence: float = 0.95,
        assume_mean: float | None = None,
        **arguments: Unpack[PlanArguments],
    ) -> Plan | Batch: ...

    @show_arguments(PlanArguments, share="equal")
    def plan(
        self,
        question: Question | Sequence[Whole],
        *,
        error: Number | Sequence[Number] | None = None,
        confidence: float = 0.95,
        assume_mean: float | None = None,
        **arguments: Unpack[PlanArguments],
    ) -> Plan | Batch:
        """Return what the question would cost and how wrong the answer would be; spends nothing, reads no data.

        State the loss as `epsilon`, as `epsilon` and `delta`, or as `rho`. A mean's expected error needs public guesses:
        `assume_rows`, and `assume_mean` for a figure that is no upper bound. Raises QuestionRefused (exit 3) where the
        question has no private answer, DeclarationError (exit 2) where an argument breaks a rule.

        `error=`, one number or one a question, asks instead for a Batch: the least loss a question whose expected error
        at `confidence` is at most that. A list of whole questions with a loss is a Batch too.

        The aggregates of a question, or the questions of a batch, share the loss equally, or in proportion to `weights`
        (in order, or by a column's name). `share="error"` finds the shares of the least sum of errors, times the weights,
        each in its own unit; "relative" divides each by the size of its answer, which `scale` or `assume_rows` states.
        """
        split = read_split(arguments)
        assume_rows = arguments.get("assume_rows")
        if error is not None or is_batch(question):
            return plan_batch(
                question,
                partial(self.plan, assume_rows=assume_rows, assume_mean=assume_mean),
                price=partial(self._price, assume_rows=assume_rows, assume_mean=assume_mean),
                error=error,
                losses=take_loss(arguments),
                counted="rho" if "rho" in self._ledger.cap.amounts() else "epsilon",
                confidence=confidence,
                split=split,
                assume_rows=assume_rows,
            )
        loss = read_loss(**take_loss(arguments))
        one = cast(Question, question)
        plan = self._plan(one, loss, assume_rows=assume_rows, assume_mean=assume_mean, split=split)
        if not plan.reads:
            # Refuses what the engine cannot express. With other private tables that waits for `ask`, which opens them.
            plan.procedure.write(StatementWriter(self._engine))
        return advise(self._charging.look_back(plan))

    @overload
    def ask(self, question: Batch, *, on: Literal["data", "dummy"] = "data") -> list[Release]: ...

    @overload
    def ask(
        self,
        question: Question | Plan,
        *,
        request_id: str | None = None,
        on: Literal["data", "dummy"] = "data",
        confirm: Callable[[Plan], None] | None = None,
        **arguments: Unpack[PlanArguments],
    ) -> Release: ...

    @show_arguments(PlanArguments, share="equal")
    def ask(
        self,
        question: Question | Plan | Batch,
        *,
        request_id: str | None = None,
        on: Literal["data", "dummy"] = "data",
        confirm: Callable[[Plan], None] | None = None,
        **arguments: Unpack[PlanArguments],
    ) -> Release | list[Release]:
        """Return the private answer, charged once: to a Plan, or to a question with its loss.

        Order: refusals (exit 2, 3), then the durable charge (BudgetExhausted, exit 4), then data, then noise. A
        `request_id` asked again returns the stored answer; one whose outcome is unknown raises InDoubt (exit 5). Raises
        ChargedError (exit 5) where the engine fails after the charge, whatever the cause.

        `on="dummy"` asks a made-up table of the declared shape instead: nothing is charged or read, and the release says so.
        `confirm` is shown the plan before the charge, and stops the question by raising. The rest is as in `plan`.
        """
        if on != "data":
            check_target(on)
        if isinstance(question, Batch):
            options = (*take_loss(arguments).values(), request_id, confirm)
            if any(option is not None for option in options) or states_split(arguments):
                raise DeclarationError(
                    "a batch states its losses, and each answer is a charge of its own: ask(batch) alone"
                )
            return self._ask_batch(question, on=on)
        plan = self._plan_to_run(question, arguments)
        if confirm is not None:
            confirm(self._charging.look_back(plan))
        if on == "dummy":
            return self._ask_dummy(plan)
        identity = plan.identity()
        others = plan.reads
        self._charging.declare(others)
        if request_id is not None:
            stored = self._charging.recall(request_id, identity)
            if stored is not None:
                return self._charging.read_stored(stored, plan)
        with open_rows(self._engine, others) as rows:
            # a question that the engine cannot express is refused here, and costs nothing
            statements = plan.procedure.write(rows.writer())
            charged = self._charging.charge(plan, identity=identity, request=request_id)
            # another process answered the same request in the meantime
            if not isinstance(charged, Charge):
                return self._charging.read_stored(charged, plan)
            answer = self._answer(plan, statements, charged, rows)
        if isinstance(answer, Failure):
            self._charging.fail(charged, answer)
        release, text = answer
        self._charging.commit(charged, text)
        return release

    def _ask_batch(self, batch: Batch, *, on: str) -> list[Release]:
        if on == "dummy":
            return [self._ask_dummy(plan) for plan in batch.plans]
        batch.check_covered(self.remaining)
        return [self.ask(plan) for plan in batch.plans]

    @show_arguments(LossArguments)
    def adapt(
        self,
        algorithm: Callable[[Queryable], T],
        *,
        describe: str,
        record: Callable[[T], ReleaseContent] | None = None,
        draws: Draws = "any",
        **loss: Unpack[LossArguments],
    ) -> tuple[T, Release]:
        """Charge the whole loss, run an algorithm that can only query, return its result and the release on record.

        The algorithm sees no data but through its Queryable, which answers questions of Sordino's own classes alone, so
        what it returns is post-processing (McSherry 2009). With epsilon and delta the Queryable counts rho, the largest
        that amounts to them: a larger one for an algorithm that `draws` "vectors" only, what epsilon leaves for "either".
        `record` says what of the result the ledger keeps. Raises BudgetExhausted before data is touched, ChargedError where
        anything fails after it.
        """
        return self.adapt_over(None, algorithm, describe=describe, record=record, draws=draws, **loss)

    def over(self, selection: Selection) -> JoinedRows:
        """Return the rows that a selection joins as a table of its own, for `synth.fit` and `synth.evaluate`.

        `people.over(people.join("regions", on="region"))` has the columns of both. Raises QuestionRefused for conditions,
        groups and all else but joins, UnknownName for a table that is not declared.
        """
        return JoinedRows(self, selection)

    @show_arguments(LossArguments)
    def adapt_over(
        self,
        joined: JoinedRows | None,
        algorithm: Callable[[Queryable], T],
        *,
        describe: str,
        record: Callable[[T], ReleaseContent] | None = None,
        draws: Draws = "any",
        **loss: Unpack[LossArguments],
    ) -> tuple[T, Release]:
        """Do as `adapt` does, over joined rows; None for the table's own."""
        total = read_loss(**loss)
        plan = plan_adaptive(describe, self._table, asked=total, draws=draws)
        table = self._table if joined is None else joined.context

        def run(opened: DataAccess, charged: Charge) -> tuple[T, Release, str]:
            rows = opened if joined is None else opened.follow(joined.steps, self._table.domain)
            finish = partial(self._charging.make_release, plan, charged)
            return run_adaptive(
                algorithm, record, plan=plan, table=table, rows=rows, rng=self._rng, make_release=finish
            )

        return self._run_charged(plan, () if joined is None else joined.reads, run)

    def plan_parts(self, parts: Sequence[ChargePart], *, describe: str) -> Plan:
        """Return the price of several questions as one charge; spends nothing, and raises what asking them would."""
        plan = plan_parts(describe, price_parts(parts, self), self._table)
        return self._charging.look_back(plan)

    def adapt_parts(
        self,
        algorithm: Callable[[Sequence[PartTable]], T],
        *,
        parts: Sequence[ChargePart],
        describe: str,
        record: Callable[[T], ReleaseContent] | None = None,
    ) -> tuple[T, Release]:
        """Charge several questions as one, run what asks them, return its result and the release on record.

        All parts are priced first, so that none is paid where the budget does not cover the whole. The algorithm gets a table
        for each part, which answers one question and no more: the one that the part's `run` asks or, where it has none, any
        at the part's loss. Raises what `adapt` raises. Of the answers the ledger keeps what `record` says.
        """
        priced = price_parts(parts, self)
        plan = plan_parts(describe, priced, self._table)

        def run(rows: DataAccess, charged: Charge) -> tuple[T, Release, str]:
            def finish(part: Plan, answer: Any) -> Release:
                return self._charging.make_release(part, charged, answer)

            tables = [
                PartTable(part, context=self._table, plan=self._plan, rows=rows, rng=self._rng, make_release=finish)
                for part in priced
            ]
            return run_parts(algorithm, record, tables=tables, make_release=partial(finish, plan))

        return self._run_charged(plan, (), run)

    def _run_charged(
        self, plan: Plan, reads: Collection[str], run: Callable[[DataAccess, Charge], tuple[T, Release, str]]
    ) -> tuple[T, Release]:
        """Charge a plan, run what it pays for over one state of the rows, and put its release on record."""
        ran: tuple[T, Release, str] | Failure
        # opened before the charge: a server that is gone costs nothing
        with open_rows(self._engine, reads) as rows:
            charged = self._charging.charge_new(plan)
            try:
                ran = run(rows, charged)
            except QuestionRefused:
                # Its words may be the algorithm's own, and hold anything.
                ran = Failure(
                    "the algorithm did not catch a refusal: it may ask what is left, and what a question costs"
                )
            except Exception as failure:
                # of any other kind: its message may quote data
                ran = failure_of(failure)
        if isinstance(ran, Failure):
            self._charging.fail(charged, ran)
        result, release, text = ran
        self._charging.commit(charged, text)
        return result, release

    @show_arguments(LossArguments)
    def find_bounds(
        self,
        of: Column,
        *,
        method: Method = "histogram",
        ladder: Sequence[Number] | None = None,
        **loss: Unpack[LossArguments],
    ) -> Release:
        """Return a release with `.lower` and `.upper`, clipping bounds found privately; see `clipping.search`."""
        return find_bounds(self, of, method=method, ladder=ladder, **loss)

    @show_arguments(LossArguments)
    def find_contribution_bounds(
        self,
        *,
        by: Column | None = None,
        choose: Sequence[str] | None = None,
        assume_keys: int | None = None,
        question_epsilon: Number | None = None,
        **loss: Unpack[LossArguments],
    ) -> Release:
        """Return a release whose `.value` holds max_rows, and with `by` max_groups; see `clipping.contribution_bounds`."""
        return find_contribution_bounds(
            self,
            by=by,
            choose=choose,
            assume_keys=assume_keys,
            question_epsilon=question_epsilon,
            **loss,
        )

    @show_arguments(LossArguments)
    def above_threshold(
        self,
        *,
        count: int,
        monotone: bool = False,
        **loss: Unpack[LossArguments],
    ) -> AboveThreshold:
        """Return a sparse-vector session, charged now as a whole: `.above(question, threshold=)` until so many were yes.

        Questions that are below cost nothing more, however many are asked (Lyu, Su, Li 2017). With `monotone`, only counts
        and sums of values from 0 up are asked, and the noise is about half; it needs neighbors add_remove.

            with people.above_threshold(count=1, epsilon=1) as session:
                session.above(sd.count(), threshold=1000)
        """
        total = read_loss(**loss)
        return open_above_threshold(
            self._table, self._charging, self._engine, self._rng, asked=total, count=count, monotone=monotone
        )

    @show_arguments(LossArguments)
    def series(
        self,
        measure: AggregateExpr | SqlText | Aggregation | None = None,
        *,
        over: str | None = None,
        every: Every | None = None,
        by: Column | Sequence[Column] = (),
        where: Expr | None = None,
        horizon: int | None = None,
        start: datetime.date | str | None = None,
        max_periods: int | None = None,
        window: int | None = None,
        max_rows_per_period: int | None = None,
        name: str | None = None,
        confirm: Callable[[Plan], None] | None = None,
        **loss: Unpack[LossArguments],
    ) -> SeriesHandle:
        """Open a series: the measure of every period, by declared keys, and its running totals, for one charge made now.

        `over` is the column of days or moments, `every` is "day", "week", "month", "quarter" or "year". `start` is the first
        period, else the first that is released; `horizon` the most periods, 10,000 if left out: a shorter one has less noise.
        A series on a durable ledger has a `name`; the same arguments and name open it again, or the name alone, at no cost.
        State rho, or epsilon and delta. A whole question in SQL may stand for the measure, `by` and `where`.
        `confirm` is shown the plan before the charge, and stops by raising.

        Where a column names the units, one counts in at most `max_periods` periods, the first in which it has rows: of the whole
        series, or of each `window` periods from its start. Of one period at most `max_rows_per_period` rows of it count, as
        many as the table's declaration allows if left out. Later rows change nothing that was released.

            with people.series(sd.count(), over="day", every="day", by=["ward"], rho="0.5", name="wards") as wards:
                wards.release("2026-11-24").table

        Raises QuestionRefused for a measure, keys or loss that no series has, DeclarationError where the name is that of
        another one, BudgetExhausted.
        """
        asked = None
        question = None
        if measure is None:
            limits = (max_periods, window, max_rows_per_period)
            stated = (over, every, by or None, where, horizon, start, *limits, confirm, *loss.values())
            if name is None or any(argument is not None for argument in stated):
                raise QuestionRefused(
                    "a series is opened by its measure, with over= and every=, or again by its name alone"
                )
        else:
            whole = measure if isinstance(measure, AggregateExpr) else read_question(measure, self._table)
            question = ask_series(
                whole,
                over=over,
                every=every,
                by=by,
                where=where,
                horizon=horizon,
                start=start,
                max_periods=max_periods,
                window=window,
                max_rows_per_period=max_rows_per_period,
            )
            asked = read_loss(**loss)
        session = open_series_session(
            self._table,
            self._charging,
            self._engine,
            self._rng,
            question=question,
            name=name,
            asked=asked,
            confirm=confirm,
        )
        series: SeriesHandle = load_feature("Series")(session)
        return series

    # ---- the budget and what was released

    @property
    def name(self) -> str:
        """The table's name."""
        return self._table.name

    @property
    def context(self) -> TableContext:
        """The public facts of the table, which plans follow from."""
        return self._table

    @property
    def domain(self) -> Domain:
        """What is declared about the table."""
        return self._table.domain

    @property
    def neighbors(self) -> Neighbors:
        """Which tables count as neighbors, and the privacy unit."""
        return self._table.neighbors

    def charge_event(
        self,
        event: Any,
        *,
        note: str,
        delta: Number | None = None,
        neighbors: str | None = None,
        privacy_unit: str | None = None,
    ) -> Release:
        """Charge what was run elsewhere on these rows, such as a DP-SGD run, and return its record; no data is touched.

        `event` is one of dp_accounting (GaussianDpEvent, LaplaceDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent,
        ComposedDpEvent, ZCDpEvent), by the names of its classes, or one of ours. That it describes the run - its noise, that
        each unit was in a batch by a secret coin of its own, that it is about this table's privacy unit and neighbors - is
        the curator's declared word, and the record says so; `neighbors` and `privacy_unit`, where stated, are compared with
        the table's. Under a cap of epsilon and delta, `delta` is that of the run: its epsilon is the least that is known
        at it. The whole run is one charge, fixed before it begins: charge before training.

        Raises DeclarationError for an event that is not counted here, or is about another unit or relation; QuestionRefused
        where the cap cannot count it; BudgetExhausted where the budget does not cover it. Nothing is charged in these cases.
        """
        plan = plan_event(event, self._table, note=note, delta=delta, neighbors=neighbors, privacy_unit=privacy_unit)
        charged = self._charging.charge_new(plan)
        release = self._charging.make_release(plan, charged, ReleaseContent())
        self._charging.commit(charged, release.to_json())
        return release

    @property
    def spent(self) -> Loss:
        """What has been spent from the budget, or from the share of it that this curator spends."""
        return self._charging.spent()

    @property
    def remaining(self) -> Loss:
        """What is left of the budget, or of the share."""
        return self._charging.remaining()

    @property
    def spender(self) -> str | None:
        """Whose share of the budget is spent; None for the budget alone."""
        return self._charging.spender

    @property
    def ledger(self) -> Ledger:
        """The ledger that the budget is kept in."""
        return self._ledger

    def release(self, charge: str) -> Release:
        """Return a past release as it was; costs nothing. Raises UnknownName for a charge that has no answer."""
        return Release.from_dict(json.loads(self._ledger.answer(charge)))

    def releases(self) -> list[Release]:
        """Return all past releases from this budget, oldest first; costs nothing."""
        from sordino.ask.curator.explain import ReleaseList

        return ReleaseList(self.release(c.id) for c in self._ledger.charges() if c.state == "committed")

    def explain(self, charge: str) -> str:
        """Return what a past release reveals at most, in a sentence or two."""
        return explain_charge(self._ledger, self.release(charge))

    def close(self) -> None:
        """Close the connection to the data; the ledger needs no closing."""
        self._engine.close()
        if self._dummy_engine is not None:
            self._dummy_engine.close()
            self._dummy_engine = None

    def __repr__(self) -> str:
        return f"<Curator of {self._table.name!r}: {self._table.neighbors.describe()}; {self._ledger!r}>"

    def _repr_html_(self) -> str:
        title = f"{self._table.name}: protects {self._table.neighbors.describe()}"
        rows = column_cells({name: column.to_dict() for name, column in self.domain.stored.items()})
        return html_table(
            title, COLUMN_HEAD, rows, foot=f"spent {self.spent.describe()}, left {self.remaining.describe()}"
        )

    def _plan(
        self,
        question: Question,
        loss: Loss,
        *,
        assume_rows: int | None = None,
        assume_mean: float | None = None,
        split: LossSplit = EQUAL,
    ) -> Plan:
        """Return the plan of one question; the ledger is not read."""
        guesses: dict[str, Any] = {"assume_rows": assume_rows, "assume_mean": assume_mean}
        if isinstance(question, SqlText):
            # The clock is read only here: a stored plan keeps the moment at which it was made.
            question = question.at_moment(current_moment())
        try:
            return plan_question(read_question(question, self._table), self._table, asked=loss, split=split, **guesses)
        except QuestionRefused as refused:
            if not isinstance(question, SqlText):
                raise
            # A text that is no single question may be a statement around several.
            weights = () if split.is_equal else split.weights
            try:
                statement = (
                    read_statement_question(question, self._table, weights) if isinstance(weights, tuple) else None
                )
                if statement is not None:
                    return plan_question(statement, self._table, asked=loss)
            except QuestionRefused as other:
                refused = truer_refusal(question, self._table, refused, other)
            raise refused.in_sql() from None

    def _price(
        self, question: Question, *, assume_rows: int | None, assume_mean: float | None, **loss: Unpack[LossArguments]
    ) -> Plan:
        """Return the plan of one question at a loss that is only tried."""
        return self._plan(question, read_loss(**loss), assume_rows=assume_rows, assume_mean=assume_mean)

    def _ask_dummy(self, plan: Plan) -> Release:
        # Two threads that ask first at once open one each, and the later one stays: a lock would not survive a fork.
        engine = self._dummy_engine or open_dummy(self._table)
        self._dummy_engine = engine
        declared = self._charging.declared
        cap = self._ledger.cap
        release = dummy_curator(Curator, self._table, engine, cap=cap, declared=declared).ask(plan)
        return replace(release, practice=True, charge="none", spent=self.spent, remaining=self.remaining)

    def _plan_to_run(self, question: Question | Plan, arguments: PlanArguments) -> Plan:
        """Return the plan that `ask` charges and runs; it is made here, also where one was handed in."""
        assume_rows = arguments.get("assume_rows")
        if not isinstance(question, Plan):
            if is_batch(question):
                raise DeclarationError("several whole questions are asked as a batch: ask(plan([...], epsilon=...))")
            split = read_split(arguments)
            return self._plan(question, read_loss(**take_loss(arguments)), assume_rows=assume_rows, split=split)
        if any(v is not None for v in (*take_loss(arguments).values(), assume_rows)) or states_split(arguments):
            raise DeclarationError(
                "a plan states its loss already: ask(plan), without epsilon, delta, rho, or shares of it"
            )
        return plan_again(question, self._table)

    def _answer(self, plan: Plan, statements: Any, charge: Charge, rows: DataAccess) -> tuple[Release, str] | Failure:
        """Return the release and its text, or why it failed, in words that quote no data."""
        try:
            release = self._charging.make_release(plan, charge, plan.procedure.release(statements, rows, self._rng))
            return release, write_answer(release, charge)
        except Exception as failure:
            # of any kind: its message may quote a cell
            return failure_of(failure, plan.provider)


# ---- From a bound question to its Plan; a plan that was handed in is made anew and compared


def plan_question(
    question: PlannedQuestion,
    table: TableContext,
    *,
    asked: Loss,
    assume_rows: int | None = None,
    assume_mean: float | None = None,
    split: LossSplit = EQUAL,
) -> Plan:
    """Return the plan of a bound question at a loss; raises QuestionRefused where it has no private answer."""
    check_planning()
    registered = registered_procedure(question)
    if registered is None or not registered.provider:
        refuse_foreign(question)
    if not isinstance(question, Aggregation) and not split.is_equal:
        raise DeclarationError("this question has one answer, which gets the whole loss: leave weights and share out")
    if registered is not None:
        return registered.plan_question(question, table, asked=asked)
    assert isinstance(question, Aggregation)
    try:
        return plan_aggregation(
            question, table, asked=asked, assume_rows=assume_rows, assume_mean=assume_mean, split=split
        )
    except QuestionRefused:
        plan = None
        if split.is_equal:
            # It may have means of numbers without bounds, which can be found privately.
            plan = plan_with_found_bounds(question, table, asked=asked, assume_rows=assume_rows)
        if plan is None:
            raise
        return plan


def plan_again(stated: Plan, table: TableContext) -> Plan:
    """Make a plan anew from its question and loss; raises DeclarationError where it no longer matches.

    The plan made here is what runs, never one that was handed in.
    """
    if (stated.declaration, stated.table_name) != (table.declaration, table.name):
        raise DeclarationError("this plan was made for another table or declaration: plan again")
    question: Any = stated.question
    # SQL is not parsed again: only its public tables are bound anew
    if isinstance(question, Aggregation):
        question = bind_tables(question, table, names="resolved")
    guesses = {name: getattr(stated.procedure, name, None) for name in ("assume_rows", "assume_mean")}
    split = LossSplit(exact=tuple(getattr(stated.procedure, "weights", ())))
    plan = plan_question(question, table, asked=stated.asked, split=split, **guesses)
    refuse_altered(stated, plan)
    return plan


def refuse_altered(stated: Plan, priced: Plan) -> None:
    """Raise DeclarationError where the stated plan is not the one that its question and loss have now."""
    if (stated.event, stated.cost, _noise(stated)) != (priced.event, priced.cost, _noise(priced)):
        raise DeclarationError(
            "this plan does not match what its question costs here: its mechanisms, event or cost were altered, or the budget "
            "now counts differently; plan again"
        )


def _noise(plan: Plan) -> object:
    """Return the noise of a plan, in a form that can be compared."""
    procedure = plan.procedure
    if isinstance(procedure, AggregationProcedure):
        allocation = procedure.allocation
        vectors = [[(v.sensitivity, v.mechanism) for v in several] for several in allocation.vectors]
        # Which keys there are follows from the rows of public tables too, which may be others by now.
        labels = [key.labels for key in allocation.resolved.keys]
        return vectors, allocation.threshold, [s and s.event for s in allocation.selections], labels
    return getattr(procedure, "mechanism", None)
