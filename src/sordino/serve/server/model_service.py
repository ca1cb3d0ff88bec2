"""ModelService: synthetic models over the network - a fit is a job, charged once and approved as a question is; the rest is free.

Access is checked as in CuratorService. A model holds released numbers only.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn, TypeVar, Unpack

from sqlalchemy import insert, select

from sordino.ask.curator.adaptive_session import plan_adaptive
from sordino.ask.curator.curator import Curator
from sordino.ask.curator.plan import Plan
from sordino.ask.engines.readers.table_file import csv_lines
from sordino.ask.queries.queryable import Draws, Queryable, ReleaseContent
from sordino.core.errors import ChargedError, DeclarationError, SordinoError
from sordino.core.loss import LossArguments, read_loss, show_arguments
from sordino.core.release import Release
from sordino.serve.server.access import NotThere, Visitor, check_access, sees_all
from sordino.serve.server.account_schema import MODELS
from sordino.serve.server.curator_service import CuratorService
from sordino.serve.server.database import StoreUnusable
from sordino.serve.server.jobs import Job, Jobs
from sordino.serve.server.question_request import QuestionRequest, check_keys, or_null
from sordino.synth.condition_text import parse_condition
from sordino.synth.methods import FitRequest
from sordino.synth.model import Model, load
from sordino.synth.rule_proposals import Proposal, propose_rules
from sordino.synth.rule_text import declared_rules, read_rule
from sordino.synth.rules import Rule, at_most, never
from sordino.synth.watched_table import Stages, WatchedTable

T = TypeVar("T")
_MOST_ROWS = 1_000_000
_KEYS = (
    "table",
    "method",
    "columns",
    "marginals",
    "workload",
    "never",
    "at_most",
    "rules",
    "cap",
    "assume_rows",
    "predict",
)
_LOSS = ("epsilon", "delta", "rho")
_LISTS = ("columns", "marginals", "workload", "never", "at_most", "rules", "predict")
_TEXTS = {"type": "array", "items": {"type": "string"}}
_SETS = {"type": "array", "items": _TEXTS}
_AMOUNT = {"type": ["string", "number"]}
_TYPES: Mapping[str, Mapping[str, Any]] = {
    "table": {"type": "string"},
    "method": {"type": "string"},
    "cap": {"type": "integer"},
    "assume_rows": {"type": "integer"},
    **dict.fromkeys(_LISTS, _TEXTS),
    "marginals": _SETS,
    "at_most": _SETS,
    "workload": {"anyOf": [{"const": "all 2-way"}, _SETS]},
    **dict.fromkeys(_LOSS, _AMOUNT),
}
FIT_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {name: or_null(schema) for name, schema in _TYPES.items()},
    "additionalProperties": False,
}


class ModelService:
    """Fit models for accounts of a service, and let them sample and ask those."""

    def __init__(self, service: CuratorService) -> None:
        self.service = service
        self._store = service.store
        self.jobs = Jobs(service.store, service.public_clock)
        # beside another process on the same store, only one that has been silent for long is known to be gone
        with service.store.arrive() as alone:
            self.jobs.end_stopped(alone=alone)
        self._load = lru_cache(maxsize=8)(self._read)

    def plan(self, visitor: Visitor, asked: Mapping[str, Any]) -> Plan:
        """Return the plan of a fit, without a charge and without data: what its run would be charged as."""
        check_access(visitor, "model.fit", owner=visitor.account)
        return self._prepare(visitor, asked)[-1]

    def fit(self, visitor: Visitor, asked: Mapping[str, Any], *, request: str | None = None) -> Job:
        """Begin to fit a model of a table: what `sordino synth fit` takes, as JSON data; the job says when it is done.

        It is refused, or waits for an officer, as a question is: before anything is charged.
        """
        check_access(visitor, "model.fit", owner=visitor.account)
        options, fit_request, curator, priced = self._prepare(visitor, asked)
        table = options["table"]
        loss = {name: options.get(name) for name in _LOSS}
        bound = self.service.bind(visitor, request)
        if bound is not None:
            self.service.request_ids.claim_job(bound)

        def work(enter: Callable[[str], None]) -> int:
            outcome = "failed"
            try:
                model = fit_request.fit(WatchedTable(curator, Stages(enter)), **loss)
                outcome = model.facts["charge"]
            except SordinoError as error:
                outcome = type(error).__name__
                raise
            finally:
                self.service.account_service.audit_log.append_if_able(visitor, "model.fit", table, outcome)
            try:
                return self._keep(visitor, model, table)
            except StoreUnusable:
                charge = model.facts["charge"]
            raise ChargedError(
                f"the model was fitted and charged ({charge}), but could not be kept, so it is lost; the charge stands",
                charge=charge,
            )

        with self.service.summing(visitor):
            self.service.require_approval(visitor, bound, [priced])
            return self.jobs.begin(visitor.account, "fit", options, work, request=bound)

    def _prepare(self, visitor: Visitor, asked: Mapping[str, Any]) -> tuple[dict[str, Any], FitRequest, Curator, Plan]:
        """Return what is asked with its table's name, the request, the curator that will be charged, and the plan."""
        options = {name: value for name, value in asked.items() if value is not None}
        _check_fit(options)
        options["table"] = self.service.project.table(options.get("table")).name
        curator = self.service.curator(visitor, options["table"])
        fit_request = _fit_request(options, tuple(curator.domain), self._declared_rules(options))
        loss = {name: options.get(name) for name in _LOSS}
        return options, fit_request, curator, price_run(lambda source: fit_request.fit(source, **loss), curator)

    def list_rules(self, visitor: Visitor, table: str) -> tuple[tuple[str, ...], list[Proposal]]:
        """Return the rules that the project file states of a table, and those that names and types suggest beside them."""
        check_access(visitor, "table.read")
        declared = self.service.project.table(table)
        return declared.rules, [p for p in propose_rules(declared.domain) if p.text not in declared.rules]

    def _declared_rules(self, options: Mapping[str, Any]) -> tuple[Rule, ...]:
        """Return the rules that the project file states of the columns that are modelled."""
        columns = options.get("columns")
        if "marginals" in options:
            columns = [name for names in _sets(options["marginals"], "marginals") for name in names]
        return declared_rules(self.service.project, options["table"], columns=columns)

    def list_jobs(self, visitor: Visitor) -> list[Job]:
        """Return the jobs that a visitor may see."""
        check_access(visitor, "job.read")
        return self.jobs.all(account=None if sees_all(visitor, "job.read") else visitor.account)

    def find_job(self, visitor: Visitor, number: int) -> Job:
        """Return a job; raises NotThere."""
        check_access(visitor, "job.read")
        job = self.jobs.find(number)
        check_access(visitor, "job.read", owner=job.account)
        return job

    def list_models(self, visitor: Visitor) -> list[dict[str, Any]]:
        """Return the models that a visitor may use: number, table, charge, moment."""
        check_access(visitor, "model.read")
        columns = (MODELS.c.id, MODELS.c.account, MODELS.c.name, MODELS.c.source, MODELS.c.charge, MODELS.c.created)
        with self._store.read() as db:
            rows = db.execute(select(*columns).order_by(MODELS.c.id)).all()
        everything = sees_all(visitor, "model.read")
        return [
            {"id": row.id, "account": row.name, "table": row.source, "charge": row.charge, "created": row.created}
            for row in rows
            if everything or row.account == visitor.account
        ]

    def model(self, visitor: Visitor, number: int) -> Model:
        """Return a model; raises NotThere."""
        self.check_model(visitor, number)
        return self._load(number)

    def check_model(self, visitor: Visitor, number: int) -> None:
        """Raise NotThere unless there is such a model, and the visitor may use it."""
        check_access(visitor, "model.read")
        with self._store.read() as db:
            owner = db.execute(select(MODELS.c.account).where(MODELS.c.id == number)).scalar()
        if owner is None:
            raise NotThere
        check_access(visitor, "model.read", owner=owner)

    def table_of(self, number: int) -> str:
        """Return the name of the table that a model is of."""
        with self._store.read() as db:
            return str(db.execute(select(MODELS.c.source).where(MODELS.c.id == number)).scalar_one())

    def sample(
        self,
        visitor: Visitor,
        number: int,
        *,
        rows: int | None = None,
        where: str | None = None,
        independent: bool = False,
    ) -> Iterator[str]:
        """Return drawn rows as the text of a CSV file, in parts; at most a million at a time.

        Counts over them scatter less than over independent rows, which `independent` draws: see `Model.sample`.
        """
        model = self.model(visitor, number)
        count = min(model.rows, _MOST_ROWS) if rows is None else rows
        if not 0 <= count <= _MOST_ROWS:
            raise DeclarationError(f"must be from 0 to {_MOST_ROWS:,}", key="rows")
        condition = None if where is None else parse_condition(where, model.columns)
        return csv_lines(iter([model.sample(count, where=condition, independent=independent)]))

    def answer(self, visitor: Visitor, number: int, asked: QuestionRequest) -> Release:
        """Return a model's own answer to a question, free."""
        return self.model(visitor, number).answer(asked.question)

    def close(self) -> None:
        """Wait for the jobs under way."""
        self.jobs.close()

    def _keep(self, visitor: Visitor, model: Model, table: str) -> int:
        row = {"account": visitor.account, "name": visitor.name, "source": table, "charge": model.facts["charge"]}
        with self._store.transact() as db:
            result = db.execute(insert(MODELS).values(**row, bytes=model.to_bytes(), created=self._store.now()))
        assert result.inserted_primary_key is not None
        return int(result.inserted_primary_key[0])

    def _read(self, number: int) -> Model:
        with self._store.read() as db:
            content = db.execute(select(MODELS.c.bytes).where(MODELS.c.id == number)).scalar_one()
        with tempfile.TemporaryDirectory(prefix="sordino-") as directory:
            path = Path(directory) / "kept.model"
            path.write_bytes(content)
            return load(path)


