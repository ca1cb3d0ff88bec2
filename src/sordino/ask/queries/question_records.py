"""Questions as JSON data, and back: how a remote client sends the trees that people build in Python. Knows no data.

Whoever sends JSON is not trusted. Only the classes named here are read, each field by its declared type, and what the
builders check when a person writes a question is checked again, so a question that was read is one that could have been
written. Tables that a question names are found by the curator: none is ever read from JSON.
"""

from __future__ import annotations

import datetime
import functools
import math
import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from fractions import Fraction
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from sordino.ask.queries.aggregates.distinct import Distinct, DistinctSum
from sordino.ask.queries.aggregates.moments import MomentAggregate
from sordino.ask.queries.aggregates.most_common import MostCommon
from sordino.ask.queries.aggregates.quantile import Quantile
from sordino.ask.queries.aggregates.sums import Average, Count, Sum
from sordino.ask.queries.aggregation import Aggregation, Grouping
from sordino.ask.queries.build import Selection, as_aggregation
from sordino.ask.queries.expressions import nodes
from sordino.ask.queries.expressions.keys import KEY_SELECTIONS, KeyList, check_min_units, key_list
from sordino.ask.queries.gradient_vector import SteppedRegression, check_steps
from sordino.ask.queries.joins import Join, Unnest
from sordino.ask.queries.moment_matrix import MomentMatrix, check_moments
from sordino.ask.queries.per_unit import PerUnit, UnitValue
from sordino.ask.queries.post_processing import FormulaColumn, PostProcessing
from sordino.ask.queries.query import Aggregate
from sordino.ask.queries.row_steps import Fold, RowStep, check_fold
from sordino.ask.queries.sequences import (
    SEQUENCE_KINDS,
    FrameReach,
    SequenceOrder,
    SequenceValue,
    UnitSequence,
    check_sequence,
)
from sordino.ask.queries.sql.parse import SqlText, sql
from sordino.ask.queries.tabulation import Invariant, Levels, StatedError, Tabulation, check_tabulation
from sordino.core.errors import DeclarationError, QuestionRefused, nearest
from sordino.core.loss import format_number, to_fraction
from sordino.core.neighbors import ContributionBounds
from sordino.core.registration import check_registering
from sordino.core.source import PublicTable

_NODES: tuple[type, ...] = get_args(nodes.Node)
_AGGREGATES: tuple[type, ...] = (Count, Sum, Average, MomentAggregate, Distinct, DistinctSum, Quantile)
_STEPS: tuple[type, ...] = (Join, Unnest, PerUnit, UnitSequence, Fold)
_QUESTIONS: list[type] = [Aggregation, MostCommon, Tabulation, MomentMatrix, SteppedRegression]
_PARTS = (
    *_QUESTIONS,
    *(Grouping, PostProcessing, FormulaColumn, KeyList, UnitValue, ContributionBounds),
    *(SequenceValue, SequenceOrder, FrameReach, StatedError, Levels, Invariant),
)
_KINDS = {kind.__name__: kind for kind in (*_NODES, *_AGGREGATES, *_STEPS, *_PARTS)}
_OPEN: dict[Any, tuple[type, ...]] = {Aggregate: _AGGREGATES, RowStep: _STEPS, PublicTable: ()}
# What the builder of a registered question would refuse is refused when one is read.
_CHECKS: dict[type, Callable[[Any], Any]] = {}
_DEEPEST = 400
_TOO_DEEP = "the question is nested too deep: use is_in, or simplify it"
# the most characters of SQL
_LONGEST = 200_000
_SQL = ("text", "dialect", "keys", "min_units", "bounds")
_WORDS: dict[tuple[type, str], frozenset[str]] = {
    (nodes.Arithmetic, "op"): frozenset("+-*"),
    (nodes.Compare, "op"): frozenset(("=", "!=", "<", "<=", ">", ">=")),
    (nodes.Connective, "op"): frozenset(("and", "or")),
    (nodes.Match, "kind"): frozenset(("like", "ilike", "regex", "prefix", "suffix", "part")),
    (nodes.Apply, "function"): frozenset(
        ("round", "half_even", "to_whole", "floor", "ceil", "truncate", "divide", "remainder", "modulo", "sign", "sqrt")
    )
    | {"exp", "ln", "log2", "log10", "weeks", "days", "hours", "minutes", "seconds"},
    (nodes.TextFunction, "function"): frozenset(
        ("upper", "lower", "trim", "ltrim", "rtrim", "substr", "left", "right", "replace", "concat", "length", "number")
    ),
    (nodes.DateTrunc, "unit"): frozenset(
        ("second", "minute", "hour", "day", "week", "month", "quarter", "year", "decade", "century")
    ),
    (SequenceValue, "kind"): SEQUENCE_KINDS,
    (UnitValue, "kind"): frozenset(
        ("rows", "count", "distinct", "sum", "mean", "min", "max", "any", "all", "first", "last")
    )
    | {"median", "variance", "variance_pop", "mode"},
}


