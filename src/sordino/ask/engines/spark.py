"""Spark: the cluster aggregates and no row leaves it; a question is one statement, and what its sums hold never wraps."""

from __future__ import annotations

import contextlib
import copy
import itertools
import logging
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sordino.ask.engines.engine import EngineFailed, Statement
from sordino.ask.engines.own_sql import people_name, public_name
from sordino.ask.engines.quoting import quote_name, quote_text
from sordino.ask.engines.readers.held_column import HeldColumn
from sordino.ask.engines.readers.spark_tables import (
    check_settings,
    error_names,
    is_alive,
    open_frame,
    open_session,
    read_columns,
)
from sordino.ask.engines.spark_dialect import SordinoSpark
from sordino.ask.engines.spark_primitives import SparkPrimitives
from sordino.ask.engines.table_layout import PeopleTable, TableLayout, check_columns, is_spark
from sordino.core.domain import Domain
from sordino.core.errors import DeclarationError, SourceError
from sordino.core.neighbors import PrivacyUnit
from sordino.core.source import Source

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from sqlglot import exp

_READABLE = frozenset(
    [
        "BOOLEAN",
        "TINYINT",
        "SMALLINT",
        "INTEGER",
        "BIGINT",
        "DECIMAL",
        "FLOAT",
        "DOUBLE",
        "VARCHAR",
        "DATE",
        "TIMESTAMP",
    ]
)
_READABLE |= {"TIMESTAMPTZ", "NULL"}
_ITEMS = _READABLE - {"TIMESTAMP", "TIMESTAMPTZ", "NULL"}
_SOURCE = "sordino_source"
_NUMBERS = itertools.count()
_GONE = "the table, or a file of it, is not there any more"
_LOST = "the Spark session is stopped, or its cluster was lost"


