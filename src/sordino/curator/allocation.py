"""The vectors, selections and private keys of a plan: each with its share of the loss. Knows no exact answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from sordino.accounting.events import Composed
from sordino.curator.quantile_scans import PlannedQuantile, plan_quantile
from sordino.domain import Domain
from sordino.errors import DeclarationError, QuestionRefused
from sordino.loss import ZCDP, ApproxDP, Event, Loss, PureDP, format_number
from sordino.mechanisms.cheapest import cheapest
from sordino.mechanisms.mechanism import Mechanism
from sordino.mechanisms.threshold import GaussianThreshold, LaplaceThreshold, gaussian_threshold_for_pair
from sordino.neighbors import Neighbors, Sensitivity
from sordino.queries.aggregates.quantile import Quantile
from sordino.queries.aggregation import Aggregation, CompiledQuery
from sordino.queries.expressions.compile import presence
from sordino.queries.expressions.nodes import Name
from sordino.queries.query import SqlAggregate, Vector

__all__ = ["Allocation", "NoisyVector", "Threshold", "allocate"]

_LEAST = Fraction(1, 10**200)  # Gaussian tails below it are beyond doubles

Threshold = LaplaceThreshold | GaussianThreshold


@dataclass(frozen=True, slots=True)
class NoisyVector:
    """One vector that gets noise of its own: what it is, how far one unit moves it and why, and its mechanism."""

    column: str
    part: Vector
    sensitivity: Sensitivity
    mechanism: Mechanism

    def describe(self) -> str:
        """Return the part in words."""
        step = "" if self.part.unit == 1 else f" of {format_number(self.part.unit)}"
        return f"{self.part.role}: {self.mechanism.describe()}{step}; {self.sensitivity.because}"


@dataclass(frozen=True, slots=True)
class Allocation:
    """How a question is answered: the vectors of each aggregate, its selection if it is one, and the keys' threshold.

    `resolved` is what is run: with private keys it also counts the units of each group, as its last term. `shares` are
    those of the aggregates; with that of private keys they sum to 1.
    """

    resolved: CompiledQuery
    vectors: tuple[tuple[NoisyVector, ...], ...]
    selections: tuple[PlannedQuantile | None, ...]
    threshold: Threshold | None
    event: Event
    shares: tuple[Fraction, ...] = ()


def allocate(
    question: Aggregation,
    resolved: CompiledQuery,
    domain: Domain,
    neighbors: Neighbors,
    loss: Loss,
    weights: Sequence[Fraction] = (),
) -> Allocation:
    """Return the parts of a question. Each selection and each aggregate that needs noise shares by its weight, or equally.

    Private keys take an equal share, whatever the weights. An aggregate's share is shared equally by its vectors. By
    sequential composition the shares, which sum to 1 exactly, amount to the loss. Raises QuestionRefused where keys are
    private and no delta is given, or quantiles are asked for private keys.
    """
    moved = [[resolved.sensitivity(p, neighbors) for p in several] for several in resolved.parts]
    chosen = [i for i, a in enumerate(question.aggregates) if isinstance(a, Quantile)]
    noisy = [i for i, several in enumerate(moved) if any(s.l1 for s in several)]
    threshold, rest = _threshold(resolved, neighbors, loss, len(chosen) + len(noisy) + resolved.private_keys)
    if threshold is not None:
        if chosen:
            raise QuestionRefused("quantiles of private keys are not answered: declare the keys as a category")
        resolved = _counting_units(resolved, domain, neighbors)
    if weights and (len(weights) != len(moved) or min(weights) <= 0):
        raise DeclarationError(f"a question of {len(moved)} aggregates takes as many weights, each above 0")
    stated = [weights[i] if weights else Fraction(1) for i in range(len(moved))]
    whole = sum((stated[i] for i in (*chosen, *noisy)), Fraction(0))
    shares = [stated[i] / whole if i in chosen or i in noisy else Fraction(0) for i in range(len(moved))]
    enforced = resolved.enforce(neighbors)
    selections = {i: _selection(question, i, resolved, domain, enforced, _part(rest, shares[i])) for i in chosen}
    additive = sum((shares[i] for i in noisy), Fraction(0))
    vectors, event = _vectors(question, resolved, moved, shares, _part(rest, additive) if noisy else rest)
    events = [event] if noisy or not chosen else []
    events += [s.event for s in selections.values()]
    if threshold is not None:
        events.insert(0, threshold.event)
        keys = Fraction(1, len(noisy) + 1)
        shares = [share * (1 - keys) for share in shares]
    event = events[0] if len(events) == 1 else Composed(events)
    found = tuple(selections.get(i) for i in range(len(vectors)))
    return Allocation(resolved, vectors, found, threshold, event, tuple(shares))


def _vectors(
    question: Aggregation,
    resolved: CompiledQuery,
    moved: Sequence[Sequence[Sensitivity]],
    shares: Sequence[Fraction],
    loss: Loss,
) -> tuple[tuple[tuple[NoisyVector, ...], ...], Event]:
    """Return the vectors of each aggregate, which share the loss as the aggregates do, and their event."""
    active = [sum(s.l1 > 0 for s in several) for several in moved]
    whole = sum((share for share, busy in zip(shares, active, strict=True) if busy), Fraction(0))
    sized: list[tuple[Sensitivity, Fraction]] = []
    for several, parts, busy, share in zip(moved, resolved.parts, active, shares, strict=True):
        for s, p in zip(several, parts, strict=True):
            sized.append((s.rescale(1 / p.unit), share / (whole * busy) if s.l1 else Fraction(0)))
    mechanisms, event = cheapest(sized, loss)
    rest = iter(mechanisms)
    planned = tuple(
        tuple(NoisyVector(a.alias, p, s, next(rest)) for p, s in zip(parts, several, strict=True))
        for a, parts, several in zip(question.aggregates, resolved.parts, moved, strict=True)
    )
    return planned, event


def _selection(
    question: Aggregation, place: int, resolved: CompiledQuery, domain: Domain, neighbors: Neighbors, share: Loss
) -> PlannedQuantile:
    asked = question.aggregates[place]
    assert isinstance(asked, Quantile)
    pure = PureDP(share.epsilon) if isinstance(share, ApproxDP) else share  # a delta buys a selection nothing
    return plan_quantile(asked, resolved, domain=domain, neighbors=neighbors, loss=pure)


def _threshold(resolved: CompiledQuery, neighbors: Neighbors, loss: Loss, shares: int) -> tuple[Threshold | None, Loss]:
    """Return the threshold of private keys, and the loss that is left for the rest."""
    if not resolved.private_keys:
        return None, loss
    if neighbors.unit is not None and neighbors.id_column is None:
        raise QuestionRefused(
            "private keys need a column that names each row's unit, to count units by, and this table only promises how many "
            "rows a unit has: declare PrivacyUnit(column, max_rows=...), or group by a column with declared values"
        )
    if any(k.private and k.column is not None and k.column == neighbors.id_column for k in resolved.keys):
        raise QuestionRefused(
            f"each key of {neighbors.id_column!r} has one unit, so none could ever show: group by something else"
        )
    count = resolved.enforce(neighbors).groups * (1 if neighbors.relation == "add_remove" else 2)
    if isinstance(loss, ZCDP) and loss.slack is not None and loss.slack >= _LEAST:
        share = loss.rho / shares
        return GaussianThreshold(count, share, loss.slack), ZCDP(loss.rho - share)
    if not isinstance(loss, ApproxDP) or loss.delta == 0:
        raise QuestionRefused(
            "the keys of this group-by are private: which of them show needs a delta, the chance that a key of one unit "
            "shows; give epsilon= and delta=, such as delta=1e-6 (under a cap on rho with a slack: rho= and delta=), or "
            "declare the column as a category with its values"
        )
    part = loss.epsilon / shares
    left = loss.epsilon - part
    laplace = LaplaceThreshold(count, part, loss.delta)
    if loss.delta < _LEAST:
        return laplace, PureDP(left)
    gaussian = gaussian_threshold_for_pair(keys=count, epsilon=part, delta=loss.delta / 2)
    if laplace.threshold <= gaussian.threshold:
        return laplace, PureDP(left)
    return gaussian, ApproxDP(left, loss.delta / 2)


def _counting_units(resolved: CompiledQuery, domain: Domain, neighbors: Neighbors) -> CompiledQuery:
    """Return the question with one term more: the units of each group."""
    column = neighbors.id_column
    units = SqlAggregate("rows", None) if column is None else SqlAggregate("distinct", presence(Name(column), domain))
    return replace(resolved, terms=(*resolved.terms, units))


def _part(loss: Loss, share: Fraction) -> Loss:
    if isinstance(loss, ZCDP):
        return ZCDP(loss.rho * share)
    return ApproxDP(loss.epsilon * share, loss.delta) if isinstance(loss, ApproxDP) else PureDP(loss.epsilon * share)
