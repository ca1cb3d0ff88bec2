"""What an audit found: the epsilon that it shows at least, beside the claim and the most that it could have shown."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

_ROUNDING = 1e-9  # of exact laws computed in floats


@dataclass(frozen=True, slots=True)
class Bar:
    """Hold the share of outputs in one place of the histogram, on both neighbors."""

    output: str
    place: float
    here: float
    there: float


@dataclass(frozen=True, slots=True, repr=False)
class Audit:
    """Hold an audit: `epsilon` and `delta` as claimed, `least` the epsilon shown, `largest` the most that it could show.

    `typical` is what so many runs show of randomized response at the claim, `hits` how often the event came on the two
    neighbors in `runs` runs each, `alarm` the chance to accuse what is sound (0 where laws are exact). An audit reads the
    tables that it is given, and its noise is seeded: it is NOT PRIVATE, so give it invented rows.
    """

    subject: str
    epsilon: float
    delta: float
    least: float
    largest: float
    typical: float
    event: str
    hits: tuple[int, int]
    runs: int
    alarm: float
    seed: int | None
    histogram: tuple[Bar, ...] = ()

    @property
    def violated(self) -> bool:
        """Whether more loss is shown than was claimed."""
        return self.least > self.epsilon * (1 + _ROUNDING) + _ROUNDING

    @property
    def exact(self) -> bool:
        """Whether whole laws were compared, not samples."""
        return not self.runs

    def describe(self) -> str:
        """Return what was found in two sentences."""
        claim = f"epsilon {self.epsilon:.6g}" + (f" at delta {self.delta:g}" if self.delta else "")
        verdict = "MORE THAN CLAIMED" if self.violated else "no more than claimed"
        if self.exact:
            return f"{self.subject}: its laws differ by epsilon {self.least:.6g} exactly, {verdict} ({claim})."
        return (
            f"{self.subject}: {self.runs:,} runs on each neighbor show epsilon {self.least:.3f} at least, {verdict} "
            f"({claim}). The event, that {self.event}, came {self.hits[0]:,} and {self.hits[1]:,} times. A sound mechanism is "
            f"accused with chance {self.alarm:g}; so many runs could show {self.largest:.2f} at most, and show "
            f"{self.typical:.2f} of randomized response at the claim."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        return {**asdict(self), "violated": self.violated, "exact": self.exact, "private": False}

    def to_json(self) -> str:
        """Return all of it as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=2)

    def __repr__(self) -> str:
        return f"<Audit, NOT PRIVATE: {self.describe()}>"

    def __str__(self) -> str:
        return self.describe()

    def _repr_html_(self) -> str:
        color = "#b22222" if self.violated else "#222222"
        return f'<p style="color:{color}"><b>Audit, NOT PRIVATE.</b> {escape(self.describe())}</p>'
