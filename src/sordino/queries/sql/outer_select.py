"""SELECT over an answer: SELECT sex, n FROM (SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex) WHERE n > 9 is HAVING n > 9.

A SELECT without aggregates, of a sub-query or a WITH that groups, only filters, orders and renames what is released. It is
written as the one SELECT that it means.
"""

from __future__ import annotations

from typing import Any

__all__ = ["unfold_answer"]

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
