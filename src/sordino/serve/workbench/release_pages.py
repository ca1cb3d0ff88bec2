"""The pages of past releases: the history, one answer with its chart, and its exports. Nothing is asked here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from sordino.ask.curator.charging import share_of_table
from sordino.core.errors import DeclarationError
from sordino.core.ledger.records import Charge
from sordino.core.release import Release
from sordino.core.release_exports import csv_text
from sordino.reporting.charts import plot
from sordino.reporting.picture import Picture, darken, encode_picture, need_plots
from sordino.serve.server.access import NotThere
from sordino.serve.server.curator_service import CuratorService
from sordino.serve.server.http_request import run_work, service_of
from sordino.serve.server.sessions import Session
from sordino.serve.workbench.local_door import LocalSessions
from sordino.serve.workbench.page_route import HEADERS, PICTURE_HEADERS, PageRoute, Reading, page, read_search
from sordino.serve.workbench.question_pages import release_words
from sordino.serve.workbench.repeat import Repeat, notebook_of, script_of, sql_of

RELEASE_PAGES = APIRouter(route_class=PageRoute, include_in_schema=False)
_KINDS = {
    "csv": "text/csv; charset=utf-8",
    "json": "application/json",
    "png": "image/png",
    "py": "text/x-python; charset=utf-8",
    "ipynb": "application/x-ipynb+json",
}


@RELEASE_PAGES.get("/history")
async def show_history(request: Request, session: Reading) -> Response:
    """Show every charge that the visitor may see, the newest first: all, or those of an account, a table, a day, with words."""
    service = service_of(request)
    search = read_search(request, "account", "table", "day", "words")
    everything = await run_in_threadpool(service.charges, session.visitor)
    charges = [(budget, charge) for budget, charge in everything if _fits(charge, search)]
    lines = [
        {
            "path": f"/history/{quote(budget, safe='')}/{quote(charge.id, safe='')}",
            "charge": charge.id,
            "time": charge.time[:16].replace("T", " "),
            "note": charge.note,
            "cost": ", ".join(f"{name} {float(amount):g}" for name, amount in charge.amounts.items()),
            "who": charge.spender or "",
            "answered": charge.state == "committed",
            "state": charge.state,
        }
        for budget, charge in reversed(charges)
    ]
    accounts = sorted({charge.spender for _, charge in everything if charge.spender})
    words: dict[str, Any] = {"search": search, "accounts": accounts, "tables": list(service.project.tables)}
    return page(request, "history.html", session, lines=lines, any=bool(everything), **words)


def _fits(charge: Charge, search: Mapping[str, str]) -> bool:
    """Return whether a charge is what a history is searched for; what is not stated fits all."""
    return (
        search["account"] in ("", charge.spender)
        and (not search["table"] or share_of_table(charge.note, search["table"]) > 0)
        and charge.time.startswith(search["day"])
        and search["words"].lower() in charge.note.lower()
    )


@RELEASE_PAGES.get("/history/{budget}/{charge}")
async def show_release(request: Request, session: Reading, budget: str, charge: str) -> Response:
    """Show one answer: table, chart with intervals, and what it reveals at most."""
    service = service_of(request)
    release = await run_in_threadpool(_find, service, session, budget, charge)
    reveals = await run_work(request, session.visitor, lambda: service.explain(session.visitor, charge, budget=budget))
    text = await run_in_threadpool(service.asked_text, session.visitor, charge, budget=budget)
    here = f"/history/{quote(budget, safe='')}/{quote(charge, safe='')}"
    chart = await run_work(request, session.visitor, lambda: _picture(release))
    words: dict[str, Any] = {**release_words(release), "reveals": reveals, "at": here}
    words |= {"repeats": text is not None, "sql": None if text is None else sql_of(text)}
    words |= {"has_chart": chart is not None, "charge": charge, "time": release.time[:16].replace("T", " ")}
    words |= {"cost": release.cost.describe(), "table_name": release.table_name}
    return page(request, "release.html", session, **words)


@RELEASE_PAGES.get("/history/{budget}/{charge}/{shade}.png")
async def show_chart(request: Request, session: Reading, budget: str, charge: str, shade: str) -> Response:
    """Return the chart of an answer as a picture, for light pages or dark ones."""
    if shade not in ("light", "dark"):
        raise NotThere
    release = await run_in_threadpool(_find, service_of(request), session, budget, charge)
    image = await run_work(request, session.visitor, lambda: _draw(release, shade == "dark"))
    if image is None:
        raise NotThere
    return Response(image, media_type="image/png", headers=PICTURE_HEADERS)


@RELEASE_PAGES.get("/history/{budget}/{charge}/export/{kind}")
async def export(request: Request, session: Reading, budget: str, charge: str, kind: str) -> Response:
    """Return an answer as a file, or the program that repeats the analysis."""
    if kind not in _KINDS:
        raise NotThere
    service = service_of(request)
    release = await run_in_threadpool(_find, service, session, budget, charge)
    text = await run_in_threadpool(service.asked_text, session.visitor, charge, budget=budget)
    if kind in ("py", "ipynb") and text is None:
        raise DeclarationError("what this answer was asked with was not noted, so there is no program that repeats it")
    local = isinstance(service.account_service.sessions, LocalSessions)
    address = None if local else service.settings.origin or str(request.base_url).rstrip("/")
    content = await run_work(request, session.visitor, lambda: _export(kind, release, text, budget, address))
    disposition = f'attachment; filename="sordino-{charge}.{kind}"'
    return Response(content, media_type=_KINDS[kind], headers=HEADERS | {"content-disposition": disposition})


def _find(service: CuratorService, session: Session, budget: str, charge: str) -> Release:
    return service.release(session.visitor, charge, budget=budget)


def _picture(release: Release) -> Picture | None:
    """Return the picture of a release, None where there is none: of no rows, or without the extra `plots`."""
    try:
        need_plots()
        return plot(release)
    except DeclarationError:
        return None


def _draw(release: Release, dark: bool) -> bytes | None:
    picture = _picture(release)
    return None if picture is None else encode_picture(darken(picture) if dark else picture, ".png")


def _export(kind: str, release: Release, text: dict[str, Any] | None, budget: str, address: str | None) -> bytes:
    if kind == "csv":
        return csv_text(release.to_arrow(intervals=True))
    if kind == "png":
        return encode_picture(plot(release), ".png")
    if kind == "json":
        return (json.dumps(release.to_dict(), ensure_ascii=False, indent=2, allow_nan=False) + "\n").encode()
    assert text is not None
    repeat = Repeat(text, release.question, release.cost.describe(), release.charge, budget, address)
    return (script_of if kind == "py" else notebook_of)(repeat)
