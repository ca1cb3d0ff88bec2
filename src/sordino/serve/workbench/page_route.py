"""What every page shares: its session, its headers, its frame, and errors as pages. It knows no page of its own."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from fastapi.routing import APIRoute

from sordino.core.errors import DeclarationError, SignInNeeded, SordinoError
from sordino.core.loss import parse_fraction
from sordino.core.noise.rng import Rng
from sordino.core.templates import open_templates
from sordino.serve.server.access import ACCESS
from sordino.serve.server.http_request import read_form, session_of, visitor_of
from sordino.serve.server.problems import status_of, words_of
from sordino.serve.server.sessions import Session
from sordino.serve.workbench.local_door import LocalSessions

PAGES = Path(__file__).with_name("pages")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types workbench"
)
HEADERS = {
    "content-security-policy": POLICY,
    # With no-referrer a browser hides the origin of a form that it sends.
    "referrer-policy": "same-origin",
    "permissions-policy": "geolocation=(), camera=(), microphone=(), browsing-topics=()",
    "cache-control": "no-store",
}
PICTURE_HEADERS = HEADERS | {
    "content-security-policy": "default-src 'none'; sandbox"
}  # opened by itself it runs nothing
_NAVIGATION = (
    ("/", "Tables", "table.read"),
    ("/tasks", "Tasks", "table.read"),
    ("/sql", "SQL", "question.plan"),
    ("/history", "History", "release.read"),
    ("/models", "Models", "model.read"),
    ("/collections", "Collections", "collection.read"),
    ("/epsilon", "Choose epsilon", "table.read"),
    ("/declare", "Declare a table", "table.read"),
    ("/desk", "Desk", "audit.read"),
    ("/desk/board", "For the board", "audit.read"),
)


async def _read(request: Request) -> Session:
    return await session_of(request)


async def _change(request: Request) -> Session:
    session = await session_of(request)
    if request.headers.get("authorization") is not None:
        raise SignInNeeded("pages are for people: sign in")
    # This checks the origin and the form's own token.
    await visitor_of(request)
    return session


Reading = Annotated[Session, Depends(_read)]
Changing = Annotated[Session, Depends(_change)]


def page(request: Request, template: str, session: Session | None, *, status: int = 200, **words: Any) -> Response:
    """Return a page from a template; every word in it is escaped."""
    local = isinstance(request.app.state.service.account_service.sessions, LocalSessions)
    may = () if session is None else [a for a in ACCESS if ACCESS[a][session.visitor.role] != "none"]
    state = request.app.state
    # Only a classroom has tasks.
    there = {"/collections": state.collections.any, "/tasks": hasattr(state, "classroom")}
    links = [(path, name) for path, name, action in _NAVIGATION if action in may and there.get(path, True)]
    frame = {"session": session, "links": links, "here": request.url.path, "local": local, "may": may}
    frame["issuer"] = None if local or request.app.state.openid is None else request.app.state.openid.issuer
    text = open_templates(PAGES).get_template(template).render({**frame, **words})
    return HTMLResponse(text, status, headers=HEADERS)


def fragment(template: str, *, status: int = 200, **words: Any) -> Response:
    """Return a part of a page, for the script that put a question."""
    return HTMLResponse(open_templates(PAGES).get_template(template).render(words), status, headers=HEADERS)


def go(path: str) -> Response:
    """Send the browser on to another page after a form."""
    return RedirectResponse(path, 303, headers=HEADERS)


def new_request() -> str:
    """Return the id of a form, which makes a second click the same request."""
    return Rng.secure().bytes(16).hex()


def float_of(amount: float | str) -> float:
    """Return an amount of JSON data as a number to show: what no short decimal says stands there as text, "1/3"."""
    return float(parse_fraction(str(amount)))


async def pick(request: Request, *names: str) -> dict[str, str]:
    """Return the fields of a form by their names, empty where they are missing."""
    form = await read_form(request)
    return {name: form.get(name, "").strip() for name in names}


def read_search(request: Request, *names: str) -> dict[str, str]:
    """Return what a page is searched by, from its address: each name's words, empty where they are missing."""
    return {name: request.query_params.get(name, "").strip()[:200] for name in names}


def split_lines(text: str) -> list[str]:
    """Return the lines of a field of several, without those that are empty."""
    return [line.strip() for line in text.splitlines() if line.strip()]


class PageRoute(APIRoute):
    """A route whose errors are pages: whoever is not signed in is sent to sign in, others read what was wrong."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        answer = super().get_route_handler()

        async def guard(request: Request) -> Response:
            try:
                return await answer(request)
            except SordinoError as error:
                wanted_fragment = request.headers.get("x-fragment") == "1"
                if (
                    isinstance(error, SignInNeeded)
                    and request.url.path not in ("/sign-in", "/enter")
                    and not wanted_fragment
                ):
                    return RedirectResponse("/sign-in", 303, headers=HEADERS)
                if wanted_fragment:
                    # A status of an error would hide the words.
                    return fragment("problem.html", words=words_of(error))
                return await _error_page(request, error)

        return guard


async def _error_page(request: Request, error: SordinoError) -> Response:
    try:
        session: Session | None = await session_of(request)
    except (SignInNeeded, DeclarationError):
        session = None
    template = "sign_in.html" if isinstance(error, SignInNeeded) else "refused.html"
    status = status_of(error)
    return page(request, template, session, status=status, words=words_of(error))
