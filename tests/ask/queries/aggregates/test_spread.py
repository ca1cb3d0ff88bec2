"""Variance, deviation, covariance, correlation: intervals cover, also in small groups, and are hardly wider than the error.

Noise is drawn for one exact vector many times. Seeds are fixed. Each comparison allows 4.5 standard deviations of its
frequency: were the seed not fixed, a false alarm would have a chance of 7e-6 each where the coverage is 95% exactly.
"""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sordino as sd
from battery import coverage_slack
from planning import draw_estimate
from protecting import protect
from sordino import col
from sordino.ask.queries.aggregation import compile_query
from sordino.ask.queries.build import Selection, as_aggregation, correlation, covariance, std, variance
from sordino.core.estimates.noisy import Noisy
from sordino.core.estimates.registry import estimate_from_dict
from sordino.core.estimates.second_moments import SecondMoments, _scale_sums, sum_margin
from sordino.core.noise.laws import DiscreteGaussian, DiscreteLaplace
from sordino.errors import QuestionRefused

DOMAIN = sd.Domain(
    {
        "x": sd.Integer(0, 100),
        "y": sd.Integer(-20, 30),
        "b": sd.Integer(0, 1, missing=sd.Fill(0)),
        "one": sd.Integer(7, 7),
        "c": sd.Category(["a", "b"]),
    }
)
LOSSES: list[dict[str, Any]] = [{"epsilon": 0.5}, {"rho": 0.05}, {"epsilon": 10}, {"rho": 4}]
ASKED = [variance("x"), std("x", ddof=1), covariance("x", "y"), correlation("x", "y")]


def people(table: Any = None, *, loss: dict[str, Any] | None = None, neighbors: Any = "add_remove") -> Any:
    empty = pa.table({n: pa.array([], pa.string() if n == "c" else pa.int64()) for n in DOMAIN})
    budget = sd.ZCDP(10**6) if loss and "rho" in loss else sd.PureDP(10**6)
    return protect(empty if table is None else table, DOMAIN, neighbors=neighbors, budget=budget, seed=5)


def columns(rows: int, mean: float, spread: float, seed: int = 5) -> tuple[Any, Any]:
    """Return two columns of public test numbers, correlated where they vary."""
    draw = np.random.default_rng(seed)
    x = np.clip(np.round(draw.normal(mean, spread, rows)), 0, 100)
    y = np.clip(np.round(0.3 * (x - 50) + draw.normal(0, 8 if spread else 0, rows)), -20, 30)
    return x, y


def truth(made: Any, x: Any, y: Any) -> float:
    """Return the statistic, by numpy."""
    if made.statistic == "variance":
        return float(np.var(x, ddof=made.ddof))
    if made.statistic == "deviation":
        return float(np.std(x, ddof=made.ddof))
    if made.statistic == "covariance":
        return float(np.cov(x, y, ddof=made.ddof)[0, 1])
    return float(np.corrcoef(x, y)[0, 1])


def draw_spread(plan: Any, x: Any, y: Any, runs: int, seed: int) -> Any:
    """Return the estimate of these columns, drawn `runs` times: a run a row."""
    made, parts = plan.question.aggregates[0], plan.procedure.allocation.resolved.parts[0]
    sides = 1 if made.other is None else 2
    u, v = (w - -p.terms[1][0] for w, p in zip((x, y if sides == 2 else x), (parts[0], parts[sides - 1]), strict=True))
    products = {3: [u * u], 4: [u * v], 6: [u * u, v * v, u * v]}[len(parts)]
    exact = [u.sum(), *([v.sum()] if sides == 2 else []), *(p.sum() for p in products), len(x)]
    lifts = [part.terms[1][0] * len(x) if sides <= i < len(parts) - 1 else 0 for i, part in enumerate(parts)]
    values = [round(value) + lift for value, lift in zip(exact, lifts, strict=True)]
    return draw_estimate(plan, 0, values, sd.Rng.seeded(seed), runs=runs)


def coverage(estimate: Any, true: float) -> float:
    low, high = np.array(estimate.intervals(0.95)).T
    values = np.array(estimate.values())
    assert ((low <= values) & (values <= high)).all()
    return float(((low <= true + 1e-9) & (true - 1e-9 <= high)).mean())


