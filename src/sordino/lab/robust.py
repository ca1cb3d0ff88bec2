"""Robust questions: one statistic of one bounded number, released by a method that follows the data's own stability.

Smooth sensitivity, propose-test-release, and sample and aggregate (Nissim, Raskhodnikova, Smith 2007; Dwork & Lei 2009). Their
worst-case sensitivity is useless or none; each method's theorem stands with its mechanism. The curator knows none of them:
importing this file registers their procedure, as code from outside would register its own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sordino.ask.curator.plan import (
    Answer,
    DataAccess,
    Plan,
    PlannedColumn,
    Procedure,
    StatementWriter,
    TableContext,
    price,
    register_procedure,
)
from sordino.ask.queries.aggregates.sums import require_bounds
from sordino.ask.queries.build import Column, label
from sordino.ask.queries.expressions.bound_number import BoundNumber
from sordino.ask.queries.expressions.compile import bind_condition
from sordino.ask.queries.expressions.expr import Expr, col
from sordino.ask.queries.expressions.nodes import Node, describe, plain
from sordino.ask.queries.question_records import register_question
from sordino.core.domain import Domain
from sordino.core.errors import DeclarationError, QuestionRefused, arg
from sordino.core.estimates.estimate import ColumnEstimate
from sordino.core.estimates.noisy import Noisy
from sordino.core.estimates.point_estimate import PointEstimate
from sordino.core.loss import ZCDP, ApproxDP, Event, Loss, Number, format_number, to_fraction
from sordino.core.mechanisms.additive_noise import Mechanism
from sordino.core.mechanisms.noise_choice import cheapest
from sordino.core.neighbors import Neighbors, Sensitivity
from sordino.core.noise.rng import Rng
from sordino.core.primitives import Primitives
from sordino.core.release import Output, show_number
from sordino.lab.sensitivity.smooth import distance_above, smooth_sensitivity
from sordino.lab.smooth_noise import FINE, ProposeTestRelease, SmoothLaplace, exact_statistic, fine_steps, level_of

if TYPE_CHECKING:
    from sqlglot import exp

Method = Literal["smooth", "propose_test_release", "sample_and_aggregate"]
_MOST_CHUNKS = 1_000_000
_LARGEST = 2**53
_TEACHING = (
    "a teaching tool: median(...) and quantile(...), by the exponential mechanism, need no delta and were nearer in 7 of 8 "
    "cases of bench/medians.py"
)


@dataclass(frozen=True, slots=True)
class Robust:
    """Ask for a statistic (mean, median, quantile:q, var) of a number over the rows that have it and meet `where`."""

    method: Method
    statistic: str
    of: Node
    where: Node | None
    alias: str
    proposal: Fraction | None = None
    chunks: int | None = None
    default: Fraction | None = None

    def measure(self, domain: Domain) -> tuple[BoundNumber, int, int]:
        """Return the number with its bounds in steps; raises QuestionRefused where it has none."""
        bounded = require_bounds(self.of, domain, self.statistic.split(":")[0])
        if bounded[0].kind != "number":
            raise QuestionRefused("a robust question takes numbers: ask it of a length of time, (end - start).days()")
        return bounded

    def select(self, on: Primitives, domain: Domain) -> exp.Select:
        """Return the SQL tree of the exact values: k0 (the chunk, if any), v (steps) and t0 (how many rows have it)."""
        from sqlglot import exp

        if self.where is not None:
            on.keep(bind_condition(self.where, domain)(on))
        groups = [] if self.chunks is None else [exp.alias_(on.chunk(self.chunks), "k0")]
        groups.append(exp.alias_(self.measure(domain)[0].build(on), "v"))
        expressions = [*groups, exp.alias_(exp.Count(this=exp.Star()), "t0")]
        select = exp.Select(expressions=expressions).from_(on.source())
        return select.group_by(*(exp.Literal.number(i + 1) for i in range(len(groups))))

    def describe(self) -> str:
        """Return the question as a sentence."""
        how = {
            "smooth": "by smooth sensitivity",
            "propose_test_release": f"if no row moves it by more than {format_number(self.proposal or Fraction(0))}",
            "sample_and_aggregate": f"as the mean over {self.chunks} chunks",
        }[self.method]
        where = "" if self.where is None else f", where {describe(self.where)}"
        return f"the {self.statistic} of {describe(self.of)}{where}, {how}"

    def identity(self) -> str:
        """Return canonical text: equal for equal questions."""
        numbers = [None if n is None else format_number(n) for n in (self.proposal, self.default)]
        return json.dumps(
            [self.method, self.statistic, plain(self.of), plain(self.where), self.alias, *numbers, self.chunks]
        )


def smooth(statistic: str, of: Column, *, where: Expr | None = None, alias: str | None = None) -> Robust:
    """Ask for a statistic with noise in proportion to its smooth sensitivity (Nissim, Raskhodnikova, Smith 2007).

    Pure epsilon gives Cauchy noise, epsilon and delta Laplace. The width of the noise is private, so the release states
    no error.

    >>> smooth("median", "age").describe()
    'the median of age, by smooth sensitivity'
    """
    return _build("smooth", statistic, of, where, alias)


def propose_test_release(
    statistic: str, of: Column, *, bound: Number, where: Expr | None = None, alias: str | None = None
) -> Robust:
    """Ask for a statistic with noise for the proposed local sensitivity `bound`, if the data is far from breaking it.

    The test may fail: then the value is None, and the charge stands (Dwork & Lei 2009). Needs epsilon and delta; each of
    test and answer gets half of the epsilon.
    """
    proposal = to_fraction(bound, name="bound")
    if proposal <= 0:
        raise QuestionRefused("bound, the proposed local sensitivity, must be above 0")
    return _build("propose_test_release", statistic, of, where, alias, proposal=proposal)


def sample_and_aggregate(
    statistic: str,
    of: Column,
    *,
    chunks: int,
    default: Number,
    where: Expr | None = None,
    alias: str | None = None,
) -> Robust:
    """Ask for the mean, over `chunks` disjoint chunks, of a statistic of each (Nissim, Raskhodnikova, Smith 2007).

    A unit falls in a chunk by the hash of its id (a row: of its declared cells), so that rows do not shift. An empty
    chunk answers `default`. The more chunks, the less noise, and the fewer rows a chunk.
    """
    if isinstance(chunks, bool) or not isinstance(chunks, int) or not 1 <= chunks <= _MOST_CHUNKS:
        raise QuestionRefused(f"chunks must be a whole number from 1 to {_MOST_CHUNKS}, declared, never counted")
    empty = to_fraction(default, name="default")
    return _build("sample_and_aggregate", statistic, of, where, alias, chunks=chunks, default=empty)


def _build(
    method: Method,
    statistic: str,
    of: Column,
    where: Expr | None,
    alias: str | None,
    **options: Any,
) -> Robust:
    level_of(statistic)
    expression = col(of) if isinstance(of, str) else of
    if not isinstance(expression, Expr):
        raise QuestionRefused("a column is named by text or by col(...)")
    if where is not None and not isinstance(where, Expr):
        raise QuestionRefused('where takes a condition, such as col("age") > 30')
    node = expression.node
    name = alias or f"{statistic.partition(':')[0]}_{label(node)}"
    return Robust(method, statistic, node, None if where is None else where.node, name, **options)


@dataclass(frozen=True, slots=True, kw_only=True)
class RobustProcedure(Procedure):
    """Answer a robust question from a histogram of its exact values."""

    question: Robust
    domain: Domain
    neighbors: Neighbors
    mechanism: SmoothLaplace | ProposeTestRelease | Mechanism

    def columns(self, confidence: float) -> Sequence[PlannedColumn]:
        """Return what is known beforehand: the error of the noise; None where its width is private."""
        error = None
        if not isinstance(self.mechanism, SmoothLaplace):
            error = float(self.mechanism.law.error(confidence) * self._unit())
        words = (
            "not stated: its width is private" if error is None else f"+-{show_number(error)} at {100 * confidence:g}%"
        )
        noise = self.mechanism.describe()
        data = {"role": self.question.statistic, "mechanism": noise}
        return [
            PlannedColumn(
                (self.question.alias,), self.question.describe(), (error,), "value", (words,), (data,), (noise,)
            )
        ]

    def write(self, rows: StatementWriter) -> Any:
        """Write the statement of the exact values."""
        return rows.write(self.question.select(rows.primitives(), self.domain))

    def release(self, statement: Any, rows: DataAccess, rng: Rng) -> Answer:
        """Return the noisy output of the exact values that an engine finds."""
        table = rows.run(statement)
        counts = np.array([int(c) for c in table.column("t0").to_pylist()], dtype=np.int64)
        exact_column = table.column("v").to_pylist()
        present = np.array([v is not None for v in exact_column], dtype=bool)
        exact_steps = np.array([0 if v is None else int(v) for v in exact_column], dtype=np.int64)
        if isinstance(self.mechanism, (SmoothLaplace, ProposeTestRelease)):
            exact_values = np.sort(np.repeat(exact_steps[present], counts[present]))
            estimate = self._alone(exact_values, rng)
        else:
            chunks = np.array(table.column("k0").to_pylist(), dtype=np.int64)
            estimate = self._aggregate(chunks[present], exact_steps[present], counts[present], rng)
        return (), (Output(self.question.alias, estimate, self.mechanism.describe()),)

    def _alone(self, exact_values: Any, rng: Rng) -> ColumnEstimate:
        _, low, high = self.question.measure(self.domain)
        exact_value = fine_steps(exact_statistic(self.question.statistic, exact_values, lower=low, upper=high))
        about: dict[str, Any] = {"lower": float(low), "upper": float(high), "neighbors": self.neighbors.relation}
        data = exact_values.astype(np.float64)
        if isinstance(self.mechanism, SmoothLaplace):
            smooth = smooth_sensitivity(self.question.statistic, data, beta=self.mechanism.beta, **about)
            width = self.mechanism.width(smooth.value)
            return PointEstimate((self._within(self.mechanism.release(exact_value, width, rng)),), self._unit())
        assert isinstance(self.mechanism, ProposeTestRelease)
        bound = float(Fraction(self.mechanism.bound - 1, FINE))
        distance = distance_above(self.question.statistic, data, bound=bound, **about)
        noisy = self.mechanism.release(exact_value, distance, rng)
        if noisy is None:
            return PointEstimate((None,), self._unit(), "no value: the data did not pass the test")
        return Noisy((self._within(noisy),), self._unit(), self.mechanism.law)

    def _within(self, noisy: int) -> int:
        """Return a noisy value pulled into the range of the statistic: nearer to what it is about, and of public facts."""
        least, most = (fine_steps(end) for end in _ends(self.question, *self.question.measure(self.domain)[1:]))
        return min(max(noisy, least), most)

    def _aggregate(self, chunks: Any, exact_steps: Any, counts: Any, rng: Rng) -> ColumnEstimate:
        question = self.question
        number, low, high = question.measure(self.domain)
        assert not isinstance(self.mechanism, (SmoothLaplace, ProposeTestRelease))
        most = fine_steps(_ends(question, low, high)[1])
        empty = fine_steps(_default_steps(question, number.unit))
        exact_total = empty * (question.chunks or 1)
        order = np.lexsort((exact_steps, chunks))
        chunks = chunks[order]
        exact_steps = exact_steps[order]
        counts = counts[order]
        starts = np.flatnonzero(np.diff(chunks, prepend=-1))
        for i, start in enumerate(starts):
            end = starts[i + 1] if i + 1 < len(starts) else len(chunks)
            exact_values = np.repeat(exact_steps[start:end], counts[start:end])
            exact_chunk = fine_steps(exact_statistic(question.statistic, exact_values, lower=low, upper=high))
            exact_total += min(exact_chunk, most) - empty
        noisy = self.mechanism.release([exact_total], rng)
        return Noisy((noisy[0],), self._unit(), self.mechanism.law)

    def _unit(self) -> Fraction:
        """The question's units that one noisy step stands for."""
        unit = self.question.measure(self.domain)[0].unit
        square = unit if self.question.statistic == "var" else Fraction(1)
        return unit * square / FINE / (self.question.chunks or 1)


