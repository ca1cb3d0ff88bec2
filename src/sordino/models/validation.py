"""Fitted models on units that were held out: scores from noisy counts, and a choice among models by their scores.

A model is scored by its own SQL: it is public, so which rows it predicts right is a condition like any other.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from sordino.ask.queries.aggregation import Grouping
from sordino.ask.queries.build import Selection
from sordino.ask.queries.expressions.nodes import Name, Node
from sordino.ask.queries.gradient_vector import SCORE_BIN, SCORE_BINS
from sordino.ask.queries.moment_matrix import MomentMatrix
from sordino.ask.queries.queryable import ChargePart, ReleaseContent
from sordino.ask.queries.row_score import RowScore
from sordino.ask.queries.row_steps import Fold
from sordino.ask.queries.sql.parse import parse_question, sql
from sordino.core.errors import BudgetExhausted, DeclarationError, QuestionRefused, arg
from sordino.core.loss import Loss, LossArguments, read_loss
from sordino.core.release import Release
from sordino.models.columns import check_folds, domain_of, require_weight
from sordino.models.held_out import (
    HeldOut,
    HeldOutClasses,
    HeldOutScores,
    score_classes,
    score_counts,
    score_predictions,
)
from sordino.models.moments import read_moments
from sordino.models.planning import check_arguments
from sordino.models.record import is_value, quote_name
from sordino.models.registry import LOSS_ARGUMENTS, arguments_of, load_fit, require_model

# The share of the loss that scores a model on held-out rows, and that chooses among several.
SCORING = Fraction(3, 20)
CHOOSING = Fraction(1, 10)
# Of more classes, which is the most probable one is too long a condition.
_MOST_CLASSES = 12
# Characters of a question: a longer one takes minutes to plan.
_LONGEST = 100_000
# Errors of a number count up to this part of its declared range, in so many steps, where models are compared.
_FAR = Fraction(1, 10)
_STEPS = 1000
_NUMBER = re.compile(r"""("(?:[^"]|"")*"|'(?:[^']|'')*')|(?<![\w.])(\d+\.\d+(?:e[+-]?\d+)?|\d+e[+-]?\d+)(?![\w.])""")


def fit_validated(fit: Callable[..., Any], table: Any, folds: int, loss: LossArguments, **arguments: Any) -> Any:
    """Return a model fitted without one unit in `folds`, and scored on those, for 15% of the loss, by one charge.

    Raises what the fit raises, and BudgetExhausted before anything is spent where both together pass the budget.
    """
    check_folds(folds)
    take_fold(table, folds, others=True)
    check_covered(table, loss)
    name = fit.__name__
    part = take_part(loss, 1 - SCORING)
    fit_others = _fit_to_others(fit, folds, part, arguments)
    note = f"fitted without one unit in {folds}, which are scored for {_percent(SCORING)} of the loss"

    def run(tables: Sequence[Any]) -> Any:
        fitted, scored = tables
        return add_scores(fit_others(fitted), scored, folds, note, weights=arguments.get("weights"))

    model, release = table.adapt_parts(
        run,
        parts=(ChargePart(f"the fit of {name}", read_loss(**part), fit_others), _score_part(loss, SCORING)),
        describe=f"{name} of {arguments['y']}, scored on one unit in {folds}",
        record=_record_model,
    )
    return _charged_as(model, release)


def _fit_to_others(
    fit: Callable[..., Any], folds: int, loss: LossArguments, arguments: Mapping[str, Any]
) -> Callable[[Any], Any]:
    """Return what fits a model of a table to the units that are not held out."""
    return lambda table: fit(take_fold(table, folds, others=True), **arguments, **loss)


def _score_part(loss: LossArguments, share: Fraction) -> ChargePart:
    """Return the score of a model as a part of a charge: what is asked follows from the model."""
    return ChargePart("the score on held-out units", read_loss(**take_part(loss, share)))


def _charged_as(model: Any, release: Release) -> Any:
    """Return a model whose cost is that of the whole charge which its fit was a part of."""
    return replace(model, provenance=replace(model.provenance, cost=release.cost, charge=release.charge))


def _record_model(model: Any) -> ReleaseContent:
    """Return what the ledger keeps of a model: what its card says."""
    return ReleaseContent(notes=(model.describe(), *(f"{name}: {text}" for name, text in model.facts().items())))


