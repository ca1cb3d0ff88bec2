"""Measurement: how a loss is split, and noisy counts that were measured."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from sordino.ask.queries.adaptive.marginal import PARTS, ContingencyTable, Distances, MarginalQuery
from sordino.ask.queries.queryable import Queryable
from sordino.ask.queries.sensitivity_rules import count_sensitivity
from sordino.core.accounting.gaussian_dp import vectors_rho_for
from sordino.core.accounting.zcdp import rho_for
from sordino.core.errors import DeclarationError, arg
from sordino.core.estimates.noisy import Noisy
from sordino.core.loss import ZCDP, ApproxDP, Loss, PureDP
from sordino.core.neighbors import Neighbors
from sordino.core.noise.laws import NoiseLaw
from sordino.core.noise.rng import Rng
from sordino.core.release import Output
from sordino.synth.encoded_column import EncodedColumn, Floats
from sordino.synth.error_law import ErrorLaw
from sordino.synth.heaps import HeapSearch, may_heap, plan_searches
from sordino.synth.one_way_marginals import DomainCompression, OneWayMarginals, estimate_one_way
from sordino.synth.rule_cells import RuleCells
from sordino.synth.value_edges import edge_levels, find_edges, level_information

# ---- What a fit may ask, and what it pays: shares of one loss, noisy tables of counts, distances to public models
#
# All goes through a Queryable; nothing here sees data.

# Shares of the loss are counted in this many parts.
_FINE = 1 << 30
# A variance that underflows is still not zero.
_LEAST = 1e-12
# A share of epsilon: sums of it are rounded up where they are counted.
_MARGIN = Fraction(1, 1 << 40)
# The share of the loss that finds the edges of wide columns, of what pays for one-way counts, and its most of that.
EDGES = 0.1
_MOST_EDGES = 0.5
# The share of the loss that looks for heaps, of what pays for one-way counts, and its most of that: noise falls with the root
# of rho, but with epsilon itself.
HEAPS = {"rho": 0.01, "epsilon": 0.02}
_MOST_HEAPS = 0.1
# Rows, in deviations of a count, with which a heap of a hundredth of them shows.
_SHARP_HEAPS = 1000.0


@dataclass(frozen=True, slots=True)
class LossShares:
    """The whole loss in one currency, epsilon or rho, and what one unit moves a table of counts by."""

    currency: Literal["epsilon", "rho"]
    total: Fraction
    delta: Fraction | None
    move_l1: Fraction
    move_l2_squared: Fraction

    def loss(self, share: Fraction) -> Loss:
        """Return the loss that is a share of the whole."""
        return PureDP(self.total * share) if self.currency == "epsilon" else ZCDP(self.total * share, self.delta)

    def variance(self, share: Fraction | float, *, tables: int) -> float:
        """Return the variance of each cell where `tables` tables of counts share this share of the loss equally."""
        if float(share) <= 0:
            return math.inf
        paid = float(self.total) * float(share)
        if self.currency == "epsilon":
            return 2.0 * (float(self.move_l1) * tables / paid) ** 2
        return float(self.move_l2_squared) * tables / (2.0 * paid)


def split_loss(loss: Loss, neighbors: Neighbors) -> LossShares:
    """Return how to spend a loss: pure losses as epsilon, (epsilon, delta) as the rho of vectors that implies it, rho as it is.

    Raises DeclarationError for a loss of nothing.
    """
    moved = count_sensitivity(neighbors, cells=2, droppable=True)
    # a table of two cells moves as far as any larger one in l1 and l2: C, C under add_remove; 2C, sqrt(2) C under replace
    if isinstance(loss, ZCDP):
        shares = LossShares("rho", loss.rho, loss.delta, moved.l1, moved.l2_squared)
    elif isinstance(loss, ApproxDP) and loss.delta > 0:
        rho = vectors_rho_for(loss.epsilon, loss.delta) or rho_for(loss.epsilon, loss.delta)
        shares = LossShares("rho", rho, loss.delta, moved.l1, moved.l2_squared)
    else:
        shares = LossShares("epsilon", loss.epsilon, None, moved.l1, moved.l2_squared)
    if shares.total <= 0:
        raise DeclarationError(
            f"a synthetic table needs a loss above 0: give {arg('epsilon=')}, "
            f"{arg('epsilon=')} and {arg('delta=')}, or {arg('rho=')}"
        )
    return shares


def all_rows(column: EncodedColumn) -> ContingencyTable:
    """Return the table of one cell, that of all rows: all keys of a column share a code."""
    return ContingencyTable((column.axis(np.zeros(column.size, dtype=np.int64)),))


def share_of(value: float) -> Fraction:
    """Return a share as an exact fraction, rounded down.

    >>> share_of(0.35) <= Fraction(35, 100)
    True
    """
    return Fraction(math.floor(value * _FINE), _FINE)


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a synthesizer's algorithm, by the name its paper gives it, and the share of the loss that it spends.

    `share` is `of` the whole loss, of the "fit" (the loss without what CHECK keeps), of what is "left" after the steps
    before, or of a "round" of several that spend all that is left. With `most`, released numbers choose between the two.
    """

    name: str
    share: Fraction | float
    of: Literal["loss", "fit", "left", "round"] = "fit"
    most: float = 0.0

    def part(self, whole: Fraction) -> Fraction:
        """Return the step's share of `whole`: exact if the share is a fraction, else rounded down."""
        return whole * self.share if isinstance(self.share, Fraction) else share_of(float(whole) * self.share)


