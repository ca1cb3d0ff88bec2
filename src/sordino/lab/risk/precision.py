"""How wrong an answer would be at an epsilon, and the least epsilon (or the fewest rows) for an error that is asked for.

It may not know data, engines or curators: everything here follows from the question, the declared domain and the
neighbor relation, with the same mechanisms and shares of epsilon that a question is answered with.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

from sordino.ask.queries.aggregates.sums import Average
from sordino.ask.queries.aggregation import Aggregation, CompiledQuery, compile_query
from sordino.ask.queries.build import as_aggregation
from sordino.ask.queries.query import ExpectedNoise
from sordino.ask.queries.sql.parse import SqlText, parse_sql
from sordino.ask.queries.strategy import Strategy, find_strategy
from sordino.core.accounting.zcdp import rho_for
from sordino.core.arguments import amount, chance
from sordino.core.domain import Domain
from sordino.core.errors import DeclarationError, arg
from sordino.core.loss import ZCDP, ApproxDP, Loss, Number, PureDP, format_number, to_fraction
from sordino.core.mechanisms.noise_choice import cheapest
from sordino.core.neighbors import Neighbors

Currency = Literal["epsilon", "rho"]

# The least and the largest epsilon that is looked at.
_LEAST = Fraction(1, 10**12)
_MOST = Fraction(10**6)


@dataclass(frozen=True)
class Precision:
    """Hold one aggregate over a declared domain, and what epsilon makes of its error at `confidence`.

    Epsilon under `neighbors`, by the mechanism that a question is answered with: Laplace or staircase at delta 0; at a `delta`
    above it whichever of Laplace and the Gaussian errs less at 95%; in the `currency` rho the Gaussian, whose rho is the
    largest that implies (epsilon, delta). Errors in the question's unit, each value by itself. A mean's error is the
    most for any mean within the bounds.
    """

    question: Aggregation
    domain: Domain
    neighbors: Neighbors
    confidence: float
    delta: Fraction = Fraction(0)
    currency: Currency = "epsilon"

    @property
    def needs_rows(self) -> bool:
        """Whether the error depends on the number of rows: that of a mean does."""
        return isinstance(self.question.aggregates[0], Average)

    def loss(self, epsilon: Number) -> Loss:
        """Return what a question is asked at for this epsilon."""
        wanted = to_fraction(epsilon, name="epsilon")
        if self.currency == "rho":
            return ZCDP(rho_for(wanted, self.delta))
        return ApproxDP(wanted, self.delta) if self.delta else PureDP(wanted)

    def noise(self) -> str:
        """Return the noise in words."""
        if self.currency == "rho":
            return f"discrete Gaussian noise at rho, converted to epsilon at delta {format_number(self.delta)}"
        if self.delta:
            return f"discrete Gaussian or Laplace noise, whichever has the smaller error, at delta {format_number(self.delta)}"
        return "discrete Laplace noise at pure epsilon, or staircase noise where that errs less"

    def error(self, epsilon: Number, *, rows: int | None = None) -> float:
        """Return the error not exceeded with probability `confidence`; of a mean of `rows` rows (None: times the rows).

        >>> from sordino.core.domain import Integer
        >>> from sordino.ask.queries.build import count
        >>> adult = Domain({"age": Integer(0, 125)})
        >>> precision_of(count(), domain=adult, neighbors=Neighbors("add_remove", None), confidence=0.95).error(0.1)
        30
        """
        blocks = self._strategy.blocks
        # as a question is planned, but under a cap on rho
        sums_epsilon = self.currency == "epsilon"
        parts = [(b.noise_sensitivity, b.share) for b in blocks]
        mechanisms, _ = cheapest(parts, self.loss(epsilon), sums_epsilon=sums_epsilon)
        reading = self._strategy.readings[0]
        laws = [mechanisms[block].law for block, _ in reading.vectors]
        mix = () if reading.is_plain else reading.mix
        noise = ExpectedNoise(laws, self.confidence, rows, None, mix)
        return self.question.aggregates[0].error(self._compiled.parts[0], noise)

    @cached_property
    def _compiled(self) -> CompiledQuery:
        return compile_query(self.question, self.domain)

    @cached_property
    def _strategy(self) -> Strategy:
        """What is noised, which no epsilon changes: a search for an epsilon tries many."""
        aggregates = self.question.aggregates
        squared = self.currency == "rho"
        return find_strategy(aggregates, self._compiled.bound(self.neighbors), [Fraction(1)], squared=squared)

    def epsilon_for(self, error: Number, *, rows: int | None = None) -> float:
        """Return the least epsilon at which the error is within `error`, from the feasible side; 0 where it always is.

        The inverse of `error`, which falls as epsilon grows, by bisection to 1e-10 relative. (At a delta, and another
        confidence than 95%, the error may rise where the Gaussian gives way to Laplace: then a lower one may do.) Raises
        DeclarationError where a mean has no `rows`, and where no epsilon up to 10^6 is enough, with the least error.
        """
        limit = amount(error, name="error")
        if rows is None and self.needs_rows:
            raise DeclarationError(
                f"the error of a mean depends on the number of rows: give {arg('n')}, a public guess at it"
            )
        if self.error(_LEAST, rows=rows) <= limit:
            return 0.0
        if (best := self.error(_MOST, rows=rows)) > limit:
            raise DeclarationError(
                f"no epsilon up to 10^6 makes the error at most {limit:g}; the nearest that works is {best:g}"
            )
        low = float(_LEAST)
        high = float(_MOST)
        while high > low * (1 + 1e-10):
            middle = math.sqrt(low * high)
            low, high = (low, middle) if self.error(middle, rows=rows) <= limit else (middle, high)
        return high

    def rows_for(self, error: Number, *, epsilon: Number) -> int | None:
        """Return the fewest rows at which a mean's error is within `error` at `epsilon`; None where rows do not matter.

        The error of a mean is its error times the rows, which epsilon alone decides, over the rows.
        """
        if not self.needs_rows:
            return None
        limit = amount(error, name="error")
        count = max(1, math.ceil(self.error(epsilon) / limit))
        while count > 1 and self.error(epsilon, rows=count - 1) <= limit:
            count -= 1
        while self.error(epsilon, rows=count) > limit:
            count += 1
        return count

    def describe(self) -> str:
        """Return the question with its confidence in words."""
        return f"{self.question.describe()}, at {self.confidence:.6g} confidence"


def precision_of(
    query: object,
    *,
    domain: Domain,
    neighbors: Neighbors,
    confidence: Number,
    delta: Number = 0,
    currency: Currency = "epsilon",
) -> Precision:
    """Return the Precision of a question: an aggregate, a question, or SQL text.

    Raises DeclarationError unless it has one aggregate (each epsilon has one error), QuestionRefused where the question
    has no private answer over `domain`.
    """
    if not isinstance(domain, Domain):
        raise DeclarationError('domain must be a Domain, such as Domain({"age": Integer(0, 125)})')
    likely = chance(confidence, name="confidence")
    chance(delta, name="delta", zero=True)
    slack = to_fraction(delta, name="delta")
    if currency not in ("epsilon", "rho"):
        raise DeclarationError(f'currency must be "epsilon" or "rho", not {currency!r}')
    if currency == "rho" and not slack:
        raise DeclarationError(f"rho converts to an epsilon at a delta: state {arg('delta=')}, such as 1e-6")
    if isinstance(query, str):
        query = SqlText(query)
    if isinstance(query, SqlText):
        question = parse_sql(query.text, table=query.parse().table, columns=tuple(domain))
    else:
        question = as_aggregation(query)
    compile_query(question, domain)
    if len(question.aggregates) != 1:
        raise DeclarationError(
            f"an accuracy is asked of one aggregate, not of {len(question.aggregates)}: state one accuracy for each"
        )
    return Precision(question, domain, neighbors, likely, slack, currency)
