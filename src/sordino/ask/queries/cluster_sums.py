"""Questions of k-means: the rows in cells along a few directions, and the rows nearest to each of some centers. Knows no data.

Cells say about where clusters are. A step of k-means (Lloyd 1982) then moves a center by the mean offset of its rows; a row far
from its center counts less, as among moments, so the noise follows from where rows lie about their centers, not from the
declared bounds.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

from sordino.ask.queries.adaptive.marginal import VectorShare
from sordino.ask.queries.expressions.sql_trees import greatest, least, whole
from sordino.ask.queries.moment_matrix import (
    LENGTH,
    PARTS,
    WEIGHT,
    CompiledMoments,
    Frame,
    MomentMatrix,
    compile_moments,
    root_up,
    round_sensitivity,
)
from sordino.ask.queries.queryable import Scan
from sordino.ask.queries.sensitivity_rules import count_sensitivity, sum_sensitivity
from sordino.core.domain import Domain
from sordino.core.errors import QuestionRefused
from sordino.core.neighbors import Neighbors, Sensitivity
from sordino.core.primitives import Primitives

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp

# Centers times columns: the engine computes as many products a row.
MOST_PRODUCTS = 4_000
# Squared distances, and places along a direction, are whole numbers up to this.
MOST_DISTANCE = 1 << 61
# A bin of a direction has so many parts.
BIN = 1 << 30
MOST_CELLS = 1 << 16


@dataclass(frozen=True, slots=True)
class DirectionCounts:
    """Ask for the rows in each cell of a grid along some directions: a row is in one cell alone.

    `question` names p numbers. Along direction j a row lies at `offsets`[j] + the sum of `directions`[j] (p,) times its steps, in
    parts of a bin; what lies before the first of the `bins`, or after the last, is counted in it.
    """

    question: MomentMatrix
    directions: tuple[tuple[int, ...], ...]
    offsets: tuple[int, ...]
    bins: int

    @property
    def unit(self) -> Fraction:
        """One row."""
        return Fraction(1)

    @property
    def cells(self) -> int:
        """The number of cells."""
        return int(self.bins ** len(self.directions))

    def parts(self, domain: Domain, neighbors: Neighbors) -> list[VectorShare]:
        """Return the sensitivity of the counts, which get the whole loss. Directions are public: they follow from answers."""
        compiled = compile_moments(self.question, domain)
        if compiled.categories or compiled.weight is not None or compiled.halves > 1:
            raise QuestionRefused("directions are of numbers alone, of all rows alike")
        if len(self.directions) != len(self.offsets) or not 1 <= len(self.directions) * self.bins <= MOST_PRODUCTS:
            raise QuestionRefused("a grid has an offset for each direction, and one bin or more")
        if self.cells > MOST_CELLS:
            raise QuestionRefused(
                f"a grid has {self.cells:,} cells, above {MOST_CELLS:,}: take fewer directions or bins"
            )
        for direction, offset in zip(self.directions, self.offsets, strict=True):
            pairs = zip(direction, compiled.numbers, strict=True)
            if abs(offset) + sum(abs(part) * number.width for part, number in pairs) > MOST_DISTANCE:
                raise QuestionRefused("a place along a direction passes what an engine holds: take wider bins")
        enforced = neighbors.enforce(None, by_group=False)
        return [(count_sensitivity(enforced, cells=self.cells, droppable=True), Fraction(1))]

    def names(self) -> list[str]:
        """Return the name of the vector."""
        return ["cells"]

    def describe(self) -> str:
        """Return the question as a sentence."""
        return (
            f"the rows in {self.cells:,} cells along {len(self.directions)} directions, of {self.question.describe()}"
        )

    def scans(self, domain: Domain) -> list[Scan]:
        """Return the one SELECT."""
        compiled = compile_moments(self.question, domain)
        text = f"cells {self.question.identity()} along {self.directions} from {self.offsets} in {self.bins}"
        return [Scan(text, functools.partial(_select_cells, compiled, self))]

    def exact_vectors(self, tables: Sequence[pa.Table], domain: Domain) -> list[list[int]]:
        """Return the exact counts, the last direction changing first; only the curator calls it."""
        del domain
        exact_counts = [0] * self.cells
        for row in tables[0].to_pylist():
            exact_counts[int(row["cell"])] += int(row["t0"])
        return [exact_counts]


@dataclass(frozen=True, slots=True)
class ClusterSums:
    """Ask for the rows nearest to each center, and for the sum of their offsets from it: k (1 + p) numbers, in rows.

    `question` names p numbers; `centers` (k, p) are in their steps. A squared distance is the sum of `units` times squared
    steps, so that columns may be measured in units of their own. Offsets are in `scales` steps, and a row counts
    min(1, limit / (1 + squared offsets)); of several nearest centers it is the first one's.
    """

    question: MomentMatrix
    centers: tuple[tuple[int, ...], ...]
    units: tuple[int, ...]
    scales: tuple[int, ...]
    limit: Fraction

    @property
    def unit(self) -> Fraction:
        """One part of a row."""
        return Fraction(1, PARTS)

    def parts(self, domain: Domain, neighbors: Neighbors) -> list[VectorShare]:
        """Return the sensitivity of the one vector, which gets the whole loss."""
        self.check(compile_moments(self.question, domain))
        return [(self.sensitivity(neighbors.enforce(None, by_group=False)), Fraction(1))]

    def check(self, compiled: CompiledMoments) -> None:
        """Raise QuestionRefused for centers and units in which a sum could pass what an engine holds."""
        _check_centers(compiled, self.centers, self.units)
        compiled.check_frame(Frame((0,) * len(compiled.numbers), self.scales, self.limit))

    def sensitivity(self, neighbors: Neighbors) -> Sensitivity:
        """Return how far one unit moves the vector, in parts of a row.

        Theorem. With p numbers and R the limit, a unit of C rows moves the vector by at most C sqrt(R) in l2 and
        C sqrt(R (1 + p)) in l1 under add_remove, and by twice that under replace; rounding adds less than one part to each
        cell that moves. Proof. A row adds w z to the 1 + p numbers of its nearest center, z its offset with 1 before it and
        w = min(1, R / |z|^2), and nothing to the others, so w^2 |z|^2 <= w |z|^2 <= R. Centers, units and scales are public:
        they follow from earlier answers, so which center is nearest depends on the row alone. The engine rounds |z|^2 up and w
        down. Norms are convex, so C rows move C times as far.
        """
        rows = neighbors.contributions * (2 if neighbors.relation == "replace" else 1)
        size = 1 + len(self.scales)
        precision = 1 << 40
        l1 = Fraction(root_up(self.limit * size * precision), 1 << 20)
        linf = Fraction(root_up(self.limit * precision), 1 << 20)
        touched = min(rows * size, size * len(self.centers))
        return round_sensitivity(
            neighbors, touched=touched, l1=rows * l1, l2_squared=rows**2 * self.limit, linf=rows * linf
        )

    def names(self) -> list[str]:
        """Return the name of the vector."""
        return ["cluster sums"]

    def describe(self) -> str:
        """Return the question as a sentence."""
        return f"the rows and offsets of {len(self.centers)} clusters, of {self.question.describe()}"

    def scans(self, domain: Domain) -> list[Scan]:
        """Return the one SELECT."""
        compiled = compile_moments(self.question, domain)
        text = f"clusters {self.question.identity()} at {self.centers} by {self.units} in {self.scales} within {self.limit}"
        return [Scan(text, functools.partial(_select_sums, compiled, self))]

    def exact_vectors(self, tables: Sequence[pa.Table], domain: Domain) -> list[list[int]]:
        """Return the exact rows and offsets, center by center, rounded down to whole parts; only the curator calls it."""
        del domain
        by_center = {int(row["k"]): row for row in tables[0].to_pylist()}
        exact_sums: list[int] = []
        for place in range(len(self.centers)):
            row = by_center.get(place, {})
            exact_sums.append(int(row.get("t0") or 0) * PARTS // WEIGHT)
            for i, scale in enumerate(self.scales):
                exact_sums.append(int(row.get(f"s{i}") or 0) * PARTS // (WEIGHT * scale))
        return [exact_sums]


@dataclass(frozen=True, slots=True)
class ClusterDistances:
    """Ask for the sum of the squared distances of rows to their nearest centers, each cut at `most`, in parts of which it is.

    `question` names p numbers; `centers` (k, p) are in their steps, and a squared distance is the sum of `units` times squared
    steps, as of `ClusterSums`.
    """

    question: MomentMatrix
    centers: tuple[tuple[int, ...], ...]
    units: tuple[int, ...]
    most: int

    @property
    def step(self) -> int:
        """Distances are rounded down to whole steps of so many of theirs."""
        return -(-self.most // PARTS)

    @property
    def unit(self) -> Fraction:
        """One step, as a part of `most`."""
        return Fraction(self.step, self.most)

    def parts(self, domain: Domain, neighbors: Neighbors) -> list[VectorShare]:
        """Return the sensitivity of the one number, which gets the whole loss.

        Theorem. A unit of C rows moves the sum by at most C times `most`, in whole steps, under either relation. Proof. Centers
        and units are public: they follow from earlier answers. So a row adds a number that depends on it alone, from 0 to
        `most`, rounded down; the sum over the rows of a unit, few or many up to C, lies between 0 and C times as much.
        """
        _check_centers(compile_moments(self.question, domain), self.centers, self.units)
        if not 1 <= self.most <= MOST_DISTANCE:
            raise QuestionRefused(f"squared distances are cut at 1 to {MOST_DISTANCE:,}")
        enforced = neighbors.enforce(None, by_group=False)
        reach = Fraction(self.most // self.step)
        return [(sum_sensitivity(enforced, lower=Fraction(0), upper=reach, cells=1, droppable=True), Fraction(1))]

    def names(self) -> list[str]:
        """Return the name of the vector."""
        return ["cluster distances"]

    def describe(self) -> str:
        """Return the question as a sentence."""
        return f"the squared distances to the nearest of {len(self.centers)} centers, of {self.question.describe()}"

    def scans(self, domain: Domain) -> list[Scan]:
        """Return the one SELECT."""
        compiled = compile_moments(self.question, domain)
        text = f"distances {self.question.identity()} to {self.centers} by {self.units} within {self.most}"
        return [Scan(text, functools.partial(_select_distances, compiled, self))]

    def exact_vectors(self, tables: Sequence[pa.Table], domain: Domain) -> list[list[int]]:
        """Return the exact sum in whole steps; only the curator calls it."""
        del domain
        (row,) = tables[0].to_pylist()
        return [[int(row["t0"] or 0)]]


def _check_centers(compiled: CompiledMoments, centers: Sequence[Sequence[int]], units: Sequence[int]) -> None:
    """Raise QuestionRefused for centers and units in which a distance could pass what an engine holds."""
    numbers = compiled.numbers
    if compiled.categories or compiled.weight is not None or compiled.halves > 1:
        raise QuestionRefused("clusters are of numbers alone, of all rows alike")
    if not centers or len(centers) * len(numbers) > MOST_PRODUCTS:
        raise QuestionRefused(f"clusters times columns are 1 to {MOST_PRODUCTS:,}")
    for center in centers:
        if len(center) != len(numbers) or any(
            abs(step) > number.width for step, number in zip(center, numbers, strict=True)
        ):
            raise QuestionRefused("a center has a step within the declared bounds for each column")
    if len(units) != len(numbers) or min(units) < 0:
        raise QuestionRefused("a distance has a unit of 0 or more for each column")
    if sum(4 * unit * number.width**2 for unit, number in zip(units, numbers, strict=True)) > MOST_DISTANCE:
        raise QuestionRefused("squared distances pass what an engine holds: measure in larger units")


# ---- The SQL of their scans


def _column(name: str) -> Any:
    from sqlglot import exp

    return exp.column(name)


def _select_cells(compiled: CompiledMoments, query: DirectionCounts, on: Primitives) -> exp.Select:
    """Return the rows by cell: cell, t0."""
    from sqlglot import exp

    rows = _complete_rows(compiled, on)
    cell: Any = whole(0)
    last = query.bins * BIN - 1
    for direction, offset in zip(query.directions, query.offsets, strict=True):
        place: Any = whole(offset)
        for i, part in enumerate(direction):
            product = exp.Mul(this=_column(f"z{i}"), expression=whole(part))
            place = exp.Add(this=place, expression=exp.Paren(this=product))
        within = least(greatest(exp.paren(place), whole(0)), whole(last))
        step = exp.Paren(this=exp.IntDiv(this=within, expression=whole(BIN)))
        cell = exp.Add(this=exp.Mul(this=exp.paren(cell), expression=whole(query.bins)), expression=step)
    coded = (
        exp.Select(expressions=[exp.alias_(exp.paren(cell), "cell", copy=False)])
        .from_(rows, copy=False)
        .subquery("sordino_cells", copy=False)
    )
    outer = [_column("cell"), exp.alias_(exp.Count(this=exp.Star()), "t0", copy=False)]
    select: exp.Select = exp.Select(expressions=outer).from_(coded, copy=False)
    return select.group_by(_column("cell"), copy=False)


def _select_sums(compiled: CompiledMoments, query: ClusterSums, on: Primitives) -> exp.Select:
    """Return the weight and the weighted offsets of each center's rows: k, t0, s0.., in steps and parts."""
    from sqlglot import exp

    rows: Any = _offset_rows(compiled, query, on)
    cells = [_column(f"z{i}") for i in range(len(compiled.numbers))]
    # The squared length, rounded up: one part more for each number whose square is rounded down.
    length: Any = whole(LENGTH + len(cells))
    for cell, scale in zip(cells, query.scales, strict=True):
        square = exp.Paren(
            this=exp.Mul(
                this=exp.Paren(this=exp.Mul(this=cell.copy(), expression=cell.copy())), expression=whole(LENGTH)
            )
        )
        length = exp.Add(this=length, expression=exp.Paren(this=exp.IntDiv(this=square, expression=whole(scale**2))))
    rows = exp.Select(expressions=[_column("k"), *cells, exp.alias_(length, "l")]).from_(rows)
    limit = math.floor(query.limit * LENGTH)
    within = exp.LTE(this=_column("l"), expression=whole(limit))
    # The denominator is never 0, also where an engine computes both sides.
    lighter = exp.Paren(this=exp.IntDiv(this=whole(limit * WEIGHT), expression=_column("l")))
    weight = exp.Case(ifs=[exp.If(this=within, true=whole(WEIGHT))], default=lighter)
    names = [_column("k"), *(cell.copy() for cell in cells)]
    rows = exp.Select(expressions=[*names, exp.alias_(weight, "w", copy=False)]).from_(
        rows.subquery("sordino_measured"), copy=False
    )
    outer = [_column("k"), exp.alias_(on.total(_column("w"), Fraction(WEIGHT)), "t0", copy=False)]
    for i, number in enumerate(compiled.numbers):
        product = exp.Mul(this=_column("w"), expression=_column(f"z{i}"))
        outer.append(exp.alias_(on.total(product, Fraction(WEIGHT * 2 * number.width)), f"s{i}", copy=False))
    select: exp.Select = exp.Select(expressions=outer).from_(rows.subquery("sordino_weighted"), copy=False)
    return select.group_by(_column("k"), copy=False)


