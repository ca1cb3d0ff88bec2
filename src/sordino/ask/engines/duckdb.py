"""DuckDB, the default engine: reads CSV, Parquet, DuckDB files and Arrow tables as declared, never sniffing anything.

What lets one row decide whether others count is taken off. Optimizers are switched off: Parquet statistics leave NaN out
of their bounds, and filters are pruned by them. Text has a binary collation, whatever the columns of a file have.
"""

from __future__ import annotations

import itertools
import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from sordino.ask.engines.csv_lines import WILD, copy_marked, is_utf8, literal_path, read_csv, read_json, read_lines
from sordino.ask.engines.duckdb_primitives import BINARY, DuckDBPrimitives
from sordino.ask.engines.engine import EngineFailed, Statement
from sordino.ask.engines.instances import (
    SETTINGS,
    SpillDirectory,
    hide_progress,
    keep_for_ever,
    leave_at_fork,
    shared_instance,
)
from sordino.ask.engines.loaded_files import LOADERS, cannot_open, load_file
from sordino.ask.engines.moment_cells import refine_times
from sordino.ask.engines.parquet import (
    check_parquet_types,
    footers_agree,
    load_parquet,
    mend_arrow,
    mend_parquet,
    read_parquet,
)
from sordino.ask.engines.pinned_files import PinnedFiles, check_descriptors, is_starved
from sordino.ask.engines.readers.lake_tables import check_folder
from sordino.ask.engines.sampled import SampledEngine, coin_sql
from sordino.ask.engines.sql_text import people_name, public_name, quote_name, quote_text, write_tree
from sordino.ask.engines.table_layout import PeopleTable, TableLayout, check_unit, is_spark, list_items
from sordino.core.domain import Domain
from sordino.core.errors import DeclarationError, SourceError, nearest
from sordino.core.neighbors import PrivacyUnit
from sordino.core.source import Source, header_line, open_binary

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa
    from sqlglot import exp

    from sordino.ask.engines.remote_tables import RemoteSources

LINES = "sordino_lines"  # the lines of a CSV file, for the curator's own eyes

T = TypeVar("T")
_NUMERIC = re.compile(r"DECIMAL\((\d+), ?(\d+)\)")

_READABLE = frozenset(
    [
        "BOOLEAN",
        "TINYINT",
        "SMALLINT",
        "INTEGER",
        "BIGINT",
        "HUGEINT",
        "UTINYINT",
        "USMALLINT",
        "UINTEGER",
        "UBIGINT",
        "UHUGEINT",
        "FLOAT",
        "DOUBLE",
        "DECIMAL",
        "VARCHAR",
        "DATE",
        "TIMESTAMP",
        "TIMESTAMP_NS",
        "TIMESTAMPTZ",
        "TIMESTAMPTZ_NS",
        "UUID",
        "ENUM",
        "NULL",  # a column that holds nothing, as frames make it: all of its cells are missing
    ]
)


@dataclass(frozen=True, slots=True)
class _ParquetFiles:
    """The files of a Parquet source: their names, or the pattern of those on another machine; and the folder they lie in."""

    names: tuple[str, ...]
    pattern: str
    folder: str
    several: bool
    table: PeopleTable

    @property
    def patterns(self) -> list[str]:
        """What DuckDB is to read."""
        return [self.pattern] if self.pattern else [literal_path(name) for name in self.names]


