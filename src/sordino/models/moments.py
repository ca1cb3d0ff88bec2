"""Noisy moments: how they are released, and the matrix that a model reads from a release, with the noise of every entry."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from sordino.ask.queries.bin_counts import BinCounts
from sordino.ask.queries.moment_matrix import (
    DIAGONAL,
    PARTS,
    SQUARE,
    CompiledMoments,
    FirstLook,
    Frame,
    MomentMatrix,
    MomentVector,
    ScaledNumber,
    compile_moments,
)
from sordino.ask.queries.queryable import ExpectedColumn, NoiseForecast, Queryable, ReleaseContent
from sordino.core.domain import Domain
from sordino.core.estimates.noisy import Noisy
from sordino.core.estimates.weighted_sum import normal_quantile
from sordino.core.loss import ZCDP, Loss, PureDP
from sordino.core.noise.laws import NoiseLaw
from sordino.core.release import Key, Output, Release
from sordino.models.bin_look import MOST_BINS, choose_bins, find_spreads

Floats = np.ndarray[Any, np.dtype[np.float64]]

# The share of the loss that finds where the numbers lie and how far they spread, by which they are standardised.
LOOK = Fraction(3, 20)
# A first look has so much of a pure epsilon, up to that share: with less, nothing that follows mends that numbers are
# standardised by noise.
LOOK_EPSILON = Fraction(1, 40)
_MOST_LOOK = Fraction(1, 4)
# Where a look has no more than this, so much of it counts the rows beforehand; and where the mean of a number would have noise of
# that part of half of its range, bins say where numbers lie, in place of sums and squares.
BINS_EPSILON = Fraction(1, 20)
_COUNT = Fraction(1, 5)
_ROUGH = 0.01
# How sure bins are of what they count: products ask more than gradients, since they suffer more from scales that are too narrow.
_SURE_BINS = 57.0
# Rows are shortened so far that the noise of the matrix, in its largest direction, is about this part of the rows. More noise
# costs more than what the shortened rows lose.
_NOISE = 0.03
# Noise of this part of the rows harms nothing, so rows are shortened no further than it takes.
_LITTLE_NOISE = 0.0005
# Beyond a squared length of twice the numbers and this, hardly any row is shortened: normal ones one in thousands.
_TAIL = 20
# A spread is at least so many deviations of the noise of a square.
_LEAST_SPREAD = 2.0
# Limits are multiples of this.
_LIMIT_STEP = 16


@dataclass(frozen=True)
class PreparedMoments:
    """How a moment matrix is answered: a first look at where the numbers lie, then the moments in the frame that follows.

    `look` is the law of the first look, None without numbers, which has `look_share` of the loss; `unit_noise` the deviation of a
    moment, in rows, at a limit of 1. `bins` is the law of counts in bins, None where sums and squares are sure to be better.
    """

    question: MomentMatrix
    compiled: CompiledMoments
    loss: Loss
    look: NoiseLaw | None
    unit_noise: float
    look_share: Fraction = LOOK
    bins: NoiseLaw | None = None

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the answer's keys: the fold, and what the moment is of."""
        return ("fold", "moment")

    @property
    def rows(self) -> int | None:
        """How many moments the answer has."""
        return self.compiled.cells * self.compiled.halves

    @property
    def notes(self) -> tuple[str, ...]:
        """What the moments are of."""
        share = f"{100 * float(self.look_share):.0f}%"
        notes = [
            f"numbers are standardised by a first look at where they lie, for {share} of the loss; a row far from all others "
            "counts less"
        ]
        if self.compiled.droppable:
            notes.append("rows without a value in any of the columns take no part")
        return tuple(notes)

    @property
    def squared_error(self) -> float:
        """The variance of a moment at a limit of 1."""
        return self.unit_noise**2

    def queries(self) -> list[BinCounts | FirstLook | MomentVector]:
        """Return the first look, and the moments in one of the frames that may follow, whose text is as that of any."""
        vector = MomentVector(self.question, _any_frame(self.compiled))
        if self.look is None:
            return [vector]
        counts = [] if self.bins is None else [BinCounts(self.question), BinCounts(self.question, MOST_BINS)]
        return [*counts, FirstLook(self.question), vector]

    def columns(self, confidence: float) -> list[ExpectedColumn]:
        """Return what is known of the error of the moments: it depends on the limit that follows from the first look."""
        least = self.error(confidence)
        words = (
            f"+-{least:.4g} rows at {100 * confidence:g}% in each moment of standardised columns, at the least limit; in "
            "proportion to the limit, which depends on the data and is released"
        )
        return [ExpectedColumn("moments", self.question.describe(), least, "rows", words)]

    def error(self, confidence: float) -> float:
        """Return the error of each moment, in rows, at the least limit: at one standardised unit a number."""
        return normal_quantile(confidence) * self.unit_noise * self.least_limit

    @property
    def least_limit(self) -> float:
        """The least limit that is chosen: rows at the average distance count in full."""
        return float(self.compiled.least_limit) + len(self.compiled.numbers)

    def answer(self, queryable: Queryable) -> ReleaseContent:
        """Look, choose the frame, and release the moments in it."""
        frame, released = self.release(queryable)
        output = released.outputs[0]
        labels = _describe_cells(self.compiled)
        folds = ["all"] if self.compiled.halves == 1 else ["held out", "others"]
        keys = (
            Key("fold", tuple(fold for fold in folds for _ in labels)),
            Key("moment", tuple(labels * len(folds))),
        )
        chosen = [
            (f"{number.alias}: center", Fraction(c))
            for number, c in zip(self.compiled.numbers, frame.centers, strict=True)
        ]
        chosen += [
            (f"{number.alias}: scale", Fraction(s))
            for number, s in zip(self.compiled.numbers, frame.scales, strict=True)
        ]
        chosen.append(("limit", frame.limit))
        return ReleaseContent(keys, (Output("moments", output.estimate, output.mechanism),), chosen=tuple(chosen))

    def release(self, queryable: Queryable) -> tuple[Frame, Release]:
        """Look, choose the frame, and ask for the moments in it."""
        frame, _ = self.find_frame(queryable)
        return frame, self.release_in(queryable, frame)

    def find_frame(self, queryable: Queryable, rows: float | None = None) -> tuple[Frame, float | None]:
        """Look, and return the frame and about how many rows there are; None without numbers, where there is no look.

        `rows` are those that `count_rows` found, if it was called before.
        """
        if self.look is None:
            return _any_frame(self.compiled), None
        rows = self.count_rows(queryable) if rows is None else rows
        share = take_share(self.loss, self.look_share - self.count_share)
        if rows is not None and self.bins is not None and self._noise_of(self.look) > _ROUGH * rows:
            noise = self._noise_of(self.bins)
            bins = choose_bins(rows, noise, _SURE_BINS)
            counted = numbers_of(queryable.release(BinCounts(self.question, bins), share).outputs[0].estimate)
            return self._frame_of(*find_spreads(counted, self.compiled, bins, rows, noise), rows), rows
        look = numbers_of(queryable.release(FirstLook(self.question), share).outputs[0].estimate)
        return self.choose_frame(look), max(float(look[0]), 1.0)

    def count_rows(self, queryable: Queryable) -> float | None:
        """Return about how many rows there are, where that decides how to look; else None, at no cost."""
        if self.bins is None:
            return None
        share = take_share(self.loss, self.count_share)
        estimate = queryable.release(BinCounts(self.question), share).outputs[0].estimate
        return max(float(numbers_of(estimate)[0]), 1.0)

    @property
    def count_share(self) -> Fraction:
        """The share of the loss that counts the rows before the look."""
        return Fraction(0) if self.bins is None else self.look_share * _COUNT

    def _noise_of(self, law: NoiseLaw) -> float:
        return math.sqrt(float(law.variance())) / PARTS

    def release_in(self, queryable: Queryable, frame: Frame) -> Release:
        """Ask for the moments in a frame."""
        spent = Fraction(0) if self.look is None else self.look_share
        return queryable.release(MomentVector(self.question, frame), take_share(self.loss, 1 - spent))

    def choose_frame(self, look: Floats) -> Frame:
        """Return the frame that follows from a noisy first look, of shape (1 + 2 p): means, spreads, and a limit.

        The limit lets rows at the average distance count in full, and more as the noise allows.
        """
        assert self.look is not None
        noise = self._noise_of(self.look)
        rows = max(float(look[0]), 1.0)
        sums, squares = np.split(look[1:], 2)
        means = np.clip(sums / rows, -1.0, 1.0)
        variances = (squares / float(SQUARE) + rows / 2) / rows - means**2
        return self._frame_of(means, np.sqrt(np.clip(variances, _LEAST_SPREAD * noise / rows, 1.0)), rows)

    def _frame_of(self, means: Floats, spreads: Floats, rows: float) -> Frame:
        """Return the frame of means and spreads, in halves of the declared ranges, with the limit that the noise allows."""
        numbers = self.compiled.numbers
        frame = scale_frame(numbers, means, spreads, Fraction(1))
        size = self.compiled.features
        affordable = rows / (self.unit_noise * math.sqrt(size))
        enough = self.least_limit + len(numbers) + _TAIL
        wanted = max(min(_NOISE * affordable, enough), _LITTLE_NOISE * affordable)
        most = float(self.compiled.most_limit(frame.centers, frame.scales))
        limit = min(max(wanted, self.least_limit), most)
        return replace(frame, limit=Fraction(math.ceil(limit * _LIMIT_STEP), _LIMIT_STEP))


