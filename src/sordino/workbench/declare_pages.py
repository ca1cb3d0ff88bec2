"""The page that declares a table by form. It writes no file here: whoever holds the data puts the text into the project."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from sordino.errors import DeclarationError
from sordino.server.access import check_access
from sordino.server.http_request import read_form
from sordino.server.problems import words_of
from sordino.workbench.declare_form import COLUMNS, TYPES, write_declaration
from sordino.workbench.page_route import HEADERS, Changing, PageRoute, Reading, fragment, page, run_in_threadpool

__all__ = ["DECLARE_PAGES"]

DECLARE_PAGES = APIRouter(route_class=PageRoute, include_in_schema=False)


@DECLARE_PAGES.get("/declare")
async def show_declaration_form(request: Request, session: Reading) -> Response:
    """Show the form."""
    return page(request, "declare.html", session, types=TYPES, places=range(1, COLUMNS + 1))


@DECLARE_PAGES.post("/declare")
async def check_declaration(request: Request, session: Changing) -> Response:
    """Answer the project file that the form states so far, or what is wrong with it."""
    check_access(session.visitor, "table.read")
    form = await read_form(request)
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
