"""The primitives in Spark's words, in ANSI mode.

Its casts and its arithmetic fail there where DuckDB's give NULL or infinity, so each is total by TRY_CAST, or reached by a
CASE for what it is total on. FLOOR of a DOUBLE is a BIGINT, 0 for NaN and the last one for what is too large, so it is
never used to see whether a number is whole. Words are parsed as DuckDB's and written by `SordinoSpark`.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from sordino.ask.engines.moment_cells import clip_micros
from sordino.ask.engines.own_sql import literal_text, parse_own, parse_relation, whole_text
from sordino.ask.engines.quoting import quote_name, quote_text
from sordino.ask.engines.sql_cells import FLOATING
from sordino.ask.engines.sql_primitives import SqlPrimitives
from sordino.ask.engines.unit_rows import unit_value
from sordino.core.cell_grammar import DECIMAL, WHOLE
from sordino.core.noise.lattice import scale_of
from sordino.core.primitives import NARROW, UnitCell

if TYPE_CHECKING:
    from sqlglot import exp

_FEW = 16  # values that are compared one by one
_ESCAPES = "!#~^|@`$&;=<>:\x01\x02\x03\x04\x05\x06"  # one that a pattern lacks says that nothing in it is escaped


class SparkPrimitives(SqlPrimitives):
    """Build the cells of one SELECT over one table that Spark reads. Its floats have no NaN: `spark.py` makes them NULL."""

    def _tree(self, text: str) -> exp.Expression:
        return parse_own(text)

    def _relation(self, text: str) -> exp.Expression:
        return parse_relation(text)

    def sample_source(self, coin: Callable[[str], str]) -> str:
        """Return the relation of the rows whose unit's coin falls; `coin` makes the condition of the SQL that names a unit."""
        named = sorted(self._held.domain.stored)
        cells = ", ".join(map(quote_name, named))
        unit = self._held.unit
        if unit is None or unit.column is None:
            text = f"SELECT *, {self._row_text(named)} AS sordino_text FROM {self._held.source}"
            number = "row_number() OVER (PARTITION BY sordino_text) AS sordino_number"
            rows = f"(SELECT *, {number} FROM ({text}) AS sordino_texts) AS sordino_numbers"
            fallen = coin("sordino_text || CAST(sordino_number AS VARCHAR)")
        else:
            owner = self.let(self._text(unit.column))
            rows, fallen = self._stage(self._held.source), f"{owner} IS NOT NULL AND {coin(owner)}"
        return f"(SELECT {cells} FROM {rows} WHERE {fallen}) AS sordino_sample"

    def _row_text(self, columns: Sequence[str]) -> str:
        """Return all cells as one text, from which each can be told."""
        texts = []
        for name in columns:
            cell = quote_name(name)
            texts.append(f"TO_JSON({cell})" if name in self._held.items else f"CAST({cell} AS VARCHAR)")
        return f"TO_JSON(LIST_VALUE({', '.join(texts)}))"

    def total(self, value: exp.Expression, largest: Fraction | None) -> exp.Expression:
        """Return the sum in 64 bits where these hold it, else that of each of several parts of the number.

        Theorem: of n rows, n at most the declared ceiling times the rows that joins made of one, with n 2^b <= 2^62, a sum of
        numbers up to 2^b in size is at most 2^62, and x = (x >> b) 2^b + (x & 2^b - 1) also for an x below 0. Sums of
        decimals would be right too, and slow.
        """
        rows = self._held.domain.row_ceiling * self._copies
        bits = 62 - (rows - 1).bit_length()
        if largest is None or largest >= NARROW or bits < 12:
            return super().total(value, largest)
        part, shifted, parts = self.let(f"CAST({self._words(value)} AS BIGINT)"), 0, []
        while math.ceil(largest) >> shifted >= 2**bits:
            parts.append(
                f"CAST(WHOLE_SUM(({part} >> {shifted}) & {2**bits - 1}) AS HUGEINT) * {whole_text(2**shifted)}"
            )
            shifted += bits
        parts.append(f"CAST(WHOLE_SUM({part} >> {shifted}) AS HUGEINT) * {whole_text(2**shifted)}")
        return self._tree(" + ".join(parts) if shifted else f"WHOLE_SUM({part})")

    def _restrict(self, condition: str) -> None:
        """Restrict the rows above a column that is not deterministic, past which Spark pushes no filter.

        It would put all steps that a filter reads into the filter, wherever each is used: of n steps in a chain up to 6^n.
        And no condition of ours reaches a file's reader, which may leave out more than the rows that do not meet it.
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
        named = None if of is None else self._tree(self.let(self._words(of)))
        self._restrict("true")
        return super().units(named, pairs=pairs)

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
        listed, at = self.let(f"LIST_VALUE({', '.join(map(whole_text, starts))})"), "0"
        for power in reversed(range(len(starts).bit_length())):
            place = f"{at} + {2**power - 1}" if at != "0" else str(2**power - 1)
            at = self.let(f"{at} + CASE WHEN GET({listed}, {place}) <= {cell} THEN {2**power} ELSE 0 END")
        if [*results] == [str(place) for place in range(len(results))]:
            return at
        found = self.let(f"LIST_VALUE({', '.join(results)})")
        return f"GET({found}, {at})"

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
        at, quoted = self._words(cell), quote_text(pattern)
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
        return f"(xor({left}, {right}))"  # an operator there, which binds less than &

    def _text_number(self, text: str) -> str:
        return f"CAST(CONV(substr(md5({text}), 1, 15), 16, 10) AS BIGINT)"

    def _unit_value(self, of: UnitCell) -> str:
        cell = "*" if of.value is None else self._words(of.value)
        if of.by is None:
            return unit_value(of, cell, {})
        by, pick = self._words(of.by), "MIN_BY" if of.kind == "first" else "MAX_BY"
        pair = f"CASE WHEN {by} IS NOT NULL AND {cell} IS NOT NULL THEN STRUCT_PACK(a := {by}, b := {cell}) END"
        return unit_value(of, cell, {of.kind: f"{pick}({cell}, {pair})"})

    def _text(self, column: str) -> str:
        kind, cell = self._cell(column)
        if kind == "VARCHAR":
            return self.let(cell)
        written = f"CAST({cell} AS VARCHAR)"
        if kind == "DECIMAL":
            return self.let(self._trim_zeros(self.let(written)))
        if kind in ("FLOAT", "DOUBLE"):
            cell = self.let(self._real(kind, cell))
            written = f"CAST({cell} AS VARCHAR)"
            whole = f"RINT({cell}) = {cell} AND abs({cell}) < CAST('9007199254740992' AS DOUBLE)"
            ends = f"WHEN {cell} = CAST('inf' AS DOUBLE) THEN 'inf' WHEN {cell} = CAST('-inf' AS DOUBLE) THEN '-inf'"
            written = (
                f"CASE WHEN isnan({cell}) THEN NULL {ends} "
                f"WHEN {whole} THEN CAST(CAST({cell} AS BIGINT) AS VARCHAR) ELSE {written} END"
            )
        return self.let(written)

    def integer(self, column: str, lower: int, upper: int) -> exp.Expression:
        """Return a whole number, clipped; whether a float is whole is asked of what it is rounded to.

        A decimal so near a whole number that its float is whole is that number: a cast there would cut its digits off.
        """
        kind, cell = self._cell(column)
        if kind not in FLOATING:
            return super().integer(column, lower, upper)
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
        if function == "log2":  # exact for powers of 2, as logarithms to base 2 are
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
        """Return the day of a timestamp, that of UTC, which is the session's zone, where it knows its offset."""
        return cell if kind == "DATE" else f"CAST({cell} AS DATE)"

    def read_micros(self, kind: str, cell: str) -> str:
        """Return the microseconds of a timestamp; one without an offset is read in UTC, the session's zone."""
        del kind
        return clip_micros(self.let(f"UNIX_MICROS(CAST({cell} AS TIMESTAMPTZ))"))
