"""The columns of per_unit: which values of a unit they are made of, and what each is over those. Knows no declaration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from sordino.ask.queries.aggregates.distinct import Distinct
from sordino.ask.queries.aggregates.sums import Average, Count, Sum
from sordino.ask.queries.expressions.nodes import Name, Node, describe
from sordino.ask.queries.formulas import FormulaColumn, rename
from sordino.ask.queries.per_unit import UnitValue
from sordino.ask.queries.query import Aggregate
from sordino.core.errors import QuestionRefused


class UnitExpr(Protocol):
    """A column as a person writes it: an aggregate, or a formula over several."""

    @property
    def aggregate(self) -> Aggregate:
        """The first aggregate."""

    @property
    def others(self) -> tuple[Aggregate, ...]:
        """What else a formula is computed from."""

    @property
    def formula(self) -> FormulaColumn | None:
        """The formula, over the aggregates' own words."""


def unit_columns(
    asked: Sequence[UnitExpr], condition: UnitExpr | None = None
) -> tuple[tuple[UnitValue, ...], Mapping[str, Node], Node | None]:
    """Return a unit's values, each once, and what each column asked for, and the condition, is over them.

    A value that is asked for alone, or clipped, bears the column's name; others go by their own words.
    """
    values: dict[str, UnitValue] = {}
    columns: dict[str, Node] = {}
    for one in sorted(asked, key=lambda a: len(a.others)):
        parts = (one.aggregate, *one.others)
        alias = _column_name(one)
        if alias in columns:
            raise QuestionRefused(f"two columns of per_unit are named {alias!r}: name one another way with .alias(...)")
        for part in parts:
            name = alias if len(parts) == 1 else part.describe()
            values.setdefault(part.describe(), _unit_value(part, name))
        columns[alias] = _over_values(one, values)
    if condition is None:
        return tuple(values.values()), columns, None
    for part in (condition.aggregate, *condition.others):
        values.setdefault(part.describe(), _unit_value(part, part.describe()))
    return tuple(values.values()), columns, _over_values(condition, values)


def _over_values(one: UnitExpr, values: Mapping[str, UnitValue]) -> Node:
    """Return a column over the values of a unit by their names."""
    if one.formula is None:
        return Name(values[one.aggregate.describe()].alias)
    return rename(one.formula.node, {words: value.alias for words, value in values.items()})


def _column_name(one: UnitExpr) -> str:
    """Return a column's name: as it was given, else that of its first aggregate."""
    if one.formula is None:
        return one.aggregate.alias
    own = rename(one.formula.node, {a.describe(): a.alias for a in (one.aggregate, *one.others)})
    unnamed = one.formula.alias == describe(own) and not one.others
    return one.aggregate.alias if unnamed else one.formula.alias


def _unit_value(of: Aggregate, alias: str) -> UnitValue:
    """Return an aggregate as a value of one unit; raises QuestionRefused for one that is not computed for a person."""
    if isinstance(of, Count):
        return UnitValue("rows" if of.of is None else "count", of.of, alias)
    if isinstance(of, UnitValue):
        return UnitValue(of.kind, of.of, alias, of.by)
    if isinstance(of, Sum) and of.per_unit is not None:
        raise QuestionRefused("inside per_unit a sum is of one unit already: clip it, sd.sum(...).clip(lower, upper)")
    kinds: dict[type, str] = {Sum: "sum", Average: "mean", Distinct: "distinct"}
    if type(of) not in kinds or (isinstance(of, Distinct) and of.others):
        raise QuestionRefused(
            f"{of.describe()} is not computed for one person: inside per_unit are count, sum, mean, min, max, any, all, "
            "count_distinct, first and last"
        )
    return UnitValue(kinds[type(of)], getattr(of, "of", None), alias)
