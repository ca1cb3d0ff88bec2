"""Which state of its files a table is read in: the newest that each question finds when it begins, and that one to its end."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sordino.ask.engines.engine import EngineFailed, Statement
from sordino.ask.engines.instances import leave_at_fork
from sordino.ask.engines.pinned_files import check_descriptors
from sordino.core.errors import DeclarationError, SourceError

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp

    from sordino.ask.engines.duckdb import DuckDBEngine
    from sordino.ask.engines.duckdb_primitives import DuckDBPrimitives


class FileVersions:
    """Answer trees over a table whose files may be replaced: each question over one version of them.

    `open_version` opens the engine of what the files hold now, and of the tables that it is to read as well. A version is
    opened before a question is charged, and nothing but the file system's word and the schema decides that: no cell is
    looked at. A version with other columns or types, or with another header line, is refused: what the plan and the ledger
    say of the table may not be true of it. A version is closed when no question reads it and a newer one is there.
    """

    def __init__(self, open_version: Callable[[Collection[str]], DuckDBEngine], *, reads: Collection[str] = ()) -> None:
        self._open = open_version
        self._reads = frozenset(reads)
        self._lock = threading.Lock()
        self._current = open_version(self._reads)
        self._readers: Counter[DuckDBEngine] = Counter()
        self._wider: dict[frozenset[str], FileVersions] = {}
        leave_at_fork(self)

    def leave_to_parent(self) -> None:
        """Leave the lock, which a thread of the parent may have held, and the readers, which are that process's."""
        self._lock = threading.Lock()
        self._readers.clear()

    @property
    def primitives(self) -> DuckDBPrimitives:
        """The words to build one tree with: the same for every version."""
        return self._current.primitives

    @property
    def physical(self) -> Mapping[str, str]:
        """The physical type of each column, as the source's own schema states it."""
        return self._current.physical

    @property
    def unreadable_rows(self) -> bool:
        """Whether a row of this source may be lost as a whole."""
        return self._current.unreadable_rows

    def open_tables(self, names: Collection[str]) -> FileVersions:
        """Return the engine that also reads these tables of the same people; it is opened once, and closed with this one."""
        wanted = frozenset(names)
        if not wanted:
            return self
        with self._lock:
            if wanted not in self._wider:
                self._wider[wanted] = FileVersions(self._open, reads=wanted)
            return self._wider[wanted]

    @contextmanager
    def snapshot(self) -> Iterator[DuckDBEngine]:
        """Hold one state of the files for all that is run by the engine that it gives.

        Raises SourceError where a file is gone, has another schema than when the table was opened, or cannot be opened.
        """
        check_descriptors()
        version = self._take()
        try:
            with version.snapshot() as held:
                yield held
        finally:
            self._give_back(version)

    def write(self, select: exp.Select) -> Statement:
        """Return DuckDB's text of a tree; nothing is read."""
        return self._current.write(select)

    def run(self, select: exp.Select | Statement) -> pa.Table:
        """Return the exact answer of a tree, or of its text, on a state of its own; raises EngineFailed."""
        cause = ""
        try:
            with self.snapshot() as held:
                return held.run(select)
        except SourceError:
            cause = "the source is not there any more, or is not as it was"
        raise EngineFailed(cause=cause)

    def sample(self, *, threshold: int, key: bytes) -> DuckDBEngine:
        """Raise EngineFailed: a sample is drawn of one state of the data."""
        del threshold, key
        raise EngineFailed("a sample is drawn within a snapshot")

    def close(self) -> None:
        """Close the version that is open, and those of the tables that are read with it."""
        with self._lock:
            for wider in self._wider.values():
                wider.close()
            self._current.close()

    def _take(self) -> DuckDBEngine:
        """Return the version of what the files hold now, with one more reader."""
        with self._lock:
            if not self._current.is_current():
                self._current = self._renew(self._current)
            self._readers[self._current] += 1
            return self._current

    def _renew(self, old: DuckDBEngine) -> DuckDBEngine:
        new = self._open_same(old)
        if new is None:
            raise SourceError(
                "a file of the source was replaced by one with other columns, types or another header line, so it is not "
                "the table that was opened; nothing was charged. Put a file of the same columns there, or open it anew "
                "(a server: restart it)"
            )
        if not self._readers[old]:
            old.close()
        return new

    def _open_same(self, old: DuckDBEngine) -> DuckDBEngine | None:
        """Return the version of what the files hold now, None where it has another schema."""
        try:
            new = self._open(self._reads)
        except SourceError:
            raise
        except DeclarationError:  # it lacks a declared column, or holds one in a type that nothing reads
            return None
        if new.schema == old.schema:
            return new
        new.close()
        return None

    def _give_back(self, version: DuckDBEngine) -> None:
        with self._lock:
            self._readers[version] -= 1
            if not self._readers[version]:
                del self._readers[version]
                if version is not self._current:
                    version.close()
