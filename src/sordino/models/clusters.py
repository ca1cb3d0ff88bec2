"""k-means from one private model of the columns: its rows stand for the table's, and iterations over them cost nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from sordino.ask.queries.queryable import Adaptive
from sordino.core.errors import DeclarationError, QuestionRefused
from sordino.core.loss import Loss, LossArguments, read_loss, show_arguments
from sordino.core.noise.rng import Rng
from sordino.models.columns import Predictors, check_rows, read_predictors
from sordino.models.linear import predictors_from_dict
from sordino.models.moments import Floats
from sordino.models.record import (
    ModelCard,
    Provenance,
    array_from_list,
    columns_to_dict,
    make_card,
    provenance_from_dict,
    provenance_of_rows,
    quote_name,
    save_model,
)
from sordino.synth.fitting import fit

# Rows that are drawn from the private model: more hardly move the centers.
_ROWS = 20_000
_STARTS = 8
_ROUNDS = 60


@dataclass(frozen=True)
class ClustersModel:
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

    @property
    def cost(self) -> Loss:
        """What the model cost."""
        return self.provenance.cost

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be known of the model."""
        return self.provenance.notes

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
                column: Any = declared
                cell = f"LEAST(GREATEST({quote_name(name)}, {float(column.lower)!r}), {float(column.upper)!r})"
                parts.append(f"POWER(({cell} - {float(value)!r}) / {float(unit)!r}, 2)")
            expressions.append(" + ".join(parts))
        return expressions

    @property
    def card(self) -> ModelCard:
        """What is to be said of the model where it is published."""
        facts = {"columns": ", ".join(self.columns)}
        for i, (center, share) in enumerate(zip(self.centers, self.shares, strict=True)):
            parts = ", ".join(f"{name} {value:.4g}" for name, value in zip(self.columns, center, strict=True))
            facts[f"cluster {i + 1}"] = f"{100 * share:.1f}% of the rows; {parts}"
        return make_card("k-means", self.provenance, facts)

    def save(self, path: str | Path) -> None:
        """Write the model to a file, without data and without pickle; `sd.models.load` reads it."""
        save_model(path, self)

    def to_dict(self) -> dict[str, Any]:
        """Return the model as JSON data."""
        return {
            "terms": list(self.predictors.terms),
            "columns": columns_to_dict(self.predictors.declared),
            "centers": self.centers.tolist(),
            "shares": self.shares.tolist(),
            "spread": self.spread,
            "units": self.units.tolist(),
            "provenance": self.provenance.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ClustersModel:
        """Return the model that `to_dict` wrote."""
        predictors = predictors_from_dict(data)
        centers = array_from_list(data["centers"])
        shares = array_from_list(data["shares"])
        units = array_from_list(data["units"])
        if centers.shape != (len(shares), len(predictors.declared)) or len(units) != len(predictors.declared):
            raise ValueError("the parts of a model do not fit each other")
        return cls(predictors, centers, shares, float(data["spread"]), units, provenance_from_dict(data["provenance"]))

    def __repr__(self) -> str:
        return f"<{len(self.centers)} clusters of {len(self.columns)} columns, {self.cost.describe()}>"


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
    total = read_loss(**loss)
    draws = Rng.secure() if rng is None else rng
    model = fit(table, columns=[name for name, _ in predictors.declared], rng=rng, **loss)
    numbers = predictors.numbers_of(model.sample(rows=_ROWS, rng=draws))
    numbers = numbers[~np.isnan(numbers).any(axis=1)]
    declared: list[Any] = [column for _, column in predictors.declared]
    ranges = [float(column.upper) - float(column.lower) for column in declared]
    units = np.array(ranges) if scale else np.ones(len(ranges))
    centers, places, spread = cluster(numbers / units, clusters, draws)
    shares = np.bincount(places, minlength=clusters) / len(places)
    order = np.argsort(-shares, kind="stable")
    words = "centers are those of rows drawn from a private model of the columns"
    about = provenance_of_rows(model.facts, table.neighbors, total, words)
    return ClustersModel(predictors, centers[order] * units, shares[order], spread, units, about)


def check_clusters(table: Any, columns: Any, clusters: Any, assume_rows: int | None) -> Predictors:
    """Return the columns of k-means; raises what `kmeans` raises before a charge."""
    if not hasattr(table, "domain"):
        raise DeclarationError("is a table that answers questions, such as sd.connect(...).table(name)", key="table")
    predictors = read_predictors(table.domain, columns, role="columns")
    if predictors.categories or any(isinstance(term, tuple) for term in predictors.terms):
        raise QuestionRefused("clusters are of numbers alone: leave out categories, booleans and products")
    for name, column in predictors.declared:
        lower = getattr(column, "lower", None)
        upper = getattr(column, "upper", None)
        if lower is None or upper is None or lower >= upper:
            raise QuestionRefused(f"{name!r} has no declared range that it varies in: declare lower and upper")
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
