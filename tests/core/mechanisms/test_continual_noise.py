"""The noise of a series: its exact variances, and that draws moved by no more than the theorem's bound explain any neighbor."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sordino.core.errors import DeclarationError
from sordino.core.mechanisms.continual_noise import (
    ContinualDraws,
    ContinualGaussian,
    Participation,
    bound_moves,
    bound_unit_moves,
    coefficients,
    column_squared,
    participation_squared,
    round_totals,
    shift_squared,
    weigh_draws,
)
from sordino.core.neighbors import Relation
from sordino.core.noise.rng import NoiseKey, Rng

HALF = Fraction(1, 2)


def noise_for(horizon: int, *, moved: int = 1, cells: int = 1, rho: Fraction = HALF) -> ContinualGaussian:
    return ContinualGaussian(Fraction(moved), cells, rho, horizon)


def totals_of(draws: Any, horizon: int) -> Any:
    """Return w_1, w_2, ... of a matrix of draws, a row a step."""
    return np.stack([round_totals(weigh_draws(draws, step, horizon)) for step in range(1, len(draws) + 1)])


def explain(draws: Any, shift: Any, horizon: int) -> Any:
    """Return the draws under which a neighbor, whose totals are larger by `shift` fine steps, releases the same."""
    released = totals_of(draws, horizon)
    other = np.zeros_like(draws)
    for step in range(len(draws)):
        known = round_totals(weigh_draws(other, step + 1, horizon))
        other[step] = released[step] - shift[step] - known
    assert (totals_of(other, horizon) + shift == released).all()
    return other


@pytest.mark.parametrize(("horizon", "most"), [(365, 3.0), (3_650, 3.8)])
def test_the_greatest_deviation_of_a_running_total(horizon: int, most: float) -> None:
    noise = noise_for(horizon)
    deviations = [math.sqrt(noise.total_variance(step)) for step in (1, horizon // 2, horizon)]
    assert max(deviations) == deviations[-1] <= most
    # Fresh noise a day would have root(365) = 19.1, the binary tree 8.5.
    assert deviations[-1] < math.sqrt(horizon) / 6


def test_coefficients_are_the_nearest_and_the_bound_is_above() -> None:
    exact = [Fraction(math.comb(2 * k, k), 4**k) for k in range(200)]
    rounded = coefficients(200).tolist()
    assert rounded == [math.floor(c * 2**24 + HALF) for c in exact]
    for horizon in (1, 2, 7, 200):
        squares = sum(c * c for c in exact[:horizon])
        assert 0 <= column_squared(horizon) - squares < Fraction(1, 2**80)
    # a convolution with itself is the matrix of running totals
    whole = np.convolve([float(c) for c in exact], [float(c) for c in exact])[:200]
    assert np.abs(whole - 1).max() < 1e-12


@pytest.mark.each(7)
@pytest.mark.parametrize("fine", [1, 3, 1 << 16])
@pytest.mark.parametrize("horizon", [1, 2, 5, 40])
def test_moved_draws_explain_every_neighbor_within_the_bound(horizon: int, fine: int) -> None:
    """Steps of any size: with one fine step to a step, what rounding adds is as large as it can be."""
    rng = Rng.seeded(horizon * 100 + fine)
    draws = (rng.words((horizon, 2), np.uint64) >> np.uint64(48)).astype(np.int64) - (1 << 15)
    for first in range(horizon):
        for change in ((1, 0), (-1, 0), (1, -1)):
            shift = np.zeros((horizon, 2), dtype=np.int64)
            shift[first:] = np.array(change) * fine
            moved = explain(draws, shift, horizon) - draws
            length = sum(int(one) ** 2 for one in moved.ravel())
            touched = sum(map(abs, change))
            assert length <= shift_squared(Fraction(touched * fine**2), touched, horizon)


def test_the_bound_is_near() -> None:
    """With fine steps it is longer than the linear column by less than 1%, so that no noise is wasted."""
    for horizon in (1, 365, 10_000):
        noise = noise_for(horizon)
        linear = column_squared(horizon) * noise.fine**2
        bound = shift_squared(Fraction(noise.fine**2), 1, horizon)
        assert 1 <= bound / linear < Fraction(101, 100)
        # rho is exactly what it costs to move the draws by the bound
        assert bound / (2 * noise.sigma_squared) == noise.rho


@pytest.mark.each(2)
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("bounds", [(0, 1), (0, 3), (-2, 0), (-2, 3), (1, 2)])
@pytest.mark.parametrize("rows", [1, 2])
def test_no_unit_moves_further_than_the_bound(relation: Relation, bounds: tuple[int, int], rows: int) -> None:
    """All changes of up to two rows over three steps and two cells, by the exact columns."""
    horizon = 3
    column = np.array([float(Fraction(math.comb(2 * k, k), 4**k)) for k in range(horizon)])
    vectors = [np.zeros(2 * horizon)]
    for value, step, cell in itertools.product({bounds[0], bounds[1]}, range(horizon), range(2)):
        vector = np.zeros((2, horizon))
        vector[cell, step:] = value * column[: horizon - step]
        vectors.append(vector.ravel())
    sums = [np.sum(chosen, axis=0) for chosen in itertools.combinations_with_replacement(vectors, rows)]
    pairs = [(one, np.zeros(2 * horizon)) for one in sums]
    if relation == "replace":
        pairs = list(itertools.product(sums, sums))
    farthest = max(float(np.sum((one - other) ** 2)) for one, other in pairs)
    assert farthest <= float(bound_moves(bounds, rows, relation) * column_squared(horizon)) * (1 + 1e-12)


def test_draws_are_a_function_of_key_step_and_cell() -> None:
    noise = noise_for(50)
    key = NoiseKey.draw(Rng.seeded(1))
    once = ContinualDraws(noise, key, 4).totals([0, 7, 50])
    again = ContinualDraws(noise, key, 4)
    step_by_step = {step: again.totals([step])[0] for step in (3, 7, 50, 0)}
    for step, one in zip((0, 7, 50), once, strict=True):
        assert one.tolist() == step_by_step[step].tolist()
    assert once[0].tolist() == [0, 0, 0, 0]
    other = ContinualDraws(noise, NoiseKey.draw(Rng.seeded(2)), 4).totals([7])[0]
    assert other.tolist() != once[1].tolist()


def test_draws_stay_those_of_every_version() -> None:
    """A series goes on for years: where these change, so does noise that was drawn before."""
    noise = noise_for(10)
    key = NoiseKey((bytes(range(32)), bytes(range(32, 64))), private=False)
    totals = [one.tolist() for one in ContinualDraws(noise, key, 3).totals([1, 2, 10])]
    assert totals == GOLDEN
    wide = ContinualGaussian(Fraction(10**40), 1, Fraction(1, 1000), 10)
    assert [one.tolist() for one in ContinualDraws(wide, key, 2).totals([3])] == GOLDEN_WIDE


GOLDEN = [[151955, 175609, -48954], [121752, 147416, -105034], [-32351, 76526, -21549]]
GOLDEN_WIDE = [[223059622796200439894, 3181884201741822278415]]


def test_draws_that_are_not_kept_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = noise_for(12)
    key = NoiseKey.draw(Rng.seeded(3))
    kept = ContinualDraws(noise, key, 5).totals([4, 12])
    monkeypatch.setattr("sordino.core.mechanisms.continual_noise._MOST_KEPT", 1)
    streamed = ContinualDraws(noise, key, 5).totals([4, 12])
    assert [one.tolist() for one in kept] == [one.tolist() for one in streamed]


def test_the_covariance_of_totals_by_its_law() -> None:
    """Of 4,000 series at once; a sum over all pairs of steps of a squared error, at 6 deviations."""
    _compare_covariance(steps=6, series=4_000, seed=1)


@pytest.mark.deep
@pytest.mark.parametrize("steps", [30, 365])
def test_the_covariance_of_20_000_series(steps: int) -> None:
    _compare_covariance(steps=steps, series=20_000, seed=steps)


def _compare_covariance(*, steps: int, series: int, seed: int) -> None:
    """Compare the sample covariance of w_t / fine with sigma^2 B B^T.

    An entry has the sampling variance (c_ss c_tt + c_st^2) / n; among p entries none is off by more than 6 of its deviations
    but with a chance below p * 2e-9.
    """
    noise = noise_for(steps)
    draws = ContinualDraws(noise, NoiseKey.draw(Rng.seeded(seed)), series)
    chosen = list(range(1, steps + 1)) if steps <= 30 else [1, 2, 3, 7, 30, 100, 200, 300, 364, 365]
    totals = np.stack(draws.totals(chosen)) / noise.fine
    sample = totals @ totals.T / series
    lead = coefficients(steps) / 2**24
    rows = np.stack([np.concatenate([lead[:step][::-1], np.zeros(steps - step)]) for step in chosen])
    exact = rows @ rows.T * float(noise.sigma_squared) / noise.fine**2
    allowed = 6 * np.sqrt((np.outer(np.diag(exact), np.diag(exact)) + exact**2) / series)
    assert (np.abs(sample - exact) <= allowed).all()
    for step, row in zip(chosen, exact, strict=True):
        stated = noise.total_variance(step)
        assert row[chosen.index(step)] <= stated <= row[chosen.index(step)] * 1.0001


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((Fraction(1), 1, Fraction(0), 10), "rho must be above 0"),
        ((Fraction(0), 1, HALF, 10), "a unit must move at least one cell"),
        ((Fraction(1), 1, HALF, 0), "horizon must be from 1 to 1,048,576 steps, not 0"),
    ],
)
def test_parameters_that_no_series_has(arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(DeclarationError, match=words):
        ContinualGaussian(*arguments)


def farthest_columns(horizon: int, participation: Participation) -> Fraction:
    """Return the largest ||sum of g_s over s in S||^2 over every S with as many steps of each window as count."""
    terms = [Fraction(math.comb(2 * k, k), 4**k) for k in range(horizon)]
    windows = [
        range(first, min(first + participation.window, horizon)) for first in range(0, horizon, participation.window)
    ]
    choices = [itertools.combinations(one, min(len(one), participation.max_periods)) for one in windows]
    farthest = Fraction(0)
    for steps in itertools.product(*choices):
        column = [sum((terms[t - s] for one in steps for s in one if s <= t), Fraction(0)) for t in range(horizon)]
        farthest = max(farthest, sum((entry * entry for entry in column), Fraction(0)))
    return farthest


@pytest.mark.parametrize(
    ("horizon", "max_periods", "window"),
    [
        (1, 1, 1),
        (6, 1, 3),
        (7, 1, 3),
        (8, 2, 4),
        (9, 2, 3),
        (10, 2, 4),
        (8, 3, 8),
        (8, 1, 8),
        (7, 7, 7),
        (7, 1, 1),
        (9, 3, 5),
    ],
)
def test_no_unit_moves_columns_further_than_its_participation_allows(
    horizon: int, max_periods: int, window: int
) -> None:
    participation = Participation(max_periods, window)
    bound = participation_squared(horizon, participation)
    farthest = farthest_columns(horizon, participation)
    assert farthest <= bound
    # exact for the whole horizon and for every step, else within a tenth of the length
    is_exact = window >= horizon or max_periods == window
    assert bound <= farthest * (1 + Fraction(1, 10**5) if is_exact else Fraction(121, 100))
    assert participation.most(horizon) == sum(
        min(max_periods, horizon - first, window) for first in range(0, horizon, window)
    )


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("bounds", [(0, 1), (-2, 3), (-4, -1)])
def test_no_unit_of_many_steps_moves_totals_further_than_the_bound(relation: Relation, bounds: tuple[int, int]) -> None:
    """Over all units of one row in each of two of three steps and two cells, of every neighbor, the extreme values of a row."""
    horizon = 3
    participation = Participation(2, 3)
    terms = [math.comb(2 * k, k) / 4**k for k in range(horizon)]
    shifts = []
    for steps in ((0, 1), (0, 2), (1, 2)):
        for cells in itertools.product((0, 1), repeat=2):
            for values in itertools.product(bounds, repeat=2):
                totals = np.zeros((horizon, 2))
                for step, cell, value in zip(steps, cells, values, strict=True):
                    totals[step:, cell] += value * np.array(terms[: horizon - step])
                shifts.append(totals)
    ends = [np.zeros((horizon, 2))] if relation == "add_remove" else shifts
    farthest = max(float(((one - other) ** 2).sum()) for one in shifts for other in ends)
    bound = float(bound_unit_moves(bounds, 1, relation) * participation_squared(horizon, participation))
    assert 0.6 * bound < farthest <= bound * (1 + 1e-9)


def test_a_participation_has_a_window_and_a_horizon() -> None:
    with pytest.raises(DeclarationError, match="a unit counts in 1 to 3 periods of 3, not in 4"):
        Participation(4, 3)
    with pytest.raises(DeclarationError, match="at most 10,000 steps where units count in several"):
        ContinualGaussian(Fraction(1), 1, HALF, 10_001, Participation(1, 7))
    # a year of days, one a week: 26 times the noise of one row a year
    year = ContinualGaussian(Fraction(1), 1, HALF, 365, Participation(1, 7))
    assert math.sqrt(year.total_variance(365)) < 26 * 2.945
