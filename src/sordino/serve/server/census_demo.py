"""A server to look around in: a generated census, three accounts, and what they sign in with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sordino.core.loss import PureDP
from sordino.core.noise.rng import Rng
from sordino.lab.datasets.census import write_census_project
from sordino.serve.server.accounts import make_secret
from sordino.serve.server.curator_service import CuratorService
from sordino.serve.server.opening import open_service

_SERVE = """
[serve]
answer_every = "250ms"
approve_above = {epsilon = 0.5}     # what costs more waits for the officer
"""
_ROWS = 30_000
_WHO = {"ana": "analyst", "olga": "officer", "udo": "auditor"}


def open_census_demo(directory: Path) -> tuple[CuratorService, Mapping[str, tuple[str, str]]]:
    """Return a served census in a directory, and of each account its role and its password, made anew.

    Raises DeclarationError where a project lies there already.
    """
    path = write_census_project(directory, _ROWS, Rng.secure())
    path.write_text(path.read_text(encoding="utf-8") + _SERVE, encoding="utf-8")
    service = open_service(path)
    credentials = {}
    for name, role in _WHO.items():
        password = make_secret("demo")[-16:]
        service.account_service.accounts.add(name, role, password=password)
        credentials[name] = role, password
    service.set_share("the demo", "ana", "people", lambda _: PureDP(1))
    return service, credentials
