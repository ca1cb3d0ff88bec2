"""Spark as an engine: its dialect, its primitives, its answers."""

from __future__ import annotations

import contextlib
import copy
import itertools
import logging
import math
import os
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.generators.spark import SparkGenerator

from sordino.ask.engines.cells import clip_micros
from sordino.ask.engines.engine import EngineFailed, Statement
from sordino.ask.engines.readers.spark_tables import (
    check_settings,
    error_names,
    is_alive,
    open_frame,
    open_session,
    read_columns,
    reads,
)
from sordino.ask.engines.row_hash import unit_value
from sordino.ask.engines.sql_primitives import FLOATING, SqlPrimitives
from sordino.ask.engines.sql_text import (
    literal_text,
    parse_own,
    parse_relation,
    people_name,
    public_name,
    quote_name,
    quote_text,
    whole_text,
)
from sordino.ask.engines.table_layout import PeopleTable, PhysicalColumn, TableLayout, check_columns, is_spark
from sordino.core.cell_grammar import DECIMAL, WHOLE
from sordino.core.domain import Domain
from sordino.core.errors import DeclarationError, QuestionRefused, SourceError
from sordino.core.neighbors import PrivacyUnit
from sordino.core.noise.lattice import scale_of
from sordino.core.primitives import NARROW, UnitCell
from sordino.core.source import Source

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from sqlglot import exp


# ---- Spark's SQL, written of our own trees: `//` is the whole quotient, HUGEINT is DECIMAL(38, 0), sums never wrap

_WIDE = "DECIMAL(38, 0)"
# divides numbers of up to 37 digits into two parts of 64 bits
_HALF = f"CAST('{2**62}' AS {_WIDE})"


class SordinoSpark(Spark):
    """Spark's dialect for writing our own trees; nothing is read by it."""

    class Generator(SparkGenerator):
        """A writer of the nodes that Spark computes in another way, or in 64 bits."""

        TYPE_MAPPING: ClassVar[dict[exp.DType, str]] = {**SparkGenerator.TYPE_MAPPING, exp.DType.INT128: _WIDE}

        TRANSFORMS: ClassVar[dict[Any, Any]] = {
            k: v for k, v in SparkGenerator.TRANSFORMS.items() if k is not exp.IntDiv
        }

        def intdiv_sql(self, expression: exp.IntDiv) -> str:
            """Write the whole quotient of two numbers that are not negative, neither past 37 digits.

            Where neither is cast to a wide type, both were proved to be within 2^62 (`NARROW`), and DIV is right. Spark's DIV of
            decimals returns 64 bits, and wraps silently where a quotient has more. Theorem: with a = h c + l for
            c = 2^62, and h = q b + s, the quotient a // b is q c + (s c + l) // b. Here h < 10^37 / 2^62 < 2^62, and as
            s < b, (s c + l) // b is at most c; so no quotient below has more than 64 bits.
            """
            wide = (exp.DType.INT128, exp.DType.DECIMAL)
            if not any(cast.to.this in wide for cast in expression.find_all(exp.Cast)):
                return self.binary(expression, "DIV")
            a, b = (f"CAST({self.sql(expression, part)} AS {_WIDE})" for part in ("this", "expression"))
            high = f"({a} DIV {_HALF})"
            rest = f"(CAST({high} % {b} AS {_WIDE}) * {_HALF} + {a} % {_HALF})"
            return f"CAST(({high} DIV {b}) * {_HALF} + {rest} DIV {b} AS {_WIDE})"

        def sum_sql(self, expression: exp.Sum) -> str:
            """Write a sum of 38 digits: that of a BIGINT has 64 bits."""
            of = expression.this
            if isinstance(of, exp.Distinct):
                return f"SUM(DISTINCT CAST({self.expressions(of, flat=True)} AS {_WIDE}))"
            return f"SUM(CAST({self.sql(of)} AS {_WIDE}))"

        def window_sql(self, expression: exp.Window) -> str:
            """Write a row's number with an order, which Spark requires even if any order will do."""
            if isinstance(expression.this, exp.RowNumber) and expression.args.get("order") is None:
                expression = expression.copy()
                expression.set("order", exp.Order(expressions=[exp.Literal.number(1)]))
            return super().window_sql(expression)

        def log_sql(self, expression: exp.Log) -> str:
            """Write the logarithm to base 2 or 10 as Spark's function for it."""
            return f"LOG{expression.this.name}({self.sql(expression, 'expression')})"

        def anonymous_sql(self, expression: exp.Anonymous) -> str:
            """Write GROUPING of several columns, a bit for each, under Spark's name, and a sum in 64 bits."""
            if expression.name.upper() == "WHOLE_SUM":
                return self.func("SUM", *expression.expressions)
            if expression.name.upper() == "GROUPING":
                return self.func("GROUPING_ID", *expression.expressions)
            return super().anonymous_sql(expression)


