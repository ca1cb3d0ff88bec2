"""Questions of a sample: charged exactly what amplification by Poisson sampling says, told as the sample's own."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sordino as sd
from planning import data_access_of
from protecting import protect
from sordino import col
from sordino.ask.engines.duckdb import DuckDBEngine
from sordino.ask.queries.aggregates.quantile import quantile
from sordino.core.accounting.amplify import Sampled
from sordino.core.accounting.events import LaplaceEvent
from sordino.core.source import public
from sordino.errors import ChargedError, QuestionRefused

TABLE = pa.table({"age": [i % 100 for i in range(20_000)], "id": [f"u{i // 4}" for i in range(20_000)]})
DOMAIN = sd.Domain({"age": sd.Integer(0, 125), "id": sd.Identifier()})


def curator_of(
    *, unit: Any = "row", neighbors: str = "add_remove", budget: Any = None, ledger: Any = None, seed: int = 3
) -> Any:
    return protect(
        TABLE,
        DOMAIN,
        neighbors=neighbors,
        unit=unit,
        seed=seed,
        budget=budget or sd.PureDP(10_000),
        ledger=ledger,
        name="adult",
    )


@pytest.mark.parametrize("unit", ["row", sd.PrivacyUnit("id", max_rows=4)])
def test_the_ledger_is_charged_exactly_the_amplified_cost(unit: Any, tmp_path: Path) -> None:
    curator = curator_of(unit=unit, ledger=tmp_path / "a.ledger", budget=sd.PureDP(1))
    asked = curator.sample("0.1").agg(sd.count())
    expected = Sampled(LaplaceEvent(1), Fraction(1, 10)).pure()
    assert expected is not None
    assert math.log(1 + 0.1 * (math.e - 1)) <= expected <= math.log(1 + 0.1 * (math.e - 1)) * (1 + 1e-11)
    plan = curator.plan(asked, epsilon=1)
    assert plan.cost == sd.PureDP(expected)
    release = curator.ask(plan)
    assert release.cost == curator.spent == sd.PureDP(expected)
    assert isinstance(release.event, Sampled)
    assert sd.Release.from_dict(release.to_dict()) == release


def test_delta_and_rho_are_charged_by_their_own_theorems() -> None:
    pair = curator_of(budget=sd.ApproxDP(10, 1e-3))
    text = "SELECT id, COUNT(*) AS n FROM adult TABLESAMPLE BERNOULLI (50 PERCENT) GROUP BY id"
    keys = pair.plan(sd.sql(text), epsilon=1, delta=1e-6)
    assert keys.cost.delta == Fraction(1, 2 * 10**6)
    assert keys.cost.epsilon < 1
    rho = curator_of(budget=sd.ZCDP(10, 1e-6)).plan(
        sd.sql("SELECT COUNT(*) FROM adult TABLESAMPLE BERNOULLI (50%)"), rho=1
    )
    assert rho.cost.rho == 1  # no better bound on rho itself is known; the event tells Renyi bounds


def test_python_and_sql_ask_the_same_and_a_whole_sample_costs_the_whole() -> None:
    curator = curator_of()
    text = "SELECT COUNT(*) AS count FROM adult TABLESAMPLE BERNOULLI (25 PERCENT) WHERE age > 30"
    asked = curator.sample(0.25).where(col("age") > 30).agg(sd.count())
    assert curator.plan(sd.sql(text), epsilon=1).identity() == curator.plan(asked, epsilon=1).identity()
    whole = curator.plan(sd.sql("SELECT COUNT(*) FROM adult TABLESAMPLE BERNOULLI (100 PERCENT)"), epsilon=1)
    assert whole.cost == sd.PureDP(1)


def test_answers_are_of_the_sample_and_say_so() -> None:
    """Rate 1/10 of 20,000: the sample's size has deviation 42; 250 off has chance below 1e-8."""
    release = curator_of().ask(
        sd.sql("SELECT COUNT(*) AS n, AVG(age) AS a FROM adult TABLESAMPLE BERNOULLI (10 PERCENT)"), epsilon=100
    )
    assert abs(release.rows[0]["n"] - 2000) < 250
    assert abs(release.rows[0]["a"] - 49.5) < 4
    assert "of a sample of 10%" in release.question
    assert "not scaled" in release.notes[0]
    assert "epsilon 100 on the sample" in release.notes[0]


def test_each_question_draws_a_sample_of_its_own() -> None:
    """Six samples of 5,000 units at 1/2: each within 250 of 2,500, which fails with chance below 1e-11 each."""
    curator = curator_of(unit=sd.PrivacyUnit("id", max_rows=1), budget=sd.PureDP(10**6))
    asked = sd.sql("SELECT COUNT(*) AS n FROM adult TABLESAMPLE BERNOULLI (50 PERCENT)")
    sizes = {curator.ask(asked, epsilon=2000).value for _ in range(6)}
    assert len(sizes) > 1
    assert all(abs(n - 2500) < 250 for n in sizes)


