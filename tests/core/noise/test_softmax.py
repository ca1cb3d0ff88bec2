"""Exact choice: its law against high-precision oracles, and every float in it against exact bounds."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import strategies as st

from core.noise.support import FALSE_ALARM, ScriptedRng, chi_square, textbook_bernoulli_exp, words
from mistyping import mistype
from sordino.core.noise import softmax
from sordino.core.noise.bernoulli import CertifiedProbability
from sordino.core.noise.rng import Rng
from sordino.core.noise.softmax import Urn, fill_urn, flip_coins, whole_numbers
from sordino.errors import DeclarationError
from trying import examples

CASES = [
    ([0, 1, 2, 3], Fraction(1, 2), None),
    ([0, 0, 7, 1], Fraction(1, 3), [1, 2, 30, 1]),
    ([5, 9, 9, 4], Fraction(2), [2**60, 2**70, 1, 2**60]),
    ([0, 10**30, 2 * 10**30], Fraction(1, 10**30), [1, 1, 3]),
    ([0, 3, 10**40], Fraction(1), None),
    ([0, 1, 2], Fraction(1, 10**400), None),
    ([2000, 0, 2770], Fraction(1), [2**2886, 1, 2**3997]),  # e^2000 is about 2^2885.4
    ([100, 0], Fraction(10), [1, 0]),
    ([9], Fraction(3), None),
]


def exact_shares(gaps: list[int], rate: Fraction, weights: list[int] | None) -> list[Decimal]:
    """Return weight exp(-rate gap), to 60 digits."""
    least = min(g for i, g in enumerate(gaps) if weights is None or weights[i])
    with localcontext() as context:
        context.prec = 60
        speed = Decimal(rate.numerator) / Decimal(rate.denominator)
        return [
            Decimal(1 if weights is None else weights[i]) * (-speed * max(g - least, 0)).exp()
            for i, g in enumerate(gaps)
        ]


def exact_law(gaps: list[int], rate: Fraction, weights: list[int] | None) -> list[float]:
    with localcontext() as context:
        context.prec = 60
        shares = exact_shares(gaps, rate, weights)
        return [float(s / sum(shares)) for s in shares]


def urn_of(case: tuple[list[int], Fraction, list[int] | None]) -> Urn:
    gaps, rate, weights = case
    return fill_urn(whole_numbers(gaps, "gaps"), rate=rate, weights=weights)


@pytest.mark.each(4)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_law_of_arrays_and_of_single_draws(case: tuple[list[int], Fraction, list[int] | None]) -> None:
    urn, law = urn_of(case), exact_law(*case)
    many = np.bincount(urn.sample(Rng.seeded(1), 200_000), minlength=len(law))
    assert chi_square(many.tolist(), [200_000 * p for p in law]) > FALSE_ALARM
    rng = Rng.seeded(2)
    single = np.bincount([urn.sample(rng) for _ in range(3000)], minlength=len(law))
    assert chi_square(single.tolist(), [3000 * p for p in law]) > FALSE_ALARM


@pytest.mark.each(7)
@pytest.mark.parametrize("case", CASES[:5], ids=str)
@pytest.mark.parametrize("draws", [2_000, pytest.param(60_000, marks=pytest.mark.deep)])
def test_law_where_few_tickets_are_sure(
    case: tuple[list[int], Fraction, list[int] | None], draws: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pad of 1/2 and urns of a few tickets leave most draws to exact coins: the law stays the same."""
    monkeypatch.setattr(softmax, "_PAD", 0.5)
    monkeypatch.setattr(softmax, "_TICKET_BITS", 3)
    urn, law = urn_of(case), exact_law(*case)
    assert int(urn.ends[-1]) < 30
    found = np.bincount(urn.sample(Rng.seeded(3), draws), minlength=len(law))
    assert chi_square(found.tolist(), [draws * p for p in law]) > FALSE_ALARM


