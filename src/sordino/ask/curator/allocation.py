"""The vectors, selections and private keys of a plan: each with its share of the loss. Knows no exact answer."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from sordino.ask.curator.key_selection import CountingThreshold, KeySelection, choose_key_selection
from sordino.ask.curator.quantile_scans import PlannedQuantile, plan_quantile, share_draws
from sordino.ask.queries.aggregates.distinct import Distinct
from sordino.ask.queries.aggregates.quantile import Quantile
from sordino.ask.queries.aggregates.sums import Count
from sordino.ask.queries.aggregation import Aggregation, CompiledQuery
from sordino.ask.queries.expressions.compile import presence
from sordino.ask.queries.expressions.nodes import Name
from sordino.ask.queries.query import SqlAggregate, Vector
from sordino.core.accounting.events import Composed
from sordino.core.domain import Domain
from sordino.core.errors import DeclarationError, QuestionRefused
from sordino.core.estimates.weighted_sum import Mix
from sordino.core.loss import ZCDP, ApproxDP, Event, Loss, PureDP, format_number
from sordino.core.mechanisms.additive_noise import Mechanism
from sordino.core.mechanisms.noise_choice import cheapest
from sordino.core.mechanisms.partition_selection import PartitionSelection
from sordino.core.mechanisms.weighted_selection import WeightedSelection
from sordino.core.neighbors import Neighbors, Sensitivity

_NOWHERE = -1  # the place of a vector that gets no noise of its own


@dataclass(frozen=True, slots=True)
class NoisyVector:
    """One vector that gets noise of its own: what it is, how far one unit moves it and why, and its mechanism."""

    column: str
    part: Vector
    sensitivity: Sensitivity  # of all vectors of its block
    mechanism: Mechanism | CountingThreshold  # the latter where the selection of private keys counts it
    place: int = 0  # among the noisy vectors of the question

    def describe(self) -> str:
        """Return the part in words."""
        step = "" if self.part.unit == 1 else f" of {format_number(self.part.unit)}"
        return f"{self.part.role}: {self.mechanism.describe()}{step}; {self.sensitivity.because}"


@dataclass(frozen=True, slots=True)
class Allocation:
    """How a question is answered: the vectors that each aggregate reads, its selection if it is one, the keys' threshold.

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
    counted: int | None = None  # the aggregate that the selection of private keys answers by its own noisy counts
    mixes: tuple[Mix, ...] = ()

    @property
    def noisy(self) -> tuple[NoisyVector, ...]:
        """All noisy vectors of the question, each once."""
        found = {v.place: v for several in self.vectors for v in several if v.place != _NOWHERE}
        return tuple(found[place] for place in sorted(found))


