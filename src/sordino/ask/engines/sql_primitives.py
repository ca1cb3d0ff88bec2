"""The primitives as SQL: steps of a question, cells, sums, keys, samples."""

from __future__ import annotations

import datetime
import itertools
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Self

from sordino.ask.engines.cells import MOMENTS, bisect_steps, day_steps, moment_steps
from sordino.ask.engines.row_hash import FORMS, CellNumber, hash_cells, unit_rows_select, window_text
from sordino.ask.engines.sql_text import case_bounds, float_text, public_name, quote_name, quote_text, whole_text
from sordino.ask.engines.table_layout import TableLayout
from sordino.ask.queries.expressions.sql_trees import add, constant, divide
from sordino.core.cell_grammar import BLANKS, FALSE, TRUE
from sordino.core.domain import STORED, Boolean, Category, Date, DateTime, Integer, Real
from sordino.core.neighbors import ContributionBounds, Neighbors
from sordino.core.noise.lattice import scale_of
from sordino.core.primitives import WIDEST, FloatSteps, Primitives, UnitCell, UnitWindow

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.dialects.dialect import DialectType

    from sordino.core.domain import Column


# ---- The steps of one SELECT: each cell that is used more than once is named in a sub-query, with conditions between them
#
# It knows whole numbers, and how an engine writes them; no column, no unit and no cell.

_STEP = re.compile(r"\bsordino_[0-9]+_\b")


# ---- How an engine with SQL reads a declared cell, and the SQL that differs among engines, which their classes override
#
# Every primitive is total, so that no stored value can make a query fail or NULL others.

WHOLE_KINDS = frozenset(["TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"])
LARGE = frozenset(["UBIGINT", "HUGEINT", "UHUGEINT"])
FLOATING = frozenset(["FLOAT", "DOUBLE", "DECIMAL"])
TEXTS = frozenset(["VARCHAR", "ENUM"])
BLANK_TEXT = "chr(32) || chr(9) || chr(10) || chr(13)"


# ---- The rows of one SELECT of any engine with SQL: units and their caps, joins, items of lists. It reads no cell itself

# A placeholder for the cells that are read, which are known at the end; no quoted text holds single quotes like these.
_READ = "'sordino_read'"
_NUMBERS = WHOLE_KINDS | LARGE | FLOATING
# a whole number as each engine writes it
_DIGITS = "0|-?[1-9][0-9]{0,17}"


