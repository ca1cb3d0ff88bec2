"""Means and quantiles of numbers without bounds: one charge finds bounds for each and answers the question within them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from sordino.ask.clipping.search import SHARES, Ends, ends_histogram, find_ends
from sordino.ask.curator.adaptive_session import AdaptiveSession, adaptive_event
from sordino.ask.curator.aggregation_procedure import plan_aggregation
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
from sordino.ask.queries.adaptive.magnitudes import search_number
from sordino.ask.queries.aggregates.quantile import Quantile
from sordino.ask.queries.aggregates.sums import Average
from sordino.ask.queries.aggregation import Aggregation
from sordino.ask.queries.expressions.bound_number import BoundNumber
from sordino.ask.queries.expressions.nodes import Clip, Name, Node, When, describe, walk
from sordino.ask.queries.queryable import ReleaseContent
from sordino.core.domain import Domain, Fill, Real
from sordino.core.errors import QuestionRefused
from sordino.core.estimates.point_estimate import PointEstimate
from sordino.core.loss import Event, Loss, share_loss
from sordino.core.noise.rng import Rng
from sordino.core.release import Output, Release, show_number

# the most numbers whose bounds one question finds
_MOST = 8
_STAND_IN = (Fraction(0), Fraction(1))
_WORDS = "its error follows from the bounds that are found, and is released with it"

Bounds = tuple[Fraction, Fraction]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundBoundsProcedure(Procedure):
    """Finds bounds for the numbers `sought`, then answers the question with each clipped to its own.

    The search and the answer are adaptive, and counted as sums within one charge (`plan_adaptive`): each number's search
    takes `SHARES` of an equal part of the loss, the answer all the rest. `within` is the question in stand-in bounds, from
    which all that is public follows.
    """

    question: Aggregation
    table: TableContext
    sought: tuple[Node, ...]
    inner: Loss
    within: Plan
    assume_rows: int | None = None

    def columns(self, confidence: float) -> Sequence[PlannedColumn]:
        """Return the planned columns; errors of means whose bounds are still to be found are unknown."""
        columns = list(self.within.procedure.columns(confidence))
        for i, (aggregate, column) in enumerate(zip(self.question.aggregates, columns, strict=False)):
            if _is_sought(aggregate, self.sought):
                size = len(column.names)
                lines = (_say_shares(),)
                words = (_WORDS,) * size
                none = (None,) * size
                columns[i] = PlannedColumn(
                    column.names, aggregate.describe(), none, column.unit, words, (), lines, share=column.share
                )
        return columns

    def write(self, rows: StatementWriter) -> None:
        """Write the search's statements, and the question's in the widest bounds that it may find, to refuse now what fails.

        They are written again for the bounds that are found.
        """
        widest: dict[Node, Bounds] = {}
        for node in self.sought:
            number = _number(node, self.table.domain)
            bins = ends_histogram(self._rows_asked(node), number)
            for scan in bins.scans(self.table.domain):
                rows.write(scan.select(rows.primitives()))
            widest[node] = bins.edges[0] * number.unit, bins.edges[-1] * number.unit
        plan = _plan_within(self.question, self.table, self.inner, widest, assume_rows=self.assume_rows)
        plan.procedure.write(rows)

    def release(self, statements: None, rows: DataAccess, rng: Rng) -> ReleaseContent:
        """Return the answer within the bounds found, and what was found."""
        del statements
        session = AdaptiveSession(
            rows=rows, table=self.table, loss=self.inner, rng=rng, make_release=self._inner_release
        )
        part = share_loss(self.inner, Fraction(1, len(self.sought)))
        try:
            ends = {node: self._find_ends(session, node, part) for node in self.sought}
            bounds = {node: _STAND_IN if e is None else (e.lower, e.upper) for node, e in ends.items()}
            plan = _plan_within(self.question, self.table, self.inner, bounds, assume_rows=self.assume_rows)
            session.spend(plan.event)
        finally:
            session.close()
        answer = plan.procedure.release(plan.procedure.write(rows), rows, rng)
        assert isinstance(answer, tuple)
        outputs = self._without_unfound(answer[1], ends)
        notes = tuple(_say(node, bounds_of, self.question) for node, bounds_of in ends.items())
        return ReleaseContent(answer[0], outputs, notes, _bounds_on_record(ends))

    def _find_ends(self, session: AdaptiveSession, node: Node, part: Loss) -> Ends | None:
        return find_ends(session, self._rows_asked(node), _number(node, self.table.domain), part)

    def _rows_asked(self, node: Node) -> Node:
        """Return the number as it is in the rows that the question is about, missing in others."""
        return node if self.question.where is None else When(self.question.where, node, None)

    def _without_unfound(self, outputs: tuple[Output, ...], ends: dict[Node, Ends | None]) -> tuple[Output, ...]:
        """Return the answer without what has no bounds, and without formulas, which may be made of them."""
        unfound = tuple(node for node, bounds in ends.items() if bounds is None)
        lost: set[str] = set()
        for aggregate in self.question.aggregates:
            if _is_sought(aggregate, unfound):
                lost |= set(aggregate.columns()) if isinstance(aggregate, Quantile) else {aggregate.alias}
        if not lost:
            return outputs
        lost |= {f.alias for f in self.question.formulas}
        return tuple(
            replace(o, estimate=PointEstimate((None,) * len(o.estimate.values()), Fraction(1))) if o.name in lost else o
            for o in outputs
        )

    def _inner_release(self, words: str, answer: Answer, event: Event, cost: Loss, spent: Loss, left: Loss) -> Release:
        """Return an answer to the search: it goes no further."""
        table = self.table
        where = (table.neighbors.relation, table.neighbors.describe_unit(), table.declaration, "", table.name, "")
        return Release(words, answer[0], answer[1], cost, spent, left, event, *where)


def plan_with_found_bounds(
    question: Aggregation, table: TableContext, *, asked: Loss, assume_rows: int | None = None
) -> Plan | None:
    """Return the plan of a question with means or quantiles of numbers without bounds; None where it cannot be so answered.

    Raises QuestionRefused for what else it refuses.
    """
    if question.steps or question.sample is not None or question.bounds is not None:
        return None
    of = dict.fromkeys(a.of for a in question.aggregates if isinstance(a, Average | Quantile))
    try:
        sought = tuple(node for node in of if not _number(node, table.domain).interval.bounded)
    except QuestionRefused:
        return None
    fixed = [question.where, *(g.of for g in question.groups)]
    if not 1 <= len(sought) <= _MOST or any(
        node in walk(e) for node in sought if _lacks_grid(node, table.domain) for e in fixed if e is not None
    ):
        return None
    event, inner = adaptive_event(asked)
    within = _plan_within(question, table, inner, dict.fromkeys(sought, _STAND_IN), assume_rows=assume_rows)
    procedure = FoundBoundsProcedure(
        question=question,
        event=event,
        groups=within.procedure.groups,
        rows=within.procedure.rows,
        notes=(*within.procedure.notes, _say_search(sought, table.domain)),
        layout=question.layout,
        table=table,
        sought=sought,
        inner=inner,
        within=within,
        assume_rows=assume_rows,
    )
    for node in sought:
        asked_rows = procedure._rows_asked(node)
        search_number(asked_rows, table.domain, coarse=False)
        ends_histogram(asked_rows, _number(node, table.domain))
    return price(procedure, table, asked=asked)


def _plan_within(
    question: Aggregation, table: TableContext, inner: Loss, bounds: dict[Node, Bounds], *, assume_rows: int | None
) -> Plan:
    """Return the plan of the question with each of these numbers clipped, at what their searches leave of a loss."""
    clipped = tuple(
        replace(a, of=Clip(a.of, *bounds[a.of])) if isinstance(a, Average | Quantile) and a.of in bounds else a
        for a in question.aggregates
    )
    domain = _with_grids(table.domain, bounds)
    rest = share_loss(inner, _rest(tuple(bounds), table.domain))
    within = replace(question, aggregates=clipped)
    return plan_aggregation(within, replace(table, domain=domain, cap=inner), asked=rest, assume_rows=assume_rows)


def _is_sought(aggregate: object, sought: Sequence[Node]) -> bool:
    return isinstance(aggregate, Average | Quantile) and aggregate.of in sought


def _rest(sought: tuple[Node, ...], domain: Domain) -> Fraction:
    """Return the share of the loss that the searches leave: an end that is declared needs none."""
    searches = Fraction(0)
    for node in sought:
        ends = _number(node, domain).interval
        searches += SHARES["beyond"]
        searches += SHARES["upper"] * (ends.upper is None) + SHARES["lower"] * (ends.lower is None)
    return 1 - searches / len(sought)


def _number(node: Node, domain: Domain) -> BoundNumber:
    return search_number(node, domain, coarse=False)


def _lacks_grid(node: Node, domain: Domain) -> bool:
    column = domain[node.name] if isinstance(node, Name) else None
    return isinstance(column, Real) and column.step is None


def _with_grids(domain: Domain, bounds: dict[Node, Bounds]) -> Domain:
    """Return the domain in which a real column without a resolution has the bounds found, which determine one."""
    columns = dict(domain.columns)
    for node, (low, high) in bounds.items():
        column = domain[node.name] if isinstance(node, Name) else None
        if isinstance(node, Name) and isinstance(column, Real) and column.step is None:
            if isinstance(column.missing, Fill):
                raise QuestionRefused(f"column {node.name!r} has no declared resolution: declare one, such as 0.01")
            columns[node.name] = Real(low, high, missing=column.missing)
    return Domain({**columns, **domain.lists}, row_ceiling=domain.row_ceiling, unreadable_rows=domain.unreadable_rows)


def _say_search(sought: tuple[Node, ...], domain: Domain) -> str:
    """Return what limits the answer, and what the search takes."""
    numbers = " and ".join(describe(node) for node in sought)
    share = show_number(100 * float(1 - _rest(sought, domain)))
    return f"{numbers} has no bounds: {share}% of the loss finds some, and the mean is that of values clipped to them"


def _say_shares() -> str:
    upper, lower, beyond = (f"{100 * float(share):g}%" for share in SHARES.values())
    return (
        f"bounds: a selection each for the upper end ({upper} of the loss) and the lower ({lower}) where they are not "
        f"declared, a count of the rows beyond ({beyond}); the rest for the answer within them"
    )


def _say(node: Node, ends: Ends | None, question: Aggregation) -> str:
    """Return what was found of a number, from noisy answers alone."""
    words = describe(node)
    if ends is None:
        return f"no bounds of {words} were found, as too few rows stood out of the noise: ask with more epsilon, or declare some"
    low, high = (show_number(float(b)) for b in (ends.lower, ends.upper))
    most = ends.below + ends.above
    if most == 0:
        return f"{words} is clipped to [{low}, {high}], and no row lies beyond"
    share = show_number(100 * min(1.0, most / max(ends.counted, most)))
    mean = any(isinstance(a, Average) and a.of == node for a in question.aggregates)
    hidden = (
        f"the interval is for the clipped mean, and the mean of all values is further off by at most {share}% of how far those "
        "rows lie beyond on average"
        if mean
        else "a quantile among them is given as the bound"
    )
    return (
        f"{words} is clipped to [{low}, {high}]: at 95%, up to about {most:,.0f} rows lie beyond ({ends.below:,.0f} below, "
        f"{ends.above:,.0f} above), {share}% of those counted; {hidden}"
    )


def _bounds_on_record(ends: dict[Node, Ends | None]) -> tuple[tuple[str, Fraction | None], ...]:
    values: list[tuple[str, Fraction | None]] = []
    for node, bounds in ends.items():
        suffix = "" if len(ends) == 1 else f"_{describe(node)}"
        values.append(("lower" + suffix, None if bounds is None else bounds.lower))
        values.append(("upper" + suffix, None if bounds is None else bounds.upper))
    return tuple(values)
