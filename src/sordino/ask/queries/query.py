"""What every question knows about itself, and the parts that the answerable ones are made of. Knows no data.

Planning can be stopped: it is free, so whoever serves it to others limits what it may take.
"""

from __future__ import annotations

import dataclasses
import datetime
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast, runtime_checkable

import numpy as np

from sordino.ask.queries.expressions.bound_number import BoundNumber
from sordino.ask.queries.expressions.nodes import Name, Node, depth
from sordino.ask.queries.sensitivity_rules import count_sensitivity, sum_sensitivity
from sordino.core.domain import Domain
from sordino.core.errors import QuestionRefused
from sordino.core.estimates.estimate import ColumnEstimate
from sordino.core.estimates.noisy import Noisy, to_units
from sordino.core.estimates.weighted_sum import Mix, SharedNoise, WeightedSum
from sordino.core.neighbors import Neighbors, Sensitivity
from sordino.core.noise.laws import NoiseLaw, sum_error
from sordino.core.primitives import Primitives
from sordino.core.source import PrivateTable, PublicTable

if TYPE_CHECKING:
    from sqlglot import exp
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


@runtime_checkable
class Query(Protocol):
    """A question as a frozen tree; it knows three things about itself."""

    def exact(self, on: Primitives, domain: Domain) -> exp.Select:
        """Return the SQL tree of its exact answer, by an engine's primitives."""

    def sensitivity(self, domain: Domain, neighbors: Neighbors) -> Sensitivity:
        """Return how far one unit can move its exact answer."""

    def describe(self) -> str:
        """Return the question as a sentence."""


@dataclass(frozen=True, slots=True)
class SqlAggregate:
    """One SQL aggregate: rows (COUNT of all), count (of those with the value), sum (of the value's steps), distinct,
    distinct_sum (of the different values' steps).

    `others` are the rest of a combination whose different values are counted; one with a missing part is none, but to the
    kind combinations. With
    `per_unit`, the sum of each unit's total in the group, clipped to these bounds, in steps. With `weights`, the sum of the
    units' weights: results[i] for a unit with i of `starts` not above its number of groups.
    """

    kind: str
    of: BoundNumber | None
    per_unit: tuple[int, int] | None = None
    others: tuple[BoundNumber, ...] = ()
    weights: tuple[tuple[int, ...], tuple[int, ...]] | None = None

    def sql(self, on: Primitives) -> exp.Expression:
        """Return the aggregate by an engine's primitives."""
        from sqlglot import exp

        if self.weights is not None:
            return exp.Sum(this=on.look_up(on.unit_groups(), *self.weights))
        if self.per_unit is not None:
            assert self.of is not None
            return exp.Sum(this=on.clip(on.unit_total(self.of.build(on)), *self.per_unit))
        counts = on.counts()
        if self.of is None:
            return exp.Count(this=exp.Star() if counts is None else exp.Case(ifs=[exp.If(this=counts, true=_one())]))
        cell = self.of.build(on)
        if self.kind == "combinations":
            cell = exp.Tuple(expressions=[cell, *(other.build(on) for other in self.others)])
        cell = cell if counts is None else exp.Case(ifs=[exp.If(this=counts, true=cell)])
        if self.kind == "combinations":
            return exp.Count(this=exp.Distinct(expressions=[cell]))
        if self.kind == "distinct":
            parts = [cell, *(other.build(on) for other in self.others)]
            return exp.Count(this=exp.Distinct(expressions=[_combine(parts) if self.others else cell]))
        if self.kind == "distinct_sum":
            return exp.Sum(this=exp.Distinct(expressions=[cell]))
        return exp.Count(this=on.present(cell)) if self.kind == "count" else on.total(cell, self.of.stored.largest)


