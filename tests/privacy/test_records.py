"""Every kind of release is on record as it was: cost, plan and ledger agree under each cap, and a new process reads it all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import sordino as sd
from privacy import units
from privacy.test_response_class import CALLS, UNIT, table
from privacy.units import S
from sordino import col
from sordino.cli.main import main
from sordino.errors import SordinoError
from sordino.reporting import board

CAPS: dict[str, tuple[Any, list[dict[str, Any]]]] = {
    "epsilon": (sd.PureDP(50), [{"epsilon": "1/3"}]),
    "pair": (sd.ApproxDP(50, "1e-3"), [{"epsilon": "1/3"}, {"epsilon": 1, "delta": "1e-6"}]),
    "rho": (sd.ZCDP(50), [{"rho": "1/7"}, {"epsilon": "1/3"}, {"epsilon": 1, "delta": "1e-6"}]),
    "rho and delta": (sd.ZCDP(50, "1e-6"), [{"rho": "1/7"}, {"epsilon": "1/3"}]),
}
QUESTIONS: dict[str, Any] = {
    "median": sd.median("r"),
    "quantiles by group": S.group_by("c").agg(sd.quantiles("i", [0.1, 0.5, 0.9])),
    "mixed": S.group_by("t").agg(sd.count(), sd.median("i"), sd.variance("r"), sd.iqr("i")),
    "spread": [sd.variance("i"), sd.std("r"), sd.covariance("i", "j"), sd.correlation("i", "r")],
    "distinct": [sd.count_distinct("id"), sd.count_distinct("town"), sd.count_distinct("c")],
    "most common": sd.most_common("c"),
    "having": S.group_by("c").agg(sd.count()).having(col("count") > 3).order_by(-col("count")),
    "joined": units.QUESTIONS["joined"],
    "private": S.group_by("town").agg(sd.count(), sd.mean("i")),
}


@pytest.mark.attack(
    "get an answer that costs more than its price",
    source="seen in SmartNoise: a count cost twice its epsilon, an average three times",
)
@pytest.mark.parametrize(
    ("relation", "each"),
    [("replace", 3), *(pytest.param(relation, 1, marks=pytest.mark.deep) for relation in ("add_remove", "replace"))],
)
@pytest.mark.parametrize(
    "cap", [cap if cap in ("pair", "rho and delta") else pytest.param(cap, marks=pytest.mark.deep) for cap in CAPS]
)
def test_what_is_charged_is_what_the_plan_said_under_every_cap(cap: str, relation: str, each: int) -> None:
    """Questions and losses in turn, or every pair of them."""
    budget, losses = CAPS[cap]
    one = units.protect(table(), unit=UNIT, relation=relation, budget=budget)
    for place, (name, question) in enumerate(QUESTIONS.items()):
        for loss in losses[place % each :: each] or losses[:1]:
            try:
                plan = one.plan(question, **loss)
            except SordinoError:
                assert name == "private", (name, loss)
                continue
            before = one.spent.amounts()
            release = one.ask(plan)
            after = one.spent.amounts()
            assert plan.cost.amounts() == release.cost.amounts()
            for n, amount in plan.cost.amounts().items():  # exactly, but that sums past sixty decimals are rounded up
                assert 0 <= after[n] - before[n] - amount <= Fraction(1, 10**60)
            for n, amount in plan.cost.amounts().items():
                assert amount <= Fraction(str(loss.get(n, 50)))
            assert release.event == plan.event
            assert sd.Release.from_dict(json.loads(json.dumps(release.to_dict()))) == release


_READ = """
import json, sys
from sordino.core.ledger.ledger import Ledger
from sordino.core.accounting.composition import tight
from sordino.core.accounting.event_fields import event_from_dict, event_to_dict
from sordino.core.loss import ApproxDP
charges = Ledger.open(sys.argv[1], cap=ApproxDP(100, "0.1")).charges()
for c in charges:
    assert event_to_dict(event_from_dict(c.event)) == c.event
print(len(charges), tight(charges, 1e-3).epsilon > 0)
"""
TOML = """
[budgets.main]
cap = {{epsilon = 100, delta = 0.1}}
ledger = "main.ledger"
[tables.data]
source = "data.parquet"
budget = "main"
neighbors = "add_remove"
privacy_unit = {{column = "id", max_rows = 2, max_groups = 1}}
[tables.data.columns]
{columns}
"""
COLUMNS = """
id = {type = "identifier"}
i = {type = "integer", lower = -3, upper = 2}
j = {type = "integer", lower = 0, upper = 4, missing = {fill = 1}}
k = {type = "integer", lower = 2, upper = 4, missing = "keep"}
free = {type = "integer"}
r = {type = "real", lower = -1, upper = 2, resolution = 0.5}
open = {type = "real"}
c = {type = "category", values = ["a", "b"], missing = "keep"}
e = {type = "category", values = ["x", "y", "z"], other = "z"}
t = {type = "boolean"}
d = {type = "date", lower = "1999-12-30", upper = "2000-01-05", missing = "keep"}
town = {type = "identifier"}
"""
RECORDED = ["quantiles", "spread", "private keys", "having", "most common", "bounds sparse", "caps", "batch"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose ledger holds a release of every new kind."""
    for name in ("NO_COLOR", "FORCE_COLOR", "SORDINO_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    pq.write_table(table(), tmp_path / "data.parquet")
    (tmp_path / "sordino.toml").write_text(TOML.format(columns=COLUMNS))
    return tmp_path


@pytest.mark.parametrize("drawn", [False, pytest.param(True, marks=pytest.mark.deep)], ids=["text", "pictures"])
def test_every_kind_of_release_is_shown_again_by_the_command_line_and_a_new_process(
    project: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, drawn: bool
) -> None:
    if not drawn:
        monkeypatch.setattr(board, "svg_drawer", lambda: None)
    held = sd.connect(project / "sordino.toml").table("data")
    told = {name: CALLS[name](held) for name in list(RECORDED)[:: 1 if drawn else 4]}
    empty = held.ask(S.group_by("town").agg(sd.count()), epsilon="1e-3", delta="1e-9")
    assert empty.rows == []
    again = sd.connect(project / "sordino.toml").table("data")
    for release in [*told.values(), empty]:
        assert again.release(release.charge) == release
        assert release.question in again.explain(release.charge)
        for how in ("json",):
            assert main(["show", release.charge, "--format", how]) == 0, (release.question, how)
    for release in [*told.values()][::2]:
        assert main(["explain", release.charge]) == 0, release.question
    for command in (
        ["budget"],
        ["budget", "--tight", "--delta", "1e-3"],
        ["budget", "--tight", "--delta", "1e-3", "--format", "json"],
        ["releases"],
        ["releases", "--format", "json"],
        ["ledger", "verify"],
        ["report", "--output", "page.html"],
    ):
        assert main(command) == 0, (command, capfd.readouterr().err)
    said = capfd.readouterr()
    assert "Traceback" not in said.out + said.err
    done = subprocess.run(
        [sys.executable, "-c", _READ, str(project / "main.ledger")],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[1] == "True"