def prepare_moments(
    question: MomentMatrix,
    forecast: NoiseForecast,
    share: Loss | None = None,
    look_share: Fraction | None = None,
    bins_epsilon: Fraction = BINS_EPSILON,
) -> PreparedMoments:
    """Return how a moment matrix is answered for a loss, that of the forecast unless it is a part of another question's.

    A look of a pure epsilon up to `bins_epsilon` may be one of bins.
    Raises QuestionRefused where it has no private answer.
    """
    loss = forecast.loss if share is None else share
    look_share = choose_look_share(loss, _MOST_LOOK) if look_share is None else look_share
    compiled = compile_moments(question, forecast.domain)
    look: NoiseLaw | None = None
    bins: NoiseLaw | None = None
    rest = Fraction(1)
    if compiled.numbers:
        places = look_share
        if isinstance(loss, PureDP) and loss.epsilon * look_share <= bins_epsilon:
            places *= 1 - _COUNT
            (bins,) = forecast.laws(BinCounts(question, MOST_BINS), take_share(loss, places))
        (look,) = forecast.laws(FirstLook(question), take_share(loss, places))
        rest -= look_share
    frame = _any_frame(compiled)
    (law,) = forecast.laws(MomentVector(question, frame), take_share(loss, rest))
    unit_noise = math.sqrt(float(law.variance())) / PARTS / float(frame.limit)
    return PreparedMoments(question, compiled, loss, look, unit_noise, look_share, bins)


