"""A Markov random field over a junction tree, and its fit to noisy marginals: soft raking by block dual ascent.

Knows released numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sordino.synth.encoded_column import Floats
from sordino.synth.junction_tree import JunctionTree, Link

# The least softness of a table, in shares of the rows: below it the fit's steps would no longer be exact, and nothing would be
# gained.
HARDEST = 2e-8
# The most that one update, and all together, may move the log of a cell.
_STEP = 4.0
_FARTHEST = 25.0
_TINY = 1e-250


@dataclass(slots=True)
class Factor:
    """A noisy table of counts over `columns` (ascending), the softness lam = c sigma^2 of each cell, and its potential."""

    columns: tuple[int, ...]
    counts: Floats
    softness: Floats | float
    theta: Floats


@dataclass(slots=True)
class MarkovRandomField:
    """A table of expected counts a clique, and one a link for its separator; all agree once calibrated."""

    tree: JunctionTree
    tables: list[Floats]
    separators: list[Floats]


def independent_field(tree: JunctionTree, one_way: Sequence[Floats], total: float) -> MarkovRandomField:
    """Return the model in which columns are independent, with these one-way counts."""
    shares = [w / max(float(w.sum()), _TINY) for w in one_way]

    def product(columns: Sequence[int]) -> Floats:
        table: Floats = np.array(total, dtype=np.float64)
        for c in columns:
            table = np.multiply.outer(table, shares[c])
        return table

    return MarkovRandomField(tree, [product(c) for c in tree.cliques], [product(link.separator) for link in tree.links])


def marginal(table: Floats, axes: Sequence[int], wanted: Sequence[int]) -> Floats:
    """Return the sums of a table with these axes over all but the columns `wanted`; both ascending.

    Dropped axes at both ends go first, flattened: those sums are several times faster than sums over several axes.
    """
    kept = [i for i, c in enumerate(axes) if c in wanted]
    if len(kept) == len(axes):
        return table
    if not kept:
        return np.array(float(table.sum()))
    shape = table.shape
    flat = table
    if kept[-1] < len(axes) - 1:
        width = math.prod(shape[kept[-1] + 1 :])
        flat = np.einsum("ij->i", flat.reshape(-1, width))
    if kept[0] > 0:
        width = math.prod(shape[: kept[0]])
        flat = np.einsum("ij->j", flat.reshape(width, -1))
    middle = range(kept[0], kept[-1] + 1)
    flat = flat.reshape([shape[i] for i in middle])
    dropped = tuple(i - kept[0] for i in middle if i not in kept)
    sums: Floats = flat.sum(axis=dropped) if dropped else flat
    return sums


def column_counts(field: MarkovRandomField, sizes: Sequence[int]) -> list[Floats]:
    """Return the field's counts of each column's codes."""
    homes = [field.tree.require_home((c,), sizes) for c in range(len(sizes))]
    return [marginal(field.tables[home], field.tree.cliques[home], (c,)) for c, home in enumerate(homes)]


def wright_omega(x: Floats) -> Floats:
    """Return w > 0 with w + ln w = x, by Newton steps on ln w; within 1e-12 relative for x in [-700, 1e8].

    >>> round(float(wright_omega(np.array([1.0]))[0]), 12)
    1.0
    """
    at = np.clip(x, -700.0, None)
    log = np.where(at > 1.0, np.log(np.maximum(at, 1.0)), np.minimum(at, 1.0) - np.exp(np.minimum(at, 0.0)) * 0.4)
    # v + e^v = x is convex in v = ln w, so Newton's steps from either side converge quadratically.
    for _ in range(5):
        grown = np.exp(log)
        log = log - (log + grown - at) / (1.0 + grown)
    omega: Floats = np.exp(log)
    return omega


def calibrate(field: MarkovRandomField, factors: Sequence[Factor], sizes: Sequence[int], *, sweeps: int) -> None:
    """Fit the field, in place, to the measurements.

    Maximises the dual of  c KL(mu || product) + sum_m ||A_m mu - y_m||^2 / (2 sigma_m^2)  over the distributions of the
    tree, one block theta_m at a time: with lam = c sigma^2, z = y / lam - theta and the marginal p of mu, the step D
    solves D + (p / lam) e^D = z, so D = z - omega(z + ln(p / lam)) (Corless & Jeffrey 2002, the Wright omega function).
    With lam near 0 it is iterative proportional fitting (Deming & Stephan 1940). Negative y are as good as others.
    """
    at_home: list[list[Factor]] = [[] for _ in field.tree.cliques]
    for factor in factors:
        at_home[field.tree.require_home(factor.columns, sizes)].append(factor)
    below = field.tree.below
    for _ in range(sweeps):
        _sweep(field, at_home, below)
    # What the root learned last goes to all.
    for i, link in enumerate(field.tree.links):
        _send(field, i, link, up=False)


def _sweep(field: MarkovRandomField, at_home: list[list[Factor]], below: list[list[int]]) -> None:
    """Walk the tree once: update each clique's tables on the way down and on the way up."""
    stack: list[tuple[int, int, bool]] = [(0, -1, False)]
    while stack:
        clique, link, done = stack.pop()
        if done:
            for one in at_home[clique]:
                _update(field, clique, one)
            if link >= 0:
                _send(field, link, field.tree.links[link], up=True)
            continue
        if link >= 0:
            _send(field, link, field.tree.links[link], up=False)
        for one in at_home[clique]:
            _update(field, clique, one)
        stack.append((clique, link, True))
        stack += [(field.tree.links[i].child, i, False) for i in reversed(below[clique])]


