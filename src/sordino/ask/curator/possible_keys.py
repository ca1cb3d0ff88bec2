"""Which keys a question may have: the image, under its keys, of the declared cells that its WHERE and its steps allow.

Theorem: the keys follow from the question, the declarations and the rows of public tables alone. They are computed over rows
that hold every combination of declared cells, by the SQL that a private row is read with, so a row of any table whose cells are
as declared has one of them. What depends on other rows narrows nothing: whether a unit has rows elsewhere is taken to be
true and false, and a value of a unit to be any that one of its rows may have, or that is declared.

Where keys are private, the selection is chosen that shows the smallest keys for its share of the loss: by public parameters
alone, no exact count is known here.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sordino.ask.engines.declared_rows import DeclaredRows
from sordino.ask.queries.aggregation import CompiledQuery, Grouping, Possible
from sordino.ask.queries.expressions.compile import bind_condition
from sordino.ask.queries.expressions.keys import Keys, keys
from sordino.ask.queries.expressions.missing import may_be_missing
from sordino.ask.queries.expressions.nodes import Name, Node, conjoin, conjuncts, has_released, plain, walk
from sordino.ask.queries.expressions.sql_trees import whole
from sordino.ask.queries.joins import Join, qualify
from sordino.ask.queries.per_unit import PerUnit, UnitValues
from sordino.ask.queries.possible_cells import MOST_COMBINATIONS, Uses, cell_array, find_uses, label_cells, list_cells
from sordino.ask.queries.row_steps import RowStep, apply_steps, step_domain
from sordino.ask.queries.sequences import UnitSequence
from sordino.core.domain import Category, Domain, Fill, Identifier, Integer
from sordino.core.errors import QuestionRefused

if TYPE_CHECKING:
    import pyarrow as pa
from bisect import bisect_left
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from sordino.core.errors import arg
from sordino.core.loss import ZCDP, ApproxDP, Event, Loss, PureDP, round_up
from sordino.core.mechanisms.partition_selection import MOST_STEPS, PartitionSelection, expected_steps
from sordino.core.mechanisms.threshold import (
    GaussianThreshold,
    LaplaceThreshold,
    TruncatedThreshold,
    gaussian_threshold_for_pair,
)
from sordino.core.mechanisms.weighted_selection import WeightedSelection, weighted_selection_for_pair
from sordino.core.neighbors import Neighbors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sordino.core.noise.rng import Rng


_NOWHERE = Keys((0,), lambda _: whole(0))
_MOST_KNOWN = 64
# values of a unit that one of its rows has
_PICKS = ("min", "max", "mode", "first", "last", "any", "all")


@dataclass(frozen=True, slots=True)
class _Part:
    """Expressions that are about the same columns: some of the keys, by place, conditions and joins."""

    groups: tuple[int, ...]
    conditions: tuple[Node, ...]
    joins: tuple[Join, ...]


class PossibleKeys:
    """The keys that a question over a table may have; `domain` is the table's, `public` holds the rows of public tables.

    What was found is kept in `known`: a question is planned several times on its way to an answer.
    """

    def __init__(self, domain: Domain, public: Mapping[str, pa.Table], cache: dict[str, Possible]) -> None:
        self._domain = domain
        self._public = public
        self._known = cache

    def find(
        self, groups: Sequence[Grouping], declared: Sequence[Keys], where: Node | None, steps: Sequence[RowStep]
    ) -> Possible:
        """Return the codes of the keys that rows may have, of all group-by columns together."""
        key = json.dumps([[plain(group.of) for group in groups], plain(where), [step.plain() for step in steps]])
        # Threads plan at once, and any of them may empty what is known between two looks.
        possible = self._known.get(key)
        if possible is None:
            possible = self._find(groups, declared, where, steps)
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = possible
        return possible

    def _find(
        self, groups: Sequence[Grouping], declared: Sequence[Keys], where: Node | None, steps: Sequence[RowStep]
    ) -> Possible:
        nodes = [group.of for group in groups]
        rows = _Rows(self._domain, steps, self._public)
        sets: list[tuple[tuple[int, ...], list[tuple[int | None, ...]]]] = []
        exact = True
        for part in _split(nodes, rows.restrict(nodes, where), rows.joins):
            codes = rows.image([nodes[i] for i in part.groups], [declared[i] for i in part.groups], part)
            if codes is None:
                exact = exact and not part.groups
                codes = rows.loose_image([nodes[i] for i in part.groups], [declared[i] for i in part.groups], part)
            sets.append((part.groups, codes))
        return _combine(sets, declared, exact=exact)


def _split(nodes: Sequence[Node], where: Node | None, joins: Sequence[Join]) -> list[_Part]:
    """Return the parts of a question that name no column in common: their keys are combined in every way."""
    items: list[tuple[set[str], Any]] = [(_names(node), i) for i, node in enumerate(nodes)]
    # What a released value allows is not known when the keys are: such a condition narrows nothing.
    items += [(_names(node), node) for node in conjuncts(where) if not has_released(node)]
    items += [(_join_names(join), join) for join in joins]
    parts: list[tuple[set[str], list[Any]]] = []
    for names, item in items:
        touching = [part for part in parts if part[0] & names]
        merged = (names.union(*(part[0] for part in touching)), [*itertools.chain(*(p[1] for p in touching)), item])
        parts = [*(part for part in parts if not any(part is t for t in touching)), merged]
    disjoint = []
    for _, members in parts:
        of_keys = tuple(sorted(m for m in members if isinstance(m, int)))
        conditions = tuple(m for m in members if not isinstance(m, (int, Join)))
        disjoint.append(_Part(of_keys, conditions, tuple(j for j in joins if j in members)))
    return disjoint


def _names(node: Node) -> set[str]:
    return {at.name for at in walk(node) if isinstance(at, Name)}


def _join_names(join: Join) -> set[str]:
    """Return the columns that a join looks at and makes."""
    columns = {one for one in join.on if isinstance(one, str)}
    return columns.union(_public_names(join), *(_names(node) for node in join.reading))


def _public_names(join: Join) -> list[str]:
    return [] if join.to is None else [qualify(join.table, name) for name in join.to.columns]


class _Rows:
    """The rows of a question before its keys: which cells each column may hold, and the public tables joined with them."""

    def __init__(self, domain: Domain, steps: Sequence[RowStep], public: Mapping[str, pa.Table]) -> None:
        last = max((i for i, step in enumerate(steps) if isinstance(step, PerUnit)), default=-1)
        self._public = public
        # What rows met before a window looked at them, they meet.
        sequences = [step for step in steps[last + 1 :] if isinstance(step, UnitSequence)]
        self._met = [step.where for step in sequences if step.where is not None]
        knowing = [step for step in steps[last + 1 :] if isinstance(step, (UnitSequence, UnitValues))]
        self._implied = [condition for step in knowing for condition in step.implied_conditions()]
        self._whole = step_domain(domain, steps)
        self.joins = [step for step in steps[last + 1 :] if isinstance(step, Join)]
        joined = {name for join in self.joins for name in _public_names(join)}
        self._base = {name: column for name, column in self._whole.columns.items() if name not in joined}
        self._present = {name for step in steps for name in getattr(step, "always_present", ())}
        self._known: dict[str, list[Any] | None] = {}
        per_unit = steps[last] if last >= 0 else None
        if isinstance(per_unit, PerUnit):
            self._known = _unit_values(per_unit, _Rows(domain, steps[:last], public))

    def restrict(self, nodes: Sequence[Node], where: Node | None) -> Node | None:
        """Join `where` with the implied conditions that may narrow the keys `nodes`."""
        named = {name for node in nodes for name in _names(node)}
        for condition in [*self._met, *(c for c in self._implied if _names(c) <= named)]:
            where = conjoin([condition, where])
        return where

    def image(
        self, nodes: Sequence[Node], declared: Sequence[Keys], part: _Part
    ) -> list[tuple[int | None, ...]] | None:
        """Return the codes of some keys in all rows that conditions and joins allow; None where these are too many to list."""
        if len(nodes) == 1 and not part.conditions and not part.joins and self._is_plain(nodes[0]):
            codes: list[tuple[int | None, ...]] = [(code,) for code in range(len(declared[0].labels))]
            return codes if not may_be_missing(nodes[0], self._whole).columns else [*codes, (None,)]
        joined = {name for join in part.joins for name in _public_names(join)}
        if any(has_released(node) for node in nodes):
            return None
        if any(name not in self._base and name not in joined for node in nodes for name in _names(node)):
            return None
        condition = conjoin(part.conditions)
        read = [*nodes, *part.conditions, *(node for join in part.joins for node in join.reading)]
        cells = self._cells(read, part.joins)
        if cells is None or any(join.table not in self._public for join in part.joins):
            return None
        compiled = CompiledQuery(
            tuple(declared) or (_NOWHERE,),
            None if condition is None else bind_condition(condition, self._whole),
            (),
            (),
            unreadable_rows=False,
        )
        columns = {name: self._base[name] for name in cells if name in self._base}
        rows = DeclaredRows(
            cells,
            domain=Domain(columns or {"sordino_nothing": Integer(0, 0)}),
            public={join.table: self._public[join.table] for join in part.joins},
        )
        try:
            on = apply_steps(rows.primitives, (), self._whole)
            for join in part.joins:
                on = join.apply(on, self._whole)
            codes_of_rows = rows.run(compiled.select(on))
        finally:
            rows.close()
        if codes_of_rows is None:
            return None
        return codes_of_rows if declared else [() for _ in codes_of_rows]

    def loose_image(self, nodes: Sequence[Node], declared: Sequence[Keys], part: _Part) -> list[tuple[int | None, ...]]:
        """Return a superset of the image that needs fewer combinations: by fewer conditions, or of each key by itself."""
        if not nodes:
            return [()]
        conditions = [
            c for c in part.conditions if self.image(nodes, declared, _Part(part.groups, (c,), part.joins)) is not None
        ]
        while conditions:
            codes = self.image(nodes, declared, _Part(part.groups, tuple(conditions), part.joins))
            if codes is not None:
                return codes
            conditions.pop()
        codes = self.image(nodes, declared, _Part(part.groups, (), part.joins)) if part.conditions else None
        if codes is not None:
            return codes
        alone = [self.image([n], [k], _Part((0,), (), ())) for n, k in zip(nodes, declared, strict=True)]
        every = [
            [*((code,) for code in range(len(k.labels))), (None,)] if codes is None else codes
            for k, codes in zip(declared, alone, strict=True)
        ]
        return [tuple(itertools.chain(*row)) for row in itertools.product(*every)]

    def values(self, node: Node, where: Node | None) -> list[Any] | None:
        """Return the labels that an expression may have in a row, None among them where it may be missing; None if unknown."""
        try:
            declared = keys(node, self._whole)
        except QuestionRefused:
            return None
        if declared.private:
            return None
        codes: list[tuple[int | None, ...]] | None = None
        for part in _split([node], self.restrict([node], where), self.joins):
            part_codes = self.image([node][: len(part.groups)], [declared][: len(part.groups)], part)
            if part_codes == []:
                return []
            codes = part_codes if part.groups else codes
        if codes is None:
            return None
        return list(dict.fromkeys(None if code is None else declared.labels[code] for (code,) in codes))

    def _is_plain(self, node: Node) -> bool:
        """Return whether rows may have every declared key of an expression, as is clear without computing them."""
        return isinstance(node, Name) and node.name in self._base and self._known.get(node.name) is None

    def _cells(self, nodes: Iterable[Node], joins: Sequence[Join]) -> dict[str, pa.Array] | None:
        """Return the cells of each column that is named, by which all rows are represented; None where these are too many."""
        import pyarrow as pa

        uses = find_uses(nodes, self._whole)
        join_keys = self._join_keys(joins)
        cells: dict[str, pa.Array] = {}
        size = 1
        for name in dict.fromkeys([*uses, *join_keys]):
            if name not in self._base:
                continue
            column = self._base[name]
            values = self._known.get(name)
            missing = name not in self._present
            if values is not None:
                missing = None in values
                listed: list[Any] | None = [cell for cell in values if cell is not None]
            else:
                listed = list_cells(column, uses.get(name, Uses()), join_keys.get(name, ()))
            if listed is None:
                return None
            size *= len(listed) + missing
            if size > MOST_COMBINATIONS:
                return None
            cells[name] = cell_array(column, listed, missing=missing)
        return cells or {"sordino_nothing": pa.array([0])}

    def _join_keys(self, joins: Sequence[Join]) -> dict[str, list[Any]]:
        """Return the cells of public tables' keys that each column is joined with."""
        join_keys: dict[str, list[Any]] = {}
        for join in joins:
            table = self._public.get(join.table)
            for place, name in enumerate(join.on):
                column = self._base.get(name) if isinstance(name, str) else None
                if not isinstance(name, str) or table is None or column is None:
                    continue
                cells = join_keys.setdefault(name, [])
                if isinstance(column, (Identifier, Integer)) or not isinstance(column, Category):
                    cells += table.column(f"sordino_key_{place}").unique().to_pylist()
        return join_keys