class DuckDBEngine:
    """Answer trees over one state of one table, through one in-process connection that sees that table only.

    `source` is a Source on disk or an Arrow table; `public` holds what `engines.public` read. Of `people`, the other tables
    of the same people by name, the connection sees those that `reads` names. Files are read in the state in which they were
    opened: what was written to one since makes a scan fail, and `FileVersions` opens a file that was replaced anew.
    Raises SourceError where a table is missing or cannot be opened, and DeclarationError where it lacks a declared column
    or holds it in a type that no column can be read from, or in types that differ among files (`parquet_types`).
    """

    def __init__(
        self,
        source: Source | pa.Table,
        *,
        domain: Domain,
        unit: PrivacyUnit | None,
        public: Mapping[str, pa.Table] | None = None,
        people: Mapping[str, PeopleTable] | None = None,
        reads: Collection[str] = (),
    ) -> None:
        self._lock = threading.Lock()
        others = {name: (people or {})[name] for name in sorted(reads)}
        own = PeopleTable(source, domain, unit)
        tables = {"source": own, **{people_name(name): other for name, other in others.items()}}
        # Rows in memory need no file: their connection is one of an instance that all of this process share.
        in_memory = all(_is_loaded(table.source) for table in tables.values())
        self._spill = None if in_memory else SpillDirectory()
        self._directory = shared_instance("rows").spill.path if self._spill is None else self._spill.path
        self._worker = ThreadPoolExecutor(
            1, "sordino-engine"
        )  # one thread for all questions: each new one costs DuckDB time
        self._lossy = isinstance(source, Source) and source.lossy
        self._files: dict[str, _ParquetFiles] = {}  # of each Parquet source, until it was mended
        self._lines: dict[str, tuple[str, PeopleTable]] = {}  # of each file of lines, until its bytes were looked at
        self._lines_lock = threading.Lock()
        self._counted: set[str] = set()  # Parquet sources whose footers state as many rows as their pages hold
        self._pins = PinnedFiles(self._directory)
        self._headers: dict[str, list[str] | None] = {}  # the header line of each CSV source that has one
        self._remote: RemoteSources | None = None  # those that lie on other machines
        self._is_parents = False  # and this process a fork of its own
        try:
            self._connection = self._connect(tables, public or {})
            joinable = {name: self._public_schema(name) for name in public or {}}
            layouts = {name: self._layout(people_name(name), other) for name, other in others.items()}
            self._held = replace(self._layout("source", own), public=joinable, people=layouts)
        except BaseException:
            self._pins.close()
            raise
        self._samples = itertools.count()
        leave_at_fork(self)

    def leave_to_parent(self) -> None:
        """Let the connection, its threads and its directory be the parent's: this process opens the source anew."""
        self._is_parents = True
        self._pins.close()
        if self._spill is not None:
            self._spill.leave()
        keep_for_ever(self._connection)

    def open_tables(self, names: Collection[str]) -> DuckDBEngine:
        """Return the engine itself: it reads the tables that it was opened with."""
        del names
        return self

    def is_current(self) -> bool:
        """Return whether this process opened it, and each of its files is still the one that its name leads to."""
        return not self._is_parents and self._pins.are_current()

    @property
    def schema(self) -> Mapping[str, Any]:
        """What is stated of each table beside its rows: names and types of columns, and the header line of a CSV file."""
        layouts = {"": self._held, **self._held.people}
        return {
            name: (list(layout.physical.items()), layout.items, layout.digits, self._headers.get(layout.source))
            for name, layout in layouts.items()
        }

    def _layout(self, view: str, table: PeopleTable) -> TableLayout:
        """Return how a table is held; raises DeclarationError where that is not as declared."""
        csv = table.source.csv if isinstance(table.source, Source) else None
        types = self._types(quote_name(view))
        physical = {name: kind_of(kind) for name, kind in types.items()}
        headed = csv is not None and csv.names is None  # then names are a line of the file: never in an error
        for name in physical:
            if name.lower().startswith("sordino_"):
                which = "a column" if headed else f"column {name!r}"
                raise DeclarationError(f"{which}: names that start with sordino_ are reserved; rename it")
        for name in table.domain.stored:
            if name not in physical:
                where = "the source has no such column; " + nearest(name, physical)
                if headed:
                    where = "the header line has no such name: check csv.header, csv.delimiter, csv.quote and the name"
                raise DeclarationError(f"column {name!r} is declared but {where}")
            if name not in table.domain.lists and physical[name] not in _READABLE:
                raise DeclarationError(
                    f"column {name!r} is held as {physical[name]}, which no declared type reads: "
                    "store it as a number, text, a boolean or a day"
                )
        check_unit(table)
        return TableLayout(
            physical,
            table.domain,
            table.unit,
            csv,
            quote_name(view),
            items=list_items(table.domain, types, csv=csv is not None),
            has_dictionaries=isinstance(table.source, Source) and table.source.format == "parquet",
            digits=_decimal_digits(types),
        )

    def snapshot(self) -> AbstractContextManager[DuckDBEngine]:
        """Give the engine itself, which is one state of its files. Raises SourceError where one elsewhere is gone."""
        if self._remote is not None:
            self._remote.check()
        return nullcontext(self)

    @property
    def primitives(self) -> DuckDBPrimitives:
        """The words to build one tree with: new ones for each, as they name its steps."""
        return DuckDBPrimitives(self._held)

    @property
    def physical(self) -> Mapping[str, str]:
        """The physical type of each column, as the source's own schema states it."""
        return self._held.physical

    @property
    def unreadable_rows(self) -> bool:
        """Whether a row of this source may be lost as a whole: in CSV and JSON lines, yes."""
        return self._lossy

    def write(self, select: exp.Select) -> Statement:
        """Return DuckDB's text of a tree; nothing is read."""
        return Statement(write_tree(select), _is_one_row(select), reads_no_column=_reads_no_column(select))

    def run(self, select: exp.Select | Statement) -> pa.Table:
        """Return the exact answer of a tree, or of its text; raises EngineFailed, without any of DuckDB's words."""
        statement = select if isinstance(select, Statement) else self.write(select)
        self._mark_lines()
        if statement.reads_no_column:
            self._check_footers()
        answer = self._answer(statement)
        if answer is None and self._remote is not None and not self._remote.are_there():
            raise EngineFailed(cause="the source, on another machine, could not be read any more")
        self._check_whole()
        if answer is None and self._mend():
            answer = self._answer(statement)
            self._check_whole()
        if answer is None:
            raise EngineFailed("the engine could not compute the answer")
        return answer

    def _check_whole(self) -> None:
        """Raise EngineFailed where a file was written to since it was opened: scans of it would mix two states."""
        if not self._pins.are_whole():
            raise EngineFailed(cause="a file of the source was changed while it was read", passing=True)

    def _answer(self, statement: Statement) -> pa.Table | None:
        def compute() -> pa.Table:
            if statement.one_row:
                return _fetch_row(self._connection, statement.text)
            return self._connection.sql(statement.text).to_arrow_table()

        return self._attempt(compute)

    def _mark_lines(self) -> None:
        """Let files of lines that are not UTF-8 be read from marked copies, as `csv_lines` says; each is looked at once.

        That is after the charge, as is all that depends on a cell: whether a copy is made shows in time alone.
        """
        if not self._lines:
            return
        failed = False
        with self._lines_lock:
            for view, (link, table) in list(self._lines.items()):
                source = table.source
                assert isinstance(source, Source)
                try:
                    whole = is_utf8(source.place, at=link)
                    if not whole:
                        copy = os.path.join(self._directory, f"{view}-marked")
                        copy_marked(source.place, copy, source.csv, at=link)
                        views = [self._execute(text, []) for text in _view_lines(view, table, at=copy, marked=True)]
                        failed = not all(views)
                except (OSError, EOFError, ValueError):  # what it says may quote a line
                    failed = True
                if failed:
                    break
                del self._lines[view]
        if failed:
            self._check_whole()
            raise EngineFailed("the engine could not read the lines of a file")

    def _check_footers(self) -> None:
        """Hold Parquet files whose pages hold other numbers of rows than their footers state, as Arrow reads them.

        A count of all rows alone is taken from the footers, where any other question reads pages: both must count the same.
        """
        for view, files in list(self._files.items()):
            if not files.names or view in self._counted:
                continue
            mended = quote_name(f"sordino_mended_{view}")
            try:
                agree = footers_agree(files.names, files.table.domain.stored)
            except Exception:  # of any kind: its words may quote a cell
                agree = False
            if agree:
                self._counted.add(view)
            elif self._hold_arrow(mended, view, files) and self._execute(
                f"CREATE OR REPLACE VIEW {quote_name(view)} AS SELECT * FROM {mended}", []
            ):
                del self._files[view]

    def _mend(self) -> bool:
        """Read Parquet sources once more, bad text and moments too far away missing: they may be why a question failed.

        One that cannot be read now is read anew after the next failure: what is in memory is all of a source, or nothing.
        """
        read = bool(self._files)
        for view, files in list(self._files.items()):
            columns = files.table.domain.stored
            folders = bool(files.folder)
            types = self._types(quote_name(view))
            cells = mend_parquet(files.patterns, types, columns, folders=folders, several=files.several)
            mended = quote_name(f"sordino_mended_{view}")
            is_mended = self._execute(f"CREATE OR REPLACE TABLE {mended} AS {cells}", []) or self._hold_arrow(
                mended, view, files
            )
            self._check_whole()
            if is_mended and self._execute(f"CREATE OR REPLACE VIEW {quote_name(view)} AS SELECT * FROM {mended}", []):
                del self._files[view]
            else:
                read = False
        return read

    def _hold_arrow(self, mended: str, view: str, files: _ParquetFiles) -> bool:
        """Copy the declared columns of Parquet files as Arrow reads them; False where their types would be others."""
        incoming = f"sordino_incoming_{view}"
        table = files.table
        try:
            with self._lock:
                names = list(files.names) or _glob(self._connection, files.pattern)
                was = self._types(quote_name(view))
                cells = load_parquet(names, {n: was[n] for n in table.domain.stored}, folder=files.folder)
                _register(self._connection, incoming, cells)
            now = self._types(quote_name(incoming))
            if any(
                kind_of(now[n]) != kind_of(was[n])
                or (now[n] != was[n] and (n in table.domain.lists or kind_of(was[n]) == "DECIMAL"))
                for n in table.domain.stored
            ):
                return False
            return self._execute(f"CREATE OR REPLACE TABLE {mended} AS SELECT * FROM {quote_name(incoming)}", [])
        except Exception:  # of any kind: its words may quote a cell
            return False

    def sample(self, *, threshold: int, key: bytes) -> SampledEngine:
        """Return the engine of a Poisson sample: each unit is in with chance threshold / 2^64. Raises EngineFailed."""
        name = f"sordino_sample_{next(self._samples)}"
        selected = DuckDBPrimitives(self._held).sample_select(lambda named: coin_sql(named, threshold=threshold))
        statement = f'CREATE TEMP TABLE "{name}" AS {selected}'
        self._mark_lines()
        if not (self._execute(statement, [key.hex()]) or (self._mend() and self._execute(statement, [key.hex()]))):
            raise EngineFailed("the engine could not draw the sample")
        return SampledEngine(
            replace(self._held, source=f'"{name}"'),
            self.unreadable_rows,
            write=self.write,
            run=self.run,
            close=lambda: self._drop(name),
        )

    def _drop(self, name: str) -> None:
        self._execute(f'DROP TABLE IF EXISTS "{name}"', [])

    def _execute(self, text: str, values: list[str]) -> bool:
        """Run a statement that answers nothing, and return whether it could be run."""
        return self._attempt(lambda: self._connection.execute(text, values)) is not None

    def _attempt(self, work: Callable[[], T]) -> T | None:
        """Return what DuckDB does, None where it fails: what it says may quote a cell, so none of it goes on.

        Raises EngineFailed where it may open no more files.
        """
        starved = False
        with self._lock:
            try:
                return self._interruptible(work)
            except Exception as failure:
                starved = isinstance(failure, duckdb_error()) and is_starved(failure)
        if starved:
            raise EngineFailed(cause="the process may open no more files", passing=True)
        return None

    def _interruptible(self, work: Callable[[], T]) -> T:
        """Return what `work` returns, in the engine's own thread; on Ctrl-C stop it, wait for it, and let the signal on.

        An engine that runs in the main thread keeps Python from seeing a signal until it is done.
        """
        result = self._worker.submit(work)
        try:
            return result.result()
        except KeyboardInterrupt:  # not by Thread.join: interrupted once, it takes a thread at work for one that ended
            while not result.done():  # the signal may come before the engine is at work
                self._connection.interrupt()
                wait([result], timeout=0.05)
            raise

    def close(self) -> None:
        """Close the connection and remove its directory for spilled rows."""
        if self._is_parents:
            return
        self._worker.shutdown()
        with self._lock:
            self._connection.close()
        self._pins.close()
        if self._spill is not None:
            self._spill.remove()

    def _connect(self, tables: Mapping[str, PeopleTable], public: Mapping[str, pa.Table]) -> duckdb.DuckDBPyConnection:
        """Return a connection in which each table is a view of its name, and all else is shut."""
        tables = {view: self._load(table) for view, table in tables.items()}
        files = {view: table.source for view, table in tables.items() if isinstance(table.source, Source)}
        connection = shared_instance("rows").root.cursor() if self._spill is None else self._open_instance()
        links = self._allow(connection, files)
        for view, table in tables.items():
            if view in files:
                self._open(connection, view, table, links.get(view, ""))
            else:
                _register(connection, view, table.source)
        for name, cells in public.items():
            _copy_table(connection, name, cells)
        if self._spill is not None:
            connection.execute("SET enable_external_access = false")
            connection.execute("SET lock_configuration = true")
        return connection

    def _open_instance(self) -> duckdb.DuckDBPyConnection:
        """Return an instance of its own, for files: which it may open is a setting of a whole instance."""
        import duckdb

        connection = duckdb.connect(":memory:")
        for setting in SETTINGS:
            connection.execute(setting)
        hide_progress(connection)
        connection.execute(f"SET temp_directory = {quote_text(self._directory)}")
        return connection

    def _load(self, table: PeopleTable) -> PeopleTable:
        """Return a table as it is, its source in memory where it is one of those that are read when they are opened."""
        if table.source.engine if isinstance(table.source, Source) else is_spark(table.source):
            raise SourceError("a table lies elsewhere: private tables can be joined where one engine reads both")
        if not isinstance(table.source, Source) or not _is_loaded(table.source):
            return table
        self._pins.pin(table.source)
        loaded = replace(table, source=load_file(table.source, table.domain, table.unit))
        if not self._pins.are_current():
            raise SourceError(f"source {table.source.path!r} was changed while it was read: open it when it is written")
        return loaded

    def _open(self, connection: duckdb.DuckDBPyConnection, view: str, table: PeopleTable, link: str) -> None:
        """Make the view of a source; DuckDB's own words about a file never get through, since they may quote it."""
        source = table.source
        assert isinstance(source, Source)
        path = source.place
        create = f"CREATE VIEW {quote_name(view)} AS SELECT * FROM"
        failed = contradicts = False
        try:
            if source.format == "duckdb":
                store = quote_name(f"sordino_store_{view}")
                connection.execute(f"ATTACH {quote_text(path)} AS {store} (READ_ONLY)")
                relation = ".".join((store, *map(quote_name, (source.relation or "").split("."))))
                types = connection.execute(f"SELECT column_name, column_type FROM (DESCRIBE {relation})").fetchall()
                # A collation of the file's makes texts equal that differ, and which of them stands for all is decided by
                # their order: one row would then move every other.
                names = [(quote_name(name), BINARY if kind == "VARCHAR" else "") for name, kind in types]
                cells = ", ".join(f"{name} {collation} AS {name}" for name, collation in names)
                connection.execute(f"CREATE VIEW {quote_name(view)} AS SELECT {cells} FROM {relation}")
            elif source.format == "parquet":
                files = self._find_files(connection, table, link)
                if files.several:
                    check_parquet_types(connection, files.patterns, table)
                read = read_parquet(files.patterns, folders=source.is_folder, several=files.several)
                connection.execute(f"{create} {read}")
                self._files[view] = files
                contradicts = not source.is_remote and _contradicts_itself(files)
            else:
                if source.csv is not None and source.csv.header:
                    self._headers[quote_name(view)] = source.csv.cells(header_line(path, at=link))
                for text in _view_lines(view, table, at=link):
                    connection.execute(text)
                if not source.is_remote:
                    self._lines[view] = link, table
        except duckdb_error():
            failed = True
        if failed:
            raise cannot_open(source)
        if contradicts:
            raise SourceError(
                f"source {source.path!r} is broken: its footer states one number of rows for a row group, and another for a "
                "column of it or for the file; write the file anew"
            )

    def _find_files(self, connection: duckdb.DuckDBPyConnection, table: PeopleTable, link: str) -> _ParquetFiles:
        """Return the files of a Parquet source: those that are there now, or a pattern of those on another machine."""
        source = table.source
        assert isinstance(source, Source)
        path = source.place
        folder = path if source.is_folder else ""
        several = source.is_folder or _is_pattern(source)
        if source.is_remote:
            pattern = path if _is_pattern(source) else literal_path(path)
            pattern += "/**/*.parquet" if source.is_folder else ""
            return _ParquetFiles((), pattern, folder, several, table)
        if not several:
            return _ParquetFiles((link or path,), "", folder, several, table)
        pattern = f"{literal_path(path)}/**/*.parquet" if source.is_folder else path
        names = _glob(connection, pattern)
        self._pins.pin(source, pattern=pattern, names=names)
        return _ParquetFiles(tuple(names), "", folder, several, table)

    def _allow(self, connection: duckdb.DuckDBPyConnection, sources: Mapping[str, Source]) -> dict[str, str]:
        """Let the connection read the sources and its directory for spilled rows; all else is shut once those are open.

        Returns the links of the files that are held open, by the view that is to read them.
        """
        folders = [self._directory]
        paths: list[str] = []
        links: dict[str, str] = {}
        for view, source in sources.items():
            place = source.place
            if source.is_remote:
                self._open_remote(connection, source)
            elif not _is_pattern(source) and not (os.path.isdir if source.is_folder else os.path.isfile)(place):
                raise SourceError(
                    f"source {source.path!r} is missing: there is no such {'folder' if source.is_folder else 'file'}"
                )
            else:
                check_folder(source)
            if source.is_folder:
                folders.append(place)
                continue
            paths.append(place)
            if not source.is_remote and not _is_pattern(source):
                link = self._pins.pin(source)
                links |= {} if link == place else {view: link}
            plain = re.split(f"[{re.escape(WILD)}]", place, maxsplit=1)[0]
            folders += [] if plain == place else [os.path.dirname(plain)]
        if paths or len(folders) > 1:
            connection.execute(f"SET allowed_paths = [{', '.join(map(quote_text, [*paths, *links.values()]))}]")
            connection.execute(f"SET allowed_directories = [{', '.join(map(quote_text, folders))}]")
        self._pins.settle()
        return links

    def _open_remote(self, connection: duckdb.DuckDBPyConnection, source: Source) -> None:
        from sordino.ask.engines.remote_tables import RemoteSources

        self._remote = self._remote or RemoteSources()
        self._remote.open(connection, source)

    def _public_schema(self, name: str) -> Mapping[str, str]:
        schema = dict(self._schema(f'"{public_name(name)}"'))
        return {column: kind for column, kind in schema.items() if not column.startswith("sordino_key_")}

    def _schema(self, relation: str) -> Mapping[str, str]:
        """Return the physical type of each column, parameters cut off, as the relation's own schema states it."""
        return {name: kind_of(kind) for name, kind in self._types(relation).items()}

    def _types(self, relation: str) -> dict[str, str]:
        rows: list[Any] | None = None
        try:
            rows = self._connection.execute(f"SELECT column_name, column_type FROM (DESCRIBE {relation})").fetchall()
        except duckdb_error():
            rows = None
        if rows is None:
            raise SourceError("the source cannot be opened: its schema cannot be read")
        return dict(rows)


