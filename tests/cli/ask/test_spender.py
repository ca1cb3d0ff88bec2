"""`--spender`: a share of the budget on the command line, and where shares are shown."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

import sordino as sd
from cli.support import Run, read_json

COUNT = "SELECT COUNT(*) AS n FROM people"


@pytest.fixture
def shared(census: Path) -> Path:
    path = census / "sordino.toml"
    path.write_text(path.read_text() + "\n[budgets.people.shares]\nresearch = {epsilon = 0.5}\n")
    return census


@pytest.mark.usefixtures("shared")
def test_a_spender_is_charged_to_its_share(run: Run) -> None:
    planned = run("plan", COUNT, "--epsilon", "0.6", "--spender", "research").out
    assert "epsilon 0.5 left to research" in planned
    assert "not enough for this" in planned
    done = run("ask", COUNT, "--epsilon", "0.3", "--spender", "research")
    assert "left: 0.2 of 0.5 of the share of research" in done.out
    refused = run("ask", COUNT, "--epsilon", "0.3", "--spender", "research")
    assert (refused.code, "the share of 'research' does not cover this" in refused.err) == (4, True)
    assert run("bounds", "age", "--epsilon", "0.1", "--spender", "research").code == 0
    assert run("ask", COUNT, "--epsilon", "0.3").code == 0
    unknown = run("ask", COUNT, "--epsilon", "0.1", "--spender", "reserch")
    assert (unknown.code, "did you mean 'research'" in unknown.err) == (3, True)
    assert "research epsilon 0.4 spent of a share of 0.5, 0.1 left" in run("budget").out
    status = read_json(run("budget", "--format", "json"))["budgets"][0]
    assert (status["spent"], status["shares"]["research"]["spent"]) == ({"epsilon": 0.7}, {"epsilon": 0.4})
    rows = list(csv.DictReader(io.StringIO(run("budget", "--format", "csv").out)))
    assert [(r["spender"], r["spent"], r["charges"]) for r in rows] == [("", "0.7", "3"), ("research", "0.4", "")]
    assert "research has spent epsilon 0.4 of a share of epsilon 0.5" in " ".join(run("ledger", "verify").out.split())


@pytest.mark.deep
@pytest.mark.usefixtures("shared")
def test_releases_and_the_report_name_the_spender(run: Run) -> None:
    run("ask", COUNT, "--epsilon", "0.1")
    assert "spender" not in run("releases").out
    run("ask", COUNT, "--epsilon", "0.1", "--spender", "research")
    head, first, second, *_ = run("releases").out.splitlines()
    assert (head.split()[4], "research" in first, "research" in second) == ("spender", False, True)
    listed = read_json(run("releases", "--format", "json"))["releases"]
    assert [r["spender"] for r in listed] == [None, "research"]
    rows = list(csv.DictReader(io.StringIO(run("releases", "--format", "csv").out)))
    assert [r["spender"] for r in rows] == ["", "research"]
    run("report", "-o", "board.html")
    assert "research has spent epsilon 0.1 of a share of epsilon 0.5" in Path("board.html").read_text()


@pytest.mark.usefixtures("shared")
def test_a_cap_below_a_share_is_not_written(run: Run) -> None:
    text = Path("sordino.toml").read_text()
    flags = ["--attacker-prior", "0.5", "--max-posterior", "0.55", "--write"]
    done = run("epsilon", "choose", *flags)
    assert done.code == 2
    assert "declares a share of epsilon 0.5 for 'research'" in done.err
    assert Path("sordino.toml").read_text() == text


def test_a_changed_share_is_amended(run: Run, shared: Path) -> None:
    run("ask", COUNT, "--epsilon", "0.1", "--spender", "research")
    path = shared / "sordino.toml"
    path.write_text(path.read_text().replace("research = {epsilon = 0.5}", "research = {epsilon = 0.25}"))
    assert run("ask", COUNT, "--epsilon", "0.1", "--spender", "research").code == 2
    assert "the project file states a share of epsilon 0.25" in " ".join(run("budget").out.split())
    assert "share of research: epsilon 0.5 -> epsilon 0.25" in run("ledger", "amend", "--reason", "less").out
    assert "left: 0.05 of 0.25" in run("ask", COUNT, "--epsilon", "0.1", "--spender", "research").out


def test_a_share_that_the_server_gave_is_spent_here_too(census: Path, run: Run) -> None:
    project = (census / "sordino.toml").read_text()
    (census / "sordino.toml").write_text(f"{project}\n[serve]\n")
    assert run("serve", "account", "share", "rac", "--epsilon", "0.5").code == 0
    done = run("ask", COUNT, "--epsilon", "0.3", "--spender", "rac")
    assert "left: 0.2 of 0.5 of the share of rac" in done.out, done.err
    assert sd.connect(str(census / "sordino.toml"), spender="rac").table("people").remaining == sd.PureDP("0.2")
    assert run("ask", COUNT, "--epsilon", "0.3", "--spender", "rac").code == 4
    assert run("ask", COUNT, "--epsilon", "0.1", "--spender", "nobody").code == 3
