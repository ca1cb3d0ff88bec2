"""What rules say of tables of counts: cells that hold no row, for free, and codes that no condition of a rule parts.

A pair's noise in a cell that a rule forbids is known to be noise, and counts that rules explain need no measurement: the
table that knows the columns' own counts and the rules alone (`independent` of a fit) has both. Knows released numbers only.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sordino.ask.queries.expressions.nodes import Node
from sordino.synth.encoded_column import Codes, EncodedColumn, Floats
from sordino.synth.equivalence_classes import Dependencies, class_grid, key_classes
from sordino.synth.expression_eval import ColumnCells, cut_steps, names_in
from sordino.synth.rules import Determines, Rule, expand_rules, functional_dependencies

Places = tuple[int, ...]

# The most cells of codes, and of keys or classes of keys, at which a rule is looked at.
_MOST_CODES = 300_000
_MOST_KEYS = 4_000_000
# The most codes that conditions may add to a column.
_MOST_PARTED = 24
# Rounds of proportional fitting.
_ROUNDS = 12
_TINY = 1e-12


@dataclass(frozen=True, slots=True)
class Structure:
    """By sets of columns: the share of each cell over codes that rules leave, and what they say of smaller sets of those."""

    shares: Mapping[Places, Floats] = field(default_factory=dict)
    ratios: Mapping[Places, Floats] = field(default_factory=dict)

    def apply(self, table: Floats, columns: Places, margins: Sequence[Floats]) -> Floats:
        """Return a table over `columns` with what rules say of it, raked to its margins."""
        factors = self.within(columns)
        if not factors:
            return table
        for places, share in factors:
            table = table * share.reshape([n if c in places else 1 for c, n in zip(columns, table.shape, strict=True)])
        return _rake(table, margins)

    def within(self, columns: Sequence[int]) -> list[tuple[Places, Floats]]:
        """Return the sets of two columns or more within `columns` that rules say something of, and the share of each cell."""
        have = set(columns)
        inside = [(places, share) for places, share in self.shares.items() if len(places) > 1 and set(places) <= have]
        implied = [
            (places, ratio)
            for places, ratio in self.ratios.items()
            if set(places) <= have and not any(set(places) <= set(larger) for larger, _ in inside)
        ]
        return [*inside, *implied]


@dataclass(frozen=True, slots=True)
class RuleCells:
    """The rules of a fit over its declared columns."""

    rules: tuple[Rule, ...]
    columns: Mapping[str, EncodedColumn]
    dependencies: Dependencies

    def cut(self, column: EncodedColumn) -> EncodedColumn:
        """Return a column held in runs, cut where the conditions of rules part its values."""
        if column.edges is None or not column.released:
            return column
        steps = {s for p in self._alone(column.name) for s in cut_steps(p, column)}
        inside = {s for s in steps if column.lowest < s < column.highest} - set(column.edges)
        if not inside or len(inside) > _MOST_PARTED:
            return column
        return column.with_edges((*sorted({*column.edges[:-1], *inside}), column.edges[-1]))

    def part(self, column: EncodedColumn, codes: Codes) -> Codes:
        """Return codes of which none holds keys on both sides of a rule's condition."""
        classes = np.zeros(column.size, dtype=np.int64)
        blank = any(rule.fixes == column.name for rule in self.rules)
        for name in [column.name, *(n for n, (of, _) in self.dependencies.items() if of == column.name)]:
            encoded = column if name == column.name else self.columns[name]
            member, _ = key_classes(encoded, self._alone(name), split=False)
            member = member if name == column.name else member[self.dependencies[name][1]]
            classes = classes * (int(member.max()) + 1) + member
        # A missing cell that shares a code does not show: only a rule about it gives it one of its own.
        if column.missing and column.size > 1 and not blank:
            classes[-1] = classes[-2]
        _, parted = np.unique(codes * (int(classes.max()) + 1) + classes, return_inverse=True)
        numbers: dict[int, int] = {}
        renumbered = np.array([numbers.setdefault(c, len(numbers)) for c in parted.ravel().tolist()], dtype=np.int64)
        return renumbered if len(numbers) <= int(codes.max()) + 1 + _MOST_PARTED else codes

    def structure(
        self, columns: Sequence[EncodedColumn], codes: Sequence[Codes], counts: Sequence[Floats]
    ) -> Structure:
        """Return what the rules say of tables over codes; `counts` are those of the columns' keys."""
        place = {c.name: i for i, c in enumerate(columns)}
        by_name = {**self.columns, **{c.name: c for c in columns}}
        shares: dict[Places, Floats] = {}
        for rule in expand_rules(self.rules):
            roots = {self.dependencies[n][0] if n in self.dependencies else n for n in rule.names}
            if isinstance(rule, Determines) or not roots <= place.keys():
                continue
            places = tuple(sorted(place[n] for n in roots))
            share = self._share(rule, by_name, places, columns, codes, counts)
            if share is not None:
                shares[places] = shares[places] * share if places in shares else share
        sums = [
            np.bincount(k, weights=c, minlength=int(k.max()) + 1).astype(np.float64)
            for k, c in zip(codes, counts, strict=True)
        ]
        return Structure(shares, _implied(shares, sums))

    def joined(self, names: Sequence[str]) -> list[frozenset[int]]:
        """Return the places among `names` of the columns that each rule joins."""
        place = {name: i for i, name in enumerate(names)}
        roots = [
            {self.dependencies[n][0] if n in self.dependencies else n for n in rule.names}
            for rule in expand_rules(self.rules)
        ]
        return [frozenset(place[n] for n in some if n in place) for some in roots if len(some) > 1]

    def _share(
        self,
        rule: Rule,
        by_name: Mapping[str, EncodedColumn],
        places: Places,
        columns: Sequence[EncodedColumn],
        codes: Sequence[Codes],
        counts: Sequence[Floats],
    ) -> Floats | None:
        """Return the share of each cell of codes that a rule leaves; None where there are too many cells to look at."""
        sizes = tuple(int(codes[p].max()) + 1 for p in places)
        if math.prod(sizes) > _MOST_CODES:
            return None
        if not rule.predicates() and not set(rule.names) & self.dependencies.keys() and len(rule.names) == len(places):
            cells = {
                columns[p].name: _code_cells(columns[p], codes[p]).reshape(
                    tuple(n if i == axis else 1 for i, n in enumerate(sizes))
                )
                for axis, p in enumerate(places)
            }
            if all(c.encoded.ordered for c in cells.values()):
                return np.broadcast_to(np.asarray(rule.structure(cells, by_name)), sizes).astype(np.float64)
        whole = () if rule.predicates() else rule.names
        grid = class_grid(
            by_name, rule.names, predicates=rule.predicates(), whole=whole, dependencies=self.dependencies
        )
        if math.prod(grid.shape) > _MOST_KEYS:
            return None
        share = np.broadcast_to(np.asarray(rule.structure(grid.cells, by_name), dtype=np.float64), grid.shape)
        order = [next(i for i, p in enumerate(places) if columns[p].name == name) for name in grid.names]
        for axis, i in enumerate(order):
            p = places[i]
            weights = np.zeros((sizes[i], grid.shape[axis]))
            by_key = np.maximum(counts[p], 0.0) + 1e-6
            # A missing cell that shares a code holds no rows in a model.
            if columns[p].missing and (codes[p][:-1] == codes[p][-1]).any():
                by_key[-1] = 0.0
            np.add.at(weights, (codes[p], grid.members[axis]), by_key)
            weights /= weights.sum(axis=1, keepdims=True)
            share = np.moveaxis(np.tensordot(share, weights, axes=(axis, 1)), -1, axis)
        return share.transpose(np.argsort(order))

    def _alone(self, name: str) -> list[Node]:
        """Return the conditions of rules on one column alone."""
        return [p for rule in expand_rules(self.rules) for p in rule.predicates() if names_in(p) == [name]]


