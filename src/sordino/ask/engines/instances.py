"""DuckDB instances that connections share, the directories they spill rows to, and their handling of forks."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import os
import shutil
import tempfile
import threading
import warnings
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from sordino.ask.engines.sql_text import quote_text

if TYPE_CHECKING:
    from collections.abc import Generator

    import duckdb
    import pyarrow as pa


# ---- Forks: a child has a copy of an engine's objects, but none of its threads, and the connections are the parent's
#
# In the child, an engine leaves its resources to the parent, and opens its source anew before the next charge.


class Leaving(Protocol):
    """An owner of resources that must not cross a fork."""

    def leave_to_parent(self) -> None:
        """Abandon the resources, which are the parent's: called in the child, in its only thread."""


_OPEN: weakref.WeakSet[Leaving] = weakref.WeakSet()


def leave_at_fork(engine: Leaving) -> None:
    """Call `leave_to_parent` of an engine after each fork, in the child."""
    _OPEN.add(engine)


def keep_for_ever(thing: object) -> None:
    """Never free an object, not at the end of the process either.

    DuckDB waits for its threads when the last connection is freed, and in a forked process it would wait for ever.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _after_fork_in_child() -> None:
    for engine in list(_OPEN):
        engine.leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


# ---- The directory that DuckDB spills rows to: private to its user, locked while it is used, and removed afterwards
#
# A process that is killed removes nothing, but its locks end with it: by these the next process to start recognizes abandoned
# directories, in any container and for any process number.

_PREFIX = "sordino-spill-"


class SpillDirectory:
    """A new directory at `path`, which lasts until it is removed, or this object is freed, or the process ends.

    It lies where temporary files do, or hidden in the directory `place`. Those of this user that a process left which was
    killed are removed first: `leftovers` is their number, at the first directory that a process makes in a place.
    """

    def __init__(self, place: str | None = None) -> None:
        before = _remove_left.cache_info().misses
        leftovers = _remove_left(place or tempfile.gettempdir())
        self.leftovers = leftovers if _remove_left.cache_info().misses > before else 0
        self.path, self._lock = _create_locked(place)
        self._finalizer = weakref.finalize(self, _remove, self.path, self._lock)

    def __enter__(self) -> str:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove it with its files."""
        self._finalizer()

    def leave(self) -> None:
        """Leave it to the process that this one was forked from."""
        if self._finalizer.detach() is not None:
            os.close(self._lock)


def _create_locked(place: str | None = None) -> tuple[str, int]:
    """Return a new directory, and the descriptor that holds its lock."""
    while True:
        path = tempfile.mkdtemp(prefix=_PREFIX if place is None else f".{_PREFIX}", dir=place)
        # Before it is locked another process may take it for abandoned and remove it: then another is created.
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(path, os.O_RDONLY)
            # fails on a file system without locks, where no other process can lock it either
            with contextlib.suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_SH)
            if os.path.isdir(path):
                return path, lock
            os.close(lock)


def _remove(path: str, lock: int) -> None:
    shutil.rmtree(path, ignore_errors=True)
    os.close(lock)


@functools.cache
def _remove_left(place: str) -> int:
    """Remove this user's directories that no process has locked any more, and return how many; done once a process."""
    removed = 0
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if entry.name.removeprefix(".").startswith(_PREFIX):
                # fails for one that is in use, another user's, or gone meanwhile
                with contextlib.suppress(OSError):
                    removed += _remove_unlocked(entry.path)
    return removed


def _remove_unlocked(path: str) -> bool:
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(lock).st_uid != os.getuid():
            return False
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
        return True
    finally:
        os.close(lock)


# ---- DuckDB instances in memory that many connections share, one a process and purpose
#
# Opening an instance takes about 22 ms, mostly to fill its catalog; a cursor of one takes microseconds. A cursor is a connection
# of its own: tables that it registers and temporary tables and views that it makes are seen by no other connection, so two
# curators' tables never meet, even under one name. Nothing else may be made in a shared instance. Its settings are made once and
# locked, and it opens no file.

# "rows": private tables that are in memory. "declared": what is declared, on one thread. "outer": released tables alone.
Purpose = Literal["rows", "declared", "outer"]

_CONFIG: dict[Purpose, dict[str, Any]] = {
    "declared": {"threads": 1},
    "outer": {"threads": 1, "memory_limit": "1GB"},
}

