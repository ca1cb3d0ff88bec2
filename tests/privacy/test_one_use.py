"""One charge, one use: sessions refuse forks, copies and their own end; plans and questions of the caller's making."""

from __future__ import annotations

import copy
import os
import pickle
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sordino as sd
from ask.curator.support import S, curator
from mistyping import mistype
from planning import allocation_of
from sordino import col
from sordino.ask.queries.adaptive.marginal import Axis, ContingencyTable, MarginalQuery
from sordino.ask.queries.aggregates.sums import Count
from sordino.ask.queries.aggregation import Aggregation
from sordino.ask.queries.joins import Join
from sordino.ask.queries.query import refuse_foreign
from sordino.ask.queries.queryable import Queryable
from sordino.core.accounting.events import LaplaceEvent
from sordino.core.loss import PureDP
from sordino.core.mechanisms.sparse_vector import SparseVector
from sordino.core.noise.guard import SessionGuard
from sordino.core.noise.rng import Rng
from sordino.errors import DeclarationError, QuestionRefused, SordinoError
from trying import examples

OCC = ContingencyTable((Axis("occ"),))


def in_a_child(work: Callable[[], object]) -> str:
    """Return what a forked child says of `work`: the name of its refusal, or what it returned."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = repr(work())
        except SordinoError as refusal:
            said = type(refusal).__name__
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    said_there = os.read(read, 1000).decode()
    os.close(read)
    os.waitpid(child, 0)
    return said_there


def in_a_grandchild(work: Callable[[], object]) -> str:
    return in_a_child(lambda: in_a_child(work)).strip("'")


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


@needs_fork
@pytest.mark.parametrize("kin", [in_a_child, pytest.param(in_a_grandchild, marks=pytest.mark.deep)])
def test_crossings_answer_only_where_they_were_paid_for(tmp_path: Path, kin: Callable[..., str]) -> None:
    held = curator(budget=PureDP(2), ledger=tmp_path / "a.ledger")
    session = held.above_threshold(count=1, epsilon=1)
    assert kin(lambda: session.above(sd.count(), threshold=-1000)) == "QuestionRefused"
    assert kin(session.close) == "QuestionRefused"
    assert kin(lambda: session.open) == "False"
    assert session.open
    assert session.above(sd.count(), threshold=-1000)
    assert session.close().rows
    assert [c.state for c in held.ledger.charges()] == ["committed"]


@pytest.mark.deep
@needs_fork
@pytest.mark.parametrize("kin", [in_a_child, in_a_grandchild])
def test_a_sparse_vector_session_answers_only_where_its_noise_was_drawn(kin: Callable[..., str]) -> None:
    session = SparseVector(Fraction(1), Fraction(1), 1).session(0, Rng.seeded(1))
    assert kin(lambda: session.above(10**6)) == "QuestionRefused"
    assert session.above(10**6)


@pytest.mark.attack("copy a generator by a fork")
@needs_fork
def test_a_child_of_a_parent_that_held_the_session_is_refused_and_does_not_wait() -> None:
    guard = SessionGuard("this session")

    def enter() -> None:
        with guard.hold():
            raise AssertionError

    with guard.hold():
        assert in_a_child(enter) == "QuestionRefused"


@pytest.mark.deep
@needs_fork
@pytest.mark.parametrize("what", ["release", "select", "above"])
def test_an_adaptive_session_refuses_every_call_of_a_child(what: str) -> None:
    table = MarginalQuery((ContingencyTable((Axis("age", edges=(0, 100)),)),))
    calls: dict[str, Callable[[Any], object]] = {
        "release": lambda q: q.release(table, PureDP(1)),
        "select": lambda q: q.select([table], PureDP(1)),
        "above": lambda q: q.above([table], 0, PureDP(1)),
    }

    def run(q: Queryable) -> str:
        said = in_a_child(lambda: calls[what](q))
        calls[what](q)
        return said

    assert curator(budget=PureDP(1)).adapt(run, describe="forks", epsilon=1)[0] == "QuestionRefused"


def test_crossings_are_counted_over_threads() -> None:
    held = curator(budget=PureDP(100))
    yes: list[bool] = []
    refused: list[str] = []
    start = threading.Barrier(8)

    def one(session: Any) -> None:
        start.wait()
        for _ in range(3):
            try:
                yes.append(session.above(sd.count(), threshold=-(10**6)))
            except QuestionRefused as refusal:
                refused.append(str(refusal))

    with held.above_threshold(count=5, epsilon=50) as session:
        threads = [threading.Thread(target=one, args=(session,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert yes == [True] * 5
    assert len(refused) == 19
    assert [row["above"] for row in session.release.rows] == [1] * 5


def test_ended_sessions_answer_nothing() -> None:
    held = curator(budget=PureDP(10))
    with held.above_threshold(count=1, epsilon=1) as session:
        pass
    assert not session.open
    with pytest.raises(QuestionRefused, match="has ended"):
        session.above(sd.count(), threshold=0)
    with pytest.raises(QuestionRefused, match="has ended"), session as again:
        again.above(sd.count(), threshold=0)
    assert session.close() is session.release
    with pytest.raises(ValueError, match="broken"), held.above_threshold(count=1, epsilon=1) as broken:
        raise ValueError("broken")
    with pytest.raises(QuestionRefused, match="has ended"):
        broken.above(sd.count(), threshold=0)
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError):
            attempt(session)


# ---- plans and questions of the caller's own making


def _plans(held: Any) -> dict[str, Any]:
    return {
        "sum": held.plan(S.group_by("occ").agg(sd.count(), sd.sum("age")), epsilon=1),
        "median": held.plan(sd.median("age"), epsilon=1),
        "choice": held.plan(sd.most_common("occ"), epsilon=1),
        "robust": held.plan(sd.smooth("median", "age"), epsilon=1),
    }


@pytest.mark.deep
@pytest.mark.attack("get an answer that costs more than its price")
@pytest.mark.parametrize("kind", ["sum", "median", "choice", "robust"])
def test_an_altered_plan_is_refused_and_an_honest_one_is_not(kind: str) -> None:
    held = curator(budget=PureDP(50))
    honest, rich = _plans(held)[kind], _plans(curator(budget=PureDP(50)))[kind]
    held.ask(honest)
    other = held.plan(sd.count(), epsilon="1e-9")
    dear = replace(rich, asked=PureDP(1000))
    forged = [
        replace(honest, cost=PureDP("1e-12")),
        replace(honest, event=LaplaceEvent("1e-12")),
        replace(honest, event=other.event, cost=other.cost),
        replace(dear, event=other.event, cost=other.cost),
        dear,
    ]
    if kind == "sum":
        mine, theirs = honest.procedure, allocation_of(other)
        mixed = replace(mine.allocation, vectors=theirs.vectors)
        forged.append(replace(honest, procedure=replace(mine, allocation=mixed)))
        forged.append(replace(honest, procedure=replace(mine, allocation=theirs)))
    spent = held.spent
    for plan in forged:
        with pytest.raises(DeclarationError, match="plan again"):
            held.ask(plan)
    assert held.spent == spent


LOSSES = st.fractions(min_value=Fraction(1, 1000), max_value=2, max_denominator=1000)


@pytest.mark.deep
@pytest.mark.attack("get an answer that costs more than its price")
@settings(max_examples=15, deadline=None, derandomize=True)
@given(planned=LOSSES, claimed=LOSSES, asked=LOSSES)
def test_whatever_a_plan_claims_its_answer_costs_what_its_question_does(
    planned: Fraction, claimed: Fraction, asked: Fraction
) -> None:
    held = curator(budget=PureDP(10))
    plan = replace(held.plan(sd.count(), epsilon=planned), asked=PureDP(asked), cost=PureDP(claimed))
    try:
        release = held.ask(plan)
    except DeclarationError:
        assert held.spent == PureDP(0)
        assert not planned == claimed == asked
    else:
        assert planned == claimed == asked
        assert held.spent == release.cost == PureDP(asked)


@dataclass(frozen=True)
class Claims:
    """A vector query that states a sensitivity of its own, and would be handed exact tables."""

    unit = Fraction(1)
    tables = (OCC,)

    def parts(self, domain: Any, neighbors: Any) -> Any:
        return [(replace(OCC.sensitivity(domain, neighbors), l1=Fraction(1, 10**9)), Fraction(1))]

    def from_counts(self, counted: Any, domain: Any) -> Any:
        raise AssertionError(f"exact counts left the curator: {counted}, {domain}")

    def names(self) -> list[str]:
        return ["x"]

    def describe(self) -> str:
        return "claims"


@dataclass(frozen=True)
class Heir(MarginalQuery):
    """A question of ours, but for one word."""

    def parts(self, domain: Any, neighbors: Any) -> Any:
        return Claims().parts(domain, neighbors)


@dataclass(frozen=True)
class Tally(Count):
    """An aggregate of ours, but for one word."""

    def describe(self) -> str:
        return "tally"


def _foreign() -> dict[str, Any]:
    count = S.agg(sd.count())
    return {
        "class": Claims(),
        "heir": Heir((OCC,)),
        "aggregate": replace(count, aggregates=(Tally(*(getattr(count.aggregates[0], f) for f in _fields())),)),
        "object": replace(count, where=mistype(object())),
        "column": MarginalQuery((ContingencyTable((Axis("age", edges=(0, mistype(Claims()), 100)),)),)),
    }


def _fields() -> list[str]:
    return list(Count.__dataclass_fields__)


@pytest.mark.parametrize("name", ["class", "heir", "aggregate", "object", "column"])
def test_a_session_and_a_curator_answer_questions_of_our_classes_alone(name: str) -> None:
    question, held = _foreign()[name], curator(budget=PureDP(10))

    def run(q: Any) -> None:
        asks: list[Callable[[], object]] = [
            lambda: q.release(question, PureDP("1/9")),
            lambda: q.select([question], PureDP("1/9")),
            lambda: q.above([question], 0, PureDP("1/9")),
        ]
        for ask in asks:
            with pytest.raises(QuestionRefused):
                ask()
        assert q._spent == {"epsilon": 0}

    held.adapt(run, describe="foreign", epsilon=1)
    if name in ("aggregate", "object"):
        for ask in (lambda: held.ask(question, epsilon=1), lambda: held.plan(question, epsilon=1)):
            with pytest.raises(QuestionRefused, match="own classes"):
                ask()
        with held.above_threshold(count=1, epsilon=1) as session, pytest.raises(QuestionRefused, match="own classes"):
            session.above(question, threshold=0)


@examples(
    6,
    15,
    st.recursive(
        st.just(0), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc"), inner, max_size=3)
    ),
)
def test_no_place_in_a_question_hides_a_foreign_class(plain: Any) -> None:
    """Lists and dicts of plain values are none; with a foreign value as deep as one lies in them, they are refused."""

    def put(inside: Any) -> Any:
        if isinstance(inside, dict) and inside:
            return {**inside, "last": put(list(inside.values())[-1])}
        return [*inside[:-1], put(inside[-1])] if isinstance(inside, list) and inside else (inside, object())

    refuse_foreign(plain)
    with pytest.raises(QuestionRefused, match="own classes"):
        refuse_foreign(put(plain))


def test_a_list_that_holds_itself_is_walked_once() -> None:
    endless: list[Any] = [1]
    endless.append(endless)
    refuse_foreign(endless)
    with pytest.raises(QuestionRefused, match="own classes"):
        refuse_foreign([endless, object()])


def test_a_plan_of_a_join_finds_its_public_table_again() -> None:
    regions = sd.public(
        pa.table({"occ": ["Sales", "Tech"], "size": [1, 2]}),
        key="occ",
        columns=sd.Domain({"occ": sd.Category(["Sales", "Tech"]), "size": sd.Integer(0, 9)}),
    )
    held = curator(budget=PureDP(10), public={"regions": regions})
    asked = S.join("regions", on="occ").where(col("regions.size") > 1).agg(sd.count())
    plan = held.plan(asked, epsilon=5)
    assert abs(held.ask(plan).value - 300) < 300
    question = plan.question
    assert isinstance(question, Aggregation)
    (join,) = question.steps
    assert isinstance(join, Join)
    wider = replace(regions, max_rows=7)
    altered = replace(plan, question=replace(question, steps=(replace(join, to=wider),)))
    assert held.ask(altered).cost == plan.cost
