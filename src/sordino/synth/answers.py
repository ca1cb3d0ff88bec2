"""Answers from a model: counts, sums and means over any condition and groups, from its tables, not from drawn rows.

Everything here is post-processing of released numbers; the intervals are the model's stated errors.
"""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as default
from fractions import Fraction
from typing import Any

import numpy as np

from sordino.ask.queries.aggregates.sums import Average, Count, Sum
from sordino.ask.queries.aggregation import Aggregation, CompiledQuery, compile_query
from sordino.ask.queries.expressions.declared_values import bind_values, is_text, value_keys
from sordino.ask.queries.expressions.nodes import Bin, Name, Node, conjuncts, describe
from sordino.ask.queries.post_processing import finish_answer
from sordino.core.accounting.events import Composed
from sordino.core.domain import Domain
from sordino.core.errors import QuestionRefused
from sordino.core.estimates.model_estimate import ModelEstimate, ModelSource
from sordino.core.loss import PureDP
from sordino.core.release import Key, Output, Release
from sordino.core.release_exports import label_kind
from sordino.synth.encoded_column import Codes, EncodedColumn, Floats
from sordino.synth.equivalence_classes import ClassGrid, Dependencies, class_grid, predicates_of
from sordino.synth.error_law import ErrorLaw, kind_of, vary_coupled, vary_parted
from sordino.synth.expression_eval import ColumnCells, evaluate_condition, evaluate_number, names_in, text_values
from sordino.synth.inference import joint
from sordino.synth.markov_random_field import MarkovRandomField
from sordino.synth.measurement import KeyShares, MeasuredCounts, NoisyTable, Question, rake_pairs
from sordino.synth.one_way_marginals import DomainCompression
from sordino.synth.rule_cells import joined_columns
from sordino.synth.rules import Determines, Linear, Rule, expand_rules, functional_dependencies

# What post-processing costs.
_NOTHING = PureDP(0)
# The largest table in which an answer's constraints are applied.
_MOST_CELLS = 3_000_000
# Sweeps of a fit to the columns' counts, at most, and the change of a count below which it ends.
_SWEEPS = 50
_NEAR = 1e-4
# Counts below it are none: by less a quotient would overflow.
_TINY = 1e-250


@dataclass(frozen=True, slots=True)
class ModelParts:
    """What a model holds: the declared columns and their codes, the fitted tree over codes, and the law of its errors.

    `counts` are the noisy tables themselves, which answer what lies within one of them.
    """

    domain: Domain
    columns: tuple[EncodedColumn, ...]
    codes: tuple[DomainCompression, ...]
    within: tuple[Floats, ...]
    field: MarkovRandomField
    measured: frozenset[tuple[int, ...]]
    errors: ErrorLaw
    counts: MeasuredCounts = default(default_factory=MeasuredCounts)

    @property
    def loose(self) -> dict[tuple[int, ...], NoisyTable]:
        """The measured tables that no clique of the tree holds: rows drawn, and answers, are moved towards them."""
        sizes = [c.size for c in self.codes]
        return {t: n for t, n in self.counts.tables.items() if self.field.tree.home(t, sizes) is None}


