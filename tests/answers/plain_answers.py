"""What a release must say, found by plain SQL, and where it says otherwise."""

from __future__ import annotations

import bisect
import datetime
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

import sordino as sd
from answers.plain_questions import Output, Question, combinations
from planning import allocation_of

SURE = 1 - 1e-9  # a right answer lies outside this interval once in 10^9
LISTS = (
    "quantile",
    "mode",
)  # plain SQL lists the values of a group, and the place of the answer among them is looked at
Ask = Callable[[str], list[tuple[Any, ...]]]


@dataclass(frozen=True)
class Comparison:
    """What disagrees, in words, and of how many cells how many are the plain answer to a thousandth."""

    question: Question
    found: tuple[str, ...]
    cells: int = 0
    near: int = 0


def compare(question: Question, connection: sd.Connection, ask: Ask) -> Comparison:
    """Ask a question at epsilon 10^6, and compare its release with what plain SQL answers."""
    asked, table = (
        (sd.sql(question.text, dialect=question.dialect), connection)
        if question.asked is None
        else (question.asked, connection.table("people"))
    )
    delta = "1e-9" if _private(question) else None
    try:
        release = table.ask(asked, epsilon=10**6, delta=delta)
    except Exception as failure:  # a question that is not answered is a find like any other
        return Comparison(question, (f"{type(failure).__name__}: {failure}",))
    assert isinstance(release, sd.Release)
    possible = possible_keys(question, table.plan(asked, epsilon=10**6, delta=delta))
    if question.rate < 1:
        return inspect_sample(question, release, ask(question.groups), possible)
    return inspect(question, release, cut(question, full_answer(question, ask, possible)))


def possible_keys(question: Question, plan: Any) -> list[tuple[Any, ...]] | None:
    """Return the keys that the answer will have, None without any, and where they are listed or private.

    Which combinations of declared keys a question leaves out has a test of its own (tests/ask/curator/test_possible_keys.py).
    """
    if not question.keys or question.listed or combinations(question) is None:
        return None
    rows = allocation_of(plan).resolved.key_rows()
    return [_plain_key(row) for row in rows]


def inspect_sample(
    question: Question,
    release: sd.Release,
    parts: Sequence[tuple[Any, ...]],
    possible: Sequence[tuple[Any, ...]] | None = None,
) -> Comparison:
    """Compare a release of a sample with each person's part of the whole answer.

    Each person is in the sample with chance r, so by Bernstein's inequality a total lies t or more from r times the whole with
    chance 2 exp(-t^2 / (2 r (1 - r) sum x^2 + 2/3 t max |x|)) at most. A find has chance 2e-7.
    """
    keys, found, near = len(question.keys), shape(question, release), 0
    rows = [_plain_row(row) for row in release.rows]
    expected = _shown_keys(question, {tuple(part[:keys]) for part in parts}, possible) or []
    if [row[:keys] for row in rows] != expected:
        return Comparison(question, (*found, f"rows {[r[:keys] for r in rows]} for {expected}"))
    rate = question.rate
    for place, output in enumerate(question.outputs):
        errors = release.outputs[place].estimate.errors(SURE)
        for at, row in enumerate(rows):
            own = [float(part[keys + place] or 0) for part in parts if part[:keys] == row[:keys]]
            off_by = abs(row[keys + place] - rate * math.fsum(own)) - float(errors[at] or 0) - ROOTS
            spread = 2 * rate * (1 - rate) * math.fsum(x * x for x in own) + max(off_by, 0) * 2 / 3 * max(
                map(abs, own), default=0
            )
            if off_by > 0 and (not spread or math.exp(-(off_by**2) / spread) < 1e-7):
                found.append(f"{output.text} of {row[:keys]}: {row[keys + place]} for {rate} of {math.fsum(own)}")
            near += 1
    return Comparison(question, tuple(found), len(rows) * len(question.outputs), near)