@examples(
    12,
    60,
    gaps=st.lists(st.integers(0, 10**4) | st.integers(0, 10**25), min_size=1, max_size=8),
    rate=st.fractions(Fraction(1, 10**6), 50),
    weights=st.lists(st.integers(0, 5) | st.integers(1, 2**70) | st.integers(2**3000, 2**3001), min_size=8, max_size=8),
    plain=st.booleans(),
)
def test_tickets_bound_the_exact_shares(gaps: list[int], rate: Fraction, weights: list[int], plain: bool) -> None:
    """Never fewer than the exact share, never more sure ones, and few in vain."""
    used = None if plain or not any(weights[: len(gaps)]) else weights[: len(gaps)]
    urn = urn_of((gaps, rate, used))
    tickets = np.diff(urn.ends, prepend=0).tolist()
    with localcontext() as context:
        context.prec = 80
        unit = Decimal(2) ** urn.shift
        shares = [s * unit for s in exact_shares(gaps, rate, used)]
        assert all(
            sure <= share <= count for sure, share, count in zip(urn.sure.tolist(), shares, tickets, strict=True)
        )
        assert sum(tickets) - sum(shares) < 2**29
    assert 2**58 < sum(tickets) < 2**62
    assert all(bool(count) == (used is None or used[i] > 0) for i, count in enumerate(tickets))


def test_exp_keeps_well_within_the_pad() -> None:
    """The one thing asked of NumPy: exp to 2^-45 relative, 8,000 times tighter than the pad."""
    x = np.concatenate([-np.linspace(0, 700, 701), -np.geomspace(1e-18, 700, 300)])
    with localcontext() as context:
        context.prec = 40
        truth = [Decimal(v).exp() for v in x.tolist()]
        assert max(abs(Decimal(f) / t - 1) for f, t in zip(np.exp(x).tolist(), truth, strict=True)) < Decimal(2) ** -45
        powers = [Decimal(2) ** Decimal(v) for v in (x / 10).tolist()]
        assert (
            max(abs(Decimal(f) / t - 1) for f, t in zip(np.exp2(x / 10).tolist(), powers, strict=True))
            < Decimal(2) ** -45
        )


def test_a_point_beyond_the_exact_share_is_drawn_again() -> None:
    """Scripted: the last ticket of the last candidate is not fully its own; the coin's bits decide."""
    urn = fill_urn(np.array([0, 1]), rate=Fraction(1))
    total = int(urn.ends[-1])
    width = (total - 1).bit_length()
    nbytes = (width + 7) // 8

    def point(value: int) -> bytes:
        return (value << (-width & 7)).to_bytes(nbytes, "little")

    last = total - 1
    coin = urn._coin(1, last - int(urn.ends[0]))
    assert coin.first == 0  # that ticket lies wholly beyond the share
    assert urn.sample(ScriptedRng(point(last) + words(5) + point(0))) == 0
    share = int(Fraction(math.exp(-1)) * 2**urn.shift)  # within rounding of the exact share
    edge = next(o for o in range(share - 2000, share + 2000) if 0 < urn._coin(1, o).first < 1 << 64)
    cut = urn._coin(1, edge).first
    at = int(urn.ends[0]) + edge
    assert edge >= int(urn.sure[1])
    assert urn.sample(ScriptedRng(point(at) + words(cut - 1))) == 1
    assert urn.sample(ScriptedRng(point(at) + words(cut + 1) + point(0))) == 0


def test_coins_by_the_textbook() -> None:
    gaps, rate = [0, 1, 2, 5, 9], Fraction(1, 3)
    rng, count = Rng.seeded(5), 1000
    fast = np.sum([flip_coins(np.array(gaps), rate=rate, rng=rng) for _ in range(count)], axis=0)
    slow = [sum(textbook_bernoulli_exp(rate * g, rng) for _ in range(count)) for g in gaps]
    for g, heads, oracle in zip(gaps, fast.tolist(), slow, strict=True):
        p = math.exp(-g / 3)
        assert (
            (heads == count)
            if g == 0
            else chi_square([heads, count - heads], [count * p, count * (1 - p)]) > FALSE_ALARM
        )
        assert (
            (oracle == count)
            if g == 0
            else chi_square([oracle, count - oracle], [count * p, count * (1 - p)]) > FALSE_ALARM
        )


