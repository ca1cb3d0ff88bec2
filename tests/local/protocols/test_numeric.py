"""Means and distributions: laws, exact variances, coverage, epsilon; attributes, shape tests and projections."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from sordino.core.noise.rng import Rng
from sordino.errors import DeclarationError
from sordino.local import GRR, OLH, OUE, Attributes, Distribution, Hadamard, Mean, Reports, exact_epsilon, shape_test
from sordino.local.estimates.frequency import norm_sub
from sordino.local.protocols.numeric import METHODS

POINTS = (-1.0, -0.3, 0.0, 0.71, 1.0)
EVERY = pytest.mark.parametrize("method", METHODS)


def formula(method: str, epsilon: float, t: float) -> float:
    """Return the variance of one report by the published formulas."""
    grown, s = math.exp(epsilon), math.exp(epsilon / 2)
    duchi = ((grown + 1) / (grown - 1)) ** 2 - t * t
    piecewise = t * t / (s - 1) + (s + 3) / (3 * (s - 1) ** 2)
    if method == "hybrid":
        share = 1 - 1 / s if epsilon > 0.61 else 0.0
        return share * piecewise + (1 - share) * duchi
    return duchi if method == "duchi" else piecewise


@EVERY
@pytest.mark.parametrize("epsilon", [0.2, 0.5, 1, 2, 5])
def test_wang_2019_variances(method: str, epsilon: float) -> None:
    """Wang, Xiao, Yang et al. 2019: the grid of 16,384 steps and thresholds of 32 bits move them by less than 1 in 500."""
    for t in POINTS:
        assert Mean(0, 1, epsilon, method=method).variance(t) == pytest.approx(formula(method, epsilon, t), rel=2e-3)


def runs_of(mean: Mean, t: float, n: int, runs: int, seed: int) -> np.ndarray:
    """Return the estimates of `runs` batches of n reports of the answer at t, on the scale of [-1, 1]."""
    answers = np.full(n, (t + 1) / 2 * float(mean.upper - mean.lower) + float(mean.lower))
    rng, middle = Rng.seeded(seed), float(mean.upper + mean.lower) / 2
    half = float(mean.upper - mean.lower) / 2
    found = [mean.estimate(mean.count(mean.perturb(answers, rng))).value for _ in range(runs)]
    return (np.array(found) - middle) / half


@pytest.mark.deep
@EVERY
@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_one_report_has_the_stated_mean_and_variance(method: str, epsilon: float) -> None:
    """300,000 reports at each t: mean within 5 deviations, variance within 1%: deviations of it are at most .2%."""
    mean, n = Mean(10, 30, epsilon, method=method), 300_000
    for t in POINTS:
        answers = np.full(n, 20 + 10 * t)
        found = mean.estimate(mean.count(mean.perturb(answers, Rng.seeded(17))))
        spread = mean.variance(t)
        assert abs((found.value - 20) / 10 - t) < 5 * math.sqrt(spread / n)
        moments = found.moments
        assert moments.second - moments.first**2 == pytest.approx(spread, rel=0.02 if method != "duchi" else 0.01)


@pytest.mark.deep
@EVERY
def test_mse_over_formula_in_20000_runs(method: str) -> None:
    """MSE / formula within .9 and 1.1; 20,000 runs put a deviation at .01: a false alarm is 10 of them away."""
    mean = Mean(-1, 1, 1, method=method)
    for t in (-1.0, 0.2):
        errors = runs_of(mean, t, 50, 20_000, seed=19) - t
        assert 0.9 < np.mean(errors**2) / (formula(method, 1, t) / 50) < 1.1


@pytest.mark.deep
@EVERY
@pytest.mark.parametrize("about", ["respondents", "population"])
def test_mean_intervals_cover(method: str, about: str) -> None:
    """93% or more at nominal 95 over 1,200 runs; every group of 100 above .85: .95 looks so once in 7,000 groups."""
    rng, held = Rng.seeded(23), []
    for epsilon in (0.5, 1.0, 4.0):
        mean = Mean(-1, 1, epsilon, method=method)
        for n, low, high in ((1, 0.9, 0.9), (4, -1.0, 1.0), (30, 0.3, 0.3), (300, -0.2, 0.9)):
            hits = 0
            for _ in range(100):
                answers = low + (high - low) * rng.uniform_doubles(n)
                truth = float(answers.mean()) if about == "respondents" else (low + high) / 2
                lower, upper = mean.estimate(mean.count(mean.perturb(answers, rng))).interval(0.95, about=about)
                hits += lower - 1e-12 <= truth <= upper + 1e-12
            held.append(hits / 100)
    assert np.mean(held) > 0.93
    assert min(held) > 0.85


@pytest.mark.each(8)
@EVERY
@pytest.mark.parametrize("epsilon", [0.5, 1, 3])
def test_mean_epsilon_is_at_most_the_claim(method: str, epsilon: float) -> None:
    mean = Mean(0, 1, epsilon, method=method)
    assert 0.999 * epsilon < exact_epsilon(mean) <= mean.epsilon
    for value in mean.inputs():
        assert sum(mean.channel(value)[0]) == 1


def test_mean_clips_and_travels() -> None:
    mean = Mean(0, 10, 1)
    reports = mean.perturb([-5, 3, 50, float("inf")], Rng.seeded(1))
    assert Reports.from_bytes(reports.to_bytes(), mean) == reports
    assert mean.count(reports) + mean.count(reports) == mean.count(reports + reports)
    with pytest.raises(DeclarationError, match="never sends"):
        Reports.from_rows(b"\xff\xff", mean)
    with pytest.raises(DeclarationError, match="never sends"):
        Reports.from_rows(b"\2\0", Mean(0, 10, 1, method="duchi"))
    with pytest.raises(DeclarationError, match="another task"):
        Mean(0, 11, 1).count(reports)
    estimate = mean.estimate(mean.count(mean.perturb([4.0] * 2000, Rng.seeded(2))))
    names = ["mean", "error", "lower", "upper", "adversarial_lower", "adversarial_upper", "n"]
    assert estimate.table.column_names == names
    assert abs(estimate.value - 4) < 2 * estimate.error(0.95)


@EVERY
def test_malicious_move_a_mean_by_the_stated_shift_at_most(method: str) -> None:
    """A tenth of the respondents, all at the lower bound, send the highest report: the shift is reached, not passed."""
    mean, n, rng = Mean(0, 10, 1, method=method), 40_000, Rng.seeded(4)
    honest = mean.perturb([0.0] * (n - n // 10), rng)
    most = max((b"\1\0", (1 + 16384 + mean.window).to_bytes(2, "little")), key=lambda row: _value(mean, row))
    found = mean.estimate(mean.count(honest + Reports.from_rows(most * (n // 10), mean)))
    assert found.shift(0.1) == pytest.approx(found.value, abs=5 * found.error(0.95) / 1.96)
    low, high = found.adversarial(0.95, malicious=0.1)
    assert low <= found.shift(0.001)  # the truth is 0
    assert high == pytest.approx(min(10.0, found.interval(0.95)[1] + found.shift(0.1)))
    assert "1% malicious clients can move it by" in repr(found)
    assert found.table["adversarial_lower"][0].as_py() < found.table["lower"][0].as_py()
    with pytest.raises(DeclarationError, match="malicious"):
        found.shift(2)


def _value(mean: Mean, row: bytes) -> float:
    """Return the estimate of one report alone, or the least there is where the method does not send it."""
    try:
        return mean.estimate(mean.count(Reports.from_rows(row, mean))).value
    except DeclarationError:
        return -math.inf


@pytest.mark.parametrize("epsilon", [1e-4, 0.5, 1, 2, 6])
def test_square_wave_epsilon_and_law(epsilon: float) -> None:
    """The law of 200,000 reports of one bin by chi-square, at 1e-6; epsilon from all cells at most the claim."""
    wave, n = Distribution(0, 1, epsilon, bins=32), 200_000
    assert exact_epsilon(wave) <= wave.epsilon
    assert exact_epsilon(wave) > 0.99 * epsilon - 1e-6
    counts = np.array(wave.count(wave.perturb([0.999] * n, Rng.seeded(29))).supports)
    expected = n * wave.matrix()[:, 31]
    statistic, freedom = float((np.square(counts - expected) / expected).sum()), wave.cells - 1
    spread = 2 / (9 * freedom)
    assert NormalDist().cdf(-((statistic / freedom) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)) > 1e-6
    assert wave.matrix().sum(axis=0) == pytest.approx(np.ones(32))


def test_li_2020_smoothed_iteration_finds_the_shape() -> None:
    """Two humps, n = 200,000, epsilon 2: the Wasserstein distance is a twentieth of that of a level guess, and the mean near."""
    data = Rng.seeded(1).uniform_doubles(200_000)
    answers = np.where(data < 0.7, 20 + 10 * np.sin(40 * data), 70 + 8 * np.cos(33 * data))
    wave = Distribution(0, 100, 2, bins=64)
    found = wave.estimate(wave.count(wave.perturb(answers, Rng.seeded(2))))
    truth = np.histogram(answers, bins=found.edges)[0] / answers.size
    distance = np.abs(np.cumsum(found.frequencies - truth)).sum() / 64
    level = np.abs(np.cumsum(1 / 64 - truth)).sum() / 64
    assert distance < level / 10
    assert found.mean == pytest.approx(answers.mean(), abs=1)
    assert found.quantile(0.5) == pytest.approx(np.median(answers), abs=2)
    assert found.frequencies.sum() == pytest.approx(1)
    assert found.frequencies.min() >= 0
    with pytest.raises(DeclarationError, match="rank"):
        found.quantile(2)


@pytest.mark.deep
def test_norm_sub_is_the_nearest_point_of_the_simplex() -> None:
    """No point of the simplex, of 2,000 drawn, is nearer; clip-and-renormalise never is."""
    rng = Rng.seeded(3)
    for _ in range(20):
        raw = rng.uniform_doubles(6) * 0.6 - 0.15
        found = norm_sub(raw, total=1.0)
        assert found.sum() == pytest.approx(1)
        assert found.min() >= 0
        others = -np.log(rng.uniform_doubles(2000 * 6).reshape(-1, 6) + 1e-12)
        others /= others.sum(axis=1, keepdims=True)
        clipped = np.maximum(raw, 0) / np.maximum(raw, 0).sum()
        for other in (*others, clipped):
            assert np.square(found - raw).sum() <= np.square(other - raw).sum() + 1e-12


def test_attributes_split_by_variance() -> None:
    labels: dict[str, list[str | int | bool | None]] = {"sex": ["f", "m"], "age": list(range(10)), "town": list("abcd")}
    chosen = Attributes(labels, epsilon=1, respondents=30_000)
    assert chosen.split == "users"
    assert "points at 95%" in chosen.why
    many = Attributes({"a": range(2), "b": range(2)}, epsilon=20, respondents=1000)
    assert many.split == "budget"
    answers = {"sex": ["f"] * 30_000, "age": np.arange(30_000) % 10, "town": ["a", "b"] * 15_000}
    for split in ("users", "budget"):
        made = Attributes(labels, epsilon=1, respondents=30_000, split=split)
        reports = made.perturb(answers, Rng.seeded(5))
        sizes = [len(r) for r in reports.values()]
        assert sum(sizes) == (30_000 if split == "users" else 90_000)
        claims = [float(p.epsilon) for p in made.protocols.values()]
        assert max(claims) <= 1 if split == "users" else sum(claims) <= 1 + 1e-9
        for name, estimate in made.estimate(made.count(reports)).items():
            truth = {"sex": 1.0, "age": 0.1, "town": 0.5}[name]
            assert abs(estimate.frequencies[0] - truth) < 5 * estimate.errors(0.95, about="population")[0] / 1.96
    with pytest.raises(DeclarationError, match="exactly the columns"):
        chosen.perturb({"sex": ["f"]}, Rng.seeded(1))
    with pytest.raises(DeclarationError, match="column 'sex': answer number 0"):
        chosen.perturb(answers | {"sex": ["?"] * 30_000}, Rng.seeded(1))
    with pytest.raises(DeclarationError, match="same length"):
        chosen.perturb(answers | {"sex": ["f"]}, Rng.seeded(1))
    with pytest.raises(DeclarationError, match="split"):
        Attributes(labels, epsilon=1, respondents=10, split="neither")


@pytest.mark.parametrize("made", [OUE, OLH, Hadamard])
def test_shape_tests_pass_honest_reports_and_detect_crude_attacks(made: Any) -> None:
    """20 honest batches: none below 1e-7 (false alarm 6e-6); one in fifty reports of the same crude kind is found."""
    protocol, n = made(range(128), epsilon=1), 5000
    answers = np.arange(n, dtype=np.int32) % 7
    for seed in range(20):
        assert shape_test(protocol, protocol.perturb(answers, Rng.seeded(seed))).p_value > 1e-7
    honest = protocol.perturb(answers, Rng.seeded(1))
    crude = {"OUE": b"\xff" * 16}.get(protocol.name, bytes(protocol.width))
    attacked = honest + Reports.from_rows(crude * 100, protocol)
    found = shape_test(protocol, attacked)
    assert found.suspicious
    assert not shape_test(protocol, honest).suspicious
    before, after = (protocol.estimate(protocol.count(batch)) for batch in (honest, attacked))
    share = 100 / 5100
    most = after.shift(share)[0] - share * min(0.0, before.frequencies.min())  # the shift is from an honest share of 0
    assert share < (after.frequencies - before.frequencies).max() <= most + 1e-9


def test_no_shape_to_test_in_randomized_response() -> None:
    protocol = GRR(["a", "b"], epsilon=1)
    found = shape_test(protocol, protocol.perturb(["a"] * 10, Rng.seeded(1)))
    assert found.p_value == 1.0
    assert "nothing to test" in found.finding


def test_adversarial_interval_is_wider_by_the_shift() -> None:
    protocol = Hadamard(range(8), epsilon=1)
    estimate = protocol.estimate(protocol.count(protocol.perturb(np.zeros(4000, dtype=np.int32), Rng.seeded(1))))
    table = estimate.interval(0.95, malicious=0.05).to_pydict()
    added, taken = estimate.shift(0.05)
    assert table["adversarial_lower"][0] == pytest.approx(table["lower"][0] - added)
    assert table["adversarial_upper"][3] == pytest.approx(table["upper"][3] + taken)
    assert "1% malicious clients can add" in repr(estimate)
