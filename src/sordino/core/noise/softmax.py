"""Exact choice of one of many candidates, with probability proportional to weight exp(-rate gap).

It may not know what a gap is or why it is hidden: whole numbers and a rational rate come in, an index of exactly that
law comes out. Floats only bound how many draws are rejected; none of them decides an outcome.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias, overload

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.core.noise.bernoulli import (
    CertifiedProbability,
    as_fraction,
    bernoulli,
    exp_bounds,
    rounding_contexts,
    settle,
)
from sordino.core.noise.rng import Rng

Integers: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

# The relative error allowed to a float weight; rounding reaches 2^-38, from exp (a few units) and its argument.
_PAD = 2.0**-32
_TICKET_BITS = 60
_COIN_BITS = 63
# From here on, arrays hold Python integers.
_WIDE = 1 << 62
_WEIGHT_BITS = 4096
# exp(-8000) of the largest weight is still far below one ticket.
_FAR = 8000.0
_ZERO = Decimal(0)
_ONE = Decimal(1)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Urn:
    """Whole numbers of tickets, a little more than each candidate's share; made by `fill_urn`.

    Theorem: let x_i = weight_i exp(-rate gap_i) 2^shift and T_i >= x_i whole. A point uniform in [0, sum T_i) lies in
    the cell of candidate i at an offset uniform in [0, T_i); it is kept where the offset is below x_i, else drawn again.
    So i is returned with probability proportional to x_i (von Neumann 1951). The offset is a ticket's number and a
    fraction drawn later: below `sure` <= x_i it is certain to be kept, above it one exact coin of probability
    x_i - offset, cut to [0, 1], decides. All but about 2^-30 of the points are sure, whatever the weights.
    """

    gaps: Integers
    weights: Integers | None
    rate: Fraction
    shift: int
    # T_1, T_1 + T_2, ...
    ends: Integers
    sure: Integers

    @overload
    def sample(self, rng: Rng, size: None = None) -> int: ...
    @overload
    def sample(self, rng: Rng, size: int) -> Integers: ...
    def sample(self, rng: Rng, size: int | None = None) -> int | Integers:
        """Draw an index, or with `size` an int64 array of independent ones.

        >>> fill_urn(np.array([0, 10**18]), rate=Fraction(1)).sample(Rng.seeded(1))
        0
        """
        if size is not None:
            return self._many(rng, size)
        total = int(self.ends[-1])
        while True:
            point = rng.below(total)
            place = int(np.searchsorted(self.ends, point, side="right"))
            if self._accept(place, point, rng):
                return place

    def _many(self, rng: Rng, size: int) -> Integers:
        total = int(self.ends[-1])
        drop = np.uint64(64 - (total - 1).bit_length()) if total > 1 else np.uint64(63)
        out = np.empty(size, dtype=np.int64)
        done = 0
        while done < size:
            points = (rng.words(size - done, np.uint64) >> drop).astype(np.int64)
            points = points[points < total]
            places = np.searchsorted(self.ends, points, side="right")
            offsets = points - np.where(places > 0, self.ends[places - 1], 0)
            accepted = offsets < self.sure[places]
            for i in np.flatnonzero(~accepted).tolist():
                accepted[i] = self._accept(int(places[i]), int(points[i]), rng)
            places = places[accepted]
            out[done : done + len(places)] = places
            done += len(places)
        return out

    def _accept(self, place: int, point: int, rng: Rng) -> bool:
        """Return whether a point in the cell of `place` is below its exact share."""
        offset = point - int(self.ends[place - 1]) if place else point
        return offset < int(self.sure[place]) or bernoulli(self._coin(place, offset), rng)

    def _coin(self, place: int, offset: int) -> CertifiedProbability:
        """Return x_i - offset, cut to [0, 1], by certified bounds."""
        gamma = self.rate * int(self.gaps[place])
        weight = Fraction(1 if self.weights is None else int(self.weights[place])) * Fraction(2) ** self.shift
        over = Decimal(weight.numerator)
        under = Decimal(weight.denominator)
        start = Decimal(offset)

        def bounds(precision: int) -> tuple[Decimal, Decimal]:
            down, up = rounding_contexts(precision + 20)
            lower, upper = exp_bounds(gamma, precision + 20)
            low = down.subtract(down.divide(down.multiply(lower, over), under), start)
            high = up.subtract(up.divide(up.multiply(upper, over), under), start)
            return min(max(low, _ZERO), _ONE), min(max(high, _ZERO), _ONE)

        return CertifiedProbability.certify(bounds)


def fill_urn(gaps: Integers, *, rate: Fraction, weights: Sequence[int] | Integers | None = None) -> Urn:
    """Return the urn of the law P(i) proportional to weight_i exp(-rate gap_i).

    `gaps` is an array of whole numbers of at least 0, int64 below 2^63 or Python ints of any size (`whole_numbers` makes
    one); `rate` a Fraction above 0; `weights` whole numbers of at least 0, below 2^4096 and not
    all 0, or None for all alike. A candidate of weight 0 is never drawn. One pass of NumPy, whatever the values; a
    million candidates take some tens of milliseconds.

    Raises DeclarationError for anything else.

    >>> fill_urn(np.array([0, 3]), rate=Fraction(1, 2), weights=[0, 2**60]).sample(Rng.seeded(1))
    1
    """
    speed = as_fraction(rate, "rate")
    if speed <= 0:
        raise DeclarationError(f"rate must be above 0, not {speed}")
    if len(gaps) == 0:
        raise DeclarationError("there must be at least one candidate")
    counted = None if weights is None else _weights(weights, len(gaps))
    least = gaps.min() if counted is None else gaps[counted > 0].min()
    # Only differences matter; a candidate of weight 0 may fall below.
    if least:
        gaps = np.maximum(gaps - least, 0)
    shares, lift = _shares(gaps, speed, counted)
    scale = _TICKET_BITS - math.frexp(float(shares.sum()))[1]
    exact = np.ldexp(shares, scale)
    tickets = np.floor(exact * (1 + _PAD)).astype(np.int64) + 1
    sure = np.floor(exact * (1 - _PAD)).astype(np.int64)
    if counted is not None:
        tickets[counted == 0] = 0
    return Urn(gaps, counted, speed, scale - lift, np.cumsum(tickets), sure)


def flip_coins(gaps: Integers, *, rate: Fraction, rng: Rng) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return independent coins, coin i heads with probability exactly exp(-rate gap_i); a gap of 0 is always heads.

    63 bits of each uniform decide all but about one coin in 2^31, which is settled by certified bounds and, if
    need be, more bits (`bernoulli`). Arguments as for `fill_urn`.

    >>> flip_coins(np.array([0, 0, 10**18]), rate=Fraction(1), rng=Rng.seeded(1)).tolist()
    [True, True, False]
    """
    exact = np.ldexp(_powers(gaps, rate), _COIN_BITS)
    most = np.floor(np.minimum(exact * (1 + _PAD), 2.0**_COIN_BITS)).astype(np.uint64) + np.uint64(1)
    least = np.floor(exact * (1 - _PAD)).astype(np.uint64)
    words = rng.words(len(gaps), np.uint64) >> np.uint64(64 - _COIN_BITS)
    heads = (words < least) | (gaps == 0)
    for i in np.flatnonzero(~heads & (words < most)).tolist():
        coin = CertifiedProbability.exp_minus(rate * int(gaps[i]))
        word = int(words[i])
        cut = coin.digits(_COIN_BITS)
        heads[i] = word < cut if word != cut else settle(coin, known=_COIN_BITS, rng=rng)
    return np.asarray(heads, dtype=np.bool_)


