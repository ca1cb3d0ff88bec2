"""A project that is not there is told in words, not as a place in a text that nobody wrote."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize("command", ["budget", "releases", "check", "ledger verify"])
def test_a_missing_project_is_one_line(command: str, tmp_path: Path, run: Callable[..., Any]) -> None:
    done = run(*command.split(), "--project", str(tmp_path / "none.toml"))
    assert done.code == 2
    assert ":1:1" not in done.err
    assert "there is no file or directory" in done.err
