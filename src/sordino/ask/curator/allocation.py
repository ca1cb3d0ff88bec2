"""How the aggregates of a question share its loss."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from sordino.ask.curator.key_selection import CountingThreshold, KeySelection, choose_key_selection
from sordino.ask.curator.plan import LossSplit, Plan, PlannedColumn, Procedure
from sordino.ask.curator.quantile_scans import PlannedQuantile, plan_quantile, share_draws
from sordino.ask.queries.aggregates.distinct import Distinct
from sordino.ask.queries.aggregates.moments import MomentAggregate
from sordino.ask.queries.aggregates.quantile import Quantile
from sordino.ask.queries.aggregates.sums import Count
from sordino.ask.queries.aggregation import Aggregation, BoundedQuery, CompiledQuery, columns_of
from sordino.ask.queries.expressions.compile import presence
from sordino.ask.queries.expressions.nodes import Name, walk
from sordino.ask.queries.query import Aggregate, SqlAggregate, Vector
from sordino.core.accounting.events import Composed
from sordino.core.domain import Domain
from sordino.core.errors import DeclarationError, QuestionRefused, UnknownName, arg, nearest
from sordino.core.estimates.weighted_sum import Mix
from sordino.core.loss import ZCDP, ApproxDP, Event, Loss, PureDP, format_number, scale_loss
from sordino.core.mechanisms.additive_noise import Mechanism
from sordino.core.mechanisms.noise_choice import cheapest
from sordino.core.mechanisms.partition_selection import PartitionSelection
from sordino.core.mechanisms.weighted_selection import WeightedSelection
from sordino.core.neighbors import Neighbors, Sensitivity

# ---- How one loss is split among the aggregates of a question or the questions of a batch: it knows plans, so
# public facts

_CONFIDENCE = 0.95
_SMALLEST = Fraction(1, 10**7)  # the least loss, and part of a loss, at which errors are measured
_FINEST = 10**6  # shares that are searched are whole multiples of 1 / _FINEST


def weigh(items: Sequence[Collection[str]], split: LossSplit, *, what: str) -> list[Fraction]:
    """Return the weight of each item, 1 where none is stated; `items` holds the names that each goes by.

    Raises DeclarationError for the wrong number of weights, UnknownName for a name that is not one item's.
    """
    weights = split.weights
    if weights is None:
        return [Fraction(1)] * len(items)
    if isinstance(weights, tuple):
        if len(weights) != len(items):
            raise DeclarationError(f"weights are {len(items)} numbers above 0, one per {what}, not {len(weights)}")
        return list(weights)
    found: list[Fraction | None] = [None] * len(items)
    for name, weight in weights.items():
        at = [i for i, names in enumerate(items) if name in names]
        if not at:
            known = list(dict.fromkeys(n for names in items for n in names))
            raise UnknownName(f"weights name {name!r}, which is not a column of the answer; {nearest(name, known)}")
        if len(at) > 1 or found[at[0]] not in (None, weight):
            raise DeclarationError(
                f"the name {name!r} in weights does not stand for one {what} alone: give the weights in order"
            )
        found[at[0]] = weight
    return [Fraction(1) if w is None else w for w in found]


def weigh_aggregates(question: Aggregation, split: LossSplit) -> list[Fraction]:
    """Return the weight of each aggregate; a formula's weight is that of every aggregate it is computed from."""
    shown = {a.alias: (a.alias, *columns_of(a)) for a in question.aggregates if a.alias not in question.hidden}
    formulas = [f for f in question.formulas if f.alias not in question.hidden and not f.is_constant]
    shown |= {f.alias: (f.alias,) for f in formulas}
    place = {name: i for i, name in enumerate(question.layout)}
    order = sorted(shown, key=lambda alias: min(place.get(name, len(place)) for name in shown[alias]))  # as in SELECT
    given = dict(zip(order, weigh([shown[alias] for alias in order], split, what="column"), strict=True))
    weights: list[Fraction] = []
    for aggregate in question.aggregates:
        stated = [given[aggregate.alias]] if aggregate.alias in given else []
        stated += [given[f.alias] for f in formulas if aggregate.alias in f.names()]
        weights.append(max(stated, default=Fraction(1)))
    return weights


