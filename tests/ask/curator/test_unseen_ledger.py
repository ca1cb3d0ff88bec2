"""An older copy of a ledger on a machine that has no mark of it: nothing tells, so plans say that nothing does."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import sordino as sd
from protecting import protect

_DOMAIN = sd.Domain({"n": sd.Integer(0, 9)})


def test_a_plan_says_before_the_charge_that_this_machine_never_saw_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("n\n1\n2\n")
    ledger = tmp_path / "rows.ledger"

    def open_table() -> sd.Curator:
        return protect(path, _DOMAIN, csv=sd.Csv(header=True), ledger=ledger, budget=sd.PureDP(9))

    monkeypatch.setenv("SORDINO_STATE", str(tmp_path / "one"))
    first = open_table()
    assert not first.plan(sd.count(), epsilon=1).unknown
    first.ask(sd.count(), epsilon=1)
    shutil.copy(ledger, tmp_path / "older")
    open_table().ask(sd.count(), epsilon=1)
    shutil.copy(tmp_path / "older", ledger)

    monkeypatch.setenv("SORDINO_STATE", str(tmp_path / "another"))
    again = open_table()
    plan = again.plan(sd.count(), epsilon=1)
    assert "no high-water mark" in plan.unknown
    assert plan.unknown in plan.describe()
    assert plan.unknown in plan.to_dict()["notes"]
    shown: list[sd.Plan] = []
    again.ask(plan, confirm=shown.append)
    assert shown[0].unknown == plan.unknown
    # From then on there is a mark.
    assert not again.plan(sd.count(), epsilon=1).unknown
    assert not protect(path, _DOMAIN, csv=sd.Csv(header=True)).plan(sd.count(), epsilon=1).unknown
