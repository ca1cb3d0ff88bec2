"""Names: what a question over joined tables means by each column - the one that bears the name, or a refusal.

It knows declarations only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

from sordino.ask.queries.aggregation import Aggregation
from sordino.ask.queries.bucket_lines import BucketLines
from sordino.ask.queries.expressions.nodes import Compare, Name, Node, conjoin, conjuncts, describe, has_released
from sordino.ask.queries.joins import (
    Join,
    PublicValues,
    Unnest,
    computed_cell,
    find_match,
    join_cell,
    no_values,
    public_table,
    qualify,
)
from sordino.ask.queries.per_unit import PerUnit, UnitValues, bind_values, clip_unit_values
from sordino.ask.queries.query import replace_names
from sordino.ask.queries.row_steps import Fold, RowStep, check_fold, step_domain, step_neighbors
from sordino.ask.queries.same_people import UnitJoin, UnitMark, UnitMatch, again, bind_unit_join, find_shared, seen_from
from sordino.ask.queries.sequences import UnitSequence
from sordino.core.domain import Boolean, Domain, refused_list
from sordino.core.errors import QuestionRefused, UnknownName, hint_quotes, nearest
from sordino.core.neighbors import Neighbors, PrivacyUnit
from sordino.core.source import PrivateTable, PublicTable

_MOST_JOINS = 8
_JOINS = (Join, UnitJoin)
_NO_TABLES: Mapping[str, PrivateTable] = MappingProxyType({})
_ROWS = Neighbors("add_remove", None)
_KINDS = {"text": "text", "whole": "whole numbers", "day": "days", "truth": "true or false"}


def bind_names(
    question: Aggregation,
    *,
    public: Mapping[str, PublicTable],
    table: str,
    domain: Domain,
    names: Literal["written", "resolved"],
    private: Mapping[str, PrivateTable] = _NO_TABLES,
    neighbors: Neighbors = _ROWS,
    values: PublicValues = no_values,
    declared: Mapping[str, Any] = MappingProxyType({}),
) -> Aggregation:
    """Bind a question's tables and unit, and resolve its names: regions.size, or age of the table.

    Names as "written" in Python may mean a column of any table, if only one has it; in SQL they are "resolved": without
    a table they are the private table's own. `private` are other private tables, `neighbors` those
    of the table; `values` gives the rows of public tables, `declared` is what is declared of the table.

    Raises UnknownName for a table or a name that is not there, QuestionRefused for keys that cannot
    be compared and names that could mean two columns.
    """
    if sum(isinstance(s, _JOINS) for s in question.steps) > _MOST_JOINS:
        raise QuestionRefused(f"a question may join {_MOST_JOINS} tables, not more")
    steps: list[RowStep] = []
    unit = neighbors.unit
    own = PrivateTable(domain, neighbors, declared)
    # the rows that the next joins are with, and how many steps beside them there have been since
    rows = domain
    joins = 0
    meant = _Names(table, rows, (), unit, written=names == "written")
    # of windows' values, which are named by what they are of
    renamed: dict[str, str] = {}
    for step in question.steps:
        if isinstance(step, PerUnit):
            steps.append(_bind_unit(replace_names(step, meant.node), unit, steps))
        elif isinstance(step, UnitSequence):
            sequence = replace_names(step, meant.node).bind(unit, steps)
            renamed |= {old.alias: new.alias for old, new in zip(step.values, sequence.values, strict=True)}
            steps.append(sequence)
        elif isinstance(step, UnitValues):
            steps.append(_bind_values(step, meant, private, table, own))
        elif isinstance(step, UnitMark):
            steps.append(_bind_mark(step, public, private, table, own, values))
        elif isinstance(step, UnitMatch):
            steps.append(replace(step, beside=replace_names(step.beside, partial(_name_beside, step, meant))))
            rows = Domain({**rows.stored, step.column: Boolean()}, row_ceiling=rows.row_ceiling, steps=rows.steps)
        elif isinstance(step, Unnest):
            if any(isinstance(s, UnitSequence) for s in steps):
                # Lists do not order rows, so rows that differ in them alone are not told apart.
                raise QuestionRefused(
                    "items of lists are taken before a window over their rows: UNNEST in the inner SELECT"
                )
            steps.append(step.bind(rows))
            rows = step.bind(rows).domain(rows)
        elif isinstance(step, Join) and step.table.lower() in {name.lower() for name in public}:
            before = [s for s in steps[len(steps) - joins :] if isinstance(s, _JOINS)]

            def mean(join: Join, rows: Domain = rows, before: Sequence[Join | UnitJoin] = before) -> _Names:
                return _Names(table, rows, [*before, join], unit, written=names == "written")

            steps.append(_find_table(step, public, step_domain(domain, steps), table, meant, mean, values))
        elif isinstance(step, Fold):
            steps.append(check_fold(step))
        elif isinstance(step, BucketLines):
            steps.append(replace_names(step, meant.node))
        elif isinstance(step, _JOINS):
            steps.append(_find_private(step, public, private, table, own))
        if isinstance(step, (PerUnit, UnitSequence, UnitValues, UnitMark, BucketLines)):
            # It makes rows of its own, and what follows joins these.
            rows = step_domain(domain, steps)
            joins = 0
        else:
            joins += 1
        joined = [s for s in steps[len(steps) - joins :] if isinstance(s, _JOINS)]
        meant = _Names(table, rows, joined, unit, written=names == "written")
        meant.rename(renamed)
        for join in joined:
            meant.free(join)
    _check_joins([s for s in steps if isinstance(s, _JOINS)], step_domain(domain, steps))
    bound = replace(question.replace_columns(meant.node), steps=tuple(steps))
    last = max((place for place, step in enumerate(steps) if isinstance(step, PerUnit)), default=0)
    for place, step in enumerate(steps):
        if isinstance(step, (PerUnit, UnitSequence, UnitValues)) and place >= last and unit is not None:
            copies = step_neighbors(neighbors, steps[:place]).copies
            bound = clip_unit_values(bound, step, step_domain(domain, steps[:place]), unit.total_rows * copies)
    return bound


def _name_beside(step: UnitMatch, meant: _Names, name: str) -> Name:
    """Resolve a name in a condition on two rows of a person: a column of either."""
    return Name(name) if name.startswith(step.there("")) else meant.node(name)


def _bind_unit(step: PerUnit, unit: PrivacyUnit | None, before: Sequence[RowStep]) -> PerUnit:
    """Return the step with its unit; raises QuestionRefused where a row of it would not be all rows of one unit."""
    if unit is None or unit.column is None:
        what = "each row is a unit of its own" if unit is None else "no column names each row's unit"
        raise QuestionRefused(
            f"one value per person needs a privacy unit with a column, but here {what}: ask about the rows themselves, "
            "such as the mean of a column, or declare PrivacyUnit(column, max_rows=...)"
        )
    if any(isinstance(s, PerUnit) for s in before):
        raise QuestionRefused(
            f"the rows are one for each {unit.column} already: ask for one value per person only once"
        )
    if step.unit is not None and step.unit != unit.column:
        raise QuestionRefused(
            f"a sub-query is grouped by the privacy unit's column {unit.column!r}, so that each of its rows is one "
            f"{unit.people}, not by {step.unit!r}: for groups of rows ask the outer SELECT with GROUP BY {step.unit}"
        )
    # Limits are found anew: a question that came from elsewhere states none.
    return replace(step, unit=unit.column, limits=())


def _bind_values(
    step: UnitValues, meant: _Names, private: Mapping[str, PrivateTable], table: str, own: PrivateTable
) -> UnitValues:
    """Bind values of a unit: their table, and all names in them."""
    name = find_shared(step.table, private, table, own)
    to = own if name is None else private[name]
    unit = to.neighbors.id_column
    if unit is not None and step.values.unit not in (None, unit):
        raise QuestionRefused(
            f"what stands beside a row of another query over {to.neighbors.people} rows is of the same {to.neighbors.people}: by "
            f"{step.values.unit!r}, one person's rows would meet those of many others. Compare or join by the privacy unit "
            f"{unit!r}; values of a {step.values.unit} are asked with GROUP BY {step.values.unit}"
        )
    inner = Aggregation(where=step.having, groups=(), aggregates=(), steps=step.steps)
    bound = bind_names(
        inner,
        public={},
        table=name or table,
        domain=to.domain,
        names="resolved",
        private={},
        neighbors=to.neighbors,
    )
    here = replace(step, table=table if name is None else name, on=meant(step.on))
    return bind_values(here, bound.steps, bound.where, name, to, own.neighbors.id_column)


def _bind_mark(
    step: UnitMark,
    public: Mapping[str, PublicTable],
    private: Mapping[str, PrivateTable],
    table: str,
    own: PrivateTable,
    values: PublicValues,
) -> UnitMark:
    """Return the mark of a unit's rows with the steps that make them bound, and all names in them."""
    if not step.steps:
        return step
    to = step.to or own
    bound = bind_names(
        Aggregation(where=step.matching, groups=(), aggregates=(), steps=step.steps),
        public=public,
        table=step.table,
        domain=to.domain,
        names="resolved",
        private=private if step.to is None else seen_from(step.table, private, table, own),
        neighbors=to.neighbors,
        values=values,
        declared=to.declaration,
    )
    return replace(step, steps=bound.steps, matching=bound.where)


