"""The primitives in DuckDB's words: every one is total, so that no stored value can make a query fail or NULL others."""

from __future__ import annotations

import datetime
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from sordino.cell_grammar import BLANKS, DECIMAL, FALSE, TRUE, WHOLE
from sordino.engines.list_items import find_place, unnest_cells
from sordino.engines.moment_cells import bisect_steps, day_steps, moment_steps
from sordino.engines.own_sql import (
    CHOICE,
    case_bounds,
    literal_text,
    order_hash,
    parse_own,
    parse_relation,
    public_name,
    whole_text,
)
from sordino.engines.quoting import quote_name, quote_text
from sordino.engines.table_layout import TableLayout
from sordino.engines.unit_rows import FORMS, unit_rows_select
from sordino.neighbors import ContributionBounds, Neighbors
from sordino.noise.lattice import scale_of
from sordino.primitives import WIDEST, Primitives, UnitCell

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = ["DuckDBPrimitives"]

_WHOLE = frozenset(["TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"])
_LARGE = frozenset(["UBIGINT", "HUGEINT", "UHUGEINT"])
_TOP = 2**62  # of an unsigned 128-bit number: above it all are clipped alike
_FLOATING = frozenset(["FLOAT", "DOUBLE", "DECIMAL"])
_BLANKS = "chr(32) || chr(9) || chr(10) || chr(13)"
_PARTS_OF_TEXT = {"prefix": "starts_with", "suffix": "ends_with", "part": "contains"}
_STEP = re.compile(r"\bsordino_[0-9]+_\b")