# Of each instance, and of those that read files.
SETTINGS = (
    # By statistics and by pushed filters, a NaN would decide whether its row counts. A list after IN that becomes a join has
    # what is computed above it written out, each part as often as it is used: seconds for two parts of a date. So does a sum that
    # is pushed below a join: 18 GB for the day of the week of a moment beside a list of 50 texts.
    "SET GLOBAL disabled_optimizers = "
    "'statistics_propagation,filter_pushdown,join_filter_pushdown,in_clause,partial_aggregate_pushdown'",
    "SET GLOBAL autoinstall_known_extensions = false",
    "SET GLOBAL autoload_known_extensions = false",
    "SET GLOBAL enable_object_cache = false",
    "SET GLOBAL preserve_insertion_order = false",
    "SET GLOBAL errors_as_json = false",
    # A moment's day must not depend on the machine.
    "SET GLOBAL TimeZone = 'UTC'",
    # Else an unknown name in SQL would be a Python variable of the caller.
    "SET GLOBAL python_enable_replacements = false",
)


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Instance:
    """An open instance, and the directory to which it spills rows."""

    root: duckdb.DuckDBPyConnection
    spill: SpillDirectory

    def leave_to_parent(self) -> None:
        """Abandon the instance: its threads are not in this process, and freeing it would wait for them."""
        self.spill.leave()
        keep_for_ever(self.root)


_lock = threading.Lock()
_instances: dict[Purpose, Instance] = {}


def shared_instance(purpose: Purpose) -> Instance:
    """Return this process's instance for a purpose, opened at the first call."""
    with _lock:
        if purpose not in _instances:
            _instances[purpose] = _open(purpose)
            leave_at_fork(_instances[purpose])
        return _instances[purpose]


def _open(purpose: Purpose) -> Instance:
    spill = SpillDirectory()
    root = open_connection(spill.path, **_CONFIG.get(purpose, {}))
    if purpose == "outer":
        # Released rows keep their order where a statement states none.
        root.execute("SET GLOBAL preserve_insertion_order = true")
    root.execute("SET enable_external_access = false")
    root.execute("SET lock_configuration = true")
    return Instance(root, spill)


def open_connection(spill: str, **config: Any) -> duckdb.DuckDBPyConnection:
    """Return the first connection of a new instance with the settings of all, which spills rows to a directory."""
    import duckdb

    connection = duckdb.connect(":memory:", config=config)
    for setting in SETTINGS:
        connection.execute(setting)
    # Only the connection that an instance was opened with may show a progress bar: no cursor does. In a notebook without
    # ipywidgets it is off, and cannot be set at all.
    if connection.execute("SELECT current_setting('enable_progress_bar')").fetchall() != [(False,)]:
        connection.execute("SET enable_progress_bar = false")
    connection.execute(f"SET temp_directory = {quote_text(spill)}")
    return connection


# A statement is bound once, a relation when it is made and again when it is run: a third of a question of some thousand letters.
# DuckDB warns that the Arrow table is a copy, of rows that are the cells of an answer.
warnings.filterwarnings("ignore", "Arrow output on a DB-API result makes an extra copy", UserWarning)


# The rows of a block: a column of keys and the cells of a table over them stay in a processor's cache.
_BLOCK = 1 << 16


def fetch_table(connection: duckdb.DuckDBPyConnection, text: str) -> pa.Table:
    """Return a statement's rows; raises what DuckDB raises, with no result left open."""
    try:
        return connection.execute(text).to_arrow_table()
    except BaseException:
        # Else the connection would wait for the rest of the result.
        connection.abort()
        raise


def fetch_blocks(
    connection: duckdb.DuckDBPyConnection, text: str, rows: int = _BLOCK
) -> Generator[pa.RecordBatch, None, None]:
    """Yield a statement's rows in blocks, as they are computed; raises what DuckDB raises, with no result left open."""
    try:
        # Not of a cursor that has executed it, which holds all rows before the first block.
        blocks = connection.sql(text).to_arrow_reader(rows)
        assert blocks is not None
        yield from blocks
    except BaseException:
        connection.abort()
        raise


class _Forgetting:
    """Forgets the instances in a forked process, which opens its own."""

    def leave_to_parent(self) -> None:
        global _lock
        _lock = threading.Lock()
        _instances.clear()


_FORGETTING = _Forgetting()
leave_at_fork(_FORGETTING)
