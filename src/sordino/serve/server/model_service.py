"""ModelService: models over the network - a fit is a job, charged once and approved as a question is; the rest is free.

A synthetic model is sampled and asked; a regression, a classifier or clusters, of `sordino.models`, is a card, a prediction in
SQL and a file. Access is checked as in CuratorService. A model holds released numbers only.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from sqlalchemy import insert, select

from sordino.ask.curator.combined_charge import price_run
from sordino.ask.curator.curator import Curator
from sordino.ask.curator.plan import Plan
from sordino.ask.engines.readers.table_file import csv_lines
from sordino.core.errors import ChargedError, DeclarationError, QuestionRefused, SordinoError
from sordino.core.release import Release
from sordino.models.record import PricedModel, encode_model
from sordino.models.record import load as load_prediction
from sordino.models.registry import MODELS as PREDICTIONS
from sordino.models.registry import arguments_of, load_fit, require_model
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
# What the models of `sordino.models` take beside a table, a loss and `rng`, as JSON data.
_TERMS = {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}}
_TEXT = {"type": "string"}
_WHOLE = {"type": "integer"}
_PREDICTION_TYPES: Mapping[str, Mapping[str, Any]] = {
    "model": _TEXT
    | {"description": f"Fit a model that predicts in place of a synthetic one: {', '.join(PREDICTIONS)}."},
    "y": _TEXT,
    "x": _TERMS,
    "weights": _TEXT,
    "components": _WHOLE,
    "clusters": _WHOLE,
    "depth": _WHOLE,
    "validate": _WHOLE,
    "scale": {"type": "boolean"},
}
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
    **_PREDICTION_TYPES,
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
        """Begin to fit a model of a table; the job says when it is done.

        It takes what `sordino synth fit` takes, as JSON data; with `model`, such as "linear_regression", what that function of
        `sordino.models` takes.

        It is refused, or waits for an officer, as a question is: before anything is charged.
        """
        check_access(visitor, "model.fit", owner=visitor.account)
        options, run, curator, priced = self._prepare(visitor, asked)
        table = options["table"]
        bound = self.service.bind(visitor, request)
        if bound is not None:
            self.service.request_ids.claim_job(bound)

        def work(enter: Callable[[str], None]) -> int:
            outcome = "failed"
            try:
                if "model" in options:
                    enter("fitting")
                    model = run(curator)
                else:
                    model = run(WatchedTable(curator, Stages(enter)))
                outcome = _charge_of(model)
            except SordinoError as error:
                outcome = type(error).__name__
                raise
            finally:
                self.service.account_service.audit_log.append_if_able(visitor, "model.fit", table, outcome)
            try:
                return self._keep(visitor, model, table)
            except StoreUnusable:
                charge = _charge_of(model)
            raise ChargedError(
                f"the model was fitted and charged ({charge}), but could not be kept, so it is lost; the charge stands",
                charge=charge,
            )

        with self.service.summing(visitor):
            self.service.require_approval(visitor, bound, [priced])
            return self.jobs.begin(visitor.account, "fit", options, work, request=bound)

    def _prepare(
        self, visitor: Visitor, asked: Mapping[str, Any]
    ) -> tuple[dict[str, Any], Callable[[Any], Any], Curator, Plan]:
        """Return what is asked with its table's name, what fits it to a table, the curator that will be charged, and the plan."""
        options = {name: value for name, value in asked.items() if value is not None}
        if "model" in options:
            arguments = _read_prediction(options)
        else:
            _check_fit(options)
        options["table"] = self.service.project.table(options.get("table")).name
        curator = self.service.curator(visitor, options["table"])
        loss: Any = {name: options[name] for name in _LOSS if name in options}
        if "model" in options:
            function = load_fit(options["model"])

            def run(source: Any) -> Any:
                return function(source, **arguments, **loss)

        else:
            fit_request = _fit_request(options, tuple(curator.domain), self._declared_rules(options))

            def run(source: Any) -> Any:
                return fit_request.fit(source, **loss)

        return options, run, curator, price_run(run, curator)

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
        """Return a synthetic model; raises NotThere, QuestionRefused for one that predicts."""
        model = self.any_model(visitor, number)
        if isinstance(model, PricedModel):
            raise QuestionRefused(
                f"model {number} is a {model.describe()}: it draws no rows and answers no questions; its card, its file and "
                "its SQL are free"
            )
        return model

    def any_model(self, visitor: Visitor, number: int) -> Model | PricedModel:
        """Return a model of either kind; raises NotThere."""
        self.check_model(visitor, number)
        return self._load(number)

    def file_of(self, visitor: Visitor, number: int) -> bytes:
        """Return the file of a model, which `sd.synth.load` reads, or `sd.models.load`; raises NotThere."""
        return _encode(self.any_model(visitor, number))

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

    def _keep(self, visitor: Visitor, model: Model | PricedModel, table: str) -> int:
        row = {"account": visitor.account, "name": visitor.name, "source": table, "charge": _charge_of(model)}
        with self._store.transact() as db:
            result = db.execute(insert(MODELS).values(**row, bytes=_encode(model), created=self._store.now()))
        assert result.inserted_primary_key is not None
        return int(result.inserted_primary_key[0])

    def _read(self, number: int) -> Model | PricedModel:
        with self._store.read() as db:
            content = db.execute(select(MODELS.c.bytes).where(MODELS.c.id == number)).scalar_one()
        with tempfile.TemporaryDirectory(prefix="sordino-") as directory:
            path = Path(directory) / "kept.model"
            path.write_bytes(content)
            if not content.startswith(b"{"):
                return load(path)
            prediction: PricedModel = load_prediction(path)
            return prediction


def _charge_of(model: Model | PricedModel) -> str:
    return model.provenance.charge if isinstance(model, PricedModel) else model.facts["charge"]


def _encode(model: Model | PricedModel) -> bytes:
    return encode_model(model).encode() if isinstance(model, PricedModel) else model.to_bytes()


def describe_prediction(model: PricedModel) -> dict[str, Any]:
    """Return a model that predicts as JSON data: its card, and its prediction in SQL, null where it has none."""
    card = model.card
    about = model.provenance
    sql: str | list[str] | None = None
    if hasattr(model, "to_sql"):
        # Such as of three classes by one expression.
        with suppress(QuestionRefused):
            sql = model.to_sql()
    return {
        "schema": 1,
        "model": card.title,
        "table": about.table,
        "cost": about.cost.describe(),
        "charge": about.charge,
        "private": about.private,
        "facts": dict(card.facts),
        "notes": list(card.notes),
        "sql": sql,
    }


def _read_prediction(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a model's function takes, of a request that names one.

    Raises DeclarationError for what it does not take, for what it lacks, and for a value of another kind.
    """
    name = options["model"]
    if not isinstance(name, str):
        raise DeclarationError("must be text", key="model")
    require_model(name)
    takes = {key: one for key, one in arguments_of(name).items() if key != "rng"}
    check_keys(options, ("table", "model", *takes, *_LOSS), what=f"a fit of {name}")
    for key in ("table", *_LOSS):
        if isinstance(options.get(key), (bool, list, dict)):
            raise DeclarationError("must be text or a number", key=key)
    for key, one in takes.items():
        if one.default is one.empty and key not in options:
            raise DeclarationError(f"is missing: {name} needs it", key=key)
    arguments = {key: options[key] for key in takes if key in options}
    # A product of columns is a list in JSON, and a tuple in Python.
    if isinstance(arguments.get("x"), list):
        arguments["x"] = [tuple(term) if isinstance(term, list) else term for term in arguments["x"]]
    return arguments


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
