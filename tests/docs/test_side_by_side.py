"""The page of Sordino beside other libraries says what its results say, and our own column of it can be measured again."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from argparse import Namespace
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow.parquet as pq
import pytest

from places import ROOT


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    spec = importlib.util.spec_from_file_location("side_by_side", ROOT / "bench" / "peers" / "side_by_side.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "side_by_side", module)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_that_of_its_results(bench: ModuleType) -> None:
    results = json.loads(bench.RESULTS.read_text(encoding="utf-8"))
    assert bench.PAGE.read_text(encoding="utf-8") == bench.side_by_side_page.page(results)


@pytest.mark.deep
def test_our_side_answers_every_question(bench: ModuleType, tmp_path: Path) -> None:
    at = bench.Bench(Namespace(venvs=tmp_path, limit=60), tmp_path)
    path = at.census(1000)
    table = pq.read_table(path)
    assert table.num_rows == 1000
    columns = {n: table[n].to_numpy(zero_copy_only=False) for n in table.column_names}
    with at.start(bench.OURS) as ours:
        assert ours.open(**at.opening(path, "replace"))["cpu"] > 0
        for name, question in bench.QUESTIONS.items():
            answers = ours.ask("ask", epsilon=1.0, **question, times=2, limit=30, values=True)
            exact = bench.peer_errors.exact_answer(columns, question)
            found = bench.peer_errors.summary(answers, exact, columns[question["column"]])
            # a Laplace law of the textbook's error is further off with chance e^-35; ours is as wide at most
            assert found["rmse"] < 25 * bench.peer_errors.theory(columns, question, "replace"), name
            assert found["times"] == 2


def test_bounds_that_attacks_and_theory_rest_on(bench: ModuleType) -> None:
    attacks, figures = bench.peer_attacks, bench.peer_figures
    assert attacks.binomial_upper(0, 100, 0.05) == pytest.approx(1 - 0.05 ** (1 / 100))
    assert attacks.binomial_upper(3, 20, 0.025) == pytest.approx(
        0.378927, abs=1e-6
    )  # Clopper-Pearson of 3 in 20 at 95%
    assert figures.exact_gaussian(1 / 2.230476271192241) == pytest.approx(2, abs=1e-9)  # Balle, Wang 2018: (2, 1e-6)
    seen = np.array([True] * 1000), np.array([False] * 1000)
    assert attacks.shown_epsilon(*seen, alpha=0.05) == pytest.approx(
        np.log(0.025 ** (1 / 1000) / (1 - 0.025 ** (1 / 1000)))
    )
    assert attacks.shown_epsilon(seen[0], seen[0], alpha=0.05) < 0.01


@pytest.mark.deep
def test_a_library_that_was_stopped_answers_the_next_question(bench: ModuleType, tmp_path: Path) -> None:
    at = bench.Bench(Namespace(venvs=tmp_path, limit=3), tmp_path)
    question = {"epsilon": 1.0, **bench.QUESTIONS["count"], "limit": 3600, "values": True}
    with at.start(bench.OURS) as ours:
        ours.open(**at.opening(at.census(1000), "add_remove"))
        stopped = ours.ask("ask", **question, times=10**7)
        assert stopped["error"] == "stopped"
        assert re.fullmatch(r"over 3 s \(\d+ s of the processor\)", stopped["says"])
        assert ours.peak > 10  # megabytes, read before it was stopped
        assert ours.ask("ask", **question, times=1)["error"] == "ended"
        ours.revive()
        assert len(ours.ask("ask", **question, times=1)["values"]) == 1


def test_a_stopped_library_is_not_said_to_lack_what_it_was_not_asked(bench: ModuleType) -> None:
    page = bench.side_by_side_page
    assert page._cost({"none": {"no": "has no group-by"}}) == "no"
    assert page._cost({"none": {"error": "stopped", "says": "over 60 s"}}) == "over 60 s"
    assert page._cost({"none": {"error": "TypeError", "says": ""}}) == "raises TypeError"
    assert page._share({"coverage": 0.9, "intervals": 29}) == "too few"
    assert page._share({"coverage": 0.9, "intervals": 30}) == "0.900"
    assert page._share({"rmse": 1.0, "times": 500}) == "no"


def test_nothing_is_said_of_an_attack_that_was_not_run(bench: ModuleType) -> None:
    found = {"sordino": {"poison": {"changed": {}}}, "tumult": {"seeds": {"succeeds": False}}}
    says = "\n".join(bench.side_by_side_page._raising(found, ["sordino", "tumult"]))
    assert "Sordino: nothing." in says
    assert "Tumult" not in says