def _view_lines(view: str, table: PeopleTable, *, at: str, marked: bool = False) -> Iterator[str]:
    """Yield what makes the views of a file of lines: of its rows, and where it is CSV and the table itself, of its lines."""
    source = table.source
    assert isinstance(source, Source)
    path = source.place
    create = "CREATE OR REPLACE VIEW"
    if source.csv is None:
        yield f"{create} {quote_name(view)} AS SELECT * FROM {read_json(path, table.domain.stored, at=at, marked=marked)}"
        return
    yield f"{create} {quote_name(view)} AS SELECT * FROM {read_csv(path, source.csv, at=at, marked=marked)}"
    if view == "source":
        yield f"{create} {LINES} AS SELECT * FROM {read_lines(path, source.csv, at=at, marked=marked)}"


def _contradicts_itself(files: _ParquetFiles) -> bool:
    """Return whether footers state other numbers of rows for row groups than for their columns, or for the whole file.

    A count of all rows is taken from the footer, and what reads a column from its pages: they must count the same rows.
    Arrow reads the footers: DuckDB would convert the bounds that they state, and fail where one moment is too far away.
    """
    import pyarrow.parquet as pq

    domain = files.table.domain
    plain = set(domain.stored) - set(domain.lists)
    for name in files.names:
        try:
            with open_binary(name) as opened, pq.ParquetFile(opened) as file:
                footer = file.metadata
        except Exception:  # of any kind: its words may quote a cell
            return True
        groups = [footer.row_group(place) for place in range(footer.num_row_groups)]
        if footer.num_rows not in (0, sum(group.num_rows for group in groups)):
            return True
        for group in groups:
            columns = (group.column(place) for place in range(group.num_columns))
            if any(c.num_values != group.num_rows for c in columns if c.path_in_schema in plain):
                return True
    return False


