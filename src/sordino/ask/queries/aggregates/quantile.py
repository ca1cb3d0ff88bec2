"""Quantile: the values below which declared shares of the rows lie - median, quantiles, IQR. Knows no data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

from sordino.ask.queries.aggregates.sums import count_part, require_bounds
from sordino.ask.queries.aggregation import CompiledQuery
from sordino.ask.queries.build import AggregateExpr, Column, label
from sordino.ask.queries.expressions.bound_number import BoundNumber
from sordino.ask.queries.expressions.expr import Expr, col
from sordino.ask.queries.expressions.keys import Keys
from sordino.ask.queries.expressions.nodes import Constant, Node, describe, plain
from sordino.ask.queries.expressions.sql_trees import whole
from sordino.core.domain import Domain
from sordino.core.errors import QuestionRefused
from sordino.core.loss import Number, format_number, to_fraction
from sordino.core.primitives import NARROW, Primitives

if TYPE_CHECKING:
    from sqlglot import exp

MOST_LEVELS = 99
# so many runs of steps are cheaper to compare with than to look up
_FEW = 8


@dataclass(frozen=True, slots=True)
class Quantile:
    """The values of a bounded number at `levels` of its order; rows in which it is missing take no part.

    With `spread` the answer is the last level's value less the first's. A column a level otherwise, in the order given.
    """

    of: Node
    levels: tuple[Fraction, ...]
    alias: str
    spread: bool = False

    @property
    def unit_kind(self) -> str | None:
        """Which value it is of one person's rows; None for none."""
        return "median" if self.levels == (Fraction(1, 2),) and not self.spread else None

    def __post_init__(self) -> None:
        if not self.levels or len(self.levels) > MOST_LEVELS:
            raise QuestionRefused(f"a question takes 1 to {MOST_LEVELS} quantiles, not {len(self.levels)}")
        for level in self.levels:
            if level in (0, 1):
                which, near = ("least", "0.01") if level == 0 else ("largest", "0.99")
                raise QuestionRefused(
                    f"the quantile {level} is the {which} value, which one row decides: ask for the quantile {near}"
                )
            if not 0 < level < 1:
                raise QuestionRefused(
                    f"a quantile's level must lie between 0 and 1, such as 0.9, not {format_number(level)}"
                )
        if len(set(self.levels)) != len(self.levels):
            raise QuestionRefused("the same quantile is asked for twice: name each level once")

    def columns(self) -> tuple[str, ...]:
        """Return the names of the answer's columns."""
        if self.spread or len(self.levels) == 1:
            return (self.alias,)
        return tuple(f"{self.alias}_{format_number(level)}" for level in self.levels)

    def measure(self, domain: Domain) -> tuple[BoundNumber, int, int]:
        """Return the number with its bounds in steps; raises QuestionRefused where it has none."""
        return require_bounds(self.of, domain, "quantile")

    def parts(self, domain: Domain) -> tuple[()]:
        """Return no vectors: what is released is drawn, not noised; raises QuestionRefused where there are no bounds."""
        self.measure(domain)
        return ()

    def plain(self) -> Any:
        """Return the aggregate as canonical JSON data."""
        return ["iqr" if self.spread else "quantile", plain(self.of), [format_number(level) for level in self.levels]]

    def describe(self) -> str:
        """Return the aggregate in words."""
        if self.spread:
            return f"the interquartile range of {describe(self.of)}"
        if self.levels == (Fraction(1, 2),):
            return f"the median of {describe(self.of)}"
        listed = ", ".join(format_number(level) for level in self.levels)
        return f"the {'quantile' if len(self.levels) == 1 else 'quantiles'} {listed} of {describe(self.of)}"


def median(of: Column) -> AggregateExpr:
    """Find the value in the middle of a bounded number's order.

    >>> median("age")
    <the median of age, as median_age>
    """
    return _aggregate(of, (Fraction(1, 2),), "median")


