"""The workbench of one person: a project served to this machine alone, until it is stopped. It has no accounts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sordino.local.collector.service import serve_app
from sordino.serve.server.opening import open_service
from sordino.serve.workbench.local_door import open_door
from sordino.serve.workbench.workbench_app import workbench_app


def serve_owner(project: Path, *, port: int, show: Callable[[str], None], tell: Callable[[str], None]) -> None:
    """Serve the pages of a project on loopback; `show` is given the link that lets one browser in, once, `tell` a note."""
    service = open_service(project)
    link = f"http://127.0.0.1:{port}/sign-in#{open_door(service)}"
    app = workbench_app(service)
    if service.store.note is not None:
        tell(service.store.note)
    serve_app(app, host="127.0.0.1", port=port, ready=lambda: show(link))
