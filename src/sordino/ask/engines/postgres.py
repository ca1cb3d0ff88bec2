"""PostgreSQL as an engine: its dialect, its primitives, its answers."""

from __future__ import annotations

import copy
import hashlib
import json
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.generators.postgres import PostgresGenerator
from sqlglot.tokenizer_core import TokenType

from sordino.ask.engines.cells import FIRST_MICROS, LAST_MICROS
from sordino.ask.engines.engine import EngineFailed, Statement
from sordino.ask.engines.instances import leave_at_fork
from sordino.ask.engines.readers.postgres_tables import (
    hold_columns,
    is_lost,
    open_connection,
    postgres_error,
    read_columns,
    rows_of,
)
from sordino.ask.engines.row_hash import unit_value
from sordino.ask.engines.sql_primitives import BLANK_TEXT, SqlPrimitives
from sordino.ask.engines.sql_text import (
    float_text,
    literal_text,
    people_name,
    public_name,
    quote_name,
    quote_text,
    translate,
    whole_text,
)
from sordino.ask.engines.table_layout import PeopleTable, TableLayout, check_columns
from sordino.core.domain import Domain
from sordino.core.errors import DeclarationError, QuestionRefused, SourceError
from sordino.core.neighbors import PrivacyUnit
from sordino.core.noise.lattice import scale_of
from sordino.core.primitives import UnitCell
from sordino.core.source import Source

if TYPE_CHECKING:
    import psycopg
    import pyarrow as pa
    from sqlglot import exp
    from sqlglot.dialects.dialect import DialectType


# ---- PostgreSQL's SQL as our own trees need it: `//` for the whole quotient, HUGEINT for numbers of 38 digits and more

# The nodes whose SQL ibis changes, for the whole process.
_ALTERED = frozenset({exp.ArraySize, exp.DateFromParts, exp.Pow, exp.RegexpSplit, exp.Split})


class PostgresWriter(PostgresGenerator):
    """A writer of wide numbers as numeric, of which there is no largest, and of the rest like sqlglot's.

    Other libraries change sqlglot's own table of functions in place: ibis does, when it connects. This one is a copy without the
    nodes that ibis changes, so that our text is the same whether ibis is imported before us, after us or never.
    """

    TRANSFORMS: ClassVar[dict[Any, Any]] = {k: v for k, v in PostgresGenerator.TRANSFORMS.items() if k not in _ALTERED}

    TYPE_MAPPING: ClassVar[dict[exp.DType, str]] = {
        **PostgresGenerator.TYPE_MAPPING,
        exp.DType.INT128: "NUMERIC",
    }

    def isnan_sql(self, expression: exp.IsNan) -> str:
        """Write a comparison, as there is no such function."""
        return f"{self.sql(expression, 'this')} = 'NaN'"


class SordinoPostgres(Postgres):
    """PostgreSQL's dialect for our own trees; a user's text is never read by it."""

    class Tokenizer(Postgres.Tokenizer):
        """A tokenizer with two more words."""

        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            **Postgres.Tokenizer.KEYWORDS,
            "//": TokenType.DIV,
            "HUGEINT": TokenType.INT128,
        }

    Generator = PostgresWriter


# ---- The primitives in PostgreSQL's SQL
#
# Its casts and its arithmetic fail where DuckDB's give NULL or infinity, so each is guarded by a CASE for the values on which it
# is total. A sub-query ends in OFFSET '0', so that its steps are computed once and not wherever they are used. Text has
# collation "C", that of its bytes.

_NAN = "CAST('NaN' AS DOUBLE)"
# WHOLE and DECIMAL of the grammar of cells: PostgreSQL counts up to 255 only
_WHOLE = r"^[+-]?[0-9]{1,18}(\.0*)?$"
_DECIMAL = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?$"
_DIGITS = 400
# characters from which a list is looked up by digests
_LONG = 10_000_000
# values in one object: 100 MB of digests
_MANY = 1_000_000
# steps: beyond every bound
_HUGE = 2.0**100
# values that are compared one by one faster than they are looked up
_FEW = 16