@pytest.mark.each(33)
@pytest.mark.parametrize(
    ("loss", "runs"),
    [(LOSSES[1], 200), (LOSSES[2], 200), *(pytest.param(loss, 2_500, marks=pytest.mark.deep) for loss in LOSSES)],
    ids=str,
)
@pytest.mark.parametrize("asked", ASKED, ids=lambda a: a.aggregate.statistic)
@pytest.mark.parametrize(("mean", "spread"), [(50, 25), (10, 5), (95, 3), (50, 0)])
def test_intervals_cover(mean: int, spread: int, asked: Any, loss: dict[str, Any], runs: int) -> None:
    runs = runs // 5 if asked.aggregate.statistic == "correlation" else runs
    plan = people(loss=loss).plan(asked, **loss)
    for rows in (3, 300, 30_000) if runs < 1_000 else (2, 3, 10, 100, 1_000, 30_000):
        x, y = columns(rows, mean, spread)
        if spread == 0 and asked.aggregate.statistic == "correlation":
            continue  # a column that does not vary has none
        least = 0.94 if runs >= 2_000 else 0.95 - coverage_slack(runs)
        assert coverage(draw_spread(plan, x, y, runs, rows), truth(asked.aggregate, x, y)) >= least, rows


@pytest.mark.deep
@pytest.mark.parametrize("neighbors", ["add_remove", "replace"])
@pytest.mark.parametrize("loss", [*LOSSES, {"epsilon": 20}], ids=str)
@pytest.mark.parametrize("rows", [5, 5000])
def test_lumpy_noise_of_truths(rows: int, loss: dict[str, Any], neighbors: str) -> None:
    """Of zeros and ones every noise is a few whole steps; under replace the count has none at all."""
    x = (np.arange(rows) % 10 < 3) * 1.0
    plan = people(loss=loss, neighbors=neighbors).plan(variance("b"), **loss)
    assert coverage(draw_spread(plan, x, x, 400, rows), float(np.var(x))) >= 0.95 - coverage_slack(400)


@pytest.mark.each(12)
@pytest.mark.parametrize("loss", LOSSES[:2], ids=str)
@pytest.mark.parametrize("asked", ASKED, ids=lambda a: a.aggregate.statistic)
def test_large_groups_have_intervals_as_narrow_as_their_error(asked: Any, loss: dict[str, Any]) -> None:
    x, y = columns(30_000, 50, 25)
    estimate = draw_spread(people(loss=loss).plan(asked, **loss), x, y, 200, 2)
    error = np.quantile(np.abs(np.array(estimate.values()) - truth(asked.aggregate, x, y)), 0.95)
    low, high = np.array(estimate.intervals(0.95)).T
    assert float(np.median(high - low)) / 2 <= 1.25 * error


@pytest.mark.each(6)
@pytest.mark.parametrize(("mean", "spread"), [(50, 25), (10, 5), (95, 3)])
@pytest.mark.parametrize("loss", LOSSES[:2], ids=str)
def test_plans_state_an_error_that_holds(mean: int, spread: int, loss: dict[str, Any]) -> None:
    x, y = columns(5_000, mean, spread)
    asks = [variance("x"), covariance("x", "y", ddof=1)]
    for asked in (
        [*asks, std("x")] if spread == 25 else asks
    ):  # a deviation's error is stated for a quarter of the range
        plan = people(loss=loss).plan(asked, **loss, assume_rows=5_000)
        errors = np.abs(np.array(draw_spread(plan, x, y, 400, 3).values()) - truth(asked.aggregate, x, y))
        assert (errors > 1.1 * plan.error(0.95)).mean() <= 0.05 + coverage_slack(400)
    known = people(loss=loss).plan(variance("x"), **loss, assume_rows=5_000, assume_mean=float(x.mean()))
    assert known.error(0.95) <= people(loss=loss).plan(variance("x"), **loss, assume_rows=5_000).error(0.95)
    assert people(loss=loss).plan(variance("x"), **loss).error(0.95) is None


@pytest.mark.deep
@pytest.mark.parametrize(
    ("laws", "weights"),
    [
        ([DiscreteLaplace(Fraction(30)), DiscreteLaplace(Fraction(30)), DiscreteLaplace(Fraction(3))], [1.0, 0.3, 2.5]),
        ([DiscreteLaplace(Fraction(6)), DiscreteLaplace(Fraction(6)), DiscreteLaplace(Fraction(6))], [1.0, 1.0, 1.0]),
        ([DiscreteLaplace(Fraction(50))] * 6, [1.0, -0.2, 0.7, 0.5, 0.5, 0.1]),
        ([DiscreteGaussian(Fraction(100)), DiscreteGaussian(Fraction(9))], [1.0, -3.0]),
        ([DiscreteLaplace(Fraction(1)), DiscreteLaplace(Fraction(40))], [30.0, 0.1]),
    ],
)
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
def test_margin_of_a_combination(laws: Any, weights: list[float], confidence: float) -> None:
    """Never short by more than the noise of 200,000 draws (false alarm 7e-6), and at most 6% long where not lumpy."""
    total = sum(
        w * law.sample(sd.Rng.seeded(i), size=200_000).astype(float)
        for i, (law, w) in enumerate(zip(laws, weights, strict=True))
    )
    miss = 1 - confidence
    margin = sum_margin(laws, weights, confidence)
    assert (np.abs(total) > margin).mean() <= miss * 1.01 + 4.5 * math.sqrt(miss * confidence / 200_000)
    if min(w.variance() for w in laws) > 4:
        assert margin <= 1.06 * np.quantile(np.abs(total), confidence) + 1  # a step