CHECK = Step("measure the model's own error", 0.05, of="loss")
_ALL = Fraction(1)


def rest(name: str) -> Step:
    """Return the step that spends all that the steps before it leave."""
    return Step(name, _ALL, of="left")


def edge_noise(split: LossShares, columns: Sequence[EncodedColumn]) -> float:
    """Return the deviation of the last counts that find edges, by public parameters; 0 where no column is wide."""
    wide = sum(c.equally_cut for c in columns)
    if not wide:
        return 0.0
    last = _level_shares(split, edge_levels(columns))[-1]
    return math.sqrt(split.variance(EDGES * float(last), tables=wide))


def _level_shares(split: LossShares, levels: int) -> list[Fraction]:
    """Return the share of each level that finds edges: information is in proportion to rho, and to the square of epsilon."""
    power = 0.5 if split.currency == "epsilon" else 1.0
    return _exact_shares([i**power for i in level_information(levels)])


def describe_steps(steps: Sequence[Step]) -> list[tuple[str, str]]:
    """Return the name of each step and its share of the whole loss, in words; the check of the model is the last.

    >>> describe_steps([Step("select", Fraction(1, 3)), rest("measure")])
    [('select', '31.7%'), ('measure', '63.3%'), ("measure the model's own error", '5%')]
    """
    fit = 1.0 - float(CHECK.share)
    # None once a step's share depends on released numbers: what is left is then a number that nobody knows beforehand
    left: float | None = fit
    lines: list[tuple[str, str]] = []
    for step in steps:
        whole = {"loss": 1.0, "fit": fit}.get(step.of, left)
        share = float(step.share)
        suffix = " of what is left" if whole is None else ""
        if step.most:
            text = f"{_percent(share, whole)} to {_percent(step.most, whole)}{suffix}"
        elif whole is None and step.share == _ALL:
            text = "the rest"
        else:
            text = _percent(share, whole) + suffix
        lines.append((step.name, text))
        left = None if whole is None or left is None or step.most else left - whole * share
    return [*lines, (CHECK.name, _percent(float(CHECK.share), 1.0))]


def _percent(share: float, whole: float | None) -> str:
    return f"{100 * share * (1.0 if whole is None else whole):.3g}%"


@dataclass(frozen=True, slots=True)
class NoisyTable:
    """A noisy table of counts: its cells, the variance of the noise in each, and its law, None where several are combined."""

    cells: Floats
    variance: float
    law: NoiseLaw | None = None


def release_counts(
    data: Queryable, tables: Sequence[ContingencyTable], loss: Loss, *, shares: Sequence[Fraction] | None = None
) -> list[NoisyTable]:
    """Return the noisy counts of each table, shaped as its axes."""
    release = data.release(MarginalQuery(tuple(tables), None if shares is None else tuple(shares)), loss)
    vectors = [_noisy_table(output) for output in release.outputs]
    shapes = [table.shape(data.domain) for table in tables]
    return [NoisyTable(n.cells.reshape(shape), n.variance, n.law) for n, shape in zip(vectors, shapes, strict=True)]


def release_vectors(
    data: Queryable, tables: Sequence[ContingencyTable], models: Sequence[Floats], loss: Loss
) -> tuple[Floats, float]:
    """Return the noisy l1 distance of each table to its model, in rows, and the variance of the noise."""
    distances = _noisy_table(data.release(Distances(tuple(tables), tuple(_in_parts(models))), loss).outputs[0])
    return distances.cells, distances.variance


def _in_parts(models: Sequence[Floats]) -> list[Any]:
    """Return the cells of each model, flat, in the parts of a row in which distances are measured."""
    return [np.rint(m.ravel() * PARTS).astype(np.int64) for m in models]


