"""Other ways to write a statement: PIVOT as aggregates with FILTER, = ANY and <> ALL of a sub-query as IN. It knows no data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sordino.ask.queries.expressions.sql_trees import from_of, trees, with_of
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
    """Return a statement in the forms that are split; the tree is changed.

    PIVOT statements are aggregates with FILTER, = ANY and <> ALL of sub-queries are IN, windows that WINDOW names stand where
    they are used, COUNT() is COUNT(*), and a sub-query of a constant is that constant.
    """
    exp = trees()
    for select in query.find_all(exp.Select):
        _put_windows(select)
    for node in reversed(list(query.walk())):
        replacement = None
        if isinstance(node, exp.EQ) and isinstance(node.expression, exp.Any) and _is_query(node.expression.this):
            replacement = exp.In(this=node.this, query=_as_subquery(node.expression.this))
        elif isinstance(node, exp.NEQ) and isinstance(node.expression, exp.All) and _is_query(node.expression.this):
            replacement = exp.Not(this=exp.In(this=node.this, query=_as_subquery(node.expression.this)))
        elif isinstance(node, exp.Pivot) and isinstance(node.parent, exp.Subquery) and node.args.get("using"):
            replacement = _pivot(node, declared)
        elif isinstance(node, exp.Count) and node.this is None:
            replacement = exp.Count(this=exp.Star())
        elif isinstance(node, exp.Subquery) and not _is_source(node) and _is_constant(node.this):
            replacement = exp.Paren(this=node.this.expressions[0].unalias())
        if replacement is not None:
            node.replace(replacement)
    return query


def _put_windows(select: Any) -> None:
    """Put the windows that WINDOW names in the place of their names."""
    exp = trees()
    named = {window.name.lower(): window for window in select.args.get("windows") or []}
    for window in list(select.find_all(exp.Window)) if named else []:
        meant = named.get(window.alias.lower())
        if meant is None or window in named.values():
            continue
        parts = {part: meant.args.get(part) for part in ("partition_by", "order", "spec")}
        window.set("alias", None)
        for part, value in parts.items():
            if not window.args.get(part) and value:
                window.set(part, [one.copy() for one in value] if isinstance(value, list) else value.copy())
    select.set("windows", None)


def _is_source(node: Any) -> bool:
    """Return whether a sub-query is one of the tables that FROM names."""
    return isinstance(node.parent, (trees().From, trees().Join))


def _is_constant(query: Any) -> bool:
    """Return whether a query is one value that reads nothing."""
    exp = trees()
    if not isinstance(query, exp.Select) or len(query.expressions) != 1:
        return False
    parts = {name for name, value in query.args.items() if value}
    return parts <= {"expressions"} and query.find(exp.Column, exp.AggFunc, exp.Star, exp.Subquery) is None


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
    select = exp.Select(expressions=items).from_(pivot.this.copy())
    if keys:
        select.set("group", exp.Group(expressions=[key.unalias().copy() for key in keys]))
    return select


def _declared_values(column: Any, declared: DeclaredLists) -> list[Any]:
    exp = trees()
    values = declared.get(column.name.lower()) if isinstance(column, exp.Column) else None
    if values is None:
        raise QuestionRefused(
            f"PIVOT makes a column of each value of {column.sql(dialect='duckdb')}, which must be public: list them, "
            "ON c IN ('a', 'b'), or declare the column as a category"
        )
    present = sorted(value for value in values if value is not None)
    return [exp.convert(value) for value in present]


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


# ---- Aggregates of groups of a person and something else, which no answer may list: their rows added up, or counted


def add_up_pairs(query: Any, unit: str) -> None:
    """Put what it means of the rows in the place of an aggregate over groups of which one key is the `unit`'s column.

    Of SELECT unit, c, COUNT(*) AS n FROM t GROUP BY unit, c, SUM(n) is COUNT(*), COUNT(*) is COUNT(DISTINCT (unit, c)), and
    AVG(n) is the one divided by the other. Raises QuestionRefused for another aggregate: each group is rows of one person.
    """
    exp = trees()
    for select in list(query.find_all(exp.Select)):
        source = _from(select)
        inner = source.this if isinstance(source, exp.Subquery) else _query_of_with(select, source)
        if not isinstance(inner, exp.Select) or not _aggregates(select):
            continue
        keys = _group_keys(inner)
        if len(keys) < 2 or not any(isinstance(k, exp.Column) and k.name.lower() == unit.lower() for k in keys):
            continue
        _add_up(select, inner, keys)


def _from(select: Any) -> Any:
    clause = from_of(select)
    return None if clause is None or select.args.get("joins") else clause.this


def _query_of_with(select: Any, source: Any) -> Any:
    """Return the query of WITH that a name in FROM means."""
    exp = trees()
    if not isinstance(source, exp.Table):
        return None
    at = select
    while at is not None:
        clause = with_of(at) if isinstance(at, exp.Query) else None
        for cte in [] if clause is None else clause.expressions:
            if cte.alias.lower() == source.name.lower() and not cte.alias_column_names:
                return cte.this
        at = at.parent
    return None


def _aggregates(select: Any) -> bool:
    exp = trees()
    return any(item.find(exp.AggFunc) is not None for item in select.expressions)


def _group_keys(inner: Any) -> list[Any]:
    """Return the keys of a query's GROUP BY as its SELECT has them; none where it groups in other ways."""
    exp = trees()
    group = inner.args.get("group")
    if group is None or any(value for name, value in group.args.items() if name not in ("expressions", "all")):
        return []
    items = inner.expressions
    if group.args.get("all"):
        return [item.unalias() for item in items if item.find(exp.AggFunc) is None]
    keys = []
    for key in group.expressions:
        place = int(key.this) if isinstance(key, exp.Literal) and not key.is_string and key.this.isdigit() else 0
        named = next((item.this for item in items if isinstance(item, exp.Alias) and item.alias == key.name), None)
        keys.append(items[place - 1].unalias() if 1 <= place <= len(items) else key if named is None else named)
    return keys


