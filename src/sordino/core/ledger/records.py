"""What a ledger records: charges, outcomes, shares, declarations, as they are written and read back."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Literal

from sordino.core.domain import Domain
from sordino.core.errors import (
    BudgetExhausted,
    DeclarationChanged,
    DeclarationError,
    QuestionRefused,
    UnknownName,
    nearest,
)
from sordino.core.ledger.allowance import Allowance, AllowanceSums
from sordino.core.loss import ZCDP, ApproxDP, Loss, PureDP, format_number, loss_from, loss_to_numbers, shorten_up
from sordino.core.neighbors import Neighbors
from sordino.core.source import Source

# ---- A ledger's entries: charges, chained entries, reports, and the one way each is written as text
#
# Nothing here opens a file. Text is canonical, so that equal values have equal hashes; amounts are exact fractions.

SOUND = "the ledger was edited or is damaged: restore a sound copy, the newest there is"
# the hash that the first entry names as the one before it
GENESIS = "0" * 64
_LARGEST_UNITS = 2**63 - 1

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)

State = Literal["reserved", "committed", "failed"]
STATES: Mapping[State, str] = {"committed": "answered", "failed": "failed", "reserved": "in doubt"}


@dataclass(frozen=True, slots=True)
class Charge:
    """The charge of one question: its id, exact amounts, event, note, question hash, request and state.

    `spent` and `remaining` are the ledger's right after it, read in its own transaction. `spender` names the share that it
    also counts against, and `share` is that share right after it; None without one. A charge is `resumable` if it failed for
    a reason that neither rows nor noise decided.
    """

    id: str
    amounts: Mapping[str, Fraction]
    event: Mapping[str, Any]
    note: str
    question: str
    request: str | None
    time: str
    state: State
    spent: Loss
    remaining: Loss
    reason: str | None = None
    spender: str | None = None
    share: ShareSums | None = None
    resumable: bool = False

    @property
    def loss(self) -> Loss:
        """What was charged, as a loss of the kind that the ledger counts."""
        return loss_from(dict(self.amounts))


def resume_charge(charge: Charge, event: Mapping[str, Any], spender: str | None) -> Charge:
    """Return a charge that is to be answered; raises QuestionRefused unless it was made for this event and by this spender."""
    if charge.event != event or charge.spender != spender:
        raise QuestionRefused(f"this request id was charged as {charge.id} at another loss; use a new request id")
    # An entry has its keys sorted; an answer has the event's in the order of its fields.
    return replace(charge, event=event)


def charge_to_dict(budget: str, charge: Charge) -> dict[str, Any]:
    """Return a charge of a budget as JSON data: the question and its outcome, without the answer."""
    return {
        "id": charge.id,
        "budget": budget,
        "time": charge.time,
        "state": STATES[charge.state],
        "cost": loss_to_numbers(charge.loss),
        "request": charge.request,
        "question": charge.note,
        "spender": charge.spender,
    }


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """The stored answer of a request made before; nothing was charged for it now."""

    charge: Charge
    answer: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the chain; `hash` covers everything else in it, so also all entries before."""

    seq: int
    kind: str
    time: str
    payload: Mapping[str, Any]
    prev: str
    hash: str


