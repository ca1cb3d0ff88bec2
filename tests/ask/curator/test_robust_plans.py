"""Robust questions: what is planned is answered, and a noisy value lies within the bounds that are public."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import pytest

import sordino as sd
from ask.curator.support import curator
from sordino.core.loss import Number
from sordino.errors import DeclarationError, QuestionRefused

BUDGET = sd.ApproxDP(10**9, "0.999")
EPSILONS: list[Number] = ["1e-12", "0.01", 1, 50, 10**6]
LEVELS = ["0", "1", "0.5", "0.25", "0.123456789", "1e-9", "0.999999999"]


@pytest.mark.parametrize("level", ["0.1234567891", "1e-10", "0.99999999999", "1e-400"])
@pytest.mark.parametrize("method", ["smooth", "test", "chunks"])
def test_a_level_too_fine_is_refused_before_any_charge(method: str, level: str) -> None:
    name = f"quantile:{level}"
    with pytest.raises((QuestionRefused, DeclarationError)):
        _question(method, name)


def _question(method: str, statistic: str, bound: Any = 1) -> Any:
    if method == "smooth":
        return sd.smooth(statistic, "age")
    if method == "test":
        return sd.propose_test_release(statistic, "age", bound=bound)
    return sd.sample_and_aggregate(statistic, "age", chunks=7, default=30)


@pytest.mark.parametrize(
    ("seed", "questions"), [(0, 12), *(pytest.param(seed, 30, marks=pytest.mark.deep) for seed in (0, 1))]
)
def test_whatever_robust_question_is_planned_is_answered(seed: int, questions: int) -> None:
    """A charge that always fails is a loss for nothing: random statistics, levels, losses and proposals."""
    draw, answered = random.Random(seed), 0
    held = curator(budget=BUDGET)
    for _ in range(questions):
        statistic = draw.choice(["mean", "median", "var", *(f"quantile:{q}" for q in LEVELS)])
        method = draw.choice(["smooth", "test", "chunks"])
        bound = draw.choice(["1e-9", "0.5", 1, 10**6, 10**30])
        delta = draw.choice([None, "1e-400", "1e-9", "0.5", "0.72"])
        if method == "test" and delta is None:
            delta = "1e-6"
        epsilon = draw.choice(EPSILONS)
        try:
            plan = held.plan(_question(method, statistic, bound), epsilon=epsilon, delta=delta)
        except (QuestionRefused, DeclarationError):
            continue
        value = curator(budget=BUDGET, seed=draw.randrange(10**6)).ask(plan).value
        answered += 1
        if value is not None and method != "chunks":
            assert 0 <= value <= (2500 if statistic == "var" else 100)
    assert answered > questions // 3


@pytest.mark.deep
@pytest.mark.parametrize("statistic", ["median", "mean", "quantile:0.9", "var"])
@pytest.mark.parametrize("method", ["smooth", "test"])
def test_values_are_clamped_to_the_bounds(method: str, statistic: str) -> None:
    """At these losses unclamped noise leaves the bounds nearly always."""
    seen = set()
    for seed in range(14):
        delta = "0.5" if method == "test" else "1e-6"
        epsilon = Fraction(1, 50) if method == "test" else Fraction(1, 10**6)
        held = curator(budget=BUDGET, seed=seed)
        value = held.ask(_question(method, statistic, 1000), epsilon=epsilon, delta=delta).value
        if value is not None:
            assert 0 <= value <= (2500 if statistic == "var" else 100)
            seen.add(value)
    assert {0, 2500 if statistic == "var" else 100} <= seen


@pytest.mark.each(5)
@pytest.mark.parametrize(
    ("method", "statistic", "teaches"),
    [
        ("smooth", "median", True),
        ("test", "quantile:0.9", True),
        ("smooth", "mean", False),
        ("chunks", "median", False),
    ],
)
def test_the_plan_of_a_teaching_tool_names_it_and_what_is_better(method: str, statistic: str, teaches: bool) -> None:
    held = curator(budget=BUDGET)
    plan = held.plan(_question(method, statistic, 50), epsilon=1, delta="1e-6")
    assert any("teaching tool: median(...)" in note for note in plan.notes) == teaches
    assert held.ask(plan).notes == plan.notes
