"""A served project for each test of the server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from serve.server.forked_servers import Servers
from serving import Served, served
from sordino.core.loss import PureDP


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as made:
        yield made


@pytest.fixture
def project(tmp_path: Path) -> tuple[Path, str]:
    """A project's file, and the token of an analyst."""
    with served(tmp_path, cap=1000) as made:
        share = PureDP(1000)
        made.service.set_share("test", "ana", "people", lambda _: share)
        assert made.service.project.path is not None
        return made.service.project.path, made.tokens["ana"]


@pytest.fixture
def servers(project: tuple[Path, str]) -> Iterator[Servers]:
    made = Servers(project[0])
    yield made
    made.close()