def register_question(question: type, check: Callable[[Any], Any]) -> None:
    """Let questions of a class be sent to a server: `check` returns one that was read as its builder makes it.

    Raises QuestionRefused or DeclarationError there for one that no builder makes; here DeclarationError for a name that is
    taken.
    """
    if _KINDS.get(question.__name__, question) is not question:
        raise DeclarationError(f"a class named {question.__name__} is sent to servers already: choose another name")
    check_registering(question, f"question {question.__name__}")
    _KINDS[question.__name__] = question
    _QUESTIONS.append(question)
    _CHECKS[question] = check


def registering_module(data: Any) -> str:
    """Return the module whose import registers the class of a question as JSON data; nothing for those always known."""
    return next((kind.__module__ for kind in _CHECKS if kind.__name__ == data.get("is")), "")


def is_whole(question: object) -> bool:
    """Return whether this is a whole question, of which a list is a batch."""
    return isinstance(question, (Aggregation, SqlText, MostCommon, Tabulation))


def question_to_json(question: Any) -> Any:
    """Return a question as JSON data: SQL, a question in Python, or a list of whole questions.

    Raises QuestionRefused for what is no question, in the words of a local table.
    """
    if isinstance(question, (list, tuple)) and any(map(is_whole, question)):
        return [question_to_json(one) for one in question]
    if isinstance(question, str):
        raise QuestionRefused('write SQL as sd.sql("SELECT ..."): text alone could mean a column')
    if isinstance(question, SqlText):
        return _sql_to_json(question)
    return _write(question if type(question) in _QUESTIONS else as_aggregation(question))


def question_from_json(data: Any) -> Any:
    """Return the question, or the list of them, that `question_to_json` wrote; raises DeclarationError or QuestionRefused."""
    if isinstance(data, list):
        if not 0 < len(data) <= 1000 or any(isinstance(one, list) for one in data):
            raise DeclarationError("must be a question, or a list of 1 to 1,000", key="question")
        return [question_from_json(one) for one in data]
    if isinstance(data, dict) and data.get("is") == "SqlText":
        return _sql_from_json(data)
    try:
        return _read(data, tuple(_QUESTIONS), 0)
    except RecursionError:
        raise QuestionRefused(_TOO_DEEP) from None


def _write(value: Any) -> Any:
    if isinstance(value, Fraction):
        return {"number": format_number(value)}
    if isinstance(value, datetime.datetime):
        return {"moment": value.isoformat()}
    if isinstance(value, datetime.date):
        return {"day": value.isoformat()}
    if isinstance(value, (tuple, list)):
        return [_write(item) for item in value]
    if is_dataclass(value) and type(value) in _KINDS.values():
        usual = {f.name: f.default for f in fields(value)}
        values = {name: getattr(value, name) for name in usual}
        return {"is": type(value).__name__, **{n: _write(v) for n, v in values.items() if v != usual[n] or v is True}}
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    raise QuestionRefused(f"{type(value).__name__} cannot be sent to a server: ask it where the table is")


def _sql_to_json(question: SqlText) -> dict[str, Any]:
    keys = question.keys
    if hasattr(keys, "__arrow_c_stream__") or hasattr(keys, "to_arrow_table"):
        raise QuestionRefused("for SQL that is sent to a server, keys= is a list of tuples: write keys=[(...), ...]")
    if keys is not None and not isinstance(keys, str):
        keys = [_write(row) for row in keys]
    bounds = None if question.bounds is None else question.bounds.to_dict()
    plain = {"text": question.text, "dialect": question.dialect, "keys": keys, "bounds": bounds}
    return {"is": "SqlText", **{n: v for n, v in plain.items() if v is not None}, "min_units": question.min_units}


def _sql_from_json(data: Mapping[str, Any]) -> SqlText:
    _check_keys(data, _SQL)
    text = data.get("text")
    dialect = data.get("dialect")
    keys = data.get("keys")
    bounds = data.get("bounds", {})
    least = data.get("min_units", 1)
    if not isinstance(text, str) or len(text) > _LONGEST or not isinstance(dialect, (str, types.NoneType)):
        raise DeclarationError(f"must be SQL text of at most {_LONGEST:,} characters", key="question")
    if not isinstance(keys, (str, list, types.NoneType)) or not isinstance(bounds, dict) or type(least) is not int:
        raise DeclarationError("has keys, bounds or min_units that are none", key="question")
    label = get_type_hints(KeyList)["rows"]
    rows = (
        [_read(r if isinstance(r, list) else [r], get_args(label)[0], 0) for r in keys]
        if isinstance(keys, list)
        else keys
    )
    _check_keys(bounds, [name for name, _ in ContributionBounds().items()])
    read = sql(text, dialect=dialect, keys=rows, min_units=least)
    return read.bound_contributions(**bounds) if bounds else read


