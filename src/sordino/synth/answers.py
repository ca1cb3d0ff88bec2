"""Answers from a model: counts, sums and means over any condition and groups, from its tables, not from drawn rows.

Everything here is post-processing of released numbers; the intervals are the model's stated errors.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.domain import Domain
from sordino.errors import QuestionRefused
from sordino.queries.aggregates.count import Count
from sordino.queries.aggregates.sums import Mean, Sum
from sordino.queries.aggregation import Aggregation, compile_query
from sordino.queries.expressions.nodes import Bin, Name, Node, describe
from sordino.release import Key, Output, align, html_table, show_cells, show_columns
from sordino.synth.calibrate import MarkovRandomField
from sordino.synth.classes import ClassGrid, Dependencies, class_grid, predicates_of
from sordino.synth.columns import EncodedColumn
from sordino.synth.compress import DomainCompression
from sordino.synth.constraints import Constraint, Never, functional_dependencies
from sordino.synth.errors import Errors, kind_of
from sordino.synth.expression_eval import ColumnCells, evaluate_condition, evaluate_number, names_in
from sordino.synth.inference import joint
from sordino.synth.model_estimate import ModelEstimate
from sordino.synth.projection import Floats

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Answered", "Parts", "answered"]

_FREE = "from a model, not from the table: free"
_MOST_SHOWN, _MOST_HTML = 40, 200  # rows that print, and a notebook, shows
_MOST_HELD = 3_000_000  # cells of the table in which an answer's constraints are held


@dataclass(frozen=True, slots=True)
class Parts:
    """What answering needs of a model."""

    domain: Domain
    columns: tuple[EncodedColumn, ...]
    codes: tuple[DomainCompression, ...]
    within: tuple[Floats, ...]
    field: MarkovRandomField
    measured: frozenset[tuple[int, ...]]
    errors: Errors


@dataclass(frozen=True, slots=True, repr=False)
class Answered:
    """An answer from a model: labels, values and the standard deviation of each value's error, all free.

    `.interval(0.95)` holds on average over random questions (see Errors), not for each by itself. It is cut to
    what is possible: at `least`, and at `most`, a value and its own deviation, such as the number of rows. `notes` says
    which constraints it does not hold to.
    """

    question: str
    kind: str
    keys: tuple[tuple[str, tuple[Any, ...]], ...]
    names: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    deviations: tuple[tuple[float, ...], ...]
    least: tuple[float, ...]
    most: tuple[tuple[float, float], ...]
    notes: tuple[str, ...] = ()

    @property
    def value(self) -> Any:
        """The number, where the answer is one; else the list of its rows."""
        if not self.keys and len(self.names) == 1:
            return self.values[0][0]
        return self.table.to_pylist()

    @property
    def table(self) -> pa.Table:
        """The values as an Arrow table: keys, then a column an aggregate."""
        import pyarrow as pa

        return pa.table({n: pa.array(list(v)) for n, v in (*self.keys, *zip(self.names, self.values, strict=True))})

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The answered columns, each with its estimate, as a release has them."""
        columns = zip(self.names, self.values, self.deviations, self.least, self.most, strict=True)
        return tuple(Output(n, ModelEstimate(v, d, low, top), "the model's tables") for n, v, d, low, top in columns)

    @property
    def parts(self) -> tuple[Key | Output, ...]:
        """The keys and outputs, in the order of the columns."""
        return (*(Key(n, labels) for n, labels in self.keys), *self.outputs)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, in their order."""
        return tuple(p.name for p in self.parts)

    def error(self, confidence: float) -> Any:
        """Return the error not exceeded with this probability: a number, or a list for each aggregate."""
        return self._shaped([o.estimate.errors(confidence) for o in self.outputs])

    def interval(self, confidence: float) -> Any:
        """Return (lower, upper): a pair, or a list of pairs for each aggregate."""
        return self._shaped([o.estimate.intervals(confidence) for o in self.outputs])

    def to_dict(self, *, confidence: float = 0.95) -> dict[str, Any]:
        """Return the answer as JSON data, with its intervals at `confidence`; None for an end without a bound."""
        ends = {o.name: o.estimate.intervals(confidence) for o in self.outputs}
        return {
            "schema": 1,
            "from": "a model, not the table",
            "question": self.question,
            "kind": self.kind,
            "confidence": confidence,
            "notes": list(self.notes),
            "rows": self.table.to_pylist(),
            "intervals": [
                {n: [e if e is not None and math.isfinite(e) else None for e in pairs[i]] for n, pairs in ends.items()}
                for i in range(len(self.values[0]))
            ],
        }

    def __repr__(self) -> str:
        shape = repr(self.value) if not self.keys else f"{len(self.values[0])} rows"
        return f"<Answer from a model: {self.question}: {shape}>"

    def __str__(self) -> str:
        """The question and the table with its 95% intervals, at most 40 rows."""
        head, rows = show_columns(self.parts), show_cells(self.parts, 0.95)
        more = [f"... {len(rows) - _MOST_SHOWN:,} more rows"] if len(rows) > _MOST_SHOWN else []
        return "\n".join([self.question, *align([head, *rows[:_MOST_SHOWN]]), *more, _FREE, *self.notes])

    def _repr_html_(self) -> str:
        rows = show_cells(self.parts, 0.95)
        more = [f"{len(rows) - _MOST_HTML} more rows"] if len(rows) > _MOST_HTML else []
        return html_table(
            self.question, show_columns(self.parts), rows[:_MOST_HTML], notes=(*more, *self.notes), foot=_FREE
        )

    def _shaped(self, columns: list[Any]) -> Any:
        if not self.keys and len(self.names) == 1:
            return columns[0][0]
        return dict(zip(self.names, columns, strict=True))


def answered(parts: Parts, question: Aggregation, constraints: Sequence[Constraint] = ()) -> Answered:
    """Return the model's answer; raises QuestionRefused for what the table itself would refuse, and for new columns.

    Constraints on the question's columns hold in it: cells that no row may be in count nothing, and the others are raised
    so that as many rows are left.
    """
    if question.sample is not None or question.joins:
        raise QuestionRefused("a model answers about all of its own rows: leave TABLESAMPLE and JOIN out")
    resolved = compile_query(question, parts.domain)
    by_name = {c.name: c for c in parts.columns}
    whole = _whole(question)
    names = list(dict.fromkeys([*whole, *names_in(question.where)]))
    missing = [n for n in names if n not in by_name]
    if missing:
        raise QuestionRefused(f"the model has no column {missing[0]!r}; it has {', '.join(by_name)}")
    asked = _Asked(
        by_name,
        parts.domain,
        whole,
        tuple(predicates_of(question.where)),
        functional_dependencies(constraints, by_name),
    )
    grid, held, notes = _held(asked, names, constraints)
    table = _table(parts, grid, held)
    met = _met(question.where, grid, held)
    groups, sizes = _groups(question, parts.domain, grid.cells, [len(k.labels) for k in resolved.keys])
    place = {c.name: i for i, c in enumerate(parts.columns)}
    kind = kind_of([place[asked.dependencies[n][0] if n in asked.dependencies else n] for n in names], parts.measured)
    summing = _Summing(parts, grid, [place[n] for n in grid.names], table * met, met, groups, sizes)
    columns = [summing.column(a) for a in question.aggregates]
    labels = list(itertools.product(*(k.labels for k in resolved.keys)))
    return Answered(
        question.describe(),
        kind,
        tuple((g.alias, tuple(row[i] for row in labels)) for i, g in enumerate(question.groups)),
        tuple(a.alias for a in question.aggregates),
        tuple(tuple(v.tolist()) for v, _, _, _ in columns),
        tuple(tuple(d.tolist()) for _, d, _, _ in columns),
        tuple(low for _, _, low, _ in columns),
        tuple(most for _, _, _, most in columns),
        notes,
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a grid for a question needs."""

    by_name: Mapping[str, EncodedColumn]
    domain: Domain
    whole: Sequence[str]
    predicates: tuple[Node, ...]
    dependencies: Dependencies

    def grid(self, names: Sequence[str], nodes: Sequence[Node]) -> ClassGrid:
        """Return the grid of the question's columns and of further conditions."""
        predicates = [*self.predicates, *(a for n in nodes for a in predicates_of(n))]
        return class_grid(
            self.by_name, self.domain, names, predicates=predicates, whole=self.whole, dependencies=self.dependencies
        )


