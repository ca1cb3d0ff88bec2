"""One row a unit in DuckDB's words: the SQL of a value of all rows of a unit. It runs nothing.

All arithmetic is of 128-bit whole numbers, so it is exact and does not depend on the order of rows; extremes are taken in
a total order of the values themselves.
"""

from __future__ import annotations

from collections.abc import Mapping

from sordino.engines.quoting import quote_name
from sordino.primitives import UnitCell, check_range

__all__ = ["FORMS", "unit_rows_select"]

FORMS = {"number": "HUGEINT", "text": "VARCHAR", "truth": "BOOLEAN"}  # how DuckDB holds each


def unit_rows_select(relation: str, unit: tuple[str, str], values: Mapping[str, UnitCell]) -> str:
    """Return the SQL of a relation with one row a unit; `unit` is the name of its column and the SQL of its cell."""
    name, owner = unit
    made = [f"{owner} AS sordino_unit", *(f"{_value(v)} AS sordino_v{i}" for i, v in enumerate(values.values()))]
    shown = [f"sordino_unit AS {quote_name(name)}"]
    shown += [f"sordino_v{i} AS {quote_name(alias)}" for i, alias in enumerate(values)]
    rows = f"(SELECT {', '.join(made)} FROM {relation} WHERE {owner} IS NOT NULL GROUP BY {owner}) AS sordino_grouped"
    return f"(SELECT {', '.join(shown)} FROM {rows}) AS sordino_units"


def _value(of: UnitCell) -> str:
    """Return the SQL of one value, as its form is held."""
    cell = "*" if of.value is None else of.value.sql(dialect="duckdb")
    if of.kind == "mean":
        return _mean(cell, low=of.low, parts=of.parts)
    if of.kind == "sum":
        return f"SUM(CAST({cell} AS HUGEINT))"
    if of.kind in ("first", "last"):
        assert of.by is not None
        by, pick = of.by.sql(dialect="duckdb"), "MIN" if of.kind == "first" else "MAX"
        pair = f"struct_pack(a := CAST({by} AS HUGEINT), b := {cell})"
        found = f"struct_extract({pick}(CASE WHEN {by} IS NOT NULL AND {cell} IS NOT NULL THEN {pair} END), 'b')"
    else:
        found = {
            "rows": f"COUNT({cell})",
            "count": f"COUNT({cell})",
            "distinct": f"COUNT(DISTINCT {cell})",
            "min": f"MIN({cell})",
            "max": f"MAX({cell})",
            "any": f"BOOL_OR({cell})",
            "all": f"BOOL_AND({cell})",
        }[of.kind]
    return f"CAST({found} AS {FORMS[of.form]})"


def _mean(cell: str, *, low: int, parts: int) -> str:
    """Return floor(parts * mean + 1/2): a division of numbers that are not negative, moved back to `low` afterwards."""
    count = f"CAST(COUNT({cell}) AS HUGEINT)"
    above = f"SUM(CAST({cell} AS HUGEINT)) - {_whole(low)} * {count}"
    rounded = f"(({above}) * {_whole(2 * parts)} + {count}) // (2 * {count})"
    return f"CASE WHEN COUNT({cell}) > 0 THEN {rounded} + {_whole(low * parts)} END"


def _whole(number: int) -> str:
    check_range(number)
    return f"CAST('{number}' AS HUGEINT)"
