"""IN and EXISTS over another private table: conditions on the rows that a row's unit has there. It knows declared names only.

`x IN (SELECT y FROM other WHERE c)` and `EXISTS (SELECT * FROM other WHERE other.y = x AND c)` say the same; one that compares
its rows with the row around it is joined before it comes here (`dialects.py`). The rows may be
joined with others of the same people, grouped by the unit, numbered by windows, and have conditions of this kind themselves.
Rows without a unit are in no table, so NOT IN and NOT EXISTS are the same too: no row's missing unit makes the answer unknown
for all others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sordino.ask.queries.expressions.expr import Expr
from sordino.ask.queries.expressions.nodes import Connective, Exists, Name, depth
from sordino.ask.queries.expressions.sql_trees import and_parts, from_of, trees
from sordino.ask.queries.post_processing import rename
from sordino.ask.queries.sql.from_clause import DeclaredNames, Scope, UnitRows, read_unit_rows, scope_of
from sordino.ask.queries.sql.text import Place, only_known
from sordino.ask.queries.sql.values import Translator
from sordino.core.errors import QuestionRefused, UnknownName, nearest

_KNOWN = {
    *("expressions", "from_", "from", "where", "distinct", "with_", "with"),
    *("joins", "group", "having", "qualify", "windows"),
}
_WRITE = "write person_id IN (SELECT member_id FROM visits WHERE ...), by the privacy units of both"


def read_exists(place: Place, item: Any, scope: Scope, declared: DeclaredNames) -> Expr | None:
    """Return the condition that IN or EXISTS with a sub-query means; None for anything else."""
    kinds = trees()
    if isinstance(item, kinds.In) and item.args.get("query") is not None:
        return _member(place, item, _unwrap(item.args["query"]), scope, declared)
    if isinstance(item, kinds.Exists):
        return _correlate(place, _unwrap(item.this), scope, declared)
    return None


def _unwrap(query: Any) -> Any:
    while isinstance(query, trees().Subquery):
        query = query.this
    return query


def _member(place: Place, item: Any, query: Any, scope: Scope, declared: DeclaredNames) -> Expr:
    """x IN (SELECT y FROM other WHERE c), and of several such queries joined by UNION, INTERSECT and EXCEPT."""
    kinds = trees()
    if isinstance(query, kinds.SetOperation) and not (query.args.get("with_") or query.args.get("order")):
        one, other = (_member(place, item, _unwrap(side), scope, declared) for side in (query.this, query.expression))
        return (
            one | other
            if isinstance(query, kinds.Union)
            else one & (other if isinstance(query, kinds.Intersect) else ~other)
        )
    at = place.of(item)
    ours = scope.column(place, item.this).node if isinstance(item.this, kinds.Column) else None
    rows = read_unit_rows(place, _one_table(place, at, query, scope, declared), declared, scope.ctes)
    theirs = rows.column
    if not isinstance(ours, Name) or not isinstance(theirs, Name):
        raise QuestionRefused(f"{at}IN with a sub-query compares two columns: {_WRITE}")
    return _exists(rows, (ours, theirs))


def _correlate(place: Place, query: Any, scope: Scope, declared: DeclaredNames) -> Expr:
    """EXISTS (SELECT * FROM other WHERE other.y = x AND c)."""
    kinds = trees()
    _one_table(place, place.word("EXISTS"), query, scope, declared)
    inner = scope_of(place, query, declared, scope.ctes)
    where = query.args.get("where")
    parts = [] if where is None else [where.this.unnest()]
    while any(isinstance(part, kinds.And) for part in parts):
        parts = [p.unnest() for part in parts for p in and_parts(part)]
    compared_units = [(part, _compare_units(place, part, inner, scope)) for part in parts]
    pairs = [pair for _, pair in compared_units if pair is not None]
    around = {*scope.names, *(joined.alias for joined in scope.joined)} - inner.names
    rest = [part for part, pair in compared_units if pair is None]
    compared = any(c.table.lower() in around for part in rest for c in part.find_all(kinds.Column))
    if pairs and (compared or len(pairs) > 1):
        return _match(place, query, parts, inner, scope, declared)
    if len(pairs) != 1:
        raise QuestionRefused(
            f"{place.word('EXISTS')}EXISTS is about the row's own unit: WHERE compares its privacy unit with the other table's, "
            f"once; or {_WRITE}"
        )
    alone = query.copy()
    alone.set("where", kinds.Where(this=kinds.and_(*rest)) if rest else None)
    # What EXISTS selects says nothing; of groups, each is one unit.
    group = query.args.get("group")
    alone.set("expressions", [key.copy() for key in group.expressions] if group is not None else [kinds.Star()])
    alone.set("distinct", None)
    return _exists(read_unit_rows(place, alone, declared, scope.ctes), pairs[0])


def _match(
    place: Place,
    query: Any,
    parts: list[Any],
    inner: Scope,
    outer: Scope,
    declared: DeclaredNames,
) -> Expr:
    """EXISTS (SELECT * FROM other WHERE c), where c compares rows of the other table with the row around it.

    That c compares the privacy units too, the curator says, who knows them.
    """
    kinds = trees()
    at = place.word("EXISTS")
    grouped = any(query.args.get(part) for part in ("group", "having", "qualify"))
    if inner.steps or inner.joined or inner.columns is None or grouped or _has_windows(query):
        raise QuestionRefused(
            f"{at}EXISTS that compares its rows with the row around it reads one table, without joins, groups and windows of its "
            "own"
        )
    exists = Exists(inner.table, None)
    base = None if inner.table == declared.table else inner.table
    names = {name: exists.there(name) for name, _ in declared.columns_of(base).values()}
    theirs = {low: Expr(rename(value.node, names)) for low, (_, value) in inner.columns.items()}

    def column(item: Any) -> Expr:
        if not _is_of(item, inner):
            return declared.column(place, item, outer)
        if item.name.lower() not in theirs:
            raise UnknownName(
                f"{place.of(item)}column {item.name!r} is not declared in {inner.table}; {nearest(item.name, theirs)}"
            )
        return theirs[item.name.lower()]

    def refuse(item: Any) -> None:
        if isinstance(item, (kinds.In, kinds.Exists)) and item.find(kinds.Query) is not None:
            raise QuestionRefused(f"{at}a condition within EXISTS that compares two rows of a person has no sub-query")

    translator = Translator(place, column, refuse)
    beside = translator.value(kinds.and_(*(part.copy() for part in parts))).node
    if inner.where is not None:
        beside = Connective("and", rename(inner.where, names), beside)
    depth(beside)
    return Expr(replace(exists, beside=beside))


def _has_windows(query: Any) -> bool:
    return any(item.find(trees().Window) is not None for item in query.expressions)


def _compare_units(place: Place, part: Any, inner: Scope, outer: Scope) -> tuple[Name, Name] | None:
    """Return the outer and the inner column that an equality compares; None where it compares no two such."""
    kinds = trees()
    sides = [part.this, part.expression] if isinstance(part, kinds.EQ) else []
    if len(sides) != 2 or not all(isinstance(s, kinds.Column) for s in sides):
        return None
    of_inner = [_is_of(s, inner) for s in sides]
    if of_inner.count(True) != 1:
        return None
    ours, theirs = (sides[1], sides[0]) if of_inner[0] else (sides[0], sides[1])
    one = outer.column(place, ours).node
    other = inner.column(place, theirs).node
    return (one, other) if isinstance(one, Name) and isinstance(other, Name) else None


def _is_of(item: Any, scope: Scope) -> bool:
    """Return whether a name in a sub-query means a column of its own table; an unqualified one does where it can."""
    if item.table:
        return item.table.lower() in scope.names
    return scope.columns is not None and item.name.lower() in scope.columns


def _one_table(place: Place, at: str, query: Any, outer: Scope, declared: DeclaredNames) -> Any:
    """Return a condition's sub-query; raises QuestionRefused unless it is one SELECT from a private table."""
    if not isinstance(query, trees().Select):
        raise QuestionRefused(f"{at}a sub-query in a condition is one SELECT: {_WRITE}")
    if from_of(query) is None:
        raise QuestionRefused(f"{at}a sub-query is not supported here without FROM: {_WRITE}")
    only_known(place, query, _KNOWN, " in a condition's sub-query")
    inner = scope_of(place, query, declared, outer.ctes)
    if inner.sample is not None:
        raise QuestionRefused(f"{at}a sub-query in a condition reads whole tables, not samples: {_WRITE}")
    if inner.table in declared.public:
        raise QuestionRefused(f"{at}{inner.table} is public: JOIN it, or list its values in IN (...)")
    return query


def _exists(rows: UnitRows, on: tuple[Name, Name]) -> Expr:
    return Expr(Exists(rows.table, rows.where, (on[0].name, on[1].name), rows.steps))
