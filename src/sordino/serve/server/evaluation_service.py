"""EvaluationService: how far a model's rows lie from its table - a job, charged once, approved as a question is.

Access is checked as in CuratorService. A page that was paid for is kept, and holds released numbers only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from sqlalchemy import insert, select

from sordino.ask.curator.combined_charge import price_run
from sordino.core.errors import ChargedError, DeclarationError, SordinoError
from sordino.reporting.charts import spec_drawer
from sordino.reporting.picture import encode_picture, read_picture
from sordino.reporting.synth_evaluation import Sheet, evaluation_sheet, redraw, sheet_from, sheet_page
from sordino.serve.server.access import NotThere, Visitor, check_access
from sordino.serve.server.account_schema import EVALUATIONS
from sordino.serve.server.database import StoreUnusable
from sordino.serve.server.jobs import Job
from sordino.serve.server.model_service import ModelService
from sordino.serve.server.question_request import check_keys, or_null
from sordino.synth.evaluation.evaluation import Evaluation
from sordino.synth.evaluation.evaluator import evaluate
from sordino.synth.watched_table import Stages, WatchedTable

_MOST_ROWS = 1_000_000
# Synthetic rows that are drawn to say what the run would be charged.
_PRICED_ROWS = 10_000
_LOSS = ("epsilon", "delta", "rho")
_KEYS: Mapping[str, str | list[str]] = {
    **{name: ["string", "number"] for name in _LOSS},
    "rows": "integer",
    "predict": "string",
}
EVALUATION_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        **{name: or_null({"type": kind}) for name, kind in _KEYS.items()},
        "rows": or_null({"type": "integer", "minimum": 1, "maximum": _MOST_ROWS}),
    },
    "additionalProperties": False,
}


class EvaluationService:
    """Compare the models of a ModelService with the tables that they are of."""

    def __init__(self, models: ModelService) -> None:
        self._models = models
        self._service = models.service
        self._store = models.service.store

    def plan(self, visitor: Visitor, number: int, asked: Mapping[str, Any]) -> Any:
        """Return the plan of an evaluation, without a charge and without data."""
        check_access(visitor, "model.evaluate", owner=visitor.account)
        options, _, curator = self._prepare(visitor, number, asked)
        return price_run(self._run(visitor, number, {**options, "rows": _PRICED_ROWS}), curator)

    def begin(self, visitor: Visitor, number: int, asked: Mapping[str, Any], *, request: str | None = None) -> Job:
        """Begin to evaluate a model: {"epsilon": "0.5", "rows": 10000, "predict": "age > 40"}; the job says when it is done.

        It is refused, or waits for an officer, as a question is: before anything is charged.
        """
        check_access(visitor, "model.evaluate", owner=visitor.account)
        options, table, curator = self._prepare(visitor, number, asked)
        priced = price_run(self._run(visitor, number, {**options, "rows": _PRICED_ROWS}), curator)
        bound = self._service.bind(visitor, request)
        if bound is not None:
            self._service.request_ids.claim_job(bound)
        run = self._run(visitor, number, options)

        def work(enter: Callable[[str], None]) -> int:
            outcome = "failed"
            enter("drawing synthetic rows")
            try:
                evaluation: Evaluation = run(WatchedTable(curator, Stages(enter)))
                assert evaluation.release is not None
                outcome = evaluation.release.charge
            except SordinoError as error:
                outcome = type(error).__name__
                raise
            finally:
                self._service.account_service.audit_log.append_if_able(
                    visitor, "model.evaluate", f"{table}: {number}", outcome
                )
            enter("drawing the pictures")
            try:
                self._keep(visitor, number, evaluation)
            except StoreUnusable:
                rule = f"the evaluation was charged ({outcome}), but could not be kept; the charge stands"
                raise ChargedError(f"{rule}, and its release has the figures", charge=outcome) from None
            return number

        with self._service.summing(visitor):
            self._service.require_approval(visitor, bound, [priced])
            return self._models.jobs.begin(
                visitor.account, "evaluation", {**options, "model": number}, work, request=bound
            )

    def list_evaluations(self, visitor: Visitor, number: int) -> list[dict[str, Any]]:
        """Return the evaluations of a model: number, charge, mean distances, moment; raises NotThere."""
        self._models.check_model(visitor, number)
        columns = (EVALUATIONS.c.id, EVALUATIONS.c.charge, EVALUATIONS.c.figures, EVALUATIONS.c.created)
        statement = select(*columns).where(EVALUATIONS.c.model == number).order_by(EVALUATIONS.c.id)
        with self._store.read() as db:
            rows = db.execute(statement).all()
        return [
            {"id": row.id, "charge": row.charge, "created": row.created, "figures": json.loads(row.figures)}
            for row in rows
        ]

    def sheet(self, visitor: Visitor, number: int, evaluation: int) -> Sheet:
        """Return the page of an evaluation; its drawings are specifications of pictures. Raises NotThere."""
        self._models.check_model(visitor, number)
        statement = select(EVALUATIONS.c.sheet).where(EVALUATIONS.c.model == number, EVALUATIONS.c.id == evaluation)
        with self._store.read() as db:
            text = db.execute(statement).scalar()
        if text is None:
            raise NotThere
        return sheet_from(json.loads(text))

    def page(self, visitor: Visitor, number: int, evaluation: int) -> str:
        """Return the page of an evaluation as HTML, as `sordino synth report` writes it; raises NotThere."""
        sheet = self.sheet(visitor, number, evaluation)
        return sheet_page(redraw(sheet, lambda spec: encode_picture(read_picture(spec, ""), ".svg").decode()))

    def _prepare(self, visitor: Visitor, number: int, asked: Mapping[str, Any]) -> tuple[dict[str, Any], str, Any]:
        options = {name: value for name, value in asked.items() if value is not None}
        _check(options)
        self._models.check_model(visitor, number)
        table = self._service.project.table(self._models.table_of(number)).name
        return options, table, self._service.curator(visitor, table)

    def _run(self, visitor: Visitor, number: int, options: Mapping[str, Any]) -> Callable[[Any], Evaluation]:
        model = self._models.model(visitor, number)
        rows = min(max(model.rows, 1), options.get("rows", _MOST_ROWS))
        loss: dict[str, Any] = {name: options.get(name) for name in _LOSS}
        predict = options.get("predict")
        return lambda against: evaluate(
            model,
            against=against,
            rows=rows,
            correlations=True,
            distributions=True,
            heaps=True,
            workload="pairs",
            predict=predict,
            auc=predict is not None,
            rules=True,
            **loss,
        )

    def _keep(self, visitor: Visitor, number: int, evaluation: Evaluation) -> None:
        model = self._models.model(visitor, number)
        sheet = evaluation_sheet(model, evaluation, subject=f"model {number}", draw=spec_drawer())
        row = {"model": number, "charge": "" if evaluation.release is None else evaluation.release.charge}
        row |= {"figures": json.dumps(evaluation.to_dict()["means"]), "sheet": json.dumps(asdict(sheet))}
        with self._store.transact() as db:
            db.execute(insert(EVALUATIONS).values(**row, created=self._store.now()))


def _check(options: Mapping[str, Any]) -> None:
    check_keys(options, _KEYS, what="an evaluation")
    for name, value in options.items():
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise DeclarationError("must be text or a number", key=name)
    rows = options.get("rows", 1)
    if not isinstance(rows, int) or not 1 <= rows <= _MOST_ROWS:
        raise DeclarationError(f"must be a whole number from 1 to {_MOST_ROWS:,}", key="rows")
    if not isinstance(options.get("predict", ""), str):
        raise DeclarationError("must be a condition, such as age > 40", key="predict")
