"""One self-contained page for a board: what a budget allowed, what was asked and what all of it reveals at most.

It sees text, numbers and finished pictures; not where they came from. All words are escaped, and nothing is loaded.
"""

from __future__ import annotations

from dataclasses import dataclass

from sordino.reporting.html_page import render


@dataclass(frozen=True, slots=True)
class Amount:
    """State one amount of a budget, as text, and the share of the cap that is spent, from 0 to 1."""

    name: str
    cap: str
    spent: str
    left: str
    share: float


@dataclass(frozen=True, slots=True)
class AnsweredCharge:
    """State one release: its charge, day, question, answer in lines, cost, how sure it makes an attacker, its SVG or None."""

    charge: str
    day: str
    question: str
    answer: tuple[str, ...]
    cost: str
    reveals: str
    drawing: str | None = None


@dataclass(frozen=True, slots=True)
class UnansweredCharge:
    """State one charge of which no answer came: it failed, or is in doubt."""

    charge: str
    day: str
    question: str
    cost: str
    state: str


@dataclass(frozen=True, slots=True)
class Amendment:
    """State one amendment: its day, what changed, and the reason on record."""

    day: str
    changes: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Account:
    """State all that a board reads about one budget; `together` is None where nothing was asked of it."""

    name: str
    reason: str | None
    amounts: tuple[Amount, ...]
    protects: tuple[str, ...]
    together: str | None
    questions: tuple[AnsweredCharge, ...]
    unanswered: tuple[UnansweredCharge, ...]
    amendments: tuple[Amendment, ...]
    verified: str
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Board:
    """Hold the accounts of a page and the remarks that are about all of them."""

    accounts: tuple[Account, ...]
    remarks: tuple[str, ...] = ()
    project: str = ""
    day: str = ""


def render_board(board: Board) -> str:
    """Return the page as HTML; its policy forbids the browser to load or run anything.

    >>> "<script>" in render_board(Board((), ("<script>",)))
    False
    """
    return render("board.html", accounts=board.accounts, remarks=board.remarks, project=board.project, day=board.day)
