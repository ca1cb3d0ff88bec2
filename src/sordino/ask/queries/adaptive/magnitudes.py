"""Magnitude histograms: how many rows lie in each public bin of values, and how far above its start. Knows no data.

From one such histogram every clipped sum follows: for b at the end of bin j, S(b) is the sum over bins up to j of
start_i n_i + r_i, plus b times the rows above (mirrored below the lower bound), where r_i sums x - start_i over bin i.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from sordino.ask.queries.adaptive.marginal import VectorShare
from sordino.ask.queries.expressions.bound_number import BoundNumber, bin_index, clip
from sordino.ask.queries.expressions.compile import bind_number
from sordino.ask.queries.expressions.nodes import Name, Node, When, describe, plain
from sordino.ask.queries.expressions.sql_trees import whole
from sordino.ask.queries.queryable import Scan
from sordino.ask.queries.sensitivity_rules import count_sensitivity
from sordino.core.domain import STORED, Domain, Real
from sordino.core.errors import QuestionRefused
from sordino.core.neighbors import Neighbors, Sensitivity
from sordino.core.primitives import Primitives

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp

# the parts of a bin's width in which offsets are counted
PARTS = 1024
# the binary digits of the largest magnitude, in steps, that has a bin
TOP = 63
_FINEST = Fraction(1, 2**20)


def search_number(of: Node, domain: Domain, *, coarse: bool) -> BoundNumber:
    """Return the number to search bounds for; a real column without a resolution is read in steps of 2^-20, or of 1."""
    value = of.left if isinstance(of, When) and of.right is None else of
    if isinstance(value, Name) and isinstance(domain[value.name], Real):
        column = domain[value.name]
        assert isinstance(column, Real)
        if column.step is None:
            reach = max((abs(b) for b in (column.lower, column.upper) if b is not None), default=Fraction(0))
            if reach >= STORED:
                raise QuestionRefused(
                    f"{describe(of)} is declared beyond 2^62: declare its resolution, such as reach / 10^9"
                )
            step = Fraction(1) if coarse or reach >= STORED * _FINEST else _FINEST
            finer = Real(column.lower, column.upper, resolution=step, missing=column.missing)
            return bind_number(of, Domain({**domain.columns, value.name: finer}, row_ceiling=domain.row_ceiling))
    number = bind_number(of, domain)
    if number.kind != "number":
        words = f"{describe(of)} is a {number.kind}: its bounds are declared, and need no search. Where its values lie is told by"
        raise QuestionRefused(
            f'{words} quantiles near both ends, sd.quantiles("{describe(of)}", [0.01, 0.99])',
            sql=f"{words} QUANTILE_CONT({describe(of)}, 0.01) and QUANTILE_CONT({describe(of)}, 0.99)",
        )
    return number


def powers_of_two() -> tuple[int, ...]:
    """Return the edges that separate numbers by sign and count of binary digits, whatever the scale: 2 TOP + 1 bins.

    Bin TOP + c holds 2^(c-1) <= x < 2^c, bin TOP holds 0, bin TOP - c mirrors.

    >>> powers_of_two()[TOP - 2 : TOP + 4]
    (-3, -1, 0, 1, 2, 4)
    """
    low = [-(2**c) + 1 for c in range(TOP - 1, 0, -1)]
    high = [2**c for c in range(TOP)]
    return (-(2 ** (TOP - 1)) - 1, *low, 0, *high, 2 ** (TOP - 1) + 1)


@dataclass(frozen=True, slots=True)
class MagnitudeHistogram:
    """Counts of rows in the bins [e0, e1), ..., [e(n-1), en], edges in steps; values outside are clipped to the ends.

    With `offsets`, also the sum of (x - start) / width over each bin, in 1 / PARTS, rounded down once a bin.

    Theorem: a row is in one bin, so the counts move by C in l1 (add_remove; replace: 2C). Its offset lies in [0, 1]
    widths and rounding can add one part, so the offsets move by C (1 + 1/PARTS), twice that under replace: the two
    vectors together by about 2C and 4C.
    """

    of: Node
    edges: tuple[int, ...]
    offsets: bool
    coarse: bool = False

    @property
    def unit(self) -> Fraction:
        """One part of a row, or of a bin's width."""
        return Fraction(1, PARTS) if self.offsets else Fraction(1)

    def parts(self, domain: Domain, neighbors: Neighbors) -> list[VectorShare]:
        """Return the sensitivities, in steps: the counts' and, with `offsets`, the offsets'."""
        search_number(self.of, domain, coarse=self.coarse)
        if len(self.edges) < 2 or any(a >= b for a, b in zip(self.edges[:-1], self.edges[1:], strict=True)):
            raise QuestionRefused("the edges of bins must ascend, two or more")
        if max(abs(self.edges[0]), abs(self.edges[-1])) > 2**TOP:
            raise QuestionRefused(f"bins may reach 2^{TOP} steps of their column's grid")
        moved = count_sensitivity(neighbors, cells=len(self.edges) - 1, droppable=True)
        if not self.offsets:
            return [(moved, Fraction(1))]
        grown = moved.rescale(Fraction(PARTS + 1))
        because = f"{moved.because}, and offsets by a width each"
        return [
            # the bounds follow from the counts, the sums from both
            (moved.rescale(Fraction(PARTS)), Fraction(3, 4)),
            (Sensitivity(grown.l0, grown.l1, grown.l2_squared, grown.linf, because), Fraction(1, 4)),
        ]

    def names(self) -> list[str]:
        """Return the names of the vectors."""
        return ["rows", "offsets"] if self.offsets else ["rows"]

    def scans(self, domain: Domain) -> list[Scan]:
        """Return the one scan: k0 (the bin), t0 (its rows), and, with `offsets`, t1 (their sum in steps)."""

        def select(on: Primitives) -> exp.Select:
            from sqlglot import exp

            low, high = self.edges[0], self.edges[-1]
            number = search_number(self.of, domain, coarse=self.coarse)
            value = clip(number, low * number.unit, high * number.unit)
            place = bin_index(value, self.edges)
            columns = [exp.alias_(place(on), "k0"), exp.alias_(exp.Count(this=exp.Star()), "t0")]
            if self.offsets:
                moved = exp.Sub(this=on.wide(value.build(on)), expression=whole(low))
                columns.append(exp.alias_(exp.Sum(this=exp.paren(moved)), "t1"))
            rows = exp.Select(expressions=columns).from_(on.source(), copy=False)
            return rows.group_by(exp.Literal.number(1), copy=False)

        of = json.dumps([plain(self.of), self.coarse, self.offsets])
        return [Scan(f"magnitudes {of} {_text_of(self.edges)}", select)]

    def exact_vectors(self, tables: Sequence[pa.Table], domain: Domain) -> list[list[int]]:
        """Return the exact counts and, with `offsets`, the offsets, in parts."""
        del domain
        exact_counts = [0] * (len(self.edges) - 1)
        exact_offsets = [0] * (len(self.edges) - 1)
        columns = [tables[0][n].to_pylist() for n in ("k0", "t0", "t1" if self.offsets else "t0")]
        for place, rows, moved in zip(*columns, strict=True):
            if place is not None:
                start = self.edges[place]
                width = self.edges[place + 1] - self.edges[place]
                exact_counts[place] = int(rows)
                exact_offsets[place] = (int(moved) - (start - self.edges[0]) * int(rows)) * PARTS // width
        if not self.offsets:
            return [exact_counts]
        return [[n * PARTS for n in exact_counts], exact_offsets]

    def describe(self) -> str:
        """Return the question as a sentence."""
        return f"the number of rows in {len(self.edges) - 1} bins of {describe(self.of)}"


