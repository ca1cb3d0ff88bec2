"""Writing a file whole or not at all: its place is taken before anything is charged. It knows bytes, not answers.

So is the picture of --plot, which is drawn once there is something to show.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sordino.cli.shared.terminal import note
from sordino.core.errors import ChargedError, DeclarationError


@dataclass(frozen=True, slots=True)
class AtomicFolder:
    """A folder beside its target until all of its files are there."""

    path: Path
    target: Path

    def commit(self) -> None:
        """Put the folder in its place."""
        self.path.replace(self.target)


@dataclass(frozen=True, slots=True)
class AtomicFile:
    """Hold a file beside its target until it is whole."""

    path: Path
    target: Path

    def write(self, content: bytes) -> None:
        """Write the content durably and put it in its place."""
        with self.path.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        self.commit()

    def commit(self) -> None:
        """Put what was written in its place."""
        self.path.replace(self.target)


@contextmanager
def open_atomic(target: Path) -> Iterator[AtomicFile]:
    """Make an empty file beside `target`, so that it is known to be writable; it is gone afterwards unless committed.

    Raises DeclarationError where the directory is missing or cannot be written, or `target` is a directory.
    """
    if target.is_dir():
        raise DeclarationError(f"{target} is a directory: name a file in it")
    if not target.parent.is_dir():
        raise DeclarationError(f"{target} cannot be written: its directory is missing; make the directory first")
    mode = 0o666 & ~_umask()
    with suppress(OSError):
        mode = target.stat().st_mode & 0o777
    try:
        file, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise DeclarationError(f"{target} cannot be written: {error.strerror}; name another place") from None
    os.fchmod(file, mode)
    os.close(file)
    try:
        yield AtomicFile(Path(name), target)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name)


@contextmanager
def open_if_named(target: Path | None) -> Iterator[AtomicFile | None]:
    """Open an atomic file as `open_atomic` does; None where no file is named."""
    if target is None:
        yield None
        return
    with open_atomic(target) as file:
        yield file


@contextmanager
def open_folder(target: Path) -> Iterator[AtomicFolder]:
    """Make an empty folder beside `target`, so that it is known to be writable; it is gone afterwards unless committed.

    Raises DeclarationError where something is there already or the directory cannot be written.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise DeclarationError(f"{target} exists already: name a folder that is new or empty", key="--output")
    if not target.parent.is_dir():
        raise DeclarationError(f"{target} cannot be written: its directory is missing; make the directory first")
    try:
        place = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    except OSError as error:
        raise DeclarationError(f"{target} cannot be written: {error.strerror}; name another place") from None
    place.chmod(0o777 & ~_umask())
    try:
        yield AtomicFolder(place, target)
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextmanager
def after_charge(charge: str, rescue: Callable[[], str]) -> Iterator[None]:
    """Raise ChargedError for whatever fails in writing what was charged: the charge stands; `rescue` says what to do.

    A reader that closed the output is no failure to write.
    """
    failed = False
    try:
        yield
    except BrokenPipeError:
        raise
    except Exception:
        failed = True
    if failed:
        raise ChargedError(rescue(), charge=charge) from None


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


@contextmanager
def open_picture(
    plot: Path | None, *, confidence: float = 0.95, quiet: bool = False
) -> Iterator[Callable[[Any], None]]:
    """Give what draws a thing into the file `plot` and notes it; it draws nothing where no file is named.

    Raises DeclarationError where the file cannot be written, before what follows is done.
    """

    with open_if_named(plot) as target:

        def draw(thing: Any) -> None:
            if target is None or plot is None:
                return
            from sordino.reporting.charts import plot as picture_of
            from sordino.reporting.picture import encode_picture

            target.write(encode_picture(picture_of(thing, confidence=confidence), plot.suffix))
            note(f"wrote {plot}", quiet=quiet)

        yield draw
