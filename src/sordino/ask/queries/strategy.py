"""Strategies: the fewest noisy vectors that answer all aggregates of a question together. It knows public facts alone.

A row that has x in [l, u] adds x - l to A = sum(x - l) and u - x to B = sum(u - x): u - l in all, whatever x is. So noise for
the l1 sensitivity u - l makes both private at once (Hardt, Talwar 2010; Awan, Slavkovic 2020: the ball of the row's moves is
the ball of the noise), and count = (A + B) / (u - l), sum = l count + A and their ratio, the mean, follow. The noises of A and B
are independent, so Fieller's interval of the mean stays exact. Rows in which x is missing move neither: their number, times
u - l, is a third vector that costs nothing more, and gives COUNT(*).

The same holds of any functions of a row that are not negative and have a constant sum: with a = x - l and b = u - x, a^2, 2ab
and b^2 (Bernstein's of degree 2; Alda, Rubinstein 2017) add up to (u - l)^2 and give the sums of x^2, of x and the count; and
products of the distances of x and y to their bounds give all that a covariance needs. Such functions are the cells of a
histogram to which each row belongs in part, and what is asked are linear functions of that histogram: a matrix mechanism
(Li, Miklau, Hay, McGregor, Rastogi 2015) over few strategies. Each aggregate is either answered by vectors of its own, or by
the vectors of one such block; shares of those who read a block add up. The assignment with the least sum of planned errors
(standard deviations, each over that of the aggregate by itself) is taken.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sordino.ask.queries.aggregates.sums import count_term
from sordino.ask.queries.aggregation import BoundedQuery
from sordino.ask.queries.query import Aggregate, SqlAggregate, Vector
from sordino.ask.queries.sensitivity_rules import block_sensitivity
from sordino.core.estimates.weighted_sum import Mix
from sordino.core.neighbors import Sensitivity

_ROWS = SqlAggregate("rows", None)
# up to so many aggregates, each is tried by itself
_FEW = 16
# the factors of l1 and of l2 for turned pairs: 26 / 15 is just above the root of 3
_TURNED = {False: (1, 1), True: (15, 26)}

Terms = Mapping[SqlAggregate, int]


@dataclass(frozen=True, slots=True)
class Block:
    """Vectors that get noise of one law together, how far one unit moves them together, and their share of the loss."""

    vectors: tuple[Vector, ...]
    sensitivity: Sensitivity
    share: Fraction = Fraction(0)

    @property
    def noise_sensitivity(self) -> Sensitivity:
        """How far one unit moves them, in steps; not at all where they have no share, as nobody reads them."""
        if not self.share:
            return Sensitivity(0, Fraction(0), Fraction(0), Fraction(0), self.sensitivity.because)
        return self.sensitivity.rescale(1 / self.vectors[0].unit)


@dataclass(frozen=True, slots=True)
class Reading:
    """How one aggregate is answered: its vectors, by block and place, and the rows of the mix that give its parts."""

    vectors: tuple[tuple[int, int], ...]
    mix: Mix

    @property
    def is_plain(self) -> bool:
        """Whether its vectors are its parts."""
        return self.mix == _identity(len(self.vectors))


@dataclass(frozen=True, slots=True)
class Strategy:
    """The blocks of a question and the reading of each aggregate."""

    blocks: tuple[Block, ...]
    readings: tuple[Reading, ...]


def find_strategy(
    aggregates: Sequence[Aggregate],
    bounded: BoundedQuery,
    shares: Sequence[Fraction],
    *,
    squared: bool,
) -> Strategy:
    """Return the blocks with the least planned error; `shares` are those of the aggregates, 0 for those without noise.

    `squared` says that noise follows the l2 sensitivity, as under rho, and its variance the share instead of its square.
    """
    search = _Search(aggregates, bounded, shares, squared)
    busy = [i for i, share in enumerate(shares) if share]
    unshared: list[int | None] = [None] * len(shares)
    best = unshared
    least = search.error(unshared)
    for block in sorted(range(len(search.blocks)), key=lambda b: -len(search.readers[b])):
        readers = [i for i in search.readers[block] if i in busy]
        sets = [readers, *([[i] for i in readers] if len(busy) <= _FEW else [])]
        for subset in sets:
            tried = [block if i in subset else at for i, at in enumerate(best)]
            error = search.error(tried)
            if error < least:
                best = tried
                least = error
    for i in busy if len(busy) <= _FEW else []:
        tried = [None if k == i else at for k, at in enumerate(best)]
        error = search.error(tried)
        if error < least:
            best = tried
            least = error
    return search.strategy(best)


class _Search:
    """The blocks that a question may use, and the error of each assignment of its aggregates to them."""

    def __init__(
        self,
        aggregates: Sequence[Aggregate],
        bounded: BoundedQuery,
        shares: Sequence[Fraction],
        squared: bool,
    ) -> None:
        compiled = bounded.compiled
        self._shares = shares
        self._squared = squared
        wanted = [[_terms(part) for part in parts] for parts in compiled.parts]
        # Parts of the same numbers have one key, and are one block where aggregates have vectors of their own.
        self._keys: list[list[object]] = []
        self._singles: dict[object, Block] = {}
        for parts, terms, moved in zip(compiled.parts, wanted, bounded.sensitivities, strict=True):
            keys = [(frozenset(t.items()), part.rule) for t, part in zip(terms, parts, strict=True)]
            self._keys.append(list(keys))
            for key, part, sensitivity in zip(keys, parts, moved, strict=True):
                self._singles.setdefault(key, Block((part,), sensitivity))
        counts_rows = any(share and _ROWS in t for share, terms in zip(shares, wanted, strict=True) for t in terms)
        self.blocks = list(dict.fromkeys(_shared_blocks(bounded, counts_rows, squared)))
        # What has no parts, or a rule of its own, is read from no block.
        linear = [
            terms if parts and all(part.rule is None for part in parts) else None
            for parts, terms in zip(compiled.parts, wanted, strict=True)
        ]
        # By block and aggregate.
        self._mixes = [_solve([_terms(vector) for vector in block.vectors], linear) for block in self.blocks]
        # The aggregates that each block answers.
        self.readers = [[i for i, mix in enumerate(mixes) if mix is not None] for mixes in self._mixes]
        self._directions = [
            getattr(a, "directions", lambda _: [[1.0]])(parts)
            for a, parts in zip(aggregates, compiled.parts, strict=True)
        ]
        self._variances = {key: _variance(block, squared) for key, block in self._singles.items()}
        # Most assignments that are tried leave most aggregates the shares that they had.
        self._own_errors: dict[tuple[object, ...], float] = {}
        block_variances = [_variance(block, squared) for block in self.blocks]
        self._blockwise = [
            [self._whole_error(i, at, variance) for at, variance in enumerate(block_variances)]
            for i in range(len(shares))
        ]
        self._alone = [
            self._own_error(i, self._own_shares([i], whole=True)) if s else 0.0 for i, s in enumerate(shares)
        ]

    def error(self, assigned: Sequence[int | None]) -> float:
        """Return the sum of the aggregates' errors, each over what it would be with the whole loss, by their shares."""
        own = self._own_shares([i for i, at in enumerate(assigned) if at is None])
        whole = self._block_shares(assigned)
        total = 0.0
        for i, at in enumerate(assigned):
            if self._alone[i]:
                error = self._own_error(i, own) if at is None else self._blockwise[i][at] * self._noise(whole[at])
                total += float(self._shares[i]) * error / self._alone[i]
        return total

    def strategy(self, assigned: Sequence[int | None]) -> Strategy:
        """Return the strategy of an assignment."""
        own = self._own_shares([i for i, at in enumerate(assigned) if at is None])
        whole = self._block_shares(assigned)
        blocks: list[Block] = []
        place: dict[object, int] = {}
        readings = []
        for i, at in enumerate(assigned):
            if at is None:
                keys = self._keys[i]
                for key in keys:
                    if key not in place:
                        place[key] = len(blocks)
                        single = self._singles[key]
                        blocks.append(Block(single.vectors, single.sensitivity, own.get(key, Fraction(0))))
                readings.append(Reading(tuple((place[key], 0) for key in keys), _identity(len(keys))))
                continue
            block = self.blocks[at]
            mix = self._mixes[at][i]
            assert mix is not None
            if at not in place:
                place[at] = len(blocks)
                blocks.append(Block(block.vectors, block.sensitivity, whole[at]))
            used = [k for k in range(len(block.vectors)) if any(row[k] for row in mix)]
            rows = tuple(tuple(row[k] for k in used) for row in mix)
            readings.append(Reading(tuple((place[at], k) for k in used), rows))
        return Strategy(tuple(blocks), tuple(readings))

    def _own_shares(self, aggregates: Sequence[int], *, whole: bool = False) -> dict[object, Fraction]:
        """Return the share of each vector that aggregates have for themselves: an aggregate's is shared by its vectors."""
        shares: dict[object, Fraction] = {}
        for i in aggregates:
            busy = [key for key in self._keys[i] if self._singles[key].sensitivity.l1]
            for key in busy:
                shares[key] = shares.get(key, Fraction(0)) + (1 if whole else self._shares[i]) / Fraction(len(busy))
        return shares

    def _block_shares(self, assigned: Sequence[int | None]) -> dict[int, Fraction]:
        shares: dict[int, Fraction] = {}
        for at, share in zip(assigned, self._shares, strict=True):
            if at is not None:
                shares[at] = shares.get(at, Fraction(0)) + share
        return shares

    def _own_error(self, i: int, shares: Mapping[object, Fraction]) -> float:
        """Return the error of an aggregate by vectors of its own, at these shares."""
        keys = self._keys[i]
        known = (i, *(shares.get(key) for key in keys))
        error = self._own_errors.get(known)
        if error is None:
            variances = [self._variances[k] and self._variances[k] * self._noise(shares[k]) ** 2 for k in keys]
            error = self._own_errors[known] = _error(self._directions[i], variances)
        return error

    def _whole_error(self, i: int, at: int, variance: float) -> float:
        """Return the error of an aggregate by the vectors of a block that has the whole loss; infinite where they do not do."""
        if (mix := self._mixes[at][i]) is None:
            return math.inf
        columns = [[float(row[k]) for row in mix] for k in range(len(mix[0]))]
        weighed = [
            [sum(part * weight for part, weight in zip(column, weights, strict=True)) for column in columns]
            for weights in self._directions[i]
        ]
        return _error(weighed, [variance] * len(columns))

    def _noise(self, share: Fraction) -> float:
        """Return how much larger the noise's deviation is at a share of the loss."""
        return math.pow(share, -0.5 if self._squared else -1.0)


