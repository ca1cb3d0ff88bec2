"""The durable ledger: append-only charges under a cap, made durable before data is touched, never refunded.

It knows events and declarations as plain data, and neither data nor noise. What was spent is an exact fraction; a crash
leaves a charge standing; the chain of entries and the high-water mark outside the file show a rollback.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from types import TracebackType
from typing import Any, overload

from sordino.core.accounting.composition import charge_amounts
from sordino.core.accounting.event_fields import event_to_dict
from sordino.core.errors import DeclarationChanged, DeclarationError, LedgerError
from sordino.core.ledger import records as declared
from sordino.core.ledger.allowance import Allowance, AllowanceSums, months_of
from sordino.core.ledger.high_water_mark import marks_at, marks_directory, read_mark
from sordino.core.ledger.location import Place, ServerPlace, locate
from sordino.core.ledger.records import (
    Charge,
    Entry,
    Former,
    Report,
    ShareSums,
    StoredAnswer,
    Sums,
    amounts_to_dict,
    canonical,
    charge_id,
    hash_of,
    loss_of,
    loss_to_dict,
    resume_charge,
    texts_digest,
)
from sordino.core.ledger.replay import replay
from sordino.core.ledger.store import (
    ENTRIES,
    RESTORE,
    Database,
    Transaction,
    answer_of,
    charge_of,
    charges_where,
    check_mark,
    check_series,
    declarations_of,
    end_of,
    entries_of,
    find_answer,
    find_charge,
    in_memory,
    lost_of,
    open_charge,
    quick_check,
    read_sums,
)
from sordino.core.ledger.writer import LedgerWriter, begin, exists, fresh_identity, refuse_gone, translate_errors
from sordino.core.loss import Event, Loss

_LAST_OF_QUESTION = "SELECT number FROM charges WHERE question = ? AND state = 'committed' ORDER BY number DESC LIMIT 5"
# characters of a note, a reason or a request id
_LONGEST = 2000
# Where an older copy is put on a machine that never saw the ledger, only the copy itself says what was spent.
_UNSEEN = (
    "this machine has no high-water mark of it, so whether it is an older copy is not known: if it is one, put the mark back "
    "too, or the newest copy. The next charge goes on from what it says, and it stays on record that there was no mark"
)


def utc_text(moment: datetime.datetime | None = None) -> str:
    """Return a moment in UTC, the present one by default, as the text of entries, which sorts by time."""
    utc = datetime.datetime.now(datetime.UTC) if moment is None else moment
    return utc.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Ledger:
    """The account of what was spent under one cap, on disk, or in memory for a laboratory. Made by `open` or `existing`.

    Several processes and threads may use one ledger, each by its own `Ledger` or a shared one: together they never pass
    the cap. The sum under the cap is a fully adaptive filter (Whitehouse, Ramdas, Rogers, Wu 2023; Rogers, Roth, Ullman,
    Vadhan 2016).

    >>> from sordino.core.accounting.events import LaplaceEvent
    >>> from sordino.core.loss import PureDP
    >>> ledger = Ledger.open(None, cap=PureDP(1))
    >>> charge = ledger.charge(LaplaceEvent(0.1), note="how many people", question="count()")
    >>> ledger.commit(charge, "17")
    >>> ledger
    Ledger(in memory, forgotten at exit; spent epsilon 0.1 of 1)
    """

    def __init__(self, writer: LedgerWriter, *, path: Place | None, mark: Path | None, identity: str) -> None:
        self._writer = writer
        self.path = path
        self.mark = mark
        self.id = identity

    @classmethod
    def open(
        cls,
        path: Path | ServerPlace | str | None,
        *,
        cap: Loss,
        mark: Path | None = None,
        clock: Callable[[], str] = utc_text,
    ) -> Ledger:
        """Open the ledger at `path`, made with this cap if it is missing; None keeps one in memory.

        `path` is a SQLite file, or `postgresql://HOST/DATABASE#NAME` for one that several hosts share.

        `mark` names the high-water mark's file; without it, it lies in the state directory ($SORDINO_STATE, else
        $XDG_STATE_HOME/sordino, else ~/.local/state/sordino). Raises DeclarationChanged where the ledger holds another
        cap, LedgerError where it is damaged, rolled back, or gone though this machine remembers it (`Ledger.new`), or a
        directory cannot be written.
        """
        if path is None:
            identity = fresh_identity("")
            first = {"ledger": identity, "cap": loss_to_dict(cap), "predecessor": None}
            db = in_memory(first, cap=cap, time=clock())
            return cls(LedgerWriter(None, mark=None, clock=clock, db=db), path=None, mark=None, identity=identity)
        # refuses a cap that is no loss before anything is opened
        loss_to_dict(cap)
        place = locate(path)
        if not exists(place):
            translate_errors(lambda: begin(place, cap=cap, mark=mark, time=clock()), str(place))
        ledger = cls.existing(place, mark=mark, clock=clock)
        ledger._writer.check()
        if ledger.cap != cap:
            recorded_cap = ledger.cap.describe()
            ledger.close()
            rule = f"the ledger holds a cap of {recorded_cap}, not {cap.describe()}; put it back"
            raise DeclarationChanged(f'{rule}, or amend it: sordino ledger amend --reason "..."')
        return ledger

    @classmethod
    def new(
        cls,
        path: Path | ServerPlace | str,
        *,
        cap: Loss,
        reason: str,
        mark: Path | None = None,
        clock: Callable[[], str] = utc_text,
    ) -> Ledger:
        """Begin a ledger where another one is gone for good; what was spent there carries over, the reason stays on record.

        Raises DeclarationError where the cap counts otherwise or is below what was spent, or a ledger is there.
        """
        check_text(reason.strip(), name="reason", empty=False)
        loss_to_dict(cap)
        place = locate(path)
        if exists(place):
            raise DeclarationError(
                f"the ledger {place} exists: ask through it, or amend it; no new one is started. If it is an older copy, go on "
                f"from it: {RESTORE}"
            )
        translate_errors(lambda: begin(place, cap=cap, mark=mark, time=clock(), reason=reason.strip()), str(place))
        return cls.existing(place, mark=mark, clock=clock)

    @classmethod
    def existing_or_none(cls, path: Path | ServerPlace | str) -> Ledger | None:
        """Open a ledger as it is, None if there never was one; raise LedgerError where one is gone or not sound."""
        place = locate(path)
        if exists(place):
            return cls.existing(place)
        refuse_gone(place)
        return None

    @classmethod
    def existing(
        cls, path: Path | ServerPlace | str, *, mark: Path | None = None, clock: Callable[[], str] = utc_text
    ) -> Ledger:
        """Open an existing ledger with any cap; raise LedgerError where there is none or it is not sound."""
        place = locate(path)
        writer = LedgerWriter(place, mark=None, clock=clock)
        identity = writer.read(read_sums).ledger
        writer.close()
        name = marks_directory() / identity if mark is None else Path(mark)
        writer = LedgerWriter(place, mark=name, clock=clock)
        writer.read(lambda db: quick_check(db, read_mark(name)))
        return cls(writer, path=place, mark=name, identity=identity)

    @overload
    def charge(
        self, event: Event, *, note: str, question: str, request: None = None, spender: str | None = None
    ) -> Charge: ...
    @overload
    def charge(
        self, event: Event, *, note: str, question: str, request: str | None, spender: str | None = None
    ) -> Charge | StoredAnswer: ...
    def charge(
        self, event: Event, *, note: str, question: str, request: str | None = None, spender: str | None = None
    ) -> Charge | StoredAnswer:
        """Charge an event, durably, before any data is touched; the charge then stands even if the answer fails.

        `question` is the canonical text of the question; its hash is stored. `request` is an idempotency key: the same id
        with the same question is charged once, and once answered returns a StoredAnswer. `spender` names the share
        (`declare_share`) that it counts against besides the cap: both sums are written in one transaction.

        Raises BudgetExhausted if it would exceed the cap or the share, UnknownName for a share that is not declared,
        DeclarationError where the event has no bound of the kind that the cap counts; for a request made before:
        QuestionRefused with another question or loss, InDoubt while it has no outcome, ChargedError where it failed. Nothing is
        charged in any of these cases, nor for a request that failed but may be resumed: that returns its charge, which takes
        one answer.
        """
        plain = event_to_dict(event)
        digest = hash_of(question)
        check_text(note, name="note", empty=True)
        if request is not None:
            check_text(request, name="request", empty=False)

        def job(step: Transaction) -> Charge | StoredAnswer:
            if request is not None:
                before = find_charge(step.db, request, digest)
                if before is not None and before.resumable:
                    return resume_charge(before, plain, spender)
                if before is not None:
                    return StoredAnswer(before, answer_of(step.db, before))
            return reserve(step, event, plain, note=note, question=digest, request=request, spender=spender)

        return self._writer.write(job)

    def commit(self, charge: Charge, answer: str) -> None:
        """Store the answer of a charge, JSON text, durably; send it only after this has returned.

        Raises DeclarationError where the text is not JSON, LedgerError where the charge is closed.
        """
        if not isinstance(answer, str) or not _is_json(answer):
            raise DeclarationError("an answer is stored as JSON text; pass json.dumps(...) of it")
        self._close(charge, "commit", {"charge": charge.id, "answer": answer}, "committed")

    def fail(self, charge: Charge, reason: str, *, resumable: bool = False) -> None:
        """Record that no answer came of a charge, with a reason that holds no data; the charge stands.

        One that is `resumable` may still be answered, once, under its request id. Only a failure that neither rows nor noise
        decided may be resumable: else repeating a request until it succeeds would select among answers by the data.
        """
        check_text(reason, name="reason", empty=False)
        payload: dict[str, Any] = {"charge": charge.id, "reason": reason}
        if resumable:
            payload["resumable"] = True
        self._close(charge, "fail", payload, "failed")

    def recall(self, request: str, question: str) -> StoredAnswer | None:
        """Return the stored answer of a request made before, None where it is new; nothing is charged.

        Raises QuestionRefused where the request asked another question, InDoubt while it has no outcome, ChargedError
        where it failed.
        """
        return self._writer.read(lambda db: find_answer(db, request, hash_of(question)))

    def has_request(self, request: str) -> bool:
        """Return whether anything was charged under this request id, answered or not."""
        return self._writer.read(lambda db: bool(charges_where(db, "charges.request = ?", request)))

    def unknown(self) -> str:
        """Return a warning where this machine has no high-water mark, so that an older copy could go unnoticed; else ""."""
        return _UNSEEN if self.mark is not None and self._writer.seen() is None else ""

    def earlier(self, question: str) -> list[Charge]:
        """Return the last few answered charges of the same question, oldest first."""
        among_last = f"charges.number IN ({_LAST_OF_QUESTION})"
        return self._writer.read(lambda db: charges_where(db, among_last, hash_of(question)))

    def answer(self, charge: str) -> str:
        """Return the stored answer of a charge, by its id; raise UnknownName, InDoubt or ChargedError where none is."""
        return self._writer.read(lambda db: answer_of(db, charge_of(db, charge)))

    def head(self) -> str:
        """Return the hash of the last entry: while it is the same, nothing was written."""
        return self._writer.read(end_of)[2]

    def find(self, charge: str) -> Charge:
        """Return a charge by its id; raise UnknownName."""
        return self._writer.read(lambda db: charge_of(db, charge))

    def charges(self) -> list[Charge]:
        """Return all charges, oldest first, each with its state: reserved (in doubt), committed or failed."""
        return self._writer.read(lambda db: charges_where(db, "number >= ?", 0))

    def charges_since(self, time: str) -> list[Charge]:
        """Return the charges made at a moment or later, oldest first."""
        return self._writer.read(lambda db: charges_where(db, "made.time >= ?", time))

    def entries(self) -> list[Entry]:
        """Return the chain of entries, oldest first."""
        return self._writer.read(entries_of)

    @property
    def writer(self) -> LedgerWriter:
        """What runs jobs on the ledger in one transaction, for parts of a ledger that have a file of their own."""
        return self._writer

    @property
    def cap(self) -> Loss:
        """The cap as it now is."""
        return self._writer.read(read_sums).cap

    def spent(self) -> Loss:
        """Return all that was charged, answered or not."""
        return self._writer.read(read_sums).total()

    def remaining(self) -> Loss:
        """Return what can still be charged now: what the cap leaves, and the allowance of the period that runs."""
        sums = self._writer.read(read_sums)
        if sums.allowance is None:
            return sums.remaining()
        left = sums.allowance.left(self._writer.now())
        return loss_of({n: min(a, left[n]) for n, a in sums.remaining().amounts().items()}, sums.cap)

    def allowance(self) -> AllowanceSums | None:
        """Return the allowance on record, with what was spent of it by month; None where there is none."""
        return self._writer.read(read_sums).allowance

    def declare_allowance(self, allowance: Allowance | None) -> None:
        """Record an allowance the first time, and hold later ones to it: what was spent in the running period counts.

        Raises DeclarationChanged where another one is on record, or one is and None is stated; DeclarationError where it is of
        another kind than the cap, or above it.
        """
        sums = self.allowance()
        if sums is not None:
            latest = sums.allowance if sums.upcoming is None else sums.upcoming[1]
            if allowance is None or allowance.to_dict() != latest.to_dict():
                stated = "none" if allowance is None else allowance.describe()
                raise DeclarationChanged(
                    f"the ledger holds an allowance of {latest.describe()}, and {stated} is stated now; put it back"
                    + ("" if allowance is None else ', or amend it: sordino ledger amend --reason "..."')
                )
            return
        if allowance is None:
            return
        allowance.check(self.cap)

        def job(step: Transaction) -> None:
            # another process may have declared it first
            if step.sums.allowance is not None:
                return
            now = step.now()
            entries = [(one.kind, one.time, one.payload) for one in entries_of(step.db)]
            after = step.sums.declare_allowance(allowance, months_of(entries))
            step.append("allowance", {"allowance": allowance.to_dict()}, sums=after, time=now)

        self._writer.write(job)
        self.declare_allowance(allowance)

    def shares(self) -> Mapping[str, ShareSums]:
        """Return the shares on record, by spender: `.cap`, `.spent`, `.remaining`."""
        return self._writer.read(read_sums).shares

    def declare_share(self, spender: str, cap: Loss) -> None:
        """Record a spender's share of the cap the first time, and hold later ones to it.

        A share caps what its spender may charge; it reserves nothing, so shares may sum to more than the cap. Raises
        DeclarationChanged where another one is on record, DeclarationError where it is of another kind or above the cap.
        """
        check_text(spender, name="spender", empty=False)
        if self.is_share(spender, cap):
            return

        def job(step: Transaction) -> None:
            # another process may have declared it first
            if spender in step.sums.shares:
                declared.refuse_changed_share(spender, step.sums.shares[spender].cap, cap)
                return
            after = step.sums.declare_share(spender, cap, lost=lost_of(step.db))
            step.append("share", {"spender": spender, "cap": amounts_to_dict(cap.amounts())}, sums=after)

        self._writer.write(job)

    def is_share(self, spender: str, cap: Loss) -> bool:
        """Return whether this share is on record; raise DeclarationChanged where another one of the spender is."""
        share = self.shares().get(spender)
        if share is not None:
            declared.refuse_changed_share(spender, share.cap, cap)
        return share is not None

    def declare(self, table: str, declaration: Mapping[str, Any]) -> None:
        """Record a table's declaration the first time, and hold later ones to it.

        Raises DeclarationChanged, naming the keys, where it differs from the one recorded; DeclarationError where a new
        table has another neighbor relation or kind of privacy unit than those this ledger holds.
        """
        check_text(table, name="table", empty=False)
        if self.is_declared(table, declaration):
            return
        plain = json.loads(canonical(declaration))

        def job(step: Transaction) -> None:
            tables = declarations_of(step.db)
            # another process may have declared it first
            if table in tables:
                declared.refuse_changed(table, tables[table], plain)
                return
            declared.accept_new(table, plain, tables)
            after = replace(step.sums, tables=_digest(tables | {table: plain}))
            step.append("declare", {"table": table, "declaration": plain}, sums=after)
            step.db.execute("INSERT INTO declarations VALUES (?, ?)", (table, canonical(plain)))

        self._writer.write(job)

    def is_declared(self, table: str, declaration: Mapping[str, Any]) -> bool:
        """Return whether this declaration of a table is on record; raise DeclarationChanged where another one is."""
        tables = self.declarations()
        if table in tables:
            declared.refuse_changed(table, tables[table], json.loads(canonical(declaration)))
        return table in tables

    def declarations(self) -> dict[str, Any]:
        """Return the declaration of each table, by its name."""
        return self._writer.read(declarations_of)

    def amend(
        self,
        *,
        reason: str,
        cap: Loss | None = None,
        declarations: Mapping[str, Mapping[str, Any]] | None = None,
        renamed: Mapping[str, str] | None = None,
        shares: Mapping[str, Loss] | None = None,
        allowance: Allowance | None = None,
    ) -> None:
        """Change the cap, shares, declarations or table names, with a reason that stays on record; what was spent carries over.

        `renamed` maps old names to new; `declarations` go by new names. Raises DeclarationError for an empty reason, for
        another neighbor relation, kind of privacy unit or kind of cap, for a cap or a share below what was spent, for a
        share above the cap, for a table or share that is not declared, and where nothing would change. An `allowance` holds
        from its next period on: the one that runs keeps the one that it began with.
        """
        check_text(reason.strip(), name="reason", empty=False)
        changed = {table: json.loads(canonical(new)) for table, new in (declarations or {}).items()}

        def job(step: Transaction) -> None:
            payload: dict[str, Any] = {"reason": reason.strip()}
            now = step.now()
            after = _amend_sums(step.sums, cap, shares or {}, payload)
            if allowance is not None:
                amended = after.amend_allowance(allowance, now)
                before = after.allowance
                latest = None if before is None or before.upcoming is None else before.upcoming[1]
                if before is not None and allowance.to_dict() != (latest or before.allowance).to_dict():
                    payload["allowance"] = allowance.to_dict()
                    after = amended
            tables = declared.amend_tables(declarations_of(step.db), renamed or {}, changed, payload)
            if len(payload) == 1:
                raise DeclarationError("nothing would change; amend a cap, a share, a declaration or a table's name")
            step.append("amend", payload, sums=replace(after, tables=_digest(tables)), time=now)
            step.db.execute("DELETE FROM declarations")
            rows = [(table, canonical(words)) for table, words in tables.items()]
            step.db.executemany("INSERT INTO declarations VALUES (?, ?)", rows)

        self._writer.write(job)

    def verify(self) -> Report:
        """Replay the whole ledger and compare: the chain, the sums, each charge, the caps, the tables and the mark.

        Raises LedgerError naming the first entry that is wrong. No answer is shown.
        """
        return self._writer.read(self._verify)

    def close(self) -> None:
        """Close the ledger's file; one in memory is forgotten."""
        self._writer.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        place = "in memory, forgotten at exit" if self.path is None else str(self.path)
        try:
            words = f"spent {self._writer.read(read_sums).describe()}"
        except LedgerError:
            words = "closed or damaged"
        return f"Ledger({place}; {words})"

    def _close(self, charge: Charge, kind: str, payload: dict[str, Any], state: str) -> None:
        self._writer.write(lambda step: close_charge(step, charge.id, kind, payload, state))

    def _verify(self, db: Database) -> Report:
        # before the first read, which fixes the state that is read: so the mark is never ahead of it
        checkpoint = self._writer.seen()
        state = replay(db.execute(ENTRIES))
        # also compares the stored sums with those of the last entry, which was replayed
        quick_check(db, None, whole_schema=True)
        rows = db.execute("SELECT number, request, question, state, reserved, closed FROM charges ORDER BY number")
        for number, (row, replayed) in enumerate(zip_longest(rows, state.charges), start=1):
            if row != replayed:
                raise LedgerError(f"charge {charge_id(number)} is not as its entries say; restore a sound copy")
        check_series(db, state)
        check_mark(db, checkpoint, ledger=state.ledger, head=state.head)
        outcomes = [row[3] for row in state.charges]
        return Report(
            ledger=state.ledger,
            entries=state.head,
            committed=outcomes.count("committed"),
            failed=outcomes.count("failed"),
            in_doubt=outcomes.count("reserved"),
            spent=loss_of(state.spent, state.caps[-1]),
            cap=state.caps[-1],
            caps=tuple(state.caps),
            amendments=state.amendments,
            unmarked=state.unmarked,
            head=state.hash,
            mark="none" if self.mark is None else "missing" if checkpoint is None else "agrees",
            predecessor=state.predecessor,
            carried=state.carried,
            others=self._others(),
            shares=state.shares,
            allowance=state.allowance,
            restored=state.restored,
            lost=state.lost,
        )

    def _others(self) -> tuple[Former, ...]:
        """Return what the marks of this machine record about other ledgers at this path."""
        if self.path is None:
            return ()
        others = [one for one in marks_at(str(self.path)) if one.ledger != self.id]
        return tuple(Former(one.ledger, one.seq, one.amounts()) for one in others)


