"""Exact samplers of the discrete Laplace and the discrete Gaussian law, one draw or many at a time.

It may not know what is being hidden: a scale comes in as a Fraction, integers of exactly that law come out. Every
comparison is of integers; floats appear nowhere.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from typing import Any, TypeAlias, overload

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.core.noise.bernoulli import (
    CertifiedProbability,
    as_fraction,
    bernoulli,
    bernoulli_exp_raised,
    exp_bounds,
    odds_bounds,
    rounding_contexts,
    settle,
)
from sordino.core.noise.rng import Rng

Integers: TypeAlias = np.ndarray[Any, np.dtype[Any]]

# Samples a block: its words stay in the cache.
_BLOCK = 1 << 15
# Below this many samples the loop of single draws is faster.
_SHORT = 8
_COIN_BITS = 16
# Below so many coins a draw and its lift of 2^61 fit in 64 bits together.
_NARROW = 54
# From this scale on, arrays hold Python integers.
_WIDE = 1 << 56
_TABLE_SIGMA = 32_768
_TABLE_SIZE = 256
# Bits of a digit of Python's ints.
_DIGIT_BITS = sys.int_info.bits_per_digit
# The deviation of the high parts of wider noise.
_HIGH_SIGMA = 1024


@overload
def discrete_laplace(scale: Fraction | int, rng: Rng, size: None = None) -> int: ...
@overload
def discrete_laplace(scale: Fraction | int, rng: Rng, size: int) -> Integers: ...
def discrete_laplace(scale: Fraction | int, rng: Rng, size: int | None = None) -> int | Integers:
    """Draw from the discrete Laplace law: P(X = x) = (1 - q) / (1 + q) q^|x| with q = exp(-1 / scale).

    Returns an int, or with `size` an int64 array of that length (an object array of ints where scale >= 2^56; below,
    a draw leaves int64 with probability under e^-100, and raises OverflowError). Scale 0 gives zeros; a float or
    negative scale raises DeclarationError.

    Theorem: X is nonzero with probability 2q / (1 + q); its sign is fair; G = |X| - 1 is geometric, P(G = g) =
    (1 - q) q^g, which factors over the binary digits of g: the digits are independent, and digit i is 1 with
    probability q^(2^i) / (1 + q^(2^i)) = 1 / (1 + exp(2^i / scale)). The first L digits are drawn so; the rest of G,
    floor(G / 2^L), is geometric with ratio q^(2^L) <= e^-16 and drawn coin by coin. Every coin is exact (`bernoulli`),
    and each draw costs L + 2 coins, L = log2(16 scale), up to events of probability 2^-11 or so.

    Paper: Ghosh, Roughgarden, Sundararajan 2012, Universally utility-maximizing privacy mechanisms, section 2 (the
    law); Canonne, Kamath, Steinke 2020, section 5.2 (the exact sampler that is the oracle in the tests).

    >>> discrete_laplace(Fraction(7, 3), Rng.seeded(1), 5).dtype
    dtype('int64')
    >>> discrete_laplace(0, Rng.seeded(1))
    0
    """
    exact = not_negative(scale, "scale")
    if exact == 0:
        return _fill(size, wide=False, one=np.int64, block=None)
    plan = _laplace_plan(exact)
    return _fill(
        size,
        wide=exact >= _WIDE,
        one=lambda: _laplace_one(plan, rng),
        block=lambda count: _laplace_block(plan, rng, count),
    )


@overload
def discrete_gaussian(sigma_squared: Fraction | int, rng: Rng, size: None = None) -> int: ...
@overload
def discrete_gaussian(sigma_squared: Fraction | int, rng: Rng, size: int) -> Integers: ...
def discrete_gaussian(sigma_squared: Fraction | int, rng: Rng, size: int | None = None) -> int | Integers:
    """Draw from the discrete Gaussian law: P(X = x) proportional to exp(-x^2 / (2 sigma_squared)).

    Returns an int, or with `size` an int64 array of that length (an object array of ints where sigma >= 2^56).
    Sigma squared 0 gives zeros; a float or negative one raises DeclarationError.

    Theorem (single draws): with t = floor(sigma) + 1, Y discrete Laplace of scale t is kept with probability
    exp(-(|Y| - sigma^2 / t)^2 / (2 sigma^2)), else redrawn; what is kept has the law above.
    Theorem (256 draws or more, sigma up to 32,768): |X| = #{k : U < P(|X| > k)} for a uniform U whose bits are compared
    with certified floors of the survival function; bits that tie are followed by more bits. The sign is fair.
    Theorem (256 draws or more, wider): with s low bits, H of sigma / 2^s from a table given H >= 0, and L uniform on 0 ..
    2^s - 1, m = 2^s H + L is kept with probability exp(-(m^2 - (2^s H)^2) / (2 sigma^2)). Of m >= 0 what is kept has
    probability proportional to exp(-m^2 / (2 sigma^2)). A fair sign, and -0 redrawn, make it the law above.

    Paper: Canonne, Kamath, Steinke 2020, The discrete Gaussian for differential privacy, section 5.3, algorithm 3.

    >>> discrete_gaussian(Fraction(9, 4), Rng.seeded(1), 300).shape
    (300,)
    >>> discrete_gaussian(0, Rng.seeded(1))
    0
    """
    exact = not_negative(sigma_squared, "sigma_squared")
    if exact == 0:
        return _fill(size, wide=False, one=np.int64, block=None)
    many = size is not None and size >= _TABLE_SIZE and exact < _WIDE**2
    low_bits = 0 if exact <= _TABLE_SIGMA**2 else max(0, isqrt(int(exact)).bit_length() - _HIGH_SIGMA.bit_length() + 1)
    return _fill(
        size,
        wide=exact >= _WIDE**2,
        one=lambda: _gaussian_one(exact, rng),
        block=(lambda count: _gaussian_block(exact, rng, count, low_bits=low_bits)) if many else None,
    )


def not_negative(value: Fraction | int, name: str) -> Fraction:
    """Return a parameter as a Fraction; raise DeclarationError for a float and below 0."""
    exact = value if type(value) is Fraction else as_fraction(value, name)
    if exact < 0:
        raise DeclarationError(f"{name} must be at least 0, not {exact}")
    return exact


@dataclass(frozen=True, slots=True)
class _LaplacePlan:
    """The coins of one scale: digits 0 to L - 1, then overflow (G >= 2^L), then nonzero; their 16-bit cuts, also as an array.

    `weights` is what a coin that falls adds to G: overflow and nonzero are looked at apart.
    """

    coins: tuple[CertifiedProbability, ...]
    cuts: tuple[int, ...]
    levels: Integers
    weights: Integers


@dataclass(frozen=True, slots=True)
class _GaussianPlan:
    """The parameters of one draw: the law that proposes m = |Y|, and (m t - sigma^2)^2 as a polynomial of m + lift.

    With 256 added, the last bits of `(square * raised + linear) * raised + base`, as many as the `mask` has, over `denominator`
    are gamma + 256 of `bernoulli_exp_raised`. The lift, a part of it added in 64 bits where m has no more, is longer than m: no
    step works on longer numbers for a larger m. Nor is anything subtracted: whether a digit borrows from the next would follow m,
    and took 15 ns.
    """

    proposal: _LaplacePlan
    short_lift: np.int64 | int
    long_lift: int
    square: int
    linear: int
    base: int
    mask: int
    most: int
    denominator: int


@dataclass(frozen=True, slots=True)
class _GaussianTable:
    """Floors of P(|X| > k) 2^64, rising, after a 0; and |X| by the leading 16 bits, -1 where they leave it open."""

    rising: np.ndarray[Any, np.dtype[np.uint64]]
    guide: np.ndarray[Any, np.dtype[np.int32]]


def _fill(
    size: int | None, *, wide: bool, one: Callable[[], Any], block: Callable[[int], Integers] | None
) -> int | Integers:
    """Return one draw, or an array of `size` made of blocks, or of single draws where there is no block."""
    if size is None:
        return int(one())
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 0:
        raise DeclarationError(f"size must be None or an int of at least 0, not {size!r}")
    out = np.zeros(size, dtype=object if wide else np.int64)
    if wide:
        for i in range(size):
            out[i] = int(one())
        return out
    if size and (block is None or size < _SHORT):
        # NumPy makes a Python int of a number on its way into an array, and Python keeps those up to 256: larger ones would
        # take 8 ns longer. Bytes have no size.
        return np.frombuffer(bytearray(b"".join([_word_of(one()) for _ in range(size)])), dtype=np.int64)
    if block is None:
        return out
    for start in range(0, size, _BLOCK):
        out[start : start + _BLOCK] = block(min(_BLOCK, size - start))
    return out


def _word_of(drawn: np.int64 | int) -> bytes:
    """Return the eight bytes of a draw; scales from 2^55 on are drawn as Python ints, which are hardly ever small there."""
    return drawn.tobytes() if isinstance(drawn, np.int64) else drawn.to_bytes(8, sys.byteorder, signed=True)


@lru_cache(maxsize=256)
def _laplace_plan(scale: Fraction) -> _LaplacePlan:
    """Certify the coins of a scale."""
    rate = 1 / scale
    length = max((-(-16 * scale.numerator // scale.denominator) - 1).bit_length(), 0)
    digits = [CertifiedProbability.logistic(rate * (1 << i)) for i in range(length)]
    overflow = CertifiedProbability.exp_minus(rate * (1 << length))

    def nonzero(precision: int) -> tuple[Decimal, Decimal]:
        lower, upper = odds_bounds(*exp_bounds(rate, precision), precision)
        down, up = rounding_contexts(precision)
        return down.add(lower, lower), up.add(upper, upper)

    coins = (*digits, overflow, CertifiedProbability.certify(nonzero))
    cuts = tuple(c.digits(_COIN_BITS) for c in coins)
    # Sixteen overflows, of chance 2^-176, still fit in 64 bits.
    whole = np.int64 if length < 60 else object
    weights = np.array([*(1 << i for i in range(length)), 0, 0], dtype=whole)
    return _LaplacePlan(coins, cuts, np.array(cuts, dtype=np.uint16), weights)


def _laplace_one(plan: _LaplacePlan, rng: Rng) -> Any:
    """Draw one. What is returned counts as an int, of any length where wide."""
    magnitude, sign = _laplace_parts(plan, rng)
    return magnitude * sign


def _laplace_parts(plan: _LaplacePlan, rng: Rng) -> tuple[Any, int]:
    """Draw |X| and a fair sign, by the same steps whatever comes out: neither branches nor the lengths of numbers tell its size.

    Ties and overflows, of chance 2^-11 or so, take longer.
    """
    raw = rng.bytes(2 * len(plan.cuts) + 1)
    words = np.frombuffer(raw, "<u2", len(plan.cuts))
    hits = words < plan.levels
    tied = words == plan.levels
    # It takes a fifth of the time of tied.any().
    if np.count_nonzero(tied):
        for i in np.flatnonzero(tied).tolist():
            hits[i] = settle(plan.coins[i], known=_COIN_BITS, rng=rng)
    magnitude = hits.dot(plan.weights) + 1
    if hits[-2]:
        magnitude += _overflows(plan, rng) << len(hits) - 2
    # An int of a truth is one of two objects, by a branch.
    nonzero = hits[-1] if isinstance(magnitude, np.int64) else int(hits[-1])
    return magnitude * nonzero, 1 - 2 * (raw[-1] & 1)


def _overflows(plan: _LaplacePlan, rng: Rng) -> int:
    """Return floor(G / 2^L) given that it is at least 1."""
    count = 1
    while bernoulli(plan.coins[-2], rng):
        count += 1
    return count


def _laplace_block(plan: _LaplacePlan, rng: Rng, count: int) -> Integers:
    """Draw `count` magnitudes with signs, a row of words for each coin; words that tie with their cut are settled singly."""
    length = len(plan.coins) - 2
    words = rng.words((length + 2, count), np.uint16)
    cuts = plan.levels
    geometric = np.zeros(count, dtype="<i8")
    octets = geometric.view(np.uint8).reshape(count, 8)
    bit = np.empty(count, dtype=np.bool_)
    tied = np.zeros(count, dtype=np.bool_)
    octet = np.empty(count, dtype=np.uint8)
    for low in range(0, length, 8):
        octet.fill(0)
        for i in range(min(low + 8, length) - 1, low - 1, -1):
            np.add(octet, octet, out=octet)
            np.bitwise_or(octet, np.less(words[i], cuts[i], out=bit).view(np.uint8), out=octet)
            np.logical_or(tied, np.equal(words[i], cuts[i], out=bit), out=tied)
        octets[:, low >> 3] = octet
    overflow = words[length] < cuts[length]
    nonzero = words[length + 1] < cuts[length + 1]
    for i in (length, length + 1):
        np.logical_or(tied, np.equal(words[i], cuts[i], out=bit), out=tied)
    columns = np.flatnonzero(tied)
    for i, place in np.argwhere(words[:, columns] == cuts[:, None]).tolist():
        won = settle(plan.coins[i], known=_COIN_BITS, rng=rng)
        if i < length:
            geometric[columns[place]] |= won << i
        else:
            (overflow if i == length else nonzero)[columns[place]] = won
    for column in np.flatnonzero(overflow).tolist():
        geometric[column] = int(geometric[column]) + (_overflows(plan, rng) << length)
    geometric += 1
    geometric *= nonzero
    return _draw_signs(geometric, rng)


def _draw_signs(magnitude: Integers, rng: Rng) -> Integers:
    """Give each entry a fair sign, in place."""
    signs = np.unpackbits(rng.words((len(magnitude) + 7) // 8, np.uint8))[: len(magnitude)].view(np.bool_)
    return np.negative(magnitude, out=magnitude, where=signs)


@lru_cache(maxsize=256)
def _gaussian_plan(sigma_squared: Fraction) -> _GaussianPlan:
    """Return the parameters of one draw at this variance.

    With m t - sigma^2 = gap / under, gap = m c - over and c = under t, the coin's gamma is gap^2 / (2 over under t^2).
    """
    over = sigma_squared.numerator
    under = sigma_squared.denominator
    t = isqrt(over // under) + 1
    proposal = _laplace_plan(Fraction(t))
    narrow = len(proposal.cuts) < _NARROW
    lift = 1 << max(61, len(proposal.cuts) + 8)
    short = np.int64(lift) if narrow else 0
    c = under * t
    denominator = 2 * over * under * t * t
    # gap = c (m + lift) - middle, of which -2 c middle (m + lift) is taken modulo 2^bits, more than the result has. Whole digits
    # of a Python int and one bit: the last digit is 1, and m times it is carried no further.
    middle = c * lift + over
    base = middle * middle + (denominator << 8)
    bits = _DIGIT_BITS * (base.bit_length() // _DIGIT_BITS + 1)
    linear = (2 << bits) - 2 * c * middle
    mask = (1 << bits) - 1
    return _GaussianPlan(proposal, short, lift - int(short), c * c, linear, base, mask, 2 * lift, denominator)


def _gaussian_one(sigma_squared: Fraction, rng: Rng) -> Any:
    """Draw one by rejection from the discrete Laplace law, each try by the same steps on numbers of the same lengths."""
    plan = _gaussian_plan(sigma_squared)
    while True:
        magnitude, sign = _laplace_parts(plan.proposal, rng)
        raised = int(magnitude + plan.short_lift) + plan.long_lift
        if bernoulli_exp_raised(_raise_gamma(plan, raised), plan.denominator, rng):
            return magnitude * sign


def _raise_gamma(plan: _GaussianPlan, raised: int) -> int:
    """Return (gamma + 256) times the denominator, of m + lift.

    Theorem: gap = c (m + lift) - middle, so gap^2 is the polynomial modulo 2^bits, and for m < lift it is below middle^2, which
    is below 2^bits. For others, of chance e^-2000 at most, the multiples of 2^bits that were added are taken away.
    """
    value = (plan.square * raised + plan.linear) * raised + plan.base
    return value & plan.mask if raised < plan.most else value - (2 * (plan.mask + 1)) * raised


def _gaussian_block(sigma_squared: Fraction, rng: Rng, count: int, *, low_bits: int = 0) -> Integers:
    """Draw `count`: from a table, or with low bits beside a table of the high parts."""
    if not low_bits:
        return _draw_signs(_magnitudes(sigma_squared, rng, count), rng)
    out = np.empty(count, dtype=np.int64)
    missing = count
    while missing:
        accepted = _wide_gaussian(sigma_squared, rng, 2 * missing + 64, low_bits)[:missing]
        out[count - missing : count - missing + len(accepted)] = accepted
        missing -= len(accepted)
    return out


def _wide_gaussian(sigma_squared: Fraction, rng: Rng, tries: int, low_bits: int) -> Integers:
    """Return the accepted ones of so many tries, in their order.

    With u = 16 bits, a try is kept for sure where (u + 1) / 2^16 <= 1 - g, since exp(-g) >= 1 - g, and 2 m L - L^2 is less than
    (2 H + 1) 4^s. The few others are settled by their exact coin.
    """
    scale = Fraction(4**low_bits) / sigma_squared
    high = _draw_signs(_magnitudes(1 / scale, rng, tries), rng)
    # A sign is drawn for every try, so that 0 keeps its half of them.
    signs = rng.words(tries, np.uint8) & 1
    negative = signs[high >= 0].view(np.bool_)
    high = high[high >= 0]
    low = (rng.words(len(high), np.uint64) >> np.uint64(64 - low_bits)).astype(np.int64)
    leads = rng.words(len(high), np.uint16).astype(np.int64)
    proposals = (high << low_bits) + low
    # The slope of g in units of 2^-32, rounded up: g is at most (2 H + 1) / 2 of it.
    slope = -(-(scale.numerator << 32) // scale.denominator)
    accepted = ((leads + 1) << 16) <= (1 << 32) - (2 * high + 1) * slope // 2 - 1
    for i in np.flatnonzero(~accepted).tolist():
        gap = int(low[i]) * (2 * (int(high[i]) << low_bits) + int(low[i]))
        coin = CertifiedProbability.exp_minus(gap / (2 * sigma_squared))
        cut = coin.digits(_COIN_BITS)
        lead = int(leads[i])
        accepted[i] = lead < cut or (lead == cut and settle(coin, known=_COIN_BITS, rng=rng))
    accepted &= (proposals > 0) | ~negative
    samples: Integers = np.where(negative, -proposals, proposals)[accepted]
    return samples


def _magnitudes(sigma_squared: Fraction, rng: Rng, count: int) -> Integers:
    """Draw |X| by inversion of its survival function: 16 bits decide most, 64 nearly all, ties draw on."""
    table = _gaussian_table(sigma_squared)
    lead = rng.words(count, np.uint16)
    magnitude: Integers = table.guide[lead].astype(np.int64)
    undecided = np.flatnonzero(magnitude < 0)
    words = rng.words(len(undecided), np.uint64) >> np.uint64(16) | lead[undecided].astype(np.uint64) << np.uint64(48)
    places = np.searchsorted(table.rising, words, side="right")
    magnitude[undecided] = len(table.rising) - places
    for i in np.flatnonzero(table.rising[places - 1] == words).tolist():
        magnitude[undecided[i]] = _gaussian_settle(sigma_squared, int(words[i]), rng)
    return magnitude


def _gaussian_settle(sigma_squared: Fraction, word: int, rng: Rng) -> int:
    """Return #{k : U < P(|X| > k)} for a uniform U that begins with `word`, drawing bits until all are decided."""
    known = 64
    while True:
        word = word << 64 | rng.bits(64)
        known += 64
        floors = _survival_floors(sigma_squared, known)
        if word and word not in floors:
            return sum(floor > word for floor in floors)


