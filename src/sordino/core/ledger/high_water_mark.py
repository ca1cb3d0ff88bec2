"""The high-water mark of a ledger, kept outside its file: its last entry and what was charged in it, when last seen.

A ledger that has fewer entries than its mark, or another entry in that place, was rolled back or copied. The marks of a
machine also record which ledgers were at a path, so one that is gone is not forgotten. A mark knows no entries. It is written
after each transaction is durable, so it is never ahead; after a power loss it may be a few entries behind, which the next
write corrects.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from sordino.core.errors import LedgerError

# ledger id, sequence, hash and sums: one disk sector, written at once
_HEAD = 512
_SIZE = _HEAD + 4096


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A ledger as it was last seen: its id, its last entry's number and hash, its path, and what was charged in it.

    `spent` holds the amounts as canonical JSON.
    """

    ledger: str
    seq: int
    hash: str
    path: str
    spent: str

    def amounts(self) -> dict[str, Fraction]:
        """Return what was charged in the ledger itself; nothing if the text holds no amounts."""
        try:
            return {str(name): Fraction(text) for name, text in json.loads(self.spent).items()}
        except (ValueError, AttributeError, TypeError, ZeroDivisionError):
            return {}


class HighWaterMark:
    """One mark file, open and locked; `seen` is its checkpoint, None when it is new."""

    def __init__(self, file: int, path: Path) -> None:
        self._file = file
        self.seen = _parse(os.pread(file, _SIZE, 0), path)

    def advance(self, checkpoint: Checkpoint) -> None:
        """Record a checkpoint, never going back within one ledger."""
        old = self.seen
        if (
            old is not None
            and old.ledger == checkpoint.ledger
            and old.seq >= checkpoint.seq
            and old.path == checkpoint.path
        ):
            return
        self.replace(checkpoint)

    def replace(self, checkpoint: Checkpoint) -> None:
        """Record a checkpoint even if the mark is ahead of it: for a ledger restored from an older copy."""
        old = self.seen
        head = f"{checkpoint.ledger} {checkpoint.seq:020d} {checkpoint.hash} "
        spent = checkpoint.spent
        # amounts of many digits are rounded up, so that all fits into one sector
        if len(head) + len(spent) >= _HEAD:
            spent = json.dumps(
                {n: str(Fraction(math.ceil(a * 10**30), 10**30)) for n, a in checkpoint.amounts().items()}
            )
        record = (head + spent).encode().ljust(_HEAD - 1) + b"\n"
        if old is None or old.path != checkpoint.path:
            record = (record + json.dumps(checkpoint.path, ensure_ascii=False).encode()).ljust(_SIZE - 1) + b"\n"
        os.pwrite(self._file, record, 0)
        self.seen = checkpoint


def marks_directory() -> Path:
    """Return the directory of marks: under $SORDINO_STATE, else $XDG_STATE_HOME/sordino, else ~/.local/state/sordino."""
    sordino_state = os.environ.get("SORDINO_STATE")
    if sordino_state:
        return Path(sordino_state) / "marks"
    xdg_state = os.environ.get("XDG_STATE_HOME")
    return (Path(xdg_state) if xdg_state else Path.home() / ".local" / "state") / "sordino" / "marks"


@contextmanager
def lock_mark(path: Path) -> Iterator[HighWaterMark]:
    """Open the mark at `path`, made if missing, and hold its lock; raise LedgerError where it cannot be written."""
    file = _open(path)
    if file is None:
        rule = "a ledger keeps its high-water mark outside its own file, and that place cannot be written"
        raise LedgerError(f"{rule}: {path.parent}; set SORDINO_STATE to a directory that can be")
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield HighWaterMark(file, path)
    finally:
        # which releases the lock
        os.close(file)


def read_mark(path: Path) -> Checkpoint | None:
    """Return the checkpoint of the mark at `path`, None where there is no mark."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH)
        return _parse(os.pread(file, _SIZE, 0), path)
    finally:
        os.close(file)


def marks_at(path: str) -> list[Checkpoint]:
    """Return the checkpoints of all ledgers that were last seen at `path`, the one last written first."""
    times: list[tuple[int, Checkpoint]] = []
    with suppress(OSError):
        for file in marks_directory().iterdir():
            # a damaged mark of another ledger must not stop this one
            with suppress(LedgerError, OSError):
                checkpoint = read_mark(file)
                if checkpoint is not None and checkpoint.path == path:
                    times.append((file.stat().st_mtime_ns, checkpoint))
    return [checkpoint for _, checkpoint in sorted(times, key=lambda pair: pair[0], reverse=True)]


def _open(path: Path) -> int | None:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    try:
        try:
            return os.open(path, flags, 0o600)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            return os.open(path, flags, 0o600)
    except OSError:
        return None


def _parse(record: bytes, path: Path) -> Checkpoint | None:
    if not record:
        return None
    try:
        ledger, seq, digest, spent = record[:_HEAD].decode("ascii").split(" ", 3)
        ledger_path = json.loads(record[_HEAD:].decode())
        if len(record) == _SIZE and len(ledger) == 32 and len(digest) == 64:
            return Checkpoint(ledger, int(seq), digest, str(ledger_path), spent.rstrip())
    except ValueError:
        pass
    raise LedgerError(f"the ledger's mark {path} is damaged; restore it, or remove it if you can vouch for the ledger")
