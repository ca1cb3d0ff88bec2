"""The routes of questions: tables, plan, ask, budgets, past releases. JSON is that of the command line."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from sordino.core.ledger.records import charge_to_dict
from sordino.core.loss import loss_to_numbers
from sordino.core.release import Release
from sordino.serve.server.access import Visitor
from sordino.serve.server.asked import asked_schema, read_asked
from sordino.serve.server.http_request import PROBLEMS, body_of, read_json, respond, run_work, service_of, visitor_of

QUESTIONS = APIRouter(prefix="/v1", tags=["questions"], responses=PROBLEMS)
Who = Annotated[Visitor, Depends(visitor_of)]
RequestId = Annotated[str | None, Header(alias="Idempotency-Key")]


@QUESTIONS.get("/tables")
async def list_tables(request: Request, visitor: Who) -> Response:
    """Return the declared tables."""
    tables = await run_in_threadpool(service_of(request).tables, visitor)
    return respond({"schema": 1, "tables": tables})


@QUESTIONS.post("/plan", openapi_extra=body_of(asked_schema()))
async def plan(request: Request, visitor: Who) -> Response:
    """Return what a question would cost and how wrong its answer would be; free, as `sordino plan --format json`."""
    asked = read_asked(await read_json(request))

    def work() -> Any:
        made = service_of(request).plan(visitor, asked)
        return made.to_dict() if hasattr(made, "plans") else made.to_dict(confidence=asked.confidence)

    return respond(await run_work(request, visitor, work))


@QUESTIONS.post("/ask", openapi_extra=body_of(asked_schema()))
async def ask(request: Request, visitor: Who, key: RequestId = None) -> Response:
    """Return the private answer, charged once, as `sordino ask --format json`; it leaves on the public clock.

    With an Idempotency-Key the same call again returns the same answer. 202 says that an officer has to approve first.
    """
    service = service_of(request)
    started = service.public_clock.start()
    asked = read_asked(await read_json(request))

    def work() -> list[Release]:
        try:
            return service.ask(visitor, asked, request=key)
        finally:
            # the thread waits too: were it free before the answer leaves, the next of the account would tell when the work ended
            service.public_clock.sleep(started)

    releases = await run_work(request, visitor, work)
    found = [release.to_dict(confidence=asked.confidence) for release in releases]
    return respond(found[0] if len(found) == 1 else found)


@QUESTIONS.get("/budgets")
async def list_budgets(request: Request, visitor: Who, budget: str | None = None) -> Response:
    """Return how budgets stand, as `sordino budget --format json`; of the shares an analyst sees its own."""
    found = await run_in_threadpool(service_of(request).budgets, visitor, budget)
    return respond({"schema": 1, "budgets": found})


@QUESTIONS.get("/releases")
async def list_releases(request: Request, visitor: Who, budget: str | None = None) -> Response:
    """Return every question that was charged, as `sordino releases --format json`; an analyst sees its own."""
    found = await run_in_threadpool(service_of(request).charges, visitor, budget=budget)
    return respond({"schema": 1, "releases": [charge_to_dict(name, charge) for name, charge in found]})


@QUESTIONS.get("/releases/{charge}")
async def show_release(
    request: Request, visitor: Who, charge: str, budget: str | None = None, confidence: float = 0.95
) -> Response:
    """Return a past release as it was, as `sordino show --format json`."""
    release = await run_in_threadpool(service_of(request).release, visitor, charge, budget=budget)
    return respond(release.to_dict(confidence=confidence))


@QUESTIONS.get("/releases/{charge}/explanation")
async def explain_release(request: Request, visitor: Who, charge: str, budget: str | None = None) -> Response:
    """Return in plain words what a past release reveals at most, as `sordino explain --format json`."""
    service = service_of(request)
    release = await run_in_threadpool(service.release, visitor, charge, budget=budget)
    text = await run_work(request, visitor, lambda: service.explain(visitor, charge, budget=budget))
    said = {"schema": 1, "charge": release.charge, "cost": loss_to_numbers(release.cost), "explanation": text}
    return respond(said)
