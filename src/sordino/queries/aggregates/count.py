"""Count: how many rows there are, or how many have a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sordino.domain import Domain
from sordino.estimates.estimate import ColumnEstimate
from sordino.estimates.noisy import Law, Noisy
from sordino.estimates.weighted_sum import Mix, SharedNoise
from sordino.queries.expressions.bound_number import BoundNumber
from sordino.queries.expressions.compile import presence
from sordino.queries.expressions.nodes import Node, describe, plain
from sordino.queries.query import SqlAggregate, Vector, mixed_error, share_noise

__all__ = ["Count", "count_part", "count_term"]


@dataclass(frozen=True, slots=True)
class Count:
    """Count rows; where `of` is given, the rows in which it is not missing."""

    of: Node | None
    alias: str

    def parts(self, domain: Domain) -> Sequence[Vector]:
        """Return the one vector of counts."""
        if self.of is None:
            return (count_part(None),)
        return (count_part(presence(self.of, domain)),)

    def estimate(
        self, parts: Sequence[Vector], noisy: Sequence[Noisy], shared: SharedNoise | None = None
    ) -> ColumnEstimate:
        """Return the noisy count; the true one is at least 0."""
        if shared is not None:
            return share_noise(parts[0], noisy, shared, least=0)
        return Noisy(noisy[0].steps, noisy[0].unit, noisy[0].law, least=0)

    def error(
        self,
        parts: Sequence[Vector],
        laws: Sequence[Law],
        confidence: float,
        rows: int | None,
        mean: float | None,
        mix: Mix = (),
    ) -> float:
        """Return the quantile of the noise."""
        del rows, mean
        return mixed_error(parts[0], laws, mix, confidence) if mix else laws[0].error(confidence)

    def plain(self) -> Any:
        """Return the aggregate as canonical JSON data."""
        return ["count", plain(self.of)]

    def describe(self) -> str:
        """Return the aggregate in words."""
        return "the number of rows" if self.of is None else f"the number of rows with {describe(self.of)}"


def count_part(of: BoundNumber | None) -> Vector:
    """Return the part that counts rows, or rows in which `of` is not missing."""
    return Vector("count", ((1, count_term(of)),), Fraction(1), None, of is not None and of.missable)


def count_term(of: BoundNumber | None) -> SqlAggregate:
    """Return the count of rows, or of those in which `of` is not missing where it may be."""
    return SqlAggregate("rows", None) if of is None or not of.missable else SqlAggregate("count", of)