@pytest.mark.parametrize("pad", [2.0**-32, 0.3])
def test_coins_in_bulk(pad: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(softmax, "_PAD", pad)
    count = 200_000 if pad < 0.1 else 20_000
    gaps = np.tile(np.array([0, 1, 3, 40]), count // 4)
    heads = flip_coins(gaps, rate=Fraction(1, 4), rng=Rng.seeded(6)).reshape(-1, 4).sum(axis=0).tolist()
    assert heads[0] == count // 4
    for k, g in zip(heads[1:], (1, 3, 40), strict=True):
        p = math.exp(-g / 4)
        assert chi_square([k, count // 4 - k], [count / 4 * p, count / 4 * (1 - p)]) > FALSE_ALARM


def test_a_coin_that_ties_draws_more_bits() -> None:
    coin = CertifiedProbability.exp_minus(Fraction(1))
    digits = coin.digits(128)
    first, second = digits >> 64, digits & (2**64 - 1)
    for word, expected in ((first - 4, True), (first + 4, False)):
        assert flip_coins(np.array([1]), rate=Fraction(1), rng=ScriptedRng(words(word))).tolist() == [expected]
    lead = first >> 1  # 63 bits tie: one more is drawn, then 64
    bit = (first & 1) << 7
    for tail, expected in ((second - 1, True), (second + 1, False)):
        script = words(lead << 1) + bytes([bit]) + words(tail)
        assert flip_coins(np.array([1]), rate=Fraction(1), rng=ScriptedRng(script)).tolist() == [expected]


def test_coins_of_enormous_and_of_tiny_exponents() -> None:
    rng = Rng.seeded(7)
    gaps = whole_numbers([0, 10**400, 1], "gaps")
    assert flip_coins(gaps, rate=Fraction(1, 10**300), rng=rng).tolist() == [True, False, True]
    assert flip_coins(np.array([0, 2**62]), rate=Fraction(10**300), rng=rng).tolist() == [True, False]
    assert flip_coins(np.array([1]), rate=Fraction(1, 2**1000), rng=rng).tolist() == [True]


def test_whole_numbers_keep_what_fits_and_refuse_the_rest() -> None:
    for values, kind in (
        ([], "int64"),
        ([1, -5], "int64"),
        ([2**62, 0], "object"),
        ([2**63, -1], "object"),
        ([2**70], "object"),
        (np.array([3], dtype=np.uint8), "int64"),
        (np.array([2**63], dtype=np.uint64), "object"),
        (np.array([3, 4], dtype=object), "int64"),
    ):
        array = whole_numbers(values, "scores")
        assert (str(array.dtype), array.tolist()) == (kind, [int(v) for v in values])
    for bad in ([0.5], [1, 2.0], ["1"], [True], [[1]], [[1], [1, 2]], [None], [math.nan, 1], 7):
        with pytest.raises(DeclarationError, match="scores"):
            whole_numbers(mistype(bad), "scores")


def test_bad_arguments_are_refused_by_name() -> None:
    gaps = np.array([0, 1])
    for rate in (0, Fraction(-1), 0.5):
        with pytest.raises(DeclarationError, match="rate"):
            fill_urn(gaps, rate=mistype(rate))
    for weights in ([1], [1, 2, 3], [0, 0], [1, -1], [1, 0.5], [1, 2**4096]):
        with pytest.raises(DeclarationError, match="weights"):
            fill_urn(gaps, rate=Fraction(1), weights=mistype(weights))
    with pytest.raises(DeclarationError, match="candidate"):
        fill_urn(np.array([], dtype=np.int64), rate=Fraction(1))


@pytest.mark.deep
@pytest.mark.parametrize("case", CASES, ids=str)
def test_law_of_many_millions(case: tuple[list[int], Fraction, list[int] | None]) -> None:
    urn, law = urn_of(case), exact_law(*case)
    found = np.sum([np.bincount(urn.sample(Rng.seeded(s), 10**6), minlength=len(law)) for s in range(20)], axis=0)
    assert chi_square(found.tolist(), [2e7 * p for p in law]) > FALSE_ALARM
