"""The lifetime ledger of a device: what its reports revealed so far, to anyone, under a cap of its owner's; durable.

It knows tasks by name and losses as fractions, never an answer: of a permanent answer it keeps the randomised form only.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from sordino.errors import BudgetExhausted, DeclarationError, LedgerError
from sordino.loss import Number, exact, shown
from sordino.noise.rng import Rng

__all__ = ["Lifetime", "LifetimeCharge"]

_APPLICATION = 0x536F724C  # "SorL"
_SCHEMA = (
    "CREATE TABLE device (one INTEGER PRIMARY KEY CHECK (one = 1), secret BLOB NOT NULL, cap TEXT NOT NULL)",
    """CREATE TABLE charges (number INTEGER PRIMARY KEY, signer TEXT NOT NULL, task TEXT NOT NULL, epoch TEXT NOT NULL,
    manifest BLOB NOT NULL, epsilon TEXT NOT NULL, permanent BLOB)""",
    "CREATE INDEX charges_of_task ON charges (signer, task, epoch)",
    """CREATE TRIGGER charges_stay BEFORE UPDATE ON charges
    BEGIN SELECT RAISE(ABORT, 'charges are never changed'); END""",
    """CREATE TRIGGER charges_last BEFORE DELETE ON charges
    BEGIN SELECT RAISE(ABORT, 'charges are never removed'); END""",
)


@dataclass(frozen=True, slots=True)
class LifetimeCharge:
    """One charge: who signed the task, its name, epoch and manifest hash, and the epsilon; None where free of charge."""

    signer: str
    task: str
    epoch: str
    manifest: bytes
    epsilon: Fraction


class Lifetime:
    """Hold a device's secret, its cap and its charges in a file. Made by `open`; charges are durable and never undone.

    Theorem: epsilons of independently randomised reports add up (basic composition; Dwork & Roth 2014, theorem 3.16),
    and all reports of one permanent answer together have its epsilon, charged once. So `spent()` bounds what everything
    this device ever sent reveals about its owner, and it never passes the cap.

    >>> import tempfile
    >>> place = tempfile.TemporaryDirectory()
    >>> lifetime = Lifetime.open(Path(place.name) / "device", cap=3, rng=Rng.seeded(1))
    >>> lifetime.spent(), lifetime.cap
    (Fraction(0, 1), Fraction(3, 1))
    >>> lifetime.close(); place.cleanup()
    """

    def __init__(self, db: sqlite3.Connection, *, where: str) -> None:
        self._db = db
        self._where = where
        with self._guarded():
            row = db.execute("SELECT secret, cap FROM device").fetchone()
        if row is None:
            raise LedgerError(f"the device's ledger {where} is damaged; put back a sound copy")
        self.secret: bytes = row[0]
        self.cap = Fraction(row[1])

    @classmethod
    def open(cls, path: Path | str, *, cap: Number, rng: Rng) -> Lifetime:
        """Open a device's file, made with a new secret and this cap if it is missing.

        Raises LedgerError where it is no such file, and DeclarationError where it holds another cap.
        """
        place, most = Path(path).expanduser().absolute(), exact(cap, name="cap")
        if most <= 0:
            raise DeclarationError(f"cap must be above 0, not {shown(most)}")
        try:  # only a new file is opened here: to close one that SQLite has open would drop its locks
            os.close(os.open(place, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            pass
        except OSError:
            raise LedgerError(f"the device's ledger {place} cannot be written; see its directory") from None
        db = sqlite3.connect(place, isolation_level=None, timeout=30)
        try:
            _begin(db, most, rng)
        except sqlite3.Error:
            db.close()
            raise LedgerError(f"{place} is there, but is no device's ledger; name another file") from None
        held = cls(db, where=str(place))
        if held.cap != most:
            had = shown(held.cap)
            held.close()
            raise DeclarationError(
                f"the device's ledger holds a cap of {had}, not {shown(most)}; open it with that one"
            )
        return held

    def spent(self) -> Fraction:
        """Return the sum of all charges."""
        return sum((one.epsilon for one in self.charges()), Fraction(0))

    def charges(self) -> list[LifetimeCharge]:
        """Return all charges, oldest first."""
        with self._guarded():
            rows = self._db.execute("SELECT signer, task, epoch, manifest, epsilon FROM charges ORDER BY number")
            return [LifetimeCharge(s, t, e, m, Fraction(x)) for s, t, e, m, x in rows]

    def charge(self, charge: LifetimeCharge, *, limit: Fraction) -> None:
        """Charge one freshly randomised report, before it is made; its task and epoch may sum up to `limit`.

        Raises BudgetExhausted where the limit or the cap would be passed, DeclarationError where the manifest changed
        within the epoch; nothing is charged then.
        """
        with self._transaction():
            earlier = self._earlier(charge)
            if any(permanent is not None for _, permanent in earlier):
                raise DeclarationError(
                    f"the task {charge.task!r} had a permanent answer in this epoch; it cannot change now"
                )
            spent = sum((epsilon for epsilon, _ in earlier), Fraction(0))
            if spent + charge.epsilon > limit:
                rule = (
                    f"the task {charge.task!r} may reveal epsilon {shown(limit)} in this epoch, {shown(spent)} is spent"
                )
                raise BudgetExhausted(
                    f"{rule}; nothing was sent", asked=shown(charge.epsilon), left=shown(limit - spent)
                )
            self._add(charge, None)

    def permanent(self, charge: LifetimeCharge, answer: bytes) -> bytes:
        """Return the permanent answer of a task and epoch: the first ever given, which alone is charged.

        `answer` is the randomised form to keep if there is none yet. Raises BudgetExhausted where the cap would be
        passed, DeclarationError where the manifest changed within the epoch; nothing is kept then.
        """
        with self._transaction():
            earlier = self._earlier(charge)
            for _, kept in earlier:
                if kept is not None:
                    return kept
            if earlier:
                raise DeclarationError(
                    f"the task {charge.task!r} had changing answers in this epoch; wait for the next one"
                )
            self._add(charge, answer)
            return answer

    def kept(self, charge: LifetimeCharge) -> bytes | None:
        """Return the permanent answer kept for a task and epoch, None where there is none yet."""
        with self._guarded():
            return next((kept for _, kept in self._earlier(charge) if kept is not None), None)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _earlier(self, charge: LifetimeCharge) -> list[tuple[Fraction, bytes | None]]:
        """Return the charges of a task and epoch; a changed manifest is refused: its noise would be a second look."""
        select = "SELECT manifest, epsilon, permanent FROM charges WHERE signer = ? AND task = ? AND epoch = ?"
        rows = self._db.execute(select, (charge.signer, charge.task, charge.epoch)).fetchall()
        if any(manifest != charge.manifest for manifest, _, _ in rows):
            rule = f"the task {charge.task!r} was changed within the epoch {charge.epoch!r}"
            raise DeclarationError(f"{rule}; answer it when it declares a new epoch")
        return [(Fraction(epsilon), permanent) for _, epsilon, permanent in rows]

    def _add(self, charge: LifetimeCharge, permanent: bytes | None) -> None:
        spent = sum((Fraction(e) for (e,) in self._db.execute("SELECT epsilon FROM charges")), Fraction(0))
        if spent + charge.epsilon > self.cap:
            asked, left = shown(charge.epsilon), shown(self.cap - spent)
            rule = (
                f"the task {charge.task!r} needs epsilon {asked}, and {left} of your cap of {shown(self.cap)} is left"
            )
            raise BudgetExhausted(f"{rule}; nothing was sent", asked=asked, left=left)
        row = (charge.signer, charge.task, charge.epoch, charge.manifest, str(charge.epsilon), permanent)
        insert = "INSERT INTO charges (signer, task, epoch, manifest, epsilon, permanent) VALUES (?, ?, ?, ?, ?, ?)"
        self._db.execute(insert, row)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Write all or nothing, on disk when the block ends."""
        with self._guarded():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, ValueError) as error:
            if isinstance(error, DeclarationError):
                raise
            raise LedgerError(f"the device's ledger {self._where} cannot be used: see its disk") from None

    def __repr__(self) -> str:
        return f"Lifetime({self._where}; spent epsilon {shown(self.spent())} of {shown(self.cap)})"


def _begin(db: sqlite3.Connection, cap: Fraction, rng: Rng) -> None:
    """Make the tables of a new file, whole or not at all; raise sqlite3.Error where another file lies there."""
    application = db.execute("PRAGMA application_id").fetchone()[0]
    if application != _APPLICATION and (application or db.execute("PRAGMA page_count").fetchone()[0]):
        raise sqlite3.DatabaseError("another file")
    for setting in ("journal_mode = WAL", "synchronous = FULL", "fullfsync = 1", "trusted_schema = 0"):
        db.execute(f"PRAGMA {setting}")
    db.execute("BEGIN IMMEDIATE")
    if not db.execute("PRAGMA application_id").fetchone()[0]:
        for statement in _SCHEMA:
            db.execute(statement)
        db.execute("INSERT INTO device VALUES (1, ?, ?)", (rng.bytes(32), str(cap)))
        db.execute(f"PRAGMA application_id = {_APPLICATION}")
    db.execute("COMMIT")
