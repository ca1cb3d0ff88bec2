"""Evaluation: how far synthetic rows lie from a table - privately, through a Queryable, or openly, and then it says so.

All that is asked is fixed before anything is charged, and the whole is one charge whose parts add up to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np

from sordino.ask.engines.readers.raw import load_rows
from sordino.ask.queries.expressions.expr import Expr
from sordino.ask.queries.expressions.nodes import describe
from sordino.ask.queries.queryable import Adaptive, Queryable, ReleaseContent
from sordino.core.domain import Boolean
from sordino.core.errors import DeclarationError, QuestionRefused, arg
from sordino.core.loss import LossArguments, show_arguments
from sordino.core.noise.rng import Rng
from sordino.core.source import Csv
from sordino.synth.condition_text import parse_condition
from sordino.synth.encoded_column import Codes, encode_table
from sordino.synth.evaluation.correlations import CorrelatedColumn, compare_correlations, correlated_columns
from sordino.synth.evaluation.cuts import encode_steps
from sordino.synth.evaluation.distances import Distance, choose_sets, exact_distances, release_distances
from sordino.synth.evaluation.distributions import SteppedColumn, compare_distributions, ordered_columns
from sordino.synth.evaluation.evaluation import ColumnCounts, Evaluation, Prediction
from sordino.synth.evaluation.heap_shares import compare_heaps, heaping_columns
from sordino.synth.evaluation.prediction import (
    ConfusionMatrix,
    Ranking,
    Scorecard,
    count_hits,
    count_ranking,
    hits_from_release,
    hits_question,
    ranking_from_release,
    ranking_question,
    satisfies,
    score_bands,
    train_scorecard,
)
from sordino.synth.evaluation.table_counts import Counter, ExactCounter, PrivateCounter
from sordino.synth.evaluation.trained_models import (
    Rows,
    TrainedScore,
    require_trainable,
    score_condition,
    score_number,
)
from sordino.synth.evaluation.violations import (
    RuleCheck,
    Violation,
    check_rules,
    count_violations,
    exact_violations,
    release_violations,
    violations_question,
)
from sordino.synth.evaluation.workload import BoxQuery, evaluate_workload, random_box_queries
from sordino.synth.expression_eval import names_in
from sordino.synth.measurement import split_loss
from sordino.synth.model import Model

if TYPE_CHECKING:
    import pyarrow as pa

    from sordino.synth.rules import Rule

# What each part gets of the loss, beside the others that are asked.
_WEIGHTS = {
    "distances": 5,
    "correlations": 2,
    "distributions": 2,
    "heaps": 1,
    "workload": 2,
    "prediction": 1,
    "ranking": 1,
    "rules": 1,
}
_QUERIES = 24
_PAIRS = 12
_COLUMNS_SHOWN = 12
# The parts that are tables of counts.
_COUNTED = ("correlations", "distributions", "heaps", "workload")


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """What is compared, all of it public: the model, rows drawn from it, and what each part asks.

    `target` is a column of numbers to predict, which is done openly only. `bands` are of the scorecard's AUC.
    """

    model: Model
    keys: Sequence[Codes]
    steps: Sequence[Codes]
    sets: Sequence[tuple[int, ...]]
    correlated: Sequence[CorrelatedColumn] = ()
    ordered: Sequence[SteppedColumn] = ()
    heaping: Sequence[int] = ()
    queries: Sequence[BoxQuery] = ()
    scorecard: Scorecard | None = None
    bands: tuple[int, ...] | None = None
    rules: Sequence[RuleCheck] = ()
    target: str | None = None

    def shares(self) -> dict[str, Fraction]:
        """Return the share of the loss that each part gets: they sum to 1, and a part that is not asked has none."""
        included = {
            "distances": True,
            "correlations": bool(self.correlated),
            "distributions": bool(self.ordered),
            "heaps": bool(self.heaping),
            "workload": bool(self.queries),
            "prediction": self.scorecard is not None,
            "ranking": self.bands is not None,
            "rules": bool(self.rules),
        }
        whole = sum(_WEIGHTS[name] for name, on in included.items() if on)
        return {name: Fraction(_WEIGHTS[name], whole) for name, on in included.items() if on}

    def questions(self) -> list[Any]:
        """Return the questions of the plan that are no tables of counts: a table that refuses one refuses the plan."""
        card = self.scorecard
        return [
            *([] if card is None else [hits_question(card, self.model)]),
            *([] if card is None or self.bands is None else [ranking_question(card, self.bands, self.model)]),
            *map(violations_question, self.rules),
        ]


@show_arguments(LossArguments)
def evaluate(
    model: Model,
    *,
    against: Adaptive | pa.Table | Path | str,
    non_private: bool = False,
    rows: int | None = None,
    rng: Rng | None = None,
    correlations: bool = False,
    workload: Sequence[Sequence[str]] | Literal["pairs"] | None = None,
    predict: Expr | str | None = None,
    distributions: bool = False,
    heaps: bool = False,
    auc: bool = False,
    rules: Sequence[Rule] | bool = False,
    csv: Csv | None = None,
    **loss: Unpack[LossArguments],
) -> Evaluation:
    """Return how far rows drawn from the model lie from a table, over one, two and three columns at a time.

    More parts can be asked: `correlations` by ranks and by values; `distributions`, quantiles and tails of each ordered
    column; `heaps`, how many rows hold round values, of each column that is wider than a code a value; a `workload` of random
    counts over sets of columns ("pairs": twelve random pairs); `predict`, a condition such as "income > 50": how often does a
    scorecard that is trained on synthetic rows predict it right, and with `auc`, how well does its score rank the rows;
    `rules`, those of the model (True) or a list: how many rows break each.

    Against a curator's table all is asked privately and charged once; the parts share the loss 5 (distances) : 2
    (correlations) : 2 (distributions) : 1 (heaps) : 2 (workload) : 1 (predict) : 1 (auc) : 1 (rules), and their losses add up
    to what was charged. A figure that the noise hides is not shown: it says what it is at most. Against an Arrow table, or the
    path of a CSV file (names in its first line, or as `csv` says) or a Parquet file, give `non_private=True`: the figures are
    then exact, and say so; `predict` also trains a logistic regression for a condition (AUC), or a linear one for a column of
    numbers (R2), and boosted trees where scikit-learn is installed. Three-way distances are of 60 random sets at most. Raises
    DeclarationError or QuestionRefused before anything is spent.
    """
    open_rows = not hasattr(against, "adapt")
    if open_rows and (not non_private or any(v is not None for v in loss.values())):
        raise DeclarationError(
            "rows, or a file of them, can be compared with openly only: give non_private=True, without a loss, and publish "
            f"nothing of it; or compare with the curator's table at {arg('epsilon=')}"
        )
    if non_private and not open_rows:
        raise DeclarationError("a curator's table is never compared with openly: leave out non_private, state a loss")
    plan = plan_evaluation(
        model,
        rows=rows,
        rng=rng,
        correlations=correlations,
        workload=workload,
        predict=predict,
        distributions=distributions,
        heaps=heaps,
        auc=auc,
        rules=rules,
    )
    if plan.target is not None and not open_rows:
        raise QuestionRefused(
            f"a column of numbers is predicted openly only, from rows that one may see: predict a condition, such as "
            f'"{plan.target} > 0"'
        )
    if open_rows:
        return _compare_openly(plan, _load(model, against, csv))
    return _compare_privately(plan, against, **loss)


def plan_evaluation(
    model: Model,
    *,
    rows: int | None = None,
    rng: Rng | None = None,
    correlations: bool = False,
    workload: Sequence[Sequence[str]] | Literal["pairs"] | None = None,
    predict: Expr | str | None = None,
    distributions: bool = False,
    heaps: bool = False,
    auc: bool = False,
    rules: Sequence[Rule] | bool = False,
) -> EvaluationPlan:
    """Return what to compare, from public things alone; raises QuestionRefused for what the model cannot be asked."""
    source = Rng.secure() if rng is None else rng
    count = max(model.rows, 1) if rows is None else rows
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise DeclarationError("rows must be a whole number of 1 or more")
    declared = (model.constraints if rules else ()) if isinstance(rules, bool) else rules
    checks = check_rules(declared, model)
    target = (
        predict if isinstance(predict, str) and predict in model.columns and not _is_truth(model, predict) else None
    )
    if target is not None:
        require_trainable(model, target)
    if auc and (predict is None or target is not None):
        raise DeclarationError('auc is of a condition: give predict= one, such as "income > 50"')
    sets = choose_sets(model, source)
    keys, steps = model.draw_rows(count, source)
    queries: list[BoxQuery] = []
    if workload is not None:
        column_sets = _random_pairs(model, source) if workload == "pairs" else [tuple(names) for names in workload]
        if not column_sets:
            raise DeclarationError('workload names sets of columns, such as [("age", "sex")], or is "pairs"')
        queries = random_box_queries(model, column_sets, each=max(1, _QUERIES // len(column_sets)), rng=source)
    condition = None
    if target is None:
        condition = parse_condition(predict, model.columns) if isinstance(predict, str) else predict
    scorecard = None if condition is None else train_scorecard(model, condition, keys)
    return EvaluationPlan(
        model,
        keys,
        steps,
        sets,
        correlated=correlated_columns(model, keys, steps) if correlations else [],
        ordered=ordered_columns(model, keys, steps) if distributions else [],
        heaping=heaping_columns(model) if heaps else [],
        queries=queries,
        scorecard=scorecard,
        bands=score_bands(scorecard, keys) if auc and scorecard is not None else None,
        rules=checks,
        target=target,
    )


def _is_truth(model: Model, name: str) -> bool:
    """Return whether a column is a condition by itself."""
    return isinstance(model.parts.columns[model.columns.index(name)].column, Boolean)


def _compare_openly(plan: EvaluationPlan, table: pa.Table) -> Evaluation:
    """Return the comparison with the rows of a table, NOT PRIVATE."""
    model = plan.model
    card = plan.scorecard
    real = encode_table(table, model.parts.columns)
    distances = exact_distances(model, plan.sets, plan.keys, real)
    counter = ExactCounter(model, real, table)
    evaluation = _count_parts(plan, distances, **dict.fromkeys(_COUNTED, counter))
    if card is not None:
        ranking = None if plan.bands is None else count_ranking(card, plan.bands, model, real)
        prediction = _prediction(plan, card, count_hits(card, model, real), ranking=ranking, original=real)
        evaluation = replace(evaluation, prediction=prediction)
    return replace(
        evaluation,
        cost="NOT PRIVATE: no loss was charged",
        private=False,
        column_counts=_column_counts(plan, real),
        violations=_violations(plan, exact_violations(model, plan.rules, table)),
        trained=_train(plan, table, real),
    )


def _train(plan: EvaluationPlan, table: pa.Table, real: Sequence[Codes]) -> tuple[TrainedScore, ...]:
    """Return how well models that learn from synthetic rows predict, NOT PRIVATE; none where nothing is predicted."""
    model = plan.model
    card = plan.scorecard
    if card is None and plan.target is None:
        return ()
    columns = model.parts.columns
    steps = [encode_steps(table, c)[0] if c.ordered else k for c, k in zip(columns, real, strict=True)]
    synthetic, original = Rows(plan.keys, plan.steps), Rows(real, steps)
    if plan.target is not None:
        return score_number(model, plan.target, synthetic, original)
    assert card is not None
    truths = satisfies(model, card.condition, plan.keys), satisfies(model, card.condition, real)
    node = card.condition.node
    return score_condition(model, describe(node), names_in(node), truths, synthetic, original)


def _violations(plan: EvaluationPlan, originals: Sequence[Any]) -> tuple[Violation, ...]:
    shares = count_violations(plan.model, plan.rules, plan.keys, plan.steps)
    return tuple(Violation(c.rule.describe(), s, o) for c, s, o in zip(plan.rules, shares, originals, strict=True))


def _compare_privately(plan: EvaluationPlan, table: Any, **loss: Unpack[LossArguments]) -> Evaluation:
    """Return the comparison with a declared table, charged once."""
    model = plan.model
    for name in model.columns:
        if table.domain[name] != model.parts.domain[name]:
            raise DeclarationError(
                f"column {name!r} is declared otherwise than when the model was fitted: compare with the table it is of"
            )
    # A question that the table refuses is refused now rather than after the charge.
    for question in plan.questions() if hasattr(table, "plan") else ():
        table.plan(question, **loss)
    count = len(model.columns)
    evaluation: Evaluation
    evaluation, release = table.adapt(
        lambda data: release_figures(plan, data),
        describe=f"an evaluation of a synthetic table of {count} column{'s' * (count != 1)}",
        record=lambda figures: ReleaseContent(notes=figures.notes()),
        # A scorecard's hits are a question, and so are the rows that break a rule.
        draws="any" if plan.questions() else "vectors",
        **loss,
    )
    seal = "" if release.private else "NOT PRIVATE (seeded noise), "
    return replace(evaluation, cost=f"{seal}cost {release.cost.describe()}", private=release.private, release=release)


def release_figures(plan: EvaluationPlan, data: Queryable) -> Evaluation:
    """Return all figures through one Queryable, whose loss the parts share in fixed proportions.

    The shares sum to 1 exactly, so that by composition the whole costs what was charged; nothing else is asked.
    """
    split = split_loss(data.loss, data.neighbors)
    losses = {name: split.loss(share) for name, share in plan.shares().items()}
    counters = {name: PrivateCounter(data, loss) for name, loss in losses.items()}
    distances = release_distances(plan.model, plan.sets, plan.keys, data, losses["distances"])
    evaluation = _count_parts(plan, distances, **{n: counters.get(n) for n in _COUNTED})
    card = plan.scorecard
    if card is not None:
        hits = hits_from_release(data.release(hits_question(card, plan.model), losses["prediction"]))
        ranking = None
        if plan.bands is not None:
            ranks = data.release(ranking_question(card, plan.bands, plan.model), losses["ranking"])
            ranking = ranking_from_release(ranks, len(plan.bands))
        evaluation = replace(evaluation, prediction=_prediction(plan, card, hits, ranking=ranking))
    if plan.rules:
        each = plan.shares()["rules"] / len(plan.rules)
        originals = release_violations(plan.model, plan.rules, data, [split.loss(each) for _ in plan.rules])
        evaluation = replace(evaluation, violations=_violations(plan, originals))
    return replace(evaluation, losses=tuple(losses.items()))


def _count_parts(
    plan: EvaluationPlan,
    distances: tuple[Distance, ...],
    *,
    correlations: Counter | None,
    distributions: Counter | None,
    heaps: Counter | None,
    workload: Counter | None,
) -> Evaluation:
    """Return the distances, and the parts that are asked of counters; a part that is not planned needs none."""
    evaluation = Evaluation(
        distances,
        cost="",
        private=True,
        rows=len(plan.keys[0]),
        distributions=compare_distributions(plan.model, plan.ordered, distributions)
        if plan.ordered and distributions
        else (),
        heaps=compare_heaps(plan.model, plan.heaping, plan.keys, plan.steps, heaps) if plan.heaping and heaps else (),
        workload=evaluate_workload(plan.model, plan.queries, workload) if plan.queries and workload else None,
    )
    if not plan.correlated or correlations is None:
        return evaluation
    spearman, pearson, pairs = compare_correlations(plan.model, plan.correlated, correlations)
    return replace(evaluation, correlations=spearman, pearson=pearson, pairs=pairs)


def _prediction(
    plan: EvaluationPlan,
    card: Scorecard,
    hits: ConfusionMatrix,
    *,
    ranking: Ranking | None = None,
    original: Sequence[Codes] | None = None,
) -> Prediction:
    """Return how often the card is right; with the original's keys, also what a card that learned from them could do."""
    synthetic_hits = count_hits(card, plan.model, plan.keys)
    reference = None if original is None else _train_on_half(plan.model, card, original)
    own = None if plan.bands is None else count_ranking(card, plan.bands, plan.model, plan.keys)
    return Prediction(describe(card.condition.node), hits, synthetic_hits, reference, ranking, own)


