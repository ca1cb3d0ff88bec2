"""`budget`, `releases`, `show`, `explain` and `ledger`: the past, at no cost."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

from cli.support import Run, read_json

COUNT = "SELECT COUNT(*) AS n FROM people"
SECOND = """
[budgets.guests]
cap = {epsilon = 1}
ledger = "guests.ledger"
[tables.guests]
source = "census.parquet"
budget = "guests"
neighbors = "replace"
privacy_unit = "row"
[tables.guests.columns]
age = {type = "integer", lower = 17, upper = 90}
"""


@pytest.fixture
def asked(census: Path, run: Run) -> Path:
    run("ask", COUNT, "--epsilon", "0.5")
    run("ask", "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex", "--epsilon", "0.25")
    return census


def test_before_anything_is_asked(census: Path, run: Run) -> None:
    assert "nothing has been asked yet" in run("budget").out
    assert "2 left" in run("budget").out
    assert "nothing has been asked yet" in run("releases").out
    assert run("ledger", "verify").code == 0
    assert run("show", "c-0001").code == 3
    assert run("ledger", "export").code == 2
    assert run("ledger", "amend", "--reason", "x").code == 2
    assert not (census / "census.ledger").exists()


@pytest.mark.usefixtures("asked")
def test_budget(run: Run) -> None:
    done = run("budget")
    assert done.out.splitlines()[0] == "people     epsilon 0.75 spent of 2, 1.25 left"
    assert "2 charges" in done.out
    told = json.loads(run("budget", "--format", "json").out)["budgets"]
    assert told[0]["remaining"] == {"epsilon": 1.25}
    assert told[0]["mark"] == "agrees"
    rows = list(csv.DictReader(io.StringIO(run("budget", "--format", "csv").out)))
    assert rows[0]["left"] == "1.25"
    assert len(run("budget", "--quiet").out.splitlines()) == 1
    assert run("budget", "--budget", "peple").code == 3


@pytest.mark.usefixtures("asked")
def test_releases_show_and_explain(run: Run) -> None:
    told = json.loads(run("releases", "--format", "json").out)["releases"]
    assert [(r["id"], r["state"], r["cost"]) for r in told] == [
        ("c-0001", "answered", {"epsilon": 0.5}),
        ("c-0002", "answered", {"epsilon": 0.25}),
    ]
    assert len(list(csv.reader(io.StringIO(run("releases", "--format", "csv").out)))) == 3
    lines = run("releases", "--quiet").out.splitlines()
    assert lines[0].split() == ["id", "time", "cost", "state", "question"]
    assert len(lines) == 3
    first, again = run("show", "c-0002"), run("show", "c-0002")
    assert first.out == again.out
    assert "Female" in first.out
    assert "62.25%" in run("explain", "c-0001").out
    assert "62.25%" in json.loads(run("explain", "c-0001", "--format", "json").out)["explanation"]
    for name in ("c-0009", "c-x", "1"):
        assert run("show", name).code == 3
        assert run("explain", name).code == 3


@pytest.mark.usefixtures("asked")
def test_the_newest_releases_alone(run: Run) -> None:
    assert [r["id"] for r in read_json(run("releases", "--last", "1", "--format", "json"))["releases"]] == ["c-0002"]
    assert "1 earlier left out" in run("releases", "--last", "1").out
    assert run("releases", "--last", "2").out == run("releases").out == run("releases", "--last", "99").out
    refused = run("releases", "--last", "0")
    assert refused.code == 2
    assert "--last must be a whole number of 1 or more" in refused.err


@pytest.mark.deep
def test_the_newest_of_several_budgets(asked: Path, run: Run) -> None:
    project = asked / "sordino.toml"
    project.write_text(project.read_text() + SECOND)
    assert run("ask", "SELECT SUM(age) AS s FROM guests", "--epsilon", "0.5").code == 0
    assert run("ask", COUNT, "--epsilon", "0.5").code == 0
    # the list ends with the second budget, whose one charge is older than the last of the first
    assert [(r["budget"], r["id"]) for r in read_json(run("releases", "--format", "json"))["releases"]][-1] == (
        "guests",
        "c-0001",
    )
    listed = read_json(run("releases", "--last", "1", "--format", "json"))["releases"]
    assert [(r["budget"], r["id"]) for r in listed] == [("people", "c-0003")]


def test_several_budgets(asked: Path, run: Run) -> None:
    project = asked / "sordino.toml"
    project.write_text(project.read_text() + SECOND)
    assert run("ask", "SELECT SUM(age) AS s FROM guests", "--epsilon", "0.5").code == 0
    done = run("show", "c-0001")
    assert done.code == 2
    assert "--budget" in done.err
    assert "replace" in run("show", "c-0001", "--budget", "guests").out
    assert run("show", "c-0002").code == 0  # only one budget has it
    assert "guests" in run("releases").out
    assert len(run("budget", "--quiet").out.splitlines()) == 2
    assert run("ledger", "export").code == 2
    assert run("ledger", "export", "--budget", "guests").code == 0


def test_verify_and_a_damaged_ledger(asked: Path, run: Run) -> None:
    done = run("ledger", "verify")
    assert done.code == 0
    assert "sound" in done.out
    told = json.loads(run("ledger", "verify", "--format", "json").out)["ledgers"][0]
    assert told["answered"] == 2
    assert told["mark"] == "agrees"
    path = asked / "census.ledger"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"epsilon":"1/4"', b'"epsilon":"1/9"'))
    done = run("ledger", "verify")
    assert done.code == 2
    assert len(done.err.splitlines()) == 1
    path.write_bytes(b"not a ledger")
    for command in (("budget",), ("releases",), ("ask", COUNT, "--epsilon", "0.1"), ("check",)):
        assert run(*command).code == 2


def test_a_rolled_back_ledger_is_noticed(asked: Path, run: Run) -> None:
    path = asked / "census.ledger"
    earlier = path.read_bytes()
    assert run("ask", COUNT, "--epsilon", "0.5").code == 0
    path.write_bytes(earlier)
    for command in (("ask", COUNT, "--epsilon", "0.5"), ("ledger", "verify"), ("budget",)):
        assert run(*command).code == 2, command


@pytest.mark.usefixtures("asked")
def test_export_can_be_verified_by_anyone(run: Run) -> None:
    entries = [json.loads(line) for line in run("ledger", "export").out.splitlines()]
    assert [e["seq"] for e in entries] == list(range(1, len(entries) + 1))

    def canonical(value: Any) -> str:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    before = "0" * 64
    for e in entries:
        assert e["prev"] == before
        parts = [e["seq"], e["kind"], e["time"], canonical(e["payload"]), e["prev"]]
        assert e["hash"] == hashlib.sha256(canonical(parts).encode()).hexdigest()
        before = e["hash"]
    assert run("ledger", "export", "-o", "chain.jsonl").out == ""
    assert len(Path("chain.jsonl").read_text().splitlines()) == len(entries)


def test_amend(asked: Path, run: Run) -> None:
    project = asked / "sordino.toml"
    text = project.read_text()
    assert run("ledger", "amend", "--reason", "none").code == 2  # nothing would change
    project.write_text(text.replace("{epsilon = 2.0}", "{epsilon = 3.0}").replace("upper = 90", "upper = 95"))
    done = run("ask", COUNT, "--epsilon", "0.5")
    assert done.code == 2
    assert "sordino ledger amend" in done.err
    assert "ledger amend" in run("budget").out
    assert run("ledger", "amend").code == 2
    assert run("ledger", "amend", "--reason", " ").code == 2
    done = run("ledger", "amend", "--reason", "the board raised it")
    assert done.code == 0, done.err
    assert "cap: epsilon 2 -> epsilon 3" in done.out
    assert "people.columns.age.upper: 90 -> 95" in done.out
    assert run("ask", COUNT, "--epsilon", "0.5").code == 0
    assert "epsilon 1.25 spent of 3, 1.75 left" in run("budget").out
    project.write_text(text.replace("{epsilon = 2.0}", "{epsilon = 1.0}"))
    assert run("ledger", "amend", "--reason", "lower").code == 2  # below what was spent
    project.write_text(text.replace('"add_remove"', '"replace"'))
    assert run("ledger", "amend", "--reason", "other").code == 2


def test_amend_a_name(asked: Path, run: Run) -> None:
    project = asked / "sordino.toml"
    project.write_text(project.read_text().replace("[tables.people", "[tables.folk"))
    assert run("ledger", "amend", "--reason", "renamed", "--rename", "people").code == 2
    done = run("ledger", "amend", "--reason", "renamed", "--rename", "people=folk")
    assert done.code == 0, done.err
    assert "table people -> folk" in done.out
    assert run("ask", "SELECT COUNT(*) AS n FROM folk", "--epsilon", "0.5").code == 0
    assert "1.25 spent" in run("budget").out
