"""Classes of keys: keys that meet the same conditions stand together, so tables over them are small. Knows no data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sordino.domain import Domain
from sordino.errors import QuestionRefused
from sordino.queries.expressions.nodes import (
    Compare,
    Connective,
    Constant,
    IsIn,
    IsNull,
    Name,
    Node,
    Not,
    depth,
    describe,
)
from sordino.synth.columns import Keyed
from sordino.synth.expression_eval import Cells, cells_of, names_in, truth_of
from sordino.synth.sampler import Codes

__all__ = ["Follows", "Grid", "atoms_of", "grid_of"]

Follows = Mapping[
    str, tuple[str, Codes]
]  # a column that follows: the column it follows from, its key for each key of that


@dataclass(frozen=True, slots=True)
class Grid:
    """A table with one axis a column of `names`: the class of each of its keys, and cells of every column involved.

    A column that follows from another has no axis of its own: its cells lie along the other's.
    """

    names: tuple[str, ...]
    members: tuple[Codes, ...]
    shape: tuple[int, ...]
    cells: Mapping[str, Cells]


def grid_of(
    columns: Mapping[str, Keyed],
    domain: Domain,
    names: Sequence[str],
    *,
    atoms: Sequence[Node],
    whole: Iterable[str],
    follows: Follows,
) -> Grid:
    """Return the grid over `names` on which all `atoms` can be told; columns of `whole` keep a class a key."""
    parents = {n: follows[n][0] if n in follows else n for n in names}
    axes = tuple(dict.fromkeys(parents.values()))
    shared = {n for atom in atoms if len(names_in(atom)) > 1 for n in names_in(atom)}
    split = {parents[n] for n in {*shared, *whole} if n in parents} | {parents[n] for n in names if n in follows}
    found: list[tuple[Codes, Codes]] = []
    for name in axes:
        own = [] if name in split else [a for a in atoms if names_in(a) == [name]]
        found.append(_classes(columns[name], domain, own, split=name in split))
    shape = tuple(len(keys) for _, keys in found)
    cells: dict[str, Cells] = {}
    for name in {*names, *axes}:
        parent = parents.get(name, name)
        axis = axes.index(parent)
        keys = found[axis][1] if name == parent else follows[name][1][found[axis][1]]
        along = tuple(n if i == axis else 1 for i, n in enumerate(shape))
        cells[name] = cells_of(columns[name], keys, domain).shaped(along)
    return Grid(axes, tuple(m for m, _ in found), shape, cells)


def atoms_of(node: Node | None) -> list[Node]:
    """Return the conditions that a tree of and, or, not is made of; raises QuestionRefused for what is no condition."""
    if node is None:
        return []
    depth(node)
    if isinstance(node, Connective):
        return [*atoms_of(node.left), *atoms_of(node.right)]
    if isinstance(node, Not):
        return atoms_of(node.of)
    if isinstance(node, (Compare, IsIn, IsNull, Name)):
        return [node]
    if isinstance(node, Constant):
        return []
    raise QuestionRefused(f"a condition is needed, such as age > 30, not {describe(node)}")


def _classes(keyed: Keyed, domain: Domain, atoms: Sequence[Node], *, split: bool) -> tuple[Codes, Codes]:
    """Return the class of each key, and a key of each class: keys of one class meet the same conditions."""
    keys = np.arange(keyed.size)
    if split:
        return keys, keys
    cells = {keyed.name: cells_of(keyed, keys, domain)}
    marks = [m for a in atoms for m in truth_of(a, cells)]
    if not marks:
        return np.zeros(keyed.size, dtype=np.int64), np.zeros(1, dtype=np.int64)
    seen = np.stack([np.broadcast_to(m, keys.shape) for m in marks], axis=1)
    _, firsts, member = np.unique(seen, axis=0, return_index=True, return_inverse=True)
    return member.ravel(), firsts
