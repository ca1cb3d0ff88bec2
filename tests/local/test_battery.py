"""Every protocol: unbiased with the exact variance, its law, its epsilon, its wire format. Seeds are fixed."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from local.battery import (
    NARROW,
    RANDOMIZERS,
    WIDE,
    RandomizerCase,
    population,
    squared_errors,
    squared_errors_until,
)
from sordino.core.noise.rng import Rng
from sordino.errors import DeclarationError
from sordino.local import SHE, Reports, exact_epsilon, fair_coins, from_parameters
from sordino.local.estimates.binomial import binomial_law, population_interval, respondents_interval
from sordino.local.estimates.frequency import variance
from sordino.local.estimates.noisy_sums import NoisySumEstimate
from sordino.local.exactness import exact_ratio
from sordino.local.protocols.randomizer import Randomizer

CASES = pytest.mark.parametrize("case", RANDOMIZERS, ids=lambda case: case.name)
SIZES = pytest.mark.parametrize("k", [NARROW, WIDE])


@pytest.mark.each(5)
@CASES
@SIZES
def test_squared_error_over_formula(case: RandomizerCase, k: int) -> None:
    """MSE / formula within .9 and 1.1: as many runs as put a false alarm of any case under 1e-4."""
    chance = 1e-4 / (2 * len(RANDOMIZERS))
    ratios = squared_errors_until(case.made(range(k)), k=k, within=0.1, chance=chance, seed=7)
    assert 0.9 < ratios.mean() < 1.1


@pytest.mark.deep
@CASES
@SIZES
def test_squared_error_over_formula_of_each_label(case: RandomizerCase, k: int) -> None:
    """MSE / formula of every label by itself: 6,000 runs put a label's deviation at .0183, 5.5 of them at .1.

    A false alarm in any of 9 protocols times 142 labels: 9 * 142 * 4e-8 < 1e-4.
    """
    ratios = squared_errors(case.made(range(k)), k=k, n=250, runs=6000, seed=11)
    means = ratios.mean(axis=0)
    assert (means > 0.9).all()
    assert (means < 1.1).all()


@pytest.mark.deep
def test_fair_coins_squared_error_in_20000_runs() -> None:
    """One number: 20,000 runs put the deviation of MSE / formula at .01, a false alarm is 10 of them away."""
    protocol, rng, n, runs = fair_coins(), Rng.seeded(12), 100, 20_000
    answers = np.array([True] * 11 + [False] * 89)
    found = [protocol.count(protocol.perturb(answers, rng)).supports[1] for _ in range(runs)]
    errors = (np.array(found) / n - 0.25) / 0.5 - 0.11
    assert 0.9 < float(np.mean(errors**2)) / variance(0.75, 0.25, share=0.11, n=n) < 1.1


@pytest.mark.each(3)
@CASES
def test_estimates_are_unbiased(case: RandomizerCase) -> None:
    """The mean of 200 estimates lies within 5.5 deviations of the truth: false alarms under 14 * 9 * 4e-8."""
    protocol, n, runs = case.made(range(NARROW)), 1000, 200
    truth, rng = population(NARROW, n), Rng.seeded(3)
    shares = np.bincount(truth, minlength=NARROW) / n
    found = [protocol.estimate(protocol.count(protocol.perturb(truth, rng))).frequencies for _ in range(runs)]
    spread = np.array([protocol.variance(share=float(s), n=n) for s in shares])
    assert (np.abs(np.mean(found, axis=0) - shares) < 5.5 * np.sqrt(spread / runs)).all()


def deviation(protocol: Any, n: int, *, own: bool) -> float:
    """Return the deviation of a label's support by n respondents who all have it, or none of whom has."""
    return n * float(protocol.p - protocol.q) * math.sqrt(protocol.variance(share=float(own), n=n))


@pytest.mark.each(5)
@CASES
@SIZES
def test_supports_have_the_stated_probabilities(case: RandomizerCase, k: int) -> None:
    """A report supports its label with p, any other with q: within 5.5 deviations, false alarms under 9 * 142 * 4e-8."""
    protocol, n = case.made(range(k)), 40_000
    value = k - 1
    counts = protocol.count(protocol.perturb(np.full(n, value, dtype=np.int32), Rng.seeded(5)))
    for label, count in enumerate(counts.supports):
        chance = float(protocol.p if label == value else protocol.q)
        assert abs(count - n * chance) < 5.5 * deviation(protocol, n, own=label == value), label


