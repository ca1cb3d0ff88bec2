"""How the most common value is answered: a selection among the declared values, by their exact counts after the charge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sordino.ask.curator.aggregation_procedure import exact_vectors, text_note
from sordino.ask.curator.plan import (
    Answer,
    DataAccess,
    Plan,
    PlannedColumn,
    Procedure,
    StatementWriter,
    TableContext,
    price,
)
from sordino.ask.queries.aggregates.most_common import MostCommon
from sordino.ask.queries.aggregation import CompiledQuery
from sordino.core.estimates.choices import Choices
from sordino.core.loss import Loss
from sordino.core.mechanisms.selection import Exponential, PermuteAndFlip, best_selection
from sordino.core.noise.rng import Rng
from sordino.core.release import Output, show_rows

if TYPE_CHECKING:
    from sordino.ask.engines.engine import Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class MostCommonProcedure(Procedure):
    """Selects one declared value by a selection mechanism."""

    question: MostCommon
    compiled: CompiledQuery
    mechanism: Exponential | PermuteAndFlip

    def columns(self, confidence: float) -> Sequence[PlannedColumn]:
        """Return the planned column; its error is by how many rows the selected value may fall short of the most common one."""
        error = self.mechanism.error(confidence, candidates=self.compiled.cells)
        words = f"{show_rows(error, Choices.error_unit)} at {100 * confidence:g}%"
        line = f"{self.mechanism.describe()}, among {self.compiled.cells} values"
        data = {"role": "selection", "mechanism": self.mechanism.describe()}
        return [
            PlannedColumn(
                (self.question.alias,),
                self.question.describe(),
                (error,),
                Choices.error_unit,
                (words,),
                (data,),
                (line,),
            )
        ]

    def write(self, rows: StatementWriter) -> Statement:
        """Write the statement of the exact counts."""
        return rows.write(self.compiled.select(rows.primitives()))

    def release(self, statement: Statement, rows: DataAccess, rng: Rng) -> Answer:
        """Return the label chosen by the exact counts."""
        exact_counts = exact_vectors(rows.run(statement), self.compiled)[0]
        label = self.compiled.keys[0].labels[self.mechanism.release(exact_counts, rng)]
        estimate = Choices((label,), self.compiled.cells, self.mechanism.rate, self.mechanism.law)
        return (), (Output(self.question.alias, estimate, self.mechanism.describe()),)


def plan_most_common(question: MostCommon, table: TableContext, *, asked: Loss) -> Plan:
    """Return the plan of a choice, by the selection that errs least for the loss.

    Theorem: a unit with at most R rows of one value moves each count by at most R, and under add_remove all in one
    direction (monotone), so a point of score is worth epsilon / R in the exponent; under replace epsilon / 2R.
    """
    compiled = question.compile_query(table.domain, possible=table.find_possible)
    enforced = compiled.bound(table.neighbors).neighbors
    mechanism = best_selection(
        sensitivity=Fraction(enforced.rows_per_group),
        loss=asked,
        candidates=compiled.cells,
        monotone=table.neighbors.relation == "add_remove",
    )
    read = [node for node in (question.of, question.where) if node is not None]
    notes = enforced.describe_caps() + compiled.notes + text_note(question.dialect, read, table.domain)
    procedure = MostCommonProcedure(
        question=question, event=mechanism.event, notes=notes, compiled=compiled, mechanism=mechanism
    )
    return price(procedure, table, asked=asked)
