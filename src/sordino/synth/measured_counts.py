"""Counts that a fit measured, asked again: the linear estimate with the least variance, whose noise is known. Knows no data.

A question within one measured table needs no model: its answer is a sum of released noisy counts, and its error is their
noise, in closed form.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sordino.synth.arrays import Floats
from sordino.synth.error_law import ErrorLaw
from sordino.synth.measurement import NoisyTable
from sordino.synth.one_way_marginals import DomainCompression

_STEP = 0.25  # added to a variance, in units of the largest weight: noisy counts are whole
_MOST_NUMBERS = 20_000_000  # of the matrix by which margins sharpen an answer by many groups
_ROUNDS = 5
_LEAST = 0.01  # of tau, see `rake_pairs`

Cells = tuple[Floats, Floats]  # noisy counts and the variance of each


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
    """How the rows of each code spread over its keys: `within`, by column, and the law of what that misses."""

    codes: Sequence[DomainCompression]
    within: Sequence[Floats]
    law: ErrorLaw
    rows: float

    def by_class(self, column: int, member: Any, size: int) -> Floats:
        """Return the share of each code in each class of keys."""
        shares = np.zeros((self.codes[column].size, size))
        np.add.at(shares, (self.codes[column].codes, member), self.within[column])
        return shares

    def aligned(self, column: int, member: Any, size: int) -> bool:
        """Return whether each code lies within a class."""
        shares = self.by_class(column, member, size)
        return bool(np.all((shares < 1e-9) | (shares > 1.0 - 1e-9)))

    def parted(self, columns: Sequence[int], classes: Sequence[tuple[Any, int]]) -> Floats:
        """Return the variance, in each cell, of how parted codes spread otherwise in it: t times what is parted.

        The share p of a code misses t P(code) p (1 - p) P(other classes), t the law's of a pair that was not measured, and
        no less than the rows: what a sample varies by.
        """
        t = max(self.law.unmeasured, self.rows)
        shares = [self.law.columns[c].by_class(m, n).share for c, (m, n) in zip(columns, classes, strict=True)]
        made = np.zeros(tuple(n for _, n in classes))
        for axis, (column, (member, size)) in enumerate(zip(columns, classes, strict=True)):
            p = self.by_class(column, member, size)
            own = self.codes[column].sum_by_code(self.law.columns[column].share) @ (p * (1.0 - p))
            part = np.ones(())
            for other in range(len(columns)):
                part = np.multiply.outer(part, own if other == axis else shares[other])
            made += t * part
        return made


@dataclass(frozen=True, slots=True)
class MeasuredCounts:
    """Every noisy table of a fit: each column's counts over its keys, and `tables` of several columns over codes.

    `laplace` says that the noise is Laplace noise, else it is Gaussian.
    """

    one_way: tuple[NoisyTable, ...] = ()
    tables: Mapping[tuple[int, ...], NoisyTable] = field(default_factory=dict)
    laplace: bool = False

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
        chosen, shape = set(asked.columns), asked.values.shape
        own = _combine([self._cells(t, asked, keys) for t in self._all() if chosen <= set(t)])
        if own is None:
            return None
        cells, variance = own[0].ravel(), own[1].ravel()
        sums = list(self._sums(asked, keys)) if shape else []
        place = np.zeros(cells.size, dtype=np.int64)
        if asked.groups is not None:
            place = np.broadcast_to(asked.groups, shape).ravel()
        kept = place >= 0
        place, weights = place[kept], np.broadcast_to(asked.values, shape).ravel()[kept]
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

    def _all(self) -> Iterator[tuple[int, ...]]:
        yield from ((c,) for c in range(len(self.one_way)))
        yield from (t for t in self.tables if len(t) > 1)

    def _cells(self, table: tuple[int, ...], asked: Question, keys: KeyShares) -> Cells | None:
        """Return a table's sums over the classes of those of its columns that are asked, None for a margin of parted codes."""
        noisy = self.one_way[table[0]] if len(table) == 1 else self.tables[table]
        places = {c: i for i, c in enumerate(asked.columns)}
        cells, variance = noisy.cells, np.asarray(noisy.variance)
        order = [c for c in asked.columns if c in table]
        cells = cells.sum(axis=tuple(i for i, c in enumerate(table) if c not in places))
        variance = variance * (noisy.cells.size / cells.size)
        kept = [c for c in table if c in places]
        cells = cells.transpose([kept.index(c) for c in order])
        classes = [(asked.members[places[c]], asked.values.shape[places[c]]) for c in order]
        if len(table) > 1 and len(order) == 1 and not keys.aligned(order[0], *classes[0]):
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
        chosen = set(asked.columns)
        if len(chosen) > 1:
            for axis, column in enumerate(asked.columns):
                found = _combine([self._cells(t, asked, keys) for t in self._all() if chosen & set(t) == {column}])
                if found is not None:
                    yield axis, found
        whole = _combine([self._cells(t, asked, keys) for t in self._all() if not chosen & set(t)])
        if whole is not None:
            yield None, (whole[0].reshape(1), whole[1].reshape(1))

    def _hidden(self, asked: Question, codes: Sequence[DomainCompression]) -> float:
        """Return the square of the missing values that share a code with another class, as far as they show."""
        found = 0.0
        for column, member in zip(asked.columns, asked.members, strict=True):
            own = codes[column].codes
            if len(asked.columns) > 1 and (own[:-1] == own[-1]).any() and member[-1] != member[own == own[-1]][0]:
                found += max(float(self.one_way[column].cells[-1]), 0.0) ** 2
        return found


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
    made: list[Any] = []
    start = 0
    for axis in axes:
        size = 1 if axis is None else shape[axis]
        own = np.zeros(shape, dtype=np.int64) if axis is None else np.indices(shape, sparse=True)[axis]
        made.append(np.broadcast_to(own + start, shape).ravel())
        start += size
    return made


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
    table: Floats, chosen: Sequence[int], shares: Sequence[Floats], loose: Mapping[tuple[int, ...], NoisyTable]
) -> Floats:
    """Return a model's table moved towards the measured pairs of its columns that the model does not know (`loose`).

    A pair's cells are taken to lie about the model's m with variance tau m, tau by empirical Bayes as in the fit; what the
    measurement says beyond the columns' own counts is taken over by as much as it shows above its noise, by proportional
    fitting (Deming & Stephan 1940). `shares` give for each column the share of each code in each class.
    """
    targets: list[tuple[int, int, Floats]] = []
    for i, j in itertools.combinations(range(len(chosen)), 2):
        pair = (min(chosen[i], chosen[j]), max(chosen[i], chosen[j]))
        if pair in loose and min(table.shape[i], table.shape[j]) > 1:
            noisy = loose[pair]
            cells = noisy.cells if chosen[i] < chosen[j] else noisy.cells.T
            squares = [np.square(shares[axis]).sum(axis=0) for axis in (i, j)]
            found = shares[i].T @ cells @ shares[j]
            targets.append((i, j, _target(_margin(table, i, j), found, noisy.variance * np.outer(*squares))))
    made = table
    for _ in range(_ROUNDS if len(targets) > 1 else len(targets)):
        for i, j, target in targets:
            now = _margin(made, i, j)
            ratio = np.divide(target, now, out=np.ones_like(now), where=now > 1e-9)
            made = made * ratio.reshape([n if axis in (i, j) else 1 for axis, n in enumerate(table.shape)])
    return made