def open_session(data: Queryable, rng: Rng, rules: RuleCells | None = None) -> FitSession:
    """Return the session of a fit; CHECK's share is not `left`. A pair is spent as epsilon until `turn_gaussian`."""
    loss = data.loss
    kept = CHECK.part(_ALL)
    if isinstance(loss, ApproxDP) and loss.delta > 0:
        pure = split_loss(PureDP(loss.epsilon), data.neighbors)
        return FitSession(data, pure, rng, left=1 - kept, kept=kept, delta=loss.delta, rules=rules)
    return FitSession(data, split_loss(loss, data.neighbors), rng, left=1 - kept, kept=kept, rules=rules)


@dataclass(slots=True)
class FitSession:
    """Spend shares of one loss; `left` only falls, and nothing is asked beyond it. `rng` serves post-processing only.

    `delta` is what the loss still has of it while epsilon is spent, None where Gaussian noise cannot be turned to.
    """

    data: Queryable
    split: LossShares
    rng: Rng
    left: Fraction = Fraction(1)
    kept: Fraction = Fraction(0)
    delta: Fraction | None = None
    rules: RuleCells | None = None

    @property
    def gaussian(self) -> LossShares:
        """What the loss is worth as Gaussian noise: the rho of what is left of (epsilon, delta), else the loss itself."""
        if self.delta is None:
            return self.split
        epsilon = self.split.total * (self.left + self.kept) * (1 - _MARGIN)
        return split_loss(ApproxDP(epsilon, self.delta), self.data.neighbors)

    def turn_gaussian(self) -> None:
        """Spend rho from here on, as the Queryable does from the first question of rho."""
        if self.delta is not None:
            self.split = self.gaussian
            self.left = 1 - self.kept
            self.delta = None

    def count_rows(self, column: EncodedColumn, share: Fraction) -> float:
        """Return a noisy number of rows, 1 at least."""
        (count,) = self.measure([all_rows(column)], share)
        return max(float(count.cells[0]), 1.0)

    def share(self, step: Step) -> Fraction:
        """Return what a step spends of the whole loss; for a step of a round, `Step.part` of that round."""
        whole = {"loss": _ALL, "fit": 1 - self.kept, "left": self.left}[step.of]
        return step.part(whole)

    def measure_one_way(self, columns: Sequence[EncodedColumn], share: Fraction) -> OneWayMarginals:
        """Return noisy one-way counts of all columns, each with the share of the loss that makes the whole error least.

        The sum of n sigma over columns of n keys is least where the share ~ n^(2/3) with sigma ~ share^(-1/2) (Gaussian),
        and where it ~ n^(1/2) with scale ~ 1 / share (Laplace). Wide columns are cut at edges that are found first, for a
        part of the share: `columns` of what is returned have them.
        """
        levels = edge_levels(columns)
        searches: dict[int, HeapSearch] = {}
        for_heaps = 0.0
        if levels:
            for_edges = share_of(min(EDGES, float(share) * _MOST_EDGES))
            parts = _level_shares(self.split, levels)
            rows = 0.0

            def count(tables: Sequence[ContingencyTable], level: int) -> list[tuple[Floats, float]]:
                nonlocal rows
                counted = self._count(tables, for_edges * parts[level])
                rows = float(np.mean([cells.sum() for cells, _ in counted]))
                return counted

            share = share - for_edges
            noise = math.sqrt(self.variance(float(share), tables=len(columns)))
            columns = find_edges(columns, count, levels=levels, noise=noise)
            columns = columns if self.rules is None else [self.rules.cut(c) for c in columns]
            searches, for_heaps = self._plan_searches(columns, rows, share)
        power = 0.5 if self.split.currency == "epsilon" else 2.0 / 3.0
        weights = np.array([c.size**power for c in columns])
        tables = [ContingencyTable((c.axis(),)) for c in columns] + [search.table for search in searches.values()]
        if searches:
            weights *= (float(share) - for_heaps) / weights.sum()
            weights = np.append(weights, np.full(len(searches), for_heaps / len(searches)))
        counts = self.measure(tables, share, shares=_exact_shares(weights.tolist()))
        of_keys = counts[: len(columns)]
        one_way = estimate_one_way(columns, [c.cells for c in of_keys], [c.variance for c in of_keys], self.rules)
        return one_way.with_columns(
            {
                i: search.find(one_way.projected[i], of_keys[i].variance, heap.cells, heap.variance)
                for (i, search), heap in zip(searches.items(), counts[len(columns) :], strict=True)
            }
        )

    def _plan_searches(
        self, columns: Sequence[EncodedColumn], rows: float, share: Fraction
    ) -> tuple[dict[int, HeapSearch], float]:
        """Return how to look for heaps in columns of about so many rows, and what of the share that takes."""
        most = min(HEAPS[self.split.currency], float(share) * _MOST_HEAPS)
        wide = max(sum(may_heap(c) for c in columns), 1)
        # Where there is little noise, less is enough.
        sharper = _SHARP_HEAPS * math.sqrt(self.variance(most, tables=wide)) / max(rows, 1.0)
        spent = most * min(sharper if self.split.currency == "epsilon" else sharper**2, 1.0)
        return plan_searches(columns, rows, math.sqrt(self.variance(spent, tables=wide))), spent

    def measure(
        self, tables: Sequence[ContingencyTable], share: Fraction, *, shares: Sequence[Fraction] | None = None
    ) -> list[NoisyTable]:
        """Return noisy tables of counts; `shares` splits the share among them, None equally."""
        self._take(share)
        return release_counts(self.data, tables, self.split.loss(share), shares=shares)

    def measure_weighted(
        self, tables: Sequence[ContingencyTable], share: Fraction, weights: Sequence[float]
    ) -> dict[int, NoisyTable]:
        """Return noisy tables by place, with information in proportion to `weights`; none where the weight is 0."""
        weighted = [i for i, w in enumerate(weights) if w > 0]
        if not weighted:
            return {}
        power = 0.5 if self.split.currency == "epsilon" else 1.0
        shares = _exact_shares([weights[i] ** power for i in weighted])
        return dict(zip(weighted, self.measure([tables[i] for i in weighted], share, shares=shares), strict=True))

    def measure_distances(
        self, tables: Sequence[ContingencyTable], models: Sequence[Floats], share: Fraction
    ) -> tuple[Floats, float]:
        """Return noisy l1 distances of tables to public models, and the variance of the noise."""
        self._take(share)
        return release_vectors(self.data, tables, models, self.split.loss(share))

    def select_farthest(
        self, tables: Sequence[ContingencyTable], models: Sequence[Floats], floors: Sequence[float], share: Fraction
    ) -> int:
        """Return the place of about the table that lies farthest from its public model, by the cheapest selection.

        `floors`, in rows, are taken from the distances: how far each lies anyway.
        """
        self._take(share)
        candidates = [
            Distances((table,), (whole,), (round(floor * PARTS),))
            for table, whole, floor in zip(tables, _in_parts(models), floors, strict=True)
        ]
        (chosen,) = self.data.select(candidates, self.split.loss(share)).outputs[0].estimate.values()
        return int(chosen)

    def variance(self, share: Fraction | float | None = None, *, tables: int = 1) -> float:
        """Return the variance of each cell of `tables` tables that share this share, or all that is left."""
        return self.split.variance(self.left if share is None else share, tables=tables)

    def _count(self, tables: Sequence[ContingencyTable], share: Fraction) -> list[tuple[Floats, float]]:
        return [(counts.cells, counts.variance) for counts in self.measure(tables, share)]

    def pair_deviation(self, columns: Sequence[EncodedColumn]) -> float:
        """Return about the noise of a cell of a pair, if two pairs a column share all that is left."""
        return math.sqrt(self.variance(tables=2 * len(columns)))

    def _take(self, share: Fraction) -> None:
        if not 0 < share <= self.left:
            raise ValueError("a share beyond what is left")
        self.left -= share


