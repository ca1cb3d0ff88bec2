"""The officer's desk: budgets and shares, approvals, accounts, the audit log, the page for a board. An auditor reads it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response
from starlette.concurrency import run_in_threadpool

from sordino.ask.project.load import share_from
from sordino.core.errors import DeclarationError
from sordino.core.ledger.records import Charge
from sordino.reporting.board import board_page
from sordino.serve.server.access import check_access
from sordino.serve.server.approvals import Approval
from sordino.serve.server.curator_service import CuratorService
from sordino.serve.server.http_request import StoredInt, service_of
from sordino.serve.workbench.page_route import (
    HEADERS,
    Changing,
    PageRoute,
    Reading,
    float_of,
    go,
    page,
    pick,
    read_search,
)
from sordino.serve.workbench.repeat import sql_of

DESK_PAGES = APIRouter(route_class=PageRoute, include_in_schema=False)
# How many earlier answers about the same people an officer sees beside a question.
_EARLIER = 5
# Lines of the audit log on one page.
_LINES = 200


@DESK_PAGES.get("/desk")
async def show_desk(request: Request, session: Reading) -> Response:
    """Show budgets with their shares, what waits for an officer, and the accounts."""
    service = service_of(request)
    visitor = session.visitor
    check_access(visitor, "audit.read")
    budgets = await run_in_threadpool(service.budgets, visitor)
    approvals = await run_in_threadpool(service.account_service.list_approvals, visitor)
    accounts = await run_in_threadpool(service.account_service.list_accounts, visitor)
    words: dict[str, Any] = {"budgets": [_amounts(one) for one in budgets], "accounts": accounts}
    earlier = await run_in_threadpool(service.charges, visitor)
    waiting = [_waiting(service, one, budgets, earlier) for one in approvals if one.state == "waiting"]
    decided = [one.to_dict() for one in reversed(approvals) if one.state != "waiting"][:20]
    return page(request, "desk.html", session, waiting=waiting, decided=decided, **words)


@DESK_PAGES.get("/desk/audit")
async def show_audit_log(request: Request, session: Reading, after: StoredInt = 0) -> Response:
    """Show who did what when: all of it, or that of an account, a table, a day."""
    service = service_of(request)
    search = read_search(request, "account", "about", "day")
    lines = await run_in_threadpool(
        lambda: service.account_service.read_audit_log(session.visitor, after=after, most=_LINES, **search)
    )
    further = urlencode({**search, "after": lines[-1]["id"]}) if len(lines) == _LINES else None
    words: dict[str, Any] = {"search": search, "tables": list(service.project.tables)}
    return page(request, "audit.html", session, lines=lines, further=further, **words)


@DESK_PAGES.get("/desk/board")
async def show_board(request: Request, session: Reading) -> Response:
    """Show the page for a board: what was asked, and what all of it reveals at most."""
    service = service_of(request)
    check_access(session.visitor, "audit.read")
    text = await run_in_threadpool(lambda: board_page(service.project, back="/desk", file="/desk/board/file"))
    return HTMLResponse(text, headers=HEADERS | {"content-security-policy": _policy_of(text)})


def _policy_of(text: str) -> str:
    """Return the policy of a page with one style of its own, which is named by its hash, and pictures in itself."""
    style = text.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; frame-ancestors 'none'"


@DESK_PAGES.get("/desk/board/file")
async def export_board(request: Request, session: Reading) -> Response:
    """Return the page for a board as a file."""
    service = service_of(request)
    check_access(session.visitor, "audit.read")
    text = await run_in_threadpool(board_page, service.project)
    disposition = 'attachment; filename="sordino-board.html"'
    return Response(text, media_type="text/html", headers=HEADERS | {"content-disposition": disposition})


@DESK_PAGES.post("/desk/approvals/{number}")
async def decide(request: Request, session: Changing, number: StoredInt) -> Response:
    """Approve or decline what waits."""
    fields = await pick(request, "decision", "reason")
    if fields["decision"] not in ("approved", "declined"):
        raise DeclarationError("is approved or declined", key="decision")
    account_service = service_of(request).account_service
    state = fields["decision"]
    reason = fields["reason"][:2000] or None
    if state == "approved":
        await run_in_threadpool(lambda: account_service.decide(session.visitor, number, "approved", reason=reason))
    else:
        await run_in_threadpool(lambda: account_service.decide(session.visitor, number, "declined", reason=reason))
    return go("/desk")


@DESK_PAGES.post("/desk/shares")
async def set_share(request: Request, session: Changing) -> Response:
    """Give an account a share of a budget, or change it."""
    fields = await pick(request, "budget", "spender", "epsilon", "delta", "rho")
    stated = {name: fields[name] for name in ("epsilon", "delta", "rho") if fields[name]}
    service = service_of(request)

    def work() -> None:
        try:
            service.set_share(
                session.visitor,
                fields["spender"],
                fields["budget"],
                lambda cap: share_from(stated, fields["spender"], cap=cap),
            )
        except DeclarationError as error:
            message = str(error)
            raise DeclarationError(f"the share {message}" if message.startswith("must") else message) from None

    await run_in_threadpool(work)
    return go("/desk")


@DESK_PAGES.post("/desk/accounts")
async def add_account(request: Request, session: Changing) -> Response:
    """Add an account, with a password or without."""
    fields = await pick(request, "name", "role", "password", "subject")
    service = service_of(request)
    password = fields["password"] or None
    issuer = service.settings.issuer
    if fields["subject"] and issuer is None:
        raise DeclarationError("needs a provider: state [serve] openid in the project file", key="the subject")
    subject = f"{issuer} {fields['subject']}" if fields["subject"] else None

    def work() -> None:
        service.account_service.add_account(
            session.visitor, fields["name"], fields["role"], password=password, subject=subject
        )

    await run_in_threadpool(work)
    return go("/desk")


@DESK_PAGES.post("/desk/accounts/{name}")
async def change_account(request: Request, session: Changing, name: str) -> Response:
    """Change an account's role, disable it or let it in again."""
    fields = await pick(request, "role", "disabled")
    role = fields["role"] or None
    disabled = {"yes": True, "no": False}.get(fields["disabled"])
    account_service = service_of(request).account_service
    await run_in_threadpool(lambda: account_service.change_account(session.visitor, name, role=role, disabled=disabled))
    return go("/desk")


