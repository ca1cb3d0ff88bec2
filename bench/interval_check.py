"""What a check of intervals is made of: what was drawn, how often it held, and the verdict at a stated false-alarm rate."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

CONFIDENCES = (0.5, 0.9, 0.95, 0.99)
FALSE_ALARMS = 0.01  # the chance that any verdict of a run errs, were every coverage at the end of its band
BELOW, ABOVE = 0.01, 0.02  # how far coverage may lie under and over its nominal value


@dataclass(frozen=True)
class Draws:
    """What one place of the grid drew: a truth and a value a draw, and the ends of the intervals at a confidence.

    `promise` says what its intervals promise: "each" is the confidence for each value by itself, to be met from both
    sides; "at least" is a bound for the worst data; "together" a bound for all rows of a `family` at once; "on average"
    is over questions. `least` and `most` are what a value can be. Draws of one `family` may depend on each other.
    """

    kind: str
    place: str
    truth: Any
    values: Any
    ends: Callable[[float], tuple[Any, Any]]
    promise: str = "each"
    least: float = -math.inf
    most: float = math.inf
    family: Any = None


@dataclass(frozen=True)
class Check:
    """One place of the grid at one confidence: what share of `draws` held, and how wide the intervals were.

    `narrowest` is the least mean width of intervals [value - s, value + t], cut to what a value can be, that cover: with s = t,
    or with equal tails. Where values are clamped to a bound it is that with s = t: equal tails would know that the truth lies at
    the bound. `unavoidable` is the larger coverage of these two: above the nominal one where errors come in whole steps.
    """

    kind: str
    place: str
    promise: str
    confidence: float
    draws: int
    coverage: float
    width: float
    narrowest: float
    unavoidable: float
    odds_below: float  # the chance of coverage as low as this or lower at the lower end of the band
    odds_above: float

    @property
    def ratio(self) -> float:
        """The mean width over the narrowest; 1 where both are 0."""
        return 1.0 if self.width <= 1e-9 else self.width / self.narrowest if self.narrowest > 0 else math.inf


def check(drawn: Draws, confidence: float) -> Check:
    """Return how the intervals of what was drawn hold at one confidence."""
    low, high = (np.asarray(e, dtype=float) for e in drawn.ends(confidence))
    values, truth = np.asarray(drawn.values, dtype=float), np.broadcast_to(drawn.truth, np.shape(drawn.values))
    slack = 1e-9 * np.maximum(1.0, np.abs(truth))
    held = (low - slack <= truth) & (truth <= high + slack)
    narrowest, unavoidable = _narrowest(values, truth, drawn, confidence)
    families = held.astype(float) if drawn.family is None else _by_family(held, drawn)
    width, step = float(np.mean(high - low)), _step(values)
    wide = (
        drawn.promise == "each" and width > narrowest + 1.1 * step
    )  # the steps of a formula such as a root differ a little
    upper = max(confidence, unavoidable) + ABOVE if wide else 1.0
    below, above = _odds(families, confidence - BELOW, upper, counted=drawn.promise != "on average")
    return Check(
        drawn.kind, drawn.place, drawn.promise, confidence, len(families), float(families.mean()),
        width, narrowest, unavoidable, below, above,
    )  # fmt: skip


def judge(checks: Sequence[Check]) -> list[str]:
    """Return the verdict of each: "below", "above" or "".

    Every test has the chance FALSE_ALARMS / (2 checks) to err at the end of its band (Bonferroni), so all together at most
    FALSE_ALARMS.
    """
    alpha = FALSE_ALARMS / (2 * max(1, len(checks)))
    return ["below" if c.odds_below < alpha else "above" if c.odds_above < alpha else "" for c in checks]


def _narrowest(values: Any, truth: Any, drawn: Draws, confidence: float) -> tuple[float, float]:
    """Return the mean width and the coverage of the narrowest intervals that these very errors allow."""
    errors = values - truth
    most = float(np.quantile(np.abs(errors), confidence, method="inverted_cdf"))
    tails = np.quantile(errors, [(1 - confidence) / 2, (1 + confidence) / 2], method="inverted_cdf")
    widths, shares = [], []
    clamped = any(np.any(values == end) and not np.any(sign * (values - end) > 0) for sign, end in _ends(drawn))
    for below, above in ((-most, most),) if clamped else ((-most, most), tails):
        slack = 1e-9 * max(1.0, abs(below), abs(above))
        low, high = (np.clip(values - e, drawn.least, drawn.most) for e in (above, below))
        widths.append(float(np.mean(high - low)))
        shares.append(float(np.mean((errors >= below - slack) & (errors <= above + slack))))
    return min(widths), max(shares)


def _ends(drawn: Draws) -> tuple[tuple[int, float], tuple[int, float]]:
    """Return the bounds of a value, each with the side on which none can be."""
    return (-1, drawn.least), (1, drawn.most)


def _step(values: Any) -> float:
    """Return the least distance of two different values: intervals may be wider by that much than the narrowest."""
    gaps = np.diff(np.unique(np.round(values[np.isfinite(values)], 9)))
    return float(gaps.min()) if len(gaps) else 0.0


def _by_family(held: Any, drawn: Draws) -> Any:
    """Return for each family whether all of it held, or of averages which share did."""
    names, places = np.unique(drawn.family, return_inverse=True)
    sums = np.bincount(places, weights=held, minlength=len(names))
    shares = sums / np.bincount(places, minlength=len(names))
    return shares if drawn.promise == "on average" else (shares == 1.0).astype(float)


def _odds(held: Any, low: float, high: float, *, counted: bool) -> tuple[float, float]:
    """Return the chances of a share as low at `low`, and as high at `high`: binomial, or Student's t of families' shares."""
    from scipy.stats import binom, t

    n, total = len(held), float(held.sum())
    if counted:
        return float(binom.cdf(total, n, low)), float(binom.sf(total - 1, n, high)) if high < 1 else 1.0
    error = max(float(np.std(held, ddof=1)), 0.01) / math.sqrt(n)
    return float(t.cdf((total / n - low) / error, n - 1)), 1.0
