"""Replaying a ledger's entries: what they say was spent, charged, declared and amended, and the first that is wrong.

Nothing here opens a file, and no error shows what an entry holds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from sordino.core.errors import LedgerError, SordinoError
from sordino.core.ledger.records import (
    GENESIS,
    ShareSums,
    Sums,
    add_up,
    amounts_from_dict,
    canonical,
    charge_number,
    entry_hash,
    loss_from_dict,
    share_after,
    texts_digest,
)
from sordino.core.loss import Loss, loss_from

Row = tuple[int, str, str, str, str, str]  # seq, kind, time, payload, prev, hash


@dataclass(slots=True)
class LedgerState:
    """Hold what the entries replayed so far add up to; `charges` are rows of the ledger's table of that name."""

    ledger: str = ""
    head: int = 0
    hash: str = GENESIS
    caps: list[Loss] = field(default_factory=list)
    spent: dict[str, Fraction] = field(default_factory=dict)
    carried: dict[str, Fraction] = field(default_factory=dict)
    charges: list[tuple[int, str | None, str, str, int, int | None]] = field(default_factory=list)
    declarations: dict[str, Any] = field(default_factory=dict)
    shares: Mapping[str, ShareSums] = field(default_factory=dict)
    amendments: int = 0
    unmarked: int = 0
    restored: int = 0
    lost: dict[str, Fraction] = field(default_factory=dict)
    predecessor: tuple[str, int] | None = None
    resumable: set[int] = field(default_factory=set)  # places in `charges` of those that failed and may be resumed


def replay(rows: Iterable[Row]) -> LedgerState:
    """Return what a ledger's entries add up to; raise LedgerError naming the first that is missing, altered or wrong."""
    books = LedgerState()
    for seq, kind, time, payload, prev, digest in rows:
        if seq != books.head + 1:
            raise LedgerError(f"entry {books.head + 1} is missing; {_ADVICE}")
        if prev != books.hash or entry_hash(seq, kind, time, payload, prev) != digest:
            raise LedgerError(f"entry {seq} is not what was written: its hash does not fit; {_ADVICE}")
        wrong = _apply(books, seq, kind, payload) or _unlike(books, payload)
        if wrong is not None:
            raise LedgerError(f"entry {seq} cannot follow those before it: {wrong}; {_ADVICE}")
        books.head, books.hash = seq, digest
    if not books.caps:
        raise LedgerError(f"entry 1 is missing; {_ADVICE}")
    return books


def follow(rows: Iterable[Row], head: int, last: str) -> None:
    """Raise LedgerError unless each entry follows the one before it, from entry `head` of hash `last` on."""
    for seq, kind, time, payload, prev, digest in rows:
        if (seq, prev) != (head + 1, last) or entry_hash(seq, kind, time, payload, prev) != digest:
            raise LedgerError(f"entry {head + 1} is not what was written: its hash does not fit; {_ADVICE}")
        head, last = seq, digest


def _unlike(books: LedgerState, text: str) -> str | None:
    """Return what is wrong with the sums that an entry holds, if anything."""
    try:
        after = json.loads(text)["after"]
        spells = isinstance(after.get("shares"), dict)  # as entries did before they held a hash
    except (KeyError, ValueError, AttributeError):
        return "its sums are not those of the ledger"
    tables = texts_digest({name: canonical(words) for name, words in books.declarations.items()})
    own = replace(_sums(books), tables=tables).to_dict(spells=spells)
    return None if after == own else "its sums do not follow from the entries before it"


def _sums(books: LedgerState) -> Sums:
    """Return what the books add up to, but for the hash of the declarations."""
    return Sums(books.ledger, books.caps[-1], books.carried, books.spent, len(books.charges), "", books.shares)


_ADVICE = "restore a sound copy of the ledger, the newest there is"


def _apply(books: LedgerState, seq: int, kind: str, text: str) -> str | None:
    """Add one entry to the books; return what is wrong with it, if anything."""
    try:
        payload = json.loads(text)
        if (seq == 1) != (kind == "open" and "ledger" in payload):
            return "only the first opens the ledger"
        return _STEPS[kind](books, seq, payload) if kind in _STEPS else "its kind is not known"
    except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError, IndexError, SordinoError):
        return "a part of it is missing or malformed"


def _open(books: LedgerState, seq: int, payload: dict[str, Any]) -> str | None:
    if seq > 1:
        books.unmarked += 1
        return None
    books.ledger = payload["ledger"]
    books.caps.append(loss_from_dict(payload["cap"]))
    nothing = dict.fromkeys(books.caps[0].amounts(), Fraction(0))
    books.carried = amounts_from_dict(payload["carried"]) if "carried" in payload else nothing
    if set(books.carried) != set(nothing) or min(books.carried.values()) < 0:
        return "it carries over a loss that the cap does not count"
    books.spent = dict(books.carried)
    before = payload["predecessor"]
    books.predecessor = None if before is None else (before["ledger"], before["seq"])
    return None


