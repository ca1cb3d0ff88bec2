"""Round values of a column: the sets of them by which rows are counted, and the SQL of a row's set. Knows no data.

Of a number these are the multiples of 5, 10, 50, 100 and so on, in the column's own units, and the values one step below them
(.99, 999); of a date the first and last days of months and years; of a moment whole minutes to days, in UTC. Of two sets one
holds the other, or they share no value, so each value has one smallest set.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sordino.ask.queries.expressions.bound_number import BoundNumber
from sordino.ask.queries.expressions.sql_trees import Build, plus, whole
from sordino.ask.queries.expressions.times import first_days, first_or_last_day
from sordino.core.loss import format_number

if TYPE_CHECKING:
    from sqlglot import exp

    from sordino.core.primitives import Primitives

Integers = np.ndarray[Any, np.dtype[np.int64]]

# Seconds of the sets of a moment, each a multiple of the one before.
_SECONDS = {60: "minutes", 300: "five minutes", 900: "quarters of an hour", 3_600: "hours", 86_400: "days in UTC"}
# The least number of steps between two values that are one step below round ones.
_APART = 10


@dataclass(frozen=True, slots=True)
class RoundSet:
    """The steps that are `below` a multiple of `every`, or those of `days`; `within` is the next larger set, 0 all steps."""

    words: str
    within: int
    every: int = 0
    below: int = 0
    days: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64), compare=False)

    def ordinal(self, steps: Any) -> Any:
        """Return how many values of the set are no larger than each step, from some value on."""
        if self.every:
            return (steps + self.below) // self.every
        return np.searchsorted(self.days, steps, side="right")

    def at(self, ordinals: Integers) -> Integers:
        """Return the values of the set with these ordinals."""
        if self.every:
            return ordinals * self.every - self.below
        return self.days[ordinals - 1]

    def holds(self, steps: Integers) -> npt.NDArray[np.bool_]:
        """Return whether each step is a value of the set."""
        held: npt.NDArray[np.bool_]
        held = (steps + self.below) % self.every == 0 if self.every else np.isin(steps, self.days)
        return held

    def count(self, low: Any, high: Any) -> Any:
        """Return how many values of the set lie from `low` up to `high`."""
        return self.ordinal(high) - self.ordinal(low - 1)


def number_smallest(sets: Sequence[RoundSet], steps: Integers) -> npt.NDArray[np.uint8]:
    """Return the number of the smallest set that holds each step, 0 where none does; `smallest_set` is the same in SQL."""
    smallest = np.zeros(len(steps), dtype=np.uint8)
    # Most steps are in no set, or in a large one: they are compared with a smaller set only if they are in the one around it.
    inside: dict[int, Integers] = {}
    for number, one in enumerate(sets, 1):
        around = inside.get(one.within)
        of = steps if around is None else steps[around]
        held = np.flatnonzero(one.holds(of))
        inside[number] = held if around is None else around[held]
        smallest[inside[number]] = number
    return smallest


@functools.lru_cache(maxsize=1024)
def round_sets(unit: Fraction, kind: str, ends: tuple[int, int]) -> tuple[RoundSet, ...]:
    """Return the sets of a column whose numbers are of a `kind`, in steps of `unit`; set i has the number i + 1.

    >>> [s.words for s in round_sets(Fraction(1, 4), "number", (0, 20))]
    ['multiples of 0.5', 'multiples of 1', 'multiples of 5', 'one step below multiples of 5']
    """
    if kind == "date":
        return _calendar_sets(ends)
    chain = list(_multiples(unit, kind, ends[1] - ends[0]))
    sets = [RoundSet(words, i, every) for i, (every, words) in enumerate(chain)]
    apart = [(every, words) for every, words in chain if every >= _APART and kind == "number"]
    for i, (every, words) in enumerate(apart):
        sets.append(RoundSet(f"one step below {words}", len(sets) if i else 0, every, 1))
    return tuple(sets)


def sets_of(of: BoundNumber) -> tuple[RoundSet, ...]:
    """Return the sets of round values of a column's numbers."""
    return round_sets(of.unit, of.kind, of.ends)


def _multiples(unit: Fraction, kind: str, span: int) -> Iterator[tuple[int, str]]:
    """Yield the steps between multiples of round numbers, each a multiple of the last, with words; at most `span`."""
    if kind == "datetime":
        for seconds, words in _SECONDS.items():
            every = seconds / unit
            if every.denominator == 1 and 1 < every <= span:
                yield int(every), f"whole {words}"
        return
    power = Fraction(1)
    while power > unit:
        power /= 10
    for number in (m * power * 10**i for i in itertools.count() for m in (1, 5)):
        every = number / unit
        if every > span:
            return
        if every.denominator == 1 and every > 1:
            yield (
                int(every),
                f"multiples of {int(number):,}" if number >= 1 else f"multiples of {format_number(number)}",
            )


def _calendar_sets(ends: tuple[int, int]) -> tuple[RoundSet, ...]:
    """Return the first days of months and those of years, then the last days of both."""
    months, years = (np.array(days, dtype=np.int64) for days in first_days(*ends))
    sets = []
    for shift, words in ((0, "first"), (1, "last")):
        sets.append(RoundSet(f"{words} days of months", 0, days=months - shift))
        sets.append(RoundSet(f"{words} days of years", len(sets), days=years - shift))
    return tuple(sets)


def smallest_set(of: BoundNumber) -> Build:
    """Return the number of the smallest set that a row's value is in, 0 where it is in none; NULL where it is missing."""
    if of.kind == "date":
        return first_or_last_day(of)
    sets = sets_of(of)
    chains = [[i for i, s in enumerate(sets, 1) if s.below == below] for below in (0, 1)]

    def build(on: Primitives) -> exp.Expression:
        from sqlglot import exp

        step = on.name(of.build(on))

        def is_in(number: int) -> exp.Expression:
            one = sets[number - 1]
            rest = exp.Mod(this=exp.Paren(this=plus(step.copy(), one.below)), expression=whole(one.every))
            return exp.EQ(this=exp.Paren(this=rest), expression=whole(0))

        # Most values are in no set, or in a large one: a row is compared with the next smaller set only if it is in this one.
        cases = [exp.If(this=exp.Is(this=step.copy(), expression=exp.Null()), true=exp.Null())]
        for chain in chains:
            inner = [exp.If(this=exp.Not(this=exp.Paren(this=is_in(n))), true=whole(n - 1)) for n in chain[1:]]
            if chain:
                smallest: exp.Expression = whole(chain[-1])
                if inner:
                    smallest = exp.Paren(this=exp.Case(ifs=inner, default=smallest))
                cases.append(exp.If(this=is_in(chain[0]), true=smallest))
        return exp.Paren(this=exp.Case(ifs=cases, default=whole(0)))

    return build
