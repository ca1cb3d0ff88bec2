"""Junction trees over columns: triangulation by the fewest cells, growth under a cap, and the tree. Knows sizes only.

A set of columns is a whole number whose bit i says that column i is in it.
"""

from __future__ import annotations

import heapq
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
    # Without a list of them: a fit of a hundred columns asks 650,000 times.
    cells = 1
    while mask:
        low = mask & -mask
        cells *= sizes[low.bit_length() - 1]
        mask ^= low
    return cells


def maximal_cliques(
    neighbors: Sequence[int], sizes: Sequence[int], *, cap: float = math.inf, costs: Sequence[int] | None = None
) -> list[int] | None:
    """Return the maximal cliques of a triangulation, None where their cells pass `cap`.

    Eliminates the column whose clique has the fewest cells first (Kjaerulff 1990), ties by the least column. `costs` are the
    cells of each column with its neighbors, where they are known.
    """
    around = list(neighbors)
    cost = [count_cells(n | 1 << i, sizes) for i, n in enumerate(around)] if costs is None else list(costs)
    waiting = [(cells, i) for i, cells in enumerate(cost)]
    heapq.heapify(waiting)
    gone = 0
    # The cliques so far that hold a column: no other can hold its own.
    holding: list[list[int]] = [[] for _ in around]
    cliques: list[int] = []
    total = 0
    while waiting:
        cells, i = heapq.heappop(waiting)
        # A column's cost has changed since it was put there, or it was met with this one before.
        if gone >> i & 1 or cells != cost[i]:
            continue
        gone |= 1 << i
        rest = around[i]
        clique = rest | 1 << i
        others = columns_of(rest)
        if not any(clique & ~other == 0 for other in holding[i]):
            cliques.append(clique)
            total += cells
            if total > cap:
                return None
            for j in others:
                holding[j].append(clique)
        for j in others:
            joined = (around[j] | rest) & ~(1 << j | 1 << i)
            cost[j] = cost[j] // sizes[i] * count_cells(joined & ~around[j], sizes)
            around[j] = joined
            heapq.heappush(waiting, (cost[j], j))
    return cliques


class _Growing:
    """A graph of columns that grows by edges: the neighbors of each column, and the cells of a column with all of them."""

    def __init__(self, sizes: Sequence[int], edges: Sequence[Pair]) -> None:
        self.sizes = sizes
        self.around = [0] * len(sizes)
        self.costs = list(sizes)
        for edge in edges:
            self.add(edge)

    def add(self, edge: Pair) -> None:
        for one, other in (edge, edge[::-1]):
            if not self.around[one] >> other & 1:
                self.around[one] |= 1 << other
                self.costs[one] *= self.sizes[other]

    def remove(self, edge: Pair) -> None:
        for one, other in (edge, edge[::-1]):
            self.around[one] &= ~(1 << other)
            self.costs[one] //= self.sizes[other]

    def cliques(self, cap: float = math.inf) -> list[int] | None:
        return maximal_cliques(self.around, self.sizes, cap=cap, costs=self.costs)


def grow_clique(
    pairs: Sequence[Pair], sizes: Sequence[int], *, cap: float, start: Sequence[Pair] = (), most: int | None = None
) -> tuple[list[Pair], list[int]]:
    """Return the first `most` of `pairs` that fit, in order, and the cliques: each pair is taken if the cap still holds.

    Pairs that are in a clique already are free. `start` is taken first, whatever the cap.
    """
    graph = _Growing(sizes, start)
    cliques = graph.cliques() or []
    accepted: list[Pair] = []
    for pair in pairs:
        if most is not None and len(accepted) >= most:
            break
        a, b = pair
        both = 1 << a | 1 << b
        if any(c & both == both for c in cliques):
            accepted.append(pair)
            # The pair stays an edge, so that no later triangulation parts the two.
            graph.add(pair)
            continue
        if sizes[a] * sizes[b] > cap:
            continue
        graph.add(pair)
        grown = graph.cliques(cap)
        if grown is None:
            graph.remove(pair)
        else:
            cliques = grown
            accepted.append(pair)
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