def _unit_values(step: PerUnit, rows: _Rows) -> dict[str, list[Any] | None]:
    """Return the cells that each value of a unit may be, where a unit's rows say so; None where it is as declared."""
    cells: dict[str, list[Any] | None] = {}
    for value in step.values:
        if value.kind in _PICKS and value.of is not None:
            cells[value.alias] = _as_cells(rows.values(value.of, step.where), value.read(rows._whole).column)
    return cells


def _as_cells(labels: list[Any] | None, column: Any) -> list[Any] | None:
    """Return labels as cells of a column: numbers and days in its steps; None where it has none."""
    if labels is None or isinstance(column.missing, Fill):
        return None
    return label_cells(labels, column)


def _combine(
    sets: Sequence[tuple[tuple[int, ...], list[tuple[int | None, ...]]]], declared: Sequence[Keys], *, exact: bool
) -> Possible:
    """Return every combination of the parts' codes; a part without any leaves none."""
    missing = [False] * len(declared)
    code_rows: list[tuple[tuple[int, ...], list[tuple[int, ...]]]] = []
    possible = all(codes for _, codes in sets)
    for places, codes in sets:
        rows: list[tuple[int, ...]] = []
        for row in codes:
            for place, code in zip(places, row, strict=True):
                missing[place] = missing[place] or code is None
            if None not in row:
                rows.append(tuple(int(code) for code in row if code is not None))
        code_rows.append((places, sorted(rows)))
    if not possible:
        code_rows = [(places, []) for places, _ in code_rows]
        missing = [False] * len(declared)
    columns: list[list[int]] = [[] for _ in declared]
    is_product = True
    for places, rows in code_rows:
        for at, place in enumerate(places):
            columns[place] = sorted({row[at] for row in rows})
        is_product = is_product and len(rows) == math.prod(len(columns[place]) for place in places)
    if is_product or math.prod(max(1, len(rows)) for _, rows in code_rows) > MOST_COMBINATIONS:
        return Possible(tuple(map(tuple, columns)), None, tuple(missing), exact=exact)
    whole_rows: list[tuple[int, ...]] = []
    order = [place for places, _ in code_rows for place in places]
    for several in itertools.product(*(rows for places, rows in code_rows if places)):
        code_at = dict(zip(order, itertools.chain(*several), strict=True))
        whole_rows.append(tuple(code_at[place] for place in range(len(declared))))
    return Possible(tuple(map(tuple, columns)), tuple(sorted(whole_rows)), tuple(missing), exact=exact)