def answer_question(
    parts: ModelParts, question: Aggregation, constraints: Sequence[Rule], facts: Mapping[str, str]
) -> Release:
    """Return the model's answer; raises QuestionRefused for what the table itself would refuse, and for new columns.

    Constraints on the question's columns hold in it: cells that no row may be in count nothing, and the others are raised
    so that as many rows are left. HAVING, ORDER BY and LIMIT are applied to the answer. `facts` are the model's.
    """
    resolved = _compile_answerable(question, parts.domain)
    by_name = {c.name: c for c in parts.columns}
    whole = _whole(question)
    names = list(dict.fromkeys([*whole, *names_in(question.where)]))
    missing = [n for n in names if n not in by_name]
    if missing:
        raise QuestionRefused(f"the model has no column {missing[0]!r}; it has {', '.join(by_name)}")
    question_columns = _Columns(
        by_name,
        parts.domain,
        whole,
        tuple(predicates_of(question.where)),
        functional_dependencies(constraints, by_name),
    )
    grid, forbidden, notes, held = _apply_constraints(question_columns, names, constraints)
    allowed: Any = 1.0
    for rule in forbidden:
        allowed = allowed * rule.possible(grid.cells, by_name)
    left = np.broadcast_to(_left_by_rules(parts, question.where, constraints, grid, by_name), grid.shape)
    joined = joined_columns(constraints, parts.columns)
    counts = _model_counts(parts, grid, allowed, joined) * left
    # Columns that only rules bring in have told which rows there are; the question, and how wrong its answer is, is of its own.
    roots = [question_columns.root(name) for name in names]
    possible = allowed * left > 0.0
    # No rule binds a row that lacks a column of it, but there are none of these in a column that no row lacks.
    for name in set(grid.names) & set(_present(parts)):
        possible = possible & ~grid.cells[name].missing
    others = tuple(axis for axis, name in enumerate(grid.names) if name not in roots)
    counts = counts.sum(axis=others)
    possible = possible.any(axis=others)
    grid = grid.keep([name for name in grid.names if name in roots])
    meets = 1.0 if question.where is None else evaluate_condition(question.where, grid.cells)[0]
    inside: Floats = np.asarray(meets * left.any(axis=others), dtype=np.float64)
    groups, sizes = _groups(question, parts.domain, grid.cells, [len(k.labels) for k in resolved.keys])
    place = {c.name: i for i, c in enumerate(parts.columns)}
    if constraints:
        errors = parts.errors.under_rules(joined, loose=not held, count=float(parts.field.tables[0].sum()))
        parts = replace(parts, errors=errors)
    kind = kind_of([place[n] for n in roots], parts.measured)
    exact = _is_exact(question_columns)
    every_row = resolved.key_rows()
    # of the declared keys, those that a row meeting WHERE may have: a public fact, as for a table
    shown_groups = np.arange(len(every_row))
    if groups is not None and question.where is not None:
        met_groups = np.broadcast_to(groups, grid.shape)[inside > 0]
        shown_groups = np.unique(met_groups[met_groups >= 0])
    sums = _Sums(
        parts,
        grid,
        [place[n] for n in grid.names],
        counts * inside,
        inside,
        possible if forbidden else None,
        groups,
        sizes,
        shown_groups,
        exact,
    )
    rows = [every_row[i] for i in shown_groups]
    columns = [tuple(row[i] for row in rows) for i in range(len(question.groups))]
    keys = [Key(g.alias, labels, label_kind(labels)) for g, labels in zip(question.groups, columns, strict=True)]
    estimates = [sums.estimate(a) for a in question.aggregates]
    outputs = [
        Output(a.alias, f, "the model's tables") for a, (f, _) in zip(question.aggregates, estimates, strict=True)
    ]
    kind = "noise" if all(known for _, known in estimates) else kind
    return _make_release(question, keys, outputs, notes=notes, kind=kind, facts=facts)


def _make_release(
    question: Aggregation,
    keys: list[Key],
    outputs: list[Output],
    *,
    notes: tuple[str, ...],
    kind: str,
    facts: Mapping[str, str],
) -> Release:
    """Return the answer as a release of no cost, with the rows that HAVING, ORDER BY and LIMIT leave."""
    rows_shown = finish_answer(
        question.after, question.formulas, question.hidden, tuple(keys), tuple(outputs), together=False
    )
    unit, _, relation = facts.get("neighbors", "").rpartition(", ")
    if "assumed" in facts and kind != "noise":
        notes = (*notes, facts["assumed"])
    return Release(
        question=question.describe(),
        keys=rows_shown[0],
        outputs=rows_shown[1],
        cost=_NOTHING,
        spent=_NOTHING,
        remaining=_NOTHING,
        event=Composed(()),
        neighbors=relation.replace("/", "_"),
        privacy_unit=unit,
        declaration="",
        charge=facts.get("charge", ""),
        table_name=facts.get("table", "model"),
        time="",
        private=facts.get("private") == "true",
        notes=(*notes, facts["caps"]) if "caps" in facts else notes,
        layout=question.layout,
        model=ModelSource(kind, facts.get("loss", "")),
    )


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns of a question, of which grids are made."""

    by_name: Mapping[str, EncodedColumn]
    domain: Domain
    whole: Sequence[str]
    predicates: tuple[Node, ...]
    dependencies: Dependencies

    def root(self, name: str) -> str:
        """Return the column that a column follows from, or itself."""
        return self.dependencies[name][0] if name in self.dependencies else name

    def grid(self, names: Sequence[str], rules: Sequence[Rule]) -> ClassGrid:
        """Return the grid of the question's columns and of rules."""
        predicates = [*self.predicates, *(p for rule in rules for p in rule.predicates())]
        whole = [*self.whole, *(n for rule in rules if not rule.predicates() for n in rule.names if n in names)]
        return class_grid(self.by_name, names, predicates=predicates, whole=whole, dependencies=self.dependencies)


