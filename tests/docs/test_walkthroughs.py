"""bench/results/walkthroughs.md is what bench/walkthroughs.py writes: 131 steps, each with its call and what it returned."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from places import ADULT, ROOT, needs_adult


@pytest.fixture(scope="module")
def walkthroughs() -> ModuleType:
    spec = importlib.util.spec_from_file_location("walkthroughs", ROOT / "bench" / "walkthroughs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # a dataclass looks for its module there
    sys.modules["walkthroughs"] = module
    spec.loader.exec_module(module)
    return module


def rows_of(page: str) -> list[str]:
    return [line for line in page.splitlines() if re.match(r"\| \d", line)]


def test_the_page_has_every_step(walkthroughs: ModuleType) -> None:
    page = (ROOT / "bench" / "results" / "walkthroughs.md").read_text(encoding="utf-8")
    steps = [step for _, _, steps, _ in walkthroughs.TOURS for step in steps]
    rows = rows_of(page)
    assert len(steps) == len(rows) == 131
    for number, (step, row) in enumerate(zip(steps, rows, strict=True), 1):
        assert row.startswith(f"| {number} | {step.text} | `")
    for title in re.findall(r"docs/[\w/-]+\.md", page):
        assert (ROOT / title).is_file(), title


def test_steps_without_adult_run_as_the_page_says(walkthroughs: ModuleType) -> None:
    page = (ROOT / "bench" / "results" / "walkthroughs.md").read_text(encoding="utf-8")
    written = {row.partition(" | ")[2] for row in rows_of(page)}
    results = walkthroughs.tables(None)
    assert sum(len(rows) for _, rows in results) == 53
    assert {row.partition(" | ")[2] for row in rows_of(walkthroughs.page(results))} <= written


@needs_adult
@pytest.mark.deep
def test_all_steps_run_as_the_page_says(walkthroughs: ModuleType) -> None:
    page = (ROOT / "bench" / "results" / "walkthroughs.md").read_text(encoding="utf-8")
    assert rows_of(walkthroughs.page(walkthroughs.tables(Path(ADULT)))) == rows_of(page)


def test_a_number_that_differs_is_no_agreement(walkthroughs: ModuleType) -> None:
    for how, published in (("=", 4), ("not", 3)):
        step = walkthroughs.Step("three", "3", published, how)
        with pytest.raises(AssertionError):
            walkthroughs.compare(step, 3)
    assert walkthroughs.compare(walkthroughs.Step("three", "3", 3, "="), 3) == "equal"
