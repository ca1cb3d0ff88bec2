"""The lifetime ledger of a device: what its reports revealed so far, to anyone, under a cap of its owner's; durable.

It knows tasks by name and losses as fractions, never an answer: of a permanent answer it keeps the randomised form only. Each
charge holds the sums after it, so a report reads two rows, however many came before; a mark outside the file says how far
it had come, so that an older copy put back is refused.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from sordino.core.errors import BudgetExhausted, DeclarationError, LedgerError
from sordino.core.ledger.high_water_mark import Checkpoint, HighWaterMark, lock_mark, marks_directory
from sordino.core.ledger.store import (
    FileFormat,
    create_tables,
    make_durable,
    make_private,
    open_sqlite,
    read_format,
    transact,
)
from sordino.core.loss import Number, format_number, to_fraction
from sordino.core.noise.rng import Rng

_GENESIS = "0" * 64
# Seconds to wait for another program that answers by the same file.
_PATIENCE = 30.0
_FORMAT = FileFormat(
    0x536F724C,  # "SorL"
    # Format 0 held no sums, and drew two permanent answers by the same words.
    2,
    (
        "CREATE TABLE device (one INTEGER PRIMARY KEY CHECK (one = 1), secret BLOB NOT NULL, cap TEXT NOT NULL)",
        """CREATE TABLE charges (number INTEGER PRIMARY KEY, signer TEXT NOT NULL, task TEXT NOT NULL, epoch TEXT NOT NULL,
    manifest BLOB NOT NULL, epsilon TEXT NOT NULL, permanent BLOB, total TEXT NOT NULL, within TEXT NOT NULL,
    hash TEXT NOT NULL)""",
        "CREATE INDEX charges_of_task ON charges (signer, task, epoch)",
        """CREATE TRIGGER charges_stay BEFORE UPDATE ON charges
    BEGIN SELECT RAISE(ABORT, 'charges are never changed'); END""",
        """CREATE TRIGGER charges_last BEFORE DELETE ON charges
    BEGIN SELECT RAISE(ABORT, 'charges are never removed'); END""",
    ),
)


@dataclass(frozen=True, slots=True)
class ClientCharge:
    """One charge: who signed the task, its name, epoch and manifest hash, and the epsilon; None where free of charge."""

    signer: str
    task: str
    epoch: str
    manifest: bytes
    epsilon: Fraction


class ClientLedger:
    """Hold a device's secret, its cap and its charges in a file. Made by `open`; charges are durable and never undone.

    Theorem: epsilons of independently randomised reports add up (basic composition; Dwork & Roth 2014, theorem 3.16),
    and all reports of one permanent answer together have its epsilon, charged once. So `spent()` bounds what everything
    this device ever sent reveals about its owner, and it never passes the cap.

    >>> import tempfile
    >>> place = tempfile.TemporaryDirectory()
    >>> lifetime = ClientLedger.open(Path(place.name) / "device", cap=3, rng=Rng.seeded(1), mark=Path(place.name) / "mark")
    >>> lifetime.spent(), lifetime.cap
    (Fraction(0, 1), Fraction(3, 1))
    >>> lifetime.close(); place.cleanup()
    """

    def __init__(self, db: sqlite3.Connection, *, where: str, mark: Path | None) -> None:
        self._db = db
        self._where = where
        with self._hide_database_errors():
            row = db.execute("SELECT secret, cap FROM device").fetchone()
        if row is None:
            raise LedgerError(f"the device's ledger {where} is damaged; restore a sound copy")
        self.secret: bytes = row[0]
        self.cap = Fraction(row[1])
        self._id = hashlib.sha256(b"sordino device" + self.secret).hexdigest()[:32]
        self._mark = marks_directory().parent / "devices" / self._id if mark is None else mark
        with lock_mark(self._mark) as high_water:
            self._compare(high_water)

    @classmethod
    def open(cls, path: Path | str, *, cap: Number, rng: Rng, mark: Path | None = None) -> ClientLedger:
        """Open a device's file, made with a new secret and this cap if it is missing.

        `mark` names the file of its high-water mark; without it, it lies in the state directory, under devices/. Raises
        LedgerError where it is no such file or an older copy of it, and DeclarationError where it holds another cap.
        """
        place = Path(path).expanduser().absolute()
        most = to_fraction(cap, name="cap")
        if most <= 0:
            raise DeclarationError(f"cap must be above 0, not {format_number(most)}")
        try:
            make_private(place)
        except OSError:
            raise LedgerError(f"the device's ledger {place} cannot be written; see its directory") from None
        db: sqlite3.Connection | None = None
        try:
            db = open_sqlite(place, patience=_PATIENCE, check_same_thread=True)
            _begin(db, most, rng)
            device = cls(db, where=str(place), mark=mark)
        except (sqlite3.Error, LedgerError) as error:
            if db is not None:
                db.close()
            if isinstance(error, LedgerError):
                raise
            raise LedgerError(f"{place} exists but is not a device's ledger; name another file") from None
        if device.cap != most:
            had = format_number(device.cap)
            device.close()
            raise DeclarationError(
                f"the device's ledger holds a cap of {had}, not {format_number(most)}; open it with that one"
            )
        return device

    def spent(self) -> Fraction:
        """Return the sum of all charges."""
        with self._hide_database_errors():
            return self._last()[1]

    def charges(self) -> list[ClientCharge]:
        """Return all charges, oldest first."""
        with self._hide_database_errors():
            rows = self._db.execute("SELECT signer, task, epoch, manifest, epsilon FROM charges ORDER BY number")
            return [ClientCharge(s, t, e, m, Fraction(x)) for s, t, e, m, x in rows]

    def charge(self, charge: ClientCharge, *, limit: Fraction) -> None:
        """Charge one freshly randomised report, before it is made; its task and epoch may sum up to `limit`.

        Raises BudgetExhausted where the limit or the cap would be passed, DeclarationError where the manifest changed
        within the epoch; nothing is charged then.
        """
        with self._transaction():
            earlier = self._earlier(charge)
            spent, permanent = (Fraction(0), None) if earlier is None else earlier
            if permanent is not None:
                raise DeclarationError(
                    f"the task {charge.task!r} had a permanent answer in this epoch; it cannot change now"
                )
            if spent + charge.epsilon > limit:
                most = format_number(limit)
                gone = format_number(spent)
                rule = f"the task {charge.task!r} may reveal epsilon {most} in this epoch, {gone} is spent"
                raise BudgetExhausted(
                    f"{rule}; nothing was sent", asked=format_number(charge.epsilon), left=format_number(limit - spent)
                )
            self._add(charge, None, within=spent + charge.epsilon)

    def permanent(self, charge: ClientCharge, answer: bytes) -> bytes:
        """Return the permanent answer of a task and epoch: the first ever given, which alone is charged.

        `answer` is the randomised form to keep if there is none yet. Raises BudgetExhausted where the cap would be
        passed, DeclarationError where the manifest changed within the epoch; nothing is kept then.
        """
        with self._transaction():
            earlier = self._earlier(charge)
            if earlier is not None and earlier[1] is not None:
                return earlier[1]
            if earlier is not None:
                raise DeclarationError(
                    f"the task {charge.task!r} had changing answers in this epoch; wait for the next one"
                )
            self._add(charge, answer, within=charge.epsilon)
            return answer

    def find_permanent(self, charge: ClientCharge) -> bytes | None:
        """Return the permanent answer kept for a task and epoch, None where there is none yet."""
        with self._hide_database_errors():
            earlier = self._earlier(charge)
            return None if earlier is None else earlier[1]

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _earlier(self, charge: ClientCharge) -> tuple[Fraction, bytes | None] | None:
        """Return the sum of a task and epoch and its permanent answer; a changed manifest would be a second look."""
        select = "SELECT manifest, within, permanent FROM charges WHERE signer = ? AND task = ? AND epoch = ?"
        named = (charge.signer, charge.task, charge.epoch)
        row = self._db.execute(f"{select} ORDER BY number DESC LIMIT 1", named).fetchone()
        if row is None:
            return None
        if row[0] != charge.manifest:
            rule = f"the task {charge.task!r} was changed within the epoch {charge.epoch!r}"
            raise DeclarationError(f"{rule}; answer it when it declares a new epoch")
        return Fraction(row[1]), row[2]

    def _last(self) -> tuple[int, Fraction, str]:
        """Return the number of the last charge, the sum after it and its hash, which covers all before it."""
        row = self._db.execute("SELECT number, total, hash FROM charges ORDER BY number DESC LIMIT 1").fetchone()
        return (0, Fraction(0), _GENESIS) if row is None else (row[0], Fraction(row[1]), row[2])

    def _add(self, charge: ClientCharge, permanent: bytes | None, *, within: Fraction) -> None:
        number, spent, before = self._last()
        if spent + charge.epsilon > self.cap:
            needed = format_number(charge.epsilon)
            left = format_number(self.cap - spent)
            rule = f"the task {charge.task!r} needs epsilon {needed}, and {left} of your cap of {format_number(self.cap)} is left"
            raise BudgetExhausted(f"{rule}; nothing was sent", asked=needed, left=left)
        sums = (str(spent + charge.epsilon), str(within))
        answer = None if permanent is None else permanent.hex()
        named = [charge.signer, charge.task, charge.epoch, charge.manifest.hex(), str(charge.epsilon), answer, *sums]
        digest = hashlib.sha256(json.dumps([before, number + 1, named]).encode()).hexdigest()
        row = (charge.signer, charge.task, charge.epoch, charge.manifest, str(charge.epsilon), permanent, *sums, digest)
        self._db.execute("INSERT INTO charges VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (number + 1, *row))

    def _compare(self, mark: HighWaterMark) -> None:
        """Raise LedgerError where the file is not as far as its mark, or has another charge in that place."""
        last = mark.seen
        if last is None or last.seq == 0:
            return
        with self._hide_database_errors():
            row = self._db.execute("SELECT hash FROM charges WHERE number = ?", (last.seq,)).fetchone()
        if last.ledger != self._id or row is None or row[0] != last.hash:
            raise LedgerError(
                f"the device's ledger {self._where} is an older copy, or another's: charges that this machine has seen are not "
                "in it, so answers would be given twice; restore the newest copy"
            )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Write all or nothing, on disk when the block ends; then the mark follows."""
        with lock_mark(self._mark) as mark, self._hide_database_errors():
            with transact(self._db):
                self._compare(mark)
                yield
                number, total, digest = self._last()
            # The charge stands; the next one advances the mark.
            with suppress(OSError):
                mark.advance(Checkpoint(self._id, number, digest, self._where, json.dumps({"epsilon": str(total)})))

    @contextmanager
    def _hide_database_errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, ValueError) as error:
            if isinstance(error, DeclarationError):
                raise
            raise LedgerError(f"the device's ledger {self._where} cannot be used: see its disk") from None

    def __repr__(self) -> str:
        return f"ClientLedger({self._where}; spent epsilon {format_number(self.spent())} of {format_number(self.cap)})"


def _begin(db: sqlite3.Connection, cap: Fraction, rng: Rng) -> None:
    """Make the tables of a new file, whole or not at all; raise sqlite3.Error where another file lies there."""
    application, version, empty = read_format(db)
    if application != _FORMAT.application and (application or not empty):
        raise sqlite3.DatabaseError("another file")
    if application and version != _FORMAT.version:
        raise LedgerError(
            "the device's ledger is of a former format, which this Sordino does not read; name another file"
        )
    make_durable(db)
    with transact(db):
        if not read_format(db)[0]:
            create_tables(db, _FORMAT)
            db.execute("INSERT INTO device VALUES (1, ?, ?)", (rng.bytes(32), str(cap)))
