"""DuckDB, the default engine: reads CSV, Parquet, DuckDB files and Arrow tables as declared, never sniffing anything.

Everything by which one row could decide whether others count is switched off, some optimizers among it: Parquet statistics
leave NaN out of their bounds, and filters are pruned by them. Text has a binary collation, also where a file's columns have
another.
"""

from __future__ import annotations

import itertools
import os
import re
import sys
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from sordino.ask.engines.bounded import BoundedEngine
from sordino.ask.engines.cells import refine_times
from sordino.ask.engines.csv_lines import WILD, copy_marked, is_utf8, literal_path, read_csv, read_json, read_lines
from sordino.ask.engines.duckdb_primitives import BINARY, DuckDBPrimitives
from sordino.ask.engines.engine import EngineFailed, Statement
from sordino.ask.engines.frames import LOADERS, cannot_open, load_file
from sordino.ask.engines.instances import (
    SpillDirectory,
    fetch_blocks,
    fetch_table,
    keep_for_ever,
    leave_at_fork,
    open_connection,
    shared_instance,
)
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
from sordino.core.source import Source, header_cells, missing_source, open_binary

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa
    from sqlglot import exp

    from sordino.ask.engines.remote_tables import RemoteSources
    from sordino.ask.engines.table_counts import KeyColumn, TableCounts

# the view of a CSV file's lines, NOT PRIVATE, for the curator alone
LINES = "sordino_lines"

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
        # a column of a frame whose cells are all missing
        "NULL",
    ]
)


@dataclass(frozen=True, slots=True)
class _ParquetFiles:
    """The files of a Parquet source: their names, or the pattern of those on another machine; and their folder."""

    names: tuple[str, ...]
    pattern: str
    folder: str
    several: bool
    table: PeopleTable

    @property
    def patterns(self) -> list[str]:
        """The patterns that DuckDB reads."""
        return [self.pattern] if self.pattern else [literal_path(name) for name in self.names]


