"""Off the grid: equalities of a question that no row can meet, as the constant is no whole number of steps. Knows no data."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from sordino.domain import Boolean, Category, Domain, Identifier
from sordino.loss import format_number
from sordino.queries.expressions.compile import bind_number
from sordino.queries.expressions.nodes import Compare, Constant, IsIn, Name, Node, describe, walk

__all__ = ["never_equal"]


def never_equal(expressions: Sequence[Node], domain: Domain) -> tuple[str, ...]:
    """Return a sentence for each equality with a constant between two steps: `price = 9.995` in steps of 0.01.

    `domain` is the question's own, public tables joined. What is said follows from the question and the declaration.
    """
    found: dict[str, None] = {}
    for at in itertools.chain.from_iterable(map(walk, expressions)):
        if isinstance(at, Compare) and at.op in ("=", "!=") and isinstance(at.right, Constant):
            found |= dict.fromkeys(_said(at.left, [at.right.value], domain))
        elif isinstance(at, IsIn):
            found |= dict.fromkeys(_said(at.of, at.values, domain))
    return tuple(sorted(found))


def _said(of: Node, values: Any, domain: Domain) -> list[str]:
    constants = [v for v in values if isinstance(v, Fraction) and not isinstance(v, bool)]
    if not constants or (isinstance(of, Name) and isinstance(domain[of.name], (Category, Boolean, Identifier))):
        return []
    unit = bind_number(of, domain).unit
    return [
        f"{describe(Compare('=', of, Constant(v)))} is true for no row: {describe(of)} is read in steps of {format_number(unit)}"
        for v in constants
        if (v / unit).denominator != 1
    ]
