"""Residuals of a marginal in whole numbers: what its cells say beyond its own margins, and how far a unit moves them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.core.neighbors import Relation
from sordino.tables.strategy import Axes, subsets

Array = np.ndarray[Any, np.dtype[Any]]

# Patterns of axes, times residuals, that are tried one by one for the joint bound; beyond, each counts at its worst.
_PATTERNS = 2**23


def residual_counts(marginal: Array) -> Array:
    """Return (m I - J) on each axis of a marginal, m the number of keys of the axis and J the matrix of ones.

    The answer has the shape of the marginal, and is product(m) times the part of the marginal that none of its margins
    holds: it sums to 0 along each axis. It is int64, or Python's integers where these could overflow.

    >>> residual_counts(np.array([[3, 1], [0, 0]])).tolist()
    [[2, -2], [-2, 2]]
    """
    factor = math.prod(2 * size for size in marginal.shape)
    # Sums of absolute values in Python's integers, since an int64 sum could overflow itself.
    largest = int(np.abs(marginal.astype(object)).sum()) if marginal.dtype == object else None
    if largest is None:
        top = max(abs(int(marginal.max(initial=0))), abs(int(marginal.min(initial=0))))
        largest = top * max(marginal.size, 1)
    residual = marginal.astype(object if largest * factor >= 2**62 else np.int64)
    for axis, size in enumerate(marginal.shape):
        residual = size * residual - residual.sum(axis=axis, keepdims=True)
    return residual


def residual_scale(sizes_of_axes: Sequence[int]) -> int:
    """Return the steps of `residual_counts` in one row: the product of the sizes."""
    return math.prod(sizes_of_axes)


def residual_sensitivity(sizes_of_axes: Sequence[int], *, relation: Relation, rows: int) -> tuple[Fraction, Fraction]:
    """Return the largest l1 norm, and the largest squared l2 norm, of what one unit moves in `residual_counts`.

    A unit has at most `rows` rows, all of which may be in one cell. Under "replace" its rows may become any other at most
    `rows` rows.

    Theorem. A change d of the counts is u - v, u and v not negative and with sums of at most `rows`, v = 0 under
    "add_remove". Norms are convex, so their maxima over these polytopes are at vertices: u in {0, rows e_a}, v in {0, rows
    e_b} for single cells a and b. R = product of (m I - J) takes e_a to the product over axes of m - 1 where a cell agrees
    with a and -1 elsewhere, so |R e_a|_1 = product of 2(m - 1) and |R e_a|^2 = product of m(m - 1), for every a. Two cells
    that agree on the axes S have the product <R e_a, R e_b> = product over S of m(m - 1) times product over others of -m:
    it is least, among cells that differ, where an odd number of axes differ, so |R (e_a - e_b)|^2 is largest where only one
    axis with the fewest keys differs: 2 product of m(m - 1) times m'/(m' - 1). For l1, axes that agree contribute 2(m - 1)
    each, and those that differ, together, the sum over cells of the difference of two products, found by going through the
    patterns of differing axes.

    >>> residual_sensitivity((2, 3), relation="add_remove", rows=1)
    (Fraction(8, 1), Fraction(12, 1))
    >>> residual_sensitivity((2, 3), relation="replace", rows=1)
    (Fraction(16, 1), Fraction(48, 1))
    """
    _check_rows(rows)
    sizes = tuple(sizes_of_axes)
    one_l1 = math.prod(2 * (size - 1) for size in sizes)
    one_l2 = math.prod(size * (size - 1) for size in sizes)
    if relation == "add_remove" or not sizes:
        return Fraction(rows * one_l1), Fraction(rows**2 * one_l2)
    if min(sizes) == 1:
        return Fraction(0), Fraction(0)
    least = min(sizes)
    pair_l2 = Fraction(2 * one_l2 * least, least - 1)
    return Fraction(rows * _pair_l1(sizes)), rows**2 * pair_l2


def _pair_l1(sizes: Sequence[int]) -> int:
    """Return the largest |R (e_a - e_b)|_1 over two cells; twice that of one cell where there are many axes."""
    whole = math.prod(2 * (size - 1) for size in sizes)
    if len(sizes) > 6:
        return 2 * whole
    most = 0
    for differing in subsets(range(len(sizes))):
        if not differing:
            continue
        agreeing = math.prod(2 * (sizes[axis] - 1) for axis in range(len(sizes)) if axis not in differing)
        # One entry for each way in which a cell relates to a and b on the differing axes: values there, and how many.
        firsts = np.array([1], dtype=object)
        seconds = np.array([1], dtype=object)
        times = np.array([1], dtype=object)
        for axis in differing:
            size = sizes[axis]
            firsts = np.concatenate([firsts * (size - 1), firsts * -1, firsts * -1])
            seconds = np.concatenate([seconds * -1, seconds * (size - 1), seconds * -1])
            times = np.concatenate([times, times, times * (size - 2)])
        most = max(most, agreeing * int((np.abs(firsts - seconds) * times).sum()))
    return most


def joint_rho(
    sizes: Sequence[int],
    sigma_squared: Mapping[Axes, Fraction],
    *,
    relation: Relation,
    rows: int,
) -> Fraction:
    """Return what all residuals together cost in rho: the largest sum of |R_A d|^2 / (2 sigma_A^2) over changes d.

    `sigma_squared` has the parameter of the discrete Gaussian noise of each residual, in its own steps. Under "add_remove"
    this is the sum of the single costs. Under "replace" it is less: one pair of cells cannot be the worst for every
    residual at once, since where they agree on all axes of A nothing moves. The maximum is taken over all sets of axes on
    which two cells may agree, in floats, and rounded up; with many axes, 2^23 sets of axes
    times residuals, it is the sum of the single maxima.
    """
    _check_rows(rows)
    singles = {
        axes: residual_sensitivity([sizes[a] for a in axes], relation=relation, rows=rows)[1] for axes in sigma_squared
    }
    total = sum((singles[axes] / (2 * sigma) for axes, sigma in sigma_squared.items()), Fraction(0))
    axes_used = sorted({axis for axes in sigma_squared for axis in axes if sizes[axis] > 1})
    if relation == "add_remove" or 2 ** len(axes_used) * len(sigma_squared) > _PATTERNS:
        return total
    alone = Fraction(0)
    pairs = np.zeros(2 ** len(axes_used))
    pattern = np.arange(len(pairs))
    for axes, sigma in sigma_squared.items():
        norm = math.prod(sizes[a] * (sizes[a] - 1) for a in axes)
        cost = rows**2 * norm / (2 * sigma)
        alone += cost
        # The cosine of the residuals of two cells: 1 for an axis on which they agree, -1/(m - 1) where they differ.
        cosine = np.ones(len(pairs))
        for a in axes:
            if sizes[a] > 1:
                cosine *= np.where(pattern >> axes_used.index(a) & 1, 1.0, -1.0 / (sizes[a] - 1))
        pairs += 2 * float(cost) * (1 - cosine)
    # Relative rounding errors of at most 2^-53 for each of a few operations an entry, all terms being of one sign.
    worst = Fraction(float(pairs.max())) * (1 + Fraction(len(sigma_squared) + 100, 2**50))
    return min(total, max(worst, alone))


def _check_rows(rows: int) -> None:
    if rows < 1:
        raise DeclarationError("rows must be at least 1: the most rows of one unit")
