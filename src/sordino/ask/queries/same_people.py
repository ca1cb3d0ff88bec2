"""Tables of the same people: joins of two private tables by their privacy unit, and conditions on a unit's rows elsewhere.

A neighbor of a project exchanges, adds or removes one unit's rows in all of its tables at once.

Theorem (join). Let each row of the table meet those rows of the other that have its unit, and let the other table's rows be
bounded first: at most D of a unit, chosen by the unit's own rows there. Every joined row has one unit, and a unit's joined
rows are a function of its own rows in the two tables: no other unit's rows are looked at, neither by the bound nor by the
equality of units. The question then keeps at most C D joined rows of each unit, where C bounds the rows of the table, or as
many as it states itself, again by the unit's own joined rows alone. So an added or removed unit puts in or takes out its own
joined rows and no others, at most C D; a replaced one takes out at most C D and puts in as many (LEFT JOIN keeps a row
without a match once, and C <= C D). Hence all sensitivities of the joined rows are those of a table whose units have C D
rows (stability; McSherry 2009, section 2.3; joins by the unit as in Wilson et al. 2020, section 3.2). By anything but the
unit, one person's rows could meet those of any number of others, so that no bound holds whatever the rows: such joins are
refused. Bounding the other table before the join also keeps the joined rows within D times those of the table: no unit can
make a question fail by having many rows in both.

Theorem (exists). Whether a unit has rows in a table that meet a condition is a function of the unit's own rows there. A
true or false column of it adds no rows and changes those of no other unit: all sensitivities stay. No cap is needed, so
none distorts it. So it is where these rows are made by steps of their own, such as one row a unit, a window, a join by the unit
or a condition on a third table: each makes a unit's rows of that unit's rows alone.

Theorem (match). Let each row have a true or false column: whether one of its unit's rows in the other table, bounded first as
in a join, meets a condition on both. The column is a function of the row and of the bag of its unit's rows there, so it adds no
rows and changes those of no other unit: all sensitivities stay. The cap is needed for the work alone: a row meets at most D
others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Literal

from sordino.ask.queries.aggregation import Aggregation
from sordino.ask.queries.expressions.compile import bind_condition
from sordino.ask.queries.expressions.nodes import (
    Compare,
    Exists,
    Name,
    Node,
    conjoin,
    conjuncts,
    depth,
    describe,
    plain,
    walk,
)
from sordino.ask.queries.joins import Join, qualify
from sordino.ask.queries.per_unit import PerUnit
from sordino.ask.queries.post_processing import PostProcessing, rename
from sordino.ask.queries.row_steps import RowStep, apply_steps, step_domain
from sordino.core.domain import Boolean, Column, Domain, List, keep_missing
from sordino.core.errors import QuestionRefused, UnknownName, nearest
from sordino.core.neighbors import Neighbors
from sordino.core.primitives import Primitives
from sordino.core.source import PrivateTable, PublicTable


@dataclass(frozen=True, slots=True)
class UnitJoin:
    """A join of private table `table` by the unit: a row step. "inner" drops rows of units that it does not have.

    A unit has as many joined rows as the product of the bounds of both tables; a question may bound them tighter.
    """

    table: str
    how: Literal["inner", "left"]
    to: PrivateTable
    # whether these are rows of the question's own table once more
    is_own: bool = False

    @property
    def reads(self) -> dict[str, PrivateTable]:
        """The other private tables that it reads."""
        return {} if self.is_own else {self.table: self.to}

    @property
    def notes(self) -> tuple[str, ...]:
        """Which joined rows take no part, in words."""
        most = self.to.neighbors.contributions
        people = self.to.neighbors.people
        return (f"of {self.table}, at most {most:,} {'row' if most == 1 else 'rows'} of one {people} are joined",)

    def domain(self, domain: Domain) -> Domain:
        """Return the domain of the joined rows: the columns before, and those of the other table as table.column."""
        columns: dict[str, Column | List] = dict(domain.stored)
        # Rows without a match are kept by the question, so their missing cells are a group of their own.
        columns.update(
            {
                qualify(self.table, name): keep_missing(column) if self.how == "left" else column
                for name, column in self.to.domain.columns.items()
            }
        )
        ceiling = domain.row_ceiling * self.to.neighbors.contributions
        return Domain(columns, row_ceiling=ceiling, unreadable_rows=domain.unreadable_rows or self.how != "left")

    def neighbors(self, neighbors: Neighbors) -> Neighbors:
        """Return the relation of the joined rows: each row of a unit may have become several."""
        return replace(neighbors, copies=neighbors.copies * self.to.neighbors.contributions)

    def apply(self, on: Primitives, domain: Domain) -> Primitives:
        """Add the join to an engine's primitives."""
        del domain
        on.join_unit(self.table, left=self.how == "left", own=self.is_own)
        return on

    def describe(self) -> str:
        """Return the join in words."""
        unmatched = ", rows without a match kept" if self.how == "left" else ""
        return f"joined with {self.table} by the privacy unit{unmatched}"

    def plain(self) -> Any:
        """Return the join as canonical JSON data."""
        return ["unit", self.table, self.how, self.to.declaration]


