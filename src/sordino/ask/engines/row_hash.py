"""Which rows of a unit count: a public hash, and the caps that it serves."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sordino.ask.engines.sql_text import CHOICE, quote_name
from sordino.core.primitives import UnitCell, UnitWindow, check_range

# ---- The public hash that orders a unit's rows and groups: in arithmetic that every engine has, so that all order them alike
#
# It knows cells as 64-bit whole numbers: codes, steps and names by the declaration, so that it does not matter how an engine
# stores them. How a cell becomes a number, and how "exclusive or" is written, is an engine's SQL.

_WORD = 2**31 - 1
_HALF = 2**32 - 1
# products below 2^59 whose sum is below 2^62
_TERMS = 8
# odd and below 2^31
_ROUNDS = (0x7FEB352D, 0x68E31DA5)


@dataclass(frozen=True, slots=True)
class CellNumber:
    """One cell as a whole number: SQL text that may be NULL, under a name that is the same on every engine.

    Of a narrow one only the 31 lowest bits are hashed.
    """

    name: str
    number: str
    narrow: bool = False


class HashWords(Protocol):
    """The SQL of one engine that the hash needs."""

    def let(self, text: str) -> str:
        """Return the name of a part, computed once."""

    def exclusive_or(self, left: str, right: str) -> str:
        """Return the bits of two BIGINT that differ."""


def hash_cells(cells: Iterable[CellNumber], words: HashWords, *, purpose: str) -> str:
    """Return SQL text of 31 bits that are a function of the cells alone, in any order; NULL is a value like others.

    Each half of a cell is multiplied by an odd number of 28 bits that its name keys (Carter and Wegman 1979, section 3, a
    multilinear hash), and the sum passes through two rounds of multiplying and folding, which separate close sums.

    Theorem: no row makes it fail. A half is below 2^31 and a product below 2^59; of eight terms the sum is below 2^62, and
    it is cut to 59 bits before the next are added. In a round a number below 2^32 meets one below 2^31. So nothing leaves
    64 bits, and engines with signed 64-bit arithmetic agree in every bit. It is fair only as far as it looks random: names and
    factors are public, and anyone who writes cells can produce collisions, so the caller orders by the cells next.
    """
    terms = [f"{_factor(purpose)}"]
    for cell in cells:
        number = f"CAST({cell.number} AS BIGINT)"
        parts = [number] if cell.narrow else [number, f"({number} >> 31)"]
        for i, part in enumerate(parts):
            factor = _factor(f"{cell.name} {i}")
            terms.append(f"COALESCE(({part} & {_WORD}) * {factor}, {factor >> 1})")
    while len(terms) > _TERMS:
        terms = [f"(({' + '.join(terms[:_TERMS])}) & {2**59 - 1})", *terms[_TERMS:]]
    hashed = words.let(f"CAST({' + '.join(terms)} AS BIGINT)")
    for factor in _ROUNDS:
        mixed = words.exclusive_or(hashed, f"({hashed} >> 31)")
        hashed = words.let(f"({mixed} & {_HALF}) * {factor}")
    mixed = words.exclusive_or(hashed, f"({hashed} >> 31)")
    # DuckDB sorts an INT twice as fast as a BIGINT
    return f"CAST({mixed} & {_WORD} AS INT)"


@functools.cache
def _factor(name: str) -> int:
    """Return an odd number of 28 bits that a name keys."""
    digest = hashlib.sha256(f"{CHOICE} {name}".encode()).digest()
    return int.from_bytes(digest[:4]) >> 4 | 1 | 1 << 27


# ---- One row a unit: the SQL of a value of all rows of a unit. It runs nothing
#
# All arithmetic is of 128-bit whole numbers, so it is exact and does not depend on the order of rows; extremes are taken in
# a total order of the values themselves.

# the type of each form
FORMS = {"number": "HUGEINT", "text": "VARCHAR", "truth": "BOOLEAN"}


def unit_rows_select(
    relation: str, unit: tuple[str, str], values: Mapping[str, UnitCell], aggregate: Callable[[UnitCell], str]
) -> str:
    """Return the SQL of a relation with one row a unit; `unit` is the name of its column and the SQL of its cell."""
    name, owner = unit
    cells = [f"{owner} AS sordino_unit", *(f"{aggregate(v)} AS sordino_v{i}" for i, v in enumerate(values.values()))]
    rows = f"(SELECT {', '.join(cells)} FROM {relation} WHERE {owner} IS NOT NULL GROUP BY {owner}) AS sordino_grouped"
    # named in a second SELECT, so that no name of a value is taken for a column of the rows
    names = [f"sordino_unit AS {quote_name(name)}"]
    names += [f"sordino_v{i} AS {quote_name(alias)}" for i, alias in enumerate(values)]
    return f"(SELECT {', '.join(names)} FROM {rows}) AS sordino_units"


def unit_value(of: UnitCell, cell: str, words: Mapping[str, str]) -> str:
    """Return the aggregate of one value, in the type of its form; `words` is an engine's SQL for some kinds."""
    if of.kind == "mean":
        return _mean(cell, low=of.low, parts=of.parts)
    if of.kind in ("variance", "variance_pop"):
        return _variance(cell, low=of.low, parts=of.parts, is_sample=of.kind == "variance")
    if of.kind == "mode":
        return _mode(cell, low=of.low, count=of.parts)
    if of.kind == "sum":
        return f"SUM(CAST({cell} AS HUGEINT))"
    aggregate = {
        "rows": f"COUNT({cell})",
        "count": f"COUNT({cell})",
        "distinct": f"COUNT(DISTINCT {cell})",
        "min": f"MIN({cell})",
        "max": f"MAX({cell})",
        "any": f"BOOL_OR({cell})",
        "all": f"BOOL_AND({cell})",
        **words,
    }[of.kind]
    return f"CAST({aggregate} AS {FORMS[of.form]})"


