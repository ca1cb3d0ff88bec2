"""Values of a row's unit beside the row: one value a person, joined back to its rows. It knows declarations only.

Theorem: what is joined is one row a unit at most, a function of the unit's own rows in the table that it is taken of, none of
them capped (`per_unit`). So each row of the left side meets one row or none, of its own unit, and no other unit's row is looked
at: the bounds on a unit's rows stay as they are, and so do all sensitivities (stability; McSherry 2009, section 2.3). Where
both tables are private, a neighbor changes the rows of one unit in both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from sordino.ask.queries.expressions.compile import bind_condition
from sordino.ask.queries.expressions.nodes import Compare, Connective, IsNull, Name, Node, describe, plain
from sordino.ask.queries.per_unit import PerUnit, UnitValue, clip_notes
from sordino.ask.queries.row_steps import RowStep, apply_steps, step_domain
from sordino.core.domain import Column, Domain, Identifier, List, keep_missing
from sordino.core.errors import QuestionRefused
from sordino.core.neighbors import Neighbors
from sordino.core.primitives import Primitives
from sordino.core.source import PrivateTable

if TYPE_CHECKING:
    from collections.abc import Mapping

_KNOWN = {"min": "<=", "max": ">="}


@dataclass(frozen=True, slots=True)
class UnitValues:
    """Values of a row's unit beside the row: what `steps` make of a table's rows, of units that meet `having`. A row step.

    "inner" drops the rows of units that have none. `on` is the column of the rows that is compared with the unit `of_unit` of
    the other side. `to` is the other table, and `own` the question's own, once they are known; `is_own` says which is meant.
    """

    table: str
    steps: tuple[RowStep, ...]
    having: Node | None
    how: Literal["inner", "left"]
    on: str
    to: PrivateTable | None = None
    is_own: bool = False
    limits: tuple[tuple[str, Fraction, Fraction], ...] = ()

    @property
    def values(self) -> PerUnit:
        """The step that makes one row a unit."""
        per_unit = self.steps[-1]
        assert isinstance(per_unit, PerUnit)
        return per_unit

    @property
    def reads(self) -> dict[str, PrivateTable]:
        """The other private tables that it reads."""
        return {} if self.is_own or self.to is None else {self.table: self.to}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the values."""
        return tuple(self.column(value.alias) for value in self.values.values)

    @property
    def always_present(self) -> tuple[str, ...]:
        """The values that are never missing, where every row has a match."""
        return () if self.how == "left" else tuple(map(self.column, self.values.always_present))

    @property
    def notes(self) -> tuple[str, ...]:
        """What an answer says of the limits."""
        return clip_notes(self.limits, self.values.unit)

    @property
    def key(self) -> str:
        """The name of the column that is the unit where it has values."""
        return self.column(self.values.unit or "")

    def column(self, alias: str) -> str:
        """Return the name of a value beside the rows."""
        value = next((v for v in self.values.values if v.alias == alias), None)
        words = alias if value is None else value.describe()
        before = "".join(f", {step.describe()}" for step in self.steps[:-1])
        where = "" if self.values.where is None else f" where {describe(self.values.where)}"
        having = "" if self.having is None else f" having {describe(self.having)}"
        return f"{words} of one {self.values.unit} in {self.table}{before}{where}{having}"

    def domain(self, domain: Domain) -> Domain:
        """Return the domain with the values."""
        units = self._units()
        columns: dict[str, Column | List] = {**domain.stored, self.key: Identifier()}
        for value in self.values.values:
            column = units[value.alias]
            columns[self.column(value.alias)] = keep_missing(column) if self.how == "left" else column
        if self.having is not None:
            bind_condition(self.having, units)
        lost = domain.unreadable_rows or self.how == "inner"
        return Domain(columns, row_ceiling=domain.row_ceiling, unreadable_rows=lost)

    def neighbors(self, neighbors: Neighbors) -> Neighbors:
        """Return the relation as it is: each row meets one row at most."""
        return neighbors

    def apply(self, on: Primitives, domain: Domain) -> Primitives:
        """Add the values to an engine's primitives."""
        del domain
        assert self.to is not None
        rows = apply_steps(on.other_rows(None if self.is_own else self.table), self.steps, self.to.domain)
        condition = None if self.having is None else bind_condition(self.having, self._units())(rows)
        columns = {self.column(value.alias): value.alias for value in self.values.values}
        on.join_values(columns, rows, condition, key=self.key, left=self.how == "left")
        return on

    def implied_bounds(self, domain: Domain, most: int) -> dict[str, tuple[Fraction, Fraction]]:
        """Return where the values without bounds of their own lie among the rows of one unit that its table declares."""
        del domain
        if self.to is None:
            return {}
        rows = most if self.is_own else self.to.neighbors.contributions
        before = step_domain(self.to.domain, self.steps[:-1])
        return {self.column(alias): ends for alias, ends in self.values.implied_bounds(before, rows).items()}

    def implied_conditions(self) -> tuple[Node, ...]:
        """Return conditions that every row meets: a unit's least value is no larger than any of its rows' own."""
        if not self.is_own or self.having is not None or self.values.where is not None or len(self.steps) > 1:
            return ()
        return tuple(_compare(value, self.column(value.alias)) for value in self.values.values if value.kind in _KNOWN)

    def _units(self) -> Domain:
        if self.to is None:
            raise QuestionRefused("ask for values of a unit beside its rows through the table: visits.plan(...)")
        return step_domain(self.to.domain, self.steps)

    def describe(self) -> str:
        """Return the step in words."""
        unmatched = ", rows without any kept" if self.how == "left" else ""
        return f"with {'; '.join(self.names) or self.key}{unmatched}"

    def plain(self) -> Any:
        """Return the step as canonical JSON data."""
        declared = None if self.is_own or self.to is None else self.to.declaration
        return ["values", self.table, [s.plain() for s in self.steps], plain(self.having), self.how, declared]


def bind_values(
    step: UnitValues,
    steps: tuple[RowStep, ...],
    having: Node | None,
    name: str | None,
    to: PrivateTable,
    unit: str | None,
) -> UnitValues:
    """Return the step with its table, `name` where that is another; raises QuestionRefused where it is not by the unit."""
    bound = replace(step, table=name or step.table, steps=steps, having=having, to=to, is_own=name is None, limits=())
    if step.on != unit:
        raise QuestionRefused(
            f"values of one {bound.values.unit} are joined by the privacy unit, which is {unit!r} here, not by {step.on!r}: by "
            "other columns one person's values would meet the rows of many"
        )
    return bound


def _compare(value: UnitValue, name: str) -> Node:
    assert value.of is not None
    unknown = Connective("or", IsNull(Name(name)), IsNull(value.of))
    return Connective("or", Compare(_KNOWN[value.kind], Name(name), value.of), unknown)


def column_names(step: UnitValues) -> Mapping[str, str]:
    """Return the names beside the rows of what the sub-query's columns are made of."""
    names = {value.alias: step.column(value.alias) for value in step.values.values}
    return {**names, step.values.unit or "": step.key}