def _glob(connection: duckdb.DuckDBPyConnection, pattern: str) -> list[str]:
    """Return the names of the files that meet a pattern; raises DuckDB's error where there is none."""
    names = [name for (name,) in connection.execute(f"SELECT file FROM glob({quote_text(pattern)})").fetchall()]
    if not names:
        raise duckdb_error()("no such file")
    return names


def _is_one_row(select: exp.Select) -> bool:
    """Return whether a SELECT is of aggregates over all rows."""
    from sqlglot import exp

    parts = [part.unalias() for part in select.expressions]
    return not select.args.get("group") and all(isinstance(part, (exp.Count, exp.Sum)) for part in parts)


def _reads_no_column(select: exp.Select) -> bool:
    """Return whether a SELECT counts rows without reading a cell of them."""
    from sqlglot import exp

    return select.find(exp.Column) is None


def _fetch_row(connection: duckdb.DuckDBPyConnection, text: str) -> pa.Table:
    """Return an answer of one row, in the types that DuckDB gives Arrow: a statement is planned once, a relation twice."""
    import pyarrow as pa

    kinds = {"BIGINT": pa.int64(), "HUGEINT": pa.decimal128(38, 0)}
    try:
        answer = connection.execute(text)
        names = [(name, kinds.get(str(kind))) for name, kind, *_ in answer.description]
        (row,) = answer.fetchall()
    except BaseException:
        connection.abort()  # else the connection would wait for the rest of the result
        raise
    cells = [pa.array([cell], kind) for cell, (_, kind) in zip(row, names, strict=True)]
    return pa.table(cells, names=[name for name, _ in names])