# hundreds of candidates ask for the scan of one histogram
@lru_cache(8)
def _text_of(edges: tuple[int, ...]) -> str:
    return json.dumps(edges)


@dataclass(frozen=True, slots=True)
class TailCount:
    """The score of one edge of a histogram by the rows beyond it: few (target - rows), many (rows - target), near (-distance).

    `handicap`, a public number, is taken off, so that of many empty edges the nearest is likely.

    Theorem: the rows beyond an edge are a count, so every score moves by C under add_remove and under replace. An added
    unit raises all counts or none, so it lowers every "few" score and raises every "many" score, or leaves it.
    """

    histogram: MagnitudeHistogram
    edge: int
    target: int
    score: Literal["few", "many", "near"]
    below: bool
    handicap: int = 0

    @property
    def unit(self) -> Fraction:
        """One row."""
        return Fraction(1)

    @property
    def direction(self) -> int:
        """Which way alone an added unit may move the score: 1 up, -1 down, 0 either."""
        return {"few": -1, "many": 1, "near": 0}[self.score]

    def parts(self, domain: Domain, neighbors: Neighbors) -> list[VectorShare]:
        """Return the sensitivity of the score."""
        del domain
        return [(count_sensitivity(neighbors, cells=1, droppable=True), Fraction(1))]

    def names(self) -> list[str]:
        """Return the name of the score."""
        return ["score"]

    def scans(self, domain: Domain) -> list[Scan]:
        """Return the histogram's scan: candidates of one histogram share it."""
        return self.histogram.scans(domain)

    def exact_vectors(self, tables: Sequence[pa.Table], domain: Domain) -> list[list[int]]:
        """Return the exact score."""
        del domain
        import pyarrow as pa

        # In arrays, since hundreds of candidates read one table: the bin of a missing number is NaN, on neither side. Cast
        # first: an engine may hold whole numbers as decimals, whose missing ones are no numbers.
        places = tables[0]["k0"].cast(pa.float64()).to_numpy()
        side = places < self.edge if self.below else places >= self.edge
        beyond = int(tables[0]["t0"].cast(pa.int64()).to_numpy()[side].sum())
        over = beyond - self.target
        return [[{"few": -over, "many": over, "near": -abs(over)}[self.score] - self.handicap]]

    def describe(self) -> str:
        """Return the question as a sentence."""
        side = "below" if self.below else "above"
        return f"the number of rows {side} bin {self.edge} of {describe(self.histogram.of)}"


