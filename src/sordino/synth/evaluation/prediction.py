"""A score of prediction: train a scorecard on synthetic rows, count how many rows of the table it gets right.

The scorecard adds whole points, one for each column, so that the count of hits is one question of a table. It sees the
model, synthetic rows and counts; it may not know a curator, an engine or a file.
"""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.ask.queries.aggregation import Aggregation
from sordino.ask.queries.build import Selection, count
from sordino.ask.queries.expressions.cases import when
from sordino.ask.queries.expressions.compile import bind_number
from sordino.ask.queries.expressions.expr import Expr, col
from sordino.ask.queries.expressions.nodes import Name
from sordino.core.domain import Date, DateTime
from sordino.core.errors import QuestionRefused
from sordino.core.estimates.weighted_sum import normal_quantile
from sordino.core.time_zones import EPOCH, local_time
from sordino.synth.encoded_column import label_of
from sordino.synth.evaluation.figure import CONFIDENCE, Figure, round_up
from sordino.synth.evaluation.linear_models import fit_logistic
from sordino.synth.expression_eval import column_cells, evaluate_condition, names_in

if TYPE_CHECKING:
    from sordino.core.release import Release
    from sordino.synth.encoded_column import Codes, EncodedColumn, Floats
    from sordino.synth.model import Model

# Groups of keys of each column.
_GROUPS = 6
# Points to one unit of log odds.
_PER_POINT = 8.0
# Bands of the score that rows are counted by.
_BANDS = 6
_ROWS = 40_000
_RIDGE = 3.0


@dataclass(frozen=True, slots=True)
class Scorecard:
    """A scorecard for a condition: for each column the group of each key, and the points of each group; and a start."""

    condition: Expr
    columns: tuple[int, ...]
    groups: tuple[Codes, ...]
    points: tuple[tuple[int, ...], ...]
    start: int

    def guesses(self, keys: Sequence[Codes]) -> Any:
        """Return which rows the card takes to meet the condition; a dropped cell (-1) has no points."""
        return self.scores(keys) > 0

    def scores(self, keys: Sequence[Codes]) -> Codes:
        """Return the points of each row; a dropped cell (-1) has none."""
        total = np.full(len(keys[0]), self.start, dtype=np.int64)
        for column, group, points in zip(self.columns, self.groups, self.points, strict=True):
            points_by_key = np.append(np.asarray(points, dtype=np.int64)[group], 0)
            total += points_by_key[keys[column]]
        return total


@dataclass(frozen=True, slots=True)
class ConfusionMatrix:
    """Counts of rows by guess and truth: [guessed no, yes][is not, is], and the variance of the noise in each."""

    cells: tuple[tuple[float, float], tuple[float, float]]
    variance: float

    @property
    def accuracy(self) -> float:
        """The share of rows guessed right."""
        whole = sum(map(sum, self.cells))
        return min(max((self.cells[0][0] + self.cells[1][1]) / whole, 0.0), 1.0) if whole > 0 else math.nan

    @property
    def base(self) -> float:
        """The share that is right if everyone is guessed to be of the larger side."""
        whole = sum(map(sum, self.cells))
        sides = [self.cells[0][side] + self.cells[1][side] for side in (0, 1)]
        return min(max(max(sides) / whole, 0.0), 1.0) if whole > 0 else math.nan

    @property
    def right(self) -> Figure:
        """The accuracy with the reach of its noise."""
        return Figure(self.accuracy, self.error(normal_quantile(CONFIDENCE)))

    @property
    def right_by_the_larger_side(self) -> Figure:
        """The base with the reach of its noise, that of an accuracy of the same share."""
        return Figure(self.base, self.error(normal_quantile(CONFIDENCE), of=self.base))

    def error(self, reach: float, *, of: float | None = None) -> float:
        """Return the error of the accuracy, or `of` another share, from the noise, `reach` deviations.

        The noise is of the rows that are counted, and of all rows, which they are a share of.
        """
        whole = sum(map(sum, self.cells))
        a = self.accuracy if of is None else of
        return reach * math.sqrt(2.0 * self.variance * ((1 - a) ** 2 + a**2)) / whole if whole > 0 else math.inf


