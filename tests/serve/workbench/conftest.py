"""A served project for each test of the server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from serving import Served, served


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as made:
        yield made