def _combine(parts: list[exp.Expression]) -> exp.Expression:
    """Return a combination of cells, NULL where one is: of several arguments, sqlglot's own writer reads the text again."""
    from sqlglot import exp

    missing = [exp.Is(this=exp.paren(part.copy()), expression=exp.Null()) for part in parts]
    ifs = [exp.If(this=condition, true=exp.Null()) for condition in missing]
    return exp.Case(ifs=ifs, default=exp.Tuple(expressions=parts))


def _one() -> exp.Expression:
    from sqlglot import exp

    return exp.Literal.number(1)


class SensitivityRule(Protocol):
    """How far one unit moves a vector that is neither a count nor a sum of rows."""

    def sensitivity(self, neighbors: Neighbors, *, cells: int, droppable: bool) -> Sensitivity:
        """Return how far one unit moves the vector, in the question's units."""


@dataclass(frozen=True, slots=True)
class Vector:
    """A vector of whole numbers, one a group, that gets noise of its own: a weighted sum of terms, in steps of `unit`.

    A count where `bounds` is None; else the sum of values that lie within `bounds`, in steps, row by row. What is neither
    has a `rule` of its own for its sensitivity. The second term of a centred sum takes the middle off each row: `lift`.
    """

    role: str
    terms: tuple[tuple[int, SqlAggregate], ...]
    unit: Fraction
    bounds: tuple[int, int] | None
    missable: bool
    rule: SensitivityRule | None = None
    # of sums of dates or moments: their kind, and the zone of the clock that shows them
    time: tuple[str, str] | None = None

    @property
    def lift(self) -> int:
        """The number subtracted from each row, in steps."""
        return -self.terms[1][0] if len(self.terms) > 1 else 0

    @property
    def ends(self) -> tuple[int, int]:
        """The bounds of a vector of sums."""
        assert self.bounds is not None
        return self.bounds

    def sensitivity(self, neighbors: Neighbors, *, cells: int, droppable: bool) -> Sensitivity:
        """Return how far one unit moves the vector, in the question's units."""
        drop = droppable or self.missable
        if self.rule is not None:
            return self.rule.sensitivity(neighbors, cells=cells, droppable=drop)
        if self.bounds is None:
            return count_sensitivity(neighbors, cells=cells, droppable=drop)
        low, high = (b * self.unit for b in self.bounds)
        return sum_sensitivity(neighbors, lower=low, upper=high, cells=cells, droppable=drop)


def share_noise(
    part: Vector, noisy: Sequence[Noisy], shared: SharedNoise, *, least: int | None = None, most: int | None = None
) -> WeightedSum:
    """Return a number that follows from noisy vectors which other aggregates of the question read too."""
    return WeightedSum(tuple(noisy), shared.mix[0], part.unit, shared.vectors, least, most)


@dataclass(frozen=True, slots=True)
class ExpectedNoise:
    """What an expected error follows from: the laws of the vectors' noise, a confidence, and public guesses at rows and mean.

    Where parts follow from vectors by the rows of a `mix`, the laws are those of the vectors; else of the parts.
    """

    laws: Sequence[NoiseLaw]
    confidence: float
    rows: int | None = None
    mean: float | None = None
    mix: Mix = ()


def vector_error(part: Vector, expected: ExpectedNoise) -> float:
    """Return the error of a number that is one noisy vector, or follows from noisy vectors."""
    if not expected.mix:
        return to_units(expected.laws[0].error(expected.confidence), part.unit)
    return float(sum_error(tuple(expected.laws), expected.mix[0], expected.confidence) * part.unit)


class Aggregate(Protocol):
    """One column of the answer: its vectors to count or sum, and how noisy vectors become an estimate."""

    @property
    def alias(self) -> str:
        """The name of its column."""

    def parts(self, domain: Domain) -> Sequence[Vector]:
        """Return the vectors to release; raises QuestionRefused where none has a bounded sensitivity."""

    def estimate(
        self, parts: Sequence[Vector], noisy: Sequence[Noisy], shared: SharedNoise | None = None
    ) -> ColumnEstimate:
        """Return the estimate that follows from the noisy parts, or from vectors that are `shared`, by the rows of a mix."""

    def error(self, parts: Sequence[Vector], expected: ExpectedNoise) -> float:
        """Return the error not exceeded with probability `expected.confidence`; without rows, that of a mean times the rows."""

    def plain(self) -> Any:
        """Return the aggregate as canonical JSON data."""

    def describe(self) -> str:
        """Return the aggregate in words."""