def add_scores(model: Any, table: Any, folds: int, note: str, *, weights: str | None) -> Any:
    """Return a model with its scores on held-out units, asked of the part of a charge that is for them.

    A model of such numbers that its prediction is no question is returned without, and says so: it is paid for.
    """
    notes = (*model.notes, note)
    loss: Any = table.loss.amounts()
    try:
        held_out = score_model(model, table, folds, loss, weights=weights)
    except QuestionRefused as refusal:
        held_out = None
        notes = (*notes, f"the held-out units could not be scored, though that was charged for: {refusal}")
    return replace(model, held_out=held_out, provenance=replace(model.provenance, notes=notes))


def take_fold(table: Any, folds: int, *, others: bool) -> Any:
    """Return the rows of one unit in `folds`, or of all others, as a table; raises QuestionRefused for a table that has none."""
    if not hasattr(table, "over"):
        raise QuestionRefused(
            "units are held out of a table that is here, not of one on a server or of joined rows: leave validate out"
        )
    return table.over(Selection(steps=(Fold(folds, others),)))


def take_part(loss: LossArguments, part: Fraction) -> LossArguments:
    """Return a part of a stated loss, in its own terms."""
    amounts = read_loss(**loss).amounts()
    stated: Any = {name: amounts[name] * part for name, value in loss.items() if value is not None}
    part_of: LossArguments = stated
    return part_of


def check_covered(table: Any, loss: LossArguments) -> None:
    """Raise BudgetExhausted where the whole loss passes what is left, so that no part of it is spent in vain."""
    wanted = read_loss(**loss)
    left: Any = getattr(table, "remaining", None)
    amounts = {} if left is None else left.amounts()
    if any(value > amounts.get(name, value) for name, value in wanted.amounts().items()):
        raise BudgetExhausted(
            f"the budget does not cover this: it asks for {wanted.describe()} in all, and {left.describe()} is left; "
            "nothing was charged"
        )


def _percent(share: Fraction) -> str:
    return f"{float(100 * share):g}%"


# ---- Scores of one model


def score_model(
    model: Any, table: Any, folds: int, loss: LossArguments, *, weights: str | None = None
) -> HeldOut | HeldOutScores | HeldOutClasses:
    """Return how well a model predicts the units that were held out: R2, AUC and calibration, or the share that is right.

    Rows count alike, or by the column that `weights` names, as a part of its upper declared bound.
    """
    domain: Any = domain_of(table)
    classes = getattr(model, "classes", ())
    if not classes:
        predicted = Grouping("predicted", _read_node(model.to_sql(), domain))
        weight = None if weights is None else require_weight(domain, weights)
        question = MomentMatrix((predicted, Grouping(model.y, Name(model.y))), weight=weight)
        held = take_fold(table, folds, others=False)
        release = held.ask(question, **loss)
        (moments,) = read_moments(release, question, held.domain)
        return score_predictions(moments)
    target = quote_name(model.y)
    if len(classes) == 2:
        first, second = model.scores_sql()
        edges = _edges(is_share=getattr(model, "ranks_by_shares", False))
        score = f"BIN(LEAST(GREATEST({second} - ({first}), {edges[0]}), {edges[-1]}), {', '.join(edges)})"
        rows = _count_held(table, f"{target} AS y, {score} AS score", folds, loss, weights)
        places = {float(edge): place for place, edge in enumerate(edges)}
        # A row without a score has a cell missing.
        cells = [
            (row["y"], places[_lower_edge(row["score"])], row["count"]) for row in rows.rows if row["score"] is not None
        ]
        size = SCORE_BINS
    else:
        # A row without a prediction is predicted wrong.
        right = f"CASE WHEN {_is_right(model)} THEN 'right' ELSE 'wrong' END"
        rows = _count_held(table, f"{target} AS y, {right} AS score", folds, loss, weights)
        cells = [(row["y"], int(row["score"] == "right"), row["count"]) for row in rows.rows]
        size = 2
    counts = np.zeros((len(classes), size))
    for label, place, value in cells:
        if label in classes:
            counts[classes.index(label), place] = value
    estimate: Any = rows.outputs[0].estimate
    deviation = math.sqrt(float(estimate.law.variance())) * float(estimate.unit)
    if weights is not None:
        heaviest = float(domain[weights].upper)
        counts /= heaviest
        deviation /= heaviest
    if size == 2:
        return score_classes(counts, deviation, tuple(map(str, classes)), confidence=0.95)
    return score_counts(counts, deviation, confidence=0.95)


