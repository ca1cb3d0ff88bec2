"""The high-water mark of a ledger, kept outside its file: how far it had come, and what was charged in it, when last seen.

A ledger that has fewer entries than its mark, or another entry in that place, was rolled back or copied. The marks of a
machine also tell which ledgers lay at a path, so one that is gone is not forgotten. A mark knows no entries. It is written
after each transaction is durable, so it is never ahead; after a power loss it may be a few entries behind, which the next
write makes good.
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

_HEAD = 512  # ledger id, sequence, hash and sums: one disk sector, written at once
_SIZE = _HEAD + 4096


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """State what was seen of a ledger: its id, its last entry's number and hash, where it lay, what was charged in it."""

    ledger: str
    seq: int
    hash: str
    path: str
    spent: str  # amounts as canonical JSON

    def amounts(self) -> dict[str, Fraction]:
        """Return what was charged in the ledger itself; nothing where the text is no amounts."""
        try:
            return {str(name): Fraction(text) for name, text in json.loads(self.spent).items()}
        except (ValueError, AttributeError, TypeError, ZeroDivisionError):
            return {}


class HighWaterMark:
    """Hold one mark file open and locked; `seen` is what it says, None when it is new."""

    def __init__(self, file: int, path: Path) -> None:
        self._file = file
        self.seen = _parse(os.pread(file, _SIZE, 0), path)

    def advance(self, seen: Checkpoint) -> None:
        """Record what was seen, never going back within one ledger."""
        old = self.seen
        if old is not None and old.ledger == seen.ledger and old.seq >= seen.seq and old.path == seen.path:
            return
        self.replace(seen)

    def replace(self, seen: Checkpoint) -> None:
        """Record what was seen, whatever the mark says: for a ledger that goes on from an older copy, all it spent counted."""
        old = self.seen
        head = f"{seen.ledger} {seen.seq:020d} {seen.hash} "
        spent = seen.spent
        if len(head) + len(spent) >= _HEAD:  # rounded up, so that the text is short
            spent = json.dumps({n: str(Fraction(math.ceil(a * 10**30), 10**30)) for n, a in seen.amounts().items()})
        record = (head + spent).encode().ljust(_HEAD - 1) + b"\n"
        if old is None or old.path != seen.path:
            record = (record + json.dumps(seen.path, ensure_ascii=False).encode()).ljust(_SIZE - 1) + b"\n"
        os.pwrite(self._file, record, 0)
        self.seen = seen


def marks_directory() -> Path:
    """Return where marks are kept: under $SORDINO_STATE, else $XDG_STATE_HOME/sordino, else ~/.local/state/sordino."""
    own = os.environ.get("SORDINO_STATE")
    if own:
        return Path(own) / "marks"
    shared = os.environ.get("XDG_STATE_HOME")
    return (Path(shared) if shared else Path.home() / ".local" / "state") / "sordino" / "marks"


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
        os.close(file)  # and so unlocked


def read_mark(path: Path) -> Checkpoint | None:
    """Return what the mark at `path` says, None where there is none."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH)
        return _parse(os.pread(file, _SIZE, 0), path)
    finally:
        os.close(file)


def marks_at(lay: str, directory: Path | None = None) -> list[Checkpoint]:
    """Return the marks of all ledgers that were last seen at the path `lay`, the one last written first."""
    found: list[tuple[int, Checkpoint]] = []
    with suppress(OSError):
        for file in (marks_directory() if directory is None else directory).iterdir():
            with suppress(LedgerError, OSError):  # another ledger's damaged mark is that ledger's affair
                seen = read_mark(file)
                if seen is not None and seen.path == lay:
                    found.append((file.stat().st_mtime_ns, seen))
    return [seen for _, seen in sorted(found, key=lambda pair: pair[0], reverse=True)]


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
        lay = json.loads(record[_HEAD:].decode())
        if len(record) == _SIZE and len(ledger) == 32 and len(digest) == 64:
            return Checkpoint(ledger, int(seq), digest, str(lay), spent.rstrip())
    except ValueError:
        pass
    raise LedgerError(f"the ledger's mark {path} is damaged; restore it, or remove it if you can vouch for the ledger")
