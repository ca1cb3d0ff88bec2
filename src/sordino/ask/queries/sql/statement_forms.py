"""Other ways to write a statement: PIVOT as aggregates with FILTER, = ANY and <> ALL of a sub-query as IN. It knows no data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sordino.ask.queries.sql.text import trees
from sordino.core.errors import QuestionRefused

# The declared values of columns, by their names in lower case: what PIVOT without IN makes columns of.
DeclaredLists = Mapping[str, tuple[Any, ...]]

_MOST_COLUMNS = 200


def open_pivot(text: str) -> str:
    """Return a text that begins with PIVOT as a SELECT over it, with what orders and limits its rows behind it.

    >>> open_pivot("PIVOT t ON a USING COUNT(*) GROUP BY b ORDER BY b")
    'SELECT * FROM (PIVOT t ON a USING COUNT(*) GROUP BY b ) ORDER BY b'
    """
    from sqlglot import Dialect
    from sqlglot.errors import SqlglotError

    try:
        tokens = list(Dialect.get_or_raise("duckdb").tokenize(text))
    except SqlglotError:
        return text
    if not tokens or tokens[0].text.upper() != "PIVOT":
        return text
    depth = 0
    end = len(text)
    for token in tokens:
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0 and token.text.upper() in ("ORDER BY", "ORDER", "LIMIT"):
            end = token.start
            break
    return f"SELECT * FROM ({text[:end].rstrip(';')}) {text[end:]}".rstrip()


def rewrite_forms(query: Any, declared: DeclaredLists) -> Any:
    """Return a statement without PIVOT statements, and with = ANY and <> ALL of sub-queries as IN; the tree is changed."""
    exp = trees()
    for node in reversed(list(query.walk())):
        made = None
        if isinstance(node, exp.EQ) and isinstance(node.expression, exp.Any) and _is_query(node.expression.this):
            made = exp.In(this=node.this, query=_as_subquery(node.expression.this))
        elif isinstance(node, exp.NEQ) and isinstance(node.expression, exp.All) and _is_query(node.expression.this):
            made = exp.Not(this=exp.In(this=node.this, query=_as_subquery(node.expression.this)))
        elif isinstance(node, exp.Pivot) and isinstance(node.parent, exp.Subquery) and node.args.get("using"):
            made = _pivot(node, declared)
        if made is not None:
            node.replace(made)
    return query


def _is_query(node: Any) -> bool:
    exp = trees()
    return isinstance(node.unnest() if isinstance(node, exp.Paren) else node, (exp.Query,))


def _as_subquery(node: Any) -> Any:
    exp = trees()
    return node if isinstance(node, exp.Subquery) else exp.Subquery(this=node)


def _pivot(pivot: Any, declared: DeclaredLists) -> Any:
    """PIVOT t ON c IN (a, b) USING SUM(x) GROUP BY k is SELECT k, SUM(x) FILTER (WHERE c = a) AS a, ... FROM t GROUP BY k."""
    exp = trees()
    if len(pivot.expressions) != 1 or pivot.args.get("unpivot"):
        raise QuestionRefused("PIVOT takes one column after ON: PIVOT t ON c IN ('a', 'b') USING COUNT(*) GROUP BY k")
    on = pivot.expressions[0]
    column = on.this if isinstance(on, exp.In) else on
    values = list(on.expressions) if isinstance(on, exp.In) else _declared_values(column, declared)
    aggregates = pivot.args["using"]
    if len(values) * len(aggregates) > _MOST_COLUMNS:
        raise QuestionRefused(
            f"PIVOT makes {len(values) * len(aggregates)} columns, above {_MOST_COLUMNS}: list some with IN"
        )
    keys = _keys(pivot, column, aggregates)
    items = [key.copy() for key in keys]
    for value in values:
        for aggregate in aggregates:
            of = exp.Filter(
                this=aggregate.unalias().copy(),
                expression=exp.Where(this=exp.EQ(this=column.copy(), expression=value.unalias().copy())),
            )
            name = value.alias or (
                value.name if isinstance(value, exp.Literal) else value.sql(dialect="duckdb").lower()
            )
            words = aggregate.alias or (aggregate.sql(dialect="duckdb").lower() if len(aggregates) > 1 else "")
            items.append(exp.alias_(of, f"{name}_{words}" if words else name, quoted=True))
    made = exp.Select(expressions=items).from_(pivot.this.copy())
    if keys:
        made.set("group", exp.Group(expressions=[key.unalias().copy() for key in keys]))
    return made


def _declared_values(column: Any, declared: DeclaredLists) -> list[Any]:
    exp = trees()
    values = declared.get(column.name.lower()) if isinstance(column, exp.Column) else None
    if values is None:
        raise QuestionRefused(
            f"PIVOT makes a column of each value of {column.sql(dialect='duckdb')}, which must be public: list them, "
            "ON c IN ('a', 'b'), or declare the column as a category"
        )
    known = sorted(value for value in values if value is not None)
    return [exp.convert(value) for value in known]


def _keys(pivot: Any, column: Any, aggregates: list[Any]) -> list[Any]:
    """Return what PIVOT groups by: what it states, or all other columns of the query that it reads."""
    exp = trees()
    group = pivot.args.get("group")
    if group is not None:
        return list(group.expressions)
    source = pivot.this
    inner = source.this if isinstance(source, exp.Subquery) else None
    if not isinstance(inner, exp.Select) or any(item.is_star for item in inner.expressions):
        raise QuestionRefused(
            "PIVOT without GROUP BY has a row for each row's other columns: add GROUP BY k, the columns that rows stand for"
        )
    used = {column.name.lower(), *(c.name.lower() for a in aggregates for c in a.find_all(exp.Column))}
    return [
        exp.column(item.alias_or_name, quoted=True)
        for item in inner.expressions
        if item.alias_or_name.lower() not in used
    ]