def duckdb_error() -> type[Exception]:
    """Return DuckDB's base error, imported on first use."""
    import duckdb

    base: type[Exception] = duckdb.Error
    return base


def _is_loaded(source: Source | pa.Table) -> bool:
    """Return whether a source is in memory, or is read into it as a whole when it is opened."""
    return not isinstance(source, Source) or source.format in LOADERS


def _is_pattern(source: Source) -> bool:
    has_wildcards = source.format == "parquet" and any(c in source.path for c in WILD)
    return has_wildcards and (source.is_remote or not os.path.isfile(source.place))


def _register(connection: duckdb.DuckDBPyConnection, view: str, table: pa.Table) -> None:
    failed = False
    try:
        connection.register(view, mend_arrow(refine_times(table)))
    except duckdb_error():
        failed = True
    if failed:
        raise DeclarationError(
            "the table holds a column of a type that DuckDB does not know: store it as a number, text, a boolean or a day"
        )


def _copy_table(connection: duckdb.DuckDBPyConnection, name: str, table: pa.Table) -> None:
    """Hold a public table in memory, in types of our own choice, so that no statistics of its file prune anything."""
    connection.register("sordino_incoming", refine_times(table))
    connection.execute(f'CREATE TEMP TABLE "{public_name(name)}" AS SELECT * FROM sordino_incoming')
    connection.unregister("sordino_incoming")


def _decimal_digits(types: Mapping[str, str]) -> dict[str, tuple[int, int]]:
    """Return how many digits each decimal column has, and how many after the point, of those of at most 18."""
    matches = {name: _NUMERIC.fullmatch(kind) for name, kind in types.items()}
    return {name: (int(d[1]), int(d[2])) for name, d in matches.items() if d and int(d[1]) <= 18}


def kind_of(physical: str) -> str:
    """Return the head of a type: DECIMAL(18,2) is DECIMAL, VARCHAR[] is a list."""
    if physical.endswith("]"):
        return "LIST"
    head = physical.split("(", 1)[0].strip().strip('"').upper()
    return {"TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ", "TIMESTAMP_MS": "TIMESTAMP", "TIMESTAMP_S": "TIMESTAMP"}.get(
        head, head
    )


# ---- The newest state that each question finds when it begins is read to its end


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