class DuckDBEngine:
    """An engine over one state of one table, with one in-process connection that sees that table only.

    `source` is a Source on disk or an Arrow table; `public` holds the tables that `engines.public` read. Of `people`, the other
    tables of the same people by name, the connection sees those that `reads` names. Files are read in the state in which they
    were opened: a scan of one that was written to since fails, and `FileVersions` opens a file that was replaced anew. Raises
    SourceError where a table is missing or cannot be opened, and DeclarationError where it lacks a declared column or stores it
    in a type that no declared type reads, or in types that differ among files (`check_parquet_types`).
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
        # One thread for all questions: each new one costs DuckDB time.
        self._worker = ThreadPoolExecutor(1, "sordino-engine")
        self._lossy = isinstance(source, Source) and source.lossy
        # The files of each Parquet source, until it was mended.
        self._files: dict[str, _ParquetFiles] = {}
        # The link and table of each file of lines, until its bytes were checked.
        self._lines: dict[str, tuple[str, PeopleTable]] = {}
        self._lines_lock = threading.Lock()
        # Parquet sources whose footers state as many rows as their pages hold.
        self._counted: set[str] = set()
        self._pins = PinnedFiles(self._directory)
        # The header of each CSV source that has one.
        self._headers: dict[str, list[list[str] | None]] = {}
        # Sources on other machines.
        self._remote: RemoteSources | None = None
        # Whether this process is a fork of the one that opened it.
        self._is_parents = False
        try:
            self._connection = self._connect(tables, public or {})
            joinable = {name: self._public_schema(name) for name in public or {}}
            layouts = {name: self._read_layout(people_name(name), other) for name, other in others.items()}
            self._layout = replace(self._read_layout("source", own), public=joinable, people=layouts)
        except BaseException:
            self._pins.close()
            raise
        self._samples = itertools.count()
        leave_at_fork(self)

    def leave_to_parent(self) -> None:
        """Abandon the connection, its threads and its directory: this process opens the source anew."""
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
        """The schema of each table: names and types of columns, and the header line of a CSV file."""
        layouts = {"": self._layout, **self._layout.people}
        return {
            name: (list(layout.physical.items()), layout.items, layout.digits, self._headers.get(layout.source))
            for name, layout in layouts.items()
        }

    def _read_layout(self, view: str, table: PeopleTable) -> TableLayout:
        """Return the layout of a table; raises DeclarationError where it is not as declared."""
        csv = table.source.csv if isinstance(table.source, Source) else None
        types = self._types(quote_name(view))
        physical = {name: kind_of(kind) for name, kind in types.items()}
        # then the names are a line of the file, perhaps a row: errors never quote them
        from_header = csv is not None and csv.names is None
        for name in physical:
            if name.lower().startswith("sordino_"):
                which = "a column" if from_header else f"column {name!r}"
                raise DeclarationError(f"{which}: names that start with sordino_ are reserved; rename it")
        for name in table.domain.stored:
            if name not in physical:
                where = "the source has no such column; " + nearest(name, physical)
                if from_header:
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
        """Return a context with the engine itself, which is one state of its files.

        Raises SourceError where a file on another machine is gone.
        """
        if self._remote is not None:
            self._remote.check()
        return nullcontext(self)

    @property
    def primitives(self) -> DuckDBPrimitives:
        """New primitives for each tree, since they name its steps."""
        return DuckDBPrimitives(self._layout)

    @property
    def physical(self) -> Mapping[str, str]:
        """The physical type of each column, as the source's own schema states it."""
        return self._layout.physical

    @property
    def unreadable_rows(self) -> bool:
        """Whether a row of this source may be unreadable: in CSV and JSON lines, yes."""
        return self._lossy

    def write(self, select: exp.Select) -> Statement:
        """Return DuckDB's text of a tree; nothing is read."""
        source = select.args.get("from_") or select.args.get("from")
        products = select.meta.get("products")
        if products is not None:
            return Statement(write_tree(products.rows), products=products)
        return Statement(
            write_tree(select),
            _is_one_row(select),
            reads_no_column=_reads_no_column(select),
            bounded=None if source is None else source.this.meta.get("bounded"),
        )

    def run(self, select: exp.Select | Statement) -> pa.Table:
        """Return the exact answer of a tree, or of its text; raises EngineFailed, without DuckDB's message."""
        statement = select if isinstance(select, Statement) else self.write(select)
        products = statement.products
        if products is not None:
            from sordino.ask.engines.product_sums import add_products

            return self._read(lambda: add_products(self._connection, statement.text, products, statement.kept))
        fetch = _fetch_row if statement.one_row else fetch_table
        return self._read(lambda: fetch(self._connection, statement.text), counts_all=statement.reads_no_column)

    def count_tables(self, keys: Statement, tables: Sequence[Sequence[KeyColumn]]) -> list[TableCounts]:
        """Return the exact counts of each table, all in one scan of the keys; raises EngineFailed."""
        from sordino.ask.engines.table_counts import CountingTables

        columns = {column.place: column for table in tables for column in table}
        cells = ", ".join(f"{_key_cell(column)} AS k{place}" for place, column in columns.items())
        text = f"SELECT {cells} FROM ({keys.text}) AS sordino_keys"

        def count() -> list[TableCounts]:
            counter = CountingTables(tables)
            with closing(fetch_blocks(self._connection, text)) as blocks:
                for block in blocks:
                    counter.add({place: cells.to_numpy() for place, cells in zip(columns, block.columns, strict=True)})
            return counter.counts()

        return self._read(count)

    def _read(self, work: Callable[[], T], *, counts_all: bool = False) -> T:
        """Return what `work` computes from the rows; raises EngineFailed, without DuckDB's message.

        `counts_all` says that it reads no column.
        """
        self._mark_lines()
        if counts_all:
            self._check_footers()
        answer = self._attempt(work)
        if answer is None and self._remote is not None and not self._remote.are_there():
            raise EngineFailed(cause="the source, on another machine, could not be read any more")
        self._check_whole()
        # a bad cell may be why it failed
        if answer is None and self._mend():
            answer = self._attempt(work)
            self._check_whole()
        if answer is None:
            raise EngineFailed("the engine could not compute the answer")
        return answer

    def _check_whole(self) -> None:
        """Raise EngineFailed where a file was written to since it was opened: its scans would mix two states."""
        if not self._pins.are_whole():
            raise EngineFailed(cause="a file of the source was changed while it was read", passing=True)

    def _mark_lines(self) -> None:
        """Read files of lines that are not plain UTF-8 from marked copies (see `csv_lines`); each file is checked once.

        This is done after the charge, like all that depends on a cell: a copy shows in the time alone.
        """
        if not self._lines:
            return
        failed = False
        with self._lines_lock:
            for view, (link, table) in list(self._lines.items()):
                source = table.source
                assert isinstance(source, Source)
                try:
                    whole = (source.csv is None or source.csv.is_plain) and is_utf8(source.place, at=link)
                    if not whole:
                        copy = os.path.join(self._directory, f"{view}-marked")
                        copy_marked(source.place, copy, source.csv, at=link)
                        views = [self._execute(text, []) for text in _view_lines(view, table, at=copy, marked=True)]
                        failed = not all(views)
                except (OSError, EOFError, ValueError):
                    # its message may quote a line
                    failed = True
                if failed:
                    break
                del self._lines[view]
        if failed:
            self._check_whole()
            raise EngineFailed("the engine could not read the lines of a file")

    def _check_footers(self) -> None:
        """Load Parquet files with Arrow whose pages hold other numbers of rows than their footers state.

        DuckDB takes a count of all rows from the footers, and any other answer from the pages: both must count the same rows.
        """
        for view, files in list(self._files.items()):
            if not files.names or view in self._counted:
                continue
            mended = quote_name(f"sordino_mended_{view}")
            try:
                agree = footers_agree(files.names, files.table.domain.stored)
            except Exception:
                # of any kind: its message may quote a cell
                agree = False
            if agree:
                self._counted.add(view)
            elif self._load_arrow(mended, view, files) and self._execute(
                f"CREATE OR REPLACE VIEW {quote_name(view)} AS SELECT * FROM {mended}", []
            ):
                del self._files[view]

    def _mend(self) -> bool:
        """Read Parquet sources once more, with bad text and moments out of range missing, since these may fail a question.

        Returns whether all could be read. One that cannot be read now is read anew after the next failure: a source is in memory
        completely or not at all.
        """
        mended_all = bool(self._files)
        for view, files in list(self._files.items()):
            columns = files.table.domain.stored
            folders = bool(files.folder)
            types = self._types(quote_name(view))
            cells = mend_parquet(files.patterns, types, columns, folders=folders, several=files.several)
            mended = quote_name(f"sordino_mended_{view}")
            is_mended = self._execute(f"CREATE OR REPLACE TABLE {mended} AS {cells}", []) or self._load_arrow(
                mended, view, files
            )
            self._check_whole()
            if is_mended and self._execute(f"CREATE OR REPLACE VIEW {quote_name(view)} AS SELECT * FROM {mended}", []):
                del self._files[view]
            else:
                mended_all = False
        return mended_all

    def _load_arrow(self, mended: str, view: str, files: _ParquetFiles) -> bool:
        """Load the declared columns of Parquet files with Arrow; False where they would have other types than before."""
        incoming = f"sordino_incoming_{view}"
        table = files.table
        try:
            with self._lock:
                names = list(files.names) or _glob(self._connection, files.pattern)
                old = self._types(quote_name(view))
                cells = load_parquet(names, {n: old[n] for n in table.domain.stored}, folder=files.folder)
                _register(self._connection, incoming, cells)
            new = self._types(quote_name(incoming))
            if any(
                kind_of(new[n]) != kind_of(old[n])
                or (new[n] != old[n] and (n in table.domain.lists or kind_of(old[n]) == "DECIMAL"))
                for n in table.domain.stored
            ):
                return False
            return self._execute(f"CREATE OR REPLACE TABLE {mended} AS SELECT * FROM {quote_name(incoming)}", [])
        except Exception:
            # of any kind: its message may quote a cell
            return False

    def sample(self, *, threshold: int, key: bytes) -> SampledEngine:
        """Return the engine of a Poisson sample: each unit is in with chance threshold / 2^64. Raises EngineFailed."""
        name = f"sordino_sample_{next(self._samples)}"
        selected = DuckDBPrimitives(self._layout).sample_select(lambda named: coin_sql(named, threshold=threshold))
        statement = f'CREATE TEMP TABLE "{name}" AS {selected}'
        self._mark_lines()
        if not (self._execute(statement, [key.hex()]) or (self._mend() and self._execute(statement, [key.hex()]))):
            raise EngineFailed("the engine could not draw the sample")
        return SampledEngine(
            replace(self._layout, source=f'"{name}"'),
            self.unreadable_rows,
            write=self.write,
            run=self.run,
            close=lambda: self._drop(name),
        )

    def keep_bounded(self) -> BoundedEngine:
        """Return an engine that computes each bounded relation once, and keeps the columns needed until it is closed."""
        return BoundedEngine(self._layout, self.unreadable_rows, self.write, self.run, self._keep, self._drop)

    def _keep(self, statement: str) -> str | None:
        """Store the rows of a SELECT, and return the name of the table; None where it failed."""
        name = f"sordino_bounded_{next(self._samples)}"
        self._mark_lines()
        return name if self._execute(f'CREATE TEMP TABLE "{name}" AS {statement}', []) else None

    def _drop(self, name: str) -> None:
        self._execute(f'DROP TABLE IF EXISTS "{name}"', [])

    def _execute(self, text: str, values: list[str]) -> bool:
        """Run a statement without an answer, and return whether it succeeded."""
        return self._attempt(lambda: self._connection.execute(text, values)) is not None

    def _attempt(self, work: Callable[[], T]) -> T | None:
        """Return the result of `work`, None where DuckDB fails: its message may quote a cell, so it is dropped.

        Raises EngineFailed where the process may open no more files.
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
        """Return the result of `work`, run in the engine's own thread; on Ctrl-C interrupt it, wait for it, and raise.

        An engine that runs in the main thread keeps Python from seeing a signal until it is done.
        """
        result = self._worker.submit(work)
        try:
            # not by Thread.join, which after one interrupt takes a running thread for one that has ended
            return result.result()
        except KeyboardInterrupt:
            # repeated, since the signal may come before the engine has begun
            while not result.done():
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
        """Return a connection in which each table is a view of its name, and which can open nothing else."""
        tables = {view: self._load(table) for view, table in tables.items()}
        files = {view: table.source for view, table in tables.items() if isinstance(table.source, Source)}
        # An instance for files is theirs alone: which files may be opened is a setting of the instance.
        connection = shared_instance("rows").root.cursor() if self._spill is None else open_connection(self._directory)
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

    def _load(self, table: PeopleTable) -> PeopleTable:
        """Return a table with its source in memory if its format is one that is loaded when it is opened, else as it is."""
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
        """Create the view of a source; DuckDB's message about a file is dropped, since it may quote it."""
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
                types = [row[:2] for row in connection.execute(f"DESCRIBE {relation}").fetchall()]
                # With a collation of the file's, texts that differ may be equal, and their order decides which of them stands
                # for all: one row would then change every other.
                names = [(quote_name(name), BINARY if kind == "VARCHAR" else "") for name, kind in types]
                cells = ", ".join(f"{name} {collation} AS {name}" for name, collation in names)
                connection.execute(f"CREATE VIEW {quote_name(view)} AS SELECT {cells} FROM {relation}")
            elif source.format == "parquet":
                files = self._find_files(connection, table, link)
                if files.several:
                    check_parquet_types(connection, files.patterns, table)
                relation = read_parquet(files.patterns, folders=source.is_folder, several=files.several)
                connection.execute(f"{create} {relation}")
                self._files[view] = files
                contradicts = not source.is_remote and _contradicts_itself(files)
            else:
                if source.csv is not None and source.csv.header:
                    self._headers[quote_name(view)] = header_cells(path, source.csv, at=link)
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
        """Return the files of a Parquet source: those that exist now, or a pattern of those on another machine."""
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
        """Allow the connection to read the sources and its directory for spilled rows, and nothing else once those are open.

        Returns the links of the files that are kept open, by the view that reads them.
        """
        folders = [self._directory]
        paths: list[str] = []
        links: dict[str, str] = {}
        for view, source in sources.items():
            place = source.place
            if source.is_remote:
                self._open_remote(connection, source)
            elif not _is_pattern(source) and not (os.path.isdir if source.is_folder else os.path.isfile)(place):
                raise missing_source(source.path, folder=source.is_folder)
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
        """Return the physical type of each column of a public table, without its keys."""
        types = self._types(f'"{public_name(name)}"')
        return {column: kind_of(kind) for column, kind in types.items() if not column.startswith("sordino_key_")}

    def _types(self, relation: str) -> dict[str, str]:
        """Return the type of each column, by the relation's own schema."""
        rows: list[Any] | None = None
        try:
            # A SELECT from this would be handed to DuckDB's threads, which takes twice as long as the rest.
            rows = self._connection.execute(f"DESCRIBE {relation}").fetchall()
        except duckdb_error():
            rows = None
        if rows is None:
            raise SourceError("the source cannot be opened: its schema cannot be read")
        return {name: kind for name, kind, *_ in rows}