def _load(model: Model, against: Any, csv: Csv | None) -> pa.Table:
    if not isinstance(against, (str, Path)):
        return against
    return load_rows(against, model.parts.domain, csv)


def _random_pairs(model: Model, rng: Rng) -> list[tuple[str, ...]]:
    """Return at most twelve random pairs of columns, or the one column there is."""
    names = model.columns
    pool: list[tuple[str, ...]] = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]] or [(names[0],)]
    pairs: list[tuple[str, ...]] = []
    while pool and len(pairs) < _PAIRS:
        pairs.append(pool.pop(rng.below(len(pool))))
    return sorted(pairs)


def _train_on_half(model: Model, card: Scorecard, keys: Sequence[Codes]) -> ConfusionMatrix | None:
    """Return the hits, on one half of the rows, of a card trained on the other: what the table itself could do."""
    whole = [k.clip(min=0) for k in keys]
    try:
        reference = train_scorecard(model, card.condition, [k[0::2] for k in whole])
    except QuestionRefused:
        return None
    return count_hits(reference, model, [k[1::2] for k in keys])


def _column_counts(plan: EvaluationPlan, real: Sequence[Codes]) -> tuple[ColumnCounts, ...]:
    """Return, for the first twelve columns, the counts of the original and of the synthetic rows, scaled to as many."""
    counts: list[ColumnCounts] = []
    for i, column in list(enumerate(plan.model.parts.columns))[:_COLUMNS_SHOWN]:
        original, synthetic = (np.bincount(k[k >= 0], minlength=column.size) for k in (real[i], plan.keys[i]))
        scaled = synthetic * (original.sum() / max(int(synthetic.sum()), 1))
        counts.append(ColumnCounts(i, tuple(original.tolist()), tuple(scaled.tolist())))
    return tuple(counts)