def _variance(block: Block, squared: bool) -> float:
    """Return the variance of a block's noise, in steps, but for a constant of the loss."""
    moved = block.sensitivity.rescale(1 / block.vectors[0].unit)
    return float(moved.l2_squared if squared else moved.l1**2)


def _error(weighed: Sequence[Sequence[float]], variances: Sequence[float]) -> float:
    return max(math.sqrt(sum(w * w * v for w, v in zip(weights, variances, strict=True))) for weights in weighed)


# ---- blocks


def _shared_blocks(bounded: BoundedQuery, counts_rows: bool, squared: bool) -> Iterator[Block]:
    """Return the blocks of the numbers that are asked about, with the rows that lack the number where those count."""
    compiled = bounded.compiled
    neighbors = bounded.neighbors
    droppable = compiled.droppable
    for parts in compiled.parts:
        for named, size, count, unit in _cells(parts):
            missable = count != _ROWS
            for others in (False, True) if missable and counts_rows else (False,):
                cells = [*named, *([(_others(size), {_ROWS: size, count: -size})] if others else [])]
                drop = droppable or (missable and not others)
                ways = [_unit_rows(len(cells))]
                if neighbors.relation == "replace" and len(named) == 2:
                    ways.append(_turn(len(cells), *_TURNED[squared]))
                for way in ways if len(cells) > 1 else []:
                    corners = [tuple(row[k] * size for row in way) for k in range(len(cells))]
                    moved = block_sensitivity(neighbors, corners, cells=compiled.cells, droppable=drop)
                    yield Block(tuple(_vector(row, cells, unit) for row in way), moved.rescale(unit))


