"""How an aggregation is answered: vectors with noise of their own, selections of quantiles, and what shows of the groups.

In the order of its journey: it is planned, its loss allocated, its statements written and run, its exact values given noise.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from sordino.ask.curator.plan import (
    EQUAL,
    UNKNOWN_ROWS,
    Answer,
    DataAccess,
    LossSplit,
    Plan,
    PlannedColumn,
    PlannedRows,
    Procedure,
    StatementWriter,
    TableContext,
    cost_of,
    price,
)
from sordino.ask.curator.possible_keys import CountingThreshold, KeySelection, choose_key_selection
from sordino.ask.curator.quantile_scans import PlannedQuantile, plan_quantile, share_draws
from sordino.ask.queries.aggregates.distinct import Distinct
from sordino.ask.queries.aggregates.quantile import Quantile
from sordino.ask.queries.aggregates.sums import Average, Count
from sordino.ask.queries.aggregation import Aggregation, BoundedQuery, CompiledQuery, compile_query
from sordino.ask.queries.expressions.compile import bind_number, presence
from sordino.ask.queries.expressions.keys import MOST_LISTED, Keys, list_shown
from sordino.ask.queries.expressions.nodes import Compare, Constant, IsIn, Name, Node, describe, walk
from sordino.ask.queries.expressions.sql_trees import Build, trees
from sordino.ask.queries.post_processing import FormulaColumn, finish_answer
from sordino.ask.queries.query import ExpectedNoise, SqlAggregate, Vector
from sordino.ask.queries.row_steps import step_domain, step_neighbors
from sordino.core.accounting.amplify import poisson_sampled
from sordino.core.accounting.events import Composed
from sordino.core.domain import Boolean, Category, Domain, Identifier
from sordino.core.errors import DeclarationError, QuestionRefused, arg
from sordino.core.estimates.choices import Ranks
from sordino.core.estimates.noisy import Noisy
from sordino.core.estimates.selected import ShownCount, simultaneous_confidence
from sordino.core.estimates.weighted_sum import Mix, SharedNoise
from sordino.core.loss import ZCDP, ApproxDP, Event, Loss, PureDP, format_number, scale_loss
from sordino.core.mechanisms.additive_noise import Mechanism
from sordino.core.mechanisms.noise_choice import cheapest
from sordino.core.mechanisms.partition_selection import PartitionSelection
from sordino.core.mechanisms.threshold import GaussianThreshold, LaplaceThreshold, TruncatedThreshold, sort_keys
from sordino.core.mechanisms.weighted_selection import WeightedRound, WeightedSelection
from sordino.core.neighbors import Neighbors, Sensitivity
from sordino.core.noise.rng import Rng
from sordino.core.noise.truncated_laplace import TruncatedLaplace
from sordino.core.primitives import Primitives
from sordino.core.release import Key, Output, show_number, show_rows
from sordino.core.release_exports import label_kind

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp

    from sordino.ask.engines.engine import Statement

_MOST_MEANS = 100_000
_PUBLIC_KEYS = (
    "these keys are public, whether or not a row has them: nothing of the data is used, and nothing is charged"
)
_BETWEEN = (
    "where a quantile lies between two values of the rows, as the median of an even number does, it is any value from the one to "
    "the other, drawn evenly: SQL takes a point between them"
)
_LEAST_RATE = Fraction(1, 10**9)

# The differences between equal texts that a dialect ignores.
_IGNORED = {
    "mysql": "MySQL's default collation ignores case and accents",
    "tsql": "SQL Server's default collation ignores case, and blanks at the end",
}

Statements = tuple["Statement | None", "tuple[Statement | None, ...]"]


# ---- The plan, and what is said beside it


def plan_aggregation(
    question: Aggregation,
    table: TableContext,
    *,
    asked: Loss,
    assume_rows: int | None = None,
    assume_mean: float | None = None,
    split: LossSplit = EQUAL,
) -> Plan:
    """Return the plan of an aggregation: each aggregate that needs noise gets its share of the loss, its parts equal ones.

    Shares are equal unless `split` says otherwise.

    Raises QuestionRefused where the question has no private answer, DeclarationError where the cap counts otherwise.
    """
    if assume_rows is not None and (type(assume_rows) is not int or assume_rows < 1):
        raise DeclarationError(
            f"{arg('assume_rows')}, a public guess at the number of rows, must be a whole number, 1 or more"
        )
    domain = table.domain
    wider = table.neighbors
    if question.steps:
        domain = step_domain(domain, question.steps)
        wider = step_neighbors(wider, question.steps)
    compiled = compile_query(question, domain, possible=table.find_possible)
    _check_groups(question, compiled, table, wider)
    bounded = compiled.bound(wider)

    # Of staircase noise only epsilon is small: its rho is larger than that of Laplace noise, and a sample gains less from it.
    sums_epsilon = not isinstance(table.cap, ZCDP) and question.sample is None

    def plan_at(loss: Loss, weights: Sequence[Fraction]) -> AggregationProcedure:
        allocation = allocate(question, bounded, domain, loss, weights, sums_epsilon=sums_epsilon)
        return AggregationProcedure(
            question=question,
            event=allocation.event,
            groups=tuple(group.alias for group in question.groups),
            rows=UNKNOWN_ROWS,
            layout=question.layout,
            domain=table.domain,
            allocation=allocation,
            assume_rows=assume_rows,
            assume_mean=assume_mean,
            weights=tuple(weights),
        )

    if split.is_equal:
        procedure = plan_at(asked, ())
    else:
        from sordino.ask.curator.loss_shares import aggregate_weights

        weights = aggregate_weights(question, compiled, split, lambda loss: plan_at(loss, ()), asked, assume_rows)
        procedure = plan_at(asked, weights)
    allocation = procedure.allocation
    event = allocation.event
    sample = None
    if question.sample is not None:
        event = _sample_event(question.sample, event, table.neighbors)
        sample = _say_sample(question.sample, asked, cost_of(event, table.cap))
    rows = _plan_rows(allocation, sample)
    notes = _say_notes(question, allocation, domain, bounded.neighbors, sample)
    procedure = replace(procedure, event=event, rows=rows, notes=notes)
    return price(procedure, table, asked=asked)


def _check_groups(question: Aggregation, compiled: CompiledQuery, table: TableContext, wider: Neighbors) -> None:
    """Refuse private keys that no budget or unit allows, and more groups than intervals can be found for."""
    if not compiled.private_keys:
        several_parts = any(len(several) > 1 for several in compiled.parts)
        if compiled.cells > _MOST_MEANS and (several_parts or any(not f.is_constant for f in question.formulas)):
            raise QuestionRefused(
                f"means and formulas of {compiled.cells} groups: above {_MOST_MEANS} their intervals take too long; ask for "
                "SUM and COUNT"
            )
        return
    if table.neighbors.unit is None and wider.copies > 1:
        raise QuestionRefused(
            "after a join with several rows per key, private keys need a privacy unit with a column, so that units can be "
            "counted: declare PrivacyUnit(column, max_rows=...), or group by a column with declared values"
        )
    if "delta" not in table.cap.amounts():
        unit = table.neighbors.id_column
        if any(group.of == Name(unit or "") for group in question.groups):
            raise QuestionRefused(
                f"{unit} names the privacy unit, so each group is the rows of one {table.neighbors.people}, which are never "
                f"released: count or average such groups, SELECT AVG(n) FROM (SELECT {unit}, COUNT(*) AS n FROM "
                f"{table.name} GROUP BY {unit}) AS t"
            )
        raise QuestionRefused(
            "the keys of this group-by are private, which costs a delta, but this budget has none: declare the cap as "
            "{epsilon = 1.0, delta = 1e-6} or {rho = 0.5, delta = 1e-6, slack = 1e-6}, or the column as a category with its "
            "values"
        )


def _sample_event(rate: Fraction, event: Event, neighbors: Neighbors) -> Event:
    """Return the event of answering from a Poisson sample; raises QuestionRefused where no theorem makes it cheaper."""
    if neighbors.unit is not None and neighbors.id_column is None:
        raise QuestionRefused(
            "a sample needs a column that names each row's unit, since all rows of a unit share one coin flip: leave "
            "TABLESAMPLE out"
        )
    if neighbors.relation != "add_remove":
        raise QuestionRefused(
            "a sample is drawn by one coin flip per unit, which makes a question cheaper under neighbors add_remove only; "
            "leave TABLESAMPLE out"
        )
    if not _LEAST_RATE <= rate <= 1:
        raise QuestionRefused(
            f"a sample's share must lie between {format_number(_LEAST_RATE)} and 1, not {format_number(rate)}"
        )
    return poisson_sampled(event, rate=rate, relation=neighbors.relation)


def _plan_rows(allocation: Allocation, sample: str | None) -> PlannedRows:
    if allocation.threshold is not None:
        words = allocation.threshold.describe()
        return PlannedRows(None, words, private_keys=words, sample=sample)
    resolved = allocation.resolved
    cells = allocation.resolved.cells
    which = "the listed keys" if resolved.listed else "every declared key"
    which = "every possible key" if resolved.declared else which
    return PlannedRows(cells, f"{cells:,}: {which}" if resolved.keys else None, sample=sample)


def _say_sample(rate: Fraction, loss: Loss, cost: Loss) -> str:
    return (
        f"each unit is used with chance {format_number(rate)}, by a secret coin flip; counts, sums and their errors are of the "
        f"sample, not scaled; {loss.describe()} on the sample costs {cost.describe()}"
    )


def _say_notes(
    question: Aggregation, allocation: Allocation, domain: Domain, neighbors: Neighbors, sample: str | None
) -> tuple[str, ...]:
    """Return the notes of a release: which rows it is about, and how these were selected."""
    threshold = allocation.threshold
    compiled = allocation.resolved
    notes = neighbors.describe_caps()
    if compiled.totals and all(t.per_unit is not None for t in compiled.terms):
        notes = neighbors.describe_ids()
    if compiled.totals:
        keys = f" under up to {min(neighbors.groups, compiled.cells):,} keys" if compiled.cells > 1 else ""
        notes += (f"a total of one {neighbors.id_column} is of all its rows{keys}, whatever their number",)
    notes += tuple(words for step in question.steps for words in getattr(step, "notes", ()))
    if question.aggregates:
        notes += tuple(n for n in compiled.notes if n not in notes)
    notes += () if threshold is None else (threshold.note(),)
    notes += () if question.aggregates or threshold is not None else (_PUBLIC_KEYS,)
    notes += (selection_note(count_groups(compiled)),) if _selects(question, compiled) else ()
    notes += (_BETWEEN,) if any(isinstance(a, Quantile) for a in question.aggregates) else ()
    expressions = question.expressions()
    notes += never_equal(expressions, domain) if expressions else ()
    notes += text_note(question.dialect, expressions, domain, stepped=bool(question.steps))
    return notes if sample is None else (*notes, sample)


def count_groups(compiled: CompiledQuery) -> int | None:
    """Return how many rows the noisy answer has before any are left out; None where that is private."""
    return None if compiled.private_keys else compiled.cells


def _selects(question: Aggregation, compiled: CompiledQuery) -> bool:
    """Return whether noisy values decide which rows are shown."""
    if question.after is None or not compiled.cells:
        return False
    return question.after.selects(tuple(g.alias for g in question.groups), count_groups(compiled))


def selection_note(groups: int | None) -> str:
    """Return how rows that noisy values chose are to be read; `groups` is how many there were, None where private."""
    together = "all groups" if groups is None else f"all {groups:,} groups"
    return (
        "HAVING or LIMIT chose these rows by noisy values, which lean towards being chosen; errors and intervals allow for "
        f"it: they hold for {together} together, so they are wider than those of one group by itself"
    )


def _vector_data(part: NoisyVector) -> dict[str, Any]:
    return {
        "role": part.part.role,
        "mechanism": part.mechanism.describe(),
        "unit": format_number(part.part.unit),
        "l1": format_number(part.sensitivity.l1),
        "l2": part.sensitivity.l2,
        "linf": format_number(part.sensitivity.linf),
        "because": part.sensitivity.because,
    }


def text_note(dialect: str, read: Iterable[Node], domain: Domain, *, stepped: bool = False) -> tuple[str, ...]:
    """Return the note where a question reads a column of text; where its rows are made in steps, of any table with one.

    >>> text_note("mysql", [Name("job")], Domain({"job": Category(["cook"])}))
    ("texts are compared by all of their characters, 'a' is not 'A': MySQL's default collation ignores case and accents",)
    """
    if dialect not in _IGNORED:
        return ()
    texts = {name for name in domain if _is_text(domain[name])}
    named = texts if stepped else {at.name for of in read for at in walk(of) if isinstance(at, Name)}
    return (
        (f"texts are compared by all of their characters, 'a' is not 'A': {_IGNORED[dialect]}",)
        if texts & named
        else ()
    )


def _is_text(column: object) -> bool:
    return isinstance(column, Identifier) or (isinstance(column, Category) and isinstance(column.values[0], str))


def never_equal(expressions: Sequence[Node], domain: Domain) -> tuple[str, ...]:
    """Return a sentence for each equality with a constant between two steps: `price = 9.995` in steps of 0.01.

    `domain` is the question's own, public tables joined. What is said follows from the question and the declaration.
    """
    sentences: dict[str, None] = {}
    for at in itertools.chain.from_iterable(map(walk, expressions)):
        if isinstance(at, Compare) and at.op in ("=", "!=") and isinstance(at.right, Constant):
            sentences |= dict.fromkeys(_off_grid(at.left, [at.right.value], domain))
        elif isinstance(at, IsIn):
            sentences |= dict.fromkeys(_off_grid(at.of, at.values, domain))
    return tuple(sorted(sentences))


def _off_grid(of: Node, values: Any, domain: Domain) -> list[str]:
    """Return a sentence for each constant that lies between two steps of the number it is compared with."""
    constants = [v for v in values if isinstance(v, Fraction) and not isinstance(v, bool)]
    if not constants or (isinstance(of, Name) and isinstance(domain[of.name], (Category, Boolean, Identifier))):
        return []
    unit = bind_number(of, domain).unit
    return [
        f"{describe(Compare('=', of, Constant(v)))} is true for no row: {describe(of)} is read in steps of {format_number(unit)}"
        for v in constants
        if (v / unit).denominator != 1
    ]


# ---- The vectors, selections and private keys of a plan: each with its share of the loss. Knows no exact answer

# the place of a vector that gets no noise of its own
_NOWHERE = -1


@dataclass(frozen=True, slots=True)
class NoisyVector:
    """One vector that gets noise of its own: what it is, how far one unit moves it and why, and its mechanism."""

    column: str
    part: Vector
    # of all vectors of its block together
    sensitivity: Sensitivity
    # a threshold where the selection of private keys counts it
    mechanism: Mechanism | CountingThreshold
    # its place among the noisy vectors of the question
    place: int = 0

    def describe(self) -> str:
        """Return the part in words."""
        step = "" if self.part.unit == 1 else f" of {format_number(self.part.unit)}"
        return f"{self.part.role}: {self.mechanism.describe()}{step}; {self.sensitivity.because}"


@dataclass(frozen=True, slots=True)
class Allocation:
    """How a loss is allocated: the vectors that each aggregate reads, its selection if it is a quantile, the keys' threshold.

    `mixes` are the rows by which the parts of an aggregate follow from its vectors, where vectors are shared: aggregates may
    read the same ones. `noisy` are all vectors, each once. Empty where each aggregate has its parts for vectors.

    `resolved` is what is run: with private keys it also counts the units of each group, as its last term. `shares` are
    those of the aggregates; with that of private keys, which is also the share of a count of their units, they sum to 1.
    """

    resolved: CompiledQuery
    vectors: tuple[tuple[NoisyVector, ...], ...]
    selections: tuple[PlannedQuantile | None, ...]
    threshold: KeySelection | WeightedSelection | None
    event: Event
    shares: tuple[Fraction, ...] = ()
    # the aggregate that the selection of private keys answers by its own noisy counts
    counted: int | None = None
    mixes: tuple[Mix, ...] = ()

    @property
    def noisy(self) -> tuple[NoisyVector, ...]:
        """All noisy vectors of the question, each once."""
        vectors = {v.place: v for several in self.vectors for v in several if v.place != _NOWHERE}
        return tuple(vectors[place] for place in sorted(vectors))


def allocate(
    question: Aggregation,
    bounded: BoundedQuery,
    domain: Domain,
    loss: Loss,
    weights: Sequence[Fraction] = (),
    *,
    sums_epsilon: bool,
) -> Allocation:
    """Allocate a loss to the parts of a question: quantiles, and aggregates that need noise, share by weight, or equally.

    Private keys take an equal share, whatever the weights. An aggregate's share is shared equally by its vectors; those that
    several aggregates read get the sum of theirs (`queries.strategy`). By sequential composition the shares, which sum to 1
    exactly, amount to the loss. A count of units is the selection's own
    (Korolova et al. 2009): it shares with it. Raises QuestionRefused where keys are private and no delta is given.
    """
    resolved = bounded.compiled
    neighbors = bounded.neighbors
    if not resolved.cells:
        # An answer without groups is known beforehand: nothing is drawn, and nothing is charged.
        bounded = replace(bounded, sensitivities=tuple(tuple(map(_still, s)) for s in bounded.sensitivities))
    moved = bounded.sensitivities
    # The loss is shared by three kinds: quantiles, aggregates whose vectors get noise, and the selection of private keys.
    quantiles = [i for i, a in enumerate(question.aggregates) if isinstance(a, Quantile)]
    counted = _count_of_units(question, neighbors) if resolved.private_keys else None
    noisy = [i for i, several in enumerate(moved) if any(s.l1 for s in several) and i != counted]
    threshold, rest = _select_keys(question, resolved, neighbors, loss, len(quantiles) + len(noisy), counted)
    if isinstance(threshold, KeySelection):
        resolved = _counting_units(resolved, domain, neighbors)
    if weights and (len(weights) != len(moved) or min(weights) <= 0):
        raise DeclarationError(f"a question of {len(moved)} aggregates takes one weight for each of them, above 0")
    weight_of = [weights[i] if weights else Fraction(1) for i in range(len(moved))]
    whole = sum((weight_of[i] for i in (*quantiles, *noisy)), Fraction(0))
    shares = [weight_of[i] / whole if i in quantiles or i in noisy else Fraction(0) for i in range(len(moved))]
    selections = _selections(question, quantiles, resolved, domain, neighbors, rest, shares) if quantiles else {}
    # All vectors get their noise together, at the sum of their aggregates' shares, so that aggregates may share vectors.
    additive = sum((shares[i] for i in noisy), Fraction(0))
    noise_shares = [share / additive if i in noisy else Fraction(0) for i, share in enumerate(shares)]
    noise_loss = scale_loss(rest, additive) if noisy else rest
    vectors, mixes, event = _vectors(question, bounded, noise_shares, noise_loss, sums_epsilon=sums_epsilon)
    if isinstance(threshold, KeySelection) and counted is not None:
        vectors = _count_by(threshold, counted, vectors)
    # quantiles that share a draw are charged once, by the first of them
    events = [event] if noisy or not (quantiles or threshold) else []
    events += [s.event for i, s in selections.items() if resolved.cells and (s.lead is None or s.lead == i)]
    events = events or [event]
    if threshold is not None:
        events.insert(0, threshold.event)
        keys = Fraction(1, len(quantiles) + len(noisy) + 1)
        shares = [keys if i == counted else share * (1 - keys) for i, share in enumerate(shares)]
    event = events[0] if len(events) == 1 else Composed(events)
    if mixes:
        resolved = _with_terms(resolved, vectors, isinstance(threshold, KeySelection))
    planned = tuple(selections.get(i) for i in range(len(vectors)))
    return Allocation(resolved, vectors, planned, threshold, event, tuple(shares), counted, mixes)


def _still(sensitivity: Sensitivity) -> Sensitivity:
    """Return a sensitivity of 0: no unit moves the vector."""
    return Sensitivity(0, Fraction(0), Fraction(0), Fraction(0), sensitivity.because)


def _with_terms(resolved: CompiledQuery, vectors: Sequence[Sequence[NoisyVector]], counts_units: bool) -> CompiledQuery:
    """Add the terms that shared vectors need to the question; the count of the units of private keys stays last."""
    needed = dict.fromkeys(term for several in vectors for v in several for _, term in v.part.terms)
    new = tuple(term for term in needed if term not in resolved.terms)
    if not new:
        return resolved
    last = len(resolved.terms) - counts_units
    return replace(resolved, terms=(*resolved.terms[:last], *new, *resolved.terms[last:]))


def _vectors(
    question: Aggregation, bounded: BoundedQuery, shares: Sequence[Fraction], loss: Loss, *, sums_epsilon: bool
) -> tuple[tuple[tuple[NoisyVector, ...], ...], tuple[Mix, ...], Event]:
    """Return the vectors of each aggregate, their mixes, and the event of all; `shares` of the loss sum to 1, or to 0.

    An aggregate without a share gets no noise here: nothing moves it, or the selection of keys counts it.
    """
    moved = bounded.sensitivities
    if sum(map(len, moved)) > 1:
        return _shared_vectors(question, bounded, shares, loss, sums_epsilon=sums_epsilon)
    resolved = bounded.compiled
    sized: list[tuple[Sensitivity, Fraction]] = []
    for several, parts, share in zip(moved, resolved.parts, shares, strict=True):
        for s, p in zip(several, parts, strict=True):
            still = s if share else _still(s)
            sized.append((still.rescale(1 / p.unit), share))
    mechanisms, event = cheapest(sized, loss, sums_epsilon=sums_epsilon)
    rest = iter(mechanisms)
    planned = tuple(
        tuple(NoisyVector(a.alias, p, s, next(rest)) for p, s in zip(parts, several, strict=True))
        for a, parts, several in zip(question.aggregates, resolved.parts, moved, strict=True)
    )
    return planned, (), event


def _shared_vectors(
    question: Aggregation, bounded: BoundedQuery, shares: Sequence[Fraction], loss: Loss, *, sums_epsilon: bool
) -> tuple[tuple[tuple[NoisyVector, ...], ...], tuple[Mix, ...], Event]:
    """Return the same for several vectors: the fewest that answer all, by the strategy of least error."""
    from sordino.ask.queries.strategy import find_strategy

    strategy = find_strategy(question.aggregates, bounded, shares, squared=isinstance(loss, ZCDP))
    blocks = strategy.blocks
    mechanisms, event = cheapest([(b.noise_sensitivity, b.share) for b in blocks], loss, sums_epsilon=sums_epsilon)
    starts = list(itertools.accumulate([len(b.vectors) for b in blocks], initial=0))
    planned = tuple(
        tuple(
            NoisyVector(a.alias, blocks[b].vectors[k], blocks[b].sensitivity, mechanisms[b], starts[b] + k)
            for b, k in reading.vectors
        )
        for a, reading in zip(question.aggregates, strategy.readings, strict=True)
    )
    readers = Counter(v.place for several in planned for v in several)
    mixes = tuple(
        reading.mix if not reading.is_plain or any(readers[v.place] > 1 for v in several) else ()
        for reading, several in zip(strategy.readings, planned, strict=True)
    )
    return planned, mixes, event


def _count_by(
    keys: KeySelection, counted: int, vectors: tuple[tuple[NoisyVector, ...], ...]
) -> tuple[tuple[NoisyVector, ...], ...]:
    """Replace the noise of the aggregate that the selection of keys counts by the selection's own."""
    assert not isinstance(keys.selector, PartitionSelection)
    counted_units = replace(vectors[counted][0], mechanism=keys.selector, place=_NOWHERE)
    return (*vectors[:counted], (counted_units,), *vectors[counted + 1 :])


