"""Evaluation: how far synthetic rows lie from a table - privately, through a Queryable, or openly, and then it says so."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.datasets.raw import load_rows
from sordino.errors import DeclarationError
from sordino.loss import Number
from sordino.noise.rng import Rng
from sordino.queries.adaptive.marginal import Table
from sordino.queries.queryable import Adaptive, Told
from sordino.synth.access import released_distances
from sordino.synth.encoding import keys_of_table
from sordino.synth.errors import multiple
from sordino.synth.loss_shares import purse
from sordino.synth.model import Model
from sordino.synth.sampler import Codes
from sordino.synth.selection import expected_distance

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Distance", "Evaluation", "evaluate", "table_distance"]

_ALL = Fraction(1)
_TRIPLES = 60
_MOST_CELLS = 4_000_000


@dataclass(frozen=True, slots=True)
class Distance:
    """The total-variation distance of one table of counts: 0 alike, 1 apart; `deviation` is the noise of asking."""

    columns: tuple[str, ...]
    value: float
    deviation: float
    floor: float


@dataclass(frozen=True, slots=True, repr=False)
class Evaluation:
    """How far synthetic rows lie from the table: distances by sets of columns, and what it cost, or NOT PRIVATE.

    `floor` of a distance is what rows drawn independently from the true table would show.
    """

    distances: tuple[Distance, ...]
    cost: str
    private: bool
    rows: int

    def mean(self, ways: int) -> float:
        """Return the mean distance over all sets of so many columns that were asked, cut to what is possible: 0 to 1."""
        found = [d.value for d in self.distances if len(d.columns) == ways]
        return min(max(float(np.mean(found)), 0.0), 1.0) if found else math.nan

    def error(self, ways: int, confidence: float) -> float:
        """Return the error, from the noise of asking, of that mean."""
        found = [d.deviation for d in self.distances if len(d.columns) == ways]
        return multiple(confidence) * math.sqrt(sum(v * v for v in found)) / len(found) if found else math.nan

    def floor(self, ways: int) -> float:
        """Return the mean of what sampling alone would show."""
        found = [d.floor for d in self.distances if len(d.columns) == ways]
        return float(np.mean(found)) if found else math.nan

    def worst(self, count: int = 10) -> tuple[Distance, ...]:
        """Return the sets of columns that lie farthest off."""
        return tuple(sorted(self.distances, key=lambda d: -d.value)[:count])

    def to_dict(self) -> dict[str, Any]:
        """Return the evaluation as JSON data."""
        return {
            "private": self.private,
            "cost": self.cost,
            "rows": self.rows,
            "means": {str(w): self.mean(w) for w in (1, 2, 3) if not math.isnan(self.mean(w))},
            "errors95": {str(w): self.error(w, 0.95) for w in (1, 2, 3) if not math.isnan(self.mean(w))},
            "floors": {str(w): self.floor(w) for w in (1, 2, 3) if not math.isnan(self.mean(w))},
            "distances": [
                {"columns": list(d.columns), "value": d.value, "deviation": d.deviation, "floor": d.floor}
                for d in self.distances
            ],
        }

    def __repr__(self) -> str:
        seal = "" if self.private else "NOT PRIVATE: computed on the table itself. "
        words = ", ".join(f"{w}-way {self.mean(w):.4f}" for w in (1, 2, 3) if not math.isnan(self.mean(w)))
        return f"<Evaluation: {seal}mean distances {words}; {self.cost}>"


def evaluate(
    model: Model,
    *,
    against: Adaptive | pa.Table | Path | str,
    epsilon: Number | None = None,
    delta: Number | None = None,
    rho: Number | None = None,
    non_private: bool = False,
    rows: int | None = None,
    rng: Rng | None = None,
) -> Evaluation:
    """Return how far rows drawn from the model lie from a table, over one, two and three columns at a time.

    Against a curator's table the distances are asked privately, in one release with noise of equal width; each moves by
    at most one row's worth. Against an Arrow table, or the path of a CSV file (names in its first line) or a Parquet file,
    give `non_private=True`: the figures are then exact, and say so.
    Three-way distances are of 60 random sets at most. Raises DeclarationError before anything is spent.
    """
    source = Rng.secure() if rng is None else rng
    count = max(model.rows, 1) if rows is None else rows
    sets = _sets(model, source)
    sizes = [c.size for c in model.parts.columns]
    drawn = model.drawn_keys(count, source)
    if not hasattr(against, "adapt"):
        if not non_private or any(v is not None for v in (epsilon, delta, rho)):
            raise DeclarationError(
                "rows, or a file of them, can be compared with openly only: give non_private=True, without a loss, and publish "
                "nothing of it; or compare with the curator's table at epsilon="
            )
        table = load_rows(against, model.parts.domain) if isinstance(against, (str, Path)) else against
        real = keys_of_table(table, model.parts.columns, model.parts.domain)
        found = [_open(model, s, real, drawn, sizes) for s in sets]
        return Evaluation(tuple(found), "NOT PRIVATE: no loss was charged", False, count)
    if non_private:
        raise DeclarationError("a curator's table is never compared with openly: leave out non_private, state a loss")
    scale = max(model.rows, 1) / count
    models = [_counted(drawn, s, sizes) * scale for s in sets]
    tables = [Table(tuple(model.parts.columns[c].axis for c in s)) for s in sets]
    (values, variance), release = against.adapt(
        lambda data: released_distances(data, tables, models, purse(data.loss, data.neighbors).loss(_ALL)),
        describe=f"an evaluation of a synthetic table over {len(sets)} sets of columns",
        tell=lambda _: Told(),
        epsilon=epsilon,
        delta=delta,
        rho=rho,
    )
    twice = 2.0 * max(model.rows, 1)
    distances = [
        Distance(_names(model, s), float(v) / twice, math.sqrt(variance) / twice, _floor(m, count))
        for s, v, m in zip(sets, values, models, strict=True)
    ]
    seal = "" if release.private else "NOT PRIVATE (seeded noise), "
    return Evaluation(tuple(distances), f"{seal}cost {release.cost.describe()}", release.private, count)


def table_distance(first: Sequence[Codes], second: Sequence[Codes], sizes: Sequence[int]) -> float:
    """Return the total-variation distance of two samples over the columns given: half the l1 distance of their shares."""
    a, b = (_places(keys, sizes) for keys in (first, second))
    cells = math.prod(sizes)
    if cells > _MOST_CELLS:
        both, place = np.unique(np.concatenate([a, b]), return_inverse=True)
        a, b, cells = place[: len(a)], place[len(a) :], len(both)
    p = np.bincount(a, minlength=cells) / max(len(a), 1)
    q = np.bincount(b, minlength=cells) / max(len(b), 1)
    return float(np.abs(p - q).sum()) / 2.0


def _sets(model: Model, rng: Rng) -> list[tuple[int, ...]]:
    columns = range(len(model.parts.columns))
    sizes = [c.size for c in model.parts.columns]
    found: list[tuple[int, ...]] = [(c,) for c in columns]
    found += [s for s in itertools.combinations(columns, 2) if math.prod(sizes[c] for c in s) <= _MOST_CELLS]
    triples = [s for s in itertools.combinations(columns, 3) if math.prod(sizes[c] for c in s) <= _MOST_CELLS]
    chosen: list[tuple[int, ...]] = []
    while triples and len(chosen) < _TRIPLES:
        chosen.append(triples.pop(rng.below(len(triples))))
    return [*found, *sorted(chosen)]


def _open(model: Model, chosen: tuple[int, ...], real: list[Codes], drawn: list[Codes], sizes: list[int]) -> Distance:
    kept = np.all([real[c] >= 0 for c in chosen], axis=0)
    of = [sizes[c] for c in chosen]
    exact = [real[c][kept] for c in chosen]
    value = table_distance(exact, [drawn[c] for c in chosen], of)
    counts = np.bincount(_places(exact, of), minlength=math.prod(of)).astype(np.float64)
    return Distance(_names(model, chosen), value, 0.0, _floor(counts, len(drawn[0])))


def _floor(counts: Any, rows: int) -> float:
    """Return the distance that as many independent rows would show from the table with these counts."""
    total = max(float(counts.sum()), 1.0)
    return expected_distance(counts * (rows / total)) / (2.0 * max(rows, 1))


def _counted(keys: Sequence[Codes], chosen: tuple[int, ...], sizes: Sequence[int]) -> Any:
    of = [sizes[c] for c in chosen]
    return np.bincount(_places([keys[c] for c in chosen], of), minlength=math.prod(of)).astype(np.float64)


def _places(keys: Sequence[Codes], sizes: Sequence[int]) -> Codes:
    place = np.zeros(len(keys[0]), dtype=np.int64)
    for codes, size in zip(keys, sizes, strict=True):
        place = place * size + codes
    return place


def _names(model: Model, chosen: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(model.parts.columns[c].name for c in chosen)
