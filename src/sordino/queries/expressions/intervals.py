"""Exact interval arithmetic: how large an expression can be, from how large its columns are declared to be."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sordino.loss import format_number

__all__ = ["Interval"]


@dataclass(frozen=True, slots=True)
class Interval:
    """All numbers from `lower` to `upper`; None means no bound on that side.

    >>> x = Interval(Fraction(-3), Fraction(2))
    >>> str(x.plus(x)), str(x.times(x)), str(x.square())
    ('[-6, 4]', '[-6, 9]', '[0, 9]')
    """

    lower: Fraction | None
    upper: Fraction | None

    @classmethod
    def point(cls, value: Fraction) -> Interval:
        """Return the interval of one number."""
        return cls(value, value)

    @property
    def bounded(self) -> bool:
        """Whether both sides have a bound."""
        return self.lower is not None and self.upper is not None

    @property
    def largest(self) -> Fraction | None:
        """The largest absolute value, None if there is none."""
        if self.lower is None or self.upper is None:
            return None
        return max(abs(self.lower), abs(self.upper))

    def plus(self, other: Interval) -> Interval:
        """Return where x + y lies."""
        low = None if self.lower is None or other.lower is None else self.lower + other.lower
        high = None if self.upper is None or other.upper is None else self.upper + other.upper
        return Interval(low, high)

    def hull(self, other: Interval) -> Interval:
        """Return the least interval that holds both."""
        low = None if self.lower is None or other.lower is None else min(self.lower, other.lower)
        high = None if self.upper is None or other.upper is None else max(self.upper, other.upper)
        return Interval(low, high)

    def negate(self) -> Interval:
        """Return where -x lies."""
        return Interval(None if self.upper is None else -self.upper, None if self.lower is None else -self.lower)

    def times(self, other: Interval) -> Interval:
        """Return where x * y lies: by the four corners, a zero against no bound being zero."""
        if Interval.point(Fraction(0)) in (self, other):
            return Interval.point(Fraction(0))
        corners = [_corner(a, b) for a in self._ends() for b in other._ends()]
        lows = any(v is None and s < 0 for v, s in corners)
        highs = any(v is None and s > 0 for v, s in corners)
        known = [v for v, _ in corners if v is not None]
        return Interval(None if lows else min(known), None if highs else max(known))

    def square(self) -> Interval:
        """Return where x * x lies, the two factors being the same."""
        magnitude = self.absolute()
        low = Fraction(0) if magnitude.lower is None else magnitude.lower**2
        return Interval(low, None if magnitude.upper is None else magnitude.upper**2)

    def absolute(self) -> Interval:
        """Return where abs(x) lies."""
        if self.lower is not None and self.lower >= 0:
            return self
        if self.upper is not None and self.upper <= 0:
            return self.negate()
        return Interval(Fraction(0), self.largest)

    def clip(self, lower: Fraction | None, upper: Fraction | None) -> Interval:
        """Return where min(max(x, lower), upper) lies."""
        low, high = self.lower, self.upper
        if lower is not None:
            low = lower if low is None else max(low, lower)
            high = high if high is None else max(high, lower)
        if upper is not None:
            high = upper if high is None else min(high, upper)
            low = low if low is None else min(low, upper)
        return Interval(low, high)

    def scale(self, factor: Fraction) -> Interval:
        """Return where factor * x lies."""
        return self.times(Interval.point(factor))

    def _ends(self) -> tuple[tuple[Fraction | None, int], tuple[Fraction | None, int]]:
        return (self.lower, -1), (self.upper, 1)

    def __str__(self) -> str:
        low = "-inf" if self.lower is None else format_number(self.lower)
        high = "inf" if self.upper is None else format_number(self.upper)
        return f"[{low}, {high}]"


def _corner(a: tuple[Fraction | None, int], b: tuple[Fraction | None, int]) -> tuple[Fraction | None, int]:
    """Return the product of two ends; (None, sign) where it is infinite, 0 where a zero meets an infinity."""
    (x, x_end), (y, y_end) = a, b
    if x is not None and y is not None:
        return x * y, 0
    x_sign = x_end if x is None else (x > 0) - (x < 0)
    y_sign = y_end if y is None else (y > 0) - (y < 0)
    sign = x_sign * y_sign
    return (Fraction(0), 0) if sign == 0 else (None, sign)