@dataclass(frozen=True, slots=True)
class ShareSums:
    """One spender's share: the most that may be charged to it, and what was. It reserves nothing."""

    cap: Loss
    spent: Loss
    # canonical, and stored, since the sums of many shares are hashed at each charge
    text: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", canonical(self.to_dict()))

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> ShareSums:
        """Return the share that `to_dict` wrote."""
        return cls(loss_from(amounts_from_dict(plain["cap"])), loss_from(amounts_from_dict(plain["spent"])))

    @property
    def remaining(self) -> Loss:
        """What the share leaves; the budget itself may leave less."""
        spent = self.spent.amounts()
        return loss_from({name: most - spent[name] for name, most in self.cap.amounts().items()})

    def charge(self, amounts: Mapping[str, Fraction], spender: str) -> ShareSums:
        """Return the share after one more charge; raise BudgetExhausted where it would pass the share."""
        after = {name: add_up(spent, amounts[name]) for name, spent in self.spent.amounts().items()}
        if any(after[name] > most for name, most in self.cap.amounts().items()):
            loss = loss_from(dict(amounts))
            left = self.remaining
            rule = f"the share of {spender!r} does not cover this: it asks for {_words(loss)}, and {_words(left)}"
            raise BudgetExhausted(f"{rule} of {_words(self.cap)} is left; nothing was charged", asked=loss, left=left)
        return replace(self, spent=loss_from(after))

    def change_cap(self, cap: Loss) -> ShareSums:
        """Return the share with another cap; raise DeclarationError unless it covers what was spent."""
        if any(self.spent.amounts()[name] > most for name, most in cap.amounts().items()):
            rule = f"a share cannot be set below what was spent of it ({_words(self.spent)})"
            raise DeclarationError(f"{rule}; set it to that or more: spent budget does not return")
        return replace(self, cap=cap)

    def to_dict(self) -> dict[str, Any]:
        """Return the share as plain data."""
        return {"cap": amounts_to_dict(self.cap.amounts()), "spent": amounts_to_dict(self.spent.amounts())}


