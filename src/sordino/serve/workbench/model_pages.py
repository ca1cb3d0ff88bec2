"""Pages of models: the form of a fit, models, their answers and evaluations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from sordino.core.errors import ApprovalNeeded, DeclarationError, QuestionRefused, SordinoError
from sordino.models.record import PricedModel
from sordino.models.registry import MODELS, arguments_of, require_model
from sordino.reporting.charts import is_drawn, plot
from sordino.reporting.picture import Picture, darken, encode_picture, read_picture
from sordino.serve.server.access import NotThere
from sordino.serve.server.evaluation_service import EvaluationService
from sordino.serve.server.http_request import StoredInt, read_form, run_work, service_of
from sordino.serve.server.jobs import Job
from sordino.serve.server.model_service import ModelService, describe_prediction
from sordino.serve.server.problems import words_of
from sordino.serve.server.question_request import read_question_request
from sordino.serve.server.sessions import Session
from sordino.serve.workbench.page_route import (
    HEADERS,
    PICTURE_HEADERS,
    Changing,
    PageRoute,
    Reading,
    fragment,
    go,
    new_request,
    page,
    split_lines,
)
from sordino.serve.workbench.question_pages import left_of, release_words, table_of
from sordino.serve.workbench.waiting_pages import wait_for_officer
from sordino.synth.methods import METHODS, load_method, method_steps, methods_with

# ---- A fit by form: its fields become what `POST /v1/models` takes. It sees declared columns only

_LOSS = ("epsilon", "delta", "rho")


def read_fit(form: Mapping[str, str], columns: Sequence[str]) -> dict[str, Any]:
    """Return what a form states of a fit; all columns, unless some are not ticked. Rules are those ticked, then those written.

    >>> form = {"table": "t", "epsilon": "1", "column:age": "on", "rules": "never age > 90", "proposed:age <= 99": "on"}
    >>> read_fit(form, ["age", "sex"])
    {'table': 't', 'epsilon': '1', 'columns': ['age'], 'rules': ['age <= 99', 'never age > 90']}
    """
    options: dict[str, Any] = {name: form[name] for name in ("table", "method", "model", *_LOSS) if form.get(name)}
    ticked = [name for name in columns if form.get(f"column:{name}")]
    if not ticked:
        raise DeclarationError("tick at least one", key="columns")
    if "model" in options:
        takes = arguments_of(require_model_name(options["model"]))
        options["x" if "x" in takes else "columns"] = [
            name for name in ticked if name != form.get("y") or "y" not in takes
        ]
        options |= {"y": form["y"]} if "y" in takes and form.get("y") else {}
        options |= {"scale": True} if form.get("scale") and "scale" in takes else {}
        for name in ("depth", "components", "clusters", "validate", "assume_rows"):
            options |= whole_number(form, name) if name in takes else {}
        return options
    if len(ticked) < len(columns) and options.get("method") != "marginals":
        options["columns"] = ticked
    for name in ("cap", "assume_rows"):
        options |= whole_number(form, name)
    ticked_rules = [name.removeprefix("proposed:") for name in form if name.startswith("proposed:")]
    if rules := [*ticked_rules, *split_lines(form.get("rules", ""))]:
        options["rules"] = list(dict.fromkeys(rules))
    if predicted := form.get("predict", "").strip():
        options["predict"] = _split(predicted, ",")
    if sets := split_lines(form.get("sets", "")):
        options["marginals" if options.get("method") == "marginals" else "workload"] = [
            _split(line, ",") for line in sets
        ]
    return options


def require_model_name(name: str) -> str:
    """Return the name of a model's function; raises DeclarationError for another name."""
    require_model(name)
    return name


def read_evaluation(form: Mapping[str, str]) -> dict[str, Any]:
    """Return what a form states of an evaluation."""
    options: dict[str, Any] = {name: form[name].strip() for name in (*_LOSS, "predict") if form.get(name, "").strip()}
    return options | whole_number(form, "rows")


def whole_number(form: Mapping[str, str], name: str) -> dict[str, int]:
    """Return a field that holds a whole number by its name, nothing where it is empty; raises DeclarationError."""
    text = form.get(name, "").strip()
    if not text:
        return {}
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise DeclarationError("must be a whole number", key=name)
    return {name: int(text)}


