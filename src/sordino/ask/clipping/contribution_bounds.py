"""Contribution bounds: how many rows, keys, and rows a key, of one unit should count, chosen privately through a Queryable.

A bound is a cap: what it loses depends on the data, what its noise costs is public. The search weighs one against the other,
by the rising concave curve that lies nearest to noisy sums clipped at rising bounds. It sees released sums only, so it is
post-processing and free.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Unpack

import numpy as np
import numpy.typing as npt

from sordino.ask.queries.adaptive.contributions import Contributions, contribution_bins
from sordino.ask.queries.build import Column
from sordino.ask.queries.expressions.expr import Expr, col
from sordino.ask.queries.expressions.keys import keys
from sordino.ask.queries.expressions.nodes import Node, describe
from sordino.ask.queries.queryable import Adaptive, Queryable, ReleaseContent
from sordino.core.errors import QuestionRefused, arg
from sordino.core.estimates.noisy import Noisy
from sordino.core.estimates.weighted_sum import NoisyCurve
from sordino.core.loss import Loss, LossArguments, Number, format_number, loss_from, show_arguments, to_fraction
from sordino.core.neighbors import Neighbors
from sordino.core.release import Key, Output, Release

# The chance that any empty bin stands out of the noise.
_FALSE_ALARM = 1e-4
# The confidence of the bound on how many units the noise hides.
_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class CapCosts:
    """What each cap of one kind would lose (rows, or pairs of unit and key) and cost in noise, and the cap chosen.

    `lost` is of the units that stand out of the noise, `hidden` of those above them, up to the cap that is declared.
    """

    name: str
    caps: tuple[int, ...]
    lost: NoisyCurve
    hidden: NoisyCurve
    noise: tuple[float, ...]
    chosen: int
    how: str


@show_arguments(LossArguments)
def find_contribution_bounds(
    source: Adaptive,
    *,
    by: Column | None = None,
    choose: Sequence[str] | None = None,
    assume_keys: int | None = None,
    question_epsilon: Number | None = None,
    **loss: Unpack[LossArguments],
) -> Release:
    """Return a release that chose `max_rows`, and with `by` also `max_groups`, of least expected error of a count.

    `choose` names which to choose instead, of max_rows, max_groups and max_rows_per_group; the last two need `by`.

    A noisy histogram counts the units by their number of rows. Units with more rows than the last bin that stands out of
    the noise are not in `lost`; `hidden` is what these lose of the rows that count under the declared cap, and the note says
    how many units and rows that may be. A cap of m
    loses the rows above it and needs noise in proportion to m; the error of a count is at most about the sum of both, and
    that of a sum of similar values is in proportion. `question_epsilon` is the epsilon of one later question (default: that
    of this search). `by` is a column that rows are grouped by: a cap of g keys loses pairs of unit and key, and each key's
    count gets noise in proportion to g, so `assume_keys`, a public guess, says how many keys there are where they are not
    declared. A cap on the rows a key looks at g keys of each unit: as many as this search chose before, else as declared,
    else one. The searches share the loss equally.

    `.value` holds the caps by name; the table has lost, noise, error (their sum) and hidden for each cap. Declare the caps with
    PrivacyUnit(column, max_rows=..., max_groups=..., max_rows_per_group=...): from then on they are part of the
    declaration, not of the data.

    Raises QuestionRefused where the privacy unit is a row, or the keys are unknown, before anything is spent.
    """
    node = _node(by)
    names = _read_names(choose, grouped=node is not None)
    Contributions(node).parts(source.domain, source.neighbors)
    key_count = _key_count(source, node, assume_keys)
    later = None if question_epsilon is None else to_fraction(question_epsilon, name="question_epsilon")
    if later is not None and later <= 0:
        raise QuestionRefused("question_epsilon, the epsilon of one later question, must be above 0")

    def search(q: Queryable) -> list[CapCosts]:
        noise = _mean_noise(q.loss) if later is None else 1 / float(later)
        amounts = {name: amount / len(names) for name, amount in q.loss.amounts().items()}
        groups = 1 if q.neighbors.unit is None else q.neighbors.unit.max_groups or 1
        costs: list[CapCosts] = []
        for name in names:
            # A cap on the rows of a key looks at as many keys as this search has just chosen.
            groups = next((cap.chosen for cap in costs if cap.name == "max_groups"), groups)
            histogram = Contributions(None)
            each = noise
            if name == "max_groups":
                histogram = Contributions(node)
                each = noise * key_count
            elif name == "max_rows_per_group":
                histogram = Contributions(node, pairs=groups)
                each = noise * key_count * groups
            units = q.release(histogram, loss_from(amounts)).outputs[0].estimate
            assert isinstance(units, Noisy)
            costs.append(_choose_cap(units, name=name, noise=each, declared=_declared_cap(q.neighbors, name)))
        return costs

    words = _describe_search(names, node, later)
    _, release = source.adapt(search, describe=words, record=_release_content, **loss)
    return release


_NAMES = {
    "max_rows": "the rows of one unit",
    "max_groups": "its keys of {by}",
    "max_rows_per_group": "its rows of one {by}",
}


def _describe_search(names: Sequence[str], node: Node | None, later: Fraction | None) -> str:
    by = "" if node is None else describe(node)
    words = "caps on " + ", and on ".join(_NAMES[name].format(by=by) for name in names)
    return words if later is None else f"{words}, for questions at epsilon {format_number(later)}"


def _read_names(choose: Sequence[str] | None, *, grouped: bool) -> list[str]:
    """Return which caps to choose, in the order in which one follows from another."""
    names = (["max_rows", "max_groups"] if grouped else ["max_rows"]) if choose is None else list(choose)
    if not names or isinstance(choose, str) or any(name not in _NAMES for name in names):
        raise QuestionRefused(f"choose takes a list of {', '.join(_NAMES)}")
    if not grouped and names != ["max_rows"]:
        raise QuestionRefused("max_groups and max_rows_per_group are chosen for a column to group by: give by=")
    return [name for name in _NAMES if name in names]


def _node(by: Column | None) -> Node | None:
    if by is None:
        return None
    if not isinstance(by, (str, Expr)):
        raise QuestionRefused("by is a column to group by, named by text or by col(...)")
    return (col(by) if isinstance(by, str) else by).node


def _key_count(source: Adaptive, node: Node | None, assumed: int | None) -> int:
    """Return how many keys noise is spread over: those declared, or the public guess."""
    if assumed is not None and (isinstance(assumed, bool) or not isinstance(assumed, int) or assumed < 1):
        raise QuestionRefused(
            f"{arg('assume_keys')}, a public guess at the number of keys, must be a whole number, 1 or more"
        )
    if node is None:
        if assumed is not None:
            raise QuestionRefused(f"{arg('assume_keys')} goes with by=, a column to group by")
        return 1
    declared = keys(node, source.domain)
    if not declared.private:
        return len(declared.labels)
    if assumed is None:
        raise QuestionRefused(
            f"the keys of {describe(node)} are not declared: give {arg('assume_keys')}, a public guess at how many there are"
        )
    return assumed


def _declared_cap(neighbors: Neighbors, name: str) -> int:
    """Return the most rows, keys, or rows of a key of one unit that count under the declaration."""
    unit = neighbors.unit
    if unit is None:
        return 1
    declared = {"max_groups": unit.max_groups, "max_rows_per_group": unit.max_rows_per_group}.get(name)
    return unit.total_rows if declared is None else min(declared, unit.total_rows)


def _choose_cap(units: Noisy, *, name: str, noise: float, declared: int) -> CapCosts:
    """Return the costs of the caps that the noisy histogram supports; `noise` is what a cap of 1 costs.

    The cap is chosen by the bins up to the last that stands out of the noise: those above would choose by noise. What their
    units lose is stated beside it. Without a bound on the rows of a unit no such figure would have an error, so it counts
    rows up to the cap that is declared.
    """
    starts = contribution_bins()
    ends = (*starts[1:], starts[-1] + 1)
    middles = [(start + end - 1) / 2 for start, end in zip(starts, ends, strict=True)]
    deviation = math.sqrt(units.law.variance())
    last = _last_visible(units)

    def curve(counts: Sequence[float], rows: Sequence[float], caps: Sequence[int]) -> NoisyCurve:
        lost = tuple(lost_above(counts, rows, m) for m in caps)
        return NoisyCurve(lost, tuple(deviation * math.hypot(*(max(v - m, 0) for v in rows)) for m in caps))

    caps = (1,) if last is None else tuple(end - 1 for end in ends[:last])
    lost = curve(decreasing_tails([float(n) for n in units.steps[:last]]), middles[:last], caps) if last else None
    visible = last or 0
    beyond = [float(n) for n in units.steps[visible:]]
    hidden = curve(beyond, [min(middle, declared) for middle in middles[visible:]], caps)
    # A sum of noise alone may fall below 0, which no loss of rows does.
    hidden = NoisyCurve(tuple(max(0.0, point) for point in hidden.points), hidden.deviations)
    costs = tuple(noise * m for m in caps)
    if lost is None:
        lost = NoisyCurve((0.0,), (0.0,))
        best = 0
        how = "no bin stood out of the noise: the least cap"
    else:
        best = min(range(len(caps)), key=lambda i: lost.points[i] + costs[i])
        how = "the least sum of what is lost and noise"
    how += _describe_hidden(units, visible, caps[-1] if last else 0, hidden.intervals(_CONFIDENCE)[best][1], declared)
    return CapCosts(name, caps, lost, hidden, costs, caps[best], how)


def _last_visible(units: Noisy) -> int | None:
    """Return how many bins there are up to the last that stands out of the noise, None where none does.

    A false find may cost noise a thousandfold, so noise alone makes one with probability 0.0001 at most: each of the
    bins stays below the quantile of its own noise at 0.0001 / bins.
    """
    threshold = units.law.error(1 - 2 * _FALSE_ALARM / len(units.steps))
    visible = [i for i, n in enumerate(units.steps) if n > threshold]
    return visible[-1] + 1 if visible else None


def _describe_hidden(units: Noisy, last: int, most: int, rows: float, declared: int) -> str:
    """Return how many units the bins from `last` on may hold, and how many rows these lose; nothing where there are no bins."""
    hidden = units.steps[last:]
    if not hidden:
        return ""
    total = NoisyCurve((float(sum(hidden)),), (math.sqrt(units.law.variance() * len(hidden)),))
    _, upper = total.intervals(_CONFIDENCE)[0]
    return (
        f"; what units above {most:,} lose is not in it, as they do not stand out of the noise: they are at most "
        f"{max(math.ceil(upper), 0):,}, and lose at most {max(math.ceil(rows), 0):,} of those that count under the declared "
        f"{declared:,} ({100 * _CONFIDENCE:g}% confidence each)"
    )


def decreasing_tails(counts: Sequence[float]) -> list[float]:
    """Return the nearest counts whose sums from each bin on decrease and are not below 0: post-processing.

    Isotonic regression of the noisy sums, by pooling adjacent violators.

    >>> decreasing_tails([5.0, -2.0, 3.0])
    [4.0, 0.0, 2.0]
    """
    sums = list(itertools.accumulate(reversed(counts)))[::-1]
    blocks: list[tuple[float, int]] = []
    for total in sums:
        blocks.append((total, 1))
        while len(blocks) > 1 and blocks[-2][0] < blocks[-1][0]:
            (a, n), (b, m) = blocks[-2:]
            blocks[-2:] = [((a * n + b * m) / (n + m), n + m)]
    level = [max(0.0, mean) for mean, size in blocks for _ in range(size)]
    return [a - b for a, b in itertools.pairwise((*level, 0.0))]


def lost_above(counts: Sequence[float], middles: Sequence[float], cap: int) -> float:
    """Return what units in these bins have above a cap.

    >>> lost_above([10, 4], [1, 3], 1)
    8.0
    """
    return math.fsum(n * max(v - cap, 0) for n, v in zip(counts, middles, strict=True))


def _mean_noise(loss: Loss) -> float:
    """Return the mean size of the noise of a count of sensitivity 1: 1 / epsilon, or that of a Gaussian at rho."""
    amounts = loss.amounts()
    if "rho" in amounts:
        return math.sqrt(1 / (math.pi * float(amounts["rho"])))
    return 1 / float(amounts["epsilon"])


def _release_content(kinds: list[CapCosts]) -> ReleaseContent:
    names = tuple(kind.name for kind in kinds for _ in kind.caps)
    caps = tuple(cap for kind in kinds for cap in kind.caps)
    lost = _join_curves([kind.lost for kind in kinds])
    hidden = _join_curves([kind.hidden for kind in kinds])
    noise = tuple(cost for kind in kinds for cost in kind.noise)
    both = tuple(a + b for a, b in zip(lost.points, noise, strict=True))
    outputs = (
        Output("lost", lost, "rows, or pairs of unit and key, above the cap, of the units that noise does not hide"),
        Output("noise", NoisyCurve(noise, (0.0,) * len(noise)), "mean size of the noise that the cap costs: public"),
        Output("error", NoisyCurve(both, lost.deviations), "the sum of both"),
        Output(
            "hidden", hidden, "rows, or pairs, above the cap and within the declared one, of the units that noise hides"
        ),
    )
    notes = tuple(f"{kind.name} {kind.chosen}: {kind.how}" for kind in kinds)
    values = tuple((kind.name, Fraction(kind.chosen)) for kind in kinds)
    return ReleaseContent((Key("cap", names), Key("at", caps)), outputs, notes, values)


def _join_curves(curves: Sequence[NoisyCurve]) -> NoisyCurve:
    return NoisyCurve(
        tuple(point for curve in curves for point in curve.points),
        tuple(deviation for curve in curves for deviation in curve.deviations),
    )


Floats = npt.NDArray[np.float64]

# Deviations from which a rise is no chance.
_CLEAR = 3.0
# The most rounds of the search, times the number of bounds: it visits no support twice, and seldom more than a few dozen.
_STEPS = 3


def fit_concave(bounds: Sequence[float], sums: Sequence[float], deviations: Sequence[float]) -> Floats:
    """Return the rising concave sequence nearest to the sums, each weighted by the deviation of its noise.

    Values clipped at b add up to a concave function of b: its slope is the number of values above b, which falls. So
    every such curve is a constant and a sum of min(b, b_j), each weighted by how many values lie at b_j, at least 0. The
    nearest one solves a nonnegative least squares problem, by active sets (Lawson and Hanson 1974, chapter 23).

    >>> fit_concave([1, 2, 3, 4], [10, 14, 19, 18], [1, 1, 1, 1]).round(2).tolist()
    [9.91, 14.18, 18.45, 18.45]
    """
    at, noisy, noise = (np.asarray(list(values), dtype=np.float64) for values in (bounds, sums, deviations))
    least = noise[noise > 0].min(initial=np.inf)
    weights = 1 / np.maximum(noise, least if np.isfinite(least) else 1.0)
    hinges = np.minimum.outer(at - at[0], (at - at[0])[1:])
    columns = np.column_stack([np.ones(at.size), -np.ones(at.size), hinges]) * weights[:, None]
    lengths = np.linalg.norm(columns, axis=0)
    shares = _solve(columns / lengths, noisy * weights)
    return np.asarray((columns / lengths) @ shares / weights, dtype=np.float64)


def losses_by_bound(
    bounds: Sequence[float], sums: Sequence[float], deviations: Sequence[float]
) -> list[tuple[float, float]]:
    """Return for each bound what clipping there loses, as far as that stands out of the noise, and the noise of its sum.

    With f the fitted curve and v(c) three deviations of a level that all sums from c / 2 on are averaged to, clipping at b
    loses the largest f(c) - f(b) - v(c) over c > b, at least 0: a higher sum counts where its noise cannot explain it. Without
    v the noise of the last sums would count as lost, and a ladder of powers of two would end far too high. (This is the
    comparison of Goldenshluger and Lepski 2011, with the pooled noise of the fit.)

    >>> [(round(lost, 1), noise) for lost, noise in losses_by_bound([1, 2, 3], [100, 140, 150], [1, 2, 3])]
    [(45.0, 1), (5.0, 2), (0.0, 3)]
    """
    fitted = fit_concave(bounds, sums, deviations)
    noise = np.asarray(list(deviations), dtype=np.float64)
    precise = 1 / np.maximum(noise, noise[noise > 0].min(initial=np.inf) if noise.any() else 1.0) ** 2
    reach = np.asarray(list(bounds), dtype=np.float64) - float(bounds[0])
    pooled = [_CLEAR / np.sqrt(precise[reach >= end / 2].sum()) if noise.any() else 0.0 for end in reach]
    highest = np.maximum.accumulate((fitted - pooled)[::-1])[::-1]
    return [(max(float(top - here), 0.0), own) for top, here, own in zip(highest, fitted, deviations, strict=True)]


def _solve(columns: Floats, target: Floats) -> Floats:
    """Return the nonnegative shares of the columns that come nearest to the target."""
    shares = np.zeros(columns.shape[1])
    free = np.zeros(shares.size, dtype=bool)
    enough = 1e-10 * float(np.abs(columns.T @ target).max(initial=0.0))
    for _ in range(_STEPS * shares.size):
        gain = np.where(free, -np.inf, columns.T @ (target - columns @ shares))
        if free.all() or gain.max() <= enough:
            break
        free[int(gain.argmax())] = True
        while free.any():
            best = np.zeros(shares.size)
            best[free] = np.linalg.lstsq(columns[:, free], target, rcond=None)[0]
            short = free & (best <= 0)
            if not short.any():
                shares = best
                break
            step = float((shares[short] / (shares[short] - best[short] + 1e-300)).min())
            shares = np.maximum(shares + step * (best - shares), 0.0)
            free &= shares > 1e-12 * shares.max(initial=0.0)
    return shares