def _complete_rows(compiled: CompiledMoments, on: Primitives) -> exp.Subquery:
    """Return the rows that have all numbers: z0.., in steps."""
    from sqlglot import exp

    numbers = [number.build(on) for number in compiled.numbers]
    if compiled.droppable:
        present = [
            exp.Not(this=exp.Is(this=exp.Paren(this=number.copy()), expression=exp.Null())) for number in numbers
        ]
        on.keep(cast(exp.Expression, exp.and_(*present, copy=False)))
    read = [exp.alias_(number, f"z{i}") for i, number in enumerate(numbers)]
    return exp.Select(expressions=read).from_(on.source(), copy=False).subquery("sordino_rows", copy=False)


def _select_distances(compiled: CompiledMoments, query: ClusterDistances, on: Primitives) -> exp.Select:
    """Return the sum of the squared distances to the nearest centers, in whole steps: t0."""
    from sqlglot import exp

    rows = _compare_rows(compiled, query, on)
    distance: Any = _column("m")
    for i, unit in enumerate(query.units):
        square = exp.Mul(this=_column(f"z{i}"), expression=_column(f"z{i}"))
        product = exp.Mul(this=exp.Paren(this=square), expression=whole(unit))
        distance = exp.Add(this=distance, expression=exp.Paren(this=product))
    within = least(exp.paren(distance), whole(query.most))
    steps = exp.alias_(exp.Paren(this=exp.IntDiv(this=within, expression=whole(query.step))), "d", copy=False)
    measured = exp.Select(expressions=[steps]).from_(rows).subquery("sordino_measured", copy=False)
    total = exp.alias_(on.total(_column("d"), Fraction(query.most // query.step)), "t0", copy=False)
    return exp.Select(expressions=[total]).from_(measured, copy=False)


def _compare_rows(compiled: CompiledMoments, query: ClusterSums | ClusterDistances, on: Primitives) -> exp.Subquery:
    """Return the rows that have all numbers: z0.., in steps, d0.., their distances as compared, and m, the least of these."""
    from sqlglot import exp

    rows: Any = _complete_rows(compiled, on)
    names = [f"z{i}" for i in range(len(compiled.numbers))]
    far = [f"d{place}" for place in range(len(query.centers))]
    distances = [
        exp.alias_(_compare_distance(query, center), name, copy=False)
        for name, center in zip(far, query.centers, strict=True)
    ]
    rows = (
        exp.Select(expressions=[*map(_column, names), *distances]).from_(rows).subquery("sordino_distances", copy=False)
    )
    nearest_distance = least(*map(_column, far)) if len(far) > 1 else _column(far[0])
    nearest = exp.Select(expressions=[*map(_column, (*names, *far)), exp.alias_(nearest_distance, "m", copy=False)])
    return nearest.from_(rows).subquery("sordino_least", copy=False)


def _offset_rows(compiled: CompiledMoments, query: ClusterSums, on: Primitives) -> exp.Subquery:
    """Return the rows that have all numbers: k, the place of the nearest center, and z0.., the offsets from it in steps."""
    from sqlglot import exp

    rows: Any = _compare_rows(compiled, query, on)
    names = [f"z{i}" for i in range(len(compiled.numbers))]
    far = [f"d{place}" for place in range(len(query.centers))]
    whens = [
        exp.If(this=exp.EQ(this=_column(name), expression=_column("m")), true=whole(place))
        for place, name in enumerate(far[:-1])
    ]
    nearest = exp.Case(ifs=whens, default=whole(len(far) - 1)) if whens else whole(0)
    rows = exp.Select(expressions=[*map(_column, names), exp.alias_(nearest, "k", copy=False)]).from_(rows)
    offsets = [_column("k")]
    for i, name in enumerate(names):
        steps = [
            exp.If(this=exp.EQ(this=_column("k"), expression=whole(place)), true=whole(center[i]))
            for place, center in enumerate(query.centers)
        ]
        own = exp.Paren(this=exp.Case(ifs=steps, default=whole(0)))
        offsets.append(exp.alias_(exp.Sub(this=_column(name), expression=own), name, copy=False))
    select: exp.Select = exp.Select(expressions=offsets).from_(rows.subquery("sordino_nearest"), copy=False)
    return select.subquery("sordino_offsets", copy=False)


def _compare_distance(query: ClusterSums | ClusterDistances, center: Sequence[int]) -> exp.Expression:
    """Return the squared distance to a center, less that of the row to 0, which is the same for all centers."""
    from sqlglot import exp

    distance: Any = whole(sum(unit * step**2 for unit, step in zip(query.units, center, strict=True)))
    for i, (unit, step) in enumerate(zip(query.units, center, strict=True)):
        product = exp.Mul(this=_column(f"z{i}"), expression=whole(-2 * unit * step))
        distance = exp.Add(this=distance, expression=exp.Paren(this=product))
    return exp.paren(distance)
