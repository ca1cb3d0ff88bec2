"""A fitted model, whatever the algorithm: the marginals it was given, the tables measured, and the field fitted to both.

It knows released numbers only; what is asked next is decided elsewhere.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sordino.synth.denoising import draw_to_product, read_pair
from sordino.synth.encoded_column import Floats
from sordino.synth.junction_tree import Pair, columns_of, count_cells, grow_clique, junction_tree
from sordino.synth.markov_random_field import (
    HARDEST,
    Factor,
    MarkovRandomField,
    calibrate,
    column_counts,
    independent_field,
    make_consistent,
    marginal,
    restart,
    spread,
)
from sordino.synth.measurement import NoisyTable
from sordino.synth.one_way_marginals import CompressedMarginals, OneWayMarginals, project
from sordino.synth.pair_moments import keep_moment, meet_moments, moment_scores

# Noisy tables by their columns, ascending.
Measured = dict[tuple[int, ...], NoisyTable]

# A variance of counts without noise is taken as no less.
_LEAST = 1e-9
# Softness of one-way counts, relative to their variance: they are all but exact.
_FIRM = 1e-3
# Cells that cliques may have for the sake of rules, and the least number of sweeps that fit columns' counts to them.
_RULE_CELLS = 500_000
_RULE_SWEEPS = 20
# How often as many are added, in the last field and in those before it, while the columns' counts are farther than their noise
# from those they are fitted to, and come nearer each time by more than this part. Few cells that hold rows, as under a sum,
# are fitted slowly: after twenty sweeps a column's counts were ten deviations of their noise away.
_LAST_ROUNDS = 20
_ROUNDS = 5
_NEARER = 0.01
# Softness of a pair that was read, relative to its variance: what the noise hides has been taken from it.
_READ = 1e-3


@dataclass(frozen=True, slots=True)
class FittedModel:
    """The one-way counts, the same over codes, the field, the tables measured, and the name of the tier in words."""

    one_way: OneWayMarginals
    compressed: CompressedMarginals
    field: MarkovRandomField
    measured: Measured
    tier: str

    @property
    def outside(self) -> Measured:
        """The tables measured that no clique holds: the field knows nothing of them."""
        return {m: t for m, t in self.measured.items() if self.field.tree.home(m, self.compressed.sizes) is None}


def independent_model(
    one_way: OneWayMarginals, tier: str, compressed: CompressedMarginals | None = None
) -> FittedModel:
    """Return the model in which columns are independent, over codes as few as noise allows or those of `compressed`."""
    compressed = one_way.compress() if compressed is None else compressed
    field = fit_field(compressed, {}, [1 << i for i in range(len(one_way.columns))], sweeps=0, potentials={})
    return FittedModel(one_way, compressed, field, {}, tier)


def merge_measurements(known: Measured, fresh: Measured) -> Measured:
    """Return all measurements, repeated ones combined by inverse variance."""
    merged = dict(known)
    for pair, new in fresh.items():
        old = merged.get(pair)
        if old is None:
            merged[pair] = new
        else:
            total = old.variance + new.variance
            cells = (old.cells * new.variance + new.cells * old.variance) / total
            merged[pair] = NoisyTable(cells, old.variance * new.variance / total)
    return merged


def sharpen_counts(compressed: CompressedMarginals, measured: Measured) -> CompressedMarginals:
    """Return the counts of each column combined, by inverse variance, with those that the measured tables have of it.

    A table of noise v a cell tells the counts of one of its columns with the variance v times the cells of a code. All are
    taken to the one number of rows first, which every column's own counts estimate together.
    """
    counts = []
    variances = []
    for c, (own, variance) in enumerate(zip(compressed.counts, compressed.variances, strict=True)):
        information = 1.0 / np.maximum(variance, _LEAST)
        weighted = own * information
        for columns, table in measured.items():
            if c not in columns:
                continue
            margin = marginal(table.cells, columns, (c,))
            margin = margin + (compressed.rows - float(margin.sum())) / len(own)
            added = len(own) / (table.cells.size * max(table.variance, _LEAST))
            weighted = weighted + margin * added
            information = information + added
        counts.append(project(weighted / information, compressed.rows))
        variances.append(1.0 / information)
    return replace(compressed, counts=tuple(counts), variances=tuple(variances))


def fit_field(
    compressed: CompressedMarginals,
    measured: Measured,
    cliques: Sequence[int],
    *,
    sweeps: int,
    potentials: dict[tuple[int, ...], Floats],
    last: bool = False,
    restrained: Mapping[Pair, Floats] | None = None,
) -> MarkovRandomField:
    """Return the field fitted to the one-way counts and to the measured tables that a clique holds.

    It begins with earlier `potentials`, which are renewed. Of the `last` field rows are drawn: there, pairs that rise or fall
    together strongly are as correlated as they were read. `restrained` are tables of pairs that were not measured, to which
    the field is held as if it had been read.

    In the end every table counts `rows`: soft measurements that disagree leave a total of their own, farther from the truth
    than the estimate that all one-way counts make together.
    """
    rows = compressed.rows
    sizes = compressed.sizes
    if compressed.structure.shares:
        cliques = _hold_rules(cliques, compressed, measured)
        sweeps = max(sweeps, _RULE_SWEEPS)
    field = independent_field(junction_tree(cliques), compressed.counts, rows)
    _apply_rules(field, compressed)
    measurements: list[tuple[tuple[int, ...], Floats, Floats | float]] = [
        ((c,), counts, np.maximum(_FIRM * variance, HARDEST * rows))
        for c, (counts, variance) in enumerate(zip(compressed.counts, compressed.variances, strict=True))
    ]
    readings: dict[Pair, Floats] = {}
    softened: dict[Pair, NoisyTable] = {}
    for columns, table in measured.items():
        if field.tree.home(columns, sizes) is None:
            continue
        possible = _without_impossible(compressed, columns, table)
        cells = _read(compressed, columns, possible)
        if cells is None:
            measurements.append((columns, *_soften(compressed, columns, possible)))
            if len(columns) == 2:
                softened[columns[0], columns[1]] = possible
        else:
            readings[columns[0], columns[1]] = cells
            measurements.append((columns, cells, max(_READ * possible.variance, HARDEST * rows)))
    measurements += [
        (pair, table, HARDEST * rows)
        for pair, table in (restrained or {}).items()
        if pair not in measured and field.tree.home(pair, sizes) is not None
    ]
    factors = [
        Factor(columns, counts, softness, potentials.get(columns, np.zeros_like(counts)).copy())
        for columns, counts, softness in measurements
    ]
    if potentials:
        restart(field, factors, sizes)
    calibrate(field, factors, sizes, sweeps=sweeps)
    if compressed.structure.shares:
        _meet_counts(field, factors, compressed, rounds=_LAST_ROUNDS if last else _ROUNDS)
    potentials.update({f.columns: f.theta for f in factors})
    scale = rows / max(float(field.tables[0].sum()), 1e-9)
    for values in (*field.tables, *field.separators):
        values *= scale
    if last:
        for pair, noisy in softened.items():
            home = field.tree.require_home(pair, sizes)
            fitted = marginal(field.tables[home], field.tree.cliques[home], pair)
            readings[pair] = _keep_moment(compressed, pair, fitted, noisy)
        meet_moments(field, compressed, readings, {pair: measured[pair].variance for pair in readings})
    return field


def _meet_counts(
    field: MarkovRandomField, factors: Sequence[Factor], compressed: CompressedMarginals, *, rounds: int
) -> None:
    """Fit the field further, in place, until its counts of each column differ from those given by no more than their noise."""
    sizes = compressed.sizes
    deviations = [math.sqrt(max(float(variance.mean()), _LEAST)) for variance in compressed.variances]

    def distance() -> float:
        """Return the root mean square difference of a column's counts, in deviations of noise, that is largest."""
        squares = [np.square(a - b).mean() for a, b in zip(column_counts(field, sizes), compressed.counts, strict=True)]
        return max(math.sqrt(float(s)) / deviation for s, deviation in zip(squares, deviations, strict=True))

    before = distance()
    for _ in range(rounds):
        if before <= 1.0:
            return
        calibrate(field, factors, sizes, sweeps=_RULE_SWEEPS)
        now = distance()
        if now > (1.0 - _NEARER) * before:
            return
        before = now