_OTHERS = "count of rows without it"
_BELOW = "the lower bound"
_ABOVE = "the upper bound"


def _cells(parts: Sequence[Vector]) -> Iterator[tuple[list[tuple[str, Terms]], int, SqlAggregate, Fraction]]:
    """Return the cells that each row belongs to in part, by name, what a row adds to them in all, its count and the unit."""
    first = parts[0] if parts else None
    if first is None or first.rule is not None or len(parts) > 4:
        return
    if first.bounds is None:
        yield [("count", {first.terms[0][1]: 1})], 1, first.terms[0][1], first.unit
        return
    number = first.terms[0][1]
    assert number.of is not None
    count = count_term(number.of) if len(parts) == 1 else parts[-1].terms[0][1]
    low, high = first.bounds
    if low == high:
        return
    x = {number: 1, count: -first.lift}
    if len(parts) < 4:
        below = _plus((1, x), (-low, {count: 1}))
        above = _plus((-1, x), (high, {count: 1}))
        yield (
            [(f"sum of distances from {_BELOW}", below), (f"sum of distances from {_ABOVE}", above)],
            high - low,
            count,
            first.unit,
        )
    if len(parts) < 3:
        return
    y, (least, most) = (x, (low, high)) if len(parts) == 3 else (_center(parts[1], count), parts[1].ends)
    if least == most:
        return
    sums: list[Terms] = [{parts[-2].terms[0][1]: 1}, x, y, {count: 1}]
    products = _products(sums, ((low, _BELOW), (high, _ABOVE)), ((least, _BELOW), (most, _ABOVE)))
    if len(parts) == 3:
        doubled = (f"{products[1][0]}, doubled", _plus((2, products[1][1])))
        squares = [(f"sum of squared distances from {end}", products[i][1]) for i, end in ((0, _BELOW), (3, _ABOVE))]
        products = [squares[0], doubled, squares[1]]
    yield products, (high - low) * (most - least), count, parts[-2].unit


