"""Marginals: several tables of counts asked for together, over declared keys or over public codes of them.

Or of each its distance from a public model of it, as one number. Knows no data.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.ask.queries.adaptive.round_values import RoundSet, sets_of, smallest_set
from sordino.ask.queries.expressions.bound_number import BoundNumber, bin_index
from sordino.ask.queries.expressions.compile import bind_number
from sordino.ask.queries.expressions.keys import Keys, keys
from sordino.ask.queries.expressions.nodes import Name
from sordino.ask.queries.expressions.sql_trees import add, multiply, trees
from sordino.ask.queries.sensitivity_rules import count_sensitivity, stack
from sordino.core.domain import Column, Domain, Identifier, keep_missing
from sordino.core.errors import QuestionRefused
from sordino.core.neighbors import Neighbors, Sensitivity
from sordino.core.primitives import NARROW, Primitives

if TYPE_CHECKING:
    from sqlglot import exp

Integers = np.ndarray[Any, np.dtype[np.int64]]
# keys of shape (cells, axes), and how many rows each has (cells): only cells that occur
SparseCounts = tuple[Integers, Integers]
# how far one unit moves one vector, in whole steps, and its share of the loss
VectorShare = tuple[Sensitivity, Fraction]

# the most cells of one table: the noise of a table is drawn cell by cell
_MOST_CELLS = 1 << 26
# the most axes of one scan: PostgreSQL has as many bits to say which axes a grouping set leaves out
MOST_AXES = 31
# the cells of raw keys that an engine may return for one table, whatever its codes
FEW_CELLS = 1 << 17
# the most runs of keys with one code, which SQL finds by halving
MOST_RUNS = 1000


@dataclass(frozen=True, slots=True)
class Axis:
    """One column of a table: its declared keys, or the bins between `edges`, and a public code for each key.

    `edges`, in whole steps of the column's lattice (days since 1970-01-01 for a date), cut [e0, e1), ..., [e(n-1), en].
    `codes` gives each key its code, None leaves key i the code i. A missing value, where the column keeps it, or where
    `missing` says so whatever the declaration drops, is the last key. With `rounded` each bin has a key for each set of
    round values (`round_values`), the smallest that holds the value, after one for all others; a missing value then has none.
    """

    column: str
    edges: tuple[int, ...] | None = None
    codes: tuple[int, ...] | None = None
    missing: bool = False
    rounded: bool = False

    def keys(self, domain: Domain) -> Keys:
        """Return the keys and the SQL of each row's key, NULL for a row that is left out."""
        # the second form raises, and says which columns are declared
        column = domain.columns.get(self.column) or domain[self.column]
        return _keys_of(self.column, column, self.edges, missing=self.missing, rounded=self.rounded)

    def round_sets(self, domain: Domain) -> tuple[RoundSet, ...]:
        """Return the sets of round values that the keys of each bin tell apart, if it is `rounded`."""
        return sets_of(bind_number(Name(self.column), domain)) if self.rounded else ()

    def size(self, domain: Domain) -> int:
        """Return the number of codes."""
        count = len(self.keys(domain).labels)
        if self.codes is None:
            return count
        if len(self.codes) != count or min(self.codes) < 0 or max(self.codes) >= count:
            raise QuestionRefused(f"the codes of {self.column!r} must be {count}, one a declared key, each from 0")
        return max(self.codes) + 1


# axes whose codes are the classes of keys that are counted as one
Grouping = tuple[Axis, ...]


