"""How well clipping bounds are found: each method against three shapes of data, at epsilon 0.1 and 1, no bounds declared.

python bench/bounds.py [--seeds 25] [--rows 50000] [--json]

Judged by what comes after: a mean of the values clipped to the bounds that were found, at an epsilon of its own. Its root
mean square error over the seeds, bias of clipping and noise together, is divided by that of the best pair of fixed
public bounds for the same question, which nobody knows.
"""

from __future__ import annotations

import argparse
import json
import math
from fractions import Fraction
from typing import Any

import numpy as np

from sordino.ask.clipping import Method

ROWS = 50_000
SEEDS = 25
EPSILONS = (("0.1", "0.1"), ("0.1", "1"), ("1", "1"))  # of the search, and of the mean that comes after
LADDER = tuple(2**i for i in range(20))  # the textbook's own: an upper bound must be guessed to be among them
SHAPES = ("normal", "lognormal", "mixture")
METHODS: tuple[Method, ...] = ("histogram", "sparse_vector", "quantile", "ladder")


def run(rows: int = ROWS, seeds: int = SEEDS) -> dict[str, Any]:
    """Return, for each shape, epsilon and method, the relative error and the median bounds found."""
    found: dict[str, Any] = {"rows": rows, "seeds": seeds, "shapes": {}}
    for shape in SHAPES:
        values = shaped(shape, rows)
        best = {after: best_fixed(values, float(after)) for after in dict.fromkeys(e[1] for e in EPSILONS)}
        told: dict[str, Any] = {"best": {after: [round(v, 4) for v in one] for after, one in best.items()}}
        for method in METHODS:
            ends = {e: _searched(values, method, e, seeds) for e in dict.fromkeys(e[0] for e in EPSILONS)}
            told[method] = [_judged(values, ends[first], float(after), best[after][0]) for first, after in EPSILONS]
        found["shapes"][shape] = told
    return found


def _searched(values: Any, method: Method, epsilon: str, seeds: int) -> list[tuple[float, float]]:
    import sordino as sd

    return [_found(values, method, epsilon, sd.Rng.seeded(1000 + seed)) for seed in range(seeds)]


def _judged(values: Any, ends: list[tuple[float, float]], epsilon: float, best: float) -> dict[str, Any]:
    squares = [expected_square(values, low, high, epsilon) for low, high in ends]
    return {
        "relative": round(math.sqrt(math.fsum(squares) / len(squares)) / best, 2),
        "worst_relative": round(math.sqrt(max(squares)) / best, 2),
        "median_bounds": [float(np.median([e[side] for e in ends])) for side in (0, 1)],
    }


def shaped(shape: str, rows: int) -> Any:
    """Return the values: whole numbers, so that the ladder of the textbook and every grid hold them."""
    made = np.random.default_rng(5)
    if shape == "normal":
        return np.rint(made.normal(500, 100, rows)).astype(np.int64)
    if shape == "lognormal":
        return np.rint(made.lognormal(6, 1.5, rows)).astype(np.int64)
    losses = np.where(made.random(rows) < 0.5, -made.lognormal(4, 1, rows), made.lognormal(6, 1, rows))
    return np.rint(np.where(made.random(rows) < 0.8, 0, losses)).astype(np.int64)


def expected_square(values: Any, low: float, high: float, epsilon: float) -> float:
    """Return the expected squared error of a mean at an epsilon of values clipped to [low, high]: bias and noise.

    The biases of both ends are added, though they may cancel: no one can know that. A mean is a centred sum and a
    count, half of the epsilon each (variance 2 scale^2 of Laplace noise), to first order.
    """
    rows = len(values)
    bias = float(np.maximum(values - high, 0).sum() + np.maximum(low - values, 0).sum()) / rows
    middle = math.floor((low + high) / 2)
    scale, counted = 2 * max(high - middle, middle - low, 1) / epsilon, 2 / epsilon
    mean = float(np.clip(values, low, high).mean())
    return bias**2 + (2 * scale**2 + 2 * counted**2 * (mean - middle) ** 2) / rows**2


def mean_errors(shape: str, epsilon: str, seeds: int = SEEDS, rows: int = ROWS) -> dict[str, float]:
    """Return the error of a mean without bounds for all of `epsilon`, root mean square over the seeds.

    "split" spends half on `find_bounds` and half on a mean within what it finds, "one" is one question; "best" is the
    expected error of the best public bounds at the whole epsilon, which nobody knows.
    """
    import sordino as sd

    values = shaped(shape, rows)
    exact, half = float(values.mean()), Fraction(epsilon) / 2
    split, one = [], []
    for seed in range(seeds):
        held = _protect(values, sd.Rng.seeded(2000 + seed))
        found = held.find_bounds("x", epsilon=half)
        clipped = sd.col("x").clip(found.lower, found.upper)
        split.append((held.ask(sd.mean(clipped), epsilon=half).value - exact) ** 2)
        one.append((held.ask(sd.mean("x"), epsilon=epsilon).value - exact) ** 2)
        held.close()
    return {
        "split": math.sqrt(math.fsum(split) / seeds),
        "one": math.sqrt(math.fsum(one) / seeds),
        "best": best_fixed(values, float(epsilon))[0],
    }


