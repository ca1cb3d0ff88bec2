"""Contributions: how many units have how many rows, or rows under how many keys, before any cap. Knows no data.

From one such histogram follows what a cap of m would lose: the sum over units of what each has above m.
"""

from __future__ import annotations

import bisect
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sordino.ask.queries.adaptive.marginal import VectorShare
from sordino.ask.queries.expressions.keys import keys
from sordino.ask.queries.expressions.nodes import Node, describe, plain
from sordino.ask.queries.expressions.sql_trees import least
from sordino.ask.queries.queryable import Scan
from sordino.core.domain import Domain
from sordino.core.errors import QuestionRefused
from sordino.core.neighbors import Neighbors, Sensitivity
from sordino.core.primitives import Primitives

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp

# a public bound: a unit with more rows counts as one with so many
MOST_ROWS = 2**20
# bins of one number each, then bins a power of two
_SINGLE = 8
_OCTAVE = 4


def contribution_bins() -> tuple[int, ...]:
    """Return the first numbers of the bins: 1 to 8 by themselves, then 4 a power of two, up to MOST_ROWS.

    >>> contribution_bins()[6:11], contribution_bins()[-1] == MOST_ROWS
    ((7, 8, 10, 12, 14), True)
    """
    powers = itertools.takewhile(lambda low: low < MOST_ROWS, (_SINGLE * 2**i for i in itertools.count()))
    steps = (low + low * i // _OCTAVE for low in powers for i in range(_OCTAVE))
    return (*range(1, _SINGLE), *steps, MOST_ROWS)


@dataclass(frozen=True, slots=True)
class Contributions:
    """The numbers of units by their number of rows, or by that of different keys `of` in them, in public bins.

    With `pairs`, count pairs of unit and key by their number of rows, for the first so many keys of each unit.

    Theorem: each unit is in one bin at most, and in which is a function of its own rows alone. So a unit put in or
    taken out moves one count by 1 (l1 1, l2 1), and one exchanged for another moves two (l1 2, l2 sqrt 2) - whatever
    caps are declared, and however many rows it has. With m pairs a unit, which follow from its own rows alone, these
    figures are m times as large, since all pairs may fall in one bin (l2 m, under replace sqrt 2 m).
    """

    of: Node | None
    pairs: int | None = None

    @property
    def unit(self) -> Fraction:
        """One unit."""
        return Fraction(1)

    def parts(self, domain: Domain, neighbors: Neighbors) -> list[VectorShare]:
        """Return the one sensitivity; raises QuestionRefused where a row is the unit, or keys cannot be grouped by."""
        if neighbors.id_column is None:
            what = "one row" if neighbors.unit is None else "named by no column"
            raise QuestionRefused(
                f"the privacy unit is {what}, so there is nothing to cap; caps are for PrivacyUnit(column, max_rows=...)"
            )
        if self.of is not None:
            keys(self.of, domain)
        moved = 1 if neighbors.relation == "add_remove" else 2
        most = self.pairs or 1
        bins = len(contribution_bins())
        because = f"{neighbors.relation} of one {neighbors.id_column} with all its rows moves {moved} bin(s) by {most}"
        norms = Fraction(moved * most), Fraction(moved * most**2), Fraction(most)
        return [(Sensitivity(min(moved * most, bins), *norms, because), Fraction(1))]

    def names(self) -> list[str]:
        """Return the name of the vector."""
        return ["units"]

    def scans(self, domain: Domain) -> list[Scan]:
        """Return the one scan: k0 (the number a unit has, at most MOST_ROWS), t0 (the units that have it)."""

        def select(on: Primitives) -> exp.Select:
            from sqlglot import exp

            relation = on.units(None if self.of is None else keys(self.of, domain).row_code(on), pairs=self.pairs)
            row_count = exp.column("sordino_has")
            most = least(row_count, exp.Literal.number(MOST_ROWS))
            columns = [exp.alias_(most, "k0"), exp.alias_(exp.Count(this=exp.Star()), "t0")]
            return exp.Select(expressions=columns).from_(relation).group_by(exp.Literal.number(1))

        return [Scan(f"contributions {json.dumps([plain(self.of), self.pairs])}", select)]

    def exact_vectors(self, tables: Sequence[pa.Table], domain: Domain) -> list[list[int]]:
        """Return the exact number of units in each bin; a unit without any key is in none."""
        del domain
        starts = contribution_bins()
        exact_units = [0] * len(starts)
        columns = [tables[0][n].to_pylist() for n in ("k0", "t0")]
        for has, units in zip(*columns, strict=True):
            if has:
                exact_units[bisect.bisect_right(starts, int(has)) - 1] += int(units)
        return [exact_units]

    def describe(self) -> str:
        """Return the question as a sentence."""
        if self.of is not None and self.pairs is not None:
            return f"the number of pairs of unit and {describe(self.of)} by their number of rows"
        what = "rows" if self.of is None else f"keys of {describe(self.of)}"
        return f"the number of units by their number of {what}"