def _count_held(table: Any, keys: str, folds: int, loss: LossArguments, weights: str | None) -> Release:
    """Ask for the held-out rows, or for the sum of their weights, by some keys."""
    total = "COUNT(*)" if weights is None else f"SUM({quote_name(weights)})"
    text = f"SELECT {round_numbers(keys)}, {total} AS count FROM data GROUP BY y, score"
    if len(text) > _LONGEST:
        raise QuestionRefused("its prediction is too long to be a question: name fewer columns")
    question: Any = parse_question(sql(text), table="data", columns=list(domain_of(table)))
    release: Release = table.ask(replace(question, steps=(Fold(folds),)), **loss)
    return release


def _lower_edge(label: str) -> float:
    """Return where a bin begins, by its label "[-1, 0)"."""
    return float(label[1:].split(",")[0])


def _edges(*, is_share: bool) -> list[str]:
    """Return the edges of the bins of scores, as text: of log odds, or of how far the share of one class is above the other's."""
    odds = [float(SCORE_BIN) * (place - SCORE_BINS / 2) for place in range(SCORE_BINS + 1)]
    return [f"{math.tanh(odd / 2):.6f}" if is_share else f"{odd:.1f}" for odd in odds]


def _is_right(model: Any) -> str:
    """Return in SQL whether the most probable class, the first of several alike, is that of the row."""
    if len(model.classes) > _MOST_CLASSES:
        raise QuestionRefused(
            f"held-out units are scored for 2 to {_MOST_CLASSES} classes, and {model.y!r} has {len(model.classes)}: "
            "leave validate out"
        )
    scores = model.scores_sql()
    cases = []
    for k, (label, score) in enumerate(zip(model.classes, scores, strict=True)):
        wins = [f"{score} {'>' if j < k else '>='} {other}" for j, other in enumerate(scores) if j != k]
        cases.append(f"({is_value(model.y, label)} AND {' AND '.join(wins)})")
    return f"({' OR '.join(cases)})"


def _read_node(expression: str, domain: Any, *, condition: bool = False) -> Node:
    """Return an expression of a model as a node of a question, its numbers to six digits."""
    where = expression if condition else f"{expression} > 0"
    text = f"SELECT COUNT(*) FROM data WHERE {round_numbers(where)}"
    question: Any = parse_question(sql(text), table="data", columns=list(domain))
    node: Node = question.where if condition else question.where.left
    return node


def round_numbers(expression: str) -> str:
    """Return an expression of SQL with its fractions to six digits, so that what is computed of them has few steps.

    >>> round_numbers('0.123456789 * "x 1.5" + 1e-07')
    '0.123457 * "x 1.5" + 0.0000001'
    """

    def shorten(match: re.Match[str]) -> str:
        return match[1] or format(Decimal(f"{float(match[2]):.6g}"), "f")

    return _NUMBER.sub(shorten, expression)


# ---- A choice among several


@dataclass(frozen=True)
class ChoicePlan:
    """The price of a choice among models: its `cost` as one charge, and the loss of each part by name."""

    cost: Loss
    parts: tuple[tuple[str, Loss], ...]

    def __str__(self) -> str:
        lines = [f"cost: {self.cost.describe()}, by one charge, of which"]
        return "\n".join([*lines, *(f"  {name}: {loss.describe()}" for name, loss in self.parts)])


@dataclass(frozen=True)
class ModelChoice:
    """The model that predicts held-out units best, by noisy scores: its place and name among the candidates, and the model."""

    place: int
    name: str
    model: Any
    candidates: tuple[str, ...]

    @property
    def cost(self) -> Loss:
        """What all fits and the choice cost together."""
        cost: Loss = self.model.cost
        return cost

    @property
    def held_out(self) -> Any:
        """How well the model predicts the held-out units."""
        return self.model.held_out

    def __repr__(self) -> str:
        return f"<{self.name}, chosen among {len(self.candidates)}: {self.model!r}>"


