"""Total-variation distances of synthetic rows from a table: noisy through a Queryable, or exact and NOT PRIVATE."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.ask.queries.adaptive.marginal import ContingencyTable
from sordino.ask.queries.queryable import Queryable
from sordino.synth.encoded_column import Codes
from sordino.synth.measurement import release_vectors
from sordino.synth.model import Model
from sordino.synth.pair_selection import mean_distance

if TYPE_CHECKING:
    from sordino.core.loss import Loss
    from sordino.core.noise.rng import Rng

_TRIPLES = 60
_MOST_CELLS = 4_000_000


@dataclass(frozen=True, slots=True)
class Distance:
    """The total-variation distance of one table of counts: 0 alike, 1 apart; `deviation` is the noise of asking."""

    columns: tuple[str, ...]
    value: float
    deviation: float
    floor: float


def choose_sets(model: Model, rng: Rng) -> list[tuple[int, ...]]:
    """Return each column, each pair and at most 60 random triples of columns, of those whose tables are small enough."""
    columns = range(len(model.parts.columns))
    sizes = [c.size for c in model.parts.columns]
    small_sets: list[tuple[int, ...]] = [(c,) for c in columns]
    small_sets += [s for s in itertools.combinations(columns, 2) if math.prod(sizes[c] for c in s) <= _MOST_CELLS]
    triples = [s for s in itertools.combinations(columns, 3) if math.prod(sizes[c] for c in s) <= _MOST_CELLS]
    drawn: list[tuple[int, ...]] = []
    while triples and len(drawn) < _TRIPLES:
        drawn.append(triples.pop(rng.below(len(triples))))
    return [*small_sets, *sorted(drawn)]


def release_distances(
    model: Model, sets: Sequence[tuple[int, ...]], drawn: Sequence[Codes], data: Queryable, loss: Loss
) -> tuple[Distance, ...]:
    """Return the noisy distances of drawn rows from a curator's table, in one release of noise of equal width."""
    sizes = [c.size for c in model.parts.columns]
    count = len(drawn[0])
    rows = max(model.rows, 1)
    models = [_counts(drawn, s, sizes) * (rows / count) for s in sets]
    tables = [ContingencyTable(tuple(model.parts.columns[c].axis() for c in s)) for s in sets]
    values, variance = release_vectors(data, tables, models, loss)
    return tuple(
        Distance(_names(model, s), float(v) / (2.0 * rows), math.sqrt(variance) / (2.0 * rows), _floor(m, count))
        for s, v, m in zip(sets, values, models, strict=True)
    )


def exact_distances(
    model: Model, sets: Sequence[tuple[int, ...]], drawn: Sequence[Codes], real: Sequence[Codes]
) -> tuple[Distance, ...]:
    """Return the distances of drawn rows from rows given by their keys, NOT PRIVATE."""
    sizes = [c.size for c in model.parts.columns]
    return tuple(_exact(model, s, real, drawn, sizes) for s in sets)


def table_distance(first: Sequence[Codes], second: Sequence[Codes], sizes: Sequence[int]) -> float:
    """Return the total-variation distance of two samples over the columns given: half the l1 distance of their shares."""
    a, b = (_indices(keys, sizes) for keys in (first, second))
    cells = math.prod(sizes)
    if cells > _MOST_CELLS:
        both, place = np.unique(np.concatenate([a, b]), return_inverse=True)
        cells = len(both)
        a, b = place[: len(a)], place[len(a) :]
    p = np.bincount(a, minlength=cells) / max(len(a), 1)
    q = np.bincount(b, minlength=cells) / max(len(b), 1)
    return float(np.abs(p - q).sum()) / 2.0


def _exact(
    model: Model, chosen: tuple[int, ...], real: Sequence[Codes], drawn: Sequence[Codes], sizes: list[int]
) -> Distance:
    complete = np.all([real[c] >= 0 for c in chosen], axis=0)
    of = [sizes[c] for c in chosen]
    exact = [real[c][complete] for c in chosen]
    value = table_distance(exact, [drawn[c] for c in chosen], of)
    counts = np.bincount(_indices(exact, of), minlength=math.prod(of)).astype(np.float64)
    return Distance(_names(model, chosen), value, 0.0, _floor(counts, len(drawn[0])))


def _floor(counts: Any, rows: int) -> float:
    """Return the distance that as many independent rows would show from the table with these counts."""
    total = max(float(counts.sum()), 1.0)
    return mean_distance(counts * (rows / total)) / (2.0 * max(rows, 1))


def _counts(keys: Sequence[Codes], chosen: tuple[int, ...], sizes: Sequence[int]) -> Any:
    of = [sizes[c] for c in chosen]
    return np.bincount(_indices([keys[c] for c in chosen], of), minlength=math.prod(of)).astype(np.float64)


def _indices(keys: Sequence[Codes], sizes: Sequence[int]) -> Codes:
    place = np.zeros(len(keys[0]), dtype=np.int64)
    for codes, size in zip(keys, sizes, strict=True):
        place = place * size + codes
    return place


def _names(model: Model, chosen: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(model.parts.columns[c].name for c in chosen)
