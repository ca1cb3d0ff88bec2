"""`report`: a page for a board, of a generated project with two answers and an amendment. It never needs the data."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

import pytest

from cli.support import Run, assert_loads_nothing
from markup import Page
from sordino.ask.project.load import load_project
from sordino.core.accounting.events import LaplaceEvent
from sordino.core.ledger.ledger import Ledger

HOSTILE = 'SELECT COUNT(*) AS "<script>alert(1)</script>" FROM people WHERE age > 64'


@pytest.fixture
def asked(census: Path, run: Run) -> Path:
    assert run("ask", HOSTILE, "--epsilon", "0.5").code == 0
    assert run("ask", "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex", "--epsilon", "0.25").code == 0
    file = census / "sordino.toml"
    file.write_text(file.read_text().replace("epsilon = 2.0", "epsilon = 3.0"))
    assert run("ledger", "amend", "--reason", "the <b>board</b> met").code == 0
    (census / "census.parquet").unlink()  # the data is not needed
    return census


def test_a_page_for_a_board(asked: Path, run: Run) -> None:
    done = run("report", "-o", "board.html")
    assert done.code == 0, done.err
    text = (asked / "board.html").read_text(encoding="utf-8")
    page = Page(text)
    for words in (
        "epsilon: 0.75 spent of 3, 2.25 left",
        "a demonstration",
        "one row, add/remove",
        "c-0001",
        "c-0002",
        "at most 62.3%",
        "a particular person or row is in the table",
        "67.92%",  # 1 / (1 + exp(-0.75))
        "the cap is now epsilon 3",
        "the <b>board</b> met",
        "each chained to the one before",
        "the high-water mark agrees",
        "docs/limits.md",
    ):
        assert words in page.words, words
    assert "script" not in page.tags
    assert "b" not in page.tags
    assert_loads_nothing(page, text)
    assert page.tags.count("img") == 2
    # Two releases and an amendment, with their heads; and twice the answers, of one row and of two: no rows of data.
    assert page.tags.count("tr") == 3 + 2 + 2 * (2 + 3)
    assert str(asked) not in text


def test_charges_without_an_answer(asked: Path, run: Run) -> None:
    with Ledger.existing(str(load_project(asked / "sordino.toml").budgets["people"].ledger)) as ledger:
        event = LaplaceEvent(0.25)
        ledger.fail(ledger.charge(event, note="<script>one</script>", question="q"), "the engine <failed>")
        ledger.charge(event, note="another", question="r")
    assert run("report", "-o", "board.html").code == 0
    page = Page((asked / "board.html").read_text())
    for words in (
        "<script>one</script>",
        "failed: the engine <failed>",
        "in doubt",
        "All 4 charges",
        "1.25 spent of 3",
    ):
        assert words in page.words, words


@pytest.mark.deep
def test_it_overwrites_only_by_force(asked: Path, run: Run) -> None:
    (asked / "board.html").write_text("mine")
    assert run("report", "-o", "board.html").code == 2
    assert (asked / "board.html").read_text() == "mine"
    assert run("report", "-o", "board.html", "--force", "--budget", "people", "--quiet").err == ""
    assert (asked / "board.html").read_text().startswith("<!DOCTYPE html>")


@pytest.mark.usefixtures("asked")
def test_exit_codes(run: Run) -> None:
    assert run("report").code == 2
    assert run("report", "-o", "board.html", "--budget", "peple").code == 3
    assert run("report", "-o", "missing/board.html").code == 2
    assert run("report", "-o", ".").code == 2
    assert not Path("board.html").exists()


def test_a_damaged_ledger_has_no_page(asked: Path, run: Run) -> None:
    ledger = load_project(asked / "sordino.toml").budgets["people"].ledger
    with sqlite3.connect(str(ledger)) as db:
        db.execute("UPDATE charges SET state = 'failed' WHERE number = 1")
    db.close()
    assert run("report", "-o", "board.html").code == 2
    assert not (asked / "board.html").exists()


def test_before_anything_is_asked(census: Path, run: Run) -> None:
    assert run("report", "-o", "board.html").code == 0
    assert "Nothing has been asked yet" in Page((census / "board.html").read_text()).words
    assert not (census / "census.ledger").exists()


def test_without_altair_it_says_so(asked: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    assert run("report", "-o", "board.html").code == 0
    page = Page((asked / "board.html").read_text())
    assert "Without pictures" in page.words
    assert "img" not in page.tags