def best_fixed(values: Any, epsilon: float) -> tuple[float, float, float]:
    """Return the least error of a pair of public bounds, searched among quantiles of the values, and the pair."""
    tails = [0.0, *np.geomspace(1e-5, 0.2, 60)]
    lows = sorted({float(np.quantile(values, t)) for t in tails})
    highs = sorted({float(np.quantile(values, 1 - t)) for t in tails})
    pairs = [(expected_square(values, a, b, epsilon), a, b) for a in lows for b in highs if a < b]
    square, low, high = min(pairs)
    return math.sqrt(square), low, high


def lower_rules(values: Any, epsilon: float) -> dict[str, float]:
    """Return the expected error of a mean without bounds by rules for the handicap of the lower end: an edge, or the width.

    Root mean square over the law of both ends, to first order; "w" is twelve, or four, for each doubling of the width.
    """
    from sordino.ask.clipping import search as ends

    def each(edges: tuple[int, ...]) -> list[Fraction]:
        return [Fraction(len(edges) - 2 - j) for j in range(len(edges) - 1)]

    made, released = {"1 an edge": _expected_mean(values, epsilon, each)}, ends._DOUBLING
    for doubling in (4, 12):
        ends._DOUBLING = doubling
        made[f"{doubling} a doubling"] = _expected_mean(values, epsilon, ends._lower_handicaps)
    ends._DOUBLING = released
    return made


def _expected_mean(values: Any, epsilon: float, rule: Any) -> float:
    from sordino.ask.clipping.search import SHARES, _edges

    edges, ordered = _edges(), np.sort(np.asarray(values, dtype=float))
    reach, below = np.array(edges, dtype=float), np.searchsorted(ordered, np.array(edges, dtype=float))
    zero, rows, sums = edges.index(0), len(ordered), np.concatenate([[0.0], np.cumsum(ordered)])
    steps = np.arange(len(edges)) - zero
    upper = _chances(float(SHARES["upper"]) * epsilon * (rows - below) + np.maximum(steps, steps / 8))
    rest, total = epsilon * (1 - float(sum(SHARES.values()))), 0.0
    for last in np.nonzero(upper > 1e-5)[0]:
        high = max(1, int(last))
        handicaps = np.array([float(h) for h in rule(edges[: high + 1])[:high]])
        lower = _chances(float(SHARES["lower"]) * epsilon * below[:high] + handicaps)
        for low in np.nonzero(lower > 1e-5)[0]:
            a, b = int(below[low]), int(below[high])
            inside = (a * reach[low] + sums[b] - sums[a] + (rows - b) * reach[high]) / rows
            width = max(reach[high] - reach[low], 1.0)
            place = (inside - reach[low]) / width
            noise = 2 * (width / rest / rows) ** 2 * (place**2 + (1 - place) ** 2)
            total += upper[last] * lower[low] * ((inside - ordered.mean()) ** 2 + min(noise, width**2))
    return math.sqrt(total)


def _chances(costs: Any) -> Any:
    weights = np.exp(costs.min() - costs)
    return weights / weights.sum()


def _found(values: Any, method: Method, epsilon: str, rng: Any) -> tuple[float, float]:
    """Return the bounds that a method finds in a column with none declared."""
    held = _protect(values, rng)
    ladder = LADDER if method == "ladder" else None
    release = held.find_bounds("x", method=method, ladder=ladder, epsilon=epsilon)
    held.close()
    return float(release.lower), float(release.upper)


def _protect(values: Any, rng: Any) -> Any:
    """Return a curator of a column of whole numbers, none of whose bounds is declared."""
    import pyarrow as pa

    import sordino as sd

    return sd.protect(
        pa.table({"x": values}),
        domain=sd.Domain({"x": sd.Integer()}),
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.PureDP(10),
        ledger=None,
        rng=rng,
    )


def main() -> None:
    """Print the figures as a table, or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = run(options.rows, options.seeds)
    if options.json:
        print(json.dumps(found, indent=2))
        return
    for shape, told in found["shapes"].items():
        for after, (error, low, high) in told["best"].items():
            print(
                f"{shape}: for a mean at epsilon {after} bounds from {low:,.0f} to {high:,.0f} are best, error {error:.4g}"
            )
        for method in METHODS:
            for (first, after), one in zip(EPSILONS, told[method], strict=True):
                a, b = one["median_bounds"]
                said = f"{one['relative']:>8} times, worst {one['worst_relative']:>8}; {a:,.0f} to {b:,.0f}"
                print(f"  {method:14} at {first:>3}, then a mean at {after:>3} {said}")


if __name__ == "__main__":
    main()