def plan_robust(question: Robust, table: TableContext, *, asked: Loss) -> Plan:
    """Return the plan of a robust question; raises QuestionRefused where its theorem does not hold for this table."""
    domain = table.domain
    neighbors = table.neighbors
    number, low, high = question.measure(domain)
    if max(abs(low), abs(high)) >= _LARGEST or (question.statistic == "var" and high - low >= 2**26):
        raise QuestionRefused(
            f"the grid of {question.describe()} is too fine for its bounds: declare a coarser resolution"
        )
    mechanism: SmoothLaplace | ProposeTestRelease | Mechanism
    if question.method == "sample_and_aggregate":
        if neighbors.unit is not None and neighbors.id_column is None:
            raise QuestionRefused(
                "sample_and_aggregate hashes each unit to one chunk, which needs a column that names it: declare "
                "PrivacyUnit(column, max_rows=...)"
            )
        mechanism, event = _averaging(question, number.unit, low, high, neighbors, asked)
    else:
        _only_rows(question, domain, neighbors, number.missable)
        if isinstance(asked, ZCDP):
            raise QuestionRefused("this method is proved for epsilon, and for epsilon and delta, not for rho")
        delta = asked.delta if isinstance(asked, ApproxDP) else Fraction(0)
        if question.method == "smooth":
            mechanism = SmoothLaplace(asked.epsilon, delta)
        else:
            if delta == 0:
                raise QuestionRefused(
                    f"propose-test-release needs a delta: its test may be wrong; give {arg('epsilon=')} and {arg('delta=')}"
                )
            square = number.unit**2 if question.statistic == "var" else number.unit
            # One more, for rounding to parts.
            bound = math.ceil((question.proposal or Fraction(0)) / square * FINE) + 1
            mechanism = ProposeTestRelease(bound, asked.epsilon, delta)
        event = mechanism.event
    notes = neighbors.describe_caps()
    if question.method != "sample_and_aggregate" and level_of(question.statistic) is not None:
        notes = (*notes, _TEACHING)
    procedure = RobustProcedure(
        question=question,
        event=event,
        notes=notes,
        error_is_private=True,
        domain=domain,
        neighbors=neighbors,
        mechanism=mechanism,
    )
    return price(procedure, table, asked=asked)


