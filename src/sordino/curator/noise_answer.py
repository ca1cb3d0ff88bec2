"""From an engine's exact answer to the noisy columns of a release. Used by the curator alone, after the charge."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sordino.curator.allocation import Allocation, NoisyVector
from sordino.curator.data_access import Answer
from sordino.estimates.noisy import Noisy
from sordino.loss import format_number
from sordino.noise.rng import Rng
from sordino.queries.aggregation import Aggregation, CompiledQuery
from sordino.release import Key, Output

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["exact_vectors", "noisy_columns"]


def noisy_columns(question: Aggregation, parts: Allocation, *, table: pa.Table | None, rng: Rng) -> Answer:
    """Return the keys and the noisy outputs of a release, except selections; every exact value gets its noise here.

    `table` is the engine's answer, None where no aggregate needs one. With private keys only those at the threshold
    show, in the order of the keys; their values get noise of their own, so that their intervals hold.
    """
    resolved = parts.resolved
    if parts.threshold is not None:
        assert table is not None
        rows, exact_parts = _release_keys(table, parts, rng)
    else:
        rows = resolved.key_rows()
        exact_parts = [] if table is None else exact_vectors(table, resolved)
    flat = [p for several in parts.vectors for p in several]
    noisy = iter(
        [
            Noisy(tuple(p.mechanism.release(v, rng)) if v else (), p.part.unit, p.mechanism.law)
            for p, v in zip(flat, exact_parts, strict=True)
        ]
    )
    outputs = tuple(
        Output(a.alias, a.estimate([v.part for v in several], [next(noisy) for _ in several]), _mechanisms(several))
        for a, several, selected in zip(question.aggregates, parts.vectors, parts.selections, strict=True)
        if selected is None
    )
    keys = tuple(Key(g.alias, tuple(r[i] for r in rows)) for i, g in enumerate(question.groups))
    return keys, outputs


def exact_vectors(table: pa.Table, resolved: CompiledQuery) -> list[list[int]]:
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
    return _weigh(resolved, found, math.prod(sizes))


def _release_keys(table: pa.Table, parts: Allocation, rng: Rng) -> tuple[list[tuple[Any, ...]], list[list[int]]]:
    """Return the keys that reach the threshold, in their own order, and the exact value of each part for them."""
    resolved, threshold = parts.resolved, parts.threshold
    assert threshold is not None
    cells = [table.column(f"k{i}").to_pylist() for i in range(len(resolved.keys))]
    exact_units = table.column(f"t{len(resolved.terms) - 1}").to_pylist()
    places: dict[tuple[Any, ...], int] = {}
    for place, row in enumerate(zip(*cells, strict=True)):
        if None not in row:
            places[_labels(row, resolved)] = place
    kept = list(threshold.release({key: int(exact_units[place]) for key, place in places.items()}, rng))
    found = []
    for i in range(len(resolved.terms)):
        column = table.column(f"t{i}").to_pylist()
        found.append([int(column[places[key]] or 0) for key in kept])
    return kept, _weigh(resolved, found, len(kept))


def _labels(row: tuple[Any, ...], resolved: CompiledQuery) -> tuple[Any, ...]:
    return tuple(c if k.private else k.labels[int(c)] for c, k in zip(row, resolved.keys, strict=True))


def _weigh(resolved: CompiledQuery, found: Sequence[Sequence[int]], cells: int) -> list[list[int]]:
    """Return each part as the weighted sum of its terms, cell by cell."""
    at = {term: i for i, term in enumerate(resolved.terms)}
    vectors: list[list[int]] = []
    for several in resolved.parts:
        for part in several:
            weighted = [(weight, found[at[term]]) for weight, term in part.terms]
            vectors.append([sum(w * v[c] for w, v in weighted) for c in range(cells)])
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


def _mechanisms(several: Sequence[NoisyVector]) -> str:
    words = [
        p.mechanism.describe() + ("" if p.part.unit == 1 else f" of {format_number(p.part.unit)}") for p in several
    ]
    return "; ".join(dict.fromkeys(words))
