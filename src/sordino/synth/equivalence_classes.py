"""Classes of keys: keys that meet the same conditions stand together, so tables over them are small. Knows no data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sordino.ask.queries.expressions.nodes import (
    Compare,
    Connective,
    Constant,
    IsIn,
    IsNull,
    Match,
    Name,
    Node,
    Not,
    depth,
    describe,
)
from sordino.core.errors import QuestionRefused
from sordino.synth.encoded_column import Codes, EncodedColumn
from sordino.synth.expression_eval import ColumnCells, column_cells, evaluate_condition, names_in

# For each column the one it follows from, and its key for each key of that one.
Dependencies = Mapping[str, tuple[str, Codes]]


@dataclass(frozen=True, slots=True)
class ClassGrid:
    """A table with one axis a column of `names`: the class of each of its keys, and cells of every column involved.

    A column that follows from another has no axis of its own: its cells lie along the other's.
    """

    names: tuple[str, ...]
    members: tuple[Codes, ...]
    shape: tuple[int, ...]
    cells: Mapping[str, ColumnCells]

    def keep(self, names: Sequence[str]) -> ClassGrid:
        """Return the grid of some of its columns, in its own order, with the cells that lie along them."""
        axes = [axis for axis, name in enumerate(self.names) if name in names]
        shape = tuple(self.shape[axis] for axis in axes)
        cells: dict[str, ColumnCells] = {}
        for name, one in self.cells.items():
            along = tuple(one.keys.shape[axis] for axis in axes)
            # A column along an axis that goes, goes with it.
            if math.prod(along) == one.keys.size:
                cells[name] = one.reshape(along)
        return ClassGrid(
            tuple(self.names[axis] for axis in axes), tuple(self.members[axis] for axis in axes), shape, cells
        )


def class_grid(
    columns: Mapping[str, EncodedColumn],
    names: Sequence[str],
    *,
    predicates: Sequence[Node],
    whole: Iterable[str],
    dependencies: Dependencies,
) -> ClassGrid:
    """Return the grid over `names` on which all `predicates` can be evaluated; columns of `whole` keep a class a key."""
    parents = {n: dependencies[n][0] if n in dependencies else n for n in names}
    axes = tuple(dict.fromkeys(parents.values()))
    shared = {n for p in predicates if len(names_in(p)) > 1 for n in names_in(p)}
    split = {parents[n] for n in {*shared, *whole} if n in parents} | {parents[n] for n in names if n in dependencies}
    classes: list[tuple[Codes, Codes]] = []
    for name in axes:
        on_column = [] if name in split else [p for p in predicates if names_in(p) == [name]]
        classes.append(key_classes(columns[name], on_column, split=name in split))
    shape = tuple(len(keys) for _, keys in classes)
    cells: dict[str, ColumnCells] = {}
    for name in {*names, *axes}:
        parent = parents.get(name, name)
        axis = axes.index(parent)
        keys = classes[axis][1] if name == parent else dependencies[name][1][classes[axis][1]]
        along = tuple(n if i == axis else 1 for i, n in enumerate(shape))
        cells[name] = column_cells(columns[name], keys).reshape(along)
    return ClassGrid(axes, tuple(m for m, _ in classes), shape, cells)


def predicates_of(node: Node | None) -> list[Node]:
    """Return the conditions that a tree of and, or, not is made of; raises QuestionRefused for what is no condition."""
    if node is None:
        return []
    depth(node)
    if isinstance(node, Connective):
        return [*predicates_of(node.left), *predicates_of(node.right)]
    if isinstance(node, Not):
        return predicates_of(node.of)
    if isinstance(node, (Compare, IsIn, IsNull, Match, Name)):
        return [node]
    if isinstance(node, Constant):
        return []
    raise QuestionRefused(f"a condition is needed, such as age > 30, not {describe(node)}")


def key_classes(encoded: EncodedColumn, predicates: Sequence[Node], *, split: bool) -> tuple[Codes, Codes]:
    """Return the class of each key, and a key of each class: keys of one class meet the same conditions."""
    keys = np.arange(encoded.size)
    if split:
        return keys, keys
    cells = {encoded.name: column_cells(encoded, keys)}
    marks = [m for p in predicates for m in evaluate_condition(p, cells)]
    if not marks:
        return np.zeros(encoded.size, dtype=np.int64), np.zeros(1, dtype=np.int64)
    outcomes = np.stack([np.broadcast_to(m, keys.shape) for m in marks], axis=1)
    _, firsts, member = np.unique(outcomes, axis=0, return_index=True, return_inverse=True)
    return member.ravel(), firsts
