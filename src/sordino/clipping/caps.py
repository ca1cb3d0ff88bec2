"""Caps: how many rows, and how many keys, of one unit should count - chosen privately, through a Queryable only.

It weighs what a cap loses, which is data, against the noise that it costs, which is public.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sordino.errors import QuestionRefused
from sordino.estimates.curve import Curve
from sordino.estimates.noisy import Noisy
from sordino.loss import ZCDP, Loss, Number, PureDP, format_number, to_fraction
from sordino.queries.adaptive.contributions import Contributions, contribution_bins
from sordino.queries.build import Column
from sordino.queries.expressions.expr import Expr, col
from sordino.queries.expressions.keys import keys
from sordino.queries.expressions.nodes import Node, describe
from sordino.queries.queryable import Adaptive, Queryable, ReleaseContent
from sordino.release import Key, Output, Release

__all__ = ["Tradeoff", "find_contribution_bounds", "lost_beyond", "tails", "weighed"]

_SURE = 1e-4


@dataclass(frozen=True, slots=True)
class Tradeoff:
    """What each cap of one kind would lose and cost: rows (or pairs of unit and key) and noise, and the cap chosen."""

    name: str
    caps: tuple[int, ...]
    lost: tuple[float, ...]
    deviations: tuple[float, ...]
    noise: tuple[float, ...]
    chosen: int
    how: str


def find_contribution_bounds(
    source: Adaptive,
    *,
    by: Column | None = None,
    assume_keys: int | None = None,
    question_epsilon: Number | None = None,
    epsilon: Number | None = None,
    delta: Number | None = None,
    rho: Number | None = None,
) -> Release:
    """Return a release that chose `max_rows`, and with `by` also `max_groups`, of least expected error of a count.

    A noisy histogram tells how many units have how many rows. A cap of m loses the rows above it and needs noise in
    proportion to m; the error of a count is at most about the sum of both, and that of a sum of alike values is in
    proportion. `question_epsilon` is the epsilon of one question to come: this search's own where it is not given. `by`
    is a column that rows are grouped by: a cap of g keys loses pairs of unit and key, and each key's count gets noise
    in proportion to g, so `assume_keys`, a public guess, says how many keys there are where they are not declared. Each
    of the two gets half of the loss.

    `.value` is the caps by name; the table tells lost, noise and error for each cap. Declare the caps with
    PrivacyUnit(column, max_rows=..., max_groups=...): they are a fact of the declaration, not of the data, from then on.

    Raises QuestionRefused where the privacy unit is a row, or the keys are unknown, before anything is spent.
    """
    node = _node(by)
    wanted = [Contributions(None), *([] if node is None else [Contributions(node)])]
    for query in wanted:
        query.parts(source.domain, source.neighbors)
    spread = _keys(source, node, assume_keys)
    worth = None if question_epsilon is None else to_fraction(question_epsilon, name="question_epsilon")
    if worth is not None and worth <= 0:
        raise QuestionRefused("question_epsilon, the epsilon of one question to come, must be above 0")
    words = "caps on the rows of one unit"
    if node is not None:
        words += f", and on its keys of {describe(node)}"
    if worth is not None:
        words += f", for questions at epsilon {format_number(worth)}"
    algorithm = _algorithm(wanted, spread, None if worth is None else float(worth))
    _, release = source.adapt(algorithm, describe=words, tell=_told, epsilon=epsilon, delta=delta, rho=rho)
    return release


def _node(by: Column | None) -> Node | None:
    if by is None:
        return None
    if not isinstance(by, (str, Expr)):
        raise QuestionRefused("by is a column to group by, named by text or by col(...)")
    return (col(by) if isinstance(by, str) else by).node


def _keys(source: Adaptive, node: Node | None, assumed: int | None) -> int:
    """Return how many keys noise is spread over: those declared, or the public guess."""
    if assumed is not None and (isinstance(assumed, bool) or not isinstance(assumed, int) or assumed < 1):
        raise QuestionRefused("assume_keys, a public guess at the number of keys, must be a whole number, 1 or more")
    if node is None:
        if assumed is not None:
            raise QuestionRefused("assume_keys goes with by=, a column to group by")
        return 1
    found = keys(node, source.domain)
    if not found.private:
        return len(found.labels)
    if assumed is None:
        raise QuestionRefused(
            f"the keys of {describe(node)} are not declared: give assume_keys, a public guess at how many there are"
        )
    return assumed


def _algorithm(
    wanted: Sequence[Contributions], spread: int, worth: float | None
) -> Callable[[Queryable], list[Tradeoff]]:
    def run(q: Queryable) -> list[Tradeoff]:
        each = _expected_noise(q.loss) if worth is None else 1 / worth
        found = []
        for query in wanted:
            told = q.release(query, _part(q.loss, Fraction(1, len(wanted)))).outputs[0].estimate
            assert isinstance(told, Noisy)
            name, noise = ("max_rows", each) if query.of is None else ("max_groups", each * spread)
            found.append(weighed(told, name=name, noise=noise))
        return found

    return run


def weighed(units: Noisy, *, name: str, noise: float) -> Tradeoff:
    """Return the trade-off of the caps that the noisy histogram supports; `noise` is what a cap of 1 costs.

    Rungs above the last that stands out of the noise are taken for empty: what few units hold there is not in the figures.
    """
    rungs = contribution_bins()
    last = _last_seen(units)
    if last is None:
        return Tradeoff(name, (1,), (0.0,), (0.0,), (noise,), 1, "no rung stood out of the noise: the least cap")
    middles = [(a + b - 1) / 2 for a, b in itertools.pairwise((*rungs, rungs[-1] + 1))][:last]
    held = tails([float(n) for n in units.steps[:last]])
    caps = tuple(b - 1 for b in (*rungs[1:], rungs[-1] + 1)[:last])
    deviation = math.sqrt(units.law.variance())
    lost = tuple(lost_beyond(held, middles, m) for m in caps)
    spreads = tuple(deviation * math.sqrt(math.fsum(max(v - m, 0) ** 2 for v in middles)) for m in caps)
    cost = tuple(noise * m for m in caps)
    best = min(range(len(caps)), key=lambda i: lost[i] + cost[i])
    how = f"the least sum of what is lost and noise; units above {caps[-1]:,} do not stand out of the noise"
    return Tradeoff(name, caps, lost, spreads, cost, caps[best], how)


def _last_seen(units: Noisy) -> int | None:
    """Return how many rungs there are up to the last that stands out of the noise, None where none does.

    A false find may cost noise a thousandfold, so noise alone makes one with chance 0.0001 at most: each of the rungs
    stays below the quantile of its noise at 0.0001 / rungs by itself.
    """
    own = units.law.error(1 - 2 * _SURE / len(units.steps))
    seen = [i for i, n in enumerate(units.steps) if n > own]
    return seen[-1] + 1 if seen else None


def tails(counts: Sequence[float]) -> list[float]:
    """Return the nearest counts whose sums from each rung on descend and are not below 0: post-processing.

    Isotonic regression of the noisy sums, by pooling adjacent violators.

    >>> tails([5.0, -2.0, 3.0])
    [4.0, 0.0, 2.0]
    """
    sums = list(itertools.accumulate(reversed(counts)))[::-1]  # from rung i on: should descend
    blocks: list[tuple[float, int]] = []
    for total in sums:
        blocks.append((total, 1))
        while len(blocks) > 1 and blocks[-2][0] < blocks[-1][0]:
            (a, n), (b, m) = blocks[-2], blocks[-1]
            blocks[-2:] = [((a * n + b * m) / (n + m), n + m)]
    level = [max(0.0, mean) for mean, size in blocks for _ in range(size)]
    return [a - b for a, b in itertools.pairwise((*level, 0.0))]


def lost_beyond(counts: Sequence[float], middles: Sequence[float], cap: int) -> float:
    """Return what units on these rungs have above a cap.

    >>> lost_beyond([10, 4], [1, 3], 1)
    8.0
    """
    return math.fsum(n * max(v - cap, 0) for n, v in zip(counts, middles, strict=True))


def _expected_noise(loss: Loss) -> float:
    """Return the mean size of the noise of a count of sensitivity 1: 1 / epsilon, or that of a Gaussian at rho."""
    amounts = loss.amounts()
    if "rho" in amounts:
        return math.sqrt(1 / (math.pi * float(amounts["rho"])))
    return 1 / float(amounts["epsilon"])


def _part(loss: Loss, share: Fraction) -> Loss:
    amounts = loss.amounts()
    return ZCDP(amounts["rho"] * share) if "rho" in amounts else PureDP(amounts["epsilon"] * share)


def _told(found: list[Tradeoff]) -> ReleaseContent:
    rows = [(t.name, m) for t in found for m in t.caps]
    columns = (Key("cap", tuple(n for n, _ in rows)), Key("at", tuple(m for _, m in rows)))
    lost = tuple(v for t in found for v in t.lost)
    noise = tuple(v for t in found for v in t.noise)
    doubt = tuple(v for t in found for v in t.deviations)
    none = (0.0,) * len(rows)
    outputs = (
        Output("lost", Curve(lost, doubt), "rows, or pairs of unit and key, above the cap"),
        Output("noise", Curve(noise, none), "mean size of the noise that the cap costs: public"),
        Output("error", Curve(tuple(a + b for a, b in zip(lost, noise, strict=True)), doubt), "the sum of both"),
    )
    notes = tuple(f"{t.name} {t.chosen}: {t.how}" for t in found)
    return ReleaseContent(columns, outputs, notes, tuple((t.name, Fraction(t.chosen)) for t in found))