def _selections(
    question: Aggregation,
    quantiles: Sequence[int],
    resolved: CompiledQuery,
    domain: Domain,
    neighbors: Neighbors,
    loss: Loss,
    shares: Sequence[Fraction],
) -> dict[int, PlannedQuantile]:
    """Plan the quantiles; those of one number share a draw where that errs less."""

    def plan(quantile: Quantile, places: Sequence[int]) -> PlannedQuantile:
        share = scale_loss(loss, sum((shares[i] for i in places), Fraction(0)))
        # a delta buys a selection nothing
        pure = PureDP(share.epsilon) if isinstance(share, ApproxDP) else share
        return plan_quantile(quantile, resolved, domain=domain, neighbors=neighbors, loss=pure)

    aggregates = {i: aggregate for i in quantiles if isinstance(aggregate := question.aggregates[i], Quantile)}
    planned = {i: plan(one, [i]) for i, one in aggregates.items()}
    return planned if len(planned) < 2 else share_draws(planned, plan)


def _select_keys(
    question: Aggregation, resolved: CompiledQuery, neighbors: Neighbors, loss: Loss, others: int, counted: int | None
) -> tuple[KeySelection | WeightedSelection | None, Loss]:
    """Return the selection of private keys, at an equal share, and the loss that remains for the others."""
    named = question.key_selection
    if not resolved.private_keys:
        if named is not None:
            raise QuestionRefused(
                f"keys='{named}' says how private keys are selected, but declared or listed keys always appear: leave it out"
            )
        if question.min_units > 1:
            raise QuestionRefused(
                "min_units hides private keys that have few units, but declared or listed keys always appear: leave it out, or "
                "hide rows with HAVING, which reads the noisy answer"
            )
        return None, loss
    if neighbors.unit is not None and neighbors.id_column is None:
        raise QuestionRefused(
            "private keys need a column that names each row's unit, so that units can be counted, but this table only promises "
            "how many rows a unit has: declare PrivacyUnit(column, max_rows=...), or group by a column with declared values"
        )
    if any(k.private and k.column is not None and k.column == neighbors.id_column for k in resolved.keys):
        raise QuestionRefused(
            f"each key of {neighbors.id_column!r} has only one unit, so none could ever be shown: group by something else"
        )
    share = Fraction(1, others + 1)
    counts = counted is not None
    return choose_key_selection(
        neighbors, loss, share=share, counts=counts, min_units=question.min_units, named=question.key_selection
    )


