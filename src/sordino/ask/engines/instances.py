"""DuckDB instances in memory that many connections share, one a process and purpose.

Opening an instance takes about 22 ms, mostly to fill its catalog; a cursor of one takes microseconds. A cursor is a connection
of its own: tables that it registers and temporary tables and views that it makes are seen by no other connection, so two
curators' tables never meet, whatever their names. Nothing else may be made in a shared instance. Its settings are made once and
locked, and it opens no file.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sordino.ask.engines.forks import keep_for_ever, leave_at_fork
from sordino.ask.engines.quoting import quote_text
from sordino.ask.engines.spill_directory import SpillDirectory

if TYPE_CHECKING:
    import duckdb

# "rows": private tables that are in memory. "declared": what is declared, on one thread.
Purpose = Literal["rows", "declared"]

SETTINGS = (
    # By statistics and by pushed filters, a NaN would decide whether its row counts.
    "SET GLOBAL disabled_optimizers = 'statistics_propagation,filter_pushdown,join_filter_pushdown'",
    "SET GLOBAL autoinstall_known_extensions = false",
    "SET GLOBAL autoload_known_extensions = false",
    "SET GLOBAL enable_object_cache = false",
    "SET GLOBAL preserve_insertion_order = false",
    "SET GLOBAL errors_as_json = false",
    # A moment's day must not depend on the machine.
    "SET GLOBAL TimeZone = 'UTC'",
    # Else an unknown name in SQL would be a variable of whoever calls.
    "SET GLOBAL python_enable_replacements = false",
)


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Instance:
    """An open instance, and where it may write rows that memory does not hold."""

    root: duckdb.DuckDBPyConnection
    spill: SpillDirectory

    def leave_to_parent(self) -> None:
        """Let the instance be the parent's: its threads are not in this process, and letting it go would wait for them."""
        self.spill.leave()
        keep_for_ever(self.root)


_lock = threading.Lock()
_instances: dict[Purpose, Instance] = {}


def shared_instance(purpose: Purpose) -> Instance:
    """Return this process's instance for a purpose, opened when it is first asked for."""
    with _lock:
        if purpose not in _instances:
            _instances[purpose] = _open(purpose)
            leave_at_fork(_instances[purpose])
        return _instances[purpose]


def _open(purpose: Purpose) -> Instance:
    import duckdb

    spill = SpillDirectory()
    root = duckdb.connect(":memory:", config={"threads": 1} if purpose == "declared" else {})
    for setting in SETTINGS:
        root.execute(setting)
    # A progress bar is a matter of the connection that an instance was opened with: no cursor shows one.
    root.execute(f"SET temp_directory = {quote_text(spill.path)}")
    root.execute("SET enable_external_access = false")
    root.execute("SET lock_configuration = true")
    return Instance(root, spill)


def hide_progress(connection: duckdb.DuckDBPyConnection) -> None:
    """Switch off the progress bar where it is on: in a notebook without ipywidgets it is off, and cannot be set at all."""
    shown = connection.execute("SELECT current_setting('enable_progress_bar')").fetchall()
    if shown != [(False,)]:
        connection.execute("SET enable_progress_bar = false")


class _Forgetting:
    """Forgets the instances in a forked process, which opens its own."""

    def leave_to_parent(self) -> None:
        global _lock
        _lock = threading.Lock()
        _instances.clear()


_FORGETTING = _Forgetting()
leave_at_fork(_FORGETTING)
