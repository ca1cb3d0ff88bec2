"""The routes of people: sessions, accounts, passwords, tokens, shares, approvals, the audit log."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from sordino.ask.project.parts import share_from
from sordino.core.errors import DeclarationError, NotAllowed, nearest
from sordino.serve.server.access import Visitor
from sordino.serve.server.accounts import Account
from sordino.serve.server.http_request import (
    PROBLEMS,
    StoredInt,
    address_of,
    body_of,
    check_origin,
    cookie_name,
    fields_schema,
    read_json,
    respond,
    service_of,
    session_of,
    set_cookie,
    visitor_of,
)
from sordino.serve.server.sessions import SESSION_HOURS, Session

DESK = APIRouter(prefix="/v1", tags=["accounts"], responses=PROBLEMS)
Who = Annotated[Visitor, Depends(visitor_of)]


async def _fields(request: Request, needs: str = "", may: str = "") -> dict[str, Any]:
    """Return the JSON object of a body that has these keys alone, all but `may` of them, as text; booleans stay."""
    given = {name: value for name, value in (await read_json(request)).items() if value is not None}
    known = (*needs.split(), *may.split())
    for name, value in given.items():
        if name not in known:
            raise DeclarationError(f"is no such key here; {nearest(name, known)}", key=name[:40])
        if not isinstance(value, (str, bool, int, float)):
            raise DeclarationError("must be text or a number", key=name)
    for name in needs.split():
        if not isinstance(given.get(name), str):
            raise DeclarationError("is missing; state it as text", key=name)
    return given


# ---- sessions


@DESK.post("/session", openapi_extra=body_of(fields_schema("name password")))
async def sign_in(request: Request) -> Response:
    """Begin a session with a name and a password; the answer sets its cookie and holds its CSRF token."""
    check_origin(request)
    if not request.headers.get("content-type", "").startswith("application/json"):
        raise NotAllowed("send JSON with content-type application/json: a form of another site cannot")
    given = await _fields(request, "name password")
    desk = service_of(request).desk
    address = address_of(request)
    cookie, session = await run_in_threadpool(lambda: desk.sign_in(given["name"], given["password"], address=address))
    answer = respond(_session(session))
    set_cookie(request, answer, cookie, seconds=SESSION_HOURS * 3600)
    return answer


@DESK.get("/session")
async def show_session(session: Annotated[Session, Depends(session_of)]) -> Response:
    """Return who is signed in, and the session's CSRF token."""
    return respond(_session(session))


@DESK.delete("/session")
async def sign_out(request: Request, visitor: Who) -> Response:
    """End the session."""
    cookie = request.cookies.get(cookie_name(request), "")
    await run_in_threadpool(service_of(request).desk.sign_out, visitor, cookie)
    answer = respond({"schema": 1})
    set_cookie(request, answer, "", seconds=0)
    return answer


def _session(session: Session) -> dict[str, Any]:
    who = session.visitor
    return {"schema": 1, "name": who.name, "role": who.role, "csrf": session.csrf}


@DESK.get("/me")
async def show_visitor(visitor: Who) -> Response:
    """Return who asks: the account's name, its role, and the share that is spent."""
    return respond({"schema": 1, "name": visitor.name, "role": visitor.role, "spender": visitor.spender})


# ---- accounts and shares


@DESK.get("/accounts")
async def list_accounts(request: Request, visitor: Who) -> Response:
    """Return the accounts; an analyst sees its own."""
    found = await run_in_threadpool(service_of(request).desk.list_accounts, visitor)
    return respond({"schema": 1, "accounts": [account.to_dict() for account in found]})


@DESK.post("/accounts", openapi_extra=body_of(fields_schema("name role", "password")))
async def add_account(request: Request, visitor: Who) -> Response:
    """Add an account with a name and a role, with a password or without."""
    given = await _fields(request, "name role", "password")
    desk = service_of(request).desk
    made: Account = await run_in_threadpool(lambda: desk.add_account(visitor, **given))
    return respond(made.to_dict(), 201)


