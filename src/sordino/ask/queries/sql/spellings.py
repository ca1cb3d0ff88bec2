"""Functions that dialects name and write differently, brought to the ones that the translation reads. Meaning stays the same.

FILTER (WHERE c) is CASE WHEN c, COUNT_IF counts such a CASE, an approximate quantile is a quantile (ours is noisy anyway),
REGR_SLOPE is a covariance divided by a variance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sordino.core.errors import QuestionRefused

if TYPE_CHECKING:
    from sqlglot import exp

NAMES = {  # how others name what we know by another name
    "COUNTIF": "CountIf",
    "COUNT_IF": "CountIf",
    "STDEV": "Stddev",
    "STD": "Stddev",
    "STDEVP": "StddevPop",
    "STDDEVP": "StddevPop",
    "VAR": "Variance",
    "VARP": "VariancePop",
    "VARIANCEP": "VariancePop",
    "MEAN": "Avg",
    "AVERAGE": "Avg",
    "EVERY": "LogicalAnd",
}


WORDS = {  # the names in NAMES as they are written
    "Avg": "AVG",
    "CountIf": "COUNT_IF",
    "Stddev": "STDDEV",
    "StddevPop": "STDDEV_POP",
    "Variance": "VARIANCE",
    "VariancePop": "VAR_POP",
}


def rewrite_functions(select: Any) -> exp.Select:
    """Return a SELECT whose functions are those that the translation reads; the tree that is given is changed."""
    from sqlglot import exp as kinds

    for node in reversed(list(select.walk())):  # what is inside first
        now = node
        if isinstance(node, kinds.Anonymous) and str(node.this).upper() in NAMES:
            now = getattr(kinds, NAMES[str(node.this).upper()])(this=node.expressions[0] if node.expressions else None)
            now.meta.update(node.meta)
            node.replace(now)
        change = CHANGES.get(type(now).__name__)
        made = now if change is None else change(now)
        if made is not now:
            now.replace(made)
    changed: exp.Select = select
    return changed


def _count_if(node: Any) -> Any:
    """COUNT_IF(c) is COUNT(CASE WHEN c THEN 1 END)."""
    return _count(node.this)


def _count(condition: Any) -> Any:
    from sqlglot import exp as kinds

    return kinds.Count(this=_case(condition, kinds.Literal.number(1)))


def _filter(node: Any) -> Any:
    """AGG(x) FILTER (WHERE c) is AGG(CASE WHEN c THEN x END): rows that do not meet c have nothing to add."""
    from sqlglot import exp as kinds

    of, condition = node.this, node.expression.this
    if not isinstance(of.this, kinds.Expression):  # a function that no dialect knows: refused by its name later on
        return of
    if isinstance(of, kinds.Count) and isinstance(of.this, kinds.Star):
        return _count(condition)
    if isinstance(of, kinds.WithinGroup):
        order = of.expression.expressions[0]
        order.set("this", _case(condition, order.this))
        return of
    distinct = of.this if isinstance(of.this, kinds.Distinct) else None
    if distinct is not None and any(isinstance(e, kinds.Tuple) for e in distinct.expressions):
        # a row that does not meet the condition would be a combination of missing values, which is counted
        raise QuestionRefused(
            "FILTER is not supported with COUNT(DISTINCT (a, b)): write the condition in WHERE, or COUNT(DISTINCT a, b), "
            "which leaves out rows with a missing value"
        )
    if distinct is not None:
        distinct.set("expressions", [_case(condition.copy(), e) for e in distinct.expressions])
    else:
        of.set("this", _case(condition, of.this))
    return of


def _case(condition: Any, value: Any) -> Any:
    from sqlglot import exp as kinds

    return kinds.Case(ifs=[kinds.If(this=condition.copy(), true=value.copy())])


def _count_all(node: Any) -> Any:
    """COUNT(ALL x) is COUNT(x)."""
    from sqlglot import exp as kinds

    return node.this if isinstance(node.parent, kinds.Count) else node


def _distinct_count(node: Any) -> Any:
    """APPROX_COUNT_DISTINCT(x) is COUNT(DISTINCT x)."""
    from sqlglot import exp as kinds

    return kinds.Count(this=kinds.Distinct(expressions=[node.this]))


def _quantile(node: Any) -> Any:
    """APPROX_QUANTILE(x, q) and APPROX_PERCENTILE(x, q) are QUANTILE(x, q)."""
    from sqlglot import exp as kinds

    return kinds.Quantile(this=node.this, quantile=node.args.get("quantile") or node.expression)


def _quantiles(node: Any) -> Any:
    """APPROX_QUANTILES(x, 4) lists the least value, the quartiles and the largest: all but the two ends are quantiles."""
    from sqlglot import exp as kinds

    count = _whole(node.expression)
    if isinstance(node.parent, kinds.Bracket) or count is None:
        return node
    inner = ", ".join(f"APPROX_QUANTILES({node.this.sql()}, {count})[OFFSET({i})]" for i in range(1, min(count, 4)))
    raise QuestionRefused(
        "APPROX_QUANTILES lists the least and the largest value too, and one row decides those: "
        f"ask for {inner or 'QUANTILE_CONT(x, 0.5)'}{', ...' if count > 4 else ''}"
    )


def _one_of_quantiles(node: Any) -> Any:
    """APPROX_QUANTILES(x, 100)[OFFSET(50)] is QUANTILE(x, 0.5)."""
    from sqlglot import exp as kinds

    if not isinstance(node.this, kinds.ApproxQuantiles) or len(node.expressions) != 1:
        return node
    count, place = _whole(node.this.expression), _whole(node.expressions[0])
    if count is None or place is None:
        return node
    level = (place - int(node.args.get("offset") or 0)) / count
    return kinds.Quantile(this=node.this.this, quantile=kinds.Literal.number(repr(level)))


def _whole(node: Any) -> int | None:
    return int(node.this) if node is not None and node.key == "literal" and str(node.this).isdigit() else None


def _slope(node: Any) -> Any:
    """REGR_SLOPE(y, x) is COVAR_POP(y, x) / VAR_POP(x), over the rows that have both."""
    from sqlglot import exp as kinds

    both = kinds.VariancePop(this=_where_present(node.expression, node.this))
    return kinds.Paren(
        this=kinds.Div(this=kinds.CovarPop(this=node.this.copy(), expression=node.expression.copy()), expression=both)
    )


def _intercept(node: Any) -> Any:
    """REGR_INTERCEPT(y, x) is AVG(y) - REGR_SLOPE(y, x) * AVG(x)."""
    from sqlglot import exp as kinds

    moved = kinds.Mul(this=_slope(node), expression=kinds.Avg(this=_where_present(node.expression, node.this)))
    return kinds.Paren(
        this=kinds.Sub(this=kinds.Avg(this=_where_present(node.this, node.expression)), expression=moved)
    )


def _determination(node: Any) -> Any:
    """REGR_R2(y, x) is CORR(y, x) squared."""
    from sqlglot import exp as kinds

    one = kinds.Corr(this=node.this, expression=node.expression)
    return kinds.Paren(this=kinds.Mul(this=one, expression=one.copy()))


def _where_present(value: Any, other: Any) -> Any:
    """Return a value in the rows that have the other too."""
    from sqlglot import exp as kinds

    return _case(kinds.Not(this=kinds.Is(this=other.copy(), expression=kinds.Null())), value)


def _bucket(node: Any) -> Any:
    """WIDTH_BUCKET(x, l, u, n) counts n equal bins from l to u from 1; 0 is below l, n + 1 from u on."""
    from sqlglot import exp as kinds

    low, high, count = (node.args[name] for name in ("min_value", "max_value", "num_buckets"))
    place = kinds.Floor(
        this=kinds.Div(
            this=kinds.Mul(this=kinds.Paren(this=kinds.Sub(this=node.this, expression=low)), expression=count),
            expression=kinds.Paren(this=kinds.Sub(this=high.copy(), expression=low.copy())),
        )
    )
    last = kinds.Paren(this=kinds.Add(this=count.copy(), expression=kinds.Literal.number(1)))
    counted = kinds.Greatest(
        this=kinds.Add(this=place, expression=kinds.Literal.number(1)), expressions=[kinds.Literal.number(0)]
    )
    return kinds.Least(this=counted, expressions=[last])


def _mode(node: Any) -> Any:
    """MODE() WITHIN GROUP (ORDER BY x) is MODE(x)."""
    from sqlglot import exp as kinds

    if not isinstance(node.this, kinds.Mode) or len(node.expression.expressions) != 1:
        return node
    return kinds.Mode(this=node.expression.expressions[0].this)


def _whole_window(node: Any) -> Any:
    """PERCENTILE_CONT(x, q) OVER () of all rows is the aggregate itself."""
    from sqlglot import exp as kinds

    quantile = isinstance(node.this, (kinds.PercentileCont, kinds.PercentileDisc, kinds.WithinGroup))
    parts = [name for name, value in node.args.items() if value and name not in ("this", "over")]
    return node.this if quantile and not parts else node


def _sum_constant(node: Any) -> Any:
    """SUM(1) is COUNT(*)."""
    from sqlglot import exp as kinds

    return kinds.Count(this=kinds.Star()) if isinstance(node.this, kinds.Literal) and node.this.this == "1" else node


def _convert(node: Any) -> Any:
    """CONVERT(type, x) is CAST(x AS type)."""
    from sqlglot import exp as kinds

    return kinds.Cast(this=node.expression, to=node.this) if node.args.get("style") is None else node


def _both_counted(node: Any) -> Any:
    """REGR_COUNT(y, x) counts the rows that have both."""
    from sqlglot import exp as kinds

    return kinds.Count(this=_where_present(node.this, node.expression))


def _any_of(node: Any) -> Any:
    """x = ANY(ARRAY[a, b]) is x IN (a, b); SOME is ANY."""
    from sqlglot import exp as kinds

    listed = _items(node.expression, "SOME")
    return node if listed is None else kinds.In(this=node.this, expressions=listed)


def _none_of(node: Any) -> Any:
    """x <> ALL(ARRAY[a, b]) is x NOT IN (a, b)."""
    from sqlglot import exp as kinds

    listed = None if isinstance(node.expression, kinds.Any) else _items(node.expression, "ALL")
    return node if listed is None else kinds.Not(this=kinds.In(this=node.this, expressions=listed))


def _items(node: Any, word: str) -> list[Any] | None:
    """Return what the array of ANY, or of the quantifier of that name, lists; None where there is no such array.

    A cast of texts to an array of texts changes none of them, and is left out.
    """
    from sqlglot import exp as kinds

    if isinstance(node, kinds.Any):
        listed = node.this.unnest()
    elif isinstance(node, kinds.Anonymous) and str(node.this).upper() == word and len(node.expressions) == 1:
        listed = node.expressions[0].unnest()
    else:
        return None
    if isinstance(listed, kinds.Cast) and isinstance(listed.this, kinds.Array):
        of = listed.to.expressions[0] if listed.to.expressions else None
        listed = listed.this if _is_text(of) and all(_is_literal(e) for e in listed.this.expressions) else listed
    if not isinstance(listed, kinds.Array) or not listed.expressions:
        return None
    casts = [isinstance(e, kinds.Cast) and _is_text(e.to) and _is_literal(e.this) for e in listed.expressions]
    return [e.this if cast else e for e, cast in zip(listed.expressions, casts, strict=True)]


def _is_text(kind: Any) -> bool:
    """Return whether a type is text of any length."""
    from sqlglot import exp as kinds

    return kind is not None and kind.this in (kinds.DType.TEXT, kinds.DType.VARCHAR) and not kind.expressions


def _is_literal(node: Any) -> bool:
    return bool(node.key == "literal" and node.is_string)


CHANGES: dict[str, Callable[[Any], Any]] = {
    "All": _count_all,
    "ApproxDistinct": _distinct_count,
    "ApproxQuantile": _quantile,
    "ApproxQuantiles": _quantiles,
    "Bracket": _one_of_quantiles,
    "Convert": _convert,
    "CountIf": _count_if,
    "EQ": _any_of,
    "Filter": _filter,
    "NEQ": _none_of,
    "RegrIntercept": _intercept,
    "RegrR2": _determination,
    "RegrSlope": _slope,
    "RegrCount": _both_counted,
    "Sum": _sum_constant,
    "WidthBucket": _bucket,
    "Window": _whole_window,
    "WithinGroup": _mode,
}