@dataclass(frozen=True, slots=True)
class UnitMatch:
    """A column that says whether the row's unit has rows in `table` that meet `beside`, a condition on both rows. A row step.

    `to` is None where that is the question's own table, whose declaration is `own`. `column` is the column's name: what it says.
    """

    table: str
    beside: Node
    to: PrivateTable | None
    own: PrivateTable
    column: str

    @property
    def always_present(self) -> tuple[str, ...]:
        """The columns that are never missing: a unit has such rows, or has none."""
        return (self.column,)

    @property
    def reads(self) -> dict[str, PrivateTable]:
        """The other private tables that it reads."""
        return {} if self.to is None else {self.table: self.to}

    @property
    def notes(self) -> tuple[str, ...]:
        """How many rows of a person it looks at, in words."""
        neighbors = self._table.neighbors
        most = neighbors.contributions
        rows = "row" if most == 1 else "rows"
        return (f"of {self.table}, at most {most:,} {rows} of one {neighbors.people} are compared with a row",)

    @property
    def _table(self) -> PrivateTable:
        return self.own if self.to is None else self.to

    def there(self, column: str) -> str:
        """Return the name of a column of the rows that a row is compared with."""
        return f"{self.column}.{column}"

    def domain(self, domain: Domain) -> Domain:
        """Return the domain with the column."""
        bind_condition(self.beside, self._beside(domain))
        columns: dict[str, Column | List] = {**domain.stored, self.column: Boolean()}
        return Domain(columns, row_ceiling=domain.row_ceiling, unreadable_rows=domain.unreadable_rows)

    def neighbors(self, neighbors: Neighbors) -> Neighbors:
        """Return the relation as it is: no row comes or goes."""
        return neighbors

    def apply(self, on: Primitives, domain: Domain) -> Primitives:
        """Add the column to an engine's primitives."""
        condition = bind_condition(self.beside, self._beside(domain))
        on.mark_matches(self.column, None if self.to is None else self.table, condition, name=self.column)
        return on

    def _beside(self, domain: Domain) -> Domain:
        theirs = {self.there(name): keep_missing(column) for name, column in self._table.domain.columns.items()}
        return Domain({**domain.stored, **theirs}, row_ceiling=domain.row_ceiling, steps=domain.steps)

    def describe(self) -> str:
        """Return the step in words."""
        return f"with {self.column}"

    def plain(self) -> Any:
        """Return the step as canonical JSON data."""
        return ["match", self.table, plain(self.beside), None if self.to is None else self.to.declaration]


@dataclass(frozen=True, slots=True)
class UnitMark:
    """A column that says whether the row's unit has rows in `table` that meet `matching`. A row step.

    `steps` make these rows of the table's. `to` is None where that is the question's own table. `column` is the column's name:
    what it says.
    """

    table: str
    matching: Node | None
    to: PrivateTable | None
    own: Domain
    column: str
    steps: tuple[RowStep, ...] = ()

    @property
    def always_present(self) -> tuple[str, ...]:
        """The columns that are never missing: a unit has such rows, or has none."""
        return (self.column,)

    @property
    def reads(self) -> dict[str, PrivateTable]:
        """The other private tables that it reads."""
        tables = {} if self.to is None else {self.table: self.to}
        for step in self.steps:
            tables = {**getattr(step, "reads", {}), **tables}
        return tables

    @property
    def notes(self) -> tuple[str, ...]:
        """Which rows its own steps leave out, in words."""
        return tuple(note for step in self.steps for note in getattr(step, "notes", ()))

    def domain(self, domain: Domain) -> Domain:
        """Return the domain with the column."""
        others = step_domain(self._table(), self.steps)
        if self.matching is not None:
            bind_condition(self.matching, others)
        columns: dict[str, Column | List] = {**domain.stored, self.column: Boolean()}
        return Domain(columns, row_ceiling=domain.row_ceiling, unreadable_rows=domain.unreadable_rows)

    def neighbors(self, neighbors: Neighbors) -> Neighbors:
        """Return the relation as it is: no row comes or goes."""
        return neighbors

    def apply(self, on: Primitives, domain: Domain) -> Primitives:
        """Add the column to an engine's primitives."""
        del domain
        others = step_domain(self._table(), self.steps)
        rows = apply_steps(on.other_rows(None if self.to is None else self.table), self.steps, self._table())
        condition = None if self.matching is None else bind_condition(self.matching, others)(rows)
        on.mark_units(self.column, rows, condition)
        return on

    def _table(self) -> Domain:
        return self.own if self.to is None else self.to.domain

    def describe(self) -> str:
        """Return the step in words."""
        return f"with {self.column}"

    def plain(self) -> Any:
        """Return the step as canonical JSON data."""
        data = ["exists", self.table, plain(self.matching), None if self.to is None else self.to.declaration]
        return [*data, [step.plain() for step in self.steps]] if self.steps else data


