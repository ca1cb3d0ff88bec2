"""A query of one's own: nothing is known of it but its answers, so every table is asked and every pair of neighbors compared.

It knows functions, tables and moves, and none of the arguments by which other queries are solved.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.core.errors import DeclarationError
from sordino.lab.sensitivity.moves import Moves
from sordino.lab.sensitivity.statistics import KNOWN, Statistic
from sordino.lab.sensitivity.universe import Places, Universe

# Tables that are asked in all, and pairs of neighbors that are compared: about a minute each.
MOST_TABLES = 2_000_000
MOST_PAIRS = 100_000_000
# From here on a terminal shows how far it is.
_WATCHED = 100_000
# Places that are held at once.
_CELLS = 4_000_000

Answers = NDArray[Any]


@dataclass(frozen=True, slots=True)
class FarthestPair:
    """Hold a table, the neighbor whose answer lies farthest from its own, and how many tables were asked."""

    first: Places
    second: Places
    tables: int


def answer_tables(statistic: Statistic, tables: Sequence[tuple[float, ...]]) -> list[float]:
    """Return a function's answer on each table of sorted values; equal tables are asked once.

    Answers are floats, and exact integers or fractions past 2^53. Raises NoAnswer where the function has none.

    >>> from sordino.lab.sensitivity.statistics import statistic_from
    >>> answer_tables(statistic_from("range", ddof=0), [(1.0, 2.0, 5.0), (2.0, 2.0)])
    [4.0, 0.0]
    """
    distinct = list(dict.fromkeys(tables))
    with warnings.catch_warnings():
        # what is no number is refused by name; numpy's warning would say it again
        warnings.simplefilter("ignore", RuntimeWarning)
        with _watch(len(distinct)) as step:
            answers = {table: step(statistic.of(_as_array(table))) for table in distinct}
    return [answers[table] for table in tables]


def find_farthest_pair(
    universe: Universe, statistic: Statistic, moves: Moves, *, table: Places | None = None
) -> FarthestPair:
    """Return the pair of neighbors whose answers differ most, over every table of `moves.size` records or from `table`.

    Exact, by enumeration: a table is asked once, and every pair is compared. Raises DeclarationError where that would be
    more than 2,000,000 tables or 100,000,000 pairs, and NoAnswer where a table has none.
    """
    starts = 1 if table is not None else math.comb(universe.size, moves.size)
    reached = sum(
        math.comb(moves.size, removed) * math.comb(universe.size - moves.size, added) for removed, added in moves.pairs
    )
    sizes = {moves.size - removed + added for removed, added in moves.pairs}
    asked = (
        1 + reached if table is not None else starts + sum(math.comb(universe.size, s) for s in sizes - {moves.size})
    )
    _require_few(statistic, asked, starts * reached)
    first = _tables(universe.size, moves.size) if table is None else np.asarray([table], dtype=np.intp)
    numbers = _AnswersByPlace(universe, statistic, sorted({moves.size, *sizes}) if table is None else ())
    before = numbers.of(first)
    best: tuple[Any, Places, Places] = (-1, first[0], first[0])
    for rows, after in _neighbors(universe.size, first, moves):
        change = np.abs(numbers.of(after) - before[rows])
        farthest = int(change.argmax())
        if change[farthest] > best[0]:
            best = (change[farthest], first[rows[farthest]], after[farthest])
    return FarthestPair(best[1], best[2], numbers.tables)


def _require_few(statistic: Statistic, tables: int, pairs: int) -> None:
    if tables > MOST_TABLES or pairs > MOST_PAIRS:
        word = f"; the word {statistic.name!r} is solved at any size" if statistic.name in KNOWN else ""
        raise DeclarationError(
            f"query {statistic.name} is answered by enumeration, of {tables:,} tables and {pairs:,} pairs here: at most "
            f"{MOST_TABLES:,} and {MOST_PAIRS:,}; take a smaller universe, size or distance{word}"
        )


class _AnswersByPlace:
    """The answers of tables, each a sorted row of places in the universe: of all tables of these sizes, or of those asked."""

    def __init__(self, universe: Universe, statistic: Statistic, sizes: Iterable[int]) -> None:
        self._statistic = statistic
        self._values = np.array(universe.values(np.arange(universe.size)), dtype=object)
        self._binomials = np.array(
            [[math.comb(place, rank + 1) for rank in range(max(sizes, default=0))] for place in range(universe.size)],
            dtype=np.int64,
        ).reshape(universe.size, -1)
        self._answers: dict[int, Answers] = {}
        self.tables = 0
        for size in sizes:
            tables = _tables(universe.size, size)
            in_order = np.empty(len(tables), dtype=np.intp)
            in_order[self._ranks(tables)] = np.arange(len(tables))
            self._answers[size] = self._ask(tables[in_order])

    def of(self, tables: Places) -> Answers:
        """Return the answer of each table."""
        known = self._answers.get(tables.shape[1])
        return self._ask(tables) if known is None else known[self._ranks(tables)]

    def _ranks(self, tables: Places) -> NDArray[np.int64]:
        """Return the place of each table among all of its size: the sum of C(place, rank), which counts those before it."""
        return np.asarray(self._binomials[tables, np.arange(tables.shape[1])].sum(axis=1), dtype=np.int64)

    def _ask(self, tables: Places) -> Answers:
        self.tables += len(tables)
        answers = answer_tables(self._statistic, [tuple(row) for row in self._values[tables].tolist()])
        if any(isinstance(answer, int | Fraction) for answer in answers):
            return np.array([Fraction(answer) for answer in answers], dtype=object)
        return np.array(answers)


def _tables(people: int, size: int) -> Places:
    rows = math.comb(people, size)
    flat = chain.from_iterable(combinations(range(people), size))
    return np.fromiter(flat, dtype=np.intp, count=rows * size).reshape(rows, size)


def _neighbors(people: int, tables: Places, moves: Moves) -> Iterator[tuple[NDArray[np.intp], Places]]:
    """Yield the neighbors of tables: for each its row in `tables`, and its places, sorted; all of a size in one block."""
    size = tables.shape[1]
    width = max(1, _CELLS // max(1, people))
    for start in range(0, len(tables), width):
        inside = tables[start : start + width]
        rows = np.arange(start, start + len(inside))
        free = np.ones((len(inside), people), dtype=bool)
        np.put_along_axis(free, inside, False, axis=1)
        outside = np.nonzero(free)[1].reshape(len(inside), people - size)
        for removed, added in moves.pairs:
            for kept in combinations(range(size), size - removed):
                for come in combinations(range(people - size), added):
                    after = np.concatenate([inside[:, list(kept)], outside[:, list(come)]], axis=1)
                    yield rows, np.sort(after, axis=1)


def _as_array(table: tuple[float, ...]) -> Any:
    """Return a table's values as float64, or as Python's numbers where a float would round one."""
    whole = any(isinstance(value, int) and abs(value) > 1 << 53 for value in table)
    return np.array(table, dtype=object if whole else np.float64)


@contextmanager
def _watch(total: int) -> Iterator[Callable[[float], float]]:
    """Give a function that hands its argument on; on a terminal, where there are many, it says how far it is."""
    if total < _WATCHED or not sys.stderr.isatty():
        yield lambda answer: answer
        return
    done = 0
    what = "asking each table"

    def step(answer: float) -> float:
        nonlocal done
        done += 1
        if done % (total // 100) == 0:
            print(f"\r{what}: {100 * done // total}%", end="", file=sys.stderr, flush=True)
        return answer

    try:
        yield step
    finally:
        # the line is taken back
        print(f"\r{' ' * (len(what) + 8)}\r", end="", file=sys.stderr, flush=True)
