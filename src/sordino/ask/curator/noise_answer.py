"""Exact sums to noisy columns, and the notes beside them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from sordino.ask.curator.allocation import Allocation, NoisyVector
from sordino.ask.curator.data_access import Answer
from sordino.ask.curator.key_selection import KeySelection
from sordino.ask.queries.aggregation import Aggregation, CompiledQuery
from sordino.ask.queries.expressions.keys import Keys
from sordino.ask.queries.expressions.nodes import Name, Node, walk
from sordino.ask.queries.query import Vector
from sordino.core.domain import Category, Domain, Identifier
from sordino.core.estimates.noisy import Noisy
from sordino.core.estimates.shown_count import ShownCount
from sordino.core.estimates.weighted_sum import SharedNoise
from sordino.core.loss import format_number
from sordino.core.mechanisms.partition_selection import PartitionSelection
from sordino.core.mechanisms.threshold import GaussianThreshold, LaplaceThreshold, TruncatedThreshold, sort_keys
from sordino.core.noise.rng import Rng
from sordino.core.release import Key, Output
from sordino.core.release_exports import label_kind

if TYPE_CHECKING:
    import pyarrow as pa


# ---- The note of a question in SQL of a dialect whose texts are equal by default where ours are not. It knows no data

_IGNORED = {  # what a dialect's texts are equal in spite of
    "mysql": "MySQL's default collation ignores case and accents",
    "tsql": "SQL Server's default collation ignores case, and blanks at the end",
}


def text_note(dialect: str, read: Iterable[Node], domain: Domain, *, stepped: bool = False) -> tuple[str, ...]:
    """Return the note where a question reads a column of text; where its rows are made in steps, of any table with one.

    >>> text_note("mysql", [Name("job")], Domain({"job": Category(["cook"])}))
    ("texts are compared by all of their characters, 'a' is not 'A': MySQL's default collation ignores case and accents",)
    """
    if dialect not in _IGNORED:
        return ()
    texts = {name for name in domain if _is_text(domain[name])}
    named = texts if stepped else {at.name for of in read for at in walk(of) if isinstance(at, Name)}
    return (
        (f"texts are compared by all of their characters, 'a' is not 'A': {_IGNORED[dialect]}",)
        if texts & named
        else ()
    )


def _is_text(column: object) -> bool:
    return isinstance(column, Identifier) or (isinstance(column, Category) and isinstance(column.values[0], str))


# ---- From an engine's exact answer to the noisy columns of a release. Used by the curator alone, after the charge

_LONGEST = 1_000
_NO_KEY = object()  # a label may be None


def noisy_columns(question: Aggregation, parts: Allocation, *, table: pa.Table | None, rng: Rng) -> Answer:
    """Return the keys and the noisy outputs of a release, except selections; every exact value gets its noise here.

    `table` is the engine's answer, None where no aggregate needs one. Of private keys only those that are selected show, in
    the order of the keys; their values get noise of their own, but for the count that they were selected by.
    """
    resolved = parts.resolved
    vectors = parts.noisy
    shown: tuple[int | None, ...] = ()
    if isinstance(parts.threshold, KeySelection):
        assert table is not None
        rows, exact_parts, shown = _release_keys(table, parts, parts.threshold, rng)
    else:
        rows = resolved.key_rows()
        exact_parts = [[] for _ in vectors]
        if table is not None:
            exact_parts = exact_vectors(table, resolved, [v.part for v in vectors])
    noisy = {v.place: _add_noise(v, exact, rng) for v, exact in zip(vectors, exact_parts, strict=True)}
    outputs: list[Output] = []
    for i, (asked, several) in enumerate(zip(question.aggregates, parts.vectors, strict=True)):
        if i == parts.counted:
            outputs.append(Output(asked.alias, _shown_count(parts, shown), _mechanisms(several)))
        elif parts.selections[i] is None:
            own = [noisy[v.place] for v in several]
            mix = parts.mixes[i] if parts.mixes else ()
            shared = SharedNoise(mix, tuple(v.place for v in several)) if mix else None
            estimate = asked.estimate(resolved.parts[i], own, shared)
            outputs.append(Output(asked.alias, estimate, _mechanisms(several)))
    columns = [tuple(map(itemgetter(i), rows)) for i in range(len(question.groups))]
    declared = [k.labels for k in resolved.keys] if resolved.private_keys else columns
    # A column's type follows from what is declared, also where the question leaves out most keys, or all.
    kinds = map(label_kind, [k.labels for k in resolved.declared] or declared)
    keys = tuple(Key(g.alias, c, k) for g, c, k in zip(question.groups, columns, kinds, strict=True))
    return keys, tuple(outputs)


def _add_noise(vector: NoisyVector, exact: list[int], rng: Rng) -> Noisy:
    made = vector.mechanism
    if isinstance(made, LaplaceThreshold | GaussianThreshold | TruncatedThreshold):
        raise TypeError("a count that keys are selected by has its noise already")
    return Noisy(tuple(made.release(exact, rng)) if exact else (), vector.part.unit, made.law)


def _shown_count(parts: Allocation, shown: Sequence[int | None]) -> ShownCount:
    """Return the noisy counts that private keys were selected by, as an answer."""
    keys = parts.threshold
    assert isinstance(keys, KeySelection)
    assert keys.threshold is not None
    assert not isinstance(keys.selector, PartitionSelection)
    return ShownCount(tuple(n for n in shown if n is not None), keys.selector.law, keys.threshold, keys.min_units)


def exact_vectors(table: pa.Table, resolved: CompiledQuery, vectors: Sequence[Vector] | None = None) -> list[list[int]]:
    """Return the exact value of each vector, or of all parts, in each declared cell, in order; cells without rows are 0.

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
    if vectors is None:
        vectors = [part for several in resolved.parts for part in several]
    return _weigh(resolved, vectors, found, math.prod(sizes))


