"""Replaying a ledger's entries: what was spent, charged, declared and amended by them, and the first that is wrong.

Nothing here opens a file, and no error shows what an entry holds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from sordino.core.errors import BudgetExhausted, LedgerError, SordinoError
from sordino.core.ledger.allowance import Allowance, AllowanceSums, add_month, months_of
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

# seq, kind, time, payload, prev, hash
Row = tuple[int, str, str, str, str, str]


@dataclass(slots=True)
class LedgerState:
    """The state of a ledger after the entries replayed so far.

    `charges` are rows of the ledger's table of that name; `resumable` are the places in it of charges that failed and may be
    resumed.
    """

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
    resumable: set[int] = field(default_factory=set)
    # The time of the entry, what was spent by month, and the allowance.
    time: str = ""
    months: Mapping[str, Mapping[str, Fraction]] = field(default_factory=dict)
    allowance: AllowanceSums | None = None
    # Of each series: the number of its charge, its entry, and the entry of each of its steps.
    series: dict[str, tuple[int, int, dict[int, int]]] = field(default_factory=dict)


def replay(rows: Iterable[Row]) -> LedgerState:
    """Return the state after a ledger's entries; raise LedgerError naming the first that is missing, altered or wrong."""
    state = LedgerState()
    for seq, kind, time, payload, prev, digest in rows:
        if seq != state.head + 1:
            raise LedgerError(f"entry {state.head + 1} is missing; {_ADVICE}")
        if prev != state.hash or entry_hash(seq, kind, time, payload, prev) != digest:
            raise LedgerError(f"entry {seq} is not what was written: its hash does not fit; {_ADVICE}")
        state.time = time
        wrong = _apply(state, seq, kind, payload) or _compare_sums(state, payload)
        if wrong is not None:
            raise LedgerError(f"entry {seq} cannot follow those before it: {wrong}; {_ADVICE}")
        state.head = seq
        state.hash = digest
    if not state.caps:
        raise LedgerError(f"entry 1 is missing; {_ADVICE}")
    return state


def follow(rows: Iterable[Row], head: int, last: str) -> None:
    """Raise LedgerError unless each entry follows the one before it, from entry `head` of hash `last` on."""
    for seq, kind, time, payload, prev, digest in rows:
        if (seq, prev) != (head + 1, last) or entry_hash(seq, kind, time, payload, prev) != digest:
            raise LedgerError(f"entry {head + 1} is not what was written: its hash does not fit; {_ADVICE}")
        head = seq
        last = digest


def _compare_sums(state: LedgerState, text: str) -> str | None:
    """Return what is wrong with the sums that an entry holds, if anything."""
    try:
        after = json.loads(text)["after"]
        # older entries hold the shares themselves, newer ones their hash
        spells = isinstance(after.get("shares"), dict)
    except (KeyError, ValueError, AttributeError):
        return "its sums are not those of the ledger"
    tables = texts_digest({name: canonical(words) for name, words in state.declarations.items()})
    replayed = replace(_sums(state), tables=tables).to_dict(spells=spells)
    return None if after == replayed else "its sums do not follow from the entries before it"


def _sums(state: LedgerState) -> Sums:
    """Return the sums of the state, without the hash of the declarations."""
    cap = state.caps[-1]
    charges = len(state.charges)
    return Sums(state.ledger, cap, state.carried, state.spent, charges, "", state.shares, state.allowance)


_ADVICE = "restore a sound copy of the ledger, the newest there is"


def _apply(state: LedgerState, seq: int, kind: str, text: str) -> str | None:
    """Apply one entry to the state; return what is wrong with it, if anything."""
    try:
        payload = json.loads(text)
        if (seq == 1) != (kind == "open" and "ledger" in payload):
            return "only the first opens the ledger"
        return _STEPS[kind](state, seq, payload) if kind in _STEPS else "its kind is not known"
    except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError, IndexError, SordinoError):
        return "a part of it is missing or malformed"


def _open(state: LedgerState, seq: int, payload: dict[str, Any]) -> str | None:
    if seq > 1:
        state.unmarked += 1
        return None
    state.ledger = payload["ledger"]
    state.caps.append(loss_from_dict(payload["cap"]))
    nothing = dict.fromkeys(state.caps[0].amounts(), Fraction(0))
    state.carried = amounts_from_dict(payload["carried"]) if "carried" in payload else nothing
    if set(state.carried) != set(nothing) or min(state.carried.values()) < 0:
        return "it carries over a loss that the cap does not count"
    state.spent = dict(state.carried)
    state.months = months_of([("open", state.time, payload)])
    before = payload["predecessor"]
    state.predecessor = None if before is None else (before["ledger"], before["seq"])
    return None


def _declare(state: LedgerState, seq: int, payload: dict[str, Any]) -> str | None:
    del seq
    if payload["table"] in state.declarations:
        return "the table was declared before"
    state.declarations[payload["table"]] = payload["declaration"]
    return None


def _share(state: LedgerState, seq: int, payload: dict[str, Any]) -> str | None:
    del seq
    cap = loss_from(amounts_from_dict(payload["cap"]))
    if payload["spender"] in state.shares or not isinstance(payload["spender"], str):
        return "the share was declared before"
    state.shares = _sums(state).declare_share(payload["spender"], cap, lost=state.lost).shares
    return None


def _allowance(state: LedgerState, seq: int, payload: dict[str, Any]) -> str | None:
    del seq
    if state.allowance is not None:
        return "an allowance was stated before"
    state.allowance = _sums(state).declare_allowance(Allowance.from_dict(payload["allowance"]), state.months).allowance
    return None