# Gaussian tails below it are beyond doubles
_LEAST = Fraction(1, 10**200)
# how many more units a key may need at worst where weights are chosen
_WORSE = Fraction(108, 100)

CountingThreshold = LaplaceThreshold | GaussianThreshold | TruncatedThreshold
KeySelector = CountingThreshold | PartitionSelection


@dataclass(frozen=True, slots=True)
class KeySelection:
    """The selection of private keys by `selector`, of at least `min_units` units.

    Theorem (pre-thresholding): the whole costs what the selector costs. Each key's count n becomes max(0, n - min_units +
    1) before it. Counts of neighbors that differ by 1 at most still do, the same keys or fewer differ, and a key of no
    units stays one: the selector's own theorem holds of the counts that it is given. A noisy count gets min_units - 1 back.
    """

    selector: KeySelector
    min_units: int = 1

    @property
    def event(self) -> Event:
        """What it amounts to."""
        return self.selector.event

    @property
    def threshold(self) -> int | None:
        """The least noisy count of units that shows, None where keys show by chance alone."""
        own = None if isinstance(self.selector, PartitionSelection) else self.selector.threshold
        return None if own is None else own + self.min_units - 1

    def appears(self, count: int) -> float:
        """Return the probability that a key of `count` units shows."""
        return self.selector.appears(max(0, count - self.min_units + 1))

    def release(self, exact: Mapping[Any, int], rng: Rng) -> dict[Any, int | None]:
        """Return the keys that show, in their own order, with noisy counts where the selector has them."""
        less = self.min_units - 1
        if not less:
            return {**self.selector.release(exact, rng)}
        noisy_counts = self.selector.release({key: n - less for key, n in exact.items() if n > less}, rng)
        return {key: None if noisy is None else noisy + less for key, noisy in noisy_counts.items()}

    def units_to_show(self, chance: float) -> int:
        """Return the least number of units with which a private key shows with this chance."""
        return _units_to_show(self, chance)

    def describe(self) -> str:
        """Return in words which keys show."""
        half = self.units_to_show(0.5)
        sure = self.units_to_show(0.95)
        one = self.min_units
        alone = round_up(self.appears(one), digits=2)
        least = "" if one == 1 else f"; none of fewer than {one:,} units"
        return (
            f"keys that {half} units or more have (shown at least half of the time; {sure} units: 95%; {one} "
            f"unit{'s' * (one > 1)}: {alone}){least}; {self.selector.describe()}"
        )

    def note(self) -> str:
        """Return below which size private keys stay hidden, as a release must say."""
        half = self.units_to_show(0.5)
        sure = self.units_to_show(0.95)
        how = (
            "a key shows by chance, the more surely the more units it has"
            if self.threshold is None
            else f"a key shows where its noisy count of units reaches {self.threshold:,}"
        )
        least = "" if self.min_units == 1 else f", and no key of fewer than {self.min_units:,} units shows"
        return (
            f"keys of fewer than about {half:,} units stay hidden: {how} (half of the keys of {half:,} units do, 95% of those "
            f"of {sure:,}){least}"
        )


