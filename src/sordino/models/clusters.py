"""k-means from one private model of the columns: its rows stand for the table's, and iterations over them cost nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from sordino.ask.queries.queryable import Adaptive
from sordino.core.errors import DeclarationError
from sordino.core.loss import LossArguments, show_arguments
from sordino.core.noise.rng import Rng
from sordino.models.columns import Floats, Predictors, check_rows, read_numbers_of, require_range
from sordino.models.record import PricedModel, Provenance, clip_cell, draw_private_rows, require_fit

# Rows that are drawn from the private model: more hardly move the centers.
_ROWS = 20_000
_STARTS = 8
_ROUNDS = 60


@dataclass(frozen=True, repr=False)
class ClustersModel(PricedModel):
    """k-means: `centers` (clusters, columns) in the columns' units, and `shares` of the rows in each cluster.

    `spread` is the mean squared distance to the nearest center, in the units in which distances were measured: the columns' own,
    or, where they were scaled, of their declared ranges.
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

    One charge fits a private model of the columns (`sd.synth.fit`); starts (k-means++, Arthur and Vassilvitskii 2007) and rounds
    (Lloyd 1982) run over rows drawn from it, and draw through `rng`. Raises UnknownName, QuestionRefused or
    DeclarationError before anything is spent; BudgetExhausted, ChargedError as ask.
    """
    predictors = check_clusters(table, columns, clusters, assume_rows)
    draws = Rng.secure() if rng is None else rng
    words = "centers are those of rows drawn from a private model of the columns"
    rows, about = draw_private_rows(
        table, [name for name, _ in predictors.declared], count=_ROWS, words=words, rng=rng, **loss
    )
    numbers = predictors.numbers_of(rows)
    numbers = numbers[~np.isnan(numbers).any(axis=1)]
    declared: list[Any] = [column for _, column in predictors.declared]
    ranges = [float(column.upper) - float(column.lower) for column in declared]
    units = np.array(ranges) if scale else np.ones(len(ranges))
    centers, places, spread = cluster(numbers / units, clusters, draws)
    shares = np.bincount(places, minlength=clusters) / len(places)
    order = np.argsort(-shares, kind="stable")
    return ClustersModel(predictors, centers[order] * units, shares[order], spread, units, about)


def check_clusters(table: Any, columns: Any, clusters: Any, assume_rows: int | None) -> Predictors:
    """Return the columns of k-means; raises what `kmeans` raises before a charge."""
    predictors = read_numbers_of(table, columns, "clusters")
    for name, column in predictors.declared:
        require_range(name, column)
    if isinstance(clusters, bool) or not isinstance(clusters, int) or not 1 <= clusters <= 1000:
        raise DeclarationError("must be a whole number from 1 to 1,000", key="clusters")
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
            sums = np.zeros_like(centers)
            np.add.at(sums, places, points)
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
    """Return first centers, each drawn with a probability in proportion to its squared distance to those before."""
    draws = rng.uniform_doubles(clusters)
    centers = [points[int(draws[0] * len(points))]]
    for draw in draws[1:]:
        weights = np.cumsum(nearest_centers(points, np.array(centers))[1])
        place = int(np.searchsorted(weights, draw * weights[-1], side="right"))
        centers.append(points[min(place, len(points) - 1)])
    return np.array(centers)