def _spend(state: LedgerState, amounts: Mapping[str, Fraction]) -> None:
    """Count an amount in the month of its entry."""
    month = max(state.time[:7], *state.months) if state.months else state.time[:7]
    state.months = add_month(state.months, month, amounts)


def _reserve(state: LedgerState, seq: int, payload: dict[str, Any]) -> str | None:
    amounts = amounts_from_dict(payload["amounts"])
    if set(amounts) != set(state.spent) or min(amounts.values()) < 0:
        return "it does not charge what the cap counts"
    if charge_number(payload["charge"]) != len(state.charges) + 1:
        return "its charge is out of order"
    state.spent = {name: add_up(state.spent[name], amounts[name]) for name in state.spent}
    if any(state.spent[name] > most for name, most in state.caps[-1].amounts().items()):
        return "it passes the cap"
    if state.allowance is not None:
        try:
            state.allowance = state.allowance.charge(amounts, state.time)
        except BudgetExhausted:
            return "it passes the allowance"
    _spend(state, amounts)
    spender = payload.get("spender")
    if spender is not None:
        state.shares = {**state.shares, spender: state.shares[spender].charge(amounts, spender)}
        if share_after(payload) != state.shares[spender]:
            return "its share does not follow from the entries before it"
    number = len(state.charges) + 1
    state.charges.append((number, payload["request"], payload["question"], "reserved", seq, None))
    return None


def _commit(state: LedgerState, seq: int, payload: dict[str, Any]) -> str | None:
    return _close(state, seq, payload, "committed") if isinstance(payload["answer"], str) else "it has no answer"


def _fail(state: LedgerState, seq: int, payload: dict[str, Any]) -> str | None:
    wrong = _close(state, seq, payload, "failed")
    if wrong is None and payload.get("resumable", False):
        state.resumable.add(charge_number(payload["charge"]) - 1)
    return wrong


def _close(state: LedgerState, seq: int, payload: dict[str, Any], outcome: str) -> str | None:
    at = charge_number(payload["charge"]) - 1
    if at < 0:
        return "it names no charge"
    number, request, question, before, reserved, _ = state.charges[at]
    if before != "reserved" and at not in state.resumable:
        return "its charge was closed before"
    state.resumable.discard(at)
    state.charges[at] = (number, request, question, outcome, reserved, seq)
    return None


def _series(state: LedgerState, seq: int, payload: dict[str, Any]) -> str | None:
    at = charge_number(payload["charge"]) - 1
    name = payload["series"]
    if not isinstance(name, str) or name in state.series:
        return "the series was opened before"
    if at < 0 or state.charges[at][3] != "committed":
        return "its series is of no charge that was answered"
    state.series[name] = (at + 1, seq, {})
    return None


def _step(state: LedgerState, seq: int, payload: dict[str, Any]) -> str | None:
    steps = state.series[payload["series"]][2]
    step = payload["step"]
    if not isinstance(step, int) or isinstance(step, bool) or step <= max(steps, default=0):
        return "its step does not follow those before it"
    if not isinstance(payload["answer"], str):
        return "it has no answer"
    steps[step] = seq
    return None


def _amend(state: LedgerState, seq: int, payload: dict[str, Any]) -> str | None:
    del seq
    if not payload["reason"]:
        return "it has no reason"
    if "cap" in payload:
        cap = loss_from_dict(payload["cap"])
        if type(cap) is not type(state.caps[0]) or set(cap.amounts()) != set(state.spent):
            return "it changes the kind of the cap"
        if any(state.spent[name] > most for name, most in cap.amounts().items()):
            return "it sets the cap below what was spent"
        state.caps.append(cap)
    caps = {who: loss_from(amounts_from_dict(cap)) for who, cap in payload.get("shares", {}).items()}
    state.shares = _sums(state).change_shares(caps).shares
    if "allowance" in payload:
        allowance = Allowance.from_dict(payload["allowance"])
        state.allowance = _sums(state).amend_allowance(allowance, state.time).allowance
    for old, new in payload.get("renamed", {}).items():
        state.declarations[new] = state.declarations.pop(old)
    for table, declaration in payload.get("declarations", {}).items():
        if table not in state.declarations:
            return "it amends a table that was not declared"
        state.declarations[table] = declaration
    state.amendments += 1
    return None


def _restore(state: LedgerState, seq: int, payload: dict[str, Any]) -> str | None:
    del seq
    lost = amounts_from_dict(payload["lost"])
    if not payload["reason"] or set(lost) != set(state.spent) or min(lost.values()) < 0:
        return "it has no reason, or does not count what was lost"
    after = _sums(state).restore(lost, time=state.time)
    if (loss_from_dict(payload["cap"]) if "cap" in payload else state.caps[-1]) != after.cap:
        return "it sets another cap than what was spent"
    if after.cap != state.caps[-1]:
        state.caps.append(after.cap)
    state.spent = dict(after.spent)
    state.shares = after.shares
    state.allowance = after.allowance
    _spend(state, lost)
    state.lost = {name: state.lost.get(name, Fraction(0)) + amount for name, amount in lost.items()}
    state.restored += 1
    return None


_STEPS = {
    "restore": _restore,
    "open": _open,
    "declare": _declare,
    "share": _share,
    "allowance": _allowance,
    "reserve": _reserve,
    "commit": _commit,
    "fail": _fail,
    "amend": _amend,
    "series": _series,
    "step": _step,
}
