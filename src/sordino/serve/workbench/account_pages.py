"""The pages of accounts: one's own password and tokens, what waits for an officer; and an account as an officer sees it."""

from __future__ import annotations

import datetime
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from sordino.core.errors import DeclarationError, NotAllowed, SignInNeeded
from sordino.serve.server.access import OWNER, NotThere, Visitor, check_access, sees_all
from sordino.serve.server.account_desk import AccountDesk
from sordino.serve.server.accounts import Token
from sordino.serve.server.http_request import StoredInt, service_of, set_cookie
from sordino.serve.server.sessions import SESSION_HOURS, Session
from sordino.serve.workbench.page_route import Changing, PageRoute, Reading, go, page, pick

ACCOUNT_PAGES = APIRouter(route_class=PageRoute, include_in_schema=False)


@ACCOUNT_PAGES.get("/account")
async def show_account(request: Request, session: Reading) -> Response:
    """Show one's own account."""
    return await _own_page(request, session)


@ACCOUNT_PAGES.post("/account/password")
async def change_password(request: Request, session: Changing) -> Response:
    """Change one's own password; the other sessions of the account end, and this one begins anew."""
    desk, visitor = _desk(request, session.visitor), session.visitor
    given = await pick(request, "old", "new", "again")
    if given["new"] != given["again"]:
        raise DeclarationError("was not typed the same twice", key="the new password")

    def work() -> str:
        try:
            desk.change_password(visitor, visitor.name, given["new"], old=given["old"])
        except SignInNeeded:  # the session is sound: whoever mistyped is not sent out
            raise NotAllowed("the present password is wrong, so it was not changed") from None
        cookie, _ = desk.begin_session(desk.find_account(visitor, visitor.name), by="password")
        return cookie

    answer = go("/account")
    set_cookie(request, answer, await run_in_threadpool(work), seconds=SESSION_HOURS * 3600)
    return answer


@ACCOUNT_PAGES.post("/account/tokens")
async def make_token(request: Request, session: Changing) -> Response:
    """Make a token, and show its secret this once."""
    desk = _desk(request, session.visitor)
    given = await pick(request, "name", "ends")
    expires = None if not given["ends"] else _end_of(given["ends"])
    token, secret = await run_in_threadpool(lambda: desk.make_token(session.visitor, given["name"], expires=expires))
    return await _own_page(request, session, made=(token.name, secret))


@ACCOUNT_PAGES.post("/account/tokens/{number}")
async def revoke_token(request: Request, session: Changing, number: StoredInt) -> Response:
    """Revoke a token of one's own."""
    desk = _desk(request, session.visitor)
    await run_in_threadpool(_revoke, desk, session.visitor, session.visitor.name, number)
    return go("/account")


@ACCOUNT_PAGES.get("/desk/accounts/{name}")
async def show_account_of(request: Request, session: Reading, name: str) -> Response:
    """Show an account to an officer: role, password, tokens."""
    desk, visitor = _desk(request, session.visitor), session.visitor
    check_access(visitor, "account.change")
    account = await run_in_threadpool(desk.find_account, visitor, name)
    tokens = await run_in_threadpool(desk.list_tokens, visitor, name)
    return page(request, "account_of.html", session, account=account, tokens=[_words(token) for token in tokens])


@ACCOUNT_PAGES.post("/desk/accounts/{name}/password")
async def set_password(request: Request, session: Changing, name: str) -> Response:
    """Set the password of another's account; all its sessions end."""
    desk, visitor = _desk(request, session.visitor), session.visitor
    check_access(visitor, "account.change")
    if name == visitor.name:
        raise NotAllowed("change your own password on the page of your account")
    new = (await pick(request, "new"))["new"]
    await run_in_threadpool(lambda: desk.change_password(visitor, name, new))
    return go(f"/desk/accounts/{quote(name, safe='')}")


@ACCOUNT_PAGES.post("/desk/accounts/{name}/tokens/{number}")
async def revoke_token_of(request: Request, session: Changing, name: str, number: StoredInt) -> Response:
    """Revoke a token of an account."""
    desk = _desk(request, session.visitor)
    check_access(session.visitor, "account.change")
    await run_in_threadpool(_revoke, desk, session.visitor, name, number)
    return go(f"/desk/accounts/{quote(name, safe='')}")


def _desk(request: Request, visitor: Visitor) -> AccountDesk:
    """Return the desk; raises NotThere where there are no accounts."""
    if visitor.role == OWNER.role:
        raise NotThere
    return service_of(request).desk


def _revoke(desk: AccountDesk, visitor: Visitor, name: str, number: int) -> None:
    if number not in [token.id for token in desk.list_tokens(visitor, name)]:
        raise NotThere
    desk.revoke_token(visitor, number)


async def _own_page(request: Request, session: Session, *, made: tuple[str, str] | None = None) -> Response:
    visitor = session.visitor
    desk = _desk(request, visitor)
    account = await run_in_threadpool(desk.find_account, visitor, visitor.name)
    tokens = await run_in_threadpool(desk.list_tokens, visitor, visitor.name)
    own = [] if sees_all(visitor, "approval.read") else await run_in_threadpool(desk.list_approvals, visitor)
    words: dict[str, Any] = {"account": account, "tokens": [_words(token) for token in tokens], "made": made}
    return page(request, "account.html", session, approvals=[one.to_dict() for one in reversed(own)], **words)


def _words(token: Token) -> dict[str, Any]:
    return {**token.to_dict(), "created": token.created[:10], "ends": (token.expires or "")[:10] or "never"}


def _end_of(day: str) -> str:
    """Return the moment after which a token of this last day lets nobody in."""
    try:
        last = datetime.date.fromisoformat(day)
    except ValueError:
        raise DeclarationError("is a day, such as 2027-01-31", key="the last day") from None
    return f"{last}T23:59:59.999Z"
