"""The arguments of a loss stand once: every call that takes one shows them, and refuses any other."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import sordino as sd
from sordino import audit
from sordino.ask.curator.connect import Connection
from sordino.ask.curator.curator import Curator
from sordino.core.loss import LossArguments

CALLS: list[Callable[..., Any]] = [
    Curator.plan,
    Curator.ask,
    Curator.adapt,
    Curator.find_bounds,
    Curator.find_contribution_bounds,
    Curator.above_threshold,
    Connection.plan,
    Connection.ask,
    sd.synth.fit,
    sd.synth.MST.fit,
    sd.synth.Histogram.fit,
    sd.synth.evaluate,
    audit.audit_question,
]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__qualname__)
def test_a_call_shows_each_argument_of_a_loss_without_a_default(call: Callable[..., Any]) -> None:
    shown = inspect.signature(call).parameters
    for name in LossArguments.__annotations__:
        assert shown[name].kind is inspect.Parameter.KEYWORD_ONLY
        assert shown[name].default is None
    assert "loss" not in shown


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__qualname__)
def test_a_call_refuses_a_word_that_it_does_not_have(call: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match="epsilonn"):
        call(epsilonn=1)


def test_planning_a_statement_takes_what_planning_a_question_takes() -> None:
    ours = set(inspect.signature(Curator.plan).parameters) - {"self", "question"}
    assert ours == set(inspect.signature(Connection.plan).parameters) - {"self", "question"}
