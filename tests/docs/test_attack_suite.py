"""The page of attacks lists the marked tests as they stand, and the table of `make attacks` says what their reports say."""

from __future__ import annotations

import importlib.util
import re
import sys
from types import ModuleType
from typing import Literal

import pytest

from attack_table import summarize
from places import ROOT


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("list_attacks", ROOT / "scripts" / "list_attacks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "list_attacks", module)
    spec.loader.exec_module(module)
    return module


def test_the_page_lists_the_marked_tests(script: ModuleType) -> None:
    tries = script.find_tries()
    assert script.PAGE.read_text(encoding="utf-8") == script.page(tries), "run python scripts/list_attacks.py"
    listed = {one.file for one in tries}
    suite = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests" / "attacks").glob("test_*.py")}
    assert suite <= listed, "a file of attacks without one"
    # However a mark is written, its file is one that `make attacks` runs.
    assert listed == {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("test_*.py")
        if re.search(r"mark[.]attack[(]", path.read_text(encoding="utf-8"))
    }


def report(
    outcome: str, when: Literal["setup", "call", "teardown"], name: str, tried: str | None = None
) -> pytest.TestReport:
    properties = [("attack", name), ("source", "a paper"), *([("tried", tried)] if tried else [])]
    return pytest.TestReport(
        "tests/attacks/test_a.py::test_b",
        ("tests/attacks/test_a.py", 1, "test_b"),
        {},
        "passed" if outcome == "passed" else "failed",
        None,
        when,
        user_properties=properties,
    )


def test_an_attack_broke_where_one_of_its_tests_failed() -> None:
    reports = [
        ("passed", report("passed", "setup", "a")),
        ("passed", report("passed", "call", "a", "9 draws")),
        ("passed", report("passed", "call", "b")),
        ("failed", report("failed", "call", "b")),
        ("error", report("failed", "setup", "c")),
    ]
    found = {row[0]: row[1:] for row in summarize(reports)}
    assert found == {
        "a": ("a paper", "1 case; 9 draws", "held", "attacks/test_a.py"),
        "b": ("a paper", "2 cases", "BROKE", "attacks/test_a.py"),
        "c": ("a paper", "1 case", "BROKE", "attacks/test_a.py"),
    }