class PostgresPrimitives(SqlPrimitives):
    """The primitives for one SELECT over one table of a PostgreSQL server."""

    dialect: ClassVar[DialectType] = SordinoPostgres
    # not 0, which is a cast to BIGINT: that keeps parallel processes from summing their own rows
    fence: ClassVar[str] = " OFFSET '0'"

    def _tree(self, text: str) -> exp.Expression:
        return super()._tree(translate(text, self.dialect))

    def _relation(self, text: str) -> exp.Expression:
        select = "SELECT 1 FROM "
        return super()._tree(translate(select + text, self.dialect).removeprefix(select))

    def sample_source(self, coin: Callable[[str], str]) -> str:
        """Return the relation of the sampled rows; `coin` makes the condition of the SQL that names a unit."""
        cells = ", ".join(quote_name(n) for n in sorted(self._layout.domain.stored))
        unit = self._layout.unit
        if unit is None or unit.column is None:
            text = f"SELECT *, {_row_text(cells)} AS sordino_text FROM {self._layout.source}"
            number = "row_number() OVER (PARTITION BY sordino_text) AS sordino_number"
            rows = f"(SELECT *, {number} FROM ({text}) AS sordino_texts) AS sordino_numbers"
            condition = coin("sordino_text || CAST(sordino_number AS TEXT)")
        else:
            owner = self.let(self._text(unit.column))
            rows = self._stage(self._layout.source)
            condition = f"{owner} IS NOT NULL AND {coin(owner)}"
        return f"(SELECT {cells} FROM {rows} WHERE {condition}) AS sordino_sample"

    def label(self, code: exp.Expression, labels: Sequence[str | int | bool | None]) -> exp.Expression:
        """Return the label at a place, by a look-up in a constant array."""
        if any(isinstance(label, str) and "\0" in label for label in labels):
            raise QuestionRefused("a declared value holds the character NUL, which PostgreSQL's text cannot hold")
        kinds = {type(label) for label in labels} - {type(None)}
        kind = {str: "TEXT", bool: "BOOLEAN"}.get(next(iter(kinds), str), "NUMERIC")
        listed = ", ".join(map(literal_text, labels))
        return self._tree(f"(CAST(ARRAY[{listed}] AS {kind}[]))[CAST({self._words(code)} AS INT) + 1]")

    def _whole_place(self, cell: str, values: Sequence[int]) -> str:
        return self._place(cell, f"CAST({cell} AS TEXT)", {str(v): i for i, v in enumerate(values)}, whole=True)

    def _text_place(self, cell: str, values: Sequence[str]) -> str:
        return self._place(cell, cell, {v: i for i, v in enumerate(values)}, whole=False)

    def _place(self, cell: str, text: str, places: dict[str, int], *, whole: bool) -> str:
        """Return the place of a cell, NULL where it has none: by comparing a few, or by halving in sorted objects.

        An object holds up to 256 MB and a statement 1 GB, so long lists are of digests (SHA-256, as anyone may write cells),
        and in several objects.
        """
        # no text of a server holds a NUL
        possible = {value: place for value, place in places.items() if "\0" not in value}
        if not possible:
            return "CAST(NULL AS BIGINT)"
        if len(possible) > _FEW:
            if sum(map(len, possible)) > _LONG:
                possible = {hashlib.sha256(value.encode()).hexdigest(): place for value, place in possible.items()}
                text = self.let(f"encode(sha256(convert_to({text}, 'UTF8')), 'hex')")
            pairs = list(possible.items())
            objects = (dict(pairs[i : i + _MANY]) for i in range(0, len(pairs), _MANY))
            look_ups = [f"CAST({quote_text(json.dumps(o, ensure_ascii=False))} AS JSONB) ->> {text}" for o in objects]
            place = look_ups[0] if len(look_ups) == 1 else f"COALESCE({', '.join(look_ups)})"
            return f"CAST({place} AS BIGINT)"
        cases = (f"WHEN {whole_text(int(v)) if whole else quote_text(v)} THEN {i}" for v, i in possible.items())
        return f"CAST(CASE {cell} {' '.join(cases)} END AS BIGINT)"

    def is_text(self, cell: exp.Expression, texts: Sequence[str]) -> exp.Expression:
        """Return whether a text is one of several; no text of a server holds a NUL."""
        possible = [text for text in texts if "\0" not in text]
        return super().is_text(cell, possible) if possible else self._never(cell)

    def _never(self, cell: exp.Expression) -> exp.Expression:
        return self._tree(f"CASE WHEN {self._words(cell)} IS NOT NULL THEN false END")

    def like(self, cell: exp.Expression, kind: str, pattern: str) -> exp.Expression:
        """Return whether a text matches; no character of a pattern is an escape."""
        at = self._words(cell)
        quoted = quote_text(pattern)
        # no text of a server holds a NUL
        if "\0" in pattern:
            return self._never(cell)
        if kind == "ilike":
            folded = f'lower({at} COLLATE "und-x-icu") COLLATE "C"'
            return self._tree(f"({folded} LIKE {quote_text(pattern.lower())} ESCAPE '')")
        conditions = {
            "like": f"({at} LIKE {quoted} ESCAPE '')",
            "prefix": f"(left({at}, {len(pattern)}) = {quoted})",
            "suffix": f"(right({at}, {len(pattern)}) = {quoted})",
            "part": f"(strpos({at}, {quoted}) > 0)",
        }
        return self._tree(conditions[kind])

    def _repeat(self, count: str) -> str:
        return f"generate_series(1, {count})"

    def _items(self, column: str, kind: str, most: int, name: str) -> tuple[str, str]:
        item = 'CAST(sordino_u.item AS TEXT) COLLATE "C"' if kind == "VARCHAR" else "sordino_u.item"
        rows = f"unnest(sordino_l.{column}) WITH ORDINALITY AS sordino_u(item, place)"
        return f", {item} AS {name}", f"INNER JOIN LATERAL {rows} ON sordino_u.place <= {most}"

    def exclusive_or(self, left: str, right: str) -> str:
        """Return the bits of two BIGINT that differ."""
        return f"({left} # {right})"

    def _text_number(self, text: str) -> str:
        return f"CAST(CAST('x' || substr(md5({text}), 1, 15) AS BIT(60)) AS BIGINT)"

    def _unit_value(self, of: UnitCell) -> str:
        cell = "*" if of.value is None else self._words(of.value)
        if of.by is None:
            truths = {"min": f"BOOL_AND({cell})", "max": f"BOOL_OR({cell})"} if of.form == "truth" else {}
            ends = (f"PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY {side}{cell})" for side in ("", "-"))
            return unit_value(of, cell, {**truths, "median": " - ".join(ends)})
        by = self._words(of.by)
        order = "ASC" if of.kind == "first" else "DESC"
        present = f"FILTER (WHERE {by} IS NOT NULL AND {cell} IS NOT NULL)"
        return unit_value(
            of, cell, {of.kind: f"(ARRAY_AGG({cell} ORDER BY {by} {order}, {cell} {order}) {present})[1]"}
        )

    def _text(self, column: str) -> str:
        kind, cell = self._cell(column)
        if kind == "VARCHAR":
            return self.let(cell)
        if kind == "DECIMAL":
            text = self.let(f"CASE WHEN {cell} <> CAST('NaN' AS NUMERIC) THEN CAST({cell} AS TEXT) COLLATE \"C\" END")
            return self.let(
                f"CASE WHEN strpos({text}, '.') > 0 THEN regexp_replace({text}, '[.]?0+$', '') ELSE {text} END"
            )
        if kind in ("FLOAT", "DOUBLE"):
            cell = self.let(self._real(kind, cell))
            whole = f"floor({cell}) = {cell} AND abs({cell}) < CAST('9007199254740992' AS DOUBLE)"
            end = f"WHEN {cell} = CAST('Infinity' AS DOUBLE) THEN 'inf' WHEN {cell} = CAST('-Infinity' AS DOUBLE) THEN '-inf'"
            return self.let(
                f"CASE WHEN {cell} = {_NAN} THEN NULL {end} WHEN {whole} THEN CAST(CAST({cell} AS BIGINT) AS TEXT) "
                f'COLLATE "C" ELSE CAST({cell} AS TEXT) COLLATE "C" END'
            )
        return self.let(f'CAST({cell} AS TEXT) COLLATE "C"')

    def _strip(self, text: str) -> str:
        return f"trim({BLANK_TEXT} FROM {text})"

    def _small(self, kind: str, cell: str) -> str:
        return f"CAST(CAST({cell} AS INT) AS BIGINT)" if kind == "BOOLEAN" else cell

    def _narrow(self, number: str) -> str:
        return f"CASE WHEN {number} >= {-(2**63)} AND {number} < {2**63} THEN CAST({number} AS BIGINT) END"

    def _real(self, kind: str, cell: str) -> str:
        if kind == "BOOLEAN":
            return f"CAST(CAST({cell} AS INT) AS DOUBLE)"
        if kind != "DECIMAL":
            return cell if kind == "DOUBLE" else f"CAST({cell} AS DOUBLE)"
        large = "CAST('1e300' AS NUMERIC)"
        usual = "CAST('1000000000000000000' AS NUMERIC)"
        # with so few digits after the point a number is 0, or no smaller than a float may be
        return (
            f"CASE WHEN scale({cell}) <= 300 AND {cell} BETWEEN -{usual} AND {usual} THEN CAST({cell} AS DOUBLE) "
            f"WHEN {cell} = CAST('NaN' AS NUMERIC) THEN {_NAN} WHEN {cell} > {large} THEN CAST('1e300' AS DOUBLE) "
            f"WHEN {cell} < -{large} THEN CAST('-1e300' AS DOUBLE) "
            f"WHEN abs({cell}) < CAST('1e-300' AS NUMERIC) THEN CAST('0' AS DOUBLE) ELSE CAST({cell} AS DOUBLE) END"
        )

    def _is_nan(self, real: str) -> str:
        return f"{real} = {_NAN}"

    def lattice(self, column: str, step: Fraction, lower: int, upper: int) -> exp.Expression:
        """Return floor(cell / step + 1/2), clipped; a decimal is made a float within the bounds alone, since that is slow.

        A decimal with as many places as the step has is multiplied instead (`_exact_digits`).
        """
        kind, cell = self._cell(column)
        if kind != "DECIMAL" or column in self._layout.steps:
            return super().lattice(column, step, lower, upper)
        digits = self._exact_digits(column, step, lower, upper)
        if digits is not None:
            _, places = digits
            low = f"CAST('{_decimal(lower, places)}' AS NUMERIC)"
            high = f"CAST('{_decimal(upper, places)}' AS NUMERIC)"
            nan = "CAST('NaN' AS NUMERIC)"
            exact = f"CAST({cell} * CAST('{10**places}' AS NUMERIC) AS BIGINT)"
            return self._column(
                f"CASE WHEN {cell} BETWEEN {low} AND {high} THEN {exact} WHEN {cell} < {low} THEN {whole_text(lower)} "
                f"WHEN {cell} <> {nan} THEN {whole_text(upper)} END"
            )
        # no smaller than a float may be
        large = f"scale({cell}) <= 300 OR abs({cell}) >= CAST('1e-300' AS NUMERIC)"
        real = f"CASE WHEN {large} THEN CAST({cell} AS DOUBLE) ELSE {float_text(0.0)} END"
        compared = self._compared_steps(cell, "NUMERIC", real, step, lower, upper)
        return super().lattice(column, step, lower, upper) if compared is None else compared

    def _scaled_steps(self, real: str, step: Fraction, lower: int, upper: int) -> exp.Expression:
        """Return the steps, clipped after scaling; NaN was made NULL."""
        low = whole_text(lower)
        high = whole_text(upper)
        scaled = self.let(self._scale(real, *scale_of(step)))
        steps = (
            f"CASE WHEN {scaled} BETWEEN {float_text(float(lower))} AND {float_text(float(upper))} THEN CAST({scaled} AS BIGINT) "
            f"WHEN {scaled} < {float_text(float(lower))} THEN {low} WHEN {scaled} > {float_text(float(upper))} THEN {high} END"
        )
        if max(abs(lower), abs(upper)) <= 2**53:
            return self._column(steps)
        # a float cannot distinguish such bounds from their neighbors
        return self._clip(steps, lower, upper)

    def _scale(self, real: str, op: str, factor: float) -> str:
        """Return the steps; numbers whose product is out of the range of floats are clipped before, as PostgreSQL fails there."""
        high, low = (n / factor if op == "*" else n * factor for n in (_HUGE, 0.25))
        steps = f"floor({real} {op} {float_text(factor)} + {float_text(0.5)})"
        # with any other factor no number but 0 becomes 0
        if (factor < 1) == (op == "*"):
            steps = f"CASE WHEN {real} BETWEEN {float_text(-low)} AND {float_text(low)} THEN {float_text(0.0)} ELSE {steps} END"
        return (
            f"CASE WHEN {real} BETWEEN {float_text(-high)} AND {float_text(high)} THEN {steps} WHEN {real} < {float_text(-high)} "
            f"THEN {float_text(-_HUGE)} WHEN {real} <> {_NAN} THEN {float_text(_HUGE)} END"
        )

    def _call(self, function: str, real: str) -> str:
        if function == "exp":
            return f"CASE WHEN {real} < -700 THEN {float_text(0.0)} ELSE exp({real}) END"
        if function == "log2":
            # exact for powers of 2, like a logarithm to base 2
            near = self.let(f"CASE WHEN {real} > 0 THEN ln({real}) / {float_text(0.6931471805599453)} END")
            return f"CASE WHEN power({float_text(2.0)}, round({near})) = {real} THEN round({near}) ELSE {near} END"
        return f"{'log' if function == 'log10' else function}({real})"

    def _read_whole(self, text: str) -> str:
        short = f"length({text}) <= {_DIGITS + 20} AND length(split_part({text}, '.', 2)) <= {_DIGITS}"
        return f"CASE WHEN {text} ~ '{_WHOLE}' AND {short} THEN CAST(split_part({text}, '.', 1) AS BIGINT) END"

    def _read_decimal(self, text: str) -> str:
        number = self.let(f"CASE WHEN length({text}) <= {2 * _DIGITS + 10} AND {text} ~ '{_DECIMAL}' THEN {text} END")
        digits = self.let(f"split_part(lower({number}), 'e', 1)")
        short = f"length(trim('+-' FROM split_part({digits}, '.', 1))) <= {_DIGITS}"
        short += f" AND length(split_part({digits}, '.', 2)) <= {_DIGITS}"
        return self._real("DECIMAL", self.let(f"CASE WHEN {short} THEN CAST({number} AS NUMERIC) END"))

    def matches(self, text: str, pattern: str) -> str:
        """Return whether all of a text matches a regular expression."""
        return f"{text} ~ '^(?:{pattern})$'"

    def extract(self, text: str, pattern: str) -> str:
        """Return the one group of the first match, NULL where there is none."""
        return f"(regexp_match({text}, '{pattern}'))[1]"

    def parse_day(self, text: str) -> str:
        """Return the day that the first ten characters write; a year 0 is the one before 1."""
        year, month, day = (self.let(f"CAST(substr({text}, {at}, {n}) AS INT)") for at, n in ((1, 4), (6, 2), (9, 2)))
        leap = f"{year} % 4 = 0 AND ({year} % 100 <> 0 OR {year} % 400 = 0)"
        last = f"CASE WHEN {month} IN (4, 6, 9, 11) THEN 30 WHEN {month} <> 2 THEN 31 WHEN {leap} THEN 29 ELSE 28 END"
        sound = f"{month} BETWEEN 1 AND 12 AND {day} BETWEEN 1 AND {last}"
        date = f"CASE WHEN {year} = 0 THEN CAST('0001-12-31 BC' AS DATE) ELSE make_date({year}, {month}, {day}) END"
        return f"CASE WHEN {sound} THEN {date} END"

    def parse_digits(self, text: str) -> str:
        """Return digits as a number."""
        return f"CAST(NULLIF({text}, '') AS BIGINT)"

    def read_day(self, kind: str, cell: str) -> str:
        """Return the day of a timestamp, that of UTC where it knows its offset."""
        at = f"({cell} AT TIME ZONE 'UTC')" if kind == "TIMESTAMPTZ" else cell
        return f"CAST({at} AS DATE)"

    def read_micros(self, kind: str, cell: str) -> str:
        """Return the microseconds of a timestamp; those before year 1 and after 9999, which may be infinite, are clipped."""
        first, last = (f"CAST('{at}' AS {kind})" for at in ("0001-01-01 00:00:00+00", "9999-12-31 23:59:59+00"))
        return (
            f"CASE WHEN {cell} < {first} THEN {FIRST_MICROS} WHEN {cell} > {last} THEN {LAST_MICROS} "
            f"ELSE CAST(EXTRACT(EPOCH FROM {cell}) * 1000000 AS BIGINT) END"
        )


