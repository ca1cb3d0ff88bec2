"""Presence: which processes serve from one store file, known by a lock beside it that the kernel releases when one dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sordino.core.errors import DeclarationError


class Presence:
    """A lock beside a store file, held shared by every process that serves from it, for as long as it lives.

    It cannot be a lock on the store itself: to close a descriptor of that file would drop SQLite's own locks on it.
    """

    def __init__(self, store: Path) -> None:
        self._path = store.with_name(store.name + "-lock")
        self._file: int | None = None

    @contextmanager
    def arrive(self) -> Iterator[bool]:
        """Give whether no other process serves from the store; from the end of the block on, this one is known to.

        Work that the block does where it is alone, nobody else does at the same time: who arrives meanwhile waits at the end
        of its own block. So this process must begin nothing that others could take for abandoned before the block has ended.
        """
        if self._file is None:
            try:
                self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError as error:
                raise DeclarationError(f"the store's lock {self._path} cannot be opened: {error.strerror}") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            alone = True
        # another process serves, or the file system has no such locks: then nobody can know that it is alone
        except OSError:
            alone = False
        try:
            yield alone
        finally:
            # a conversion may lose the lock for a moment, which harms nobody: see above
            with suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_SH)

    def leave(self) -> None:
        """Release the lock."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