class SparkEngine:
    """Answer trees over one table that a Spark session reads, or over a DataFrame of its own session.

    Other tables of the same people can be joined where the same session reads them. Raises SourceError where the session,
    the table or a right is missing, DeclarationError where the table lacks a declared column or no declared type reads it.
    """

    def __init__(
        self,
        source: Source | Any,
        *,
        domain: Domain,
        unit: PrivacyUnit | None,
        public: Mapping[str, pa.Table] | None = None,
        people: Mapping[str, PeopleTable] | None = None,
    ) -> None:
        self._session: SparkSession = (
            open_session(source.settings) if isinstance(source, Source) else source.sparkSession
        )
        self._process = os.getpid()
        self._mark = f"sordino_{self._process}_{next(_NUMBERS)}"
        self._people = dict(people or {})
        self._schemas: dict[str, Any] = {}
        self._tables: Mapping[str, PeopleTable] = {_SOURCE: PeopleTable(source, domain, unit)}
        self._views: list[str] = []
        self._sent: dict[str, str] = {}  # the views of public tables, by the names that our SQL has for them
        check_settings(self._session)
        held = self._open(_SOURCE, self._tables[_SOURCE])
        kinds = {name: self._send(name, cells) for name, cells in (public or {}).items()}
        self._held = replace(held, public=kinds)

    @property
    def primitives(self) -> SparkPrimitives:
        """The words to build one tree with."""
        return SparkPrimitives(self._held)

    @property
    def physical(self) -> Mapping[str, str]:
        """How Spark holds each declared column."""
        return self._held.physical

    @property
    def unreadable_rows(self) -> bool:
        """Whether a row of this source may be lost as a whole: no."""
        return False

    def open_tables(self, names: Collection[str]) -> SparkEngine:
        """Return the engine that also reads these tables of the same people, in the same session."""
        if not names:
            return self
        self._check_process()
        wider = copy.copy(self)
        layouts = {}
        for name in sorted(names):
            other = self._people[name]
            if not is_spark(other.source):
                raise SourceError(
                    f"table {name!r} lies elsewhere: private tables can be joined where one Spark session reads both, or "
                    "both are read by DuckDB"
                )
            layouts[name] = self._open(people_name(name), other)
            wider._tables = {**wider._tables, people_name(name): other}
        wider._held = replace(self._held, people=layouts)
        return wider

    @contextmanager
    def snapshot(self) -> Iterator[SparkEngine]:
        """Open each table anew for all that is run; raises SourceError where one is gone, or held otherwise.

        What a table's format does not hold, a change while a question of several scans is at work, is seen by it.
        """
        self._check_process()
        if not is_alive(self._session):
            raise SourceError(f"{_LOST}: open a session, and the table anew")
        check_settings(self._session)
        for name, table in self._tables.items():
            held = self._held.find(name)
            now = self._open(name, table)
            if (now.physical, now.items) != (held.physical, held.items):
                raise SourceError("the table is not as it was when it was opened: open it anew")
        yield self

    def write(self, select: exp.Select) -> Statement:
        """Return Spark's text of a tree, with the views of the public tables that it joins; nothing is read."""
        select = select.copy()
        for table in select.find_all(_table_node()):
            if table.name in self._sent:
                table.this.set("this", self._sent[table.name])
        return Statement(select.sql(dialect=SordinoSpark))

    def run(self, select: exp.Select | Statement) -> pa.Table:
        """Return the exact answer of a tree, or of its text; raises EngineFailed, without any of Spark's words."""
        text = (select if isinstance(select, Statement) else self.write(select)).text
        mark = f"{self._mark}_{next(_NUMBERS)}"
        cause = ""
        try:
            with _silence(), _interruptible(self._session, mark):
                return _narrow(self._session.sql(text).toArrow())
        except Exception as error:  # of any kind: it may quote a cell, so nothing of it goes on
            cause = _cause(error)
        raise EngineFailed(cause=cause if is_alive(self._session) else _LOST)

    def sample(self, *, threshold: int, key: bytes) -> SparkEngine:
        """Return a Poisson sample: each unit is in with chance threshold / 2^64, by coins keyed by `key`.

        Where each row is a unit, its name is all of its declared cells and its number among rows like it. Theorem: as of
        `PostgresSnapshot.sample`. The key is a cell of a local table, so that no plan or log of Spark's shows it.
        """
        view = self._name(f"key_{next(_NUMBERS)}")
        try:
            self._session.createDataFrame([(key.hex(),)], "key string").createOrReplaceTempView(view)
        except Exception:  # of any kind
            raise EngineFailed(cause=_LOST) from None

        def coin(named: str) -> str:
            digest = f"SHA2((SELECT key FROM {quote_name(view)}) || {named}, 256)"
            return f"left({digest}, 16) < {quote_text(f'{threshold:016x}')}"

        sampled = copy.copy(self)
        sampled._held = replace(self._held, source=SparkPrimitives(self._held).sample_source(coin))
        sampled._tables, sampled._views = {}, [view]
        return sampled

    def close(self) -> None:
        """Drop the views that this engine made; the session stays."""
        if os.getpid() != self._process:
            return
        for view in self._views:
            with contextlib.suppress(Exception):
                self._session.catalog.dropTempView(view)

    def _check_process(self) -> None:
        """Raise SourceError in a forked process: its copies of the parent's sockets would mix their words with the parent's."""
        if os.getpid() != self._process:
            raise SourceError(
                "a forked process cannot use the Spark session of its parent; nothing was charged. Ask in the process that "
                'opened the table, or start processes with multiprocessing.get_context("spawn") and open the table there'
            )

    def _name(self, view: str) -> str:
        return f"{self._mark}_{view}"

    def _open(self, name: str, table: PeopleTable) -> TableLayout:
        """Make the view of a table and return how it is held; raises DeclarationError where that is not as declared."""
        frame: Any = table.source
        if isinstance(frame, Source):
            frame = open_frame(self._session, frame, self._schemas.get(name))
        elif frame.sparkSession is not self._session:
            raise SourceError("a DataFrame of another Spark session cannot be joined: make both in one session")
        held = read_columns(frame)
        _check_case(held)
        check_columns(table, held, readable=_READABLE, items=_ITEMS, cast="in a view")
        self._schemas.setdefault(name, frame.schema)
        view = self._name(name)
        try:
            chosen = [_read(column, held[column]) for column in table.domain.stored]
            frame.selectExpr(*chosen).createOrReplaceTempView(view)
        except Exception:  # of any kind
            raise SourceError("the table cannot be read: its columns cannot be selected") from None
        self._views.append(view) if view not in self._views else None
        physical = {column: held[column].kind for column in table.domain.stored}
        items = {column: held[column].item for column in table.domain.lists}
        return TableLayout(physical, table.domain, table.unit, None, source=quote_name(view), items=items)

    def _send(self, name: str, cells: pa.Table) -> dict[str, str]:
        """Send a public table to the session, and return how it is held there."""
        from sordino.ask.engines.moment_cells import refine_times

        frame = self._session.createDataFrame(refine_times(cells))
        held = read_columns(frame)
        view = self._name(public_name(name))
        frame.selectExpr(*(_read(n, h) for n, h in held.items())).createOrReplaceTempView(view)
        self._sent[public_name(name)] = view
        self._views.append(view)
        return {n: h.kind for n, h in held.items() if not n.startswith("sordino_key_")}