@dataclass(frozen=True, slots=True)
class Sums:
    """The sums of a ledger after an entry, which records them: so the sums are chained as the entries are.

    `carried` is the part of `spent` that ledgers before this one spent at the same path; `tables` is the hash of the
    declarations; `shares` are those of spenders, by name, of which an entry holds the hash. Sums without shares have the same
    text as before shares existed.
    """

    ledger: str
    cap: Loss
    carried: Mapping[str, Fraction]
    spent: Mapping[str, Fraction]
    charges: int
    tables: str
    shares: Mapping[str, ShareSums] = field(default_factory=dict)
    allowance: AllowanceSums | None = None
    # as plain data, from the first time that it was needed: the entry of an answer states the sums of its charge again
    plain: Mapping[str, Any] | None = field(default=None, init=False, repr=False, compare=False)

    def to_dict(self, *, spells: bool = False) -> Mapping[str, Any]:
        """Return the sums as plain data; with `spells` each share is written out, as in entries of older versions."""
        if spells and self.shares:
            return self._with_shares({name: share.to_dict() for name, share in self.shares.items()})
        if self.plain is None:
            shares = texts_digest({name: share.text for name, share in self.shares.items()}) if self.shares else None
            object.__setattr__(self, "plain", self._with_shares(shares))
        assert self.plain is not None
        return self.plain

    def _with_shares(self, shares: Any) -> Mapping[str, Any]:
        """Return the sums as plain data; of the shares it has what is given, None for none."""
        return {
            **({} if shares is None else {"shares": shares}),
            **({} if self.allowance is None else {"allowance": self.allowance.to_dict()}),
            "ledger": self.ledger,
            "cap": loss_to_dict(self.cap),
            "spent": amounts_to_dict(self.spent),
            "carried": amounts_to_dict(self.carried),
            "charges": self.charges,
            "tables": self.tables,
        }

    def charge(self, amounts: Mapping[str, Fraction], spender: str | None = None, *, time: str = "") -> Sums:
        """Return the sums after one more charge, to a spender's share too; raise BudgetExhausted if it would exceed a cap.

        `time` is the entry's, which says whose period's allowance it takes from, where there is one.
        """
        if spender is not None and spender not in self.shares:
            raise UnknownName(f"no share of {spender!r} is declared in this ledger; {nearest(spender, self.shares)}")
        after = {name: add_up(self.spent[name], amounts[name]) for name in self.spent}
        if any(after[name] > most for name, most in self.cap.amounts().items()):
            loss = loss_of(amounts, self.cap)
            left = self.remaining()
            rule = f"the budget does not cover this: it asks for {_words(loss)}, and {_words(left)}"
            rule += f" of {_words(self.cap)} is left"
            hint = "ask with at most what is left" if any(left.amounts().values()) else "nothing is left to ask with"
            raise BudgetExhausted(f"{rule}; nothing was charged; {hint}", asked=loss, left=left)
        shares = self.shares
        if spender is not None:
            shares = {**shares, spender: shares[spender].charge(amounts, spender)}
        allowance = None if self.allowance is None else self.allowance.charge(amounts, time)
        return replace(self, spent=after, charges=self.charges + 1, shares=shares, allowance=allowance)

    def declare_share(self, spender: str, cap: Loss, *, lost: Mapping[str, Fraction] = MappingProxyType({})) -> Sums:
        """Return the sums with one more share; raise DeclarationError where it is of another kind than the cap, or above it.

        What ledgers before this one spent, and what was spent in `lost` entries, counts against each share up to its cap,
        since whose it was is not known.
        """
        limits = check_share(spender, cap, of=self.cap)
        spent = {n: min(self.carried[n] + lost.get(n, Fraction(0)), most) for n, most in limits.amounts().items()}
        return replace(self, shares={**self.shares, spender: ShareSums(limits, loss_from(spent))})

    def declare_allowance(self, allowance: Allowance, months: Mapping[str, Mapping[str, Fraction]]) -> Sums:
        """Return the sums with an allowance, of which `months` were spent; raise DeclarationError where the cap forbids it."""
        allowance.check(self.cap)
        return replace(self, allowance=AllowanceSums(allowance, months))

    def amend_allowance(self, allowance: Allowance, time: str) -> Sums:
        """Return the sums with another allowance from its next period on; raise DeclarationError where there is none yet."""
        if self.allowance is None:
            raise DeclarationError("no allowance is on record: it is stated when the budget is opened", key="allowance")
        allowance.check(self.cap)
        return replace(self, allowance=self.allowance.amend(allowance, time))

    def restore(self, lost: Mapping[str, Fraction], *, time: str = "") -> Sums:
        """Return the sums with what was spent in lost entries, which counts against each share up to its cap.

        A cap that the copy has lower than what was spent is raised to it: nothing is left of it.
        """
        spent = {name: add_up(amount, lost[name]) for name, amount in self.spent.items()}
        most = {name: max(amount, spent[name]) for name, amount in self.cap.amounts().items()}
        cap = self.cap
        if most != dict(cap.amounts()):
            cap = loss_from_dict(loss_to_dict(cap) | amounts_to_dict(most))
        shares = {}
        for who, share in self.shares.items():
            limits = share.cap.amounts()
            sums = {name: min(add_up(a, lost[name]), limits[name]) for name, a in share.spent.amounts().items()}
            shares[who] = replace(share, spent=loss_from(sums))
        allowance = None if self.allowance is None else self.allowance.add(lost, time)
        return replace(self, cap=cap, spent=spent, shares=shares, allowance=allowance)

    def change_shares(self, caps: Mapping[str, Loss]) -> Sums:
        """Return the sums with other caps of shares; raise DeclarationError for a share that is not declared, or a bad cap."""
        shares = dict(self.shares)
        for spender, cap in caps.items():
            if spender not in shares:
                raise DeclarationError(
                    f"no share of {spender!r} is declared in this ledger; {nearest(spender, shares)}"
                )
            shares[spender] = shares[spender].change_cap(check_share(spender, cap, of=self.cap))
        return replace(self, shares=shares)

    def change_cap(self, cap: Loss) -> Sums:
        """Return the sums under another cap; raise DeclarationError unless it is of the same kind and covers what was spent."""
        if type(cap) is not type(self.cap) or set(cap.amounts()) != set(self.cap.amounts()):
            rule = f"a cap of {_words(self.cap)} cannot become one of {_words(cap)}: the kind of a cap is fixed at creation"
            raise DeclarationError(f"{rule}; keep its kind, or start a new ledger at another path")
        if any(self.spent[name] > most for name, most in cap.amounts().items()):
            rule = f"the cap cannot be set below what was spent ({self.describe()})"
            raise DeclarationError(f"{rule}; set it to that or more: spent budget does not return")
        return replace(self, cap=cap)

    def total(self) -> Loss:
        """Return all that was spent."""
        return loss_of(self.spent, self.cap)

    def remaining(self) -> Loss:
        """Return what the cap leaves."""
        return remaining_of(self.spent, self.cap)

    def describe(self) -> str:
        """Return what was spent of the cap, in words."""
        return ", ".join(
            f"{name} {format_number(self.spent[name])} of {format_number(most)}"
            for name, most in self.cap.amounts().items()
        )

    def own(self) -> dict[str, Fraction]:
        """Return what was charged in this ledger itself."""
        return {name: self.spent[name] - self.carried[name] for name in self.spent}


