"""Writing a file whole or not at all: its place is taken before anything is charged. It knows bytes, not answers."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sordino.errors import DeclarationError

__all__ = ["Draft", "draft"]


@dataclass(frozen=True, slots=True)
class Draft:
    """Hold a file beside the one that is meant, until it is whole."""

    path: Path
    meant: Path

    def write(self, content: bytes) -> None:
        """Write the content durably and put it in its place."""
        with self.path.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        self.keep()

    def keep(self) -> None:
        """Put what was written in its place."""
        self.path.replace(self.meant)


@contextmanager
def draft(meant: Path) -> Iterator[Draft]:
    """Make an empty file beside `meant`, so that it is known to be writable; it is gone afterwards unless kept.

    Raises DeclarationError where the directory is missing or cannot be written, or `meant` is a directory.
    """
    if meant.is_dir():
        raise DeclarationError(f"{meant} is a directory: name a file in it")
    if not meant.parent.is_dir():
        raise DeclarationError(f"{meant} cannot be written: its directory is missing; make the directory first")
    mode = 0o666 & ~_umask()
    with suppress(OSError):
        mode = meant.stat().st_mode & 0o777
    try:
        file, name = tempfile.mkstemp(dir=meant.parent, prefix=f".{meant.name}.")
    except OSError as error:
        raise DeclarationError(f"{meant} cannot be written: {error.strerror}; name another place") from None
    os.fchmod(file, mode)
    os.close(file)
    try:
        yield Draft(Path(name), meant)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
