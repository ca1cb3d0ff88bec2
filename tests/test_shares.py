"""The shares in which tests go to workers: one that collects late runs what pytest selects, and reports it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from shares import name_share, refuse_other_machines


def test_every_file_that_takes_the_java_machine_is_in_its_share(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = (
        "tests/ask/engines/test_spark.py",
        "tests/ask/queries/adaptive/test_round_values.py",
        "tests/test_shares.py",
    )
    assert [name_share(f"{file}::test") for file in files] == ["spark", "spark", files[-1]]
    refuse_other_machines([request.node])
    monkeypatch.setattr(request.node, "fixturenames", ["spark"])
    with pytest.raises(pytest.UsageError, match="takes the fixture spark"):
        refuse_other_machines([request.node])


CONFTEST = """
import pytest, shares
def pytest_configure(config):
    shares.register(config)
@pytest.fixture(scope="session")
def once():
    yield
def pytest_terminal_summary(terminalreporter):
    counts = [f"{name}={len(terminalreporter.stats.get(name, []))}" for name in ("passed", "failed", "skipped", "error")]
    open("summary", "w").write(" ".join(counts))
"""
FILES = {
    "a/test_outcomes.py": "import pytest\ndef test_passes(once): pass\ndef test_fails(once): assert 0\n"
    "@pytest.mark.deep\ndef test_deep(): pass\n",
    "a/test_empty.py": "",
    "a/test_doctests.py": "def test_one():\n    '''A test.\n\n    >>> 1 + 1\n    2\n    '''\n",
    "b/test_import.py": "import nothing_of_this_name\ndef test_never(): pass\n",
    "b/test_skipped.py": "import pytest\npytest.skip('all of it', allow_module_level=True)\n",
    "c/test_last.py": "import pytest\n@pytest.mark.parametrize('n', [1, 2, 3])\ndef test_cases(n, once): assert n != 2\n",
}


@pytest.mark.deep
def test_workers_run_what_is_selected_and_report_it(tmp_path: Path) -> None:
    """One file fails on import, one is skipped, one has no tests, one holds doctests too; of two others a test fails."""
    summaries = []
    for workers in ("0", "2"):
        done = _run(tmp_path, FILES, workers)
        assert done.returncode == 1
        assert "ERROR b/test_import.py" in done.stdout
        assert "FAILED a/test_outcomes.py::test_fails" in done.stdout
        summaries.append(dict(re.findall(r"(\w+)=(\d+)", (tmp_path / "summary").read_text(encoding="utf-8"))))
    assert summaries[0] == summaries[1]
    assert (summaries[0]["passed"], summaries[0]["failed"], summaries[0]["skipped"]) == ("5", "2", "1")


@pytest.mark.deep
def test_a_worker_that_dies_names_its_test(tmp_path: Path) -> None:
    """The run ends, and not as passed."""
    dies = "import os\ndef test_before(): pass\ndef test_dies(): os._exit(3)\ndef test_after(): pass\n"
    said = _run(tmp_path, {"test_dies.py": dies, "test_other.py": "def test_other(): pass\n"}, "2")
    assert said.returncode != 0
    assert "in or after test_dies.py::test_dies" in said.stdout


def _run(place: Path, files: dict[str, str], workers: str) -> subprocess.CompletedProcess[str]:
    for name, text in {"conftest.py": CONFTEST, "pytest.ini": "[pytest]\nmarkers = deep\n", **files}.items():
        file = place / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    options = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-m",
        "not deep",
        "--continue-on-collection-errors",
        "--import-mode=importlib",
    ]
    spread = [
        "--doctest-modules",
        "-n",
        workers,
        "--dist",
        "loadfile",
        "--no-loadscope-reorder",
        "--max-worker-restart",
        "0",
    ]
    folder = str(Path(__file__).parent)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, *spread, "."],
        cwd=place,
        env=environment | {"PYTHONPATH": folder},
        capture_output=True,
        text=True,
        check=False,
    )