class DuckDBPrimitives:
    """Build the cells of one SELECT over one table.

    Each step that is used more than once is named in a sub-query (`sordino_0_`, ...), so that the text stays as long as the
    question and no cell is computed twice. Take a new one for each SELECT, and `source()` last.
    """

    def __init__(self, held: TableLayout) -> None:
        self._held = held
        self._stages: list[dict[str, str]] = []
        self._levels: dict[str, int] = {}
        self._conditions: list[tuple[int, str]] = []
        self._joins: list[tuple[int, str, str, str]] = []
        self._public: dict[str, str] = {}  # physical types of the joined columns, by name
        self._floor = 0
        self._copies = 1  # joined rows that one row may have become
        self._is_bounded = False
        self._unit_group = ""  # the cells that name a row's unit and group
        self._counts: str | None = None

    def source(self) -> exp.Expression:
        """Return the relation with all named steps; where a unit is declared, its rows without one dropped, the rest capped."""
        if self.has_units and not self._is_bounded:
            self.bound_contributions((), None, totals=False)
        return parse_relation(self._stage(self._held.source))

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
        groups = [self._let(k.sql(dialect="duckdb")) for k in keys]
        unit = self._let(self._unit())
        self._restrict(" AND ".join(f"{c} IS NOT NULL" for c in (unit, *groups)))  # rows dropped take no group
        cells = ", ".join(quote_name(n) for n in (*sorted(self._held.domain), *sorted(self._public)))
        rows = f"{self._let(order_hash(cells))}, {cells}"
        self._unit_group = ", ".join((unit, *groups))
        most = bounds.max_rows if totals and groups and bounds.max_groups is None else bounds.max_groups
        if most is not None:
            order = ", ".join((self._let(order_hash(self._unit_group)), *groups))
            self._restrict(f"true QUALIFY dense_rank() OVER (PARTITION BY {unit} ORDER BY {order}) <= {most}")
        if bounds.max_rows_per_group is not None:
            rank = f"row_number() OVER (PARTITION BY {self._unit_group} ORDER BY {rows}) <= {bounds.max_rows_per_group}"
            self._count_only(rank, mark=totals)
        if bounds.max_groups is None or bounds.max_rows != bounds.max_groups * (bounds.max_rows_per_group or 0):
            among = unit if self._counts is None else f"{unit}, {self._counts}"
            rank = f"row_number() OVER (PARTITION BY {among} ORDER BY {rows}) <= {bounds.max_rows}"
            self._count_only(rank, mark=totals)
        return [parse_own(g) for g in groups]

    def _count_only(self, rank: str, *, mark: bool) -> None:
        """Let only rows of this rank count: by a mark where all are still needed, else by leaving the others out."""
        if mark:
            self._counts = self._let(rank if self._counts is None else f"{self._counts} AND {rank}")
        else:
            self._restrict(f"true QUALIFY {rank}")

    def counts(self) -> exp.Expression | None:
        """Return whether a row counts under the bounds on rows; None where all rows that are left do."""
        return None if self._counts is None else parse_own(self._counts)

    def unit_total(self, value: exp.Expression) -> exp.Expression:
        """Return, in one row of each unit and group, the sum over all of them; NULL in the others."""
        assert self.has_units
        cell, within = self._let(value.sql(dialect="duckdb")), self._unit_group
        first = self._let(f"row_number() OVER (PARTITION BY {within}) = 1")  # of whichever row: the total is the same
        total = self._let(f"CAST(sum({cell}) OVER (PARTITION BY {within}) AS HUGEINT)")
        return self._column(f"CASE WHEN {first} THEN {total} END")

    def sample_select(self, coin: Callable[[str], str]) -> str:
        """Return the SQL text of the declared cells of the rows whose unit's coin falls; `coin` makes it of what names one."""
        cells = ", ".join(quote_name(n) for n in sorted(self._held.domain.stored))
        unit = self._held.unit
        if unit is None or unit.column is None:
            numbered = f"(SELECT {cells}, row_number() OVER () AS sordino_row FROM {self._held.source})"
            return f"SELECT {cells} FROM {numbered} WHERE {coin('CAST(sordino_row AS VARCHAR)')}"
        owner = self._let(self._text(unit.column))
        return f"SELECT {cells} FROM {self._stage(self._held.source)} WHERE {owner} IS NOT NULL AND {coin(owner)}"

    def label(self, code: exp.Expression, labels: Sequence[str | int | bool | None]) -> exp.Expression:
        """Return the label at a place, by a look-up in a constant list."""
        listed = ", ".join(literal_text(label) for label in labels)
        return parse_own(f"list_extract([{listed}], CAST({code.sql(dialect='duckdb')} AS BIGINT) + 1)")

    def unit_rows(self, values: Mapping[str, UnitCell]) -> DuckDBPrimitives:
        """Return the words for one row a unit, grouped by what the cap on rows tells units apart by."""
        assert self._held.unit is not None
        assert self._held.unit.column is not None
        column, owner = self._held.unit.column, self._let(self._unit())
        kind, _ = self._cell(column)
        named = kind if kind in _WHOLE | _LARGE else "VARCHAR"
        source = unit_rows_select(self._stage(self._held.source), (column, owner), values)
        physical = {column: named} | {n: FORMS[v.form] for n, v in values.items()}
        numbers, held = frozenset(n for n, v in values.items() if v.form == "number"), self._held
        layout = TableLayout(physical, held.domain, None, None, source, held.public, numbers, held.people, owner=column)
        return DuckDBPrimitives(layout)

    def units(self, of: exp.Expression | None, *, pairs: int | None = None) -> exp.Expression:
        """Return one row a unit, or a unit and value of `of`: how many rows it has before any cap, or how many values."""
        owner = self._let(self._unit())
        cell = None if of is None else self._let(of.sql(dialect="duckdb"))
        counted = "*" if cell is None or pairs is not None else f"DISTINCT {cell}"
        present, by = f"{owner} IS NOT NULL", owner
        if cell is not None and pairs is not None:
            first = (
                f"row_number() OVER (PARTITION BY {owner} ORDER BY {order_hash(f'{owner}, {cell}')}, {cell}) <= {pairs}"
            )
            present, by = f"{present} AND {cell} IS NOT NULL", f"{owner}, {cell} QUALIFY {first}"
        return parse_relation(
            f"(SELECT CAST(COUNT({counted}) AS BIGINT) AS sordino_has FROM {self._stage(self._held.source)} "
            f"WHERE {present} GROUP BY {by}) AS sordino_units"
        )

    def join(
        self, table: str, cells: Sequence[exp.Expression], keys: Sequence[exp.Expression], *, left: bool, copies: int
    ) -> None:
        """Join a public table, held in memory; what is named from now on may use its columns."""
        self._copies *= copies
        at = [self._let(cell.sql(dialect="duckdb")) for cell in cells]
        columns = self._held.public[table]
        told = "".join(f", sordino_r.{quote_name(c)} AS {quote_name(f'{table}.{c}')}" for c in columns)
        kind = "LEFT JOIN" if left else "INNER JOIN"
        same = " AND ".join(f"{a} = ({key.sql(dialect='duckdb')})" for a, key in zip(at, keys, strict=True))
        on = f"{kind} {quote_name(public_name(table))} AS sordino_r ON {same}"
        self._joins.append((len(self._stages), told, on, f"sordino_j{len(self._joins)}"))
        self._public.update({f"{table}.{column}": kind for column, kind in columns.items()})
        self._floor = len(self._stages)

    def unnest(self, column: str, most: int) -> None:
        """Put an item of the list in place of it, in a row of its own."""
        self._copies *= most
        self._joins.append((len(self._stages), unnest_cells(column, most), "", f"sordino_j{len(self._joins)}"))
        self._public[column] = self._held.items[column]
        self._floor = len(self._stages)

    def join_unit(self, table: str, *, left: bool) -> None:
        """Join another private table by the unit, its rows bounded before."""
        kept = DuckDBPrimitives(self._held.people[table])
        kept.bound_contributions((), None, totals=False)
        kinds = {column: kept._cell(column)[0] for column in kept._held.domain}
        cells = [f"{kept._cell(column)[1]} AS {quote_name(column)}" for column in kinds]
        cells.append(f"{kept._unit_text()} AS sordino_key_0")
        told = "".join(f", sordino_r.{quote_name(c)} AS {quote_name(f'{table}.{c}')}" for c in kinds)
        self._join_units(f"(SELECT {', '.join(cells)} FROM {kept._stage(kept._held.source)})", told, left=left)
        self._public.update({f"{table}.{column}": kind for column, kind in kinds.items()})
        assert kept._held.unit is not None
        self._copies *= kept._held.unit.total_rows

    def other_rows(self, table: str | None) -> DuckDBPrimitives:
        """Return the words for all rows of a table of the same people."""
        return DuckDBPrimitives(self._held if table is None else self._held.people[table])

    def mark_units(self, column: str, rows: Primitives, condition: exp.Expression | None) -> None:
        """Add whether the row's unit is one of those that have such rows."""
        assert isinstance(rows, DuckDBPrimitives)
        if condition is not None:
            rows.keep(condition)
        has = f"(SELECT DISTINCT {rows._unit_text()} AS sordino_key_0 FROM {rows._stage(rows._held.source)})"
        self._join_units(has, f", sordino_r.sordino_key_0 IS NOT NULL AS {quote_name(column)}", left=True)
        self._public[column] = "BOOLEAN"

    def _join_units(self, relation: str, told: str, *, left: bool) -> None:
        """Join a relation where its sordino_key_0 is the row's unit; what is named from now on may use what it adds."""
        same = f"AS sordino_r ON {self._unit_text()} = sordino_r.sordino_key_0"
        on = f"{'LEFT' if left else 'INNER'} JOIN {relation} {same}"
        self._joins.append((len(self._stages), told, on, f"sordino_j{len(self._joins)}"))
        self._floor = len(self._stages)

    def _unit_text(self) -> str:
        """Return the text that names the row's unit, in which units of different tables are compared."""
        column = self._held.owner if self._held.unit is None else self._held.unit.column
        return self._let(self._text(column or ""))

    def raw(self, column: str) -> exp.Expression:
        """Return the cell as it is held; of CSV trimmed, and missing where it says so."""
        return parse_own(self._cell(column)[1])

    def integer(self, column: str, lower: int, upper: int) -> exp.Expression:
        """Return a whole number, clipped; text other than up to 18 digits (and .0), fractions and NaN are missing."""
        kind, cell = self._cell(column)
        if kind in _WHOLE or kind == "BOOLEAN":
            return self._clip(cell if kind == "BIGINT" else f"CAST({cell} AS BIGINT)", lower, upper)
        if kind == "UHUGEINT":  # compared with its own kind only: DuckDB cannot bring it to any other
            small = f"CASE WHEN {cell} > CAST('{_TOP}' AS UHUGEINT) THEN {whole_text(_TOP)} ELSE TRY_CAST({cell} AS BIGINT) END"
            return self._clip(small, lower, upper)
        if kind in _LARGE:
            return self._column(f"CASE {case_bounds(cell, lower, upper)} ELSE TRY_CAST({cell} AS BIGINT) END")
        if kind in _FLOATING:
            real = cell if kind == "DOUBLE" else self._let(f"CAST({cell} AS DOUBLE)")
            return self._whole_of(real, f"isnan({real}) OR floor({real}) <> {real}", lower, upper)
        if kind in ("VARCHAR", "ENUM"):
            text = self._trim(column)
            return self._clip(
                f"CASE WHEN regexp_full_match({text}, '{WHOLE}') THEN TRY_CAST({text} AS BIGINT) END", lower, upper
            )
        return self._column("CAST(NULL AS BIGINT)")

    def lattice(self, column: str, step: Fraction, lower: int, upper: int) -> exp.Expression:
        """Return floor(cell / step + 1/2), clipped; NaN and what is no decimal number are missing. See `scale_of`."""
        if column in self._held.steps:
            return self.integer(column, lower, upper)
        kind, cell = self._cell(column)
        if kind in ("VARCHAR", "ENUM"):
            text = self._trim(column)
            real = self._let(f"CASE WHEN regexp_full_match({text}, '{DECIMAL}') THEN TRY_CAST({text} AS DOUBLE) END")
        elif kind in _WHOLE | _LARGE | _FLOATING | {"BOOLEAN"}:
            real = cell if kind == "DOUBLE" else self._let(f"CAST({cell} AS DOUBLE)")
        else:
            return self._column("CAST(NULL AS BIGINT)")
        op, factor = scale_of(step)
        scaled = self._let(f"floor({real} {op} CAST('{factor!r}' AS DOUBLE) + 0.5)")
        return self._whole_of(scaled, f"isnan({scaled})", lower, upper)

    def category_cell(self, column: str, *, whole: bool) -> exp.Expression:
        """Return a category's cell as text, or as a whole number."""
        if whole:
            return self.integer(column, -(2**62), 2**62)
        kind, cell = self._cell(column)
        return parse_own(cell if kind == "VARCHAR" else self._text(column))

    def code_of(self, cell: exp.Expression, values: Sequence[str] | Sequence[int], other: int | None) -> exp.Expression:
        """Return the place among the values of what `category_cell` returned; `other` for any other that is not missing."""
        at = cell.sql(dialect="duckdb")
        if values and isinstance(values[0], int):
            listed = ", ".join(f"CAST('{v}' AS BIGINT)" for v in values)
            found = f"NULLIF(list_position([{listed}], {at}), 0) - 1"
        else:
            listed = ", ".join(quote_text(str(v)) for v in values)
            if all(str(v) == str(v).strip(BLANKS) for v in values):  # then blanks around a cell mean nothing
                at = f"trim({at}, {_BLANKS})"
            found = f"enum_code(TRY_CAST({at} AS ENUM({listed})))"  # small whole numbers group fastest
        if other is None:
            return parse_own(found)
        return parse_own(f"CASE WHEN {at} IS NULL THEN NULL ELSE COALESCE({found}, {other}) END")

    def place_of(self, cell: exp.Expression, values: Sequence[str]) -> exp.Expression:
        """Return the place of a text among distinct values: by a join, since a cast to an ENUM is slow where it fails."""
        at = cell.sql(dialect="duckdb")
        if all(v == v.strip(BLANKS) for v in values):  # as in code_of
            at = f"trim({at}, {_BLANKS})"
        return parse_own(find_place(at, values))

    def truth(self, column: str) -> exp.Expression:
        """Return true or false: of text, t, true, y, yes, on, 1 and their opposites; of numbers, 1 and 0."""
        kind, cell = self._cell(column)
        if kind == "BOOLEAN":
            return parse_own(cell)
        if kind in ("VARCHAR", "ENUM"):
            word = self._let(f"lower({self._trim(column)})")
            return self._column(
                f"CASE WHEN {word} IN ({', '.join(map(quote_text, TRUE))}) THEN true "
                f"WHEN {word} IN ({', '.join(map(quote_text, FALSE))}) THEN false END"
            )
        if kind in _WHOLE | _LARGE | _FLOATING:
            number = self._let(f"CAST({cell} AS DOUBLE)")  # not every DECIMAL can be compared with 1
            return self._column(f"CASE WHEN {number} = 1 THEN true WHEN {number} = 0 THEN false END")
        return self._column("CAST(NULL AS BOOLEAN)")

    def days(self, column: str, lower: datetime.date, upper: datetime.date) -> exp.Expression:
        """Return days since 1970-01-01, clipped; a timestamp counts by the day that is written, text is read as 2000-01-31."""
        if column in self._held.steps:
            first = datetime.date(1970, 1, 1)
            return self.integer(column, (lower - first).days, (upper - first).days)
        return self._column(day_steps(*self._time_cell(column), self._let, lower, upper))

    def moments(self, column: str, zone: str, step: Fraction, lower: int, upper: int) -> exp.Expression:
        """Return whole steps since 1970 in UTC, clipped; text as of `days`, with a time that a clock can show."""
        if column in self._held.steps:
            return self.integer(column, lower, upper)
        return self._column(moment_steps(*self._time_cell(column), self._let, zone, step, lower, upper))

    def look_up(self, value: exp.Expression, starts: Sequence[int], results: Sequence[int]) -> exp.Expression:
        """Return the result of the last start that is not above the value, by halving."""
        cell = self._let(value.sql(dialect="duckdb"))
        found = bisect_steps(cell, starts, [whole_text(r) for r in results])
        return self._column(f"CASE WHEN {cell} IS NOT NULL THEN {found} END")

    def text(self, column: str) -> exp.Expression:
        """Return an identifier as text; a whole number held as a float reads as that number."""
        return parse_own(self._text(column))

    def like(self, cell: exp.Expression, kind: str, pattern: str) -> exp.Expression:
        """Return whether a text matches: by LIKE, or by a function of DuckDB's for parts of the text as they are."""
        at, quoted = cell.sql(dialect="duckdb"), quote_text(pattern)
        if kind in ("like", "ilike"):
            return parse_own(f"({at} {kind.upper()} {quoted})")
        return parse_own(f"{_PARTS_OF_TEXT[kind]}({at}, {quoted})")

    def chunk(self, count: int) -> exp.Expression:
        """Return the unit's chunk, from 0; where a row is the unit, equal rows share one."""
        unit = self._held.unit
        column = None if unit is None else unit.column
        cells = [quote_name(n) for n in sorted(self._held.domain)] if column is None else [self._text(column)]
        return self._column(f"CAST(hash({', '.join(cells)}, '{CHOICE} chunks') % {count} AS BIGINT)")

    def clip(self, value: exp.Expression, lower: int | None, upper: int | None) -> exp.Expression:
        """Return a whole number clipped; NULL stays NULL, as comparisons with it are not true."""
        return self._clip(value.sql(dialect="duckdb"), lower, upper)

    def wide(self, value: exp.Expression) -> exp.Expression:
        """Return a whole number as HUGEINT."""
        return parse_own(f"CAST({value.sql(dialect='duckdb')} AS HUGEINT)")

    def real_function(
        self, function: str, value: exp.Expression, unit: Fraction, step: Fraction, lower: int, upper: int
    ) -> exp.Expression:
        """Return a root, logarithm or power of e in steps, clipped; the argument is tested first, so that none can fail."""
        scaled = f"CAST({value.sql(dialect='duckdb')} AS DOUBLE) * CAST('{float(unit.numerator)!r}' AS DOUBLE)"
        real = self._let(f"{scaled} / CAST('{float(unit.denominator)!r}' AS DOUBLE)")
        defined = {"sqrt": f"{real} >= 0", "exp": f"{real} <= 700"}.get(function, f"{real} > 0")
        found = self._let(f"CASE WHEN {defined} THEN {function}({real}) END")
        op, factor = scale_of(step)
        steps = self._let(f"floor({found} {op} CAST('{factor!r}' AS DOUBLE) + 0.5)")
        return self._whole_of(steps, f"isnan({steps})", lower, upper)

    def bin(self, value: exp.Expression, edges: Sequence[int]) -> exp.Expression:
        """Return the bin's place: by division where all but the ends are as wide, by comparison otherwise.

        A cell held in 64 bits lies within 2^62, so 64 bits hold its distance from a start within 2^61; else it is wide.
        """
        cell = self._let(value.sql(dialect="duckdb"))
        first, last, count = edges[0], edges[-1], len(edges) - 1
        inside = f"{cell} >= {whole_text(first)} AND {cell} <= {whole_text(last)}"
        inner = edges[1:-1]
        width = inner[1] - inner[0] if len(inner) > 1 else 0
        even = 0 < width <= inner[0] + WIDEST and all(b - a == width for a, b in itertools.pairwise(inner))
        if even and inner[0] - first <= width and last - inner[-1] <= width:
            start, moved, step = inner[0] - width, cell, whole_text(width)
            if max(abs(start), abs(last)) >= 2**61:
                moved, step = f"CAST({cell} AS HUGEINT)", f"CAST({step} AS HUGEINT)"
            place = f"LEAST(({moved} - {whole_text(start)}) // {step}, {count - 1})"
            return self._column(f"CASE WHEN {inside} THEN CAST({place} AS BIGINT) END")
        return self._column(
            f"CASE WHEN {inside} THEN CAST({bisect_steps(cell, edges[1:-1], range(count))} AS BIGINT) END"
        )

    # ---- steps

    def _let(self, text: str) -> str:
        """Return the name of a step, computed once in the first sub-query where all that it uses has a name."""
        if _STEP.fullmatch(text) or (text.startswith('"') and text.endswith('"') and '"' not in text[1:-1]):
            return text  # a step, or a column as it is
        for stage in self._stages:
            if text in stage:
                return stage[text]
        level = max((self._levels.get(n, -1) + 1 for n in _STEP.findall(text)), default=0)
        level = max(level, self._floor)
        while len(self._stages) <= level:
            self._stages.append({})
        name = f"sordino_{len(self._levels)}_"
        self._stages[level][text] = name
        self._levels[name] = level
        return name

    def _column(self, text: str) -> exp.Expression:
        return parse_own(self._let(text))

    def _stage(self, relation: str) -> str:
        """Return the relation with each stage's steps, the conditions in their places between them."""
        for i in range(len(self._stages) + 1):
            for level, told, on, name in self._joins:
                if level == i:
                    left = f"(SELECT * FROM {relation}) AS sordino_l"
                    relation = f"(SELECT sordino_l.*{told} FROM {left} {on}) AS {name}"
            for level, condition in self._conditions:
                if level == i:
                    relation = f"(SELECT * FROM {relation} WHERE {condition}) AS sordino_w{i}"
            if i < len(self._stages) and self._stages[i]:
                steps = ", ".join(f"{text} AS {name}" for text, name in self._stages[i].items())
                relation = f"(SELECT *, {steps} FROM {relation}) AS sordino_s{i}"
        return relation

    def _clip(self, text: str, lower: int | None, upper: int | None) -> exp.Expression:
        cell = self._let(text)
        if lower is None or upper is None:
            return self._column(f"CASE {case_bounds(cell, lower, upper)} ELSE {cell} END")
        inside = f"WHEN {cell} BETWEEN {whole_text(lower)} AND {whole_text(upper)} THEN {cell}"  # first: it is the common case
        return self._column(f"CASE {inside} {case_bounds(cell, lower, upper)} END")

    def keep(self, condition: exp.Expression) -> None:
        """Keep only rows that meet `condition`; steps named from now on are computed for those alone."""
        self._restrict(condition.sql(dialect="duckdb"))

    def _restrict(self, condition: str) -> None:
        self._conditions.append((len(self._stages), condition))
        self._floor = len(self._stages)

    def _unit(self) -> str:
        """Return the cell that names a row's unit: of numbers as they are, which sort in less memory."""
        assert self._held.unit is not None
        assert self._held.unit.column is not None
        kind, cell = self._cell(self._held.unit.column)
        return cell if kind in _WHOLE | _LARGE else self._text(self._held.unit.column)

    def _whole_of(self, real: str, missing: str, lower: int, upper: int) -> exp.Expression:
        """Return a float that holds a whole number as one, clipped before the cast so that the cast cannot fail."""
        found = (
            f"CASE WHEN {real} IS NULL OR {missing} THEN NULL {case_bounds(real, lower, upper)} "
            f"ELSE TRY_CAST({real} AS BIGINT) END"
        )
        if max(abs(lower), abs(upper)) <= 2**53:
            return self._column(found)
        return self._clip(found, lower, upper)  # a float cannot distinguish such bounds from their neighbors

    def _text(self, column: str) -> str:
        kind, cell = self._cell(column)
        if kind in ("FLOAT", "DOUBLE"):
            whole = f"floor({cell}) = {cell} AND abs({cell}) < 9007199254740992"
            return self._let(
                f"CASE WHEN isnan({cell}) THEN NULL WHEN {whole} THEN CAST(TRY_CAST({cell} AS BIGINT) AS VARCHAR) "
                f"ELSE CAST({cell} AS VARCHAR) END"
            )
        return self._let(f"CAST({cell} AS VARCHAR)")

    def _trim(self, column: str) -> str:
        """Return a cell of text without the blanks around it; cells of CSV have none."""
        kind, cell = self._cell(column)
        if self._held.csv is not None and column not in self._public:
            return cell
        return self._let(f"trim({cell if kind == 'VARCHAR' else f'CAST({cell} AS VARCHAR)'}, {_BLANKS})")

    def _time_cell(self, column: str) -> tuple[str, str]:
        kind, cell = self._cell(column)
        return ("VARCHAR", self._trim(column)) if kind in ("VARCHAR", "ENUM") else (kind, cell)

    def _cell(self, column: str) -> tuple[str, str]:
        """Return a column's physical type and its raw cell, trimmed and with null tokens mapped in CSV."""
        cell = quote_name(column)
        if column in self._public:
            return self._public[column], cell
        if self._held.csv is None:
            return self._held.physical[column], cell
        trimmed = self._let(f"trim({cell}, {_BLANKS})")
        tokens = ", ".join(
            quote_text(t) for t in sorted({"", *(n.strip(" \t\r\n") for n in self._held.csv.null_values)})
        )
        return "VARCHAR", self._let(f"CASE WHEN {trimmed} NOT IN ({tokens}) THEN {trimmed} END")
