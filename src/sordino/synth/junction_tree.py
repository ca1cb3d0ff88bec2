"""Junction trees over columns: triangulation by the fewest cells, growth under a cap, and the tree. Knows sizes only.

A set of columns is a whole number whose bit i says that column i is in it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Link:
    """One edge of a tree, walked from the root: from clique `parent` to clique `child`, sharing `separator`."""

    parent: int
    child: int
    separator: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class JunctionTree:
    """Cliques of columns, in ascending order each, and the links in depth-first order from clique 0."""

    cliques: tuple[tuple[int, ...], ...]
    links: tuple[Link, ...]

    @property
    def below(self) -> list[list[int]]:
        """The places of the links to each clique's children."""
        children: list[list[int]] = [[] for _ in self.cliques]
        for i, link in enumerate(self.links):
            children[link.parent].append(i)
        return children

    def home(self, columns: Sequence[int], sizes: Sequence[int]) -> int | None:
        """Return the clique with the fewest cells that holds all of `columns`, None where none does."""
        holding = [
            (math.prod(sizes[c] for c in clique), i)
            for i, clique in enumerate(self.cliques)
            if set(columns) <= set(clique)
        ]
        return min(holding)[1] if holding else None

    def require_home(self, columns: Sequence[int], sizes: Sequence[int]) -> int:
        """Return the same; raises ValueError where no clique holds all of `columns`."""
        home = self.home(columns, sizes)
        if home is None:
            raise ValueError("columns that no clique of the tree holds")
        return home


def columns_of(mask: int) -> tuple[int, ...]:
    """Return the columns of a set, ascending."""
    columns = []
    while mask:
        low = mask & -mask
        columns.append(low.bit_length() - 1)
        mask ^= low
    return tuple(columns)


def count_cells(mask: int, sizes: Sequence[int]) -> int:
    """Return the number of cells of a table over a set of columns."""
    return math.prod(sizes[c] for c in columns_of(mask))


def maximal_cliques(neighbors: Sequence[int], sizes: Sequence[int], *, cap: float = math.inf) -> list[int] | None:
    """Return the maximal cliques of a triangulation, None where their cells pass `cap`.

    Eliminates the column whose clique has the fewest cells first (Kjaerulff 1990), ties by the least column.
    """
    around = list(neighbors)
    left = (1 << len(around)) - 1
    cost = [count_cells(n | 1 << i, sizes) for i, n in enumerate(around)]
    cliques: list[int] = []
    total = 0
    while left:
        i = min(columns_of(left), key=lambda c: (cost[c], c))
        clique = around[i] | 1 << i
        if not any(clique & ~other == 0 for other in cliques):
            cliques.append(clique)
            total += cost[i]
            if total > cap:
                return None
        left &= ~(1 << i)
        for j in columns_of(around[i]):
            joined = (around[j] | around[i]) & ~(1 << j) & ~(1 << i)
            if joined != around[j]:
                around[j] = joined
                cost[j] = count_cells(joined | 1 << j, sizes)
    return cliques


def grow_clique(
    pairs: Sequence[Pair], sizes: Sequence[int], *, cap: float, start: Sequence[Pair] = (), most: int | None = None
) -> tuple[list[Pair], list[int]]:
    """Return the first `most` of `pairs` that fit, in order, and the cliques: each pair is taken if the cap still holds.

    Pairs that are in a clique already are free. `start` is taken first, whatever the cap.
    """
    around = [0] * len(sizes)
    for a, b in start:
        around[a] |= 1 << b
        around[b] |= 1 << a
    cliques = maximal_cliques(around, sizes) or []
    accepted: list[Pair] = []
    for a, b in pairs:
        if most is not None and len(accepted) >= most:
            break
        both = 1 << a | 1 << b
        if any(c & both == both for c in cliques):
            accepted.append((a, b))
            # The pair stays an edge, so that no later triangulation parts the two.
            around[a] |= 1 << b
            around[b] |= 1 << a
            continue
        if sizes[a] * sizes[b] > cap:
            continue
        around[a] |= 1 << b
        around[b] |= 1 << a
        grown = maximal_cliques(around, sizes, cap=cap)
        if grown is None:
            around[a] &= ~(1 << b)
            around[b] &= ~(1 << a)
        else:
            cliques = grown
            accepted.append((a, b))
    return accepted, cliques


def junction_tree(cliques: Sequence[int]) -> JunctionTree:
    """Return the tree of greatest separators over the maximal cliques of a triangulated graph (Prim).

    Cliques that share nothing are linked by an empty separator, so that there is one tree.
    """
    order = sorted(cliques)
    joined = [0]
    left = set(range(1, len(order)))
    parents: dict[int, int] = {}
    best = {i: ((order[i] & order[0]).bit_count(), 0) for i in left}
    while left:
        child = max(left, key=lambda i: (best[i][0], -i))
        parents[child] = best[child][1]
        joined.append(child)
        left.remove(child)
        for i in left:
            shared = (order[i] & order[child]).bit_count()
            if shared > best[i][0]:
                best[i] = (shared, child)
    children: dict[int, list[int]] = {}
    for child, parent in parents.items():
        children.setdefault(parent, []).append(child)
    links: list[Link] = []
    stack = [0]
    while stack:
        at = stack.pop()
        if at in parents:
            links.append(Link(parents[at], at, columns_of(order[at] & order[parents[at]])))
        stack += sorted(children.get(at, ()), reverse=True)
    return JunctionTree(tuple(columns_of(c) for c in order), tuple(links))