def _exact_shares(weights: Sequence[float]) -> list[Fraction]:
    """Return fractions near the weights, above 0, that sum to 1 exactly."""
    whole = sum(weights)
    parts = [max(1, round(w / whole * _FINE)) for w in weights]
    return [Fraction(p, sum(parts)) for p in parts]


def _noisy_table(output: Output) -> NoisyTable:
    """Return one noisy vector in rows."""
    estimate = output.estimate
    if not isinstance(estimate, Noisy):
        raise TypeError("a table of counts is released as noisy whole numbers")
    variance = max(float(estimate.law.variance()), _LEAST)
    if not math.isfinite(variance):
        raise ValueError("noise without a variance")
    unit = float(estimate.unit)
    return NoisyTable(np.asarray(estimate.steps, dtype=np.float64) * unit, variance * unit**2, estimate.law)


# ---- Counts that a fit measured, asked again: the linear estimate with the least variance, whose noise is known.
# Knows no data
#
# A question within one measured table needs no model: its answer is a sum of released noisy counts, and its error is their
# noise, in closed form.

# Added to a variance, in units of the largest weight: noisy counts are whole.
_STEP = 0.25
# The most numbers in the matrix by which margins sharpen an answer by many groups.
_MOST_NUMBERS = 20_000_000
_ROUNDS = 20
# Counts below it are none: by less a quotient would overflow.
_TINY = 1e-250
# The least tau, see `rake_pairs`.
_LEAST_TAU = 0.01