@dataclass(frozen=True, slots=True)
class ContingencyTable:
    """A table of counts with one axis a column, in row-major order of its codes."""

    axes: tuple[Axis, ...]

    @property
    def name(self) -> str:
        """The columns, in words."""
        return " x ".join(axis.column for axis in self.axes)

    def shape(self, domain: Domain) -> tuple[int, ...]:
        """Return the number of codes of each axis."""
        if not self.axes or len({a.column for a in self.axes}) != len(self.axes):
            raise QuestionRefused("a table of counts takes one column or more, each once")
        if len(self.axes) > MOST_AXES:
            raise QuestionRefused(f"a table of counts takes {MOST_AXES} columns at most: use fewer")
        shape = tuple(a.size(domain) for a in self.axes)
        if math.prod(shape) > _MOST_CELLS:
            words = " x ".join(str(n) for n in shape)
            raise QuestionRefused(f"a table of {words} cells is too large (above {_MOST_CELLS}): use fewer columns")
        return shape

    def grouping(self) -> Grouping:
        """Return the axes without their codes: the counts by these give those of every code."""
        return tuple(replace(a, codes=None) for a in self.axes)

    def encode(self, counted: SparseCounts, domain: Domain) -> Integers:
        """Return the exact counts as a vector over all codes, from the sparse counts over keys."""
        cells = np.asarray(counted[0], dtype=np.int64)
        counts = np.asarray(counted[1], dtype=np.int64)
        shape = self.shape(domain)
        has_key = (cells >= 0).all(axis=1)
        place = np.zeros(int(has_key.sum()), dtype=np.int64)
        for i, (axis, size) in enumerate(zip(self.axes, shape, strict=True)):
            keys_of = cells[has_key, i]
            codes = keys_of if axis.codes is None else np.asarray(axis.codes, dtype=np.int64)[keys_of]
            if codes.size and int(codes.max()) >= size:
                raise ValueError("a key outside its declared labels")
            place = place * size + codes
        exact_counts = np.zeros(math.prod(shape), dtype=np.int64)
        np.add.at(exact_counts, place, counts[has_key])
        return exact_counts

    def sensitivity(self, domain: Domain, neighbors: Neighbors) -> Sensitivity:
        """Return how far one unit moves the table: each of its rows is in one cell at most."""
        return count_sensitivity(neighbors, cells=math.prod(self.shape(domain)), droppable=True)


@dataclass(frozen=True, slots=True)
class MarginalQuery:
    """Several tables of counts at once, one noisy vector each; `shares` splits the loss, None equally.

    Theorem: a unit of C rows moves each of k tables by at most C in l1 under add_remove (2C under replace), since a row
    is in one cell of a table; so all together by kC in l1 and, with noise of equal width, sqrt(k) C in l2.
    """

    tables: tuple[ContingencyTable, ...]
    shares: tuple[Fraction, ...] | None = None

    @property
    def unit(self) -> Fraction:
        """The step in which the vectors are measured: one row."""
        return Fraction(1)

    def parts(self, domain: Domain, neighbors: Neighbors) -> list[VectorShare]:
        """Return each vector's sensitivity, in whole steps, and its share of the loss; one vector a table."""
        count = len(self.tables)
        shares = self.shares if self.shares is not None else (Fraction(1, count),) * count if count else ()
        if not count or len(shares) != count or any(s <= 0 for s in shares) or sum(shares) != 1:
            raise QuestionRefused("marginals take one table or more, with shares above 0 that sum to 1")
        cells = [math.prod(t.shape(domain)) for t in self.tables]
        moved = {n: count_sensitivity(neighbors, cells=n, droppable=True) for n in set(cells)}
        return [(moved[n], share) for n, share in zip(cells, shares, strict=True)]

    def sensitivity(self, domain: Domain, neighbors: Neighbors) -> Sensitivity:
        """Return how far one unit moves all tables together."""
        return stack([s for s, _ in self.parts(domain, neighbors)])

    def from_counts(self, counted: Iterable[SparseCounts], domain: Domain) -> list[Integers]:
        """Return the exact vectors, one a table, from the sparse exact counts of each."""
        return [t.encode(c, domain) for t, c in zip(self.tables, counted, strict=True)]

    def names(self) -> list[str]:
        """Return a name for each vector."""
        return [t.name for t in self.tables]

    def describe(self) -> str:
        """Return the question as a sentence."""
        return f"the number of rows by {join_words(self.names())}"


def coarsest_grouping(
    grouping: Grouping,
    tables: Sequence[ContingencyTable],
    domain: Domain,
    *,
    few: int = FEW_CELLS,
    most_runs: float = MOST_RUNS,
) -> Grouping:
    """Return the grouping that tables over the same axes can be counted by: by keys where few cells can be, else by classes.

    A class holds the keys that no table tells apart, so the counts by classes give each table's; an engine then returns no
    more cells than they have, though keys of three columns can have as many cells as there are rows.
    """
    sizes = [replace(axis, codes=None).size(domain) for axis in grouping]
    if math.prod(sizes) <= few:
        return grouping
    coarse = []
    for axis in grouping:
        codes = list(
            dict.fromkeys(other.codes for table in tables for other in table.axes if other.column == axis.column)
        )
        classes = None
        if None not in codes:
            _, places = np.unique(np.array(codes), axis=1, return_inverse=True)
            if np.count_nonzero(np.diff(places.ravel())) < most_runs:
                classes = tuple(places.ravel().tolist())
        coarse.append(replace(axis, codes=classes))
    return tuple(coarse)