# ---- The primitives in Spark's SQL, in ANSI mode
#
# Its casts and its arithmetic fail there where DuckDB's give NULL or infinity, so each is total by TRY_CAST, or guarded by a CASE
# for the values on which it is total. FLOOR of a DOUBLE is a BIGINT, 0 for NaN and the largest one for numbers beyond it, so it
# is never used to test whether a number is whole. Texts are parsed as DuckDB's and written by `SordinoSpark`.

# values that are compared one by one
_FEW = 16
# an escape character that a pattern lacks leaves nothing in it escaped
_ESCAPES = "!#~^|@`$&;=<>:\x01\x02\x03\x04\x05\x06"


class SparkPrimitives(SqlPrimitives):
    """The primitives for one SELECT over one table that Spark reads. Its floats have no NaN: `_read` makes them NULL."""

    def _tree(self, text: str) -> exp.Expression:
        return parse_own(text)

    def _relation(self, text: str) -> exp.Expression:
        return parse_relation(text)

    def _source_of_groups(self, cells: exp.Select) -> exp.Expression:
        # Put in as a tree: written as DuckDB's and read again, some functions would be others.
        relation = self._relation(self._stage("sordino_cells"))
        groups = cells.subquery("sordino_cells", copy=False)
        place = next(table for table in relation.find_all(exp.Table) if table.name == "sordino_cells")
        if place is relation:
            return groups
        place.replace(groups)
        return relation

    def sample_source(self, coin: Callable[[str], str]) -> str:
        """Return the relation of the sampled rows; `coin` makes the condition of the SQL that names a unit."""
        names = sorted(self._layout.domain.stored)
        cells = ", ".join(map(quote_name, names))
        unit = self._layout.unit
        if unit is None or unit.column is None:
            text = f"SELECT *, {self._row_text(names)} AS sordino_text FROM {self._layout.source}"
            number = "row_number() OVER (PARTITION BY sordino_text) AS sordino_number"
            rows = f"(SELECT *, {number} FROM ({text}) AS sordino_texts) AS sordino_numbers"
            condition = coin("sordino_text || CAST(sordino_number AS VARCHAR)")
        else:
            owner = self.let(self._text(unit.column))
            rows = self._stage(self._layout.source)
            condition = f"{owner} IS NOT NULL AND {coin(owner)}"
        return f"(SELECT {cells} FROM {rows} WHERE {condition}) AS sordino_sample"

    def _row_text(self, columns: Sequence[str]) -> str:
        """Return one text of all cells, which is different for different rows."""
        texts = []
        for name in columns:
            cell = quote_name(name)
            texts.append(f"TO_JSON({cell})" if name in self._layout.items else f"CAST({cell} AS VARCHAR)")
        return f"TO_JSON(LIST_VALUE({', '.join(texts)}))"

    def total(self, value: exp.Expression, largest: Fraction | None) -> exp.Expression:
        """Return the sum in 64 bits where these suffice, else the sums of several parts of the number.

        Theorem: for n rows, n at most the declared ceiling times the rows that joins made of one, with n 2^b <= 2^62, a sum of
        numbers up to 2^b in size is at most 2^62, and x = (x >> b) 2^b + (x & 2^b - 1) also for an x below 0. Sums of decimals
        would be right too, but slow.
        """
        rows = self._layout.domain.row_ceiling * self._copies
        bits = 62 - (rows - 1).bit_length()
        if largest is None or largest >= NARROW or bits < 12:
            return super().total(value, largest)
        number = self.let(f"CAST({self._words(value)} AS BIGINT)")
        shift = 0
        sums = []
        while math.ceil(largest) >> shift >= 2**bits:
            sums.append(f"CAST(WHOLE_SUM(({number} >> {shift}) & {2**bits - 1}) AS HUGEINT) * {whole_text(2**shift)}")
            shift += bits
        sums.append(f"CAST(WHOLE_SUM({number} >> {shift}) AS HUGEINT) * {whole_text(2**shift)}")
        return self._tree(" + ".join(sums) if shift else f"WHOLE_SUM({number})")

    def _restrict(self, condition: str) -> None:
        """Restrict the rows above a column that is not deterministic, past which Spark pushes no filter.

        It would expand all steps that a filter reads into the filter, wherever each is used: a chain of n steps up to 6^n times.
        And so no condition of ours reaches a file's reader, which may drop more than the rows that do not meet it.
        """
        name = f"sordino_{len(self._levels)}_"
        self._levels[name] = len(self._stages)
        self._stages.append({"MONOTONICALLY_INCREASING_ID()": name})
        super()._restrict(f"({condition}) AND {name} >= 0")

    def _limit_rank(self, rank: str, most: int) -> None:
        """Restrict by a rank alone, which Spark then sees while it sorts."""
        super()._restrict(f"{self.let(rank)} <= {most}")

    def units(self, of: exp.Expression | None, *, pairs: int | None = None) -> exp.Expression:
        """Return one row a unit; the condition that it ends in is not pushed down either."""
        step = None if of is None else self._tree(self.let(self._words(of)))
        self._restrict("true")
        return super().units(step, pairs=pairs)

    def label(self, code: exp.Expression, labels: Sequence[str | int | bool | None]) -> exp.Expression:
        """Return the label at a place, by a look-up in a constant array."""
        listed = ", ".join(map(literal_text, labels))
        return self._tree(f"GET(LIST_VALUE({listed}), CAST({self._words(code)} AS INT))")

    def bisect(self, cell: str, starts: Sequence[int], results: Sequence[str]) -> str:
        """Return the result of the last start that is not above a cell: of many by steps over constant arrays.

        A CASE for each start would make a method too long for Java to compile, which runs twenty times slower.
        Theorem: let n starts be at most the cell, and 0 <= n - p < 2 h for a power of two h. The start of place p + h - 1 is
        at most the cell where n >= p + h; so with p + h in its place then, 0 <= n - p < h. One past the end is NULL.
        """
        if len(starts) <= _FEW:
            return super().bisect(cell, starts, results)
        listed = self.let(f"LIST_VALUE({', '.join(map(whole_text, starts))})")
        at = "0"
        for power in reversed(range(len(starts).bit_length())):
            place = f"{at} + {2**power - 1}" if at != "0" else str(2**power - 1)
            at = self.let(f"{at} + CASE WHEN GET({listed}, {place}) <= {cell} THEN {2**power} ELSE 0 END")
        # the places themselves are wanted
        if [*results] == [str(place) for place in range(len(results))]:
            return at
        listed_results = self.let(f"LIST_VALUE({', '.join(results)})")
        return f"GET({listed_results}, {at})"

    def _whole_place(self, cell: str, values: Sequence[int]) -> str:
        cases = (f"WHEN {whole_text(v)} THEN {i}" for i, v in enumerate(values))
        return f"CAST(CASE {cell} {' '.join(cases)} END AS BIGINT)"

    def _text_place(self, cell: str, values: Sequence[str]) -> str:
        """Return the place of a text: by comparing a few, or those of many that share its checksum."""
        if not values:
            return "CAST(NULL AS BIGINT)"
        groups: dict[int, list[int]] = {}
        count = 1 if len(values) <= _FEW else len(values) // 4
        for place, value in enumerate(values):
            groups.setdefault(zlib.crc32(value.encode()) % count, []).append(place)
        cases = {
            at: f"CASE {cell} {' '.join(f'WHEN {quote_text(values[p])} THEN {p}' for p in places)} END"
            for at, places in groups.items()
        }
        if count == 1:
            return f"CAST({cases[0]} AS BIGINT)"
        listed = (f"WHEN {at} THEN {case}" for at, case in sorted(cases.items()))
        return f"CAST(CASE CRC32({cell}) % {count} {' '.join(listed)} END AS BIGINT)"

    def like(self, cell: exp.Expression, kind: str, pattern: str) -> exp.Expression:
        """Return whether a text matches; no character of a pattern is an escape."""
        at = self._words(cell)
        quoted = quote_text(pattern)
        if kind in ("like", "ilike"):
            free = next(sign for sign in _ESCAPES if sign not in pattern)
            return self._tree(f"({at} {kind.upper()} {quoted} ESCAPE {quote_text(free)})")
        function = {"prefix": "starts_with", "suffix": "ends_with", "part": "contains"}[kind]
        return self._tree(f"{function}({at}, {quoted})")

    def _repeat(self, count: str) -> str:
        return f"EXPLODE(SEQUENCE(CAST('1' AS BIGINT), {count}))"

    def _items(self, column: str, kind: str, most: int, name: str) -> tuple[str, str]:
        del kind
        return f", EXPLODE(SLICE({column}, 1, {most})) AS {name}", ""

    def exclusive_or(self, left: str, right: str) -> str:
        """Return the bits of two BIGINT that differ."""
        # an operator there, which binds less than &
        return f"(xor({left}, {right}))"

    def _text_number(self, text: str) -> str:
        return f"CAST(CONV(substr(md5({text}), 1, 15), 16, 10) AS BIGINT)"

    def _unit_value(self, of: UnitCell) -> str:
        cell = "*" if of.value is None else self._words(of.value)
        if of.by is None:
            ordered = f"SORT_ARRAY(COLLECT_LIST(CAST({cell} AS HUGEINT)))"
            places = (f"CAST(({n}) // 2 AS INT)" for n in (f"COUNT({cell}) - 1", f"COUNT({cell})"))
            return unit_value(of, cell, {"median": " + ".join(f"GET({ordered}, {place})" for place in places)})
        by = self._words(of.by)
        pick = "MIN_BY" if of.kind == "first" else "MAX_BY"
        pair = f"CASE WHEN {by} IS NOT NULL AND {cell} IS NOT NULL THEN STRUCT_PACK(a := {by}, b := {cell}) END"
        return unit_value(of, cell, {of.kind: f"{pick}({cell}, {pair})"})

    def _text(self, column: str) -> str:
        kind, cell = self._cell(column)
        if kind == "VARCHAR":
            return self.let(cell)
        if kind == "DECIMAL":
            return self.let(self._trim_zeros(self.let(f"CAST({cell} AS VARCHAR)")))
        if kind in ("FLOAT", "DOUBLE"):
            cell = self.let(self._real(kind, cell))
            whole = f"RINT({cell}) = {cell} AND abs({cell}) < CAST('9007199254740992' AS DOUBLE)"
            ends = f"WHEN {cell} = CAST('inf' AS DOUBLE) THEN 'inf' WHEN {cell} = CAST('-inf' AS DOUBLE) THEN '-inf'"
            return self.let(
                f"CASE WHEN isnan({cell}) THEN NULL {ends} "
                f"WHEN {whole} THEN CAST(CAST({cell} AS BIGINT) AS VARCHAR) ELSE CAST({cell} AS VARCHAR) END"
            )
        return self.let(f"CAST({cell} AS VARCHAR)")

    def _whole_cell(self, column: str, kind: str, cell: str, lower: int, upper: int) -> exp.Expression:
        """Return a whole number, clipped; a float is tested for being whole by rounding it.

        A decimal so near a whole number that its float is whole is that number: a cast there would truncate it.
        """
        if kind not in FLOATING:
            return super()._whole_cell(column, kind, cell, lower, upper)
        real = self.let(self._real(kind, cell))
        broken = f"{self._is_nan(real)} OR RINT({real}) <> {real}"
        return self._whole_of(real, broken, lower, upper, exact=f"ROUND({cell})" if kind == "DECIMAL" else real)

    def _steps_of(self, real: str, step: Fraction, lower: int, upper: int) -> exp.Expression:
        scaled = self.let(self._scale(real, *scale_of(step)))
        return self._clip(scaled, lower, upper)

    def _scale(self, real: str, op: str, factor: float) -> str:
        """Return the steps, those beyond 64 bits clipped to them; FLOOR would make 0 of NaN."""
        return f"CASE WHEN NOT isnan({real}) THEN FLOOR({real} {op} CAST('{factor!r}' AS DOUBLE) + CAST('0.5' AS DOUBLE)) END"

    def _call(self, function: str, real: str) -> str:
        if function == "log2":
            # exact for powers of 2, like a logarithm to base 2
            near = self.let(f"CASE WHEN {real} > 0 THEN log2({real}) END")
            return f"CASE WHEN power(CAST('2.0' AS DOUBLE), RINT({near})) = {real} THEN RINT({near}) ELSE {near} END"
        return f"{function}({real})"

    def _read_whole(self, text: str) -> str:
        return f"CASE WHEN {self.matches(text, WHOLE)} THEN TRY_CAST(SPLIT_PART({text}, '.', 1) AS BIGINT) END"

    def _read_decimal(self, text: str) -> str:
        return f"CASE WHEN {self.matches(text, DECIMAL)} THEN TRY_CAST({text} AS DOUBLE) END"

    def matches(self, text: str, pattern: str) -> str:
        """Return whether all of a text matches a regular expression; `$` would let a line end follow."""
        return rf"REGEXP_LIKE({text}, '\A(?:{pattern})\z')"

    def read_day(self, kind: str, cell: str) -> str:
        """Return the day of a timestamp, in UTC, which is the session's zone, where it knows its offset."""
        return cell if kind == "DATE" else f"CAST({cell} AS DATE)"

    def read_micros(self, kind: str, cell: str) -> str:
        """Return the microseconds of a timestamp; one without an offset is read in UTC, the session's zone."""
        del kind
        return clip_micros(self.let(f"UNIX_MICROS(CAST({cell} AS TIMESTAMPTZ))"))