def choose(candidates: Sequence[Any], table: Any, *, validate: int, **arguments: Any) -> ModelChoice:
    """Return the candidate that predicts best the units that are held out, one in `validate`, by report noisy max.

    A candidate is a model's name, or (name, its own arguments); `arguments` are those that they share: y, x and the loss. All
    are fitted to the other units, for equal parts of 85% of the loss; 10% chooses by the number of held-out rows that are
    predicted right, or, of numbers, by how near predictions are, in tenths of the declared range of y; 5% scores the winner.
    Where some candidates have `weights`, the same for all that do, held-out rows count by them in the scores of all.
    The units of the two parts are disjoint, by a public hash; a row moves a score by 1 at most, whatever the model.
    (Report noisy max: Dwork and Roth 2014, section 3.3.)

    All fits, the choice and the score are one charge, priced as a whole before it: raises UnknownName, QuestionRefused,
    DeclarationError or BudgetExhausted before anything is spent, ChargedError where anything fails after it.
    """
    choice = _prepare_choice(candidates, table, validate, arguments)
    check_covered(table, choice.loss)
    (place, model), release = table.adapt_parts(
        choice.run, parts=choice.parts, describe=choice.words, record=choice.record
    )
    names = tuple(name for name, _ in choice.named)
    return ModelChoice(place, names[place], _charged_as(model, release), names)


def plan_choice(candidates: Sequence[Any], table: Any, *, validate: int, **arguments: Any) -> ChoicePlan:
    """Return what `choose` with these arguments would cost, as a whole and by its parts; spends nothing.

    Raises what `choose` raises before anything is spent, but BudgetExhausted.
    """
    choice = _prepare_choice(candidates, table, validate, arguments)
    plan = table.plan_parts(choice.parts, describe=choice.words)
    return ChoicePlan(plan.cost, tuple((part.name, part.loss) for part in choice.parts))


@dataclass(frozen=True)
class _Choice:
    """A choice as it was asked for: the candidates with their arguments, and the parts of its charge."""

    table: Any
    named: tuple[tuple[str, dict[str, Any]], ...]
    validate: int
    loss: LossArguments
    weights: str | None

    @property
    def words(self) -> str:
        """What is done, in words."""
        names = ", ".join(name for name, _ in self.named)
        return f"a choice among {names}, which predict {self.named[0][1].get('y')}, by one unit in {self.validate}"

    @property
    def parts(self) -> tuple[ChargePart, ...]:
        """The fits, the choice and the score, as parts of one charge."""
        each = read_loss(**self._loss_of_each)
        choosing = read_loss(**take_part(self.loss, CHOOSING))
        fits = zip(self.named, self._fits, strict=True)
        return (
            *(ChargePart(f"the fit of {name}", each, fit) for (name, _), fit in fits),
            ChargePart("the choice", choosing, lambda table: self._choose(table, ())),
            _score_part(self.loss, SCORING - CHOOSING),
        )

    @property
    def _loss_of_each(self) -> LossArguments:
        return take_part(self.loss, (1 - SCORING) / len(self.named))

    @property
    def _fits(self) -> list[Callable[[Any], Any]]:
        return [_fit_to_others(load_fit(name), self.validate, self._loss_of_each, own) for name, own in self.named]

    def run(self, tables: Sequence[Any]) -> tuple[int, Any]:
        """Fit all candidates, choose one and score it, each on its part of the charge; return its place and the model."""
        *fitted, chosen, scored = tables
        models = [fit(table) for fit, table in zip(self._fits, fitted, strict=True)]
        scores = {}
        for place, model in enumerate(models):
            with contextlib.suppress(QuestionRefused):
                score = _score_row(model, self.table.domain, self.weights)
                score.parts(self.table.domain, self.table.neighbors)
                scores[place] = score
        names = ", ".join(name for name, _ in self.named)
        note = f"chosen among {names} by one unit in {self.validate}, for {_percent(SCORING)} of the loss"
        if len(scores) < len(self.named):
            note += "; those whose predictions are no question took no part"
        place = 0
        if len(scores) > 1:
            try:
                place = list(scores)[self._choose(chosen, tuple(scores.values()))]
            except QuestionRefused:
                # The fits are paid: one of them is better than none.
                note += "; this engine cannot ask how right they are, so the first was taken"
        return place, add_scores(models[place], scored, self.validate, note, weights=self.weights)

    def _choose(self, table: Any, scores: Sequence[RowScore]) -> int:
        """Return the place of about the largest score, counted over the held-out units."""
        loss: Any = read_loss(**take_part(self.loss, CHOOSING)).amounts()
        held = take_fold(table, self.validate, others=False)
        place, _ = held.adapt(
            lambda data: int(data.select(scores, data.loss).value),
            describe=f"a choice among {len(self.named)} models",
            **loss,
        )
        return int(place)

    def record(self, chosen: tuple[int, Any]) -> ReleaseContent:
        """Return what the ledger keeps: which candidate was chosen, and what its card says."""
        place, model = chosen
        return replace(_record_model(model), chosen=(("model", Fraction(place)),))


