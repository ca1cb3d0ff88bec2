"""Drawing rows from a junction tree of tables: ancestral, with randomised rounding. Knows released numbers only.

Rows are drawn clique by clique. Within each configuration of the separator, rows are put in the order of other columns and
given evenly spread quantiles, so that every margin is met to within a row or so: the noise of sampling is far below that of
independent draws. Each sixteen rows have one quantile in each sixteenth, each 256 one in each 256th, and which row has which
is drawn anew for each of them in each step. Quantiles that follow from a row's place, frac(i alpha + U) handed out at random
among sixteen rows, would tie columns to each other that are independent in the model: two steps whose 16 alpha are near the
same whole number apart move together. `independent` asks for independent draws.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from sordino.core.noise.rng import Rng
from sordino.synth.encoded_column import Codes, Floats
from sordino.synth.markov_random_field import MarkovRandomField

# Rows are put in the order of at most so many other columns.
_ORDERED_BY = 6
_KEY_BITS = 62
# Rows that have one quantile in each of as many parts, handed out at random; and so have as many such blocks together.
_BLOCK = 16


def spacings() -> Iterator[float]:
    """Yield frac(sqrt(p)) for the primes p: no two are related by a rational, so no two steps move together."""
    primes: list[int] = []
    candidate = 2
    while True:
        if all(candidate % p for p in primes if p * p <= candidate):
            primes.append(candidate)
            yield math.sqrt(candidate) % 1.0
        candidate += 1


def draw_codes(
    field: MarkovRandomField,
    sizes: Sequence[int],
    *,
    rows: int,
    alphas: Iterator[float],
    rng: Rng,
    independent: bool = False,
) -> list[Codes]:
    """Return the code of each of `rows` rows in each column, drawn from the tables of the tree."""
    columns: dict[int, Codes] = {}
    for clique in [0, *(link.child for link in field.tree.links)]:
        members = field.tree.cliques[clique]
        # The columns drawn already are the separator, by the running intersection property.
        known = [c for c in members if c in columns]
        fresh = [c for c in members if c not in columns]
        if not fresh:
            continue
        table = field.tables[clique].transpose([members.index(c) for c in (*known, *fresh)])
        weights = table.reshape(math.prod(sizes[c] for c in known), -1)
        group = np.zeros(rows, dtype=np.int64)
        for c in known:
            group = group * sizes[c] + columns[c]
        others = sorted((c for c in columns if c not in known), key=lambda c: (-sizes[c], c))
        order = [(columns[c], sizes[c]) for c in others[:_ORDERED_BY]]
        cell = draw_within(weights, group, order, alpha=next(alphas), rng=rng, independent=independent)
        for c in reversed(fresh):
            cell, columns[c] = np.divmod(cell, sizes[c])
    return [columns[c] for c in range(len(sizes))]


def draw_within(
    weights: Floats,
    group: Codes,
    order: Sequence[tuple[Codes, int]],
    *,
    alpha: float,
    rng: Rng,
    independent: bool = False,
) -> Codes:
    """Return for each row a cell of `weights[group]`, by evenly spread quantiles over the rows in order.

    With `independent`, each row has a uniform quantile of its own, so the counts of a group's cells are multinomial. A group
    whose weights are all zero is drawn from the sum over all groups.
    """
    rows = len(group)
    groups, cells = weights.shape
    rising = np.cumsum(weights, axis=1)
    empty = rising[:, -1] <= 0
    if empty.any():
        overall = np.cumsum(weights.sum(axis=0))
        rising[empty] = overall if overall[-1] > 0 else np.arange(1.0, cells + 1)
    rising /= rising[:, -1:]
    rising[:, -1] = 1.0
    rising += np.arange(groups, dtype=np.float64)[:, None]
    if independent:
        place = np.arange(rows)
        quantile = rng.uniform_doubles(rows)
    else:
        place = _sort_rows(group, groups, order, rng)
        quantile = _spread_quantiles(rows, alpha, rng)
    sorted_group = group[place]
    positions = np.searchsorted(rising.ravel(), sorted_group + quantile, side="right") - sorted_group * cells
    cells_drawn = np.empty(rows, dtype=np.int64)
    cells_drawn[place] = np.clip(positions, 0, cells - 1)
    return cells_drawn


def _spread_quantiles(rows: int, alpha: float, rng: Rng) -> Floats:
    """Return a quantile for each place: one in each sixteenth for sixteen rows, one in each 256th for 256, in random order.

    Owen's nested scrambling (1995) in base 16, with permutations of their own for each block and, within 256 rows, for each
    sixteenth: so two steps over rows in the same order are as if drawn independently. Where the quantiles of 256 rows
    lie in their parts rises by `alpha` from one to the next.
    """
    blocks = -(-rows // _BLOCK)
    spans = -(-blocks // _BLOCK)
    first = _random_orders(blocks, rng)
    # the order of the sixteen blocks within each sixteenth of each 256 rows
    second = _random_orders(spans * _BLOCK, rng).reshape(spans, _BLOCK, _BLOCK)
    block = np.arange(blocks)
    within = second[(block // _BLOCK)[:, None], first, (block % _BLOCK)[:, None]]
    start = float(rng.uniform_doubles(1)[0])
    shift = (np.arange(spans) * alpha + start) % 1.0
    quantiles: Floats = (first + (within + np.repeat(shift, _BLOCK)[:blocks, None]) / _BLOCK) / _BLOCK
    return quantiles.ravel()[:rows]


def _random_orders(count: int, rng: Rng) -> Codes:
    """Return 0 to 15 in random order, `count` times: a sort of random words whose last bits are the place."""
    words = rng.words(count * _BLOCK, np.uint16).reshape(count, _BLOCK) & np.uint16(0xFFFF ^ (_BLOCK - 1))
    words |= np.arange(_BLOCK, dtype=np.uint16)
    words.sort(axis=1)
    words &= np.uint16(_BLOCK - 1)
    return words.astype(np.int64)


def _sort_rows(group: Codes, groups: int, order: Sequence[tuple[Codes, int]], rng: Rng) -> Codes:
    """Return the rows sorted by group, then by the other columns, then at random: one sort of 64-bit keys.

    The low bits of a key hold the row itself, so the keys are sorted in place of an argsort, which takes twice as long.
    """
    rows = len(group)
    index_bits = max(1, (rows - 1).bit_length())
    key = group
    bits = max(1, groups - 1).bit_length()
    for codes, size in order:
        wide = max(1, size - 1).bit_length()
        if bits + wide + index_bits > _KEY_BITS:
            break
        key = (key << wide) | codes
        bits += wide
    spare = min(_KEY_BITS - bits - index_bits, 8)
    if spare > 0:
        key = (key << spare) | (rng.words(rows, np.uint8) >> np.uint8(8 - spare))
    key = (key << index_bits) | np.arange(rows, dtype=np.int64)
    key.sort()
    key &= (1 << index_bits) - 1
    return key
