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
from sordino.errors import DeclarationError, QuestionRefused
from sordino.queries.aggregation import Aggregation, resolve
from sordino.queries.count import Count
from sordino.queries.nodes import Bin, Compare, Connective, Constant, IsIn, IsNull, Name, Node, Not, depth, describe
from sordino.queries.sums import Mean, Sum
from sordino.synth.calibrate import Beliefs
from sordino.synth.columns import Keyed
from sordino.synth.compress import Compressed
from sordino.synth.errors import Errors, kind_of, multiple
from sordino.synth.inference import joint
from sordino.synth.projection import Floats
from sordino.synth.truth import Cells, cells_of, names_in, number_of, truth_of

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Answered", "Parts", "answered"]


@dataclass(frozen=True, slots=True)
class Parts:
    """What answering needs of a model."""

    domain: Domain
    columns: tuple[Keyed, ...]
    codes: tuple[Compressed, ...]
    within: tuple[Floats, ...]
    beliefs: Beliefs
    measured: frozenset[tuple[int, ...]]
    errors: Errors


@dataclass(frozen=True, slots=True, repr=False)
class Answered:
    """An answer from a model: labels, values and the standard deviation of each value's error, all free.

    `.interval(0.95)` holds on average over questions of its kind (see Errors), not for each by itself.
    """

    question: str
    kind: str
    keys: tuple[tuple[str, tuple[Any, ...]], ...]
    names: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    deviations: tuple[tuple[float, ...], ...]
    least: tuple[float, ...]

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

    def error(self, confidence: float) -> Any:
        """Return the error not exceeded with this probability: a number, or a list for each aggregate."""
        reach = self._reach(confidence)
        return self._shaped([[reach * d for d in column] for column in self.deviations])

    def interval(self, confidence: float) -> Any:
        """Return (lower, upper): a pair, or a list of pairs for each aggregate."""
        reach = self._reach(confidence)
        return self._shaped(
            [
                [(max(v - reach * d, low), v + reach * d) for v, d in zip(values, deviations, strict=True)]
                for values, deviations, low in zip(self.values, self.deviations, self.least, strict=True)
            ]
        )

    def __repr__(self) -> str:
        shape = repr(self.value) if not self.keys else f"{len(self.values[0])} rows"
        return f"<Answer from a model: {self.question}: {shape}>"

    def _reach(self, confidence: float) -> float:
        if isinstance(confidence, bool) or not 0 < confidence < 1:
            raise DeclarationError("confidence must lie between 0 and 1, such as 0.95")
        return multiple(confidence)

    def _shaped(self, columns: list[Any]) -> Any:
        if not self.keys and len(self.names) == 1:
            return columns[0][0]
        return dict(zip(self.names, columns, strict=True))


def answered(parts: Parts, question: Aggregation) -> Answered:
    """Return the model's answer; raises QuestionRefused for what the table itself would refuse, and for new columns."""
    if question.sample is not None or question.joins:
        raise QuestionRefused("a model answers about all of its own rows: leave TABLESAMPLE and JOIN out")
    resolved = resolve(question, parts.domain)
    place = {c.name: i for i, c in enumerate(parts.columns)}
    numbers = [a.of for a in question.aggregates if isinstance(a, (Count, Sum, Mean)) and a.of is not None]
    if not all(isinstance(a, (Count, Sum, Mean)) for a in question.aggregates):
        raise QuestionRefused("a model answers counts, sums and means")
    nodes: list[Node] = [*(g.of for g in question.groups), *numbers]
    whole = list(dict.fromkeys(n for node in nodes for n in names_in(node)))
    names = list(dict.fromkeys([*whole, *names_in(question.where)]))
    missing = [n for n in names if n not in place]
    if missing:
        raise QuestionRefused(f"the model has no column {missing[0]!r}; it has {', '.join(place)}")
    atoms = _atoms(question.where)
    shared = {n for atom in atoms if len(names_in(atom)) > 1 for n in names_in(atom)}
    chosen = [place[n] for n in names]
    shares: list[Floats] = []
    cells: dict[str, Cells] = {}
    for axis, name in enumerate(names):
        own = [a for a in atoms if names_in(a) == [name]]
        classes, keys = _classes(parts, place[name], own, split=name in whole or name in shared)
        shares.append(classes)
        shape = tuple(len(keys) if i == axis else 1 for i in range(len(names)))
        cells[name] = cells_of(parts.columns[place[name]], keys, parts.domain).shaped(shape)
    table = joint(parts.beliefs, chosen, [c.size for c in parts.codes], shares)
    weight = table if question.where is None else table * truth_of(question.where, cells)[0]
    groups, sizes = _groups(question, parts.domain, cells, [len(k.labels) for k in resolved.keys])
    kind = kind_of(chosen, parts.measured)
    total = max(float(parts.beliefs.tables[0].sum()), 1.0)
    columns = [_column(a, weight, groups, sizes, cells, parts.errors, kind, total) for a in question.aggregates]
    labels = list(itertools.product(*(k.labels for k in resolved.keys)))
    return Answered(
        question.describe(),
        kind,
        tuple((g.alias, tuple(row[i] for row in labels)) for i, g in enumerate(question.groups)),
        tuple(a.alias for a in question.aggregates),
        tuple(tuple(v.tolist()) for v, _, _ in columns),
        tuple(tuple(d.tolist()) for _, d, _ in columns),
        tuple(low for _, _, low in columns),
    )


