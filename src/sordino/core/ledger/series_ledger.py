"""The state of series on a ledger: one half of each key, what was opened, and every step with what was released.

The other half of a key lies outside the ledger, beside the high-water mark, so that a copy of the ledger takes no noise off.
A step and its record are one transaction, and a series goes on only where nothing says that steps of it were lost.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sordino.core.accounting.event_fields import event_to_dict
from sordino.core.errors import DeclarationError, LedgerError, UnknownName, nearest
from sordino.core.ledger.high_water_mark import marks_directory
from sordino.core.ledger.ledger import Ledger, check_text, close_charge, reserve
from sordino.core.ledger.records import Charge, charge_id, charge_number, hash_of
from sordino.core.ledger.store import SERIES, Database, Transaction, has_series, sync_path
from sordino.core.loss import Event
from sordino.core.noise.rng import NoiseKey, Rng

_HALF = 32
# The name of the code that shows whether a key is that of its series.
_CHECK = "the key of the series"


@dataclass(frozen=True, slots=True)
class SeriesRecord:
    """A series as it was opened: its name, the charge that paid for it, its arguments, and the answer of that charge.

    `ended` says why it cannot go on, and is empty while it can. `secret` is the half of its key that the ledger keeps.
    """

    name: str
    charge: str
    arguments: Mapping[str, Any]
    time: str
    ended: str
    secret: str
    seal: str

    def __repr__(self) -> str:
        return f"<SeriesRecord {self.name!r}, charge {self.charge}>"


@dataclass(frozen=True, slots=True)
class StepRecord:
    """A released step of a series: its number from 1 on, its period, what was released as JSON text, and the noise's seal.

    `record` is the hash of the ledger's entry, which nobody can have for other numbers.
    """

    step: int
    period: str
    answer: str
    seal: str
    time: str
    record: str = ""


class SeriesLedger:
    """The series of one ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._writer = ledger.writer

    def names(self) -> list[str]:
        """Return the names of all series, in the order in which they were opened."""

        def read(db: Database) -> list[str]:
            if not has_series(db):
                return []
            return [row[0] for row in db.execute("SELECT name FROM series ORDER BY opened").fetchall()]

        return self._writer.read(read)

    def find(self, name: str) -> SeriesRecord | None:
        """Return a series by its name; None where there is none."""
        return self._writer.read(lambda db: _find(db, name))

    def of_charge(self, charge: str) -> SeriesRecord | None:
        """Return the series that a charge paid for; None where it paid for none."""

        def read(db: Database) -> SeriesRecord | None:
            if not has_series(db):
                return None
            row = db.execute("SELECT name FROM series WHERE charge = ?", (charge_number(charge),)).fetchone()
            return None if row is None else _find(db, row[0])

        return self._writer.read(read)

    def get(self, name: str) -> SeriesRecord:
        """Return a series by its name; raises UnknownName."""
        record = self.find(name)
        if record is None:
            raise UnknownName(f"there is no series {name!r:.60} on this ledger; {nearest(name, self.names())}")
        return record

    def steps(self, name: str) -> list[StepRecord]:
        """Return the released steps of a series, in their order."""
        return self._writer.read(lambda db: _steps(db, name, "step >= ?", 1))

    def numbers(self, name: str) -> list[int]:
        """Return the numbers of the released steps of a series, in their order; no answer is read."""

        def read(db: Database) -> list[int]:
            if not has_series(db):
                return []
            select = "SELECT step FROM series_steps WHERE series = ? ORDER BY step"
            return [row[0] for row in db.execute(select, (name,)).fetchall()]

        return self._writer.read(read)

    def first(self, name: str) -> StepRecord | None:
        """Return the first released step; None before it."""
        return self._writer.read(lambda db: _end(db, name, "min"))

    def step(self, name: str, number: int) -> StepRecord | None:
        """Return a released step by its number; None where it was not released."""
        return next(iter(self._writer.read(lambda db: _steps(db, name, "step = ?", number))), None)

    def last(self, name: str) -> StepRecord | None:
        """Return the last released step; None before the first."""
        return self._writer.read(lambda db: _end(db, name, "max"))

    # ---- keys

    def draw_key(self, rng: Rng) -> NoiseKey:
        """Return a fresh key, whose outer half is that of this machine; raises LedgerError where it cannot be kept."""
        if self._ledger.path is None:
            return NoiseKey.draw(rng)
        outer = _read_half(self._outer)
        if outer is None and self.names():
            raise LedgerError(
                f"the key of this ledger's series is not on this machine: {self._outer}. Put it there from the machine that "
                "opened the first one: a series of another key could not go on elsewhere"
            )
        return NoiseKey.draw(rng, outer=_keep_half(self._outer, rng.bytes(_HALF)) if outer is None else outer)

    def key(self, record: SeriesRecord, *, private: bool) -> NoiseKey:
        """Return the key of a series; raises LedgerError where it is lost, or is another one."""
        if record.ended:
            raise LedgerError(f"the series {record.name!r} has ended: {record.ended}; {_AGAIN}")
        if self._ledger.path is None:
            outer: bytes | None = bytes.fromhex(record.secret[2 * _HALF :])
        else:
            outer = _read_half(self._outer)
        if outer is None:
            raise LedgerError(
                f"the series {record.name!r} cannot go on: its key is not on this machine, {self._outer}. Put that file back, "
                f"or copy it from the machine that opened the series; if it is lost, the series has ended: {_AGAIN}"
            )
        key = NoiseKey((outer, bytes.fromhex(record.secret[: 2 * _HALF])), private=private)
        if key.seal(b"", _CHECK, record.charge) != record.seal:
            raise LedgerError(
                f"the series {record.name!r} cannot go on: {self._outer} is not the key that it was opened with. Put that one "
                f"back; if it is lost, the series has ended: {_AGAIN}"
            )
        return key

    @property
    def _outer(self) -> Path:
        """The file of the half of all keys that lies outside the ledger."""
        mark = self._ledger.mark
        if mark is None:
            raise LedgerError("a ledger in memory keeps its keys in memory")
        if mark.parent == marks_directory():
            return mark.parent.parent / "keys" / mark.name
        return mark.with_name(mark.name + ".key")

    # ---- writing

    def open(
        self,
        name: str,
        *,
        event: Event,
        note: str,
        question: str,
        arguments: Mapping[str, Any],
        key: NoiseKey,
        answer: Callable[[Charge], str],
        spender: str | None = None,
    ) -> SeriesRecord:
        """Charge a series once, and put it on record with the half of its key: all in one transaction.

        Where another process has opened a series of this name, that one is returned and nothing is charged. Raises
        BudgetExhausted as `Ledger.charge`, and DeclarationError for a name that is no text.
        """
        check_text(name, name="name", empty=False)
        plain = event_to_dict(event)
        digest = hash_of(question)

        def job(step: Transaction) -> None:
            if has_series(step.db) and _find(step.db, name) is not None:
                return
            charge = reserve(step, event, plain, note=note, question=digest, request=None, spender=spender)
            text = answer(charge)
            close_charge(step, charge.id, "commit", {"charge": charge.id, "answer": text}, "committed")
            opened, _ = step.append("series", {"series": name, "charge": charge.id, "arguments": dict(arguments)})
            if not has_series(step.db):
                for statement in SERIES:
                    step.db.execute(statement)
            secret = key.halves[1].hex()
            if self._ledger.path is None:
                secret += key.halves[0].hex()
            row = (name, charge_number(charge.id), opened, secret, key.seal(b"", _CHECK, charge.id))
            step.db.execute("INSERT INTO series VALUES (?, ?, ?, ?, ?)", row)

        self._writer.write(job)
        return self.get(name)

    def record(self, name: str, step: StepRecord, *, after: int) -> StepRecord | None:
        """Put a step on record, durably, if the last one is still `after`; return it as recorded, with its time.

        Where another process has recorded this step, that one is returned; None where it has recorded another one since.
        Raises LedgerError where the series has ended.
        """

        def job(transaction: Transaction) -> StepRecord | None:
            db = transaction.db
            record = _find(db, name)
            if record is None or record.ended:
                reason = "it is not on this ledger" if record is None else record.ended
                raise LedgerError(f"the series {name!r} has ended: {reason}; {_AGAIN}")
            other = _steps(db, name, "step = ?", step.step)
            if other:
                return other[0]
            last = _end(db, name, "max")
            if (0 if last is None else last.step) != after:
                return None
            payload = {
                "series": name,
                "step": step.step,
                "period": step.period,
                "answer": step.answer,
                "seal": step.seal,
            }
            entry, time = transaction.append("step", payload)
            db.execute("INSERT INTO series_steps VALUES (?, ?, ?)", (name, step.step, entry))
            return StepRecord(step.step, step.period, step.answer, step.seal, time, transaction.hash)

        return self._writer.write(job)