def _averaging(
    question: Robust, unit: Fraction, low: int, high: int, neighbors: Neighbors, loss: Loss
) -> tuple[Mechanism, Event]:
    """Return the noise of a sum over chunks: one unit moves one chunk, two under replace, each within its range.

    Nissim, Raskhodnikova, Smith 2007, section 4: the mean of the chunks moves by (u - l) / k, twice that under replace.
    """
    least, most = _ends(question, low, high)
    empty = _default_steps(question, unit)
    if not least <= empty <= most:
        raise QuestionRefused(
            f"default, what an empty chunk answers, must lie in the range of the {question.statistic}"
        )
    span = fine_steps(most) - fine_steps(least)
    move = Fraction(span if neighbors.relation == "add_remove" else 2 * span)
    touched = 1 if neighbors.relation == "add_remove" else 2
    because = f"{neighbors.relation} of one unit moves {touched} of {question.chunks} chunks"
    mechanisms, event = cheapest([(Sensitivity(1, move, move**2, move, because), Fraction(1))], loss)
    return mechanisms[0], event


def _ends(question: Robust, low: int, high: int) -> tuple[Fraction, Fraction]:
    """Return the range of the statistic, in steps: a variance is at most a quarter of the squared width."""
    return (
        (Fraction(0), Fraction((high - low) ** 2, 4))
        if question.statistic == "var"
        else (Fraction(low), Fraction(high))
    )