@CASES
@pytest.mark.parametrize("k", [2, 3, NARROW])
def test_exact_epsilon_is_at_most_the_claim(case: RandomizerCase, k: int) -> None:
    protocol = case.made(range(k))
    assert 0 < exact_epsilon(protocol) <= protocol.epsilon
    assert exact_epsilon(protocol) > 0.999 * protocol.epsilon - 1e-6
    assert float(protocol.event.pure()) <= protocol.epsilon


@CASES
def test_laws_sum_to_one(case: RandomizerCase) -> None:
    protocol = case.made(range(5))
    for value in protocol.inputs():
        for part in protocol.channel(value):
            if case.name != "subset":  # its law names one set of each kind
                assert sum(part) == 1
    assert exact_ratio(protocol) > 1


@CASES
def test_reports_travel(case: RandomizerCase) -> None:
    protocol = case.made([f"label {i}" for i in range(NARROW)])
    randomizer: object = protocol
    assert isinstance(randomizer, Randomizer)
    reports = protocol.perturb([f"label {i % NARROW}" for i in range(500)], Rng.seeded(1))
    data = reports.to_bytes()
    back = Reports.from_bytes(data, protocol)
    assert back == reports
    assert protocol.count(back) == protocol.count(reports)
    assert len(data) == 48 + 500 * protocol.width
    half, rest = (Reports.from_rows(reports.rows[s].tobytes(), protocol) for s in (slice(200), slice(200, 500)))
    assert half + rest == reports
    assert protocol.count(half) + protocol.count(rest) == protocol.count(reports)
    again = from_parameters(protocol.parameters(), protocol.labels)
    assert again == protocol
    assert again.count(reports) == protocol.count(reports)


@CASES
def test_altered_reports_are_refused(case: RandomizerCase) -> None:
    labels = [f"label {i}" for i in range(NARROW)]
    protocol, other = case.made(labels), case.made(labels[1:])
    data = protocol.perturb(labels, Rng.seeded(1)).to_bytes()
    for wrong in (data[:-1], data + b"\0", b"X" + data[1:], data[:4] + b"\2" + data[5:], data[:20], b""):
        with pytest.raises(DeclarationError):
            Reports.from_bytes(wrong, protocol)
    with pytest.raises(DeclarationError, match="another task"):
        Reports.from_bytes(data, other)
    with pytest.raises(DeclarationError, match="another task"):
        other.count(Reports.from_bytes(data, protocol))
    with pytest.raises(DeclarationError, match="another task"):
        other.estimate(protocol.count(Reports.from_bytes(data, protocol)))
    with pytest.raises(DeclarationError, match="different tasks"):
        _ = protocol.count(Reports.from_bytes(data, protocol)) + other.count(other.perturb(labels[1:], Rng.seeded(1)))


@CASES
def test_impossible_rows_are_refused(case: RandomizerCase) -> None:
    protocol = case.made(range(13))  # padding bits in the last byte
    with pytest.raises(DeclarationError):
        Reports.from_rows(b"\xff" * protocol.width, protocol)


@CASES
def test_missing_answers(case: RandomizerCase) -> None:
    """Where no label stands for it, a missing answer supports every label with q; 5.5 deviations as above."""
    protocol, n = case.made(["a", "b", "c", "d"]), 20_000
    if not case.missing:
        with pytest.raises(DeclarationError, match="missing"):
            protocol.perturb(["a", None], Rng.seeded(1))
        with_own = case.made(["a", "b", None])
        assert len(with_own.perturb(["a", None], Rng.seeded(1))) == 2
        return
    counts = protocol.count(protocol.perturb([None] * n, Rng.seeded(2)))
    chance = float(protocol.q)
    assert counts.n == n
    assert all(abs(c - n * chance) < 5.5 * deviation(protocol, n, own=False) for c in counts.supports)