@dataclass(frozen=True, slots=True)
class Ranking:
    """Counts of rows by bands of the score, from low to high: of those that meet the condition, and of those that do not.

    `auc` is the chance that a row that meets it has a higher score than one that does not, bands that are the same counting
    one half. `variance` is that of the noise in each count.
    """

    met: tuple[float, ...]
    unmet: tuple[float, ...]
    variance: float = 0.0

    @property
    def advantage(self) -> Figure:
        """The AUC less the half that chance alone has, with its reach by the first order of the noise."""
        met = np.asarray(self.met)
        unmet = np.asarray(self.unmet)
        whole = float(met.sum()), float(unmet.sum())
        least = 4.0 * math.sqrt(self.variance * len(met))
        if min(whole) <= max(least, 0.0):
            return Figure(math.nan, math.inf, cap=0.5)
        above_unmet = (np.cumsum(unmet) - unmet / 2.0) / whole[1]
        below_met = 1.0 - (np.cumsum(met) - met / 2.0) / whole[0]
        auc = float(met @ above_unmet) / whole[0]
        slopes = np.concatenate([(above_unmet - auc) / whole[0], (below_met - auc) / whole[1]])
        deviation = math.sqrt(self.variance * float(np.square(slopes).sum()))
        return Figure(auc - 0.5, normal_quantile(CONFIDENCE) * deviation, cap=0.5)

    def text(self) -> str:
        """Return the AUC, or that the noise hides whether it is better than chance."""
        advantage = self.advantage
        if advantage.shown is None:
            return f"no better than chance by what the noise shows (at most {round_up(0.5 + advantage.most, 2)})"
        return f"{0.5 + advantage.shown:.3f}"

    def to_dict(self) -> dict[str, Any]:
        """Return the AUC as JSON data."""
        plain = self.advantage.to_dict()
        return {
            "value": None if plain["value"] is None else 0.5 + plain["value"],
            "error95": plain["error95"],
            "at_most": None if plain["at_most"] is None else 0.5 + plain["at_most"],
        }


def train_scorecard(model: Model, condition: Expr, keys: Sequence[Codes]) -> Scorecard:
    """Return the scorecard that logistic regression learns from rows given by their keys, all other columns its features."""
    used = set(names_in(condition.node))
    if not used <= set(model.columns):
        raise QuestionRefused(f"the model has no column {sorted(used - set(model.columns))[0]!r}")
    columns = tuple(i for i, c in enumerate(model.parts.columns) if c.name not in used and c.size > 1)
    if not columns:
        raise QuestionRefused("nothing is left to predict from: the condition names every column of the model")
    keys = [k[:_ROWS] for k in keys]
    truth = satisfies(model, condition, keys)
    if not 0 < int(truth.sum()) < len(truth):
        raise QuestionRefused("the rows to learn from are all on one side of the condition: predict something else")
    groups = tuple(_group_keys(model.parts.columns[c], keys[c], truth) for c in columns)
    weights = _logistic(
        [g[keys[c]] for c, g in zip(columns, groups, strict=True)], [int(g.max()) + 1 for g in groups], truth
    )
    points = tuple(tuple(round(float(w) * _PER_POINT) for w in column_weights) for column_weights in weights[1:])
    return Scorecard(condition, columns, groups, points, round(float(weights[0][0]) * _PER_POINT))


def satisfies(model: Model, condition: Expr, keys: Sequence[Codes]) -> Any:
    """Return which rows, given by keys, meet a condition; one that a run meets in part counts where most of it does."""
    cells = {
        c.name: column_cells(c, np.maximum(k, 0))
        for c, k in zip(model.parts.columns, keys, strict=True)
        if c.name in names_in(condition.node)
    }
    return np.broadcast_to(evaluate_condition(condition.node, cells)[0], (len(keys[0]),)) >= 0.5


