"""Keys of groups: those that an expression can have, and those that a question lists."""

from __future__ import annotations

import datetime
import hashlib
import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from sordino.ask.queries.expressions.bound_number import (
    BoundNumber,
    bin_index,
    encode_category,
    integer_cell,
    number_cell,
    truth_code,
    whole_values,
)
from sordino.ask.queries.expressions.compile import (
    bind_condition,
    bind_number,
    bind_values,
    is_declared,
    plain_number,
)
from sordino.ask.queries.expressions.declared_values import is_text, value_keys
from sordino.ask.queries.expressions.missing import may_be_missing
from sordino.ask.queries.expressions.nodes import (
    Absolute,
    Apply,
    Arithmetic,
    Bin,
    Clip,
    Compare,
    Connective,
    Constant,
    DateFormat,
    DatePart,
    DateTrunc,
    IsIn,
    IsNull,
    Match,
    Name,
    Node,
    Not,
    Shift,
    TextFunction,
    When,
    conjuncts,
    depth,
    describe,
    sql_name,
    walk,
)
from sordino.ask.queries.expressions.sql_trees import Build, plus, trees, truth_as_number, whole
from sordino.ask.queries.expressions.times import (
    CLOCK_PARTS,
    DAY_PARTS,
    TIMES,
    day_of,
    format_time,
    moment_constant,
    time_label,
    truncate_time,
)
from sordino.core.cell_grammar import BLANKS, is_unicode
from sordino.core.domain import STORED, Boolean, Category, Date, DateTime, Domain, Identifier, Integer, Real
from sordino.core.errors import QuestionRefused, UnknownName, nearest
from sordino.core.loss import format_number
from sordino.core.primitives import Primitives
from sordino.core.release import int_or_float
from sordino.core.time_zones import EPOCH, seconds_since, show_time

if TYPE_CHECKING:
    from sqlglot import exp


# ---- The declared keys of a group-by column: public labels, and the SQL that gives each row its code

_MOST_KEYS = 1_000_000
# rows are grouped by a column's days before their keys if there are no more than in 270 years
_MOST_DAYS = 100_000
# each has two fractions for its ends, and a label: a second's work
_MOST_BINS = 100_000


def _time_keys(node: Node, of: BoundNumber) -> tuple[tuple[Any, ...], Build]:
    """Return the labels and the code of a key that is made of a date or a moment `of`.

    Labels are dates, moments on the zone's clock, or texts of a format. Raises QuestionRefused where they are too many.
    """
    if isinstance(node, DateFormat):
        texts = format_time(node.format, of)
        return (texts.values, texts.build) if len(set(texts.values)) == len(texts.values) else value_keys(texts)
    if isinstance(node, Bin):
        return _time_bins(node, of)
    if isinstance(node, DateTrunc):
        truncation = truncate_time(node.unit, int(node.count), of)
        low, high = _ends(truncation.index, node)
        return tuple(truncation.label(i) for i in range(low, high + 1)), _from(truncation.index, low)
    low, high = _ends(of, node)
    return tuple(time_label(i, of) for i in range(low, high + 1)), _from(of, low)


def _by_day(of: Keys, node: Node, domain: Domain) -> Keys:
    """Return the keys of functions of one column of days so that rows are grouped by days first, and the few days by keys."""
    names = {at.name for at in walk(node) if isinstance(at, Name)}
    column = domain[next(iter(names))] if len(names) == 1 else None
    if isinstance(node, Name) or not isinstance(column, (Date, DateTime)) or of.code is not None:
        return of
    (name,) = names
    if isinstance(column, DateTime):
        if not isinstance(node, (DatePart, DateTrunc)) or not isinstance(node.of, Name) or not _is_of_day(node):
            return of
        # The parts of a moment are those of its day.
        day = day_of(number_cell(name, column))
        first, last = (EPOCH + datetime.timedelta(days=end) for end in day.ends)
        days = Date(first, last, missing="keep" if column.missing == "keep" else "drop")
        by_day = keys(node, Domain({name: days}))
        assert len(by_day.labels) == len(of.labels)
        build: Build = by_day.row_code
    else:
        day = number_cell(name, replace(column, missing="drop"))
        build = of.build
    if day.ends[1] - day.ends[0] >= _MOST_DAYS:
        return of
    return Keys(of.labels, day.build, lambda on, cell: on.with_cell(name, cell, build))


def _is_of_day(node: DatePart | DateTrunc) -> bool:
    return node.part in DAY_PARTS if isinstance(node, DatePart) else node.unit not in CLOCK_PARTS


