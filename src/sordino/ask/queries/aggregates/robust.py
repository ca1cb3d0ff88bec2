"""Robust questions: one statistic of one bounded number, released by a method that follows the data's own stability.

Their worst-case sensitivity is useless or none; each method's theorem stands with its mechanism. Knows no data.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from sordino.ask.queries.aggregates.sums import require_bounds
from sordino.ask.queries.build import Column, label
from sordino.ask.queries.expressions.bound_number import BoundNumber
from sordino.ask.queries.expressions.compile import bind_condition
from sordino.ask.queries.expressions.expr import Expr, col
from sordino.ask.queries.expressions.nodes import Node, describe, plain
from sordino.core.domain import Domain
from sordino.core.errors import QuestionRefused
from sordino.core.loss import Number, format_number, to_fraction
from sordino.core.primitives import Primitives

if TYPE_CHECKING:
    from sqlglot import exp

Method = Literal["smooth", "propose_test_release", "sample_and_aggregate"]
_MOST_CHUNKS = 1_000_000
_FINEST = 10**9  # the denominator of a level: what smooth sensitivities are computed for


@dataclass(frozen=True, slots=True)
class Robust:
    """Ask for a statistic (mean, median, quantile:q, var) of a number over the rows that have it and meet `where`."""

    method: Method
    statistic: str
    of: Node
    where: Node | None
    alias: str
    proposal: Fraction | None = None
    chunks: int | None = None
    default: Fraction | None = None

    def measure(self, domain: Domain) -> tuple[BoundNumber, int, int]:
        """Return the number with its bounds in steps; raises QuestionRefused where it has none."""
        found = require_bounds(self.of, domain, self.statistic.split(":")[0])
        if found[0].kind != "number":
            raise QuestionRefused("a robust question takes numbers: ask it of a length of time, (end - start).days()")
        return found

    def select(self, on: Primitives, domain: Domain) -> exp.Select:
        """Return the SQL tree of the exact values: k0 (the chunk, if any), v (steps) and t0 (how many rows have it)."""
        from sqlglot import exp

        if self.where is not None:
            on.keep(bind_condition(self.where, domain)(on))
        groups = [] if self.chunks is None else [exp.alias_(on.chunk(self.chunks), "k0")]
        groups.append(exp.alias_(self.measure(domain)[0].build(on), "v"))
        chosen = [*groups, exp.alias_(exp.Count(this=exp.Star()), "t0")]
        made = exp.Select(expressions=chosen).from_(on.source())
        return made.group_by(*(exp.Literal.number(i + 1) for i in range(len(groups))))

    def describe(self) -> str:
        """Return the question as a sentence."""
        how = {
            "smooth": "by smooth sensitivity",
            "propose_test_release": f"if no row moves it by more than {format_number(self.proposal or Fraction(0))}",
            "sample_and_aggregate": f"as the mean over {self.chunks} chunks",
        }[self.method]
        where = "" if self.where is None else f", where {describe(self.where)}"
        return f"the {self.statistic} of {describe(self.of)}{where}, {how}"

    def identity(self) -> str:
        """Return canonical text: equal for equal questions."""
        numbers = [None if n is None else format_number(n) for n in (self.proposal, self.default)]
        return json.dumps(
            [self.method, self.statistic, plain(self.of), plain(self.where), self.alias, *numbers, self.chunks]
        )


def smooth(statistic: str, of: Column, *, where: Expr | None = None, alias: str | None = None) -> Robust:
    """Ask for a statistic with noise in proportion to its smooth sensitivity (Nissim, Raskhodnikova, Smith 2007).

    Pure epsilon gives Cauchy noise, epsilon and delta Laplace. The width of the noise is private, so the release states
    no error.

    >>> smooth("median", "age").describe()
    'the median of age, by smooth sensitivity'
    """
    return _build("smooth", statistic, of, where, alias)


def propose_test_release(
    statistic: str, of: Column, *, bound: Number, where: Expr | None = None, alias: str | None = None
) -> Robust:
    """Ask for a statistic with noise for the proposed local sensitivity `bound`, if the data is far from breaking it.

    The test may fail: then the value is None, and the charge stands (Dwork & Lei 2009). Needs epsilon and delta; each of
    test and answer gets half of the epsilon.
    """
    proposal = to_fraction(bound, name="bound")
    if proposal <= 0:
        raise QuestionRefused("bound, the proposed local sensitivity, must be above 0")
    return _build("propose_test_release", statistic, of, where, alias, proposal=proposal)


def sample_and_aggregate(
    statistic: str,
    of: Column,
    *,
    chunks: int,
    default: Number,
    where: Expr | None = None,
    alias: str | None = None,
) -> Robust:
    """Ask for the mean, over `chunks` disjoint chunks, of a statistic of each (Nissim, Raskhodnikova, Smith 2007).

    A unit falls in a chunk by the hash of its id (a row: of its declared cells), so that rows do not shift. An empty
    chunk answers `default`. The more chunks, the less noise, and the fewer rows a chunk.
    """
    if isinstance(chunks, bool) or not isinstance(chunks, int) or not 1 <= chunks <= _MOST_CHUNKS:
        raise QuestionRefused(f"chunks must be a whole number from 1 to {_MOST_CHUNKS}, declared, never counted")
    empty = to_fraction(default, name="default")
    return _build("sample_and_aggregate", statistic, of, where, alias, chunks=chunks, default=empty)


def level_of(statistic: str) -> Fraction | None:
    """Return q of "quantile:q" and 1/2 of "median", None for other statistics; raises QuestionRefused for unknown ones."""
    if statistic in ("mean", "var"):
        return None
    if statistic == "median":
        return Fraction(1, 2)
    if statistic.startswith("quantile:"):
        level = to_fraction(statistic.partition(":")[2], name="the quantile's level")
        if 0 <= level <= 1 and level.denominator <= _FINEST:
            return level
        raise QuestionRefused(
            "a quantile's level must lie between 0 and 1, with 9 decimals at most, such as quantile:0.9"
        )
    raise QuestionRefused(f"a statistic is mean, median, var or quantile:q, not {statistic[:40]!r}")


def _build(
    method: Method,
    statistic: str,
    of: Column,
    where: Expr | None,
    alias: str | None,
    **options: Any,
) -> Robust:
    level_of(statistic)
    expression = col(of) if isinstance(of, str) else of
    if not isinstance(expression, Expr):
        raise QuestionRefused("a column is named by text or by col(...)")
    if where is not None and not isinstance(where, Expr):
        raise QuestionRefused('where takes a condition, such as col("age") > 30')
    node = expression.node
    name = alias or f"{statistic.partition(':')[0]}_{label(node)}"
    return Robust(method, statistic, node, None if where is None else where.node, name, **options)