def scale_frame(numbers: Sequence[ScaledNumber], means: Floats, spreads: Floats, limit: Fraction) -> Frame:
    """Return the frame of means and spreads, in halves of the declared ranges."""
    centers = []
    scales = []
    for number, mean, spread in zip(numbers, means, spreads, strict=True):
        centers.append(round(float(mean) * number.width))
        scales.append(min(max(round(float(spread) * number.width), number.least_scale), number.width))
    return Frame(tuple(centers), tuple(scales), limit)


def choose_look_share(loss: Loss, most: Fraction) -> Fraction:
    """Return the share that a first look has of a loss: more of a small pure epsilon, up to `most`."""
    return max(LOOK, min(LOOK_EPSILON / loss.epsilon, most)) if isinstance(loss, PureDP) else LOOK


def numbers_of(estimate: Any) -> Floats:
    """Return a noisy vector in its own unit."""
    assert isinstance(estimate, Noisy)
    result: Floats = np.array([float(step) for step in estimate.steps]) * float(estimate.unit)
    return result


def take_share(loss: Loss, share: Fraction) -> Loss:
    """Return a part of a loss in the same currency."""
    if isinstance(loss, PureDP):
        return PureDP(loss.epsilon * share)
    assert isinstance(loss, ZCDP)
    return ZCDP(loss.rho * share, loss.delta)