def _add_up(select: Any, inner: Any, keys: list[Any]) -> None:
    exp = trees()
    meanings = {item.alias_or_name.lower(): item.unalias() for item in inner.expressions}
    plain = all(not inner.args.get(part) for part in ("having", "qualify", "order", "limit", "offset", "distinct"))
    pairs = exp.Count(this=exp.Distinct(expressions=[exp.Tuple(expressions=[key.copy() for key in keys])]))

    def mean(node: Any) -> Any:
        if isinstance(node, exp.Count) and isinstance(node.this, exp.Star):
            return pairs.copy()
        if isinstance(node, exp.AggFunc):
            of = meanings.get(node.this.name.lower()) if isinstance(node.this, exp.Column) else None
            counts = isinstance(of, exp.Count) and not isinstance(of.this, exp.Distinct)
            if (
                of is not None
                and isinstance(node, exp.Sum)
                and (counts or (isinstance(of, exp.Sum) and not isinstance(of.this, exp.Distinct)))
            ):
                return of.copy()
            if of is not None and isinstance(node, exp.Avg) and counts:
                return exp.paren(exp.Div(this=of.copy(), expression=pairs.copy()))
            raise QuestionRefused(
                f"{node.sql(dialect='duckdb')} over groups of a person and something else is not supported, as each group is "
                "rows of one person: SUM, AVG and COUNT(*) of their numbers of rows are; or group by the person alone"
            )
        if isinstance(node, exp.Column) and node.name.lower() in meanings:
            of = meanings[node.name.lower()]
            if of.find(exp.AggFunc) is not None:
                raise QuestionRefused(
                    f"{node.name} is a number of one person's rows: group by the person alone, and it can be a key"
                )
            return of.copy()
        return node

    if not plain:
        raise QuestionRefused(
            "a sub-query grouped by a person and something else may not have HAVING, ORDER BY or LIMIT: group by the person "
            "alone"
        )
    for item in select.expressions:
        if not isinstance(item, exp.Alias):
            item.replace(exp.alias_(item.copy(), item.output_name or item.sql("duckdb").lower(), quoted=True))
    for name in ("group", "having", "order", "where"):
        part = select.args.get(name)
        if part is not None:
            select.set(name, _transform(part, mean))
    select.set("expressions", [_transform(item, mean) for item in select.expressions])
    where = [part.this for part in (inner.args.get("where"), select.args.get("where")) if part is not None]
    cte = inner.parent
    if isinstance(cte, exp.CTE):
        inner = inner.copy()
        readers = [t for t in cte.root().find_all(exp.Table) if t.name.lower() == cte.alias.lower()]
        if len(readers) == 1:
            clause = cte.parent
            cte.pop()
            if not clause.expressions:
                clause.pop()
    for name in ("from_", "from", "joins", "laterals", "sample"):
        select.set(name, inner.args.get(name))
    select.set("where", exp.Where(this=exp.and_(*(w.copy() for w in where))) if where else None)


def _transform(node: Any, change: Any) -> Any:
    """Return a tree with what `change` makes of its parts, the outermost first; what was changed is not changed again."""
    changed = change(node)
    if changed is not node:
        return changed
    for name, value in list(node.args.items()):
        if isinstance(value, list):
            node.set(name, [_transform(v, change) if isinstance(v, trees().Expression) else v for v in value])
        elif isinstance(value, trees().Expression):
            node.set(name, _transform(value, change))
    return node