def _decimal(steps: int, places: int) -> str:
    """Return the digits of a number of steps of 10^-places."""
    return f"{Context(prec=50).scaleb(Decimal(steps), -places):f}"


def coin_text(named: str, *, threshold: int) -> str:
    """Return the condition that a unit is in the sample, like `sampled.coin_sql`, with the key as parameter 1."""
    digest = f"encode(sha256(convert_to(CAST($1 AS TEXT) || {named}, 'UTF8')), 'hex')"
    return f"substr({digest}, 1, 16) COLLATE \"C\" < '{threshold:016x}'"


def _row_text(cells: str) -> str:
    """Return one text of all cells, which is different for different rows."""
    return f'CAST(ROW({cells}) AS TEXT) COLLATE "C"'


# ---- PostgreSQL: the server aggregates and no row leaves it; transactions only read, and a question sees one state of the data

_READABLE = frozenset(
    ["BOOLEAN", "SMALLINT", "INTEGER", "BIGINT", "DECIMAL", "FLOAT", "DOUBLE", "VARCHAR", "DATE", "TIMESTAMP"]
)
_READABLE |= {"TIMESTAMPTZ", "UUID"}
_ITEMS = _READABLE - {"TIMESTAMP", "TIMESTAMPTZ", "UUID"}
# the physical type of each array type in which a public table is sent
_ARRAYS = {
    "BOOLEAN": "BOOLEAN",
    "NUMERIC": "DECIMAL",
    "BIGINT": "BIGINT",
    "DOUBLE PRECISION": "DOUBLE",
    "DATE": "DATE",
    "TEXT": "VARCHAR",
}
_SOURCE = "sordino_source"
# bytes
_LONGEST_NAME = 63


