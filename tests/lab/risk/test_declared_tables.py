"""Choosing epsilon as Python calls: for a declared table, and for the possible worlds of public columns."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import sordino as sd
from sordino.ask.project.load import Project, load_project
from sordino.errors import DeclarationError, UnknownName
from sordino.reporting.odds_icons import tradeoff_of
from sordino.reporting.risks import Risks, risks_of
from sordino.risk import assess_risk, choose_for_table

FILE = """
[budgets.people]
cap = {epsilon = 2.0}
ledger = "people.ledger"

[tables.people]
source = "nowhere.parquet"
budget = "people"
neighbors = "add_remove"
privacy_unit = "row"
[tables.people.columns]
age = {type = "integer", lower = 0, upper = 125}
"""
AVERAGE = "SELECT AVG(age) FROM people"


def load(directory: Path, text: str = FILE) -> Project:
    path = directory / "sordino.toml"
    path.write_text(text)
    return load_project(path)


@pytest.mark.deep
def test_an_interval_for_a_declared_table_is_that_of_its_requirements(tmp_path: Path) -> None:
    project = load(tmp_path)
    found = choose_for_table(
        project, query=AVERAGE, error="1/2", rows=32561, attacker_prior=0.5, max_posterior=0.75, questions=1
    )
    wanted = sd.risk.accuracy(
        error=0.5,
        confidence=0.95,
        query=AVERAGE,
        n=32561,
        domain=project.table().domain,
        neighbors="add_remove",
        privacy_unit="row",
    )
    assert found.choice.lower == wanted.lower
    assert found.choice.upper == pytest.approx(math.log(3))
    assert found.to_dict()["noise"].startswith("discrete Laplace noise at pure epsilon")
    change = found.cap_change(tmp_path / "sordino.toml")
    assert float(change.stated["epsilon"]) >= wanted.lower
    assert tradeoff_of(found).least == pytest.approx((wanted.lower, 0.5, 0.506), abs=1e-3)


def test_a_budget_in_rho_is_asked_in_rho(tmp_path: Path) -> None:
    rho = FILE.replace("{epsilon = 2.0}", "{rho = 0.1, delta = 1e-6}")
    found = choose_for_table(load(tmp_path, rho), query=AVERAGE, error=1, rows=3000, delta="1e-6", questions=1)
    assert found.choice.rho is not None
    assert set(found.cap_change(tmp_path / "sordino.toml").stated) >= {"rho", "delta"}


@pytest.mark.deep
@pytest.mark.parametrize("questions", [1, 2, 7])
@pytest.mark.parametrize("cap", ["{epsilon = 2.0}", "{epsilon = 2.0, delta = 1e-5}", "{rho = 0.1, delta = 1e-6}"])
def test_the_losses_of_several_questions_add_up(tmp_path: Path, cap: str, questions: int) -> None:
    """Epsilon and delta by sums, rho by sums at one delta; a test's power is read at the delta of all of them."""
    project = load(tmp_path, FILE.replace("{epsilon = 2.0}", cap))
    more: dict[str, Any] = {"delta": "1e-6"} if "delta" in cap else {}
    asked: dict[str, Any] = {"query": AVERAGE, "error": 1, "rows": 3000, "test_level": 0.05, "max_power": 0.99} | more
    one = choose_for_table(project, **asked).choice
    several = choose_for_table(project, **asked, questions=questions).choice
    assert several.conflict is None
    if "rho" in cap:
        assert one.rho is not None
        assert several.rho is not None
        assert float(several.rho) == pytest.approx(questions * float(one.rho), rel=1e-6)
        assert several.delta == one.delta
    else:
        assert several.lower >= questions * one.lower
        assert several.lower == pytest.approx(questions * one.lower, rel=1e-12)
        assert several.delta == pytest.approx(questions * one.delta)
        if more:
            power = sd.risk.test_power(level=0.05, most=0.99, delta=Fraction(questions, 10**6))
            assert several.upper == power.upper


@pytest.mark.deep
def test_a_conflict_of_several_questions_names_as_many_times_the_rows(tmp_path: Path) -> None:
    project = load(tmp_path)
    asked: dict[str, Any] = {"query": AVERAGE, "error": "1/2", "rows": 30, "attacker_prior": 0.5, "max_posterior": 0.51}
    fewer = choose_for_table(project, **asked)
    many = choose_for_table(project, **asked, questions=7)
    assert fewer.choice.conflict is not None
    assert many.choice.conflict is not None
    least, most = fewer.choice.conflict.smallest_n, many.choice.conflict.smallest_n
    assert least is not None
    assert most is not None
    assert most == pytest.approx(7 * least, rel=0.05)


def test_requirements_by_half_and_other_tables_are_refused(tmp_path: Path) -> None:
    project = load(tmp_path)
    with pytest.raises(DeclarationError, match="state a requirement"):
        choose_for_table(project)
    with pytest.raises(DeclarationError, match=r"query=\.\.\. and error=\.\.\. go together"):
        choose_for_table(project, error=1)
    with pytest.raises(DeclarationError, match="asks table 'cats'"):
        choose_for_table(project, query="SELECT COUNT(*) FROM cats", error=1)
    with pytest.raises(UnknownName, match="did you mean 'people'"):
        choose_for_table(project, "peple", relative_risk=3)
    with pytest.raises(DeclarationError, match="draws on budget 'people'"):
        choose_for_table(project, relative_risk=3).cap_change(tmp_path / "sordino.toml", budget="cats")


def test_a_risk_in_the_worlds_of_columns() -> None:
    columns = {"school": [1, 2, 3, 4], "days": [1, 2, 3, 10]}
    found = assess_risk(columns, size=3, query="mean", risk="1/3", epsilon=2, output="2.20131")
    assert [one.column for one in found] == ["school", "days"]
    assert [one.epsilon for one in found] == pytest.approx([0.525149687269512, 0.43172011956720063])
    assert found[1].to_dict()["at"]["posteriors"][0]["posterior"] == pytest.approx(0.61802372, abs=1e-8)
    drawn = risks_of(found)
    assert isinstance(drawn, list)
    assert [one.column for one in drawn] == ["school", "days"]
    assert isinstance(risks_of(found[:1]), Risks)
