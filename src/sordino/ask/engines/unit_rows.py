"""One row a unit: the SQL of a value of all rows of a unit. It runs nothing.

All arithmetic is of 128-bit whole numbers, so it is exact and does not depend on the order of rows; extremes are taken in
a total order of the values themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sordino.ask.engines.quoting import quote_name
from sordino.core.primitives import UnitCell, check_range

FORMS = {"number": "HUGEINT", "text": "VARCHAR", "truth": "BOOLEAN"}  # how an engine holds each


def unit_rows_select(
    relation: str, unit: tuple[str, str], values: Mapping[str, UnitCell], aggregate: Callable[[UnitCell], str]
) -> str:
    """Return the SQL of a relation with one row a unit; `unit` is the name of its column and the SQL of its cell."""
    name, owner = unit
    made = [f"{owner} AS sordino_unit", *(f"{aggregate(v)} AS sordino_v{i}" for i, v in enumerate(values.values()))]
    shown = [f"sordino_unit AS {quote_name(name)}"]
    shown += [f"sordino_v{i} AS {quote_name(alias)}" for i, alias in enumerate(values)]
    rows = f"(SELECT {', '.join(made)} FROM {relation} WHERE {owner} IS NOT NULL GROUP BY {owner}) AS sordino_grouped"
    return f"(SELECT {', '.join(shown)} FROM {rows}) AS sordino_units"


def unit_value(of: UnitCell, cell: str, words: Mapping[str, str]) -> str:
    """Return the aggregate of one value, as its form is held; `words` are an engine's own for some kinds, whole."""
    if of.kind == "mean":
        return _mean(cell, low=of.low, parts=of.parts)
    if of.kind == "sum":
        return f"SUM(CAST({cell} AS HUGEINT))"
    found = {
        "rows": f"COUNT({cell})",
        "count": f"COUNT({cell})",
        "distinct": f"COUNT(DISTINCT {cell})",
        "min": f"MIN({cell})",
        "max": f"MAX({cell})",
        "any": f"BOOL_OR({cell})",
        "all": f"BOOL_AND({cell})",
        **words,
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