class PostgresEngine:
    """An engine over one table or query of a server. Public tables are sent with each question that joins one.

    Other tables of the same people can be joined if they are in the same database. Raises SourceError where the server, the table
    or a right is missing, DeclarationError where the table lacks a declared column or no declared type reads it.
    """

    def __init__(
        self,
        source: Source,
        *,
        domain: Domain,
        unit: PrivacyUnit | None,
        public: Mapping[str, pa.Table] | None = None,
        people: Mapping[str, PeopleTable] | None = None,
    ) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._idle: list[psycopg.Connection[Any]] = []
        self._own = PeopleTable(source, domain, unit)
        self._public = dict(public or {})
        self._people = dict(people or {})
        _check_names(self._public, self._people)
        with self._lend() as connection:
            self._layout = self._read_layout(connection, _SOURCE, self._own)
        self._public = {name: _sendable(cells) for name, cells in self._public.items()}
        kinds = {name: _send_kinds(cells) for name, cells in self._public.items()}
        self._layout = replace(self._layout, public=kinds)
        self._tables: Mapping[str, PeopleTable] = {_SOURCE: self._own}
        leave_at_fork(self)

    def leave_to_parent(self) -> None:
        """Abandon the idle connections without a message to the server; this process opens its own."""
        # a thread of the parent may have held the old one
        self._lock = threading.Lock()
        # libpq leaves a connection of another process open when it is freed
        self._idle = []

    @property
    def primitives(self) -> PostgresPrimitives:
        """New primitives to build one tree with."""
        return PostgresPrimitives(self._layout)

    @property
    def physical(self) -> Mapping[str, str]:
        """The server's type of each declared column."""
        return self._layout.physical

    @property
    def unreadable_rows(self) -> bool:
        """Whether a row of this source may be unreadable: no."""
        return False

    def open_tables(self, names: Collection[str]) -> PostgresEngine:
        """Return the engine that also reads these tables of the same people; it shares this one's connections."""
        if not names:
            return self
        wider = copy.copy(self)
        layouts = {}
        with self._lend() as connection:
            for name in sorted(names):
                other = self._people[name]
                if not isinstance(other.source, Source) or other.source.path != self._source.path:
                    raise SourceError(
                        f"table {name!r} lies elsewhere: private tables can be joined where both lie in one PostgreSQL "
                        "database, under the same URL, or both are read by DuckDB"
                    )
                layouts[name] = self._read_layout(connection, people_name(name), other)
                wider._tables = {**wider._tables, people_name(name): other}
        wider._layout = replace(self._layout, people=layouts)
        return wider

    @contextmanager
    def snapshot(self) -> Iterator[PostgresSnapshot]:
        """Yield one state of the data; raises SourceError where a table is gone, or its columns have changed."""
        with self._lend() as connection:
            for name, table in self._tables.items():
                old = self._layout.find(name)
                new = self._read_layout(connection, name, table)
                if (new.physical, new.items, new.digits) != (old.physical, old.items, old.digits):
                    assert isinstance(table.source, Source)
                    raise SourceError(
                        f"relation {table.source.relation!r} is not as it was when it was opened: open it anew"
                    )
            yield PostgresSnapshot(connection, self._layout, self._public, self._tables)

    def write(self, select: exp.Select) -> Statement:
        """Return PostgreSQL's text of a tree; nothing is read."""
        return Statement(select.sql(dialect=PostgresPrimitives.dialect))

    def run(self, select: exp.Select | Statement) -> pa.Table:
        """Return the exact answer of a tree, or of its text, on a state of its own; raises EngineFailed."""
        try:
            with self.snapshot() as engine:
                return engine.run(select)
        except SourceError:
            raise EngineFailed(cause="the server, or the table on it, is not there any more") from None

    def sample(self, *, threshold: int, key: bytes) -> PostgresSnapshot:
        """Raise EngineFailed: a sample is drawn of one state of the data."""
        del threshold, key
        raise EngineFailed("a sample is drawn within a snapshot")

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            idle = list(self._idle)
            self._idle.clear()
        for connection in idle:
            connection.close()

    @contextmanager
    def _lend(self) -> Iterator[psycopg.Connection[Any]]:
        """Yield a connection that no other thread uses; one that broke, or is still busy, is closed and not used again."""
        connection = None
        while connection is None:
            with self._lock:
                idle = self._idle.pop() if self._idle else None
            if idle is None:
                connection = open_connection(self._source)
            elif _is_alive(idle):
                connection = idle
        try:
            yield connection
        finally:
            if _is_free(connection):
                with self._lock:
                    self._idle.append(connection)
            else:
                connection.close()

    def _read_layout(self, connection: psycopg.Connection[Any], name: str, table: PeopleTable) -> TableLayout:
        """Return the layout of a table; raises DeclarationError where it is not as declared."""
        assert isinstance(table.source, Source)
        columns = read_columns(connection, table.source)
        check_columns(
            table, columns, readable=_READABLE, items=_ITEMS, cast='in a view, or in relation = "SELECT ...",'
        )
        hold_columns(connection, table.source, table.domain.stored)
        return TableLayout(
            {name: columns[name].kind for name in table.domain.stored},
            table.domain,
            table.unit,
            None,
            source=quote_name(name),
            items={name: columns[name].item for name in table.domain.lists},
            digits={name: digits for name in table.domain.stored if (digits := columns[name].digits) is not None},
        )