def quantile(of: Column, level: Number) -> AggregateExpr:
    """Find the value that a share `level` of the rows lie below, above 0 and below 1.

    The least and the largest value are refused, as one row decides them: ask for the levels 0.01 and 0.99.

    >>> quantile("age", 0.9)
    <the quantile 0.9 of age, as quantile_0.9_age>
    """
    at = to_fraction(level, name="the quantile's level")
    return _aggregate(of, (at,), f"quantile_{format_number(at)}")


def quantiles(of: Column, levels: Sequence[Number]) -> AggregateExpr:
    """Find several quantiles at once, by recursive halving: a column each, NAME_LEVEL, in order of the levels given.

    >>> quantiles("age", [0.25, 0.5, 0.75]).aggregate.describe()
    'the quantiles 0.25, 0.5, 0.75 of age'
    """
    if isinstance(levels, (str, bytes)) or not isinstance(levels, Sequence):
        raise QuestionRefused("quantiles takes a list of levels, such as [0.25, 0.5, 0.75]")
    return _aggregate(of, tuple(to_fraction(level, name="a quantile's level") for level in levels), "quantile")


def iqr(of: Column) -> AggregateExpr:
    """Find the interquartile range: the quantile 3/4 less the quantile 1/4.

    >>> iqr("age")
    <the interquartile range of age, as iqr_age>
    """
    return _aggregate(of, (Fraction(1, 4), Fraction(3, 4)), "iqr", spread=True)


def bin_select(
    on: Primitives,
    resolved: CompiledQuery,
    of: BoundNumber,
    *,
    low: int,
    width: int,
    within: Sequence[tuple[int, int]] | None,
    parent: int,
) -> exp.Select:
    """Return the SQL tree that counts rows by group and by bin: k0.. (key codes), the last k the bin's place, and t0.

    Bins are `width` steps wide from `low`. `within`, where given, keeps values in these runs of bins of `parent` steps.
    """

    def bin_place(on: Primitives) -> exp.Expression:
        return _bin_place(on, of, low, width)

    def inside(on: Primitives) -> exp.Expression:
        return _inside(on, of, low, within or (), parent)

    bins = (Keys((), bin_place),)
    terms = (count_part(None).terms[0][1],)
    # within these bins after the bounds: every scan of a question counts the same rows of a unit
    scan = replace(resolved, parts=(), terms=terms, bins=bins, within=None if within is None else inside)
    return scan.select(on)


def _bin_place(on: Primitives, of: BoundNumber, low: int, width: int) -> exp.Expression:
    from sqlglot import exp

    value = of.build(on)
    start = whole(low)
    size = whole(width)
    if of.stored.largest is None or of.stored.largest + abs(low) >= NARROW:
        value = on.wide(value)
        start = on.wide(start)
        size = on.wide(size)
    offset = value if low == 0 else exp.paren(exp.Sub(this=exp.paren(value), expression=start))
    return offset if width == 1 else exp.IntDiv(this=offset, expression=size)


def _inside(
    on: Primitives, of: BoundNumber, low: int, within: Sequence[tuple[int, int]], parent: int
) -> exp.Expression:
    """Return whether a value lies in one of some runs of whole bins of `parent` steps."""
    from sqlglot import exp

    if len(within) <= _FEW:
        value = of.build(on)
        runs = [exp.Between(this=exp.paren(value.copy()), low=whole(a), high=whole(b)) for a, b in within]
        any_run: exp.Expression = exp.paren(exp.or_(*runs, wrap=False, copy=False))
        return any_run
    places = [i for a, b in within for i in range((a - low) // parent, (b - low) // parent + 1)]
    return on.is_code(_bin_place(on, of, low, parent), places)


def _aggregate(of: Column, levels: tuple[Fraction, ...], name: str, *, spread: bool = False) -> AggregateExpr:
    expression = col(of) if isinstance(of, str) else of
    if not isinstance(expression, Expr) or isinstance(expression.node, Constant):
        raise QuestionRefused("a column is named by text or by col(...)")
    quantile = Quantile(expression.node, levels, f"{name}_{label(expression.node)}", spread)
    # it has no parts that get noise: the curator plans it by itself
    return AggregateExpr(cast("Any", quantile))