def _waiting(
    service: CuratorService,
    approval: Approval,
    budgets: Sequence[dict[str, Any]],
    charges: Sequence[tuple[str, Charge]],
) -> dict[str, Any]:
    """Return what an officer weighs: the question as written, its errors, what is left, earlier answers about these people."""
    tables = service.project.tables
    drawn_on = {tables[plan["table"]].budget for plan in approval.plans if plan["table"] in tables}
    earlier = [(budget, c) for budget, c in charges if budget in drawn_on and c.state == "committed"]
    return {
        **approval.to_dict(),
        "cost": {name: float_of(amount) for name, amount in approval.cost.items()},
        "sql": [text for record in approval.asked or () if (text := sql_of(record)) is not None],
        "errors": [pair for plan in approval.plans for pair in _errors_of(plan)],
        "left": [left for one in budgets if one["budget"] in drawn_on for left in _left_after(one, approval)],
        "earlier": [_earlier(budget, charge) for budget, charge in earlier[: -_EARLIER - 1 : -1]],
        "earlier_count": len(earlier),
    }


def _errors_of(plan: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each column of a stored plan with its expected error; one that depends on the rows for two numbers of them."""
    for column in plan["columns"]:
        name = column["name"]
        at = f"at {plan['confidence']:.0%}"
        if isinstance(column["expected_error"], int | float):
            supposes = f" ({column['error_supposes']})" if column["error_supposes"] else ""
            yield name, f"+-{column['expected_error']:,.4g} {at}{supposes}"
        elif name in plan["error_times_rows"]:
            few, many = (f"{plan['error_times_rows'][name] / rows:.2g}" for rows in (1_000, 10_000))
            yield name, f"+-{few} {at} where 1,000 rows count, +-{many} where 10,000 do"
        else:
            yield name, "not known beforehand"


def _left_after(budget: Mapping[str, Any], approval: Approval) -> Iterator[dict[str, Any]]:
    """Yield each amount that is left now and after the answer, of the asker's share and of the whole budget."""
    share = budget["shares"].get(approval.spender)
    for whose, sums in ((f"the share of {approval.spender}", share), (f"the budget {budget['budget']}", budget)):
        for name, cost in approval.cost.items():
            if sums is not None and name in sums["remaining"]:
                left = float_of(sums["remaining"][name])
                yield {"whose": whose, "name": name, "left": left, "after": left - float_of(cost)}


def _earlier(budget: str, charge: Charge) -> dict[str, str]:
    return {
        "path": f"/history/{quote(budget, safe='')}/{quote(charge.id, safe='')}",
        "charge": charge.id,
        "question": charge.note,
        "who": charge.spender or "the curator",
        "cost": charge.loss.describe(),
    }


def _amounts(budget: dict[str, Any]) -> dict[str, Any]:
    """Return what a page shows of a budget: each amount of its cap, and the shares."""

    def each(whose: dict[str, Any]) -> list[dict[str, Any]]:
        return [
            {"name": name, "cap": float_of(cap), "spent": float_of(whose["spent"][name])}
            for name, cap in whose["cap"].items()
            if name in whose["spent"] and name not in ("slack", "at_delta")
        ]

    shares = [{"who": who, "amounts": each(share)} for who, share in budget["shares"].items()]
    return {"name": budget["budget"], "reason": budget["reason"], "amounts": each(budget), "shares": shares}