class SqlPrimitives(ABC):
    """The primitives for one SELECT over one table, in SQL. Make a new object for each SELECT, and call `source()` last.

    Its steps have names (`sordino_0_`, ...), so that the text grows with the question alone. An engine overrides the abstract
    methods at least, each of which returns its SQL text of a part; the others return DuckDB's, which Spark's dialect writes for
    Spark. `//` is the whole quotient, HUGEINT a type of 38 digits.
    """

    dialect: ClassVar[DialectType] = "duckdb"
    # ends a sub-query whose steps an engine would otherwise compute where they are used
    fence: ClassVar[str] = ""

    # the cast of a float that a CASE found within 64 bits
    whole_cast: ClassVar[str] = "CAST"

    def __init__(self, layout: TableLayout) -> None:
        self._layout = layout
        # Each stage is a sub-query: its steps' texts and names. A step's level is its stage.
        self._stages: list[dict[str, str]] = []
        self._levels: dict[str, int] = {}
        # Conditions and joins, each with the number of the stage before which it comes.
        self._conditions: list[tuple[int, str]] = []
        self._joins: list[tuple[int, str, str, str]] = []
        # The first stage after all conditions and joins so far.
        self._floor = 0
        # By the step that clips a cell: the cell, and its bounds.
        self._clips: dict[str, tuple[str, int, int]] = {}
        # The texts of the values that were written out, with the columns that each reads: see `name_again`.
        self._written: dict[Hashable, tuple[str, frozenset[str]]] = {}
        # By the step that reads a double as whole steps: how it does.
        self._float_steps: dict[str, FloatSteps] = {}
        # Columns of joined tables: physical type and SQL name.
        self._joined: dict[str, tuple[str, str]] = {}
        # The texts of expressions that are known to be text.
        self._texts: set[str] = set()
        # Columns that the question reads, and those that it read before the bounds.
        self._read: set[str] = set()
        self._read_before: set[str] = set()
        # Declared columns, those of joined tables of the same people among them.
        self._declared: dict[str, Column] = dict(layout.domain.columns)
        # The joined rows that one row may have become.
        self._copies = 1
        self._is_bounded = False
        # The number of conditions up to the last that bounds contributions.
        self._bounded_at = 0
        # The relation that this condition ends, and the number of stages before it.
        self._bounded: tuple[str, int] | None = None
        # The cells that name a row's unit and group.
        self._unit_group = ""
        self._counts: str | None = None
        # ORDER BY the hash of a unit's rows.
        self._row_order = ""
        # The number of stages before the hash.
        self._unhashed = 0
        # Columns that follow from a row's place among its unit's rows.
        self._windows: set[str] = set()
        # The cap on rows of each unit and group, where the last condition is this cap alone.
        self._row_cap: int | None = None
        # The SELECT whose rows these are, where they are not those of a table.
        self._cells: exp.Select | None = None
        # Cells in days that take the place of columns while a part is built.
        self._given: dict[str, exp.Expression] = {}
        # The last rank that rows were restricted by, and the numbers of stages, conditions and joins then.
        self._last_rank = ("", 0, 0, 0)

    # ---- steps: named parts of one statement

    def _words(self, tree: exp.Expression) -> str:
        """Return the engine's text of a tree."""
        return tree.name if tree.key == "var" else tree.sql(dialect=self.dialect)

    def _tree(self, text: str) -> exp.Expression:
        """Return the tree of the engine's text, which is written unchanged: parsing it would take longer than the scan."""
        from sqlglot import exp

        return exp.Var(this=text)

    def _relation(self, text: str) -> exp.Expression:
        """Return the tree of a relation, such as a sub-query with its name."""
        return self._tree(text)

    def let(self, text: str) -> str:
        """Return the name of a step, computed once in the first sub-query where all that it uses has a name."""
        if _STEP.fullmatch(text) or (text.startswith('"') and text.endswith('"') and '"' not in text[1:-1]):
            # a step, or a column
            return text
        for stage in self._stages:
            if text in stage:
                return stage[text]
        return self._add_step(text)

    def _add_step(self, text: str) -> str:
        """Name a step in the first sub-query after all conditions so far where all that it uses has a name."""
        level = max((self._levels.get(n, -1) + 1 for n in _STEP.findall(text)), default=0)
        level = max(level, self._floor)
        while len(self._stages) <= level:
            self._stages.append({})
        name = f"sordino_{len(self._levels)}_"
        self._stages[level][text] = name
        self._levels[name] = level
        return name

    def _column(self, text: str) -> exp.Expression:
        return self._tree(self.let(text))

    def _write_stage(self, relation: str) -> str:
        """Return the relation with each stage's steps, the conditions in their places between them."""
        place = 0
        for i in range(len(self._stages) + 1):
            for level, columns, on, name in self._joins:
                if level == i:
                    left = f"(SELECT * FROM {relation}) AS sordino_l"
                    relation = f"(SELECT sordino_l.*{columns} FROM {left} {on}) AS {name}"
            for level, condition in self._conditions:
                if level == i:
                    relation = f"(SELECT * FROM {relation} WHERE {condition}) AS sordino_w{i}"
                    place += 1
                    if place == self._bounded_at:
                        self._bounded = (relation, i)
            if i < len(self._stages) and self._stages[i]:
                steps = ", ".join(f"{text} AS {name}" for text, name in self._stages[i].items())
                relation = f"(SELECT *, {steps} FROM {relation}{self.fence}) AS sordino_s{i}"
        return relation

    def keep(self, condition: exp.Expression) -> None:
        """Keep only rows that meet `condition`; steps named from now on are computed for those alone."""
        self._restrict(self._words(condition))

    def _restrict(self, condition: str) -> None:
        self._conditions.append((len(self._stages), condition))
        self._floor = len(self._stages)

    def clip(self, value: exp.Expression, lower: int | None, upper: int | None) -> exp.Expression:
        """Return a whole number clipped; NULL stays NULL, as comparisons with it are not true."""
        return self._clip(self._words(value), lower, upper)

    def _clip(self, text: str, lower: int | None, upper: int | None) -> exp.Expression:
        cell = self.let(text)
        if lower is None or upper is None:
            return self._column(f"CASE {case_bounds(cell, lower, upper)} ELSE {cell} END")
        low = whole_text(lower)
        high = whole_text(upper)
        beyond = f"WHEN {cell} < {low} THEN {low} WHEN {cell} > {high} THEN {high}"
        # the common case comes first
        clipped = self.let(f"CASE WHEN {cell} BETWEEN {low} AND {high} THEN {cell} {beyond} END")
        self._clips[clipped] = (cell, lower, upper)
        return self._tree(clipped)

    def name(self, value: exp.Expression) -> exp.Expression:
        """Return the step of a value."""
        return self._column(self._words(value))

    def name_again(self, key: Hashable, build: Callable[[Primitives], exp.Expression]) -> exp.Expression:
        """Return a value where it is used first, its step from then on.

        A step is computed of every row, a value in a condition of those rows alone that the conditions before it leave.
        """
        if key in self._written:
            text, read = self._written[key]
            # Which cells are read after the bounds decides which rows these keep.
            self._read |= read
            return self._column(text)
        before = self._read
        self._read = set()
        value = build(self)
        self._written[key] = self._words(value), frozenset(self._read)
        self._read |= before
        return value

    def quotient(self, value: exp.Expression, moved: int, size: int) -> exp.Expression:
        """Return the quotient by a division of a sum."""
        return divide(add(lambda _: value, constant(moved)), size)(self)

    def with_cell(
        self, column: str, cell: exp.Expression, build: Callable[[Primitives], exp.Expression]
    ) -> exp.Expression:
        """Return what `build` makes where `days` of a column is `cell`."""
        given = self._given
        self._given = given | {column: cell}
        try:
            return build(self)
        finally:
            self._given = given

    def tabulate(
        self,
        value: exp.Expression,
        ends: tuple[int, int],
        function: Callable[[Primitives, exp.Expression], exp.Expression],
    ) -> exp.Expression:
        """Return the function of the value, computed for each row."""
        del ends
        return function(self, value)

    def unclip(self, value: exp.Expression, op: str, steps: int) -> exp.Expression:
        """Return the cell before it was clipped, where that compares with a number of steps like the clipped one.

        Theorem: a cell beyond a bound is on the same side of `steps` as the bound, unless the bound itself is `steps`; then > and
        <= still agree at the lower bound, >= and < at the upper.
        """
        cell, lower, upper = self._clips.get(self._words(value), ("", 0, 0))
        first = lower + (op not in (">", "<="))
        last = upper - (op not in (">=", "<"))
        return self._tree(cell) if cell and first <= steps <= last else value

    def present(self, value: exp.Expression) -> exp.Expression:
        """Return a value that is missing where this one is, and cheaper to compute where there is one."""
        return value

    def wide(self, value: exp.Expression) -> exp.Expression:
        """Return a whole number as HUGEINT."""
        return self._tree(f"CAST({self._words(value)} AS HUGEINT)")

    def look_up(self, value: exp.Expression, starts: Sequence[int], results: Sequence[int]) -> exp.Expression:
        """Return the result of the last start that is not above the value, by halving."""
        cell = self.let(self._words(value))
        result = self.bisect(cell, starts, [whole_text(r) for r in results])
        return self._column(f"CASE WHEN {cell} IS NOT NULL THEN {result} END")

    def bisect(self, cell: str, starts: Sequence[int], results: Sequence[str]) -> str:
        """Return the result of the last start that is not above a cell that is not missing."""
        return bisect_steps(cell, starts, results)

    def total(self, value: exp.Expression, largest: Fraction | None) -> exp.Expression:
        """Return the sum, which engines compute in more than 64 bits."""
        from sqlglot import exp

        del largest
        return exp.Sum(this=value)

    def bin(self, value: exp.Expression, edges: Sequence[int]) -> exp.Expression:
        """Return the bin's place: by division where all bins but the ends have one width, by comparison otherwise.

        A cell of 64 bits is within 2^62, so 64 bits hold its distance from a start within 2^61; otherwise it is made wide.
        """
        cell = self.let(self._words(value))
        first = edges[0]
        last = edges[-1]
        count = len(edges) - 1
        inside = f"{cell} >= {whole_text(first)} AND {cell} <= {whole_text(last)}"
        inner = edges[1:-1]
        width = inner[1] - inner[0] if len(inner) > 1 else 0
        even = 0 < width <= inner[0] + WIDEST and all(b - a == width for a, b in itertools.pairwise(inner))
        if even and inner[0] - first <= width and last - inner[-1] <= width:
            start = inner[0] - width
            number = cell
            step = whole_text(width)
            if max(abs(start), abs(last)) >= 2**61:
                number = f"CAST({cell} AS HUGEINT)"
                step = f"CAST({step} AS HUGEINT)"
            place = f"LEAST(({number} - {whole_text(start)}) // {step}, {count - 1})"
            return self._column(f"CASE WHEN {inside} THEN CAST({place} AS BIGINT) END")
        return self._column(
            f"CASE WHEN {inside} THEN CAST({self.bisect(cell, edges[1:-1], [str(i) for i in range(count)])} AS BIGINT) END"
        )

    # ---- cells: how a declared column is read from each physical type

    def raw(self, column: str) -> exp.Expression:
        """Return the cell as it is stored; a cell of CSV is trimmed, and missing where it equals a null value."""
        return self._tree(self._cell(column)[1])

    def integer(self, column: str, lower: int, upper: int) -> exp.Expression:
        """Return a whole number, clipped; text other than up to 18 digits (and .0), fractions and NaN are missing."""
        return self._whole_cell(column, *self._cell(column), lower, upper)

    def _whole_cell(self, column: str, kind: str, cell: str, lower: int, upper: int) -> exp.Expression:
        """Return the raw cell of a column as a whole number, clipped."""
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
        """Return floor(cell / step + 1/2), clipped; NaN and text that is no decimal number are missing. See `scale_of`."""
        if column in self._layout.steps:
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
        compared = self._compared_steps(real, "DOUBLE", real, step, lower, upper)
        if compared is None:
            return self._scaled_steps(real, step, lower, upper)
        ends = float(lower * step), float(upper * step)
        self._float_steps[self._words(compared)] = FloatSteps(self._tree(real), *ends, *scale_of(step))
        return compared

    def float_steps(self, value: exp.Expression) -> FloatSteps | None:
        """Return from what double the steps that `lattice` returned are computed, if that is known."""
        return self._float_steps.get(self._words(value))

    def _compared_steps(
        self, cell: str, kind: str, real: str, step: Fraction, lower: int, upper: int
    ) -> exp.Expression | None:
        """Return the steps of a cell whose float is `real`, clipped by comparing the cell itself with the bounds; None if unsafe.

        Theorem: the float of a cell and the steps of a float grow with it. Where the float nearest to a bound has exactly that
        bound's steps, cells beyond it have the same steps once clipped, so the cell is compared, in one CASE instead of two.
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

    def _exact_digits(self, column: str, step: Fraction, lower: int, upper: int) -> tuple[int, int] | None:
        """Return the digits of a decimal with as many places as the step has, all and after the point; None for any other.

        Theorem: n / 10^p as a float, times 10^p, is n to within n 2^-52, less than 1/8 where n is at most 2^49. One half
        more, rounded to a 16th, is above n and below n + 1: `lattice` finds n as well as a product of decimals does, and both
        clip alike beyond the bounds.
        """
        digits = None if column in self._joined else self._layout.digits.get(column)
        if digits is None or step != Fraction(1, 10 ** digits[1]) or max(abs(lower), abs(upper)) > 2**49:
            return None
        return digits

    def _scaled_steps(self, real: str, step: Fraction, lower: int, upper: int) -> exp.Expression:
        """Return the steps, clipped after scaling: for bounds at which floats are too coarse to be compared."""
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
            # not every DECIMAL can be compared with 1
            number = self.let(self._real(kind, cell))
            return self._column(f"CASE WHEN {number} = 1 THEN true WHEN {number} = 0 THEN false END")
        return self._column("CAST(NULL AS BOOLEAN)")

    def days(self, column: str, lower: datetime.date, upper: datetime.date) -> exp.Expression:
        """Return days since 1970-01-01, clipped; a timestamp counts by its own clock's day, text is parsed as 2000-01-31."""
        if column in self._given:
            return self._given[column].copy()
        if column in self._layout.steps:
            first = datetime.date(1970, 1, 1)
            return self.integer(column, (lower - first).days, (upper - first).days)
        return self._column(day_steps(*self._time_cell(column), self, lower, upper))

    def moments(self, column: str, zone: str, step: Fraction, lower: int, upper: int) -> exp.Expression:
        """Return whole steps since 1970 in UTC, clipped; text as of `days`, with a time that a clock can show."""
        if column in self._layout.steps:
            return self.integer(column, lower, upper)
        return self._column(moment_steps(*self._time_cell(column), self, zone, step, lower, upper))

    def is_text(self, cell: exp.Expression, texts: Sequence[str]) -> exp.Expression:
        """Return whether a text is one of several."""
        return self._tree(f"({self._words(cell)} IN ({', '.join(map(quote_text, texts))}))")

    def is_code(self, code: exp.Expression, codes: Sequence[int], *, below: int | None = None) -> exp.Expression:
        """Return whether a whole number is one of several."""
        del below
        return self._tree(f"(({self._words(code)}) IN ({', '.join(map(whole_text, codes))}))")

    def of_groups(self, cells: exp.Select, numbers: Sequence[str] = ()) -> Self:
        """Return the primitives for the rows of a grouped SELECT."""
        layout = self._layout
        if numbers:
            kinds = dict.fromkeys(numbers, "BIGINT")
            layout = TableLayout(kinds, layout.domain, None, None, public=layout.public, steps=frozenset(numbers))
        rows = type(self)(replace(layout, unit=None))
        rows._cells = cells
        return rows

    def text(self, column: str) -> exp.Expression:
        """Return an identifier as text; a whole number held as a float reads as that number."""
        return self._text_tree(self._text(column))

    def strip(self, text: exp.Expression) -> exp.Expression:
        """Return a text without the blanks around it."""
        return self._text_tree(self._strip(self._words(text)))

    def _text_tree(self, text: str) -> exp.Expression:
        tree = self._tree(text)
        self._texts.add(self._words(tree))
        return tree

    def _whole_of(self, real: str, missing: str, lower: int, upper: int, *, exact: str | None = None) -> exp.Expression:
        """Return a float that holds a whole number as one, clipped before the cast so that the cast cannot fail.

        `exact` is the decimal that was rounded to the float, of which more than 53 binary digits count.
        """
        whole = (
            f"CASE WHEN {real} IS NULL OR {missing} THEN NULL {case_bounds(real, lower, upper)} "
            f"ELSE {self._narrow(exact or real)} END"
        )
        # A float cannot distinguish bounds beyond 2^53 from their neighbors, nor a decimal just above a bound from the bound.
        if exact is None and max(abs(lower), abs(upper)) <= 2**53:
            return self._column(whole)
        return self._clip(whole, lower, upper)

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
        return self._layout.physical[column], quote_name(column)

    def code_of(self, cell: exp.Expression, values: Sequence[str] | Sequence[int], other: int | None) -> exp.Expression:
        """Return the place among the values of a cell from `category_cell`; `other` for any other cell that is not missing."""
        at = self._words(cell)
        wholes, texts, is_stripped = _part_values(tuple(values))
        # blanks around a cell are ignored, unless a value has some
        if is_stripped and not wholes:
            at = self._strip(at)
        place = self._whole_place(at, wholes) if wholes else self._text_place(at, texts)
        if other is None:
            return self._tree(place)
        return self._tree(f"CASE WHEN {at} IS NULL THEN NULL ELSE COALESCE({place}, {other}) END")

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
        result = self.let(f"CASE WHEN {defined} THEN {self._call(function, real)} END")
        return self._steps_of(result, step, lower, upper)

    # ---- the SQL of an engine

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
        """Return the item of a SELECT list that repeats a row so many times, at least once."""

    @abstractmethod
    def exclusive_or(self, left: str, right: str) -> str:
        """Return the bits of two BIGINT that differ."""

    @abstractmethod
    def _text_number(self, text: str) -> str:
        """Return the first 15 hexadecimal digits of the MD5 of a text, as BIGINT."""

    @abstractmethod
    def _unit_value(self, of: UnitCell) -> str:
        """Return the aggregate that is one value of all rows of a unit, in the type of its form."""

    @abstractmethod
    def _text(self, column: str) -> str:
        """Return a cell as text; a whole number held as a float reads as that number."""

    def _strip(self, text: str) -> str:
        """Return a text without the blanks around it."""
        return f"trim({text}, {BLANK_TEXT})"

    def _trim_zeros(self, text: str) -> str:
        """Return the text of a decimal without the zeros at its end, whose number depends on the column's type."""
        return f"CASE WHEN contains({text}, '.') THEN regexp_replace({text}, '[.]?0+$', '') ELSE {text} END"

    def _small(self, kind: str, cell: str) -> str:
        """Return a boolean, or a whole number of less than 64 bits, as a number that is compared with BIGINT."""
        del kind
        return f"CAST({cell} AS BIGINT)"

    def _narrow(self, number: str) -> str:
        """Return a whole number of another type as BIGINT, NULL where it is too large."""
        return f"TRY_CAST({number} AS BIGINT)"

    def _real(self, kind: str, cell: str) -> str:
        """Return a number or a boolean as DOUBLE."""
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
        """Return the whole number of a text, as BIGINT."""

    @abstractmethod
    def _read_decimal(self, text: str) -> str:
        """Return the decimal number of a text, as DOUBLE."""

    # ---- of `TimeWords`

    @abstractmethod
    def matches(self, text: str, pattern: str) -> str:
        """Return whether all of a text matches a regular expression."""

    def extract(self, text: str, pattern: str) -> str:
        """Return the one group of the first match; empty or NULL where there is none."""
        return f"REGEXP_EXTRACT({text}, '{pattern}', 1)"

    def parse_day(self, text: str) -> str:
        """Return the DATE of the first ten characters of a text, which matched; NULL where there is no such day."""
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

    # ---- the primitives that a question is built with

    def source(self) -> exp.Expression:
        """Return the relation with all named steps; where a unit is declared, its rows without one dropped, the rest capped."""
        if self.has_units and not self._is_bounded:
            self.bound_contributions((), None, totals=False)
            # the rows are counted by cells that were read already
            self._row_cap = None
        if self._cells is not None:
            return self._source_of_groups(self._cells)
        return self._relation(self._stage(self._layout.source))

    def _source_of_groups(self, cells: exp.Select) -> exp.Expression:
        return self._relation(self._stage(f"({self._words(cells)}) AS sordino_cells"))

    @property
    def has_units(self) -> bool:
        """Whether a column names each row's unit."""
        return self._layout.unit is not None and self._layout.unit.column is not None

    def is_unit(self, column: str) -> bool:
        """Return whether a column names each row's unit."""
        return self._layout.unit is not None and self._layout.unit.column == column

    def distinct_units(self) -> exp.Expression:
        """Return the cell that distinguishes units, rows without one dropped."""
        self._is_bounded = True
        unit = self.let(self._unit())
        self._restrict(f"{unit} IS NOT NULL")
        return self._tree(unit)

    def bound_contributions(
        self, keys: Sequence[exp.Expression], requested: ContributionBounds | None, *, totals: bool
    ) -> list[exp.Expression]:
        """Apply the contribution bounds: at most max_groups groups a unit, max_rows_per_group rows a group, max_rows rows in all.

        Rows are in a total order of the cells that the question reads: by the hash of the unit and all declared cells, and by
        the cells read where hashes are equal, which anyone who writes cells can bring about. Groups are ordered by the hash of
        the unit and their keys, and by the keys.

        Theorem: rows that this order does not distinguish are alike in all cells that the question reads, so what it reads of a
        unit is a function of that unit's rows alone, whatever their order, the other rows and the engine's threads. Where no
        cell is read past the bounds, as in a count, any rows do. Scans of one answer read the same columns. The hash serves
        fairness among a unit's rows, and the same choice on every engine: no claim about privacy rests on it.
        """
        if not self.has_units:
            return list(keys)
        self._is_bounded = True
        bounds = Neighbors("add_remove", self._layout.unit, self._copies).enforce(requested, by_group=bool(keys)).bounds
        assert bounds is not None
        groups = [self._name_key(k) for k in keys]
        unit = self.let(self._unit())
        # first, so that dropped rows take up no group
        self._restrict(" AND ".join(f"{c} IS NOT NULL" for c in (unit, *groups)))
        self._unhashed = len(self._stages)
        self._row_order = f"ORDER BY {self.let(self._hash_rows('rows'))}"
        rows = f"{self._row_order}{_READ}"
        self._unit_group = ", ".join(dict.fromkeys((unit, *groups)))
        most = bounds.max_rows if totals and groups and bounds.max_groups is None else bounds.max_groups
        if most is not None:
            order = ", ".join((self.let(self._hash_group(groups)), *groups))
            self._restrict_rank(f"dense_rank() OVER (PARTITION BY {unit} ORDER BY {order})", most)
        if bounds.max_rows_per_group is not None:
            rank = f"row_number() OVER (PARTITION BY {self._unit_group} {rows})"
            self._count_only(rank, bounds.max_rows_per_group, mark=totals)
        if bounds.max_groups is None or bounds.max_rows != bounds.max_groups * (bounds.max_rows_per_group or 0):
            among = unit if self._counts is None else f"{unit}, {self._counts}"
            rank = f"row_number() OVER (PARTITION BY {among} {rows})"
            assert bounds.max_rows is not None
            self._count_only(rank, bounds.max_rows, mark=totals)
            self._row_cap = None if groups or bounds.max_rows_per_group is not None else bounds.max_rows
        else:
            self._row_cap = bounds.max_rows_per_group
        self._read_before = self._read
        self._read = set()
        self._bounded_at = len(self._conditions)
        return [self._tree(g) for g in groups]

    def bound_periods(
        self, period: exp.Expression, window: exp.Expression, *, first: int, participation: tuple[int, int], most: int
    ) -> None:
        """Keep rows of a unit's first periods of each window, and a number of rows of each period, in the order of their hashes.

        Theorem: which rows of a period are kept is a function of the unit's rows up to that period alone, and a unit is in at
        most so many periods of a window over all readings of rows that only ever grow. Proof: a period counts where fewer than
        so many earlier periods of its window have rows of the unit, so of periods read at any times, the last of one more
        than are allowed had the others' rows before it when it was read. Rows that come late for an earlier period only take
        a place.
        """
        self._is_bounded = True
        unit = self.let(self._unit())
        at = self._name_key(period)
        self._restrict(f"{unit} IS NOT NULL AND {at} IS NOT NULL")
        max_periods, size = participation
        if max_periods < size:
            within = self._name_key(window)
            self._limit_rank(f"dense_rank() OVER (PARTITION BY {unit}, {within} ORDER BY {at})", max_periods)
        self._restrict(f"{at} >= {whole_text(first)}")
        self._row_order = f"ORDER BY {self.let(self._hash_rows('rows'))}"
        self._limit_rank(f"row_number() OVER (PARTITION BY {unit}, {at} {self._row_order}{_READ})", most)
        self._read_before = self._read
        self._read = set()
        self._bounded_at = len(self._conditions)

    def _stage(self, relation: str) -> str:
        """Return the relation with all steps; where only units and groups are read after the last rank, it counts rows instead.

        Then the rows of a unit and group are alike, and need no order: their number is the number of rows, at most the cap.
        """
        rank, *then = self._last_rank
        if self._row_cap is None or self._read or then != [len(self._stages), len(self._conditions), len(self._joins)]:
            rows = self._write_stage(relation)
            return self._order_rows(rows) if self._row_order else rows
        stages = self._stages
        conditions = self._conditions
        # the relation is written without the last rank and its condition
        self._conditions = conditions[:-1]
        if max((level for level, _ in self._conditions), default=0) <= self._unhashed:
            # no group is ranked by a hash, so no hash is needed
            self._stages = stages[: self._unhashed]
        else:
            self._stages = [{text: name for text, name in stage.items() if text != rank} for stage in stages]
        rows = self._order_rows(self._write_stage(relation))
        self._stages = stages
        self._conditions = conditions
        copies = f"{self._repeat(f'LEAST(COUNT(*), {self._row_cap})')} AS sordino_copy"
        return f"(SELECT {self._unit_group}, {copies} FROM {rows} GROUP BY {self._unit_group}) AS sordino_b"

    def _order_rows(self, relation: str) -> str:
        """Return the relation with a unit's rows ordered by the hash and the columns that were read."""
        unit = self._layout.unit.column if self._layout.unit is not None else None
        cells = [
            self._joined[n][1] if n in self._joined else quote_name(n)
            for n in sorted((self._read | self._read_before) - {unit})
        ]
        ties = "".join(f", {cell} NULLS LAST" for cell in cells)
        return relation.replace(f"{self._row_order}{_READ}", f"{self._row_order}{ties}" if cells else "")

    def _count_only(self, rank: str, most: int, *, mark: bool) -> None:
        """Let only rows up to this rank count: by a mark where all rows are still needed, else by dropping the others."""
        if mark:
            first = f"{rank} <= {most}"
            self._counts = self.let(first if self._counts is None else f"{self._counts} AND {first}")
        else:
            self._restrict_rank(rank, most)

    def _restrict_rank(self, rank: str, most: int) -> None:
        """Drop the rows above a rank, which nothing else reads."""
        self._limit_rank(rank, most)
        self._last_rank = (rank, len(self._stages), len(self._conditions), len(self._joins))

    def _limit_rank(self, rank: str, most: int) -> None:
        self._restrict(f"{self.let(rank)} <= {most}")

    def counts(self) -> exp.Expression | None:
        """Return whether a row counts under the bounds on rows; None where all remaining rows do."""
        return None if self._counts is None else self._tree(self._counts)

    def unit_total(self, value: exp.Expression) -> exp.Expression:
        """Return, in one row of each unit and group, the sum over all of them; NULL in the others."""
        assert self.has_units
        cell = self.let(self._words(value))
        within = self._unit_group
        # any row may be the first, as the total is the same
        first = self.let(f"row_number() OVER (PARTITION BY {within}) = 1")
        total = self.let(f"CAST(sum({cell}) OVER (PARTITION BY {within}) AS HUGEINT)")
        return self._column(f"CASE WHEN {first} THEN {total} END")

    def unit_groups(self) -> exp.Expression:
        """Return, in one row of each unit and group, how many groups the unit counts in; NULL in the others.

        Where no column names the units, each row is one: it counts in one group.
        """
        if not self.has_units:
            return self._tree(whole_text(1))
        first = self.let(f"row_number() OVER (PARTITION BY {self._unit_group}) = 1")
        one = self.let(f"CASE WHEN {first} THEN 1 END")
        groups = self.let(f"count({one}) OVER (PARTITION BY {self.let(self._unit())})")
        return self._column(f"CASE WHEN {first} THEN {groups} END")

    def unit_rows(self, values: Mapping[str, UnitCell]) -> Self:
        """Return the primitives for one row a unit, grouped by the cell that distinguishes units for the cap on rows."""
        layout = self._layout
        assert layout.unit is not None
        assert layout.unit.column is not None
        column = layout.unit.column
        owner = self.let(self._unit())
        kind, _ = self._cell(column)
        source = unit_rows_select(self._stage(layout.source), (column, owner), values, self._value_of_unit)
        owner_kind = kind if kind in WHOLE_KINDS | LARGE else "VARCHAR"
        return type(self)(
            TableLayout(
                {column: owner_kind} | {name: FORMS[value.form] for name, value in values.items()},
                layout.domain,
                None,
                None,
                source,
                layout.public,
                steps=frozenset(name for name, value in values.items() if value.form == "number"),
                people={"": layout, **layout.people},
                owner=column,
            )
        )

    def _value_of_unit(self, of: UnitCell) -> str:
        """Return the aggregate that is one value of all rows of a unit, or its label."""
        aggregate = self._unit_value(of)
        if not of.labels:
            return aggregate
        return f"CAST({self._words(self.label(self._tree(aggregate), of.labels))} AS {FORMS[of.form]})"

    def add_windows(self, windows: Mapping[str, UnitWindow]) -> None:
        """Add columns that are functions of the row's unit's rows.

        Theorem: rows are ordered by the window's order, then by the hash of all declared cells, then by these cells themselves as
        they are stored. Rows that this does not distinguish are alike in every cell that a question can read, so that the rows of
        a unit with their new cells are, as a bag, a function of the unit's rows, whatever their order of storage, the other
        units' rows and the engine's threads. By the hash, engines that store cells in different types order them alike.
        """
        owner = self.let(self._unit())
        ties = self._window_ties()
        names = {column: self._name_window(owner, ties, window) for column, window in windows.items()}
        for column, window in windows.items():
            kind = FORMS[window.form] if window.form != "number" or window.wide else "BIGINT"
            self._joined[column] = (kind, names[column])
        self._windows |= names.keys()
        numbers = {column for column, window in windows.items() if window.form == "number"}
        self._layout = replace(self._layout, steps=self._layout.steps | numbers)

    def _window_ties(self) -> list[str]:
        """Return the ORDER BY items for a unit's rows of equal order."""
        unit = None if self._layout.unit is None else self._layout.unit.column
        hashed = self.let(self._hash_rows("sequence"))
        names = sorted({*self._layout.domain, *self._joined} - {unit, *self._windows})
        cells = [self._joined[n][1] if n in self._joined else quote_name(n) for n in names]
        return [f"{cell} ASC NULLS LAST" for cell in (hashed, *cells)]

    def _name_window(self, owner: str, ties: Sequence[str], window: UnitWindow) -> str:
        """Return the name of a window's step, computed after all conditions so far."""
        parts = ", ".join([owner, *(self.let(self._words(cell)) for cell in window.within)])
        cells = [self._words(o.by) for o in window.order]
        if window.by_value:
            # The ends of the frame are BIGINT, and engines add numbers of one type only.
            cells = [f"CAST({cell} AS BIGINT)" for cell in cells]
        order = [
            f"{self.let(cell)} {'DESC' if o.descending else 'ASC'} NULLS {'FIRST' if o.nulls_first else 'LAST'}"
            for cell, o in zip(cells, window.order, strict=True)
        ]
        value = "" if window.value is None else self.let(self._words(window.value))
        text = window_text(window, value, parts, order, ties)
        for stage in self._stages[self._floor :]:
            if text in stage:
                return stage[text]
        # Not `let`: the same text before a condition is about other rows.
        return self._add_step(text)

    def units(self, of: exp.Expression | None, *, pairs: int | None = None) -> exp.Expression:
        """Return one row a unit, or a unit and value of `of`: how many rows it has before any cap, or how many values."""
        owner = self.let(self._unit())
        cell = None if of is None else self._name_key(of)
        argument = "*" if cell is None or pairs is not None else f"DISTINCT {cell}"
        counts = f"CAST(COUNT({argument}) AS BIGINT) AS sordino_has"
        present = f"{owner} IS NOT NULL"
        by = owner
        if cell is not None and pairs is not None:
            order = self.let(self._hash_group([cell]))
            counts += f", row_number() OVER (PARTITION BY {owner} ORDER BY {order}, {cell}) AS sordino_n"
            present += f" AND {cell} IS NOT NULL"
            by += f", {cell}, {order}"
        rows = f"SELECT {counts} FROM {self._stage(self._layout.source)} WHERE {present} GROUP BY {by}"
        if pairs is not None:
            rows = f"SELECT sordino_has FROM ({rows}) AS sordino_pairs WHERE sordino_n <= {pairs}"
        return self._relation(f"({rows}) AS sordino_units")

    def join(
        self, table: str, cells: Sequence[exp.Expression], keys: Sequence[exp.Expression], *, left: bool, copies: int
    ) -> None:
        """Join a public table, which is in memory; steps from now on may use its columns."""
        self._copies *= copies
        at = [self.let(self._words(cell)) for cell in cells]
        columns = self._add_columns(table, self._layout.public[table])
        kind = "LEFT JOIN" if left else "INNER JOIN"
        same = " AND ".join(f"sordino_l.{a} = ({self._words(key)})" for a, key in zip(at, keys, strict=True))
        self._add_join(columns, f"{kind} {quote_name(public_name(table))} AS sordino_r ON {same}")

    def _add_columns(self, table: str, kinds: Mapping[str, str]) -> str:
        """Return the end of a SELECT list that names the columns of a joined table, and remember the names."""
        columns = ""
        for column, kind in kinds.items():
            name = f"sordino_c{len(self._joined)}"
            self._joined[f"{table}.{column}"] = (kind, name)
            columns += f", sordino_r.{quote_name(column)} AS {name}"
        return columns

    def _add_join(self, columns: str, on: str) -> None:
        """Join after the steps so far; steps from now on may use the new columns."""
        self._joins.append((len(self._stages), columns, on, f"sordino_j{len(self._joins)}"))
        self._floor = len(self._stages)

    def blank(self, columns: Sequence[str], condition: exp.Expression) -> None:
        """Make the cells of some joined columns missing where a condition is not true."""
        holds = self.let(self._words(condition))
        for column in columns:
            kind, cell = self._joined[column]
            self._joined[column] = (kind, self.let(f"CASE WHEN {holds} THEN {cell} END"))

    def unnest(self, column: str, most: int) -> None:
        """Put an item of the list in place of it, in a row of its own."""
        self._copies *= most
        name = f"sordino_c{len(self._joined)}"
        self._add_join(*self._items(quote_name(column), self._layout.items[column], most, name))
        self._joined[column] = (self._layout.items[column], name)
        self._declared[column] = self._layout.domain.lists[column].of

    def join_unit(self, table: str, *, left: bool, own: bool = False) -> None:
        """Join another private table, or this one once more, by the unit, its rows bounded before."""
        self._join_rows(None if own else table, table, left=left)

    def _join_rows(self, other: str | None, table: str, *, left: bool) -> None:
        """Join the rows of another private table, or of this one where None, that are called `table` from then on."""
        joined = self.other_rows(other)
        joined.bound_contributions((), None, totals=False)
        kinds = {column: joined._cell(column)[0] for column in joined._layout.domain}
        cells = [f"{joined._cell(column)[1]} AS {quote_name(column)}" for column in kinds]
        cells.append(f"{joined._unit_text()} AS sordino_key_0")
        rows = f"(SELECT {', '.join(cells)} FROM {joined._stage(joined._layout.source)})"
        self._join_units(rows, self._add_columns(table, kinds), left=left)
        self._declared |= {f"{table}.{column}": joined._layout.domain[column] for column in kinds}
        assert joined._layout.unit is not None
        self._copies *= joined._layout.unit.total_rows

    def is_decimal(self, column: str) -> bool:
        """Return whether a column's numbers are whole or stored as decimals; a value of a unit is taken for a double.

        The declaration decides whether a column is whole: in pandas one missing cell makes floats of whole numbers, and among
        several files another file does.
        """
        declared = self._declared.get(column)
        kind = self._joined[column][0] if column in self._joined else self._layout.physical[column]
        is_whole = isinstance(declared, Integer) or (declared is None and kind in WHOLE_KINDS | LARGE)
        return kind == "DECIMAL" or (is_whole and column not in self._layout.steps)

    def other_rows(self, table: str | None) -> Self:
        """Return the primitives for all rows of a table of the same people."""
        # The layout of one row a unit has the table's own layout under this name.
        base = self._layout.people.get("", self._layout)
        if table is None:
            return type(self)(base)
        # The other table can join all tables of the same people in turn.
        return type(self)(replace(base.people[table], people=base.people, public=base.public))

    def mark_units(self, column: str, rows: Primitives, condition: exp.Expression | None) -> None:
        """Add whether the row's unit is one of those that have such rows."""
        assert isinstance(rows, SqlPrimitives)
        if condition is not None:
            rows.keep(condition)
        has = f"(SELECT DISTINCT {rows._unit_text()} AS sordino_key_0 FROM {rows._stage(rows._layout.source)})"
        name = f"sordino_c{len(self._joined)}"
        self._join_units(has, f", sordino_r.sordino_key_0 IS NOT NULL AS {name}", left=True)
        self._joined[column] = ("BOOLEAN", name)
        self._declared[column] = Boolean()

    def mark_matches(
        self, column: str, table: str | None, condition: Callable[[Primitives], exp.Expression], *, name: str
    ) -> None:
        """Add whether one of the rows that the row is joined with meets a condition; then each row is there once again.

        Rows of a unit are numbered in an order that tells apart all that differ, so that the marks are, as a bag, a function of
        the unit's rows.
        """
        copies = self._copies
        before = set(self._joined)
        owner = self._unit_text()
        row = owner
        # Of rows that are one a unit, the unit's name is the number.
        if self._layout.unit is not None:
            ties = ", ".join(self._window_ties())
            row = self._add_step(f"row_number() OVER (PARTITION BY {owner} ORDER BY {ties})")
        self._join_rows(table, name, left=True)
        unit = self.other_rows(table)._layout.unit
        assert unit is not None
        matched = self._joined[f"{name}.{unit.column}"][1]
        met = self.let(self._words(condition(self)))
        of_row = f"OVER (PARTITION BY {owner}, {row}"
        mark = self._add_step(f"(max(CASE WHEN {matched} IS NOT NULL AND {met} THEN 1 ELSE 0 END) {of_row}) = 1)")
        first = self._add_step(f"row_number() {of_row} ORDER BY {row})")
        self._restrict(f"{first} = 1")
        # Which of the joined rows is left does not matter: no word names its cells, and they order no rows.
        self._windows |= set(self._joined) - before
        self._copies = copies
        self._joined[column] = ("BOOLEAN", mark)
        self._declared[column] = Boolean()

    def join_values(
        self, columns: Mapping[str, str], rows: Primitives, condition: exp.Expression | None, *, key: str, left: bool
    ) -> None:
        """Join one row a unit, where its unit is the row's."""
        assert isinstance(rows, SqlPrimitives)
        if condition is not None:
            rows.keep(condition)
        owner = rows._unit_text()
        cells = [f"{rows._cell(old)[1]} AS sordino_v{i}" for i, old in enumerate(columns.values())]
        items = ", ".join([f"{owner} AS sordino_key_0", *cells])
        relation = f"(SELECT {items} FROM {rows._stage(rows._layout.source)})"
        added = ""
        for i, (new, old) in enumerate(columns.items()):
            name = f"sordino_c{len(self._joined)}"
            self._joined[new] = (rows._layout.physical[old], name)
            added += f", sordino_r.sordino_v{i} AS {name}"
        name = f"sordino_c{len(self._joined)}"
        self._joined[key] = ("VARCHAR", name)
        self._join_units(relation, f"{added}, sordino_r.sordino_key_0 AS {name}", left=left)
        # They are equal in all rows of a unit, so they order none of them.
        self._windows |= {*columns, key}
        numbers = {new for new, old in columns.items() if old in rows._layout.steps}
        self._layout = replace(self._layout, steps=self._layout.steps | numbers)

    def _join_units(self, relation: str, columns: str, *, left: bool) -> None:
        """Join a relation where its sordino_key_0 is the row's unit; steps from now on may use the new columns."""
        same = f"AS sordino_r ON sordino_l.{self._unit_text()} = sordino_r.sordino_key_0"
        self._add_join(columns, f"{'LEFT' if left else 'INNER'} JOIN {relation} {same}")

    def _unit_text(self) -> str:
        """Return the text that names the row's unit, in which units of different tables are compared."""
        column = self._layout.owner if self._layout.unit is None else self._layout.unit.column
        return self.let(self._text(column or ""))

    def _name_key(self, key: exp.Expression) -> str:
        """Return the name of a key's step, known to be text where the key is."""
        words = self._words(key)
        name = self.let(words)
        if words in self._texts:
            self._texts.add(name)
        return name

    def chunk(self, count: int) -> exp.Expression:
        """Return the unit's chunk, from 0; where a row is the unit, equal rows share one."""
        hashed = (
            hash_cells([self._number_unit()], self, purpose="chunks") if self.has_units else self._hash_rows("chunks")
        )
        return self._column(f"({hashed}) % CAST('{count}' AS BIGINT)")

    def _unit(self) -> str:
        """Return the cell that names a row's unit: a number unchanged, which sorts in less memory than its text."""
        assert self._layout.unit is not None
        assert self._layout.unit.column is not None
        kind, cell = self._cell(self._layout.unit.column)
        return cell if kind in WHOLE_KINDS | LARGE else self._text(self._layout.unit.column)

    def _hash_rows(self, purpose: str) -> str:
        """Return the hash of the unit and of all cells that a question can read."""
        column = None if self._layout.unit is None else self._layout.unit.column
        read = set(self._read)
        names = sorted({*self._layout.domain, *self._joined} - {column, *self._windows})
        cells = [self._number_cell(n) for n in names]
        # the question itself does not read these cells
        self._read = read
        return hash_cells(cells if column is None else [self._number_unit(), *cells], self, purpose=purpose)

    def _hash_group(self, groups: Sequence[str]) -> str:
        """Return the hash of a unit and the keys of one of its groups."""
        numbers = (self.let(self._text_number(key)) if key in self._texts else key for key in groups)
        keys = [CellNumber(f"key {i}", number) for i, number in enumerate(numbers)]
        return hash_cells([self._number_unit(), *keys], self, purpose="groups")

    def _number_unit(self) -> CellNumber:
        assert self._layout.unit is not None
        assert self._layout.unit.column is not None
        return CellNumber("unit", self._number_name(self._layout.unit.column))

    def _number_cell(self, column: str) -> CellNumber:
        """Return a cell by its declared value, which is the same in every physical type: its code, its steps or its name."""
        from sordino.ask.queries.expressions.bound_number import category_code, number_cell, truth_code

        declared = self._declared.get(column)
        kind, _ = self._cell(column)
        if isinstance(declared, Category):
            return self._number(column, category_code(column, declared)(self), narrow=True)
        if isinstance(declared, Boolean):
            return self._number(column, truth_code(column, declared)(self), narrow=True)
        if (isinstance(declared, Real) and declared.step is None) or (declared is None and kind in _NUMBERS):
            return self._number(column, self.lattice(column, Fraction(1, 1000), -STORED, STORED))
        if isinstance(declared, (Integer, Real, Date, DateTime)):
            number = number_cell(column, declared)
            assert number.stored.largest is not None
            return self._number(column, number.build(self), narrow=number.stored.largest < 2**30)
        return CellNumber(column, self._number_name(column))

    def _number(self, column: str, cell: exp.Expression, *, narrow: bool = False) -> CellNumber:
        return CellNumber(column, self.let(self._words(cell)), narrow)

    def _number_name(self, column: str) -> str:
        """Return the number of a cell that is a name: that of a text of up to 18 digits, else the hash of the text."""
        kind, cell = self._cell(column)
        if kind in MOMENTS:
            return self.let(self.read_micros(kind, cell))
        if kind == "BIGINT":
            few = f"{cell} BETWEEN {1 - 10**18} AND {10**18 - 1}"
            hashed = self._text_number(f"CAST({cell} AS VARCHAR)")
            return self.let(f"CASE WHEN {few} THEN {cell} ELSE {hashed} END")
        if kind in WHOLE_KINDS:
            return cell
        text = self._text(column)
        # the first comparison spares most texts, which begin with a letter, the regular expression
        digits = f"{text} < ':' AND {self.matches(text, _DIGITS)}"
        return self.let(f"CASE WHEN {digits} THEN {self.parse_digits(text)} ELSE {self._text_number(text)} END")


@lru_cache(maxsize=32, typed=True)
def _part_values(values: tuple[str | int, ...]) -> tuple[list[int], list[str], bool]:
    """Return the whole numbers and the texts among a category's values, and whether no text has blanks around it."""
    texts = [v for v in values if isinstance(v, str)]
    return [v for v in values if isinstance(v, int)], texts, all(t == t.strip(BLANKS) for t in texts)
