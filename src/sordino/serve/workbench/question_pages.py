"""The pages of questions: tables, a question by form or as SQL, its price as it is changed, practice, and the asking."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from sordino.ask.queries.sql.parse import SqlText
from sordino.core.errors import ApprovalNeeded, DeclarationError, QuestionRefused
from sordino.core.release import Release, show_columns
from sordino.serve.server.access import NotThere, Visitor
from sordino.serve.server.asked import Asked, read_asked
from sordino.serve.server.curator_service import CuratorService
from sordino.serve.server.http_request import read_form, run_work, service_of
from sordino.serve.server.problems import words_of
from sordino.serve.workbench.marked_error import mark_error
from sordino.serve.workbench.page_route import Changing, PageRoute, Reading, float_of, fragment, go, new_request, page
from sordino.serve.workbench.question_form import FILTERS, MEASURES, build_select, filter_operators
from sordino.serve.workbench.sql_words import words_of_tables

QUESTION_PAGES = APIRouter(route_class=PageRoute, include_in_schema=False)


@QUESTION_PAGES.get("/")
async def show_tables(request: Request, session: Reading) -> Response:
    """Show the tables that may be asked, and what is left of their budgets."""
    service = service_of(request)
    tables = await run_in_threadpool(service.tables, session.visitor)
    budgets = await run_in_threadpool(service.budgets, session.visitor)
    return page(request, "home.html", session, tables=tables, budgets=[left_of(b, session.visitor) for b in budgets])


@QUESTION_PAGES.get("/tables/{name}")
async def show_question_form(request: Request, session: Reading, name: str) -> Response:
    """Show a table's declaration, and the form that builds a question about it."""
    service = service_of(request)
    table = await run_in_threadpool(table_of, service, session.visitor, name)
    (budget,) = await run_in_threadpool(service.budgets, session.visitor, table["budget"])
    words: dict[str, Any] = {"measures": MEASURES, "filters": range(1, FILTERS + 1), "operators": filter_operators()}
    left = left_of(budget, session.visitor)
    return page(request, "table.html", session, table=table, left=left, request_id=new_request(), **words)


@QUESTION_PAGES.get("/sql")
async def show_editor(request: Request, session: Reading) -> Response:
    """Show the editor for questions as SQL."""
    tables = await run_in_threadpool(service_of(request).tables, session.visitor)
    text = f"SELECT COUNT(*) AS n FROM {tables[0]['name']}" if tables else ""
    known = words_of_tables(tables)
    return page(request, "sql.html", session, tables=tables, text=text, known=known, request_id=new_request())


@QUESTION_PAGES.post("/question/price")
async def show_price(request: Request, session: Changing) -> Response:
    """Answer what the question would cost and how wrong its answer would be; nothing is spent."""
    form = await read_form(request)
    service = service_of(request)
    text = ""
    try:
        text = await run_in_threadpool(_text, service, session.visitor, form)
        made = await run_work(
            request, session.visitor, lambda: service.plan(session.visitor, _read_question(form, text))
        )
    except (QuestionRefused, DeclarationError) as error:
        return fragment("problem.html", words=words_of(error), marked=mark_error(text, words_of(error)))
    plans = made.plans if hasattr(made, "plans") else [made]
    budgets = {
        b["budget"]: left_of(b, session.visitor) for b in await run_in_threadpool(service.budgets, session.visitor)
    }
    budget = budgets[service.project.tables[plans[0].table_name].budget]
    words = [_plan_words(plan) for plan in plans]
    return fragment(
        "price.html", sql=text, plans=words, left=budget, officer=service.needs_officer(session.visitor, plans)
    )


@QUESTION_PAGES.post("/question/practise")
async def practise(request: Request, session: Changing) -> Response:
    """Answer from a made-up table of the declared shape, at no cost."""
    form = await read_form(request)
    service = service_of(request)
    text = await run_in_threadpool(_text, service, session.visitor, form)
    found = await run_work(
        request, session.visitor, lambda: service.ask(session.visitor, _read_question(form, text, on="dummy"))
    )
    return fragment("practice.html", releases=[release_words(release) for release in found])


@QUESTION_PAGES.post("/question/ask")
async def ask(request: Request, session: Changing) -> Response:
    """Ask, be charged once, and go to the answer; the form's own id makes a second click the same request."""
    service = service_of(request)
    started = service.public_clock.start()
    form = await read_form(request)
    text = await run_in_threadpool(_text, service, session.visitor, form)
    key = form.get("request_id") or new_request()

    def work() -> list[Release]:
        try:
            return service.ask(session.visitor, _read_question(form, text), request=key)
        finally:
            # the thread waits too, as in http_questions.py
            service.public_clock.sleep(started)

    try:
        found = await run_work(request, session.visitor, work)
    except ApprovalNeeded as error:
        words = words_of(error)
        again = {k: v for k, v in form.items() if k != "csrf_token"}
        return page(request, "waiting.html", session, status=202, words=words, again=again, action="/question/ask")
    if len(found) > 1:
        return go("/history")
    budget = service.project.tables[found[0].table_name].budget
    return go(f"/history/{quote(budget, safe='')}/{quote(found[0].charge, safe='')}")


def release_words(release: Release) -> dict[str, Any]:
    """Return what a page shows of a release: its table with intervals, its summary and its remarks."""
    return {
        "question": release.question,
        "head": show_columns(release.parts),
        "rows": release.display_rows(0.95),
        "keys": len(release.keys),
        "summary": release.summary(),
        "remarks": release.remarks,
        "mechanisms": [(o.name, o.mechanism) for o in release.outputs],
    }


def table_of(service: CuratorService, visitor: Visitor, name: str) -> dict[str, Any]:
    """Return a declared table as the service lists it; raises NotThere."""
    for table in service.tables(visitor):
        if table["name"] == name:
            return table
    raise NotThere


def _text(service: CuratorService, visitor: Visitor, form: Mapping[str, str]) -> str:
    if "sql" in form:
        return form["sql"]
    return build_select(table_of(service, visitor, form.get("table", "")), form)


def _read_question(form: Mapping[str, str], text: str, *, on: str = "data") -> Asked:
    stated: dict[str, Any] = {name: form[name] for name in ("epsilon", "delta", "rho") if form.get(name)}
    if form.get("assume_rows"):
        with contextlib.suppress(ValueError):
            stated["assume_rows"] = int(form["assume_rows"])
    asked = read_asked({"sql": text, "on": on, **stated})
    assert isinstance(asked.question, SqlText)
    return asked


def left_of(budget: Mapping[str, Any], visitor: Visitor) -> dict[str, Any]:
    """Return what is left to a visitor: of its share, where it spends one, else of the whole."""
    share = budget["shares"].get(visitor.spender)
    whose = budget if share is None else share
    name = "epsilon" if "epsilon" in whose["cap"] else next(iter(whose["cap"]))
    return {
        "budget": budget["budget"],
        "currency": name,
        "share": share is not None,
        "cap": float_of(whose["cap"][name]),
        "left": max(0.0, float_of(whose["remaining"][name])),
        "reason": budget["reason"],
        "can_ask": visitor.role == "owner" or share is not None,
    }


def _plan_words(plan: Any) -> dict[str, Any]:
    return {
        "question": plan.sentence(),
        "cost": plan.cost.describe(),
        "amounts": {name: float(amount) for name, amount in plan.cost.amounts().items()},
        "errors": [pair for c in plan.procedure.columns(0.95) for pair in zip(c.names, c.say(), strict=True)],
        "entries": plan.entries(0.95),
        "rows": plan.rows.words,
        "earlier": plan.earlier,
    }
