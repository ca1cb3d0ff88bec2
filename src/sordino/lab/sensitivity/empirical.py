"""Empirical sensitivity, and why noise of its size is unsafe."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sordino.core.arguments import amount
from sordino.core.errors import DeclarationError
from sordino.core.loss import Number
from sordino.lab.sensitivity.enumeration import answer_tables, find_farthest_pair
from sordino.lab.sensitivity.local_search import farthest_neighbor
from sordino.lab.sensitivity.moves import Moves, distance, moves_from
from sordino.lab.sensitivity.statistics import Statistic, TableFunction, name_query, statistic_from
from sordino.lab.sensitivity.universe import Places, Universe, as_number, exact_universe_from, size_in
from sordino.lab.sensitivity.variance import farthest_spread
from sordino.lab.sensitivity.worst_case import cost, enumerate_pairs, farthest_pair

# ---- Global and local sensitivity over a finite universe, with the pair of tables that attains them
#
# It chooses the algorithm and evaluates the witness; the algorithms are in `local_search`, `worst_table`, `variance` and
# `bound_check`. It may not know engines, columns or budgets: universe and size are public, and a local sensitivity is not.

# Pairs of tables that are compared one by one where there is no proof.
PAIRS_ENUMERATED = 4_000_000


@dataclass(frozen=True, slots=True)
class Change:
    """Say how far an answer can move: `value` is exact, or a bound on it where `exact` is False.

    `witness` is a pair of neighbors (sorted values), `answers` their answers, which differ by `attained`: the value
    itself when exact. Numbers are floats, and int where they are whole numbers that no float64 holds.
    """

    value: float
    exact: bool
    attained: float
    witness: tuple[tuple[float, ...], tuple[float, ...]]
    public: str
    because: str
    answers: tuple[float, float]

    def __repr__(self) -> str:
        sign = "" if self.exact else ", exact=False"
        return f"Change(value={self.value:.10g}{sign}, because={self.because!r})"


def global_sensitivity(
    query: str | TableFunction,
    universe: Iterable[Any],
    *,
    size: int,
    neighbors: str,
    within: int | None = None,
    exactly: int | None = None,
    direction: str | None = None,
    ddof: int = 0,
) -> Change:
    """Return the most that the answer can move between neighbors, over every table of `size` records of the universe.

    `query` is count, sum, mean, median, var, std, min, max or quantile:q; or range, iqr, mode (the least of several),
    geometric_mean, ratio (of the largest value to the smallest) or count_distinct; or a function of your own, which takes a
    table as a sorted numpy array and returns one number. `neighbors` is "add_remove" or "replace"; within=k is at most k moves
    of any mix, exactly=k is k records in one `direction` ("add", "remove", "either"), or k exchanges. var and std divide by
    n - `ddof`. The unit is that of the values (squared for var). Values are int, float, Fraction or Decimal, and are held
    without rounding: values that span more than 2^53 of their common steps are refused (see `exact_universe_from`). Raises
    DeclarationError for bad input, and where a neighbor has no answer.

    Exact by exchange arguments (in `worst_table` and `variance`): O(N) for each mix of moves, O(k^3 N log N) for var and
    std. For std under add_remove the proof needs that the rise by adding records is larger than any fall could be; where
    it is not (tables of about k records), a small universe is enumerated and a larger one gets `exact=False` and a bound.
    A function, and the words range to count_distinct, are answered by enumeration of all tables, which `because` says:
    exact, and refused beyond 2,000,000 tables or 100,000,000 pairs of neighbors.

    >>> global_sensitivity(lambda table: table.max() - table.min(), [1, 2, 3, 10], size=3, neighbors="replace", within=1)
    Change(value=7, because='at most 1 record(s) exchanged: by enumeration of 4 tables')
    >>> global_sensitivity("median", [1, 2, 3, 10, 11], size=3, neighbors="replace", within=1).witness
    ((1.0, 2.0, 10.0), (2.0, 10.0, 11.0))
    """
    values = exact_universe_from(universe)
    statistic = statistic_from(query, ddof=ddof)
    size = size_in(size, people=values.size)
    moves = _moves(statistic, values, size, neighbors, within, exactly, direction)
    public = f"the universe of {values.size} values and the size {size} are public"
    if statistic.kind == "function":
        pair = find_farthest_pair(values, statistic, moves)
        rule = f"by enumeration of {pair.tables:,} tables"
        return _change(values, statistic, moves, pair.first, pair.second, public, rule)
    if statistic.kind not in ("var", "std"):
        first, second = farthest_pair(values.floats, statistic, moves, offset=values.offset)
        return _change(values, statistic, moves, first, second, public, "exchange argument")
    extreme = farthest_spread(values.floats, statistic, moves)
    first = extreme.first
    second = extreme.second
    if extreme.bound == -math.inf:
        return _change(values, statistic, moves, first, second, public, "exchange argument")
    if cost(values.size, moves) <= PAIRS_ENUMERATED:
        _, first, second = enumerate_pairs(values.floats, statistic, moves)
        return _change(values, statistic, moves, first, second, public, "every pair of tables was compared")
    rule = "no proof that the pair found is the farthest; no pair passes the bound"
    return _change(values, statistic, moves, first, second, public, rule, bound=extreme.bound)


def local_sensitivity(
    query: str | TableFunction,
    universe: Iterable[Any],
    table: Iterable[Any],
    *,
    neighbors: str,
    within: int | None = None,
    exactly: int | None = None,
    direction: str | None = None,
    ddof: int = 0,
) -> Change:
    """Return the most that the answer on `table` can move to a neighbor of `table` in the universe.

    The change is always from `table`, never between two of its neighbors. Exact for every query (see `local_search`): O(N) for
    each mix of moves, O(k N) for var and std; a function of your own, by enumeration of the neighbors. It depends on the
    table, so it is NOT public and must not scale noise. Queries, distances, units and errors are those of `global_sensitivity`;
    a table that is no part of the universe is refused.

    >>> local_sensitivity("median", [1, 2, 3, 10, 11], [1, 3, 10], neighbors="replace", within=1).value
    7.0
    """
    values = exact_universe_from(universe)
    statistic = statistic_from(query, ddof=ddof)
    places = values.places(table)
    moves = _moves(statistic, values, places.size, neighbors, within, exactly, direction)
    public = f"the universe of {values.size} values is public; the table, and so this figure, is not"
    if statistic.kind == "function":
        pair = find_farthest_pair(values, statistic, moves, table=places)
        rule = f"by enumeration of {pair.tables:,} tables"
        return _change(values, statistic, moves, pair.first, pair.second, public, rule)
    second = farthest_neighbor(values.floats, statistic, moves, places, offset=values.offset)
    return _change(values, statistic, moves, places, second, public, "extremes of the neighbors of this table")


def _moves(
    statistic: Statistic,
    values: Universe,
    size: int,
    neighbors: str,
    within: int | None,
    exactly: int | None,
    direction: str | None,
) -> Moves:
    moves = moves_from(
        neighbors=neighbors,
        within=within,
        exactly=exactly,
        direction=direction,
        size=size,
        universe_size=values.size,
    )
    if size < statistic.least:
        raise DeclarationError(
            f"a table of {size} record(s) has no {statistic.name} with ddof={statistic.ddof}: "
            f"it needs at least {statistic.least}"
        )
    if moves.smallest < statistic.least:
        raise DeclarationError(
            f"{moves.argument}={within if exactly is None else exactly} leads from {size} record(s) to a table of "
            f"{moves.smallest}, which has no {statistic.name}: at least {statistic.least} must stay; lower the distance"
            + ("" if moves.argument == "within" else ', or say direction="add"')
        )
    return moves


def _change(
    values: Universe,
    statistic: Statistic,
    moves: Moves,
    first: Places,
    second: Places,
    public: str,
    rule: str,
    *,
    bound: float | None = None,
) -> Change:
    one = values.floats[first]
    other = values.floats[second]
    power = {"count": 0, "var": 2}.get(statistic.kind, 1)
    attained: float
    if statistic.kind == "sum":
        # of the records that differ alone: a sum of all of them would round the change away
        coming = sum(map(Fraction, values.floats[np.setdiff1d(second, first)].tolist()), Fraction(0))
        going = sum(map(Fraction, values.floats[np.setdiff1d(first, second)].tolist()), Fraction(0))
        change = (coming - going + (other.size - one.size) * values.offset) * values.step
        attained = as_number(abs(change))
    elif statistic.kind == "function":
        before, after = (Fraction(_answer(values, statistic, places)) for places in (first, second))
        attained = as_number(abs(after - before))
    else:
        # an offset would cost digits
        centre = 0.0 if statistic.kind == "count" else values.floats[values.size // 2]
        attained = _scaled(abs(statistic.of(other - centre) - statistic.of(one - centre)), values.step**power)
    return Change(
        value=attained if bound is None else max(_scaled(bound, values.step**power), attained),
        exact=bound is None,
        attained=attained,
        witness=(values.values(first), values.values(second)),
        public=public,
        because=f"{moves.words}: {rule}",
        answers=(_answer(values, statistic, first), _answer(values, statistic, second)),
    )


def _scaled(value: float, factor: Fraction) -> float:
    return value if factor == 1 else as_number(Fraction(value) * factor)


def _answer(values: Universe, statistic: Statistic, places: Places) -> float:
    """Return the answer on the table at these places, in the unit of the values."""
    if statistic.kind == "function":
        return answer_tables(statistic, [values.values(places)])[0]
    answer = statistic.of(values.floats[places])
    if statistic.kind == "sum":
        return _shifted(answer, values, places.size)
    if statistic.kind in ("mean", "quantile"):
        return _shifted(answer, values, 1)
    return _scaled(answer, values.step ** {"count": 0, "var": 2}.get(statistic.kind, 1))


def _shifted(answer: float, values: Universe, times: int) -> float:
    """Return an answer in steps that begin at the origin, so many times, as one that begins at 0."""
    return answer if values.is_plain else as_number(Fraction(answer) * values.step + times * values.origin)


# ---- Laplace noise as wide as each table's own local sensitivity, to show why that is NOT PRIVATE. For teaching alone
#
# It computes densities; it draws no noise and releases nothing.


@dataclass(frozen=True, slots=True)
class LocalNoise:
    """Hold two neighbors, their answers, and the noise that each would get: `scales` are local sensitivity / epsilon."""

    query: str
    relation: str
    epsilon: float
    tables: tuple[tuple[float, ...], tuple[float, ...]]
    answers: tuple[float, float]
    scales: tuple[float, float]

    def density(self, output: float) -> tuple[float, float]:
        """Return how likely this noisy answer is for either table: Laplace densities."""
        each = zip(self.answers, self.scales, strict=True)
        first, second = (math.exp(-abs(output - answer) / scale) / (2 * scale) for answer, scale in each)
        return first, second

    def loss(self, output: float) -> float:
        """Return |ln(p/q)| of the two densities p and q here: what this answer reveals; privacy would need at most epsilon."""
        first, second = (
            math.log(2 * scale) + abs(output - answer) / scale
            for answer, scale in zip(self.answers, self.scales, strict=True)
        )
        return abs(first - second)


def local_noise(
    query: str | TableFunction,
    universe: Iterable[Any],
    table: Iterable[Any],
    other: Iterable[Any],
    *,
    neighbors: str,
    epsilon: Number,
) -> LocalNoise:
    """Return what noise scaled by local sensitivity would do to two neighbors: an attack to look at, NOT PRIVATE.

    The noise of each table is as wide as its own local sensitivity (one move, `neighbors`) over epsilon. Far answers
    then have a loss beyond every epsilon, for one width is larger than the other: Nissim, Raskhodnikova, Smith 2007,
    section 1. `sd.plot` draws it. Raises DeclarationError unless the tables are neighbors in the universe, both can move,
    and epsilon is above 0.

    >>> found = local_noise("median", [1, 2, 3, 10, 11], [1, 2, 3], [1, 2, 11], neighbors="replace", epsilon=1)
    >>> found.answers, found.scales, [round(found.loss(x), 2) for x in (2, 20)]
    ((2.0, 2.0), (1.0, 8.0), [2.08, 13.67])
    """
    rate = amount(epsilon, name="epsilon")
    values = list(universe)
    one = list(table)
    two = list(other)
    exact_universe_from(values).require_floats("a density at a float")
    apart = distance(one, two, neighbors=neighbors)
    if apart != 1:
        raise DeclarationError(f"table and other must be neighbors: they are {apart} moves apart under {neighbors!r}")
    changes = [local_sensitivity(query, values, part, neighbors=neighbors, within=1) for part in (one, two)]
    if not all(change.value for change in changes):
        raise DeclarationError("one of the tables cannot move at all, and would get no noise: choose two that can")
    first, second = changes
    return LocalNoise(
        name_query(query),
        neighbors,
        rate,
        (first.witness[0], second.witness[0]),
        (first.answers[0], second.answers[0]),
        (first.value / rate, second.value / rate),
    )