def _whole(question: Aggregation) -> list[str]:
    """Return the columns whose every key counts: groups, and what is summed."""
    if not all(isinstance(a, (Count, Sum, Mean)) for a in question.aggregates):
        raise QuestionRefused("a model answers counts, sums and means")
    numbers = [a.of for a in question.aggregates if isinstance(a, (Count, Sum, Mean)) and a.of is not None]
    nodes: list[Node] = [*(g.of for g in question.groups), *numbers]
    return list(dict.fromkeys(n for node in nodes for n in names_in(node)))


def _held(
    asked: _Asked, names: Sequence[str], constraints: Sequence[Constraint]
) -> tuple[ClassGrid, list[Node], tuple[str, ...]]:
    """Return the grid that tells the question and each constraint on its columns, those constraints, and what was left out."""
    grid = asked.grid(names, [])
    touched = set(grid.names)
    held: list[Node] = []
    notes: list[str] = []
    for one in constraints:
        if not isinstance(one, Never):
            continue
        needed = names_in(one.condition)
        if touched.isdisjoint(asked.dependencies[n][0] if n in asked.dependencies else n for n in needed):
            continue
        wider = asked.grid(list(dict.fromkeys([*names, *needed])), [*held, one.condition])
        if math.prod(wider.shape) > _MOST_HELD:
            notes.append(f"not held in this answer: {one.describe()}, which joins too many values")
            continue
        names, grid = list(dict.fromkeys([*names, *needed])), wider
        held.append(one.condition)
    return grid, held, tuple(notes)


