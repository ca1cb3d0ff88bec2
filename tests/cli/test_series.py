"""`sordino series`: opened, released and shown from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.support import Run

PROJECT = """
[budgets.people]
cap = { rho = 2, delta = 1e-6 }
ledger = "people.ledger"

[tables.visits]
source = "visits.csv"
csv = { header = true }
budget = "people"
neighbors = "add_remove"
privacy_unit = "row"
[tables.visits.columns]
day = { type = "date", lower = 2026-01-01, upper = 2027-12-31 }
ward = { type = "category", values = ["a", "b"] }
"""
SQL = "SELECT ward, COUNT(*) AS count FROM visits GROUP BY ward"
OPEN = ("series", "open", "wards", SQL, "--over", "day", "--every", "day", "--rho", "0.5", "--horizon", "365")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "sordino.toml").write_text(PROJECT)
    lines = [f"2026-11-{1 + i % 28:02d},{'ab'[i % 2]}" for i in range(200)]
    (tmp_path / "visits.csv").write_text("\n".join(["day,ward", *lines, ""]))
    monkeypatch.setenv("SORDINO_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("project")
def test_a_plan_costs_nothing(run: Run) -> None:
    shown = run(*OPEN, "--plan")
    assert shown.code == 0, shown.err
    assert "one charge for the whole series of at most 365 periods" in shown.out
    assert "rho 0 spent of 2" in run("budget").out
    listed = run("series", "show")
    assert "no series was opened so far" in listed.out


@pytest.mark.usefixtures("project")
def test_a_series_from_the_command_line(run: Run) -> None:
    opened = run(*OPEN)
    assert opened.code == 0, opened.err
    assert "rho 0.5" in opened.out
    assert "the series wards goes on: nothing released so far" in run(*OPEN).out
    first = run("series", "release", "wards", "2026-11-03", "--format", "json")
    assert first.code == 0, first.err
    again = run("series", "release", "wards", "2026-11-03", "--format", "json")
    assert json.loads(again.out) == json.loads(first.out)
    assert run("series", "release", "wards", "2026-11-10").code == 0
    window = run("series", "show", "wards", "--from", "2026-11-04", "--to", "2026-11-10")
    assert "the number of rows by ward from 2026-11-04 to 2026-11-10" in window.out
    rows = json.loads(run("series", "show", "wards", "--format", "json").out)["rows"]
    assert [row["period"] for row in rows] == ["2026-11-03"] * 2 + ["2026-11-10"] * 2
    listed = json.loads(run("series", "show", "--format", "json").out)["series"]
    assert listed[0] | {"charge": ""} == {
        "series": "wards",
        "budget": "people",
        "table": "visits",
        "every": "day",
        "charge": "",
        "last": "2026-11-10",
        "step": 8,
        "horizon": 365,
        "ended": "",
    }
    assert "they sum to rho 0.5" in " ".join(run("ledger", "verify").out.split())
    for words, code, error in (
        (("release", "wards", "2026-11-05"), 3, "Release 2026-11-11 or later"),
        (("release", "ward", "2026-11-11"), 3, "there is no series 'ward'; did you mean 'wards'"),
        (("show", "wards", "--from", "2026-11-04"), 2, "state --from and --to"),
        (("show", "--from", "2026-11-04", "--to", "2026-11-05"), 2, "a window is of one series"),
    ):
        refused = run("series", *words)
        assert (refused.code, error in refused.err) == (code, True), refused.err
    exported = run("ledger", "export")
    secret = next(Path("state/keys").iterdir()).read_bytes().hex()
    assert secret not in exported.out
    assert '"secret"' not in exported.out


@pytest.mark.deep
def test_a_series_is_drawn_over_time_and_a_window_is_not(project: Path, run: Run) -> None:
    assert run(*OPEN).code == 0
    assert run("series", "release", "wards", "2026-11-03").code == 0
    assert run("series", "release", "wards", "2026-11-04", "--plot", "day.json").code == 0
    assert '"ward"' in (project / "day.json").read_text()
    drawn = run("series", "show", "wards", "--plot", "wards.json")
    assert drawn.code == 0, drawn.err
    text = (project / "wards.json").read_text()
    assert '"2026-11-03"' in text
    assert '"2026-11-04"' in text
    window = ("wards", "--from", "2026-11-03", "--to", "2026-11-04")
    for words in ((), window):
        refused = run("series", "show", *words, "--plot", "all.svg")
        assert (refused.code, "--plot draws" in refused.err) == (2, True)
    assert not (project / "all.svg").exists()
