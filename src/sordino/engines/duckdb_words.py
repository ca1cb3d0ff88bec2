"""The primitives in DuckDB's words: every one is total, so that no stored value can make a query fail or NULL others."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from sordino.domain import Domain
from sordino.neighbors import PrivacyUnit
from sordino.source import Csv

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = ["DuckDBWords"]

_WHOLE = frozenset(["TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"])
_LARGE = frozenset(["UBIGINT", "HUGEINT", "UHUGEINT"])
_FLOATING = frozenset(["FLOAT", "DOUBLE", "DECIMAL"])
_DIGITS = "[+-]?[0-9]{1,18}"
_DECIMAL = r"[+-]?([0-9]{1,400}\.?[0-9]{0,400}|\.[0-9]{1,400})([eE][+-]?[0-9]{1,4})?"
_CHOICE = "sordino"  # public: keys the choice of a unit's rows


class DuckDBWords:
    """Build cells of one table, whose columns are held in the `physical` types."""

    def __init__(
        self, *, physical: Mapping[str, str], domain: Domain, unit: PrivacyUnit | None, csv: Csv | None
    ) -> None:
        self._physical = physical
        self._domain = domain
        self._unit = unit
        self._csv = csv

    def source(self) -> exp.Expression:
        """Return the relation; where a unit is declared, its rows without one dropped and the rest capped.

        The rows kept of a unit are those with the least keyed hash of their declared cells: a choice that depends on the
        unit's own rows only, not on their order nor on anyone else's.
        """
        if self._unit is None:
            return _table('"source"')
        unit = self.text(self._unit.column).sql(dialect="duckdb")
        cells = ", ".join(_name(n) for n in sorted(self._domain))
        return _table(
            f'(SELECT {cells} FROM (SELECT {cells}, {unit} AS "sordino unit", '
            f'hash({cells}, \'{_CHOICE}\') AS "sordino order" FROM "source") AS h '
            'WHERE "sordino unit" IS NOT NULL '
            'QUALIFY row_number() OVER (PARTITION BY "sordino unit" ORDER BY "sordino order") '
            f"<= {self._unit.max_rows}) AS capped"
        )

    def integer(self, column: str, lower: int, upper: int) -> exp.Expression:
        """Return a whole number, clipped; text other than up to 18 digits, fractions and NaN are missing."""
        kind, cell = self._cell(column)
        if kind in _WHOLE:
            return self.clip(_parse(f"CAST({cell} AS BIGINT)"), lower, upper)
        if kind in _LARGE:
            return _parse(_bounded(cell, lower, upper, f"TRY_CAST({cell} AS BIGINT)"))
        if kind == "BOOLEAN":
            return self.clip(_parse(f"CAST({cell} AS BIGINT)"), lower, upper)
        if kind in _FLOATING:
            real = f"CAST({cell} AS DOUBLE)"
            return _parse(
                f"CASE WHEN {real} IS NULL OR isnan({real}) OR floor({real}) <> {real} THEN NULL "
                + _bounds(real, lower, upper)
                + f" ELSE {_bounded_again(f'TRY_CAST({real} AS BIGINT)', lower, upper)} END"
            )
        if kind in ("VARCHAR", "ENUM"):
            text = f"CAST({cell} AS VARCHAR)"
            read = f"CASE WHEN regexp_full_match({text}, '{_DIGITS}') THEN TRY_CAST({text} AS BIGINT) END"
            return self.clip(_parse(f"({read})"), lower, upper)
        return _parse("CAST(NULL AS BIGINT)")

    def lattice(self, column: str, step: Fraction, lower: int, upper: int) -> exp.Expression:
        """Return floor(cell / step + 1/2), clipped; NaN and what is no decimal number are missing."""
        kind, cell = self._cell(column)
        if kind in ("VARCHAR", "ENUM"):
            text = f"CAST({cell} AS VARCHAR)"
            real = f"(CASE WHEN regexp_full_match({text}, '{_DECIMAL}') THEN TRY_CAST({text} AS DOUBLE) END)"
        elif kind in _WHOLE | _LARGE | _FLOATING | {"BOOLEAN"}:
            real = f"CAST({cell} AS DOUBLE)"
        else:
            return _parse("CAST(NULL AS BIGINT)")
        # step is a power of two, so dividing by it is exact but for overflow to an infinity, which is clipped
        scaled = f"floor({real} * CAST('{float(1 / step)!r}' AS DOUBLE) + 0.5)"
        return _parse(
            f"CASE WHEN {real} IS NULL OR isnan({real}) THEN NULL "
            + _bounds(scaled, lower, upper)
            + f" ELSE {_bounded_again(f'TRY_CAST({scaled} AS BIGINT)', lower, upper)} END"
        )

    def code(self, column: str, values: Sequence[str] | Sequence[int], other: int | None) -> exp.Expression:
        """Return the cell's place among the values; `other` for any other cell that is not missing."""
        kind, cell = self._cell(column)
        if values and isinstance(values[0], int):
            whole = self.integer(column, -(2**62), 2**62).sql(dialect="duckdb")
            listed = ", ".join(f"CAST('{v}' AS BIGINT)" for v in values)
            place = f"(list_position([{listed}], {whole}) - 1)"
            place = f"(CASE WHEN {place} >= 0 THEN {place} END)"
        else:
            listed = ", ".join(_quoted(str(v)) for v in values)
            place = f"enum_code(TRY_CAST(CAST({cell} AS VARCHAR) AS ENUM({listed})))"
        found = f"CAST({place} AS BIGINT)"
        if other is None:
            return _parse(found)
        absent = f"isnan({cell})" if kind in ("FLOAT", "DOUBLE") else "false"
        return _parse(f"CASE WHEN {cell} IS NULL OR {absent} THEN NULL ELSE COALESCE({found}, {other}) END")

    def truth(self, column: str) -> exp.Expression:
        """Return true or false: of text, t, true, y, yes, 1 and their opposites; of numbers, 1 and 0."""
        kind, cell = self._cell(column)
        if kind == "BOOLEAN":
            return _parse(cell)
        if kind in ("VARCHAR", "ENUM"):
            word = f"lower(CAST({cell} AS VARCHAR))"
            return _parse(
                f"CASE WHEN {word} IN ('true', 't', 'yes', 'y', '1') THEN true "
                f"WHEN {word} IN ('false', 'f', 'no', 'n', '0') THEN false END"
            )
        if kind in _WHOLE | _LARGE | _FLOATING:
            return _parse(f"CASE WHEN {cell} = 1 THEN true WHEN {cell} = 0 THEN false END")
        return _parse("CAST(NULL AS BOOLEAN)")

    def days(self, column: str, lower: datetime.date, upper: datetime.date) -> exp.Expression:
        """Return days since 1970-01-01, clipped; a timestamp counts by its day, text is read as 2000-01-31."""
        kind, cell = self._cell(column)
        if kind in ("VARCHAR", "ENUM"):
            text = f"CAST({cell} AS VARCHAR)"
            day = f"(CASE WHEN regexp_full_match({text}, '[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}') THEN TRY_CAST({text} AS DATE) END)"
        elif kind in ("DATE", "TIMESTAMP"):
            day = f"TRY_CAST({cell} AS DATE)"
        else:
            return _parse("CAST(NULL AS BIGINT)")
        low, high = (f"DATE '{d.isoformat()}'" for d in (lower, upper))
        kept = f"(CASE WHEN {day} < {low} THEN {low} WHEN {day} > {high} THEN {high} ELSE {day} END)"
        return _parse(f"CAST(date_diff('day', DATE '1970-01-01', {kept}) AS BIGINT)")

    def text(self, column: str) -> exp.Expression:
        """Return an identifier as text; a whole number held as a float reads as that number."""
        kind, cell = self._cell(column)
        if kind in ("FLOAT", "DOUBLE"):
            whole = f"floor({cell}) = {cell} AND abs({cell}) < 9007199254740992"
            return _parse(
                f"CASE WHEN isnan({cell}) THEN NULL WHEN {whole} THEN CAST(TRY_CAST({cell} AS BIGINT) AS VARCHAR) "
                f"ELSE CAST({cell} AS VARCHAR) END"
            )
        return _parse(f"CAST({cell} AS VARCHAR)")

    def clip(self, value: exp.Expression, lower: int | None, upper: int | None) -> exp.Expression:
        """Return a whole number clipped; NULL stays NULL, as comparisons with it are not true."""
        cell = value.sql(dialect="duckdb")
        return _parse(f"CASE {_bounds(cell, lower, upper)} ELSE {cell} END")

    def wide(self, value: exp.Expression) -> exp.Expression:
        """Return a whole number as HUGEINT."""
        return _parse(f"CAST({value.sql(dialect='duckdb')} AS HUGEINT)")

    def bin(self, value: exp.Expression, edges: Sequence[int]) -> exp.Expression:
        """Return the bin's place: by division where all are as wide, by comparison otherwise."""
        cell = value.sql(dialect="duckdb")
        first, last, count = edges[0], edges[-1], len(edges) - 1
        inside = f"{cell} >= {_whole(first)} AND {cell} <= {_whole(last)}"
        width = edges[1] - first
        if all(edges[i + 1] - edges[i] == width for i in range(count - 1)) and last - edges[-2] <= width and width > 0:
            place = f"LEAST(({cell} - {_whole(first)}) // {_whole(width)}, {count - 1})"
            return _parse(f"CASE WHEN {inside} THEN CAST({place} AS BIGINT) END")
        cuts = " ".join(f"WHEN {cell} < {_whole(e)} THEN {i}" for i, e in enumerate(edges[1:-1]))
        inner = f"CASE {cuts} ELSE {count - 1} END" if cuts else "0"
        return _parse(f"CASE WHEN {inside} THEN CAST({inner} AS BIGINT) END")

    def _cell(self, column: str) -> tuple[str, str]:
        """Return a column's physical type and its raw cell, trimmed and with null tokens mapped in CSV."""
        self._domain[column]
        cell = _name(column)
        if self._csv is None:
            return self._physical[column], cell
        trimmed = f"trim({cell}, chr(32) || chr(9) || chr(13))"
        tokens = ", ".join(_quoted(t) for t in sorted({"", *(n.strip(" \t\r") for n in self._csv.null_values)}))
        return "VARCHAR", f"(CASE WHEN {trimmed} NOT IN ({tokens}) THEN {trimmed} END)"


