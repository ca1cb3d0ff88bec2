"""Finite fields of small order as tables: sums, products, negatives and inverses of elements by their numbers.

It may not know protocols.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

__all__ = ["FiniteField", "finite_field", "is_prime_power"]

Table = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True, eq=False)
class FiniteField:
    """Hold the field of p^e elements: number a is the polynomial whose coefficients are the digits of a in base p.

    `dual[a]` has the digits w with Tr(a b) = w . b modulo p for every b, Tr(x) = x + x^p + ... + x^(p^(e-1)): a character
    of a product is one of digits.
    """

    order: int
    add: Table
    product: Table
    negative: Table
    inverse: Table
    dual: Table

    @property
    def characteristic(self) -> int:
        """p."""
        return _characteristic(self.order)

    @property
    def degree(self) -> int:
        """e."""
        return _degree(self.order)

    def dot(self, here: Table, there: Table) -> Table:
        """Return the inner products of rows of elements."""
        terms = self.product[here, there]
        total = terms[:, 0]
        for place in range(1, terms.shape[1]):
            total = self.add[total, terms[:, place]]
        return total


@lru_cache(maxsize=1024)
def is_prime_power(order: int) -> bool:
    """Return whether there is a field of so many elements.

    >>> [n for n in range(2, 20) if is_prime_power(n)]
    [2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19]
    """
    return order > 1 and _characteristic(order) ** _degree(order) == order


@lru_cache(maxsize=32)
def finite_field(order: int) -> FiniteField:
    """Return the field of `order` elements, a prime power.

    Its products are made from the powers of x modulo the first monic polynomial for which they run through all elements
    but 0; such a polynomial (a primitive one) exists in every degree, and makes the quotient a field.

    >>> field = finite_field(4)
    >>> int(field.product[2, 3]), int(field.add[2, 3])
    (1, 1)
    """
    p, e = _characteristic(order), _degree(order)
    places = p ** np.arange(e)
    digits = np.arange(order)[:, None] // places[None, :] % p
    powers = next(found for low in product(range(p), repeat=e) if len(found := _powers(low, p)) == order - 1)
    logs = np.zeros(order, dtype=np.int64)
    logs[powers] = np.arange(order - 1)
    products = np.array(powers, dtype=np.int64)[(logs[:, None] + logs[None, :]) % (order - 1)]
    products[0, :] = products[:, 0] = 0
    inverse = np.array(powers, dtype=np.int64)[-logs % (order - 1)]
    inverse[0] = 0
    traces = [
        (digits[[int(powers[i * p**j % (order - 1)]) for j in range(e)]].sum(axis=0) % p)[0] for i in range(order - 1)
    ]
    trace = np.zeros(order, dtype=np.int64)
    trace[powers] = traces
    return FiniteField(
        order,
        add=((digits[:, None, :] + digits[None, :, :]) % p) @ places,
        product=products,
        negative=(-digits % p) @ places,
        inverse=inverse,
        dual=trace[products[:, places]] @ places,
    )


def _powers(low: tuple[int, ...], p: int) -> list[int]:
    """Return the powers of x from 1 on, until they repeat or vanish, modulo x^e + low; elements as numbers."""
    e = len(low)
    one = (1,) + (0,) * (e - 1)
    element, out = one, []
    while True:
        out.append(sum(c * p**i for i, c in enumerate(element)))
        top = element[-1]
        shifted = (0, *element[:-1])
        element = tuple((c - top * m) % p for c, m in zip(shifted, low, strict=True))
        if element == one or len(out) >= p**e or not any(element):
            return out


def _characteristic(order: int) -> int:
    """Return the least prime factor."""
    return next((p for p in range(2, int(order**0.5) + 1) if order % p == 0), order)


def _degree(order: int) -> int:
    p, e = _characteristic(order), 0
    while order % p == 0:
        order, e = order // p, e + 1
    return e
