"""Which selection a loss buys: by the worst expected gap, from public parameters alone."""

from __future__ import annotations

from fractions import Fraction

import pytest

from selection_law import selection_probabilities
from sordino.core.accounting.concentration import pure_epsilon_for
from sordino.core.loss import ZCDP, ApproxDP, PureDP
from sordino.core.mechanisms.selection import Exponential, PermuteAndFlip, best_selection
from sordino.errors import DeclarationError


@pytest.mark.parametrize("candidates", [2, 14, 10_000])
def test_pure_losses_get_permute_and_flip_and_rho_the_exponential(candidates: int) -> None:
    for loss in (PureDP(1), ApproxDP(1, "1e-6"), ApproxDP(1, 0)):
        made = best_selection(sensitivity=1, loss=loss, candidates=candidates, monotone=True)
        assert made == PermuteAndFlip(Fraction(1), Fraction(1), True)
    for rho in (Fraction(1, 8), Fraction(1, 2), Fraction(1, 100), Fraction(3, 7)):
        made = best_selection(sensitivity=2, loss=ZCDP(rho), candidates=candidates)
        assert isinstance(made, Exponential)
        assert not made.monotone
        spent = made.event.rho()
        assert rho * (1 - Fraction(1, 10**7)) <= spent <= rho
    assert 1 < best_selection(sensitivity=1, loss=ZCDP(Fraction(1, 8)), candidates=3).epsilon < Fraction(101, 100)


@pytest.mark.deep
@pytest.mark.parametrize("candidates", [2, 3, 30, 500])
@pytest.mark.parametrize("loss", [PureDP(2), ZCDP(Fraction(1, 2)), ZCDP(5)])
def test_the_selection_chosen_errs_less_in_the_worst_case(loss: PureDP | ZCDP, candidates: int) -> None:
    """The expected gap is largest where all others lie at one gap (McKenna & Sheldon 2020): looked for on a fine grid."""
    chosen = best_selection(sensitivity=1, loss=loss, candidates=candidates)
    pure = pure_epsilon_for(loss.rho) if isinstance(loss, ZCDP) else loss.epsilon
    kind = Exponential if isinstance(loss, PureDP) else PermuteAndFlip
    other = kind(Fraction(1), pure)

    def worst(made: Exponential | PermuteAndFlip) -> float:
        gaps = [Fraction(x, 4) for x in range(1, 120)]
        return max(float(g * (1 - selection_probabilities(made, [0] + [-g] * (candidates - 1))[0])) for g in gaps)

    assert worst(chosen) < worst(other)


def test_bad_arguments_are_refused_by_name() -> None:
    with pytest.raises(DeclarationError, match="candidates"):
        best_selection(sensitivity=1, loss=PureDP(1), candidates=0)
    with pytest.raises(DeclarationError, match="rho"):
        best_selection(sensitivity=1, loss=ZCDP(0), candidates=2)
    with pytest.raises(DeclarationError, match="epsilon"):
        best_selection(sensitivity=1, loss=PureDP(0), candidates=2)
    with pytest.raises(DeclarationError, match="sensitivity"):
        best_selection(sensitivity=0, loss=PureDP(1), candidates=2)
