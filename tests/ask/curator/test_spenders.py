"""A spender's share of a budget: declared in the project file, spent by a connection or a command, shown everywhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from ask.curator.support import DOMAIN, TABLE
from sordino.errors import BudgetExhausted, DeclarationChanged, DeclarationError, UnknownName
from sordino.reporting import board

PROJECT = """
[budgets.people]
cap = {epsilon = 2.0}
ledger = "people.ledger"
[budgets.people.shares]
research = {epsilon = 0.5}
teaching = {epsilon = "5/3"}

[tables.people]
source = "people.parquet"
budget = "people"
neighbors = "add_remove"
privacy_unit = "row"
columns.age = {type = "integer", lower = 0, upper = 125}
"""


def board_words(project: Path) -> str:
    """Return the board's page without its pictures, which take half a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(board, "svg_drawer", lambda: None)
        return sd.connect(project).report()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    pq.write_table(pa.table({"age": [20, 30, 40, 50] * 50}), tmp_path / "people.parquet")
    path = tmp_path / "sordino.toml"
    path.write_text(PROJECT)
    return path


def test_a_spender_spends_its_share_and_the_budget(project: Path) -> None:
    research = sd.connect(project, spender="research").table("people")
    whole = sd.connect(project).table("people")
    assert (research.spender, whole.spender) == ("research", None)
    assert (research.spent, research.remaining) == (sd.PureDP(0), sd.PureDP("0.5"))
    release = research.ask(sd.count(), epsilon="0.3")
    assert (release.spender, release.spent, release.remaining) == ("research", sd.PureDP("0.3"), sd.PureDP("0.2"))
    assert "left of the share of research: epsilon 0.2 of epsilon 0.5" in release.summary()
    assert sd.Release.from_dict(release.to_dict()).to_dict() == release.to_dict()
    assert (research.remaining, whole.spent) == (sd.PureDP("0.2"), sd.PureDP("0.3"))
    with pytest.raises(BudgetExhausted, match="the share of 'research' does not cover this"):
        research.ask(sd.count(), epsilon="0.3")
    with pytest.raises(BudgetExhausted, match="nothing was charged"):
        research.ask(research.plan([research.agg(sd.count()), research.agg(sd.sum("age"))], epsilon="0.3"))
    whole.ask(sd.count(), epsilon="1.6")
    assert research.remaining == sd.PureDP("0.1")  # the budget leaves less than the share
    plain = whole.ask(sd.count(), epsilon="0.05")
    assert (plain.spender, "spender" in plain.to_dict()) == (None, False)
    assert whole.remaining == sd.PureDP("0.05")


def test_everything_that_is_charged_counts_against_the_share(project: Path) -> None:
    held = sd.connect(project, spender="teaching").table("people")
    held.find_bounds("age", epsilon="0.25")
    with held.above_threshold(count=1, epsilon="0.25") as session:
        session.above(sd.count(), threshold=10)
    sd.synth.fit(held, epsilon="0.5")
    held.ask(held.plan(sd.sql("SELECT COUNT(*) FROM people; SELECT SUM(age) FROM people"), epsilon="0.25"))
    assert held.spent == sd.PureDP("5/4") == held.ledger.shares()["teaching"].spent
    assert {c.spender for c in held.ledger.charges()} == {"teaching"}
    assert held.ledger.verify().spent == sd.PureDP("5/4")


def test_shares_are_shown_before_and_after_they_are_spent(project: Path) -> None:
    (status,) = sd.connect(project).budgets()
    assert {who: (s.cap, s.spent) for who, s in status.shares.items()} == {
        "research": (sd.PureDP("0.5"), sd.PureDP(0)),
        "teaching": (sd.PureDP("5/3"), sd.PureDP(0)),
    }
    sd.connect(project, spender="research").table().ask(sd.count(), epsilon="0.1")
    (status,) = sd.connect(project).budgets()
    assert status.to_dict()["shares"]["research"] == {
        "cap": {"epsilon": 0.5},
        "spent": {"epsilon": 0.1},
        "remaining": {"epsilon": 0.4},
    }
    page = board_words(project)
    assert "research has spent epsilon 0.1 of a share of epsilon 0.5." in page
    assert "teaching has spent epsilon 0 of a share of epsilon 5/3." in page