@DESK.patch("/accounts/{name}", openapi_extra=body_of(fields_schema("", "role disabled", flags="disabled")))
async def change_account(request: Request, visitor: Who, name: str) -> Response:
    """Change an account's role, or disable it."""
    given = await _fields(request, "", "role disabled")
    if not isinstance(given.get("disabled", False), bool) or not isinstance(given.get("role", ""), str):
        raise DeclarationError("state role as text, or disabled as true or false")
    desk = service_of(request).desk
    changed: Account = await run_in_threadpool(lambda: desk.change_account(visitor, name, **given))
    return respond(changed.to_dict())


@DESK.put("/accounts/{name}/password", openapi_extra=body_of(fields_schema("new", "old")))
async def change_password(request: Request, visitor: Who, name: str) -> Response:
    """Set a password: one's own with the `old` one, another's as an officer. All sessions of the account end."""
    given = await _fields(request, "new", "old")
    desk = service_of(request).desk
    await run_in_threadpool(lambda: desk.change_password(visitor, name, given["new"], old=given.get("old")))
    return respond({"schema": 1})


@DESK.put("/shares/{budget}/{spender}", openapi_extra=body_of(fields_schema("", "epsilon delta rho")))
async def set_share(request: Request, visitor: Who, budget: str, spender: str) -> Response:
    """Give a spender, an account's name or a program's, a share of a budget, or change it: {"epsilon": "0.5"}."""
    stated = await _fields(request, "", "epsilon delta rho")
    service = service_of(request)

    def work() -> None:
        service.set_share(visitor, spender, budget, lambda cap: share_from(stated, spender, cap=cap))

    await run_in_threadpool(work)
    return respond({"schema": 1})


# ---- tokens


@DESK.get("/accounts/{name}/tokens")
async def list_tokens(request: Request, visitor: Who, name: str) -> Response:
    """Return the tokens of an account, never the secrets."""
    found = await run_in_threadpool(service_of(request).desk.list_tokens, visitor, name)
    return respond({"schema": 1, "tokens": [token.to_dict() for token in found]})


@DESK.post("/tokens", openapi_extra=body_of(fields_schema("name")))
async def make_token(request: Request, visitor: Who) -> Response:
    """Make a token for one's own account; its secret is in this answer, and nowhere else ever again."""
    given = await _fields(request, "name")
    token, secret = await run_in_threadpool(service_of(request).desk.make_token, visitor, given["name"])
    return respond({**token.to_dict(), "secret": secret}, 201)


@DESK.delete("/tokens/{number}")
async def revoke_token(request: Request, visitor: Who, number: StoredInt) -> Response:
    """Revoke a token."""
    await run_in_threadpool(service_of(request).desk.revoke_token, visitor, number)
    return respond({"schema": 1})


# ---- approvals and the log


@DESK.get("/approvals")
async def list_approvals(request: Request, visitor: Who, state: str | None = None) -> Response:
    """Return what waits for an officer, or did: question, plans, cost, and what it reveals; an analyst sees its own."""
    desk = service_of(request).desk
    found = await run_in_threadpool(lambda: desk.list_approvals(visitor, state=state))
    return respond({"schema": 1, "approvals": [one.to_dict() for one in found]})


@DESK.get("/approvals/{number}")
async def show_approval(request: Request, visitor: Who, number: StoredInt) -> Response:
    """Return one of them."""
    found = await run_in_threadpool(service_of(request).desk.find_approval, visitor, number)
    return respond(found.to_dict())


@DESK.post("/approvals/{number}", openapi_extra=body_of(fields_schema("decision", "reason")))
async def decide(request: Request, visitor: Who, number: StoredInt) -> Response:
    """Approve or decline: {"decision": "approved", "reason": "..."}; 409 where another officer was first."""
    given = await _fields(request, "decision", "reason")
    if given["decision"] not in ("approved", "declined"):
        raise DeclarationError('must be "approved" or "declined"', key="decision")
    reason = None if "reason" not in given else str(given["reason"])[:2000]
    desk = service_of(request).desk
    decided = await run_in_threadpool(lambda: desk.decide(visitor, number, given["decision"], reason=reason))
    return respond(decided.to_dict())


@DESK.get("/audit")
async def read_audit_log(request: Request, visitor: Who, after: StoredInt = 0, most: StoredInt = 1000) -> Response:
    """Return who did what when, oldest first, after the line of a number."""
    desk = service_of(request).desk
    lines = await run_in_threadpool(lambda: desk.read_audit_log(visitor, after=after, most=most))
    return respond({"schema": 1, "lines": lines})