def _hold_rules(cliques: Sequence[int], compressed: CompressedMarginals, measured: Measured) -> list[int]:
    """Return cliques that hold the columns of each rule, the smallest tables first, as far as the cells allow.

    Where the cliques given leave no room for one, it comes first, and then the tables `measured`, the best first, as they fit:
    rows are moved towards the others, while those that break a rule would be completed without regard to any.
    """
    sizes = compressed.sizes
    cap = max(_RULE_CELLS, sum(count_cells(c, sizes) for c in cliques))
    edges: list[Pair] = []
    for places in sorted(compressed.structure.shares, key=lambda p: math.prod(sizes[c] for c in p)):
        with_rule = [*edges, *itertools.combinations(places, 2)]
        if sum(count_cells(c, sizes) for c in grow_clique([], sizes, cap=cap, start=with_rule)[1]) <= cap:
            edges = with_rule
    pairs = [pair for clique in cliques for pair in itertools.combinations(columns_of(clique), 2)]
    whole = grow_clique([], sizes, cap=cap, start=[*edges, *pairs])[1]
    if sum(count_cells(c, sizes) for c in whole) <= cap:
        return whole
    pairs = [pair for columns in measured for pair in itertools.combinations(columns, 2)]
    return grow_clique(pairs, sizes, cap=cap, start=edges)[1]


