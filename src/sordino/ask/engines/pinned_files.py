"""Local files, pinned: the state in which each source's file was opened, and whether it is still in that state.

A question reads several times, and a file may be replaced or written to in between. A file that is replaced by another of its
name, or removed, stays readable through its open descriptor; a file that is written to does not, and that is noticed by its
size and times. Only the file system's data about files is compared, never their contents.
"""

from __future__ import annotations

import errno
import glob
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass

from sordino.ask.engines.frames import LOADERS
from sordino.core.errors import SourceError
from sordino.core.source import Source

# None where there is no such file
State = tuple[int, ...] | None

# where Linux lets an open file be opened once more, even if its name is gone
_LINKS = "/proc/self/fd"
# files beside one that hold a part of its data
_LOGS = {"duckdb": (".wal",), "sqlite": ("-wal", "-journal")}


class PinnedFiles:
    """The state of each local file that an engine was opened with; `directory` is the engine's own."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._files: list[_File] = []

    def pin(self, source: Source, *, pattern: str = "", names: Iterable[str] = ()) -> str:
        """Pin a source and return the path to read it by; `names` are the files that `pattern` matches.

        Raises SourceError where it cannot be opened.
        """
        place = source.place
        if pattern:
            states = {name: _state(name) for name in names}
            self._files.append(_Folder(states, pattern, _list(pattern)))
            return place
        logs = {place + ending: _state(place + ending) for ending in _LOGS.get(source.format, ())}
        # DuckDB takes a backslash in the name of an open file for a separator, and then does not know the file.
        odd_name = "\\" in os.path.realpath(place)
        if source.format == "duckdb" or source.format in LOADERS or odd_name or not os.path.isdir(_LINKS):
            # DuckDB keeps its own files open, and SQLite loses its locks on a file if anything else in the process closes it.
            self._files.append(_NamedFile(place, _state(place), logs, loaded=source.format in LOADERS))
            return place
        file = _OpenFile(place, _open(source), self._directory)
        self._files.append(file)
        return file.link

    def settle(self) -> None:
        """Point the allowed paths of descriptors at their files, once DuckDB has resolved and allowed them."""
        for file in self._files:
            if isinstance(file, _OpenFile):
                file.settle()

    def are_current(self) -> bool:
        """Return whether each source's name still leads to the state that was opened."""
        return all(file.is_current() for file in self._files)

    def are_whole(self) -> bool:
        """Return whether the opened files are unchanged, even if their names now lead to others."""
        return all(file.is_whole() for file in self._files)

    def close(self) -> None:
        """Close the descriptors."""
        files = self._files
        self._files = []
        for file in files:
            if isinstance(file, _OpenFile):
                file.close()


@dataclass(frozen=True, slots=True)
class _NamedFile:
    """A file that its library keeps open, or that was read into memory."""

    path: str
    state: State
    logs: dict[str, State]
    loaded: bool

    def is_current(self) -> bool:
        logs = {name: _state(name) for name in self.logs}
        return self.state is not None and _state(self.path) == self.state and logs == self.logs

    def is_whole(self) -> bool:
        now = None if self.loaded else _state(self.path)
        # If its name leads to another file, the one that was opened is still there for the library that keeps it open.
        return now is None or self.state is None or now[:2] != self.state[:2] or now[2:4] == self.state[2:4]


@dataclass(frozen=True, slots=True)
class _Folder:
    """The files that a pattern matched."""

    states: dict[str, State]
    pattern: str
    listed: frozenset[str]

    def is_current(self) -> bool:
        return _list(self.pattern) == self.listed and self.is_whole()

    def is_whole(self) -> bool:
        return all(state is not None and _state(name) == state for name, state in self.states.items())


class _OpenFile:
    """A file that is kept open: its link opens it once more, also after its name is gone."""

    def __init__(self, path: str, descriptor: int, directory: str) -> None:
        self._path = path
        self._source = descriptor
        self._state = _of(os.fstat(descriptor))
        # DuckDB resolves a path when it is allowed and again when it is opened. That of an open file is then its name,
        # and without a name it stays the link: so the link is allowed while its number is that of a nameless file.
        nameless, name = tempfile.mkstemp(dir=directory)
        os.unlink(name)
        self._number = nameless
        self.link = f"{_LINKS}/{nameless}"

    def settle(self) -> None:
        os.dup2(self._source, self._number, inheritable=False)
        os.close(self._source)
        self._source = self._number

    def is_current(self) -> bool:
        return _state(self._path) == self._state

    def is_whole(self) -> bool:
        # Its time of change is left out: that changes with its names, too.
        return _of(os.fstat(self._source))[2:4] == self._state[2:4]

    def close(self) -> None:
        for number in {self._source, self._number}:
            os.close(number)


_File = _NamedFile | _Folder | _OpenFile


def check_descriptors() -> None:
    """Raise SourceError unless the process may open as many more files as one scan opens: nothing is charged then."""
    spare: list[int] = []
    starved = False
    try:
        spare.extend(os.open(os.devnull, os.O_RDONLY) for _ in range(_per_scan()))
    except OSError:
        starved = True
    finally:
        for number in spare:
            os.close(number)
    if starved:
        raise SourceError(
            "the process may open no more files, so the data could not be read: nothing was charged. Close some, or raise "
            "its limit (ulimit -n; of a service, LimitNOFILE=), and ask again"
        )


def is_starved(failure: Exception) -> bool:
    """Return whether an engine failed because the process, or the machine, may open no more files.

    Only the end of the message is read, and compared with two sentences of the operating system.
    """
    return str(failure).strip().endswith((os.strerror(errno.EMFILE), os.strerror(errno.ENFILE)))


def _per_scan() -> int:
    """Return how many files one scan may open at once: DuckDB's threads open one each, and Arrow a few."""
    return 8 + (os.cpu_count() or 1)


def _open(source: Source) -> int:
    failed: str | None = None
    try:
        return os.open(source.place, os.O_RDONLY)
    except FileNotFoundError:
        failed = "is missing: there is no such file"
    except OSError as error:
        starved = error.errno in (errno.EMFILE, errno.ENFILE)
        failed = (
            "cannot be opened: the process may open no more files" if starved else "cannot be opened: check its rights"
        )
    raise SourceError(f"source {source.path!r} {failed}")


def _state(path: str) -> State:
    try:
        return _of(os.stat(path))
    except OSError:
        return None


def _of(stat: os.stat_result) -> tuple[int, ...]:
    return (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


def _list(pattern: str) -> frozenset[str]:
    return frozenset(glob.iglob(pattern, recursive=True, include_hidden=True))