@pytest.mark.deep
def test_a_changed_share_is_amended_with_a_reason(project: Path) -> None:
    sd.connect(project, spender="research").table().ask(sd.count(), epsilon="0.4")
    project.write_text(PROJECT.replace("research = {epsilon = 0.5}", "research = {epsilon = 0.7}"))
    with pytest.raises(DeclarationChanged, match=r"a share of epsilon 0.5 for 'research', not epsilon 0.7.*amend"):
        sd.connect(project, spender="research").table()
    sd.connect(project).table().ask(sd.count(), epsilon="0.1")  # who names no spender is not concerned
    changed = sd.connect(project).amend(reason="the board agreed")
    assert changed == ["share of research: epsilon 0.5 -> epsilon 0.7"]
    held = sd.connect(project, spender="research").table()
    assert held.remaining == sd.PureDP("0.3")
    assert "the share of research is now epsilon 7/10" in board_words(project)
    project.write_text(PROJECT.replace("research = {epsilon = 0.5}", "research = {epsilon = 0.3}"))
    with pytest.raises(DeclarationError, match="below what was spent"):
        sd.connect(project).amend(reason="less")
    project.write_text(PROJECT.replace("research = {epsilon = 0.5}\n", ""))
    # The ledger still has the share, as one that a server gave.
    assert sd.connect(project, spender="research").table().remaining == sd.PureDP("0.3")
    assert sd.connect(project).budgets()[0].shares["research"].spent == sd.PureDP("0.4")


@pytest.mark.parametrize(
    ("share", "message"),
    [
        ("{epsilon = 2.5}", "larger than the cap"),
        ("{rho = 0.5}", "of the cap's kind: {epsilon = ...}"),
        ("{epsilon = 0.5, delta = 1e-6}", "of the cap's kind"),
        ("{epsilon = 0}", "above 0"),
        ("{epsilon = -1}", "above 0"),
        ("{epsilon = true}", "a number"),
        ("{epsilonn = 1}", "did you mean 'epsilon'"),
        ("0.5", "a table"),
        ("{}", "of the cap's kind"),
    ],
)
def test_a_bad_share_is_refused_at_its_place(project: Path, share: str, message: str) -> None:
    project.write_text(PROJECT.replace("{epsilon = 0.5}", share))
    with pytest.raises(DeclarationError, match=r"sordino.toml:6:\d+: budgets.people.shares.research") as refused:
        sd.connect(project)
    assert message in str(refused.value)


def test_a_share_of_each_kind_of_cap(project: Path) -> None:
    for cap, share, found in (
        ("{epsilon = 1, delta = 1e-6}", "{epsilon = 0.5, delta = 0}", sd.ApproxDP("0.5", 0)),
        ("{rho = 1, delta = 1e-6}", "{rho = 0.5}", sd.ZCDP("0.5")),
    ):
        text = PROJECT.replace("{epsilon = 2.0}", cap).replace("{epsilon = 0.5}", share)
        project.write_text(text.replace('teaching = {epsilon = "5/3"}\n', ""))
        declared = sd.connect(project).project.budget()
        assert declared.share("research").amounts() == found.amounts()


def _protect(tmp_path: Path, **given: Any) -> Any:
    rest: dict[str, Any] = {"budget": sd.PureDP(2), **given}
    return sd.protect(
        TABLE,
        domain=sd.Domain({n: c for n, c in DOMAIN.columns.items() if n != "sure"}),
        neighbors="add_remove",
        privacy_unit="row",
        ledger=tmp_path / "own.ledger",
        **rest,
    )


def test_a_share_is_stated_in_python_too(tmp_path: Path) -> None:
    shares = {"research": sd.PureDP("0.5")}
    held = _protect(tmp_path, shares=shares, spender="research")
    held.ask(sd.count(), epsilon="0.5")
    with pytest.raises(BudgetExhausted, match="share"):
        held.ask(sd.count(), epsilon="0.1")
    larger = {"research": sd.PureDP(1)}
    with pytest.raises(DeclarationChanged):
        _protect(tmp_path, shares=larger, spender="research")
    amended = _protect(tmp_path, shares=larger, spender="research", amend="the board agreed")
    assert amended.remaining == sd.PureDP("0.5")
    for wrong, message in (
        ({"shares": {"research": sd.PureDP(3)}}, "larger than the cap"),
        ({"shares": shares, "spender": "reserch"}, "did you mean 'research'"),
        ({"spender": "research"}, "no share"),
    ):
        with pytest.raises((DeclarationError, UnknownName), match=message):
            _protect(tmp_path, **wrong)


def test_the_answer_on_record_names_the_spender(project: Path) -> None:
    held = sd.connect(project, spender="research").table()
    release = held.ask(sd.count(), epsilon="0.1", request_id="r")
    again = held.ask(sd.count(), epsilon="0.1", request_id="r")
    assert again.to_dict() == release.to_dict()
    assert json.loads(held.ledger.answer(release.charge))["spender"] == "research"
    assert held.spent == sd.PureDP("0.1")
    assert held.ask(sd.count(), epsilon="0.2", on="dummy").practice