def rule_cells(rules: Sequence[Rule], columns: Sequence[EncodedColumn]) -> RuleCells | None:
    """Return what the rules of a fit say of tables; None without rules."""
    by_name = {c.name: c for c in columns}
    return RuleCells(tuple(rules), by_name, functional_dependencies(rules, by_name)) if rules else None


def joined_columns(rules: Sequence[Rule], columns: Sequence[EncodedColumn]) -> list[frozenset[int]]:
    """Return the places among `columns` of those that each rule joins."""
    cells = rule_cells(rules, columns)
    return [] if cells is None else cells.joined([c.name for c in columns])


def _code_cells(column: EncodedColumn, codes: Codes) -> ColumnCells:
    """Return cells for the codes of an ordered column: the least and the most step of the keys of each."""
    count = int(codes.max()) + 1
    low = np.full(count, np.inf)
    high = np.full(count, -np.inf)
    edges = np.asarray(column.edges, dtype=np.float64) if column.edges is not None else None
    keys = np.arange(column.value_count)
    starts = keys + column.lowest if edges is None else edges[:-1]
    ends = starts if edges is None else np.append(edges[1:-1] - 1.0, edges[-1])
    np.minimum.at(low, codes[keys], starts)
    np.maximum.at(high, codes[keys], ends)
    missing = ~np.isfinite(low)
    low[missing] = high[missing] = column.lowest
    return ColumnCells(column, np.arange(count), missing, low, high)


def _implied(shares: Mapping[Places, Floats], sums: Sequence[Floats]) -> dict[Places, Floats]:
    """Return what the rules over three columns or more say of each smaller set of them, beside the columns' own counts."""
    ratios: dict[Places, Floats] = {}
    for places, share in shares.items():
        if len(places) < 3:
            continue
        margins = [np.maximum(sums[p], 0.0) for p in places]
        total = max(float(margins[0].sum()), _TINY)
        table: Any = np.ones(())
        for counts in margins:
            table = np.multiply.outer(table, counts / max(float(counts.sum()), _TINY))
        table = _rake(table * total * share, [m * (total / max(float(m.sum()), _TINY)) for m in margins])
        for size in range(2, len(places)):
            for kept in itertools.combinations(range(len(places)), size):
                some = tuple(places[i] for i in kept)
                expected: Any = np.array(total)
                for i in kept:
                    expected = np.multiply.outer(expected, margins[i] / max(float(margins[i].sum()), _TINY))
                now = table.sum(axis=tuple(i for i in range(len(places)) if i not in kept))
                possible = share.max(axis=tuple(i for i in range(len(places)) if i not in kept)) > 0
                ratio = np.divide(now, expected, out=np.ones_like(now), where=expected > _TINY)
                ratios[some] = np.where(possible, np.maximum(ratio, 1e-6), 0.0)
    return ratios


def _rake(table: Floats, margins: Sequence[Floats]) -> Floats:
    """Return a table scaled to margins, as far as its empty cells allow, by proportional fitting (Deming & Stephan 1940)."""
    for _ in range(_ROUNDS):
        for axis, margin in enumerate(margins):
            now = table.sum(axis=tuple(a for a in range(table.ndim) if a != axis))
            factor = np.divide(margin, now, out=np.ones_like(now), where=now > _TINY)
            table = table * factor.reshape([-1 if a == axis else 1 for a in range(table.ndim)])
    total = float(table.sum())
    goal = float(margins[0].sum())
    scaled: Floats = table * (goal / total) if total > 0 else table
    return scaled
