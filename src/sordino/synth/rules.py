"""Rules: what is publicly known of every row of a table - a sum, an order, blanks, a list of combinations, a value that follows.

They are applied, never checked against the data: whether the data obey them would leak. Each kind of rule is a class: the
columns it names, how it is checked when declared, which cells of a table it leaves possible, and how a drawn row is
completed so that it holds. `RULES` lists the kinds. Knows no data.
"""

from __future__ import annotations

import datetime
import itertools
import math
import operator
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Protocol

import numpy as np

from sordino.ask.queries.expressions.compile import bind_condition
from sordino.ask.queries.expressions.expr import Expr, col
from sordino.ask.queries.expressions.nodes import (
    MIRROR,
    Arithmetic,
    Compare,
    Connective,
    Constant,
    IsNull,
    Name,
    Node,
    describe,
)
from sordino.core.domain import Boolean, Category, Date, DateTime, Domain
from sordino.core.errors import DeclarationError, QuestionRefused
from sordino.core.loss import format_number
from sordino.synth.condition_text import node_from_data, node_to_data, parse_condition
from sordino.synth.drawn_rows import ColumnLaw, DrawnRows, Mask, column_law
from sordino.synth.encoded_column import Codes, EncodedColumn, label_of
from sordino.synth.equivalence_classes import Dependencies, key_classes, predicates_of
from sordino.synth.expression_eval import ColumnCells, column_cells, evaluate_condition, names_in

Columns = Mapping[str, EncodedColumn]
Cells = Mapping[str, ColumnCells]

# Cells of rows by candidate values that are looked at together.
_TOGETHER = 2_000_000
# Points of a run at which the share of a cell that keeps to a sum or an order is computed, by the number of columns.
_POINTS = {2: 16, 3: 6, 4: 3}
# How often rules narrow the steps that they leave each other before a column is settled.
_ROUNDS = 6
# Beyond the reach of any sum of steps.
_FAR = 1 << 60
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*")