def _check_case(held: Mapping[str, HeldColumn]) -> None:
    lower = [name.lower() for name in held]
    for name in held:
        if lower.count(name.lower()) > 1:
            raise DeclarationError(
                f"column {name!r}: another column's name differs only in case, which Spark ignores; rename it"
            )


def _read(column: str, held: HeldColumn) -> str:
    """Return a column as our SQL reads it: NaN and text that is not UTF-8 are NULL, text is compared by its bytes.

    With NaN gone before any condition, whatever bounds a file or a table format keeps, which leave NaN out, prune by what
    the conditions mean.
    """
    name = "`" + column.replace("`", "``") + "`"
    if held.kind in ("FLOAT", "DOUBLE"):
        return f"CASE WHEN NOT isnan({name}) THEN {name} END AS {name}"
    if held.kind == "VARCHAR":
        return f"try_validate_utf8(CAST({name} AS STRING) COLLATE UTF8_BINARY) AS {name}"
    if held.item == "VARCHAR":
        return f"transform({name}, x -> try_validate_utf8(CAST(x AS STRING) COLLATE UTF8_BINARY)) AS {name}"
    return name


def _table_node() -> type[exp.Table]:
    from sqlglot import exp

    return exp.Table


def _narrow(answer: pa.Table) -> pa.Table:
    """Return the answer with 64-bit numbers in place of decimals where all are so small."""
    import pyarrow as pa

    for place, column in enumerate(answer.schema):
        if pa.types.is_decimal(column.type):
            with contextlib.suppress(pa.ArrowInvalid):
                answer = answer.set_column(place, column.name, answer.column(place).cast(pa.int64()))
    return answer


@contextmanager
def _silence() -> Iterator[None]:
    """Keep pyspark's own logger of errors, which writes them out with what they quote, from writing."""
    logger = logging.getLogger("SQLQueryContextLogger")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


@contextmanager
def _interruptible(session: SparkSession, mark: str) -> Iterator[None]:
    """On Ctrl-C stop what the session runs for this question."""
    session.addTag(mark)
    try:
        yield
    except KeyboardInterrupt:
        session.interruptTag(mark)
        raise
    finally:
        with contextlib.suppress(Exception):
            session.removeTag(mark)


def _cause(error: Exception) -> str:
    """Return what happened, by the kinds of an error alone; nothing for those that rows could bring about."""
    causes = {
        "TABLE_OR_VIEW_NOT_FOUND": _GONE,
        "PATH_NOT_FOUND": _GONE,
        "FILE_NOT_EXIST": _GONE,
        "FileNotFoundException": _GONE,
        "SparkFileNotFoundException": _GONE,
        "ExecutorLostFailure": "executors of the cluster were lost",
        "FetchFailed": "executors of the cluster were lost",
        "OutOfMemoryError": "the cluster has no memory left",
        "SparkOutOfMemoryError": "the cluster has no memory left",
    }
    return next((causes[name] for name in error_names(error) if name in causes), "")