def _split(line: str, by: str) -> list[str]:
    return [part.strip() for part in line.split(by)]


# ---- The pages of synthetic tables: a fit and its job, what a model is, rows and answers of it, how far it is from
# its table

MODEL_PAGES = APIRouter(route_class=PageRoute, include_in_schema=False)
# The place of a drawing in a list.
Place = Annotated[int, Field(ge=0, le=10_000)]
# Rows of a sample on a page.
_SHOWN = 10


def _models(request: Request) -> ModelService:
    model_service: ModelService = request.app.state.models
    return model_service


def _evaluations(request: Request) -> EvaluationService:
    evaluation_service: EvaluationService = request.app.state.evaluations
    return evaluation_service


@MODEL_PAGES.get("/models")
async def show_models(request: Request, session: Reading) -> Response:
    """Show the models that the visitor may use, the jobs, and which tables may be modelled."""
    model_service = _models(request)
    models = await run_in_threadpool(model_service.list_models, session.visitor)
    jobs = await run_in_threadpool(model_service.list_jobs, session.visitor)
    tables = await run_in_threadpool(service_of(request).tables, session.visitor)
    return page(request, "models.html", session, models=models[::-1], jobs=jobs[:-21:-1], tables=tables)


# ---- a fit


@MODEL_PAGES.get("/models/fit/{name}")
async def show_fit_form(request: Request, session: Reading, name: str) -> Response:
    """Show the form that fits a model of a table."""
    service = service_of(request)
    table = await run_in_threadpool(table_of, service, session.visitor, name)
    declared, proposals = await run_in_threadpool(_models(request).list_rules, session.visitor, name)
    words: dict[str, Any] = {
        "table": table,
        "rules": declared,
        "proposals": proposals,
        "columns": _columns(table),
        "methods": {name: load_method(name).label for name in METHODS},
        "methods_with": methods_with,
        "request_id": new_request(),
    }
    return page(request, "fit.html", session, **words)


@MODEL_PAGES.get("/models/predict/{name}")
async def show_prediction_form(request: Request, session: Reading, name: str) -> Response:
    """Show the form that fits a regression, a classifier, clusters or components of a table."""
    table = await run_in_threadpool(table_of, service_of(request), session.visitor, name)
    kinds = {model: kind.title for model, kind in MODELS.items()}
    words: dict[str, Any] = {"table": table, "columns": _columns(table), "kinds": kinds, "request_id": new_request()}
    return page(request, "predict.html", session, **words)


@MODEL_PAGES.post("/models/price")
async def price_fit(request: Request, session: Changing) -> Response:
    """Answer what a fit would be charged; nothing is spent."""
    try:
        options = await _fit_asked(request, session)
        plan = await run_work(request, session.visitor, lambda: _models(request).plan(session.visitor, options))
    except SordinoError as error:
        return fragment("problem.html", words=words_of(error))
    steps = () if "model" in options else method_steps(options.get("method", "auto"))
    return await _show_price(request, session, plan, steps=steps)


@MODEL_PAGES.post("/models/fit")
async def fit(request: Request, session: Changing) -> Response:
    """Begin to fit, charged once, and go to its job; the form's own id makes a second click the same job."""
    form = await read_form(request)
    options = await _fit_asked(request, session)
    key = form.get("request_id") or new_request()
    try:
        job = await run_work(
            request, session.visitor, lambda: _models(request).fit(session.visitor, options, request=key)
        )
    except ApprovalNeeded as error:
        return await wait_for_officer(request, session, error, {**form, "request_id": key}, "/models/fit")
    return go(f"/jobs/{job.id}")


async def _fit_asked(request: Request, session: Session) -> dict[str, Any]:
    form = await read_form(request)
    table = await run_in_threadpool(table_of, service_of(request), session.visitor, form.get("table", ""))
    return read_fit(form, _columns(table))


def _columns(table: dict[str, Any]) -> list[str]:
    """Return the columns that a model can hold."""
    return [name for name, column in table["columns"].items() if column["type"] not in ("identifier", "list")]


@MODEL_PAGES.get("/jobs/{number}")
async def show_job(request: Request, session: Reading, number: StoredInt) -> Response:
    """Show a job: its stage and the time it has taken, until it is done."""
    job = await run_in_threadpool(_models(request).find_job, session.visitor, number)
    if request.headers.get("x-fragment") == "1":
        return fragment("job_state.html", job=_job_words(job))
    return page(request, "job.html", session, job=_job_words(job))