def _mean(cell: str, *, low: int, parts: int, over: str = "") -> str:
    """Return floor(parts * mean + 1/2): a division of numbers that are not negative, moved back to `low` afterwards."""
    count = f"CAST(COUNT({cell}){over} AS HUGEINT)"
    above = f"SUM(CAST({cell} AS HUGEINT)){over} - {_whole(low)} * {count}"
    rounded = f"(({above}) * {_whole(2 * parts)} + {count}) // (2 * {count})"
    return f"CASE WHEN COUNT({cell}){over} > 0 THEN {rounded} + {_whole(low * parts)} END"


def _variance(cell: str, *, low: int, parts: int, is_sample: bool) -> str:
    """Return floor(parts * variance + 1/2), to one part: NULL of no row, and of a sample of one.

    With n rows, distances v from `low`, and m and r the quotient and the remainder of their sum by n, the sum of the squared
    distances from the mean is SUM(v v) - 2 m SUM(v) + n m m - r r / n: no part of it grows with the square of n but r r.
    """
    count = f"CAST(COUNT({cell}) AS HUGEINT)"
    distance = f"(CAST({cell} AS HUGEINT) - {_whole(low)})"
    total = f"SUM({distance})"
    mean = f"({total} // {count})"
    rest = f"({total} - {mean} * {count})"
    squares = f"SUM({distance} * {distance}) - {_whole(2)} * {mean} * {total} + {count} * {mean} * {mean}"
    apart = f"({_whole(parts)} * ({squares}) - {_whole(parts)} * {rest} * {rest} // {count})"
    divisor = f"({count} - {_whole(1)})" if is_sample else count
    least = 2 if is_sample else 1
    return (
        f"CASE WHEN COUNT({cell}) >= {least} THEN ({_whole(2)} * {apart} + {divisor}) // ({_whole(2)} * {divisor}) END"
    )


def _mode(cell: str, *, low: int, count: int) -> str:
    """Return the most frequent of `count` whole numbers from `low` on, the least of several.

    Each number of rows is made a number of two digits to the base `count`, of which the second is larger for lesser values.
    """
    ranks = [
        f"COUNT(CASE WHEN {cell} = {_whole(low + i)} THEN 1 END) * CAST('{count}' AS HUGEINT) + {_whole(count - 1 - i)}"
        for i in range(count)
    ]
    most = ranks[0] if count == 1 else f"GREATEST({', '.join(ranks)})"
    return f"CASE WHEN COUNT({cell}) > 0 THEN {_whole(low + count - 1)} - ({most}) % CAST('{count}' AS HUGEINT) END"


def _whole(number: int) -> str:
    check_range(number)
    return f"CAST('{number}' AS HUGEINT)"


# ---- A value of a row among its unit's rows: the SQL of a window. It runs nothing

_BY_PLACE = ("lag", "lead", "first_value", "last_value", "nth_value", "row_number", "ntile")


def window_text(of: UnitWindow, value: str, parts: str, order: Sequence[str], ties: Sequence[str]) -> str:
    """Return the SQL of a window over the rows that agree in `parts`.

    A window whose value depends on a row's place orders all rows, by `ties` after `order`; one whose value is equal for rows of
    equal order needs no ties.
    """
    by_place = of.kind in _BY_PLACE or (of.frame is not None and not of.by_value)
    by = [*order, *ties] if by_place else list(order)
    frame = ""
    if of.kind in ("first_value", "last_value", "nth_value"):
        frame = " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
    elif of.frame is not None:
        ends = [
            _frame_end(end, side, wide=of.by_value)
            for end, side in zip(of.frame, ("PRECEDING", "FOLLOWING"), strict=True)
        ]
        frame = f" {'RANGE' if of.by_value else 'ROWS'} BETWEEN {ends[0]} AND {ends[1]}"
    over = f"OVER (PARTITION BY {parts}{' ORDER BY ' + ', '.join(by) if by else ''}{frame})"
    call = {
        "lag": f"lag({value}, {of.offset})",
        "lead": f"lead({value}, {of.offset})",
        "nth_value": f"nth_value({value}, {of.offset})",
        "ntile": f"ntile({of.offset})",
        "rows": "count(*)",
        "sum": f"sum(CAST({value} AS HUGEINT))",
    }.get(of.kind, f"{of.kind}({value})")
    if of.kind == "mean":
        return _mean(value, low=of.low, parts=of.parts, over=f" {over}")
    kind = FORMS[of.form] if of.form != "number" or of.wide else "BIGINT"
    return f"CAST({call} {over} AS {kind})"


def _frame_end(place: int | None, side: str, *, wide: bool) -> str:
    """Return an end of a frame, of rows or of a `wide` range; None is the last row on its `side`."""
    if place is None:
        return f"UNBOUNDED {side}"
    if place == 0:
        return "CURRENT ROW"
    distance = f"CAST('{abs(place)}' AS BIGINT)" if wide else str(abs(place))
    return f"{distance} {'PRECEDING' if place < 0 else 'FOLLOWING'}"
