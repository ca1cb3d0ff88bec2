"""A store with a token of each role, for the tests of the collector."""

from __future__ import annotations

from pathlib import Path

import pytest

from collecting import with_tokens


@pytest.fixture
def store(tmp_path: Path) -> str:
    return with_tokens(str(tmp_path / "reports.db"))