def _job_words(job: Job) -> dict[str, Any]:
    plain = job.to_dict()
    minutes, seconds = divmod(int(job.seconds), 60)
    elapsed = f"{minutes} min {seconds} s" if minutes else f"{job.seconds:g} s"
    return {**plain, "elapsed": elapsed, "what": "An evaluation" if job.kind == "evaluation" else "A fit"}


# ---- a model


@MODEL_PAGES.get("/models/{number}")
async def show_model(request: Request, session: Reading, number: StoredInt) -> Response:
    """Show what a model is, and what can be had of it."""
    model_service = _models(request)
    visitor = session.visitor
    model = await run_work(request, visitor, lambda: model_service.any_model(visitor, number))
    if isinstance(model, PricedModel):
        card = describe_prediction(model)
        return page(request, "prediction.html", session, number=number, model=card, drawn=is_drawn(model))
    done = await run_in_threadpool(_evaluations(request).list_evaluations, visitor, number)
    about = {**model.to_dict(), "sentence": model.describe()}
    words: dict[str, Any] = {"number": number, "model": about, "evaluations": done, "request_id": new_request()}
    return page(request, "model.html", session, **words)


@MODEL_PAGES.get("/models/{number}/{shade}.png")
async def show_model_picture(request: Request, session: Reading, number: StoredInt, shade: str) -> Response:
    """Return the picture of a model, column by column."""
    model = await run_work(request, session.visitor, lambda: _models(request).any_model(session.visitor, number))
    if not is_drawn(model):
        raise NotThere
    return await _send_picture(request, session, lambda: plot(model), shade)


@MODEL_PAGES.get("/models/{number}/file")
async def export_model(request: Request, session: Reading, number: StoredInt) -> Response:
    """Return a model as a file, which `sd.synth.load` reads, or `sd.models.load`."""
    content = await run_work(request, session.visitor, lambda: _models(request).file_of(session.visitor, number))
    return Response(content, media_type="application/octet-stream", headers=_file(f"sordino-{number}.model"))


@MODEL_PAGES.post("/models/{number}/rows")
async def show_rows(request: Request, session: Changing, number: StoredInt) -> Response:
    """Answer a few drawn rows, free."""
    form = await read_form(request)
    model_service = _models(request)
    try:
        rows = whole_number(form, "rows").get("rows")
        count = _SHOWN if rows is None else min(rows, _SHOWN)
        options = _drawn_as(form)
        parts = await run_work(
            request, session.visitor, lambda: list(model_service.sample(session.visitor, number, rows=count, **options))
        )
    except (DeclarationError, QuestionRefused) as error:
        return fragment("problem.html", words=words_of(error))
    head, *cells = _cells("".join(parts))
    return fragment("sample.html", head=head, rows=cells)


@MODEL_PAGES.post("/models/{number}/sample")
async def export_rows(request: Request, session: Changing, number: StoredInt) -> Response:
    """Return drawn rows as CSV, free."""
    form = await read_form(request)
    rows = whole_number(form, "rows").get("rows")
    model_service = _models(request)
    options = _drawn_as(form)
    parts = await run_work(
        request, session.visitor, lambda: model_service.sample(session.visitor, number, rows=rows, **options)
    )
    return StreamingResponse(parts, media_type="text/csv; charset=utf-8", headers=_file(f"sordino-{number}.csv"))


def _drawn_as(form: Mapping[str, str]) -> dict[str, Any]:
    """Return how rows are drawn, as the form states it."""
    return {"where": form.get("where", "").strip() or None, "independent": "independent" in form}


@MODEL_PAGES.post("/models/{number}/answer")
async def answer(request: Request, session: Changing, number: StoredInt) -> Response:
    """Answer the model's own answer to a question, free."""
    form = await read_form(request)
    try:
        question = read_question_request({"sql": form.get("sql", "")})
        release = await run_work(
            request, session.visitor, lambda: _models(request).answer(session.visitor, number, question)
        )
    except (DeclarationError, QuestionRefused) as error:
        return fragment("problem.html", words=words_of(error))
    return fragment("model_answer.html", one=release_words(release))


# ---- its evaluations