def least_error_shares(
    weights: Sequence[Fraction], errors_at: Callable[[Fraction], Sequence[float]], *, loss: Fraction
) -> tuple[Fraction, ...]:
    """Return shares, which sum to 1, with the least weighted sum of errors; `errors_at` gives those of equal shares of a loss.

    An error falls as share^-a (a = 1 for Laplace, 1/2 for rho), so by Lagrange the minimum has shares in proportion to
    (weight error a)^(1 / (1 + a)). The power is measured at the loss and at twice that; where errors are so small that they
    are whole steps, or none, at smaller losses, and the error at `loss` follows.

    >>> least_error_shares([Fraction(1), Fraction(1)], lambda loss: [4 / loss, 1 / loss], loss=Fraction(1))
    (Fraction(666667, 1000000), Fraction(333333, 1000000))
    """
    laws: dict[int, tuple[float, float]] = {}
    first: Sequence[float] = ()
    factor = Fraction(1)
    while len(laws) < len(weights) and factor >= _SMALLEST and (factor == 1 or factor * loss >= _SMALLEST):
        here, there = errors_at(factor * loss), errors_at(2 * factor * loss)
        first = first or here
        for i, (now, then) in enumerate(zip(here, there, strict=True)):
            power = math.log2(now / then) if 0 < then < now else 0.0
            if i not in laws and 0.4 < power < 1.4:
                laws[i] = now * float(factor) ** power, power
        factor /= 8
    parts: list[float] = []
    for i, weight in enumerate(weights):
        error, power = laws.get(i, (first[i], 1.0))
        parts.append((float(weight) * max(error, 1e-300) * power) ** (1 / (1 + power)))
    whole = math.fsum(parts)
    shares = [max(Fraction(math.floor(p / whole * _FINEST), _FINEST), Fraction(1, _FINEST)) for p in parts]
    shares[shares.index(max(shares))] += 1 - sum(shares, Fraction(0))  # what rounding left, or took too much
    return tuple(shares)


def aggregate_weights(
    question: Aggregation,
    compiled: CompiledQuery,
    split: LossSplit,
    plan_at: Callable[[Loss], Procedure],
    asked: Loss,
    rows: int | None,
) -> tuple[Fraction, ...]:
    """Return the weight of each aggregate's share of a loss; `plan_at` gives equal shares of a loss, to see its errors.

    Raises QuestionRefused where an error or a size depends on the number of rows, and no guess at it was given.
    """
    if split.exact:
        return split.exact
    weights = weigh_aggregates(question, split)
    if split.share == "equal":
        return tuple(weights)
    count = len(question.aggregates)
    sizes = [1.0] * count
    if split.share == "relative":
        check_scale([question], split)
        sizes = sizes_of(question, compiled, split, rows)
    whole = asked.rho if isinstance(asked, ZCDP) else asked.epsilon

    def errors_at(loss: Fraction) -> list[float]:
        errors = _errors(plan_at(scale_loss(asked, loss / whole)).columns(_CONFIDENCE)[:count])
        return [error / size for error, size in zip(errors, sizes, strict=True)]

    return least_error_shares(weights, errors_at, loss=whole)


def relative_error(plan: Plan, split: LossSplit, confidence: float, rows: int | None) -> float:
    """Return the largest expected error of a question's answers, each divided by the size of its answer."""
    procedure: Any = plan.procedure
    columns = list(procedure.columns(confidence))
    if isinstance(plan.question, Aggregation):
        sizes = sizes_of(plan.question, procedure.compiled, split, rows)
    else:  # a choice: its error is in rows
        sizes = [_stated(columns[0].names, split.scale) or _rows(rows)]
    return max(error / size for error, size in zip(_errors(columns[: len(sizes)]), sizes, strict=True))


def sizes_of(question: Aggregation, compiled: CompiledQuery, split: LossSplit, rows: int | None) -> list[float]:
    """Return the size of each aggregate's answer, which its error is divided by.

    As `scale` states by the answer's name; else a mean's is the range of its column, a sum's what `rows` of them can add
    up to, a count's and a quantile's `rows`. `scale` may state a column's range too, by the name of the column.
    """
    pairs = zip(question.aggregates, compiled.parts, strict=True)
    return [_size(aggregate, parts, split.scale, rows) for aggregate, parts in pairs]


def check_scale(questions: Sequence[Aggregation], split: LossSplit) -> None:
    """Raise UnknownName where `scale` names neither a column of an answer nor one that a question reads."""
    known = {n for q in questions for a in q.aggregates for n in (a.alias, *columns_of(a))}
    known |= {at.name for q in questions for node in q.expressions() for at in walk(node) if isinstance(at, Name)}
    for name in split.scale:
        if name not in known:
            raise UnknownName(
                f"scale names {name!r}, which is neither a column of the answer nor one that a question reads; "
                f"{nearest(name, known)}"
            )


def _size(asked: Aggregate, parts: Sequence[Vector], scale: Mapping[str, Fraction], rows: int | None) -> float:
    stated = _stated((asked.alias, *columns_of(asked)), scale)
    if stated is not None:
        return stated
    if isinstance(asked, MomentAggregate):
        return _moment_size(asked, parts, scale)
    if not parts:  # a quantile: its error is in rows
        return _rows(rows)
    if parts[0].bounds is not None:
        width = _width(getattr(asked, "of", None), parts[0], scale)
        return width if len(parts) > 1 else width * _rows(rows)
    return float(getattr(parts[0].rule, "values", None) or _rows(rows))


