"""Models of far tables: fitted by the server, charged once, and the very models that are made beside the table."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sordino as sd
from far import far_project
from sordino.errors import BudgetExhausted, DeclarationChanged, QuestionRefused, UnknownName
from sordino.serve.remote.transport import PendingApproval

FITS: dict[str, Callable[[Any], Any]] = {
    "auto": lambda table: sd.synth.fit(table, epsilon=1),
    "independent columns": lambda table: sd.synth.Independent(["age"]).fit(table, epsilon=1),
    "MST": lambda table: sd.synth.MST().fit(table, epsilon=1),
    "Marginals": lambda table: sd.synth.Marginals([("age", "sex")]).fit(table, epsilon=1),
}


def test_every_method_gives_a_model_of_its_own_kind_charged_once(tmp_path: Path) -> None:
    with far_project(tmp_path, epsilon="9") as (server, url), sd.connect(url, token=server.tokens["rich"]) as far:
        table: Any = far.table()
        for name, fit in FITS.items():
            before = table.remaining
            model = fit(table)
            assert before.epsilon - table.remaining.epsilon == 1
            assert model.facts["table"] == "people"
            assert name == "auto" or name in f"{model.facts['method']} {model.facts['tier']}"
            assert len(model.sample(5)) == 5
            # the total of MST errs by 40 (one standard deviation), that of the others by less
            assert model.answer(sd.count()).value == pytest.approx(1000, abs=300)
        stages: list[str] = []
        asked: dict[str, Any] = {"never": ["age < 50 AND sex = 'f'"], "epsilon": 1, "request_id": "once"}
        first = table.fit_model("mst", watch=lambda stage, _: stages.append(stage), **asked)
        left = table.remaining
        again = table.fit_model("mst", **asked)
        assert table.remaining == left
        assert first.to_bytes() == again.to_bytes()
        # noise may draw a missing cell, which is no number and breaks no rule
        rows = [row for row in first.sample(500).to_pylist() if row["age"] is not None]
        assert not [row for row in rows if row["sex"] == "f" and row["age"] < 50]


def test_models_that_predict_are_fitted_there_and_are_local_ones(tmp_path: Path) -> None:
    with far_project(tmp_path, epsilon="9") as (server, url), sd.connect(url, token=server.tokens["rich"]) as far:
        table: Any = far.table()
        before = table.remaining
        clusters = sd.models.kmeans(table, columns=["age"], clusters=2, epsilon=1)
        assert clusters.centers.shape == (2, 1)
        again = [
            table.fit_prediction("naive_bayes", y="sex", x=["age"], epsilon=1, request_id="once") for _ in range(2)
        ]
        assert again[0].to_dict() == again[1].to_dict()
        assert before.epsilon - table.remaining.epsilon == 2
        assert clusters.provenance.table == "people"
        with pytest.raises(QuestionRefused, match="bits of its own"):
            sd.models.kmeans(table, columns=["age"], clusters=2, rng=sd.Rng.seeded(1), epsilon=1)


def test_models_of_a_table_whose_calls_are_awaited_are_fitted_by_its_own_call(tmp_path: Path) -> None:
    async def fit(url: str, token: str) -> tuple[Any, Any, Any]:
        async with sd.connect_async(url, token=token) as far:
            table: Any = far.table()
            before = await table.remaining()
            arguments: dict[str, Any] = {"y": "sex", "x": ["age"], "epsilon": 1}
            for call in (
                lambda: sd.models.kmeans(table, columns=["age"], clusters=2, epsilon=1),
                lambda: sd.models.logistic_regression(table, **arguments),
                lambda: sd.models.plan("naive_bayes", table, **arguments),
                lambda: sd.models.choose(["naive_bayes", "decision_tree"], table, validate=4, **arguments),
            ):
                with pytest.raises(QuestionRefused, match=r"await table\.fit_prediction"):
                    call()
            assert await table.remaining() == before
            return before, await table.fit_prediction("naive_bayes", **arguments), await table.remaining()

    with far_project(tmp_path, epsilon="9") as (server, url):
        before, model, left = asyncio.run(fit(url, server.tokens["rich"]))
        assert before.epsilon - left.epsilon == 1
        assert model.classes == ("f", "m")
        assert model.predict_proba({"age": [30, 50]}).shape == (2, 2)


def test_refusals_are_those_of_a_local_fit_and_cost_nothing(tmp_path: Path) -> None:
    with far_project(tmp_path) as (server, url), sd.connect(url, token=server.tokens["ana"]) as far:
        table = far.table()
        before = table.remaining
        with pytest.raises(UnknownName):
            sd.synth.fit(table, columns=["height"], epsilon=1)
        with pytest.raises(BudgetExhausted):
            sd.synth.fit(table, epsilon=99)
        with pytest.raises(QuestionRefused, match="bits of its own"):
            sd.synth.Tree().fit(table, epsilon=1, rng=sd.Rng.seeded(1))
        with pytest.raises(QuestionRefused, match="constraints as text"):
            sd.synth.MST(constraints=[sd.synth.never(sd.col("age") < 5)]).fit(table, epsilon=1)
        far._asked.tables["people"]["declaration"] = "another"
        with pytest.raises(DeclarationChanged, match="refresh"):
            sd.synth.fit(table, epsilon=1)
        far.refresh()
        assert table.remaining == before


def test_a_fit_waits_for_the_officer_also_in_an_event_loop(tmp_path: Path) -> None:
    async def fit(url: str, token: str) -> Any:
        async with sd.connect_async(url, token=token) as far:
            table = far.table()
            with pytest.raises(PendingApproval) as waiting:
                await table.fit_model("independent", epsilon=1)
            where, decision = f"/v1/approvals/{waiting.value.approval}", {"decision": "approved"}
            done = await asyncio.to_thread(lambda: server.send("POST", where, who="ola", json=decision))
            assert done.status_code == 200
            return await waiting.value.wait(timeout=300, every=0.05)

    with far_project(tmp_path, serve="approve_above = {epsilon = 0.5}") as (server, url):
        model = asyncio.run(fit(url, server.tokens["ana"]))
        assert model.answer(sd.count()).value == pytest.approx(1000, abs=100)
