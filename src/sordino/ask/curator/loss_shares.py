"""How one loss is split among the aggregates of a question or the questions of a batch: it knows plans, so public facts."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from fractions import Fraction
from typing import Any

from sordino.ask.curator.plan import LossSplit, Plan, PlannedColumn, Procedure
from sordino.ask.queries.aggregates.moments import MomentAggregate
from sordino.ask.queries.aggregation import Aggregation, CompiledQuery, columns_of
from sordino.ask.queries.expressions.nodes import Name, walk
from sordino.ask.queries.query import Aggregate, Vector
from sordino.core.errors import DeclarationError, QuestionRefused, UnknownName, arg, nearest
from sordino.core.loss import ZCDP, Loss, scale_loss

_CONFIDENCE = 0.95
# the least loss, and part of a loss, at which errors are measured
_SMALLEST = Fraction(1, 10**7)
# shares that are searched are whole multiples of 1 / _FINEST
_FINEST = 10**6


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
    weight_of: list[Fraction | None] = [None] * len(items)
    for name, weight in weights.items():
        at = [i for i, names in enumerate(items) if name in names]
        if not at:
            names_of_items = list(dict.fromkeys(n for names in items for n in names))
            raise UnknownName(
                f"weights name {name!r}, which is not a column of the answer; {nearest(name, names_of_items)}"
            )
        if len(at) > 1 or weight_of[at[0]] not in (None, weight):
            raise DeclarationError(
                f"the name {name!r} in weights does not stand for one {what} alone: give the weights in order"
            )
        weight_of[at[0]] = weight
    return [Fraction(1) if w is None else w for w in weight_of]


def weigh_aggregates(question: Aggregation, split: LossSplit) -> list[Fraction]:
    """Return the weight of each aggregate; a formula's weight is that of every aggregate it is computed from."""
    names_of = {a.alias: (a.alias, *columns_of(a)) for a in question.aggregates if a.alias not in question.hidden}
    formulas = [f for f in question.formulas if f.alias not in question.hidden and not f.is_constant]
    names_of |= {f.alias: (f.alias,) for f in formulas}
    place = {name: i for i, name in enumerate(question.layout)}
    # weights are stated in the order of SELECT
    order = sorted(names_of, key=lambda alias: min(place.get(name, len(place)) for name in names_of[alias]))
    weight_of = dict(zip(order, weigh([names_of[alias] for alias in order], split, what="column"), strict=True))
    weights: list[Fraction] = []
    for aggregate in question.aggregates:
        stated = [weight_of[aggregate.alias]] if aggregate.alias in weight_of else []
        stated += [weight_of[f.alias] for f in formulas if aggregate.alias in f.names()]
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
        here = errors_at(factor * loss)
        there = errors_at(2 * factor * loss)
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
    # the largest share takes what rounding left, or gives what it took too much
    shares[shares.index(max(shares))] += 1 - sum(shares, Fraction(0))
    return tuple(shares)


def aggregate_weights(
    question: Aggregation,
    compiled: CompiledQuery,
    split: LossSplit,
    plan_at: Callable[[Loss], Procedure],
    total: Loss,
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
    whole = total.rho if isinstance(total, ZCDP) else total.epsilon

    def errors_at(loss: Fraction) -> list[float]:
        errors = _errors(plan_at(scale_loss(total, loss / whole)).columns(_CONFIDENCE)[:count])
        return [error / size for error, size in zip(errors, sizes, strict=True)]

    return least_error_shares(weights, errors_at, loss=whole)


def relative_error(plan: Plan, split: LossSplit, confidence: float, rows: int | None) -> float:
    """Return the largest expected error of a question's answers, each divided by the size of its answer."""
    procedure: Any = plan.procedure
    columns = list(procedure.columns(confidence))
    if isinstance(plan.question, Aggregation):
        sizes = sizes_of(plan.question, procedure.compiled, split, rows)
    else:
        # a choice: its error is in rows
        sizes = [_stated_size(columns[0].names, split.scale) or _rows(rows)]
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
    names = {n for q in questions for a in q.aggregates for n in (a.alias, *columns_of(a))}
    names |= {at.name for q in questions for node in q.expressions() for at in walk(node) if isinstance(at, Name)}
    for name in split.scale:
        if name not in names:
            raise UnknownName(
                f"scale names {name!r}, which is neither a column of the answer nor one that a question reads; "
                f"{nearest(name, names)}"
            )


def _size(aggregate: Aggregate, parts: Sequence[Vector], scale: Mapping[str, Fraction], rows: int | None) -> float:
    stated = _stated_size((aggregate.alias, *columns_of(aggregate)), scale)
    if stated is not None:
        return stated
    if isinstance(aggregate, MomentAggregate):
        return _moment_size(aggregate, parts, scale)
    # a quantile: its error is in rows
    if not parts:
        return _rows(rows)
    if parts[0].bounds is not None:
        width = _width(getattr(aggregate, "of", None), parts[0], scale)
        return width if len(parts) > 1 else width * _rows(rows)
    return float(getattr(parts[0].rule, "values", None) or _rows(rows))


def _stated_size(names: Sequence[str], scale: Mapping[str, Fraction]) -> float | None:
    return next((float(scale[name]) for name in names if name in scale), None)


def _rows(rows: int | None) -> int:
    if rows is None:
        raise QuestionRefused(
            f'{arg("share=")}"relative" divides the error of a count or a sum by its size: '
            f"give {arg('assume_rows')}, a public guess, or {arg('scale=')}"
        )
    return rows


def _moment_size(aggregate: MomentAggregate, parts: Sequence[Vector], scale: Mapping[str, Fraction]) -> float:
    if aggregate.statistic == "correlation":
        return 2.0
    first = _width(aggregate.of, parts[0], scale)
    second = first if aggregate.other is None else _width(aggregate.other, parts[1], scale)
    return first if aggregate.statistic == "deviation" else first * second


def _width(of: Any, part: Vector, scale: Mapping[str, Fraction]) -> float:
    """Return the range of the summands: a sum's reaches from 0, a centred one's from its lower to its upper bound."""
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