# Noisy counts and the variance of each.
Cells = tuple[Floats, Floats]


@dataclass(frozen=True, slots=True)
class Question:
    """Weighted counts by group: `values` and `groups` lie on a grid with an axis a column of `columns`.

    `members` give each key of a column its class there; a group below 0 is left out.
    """

    columns: Sequence[int]
    members: Sequence[Any]
    values: Floats
    groups: Any
    count: int


@dataclass(frozen=True, slots=True)
class KeyShares:
    """How the rows of each code spread over its keys: `within`, by column, and the law of what that misses.

    `missing` says of each column whether its last key is a missing value; none is where it is left out.
    """

    codes: Sequence[DomainCompression]
    within: Sequence[Floats]
    law: ErrorLaw
    rows: float
    missing: Sequence[bool] = ()

    def by_class(self, column: int, member: Any, size: int) -> Floats:
        """Return the share of each code in each class of keys."""
        shares = np.zeros((self.codes[column].size, size))
        np.add.at(shares, (self.codes[column].codes, member), self.within[column])
        return shares

    def aligned(self, column: int, member: Any) -> bool:
        """Return whether each code lies within a class."""
        return not self._parted_keys(column, member).any()

    def _parted_keys(self, column: int, member: Any) -> Any:
        """Return which keys share a code with keys of another class, whatever the shares that noisy counts gave them.

        A missing value without a share of its code counts for none: see `MeasuredCounts._hidden`.
        """
        codes = self.codes[column].codes
        counted = np.ones(len(codes), dtype=bool)
        if self.missing and self.missing[column]:
            counted[-1] = self.within[column][-1] > 0.0
        least = np.full(self.codes[column].size, np.iinfo(np.int64).max)
        most = np.full(self.codes[column].size, -1)
        np.minimum.at(least, codes[counted], member[counted])
        np.maximum.at(most, codes[counted], member[counted])
        return counted & (least < most)[codes]

    def parted(self, columns: Sequence[int], classes: Sequence[tuple[Any, int]]) -> Floats:
        """Return the variance, in each cell, of how parted codes spread otherwise in it: t times what is parted.

        The share p of a code misses t P(code) p (1 - p) P(other classes), t the law's of a pair that was not measured, and
        no less than the rows: what a sample varies by. And p is of noisy counts: where the noise hid a key's rows it is 0, so
        each parted key adds its noise.
        """
        t = max(self.law.unmeasured, self.rows)
        shares = [self.law.columns[c].by_class(m, n).share for c, (m, n) in zip(columns, classes, strict=True)]
        variance = np.zeros(tuple(n for _, n in classes))
        for axis, (column, (member, size)) in enumerate(zip(columns, classes, strict=True)):
            p = self.by_class(column, member, size)
            spread = self.codes[column].sum_by_code(self.law.columns[column].share) @ (p * (1.0 - p))
            part = np.ones(())
            for other in range(len(columns)):
                part = np.multiply.outer(part, spread if other == axis else shares[other])
            parted = np.bincount(member[self._parted_keys(column, member)], minlength=size)
            noise = parted * float(self.law.columns[column].variance.max())
            beside = np.ones(())
            for other in range(len(columns)):
                beside = np.multiply.outer(beside, noise if other == axis else np.square(shares[other]))
            variance += t * part + beside
        return variance


