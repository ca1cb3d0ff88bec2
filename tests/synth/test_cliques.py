"""Triangulations beside the plain algorithm: each step looks at all columns that are left, and at all cliques so far."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.synth.junction_tree import Pair, columns_of, grow_clique, maximal_cliques


def plain_cliques(edges: Sequence[Pair], sizes: Sequence[int], cap: float) -> list[int] | None:
    """Kjaerulff's elimination as it is written: the column of the fewest cells, ties by the least column."""
    around = [set[int]() for _ in sizes]
    for a, b in edges:
        around[a].add(b)
        around[b].add(a)
    left = set(range(len(sizes)))
    cliques: list[set[int]] = []
    while left:
        i = min(left, key=lambda c: (math.prod(sizes[k] for k in around[c] | {c}), c))
        clique = around[i] | {i}
        if not any(clique <= other for other in cliques):
            cliques.append(clique)
            if sum(math.prod(sizes[k] for k in one) for one in cliques) > cap:
                return None
        left.remove(i)
        for j in around[i]:
            around[j] = (around[j] | around[i]) - {i, j}
    return [sum(1 << k for k in clique) for clique in cliques]


def plain_growth(pairs: Sequence[Pair], sizes: Sequence[int], cap: float, start: Sequence[Pair]) -> list[Pair]:
    """Each pair is taken if the cap holds with it, and one within a clique is free."""
    edges = list(start)
    cliques = plain_cliques(edges, sizes, math.inf) or []
    accepted: list[Pair] = []
    for a, b in pairs:
        inside = any({a, b} <= set(columns_of(clique)) for clique in cliques)
        grown = None if sizes[a] * sizes[b] > cap else plain_cliques([*edges, (a, b)], sizes, cap)
        if inside or grown is not None:
            edges.append((a, b))
            accepted.append((a, b))
        if not inside and grown is not None:
            cliques = grown
    return accepted


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_cliques_are_those_of_the_plain_algorithm(data: st.DataObject) -> None:
    check_cliques(data)


@pytest.mark.deep
@settings(max_examples=400, deadline=None)
@given(st.data())
def test_cliques_are_those_of_the_plain_algorithm_in_many_graphs(data: st.DataObject) -> None:
    check_cliques(data)


def check_cliques(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 6), min_size=2, max_size=9))
    column = st.integers(0, len(sizes) - 1)
    pair = st.tuples(column, column).filter(lambda p: p[0] < p[1])
    edges = data.draw(st.lists(pair, unique=True, max_size=20))
    cap = data.draw(st.sampled_from([20, 80, 300, math.inf]))
    around = [sum(1 << (a + b - i) for a, b in edges if i in (a, b)) for i in range(len(sizes))]
    assert maximal_cliques(around, sizes, cap=cap) == plain_cliques(edges, sizes, cap)
    start = edges[: data.draw(st.integers(0, 3))]
    rest = [p for p in edges if p not in start]
    accepted, cliques = grow_clique(rest, sizes, cap=cap, start=start)
    assert accepted == plain_growth(rest, sizes, cap, start)
    assert all(any(c >> a & 1 and c >> b & 1 for c in cliques) for a, b in [*start, *accepted])


def test_a_cost_that_rises_is_not_the_old_one() -> None:
    """In sparse random graphs an elimination joins columns that were apart, whose cliques then have more cells."""
    rng = random.Random(3)
    for _ in range(60):
        sizes = [rng.randint(2, 6) for _ in range(16)]
        edges = sorted({(a, b) for a in range(16) for b in range(a + 1, 16) if rng.random() < 0.2})
        around = [sum(1 << (a + b - i) for a, b in edges if i in (a, b)) for i in range(16)]
        assert maximal_cliques(around, sizes) == plain_cliques(edges, sizes, math.inf)