def price_run(run: Callable[[Any], object], curator: Curator) -> Plan:
    """Return the plan of what charges once, run up to its charge: no data is read."""
    try:
        run(_PricedTable(curator))
    except _Priced as priced:
        return priced.plan
    raise DeclarationError("this charges once")


class _Priced(Exception):
    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan = plan


class _PricedTable:
    """A table that ends a fit where it would be charged."""

    def __init__(self, source: Curator) -> None:
        self._context = source.context
        self.domain = source.domain
        self.neighbors = source.neighbors
        self.plan = source.plan
        self.remaining = source.remaining

    @show_arguments(LossArguments)
    def adapt(
        self,
        algorithm: Callable[[Queryable], T],
        *,
        describe: str,
        record: Callable[[T], ReleaseContent] | None = None,
        draws: Draws = "any",
        **loss: Unpack[LossArguments],
    ) -> NoReturn:
        """Raise what holds the plan."""
        del algorithm, record
        requested = read_loss(**loss)
        raise _Priced(plan_adaptive(describe, self._context, asked=requested, draws=draws))


def _check_fit(options: Mapping[str, Any]) -> None:
    """Raise DeclarationError for a key that a fit does not have, or a value of another kind."""
    keys = (*_KEYS, *_LOSS)
    check_keys(options, keys, what="a fit")
    for name, value in options.items():
        if name in _LISTS and value != "all 2-way" and not isinstance(value, list):
            raise DeclarationError("must be a list", key=name)
        if name not in _LISTS and (isinstance(value, bool) or not isinstance(value, (str, int, float))):
            raise DeclarationError("must be text or a number", key=name)
    for name in ("table", "method"):
        if not isinstance(options.get(name, ""), str):
            raise DeclarationError("must be text", key=name)
    for name in ("cap", "assume_rows"):
        if not isinstance(options.get(name, 1), int):
            raise DeclarationError("must be a whole number", key=name)