def tells_apart(grouping: Grouping, table: ContingencyTable) -> bool:
    """Return whether no class of the grouping holds keys that the table gives different codes."""
    for axis in grouping:
        codes = next(other.codes for other in table.axes if other.column == axis.column)
        if axis.codes is not None and (
            codes is None or len(set(zip(axis.codes, codes, strict=True))) > len(set(axis.codes))
        ):
            return False
    return True


def select_groupings(groupings: Sequence[Grouping], on: Primitives, domain: Domain) -> exp.Select:
    """Return one SQL tree of the exact counts by several groupings: k0.. one a distinct axis, `left_out`, and t0.

    `left_out` has bit n - 1 - i set where axis i of the n distinct ones (in order of first use) is not of the row's grouping.
    Rows are coded in a sub-query, so the table is read once. There are `MOST_AXES` distinct axes at most.
    """
    from sqlglot import exp

    axes = list(dict.fromkeys(axis for grouping in groupings for axis in grouping))
    inner: list[Any] = []
    for i, axis in enumerate(axes):
        code = axis.keys(domain).row_code(on)
        inner.append(exp.alias_(code if axis.codes is None else _class_of(code, axis.codes, on), f"k{i}"))
    rows = exp.Select(expressions=inner).from_(on.source(), copy=False)
    names = [exp.column(f"k{i}") for i in range(len(axes))]
    sets = dict.fromkeys(tuple(axes.index(axis) for axis in grouping) for grouping in groupings)
    left_out = exp.alias_(exp.Anonymous(this="GROUPING", expressions=names), "left_out", copy=False)
    count = exp.alias_(exp.Count(this=exp.Star()), "t0", copy=False)
    columns: list[Any] = [*(n.copy() for n in names), left_out, count]
    groups = exp.GroupingSets(expressions=[exp.Tuple(expressions=[names[i].copy() for i in s]) for s in sets])
    select = exp.Select(expressions=columns).from_(rows.subquery("sordino_keys", copy=False), copy=False)
    select.set("group", exp.Group(grouping_sets=[groups]))
    return select


def select_cells(axes: Sequence[Axis], on: Primitives, domain: Domain) -> exp.Select:
    """Return one SQL tree of what tells the key of each row, k0.. one an axis: its steps where it `cuts_steps`, else the key."""
    from sqlglot import exp

    cells = [
        _steps_of(axis.column, domain[axis.column], missing=axis.missing).build(on)
        if cuts_steps(axis, domain)
        else axis.keys(domain).row_code(on)
        for axis in axes
    ]
    return exp.Select(expressions=[exp.alias_(cell, f"k{i}", copy=False) for i, cell in enumerate(cells)]).from_(
        on.source(), copy=False
    )


def cuts_steps(axis: Axis, domain: Domain) -> bool:
    """Return whether the keys of an axis follow from whole steps that 64 bits hold: bins of them, and round values."""
    if axis.edges is None:
        return False
    ends = _steps_of(axis.column, domain[axis.column], missing=axis.missing).ends
    return max(map(abs, (*ends, axis.edges[0], axis.edges[-1]))) < NARROW


def _class_of(code: exp.Expression, classes: Sequence[int], on: Primitives) -> exp.Expression:
    """Return the class of a key, NULL where the row has none."""
    starts = [i for i in range(1, len(classes)) if classes[i] != classes[i - 1]]
    return on.look_up(code, starts, [classes[i] for i in (0, *starts)])


def join_words(words: Sequence[str]) -> str:
    """Return names in a row, the many cut short."""
    shown_words = [*words[:6], f"{len(words) - 6} more"] if len(words) > 7 else list(words)
    return ", ".join(shown_words[:-1]) + " and " + shown_words[-1] if len(shown_words) > 1 else shown_words[0]


@functools.lru_cache(maxsize=1024)
def _steps_of(name: str, column: Column, *, missing: bool) -> BoundNumber:
    """Return the steps of one column, NULL where they are missing."""
    return bind_number(Name(name), Domain({name: keep_missing(column) if missing else column}))


@functools.lru_cache(maxsize=4096)
def _keys_of(name: str, column: Column, edges: tuple[int, ...] | None, *, missing: bool, rounded: bool) -> Keys:
    """Return the keys of one column; all of it is declared, and an adaptive algorithm asks for the same ones again."""
    if rounded:
        return _rounded_keys(name, column, edges)
    declared = keep_missing(column) if missing else column
    domain = Domain({name: declared})
    keeps_missing = not isinstance(declared, Identifier) and declared.missing == "keep"
    if edges is not None:
        of = _steps_of(name, column, missing=missing)
        labels: tuple[Any, ...] = tuple(f"[{a}, {b})" for a, b in itertools.pairwise(edges))
        return _with_missing(labels, of, keeps_missing, bin_index(of, edges))
    return keys(Name(name), domain)