@dataclass(slots=True)
class PostgresSnapshot:
    """An engine over one state of the data, or a sample of it, within one transaction; `key` is that of the sample's coins."""

    connection: psycopg.Connection[Any]
    layout: TableLayout
    public: Mapping[str, pa.Table]
    tables: Mapping[str, PeopleTable]
    key: str | None = None
    unreadable_rows: bool = field(default=False, init=False)

    @property
    def physical(self) -> Mapping[str, str]:
        """The server's type of each declared column."""
        return self.layout.physical

    @property
    def primitives(self) -> PostgresPrimitives:
        """New primitives to build one tree with."""
        return PostgresPrimitives(self.layout)

    def open_tables(self, names: Collection[str]) -> PostgresSnapshot:
        """Return the snapshot itself: it reads the tables that its engine was opened with."""
        del names
        return self

    @contextmanager
    def snapshot(self) -> Iterator[PostgresSnapshot]:
        """Yield the snapshot itself."""
        yield self

    def write(self, select: exp.Select) -> Statement:
        """Return PostgreSQL's text of a tree; nothing is read."""
        return Statement(select.sql(dialect=PostgresPrimitives.dialect))

    def run(self, select: exp.Select | Statement) -> pa.Table:
        """Return the exact answer of a tree, or of its text; raises EngineFailed, without the server's message."""
        text = (select if isinstance(select, Statement) else self.write(select)).text
        parts = [
            f"{quote_name(name)} AS NOT MATERIALIZED ({_select(table, self.layout.find(name).physical)})"
            for name, table in self.tables.items()
        ]
        values: list[Any] = [] if self.key is None else [self.key]
        for name, cells in self.public.items():
            if quote_name(public_name(name)) in text:
                parts.append(_send(public_name(name), cells, values))
        cause = ""
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(f"WITH {', '.join(parts)} {text}", values)
                return _arrow(cursor)
        except postgres_error() as error:
            # its message may quote a cell, so only its code is read
            cause = _cause(getattr(error, "sqlstate", None))
        raise EngineFailed(cause=cause)

    def sample(self, *, threshold: int, key: bytes) -> PostgresSnapshot:
        """Return a Poisson sample: each unit is in with chance threshold / 2^64, by coins keyed by `key`.

        Where each row is a unit, its name is all of its declared cells and its number among equal rows. Theorem: which of several
        equal rows has which number does not matter to any question, the names are distinct, and those of the other rows do not
        change where a row is added; so the coins have the law in `sampled`.
        """
        source = PostgresPrimitives(self.layout).sample_source(lambda unit: coin_text(unit, threshold=threshold))
        layout = replace(self.layout, source=source)
        return PostgresSnapshot(self.connection, layout, self.public, self.tables, key.hex())

    def close(self) -> None:
        """Leave the connection to the engine."""