def allocate(
    question: Aggregation,
    resolved: CompiledQuery,
    domain: Domain,
    neighbors: Neighbors,
    loss: Loss,
    weights: Sequence[Fraction] = (),
) -> Allocation:
    """Return the parts of a question. Each selection and each aggregate that needs noise shares by its weight, or equally.

    Private keys take an equal share, whatever the weights. An aggregate's share is shared equally by its vectors; those that
    several aggregates read get the sum of theirs (`queries.strategy`). By sequential composition the shares, which sum to 1
    exactly, amount to the loss. A count of units is the selection's own
    (Korolova et al. 2009): it shares with it. Raises QuestionRefused where keys are private and no delta is given.
    """
    moved = [[resolved.sensitivity(p, neighbors) for p in several] for several in resolved.parts]
    if not resolved.cells:
        # An answer without groups is known beforehand: nothing is drawn, and nothing is charged.
        moved = [[_still(s) for s in several] for several in moved]
    chosen = [i for i, a in enumerate(question.aggregates) if isinstance(a, Quantile)]
    counted = _count_of_units(question, resolved, neighbors) if resolved.private_keys else None
    noisy = [i for i, several in enumerate(moved) if any(s.l1 for s in several) and i != counted]
    threshold, rest = _select_keys(question, resolved, neighbors, loss, len(chosen) + len(noisy), counted)
    if isinstance(threshold, KeySelection):
        resolved = _counting_units(resolved, domain, neighbors)
    if weights and (len(weights) != len(moved) or min(weights) <= 0):
        raise DeclarationError(f"a question of {len(moved)} aggregates takes one weight for each of them, above 0")
    stated = [weights[i] if weights else Fraction(1) for i in range(len(moved))]
    whole = sum((stated[i] for i in (*chosen, *noisy)), Fraction(0))
    shares = [stated[i] / whole if i in chosen or i in noisy else Fraction(0) for i in range(len(moved))]
    enforced = resolved.enforce(neighbors)
    selections = _selections(question, chosen, resolved, domain, enforced, rest, shares) if chosen else {}
    additive = sum((shares[i] for i in noisy), Fraction(0))
    own = [share / additive if i in noisy else Fraction(0) for i, share in enumerate(shares)]
    left = _part(rest, additive) if noisy else rest
    vectors, mixes, event = _vectors(question, resolved, neighbors, moved, own, left)
    if isinstance(threshold, KeySelection) and counted is not None:
        vectors = _count_by(threshold, counted, vectors)
    events = [event] if noisy or not (chosen or threshold) else []
    events += [s.event for i, s in selections.items() if resolved.cells and (s.lead is None or s.lead == i)]
    events = events or [event]
    if threshold is not None:
        events.insert(0, threshold.event)
        keys = Fraction(1, len(chosen) + len(noisy) + 1)
        shares = [keys if i == counted else share * (1 - keys) for i, share in enumerate(shares)]
    event = events[0] if len(events) == 1 else Composed(events)
    if mixes:
        resolved = _with_terms(resolved, vectors, isinstance(threshold, KeySelection))
    found = tuple(selections.get(i) for i in range(len(vectors)))
    return Allocation(resolved, vectors, found, threshold, event, tuple(shares), counted, mixes)


def _still(sensitivity: Sensitivity) -> Sensitivity:
    """Return the sensitivity of what no unit moves."""
    return Sensitivity(0, Fraction(0), Fraction(0), Fraction(0), sensitivity.because)


def _with_terms(resolved: CompiledQuery, vectors: Sequence[Sequence[NoisyVector]], counts_units: bool) -> CompiledQuery:
    """Return the question with the terms that its vectors need too; the units of private keys stay last."""
    needed = dict.fromkeys(term for several in vectors for v in several for _, term in v.part.terms)
    new = tuple(term for term in needed if term not in resolved.terms)
    if not new:
        return resolved
    last = len(resolved.terms) - counts_units
    return replace(resolved, terms=(*resolved.terms[:last], *new, *resolved.terms[last:]))


def _vectors(
    question: Aggregation,
    resolved: CompiledQuery,
    neighbors: Neighbors,
    moved: Sequence[Sequence[Sensitivity]],
    shares: Sequence[Fraction],
    loss: Loss,
) -> tuple[tuple[tuple[NoisyVector, ...], ...], tuple[Mix, ...], Event]:
    """Return the vectors of each aggregate and their mixes, and the event of all: `shares` of the loss sum to 1, or to 0.

    An aggregate without a share gets no noise here: nothing moves it, or the selection of keys counts it.
    """
    if sum(map(len, moved)) > 1:
        return _shared_vectors(question, resolved, neighbors, shares, loss)
    sized: list[tuple[Sensitivity, Fraction]] = []
    for several, parts, share in zip(moved, resolved.parts, shares, strict=True):
        for s, p in zip(several, parts, strict=True):
            still = s if share else _still(s)
            sized.append((still.rescale(1 / p.unit), share))
    mechanisms, event = cheapest(sized, loss)
    rest = iter(mechanisms)
    planned = tuple(
        tuple(NoisyVector(a.alias, p, s, next(rest)) for p, s in zip(parts, several, strict=True))
        for a, parts, several in zip(question.aggregates, resolved.parts, moved, strict=True)
    )
    return planned, (), event