def _table(parts: Parts, grid: ClassGrid, held: Sequence[Node]) -> Floats:
    """Return the model's counts on the grid, with nothing where a constraint forbids rows."""
    place = {c.name: i for i, c in enumerate(parts.columns)}
    chosen = [place[n] for n in grid.names]
    shares: list[Floats] = []
    for column, member, size in zip(chosen, grid.members, grid.shape, strict=True):
        weights = np.zeros((parts.codes[column].size, size))
        np.add.at(weights, (parts.codes[column].codes, member), parts.within[column])
        shares.append(weights)
    table = joint(parts.field, chosen, [c.size for c in parts.codes], shares)
    total = float(table.sum())
    for condition in held:
        table = table * (1.0 - evaluate_condition(condition, grid.cells)[0])
    left = float(table.sum())
    return table * (total / left) if held and left > 0 else table


def _met(where: Node | None, grid: ClassGrid, held: Sequence[Node]) -> Floats:
    """Return 1 for the cells that meet the condition and every constraint held, 0 for the others."""
    met = np.ones(grid.shape)
    if where is not None:
        met = met * evaluate_condition(where, grid.cells)[0]
    for condition in held:
        met = met * (1.0 - evaluate_condition(condition, grid.cells)[0])
    return met


@dataclass(frozen=True, slots=True)
class _Summing:
    """The cells of a question: the model's count of each, whether it is asked for, and its group."""

    parts: Parts
    grid: ClassGrid
    chosen: Sequence[int]
    weight: Floats
    met: Floats
    groups: Any
    sizes: int

    def column(self, aggregate: Any) -> tuple[Floats, Floats, float, tuple[float, float]]:
        """Return values, deviations, and the least and most possible value of one aggregate over all groups."""
        errors, cells = self.parts.errors, self.grid.cells
        total = max(float(self.parts.field.tables[0].sum()), 1.0)
        if aggregate.of is None or isinstance(aggregate, Count):
            present = 1.0 if aggregate.of is None else ~_absent(aggregate.of, cells)
            return self._sum(present), self._deviation(present), 0.0, (total, errors.rows)
        value, absent = evaluate_number(aggregate.of, cells)
        live, value = ~absent, np.where(absent, 0.0, value)
        counts, sums = self._sum(live), self._sum(value)
        low, high = float(np.min(value)), float(np.max(value))
        if isinstance(aggregate, Sum):
            largest = max(high, 0.0)
            least = 0.0 if low >= 0 else -math.inf
            return sums, self._deviation(value), least, (total * largest, errors.rows * largest)
        means = np.divide(sums, counts, out=np.full(len(sums), (low + high) / 2.0), where=counts > 0)
        about = means[0] if self.groups is None else means[np.maximum(self.groups, 0)]
        deviation = self._deviation(live * (value - about)) / np.maximum(counts, 1.0)
        return means, np.minimum(deviation, high - low), low, (high, 0.0)

    def _sum(self, values: Any) -> Floats:
        weight = np.broadcast_to(self.weight * values, self.grid.shape)
        return _summed(weight, self.groups, self.sizes)

    def _deviation(self, values: Any) -> Floats:
        asked = np.broadcast_to(self.met * values, self.grid.shape)
        return self.parts.errors.deviation(self.chosen, self.grid.members, asked, self.groups, self.sizes)