def _check_names(public: Mapping[str, pa.Table], people: Collection[str]) -> None:
    """Raise DeclarationError for names that the server, which cuts them, would take for one."""
    groups = [[public_name(n) for n in public], [people_name(n) for n in people]]
    for names in (*groups, *(cells.schema.names for cells in public.values())):
        by_prefix: dict[bytes, str] = {}
        for name in names:
            other = by_prefix.setdefault(name.encode()[:_LONGEST_NAME], name)
            if other != name:
                one, two = (n.removeprefix(public_name("")).removeprefix(people_name("")) for n in (other, name))
                raise DeclarationError(
                    f"{one!r} and {two!r} are one name to PostgreSQL, which looks at {_LONGEST_NAME} bytes: rename one"
                )


def _is_alive(connection: psycopg.Connection[Any]) -> bool:
    """Return whether an idle connection still reaches the server."""
    try:
        connection.execute("SELECT 1")
    except postgres_error():
        connection.close()
        return False
    return _is_free(connection)


def _is_free(connection: psycopg.Connection[Any]) -> bool:
    """End a transaction and return whether the connection can be used again."""
    try:
        connection.rollback()
    except postgres_error():
        # it broke, or is still busy
        return False
    return not connection.closed


def _select(table: PeopleTable, kinds: Mapping[str, str]) -> str:
    """Return the SELECT of the declared columns of a table, text compared by its bytes."""
    assert isinstance(table.source, Source)
    cells = [
        f'CAST({name} AS TEXT) COLLATE "C" AS {name}' if kinds[column] == "VARCHAR" else name
        for column in table.domain.stored
        for name in [quote_name(column)]
    ]
    return f"SELECT {', '.join(cells)} FROM {rows_of(table.source)}"