def _check_joins(joins: Sequence[Join | UnitJoin], domain: Domain) -> None:
    """Raise QuestionRefused for a table that is joined twice, or for more rows than sums are proved for."""
    if len({j.table for j in joins}) != len(joins):
        raise QuestionRefused("a table is joined twice in one question: join it once")
    if joins and domain.row_ceiling > 2**48:
        raise QuestionRefused(
            "these joins could make more than 2^48 rows: declare the table's row_ceiling, a public bound on its rows"
        )


def _find_private(
    join: Join | UnitJoin,
    public: Mapping[str, PublicTable],
    private: Mapping[str, PrivateTable],
    table: str,
    own: PrivateTable,
) -> UnitJoin:
    """Bind a join with another private table; one that was bound before takes its declaration anew."""
    if isinstance(join, UnitJoin):
        join = Join(join.table, (), join.how)
    if join.table.lower() not in {table.lower(), again(table).lower(), *(p.lower() for p in private)}:
        hint = nearest(join.table, [*public, *private])
        raise UnknownName(f"{join.table!r} is not declared as a table that can be joined; {hint}")
    return bind_unit_join(join, private, table, own)


def _find_table(
    join: Join,
    public: Mapping[str, PublicTable],
    domain: Domain,
    table: str,
    before: _Names,
    after: Callable[[Join], _Names],
    values: PublicValues,
) -> Join:
    """Bind a join with its public table: by its key, where the question compares that, else by its rows.

    `before` says what names of the rows before mean, and `after` those of both sides.
    """
    name = {name.lower(): name for name in public}[join.table.lower()]
    to = public[name]
    own = [
        one.removeprefix(f"{table}.") if isinstance(one, str) else replace_names(one, before.node) for one in join.on
    ]
    meant = after(Join(name, (), join.how, to=to)).node
    condition = None if join.condition is None else replace_names(join.condition, meant)
    if any(has_released(node) for node in (condition, *own) if not isinstance(node, str)):
        raise QuestionRefused(f"{name} is joined by public facts and the row itself: compare released values in WHERE")
    if join.key is not None and len(own) >= len(to.keys) and set(to.keys) < set(join.key):
        own, more = _split_key(name, own, join.key, to)
        join = replace(join, key=to.keys)
        condition = conjoin([*conjuncts(condition), *more])
    if condition is not None and (join.key is None or set(join.key) != set(to.keys)):
        pairs = [Compare("=", Name(qualify(name, k)), _node(o)) for o, k in zip(own, join.key or (), strict=True)]
        condition = conjoin([*pairs, *conjuncts(condition)])
        assert condition is not None
        matched = find_match(condition, name, to, domain, values)
        return Join(name, (), join.how, None, to, condition, matched)
    if not own:
        raise QuestionRefused(f'a public table is joined by columns: join({name!r}, on="...")')
    for column in own:
        if isinstance(column, str) and column not in domain:
            raise UnknownName(f"join by a column of {table}, not {column!r}; {nearest(column, domain)}")
    on = _order_by_key(name, own, join.key, to)
    for column, key in zip(on, to.keys, strict=True):
        one = (join_cell(column, domain[column]) if isinstance(column, str) else computed_cell(column, domain))[0]
        other = join_cell(key, to.columns[key])[0]
        if one != other:
            raise QuestionRefused(
                f"{_show(column)} holds {_KINDS[one]} and the key {name}.{key} {_KINDS[other]}: declare both alike to join them"
            )
    if condition is not None and join.how == "left" and to.max_rows > 1:
        raise QuestionRefused(
            f"LEFT JOIN with conditions beside the key of {name} is supported where a key has one row: of several some may meet "
            "the condition. JOIN it, or filter in WHERE"
        )
    return Join(name, on, join.how, to.keys, to, condition)


