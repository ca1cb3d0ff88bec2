"""Differencing and averaging: as good as the best guess can be by the exact laws, and never better than theory allows."""

from __future__ import annotations

import numpy as np
import pytest

from sordino.errors import DeclarationError
from sordino.lab.audit.answer_attack import average_answers, take_differences

REACH = np.arange(-400, 401)


def laplace(epsilon: float) -> np.ndarray:
    """Return the law of discrete Laplace noise of sensitivity 1."""
    law = np.exp(-epsilon * np.abs(REACH))
    whole: np.ndarray = law / law.sum()
    return whole


def best_guess(law: np.ndarray, share: float) -> float:
    """Return how often the likelier bit is right where what is seen is the bit plus noise."""
    return float(np.maximum(share * np.roll(law, 1), (1 - share) * law).sum())


@pytest.mark.parametrize("share", [0.5, 0.2])
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_a_difference_is_guessed_as_well_as_its_law_allows(epsilon: float, share: float) -> None:
    """10,000 people: 5 standard errors are .025, so a right attack fails once in a million."""
    bits = ([1] + [0] * (round(1 / share) - 1)) * round(10_000 * share)
    noisy = take_differences(bits, epsilon=epsilon, seed=3).results[1]
    each = laplace(epsilon / 2)
    difference = np.convolve(each, each)[400:-400]
    assert noisy.achieved == pytest.approx(best_guess(difference, share), abs=0.025)
    assert noisy.achieved <= noisy.allowed
    assert noisy.guessing == max(share, 1 - share)
    assert noisy.allowed == pytest.approx(1 / (1 + np.exp(-epsilon) * (1 - noisy.guessing) / noisy.guessing))


@pytest.mark.deep
def test_one_answer_is_guessed_as_well_as_its_law_allows_and_many_as_well_as_their_sum() -> None:
    bits = [0, 1] * 5000
    exact, one, several, many = average_answers(bits, epsilon=2, asks=1, repeats=40, seed=5).results
    assert (exact.achieved, exact.allowed) == (1, 1)
    assert one.achieved == pytest.approx(best_guess(laplace(2), 0.5), abs=0.025)
    assert several.release.endswith("1 answers")
    assert many.achieved > 0.999
    assert (one.epsilon, several.epsilon, many.epsilon) == (2, 2, 80)
    halves = average_answers(bits, epsilon=2, asks=2, repeats=2, seed=5).results
    both = np.exp(-np.abs(REACH))[:, None] * np.exp(-np.abs(REACH))[None, :]
    shifted = np.roll(both, 1, axis=(0, 1))
    best = np.maximum(both, shifted).sum() / (2 * both.sum())
    assert halves[2].achieved == pytest.approx(best, abs=0.025)
    assert halves[3].achieved == pytest.approx(best, abs=0.025)


@pytest.mark.deep
@pytest.mark.parametrize("asks", [1, 7, 10])
def test_a_ledger_answers_as_often_as_its_budget_covers_and_then_refuses(asks: int) -> None:
    ledger = average_answers([0, 1] * 20, epsilon="1/3", asks=asks, repeats=20).results[2]
    assert f" {asks} answers" in ledger.release
    assert ledger.epsilon == pytest.approx(1 / 3)


def test_several_losses_are_several_releases_and_what_cannot_be_attacked_is_refused() -> None:
    assert [r.epsilon for r in take_differences([0, 1] * 9, epsilon=[1, "1/2"]).results] == [None, 1, 0.5]
    assert [r.epsilon for r in take_differences([0, 1] * 9, epsilon="1,0.5").results] == [None, 1, 0.5]
    for bits, epsilon, words in (
        ([0, 0, 0], 1, "somebody has it"),
        ([0, 2], 1, "0 or 1"),
        ([0, 1], 0, "above 0"),
        ([0, 1], [], "above 0"),
    ):
        with pytest.raises(DeclarationError, match=words):
            take_differences(bits, epsilon=epsilon)
    with pytest.raises(DeclarationError, match="1 or more"):
        average_answers([0, 1], epsilon=1, asks=0)