def _whole(question: Aggregation) -> list[str]:
    """Return the columns whose every key counts: groups, and what is summed."""
    if not all(isinstance(a, (Count, Sum, Average)) for a in question.aggregates):
        raise QuestionRefused("a model answers counts, sums and means")
    numbers = [a.of for a in question.aggregates if isinstance(a, (Count, Sum, Average)) and a.of is not None]
    nodes: list[Node] = [*(g.of for g in question.groups), *numbers]
    return list(dict.fromkeys(n for node in nodes for n in names_in(node)))


def _is_exact(question_columns: _Columns) -> bool:
    """Return whether no key of a question's groups and sums is a run; its condition may part runs, see `_Sums._parted`."""
    return not any(question_columns.by_name[n].edges is not None for n in question_columns.whole)


def _apply_constraints(
    question_columns: _Columns, names: Sequence[str], constraints: Sequence[Rule]
) -> tuple[ClassGrid, list[Rule], tuple[str, ...], bool]:
    """Return a grid for the question and the rules on its columns, those rules, notes on the ones left out, and if all is held.

    Of a rule that joins too many values, what it says of the question's own columns is kept to, the others holding
    whatever they may. Then not all is held that rules say of two of the question's columns together.
    """
    grid = question_columns.grid(names, [])
    touched = set(grid.names)
    asked = list(names)
    rules: list[Rule] = []
    notes: list[str] = []
    held = True
    for rule in expand_rules(constraints):
        roots = {question_columns.root(name) for name in rule.names}
        if isinstance(rule, Determines) or touched.isdisjoint(roots):
            continue
        wider_names = list(dict.fromkeys([*names, *rule.names]))
        wider = question_columns.grid(wider_names, [*rules, rule])
        if math.prod(wider.shape) > _MOST_CELLS:
            wider_names = list(names)
            wider = question_columns.grid(names, [*rules, rule])
            held = held and len(touched & roots) < 2
            partly = not rule.predicates() and len(set(rule.names) & set(asked)) > 1
            if math.prod(wider.shape) > _MOST_CELLS or not partly:
                notes.append(f"not held in this answer: {rule.describe()}, which joins too many values")
                continue
        names = wider_names
        grid = wider
        rules.append(rule)
    return grid, rules, tuple(dict.fromkeys(notes)), held


def _left_by_rules(
    parts: ModelParts,
    where: Node | None,
    constraints: Sequence[Rule],
    grid: ClassGrid,
    columns: Mapping[str, EncodedColumn],
) -> Any:
    """Return 0 in cells where rules about sums leave no row that meets a part of WHERE, else 1.

    Runs of values meet comparisons of columns by their middles: a rule knows more of what lies within.
    """
    present = _present(parts)
    left: Any = 1.0
    for rule in expand_rules(constraints):
        if isinstance(rule, Linear):
            for condition in conjuncts(where):
                left = left * ~np.asarray(rule.rules_out(condition, grid.cells, columns, present))
    return left


def _present(parts: ModelParts) -> list[str]:
    """Return the columns that no row of the model lacks."""
    return [c.name for c, within in zip(parts.columns, parts.within, strict=True) if not c.missing or within[-1] == 0.0]


def _model_counts(parts: ModelParts, grid: ClassGrid, allowed: Any, joined: Sequence[Collection[int]]) -> Floats:
    """Return the model's counts on the grid, with nothing where a constraint forbids rows; `joined` are its columns' places."""
    place = {c.name: i for i, c in enumerate(parts.columns)}
    column_places = [place[n] for n in grid.names]
    shares: list[Floats] = []
    for column, member, size in zip(column_places, grid.members, grid.shape, strict=True):
        weights = np.zeros((parts.codes[column].size, size))
        np.add.at(weights, (parts.codes[column].codes, member), parts.within[column])
        shares.append(weights)
    sizes = [c.size for c in parts.codes]
    loose = parts.loose
    tables = [*parts.measured, *(tuple(sorted(columns)) for columns in joined)]
    held = [columns for columns in tables if parts.field.tree.home(columns, sizes) is not None]
    table = rake_pairs(joint(parts.field, column_places, sizes, shares), column_places, shares, loose, held)
    if np.all(allowed == 1.0):
        return table
    known = {tuple(a for a, c in enumerate(column_places) if c in columns) for columns in (*held, *loose)}
    return _restrict(table, allowed, [axes for axes in known if len(axes) > 1], [_blocks(share) for share in shares])


