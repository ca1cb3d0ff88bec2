"""From an engine's exact answer to the noisy columns of a release. Used by the curator alone, after the charge."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sordino.curator.parts import PlannedPart
from sordino.curator.rows import Answer
from sordino.domain import Domain
from sordino.estimate import Noisy
from sordino.loss import shown
from sordino.noise.rng import Rng
from sordino.queries.aggregation import Aggregation, Resolved
from sordino.release import Key, Output

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["exact_vectors", "noisy_columns"]


def noisy_columns(
    question: Aggregation,
    resolved: Resolved,
    parts: Sequence[Sequence[PlannedPart]],
    domain: Domain,
    *,
    table: pa.Table,
    rng: Rng,
) -> Answer:
    """Return the keys and the noisy outputs of a release; every exact value is given its noise here."""
    exact_parts = exact_vectors(table, resolved)
    flat = [p for several in parts for p in several]
    noisy = iter(
        [
            Noisy(tuple(p.mechanism.release(v, rng)), p.part.unit, p.mechanism.law)
            for p, v in zip(flat, exact_parts, strict=True)
        ]
    )
    outputs = tuple(
        Output(a.alias, a.estimate(domain, [next(noisy) for _ in several]), _mechanisms(several))
        for a, several in zip(question.aggregates, parts, strict=True)
    )
    rows = list(itertools.product(*(k.labels for k in resolved.keys)))
    keys = tuple(Key(g.alias, tuple(r[i] for r in rows)) for i, g in enumerate(question.groups))
    return keys, outputs


def exact_vectors(table: pa.Table, resolved: Resolved) -> list[list[int]]:
    """Return the exact value of each part in each declared cell, in order; cells that no row has are 0.

    Rows whose key is NULL were dropped by declaration; they are left out here.
    """
    sizes = [len(k.labels) for k in resolved.keys]
    codes = [table.column(f"k{i}").to_pylist() for i in range(len(sizes))]
    places: list[int | None] = [_place(row, sizes) for row in zip(*codes, strict=True)] if sizes else [0]
    found: list[list[int]] = []
    for i in range(len(resolved.terms)):
        exact_cells = [0] * math.prod(sizes)
        for place, value in zip(places, table.column(f"t{i}").to_pylist(), strict=True):
            if place is not None and value is not None:
                exact_cells[place] = int(value)
        found.append(exact_cells)
    index = {id(t): i for i, t in enumerate(resolved.terms)}
    at = {t: index[id(t)] for t in resolved.terms}
    vectors: list[list[int]] = []
    for several in resolved.parts:
        for part in several:
            weighted = [(weight, found[at[term]]) for weight, term in part.terms]
            vectors.append([sum(w * v[c] for w, v in weighted) for c in range(math.prod(sizes))])
    return vectors


def _place(row: tuple[Any, ...], sizes: list[int]) -> int | None:
    place = 0
    for code, size in zip(row, sizes, strict=True):
        if code is None:
            return None
        if not 0 <= code < size:
            raise ValueError("a key code outside its declared labels")
        place = place * size + int(code)
    return place


def _mechanisms(several: Sequence[PlannedPart]) -> str:
    words = [p.mechanism.describe() + ("" if p.part.unit == 1 else f" of {shown(p.part.unit)}") for p in several]
    return "; ".join(dict.fromkeys(words))