def _declare(books: LedgerState, seq: int, payload: dict[str, Any]) -> str | None:
    del seq
    if payload["table"] in books.declarations:
        return "the table was declared before"
    books.declarations[payload["table"]] = payload["declaration"]
    return None


def _share(books: LedgerState, seq: int, payload: dict[str, Any]) -> str | None:
    del seq
    cap = loss_from(amounts_from_dict(payload["cap"]))
    if payload["spender"] in books.shares or not isinstance(payload["spender"], str):
        return "the share was declared before"
    books.shares = _sums(books).declare_share(payload["spender"], cap, lost=books.lost).shares
    return None


def _reserve(books: LedgerState, seq: int, payload: dict[str, Any]) -> str | None:
    amounts = amounts_from_dict(payload["amounts"])
    if set(amounts) != set(books.spent) or min(amounts.values()) < 0:
        return "it does not charge what the cap counts"
    if charge_number(payload["charge"]) != len(books.charges) + 1:
        return "its charge is out of order"
    books.spent = {name: add_up(books.spent[name], amounts[name]) for name in books.spent}
    if any(books.spent[name] > most for name, most in books.caps[-1].amounts().items()):
        return "it passes the cap"
    spender = payload.get("spender")
    if spender is not None:
        books.shares = {**books.shares, spender: books.shares[spender].charge(amounts, spender)}
        if share_after(payload) != books.shares[spender]:
            return "its share does not follow from the entries before it"
    number = len(books.charges) + 1
    books.charges.append((number, payload["request"], payload["question"], "reserved", seq, None))
    return None


def _commit(books: LedgerState, seq: int, payload: dict[str, Any]) -> str | None:
    return _close(books, seq, payload, "committed") if isinstance(payload["answer"], str) else "it has no answer"


def _fail(books: LedgerState, seq: int, payload: dict[str, Any]) -> str | None:
    wrong = _close(books, seq, payload, "failed")
    if wrong is None and payload.get("resumable", False):
        books.resumable.add(charge_number(payload["charge"]) - 1)
    return wrong


def _close(books: LedgerState, seq: int, payload: dict[str, Any], state: str) -> str | None:
    at = charge_number(payload["charge"]) - 1
    if at < 0:
        return "it names no charge"
    number, request, question, before, reserved, _ = books.charges[at]
    if before != "reserved" and at not in books.resumable:
        return "its charge was closed before"
    books.resumable.discard(at)
    books.charges[at] = (number, request, question, state, reserved, seq)
    return None


def _amend(books: LedgerState, seq: int, payload: dict[str, Any]) -> str | None:
    del seq
    if not payload["reason"]:
        return "it has no reason"
    if "cap" in payload:
        cap = loss_from_dict(payload["cap"])
        if type(cap) is not type(books.caps[0]) or set(cap.amounts()) != set(books.spent):
            return "it changes the kind of the cap"
        if any(books.spent[name] > most for name, most in cap.amounts().items()):
            return "it sets the cap below what was spent"
        books.caps.append(cap)
    caps = {who: loss_from(amounts_from_dict(cap)) for who, cap in payload.get("shares", {}).items()}
    books.shares = _sums(books).change_shares(caps).shares
    for old, new in payload.get("renamed", {}).items():
        books.declarations[new] = books.declarations.pop(old)
    for table, declaration in payload.get("declarations", {}).items():
        if table not in books.declarations:
            return "it amends a table that was not declared"
        books.declarations[table] = declaration
    books.amendments += 1
    return None


def _restore(books: LedgerState, seq: int, payload: dict[str, Any]) -> str | None:
    del seq
    lost = amounts_from_dict(payload["lost"])
    if not payload["reason"] or set(lost) != set(books.spent) or min(lost.values()) < 0:
        return "it has no reason, or does not count what was lost"
    after = _sums(books).restore(lost)
    if (loss_from_dict(payload["cap"]) if "cap" in payload else books.caps[-1]) != after.cap:
        return "it sets another cap than what was spent"
    if after.cap != books.caps[-1]:
        books.caps.append(after.cap)
    books.spent = dict(after.spent)
    books.shares = after.shares
    books.lost = {name: books.lost.get(name, Fraction(0)) + amount for name, amount in lost.items()}
    books.restored += 1
    return None


_STEPS = {
    "restore": _restore,
    "open": _open,
    "declare": _declare,
    "share": _share,
    "reserve": _reserve,
    "commit": _commit,
    "fail": _fail,
    "amend": _amend,
}
