"""Audits by one run: many made-up rows are each put in by a coin, and somebody guesses which from what came out.

It may be given any function of a table, such as the fit of a synthetic table, that is too slow to run ten thousand times.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from sordino.audit.binomial_bounds import check_audit
from sordino.errors import DeclarationError
from sordino.noise.rng import Rng
from sordino.rounding import bisect

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["CanaryAudit", "audit_canaries", "canary_epsilon"]

_MOST = 50.0
T = TypeVar("T")


@dataclass(frozen=True, slots=True, repr=False)
class CanaryAudit:
    """Hold a one-run audit: how many of the guesses were right, the epsilon that this shows, and the most it could show."""

    subject: str
    epsilon: float
    delta: float
    least: float
    largest: float
    canaries: int
    guesses: int
    right: int
    alarm: float
    seed: int

    @property
    def violated(self) -> bool:
        """Whether more loss is shown than was claimed."""
        return self.least > self.epsilon

    def describe(self) -> str:
        """Return what was found in two sentences."""
        verdict = "MORE THAN CLAIMED" if self.violated else "no more than claimed"
        return (
            f"{self.subject}: of {self.canaries:,} rows put in by a coin, {self.right:,} of {self.guesses:,} guesses were right, "
            f"which shows epsilon {self.least:.3f} at least, {verdict} (epsilon {self.epsilon:.6g}, delta {self.delta:g}). One "
            f"run could show {self.largest:.2f} at most; what is sound is accused with chance {self.alarm:g}."
        )

    def __repr__(self) -> str:
        return f"<CanaryAudit, NOT PRIVATE: {self.describe()}>"

    def _repr_html_(self) -> str:
        return f"<p><b>One-run audit, NOT PRIVATE.</b> {escape(self.describe())}</p>"


def audit_canaries(
    function: Callable[[pa.Table], T],
    base: pa.Table,
    canaries: Sequence[Mapping[str, Any]],
    *,
    score: Callable[[T, Mapping[str, Any]], float],
    epsilon: float,
    delta: float = 0.0,
    guesses: int | None = None,
    alarm: float = 0.001,
    subject: str = "a function",
    seed: int = 1,
) -> CanaryAudit:
    """Audit `function` by one run on `base` and those of the `canaries` that a fair coin puts in, under add_remove.

    `score(output, canary)` is larger where a canary seems to have been in. Of the `guesses` (three quarters of the canaries
    where None) half are that those with the largest scores are in, half that those with the least are out. A canary is a
    row, so this audits privacy of a row.

    Theorem (Steinke, Nasr, Jagielski 2023, "Privacy auditing with one (1) training run", Theorem 5.2): of r guesses about
    independent fair coins, what is epsilon-private lets no more be right than Binomial(r, e^epsilon / (1 + e^epsilon));
    delta adds 2 m delta times the largest mean of the law just below. So the bound passes epsilon with probability `alarm`
    at most. It costs one run, and shows less than many runs on one pair.

    Raises DeclarationError for no canaries or another number of guesses than an even one, up to the canaries.
    """
    import pyarrow as pa

    count = len(canaries)
    taken = max(2, count * 3 // 8 * 2) if guesses is None else guesses
    check_audit(runs=count, delta=delta, alarm=alarm)
    if not 2 <= taken <= count or taken % 2:
        raise DeclarationError(f"guesses must be an even number from 2 to {count}, the number of canaries, not {taken}")
    rng = Rng.seeded(seed)
    inside = np.array([rng.bits(1) == 1 for _ in range(count)])
    rows = [dict(c) for c, coin in zip(canaries, inside.tolist(), strict=True) if coin]
    output = function(pa.concat_tables([base, pa.Table.from_pylist(rows, schema=base.schema)]))
    scores = np.array([float(score(output, c)) for c in canaries])
    order = np.lexsort((rng.words(count), -scores))  # ties by lot, never by place
    half = taken // 2
    right = int(inside[order[:half]].sum() + (~inside[order[count - half :]]).sum())
    least = canary_epsilon(right, guesses=taken, canaries=count, delta=delta, alarm=alarm)
    most = canary_epsilon(taken, guesses=taken, canaries=count, delta=delta, alarm=alarm)
    return CanaryAudit(subject, float(epsilon), delta, least, most, count, taken, right, alarm, seed)


def canary_epsilon(right: int, *, guesses: int, canaries: int, delta: float = 0.0, alarm: float = 0.001) -> float:
    """Return a lower bound on epsilon where `right` of the `guesses` about so many canaries were right.

    >>> round(canary_epsilon(95, guesses=100, canaries=100), 2), canary_epsilon(55, guesses=100, canaries=100)
    (1.69, 0.0)
    """

    def explains(epsilon: float) -> bool:
        return _chance(right, guesses, canaries, epsilon, delta) >= alarm

    if explains(0.0):
        return 0.0
    return _MOST if not explains(_MOST) else bisect(explains, 0.0, _MOST, relative=1e-9)[0]


def _chance(right: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    """Return a bound on the chance that so many guesses are right at a loss."""
    from scipy.stats import binom

    p = 1 / (1 + math.exp(-epsilon))
    chance = float(binom.sf(right - 1, guesses, p))
    if delta:
        below = np.cumsum(binom.pmf(np.arange(right - 1, -1, -1), guesses, p))
        chance += float((below / np.arange(1, right + 1)).max(initial=0.0)) * 2 * canaries * delta
    return min(1.0, chance)
