"""The declared keys of dates and moments: days, truncations, bins and formats, each with the labels that show them."""

from __future__ import annotations

import datetime
import itertools
from fractions import Fraction
from typing import Any

from sordino.errors import QuestionRefused
from sordino.loss import format_number
from sordino.queries.expressions.bound_number import BoundNumber, bin_index
from sordino.queries.expressions.declared_values import value_keys
from sordino.queries.expressions.nodes import Bin, DateFormat, DateTrunc, Node, describe
from sordino.queries.expressions.sql_trees import Build, plus
from sordino.queries.expressions.time_formats import format_time
from sordino.queries.expressions.times import moment_constant, time_label, truncate_time
from sordino.time_zones import show_time

__all__ = ["time_keys"]

_MOST_KEYS = 1_000_000


def time_keys(node: Node, of: BoundNumber) -> tuple[tuple[Any, ...], Build]:
    """Return the labels and the code of a key that is made of a date or a moment `of`.

    Labels are dates, moments on the zone's clock, or texts of a format. Raises QuestionRefused where they are too many.
    """
    if isinstance(node, DateFormat):
        found = format_time(node.format, of)
        return (found.values, found.build) if len(set(found.values)) == len(found.values) else value_keys(found)
    if isinstance(node, Bin):
        return _bins(node, of)
    if isinstance(node, DateTrunc):
        truncation = truncate_time(node.unit, int(node.count), of)
        low, high = _ends(truncation.index, node)
        return tuple(truncation.label(i) for i in range(low, high + 1)), _from(truncation.index, low)
    low, high = _ends(of, node)
    return tuple(time_label(i, of) for i in range(low, high + 1)), _from(of, low)


def _from(of: BoundNumber, low: int) -> Build:
    return lambda on: plus(of.build(on), -low)


def _ends(of: BoundNumber, node: Node) -> tuple[int, int]:
    low, high = int(of.interval.lower or 0), int(of.interval.upper or 0)
    if high - low >= _MOST_KEYS:
        many, words = f"{describe(node)} has {high - low + 1} declared values, too many keys", describe(node)
        raise QuestionRefused(
            f'{many}: group by a coarser part, such as .truncate("day")',
            sql=f"{many}: group by a coarser part, such as DATE_TRUNC('day', {words})",
        )
    return low, high


def _bins(node: Bin, of: BoundNumber) -> tuple[tuple[datetime.date, ...], Build]:
    """Return bins from the lower bound on, by a width in days or seconds, or by edges; each is shown by where it begins."""
    values = of.values
    if node.edges is None:
        width, low, high = node.width or Fraction(1), values.lower or Fraction(0), values.upper or Fraction(0)
        if (width / of.unit).denominator != 1:
            what = "whole days" if of.kind == "date" else f"a multiple of {format_number(of.unit)} seconds"
            raise QuestionRefused(f"bins of {describe(node.of)} have a width of {what}, not {format_number(width)}")
        count = int((high - low) // width) + 1
        if count > _MOST_KEYS:
            raise QuestionRefused(f"bins of {describe(node.of)} make {count} keys, too many: take a larger width")
        starts = [low + width * i for i in range(count)]
        steps = [int(s / of.unit) for s in [*starts, low + width * count]]
    else:
        edges = [moment_constant(edge, of) for edge in node.edges]
        if any(a >= b for a, b in itertools.pairwise(edges)) or any((e / of.unit).denominator != 1 for e in edges):
            raise QuestionRefused(f"the edges of bins of {describe(node.of)} ascend, each a step of its resolution")
        starts, steps = edges[:-1], [int(e / of.unit) for e in edges]
    return tuple(show_time(s, of.kind, of.zone) for s in starts), bin_index(of, steps)
