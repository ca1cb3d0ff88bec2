"""The page of benchmarks over commits says what its lines say, in the order of the commits."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import pytest

from places import ROOT


@pytest.fixture
def history(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    spec = importlib.util.spec_from_file_location("bench_history", ROOT / "bench" / "history.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "bench_history", module)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_that_of_its_lines(history: ModuleType) -> None:
    lines = history.read()
    assert history.PAGE.read_text(encoding="utf-8") == history.page(lines)
    committed = [line["committed"] for line in lines]
    assert committed == sorted(committed)
    assert all(set(line["ratios"]) == set(history.QUESTIONS) for line in lines)
    picture = history.PICTURE.read_text(encoding="utf-8")
    assert all(f"{i}. {line['commit'][:7]}" in picture for i, line in enumerate(lines, 1))