def _count_of_units(question: Aggregation, neighbors: Neighbors) -> int | None:
    """Return which aggregate counts the units of each key, as the selection of private keys does: one noise does for both.

    That is COUNT(*) where each row is a unit or each unit has one row a key, and COUNT(DISTINCT) of the units' own column.
    """
    if question.formulas or question.key_selection == "weighted":
        return None
    one_row = neighbors.rows_per_group == 1
    for i, aggregate in enumerate(question.aggregates):
        if isinstance(aggregate, Count) and aggregate.of is None and one_row:
            return i
        units = None if neighbors.id_column is None else Name(neighbors.id_column)
        if isinstance(aggregate, Distinct) and aggregate.of == units and not aggregate.others:
            return i
    return None


def _counting_units(resolved: CompiledQuery, domain: Domain, neighbors: Neighbors) -> CompiledQuery:
    """Add a term to the question: the number of units in each group."""
    column = neighbors.id_column
    units = SqlAggregate("rows", None) if column is None else SqlAggregate("distinct", presence(Name(column), domain))
    return replace(resolved, terms=(*resolved.terms, units))


# ---- What is written before the charge and run after it, and what is said of it


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregationProcedure(Procedure):
    """The procedure of an aggregation whose loss is allocated; `domain` is the table's."""

    question: Aggregation
    domain: Domain
    allocation: Allocation
    assume_rows: int | None = None
    assume_mean: float | None = None
    # one an aggregate; empty for equal shares
    weights: tuple[Fraction, ...] = ()

    @property
    def compiled(self) -> CompiledQuery:
        """The question's meaning over the domain."""
        return self.allocation.resolved

    @property
    def words(self) -> str:
        """The question as a sentence."""
        return self.compiled.words

    # ---- before the charge

    def columns(self, confidence: float, *, chosen: bool = False) -> Sequence[PlannedColumn]:
        """Return each aggregate's planned columns; where noisy values select rows, errors hold for all groups together.

        They may be `chosen` by what is computed from the answer, too.
        """
        if chosen or _selects(self.question, self.compiled):
            confidence = simultaneous_confidence(confidence, count_groups(self.compiled) or 1)
        return [
            self._vector_column(i, confidence)
            if selection is None
            else self._selection_column(i, selection, confidence)
            for i, selection in enumerate(self.allocation.selections)
        ] + [self._formula_column(f) for f in self.question.formulas if f.alias not in self.question.hidden]

    def write(self, rows: StatementWriter) -> Statements:
        """Write the statement of all sums and counts, None without any, and the first statement of each selection."""
        if self._is_sampled:
            rows.check_sample()
        return self._write(rows)

    @property
    def _is_sampled(self) -> bool:
        return self.question.sample not in (None, 1)

    def _write(self, rows: StatementWriter) -> Statements:
        if self.question.steps:
            rows = rows.follow(self.question.steps, self.domain)
        compiled = self.compiled
        if not compiled.cells:
            return None, tuple(None for _ in self.allocation.selections)
        table = rows.write(compiled.select(rows.primitives())) if compiled.terms else None
        if isinstance(self.allocation.threshold, WeightedSelection):
            first = self.allocation.threshold.rounds[0]
            table = rows.write(round_select(rows.primitives(), compiled, first, None))
        selections = tuple(None if s is None else s.write(rows) for s in self.allocation.selections)
        # of private keys, quantiles are asked again for those that show
        return table, tuple(None for _ in selections) if compiled.private_keys else selections

    # ---- after the charge

    def release(self, statements: Statements, rows: DataAccess, rng: Rng) -> Answer:
        """Return the keys and the noisy outputs: one scan for all sums and counts, a few for each selection."""
        rate = self.question.sample
        if rate is None or rate == 1:
            return self._release(statements, rows, rng)
        with rows.sample(rate, rng) as sample:
            return self._release(self._write(sample), sample, rng)

    def _release(self, statements: Statements, rows: DataAccess, rng: Rng) -> Answer:
        if self.question.steps:
            rows = rows.follow(self.question.steps, self.domain)
        if isinstance(self.allocation.threshold, WeightedSelection):
            return self._release_by_weight(statements[0], rows, rng)
        return self._release_all(statements, rows, rng)

    def _release_all(self, statements: Statements, rows: DataAccess, rng: Rng) -> Answer:
        table = None if statements[0] is None else rows.run(statements[0])
        keys, noisy = noisy_columns(self.question, self.allocation, table=table, rng=rng)
        summed = iter(noisy)
        outputs: list[Output] = []
        draws: dict[int, Sequence[Sequence[int]]] = {}
        for place, selection in enumerate(self.allocation.selections):
            if selection is None:
                outputs.append(next(summed))
                continue
            lead = place if selection.lead is None else selection.lead
            quantiles = self._quantiles(selection, keys)
            if lead not in draws:
                first = statements[1][place] if statements[1] else None
                with contextlib.ExitStack() as kept:
                    # Whether several scans are planned is public; how many there are follows from the draws.
                    scans = kept.enter_context(rows.keep_bounded()) if len(quantiles.widths) > 1 else rows
                    draws[lead] = quantiles.draw(scans, rng, first=first)
            outputs += quantiles.outputs(draws[lead])
        question = self.question
        if not question.formulas and not question.hidden and question.after is None:
            return keys, tuple(outputs)
        return finish_answer(question.after, question.formulas, question.hidden, keys, tuple(outputs), together=True)

    def _release_by_weight(self, first: Statement | None, rows: DataAccess, rng: Rng) -> Answer:
        """Select the keys in rounds, then answer for those that show: from then on they are a public list."""
        selection = self.allocation.threshold
        compiled = self.compiled
        assert isinstance(selection, WeightedSelection)
        assert first is not None
        labels = select_in_rounds(first, rows, rng, compiled=compiled, selection=selection)
        listed = list_shown(compiled.keys, labels) if labels else Keys((), compiled.keys[0].build)
        resolved = replace(compiled, keys=(listed,), listed=True)
        selections = tuple(None if s is None else s.of_keys(listed) for s in self.allocation.selections)
        answering = replace(self.allocation, resolved=resolved, selections=selections, threshold=None)
        table = rows.write(resolved.select(rows.primitives())) if labels and resolved.terms else None
        return replace(self, allocation=answering)._release_all((table, ()), rows, rng)

    def _quantiles(self, selection: PlannedQuantile, keys: Sequence[Key]) -> PlannedQuantile:
        """Return a selection of quantiles for the groups of the answer: where keys are private, those that show.

        Which show is released, so from then on they are a public list, whose quantiles are a question of their own:
        adaptive composition.
        """
        if not self.compiled.private_keys:
            return selection
        rows = tuple(zip(*(key.labels for key in keys), strict=True))
        groups = self.compiled.keys
        return selection.of_keys(list_shown(groups, rows) if rows else Keys((), groups[0].build))

    # ---- words

    def _vector_column(self, place: int, confidence: float) -> PlannedColumn:
        aggregate = self.question.aggregates[place]
        vectors = self.allocation.vectors[place]
        parts = self.compiled.parts[place]
        mixes = self.allocation.mixes
        laws = [law for p in vectors if not isinstance(law := p.mechanism.law, TruncatedLaplace)]
        mix = mixes[place] if mixes else ()
        expected = ExpectedNoise(laws, confidence, self.assume_rows, self.assume_mean, mix)
        error: float | None = None
        times_rows = None
        # it is counted by the selection of the keys
        if place == self.allocation.counted:
            error = vectors[0].mechanism.law.error(confidence)
        elif isinstance(aggregate, Average):
            times_rows = aggregate.error(parts, replace(expected, rows=None))
            error = None if self.assume_rows is None else times_rows / self.assume_rows
        elif len(parts) == 1 or self.assume_rows is not None:
            error = aggregate.error(parts, expected)
        assumes = str(getattr(aggregate, "assumes", ""))
        return PlannedColumn(
            (aggregate.alias,),
            aggregate.describe(),
            (error,),
            "value",
            (self._say_error(error, times_rows, sums=len(parts), assumes=assumes, confidence=confidence),),
            tuple(_vector_data(p) for p in vectors),
            self._describe_vectors(place),
            assumes,
            times_rows,
            self._share(place),
            missing="assume_rows" if error is None else "",
        )

    def _describe_vectors(self, place: int) -> tuple[str, ...]:
        """Return an aggregate's vectors in words; those that another has before it, by their names alone."""
        before = {p.place: p.column for several in reversed(self.allocation.vectors[:place]) for p in several}
        parts = self.allocation.vectors[place]
        return tuple(f"{p.part.role}, as in {before[p.place]}" if p.place in before else p.describe() for p in parts)

    def _selection_column(self, place: int, selection: PlannedQuantile, confidence: float) -> PlannedColumn:
        errors = tuple(selection.errors(confidence, assume_rows=self.assume_rows))
        part = {"role": "selection", "mechanism": selection.describe()}
        return PlannedColumn(
            selection.aggregate.columns(),
            self.question.aggregates[place].describe(),
            errors,
            Ranks.error_unit,
            tuple(f"{show_rows(e, Ranks.error_unit)} at {100 * confidence:g}%" for e in errors),
            (part,),
            (part["mechanism"],),
            share=self._share(place),
        )

    def _share(self, place: int) -> Fraction | None:
        """Return an aggregate's share of the loss, where there are several shares."""
        shares = self.allocation.shares
        return shares[place] if shares[place] not in (0, 1) else None

    def _formula_column(self, formula: FormulaColumn) -> PlannedColumn:
        words = {a.alias: a.describe() for a in self.question.aggregates}
        free = "free: its error follows from what it is computed from"
        return PlannedColumn((formula.alias,), formula.describe(words), (None,), "value", (free,), (), ())

    def _say_error(
        self, error: float | None, times_rows: float | None, *, sums: int, assumes: str, confidence: float
    ) -> str:
        level = f"{100 * confidence:g}%"
        if error is not None:
            most = "" if sums == 1 or self.assume_mean is not None or assumes else "at most "
            rows = "" if sums == 1 else f" if it has {self.assume_rows:,} rows"
            supposed = f", {assumes}" if assumes else ""
            return f"{most}+-{show_number(error)} at {level}{rows}{supposed}"
        if times_rows is None:
            return "its error depends on the rows"
        return f"at most +-{show_number(times_rows)} / rows at {level}"


