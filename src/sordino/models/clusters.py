"""k-means: a private start says where the clusters are, and of many columns private steps over the rows move the centers.

Few columns start from rows of a private model of them (`sd.synth.fit`), which knows long tails; more from private counts of a
grid along the directions in which the rows spread most, as a model of pairs no longer knows which of many columns go together.
Iterations over either cost nothing. A step over the table moves each center to the mean of its nearest rows, with noise that is
small beside what a start blurs. (DPLloyd after a private start: Su, Cao, Li, Bertino, Jin 2016, EUGkM; projection before it:
Balcan, Dick, Liang, Mou, Zhang 2017.)
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar, Unpack

import numpy as np

from sordino.ask.queries.cluster_sums import (
    BIN,
    MOST_DISTANCE,
    MOST_PRODUCTS,
    ClusterDistances,
    ClusterSums,
    DirectionCounts,
)
from sordino.ask.queries.moment_matrix import (
    SQUARE,
    CompiledMoments,
    FirstLook,
    Frame,
    MomentMatrix,
    MomentVector,
    compile_moments,
)
from sordino.ask.queries.queryable import Adaptive, Queryable, ReleaseContent
from sordino.core.domain import Domain
from sordino.core.errors import DeclarationError, QuestionRefused
from sordino.core.estimates.noisy import Noisy
from sordino.core.loss import ZCDP, Loss, LossArguments, PureDP, show_arguments
from sordino.core.noise.rng import Rng
from sordino.core.release import Release
from sordino.models.columns import Floats, Predictors, check_rows, groups_of, note_rows, read_numbers_of, require_range
from sordino.models.design import frame_units
from sordino.models.moments import LOOK, PreparedMoments, moments_of, take_share
from sordino.models.record import PricedModel, Provenance, clip_cell, provenance_of, require_fit

T = TypeVar("T")
# Points that are drawn from the start: more hardly move the centers.
_POINTS = 20_000
_STARTS = 8
_ROUNDS = 60
# So many columns are clustered on rows of a private model, which has the whole loss: rare clusters show in it. On five numbers
# of Adult, of long tails, that costs 1.01 times as much as without privacy at a pure epsilon of 1; with 70% of the loss and
# three steps over the table 1.19, and by a grid 1.17. On eight columns of normal clusters a model costs up to 2, a grid with
# steps 1.00 to 1.17.
_FEW = 5
# The shares of the loss of the covariance and of the grid; the steps over the table have the rest.
_COVARIANCE = Fraction(1, 5)
_GRID = Fraction(7, 20)
_STEPS = 3
# The last part of the loss measures how far rows lie from their centers. Distances are cut at so many times what is known of them
# in the mean, and that is no less than this part of it.
_MEASURED = Fraction(1, 20)
_CUT = 6.0
_LEAST_MEASURED = 0.05
# Where noise may stretch directions by more than this part of the variance of a column, a second look at means and squares takes
# the place of the covariance, and directions are drawn at random: 20 columns in 5,000 rows at a pure epsilon of 1 cost 5.1 times
# as much as without privacy by the noisy covariance, 1.0 to 2.2 so.
_MOST_STRETCH = 1.0
# A grid reaches so many standard deviations to both sides of the mean, in bins as wide as the number of cells allows.
_REACH = 2.5
_BINS = (5, 20)
_MOST_CELLS = 1 << 15
# There are as many cells as leave rows in them: about this part of the cells of a grid hold most of the rows, and each should
# hold so many deviations of its noise in the mean. A cell whose count and those beside it sum to fewer deviations is taken as 0.
_HELD = 0.1
_SHOWN = 3.0
# Rows far from their center count in full where the noise of a mean is then about this part of the spread in its cluster.
_NOISE = 0.03
# Beyond a squared length of three times the columns and this, hardly any row lies from its center.
_TAIL = 20.0
# A spread within clusters is at least this part of the spread of all rows.
_LEAST_SPREAD = 0.35
# A center moves as if it had at least so many rows that the noise of its mean is this part of the spread.
_SURE = 0.5


@dataclass(frozen=True, repr=False)
class ClustersModel(PricedModel):
    """k-means: `centers` (clusters, columns) in the columns' units, and `shares` of the rows in each cluster.

    `spread` is the mean squared distance to the nearest center, in the units in which distances were measured: the columns' own,
    or, where they were scaled, of their declared ranges: a noisy mean over the table's own rows. At a pure epsilon of 1, on 90
    tables of 8,000 rows in four clusters of two to fourteen columns, it was .92 to 1.13 times what it estimates.
    """

    predictors: Predictors
    centers: Floats
    shares: Floats
    spread: float
    units: Floats
    provenance: Provenance

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns, in the order of `centers`."""
        return tuple(name for name, _ in self.predictors.declared)

    def predict(self, frame: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the place of the nearest center for each row of a frame: (rows,), -1 where a cell is missing."""
        numbers = self.predictors.numbers_of(frame)
        places = nearest_centers(np.nan_to_num(numbers) / self.units, self.centers / self.units)[0]
        return np.where(np.isnan(numbers).any(axis=1), -1, places)

    def to_sql(self) -> list[str]:
        """Return for each center the squared distance to it as an expression of SQL: the least one is the cluster."""
        expressions = []
        for center in self.centers:
            parts = []
            for (name, declared), value, unit in zip(self.predictors.declared, center, self.units, strict=True):
                parts.append(f"POWER(({clip_cell(name, declared)} - {float(value)!r}) / {float(unit)!r}, 2)")
            expressions.append(" + ".join(parts))
        return expressions

    def facts(self) -> dict[str, str]:
        """Return the centers and shares."""
        facts = {"columns": ", ".join(self.columns)}
        for i, (center, share) in enumerate(zip(self.centers, self.shares, strict=True)):
            parts = ", ".join(f"{name} {value:.4g}" for name, value in zip(self.columns, center, strict=True))
            facts[f"cluster {i + 1}"] = f"{100 * share:.1f}% of the rows; {parts}"
        return facts

    def check(self) -> None:
        """Raise ValueError where the parts of a stored model do not fit each other."""
        require_fit(
            self.centers.shape == (len(self.shares), len(self.columns)) and len(self.units) == len(self.columns)
        )

    def describe(self) -> str:
        """Return the model in a few words."""
        return f"{len(self.centers)} clusters of {len(self.columns)} columns"


@show_arguments(LossArguments)
def kmeans(
    table: Adaptive,
    *,
    columns: Sequence[str],
    clusters: int,
    scale: bool = False,
    assume_rows: int | None = None,
    rng: Rng | None = None,
    **loss: Unpack[LossArguments],
) -> ClustersModel:
    """Return the centers of k-means over some numbers, by distances in their own units, or with `scale` in declared ranges.

    One charge. Up to five columns are clustered on rows of a private model. Of more, the covariance and a grid along the widest
    directions find about where rows lie, and three steps over the table then move the centers to the noisy means of their nearest
    rows. Starts (k-means++, Arthur and Vassilvitskii 2007) and rounds (Lloyd 1982) over drawn rows draw through `rng`.

    Raises UnknownName, QuestionRefused or DeclarationError before anything is spent; BudgetExhausted, ChargedError as ask.
    """
    predictors = check_clusters(table, columns, clusters, assume_rows)
    on_server: Any = getattr(table, "fit_prediction", None)
    if on_server is not None:
        if rng is not None:
            raise QuestionRefused("a server draws with bits of its own: leave rng out")
        arguments = {"columns": list(columns), "clusters": clusters, "scale": scale, "assume_rows": assume_rows}
        model: ClustersModel = on_server("kmeans", **arguments, **loss)
        return model
    declared: list[Any] = [column for _, column in predictors.declared]
    ranges = [float(column.upper) - float(column.lower) for column in declared]
    units = np.array(ranges) if scale else np.ones(len(ranges))
    draws = Rng.secure() if rng is None else rng
    algorithm = _Clustering(predictors, clusters, units, table.domain, draws)
    algorithm.check(table)
    names = ", ".join(name for name, _ in predictors.declared)
    fit, release = table.adapt(
        algorithm.run,
        describe=f"k-means, {clusters} clusters of {names}",
        record=algorithm.record,
        draws="vectors",
        **loss,
    )
    about = provenance_of(release, note_rows(fit.rows, clusters * len(ranges)))
    return ClustersModel(predictors, fit.centers, fit.shares, fit.spread, units, about)


def check_clusters(table: Any, columns: Any, clusters: Any, assume_rows: int | None) -> Predictors:
    """Return the columns of k-means; raises what `kmeans` raises before a charge."""
    predictors = read_numbers_of(table, columns, "clusters")
    for name, column in predictors.declared:
        require_range(name, column)
    if isinstance(clusters, bool) or not isinstance(clusters, int) or not 1 <= clusters <= 1000:
        raise DeclarationError("must be a whole number from 1 to 1,000", key="clusters")
    if clusters * len(predictors.declared) > MOST_PRODUCTS:
        raise QuestionRefused(
            f"{clusters} clusters of {len(predictors.declared)} columns are {clusters * len(predictors.declared):,} "
            f"numbers, above {MOST_PRODUCTS:,}: name fewer columns or clusters"
        )
    check_rows(assume_rows, clusters)
    return predictors


def nearest_centers(points: Floats, centers: Floats) -> tuple[np.ndarray[Any, np.dtype[np.int64]], Floats]:
    """Return the place of the nearest center of each point, and the squared distance to it."""
    squares = (points**2).sum(axis=1)[:, None] - 2.0 * points @ centers.T + (centers**2).sum(axis=1)[None]
    places = squares.argmin(axis=1)
    return places, np.clip(squares[np.arange(len(points)), places], 0.0, None)


def cluster(points: Floats, clusters: int, rng: Rng) -> tuple[Floats, np.ndarray[Any, np.dtype[np.int64]], float]:
    """Return the best of several runs of k-means over public points: centers, the cluster of each point, mean square."""
    best: tuple[float, Floats] | None = None
    for _ in range(_STARTS):
        centers = _start(points, clusters, rng)
        for _ in range(_ROUNDS):
            places, _ = nearest_centers(points, centers)
            sums = np.column_stack([np.bincount(places, column, clusters) for column in points.T])
            counts = np.bincount(places, minlength=clusters)[:, None]
            moved = np.where(counts > 0, sums / np.maximum(counts, 1), centers)
            if np.allclose(moved, centers):
                break
            centers = moved
        spread = float(nearest_centers(points, centers)[1].mean())
        if best is None or spread < best[0]:
            best = spread, centers
    assert best is not None
    places, _ = nearest_centers(points, best[1])
    return best[1], places, best[0]


def _start(points: Floats, clusters: int, rng: Rng) -> Floats:
    """Return first centers, each drawn with a probability in proportion to its squared distance to those before.

    Of several drawn for a place, the one that leaves the least distances is taken.
    """
    trials = 2 + int(math.log(clusters))
    draws = rng.uniform_doubles(clusters * trials).reshape(clusters, trials)
    centers = [points[int(draws[0, 0] * len(points))]]
    distances = nearest_centers(points, np.array(centers))[1]
    for row in draws[1:]:
        weights = np.cumsum(distances)
        places = np.minimum(np.searchsorted(weights, row * weights[-1], side="right"), len(points) - 1)
        left = [np.minimum(distances, nearest_centers(points, points[place : place + 1])[1]) for place in places]
        best = int(np.argmin([x.sum() for x in left]))
        centers.append(points[places[best]])
        distances = left[best]
    return np.array(centers)


def find_shown(counts: Floats, deviation: float) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which cells of a grid of noisy counts hold rows: those far above the noise, or with rows beside them."""
    window = counts.copy()
    for axis in range(counts.ndim):
        # Views: what is added to them is added to the window.
        beside = np.moveaxis(window, axis, 0)
        own = np.moveaxis(counts, axis, 0)
        beside[1:] += own[:-1]
        beside[:-1] += own[1:]
    near = window >= _SHOWN * math.sqrt(2 * counts.ndim + 1) * deviation
    # The noise of one cell among these hardly comes so far.
    alone = deviation * max(math.log(counts.size), _SHOWN)
    return (counts >= alone) | (near & (counts >= deviation))


# ---- The algorithm: it reads the table through a Queryable alone


@dataclass(frozen=True)
class _Clusters:
    """Centers in the columns' units and shares, the largest first, the mean square, and about how many rows there are."""

    centers: Floats
    shares: Floats
    spread: float
    rows: float


@dataclass(frozen=True)
class _Spread:
    """How rows lie, in units of distance: their number, the mean (p,), the covariance (p, p), and whether it is whole.

    Where it is not, it has variances alone.
    """

    rows: float
    mean: Floats
    covariance: Floats
    has_directions: bool


@dataclass(frozen=True)
class _Clustering:
    predictors: Predictors
    clusters: int
    units: Floats
    domain: Domain
    rng: Rng

    @functools.cached_property
    def question(self) -> MomentMatrix:
        """The numbers, as a question names them."""
        return MomentMatrix(groups_of(self.predictors.numbers, self.domain))

    @functools.cached_property
    def compiled(self) -> CompiledMoments:
        """The numbers over the domain."""
        return compile_moments(self.question, self.domain)

    def check(self, table: Any) -> None:
        """Raise QuestionRefused for what has no private answer, before a charge."""
        numbers = self.compiled.numbers
        middle = np.array([number.middle for number in numbers]) / self.units
        width = np.array([number.step * number.width for number in numbers]) / self.units
        self._step_at(np.tile(middle, (self.clusters, 1)), width, 1.0).parts(self.domain, table.neighbors)
        FirstLook(self.question).parts(self.domain, table.neighbors)
        self._distances_to(np.tile(middle, (self.clusters, 1)), 1.0)[0].parts(self.domain, table.neighbors)

    def run(self, queryable: Queryable) -> _Clusters:
        """Find how rows spread and where centers lie: by a private model of few columns, by a grid and steps of more."""
        if len(self.units) <= _FEW:
            return self._cluster_model(queryable)
        spread = self._find_spread(queryable)
        centers, weights = self._find_centers(queryable, spread)
        for _ in range(_STEPS):
            centers, weights = self._move(queryable, spread, centers, weights)
        shares = weights / max(float(weights.sum()), 1e-9)
        # What the rows spread by about their mean, less what the centers do.
        whole = float(np.trace(spread.covariance))
        within = whole - float(shares @ ((centers - shares @ centers) ** 2).sum(axis=1))
        about = max(within, _LEAST_SPREAD**2 * whole)
        return self._sorted(centers, weights, self._measure_spread(queryable, centers, about, spread.rows), spread.rows)

    def record(self, fit: _Clusters) -> ReleaseContent:
        """Return what the ledger keeps: shares and centers."""
        chosen: list[tuple[str, Fraction | None]] = []
        for i, (center, share) in enumerate(zip(fit.centers.tolist(), fit.shares.tolist(), strict=True)):
            chosen.append((f"cluster {i + 1}: share", Fraction(share)))
            for (name, _), value in zip(self.predictors.declared, center, strict=True):
                chosen.append((f"cluster {i + 1}: {name}", Fraction(value)))
        return ReleaseContent(chosen=tuple(chosen))

    def _cluster_model(self, queryable: Queryable) -> _Clusters:
        """Return the clusters of rows that are drawn from a private model, and the spread of the table's own rows about them."""
        from sordino.synth.fitting import fit

        loss = take_share(queryable.loss, 1 - _MEASURED)
        table: Any = _InnerTable(queryable, loss)
        amount: Any = {"epsilon": loss.epsilon} if isinstance(loss, PureDP) else {"rho": loss.amounts()["rho"]}
        model = fit(table, columns=[name for name, _ in self.predictors.declared], rng=self.rng, **amount)
        points = self.predictors.numbers_of(model.sample(rows=_POINTS, rng=self.rng)) / self.units
        points = points[~np.isnan(points).any(axis=1)]
        centers, nearest, within = cluster(points, self.clusters, self.rng)
        weights = np.bincount(nearest, minlength=self.clusters).astype(np.float64)
        rows = max(float(model.rows), 1.0)
        return self._sorted(centers, weights, self._measure_spread(queryable, centers, within, rows), rows)

    def _measure_spread(self, queryable: Queryable, centers: Floats, about: float, rows: float) -> float:
        """Return the mean squared distance of the table's rows to their nearest centers, in units of distance.

        What a model or moments say (`about`) may be twice that, as noise puts rows between clusters, and moves centers.
        """
        query, most = self._distances_to(centers, _CUT * about)
        estimate: Any = queryable.release(query, take_share(queryable.loss, _MEASURED)).outputs[0].estimate
        assert isinstance(estimate, Noisy)
        measured = float(estimate.steps[0] * estimate.unit) * most / rows
        return min(max(measured, _LEAST_MEASURED * about), most)

    def _distances_to(self, centers: Floats, most: float) -> tuple[ClusterDistances, float]:
        """Return the question of distances to centers, cut at about the square `most`, and that cut, in units of distance."""
        squares, parts = self._distance_units()
        cut = min(max(math.ceil(most * parts), 1), MOST_DISTANCE)
        return ClusterDistances(self.question, self._places(centers), squares, cut), cut / parts

    def _sorted(self, centers: Floats, weights: Floats, within: float, rows: float) -> _Clusters:
        """Return clusters in the columns' units, the largest first."""
        shares = weights / max(float(weights.sum()), 1e-9)
        order = np.argsort(-shares, kind="stable")
        return _Clusters(centers[order] * self.units, shares[order], within, rows)

    def _find_spread(self, queryable: Queryable) -> _Spread:
        """Return how rows lie, by their noisy moments."""
        loss = take_share(queryable.loss, _COVARIANCE)
        looked: Any = queryable.release(FirstLook(self.question), take_share(loss, LOOK)).outputs[0].estimate
        rest = take_share(loss, 1 - LOOK)
        scales = tuple(number.width for number in self.compiled.numbers)
        limit = Fraction(1 + len(scales))
        any_vector = MomentVector(self.question, Frame((0,) * len(scales), scales, limit))
        # In proportion to the limit.
        unit_noise = self._noise_of(queryable, any_vector, rest) / float(limit)
        prepared = PreparedMoments(self.question, self.compiled, loss, looked.law, unit_noise)
        look = np.array([float(step * looked.unit) for step in looked.steps])
        frame = prepared.choose_frame(look)
        # The noise of a symmetric matrix stretches directions by up to about 2 sqrt(p) deviations.
        stretch = 2 * math.sqrt(len(scales)) * unit_noise * float(frame.limit) / max(float(look[0]), 1.0)
        if stretch > _MOST_STRETCH:
            return self._look_again(queryable, rest)
        estimate = queryable.release(MomentVector(self.question, frame), rest).outputs[0].estimate
        moments = moments_of(estimate, self.compiled, frame)[0]
        centers, scale = frame_units(moments)
        means = moments.matrix[0, 1:] / moments.rows
        covariance = moments.matrix[1:, 1:] / moments.rows - np.outer(means, means)
        own = scale / self.units
        # A variance is at least what its noise may be.
        noise = math.sqrt(moments.variance) / moments.rows
        np.fill_diagonal(covariance, np.clip(np.diag(covariance), noise, None))
        return _Spread(moments.rows, (centers + scale * means) / self.units, own[:, None] * covariance * own, True)

    def _look_again(self, queryable: Queryable, loss: Loss) -> _Spread:
        """Return how rows lie where noise would hide how columns go together: by means and squares alone."""
        estimate: Any = queryable.release(FirstLook(self.question), loss).outputs[0].estimate
        look = np.array([float(step * estimate.unit) for step in estimate.steps])
        rows = max(float(look[0]), 1.0)
        sums, squares = np.split(look[1:], 2)
        means = np.clip(sums / rows, -1.0, 1.0)
        variances = (squares / float(SQUARE) + rows / 2) / rows - means**2
        # Shrunk to their mean by as much as their noise moves them apart (James and Stein 1961).
        noise = math.sqrt(float(estimate.law.variance())) * float(estimate.unit) / float(SQUARE) / rows
        about = max(float(variances.mean()), noise / math.sqrt(len(variances)))
        apart = float(((variances - about) ** 2).sum())
        kept = max(1 - (len(variances) - 3) * noise**2 / max(apart, 1e-300), 0.0)
        variances = np.clip(about + kept * (variances - about), 0.7 * about, 1.0)
        numbers = self.compiled.numbers
        middles = np.array([number.middle for number in numbers])
        halves = np.array([number.step * number.width for number in numbers])
        scaled = variances * (halves / self.units) ** 2
        return _Spread(rows, (middles + halves * means) / self.units, np.diag(scaled), False)

    def _directions(self, spread: _Spread) -> tuple[Floats, Floats]:
        """Return directions (p, p), each a column of unit length at right angles to the others, and the variance along each.

        Those of the widest spread come first; where it is not known how columns go together, they are drawn at random.
        """
        if spread.has_directions:
            variances, vectors = np.linalg.eigh(spread.covariance)
            return variances[::-1], vectors[:, ::-1]
        size = len(spread.mean)
        draws = self.rng.uniform_doubles(2 * size * size).reshape(2, size, size)
        # Normal numbers (Box and Muller 1958).
        normal = np.sqrt(-2 * np.log1p(-draws[0])) * np.cos(2 * math.pi * draws[1])
        vectors = np.linalg.qr(normal)[0]
        return np.einsum("ij,ik,kj->j", vectors, spread.covariance, vectors), vectors

    def _find_centers(self, queryable: Queryable, spread: _Spread) -> tuple[Floats, Floats]:
        """Return centers (clusters, p), in units of distance, and the rows of each, by a grid along the widest directions."""
        loss = take_share(queryable.loss, _GRID)
        variances, vectors = self._directions(spread)
        noise = self._noise_of(queryable, self._grid(spread, vectors[:, :1], variances[:1], 2)[0], loss)
        cells = min(max(spread.rows / (_HELD * _SHOWN * noise), 2.0), float(_MOST_CELLS))
        # Centers lie in as many directions as there are clusters, less one.
        most = min(len(variances), max(self.clusters - 1, 1))
        count = min(max(int(math.log(cells) / math.log(_BINS[0])), 1), most)
        bins = min(max(int(cells ** (1 / count)), 2), _BINS[1])
        vectors = vectors[:, :count]
        query, widths = self._grid(spread, vectors, variances[:count], bins)
        estimate: Any = queryable.release(query, loss).outputs[0].estimate
        counts = np.array([float(step) for step in estimate.steps]) * float(estimate.unit)
        deviation = math.sqrt(float(estimate.law.variance())) * float(estimate.unit)
        shown = np.where(find_shown(counts.reshape((bins,) * count), deviation).ravel(), counts, 0.0)
        if not shown.any():
            shown = np.maximum(counts, 0.0) + 1e-9
        draws = self.rng.uniform_doubles(_POINTS * (1 + count)).reshape(1 + count, _POINTS)
        totals = np.cumsum(shown)
        drawn = np.minimum(np.searchsorted(totals, draws[0] * totals[-1], side="right"), len(shown) - 1)
        places = np.stack(np.unravel_index(drawn, (bins,) * count), axis=1)
        points = (places + draws[1:].T - bins / 2) * widths
        centers, nearest, _ = cluster(points, self.clusters, self.rng)
        weights = np.bincount(nearest, minlength=self.clusters).astype(np.float64)
        lower, upper = self._bounds()
        return np.clip(spread.mean + centers @ vectors.T, lower, upper), weights

    def _grid(self, spread: _Spread, vectors: Floats, variances: Floats, bins: int) -> tuple[DirectionCounts, Floats]:
        """Return the question of a grid along some directions (p, d) of unit length, and how wide its bins are."""
        numbers = self.compiled.numbers
        steps = np.array([number.step for number in numbers]) / self.units
        middles = np.array([number.middle for number in numbers]) / self.units
        # A bin is at least so wide that the declared range is some 2^24 of them.
        reach = np.array([number.width for number in numbers]) * steps
        least = float(reach.sum()) / (1 << 24)
        widths = np.maximum(2 * _REACH * np.sqrt(np.clip(variances, 0.0, None)) / bins, least)
        parts = np.rint(vectors.T * steps / widths[:, None] * BIN)
        offsets = np.rint(((middles - spread.mean) @ vectors / widths + bins / 2) * BIN)
        directions = tuple(tuple(int(part) for part in row) for row in parts)
        return DirectionCounts(self.question, directions, tuple(int(offset) for offset in offsets), bins), widths

    def _move(self, queryable: Queryable, spread: _Spread, centers: Floats, weights: Floats) -> tuple[Floats, Floats]:
        """Return the centers after one step over the table, and the noisy rows of each."""
        loss = take_share(queryable.loss, (1 - _COVARIANCE - _GRID - _MEASURED) / _STEPS)
        shares = weights / max(float(weights.sum()), 1e-9)
        variances = np.diag(spread.covariance)
        between = shares @ (centers - shares @ centers) ** 2
        if not spread.has_directions:
            # The noise of centers along one column is as large as what its variance is known by.
            between = variances * min(between.sum() / variances.sum(), 0.75)
        spreads = np.sqrt(np.maximum(variances - between, _LEAST_SPREAD**2 * variances))
        size = 1.0 + len(spreads)
        # The noise of a number is in proportion to the root of the limit.
        noise = self._noise_of(queryable, self._step_at(centers, spreads, size), loss)
        affordable = size * (_NOISE * spread.rows / len(centers) / noise) ** 2
        query = self._step_at(centers, spreads, min(max(affordable, size), 3 * size + _TAIL))
        estimate: Any = queryable.release(query, loss).outputs[0].estimate
        assert isinstance(estimate, Noisy)
        unit = float(estimate.unit)
        sums = np.array([float(step) * unit for step in estimate.steps]).reshape(len(centers), -1)
        deviation = math.sqrt(float(estimate.law.variance())) * unit
        numbers = self.compiled.numbers
        steps = np.array([number.step for number in numbers]) / self.units
        middles = np.array([number.middle for number in numbers]) / self.units
        # By as much of the sums as noise does not explain (James and Stein 1961).
        lengths = np.maximum((sums[:, 1:] ** 2).sum(axis=1, keepdims=True), 1e-300)
        kept = np.clip(1 - max(sums.shape[1] - 3, 1) * deviation**2 / lengths, 0.0, 1.0)
        means = kept * sums[:, 1:] / np.maximum(sums[:, :1], deviation / _SURE) * query.scales
        found = middles + steps * (np.array(query.centers, dtype=np.float64) + means)
        lower, upper = self._bounds()
        return np.clip(found, lower, upper), np.maximum(sums[:, 0], 0.0)

    def _bounds(self) -> tuple[Floats, Floats]:
        """Return the declared bounds, in units of distance."""
        declared: list[Any] = [column for _, column in self.predictors.declared]
        lower = np.array([float(column.lower) for column in declared])
        upper = np.array([float(column.upper) for column in declared])
        return lower / self.units, upper / self.units

    def _noise_of(self, queryable: Queryable, query: Any, loss: Loss) -> float:
        """Return about the deviation of a query's noise, in rows."""
        ((moved, _),) = query.parts(self.domain, queryable.neighbors)
        if isinstance(loss, PureDP):
            return math.sqrt(2) * float(moved.l1 * query.unit) / float(loss.epsilon)
        assert isinstance(loss, ZCDP)
        return float(moved.l2) * float(query.unit) / math.sqrt(2 * float(loss.rho))

    def _step_at(self, centers: Floats, spreads: Floats, limit: float) -> ClusterSums:
        """Return the question of a step from some centers, with spreads within clusters, both in units of distance."""
        numbers = self.compiled.numbers
        steps = np.array([number.step for number in numbers]) / self.units
        widths = np.array([number.width for number in numbers])
        least = np.array([number.least_scale for number in numbers])
        scales = np.clip(np.rint(spreads / steps), least, widths).astype(np.int64)
        units, _ = self._distance_units()
        return ClusterSums(
            self.question, self._places(centers), units, tuple(scales.tolist()), Fraction(math.ceil(limit))
        )

    def _places(self, centers: Floats) -> tuple[tuple[int, ...], ...]:
        """Return centers, in units of distance, in whole steps from the middles of the columns."""
        numbers = self.compiled.numbers
        steps = np.array([number.step for number in numbers]) / self.units
        middles = np.array([number.middle for number in numbers]) / self.units
        widths = np.array([number.width for number in numbers])
        places = np.clip(np.rint((centers - middles) / steps), -widths, widths).astype(np.int64)
        return tuple(tuple(row) for row in places.tolist())

    def _distance_units(self) -> tuple[tuple[int, ...], float]:
        """Return what a squared step of each column is in whole numbers, and the whole numbers in a squared unit of distance.

        They are as fine as an engine holds: the squared distance of two corners is near the most.
        """
        numbers = self.compiled.numbers
        squares = [Fraction(number.step / unit) ** 2 for number, unit in zip(numbers, self.units.tolist(), strict=True)]
        most = sum((4 * square * number.width**2 for square, number in zip(squares, numbers, strict=True)), Fraction(0))
        return tuple(math.floor(square * MOST_DISTANCE / most) for square in squares), float(MOST_DISTANCE / most)


class _InnerTable:
    """The table of an algorithm that runs within another one, whose Queryable it asks."""

    def __init__(self, queryable: Queryable, loss: Loss) -> None:
        self._queryable = queryable
        self._last: Release | None = None
        self.domain = queryable.domain
        self.neighbors = queryable.neighbors
        self.loss = loss
        self.remaining = loss
        self.select = queryable.select
        self.above = queryable.above

    def adapt(self, algorithm: Callable[[Queryable], T], **options: Any) -> tuple[T, Release]:
        """Run the inner algorithm; its release is the last one that it saw, since the outer one charges for the whole."""
        del options
        result = algorithm(self)
        assert self._last is not None
        return result, self._last

    def release(self, query: Any, loss: Loss) -> Release:
        """Return noisy vectors, as the outer Queryable does, which counts what is spent."""
        self._last = self._queryable.release(query, loss)
        return self._last
