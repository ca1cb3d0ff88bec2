"""Row steps: what turns the rows of a private table into those that a question is about, one step after the other.

Each step is a stable transformation: from the relation of its rows before it states the relation of those after it, so
that the sensitivities of what follows hold for the table itself (McSherry 2009, section 2.3). It knows declarations only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sordino.core.domain import Domain
from sordino.core.errors import QuestionRefused
from sordino.core.neighbors import Neighbors
from sordino.core.primitives import Primitives


class RowStep(Protocol):
    """One step: what its rows are declared as, how far two of its tables lie apart, and how an engine makes its rows."""

    def domain(self, domain: Domain) -> Domain:
        """Return the domain of the rows after the step; raises QuestionRefused where there are none."""

    def neighbors(self, neighbors: Neighbors) -> Neighbors:
        """Return the relation of the rows after the step."""

    def apply(self, on: Primitives, domain: Domain) -> Primitives:
        """Return the primitives of the rows after the step; `domain` is that of the rows before, and `on` is still unused."""

    def describe(self) -> str:
        """Return the step in words."""

    def plain(self) -> Any:
        """Return the step as canonical JSON data."""


@dataclass(frozen=True, slots=True)
class Fold:
    """A row step that keeps the rows of one unit in `count`, or, with `others`, of all the rest, by a public hash of the unit.

    A unit is in one of the two alone. It keeps or drops all rows of a unit, so a unit that is put in or taken out moves what
    follows as far as before, or not at all; under replace a row may then drop out.
    """

    count: int
    others: bool = False

    def domain(self, domain: Domain) -> Domain:
        """Return the same columns, of rows that may drop out."""
        return Domain(domain.stored, row_ceiling=domain.row_ceiling, unreadable_rows=True)

    def neighbors(self, neighbors: Neighbors) -> Neighbors:
        """Return the same relation."""
        return neighbors

    def apply(self, on: Primitives, domain: Domain) -> Primitives:
        """Keep the rows of the fold."""
        from sqlglot import exp

        del domain
        compare = exp.NEQ if self.others else exp.EQ
        on.keep(compare(this=exp.paren(on.chunk(self.count)), expression=exp.Literal.number(0)))
        return on

    def describe(self) -> str:
        """Return the step in words."""
        return f"without one unit of {self.count}" if self.others else f"of one unit of {self.count}, by a public hash"

    def plain(self) -> Any:
        """Return the step as canonical JSON data."""
        return ["fold", self.count, self.others]


def check_fold(step: Fold) -> Fold:
    """Return the step; raises QuestionRefused for folds that hold nobody, or everybody."""
    if isinstance(step.count, bool) or not isinstance(step.count, int) or not 2 <= step.count <= 100:
        raise QuestionRefused("a fold is one unit of 2 to 100")
    return step


def step_domain(domain: Domain, steps: Sequence[RowStep]) -> Domain:
    """Return the domain of the rows after all steps; it knows the steps that made it."""
    for i, step in enumerate(steps):
        after = step.domain(domain)
        domain = Domain(
            after.stored,
            row_ceiling=after.row_ceiling,
            unreadable_rows=after.unreadable_rows,
            steps=tuple(steps[: i + 1]),
        )
    return domain


def step_neighbors(neighbors: Neighbors, steps: Sequence[RowStep]) -> Neighbors:
    """Return the relation of the rows after all steps."""
    for step in steps:
        neighbors = step.neighbors(neighbors)
    return neighbors


def apply_steps(on: Primitives, steps: Sequence[RowStep], domain: Domain) -> Primitives:
    """Return the primitives of the rows after all steps; `domain` is the table's. Use no other primitive before."""
    for i, step in enumerate(steps):
        on = step.apply(on, step_domain(domain, steps[:i]))
    return on