def _split_key(
    name: str, own: Sequence[str | Node], key: Sequence[str], to: PublicTable
) -> tuple[list[str | Node], list[Node]]:
    """Return the expressions compared with the declared key, in its order, and the conditions on other columns."""
    compared = [own[key.index(column)] for column in to.keys]
    first = {key.index(column) for column in to.keys}
    more = [
        Compare("=", Name(qualify(name, column)), _node(one))
        for place, (one, column) in enumerate(zip(own, key, strict=True))
        if place not in first
    ]
    return compared, list(more)


def _node(one: str | Node) -> Node:
    return Name(one) if isinstance(one, str) else one


def _show(one: str | Node) -> str:
    return repr(one) if isinstance(one, str) else describe(one)


def _order_by_key(
    name: str, on: Sequence[str | Node], key: Sequence[str] | None, to: PublicTable
) -> tuple[str | Node, ...]:
    """Return the compared expressions in the order of the declared key, matched by name unless they are paired."""
    named = [one for one in on if isinstance(one, str)]
    paired = key if key is not None else named if set(on) == set(to.keys) else to.keys
    if len(on) != len(to.keys) or set(paired) != set(to.keys):
        words = " and ".join(map(repr, to.keys))
        raise QuestionRefused(
            f"{name} is joined by its declared key {words}, not by {' and '.join(map(_show, key or on))}"
        )
    own = dict(zip(paired, on, strict=True))
    return tuple(own[column] for column in to.keys)


