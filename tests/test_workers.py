"""Tests in several processes: each is run once, what fails in one of them fails the run, and one that dies is named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CONFTEST = """
import pytest
import workers

def pytest_addoption(parser):
    workers.add_options(parser)

@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    workers.start(config, lambda file: file, ["test_last.py"])
"""
FILES = {
    "test_passes.py": """
import os, warnings, pytest

@pytest.fixture(scope="session")
def whole():
    yield
    open("closed", "a").write("once for each worker that opened it\\n")

@pytest.mark.parametrize("place", range(20))
def test_one(place, whole):
    open("ran", "a").write(f"{place}\\n")

def test_skipped():
    pytest.skip("for a reason")

@pytest.mark.xfail
def test_expected():
    assert False

def test_warns():
    warnings.warn("a word of warning")
""",
    "test_fails.py": """
def test_wrong():
    one = 1
    assert one == 2, "said by the test"
""",
    "test_broken.py": "import no_such_module\n",
    "below/test_deeper.py": "def test_deeper():\n    open('ran', 'a').write('deeper\\n')\n",
    "test_last.py": "def test_first():\n    pass\n",
}


def run(directory: Path, files: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    for name, text in {"conftest.py": CONFTEST, "pytest.ini": "[pytest]\n", **files}.items():
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text(text)
    words = ["-q", "-p", "no:cacheprovider", "--import-mode=importlib", "--workers", "2", "-rA", *options]
    command = [sys.executable, "-c", "import sys, pytest; sys.exit(pytest.main(sys.argv[1:]))", *words, "."]
    place = {"PYTHONPATH": str(Path(__file__).parent), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, cwd=directory, env=place, capture_output=True, text=True, check=False, timeout=300)


def test_each_test_runs_once_and_what_fails_is_told(tmp_path: Path) -> None:
    done = run(tmp_path, FILES)
    assert done.returncode == 1, done.stdout + done.stderr
    said = done.stdout
    assert sorted((tmp_path / "ran").read_text().split()) == sorted([*map(str, range(20)), "deeper"])
    assert (tmp_path / "closed").read_text().count("\n") == 1
    assert "1 failed, 23 passed, 1 skipped, 1 xfailed, 1 warning, 1 error" in said
    assert "said by the test" in said
    assert "assert 1 == 2" in said
    assert "No module named 'no_such_module'" in said
    assert "for a reason" in said
    assert "a word of warning" in said


def test_only_what_is_asked_for_runs(tmp_path: Path) -> None:
    done = run(tmp_path, FILES, "-k", "deeper or test_first")
    assert (done.returncode, "2 passed" in done.stdout) == (1, True), done.stdout
    assert (tmp_path / "ran").read_text() == "deeper\n"


def test_a_worker_that_dies_ends_the_run_and_its_test_is_named(tmp_path: Path) -> None:
    dies = "import os\n\ndef test_before():\n    pass\n\ndef test_dies():\n    os._exit(0)\n"
    done = run(tmp_path, {"test_dies.py": dies})
    assert done.returncode == 1, done.stdout
    assert "a worker died: test_dies.py::test_dies" in done.stdout