def _stated(names: Sequence[str], scale: Mapping[str, Fraction]) -> float | None:
    return next((float(scale[name]) for name in names if name in scale), None)


def _rows(rows: int | None) -> int:
    if rows is None:
        raise QuestionRefused(
            f'{arg("share=")}"relative" divides the error of a count or a sum by its size: '
            f"give {arg('assume_rows')}, a public guess, or {arg('scale=')}"
        )
    return rows


def _moment_size(asked: MomentAggregate, parts: Sequence[Vector], scale: Mapping[str, Fraction]) -> float:
    if asked.statistic == "correlation":
        return 2.0
    first = _width(asked.of, parts[0], scale)
    second = first if asked.other is None else _width(asked.other, parts[1], scale)
    return first if asked.statistic == "deviation" else first * second


def _width(of: Any, part: Vector, scale: Mapping[str, Fraction]) -> float:
    """Return the range of what is added up: a sum's reaches from 0, a centred one's from its lower to its upper bound."""
    if isinstance(of, Name) and of.name in scale:
        return float(scale[of.name])
    low, high = part.ends
    ends = (low, high) if part.lift else (min(low, 0), max(high, 0))
    return float((ends[1] - ends[0]) * part.unit) or float(part.unit)


def _errors(columns: Sequence[PlannedColumn]) -> list[float]:
    """Return the largest expected error of each aggregate."""
    if any(e is None for column in columns for e in column.errors):
        raise QuestionRefused(f"the error of a mean depends on the rows: give {arg('assume_rows')}, a public guess")
    return [max(e for e in column.errors if e is not None) for column in columns]


# ---- The vectors, selections and private keys of a plan: each with its share of the loss. Knows no exact answer

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
    bounded: BoundedQuery,
    domain: Domain,
    loss: Loss,
    weights: Sequence[Fraction] = (),
) -> Allocation:
    """Return the parts of a question. Each selection and each aggregate that needs noise shares by its weight, or equally.

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
    chosen = [i for i, a in enumerate(question.aggregates) if isinstance(a, Quantile)]
    counted = _count_of_units(question, neighbors) if resolved.private_keys else None
    noisy = [i for i, several in enumerate(moved) if any(s.l1 for s in several) and i != counted]
    threshold, rest = _select_keys(question, resolved, neighbors, loss, len(chosen) + len(noisy), counted)
    if isinstance(threshold, KeySelection):
        resolved = _counting_units(resolved, domain, neighbors)
    if weights and (len(weights) != len(moved) or min(weights) <= 0):
        raise DeclarationError(f"a question of {len(moved)} aggregates takes one weight for each of them, above 0")
    stated = [weights[i] if weights else Fraction(1) for i in range(len(moved))]
    whole = sum((stated[i] for i in (*chosen, *noisy)), Fraction(0))
    shares = [stated[i] / whole if i in chosen or i in noisy else Fraction(0) for i in range(len(moved))]
    selections = _selections(question, chosen, resolved, domain, neighbors, rest, shares) if chosen else {}
    additive = sum((shares[i] for i in noisy), Fraction(0))
    own = [share / additive if i in noisy else Fraction(0) for i, share in enumerate(shares)]
    left = scale_loss(rest, additive) if noisy else rest
    vectors, mixes, event = _vectors(question, bounded, own, left)
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
    question: Aggregation, bounded: BoundedQuery, shares: Sequence[Fraction], loss: Loss
) -> tuple[tuple[tuple[NoisyVector, ...], ...], tuple[Mix, ...], Event]:
    """Return the vectors of each aggregate and their mixes, and the event of all: `shares` of the loss sum to 1, or to 0.

    An aggregate without a share gets no noise here: nothing moves it, or the selection of keys counts it.
    """
    moved = bounded.sensitivities
    if sum(map(len, moved)) > 1:
        return _shared_vectors(question, bounded, shares, loss)
    resolved = bounded.compiled
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
    question: Aggregation, bounded: BoundedQuery, shares: Sequence[Fraction], loss: Loss
) -> tuple[tuple[tuple[NoisyVector, ...], ...], tuple[Mix, ...], Event]:
    """Return the same where there are several vectors: the fewest that answer all, by the strategy of least error."""
    from sordino.ask.queries.strategy import find_strategy

    found = find_strategy(question.aggregates, bounded, shares, squared=isinstance(loss, ZCDP))
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
        share = scale_loss(loss, sum((shares[i] for i in places), Fraction(0)))
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