@dataclass(frozen=True, slots=True)
class OutsideCount:
    """Counts of rows below bin `first` of a histogram, from there to before bin `last`, and from `last` on.

    Theorem: a row is in one of the three, so they move by C in l1 (add_remove; replace: 2C).
    """

    histogram: MagnitudeHistogram
    first: int
    last: int

    @property
    def unit(self) -> Fraction:
        """One row."""
        return Fraction(1)

    def parts(self, domain: Domain, neighbors: Neighbors) -> list[VectorShare]:
        """Return the sensitivity of the three counts."""
        del domain
        return [(count_sensitivity(neighbors, cells=3, droppable=True), Fraction(1))]

    def names(self) -> list[str]:
        """Return the name of the vector."""
        return ["rows"]

    def scans(self, domain: Domain) -> list[Scan]:
        """Return the histogram's scan."""
        return self.histogram.scans(domain)

    def exact_vectors(self, tables: Sequence[pa.Table], domain: Domain) -> list[list[int]]:
        """Return the exact counts."""
        del domain
        exact = [0, 0, 0]
        for place, rows in zip(tables[0]["k0"].to_pylist(), tables[0]["t0"].to_pylist(), strict=True):
            if place is not None:
                exact[(place >= self.first) + (place >= self.last)] += int(rows)
        return [exact]

    def describe(self) -> str:
        """Return the question as a sentence."""
        return f"the number of rows below, within and above two bounds of {describe(self.histogram.of)}"
