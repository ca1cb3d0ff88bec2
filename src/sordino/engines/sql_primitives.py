"""The primitives of any engine that speaks SQL; what an engine writes differently is a word that its own class overrides.

Every primitive is total, so that no stored value can make a query fail or NULL others.
"""

from __future__ import annotations

import datetime
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Self

from sordino.cell_grammar import FALSE, TRUE
from sordino.engines.moment_cells import day_steps, moment_steps
from sordino.engines.own_sql import case_bounds, public_name
from sordino.engines.quoting import quote_name, quote_text
from sordino.engines.sql_steps import SqlSteps
from sordino.engines.table_layout import TableLayout
from sordino.engines.unit_rows import FORMS, unit_rows_select
from sordino.neighbors import ContributionBounds, Neighbors
from sordino.noise.lattice import scale_of
from sordino.primitives import Primitives, UnitCell

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = ["FLOATING", "LARGE", "TEXTS", "WHOLE_KINDS", "SqlPrimitives"]

WHOLE_KINDS = frozenset(["TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"])
LARGE = frozenset(["UBIGINT", "HUGEINT", "UHUGEINT"])
FLOATING = frozenset(["FLOAT", "DOUBLE", "DECIMAL"])
TEXTS = frozenset(["VARCHAR", "ENUM"])


