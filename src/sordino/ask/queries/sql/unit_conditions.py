"""IN and EXISTS over another private table: conditions on the rows that a row's unit has there. It knows declared names only.

`x IN (SELECT y FROM other WHERE c)` and `EXISTS (SELECT * FROM other WHERE other.y = x AND c)` say the same. Rows without a
unit are in no table, so NOT IN and NOT EXISTS are the same too: no row's missing unit makes the answer unknown for all others.
"""

from __future__ import annotations

from typing import Any

from sordino.ask.queries.expressions.expr import Expr
from sordino.ask.queries.expressions.nodes import Connective, Exists, Name, Node, depth
from sordino.ask.queries.sql.from_clause import DeclaredNames, Scope, scope_of
from sordino.ask.queries.sql.text import Place, only_known, trees
from sordino.ask.queries.sql.values import Translator
from sordino.core.errors import QuestionRefused

_KNOWN = {"expressions", "from_", "from", "where", "distinct", "with_", "with"}
_WRITE = "write person_id IN (SELECT member_id FROM visits WHERE ...), by the privacy units of both"


def read_exists(place: Place, item: Any, scope: Scope, declared: DeclaredNames) -> Expr | None:
    """Return the condition that IN or EXISTS with a sub-query means; None for anything else."""
    kinds = trees()
    if isinstance(item, kinds.In) and item.args.get("query") is not None:
        query = item.args["query"]
        return _member(place, item, query.this if isinstance(query, kinds.Subquery) else query, scope, declared)
    if isinstance(item, kinds.Exists):
        query = item.this.this if isinstance(item.this, kinds.Subquery) else item.this
        return _correlate(place, query, scope, declared)
    return None


def _member(place: Place, item: Any, query: Any, scope: Scope, declared: DeclaredNames) -> Expr:
    """x IN (SELECT y FROM other WHERE c)."""
    inner, values = _rows(place, place.of(item), query, scope, declared)
    ours = scope.column(place, item.this).node if isinstance(item.this, trees().Column) else None
    chosen = [e.unalias() for e in query.expressions]
    theirs = inner.column(place, chosen[0]).node if len(chosen) == 1 and isinstance(chosen[0], trees().Column) else None
    if not isinstance(ours, Name) or not isinstance(theirs, Name):
        raise QuestionRefused(f"{place.of(item)}IN with a sub-query compares two columns: {_WRITE}")
    where = query.args.get("where")
    met = inner.restrict(None if where is None else values.value(where.this).node)
    return _exists(inner, met, ours, theirs)


def _correlate(place: Place, query: Any, scope: Scope, declared: DeclaredNames) -> Expr:
    """EXISTS (SELECT * FROM other WHERE other.y = x AND c)."""
    kinds = trees()
    inner, values = _rows(place, place.word("EXISTS"), query, scope, declared)
    where = query.args.get("where")
    parts = (
        []
        if where is None
        else [p.unnest() for p in where.this.unnest().flatten()]
        if isinstance(where.this.unnest(), kinds.And)
        else [where.this.unnest()]
    )
    pairs: list[tuple[Name, Name]] = []
    met: Node | None = None
    for part in parts:
        pair = _compare_units(place, part, inner, scope)
        if pair is not None:
            pairs.append(pair)
            continue
        node = values.value(part).node
        met = node if met is None else Connective("and", met, node)
    if len(pairs) != 1:
        raise QuestionRefused(
            f"{place.word('EXISTS')}EXISTS is about the row's own unit: WHERE compares its privacy unit with the other table's, "
            f"once; or {_WRITE}"
        )
    return _exists(inner, inner.restrict(met), *pairs[0])


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
    one, other = outer.column(place, ours).node, inner.column(place, theirs).node
    return (one, other) if isinstance(one, Name) and isinstance(other, Name) else None


def _is_of(item: Any, scope: Scope) -> bool:
    """Return whether a name in a sub-query means a column of its own table; an unqualified one does where it can."""
    if item.table:
        return item.table.lower() in scope.names
    return scope.columns is not None and item.name.lower() in scope.columns


def _rows(place: Place, at: str, query: Any, outer: Scope, declared: DeclaredNames) -> tuple[Scope, Translator]:
    """Return what a sub-query in a condition reads: one other table, its rows filtered."""
    if not isinstance(query, trees().Select):
        raise QuestionRefused(f"{at}a sub-query in a condition is one SELECT: {_WRITE}")
    if query.args.get("from_") is None and query.args.get("from") is None:
        raise QuestionRefused(f"{at}a sub-query is not supported here without FROM: {_WRITE}")
    only_known(place, query, _KNOWN, " in a condition's sub-query")
    inner = scope_of(place, query, declared, outer.known)
    if inner.steps or inner.sample is not None:
        raise QuestionRefused(f"{at}a sub-query in a condition reads one table, with WHERE: {_WRITE}")
    if inner.table in declared.public:
        raise QuestionRefused(f"{at}{inner.table} is public: JOIN it, or list its values in IN (...)")
    return inner, declared.translator(place, inner)


def _exists(inner: Scope, met: Node | None, ours: Name, theirs: Name) -> Expr:
    if met is not None:
        depth(met)
    return Expr(Exists(inner.table, met, (ours.name, theirs.name)))