@dataclass(frozen=True, slots=True)
class MeasuredCounts:
    """Every noisy table of a fit: each column's counts over its keys, and `tables` of several columns over codes.

    `laplace` says that the noise is Laplace noise, else it is Gaussian. Where the tables are one least-squares estimate, as
    those of a tabulation are, they agree and their noise is not independent: `parts` then has the variance of each part of
    them, by its columns (a part is what a table says beyond its own margins).
    """

    one_way: tuple[NoisyTable, ...] = ()
    tables: Mapping[tuple[int, ...], NoisyTable] = field(default_factory=dict)
    laplace: bool = False
    parts: Mapping[tuple[int, ...], float] = field(default_factory=dict)

    def estimate(self, asked: Question, keys: KeyShares) -> tuple[Floats, Floats] | None:
        """Return the values and deviations of a question, None where no measured table holds its columns.

        With y the counts of the cells, the mean by inverse variance of all tables that hold the columns, and u what other
        tables say of sums H n of those cells (one column's counts, or all rows), errors independent with variances d and
        e: the estimate is f.(y - K (H y - u)), K = D H' (H D H' + E)^-1, and its variance f.(D - K H D) f. This is the
        linear unbiased estimate of f.n with the least variance (Gauss, Markov; Aitken 1936). Where a condition parts the
        keys of one code, its shares stand for them, with the variance of `KeyShares.parted`: not noise alone, see `aligned`.
        """
        if not self.one_way:
            return None
        if self.parts:
            return self.estimate_agreeing(asked)
        wanted = set(asked.columns)
        shape = asked.values.shape
        combined = _combine([self._cells(t, asked, keys) for t in self._all() if wanted <= set(t)])
        if combined is None:
            return None
        cells = combined[0].ravel()
        variance = combined[1].ravel()
        sums = list(self._sums(asked, keys)) if shape else []
        place = np.zeros(cells.size, dtype=np.int64)
        if asked.groups is not None:
            place = np.broadcast_to(asked.groups, shape).ravel()
        kept = place >= 0
        place = place[kept]
        weights = np.broadcast_to(asked.values, shape).ravel()[kept]
        spread = _sum_by(place, np.square(weights) * variance[kept], asked.count)
        if sums and sum(len(u) for _, (u, _) in sums) * asked.count <= _MOST_NUMBERS:
            labels = _labels([axis for axis, _ in sums], shape)
            size = int(labels[-1].max()) + 1
            inverse, off = _gain(labels, cells, variance, sums, size)
            reach = np.zeros((size, asked.count))
            for label in labels:
                np.add.at(reach, (label[kept], place), weights * variance[kept])
            spread = spread - (reach * (inverse @ reach)).sum(axis=0)
            pull = inverse @ off
            cells = cells - variance * np.asarray(sum(pull[label] for label in labels))
        largest = np.zeros(asked.count)
        np.maximum.at(largest, place, np.abs(weights))
        hidden = self._hidden(asked, keys.codes) * np.square(largest)
        deviation = np.sqrt(np.maximum(spread, 0.0) + _STEP * np.square(largest) + hidden)
        return _sum_by(place, weights * cells[kept], asked.count), deviation

    def estimate_agreeing(self, asked: Question) -> tuple[Floats, Floats] | None:
        """Return the values and deviations of a question from tables that agree, None where none holds its columns.

        A cell is a sum of independent parts, each spread evenly over the axes that it has not. With f the weights of the
        cells of a table T and P_A f what is left of their mean over the other axes beyond its own means, the variance is the
        sum over parts A of s_A |P_A f|^2. By inclusion and exclusion |P_A f|^2 is a sum over B within A of the squared sums
        of f over the cells of B, so each group is looked at once.
        """
        holding = [table for table in self._all() if set(asked.columns) <= set(table)]
        if not holding:
            return None
        table = min(holding, key=lambda t: self._table(t).cells.size)
        order = [column for column in table if column in asked.columns]
        cells = self._table(table).cells.sum(axis=tuple(i for i, c in enumerate(table) if c not in order))
        cells = cells.transpose([order.index(column) for column in asked.columns])
        keys = np.ix_(*asked.members) if asked.columns else ()
        weights = np.broadcast_to(asked.values, asked.values.shape)[keys].ravel()
        place = np.zeros(cells.size, dtype=np.int64)
        if asked.groups is not None:
            place = np.broadcast_to(asked.groups, asked.values.shape)[keys].ravel()
        inside = np.flatnonzero(place >= 0)
        place = place[inside]
        weights = weights[inside]
        grid = np.unravel_index(inside, cells.shape) if cells.shape else ()
        wide = [axis for axis, size in enumerate(cells.shape) if size > 1]
        variance = np.zeros(asked.count)
        for number in range(len(wide) + 1):
            for axes in itertools.combinations(wide, number):
                size = math.prod(cells.shape[axis] for axis in axes)
                # The cell of each weight in the margin over these axes, and its group: one number for both.
                cell = np.zeros(len(place), dtype=np.int64)
                for axis in axes:
                    cell = cell * cells.shape[axis] + grid[axis]
                both, labels = np.unique(place * size + cell, return_inverse=True)
                squares = np.square(_sum_by(labels, weights, len(both)))
                variance += self._weigh_margin(asked.columns, cells.shape, wide, axes) * _sum_by(
                    both // size, squares, asked.count
                )
        largest = np.zeros(asked.count)
        np.maximum.at(largest, place, np.abs(weights))
        deviation = np.sqrt(np.maximum(variance, 0.0) + _STEP * np.square(largest))
        return _sum_by(place, weights * cells.ravel()[inside], asked.count), deviation

    def _weigh_margin(
        self, columns: Sequence[int], shape: Sequence[int], wide: Sequence[int], axes: Sequence[int]
    ) -> float:
        """Return what the squared sums of weights over the cells of a margin count for in the variance."""
        whole = math.prod(shape)
        size = math.prod(shape[axis] for axis in axes)
        rest = [axis for axis in wide if axis not in axes]
        weight = 0.0
        for number in range(len(rest) + 1):
            for more in itertools.combinations(rest, number):
                part = (*axes, *more)
                cells = math.prod(shape[axis] for axis in part)
                known = self.parts[tuple(sorted(columns[axis] for axis in part))]
                weight += (-1) ** number * known * (cells / whole) ** 2 * size / cells
        return weight

    def _table(self, table: tuple[int, ...]) -> NoisyTable:
        return self.one_way[table[0]] if len(table) == 1 else self.tables[table]

    def _all(self) -> Iterator[tuple[int, ...]]:
        yield from ((c,) for c in range(len(self.one_way)))
        yield from (t for t in self.tables if len(t) > 1)

    def _cells(self, table: tuple[int, ...], asked: Question, keys: KeyShares) -> Cells | None:
        """Return a table's sums over the classes of those of its columns that are asked, None for a margin of parted codes."""
        noisy = self._table(table)
        places = {c: i for i, c in enumerate(asked.columns)}
        cells = noisy.cells
        variance = np.asarray(noisy.variance)
        order = [c for c in asked.columns if c in table]
        cells = cells.sum(axis=tuple(i for i, c in enumerate(table) if c not in places))
        variance = variance * (noisy.cells.size / cells.size)
        remaining = [c for c in table if c in places]
        cells = cells.transpose([remaining.index(c) for c in order])
        classes = [(asked.members[places[c]], asked.values.shape[places[c]]) for c in order]
        if len(table) > 1 and len(order) == 1 and not keys.aligned(order[0], classes[0][0]):
            return None
        for axis, (column, (member, size)) in enumerate(zip(order, classes, strict=True)):
            shares = np.eye(size)[member] if len(table) == 1 else keys.by_class(column, member, size)
            cells = np.moveaxis(np.tensordot(cells, shares, axes=(axis, 0)), -1, axis)
            variance = np.multiply.outer(variance, shares.sum(axis=0))
        if len(order) > 1:
            variance = variance + keys.parted(order, classes)
        return np.asarray(cells), np.asarray(variance)

    def _sums(self, asked: Question, keys: KeyShares) -> Iterator[tuple[int | None, Cells]]:
        """Yield what tables that do not hold all the columns say of one of them (its axis), or of all rows (None)."""
        wanted = set(asked.columns)
        if len(wanted) > 1:
            for axis, column in enumerate(asked.columns):
                sums = _combine([self._cells(t, asked, keys) for t in self._all() if wanted & set(t) == {column}])
                if sums is not None:
                    yield axis, sums
        whole = _combine([self._cells(t, asked, keys) for t in self._all() if not wanted & set(t)])
        if whole is not None:
            yield None, (whole[0].reshape(1), whole[1].reshape(1))

    def _hidden(self, asked: Question, codes: Sequence[DomainCompression]) -> float:
        """Return the square of the missing values that share a code with another class, as far as they show."""
        total = 0.0
        for column, member in zip(asked.columns, asked.members, strict=True):
            column_codes = codes[column].codes
            if (
                len(asked.columns) > 1
                and (column_codes[:-1] == column_codes[-1]).any()
                and member[-1] != member[column_codes == column_codes[-1]][0]
            ):
                total += max(float(self.one_way[column].cells[-1]), 0.0) ** 2
        return total


