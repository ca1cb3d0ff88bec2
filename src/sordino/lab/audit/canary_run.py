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

from sordino.core.errors import DeclarationError
from sordino.core.noise.rng import Rng
from sordino.core.rounding import bisect
from sordino.lab.audit.verdict import check_audit

if TYPE_CHECKING:
    import pyarrow as pa

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

    Theorem: of r guesses about m independent fair coins, what is (epsilon, delta)-private lets v or more be right with
    probability at most B + m delta B (1 - B) / (v b), where B = P(W >= v), b = P(W = v) and W is binomial, r times
    p = e^epsilon / (1 + e^epsilon). So the bound passes epsilon with probability `alarm` at most. No smaller bound holds. At
    delta 0 it is Steinke, Nasr, Jagielski 2023, "Privacy auditing with one (1) training run"; their term of delta,
    2 m delta max_i P(v - i <= W < v) / i, is larger. It costs one run, and shows less than many runs on one pair.

    Proof: guesses are a function of the output, so what maps coins to guesses is private too. Flip and reorder all coins
    at random, undo it on the guesses: still private, and as many are right. Now every pattern of k right guesses is as
    likely as any other; let q_k be all of them together. Patterns that differ by one flipped coin have k and k - 1 right,
    and counting them, privacy says sum_k [k q_k - e^epsilon (r - k + 1) q_(k-1)]_+ <= m delta. Let b_k = P(W = k) and
    u_k = (P(W >= max(k, v)) - B P(W >= k)) / (k b_k), which is 0 or more. As (k + 1) b_(k+1) = e^epsilon (r - k) b_k,
    k u_k - e^epsilon (r - k) u_(k+1) = 1[k >= v] - B, so sum_(k>=v) q_k - B = sum_k u_k (k q_k - e^epsilon (r - k + 1)
    q_(k-1)) <= max_k u_k m delta. The largest is u_v, since b is log-concave. It is attained by q_k = a b_k below v and
    c b_k from v on, c - a = m delta / (v b).

    Raises DeclarationError for no canaries or another number of guesses than an even one, up to the canaries.
    """
    import pyarrow as pa

    count = len(canaries)
    guess_count = max(2, count * 3 // 8 * 2) if guesses is None else guesses
    check_audit(runs=count, delta=delta, alarm=alarm)
    if not 2 <= guess_count <= count or guess_count % 2:
        raise DeclarationError(
            f"guesses must be an even number from 2 to {count}, the number of canaries, not {guess_count}"
        )
    rng = Rng.seeded(seed)
    inside = np.array([rng.bits(1) == 1 for _ in range(count)])
    rows = [dict(c) for c, coin in zip(canaries, inside.tolist(), strict=True) if coin]
    output = function(pa.concat_tables([base, pa.Table.from_pylist(rows, schema=base.schema)]))
    scores = np.array([float(score(output, c)) for c in canaries])
    # Ties are broken by lot, never by place.
    order = np.lexsort((rng.words(count), -scores))
    half = guess_count // 2
    right = int(inside[order[:half]].sum() + (~inside[order[count - half :]]).sum())
    least = canary_epsilon(right, guesses=guess_count, canaries=count, delta=delta, alarm=alarm)
    most = canary_epsilon(guess_count, guesses=guess_count, canaries=count, delta=delta, alarm=alarm)
    return CanaryAudit(subject, float(epsilon), delta, least, most, count, guess_count, right, alarm, seed)


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
    """Return the largest chance that so many guesses are right at a loss (the theorem of `audit_canaries`)."""
    from scipy.special import bdtrc

    if not right:
        return 1.0
    odds = math.exp(epsilon)
    p = 1 / (1 + math.exp(-epsilon))
    reached = float(bdtrc(right - 1, guesses, p))
    if not delta:
        return reached
    above = np.arange(right, guesses)
    below = np.arange(right, 0, -1)
    # B / b and (1 - B) / b are sums of products of ratios: take the one that cannot overflow.
    if right > guesses * p:
        slope = (1 - reached) * (1 + float(np.cumprod(odds * (guesses - above) / (above + 1)).sum()))
    else:
        slope = reached * float(np.cumprod(below / (odds * (guesses - below + 1))).sum())
    return min(1.0, reached + canaries * delta * slope / right)
