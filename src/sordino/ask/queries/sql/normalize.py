"""Other ways to write the same SELECT: a parsed tree is brought to the one shape that the translation reads.

Only spelling changes here, never meaning: FILTER (WHERE c) is CASE WHEN c, a comma join on equality is JOIN ... ON, a
public table that stands first changes places with the private one, WITH name(a, b) names the columns of its query,
GROUP BY ALL lists the keys, and a SELECT over an answer is the one SELECT that it means.

A SELECT over an answer, `SELECT sex, n FROM (SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex) WHERE n > 9`, only filters,
orders and renames what is released: it becomes the one SELECT that it means.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any

from sordino.ask.queries.sql.spellings import rewrite_functions

if TYPE_CHECKING:
    from sqlglot import exp

_OUTER = {"expressions", "from_", "from", "where", "order", "limit", "offset", "with_", "with", "kind"}
_INNER = {"expressions", "from_", "from", "where", "group", "having", "joins", "with_", "with", "kind"}


def unfold_answer(select: Any) -> Any:
    """Return a SELECT over an answer as one SELECT; any other as it is."""
    inner = _answer_below(select)
    while inner is not None:
        select = _merge(select, inner)
        inner = _answer_below(select)
    return select


def _answer_below(select: Any) -> Any:
    """Return the grouped sub-query that a SELECT without aggregates reads; None where it reads rows."""
    from sqlglot import exp

    source = _source(select)
    if not _has_only(select, _OUTER) or any(e.find(exp.AggFunc, exp.Window) for e in select.expressions):
        return None
    inner = source.this if isinstance(source, exp.Subquery) else _named(select, source)
    inner = unfold_answer(inner) if isinstance(inner, exp.Select) else None
    if inner is None or not _has_only(inner, _INNER):
        return None
    aggregates = any(e.find(exp.AggFunc) for e in inner.expressions)
    stars = any(isinstance(e, exp.Star) for e in inner.expressions)
    return inner if aggregates and not stars and all(e.alias_or_name for e in inner.expressions) else None


def _source(select: Any) -> Any:
    clause = select.args.get("from_") or select.args.get("from")
    return None if clause is None else clause.this


def _has_only(select: Any, known: set[str]) -> bool:
    return all(name in known for name, value in select.args.items() if value)


def _named(select: Any, source: Any) -> Any:
    """Return the query that WITH gives the name of the table that FROM names."""
    from sqlglot import exp

    clause = select.args.get("with_") or select.args.get("with")
    if clause is None or not isinstance(source, exp.Table) or clause.args.get("recursive"):
        return None
    found = [c.this for c in clause.expressions if c.alias.lower() == source.name.lower() and not c.alias_column_names]
    return found[0] if len(found) == 1 else None


def _merge(outer: Any, inner: Any) -> Any:
    from sqlglot import exp

    meanings = {e.alias_or_name.lower(): e.unalias() for e in inner.expressions}

    def replace(tree: Any) -> Any:
        def mean(node: Any) -> Any:
            known = isinstance(node, exp.Column) and node.name.lower() in meanings
            return exp.Paren(this=meanings[node.name.lower()].copy()) if known else node

        return tree.copy().transform(mean)

    made = inner.copy()
    _name_groups(made)
    names = {e.alias_or_name.lower(): e.alias_or_name for e in inner.expressions}
    items: list[Any] = []
    for item in outer.expressions:
        if isinstance(item, exp.Star):
            items += [exp.alias_(e.unalias().copy(), e.alias_or_name, quoted=True) for e in inner.expressions]
            continue
        of = replace(item.unalias())
        name = item.alias or (names.get(item.name.lower(), "") if isinstance(item, exp.Column) else "")
        of = of.this if isinstance(of, exp.Paren) and isinstance(item.unalias(), exp.Column) else of
        items.append(exp.alias_(of, name, quoted=True) if name else of)
    made.set("expressions", items)
    if outer.args.get("where") is not None:
        condition, having = replace(outer.args["where"].this), made.args.get("having")
        both = condition if having is None else exp.and_(having.this, condition)
        made.set("having", exp.Having(this=both))
    for clause in ("order", "limit", "offset"):
        if outer.args.get(clause) is not None:
            made.set(clause, replace(outer.args[clause]) if clause == "order" else outer.args[clause].copy())
    before = outer.args.get("with_") or outer.args.get("with")
    if before is not None and made.args.get("with_") is None:
        kept = before.copy()
        kept.set("expressions", [c for c in kept.expressions if not _is_read(c, _source(outer))])
        made.set("with_", kept if kept.expressions else None)
    return made


def _is_read(named: Any, source: Any) -> bool:
    """Return whether a query of WITH is the one that FROM names, which stands in its own place now."""
    from sqlglot import exp

    return isinstance(source, exp.Table) and bool(named.alias.lower() == source.name.lower())


def _name_groups(select: Any) -> None:
    """Write what GROUP BY names by its place in SELECT, since the places are about to change."""
    from sqlglot import exp

    for item in list(getattr(select.args.get("group"), "expressions", [])):
        if isinstance(item, exp.Literal) and item.this.isdigit() and 1 <= int(item.this) <= len(select.expressions):
            item.replace(select.expressions[int(item.this) - 1].unalias().copy())


def normalize(select: exp.Select, *, public: Container[str] = ()) -> exp.Select:
    """Return a SELECT in the shape that is translated; `public` has the names of public tables, in lower case."""
    from sqlglot import exp as kinds

    made: Any = select.copy()
    for inner in list(made.find_all(kinds.Select)):
        _rename_columns(inner)
        _unwrap_table(inner)
        _join_commas(inner)
        _put_private_first(inner, public)
        _list_groups(inner)
        _drop_needless_distinct(inner)
        _order_by_all(inner)
        _limit_by_fetch(inner)
    made = rewrite_functions(made)
    changed: exp.Select = unfold_answer(made) if made.find(kinds.Subquery, kinds.With) else made
    return changed


def _rename_columns(select: Any) -> None:
    """WITH name(a, b) AS (SELECT x, y ...) is WITH name AS (SELECT x AS a, y AS b ...); a sub-query's names likewise."""
    from sqlglot import exp as kinds

    clause = select.args.get("with_") or select.args.get("with")
    sources = list(clause.expressions) if clause is not None else []
    start = select.args.get("from_") or select.args.get("from")
    sources += [s for s in [start.this if start is not None else None] if isinstance(s, kinds.Subquery)]
    for source in sources:
        names, inner = source.alias_column_names, source.this
        if not names or not isinstance(inner, kinds.Select) or len(names) != len(inner.expressions):
            continue
        if any(isinstance(e, kinds.Star) for e in inner.expressions):
            continue
        renamed = [
            kinds.alias_(e.unalias(), name, quoted=True) for e, name in zip(inner.expressions, names, strict=True)
        ]
        inner.set("expressions", renamed)
        source.args["alias"].set("columns", None)


