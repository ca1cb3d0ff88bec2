"""Aggregates that SQL writes in ways of its own: quantiles, sums of each unit's total, and the hint that bounds contributions."""

from __future__ import annotations

import re
from typing import Any

from sordino.ask.queries.aggregates.quantile import quantile, quantiles
from sordino.ask.queries.build import AggregateExpr, sum
from sordino.ask.queries.sql.text import Place, trees
from sordino.ask.queries.sql.values import Translator
from sordino.core.errors import QuestionRefused, nearest
from sordino.core.neighbors import ContributionBounds


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


_ONE = re.compile(r"\s*([A-Za-z_]+)\s*\(\s*(\d{1,10})\s*\)\s*,?")
_NAMES = tuple(name for name, _ in ContributionBounds().items())


def read_bounds(place: Place, tree: Any) -> ContributionBounds | None:
    """Return the bounds that the hint of a parsed question states, None where it has none.

    Raises QuestionRefused for any other hint, and for one that is not in the outer SELECT.
    """
    stated: dict[str, int] = {}
    for select in tree.find_all(trees().Select):
        hint = select.args.get("hint")
        texts = [c[1:] for c in select.comments or () if c.startswith("+")]
        texts += [] if hint is None else [", ".join(e.sql() for e in hint.expressions)]
        if texts and select is not tree:
            raise QuestionRefused(
                f"{place.of(select)}a hint bounds the whole question: write it after the outer SELECT"
            )
        for text in texts:
            stated |= _read(text)
    return ContributionBounds(**stated) if stated else None


def is_unit_total(item: Any) -> bool:
    """Say whether an aggregate is SUM(CLIP_UNIT(...))."""
    inner = item.this
    return isinstance(item, trees().Sum) and isinstance(inner, trees().Anonymous) and inner.name.upper() == "CLIP_UNIT"


def read_unit_total(place: Place, values: Translator, item: Any) -> AggregateExpr:
    """Return the sum that CLIP_UNIT(x, lower, upper) stands in: of each unit's total, clipped."""
    if len(item.expressions) != 3:
        raise QuestionRefused(f"{place.of(item)}CLIP_UNIT takes a number and two bounds: CLIP_UNIT(cost, 0, 500)")
    of, lower, upper = item.expressions
    return sum(values.value(of), per_unit=(values.number(lower), values.number(upper)))


def _read(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    at = 0
    while text[at:].strip():
        one = _ONE.match(text, at)
        name = "" if one is None else one[1].lower()
        if one is None or name not in _NAMES:
            word = " ".join(text[at:].split())[:40] if one is None else one[1]
            close = "" if one is None else "; " + nearest(name, _NAMES)
            raise QuestionRefused(
                f"the hint {word!r} is not supported: hints are MAX_ROWS(5), MAX_GROUPS(3) and MAX_ROWS_PER_GROUP(1){close}"
            )
        found[name], at = int(one[2]), one.end()
    return found
