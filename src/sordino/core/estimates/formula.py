"""Arithmetic on released columns, such as a ratio of two sums: its values, and intervals from the joint law of the noise.

It may not know any exact answer: a formula reads noisy values and public laws alone, so it is post-processing and free.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.core.estimates.estimate import ESTIMATES, ColumnEstimate, Number, estimate_to_dict
from sordino.core.estimates.evaluation import Tree, evaluate
from sordino.core.estimates.noisy import Noisy
from sordino.core.estimates.ratio import Ratio
from sordino.core.estimates.second_moments import SecondMoments, estimate_draws
from sordino.core.estimates.weighted_sum import WeightedSum

_DRAWS = 4096
# for second moments, whose values take longer
_FEW_DRAWS = 1024
# rows times draws in memory at once
_MOST_CELLS = 4_000_000
_EDGE = 1e-9
# magnitudes at which the reach of their test is tabulated
_SIZES = 1025
# the share of draws in which a formula may turn before it counts as turning
_FLAT = 0.005
# changes below this share of a formula's values are rounding
_ROUNDING = 1e-12


@ESTIMATES.register("formula")
@dataclass(frozen=True, slots=True)
class Formula:
    """A formula of estimates: `tree` names them by their place in `of`.

    The interval is of the law of f(y - Z) over the noise Z of the parts, y being what was released: its quantiles, equal
    tails. For one noisy number, and for any f that is linear in them, that is the exact interval; for a ratio it is
    Fieller's with equal tails (1954), and where the denominator may be 0 the interval has no ends. Where f = g(h) and only g
    turns within reach of the noise, as in sqrt(abs(x - y)) around 0, it is the image under g of the interval of h, which
    covers as often or more (that of abs itself inverts a test of its own, which covers no more than it says); else the image
    of the noise's central region, which covers too. The quantiles are taken over 4,096 points (1,024 with spreads) that fill
    the noise's distribution evenly (an R-sequence), so the same release has the same interval.
    """

    tree: Tree
    of: tuple[ColumnEstimate, ...]

    per_row: ClassVar[tuple[str, ...]] = ("of",)
    no_ends: ClassVar[str] = "no ends: noise alone may leave it without a value, such as a divisor of 0"

    def values(self) -> list[Number | None]:
        """Return the formula of the released values; None where it has no value, such as a division by 0."""
        columns = [np.array([math.nan if v is None else float(v) for v in e.values()]) for e in self.of]
        height = len(columns[0])
        results = np.broadcast_to(evaluate(self.tree, columns), (height,))
        return [float(v) if math.isfinite(v) else None for v in results]

    def errors(self, confidence: float) -> list[Number | None]:
        """Return the larger distance from each value to an end of its interval; None where there is no end."""
        return [
            None if value is None or low is None or high is None else max(value - low, high - value)
            for value, (low, high) in zip(self.values(), self.intervals(confidence), strict=True)
        ]

    def intervals(self, confidence: float) -> list[tuple[Number | None, Number | None]]:
        """Return the interval of each value; (None, None) where it has no ends."""
        return list(_intervals(self, confidence))

    to_dict = estimate_to_dict

    def __hash__(self) -> int:
        return hash((str(self.tree), self.of))


def has_joint_law(estimate: object) -> bool:
    """Return whether the noise of an estimate has a law that a formula's interval can follow from."""
    return isinstance(estimate, (Noisy, WeightedSum, Ratio, SecondMoments))


