"""Keep each test's high-water marks of devices in its own directory."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SORDINO_STATE", str(tmp_path / "state"))
    return tmp_path / "state"