def _release_keys(
    table: pa.Table, parts: Allocation, selection: KeySelection, rng: Rng
) -> tuple[list[tuple[Any, ...]], list[list[int]], tuple[int | None, ...]]:
    """Return the keys that are selected, in their own order, the exact value of each part for them, and their noisy counts.

    Rows are selected by their numbers, so that only keys that show are made into labels. Rows whose key is none, which
    follows from the key alone, are left out of those.
    """
    import pyarrow as pa

    resolved = parts.resolved
    exact_units = table.column(f"t{len(resolved.terms) - 1}").to_pylist()
    noisy = selection.release({i: int(n or 0) for i, n in enumerate(exact_units)}, rng)
    table = table.take(pa.array(list(noisy), pa.int64()))
    counts = list(noisy.values())
    places = key_places(table, resolved)
    kept = sort_keys(places)
    vectors = [v.part for v in parts.noisy]
    at = [places[key] for key in kept]
    read = {term for vector in vectors for _, term in vector.terms}  # the count that keys are selected by has its noise
    found: list[list[int]] = []
    for i, term in enumerate(resolved.terms):
        column = table.column(f"t{i}").to_pylist() if term in read else []
        found.append([int(column[place] or 0) for place in at] if term in read else [])
    return kept, _weigh(resolved, vectors, found, len(kept)), tuple(counts[place] for place in at)


def key_places(table: pa.Table, resolved: CompiledQuery) -> dict[tuple[Any, ...], int]:
    """Return the place of each private key, or combination of keys, in an engine's answer.

    A text of more than 1,000 characters is no key: whether one is follows from itself alone, and a list of those that show
    goes back to the engine.
    """
    cells = [_labels(table.column(f"k{i}").to_pylist(), key) for i, key in enumerate(resolved.keys)]
    return {row: i for i, row in enumerate(zip(*cells, strict=True)) if _NO_KEY not in row}


def _labels(cells: list[Any], key: Keys) -> list[Any]:
    """Return the labels of one key's cells, `_NO_KEY` where there is none."""
    if not key.private:
        return [_NO_KEY if c is None else key.labels[int(c)] for c in cells]
    return [_NO_KEY if c is None or (isinstance(c, str) and len(c) > _LONGEST) else c for c in cells]


def _weigh(
    resolved: CompiledQuery, vectors: Sequence[Vector], found: Sequence[Sequence[int]], cells: int
) -> list[list[int]]:
    """Return each vector as the weighted sum of its terms, cell by cell."""
    at = {term: i for i, term in enumerate(resolved.terms)}
    made: list[list[int]] = []
    for vector in vectors:
        weighed = [(weight, found[at[term]]) for weight, term in vector.terms]
        alone = len(weighed) == 1 and weighed[0][0] == 1
        made.append([*weighed[0][1]] if alone else [sum(w * v[c] for w, v in weighed) for c in range(cells)])
    return made


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
