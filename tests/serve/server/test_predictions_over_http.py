"""Regressions, classifiers and clusters over HTTP: a fit is one charge and a job; its card, file and SQL are free."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sordino as sd
from serving import Served, served
from sordino.models.registry import MODELS, arguments_of
from sordino.serve.server.model_service import FIT_SCHEMA

# `sex` is of two values, `age` a number.
FITS: dict[str, dict[str, Any]] = {
    "linear_regression": {"y": "age", "x": ["sex"]},
    "logistic_regression": {"y": "sex", "x": ["age"]},
    "poisson_regression": {"y": "age", "x": ["sex"]},
    "naive_bayes": {"y": "sex", "x": ["age"]},
    "decision_tree": {"y": "sex", "x": ["age"], "depth": 2},
    "boosted_histograms": {"y": "sex", "x": ["age"]},
    "pca": {"columns": ["age"], "components": 1},
    "kmeans": {"columns": ["age"], "clusters": 2},
}


def fit(server: Served, key: str, **body: Any) -> Any:
    return server.send("POST", "/v1/models", headers={"idempotency-key": key}, json={"table": "people"} | body)


def wait_for(server: Served, job: int) -> dict[str, Any]:
    for _ in range(1000):
        state: dict[str, Any] = server.send("GET", f"/v1/jobs/{job}").json()
        if state["state"] != "running":
            return state
        time.sleep(0.02)
    raise AssertionError("the job did not end")


@pytest.mark.each(9)
@pytest.mark.parametrize("name", FITS)
def test_a_fit_is_one_charge_and_its_predictions_are_free(name: str, server: Served, tmp_path: Path) -> None:
    body = {"model": name, "epsilon": "0.4", **FITS[name]}
    begun = fit(server, "k", **body)
    assert begun.status_code == 201, begun.text
    again = fit(server, "k", **body)
    job = wait_for(server, begun.json()["id"])
    assert (again.json()["id"], job["state"]) == (job["id"], "done"), job
    at = f"/v1/models/{job['model']}"
    card = server.send("GET", at).json()
    assert (card["model"], card["charge"], card["cost"]) == (MODELS[name].title, "c-0001", "epsilon 0.4")
    path = tmp_path / "a.model"
    path.write_bytes(server.send("GET", f"{at}/file").content)
    model = sd.models.load(path)
    assert str(model.cost) == str(sd.PureDP("0.4"))
    if hasattr(model, "predict"):
        assert len(np.asarray(model.predict({"age": [30, 40], "sex": ["f", "m"]}))) == 2
    assert server.service.ledger("people").spent() == sd.PureDP("0.4")
    for path_of_rows, sent in (("sample", {"rows": 3}), ("answer", {"sql": "SELECT COUNT(*) AS n FROM model"})):
        refused = server.send("POST", f"{at}/{path_of_rows}", json=sent)
        assert (refused.status_code, "draws no rows" in refused.text) == (422, True)
    listed = server.send("GET", "/v1/models").json()["models"]
    assert [one["charge"] for one in listed] == ["c-0001"]


def test_a_fit_with_held_out_units_is_one_charge(server: Served) -> None:
    begun = fit(server, "k", model="naive_bayes", y="sex", x=["age"], validate=3, epsilon="0.4")
    assert begun.status_code == 201, begun.text
    job = wait_for(server, begun.json()["id"])
    assert job["state"] == "done", job
    card = server.send("GET", f"/v1/models/{job['model']}").json()
    assert any("held-out" in name for name in card["facts"])
    assert card["cost"] == "epsilon 0.4"
    assert [charge.id for charge in server.service.ledger("people").charges()] == ["c-0001"]


def test_every_model_is_offered() -> None:
    # Theil-Sen is of two numbers, and people have one.
    assert {*FITS, "theil_sen"} == set(MODELS)
    words = FIT_SCHEMA["properties"]["model"]["description"]
    taken = {key for name in MODELS for key in arguments_of(name)} - {"rng"}
    assert taken <= set(FIT_SCHEMA["properties"])
    assert all(name in words for name in MODELS)


def test_a_fit_that_is_refused_costs_nothing(server: Served) -> None:
    for more, status in (
        ({"model": "forest"}, 400),
        ({"model": 3}, 400),
        ({"x": ["nope"]}, 422),
        ({"y": "nope"}, 422),
        ({"x": None}, 400),
        ({"depth": 3}, 400),
        ({"x": "sex"}, 400),
        ({"x": [["age", "sex", 3]]}, 400),
        ({"epsilon": None}, 400),
        ({"epsilon": True}, 400),
        ({"assume_rows": 1}, 422),
        ({"method": "magic"}, 400),
    ):
        body = {"model": "linear_regression", "y": "age", "x": ["sex"], "epsilon": "0.1"} | more
        answer = fit(server, "k", **body)
        assert answer.status_code == status, (more, answer.text)
    assert server.service.ledger("people").charges() == []


def test_a_fit_above_the_threshold_waits(tmp_path: Path) -> None:
    with served(tmp_path, serve="approve_above = {epsilon = 0.1}") as server:
        body = {"model": "logistic_regression", "y": "sex", "x": ["age"], "epsilon": "0.4"}
        assert fit(server, "k", **body).status_code == 202
        assert server.service.ledger("people").charges() == []
        (waiting,) = server.send("GET", "/v1/approvals?state=waiting", who="ola").json()["approvals"]
        assert "logistic regression of sex on age" in waiting["question"]
        decision = {"decision": "approved"}
        server.send("POST", f"/v1/approvals/{waiting['id']}", who="ola", json=decision)
        assert wait_for(server, fit(server, "k", **body).json()["id"])["state"] == "done"
