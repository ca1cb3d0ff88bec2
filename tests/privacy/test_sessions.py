"""Attacks on a session: threads, forks, copies, late use, custom questions and failures never pass or hide the charge."""

from __future__ import annotations

import contextlib
import copy
import logging
import os
import pickle
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sordino as sd
from ask.curator.support import S, curator
from sordino.ask.queries.adaptive.magnitudes import MagnitudeHistogram, TailCount
from sordino.ask.queries.adaptive.marginal import Axis, ContingencyTable, Distances, MarginalQuery
from sordino.ask.queries.queryable import Queryable
from sordino.core.accounting.events import LaplaceEvent
from sordino.core.loss import ZCDP, PureDP
from sordino.errors import BudgetExhausted, ChargedError, QuestionRefused, SordinoError

CANARY = "canary-4711"
OCC = ContingencyTable((Axis("occ"),))
LADDER = MagnitudeHistogram(sd.col("age").node, (0, 25, 50, 75, 101), offsets=False)
OFFSETS = MagnitudeHistogram(sd.col("age").node, (0, 25, 50, 75, 101), offsets=True)
EDGES = [TailCount(LADDER, j, 10, "few", below=False) for j in range(5)]
COUNT = S.agg(sd.count())


@pytest.fixture
def eager() -> Iterator[None]:
    """Switch threads as often as Python can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.deep
@pytest.mark.attack("spend between the look at a budget and the charge")
@pytest.mark.usefixtures("eager")
def test_threads_of_one_algorithm_never_pass_its_loss() -> None:
    for _ in range(3):
        granted: list[int] = []

        def spend(q: Any, granted: list[int] = granted) -> None:
            together = threading.Barrier(32)

            def one() -> None:
                together.wait()
                for _ in range(20):
                    try:
                        q._charge(
                            LaplaceEvent("1/100")
                        )  # what every question passes through, alone, so that threads meet
                        granted.append(1)
                    except QuestionRefused:
                        pass

            threads = [threading.Thread(target=one) for _ in range(32)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        curator(budget=PureDP(10)).adapt(spend, describe="threads", epsilon=1)
        assert len(granted) == 100


def test_threads_that_ask_real_questions_get_as_many_as_were_paid_for() -> None:
    answers: list[Any] = []

    def spend(q: Queryable) -> None:
        def one() -> None:
            for _ in range(3):
                with contextlib.suppress(QuestionRefused):
                    answers.append(q.release(MarginalQuery((OCC,)), PureDP("1/4")).outputs[0].estimate.values())

        threads = [threading.Thread(target=one) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    curator(budget=PureDP(10)).adapt(spend, describe="threads", epsilon=2)
    assert len(answers) == 8


@pytest.mark.attack("copy a generator by a fork")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_cannot_spend_the_loss_once_more(tmp_path: Path) -> None:
    def forking(q: Queryable) -> tuple[bytes, Any]:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                said = f"answered {q.release(COUNT, PureDP(1)).value}"
            except SordinoError as refusal:
                said = type(refusal).__name__
            os.write(write, said.encode())
            os._exit(0)
        os.close(write)
        said_there = os.read(read, 1000)
        os.close(read)
        os.waitpid(child, 0)
        return said_there, q.release(COUNT, PureDP(1)).value

    held = curator(budget=PureDP(2), ledger=tmp_path / "fork.ledger")
    (there, here), _ = held.adapt(forking, describe="forking", epsilon=1)
    assert there == b"QuestionRefused"
    assert isinstance(here, int)
    assert held.spent == PureDP(1)


def test_a_session_cannot_be_copied_pickled_or_used_after_its_run_by_any_call() -> None:
    kept: list[Any] = []

    def keep(q: Any) -> None:
        kept.append(q)
        for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="cannot be copied or pickled"):
                attempt(q)

    held = curator(budget=PureDP(10))
    held.adapt(keep, describe="keep", epsilon=5)
    q = kept[0]
    attempts: list[Callable[[], object]] = [
        lambda: q.release(COUNT, PureDP(1)),
        lambda: q.release(MarginalQuery((OCC,)), PureDP(1)),
        lambda: q.release(OFFSETS, PureDP(1)),
        lambda: q.select(EDGES, PureDP(1)),
        lambda: q.above(EDGES, 0, PureDP(1)),
    ]
    for attempt in attempts:
        with pytest.raises(QuestionRefused, match="ended"):
            attempt()
    assert held.spent == PureDP(5)


def test_a_thread_that_outlives_the_run_is_refused() -> None:
    go, said = threading.Event(), []

    def start(q: Queryable) -> threading.Thread:
        def late() -> None:
            go.wait(10)
            try:
                said.append(q.release(COUNT, PureDP(1)).value)
            except QuestionRefused as refusal:
                said.append(type(refusal).__name__)

        thread = threading.Thread(target=late)
        thread.start()
        return thread

    thread, _ = curator(budget=PureDP(10)).adapt(start, describe="late", epsilon=5)
    go.set()
    thread.join()
    assert said == ["QuestionRefused"]


class Crooked:
    """A question whose parts lie about their shares, to win loss back."""

    unit = Fraction(1)

    def __init__(self, *shares: Fraction) -> None:
        self._shares = shares

    @property
    def tables(self) -> tuple[ContingencyTable, ...]:
        return (OCC,) * len(self._shares)

    def parts(self, domain: Any, neighbors: Any) -> Any:
        return [(OCC.sensitivity(domain, neighbors), s) for s in self._shares]

    def from_counts(self, counted: Any, domain: Any) -> Any:
        return [t.encode(c, domain) for t, c in zip(self.tables, counted, strict=True)]

    def names(self) -> list[str]:
        return ["x"] * len(self._shares)

    def describe(self) -> str:
        return "crooked"


@pytest.mark.parametrize("loss", [PureDP(1), ZCDP(1)], ids=["epsilon", "rho"])
@pytest.mark.parametrize("shares", [(Fraction(3, 2), Fraction(-1, 2)), (Fraction(-1),), (Fraction(0),)], ids=str)
def test_shares_that_are_not_shares_win_nothing_back(shares: Any, loss: Any) -> None:
    """Either the question is refused, or it is counted for what its noise really costs: what is left never grows."""
    words: dict[str, Any] = {"rho": 3} if isinstance(loss, ZCDP) else {"epsilon": 3}

    def win(q: Any) -> None:
        before = dict(q._spent)
        with contextlib.suppress(SordinoError, ValueError, ZeroDivisionError):
            q.release(Crooked(*shares), loss)
        assert all(q._spent[name] >= before[name] for name in before)
        if shares == (Fraction(0),):
            assert q._spent == before

    curator(budget=ZCDP(10) if isinstance(loss, ZCDP) else PureDP(10)).adapt(win, describe="win", **words)


ASKS = st.sampled_from(["count", "tables", "distance", "rungs", "select", "above", "mean", "variance"])
AMOUNTS = st.fractions(min_value=Fraction(1, 1000), max_value=Fraction(3, 2), max_denominator=1000)


def ask(q: Any, what: str, loss: Any) -> Any:
    """Ask one question of a session."""
    if what in ("count", "mean", "variance"):
        made = {"count": sd.count(), "mean": sd.mean("age"), "variance": sd.variance("age")}[what]
        return q.release(S.agg(made), loss)
    if what == "tables":
        return q.release(MarginalQuery((OCC, ContingencyTable((Axis("occ"), Axis("age", edges=(0, 50, 100)))))), loss)
    if what == "distance":
        return q.release(Distances((OCC,), (np.zeros(3, dtype=np.int64),)), loss)
    if what == "rungs":
        return q.release(OFFSETS, loss)
    return q.select(EDGES, loss) if what == "select" else q.above(EDGES, 0, loss)


@pytest.mark.parametrize(
    "currency", ["pair", *(pytest.param(name, marks=pytest.mark.deep) for name in ("epsilon", "rho"))]
)
@settings(max_examples=6, deadline=None, derandomize=True)
@given(asked=st.lists(st.tuples(ASKS, AMOUNTS), min_size=1, max_size=8))
def test_whatever_is_asked_the_inner_costs_never_pass_the_charge(currency: str, asked: list[Any]) -> None:
    budget: Any = {"epsilon": PureDP(10), "rho": ZCDP(10), "pair": sd.ApproxDP(10, "1e-5")}[currency]
    words: Any = {"epsilon": {"epsilon": 2}, "rho": {"rho": 2}, "pair": {"epsilon": 2, "delta": "1e-6"}}[currency]
    held = curator(budget=budget)
    paid: list[Fraction] = []

    def run(q: Any) -> None:
        name = next(iter(q.loss.amounts()))
        most = q.loss.amounts()[name]
        for what, amount in asked:
            loss: Any = PureDP(amount) if name == "epsilon" else ZCDP(amount * most)
            try:
                told = ask(q, what, loss)
            except QuestionRefused:
                continue
            cost = told.cost.amounts()[name]
            assert 0 < cost <= loss.amounts()[name]
            assert told.remaining.amounts()[name] == most - sum(paid, cost)
            paid.append(cost)
        assert sum(paid) <= most

    _, release = held.adapt(run, describe="random", **words)
    assert held.spent.amounts() == release.cost.amounts()


def _failures() -> dict[str, Any]:
    def shallow(q: Queryable) -> None:
        del q
        raise ValueError(CANARY)

    def deep(q: Queryable) -> None:
        try:
            shallow(q)
        except ValueError as first:
            raise RuntimeError(CANARY) from first

    def grouped(q: Queryable) -> None:
        del q
        raise ExceptionGroup(CANARY, [ValueError(CANARY)])

    def ours(q: Queryable) -> None:
        del q
        raise QuestionRefused(CANARY)

    def over(q: Queryable) -> None:
        q.release(COUNT, PureDP(2))

    return {"shallow": shallow, "deep": deep, "group": grouped, "ours": ours, "over": over}


@pytest.mark.deep
@pytest.mark.attack("read data from an error or a failure")
@pytest.mark.parametrize("name", _failures())
def test_a_failure_is_charged_once_and_tells_nothing_anywhere(
    name: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    held = curator(budget=PureDP(1))
    with pytest.raises(ChargedError) as caught:
        held.adapt(_failures()[name], describe="failing", epsilon=1)
    error = caught.value
    assert error.__context__ is None
    assert error.__cause__ is None
    told = "".join(traceback.format_exception(error)) + repr(error) + str(error.__dict__) + caplog.text
    told += "".join(capfd.readouterr()) + "".join(str(c) for c in held.ledger.charges())
    assert CANARY not in told
    assert held.spent == PureDP(1)
    assert [c.state for c in held.ledger.charges()] == ["failed"]
    with pytest.raises(BudgetExhausted):
        held.adapt(repr, describe="again", epsilon="1e-9")


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_interrupt_leaves_the_charge_standing(stop: type[BaseException], tmp_path: Path) -> None:
    path = tmp_path / "stop.ledger"
    held = curator(budget=PureDP(1), ledger=path)

    def interrupted(q: Queryable) -> None:
        q.release(COUNT, PureDP("1/2"))
        raise stop

    with pytest.raises(stop):
        held.adapt(interrupted, describe="interrupted", epsilon=1)
    again = curator(budget=PureDP(1), ledger=path)
    assert again.spent == PureDP(1)
    assert [c.state for c in again.ledger.charges()] == ["reserved"]
    assert again.releases() == []


def test_telling_that_fails_is_charged_and_hidden_as_well() -> None:
    held = curator(budget=PureDP(1))

    def tell(_: Any) -> Any:
        raise ValueError(CANARY)

    with pytest.raises(ChargedError) as caught:
        held.adapt(lambda q: q.release(COUNT, PureDP(1)).value, describe="telling", record=tell, epsilon=1)
    assert CANARY not in "".join(traceback.format_exception(caught.value))
    assert held.spent == PureDP(1)


def test_runs_within_runs_are_charged_each() -> None:
    held = curator(budget=PureDP(3))

    def inner(q: Queryable) -> Any:
        return q.release(COUNT, PureDP(1)).value

    def outer(q: Queryable) -> Any:
        inside, _ = held.adapt(inner, describe="inner", epsilon=1)
        return inside, held.ask(sd.count(), epsilon=1).value, q.release(COUNT, PureDP(1)).value

    held.adapt(outer, describe="outer", epsilon=1)
    assert held.spent == PureDP(3)
    with pytest.raises(BudgetExhausted):
        held.ask(sd.count(), epsilon="1e-9")
