"""The routes by which people of an organisation sign in: to the provider, and back."""

from __future__ import annotations

import json

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool

from sordino.core.errors import DeclarationError, NotAllowed, SignInNeeded
from sordino.serve.server.http_request import service_of, set_cookie
from sordino.serve.server.openid import TRY_SECONDS, OpenIdProvider, OpenIdTry
from sordino.serve.server.sessions import SESSION_HOURS
from sordino.serve.server.work_queue import ShortQueue

RETURN_PATH = "/v1/openid/return"
_COOKIE = "sordino_openid"
_PURPOSE = "openid"
# whoever has no account may make this server talk to the provider, which may be slow
_TALKS = ShortQueue(running=6, waiting=6)
OPENID = APIRouter(tags=["accounts"])
_ARRIVED = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url=/"><a href="/">Continue</a>'


def _provider(request: Request) -> OpenIdProvider:
    provider: OpenIdProvider | None = request.app.state.openid
    if provider is None:
        raise DeclarationError("this server knows no OpenID provider: state one in [serve] openid")
    return provider


@OPENID.get("/v1/openid/login")
async def begin_openid(request: Request) -> Response:
    """Send a browser to the provider."""
    provider = _provider(request)

    def begin() -> tuple[str, OpenIdTry]:
        with _TALKS.hold():
            return provider.begin()

    address, begun = await run_in_threadpool(begin)
    answer = RedirectResponse(address, 303, headers={"cache-control": "no-store"})
    sealed = service_of(request).desk.sessions.seal(_PURPOSE, begun.to_text().encode().hex())
    secure = address.startswith("https://") and (service_of(request).settings.origin or "").startswith("https://")
    # lax: the provider sends the browser back from another site
    answer.set_cookie(
        _COOKIE, sealed, max_age=TRY_SECONDS, path=RETURN_PATH, httponly=True, samesite="lax", secure=secure
    )
    return answer


@OPENID.get(RETURN_PATH)
async def finish_openid(request: Request, state: str = "", code: str = "") -> Response:
    """Begin the session of whoever comes back from the provider, where an account is bound to its subject."""
    provider, service = _provider(request), service_of(request)
    sealed = request.cookies.get(_COOKIE)
    if sealed is None:
        raise SignInNeeded("sign in again: this browser began no sign-in here, or too long ago")
    text = bytes.fromhex(service.desk.sessions.unseal(_PURPOSE, sealed)).decode()
    try:
        begun = OpenIdTry.from_text(text)
    except (json.JSONDecodeError, TypeError):
        raise SignInNeeded("sign in again") from None

    def finish() -> str:
        with _TALKS.hold():
            return provider.finish(begun, state=state, code=code)

    subject = await run_in_threadpool(finish)
    account = await run_in_threadpool(service.desk.accounts.with_subject, subject)
    if account is None or account.disabled:
        raise NotAllowed(f"no account is bound to {subject}: an officer can bind one")
    cookie, _ = await run_in_threadpool(lambda: service.desk.begin_session(account, by="openid"))
    # a page, not a redirect: what follows a redirect from another site brings no strict cookie
    answer = HTMLResponse(_ARRIVED, headers={"cache-control": "no-store"})
    set_cookie(request, answer, cookie, seconds=SESSION_HOURS * 3600)
    answer.delete_cookie(_COOKIE, path=RETURN_PATH)
    return answer