# ---- From an engine's exact answer to the noisy columns of a release. Used by the curator alone, after the charge

_LONGEST = 1_000
# stands for a key that is none, since a label may be None
_NO_KEY = object()


def noisy_columns(question: Aggregation, parts: Allocation, *, table: pa.Table | None, rng: Rng) -> Answer:
    """Return the keys and the noisy outputs of a release, except selections; every exact value gets its noise here.

    `table` is the engine's answer, None where no aggregate needs one. Of private keys only those that are selected show, in
    the order of the keys; their values get noise of their own, but for the count that they were selected by.
    """
    resolved = parts.resolved
    vectors = parts.noisy
    counts: tuple[int | None, ...] = ()
    if isinstance(parts.threshold, KeySelection):
        assert table is not None
        rows, exact_parts, counts = _release_keys(table, parts, parts.threshold, rng)
    else:
        rows = resolved.key_rows()
        exact_parts = [[] for _ in vectors]
        if table is not None:
            exact_parts = exact_vectors(table, resolved, [v.part for v in vectors])
    noisy = {v.place: _add_noise(v, exact, rng) for v, exact in zip(vectors, exact_parts, strict=True)}
    outputs: list[Output] = []
    for i, (aggregate, several) in enumerate(zip(question.aggregates, parts.vectors, strict=True)):
        if i == parts.counted:
            outputs.append(Output(aggregate.alias, _shown_count(parts, counts), _mechanisms(several)))
        elif parts.selections[i] is None:
            values = [noisy[v.place] for v in several]
            mix = parts.mixes[i] if parts.mixes else ()
            shared = SharedNoise(mix, tuple(v.place for v in several)) if mix else None
            estimate = aggregate.estimate(resolved.parts[i], values, shared)
            outputs.append(Output(aggregate.alias, estimate, _mechanisms(several)))
    columns = [tuple(map(itemgetter(i), rows)) for i in range(len(question.groups))]
    declared = [k.labels for k in resolved.keys] if resolved.private_keys else columns
    # A column's type follows from what is declared, also where the question leaves out most keys, or all.
    kinds = map(label_kind, [k.labels for k in resolved.declared] or declared)
    keys = tuple(Key(g.alias, c, k) for g, c, k in zip(question.groups, columns, kinds, strict=True))
    return keys, tuple(outputs)