_AGAIN = "what it released stays on record. Open another series, under another name, which is charged anew"
_RESTORED = (
    "its ledger was restored from an older copy, so steps of it may be lost, and their noise must not be used again"
)
_UNMARKED = (
    "its ledger was used on a machine without its high-water mark, where an older copy is not noticed, so steps of it may be "
    "lost, and their noise must not be used again"
)


def _find(db: Database, name: str) -> SeriesRecord | None:
    if not has_series(db):
        return None
    row = db.execute("SELECT charge, opened, secret, seal FROM series WHERE name = ?", (name,)).fetchone()
    if row is None:
        return None
    charge, opened, secret, seal = row
    time, payload = db.execute("SELECT time, payload FROM entries WHERE seq = ?", (opened,)).fetchone()
    arguments = json.loads(payload)["arguments"]
    return SeriesRecord(name, charge_id(charge), arguments, time, _why_ended(db, opened), secret, seal)


def _why_ended(db: Database, opened: int) -> str:
    """Return why a series cannot go on, from the entries after its opening; empty where nothing speaks against it.

    On a server every host writes that it had no mark when it first came, which says nothing about the ledger.
    """
    kinds = {row[0] for row in db.execute("SELECT DISTINCT kind FROM entries WHERE seq > ?", (opened,)).fetchall()}
    if "restore" in kinds:
        return _RESTORED
    return _UNMARKED if "open" in kinds and isinstance(db, sqlite3.Connection) else ""


