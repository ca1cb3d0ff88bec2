"""How a ledger is backed up, restored, and moved to a server."""

from __future__ import annotations

import datetime
import os
import shutil
from collections.abc import Callable
from contextlib import closing, nullcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

from sordino.core.errors import DeclarationError, LedgerError
from sordino.core.ledger.high_water_mark import Checkpoint, lock_mark, marks_at, marks_directory, read_mark
from sordino.core.ledger.ledger import Ledger, check_text, utc_text
from sordino.core.ledger.location import Place, ServerPlace, locate
from sordino.core.ledger.postgres_ledger import create_tables_once
from sordino.core.ledger.records import (
    Entry,
    amounts_from_dict,
    amounts_to_dict,
    canonical,
    charge_number,
    loss_to_dict,
)
from sordino.core.ledger.replay import replay
from sordino.core.ledger.store import (
    ENTRIES,
    SERIES,
    Database,
    Transaction,
    charges_where,
    check_mark,
    connect_file,
    entries_of,
    has_series,
    make_private,
    open_sqlite,
    quick_check,
    read_end,
    sync_path,
)
from sordino.core.ledger.writer import FairLock, exists, translate_errors
from sordino.core.loss import Loss

# ---- Moving a ledger from its SQLite file to a PostgreSQL server, with its whole chain. It charges nothing and
# opens no data

# the number of columns of each table
_TABLES = {"entries": 6, "state": 7, "budget": 4, "charges": 6, "declarations": 2, "shares": 6}
# those that are made with the first series
_SERIES_TABLES = {"series": 5, "series_steps": 3}


def move_ledger(old: Ledger, to: str | ServerPlace) -> Ledger:
    """Copy a ledger's chain and sums to a server and return the ledger there; the file stays as a record.

    First the chain is verified and the file's cap is set to what was spent, so that nothing can be charged there any more even
    if the move fails; then all is copied in one transaction; then the cap is restored on the server. Both changes are entries
    with a reason. Raises DeclarationError where the place is no server or has a ledger, LedgerError where a chain is
    not sound or the server fails; the cap of the file is then amended back by hand.
    """
    place = locate(to)
    if not isinstance(place, ServerPlace) or not isinstance(old.path, Path):
        raise DeclarationError("a ledger moves from its file to a server: postgresql://HOST/DATABASE#NAME")
    if exists(place):
        raise DeclarationError(f"there is a ledger at {place}: name another, such as postgresql://HOST/DATABASE#NAME")
    old.verify()
    cap = old.cap
    _amend(old, old.spent(), f"moved to {place}")
    old._writer.write(lambda step: translate_errors(lambda: _copy(step, place), str(place)))
    new = Ledger.existing(place, mark=old.mark)
    _amend(new, cap, f"moved from {old.path}")
    new.verify()
    return new


def _amend(ledger: Ledger, cap: Loss, reason: str) -> None:
    def job(step: Transaction) -> None:
        payload: dict[str, Any] = {"reason": reason}
        if cap != step.sums.cap:
            payload["cap"] = loss_to_dict(cap)
        step.append("amend", payload, sums=step.sums.change_cap(cap))

    ledger._writer.write(job)


def _copy(step: Transaction, place: ServerPlace) -> None:
    """Copy every row, while the file's lock keeps its writers out, and compare the end before the commit."""
    with create_tables_once(place) as server:
        if server is None:
            raise DeclarationError(f"there is a ledger at {place}: name another")
        tables = dict(_TABLES)
        if has_series(step.db):
            for statement in SERIES:
                server.execute(statement)
            tables |= _SERIES_TABLES
        for table, width in tables.items():
            marks = ", ".join("?" * width)
            server.executemany(f"INSERT INTO {table} VALUES ({marks})", _rows(step.db, table))
        if read_end(server) != (step.sums, step.head, step.hash):
            raise DeclarationError(f"the copy at {place} is not what was written; nothing was moved")
        server.execute("COMMIT")


def _rows(db: Database, table: str) -> list[Any]:
    if table == "shares" and not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'shares'").fetchone():
        return []
    return list(db.execute(f"SELECT * FROM {table} ORDER BY 1"))


# ---- Copies for a backup, while programs ask questions