def _fit_request(options: Mapping[str, Any], columns: Sequence[str], declared: Sequence[Rule]) -> FitRequest:
    rules: list[Rule] = [*declared, *(read_rule(_text(text, "rules"), columns) for text in options.get("rules", ()))]
    rules += [never(parse_condition(_text(text, "never"), columns)) for text in options.get("never", ())]
    for pair in options.get("at_most", ()):
        if not isinstance(pair, list) or len(pair) != 2:
            raise DeclarationError("must be pairs of columns, the lower one first", key="at_most")
        rules.append(at_most(_text(pair[0], "at_most"), _text(pair[1], "at_most")))
    workload = options.get("workload", "all 2-way")
    return FitRequest(
        options.get("method", "auto"),
        None if "columns" not in options else [_text(name, "columns") for name in options["columns"]],
        None if "marginals" not in options else _sets(options["marginals"], "marginals"),
        workload if isinstance(workload, str) else _sets(workload, "workload"),
        tuple(rules),
        options.get("cap"),
        options.get("assume_rows"),
        [_text(name, "predict") for name in options.get("predict", ())],
    )


def _sets(value: Sequence[Any], name: str) -> list[list[str]]:
    if not all(isinstance(names, list) for names in value):
        raise DeclarationError('must be a list of sets of columns, such as [["age", "sex"]]', key=name)
    return [[_text(one, name) for one in names] for names in value]


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise DeclarationError("must hold text", key=name)
    return value
