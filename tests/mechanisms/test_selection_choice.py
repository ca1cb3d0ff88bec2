"""Which selection a loss buys: by the worst expected gap, from public parameters alone."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sordino.errors import DeclarationError
from sordino.loss import ZCDP, ApproxDP, PureDP
from sordino.mechanisms.exponential import Exponential
from sordino.mechanisms.permute_and_flip import PermuteAndFlip
from sordino.mechanisms.selection_choice import best_selection, expected_gap, root_below


@pytest.mark.parametrize("candidates", [2, 14, 10_000])
def test_pure_losses_get_permute_and_flip_and_rho_the_exponential(candidates: int) -> None:
    for loss in (PureDP(1), ApproxDP(1, "1e-6"), ApproxDP(1, 0)):
        made = best_selection(sensitivity=1, loss=loss, candidates=candidates, monotone=True)
        assert made == PermuteAndFlip(1, Fraction(1), True)
    for rho in (Fraction(1, 8), Fraction(1, 2), Fraction(1, 100), Fraction(3, 7)):
        made = best_selection(sensitivity=2, loss=ZCDP(rho), candidates=candidates)
        assert isinstance(made, Exponential)
        assert not made.monotone
        spent = made.event.rho()
        assert rho * (1 - Fraction(1, 10**7)) <= spent <= rho
    assert best_selection(sensitivity=1, loss=ZCDP(Fraction(1, 8)), candidates=3).epsilon == 1


def test_weights_need_the_exponential_mechanism() -> None:
    assert isinstance(best_selection(sensitivity=1, loss=PureDP(1), candidates=9, weighted=True), Exponential)


@pytest.mark.parametrize("kind", [Exponential, PermuteAndFlip])
@pytest.mark.parametrize("candidates", [1, 2, 5, 40])
def test_expected_gap_is_reached_and_never_passed(kind: type, candidates: int) -> None:
    made = kind(1, Fraction(2))
    bound, generator = expected_gap(made, candidates=candidates), np.random.default_rng(3)

    def mean(gaps: list[Fraction | int]) -> float:
        return float(made.probabilities([-g for g in gaps]) @ np.array([float(g) for g in gaps]))

    even = [mean([0] + [Fraction(x, 50)] * (candidates - 1)) for x in range(1, 500)]
    assert max(even) == pytest.approx(bound, rel=1e-3)
    for spread in (2, 6, 30):
        gaps = [0, *generator.integers(0, spread, candidates - 1).tolist()]
        assert mean(gaps) <= bound * (1 + 1e-9)


def test_permute_and_flip_halves_the_gap_at_most() -> None:
    """McKenna & Sheldon 2020: between half and the whole of the exponential mechanism's."""
    for candidates in (2, 3, 30, 10**6):
        ratio = expected_gap(PermuteAndFlip(1, Fraction(1)), candidates=candidates) / expected_gap(
            Exponential(1, Fraction(1)), candidates=candidates
        )
        assert 0.5 <= ratio < 1


def test_roots_round_down_to_few_digits() -> None:
    for value in (Fraction(2), Fraction(1, 3), Fraction(10**9 + 7), Fraction(1, 10**12 + 1)):
        root = root_below(value)
        assert root * root <= value < (root * (1 + Fraction(2, 10**6))) ** 2
        assert root.denominator <= 10**16
    assert root_below(Fraction(9, 4)) == Fraction(3, 2)


def test_bad_arguments_are_refused_by_name() -> None:
    with pytest.raises(DeclarationError, match="candidates"):
        best_selection(sensitivity=1, loss=PureDP(1), candidates=0)
    with pytest.raises(DeclarationError, match="rho"):
        best_selection(sensitivity=1, loss=ZCDP(0), candidates=2)
    with pytest.raises(DeclarationError, match="epsilon"):
        best_selection(sensitivity=1, loss=PureDP(0), candidates=2)
    with pytest.raises(DeclarationError, match="sensitivity"):
        best_selection(sensitivity=0, loss=PureDP(1), candidates=2)
