"""The page that chooses an epsilon from a risk: what is stated becomes an interval, and a picture. No data is read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from sordino.core.accounting.belief import posterior_bounds, power_bound
from sordino.core.errors import DeclarationError, QuestionRefused
from sordino.lab.risk.table_choice import TableChoice, choose_for_table
from sordino.reporting.charts import plot
from sordino.reporting.odds_icons import tradeoff_of
from sordino.reporting.picture import darken, encode_picture
from sordino.serve.server.access import NotThere, check_access
from sordino.serve.server.curator_service import CuratorService
from sordino.serve.server.http_request import read_form, service_of
from sordino.serve.server.problems import words_of
from sordino.serve.workbench.page_route import PICTURE_HEADERS, Changing, PageRoute, Reading, fragment, page

EPSILON_PAGES = APIRouter(route_class=PageRoute, include_in_schema=False)
_NUMBERS = ("attacker_prior", "max_posterior", "test_level", "max_power", "relative_risk", "error", "delta")
_FIELDS = ("table", "query", "rows", *_NUMBERS)
_SHOWN = (0.01, 0.1, 0.5, 1.0, 2.0, 5.0)


@EPSILON_PAGES.get("/epsilon")
async def show_epsilon(request: Request, session: Reading) -> Response:
    """Show the form of requirements, and what some epsilons mean."""
    tables = await run_in_threadpool(service_of(request).tables, session.visitor)
    examples = [
        (
            epsilon,
            f"{100 * posterior_bounds(epsilon, prior=0.5)[1]:.1f}%",
            f"{100 * power_bound(epsilon, level=0.05):.1f}%",
        )
        for epsilon in _SHOWN
    ]
    return page(request, "epsilon.html", session, tables=tables, examples=examples)


@EPSILON_PAGES.post("/epsilon/interval")
async def show_interval(request: Request, session: Changing) -> Response:
    """Answer the interval of epsilon that meets what is stated, with a picture where a question is."""
    form = await read_form(request)
    stated = {name: form[name].strip() for name in _FIELDS if form.get(name, "").strip()}
    check_access(session.visitor, "table.read")
    try:
        table_choice = await run_in_threadpool(_choose, service_of(request), stated)
    except (DeclarationError, QuestionRefused) as error:
        return fragment("problem.html", words=words_of(error))
    choice = table_choice.choice
    if choice.conflict is not None:
        return fragment("problem.html", words=choice.conflict.describe())
    words: dict[str, Any] = {"least": f"{choice.lower:.4g}" if choice.lower else "0"}
    words["most"] = "any" if choice.upper == math.inf else f"{choice.upper:.4g}"
    words["ends"] = [by.says for by in (choice.lower_by, choice.upper_by) if by is not None]
    words["chosen"] = None if choice.epsilon is None else f"{choice.epsilon:.4g}"
    words["sentence"] = choice.sentence()
    words["picture"] = urlencode(stated) if table_choice.precision is not None else None
    return fragment("interval.html", **words)


@EPSILON_PAGES.get("/epsilon/{shade}.png")
async def show_tradeoff(request: Request, session: Reading, shade: str) -> Response:
    """Return the picture of accuracy against risk for what is stated."""
    stated = {name: value for name, value in request.query_params.items() if name in _FIELDS}
    check_access(session.visitor, "table.read")
    if shade not in ("light", "dark"):
        raise NotThere

    def draw() -> bytes:
        picture = plot(tradeoff_of(_choose(service_of(request), stated)))
        return encode_picture(darken(picture) if shade == "dark" else picture, ".png")

    return Response(await run_in_threadpool(draw), media_type="image/png", headers=PICTURE_HEADERS)


def _choose(service: CuratorService, stated: Mapping[str, str]) -> TableChoice:
    arguments: dict[str, Any] = {name: stated[name] for name in (*_NUMBERS, "query") if name in stated}
    if "rows" in stated:
        if not stated["rows"].isascii() or not stated["rows"].isdigit() or len(stated["rows"]) > 15:
            raise DeclarationError("is a whole number", key="rows")
        arguments["rows"] = int(stated["rows"])
    return choose_for_table(service.project, stated.get("table"), **arguments)