def reserve(
    step: Transaction,
    event: Event,
    plain: dict[str, Any],
    *,
    note: str,
    question: str,
    request: str | None,
    spender: str | None,
) -> Charge:
    """Charge an event, `plain` as JSON, within a transaction, and return the charge; `question` is a hash.

    Raises as `Ledger.charge`.
    """
    amounts = charge_amounts(event, step.sums.cap)
    # one reading of the clock, for the allowance and for the entry
    now = None if step.sums.allowance is None else step.now()
    after = step.sums.charge(amounts, spender, time=now or "")
    name = charge_id(after.charges)
    payload: dict[str, Any] = {
        "charge": name,
        "amounts": amounts_to_dict(amounts),
        "event": plain,
        "note": note,
    }
    if spender is not None:
        payload |= {"spender": spender, "share": after.shares[spender].to_dict()}
    seq, time = step.append("reserve", payload | {"question": question, "request": request}, sums=after, time=now)
    row = (after.charges, request, question, seq)
    step.db.execute("INSERT INTO charges VALUES (?, ?, ?, 'reserved', ?, NULL)", row)
    return Charge(
        id=name,
        amounts=amounts,
        event=plain,
        note=note,
        question=question,
        request=request,
        time=time,
        state="reserved",
        spent=after.total(),
        remaining=after.remaining(),
        spender=spender,
        share=None if spender is None else after.shares[spender],
    )