def _unwrap_table(select: Any) -> None:
    """FROM (adult) is FROM adult, and JOIN ... ON (a = b) is ON a = b."""
    from sqlglot import exp as kinds

    clause = select.args.get("from_") or select.args.get("from")
    for holder in [clause, *(select.args.get("joins") or [])]:
        source = None if holder is None else holder.this
        while isinstance(source, kinds.Subquery) and isinstance(source.this, (kinds.Table, kinds.Subquery)):
            inner = source.this
            if source.args.get("alias") is not None:
                inner.set("alias", source.args["alias"])
            source = inner
        if holder is not None and source is not holder.this:
            holder.set("this", source)
        on = None if holder is None else holder.args.get("on")
        while isinstance(on, kinds.Paren):
            on = on.this
        if holder is not None and on is not None:
            holder.set("on", on)


def _join_commas(select: Any) -> None:
    """FROM a, b WHERE a.x = b.y AND rest is FROM a JOIN b ON a.x = b.y WHERE rest."""
    from sqlglot import exp as kinds

    where = select.args.get("where")
    joins = select.args.get("joins") or []
    for place, join in enumerate(joins):
        plain = not any(join.args.get(n) for n in ("method", "side", "on", "using"))
        plain = plain and not isinstance(join.this, kinds.Unnest)
        if where is None or not plain or str(join.args.get("kind") or "").upper() not in ("", "CROSS"):
            continue
        parts = list(where.this.flatten()) if isinstance(where.this, kinds.And) else [where.this]
        alias = join.this.alias_or_name.lower()
        later = {other.this.alias_or_name.lower() for other in joins[place + 1 :]}
        found = [p for p in parts if _compares_tables(p, alias, later)]
        if not found:
            continue
        join.set("on", kinds.and_(*(p.unnest() for p in found), copy=False) if len(found) > 1 else found[0].unnest())
        join.set("kind", None)
        rest = [p for p in parts if not any(p is f for f in found)]
        if rest:
            where.set("this", kinds.and_(*rest, copy=False))
        else:
            select.set("where", None)
            where = None


