"""What the tests of the command line share: how a command ended, its JSON, and a copy of a project to work in."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from markup import Page


@dataclass(frozen=True)
class Ran:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str


Run = Callable[..., Ran]


def read_json(ran: Ran) -> dict[str, Any]:
    """Return what a command that succeeded wrote as JSON."""
    assert ran.code == 0, ran.err
    found: dict[str, Any] = json.loads(ran.out)
    return found


def enter_copy(project: Path, to: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy a project and the state beside it, and make the copy the working directory."""
    shutil.copytree(project, to)
    monkeypatch.chdir(to)
    monkeypatch.setenv("SORDINO_STATE", str(to / "state"))
    return to


def assert_loads_nothing(page: Page, text: str) -> None:
    """Require that a page has no script and asks for nothing from elsewhere."""
    assert "script" not in page.tags
    assert "http" not in text.replace("http-equiv", "")
    policy = next(value for name, value in page.attributes if name == "content")
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert all((value or "").startswith("data:") for name, value in page.attributes if name in ("src", "href"))