def _sendable(cells: pa.Table) -> pa.Table:
    """Return a public table in types that can be sent: text where there is no other array type, missing where it holds a NUL."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for place, column in enumerate(cells.schema):
        cell = cells.column(place)
        if _array(column.type) == "TEXT":
            cell = cell.cast(pa.string())
            cell = pc.if_else(pc.match_substring(cell, "\0"), pa.scalar(None, pa.string()), cell)
        cells = cells.set_column(place, column.name, cell)
    return cells


def _send_kinds(cells: pa.Table) -> dict[str, str]:
    """Return the physical types of a public table's columns once they are sent, without its keys."""
    return {
        column.name: _ARRAYS[_array(column.type)]
        for column in cells.schema
        if not column.name.startswith("sordino_key_")
    }


def _array(kind: Any) -> str:
    """Return the server's type in which cells of an Arrow type are sent."""
    import pyarrow as pa

    tests = {
        "BOOLEAN": pa.types.is_boolean,
        "NUMERIC": lambda k: pa.types.is_decimal(k) or pa.types.is_uint64(k),
        "BIGINT": pa.types.is_integer,
        "DOUBLE PRECISION": pa.types.is_floating,
        "DATE": pa.types.is_date32,
    }
    return next((word for word, test in tests.items() if test(kind)), "TEXT")