def _view_lines(view: str, table: PeopleTable, *, at: str, marked: bool = False) -> Iterator[str]:
    """Yield the statements that create the views of a file of lines: its rows, and, of the table's own CSV file, its lines."""
    source = table.source
    assert isinstance(source, Source)
    path = source.place
    create = "CREATE OR REPLACE VIEW"
    if source.csv is None:
        yield f"{create} {quote_name(view)} AS SELECT * FROM {read_json(path, table.domain.stored, at=at, marked=marked)}"
        return
    formats = source.csv.formats(table.domain.columns)
    rows = read_csv(path, source.csv, formats=formats, at=at, marked=marked)
    yield f"{create} {quote_name(view)} AS SELECT * FROM {rows}"
    if view == "source":
        yield f"{create} {LINES} AS SELECT * FROM {read_lines(path, source.csv, at=at, marked=marked)}"


def _contradicts_itself(files: _ParquetFiles) -> bool:
    """Return whether footers state other numbers of rows for row groups than for their columns, or for the whole file.

    DuckDB counts all rows by the footer, and reads a column from its pages: they must count the same rows. Arrow reads the
    footers, since DuckDB would convert the bounds that they state, and fail where a moment is out of range.
    """
    import pyarrow.parquet as pq

    domain = files.table.domain
    plain = set(domain.stored) - set(domain.lists)
    for name in files.names:
        try:
            with open_binary(name) as opened, pq.ParquetFile(opened) as file:
                footer = file.metadata
        except Exception:
            # of any kind: its message may quote a cell
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
    """Return the names of the files that match a pattern; raises DuckDB's error where there is none."""
    names = [name for (name,) in connection.execute(f"SELECT file FROM glob({quote_text(pattern)})").fetchall()]
    if not names:
        raise duckdb_error()("no such file")
    return names


