"""The engine under the synthesizers: projection, triangulation, calibration, inference, sampling. Released numbers only."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from sordino.core.noise.rng import Rng
from sordino.synth import inference
from sordino.synth.histogram import best_layout, combine_levels, layout_of, range_variances
from sordino.synth.inference import condition_on, joint
from sordino.synth.junction_tree import JunctionTree, columns_of, grow_clique, junction_tree, maximal_cliques
from sordino.synth.markov_random_field import Factor, calibrate, independent_field, marginal, restart, wright_omega
from sordino.synth.one_way_marginals import compress_domain, project
from sordino.synth.pair_selection import allocation, mean_distance, shrink_scores
from sordino.synth.sampler import draw_codes, spacings


def test_projection_is_the_nearest_point_of_the_simplex() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        y = rng.normal(size=8) * 5
        x = project(y, 7.0)
        assert math.isclose(x.sum(), 7.0)
        assert (x >= 0).all()
        for other in rng.dirichlet(np.ones(8), 50) * 7.0:
            assert np.square(x - y).sum() <= np.square(other - y).sum() + 1e-9


def test_projection_is_not_biased_by_empty_cells_as_clipping_is() -> None:
    """Clipping at zero adds 1 / (2 epsilon) rows to each empty cell, for Laplace noise (reference, errata)."""
    rng = np.random.default_rng(1)
    counts = np.zeros(1000)
    counts[:10] = 100.0
    noisy = counts + rng.laplace(0, 1.0, 1000)
    clipped = np.maximum(noisy, 0).sum() - counts.sum()
    assert 350 < clipped < 650  # 990 / 2, five deviations either side
    assert abs(project(noisy, noisy.sum()).sum() - counts.sum()) < 5 * math.sqrt(2000)


def test_wright_omega_solves_its_equation() -> None:
    x = np.concatenate([np.linspace(-600, 50, 4001), np.logspace(2, 8, 200)])
    w = wright_omega(x)
    assert np.allclose(w + np.log(w), x, rtol=1e-9, atol=1e-9)


def chordal(cliques: list[int], columns: int) -> None:
    tree = junction_tree(cliques)
    assert set().union(*map(set, tree.cliques)) == set(range(columns))
    at = {0: 0}
    for link in tree.links:
        assert link.parent in at
        at[link.child] = link.parent
    for c in range(columns):  # running intersection: the cliques that hold a column form one subtree
        holding = {i for i, clique in enumerate(tree.cliques) if c in clique}
        roots = [i for i in holding if i == 0 or at[i] not in holding]
        assert len(roots) == 1
    for link in tree.links:
        assert set(link.separator) == set(tree.cliques[link.parent]) & set(tree.cliques[link.child])


def test_grown_graphs_keep_the_cap_and_hold_every_pair_they_took() -> None:
    rng = np.random.default_rng(5)
    for _ in range(40):
        d = int(rng.integers(3, 12))
        sizes = rng.integers(2, 9, d).tolist()
        pairs = list(itertools.combinations(range(d), 2))
        order = [pairs[i] for i in rng.permutation(len(pairs))]
        cap = float(rng.integers(40, 4000))
        taken, cliques = grow_clique(order, sizes, cap=max(cap, sum(sizes)))
        assert sum(math.prod(sizes[c] for c in columns_of(m)) for m in cliques) <= max(cap, sum(sizes))
        assert all(any(m >> a & m >> b & 1 for m in cliques) for a, b in taken)
        chordal(cliques, d)


def random_tree(seed: int, d: int = 6) -> tuple[list[int], JunctionTree, Any]:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 5, d).tolist()
    around = [0] * d
    for a, b in [(i, i + 1) for i in range(d - 1)] + [(0, 2)]:
        around[a] |= 1 << b
        around[b] |= 1 << a
    cliques = maximal_cliques(around, sizes)
    assert cliques is not None
    truth = rng.dirichlet(np.ones(math.prod(sizes)) * 0.3).reshape(sizes) * 1000
    return sizes, junction_tree(cliques), truth


def fit(seed: int, softness: float) -> Any:
    sizes, tree, truth = random_tree(seed)
    d = len(sizes)
    ways = [marginal(truth, range(d), (c,)) for c in range(d)]
    field = independent_field(tree, ways, 1000.0)
    blocks = []
    for clique in tree.cliques:
        for pair in itertools.combinations(clique, 2):
            y = marginal(truth, range(d), pair)
            blocks.append(Factor(pair, y, softness, np.zeros_like(y)))
    calibrate(field, blocks, sizes, sweeps=300)
    return sizes, tree, truth, field, blocks, ways


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(8))
def test_calibration_without_noise_meets_every_measured_table(seed: int) -> None:
    _, tree, truth, field, blocks, _ = fit(seed, 1e-6)
    assert truth.ndim == 6
    for one in blocks:
        for clique, table in zip(tree.cliques, field.tables, strict=True):
            if set(one.columns) <= set(clique):
                assert np.abs(marginal(table, clique, one.columns) - one.counts).max() < 0.5
    for link, separator in zip(tree.links, field.separators, strict=True):
        assert np.allclose(marginal(field.tables[link.child], tree.cliques[link.child], link.separator), separator)


@pytest.mark.deep
def test_calibration_solves_the_soft_problem() -> None:
    """At the optimum theta = (y - A mu) / lam for each table: the gradient of the objective is zero."""
    _, tree, _, field, blocks, _ = fit(2, 30.0)
    for one in blocks:
        home = next(i for i, c in enumerate(tree.cliques) if set(one.columns) <= set(c))
        mu = marginal(field.tables[home], tree.cliques[home], one.columns)
        assert np.allclose(one.theta, (one.counts - mu) / 30.0, atol=2e-3)


@pytest.mark.deep
def test_a_warm_start_is_the_same_model() -> None:
    sizes, tree, _, field, blocks, ways = fit(1, 20.0)
    again = independent_field(tree, ways, 1000.0)
    restart(again, blocks, sizes)
    for a, b in zip(again.tables, field.tables, strict=True):
        assert np.allclose(a, b, rtol=1e-6, atol=1e-6)


@pytest.mark.deep
def test_inference_agrees_with_the_whole_table() -> None:
    sizes, tree, _, field, _, _ = fit(3, 5.0)
    d = len(sizes)
    whole = np.ones(sizes)
    for clique, table in zip(tree.cliques, field.tables, strict=True):
        whole = whole * table.reshape([sizes[c] if c in clique else 1 for c in range(d)])
    for link, separator in zip(tree.links, field.separators, strict=True):
        shaped = separator.reshape([sizes[c] if c in link.separator else 1 for c in range(d)])
        whole = whole / np.maximum(shaped, 1e-300)
    identity = [np.eye(s) for s in sizes]
    for k in (1, 2, 3):
        for chosen in itertools.permutations(range(d), k):
            expected = marginal(whole, range(d), sorted(chosen)).transpose([sorted(chosen).index(c) for c in chosen])
            assert np.allclose(joint(field, chosen, sizes, [identity[c] for c in chosen]), expected, rtol=1e-6)
    weights = np.linspace(0, 1, sizes[4])
    given = condition_on(field, {4: weights}, sizes)
    bent = whole * weights.reshape([-1 if c == 4 else 1 for c in range(d)])
    for clique, table in zip(tree.cliques, given.tables, strict=True):
        assert np.allclose(table, marginal(bent, range(d), clique), rtol=1e-6, atol=1e-9)


@pytest.mark.deep
def test_drawn_rows_meet_the_tables_to_within_a_few_rows() -> None:
    sizes, tree, _, field, _, _ = fit(0, 5.0)
    rows = 20_000
    drawn = draw_codes(field, sizes, rows=rows, alphas=spacings(), rng=Rng.seeded(1))
    for clique, table in zip(tree.cliques, field.tables, strict=True):
        place = np.zeros(rows, dtype=np.int64)
        for c in clique:
            place = place * sizes[c] + drawn[c]
        counts = np.bincount(place, minlength=table.size)
        assert np.abs(counts - table.ravel() * rows / table.sum()).mean() < 2.5  # independent rows: 9


@pytest.mark.deep
def test_independent_columns_stay_independent_in_drawn_rows() -> None:
    """The trap of one alpha for all columns: columns that share an order become functions of each other (reference)."""
    d, size, rows = 24, 6, 30_000
    rng = np.random.default_rng(2)
    ways = [rng.dirichlet(np.ones(size)) * rows for _ in range(d)]
    field = independent_field(junction_tree([1 << i for i in range(d)]), ways, float(rows))
    drawn = draw_codes(field, [size] * d, rows=rows, alphas=spacings(), rng=Rng.seeded(4))

    def distance(a: int, b: int) -> float:
        table = np.bincount(drawn[a] * size + drawn[b], minlength=size * size) / rows
        return float(np.abs(table - np.outer(ways[a], ways[b]).ravel() / rows**2).sum() / 2)

    chance = mean_distance(np.full(size * size, rows / size**2)) / (2 * rows)
    found = [distance(a, b) for a, b in itertools.combinations(range(d), 2)]
    assert np.mean(found) < 1.2 * chance
    assert max(found) < 4 * chance


def test_expected_distance_is_that_of_poisson_counts() -> None:
    rng = np.random.default_rng(6)
    means = np.concatenate([rng.uniform(0, 3, 200), rng.uniform(3, 900, 50), [2000.0]])
    seen = np.abs(rng.poisson(means, (4000, len(means))) - means).sum(axis=1)
    assert abs(seen.mean() - mean_distance(means)) < 5 * seen.std() / math.sqrt(4000)


def test_shrunken_scores_keep_what_is_clear_and_drop_noise() -> None:
    rng = np.random.default_rng(7)
    scores = rng.normal(0, 10, 200)
    scores[:5] += 500
    kept = shrink_scores(scores, 10.0)
    assert (kept[:5] > 400).all()
    assert np.count_nonzero(kept[5:]) < 20


@pytest.mark.parametrize("seed", range(12))
def test_allocation_is_the_optimum_and_wastes_nothing(seed: int) -> None:
    """The cost is convex, so an allocation is its optimum exactly where Karush, Kuhn and Tucker's conditions hold.

    Each table that gets some gains the same from a little more, and none that gets nothing would gain as much: random
    allocations and small moves would tell an exponent of 2/3 from no other between 1/5 and 1.
    """
    rng = np.random.default_rng(seed)
    cells, known = rng.uniform(1, 500, 8), rng.uniform(0, 1, 8)
    total = float(rng.choice([0.05, 0.5, 5.0, 500.0]))
    extra: np.ndarray[Any, Any] = np.array(allocation(cells.tolist(), known.tolist(), total))
    assert math.isclose(extra.sum(), total, rel_tol=1e-6)
    assert (extra >= 0).all()
    # the derivative of sum n / sqrt(info), its sign turned: what a table gains from a little more
    gains = cells / 2 * (known + extra) ** -1.5
    given = extra > 0
    assert gains[given].max() <= gains[given].min() * (1 + 1e-9)
    assert gains[~given].max(initial=0.0) <= gains[given].min() * (1 + 1e-9)


@pytest.mark.parametrize("ordered", [True, False])
def test_codes_cover_every_key_in_order_and_missing_stays_alone(ordered: bool) -> None:
    rng = np.random.default_rng(3)
    counts = rng.exponential(20, 90)
    found = compress_domain(counts, 15.0, middles=np.arange(len(counts) - 1.0) if ordered else None, missing=True)
    assert sorted(set(found.codes.tolist())) == list(range(found.size))
    assert (found.codes == found.codes[-1]).sum() == 1
    assert math.isclose(found.sum_by_code(counts).sum(), counts.sum())
    if ordered:
        assert (np.diff(found.codes[:-1]) >= 0).all()


@pytest.mark.deep
def test_hierarchies_combine_all_levels_and_are_chosen_where_cheaper() -> None:
    layout = layout_of(64, 4)
    truth = np.arange(64.0)
    levels = [np.bincount(np.array(layout.codes(w)), weights=truth).astype(np.float64) for w in layout.widths]
    assert np.allclose(combine_levels(layout, levels), truth)  # consistent counts are kept as they are
    rng = np.random.default_rng(0)
    noisy = np.array(
        [combine_levels(layout, [x + rng.normal(size=len(x)) for x in levels])[8:56].sum() for _ in range(1000)]
    )
    stated = range_variances(layout, [(8, 56)], pure=False)[0] / len(layout.widths)
    assert abs(noisy.var() / stated - 1) < 0.22  # five deviations of a variance of 1,000 draws
    long_ranges = [(0, i) for i in range(1, 1024)]
    assert not best_layout(1024, long_ranges, pure=True).flat
    assert best_layout(1024, [(i, i + 1) for i in range(1024)], pure=True).flat


def test_rows_drawn_into_one_class_each_are_as_many_as_rows_spread_over_classes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A question under two rules had five columns of many classes, over which drawn rows were spread by 931 GiB."""
    sizes, _, _, field, _, _ = fit(3, 5.0)
    shares = [np.random.default_rng(c).dirichlet(np.ones(3), sizes[c]) for c in range(3)]
    exact = joint(field, range(3), sizes, shares)
    monkeypatch.setattr(inference, "_MOST_SPREAD", 0)
    drawn = inference._estimate_by_rows(field, range(3), sizes, shares)
    assert drawn.sum() == pytest.approx(exact.sum())
    # Of 400,000 rows, five deviations of half of them are .004 of all.
    assert np.abs(drawn - exact).max() < 0.004 * exact.sum()