def _products(
    sums: Sequence[Terms], first: Sequence[tuple[int, str]], second: Sequence[tuple[int, str]]
) -> list[tuple[str, Terms]]:
    """Return the sums of |x - a| |y - b| for the bounds a and b; `sums` are those of x y, x, y and 1."""
    products = []
    for (i, (a, one)), (k, (b, other)) in itertools.product(enumerate(first), enumerate(second)):
        sign = 1 if i == k else -1
        terms = _plus(*zip((sign, -sign * b, -sign * a, sign * a * b), sums, strict=True))
        products.append((f"sum of products of distances from {one} and {other}", terms))
    return products


def _center(part: Vector, count: SqlAggregate) -> Terms:
    return {part.terms[0][1]: 1, count: -part.lift}


def _others(size: int) -> str:
    return _OTHERS if size == 1 else f"{_OTHERS}, times its range"


def _plus(*weighted: tuple[int, Terms]) -> Terms:
    total: dict[SqlAggregate, int] = {}
    for weight, terms in weighted:
        for term, by in terms.items():
            total[term] = total.get(term, 0) + weight * by
    return total


def _unit_rows(cells: int) -> list[list[int]]:
    return [[int(i == k) for k in range(cells)] for i in range(cells)]


def _turn(cells: int, across: int, along: int) -> list[list[int]]:
    """Return the difference and the sum of the first two cells in place of them: replace moves the sum less."""
    rows = _unit_rows(cells)
    rows[0][:2] = [across, -across]
    rows[1][:2] = [along, along]
    return rows


def _vector(row: Sequence[int], cells: Sequence[tuple[str, Terms]], unit: Fraction) -> Vector:
    used = [(weight, name, terms) for weight, (name, terms) in zip(row, cells, strict=True) if weight]
    role = used[0][1]
    if len(used) > 1:
        role = f"{'sum' if used[1][0] > 0 else 'difference'} of the {used[0][1]} and that from {_ABOVE}, times {used[0][0]}"
    terms = tuple((w, t) for t, w in _plus(*((weight, t) for weight, _, t in used)).items() if w)
    return Vector(role, terms, unit, None, False)


# ---- what vectors tell of the parts


def _terms(part: Vector) -> dict[SqlAggregate, int]:
    return {term: weight for weight, term in part.terms if weight}


def _identity(size: int) -> Mix:
    return tuple(tuple(Fraction(int(i == k)) for k in range(size)) for i in range(size))


def _solve(vectors: Sequence[Terms], wanted: Sequence[Sequence[Terms] | None]) -> list[Mix | None]:
    """Return the weights of a block's vectors that give the parts of each aggregate, by elimination.

    None for an aggregate whose parts they do not give, and for one that is None.
    """
    terms = dict.fromkeys(t for v in vectors for t in v)
    asked = [parts if parts is not None and all(t in terms for p in parts for t in p) else None for parts in wanted]
    # All aggregates are solved at once: the vectors are the same for each.
    sides = [p for parts in asked for p in parts or ()]
    rows = [[Fraction(v.get(t, 0)) for v in vectors] + [Fraction(p.get(t, 0)) for p in sides] for t in terms]
    width = len(vectors)
    for k in range(width):
        pivot = next((i for i in range(k, len(rows)) if rows[i][k]), None)
        if pivot is None:
            return [None] * len(wanted)
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [c / rows[k][k] for c in rows[k]]
        for i in range(len(rows)):
            if i != k and rows[i][k]:
                rows[i] = [c - rows[i][k] * p for c, p in zip(rows[i], rows[k], strict=True)]
    mixes: list[Mix | None] = []
    start = width
    for parts in asked:
        end = start + len(parts or ())
        given = parts is not None and not any(any(row[start:end]) for row in rows[width:])
        mixes.append(tuple(tuple(rows[k][p] for k in range(width)) for p in range(start, end)) if given else None)
        start = end
    return mixes
