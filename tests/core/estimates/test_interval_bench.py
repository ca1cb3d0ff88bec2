"""The bench of intervals: it finds planted faults, and none in a small part of its own grid."""

from __future__ import annotations

import importlib
import itertools
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sordino.core.estimates.weighted_sum import normal_quantile

BENCH = Path(__file__).resolve().parents[3] / "bench"


@pytest.fixture(scope="module")
def bench() -> Iterator[Any]:
    sys.path.insert(0, str(BENCH))
    yield importlib.import_module("interval_coverage")
    sys.path.remove(str(BENCH))


def _normal(bench: Any, factor: float, **fields: Any) -> Any:
    values = np.random.default_rng(4).normal(size=2000)

    def ends(confidence: float) -> tuple[Any, Any]:
        reach = factor * normal_quantile(confidence)
        return values - reach, values + reach

    return bench.Draws("normal", "here", 0.0, values, ends, **fields)


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, ""), (0.8, "below"), (1.4, "above")])
def test_verdicts(bench: Any, factor: float, verdict: str) -> None:
    checks = [bench.check(_normal(bench, factor), level) for level in bench.CONFIDENCES]
    assert bench.judge(checks)[:2] == [verdict] * 2
    assert [round(c.ratio, 1) for c in checks[:3]] == [factor] * 3
    assert ("| below |\n" in bench.page(checks)) == (verdict == "below")


def test_a_bound_may_be_wide_and_all_of_a_family_must_hold(bench: Any) -> None:
    assert bench.judge([bench.check(_normal(bench, 1.4, promise="at least"), 0.9)]) == [""]
    family = np.repeat(np.arange(500), 4)
    together = bench.check(_normal(bench, 1.0, promise="together", family=family), 0.9)
    assert together.coverage == pytest.approx(0.9**4, abs=0.05)
    assert bench.judge([together]) == ["below"]
    average = bench.check(_normal(bench, 0.7, promise="on average", family=family), 0.9)
    assert bench.judge([average]) == ["below"]


def test_whole_steps_and_clamps_are_no_fault(bench: Any) -> None:
    """Noise of -1, 0 or 1 at chances 1/10, 8/10, 1/10: at .9 a margin of 1 covers always; and a mean at its bound."""
    values = np.tile([-1.0, *[0.0] * 8, 1.0], 200)
    whole = bench.Draws("whole", "here", 0.0, values, lambda _: (values - 1, values + 1))
    clamped = replace(
        whole, values=np.minimum(values, 0), ends=lambda _: (np.minimum(values, 0) - 1, values * 0), most=0
    )
    assert bench.judge([bench.check(d, 0.9) for d in (whole, clamped)]) == ["", ""]
    normal = _normal(bench, 1.0, most=0)
    below = replace(normal, values=np.minimum(normal.values, 0), ends=lambda c: (normal.ends(c)[0], np.zeros(2000)))
    assert bench.check(below, 0.5).unavoidable == pytest.approx(0.5, abs=0.01)  # equal tails know that the truth is 0
    wide = replace(whole, ends=lambda _: (values - 2, values + 2))
    assert bench.judge([bench.check(wide, 0.5)]) == ["above"]


@pytest.mark.deep
def test_a_part_of_the_grid(bench: Any) -> None:
    curator = importlib.import_module("curator_intervals")
    shares = itertools.islice(importlib.import_module("local_intervals").local_draws(200), 12)
    rare = [*curator._weighted_keys(200), *curator._without_bounds(100)]
    assert {d.kind for d in rare} == {
        "count of a key by weights", "sum of a key by weights", "mean without bounds, as clipped"
    }  # fmt: skip
    drawn = [*curator.group_draws(60, kinds=curator.KINDS[:5], losses=curator.BESIDE), *shares, *rare]
    checks = [bench.check(d, level) for d in drawn for level in bench.CONFIDENCES]
    assert len(checks) > 200
    assert "below" not in bench.judge(checks)


def test_the_page_says_what_its_data_say(bench: Any) -> None:
    kept = bench.load()
    assert all(kept.values()), (
        "a source has no checks: run python bench/interval_coverage.py --write bench/results/coverage.md"
    )
    checks = [c for own in kept.values() for c in own]
    assert bench.PAGE.read_text(encoding="utf-8") == bench.page(checks), (
        "run it with --kept --write bench/results/coverage.md"
    )
    assert {c.confidence for c in checks} == set(bench.CONFIDENCES)
    assert "below" not in bench.judge(checks)


@pytest.mark.deep
@pytest.mark.parametrize("source", ["curator", "rarer", "samples", "local", "reports", "models"])
def test_a_tenth_of_each_source_is_drawn_again(bench: Any, source: str) -> None:
    checks = bench.run(200, only=source)[source]
    assert {(c.kind, c.promise) for c in checks} >= {
        (c.kind, c.promise) for c in bench.load()[source] if c.draws >= 500
    }
    assert "below" not in bench.judge(checks)