def _send(field: MarkovRandomField, index: int, link: Link, *, up: bool) -> None:
    """Make the clique at one end of a link agree with the other on what they share."""
    source, target = (link.child, link.parent) if up else (link.parent, link.child)
    new = marginal(field.tables[source], field.tree.cliques[source], link.separator)
    old = field.separators[index]
    ratio = np.divide(new, old, out=np.zeros_like(new), where=old > _TINY)
    field.tables[target] *= spread(ratio, link.separator, field.tree.cliques[target])
    field.separators[index] = new


def _update(field: MarkovRandomField, clique: int, one: Factor) -> None:
    table = field.tables[clique]
    columns = field.tree.cliques[clique]
    now = marginal(table, columns, one.columns)
    goal = one.counts / one.softness - one.theta
    step = goal - wright_omega(goal + np.log(np.maximum(now, _TINY) / one.softness))
    step = np.clip(step, -_STEP, _STEP)
    moved = np.clip(one.theta + step, -_FARTHEST, _FARTHEST)
    step = moved - one.theta
    one.theta = moved
    table *= spread(np.exp(step), one.columns, columns)


def spread(values: Floats, axes: Sequence[int], columns: Sequence[int]) -> Floats:
    """Return values over `axes` shaped to multiply a table over `columns`."""
    shape = iter(values.shape)
    return values.reshape([next(shape) if c in axes else 1 for c in columns])


def restart(field: MarkovRandomField, factors: Sequence[Factor], sizes: Sequence[int]) -> None:
    """Multiply a product model, in place, by the potentials kept from an earlier tree, and make it agree again."""
    for factor in factors:
        home = field.tree.home(factor.columns, sizes)
        if home is not None and np.any(factor.theta):
            field.tables[home] *= spread(np.exp(factor.theta), factor.columns, field.tree.cliques[home])
    make_consistent(field)


def make_consistent(field: MarkovRandomField) -> None:
    """Make all tables agree, in place, on what they share: messages up the tree and down again."""
    links = list(enumerate(field.tree.links))
    for i, link in reversed(links):
        _send(field, i, link, up=True)
    for i, link in links:
        _send(field, i, link, up=False)