@lru_cache(maxsize=64)
def _gaussian_table(sigma_squared: Fraction) -> _GaussianTable:
    """Certify the survival function to 64 bits, and note which leading 16 bits decide |X| alone."""
    rising = np.array([0, *reversed(_survival_floors(sigma_squared, 64))], dtype=np.uint64)
    first = np.arange(1 << 16, dtype=np.uint64) << np.uint64(48)
    last = first | np.uint64((1 << 48) - 1)
    below = np.searchsorted(rising, first, side="left")
    upto = np.searchsorted(rising, last, side="right")
    return _GaussianTable(rising, np.where(below == upto, len(rising) - upto, -1).astype(np.int32))


def _survival_floors(sigma_squared: Fraction, count: int) -> list[int]:
    """Return floor(P(|X| > k) 2^count) for k = 0, 1, ... while positive, certified in fixed point at `width` bits.

    The weights w_k = exp(-k^2 / (2 sigma^2)) obey w_(k+1) = w_k r_k, r_k = q^(2k+1), so each is one product further;
    lower and upper chains round outward, and what lies beyond the last is at most w_K / (1 - r_K).
    """
    width = count + 64
    coin = CertifiedProbability.exp_minus(1 / (2 * sigma_squared))
    while True:
        one = 1 << width
        low_ratio = coin.digits(width)
        high_ratio = low_ratio + 1
        low_step = low_ratio * low_ratio >> width
        high_step = (high_ratio * high_ratio >> width) + 1
        low = [one]
        high = [one]
        while low[-1]:
            low.append(low[-1] * low_ratio >> width)
            high.append((high[-1] * high_ratio >> width) + 1)
            low_ratio = low_ratio * low_step >> width
            high_ratio = (high_ratio * high_step >> width) + 1
        floors = _quotients(low, high, beyond=high[-1] * one // (one - high_ratio) + 1, count=count)
        if floors is not None:
            return floors
        width *= 2


def _quotients(low: list[int], high: list[int], *, beyond: int, count: int) -> list[int] | None:
    """Return floor(2^count 2 sum_{j>k} w_j / (w_0 + 2 sum_{j>0} w_j)) where positive, None if the bounds differ."""
    least = 0
    most = 2 * beyond
    tails = []
    for below, above in zip(reversed(low[1:]), reversed(high[1:]), strict=True):
        least += 2 * below
        most += 2 * above
        tails.append((least, most))
    total_low = low[0] + least
    total_high = high[0] + most
    floors = []
    for least, most in reversed(tails):
        floor = (least << count) // total_high
        if floor != (most << count) // total_low:
            return None
        if not floor:
            break
        floors.append(floor)
    return floors