def _check_keys(data: Mapping[str, Any], names: Any) -> None:
    for key in data:
        if key not in names and key != "is":
            raise DeclarationError(f"has no such key; {nearest(key, names)}", key=f"question: {key[:40]!r}")


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


@functools.cache
def _members(hint: Any) -> tuple[Any, ...]:
    """Return the types that a value of a field may have, one of several; protocols by the classes that are read."""
    if isinstance(hint, tuple):
        return tuple(m for part in hint for m in _members(part))
    if get_origin(hint) in (Union, types.UnionType):
        return tuple(m for part in get_args(hint) for m in _members(part))
    return _OPEN.get(hint, (hint,))


def _read(data: Any, hint: Any, deep: int) -> Any:
    """Read a value of a type from JSON data; raises DeclarationError where it is of another."""
    if deep > _DEEPEST:
        raise QuestionRefused(_TOO_DEEP)
    members = _members(hint)
    if isinstance(data, dict):
        return _read_object(data, members, deep)
    if isinstance(data, list):
        for member in members:
            if get_origin(member) is tuple:
                return _read_tuple(data, get_args(member), deep)
    for member in members:
        if get_origin(member) is Literal and data in get_args(member) and isinstance(data, str):
            return data
        if member is type(data) and (member is not float or math.isfinite(data)):
            return data
    raise _mistaken()


def _read_tuple(data: list[Any], items: tuple[Any, ...], deep: int) -> tuple[Any, ...]:
    each = [items[0]] * len(data) if Ellipsis in items else list(items)
    if len(each) != len(data):
        raise _mistaken()
    return tuple(_read(one, kind, deep + 1) for one, kind in zip(data, each, strict=True))


def _read_object(data: dict[str, Any], members: tuple[Any, ...], deep: int) -> Any:
    readers: dict[str, tuple[type, Callable[[str], Any]]] = {
        "number": (Fraction, lambda text: to_fraction(text, name="question")),
        "day": (datetime.date, datetime.date.fromisoformat),
        "moment": (datetime.date, datetime.datetime.fromisoformat),
    }
    if len(data) == 1 and (key := next(iter(data))) in readers:
        kind, read = readers[key]
        if kind not in members or not isinstance(data[key], str) or len(data[key]) > 1000:
            raise _mistaken()
        try:
            return read(data[key])
        except (ValueError, ZeroDivisionError, OverflowError):
            raise _mistaken() from None
    kind = _KINDS.get(str(data.get("is")), types.NoneType)
    if kind not in members or kind is types.NoneType:
        raise _mistaken()
    hints = _hints(kind)
    _check_keys(data, hints)
    values: dict[str, Any] = {}
    for name in data:
        if name == "is":
            continue
        values[name] = value = _read(data[name], hints[name], deep + 1)
        if isinstance(value, str) and value not in _WORDS.get((kind, name), (value,)):
            raise _mistaken()
    try:
        part = kind(**values)
    except TypeError:
        raise _mistaken() from None
    return _check(part)


def _mistaken() -> DeclarationError:
    return DeclarationError("is not one that sordino wrote: ask with the same version here and there", key="question")


def _check(part: Any) -> Any:
    """Return a part of a question; raises QuestionRefused where its builder would."""
    if isinstance(part, _NODES):
        return part
    for name in part.__dataclass_fields__:
        parts = getattr(part, name)
        for node in parts if isinstance(parts, tuple) else (parts,):
            if isinstance(node, _NODES):
                nodes.depth(cast(nodes.Node, node))
    if isinstance(part, Aggregation):
        return _check_aggregation(part)
    if isinstance(part, Tabulation):
        return check_tabulation(part)
    if isinstance(part, Fold):
        return check_fold(part)
    if isinstance(part, MomentMatrix):
        return check_moments(part)
    if isinstance(part, SteppedRegression):
        return check_steps(part)
    if isinstance(part, Sum) and part.per_unit is not None and part.per_unit[0] > part.per_unit[1]:
        raise QuestionRefused("per_unit takes the lower bound first, such as per_unit=(0, 500)")
    if isinstance(part, DistinctSum) and part.power not in (0, 1, 2):
        raise _mistaken()
    if isinstance(part, MomentAggregate) and part.ddof not in (0, 1):
        raise QuestionRefused("ddof is 0 (the rows themselves) or 1 (a sample)")
    if isinstance(part, SequenceValue):
        check_sequence(part)
    if isinstance(part, KeyList):
        return key_list(list(part.rows), part.columns)
    if isinstance(part, PostProcessing):
        for count in (part.limit or 0, part.offset):
            if count < 0:
                raise QuestionRefused("limit takes a number of rows, such as limit(10)")
    return _CHECKS[type(part)](part) if type(part) in _CHECKS else part


def _check_aggregation(question: Aggregation) -> Aggregation:
    if question.sample is not None:
        Selection().sample(question.sample)
    check_min_units(question.min_units)
    if question.key_selection is not None and question.key_selection not in KEY_SELECTIONS:
        raise _mistaken()
    return question