@dataclass(frozen=True, slots=True)
class Former:
    """Another ledger that was at the same path, as this machine remembers it: its entries and its charges."""

    ledger: str
    entries: int
    spent: Mapping[str, Fraction]

    def describe(self) -> str:
        """Return one line: its entries, what was spent, and its id."""
        return f"{self.entries} entries, {_list_amounts(self.spent) or 'nothing'} spent (ledger {self.ledger[:8]})"


@dataclass(frozen=True, slots=True)
class Report:
    """The result of verifying a ledger; `mark` is "agrees", "missing" (a new machine) or "none" (in memory)."""

    ledger: str
    entries: int
    committed: int
    failed: int
    in_doubt: int
    spent: Loss
    cap: Loss
    caps: tuple[Loss, ...]
    amendments: int
    unmarked: int
    head: str
    mark: Literal["agrees", "missing", "none"]
    predecessor: tuple[str, int] | None
    carried: Mapping[str, Fraction]
    others: tuple[Former, ...]
    shares: Mapping[str, ShareSums] = field(default_factory=dict)
    allowance: AllowanceSums | None = None
    restored: int = 0
    lost: Mapping[str, Fraction] = field(default_factory=dict)

    @property
    def uncounted(self) -> dict[str, Fraction]:
        """What other ledgers at this path spent that this one does not count, by the marks of this machine."""
        total: dict[str, Fraction] = {}
        for other in self.others:
            for name, amount in other.spent.items():
                total[name] = total.get(name, Fraction(0)) + amount
        left = {name: amount - self.carried.get(name, Fraction(0)) for name, amount in total.items()}
        return {name: amount for name, amount in left.items() if amount > 0}

    def describe_before(self) -> list[str]:
        """Return sentences about other ledgers at this path: what was carried over from them, and what was not."""
        sentences = []
        if self.predecessor is not None:
            sentences.append(
                f"begun after another ledger at this path, of {self.predecessor[1]} entries, was gone: "
                f"{_list_amounts(self.carried)} carried over"
            )
        if self.uncounted:
            others = "; ".join(other.describe() for other in self.others)
            sentences.append(
                f"{_list_amounts(self.uncounted)} was spent in another file that lay at this path, and is not counted here: "
                f"{others}"
            )
        return sentences

    def describe(self) -> str:
        """Return the findings in words."""
        sentences = [
            f"{self.entries} entries, each chained to the one before; they sum to {self.spent.describe()} of "
            f"{self.cap.describe()}",
            f"{self.committed} answered, {self.failed} failed, {self.in_doubt} in doubt (all count as spent)",
        ]
        sentences += [
            f"{who} has spent {_words(share.spent)} of a share of {_words(share.cap)}"
            for who, share in self.shares.items()
        ]
        marks = {
            "agrees": "the high-water mark agrees",
            "missing": "there is no high-water mark on this machine: a rollback before now cannot be detected",
            "none": "kept in memory only",
        }
        sentences.append(marks[self.mark])
        if self.unmarked:
            sentences.append(f"written to {self.unmarked} times on a machine without its mark")
        if self.amendments:
            caps = ", ".join(cap.describe() for cap in self.caps)
            sentences.append(f"amended {self.amendments} times; caps in turn: {caps}")
        if self.restored:
            sentences.append(
                f"gone on from an older copy {self.restored} times: {_list_amounts(self.lost)} spent in lost entries is counted"
            )
        sentences += self.describe_before()
        return "; ".join(sentences)

    def to_dict(self) -> dict[str, Any]:
        """Return the findings as JSON data."""
        return {
            "ledger": self.ledger,
            "entries": self.entries,
            "answered": self.committed,
            "failed": self.failed,
            "in_doubt": self.in_doubt,
            "spent": loss_to_numbers(self.spent),
            "cap": loss_to_numbers(self.cap),
            "amendments": self.amendments,
            "unmarked": self.unmarked,
            "restored": self.restored,
            "lost": amounts_to_dict(self.lost),
            "mark": self.mark,
            "head": self.head,
            "shares": {who: share.to_dict() for who, share in self.shares.items()},
            **formers_to_dict(self),
        }


