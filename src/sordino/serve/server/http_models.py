"""The routes of synthetic models and of jobs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Request
from fastapi.responses import Response, StreamingResponse
from starlette.concurrency import run_in_threadpool

from sordino.core.errors import DeclarationError
from sordino.serve.server.access import Visitor
from sordino.serve.server.asked import asked_schema, read_asked
from sordino.serve.server.evaluation_desk import EVALUATION_SCHEMA, EvaluationDesk
from sordino.serve.server.http_request import PROBLEMS, StoredInt, body_of, read_json, respond, run_work, visitor_of
from sordino.serve.server.model_desk import FIT_SCHEMA, ModelDesk

MODELS_AND_JOBS = APIRouter(prefix="/v1", tags=["models"], responses=PROBLEMS)
_SAMPLE = {"type": "object", "properties": {"rows": {"type": "integer"}, "where": {"type": "string"}}}
Who = Annotated[Visitor, Depends(visitor_of)]
RequestId = Annotated[str | None, Header(alias="Idempotency-Key")]


def _desk(request: Request) -> ModelDesk:
    desk: ModelDesk = request.app.state.models
    return desk


def _evaluations(request: Request) -> EvaluationDesk:
    desk: EvaluationDesk = request.app.state.evaluations
    return desk


@MODELS_AND_JOBS.post("/models", openapi_extra=body_of(FIT_SCHEMA))
async def fit(request: Request, visitor: Who, key: RequestId = None) -> Response:
    """Begin to fit a model, charged once; the answer is its job. With an Idempotency-Key the same call again is the same job."""
    asked = await read_json(request)
    job = await run_work(request, visitor, lambda: _desk(request).fit(visitor, asked, request=key))
    return respond(job.to_dict(), 201)


@MODELS_AND_JOBS.get("/models")
async def list_models(request: Request, visitor: Who) -> Response:
    """Return the models: number, table, charge, moment."""
    return respond({"schema": 1, "models": await run_in_threadpool(_desk(request).list_models, visitor)})


@MODELS_AND_JOBS.get("/models/{number}")
async def show_model(request: Request, visitor: Who, number: StoredInt, confidence: float = 0.95) -> Response:
    """Return what a model is, as `sordino synth show --format json`."""
    if not 0 < confidence < 1:
        raise DeclarationError("must lie between 0 and 1, such as 0.95", key="confidence")
    model = await run_work(request, visitor, lambda: _desk(request).model(visitor, number))
    return respond(model.to_dict(confidence=confidence))


@MODELS_AND_JOBS.get("/models/{number}/file")
async def send_model(request: Request, visitor: Who, number: StoredInt) -> Response:
    """Return a model as a file, which `sd.synth.load` reads."""
    model = await run_work(request, visitor, lambda: _desk(request).model(visitor, number))
    headers = {"cache-control": "no-store", "content-disposition": f'attachment; filename="{number}.model"'}
    return Response(
        await run_work(request, visitor, model.to_bytes), media_type="application/octet-stream", headers=headers
    )


@MODELS_AND_JOBS.post("/models/{number}/sample", openapi_extra=body_of(_SAMPLE))
async def sample(request: Request, visitor: Who, number: StoredInt) -> Response:
    """Return drawn rows as CSV, free: {"rows": 1000, "where": "age > 40"}."""
    given = await read_json(request)
    rows, where = given.get("rows"), given.get("where")
    if not (rows is None or (isinstance(rows, int) and not isinstance(rows, bool))):
        raise DeclarationError("must be a whole number", key="rows")
    if not (where is None or isinstance(where, str)):
        raise DeclarationError("must be text, such as age > 40", key="where")
    parts = await run_work(request, visitor, lambda: _desk(request).sample(visitor, number, rows=rows, where=where))
    return StreamingResponse(parts, media_type="text/csv; charset=utf-8", headers={"cache-control": "no-store"})


@MODELS_AND_JOBS.post("/models/{number}/answer", openapi_extra=body_of(asked_schema()))
async def answer(request: Request, visitor: Who, number: StoredInt) -> Response:
    """Return a model's own answer to a question, free, as `sordino synth answer --format json`."""
    asked = read_asked(await read_json(request))
    release = await run_work(request, visitor, lambda: _desk(request).answer(visitor, number, asked))
    return respond(release.to_dict(confidence=asked.confidence))


@MODELS_AND_JOBS.post("/models/{number}/evaluations", openapi_extra=body_of(EVALUATION_SCHEMA))
async def evaluate(request: Request, visitor: Who, number: StoredInt, key: RequestId = None) -> Response:
    """Begin to compare a model's rows with its table, charged once; the answer is its job, as of a fit."""
    asked = await read_json(request)
    job = await run_work(request, visitor, lambda: _evaluations(request).begin(visitor, number, asked, request=key))
    return respond(job.to_dict(), 201)


@MODELS_AND_JOBS.get("/models/{number}/evaluations")
async def list_evaluations(request: Request, visitor: Who, number: StoredInt) -> Response:
    """Return the evaluations of a model: number, charge, mean distances over one, two and three columns."""
    found = await run_in_threadpool(_evaluations(request).list_evaluations, visitor, number)
    return respond({"schema": 1, "evaluations": found})


@MODELS_AND_JOBS.get("/models/{number}/evaluations/{evaluation}")
async def send_evaluation(request: Request, visitor: Who, number: StoredInt, evaluation: StoredInt) -> Response:
    """Return an evaluation as the page that `sordino synth report` writes."""
    text = await run_work(request, visitor, lambda: _evaluations(request).page(visitor, number, evaluation))
    headers = {"cache-control": "no-store", "content-disposition": 'attachment; filename="evaluation.html"'}
    return Response(text, media_type="text/html", headers=headers | {"content-security-policy": "sandbox"})


@MODELS_AND_JOBS.get("/jobs")
async def list_jobs(request: Request, visitor: Who) -> Response:
    """Return jobs, each with its stage and elapsed time."""
    found = await run_in_threadpool(_desk(request).list_jobs, visitor)
    return respond({"schema": 1, "jobs": [job.to_dict() for job in found]})


@MODELS_AND_JOBS.get("/jobs/{number}")
async def show_job(request: Request, visitor: Who, number: StoredInt) -> Response:
    """Return a job; when it is done, `model` is the number of its model."""
    return respond((await run_in_threadpool(_desk(request).find_job, visitor, number)).to_dict())