class SqlPrimitives(SqlSteps, ABC):
    """Build the cells of one SELECT over one table. Take a new one for each SELECT, and `source()` last.

    An engine states its words, the abstract methods: each returns its own SQL text of a part.
    """

    refuses: ClassVar[bool] = False

    def __init__(self, held: TableLayout) -> None:
        super().__init__()
        self._held = held
        self._joined: dict[str, tuple[str, str]] = {}  # columns of joined tables: physical type and SQL name
        self._copies = 1  # joined rows that one row may have become
        self._is_bounded = False
        self._unit_group = ""  # the cells that name a row's unit and group
        self._counts: str | None = None

    def source(self) -> exp.Expression:
        """Return the relation with all named steps; where a unit is declared, its rows without one dropped, the rest capped."""
        if self.has_units and not self._is_bounded:
            self.bound_contributions((), None, totals=False)
        return self._relation(self._stage(self._held.source))

    @property
    def has_units(self) -> bool:
        """Whether a column names each row's unit."""
        return self._held.unit is not None and self._held.unit.column is not None

    def bound_contributions(
        self, keys: Sequence[exp.Expression], asked: ContributionBounds | None, *, totals: bool
    ) -> list[exp.Expression]:
        """Keep, of each unit, the rows of its first groups, of each group the first rows, and of these the first.

        Rows are in a total order of what can be read of a row: by the hash of its declared cells, and by the cells
        themselves where hashes are equal, which whoever writes cells can bring about. Groups are ordered by the hash of
        the unit and their keys, and by the keys.

        Theorem: rows that this order does not tell apart are alike in all cells that a question can read, so what is kept
        of a unit is a function of that unit's rows alone, whatever their order, the other rows and the engine's threads.
        The hash serves fairness among a unit's rows alone: no claim rests on it.
        """
        if not self.has_units:
            return list(keys)
        self._is_bounded = True
        bounds = Neighbors("add_remove", self._held.unit, self._copies).enforce(asked, by_group=bool(keys)).bounds
        assert bounds is not None
        groups = [self.let(self._words(k)) for k in keys]
        unit = self.let(self._unit())
        self._restrict(" AND ".join(f"{c} IS NOT NULL" for c in (unit, *groups)))  # rows dropped take no group
        cells = [*map(quote_name, sorted(self._held.domain)), *(self._joined[n][1] for n in sorted(self._joined))]
        rows = self._row_order(dict.fromkeys(cells))
        self._unit_group = ", ".join((unit, *groups))
        most = bounds.max_rows if totals and groups and bounds.max_groups is None else bounds.max_groups
        if most is not None:
            order = ", ".join((self.let(self._order_hash(self._unit_group)), *groups))
            self._restrict_rank(f"dense_rank() OVER (PARTITION BY {unit} ORDER BY {order})", most)
        if bounds.max_rows_per_group is not None:
            rank = f"row_number() OVER (PARTITION BY {self._unit_group} ORDER BY {rows})"
            self._count_only(rank, bounds.max_rows_per_group, mark=totals)
        if bounds.max_groups is None or bounds.max_rows != bounds.max_groups * (bounds.max_rows_per_group or 0):
            among = unit if self._counts is None else f"{unit}, {self._counts}"
            rank = f"row_number() OVER (PARTITION BY {among} ORDER BY {rows})"
            assert bounds.max_rows is not None
            self._count_only(rank, bounds.max_rows, mark=totals)
        return [self._tree(g) for g in groups]

    def _count_only(self, rank: str, most: int, *, mark: bool) -> None:
        """Let only rows up to this rank count: by a mark where all are still needed, else by leaving the others out."""
        if mark:
            first = f"{rank} <= {most}"
            self._counts = self.let(first if self._counts is None else f"{self._counts} AND {first}")
        else:
            self._restrict_rank(rank, most)

    def _restrict_rank(self, rank: str, most: int) -> None:
        """Leave out the rows above a rank."""
        self._restrict(f"{self.let(rank)} <= {most}")

    def counts(self) -> exp.Expression | None:
        """Return whether a row counts under the bounds on rows; None where all rows that are left do."""
        return None if self._counts is None else self._tree(self._counts)

    def unit_total(self, value: exp.Expression) -> exp.Expression:
        """Return, in one row of each unit and group, the sum over all of them; NULL in the others."""
        assert self.has_units
        cell, within = self.let(self._words(value)), self._unit_group
        first = self.let(f"row_number() OVER (PARTITION BY {within}) = 1")  # of whichever row: the total is the same
        total = self.let(f"CAST(sum({cell}) OVER (PARTITION BY {within}) AS HUGEINT)")
        return self._column(f"CASE WHEN {first} THEN {total} END")

    def unit_groups(self) -> exp.Expression:
        """Return, in one row of each unit and group, how many groups the unit counts in; NULL in the others."""
        assert self.has_units
        first = self.let(f"row_number() OVER (PARTITION BY {self._unit_group}) = 1")
        one = self.let(f"CASE WHEN {first} THEN 1 END")
        groups = self.let(f"count({one}) OVER (PARTITION BY {self.let(self._unit())})")
        return self._column(f"CASE WHEN {first} THEN {groups} END")

    def unit_rows(self, values: Mapping[str, UnitCell]) -> Self:
        """Return the words for one row a unit, grouped by what the cap on rows tells units apart by."""
        assert self._held.unit is not None
        assert self._held.unit.column is not None
        column, owner = self._held.unit.column, self.let(self._unit())
        kind, _ = self._cell(column)
        named = kind if kind in WHOLE_KINDS | LARGE else "VARCHAR"
        source = unit_rows_select(self._stage(self._held.source), (column, owner), values, self._unit_value)
        physical = {column: named} | {n: FORMS[v.form] for n, v in values.items()}
        numbers, held = frozenset(n for n, v in values.items() if v.form == "number"), self._held
        layout = TableLayout(physical, held.domain, None, None, source, held.public, numbers, held.people, owner=column)
        return type(self)(layout)

    def units(self, of: exp.Expression | None, *, pairs: int | None = None) -> exp.Expression:
        """Return one row a unit, or a unit and value of `of`: how many rows it has before any cap, or how many values."""
        owner = self.let(self._unit())
        cell = None if of is None else self.let(self._words(of))
        counted = "*" if cell is None or pairs is not None else f"DISTINCT {cell}"
        present, by = f"{owner} IS NOT NULL", owner
        if cell is not None and pairs is not None:
            present, by = f"{present} AND {cell} IS NOT NULL", f"{owner}, {cell}"
        counts = f"CAST(COUNT({counted}) AS BIGINT) AS sordino_has"
        if pairs is not None:
            counts += f", row_number() OVER (PARTITION BY {owner} ORDER BY {self._order_hash(by)}, {by}) AS sordino_n"
        made = f"SELECT {counts} FROM {self._stage(self._held.source)} WHERE {present} GROUP BY {by}"
        if pairs is not None:
            made = f"SELECT sordino_has FROM ({made}) AS sordino_pairs WHERE sordino_n <= {pairs}"
        return self._relation(f"({made}) AS sordino_units")

    def join(
        self, table: str, cells: Sequence[exp.Expression], keys: Sequence[exp.Expression], *, left: bool, copies: int
    ) -> None:
        """Join a public table, held in memory; what is named from now on may use its columns."""
        self._copies *= copies
        at = [self.let(self._words(cell)) for cell in cells]
        named = self._add_columns(table, self._held.public[table])
        kind = "LEFT JOIN" if left else "INNER JOIN"
        same = " AND ".join(f"sordino_l.{a} = ({self._words(key)})" for a, key in zip(at, keys, strict=True))
        on = f"{kind} {quote_name(public_name(table))} AS sordino_r ON {same}"
        self._add_join(named, on)

    def _add_columns(self, table: str, kinds: Mapping[str, str]) -> str:
        """Return the end of a SELECT list that names the columns of a joined table, and remember the names."""
        named = ""
        for column, kind in kinds.items():
            name = f"sordino_c{len(self._joined)}"
            self._joined[f"{table}.{column}"] = kind, name
            named += f", sordino_r.{quote_name(column)} AS {name}"
        return named

    def _add_join(self, named: str, on: str) -> None:
        """Join after the steps so far; what is named from now on may use what it adds."""
        self._joins.append((len(self._stages), named, on, f"sordino_j{len(self._joins)}"))
        self._floor = len(self._stages)

    def unnest(self, column: str, most: int) -> None:
        """Put an item of the list in place of it, in a row of its own."""
        self._copies *= most
        name = f"sordino_c{len(self._joined)}"
        self._add_join(*self._items(quote_name(column), self._held.items[column], most, name))
        self._joined[column] = self._held.items[column], name

    def join_unit(self, table: str, *, left: bool) -> None:
        """Join another private table by the unit, its rows bounded before."""
        kept = type(self)(self._held.people[table])
        kept.bound_contributions((), None, totals=False)
        kinds = {column: kept._cell(column)[0] for column in kept._held.domain}
        cells = [f"{kept._cell(column)[1]} AS {quote_name(column)}" for column in kinds]
        cells.append(f"{kept._unit_text()} AS sordino_key_0")
        rows = f"(SELECT {', '.join(cells)} FROM {kept._stage(kept._held.source)})"
        self._join_units(rows, self._add_columns(table, kinds), left=left)
        assert kept._held.unit is not None
        self._copies *= kept._held.unit.total_rows

    def other_rows(self, table: str | None) -> Self:
        """Return the words for all rows of a table of the same people."""
        return type(self)(self._held if table is None else self._held.people[table])

    def mark_units(self, column: str, rows: Primitives, condition: exp.Expression | None) -> None:
        """Add whether the row's unit is one of those that have such rows."""
        assert isinstance(rows, SqlPrimitives)
        if condition is not None:
            rows.keep(condition)
        has = f"(SELECT DISTINCT {rows._unit_text()} AS sordino_key_0 FROM {rows._stage(rows._held.source)})"
        name = f"sordino_c{len(self._joined)}"
        self._join_units(has, f", sordino_r.sordino_key_0 IS NOT NULL AS {name}", left=True)
        self._joined[column] = "BOOLEAN", name

    def _join_units(self, relation: str, named: str, *, left: bool) -> None:
        """Join a relation where its sordino_key_0 is the row's unit; what is named from now on may use what it adds."""
        same = f"AS sordino_r ON sordino_l.{self._unit_text()} = sordino_r.sordino_key_0"
        self._add_join(named, f"{'LEFT' if left else 'INNER'} JOIN {relation} {same}")

    def _unit_text(self) -> str:
        """Return the text that names the row's unit, in which units of different tables are compared."""
        column = self._held.owner if self._held.unit is None else self._held.unit.column
        return self.let(self._text(column or ""))

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
        op, factor = scale_of(step)
        scaled = self.let(self._scale(real, op, factor))
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
        return self._tree(self._text(column))

    def strip(self, text: exp.Expression) -> exp.Expression:
        """Return a text without the blanks around it."""
        return self._tree(self._strip(self._words(text)))

    def chunk(self, count: int) -> exp.Expression:
        """Return the unit's chunk, from 0; where a row is the unit, equal rows share one."""
        unit = self._held.unit
        column = None if unit is None else unit.column
        cells = [quote_name(n) for n in sorted(self._held.domain)] if column is None else [self._text(column)]
        return self._column(self._chunk_of(", ".join(cells), count))

    def _unit(self) -> str:
        """Return the cell that names a row's unit: of numbers as they are, which sort in less memory."""
        assert self._held.unit is not None
        assert self._held.unit.column is not None
        kind, cell = self._cell(self._held.unit.column)
        return cell if kind in WHOLE_KINDS | LARGE else self._text(self._held.unit.column)

    def _whole_of(self, real: str, missing: str, lower: int, upper: int, *, exact: str | None = None) -> exp.Expression:
        """Return a float that holds a whole number as one, clipped before the cast so that the cast cannot fail.

        `exact` is the decimal that was rounded to the float, of which more than 53 binary digits count.
        """
        found = (
            f"CASE WHEN {real} IS NULL OR {missing} THEN NULL {case_bounds(real, lower, upper)} "
            f"ELSE {self._narrow(exact or real)} END"
        )
        if max(abs(lower), abs(upper)) <= 2**53:
            return self._column(found)
        return self._clip(found, lower, upper)  # a float cannot distinguish such bounds from their neighbors

    def _trim(self, column: str) -> str:
        """Return a cell of text without the blanks around it."""
        kind, cell = self._cell(column)
        return self.let(self._strip(cell if kind == "VARCHAR" else f"CAST({cell} AS VARCHAR)"))

    def _time_cell(self, column: str) -> tuple[str, str]:
        kind, cell = self._cell(column)
        return ("VARCHAR", self._trim(column)) if kind in TEXTS else (kind, cell)

    def _cell(self, column: str) -> tuple[str, str]:
        """Return a column's physical type and its raw cell."""
        if column in self._joined:
            return self._joined[column]
        return self._held.physical[column], quote_name(column)

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
    def code_of(self, cell: exp.Expression, values: Sequence[str] | Sequence[int], other: int | None) -> exp.Expression:
        """Return the place of a cell among the values."""

    @abstractmethod
    def place_of(self, cell: exp.Expression, values: Sequence[str]) -> exp.Expression:
        """Return the place of a text among distinct values."""

    @abstractmethod
    def like(self, cell: exp.Expression, kind: str, pattern: str) -> exp.Expression:
        """Return whether a text matches."""

    @abstractmethod
    def _items(self, column: str, kind: str, most: int, name: str) -> tuple[str, str]:
        """Return the end of `SELECT sordino_l.*` that adds an item of a list as `name`, and the join that it needs."""

    @abstractmethod
    def _row_order(self, cells: Collection[str]) -> str:
        """Return a total order of rows by a hash of cells and by the cells themselves."""

    @abstractmethod
    def _order_hash(self, cells: str) -> str:
        """Return a public hash that orders rows or groups fairly; it may collide, so order by the cells next."""

    @abstractmethod
    def _chunk_of(self, cells: str, count: int) -> str:
        """Return a number from 0 to count - 1 by a public hash of cells."""

    @abstractmethod
    def _unit_value(self, of: UnitCell) -> str:
        """Return the aggregate that is one value of all rows of a unit, as its form is held."""

    @abstractmethod
    def _text(self, column: str) -> str:
        """Return a cell as text; a whole number held as a float reads as that number."""

    @abstractmethod
    def _strip(self, text: str) -> str:
        """Return a text without the blanks around it."""

    @abstractmethod
    def _small(self, kind: str, cell: str) -> str:
        """Return a truth, or a whole number of less than 64 bits, as a number that is compared with BIGINT."""

    @abstractmethod
    def _narrow(self, number: str) -> str:
        """Return a whole number of another type as BIGINT, NULL where it is too large."""

    @abstractmethod
    def _real(self, kind: str, cell: str) -> str:
        """Return a number or a truth as DOUBLE."""

    @abstractmethod
    def _is_nan(self, real: str) -> str:
        """Return whether a DOUBLE is not a number."""

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

    @abstractmethod
    def extract(self, text: str, pattern: str) -> str:
        """Return the one group of the first match; empty or NULL where there is none."""

    @abstractmethod
    def parse_day(self, text: str) -> str:
        """Return the DATE that the first ten characters of a text write, which matched; NULL where there is no such day."""

    @abstractmethod
    def parse_digits(self, text: str) -> str:
        """Return up to 18 digits as BIGINT, NULL for none."""

    @abstractmethod
    def held_day(self, kind: str, cell: str) -> str:
        """Return the DATE of a day or of a timestamp."""

    @abstractmethod
    def held_micros(self, kind: str, cell: str) -> str:
        """Return the microseconds since 1970 of a timestamp, within the years 1 to 9999."""