def _combine(several: Sequence[Cells | None]) -> Cells | None:
    """Return independent measurements of the same cells, combined by inverse variance."""
    known = [one for one in several if one is not None]
    if not known:
        return None
    info = [1.0 / np.maximum(v, 1e-12) for _, v in known]
    whole = np.asarray(sum(info))
    return np.asarray(sum(c * i for (c, _), i in zip(known, info, strict=True))) / whole, 1.0 / whole


def _labels(axes: Sequence[int | None], shape: tuple[int, ...]) -> list[Any]:
    """Return for each axis the row of H that each cell belongs to."""
    labels: list[Any] = []
    start = 0
    for axis in axes:
        size = 1 if axis is None else shape[axis]
        along_axis = np.zeros(shape, dtype=np.int64) if axis is None else np.indices(shape, sparse=True)[axis]
        labels.append(np.broadcast_to(along_axis + start, shape).ravel())
        start += size
    return labels


def _gain(
    labels: Sequence[Any], cells: Floats, variance: Floats, sums: Sequence[tuple[int | None, Cells]], size: int
) -> tuple[Floats, Floats]:
    """Return (H D H' + E)^-1 and H y - u."""
    square = np.diag(np.concatenate([e.ravel() for _, (_, e) in sums]))
    off = -np.concatenate([u.ravel() for _, (u, _) in sums])
    for label in labels:
        off += np.bincount(label, cells, size)
        for other in labels:
            np.add.at(square, (label, other), variance)
    return np.linalg.inv(square), off


