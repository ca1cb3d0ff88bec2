"""Reading what a ledger's tables hold: charges, answers, sums, declarations. Nothing here writes.

Every function takes an open connection; its caller holds the mutex and the transaction.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from sordino.errors import (
    BudgetExhausted,
    ChargedError,
    DeclarationError,
    InDoubt,
    LedgerError,
    QuestionRefused,
    UnknownName,
)
from sordino.ledger.records import (
    Charge,
    Entry,
    StoredAnswer,
    add_up,
    amounts_from_dict,
    charge_id,
    charge_number,
    loss_from_dict,
)
from sordino.loss import ZCDP, Loss, format_number, loss_from

__all__ = [
    "ENTRIES",
    "add_within_cap",
    "answer_of",
    "charge_of",
    "charges_where",
    "check_cap",
    "declarations_of",
    "describe_spent",
    "entries_of",
    "find_answer",
    "loss_of",
    "open_charge",
    "remaining_of",
]

ENTRIES = "SELECT seq, kind, time, payload, prev, hash FROM entries ORDER BY seq"

_CHARGES = """SELECT charges.number, charges.request, charges.question, charges.state, made.time, made.payload,
    CASE charges.state WHEN 'failed' THEN ended.payload END
    FROM charges JOIN entries AS made ON made.seq = charges.reserved
    LEFT JOIN entries AS ended ON ended.seq = charges.closed"""


def entries_of(db: sqlite3.Connection) -> list[Entry]:
    """Return the chain, oldest first."""
    return [Entry(s, kind, time, json.loads(text), prev, own) for s, kind, time, text, prev, own in db.execute(ENTRIES)]


def charges_where(db: sqlite3.Connection, where: str, *values: str | int) -> list[Charge]:
    """Return the charges that a condition of our own words chooses, oldest first."""
    rows = db.execute(f"{_CHARGES} WHERE {where} ORDER BY charges.number", values)
    return [_charge(row) for row in rows]


def charge_of(db: sqlite3.Connection, name: str) -> Charge:
    """Return the charge with this id; raise UnknownName where there is none."""
    found = charges_where(db, "charges.number = ?", charge_number(name))
    if not found:
        raise _no_charge(db, name)
    return found[0]


def open_charge(db: sqlite3.Connection, name: str) -> int:
    """Return the number of a charge that has no outcome yet; raise UnknownName or LedgerError for any other."""
    number = charge_number(name)
    found = db.execute("SELECT state FROM charges WHERE number = ?", (number,)).fetchone()
    if found is None:
        raise _no_charge(db, name)
    if found[0] != "reserved":
        raise LedgerError(f"charge {name} is {found[0]} already, and stays so; charge anew")
    return number


def answer_of(db: sqlite3.Connection, charge: Charge) -> str:
    """Return the stored answer of a charge; raise InDoubt or ChargedError where it has none."""
    name = charge.id
    if charge.state == "failed":
        rule = f"charge {name} failed ({charge.reason}) and stands; there is no answer"
        raise ChargedError(f"{rule}; ask again as a new request, which charges again", charge=name)
    if charge.state == "reserved":
        rule = f"charge {name} stands but has no outcome yet: it is being answered now, or its process stopped"
        raise InDoubt(f"{rule}; wait, or ask again as a new request, which charges again", charge=name)
    query = "SELECT payload FROM entries WHERE seq = (SELECT closed FROM charges WHERE number = ?)"
    return str(json.loads(db.execute(query, (charge_number(name),)).fetchone()[0])["answer"])


def find_answer(db: sqlite3.Connection, request: str, question: str) -> StoredAnswer | None:
    """Return what a request made before was answered, None where it is new; `question` is a hash.

    Raises QuestionRefused where it asked another question, InDoubt or ChargedError where it has no answer.
    """
    found = charges_where(db, "charges.request = ?", request)
    if not found:
        return None
    charge = found[0]
    if charge.question != question:
        rule = f"this request id was used for another question (charge {charge.id})"
        raise QuestionRefused(f"{rule}; one id means one question: use a new id for a new question")
    return StoredAnswer(charge, answer_of(db, charge))


def declarations_of(db: sqlite3.Connection) -> dict[str, Any]:
    """Return the declaration of each table."""
    rows = db.execute("SELECT name, declaration FROM declarations ORDER BY name")
    return {name: json.loads(text) for name, text in rows}


def loss_of(amounts: Mapping[str, Fraction], cap: Loss) -> Loss:
    """Return amounts as a loss of the cap's kind."""
    return loss_from(dict(amounts), delta=cap.delta if isinstance(cap, ZCDP) else None)


def remaining_of(spent: Mapping[str, Fraction], cap: Loss) -> Loss:
    """Return what a cap leaves."""
    return loss_of({name: max(most - spent[name], Fraction(0)) for name, most in cap.amounts().items()}, cap)


def describe_spent(spent: Mapping[str, Fraction], cap: Loss) -> str:
    """Return what was spent of a cap, in words."""
    return ", ".join(
        f"{name} {format_number(spent[name])} of {format_number(most)}" for name, most in cap.amounts().items()
    )


def add_within_cap(spent: Mapping[str, Fraction], amounts: Mapping[str, Fraction], cap: Loss) -> dict[str, Fraction]:
    """Return the sums after a charge; raise BudgetExhausted where one would pass the cap."""
    after = {name: add_up(spent[name], amounts[name]) for name in spent}
    if all(after[name] <= most for name, most in cap.amounts().items()):
        return after
    asked, left = loss_of(amounts, cap), remaining_of(spent, cap)
    rule = f"the budget does not cover this: asked {_bare(asked)}, left {_bare(left)} of {_bare(cap)}"
    spare = "ask with at most what is left" if any(left.amounts().values()) else "nothing is left to ask with"
    raise BudgetExhausted(f"{rule}; nothing was charged; {spare}", asked=asked, left=left)


def check_cap(cap: Loss, spent: Mapping[str, Fraction], *, held: Loss) -> None:
    """Raise DeclarationError unless a cap may replace the one held: the same kind, not below what was spent."""
    if type(cap) is not type(held):
        rule = f"a cap of {_bare(held)} cannot become one of {_bare(cap)}: the kind of a cap is fixed at creation"
        raise DeclarationError(f"{rule}; keep its kind, or start a new ledger at another path")
    if any(spent[name] > most for name, most in cap.amounts().items()):
        rule = f"the cap cannot be set below what was spent ({describe_spent(spent, held)})"
        raise DeclarationError(f"{rule}; set it to that or more: spent budget does not return")


def _no_charge(db: sqlite3.Connection, name: str) -> UnknownName:
    last = db.execute("SELECT charges FROM state").fetchone()[0]
    hint = f"the last is {charge_id(last)}" if last else "none was made yet"
    return UnknownName(f"there is no charge {name}; {hint}")


def _bare(loss: Loss) -> str:
    return ", ".join(f"{name} {format_number(amount)}" for name, amount in loss.amounts().items())


def _charge(row: tuple[int, str | None, str, Any, str, str, str | None]) -> Charge:
    number, request, question, state, time, made, ended = row
    payload = json.loads(made)
    after = payload["after"]
    cap, spent = loss_from_dict(after["cap"]), amounts_from_dict(after["spent"])
    return Charge(
        id=charge_id(number),
        amounts=amounts_from_dict(payload["amounts"]),
        event=payload["event"],
        note=payload["note"],
        question=question,
        request=request,
        time=time,
        state=state,
        spent=loss_of(spent, cap),
        remaining=remaining_of(spent, cap),
        reason=None if ended is None else json.loads(ended)["reason"],
    )
