"""Reading what a ledger's tables hold: charges, answers, declarations. Nothing here writes.

Every function takes an open connection; its caller holds the mutex and the transaction.
"""

from __future__ import annotations

import json
from typing import Any

from sordino.errors import ChargedError, InDoubt, LedgerError, QuestionRefused, UnknownName
from sordino.ledger.durable_sqlite import Database
from sordino.ledger.records import Charge, Entry, StoredAnswer, Sums, amounts_from_dict, charge_id, charge_number

__all__ = [
    "ENTRIES",
    "answer_of",
    "charge_of",
    "charges_where",
    "declarations_of",
    "entries_of",
    "find_answer",
    "open_charge",
]

ENTRIES = "SELECT seq, kind, time, payload, prev, hash FROM entries ORDER BY seq"

_CHARGES = """SELECT charges.number, charges.request, charges.question, charges.state, made.time, made.payload,
    CASE charges.state WHEN 'failed' THEN ended.payload END
    FROM charges JOIN entries AS made ON made.seq = charges.reserved
    LEFT JOIN entries AS ended ON ended.seq = charges.closed"""


def entries_of(db: Database) -> list[Entry]:
    """Return the chain, oldest first."""
    return [Entry(s, kind, time, json.loads(text), prev, own) for s, kind, time, text, prev, own in db.execute(ENTRIES)]


def charges_where(db: Database, where: str, *values: str | int) -> list[Charge]:
    """Return the charges that a condition of our own words chooses, oldest first."""
    rows = db.execute(f"{_CHARGES} WHERE {where} ORDER BY charges.number", values)
    return [_charge(row) for row in rows]


def charge_of(db: Database, name: str) -> Charge:
    """Return the charge with this id; raise UnknownName where there is none."""
    found = charges_where(db, "charges.number = ?", charge_number(name))
    if not found:
        raise _no_charge(db, name)
    return found[0]


def open_charge(db: Database, name: str) -> int:
    """Return the number of a charge that has no outcome yet; raise UnknownName or LedgerError for any other."""
    number = charge_number(name)
    found = db.execute("SELECT state FROM charges WHERE number = ?", (number,)).fetchone()
    if found is None:
        raise _no_charge(db, name)
    if found[0] != "reserved":
        raise LedgerError(f"charge {name} is {found[0]} already, and that is final; make a new charge")
    return number


def answer_of(db: Database, charge: Charge) -> str:
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


def find_answer(db: Database, request: str, question: str) -> StoredAnswer | None:
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


def declarations_of(db: Database) -> dict[str, Any]:
    """Return the declaration of each table."""
    rows = db.execute("SELECT name, declaration FROM declarations ORDER BY name")
    return {name: json.loads(text) for name, text in rows}


def _no_charge(db: Database, name: str) -> UnknownName:
    last = db.execute("SELECT charges FROM state").fetchone()[0]
    hint = f"the last is {charge_id(last)}" if last else "none was made yet"
    return UnknownName(f"there is no charge {name}; {hint}")


def _charge(row: tuple[int, str | None, str, Any, str, str, str | None]) -> Charge:
    number, request, question, state, time, made, ended = row
    payload = json.loads(made)
    after, spender = Sums.from_dict(payload["after"]), payload.get("spender")
    return Charge(
        id=charge_id(number),
        amounts=amounts_from_dict(payload["amounts"]),
        event=payload["event"],
        note=payload["note"],
        question=question,
        request=request,
        time=time,
        state=state,
        spent=after.total(),
        remaining=after.remaining(),
        reason=None if ended is None else json.loads(ended)["reason"],
        spender=spender,
        share=None if spender is None else after.shares[spender],
    )