def close_charge(step: Transaction, charge: str, kind: str, payload: Mapping[str, Any], state: str) -> None:
    """Record the outcome of a charge within a transaction; raises LedgerError where it has one."""
    number = open_charge(step.db, charge)
    seq, _ = step.append(kind, payload)
    step.db.execute("UPDATE charges SET state = ?, closed = ? WHERE number = ?", (state, seq, number))


def _amend_sums(sums: Sums, cap: Loss | None, shares: Mapping[str, Loss], payload: dict[str, Any]) -> Sums:
    """Return the sums under another cap and other shares, and record the differences in the entry's payload."""
    after = sums
    if cap is not None and cap != after.cap:
        after = after.change_cap(cap)
        payload["cap"] = loss_to_dict(cap)
    amended = after.change_shares(shares)
    if amended != after:
        payload["shares"] = {
            who: amounts_to_dict(amended.shares[who].cap.amounts())
            for who in shares
            if amended.shares[who] != after.shares[who]
        }
    return amended


def check_text(text: object, *, name: str, empty: bool) -> None:
    """Raise DeclarationError unless this is text that an entry may hold; `empty` says whether it may be empty."""
    if not isinstance(text, str) or len(text) > _LONGEST or not (empty or text):
        raise DeclarationError(f"{name} must be text of {0 if empty else 1} to {_LONGEST} characters")


def _digest(tables: Mapping[str, Any]) -> str:
    return texts_digest({name: canonical(words) for name, words in tables.items()})


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