def _shared_vectors(
    question: Aggregation, resolved: CompiledQuery, neighbors: Neighbors, shares: Sequence[Fraction], loss: Loss
) -> tuple[tuple[tuple[NoisyVector, ...], ...], tuple[Mix, ...], Event]:
    """Return the same where there are several vectors: the fewest that answer all, by the strategy of least error."""
    from sordino.ask.queries.strategy import find_strategy

    found = find_strategy(question.aggregates, resolved, neighbors, shares, squared=isinstance(loss, ZCDP))
    blocks = found.blocks
    mechanisms, event = cheapest([(b.noise_sensitivity, b.share) for b in blocks], loss)
    starts = list(itertools.accumulate([len(b.vectors) for b in blocks], initial=0))
    planned = tuple(
        tuple(
            NoisyVector(a.alias, blocks[b].vectors[k], blocks[b].sensitivity, mechanisms[b], starts[b] + k)
            for b, k in reading.vectors
        )
        for a, reading in zip(question.aggregates, found.readings, strict=True)
    )
    readers = Counter(v.place for several in planned for v in several)
    mixes = tuple(
        reading.mix if not reading.is_plain or any(readers[v.place] > 1 for v in several) else ()
        for reading, several in zip(found.readings, planned, strict=True)
    )
    return planned, mixes, event


def _count_by(
    keys: KeySelection, counted: int, vectors: tuple[tuple[NoisyVector, ...], ...]
) -> tuple[tuple[NoisyVector, ...], ...]:
    """Return the vectors of all aggregates, that which the selection of keys counts with the selection's noise."""
    assert not isinstance(keys.selector, PartitionSelection)
    own = replace(vectors[counted][0], mechanism=keys.selector, place=_NOWHERE)
    return (*vectors[:counted], (own,), *vectors[counted + 1 :])


def _selections(
    question: Aggregation,
    chosen: Sequence[int],
    resolved: CompiledQuery,
    domain: Domain,
    neighbors: Neighbors,
    loss: Loss,
    shares: Sequence[Fraction],
) -> dict[int, PlannedQuantile]:
    """Return the plans of the aggregates of quantiles; those of one number share a draw where it errs less."""

    def plan(asked: Quantile, places: Sequence[int]) -> PlannedQuantile:
        share = _part(loss, sum((shares[i] for i in places), Fraction(0)))
        pure = PureDP(share.epsilon) if isinstance(share, ApproxDP) else share  # a delta buys a selection nothing
        return plan_quantile(asked, resolved, domain=domain, neighbors=neighbors, loss=pure)

    asked = {i: aggregate for i in chosen if isinstance(aggregate := question.aggregates[i], Quantile)}
    planned = {i: plan(one, [i]) for i, one in asked.items()}
    return planned if len(planned) < 2 else share_draws(planned, plan)


def _select_keys(
    question: Aggregation, resolved: CompiledQuery, neighbors: Neighbors, loss: Loss, others: int, counted: int | None
) -> tuple[KeySelection | WeightedSelection | None, Loss]:
    """Return how private keys are selected, by an equal share, and the loss that is left for the others."""
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
    enforced = resolved.enforce(neighbors)
    counts = counted is not None
    return choose_key_selection(
        enforced, loss, share=share, counts=counts, min_units=question.min_units, named=question.key_selection
    )


def _count_of_units(question: Aggregation, resolved: CompiledQuery, neighbors: Neighbors) -> int | None:
    """Return which aggregate counts the units of each key, as the selection of private keys does: one noise does for both.

    That is COUNT(*) where each row is a unit or each unit has one row a key, and COUNT(DISTINCT) of the units' own column.
    """
    if question.formulas or question.key_selection == "weighted":
        return None
    one_row = resolved.enforce(neighbors).rows_per_group == 1
    for i, asked in enumerate(question.aggregates):
        if isinstance(asked, Count) and asked.of is None and one_row:
            return i
        units = None if neighbors.id_column is None else Name(neighbors.id_column)
        if isinstance(asked, Distinct) and asked.of == units and not asked.others:
            return i
    return None


def _counting_units(resolved: CompiledQuery, domain: Domain, neighbors: Neighbors) -> CompiledQuery:
    """Return the question with one term more: the units of each group."""
    column = neighbors.id_column
    units = SqlAggregate("rows", None) if column is None else SqlAggregate("distinct", presence(Name(column), domain))
    return replace(resolved, terms=(*resolved.terms, units))


def _part(loss: Loss, share: Fraction) -> Loss:
    if isinstance(loss, ZCDP):
        return ZCDP(loss.rho * share)
    return ApproxDP(loss.epsilon * share, loss.delta) if isinstance(loss, ApproxDP) else PureDP(loss.epsilon * share)
