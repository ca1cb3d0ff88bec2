"""One self-contained page for a board: what a budget allowed, what was asked and what all of it reveals at most.

It sees text, numbers and finished pictures; not where they came from. All words are escaped, and nothing is loaded.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ["Account", "Amendment", "Amount", "Board", "Question", "Unanswered", "page"]


@dataclass(frozen=True, slots=True)
class Amount:
    """State one amount of a budget, as text, and the share of the cap that is spent, from 0 to 1."""

    name: str
    cap: str
    spent: str
    left: str
    share: float


@dataclass(frozen=True, slots=True)
class Question:
    """State one release: its charge, day, question, answer in lines, cost, how sure it makes at most, and its SVG or None."""

    charge: str
    day: str
    question: str
    answer: tuple[str, ...]
    cost: str
    reveals: str
    drawing: str | None = None


@dataclass(frozen=True, slots=True)
class Unanswered:
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
    questions: tuple[Question, ...]
    unanswered: tuple[Unanswered, ...]
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


def page(board: Board) -> str:
    """Return the page as HTML; its policy forbids the browser to load or run anything.

    >>> "<script>" in page(Board((), ("<script>",)))
    False
    """
    made = [f"Project {board.project}."] * bool(board.project) + [f"Made on {board.day}."] * bool(board.day)
    parts = [*([_paragraph(" ".join(made))] if made else []), *map(_account, board.accounts)]
    parts += [*(_paragraph(words) for words in board.remarks), "<h2>The words of this page</h2>"]
    parts += [f"<dl>{''.join(f'<dt>{name}</dt><dd>{html.escape(said)}</dd>' for name, said in _WORDS)}</dl>"]
    return _PAGE.format(policy=_POLICY, style=_STYLE, body="\n".join(parts), limits=html.escape(_LIMITS))


def _account(one: Account) -> str:
    parts = [f"<h2>Budget {html.escape(one.name)}</h2>", *map(_bar, one.amounts)]
    parts.append(_paragraph(f"Why this cap: {one.reason or 'the project file gives no reason.'}"))
    parts += ["<h3>Whom it protects</h3>", _list(one.protects or ("No table draws on this budget.",))]
    parts.append("<h3>What all of it together reveals at most</h3>")
    parts.append(_paragraph(one.together or "Nothing has been asked yet, so nothing was revealed.", kind="together"))
    if one.together is not None:
        parts.append(_paragraph(_ATTACKER))
    parts += ["<h3>What was answered</h3>", _questions(one.questions)]
    parts += ["<h3>What was charged without an answer</h3>", _unanswered(one.unanswered)]
    parts += ["<h3>What was amended</h3>", _amendments(one.amendments)]
    parts += ["<h3>Whether the record is sound</h3>", _paragraph(one.verified)]
    parts += [_paragraph(words) for words in one.remarks]
    return "<section>\n" + "\n".join(parts) + "\n</section>"


def _bar(amount: Amount) -> str:
    words = html.escape(f"{amount.name}: {amount.spent} spent of {amount.cap}, {amount.left} left")
    width = 100 * min(max(amount.share, 0.0), 1.0)
    bar = f'<div class="bar" role="img" aria-label="{words}"><span style="width: {width:.1f}%"></span></div>'
    return f"<p>{words}</p>\n{bar}"


def _questions(questions: Sequence[Question]) -> str:
    if not questions:
        return _paragraph("None.")
    rows = [(q.charge, q.day, q.question, "\n".join(q.answer), q.cost, q.reveals) for q in questions]
    drawn = "\n".join(_drawing(q.charge, q.drawing) for q in questions if q.drawing is not None)
    head = ("Charge", "Day", "Question", "Answer", "Cost", "How sure of one, at most")
    return "\n".join([_paragraph(_SURE), _table(head, rows, lines="Answer"), *([drawn] if drawn else [])])


def _drawing(charge: str, drawing: str) -> str:
    """Return a picture as an image of its own, so that nothing in it can reach the page."""
    said = html.escape(f"The answer of charge {charge}, as a picture")
    data = base64.b64encode(drawing.encode()).decode()
    return f'<figure><img alt="{said}" src="data:image/svg+xml;base64,{data}"><figcaption>{said}</figcaption></figure>'


def _unanswered(charges: Sequence[Unanswered]) -> str:
    if not charges:
        return _paragraph("None.")
    rows = [(c.charge, c.day, c.question, c.cost, c.state) for c in charges]
    return f"{_paragraph('They stay spent.')}\n{_table(('Charge', 'Day', 'Question', 'Cost', 'What happened'), rows)}"


def _amendments(amendments: Sequence[Amendment]) -> str:
    if not amendments:
        return _paragraph("Nothing.")
    return _table(("Day", "What changed", "Why"), [(a.day, "; ".join(a.changes), a.reason) for a in amendments])


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], *, lines: str | None = None) -> str:
    """Return a table; the column named `lines` keeps its lines as they are."""

    def cell(name: str, text: str) -> str:
        kind = ' class="lines"' if name == lines else ' class="word"' if name in _NARROW else ""
        return f"<td{kind}>{html.escape(text)}</td>"

    made = ["<table>", "<tr>" + "".join(f"<th>{html.escape(name)}</th>" for name in head) + "</tr>"]
    made += ["<tr>" + "".join(cell(n, c) for n, c in zip(head, row, strict=True)) + "</tr>" for row in rows]
    return '<div class="wide">' + "\n".join([*made, "</table></div>"])


def _list(items: Iterable[str]) -> str:
    return "<ul>\n" + "\n".join(f"<li>{html.escape(item)}</li>" for item in items) + "\n</ul>"


def _paragraph(words: str, *, kind: str | None = None) -> str:
    return f"<p>{html.escape(words)}</p>" if kind is None else f'<p class="{kind}">{html.escape(words)}</p>'


_NARROW = ("Charge", "Day", "Cost")  # columns of words that are not broken
_SURE = (
    "The last column says how sure of it someone can be afterwards who knew everything else, and thought it as likely as "
    "not before that a given one of those protected is in the table (under replace: is this or that). "
    "`sordino explain` says more of each charge."
)
_WORDS = (
    (
        "epsilon",
        "The most that answers may change what anyone believes about one of those protected: odds move by a factor of "
        "e to the epsilon at most (2.7 at epsilon 1, 1.1 at 0.1). What several answers spend adds up.",
    ),
    ("delta", "The probability, far below one in the number of people, with which that may be passed."),
    ("rho", "Another measure of the same loss, for noise of the normal law; it adds up too."),
    (
        "add/remove",
        "What is hidden is whether someone is in the table at all. Under replace: what is said of someone who is.",
    ),
    ("charge", "What a question cost. It is written down before the data is read, and never given back."),
)
_ATTACKER = (
    "This figure is about the strongest attacker: one who knows every record but one, and wonders about that one person. The "
    "reason for the cap may speak of another, who knows less and has more possibilities to choose among; then both figures "
    "hold, each for its own attacker."
)
_LIMITS = (
    "Not protected: against a wrong declaration, what is learned about groups, releases made elsewhere about the same "
    "people, or someone who can read the table or rewrite the ledger; docs/limits.md says more."
)
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_STYLE = """body { font-family: sans-serif; line-height: 1.45; margin: 2rem auto; max-width: 60rem; padding: 0 1rem }
table { border-collapse: collapse; width: 100% }
th, td { border: 1px solid #cccccc; padding: 0.3rem 0.5rem; text-align: left; vertical-align: top }
td { overflow-wrap: break-word }
td.word { white-space: nowrap }
td.lines { font-family: monospace; font-size: 0.85rem; white-space: pre-wrap }
.wide { overflow-x: auto }
dt { font-weight: bold }
img { max-width: 100% }
.bar { background: #dddddd; height: 1rem }
.bar span { background: #4c78a8; display: block; height: 1rem }
.together { font-weight: bold }"""
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>What was asked, and what it reveals at most</title>
<style>
{style}
</style>
</head>
<body>
<h1>What was asked, and what it reveals at most</h1>
{body}
<h2>What Sordino does not protect against</h2>
<p>{limits}</p>
</body>
</html>
"""
