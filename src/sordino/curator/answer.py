"""From an engine's exact answer to a vector of whole numbers a part. Used by the curator alone, between charge and noise."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from sordino.queries.aggregation import Resolved

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["exact_vectors"]


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
