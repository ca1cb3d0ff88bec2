"""How an engine that speaks SQL reads a declared cell, and the words that it writes differently, which its own class overrides.

Every primitive is total, so that no stored value can make a query fail or NULL others.
"""

from __future__ import annotations

import datetime
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from sordino.ask.engines.moment_cells import day_steps, moment_steps
from sordino.ask.engines.own_sql import case_bounds, float_text, whole_text
from sordino.ask.engines.quoting import quote_name, quote_text
from sordino.ask.engines.sql_steps import SqlSteps
from sordino.ask.engines.table_layout import TableLayout
from sordino.core.cell_grammar import BLANKS, FALSE, TRUE
from sordino.core.noise.lattice import scale_of
from sordino.core.primitives import UnitCell

if TYPE_CHECKING:
    from sqlglot import exp

WHOLE_KINDS = frozenset(["TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"])
LARGE = frozenset(["UBIGINT", "HUGEINT", "UHUGEINT"])
FLOATING = frozenset(["FLOAT", "DOUBLE", "DECIMAL"])
TEXTS = frozenset(["VARCHAR", "ENUM"])
BLANK_TEXT = "chr(32) || chr(9) || chr(10) || chr(13)"


class SqlCells(SqlSteps, ABC):
    """Read the cells of one table. An engine states its words, at least the abstract ones: each returns its SQL text of a part.

    Those that are not abstract are DuckDB's, which Spark's dialect writes for Spark.
    """

    whole_cast: ClassVar[str] = "CAST"  # of a float that a CASE found within 64 bits

    def __init__(self, held: TableLayout) -> None:
        super().__init__()
        self._held = held
        self._joined: dict[str, tuple[str, str]] = {}  # columns of joined tables: physical type and SQL name
        self._texts: set[str] = set()  # what is known to be text
        self._read: set[str] = set()  # columns that the question reads

    def raw(self, column: str) -> exp.Expression:
        """Return the cell as it is held; of CSV trimmed, and missing where it says so."""
        return self._tree(self._cell(column)[1])

    def integer(self, column: str, lower: int, upper: int) -> exp.Expression:
        """Return a whole number, clipped; text other than up to 18 digits (and .0), fractions and NaN are missing."""
        kind, cell = self._cell(column)
        if kind in WHOLE_KINDS or kind == "BOOLEAN":
            return self._clip(cell if kind == "BIGINT" else self._small(kind, cell), lower, upper)
        if kind in LARGE:
            return self._column(f"CASE {case_bounds(cell, lower, upper)} ELSE {self._narrow(cell)} END")
        if kind in FLOATING:
            real = self.let(self._real(kind, cell))
            broken = f"{self._is_nan(real)} OR floor({real}) <> {real}"
            return self._whole_of(real, broken, lower, upper, exact=cell if kind == "DECIMAL" else real)
        if kind in TEXTS:
            return self._clip(self._read_whole(self._trim(column)), lower, upper)
        return self._column("CAST(NULL AS BIGINT)")

    def lattice(self, column: str, step: Fraction, lower: int, upper: int) -> exp.Expression:
        """Return floor(cell / step + 1/2), clipped; NaN and what is no decimal number are missing. See `scale_of`."""
        if column in self._held.steps:
            return self.integer(column, lower, upper)
        kind, cell = self._cell(column)
        if kind in TEXTS:
            real = self.let(self._read_decimal(self._trim(column)))
        elif kind in WHOLE_KINDS | LARGE | FLOATING | {"BOOLEAN"}:
            real = self.let(self._real(kind, cell))
        else:
            return self._column("CAST(NULL AS BIGINT)")
        return self._steps_of(real, step, lower, upper)

    def _steps_of(self, real: str, step: Fraction, lower: int, upper: int) -> exp.Expression:
        """Return the steps, clipped; NaN is missing."""
        near = self._near_steps(real, "DOUBLE", real, step, lower, upper)
        return self._far_steps(real, step, lower, upper) if near is None else near

    def _near_steps(
        self, cell: str, kind: str, real: str, step: Fraction, lower: int, upper: int
    ) -> exp.Expression | None:
        """Return the steps of a cell whose float is `real`, clipped, where the cell itself can be compared with the bounds.

        Theorem: the float of a cell and the steps of a float grow with it. Where the float nearest to a bound has that bound's
        steps exactly, cells beyond it have no other steps once clipped, so the cell is compared, in one CASE instead of two.
        It is multiplied only within the bounds, and by a factor that makes no number 0, so nothing leaves the range of floats.
        """
        op, factor = scale_of(step)
        ends = [float(n * step) for n in (lower, upper)]
        steps = [math.floor((x * factor if op == "*" else x / factor) + 0.5) for x in ends]
        if steps != [lower, upper] or max(abs(lower), abs(upper)) > 2**52 or (factor >= 1) != (op == "*"):
            return None
        first, last, nan = (f"CAST('{end!r}' AS {kind})" for end in (*ends, math.nan))
        exact = f"{self.whole_cast}(floor({real} {op} {float_text(factor)} + {float_text(0.5)}) AS BIGINT)"
        return self._column(
            f"CASE WHEN {cell} BETWEEN {first} AND {last} THEN {exact} WHEN {cell} < {first} THEN {whole_text(lower)} "
            f"WHEN {cell} <> {nan} THEN {whole_text(upper)} END"
        )

    def _held_places(self, column: str, step: Fraction, lower: int, upper: int) -> tuple[int, int] | None:
        """Return the digits of a decimal with as many places as the step has, all and after the point; None of any other.

        Theorem: n / 10^p as a float, times 10^p, is n to within n 2^-52, less than 1/8 where n is at most 2^49. One half
        more, rounded to a 16th, lies above n and below n + 1: `lattice` finds n as well as a product of decimals does, and
        both clip alike what lies beyond.
        """
        held = None if column in self._joined else self._held.digits.get(column)
        if held is None or step != Fraction(1, 10 ** held[1]) or max(abs(lower), abs(upper)) > 2**49:
            return None
        return held

    def _far_steps(self, real: str, step: Fraction, lower: int, upper: int) -> exp.Expression:
        """Return the steps where a bound lies where floats are too coarse to be compared with it."""
        scaled = self.let(self._scale(real, *scale_of(step)))
        return self._whole_of(scaled, self._is_nan(scaled), lower, upper)

    def category_cell(self, column: str, *, whole: bool) -> exp.Expression:
        """Return a category's cell as text, or as a whole number."""
        if whole:
            return self.integer(column, -(2**62), 2**62)
        kind, cell = self._cell(column)
        return self._tree(cell if kind == "VARCHAR" else self._text(column))

    def truth(self, column: str) -> exp.Expression:
        """Return true or false: of text, t, true, y, yes, on, 1 and their opposites; of numbers, 1 and 0."""
        kind, cell = self._cell(column)
        if kind == "BOOLEAN":
            return self._tree(cell)
        if kind in TEXTS:
            word = self.let(f"lower({self._trim(column)})")
            return self._column(
                f"CASE WHEN {word} IN ({', '.join(map(quote_text, TRUE))}) THEN true "
                f"WHEN {word} IN ({', '.join(map(quote_text, FALSE))}) THEN false END"
            )
        if kind in WHOLE_KINDS | LARGE | FLOATING:
            number = self.let(self._real(kind, cell))  # not every DECIMAL can be compared with 1
            return self._column(f"CASE WHEN {number} = 1 THEN true WHEN {number} = 0 THEN false END")
        return self._column("CAST(NULL AS BOOLEAN)")

    def days(self, column: str, lower: datetime.date, upper: datetime.date) -> exp.Expression:
        """Return days since 1970-01-01, clipped; a timestamp counts by the day that is written, text is read as 2000-01-31."""
        if column in self._held.steps:
            first = datetime.date(1970, 1, 1)
            return self.integer(column, (lower - first).days, (upper - first).days)
        return self._column(day_steps(*self._time_cell(column), self, lower, upper))

    def moments(self, column: str, zone: str, step: Fraction, lower: int, upper: int) -> exp.Expression:
        """Return whole steps since 1970 in UTC, clipped; text as of `days`, with a time that a clock can show."""
        if column in self._held.steps:
            return self.integer(column, lower, upper)
        return self._column(moment_steps(*self._time_cell(column), self, zone, step, lower, upper))

    def is_text(self, cell: exp.Expression, texts: Sequence[str]) -> exp.Expression:
        """Return whether a text is one of several."""
        return self._tree(f"({self._words(cell)} IN ({', '.join(map(quote_text, texts))}))")

    def text(self, column: str) -> exp.Expression:
        """Return an identifier as text; a whole number held as a float reads as that number."""
        return self._text_tree(self._text(column))

    def strip(self, text: exp.Expression) -> exp.Expression:
        """Return a text without the blanks around it."""
        return self._text_tree(self._strip(self._words(text)))

    def _text_tree(self, text: str) -> exp.Expression:
        made = self._tree(text)
        self._texts.add(self._words(made))
        return made

    def _whole_of(self, real: str, missing: str, lower: int, upper: int, *, exact: str | None = None) -> exp.Expression:
        """Return a float that holds a whole number as one, clipped before the cast so that the cast cannot fail.

        `exact` is the decimal that was rounded to the float, of which more than 53 binary digits count.
        """
        found = (
            f"CASE WHEN {real} IS NULL OR {missing} THEN NULL {case_bounds(real, lower, upper)} "
            f"ELSE {self._narrow(exact or real)} END"
        )
        # A float cannot distinguish bounds beyond 2^53 from their neighbors, nor a decimal just above a bound from the bound.
        if exact is None and max(abs(lower), abs(upper)) <= 2**53:
            return self._column(found)
        return self._clip(found, lower, upper)

    def _trim(self, column: str) -> str:
        """Return a cell of text without the blanks around it."""
        kind, cell = self._cell(column)
        return self.let(self._strip(cell if kind == "VARCHAR" else f"CAST({cell} AS VARCHAR)"))

    def _time_cell(self, column: str) -> tuple[str, str]:
        kind, cell = self._cell(column)
        return ("VARCHAR", self._trim(column)) if kind in TEXTS else (kind, cell)

    def _cell(self, column: str) -> tuple[str, str]:
        """Return a column's physical type and its raw cell."""
        self._read.add(column)
        if column in self._joined:
            return self._joined[column]
        return self._held.physical[column], quote_name(column)

    def code_of(self, cell: exp.Expression, values: Sequence[str] | Sequence[int], other: int | None) -> exp.Expression:
        """Return the place among the values of what `category_cell` returned; `other` for any other that is not missing."""
        at = self._words(cell)
        wholes, texts = [v for v in values if isinstance(v, int)], [v for v in values if isinstance(v, str)]
        if all(t == t.strip(BLANKS) for t in texts) and not wholes:  # then blanks around a cell mean nothing
            at = self._strip(at)
        found = self._whole_place(at, wholes) if wholes else self._text_place(at, texts)
        if other is None:
            return self._tree(found)
        return self._tree(f"CASE WHEN {at} IS NULL THEN NULL ELSE COALESCE({found}, {other}) END")

    def place_of(self, cell: exp.Expression, values: Sequence[str]) -> exp.Expression:
        """Return the place of a text among distinct values."""
        return self._tree(self._text_place(self._words(cell), values))

    def real_function(
        self, function: str, value: exp.Expression, unit: Fraction, step: Fraction, lower: int, upper: int
    ) -> exp.Expression:
        """Return a root, logarithm or power of e in steps, clipped; the argument is tested first, so that none can fail."""
        scaled = f"CAST({self._words(value)} AS DOUBLE) * CAST('{float(unit.numerator)!r}' AS DOUBLE)"
        real = self.let(f"{scaled} / CAST('{float(unit.denominator)!r}' AS DOUBLE)")
        defined = {"sqrt": f"{real} >= 0", "exp": f"{real} <= 700"}.get(function, f"{real} > 0")
        found = self.let(f"CASE WHEN {defined} THEN {self._call(function, real)} END")
        return self._steps_of(found, step, lower, upper)

    # ---- words of an engine

    @abstractmethod
    def label(self, code: exp.Expression, labels: Sequence[str | int | bool | None]) -> exp.Expression:
        """Return the label at a place, from 0; None is missing."""

    @abstractmethod
    def _whole_place(self, cell: str, values: Sequence[int]) -> str:
        """Return the place of a whole number among distinct values, NULL where it has none."""

    @abstractmethod
    def _text_place(self, cell: str, values: Sequence[str]) -> str:
        """Return the place of a text among distinct values, NULL where it has none."""

    @abstractmethod
    def like(self, cell: exp.Expression, kind: str, pattern: str) -> exp.Expression:
        """Return whether a text matches."""

    @abstractmethod
    def _items(self, column: str, kind: str, most: int, name: str) -> tuple[str, str]:
        """Return the end of `SELECT sordino_l.*` that adds an item of a list as `name`, and the join that it needs."""

    @abstractmethod
    def _repeat(self, count: str) -> str:
        """Return what makes so many rows of one, at least 1, in a SELECT list."""

    @abstractmethod
    def exclusive_or(self, left: str, right: str) -> str:
        """Return the bits of two BIGINT that differ."""

    @abstractmethod
    def _text_number(self, text: str) -> str:
        """Return the first 15 hexadecimal digits of the MD5 of a text, as BIGINT."""

    @abstractmethod
    def _unit_value(self, of: UnitCell) -> str:
        """Return the aggregate that is one value of all rows of a unit, as its form is held."""

    @abstractmethod
    def _text(self, column: str) -> str:
        """Return a cell as text; a whole number held as a float reads as that number."""

    def _strip(self, text: str) -> str:
        """Return a text without the blanks around it."""
        return f"trim({text}, {BLANK_TEXT})"

    def _trim_zeros(self, text: str) -> str:
        """Return the text of a decimal without the zeros at its end: how many there are its column's type decides."""
        return f"CASE WHEN contains({text}, '.') THEN regexp_replace({text}, '[.]?0+$', '') ELSE {text} END"

    def _small(self, kind: str, cell: str) -> str:
        """Return a truth, or a whole number of less than 64 bits, as a number that is compared with BIGINT."""
        del kind
        return f"CAST({cell} AS BIGINT)"

    def _narrow(self, number: str) -> str:
        """Return a whole number of another type as BIGINT, NULL where it is too large."""
        return f"TRY_CAST({number} AS BIGINT)"

    def _real(self, kind: str, cell: str) -> str:
        """Return a number or a truth as DOUBLE."""
        return cell if kind == "DOUBLE" else f"CAST({cell} AS DOUBLE)"

    def _is_nan(self, real: str) -> str:
        """Return whether a DOUBLE is not a number."""
        return f"isnan({real})"

    @abstractmethod
    def _scale(self, real: str, op: str, factor: float) -> str:
        """Return floor(real op factor + 1/2), total for any DOUBLE; a result beyond 2^62 may be any number beyond it."""

    @abstractmethod
    def _call(self, function: str, real: str) -> str:
        """Return sqrt, ln, log2, log10 or exp of a DOUBLE that it is defined for, an exponent up to 700."""

    @abstractmethod
    def _read_whole(self, text: str) -> str:
        """Return the whole number that a text writes, as BIGINT."""

    @abstractmethod
    def _read_decimal(self, text: str) -> str:
        """Return the decimal number that a text writes, as DOUBLE."""

    # ---- of `TimeWords`

    @abstractmethod
    def matches(self, text: str, pattern: str) -> str:
        """Return whether all of a text matches a regular expression."""

    def extract(self, text: str, pattern: str) -> str:
        """Return the one group of the first match; empty or NULL where there is none."""
        return f"REGEXP_EXTRACT({text}, '{pattern}', 1)"

    def parse_day(self, text: str) -> str:
        """Return the DATE that the first ten characters of a text write, which matched; NULL where there is no such day."""
        return f"TRY_CAST(replace(left({text}, 10), '/', '-') AS DATE)"

    def parse_digits(self, text: str) -> str:
        """Return up to 18 digits as BIGINT, NULL for none."""
        return f"TRY_CAST(NULLIF({text}, '') AS BIGINT)"

    @abstractmethod
    def read_day(self, kind: str, cell: str) -> str:
        """Return the DATE of a day or of a timestamp."""

    @abstractmethod
    def read_micros(self, kind: str, cell: str) -> str:
        """Return the microseconds since 1970 of a timestamp, within the years 1 to 9999."""