def sum_coverage(protocol: SHE, *, n: int, held: int, about: str) -> float:
    """Return how likely the 95% interval of noisy sums holds a label's share, summed over the sums within 9 deviations."""
    ratio, share = float(protocol.ratio), held / n
    steps = np.arange(1 - protocol.limit, protocol.limit)
    reach = math.ceil(9 * math.sqrt(n) * 2 / (1 - ratio)) + protocol.limit
    noise = np.zeros(1 << (2 * (reach + n)).bit_length())
    noise[steps] = (1 - ratio) / (1 + ratio) * ratio ** np.abs(steps)
    law = np.fft.irfft(np.fft.rfft(noise) ** n, noise.size)
    first, drawn = binomial_law(n, share) if about == "population" else (held, np.ones(1))
    moved = np.zeros(noise.size)
    moved[first : first + drawn.size] = drawn
    law = np.fft.irfft(np.fft.rfft(law) * np.fft.rfft(moved), noise.size)
    sums = np.arange(-reach, reach + n)
    made = NoisySumEstimate(tuple(range(sums.size)), tuple(sums.tolist()), n, protocol.p, protocol.q, "SHE", ratio, 127)
    ends = made.interval(0.95, about=about)
    lower, upper = (ends.column(name).to_numpy() for name in ("lower", "upper"))
    return float(law[sums][(lower - 1e-9 <= share) & (share <= upper + 1e-9)].sum())


def coverage(protocol: Any, *, n: int, held: int, about: str) -> float:
    """Return how likely the 95% interval of a label holds its share, summed over every number of supports."""
    if isinstance(protocol, SHE):
        return sum_coverage(protocol, n=n, held=held, about=about)
    p, q, share = float(protocol.p), float(protocol.q), held / n
    if about == "population":
        first, mass = binomial_law(n, share * p + (1 - share) * q)
        ends = population_interval
    else:
        (low, here), (lower, there) = binomial_law(held, p), binomial_law(n - held, q)
        first, mass = low + lower, np.convolve(here, there)
        ends = respondents_interval
    lower_ends, upper_ends = ends(tuple(range(first, first + mass.size)), n=n, p=p, q=q, confidence=0.95)
    slack = 1e-9
    return float(mass[(lower_ends - slack <= share) & (share <= upper_ends + slack)].sum())


@pytest.mark.each(10)
@CASES
@pytest.mark.parametrize("about", ["respondents", "population"])
def test_intervals_cover(case: RandomizerCase, about: str) -> None:
    """Intervals at 95% hold the true share with probability .94 or more, in tiny groups as well: no chance is left to it."""
    for k in (2, NARROW, 1024):
        protocol = case.made(range(k))
        if k > 2 and isinstance(protocol, SHE):
            continue  # its intervals do not depend on how many labels there are
        for n in (1, 2, 3, 7, 20, 100, 1000, 20_000):
            for held in sorted({0, 1, n // 10, n // 2, n - 1, n}):
                found = coverage(protocol, n=n, held=held, about=about)
                assert found >= 0.94, (k, n, held)


@CASES
def test_seeded_reports_repeat(case: RandomizerCase) -> None:
    protocol = case.made(range(5))
    assert protocol.perturb([1, 2], Rng.seeded(4)) == protocol.perturb([1, 2], Rng.seeded(4))
    assert protocol.perturb([1, 2] * 40, Rng.seeded(4)) != protocol.perturb([1, 2] * 40, Rng.seeded(5))
    assert "epsilon" in repr(protocol)


def test_normal_tail_is_as_stated() -> None:
    assert NormalDist().cdf(-5.5) * 2 < 4e-8


def law_of(protocol: Any, value: int | None, n: int, seed: int) -> dict[bytes, int]:
    """Return how often each report came, of n respondents with the same label."""
    answers = [None if value is None else protocol.labels[value]] * n
    rows = protocol.perturb(answers, Rng.seeded(seed)).rows
    found, counts = np.unique(rows, axis=0, return_counts=True)
    return {row.tobytes(): int(count) for row, count in zip(found, counts, strict=True)}


@CASES
def test_sampled_ratio_is_below_the_claim(case: RandomizerCase) -> None:
    """No report of three labels is likelier under one label than e^epsilon times under another, by 40,000 samples each.

    Reports seen 200 times or more; five deviations of the logarithm of the ratio; false alarms under 1e-4.
    """
    protocol, n = case.made(range(3)), 40_000
    laws = [law_of(protocol, value, n, seed) for value, seed in ((0, 21), (1, 22), (2, 23))]
    worst = -math.inf
    for here in laws:
        for there in laws:
            for report, count in here.items():
                other = there.get(report, 0)
                if here is not there and min(count, other) >= 200:
                    worst = max(worst, math.log(count / other) - 5 * math.sqrt(1 / count + 1 / other))
    assert worst <= protocol.epsilon
    assert worst > 0  # the samples can distinguish labels at all
