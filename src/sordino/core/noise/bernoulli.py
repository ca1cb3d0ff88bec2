"""Exact coins: a probability known by certified bounds at any precision, and a comparison of uniform bits with it.

It may not know which law the coin serves, and no float decides anything here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache

from sordino.core.errors import DeclarationError
from sordino.core.noise.rng import Rng

# Four digits of a Python integer, 1 included.
_FACTOR_BITS = 118
_WORD = 64
_ZERO = Decimal(0)
_ONE = Decimal(1)
_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN, rounding=ROUND_FLOOR)


@dataclass(frozen=True, slots=True)
class CertifiedProbability:
    """A probability p in [0, 1], known by bounds that can be made arbitrarily tight.

    `bounds(precision)` returns Decimals lower <= b <= upper that meet as the precision (decimal digits) grows; p is b,
    or 1 - b when `mirrored` (which requires b to be irrational, and avoids the many nines of a p close to 1).
    `first` is floor(p 2^64), computed once.

    >>> CertifiedProbability.rational(Fraction(1, 3)).digits(8)
    85
    """

    bounds: Callable[[int], tuple[Decimal, Decimal]]
    mirrored: bool
    first: int

    @classmethod
    def certify(
        cls, bounds: Callable[[int], tuple[Decimal, Decimal]], *, mirrored: bool = False
    ) -> CertifiedProbability:
        """Return the probability that `bounds` converges to, with its first 64 bits computed."""
        return cls(bounds, mirrored, _certain_bits(bounds, mirrored=mirrored, count=_WORD))

    @classmethod
    def rational(cls, value: Fraction | int) -> CertifiedProbability:
        """Return p = value, a Fraction in [0, 1]."""
        exact = as_fraction(value, "value")
        if not 0 <= exact <= 1:
            raise DeclarationError(f"value must be a probability in [0, 1], not {exact}")

        def bounds(precision: int) -> tuple[Decimal, Decimal]:
            return _ratio_bounds(exact.numerator, exact.denominator, precision)

        return cls.certify(bounds)

    @classmethod
    def exp_minus(cls, gamma: Fraction | int) -> CertifiedProbability:
        """Return p = exp(-gamma), gamma >= 0.

        >>> CertifiedProbability.exp_minus(1).digits(10)
        376
        """
        exact = as_fraction(gamma, "gamma")
        if exact < 0:
            raise DeclarationError(f"gamma must be at least 0, not {exact}")

        def bounds(precision: int) -> tuple[Decimal, Decimal]:
            return exp_bounds(exact, precision)

        return cls.certify(bounds)

    @classmethod
    def logistic(cls, x: Fraction | int) -> CertifiedProbability:
        """Return p = 1 / (1 + exp(x)).

        >>> CertifiedProbability.logistic(0).digits(10)
        512
        """
        exact = as_fraction(x, "x")

        def bounds(precision: int) -> tuple[Decimal, Decimal]:
            lower, upper = exp_bounds(abs(exact), precision)
            return odds_bounds(lower, upper, precision)

        return cls.certify(bounds, mirrored=exact < 0)

    def digits(self, count: int) -> int:
        """Return floor(p 2^count), certified: both bounds agree on it."""
        if count <= _WORD:
            return self.first >> (_WORD - count)
        return _certain_bits(self.bounds, mirrored=self.mirrored, count=count)


def bernoulli(p: CertifiedProbability, rng: Rng) -> bool:
    """Return True with probability exactly p.

    Theorem: let U be uniform in [0, 1), W = floor(U 2^k) its first k bits, and T = floor(p 2^k). W < T gives U < p,
    W > T gives U >= p, and W = T (of probability 2^-k at most) leaves it open; then k grows. The answer is [U < p].

    Paper: von Neumann 1951, Various techniques used in connection with random digits; Canonne, Kamath, Steinke 2020,
    section 5, for why the answer must be exact.

    >>> bernoulli(CertifiedProbability.rational(1), Rng.seeded(1))
    True
    """
    word = rng.bits(_WORD)
    return word < p.first if word != p.first else settle(p, known=_WORD, rng=rng)


def bernoulli_exp_raised(raised: int, denominator: int, rng: Rng) -> bool:
    """Return True with probability exactly exp(-gamma), gamma = raised / denominator - 256, in time that hardly follows gamma.

    Theorem: let g = floor(gamma 2^56), o the offset that the last byte of a word U of 64 bits chooses, gamma + o / 2^56 < 256,
    and f the product of s_i exp(-d 16^i / 2^56) over the hexadecimal digits d of g + o. With S the product of the scales s_i,
    slightly below 1, e = f exp(o / 2^56) / S = exp(-g / 2^56), so e (1 - 2^-56) <= exp(-gamma) <= e. A factor is rounded down
    by less than 2 / 2^118, a product by less than 1 / 2^118, and o / 2^56 < 8, so the result r lies less than 2^18 below 2^118 e,
    and 2^64 exp(-gamma) from floor(r / 2^54) - 256 to floor(r / 2^54) + 2. A U outside is decided; one inside, of chance 2^-55
    at most, is compared with certified digits as by `bernoulli`: the offset has no part in what is returned.

    It keeps gamma off the clock. A processor is faster at a computation that it saw before, so that a common gamma would show:
    offsets make 256 of each, scales let no digit be a factor of 1, and the 256, which a caller adds early, and 2^65 let every
    number have one length.
    """
    # U + 2^65.
    above = int.from_bytes(rng.bytes(8) + b"\2", "little")
    table, offsets = _exp_factors()
    offset, restore = offsets[above & 255]
    shifted = (raised << 56) // denominator + offset
    if shifted >> 65 == 0:
        power = 1 << _FACTOR_BITS
        for factors in table:
            power = power * factors[shifted & 15] >> _FACTOR_BITS
            shifted >>= 4
        near = (power * restore >> _FACTOR_BITS) + (1 << _FACTOR_BITS + 1) >> _FACTOR_BITS - _WORD
        if not near - 257 <= above + 1 <= near + 3:
            return above < near
    coin = CertifiedProbability.exp_minus(Fraction(raised, denominator) - 256)
    word = above - (1 << _WORD + 1)
    return word < coin.first if word != coin.first else settle(coin, known=_WORD, rng=rng)


@lru_cache(maxsize=1)
def _exp_factors() -> tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, int], ...]]:
    """Return 2^118 s_i exp(-d 16^i / 2^56) for digits d at places i, and offsets o < 2^59 with 2^118 exp(o / 2^56) / S.

    All but the offsets are rounded down. These, and k_i in s_i = 1 - k_i / 2^118, are bits far down in powers of e: any without
    a pattern would do.
    """
    one = 1 << _FACTOR_BITS
    product = Fraction(1)
    table = []
    for place in range(16):
        scale = one - CertifiedProbability.exp_minus(Fraction(place + 1, 7)).digits(88)
        product *= Fraction(scale, one)
        powers = [CertifiedProbability.exp_minus(Fraction(digit << 4 * place, 1 << 56)) for digit in range(16)]
        table.append(tuple(scale * power.digits(_FACTOR_BITS) >> _FACTOR_BITS for power in powers))
    offsets = []
    for j in range(256):
        offset = CertifiedProbability.exp_minus(Fraction(j + 1, 257)).digits(160) & ((1 << 59) - 1)
        shrunk = CertifiedProbability.exp_minus(Fraction(offset, 1 << 56)).digits(200) + 1
        offsets.append((offset, int(Fraction(one << 200, shrunk) / product)))
    return tuple(table), tuple(offsets)


def settle(p: CertifiedProbability, *, known: int, rng: Rng) -> bool:
    """Return [U < p] for a uniform U whose first `known` bits equal those of p, by drawing the bits that follow."""
    while True:
        step = _WORD - known if known < _WORD else _WORD
        word = rng.bits(step)
        threshold = p.digits(known + step) & ((1 << step) - 1) if p.first != 1 << _WORD else 1 << step
        if word != threshold:
            return word < threshold
        known += step


@lru_cache(maxsize=256)
def rounding_contexts(precision: int) -> tuple[Context, Context]:
    """Return Decimal contexts of `precision` digits that round down and up; the thread's own context is never used."""
    down = Context(prec=precision, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
    up = Context(prec=precision, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
    return down, up


def as_fraction(value: Fraction | int, name: str) -> Fraction:
    """Return `value` as a Fraction; raises DeclarationError for a float, whose decimal the caller must state."""
    if isinstance(value, bool) or not isinstance(value, Fraction | int):
        raise DeclarationError(f"{name} must be a Fraction or an int, not {type(value).__name__}")
    return Fraction(value)


def exp_bounds(gamma: Fraction, precision: int) -> tuple[Decimal, Decimal]:
    """Return Decimals of `precision` digits with lower <= exp(-gamma) <= upper, for gamma >= 0.

    Decimal's exp is correctly rounded to half-even, so one unit outward bounds it. With x = gamma rounded down to
    `precision` digits and u its last unit, 0 <= gamma - x <= u gives exp(-x) (1 - u) <= exp(-gamma) <= exp(-x).
    """
    if not gamma:
        return _ONE, _ONE
    context, _ = rounding_contexts(precision)
    x = context.divide(Decimal(gamma.numerator), Decimal(gamma.denominator))
    power = context.exp(context.minus(x))
    shrink = max(context.subtract(_ONE, context.subtract(context.next_plus(x), x)), _ZERO)
    lower = context.multiply(context.next_minus(power), shrink)
    return max(lower, _ZERO), min(context.next_plus(power), _ONE)


def odds_bounds(lower: Decimal, upper: Decimal, precision: int) -> tuple[Decimal, Decimal]:
    """Return bounds of q / (1 + q), which rises with q, for lower <= q <= upper."""
    down, up = rounding_contexts(precision)
    return down.divide(lower, up.add(_ONE, lower)), up.divide(upper, down.add(_ONE, upper))


def _certain_bits(bounds: Callable[[int], tuple[Decimal, Decimal]], *, mirrored: bool, count: int) -> int:
    """Return floor(p 2^count), raising the precision until both bounds agree."""
    precision = count * 302 // 1000 + 8
    power = Decimal(1 << count)
    while True:
        lower, upper = bounds(precision)
        low = int(_EXACT.multiply(lower, power))
        high = int(_EXACT.multiply(upper, power))
        if low == high:
            return (1 << count) - 1 - low if mirrored else low
        precision *= 2


def _ratio_bounds(numerator: int, denominator: int, precision: int) -> tuple[Decimal, Decimal]:
    """Return numerator / denominator rounded down and up to `precision` digits."""
    over = Decimal(numerator)
    under = Decimal(denominator)
    down, up = rounding_contexts(precision)
    return down.divide(over, under), up.divide(over, under)