def _add_noise(vector: NoisyVector, exact: list[int], rng: Rng) -> Noisy:
    mechanism = vector.mechanism
    if isinstance(mechanism, LaplaceThreshold | GaussianThreshold | TruncatedThreshold):
        raise TypeError("a count that keys are selected by has its noise already")
    return Noisy(tuple(mechanism.release(exact, rng)) if exact else (), vector.part.unit, mechanism.law)


def _shown_count(parts: Allocation, shown: Sequence[int | None]) -> ShownCount:
    """Return the noisy counts that private keys were selected by, as an answer."""
    keys = parts.threshold
    assert isinstance(keys, KeySelection)
    assert keys.threshold is not None
    assert not isinstance(keys.selector, PartitionSelection)
    return ShownCount(tuple(n for n in shown if n is not None), keys.selector.law, keys.threshold, keys.min_units)


def exact_vectors(table: pa.Table, resolved: CompiledQuery, vectors: Sequence[Vector] | None = None) -> list[list[int]]:
    """Return the exact value of each vector, or of all parts, in each declared cell, in order; cells without rows are 0.

    Rows whose key is NULL were dropped by declaration; they are left out here.
    """
    sizes = [len(k.labels) for k in resolved.keys]
    codes = [table.column(f"k{i}").to_pylist() for i in range(len(sizes))]
    places: list[int | None] = [_place(row, sizes) for row in zip(*codes, strict=True)] if sizes else [0]
    exact_terms: list[list[int]] = []
    for i in range(len(resolved.terms)):
        exact_cells = [0] * math.prod(sizes)
        for place, value in zip(places, table.column(f"t{i}").to_pylist(), strict=True):
            if place is not None and value is not None:
                exact_cells[place] = int(value)
        exact_terms.append(exact_cells)
    if vectors is None:
        vectors = [part for several in resolved.parts for part in several]
    return _weigh(resolved, vectors, exact_terms, math.prod(sizes))