def _prepare_choice(candidates: Any, table: Any, validate: int, arguments: Mapping[str, Any]) -> _Choice:
    """Return a choice whose arguments go together; raises what `choose` raises before a charge, but BudgetExhausted."""
    check_folds(validate)
    shared = dict(arguments)
    loss: Any = {name: shared.pop(name) for name in LOSS_ARGUMENTS if name in shared}
    read_loss(**loss)
    named = [_read_candidate(candidate, shared) for candidate in _check_several(candidates)]
    unknown = next((key for key in shared if all(key not in arguments_of(name) for name, _ in named)), None)
    if unknown is not None:
        raise DeclarationError(f"{arg(f'{unknown}=')} goes with none of the candidates: leave it out")
    domain_of(table)
    if len({str(own.get("y")) for _, own in named}) > 1:
        raise DeclarationError("is the same for all candidates", key="y")
    weights = _shared_weights(named)
    take_fold(table, validate, others=True)
    for name, own in named:
        check_arguments(name, [key for key, value in own.items() if value is not None])
    return _Choice(table, tuple(named), validate, loss, weights)


def _shared_weights(named: Sequence[tuple[str, Mapping[str, Any]]]) -> str | None:
    """Return the column by which held-out rows count in the scores of all candidates; raises DeclarationError for two."""
    names = {own.get("weights") for _, own in named} - {None}
    if len(names) > 1:
        raise DeclarationError("is the same for all candidates that have it: rows count by one number", key="weights")
    weights: str | None = names.pop() if names else None
    return weights


def _check_several(candidates: Any) -> Sequence[Any]:
    if isinstance(candidates, str) or not isinstance(candidates, Sequence) or len(candidates) < 2:
        raise DeclarationError(
            'is a list of two models or more: ["naive_bayes", ("decision_tree", {"depth": 4})]', key="candidates"
        )
    return candidates


def _read_candidate(candidate: Any, shared: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the name of a candidate, and its own arguments with those shared ones that it takes."""
    is_pair = isinstance(candidate, (tuple, list)) and len(candidate) == 2 and isinstance(candidate[1], Mapping)
    if not isinstance(candidate, str) and not is_pair:
        raise DeclarationError(
            f'holds names of models, or (name, its arguments) as ("decision_tree", {{"depth": 4}}), not {candidate!r:.60}',
            key="candidates",
        )
    name, own = (candidate, {}) if isinstance(candidate, str) else candidate
    require_model(name)
    takes = arguments_of(name)
    if "y" not in takes:
        raise DeclarationError(f"{name} predicts nothing, and a choice is among models of one column", key="candidates")
    own = {**{key: value for key, value in shared.items() if key in takes}, **own}
    return name, own


def _score_row(model: Any, domain: Any, weights: str | None) -> RowScore:
    """Return what a row adds to a model's score: 1 where its class is predicted, or how near the prediction of a number is.

    With weights it adds as much of that as its weight is of the upper declared bound, in steps.
    """
    weight = "" if weights is None else f" * {quote_name(weights)} * {1 / float(domain[weights].upper)!r}"
    if getattr(model, "classes", ()):
        right = _is_right(model)
        if weights is None:
            return RowScore(_read_node(right, domain, condition=True))
        return RowScore(_read_node(f"CASE WHEN {right} THEN FLOOR({_STEPS}{weight}) ELSE 0 END", domain), _STEPS)
    column = domain[model.y]
    far = float(column.upper - column.lower) * float(_FAR)
    near = f"1 - LEAST(ABS({quote_name(model.y)} - ({model.to_sql()})) * {1 / far!r}, 1)"
    return RowScore(_read_node(f"FLOOR({_STEPS} * ({near}){weight})", domain), _STEPS)