def _blocks(shares: Floats) -> Codes:
    """Return the block of each class: classes that share a code (codes x classes) are in one, and each code lies in one."""
    block = np.arange(shares.shape[1])
    for row in shares > 0.0:
        joined = block[row]
        if len(joined) > 1:
            block[np.isin(block, joined)] = joined.min()
    return np.unique(block, return_inverse=True)[1].ravel()


def _restrict(table: Floats, allowed: Any, known: Sequence[tuple[int, ...]], blocks: Sequence[Codes]) -> Floats:
    """Return counts with nothing where a rule forbids rows, and as many in each class of each axis as before.

    Where a sum follows from its terms and no table holds them together, the model has them as independent: of its cells a rule
    leaves those in which the sum is right, each weighted by the sum's own share once more. Fitted to the columns' counts again
    (Deming and Stephan 1940), they are the terms' alone. Axes whose columns are `known` together keep their counts too, block
    by block, else a rule that joins one of them to a third would lose what the model knows: `blocks` are the classes among
    which the model spreads rows as if columns were independent. Counts that no allowed cells have are met as far as they can be.
    """
    each = [np.arange(size) for size in table.shape]
    alone = [((axis,), each) for axis in range(table.ndim)]
    raked = _rake(table * allowed, [*((axes, blocks) for axes in known), *alone], table)
    # Of counts that no table has together, those of the columns are known best.
    raked = _rake(raked, alone, table) if known else raked
    left = float(raked.sum())
    return raked * (float(table.sum()) / left) if left > 0 else raked


def _rake(table: Floats, kept: Sequence[tuple[Sequence[int], Sequence[Codes]]], like: Floats) -> Floats:
    """Return a table raked to the counts that another has by block of some axes, where it has rows at all."""
    held = np.flatnonzero(table > _TINY)
    rows = table.ravel()[held]
    goals: list[tuple[Codes, Floats]] = []
    for axes, blocks in kept:
        place = np.zeros((1,) * table.ndim, dtype=np.int64)
        size = 1
        for axis in axes:
            along = [-1 if other == axis else 1 for other in range(table.ndim)]
            place = place * (int(blocks[axis].max()) + 1) + blocks[axis].reshape(along)
            size *= int(blocks[axis].max()) + 1
        place = np.broadcast_to(place, table.shape).ravel()
        margin: Floats = np.bincount(place, like.ravel(), size).astype(np.float64)
        margin[np.bincount(place[held], minlength=size) == 0] = 0.0
        goals.append((place[held], margin * (float(like.sum()) / max(float(margin.sum()), 1e-300))))
    for _ in range(_SWEEPS):
        farthest = 0.0
        for member, goal in goals:
            sums = np.bincount(member, rows, len(goal))
            factors = np.divide(goal, sums, out=np.ones(len(sums)), where=sums > _TINY)
            farthest = max(farthest, float(np.abs(factors - 1.0).max(initial=0.0)))
            rows = rows * factors[member]
        if farthest < _NEAR:
            break
    raked = np.zeros(table.size)
    raked[held] = rows
    return raked.reshape(table.shape)