def _sum_by(places: Any, weights: Floats, count: int) -> Floats:
    return np.asarray(np.bincount(places, weights, count), dtype=np.float64)


def rake_pairs(
    table: Floats,
    chosen: Sequence[int],
    shares: Sequence[Floats],
    loose: Mapping[tuple[int, ...], NoisyTable],
    known: Collection[tuple[int, ...]],
) -> Floats:
    """Return a model's table moved towards the measured pairs of its columns that the model does not know (`loose`).

    The pairs of columns that are in a table of those `known` keep the model's counts: else what is raked to one pair would be
    lost to them.

    A pair's cells are taken to lie about the model's m with variance tau m, tau by empirical Bayes as in the fit; what the
    measurement says beyond the columns' own counts is taken over by as much as it shows above its noise, by proportional
    fitting (Deming & Stephan 1940). `shares` give for each column the share of each code in each class.
    """
    targets: list[tuple[tuple[int, ...], Floats]] = []
    pairs = list(itertools.combinations(range(len(chosen)), 2))
    for i, j in pairs:
        pair = (min(chosen[i], chosen[j]), max(chosen[i], chosen[j]))
        if pair in loose and min(table.shape[i], table.shape[j]) > 1:
            noisy = loose[pair]
            cells = noisy.cells if chosen[i] < chosen[j] else noisy.cells.T
            squares = [np.square(shares[axis]).sum(axis=0) for axis in (i, j)]
            counts = shares[i].T @ cells @ shares[j]
            target = _target(_margin(table, (i, j)), counts, noisy.variance * np.outer(*squares))
            targets.append(((i, j), target))
    if not targets:
        return table
    if len(chosen) > 2:
        kept = [p for p in pairs if any({chosen[axis] for axis in p} <= set(columns) for columns in known)]
        targets += [(axes, _margin(table, axes)) for axes in [*kept, *((axis,) for axis in range(len(chosen)))]]
    raked = table
    for _ in range(_ROUNDS if len(targets) > 1 else 1):
        for axes, target in targets:
            now = _margin(raked, axes)
            ratio = np.divide(target, now, out=np.ones_like(now), where=now > _TINY)
            raked = raked * ratio.reshape([n if axis in axes else 1 for axis, n in enumerate(table.shape)])
    return raked


def _target(means: Floats, measured: Floats, variance: Floats) -> Floats:
    """Return the model's counts of a pair, moved by what a measurement shows, with the same one-way counts."""
    rows, columns = (np.maximum(means.sum(axis=axis), 1e-9) for axis in (1, 0))
    total = float(rows.sum())
    beyond = measured - means
    beyond = beyond - np.outer(beyond.sum(axis=1), columns / total) - np.outer(rows / total, beyond.sum(axis=0))
    beyond = beyond + np.outer(rows, columns) * (float((measured - means).sum()) / total**2)
    free = math.prod(n - 1 for n in means.shape) / means.size
    tau = max((float(np.square(beyond).sum()) - free * float(variance.sum())) / (free * total), _LEAST_TAU)
    prior = tau * (means + np.outer(rows, columns) / total) / 2.0
    target = np.maximum(means + beyond * prior / (prior + np.maximum(variance, 1e-12)), 1e-9 * means)
    # No raking brings rows to a cell where the model has none.
    target = np.where(means > _TINY, target, 0.0)
    for _ in range(_ROUNDS):
        target = target * (rows / np.maximum(target.sum(axis=1), 1e-9))[:, None]
        target = target * (columns / np.maximum(target.sum(axis=0), 1e-9))
    return np.asarray(target, dtype=np.float64)


def _margin(table: Floats, axes: Sequence[int]) -> Floats:
    """Return the sums over all axes but some, which rise."""
    sums: Floats = table.sum(axis=tuple(a for a in range(table.ndim) if a not in axes))
    return sums