def _target(means: Floats, found: Floats, variance: Floats) -> Floats:
    """Return the model's counts of a pair, moved by what a measurement shows, with the same one-way counts."""
    rows, columns = (np.maximum(means.sum(axis=axis), 1e-9) for axis in (1, 0))
    total = float(rows.sum())
    beyond = found - means
    beyond = beyond - np.outer(beyond.sum(axis=1), columns / total) - np.outer(rows / total, beyond.sum(axis=0))
    beyond = beyond + np.outer(rows, columns) * (float((found - means).sum()) / total**2)
    free = math.prod(n - 1 for n in means.shape) / means.size
    tau = max((float(np.square(beyond).sum()) - free * float(variance.sum())) / (free * total), _LEAST)
    prior = tau * (means + np.outer(rows, columns) / total) / 2.0
    made = np.maximum(means + beyond * prior / (prior + np.maximum(variance, 1e-12)), 1e-9 * means)
    for _ in range(_ROUNDS):
        made = made * (rows / np.maximum(made.sum(axis=1), 1e-9))[:, None]
        made = made * (columns / np.maximum(made.sum(axis=0), 1e-9))
    return np.asarray(made, dtype=np.float64)


def _margin(table: Floats, i: int, j: int) -> Floats:
    """Return the sums over all axes but two, i < j."""
    made: Floats = table.sum(axis=tuple(a for a in range(table.ndim) if a not in (i, j)))
    return made