@dataclass(frozen=True, slots=True)
class _Sums:
    """The cells of a question: the model's count of each, whether it is asked for, and its group; `kept` groups are shown.

    `possible` are the cells that rules leave rows in, None where no rule bears on the question.
    """

    parts: ModelParts
    grid: ClassGrid
    chosen: Sequence[int]
    weight: Floats
    inside: Floats
    possible: Any
    groups: Any
    sizes: int
    kept: Codes
    exact: bool

    def estimate(self, aggregate: Any) -> tuple[ModelEstimate, bool]:
        """Return the estimate of one aggregate over the groups shown, and whether its error is that of known noise alone."""
        every, least, most = self._column(aggregate)
        values, deviations, known = (np.asarray(column)[self.kept] for column in every)
        values = np.clip(values, least, max(most[0], least))
        laplace = self.parts.counts.laplace and bool(known.any())
        estimate = ModelEstimate(tuple(values.tolist()), tuple(deviations.tolist()), least, most, laplace=laplace)
        return estimate, bool(known.all())

    def _column(self, aggregate: Any) -> tuple[tuple[Floats, Floats, Any], float, tuple[float, float]]:
        """Return what `_linear` does, and the least and most possible value of one aggregate over all groups."""
        errors = self.parts.errors
        cells = self.grid.cells
        total = max(float(self.parts.field.tables[0].sum()), 1.0)
        if aggregate.of is None or isinstance(aggregate, Count):
            present = 1.0 if aggregate.of is None else ~_absent(aggregate.of, cells)
            return self._linear(present), 0.0, (total, errors.rows)
        value, absent = evaluate_number(aggregate.of, cells)
        live = ~absent
        value = np.where(absent, 0.0, value)
        low, high = float(np.min(value)), float(np.max(value))
        if isinstance(aggregate, Sum):
            largest = max(high, 0.0)
            least = 0.0 if low >= 0 else -math.inf
            return self._linear(value), least, (total * largest, errors.rows * largest)
        counts = self._sum(live)
        sums = self._sum(value)
        means = np.divide(sums, counts, out=np.full(len(sums), (low + high) / 2.0), where=counts > 0)
        about = means[0] if self.groups is None else means[np.maximum(self.groups, 0)]
        moved, deviation, known = self._linear(live * (value - about))
        rows = np.maximum(self._linear(live)[0], 1.0)
        return (means + moved / rows, np.minimum(deviation / rows, high - low), known), low, (high, 0.0)

    def _linear(self, values: Any) -> tuple[Floats, Floats, Any]:
        """Return the sums of `values` over rows by group, their deviations, and which err by the measured counts' noise alone.

        What lies within a measured table comes of the measured counts, all else of the model.
        """
        sums = self._sum(values)
        parted = self._parted(values) + self._coupled(values)
        deviation = np.sqrt(np.square(self._deviation(values)) + parted)
        known = np.zeros(self.sizes if self.groups is not None else 1, dtype=bool)
        if not self.exact or not self.chosen:
            return sums, deviation, known
        # The model, fitted to codes and then to rules, strays from what was measured: twice its noise, under an order.
        weights = self._unruled(np.broadcast_to(self.inside * values, self.grid.shape))
        linear_question = Question(self.chosen, self.grid.members, weights, self.groups, len(known))
        rows = max(float(self.parts.field.tables[0].sum()), 1.0)
        missing = [column.missing for column in self.parts.columns]
        keys = KeyShares(self.parts.codes, self.parts.within, self.parts.errors, rows, missing)
        measured = self.parts.counts.estimate(linear_question, keys)
        if measured is None:
            return sums, deviation, known
        axes = zip(self.chosen, self.grid.members, strict=True)
        known[:] = len(self.chosen) == 1 or all(keys.aligned(*axis) for axis in axes)
        known &= parted == 0.0
        return measured[0], np.sqrt(np.square(measured[1]) + parted), known

    def _sum(self, values: Any) -> Floats:
        weight = np.broadcast_to(self.weight * values, self.grid.shape)
        return _sum_by_group(weight, self.groups, self.sizes)

    def _deviation(self, values: Any) -> Floats:
        cell_weights = self._unruled(np.broadcast_to(self.inside * values, self.grid.shape))
        return self.parts.errors.deviation(self.chosen, self.grid.members, cell_weights, self.groups, self.sizes)

    def _unruled(self, weights: Floats) -> Floats:
        """Return the weights of counts as if no rule were, but for groups in which rules leave no row: those have none.

        Neither the table nor the model has rows in the cells that rules forbid, so the error of a weighted sum of counts is the
        same whatever weights those cells have. The law of errors is of conditions on columns, as `contrasts` asks, and takes
        columns as independent: by it the cells that a rule leaves would be a small part of the rows where all of them are.
        """
        if self.possible is None:
            return weights
        asked = np.broadcast_to((weights != 0.0) & self.possible, weights.shape)
        left = _sum_by_group(asked.astype(np.float64), self.groups, self.sizes) > 0.0
        return weights * (left[np.maximum(self.groups, 0)] if self.groups is not None else float(left[0]))

    def _coupled(self, values: Any) -> Floats:
        """Return, by group, the variance of what dependence within the cells of measured pairs adds."""
        shape = self.grid.shape
        weight = np.broadcast_to(self.weight, shape).ravel()
        weighted = weight * np.broadcast_to(self.inside * values, shape).ravel()
        groups = np.zeros(weight.size, dtype=np.int64)
        if self.groups is not None:
            groups = np.broadcast_to(self.groups, shape).ravel()
        cells = np.flatnonzero((weighted != 0.0) & (groups >= 0))
        cells = cells[np.argsort(groups[cells], kind="stable")]
        ends = np.flatnonzero(np.diff(groups[cells], append=-1)) + 1
        variance = np.zeros(self.sizes if self.groups is not None else 1)
        for axes in itertools.combinations(range(len(shape)), 2):
            pair = [self.chosen[axis] for axis in axes]
            if not any(set(pair) <= set(table) for table in self.parts.measured):
                continue
            if not all(self.parts.columns[column].ordered for column in pair):
                continue
            shares = [self._class_shares(axis) for axis in axes]
            # Where each code lies in one class, nothing within a cell is asked for.
            if any(np.all((share == 0.0) | (share == 1.0)) for share in shares):
                continue
            sizes = [c.size for c in self.parts.codes]
            table = joint(self.parts.field, pair, sizes, [np.eye(sizes[column]) for column in pair])
            classes = [np.unravel_index(np.arange(weight.size), shape)[axis] for axis in axes]
            places = classes[0] * shape[axes[1]] + classes[1]
            size = (shape[axes[0]], shape[axes[1]])
            rows = np.bincount(places, weight, math.prod(size)).reshape(size)
            for part in np.split(cells, ends[:-1]) if len(cells) else []:
                sums = np.bincount(places[part], weighted[part], math.prod(size)).reshape(size)
                # Classes of which the group has none count for nothing.
                first, second = (np.flatnonzero(sums.any(axis=axis)) for axis in (1, 0))
                means = sums[np.ix_(first, second)] / rows[np.ix_(first, second)].clip(1e-300)
                variance[groups[part[0]]] += vary_coupled(means, table, (shares[0][:, first], shares[1][:, second]))
        return variance

    def _class_shares(self, axis: int) -> Floats:
        """Return the share of each code's rows in each class of an axis."""
        column = self.chosen[axis]
        codes = self.parts.codes[column]
        sums = np.zeros((codes.size, self.grid.shape[axis]))
        np.add.at(sums, (codes.codes, self.grid.members[axis]), self.parts.within[column])
        totals = sums.sum(axis=1, keepdims=True)
        shares: Floats = np.divide(sums, totals, out=np.zeros(sums.shape), where=totals > 0.0)
        return shares

    def _parted(self, values: Any) -> Floats:
        """Return, by group, the variance of what parted runs miss: a condition meets a share of their rows."""
        shape = self.grid.shape
        inside = np.broadcast_to(self.inside if self.possible is None else self.inside * self.possible, shape)
        weight = np.broadcast_to(self.weight * values, shape)
        variance = np.zeros(self.sizes if self.groups is not None else 1)
        for axis, (column, member) in enumerate(zip(self.chosen, self.grid.members, strict=True)):
            met = inside.max(axis=tuple(a for a in range(len(shape)) if a != axis))
            for place in np.flatnonzero((met > 1e-9) & (met < 1.0 - 1e-9)).tolist():
                groups = self.groups
                if groups is not None:
                    groups = np.broadcast_to(groups, shape).take([place], axis=axis)
                share = float(met[place])
                whole = _sum_by_group(weight.take([place], axis=axis), groups, self.sizes) / share
                rows = _sum_by_group(self.weight.take([place], axis=axis), groups, self.sizes) / share
                keys = np.flatnonzero(member == place)
                density = self.parts.errors.columns[column].share
                variance += np.square(whole) * vary_parted(self.parts.columns[column], keys, share, rows, density)
        return variance