def _apply_rules(field: MarkovRandomField, compressed: CompressedMarginals) -> None:
    """Multiply a product model, in place, by the share of each cell that rules leave: what is empty stays so in any fit."""
    sizes = compressed.sizes
    shares = compressed.structure.shares
    held = {places for places in shares if field.tree.home(places, sizes) is not None}
    implied = {p: r for p, r in compressed.structure.ratios.items() if not any(set(p) <= set(h) for h in held)}
    factors = {**implied, **{places: shares[places] for places in held}}
    for places, share in factors.items():
        home = field.tree.home(places, sizes)
        if home is not None:
            field.tables[home] *= spread(share, places, field.tree.cliques[home])
    if factors:
        make_consistent(field)


def _without_impossible(compressed: CompressedMarginals, columns: Sequence[int], counts: NoisyTable) -> NoisyTable:
    """Return a measured table without what was counted where no row can be: that is noise."""
    if not compressed.structure.within(columns):
        return counts
    return NoisyTable(np.where(compressed.independent(columns) > 0.0, counts.cells, 0.0), counts.variance)


def _read(compressed: CompressedMarginals, columns: Sequence[int], counts: NoisyTable) -> Floats | None:
    """Return what the table of a pair is read as whose rows lie in few cells, or whose columns rise together (`read_pair`)."""
    if len(columns) != 2:
        return None
    margins = compressed.counts[columns[0]], compressed.counts[columns[1]]
    scores = list(zip(compressed.scores(columns[0]), compressed.scores(columns[1]), strict=False))
    table = read_pair(counts.cells, margins, counts.variance, scores)
    return None if table is None else _keep_moment(compressed, (columns[0], columns[1]), table, counts)


def _keep_moment(compressed: CompressedMarginals, pair: Pair, table: Floats, counts: NoisyTable) -> Floats:
    """Return the table of a pair with the correlation of its counts, if both columns have an order (`keep_moment`)."""
    scores = moment_scores(compressed, pair)
    return table if scores is None else keep_moment(table, counts, scores)


def _soften(compressed: CompressedMarginals, columns: Sequence[int], counts: NoisyTable) -> tuple[Floats, float]:
    """Return the cells to which a table that lies about independence is fitted, and how softly (`draw_to_product`).

    What its cells say of one column is taken from them: each column's counts have that already (`sharpen_counts`).
    """
    product = compressed.independent(columns)
    beyond = counts.cells - product
    for axis in range(beyond.ndim):
        others = tuple(a for a in range(beyond.ndim) if a != axis)
        beyond = beyond - beyond.mean(axis=others, keepdims=True)
    free = math.prod((n - 1) / n for n in beyond.shape)
    goal, softness = draw_to_product(product, product + beyond, free * counts.variance, pair=len(columns) == 2)
    return goal, max(softness, HARDEST * compressed.rows)