def _columns(join: Join | UnitJoin) -> Domain:
    return join.to.domain if isinstance(join, UnitJoin) else public_table(join).columns


def _equal_columns(join: Join | UnitJoin, unit: PrivacyUnit | None) -> dict[str, str]:
    """Return the columns of the joined table that equal one of the table's, which they map to."""
    if isinstance(join, Join):
        # A computed key is no column of the rows.
        paired = zip(public_table(join).keys, join.on, strict=False)
        return {key: one for key, one in paired if isinstance(one, str)}
    theirs = join.to.neighbors.unit
    if theirs is None or unit is None or theirs.column is None or unit.column is None:
        return {}
    return {theirs.column: unit.column}


class _Names:
    """What a name in a question over joined tables means: the one column that bears it."""

    def __init__(
        self,
        table: str,
        domain: Domain,
        joins: Sequence[Join | UnitJoin],
        unit: PrivacyUnit | None,
        *,
        written: bool,
    ) -> None:
        self._domain = domain
        self._meant = {f"{table}.{c}": c for c in domain} | {c: c for c in domain}
        self._several: dict[str, list[str]] = {}
        for join in joins:
            equal = _equal_columns(join, unit)
            for column in _columns(join):
                whole = qualify(join.table, column)
                same = isinstance(join, UnitJoin) and join.how == "inner"
                self._meant.setdefault(whole, equal.get(column, whole) if same else whole)
                if column in domain and equal.get(column) == column:
                    # equal on both sides, so its name means the table's own
                    continue
                self._several.setdefault(column, [f"{table}.{column}"] if column in domain else []).append(whole)
        if not written:
            self._several.clear()
        for column, several in self._several.items():
            if len(several) == 1:
                self._meant[column] = self._meant[several[0]]

    def rename(self, columns: Mapping[str, str]) -> None:
        """Let other names mean columns too."""
        self._meant |= {old: new for old, new in columns.items() if new in self._meant}

    def free(self, join: Join | UnitJoin) -> None:
        """Raise QuestionRefused where a joined column would bear the name of one of the table's own."""
        for column in _columns(join):
            if qualify(join.table, column).lower() in {c.lower() for c in self._domain}:
                raise QuestionRefused(f"column {qualify(join.table, column)!r} is in the table already: rename one")

    def __call__(self, name: str) -> str:
        if len(self._several.get(name, ())) > 1:
            raise QuestionRefused(
                f"{name!r} could be any of {', '.join(self._several[name])}: write which one you mean"
            )
        if name in self._domain.lists:
            raise QuestionRefused(refused_list(name))
        if name not in self._meant:
            hint = nearest(name, self._meant) + hint_quotes(name, self._meant)
            raise UnknownName(f"column {name!r} is not declared, so it cannot be asked about; {hint}")
        return self._meant[name]

    def node(self, name: str) -> Name:
        """Return the column that a name means, as an expression."""
        return Name(self(name))
