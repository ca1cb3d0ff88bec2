"""Questions to a fitted junction tree: the joint table of any few columns, and the tree given evidence. Knows no data."""

from __future__ import annotations

import math
import string
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sordino.core.noise.rng import Rng
from sordino.synth.encoded_column import Floats
from sordino.synth.markov_random_field import MarkovRandomField, make_consistent, marginal, spread
from sordino.synth.sampler import draw_codes, spacings

_MOST_CELLS = 30_000_000
_TINY = 1e-250
_LETTERS = string.ascii_letters
# Added to a column's number, this is the axis of its classes.
_CLASS = 1 << 20
_ROWS = 400_000
# The most numbers by which drawn rows are spread over classes, 500 MB; beyond it each row is in one class.
_MOST_SPREAD = 60_000_000


def joint(field: MarkovRandomField, columns: Sequence[int], sizes: Sequence[int], classes: Sequence[Floats]) -> Floats:
    """Return the model's counts over classes of `columns`, in that order, by eliminating all else along the tree.

    `classes` gives for each column the share of each code in each class, (codes x classes): the tables on the way hold
    classes, not codes. Where they would still be too large, the counts come of 400,000 evenly drawn rows.
    """
    if not columns:
        return np.array(float(field.tables[0].sum()))
    home = field.tree.home(columns, sizes)
    if home is None:
        try:
            counts, axes = _collect(field, dict(zip(columns, classes, strict=True)))
        except _TooLarge:
            return _estimate_by_rows(field, columns, sizes, classes)
        return counts.transpose([axes.index(c + _CLASS) for c in columns])
    wanted = sorted(columns)
    table = marginal(field.tables[home], field.tree.cliques[home], wanted)
    table = table.transpose([wanted.index(c) for c in columns])
    for axis, shares in enumerate(classes):
        table = np.moveaxis(np.tensordot(table, shares, axes=(axis, 0)), -1, axis)
    return table


def condition_on(field: MarkovRandomField, evidence: Mapping[int, Floats], sizes: Sequence[int]) -> MarkovRandomField:
    """Return the tree with each column's counts multiplied by its evidence, and made to agree again."""
    conditioned = MarkovRandomField(field.tree, [t.copy() for t in field.tables], [s.copy() for s in field.separators])
    for column, weights in evidence.items():
        home = conditioned.tree.require_home((column,), sizes)
        conditioned.tables[home] *= spread(weights, (column,), conditioned.tree.cliques[home])
    make_consistent(conditioned)
    return conditioned


class _TooLarge(Exception):
    """Say that a table on the way would pass the limit."""


def _estimate_by_rows(
    field: MarkovRandomField, columns: Sequence[int], sizes: Sequence[int], classes: Sequence[Floats]
) -> Floats:
    """Return the counts over classes of evenly drawn rows; their seed is fixed, so a question has one answer."""
    codes = draw_codes(field, sizes, rows=_ROWS, alphas=spacings(), rng=Rng.seeded(0))
    place = np.zeros(_ROWS, dtype=np.int64)
    for c in columns:
        place = place * sizes[c] + codes[c]
    distinct, counts = np.unique(place, return_counts=True)
    shape = [shares.shape[1] for shares in classes]
    if len(distinct) * math.prod(shape) > _MOST_SPREAD:
        return _draw_classes(field, [codes[c] for c in columns], classes)
    weight: Floats = np.asarray(counts * (float(field.tables[0].sum()) / _ROWS), dtype=np.float64)
    spread_over: Floats = weight[:, None]
    keys = np.unravel_index(distinct, [sizes[c] for c in columns])
    for of, shares in zip(keys, classes, strict=True):
        spread_over = (spread_over[:, :, None] * shares[of][:, None, :]).reshape(len(distinct), -1)
    made: Floats = spread_over.sum(axis=0).reshape(shape)
    return made


def _draw_classes(field: MarkovRandomField, codes: Sequence[Any], classes: Sequence[Floats]) -> Floats:
    """Return the counts over classes of drawn rows, each of which is in one class of each column, drawn by its code's shares."""
    rng = Rng.seeded(0)
    place = np.zeros(_ROWS, dtype=np.int64)
    for own, shares in zip(codes, classes, strict=True):
        draws = rng.uniform_doubles(_ROWS)
        drawn = np.zeros(_ROWS, dtype=np.int64)
        for code in np.unique(own).tolist():
            here = own == code
            ends = np.cumsum(shares[code])
            drawn[here] = np.searchsorted(ends[:-1], draws[here] * ends[-1], side="right")
        place = place * shares.shape[1] + drawn
    shape = [shares.shape[1] for shares in classes]
    counts: Floats = np.bincount(place, minlength=math.prod(shape)).reshape(shape) * 1.0
    return counts * (float(field.tables[0].sum()) / _ROWS)


def _collect(field: MarkovRandomField, wanted: Mapping[int, Floats]) -> tuple[Floats, tuple[int, ...]]:
    """Return the counts over the wanted classes: each clique passes up its separator and the classes beneath it.

    The class of column c is an axis of its own, numbered c + _CLASS; it joins at the first clique that holds c.
    """
    tree = field.tree
    below = tree.below
    order = [0, *(link.child for link in tree.links)]
    joins = {c: next(i for i in order if c in tree.cliques[i]) for c in wanted}
    above = {link.child: i for i, link in enumerate(tree.links)}
    done: dict[int, tuple[Floats, tuple[int, ...]]] = {}
    for clique in reversed(order):
        messages: list[tuple[Floats, tuple[int, ...]]] = [
            (wanted[c], (c, c + _CLASS)) for c in sorted(wanted) if joins[c] == clique
        ]
        for i in below[clique]:
            message, names = done[i]
            # A message without classes says nothing that this clique does not know.
            if any(n >= _CLASS for n in names):
                shared = spread(field.separators[i], tree.links[i].separator, names)
                ratio = np.divide(message, shared, out=np.zeros_like(message), where=shared > _TINY)
                messages.append((ratio, names))
        up = set(tree.links[above[clique]].separator) if clique in above else set()
        needed = sorted(up.union(*(set(names) & set(tree.cliques[clique]) for _, names in messages)))
        table = marginal(field.tables[clique], tree.cliques[clique], needed)
        axes = tuple(needed)
        for place, (message, names) in enumerate(messages):
            later = up.union(*(names for _, names in messages[place + 1 :]))
            keep = tuple(sorted(c for c in set(axes) | set(names) if c >= _CLASS or c in later))
            table = _product(table, axes, message, names, keep)
            axes = keep
        if clique not in above:
            return table, axes
        done[above[clique]] = (table, axes)
    raise ValueError("a tree without a root")


def _product(a: Floats, axes_a: tuple[int, ...], b: Floats, axes_b: tuple[int, ...], keep: tuple[int, ...]) -> Floats:
    """Return the sum over dropped axes of the product of two tables."""
    sizes = dict(zip(axes_a, a.shape, strict=True)) | dict(zip(axes_b, b.shape, strict=True))
    if math.prod(sizes.values()) > _MOST_CELLS:
        raise _TooLarge
    letters = {c: _LETTERS[i] for i, c in enumerate(sizes)}
    one, two, out = ("".join(letters[c] for c in axes) for axes in (axes_a, axes_b, keep))
    made: Floats = np.einsum(f"{one},{two}->{out}", a, b, optimize=True)
    return made