def copy_sqlite(source: Path, target: Path) -> None:
    """Copy an SQLite file as of one moment, while other programs write to it; the copy takes `target`'s place as a whole.

    Only its owner can read it. Raises OSError or sqlite3.Error where the disk refuses it.
    """
    draft = target.with_name(f".{target.name}.draft")
    draft.unlink(missing_ok=True)
    make_private(draft)
    try:
        with (
            closing(open_sqlite(source, patience=60.0, check_same_thread=True)) as old,
            closing(open_sqlite(draft, patience=0.0, check_same_thread=True)) as new,
        ):
            old.backup(new)
            # one file, without a log beside it
            new.execute("PRAGMA journal_mode = DELETE")
        sync_path(draft)
        os.replace(draft, target)
        sync_path(target.parent)
    finally:
        draft.unlink(missing_ok=True)


def back_up_ledger(ledger: Ledger, target: Path) -> None:
    """Copy a ledger's file, once every entry is verified, so that `restore_ledger` can go on from the copy.

    Raises DeclarationError where the ledger is no file or the target is its own, LedgerError where it is not sound.
    """
    source = ledger.path
    if not isinstance(source, Path):
        raise DeclarationError(f"the ledger {source} is no file: its server's own tools back it up, such as pg_dump")
    if target.exists() and target.samefile(source):
        raise DeclarationError(f"{target} is the ledger itself: name another folder")
    ledger.verify()
    translate_errors(lambda: copy_sqlite(source, target), str(target))


# ---- Going on from an older copy of a ledger, where the newest was lost: what is known to have been spent since is counted
#
# The copy's high-water mark says what had been spent when the ledger was last seen. That, and not what the copy says, is what
# the restored ledger begins with; the questions it was spent on are lost with the entries.


def restore_ledger(
    path: Path | ServerPlace | str, *, reason: str, backup: Path | None = None, clock: Callable[[], str] = utc_text
) -> Ledger:
    """Go on from an older copy of the ledger at `path`, put there from `backup` where one is named.

    What the high-water mark of this machine records beyond the copy is counted as spent, against the budget and, since
    nobody knows whose it was, against every share; the reason stays on record. Answers after the copy are lost, so
    asking for them again charges again. The newest file, should it turn up, is refused from then on.

    Raises DeclarationError where a ledger is in the backup's place, or nothing is to be restored; LedgerError where the copy is
    not sound, this machine has no mark of it, or another ledger was used at `path` after it.
    """
    check_text(reason.strip(), name="reason", empty=False)
    place = locate(path)
    if backup is not None:
        translate_errors(lambda: _put(place, Path(backup)), str(place))
    elif not exists(place):
        raise DeclarationError(
            f'there is no ledger at {place}: name a copy of it, sordino ledger restore BACKUP --reason "..."; where there '
            'is none, begin another that carries over what was spent: sordino ledger new --reason "..."'
        )
    lost = translate_errors(lambda: _count_lost(place, reason.strip(), clock), str(place))
    if not lost and backup is None:
        raise DeclarationError(f"the ledger {place} is whole: nothing is to be restored, ask through it")
    return Ledger.existing(place, clock=clock)


def _put(place: Place, backup: Path) -> None:
    """Copy a backup into the place of a file that is gone, once it is known to be a sound copy of that ledger."""
    if isinstance(place, ServerPlace):
        raise DeclarationError(
            "a ledger on a server is put back by the server's own tools; then leave BACKUP out, to go on from there"
        )
    if not backup.is_file():
        raise DeclarationError(f"there is no file {backup}; name a copy of the ledger")
    with FairLock(place) as lock:
        try:
            if place.exists():
                raise DeclarationError(
                    f"there is a ledger at {place}: leave BACKUP out to go on from that one, or move it away first"
                )
            draft = place.with_name(place.name + "-new")
            for ending in ("", "-wal", "-shm", "-journal"):
                draft.with_name(draft.name + ending).unlink(missing_ok=True)
                place.with_name(place.name + ending).unlink(missing_ok=True)
            # the copy is opened, not the backup, whose directory may not be writable
            for ending in ("", "-wal"):
                source = backup.with_name(backup.name + ending)
                if source.exists():
                    target = draft.with_name(draft.name + ending)
                    make_private(target)
                    shutil.copyfile(source, target)
            with closing(connect_file(draft)) as db:
                _check_copy(db, place)
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            sync_path(draft)
            os.rename(draft, place)
            sync_path(place.parent)
        finally:
            lock.close()