def _any_frame(compiled: CompiledMoments) -> Frame:
    """Return a frame that looks at no data: centers in the middle, scales of a quarter of the range."""
    scales = tuple(max(number.width // 4, number.least_scale) for number in compiled.numbers)
    return Frame((0,) * len(scales), scales, compiled.least_limit + len(scales))


def _describe_cells(compiled: CompiledMoments) -> list[str]:
    """Return what each moment of one fold is of, in the order of the vector."""
    numbers = [number.alias for number in compiled.numbers]
    names = [column.alias for column in compiled.question.categories]
    labels: list[str] = []
    for block in compiled.blocks:
        product = " * ".join(numbers[i] for i in block.numbers)
        if not block.categories:
            labels.append(product or "rows")
            continue
        cells = [""]
        for category in block.categories:
            values = [_label_text(label) for label in compiled.categories[category].labels]
            cells = [f"{cell}{', ' if cell else ''}{names[category]} = {value}" for cell in cells for value in values]
        labels += [f"{product} where {cell}" if product else f"rows where {cell}" for cell in cells]
    return labels


def _label_text(label: Any) -> str:
    return "(missing)" if label is None else str(label)


@dataclass(frozen=True)
class NoisyMoments:
    """The matrix of moments of 1, the standardised numbers and the indicators of all declared values, in this order.

    `matrix` (d, d) is symmetric. `vector` are the released moments in rows, which have independent noise of variance
    `variance` each, with the tails of a Laplace law if `laplace`; `places` says by rows (cell, row, column, weight) which
    entries of the matrix each of them is in.
    """

    compiled: CompiledMoments
    frame: Frame
    vector: Floats
    variance: float
    laplace: bool = False

    @property
    def rows(self) -> float:
        """The noisy number of rows, 1 at least."""
        return max(float(self.vector[0] / DIAGONAL), 1.0)

    @functools.cached_property
    def starts(self) -> tuple[int, ...]:
        """The place of the first indicator of each category in the matrix."""
        places = [1 + len(self.compiled.numbers)]
        for declared in self.compiled.categories:
            places.append(places[-1] + len(declared.labels))
        return tuple(places)

    @property
    def size(self) -> int:
        """The number of rows of the matrix."""
        return self.starts[-1]

    @functools.cached_property
    def places(self) -> Floats:
        """Which entry, on or above the diagonal, each moment adds to, and with which weight: (n, 4)."""
        return place_moments(self.compiled)

    @functools.cached_property
    def matrix(self) -> Floats:
        """The matrix."""
        matrix = np.zeros((self.size, self.size))
        cells, one, other = self.places[:, :3].astype(np.int64).T
        np.add.at(matrix, (one, other), self.places[:, 3] * self.vector[cells])
        upper = np.triu(matrix, 1)
        result: Floats = np.triu(matrix) + upper.T
        return result

    def spread(self, left: Floats, right: Floats) -> Floats:
        """Return the covariance of the noise in left' M right, for each row of `left` (k, d) with one `right` (d): (k, k)."""
        weights = self.weigh(left, right)
        result: Floats = self.variance * (weights @ weights.T)
        return result

    def weigh(self, left: Floats, right: Floats) -> Floats:
        """Return how left' M right depends on each moment, for each row of `left` (k, d) with one `right` (d): (k, n)."""
        cells, one, other = self.places[:, :3].astype(np.int64).T
        weight = self.places[:, 3]
        both = left[:, one] * right[other] + np.where(one == other, 0.0, 1.0) * left[:, other] * right[one]
        weights = np.zeros((len(left), len(self.vector)))
        np.add.at(weights.T, cells, (weight * both).T)
        return weights

    def add(self, other: NoisyMoments) -> NoisyMoments:
        """Return the moments of the rows of both, whose noise adds up."""
        return NoisyMoments(
            self.compiled, self.frame, self.vector + other.vector, self.variance + other.variance, self.laplace
        )


@functools.lru_cache(maxsize=8)
def place_moments(compiled: CompiledMoments) -> Floats:
    """Return for each moment the entries of the matrix, on or above the diagonal, that it is in: (cell, row, column, weight)."""
    starts = [1 + len(compiled.numbers)]
    for declared in compiled.categories:
        starts.append(starts[-1] + len(declared.labels))
    sizes = [len(declared.labels) for declared in compiled.categories]
    entries: list[tuple[float, float, float, float]] = []
    cell = 0
    for block in compiled.blocks:
        numbers = [1 + number for number in block.numbers]
        for key in range(block.cells):
            if len(block.categories) == 2:
                first, second = block.categories
                place = starts[first] + key // sizes[second], starts[second] + key % sizes[second]
                entries.append((cell, *place, 1.0))
            elif block.categories:
                indicator = starts[block.categories[0]] + key
                entries.append((cell, numbers[0] if numbers else 0, indicator, 1.0))
                if not numbers:
                    # An indicator is its own square.
                    entries.append((cell, indicator, indicator, 1.0))
            else:
                row, column = (0, 0, *numbers)[-2:]
                entries.append((cell, row, column, float(1 / block.factor)))
            cell += 1
    return np.array(entries, dtype=np.float64)


def read_moments(release: Release, question: MomentMatrix, domain: Domain) -> list[NoisyMoments]:
    """Return the moments of a release: of all rows, or of the held-out ones and of the others."""
    compiled = compile_moments(question, domain)
    return moments_of(release.outputs[0].estimate, compiled, read_frame(release, compiled))


def moments_of(estimate: Any, compiled: CompiledMoments, frame: Frame) -> list[NoisyMoments]:
    """Return the moments of an estimate in a frame: of all rows, or of the held-out ones and of the others."""
    assert isinstance(estimate, Noisy)
    unit = float(estimate.unit)
    steps = np.array([float(step) for step in estimate.steps]) * unit
    variance = float(estimate.law.variance()) * unit**2
    laplace = estimate.law.continuous().laplace_scale is not None
    return [NoisyMoments(compiled, frame, part, variance, laplace) for part in np.split(steps, compiled.halves)]


def read_frame(release: Release, compiled: CompiledMoments) -> Frame:
    """Return the frame of released moments."""
    chosen = [value for _, value in release.chosen]
    steps = [int(value) for value in chosen[:-1] if value is not None]
    count = len(compiled.numbers)
    limit = chosen[-1]
    assert limit is not None
    return Frame(tuple(steps[:count]), tuple(steps[count:]), limit)


def join_moments(parts: Sequence[NoisyMoments]) -> NoisyMoments:
    """Return the moments of all rows."""
    return functools.reduce(NoisyMoments.add, parts)
