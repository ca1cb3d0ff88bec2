"""Intervals of a model's answers: their coverage over tables of other shapes, losses and kinds of questions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sordino as sd
from sordino import synth
from sordino.queries.build import Selection
from sordino.queries.expressions.expr import col
from synth.support import Source

ROWS = 20_000
KINDS = {"one": 1, "two": 2, "many": 3}


def _independent(rng: np.random.Generator) -> dict[str, Any]:
    return {f"c{i}": rng.choice(s, ROWS, p=rng.dirichlet(np.ones(s) * 2)) for i, s in enumerate((3, 5, 8, 12, 2, 20))}


def _xor(rng: np.random.Generator) -> dict[str, Any]:
    a, b, d = rng.integers(0, 4, ROWS), rng.integers(0, 4, ROWS), rng.integers(0, 10, ROWS)
    c = np.where(rng.random(ROWS) < 0.8, (a + b) % 4, rng.integers(0, 4, ROWS))
    return {"a": a, "b": b, "c": c, "d": d, "e": np.where(rng.random(ROWS) < 0.5, d, rng.integers(0, 10, ROWS))}


def _factor(rng: np.random.Generator) -> dict[str, Any]:
    hidden = rng.normal(size=ROWS)
    sizes = [4 + 4 * (i % 5) for i in range(10)]
    values = [(0.7 * hidden + 0.7 * rng.normal(size=ROWS) + 3) / 6 * s for s in sizes]
    return {f"c{i}": np.clip(v.astype(np.int64), 0, s - 1) for i, (v, s) in enumerate(zip(values, sizes, strict=True))}


def _skewed(rng: np.random.Generator) -> dict[str, Any]:
    hidden = rng.gamma(0.5, size=ROWS)
    sizes = (200, 300, 50, 100, 20, 400)
    drawn = [rng.pareto(1.2, ROWS) * (1 + 3 * hidden * (i % 2)) for i in range(len(sizes))]
    return {f"c{i}": np.minimum(v.astype(np.int64), s - 1) for i, (v, s) in enumerate(zip(drawn, sizes, strict=True))}


def _forty(rng: np.random.Generator) -> dict[str, Any]:
    keys, before = {}, rng.integers(0, 2, ROWS)
    for i in range(40):
        size = 2 + i % 9
        before = np.where(rng.random(ROWS) < 0.4, before % size, rng.integers(0, size, ROWS))
        keys[f"c{i}"] = before
    return keys


def _gaps(rng: np.random.Generator) -> dict[str, Any]:
    hidden, keys = rng.random(ROWS), {}
    for i, size in enumerate((2, 4, 8, 16, 6, 30, 3, 10)):
        value = ((hidden + rng.random(ROWS)) / 2 * size).astype(np.int64)
        gone = rng.random(ROWS) < 0.2 + 0.6 * value / (size - 1)
        keys[f"c{i}"] = np.where(gone & (i < 6), -1, value)
    return keys


TABLES = {
    "independent": _independent,
    "xor of three": _xor,
    "one factor": _factor,
    "skewed wide": _skewed,
    "40 columns": _forty,
    "half missing": _gaps,
}


def covered(name: str, epsilon: str, seeds: range, questions: int) -> dict[str, tuple[float, float]]:
    """Return, for each kind of question, the share of intervals at 95% that held the count, and their mean half width."""
    keys = TABLES[name](np.random.default_rng(7))
    domain = sd.Domain({n: sd.Integer(0, int(v.max())) for n, v in keys.items()})
    found: dict[str, list[tuple[bool, float]]] = {k: [] for k in KINDS}
    cache: dict[Any, Any] = {}
    for seed in seeds:
        data = Source(domain, keys, sd.Rng.seeded(seed), cache=cache)
        model = synth.fit(data, epsilon=epsilon, delta="1e-9", rng=sd.Rng.seeded(seed))
        rng = np.random.default_rng(seed)
        for kind, count in KINDS.items():
            for _ in range(questions):
                where, kept = None, np.ones(ROWS, dtype=bool)
                for column in rng.choice(list(keys), count, replace=False):
                    low, high = sorted(int(v) for v in rng.integers(0, keys[column].max() + 1, 2))
                    part = col(column).is_between(low, high)
                    where = part if where is None else where & part
                    kept &= (keys[column] >= low) & (keys[column] <= high)
                ends = model.answer(Selection().where(where).agg(sd.count())).interval(0.95)
                assert ends[0] >= 0
                assert ends[1] - ends[0] <= 2 * ROWS  # cut at the number of rows and its own interval
                found[kind].append((ends[0] <= kept.sum() <= ends[1], (ends[1] - ends[0]) / 2))
    return {k: (float(np.mean([c for c, _ in v])), float(np.mean([w for _, w in v]))) for k, v in found.items()}


@pytest.mark.parametrize(("name", "epsilon"), [("xor of three", "8"), ("half missing", "1"), ("independent", "0.1")])
def test_intervals_of_answers_cover(name: str, epsilon: str) -> None:
    """Three fits of 40 questions a kind at nominal 95%: below .88 is under 1 in 1,000 by chance for independent questions."""
    for kind, (share, _) in covered(name, epsilon, range(3), 40).items():
        assert share >= 0.88, kind


@pytest.mark.deep
@pytest.mark.parametrize("epsilon", ["0.1", "0.3", "1", "3", "8", "20"])
@pytest.mark.parametrize("name", TABLES)
def test_coverage_over_tables_losses_and_kinds(name: str, epsilon: str) -> None:
    """Six fits of 60 questions a kind: at least .94, less three deviations of fits that err together (.025)."""
    for kind, (share, _) in covered(name, epsilon, range(10, 16), 60).items():
        assert share >= 0.94 - 0.025, kind