# ---- Spark: the cluster aggregates and no row leaves it; a question is one statement, and its sums never wrap

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
    """An engine over one table that a Spark session reads, or over a DataFrame of its own session.

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
        # The views of public tables, by their names in our SQL.
        self._sent: dict[str, str] = {}
        check_settings(self._session)
        layout = self._open(_SOURCE, self._tables[_SOURCE])
        kinds = {name: self._send(name, cells) for name, cells in (public or {}).items()}
        self._layout = replace(layout, public=kinds)

    @property
    def primitives(self) -> SparkPrimitives:
        """New primitives to build one tree with."""
        return SparkPrimitives(self._layout)

    @property
    def physical(self) -> Mapping[str, str]:
        """Spark's type of each declared column."""
        return self._layout.physical

    @property
    def unreadable_rows(self) -> bool:
        """Whether a row of this source may be unreadable: no."""
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
        wider._layout = replace(self._layout, people=layouts)
        return wider

    @contextmanager
    def snapshot(self) -> Iterator[SparkEngine]:
        """Yield the engine with each table opened anew; raises SourceError where one is gone, or its columns have changed.

        Where a table's format keeps no snapshots, a question of several scans sees changes that are made meanwhile.
        """
        self._check_process()
        if not is_alive(self._session):
            raise SourceError(f"{_LOST}: open a session, and the table anew")
        check_settings(self._session)
        for name, table in self._tables.items():
            old = self._layout.find(name)
            new = self._open(name, table)
            if (new.physical, new.items) != (old.physical, old.items):
                raise SourceError("the table is not as it was when it was opened: open it anew")
        yield self

    def write(self, select: exp.Select) -> Statement:
        """Return Spark's text of a tree, with the views of the public tables that it joins; nothing is read."""
        select = select.copy()
        for table in select.find_all(exp.Table):
            if table.name in self._sent:
                table.this.set("this", self._sent[table.name])
        text = select.sql(dialect=SordinoSpark)
        if not reads(self._session, text):
            raise QuestionRefused(
                "Spark cannot read what this question would ask of it: that is a defect of Sordino, which nothing was charged "
                "for. Report the question, and ask for its parts one by one"
            )
        return Statement(text)

    def run(self, select: exp.Select | Statement) -> pa.Table:
        """Return the exact answer of a tree, or of its text; raises EngineFailed, without Spark's message."""
        text = (select if isinstance(select, Statement) else self.write(select)).text
        mark = f"{self._mark}_{next(_NUMBERS)}"
        cause = ""
        try:
            with _silence(), _interruptible(self._session, mark):
                return _narrow(self._session.sql(text).toArrow())
        except Exception as error:
            # of any kind: its message may quote a cell, so only its class is read
            cause = _cause(error)
        raise EngineFailed(cause=cause if is_alive(self._session) else _LOST)

    def sample(self, *, threshold: int, key: bytes) -> SparkEngine:
        """Return a Poisson sample: each unit is in with chance threshold / 2^64, by coins keyed by `key`.

        Where each row is a unit, its name is all of its declared cells and its number among equal rows. Theorem: as in
        `PostgresSnapshot.sample`. The key is a cell of a local table, so that no plan or log of Spark's shows it.
        """
        view = self._name(f"key_{next(_NUMBERS)}")
        try:
            self._session.createDataFrame([(key.hex(),)], "key string").createOrReplaceTempView(view)
        except Exception:
            # of any kind
            raise EngineFailed(cause=_LOST) from None

        def coin(unit: str) -> str:
            digest = f"SHA2((SELECT key FROM {quote_name(view)}) || {unit}, 256)"
            return f"left({digest}, 16) < {quote_text(f'{threshold:016x}')}"

        sampled = copy.copy(self)
        sampled._layout = replace(self._layout, source=SparkPrimitives(self._layout).sample_source(coin))
        # the sample reads the views of the whole, and owns that of its key
        sampled._tables = {}
        sampled._views = [view]
        return sampled

    def close(self) -> None:
        """Drop the views that this engine made; the session stays."""
        if os.getpid() != self._process:
            return
        for view in self._views:
            with contextlib.suppress(Exception):
                self._session.catalog.dropTempView(view)

    def _check_process(self) -> None:
        """Raise SourceError in a forked process: messages on its copies of the parent's sockets would mix with the parent's."""
        if os.getpid() != self._process:
            raise SourceError(
                "a forked process cannot use the Spark session of its parent; nothing was charged. Ask in the process that "
                'opened the table, or start processes with multiprocessing.get_context("spawn") and open the table there'
            )

    def _name(self, view: str) -> str:
        return f"{self._mark}_{view}"

    def _open(self, name: str, table: PeopleTable) -> TableLayout:
        """Create the view of a table and return its layout; raises DeclarationError where it is not as declared."""
        frame: Any = table.source
        if isinstance(frame, Source):
            frame = open_frame(self._session, frame, self._schemas.get(name))
        elif frame.sparkSession is not self._session:
            raise SourceError("a DataFrame of another Spark session cannot be joined: make both in one session")
        columns = read_columns(frame)
        _check_case(columns)
        check_columns(table, columns, readable=_READABLE, items=_ITEMS, cast="in a view")
        self._schemas.setdefault(name, frame.schema)
        view = self._name(name)
        try:
            items = [_read(column, columns[column]) for column in table.domain.stored]
            frame.selectExpr(*items).createOrReplaceTempView(view)
        except Exception:
            # of any kind
            raise SourceError("the table cannot be read: its columns cannot be selected") from None
        if view not in self._views:
            self._views.append(view)
        return TableLayout(
            {column: columns[column].kind for column in table.domain.stored},
            table.domain,
            table.unit,
            None,
            source=quote_name(view),
            items={column: columns[column].item for column in table.domain.lists},
        )

    def _send(self, name: str, cells: pa.Table) -> dict[str, str]:
        """Send a public table to the session, and return the types of its columns there, without its keys."""
        from sordino.ask.engines.cells import refine_times

        frame = self._session.createDataFrame(refine_times(cells))
        columns = read_columns(frame)
        view = self._name(public_name(name))
        frame.selectExpr(*(_read(n, column) for n, column in columns.items())).createOrReplaceTempView(view)
        self._sent[public_name(name)] = view
        self._views.append(view)
        return {n: column.kind for n, column in columns.items() if not n.startswith("sordino_key_")}


