"""Quantiles as SQL calls them: QUANTILE_CONT(x, q), QUANTILE_CONT(x, [q, r]), PERCENTILE_CONT(q) WITHIN GROUP (ORDER BY x)."""

from __future__ import annotations

from typing import Any

from sordino.errors import QuestionRefused
from sordino.queries.aggregates.quantile import quantile, quantiles
from sordino.queries.build import AggregateExpr
from sordino.queries.sql.text import Place, trees
from sordino.queries.sql.values import Translator

__all__ = ["read_quantile"]


def read_quantile(place: Place, values: Translator, item: Any) -> AggregateExpr:
    """Return the quantiles of QUANTILE_CONT(x, q), QUANTILE_CONT(x, [q, r]) and PERCENTILE_CONT(q) WITHIN GROUP (ORDER BY x)."""
    kinds = trees()
    if isinstance(item, kinds.WithinGroup):
        level, order = item.this.this, item.expression.expressions
        if type(item.this).__name__ not in ("PercentileCont", "PercentileDisc") or len(order) != 1:
            raise QuestionRefused(f"{place.of(item)}WITHIN GROUP takes PERCENTILE_CONT(0.5) and one column")
        if order[0].args.get("desc"):
            raise QuestionRefused(f"{place.word('DESC')}DESC is not supported here: ask for 1 - the quantile")
        of = order[0].this
    else:
        of, level = item.this, item.args.get("quantile") or item.expression
    if level is None:
        raise QuestionRefused(f"{place.of(item)}a quantile needs its level: QUANTILE_CONT(age, 0.9)")
    value = values.value(of)
    if isinstance(level, kinds.Array):
        return quantiles(value, [values.number(e) for e in level.expressions])
    return quantile(value, values.number(level))