def _absent(node: Node, cells: Mapping[str, ColumnCells]) -> Any:
    return cells[node.name].missing if isinstance(node, Name) else evaluate_number(node, cells)[1]


def _sum_by_group(weight: Floats, groups: Any, sizes: int) -> Floats:
    if groups is None:
        return np.array([float(weight.sum())])
    place = np.broadcast_to(groups, weight.shape).ravel()
    in_group = place >= 0
    sums = np.bincount(place[in_group], weights=weight.ravel()[in_group], minlength=sizes)
    totals: Floats = np.asarray(sums, dtype=np.float64)
    return totals


def _groups(
    question: Aggregation, domain: Domain, cells: Mapping[str, ColumnCells], sizes: Sequence[int]
) -> tuple[Any, int]:
    """Return the group of each cell, -1 for one that is dropped, and how many groups there are."""
    place: Any = None
    for group, size in zip(question.groups, sizes, strict=True):
        codes = _key_of(group.of, domain, cells)
        place = codes if place is None else np.where((place < 0) | (codes < 0), -1, place * size + codes)
    return place, math.prod(sizes)


def _key_of(node: Node, domain: Domain, cells: Mapping[str, ColumnCells]) -> Any:
    if isinstance(node, Name):
        one = cells[node.name]
        if one.encoded.edges is not None:
            raise QuestionRefused(f"the model holds {node.name!r} in runs: group by bins of it")
        return np.where(one.missing, -1, one.keys) if one.encoded.dropped else one.keys
    if is_text(node):
        return _text_key(node, domain, cells)
    if not isinstance(node, Bin):
        raise QuestionRefused(f"cannot group by {describe(node)}")
    value, absent = evaluate_number(node.of, cells)
    edges = node.edges
    if edges is None:
        from sordino.ask.queries.expressions.compile import bind_number

        values = bind_number(node.of, domain).values
        width = float(node.width or 1)
        low = float(values.lower or 0)
        high = float(values.upper or 0)
        cuts = low + width * np.arange(max(1, math.ceil((high - low) / width)) + 1)
    else:
        if any(isinstance(e, datetime.date) for e in edges):
            raise QuestionRefused("a model groups dates as they are declared: bins of dates are asked of the table")
        cuts = np.array([float(e) for e in edges if isinstance(e, Fraction)])
    bins = np.searchsorted(cuts, value, side="right") - 1
    bins = np.where((value == cuts[-1]), len(cuts) - 2, bins)
    missing_is_key = isinstance(node.of, Name) and _keeps_missing(cells[node.of.name].encoded)
    outside = len(cuts) - 1 if missing_is_key else -1
    bins = np.where((bins < 0) | (bins > len(cuts) - 2), outside, bins)
    return np.where(absent, outside, bins)


