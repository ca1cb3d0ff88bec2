"""What to measure of an ordered axis so that counts over any range of its keys have little error.

Cells of an ordered axis are measured by the identity only where single cells are wanted: a range of n cells then has n times
the variance of one. A basis of other combinations of cells, in whole numbers, has nearly the least error over all ranges.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.core.neighbors import Relation

Array = np.ndarray[Any, np.dtype[Any]]
Floats = np.ndarray[Any, np.dtype[np.float64]]

# Coefficients are whole multiples of 1 / _FINE of the largest column's length.
_FINE = 256
# Up to this many keys the optimum is searched; beyond, the start is taken, which is 6% above it.
_SEARCHED = 128
_ROUNDS = 60
_GAP = 2e-3
_MOST_KEYS = 1_024


@dataclass(frozen=True, eq=False)
class RangeBasis:
    """Whole coefficients, one row a measurement and one column a key; each row sums to 0.

    `covariance` is that of the estimates of the cells without their mean, where each measurement has noise of variance 1:
    the pseudoinverse of coefficients' coefficients. `inverse` takes measurements to these estimates.
    """

    coefficients: Array
    inverse: Floats
    covariance: Floats

    @property
    def keys(self) -> int:
        """The number of keys of the axis."""
        return int(self.coefficients.shape[1])

    @functools.cached_property
    def length_squared(self) -> int:
        """The largest squared length of a column: how far one row moves the measurements of this axis alone."""
        return int((self.coefficients**2).sum(axis=0).max())

    @functools.cached_property
    def length_l1(self) -> int:
        """The largest sum of absolute values of a column."""
        return int(np.abs(self.coefficients).sum(axis=0).max())

    @functools.cached_property
    def least_product(self) -> int:
        """The least inner product of two columns."""
        return int((self.coefficients.T @ self.coefficients).min())


@functools.lru_cache(maxsize=64)
def find_range_basis(keys: int) -> RangeBasis:
    """Return a basis whose mean variance over all ranges of an ordered axis is nearly the least for Gaussian noise.

    The least of trace(V X^-1) over X with a diagonal of at most 1, X = A'A for the coefficients A and V the mean of all
    ranges' outer products, both on vectors that sum to 0 (Li, Hay, Miklau et al. 2010; Yuan, Yang, Zhang, Hao 2016). Its dual
    has the closed form X = L^-1/2 (L^1/2 V L^1/2)^1/2 L^-1/2, L the diagonal of multipliers; these are scaled by the diagonal
    of X until bound and value agree within 1 in 500. The root of X is then rounded to whole numbers, whose own variances are
    stated and whose own columns are the sensitivity, so rounding costs accuracy only. Raises DeclarationError beyond 1,024
    keys.

    >>> basis = find_range_basis(100)
    >>> round(float(basis.covariance[10:60, 10:60].sum()) * basis.length_squared, 1)
    5.2
    """
    if not 1 <= keys <= _MOST_KEYS:
        raise DeclarationError(f"an ordered axis measured for ranges has at most {_MOST_KEYS:,} keys, not {keys:,}")
    if keys == 1:
        return RangeBasis(np.zeros((1, 1), dtype=np.int64), np.zeros((1, 1)), np.zeros((1, 1)))
    wanted = _center(range_products(keys))
    # With equal multipliers X is the root of V; they are scaled by the diagonal of X until value and bound agree.
    gram = _roots(wanted)[0]
    multipliers = np.full(keys, 1.0 / keys)
    best = gram / np.diag(gram).max()
    least = math.inf
    bound = 0.0
    for _ in range(_ROUNDS if keys <= _SEARCHED else 0):
        root, inverse_root = _roots(_center(np.diag(multipliers)))
        middle = _roots(root @ wanted @ root)[0]
        gram = inverse_root @ middle @ inverse_root
        diagonal = np.diag(gram)
        value = float((wanted * _roots(gram, power=-1.0)[0]).sum() * diagonal.max())
        bound = max(bound, float(np.trace(middle)) ** 2)
        if value < least:
            least = value
            best = gram / diagonal.max()
        if least <= bound * (1 + _GAP):
            break
        multipliers = multipliers * diagonal
        multipliers /= multipliers.sum()
    return _round_basis(_roots(best)[0])


@functools.lru_cache(maxsize=64)
def find_cell_basis(keys: int) -> RangeBasis:
    """Return the basis of single keys, which Laplace noise measures: a range of n of them has n times the variance of one.

    What a row moves is counted by the sum of absolute values there, and another basis pays for it beyond single keys: of a
    tree of two levels, the best that is known of its kind, ranges have less error from some 50 keys on, a third less variance
    at 100 keys, where its single keys have 2.6 times as much (Qardaji, Yang, Li 2013).

    >>> round(float(find_cell_basis(10).covariance[2:7, 2:7].sum()), 6)
    2.5
    """
    centered = _center(np.eye(keys))
    return RangeBasis(np.eye(keys, dtype=np.int64), centered, centered)


def range_products(keys: int) -> Floats:
    """Return the mean over all ranges of the outer product of a range with itself: entry i, j counts ranges with both."""
    places = np.arange(keys)
    before = np.minimum.outer(places, places) + 1
    after = keys - np.maximum.outer(places, places)
    products: Floats = before * after / (keys * (keys + 1) / 2)
    return products


def _center(matrix: Floats) -> Floats:
    """Return a symmetric matrix on vectors that sum to 0: without its mean along each axis."""
    rows = matrix - matrix.mean(axis=0)
    return np.asarray(rows - rows.mean(axis=1)[:, None])


def _roots(matrix: Floats, power: float = 0.5) -> tuple[Floats, Floats]:
    """Return a power of a symmetric matrix without negative eigenvalues, and the pseudoinverse of that."""
    values, vectors = np.linalg.eigh(matrix)
    positive = values > values.max() * 1e-12
    powers = np.where(positive, np.where(positive, values, 1.0) ** power, 0.0)
    inverse = np.where(positive, np.where(positive, values, 1.0) ** -power, 0.0)
    return (vectors * powers) @ vectors.T, (vectors * inverse) @ vectors.T


def _round_basis(root: Floats) -> RangeBasis:
    """Return whole coefficients near a multiple of a matrix whose rows sum to 0; theirs do too, by largest remainders."""
    scaled = root * (_FINE / math.sqrt(float((root**2).sum(axis=0).max())))
    whole = np.floor(scaled).astype(np.int64)
    # Remainders of a row sum to a whole number: as many of the largest are rounded up.
    order = np.argsort(np.argsort(whole - scaled, axis=1, kind="stable"), axis=1)
    whole += order < -whole.sum(axis=1)[:, None]
    coefficients = whole.astype(np.float64)
    covariance = _roots(coefficients.T @ coefficients, power=-1.0)[0]
    return RangeBasis(whole, covariance @ coefficients.T, covariance)


def basis_counts(marginal: Array, bases: Sequence[RangeBasis | None]) -> Array:
    """Return the measurements of a marginal: the coefficients of a basis on its axis, m I - J where there is none.

    int64, or Python's integers where these could overflow.
    """
    factor = 1
    for size, basis in zip(marginal.shape, bases, strict=True):
        factor *= 2 * size if basis is None else basis.length_l1
    top = max((abs(int(cell)) for cell in (marginal.max(initial=0), marginal.min(initial=0))), default=0)
    measured = marginal.astype(object if top * max(marginal.size, 1) * factor >= 2**62 else np.int64)
    for axis, (size, basis) in enumerate(zip(marginal.shape, bases, strict=True)):
        if basis is None:
            measured = size * measured - measured.sum(axis=axis, keepdims=True)
        else:
            measured = np.moveaxis(np.tensordot(basis.coefficients, measured, axes=(1, axis)), 0, axis)
    return measured


def basis_sensitivity(
    sizes_of_axes: Sequence[int], bases: Sequence[RangeBasis | None], *, relation: Relation, rows: int
) -> tuple[Fraction, Fraction]:
    """Return bounds of the l1 norm and of the squared l2 norm of what one unit moves in `basis_counts`.

    Theorem. As in `residual_sensitivity`, the largest change is that of all rows in one cell, or moved from one cell to
    another. A cell's column is a product of columns of the axes, so its norms are products, at most the product of each
    axis's largest; under "replace" |x - y|^2 = |x|^2 + |y|^2 - 2 <x, y>, where <x, y> is a product of inner products of
    columns, at least the least product of numbers between each axis's least and largest.

    >>> basis_sensitivity((2, 3), (None, None), relation="replace", rows=1)
    (Fraction(16, 1), Fraction(48, 1))
    """
    if rows < 1:
        raise DeclarationError("rows must be at least 1: the most rows of one unit")
    l1 = 1
    most = 1
    products = (1, 1)
    for size, basis in zip(sizes_of_axes, bases, strict=True):
        l1 *= 2 * (size - 1) if basis is None else basis.length_l1
        ends = (-size if size > 1 else 0, size * (size - 1))
        if basis is not None:
            ends = (basis.least_product, basis.length_squared)
        most *= ends[1]
        corners = [one * other for one in products for other in ends]
        products = (min(corners), max(corners))
    if relation == "add_remove":
        return Fraction(rows * l1), Fraction(rows**2 * most)
    # A total has the product 1 with itself: it moves where rows drop out.
    pair = max(2 * most - 2 * products[0], most)
    return Fraction(2 * rows * l1 if len(sizes_of_axes) else rows), Fraction(rows**2 * pair)


def basis_factors(basis: RangeBasis) -> tuple[float, float]:
    """Return the mean over all ranges of the variance within a basis of squared length 1, and of the squared mean weight."""
    products = range_products(basis.keys)
    inside = float((products * basis.covariance).sum()) * basis.length_squared
    return inside, float(products.sum()) / basis.keys**2