def _from(of: BoundNumber, low: int) -> Build:
    return lambda on: plus(of.build(on), -low)


def _ends(of: BoundNumber, node: Node) -> tuple[int, int]:
    low, high = int(of.interval.lower or 0), int(of.interval.upper or 0)
    if high - low >= _MOST_KEYS:
        many = f"{describe(node)} has {high - low + 1} declared values, too many keys"
        words = describe(node)
        raise QuestionRefused(
            f'{many}: group by a coarser part, such as .truncate("day")',
            sql=f"{many}: group by a coarser part, such as DATE_TRUNC('day', {words})",
        )
    return low, high


def _time_bins(node: Bin, of: BoundNumber) -> tuple[tuple[datetime.date, ...], Build]:
    """Return bins from the lower bound on, by a width in days or seconds, or by edges; each is shown by where it begins."""
    values = of.values
    if node.edges is None:
        width = node.width or Fraction(1)
        low = values.lower or Fraction(0)
        high = values.upper or Fraction(0)
        if (width / of.unit).denominator != 1:
            what = "whole days" if of.kind == "date" else f"a multiple of {format_number(of.unit)} seconds"
            raise QuestionRefused(f"bins of {describe(node.of)} have a width of {what}, not {format_number(width)}")
        count = int((high - low) // width) + 1
        if count > _MOST_KEYS:
            raise QuestionRefused(f"bins of {describe(node.of)} make {count} keys, too many: take a larger width")
        starts = [low + width * i for i in range(count)]
        steps = [int(s / of.unit) for s in [*starts, low + width * count]]
    else:
        edges = [moment_constant(edge, of) for edge in node.edges]
        if any(a >= b for a, b in itertools.pairwise(edges)) or any((e / of.unit).denominator != 1 for e in edges):
            raise QuestionRefused(f"the edges of bins of {describe(node.of)} ascend, each a step of its resolution")
        starts = edges[:-1]
        steps = [int(e / of.unit) for e in edges]
    return tuple(show_time(s, of.kind, of.zone) for s in starts), bin_index(of, steps)


@dataclass(frozen=True, slots=True)
class Keys:
    """The declared keys of one group-by column: one label a code, from 0; `build` gives the code, NULL for dropped.

    Where there is `code`, `build` gives a raw cell and `code` makes the code of it: rows are grouped by the cell first,
    which is the faster for text, and the few groups by their codes after.

    Where missing is a key of its own its label is None and its code the last; the SQL already says so. Where the keys are
    `private`, there are no labels and `build` gives the cell itself.
    """

    labels: tuple[Any, ...]
    build: Build
    code: Callable[[Primitives, exp.Expression], exp.Expression] | None = None
    private: bool = False
    column: str | None = None

    def code_of(self, on: Primitives, cell: exp.Expression) -> exp.Expression:
        """Return the code of a cell that `build` gave."""
        return cell if self.code is None else self.code(on, cell)

    def row_code(self, on: Primitives) -> exp.Expression:
        """Return the code of a row's key."""
        return self.code_of(on, self.build(on))


def keys(node: Node, domain: Domain) -> Keys:
    """Return the declared keys of a group-by expression: a category, a boolean, a bounded whole number, bins, a choice.

    Raises QuestionRefused where the keys are not public, or too many.
    """
    depth(node)
    of = _time(node, domain)
    if of is not None:
        labels, build = _time_keys(node, of)
        return _by_day(_keep_missing(labels, build, node, domain), node, domain)
    if isinstance(node, Bin):
        return _bins(node, domain)
    if isinstance(node, When):
        return _choice(node, domain)
    if isinstance(node, Constant):
        return Keys((_label(node, node),), lambda _: whole(0))
    if isinstance(node, DatePart):
        return _by_day(_parts(node, domain), node, domain)
    if is_text(node):
        labels, build = value_keys(bind_values(node, domain))
        return _keep_missing(labels, build, node, domain)
    if isinstance(node, (Compare, Connective, Not, IsIn, IsNull, Match)):
        return _truths(node, domain)
    if isinstance(node, (Apply, Arithmetic, Absolute, Clip, TextFunction)):
        return _numbers(node, domain)
    if not isinstance(node, Name):
        raise QuestionRefused(f"cannot group by {describe(node)}: group by a column, or by bins of a number")
    return _column_keys(node, domain)


def _column_keys(node: Name, domain: Domain) -> Keys:
    """Return the declared keys of a column; raises QuestionRefused where it declares none."""
    column = domain[node.name]
    if isinstance(column, Category):
        return _category(node.name, column)
    if isinstance(column, Boolean):
        return _keep_missing((False, True), truth_code(node.name, column), node, domain)
    if isinstance(column, Integer) and column.lower is not None and column.upper is not None:
        count = column.upper - column.lower + 1
        if count > _MOST_KEYS:
            many = f"column {node.name!r} has {count} declared values, too many keys"
            width = max(1, count // 100)
            raise QuestionRefused(
                f'{many}: group by bins, such as col("{node.name}").bin(width={width})',
                sql=f"{many}: group by bins, such as BIN({sql_name(node.name)}, {width})",
            )
        cell = integer_cell(node.name, column)
        low = column.lower
        labels = tuple(range(column.lower, column.upper + 1))
        return _keep_missing(labels, lambda on: plus(cell.build(on), -low), node, domain)
    if isinstance(column, Real) and column.resolution is not None and None not in (column.lower, column.upper):
        return _numbers(node, domain)
    if isinstance(column, Identifier):
        return Keys((), lambda on: on.text(node.name), private=True, column=node.name)
    if any(node.name in getattr(step, "names", ()) for step in domain.steps):
        many = f"cannot group by {node.name!r}: a unit's value has no bounds of its own. Clip it"
        at = sql_name(node.name)
        raise QuestionRefused(
            f'{many}, col("{node.name}").clip(0, 10), or group by bins',
            sql=f"{many}, LEAST({at}, 10), or BIN({at}, 1, 3, 10)",
        )
    raise QuestionRefused(
        f"cannot group by {node.name!r}: its keys are not public. Declare it as a category with its values, "
        "or give a number bounds and group by its bins; keys of an identifier are selected privately, with a delta"
    )


def _time(node: Node, domain: Domain) -> BoundNumber | None:
    """Return the date or moment that the keys of an expression are made of, None where they are made of something else."""
    if isinstance(node, Name) and not isinstance(domain[node.name], (Date, DateTime)):
        return None
    if isinstance(node, (Bin, DateTrunc, DateFormat)):
        of = bind_number(node.of, domain) if _has_time(node, domain) else None
        return of if of is not None and (of.kind in TIMES or not isinstance(node, Bin)) else None
    if isinstance(node, (Name, DatePart, Shift, Clip, Arithmetic)) and _has_time(node, domain):
        of = bind_number(node, domain)
        return of if of.kind in TIMES else None
    if isinstance(node, When) and not is_declared(node, domain) and _ends_in_time(node, domain):
        return bind_number(node, domain)
    return None


def _ends_in_time(node: When, domain: Domain) -> bool:
    """Return whether a choice is between dates or moments."""
    at: Node | None = node
    while isinstance(at, When):
        if _time(at.left, domain) is not None or _is_day(at.left):
            return True
        at = at.right
    return at is not None and (_time(at, domain) is not None or _is_day(at))


def _is_day(node: Node) -> bool:
    return isinstance(node, Constant) and isinstance(node.value, datetime.date)


def _has_time(node: Node, domain: Domain) -> bool:
    """Return whether an expression reads a date or a datetime."""
    return any(isinstance(at, Name) and isinstance(domain[at.name], (Date, DateTime)) for at in walk(node))


def _category(name: str, column: Category) -> Keys:
    code = encode_category(column)
    keeps_missing = column.missing == "keep"

    def encode(on: Primitives, cell: exp.Expression) -> exp.Expression:
        encoded = code(on, cell)
        if not keeps_missing:
            return encoded
        filled: exp.Expression = trees().Coalesce(
            this=encoded, expressions=[trees().Literal.number(len(column.values))]
        )
        return filled

    labels = (*column.values, None) if keeps_missing else column.values
    return Keys(labels, lambda on: on.category_cell(name, whole=whole_values(column)), encode)


def _bins(node: Bin, domain: Domain) -> Keys:
    of = plain_number(node.of, domain)
    edges = None if node.edges is None else tuple(e for e in node.edges if isinstance(e, Fraction))
    if edges is not None and edges != node.edges:
        raise QuestionRefused(f"{describe(node.of)} is a number: its bins have numbers as edges")
    if edges is None:
        width = node.width or Fraction(1)
        values = of.values
        if values.lower is None or values.upper is None:
            raise QuestionRefused(f"bins of {describe(node.of)} by width need declared bounds: give edges, or clip it")
        count = max(1, math.ceil((values.upper - values.lower) / width))
        if count > _MOST_BINS:
            least = (values.upper - values.lower) / _MOST_BINS
            raise QuestionRefused(
                f"bins of width {format_number(width)} make {count:,} keys, above {_MOST_BINS:,}: take a width of at least "
                f"{format_number(least)}, or clip {describe(node.of)}"
            )
        edges = tuple(values.lower + width * i for i in range(count + 1))
    steps = [math.ceil(e / of.unit) for e in edges]
    # the last bin is closed
    steps[-1] = math.floor(edges[-1] / of.unit)
    if any(a >= b for a, b in itertools.pairwise(steps[:-1])) or steps[-2] > steps[-1]:
        raise QuestionRefused(
            f"bins of {describe(node.of)} are finer than its grid of {format_number(of.unit)}: widen them"
        )
    last = len(edges) - 2
    labels = tuple(
        f"[{format_number(a)}, {format_number(b)}{']' if i == last else ')'}"
        for i, (a, b) in enumerate(itertools.pairwise(edges))
    )
    return _keep_missing(labels, bin_index(of, steps), node, domain)


def _parts(node: DatePart, domain: Domain) -> Keys:
    """Return the parts of days, such as years, that the declared days allow."""
    number = bind_number(node, domain)
    low, high = (int(b or 0) for b in (number.interval.lower, number.interval.upper))
    if node.part == "epoch" and isinstance(node.of, DateTrunc) and (of := _time(node.of, domain)) is not None:
        return _epochs(node, of, domain)
    if high - low >= _MOST_KEYS:
        raise QuestionRefused(f"{describe(node)} has {high - low + 1} values, too many keys: group by a coarser part")
    labels = tuple(range(low, high + 1))
    return _keep_missing(labels, lambda on: plus(number.build(on), -low), node, domain)


def _epochs(node: DatePart, of: BoundNumber, domain: Domain) -> Keys:
    """Return the seconds since 1970 at which the parts of a truncated date or moment `of` begin, one for each of its keys."""
    labels, build = _time_keys(node.of, of)
    seconds = tuple(int_or_float(seconds_since(label, of.zone or "UTC")) for label in labels)
    return _keep_missing(seconds, build, node, domain)


def _truths(node: Node, domain: Domain) -> Keys:
    """Return the keys of a condition: false and true."""
    return _keep_missing((False, True), truth_as_number(bind_condition(node, domain)), node, domain)


def _numbers(node: Node, domain: Domain) -> Keys:
    """Return the values that a bounded expression may have on its grid."""
    of = plain_number(node, domain)
    if not of.interval.bounded:
        raise QuestionRefused(f"cannot group by {describe(node)}: its values have no bounds. Clip it, or group by bins")
    low, high = int(of.interval.lower or 0), int(of.interval.upper or 0)
    if high - low >= _MOST_KEYS:
        raise QuestionRefused(
            f"{describe(node)} may have {high - low + 1} values, too many keys: group by bins, or round it"
        )
    labels = tuple(int_or_float(of.unit * n) for n in range(low, high + 1))
    return _keep_missing(labels, lambda on: plus(of.build(on), -low), node, domain)


def _choice(node: When, domain: Domain) -> Keys:
    """Return what a choice is between, in the order in which it is written: constants, and columns of declared values."""
    cases: list[tuple[Build | None, Node]] = []
    at: Node | None = node
    while isinstance(at, When):
        cases.append((bind_condition(at.of, domain), at.left))
        at = at.right
    cases += [] if at is None else [(None, at)]
    if not all(isinstance(case, (Constant, When)) or is_declared(case, domain) for _, case in cases):
        return _numbers(node, domain)
    case_keys = [(condition, _case_keys(case, node, domain)) for condition, case in cases]
    labels = tuple(dict.fromkeys(v for _, case in case_keys for v in case.labels if v is not None))
    if len({type(v) for v in labels}) > 1:
        raise QuestionRefused(f"cannot group by {describe(node)}: its values must be all text or all whole numbers")
    places = {v: i for i, v in enumerate(labels)}

    def build(on: Primitives) -> exp.Expression:
        from sqlglot import exp

        case_places = [(condition, _place(case, places, on)) for condition, case in case_keys]
        ifs = [
            exp.If(this=exp.Paren(this=condition(on)), true=place)
            for condition, place in case_places
            if condition is not None
        ]
        last = next((place for condition, place in case_places if condition is None), exp.Null())
        return exp.Case(ifs=ifs, default=last)

    return _keep_missing(labels, lambda on: trees().Paren(this=build(on)), node, domain)


def _case_keys(node: Node, choice: When, domain: Domain) -> Keys:
    """Return the labels that one case of a choice may have."""
    if isinstance(node, Constant):
        return Keys((_label(node, choice),), lambda _: whole(0))
    return _choice(node, domain) if isinstance(node, When) else Keys(*value_keys(bind_values(node, domain)))


def _place(case: Keys, places: dict[Any, int], on: Primitives) -> exp.Expression:
    """Return the place of a case's label among those of the whole choice."""
    from sqlglot import exp

    code = case.build(on)
    if isinstance(code, exp.Literal):
        return whole(places[case.labels[0]])
    labeled = [(i, v) for i, v in enumerate(case.labels) if v is not None]
    ifs = [exp.If(this=exp.EQ(this=code.copy(), expression=whole(i)), true=whole(places[v])) for i, v in labeled]
    return exp.Paren(this=exp.Case(ifs=ifs, default=exp.Null()))


def _label(node: Constant, choice: Node) -> str | int | bool:
    """Return the label that a constant stands for."""
    value = node.value
    if isinstance(value, (str, bool)):
        return value
    if isinstance(value, Fraction) and value.denominator == 1:
        return int(value)
    raise QuestionRefused(
        f"cannot group by {describe(choice)}: its values must be constants, text or whole numbers, so that they are public"
    )


def _keep_missing(labels: tuple[Any, ...], build: Build, node: Node, domain: Domain) -> Keys:
    """Return the keys with a group for rows in which the expression is missing, if such rows have one."""
    if not may_be_missing(node, domain).is_key:
        return Keys(labels, build)
    last = len(labels)
    return Keys(
        (*labels, None), lambda on: trees().Coalesce(this=build(on), expressions=[trees().Literal.number(last)])
    )


# ---- KeyList: the combinations of keys that an answer has rows for, where a question lists them. Knows no data
#
# A list is part of the question, and so public. A row of the table whose keys are not listed takes no part, whatever the
# other rows are: listed keys have the sensitivity of declared ones, of which rows may drop out.

MOST_LISTED = 1_000_000
# of codes that follow each other: beyond, one search is faster than so many comparisons
_MOST_RUNS = 8
KEY_SELECTIONS = ("weighted", "threshold")

Label = str | int | float | bool | datetime.date | None


@dataclass(frozen=True, slots=True)
class KeyList:
    """The rows of an answer, in order: the values of these group-by `columns`."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Label, ...], ...]

    def describe(self) -> str:
        """Return the list in words."""
        one = len(self.rows) == 1
        return f"{len(self.rows):,} listed {'key' if one else 'keys'}"

    def plain(self) -> Any:
        """Return the list as canonical JSON data: a long one by its digest."""
        rows = [[v.isoformat() if isinstance(v, datetime.date) else v for v in row] for row in self.rows]
        text = json.dumps(rows, separators=(",", ":"))
        return [list(self.columns), len(rows), hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()]


def key_list(listing: object, columns: Sequence[str], *, before: KeyList | None = None) -> KeyList:
    """Return the keys that a person lists for some group-by columns: tuples, bare values of one column, or a public table.

    A table (Arrow, pandas, polars) is read by its columns' names. Raises QuestionRefused for anything else.

    >>> key_list(["cook", "nurse"], ["job"]).rows
    (('cook',), ('nurse',))
    """
    if before is not None:
        raise QuestionRefused("keys= is given once: name all columns that it lists in one group_by")
    if not columns:
        raise QuestionRefused("a list of keys goes with GROUP BY: it says which rows the answer has")
    columns, rows = _table_rows(listing, columns)
    if rows is None:
        if isinstance(listing, (str, bytes)) or not isinstance(listing, Iterable):
            raise QuestionRefused(
                f"keys= takes a list with one tuple per row, such as keys=[{_example(columns)}], or a table with the columns "
                f"{', '.join(columns)}, or a way to select private keys, 'weighted' or 'threshold'; a key that is named keys is "
                ".alias('keys')"
            )
        rows = [
            tuple(row) if isinstance(row, (tuple, list)) else (row,)
            for row in itertools.islice(listing, MOST_LISTED + 1)
        ]
    if not rows or len(rows) > MOST_LISTED:
        raise QuestionRefused(f"a list of keys has 1 to {MOST_LISTED:,} rows, not {'more' if rows else 'none'}")
    if any(len(row) != len(columns) for row in rows):
        raise QuestionRefused(
            f"each row of keys= has {len(columns)} values, for {', '.join(columns)}, such as {_example(columns)}"
        )
    return KeyList(tuple(columns), tuple(tuple(map(_listed_label, row)) for row in rows))


def selection_name(listing: object) -> str | None:
    """Return the selection of private keys that `keys=` names, weighted or threshold; None for a list of keys."""
    named = str(listing) if isinstance(listing, (str, PurePath)) else ""
    return named if named in KEY_SELECTIONS else None


def check_min_units(least: int) -> int:
    """Check the fewest units of a private key that may show; raises QuestionRefused unless it is a whole number from 1 on."""
    if isinstance(least, bool) or not isinstance(least, int) or not 1 <= least <= 10**9:
        raise QuestionRefused("min_units takes a number of units, from 1 to 10^9, such as min_units=20")
    return least


def _example(columns: Sequence[str]) -> str:
    values = ", ".join("..." for _ in columns)
    return f"({values},)" if len(columns) == 1 else f"({values})"


def _table_rows(listing: object, columns: Sequence[str]) -> tuple[Sequence[str], list[tuple[Any, ...]] | None]:
    """Return the group-by columns that a frame has, and its rows; all columns and None for anything but a frame."""
    if not (hasattr(listing, "__arrow_c_stream__") or hasattr(listing, "to_arrow_table")):
        return columns, None
    import pyarrow as pa

    table: Any = listing.to_arrow_table() if hasattr(listing, "to_arrow_table") else pa.table(listing)
    names = table.column_names
    wrong = [c for c in names if c not in columns or names.count(c) != 1]
    if wrong or not names:
        raise QuestionRefused(
            f"the table of keys has a column {wrong[0] if wrong else ''!r}: it needs one of each name, and no others: "
            f"{', '.join(columns)}"
        )
    if len(table) > MOST_LISTED:
        return names, [()] * (MOST_LISTED + 1)
    return names, list(zip(*(table.column(c).to_pylist() for c in names), strict=True))


def _listed_label(value: Any) -> Label:
    # a scalar of numpy
    if hasattr(value, "item") and not isinstance(value, (str, bytes)):
        value = value.item()
    if isinstance(value, float):
        if value != value:
            return None
        return int(value) if value.is_integer() else value
    if isinstance(value, str) and not is_unicode(value):
        raise QuestionRefused("a listed key holds half of a character (a lone surrogate): write whole text")
    if value is None or isinstance(value, (str, int, bool)):
        return value
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value
    raise QuestionRefused(f"a listed key is text, a number, true or false, a day or None, not a {type(value).__name__}")


def infer_key_list(where: Node | None, groups: Sequence[tuple[str, Node]], domain: Domain) -> KeyList | None:
    """Return the keys that a condition lists: `town IN ('Oslo', 'Bergen')` with GROUP BY town, where towns are open.

    The values are the question's own, and a row of another town takes no part anyway. Every open key must be listed so.
    """
    listed: dict[Node, IsIn] = {}
    for part in conjuncts(where):
        if isinstance(part, IsIn) and part.of not in listed:
            listed[part.of] = part
    open_groups = [(alias, of) for alias, of in groups if is_open(of, domain)]
    if not open_groups or any(of not in listed for _, of in open_groups):
        return None
    values = [[_plain_label(v) for v in dict.fromkeys(listed[of].values)] for _, of in open_groups]
    rows = itertools.islice(itertools.product(*values), MOST_LISTED + 1)
    return KeyList(tuple(alias for alias, _ in open_groups), tuple(rows))


def is_open(of: Node, domain: Domain) -> bool:
    """Return whether a group-by column has no declared values: an identifier, or whole numbers without bounds."""
    column = domain[of.name] if isinstance(of, Name) else None
    return isinstance(column, Identifier) or (
        isinstance(column, Integer) and (column.lower is None or column.upper is None)
    )


def _plain_label(value: Any) -> Label:
    return (
        value
        if isinstance(value, (str, bool, datetime.date))
        else _listed_label(float(value) if value % 1 else int(value))
    )


def compile_key_list(listed: KeyList, groups: Sequence[tuple[str, Node]], domain: Domain) -> Keys:
    """Return the keys of all group-by columns as one: a label is a tuple, one value a column.

    Columns that the list leaves out are declared ones: each listed row appears with every combination of theirs.
    Raises UnknownName for a value that is not declared, QuestionRefused for a row listed twice or too many rows.
    """
    aliases = [alias for alias, _ in groups]
    unknown = [c for c in listed.columns if c not in aliases]
    if unknown:
        raise QuestionRefused(
            f"the listed keys name {unknown[0]!r}, which is not a key of the group-by; {nearest(unknown[0], aliases)}"
        )
    columns = [_column(alias, of, domain, listed) for alias, of in groups]
    codes: dict[tuple[int, ...], tuple[Label, ...]] = {}
    for row in _expand(listed, aliases, columns):
        code = tuple(c.code(v) for c, v in zip(columns, row, strict=True))
        if code in codes:
            raise QuestionRefused(f"the listed keys have the same row twice: {', '.join(map(repr, row))}")
        codes[code] = tuple(c.keys.labels[i] for c, i in zip(columns, code, strict=True))
    return _join_columns([c.keys for c in columns], codes, whole_list=columns[0].whole_list)


def list_shown(groups: Sequence[Keys], rows: Sequence[tuple[Label, ...]]) -> Keys:
    """Return the rows of keys that a private selection shows, one or more, as a public list of the same groups.

    Each text is the one that the engine grouped rows by, blanks and all, and no other counts as it. Total for any rows whose
    values are such texts, where keys are private, and labels, where they are declared: the question has been charged.
    """
    columns = []
    places = []
    for group, values in zip(groups, zip(*rows, strict=True), strict=True):
        listed = _match_texts(group.build, tuple(dict.fromkeys(values))) if group.private else group
        columns.append(listed)
        places.append({label: i for i, label in enumerate(listed.labels)})
    codes = {tuple(at[v] for at, v in zip(places, row, strict=True)): row for row in rows}
    return _join_columns(columns, codes, whole_list=groups[0].private)


def narrow_keys(keys: Keys, codes: Sequence[int]) -> Keys:
    """Return the keys of these codes alone, which ascend; a row of any other code has no key."""
    if len(codes) == len(keys.labels):
        return keys
    # the first and the last code of each run, and the place of the first
    runs: list[tuple[int, int, int]] = []
    for place, code in enumerate(codes):
        if runs and code == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], code, runs[-1][2])
        else:
            runs.append((code, code, place))

    def narrow(on: Primitives, cell: exp.Expression) -> exp.Expression:
        kinds = trees()
        code = keys.code_of(on, cell)
        if len(runs) > _MOST_RUNS:
            return on.place_of(_text(code), tuple(map(str, codes)))
        ifs = []
        for first, last, place in runs:
            within = kinds.Between(this=kinds.paren(code.copy()), low=whole(first), high=whole(last))
            ifs.append(kinds.If(this=within, true=plus(kinds.paren(code.copy()), place - first)))
        choice: exp.Expression = kinds.Case(ifs=ifs, default=kinds.Null()) if ifs else kinds.Null()
        whole_choice: exp.Expression = kinds.paren(choice)
        return whole_choice

    return Keys(tuple(keys.labels[code] for code in codes), keys.build, narrow)


def join_keys(columns: Sequence[Keys], rows: Sequence[tuple[int, ...]]) -> Keys:
    """Return the keys of several columns as one, of these combinations of their codes."""
    codes = {row: tuple(key.labels[code] for key, code in zip(columns, row, strict=True)) for row in rows}
    return _join_columns(columns, codes, whole_list=False)


def _match_texts(build: Build, texts: tuple[Any, ...]) -> Keys:
    return Keys(texts, build, lambda on, cell: on.place_of(cell, texts))


def _join_columns(
    columns: Sequence[Keys], codes: Mapping[tuple[int, ...], tuple[Label, ...]], *, whole_list: bool
) -> Keys:
    """Return the keys of several columns as one, of these codes; `whole_list` says that a column alone has no other keys."""
    if len(columns) == 1 and whole_list:
        return Keys(tuple(codes.values()), columns[0].build, columns[0].code)
    places = tuple(",".join(map(str, code)) for code in codes)
    return Keys(tuple(codes.values()), _join_codes(columns), lambda on, cell: on.place_of(cell, places))


@dataclass(frozen=True, slots=True)
class _ListedColumn:
    """One group-by column with what it is called, its keys, and the code of each label and of its text."""

    alias: str
    keys: Keys
    places: dict[Any, int]
    # the keys are those listed, in their order
    whole_list: bool

    def code(self, value: Label) -> int:
        """Return the code of a listed value; raises UnknownName where it is not declared."""
        code = self.places.get(value)
        if code is None:
            code = self.places.get(_as_text(value))
        if code is None:
            hint = nearest(str(value), [str(v) for v in self.keys.labels[:1000]])
            raise UnknownName(f"the listed keys have {value!r}, which is not a declared key of {self.alias!r}; {hint}")
        return code


@dataclass(frozen=True, slots=True)
class _Text:
    """A label's text, which stands for it in a list that holds text alone, such as a CSV file."""

    text: str


def _as_text(value: Label) -> _Text:
    return _Text("" if value is None else str(value).lower() if isinstance(value, bool) else str(value))


def _column(alias: str, of: Node, domain: Domain, listed: KeyList) -> _ListedColumn:
    index = listed.columns.index(alias) if alias in listed.columns else None
    column_keys = _open_keys(of, domain, [row[index] for row in listed.rows], alias) if index is not None else None
    whole_list = column_keys is not None
    if column_keys is None:
        column_keys = keys(of, domain)
    if column_keys.private:
        raise QuestionRefused(f"the keys of {alias!r} are private: list them too")
    places: dict[Any, int] = {}
    for i, label in enumerate(column_keys.labels):
        places.setdefault(_as_text(label), i)
    places.update({label: i for i, label in enumerate(column_keys.labels)})
    return _ListedColumn(alias, column_keys, places, whole_list)


def _open_keys(of: Node, domain: Domain, values: Sequence[Label], alias: str) -> Keys | None:
    """Return the keys of a column without declared values: those listed; None for a column that has its own."""
    if not is_open(of, domain):
        return None
    assert isinstance(of, Name)
    column = domain[of.name]
    distinct = list(dict.fromkeys(values))
    if any(v is None for v in distinct):
        raise QuestionRefused(
            f"the listed keys have a missing {alias!r}: rows in which it is missing have no key; leave it out"
        )
    if isinstance(column, Identifier):
        texts = tuple(dict.fromkeys(_as_text(v).text for v in distinct))
        exact = _match_texts(lambda on: on.text(of.name), texts)
        if any(t != t.strip(BLANKS) for t in texts):
            return exact
        # blanks around a text mean nothing
        return replace(exact, code=lambda on, cell: on.place_of(on.strip(cell), texts))
    numbers = [n for v in distinct if (n := _whole_number(v)) is not None]
    if len(numbers) < len(distinct):
        raise QuestionRefused(f"{alias!r} holds whole numbers within -2^62 and 2^62: list such keys")
    labels = tuple(dict.fromkeys(numbers))
    texts_of_numbers = tuple(map(str, labels))
    return Keys(
        labels,
        lambda on: _text(on.category_cell(of.name, whole=True)),
        lambda on, cell: on.place_of(cell, texts_of_numbers),
    )


def _whole_number(value: Label) -> int | None:
    """Return a listed whole number within what engines hold, also one that is written as text."""
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,19}", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > STORED:
        return None
    return value


def _expand(listed: KeyList, aliases: Sequence[str], columns: Sequence[_ListedColumn]) -> list[tuple[Label, ...]]:
    """Return the listed rows over all group-by columns: those that the list leaves out take every declared value."""
    rest = [c for c in columns if c.alias not in listed.columns]
    many = len(listed.rows)
    for column in rest:
        many *= len(column.keys.labels)
    if many > MOST_LISTED:
        raise QuestionRefused(f"the listed keys make {many:,} groups, above {MOST_LISTED:,}: list fewer")
    place = {name: i for i, name in enumerate([*listed.columns, *(c.alias for c in rest)])}
    others = list(itertools.product(*(c.keys.labels for c in rest)))
    whole = ((*row, *more) for row in listed.rows for more in others)
    return [tuple(row[place[alias]] for alias in aliases) for row in whole]


def _text(cell: exp.Expression) -> exp.Expression:
    kinds = trees()
    text: exp.Expression = kinds.cast(kinds.paren(cell), "text")
    return text


def _join_codes(columns: Sequence[Keys]) -> Build:
    """Return the codes of all columns as one text, NULL where a row has no key in one of them."""

    def build(on: Primitives) -> exp.Expression:
        kinds = trees()
        joined = None
        for column in columns:
            text = _text(column.row_code(on))
            if joined is not None:
                comma = kinds.DPipe(this=joined, expression=kinds.Literal.string(","), safe=False)
                text = kinds.DPipe(this=comma, expression=text, safe=False)
            joined = text
        whole: exp.Expression = kinds.paren(joined)
        return whole

    return build