def _check_case(names: Collection[str]) -> None:
    """Raise DeclarationError where names differ only in case, which Spark ignores."""
    lower = [name.lower() for name in names]
    for name in names:
        if lower.count(name.lower()) > 1:
            raise DeclarationError(
                f"column {name!r}: another column's name differs only in case, which Spark ignores; rename it"
            )


def _read(column: str, physical: PhysicalColumn) -> str:
    """Return a column as our SQL reads it: NaN and text that is not UTF-8 are NULL, text is compared by its bytes.

    Bounds in a file or a table format leave NaN out. As NaN is NULL before any condition, pruning by these bounds agrees with the
    conditions.
    """
    name = "`" + column.replace("`", "``") + "`"
    if physical.kind in ("FLOAT", "DOUBLE"):
        return f"CASE WHEN NOT isnan({name}) THEN {name} END AS {name}"
    if physical.kind == "VARCHAR":
        return f"try_validate_utf8(CAST({name} AS STRING) COLLATE UTF8_BINARY) AS {name}"
    if physical.item == "VARCHAR":
        return f"transform({name}, x -> try_validate_utf8(CAST(x AS STRING) COLLATE UTF8_BINARY)) AS {name}"
    return name


def _narrow(answer: pa.Table) -> pa.Table:
    """Return the answer with 64-bit numbers in place of decimals where all of a column fit."""
    import pyarrow as pa

    for place, column in enumerate(answer.schema):
        if pa.types.is_decimal(column.type):
            with contextlib.suppress(pa.ArrowInvalid):
                answer = answer.set_column(place, column.name, answer.column(place).cast(pa.int64()))
    return answer


@contextmanager
def _silence() -> Iterator[None]:
    """Disable pyspark's logger of errors, which writes them out with the cells that they quote."""
    logger = logging.getLogger("SQLQueryContextLogger")
    was_disabled = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = was_disabled


@contextmanager
def _interruptible(session: SparkSession, mark: str) -> Iterator[None]:
    """Interrupt on Ctrl-C the session's jobs for this question."""
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
    """Return the cause of an error by its class alone; "" for errors that rows could bring about."""
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
