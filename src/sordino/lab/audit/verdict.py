"""What samples show of a loss: binomial bounds, and the verdict of an audit."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

import numpy as np

from sordino.core.errors import DeclarationError

# ---- What counts of one event on two neighbors say about epsilon, and the most that they could say. It knows counts
# alone

Floats = np.ndarray[Any, np.dtype[np.float64]]


def least_epsilon(more: int, less: int, *, runs: int, delta: float = 0.0, alarm: float = 0.001) -> float:
    """Return a lower bound on epsilon where an event came `more` times in `runs` on one neighbor, `less` on the other.

    Theorem: if the event was fixed before the runs, then what is (epsilon, delta)-private gets a bound above epsilon with
    probability `alarm` at most. Proof: p <= e^epsilon q + delta for the chances of the event. p is below its lower
    Clopper-Pearson bound with probability alarm / 2, q above its upper one likewise; else the bound
    ln((p_low - delta) / q_high) is ln((p - delta) / q) <= epsilon at most. (Clopper, Pearson 1934; Jagielski, Ullman, Oprea
    2020, "Auditing differentially private machine learning".)

    Either relation: the neighbors are whatever was run. 0 where nothing is shown. Raises DeclarationError unless counts are
    from 0 to `runs`, 0 <= delta < 1 and 0 < alarm < 1.

    >>> round(least_epsilon(900, 300, runs=1000), 3), least_epsilon(300, 900, runs=1000)
    (0.906, 0.0)
    """
    check_audit(runs=runs, delta=delta, alarm=alarm)
    if not (0 <= more <= runs and 0 <= less <= runs):
        raise DeclarationError(f"an event comes from 0 to {runs} times in {runs} runs, not {more} and {less} times")
    bounds = bound_epsilons(np.array([more]), np.array([less]), runs=runs, delta=delta, alarm=alarm)
    return max(0.0, float(bounds[0]))


def largest_epsilon(runs: int, *, delta: float = 0.0, alarm: float = 0.001) -> float:
    """Return the largest epsilon that so many runs on each neighbor could show: of an event always here and never there.

    >>> round(largest_epsilon(1000), 2), round(largest_epsilon(100_000), 2)
    (4.88, 9.48)
    """
    return least_epsilon(runs, 0, runs=runs, delta=delta, alarm=alarm)


def typical_epsilon(epsilon: float, *, runs: int, delta: float = 0.0, alarm: float = 0.001) -> float:
    """Return what so many runs show of randomized response at (epsilon, delta), which hides the least: the power to expect.

    No event of an (epsilon, delta)-private mechanism is more telling (Kairouz, Oh, Viswanath 2015). A fault that doubles
    the loss is therefore seen only where this, at twice epsilon, is above epsilon.

    >>> round(typical_epsilon(1, runs=1000), 2), round(typical_epsilon(1, runs=100_000), 3)
    (0.77, 0.977)
    """
    if not epsilon >= 0:
        raise DeclarationError("epsilon must be 0 or more")
    check_audit(runs=runs, delta=delta, alarm=alarm)
    less = (1 - delta) / (1 + math.exp(min(epsilon, 700.0)))
    return least_epsilon(round((1 - less) * runs), round(less * runs), runs=runs, delta=delta, alarm=alarm)


def bound_epsilons(
    more: np.ndarray[Any, Any], less: np.ndarray[Any, Any], *, runs: int, delta: float, alarm: float
) -> Floats:
    """Return the bound of `least_epsilon` for many events, which may be below 0."""
    from scipy.special import betaincinv

    low = np.where(more > 0, betaincinv(np.maximum(more, 1), runs - more + 1.0, alarm / 2), 0.0) - delta
    high = np.where(less < runs, betaincinv(less + 1.0, np.maximum(runs - less, 1), 1 - alarm / 2), 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(low > 0, np.log(np.maximum(low, 1e-300) / high), -np.inf)


def check_audit(*, runs: int, delta: float, alarm: float) -> None:
    """Raise DeclarationError for numbers that no audit can have."""
    if isinstance(runs, bool) or not isinstance(runs, int) or runs < 1:
        raise DeclarationError(f"runs must be a whole number, 1 or more, not {runs!r}")
    if not 0 <= delta < 1:
        raise DeclarationError(f"delta must lie in [0, 1), not {delta!r}")
    if not 0 < alarm < 1:
        raise DeclarationError(f"alarm, the chance to accuse what is sound, must lie between 0 and 1, not {alarm!r}")


# ---- What an audit found: the epsilon that it shows at least, beside the claim and the most that it could have shown

# The error of exact laws computed in floats.
_ROUNDING = 1e-9


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