def test_all_scans_of_one_question_read_one_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """Amplification is of the whole question: a median beside a sum must not see two samples."""
    kept, ran = DuckDBEngine.sample, DuckDBEngine.run
    drawn, scanned = [], []

    def sample(self: Any, **how: Any) -> Any:
        drawn.append(how["threshold"])
        return kept(self, **how)

    def run(self: Any, statement: Any) -> Any:
        scanned.append("sordino_sample_0" in statement.text)
        return ran(self, statement)

    monkeypatch.setattr(DuckDBEngine, "sample", sample)
    monkeypatch.setattr(DuckDBEngine, "run", run)
    curator = curator_of()
    curator.ask(curator.sample(0.5).agg(sd.sum("age"), quantile(col("age") * 20_000, 0.5)), epsilon=20)
    assert drawn == [2**63]
    assert len(scanned) >= 2
    assert all(scanned)


@pytest.mark.parametrize("samples", [8, pytest.param(200, marks=pytest.mark.deep)])
def test_every_draw_of_the_curator_is_at_its_rate(samples: int) -> None:
    """Of n samples of 5,000 units at 1/5 the sum is binomial of variance 800 n; beyond 4.5 deviations has chance 7e-6."""
    curator = curator_of(unit=sd.PrivacyUnit("id", max_rows=1))
    rows, rng, total = data_access_of(curator), sd.Rng.seeded(11), 0
    question = curator.plan(sd.count(), epsilon=1).procedure.compiled
    for _ in range(samples):
        with rows.sample(Fraction(1, 5), rng) as drawn:
            total += drawn.run(drawn.write(question.select(drawn.primitives())))["t0"][0].as_py()
    assert abs(total - 1_000 * samples) < 4.5 * math.sqrt(800 * samples)


REFUSED = [
    ("replace", "SELECT COUNT(*) FROM adult TABLESAMPLE BERNOULLI (10 PERCENT)", "add_remove only"),
    ("add_remove", "SELECT COUNT(*) FROM adult TABLESAMPLE BERNOULLI (0 PERCENT)", "above 0"),
    ("add_remove", "SELECT COUNT(*) FROM adult TABLESAMPLE BERNOULLI (0.00000001 PERCENT)", "must lie between"),
    ("add_remove", "SELECT COUNT(*) FROM adult TABLESAMPLE SYSTEM (10 PERCENT)", "BERNOULLI"),
    ("add_remove", "SELECT COUNT(*) FROM adult TABLESAMPLE RESERVOIR (10 ROWS)", "BERNOULLI"),
]


@pytest.mark.parametrize(("neighbors", "text", "message"), REFUSED)
def test_other_samples_are_refused_and_spend_nothing(neighbors: str, text: str, message: str) -> None:
    curator = curator_of(neighbors=neighbors)
    with pytest.raises(QuestionRefused, match=message):
        curator.ask(sd.sql(text), epsilon=1)
    assert curator.spent == sd.PureDP(0)


@pytest.mark.parametrize("rate", [0, -1, 1.5, "2"])
def test_a_rate_out_of_range_is_refused(rate: Any) -> None:
    with pytest.raises(QuestionRefused, match="rate must lie above 0"):
        curator_of().sample(rate)


def test_a_sample_that_cannot_be_drawn_is_charged_and_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    curator = curator_of()
    monkeypatch.setattr("sordino.ask.engines.sampled.coin_sql", lambda *_, **__: "broken")
    monkeypatch.setattr("sordino.ask.engines.duckdb.coin_sql", lambda *_, **__: "no_such_function(?)")
    with pytest.raises(ChargedError) as refusal:
        curator.ask(curator.sample(0.5).agg(sd.count()), epsilon=1)
    assert "no_such_function" not in str(refusal.value)
    assert curator.spent == sd.PureDP(Sampled(LaplaceEvent(1), Fraction(1, 2)).pure() or 0)


def test_a_sample_of_a_csv_joins_public_tables_like_the_whole(tmp_path: Path) -> None:
    """Rate 1/2 of 4,000 rows, two public rows each: 4,000 joined rows, of deviation 64; 450 off has chance below 1e-11."""
    path = tmp_path / "people.csv"
    path.write_text("state,age\n" + "".join(f" {'NY' if i % 2 else 'CA'} ,{i % 50}\n" for i in range(4000)))
    curator = protect(
        path,
        sd.Domain({"state": sd.Category(["NY", "CA"]), "age": sd.Integer(0, 99)}),
        budget=sd.PureDP(10_000),
        seed=5,
        csv=sd.Csv(header=True),
        public={
            "regions": public(
                pa.table({"state": ["NY", "CA", "NY", "CA"], "size": [1, 2, 3, 4]}),
                key="state",
                max_rows=2,
                columns=sd.Domain({"state": sd.Identifier(), "size": sd.Integer(0, 9)}),
            )
        },
    )
    text = "SELECT COUNT(*) AS n FROM people TABLESAMPLE BERNOULLI (50 PERCENT) JOIN regions USING (state)"
    release = curator.ask(sd.sql(text), epsilon=200)
    assert abs(release.value - 4000) < 450
    assert (
        curator.plan(curator.sample("1/2").join("regions", on="state").agg(sd.count()), epsilon=200).cost
        == release.cost
    )
    assert "joined with regions by state, of a sample of 50%" in release.question
