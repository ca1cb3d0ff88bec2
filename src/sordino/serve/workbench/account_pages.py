"""Pages of accounts: sign-in, own password and tokens, those of others."""

from __future__ import annotations

import datetime
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response
from starlette.concurrency import run_in_threadpool

from sordino.core.errors import DeclarationError, NotAllowed, SignInNeeded
from sordino.serve.server.access import OWNER, NotThere, Visitor, check_access, sees_all
from sordino.serve.server.account_service import AccountService
from sordino.serve.server.accounts import Token
from sordino.serve.server.http_request import StoredInt, address_of, check_origin, cookie_name, service_of, set_cookie
from sordino.serve.server.sessions import SESSION_HOURS, Session
from sordino.serve.workbench.local_door import LocalSessions
from sordino.serve.workbench.page_route import HEADERS, PAGES, Changing, PageRoute, Reading, go, page, pick

# ---- The pages of accounts: one's own password and tokens, what waits for an officer; and an account as an officer
# sees it

ACCOUNT_PAGES = APIRouter(route_class=PageRoute, include_in_schema=False)


@ACCOUNT_PAGES.get("/account")
async def show_account(request: Request, session: Reading) -> Response:
    """Show one's own account."""
    return await _own_page(request, session)


@ACCOUNT_PAGES.post("/account/password")
async def change_password(request: Request, session: Changing) -> Response:
    """Change one's own password; the other sessions of the account end, and this one begins anew."""
    account_service = _account_service(request, session.visitor)
    visitor = session.visitor
    fields = await pick(request, "old", "new", "again")
    if fields["new"] != fields["again"]:
        raise DeclarationError("was not typed the same twice", key="the new password")

    def work() -> str:
        try:
            account_service.change_password(visitor, visitor.name, fields["new"], old=fields["old"])
        # The session is sound: whoever mistyped is not signed out.
        except SignInNeeded:
            raise NotAllowed("the present password is wrong, so it was not changed") from None
        cookie, _ = account_service.begin_session(account_service.find_account(visitor, visitor.name), by="password")
        return cookie

    answer = go("/account")
    set_cookie(request, answer, await run_in_threadpool(work), seconds=SESSION_HOURS * 3600)
    return answer


@ACCOUNT_PAGES.post("/account/tokens")
async def make_token(request: Request, session: Changing) -> Response:
    """Make a token, and show its secret this once."""
    account_service = _account_service(request, session.visitor)
    fields = await pick(request, "name", "ends")
    expires = None if not fields["ends"] else _end_of(fields["ends"])
    token, secret = await run_in_threadpool(
        lambda: account_service.make_token(session.visitor, fields["name"], expires=expires)
    )
    return await _own_page(request, session, made=(token.name, secret))


@ACCOUNT_PAGES.post("/account/tokens/{number}")
async def revoke_token(request: Request, session: Changing, number: StoredInt) -> Response:
    """Revoke a token of one's own."""
    account_service = _account_service(request, session.visitor)
    await run_in_threadpool(_revoke, account_service, session.visitor, session.visitor.name, number)
    return go("/account")


@ACCOUNT_PAGES.get("/desk/accounts/{name}")
async def show_account_of(request: Request, session: Reading, name: str) -> Response:
    """Show an account to an officer: role, password, tokens."""
    account_service = _account_service(request, session.visitor)
    visitor = session.visitor
    check_access(visitor, "account.change")
    account = await run_in_threadpool(account_service.find_account, visitor, name)
    tokens = await run_in_threadpool(account_service.list_tokens, visitor, name)
    return page(request, "account_of.html", session, account=account, tokens=[_words(token) for token in tokens])


@ACCOUNT_PAGES.post("/desk/accounts/{name}/password")
async def set_password(request: Request, session: Changing, name: str) -> Response:
    """Set the password of another's account; all its sessions end."""
    account_service = _account_service(request, session.visitor)
    visitor = session.visitor
    check_access(visitor, "account.change")
    if name == visitor.name:
        raise NotAllowed("change your own password on the page of your account")
    new = (await pick(request, "new"))["new"]
    await run_in_threadpool(lambda: account_service.change_password(visitor, name, new))
    return go(f"/desk/accounts/{quote(name, safe='')}")


@ACCOUNT_PAGES.post("/desk/accounts/{name}/tokens/{number}")
async def revoke_token_of(request: Request, session: Changing, name: str, number: StoredInt) -> Response:
    """Revoke a token of an account."""
    account_service = _account_service(request, session.visitor)
    check_access(session.visitor, "account.change")
    await run_in_threadpool(_revoke, account_service, session.visitor, name, number)
    return go(f"/desk/accounts/{quote(name, safe='')}")


def _account_service(request: Request, visitor: Visitor) -> AccountService:
    """Return the service; raises NotThere where there are no accounts."""
    if visitor.role == OWNER.role:
        raise NotThere
    return service_of(request).account_service


def _revoke(account_service: AccountService, visitor: Visitor, name: str, number: int) -> None:
    if number not in [token.id for token in account_service.list_tokens(visitor, name)]:
        raise NotThere
    account_service.revoke_token(visitor, number)


async def _own_page(request: Request, session: Session, *, made: tuple[str, str] | None = None) -> Response:
    visitor = session.visitor
    account_service = _account_service(request, visitor)
    account = await run_in_threadpool(account_service.find_account, visitor, visitor.name)
    tokens = await run_in_threadpool(account_service.list_tokens, visitor, visitor.name)
    approvals = (
        [] if sees_all(visitor, "approval.read") else await run_in_threadpool(account_service.list_approvals, visitor)
    )
    words: dict[str, Any] = {"account": account, "tokens": [_words(token) for token in tokens], "made": made}
    return page(request, "account.html", session, approvals=[one.to_dict() for one in reversed(approvals)], **words)


def _words(token: Token) -> dict[str, Any]:
    return {**token.to_dict(), "created": token.created[:10], "ends": (token.expires or "")[:10] or "never"}


def _end_of(day: str) -> str:
    """Return the moment after which a token of this last day lets nobody in."""
    try:
        last = datetime.date.fromisoformat(day)
    except ValueError:
        raise DeclarationError("is a day, such as 2027-01-31", key="the last day") from None
    return f"{last}T23:59:59.999Z"


# ---- The pages by which people come in and go, and the files that pages load. Each file is of this package

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
    fields = await pick(request, "name", "password")
    account_service = service_of(request).account_service
    address = address_of(request)
    cookie, _ = await run_in_threadpool(
        lambda: account_service.sign_in(fields["name"], fields["password"], address=address)
    )
    return _begin(request, cookie)


@SESSION_PAGES.post("/enter")
async def enter(request: Request) -> Response:
    """Begin the owner's session with the secret of the link, once."""
    _check_form(request)
    door = service_of(request).account_service.sessions
    if not isinstance(door, LocalSessions):
        raise NotThere
    return _begin(request, door.enter((await pick(request, "secret"))["secret"]))


@SESSION_PAGES.post("/sign-out")
async def sign_out(request: Request, session: Changing) -> Response:
    """End the session."""
    cookie = request.cookies.get(cookie_name(request), "")
    await run_in_threadpool(service_of(request).account_service.sign_out, session.visitor, cookie)
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
