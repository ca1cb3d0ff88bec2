"""Bin counts: the rows in equal bins of each number's declared range, and at each declared value. Knows no data.

At a small pure epsilon they say better than sums and squares where a number lies and how far it spreads, as a row moves one
bin of each number by 1, however wide the declared bounds are.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sordino.ask.queries.adaptive.marginal import VectorShare
from sordino.ask.queries.expressions.sql_trees import whole
from sordino.ask.queries.moment_matrix import (
    PARTS,
    WEIGHT,
    CompiledMoments,
    MomentMatrix,
    ScaledNumber,
    compile_moments,
    read_rows,
    round_sensitivity,
)
from sordino.ask.queries.queryable import Scan
from sordino.core.domain import Domain
from sordino.core.errors import QuestionRefused
from sordino.core.neighbors import Neighbors, Sensitivity
from sordino.core.primitives import Primitives

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp

MOST_BINS = 1 << 10


@dataclass(frozen=True, slots=True)
class BinCounts:
    """Ask for the rows in at most `bins` equal bins of each number, and at each declared value of the `categories`, by place.

    A number of fewer steps than bins has a bin for each; with no bins numbers are left out. If nothing is counted by, the one
    answer is how many rows there are. Weighted rows count by their weights.
    """

    question: MomentMatrix
    bins: int = 0
    categories: tuple[int, ...] = ()

    @property
    def unit(self) -> Fraction:
        """One part of a row."""
        return Fraction(1, PARTS)

    def sizes(self, compiled: CompiledMoments) -> list[int]:
        """Return how many counts each column has, in the order of the vector: numbers, then categories."""
        sizes = [bins_of(number, self.bins) for number in compiled.numbers] if self.bins else []
        return sizes + [len(compiled.categories[place].labels) for place in self.categories]

    def parts(self, domain: Domain, neighbors: Neighbors) -> list[VectorShare]:
        """Return the sensitivity of the one vector, which gets the whole loss."""
        compiled = compile_moments(self.question, domain)
        if not 0 <= self.bins <= MOST_BINS:
            raise QuestionRefused(f"numbers are counted in at most {MOST_BINS} bins")
        return [(self.sensitivity(compiled, neighbors.enforce(None, by_group=False)), Fraction(1))]

    def sensitivity(self, compiled: CompiledMoments, neighbors: Neighbors) -> Sensitivity:
        """Return how far one unit moves the counts, in parts of a row.

        Theorem. With k columns a unit of C rows moves the counts by at most C k in l1 and C sqrt(k) in l2 under add_remove, and
        by 2 C k and C sqrt(2 k) under replace. Proof. A row adds its weight, in [0, 1], to one count of each column. Under
        replace the counts of a column fall by at most C in all and rise by at most C in all, in other cells or the same. Of the
        rows alone, k = 1 and the rise meets the fall, so they move by C.
        """
        sizes = self.sizes(compiled)
        rows = neighbors.contributions
        sides = 2 if neighbors.relation == "replace" and sizes else 1
        moved = sides * max(len(sizes), 1)
        touched = min(rows * moved, sum(sizes) or 1)
        return round_sensitivity(
            neighbors,
            touched=touched,
            l1=Fraction(rows * moved),
            l2_squared=Fraction(rows**2 * moved),
            linf=Fraction(rows),
        )

    def names(self) -> list[str]:
        """Return the name of the vector."""
        return ["bins"]

    def describe(self) -> str:
        """Return the question as a sentence."""
        return f"how many rows lie where, for {self.question.describe()}"

    def scans(self, domain: Domain) -> list[Scan]:
        """Return the one SELECT."""
        compiled = compile_moments(self.question, domain)
        text = f"bins {self.question.identity()} {self.bins} {self.categories}"
        return [Scan(text, functools.partial(_select_counts, compiled, self))]

    def exact_vectors(self, tables: Sequence[pa.Table], domain: Domain) -> list[list[int]]:
        """Return the exact counts, column by column, in parts; only the curator calls it."""
        compiled = compile_moments(self.question, domain)
        one = 1 if compiled.weight is None else WEIGHT
        sizes = self.sizes(compiled)
        if not sizes:
            (row,) = tables[0].to_pylist()
            return [[int(row["t0"] or 0) * PARTS // one]]
        exact_counts = [[0] * size for size in sizes]
        # The one column that is not left out.
        places = {(1 << len(sizes)) - 1 - (1 << (len(sizes) - 1 - place)): place for place in range(len(sizes))}
        for row in tables[0].to_pylist():
            place = places[int(row["left_out"])]
            exact_counts[place][int(row[f"k{place}"])] = int(row["t0"] or 0) * PARTS // one
        return [[exact_count for exact_column in exact_counts for exact_count in exact_column]]


def values_of(number: ScaledNumber) -> int:
    """Return how many values of a number are told apart."""
    return number.width // number.times + 1


def bins_of(number: ScaledNumber, bins: int) -> int:
    """Return how many bins a number has: at most one for each value."""
    return min(bins, values_of(number))


def _select_counts(compiled: CompiledMoments, counts: BinCounts, on: Primitives) -> exp.Select:
    """Return the rows, or their weights, in each bin: k0.., `left_out`, t0; by no column t0 alone."""
    from sqlglot import exp

    read = read_rows(compiled, on)
    cells: list[Any] = []
    if counts.bins:
        for number, cell in zip(compiled.numbers, read.numbers, strict=True):
            # Steps from the lower bound are even multiples of `times`: bin b holds the values v with v bins // values = b.
            above = exp.Paren(this=exp.Add(this=number.place(cell), expression=whole(number.width)))
            scaled = exp.Paren(this=exp.Mul(this=above, expression=whole(bins_of(number, counts.bins))))
            cells.append(exp.IntDiv(this=scaled, expression=whole(2 * number.times * values_of(number))))
    cells += [read.codes[place] for place in counts.categories]
    inner = [exp.alias_(exp.Paren(this=cell), f"k{i}", copy=False) for i, cell in enumerate(cells)]
    inner += [exp.alias_(weight, "u", copy=False) for weight in read.weights]
    rows = (
        exp.Select(expressions=inner or [exp.alias_(whole(0), "k0", copy=False)])
        .from_(read.source, copy=False)
        .subquery("sordino_binned", copy=False)
    )
    # Not `total`, which names steps of the rows: these have been selected.
    total: Any = exp.Sum(this=exp.column("u")) if read.weights else exp.Count(this=exp.Star())
    keys = [exp.column(f"k{i}") for i in range(len(cells))]
    if not keys:
        return exp.Select(expressions=[exp.alias_(total, "t0")]).from_(rows)
    left_out = exp.alias_(
        exp.Anonymous(this="GROUPING", expressions=[key.copy() for key in keys]), "left_out", copy=False
    )
    select: exp.Select = exp.Select(expressions=[*keys, left_out, exp.alias_(total, "t0")]).from_(rows)
    sets = [exp.Tuple(expressions=[key.copy()]) for key in keys]
    select.set("group", exp.Group(grouping_sets=[exp.GroupingSets(expressions=sets)]))
    return select