def _release_keys(
    table: pa.Table, parts: Allocation, selection: KeySelection, rng: Rng
) -> tuple[list[tuple[Any, ...]], list[list[int]], tuple[int | None, ...]]:
    """Return the keys that are selected, in their own order, the exact value of each part for them, and their noisy counts.

    Rows are selected by their numbers, so that only keys that show are made into labels. Rows whose key is none, which
    follows from the key alone, are left out of those.
    """
    import pyarrow as pa

    resolved = parts.resolved
    exact_units = table.column(f"t{len(resolved.terms) - 1}").to_pylist()
    noisy = selection.release({i: int(n or 0) for i, n in enumerate(exact_units)}, rng)
    table = table.take(pa.array(list(noisy), pa.int64()))
    counts = list(noisy.values())
    places = key_places(table, resolved)
    keys = sort_keys(places)
    vectors = [v.part for v in parts.noisy]
    at = [places[key] for key in keys]
    # the count by which keys are selected has its noise already
    read = {term for vector in vectors for _, term in vector.terms}
    exact_terms: list[list[int]] = []
    for i, term in enumerate(resolved.terms):
        column = table.column(f"t{i}").to_pylist() if term in read else []
        exact_terms.append([int(column[place] or 0) for place in at] if term in read else [])
    return keys, _weigh(resolved, vectors, exact_terms, len(keys)), tuple(counts[place] for place in at)