def _bounds(cell: str, lower: int | None, upper: int | None) -> str:
    low = "" if lower is None else f"WHEN {cell} < {_whole(lower)} THEN {_whole(lower)} "
    high = "" if upper is None else f"WHEN {cell} > {_whole(upper)} THEN {_whole(upper)}"
    return low + high


def _bounded(cell: str, lower: int, upper: int, otherwise: str) -> str:
    return f"CASE {_bounds(cell, lower, upper)} ELSE {otherwise} END"


def _bounded_again(whole: str, lower: int, upper: int) -> str:
    """Clip once more in whole numbers where a float cannot tell the bounds from their neighbors."""
    return whole if max(abs(lower), abs(upper)) <= 2**53 else _bounded(whole, lower, upper, whole)


def _whole(number: int) -> str:
    return f"CAST('{number}' AS {'BIGINT' if abs(number) < 2**63 else 'HUGEINT'})"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _name(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def _parse(text: str) -> exp.Expression:
    """Return our own SQL text as a tree; only names and values that we quoted ourselves are in it."""
    return _parsed(text).copy()


@functools.lru_cache(maxsize=512)
def _parsed(text: str) -> exp.Expression:
    from sqlglot import parse_one

    tree: exp.Expression = parse_one(text, dialect="duckdb")
    return tree


def _table(text: str) -> exp.Expression:
    """Return our own SQL text of a relation as a tree."""
    select = _parsed(f"SELECT 1 FROM {text}").copy()
    found: exp.Expression = (select.args.get("from_") or select.args["from"]).this
    return found