def seen_from(
    name: str, private: Mapping[str, PrivateTable], table: str, own: PrivateTable
) -> Mapping[str, PrivateTable]:
    """Return the other private tables as seen from table `name`, given those seen from `table`, which then joins them."""
    return {other: to for other, to in {**private, table: own}.items() if other != name}


def _refuse_unshared(table: str, neighbors: Neighbors, other: str, to: PrivateTable) -> None:
    """Raise QuestionRefused unless two private tables are of the same people, under one budget and one relation."""
    both = f"{table} and {other} are private tables, which can be joined only by their privacy unit"
    nearest = 'declare privacy_unit = {column = "...", of = "person", max_rows = ...} in both, where they hold the same people'
    if neighbors.id_column is None or to.neighbors.id_column is None:
        rows = table if neighbors.id_column is None else other
        raise QuestionRefused(f"{both}, and no column of {rows} says whose its rows are: {nearest}")
    if neighbors.people != to.neighbors.people:
        units = f"{table} holds rows of one {neighbors.people}, {other} of one {to.neighbors.people}"
        raise QuestionRefused(f"{both}, and {units}: {nearest}")
    if neighbors.relation != to.neighbors.relation:
        raise QuestionRefused(f"{both}, and their neighbors differ, {neighbors.relation} and {to.neighbors.relation}")
    if not to.shares_budget:
        raise QuestionRefused(
            f"{both}, and they draw on different budgets: a question about people in both is charged once, to the budget "
            "of these people; let both tables draw on one budget"
        )
    if to.apart:
        raise QuestionRefused(f"{both}, and {other} lies elsewhere: {to.apart}")


def again(table: str) -> str:
    """Return the name of the second instance of a table that is joined with itself."""
    return f"{table} (again)"


def bind_unit_join(join: Join, private: Mapping[str, PrivateTable], table: str, own: PrivateTable) -> UnitJoin:
    """Return the join with a private table of the same people; raises QuestionRefused where there is none by the unit."""
    if join.table.lower() == table.lower():
        raise QuestionRefused(
            f"{table} is not joined with itself here, as its columns would have two meanings: for what its units have elsewhere "
            f"in it write sd.exists({table!r}, condition); in SQL join it under two names"
        )
    is_own = join.table == again(table)
    name = find_shared(table if is_own else join.table, private, table, own) or table
    to = own if is_own else private[name]
    ours = _unit_column(own)
    theirs = _unit_column(to)
    rest = ", and all else in WHERE" if len(join.on) > 1 else ""
    columns = tuple(one.removeprefix(f"{table}.") if isinstance(one, str) else one for one in join.on)
    if columns not in ((), (ours,)) or join.key not in (None, (theirs,)):
        raise QuestionRefused(
            f"{table} and {name} are private tables, which can be joined only by their privacy unit: by other columns, one "
            f"person's rows could match those of many others. Write ON {table}.{ours} = {name}.{theirs}{rest}"
        )
    return UnitJoin(join.table if is_own else name, join.how, to, is_own)


def mark_units(
    question: Aggregation, private: Mapping[str, PrivateTable], table: str, own: PrivateTable
) -> Aggregation:
    """Replace each `exists` in a question's expressions by the column of a step."""
    pending: list[UnitMark | UnitMatch] = []

    def mark(node: Exists) -> Name:
        name = find_shared(node.table, private, table, own)
        to = None if name is None else private[name]
        ours = _unit_column(own)
        theirs = _unit_column(to or own)
        if node.on not in (None, (ours, theirs), (ours, "")):
            raise QuestionRefused(
                f"a sub-query over a private table asks about the same people: compare {table}.{ours} with "
                f"{name or table}.{theirs}, their privacy unit, not {node.on[0]} with {node.on[1]}"
            )
        if node.beside is not None:
            matched = _match(node, name, to, table, own)
            pending.append(matched)
            return Name(matched.column)
        words = describe(replace(node, table=name or table, on=None))
        inner = Aggregation(node.matching, (), (), steps=node.steps)
        if any(isinstance(at, Exists) for at in walk(node.matching)) or node.steps:
            # What a unit has in a third table is a fact of the unit too.
            others = private if name is None else seen_from(name, private, table, own)
            inner = mark_units(inner, others, name or table, to or own)
        pending.append(UnitMark(name or table, inner.where, to, own.domain, words, inner.steps))
        return Name(words)

    steps: list[RowStep] = []
    # the place behind the last step that makes other rows, where earlier marks are unknown
    after = 0
    for step in question.steps:
        pending.clear()
        if isinstance(step, UnitMatch):
            name = find_shared(step.table, private, table, own)
            steps.append(replace(step, to=None if name is None else private[name], own=own))
            continue
        # marked before: its declaration is taken anew
        if isinstance(step, UnitMark):
            name = find_shared(step.table, private, table, own)
            steps.append(replace(step, to=None if name is None else private[name], own=own.domain))
            continue
        replaced = _replace_exists(step, mark)
        steps += [m for m in pending if m not in steps]
        steps.append(replaced)
        after = len(steps) if isinstance(step, PerUnit) else after
    pending.clear()
    body: Aggregation = _replace_exists(replace(question, steps=()), mark)
    marks = [m for i, m in enumerate(pending) if m not in steps[after:] and m not in pending[:i]]
    steps[after:after] = [m for m in marks if isinstance(m, UnitMark)]
    # A condition on both rows may name all columns of the row, those of joined tables too.
    steps += [m for m in marks if isinstance(m, UnitMatch)]
    return replace(body, steps=tuple(steps))


