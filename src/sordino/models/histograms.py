"""Boosted histograms: a prediction that is a sum of one step function a column, each drawn with the interval of its noise.

An explainable boosting machine (Lou, Caruana, Gehrke 2012) under differential privacy (Nori, Caruana, Bu, Shen, Kulkarni 2021).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Unpack

import numpy as np

from sordino.ask.queries.adaptive.marginal import Axis, ContingencyTable, MarginalQuery
from sordino.ask.queries.aggregation import Grouping
from sordino.ask.queries.bin_counts import BinCounts
from sordino.ask.queries.expressions.bound_number import BoundNumber
from sordino.ask.queries.expressions.compile import bind_number
from sordino.ask.queries.expressions.nodes import Bin, Clip, Name
from sordino.ask.queries.gradient_vector import (
    COEFFICIENT,
    ERROR,
    MOST_COEFFICIENT,
    GradientVector,
    SteppedRegression,
    compile_steps,
)
from sordino.ask.queries.moment_matrix import PARTS, FirstLook, Frame, MomentMatrix, MomentVector, compile_moments
from sordino.ask.queries.queryable import Adaptive, Queryable, ReleaseContent
from sordino.core.domain import Boolean, Category, Column, Domain
from sordino.core.errors import DeclarationError, QuestionRefused, UnknownName, nearest
from sordino.core.estimates.noisy import Noisy
from sordino.core.estimates.weighted_sum import normal_quantile
from sordino.core.loss import LossArguments, PureDP, read_loss, show_arguments
from sordino.models.bin_look import SURE_BINS, choose_bins, find_spreads
from sordino.models.classification import pick_classes
from sordino.models.columns import (
    Floats,
    Predictors,
    check_rows,
    declared_values,
    domain_of,
    groups_of,
    note_rows,
    read_codes,
    read_frame,
    read_numbers,
    read_predictors,
    require_column,
    require_range,
)
from sordino.models.design import soften
from sordino.models.moments import LOOK, PreparedMoments, moments_of, take_share
from sordino.models.record import PricedModel, Provenance, is_value, provenance_of, quote_name, require_fit

# Bins of a number as they are counted first, and the most that are told apart once they are joined: fewer of many columns, whose
# pairs are counted too.
FINE_BINS = 512
_MOST_BINS = 32
_MOST_TOGETHER = 400
# A bin has this part of the rows or more, so many deviations of the noise of its count, and of a gradient.
_LEAST_SHARE = 1 / 64
_ABOVE_NOISE = 4.0
_ABOVE_GRADIENT = 2.0
# Each gradient is a scan. More have more noise each: three were best of three, four and six on the census rows of Adult.
ROUNDS = 3
# The shares of the loss that find the bins, and how columns go together; sums of absolute values cost more there.
_BINS = Fraction(2, 25)
_PAIRS = {"pure": Fraction(3, 10), "rho": Fraction(1, 5)}
# Up to this pure epsilon rows are counted by their class first, for so much of the loss. Where the counts of pairs would have
# noise of that part of the rows, there are none: so much of the rest finds where numbers lie, each is cut into so many bins as
# equal as that says, and two rounds go along the curvature of columns that do not go together, times what those that do would
# add.
_SMALL_EPSILON = Fraction(1, 2)
_CLASSES = Fraction(1, 20)
_FAINT = 0.06
_PLACES = Fraction(1, 4)
_ROUGH_BINS = 6
_TOGETHER = 2.0
# Errors of the second of these rounds are cut there, as few rows are so wrong.
_CUT = Fraction(4, 5)
# How far neighboring bins, and values of a category, may lie apart in log odds, or in deviations of a number.
_STEP_SCALES = (0.05, 0.15, 0.4, 1.0)
_VALUE_SCALES = (0.1, 0.3, 1.0)
# Errors of numbers are cut at so many of their deviations.
_ERROR_SPREADS = 4.0
# The mean of p (1 - p), as a part of that at a bin's mean probability, before two gradients say it; and its range.
_CURVATURE = 0.7
_CURVATURES = (0.3, 1.0)
_MOST_SCORE = 500.0
# Coefficients on the ledger are whole numbers of these parts.
_RECORDED = 1 << 20


@dataclass(frozen=True, slots=True)
class Shape:
    """What one column adds to a prediction, by its bins or declared values: `values` (bins,), 0 in the mean over the rows.

    `edges` (bins + 1,) cut a number; none of a category, whose values stand in declared order. `errors` (bins,) are the
    deviations of what is not known for the noise.
    """

    column: str
    edges: Floats
    values: Floats
    errors: Floats

    @property
    def is_number(self) -> bool:
        """Whether the column is cut into bins."""
        return len(self.edges) > 0


@dataclass(frozen=True, repr=False)
class HistogramsModel(PricedModel):
    """Boosted histograms of `y`, of two classes or a number: `intercept` plus the value of each column's shape.

    The sum is the log of the odds of the second class, or the number itself.
    """

    y: str
    target: Column
    predictors: Predictors
    intercept: float
    shapes: tuple[Shape, ...]
    provenance: Provenance

    @property
    def classes(self) -> tuple[Any, ...]:
        """The declared values of y, in order; none where it is a number."""
        return tuple(declared_values(self.target)) if isinstance(self.target, (Category, Boolean)) else ()

    def shape(self, column: str) -> Shape:
        """Return what a column adds; raises UnknownName for a column that the model does not have."""
        for shape in self.shapes:
            if shape.column == column:
                return shape
        raise UnknownName(
            f"no column {column!r:.40} in the model; {nearest(str(column), [s.column for s in self.shapes])}"
        )

    def labels(self, column: str) -> list[str]:
        """Return the bins of a column in words, or its declared values."""
        shape = self.shape(column)
        if shape.is_number:
            bins = [f"{low:.6g} to {high:.6g}" for low, high in itertools.pairwise(shape.edges)]
            return bins + ["(missing)"] * (len(shape.values) - len(bins))
        labels = declared_values(dict(self.predictors.declared)[column])
        return ["(missing)" if label is None else str(label) for label in labels]

    def interval(self, column: str, *, confidence: float = 0.95, of: str = "noise") -> tuple[Floats, Floats]:
        """Return the ends, each (bins,), of what a column adds in the same model without noise.

        They hold for `confidence` of the bins of a shape in the mean (Nychka 1988). Raises DeclarationError for another `of`.
        """
        if of != "noise":
            raise DeclarationError("is noise: what the rows vary by as a sample is not estimated for shapes", key="of")
        if not 0 < confidence < 1:
            raise DeclarationError("lies between 0 and 1, such as 0.95", key="confidence")
        shape = self.shape(column)
        margin = normal_quantile(confidence) * shape.errors
        return shape.values - margin, shape.values + margin

    def predict_proba(self, frame: Any) -> Floats:
        """Return the probability of both classes: (rows, 2). A missing cell adds nothing. Raises QuestionRefused for a number."""
        if not self.classes:
            raise QuestionRefused(f"{self.y!r} is a number: use predict(frame)")
        likely = 1.0 / (1.0 + np.exp(-np.clip(self._scores_of(frame), -_MOST_SCORE, _MOST_SCORE)))
        result: Floats = np.column_stack([1.0 - likely, likely])
        return result

    def predict(self, frame: Any) -> np.ndarray[Any, np.dtype[Any]]:
        """Return the more probable class of each row of a frame, or its expected number: (rows,). A missing cell adds nothing."""
        return pick_classes(self.predict_proba(frame), self.classes) if self.classes else self._scores_of(frame)

    def _scores_of(self, frame: Any) -> Floats:
        columns = dict(self.predictors.declared)
        cells = read_frame(frame, list(columns))
        scores = np.full(len(next(iter(cells.values()))), self.intercept)
        for shape in self.shapes:
            column = columns[shape.column]
            if shape.is_number:
                numbers = read_numbers(cells[shape.column], column)
                bins = len(shape.edges) - 1
                codes = np.clip(np.searchsorted(shape.edges, numbers, side="right") - 1, 0, bins - 1)
                # A missing number has a bin of its own where the column keeps it.
                codes = np.where(np.isnan(numbers), bins if len(shape.values) > bins else -1, codes)
            else:
                codes = read_codes(cells[shape.column], column)
            scores = scores + np.concatenate([shape.values, [0.0]])[codes]
        return scores

    def to_sql(self) -> str:
        """Return the expected number, or the probability of the second class, as an expression of SQL."""
        parts = [repr(float(self.intercept))]
        for shape in self.shapes:
            quoted = quote_name(shape.column)
            if shape.is_number:
                bins = len(shape.edges) - 1
                tests = [f"{quoted} < {float(edge)!r}" for edge in shape.edges[1:-1]]
                tests += [f"{quoted} IS NOT NULL"] + ["TRUE"] * (len(shape.values) - bins)
            else:
                labels = declared_values(dict(self.predictors.declared)[shape.column])
                tests = [is_value(shape.column, label) for label in labels]
            whens = [f"WHEN {test} THEN {float(value)!r}" for test, value in zip(tests, shape.values, strict=True)]
            parts.append(f"CASE {' '.join(whens)} ELSE 0 END")
        score = " + ".join(parts)
        if not self.classes:
            return score
        return f"1 / (1 + EXP(-LEAST(GREATEST({score}, -{_MOST_SCORE}), {_MOST_SCORE})))"

    def facts(self) -> dict[str, str]:
        """Return what is predicted, and how far each column moves it."""
        unit = "log odds" if self.classes else self.y
        facts = {"predicts": self.y, "from": ", ".join(shape.column for shape in self.shapes)}
        for shape in sorted(self.shapes, key=lambda shape: -float(np.ptp(shape.values))):
            labels = self.labels(shape.column)
            low = int(shape.values.argmin())
            high = int(shape.values.argmax())
            facts[f"{unit} by {shape.column}"] = (
                f"from {shape.values[low]:.3g} ({labels[low]}) to {shape.values[high]:.3g} ({labels[high]}), "
                f"+-{1.96 * float(np.median(shape.errors)):.2g} for the noise at 95%"
            )
        return facts

    def check(self) -> None:
        """Raise ValueError where the parts of a stored model do not fit each other."""
        columns = dict(self.predictors.declared)
        for shape in self.shapes:
            column = columns[shape.column]
            bins = len(shape.edges) - 1 if shape.is_number else len(declared_values(column))
            missing = int(shape.is_number and getattr(column, "missing", None) == "keep")
            require_fit(len(shape.values) == len(shape.errors) == bins + missing)
            require_fit(bool((np.diff(shape.edges) > 0).all()) and bool((shape.errors >= 0).all()))

    def describe(self) -> str:
        """Return the model in a few words."""
        return f"boosted histograms of {self.y} on {len(self.shapes)} columns"


# ---- Fitting


@show_arguments(LossArguments)
def boosted_histograms(
    table: Adaptive,
    *,
    y: str,
    x: Sequence[str],
    assume_rows: int | None = None,
    **loss: Unpack[LossArguments],
) -> HistogramsModel:
    """Return a sum of step functions, one a column of `x`, that predicts `y`: a number, or a category or boolean of two values.

    DP-EBM boosts columns in turn through hundreds of rounds, each a noisy sum of residuals a bin. Here the loss is split among
    few sums: a histogram a column decides the bins, the counts of all pairs of bins say how columns go together, and three
    rounds ask the residuals of all columns' bins at once; each moves all shapes together along that curvature, so no round
    unlearns what another did, and the table is read six times. Neighboring bins are drawn together by as much as the noise asks
    (a Gaussian prior on their steps, its scale by the largest likelihood), from which come the errors of the shapes.

    Raises UnknownName, QuestionRefused or DeclarationError before anything is spent; BudgetExhausted, ChargedError as ask.
    """
    predictors, target = check_histograms(table, y, x, assume_rows)
    read_loss(**loss)
    boosting = _Boosting(y, target, predictors, table.domain)
    boosting.check()
    words = f"boosted histograms of {y} on {', '.join(name for name, _ in predictors.declared)}"
    fit, release = table.adapt(boosting.run, describe=words, record=_record_of, draws="vectors", **loss)
    parameters = sum(len(shape.values) for shape in fit.shapes)
    about = provenance_of(release, note_rows(fit.rows, parameters))
    return HistogramsModel(y, target, predictors, fit.intercept, fit.shapes, about)


def check_histograms(table: Any, y: Any, x: Any, assume_rows: int | None) -> tuple[Predictors, Column]:
    """Return the columns of boosted histograms, and what they predict; raises what they raise before a charge."""
    domain = domain_of(table)
    target = require_column(domain, y, "y")
    if isinstance(target, (Category, Boolean)):
        classes = len(declared_values(target))
        if classes != 2:
            raise QuestionRefused(
                f"y is {y!r}, which has {classes} declared values: boosted histograms tell two classes apart, and "
                "sd.models.naive_bayes and sd.models.decision_tree more"
            )
    predictors = read_predictors(domain, x, without=y)
    if any(isinstance(term, tuple) for term in predictors.terms):
        raise QuestionRefused("a shape is of one column: leave out products")
    for name, column in ((y, target), *predictors.declared):
        require_range(name, column)
    check_rows(assume_rows, len(predictors.declared) + 1)
    return predictors, target


@dataclass(frozen=True)
class _Fit:
    """What boosting says: the constant, the shapes, and about how many rows there are."""

    intercept: float
    shapes: tuple[Shape, ...]
    rows: float


def _record_of(fit: _Fit) -> ReleaseContent:
    """Return what the ledger keeps: the shapes by bins."""

    def write(value: float) -> Fraction:
        return Fraction(round(value * _RECORDED), _RECORDED)

    numbers: list[tuple[str, Fraction | None]] = [
        ("intercept", write(fit.intercept)),
        ("rows", Fraction(round(fit.rows))),
    ]
    for shape in fit.shapes:
        numbers += [(f"{shape.column}: edge", write(float(edge))) for edge in shape.edges]
        for value, error in zip(shape.values, shape.errors, strict=True):
            numbers += [
                (f"{shape.column}: value", write(float(value))),
                (f"{shape.column}: error", write(float(error))),
            ]
    return ReleaseContent(chosen=tuple(numbers))


@dataclass(frozen=True)
class _Round:
    """What one gradient says: that `curvature` times the coefficients is `products`, beside noise of this deviation."""

    curvature: Floats
    products: Floats
    noise: float


@dataclass(frozen=True)
class _Boosting:
    """The algorithm: it reads the table through a Queryable alone."""

    y: str
    target: Column
    predictors: Predictors
    domain: Domain

    @property
    def is_number(self) -> bool:
        """Whether y is a number."""
        return not isinstance(self.target, (Category, Boolean))

    @property
    def most_bins(self) -> int:
        """The most bins of a number once they are joined."""
        return max(2, min(_MOST_BINS, _MOST_TOGETHER // max(len(self.predictors.numbers), 1)))

    def check(self) -> None:
        """Raise QuestionRefused for what has no private answer, before a charge: with the most bins that there can be."""
        edges = {}
        for name in self._numbers():
            fine = self._fine_edges(name)
            stride = -(-(len(fine) - 1) // self.most_bins)
            edges[name] = [*fine[:-1:stride], fine[-1]]
        question = self._question(edges)
        compile_moments(question.moments, self.domain)
        compile_steps(question, self.domain)
        if not self.is_number:
            compile_moments(self._columns, self.domain)

    def run(self, queryable: Queryable) -> _Fit:
        """Find the bins, count their pairs, and go three rounds along noisy sums of residuals; less where noise is large."""
        loss = queryable.loss
        spent = Fraction(0)
        if isinstance(loss, PureDP) and loss.epsilon <= _SMALL_EPSILON and not self.is_number:
            spent = _CLASSES
            classes = BinCounts(self._columns, 0, (len(self.predictors.categories),))
            counts = queryable.release(classes, take_share(loss, spent)).outputs[0].estimate
            rows_of_classes = np.clip(_numbers_of(counts), 1.0, None)
            if self._noise_of_pairs(queryable, loss) > _FAINT * float(rows_of_classes.sum()):
                return self._run_rough(queryable, rows_of_classes)
        edges: dict[str, list[int]] = {}
        if self.predictors.numbers:
            spent += _BINS
            edges = self._find_edges(queryable, _PAIRS["pure" if isinstance(loss, PureDP) else "rho"] + spent)
        question = self._question(edges)
        compiled = compile_steps(question, self.domain)
        pairs = _PAIRS["pure" if isinstance(loss, PureDP) else "rho"]
        spent += pairs
        frame = self._find_frame(queryable, question, pairs)
        rest = pairs * (1 - LOOK) if self.is_number else pairs
        released = queryable.release(MomentVector(question.moments, frame), take_share(loss, rest))
        moments = moments_of(released.outputs[0].estimate, compile_moments(question.moments, self.domain), frame)[0]
        solver = _Solver.of(
            moments.matrix, math.sqrt(moments.variance), compiled.columns.categories, self._parts(), self.is_number
        )
        unit = 1.0
        most_error = 1
        center = 0
        if self.is_number:
            scale = frame.scales[0]
            most_error = min(max(math.ceil(_ERROR_SPREADS * scale), 1), 1 << 22)
            center = frame.centers[0]
            # A spread, in errors of 1.
            unit = scale / most_error
        limit = Frame((), (), compiled.least_limit)
        coefficients = solver.start
        rounds: list[_Round] = []
        step = (1 - spent) / ROUNDS
        before: tuple[Floats, Floats] | None = None
        curvature = 1.0 if self.is_number else _CURVATURE
        for i in range(ROUNDS):
            vector = GradientVector(question, limit, _whole(coefficients), most_error, center)
            estimate = queryable.release(vector, take_share(loss, step)).outputs[0].estimate
            gradient = _numbers_of(estimate)
            if before is not None and not self.is_number:
                moved = coefficients - before[0]
                length = float(moved @ solver.curvature @ moved)
                ratio = float(moved @ (gradient - before[1])) / max(length, 1e-9)
                curvature = min(max(ratio, _CURVATURES[0]), _CURVATURES[1])
            matrix = curvature * solver.curvature
            one = _Round(matrix, matrix @ coefficients - gradient, _deviation(estimate))
            # The first round starts from no shape at all, where the curvature is not that of the end.
            rounds = [one] if i <= 1 else [*rounds, one]
            before = coefficients, gradient
            coefficients, covariance = solver.solve(rounds, unit)
        return self._finish(moments.rows, coefficients, covariance, solver, edges, most_error, center, compiled)

    @property
    def _columns(self) -> MomentMatrix:
        """All columns, as a question names them; y is the last category."""
        target = Grouping(self.y, Name(self.y))
        categories = groups_of(self.predictors.categories, self.domain)
        return MomentMatrix(groups_of(self.predictors.numbers, self.domain), (*categories, target))

    def _noise_of_pairs(self, queryable: Queryable, loss: PureDP) -> float:
        """Return the noise of a count of two bins: its deviation by the sensitivity of the counts of all pairs, in rows."""
        edges = {}
        for name in self._numbers():
            fine = self._fine_edges(name)
            edges[name] = sorted({fine[0], fine[len(fine) // 2], fine[-1]})
        question = self._question(edges).moments
        frame = Frame((), (), compile_moments(question, self.domain).least_limit)
        ((stated, _),) = MomentVector(question, frame).parts(self.domain, queryable.neighbors)
        return math.sqrt(2) * float(stated.l1 / (loss.epsilon * _PAIRS["pure"])) / PARTS

    def _run_rough(self, queryable: Queryable, counts: Floats) -> _Fit:
        """Go two rounds without the counts of pairs; `counts` (2,) are noisy rows of each class."""
        rows = float(counts.sum())
        share = min(max(float(counts[1]) / rows, 0.02), 0.98)
        left = 1 - _CLASSES
        edges: dict[str, list[int]] = {}
        if self.predictors.numbers:
            edges = self._place_edges(queryable, left * _PLACES, rows)
            left *= 1 - _PLACES
        question = self._question(edges)
        compiled = compile_steps(question, self.domain)
        solver = _Solver.of_rows(rows, share, compiled.columns.categories, self._parts())
        limit = Frame((), (), compiled.least_limit)
        coefficients = solver.start
        rounds: list[_Round] = []
        for cut in (max(share, 1 - share), float(_CUT)):
            # At the mean of y no row is further from its class than the likelier class is likely.
            vector = GradientVector(question, limit, _whole(coefficients), cut=min(math.ceil(cut * ERROR), ERROR))
            estimate = queryable.release(vector, take_share(queryable.loss, left / 2)).outputs[0].estimate
            products = solver.curvature @ coefficients - _numbers_of(estimate)
            rounds.append(_Round(solver.curvature, products, _deviation(estimate)))
            coefficients, covariance = solver.solve(rounds, 1.0)
        return self._finish(rows, coefficients, covariance, solver, edges, 1, 0, compiled)

    def _place_edges(self, queryable: Queryable, share: Fraction, rows: float) -> dict[str, list[int]]:
        """Return the edges of each number's bins: as equal as a look at where it lies says."""
        from scipy.special import ndtri

        columns = self._columns
        compiled = compile_moments(columns, self.domain)
        loss = take_share(queryable.loss, share)
        assert isinstance(loss, PureDP)
        ((stated, _),) = BinCounts(columns, 1 << 10).parts(self.domain, queryable.neighbors)
        noise = math.sqrt(2) * float(stated.l1 / loss.epsilon) / PARTS
        bins = choose_bins(rows, noise, SURE_BINS)
        counted = _numbers_of(queryable.release(BinCounts(columns, bins), loss).outputs[0].estimate)
        means, spreads = find_spreads(counted, compiled, bins, rows, noise)
        quantiles = ndtri(np.arange(1, _ROUGH_BINS) / _ROUGH_BINS)
        edges = {}
        for name, mean, spread in zip(self._numbers(), means, spreads, strict=True):
            fine = self._fine_edges(name)
            middle = (fine[0] + fine[-1]) / 2
            cuts = middle + (mean + spread * quantiles) * (fine[-1] - fine[0]) / 2
            inner = {min(fine, key=lambda edge: abs(edge - cut)) for cut in cuts.tolist()}
            # A column of one bin would say nothing: halves of its range are told apart.
            inner = inner - {fine[0], fine[-1]} or {fine[len(fine) // 2]}
            edges[name] = sorted({fine[0], *inner, fine[-1]})
        return edges

    def _numbers(self) -> list[str]:
        return [name for name, _ in self.predictors.declared if not self.predictors.is_category(name)]

    def _parts(self) -> list[bool]:
        """Return, column by column in the order of the question, whether it is a number."""
        return [True] * len(self.predictors.numbers) + [False] * len(self.predictors.categories)

    def _bound(self, name: str) -> BoundNumber:
        return bind_number(Name(name), self.domain)

    def _fine_edges(self, name: str) -> list[int]:
        """Return the edges of a number's first bins, in steps of its lattice; the last bin is closed."""
        column: Any = self.domain[name]
        unit = self._bound(name).unit
        low = math.ceil(Fraction(column.lower) / unit)
        high = math.floor(Fraction(column.upper) / unit)
        starts = range(low, high + 1, -(-(high + 1 - low) // FINE_BINS))
        return [*starts[: len(starts) - 1], starts[-1], high] if starts[-1] < high else [*starts]

    def _find_edges(self, queryable: Queryable, before: Fraction) -> dict[str, list[int]]:
        """Return the edges of each number's bins: joined until each has its part of the rows, and more than noise."""
        names = self._numbers()
        fine = {name: self._fine_edges(name) for name in names}
        tables = tuple(ContingencyTable((Axis(name, tuple(fine[name])),)) for name in names)
        loss = take_share(queryable.loss, _BINS)
        outputs = queryable.release(MarginalQuery(tables), loss).outputs
        # The noise of a gradient follows from that of these counts: both are of as many columns, at other shares of the loss.
        ratio = float(_BINS * ROUNDS / (1 - before))
        ratio = ratio if isinstance(loss, PureDP) else math.sqrt(ratio)
        edges = {}
        for name, output in zip(names, outputs, strict=True):
            counts = _numbers_of(output.estimate)[: len(fine[name]) - 1]
            noise = _deviation(output.estimate)
            rows = max(float(counts.sum()), 1.0)
            least = max(rows * max(_LEAST_SHARE, 1 / self.most_bins), _ABOVE_GRADIENT * ratio * noise)
            places = [0]
            total = 0.0
            for i, count in enumerate(counts):
                total += float(count)
                if total >= max(least, _ABOVE_NOISE * noise * math.sqrt(i + 1 - places[-1])):
                    places.append(i + 1)
                    total = 0.0
            last = len(counts)
            if places[-1] < last:
                # What is left over is too little for a bin of its own.
                places = [*places[:-1], last] if len(places) > 1 else [0, last]
            if len(places) == 2 and last > 1:
                # A column of one bin would say nothing: halves of its range are told apart.
                places = [0, last // 2, last]
            edges[name] = [fine[name][place] for place in places]
        return edges

    def _question(self, edges: Mapping[str, Sequence[int]]) -> SteppedRegression:
        """Return the regression on the indicators of all bins and values."""
        columns = []
        for name in self._numbers():
            column: Any = self.domain[name]
            unit = self._bound(name).unit
            node = Clip(Name(name), Fraction(column.lower), Fraction(column.upper))
            columns.append(Grouping(name, Bin(node, edges=tuple(edge * unit for edge in edges[name]), width=None)))
        columns += groups_of(self.predictors.categories, self.domain)
        link: Any = "linear" if self.is_number else "logistic"
        return SteppedRegression(Grouping(self.y, Name(self.y)), link, (), tuple(columns))

    def _find_frame(self, queryable: Queryable, question: SteppedRegression, share: Fraction) -> Frame:
        """Return the frame of the counts of pairs; of a number y its center and scale, by a first look."""
        compiled = compile_moments(question.moments, self.domain)
        if not self.is_number:
            return Frame((), (), compiled.least_limit)
        loss = take_share(queryable.loss, share)
        estimate = queryable.release(FirstLook(question.moments), take_share(loss, LOOK)).outputs[0].estimate
        assert isinstance(estimate, Noisy)
        prepared = PreparedMoments(question.moments, compiled, loss, estimate.law, 1.0)
        frame = prepared.choose_frame(_numbers_of(estimate))
        # A row whose y lies two spreads from the center counts in full.
        return Frame(frame.centers, frame.scales, compiled.least_limit + 4)

    def _finish(
        self,
        rows: float,
        coefficients: Floats,
        covariance: Floats,
        solver: _Solver,
        edges: Mapping[str, Sequence[int]],
        most_error: int,
        center: int,
        compiled: Any,
    ) -> _Fit:
        """Return the shapes in y's own unit, each 0 in the mean over the rows."""
        unit = 1.0
        intercept = float(coefficients[0])
        if self.is_number:
            unit = most_error * compiled.target.step
            intercept = compiled.target.middle + compiled.target.step * center + unit * intercept
        shapes = []
        names = [*self._numbers(), *self.predictors.categories]
        for name, place in zip(names, solver.places, strict=True):
            weights = solver.counts[place] / solver.counts[place].sum()
            centering = np.eye(len(weights)) - weights[None]
            values = centering @ coefficients[place]
            errors = np.sqrt(np.clip(np.diag(centering @ covariance[place, place] @ centering.T), 0.0, None))
            intercept += unit * float(weights @ coefficients[place])
            cuts = np.zeros(0)
            if name in edges:
                step = self._bound(name).unit
                # A cell is read as the nearest step, so a bin begins half a step below its first one.
                cuts = np.array([float(edge * step) for edge in edges[name]])
                cuts[1:-1] -= float(step) / 2
            shapes.append(Shape(name, cuts, unit * values, unit * errors))
        order = [name for name, _ in self.predictors.declared]
        shapes.sort(key=lambda shape: order.index(shape.column))
        return _Fit(intercept, tuple(shapes), rows)


@dataclass(frozen=True)
class _Solver:
    """The curvature of the likelihood over all bins, where it starts, and which places are of which column.

    `curvature` (d, d) is that of errors at the mean of y in each bin; `counts` (d,) are of rows.
    """

    curvature: Floats
    counts: Floats
    start: Floats
    places: tuple[slice, ...]
    are_numbers: tuple[bool, ...]
    keeps_missing: tuple[bool, ...]

    @classmethod
    def of(cls, matrix: Floats, noise: float, categories: Any, are_numbers: Sequence[bool], is_number: bool) -> _Solver:
        """Return the curvature of noisy moments: of y, a number or two classes, and of all bins."""
        size = 1 + sum(len(declared.labels) for declared in categories)
        # Of a number, y stands between 1 and the bins; of classes, they stand last.
        own = [0, *range(2, size + 1)] if is_number else list(range(size))
        counts = np.clip(np.diag(matrix)[own], max(noise, 1.0), None)
        start = np.zeros(size)
        softened = soften(matrix[np.ix_(own, own)], noise)
        if not is_number:
            shown = np.clip(matrix[own, -1], 0.0, counts)
            share = min(max(float(shown[0] / counts[0]), 1e-3), 1 - 1e-3)
            start[0] = math.log(share / (1 - share))
            # The share of the second class in each bin, drawn to that of all rows by as much as it is noise.
            shares = np.clip((shown + 4 * noise * share) / (counts + 4 * noise), 0.01, 0.99)
            root = np.sqrt(shares * (1 - shares))
            softened = softened * np.outer(root, root)
        variances, vectors = np.linalg.eigh(softened)
        curvature = (vectors * np.maximum(variances, 1e-3)) @ vectors.T
        places = []
        at = 1
        for declared in categories:
            places.append(slice(at, at + len(declared.labels)))
            at += len(declared.labels)
        keeps = tuple(declared.labels[-1] is None for declared in categories)
        return cls(curvature, counts, start, tuple(places), tuple(are_numbers), keeps)

    @classmethod
    def of_rows(cls, rows: float, share: float, categories: Any, are_numbers: Sequence[bool]) -> _Solver:
        """Return the curvature of so many rows, of which a share is of the second class, in bins and values of equal size."""
        counts = [rows]
        places = []
        for declared in categories:
            size = len(declared.labels)
            places.append(slice(len(counts), len(counts) + size))
            counts += [rows / size] * size
        start = np.zeros(len(counts))
        start[0] = math.log(share / (1 - share))
        curvature = np.diag(_TOGETHER * share * (1 - share) * np.array(counts))
        keeps = tuple(declared.labels[-1] is None for declared in categories)
        return cls(curvature, np.array(counts), start, tuple(places), tuple(are_numbers), keeps)

    def solve(self, rounds: Sequence[_Round], unit: float) -> tuple[Floats, Floats]:
        """Return the coefficients and their covariance, given the rounds, at the scales of steps that they make likeliest."""
        precision: Any = sum(one.curvature @ one.curvature / one.noise**2 for one in rounds)
        products: Any = sum(one.curvature @ one.products / one.noise**2 for one in rounds)
        last = rounds[-1]
        best: tuple[float, Floats] | None = None
        for scales in itertools.product(_STEP_SCALES, _VALUE_SCALES):
            prior = self._prior(scales[0] * unit, scales[1] * unit)
            spread = last.curvature @ np.linalg.inv(prior) @ last.curvature + last.noise**2 * np.eye(len(prior))
            root = np.linalg.cholesky(spread)
            whitened = np.linalg.solve(root, last.products)
            unlikely = 2 * float(np.log(np.diag(root)).sum()) + float(whitened @ whitened)
            if best is None or unlikely < best[0]:
                best = unlikely, prior
        assert best is not None
        covariance: Floats = np.asarray(np.linalg.inv(precision + best[1]))
        coefficients: Floats = np.clip(covariance @ products, -MOST_COEFFICIENT / 2, MOST_COEFFICIENT / 2)
        return coefficients, covariance

    def _prior(self, step: float, value: float) -> Floats:
        """Return the precision of the coefficients before any answer: of a number's steps, and of a category's values."""
        prior = np.zeros((len(self.counts), len(self.counts)))
        prior[0, 0] = 1e-6
        for place, is_number, keeps in zip(self.places, self.are_numbers, self.keeps_missing, strict=True):
            size = place.stop - place.start
            block = np.eye(size) / value**2
            bins = size - keeps
            if is_number:
                steps = np.diff(np.eye(bins), axis=0)
                block[:bins, :bins] = steps.T @ steps / step**2 + np.full((bins, bins), 1.0 / bins**2 / value**2)
                block[:bins, :bins] += 1e-6 * np.eye(bins)
            prior[place, place] = block
        return prior


def _whole(coefficients: Floats) -> tuple[int, ...]:
    return tuple(round(float(coefficient) * COEFFICIENT) for coefficient in coefficients)


def _numbers_of(estimate: Any) -> Floats:
    assert isinstance(estimate, Noisy)
    result: Floats = np.array([float(step) for step in estimate.steps]) * float(estimate.unit)
    return result


def _deviation(estimate: Any) -> float:
    assert isinstance(estimate, Noisy)
    return math.sqrt(float(estimate.law.variance())) * float(estimate.unit)
