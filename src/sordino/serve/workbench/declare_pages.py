"""The page that declares a table by form. It writes no file here: whoever holds the data puts the text into the project."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from sordino.core.errors import DeclarationError
from sordino.serve.server.access import check_access
from sordino.serve.server.http_request import read_form
from sordino.serve.server.problems import words_of
from sordino.serve.server.sessions import Session
from sordino.serve.workbench.declare_form import COLUMNS, ITEMS, TYPES, read_tables, write_declaration
from sordino.serve.workbench.page_route import HEADERS, Changing, PageRoute, Reading, fragment, page

DECLARE_PAGES = APIRouter(route_class=PageRoute, include_in_schema=False)


@DECLARE_PAGES.get("/declare")
async def show_declaration_form(request: Request, session: Reading) -> Response:
    """Show the form."""
    return _form_page(request, session, [])


@DECLARE_PAGES.post("/declare/more")
async def declare_another(request: Request, session: Changing) -> Response:
    """Show the form for another table, beside those that are declared so far."""
    check_access(session.visitor, "table.read")
    form = await read_form(request)
    await run_in_threadpool(write_declaration, form)
    return _form_page(request, session, read_tables(form))


def _form_page(request: Request, session: Session, before: Sequence[Mapping[str, str]]) -> Response:
    budgets = {one["budget"] for one in before if one.get("budget")}
    words: dict[str, Any] = {
        "types": TYPES,
        "items": ITEMS,
        "places": range(1, COLUMNS + 1),
        "budgets": sorted(budgets),
    }
    names = [one["name"] for one in before]
    return page(request, "declare.html", session, before=json.dumps(before), names=names, **words)


@DECLARE_PAGES.post("/declare")
async def check_declaration(request: Request, session: Changing) -> Response:
    """Answer the project file that the form states so far, or what is wrong with it."""
    check_access(session.visitor, "table.read")
    form = await read_form(request)
    if not form.get("name", "").strip():
        return fragment("hint.html", words="Begin with the table's name. What is still missing will stand here.")
    try:
        text = await run_in_threadpool(write_declaration, form)
    except DeclarationError as error:
        return fragment("problem.html", words=words_of(error))
    return fragment("declared.html", text=text)


@DECLARE_PAGES.post("/declare/file")
async def export_declaration(request: Request, session: Changing) -> Response:
    """Return the project file that the form states."""
    check_access(session.visitor, "table.read")
    text = await run_in_threadpool(write_declaration, await read_form(request))
    disposition = {"content-disposition": 'attachment; filename="sordino.toml"'}
    return Response(text, media_type="application/toml", headers=HEADERS | disposition)