def _column(
    aggregate: Any,
    weight: Floats,
    groups: Any,
    sizes: int,
    cells: Mapping[str, Cells],
    errors: Errors,
    kind: str,
    total: float,
) -> tuple[Floats, Floats, float]:
    """Return values, deviations and the least possible value of one aggregate over all groups.

    A sum errs by the deviation of its count times the largest value, at most; a mean by the spread of values about it.
    """
    if aggregate.of is None:
        counts = _summed(weight, groups, sizes)
        return counts, errors.deviation(kind, counts / total), 0.0
    if isinstance(aggregate, Count):
        present = ~_absent(aggregate.of, cells)
        counts = _summed(weight * present, groups, sizes)
        return counts, errors.deviation(kind, counts / total), 0.0
    value, absent = number_of(aggregate.of, cells)
    live = weight * ~absent
    counts, sums = _summed(live, groups, sizes), _summed(live * np.where(absent, 0.0, value), groups, sizes)
    low, high = float(np.min(value)), float(np.max(value))
    deviation = errors.deviation(kind, counts / total)
    if isinstance(aggregate, Sum):
        return sums, deviation * max(abs(low), abs(high)), 0.0 if low >= 0 else -math.inf
    means = np.divide(sums, counts, out=np.full(len(sums), (low + high) / 2.0), where=counts > 0)
    reach = np.maximum(means - low, high - means)
    return means, np.minimum(deviation * reach / np.maximum(counts, 1.0), high - low), low


def _absent(node: Node, cells: Mapping[str, Cells]) -> Any:
    return cells[node.name].missing if isinstance(node, Name) else number_of(node, cells)[1]


def _summed(weight: Floats, groups: Any, sizes: int) -> Floats:
    if groups is None:
        return np.array([float(weight.sum())])
    place = np.broadcast_to(groups, weight.shape).ravel()
    kept = place >= 0
    found = np.bincount(place[kept], weights=weight.ravel()[kept], minlength=sizes)
    made: Floats = np.asarray(found, dtype=np.float64)
    return made


def _groups(question: Aggregation, domain: Domain, cells: Mapping[str, Cells], sizes: Sequence[int]) -> tuple[Any, int]:
    """Return the group of each cell, -1 for one that is dropped, and how many groups there are."""
    place: Any = None
    for group, size in zip(question.groups, sizes, strict=True):
        found = _key_of(group.of, domain, cells)
        place = found if place is None else np.where((place < 0) | (found < 0), -1, place * size + found)
    return place, math.prod(sizes)


def _key_of(node: Node, domain: Domain, cells: Mapping[str, Cells]) -> Any:
    if isinstance(node, Name):
        one = cells[node.name]
        if one.keyed.edges is not None:
            raise QuestionRefused(f"the model holds {node.name!r} in runs: group by bins of it")
        return one.keys
    if not isinstance(node, Bin):
        raise QuestionRefused(f"cannot group by {describe(node)}")
    value, absent = number_of(node.of, cells)
    edges = node.edges
    if edges is None:
        from sordino.queries.measure import measure

        values = measure(node.of, domain).values
        width, low, high = float(node.width or 1), float(values.lower or 0), float(values.upper or 0)
        cuts = low + width * np.arange(max(1, math.ceil((high - low) / width)) + 1)
    else:
        cuts = np.array([float(e) for e in edges])
    found = np.searchsorted(cuts, value, side="right") - 1
    found = np.where((value == cuts[-1]), len(cuts) - 2, found)
    kept = isinstance(node.of, Name) and cells[node.of.name].keyed.missing
    outside = len(cuts) - 1 if kept else -1
    found = np.where((found < 0) | (found > len(cuts) - 2), outside, found)
    return np.where(absent, outside, found)


def _classes(parts: Parts, column: int, atoms: Sequence[Node], *, split: bool) -> tuple[Floats, Any]:
    """Return the share of each code in each class of keys (codes x classes), and a key of each class.

    Keys of one class meet the same conditions, so the table need hold no more than the classes.
    """
    keyed, codes, within = parts.columns[column], parts.codes[column], parts.within[column]
    keys = np.arange(keyed.size)
    if split:
        member, firsts = keys, keys
    else:
        cells = {keyed.name: cells_of(keyed, keys, parts.domain)}
        marks = [m for a in atoms for m in truth_of(a, cells)]
        seen = np.stack([np.broadcast_to(m, keys.shape) for m in marks], axis=1) if marks else np.zeros((len(keys), 1))
        _, firsts, member = np.unique(seen, axis=0, return_index=True, return_inverse=True)
        member = member.ravel()
    weights = np.zeros((codes.size, len(firsts)))
    np.add.at(weights, (codes.codes, member), within)
    return weights, firsts


def _atoms(node: Node | None) -> list[Node]:
    """Return the conditions that a tree of and, or, not is made of."""
    if node is None:
        return []
    depth(node)
    if isinstance(node, Connective):
        return [*_atoms(node.left), *_atoms(node.right)]
    if isinstance(node, Not):
        return _atoms(node.of)
    if isinstance(node, (Compare, IsIn, IsNull, Name)):
        return [node]
    if isinstance(node, Constant):
        return []
    raise QuestionRefused(f"a condition is needed, such as age > 30, not {describe(node)}")
