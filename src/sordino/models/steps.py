"""Regressions by steps: the moments say how columns go together, and a few noisy gradients lead to the coefficients."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from sordino.ask.queries.bin_counts import BinCounts
from sordino.ask.queries.gradient_vector import (
    COEFFICIENT,
    ERROR,
    MOST_COEFFICIENT,
    SCORE_BINS,
    CompiledSteps,
    CurvatureMatrix,
    GradientVector,
    ScoreCounts,
    SteppedRegression,
    compile_steps,
)
from sordino.ask.queries.moment_matrix import PARTS, FirstLook, Frame, MomentVector, ScaledNumber
from sordino.ask.queries.queryable import ExpectedColumn, NoiseForecast, Queryable, ReleaseContent
from sordino.core.errors import DeclarationError, QuestionRefused, UnknownName, nearest
from sordino.core.estimates.table_cells import standard_quantile
from sordino.core.estimates.weighted_sum import normal_quantile
from sordino.core.loss import Loss, PureDP
from sordino.core.noise.laws import NoiseLaw
from sordino.core.release import Key, Output, Release
from sordino.models.bin_look import MOST_BINS, SURE_BINS, choose_bins, find_spreads
from sordino.models.design import RIDGE, soften
from sordino.models.moments import (
    BINS_EPSILON,
    Floats,
    NoisyMoments,
    PreparedMoments,
    choose_look_share,
    moments_of,
    numbers_of,
    prepare_moments,
    scale_frame,
    take_share,
)

# Measured on three tables at four losses (bench/results/models.md): more steps have more noise each, and gain little.
# Those of counts go by a curvature that changes more on the way.
STEPS = {"logistic": 3, "poisson": 5}
# The share of the loss that finds how columns go together; sums of absolute values cost more there than sums of squares.
_START = {"pure": Fraction(7, 20), "rho": Fraction(1, 4)}
# A first look has up to so much of that share where a pure epsilon is small.
_MOST_LOOK = Fraction(7, 10)
# Where neighbors replace a row, a look of a logistic regression is one of bins up to this pure epsilon: scales that are far too
# wide, as sums over loose bounds find, hide what columns say.
_LOGISTIC_BINS = Fraction(3, 50)
# The share that finds the curvature where the last step begins, by which its noise is known in each coefficient.
_CURVE = {"pure": Fraction(3, 20), "rho": Fraction(1, 10)}
# Newton's step is taken where the gradient's noise moves a coefficient by less than this part of 1, and where scores move by less
# than that in the mean; else the steps go on as before, shorter where there is noise, and the coefficients have no intervals.
_SURE = 0.25
_SHORT = 0.5
# A coefficient has an interval where less than this part of its squared length lies in directions that the noise hides.
_HIDDEN = 0.02
# The share that counts held-out rows.
_HELD_OUT = Fraction(3, 20)
# The mean of p (1 - p) is that at the mean probability less the variance of p: this part of it at most, and that at least.
_FLATTER = 0.8
_FLATTEST = 0.1
# A step of counts is shortened by this, since their curvature rises with the mean.
_STEEPER = 1.4
# A direction whose variance is below twice its noise times the root of the columns is lifted to that, as in design.py.
_LIFT = 2.0
# Errors of counts are cut at so many spreads of the counts, since what is cut makes predictions too low: at more where the noise
# of a gradient is less than this part of the rows.
_ERROR_SPREADS = (4.0, 16.0)
_ERROR_NOISE = 0.005
# Where the noise of a gradient, over all coefficients, is more than this part of the rows, two steps without moments take the
# place of three. Of their loss, so much finds how many rows are of each class, and so much where numbers lie.
_FAINT = 0.3
# At a small pure epsilon, where rows are counted first, more than this part: intervals are mostly infinite there anyway.
_FAINT_COUNTED = 0.1
_CLASSES = Fraction(1, 20)
_PLACES = Fraction(1, 5)
# After a look of sums and squares, whose frame is rough, bins have this share, or half of it where values are counted with the
# classes for the other half: as they are where the noise of a count is less than this part of the rows, else taken for equally
# frequent.
_SECOND_PLACES = Fraction(1, 10)
_VALUES = Fraction(1, 20)
_COUNTED = 0.05
# Many steps go further along the directions in which columns hardly differ, few have less noise each. So many are taken where a
# gradient with all of their loss has noise, in each coefficient, of up to this part of the rows. Of values, which hardly go
# together, the first steps say most. Chosen on houses, diamonds, Adult and six generated tables at a pure 1 and .1.
_MANY_STEPS = ((0.006, 6), (0.01, 3), (0.025, 2))
_MANY_STEPS_OF_VALUES = ((0.0007, 6), (0.0025, 3), (0.006, 2))
# Each step has so many times the loss of the one before, as the noise of the last ones stays.
_GROWTH = Fraction(6, 5)
# Steps go so far of the way that the curvature asks, and on by this part of the step before. Errors after the first are cut at
# that part of 1, as few rows are so wrong.
_WAY = 0.7
_ONWARDS = 0.4
_SECOND_CUT = Fraction(3, 4)
# Rows bend the likelihood by this part of what they do at the mean of y, where columns do not go together: away from it they do
# less, and those that are far away count less. Products of two columns are about so large a part of their squares.
_BENT = 0.7
_TOGETHER = 0.3
# A direction in which rows bend the likelihood less than this, as a part of the diagonal, is stepped along as if they bent it so
# much: else the noise of the gradient would be drawn out.
_LEAST_BENT = 0.8
# No slope has an interval where the noise hides a curvature of this part of the rows, half of the most that a column alone has.
_HIDES_ALL = 0.125
# Where no slope would have an interval and the noise of a gradient, over all coefficients, is more than this part of the rows,
# two steps by the moments have all that is left, in these parts. With less noise three steps were better on houses, diamonds and
# Adult, by which this part was chosen.
_RANKED = 0.035
_RANK_SHARES = (Fraction(1, 4), Fraction(3, 4))
# A direction moves hardly where so many deviations of the noise of all steps would move its coefficient by 1.
_CAUTION = 0.6


@dataclass(frozen=True)
class PreparedSteps:
    """How a regression by steps is answered: a first look, the moments, some gradients, and the held-out rows."""

    question: SteppedRegression
    compiled: CompiledSteps
    loss: Loss
    start: PreparedMoments
    unit_noise: float
    count_noise: float
    bins: NoiseLaw | None = None
    curve_noise: float = 0.0
    value_noise: float | None = None

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the answer's keys: the coefficient of a gradient, or the class and score of held-out rows."""
        return ("coefficient",) if self.question.folds == 1 else ("class", "score")

    @property
    def rows(self) -> int | None:
        """How many numbers the answer has."""
        return self.compiled.cells if self.question.folds == 1 else 2 * SCORE_BINS

    @property
    def notes(self) -> tuple[str, ...]:
        """What the answer follows from."""
        more = f", up to {_MANY_STEPS[0][1]} where it hides every slope" if self.question.link == "logistic" else ""
        return (
            *self.start.notes,
            f"{self.steps} steps along noisy gradients{more}, or fewer where noise is large beside the rows, lead to the "
            "coefficients, which are among the numbers chosen",
        )

    @property
    def squared_error(self) -> float:
        """The variance of a gradient at a limit of 1."""
        return self.unit_noise**2

    @property
    def limit(self) -> Fraction:
        """The squared length from which a row counts less in a gradient: that of a row twice as far as the average one."""
        return self.compiled.least_limit + 2 * len(self.compiled.columns.numbers)

    @property
    def _near_limit(self) -> Fraction:
        """The least limit at which rows at the average distance count in full."""
        return self.compiled.least_limit + len(self.compiled.columns.numbers)

    @property
    def steps(self) -> int:
        """The number of steps."""
        return STEPS[self.question.link]

    @property
    def shares(self) -> tuple[Fraction, Fraction]:
        """The share of the loss of one step, and of the held-out rows."""
        held = _HELD_OUT if self.question.folds > 1 else Fraction(0)
        return (1 - _start_share(self.loss) - self.curve_share - held) / self.steps, held

    @property
    def curve_share(self) -> Fraction:
        """The share of the loss of the curvature."""
        return _CURVE["pure" if isinstance(self.loss, PureDP) else "rho"]

    def queries(self) -> list[BinCounts | FirstLook | MomentVector | GradientVector | CurvatureMatrix | ScoreCounts]:
        """Return all queries, in one of the frames and at one of the coefficients that may follow."""
        frame = Frame((0,) * len(self._scales), self._scales, self.limit)
        zeros = (0,) * self.compiled.cells
        queries: list[Any] = [*self.start.queries(), GradientVector(self.question, frame, zeros)]
        queries.append(CurvatureMatrix(self.question, frame, zeros))
        if self.question.link == "logistic":
            cut = GradientVector(self.question, frame, zeros, cut=ERROR // 2)
            queries += [self._class_counts, self._value_counts, BinCounts(self.start.question, MOST_BINS), cut]
        return queries if self.question.folds == 1 else [*queries, ScoreCounts(self.question, frame, zeros)]

    @property
    def _scales(self) -> tuple[int, ...]:
        return tuple(max(number.width // 4, number.least_scale) for number in self.compiled.columns.numbers)

    def columns(self, confidence: float) -> list[ExpectedColumn]:
        """Return what is known of the error of the answer."""
        words = f"+-{self.error(confidence):.4g} rows at {100 * confidence:g}% in each {self._of}"
        return [ExpectedColumn(self.name, self.question.describe(), self.error(confidence), "rows", words)]

    @property
    def name(self) -> str:
        """The name of the answer's column."""
        return "gradient" if self.question.folds == 1 else "held-out rows"

    @property
    def _of(self) -> str:
        return (
            "sum of errors, of standardised columns, by which a step is taken"
            if self.question.folds == 1
            else "count of held-out rows"
        )

    def error(self, confidence: float) -> float:
        """Return the error of each number of the answer, in rows."""
        if self.question.folds > 1:
            return normal_quantile(confidence) * self.count_noise
        return normal_quantile(confidence) * self.unit_noise * math.sqrt(self.limit)

    def answer(self, queryable: Queryable) -> ReleaseContent:
        """Look, ask for the moments, step, the last time by the curvature there, and count the held-out rows."""
        spent = _start_share(self.loss) * self.start.look_share
        rows = self.start.count_rows(queryable)
        if rows is not None and self._is_faint(rows, _FAINT_COUNTED):
            # The look is not needed: places are asked for with more of the loss.
            spent = _start_share(self.loss) * self.start.count_share
            frame, coefficients, output, rows = self._rank(queryable, 1 - spent - self.shares[1])
            deviations = self._unknown(frame)
        else:
            moments_frame, about = self.start.find_frame(queryable, rows)
            count = len(self.compiled.columns.numbers)
            frame = Frame(moments_frame.centers[:count], moments_frame.scales[:count], self.limit)
            left = 1 - spent - self.shares[1]
            if rows is None and about is not None and self._is_faint(about, _FAINT):
                frame, coefficients, output, rows = self._rank(queryable, left)
                deviations = self._unknown(frame)
            elif about is not None and self._hides_all(about):
                # Bins place numbers better than the look did, which told how many rows there are.
                frame, coefficients, output, rows = self._rank(queryable, left, looked=True)
                deviations = self._unknown(frame)
            else:
                coefficients, output, deviations, rows = self._step(queryable, moments_frame, frame)
        _, held_share = self.shares
        chosen = _whole(coefficients)
        keys: tuple[Key, ...] = (Key("coefficient", tuple(_describe_coefficients(self.compiled))),)
        if self.question.folds > 1:
            counts = ScoreCounts(self.question, frame, chosen)
            output = queryable.release(counts, take_share(self.loss, held_share)).outputs[0]
            labels = self.compiled.classes
            keys = (
                Key("class", tuple(str(label) for label in labels for _ in range(SCORE_BINS))),
                Key("score", tuple(range(SCORE_BINS)) * 2),
            )
        numbers = self.compiled.columns.numbers
        steps: list[tuple[str, Fraction | None]] = [
            *((f"{n.alias}: center", Fraction(c)) for n, c in zip(numbers, frame.centers, strict=True)),
            *((f"{n.alias}: scale", Fraction(s)) for n, s in zip(numbers, frame.scales, strict=True)),
        ]
        names = _describe_coefficients(self.compiled)
        steps += [(f"coefficient of {name}", Fraction(c, COEFFICIENT)) for name, c in zip(names, chosen, strict=True)]
        steps += deviations
        steps += [("rows", Fraction(round(rows)))]
        return ReleaseContent(keys, (Output(self.name, output.estimate, output.mechanism),), chosen=tuple(steps))

    def _step(
        self, queryable: Queryable, moments_frame: Frame, frame: Frame
    ) -> tuple[Floats, Output, list[tuple[str, Fraction | None]], float]:
        """Ask for the moments, and step; return the coefficients, the last gradient, their deviations and the rows."""
        released = self.start.release_in(queryable, moments_frame)
        moments = moments_of(released.outputs[0].estimate, self.start.compiled, moments_frame)[-1]
        fit = _Start.of(moments, self.compiled, self.unit_noise * math.sqrt(self.limit))
        step_share, held_share = self.shares
        if self._is_faint(moments.rows, _RANKED) and self._hides(fit, frame):
            left = 1 - _start_share(self.loss) - held_share
            return *self._rank_by(queryable, frame, fit, left), self._unknown(frame), moments.rows
        coefficients = fit.coefficients
        output: Output | None = None
        deviations: list[tuple[str, Fraction | None]] = []
        for step in range(self.steps):
            vector = GradientVector(self.question, frame, _whole(coefficients), fit.most_error)
            output = queryable.release(vector, take_share(self.loss, step_share)).outputs[0]
            # The last step of counts makes them right in the mean, which slopes of few steps alone need not be.
            last = step == self.steps - 1 and fit.total is not None
            move = fit.calibrate if last else fit.step
            gradient = numbers_of(output.estimate)
            if step < self.steps - 1:
                coefficients = move(coefficients, gradient)
                continue
            matrix = CurvatureMatrix(self.question, frame, _whole(coefficients), fit.most_error)
            curved = queryable.release(matrix, take_share(self.loss, self.curve_share)).outputs[0].estimate
            target = self.compiled.target
            most = fit.most_error * target.step if isinstance(target, ScaledNumber) else 1.0
            law: Any = output.estimate
            noise = math.sqrt(float(law.law.variance())) * float(law.unit)
            curved_moments = moments_of(curved, self.compiled.columns, frame)[-1]
            curvature = _Curvature.of(curved_moments, self.question.link, most, noise)
            if curvature.is_long(gradient):
                curvature = curvature.hide()
            otherwise = move(coefficients, gradient)
            coefficients, draws, rest = curvature.step(coefficients, gradient, noise, otherwise)
            deviations = curvature.deviations(self.compiled, frame, draws, rest)
        assert output is not None
        return coefficients, output, deviations, moments.rows

    def _hides(self, fit: _Start, frame: Frame) -> bool:
        """Return whether no slope would have an interval, since the noise of the curvature would hide part of each."""
        hidden = fit.vectors[:, fit.curvatures <= self._least_curvature]
        slopes = _contrasts(self.compiled, frame)[1:]
        return bool((((slopes @ hidden) ** 2).sum(axis=1) >= _HIDDEN * (slopes**2).sum(axis=1)).all())

    def _hides_all(self, rows: float) -> bool:
        """Return whether the noise would hide every slope: then moments, which cost much, are left out."""
        # With a delta the noise of moments is smaller beside that of gradients.
        is_pure = isinstance(self.loss, PureDP)
        return is_pure and self.question.link == "logistic" and self._least_curvature > _HIDES_ALL * rows

    @property
    def _least_curvature(self) -> float:
        """The least curvature, in rows, that the noise of the curvature and of a gradient does not hide."""
        noise = 0.25 * self.curve_noise * math.sqrt(self.compiled.cells)
        return max(RIDGE * noise, self.unit_noise * math.sqrt(self.limit) / _SURE)

    def _rank_by(self, queryable: Queryable, frame: Frame, fit: _Start, left: Fraction) -> tuple[Floats, Output]:
        """Return the coefficients after two steps by the moments, and the last gradient, for what is left of the loss.

        They rank rows: without intervals no loss is kept for the curvature, and the second gradient, whose noise stays, has more.
        """
        coefficients = fit.coefficients
        share = 1 / (1 + math.exp(-float(coefficients[0])))
        output: Output | None = None
        # At the mean of y no row is further from its class than the likelier class is likely.
        for part, cut in zip(_RANK_SHARES, (max(share, 1 - share), float(_SECOND_CUT)), strict=True):
            vector = GradientVector(self.question, frame, _whole(coefficients), cut=min(math.ceil(cut * ERROR), ERROR))
            output = queryable.release(vector, take_share(self.loss, left * part)).outputs[0]
            law: Any = output.estimate
            noise = math.sqrt(float(law.law.variance())) * float(law.unit)
            coefficients = replace(fit, inverse=fit.invert(noise)).step(coefficients, numbers_of(output.estimate))
        assert output is not None
        return coefficients, output

    def _is_faint(self, rows: float, most: float) -> bool:
        """Return whether a gradient's noise is so large a part of the rows that two steps with all that is left are better."""
        return self.question.link == "logistic" and self._noise_over_all(self.shares[0]) > most * rows

    def _noise_over_all(self, share: Fraction) -> float:
        """Return the noise of a gradient, over all coefficients, where it has a share of the loss."""
        more = float(self.shares[0] / share)
        return self.unit_noise * math.sqrt(self.limit * self.compiled.cells) * self._grow(more)

    def _grow(self, less: float) -> float:
        """Return by what noise grows for so many times less of the loss."""
        return less if isinstance(self.loss, PureDP) else math.sqrt(less)

    @property
    def _class_counts(self) -> BinCounts:
        """The rows of both classes; the target is the last category of the moments."""
        return BinCounts(self.question.moments, 0, (len(self.question.categories),))

    @property
    def _value_counts(self) -> BinCounts:
        """The rows of each value of the categories, and of both classes."""
        return BinCounts(self.question.moments, 0, tuple(range(len(self.question.categories) + 1)))

    def _unknown(self, frame: Frame) -> list[tuple[str, Fraction | None]]:
        """Return the deviations of coefficients of whose noise nothing is known."""
        unknown = _Curvature.none(self.compiled.cells)
        return unknown.deviations(self.compiled, frame, unknown.inverse, unknown.inverse[0])

    def _rank(
        self, queryable: Queryable, left: Fraction, *, looked: bool = False
    ) -> tuple[Frame, Floats, Output, float]:
        """Return a frame, the coefficients after some steps from the mean of y, the last gradient and the rows, for what is left.

        `looked` says that there was a look of sums and squares before. The curvature that the steps begin with is that of columns
        that do not go together. What all gradients so far say of it shortens the steps that follow, where columns rise together.
        """
        places = _SECOND_PLACES if looked else _PLACES
        counted = _CLASSES
        query = self._class_counts
        if looked and self.value_noise is not None:
            places -= _VALUES
            counted += _VALUES
            query = self._value_counts
        counts = numbers_of(queryable.release(query, take_share(self.loss, left * counted)).outputs[0].estimate)
        classes = np.clip(counts[-2:], 1.0, None)
        rows = float(classes.sum())
        share = min(max(float(classes[1]) / rows, 0.02), 0.98)
        declared = self.compiled.columns.categories
        values = np.array([rows / len(column.labels) for column in declared for _ in column.labels])
        if query == self._value_counts and self.value_noise is not None:
            noise = self.value_noise * self._grow(float(1 / left))
            if noise < _COUNTED * rows:
                values = np.clip(counts[:-2], noise, None)
        frame = self._place(queryable, left * places, rows)
        left = left * (1 - counted - places)
        parts = self._step_parts(left, rows)
        numbers = 1 + len(self.compiled.columns.numbers)
        bends = _BENT * share * (1 - share) * np.concatenate([np.full(numbers, rows), values])
        coefficients = np.zeros(self.compiled.cells)
        coefficients[0] = math.log(share / (1 - share))
        move = np.zeros(self.compiled.cells)
        learned = LearnedCurvature(np.sqrt(bends[:numbers]), [], [], [])
        output: Output | None = None
        for step, part in enumerate(parts):
            # At the mean of y no row is further from its class than the likelier class is likely.
            cut = max(share, 1 - share) if step == 0 else float(_SECOND_CUT)
            vector = GradientVector(self.question, frame, _whole(coefficients), cut=min(math.ceil(cut * ERROR), ERROR))
            output = queryable.release(vector, take_share(self.loss, left * part)).outputs[0]
            gradient = numbers_of(output.estimate)
            law: Any = output.estimate
            noise = math.sqrt(float(law.law.variance())) * float(law.unit)
            way = gradient * bends / (bends**2 + (_CAUTION * noise) ** 2)
            learned.add(coefficients[:numbers], gradient[:numbers], noise)
            way[:numbers] = learned.solve(gradient[:numbers], noise)
            move = _ONWARDS * move - _WAY * way
            coefficients = np.clip(coefficients + move, -MOST_COEFFICIENT, MOST_COEFFICIENT)
        assert output is not None
        return frame, coefficients, output, rows

    def _step_parts(self, left: Fraction, rows: float) -> list[Fraction]:
        """Return the parts that the steps of a ranking have of what is left of the loss."""
        less = self._near_limit / (self.limit * self.compiled.cells)
        noise = self._noise_over_all(left) * math.sqrt(less) / rows
        table = _MANY_STEPS_OF_VALUES if self.compiled.columns.categories else _MANY_STEPS
        steps = next((steps for most, steps in table if noise <= most), 1)
        weights = [_GROWTH**step for step in range(steps)]
        return [weight / sum(weights) for weight in weights]

    def _place(self, queryable: Queryable, share: Fraction, rows: float) -> Frame:
        """Return the frame that bins say: rows at the average distance count in full."""
        if self.bins is None:
            return Frame((), (), self._near_limit)
        noise = math.sqrt(float(self.bins.variance())) / PARTS * self._grow(float(_PLACES / share))
        bins = choose_bins(rows, noise, SURE_BINS)
        query = BinCounts(self.start.question, bins)
        counted = numbers_of(queryable.release(query, take_share(self.loss, share)).outputs[0].estimate)
        means, spreads = find_spreads(counted, self.start.compiled, bins, rows, noise)
        return scale_frame(self.start.compiled.numbers, means, spreads, self._near_limit)


def prepare_steps(question: SteppedRegression, forecast: NoiseForecast) -> PreparedSteps:
    """Return how a regression by steps is answered; raises QuestionRefused where it has no private answer."""
    if question.link == "linear":
        # Its gradients are asked by boosted histograms, a round at a time.
        raise QuestionRefused("a linear regression is fitted to moments: sd.models.linear_regression")
    compiled = compile_steps(question, forecast.domain)
    start_loss = take_share(forecast.loss, _start_share(forecast.loss))
    look_share = choose_look_share(start_loss, _MOST_LOOK)
    is_noisier = question.link == "logistic" and forecast.neighbors.relation == "replace"
    bins_epsilon = _LOGISTIC_BINS if is_noisier else BINS_EPSILON
    start = prepare_moments(question.moments, forecast, start_loss, look_share, bins_epsilon)
    prepared = PreparedSteps(question, compiled, forecast.loss, start, 0.0, 0.0)
    step_share, held_share = prepared.shares
    vectors = [query for query in prepared.queries() if isinstance(query, (GradientVector, ScoreCounts))]
    (law,) = forecast.laws(vectors[0], take_share(forecast.loss, step_share))
    unit_noise = math.sqrt(float(law.variance())) / PARTS / math.sqrt(prepared.limit)
    count_noise = 0.0
    if question.folds > 1:
        (count_law,) = forecast.laws(vectors[1], take_share(forecast.loss, held_share))
        count_noise = math.sqrt(float(count_law.variance()))
    matrix = CurvatureMatrix(question, vectors[0].frame, vectors[0].coefficients)
    (curve,) = forecast.laws(matrix, take_share(forecast.loss, prepared.curve_share))
    curve_noise = math.sqrt(float(curve.variance())) / PARTS
    bins: NoiseLaw | None = None
    if question.link == "logistic" and compiled.columns.numbers:
        (bins,) = forecast.laws(BinCounts(question.moments, MOST_BINS), take_share(forecast.loss, _PLACES))
    value_noise: float | None = None
    if question.link == "logistic" and compiled.columns.categories:
        (counts,) = forecast.laws(prepared._value_counts, take_share(forecast.loss, 2 * _VALUES))
        value_noise = math.sqrt(float(counts.variance())) / PARTS
    return PreparedSteps(
        question, compiled, forecast.loss, start, unit_noise, count_noise, bins, curve_noise, value_noise
    )


def _start_share(loss: Loss) -> Fraction:
    return _START["pure" if isinstance(loss, PureDP) else "rho"]


def _whole(coefficients: Floats) -> tuple[int, ...]:
    return tuple(round(float(c) * COEFFICIENT) for c in np.clip(coefficients, -MOST_COEFFICIENT, MOST_COEFFICIENT))


def _describe_coefficients(compiled: CompiledSteps) -> list[str]:
    """Return the name of each coefficient, in the order of the vector."""
    names = ["1", *(number.alias for number in compiled.columns.numbers)]
    for column, declared in zip(compiled.question.categories, compiled.columns.categories, strict=True):
        names += [f"{column.alias} = {'(missing)' if label is None else label}" for label in declared.labels]
    return names


@dataclass(frozen=True)
class _Start:
    """Where the steps begin, the inverse of the curvature by which each goes, and the `total` of counts in errors of 1.

    `vectors` are the directions of the curvature (columns), and `curvatures` those at the mean of y.
    """

    coefficients: Floats
    inverse: Floats
    most_error: int
    total: float | None
    vectors: Floats
    curvatures: Floats

    def invert(self, noise: float) -> Floats:
        """Return the inverse of the curvature for one step along a gradient with noise of this deviation, in errors of 1."""
        by = self.curvatures / (self.curvatures**2 + (_CAUTION * noise) ** 2)
        return (self.vectors * by) @ self.vectors.T

    @classmethod
    def of(cls, moments: NoisyMoments, compiled: CompiledSteps, gradient_noise: float) -> _Start:
        """Return where steps begin: at the mean of y, with the curvature of the moments at it.

        `gradient_noise` is the deviation of a gradient. A direction of curvature c moves by c / (c^2 + noise^2) times its
        gradient: in full where its curvature shows, and hardly where the noise would move a coefficient by more than 1.
        """
        matrix = moments.matrix
        numbers = len(compiled.columns.numbers)
        size = compiled.cells
        steps = STEPS[compiled.question.link]
        coefficients = np.zeros(size)
        noise = math.sqrt(moments.variance)
        if compiled.question.link == "logistic":
            places = list(range(size))
        else:
            # The target is the last number, before the categories.
            places = [*range(1 + numbers), *range(2 + numbers, 1 + size)]
        variances, vectors = np.linalg.eigh(soften(matrix[np.ix_(places, places)], noise))
        lifted = np.maximum(variances, max(_LIFT * noise * math.sqrt(size), 1.0))
        most_error = 1
        counts = 1.0
        total = None
        flatter = 1.0
        if compiled.question.link == "logistic":
            # The target is the last category, of two values.
            share = min(max(float(matrix[0, -1] / moments.rows), 1e-4), 1 - 1e-4)
            coefficients[0] = math.log(share / (1 - share))
            products = vectors.T @ matrix[places, -1]
            # The noise of the products explains a part by itself.
            sums = float((products**2 / lifted).sum()) - moments.variance * float((1 / lifted).sum())
            explained = (sums / moments.rows - share**2) / (share * (1 - share))
            curvature = share * (1 - share)
            flatter = max(min(1.0 - explained, _FLATTER), _FLATTEST)
        else:
            place = 1 + numbers
            target = moments.compiled.numbers[-1]
            scale = moments.frame.scales[-1]
            average = float(matrix[0, place]) / moments.rows
            square = float(matrix[place, place]) / moments.rows - average**2
            spread = scale * math.sqrt(max(square, 2 * noise / moments.rows))
            least, most = _ERROR_SPREADS
            spreads = min(max(_ERROR_NOISE * moments.rows / gradient_noise, least), most)
            most_error = min(max(math.ceil(spreads * spread), 1), 2 * target.width)
            # An error of 1 is of so many counts.
            counts = most_error * target.step
            mean = target.middle + target.step * (moments.frame.centers[-1] + scale * average)
            mean = max(mean, counts / 100)
            coefficients[0] = math.log(mean)
            curvature = _STEEPER * mean
            total = mean * moments.rows / counts
        curvatures = curvature * lifted
        flattened = flatter * curvatures
        by = counts * flattened / (flattened**2 + _CAUTION**2 * steps * (counts * gradient_noise) ** 2)
        return cls(coefficients, (vectors * by) @ vectors.T, most_error, total, vectors, curvatures)

    def step(self, coefficients: Floats, gradient: Floats) -> Floats:
        """Return the coefficients after one step against a gradient, in rows."""
        result: Floats = coefficients - self.inverse @ gradient
        return np.clip(result, -MOST_COEFFICIENT, MOST_COEFFICIENT)

    def calibrate(self, coefficients: Floats, gradient: Floats) -> Floats:
        """Return the coefficients with the constant at which expected counts add up to the counts, as their errors say."""
        assert self.total is not None
        result = coefficients.copy()
        result[0] -= math.log(min(max(1 + float(gradient[0]) / self.total, 0.5), 2.0))
        return result


@dataclass(frozen=True)
class LearnedCurvature:
    """What noisy gradients, at several coefficients, say of the curvature between them.

    Before, the curvature in units of its diagonal, whose `roots` (k,) are given, is 1 on the diagonal and has normal entries of
    deviation `_TOGETHER` (of twice the variance on it), and the gradient at 0 may be anything. Gradients are linear in both, so
    the curvature expected after them solves a linear system: it is their posterior mean. Hennig (2015, Probabilistic
    interpretation of linear solvers, section 2) has the same without noise.
    """

    roots: Floats
    points: list[Floats]
    gradients: list[Floats]
    variances: list[Floats]

    def add(self, coefficients: Floats, gradient: Floats, noise: float) -> None:
        """Learn a gradient (k,) at coefficients (k,) with noise of this deviation in each place."""
        self.points.append(coefficients * self.roots)
        self.gradients.append(gradient / self.roots)
        self.variances.append((noise / self.roots) ** 2)

    @property
    def matrix(self) -> Floats:
        """The curvature (k, k), in units of its diagonal."""
        size = len(self.roots)
        matrix = np.eye(size)
        if len(self.points) == 1:
            return matrix
        # Differences from the first gradient do not depend on that at 0.
        moves = np.array(self.points[1:]) - self.points[0]
        steps = len(moves)
        surprises = np.array(self.gradients[1:]) - self.gradients[0] - moves
        covariance = np.kron(moves @ moves.T, np.eye(size))
        covariance += np.einsum("ib,ja->iajb", moves, moves).reshape(steps * size, -1)
        covariance *= _TOGETHER**2
        covariance += np.kron(np.ones((steps, steps)), np.diag(self.variances[0]))
        covariance += np.diag(np.concatenate(self.variances[1:]))
        weights = np.linalg.solve(covariance, surprises.ravel()).reshape(steps, size)
        outer = _TOGETHER**2 * weights.T @ moves
        result: Floats = matrix + outer + outer.T
        return result

    def solve(self, gradient: Floats, noise: float) -> Floats:
        """Return Newton's step (k,) along a gradient, shorter where rows bend the likelihood more than the diagonal says."""
        curvatures, vectors = np.linalg.eigh(self.matrix)
        curvatures = np.maximum(curvatures, _LEAST_BENT)
        variances = (vectors**2).T @ (_CAUTION * noise / self.roots**2) ** 2
        by = curvatures / (curvatures**2 + variances)
        result: Floats = (vectors * by) @ (vectors.T @ (gradient / self.roots)) / self.roots
        return result


@dataclass(frozen=True)
class _Curvature:
    """The noisy change of the gradient with the coefficients: its inverse where it shows, and the rest, which the noise hides."""

    moments: NoisyMoments
    factor: float
    counts: float
    inverse: Floats
    hidden: Floats

    @classmethod
    def of(cls, moments: NoisyMoments, link: str, counts: float, noise: float) -> _Curvature:
        """Return the curvature of a released matrix: directions that vary less than its noise are hidden, as in design.py.

        `counts` are how many an error of 1 is of, `noise` is the deviation of the gradient.
        """
        factor = 0.25 if link == "logistic" else 1.0
        variances, vectors = np.linalg.eigh(moments.matrix * factor)
        least = max(RIDGE * factor * math.sqrt(moments.variance * moments.size), noise / _SURE)
        shown = vectors[:, variances > max(least, 1e-9)]
        inverse = (shown / variances[variances > max(least, 1e-9)]) @ shown.T
        return cls(moments, factor, counts, inverse, np.eye(moments.size) - shown @ shown.T)

    @classmethod
    def none(cls, size: int) -> _Curvature:
        """Return a curvature of so many coefficients of which nothing is known."""
        nothing: Any = None
        return cls(nothing, 0.0, 1.0, np.zeros((size, size)), np.eye(size))

    def is_long(self, gradient: Floats) -> bool:
        """Return whether Newton's step moves scores so far that it may lead astray, as where classes are nearly separated."""
        moved = self.inverse @ gradient
        return float(moved @ self.moments.matrix @ moved) > _SHORT**2 * self.moments.rows

    def hide(self) -> _Curvature:
        """Return a curvature of which nothing shows."""
        size = self.moments.size
        return replace(self, inverse=np.zeros((size, size)), hidden=np.eye(size))

    def step(
        self, coefficients: Floats, gradient: Floats, noise: float, otherwise: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """Return the coefficients after a step of Newton's, how their noise follows from independent draws, and what is left out.

        In hidden directions they go where they went `otherwise`. The gradient's noise moves them by the inverse times it; that of
        the curvature, to first order, by the inverse times it times the step: the second array (coefficients, draws) has a column
        for each number released, in its deviations. What Newton's step leaves out is about half of the step times how far it
        moves scores, in the mean over the rows, and is of the size of the third array (coefficients,): the logistic function and
        the exponential change their slope by no more than that part.
        """
        moved = -self.inverse @ gradient
        result = coefficients + moved + self.hidden @ (otherwise - coefficients)
        curved = self.factor * math.sqrt(self.moments.variance) * self.moments.weigh(self.inverse, moved)
        draws = np.concatenate([noise * self.inverse, curved], axis=1)
        scores = max(float(moved @ self.moments.matrix @ moved), 0.0) / self.moments.rows
        rest = math.sqrt(min(scores, 1.0)) / 2 * moved
        return np.clip(result, -MOST_COEFFICIENT, MOST_COEFFICIENT), draws, rest

    def deviations(
        self, compiled: CompiledSteps, frame: Frame, draws: Floats, rest: Floats
    ) -> list[tuple[str, Fraction | None]]:
        """Return the deviation of the constant and of each slope, in own units, by the noise and by the rows as a sample.

        None of a coefficient that the noise hides. Of rows as a sample the inverse of the information is the covariance. Of the
        noise the excess kurtosis is returned too, which says how far from normal it is: a sum of w X of independent Laplace draws
        X of variance 1 has 3 sum w^4 / (sum w^2)^2.
        """
        parts: list[tuple[str, Fraction | None]] = []
        for i, contrast in enumerate(_contrasts(compiled, frame)):
            is_hidden = float(contrast @ self.hidden @ contrast) >= _HIDDEN * float(contrast @ contrast)
            squares = (contrast @ draws) ** 2
            variance = float(squares.sum()) + float(contrast @ rest) ** 2
            sample = max(float(contrast @ self.inverse @ contrast), 0.0) / self.counts
            is_laplace = self.moments is not None and self.moments.laplace and variance > 0
            kurtosis = 3 * float((squares**2).sum()) / variance**2 if is_laplace else 0.0
            numbers = {"noise": math.sqrt(variance), "sample": math.sqrt(sample), "kurtosis": kurtosis}
            parts += [
                (f"{words} of coefficient {i}", None if is_hidden else Fraction(number))
                for words, number in numbers.items()
            ]
        return parts


def _contrasts(compiled: CompiledSteps, frame: Frame) -> Floats:
    """Return how the constant and the slopes, in own units and of values above the first, follow from the coefficients.

    Of shape (1 + slopes, coefficients). They do not depend on how a constant is shared between 1 and a category's values.
    """
    numbers = compiled.columns.numbers
    rows = [np.zeros(compiled.cells)]
    rows[0][0] = 1.0
    for i, (number, center, scale) in enumerate(zip(numbers, frame.centers, frame.scales, strict=True)):
        slope = np.zeros(compiled.cells)
        slope[1 + i] = 1.0 / (number.step * scale)
        rows[0] = rows[0] - slope * (number.middle + number.step * center)
        rows.append(slope)
    at = 1 + len(numbers)
    for declared in compiled.columns.categories:
        rows[0][at] += 1.0
        for value in range(1, len(declared.labels)):
            above = np.zeros(compiled.cells)
            above[at] = -1.0
            above[at + value] = 1.0
            rows.append(above)
        at += len(declared.labels)
    return np.array(rows)


@dataclass(frozen=True)
class SteppedFit:
    """The coefficients of a release of a regression by steps: of 1, the numbers in their own units, and all declared values.

    `noise` and `sample` (1 + slopes,) are deviations of the constant and of the slopes, -1 where the noise hides one; `kurtosis`
    is the excess kurtosis of the noise.
    """

    constant: float
    slopes: Floats
    values: tuple[Floats, ...]
    rows: float
    noise: Floats
    sample: Floats
    kurtosis: Floats

    def slopes_from_first(self) -> Floats:
        """Return the slopes of the numbers, and of each category how far its values but the first lie above the first."""
        result: Floats = np.concatenate([self.slopes, *(values[1:] - values[0] for values in self.values)])
        return result


def read_fit(release: Release, question: SteppedRegression, domain: Any) -> SteppedFit:
    """Return the coefficients of a release, in the columns' own units."""
    compiled = compile_steps(question, domain)
    chosen = [float(value) for _, value in release.chosen if value is not None]
    numbers = compiled.columns.numbers
    count = len(numbers)
    centers = np.array([n.middle + n.step * c for n, c in zip(numbers, chosen[:count], strict=True)])
    scales = np.array([n.step * s for n, s in zip(numbers, chosen[count : 2 * count], strict=True)])
    coefficients = np.array(chosen[2 * count : 2 * count + compiled.cells])
    slopes = coefficients[1 : 1 + count] / scales
    values = []
    at = 1 + count
    for declared in compiled.columns.categories:
        values.append(coefficients[at : at + len(declared.labels)])
        at += len(declared.labels)
    noise, sample, kurtosis = (
        np.array([-1.0 if value is None else float(value) for name, value in release.chosen if name.startswith(words)])
        for words in ("noise of coefficient ", "sample of coefficient ", "kurtosis of coefficient ")
    )
    return SteppedFit(
        float(coefficients[0] - slopes @ centers), slopes, tuple(values), chosen[-1], noise, sample, kurtosis
    )


def coefficient_interval(
    model: Any, values: dict[str, float], name: str, confidence: float, of: str
) -> tuple[float, float]:
    """Return the interval of one of the `values` of a model, in order: of the noise, or of the population beside it.

    (-inf, inf) where the noise hides it, as in models of files that were written before there were any. The noise is taken for
    the law of its variance and kurtosis: few Laplace draws reach further than a normal one. Raises UnknownName, DeclarationError.
    """
    if name not in values:
        raise UnknownName(f"no coefficient {name!r:.60}; {nearest(str(name), values)}")
    if of not in ("noise", "population"):
        raise DeclarationError("is noise or population", key="of")
    if isinstance(confidence, bool) or not 0 < confidence < 1:
        raise DeclarationError("lies between 0 and 1, such as 0.95", key="confidence")
    place = list(values).index(name)
    if model.noise is None or model.sample is None or len(model.noise) <= place or model.noise[place] < 0:
        return -math.inf, math.inf
    variance = float(model.noise[place]) ** 2
    # A file, and a release, of before say nothing of the kurtosis.
    is_known = model.kurtosis is not None and len(model.kurtosis) > place
    excess = float(model.kurtosis[place]) if is_known else 0.0
    if of == "population":
        every = variance + float(model.sample[place]) ** 2
        # That of a sum falls with the square of the part that the noise has in the variance.
        excess *= (variance / every) ** 2 if every > 0 else 1.0
        variance = every
    margin = standard_quantile(confidence, min(round(excess, 6), 3.0)) * math.sqrt(variance)
    return values[name] - margin, values[name] + margin