_PLAIN = frozenset({int, str, bool, float, bytes, type(None), Fraction, Decimal, datetime.date, datetime.datetime})
# Declarations may stand in a question, since the curator replaces them by its own.
_PLAIN |= {Domain, PrivateTable, PublicTable}


def refuse_foreign(question: object) -> None:
    """Raise QuestionRefused unless a question and all its parts are of Sordino's own classes, or plain values.

    >>> class Mine:
    ...     pass
    >>> refuse_foreign(Mine())
    Traceback (most recent call last):
    sordino.errors.QuestionRefused: a question is made of Sordino's own classes, and Mine is none of them: ...
    """
    waiting: list[Any] = [question]
    # A list may hold itself, and one part may stand in many places.
    seen: set[int] = set()
    # Our own classes that were met, with the names of their fields.
    field_names: dict[type, tuple[str, ...]] = {}
    while waiting:
        part = waiting.pop()
        kind = type(part)
        if kind in _PLAIN or id(part) in seen:
            continue
        seen.add(id(part))
        if kind in (tuple, list, set, frozenset):
            waiting += part
        elif kind is dict:
            waiting += [*part.keys(), *part.values()]
        elif kind in field_names or (is_dataclass(kind) and _is_own(kind)):
            names = field_names.setdefault(kind, tuple(field.name for field in fields(kind)))
            waiting += [getattr(part, name) for name in names]
        elif kind.__module__ != "numpy" or getattr(part, "dtype", np.dtype(object)).kind == "O":
            raise QuestionRefused(
                f"a question is made of Sordino's own classes, and {kind.__name__[:60]} is none of them: its sensitivity has "
                "no proof here; use sd.count, sd.sum and the like, or MarginalQuery, Distances, MagnitudeHistogram, TailCount "
                "and Contributions"
            )


def _is_own(kind: type) -> bool:
    """Return whether a class stands in one of Sordino's modules under its own name."""
    module = sys.modules.get(kind.__module__) if kind.__module__.startswith("sordino.") else None
    return module is not None and getattr(module, kind.__name__, None) is kind


T = TypeVar("T")


def replace_names(thing: T, meaning: Callable[[str], Node]) -> T:
    """Return an expression, an aggregate, a group or a row step with every column's name replaced by what it means."""
    return cast(T, _replace(thing, meaning))


def _replace(thing: Any, meaning: Callable[[str], Node]) -> Any:
    if isinstance(thing, Name):
        return meaning(thing.name)
    if isinstance(thing, tuple):
        return tuple(_replace(item, meaning) for item in thing)
    if not dataclasses.is_dataclass(thing) or isinstance(thing, type):
        return thing
    if hasattr(thing, "left") or hasattr(thing, "of"):
        depth(thing)  # type: ignore[arg-type]  # it looks at fields only
    return dataclasses.replace(
        thing, **{f.name: _replace(getattr(thing, f.name), meaning) for f in dataclasses.fields(thing)}
    )


_CHECK: ContextVar[Callable[[], None] | None] = ContextVar("_CHECK", default=None)


def check_planning() -> None:
    """Raise where planning has to stop here; called once for each statement that is parsed and each plan that is made."""
    check = _CHECK.get()
    if check is not None:
        check()


@contextmanager
def planning_within(check: Callable[[], None]) -> Iterator[None]:
    """Call `check`, which may raise, between the steps of what the block plans in this thread."""
    before = _CHECK.set(check)
    try:
        yield
    finally:
        _CHECK.reset(before)
