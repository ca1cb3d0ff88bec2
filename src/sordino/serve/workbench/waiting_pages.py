"""The page of a question that waits for an officer: it looks again by itself, and gets the answer once it is approved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from sordino.core.errors import ApprovalNeeded
from sordino.serve.server.approvals import own_request
from sordino.serve.server.http_request import StoredInt, service_of
from sordino.serve.server.sessions import Session
from sordino.serve.workbench.page_route import PageRoute, Reading, fragment, go, page

WAITING_PAGES = APIRouter(route_class=PageRoute, include_in_schema=False)


async def wait_for_officer(
    request: Request, session: Session, error: ApprovalNeeded, form: Mapping[str, str], action: str
) -> Response:
    """Keep the form that asked, and go to the page that waits; `form` has the request id that it was asked by."""
    fields = {name: value for name, value in form.items() if name != "csrf_token"}
    # One that waits has a number.
    assert error.approval is not None
    account_service = service_of(request).account_service
    stated = {"action": action, "fields": fields}
    await run_in_threadpool(account_service.keep_form, session.visitor, error.approval, stated)
    return go(f"/waiting/{error.approval}")


@WAITING_PAGES.get("/waiting/{number}")
async def show_waiting(request: Request, session: Reading, number: StoredInt) -> Response:
    """Show whether an officer has decided, and to whoever asked the button that gets the answer."""
    approval = await run_in_threadpool(service_of(request).account_service.find_approval, session.visitor, number)
    own = approval.account == session.visitor.account
    words: dict[str, Any] = {
        "approval": approval,
        "own": own,
        "request_id": own_request(approval.request),
        "csrf_token": session.csrf,
    }
    if request.headers.get("x-fragment") == "1":
        return fragment("waiting_state.html", **words)
    return page(request, "waiting.html", session, **words)