def key_places(table: pa.Table, resolved: CompiledQuery) -> dict[tuple[Any, ...], int]:
    """Return the place of each private key, or combination of keys, in an engine's answer.

    A text of more than 1,000 characters is no key: whether one is follows from itself alone, and a list of those that show
    goes back to the engine.
    """
    cells = [_labels(table.column(f"k{i}").to_pylist(), key) for i, key in enumerate(resolved.keys)]
    return {row: i for i, row in enumerate(zip(*cells, strict=True)) if _NO_KEY not in row}


def _labels(cells: list[Any], key: Keys) -> list[Any]:
    """Return the labels of one key's cells, `_NO_KEY` where there is none."""
    if not key.private:
        return [_NO_KEY if c is None else key.labels[int(c)] for c in cells]
    return [_NO_KEY if c is None or (isinstance(c, str) and len(c) > _LONGEST) else c for c in cells]


def _weigh(
    resolved: CompiledQuery, vectors: Sequence[Vector], exact_terms: Sequence[Sequence[int]], cells: int
) -> list[list[int]]:
    """Return each vector as the weighted sum of its terms, cell by cell."""
    index = {term: i for i, term in enumerate(resolved.terms)}
    sums: list[list[int]] = []
    for vector in vectors:
        weighted = [(weight, exact_terms[index[term]]) for weight, term in vector.terms]
        alone = len(weighted) == 1 and weighted[0][0] == 1
        sums.append([*weighted[0][1]] if alone else [sum(w * v[c] for w, v in weighted) for c in range(cells)])
    return sums


