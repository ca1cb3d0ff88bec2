"""Values that an earlier question of the same statement releases, as constants of a later one's text.

A text is written before the charge, when no value is known: a token stands for each. Just before the text runs the token is
replaced by the released value, a public number. So what is written, and the shape and noise of the answer, follow from the
declared range alone. A token is a cast, CAST('...' AS BIGINT), which no text of a question can be: within a text its quotes are
doubled, or written with a backslash.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sordino.ask.queries.expressions.bound_number import BoundNumber, Interval
from sordino.ask.queries.expressions.nodes import Released
from sordino.ask.queries.expressions.sql_trees import Build, trees, whole
from sordino.core.domain import STORED
from sordino.core.errors import QuestionRefused
from sordino.core.loss import format_number

if TYPE_CHECKING:
    from sqlglot import exp

    from sordino.core.primitives import Primitives

TOKEN = "sordino_released_"
_TOKEN = re.compile(rf"CAST\('({TOKEN}\d+)(?:=([0-9a-f]*))?' AS BIGINT\)")


def released_number(node: Released) -> BoundNumber:
    """Return a released number as a number of each row: its range is the declared one, and it may be missing."""
    stored = _stored_range(node)
    interval = Interval(None if node.lower is None else stored.lower, None if node.upper is None else stored.upper)
    return BoundNumber(node.unit, interval, stored, True, lambda _: _token(node.name), meaning=node)


def released_lookup(values: Iterable[Any], code: Build, node: Released) -> BoundNumber:
    """Return the released number of a row's value; `values` by the code that `code` gives."""

    def build(on: Primitives) -> exp.Expression:
        case: exp.Expression = trees().paren(trees().Case(this=trees().paren(code(on)), ifs=_tokens(values, node)))
        return case

    return replace(released_number(node), build=build)


def is_released(values: Iterable[Any], code: Build, node: Released) -> Build:
    """Return the condition that a row's value is among the released ones; `values` by the code that `code` gives."""

    def build(on: Primitives) -> exp.Expression:
        flag = trees().Case(this=trees().paren(code(on)), ifs=_tokens(values, node))
        condition: exp.Expression = trees().paren(trees().EQ(this=trees().paren(flag), expression=whole(1)))
        return condition

    return build


def _tokens(values: Iterable[Any], node: Released) -> list[Any]:
    """Return, by code, the token of each declared value."""
    return [
        trees().If(this=whole(place), true=_token(f"{node.name}={label_text(value).encode().hex()}"))
        for place, value in enumerate(values)
        if value is not None
    ]


@dataclass(frozen=True, slots=True)
class ReleasedValues:
    """The values of the tokens of a text: whole steps each, of each value of a row, or the values that are released."""

    numbers: Mapping[str, int | None]
    lookups: Mapping[str, Mapping[str | None, int | None]]
    values: Mapping[str, frozenset[str | None]]

    @property
    def names(self) -> frozenset[str]:
        """The values that a text may name."""
        return frozenset((*self.numbers, *self.lookups, *self.values))

    def bind(self, text: str) -> str:
        """Return a text with the released values in the place of their tokens."""
        return _TOKEN.sub(self._value, text) if TOKEN in text else text

    def _value(self, token: re.Match[str]) -> str:
        name, code = token.groups()
        label = None if code is None else bytes.fromhex(code).decode()
        if name in self.values:
            released = self.values[name]
            value = 1 if label in released else None if None in released else 0
        else:
            value = self.numbers[name] if label is None else self.lookups[name].get(label)
        literal = "NULL" if value is None else f"'{value}'"
        return f"CAST({literal} AS BIGINT)"


def check_tokens(text: str, names: Container[str]) -> None:
    """Raise QuestionRefused for a text that holds anything of a token but whole ones of these names: none could be bound."""
    whole_tokens = [name for name, _ in _TOKEN.findall(text) if name in names]
    if text.count(TOKEN) != len(whole_tokens):
        raise QuestionRefused(
            f"{TOKEN} is a word of Sordino's own: a released value has a place in the statement that releases it, and "
            "nowhere else"
        )


def whole_steps(value: Any, node: Released) -> int | None:
    """Return a released number in whole steps of its node, clipped into its range; None where it is no number."""
    if value is None or isinstance(value, (str, datetime.date)):
        return None
    try:
        steps = round(Fraction(value) / node.unit)
    except (ValueError, OverflowError):
        return None
    stored = _stored_range(node)
    assert stored.lower is not None
    assert stored.upper is not None
    return max(int(stored.lower), min(int(stored.upper), steps))


def label_text(value: Any) -> str:
    """Return the text of a value that is compared for equality: the same for equal values of every type."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        # A float stands for the shortest decimal that it is read from, as a declared step does.
        value = Decimal(repr(value))
    if isinstance(value, (int, Decimal, Fraction)):
        return format_number(Fraction(value))
    if isinstance(value, datetime.datetime):
        # A day may come as its first moment, and a moment with its zone or without, by the clock of the zone.
        return value.replace(tzinfo=None).isoformat().removesuffix("T00:00:00")
    return value.isoformat() if isinstance(value, datetime.date) else str(value)


def _stored_range(node: Released) -> Interval:
    low = Fraction(-STORED) if node.lower is None else node.lower / node.unit
    high = Fraction(STORED) if node.upper is None else node.upper / node.unit
    return Interval(Fraction(max(-STORED, low.__floor__())), Fraction(min(STORED, high.__ceil__())))


def _token(text: str) -> exp.Expression:
    cast: exp.Expression = trees().Cast(this=trees().Literal.string(text), to=trees().DataType.build("BIGINT"))
    return cast
