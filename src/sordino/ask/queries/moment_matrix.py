"""Moment matrix: the rows, sums, squares and products of several columns as one vector. Knows no data.

A first look says about where each number lies and how far it spreads. The moments are then of standardised columns, in which
a row far from all others counts less, so that none moves the vector by more than a limit: the noise follows from where rows
are, not from the corners of the declared bounds. Everything that least squares, discriminants and principal components need is a
function of this one vector.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, cast

from sordino.ask.queries.adaptive.marginal import VectorShare, join_words
from sordino.ask.queries.aggregates.sums import require_bounds
from sordino.ask.queries.aggregation import Grouping
from sordino.ask.queries.expressions.bound_number import BoundNumber, clip
from sordino.ask.queries.expressions.keys import Keys, keys
from sordino.ask.queries.expressions.missing import may_be_missing
from sordino.ask.queries.expressions.nodes import describe, plain
from sordino.ask.queries.expressions.sql_trees import Build, whole
from sordino.ask.queries.queryable import Scan
from sordino.core.domain import Domain
from sordino.core.errors import QuestionRefused
from sordino.core.neighbors import Neighbors, Sensitivity
from sordino.core.primitives import MOST_WEIGHT, FloatSteps, Primitives, ProductSums, ShrunkWeight

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp

# Moments are counted in so many parts of a row.
PARTS = 1 << 20
# Squares of standardised numbers count by this factor, about the root of a half: then no row moves the vector by more than
# half of its own squared length, whichever way it points.
DIAGONAL = Fraction(7, 10)
# Squares of the first look, less a half, lie in [-1/2, 1/2]. They are counted three halves times as finely: of all factors this
# is near the one with the least sum of variances.
SQUARE = Fraction(3, 2)
# The steps in which a number is read, of its declared range: at least and at most so many, so that centers can be told and
# products of two stay within 64 bits.
_LEAST_STEPS = 1 << 12
_MOST_STEPS = 1 << 20
# A standardised number lies within twice this many scales.
_WIDEST_SCALE = 1 << 10
# A row counts in whole parts of this weight, and its squared length in parts of this size.
WEIGHT = MOST_WEIGHT
LENGTH = 1 << 16
# The most that a limit can be.
_MOST_LIMIT = 1 << 20
_MOST_CELLS = 200_000
_MOST_COLUMNS = 200


@dataclass(frozen=True, slots=True)
class MomentMatrix:
    """Ask for the moments of some numbers and categories: rows, sums, squares and products of each two.

    A row without a value in any of the columns takes no part. With `folds` of 2 or more the moments of the units whose public
    hash falls into the first fold stand apart from those of all others: a unit is in one of the two alone, so the two together
    are as private as one. With `weight`, a number of 0 or more with an upper declared bound, a row counts by it, as a part of
    that bound.
    """

    numbers: tuple[Grouping, ...]
    categories: tuple[Grouping, ...] = ()
    folds: int = 1
    weight: Grouping | None = None

    # The feature that plans the algorithm which answers such questions.
    algorithm: ClassVar[str] = "prepare_moments"

    def describe(self) -> str:
        """Return the question as a sentence."""
        names = [describe(column.of) for column in (*self.numbers, *self.categories)]
        apart = "" if self.folds == 1 else f", one unit of {self.folds} apart, by a public hash"
        by = "" if self.weight is None else f", weighted by {describe(self.weight.of)}"
        return f"the sums, squares and products of {join_words(names)}{by}{apart}"

    def identity(self) -> str:
        """Return canonical text: equal for equal questions."""
        data: dict[str, Any] = {
            "moments": [[n.alias, plain(n.of)] for n in self.numbers],
            "categories": [[c.alias, plain(c.of)] for c in self.categories],
            "folds": self.folds,
        }
        if self.weight is not None:
            data["weight"] = [self.weight.alias, plain(self.weight.of)]
        return json.dumps(data, sort_keys=True, separators=(",", ":"))


def check_moments(question: MomentMatrix) -> MomentMatrix:
    """Return the question; raises QuestionRefused for one without columns, or with one name twice."""
    names = [column.alias for column in (*question.numbers, *question.categories)]
    if not names or len(names) > _MOST_COLUMNS:
        raise QuestionRefused(f"moments are of 1 to {_MOST_COLUMNS} columns, not of {len(names)}")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise QuestionRefused(f"column {twice!r:.40} is named twice: name each column once")
    if isinstance(question.folds, bool) or not isinstance(question.folds, int) or not 1 <= question.folds <= 100:
        raise QuestionRefused("the units are cut into 1 to 100 folds, of which the first is held out")
    return question


@dataclass(frozen=True, slots=True)
class ScaledNumber:
    """A number read in whole steps, from -`width` at its lower declared bound to `width` at its upper one.

    `number` is clipped to its bounds; `by` of its own steps are one that is read, or one of its own is `times` that are read.
    """

    alias: str
    number: BoundNumber
    low: int
    by: int
    times: int
    width: int

    @property
    def least_scale(self) -> int:
        """The least scale of a frame: a number may be as many of it from its center as keep sums within 64 bits."""
        return self.width // _WIDEST_SCALE + 1

    @property
    def middle(self) -> float:
        """The value of step 0, in the column's own unit."""
        return float((2 * self.low + self.by * (self.width // self.times) + self.by - 1) * self.number.unit / 2)

    @property
    def step(self) -> float:
        """How much the column changes by one step, in its own unit."""
        return float(self.by * self.number.unit / (2 * self.times))

    @property
    def _origin(self) -> int:
        """Where reading starts: at 0, where the number's own steps are read and are of 32 bits, else at its lower bound."""
        most = max(abs(self.low), abs(self.low + self.width // self.times))
        return 0 if self.by == 1 and most < 1 << 31 else self.low

    def read(self, on: Primitives) -> exp.Expression:
        """Return the SQL of what the step is computed from, a whole number of 32 bits."""
        from sqlglot import exp

        cell: exp.Expression = exp.Paren(this=self.number.build(on))
        if self._origin:
            cell = exp.Paren(this=exp.Sub(this=cell, expression=whole(self._origin)))
        if self.by > 1:
            cell = exp.Paren(this=exp.IntDiv(this=cell, expression=whole(self.by)))
        return cell

    def read_float(self, on: Primitives) -> FloatSteps | None:
        """Return from what double the same is computed, where it is."""
        steps = on.float_steps(self.number.build(on))
        return None if steps is None else replace(steps, origin=self._origin, by=self.by)

    @property
    def ends(self) -> tuple[int, int]:
        """The least and the most of what is read."""
        return self.low - self._origin, self.low - self._origin + self.width // self.times

    def line(self, center: int = 0) -> tuple[int, int]:
        """Return the two numbers by which what is read becomes a step from a center: it is times the first, less the second."""
        return 2 * self.times, 2 * self.times * (self.low - self._origin) + self.width + center

    def build(self, on: Primitives) -> exp.Expression:
        """Return the SQL of the step."""
        return self.place(self.read(on))

    def place(self, cell: exp.Expression, center: int = 0) -> exp.Expression:
        """Return the SQL of the step from a center, of what is read."""
        from sqlglot import exp

        times, less = self.line(center)
        multiple = exp.Paren(this=exp.Mul(this=cell.copy(), expression=whole(times)))
        tree: exp.Expression = exp.Paren(this=exp.Sub(this=multiple, expression=whole(less)))
        return tree


@dataclass(frozen=True, slots=True)
class RowWeight:
    """The weight of a row, of its upper declared bound, in parts of `WEIGHT`.

    `number` is clipped to its bounds and `high` is the upper one in its steps, of which `by` are read as one.
    """

    number: BoundNumber
    high: int
    by: int

    def build(self, on: Primitives) -> exp.Expression:
        """Return the SQL of the weight, rounded to the nearest part."""
        from sqlglot import exp

        steps: Any = exp.Paren(this=self.number.build(on))
        if self.by > 1:
            steps = exp.Paren(this=exp.IntDiv(this=steps, expression=whole(self.by)))
        high = self.high // self.by
        doubled = exp.Add(this=exp.Mul(this=steps, expression=whole(2 * WEIGHT)), expression=whole(high))
        tree: exp.Expression = exp.Paren(this=exp.IntDiv(this=exp.Paren(this=doubled), expression=whole(2 * high)))
        return tree


@dataclass(frozen=True, slots=True)
class Frame:
    """How numbers are standardised: the `centers` and `scales` of each in steps, and the `limit` of a row's squared length.

    A row is z = (1, (step - center) / scale of each number, the indicator of each category's value), and counts
    min(its weight, limit / |z|^2), where a row without a weight has 1, the most there is.
    """

    centers: tuple[int, ...]
    scales: tuple[int, ...]
    limit: Fraction


@dataclass(frozen=True, slots=True)
class Block:
    """Moments of which a row moves one alone: of the rows, of a number, of two, of a category's values, or of those and more.

    `numbers` and `categories` are the places of what is multiplied and of what it is counted by; `cells` are the keys.
    """

    numbers: tuple[int, ...]
    categories: tuple[int, ...]
    cells: int

    @property
    def factor(self) -> Fraction:
        """What its moments are multiplied by."""
        if self.categories or len(self.numbers) == 1 or self.numbers[:1] != self.numbers[1:]:
            return Fraction(1)
        return DIAGONAL


@dataclass(frozen=True)
class CompiledMoments:
    """The moments of a question over a domain: its numbers, its categories' keys, and the blocks of its vector in order."""

    question: MomentMatrix
    numbers: tuple[ScaledNumber, ...]
    categories: tuple[Keys, ...]
    droppable: bool
    weight: RowWeight | None = None

    @functools.cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks: rows, sums, squares and products, counts by values, sums by values, counts by two values."""
        numbers = range(len(self.numbers))
        sizes = [len(k.labels) for k in self.categories]
        blocks = [Block((), (), 1)]
        blocks += [Block((i,), (), 1) for i in numbers]
        blocks += [Block(pair, (), 1) for pair in itertools.combinations_with_replacement(numbers, 2)]
        blocks += [Block((), (c,), size) for c, size in enumerate(sizes)]
        blocks += [Block((i,), (c,), size) for c, size in enumerate(sizes) for i in numbers]
        pairs = itertools.combinations(range(len(sizes)), 2)
        blocks += [Block((), (a, b), sizes[a] * sizes[b]) for a, b in pairs]
        return tuple(blocks)

    @functools.cached_property
    def cells(self) -> int:
        """The number of moments of one fold."""
        return sum(block.cells for block in self.blocks)

    @property
    def features(self) -> int:
        """The rows of the matrix: 1, the numbers, and the values of the categories."""
        return 1 + len(self.numbers) + sum(len(declared.labels) for declared in self.categories)

    @property
    def halves(self) -> int:
        """How many moment matrices the vector holds: the held-out one first, where there is one."""
        return 1 if self.question.folds == 1 else 2

    @property
    def least_limit(self) -> Fraction:
        """The limit that a row at all centers reaches: 1, and 1 for each category."""
        return Fraction(1 + len(self.categories))

    def most_limit(self, centers: Sequence[int], scales: Sequence[int]) -> Fraction:
        """Return the limit that no row within the declared bounds passes."""
        reach = sum(
            Fraction((number.width + abs(center)) ** 2, scale**2)
            for number, center, scale in zip(self.numbers, centers, scales, strict=True)
        )
        # Squared lengths are rounded up in the engine, by one part a number.
        return min(self.least_limit + reach + Fraction(len(self.numbers), LENGTH), Fraction(_MOST_LIMIT))

    def most_product(self, frame: Frame) -> int:
        """Return what no weighted product of two numbers passes, in steps and parts.

        w z^2 is at most R s^2 for a number of scale s, and w at most 1; a product of two is at most the larger of their squares.
        """
        scale = max(frame.scales, default=1)
        reach = max(self.reach(frame), default=1)
        return WEIGHT * min(math.floor(frame.limit * scale**2), reach**2)

    def reach(self, frame: Frame) -> tuple[int, ...]:
        """Return how many steps each number may be from its center."""
        return tuple(n.width + abs(center) for n, center in zip(self.numbers, frame.centers, strict=True))

    def check_frame(self, frame: Frame) -> None:
        """Raise QuestionRefused for a frame in which sums could pass what an engine holds."""
        if len(frame.centers) != len(self.numbers) or len(frame.scales) != len(self.numbers):
            raise QuestionRefused("a frame has a center and a scale for each number")
        for number, center, scale in zip(self.numbers, frame.centers, frame.scales, strict=True):
            if abs(center) > number.width or not number.least_scale <= scale <= number.width:
                raise QuestionRefused(
                    "a center lies within the declared bounds, and a scale above a thousandth of their range"
                )
        if not self.least_limit <= frame.limit <= _MOST_LIMIT:
            raise QuestionRefused("a limit is at least what a row at all centers has, and at most 2^20")

    def sensitivity(self, frame: Frame, neighbors: Neighbors) -> Sensitivity:
        """Return how far one unit moves the vector, in parts of a row.

        Theorem. With p numbers, c categories and R the limit, a unit of C rows moves the vector by at most

            add_remove:  C R (1.4 + p + c) / 2 in l1, C R / sqrt(2) in l2
            replace:     twice that in l1,            C sqrt(1.02 R^2 + c) in l2

        and rounding adds less than one part to each cell that moves. Proof. A row adds w f(z), w = min(u, R / |z|^2) for its
        own weight u in [0, 1], and f(z) the products z_i z_j, i < j, and 7/10 z_i^2 of 1 and of each number; the square of
        an indicator is its product with 1. So |f|^2 <= (|z|^4 - sum z_i^4)/2 + .49 sum z_i^4 <= |z|^4/2, and w |z|^2 <= R. At
        most 1 + p + c of the z_i are not 0, so |f|_1 <= (|z|_1^2 - |z|^2)/2 + .7 |z|^2 <= |z|^2 (1 + p + c + .4)/2. Norms are
        convex, so C rows move C times as far. Under replace the rows of one unit are paired with the other's, and
        |w f(z) - v f(y)|^2 = w^2 |f(z)|^2 + v^2 |f(y)|^2 - 2 w v f(z).f(y), where
        f(z).f(y) >= (z.y)^2/2 - .01 |z|^2 |y|^2 - c/2; as w and v are at most 1, the last term is at most .02 R^2 + c. A row
        without a partner has a square of R^2/2 at most, one whose unit changes its fold of R^2. The engine rounds |z|^2 up
        and R / |z|^2 down, so that w |z|^2 <= R holds there.
        """
        rows = neighbors.contributions
        cells = self.cells * self.halves
        sides = 2 if neighbors.relation == "replace" else 1
        nonzero = 1 + len(self.numbers) + len(self.categories)
        square = frame.limit**2 / 2
        if sides == 2:
            square = frame.limit**2 * Fraction(102, 100) + len(self.categories)
        touched = min(sides * rows * len(self.blocks), cells)
        return round_sensitivity(
            neighbors,
            touched=touched,
            l1=sides * rows * frame.limit * (nonzero + Fraction(4, 10)) / 2,
            l2_squared=rows**2 * square,
            linf=sides * rows * frame.limit,
        )

    def look_sensitivity(self, neighbors: Neighbors) -> Sensitivity:
        """Return how far one unit moves the first look, in parts of a row.

        Theorem. A row adds 1 to the rows, a number in [-1, 1] to each sum, and 3/2 of one in [-1/2, 1/2] to each square; so C
        rows move p of each by at most C (1 + 7p/4) in l1 and C sqrt(1 + 25p/16) in l2. Under replace rows in pairs move the
        rows by 1, a sum by 2 and a square by 3/2 each at most. A weight in [0, 1] draws what a row adds towards 0, which lies in
        each of these ranges.
        """
        rows = neighbors.contributions
        count = len(self.numbers)
        sides = 2 if neighbors.relation == "replace" else 1
        # the sum, and three halves of the square
        each = (Fraction(sides), SQUARE * sides / 2)
        return round_sensitivity(
            neighbors,
            touched=1 + 2 * count,
            l1=rows * (1 + count * (each[0] + each[1])),
            l2_squared=rows**2 * (1 + count * (each[0] ** 2 + each[1] ** 2)),
            linf=rows * each[0],
        )


def round_sensitivity(
    neighbors: Neighbors, *, touched: int, l1: Fraction, l2_squared: Fraction, linf: Fraction
) -> Sensitivity:
    """Return a sensitivity in rows as one in parts, with the part that rounding down may add to each cell that moves."""
    # The l2 norm of what rounding adds is the root of the cells that move; roots are rounded up.
    l2 = root_up(l2_squared * PARTS**2) + root_up(Fraction(touched))
    people = "row" if neighbors.people is None else neighbors.people
    many = f"with at most {neighbors.contributions} rows " if neighbors.contributions > 1 else ""
    because = f"{neighbors.relation} of one {people} {many}moves {touched:,} moments together"
    return Sensitivity(touched, l1 * PARTS + touched, Fraction(l2) ** 2, linf * PARTS + 1, because)


def root_up(square: Fraction) -> int:
    """Return the least whole number whose square is at least this."""
    least = math.isqrt(-(-square.numerator // square.denominator))
    return least if least * least >= square else least + 1


def scale_number(column: Grouping, domain: Domain) -> ScaledNumber:
    """Return a number as whole steps of its declared range; raises QuestionRefused where it has none."""
    number, low, high = require_bounds(column.of, domain, "moment")
    if low == high:
        raise QuestionRefused(
            f"{column.alias} is declared as constant, so nothing depends on it: leave it out, or declare wider bounds"
        )
    by = -(-(high - low + 1) // _MOST_STEPS)
    steps = (high - low) // by
    times = -(-_LEAST_STEPS // steps)
    within = clip(number, low * number.unit, high * number.unit)
    return ScaledNumber(column.alias, within, low, by, times, steps * times)


def read_weight(column: Grouping, domain: Domain) -> RowWeight:
    """Return the weight of a row; raises QuestionRefused where it has no bounds, may be below 0, or is always 0."""
    number, low, high = require_bounds(column.of, domain, "weight")
    if low < 0:
        raise QuestionRefused(f"{column.alias} may be below 0, and a weight is 0 or more: declare lower=0, or clip it")
    if high == 0:
        raise QuestionRefused(f"{column.alias} is declared as 0 in every row: a weight has an upper bound above 0")
    within = clip(number, low * number.unit, high * number.unit)
    # Few enough steps that a weight times its parts stays within 64 bits.
    return RowWeight(within, high, -(-high // (1 << 40)))


def declared_keys(column: Grouping, domain: Domain) -> Keys:
    """Return the declared values of a category; raises QuestionRefused where they are not declared, or only one is."""
    declared = keys(column.of, domain)
    if declared.private:
        raise QuestionRefused(
            f"the values of {column.alias} are not declared, so they are not public: declare it as a category"
        )
    if len(declared.labels) < 2:
        raise QuestionRefused(f"{column.alias} is declared with one value, so nothing depends on it: leave it out")
    return declared


def compile_moments(question: MomentMatrix, domain: Domain) -> CompiledMoments:
    """Return what the moments are over a domain.

    Raises QuestionRefused for a number without bounds, one that is constant, and for categories whose values are not declared;
    UnknownName for a column that is not declared.
    """
    return _compile(_Same(question), _Same(domain))


@dataclass(frozen=True, slots=True, eq=False)
class _Same:
    """An object that equals itself alone: values of other types, which may be equal, are not compiled alike."""

    value: Any

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value


@functools.lru_cache(maxsize=16)
def _compile(same_question: _Same, same_domain: _Same) -> CompiledMoments:
    """Return what the moments are; a fit asks for the same ones some twenty times."""
    question: MomentMatrix = same_question.value
    domain: Domain = same_domain.value
    check_moments(question)
    numbers = tuple(scale_number(column, domain) for column in question.numbers)
    categories = tuple(declared_keys(column, domain) for column in question.categories)
    weight = None if question.weight is None else read_weight(question.weight, domain)
    columns = (*question.numbers, *question.categories, *([] if question.weight is None else [question.weight]))
    reasons = [bool(may_be_missing(column.of, domain).columns) for column in columns]
    compiled = CompiledMoments(question, numbers, categories, any(reasons), weight)
    if compiled.cells > _MOST_CELLS:
        raise QuestionRefused(
            f"these columns have {compiled.cells:,} moments, above {_MOST_CELLS:,}: leave out categories of many values"
        )
    return compiled


@dataclass(frozen=True, slots=True)
class FirstLook:
    """Ask for the rows, and for the sum and the square of each number on the scale on which its bounds are -1 and 1."""

    question: MomentMatrix

    @property
    def unit(self) -> Fraction:
        """One part of a row."""
        return Fraction(1, PARTS)

    def parts(self, domain: Domain, neighbors: Neighbors) -> list[VectorShare]:
        """Return the sensitivity of the one vector, which gets the whole loss."""
        enforced = neighbors.enforce(None, by_group=False)
        return [(compile_moments(self.question, domain).look_sensitivity(enforced), Fraction(1))]

    def names(self) -> list[str]:
        """Return the name of the vector."""
        return ["first look"]

    def describe(self) -> str:
        """Return the question as a sentence."""
        return f"where and how far the rows spread, for {self.question.describe()}"

    def scans(self, domain: Domain) -> list[Scan]:
        """Return the one SELECT."""
        compiled = compile_moments(self.question, domain)
        return [Scan(f"first look {self.question.identity()}", functools.partial(_select_look, compiled))]

    def exact_vectors(self, tables: Sequence[pa.Table], domain: Domain) -> list[list[int]]:
        """Return the exact rows, sums and squares, each rounded down to whole parts; only the curator calls it."""
        compiled = compile_moments(self.question, domain)
        (row,) = tables[0].to_pylist()
        # Rows in parts, where they are weighted.
        one = 1 if compiled.weight is None else WEIGHT
        exact_rows = int(row["t0"] or 0)
        exact_look = [exact_rows * PARTS // one]
        for i, number in enumerate(compiled.numbers):
            exact_look.append(int(row[f"s{i}"] or 0) * PARTS // (number.width * one))
        for i, number in enumerate(compiled.numbers):
            # Three halves of the sum of squares less half the rows.
            exact_square = 2 * int(row[f"s{i}_{i}"] or 0) - exact_rows * number.width**2
            exact_look.append(3 * PARTS * exact_square // (4 * number.width**2 * one))
        return [exact_look]


@dataclass(frozen=True, slots=True)
class MomentVector:
    """The vector of a moment matrix in a frame: one noisy vector, whose sensitivity is that of all of it together."""

    question: MomentMatrix
    frame: Frame

    @property
    def unit(self) -> Fraction:
        """One part of a row."""
        return Fraction(1, PARTS)

    def parts(self, domain: Domain, neighbors: Neighbors) -> list[VectorShare]:
        """Return the sensitivity of the one vector, which gets the whole loss."""
        compiled = compile_moments(self.question, domain)
        compiled.check_frame(self.frame)
        return [(compiled.sensitivity(self.frame, neighbors.enforce(None, by_group=False)), Fraction(1))]

    def names(self) -> list[str]:
        """Return the name of the vector."""
        return ["moments"]

    def describe(self) -> str:
        """Return the question as a sentence."""
        return self.question.describe()

    def scans(self, domain: Domain) -> list[Scan]:
        """Return the SELECTs: of the numbers, and, where there are categories, of what is counted by them."""
        compiled = compile_moments(self.question, domain)
        text = f"{self.question.identity()} in {self.frame}"
        scans = [Scan(f"moments {text}", functools.partial(_select_products_in, compiled, self.frame))]
        if compiled.categories:
            by_values = functools.partial(_select_by_values_in, compiled, self.frame)
            scans.append(Scan(f"moments by values {text}", by_values))
        return scans

    def exact_vectors(self, tables: Sequence[pa.Table], domain: Domain) -> list[list[int]]:
        """Return the exact moments, each rounded down to whole parts; only the curator calls it."""
        compiled = compile_moments(self.question, domain)
        exact_moments: list[int] = []
        sums = {row["fold"]: row for row in tables[0].to_pylist()}
        by_values = read_by_values(compiled, tables[1], _value_groups(compiled)) if compiled.categories else {}
        for fold in range(compiled.halves):
            for block in compiled.blocks:
                scale = WEIGHT * math.prod(self.frame.scales[i] for i in block.numbers) * block.factor.denominator
                name = "s" + "_".join(map(str, block.numbers)) if block.numbers else "t0"
                by_cell = by_values.get((fold, block.categories), {}) if block.categories else {0: sums.get(fold, {})}
                for cell in range(block.cells):
                    exact_total = int(by_cell.get(cell, {}).get(name) or 0)
                    exact_moments.append(exact_total * PARTS * block.factor.numerator // scale)
        return [exact_moments]


# ---- The SQL of its scans


@dataclass(frozen=True, slots=True)
class ReadRows:
    """The SQL of the rows that have all columns: each number as it is read, codes, what is read beside, the weight, the fold.

    Of `any_numbers` rows may lack numbers, where it is faster to leave them out later. `floats` are the doubles that numbers
    are read from.
    """

    source: exp.Expression
    any_numbers: exp.Expression
    numbers: Sequence[exp.Expression]
    codes: Sequence[exp.Expression]
    others: Sequence[exp.Expression]
    weights: Sequence[exp.Expression]
    fold: exp.Expression
    floats: Sequence[FloatSteps | None]


def read_rows(compiled: CompiledMoments, on: Primitives, beside: Sequence[Build] = (), folds: int = 1) -> ReadRows:
    """Return the SQL of the rows of a question, in `folds` or in one."""
    from sqlglot import exp

    numbers = [number.read(on) for number in compiled.numbers]
    floats = [number.read_float(on) for number in compiled.numbers]
    codes = [declared.row_code(on) for declared in compiled.categories]
    others = [build(on) for build in beside]
    weights = [] if compiled.weight is None else [compiled.weight.build(on)]
    any_numbers: exp.Expression | None = None
    if compiled.droppable:
        # A step is missing where its number is, which need not be scaled to say so.
        present_numbers = [_is_present(number.number.build(on)) for number in compiled.numbers]
        present = [_is_present(part) for part in (*codes, *others, *weights)]
        # To compute steps that only a condition reads takes as long as to fetch the doubles. But where the rows of people are
        # capped, those that lack a number must not count, and a fold is of rows that are kept.
        if any(floats) and folds == 1 and not on.has_units:
            present += [part for part, steps in zip(present_numbers, floats, strict=True) if steps is None]
            present_numbers = [part for part, steps in zip(present_numbers, floats, strict=True) if steps is not None]
            if present:
                on.keep(cast(exp.Expression, exp.and_(*present, copy=False)))
            any_numbers = on.source()
            present = []
        on.keep(cast(exp.Expression, exp.and_(*present_numbers, *present, copy=False)))
    fold: exp.Expression = whole(0)
    if folds > 1:
        first = exp.EQ(this=exp.Paren(this=on.chunk(folds)), expression=whole(0))
        fold = exp.Paren(this=exp.Case(ifs=[exp.If(this=first, true=whole(0))], default=whole(1)))
    source = on.source()
    return ReadRows(source, any_numbers or source, numbers, codes, others, weights, fold, floats)


def _is_present(cell: exp.Expression) -> exp.Expression:
    from sqlglot import exp

    return exp.Not(this=exp.Is(this=exp.Paren(this=cell.copy()), expression=exp.Null()))


def _sum_products(compiled: CompiledMoments, read: ReadRows, frame: Frame | None = None) -> ProductSums:
    """Return what is to be added up of rows as they are read, for engines that multiply faster than SQL.

    Without a frame it is the first look: steps from the middle of the bounds, in one fold, by each row's own weight alone.
    """
    numbers = [
        _narrow(number) if steps is None else steps.cell
        for number, steps in zip(read.numbers, read.floats, strict=True)
    ]
    cells: list[Any] = [*(_narrow(weight) for weight in read.weights), *numbers]
    names = [*(["w"] if read.weights else []), *(f"z{i}" for i in range(len(read.numbers)))]
    floats = tuple(read.floats)
    ends = tuple(number.ends for number in compiled.numbers)
    if frame is None:
        weight = 1 if compiled.weight is None else WEIGHT
        lines = tuple(number.line() for number in compiled.numbers)
        most = weight * max((number.width for number in compiled.numbers), default=0) ** 2
        rows = _select_cells(cells, names, read.any_numbers)
        own = None if read.weights else weight
        return ProductSums(rows, lines, ends, 1, most, own, floats=floats, squares_alone=True)
    if compiled.halves > 1:
        cells.append(_narrow(read.fold))
        names.append("fold")
    lines = tuple(number.line(center) for number, center in zip(compiled.numbers, frame.centers, strict=True))
    squares = tuple(scale**2 for scale in frame.scales)
    limit = math.floor(frame.limit * LENGTH) * WEIGHT
    shrunk = ShrunkWeight(_least_length(compiled), LENGTH, squares, limit)
    rows = _select_cells(cells, names, read.any_numbers)
    most = compiled.most_product(frame)
    return ProductSums(rows, lines, ends, compiled.halves, most, None if read.weights else WEIGHT, shrunk, floats)


def _sum_weighted(compiled: CompiledMoments, rows: exp.Subquery, frame: Frame) -> ProductSums:
    """Return what is to be added up of weighted rows, for engines that multiply faster than SQL."""
    names = ["w", *(f"z{i}" for i in range(len(compiled.numbers)))]
    names += ["fold"] if compiled.halves > 1 else []
    narrow = _select_cells([_narrow(_column(name)) for name in names], names, rows)
    lines = ((1, 0),) * len(compiled.numbers)
    ends = tuple((-n.width - c, n.width - c) for n, c in zip(compiled.numbers, frame.centers, strict=True))
    return ProductSums(narrow, lines, ends, compiled.halves, compiled.most_product(frame))


def _narrow(cell: Any) -> Any:
    """Return a whole number as one of 32 bits."""
    from sqlglot import exp

    return exp.cast(cell.copy(), "INT")


def _select_cells(cells: Sequence[Any], names: Sequence[str], source: exp.Expression) -> exp.Select:
    """Return a SELECT of numbers; a row with one that is missing takes no part in what is added up."""
    from sqlglot import exp

    items = [exp.alias_(cell.copy(), name) for cell, name in zip(cells, names, strict=True)]
    select: exp.Select = exp.Select(expressions=items).from_(source.copy(), copy=False)
    return select


def _least_length(compiled: CompiledMoments) -> int:
    """Return the squared length of a row at all centers, in parts, with one more for each number whose square is rounded down."""
    return LENGTH * (1 + len(compiled.categories)) + len(compiled.numbers)


def _select_look(compiled: CompiledMoments, on: Primitives) -> exp.Select:
    """Return the rows t0, and the sums s0.. and squares s0_0.. of all numbers, in steps."""
    from sqlglot import exp

    read = read_rows(compiled, on)
    steps = [number.place(cell) for number, cell in zip(compiled.numbers, read.numbers, strict=True)]
    inner = [exp.alias_(step, f"z{i}", copy=False) for i, step in enumerate(steps)] or [
        exp.alias_(whole(0), "z0", copy=False)
    ]
    inner += [exp.alias_(weight, "u") for weight in read.weights]
    rows = exp.Select(expressions=inner).from_(read.source, copy=False)
    factors = [exp.column("u") for _ in read.weights]
    # Not `total`, which names steps of the rows: these have been selected.
    total = exp.Sum(this=factors[0].copy()) if factors else exp.Count(this=exp.Star())
    outer = [exp.alias_(total, "t0", copy=False)]
    for i, cell in enumerate(_name_columns("z", len(steps))):
        outer.append(exp.alias_(exp.Sum(this=_multiply(*factors, cell)), f"s{i}", copy=False))
        outer.append(exp.alias_(exp.Sum(this=_multiply(*factors, cell, cell)), f"s{i}_{i}", copy=False))
    select: exp.Select = exp.Select(expressions=outer).from_(rows.subquery("sordino_rows", copy=False), copy=False)
    if steps:
        select.meta["products"] = _sum_products(compiled, read)
    return select


def _multiply(*factors: Any) -> Any:
    from sqlglot import exp

    return functools.reduce(lambda one, other: exp.Mul(this=one, expression=other), [f.copy() for f in factors])


def weighted_rows(
    compiled: CompiledMoments, frame: Frame, on: Primitives, beside: Sequence[Build] = ()
) -> exp.Subquery:
    """Return the rows: fold, w (the weight in parts), z0.. (numbers less their centers, in steps), k0.. (codes) and b0..."""
    return _weigh_rows(compiled, frame, read_rows(compiled, on, beside, compiled.question.folds))


def _weigh_rows(compiled: CompiledMoments, frame: Frame, read: ReadRows) -> exp.Subquery:
    from sqlglot import exp

    steps = [
        number.place(cell, center)
        for number, cell, center in zip(compiled.numbers, read.numbers, frame.centers, strict=True)
    ]
    inner = [exp.alias_(read.fold, "fold")]
    inner += [exp.alias_(step, f"z{i}", copy=False) for i, step in enumerate(steps)]
    inner += [exp.alias_(code, f"k{i}") for i, code in enumerate(read.codes)]
    inner += [exp.alias_(other, f"b{i}") for i, other in enumerate(read.others)]
    inner += [exp.alias_(weight, "u") for weight in read.weights]
    rows = exp.Select(expressions=inner).from_(read.source, copy=False).subquery("sordino_centered", copy=False)
    cells = _name_columns("z", len(steps))
    length: Any = whole(_least_length(compiled))
    for cell, scale in zip(cells, frame.scales, strict=True):
        square = exp.Paren(
            this=exp.Mul(
                this=exp.Paren(this=exp.Mul(this=cell.copy(), expression=cell.copy())), expression=whole(LENGTH)
            )
        )
        length = exp.Add(this=length, expression=exp.Paren(this=exp.IntDiv(this=square, expression=whole(scale**2))))
    names = [exp.column("fold"), *(cell.copy() for cell in cells), *_name_columns("k", len(read.codes))]
    names += _name_columns("b", len(read.others))
    measured = (
        exp.Select(expressions=[*names, *(exp.column("u") for _ in read.weights), exp.alias_(length, "l")])
        .from_(rows, copy=False)
        .subquery("sordino_measured", copy=False)
    )
    limit = math.floor(frame.limit * LENGTH)
    within = exp.LTE(this=exp.column("l"), expression=whole(limit))
    # The denominator is never 0, also where an engine computes both sides.
    shrunk = exp.IntDiv(this=whole(limit * WEIGHT), expression=exp.column("l"))
    weight = exp.Case(ifs=[exp.If(this=within, true=whole(WEIGHT))], default=exp.Paren(this=shrunk))
    for own in (exp.column("u") for _ in read.weights):
        lighter = exp.LT(this=own, expression=exp.paren(weight))
        weight = exp.Case(ifs=[exp.If(this=lighter, true=own.copy())], default=exp.Paren(this=weight.copy()))
    columns = [*(name.copy() for name in names), exp.alias_(weight, "w")]
    return exp.Select(expressions=columns).from_(measured, copy=False).subquery("sordino_rows", copy=False)


def _column(name: str) -> Any:
    from sqlglot import exp

    return exp.column(name)


def _name_columns(prefix: str, count: int) -> list[Any]:
    return [_column(f"{prefix}{i}") for i in range(count)]


def _weigh(numbers: Sequence[int]) -> exp.Expression:
    """Return the sum of the weight times the numbers at some places."""
    from sqlglot import exp

    product: exp.Expression = exp.column("w")
    for i in numbers:
        product = exp.Mul(this=product, expression=exp.column(f"z{i}"))
    # Not `total`, which names steps of the rows: these have been selected.
    return exp.Sum(this=product)


def _select_products_in(compiled: CompiledMoments, frame: Frame, on: Primitives) -> exp.Select:
    read = read_rows(compiled, on, folds=compiled.question.folds)
    products = _sum_products(compiled, read, frame)
    return select_products(compiled, _weigh_rows(compiled, frame, read), frame, products)


def _select_by_values_in(compiled: CompiledMoments, frame: Frame, on: Primitives) -> exp.Select:
    return select_by_values(compiled, weighted_rows(compiled, frame, on))


def select_products(
    compiled: CompiledMoments, rows: exp.Subquery, frame: Frame, products: ProductSums | None = None
) -> exp.Select:
    """Return the weighted sums of all numbers and products: fold, t0 (rows), s0.. and s0_0.., in steps and parts.

    `products` says the same of rows that are yet to be weighed.
    """
    from sqlglot import exp

    outer = [exp.column("fold"), exp.alias_(_weigh(()), "t0", copy=False)]
    for block in compiled.blocks:
        if block.numbers and not block.categories:
            name = "s" + "_".join(map(str, block.numbers))
            outer.append(exp.alias_(_weigh(block.numbers), name, copy=False))
    select: exp.Select = exp.Select(expressions=outer).from_(rows, copy=False)
    # Without numbers there is nothing to multiply.
    if compiled.numbers:
        select.meta["products"] = products or _sum_weighted(compiled, rows, frame)
    # In place, as a copy of the tree would not have it.
    return select.group_by(exp.column("fold"), copy=False)


def select_by_values(compiled: CompiledMoments, rows: exp.Subquery) -> exp.Select:
    """Return weighted rows and sums by the values of one category, or of two: fold, k0.., `left_out`, t0 and s0.."""
    from sqlglot import exp

    keyed = _name_columns("k", len(compiled.categories))
    # The fold is in every group, so its bit is 0: Spark asks for all columns that rows are grouped by.
    left_out = exp.alias_(
        exp.Anonymous(this="GROUPING", expressions=[exp.column("fold"), *keyed]), "left_out", copy=False
    )
    outer = [exp.column("fold"), *(key.copy() for key in keyed), left_out]
    outer.append(exp.alias_(_weigh(()), "t0", copy=False))
    outer += [exp.alias_(_weigh((i,)), f"s{i}", copy=False) for i in range(len(compiled.numbers))]
    sets = [
        exp.Tuple(expressions=[exp.column("fold"), *(keyed[i].copy() for i in group)])
        for group in _value_groups(compiled)
    ]
    select: exp.Select = exp.Select(expressions=outer).from_(rows, copy=False)
    select.set("group", exp.Group(grouping_sets=[exp.GroupingSets(expressions=sets)]))
    return select


def _value_groups(compiled: CompiledMoments) -> list[tuple[int, ...]]:
    """Return the groups of categories that rows are counted by: each by itself, and each two."""
    count = range(len(compiled.categories))
    return [*((c,) for c in count), *itertools.combinations(count, 2)]


def read_by_values(
    compiled: CompiledMoments, table: pa.Table, groups_of_values: Sequence[tuple[int, ...]]
) -> dict[Any, dict[int, dict[str, Any]]]:
    """Return the exact sums of each fold and group of categories, by cell."""
    count = len(compiled.categories)
    sizes = [len(declared.labels) for declared in compiled.categories]
    groups = {sum(1 << (count - 1 - i) for i in range(count) if i not in group): group for group in groups_of_values}
    exact_sums: dict[Any, dict[int, dict[str, Any]]] = {}
    for row in table.to_pylist():
        group = groups[int(row["left_out"])]
        cell = 0
        for category in group:
            cell = cell * sizes[category] + int(row[f"k{category}"])
        exact_sums.setdefault((int(row["fold"]), group), {})[cell] = row
    return exact_sums