def count_hits(card: Scorecard, model: Model, keys: Sequence[Codes]) -> ConfusionMatrix:
    """Return the exact counts over rows given by keys: free for synthetic rows, NOT PRIVATE for others."""
    complete = np.all([keys[i] >= 0 for i, n in enumerate(model.columns) if n in names_in(card.condition.node)], axis=0)
    guess = card.guesses(keys)
    truth = satisfies(model, card.condition, keys) & complete
    cells = [[float(np.sum((guess == g) & (truth == t))) for t in (False, True)] for g in (False, True)]
    return ConfusionMatrix(((cells[0][0], cells[0][1]), (cells[1][0], cells[1][1])), 0.0)


def hits_question(card: Scorecard, model: Model) -> Aggregation:
    """Return the question that counts rows by guess and truth: a row is in one cell of four."""
    guess = when(_total(card, model) > -card.start, "yes").otherwise("no")
    truth = when(card.condition, "yes").otherwise("no")
    return Selection().group_by(guess, truth).agg(count())


def score_bands(card: Scorecard, keys: Sequence[Codes]) -> tuple[int, ...]:
    """Return the scores at which bands of about equal numbers of synthetic rows begin, but the first."""
    scores = np.sort(card.scores(keys))
    return tuple(sorted({int(scores[len(scores) * i // _BANDS]) for i in range(1, _BANDS)} - {int(scores[0])}))


def count_ranking(card: Scorecard, bands: Sequence[int], model: Model, keys: Sequence[Codes]) -> Ranking:
    """Return the exact counts over rows given by keys: free for synthetic rows, NOT PRIVATE for others."""
    complete = np.all([keys[i] >= 0 for i, n in enumerate(model.columns) if n in names_in(card.condition.node)], axis=0)
    band = np.searchsorted(np.asarray(bands, dtype=np.int64), card.scores(keys), side="right")
    truth = satisfies(model, card.condition, keys) & complete
    met, unmet = (np.bincount(band[rows], minlength=len(bands) + 1) for rows in (truth, ~truth))
    return Ranking(tuple(met.astype(np.float64).tolist()), tuple(unmet.astype(np.float64).tolist()))


def ranking_question(card: Scorecard, bands: Sequence[int], model: Model) -> Aggregation:
    """Return the question that counts rows by band of the score and truth: a row is in one cell."""
    total = _total(card, model)
    band: Any = str(len(bands))
    for i, least in reversed(list(enumerate(bands))):
        band = when(total < least - card.start, str(i)).otherwise(band)
    if not bands:
        # A score that is the same for all synthetic rows has one band: text alone would name a column.
        band = when(card.condition, "0").otherwise("0")
    truth = when(card.condition, "yes").otherwise("no")
    return Selection().group_by(band, truth).agg(count())


def ranking_from_release(made: Release, bands: int) -> Ranking:
    """Return the noisy counts of a released question of ranks, by the labels of its rows."""
    estimate: Any = made.outputs[0].estimate
    unit = float(estimate.unit)
    counts = {
        (band, truth): float(step) * unit
        for band, truth, step in zip(made.keys[0].labels, made.keys[1].labels, estimate.steps, strict=True)
    }
    met, unmet = (tuple(counts.get((str(i), truth), 0.0) for i in range(bands + 1)) for truth in ("yes", "no"))
    return Ranking(met, unmet, float(estimate.law.variance()) * unit**2)


def hits_from_release(made: Release) -> ConfusionMatrix:
    """Return the noisy counts of a released question of hits, by the labels of its rows."""
    estimate: Any = made.outputs[0].estimate
    values = {
        (guess, truth): float(step) * float(estimate.unit)
        for guess, truth, step in zip(made.keys[0].labels, made.keys[1].labels, estimate.steps, strict=True)
    }
    # A guess that no declared row can get has no row in the answer: its count is 0.
    no, yes = ((values.get((guess, "no"), 0.0), values.get((guess, "yes"), 0.0)) for guess in ("no", "yes"))
    return ConfusionMatrix((no, yes), float(estimate.law.variance()) * float(estimate.unit) ** 2)


def _total(card: Scorecard, model: Model) -> Any:
    """Return the points of all columns, without the start, as an expression."""
    parts = zip(card.columns, card.groups, card.points, strict=True)
    return _sum([_points(model, column, groups, points) for column, groups, points in parts])


def _points(model: Model, column: int, groups: Codes, points: Sequence[int]) -> Any:
    """Return the points of one column as an expression."""
    keyed = model.parts.columns[column]
    of = col(keyed.name)
    size = keyed.size - keyed.missing
    missing = int(points[int(groups[-1])]) if keyed.missing else 0
    if not keyed.ordered:
        by_points: dict[int, list[Any]] = {}
        for key in range(size):
            by_points.setdefault(int(points[int(groups[key])]), []).append(label_of(keyed, key))
        expression: Any = missing
        for value, labels in by_points.items():
            inside = of == labels[0] if len(labels) == 1 else of.is_in(labels)
            expression = when(inside, value).otherwise(expression)
        return expression
    cuts = [k for k in range(1, size) if groups[k] != groups[k - 1]]
    expression = int(points[int(groups[size - 1])])
    for cut in reversed(cuts):
        expression = when(of < _value(model, keyed, cut), int(points[int(groups[cut - 1])])).otherwise(expression)
    return when(of.is_null(), missing).otherwise(expression)


def _value(model: Model, keyed: EncodedColumn, key: int) -> Any:
    """Return the least value of an ordered key, exactly."""
    of = bind_number(Name(keyed.name), model.parts.domain)
    step = int(of.interval.lower or 0) + key if keyed.edges is None else keyed.edges[key]
    if isinstance(keyed.column, DateTime):
        return local_time(step * of.unit, keyed.column.zone)
    if isinstance(keyed.column, Date):
        return EPOCH + datetime.timedelta(days=step)
    exact = Fraction(step) * of.unit
    return int(exact) if exact.denominator == 1 else exact


def _sum(terms: Sequence[Any]) -> Any:
    """Return the sum as a balanced tree, so that it is not deep."""
    if len(terms) == 1:
        return terms[0]
    middle = len(terms) // 2
    return _sum(terms[:middle]) + _sum(terms[middle:])


def _group_keys(keyed: EncodedColumn, keys: Codes, truth: Any) -> Codes:
    """Return the group of each key: runs of about equal mass of an ordered column, else keys of like odds; missing last."""
    size = keyed.size - keyed.missing
    mass = np.bincount(keys, minlength=keyed.size)[:size] + 1e-9
    order = np.arange(size)
    if not keyed.ordered:
        yes = np.bincount(keys[truth], minlength=keyed.size)[:size]
        order = np.argsort((yes + 0.5) / (mass + 1.0), kind="stable")
    sorted_mass = mass[order]
    middle = (np.cumsum(sorted_mass) - sorted_mass / 2.0) / sorted_mass.sum()
    raw = np.maximum.accumulate(np.minimum((middle * _GROUPS).astype(np.int64), _GROUPS - 1))
    groups = np.zeros(size, dtype=np.int64)
    groups[order] = np.unique(raw, return_inverse=True)[1].ravel()
    return np.append(groups, groups.max() + 1) if keyed.missing else groups


def _logistic(codes: Sequence[Codes], sizes: Sequence[int], truth: Any) -> list[Floats]:
    """Return the start and the weight of each group of each column, by Newton's method with a ridge."""
    rows = len(truth)
    design = np.zeros((rows, 1 + sum(sizes)), dtype=np.float64)
    design[:, 0] = 1.0
    starts = np.cumsum([1, *sizes])
    for start, code in zip(starts, codes, strict=False):
        design[np.arange(rows), start + code] = 1.0
    weights = fit_logistic(design, truth, _RIDGE)
    return [weights[:1], *(weights[a:b] for a, b in itertools.pairwise(starts))]