def _rounded_keys(name: str, column: Column, edges: tuple[int, ...] | None) -> Keys:
    """Return the keys of bins by sets of round values."""
    if edges is None:
        raise QuestionRefused(f"round values of {name!r} are counted by bins: state edges")
    of = bind_number(Name(name), Domain({name: column}))
    words = ["other values", *(s.words for s in sets_of(of))]
    labels = tuple(f"[{a}, {b}), {w}" for a, b in itertools.pairwise(edges) for w in words)
    place = bin_index(of, edges)
    return Keys(labels, add(multiply(lambda on: on.name(place(on)), len(words)), smallest_set(of)))


def _with_missing(labels: tuple[Any, ...], of: BoundNumber, keeps_missing: bool, build: Any) -> Keys:
    if not (keeps_missing and of.missable):
        return Keys(labels, build)
    last = len(labels)
    return Keys(
        (*labels, None), lambda on: trees().Coalesce(this=build(on), expressions=[trees().Literal.number(last)])
    )


# the parts of a row in which models, and so distances, are measured
PARTS = 1024
# the most parts in a cell of a model: sums of differences stay within 63 bits
_LARGEST = 2**52


@dataclass(frozen=True, slots=True, eq=False)
class Distances:
    """The l1 distances between exact tables of counts and their public models, as one vector.

    `models` gives for each table its cells, flat in row-major order, as whole numbers of `1 / PARTS` rows; `floors`, in the
    same parts, public numbers that are taken from the distances, none if it is empty.

    Theorem: | ||x - m||_1 - ||x' - m||_1 | <= ||x - x'||_1, so a unit moves each distance by at most the l1 sensitivity of
    its table (C under add_remove, 2C under replace), and k of them by sqrt(k) times that in l2. Floors change no difference.
    """

    tables: tuple[ContingencyTable, ...]
    models: tuple[Integers, ...]
    floors: tuple[int, ...] = ()

    @property
    def unit(self) -> Fraction:
        """The step in which the distances are measured."""
        return Fraction(1, PARTS)

    def parts(self, domain: Domain, neighbors: Neighbors) -> list[VectorShare]:
        """Return the sensitivity, in whole steps, of the one vector, which gets the whole loss."""
        return [(self.sensitivity(domain, neighbors).rescale(1 / self.unit), Fraction(1))]

    def sensitivity(self, domain: Domain, neighbors: Neighbors) -> Sensitivity:
        """Return how far one unit moves all distances together, in rows."""
        if not self.tables or len(self.tables) != len(self.models):
            raise QuestionRefused("distances take one table or more, and a model of each")
        if self.floors and len(self.floors) != len(self.tables):
            raise QuestionRefused("distances take a floor of each table, or none")
        if max(map(abs, self.floors), default=0) > _LARGEST:
            raise QuestionRefused("a floor is too large to take from a distance")
        moved: list[Sensitivity] = []
        for table, model in zip(self.tables, self.models, strict=True):
            if model.dtype != np.int64 or model.shape != (int(np.prod(table.shape(domain))),):
                raise QuestionRefused("a model is a flat array of int64 with one number a cell of its table")
            if model.size and max(int(model.max()), -int(model.min())) > _LARGEST // model.size:
                raise QuestionRefused("a model's counts are too large to measure a distance to")
            move = table.sensitivity(domain, neighbors)
            because = f"a distance moves as far as its table: {move.because}"
            moved.append(Sensitivity(1, move.l1, move.l1**2, move.l1, because))
        return stack(moved)

    def from_counts(self, counted: Iterable[SparseCounts], domain: Domain) -> list[Integers]:
        """Return the exact vector of distances, in steps, from the sparse exact counts of each table."""
        exact_distances = [
            int(np.abs(t.encode(c, domain) * PARTS - m).sum())
            for t, c, m in zip(self.tables, counted, self.models, strict=True)
        ]
        floors = self.floors or (0,) * len(exact_distances)
        return [np.array(exact_distances, dtype=np.int64) - np.array(floors, dtype=np.int64)]

    def names(self) -> list[str]:
        """Return a name for the vector."""
        return ["distance"]

    def describe(self) -> str:
        """Return the question as a sentence."""
        words = join_words([t.name for t in self.tables])
        return f"how far the number of rows by {words} lies from a public model"
