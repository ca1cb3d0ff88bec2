"""The queries of the empirical setting as functions of a sorted table. It may not know universes or neighbors."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import Any, Literal

import numpy as np

from sordino.core.errors import DeclarationError, nearest, strip_word, suggest_statistic
from sordino.core.loss import to_fraction
from sordino.lab.sensitivity.universe import Floats

KNOWN = ("count", "sum", "mean", "median", "var", "std", "min", "max", "quantile:q")
Kind = Literal["count", "sum", "mean", "quantile", "var", "std", "function"]
# A query of one's own: a sorted table as an array of numbers -> one number.
TableFunction = Callable[[Any], Any]


class NoAnswer(DeclarationError):
    """Say that a query has no answer on some table, as a mean has none on an empty one."""


@dataclass(frozen=True, slots=True)
class Statistic:
    """Name a query: its kind, the quantile `q` of an order statistic, and the `ddof` of var and std.

    One of kind "function" is known by its answers alone, those of `function`.
    """

    name: str
    kind: Kind
    q: float = math.nan
    ddof: int = 0
    function: TableFunction | None = None

    @property
    def least(self) -> int:
        """The size of the smallest table that has an answer; 0 for a function, which is tried."""
        if self.kind in ("count", "sum", "function"):
            return 0
        return 1 + self.ddof if self.kind in ("var", "std") else 1

    def of(self, table: Floats) -> float:
        """Return the answer on a sorted table. Raises NoAnswer where a function has none."""
        if self.function is not None:
            return _call(self.name, self.function, table)
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


def _call(name: str, function: TableFunction, table: Any) -> float:
    """Return a function's answer as a float, or as an int where it is a whole number past 2^53."""
    try:
        # a function that sorts or fills its argument must not change the table for the next one
        answer = function(table.copy())
    except Exception as error:
        raise NoAnswer(
            f"query {name} has no answer on a table of {len(table)} record(s): it raised {type(error).__name__}"
        ) from error
    if isinstance(answer, np.generic | np.ndarray) and answer.size == 1:
        answer = answer.item()
    # a rational stands where a float would be rounded
    exact: Any = answer if isinstance(answer, int | Fraction) else 0
    if abs(exact) > 1 << 53:
        return exact  # type: ignore[no-any-return]  # as `as_number` does
    if not isinstance(answer, Real):
        raise DeclarationError(f"query {name} must return one number, not {type(answer).__name__}")
    if not math.isfinite(answer):
        raise NoAnswer(f"query {name} has no answer on a table of {len(table)} record(s): it returned {float(answer)}")
    return float(answer)


def _interquartile_range(table: Any) -> Any:
    low, high = (Statistic("", "quantile", q=q) for q in (0.25, 0.75))
    return high.of(table) - low.of(table)


def _mode(table: Any) -> Any:
    values, counts = np.unique(table, return_counts=True)
    return values[counts.argmax()]


def _geometric_mean(table: Any) -> float:
    if table[0] <= 0:
        raise ValueError("only positive numbers have a geometric mean")
    return math.exp(math.fsum(math.log(value) for value in table) / len(table))


# Known by name, and enumerated as functions of one's own are: the spelling without spaces, the name, the function.
_FUNCTIONS: dict[str, tuple[str, TableFunction]] = {
    "range": ("range", lambda table: table[-1] - table[0]),
    "iqr": ("iqr", _interquartile_range),
    "interquartilerange": ("iqr", _interquartile_range),
    # the least of those that are as frequent as any
    "mode": ("mode", _mode),
    "geometricmean": ("geometric_mean", _geometric_mean),
    "gmean": ("geometric_mean", _geometric_mean),
    # of the largest value to the smallest
    "ratio": ("ratio", lambda table: table[-1] / table[0]),
    "countdistinct": ("count_distinct", lambda table: len(set(table.tolist()))),
    "countofdistinct": ("count_distinct", lambda table: len(set(table.tolist()))),
    "nunique": ("count_distinct", lambda table: len(set(table.tolist()))),
}
FUNCTIONS = tuple(dict.fromkeys(name for name, _ in _FUNCTIONS.values()))


def name_query(query: Any) -> str:
    """Return the name of a query: a word is its own, a function has that which it was defined with.

    >>> name_query("median"), name_query(np.var), name_query(lambda table: table.max())
    ('median', 'var', 'given function')
    """
    if isinstance(query, str):
        return query
    name = str(getattr(query, "__name__", type(query).__name__))
    return "given function" if name == "<lambda>" else name


def statistic_from(query: Any, *, ddof: Any) -> Statistic:
    """Return the Statistic that `query=` and `ddof=` name; raise DeclarationError for an unknown one.

    `query` is a word, or a function of one's own: it takes a table, a sorted array of numbers, and returns one number.

    >>> statistic_from("quantile:0.75", ddof=0).positions(6)
    (3, 4, 0.75)
    >>> statistic_from(lambda table: table.max() - table.min(), ddof=0).of(np.array([1.0, 2.0, 5.0]))
    4.0
    """
    if isinstance(ddof, bool) or not isinstance(ddof, int) or ddof < 0:
        raise DeclarationError("ddof must be a whole number from 0: var and std divide by n - ddof")
    if callable(query):
        # of var and std alone; numpy's take it as an argument of their own
        if ddof:
            raise DeclarationError("ddof goes with 'var' and 'std': a function of your own divides as you write it")
        return Statistic(name_query(query), "function", function=query)
    if not isinstance(query, str):
        raise DeclarationError(
            f"query must be a word such as 'median', or a function of a table, not {type(query).__name__}; "
            f"known: {', '.join((*KNOWN, *FUNCTIONS))}"
        )
    if query in ("count", "sum", "mean", "var", "std"):
        return Statistic(query, query, ddof=ddof)  # type: ignore[arg-type]  # one of the kinds
    if query in ("median", "min", "max"):
        return Statistic(query, "quantile", q={"median": 0.5, "min": 0.0, "max": 1.0}[query])
    head, _, tail = query.partition(":")
    if head == "quantile":
        try:
            q = float(to_fraction(tail, name="quantile"))
        except DeclarationError:
            q = math.nan
        if 0 <= q <= 1:
            return Statistic(query, "quantile", q=q)
        raise DeclarationError(f"query {query!r}: a quantile is written quantile:q with q from 0 to 1, as quantile:0.9")
    if strip_word(query) in _FUNCTIONS:
        name, function = _FUNCTIONS[strip_word(query)]
        return Statistic(name, "function", function=function)
    if meant := suggest_statistic(query):
        raise DeclarationError(f"query {query!r} is called {meant!r} here")
    raise DeclarationError(f"query {query!r} is not known; {nearest(query, (*KNOWN, *FUNCTIONS))}")
