"""The primitives in PostgreSQL's words.

Its casts and its arithmetic fail where DuckDB's give NULL or infinity, so each is reached by a CASE for what it is total
on. A sub-query ends in OFFSET '0', so that its steps are computed once and not wherever they are used. Text has collation "C",
that of its bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from sordino.ask.engines.moment_cells import FIRST_MICROS, LAST_MICROS
from sordino.ask.engines.own_sql import float_text, literal_text, translate, whole_text
from sordino.ask.engines.postgres_dialect import SordinoPostgres
from sordino.ask.engines.quoting import quote_name, quote_text
from sordino.ask.engines.sql_cells import BLANK_TEXT
from sordino.ask.engines.sql_primitives import SqlPrimitives
from sordino.ask.engines.unit_rows import unit_value
from sordino.core.errors import QuestionRefused
from sordino.core.noise.lattice import scale_of
from sordino.core.primitives import UnitCell

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.dialects.dialect import DialectType

_NAN = "CAST('NaN' AS DOUBLE)"
_WHOLE = r"^[+-]?[0-9]{1,18}(\.0*)?$"  # WHOLE and DECIMAL of the grammar of cells: PostgreSQL counts up to 255 only
_DECIMAL = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?$"
_DIGITS = 400
_LONG = 10_000_000  # characters of a list that is looked up by digests
_MANY = 1_000_000  # values in one object: 100 MB of digests
_FAR = 2.0**100  # steps: beyond every bound
_FEW = 16  # values that are compared one by one faster than they are looked up


class PostgresPrimitives(SqlPrimitives):
    """Build the cells of one SELECT over one table of a PostgreSQL server."""

    dialect: ClassVar[DialectType] = SordinoPostgres
    fence: ClassVar[str] = (
        " OFFSET '0'"  # not 0, a cast to BIGINT, which keeps processes from summing rows of their own
    )

    def _tree(self, text: str) -> exp.Expression:
        return super()._tree(translate(text, self.dialect))

    def _relation(self, text: str) -> exp.Expression:
        select = "SELECT 1 FROM "
        return super()._tree(translate(select + text, self.dialect).removeprefix(select))

    def sample_source(self, coin: Callable[[str], str]) -> str:
        """Return the relation of the rows whose unit's coin falls; `coin` makes the condition of the SQL that names a unit."""
        cells = ", ".join(quote_name(n) for n in sorted(self._held.domain.stored))
        unit = self._held.unit
        if unit is None or unit.column is None:
            text = f"SELECT *, {_row_text(cells)} AS sordino_text FROM {self._held.source}"
            number = "row_number() OVER (PARTITION BY sordino_text) AS sordino_number"
            rows = f"(SELECT *, {number} FROM ({text}) AS sordino_texts) AS sordino_numbers"
            fallen = coin("sordino_text || CAST(sordino_number AS TEXT)")
        else:
            owner = self.let(self._text(unit.column))
            rows, fallen = self._stage(self._held.source), f"{owner} IS NOT NULL AND {coin(owner)}"
        return f"(SELECT {cells} FROM {rows} WHERE {fallen}) AS sordino_sample"

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
        known = {value: place for value, place in places.items() if "\0" not in value}
        if not known:
            return "CAST(NULL AS BIGINT)"
        if len(known) > _FEW:
            if sum(map(len, known)) > _LONG:
                known = {hashlib.sha256(value.encode()).hexdigest(): place for value, place in known.items()}
                text = self.let(f"encode(sha256(convert_to({text}, 'UTF8')), 'hex')")
            pairs = list(known.items())
            objects = (dict(pairs[i : i + _MANY]) for i in range(0, len(pairs), _MANY))
            found = [f"CAST({quote_text(json.dumps(o, ensure_ascii=False))} AS JSONB) ->> {text}" for o in objects]
            looked_up = found[0] if len(found) == 1 else f"COALESCE({', '.join(found)})"
            return f"CAST({looked_up} AS BIGINT)"
        cases = (f"WHEN {whole_text(int(v)) if whole else quote_text(v)} THEN {place}" for v, place in known.items())
        return f"CAST(CASE {cell} {' '.join(cases)} END AS BIGINT)"

    def is_text(self, cell: exp.Expression, texts: Sequence[str]) -> exp.Expression:
        """Return whether a text is one of several; none has a NUL."""
        known = [text for text in texts if "\0" not in text]
        return super().is_text(cell, known) if known else self._never(cell)

    def _never(self, cell: exp.Expression) -> exp.Expression:
        return self._tree(f"CASE WHEN {self._words(cell)} IS NOT NULL THEN false END")

    def like(self, cell: exp.Expression, kind: str, pattern: str) -> exp.Expression:
        """Return whether a text matches; no character of a pattern is an escape."""
        at, quoted = self._words(cell), quote_text(pattern)
        if "\0" in pattern:  # no text has it
            return self._never(cell)
        if kind == "ilike":
            folded = f'lower({at} COLLATE "und-x-icu") COLLATE "C"'
            return self._tree(f"({folded} LIKE {quote_text(pattern.lower())} ESCAPE '')")
        found = {
            "like": f"({at} LIKE {quoted} ESCAPE '')",
            "prefix": f"(left({at}, {len(pattern)}) = {quoted})",
            "suffix": f"(right({at}, {len(pattern)}) = {quoted})",
            "part": f"(strpos({at}, {quoted}) > 0)",
        }
        return self._tree(found[kind])

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
            truths = {"min": f"BOOL_AND({cell})", "max": f"BOOL_OR({cell})"}
            return unit_value(of, cell, truths if of.form == "truth" else {})
        by, order = self._words(of.by), "ASC" if of.kind == "first" else "DESC"
        present = f"FILTER (WHERE {by} IS NOT NULL AND {cell} IS NOT NULL)"
        return unit_value(
            of, cell, {of.kind: f"(ARRAY_AGG({cell} ORDER BY {by} {order}, {cell} {order}) {present})[1]"}
        )

    def _text(self, column: str) -> str:
        kind, cell = self._cell(column)
        if kind == "VARCHAR":
            return self.let(cell)
        written = f'CAST({cell} AS TEXT) COLLATE "C"'
        if kind == "DECIMAL":
            text = self.let(f"CASE WHEN {cell} <> CAST('NaN' AS NUMERIC) THEN {written} END")
            written = f"CASE WHEN strpos({text}, '.') > 0 THEN regexp_replace({text}, '[.]?0+$', '') ELSE {text} END"
        if kind in ("FLOAT", "DOUBLE"):
            cell = self.let(self._real(kind, cell))
            written = f'CAST({cell} AS TEXT) COLLATE "C"'
            whole = f"floor({cell}) = {cell} AND abs({cell}) < CAST('9007199254740992' AS DOUBLE)"
            end = f"WHEN {cell} = CAST('Infinity' AS DOUBLE) THEN 'inf' WHEN {cell} = CAST('-Infinity' AS DOUBLE) THEN '-inf'"
            written = (
                f"CASE WHEN {cell} = {_NAN} THEN NULL {end} "
                f'WHEN {whole} THEN CAST(CAST({cell} AS BIGINT) AS TEXT) COLLATE "C" ELSE {written} END'
            )
        return self.let(written)

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
        large, usual = "CAST('1e300' AS NUMERIC)", "CAST('1000000000000000000' AS NUMERIC)"
        return (  # few digits after the point: 0, or no smaller than a float may be
            f"CASE WHEN scale({cell}) <= 300 AND {cell} BETWEEN -{usual} AND {usual} THEN CAST({cell} AS DOUBLE) "
            f"WHEN {cell} = CAST('NaN' AS NUMERIC) THEN {_NAN} WHEN {cell} > {large} THEN CAST('1e300' AS DOUBLE) "
            f"WHEN {cell} < -{large} THEN CAST('-1e300' AS DOUBLE) "
            f"WHEN abs({cell}) < CAST('1e-300' AS NUMERIC) THEN CAST('0' AS DOUBLE) ELSE CAST({cell} AS DOUBLE) END"
        )

    def _is_nan(self, real: str) -> str:
        return f"{real} = {_NAN}"

    def lattice(self, column: str, step: Fraction, lower: int, upper: int) -> exp.Expression:
        """Return floor(cell / step + 1/2), clipped; the float of a decimal is taken within the bounds alone, as that is slow.

        A decimal with as many places as the step has is multiplied instead (`_held_places`).
        """
        kind, cell = self._cell(column)
        if kind != "DECIMAL" or column in self._held.steps:
            return super().lattice(column, step, lower, upper)
        held = self._held_places(column, step, lower, upper)
        if held is not None:
            low, high, nan = (
                f"CAST('{end}' AS NUMERIC)" for end in (*(_decimal(n, held[1]) for n in (lower, upper)), "NaN")
            )
            exact = f"CAST({cell} * CAST('{10 ** held[1]}' AS NUMERIC) AS BIGINT)"
            return self._column(
                f"CASE WHEN {cell} BETWEEN {low} AND {high} THEN {exact} WHEN {cell} < {low} THEN {whole_text(lower)} "
                f"WHEN {cell} <> {nan} THEN {whole_text(upper)} END"
            )
        large = f"scale({cell}) <= 300 OR abs({cell}) >= CAST('1e-300' AS NUMERIC)"  # no smaller than a float may be
        real = f"CASE WHEN {large} THEN CAST({cell} AS DOUBLE) ELSE {float_text(0.0)} END"
        near = self._near_steps(cell, "NUMERIC", real, step, lower, upper)
        return super().lattice(column, step, lower, upper) if near is None else near

    def _far_steps(self, real: str, step: Fraction, lower: int, upper: int) -> exp.Expression:
        """Return the steps where a bound lies where floats are too coarse to be compared with it; NaN was made NULL."""
        low, high = whole_text(lower), whole_text(upper)
        scaled = self.let(self._scale(real, *scale_of(step)))
        found = (
            f"CASE WHEN {scaled} BETWEEN {float_text(float(lower))} AND {float_text(float(upper))} THEN CAST({scaled} AS BIGINT) "
            f"WHEN {scaled} < {float_text(float(lower))} THEN {low} WHEN {scaled} > {float_text(float(upper))} THEN {high} END"
        )
        if max(abs(lower), abs(upper)) <= 2**53:
            return self._column(found)
        return self._clip(found, lower, upper)  # a float cannot distinguish such bounds from their neighbors

    def _scale(self, real: str, op: str, factor: float) -> str:
        """Return the steps; what would be too large or too small a float is clipped before, as floats fail there."""
        high, low = (n / factor if op == "*" else n * factor for n in (_FAR, 0.25))
        found = f"floor({real} {op} {float_text(factor)} + {float_text(0.5)})"
        if (factor < 1) == (op == "*"):  # else no number but 0 becomes 0
            found = f"CASE WHEN {real} BETWEEN {float_text(-low)} AND {float_text(low)} THEN {float_text(0.0)} ELSE {found} END"
        return (
            f"CASE WHEN {real} BETWEEN {float_text(-high)} AND {float_text(high)} THEN {found} "
            f"WHEN {real} < {float_text(-high)} THEN {float_text(-_FAR)} WHEN {real} <> {_NAN} THEN {float_text(_FAR)} END"
        )

    def _call(self, function: str, real: str) -> str:
        if function == "exp":
            return f"CASE WHEN {real} < -700 THEN {float_text(0.0)} ELSE exp({real}) END"
        if function == "log2":  # exact for powers of 2, as logarithms to base 2 are
            near = self.let(f"CASE WHEN {real} > 0 THEN ln({real}) / {float_text(0.6931471805599453)} END")
            return f"CASE WHEN power({float_text(2.0)}, round({near})) = {real} THEN round({near}) ELSE {near} END"
        return f"{'log' if function == 'log10' else function}({real})"

    def _read_whole(self, text: str) -> str:
        short = f"length({text}) <= {_DIGITS + 20} AND length(split_part({text}, '.', 2)) <= {_DIGITS}"
        return f"CASE WHEN {text} ~ '{_WHOLE}' AND {short} THEN CAST(split_part({text}, '.', 1) AS BIGINT) END"

    def _read_decimal(self, text: str) -> str:
        written = self.let(f"CASE WHEN length({text}) <= {2 * _DIGITS + 10} AND {text} ~ '{_DECIMAL}' THEN {text} END")
        digits = self.let(f"split_part(lower({written}), 'e', 1)")
        short = f"length(trim('+-' FROM split_part({digits}, '.', 1))) <= {_DIGITS}"
        short += f" AND length(split_part({digits}, '.', 2)) <= {_DIGITS}"
        return self._real("DECIMAL", self.let(f"CASE WHEN {short} THEN CAST({written} AS NUMERIC) END"))

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
        made = f"CASE WHEN {year} = 0 THEN CAST('0001-12-31 BC' AS DATE) ELSE make_date({year}, {month}, {day}) END"
        return f"CASE WHEN {sound} THEN {made} END"

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
    """Return a number of steps of 10^-places as it is written."""
    return f"{Context(prec=50).scaleb(Decimal(steps), -places):f}"


def coin_text(named: str, *, threshold: int) -> str:
    """Return the condition that a unit's coin falls, as of `sampled.coin_sql`, with the key as parameter 1."""
    digest = f"encode(sha256(convert_to(CAST($1 AS TEXT) || {named}, 'UTF8')), 'hex')"
    return f"substr({digest}, 1, 16) COLLATE \"C\" < '{threshold:016x}'"


def _row_text(cells: str) -> str:
    """Return all cells as one text, from which each can be told."""
    return f'CAST(ROW({cells}) AS TEXT) COLLATE "C"'