def _send(name: str, cells: pa.Table, values: list[Any]) -> str:
    """Return a sub-query with the cells of a public table, and append these to the parameters' `values`."""
    arrays = []
    names = []
    items = []
    for column in cells.schema:
        kind = _array(column.type)
        quoted = quote_name(column.name)
        values.append(cells[column.name].to_pylist())
        arrays.append(f"CAST(${len(values)} AS {kind}[])")
        names.append(quoted)
        items.append(f'{quoted} COLLATE "C" AS {quoted}' if kind == "TEXT" else quoted)
    rows = f"unnest({', '.join(arrays)}) AS sordino_rows({', '.join(names)})"
    return f"{quote_name(name)} AS MATERIALIZED (SELECT {', '.join(items)} FROM {rows})"


def _arrow(cursor: Any) -> pa.Table:
    """Return the answer as Arrow; numeric columns become 64-bit numbers where all fit."""
    import pyarrow as pa

    names = [column.name for column in cursor.description]
    # the server's number of the type numeric
    numeric = [column.type_code == 1700 for column in cursor.description]
    columns = list(zip(*cursor.fetchall(), strict=True)) or [()] * len(names)
    arrays = [_whole_numbers(c) if is_wide else pa.array(c) for c, is_wide in zip(columns, numeric, strict=True)]
    return pa.table(arrays, names=names)


def _whole_numbers(cells: Sequence[Any]) -> pa.Array[Any]:
    """Return numeric cells; those that are no whole numbers, which only public tables hold, as floats."""
    import pyarrow as pa

    if not all(cell is None or (cell.is_finite() and cell == cell.to_integral_value()) for cell in cells):
        return pa.array([None if cell is None else float(cell) for cell in cells], pa.float64())
    numbers = [None if cell is None else int(cell) for cell in cells]
    try:
        return pa.array(numbers, pa.int64())
    except (OverflowError, pa.ArrowInvalid):
        return pa.array(cells, pa.decimal128(38, 0))


def _cause(state: str | None) -> str:
    """Return the cause of an error by its code alone; "" for errors that rows could bring about."""
    if is_lost(state):
        return "the connection to the server was lost"
    return {
        "57014": "the server stopped the question: its statement_timeout ran out, or someone cancelled it",
        "42501": "this user has no right to read the table",
        "42P01": "the table is not there any more",
        "42703": "a column is not there any more",
        "53100": "the server's disk is full",
        "53400": "the server's temp_file_limit is too low for the question",
        "53200": "the server has no memory left",
    }.get(state or "", "")