def _match(node: Exists, name: str | None, to: PrivateTable | None, table: str, own: PrivateTable) -> UnitMatch:
    """Return the step of a condition on both rows; its column is named by its words."""
    assert node.beside is not None
    depth(node.beside)
    other = name or table
    if any(isinstance(at, Exists) for at in walk(node.beside)):
        raise QuestionRefused("EXISTS within a condition that compares two rows of a person is not supported")
    ours = _unit_column(own)
    theirs = _unit_column(to or own)
    parts = conjuncts(node.beside)
    units = [part for part in parts if _compares(part, {ours, f"{table}.{ours}"}, node.there(theirs))]
    if not units:
        raise QuestionRefused(
            f"EXISTS over a private table asks about the same people: compare {table}.{ours} with {other}.{theirs}, their "
            "privacy unit, beside all else"
        )
    beside = conjoin([part for part in parts if part not in units])
    if beside is None:
        raise QuestionRefused(f"EXISTS compares nothing but {ours} with {theirs}: write it once")
    column = describe(
        Exists(other, None, beside=rename(beside, {node.there(c): f"{other}.{c}" for c in _columns(own, to)}))
    )
    return UnitMatch(
        other, rename(beside, {node.there(c): f"{column}.{c}" for c in _columns(own, to)}), to, own, column
    )


def _columns(own: PrivateTable, to: PrivateTable | None) -> Mapping[str, Column]:
    return (own if to is None else to).domain.columns


def _compares(part: Node, ours: set[str], theirs: str) -> bool:
    """Return whether a condition is that a column of the row equals one of the rows beside it."""
    if not isinstance(part, Compare) or part.op != "=":
        return False
    names = {side.name for side in (part.left, part.right) if isinstance(side, Name)}
    return theirs in names and bool(names & ours)


def find_shared(written: str, private: Mapping[str, PrivateTable], table: str, own: PrivateTable) -> str | None:
    """Return the name of a private table of the same people, None for the question's own; raises QuestionRefused."""
    if written.lower() == table.lower():
        if own.neighbors.id_column is None:
            _refuse_unshared(table, own.neighbors, written, own)
        return None
    name = next((n for n in private if n.lower() == written.lower()), None)
    if name is None:
        hint = nearest(written, private) if private else "no other private table is"
        raise UnknownName(f"{written!r} is not declared as a private table; {hint}")
    _refuse_unshared(table, own.neighbors, name, private[name])
    return name


def _unit_column(table: PrivateTable) -> str:
    assert table.neighbors.id_column is not None
    return table.neighbors.id_column


def _replace_exists(thing: Any, mark: Callable[[Exists], Name]) -> Any:
    """Return an aggregate, a group, a question or an expression with every `exists` replaced."""
    if isinstance(thing, Exists):
        return mark(thing)
    if isinstance(thing, tuple):
        parts = tuple(_replace_exists(item, mark) for item in thing)
        return parts if any(a is not b for a, b in zip(parts, thing, strict=True)) else thing
    if not is_dataclass(thing) or isinstance(
        thing, (type, UnitMark, UnitMatch, PrivateTable, PublicTable, PostProcessing)
    ):
        return thing
    if hasattr(thing, "left") or hasattr(thing, "of"):
        depth(thing)  # type: ignore[arg-type]  # it looks at fields only
    changed = {}
    for field in fields(thing):
        part = getattr(thing, field.name)
        new_part = _replace_exists(part, mark)
        if new_part is not part:
            changed[field.name] = new_part
    return replace(thing, **changed) if changed else thing
