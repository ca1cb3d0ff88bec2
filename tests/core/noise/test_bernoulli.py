"""Certified probabilities against long Decimal arithmetic, and coins whose words are scripted to tie."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import pytest

from core.noise.support import FALSE_ALARM, ScriptedRng, chi_square, textbook_bernoulli_exp, words
from mistyping import mistype
from sordino.core.noise.bernoulli import CertifiedProbability, bernoulli, bernoulli_exp_raised, exp_bounds, settle
from sordino.core.noise.rng import Rng
from sordino.errors import DeclarationError

EXPONENTS = [Fraction(1), Fraction(1, 3), Fraction(7, 3), Fraction(10**9 + 7, 10**20), Fraction(100, 7), Fraction(64)]


def exact_exp(gamma: Fraction) -> Fraction:
    """Return exp(-gamma) to 600 digits, as a Fraction."""
    with decimal.localcontext() as context:
        context.prec = 600
        return Fraction((-(Decimal(gamma.numerator) / Decimal(gamma.denominator))).exp())


@pytest.mark.each(5)
@pytest.mark.parametrize("gamma", EXPONENTS)
@pytest.mark.parametrize("count", [1, 16, 63, 64, 65, 128, 1500])
def test_digits_are_the_floor(gamma: Fraction, count: int) -> None:
    q = exact_exp(gamma)
    for p, truth in (
        (CertifiedProbability.exp_minus(gamma), q),
        (CertifiedProbability.logistic(gamma), q / (1 + q)),
        (CertifiedProbability.logistic(-gamma), 1 / (1 + q)),
        (CertifiedProbability.rational(gamma / 128), gamma / 128),
    ):
        assert p.digits(count) == int(truth * 2**count)


@pytest.mark.deep
@pytest.mark.parametrize("gamma", [*EXPONENTS, Fraction(10**40), Fraction(1, 10**40), Fraction(10**19, 3)])
@pytest.mark.parametrize("precision", [3, 9, 28, 60])
def test_bounds_hold_the_truth(gamma: Fraction, precision: int) -> None:
    lower, upper = exp_bounds(gamma, precision)
    assert 0 <= lower < upper <= 1
    if gamma < 1000:
        assert Fraction(lower) <= exact_exp(gamma) <= Fraction(upper)


@pytest.mark.deep
@pytest.mark.parametrize("gamma", EXPONENTS)
@pytest.mark.parametrize("precision", [3, 9, 28])
def test_bounds_of_ratios_and_odds_hold_the_truth(gamma: Fraction, precision: int) -> None:
    third, q = gamma / 384, exact_exp(gamma)
    ratio, odds = CertifiedProbability.rational(third), CertifiedProbability.logistic(gamma)
    for p, truth in ((ratio, third), (odds, q / (1 + q))):
        lower, upper = p.bounds(precision)
        assert lower < upper
        assert Fraction(lower) <= truth <= Fraction(upper)


@pytest.mark.parametrize(("nudge", "floor"), [(-1, 12344), (0, 12345), (1, 12345)])
def test_a_probability_beside_a_multiple_of_2_to_the_minus_64(nudge: int, floor: int) -> None:
    p = CertifiedProbability.rational(Fraction(12345, 2**64) + Fraction(nudge, 10**90))
    assert p.first == floor


def test_extreme_probabilities_are_quick() -> None:
    assert CertifiedProbability.exp_minus(10**30).first == 0
    assert CertifiedProbability.logistic(10**9).first == 0
    assert CertifiedProbability.logistic(-(10**9)).first == 2**64 - 1
    assert CertifiedProbability.rational(Fraction(1, 2)).first == 2**63


def test_the_callers_decimal_context_changes_nothing() -> None:
    expected = CertifiedProbability.logistic(Fraction(7, 3)).digits(500)
    with decimal.localcontext() as context:
        context.prec, context.rounding, context.traps[decimal.Inexact] = 3, decimal.ROUND_UP, True
        assert CertifiedProbability.logistic(Fraction(7, 3)).digits(500) == expected


def test_a_word_beside_the_threshold_decides() -> None:
    p = CertifiedProbability.exp_minus(1)
    assert bernoulli(p, ScriptedRng(words(p.first - 1)))
    assert not bernoulli(p, ScriptedRng(words(p.first + 1)))


@pytest.mark.parametrize("ties", [1, 2, 5])
@pytest.mark.parametrize(("step", "answer"), [(-1, True), (1, False)])
def test_ties_draw_on_until_decided(ties: int, step: int, answer: bool) -> None:
    p = CertifiedProbability.exp_minus(1)
    truth = exact_exp(Fraction(1))
    script = [int(truth * 2 ** (64 * (i + 1))) % 2**64 for i in range(ties + 1)]
    rng = ScriptedRng(words(*script[:-1], script[-1] + step))
    assert bernoulli(p, rng) is answer
    assert rng.script == b""


@pytest.mark.parametrize(("step", "answer"), [(-1, True), (1, False)])
def test_a_tie_of_sixteen_bits_draws_the_next_forty_eight(step: int, answer: bool) -> None:
    p = CertifiedProbability.logistic(Fraction(2, 7))
    rng = ScriptedRng(words((p.first & (2**48 - 1)) + step, width=48))
    assert settle(p, known=16, rng=rng) is answer
    assert rng.script == b""


def test_certain_and_impossible_coins() -> None:
    one, zero = CertifiedProbability.rational(1), CertifiedProbability.rational(0)
    assert bernoulli(one, ScriptedRng(words(2**64 - 1)))
    assert settle(one, known=16, rng=ScriptedRng(words(2**48 - 1, width=48)))
    assert not bernoulli(zero, ScriptedRng(words(0, 0, 1)))
    assert bernoulli(CertifiedProbability.exp_minus(0), ScriptedRng(words(2**64 - 1)))


@pytest.mark.parametrize("gamma", [Fraction(1, 7), Fraction(5, 2)])
def test_coins_and_textbook_coins_have_their_probability(gamma: Fraction) -> None:
    """False alarm 1e-6 for each of the two."""
    rng, p, n = Rng.seeded(12), CertifiedProbability.exp_minus(gamma), 6_000
    truth = float(exact_exp(gamma))
    for heads in (sum(bernoulli(p, rng) for _ in range(n)), sum(textbook_bernoulli_exp(gamma, rng) for _ in range(n))):
        assert chi_square([heads, n - heads], [n * truth, n * (1 - truth)]) > FALSE_ALARM


def test_bad_arguments_are_refused_by_name() -> None:
    refusals: tuple[tuple[Callable[[], object], str], ...] = (
        (lambda: CertifiedProbability.rational(Fraction(4, 3)), "value"),
        (lambda: CertifiedProbability.rational(mistype(0.5)), "value"),
        (lambda: CertifiedProbability.exp_minus(Fraction(-1, 2)), "gamma"),
        (lambda: CertifiedProbability.logistic(True), "x"),
    )
    for call, name in refusals:
        with pytest.raises(DeclarationError, match=name):
            call()


def bernoulli_exp(over: int, under: int, rng: Rng) -> bool:
    """A coin of chance exp(-over / under)."""
    return bernoulli_exp_raised(over + 256 * under, under, rng)


@pytest.mark.deep
@pytest.mark.parametrize(
    "gamma", [*EXPONENTS, Fraction(0), Fraction(10**40), Fraction(1, 10**40), Fraction(767, 3), Fraction(256)]
)
@pytest.mark.parametrize("scale", [1, 3 * 10**30])
def test_the_coin_of_an_exponent_is_the_certified_one(gamma: Fraction, scale: int) -> None:
    """Word for word, also for words right beside the threshold, where the quick bounds leave it open."""
    coin = CertifiedProbability.exp_minus(gamma)
    over, under = gamma.numerator * scale, gamma.denominator * scale
    near = [coin.first + step for step in (-1000, -300, -258, -257, -256, -2, -1, 0, 1, 2, 3, 4, 300)]
    for first in [word for word in near if 0 <= word < 2**64] + [0, 2**64 - 1]:
        script = words(first, 12345, 2**63)
        assert bernoulli_exp(over, under, ScriptedRng(script)) == bernoulli(coin, ScriptedRng(script)), first
    for seed in range(20):
        assert bernoulli_exp(over, under, Rng.seeded(seed)) == bernoulli(coin, Rng.seeded(seed))


@pytest.mark.deep
@pytest.mark.parametrize("gamma", [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(19, 2), Fraction(5000, 21)])
def test_no_offset_has_a_part_in_what_a_coin_says(gamma: Fraction) -> None:
    """The last byte of a word chooses among 256 computations: each says what the certified digits say, on either side of them."""
    first = CertifiedProbability.exp_minus(gamma).first
    for last in range(256):
        for step in (-(1 << 40), -512, -256, 0, 256, 512, 1 << 40):
            word = (first + step >> 8 << 8) + last
            if 0 <= word < 2**64 and word != first:
                script = words(word, 0, 0)
                assert bernoulli_exp(gamma.numerator, gamma.denominator, ScriptedRng(script)) == (word < first), last


def test_the_bounds_of_an_exponent_are_closer_than_what_is_settled() -> None:
    """Exponents with every hexadecimal digit: the threshold lies within the bounds that the theorem states."""
    rng = Rng.seeded(3)
    for _ in range(200):
        under = 1 + rng.below(10**30)
        gamma = Fraction(rng.below(40 * under), under)
        coin = CertifiedProbability.exp_minus(gamma)
        for step in (-260, 260):  # outside: decided by the bounds, and rightly
            first = min(max(coin.first + step, 0), 2**64 - 1)
            script = words(first, 1, 1)
            assert bernoulli_exp(gamma.numerator, gamma.denominator, ScriptedRng(script)) == (first < coin.first)
