"""The queries of the empirical setting as functions of a sorted table. It may not know universes or neighbors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from sordino.core.errors import DeclarationError, nearest
from sordino.core.field_words import suggest_statistic
from sordino.lab.sensitivity.universe import Floats

KNOWN = ("count", "sum", "mean", "median", "var", "std", "min", "max", "quantile:q")
Kind = Literal["count", "sum", "mean", "quantile", "var", "std"]


@dataclass(frozen=True, slots=True)
class Statistic:
    """Name a query: its kind, the quantile `q` of an order statistic, and the `ddof` of var and std."""

    name: str
    kind: Kind
    q: float = math.nan
    ddof: int = 0

    @property
    def least(self) -> int:
        """The size of the smallest table that has an answer."""
        if self.kind in ("count", "sum"):
            return 0
        return 1 + self.ddof if self.kind in ("var", "std") else 1

    def of(self, table: Floats) -> float:
        """Return the answer on a sorted table."""
        if self.kind == "count":
            return float(table.size)
        if self.kind == "sum":
            return math.fsum(table)
        if self.kind == "mean":
            return math.fsum(table) / table.size
        if self.kind == "quantile":
            low, high, share = self.positions(table.size)
            return between(float(table[low]), float(table[high]), share)
        # The mean is taken off twice, since the first one may be off by rounding.
        centred = table - table.mean()
        centred -= centred.mean()
        variance = math.fsum(centred * centred) / (table.size - self.ddof)
        return variance if self.kind == "var" else math.sqrt(variance)

    def positions(self, size: int) -> tuple[int, int, float]:
        """Return the two order statistics of a quantile and the share of the second (numpy's "linear")."""
        virtual = (size - 1) * self.q
        low = math.floor(virtual)
        return low, min(low + 1, size - 1), virtual - low


def between(low: float, high: float, share: float) -> float:
    """Return low + share (high - low), from the nearer end as numpy does."""
    return low + (high - low) * share if share < 0.5 else high - (high - low) * (1 - share)


def statistic_from(query: Any, *, ddof: Any) -> Statistic:
    """Return the Statistic that `query=` and `ddof=` name; raise DeclarationError for an unknown one.

    >>> statistic_from("quantile:0.75", ddof=0).positions(6)
    (3, 4, 0.75)
    """
    if isinstance(ddof, bool) or not isinstance(ddof, int) or ddof < 0:
        raise DeclarationError("ddof must be a whole number from 0: var and std divide by n - ddof")
    if not isinstance(query, str):
        meant = suggest_statistic(query)
        hint = f": write {meant!r}" if meant else f"; known: {', '.join(KNOWN)}"
        raise DeclarationError(f"query must be a word such as 'median', not {type(query).__name__}{hint}")
    if query in ("count", "sum", "mean", "var", "std"):
        return Statistic(query, query, ddof=ddof)  # type: ignore[arg-type]  # one of the kinds
    if query in ("median", "min", "max"):
        return Statistic(query, "quantile", q={"median": 0.5, "min": 0.0, "max": 1.0}[query])
    head, _, tail = query.partition(":")
    if head == "quantile":
        try:
            q = float(tail)
        except ValueError:
            q = math.nan
        if 0 <= q <= 1:
            return Statistic(query, "quantile", q=q)
        raise DeclarationError(f"query {query!r}: a quantile is written quantile:q with q from 0 to 1, as quantile:0.9")
    if meant := suggest_statistic(query):
        raise DeclarationError(f"query {query!r} is called {meant!r} here")
    raise DeclarationError(f"query {query!r} is not known; {nearest(query, KNOWN)}")
