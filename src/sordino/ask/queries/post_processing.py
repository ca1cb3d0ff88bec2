"""After: what is done to a noisy answer once it is released - HAVING, ORDER BY, LIMIT. It may not know an exact answer.

It reads the released rows alone, so it is post-processing: it costs nothing, and which rows are shown follows from noisy
numbers and declared keys only.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from sordino.ask.queries.expressions.nodes import (
    OPERATORS,
    Absolute,
    Apply,
    Arithmetic,
    Clip,
    Compare,
    Connective,
    Constant,
    IsIn,
    IsNull,
    Name,
    Node,
    Not,
    When,
    depth,
    describe,
    plain,
    walk,
)
from sordino.ask.queries.formulas import FormulaColumn, check_conditions, is_condition, rename
from sordino.core.errors import QuestionRefused, UnknownName, nearest
from sordino.core.estimates.estimate import take_rows
from sordino.core.estimates.formula import Formula, evaluate
from sordino.core.estimates.selected import Selected
from sordino.core.release import Key, Output
from sordino.core.time_zones import parse_moment

_BIN = re.compile(r"\[(-?[0-9]+(?:\.[0-9]+)?(?:/[0-9]+)?), ")
_CONDITIONS = (Compare, Connective, Not, IsIn, IsNull)


@dataclass(frozen=True, slots=True)
class PostProcessing:
    """Keep released rows that meet `having`, in the order of `order` (an expression, descending or not), `limit` at most.

    `offset` rows are skipped first. Names in it are columns of the answer.
    """

    having: Node | None = None
    order: tuple[tuple[Node, bool], ...] = ()
    limit: int | None = None
    offset: int = 0

    def check(self, columns: Sequence[str], truths: Collection[str] = ()) -> None:
        """Raise QuestionRefused or UnknownName unless it can be read from the columns of the answer.

        `truths` are those that hold true and false, which alone are conditions by themselves.
        """
        for node in [*([] if self.having is None else [self.having]), *(n for n, _ in self.order)]:
            depth(node)
            _check_names(node, columns)
            check_conditions(node, truths)
            for at in walk(node):
                # what a formula cannot compute is refused now: after the charge it would fail
                if isinstance(at, Apply | Clip):
                    FormulaColumn("", at).tree(dict.fromkeys(columns, 0))
        if self.having is not None and not is_condition(self.having, truths):
            raise QuestionRefused(f"having needs a condition on the answer, such as n > 30: {describe(self.having)}")
        if (self.limit or 0) < 0 or self.offset < 0:
            raise QuestionRefused("limit and offset are numbers of rows, 0 or more")

    def selects(self, keys: Sequence[str], rows: int | None) -> bool:
        """Return whether noisy values decide which rows are shown: it names a column that is no key, and can cut rows.

        `keys` are the names of the key columns; `rows` how many rows the answer has, None where that is not public.
        """
        cuts = self.offset > 0 or (self.limit is not None and (rows is None or self.limit < rows))
        deciding = [*([] if self.having is None else [self.having]), *(n for n, _ in self.order if cuts)]
        return any(isinstance(at, Name) and at.name not in keys for node in deciding for at in walk(node))

    def rename(self, names: Mapping[str, str]) -> PostProcessing:
        """Return the same with other names for the columns that it reads."""
        having = None if self.having is None else rename(self.having, names)
        return replace(self, having=having, order=tuple((rename(node, names), down) for node, down in self.order))

    def describe(self) -> str:
        """Return what is done, in words."""
        words = []
        if self.having is not None:
            words.append(f"of the answer, rows with {describe(self.having)}")
        if self.order:
            listed = [describe(n) + (" descending" if down else "") for n, down in self.order]
            words.append(f"ordered by {', '.join(listed)}")
        if self.limit is not None:
            words.append(f"the first {self.limit}" + (f" after {self.offset}" if self.offset else ""))
        elif self.offset:
            words.append(f"all but the first {self.offset}")
        return ", ".join(words)

    def plain(self) -> Any:
        """Return it as canonical JSON data."""
        skipped = [self.offset] if self.offset else []
        return [plain(self.having), [[plain(n), down] for n, down in self.order], self.limit, *skipped]


def select_rows(after: PostProcessing, columns: Mapping[str, Sequence[Any]]) -> list[int]:
    """Return which rows of a released answer are shown, in what order, by their places from 0.

    `columns` are the released columns by name: keys and noisy values. A row whose condition is missing is not kept;
    missing values come last, whichever way the order goes; bins are ordered by their lower ends.

    >>> from sordino.ask.queries.expressions.expr import col
    >>> select_rows(PostProcessing((col("n") > 3).node, ((col("n").node, True),), 2), {"n": [5, 2, 9, 4]})
    [2, 0]
    """
    height = max((len(c) for c in columns.values()), default=0)
    rows = [{name: column[i] for name, column in columns.items()} for i in range(height)]
    # a column that holds true and false holds 1 and 0 where it is computed from the answer
    places = [i for i in range(height) if after.having is None or _value(after.having, rows[i]) in (True, 1)]
    for node, down in reversed(after.order):  # sorting is stable, so the first key goes last
        keys = {i: _sortable(_value(node, rows[i])) for i in places}
        known = sorted((i for i in places if keys[i] is not None), key=keys.__getitem__, reverse=down)
        places = [*known, *(i for i in places if keys[i] is None)]
    return places[after.offset : None if after.limit is None else after.offset + after.limit]


def finish_answer(
    after: PostProcessing | None,
    formulas: Sequence[FormulaColumn],
    hidden: Sequence[str],
    keys: tuple[Key, ...],
    outputs: tuple[Output, ...],
    *,
    together: bool,
) -> tuple[tuple[Key, ...], tuple[Output, ...]]:
    """Return what is shown of a noisy answer: its formulas, what `after` leaves of its rows, nothing that is hidden.

    Where noisy values decide which rows are left and the intervals are to hold `together`, those of the rows that are left
    allow for all rows: see `Selected`.
    """
    if formulas:
        keys, outputs = _add_formulas(formulas, keys, outputs)
    if after is not None:
        columns: dict[str, Sequence[Any]] = {k.name: k.labels for k in keys}
        columns |= {o.name: o.estimate.values() for o in outputs}
        places = select_rows(after, columns)
        rows = len(keys[0].labels) if keys else 1
        chosen = together and after.selects([k.name for k in keys], rows)
        keys = tuple(Key(k.name, tuple(k.labels[i] for i in places), k.kind) for k in keys)
        outputs = tuple(Output(o.name, take_rows(o.estimate, places), o.mechanism) for o in outputs)
        if chosen:
            outputs = tuple(Output(o.name, Selected(o.estimate, max(1, rows)), o.mechanism) for o in outputs)
    return keys, tuple(o for o in outputs if o.name not in hidden)


def _add_formulas(
    formulas: Sequence[FormulaColumn], keys: tuple[Key, ...], outputs: tuple[Output, ...]
) -> tuple[tuple[Key, ...], tuple[Output, ...]]:
    """Return the answer with the columns that are computed from it; a constant is a key that all rows have."""
    rows = len(keys[0].labels) if keys else 1
    released = {o.name: o for o in outputs}
    labels: list[Key] = []
    made: list[Output] = []
    for formula in formulas:
        if formula.is_constant:
            labels.append(Key(formula.alias, (formula.label,) * rows))
            continue
        parts = [released[name] for name in formula.names()]
        tree = formula.tree({p.name: i for i, p in enumerate(parts)})
        words = "; ".join(dict.fromkeys(p.mechanism for p in parts))
        alone = len(parts) == 1 and tree == ["column", 0]
        estimate = parts[0].estimate if alone else Formula(tree, tuple(p.estimate for p in parts))
        made.append(Output(formula.alias, estimate, words))
    return (*keys, *labels), (*outputs, *made)


def _check_names(node: Node, columns: Sequence[str]) -> None:
    for at in walk(node):
        if isinstance(at, Name):
            if at.name not in columns:
                raise UnknownName(f"the answer has no column {at.name!r}; {nearest(at.name, columns)}")
        elif not isinstance(at, (Constant, Absolute, Arithmetic, Apply, Clip, When, *_CONDITIONS)):
            raise QuestionRefused(f"{describe(at)} cannot be computed from an answer: use comparisons and arithmetic")


def _value(node: Node, row: Mapping[str, Any]) -> Any:
    """Return the value of an expression in a released row, None where it is missing or makes no sense."""
    if isinstance(node, Name):
        return row[node.name]
    if isinstance(node, Constant):
        return node.value
    if isinstance(node, IsNull):
        return _value(node.of, row) is None
    if isinstance(node, Connective):
        pair = _value(node.left, row), _value(node.right, row)
        decided = node.op == "or"
        return decided if decided in pair else None if None in pair else not decided
    if isinstance(node, When):
        chosen = node.left if _value(node.of, row) in (True, 1) else node.right
        return None if chosen is None else _value(chosen, row)
    if isinstance(node, (Not, Absolute, IsIn)):
        of = _value(node.of, row)
        if of is None:
            return None
        if isinstance(node, Not):
            return not of
        if isinstance(node, Absolute):
            return abs(of) if isinstance(of, int | float | Fraction) else None
        return any(_of_two("=", of, v) for v in node.values)
    if isinstance(node, (Compare, Arithmetic)):
        return _of_two(node.op, _value(node.left, row), _value(node.right, row))
    if isinstance(node, (Apply, Clip)):
        return _of_formula(FormulaColumn("", node), row)
    raise QuestionRefused(f"{describe(node)} cannot be computed from an answer")


def _of_formula(formula: FormulaColumn, row: Mapping[str, Any]) -> float | None:
    """Return what a formula makes of a row's numbers, None where it has no value."""
    import numpy as np

    names = formula.names()
    numbers = [row[n] if isinstance(row[n], (int, float)) else math.nan for n in names]
    made = float(evaluate(formula.tree({n: i for i, n in enumerate(names)}), [np.array(float(n)) for n in numbers]))
    return made if math.isfinite(made) else None


