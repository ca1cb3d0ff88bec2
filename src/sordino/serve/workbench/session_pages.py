"""The pages by which people come in and go, and the files that pages load. Each file is of this package."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response
from starlette.concurrency import run_in_threadpool

from sordino.core.errors import NotAllowed
from sordino.serve.server.access import NotThere
from sordino.serve.server.http_request import address_of, check_origin, cookie_name, service_of, set_cookie
from sordino.serve.server.sessions import SESSION_HOURS
from sordino.serve.workbench.local_door import LocalSessions
from sordino.serve.workbench.page_route import HEADERS, PAGES, Changing, PageRoute, go, page, pick

SESSION_PAGES = APIRouter(route_class=PageRoute, include_in_schema=False)
_FILES = {"workbench.js": "text/javascript", "workbench.css": "text/css"}


@SESSION_PAGES.get("/sign-in")
async def show_sign_in(request: Request) -> Response:
    """Show the form for name and password; of a local workbench, the page that reads the link."""
    return page(request, "sign_in.html", None, words="")


@SESSION_PAGES.post("/sign-in")
async def sign_in(request: Request) -> Response:
    """Begin a session with a name and a password, sent by a form of this very origin."""
    _check_form(request)
    given = await pick(request, "name", "password")
    desk, address = service_of(request).desk, address_of(request)
    cookie, _ = await run_in_threadpool(lambda: desk.sign_in(given["name"], given["password"], address=address))
    return _begin(request, cookie)


@SESSION_PAGES.post("/enter")
async def enter(request: Request) -> Response:
    """Begin the owner's session with the secret of the link, once."""
    _check_form(request)
    door = service_of(request).desk.sessions
    if not isinstance(door, LocalSessions):
        raise NotThere
    return _begin(request, door.enter((await pick(request, "secret"))["secret"]))


@SESSION_PAGES.post("/sign-out")
async def sign_out(request: Request, session: Changing) -> Response:
    """End the session."""
    cookie = request.cookies.get(cookie_name(request), "")
    await run_in_threadpool(service_of(request).desk.sign_out, session.visitor, cookie)
    answer = go("/sign-in")
    set_cookie(request, answer, "", seconds=0)
    return answer


@SESSION_PAGES.get("/page/{name}")
async def show_file(name: str) -> Response:
    """Return a script or a style."""
    if name not in _FILES:
        raise NotThere
    text = (PAGES / name).read_text(encoding="utf-8")
    return Response(text, media_type=_FILES[name], headers=HEADERS | {"cache-control": "no-cache"})


@SESSION_PAGES.get("/favicon.ico")
async def show_icon() -> Response:
    """Return no icon, so that browsers ask for none."""
    return HTMLResponse("", 204, headers=HEADERS)


def _check_form(request: Request) -> None:
    """Raise NotAllowed for a form of another site, and for one that does not say whose it is: browsers always say."""
    check_origin(request)
    if request.headers.get("origin") is None and request.headers.get("sec-fetch-site") is None:
        raise NotAllowed("send this form from the page of this server")


def _begin(request: Request, cookie: str) -> Response:
    answer = go("/")
    set_cookie(request, answer, cookie, seconds=SESSION_HOURS * 3600)
    return answer