def inspect(question: Question, release: sd.Release, expected: Sequence[tuple[Any, ...]]) -> Comparison:
    """Compare a release with the rows that are expected."""
    rows, found = [_plain_row(row) for row in release.rows], tuple(shape(question, release))
    keys = len(question.keys)
    if [row[:keys] for row in rows] != [row[:keys] for row in expected]:
        return Comparison(question, (*found, f"rows {[r[:keys] for r in rows]} for {[r[:keys] for r in expected]}"))
    wrong, near = [], 0
    for place, output in enumerate(question.outputs):
        estimate = release.outputs[place].estimate
        ends = estimate.errors(SURE) if output.kind in LISTS else estimate.intervals(SURE)
        for at, (row, truth) in enumerate(zip(rows, expected, strict=True)):
            value, exact = row[keys + place], truth[keys + place]
            if not agrees(output, value, exact, ends[at]):
                wrong.append(f"{question.names[keys + place]} of {row[:keys]}: {value} for {_short(exact)}, {ends[at]}")
            near += is_near(output, value, exact)
    return Comparison(question, (*found, *wrong), len(rows) * len(question.outputs), near)


def _private(question: Question) -> bool:
    return any(k.values is None for k in question.keys)


def _plain_row(row: dict[str, Any]) -> tuple[Any, ...]:
    return _plain_key(row.values())