@lru_cache(maxsize=256)
def _units_to_show(keys: KeySelection, chance: float) -> int:
    """Return `KeySelection.units_to_show`, which a plan and its words need several times."""
    high = 1
    while high < 2**62 and keys.appears(high) < chance:
        high *= 2
    low = high // 2 + 1
    # the chance rises with the number of units
    return low + bisect_left(range(low, high), chance, key=keys.appears)


def choose_key_selection(
    neighbors: Neighbors, loss: Loss, *, share: Fraction, counts: bool, min_units: int, named: str | None = None
) -> tuple[KeySelection | WeightedSelection, Loss]:
    """Choose the selection of private keys for this share of epsilon; returns it with the remaining loss.

    Units of several groups have weights where the question does not count them and, at worst, where every unit has all of
    its groups, a key needs 8% more units at most: where units have fewer, or large keys show in the first round, it needs
    fewer. `named` says weighted or threshold. Raises QuestionRefused where there is no delta, or nothing to weigh.
    """
    best, rest = _choose_by_counts(neighbors, loss, share=share, counts=counts, min_units=min_units)
    if named == "threshold" or (named is None and (counts or min_units > 1 or neighbors.groups < 2)):
        return best, rest
    if min_units > 1:
        raise QuestionRefused(
            "min_units hides keys by how many units they have, but weights do not count units: leave one of the two out"
        )
    if neighbors.id_column is None:
        if named is None:
            return best, rest
        raise QuestionRefused(
            "a weighted selection of keys spreads the weight of a unit over its rows, but here each row is a unit: leave "
            "keys='weighted' out"
        )
    # the one row that per_unit makes of a unit has one key; of rows that a join copies from it, no engine counts the keys
    if not neighbors.capped and neighbors.groups > 1:
        if named is None:
            return best, rest
        raise QuestionRefused(
            "a weighted selection of keys spreads the weight of a unit over its rows, but here a join makes several of the one "
            "row of a unit: leave keys='weighted' out"
        )
    weighted, left = _choose_by_weights(neighbors, loss, share=share)
    if weighted is None or (named is None and weighted.units_to_show(0.5) > _WORSE * best.units_to_show(0.5)):
        if named is None:
            return best, rest
        raise QuestionRefused("a weighted selection of keys needs a delta of 1e-200 or more: leave keys='weighted' out")
    return weighted, left


