"""The board's page: a summary on the first page with dates, values and both words explained; everything else in the details."""

from __future__ import annotations

from dataclasses import replace

from sordino.reporting.board import Account, Amount, AnsweredCharge, Board, render_board

ONE = AnsweredCharge(
    charge="c-0001",
    day="2026-11-23",
    question="the median of age",
    head=("median_age", "95% interval"),
    rows=(("43", "at most 8 rows"),),
    numeric=(True, False),
    cost="epsilon 0.2",
    reveals="at most 55.0%",
)


def account(*questions: AnsweredCharge) -> Account:
    return Account(
        name="people",
        reason="the board's decision",
        amounts=(Amount("epsilon", "2", "0.2", "1.8", 0.1),),
        protects=("table people: one row, add/remove",),
        together="All of it together.",
        questions=questions,
        unanswered=(),
        amendments=(),
        sound="Sound.",
        hash="0123abcd",
    )


def test_the_summary_has_what_a_board_needs() -> None:
    page = render_board(Board((account(ONE),), project="census", day="2026-11-23"))
    first, details = page.split('<div class="details">')
    for words in (
        "Project census. Made on 2026-11-23.",
        '<td class="figure">43</td>',
        "at most 55.0%",
        "Sound.",
        "each for its own attacker",
    ):
        assert words in first
    for word in ("Epsilon", "Add/remove"):
        assert f"<strong>{word}</strong>" in first
    assert "the median of age" in details
    assert "0123abcd" not in first
    assert details.index("0123abcd") > details.index("does not protect against")
    assert page.count("at most 55.0%") == 1  # each sentence once
    assert "break-before: page" in page
    assert "size: A4" in page


def test_a_long_answer_and_a_long_list_wait_for_the_details() -> None:
    table = replace(ONE, charge="c-0002", rows=tuple((f"row {i}", "") for i in range(20)))
    many = [replace(ONE, charge=f"c-1{i:03d}") for i in range(12)]
    first, details = render_board(Board((account(table, *many, table),))).split('<div class="details">')
    assert "row 19" not in first
    assert "a table, in the details" in first
    assert "row 19" in details
    wide = replace(
        ONE, head=("sex", "n", "95% interval", "med"), rows=(("Female", "15,327", "-", "43"),), numeric=(False,) * 4
    )
    narrow = replace(ONE, head=("sex", "n"), rows=(("Female", "15,327"),))
    pages = [render_board(Board((account(one),))).split('<div class="details">')[0] for one in (wide, narrow)]
    assert ["15,327" in page for page in pages] == [False, True]
    assert "The last 10 of 14 answers" in first
    assert first.count('<tr><td class="word" data-label="Charge">') == 10
    assert details.count('<table class="answer">') == 14
