"""A sub-query grouped by the privacy unit: one row a unit, its values computed from all of the unit's rows.

Whether the column that it is grouped by is the unit's, the curator says; nothing is declared here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sordino.ask.queries.build import AggregateExpr, count, count_distinct, mean, sum
from sordino.ask.queries.expressions.expr import Expr
from sordino.ask.queries.expressions.nodes import Constant, Name, Node
from sordino.ask.queries.formulas import FormulaColumn
from sordino.ask.queries.per_unit import PerUnit
from sordino.ask.queries.sql.text import Place, trees
from sordino.ask.queries.sql.values import Translator
from sordino.ask.queries.unit_aggregates import all, any, first, last, max, min
from sordino.ask.queries.unit_columns import unit_columns
from sordino.core.errors import QuestionRefused

_ONE: dict[str, Callable[[Expr], AggregateExpr]] = {
    "AnyValue": min,  # any value will do: one that does not depend on the order of rows
    "Avg": mean,
    "LogicalAnd": all,
    "LogicalOr": any,
    "Max": max,
    "Min": min,
    "Sum": sum,
}
_BY = {"ArgMin": first, "ArgMax": last, "First": first, "Last": last}
_ALONE = "a sub-query is grouped by the privacy unit's column alone, so that each of its rows is one unit"
_INSIDE = "COUNT, SUM, AVG, MIN, MAX, BOOL_OR, BOOL_AND, ANY_VALUE, ARG_MIN, ARG_MAX, FIRST and LAST are"
_TAKE = "take one value of it a unit, such as MAX(x), ANY_VALUE(x) or FIRST(x ORDER BY t)"


@dataclass(frozen=True, slots=True)
class UnitSelect:
    """The step that a grouped sub-query is, its columns by their names in lower case, and the units that it keeps."""

    step: PerUnit
    columns: Mapping[str, tuple[str, Expr]]
    having: Node | None


def read_unit_select(place: Place, select: Any, column: Callable[[Any], Expr], rows: Node | None) -> UnitSelect:
    """Return what a sub-query with GROUP BY means; `column` says what a name of its rows stands for, `rows` which it has."""
    return _Reader(place, select, column).read(rows)


class _Reader:
    """Translates the items and the HAVING of one grouped sub-query."""

    def __init__(self, place: Place, select: Any, column: Callable[[Any], Expr]) -> None:
        self._place = place
        self._select = select
        self._column = column
        self._values = Translator(place, column)
        self._outer = Translator(place, self._key, self._special)
        self._parts: dict[str, AggregateExpr] = {}  # the aggregates of what is being translated, by their words
        self._unit = self._group()

    def read(self, rows: Node | None) -> UnitSelect:
        """Return the step, its columns and its condition."""
        asked: list[AggregateExpr] = []
        columns: dict[str, tuple[str, Expr]] = {}
        for item in self._select.expressions:
            named = isinstance(item, (trees().Alias, trees().Column, trees().Star))
            inner, name = item.unalias(), item.alias_or_name if named else ""
            if isinstance(inner, trees().Star):
                raise self._refuse(inner, f"SELECT * with GROUP BY is not supported in a sub-query: {_TAKE}")
            if not name:
                raise self._refuse(item, "a computed column of a sub-query needs a name: write AS name")
            if name.lower() in columns:
                raise self._refuse(
                    item, f"a sub-query has two columns named {name.lower()!r}: name one of them with AS"
                )
            value, parts = self._translate(inner)
            columns[name.lower()] = (name, value)
            if parts:
                asked.append(_name_column(value, parts, name))
        values, made, having = unit_columns(asked, self._having())
        shown = {low: (name, Expr(made.get(name, value.node))) for low, (name, value) in columns.items()}
        return UnitSelect(PerUnit(values, rows, self._unit), shown, having)

    def _having(self) -> AggregateExpr | None:
        """Return the condition on a unit's values."""
        clause = self._select.args.get("having")
        if clause is None:
            return None
        condition, parts = self._translate(clause.this)
        if not parts:
            raise self._refuse(clause, "HAVING compares aggregates of a unit's rows: filter rows with WHERE")
        return _name_column(condition, parts, "having")

    def _translate(self, item: Any) -> tuple[Expr, list[AggregateExpr]]:
        """Return an expression over aggregates, each by its own words, and the aggregates."""
        self._parts = {}
        value = self._outer.value(item)
        return value, list(self._parts.values())

    def _group(self) -> str:
        """Return the one column that the sub-query is grouped by."""
        clause = self._select.args.get("group")
        keys = list(self._select.expressions) if clause is None else list(clause.expressions)
        others = [n for n, v in ({} if clause is None else clause.args).items() if v and n != "expressions"]
        if len(keys) != 1 or others:
            raise QuestionRefused(f"{self._place.word('GROUP') or self._place.word('DISTINCT')}{_ALONE}: {_TAKE}")
        key = keys[0]
        if (
            isinstance(key, trees().Literal)
            and key.this.isdigit()
            and 1 <= int(key.this) <= len(self._select.expressions)
        ):
            key = self._select.expressions[int(key.this) - 1]
        if isinstance(key, trees().Column) and not self._owns(key):
            key = next((e for e in self._select.expressions if e.alias.lower() == key.name.lower()), key)
        node = self._values.value(key.unalias()).node
        if not isinstance(node, Name):
            raise self._refuse(key, f"{_ALONE}, not by an expression")
        return node.name

    def _key(self, item: Any) -> Expr:
        """Return what a name outside of an aggregate stands for: the unit's column, or in HAVING a column of SELECT."""
        if not item.table and not self._owns(item):
            for other in self._select.expressions:
                if isinstance(other, trees().Alias) and other.alias.lower() == item.name.lower():
                    return self._outer.value(other.this)
        value = self._column(item)
        if value.node != Name(self._unit):
            raise self._refuse(item, f"{item.name} has several values in one unit: {_TAKE.replace('x', item.name)}")
        return value

    def _owns(self, item: Any) -> bool:
        try:
            self._column(item)
        except QuestionRefused:
            return False
        return True

    def _special(self, item: Any) -> Expr | None:
        """Return the aggregate that a tree is, by its words; None for what is none."""
        made = self._aggregate(item)
        if made is None:
            return None
        self._parts[made.aggregate.describe()] = made
        return Expr(Name(made.aggregate.describe()))

    def _aggregate(self, item: Any) -> AggregateExpr | None:
        kinds = trees()
        while isinstance(item, (kinds.IgnoreNulls, kinds.Paren)):
            item = item.this
        name = type(item).__name__
        if isinstance(item, kinds.Anonymous) and str(item.this).upper() == "EVERY" and len(item.expressions) == 1:
            return all(self._values.value(item.expressions[0]))
        if isinstance(item, kinds.Count):
            return self._count(item)
        if isinstance(getattr(item, "this", None), kinds.Order) or name in _BY:
            return self._by(item, name)
        if name not in _ONE:
            if isinstance(item, kinds.AggFunc):
                raise self._refuse(item, f"{item.sql_name()} is not computed for one unit: {_INSIDE}")
            return None
        if isinstance(item.this, kinds.Distinct) or item.expressions:
            raise self._refuse(item, f"{item.sql_name()} takes one column, without DISTINCT")
        value = self._values.value(item.this)
        return count() if name == "Sum" and value.node == Constant(Fraction(1)) else _ONE[name](value)

    def _count(self, item: Any) -> AggregateExpr:
        kinds = trees()
        if isinstance(item.this, kinds.Distinct) and len(item.this.expressions) == 1:
            return count_distinct(self._values.value(item.this.expressions[0]))
        if isinstance(item.this, kinds.Distinct) or item.expressions:
            raise self._refuse(item, "COUNT takes *, one column or DISTINCT and one column")
        if isinstance(item.this, kinds.Star):
            return count()
        value = self._values.value(item.this)
        return count() if isinstance(value.node, Constant) else count(value)

    def _by(self, item: Any, name: str) -> AggregateExpr:
        """ARG_MIN(x, t), ARG_MAX(x, t), FIRST(x ORDER BY t) and LAST(x ORDER BY t)."""
        kinds = trees()
        take = _BY.get(name, first)
        if isinstance(item.this, kinds.Order) and len(item.this.expressions) == 1 and name in (*_BY, "AnyValue"):
            order = item.this.expressions[0]
            if order.args.get("desc"):
                take = last if take is first else first
            return take(self._values.value(item.this.this), by=self._values.value(order.this))
        if name not in ("ArgMin", "ArgMax") or item.args.get("count"):
            word = item.sql_name()
            raise self._refuse(item, f"{word} of a unit's rows needs the order of one column: {word}(x ORDER BY t)")
        return take(self._values.value(item.this), by=self._values.value(item.expression))

    def _refuse(self, item: Any, message: str) -> QuestionRefused:
        return QuestionRefused(self._place.of(item) + message)


def _name_column(value: Expr, parts: list[AggregateExpr], name: str) -> AggregateExpr:
    """Return a column over aggregates, each by its own words, under its name."""
    first_part, *others = parts
    return AggregateExpr(first_part.aggregate, tuple(p.aggregate for p in others), FormulaColumn(name, value.node))