def _plain_key(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(v.replace(tzinfo=None) if isinstance(v, datetime.datetime) else v for v in values)


def _short(value: Any) -> str:
    return f"{len(value)} values" if isinstance(value, list) else str(value)


# ---- what plain SQL answers


def full_answer(
    question: Question, ask: Ask, possible: Sequence[tuple[Any, ...]] | None = None
) -> list[tuple[Any, ...]]:
    """Return each row of the answer before HAVING, ORDER BY and LIMIT: `possible` groups without rows among them."""
    keys, groups = len(question.keys), {}
    for *row, units in ask(question.groups):
        filled = [_of_group(o, v) for o, v in zip(question.outputs, row[keys:], strict=True)]
        groups[tuple(row[:keys])] = (*row[:keys], *filled, units)
    every = question.listed or _shown_keys(question, set(groups), possible)
    if every is None:  # shown from two units on; the declared keys beside are public, but only what has rows can show
        private = [i for i, k in enumerate(question.keys) if k.values is None]
        shown = [k for k, row in groups.items() if row[-1] >= 2 and all(k[i] is not None for i in private)]
        shown = [
            k for k in shown if all(q.values is None or v in q.values for v, q in zip(k, question.keys, strict=True))
        ]
        every = sorted(shown, key=lambda k: _order(question, k))
    empty = tuple(_of_group(o, None) for o in question.outputs)
    return [groups.get(tuple(k), (*k, *empty, 0))[:-1] for k in every]


def _shown_keys(
    question: Question, groups: set[tuple[Any, ...]], possible: Sequence[tuple[Any, ...]] | None
) -> list[tuple[Any, ...]] | None:
    """Return the combinations of declared keys that are possible, and all that have rows, in order; None where private."""
    every = combinations(question)
    if every is None or possible is None:
        return every
    beyond = [key for key in possible if key not in every]
    return [*(key for key in every if key in groups or key in possible), *beyond]


def _order(question: Question, key: tuple[Any, ...]) -> list[Any]:
    """Return the place of a combination: declared keys by their list, texts by their letters."""
    return [v if k.values is None else k.values.index(v) for v, k in zip(key, question.keys, strict=True)]


def _of_group(output: Output, value: Any) -> Any:
    """Return a plain answer as a release gives it: counts and sums of nothing are 0, and there is no other of it."""
    if output.kind in ("count", "sum"):
        return value or 0
    if output.kind == "quantile":
        return sorted(float(v) for v in value or () if v is not None)
    return [v for v in value or () if v is not None] if output.kind == "mode" else value


def cut(question: Question, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the rows that HAVING, ORDER BY and LIMIT leave, found by plain SQL over the whole answer."""
    if not (question.having or question.order or question.limit):
        return rows
    keys, columns = len(question.keys), {}
    for place, name in enumerate(question.names):
        kind = None if place < keys else question.outputs[place - keys].kind
        cells = [row[place] for row in rows]
        if place < keys and question.keys[place].by_place:
            cells = [(question.keys[place].values or ()).index(cell) for cell in cells]
        if kind not in LISTS:
            columns[name] = [float(c) if kind is not None and c is not None else c for c in cells]
    table = pa.table({**columns, "the place": list(range(len(rows)))})
    with duckdb.connect() as connection:
        connection.register("answer", table)
        after = f" WHERE {question.having}" if question.having else ""
        order = ", ".join(f"{term} NULLS LAST" for term in question.order.split(", ") if term)
        after += f' ORDER BY {order}, "the place"' if order else ' ORDER BY "the place"'
        after += f" LIMIT {question.limit}" if question.limit else ""
        places = connection.execute(f'SELECT "the place" FROM answer{after}').fetchall()
    return [rows[place] for (place,) in places]


# ---- where a release says otherwise


def shape(question: Question, release: sd.Release) -> list[str]:
    """Return what is wrong with the columns of a release: their names, their order, their types."""
    found, table = [], release.to_arrow()
    if tuple(table.column_names) != question.names or release.columns != question.names:
        found.append(f"columns {table.column_names} for {list(question.names)}")
        return found
    types = [{k.type} for k in question.keys] + [{o.type} if o.type else TYPES[o.kind] for o in question.outputs]
    for name, allowed in zip(question.names, types, strict=True):
        if str(table.schema.field(name).type) not in allowed:
            found.append(f"{name} is {table.schema.field(name).type}, not {' or '.join(sorted(allowed))}")
    pandas = release.to_pandas()
    if tuple(pandas.columns) != question.names or len(pandas) != table.num_rows:
        found.append(f"the frame has {list(pandas.columns)}")
    if table.to_pylist() != release.rows:
        found.append("the Arrow table says other than the rows")
    return found


WHOLE_OR_REAL = {"int64", "double"}
TYPES = {
    "count": WHOLE_OR_REAL,  # a count that shares its vectors with a sum has decimals
    "sum": WHOLE_OR_REAL,
    "mean": {"double"},
    "spread": {"double"},
    "quantile": WHOLE_OR_REAL,
    "formula": WHOLE_OR_REAL,
}


def agrees(output: Output, value: Any, truth: Any, end: Any) -> bool:
    """Whether an answer is the plain one, to the error that the release states."""
    if output.kind in LISTS:
        return not truth or off(output, value, truth) <= float(end) + 1e-9
    if truth is None:  # of no rows: nothing is true of it
        return True
    exact = float(truth)
    if math.isnan(exact):
        return True
    if value is None:
        return False
    low, high = (math.nan if e is None else number(e) for e in end)
    low, high = -math.inf if math.isnan(low) else low, math.inf if math.isnan(high) else high
    slack = 1e-9 * max(1.0, abs(exact)) + ROOTS
    return low - slack <= exact <= high + slack


ROOTS = 1e-7  # functions of a row have 10^12 steps, and a sum of some hundreds of them is off by that many halves


def number(value: Any) -> float:
    """Return a number as it is, and a day as its distance from the first of January 2020."""
    return float((value - datetime.date(2020, 1, 1)).days) if isinstance(value, datetime.date) else float(value)


def off(output: Output, value: Any, ordered: Sequence[float]) -> float:
    """Return how many values lie between an answer and the exact quantile, or by how many rows others are more common."""
    if output.kind == "mode":
        return max(map(ordered.count, ordered)) - ordered.count(value)
    below = bisect.bisect_left(ordered, number(value) - 1e-9)
    upto = bisect.bisect_right(ordered, number(value) + 1e-9)
    level = output.level * len(ordered)
    return max(0.0, below - level, level - upto)


def is_near(output: Output, value: Any, truth: Any) -> bool:
    """Whether an answer is the plain one to a thousandth, or to the value for a quantile; that of no rows is."""
    if output.kind in LISTS:
        return off(output, value, truth) < 0.5 if truth else True
    if truth is None or math.isnan(float(truth)):
        return True
    if isinstance(value, datetime.date):
        return abs(number(value) - float(truth)) <= 0.5
    return value is not None and abs(number(value) - float(truth)) <= 1e-3 * max(1.0, abs(float(truth)))
