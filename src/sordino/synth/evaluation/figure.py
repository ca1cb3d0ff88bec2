"""One figure of an evaluation and the reach of its noise: what the noise hides is not shown. It knows no data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

# The confidence of what is said of a figure.
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Figure:
    """A released figure whose true value lies within `reach` of it at 95%; `reach` is 0 where it is exact.

    A figure no larger than its reach cannot be told from 0: `shown` is then None, and `most` is what it is at most. `cap`
    is the largest absolute value there can be.

    >>> Figure(0.54, 0.94).text(), Figure(0.54, 0.1).text(), Figure(-0.2, 0.0).text()
    ('below the noise (at most 1.00)', '0.54', '-0.20')
    """

    value: float
    reach: float = 0.0
    cap: float = 1.0

    @property
    def shown(self) -> float | None:
        """The value, None where the noise hides it."""
        if math.isnan(self.value) or not math.isfinite(self.reach):
            return None
        hidden = self.reach > 0 and abs(self.value) <= self.reach
        return None if hidden else min(max(self.value, -self.cap), self.cap)

    @property
    def most(self) -> float:
        """The largest absolute value that the noise leaves possible."""
        most = abs(self.value) + self.reach
        return min(most, self.cap) if math.isfinite(most) else self.cap

    def text(self, places: int = 2) -> str:
        """Return the value, or that the noise hides it and what it is at most."""
        if self.shown is None:
            return f"below the noise (at most {round_up(self.most, places)})"
        return f"{round(self.shown, places) + 0.0:.{places}f}"

    def short(self, places: int = 2) -> str:
        """Return the same for a cell of a table: `<` and what it is at most, `?` where that says nothing.

        >>> Figure(0.05, 0.1).short(), Figure(0.9, 4.0).short()
        ('< 0.15', '?')
        """
        if self.shown is not None:
            return self.text(places)
        return "?" if self.most >= self.cap else f"< {round_up(self.most, places)}"

    def with_error(self, places: int = 2) -> str:
        """Return the value and its error at 95%, or that the noise hides it."""
        if self.shown is None or not self.reach:
            return self.text(places)
        return f"{self.text(places)} within {round_up(self.reach, places)}"

    def to_dict(self) -> dict[str, Any]:
        """Return the figure as JSON data: a value that the noise hides is null, `at_most` says what it can be."""
        error = self.reach if math.isfinite(self.reach) else None
        return {"value": self.shown, "error95": error, "at_most": None if self.shown is not None else self.most}


def round_up(value: float, places: int) -> str:
    """Return a bound in digits, rounded up.

    >>> round_up(0.1234, 2), round_up(0.15, 2)
    ('0.13', '0.15')
    """
    scale = 10.0**places
    return f"{math.ceil(round(value * scale, 6)) / scale:.{places}f}"
