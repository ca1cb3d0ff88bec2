"""The collector's pages: a survey that shows what is sent, and a live view of the estimates. They hold no script inline.

Everything they load comes from this very origin, and the policy in their headers lets nothing else be loaded.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException

from sordino.core.errors import DeclarationError
from sordino.core.loss import format_number
from sordino.core.templates import open_templates
from sordino.local.collector.collector import Collector
from sordino.local.task import Task, key_fingerprint

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
_HEADERS = {
    "content-security-policy": POLICY,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "geolocation=(), camera=(), microphone=(), browsing-topics=()",
    "cache-control": "no-cache",
}
# Texts and patterns of the client, which keep their spaces.
_TEXT = re.compile(r"('[^']*'|`[^`]*`|/\S+/)")
_SPACED = re.compile(r" *([=<>,;:?&|{}()\[\]*%^!]+|[+-](?! *[+-])|/(?= )) *")
_PAGE = Path(__file__).parent / "page"
_FILES = {"survey.js": "text/javascript", "live.js": "text/javascript", "style.css": "text/css"}


@cache
def client_module() -> str:
    """Return the browser client as it is served: without its comments, indentation, and spaces beside signs.

    It lies in `clients/js` of the source tree, and beside the pages where Sordino was installed.
    """
    for place in (_PAGE / "sordino.js", Path(__file__).parents[4] / "clients" / "js" / "sordino.js"):
        if place.is_file():
            lines = [line.strip() for line in place.read_text(encoding="utf-8").splitlines()]
            text = "\n".join(_squeeze(line) for line in lines if line and not line.startswith("//")) + "\n"
            return re.sub(r"(?<=[;{,])\n", "", text)
    raise DeclarationError("the browser client sordino.js is missing from this installation; install Sordino again")


def _squeeze(line: str) -> str:
    """Return a line of script without the spaces beside signs, but for texts and patterns."""
    parts = _TEXT.split(line)
    return "".join(part if place % 2 else _SPACED.sub(r"\1", part) for place, part in enumerate(parts))


def add_pages(app: FastAPI, collector: Collector) -> None:
    """Add the pages and what they load."""
    templates = open_templates(_PAGE)
    files = {name: (_PAGE / name).read_text(encoding="utf-8") for name in _FILES} | {"sordino.js": client_module()}

    def page(name: str, task: str) -> Response:
        if task not in collector.states:
            raise HTTPException(404)
        text = templates.get_template(f"{name}.html").render(
            _words(collector.states[task].task, opened=collector.limits.open)
        )
        return HTMLResponse(text, headers=_HEADERS)

    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        names = sorted(collector.states)
        if len(names) == 1:
            return RedirectResponse(f"/tasks/{names[0]}", headers=_HEADERS)
        return HTMLResponse(templates.get_template("index.html").render(names=names), headers=_HEADERS)

    @app.get("/tasks/{task}", include_in_schema=False)
    async def survey(task: str) -> Response:
        return page("survey", task)

    @app.get("/tasks/{task}/live", include_in_schema=False)
    async def live(task: str) -> Response:
        return page("live", task)

    @app.get("/favicon.ico", include_in_schema=False)
    async def icon() -> Response:
        return Response(status_code=204, headers=_HEADERS)

    @app.get("/page/{name}", include_in_schema=False)
    async def file(name: str) -> Response:
        if name not in files:
            raise HTTPException(404)
        return Response(files[name], media_type=_FILES.get(name, "text/javascript"), headers=_HEADERS)


def _words(task: Task, *, opened: bool) -> dict[str, object]:
    manifest = task.manifest
    return {
        "task": manifest.task,
        "epoch": manifest.epoch,
        "question": manifest.question,
        "key": task.key,
        "fingerprint": key_fingerprint(task.key),
        "epsilon": format_number(manifest.epsilon),
        "lifetime": format_number(manifest.lifetime_epsilon),
        "permanent": task.permanent,
        "opened": opened,
    }
