"""The primitives in DuckDB's SQL."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from sordino.ask.engines.cells import DAY_NANOS, clock_bounds, duckdb_micros
from sordino.ask.engines.engine import BoundedRelation
from sordino.ask.engines.row_hash import unit_value
from sordino.ask.engines.sql_primitives import SqlPrimitives
from sordino.ask.engines.sql_text import CHOICE, literal_text, quote_name, quote_text, whole_text, write_tree
from sordino.core.cell_grammar import DECIMAL, WHOLE
from sordino.core.primitives import NARROW, Primitives, UnitCell

if TYPE_CHECKING:
    from sqlglot import exp

    from sordino.ask.engines.table_layout import TableLayout

# after a text: compared by its bytes, even if its column has another collation
BINARY = 'COLLATE "binary"'
# as many different whole numbers get a dictionary from writers of Parquet
_FEW = 2**16
# unsigned 128-bit numbers above it are clipped alike
_TOP = 2**62
# Values of which the type of an ENUM takes DuckDB longer to read than the groups that are cast to it: 50 ms for 10,000.
_MANY_VALUES = 500
# values of a list that a cell is compared with one by one
_FEW_COMPARED = 32
# the largest code that has a bit of its own
_MOST_BITS = 2**20
# bits for each value of a list, at most: its numbers may be sparse, and each bit is a character of the question's text
_MOST_BITS_A_VALUE = 256
# the most values of a column that have a bit each, whatever list they are compared with
_MOST_SURE_BITS = 4096
# the most numbers that a function is tabulated for: as many days are 22 years
_MOST_TABULATED = 8192
_PARTS_OF_TEXT = {"prefix": "starts_with", "suffix": "ends_with", "part": "contains"}


class DuckDBPrimitives(SqlPrimitives):
    """The primitives for one SELECT over one table in DuckDB."""

    whole_cast: ClassVar[str] = "TRY_CAST"

    def __init__(self, layout: TableLayout) -> None:
        super().__init__(layout)
        # The column with each text's place in a list that was joined.
        self._places: dict[tuple[str, str], str] = {}
        # By the step of a moment: its microseconds, those of step `lower`, and those of a step.
        self._moments: dict[str, tuple[str, int, int, int]] = {}
        # The columns of a CSV file whose cells are written as `Csv.formats` says.
        self._formatted = frozenset(layout.csv.formats(layout.domain.columns) if layout.csv is not None else ())

    def sample_select(self, coin: Callable[[str], str]) -> str:
        """Return the SELECT of the sampled rows' declared cells; `coin` makes the condition of the SQL that names a unit."""
        cells = ", ".join(quote_name(n) for n in sorted(self._layout.domain.stored))
        unit = self._layout.unit
        if unit is None or unit.column is None:
            numbered = f"(SELECT {cells}, row_number() OVER () AS sordino_row FROM {self._layout.source})"
            return f"SELECT {cells} FROM {numbered} WHERE {coin('CAST(sordino_row AS VARCHAR)')}"
        owner = self.let(self._text(unit.column))
        return f"SELECT {cells} FROM {self._stage(self._layout.source)} WHERE {owner} IS NOT NULL AND {coin(owner)}"

    def label(self, code: exp.Expression, labels: Sequence[str | int | bool | None]) -> exp.Expression:
        """Return the label at a place, by a look-up in a constant list."""
        listed = ", ".join(literal_text(label) for label in labels)
        return self._tree(f"list_extract([{listed}], CAST({self._words(code)} AS BIGINT) + 1)")

    def _whole_place(self, cell: str, values: Sequence[int]) -> str:
        listed = ", ".join(f"CAST('{v}' AS BIGINT)" for v in values)
        return f"NULLIF(list_position([{listed}], {cell}), 0) - 1"

    def _text_place(self, cell: str, values: Sequence[str]) -> str:
        if self._cells is not None and len(values) > _MANY_VALUES:
            return self._words(self._look_up_place(cell, _list_places(values)))
        # small numbers group fastest
        return f"enum_code(TRY_CAST({cell} AS {_write_enum(tuple(values))}))"

    def place_of(self, cell: exp.Expression, values: Sequence[str]) -> exp.Expression:
        """Return the place of a text among distinct values: by a join with the list of them."""
        return self._look_up_place(self._words(cell), _list_places(values))

    def _look_up_place(self, text: str, listed: str) -> exp.Expression:
        """Return sordino_place of the row of a relation whose sordino_value is a cell; NULL where there is none."""
        cell = self.let(text)
        place = self._places.get((cell, listed))
        if place is None:
            # With a sub-query in place of the join, DuckDB would expand the expression of the cell, each part as often as it is
            # used: 15 GB to plan 97 keys of two dates. And a cast to an ENUM is slow where it fails.
            place = f"sordino_p{len(self._places)}"
            same = f"sordino_l.{cell} = sordino_r.sordino_value"
            self._add_join(f", sordino_r.sordino_place AS {place}", f"LEFT JOIN {listed} AS sordino_r ON {same}")
            self._places[cell, listed] = place
        return self._tree(place)

    def is_text(self, cell: exp.Expression, texts: Sequence[str]) -> exp.Expression:
        """Return whether a text is one of several: of many by a join, since a list is compared one by one."""
        if len(texts) <= _FEW_COMPARED:
            return super().is_text(cell, texts)
        text = self.let(self._words(cell))
        place = self._words(self.place_of(self._tree(text), texts))
        return self._tree(f"(CASE WHEN {text} IS NOT NULL THEN {place} IS NOT NULL END)")

    def is_code(self, code: exp.Expression, codes: Sequence[int], *, below: int | None = None) -> exp.Expression:
        """Return whether a whole number is one of several: of many by a bit for each, since a list is compared one by one.

        Where all numbers have a bit, no CASE is needed: then DuckDB looks up each entry of a dictionary once.
        """
        if below is not None and below <= _MOST_SURE_BITS and min(codes) >= 0 and max(codes) < below:
            chosen = set(codes)
            sure = "".join("1" if i in chosen else "0" for i in range(below))
            return self._tree(f"(get_bit(CAST('{sure}' AS BIT), CAST({self._words(code)} AS INTEGER)) = 1)")
        most = min(_MOST_BITS, _MOST_BITS_A_VALUE * len(codes))
        if len(codes) <= _FEW_COMPARED or min(codes) < 0 or max(codes) > most:
            return super().is_code(code, codes)
        size = max(codes) + 1
        bits = bytearray(b"0" * (size + 1))
        for one in codes:
            bits[one] = ord("1")
        # Any other number has the last bit, which is 0.
        at = self.let(self._words(code))
        place = f"CASE WHEN {at} BETWEEN 0 AND {size} THEN {at} WHEN {at} IS NOT NULL THEN {size} END"
        return self._tree(f"(get_bit(CAST('{bits.decode()}' AS BIT), CAST({place} AS INTEGER)) = 1)")

    def tabulate(
        self,
        value: exp.Expression,
        ends: tuple[int, int],
        function: Callable[[Primitives, exp.Expression], exp.Expression],
    ) -> exp.Expression:
        """Return the function of the value: of few numbers it is computed once for each, and joined."""
        low, high = ends
        # groups are few already
        if high - low >= _MOST_TABULATED or self._cells is not None:
            return function(self, value)
        from sqlglot import exp

        numbers = f"(SELECT unnest(range(CAST('{low}' AS BIGINT), CAST('{high + 1}' AS BIGINT))) AS sordino_value) AS sordino_t"
        table = DuckDBPrimitives(replace(self._layout, unit=None))
        result = self._words(function(table, exp.Var(this="sordino_value")))
        listed = f"(SELECT sordino_value, {result} AS sordino_place FROM {table._stage(numbers)})"
        return self._look_up_place(self._words(value), listed)

    def _words(self, tree: exp.Expression) -> str:
        return write_tree(tree)

    def like(self, cell: exp.Expression, kind: str, pattern: str) -> exp.Expression:
        """Return whether a text matches: by LIKE, or by DuckDB's function for a literal part of the text."""
        at = self._words(cell)
        quoted = quote_text(pattern)
        if kind in ("like", "ilike"):
            return self._tree(f"({at} {kind.upper()} {quoted})")
        return self._tree(f"{_PARTS_OF_TEXT[kind]}({at}, {quoted})")

    def _text(self, column: str) -> str:
        kind, cell = self._cell(column)
        if kind in ("FLOAT", "DOUBLE"):
            # A float reads as the double that it equals: a container may store it as either, by its other rows.
            cell = self.let(self._real(kind, cell))
            whole = f"floor({cell}) = {cell} AND abs({cell}) < 9007199254740992"
            return self.let(
                f"CASE WHEN isnan({cell}) THEN NULL WHEN {whole} THEN CAST(TRY_CAST({cell} AS BIGINT) AS VARCHAR) "
                f"ELSE CAST({cell} AS VARCHAR) END"
            )
        if kind == "DECIMAL":
            # A decimal type without digits before the point is written without the 0.
            text = self.let(rf"regexp_replace(CAST({cell} AS VARCHAR), '^(-?)\.', '\10.')")
            return self.let(self._trim_zeros(text))
        return self.let(f"CAST({cell} AS VARCHAR)")

    def _whole_cell(self, column: str, kind: str, cell: str, lower: int, upper: int) -> exp.Expression:
        """Return a whole number, clipped; an unsigned one of 128 bits is compared with its own type only."""
        if kind != "UHUGEINT":
            return super()._whole_cell(column, kind, cell, lower, upper)
        # DuckDB compares the type with no other
        above = f"{cell} > CAST('{_TOP}' AS UHUGEINT)"
        return self._clip(f"CASE WHEN {above} THEN {whole_text(_TOP)} ELSE {self._narrow(cell)} END", lower, upper)

    def lattice(self, column: str, step: Fraction, lower: int, upper: int) -> exp.Expression:
        """Return the steps, clipped; of a decimal with the step's own places by a product of decimals."""
        exact_digits = self._exact_digits(column, step, lower, upper)
        digits, places = exact_digits or (0, 0)
        most = 10**digits - 1
        one = 10**places
        size = max(abs(lower), abs(upper))
        # beyond 18 digits the product would leave 64 bits
        if exact_digits is None or lower > most or upper < -most or size * one >= 10**18:
            return super().lattice(column, step, lower, upper)
        low, high = (_decimal(min(max(n, -most), most), digits, places) for n in (lower, upper))
        _, cell = self._cell(column)
        beyond = f"WHEN {cell} < {low} THEN {low} WHEN {cell} > {high} THEN {high}"
        inside = self.let(f"CASE WHEN {cell} BETWEEN {low} AND {high} THEN {cell} {beyond} END")
        return self._column(f"CAST({inside} * CAST('{one}' AS DECIMAL({places + 1}, 0)) AS BIGINT)")

    def moments(self, column: str, zone: str, step: Fraction, lower: int, upper: int) -> exp.Expression:
        """Return whole steps since 1970, clipped; a moment within the bounds, of a clock that stays, by one comparison."""
        kind, cell = self._cell(column)
        ends = clock_bounds(kind, zone, step, lower, upper)
        if ends is None or column in self._layout.steps:
            return super().moments(column, zone, step, lower, upper)
        first, last = ends
        # seconds and milliseconds become microseconds, missing where they are out of their range
        moment = self.let(f"TRY_CAST({cell} AS {kind})")
        low, high = (f"make_timestamp({end})" for end in ends)
        if kind == "TIMESTAMPTZ":
            low, high = (f"CAST({end} AS TIMESTAMPTZ)" for end in (low, high))
        day = f"TRY_CAST({cell} AS DATE)"
        size = int(step * 1_000_000)
        # The difference is not negative, so the whole quotient rounds down.
        micros = self.let(
            f"CASE WHEN {moment} BETWEEN {low} AND {high} THEN epoch_us({moment}) WHEN {moment} < {low} THEN {whole_text(first)} "
            f"WHEN {moment} > {high} THEN {whole_text(last)} WHEN {day} > CAST('1970-01-01' AS DATE) THEN {whole_text(last)} "
            f"WHEN {day} IS NOT NULL THEN {whole_text(first)} END"
        )
        steps = self.let(f"({micros} - {whole_text(first)}) // {whole_text(size)} + {whole_text(lower)}")
        self._moments[steps] = (micros, first, size, lower)
        return self._tree(steps)

    def quotient(self, value: exp.Expression, moved: int, size: int) -> exp.Expression:
        """Return the quotient; of a moment's steps, which are one themselves, by one division of its microseconds."""
        micros, first, step, lower = self._moments.get(self._words(value), ("", 0, 1, 0))
        away = (lower + moved) * step - first
        if not micros or size == 1 or max(abs(away), step * size) >= NARROW:
            return super().quotient(value, moved, size)
        return self._tree(f"(({micros} + {whole_text(away)}) // {whole_text(step * size)})")

    def _find_few(self, value: exp.Expression) -> tuple[str, int, int] | None:
        """Return the cell and bounds of a clipped step, where so few cells lie within them that they may have a dictionary."""
        clip = self._clips.get(value.name) if value.key == "var" and self._layout.has_dictionaries else None
        return clip if clip is not None and 0 <= clip[2] - clip[1] < _FEW else None

    def present(self, value: exp.Expression) -> exp.Expression:
        """Return the cell before it is clipped."""
        clip = self._find_few(value)
        return value if clip is None else self._tree(clip[0])

    def total(self, value: exp.Expression, largest: Fraction | None) -> exp.Expression:
        """Return the sum; of clipped cells by functions, which DuckDB computes once for each entry of a dictionary.

        They read a missing cell as the lower bound, which is subtracted again for each. NULL for no cell, like any sum.
        """
        clip = self._find_few(value)
        if clip is None:
            return super().total(value, largest)
        cell, lower, upper = clip
        inside = f"LEAST(GREATEST({cell}, {whole_text(lower)}), {whole_text(upper)})"
        total = f"SUM({inside}) - CAST('{lower}' AS HUGEINT) * (COUNT(*) - COUNT({cell}))"
        return self._tree(f"CASE WHEN COUNT({cell}) > 0 THEN {total} END")

    def _cell(self, column: str) -> tuple[str, str]:
        """Return a column's physical type and its raw cell, trimmed and with null tokens mapped in CSV."""
        if self._layout.csv is None or column in self._joined:
            return super()._cell(column)
        self._read.add(column)
        trimmed = self.let(self._strip(quote_name(column)))
        # cells with a format of their own were read already, those that mean missing among them
        missing = [""] if column in self._formatted else self._layout.csv.missing_cells(column)
        tokens = ", ".join(map(quote_text, missing))
        return "VARCHAR", self.let(f"CASE WHEN {trimmed} NOT IN ({tokens}) THEN {trimmed} END")

    def _trim(self, column: str) -> str:
        """Return a cell of text without the blanks around it; cells of CSV have none."""
        if self._layout.csv is not None and column not in self._joined:
            return self._cell(column)[1]
        return super()._trim(column)

    def source(self) -> exp.Expression:
        """Return the relation, and as its meta data the part of it that bounds contributions."""
        relation = super().source()
        if self._bounded is not None and self._bounded_at and relation.key == "var":
            text, stage = self._bounded
            steps = {name for name, level in self._levels.items() if level < stage}
            columns = {quote_name(column) for column in self._layout.physical}
            joined = {name for _, name in self._joined.values()}
            relation.meta["bounded"] = BoundedRelation(self._order_rows(text), frozenset(steps | columns | joined))
        return relation

    def _limit_rank(self, rank: str, most: int) -> None:
        self._restrict(f"true QUALIFY {rank} <= {most}")

    def _repeat(self, count: str) -> str:
        return f"unnest(range({count}))"

    def _items(self, column: str, kind: str, most: int, name: str) -> tuple[str, str]:
        # Items keep the collation of the column that a list was made of, and no cast of the list removes it.
        binary = f" {BINARY}" if kind == "VARCHAR" else ""
        return f", unnest(list_slice({column}, 1, {most})){binary} AS {name}", ""

    def exclusive_or(self, left: str, right: str) -> str:
        """Return the bits of two BIGINT that differ."""
        return f"xor({left}, {right})"

    def _hash_rows(self, purpose: str) -> str:
        """Return the hash of all cells; of CSV, which no server stores and which is slow to parse, DuckDB's own of the text."""
        if self._layout.csv is None:
            return super()._hash_rows(purpose)
        cells = [*map(quote_name, sorted(self._layout.domain)), *(self._joined[n][1] for n in sorted(self._joined))]
        return f"CAST(hash({', '.join(cells)}, '{CHOICE} {purpose}') >> 2 AS BIGINT)"

    def _text_number(self, text: str) -> str:
        return f"CAST('0x' || substr(md5({text}), 1, 15) AS BIGINT)"

    def _unit_value(self, of: UnitCell) -> str:
        cell = "*" if of.value is None else self._words(of.value)
        if of.by is None:
            wide = f"CAST({cell} AS HUGEINT)"
            middle = f"quantile_disc({wide}, 0.5) - quantile_disc(- {wide}, 0.5)"
            return unit_value(of, cell, {"median": middle})
        by = self._words(of.by)
        pick = "MIN" if of.kind == "first" else "MAX"
        pair = f"struct_pack(a := CAST({by} AS HUGEINT), b := {cell})"
        first = f"struct_extract({pick}(CASE WHEN {by} IS NOT NULL AND {cell} IS NOT NULL THEN {pair} END), 'b')"
        return unit_value(of, cell, {of.kind: first})

    def _scale(self, real: str, op: str, factor: float) -> str:
        return f"floor({real} {op} CAST('{factor!r}' AS DOUBLE) + 0.5)"

    def _call(self, function: str, real: str) -> str:
        return f"{function}({real})"

    def _read_whole(self, text: str) -> str:
        return f"CASE WHEN regexp_full_match({text}, '{WHOLE}') THEN TRY_CAST({text} AS BIGINT) END"

    def _read_decimal(self, text: str) -> str:
        return f"CASE WHEN regexp_full_match({text}, '{DECIMAL}') THEN TRY_CAST({text} AS DOUBLE) END"

    def matches(self, text: str, pattern: str) -> str:
        """Return whether all of a text matches a regular expression."""
        return f"regexp_full_match({text}, '{pattern}')"

    def read_day(self, kind: str, cell: str) -> str:
        """Return the day of a timestamp, that of UTC where it knows its offset."""
        if kind == "DATE":
            return cell
        day = f"TRY_CAST({cell} AS DATE)"
        if not kind.endswith("_NS"):
            return day
        # DuckDB's own cast rounds nanoseconds towards 1970; a moment without nanoseconds is infinite.
        nanos = self.let(f"epoch_ns({cell})")
        days = f"({nanos} // {DAY_NANOS}) - CASE WHEN {nanos} % {DAY_NANOS} < 0 THEN 1 ELSE 0 END"
        return f"COALESCE(CAST('1970-01-01' AS DATE) + CAST({days} AS INTEGER), {day})"

    def read_micros(self, kind: str, cell: str) -> str:
        """Return the microseconds of a timestamp."""
        return duckdb_micros(kind, cell, self.let)


def _decimal(steps: int, digits: int, places: int) -> str:
    """Return a number of steps of 10^-places as a literal of DECIMAL(digits, places)."""
    number = Decimal(steps).scaleb(-places, Context(prec=digits + 1))
    return f"CAST('{number:f}' AS DECIMAL({digits}, {places}))"


@lru_cache(maxsize=32)
def _write_enum(values: tuple[str, ...]) -> str:
    """Return the type whose codes are the places of texts, written once for the values of a column."""
    return f"ENUM({', '.join(map(quote_text, values))})"


def _list_places(values: Sequence[str]) -> str:
    """Return the SQL of a relation of distinct texts and their places, as a list that is written once."""
    whole = "\ue000".join(values)
    # No mark can begin within another one.
    marks = (f"\ue000{i}\ue001" for i in itertools.count())
    mark = next(m for m in marks if m not in whole)
    texts = f"unnest(string_split({quote_text(mark.join(values))}, {quote_text(mark)})) AS sordino_value"
    return f"(SELECT {texts}, unnest(range({len(values)})) AS sordino_place)"