@functools.lru_cache(maxsize=16)
def _intervals(of: Formula, confidence: float) -> tuple[tuple[Number | None, Number | None], ...]:
    if isinstance(confidence, bool) or not 0 < confidence < 1:
        raise DeclarationError("confidence must lie between 0 and 1, such as 0.95")
    values = of.values()
    # A model's answers, for one, have errors that depend on each other in an unknown way.
    if not all(has_joint_law(e) for e in of.of):
        return ((None, None),) * len(values)
    step = max(1, _MOST_CELLS // _count_draws(of))
    ends: list[tuple[Number | None, Number | None]] = []
    for start in range(0, len(values), step):
        rows = slice(start, start + step)
        ends += _ends(of, rows, values[rows], 1.0 - confidence)
    return tuple(ends)


def _ends(
    of: Formula, rows: slice, values: Sequence[Number | None], miss: float
) -> list[tuple[Number | None, Number | None]]:
    points = _even_points(1 + max(place for places in noise_places(of.of) for place in places), _count_draws(of))
    uncertain = np.zeros(len(values), dtype=bool)

    def reject(divisor: Any) -> None:
        """Note the rows whose divisor may be 0: their quotient may be anything."""
        below = np.mean(divisor <= 0, axis=-1)
        above = np.mean(divisor >= 0, axis=-1)
        np.logical_or(uncertain, np.minimum(below, above) > miss / 2, out=uncertain)

    results = _evaluate_draws(of, rows, len(values), points, reject=reject)
    folds = _folds(of, rows, points, results)
    images = _images(of, rows, points, folds, miss) if folds.any() else np.full((len(values), 2), math.nan)
    ends: list[tuple[Number | None, Number | None]] = []
    for value, row, unbounded, image in zip(values, results, uncertain, images, strict=True):
        finite = row[np.isfinite(row)]
        if value is None or unbounded or len(finite) < len(row) * (1 - miss / 2):
            ends.append((None, None))
            continue
        quantiles = np.quantile(finite, [miss / 2, 1 - miss / 2], method="inverted_cdf")
        low, high = image if np.isfinite(image).all() else quantiles
        ends.append((min(float(low), value), max(float(high), value)))
    return ends


def _evaluate_draws(
    of: Formula,
    rows: slice,
    height: int,
    points: Any,
    *,
    moved: int | None = None,
    by: int = 1,
    reject: Callable[[Any], None] = lambda _: None,
    central: Any = None,
) -> Any:
    """Return the formula of possible true values, a row a row and a column a draw, with the noise at `moved` larger `by` times.

    `central`, where given, are the draws whose image is wanted: a part that passes through 0 between two of them is set to 0
    in one.
    """
    columns = [
        _draw(estimate, rows, points[list(places)], [by * (place == moved) for place in places])
        for estimate, places in zip(of.of, noise_places(of.of), strict=True)
    ]
    if central is not None:
        columns = [np.where(central, column, math.nan) for column in columns]
    return np.broadcast_to(evaluate(of.tree, columns, reject, zeros=central is not None), (height, points.shape[1]))


def _folds(of: Formula, rows: slice, points: Any, results: Any) -> Any:
    """Return the rows in which the formula turns with one of the noises, as abs(x) does around 0: rises, and falls next to it.

    Quantiles would leave out the turning point, so their interval is the image of the noises' central region. A product rises
    with a factor, and falls where the other is below 0, but never turns on the way: there quantiles cover as they say.
    """
    folds = np.zeros(len(results), dtype=bool)
    least = _ROUNDING * np.abs(results)
    for i in range(len(points)):
        with np.errstate(invalid="ignore"):
            rise = _evaluate_draws(of, rows, len(results), points, moved=i) - results
            fall = _evaluate_draws(of, rows, len(results), points, moved=i, by=-1) - results
            same_way = (np.minimum(rise, fall) > least) | (np.maximum(rise, fall) < -least)
        folds |= np.mean(same_way, axis=-1) > _FLAT
    return folds


def _images(of: Formula, rows: slice, points: Any, folds: Any, miss: float) -> Any:
    """Return both ends of each row in which the formula turns, NaN in others.

    Where all noise goes through one part that does not turn itself, that is the image of an interval of this part, which holds
    the formula's value wherever the interval holds the part's; else that of the noise's central region.
    """
    ends = np.full((len(folds), 2), math.nan)
    part = _straight_part(of, rows, points, folds)
    if part is not None:
        if of.tree[0] == "abs" and of.tree[1] == part and (law := _common_noise(of, part, rows, points)) is not None:
            return _magnitude_ends(*law, miss)
        inner = _evaluate_draws(replace(of, tree=part), rows, len(folds), points)
        low, high = np.quantile(inner, [miss / 2, 1 - miss / 2], axis=1, keepdims=True, method="inverted_cdf")
        central = (low <= inner) & (inner <= high)
    else:
        apart = np.max(np.abs(points - 0.5), axis=0)
        central = np.broadcast_to(apart <= np.quantile(apart, 1 - miss), (len(folds), len(apart)))
    image = _evaluate_draws(of, rows, len(folds), points, central=central)
    inside = folds[:, None] & central & np.isfinite(image)
    some = inside.any(axis=1)
    least = np.where(inside, image, math.inf).min(axis=1)
    most = np.where(inside, image, -math.inf).max(axis=1)
    ends[some] = np.stack([least, most], axis=1)[some]
    return ends


def _straight_part(of: Formula, rows: slice, points: Any, folds: Any) -> Tree | None:
    """Return the largest part that all noise goes through and that does not turn where the formula does; None if none is."""
    part = of.tree
    while part[0] != "column":
        noisy = [child for child in part[1:] if _reads_columns(child)]
        if not noisy or any(child != noisy[0] for child in noisy):
            return None
        part = noisy[0]
        inner = replace(of, tree=part)
        results = _evaluate_draws(inner, rows, len(folds), points)
        if np.isfinite(results).all() and not (folds & _folds(inner, rows, points, results)).any():
            return part
    return None


def _common_noise(of: Formula, part: Tree, rows: slice, points: Any) -> tuple[Any, Any] | None:
    """Return the size of a part's values, and draws of its noise where that is the same in all rows; None where it is not."""
    free = tuple(replace(e, least=None, most=None) if isinstance(e, (Noisy, WeightedSum)) else e for e in of.of)
    inner = Formula(part, free)
    columns = [np.array(e.sums() if isinstance(e, WeightedSum) else e.values(), dtype=float)[rows] for e in free]
    values = np.broadcast_to(evaluate(part, columns), (len(columns[0]),))
    noise = _evaluate_draws(inner, rows, len(values), points) - values[:, None]
    same = np.allclose(noise, noise[:1], rtol=0, atol=1e-9 * np.abs(noise).max())
    return (np.abs(values), noise[0]) if same else None


def _magnitude_ends(values: Any, noise: Any, miss: float) -> Any:
    """Return the interval of |m| for each value |m + Z| and draws of Z: the |m| whose test does not reject the value.

    It rejects where the value is further from |m| than r, the 1 - miss quantile of ||m| + Z| - |m|: r is less than that of
    |Z| where |m| is small, as 0 cuts one side off. (The law of Z is symmetric.) |m| is taken on a grid, rounded outwards.
    Values beyond all draws of Z have no turn within reach: they get NaN.
    """
    most_noise = np.abs(noise).max()
    sizes = np.linspace(0.0, 2 * most_noise, _SIZES)
    reach = [np.quantile(np.abs(np.abs(m + noise) - m), 1 - miss, method="inverted_cdf") for m in sizes]
    # made monotone, so that the first and the last size whose test does not reject the value are found by bisection
    most = np.maximum.accumulate(sizes + reach)
    least = np.minimum.accumulate((sizes - reach)[::-1])[::-1]
    low = np.searchsorted(most, values, "left")
    high = np.searchsorted(least, values, "right") - 1
    below = np.clip(low - 1, 0, _SIZES - 1)
    above = np.minimum(high + 1, _SIZES - 1)
    ends = np.stack([sizes[below], sizes[above]], axis=1)
    return np.where(values[:, None] <= most_noise, ends, math.nan)


def _reads_columns(tree: Any) -> bool:
    return isinstance(tree, list | tuple) and (tree[0] == "column" or any(_reads_columns(part) for part in tree[1:]))


def _count_draws(of: Formula) -> int:
    return _FEW_DRAWS if any(isinstance(e, SecondMoments) for e in of.of) else _DRAWS


def noise_places(estimates: Sequence[ColumnEstimate]) -> list[list[int]]:
    """Return the places of each estimate's noises among all: vectors that estimates share have one place."""
    places: list[list[int]] = []
    place_of: dict[object, int] = {}
    for i, estimate in enumerate(estimates):
        parts = noisy_parts(estimate)
        names: Sequence[object] = getattr(estimate, "vectors", ()) or [(i, k) for k in range(len(parts))]
        places.append([place_of.setdefault(name, len(place_of)) for name in names])
    return places


def noisy_parts(estimate: ColumnEstimate) -> tuple[Noisy, ...]:
    """Return the noisy vectors that an estimate follows from."""
    if isinstance(estimate, Noisy):
        return (estimate,)
    if isinstance(estimate, (Ratio, WeightedSum)):
        return estimate.of
    assert isinstance(estimate, SecondMoments)
    return estimate.parts


def _draw(estimate: ColumnEstimate, rows: slice, points: Any, moved: Sequence[int]) -> Any:
    """Return possible true values, one row a row and one column a draw: the released values, less noise."""
    vectors = [
        _draw_noisy(part, rows, points[i], by)
        for i, (part, by) in enumerate(zip(noisy_parts(estimate), moved, strict=True))
    ]
    if isinstance(estimate, Noisy):
        return vectors[0] * float(estimate.unit)
    if isinstance(estimate, WeightedSum):
        mixed = mix_draws([estimate.weights], vectors)[0]
        least = -math.inf if estimate.least is None else float(estimate.least)
        most = math.inf if estimate.most is None else float(estimate.most)
        return np.clip(mixed, least, most) * float(estimate.scale)
    return combine_parts(estimate, vectors)


def combine_parts(estimate: ColumnEstimate, vectors: Sequence[Any]) -> Any:
    """Return the ratio or second moment that would be released of noisy vectors of these steps, arrays of one shape."""
    if isinstance(estimate, Ratio):
        top, bottom = mix_draws(estimate.mix, vectors)
        center = float(estimate.center)
        low = float(estimate.lower) - center
        high = float(estimate.upper) - center
        return (np.clip(top / np.maximum(bottom, 1.0), low, high) + center) * float(estimate.numerator.unit)
    assert isinstance(estimate, SecondMoments)
    return estimate_draws(estimate, vectors)


def mix_draws(mix: Sequence[Sequence[Fraction]], vectors: Sequence[Any]) -> list[Any]:
    """Return the weighted sums of drawn vectors, one a row of `mix`."""
    return [sum(float(w) * vector for w, vector in zip(row, vectors, strict=True)) for row in mix]


def _draw_noisy(of: Noisy, rows: slice, points: Any, moved: int) -> Any:
    """Return the released values less noise, and less `moved` times a usual error."""
    noise = of.law.quantiles(points) + moved * (of.law.error(0.5) + 1)
    steps = np.array([float(s) for s in of.steps[rows]])[:, None] - noise[None, :]
    # Rows times draws are millions of numbers, which are not copied where there is nothing to clip.
    if of.least is not None or of.most is not None:
        np.clip(steps, of.least, of.most, out=steps)
    return steps


@functools.lru_cache(maxsize=32)
def _even_points(count: int, draws: int) -> Any:
    """Return points that fill the unit cube evenly: multiples of powers of 1 / g, g^(count + 1) = g + 1 (Roberts 2018)."""
    base = 2.0
    for _ in range(60):
        base = (1.0 + base) ** (1.0 / (count + 1))
    steps = np.array([(1.0 / base) ** (i + 1) for i in range(count)])
    points = (0.5 + np.outer(steps, np.arange(1, draws + 1))) % 1.0
    return np.clip(points, _EDGE, 1.0 - _EDGE)