def _absent(node: Node, cells: Mapping[str, ColumnCells]) -> Any:
    return cells[node.name].missing if isinstance(node, Name) else evaluate_number(node, cells)[1]


def _summed(weight: Floats, groups: Any, sizes: int) -> Floats:
    if groups is None:
        return np.array([float(weight.sum())])
    place = np.broadcast_to(groups, weight.shape).ravel()
    kept = place >= 0
    found = np.bincount(place[kept], weights=weight.ravel()[kept], minlength=sizes)
    made: Floats = np.asarray(found, dtype=np.float64)
    return made


def _groups(
    question: Aggregation, domain: Domain, cells: Mapping[str, ColumnCells], sizes: Sequence[int]
) -> tuple[Any, int]:
    """Return the group of each cell, -1 for one that is dropped, and how many groups there are."""
    place: Any = None
    for group, size in zip(question.groups, sizes, strict=True):
        found = _key_of(group.of, domain, cells)
        place = found if place is None else np.where((place < 0) | (found < 0), -1, place * size + found)
    return place, math.prod(sizes)


def _key_of(node: Node, domain: Domain, cells: Mapping[str, ColumnCells]) -> Any:
    if isinstance(node, Name):
        one = cells[node.name]
        if one.encoded.edges is not None:
            raise QuestionRefused(f"the model holds {node.name!r} in runs: group by bins of it")
        return np.where(one.missing, -1, one.keys) if one.encoded.dropped else one.keys
    if not isinstance(node, Bin):
        raise QuestionRefused(f"cannot group by {describe(node)}")
    value, absent = evaluate_number(node.of, cells)
    edges = node.edges
    if edges is None:
        from sordino.queries.expressions.compile import bind_number

        values = bind_number(node.of, domain).values
        width, low, high = float(node.width or 1), float(values.lower or 0), float(values.upper or 0)
        cuts = low + width * np.arange(max(1, math.ceil((high - low) / width)) + 1)
    else:
        cuts = np.array([float(e) for e in edges])
    found = np.searchsorted(cuts, value, side="right") - 1
    found = np.where((value == cuts[-1]), len(cuts) - 2, found)
    kept = isinstance(node.of, Name) and _keeps_missing(cells[node.of.name].encoded)
    outside = len(cuts) - 1 if kept else -1
    found = np.where((found < 0) | (found > len(cuts) - 2), outside, found)
    return np.where(absent, outside, found)


def _keeps_missing(encoded: EncodedColumn) -> bool:
    return encoded.missing and not encoded.dropped
