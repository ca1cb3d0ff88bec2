"""Fixtures of the command line: a generated project, and ways to run commands."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cli.support import Ran, Run
from sordino.cli.main import main
from sordino.core.noise.rng import Rng
from sordino.datasets import write_census_project

ROWS = 2_000


@pytest.fixture(autouse=True)
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep colors and terminal width out of the tests."""
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("NO_COLOR", "FORCE_COLOR", "SORDINO_DEBUG", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("made")
    write_census_project(directory, ROWS, Rng.seeded(11))
    return directory


@pytest.fixture
def census(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a generated census, as the working directory."""
    directory = tmp_path / "census"
    shutil.copytree(made, directory)
    monkeypatch.chdir(directory)
    return directory


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """Run a command line in this process."""

    def ran(*arguments: str) -> Ran:
        capfd.readouterr()
        code = main(arguments)
        out, err = capfd.readouterr()
        return Ran(code, out, err)

    return ran


@pytest.fixture
def spawn() -> Run:
    """Run a command line in a process of its own."""

    def ran(*arguments: str, text: str = "", **environment: str) -> Ran:
        command = [sys.executable, "-c", "import sys; from sordino.cli.main import main; sys.exit(main())", *arguments]
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            env={**os.environ, **environment},
            timeout=300,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return ran