@pytest.mark.parametrize(
    "law", [DiscreteLaplace(Fraction(20)), DiscreteGaussian(Fraction(400))], ids=["Laplace", "Gaussian"]
)
@pytest.mark.parametrize(("both", "one", "two"), [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.7, -0.4, -0.9)])
def test_products_of_noises_have_the_stated_mean_and_variance(law: Any, both: float, one: float, two: float) -> None:
    """Of 100,000 draws: each is within seven deviations of what is stated, which chance passes once in 10^11."""
    parts = tuple(Noisy((0,), Fraction(1), law) for _ in range(4))
    of = SecondMoments("covariance", parts, (0,), ((-1, 1), (-1, 1)), 0)
    sums = _scale_sums(of, [np.zeros(1)] * 4)
    first = [np.array([[w]]) for w in (1.0, 0.0, 0.0, -0.8)]
    second = [np.array([[w]]) for w in (0.0, 1.0, 0.0, 0.6)]
    mean, variance = sums.products(first, second, both=both, one=one, two=two)
    noise = law.sample(sd.Rng.seeded(3), size=400_000).astype(float).reshape(4, -1)
    u = noise[0] - 0.8 * noise[3]
    v = noise[1] + 0.6 * noise[3]
    drawn = both * u * v + one * u * u + two * v * v
    assert abs(drawn.mean() - mean.item()) < 7 * drawn.std() / math.sqrt(len(drawn))
    squares = np.square(drawn - mean.item())
    assert abs(squares.mean() - variance.item()) < 7 * squares.std() / math.sqrt(len(drawn))


@pytest.mark.deep
def test_thirty_rows_have_intervals_hardly_wider_than_the_error() -> None:
    """They were 1.7 times as wide as the error of 95%, and covered .99: the noises of both means at their extremes."""
    x, y = columns(30, 50, 20)
    plan = people().plan(covariance("x", "y"), epsilon=8)
    estimate = draw_spread(plan, x, y, 1000, 30)
    ends = np.array(estimate.intervals(0.95))
    true = float(np.cov(x, y, ddof=0)[0, 1])
    covered = ((ends[:, 0] <= true) & (true <= ends[:, 1])).mean()
    assert 0.95 - coverage_slack(1000) < covered < 0.985
    error = np.quantile(np.abs(np.array(estimate.values()) - true), 0.95)
    assert np.diff(ends).mean() / 2 < 1.3 * error


def test_the_cost_is_whole_and_shared_equally() -> None:
    plan = people().plan([variance("x"), sd.count()], epsilon=1)
    scales = [p.mechanism.law.scale for p in plan.procedure.allocation.vectors[0]]
    assert (
        scales == [100**2] * 3
    )  # the whole of epsilon 1, and the count besides: what a row adds to them sums to 100^2
    assert plan.cost == sd.PureDP(1)
    assert [p.part.role for p in people().plan(correlation("x", "y"), epsilon=1).procedure.allocation.vectors[0]] == [
        "sum",
        "sum",
        "sum of squares",
        "sum of squares",
        "sum of products",
        "count",
    ]
    text = str(people().plan(variance("x"), epsilon=1))
    assert all(word in text for word in ("sum of squared distances", "cost       epsilon 1"))


def test_through_ask_with_groups_and_missing_cells() -> None:
    x, y = columns(900, 40, 20)
    cells = [None if i % 7 == 0 else int(v) for i, v in enumerate(x)]
    others = [None if i % 5 == 0 else int(v) for i, v in enumerate(y)]
    kinds = [["a", "b"][i % 2] for i in range(900)]
    zeros = [0] * 900
    table = pa.table({"x": cells, "y": others, "b": zeros, "one": zeros, "c": kinds})
    asked = Selection().group_by("c").agg(variance("x"), std("x", ddof=1), covariance("x", "y"), correlation("x", "y"))
    found = people(table).ask(asked, epsilon=10**5).table
    for place, kind in enumerate("ab"):
        rows = [i for i in range(900) if kinds[i] == kind]
        alone = np.array([cells[i] for i in rows if cells[i] is not None], dtype=float)
        both = np.array([(cells[i], others[i]) for i in rows if None not in (cells[i], others[i])], dtype=float).T
        expected = [alone.var(), alone.std(ddof=1), np.cov(both, ddof=0)[0, 1], np.corrcoef(both)[0, 1]]
        values = [c[place].as_py() for c in found.columns[1:]]
        assert values == pytest.approx(expected, rel=1e-3)