def _end(db: Database, name: str, which: str) -> StepRecord | None:
    where = f"series_steps.step = (SELECT {which}(step) FROM series_steps WHERE series = ?)"
    return next(iter(_steps(db, name, where, name)), None)


def _steps(db: Database, name: str, where: str, *values: str | int) -> list[StepRecord]:
    """Return the steps of a series for which an SQL condition holds; its text is never a user's."""
    if not has_series(db):
        return []
    select = (
        "SELECT series_steps.step, entries.time, entries.hash, entries.payload FROM series_steps JOIN entries ON "
        f"entries.seq = series_steps.entry WHERE series = ? AND {where} ORDER BY series_steps.step"
    )
    records = []
    for step, time, digest, text in db.execute(select, (name, *values)).fetchall():
        payload = json.loads(text)
        records.append(StepRecord(step, payload["period"], payload["answer"], payload["seal"], time, digest))
    return records


def _read_half(path: Path) -> bytes | None:
    """Return the half of a key in a file; None where there is no file. Raises LedgerError where it holds something else."""
    try:
        half = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError:
        raise LedgerError(f"the key of this ledger's series cannot be read: {path}; let this user read it") from None
    if len(half) != _HALF:
        raise LedgerError(f"the key of this ledger's series is damaged: {path}; put a sound copy back")
    return half


def _keep_half(path: Path, half: bytes) -> bytes:
    """Keep half of a key in a file that its owner alone can read, on the disk when this returns; return the one that is there."""
    draft = path.with_name(f"{path.name}.{os.getpid()}-{hash_of(half.hex())[:8]}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(file, half)
            os.fsync(file)
        finally:
            os.close(file)
        try:
            # a link is made whole or not at all, and never over another process's
            with suppress(FileExistsError):
                os.link(draft, path)
        finally:
            draft.unlink()
        sync_path(path.parent)
    except OSError:
        raise DeclarationError(
            f"the key of a series is kept outside its ledger, and that place cannot be written: {path.parent}; set "
            "SORDINO_STATE to a directory that can be"
        ) from None
    kept = _read_half(path)
    if kept is None:
        raise LedgerError(f"the key of this ledger's series vanished as it was made: {path}; open the series again")
    return kept
