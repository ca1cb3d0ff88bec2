"""Cells that hold moments, in DuckDB's words: timestamps of each kind, days and text, as whole steps since 1970 in UTC.

No word here needs the ICU extension or a session's time zone: a zone's offsets are a public table in the SQL itself.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sordino.cell_grammar import DAY
from sordino.time_zones import offsets

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["bisect_steps", "day_steps", "moment_steps", "refine_times"]

_TIMES = frozenset(["DATE", "TIMESTAMP", "TIMESTAMP_NS", "TIMESTAMPTZ", "TIMESTAMPTZ_NS"])
_MICROS = 1_000_000
_DAY_MICROS = 86_400 * _MICROS
_FIRST, _LAST = -62_135_596_800 * _MICROS, 253_402_300_799 * _MICROS  # the years 1 to 9999
_WIDEST = 2**63 - 1  # of a timestamp's microseconds; it and its negative stand for the infinities
_OFFSET = "^.{16}[^+-]*([+-].*)$"  # what follows a time; the day before it has a - too


def day_steps(kind: str, cell: str, let: Callable[[str], str], lower: datetime.date, upper: datetime.date) -> str:
    """Return the SQL of a cell of a physical type in days since 1970-01-01, clipped; `let` names a part of it."""
    if kind == "VARCHAR":
        written = f"replace(left({cell}, 10), '/', '-')"
        day = let(f"CASE WHEN regexp_full_match({cell}, '{DAY}') THEN TRY_CAST({written} AS DATE) END")
    elif kind in _TIMES:
        day = let(f"TRY_CAST({cell} AS DATE)")
    else:
        return "CAST(NULL AS BIGINT)"
    low, high = (f"CAST('{d.isoformat()}' AS DATE)" for d in (lower, upper))
    kept = let(f"CASE WHEN {day} < {low} THEN {low} WHEN {day} > {high} THEN {high} ELSE {day} END")
    return f"CAST({kept} - CAST('1970-01-01' AS DATE) AS BIGINT)"


def moment_steps(
    kind: str, cell: str, let: Callable[[str], str], zone: str, step: Fraction, lower: int, upper: int
) -> str:
    """Return the SQL of a cell of a physical type in whole steps, rounded down and clipped; `let` names a part of it.

    Total: infinities and far moments are clipped, text that is no moment is missing.
    """
    step_micros = int(step * _MICROS)
    low, high = lower * step_micros, (upper + 1) * step_micros - 1
    shift: str | None
    if kind == "VARCHAR":
        local, shift = _read_text(cell, let)
    elif kind in _TIMES:
        local, shift = _read_time(kind, cell, let), "0" if kind.startswith("TIMESTAMPTZ") else None
    else:
        return "CAST(NULL AS BIGINT)"
    at = let(local)
    found = offsets(zone, math.floor(lower * step), math.ceil(upper * step))
    starts = [start * _MICROS for start in found.local_starts]
    own = bisect_steps(at, starts, [str(value * _MICROS) for value in found.values])
    away = own if shift is None else f"COALESCE({shift}, {own})"
    moment = let(f"{at} - ({away})")
    kept = let(f"CASE WHEN {moment} < {low} THEN {low} WHEN {moment} > {high} THEN {high} ELSE {moment} END")
    return f"CAST(({kept} - ({low})) // {step_micros} + ({lower}) AS BIGINT)"


def refine_times(table: pa.Table) -> pa.Table:
    """Return an Arrow table whose moments in seconds or milliseconds are in microseconds, those too far away missing.

    DuckDB converts such moments as it scans, and one that is too far away would fail the whole question. Those that it can
    convert come out as it converts them, so that it does not matter which of the two reads a Parquet file.
    """
    import pyarrow as pa

    for place, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.unit in ("s", "ms"):
            table = table.set_column(place, field.name, _refine(table.column(place)))
    return table


def _refine(column: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    factor = _MICROS if column.type.unit == "s" else 1000
    most, end, none = (pa.scalar(n, pa.int64()) for n in (_WIDEST // factor, _WIDEST, None))
    numbers = column.cast(pa.int64())
    near = pc.and_(pc.less_equal(numbers, most), pc.greater_equal(numbers, pc.negate(most)))
    micros = pc.multiply(pc.if_else(near, numbers, none), pa.scalar(factor, pa.int64()))
    infinite = pc.or_(pc.equal(numbers, end), pc.equal(numbers, pc.negate(end)))  # as DuckDB's own readers have it
    return pc.if_else(infinite, numbers, micros).cast(pa.timestamp("us", column.type.tz))


def bisect_steps(cell: str, starts: Sequence[int], results: Sequence[object]) -> str:
    """Return the result of the last start that is not above the cell, by halving: about log2 comparisons a row."""
    if not starts:
        return str(results[0])
    middle = len(starts) // 2
    low = bisect_steps(cell, starts[:middle], results[: middle + 1])
    high = bisect_steps(cell, starts[middle + 1 :], results[middle + 1 :])
    return f"CASE WHEN {cell} < {_constant(starts[middle])} THEN {low} ELSE {high} END"


def _constant(number: int) -> str:
    return f"CAST('{number}' AS {'BIGINT' if abs(number) < 2**63 else 'HUGEINT'})"


def _read_time(kind: str, cell: str, let: Callable[[str], str]) -> str:
    """Return microseconds since 1970 of a day or a timestamp, within the years 1 to 9999."""
    if kind == "DATE":
        first, last = "CAST('0001-01-01' AS DATE)", "CAST('9999-12-31' AS DATE)"
        day = let(f"CASE WHEN {cell} < {first} THEN {first} WHEN {cell} > {last} THEN {last} ELSE {cell} END")
        return f"CAST({day} - CAST('1970-01-01' AS DATE) AS BIGINT) * {_DAY_MICROS}"
    if kind.endswith("_NS"):  # its own casts to microseconds round towards 0
        nanos = let(f"epoch_ns({cell})")
        micros = let(f"(({nanos} // 1000) - CASE WHEN {nanos} % 1000 < 0 THEN 1 ELSE 0 END)")
    else:
        held = let(f"TRY_CAST({cell} AS {kind})")  # seconds and milliseconds are finer there, and may be too far away
        micros = let(f"CASE WHEN isfinite({held}) THEN epoch_us({held}) END")
    day = let(f"TRY_CAST({cell} AS DATE)")  # what has no microseconds is infinite
    end = f"CASE WHEN {day} > CAST('1970-01-01' AS DATE) THEN {_LAST} WHEN {day} IS NOT NULL THEN {_FIRST} END"
    inside = f"CASE WHEN {micros} < {_FIRST} THEN {_FIRST} WHEN {micros} > {_LAST} THEN {_LAST} ELSE {micros} END"
    return f"COALESCE({inside}, {end})"


def _read_text(cell: str, let: Callable[[str], str]) -> tuple[str, str]:
    """Return the microseconds since 1970 that a text writes, and its offset from UTC in microseconds, NULL without one."""
    text = let(f"CASE WHEN regexp_full_match({cell}, '{DAY}') AND left({cell}, 4) <> '0000' THEN {cell} END")
    day = let(f"TRY_CAST(replace(left({text}, 10), '/', '-') AS DATE)")

    def number(words: str) -> str:
        return f"COALESCE(TRY_CAST(NULLIF({words}, '') AS BIGINT), 0)"

    hour, minute = let(number(f"substr({text}, 12, 2)")), let(number(f"substr({text}, 15, 2)"))
    second = let(number(f"regexp_extract({text}, '^.{{16}}:([0-9]{{2}})', 1)"))
    digits = f"left(concat(regexp_extract({text}, '[.,]([0-9]+)', 1), '000000'), 6)"
    away = let(f"regexp_extract({text}, '{_OFFSET}', 1)")
    hours, minutes = let(number(f"substr({away}, 2, 2)")), let(number(f"right(replace({away}, ':', ''), -3)"))
    sound = f"{hour} <= 23 AND {minute} <= 59 AND {second} <= 59 AND {hours} <= 23 AND {minutes} <= 59"
    seconds = f"{hour} * 3600 + {minute} * 60 + {second}"
    days = f"CAST({day} - CAST('1970-01-01' AS DATE) AS BIGINT) * {_DAY_MICROS}"
    local = f"CASE WHEN {sound} THEN {days} + ({seconds}) * {_MICROS} + {number(digits)} END"
    sign = f"CASE WHEN left({away}, 1) = '-' THEN -1 ELSE 1 END"
    shift = let(
        f"CASE WHEN {away} <> '' THEN {sign} * ({hours} * 60 + {minutes}) * {60 * _MICROS} "
        f"WHEN regexp_matches({text}, '(Z|UTC)$') THEN 0 END"
    )
    return local, shift