def _check_copy(db: Database, place: Place) -> None:
    """Raise LedgerError unless this is a sound copy of the ledger last used at this place, of which this machine has a mark."""
    ledger = replay(db.execute(ENTRIES)).ledger
    quick_check(db, None, whole_schema=True)
    checkpoint = read_mark(marks_directory() / ledger)
    if checkpoint is None:
        raise LedgerError(
            f"this machine has no high-water mark of the ledger {ledger[:8]}, so nothing says what was spent after the "
            f"copy was made: put {marks_directory() / ledger} back too. Where you know that nothing was, put the copy "
            f"at {place} by hand: the next question is charged to it, and it stays on record that there was no mark"
        )
    if isinstance(place, Path) and checkpoint.path.startswith(("postgresql://", "postgres://")):
        raise LedgerError(f"the ledger was moved from its file to {checkpoint.path}: name that in the project file")
    last = marks_at(str(place))
    if last and last[0].ledger != ledger:
        raise LedgerError(
            f"another ledger, {last[0].ledger[:8]}, was used at {place} after {ledger[:8]}: put a copy of that one back"
        )


def _count_lost(place: Place, reason: str, clock: Callable[[], str]) -> bool:
    """Count what was spent in entries that the copy lacks, and advance the mark; return whether anything was missing."""
    lock: FairLock | None = None
    db: Database
    if isinstance(place, ServerPlace):
        from sordino.core.ledger.postgres_ledger import connect_server

        db = connect_server(place)
    else:
        lock = FairLock(place)
        db = connect_file(place)
    try:
        with closing(db):
            db.execute("BEGIN")
            _check_copy(db, place)
            db.execute("ROLLBACK")
            ledger = read_end(db)[0].ledger
            path = marks_directory() / ledger
            with lock or nullcontext(), lock_mark(path) as mark:
                db.execute("BEGIN IMMEDIATE")
                try:
                    step = Transaction(db, clock)
                    checkpoint = mark.seen
                    # _check_copy refuses a ledger without a mark
                    assert checkpoint is not None
                    try:
                        check_mark(db, checkpoint, ledger=ledger, head=step.head)
                        db.execute("ROLLBACK")
                        return False
                    except LedgerError:
                        pass
                    entries = entries_of(db)
                    at_mark = {"seq": checkpoint.seq, "hash": checkpoint.hash}
                    # a crash may have come between the entry and the mark
                    if not any(one.kind == "restore" and one.payload["mark"] == at_mark for one in entries):
                        lost = _lost_amounts(entries, checkpoint, path)
                        now = step.now()
                        after = step.sums.restore(lost, time=now)
                        payload: dict[str, Any] = {"reason": reason, "mark": at_mark, "lost": amounts_to_dict(lost)}
                        if after.cap != step.sums.cap:
                            payload["cap"] = loss_to_dict(after.cap)
                        step.append("restore", payload, sums=after, time=now)
                        _close_open(step)
                        _forget_keys(step)
                        step.finish()
                    db.execute("COMMIT")
                except BaseException:
                    if db.in_transaction:
                        db.execute("ROLLBACK")
                    raise
                spent = canonical(amounts_to_dict(step.sums.own()))
                mark.replace(Checkpoint(ledger, step.head, step.hash, str(place), spent))
    finally:
        if lock is not None:
            lock.close()
    return True


def _close_open(step: Transaction) -> None:
    """Close the charges that could still be answered: the lost entries may hold an answer, and there must not be two."""
    for charge in charges_where(step.db, "charges.state <> 'committed'"):
        if charge.state == "reserved" or charge.resumable:
            seq, _ = step.append("fail", {"charge": charge.id, "reason": "its outcome was lost with later entries"})
            number = charge_number(charge.id)
            step.db.execute("UPDATE charges SET state = 'failed', closed = ? WHERE number = ?", (seq, number))


def _forget_keys(step: Transaction) -> None:
    """Forget the keys of series: lost entries may hold steps of theirs, whose noise must not be used again."""
    if has_series(step.db):
        step.db.execute("UPDATE series SET secret = ''")


def _lost_amounts(entries: list[Entry], checkpoint: Checkpoint, mark: Path) -> dict[str, Fraction]:
    """Return what was spent by the mark and not in the copy.

    What was charged to the copy after the mark was last written, by a user or on a machine with another mark, is added to it.
    """
    mark_time = utc_text(datetime.datetime.fromtimestamp(mark.stat().st_mtime, datetime.UTC))
    last = [entry.payload["after"] for entry in entries if entry.seq == 1 or entry.time <= mark_time][-1]
    spent = amounts_from_dict(last["spent"])
    carried = amounts_from_dict(last["carried"])
    return {
        name: max(Fraction(0), amount - (spent[name] - carried[name])) for name, amount in checkpoint.amounts().items()
    }