def _key_cell(column: KeyColumn) -> str:
    """Return the text of a cell that tells a key: of a key itself, in as few bytes as hold it."""
    sizes = (("UTINYINT", 2**8), ("USMALLINT", 2**16), ("UINTEGER", 2**32))
    kind = "BIGINT" if column.edges else next(kind for kind, most in sizes if column.size < most)
    return f"CAST(COALESCE(k{column.place}, {column.none}) AS {kind})"


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
    """Return an answer of one row, in DuckDB's types for Arrow; as a statement it is planned once, as a relation twice."""
    import pyarrow as pa

    kinds = {"BIGINT": pa.int64(), "HUGEINT": pa.decimal128(38, 0)}
    try:
        answer = connection.execute(text)
        names = [(name, kinds.get(str(kind))) for name, kind, *_ in answer.description]
        (row,) = answer.fetchall()
    except BaseException:
        # else the connection would wait for the rest of the result
        connection.abort()
        raise
    cells = [_one_cell(cell, kind) for cell, (_, kind) in zip(row, names, strict=True)]
    return pa.table(cells, names=[name for name, _ in names])


def _one_cell(cell: Any, kind: pa.DataType | None) -> pa.Array:
    """Return an Arrow array of one cell; of a whole number by its bytes, since `pa.array` of a list imports pandas, if there."""
    import pyarrow as pa

    if kind is None:
        return pa.array([cell])
    number = pa.py_buffer(int(cell or 0).to_bytes(kind.bit_width // 8, sys.byteorder, signed=True))
    return pa.Array.from_buffers(kind, 1, [pa.py_buffer(b"\0") if cell is None else None, number])


def duckdb_error() -> type[Exception]:
    """Return DuckDB's base error, imported on first use."""
    import duckdb

    base: type[Exception] = duckdb.Error
    return base


def _is_loaded(source: Source | pa.Table) -> bool:
    """Return whether a source is in memory, or is loaded into memory when it is opened."""
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
    """Copy a public table into the connection, so that no statistics of its file prune anything."""
    connection.register("sordino_incoming", refine_times(table))
    connection.execute(f'CREATE TEMP TABLE "{public_name(name)}" AS SELECT * FROM sordino_incoming')
    connection.unregister("sordino_incoming")


def _decimal_digits(types: Mapping[str, str]) -> dict[str, tuple[int, int]]:
    """Return the number of digits of each decimal column of at most 18, in all and after the point."""
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


# ---- Each question reads, from its beginning to its end, the newest state of the files when it begins


class FileVersions:
    """An engine over a table whose files may be replaced: each question reads one version of them.

    `open_version` opens an engine on the present files, and on the tables named in its argument. A version is opened before a
    question is charged, and only the file system's data and the schema decide that: no cell is read. A version with other
    columns or types, or with another header line, is refused: the plan and the ledger may not hold for it. A version is closed
    when no question reads it and there is a newer one.
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
        """Abandon the lock, which a thread of the parent may have held, and the readers, which are the parent's."""
        self._lock = threading.Lock()
        self._readers.clear()

    @property
    def primitives(self) -> DuckDBPrimitives:
        """New primitives to build one tree with, the same for every version."""
        return self._current.primitives

    @property
    def physical(self) -> Mapping[str, str]:
        """The physical type of each column, as the source's own schema states it."""
        return self._current.physical

    @property
    def unreadable_rows(self) -> bool:
        """Whether a row of this source may be unreadable."""
        return self._current.unreadable_rows

    def open_tables(self, names: Collection[str]) -> FileVersions:
        """Return the engine that also reads these tables of the same people; it is opened once, and closed with this one."""
        reads = frozenset(names)
        if not reads:
            return self
        with self._lock:
            if reads not in self._wider:
                self._wider[reads] = FileVersions(self._open, reads=reads)
            return self._wider[reads]

    @contextmanager
    def snapshot(self) -> Iterator[DuckDBEngine]:
        """Yield an engine over one state of the files, for all trees that it runs.

        Raises SourceError where a file is gone, has another schema than when the table was opened, or cannot be opened.
        """
        check_descriptors()
        version = self._take()
        try:
            with version.snapshot() as engine:
                yield engine
        finally:
            self._release(version)

    def write(self, select: exp.Select) -> Statement:
        """Return DuckDB's text of a tree; nothing is read."""
        return self._current.write(select)

    def run(self, select: exp.Select | Statement) -> pa.Table:
        """Return the exact answer of a tree, or of its text, on a state of its own; raises EngineFailed."""
        cause = ""
        try:
            with self.snapshot() as engine:
                return engine.run(select)
        except SourceError:
            cause = "the source is not there any more, or is not as it was"
        raise EngineFailed(cause=cause)

    def sample(self, *, threshold: int, key: bytes) -> DuckDBEngine:
        """Raise EngineFailed: a sample is drawn of one state of the data."""
        del threshold, key
        raise EngineFailed("a sample is drawn within a snapshot")

    def close(self) -> None:
        """Close the current version, and those that also read other tables."""
        with self._lock:
            for wider in self._wider.values():
                wider.close()
            self._current.close()

    def _take(self) -> DuckDBEngine:
        """Return the version of the present files, with one more reader."""
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
        """Return a version of the present files, None where it has another schema."""
        try:
            new = self._open(self._reads)
        except SourceError:
            raise
        except DeclarationError:
            # it lacks a declared column, or stores one in a type that no declared type reads
            return None
        if new.schema == old.schema:
            return new
        new.close()
        return None

    def _release(self, version: DuckDBEngine) -> None:
        with self._lock:
            self._readers[version] -= 1
            if not self._readers[version]:
                del self._readers[version]
                if version is not self._current:
                    version.close()