def _choose_by_weights(neighbors: Neighbors, loss: Loss, *, share: Fraction) -> tuple[WeightedSelection | None, Loss]:
    """Return the weighted selection, and what it leaves of the loss: with others it takes half of delta."""
    moved = 1 if neighbors.relation == "add_remove" else 2
    if isinstance(loss, ZCDP):
        assert loss.slack is not None
        return WeightedSelection(neighbors.groups, moved, loss.rho * share, loss.slack), ZCDP(loss.rho * (1 - share))
    assert isinstance(loss, ApproxDP)
    if loss.delta < _LEAST:
        return None, loss
    part = loss.epsilon * share
    delta = loss.delta if share == 1 else loss.delta / 2
    selection = weighted_selection_for_pair(groups=neighbors.groups, moved=moved, epsilon=part, delta=delta)
    return selection, loss if share == 1 else ApproxDP(loss.epsilon - part, delta)


def _choose_by_counts(
    neighbors: Neighbors, loss: Loss, *, share: Fraction, counts: bool, min_units: int
) -> tuple[KeySelection, Loss]:
    """Return the selection that shows a key with chance 1/2 at the fewest units, for this share of epsilon, and the rest.

    It is the optimal selection for one key, truncated Laplace noise, a Laplace or a Gaussian threshold; where it `counts`,
    which makes an answer of the noisy count, one of those with noise. Raises QuestionRefused where there is no delta.
    """
    new = neighbors.groups
    moved = new * (1 if neighbors.relation == "add_remove" else 2)
    if isinstance(loss, ZCDP) and loss.slack is not None and loss.slack >= _LEAST:
        gaussian = GaussianThreshold(moved, loss.rho * share, loss.slack, new=new)
        return KeySelection(gaussian, min_units), ZCDP(loss.rho * (1 - share))
    if not isinstance(loss, ApproxDP) or loss.delta == 0:
        raise QuestionRefused(
            "the keys of this group-by are private: showing any of them needs a delta, the probability that a key of one unit "
            f"is shown; give {arg('epsilon=')} and {arg('delta=')}, such as {arg('delta=')}1e-6 (under a cap on "
            f"rho with a slack: {arg('rho=')} and {arg('delta=')}), or declare the column as a category with its values"
        )
    part = loss.epsilon * share
    delta = loss.delta
    whole = share == 1
    # A truncated or a Laplace threshold takes all of delta, a Gaussian one leaves half.
    left: Loss = loss if whole else PureDP(loss.epsilon - part)
    offers: list[tuple[KeySelector, Loss]] = [
        (TruncatedThreshold(moved, part, delta), left),
        (LaplaceThreshold(moved, part, delta, new), left),
    ]
    if not counts and expected_steps(part / moved, delta / moved) <= MOST_STEPS:
        offers.insert(0, (PartitionSelection(moved, part, delta), left))
    if delta >= _LEAST:
        spent = delta if whole else delta / 2
        gaussian = gaussian_threshold_for_pair(keys=moved, epsilon=part, delta=spent, new=new)
        offers.append((gaussian, loss if whole else ApproxDP(loss.epsilon - part, delta - spent)))
    selections = [(KeySelection(selector, min_units), rest) for selector, rest in offers]
    return min(selections, key=lambda offer: (offer[0].units_to_show(0.5), offer[0].units_to_show(0.95)))