@MODEL_PAGES.post("/models/{number}/price")
async def price_evaluation(request: Request, session: Changing, number: StoredInt) -> Response:
    """Answer what an evaluation would be charged; nothing is spent."""
    try:
        options = read_evaluation(await read_form(request))
        plan = await run_work(
            request, session.visitor, lambda: _evaluations(request).plan(session.visitor, number, options)
        )
    except SordinoError as error:
        return fragment("problem.html", words=words_of(error))
    return await _show_price(request, session, plan)


@MODEL_PAGES.post("/models/{number}/evaluations")
async def evaluate(request: Request, session: Changing, number: StoredInt) -> Response:
    """Begin to evaluate, charged once, and go to its job."""
    form = await read_form(request)
    options = read_evaluation(form)
    key = form.get("request_id") or new_request()
    evaluations = _evaluations(request)
    try:
        job = await run_work(
            request, session.visitor, lambda: evaluations.begin(session.visitor, number, options, request=key)
        )
    except ApprovalNeeded as error:
        action = f"/models/{number}/evaluations"
        return await wait_for_officer(request, session, error, {**form, "request_id": key}, action)
    return go(f"/jobs/{job.id}")


@MODEL_PAGES.get("/models/{number}/evaluations/{evaluation}")
async def show_evaluation(request: Request, session: Reading, number: StoredInt, evaluation: StoredInt) -> Response:
    """Show how far a model's rows are from its table, as the report says it."""
    sheet = await run_in_threadpool(_evaluations(request).sheet, session.visitor, number, evaluation)
    at = f"/models/{number}/evaluations/{evaluation}"
    return page(request, "evaluation.html", session, sheet=sheet, number=number, at=at)


@MODEL_PAGES.get("/models/{number}/evaluations/{evaluation}/file")
async def export_evaluation(request: Request, session: Reading, number: StoredInt, evaluation: StoredInt) -> Response:
    """Return the page that `sordino synth report` writes."""
    evaluations = _evaluations(request)
    text = await run_work(request, session.visitor, lambda: evaluations.page(session.visitor, number, evaluation))
    return Response(text, media_type="text/html", headers=_file(f"sordino-evaluation-{evaluation}.html"))


@MODEL_PAGES.get("/models/{number}/evaluations/{evaluation}/{section}-{drawing}-{shade}.png")
async def show_drawing(
    request: Request,
    session: Reading,
    number: StoredInt,
    evaluation: StoredInt,
    section: Place,
    drawing: Place,
    shade: str,
) -> Response:
    """Return a picture of an evaluation."""
    sheet = await run_in_threadpool(_evaluations(request).sheet, session.visitor, number, evaluation)
    if section >= len(sheet.sections) or drawing >= len(sheet.sections[section].drawings):
        raise NotThere
    title, spec = sheet.sections[section].drawings[drawing]
    return await _send_picture(request, session, lambda: read_picture(spec, title), shade)


async def _send_picture(request: Request, session: Session, draw: Callable[[], Picture], shade: str) -> Response:
    if shade not in ("light", "dark"):
        raise NotThere

    def encode() -> bytes:
        picture = draw()
        return encode_picture(darken(picture) if shade == "dark" else picture, ".png")

    return Response(await run_work(request, session.visitor, encode), media_type="image/png", headers=PICTURE_HEADERS)


async def _show_price(
    request: Request, session: Session, plan: Any, *, steps: Sequence[tuple[str, str]] = ()
) -> Response:
    service = service_of(request)
    visitor = session.visitor
    (budget,) = await run_in_threadpool(service.budgets, visitor, service.project.tables[plan.table_name].budget)
    left = left_of(budget, visitor)
    cost = float(plan.cost.amounts().get(left["currency"], 0))
    officer = service.needs_officer(visitor, [plan])
    unknown = await run_in_threadpool(service.ledger(budget["budget"]).unknown)
    words = {"question": plan.words, "cost": plan.cost.describe(), "amount": cost, "unknown": unknown}
    return fragment("model_price.html", left=left, officer=officer, steps=steps, **words)


def _file(name: str) -> dict[str, str]:
    return HEADERS | {"content-disposition": f'attachment; filename="{name}"'}


def _cells(text: str) -> list[list[str]]:
    import csv
    import io

    return list(csv.reader(io.StringIO(text)))