def _default_steps(question: Robust, unit: Fraction) -> Fraction:
    square = unit**2 if question.statistic == "var" else unit
    return (question.default or Fraction(0)) / square


def _only_rows(question: Robust, domain: Domain, neighbors: Neighbors, missable: bool) -> None:
    """Refuse what the theorems do not cover: units of many rows, and tables whose rows may drop out under replace."""
    if neighbors.unit is not None:
        raise QuestionRefused(
            f"{question.method} is proved for one row per unit; use sample_and_aggregate, which hashes units to chunks"
        )
    if neighbors.relation == "replace" and (question.where is not None or missable or domain.unreadable_rows):
        raise QuestionRefused(
            f"under replace {question.method} needs rows that cannot drop out: no where, no missing cells that drop, no CSV; "
            'fill missing cells, or declare neighbors = "add_remove"'
        )


def _check(question: Robust) -> Robust:
    """Return a robust question that was read as its own builder makes it."""
    of = Expr(question.of)
    where = None if question.where is None else Expr(question.where)
    if question.method == "smooth":
        return smooth(question.statistic, of, where=where, alias=question.alias)
    if question.method == "propose_test_release" and question.proposal is not None:
        return propose_test_release(question.statistic, of, bound=question.proposal, where=where, alias=question.alias)
    if question.chunks is None or question.default is None:
        raise DeclarationError(
            "is not one that sordino wrote: ask with the same version here and there", key="question"
        )
    return sample_and_aggregate(
        question.statistic, of, chunks=question.chunks, default=question.default, where=where, alias=question.alias
    )


register_procedure(Robust, plan_robust)
register_question(Robust, _check)