def _place(row: tuple[Any, ...], sizes: list[int]) -> int | None:
    place = 0
    for code, size in zip(row, sizes, strict=True):
        if code is None:
            return None
        if not 0 <= code < size:
            raise ValueError("a key code outside its declared labels")
        place = place * size + int(code)
    return place


def _mechanisms(vectors: Sequence[NoisyVector]) -> str:
    words = [
        v.mechanism.describe() + ("" if v.part.unit == 1 else f" of {format_number(v.part.unit)}") for v in vectors
    ]
    return "; ".join(dict.fromkeys(words))


# ---- Private keys by weights: the rounds, each a scan of the rows whose keys do not show yet. The engine adds the weights up


def round_select(on: Primitives, compiled: CompiledQuery, one: WeightedRound, shown: Keys | None) -> exp.Select:
    """Return the SQL tree of a round: each key with the weights of its units, of the rows whose keys are not `shown`.

    Which rows of a unit count follows from its own rows and from the keys shown, which are released.
    """
    weight = SqlAggregate("weight", None, weights=(one.starts[1:], one.weights))
    condition = compiled.condition
    if shown is not None:
        condition = _without(shown, condition)
    return replace(compiled, terms=(weight,), totals=True, condition=condition).select(on)


def select_in_rounds(
    first: Statement,
    rows: DataAccess,
    rng: Rng,
    *,
    compiled: CompiledQuery,
    selection: WeightedSelection,
) -> list[tuple[Any, ...]]:
    """Return the keys that show, in their own order; `first` is the statement of the first round."""
    labels: list[tuple[Any, ...]] = []
    for i, one in enumerate(selection.rounds):
        shown = list_shown(compiled.keys, labels) if labels else None
        table = rows.run(rows.write(round_select(rows.primitives(), compiled, one, shown)) if i else first)
        exact_weights = table.column("t0").to_pylist()
        exact = {key: int(exact_weights[place] or 0) for key, place in key_places(table, compiled).items()}
        labels = sort_keys({*labels, *one.release(exact, rng)})[:MOST_LISTED]
    return labels


def _without(shown: Keys, condition: Build | None) -> Build:
    """Return the condition that also leaves out the rows whose key is listed in `shown`."""

    def build(on: Primitives) -> exp.Expression:
        kinds = trees()
        hidden: exp.Expression = kinds.Is(this=kinds.paren(shown.row_code(on)), expression=kinds.Null())
        return hidden if condition is None else trees().and_(condition(on), hidden)

    return build
