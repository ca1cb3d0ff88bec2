"""What all tests share."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep each test's high-water marks in its own directory."""
    monkeypatch.setenv("SORDINO_STATE", str(tmp_path / "state"))
    return tmp_path / "state"