def formers_to_dict(report: Report) -> dict[str, Any]:
    """Return a report's findings about other ledgers at its path, as plain data."""
    return {
        "predecessor": None if report.predecessor is None else list(report.predecessor),
        "carried": amounts_to_dict(report.carried),
        "uncounted": amounts_to_dict(report.uncounted),
        "others": [
            {"ledger": o.ledger, "entries": o.entries, "spent": amounts_to_dict(o.spent)} for o in report.others
        ],
    }


def canonical(value: object) -> str:
    """Return JSON text that is the same for equal values; raise DeclarationError for a value that JSON cannot hold."""
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError):
        raise DeclarationError(
            "a ledger holds plain data only: text, whole numbers, lists and tables of them"
        ) from None


def hash_of(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def texts_digest(texts: Mapping[str, str]) -> str:
    """Return the hash of canonical texts by name, such as those of all declarations, or of all shares."""
    return hash_of(canonical(sorted([name, text] for name, text in texts.items())))


def entry_hash(seq: int, kind: str, time: str, payload: str, prev: str) -> str:
    """Return the hash of an entry: SHA-256 of the canonical JSON list of its parts, `payload` as its own text."""
    return hash_of(canonical([seq, kind, time, payload, prev]))


def share_after(payload: Mapping[str, Any]) -> ShareSums | None:
    """Return the share of an entry's spender right after its charge, None where it has no spender."""
    if payload.get("spender") is None:
        return None
    shares = {payload["spender"]: payload["share"]} if "share" in payload else payload["after"]["shares"]
    return ShareSums.from_dict(shares[payload["spender"]])


def charge_id(number: int) -> str:
    """Return the id of the charge with this number, such as "c-0001"."""
    return f"c-{number:04d}"


def charge_number(name: str) -> int:
    """Return the number in a charge's id; raise UnknownName unless it is one."""
    digits = name.removeprefix("c-")
    if not (name.startswith("c-") and digits.isascii() and digits.isdigit() and len(digits) < 18):
        raise UnknownName('a charge is named like "c-0001"; list them with `sordino releases`')
    return int(digits)


def check_share(spender: str, share: Loss, *, of: Loss) -> Loss:
    """Return a share as a ledger stores it; raise DeclarationError where it is not of the cap's kind, or above the cap."""
    amounts = share.amounts()
    most = of.amounts()
    if set(amounts) != set(most):
        raise DeclarationError(f"the share of {spender!r} must be of the cap's kind: {', '.join(most)}")
    if any(amount > most[name] for name, amount in amounts.items()):
        rule = f"the share of {spender!r}, {_words(share)}, is larger than the cap of {_words(of)}"
        raise DeclarationError(f"{rule}: a share is a part of its budget")
    return loss_from(amounts)


def loss_of(amounts: Mapping[str, Fraction], cap: Loss) -> Loss:
    """Return amounts as a loss of the cap's kind."""
    return loss_from(dict(amounts), delta=cap.delta if isinstance(cap, ZCDP) else None)


def remaining_of(spent: Mapping[str, Fraction], cap: Loss) -> Loss:
    """Return what a cap leaves when these amounts are spent."""
    return loss_of({name: max(most - spent[name], Fraction(0)) for name, most in cap.amounts().items()}, cap)


def add_up(spent: Fraction, amount: Fraction) -> Fraction:
    """Return the sum, exactly; beyond sixty decimals it is rounded up, so that its text stays short."""
    return shorten_up(spent + amount)


def units(amount: Fraction) -> int:
    """Return an amount in whole units of 10^-15, rounded down: the second guard under the exact sum."""
    return min(math.floor(amount * 10**15), _LARGEST_UNITS)


def amounts_to_dict(amounts: Mapping[str, Fraction]) -> dict[str, str]:
    """Return amounts as text."""
    return {name: str(amount) for name, amount in amounts.items()}


def amounts_from_dict(plain: Mapping[str, str]) -> dict[str, Fraction]:
    """Return amounts from text."""
    return {name: Fraction(text) for name, text in plain.items()}


def loss_to_dict(loss: Loss) -> dict[str, str]:
    """Return a loss as plain data: its kind and its exact numbers as text.

    >>> loss_to_dict(PureDP("1/3"))
    {'kind': 'pure', 'epsilon': '1/3'}
    """
    if isinstance(loss, PureDP):
        return {"kind": "pure", "epsilon": str(loss.epsilon)}
    if isinstance(loss, ApproxDP):
        return {"kind": "approx", "epsilon": str(loss.epsilon), "delta": str(loss.delta)}
    if not isinstance(loss, ZCDP):
        raise DeclarationError("cap must be PureDP(epsilon), ApproxDP(epsilon, delta) or ZCDP(rho)")
    plain = {"kind": "zcdp", "rho": str(loss.rho)}
    if loss.delta is not None:
        plain["delta"] = str(loss.delta)
    if loss.slack is not None:
        plain["slack"] = str(loss.slack)
    return plain


def loss_from_dict(plain: Mapping[str, str]) -> Loss:
    """Return the loss that `loss_to_dict` wrote."""
    kind = plain.get("kind")
    if kind == "pure":
        return PureDP(Fraction(plain["epsilon"]))
    if kind == "approx":
        return ApproxDP(Fraction(plain["epsilon"]), Fraction(plain["delta"]))
    if kind == "zcdp":
        delta = Fraction(plain["delta"]) if "delta" in plain else None
        slack = Fraction(plain["slack"]) if "slack" in plain else None
        return ZCDP(Fraction(plain["rho"]), delta, slack)
    raise DeclarationError(f"a loss is of kind pure, approx or zcdp, not {str(kind)[:40]!r}")


def _words(loss: Loss) -> str:
    return _list_amounts(loss.amounts())


def _list_amounts(amounts: Mapping[str, Fraction]) -> str:
    return ", ".join(f"{name} {format_number(amount)}" for name, amount in amounts.items())


# ---- The declarations that a ledger's charges were made under, and which changes to them it accepts
#
# Declarations are plain data; of a recorded one, only two keys are read, which fix what a charge protects: the neighbor relation
# and the privacy unit.

_AMEND = 'to accept it, with a reason that stays on record: sordino ledger amend --reason "..."'

_PROMISED = "unit (promised, not named by a column)"

_ANEW = "name a new ledger: what was spent was stated for the old neighbors and unit, so these cannot be amended"


def declaration_of(domain: Domain, neighbors: Neighbors, source: object) -> dict[str, Any]:
    """Return the part of a declaration that a ledger records: columns, neighbors, unit, and the format of CSV cells."""
    csv = source.csv.to_dict() if isinstance(source, Source) and source.csv is not None else None
    return {**domain.to_dict(), **neighbors.to_dict(), "csv": csv}


def list_changes(old: Mapping[str, Any], new: Mapping[str, Any], *, under: str = "") -> dict[str, tuple[Any, Any]]:
    """Return the differences by dotted path: the old value and the new, None where there is none.

    >>> list_changes({"columns": {"age": {"upper": 99}}}, {"columns": {"age": {"upper": 125}}})
    {'columns.age.upper': (99, 125)}
    """
    changes: dict[str, tuple[Any, Any]] = {}
    for key in sorted({*old, *new}):
        before = old.get(key)
        after = new.get(key)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            changes |= list_changes(before, after, under=f"{under}{key}.")
        elif before != after or (key in old) != (key in new) or type(before) is not type(after):
            changes[f"{under}{key}"] = (before, after)
    return changes


def refuse_changed(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Raise DeclarationChanged where the declaration of a table is not the one that the ledger holds."""
    paths = list(list_changes(old, new))
    if paths:
        more = f" and {len(paths) - 8} more" if len(paths) > 8 else ""
        what = f"table {name!r} is declared differently from its ledger: {', '.join(paths[:8])}{more} changed"
        # an amendment of the neighbors or the unit would be refused
        can_amend = _unit_of(name, old) == _unit_of(name, new)
        raise DeclarationChanged(f"{what}; put it back, or {_AMEND if can_amend else _ANEW}")


def refuse_changed_share(spender: str, old: Loss, new: Loss) -> None:
    """Raise DeclarationChanged where the share of a spender is not the one that the ledger holds."""
    if old.amounts() != new.amounts():
        what = f"the ledger holds a share of {old.describe()} for {spender!r}, not {new.describe()}"
        raise DeclarationChanged(f"{what}; put it back, or {_AMEND}")


def accept_new(name: str, declaration: Mapping[str, Any], tables: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise DeclarationError unless a new table counts the same unit, by the same relation, as those declared before."""
    new = _people_of(name, declaration)
    for other, other_declaration in tables.items():
        old = _people_of(other, other_declaration)
        if old != new:
            rule = "one budget protects one kind of unit under one neighbor relation"
            both = f"table {name!r} ({_describe_unit(new)}) and table {other!r} ({_describe_unit(old)})"
            raise DeclarationError(f"{both} cannot share a ledger: {rule}; {_instead(new, old)}")


def accept_amended(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Raise DeclarationError where an amendment would change the neighbor relation or the kind of privacy unit."""
    if _unit_of(name, old) != _unit_of(name, new):
        rule = "the neighbor relation and the privacy unit cannot be amended: what was spent was stated for them"
        raise DeclarationError(f"table {name!r}: {rule}; keep them, or start a new ledger at another path")


def table_among(name: str, tables: Mapping[str, Any]) -> None:
    """Raise DeclarationError unless a table of this name is declared."""
    if name not in tables:
        raise DeclarationError(
            f"no table {name!r} is declared in this ledger, so none can be amended; {nearest(name, tables)}"
        )


def _unit_of(name: str, declaration: Mapping[str, Any]) -> tuple[str, str | None, str | None]:
    """Return the relation, the unit's column, None for a row, and its `of`; the caps on rows are left out, as they may change."""
    relation = declaration.get("neighbors")
    unit = declaration.get("privacy_unit")
    if relation not in ("add_remove", "replace"):
        raise DeclarationError(f'table {name!r} must declare neighbors = "add_remove" or "replace"')
    if isinstance(unit, Mapping) and isinstance(unit.get("column"), str):
        return relation, str(unit["column"]), unit.get("of")
    if isinstance(unit, Mapping) and "max_rows" in unit and "column" not in unit:
        return relation, _PROMISED, None
    if unit != "row":
        raise DeclarationError(f'table {name!r} must declare privacy_unit = "row" or a column with max_rows')
    return relation, None, None


def _people_of(name: str, declaration: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return the relation and the people that the unit stands for: its `of`, else its column; None for a row."""
    relation, column, of = _unit_of(name, declaration)
    return relation, of or column


def _instead(new: tuple[str, str | None], old: tuple[str, str | None]) -> str:
    """Return the advice for a new table that cannot share a ledger with an old one."""
    alone = "give the new table a ledger of its own"
    if new[0] != old[0] or None in (new[1], old[1]):
        return alone
    return f'{alone}, or, where both hold the same people, declare that: PrivacyUnit(..., of="person") in each'


def _describe_unit(people: tuple[str, str | None]) -> str:
    relation, column = people
    return f"{'one row' if column is None else f'all rows of one {column}'}, {relation}"


def amend_tables(
    tables: dict[str, Any], renamed: Mapping[str, str], changed: Mapping[str, Any], payload: dict[str, Any]
) -> dict[str, Any]:
    """Return the declarations under other names and words, and record the differences in the entry's payload."""
    for old, new in renamed.items():
        table_among(old, tables)
        if new in tables:
            raise DeclarationError(f"table {old!r} cannot be renamed {new!r}: that name is declared; use another")
        tables[new] = tables.pop(old)
    if renamed:
        payload["renamed"] = dict(renamed)
    differences = {}
    for table, declaration in changed.items():
        table_among(table, tables)
        accept_amended(table, tables[table], declaration)
        if changes := list_changes(tables[table], declaration):
            differences[table] = changes
    if differences:
        payload["declarations"] = {table: changed[table] for table in differences}
        payload["changed"] = differences
        tables |= payload["declarations"]
    return tables