@pytest.mark.deep
def test_a_release_reads_back_as_it_was() -> None:
    x, y = columns(200, 40, 20)
    for asked in ASKED:
        estimate = draw_spread(people().plan(asked, epsilon=1), x, y, 3, 1)
        again = estimate_from_dict(json.loads(json.dumps(estimate.to_dict())))
        assert again == estimate
        assert again.intervals(0.9) == estimate.intervals(0.9)
        assert all(e >= 0 for e in estimate.errors(0.95))


@pytest.mark.deep
@pytest.mark.parametrize(("asked", "most"), [(variance("x"), 2500), (std("x"), 50), (covariance("x", "y"), 1250)])
def test_estimates_stay_within_what_is_possible(asked: Any, most: float) -> None:
    nothing = np.zeros(0)
    estimate = draw_spread(people().plan(asked, epsilon=0.01), nothing, nothing, 300, 4)
    lower = -most if asked.aggregate.statistic == "covariance" else 0
    ends = list(itertools.chain(*estimate.intervals(0.95), estimate.values()))
    assert min(ends) >= lower - 1e-9
    assert max(ends) <= most + 1e-9


def test_a_constant_column_has_no_variance_whatever_the_noise() -> None:
    estimate = draw_spread(people().plan(variance("one"), epsilon=0.1), np.full(50, 7.0), np.full(50, 7.0), 5, 4)
    assert estimate.values() == [0.0] * 5
    assert estimate.intervals(0.95) == [(0.0, 0.0)] * 5


@pytest.mark.deep
@pytest.mark.parametrize("poison", [float("nan"), float("inf"), -float("inf"), None, 1e308, -0.0])
def test_one_odd_row_does_not_change_the_class_of_the_answer(poison: Any) -> None:
    domain = sd.Domain({"x": sd.Real(0, 100, resolution=0.01), "y": sd.Integer(-20, 30)})
    asked = [variance("x"), std("x"), covariance("x", "y"), correlation("x", "y"), variance(col("x") * col("y"))]
    shapes = []
    for extra in ([], [poison]):
        table = pa.table(
            {"x": pa.array([1.5, 99.25, 3.0, *extra], pa.float64()), "y": [1, 2, -9, *[30 for _ in extra]]}
        )
        curator = protect(table, domain, budget=sd.PureDP(10))
        value = curator.ask(asked, epsilon=1).value
        assert all(math.isfinite(v) for v in value.values())
        shapes.append([(n, type(v)) for n, v in value.items()])
    assert shapes[0] == shapes[1]


def test_refusals_name_the_rule() -> None:
    domain = sd.Domain(
        {"free": sd.Integer(), "big": sd.Integer(-(2**60), 2**60), "d": sd.Date("2000-01-01", "2001-01-01")}
    )
    for asked, match in (
        (variance("free"), "variance of free has no bounded sensitivity"),
        (covariance("big", "free"), "covariance of free has no bounded sensitivity"),
        (variance("big"), "37 digits"),
        (std("d"), "standard deviation of dates is not supported"),
    ):
        with pytest.raises(QuestionRefused, match=match):
            compile_query(as_aggregation(asked), domain)
    with pytest.raises(QuestionRefused, match="ddof is 0"):
        variance("x", ddof=2)


def test_a_mean_beside_a_deviation_is_in_the_units_of_its_own_column() -> None:
    made = np.round(np.random.default_rng(1).uniform(10, 50, 500), 1)
    table = protect(pa.table({"w": made}), sd.Domain({"w": sd.Real(0, 100, resolution="0.1")}), budget=sd.PureDP(10**6))
    found = table.ask([sd.mean("w"), sd.std("w"), sd.sum("w")], epsilon=10**5).rows[0]
    assert found["mean_w"] == pytest.approx(made.mean(), rel=1e-3)
    assert found["std_w"] == pytest.approx(made.std(), rel=1e-3)
    assert found["sum_w"] == pytest.approx(made.sum(), rel=1e-3)