class Rule(Protocol):
    """One kind of rule. `kind` names it in model files; `order` says which rules complete a row first."""

    kind: ClassVar[str]
    order: ClassVar[int]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that the rule is about."""

    @property
    def fixes(self) -> str | None:
        """The column that the rule fixes from the others, None where any may give way."""

    def describe(self) -> str:
        """Return the rule in words."""

    def violation(self) -> Expr:
        """Return the condition of a row that breaks the rule."""

    def check(self, columns: Columns, domain: Domain) -> None:
        """Raise DeclarationError where the rule cannot be one of these columns."""

    def parts(self) -> Sequence[Rule]:
        """Return the rules that together say the same, each of which a row can be completed by."""

    def predicates(self) -> Sequence[Node]:
        """Return the conditions that tell the values of a column apart, where the rule needs no more of them."""

    def possible(self, cells: Cells, columns: Columns) -> Any:
        """Return which share of each cell keeps to the rule; columns without cells may hold whatever is declared."""

    def structure(self, cells: Cells, columns: Columns) -> Any:
        """Return the share of each cell that is left by a table that knows nothing else; 0 where no row can be."""

    def holds(self, rows: DrawnRows) -> Mask:
        """Return which rows keep to the rule."""

    def complete(self, rows: DrawnRows, at: Codes, settled: frozenset[str]) -> None:
        """Change the rows `at`, in columns that are not settled where that is enough, so that they keep to the rule."""

    def to_data(self) -> list[Any]:
        """Return the rule as JSON data, its kind first."""


# ---- never


@dataclass(frozen=True, slots=True)
class Never:
    """No row meets this condition."""

    condition: Node

    kind: ClassVar[str] = "never"
    order: ClassVar[int] = 3
    fixes: ClassVar[None] = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the condition."""
        return tuple(names_in(self.condition))

    def describe(self) -> str:
        """Return the rule in words."""
        return f"never {describe(self.condition)}"

    def violation(self) -> Expr:
        """Return the condition."""
        return Expr(self.condition)

    def check(self, columns: Columns, domain: Domain) -> None:
        """Raise DeclarationError for a column that is not there, or what is no condition."""
        require_columns(self, columns)
        bind_condition(self.condition, domain)
        for part in self.parts():
            if isinstance(part, Linear):
                part.check(columns, domain)

    def parts(self) -> Sequence[Rule]:
        """Return one rule for each alternative; a comparison of sums of columns is a sum or an order of its own."""
        if isinstance(self.condition, Connective) and self.condition.op == "or":
            return [*Never(self.condition.left).parts(), *Never(self.condition.right).parts()]
        linear = _negate(self.condition)
        return [self if linear is None else linear]

    def predicates(self) -> Sequence[Node]:
        """Return the comparisons of the condition."""
        return predicates_of(self.condition)

    def possible(self, cells: Cells, columns: Columns) -> Any:
        """Return the share of each cell that does not meet the condition."""
        del columns
        return 1.0 if set(self.names) - cells.keys() else 1.0 - evaluate_condition(self.condition, cells)[0]

    structure = possible

    def holds(self, rows: DrawnRows) -> Mask:
        """Return which rows do not meet the condition."""
        met = evaluate_condition(self.condition, rows.cells(self.names))[0]
        kept: Mask = np.broadcast_to(met, (rows.count,)) <= 0.0
        return kept

    def complete(self, rows: DrawnRows, at: Codes, settled: frozenset[str]) -> None:
        """Draw another value of one column, that named last if it is not settled, among those that the condition is false for."""
        roots = list(dict.fromkeys(rows.derived[n][0] if n in rows.derived else n for n in reversed(self.names)))
        for root in sorted(roots, key=lambda name: name in settled):
            for start in range(0, len(at), max(1, _TOGETHER // max(rows.laws[root].encoded.size, 1))):
                some = at[start : start + max(1, _TOGETHER // max(rows.laws[root].encoded.size, 1))]
                self._draw_again(rows, some, root)
            at = at[~self.holds(rows.take(at))]
            if not len(at):
                return

    def _draw_again(self, rows: DrawnRows, at: Codes, root: str) -> None:
        law = rows.laws[root]
        encoded = law.encoded
        changed = [n for n in self.names if n == root or rows.derived.get(n, ("",))[0] == root]
        alone = [p for p in predicates_of(self.condition) if set(names_in(p)) <= {root}]
        split = changed != [root] or any(
            root in names_in(p) and len(names_in(p)) > 1 for p in predicates_of(self.condition)
        )
        members, firsts = key_classes(encoded, alone, split=split)
        cells = {n: c.reshape((len(at), 1)) for n, c in rows.cells(self.names, at).items() if n not in changed}
        for name in changed:
            keys = firsts if name == root else rows.derived[name][1][firsts]
            cells[name] = column_cells(rows.laws[name].encoded, keys).reshape((1, len(firsts)))
        met = evaluate_condition(self.condition, cells)[0]
        free = np.array(np.broadcast_to(met, (len(at), len(firsts))) <= 0.0)
        weights = np.zeros(encoded.size)
        weights[: encoded.value_count] = np.maximum(law.weights, 1e-9)
        if encoded.missing and not encoded.dropped:
            weights[-1] = 1e-9
        of_class = np.bincount(members, weights=weights, minlength=len(firsts))
        free &= of_class > 0
        chosen, found = _choose(free, of_class, rows)
        for member in np.unique(chosen[found]).tolist():
            rows_of = at[found & (chosen == member)]
            keys = np.flatnonzero((members == member) & (weights > 0))
            below = np.cumsum(weights[keys])
            place = np.searchsorted(below, rows.rng.uniform_doubles(len(rows_of)) * below[-1], side="right")
            rows.set_keys(root, rows_of, keys[np.minimum(place, len(keys) - 1)])

    def to_data(self) -> list[Any]:
        """Return the rule as JSON data."""
        return [self.kind, node_to_data(self.condition)]

    @classmethod
    def from_data(cls, data: Sequence[Any]) -> Never:
        """Return what `to_data` wrote."""
        return cls(node_from_data(data[0]))


def _choose(free: Mask, weights: Any, rows: DrawnRows) -> tuple[Codes, Mask]:
    """Return for each row of `free` a random place that is free, by weight, and whether there is one.

    The largest of u^(1 / weight) is drawn by weight (Efraimidis & Spirakis 2006).
    """
    uniform = rows.rng.uniform_doubles(free.size).reshape(free.shape)
    scores = np.where(free, np.log(np.maximum(uniform, 1e-300)) / np.maximum(weights, 1e-12), -np.inf)
    return scores.argmax(axis=1), np.asarray(free.any(axis=1))


# ---- a value that follows from another


@dataclass(frozen=True, slots=True)
class Determines:
    """The value of `column` follows from that of `of`: `values` maps labels of `of` to labels of `column`."""

    of: str
    column: str
    values: tuple[tuple[Any, Any], ...]

    kind: ClassVar[str] = "determines"
    order: ClassVar[int] = 0

    @property
    def names(self) -> tuple[str, ...]:
        """Both columns."""
        return (self.of, self.column)

    @property
    def fixes(self) -> str:
        """The column that follows."""
        return self.column

    def describe(self) -> str:
        """Return the rule in words."""
        return f"{self.column} follows from {self.of}"

    def violation(self) -> Expr:
        """Return, for the values of `of` that lead to one of `column`, the rows of these that have another."""
        sources: dict[Any, list[Any]] = {}
        for source, target in self.values:
            sources.setdefault(target, []).append(source)
        return _any_of([_has(self.of, several) & ~_has(self.column, [target]) for target, several in sources.items()])

    def check(self, columns: Columns, domain: Domain) -> None:
        """Raise DeclarationError for a column that is not there, or a mapping that is not of every value."""
        del domain
        require_columns(self, columns)
        self.table(columns)

    def parts(self) -> Sequence[Rule]:
        """Return itself."""
        return [self]

    def predicates(self) -> Sequence[Node]:
        """Return nothing: every value counts."""
        return []

    def possible(self, cells: Cells, columns: Columns) -> Any:
        """Return where the mapping holds."""
        if set(self.names) - cells.keys():
            return 1.0
        return (self.table(columns)[cells[self.of].keys] == cells[self.column].keys).astype(np.float64)

    structure = possible

    def holds(self, rows: DrawnRows) -> Mask:
        """Return where the mapping holds."""
        table = self.table({n: rows.laws[n].encoded for n in self.names})
        kept: Mask = table[rows.keys(self.of)] == rows.keys(self.column)
        return kept

    def complete(self, rows: DrawnRows, at: Codes, settled: frozenset[str]) -> None:
        """Give the rows what follows from the column, or from that which it follows from."""
        del settled
        rows.derive(rows.derived[self.column][0], at)

    def table(self, columns: Columns) -> Codes:
        """Return the key of `column` for each key of `of`; raises DeclarationError where a value has none."""
        source = columns[self.of]
        target = columns[self.column]
        if source.edges is not None or target.edges is not None:
            raise DeclarationError(
                f"{self.describe()}: both need a declared value each key; declare them as categories"
            )
        keys_by_value = dict(self.values)
        # A column that drops missing cells need not map them.
        if source.dropped:
            keys_by_value.setdefault(None, None if target.missing else label_of(target, 0))
        places = {label_of(target, k): k for k in range(target.size)}
        table = np.zeros(source.size, dtype=np.int64)
        for key in range(source.size):
            label = label_of(source, key)
            if label not in keys_by_value:
                raise DeclarationError(
                    f"{self.describe()}: the mapping has no entry for {label!r}; map every declared value"
                )
            if keys_by_value[label] not in places:
                raise DeclarationError(
                    f"{self.describe()}: {keys_by_value[label]!r} is not a declared value of {self.column!r}"
                )
            table[key] = places[keys_by_value[label]]
        return table

    def to_data(self) -> list[Any]:
        """Return the rule as JSON data."""
        return [self.kind, self.of, self.column, [list(v) for v in self.values]]

    @classmethod
    def from_data(cls, data: Sequence[Any]) -> Determines:
        """Return what `to_data` wrote."""
        return cls(data[0], data[1], tuple((a, b) for a, b in data[2]))


# ---- blank exactly when


@dataclass(frozen=True, slots=True)
class Blank:
    """`column` is missing in the rows that meet `when`, and in no other."""

    column: str
    when: Node

    kind: ClassVar[str] = "blank"
    order: ClassVar[int] = 1

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the condition, and the one that is blank."""
        return (*names_in(self.when), self.column)

    @property
    def fixes(self) -> str:
        """The column that is blank."""
        return self.column

    def describe(self) -> str:
        """Return the rule in words."""
        return f"blank {self.column} when {describe(self.when)}"

    def violation(self) -> Expr:
        """Return the rows that are blank and should not be, or the other way round."""
        when = Expr(self.when)
        blank = col(self.column).is_null()
        return (when & ~blank) | (~when & blank)

    def check(self, columns: Columns, domain: Domain) -> None:
        """Raise DeclarationError for a column that is never missing, or what is no condition of other columns."""
        require_columns(self, columns)
        bind_condition(self.when, domain)
        if self.column in names_in(self.when):
            raise DeclarationError(f"{self.describe()}: the condition names the column itself; name other columns")
        if not columns[self.column].missing:
            raise DeclarationError(
                f"{self.describe()}: {self.column!r} fills its missing cells, so none is blank; "
                'declare it with missing="keep" or missing="drop"'
            )

    def parts(self) -> Sequence[Rule]:
        """Return itself."""
        return [self]

    def predicates(self) -> Sequence[Node]:
        """Return the comparisons of the condition, and whether the column is missing."""
        return [*predicates_of(self.when), IsNull(Name(self.column))]

    def possible(self, cells: Cells, columns: Columns) -> Any:
        """Return the share of each cell that is blank where the condition holds, and not where it does not."""
        del columns
        if set(self.names) - cells.keys():
            return 1.0
        met = evaluate_condition(self.when, cells)[0]
        return np.where(cells[self.column].missing, met, 1.0 - met)

    structure = possible

    def holds(self, rows: DrawnRows) -> Mask:
        """Return which rows are blank exactly where the condition holds."""
        kept: Mask = self._met(rows) == rows.missing[self.column]
        return kept

    def complete(self, rows: DrawnRows, at: Codes, settled: frozenset[str]) -> None:
        """Make the column blank, or draw a value of it by its own law."""
        del settled
        law = rows.laws[self.column]
        met = self._met(rows)[at]
        rows.missing[self.column][at[met]] = True
        present = at[~met & rows.missing[self.column][at]]
        ends = np.full(len(present), law.first), np.full(len(present), law.last)
        rows.set_steps(self.column, present, law.draw(*ends, rows.rng))
        rows.derive(self.column, at)

    def _met(self, rows: DrawnRows) -> Mask:
        met = evaluate_condition(self.when, rows.cells(names_in(self.when)))[0]
        whether: Mask = np.broadcast_to(met, (rows.count,)) > 0.0
        return whether

    def to_data(self) -> list[Any]:
        """Return the rule as JSON data."""
        return [self.kind, self.column, node_to_data(self.when)]

    @classmethod
    def from_data(cls, data: Sequence[Any]) -> Blank:
        """Return what `to_data` wrote."""
        return cls(data[0], node_from_data(data[1]))


# ---- a list of combinations


@dataclass(frozen=True, slots=True)
class Allowed:
    """The values of `columns` are one of the combinations listed; a row with a missing cell that the list never has is free."""

    columns: tuple[str, ...]
    combinations: tuple[tuple[Any, ...], ...]

    kind: ClassVar[str] = "allowed"
    order: ClassVar[int] = 2
    fixes: ClassVar[None] = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the list."""
        return self.columns

    def describe(self) -> str:
        """Return the rule in words."""
        return f"{', '.join(self.columns)} are one of {len(self.combinations)} combinations"

    def violation(self) -> Expr:
        """Return the rows that are none of the combinations, and miss no cell that none of these misses."""
        last: dict[tuple[Any, ...], list[Any]] = {}
        for *first, value in self.combinations:
            last.setdefault(tuple(first), []).append(value)
        rows = [
            _all_of(
                [*(_has(n, [v]) for n, v in zip(self.columns, first, strict=False)), _has(self.columns[-1], several)]
            )
            for first, several in last.items()
        ]
        columns = zip(self.columns, zip(*self.combinations, strict=True), strict=True)
        never_missing = [name for name, values in columns if None not in values]
        return _all_of([*(~col(n).is_null() for n in never_missing), ~_any_of(rows)])

    def check(self, columns: Columns, domain: Domain) -> None:
        """Raise DeclarationError for values that are not declared, or columns that are held in runs."""
        del domain
        require_columns(self, columns)
        if math.prod(columns[n].size for n in self.columns) >= _FAR:
            raise DeclarationError(f"{self.describe()}: the columns have too many values together; list fewer columns")
        self._keys(columns)

    def parts(self) -> Sequence[Rule]:
        """Return itself."""
        return [self]

    def predicates(self) -> Sequence[Node]:
        """Return nothing: every value counts."""
        return []

    def possible(self, cells: Cells, columns: Columns) -> Any:
        """Return where some combination agrees with the cells."""
        known = [n for n in self.columns if n in cells]
        free: Any = False
        for name, listed in zip(self.columns, self._missing_listed(), strict=True):
            if name in cells and not listed:
                free = free | cells[name].missing
        sizes = [columns[n].size for n in known]
        table = self._keys(columns)[:, [self.columns.index(n) for n in known]]
        keys: Any = 0
        for name, size in zip(known, sizes, strict=True):
            keys = keys * size + cells[name].keys
        return (np.isin(keys, _joined(table, sizes)) | free).astype(np.float64)

    structure = possible

    def holds(self, rows: DrawnRows) -> Mask:
        """Return which rows hold a combination of the list."""
        columns = {n: rows.laws[n].encoded for n in self.columns}
        sizes = [columns[n].size for n in self.columns]
        keys = np.stack([rows.keys(n) for n in self.columns], axis=1)
        kept: Mask = np.isin(_joined(keys, sizes), _joined(self._keys(columns), sizes))
        for name, listed in zip(self.columns, self._missing_listed(), strict=True):
            if not listed:
                kept |= rows.missing[name]
        return kept

    def complete(self, rows: DrawnRows, at: Codes, settled: frozenset[str]) -> None:
        """Give the rows a combination that agrees with them in as many columns as one does, settled ones first."""
        columns = {n: rows.laws[n].encoded for n in self.columns}
        table = self._keys(columns)
        weights = np.ones(len(table))
        for i, name in enumerate(self.columns):
            law = rows.laws[name]
            weights *= np.append(np.maximum(law.weights, 1e-9), 1e-9)[np.minimum(table[:, i], len(law.weights))]
        weights /= weights.max()
        for start in range(0, len(at), max(1, _TOGETHER // len(table))):
            some = at[start : start + max(1, _TOGETHER // len(table))]
            agree = np.zeros((len(some), len(table)), dtype=np.int64)
            for i, name in enumerate(self.columns):
                worth = len(self.columns) + 1 if name in settled else 1
                agree += worth * (rows.keys(name)[some][:, None] == table[None, :, i])
            chosen, _ = _choose(agree == agree.max(axis=1, keepdims=True), weights, rows)
            for i, name in enumerate(self.columns):
                other = rows.keys(name)[some] != table[chosen, i]
                rows.set_keys(name, some[other], table[chosen[other], i])

    def _missing_listed(self) -> list[bool]:
        """Return for each column whether some combination has it missing."""
        return [any(values[i] is None for values in self.combinations) for i in range(len(self.columns))]

    def _keys(self, columns: Columns) -> Codes:
        """Return the keys of each combination; raises DeclarationError for a value that is not declared."""
        places: list[dict[Any, int]] = []
        for name in self.columns:
            if columns[name].edges is not None:
                raise DeclarationError(
                    f"{self.describe()}: {name!r} has too many values for a list; bin it, or declare it as a category"
                )
            places.append({label_of(columns[name], k): k for k in range(columns[name].size)})
        for values in self.combinations:
            for name, value, known in zip(self.columns, values, places, strict=True):
                if value not in known:
                    raise DeclarationError(f"{self.describe()}: {value!r} is not a declared value of {name!r}")
        return np.array([[known[v] for v, known in zip(values, places, strict=True)] for values in self.combinations])

    def to_data(self) -> list[Any]:
        """Return the rule as JSON data."""
        return [self.kind, list(self.columns), [list(v) for v in self.combinations]]

    @classmethod
    def from_data(cls, data: Sequence[Any]) -> Allowed:
        """Return what `to_data` wrote."""
        return cls(tuple(data[0]), tuple(tuple(v) for v in data[1]))


def _joined(keys: Codes, sizes: Sequence[int]) -> Codes:
    """Return one number a row of keys."""
    joined = np.zeros(len(keys), dtype=np.int64)
    for i, size in enumerate(sizes):
        joined = joined * size + keys[:, i]
    return joined


# ---- sums and orders


@dataclass(frozen=True, slots=True)
class Linear:
    """The weighted sum of columns is equal to (=), at most (<=) or below (<) a constant, in each row that has them all."""

    terms: tuple[tuple[str, Fraction], ...]
    op: str
    constant: Fraction
    text: str

    kind: ClassVar[str] = "linear"
    order: ClassVar[int] = 4
    fixes: ClassVar[None] = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the sum."""
        return tuple(name for name, _ in self.terms)

    def describe(self) -> str:
        """Return the rule as it was declared."""
        return self.text

    def violation(self) -> Expr:
        """Return the same comparison turned round, without negative weights."""
        left = [_term(w, n) for n, w in self.terms if w > 0] + [_number(-self.constant)] * (self.constant < 0)
        right = [_term(-w, n) for n, w in self.terms if w < 0] + [_number(self.constant)] * (self.constant > 0)
        turned = {"=": "!=", "<=": ">", "<": ">="}[self.op]
        return parse_condition(f"{' + '.join(left) or 0} {turned} {' + '.join(right) or 0}", self.names)

    def check(self, columns: Columns, domain: Domain) -> None:
        """Raise DeclarationError for columns that are no numbers, or bounds and steps that the rule cannot hold for."""
        del domain
        require_columns(self, columns)
        self._require_kinds([columns[n] for n in self.names])
        weights, constant, steps_fit = self.in_steps(columns)
        if not steps_fit:
            raise DeclarationError(
                f"{self.text}: the columns' resolutions do not fit together: the step of one of them, times its weight, "
                "must divide those of all others and the constant; declare another resolution"
            )
        ends = [
            sorted((w * column_law(columns[n]).first, w * column_law(columns[n]).last))
            for n, w in zip(self.names, weights, strict=True)
        ]
        low, high = sum(e[0] for e in ends), sum(e[1] for e in ends)
        if low > constant or (self.op == "=" and high < constant):
            raise DeclarationError(
                f"{self.text}: the declared bounds allow no such row, so it cannot hold: leave it out"
            )

    def _require_kinds(self, columns: Sequence[EncodedColumn]) -> None:
        kinds = [type(c.column) for c in columns]
        if any(kind in (Category, Boolean) for kind in kinds):
            raise DeclarationError(f"{self.text}: needs numbers, dates or datetimes on both sides")
        for kind in (Date, DateTime):
            weights = [w for (_, w), k in zip(self.terms, kinds, strict=True) if k is kind]
            alone = kind is Date or len(weights) == len(kinds)
            if weights and (sum(weights) != 0 or not alone):
                raise DeclarationError(
                    f"{self.text}: compare dates with dates and datetimes with datetimes; whole numbers of days may be "
                    "added to a date"
                )

    def parts(self) -> Sequence[Rule]:
        """Return itself."""
        return [self]

    def predicates(self) -> Sequence[Node]:
        """Return nothing: every value counts."""
        return []

    def in_steps(self, columns: Columns) -> tuple[list[int], int, bool]:
        """Return whole weights of steps and the constant, in the same order; whether every sum can be met by one column."""
        by_step = [weight * columns[name].unit for name, weight in self.terms]
        scale = math.lcm(*(w.denominator for w in by_step))
        whole = [int(w * scale) for w in by_step]
        divisor = math.gcd(*whole)
        weights = [w // divisor for w in whole]
        constant = self.constant * scale / divisor
        if self.op == "<":
            return weights, math.ceil(constant) - 1, True
        fits = self.op == "<=" or (min(map(abs, weights)) == 1 and constant.denominator == 1)
        return weights, math.floor(constant), fits

    def possible(self, cells: Cells, columns: Columns) -> Any:
        """Return 1 where some row of the cell keeps to the rule, else 0."""
        low, high, missing = self._range(cells, columns)
        constant = self.in_steps(columns)[1]
        can = (low <= constant) & (high >= constant) if self.op == "=" else low <= constant
        return (can | missing).astype(np.float64) if isinstance(can, np.ndarray) else float(can)

    def structure(self, cells: Cells, columns: Columns) -> Any:
        """Return the share of each cell that keeps to the rule, its values spread evenly; a little where few do.

        Of a sum, that is the share in which the last column lies in its run.
        """
        can = self.possible(cells, columns)
        points = _POINTS.get(len(self.terms))
        if points is None or set(self.names) - cells.keys():
            return can
        weights, constant, _ = self.in_steps(columns)
        *firsts, last = list(zip(self.names, weights, strict=True))
        share: Any = 0.0
        for places in itertools.product(range(points), repeat=len(firsts)):
            left: Any = float(constant)
            for (name, weight), place in zip(firsts, places, strict=True):
                cell = cells[name]
                steps = cell.low + np.floor((place + 0.5) / points * (cell.high - cell.low + 1.0))
                left = left - weight * steps
            share = share + _share_of_last(cells[last[0]], last[1], left, self.op)
        share = share / points ** len(firsts)
        missing = self._range(cells, columns)[2]
        return np.where(missing, 1.0, np.where(can > 0, np.maximum(share, 0.1 / points ** len(firsts)), 0.0))

    def _range(self, cells: Cells, columns: Columns) -> tuple[Any, Any, Any]:
        """Return the least and the most sum of each cell, and where a column is missing."""
        low: Any = 0.0
        high: Any = 0.0
        missing: Any = False
        for name, weight in zip(self.names, self.in_steps(columns)[0], strict=True):
            law = column_law(columns[name])
            ends = (cells[name].low, cells[name].high) if name in cells else (float(law.first), float(law.last))
            missing = missing | cells[name].missing if name in cells else missing
            least, most = ends if weight > 0 else ends[::-1]
            low = low + weight * least
            high = high + weight * most
        return low, high, missing

    def rules_out(self, condition: Node, cells: Cells, columns: Columns, present: Collection[str]) -> Any:
        """Return the cells in which no row that keeps to the rule meets a comparison of sums; False where that cannot be told.

        `present` are columns that no row lacks.

        With r.x = c (or at most c), p.x = (p - l r).x + l r.x for any l, so p.x is at most the largest (p - l r).x of the cell
        plus l c: for every l of an equation, for l >= 0 of an order (Farkas). Each l tried takes one column out of the sum.
        """
        form = linear_form(Arithmetic("-", condition.left, condition.right)) if isinstance(condition, Compare) else None
        if not isinstance(condition, Compare) or form is None or len(form[0]) < 2:
            return False
        own = dict(self.terms)
        high: Any = math.inf
        low: Any = -math.inf
        for factor in {Fraction(0), *(w / own[n] for n, w in form[0].items() if n in own)}:
            names = dict.fromkeys([*form[0], *own])
            rest = {n: form[0].get(n, Fraction(0)) - factor * own.get(n, Fraction(0)) for n in names}
            ends = [_ends(columns[n], w, cells.get(n)) for n, w in rest.items() if w]
            base = float(form[1] + factor * self.constant)
            if self.op == "=" or factor >= 0:
                high = np.minimum(high, sum((e[1] for e in ends), base))
            if self.op == "=" or factor <= 0:
                low = np.maximum(low, sum((e[0] for e in ends), base))
        slack = 1e-9 * max(1.0, *(float(abs(w)) * _size(columns[n]) for n, w in form[0].items()))
        never = {
            ">": high <= slack,
            ">=": high < -slack,
            "<": low >= -slack,
            "<=": low > slack,
            "=": (high < -slack) | (low > slack),
            "!=": (high <= slack) & (low >= -slack),
        }[condition.op]
        missing: Any = False
        for name in set(self.names) - set(present):
            missing = missing | (cells[name].missing if name in cells else True)
        return never & ~np.asarray(missing)

    def holds(self, rows: DrawnRows) -> Mask:
        """Return which rows keep to the rule, or lack one of its columns."""
        weights, constant, _ = self.in_steps({n: rows.laws[n].encoded for n in self.names})
        total = np.zeros(rows.count, dtype=np.int64)
        missing = np.zeros(rows.count, dtype=bool)
        for name, weight in zip(self.names, weights, strict=True):
            total += weight * rows.steps[name]
            missing |= rows.missing[name]
        kept: Mask = missing | ((total == constant) if self.op == "=" else (total <= constant))
        return kept

    def complete(self, rows: DrawnRows, at: Codes, settled: frozenset[str]) -> None:
        """Keep each column where that is possible, else draw it within what stays possible; the last one is computed."""
        complete_sums([self], rows, at, settled)

    def narrow(
        self, low: dict[str, Codes], high: dict[str, Codes], weights: Sequence[int], constant: int, at: Mask
    ) -> bool:
        """Narrow, in place, the steps [low, high] that columns may have in the rows `at`; return whether any are fewer."""
        least = [w * (low[n] if w > 0 else high[n]) for n, w in zip(self.names, weights, strict=True)]
        most = [w * (high[n] if w > 0 else low[n]) for n, w in zip(self.names, weights, strict=True)]
        spare = constant - sum(least)
        short = constant - sum(most)
        narrower = False
        for name, weight, lo, hi in zip(self.names, weights, least, most, strict=True):
            # weight * steps is at most `top`, and at least `bottom` where the rule is an equation.
            top = spare + lo
            bottom = short + hi if self.op == "=" else np.full(len(top), -_FAR)
            start, end = (
                (-(-bottom // weight), top // weight) if weight > 0 else (-(top // -weight), -bottom // -weight)
            )
            raised = at & (start > low[name])
            lowered = at & (end < high[name])
            if raised.any():
                low[name] = np.where(raised, start, low[name])
            if lowered.any():
                high[name] = np.where(lowered, end, high[name])
            narrower = narrower or bool(raised.any() or lowered.any())
        return narrower

    def to_data(self) -> list[Any]:
        """Return the rule as JSON data."""
        return [self.kind, [[n, str(w)] for n, w in self.terms], self.op, str(self.constant), self.text]

    @classmethod
    def from_data(cls, data: Sequence[Any]) -> Linear:
        """Return what `to_data` wrote."""
        terms = tuple((str(n), Fraction(w)) for n, w in data[0])
        if data[1] not in ("=", "<=", "<") or not terms or any(w == 0 for _, w in terms):
            raise ValueError("a sum that is none")
        return cls(terms, data[1], Fraction(data[2]), str(data[3]))


def complete_sums(rules: Sequence[Linear], rows: DrawnRows, at: Codes, settled: frozenset[str]) -> None:
    """Change the rows `at` so that they keep to all of some sums and orders, in as few columns as that allows.

    Values stay within the run of steps whose code was drawn if they can, then within the declared bounds; settled columns
    give way last.
    """
    derived = frozenset(rows.derived)
    for fixed, within_runs in ((settled | derived, True), (settled | derived, False), (derived, False)):
        some = rows.take(at)
        at = at[~np.logical_and.reduce([rule.holds(some) for rule in rules])]
        if not len(at):
            return
        _fill(rules, rows, at, fixed, within_runs=within_runs)


def _fill(rules: Sequence[Linear], rows: DrawnRows, at: Codes, fixed: frozenset[str], *, within_runs: bool) -> None:
    """Settle one column after the other, each within the steps that all rules leave it beside those before it.

    Those steps are narrowed by one rule after the other until none has less (bounds propagation).
    """
    sums = [rule.in_steps({n: rows.laws[n].encoded for n in rule.names})[:2] for rule in rules]
    present = {n: ~rows.missing[n][at] for rule in rules for n in rule.names}
    held = [np.logical_and.reduce([present[n] for n in rule.names]) for rule in rules]
    coarsest: dict[str, int] = {}
    for rule, (weights, _) in zip(rules, sums, strict=True):
        for name, weight in zip(rule.names, weights, strict=True):
            coarsest[name] = max(abs(weight), coarsest.get(name, 0))
    # What may be changed comes last; of that the finest weight, and then the column named last, ends the sum.
    names = sorted(coarsest, key=lambda n: (n not in fixed, -coarsest[n]))
    low: dict[str, Codes] = {}
    high: dict[str, Codes] = {}
    for name in names:
        law = rows.laws[name]
        if name in fixed:
            low[name] = high[name] = rows.steps[name][at]
        elif within_runs:
            low[name] = np.maximum(rows.low[name][at], law.first)
            high[name] = np.minimum(rows.high[name][at], law.last)
        else:
            low[name] = np.full(len(at), law.first)
            high[name] = np.full(len(at), law.last)
    steps = {name: rows.steps[name][at] for name in names}
    for name in names:
        for _ in range(_ROUNDS if len(rules) > 1 else 1):
            narrower = [r.narrow(low, high, *s, rows_of) for r, s, rows_of in zip(rules, sums, held, strict=True)]
            if not any(narrower):
                break
        # What cannot be is left out below; its ends only need an order.
        end = np.maximum(low[name], high[name])
        outside = present[name] & ((steps[name] < low[name]) | (steps[name] > end))
        steps[name][outside] = rows.laws[name].draw(low[name][outside], end[outside], rows.rng)
        low[name] = np.where(present[name] & (low[name] <= high[name]), steps[name], low[name])
        high[name] = np.where(present[name] & (low[name] <= high[name]), steps[name], high[name])
    possible = np.logical_and.reduce([~present[n] | (low[n] <= high[n]) for n in names])
    for name in names:
        changed = possible & present[name] & (steps[name] != rows.steps[name][at])
        rows.set_steps(name, at[changed], steps[name][changed])


def _share_of_last(cell: ColumnCells, weight: int, left: Any, op: str) -> Any:
    """Return the share of the steps of a cell, or the chance that they hold the one step, that end a sum."""
    end = left / weight
    width = cell.high - cell.low + 1.0
    if op == "=":
        return ((end >= cell.low) & (end <= cell.high)).astype(np.float64)
    upto = np.clip(np.floor(end) - cell.low + 1.0, 0.0, width) / width
    below = np.clip(np.ceil(end) - cell.low, 0.0, width) / width
    return upto if weight > 0 else 1.0 - below


def _ends(column: EncodedColumn, weight: Fraction, cell: ColumnCells | None) -> tuple[Any, Any]:
    """Return the least and the most of a weighted column in each cell, or within its declared bounds."""
    factor = float(weight * column.unit)
    law = column_law(column)
    low, high = (float(law.first), float(law.last)) if cell is None else (cell.low, cell.high)
    return (low * factor, high * factor) if factor > 0 else (high * factor, low * factor)


def _size(column: EncodedColumn) -> float:
    """Return the largest number of a column."""
    return float(column.unit) * max(abs(column.lowest), abs(column.highest))


def _term(weight: Fraction, name: str) -> str:
    return name if weight == 1 else f"{_number(weight)} * {name}"


def _number(value: Fraction) -> str:
    return format_number(value) if value.denominator == 1 else f"{float(value)!r}"


def linear_form(node: Node) -> tuple[dict[str, Fraction], Fraction] | None:
    """Return the weights of columns and the constant of a sum; None for another expression."""
    if isinstance(node, Name):
        return {node.name: Fraction(1)}, Fraction(0)
    if isinstance(node, Constant):
        if isinstance(node.value, (bool, str, datetime.date)):
            return None
        return {}, Fraction(node.value)
    if not isinstance(node, Arithmetic):
        return None
    left, right = linear_form(node.left), linear_form(node.right)
    if left is None or right is None:
        return None
    if node.op == "*":
        if left[0] and right[0]:
            return None
        (factors, constant), factor = (left, right[1]) if left[0] else (right, left[1])
        return {n: w * factor for n, w in factors.items()}, constant * factor
    sign = 1 if node.op == "+" else -1
    names = dict.fromkeys([*left[0], *right[0]])
    weights = {n: left[0].get(n, Fraction(0)) + sign * right[0].get(n, Fraction(0)) for n in names}
    return weights, left[1] + sign * right[1]


def _linear(op: str, left: Node, right: Node, text: str) -> Linear | None:
    """Return the rule `left op right`, op one of = <= < >= >, None where it is no comparison of sums."""
    if op in (">=", ">"):
        left, right, op = right, left, MIRROR[op]
    form = linear_form(Arithmetic("-", left, right))
    if form is None:
        return None
    # The side that a person states last is what the others make: it comes last.
    order = [*(n for n in names_in(left)), *(n for n in names_in(right))]
    terms = tuple((n, form[0][n]) for n in dict.fromkeys(order) if form[0][n])
    return Linear(terms, op, -form[1], text) if terms else None


def _negate(condition: Node) -> Linear | None:
    """Return the order or the sum that holds where a comparison of sums of two columns or more is not true."""
    if not isinstance(condition, Compare) or len(names_in(condition)) < 2:
        return None
    text = f"never {describe(condition)}"
    otherwise = {"!=": "=", ">": "<=", "<": ">=", ">=": "<", "<=": ">"}
    if condition.op not in otherwise:
        return None
    return _linear(otherwise[condition.op], condition.left, condition.right, text)


# ---- the kinds, by name

RULES: dict[str, Any] = {rule.kind: rule for rule in (Never, Determines, Blank, Allowed, Linear)}


def rule_from_data(data: Sequence[Any]) -> Rule:
    """Return the rule that `to_data` wrote; raises KeyError for a kind that is not known."""
    rule: Rule = RULES[data[0]].from_data(data[1:])
    return rule


def require_columns(rule: Rule, columns: Columns) -> None:
    """Raise DeclarationError where a rule names a column that the synthetic table does not have."""
    for name in rule.names:
        if name not in columns:
            raise DeclarationError(f"{rule.describe()}: {name!r} is not a column of the synthetic table")


def require_rules(rules: Sequence[Rule]) -> Sequence[Rule]:
    """Return the rules; raises DeclarationError for what is none, such as a line of text."""
    several = [rules] if isinstance(rules, str) or not isinstance(rules, Collection) else list(rules)
    for rule in several:
        if type(rule) not in RULES.values():
            shown = repr(rule) if isinstance(rule, str) else f"a {type(rule).__name__}"
            raise DeclarationError(
                f'rules are a list of such as sd.synth.at_most("start", "end"), not {shown}; '
                'sd.synth.read_rule("start <= end", ["start", "end"]) reads a line of text'
            )
    return rules


def expand_rules(rules: Sequence[Rule]) -> list[Rule]:
    """Return the parts of all rules, in the order in which they complete a row."""
    return sorted((part for rule in rules for part in rule.parts()), key=lambda rule: rule.order)


def functional_dependencies(rules: Sequence[Rule], columns: Columns) -> dict[str, tuple[str, Codes]]:
    """Return for each column that follows from others the first of them, and its key for each key of that one."""
    direct = {r.column: (r.of, r.table(columns)) for r in rules if isinstance(r, Determines)}
    dependencies: dict[str, tuple[str, Codes]] = {}
    for name, (parent, table) in direct.items():
        while parent in direct:
            parent, above = direct[parent]
            table = table[above]
        dependencies[name] = (parent, table)
    return dependencies


def laws_of(rules: Sequence[Rule], columns: Columns, dependencies: Dependencies) -> dict[str, ColumnLaw]:
    """Return the laws of the columns that rules name, and of those that they follow from, each value as likely."""
    return {name: column_law(columns[name]) for name in _touched(rules, dependencies)}


def _touched(rules: Sequence[Rule], dependencies: Dependencies) -> Iterator[str]:
    names = [n for rule in rules for n in rule.names]
    yield from dict.fromkeys([*names, *(dependencies[n][0] for n in names if n in dependencies)])


# ---- as people declare them


def _has(name: str, values: Sequence[Any]) -> Expr:
    """Return that a column has one of some values, of which None is a missing one."""
    blank = col(name).is_null()
    present = [v for v in values if v is not None]
    if not present:
        return blank
    listed = ~blank & col(name).is_in(present)
    return listed if len(present) == len(values) else blank | listed


def _any_of(conditions: Sequence[Expr]) -> Expr:
    return _join(operator.or_, conditions)


def _all_of(conditions: Sequence[Expr]) -> Expr:
    return _join(operator.and_, conditions)


def _join(operation: Callable[[Expr, Expr], Expr], conditions: Sequence[Expr]) -> Expr:
    """Return conditions joined as a balanced tree: those of a list of thousands are no thousands of levels deep."""
    if len(conditions) == 1:
        return conditions[0]
    middle = len(conditions) // 2
    return operation(_join(operation, conditions[:middle]), _join(operation, conditions[middle:]))


def never(condition: Expr | str) -> Never:
    """Declare that no row meets `condition`.

    >>> from sordino.ask.queries.expressions.expr import col
    >>> never((col("age") < 15) & (col("married") == "yes")).describe()
    "never age < 15 and married = 'yes'"
    """
    return Never(_condition("never", condition))


def at_most(lower: Expr | str, upper: Expr | str) -> Linear:
    """Declare that `lower`, a column or a sum of columns, is at most `upper` in each row that has them all.

    >>> at_most("start", "end").describe()
    'start <= end'
    """
    return _compare("<=", lower, upper)


def equal(left: Expr | str, right: Expr | str) -> Linear:
    """Declare that two sums of columns, with weights or without, are equal in each row that has all of the columns.

    >>> equal("above + basement", "living").describe()
    'above + basement = living'
    """
    return _compare("=", left, right)


def blank(column: str, *, when: Expr | str) -> Blank:
    """Declare that `column` is missing in exactly the rows that meet `when`.

    >>> blank("income", when="age < 15").describe()
    'blank income when age < 15'
    """
    return Blank(column, _condition("blank", when))


def allowed(combinations: Mapping[str, Sequence[Any]]) -> Allowed:
    """Declare the combinations of values that columns may have, by a public table: its columns, of one length.

    None is a missing cell. A row with a missing cell in a column that the list never has missing is free.

    >>> allowed({"state": ["CA", "NY"], "city": ["Fresno", "Utica"]}).describe()
    'state, city are one of 2 combinations'
    """
    columns = {name: list(values) for name, values in combinations.items()}
    if len(columns) < 2 or len({len(values) for values in columns.values()}) != 1 or not next(iter(columns.values())):
        raise DeclarationError(
            "allowed takes a table of two columns or more, such as {'state': ['CA', 'NY'], 'city': ['Fresno', 'Utica']}: "
            "lists of one length, a row for each combination"
        )
    rows = zip(*([_label(v) for v in values] for values in columns.values()), strict=True)
    return Allowed(tuple(columns), tuple(dict.fromkeys(rows)))


def determines(of: str, column: str, values: Mapping[Any, Any]) -> Determines:
    """Declare that the value of `column` follows from that of `of`, by a public mapping of every label; None is missing."""
    return Determines(of, column, tuple(values.items()))


def _label(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime.date) else value


def _condition(rule: str, condition: Expr | str) -> Node:
    if isinstance(condition, str):
        condition = parse_condition(condition, _PLAIN_NAME.findall(condition))
    if not isinstance(condition, Expr):
        raise DeclarationError(f'{rule} takes a condition, such as col("age") < 0 or "age < 0"')
    return condition.node


def _sum(expression: Expr | str) -> tuple[Node, str]:
    """Return a sum, and how it is written."""
    if isinstance(expression, Expr):
        return expression.node, describe(expression.node)
    if isinstance(expression, str) and not _PLAIN_NAME.fullmatch(expression.strip()):
        try:
            found = parse_condition(f"({expression}) = 0", _PLAIN_NAME.findall(expression)).node
        except QuestionRefused:
            found = Name(expression)
        return (found.left if isinstance(found, Compare) else Name(expression)), expression
    if not isinstance(expression, str):
        raise DeclarationError(
            'a rule of sums takes columns, such as "above + basement" or col("above") + col("basement")'
        )
    return Name(expression.strip()), expression.strip()


def _compare(op: str, left: Expr | str, right: Expr | str) -> Linear:
    sides = [_sum(side) for side in (left, right)]
    text = f"{sides[0][1]} {op} {sides[1][1]}"
    rule = _linear(op, sides[0][0], sides[1][0], text)
    if rule is None:
        raise DeclarationError(
            f"{text}: a rule of sums takes columns, weights and constants, such as above + 2 * basement"
        )
    return rule


def below(lower: Expr | str, upper: Expr | str) -> Linear:
    """Declare that `lower`, a column or a sum of columns, is below `upper` in each row that has them all."""
    return _compare("<", lower, upper)
