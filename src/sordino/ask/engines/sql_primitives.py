"""The rows of one SELECT of any engine that speaks SQL: units and their caps, joins, items of lists. It reads no cell itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Self

from sordino.ask.engines.moment_cells import MOMENTS
from sordino.ask.engines.own_sql import public_name, whole_text
from sordino.ask.engines.quoting import quote_name
from sordino.ask.engines.row_hash import CellNumber, hash_cells
from sordino.ask.engines.sql_cells import FLOATING, LARGE, WHOLE_KINDS, SqlCells
from sordino.ask.engines.table_layout import TableLayout
from sordino.ask.engines.unit_rows import FORMS, unit_rows_select
from sordino.core.domain import STORED, Boolean, Category, Date, DateTime, Integer, Real
from sordino.core.neighbors import ContributionBounds, Neighbors
from sordino.core.primitives import Primitives, UnitCell

if TYPE_CHECKING:
    from sqlglot import exp

    from sordino.core.domain import Column

_READ = (
    "'sordino_read'"  # stands for the cells that are read until all words are said; no text in quotes holds single ones
)
_NUMBERS = WHOLE_KINDS | LARGE | FLOATING
_DIGITS = "0|-?[1-9][0-9]{0,17}"  # a number as each engine writes it


class SqlPrimitives(SqlCells):
    """Build the cells of one SELECT over one table. Take a new one for each SELECT, and `source()` last."""

    def __init__(self, held: TableLayout) -> None:
        super().__init__(held)
        self._declared: dict[str, Column] = dict(held.domain.columns)  # and of joined tables of the same people
        self._copies = 1  # joined rows that one row may have become
        self._is_bounded = False
        self._unit_group = ""  # the cells that name a row's unit and group
        self._counts: str | None = None
        self._row_order = ""  # ORDER BY the hash of a unit's rows
        self._unhashed = 0  # how many stages there are before the hash
        self._read_before: set[str] = set()  # columns read before the bounds
        self._row_cap: int | None = None  # of each unit and group, where the last condition is no more than this
        self._last_rank = ("", 0, 0, 0)  # and the numbers of stages, conditions and joins by then

    def source(self) -> exp.Expression:
        """Return the relation with all named steps; where a unit is declared, its rows without one dropped, the rest capped."""
        if self.has_units and not self._is_bounded:
            self.bound_contributions((), None, totals=False)
            self._row_cap = None  # what was read by now is looked at
        return self._relation(self._stage(self._held.source))

    @property
    def has_units(self) -> bool:
        """Whether a column names each row's unit."""
        return self._held.unit is not None and self._held.unit.column is not None

    def bound_contributions(
        self, keys: Sequence[exp.Expression], asked: ContributionBounds | None, *, totals: bool
    ) -> list[exp.Expression]:
        """Keep, of each unit, the rows of its first groups, of each group the first rows, and of these the first.

        Rows are in a total order of what the question reads of a row: by the hash of the unit and all declared cells, and by
        the cells read where hashes are equal, which whoever writes cells can bring about. Groups are ordered by the hash of
        the unit and their keys, and by the keys.

        Theorem: rows that this order does not tell apart are alike in all cells that the question reads, so what it reads
        of a unit is a function of that unit's rows alone, whatever their order, the other rows and the engine's threads.
        Where no cell is read past the bounds, as in a count, any rows do. Scans of one answer read the same columns.
        The hash serves fairness among a unit's rows, and the same choice on every engine: no claim about privacy rests on it.
        """
        if not self.has_units:
            return list(keys)
        self._is_bounded = True
        bounds = Neighbors("add_remove", self._held.unit, self._copies).enforce(asked, by_group=bool(keys)).bounds
        assert bounds is not None
        groups = [self._name_key(k) for k in keys]
        unit = self.let(self._unit())
        self._restrict(" AND ".join(f"{c} IS NOT NULL" for c in (unit, *groups)))  # rows dropped take no group
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
        self._read_before, self._read = self._read, set()
        return [self._tree(g) for g in groups]

    def _stage(self, relation: str) -> str:
        """Return the relation with all steps; where only units and groups are looked at from the last rank on, it counts rows.

        Then the rows of a unit and group are alike, and need no order: as many are made as its rows are, at most the cap.
        """
        rank, *then = self._last_rank
        if self._row_cap is None or self._read or then != [len(self._stages), len(self._conditions), len(self._joins)]:
            made = super()._stage(relation)
            return self._order_rows(made) if self._row_order else made
        stages, conditions = self._stages, self._conditions
        self._conditions = conditions[:-1]
        if max((level for level, _ in self._conditions), default=0) <= self._unhashed:  # no group is ranked by a hash
            self._stages = stages[: self._unhashed]
        else:
            self._stages = [{text: name for text, name in stage.items() if text != rank} for stage in stages]
        made = f"{self._repeat(f'LEAST(COUNT(*), {self._row_cap})')} AS sordino_copy"
        rows = self._order_rows(super()._stage(relation))
        self._stages, self._conditions = stages, conditions
        return f"(SELECT {self._unit_group}, {made} FROM {rows} GROUP BY {self._unit_group}) AS sordino_b"

    def _order_rows(self, relation: str) -> str:
        """Return the relation with a unit's rows in an order of what was read by now."""
        unit = self._held.unit.column if self._held.unit is not None else None
        cells = [
            self._joined[n][1] if n in self._joined else quote_name(n)
            for n in sorted((self._read | self._read_before) - {unit})
        ]
        ties = "".join(f", {cell} NULLS LAST" for cell in cells)
        return relation.replace(f"{self._row_order}{_READ}", f"{self._row_order}{ties}" if cells else "")

    def _count_only(self, rank: str, most: int, *, mark: bool) -> None:
        """Let only rows up to this rank count: by a mark where all are still needed, else by leaving the others out."""
        if mark:
            first = f"{rank} <= {most}"
            self._counts = self.let(first if self._counts is None else f"{self._counts} AND {first}")
        else:
            self._restrict_rank(rank, most)

    def _restrict_rank(self, rank: str, most: int) -> None:
        """Leave out the rows above a rank, which nothing else reads."""
        self._limit_rank(rank, most)
        self._last_rank = rank, len(self._stages), len(self._conditions), len(self._joins)

    def _limit_rank(self, rank: str, most: int) -> None:
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
        cell = None if of is None else self._name_key(of)
        counted = "*" if cell is None or pairs is not None else f"DISTINCT {cell}"
        present, by = f"{owner} IS NOT NULL", owner
        if cell is not None and pairs is not None:
            present, by = f"{present} AND {cell} IS NOT NULL", f"{owner}, {cell}"
        counts = f"CAST(COUNT({counted}) AS BIGINT) AS sordino_has"
        if cell is not None and pairs is not None:
            order = self.let(self._hash_group([cell]))
            counts += f", row_number() OVER (PARTITION BY {owner} ORDER BY {order}, {cell}) AS sordino_n"
            by += f", {order}"
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
        self._declared[column] = self._held.domain.lists[column].of

    def join_unit(self, table: str, *, left: bool) -> None:
        """Join another private table by the unit, its rows bounded before."""
        kept = type(self)(self._held.people[table])
        kept.bound_contributions((), None, totals=False)
        kinds = {column: kept._cell(column)[0] for column in kept._held.domain}
        cells = [f"{kept._cell(column)[1]} AS {quote_name(column)}" for column in kinds]
        cells.append(f"{kept._unit_text()} AS sordino_key_0")
        rows = f"(SELECT {', '.join(cells)} FROM {kept._stage(kept._held.source)})"
        self._join_units(rows, self._add_columns(table, kinds), left=left)
        self._declared |= {f"{table}.{column}": kept._held.domain[column] for column in kinds}
        assert kept._held.unit is not None
        self._copies *= kept._held.unit.total_rows

    def is_decimal(self, column: str) -> bool:
        """Return whether a column's numbers are whole or held as decimals; a value of a unit is taken for a double.

        Whether a declared column is whole its declaration decides: one missing cell makes floats of whole numbers in pandas,
        and another file does among several.
        """
        declared = self._declared.get(column)
        kind = self._joined[column][0] if column in self._joined else self._held.physical[column]
        is_whole = isinstance(declared, Integer) or (declared is None and kind in WHOLE_KINDS | LARGE)
        return kind == "DECIMAL" or (is_whole and column not in self._held.steps)

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
        self._declared[column] = Boolean()

    def _join_units(self, relation: str, named: str, *, left: bool) -> None:
        """Join a relation where its sordino_key_0 is the row's unit; what is named from now on may use what it adds."""
        same = f"AS sordino_r ON sordino_l.{self._unit_text()} = sordino_r.sordino_key_0"
        self._add_join(named, f"{'LEFT' if left else 'INNER'} JOIN {relation} {same}")

    def _unit_text(self) -> str:
        """Return the text that names the row's unit, in which units of different tables are compared."""
        column = self._held.owner if self._held.unit is None else self._held.unit.column
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
        """Return the cell that names a row's unit: of numbers as they are, which sort in less memory."""
        assert self._held.unit is not None
        assert self._held.unit.column is not None
        kind, cell = self._cell(self._held.unit.column)
        return cell if kind in WHOLE_KINDS | LARGE else self._text(self._held.unit.column)

    def _hash_rows(self, purpose: str) -> str:
        """Return the hash of the unit and of all cells that a question can read."""
        column, read = None if self._held.unit is None else self._held.unit.column, set(self._read)
        names = sorted({*self._held.domain, *self._joined} - {column})
        cells = [self._number_cell(n) for n in names]
        self._read = read  # the question itself does not read them
        return hash_cells(cells if column is None else [self._number_unit(), *cells], self, purpose=purpose)

    def _hash_group(self, groups: Sequence[str]) -> str:
        """Return the hash of a unit and the keys of one of its groups."""
        numbers = (self.let(self._text_number(key)) if key in self._texts else key for key in groups)
        keys = [CellNumber(f"key {i}", number) for i, number in enumerate(numbers)]
        return hash_cells([self._number_unit(), *keys], self, purpose="groups")

    def _number_unit(self) -> CellNumber:
        assert self._held.unit is not None
        assert self._held.unit.column is not None
        return CellNumber("unit", self._number_name(self._held.unit.column))

    def _number_cell(self, column: str) -> CellNumber:
        """Return a cell by its value as it is declared: its code, its steps or its name, however it is held."""
        from sordino.ask.queries.expressions.bound_number import number_cell
        from sordino.ask.queries.expressions.column_codes import category_code, truth_code

        declared, kind = self._declared.get(column), self._cell(column)[0]
        if isinstance(declared, Category):
            return self._number(column, category_code(column, declared)(self), narrow=True)
        if isinstance(declared, Boolean):
            return self._number(column, truth_code(column, declared)(self), narrow=True)
        if (isinstance(declared, Real) and declared.step is None) or (declared is None and kind in _NUMBERS):
            return self._number(column, self.lattice(column, Fraction(1, 1000), -STORED, STORED))
        if isinstance(declared, (Integer, Real, Date, DateTime)):
            found = number_cell(column, declared)
            assert found.stored.largest is not None
            return self._number(column, found.build(self), narrow=found.stored.largest < 2**30)
        return CellNumber(column, self._number_name(column))

    def _number(self, column: str, cell: exp.Expression, *, narrow: bool = False) -> CellNumber:
        return CellNumber(column, self.let(self._words(cell)), narrow)

    def _number_name(self, column: str) -> str:
        """Return the number of a cell that is a name: what a text of up to 18 digits writes, of any other text its hash."""
        kind, cell = self._cell(column)
        if kind in MOMENTS:
            return self.let(self.read_micros(kind, cell))
        if kind == "BIGINT":
            few, written = f"{cell} BETWEEN {1 - 10**18} AND {10**18 - 1}", f"CAST({cell} AS VARCHAR)"
            return self.let(f"CASE WHEN {few} THEN {cell} ELSE {self._text_number(written)} END")
        if kind in WHOLE_KINDS:
            return cell
        text = self._text(column)
        digits = f"{text} < ':' AND {self.matches(text, _DIGITS)}"  # most texts begin with a letter
        return self.let(f"CASE WHEN {digits} THEN {self.parse_digits(text)} ELSE {self._text_number(text)} END")