def _text_key(node: Node, domain: Domain, cells: Mapping[str, ColumnCells]) -> Any:
    """Return the place of each cell's text among its different values; one more for missing where that is a key."""
    values, one = text_values(node, cells)
    labels = list(value_keys(bind_values(node, domain))[0])
    absent = len(labels) if _keeps_missing(one.encoded) else -1
    places = np.array([absent if v is None else labels.index(v) for v in values] + [absent])
    return np.where(one.missing, absent, places[np.minimum(one.keys, len(values))])


def _keeps_missing(encoded: EncodedColumn) -> bool:
    return encoded.missing and not encoded.dropped


def _compile_answerable(question: Aggregation, domain: Domain) -> CompiledQuery:
    """Return what a question means; raises QuestionRefused where a model has no answer to it."""
    if question.sample is not None or question.steps:
        raise QuestionRefused(
            "a model answers questions about its own columns and rows: leave out joins, samples and per_unit"
        )
    if question.bounds is not None or any(isinstance(a, Sum) and a.per_unit for a in question.aggregates):
        raise QuestionRefused("a model knows rows, not whose they are: leave out bound_contributions and per_unit")
    compiled = compile_query(question, domain)
    if not question.aggregates:
        raise QuestionRefused("a model answers counts, sums and means: ask for one, such as COUNT(*), by these keys")
    if compiled.listed:
        raise QuestionRefused("a model answers for every declared key, at no cost: leave the list of keys out")
    if any(p.time for outputs in compiled.parts for p in outputs):
        raise QuestionRefused("a model answers no means of dates: ask for counts by day or month, or ask the table")
    return compiled
