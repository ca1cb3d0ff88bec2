"""Exact audits, replayed noise and one-run audits: against brute force, and with faults planted."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

import sordino as sd
from battery import binomial_law
from cli.support import Run, read_json
from sordino.ask.curator.aggregation_procedure import AggregationProcedure
from sordino.ask.curator.plan import Plan
from sordino.ask.curator.rehearsal import rehearse
from sordino.core.mechanisms.additive_noise import Laplace
from sordino.core.noise.rng import Rng
from sordino.errors import DeclarationError, QuestionRefused
from sordino.lab.audit.canary_run import audit_canaries, canary_epsilon
from sordino.lab.audit.exact_laws import audit_laws, audit_protocol
from sordino.lab.audit.question_audit import audit_plan, audit_question, neighbor_tables, replay_function, replay_plan

DOMAIN = sd.Domain(
    {"age": sd.Integer(0, 125), "job": sd.Category(["a", "b", "c"]), "town": sd.Identifier(), "id": sd.Identifier()}
)
UNITS: list[Any] = ["row", sd.PrivacyUnit("id", max_rows=3)]
RELATIONS = ["add_remove", "replace"]
BOTH = pytest.mark.parametrize(
    ("neighbors", "unit"), list(itertools.product(RELATIONS, UNITS)), ids=["+row", "+id", "=row", "=id"]
)


def plan_of(question: Any, neighbors: str, unit: Any, **loss: Any) -> Plan:
    """Return a plan of a question about a table that nobody reads."""
    curator = sd.protect(
        sd.dummy(DOMAIN, rows=3, rng=Rng.seeded(1)),
        domain=DOMAIN,
        neighbors=neighbors,
        privacy_unit=unit,
        budget=sd.ApproxDP(100, "0.1"),
        ledger=None,
        name="people",
    )
    found = curator.plan(question, **loss)
    assert isinstance(found, Plan)
    return found


@pytest.mark.parametrize("delta", [0.0, 0.01, 0.2])
def test_exact_laws_agree_with_every_event(delta: float) -> None:
    here: dict[str, Fraction | float] = {"a": 0.5, "b": 0.3, "c": 0.2}
    there: dict[str, Fraction | float] = {"a": 0.2, "b": 0.25, "d": 0.55}
    outputs = sorted({*here, *there})
    worst = 0.0
    for size in range(1, len(outputs) + 1):
        for event in itertools.combinations(outputs, size):
            p, q = (float(sum(law.get(o, 0) for o in event)) for law in (here, there))
            for more, less in ((p, q), (q, p)):
                if more > delta:
                    worst = max(worst, math.log((more - delta) / less) if less else math.inf)
    found = audit_laws(here, there, epsilon=1, delta=delta)
    assert found.least == pytest.approx(worst)
    assert found.exact
    with pytest.raises(DeclarationError, match="sum to 1"):
        audit_laws({"a": 0.5}, there, epsilon=1)


def test_local_protocols_reveal_what_they_claim() -> None:
    for protocol in (sd.local.GRR(range(5), epsilon=1), sd.local.OUE(range(4), epsilon=2)):
        found = audit_protocol(protocol)
        assert not found.violated
        assert found.least > 0.999 * found.epsilon
    liar = sd.local.GRR(range(5), epsilon=1)
    object.__setattr__(liar, "claim", Fraction(1, 2))
    assert audit_protocol(liar).violated


QUESTIONS: dict[str, Any] = {
    "sum": sd.sum("age"),
    "mean": sd.mean("age"),
    "grouped": sd.sql("SELECT job, COUNT(*) AS n, SUM(age) AS s FROM people GROUP BY job"),
    "filtered": sd.sql("SELECT COUNT(*) AS n FROM people WHERE age < 20"),
}


@pytest.mark.deep
@pytest.mark.attack(
    "move an answer further than its sensitivity",
    source="Ding, Wang, Wang, Zhang, Kifer 2018, Detecting violations of differential privacy",
)
@pytest.mark.each(2)
@BOTH
@pytest.mark.parametrize("name", QUESTIONS)
def test_nothing_but_exact_values_moves_and_none_further_than_declared(name: str, neighbors: str, unit: Any) -> None:
    age = 10 if name == "filtered" else 125
    pair = neighbor_tables(DOMAIN, neighbors=neighbors, privacy_unit=unit, changed={"age": age}, rows=5)
    loss: dict[str, Any] = {"epsilon": 1, "delta": "1e-3"} if name == "grouped" else {"epsilon": 1}
    replay = replay_plan(plan_of(QUESTIONS[name], neighbors, unit, **loss), *pair)
    assert replay.holds, replay
    at_all = neighbors == "add_remove" or name != "filtered"  # replaced rows may stay in the condition
    assert not at_all or any(v.moved > 0.3 * v.allowed for v in replay.vectors), replay


def lower_noise(plan: Plan, factor: Fraction) -> Plan:
    """Return a plan whose vectors are noised for a part of their sensitivity: a planted fault."""
    procedure = plan.procedure
    assert isinstance(procedure, AggregationProcedure)
    several = []
    for vectors in procedure.allocation.vectors:
        made = [v.mechanism for v in vectors]
        assert all(isinstance(m, Laplace) for m in made)
        several.append(
            tuple(
                replace(v, mechanism=Laplace(m.l1 * factor, m.epsilon))
                for v, m in zip(vectors, made, strict=True)
                if isinstance(m, Laplace)
            )
        )
    return replace(plan, procedure=replace(procedure, allocation=replace(procedure.allocation, vectors=tuple(several))))


@pytest.mark.deep
def test_a_sensitivity_of_half_is_found_by_replay_and_by_samples() -> None:
    plan = plan_of(sd.sum("age"), "add_remove", "row", epsilon=1)
    faulty = lower_noise(plan, Fraction(1, 2))
    assert "FURTHER THAN DECLARED" in replay_plan(faulty).describe()
    found = audit_plan(faulty, samples=800, alarm=0.01)
    assert found.violated
    assert not audit_plan(plan, samples=400).violated


@pytest.mark.each(2)
@pytest.mark.parametrize("neighbors", RELATIONS)
def test_the_whole_ask_is_audited(neighbors: str) -> None:
    here, there = neighbor_tables(DOMAIN, neighbors=neighbors, privacy_unit="row", changed={"job": "c"})
    stated: dict[str, Any] = {"domain": DOMAIN, "neighbors": neighbors, "privacy_unit": "row"}
    found = audit_question(sd.sum("age"), here, there, epsilon=8, through="ask", samples=60, alarm=0.01, **stated)
    assert not found.violated
    assert found.least > 0.2
    keyed = sd.sql("SELECT town, COUNT(*) AS n FROM audited GROUP BY town")
    private = audit_question(keyed, here, there, epsilon=1, delta="0.01", samples=40, **stated)
    assert not private.violated
    assert not audit_question(sd.median("age"), here, there, rho="0.5", at_delta=0.01, samples=40, **stated).violated


@pytest.mark.attack("move an answer further than its sensitivity")
def test_replay_finds_noise_that_follows_the_data() -> None:
    def scaled(table: list[int], rng: Rng) -> float:  # noise as wide as the data
        return sum(table) + (1 + rng.below(2)) * max(table)

    assert not replay_function(scaled, [1, 2], [1, 2, 5], sensitivity=5, seed=3).holds

    def longer(table: list[int], rng: Rng) -> int:  # a draw for each row
        return sum(0 * rng.bits(8) for _ in table)

    replay = replay_function(longer, [1, 2], [1, 2, 5], sensitivity=5)
    assert not replay.same_draws
    assert "DIFFERENT RANDOM WORDS" in repr(replay)


def test_what_cannot_be_replayed_is_refused_and_audited_by_samples() -> None:
    plan = plan_of(sd.median("age"), "add_remove", "row", epsilon=1)
    with pytest.raises(QuestionRefused, match="by samples"):
        replay_plan(plan)
    assert not audit_plan(plan, samples=30).violated


def test_only_seeded_noise_is_rehearsed() -> None:
    plan = plan_of(sd.count(), "add_remove", "row", epsilon=1)
    people = sd.dummy(DOMAIN, rows=5)
    stated: dict[str, Any] = {"domain": DOMAIN, "neighbors": "add_remove", "privacy_unit": "row", "name": "people"}
    curator = sd.protect(people, budget=sd.PureDP(1), ledger=None, **stated)
    with pytest.raises(DeclarationError, match="only seeded noise"):
        rehearse(curator, plan, runs=1, rng=Rng.seeded(1))


BASE = pa.table({"x": pa.array(range(50), pa.int64())})
CANARIES = [{"x": 1000 + i} for i in range(400)]


def appears(output: Any, canary: Any) -> float:
    return float(output.count(canary["x"]))


def test_one_run_finds_a_copy_and_does_not_accuse_what_is_sound() -> None:
    copied = audit_canaries(lambda t: t.column("x").to_pylist(), BASE, CANARIES, score=appears, epsilon=1)
    assert copied.violated
    assert copied.right == copied.guesses
    rng = Rng.seeded(4)

    def respond(table: pa.Table) -> list[int]:  # each row shows with e / (1 + e), each other one with 1 / (1 + e)
        inside = set(table.column("x").to_pylist())
        return [c["x"] for c in CANARIES if (rng.below(1_000_000) < 731_058) == (c["x"] in inside)]

    sound = audit_canaries(respond, BASE, CANARIES, score=appears, epsilon=1, guesses=400)
    assert not sound.violated
    assert sound.least > 0.4


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
def test_one_run_of_a_sound_mechanism_is_accused_no_more_often_than_stated(epsilon: float) -> None:
    """The law of right guesses about independent coins, randomized at epsilon, is binomial: summed exactly."""
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    accused = sum(
        float(binomial_law(right, 40, p))
        for right in range(41)
        if canary_epsilon(right, guesses=40, canaries=40, alarm=0.05) > epsilon
    )
    assert accused <= 0.05


def test_the_command_audits_a_declared_question_without_reading_or_spending(run: Run, census: Any) -> None:
    (census / "people.parquet").write_bytes(b"") if (census / "people.parquet").exists() else None
    words = ("audit", "SELECT COUNT(*) AS n FROM people WHERE age > 64", "--epsilon", "1/2", "--samples", "60")
    data = read_json(run(*words, "--format", "json"))
    assert data["violated"] is False
    assert data["epsilon"] == 0.5
    assert data["private"] is False
    assert "NOT PRIVATE" in run(*words).out
    assert run("audit", "SELECT COUNT(*) AS n FROM nobody", "--epsilon", "1").code == 3


def test_one_run_audits_a_synthetic_table() -> None:
    """A real fit at epsilon 1, and one at epsilon 10,000 that is claimed at 1: the rows that it copies give it away."""
    domain = sd.Domain({"a": sd.Category([f"a{i}" for i in range(100)]), "b": sd.Boolean()})
    base = pa.table({"a": ["a0"] * 20, "b": [True] * 20})
    canaries = [{"a": f"a{i}", "b": False} for i in range(1, 100)]

    def fit(epsilon: int) -> Any:
        def make(table: pa.Table) -> list[str]:
            opened = sd.protect(
                table,
                domain=domain,
                neighbors="add_remove",
                privacy_unit="row",
                budget=sd.PureDP(epsilon),
                ledger=None,
                rng=Rng.seeded(5),
            )
            model = sd.synth.Independent(["a"]).fit(opened, epsilon=epsilon, rng=Rng.seeded(6))
            labels: list[str] = model.sample(2000, rng=Rng.seeded(7)).column("a").to_pylist()
            return labels

        return make

    def share(output: list[str], canary: Any) -> float:
        return float(output.count(canary["a"]))

    assert not audit_canaries(fit(1), base, canaries, score=share, epsilon=1).violated
    assert audit_canaries(fit(10_000), base, canaries, score=share, epsilon=1).violated