def _compares_tables(condition: Any, alias: str, later: Container[str]) -> bool:
    """Return whether a condition says that a column of the named table equals one of another, not of a later one."""
    from sqlglot import exp as kinds

    condition = condition.unnest()
    if not isinstance(condition, kinds.EQ):
        return False
    sides = [condition.this, condition.expression]
    if not all(isinstance(s, kinds.Column) and s.table for s in sides):
        return False
    tables = [s.table.lower() for s in sides]
    return tables.count(alias) == 1 and not any(t in later for t in tables)


def _put_private_first(select: Any, public: Container[str]) -> None:
    """FROM regions JOIN adult ON ... is FROM adult JOIN regions ON ...: an inner join has no order."""
    from sqlglot import exp as kinds

    joins = select.args.get("joins") or []
    clause = select.args.get("from_") or select.args.get("from")
    if clause is None or not isinstance(clause.this, kinds.Table):
        return
    first = joins[0] if len(joins) == 1 and isinstance(joins[0].this, kinds.Table) else None
    right = first is not None and str(first.args.get("side") or "").upper() == "RIGHT"
    if clause.this.name.lower() not in public:
        if first is not None and right and first.this.name.lower() not in public:  # a RIGHT JOIN b is b LEFT JOIN a
            joined = first.this
            first.set("this", clause.this)
            clause.set("this", joined)
            first.set("side", "LEFT")
        return
    for join in joins:
        inner = not join.args.get("side") and str(join.args.get("kind") or "").upper() in ("", "INNER")
        turned = str(join.args.get("side") or "").upper() == "RIGHT" and len(joins) == 1
        if isinstance(join.this, kinds.Table) and join.this.name.lower() in public:
            continue
        if inner or turned:
            first, second = clause.this, join.this
            clause.set("this", second)
            join.set("this", first)
            if turned:
                join.set("side", "LEFT")
        return


def _list_groups(select: Any) -> None:
    """GROUP BY ALL is GROUP BY every item of SELECT without an aggregate in it."""
    from sqlglot import exp as kinds

    group = select.args.get("group")
    if group is None or not group.args.get("all") or group.expressions:
        return
    keys = [e.unalias().copy() for e in select.expressions if e.find(kinds.AggFunc) is None]
    select.set("group", kinds.Group(expressions=keys) if keys else None)


def _drop_needless_distinct(select: Any) -> None:
    """SELECT DISTINCT of groups and aggregates has no row twice; of columns alone, it is GROUP BY these columns."""
    from sqlglot import exp as kinds

    distinct, group = select.args.get("distinct"), select.args.get("group")
    if distinct is None or distinct.args.get("on"):
        return
    if group is None:
        columns = [e.unalias() for e in select.expressions]
        if any(e.is_star or e.find(kinds.AggFunc) is not None for e in columns):
            return
        select.set("group", kinds.Group(expressions=[c.copy() for c in columns]))
        select.set("distinct", None)
        return
    shown = [e.unalias() for e in select.expressions]
    positions = {int(e.this) for e in group.expressions if isinstance(e, kinds.Literal) and e.this.isdigit()}
    names = {e.alias.lower() for e in select.expressions if e.alias}
    for i, key in enumerate(group.expressions):
        named = isinstance(key, kinds.Column) and key.name.lower() in names
        if not (key in shown or i + 1 in positions or named or isinstance(key, kinds.Literal)):
            return
    select.set("distinct", None)


def _order_by_all(select: Any) -> None:
    """ORDER BY ALL is ORDER BY every item of SELECT, from left to right."""
    from sqlglot import exp as kinds

    order = select.args.get("order")
    if (
        order is None
        or len(order.expressions) != 1
        or not isinstance(order.expressions[0].this, (kinds.Var, kinds.All))
    ):
        return
    item = order.expressions[0]
    if item.this.name.upper() in ("ALL", ""):
        places = [kinds.Literal.number(i + 1) for i in range(len(select.expressions))]
        order.set("expressions", [kinds.Ordered(this=at, desc=item.args.get("desc")) for at in places])


def _limit_by_fetch(select: Any) -> None:
    """FETCH FIRST n ROWS ONLY is LIMIT n."""
    from sqlglot import exp as kinds

    fetch = select.args.get("limit")
    if not isinstance(fetch, kinds.Fetch):
        return
    options = fetch.args.get("limit_options")
    if options is None or not (options.args.get("percent") or options.args.get("with_ties")):
        select.set("limit", kinds.Limit(expression=fetch.args.get("count") or kinds.Literal.number(1)))
