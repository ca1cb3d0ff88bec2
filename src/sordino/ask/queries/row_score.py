"""Row scores: the sum of a whole number of each row, as candidates among which a choice is made. Knows no data."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from sordino.ask.queries.adaptive.marginal import VectorShare
from sordino.ask.queries.expressions.bound_number import BoundNumber, clip
from sordino.ask.queries.expressions.compile import bind_number
from sordino.ask.queries.expressions.nodes import Node, describe, plain
from sordino.ask.queries.queryable import Scan
from sordino.ask.queries.sensitivity_rules import sum_sensitivity
from sordino.core.domain import Domain
from sordino.core.errors import QuestionRefused
from sordino.core.neighbors import Neighbors
from sordino.core.primitives import Primitives

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp


@dataclass(frozen=True, slots=True)
class RowScore:
    """The sum over all rows of a whole number that is cut to 0 to `most`; rows without one add nothing.

    A condition counts 1 where it is met. A row adds `most` at most, and an added unit never takes anything away.
    """

    of: Node
    most: int = 1

    # An added unit moves every such sum upwards.
    direction: ClassVar[int] = 1

    @property
    def unit(self) -> Fraction:
        """One."""
        return Fraction(1)

    def parts(self, domain: Domain, neighbors: Neighbors) -> list[VectorShare]:
        """Return the sensitivity of the one number; raises QuestionRefused for one that is not whole."""
        self._number(domain)
        enforced = neighbors.enforce(None, by_group=False)
        moved = sum_sensitivity(enforced, lower=Fraction(0), upper=Fraction(self.most), cells=1, droppable=True)
        return [(moved, Fraction(1))]

    def _number(self, domain: Domain) -> BoundNumber:
        number = bind_number(self.of, domain)
        if number.unit != 1 or self.most < 1:
            raise QuestionRefused(
                f"{describe(self.of)} is no whole number, and a row's score is one, of 1 or more at the most"
            )
        return clip(number, Fraction(0), Fraction(self.most))

    def names(self) -> list[str]:
        """Return the name of the number."""
        return ["score"]

    def describe(self) -> str:
        """Return the question as a sentence."""
        return f"the sum of {describe(self.of)}"

    def scans(self, domain: Domain) -> list[Scan]:
        """Return the one SELECT."""
        text = json.dumps(["row score", plain(self.of), self.most], default=str)
        return [Scan(text, functools.partial(self._select, self._number(domain)))]

    def _select(self, number: BoundNumber, on: Primitives) -> exp.Select:
        from sqlglot import exp

        score = number.build(on)
        rows = exp.Select(expressions=[exp.alias_(score, "s")]).from_(on.source()).subquery("sordino_rows")
        # Not `total`, which names steps of the rows: these have been selected.
        total = exp.Sum(this=exp.column("s"))
        select: exp.Select = exp.Select(expressions=[exp.alias_(total, "t0")]).from_(rows)
        return select

    def exact_vectors(self, tables: Sequence[pa.Table], domain: Domain) -> list[list[int]]:
        """Return the exact sum; only the curator calls it."""
        del domain
        (row,) = tables[0].to_pylist()
        return [[int(row["t0"] or 0)]]