def _of_two(op: str, left: Any, right: Any) -> Any:
    """Return left op right; None where one is missing, or where text meets a number."""
    left, right = _as_time(left, right), _as_time(right, left)
    if isinstance(left, datetime.date) != isinstance(right, datetime.date):
        return None
    if left is None or right is None or isinstance(left, str) != isinstance(right, str):
        return None
    if op in "+-*" and (isinstance(left, str) or isinstance(right, str)):
        return None
    if op in "+-*" and isinstance(left, datetime.date):
        is_days = op == "-" and not isinstance(left, datetime.datetime)
        return (left - right).days if is_days else None
    if isinstance(left, float) or isinstance(right, float):
        # a constant beyond the largest float is beyond every number of the answer
        left, right = _as_float(left), _as_float(right)
    return OPERATORS[op](left, right)


def _as_float(value: float | Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)


def _as_time(value: Any, beside: Any) -> Any:
    """Return a constant beside a date or a moment of the answer as one too; None for what is neither."""
    if not isinstance(beside, datetime.date) or not isinstance(value, (str, datetime.date)):
        return value
    try:
        moment = parse_moment(value) if isinstance(value, str) else value
    except ValueError:
        return None
    if not isinstance(beside, datetime.datetime):
        return moment.date() if isinstance(moment, datetime.datetime) else moment
    if not isinstance(moment, datetime.datetime):
        moment = datetime.datetime(moment.year, moment.month, moment.day)
    return moment if moment.utcoffset() is not None else moment.replace(tzinfo=beside.tzinfo)


def _sortable(value: Any) -> Any:
    """Return what a value is ordered by: a bin's label by its lower end; kinds apart from each other."""
    if value is None:
        return None
    if isinstance(value, str):
        found = _BIN.match(value)
        return (1, float(Fraction(found.group(1))), "") if found else (2, 0.0, value)
    if isinstance(value, datetime.datetime):
        moment = value if value.tzinfo is None else value.astimezone(datetime.UTC)
        return (3, moment.toordinal(), moment.time().isoformat(timespec="microseconds"))
    return (3, value.toordinal(), "") if isinstance(value, datetime.date) else (0, value, "")