def whole_numbers(values: Sequence[int] | Integers, name: str) -> Integers:
    """Return whole numbers as an int64 array where all and their differences fit, else as an array of Python ints.

    Raises DeclarationError, without a value, where one is no whole number.

    >>> whole_numbers([1, 2**70], "scores").dtype
    dtype('O')
    """
    try:
        array = np.asarray(values)
    # The rows are of unequal length.
    except ValueError:
        raise DeclarationError(f"{name} must be one row of whole numbers") from None
    if array.ndim != 1:
        raise DeclarationError(f"{name} must be one row of whole numbers")
    if array.size == 0:
        return np.zeros(0, dtype=np.int64)
    if array.dtype.kind in "iu" and int(array.min()) > -_WIDE and int(array.max()) < _WIDE:
        return array.astype(np.int64, copy=False)
    # NumPy makes floats of [2**63, -1]: look at the items themselves.
    if array.dtype.kind not in "iu":
        items = values.tolist() if isinstance(values, np.ndarray) else values
        if not all(isinstance(v, int | np.integer) and not isinstance(v, bool) for v in items):
            raise DeclarationError(f"{name} must be whole numbers")
        array = np.array([None, *(int(v) for v in items)], dtype=object)[1:]
    wide = array.astype(object)
    return wide if min(wide) <= -_WIDE or max(wide) >= _WIDE else wide.astype(np.int64)


def _weights(weights: Sequence[int] | Integers, count: int) -> Integers:
    """Check weights: one a candidate, none negative, one above 0."""
    counted = whole_numbers(weights, "weights")
    if len(counted) != count:
        raise DeclarationError("weights must be as many as the candidates")
    if counted.min() < 0 or counted.max() == 0:
        raise DeclarationError("weights must be at least 0, and one of them above 0")
    if int(counted.max()).bit_length() > _WEIGHT_BITS:
        raise DeclarationError(f"weights must be below 2^{_WEIGHT_BITS}")
    return counted


def _shares(gaps: Integers, rate: Fraction, weights: Integers | None) -> tuple[Floats, int]:
    """Return weight_i exp(-rate gap_i) 2^-lift within the pad, or below 2^-70 of the sum and wrong; and lift."""
    # A gap of 0 has a weight of at least 1, so the sum is at least 1.
    if weights is None or weights.dtype != object:
        powers = _powers(gaps, rate)
        return (powers if weights is None else powers * weights), 0
    logs = np.array([math.log2(w) if w else -math.inf for w in weights.tolist()])
    logs -= _exponents(gaps, rate) * math.log2(math.e)
    lift = math.floor(logs.max())
    return np.exp2(logs - lift), lift


def _powers(gaps: Integers, rate: Fraction) -> Floats:
    """Return exp(-rate gap), within the pad, or below 1e-300 and wrong."""
    with np.errstate(under="ignore"):
        return np.exp(-_exponents(gaps, rate))


def _exponents(gaps: Integers, rate: Fraction) -> Floats:
    """Return rate gap within 4 units in the last place, or at least `_FAR` where it is that large."""
    if gaps.dtype != object and 2.0**-900 < rate < 2.0**900:
        return np.minimum(gaps * float(rate), _FAR)
    far = math.ceil(int(_FAR) / rate)
    over = rate.numerator
    under = rate.denominator
    return np.array([_FAR if g >= far else g * over / under for g in gaps.tolist()], dtype=np.float64)
