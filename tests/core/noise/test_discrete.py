"""The samplers' laws: chi-square, agreement of block, single and textbook draws, and ties forced by scripted words."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from core.noise.support import (
    FALSE_ALARM,
    ScriptedRng,
    chi_square,
    textbook_gaussian,
    textbook_laplace,
    two_sample,
    words,
)
from core.noise.test_bernoulli import exact_exp
from mistyping import mistype
from sordino.core.noise import discrete
from sordino.core.noise.bernoulli import CertifiedProbability, bernoulli
from sordino.core.noise.discrete import discrete_gaussian, discrete_laplace
from sordino.core.noise.rng import Rng
from sordino.errors import DeclarationError

SCALES = [Fraction(1, 50), Fraction(1, 3), Fraction(7, 3), Fraction(2), Fraction(20)]
VARIANCES = [Fraction(1, 100), Fraction(1, 2), Fraction(7, 3), Fraction(400), Fraction(123456, 7)]


def law_of(kind: str, parameter: Fraction, reach: int) -> list[float]:
    """Return P(X = x) for x from -reach to reach, from the definition; each end holds the tail beyond it too."""
    if kind == "laplace":
        weights = [math.exp(-abs(x) / float(parameter)) for x in range(-reach, reach + 1)]
        q = math.exp(-1 / float(parameter))
        total = (1 + q) / (1 - q)
    else:
        weights = [math.exp(-x * x / (2 * float(parameter))) for x in range(-reach, reach + 1)]
        total = math.fsum(weights)
    inner = [weight / total for weight in weights[1:-1]]
    end = max(1 - math.fsum(inner), 0.0) / 2
    return [end, *inner, end]


def fit(kind: str, parameter: Fraction, drawn: np.ndarray) -> float:
    """Return the chi-square p-value of draws against the law; both ends pooled."""
    spread = float(parameter) if kind == "laplace" else math.sqrt(parameter)
    reach = math.ceil(12 * spread) + 3
    law = law_of(kind, parameter, reach)
    counts = np.bincount(np.clip(drawn, -reach, reach).astype(np.int64) + reach, minlength=2 * reach + 1)
    return chi_square(counts.tolist(), [p * len(drawn) for p in law])


def fit_uniform(scale: int, drawn: np.ndarray, bins: int = 64) -> float:
    """Return the chi-square p-value of large-scale Laplace draws: signed, and in bins of |X| about equally likely."""
    edges = [math.ceil(-scale * math.log(1 - i / bins)) for i in range(bins)]  # |X| - 1 is geometric
    survival = [math.exp(-edge / scale) for edge in edges] + [0.0]
    q = math.exp(-1 / scale)
    nonzero = drawn[drawn != 0]
    signed = np.searchsorted(edges, np.abs(nonzero) - 1, side="right") * np.sign(nonzero) + bins
    half = [len(drawn) * q / (1 + q) * (survival[i] - survival[i + 1]) for i in range(bins)]
    counts = np.bincount(signed, minlength=2 * bins + 1)
    counts[bins] = len(drawn) - len(nonzero)
    return chi_square(counts.tolist(), [*reversed(half), len(drawn) * (1 - q) / (1 + q), *half])


@pytest.mark.each(2)
@pytest.mark.parametrize("scale", SCALES)
def test_laplace_blocks_have_the_law(scale: Fraction) -> None:
    """False alarm 1e-6."""
    assert fit("laplace", scale, discrete_laplace(scale, Rng.seeded(1), 1_000_000)) > FALSE_ALARM


@pytest.mark.each(3)
@pytest.mark.parametrize("scale", [2000, 10**6, 10**12])
def test_laplace_blocks_have_the_law_at_large_scales(scale: int) -> None:
    """False alarm 1e-6."""
    assert fit_uniform(scale, discrete_laplace(scale, Rng.seeded(2), 1_000_000)) > FALSE_ALARM


@pytest.mark.deep
@pytest.mark.parametrize("scale", SCALES)
def test_single_and_textbook_laplace_have_the_law(scale: Fraction) -> None:
    """False alarm 1e-6 for each of the two."""
    rng = Rng.seeded(3)
    assert fit("laplace", scale, np.array([discrete_laplace(scale, rng) for _ in range(8_000)])) > FALSE_ALARM
    assert fit("laplace", scale, np.array([textbook_laplace(scale, rng) for _ in range(2_000)])) > FALSE_ALARM


@pytest.mark.each(2)
@pytest.mark.parametrize("variance", VARIANCES)
def test_gaussian_blocks_have_the_law(variance: Fraction) -> None:
    """False alarm 1e-6."""
    assert fit("gaussian", variance, discrete_gaussian(variance, Rng.seeded(4), 1_000_000)) > FALSE_ALARM


@pytest.mark.each(5)
@pytest.mark.parametrize("variance", VARIANCES)
def test_single_and_textbook_gaussian_have_the_law(variance: Fraction) -> None:
    """False alarm 1e-6 for each of the two."""
    rng = Rng.seeded(5)
    assert fit("gaussian", variance, np.array([discrete_gaussian(variance, rng) for _ in range(5_000)])) > FALSE_ALARM
    assert fit("gaussian", variance, np.array([textbook_gaussian(variance, rng) for _ in range(1_000)])) > FALSE_ALARM


@pytest.mark.deep
@pytest.mark.parametrize("variance", VARIANCES)
def test_200_000_single_gaussian_draws_have_the_law(variance: Fraction) -> None:
    """False alarm 1e-6."""
    rng = Rng.seeded(5)
    assert fit("gaussian", variance, np.array([discrete_gaussian(variance, rng) for _ in range(200_000)])) > FALSE_ALARM


@pytest.mark.deep
def test_ways_agree_with_each_other_and_with_opendp() -> None:
    """False alarm 1e-6 for each of the six comparisons."""
    opendp = pytest.importorskip("opendp.prelude")
    opendp.enable_features("contrib")
    rng, size = Rng.seeded(6), 4_000
    space = opendp.vector_domain(opendp.atom_domain(T=int)), opendp.l1_distance(T=int)
    theirs = np.array((space >> opendp.m.then_laplace(scale=7.5))([0] * size))
    block = discrete_laplace(Fraction(15, 2), rng, size)
    single = np.array([discrete_laplace(Fraction(15, 2), rng) for _ in range(size)])
    assert min(two_sample(block, single), two_sample(block, theirs), two_sample(single, theirs)) > FALSE_ALARM
    space = opendp.vector_domain(opendp.atom_domain(T=int)), opendp.l2_distance(T=float)
    theirs = np.array((space >> opendp.m.then_gaussian(scale=7.5))([0] * size))
    block = discrete_gaussian(Fraction(225, 4), rng, size)
    single = np.array([discrete_gaussian(Fraction(225, 4), rng) for _ in range(size)])
    assert min(two_sample(block, single), two_sample(block, theirs), two_sample(single, theirs)) > FALSE_ALARM


def test_two_sample_test_sees_a_wrong_scale() -> None:
    rng = Rng.seeded(7)
    assert two_sample(discrete_laplace(20, rng, 20_000), discrete_laplace(22, rng, 20_000)) < FALSE_ALARM


def test_draws_of_a_block_are_uncorrelated() -> None:
    """False alarm 1e-6 in all: three normal scores beyond 5.1 have probability 3 * 3.4e-7."""
    drawn = discrete_laplace(20, Rng.seeded(8), 400_000).astype(float)
    for lag in (1, 2, discrete._BLOCK):
        score = np.corrcoef(drawn[:-lag], drawn[lag:])[0, 1] * math.sqrt(len(drawn) - lag)
        assert abs(score) < 5.1


@pytest.mark.deep
@pytest.mark.parametrize("scale", [Fraction(1, 50), Fraction(7, 3), Fraction(10**6)])
def test_every_coin_of_a_plan_is_the_right_one(scale: Fraction) -> None:
    plan = discrete._laplace_plan(scale)
    length = len(plan.coins) - 2
    assert 2**length >= 16 * scale
    for count in (16, 64, 700):
        for i, coin in enumerate(plan.coins[:length]):
            q = exact_exp(2**i / scale)
            assert coin.digits(count) == int(q / (1 + q) * 2**count)
        q = exact_exp(1 / scale)
        assert plan.coins[-2].digits(count) == int(exact_exp(2**length / scale) * 2**count)
        assert plan.coins[-1].digits(count) == int(2 * q / (1 + q) * 2**count)
    assert plan.cuts == tuple(coin.digits(16) for coin in plan.coins)


@pytest.mark.parametrize("size", [None, 8], ids=["single", "block"])
@pytest.mark.parametrize("won", [True, False])
def test_a_tie_of_any_coin_is_settled_by_the_next_bits(size: int | None, won: bool) -> None:
    scale = Fraction(7, 3)
    plan = discrete._laplace_plan(scale)
    rows, column = len(plan.coins), 3
    for row, coin in enumerate(plan.coins):
        matrix = [[0xFFFF] * (size or 1) for _ in range(rows)]
        here = 0 if size is None else column
        matrix[-1][here] = 0  # this draw is nonzero, unless that is the coin in question
        matrix[row][here] = plan.cuts[row]
        follow = words((coin.first & (2**48 - 1)) + (-1 if won else 1), width=48)
        again = words(2**64 - 1) if won and row == rows - 2 else b""  # an overflow asks whether there is another
        flat = words(*(word for line in matrix for word in line), width=16)
        script = flat + b"\0" + follow + again if size is None else flat + follow + again + b"\0"
        rng = ScriptedRng(script)
        drawn = discrete_laplace(scale, rng, size)
        length = rows - 2
        magnitude = 1 + ((won << row) if row <= length else 0)
        expected = magnitude if row < rows - 1 else int(won)
        assert rng.script == b""
        assert np.ravel(drawn).tolist() == [expected if i == here else 0 for i in range(size or 1)]


def test_overflow_and_sign() -> None:
    plan = discrete._laplace_plan(Fraction(7, 3))
    length = len(plan.coins) - 2
    matrix = words(*[0xFFFF] * length, 0, 0, width=16)
    coins = words(0, width=48) + words(0, 0, 2**64 - 1)  # an overflow (its cut is 0: a tie), two more, then none
    assert discrete_laplace(Fraction(7, 3), ScriptedRng(matrix + b"\1" + coins)) == -(3 * 2**length + 1)


@pytest.mark.each(9)
@pytest.mark.parametrize("low_bits", [2, 1, pytest.param(5, marks=pytest.mark.deep)])
@pytest.mark.parametrize("variance", [Fraction(50), Fraction(7, 3), Fraction(900)])
def test_gaussian_draws_of_low_bits_have_the_law(variance: Fraction, low_bits: int) -> None:
    """Of so few high parts most tries are settled by their own coin."""
    drawn = discrete._gaussian_block(variance, Rng.seeded(5), 20_000, low_bits=low_bits)
    assert fit("gaussian", variance, drawn) > FALSE_ALARM


@pytest.mark.each(3)
@pytest.mark.parametrize("sigma", [40_000, 10**6, 2**55])
def test_wide_gaussian_draws_have_the_law(sigma: int) -> None:
    """By their place in the normal law, whose steps are far below what 400,000 draws can show, and by their last bits."""
    drawn = discrete_gaussian(sigma**2, Rng.seeded(6), 400_000)
    bins = np.bincount((ndtr(drawn / sigma) * 64).astype(int), minlength=64)
    assert chi_square(bins.tolist(), [len(drawn) / 64] * 64) > FALSE_ALARM
    last = np.bincount(drawn % 64, minlength=64)
    assert chi_square(last.tolist(), [len(drawn) / 64] * 64) > FALSE_ALARM


def test_a_wide_try_near_its_cut_is_settled_by_its_coin() -> None:
    """sigma 4, one low bit: H = 1, L = 1 is m = 3, kept with exp(-5 / 32) = .8553: lead 56,055 is its cut, 16 bits each."""
    variance, cut = Fraction(16), math.floor(math.exp(-5 / 32) * 2**16)
    table = discrete._gaussian_table(Fraction(4))
    lead = int(np.flatnonzero(table.guide == 1)[0])
    for low, kept in ((cut - 1, [3]), (cut + 1, [])):
        script = words(lead, width=16) + bytes(1) + bytes(1) + words(1 << 63) + words(low, width=16)
        assert discrete._wide_gaussian(variance, ScriptedRng(script), 1, 1).tolist() == kept


@pytest.mark.deep
@pytest.mark.parametrize("variance", [Fraction(1, 4), Fraction(7, 3), Fraction(50)])
@pytest.mark.parametrize("count", [64, 128, 400])
def test_survival_floors_are_the_floors(variance: Fraction, count: int) -> None:
    floors = discrete._survival_floors(variance, count)
    assert floors[-1] > 0
    with localcontext() as context:
        context.prec = 400
        rate = Decimal(variance.denominator) / Decimal(2 * variance.numerator)
        weights = [(-rate * x * x).exp() for x in range(1, 200 + len(floors))]
        total = 1 + 2 * sum(weights)
        for k, floor in enumerate([*floors, 0]):
            assert floor == int(2 * sum(weights[k:]) / total * 2**count)


@pytest.mark.deep
def test_the_guide_names_what_the_bits_decide() -> None:
    table = discrete._gaussian_table(Fraction(50))
    floors = table.rising[:0:-1].tolist()
    for lead in range(0, 1 << 16, 7):
        named = int(table.guide[lead])
        ends = {sum(floor > word for floor in floors) for word in (lead << 48, (lead + 1 << 48) - 1)}
        touched = any(lead << 48 <= floor < lead + 1 << 48 for floor in [0, *floors])
        assert named == (-1 if touched else ends.pop())
    assert table.guide[0] == -1


@pytest.mark.parametrize("level", [0, 1, 5])
@pytest.mark.parametrize(("step", "more"), [(-1, 1), (1, 0)])
def test_a_gaussian_tie_is_settled_by_the_next_bits(level: int, step: int, more: int) -> None:
    variance = Fraction(7, 3)
    shallow, deep = discrete._survival_floors(variance, 64)[level], discrete._survival_floors(variance, 128)[level]
    assert deep >> 64 == shallow
    script = words(shallow >> 48, width=16) + words((shallow & (2**48 - 1)) << 16)
    rng = ScriptedRng(script + words((deep & (2**64 - 1)) + step) + b"\0")
    assert discrete._gaussian_block(variance, rng, 1).tolist() == [level + more]
    assert rng.script == b""


def test_a_gaussian_double_tie_draws_on() -> None:
    variance = Fraction(7, 3)
    deep = discrete._survival_floors(variance, 192)[2]
    for step, drawn in ((-1, 3), (1, 2)):
        middle, last = deep >> 64 & (2**64 - 1), (deep & (2**64 - 1)) + step
        rng = ScriptedRng(words(middle, last))
        assert discrete._gaussian_settle(variance, deep >> 128, rng) == drawn
        assert rng.script == b""


def test_what_lies_beyond_the_table_is_counted() -> None:
    weights = [1 << 32, 1 << 28, 1 << 20, 0]
    assert discrete._quotients(weights, weights, beyond=0, count=16) is not None
    assert discrete._quotients(weights, weights, beyond=1 << 24, count=16) is None


def test_gaussian_words_beyond_the_table_draw_on() -> None:
    variance = Fraction(7, 3)
    shallow, deep = discrete._survival_floors(variance, 64), discrete._survival_floors(variance, 128)
    rng = ScriptedRng(words(0, width=16) + words(0) + words(1) + b"\0")
    drawn = int(discrete._gaussian_block(variance, rng, 1)[0])
    assert drawn == sum(floor > 1 for floor in deep) > len(shallow)
    assert rng.script == b""


def test_sizes_and_kinds() -> None:
    rng = Rng.seeded(9)
    for draw in (discrete_laplace, discrete_gaussian):
        assert type(draw(10**9, rng)) is int
        for size in (0, 1, 7, 8, 300, discrete._BLOCK + 5):
            drawn = draw(10**7, rng, size)
            assert drawn.shape == (size,)
            assert drawn.dtype == np.int64
            assert np.count_nonzero(drawn) >= size - 20 if size > 300 else np.count_nonzero(drawn) >= size * 0.9
        assert draw(0, rng) == 0
        assert draw(Fraction(0), rng, 5).tolist() == [0] * 5
        assert (draw(7, Rng.seeded(1), 999) == draw(7, Rng.seeded(1), 999)).all()


@pytest.mark.parametrize("scale", [10**15, 2**56 - 1, 2**56, 10**30])
def test_extreme_scales(scale: int) -> None:
    """False alarm 1e-6: the mean of 400 |X| / scale is about normal; within 5 deviations of 1 or .798 (Gaussian)."""
    rng = Rng.seeded(10)
    laplace, gaussian = discrete_laplace(scale, rng, 400), discrete_gaussian(scale**2, rng, 400)
    for drawn, mean, deviation in ((laplace, 1.0, 1.0), (gaussian, math.sqrt(2 / math.pi), 0.603)):
        assert drawn.dtype == (object if scale >= 2**56 else np.int64)
        assert type(drawn.tolist()[0]) is int
        assert abs(sum(abs(x) for x in drawn.tolist()) / (400 * scale) - mean) < 5 * deviation / 20
        assert len({x % 1000 for x in drawn.tolist()}) > 200  # low digits are drawn too


def test_bad_arguments_are_refused_by_name() -> None:
    rng = Rng.seeded(1)
    for draw, name in ((discrete_laplace, "scale"), (discrete_gaussian, "sigma_squared")):
        for bad in (-1, 0.5, True, "2"):
            with pytest.raises(DeclarationError, match=name):
                draw(mistype(bad), rng)
        for size in (-1, 2.0, True):
            with pytest.raises(DeclarationError, match="size"):
                draw(2, rng, mistype(size))


@pytest.mark.deep
@pytest.mark.parametrize("scale", [2, 20, 2000, 10**6])
def test_laplace_blocks_at_forty_million(scale: int) -> None:
    """False alarm 1e-6."""
    drawn = discrete_laplace(scale, Rng.seeded(11), 40_000_000)
    assert (fit("laplace", Fraction(scale), drawn) if scale <= 20 else fit_uniform(scale, drawn, 1024)) > FALSE_ALARM


@pytest.mark.deep
@pytest.mark.parametrize("variance", [Fraction(7, 3), Fraction(400), Fraction(4000**2)])
def test_gaussian_blocks_at_forty_million(variance: Fraction) -> None:
    """False alarm 1e-6."""
    assert fit("gaussian", variance, discrete_gaussian(variance, Rng.seeded(12), 40_000_000)) > FALSE_ALARM


@pytest.mark.deep
@pytest.mark.parametrize(
    "variance", [Fraction(1, 7), Fraction(1), Fraction(10**9, 3), *(Fraction(2**k, 3) for k in range(88, 132, 4))]
)
def test_single_gaussian_draws_are_those_of_the_rejection_rule(variance: Fraction) -> None:
    """Draw for draw, in every width of numbers: the plan of a variance only computes what the rule says."""
    t = math.isqrt(int(variance)) + 1
    rng, same = Rng.seeded(6), Rng.seeded(6)
    for _ in range(60):
        while True:
            proposed = int(discrete_laplace(t, same))
            gap = abs(proposed) - variance / t
            if bernoulli(CertifiedProbability.exp_minus(gap * gap / (2 * variance)), same):
                break
        assert discrete_gaussian(variance, rng) == proposed


@pytest.mark.deep
@pytest.mark.parametrize("size", [None, 1, 2, 15, 300])
@pytest.mark.parametrize("bits", [1, 30, 52, 53, 54, 55, 56, 57, 60, 70])
@pytest.mark.parametrize("odd", [-1, 0, 1])
def test_every_scale_is_drawn_in_every_size(bits: int, odd: int, size: int | None) -> None:
    """Scales from 2^55 on are drawn as Python ints, and from 2^56 on put in arrays of them: neither may fail a question."""
    scale = (1 << bits) + odd
    for drawn in (
        discrete_laplace(scale, Rng.seeded(bits), size),
        discrete_gaussian(scale * scale, Rng.seeded(bits), size),
    ):
        values = [drawn] if isinstance(drawn, int) else drawn.tolist()
        assert len(values) == (1 if size is None else size)
        assert all(type(x) is int and abs(x) < 60 * scale + 60 for x in values)
        assert bits < 30 or any(abs(x) > scale >> 12 for x in values)


ANY_VARIANCE = st.builds(Fraction, st.integers(1, 10**40), st.integers(1, 10**12)) | st.builds(
    Fraction, st.integers(1, 400)
)


@given(ANY_VARIANCE, st.integers(0, 200), st.randoms(use_true_random=False))
def test_the_exponent_of_a_draw_is_exact_for_every_proposal(variance: Fraction, bits: int, random: Any) -> None:
    """Also for those that are proposed once in e^2000 draws: as by the rule, (m - variance / t)^2 / (2 variance)."""
    plan = discrete._gaussian_plan(variance)
    t = math.isqrt(int(variance)) + 1
    for m in (0, 1, random.getrandbits(bits + 1), (1 << bits) - 1, 1 << bits):
        raised = m + int(plan.short_lift) + plan.long_lift
        gamma = Fraction(discrete._raise_gamma(plan, raised), plan.denominator) - 256
        assert gamma == (m - variance / t) ** 2 / (2 * variance)


@given(ANY_VARIANCE)
def test_no_step_to_the_exponent_borrows_or_carries_by_the_proposal(variance: Fraction) -> None:
    """Sums of products of positive numbers, whose last digit is 1 where it is multiplied by m: nothing is carried out of it."""
    plan = discrete._gaussian_plan(variance)
    lift = int(plan.short_lift) + plan.long_lift
    lengths = set()
    # No proposal of 0 is ever seen where numbers are wide.
    for m in (1, 2, lift >> 9):
        inner = plan.square * (m + lift) + plan.linear
        assert min(plan.square, plan.linear, plan.base) > 0
        assert inner >> plan.mask.bit_length() == 1
        lengths.add(tuple(-(-x.bit_length() // discrete._DIGIT_BITS) for x in (inner, inner * (m + lift))))
    assert plan.mask.bit_length() % discrete._DIGIT_BITS == 0
    assert len(lengths) == 1
