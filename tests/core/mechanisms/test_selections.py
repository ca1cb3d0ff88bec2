"""The battery for selections. Seeded; each statistical test would alarm falsely for one seed in 100,000 or more."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest

from battery import SELECTIONS, SelectionCase, chi_square_tail
from mistyping import mistype
from published import read_published, rows_of
from selection_law import flip_probabilities, selection_probabilities
from sordino.core.estimates.choices import bad_flip
from sordino.core.mechanisms.selection import Exponential, PermuteAndFlip, gaps_below_best
from sordino.core.noise.rng import Rng
from sordino.errors import DeclarationError

ALARM = 1e-5
COUNT = 1_500
COUNTS = pytest.mark.parametrize("count", [3_000, pytest.param(60_000, marks=pytest.mark.deep)])
EVERY = pytest.mark.parametrize("case", SELECTIONS, ids=lambda c: c.name)
KINDS = [Exponential, PermuteAndFlip]
EACH = pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
SCORES = [Fraction(s) for s in read_published("selections")["scores"]]


@lru_cache
def chosen(case: SelectionCase, scores: tuple[int | Fraction, ...], seed: int, count: int) -> np.ndarray:
    rng = Rng.seeded(seed)
    return np.bincount([case.made.release(scores, rng) for _ in range(count)], minlength=len(scores))


@pytest.mark.deep
@EVERY
@COUNTS
def test_law_by_chi_square(case: SelectionCase, count: int) -> None:
    wanted = selection_probabilities(case.made, case.scores) * count
    statistic = float(((chosen(case, case.scores, 22, count) - wanted) ** 2 / wanted).sum())
    assert chi_square_tail(statistic, len(wanted) - 1) > ALARM


@pytest.mark.each(2)
@EVERY
def test_losses_of_every_small_neighbor_stay_below_epsilon(case: SelectionCase) -> None:
    """All score pairs on a small grid, by closed-form probabilities; some pair comes within a tenth of epsilon."""
    made = case.made
    step = made.sensitivity
    moves = (Fraction(0), step) if case.monotone else (-step, Fraction(0), step)
    worst = 0.0
    for scores in itertools.product((0, 2, 30), repeat=3):
        here = [step * int(s) for s in scores]
        first = np.log(selection_probabilities(made, here))
        for move in itertools.product(moves, repeat=3):
            loss = first - np.log(selection_probabilities(made, [s + m for s, m in zip(here, move, strict=True)]))
            worst = max(worst, float(np.abs(loss).max()))
    assert worst <= case.epsilon * (1 + 1e-8)
    assert worst > 0.9 * case.epsilon


@pytest.mark.deep
@EVERY
@COUNTS
def test_audited_epsilon_is_below_the_claim(case: SelectionCase, count: int) -> None:
    """Clopper-Pearson bounds on every set of indices, shared over 2^n sets and two directions."""
    from scipy.special import betaincinv

    here, there = chosen(case, case.scores, 22, count), chosen(case, case.neighbor, 23, count)
    n = len(case.scores)
    alarm = ALARM / (4 * 2**n)
    for members in itertools.product((False, True), repeat=n):
        a, b = int(here[list(members)].sum()), int(there[list(members)].sum())
        for k, other in ((a, b), (b, a)):
            low = float(betaincinv(k, count - k + 1, alarm)) if k else 0.0
            high = float(betaincinv(other + 1, count - other, 1 - alarm)) if other < count else 1.0
            assert low <= high * math.exp(case.epsilon)


def test_the_audit_has_teeth() -> None:
    """The factor 1 without monotone scores loses twice the claim, and the closed form shows it."""
    made = Exponential(Fraction(1), Fraction(1), True)
    loss = np.log(selection_probabilities(made, [0, 60]) / selection_probabilities(made, [1, 59]))
    assert np.abs(loss).max() > 1.99


@pytest.mark.each(3)
@EVERY
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_error_is_covered_and_no_larger_than_needed(case: SelectionCase, confidence: float) -> None:
    """For all scores: random ones stay covered, and n - 1 candidates just beyond the bound almost reach it."""
    made, generator = case.made, np.random.default_rng(5)
    for candidates in (2, 3, 50):
        bound = made.error(confidence, candidates=candidates)
        assert bound <= math.log(candidates / (1 - confidence)) / float(made.rate)
        for spread in (1, 10, 100):
            scores = [int(x) for x in generator.integers(0, spread, candidates)]
            law, best = selection_probabilities(made, scores), max(scores)
            assert law[[best - s > bound for s in scores]].sum() <= 1 - confidence + 1e-9
        beyond = Fraction(bound) + Fraction(1, 10**6)
        missed = selection_probabilities(made, [beyond] + [0] * (candidates - 1))[1:].sum()
        assert missed <= 1 - confidence + 1e-9
        assert bound == 0 or missed > (1 - confidence) * 0.999


@EVERY
def test_event_is_sane(case: SelectionCase) -> None:
    event = case.made.event
    epsilon = event.pure()
    assert epsilon == case.made.epsilon
    assert event.approx() == (epsilon, Fraction(0))
    rho = event.rho()
    assert rho is not None
    assert 0 < rho <= epsilon**2 / 2
    renyi = [event.renyi(order) for order in (1.5, 2, 4, 16, 64)]
    assert renyi == sorted(renyi)


@EVERY
def test_repr_round_trip(case: SelectionCase) -> None:
    names = {kind.__name__: kind for kind in KINDS} | {"Fraction": Fraction}
    assert eval(repr(case.made), names) == case.made
    assert case.made.describe()


@EACH
def test_scores_of_any_size_give_no_nan(kind: type) -> None:
    made, rng = kind(Fraction(1), Fraction(1)), Rng.seeded(4)
    for factor in (1, 1000, 10**30, Fraction(1, 10**30), 10**400):
        scores = [s * factor for s in SCORES]
        law = selection_probabilities(made, scores)
        assert np.isfinite(law).all()
        assert law.sum() == pytest.approx(1, abs=1e-9)
        assert 0 <= made.release(scores, rng) < 7
    assert made.release([s * 1000 for s in SCORES], rng) == 0
    assert made.release([-(10**400), -(10**400) + 10**9], rng) == 1
    assert made.release(np.array([2**63, 5], dtype=np.uint64), rng) == 0
    assert made.release(np.array([-(2**63), 2**63 - 1]), rng) == 1
    assert made.release([2**63, -1], rng) == 0  # which NumPy would make floats
    assert made.release([7], rng) == 0


@pytest.mark.parametrize(*rows_of("selections", "probabilities"))
def test_reference_probabilities(mechanism: str, first_three: list[float], relative: float, absolute: float) -> None:
    kind = Exponential if mechanism == "exponential" else PermuteAndFlip
    law = selection_probabilities(kind(Fraction(1), Fraction(1)), SCORES)
    assert law[:3] == pytest.approx(first_three, rel=relative, abs=absolute)


def brute_flip(heads: list[Fraction]) -> list[Fraction]:
    """Return the law of the first heads over all orders and all coins."""
    out = [Fraction(0)] * len(heads)
    orders = list(itertools.permutations(range(len(heads))))
    for order in orders:
        none_yet = Fraction(1)
        for i in order:
            out[i] += none_yet * heads[i] / len(orders)
            none_yet *= 1 - heads[i]
    return out


@pytest.mark.parametrize("heads", [["1"], ["1", "1"], ["1", "1/2", "1/3"], ["1", "1", "1/7", "1/100"], ["1"] * 5])
def test_flip_probabilities_are_those_of_all_orders(heads: list[str]) -> None:
    exact = [Fraction(h) for h in heads]
    found = flip_probabilities(np.array([float(h) for h in exact]))
    assert found == pytest.approx([float(p) for p in brute_flip(exact)], rel=1e-9)


def test_flip_probabilities_of_many_candidates_sum_to_one() -> None:
    for count in (100, 20_000):
        heads = np.exp(-np.linspace(0, 9, count))
        assert flip_probabilities(heads).sum() == pytest.approx(1, rel=1e-9)
    assert bad_flip(5.0, 1000) == pytest.approx(flip_probabilities(np.exp([0.0] + [-5.0] * 999))[1:].sum(), rel=1e-9)
    assert bad_flip(20.0, 10) == pytest.approx(flip_probabilities(np.exp([0.0] + [-20.0] * 9))[1:].sum(), rel=1e-5)


def test_permute_and_flip_errs_no_more_than_exponential_and_at_least_half() -> None:
    """McKenna & Sheldon 2020, on random scores."""
    generator = np.random.default_rng(8)
    for _ in range(50):
        scores = [int(x) for x in generator.integers(0, 20, generator.integers(2, 30))]
        gaps = max(scores) - np.array(scores)
        flip, soft = (
            float(selection_probabilities(kind(Fraction(1), Fraction(1)), scores) @ gaps)
            for kind in (PermuteAndFlip, Exponential)
        )
        assert flip <= soft * (1 + 1e-9)
        assert flip >= soft / 2 * (1 - 1e-9)


def test_weights_are_a_base_measure() -> None:
    made, rng = Exponential(Fraction(1), Fraction(2)), Rng.seeded(6)
    weights = [2**60, 2**61, 0, 2**62]
    law = selection_probabilities(made, [1, 0, 50, 0], weights)
    wanted = np.array([math.e, 2, 0, 4])
    assert law == pytest.approx(wanted / wanted.sum(), rel=1e-12)
    found = np.bincount([made.release([1, 0, 50, 0], rng, weights) for _ in range(COUNT)], minlength=4)
    assert found[2] == 0
    kept = [0, 1, 3]
    statistic = float(((found[kept] - COUNT * law[kept]) ** 2 / (COUNT * law[kept])).sum())
    assert chi_square_tail(statistic, 2) > ALARM


def test_ties_favor_nobody() -> None:
    """4.5 deviations are one false alarm in 147,000."""
    made, rng = PermuteAndFlip(Fraction(1), Fraction(20)), Rng.seeded(7)
    found = np.bincount([made.release([3, 3, 3, 3], rng) for _ in range(COUNT)], minlength=4)
    assert np.abs(found - COUNT / 4).max() < 4.5 * math.sqrt(COUNT * 3 / 16)


def test_gaps_are_exact() -> None:
    gaps, denominator = gaps_below_best([Fraction(1, 2), 1, Fraction(-1, 3), mistype(np.int64(0))])
    assert (gaps.tolist(), denominator) == ([3, 0, 8, 6], 6)
    gaps, denominator = gaps_below_best([10**40, 0])
    assert (gaps.tolist(), denominator) == ([0, 10**40], 1)
    assert gaps_below_best([2**62 - 1, -(2**62) + 1])[0].tolist() == [0, 2**63 - 2]


@EACH
def test_bad_arguments_are_refused_by_name(kind: type) -> None:
    for sensitivity, epsilon, name in (
        (0, 1, "sensitivity"),
        (1, 0, "epsilon"),
        (0.5, 1, "sensitivity"),
        (1, 0.5, "epsilon"),
    ):
        with pytest.raises(DeclarationError, match=name):
            kind(sensitivity, epsilon)
    made, rng = kind(Fraction(1), Fraction(1)), Rng.seeded(1)
    floats = ([0.5, 1], [float("nan")], [Fraction(1, 2), 0.5], np.array([0.5]))
    for scores in ([], *floats, ["a"], [None], [[1, 2]], [[1], [1, 2]], [True], [Fraction(1, 2), True]):
        with pytest.raises(DeclarationError, match="scores") as caught:
            made.release(scores, rng)
        assert "nan" not in str(caught.value)
    for confidence in (0.0, 1.0, math.nan):
        with pytest.raises(DeclarationError, match="confidence"):
            made.error(confidence, candidates=3)
    with pytest.raises(DeclarationError, match="candidates"):
        made.error(0.9, candidates=0)
    assert made.error(0.9, candidates=1) == 0
