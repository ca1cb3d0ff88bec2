"""Moment matrix: the rows, sums, squares and products of several columns as one vector. Knows no data.

Numbers are scaled to [-1, 1] by their declared bounds, categories are counted by their declared values. Everything that
least squares, discriminants and principal components need is a function of this one vector.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from sordino.ask.queries.adaptive.marginal import VectorShare, join_words
from sordino.ask.queries.aggregates.sums import require_bounds
from sordino.ask.queries.aggregation import Grouping
from sordino.ask.queries.expressions.bound_number import BoundNumber, clip
from sordino.ask.queries.expressions.keys import Keys, keys
from sordino.ask.queries.expressions.missing import may_be_missing
from sordino.ask.queries.expressions.nodes import describe, plain
from sordino.ask.queries.expressions.sql_trees import trees, whole
from sordino.ask.queries.queryable import Scan
from sordino.core.domain import Domain
from sordino.core.errors import QuestionRefused
from sordino.core.neighbors import Neighbors, Sensitivity
from sordino.core.primitives import Primitives

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp

# A row moves a moment by at most one, which is counted in so many parts.
PARTS = 1 << 20
# Squares, less a half, lie in [-1/2, 1/2]. They are counted three halves times as finely: of all factors this is near the
# one with the least sum of variances.
SQUARE = Fraction(3, 2)
# A number is read in at most so many steps of its declared range, so that products of two stay within 64 bits.
_MOST_STEPS = 1 << 20
_MOST_CELLS = 200_000
_MOST_COLUMNS = 200


@dataclass(frozen=True, slots=True)
class MomentMatrix:
    """Ask for the moments of some numbers and categories: rows, sums, squares and products of each two.

    A row without a value in any of the columns takes no part. With `folds` of 2 or more the moments of the units whose public
    hash falls into the first fold stand apart from those of all others: a unit is in one of the two alone, so the two together
    are as private as one.
    """

    numbers: tuple[Grouping, ...]
    categories: tuple[Grouping, ...] = ()
    folds: int = 1

    # The feature that plans the algorithm which answers such questions.
    algorithm: ClassVar[str] = "prepare_moments"

    def describe(self) -> str:
        """Return the question as a sentence."""
        names = [describe(column.of) for column in (*self.numbers, *self.categories)]
        apart = "" if self.folds == 1 else f", one unit of {self.folds} apart, by a public hash"
        return f"the sums, squares and products of {join_words(names)}{apart}"

    def identity(self) -> str:
        """Return canonical text: equal for equal questions."""
        data = {
            "moments": [[n.alias, plain(n.of)] for n in self.numbers],
            "categories": [[c.alias, plain(c.of)] for c in self.categories],
            "folds": self.folds,
        }
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
    """A number read in whole steps of 2 / `width` on the scale on which its declared bounds are -1 and 1.

    `number` is clipped to its bounds; it has `by` of its own steps in one that is read.
    """

    alias: str
    number: BoundNumber
    low: int
    by: int
    width: int

    @property
    def center(self) -> float:
        """The value at 0 of the scale, in the column's own unit."""
        return float((2 * self.low + self.by * self.width + self.by - 1) * self.number.unit / 2)

    @property
    def half_width(self) -> float:
        """How much the column changes where the scaled number changes by 1, in the column's own unit."""
        return float(self.by * self.width * self.number.unit / 2)

    def build(self, on: Primitives) -> exp.Expression:
        """Return the SQL of 2 s - width, s the steps above the lower bound: a whole number from -width to width."""
        exp = trees()
        above = exp.paren(exp.Sub(this=exp.paren(self.number.build(on)), expression=whole(self.low)))
        if self.by > 1:
            above = exp.paren(exp.IntDiv(this=above, expression=whole(self.by)))
        doubled = exp.paren(exp.Mul(this=above, expression=whole(2)))
        tree: exp.Expression = exp.paren(exp.Sub(this=doubled, expression=whole(self.width)))
        return tree


@dataclass(frozen=True, slots=True)
class Block:
    """Moments of which a row moves one alone: of the rows, of a number, of two, of a category's values, or of those and more.

    `numbers` and `categories` are the places of what is multiplied and of what it is counted by; `cells` are the keys.
    """

    numbers: tuple[int, ...]
    categories: tuple[int, ...]
    cells: int

    @property
    def is_square(self) -> bool:
        """Whether it is the square of one number."""
        return len(self.numbers) == 2 and self.numbers[0] == self.numbers[1]

    @property
    def most(self) -> Fraction:
        """The most that a row adds to it or takes off, in rows."""
        return SQUARE / 2 if self.is_square else Fraction(1)


@dataclass(frozen=True)
class CompiledMoments:
    """The moments of a question over a domain: its scaled numbers, its categories' keys, and the blocks of its vector in order."""

    question: MomentMatrix
    numbers: tuple[ScaledNumber, ...]
    categories: tuple[Keys, ...]
    droppable: bool

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
    def halves(self) -> int:
        """How many moment matrices the vector holds: the held-out one first, where there is one."""
        return 1 if self.question.folds == 1 else 2

    def sensitivity(self, neighbors: Neighbors) -> Sensitivity:
        """Return how far one unit moves the vector, in parts of a row.

        Theorem. Let a row add f(r), one cell in each of B blocks, at most m_b in block b; Q = sum m_b^2, S = sum m_b. With p
        numbers, c categories and L = c^2/2 + c + (p - 1)/2 + p s^2/4, s the factor of squares, a unit of C rows moves the vector
        by at most

            add_remove:  C S in l1, C sqrt(Q) in l2        replace:  2 C S in l1, C sqrt(2 Q + 2 L) in l2

        and rounding adds one part to each cell that moves. Proof. Norms are convex and |f(r)|^2 <= Q, |f(r)|_1 <= S. Under
        replace the rows of the one unit are paired with those of the other, a row without a partner moves it by |f| alone, and
        |f(r) - f(t)|^2 = |f(r)|^2 + |f(t)|^2 - 2 f(r).f(t). With u, v the numbers of r and t, z = (1, u), w = (1, v), g = u.v
        and e <= c the number of categories in which they agree: rows, sums and products of two give ((z.w)^2 - sum z_i^2 w_i^2)/2
        + 1 >= ((1 + g)^2 - (1 + p))/2 + 1, squares at least -p s^2/4, sums by values e g, and counts nothing below 0. The
        sum over g of (1 + g)^2/2 + e g is least at g = -1 - e, where it is -e^2/2 - e; so f(r).f(t) >= -L. A row is in one
        fold at most; under replace a unit may change its fold, where the square is |f|^2 + |f|^2 <= 2 Q. Rounding down once a
        cell moves a difference of sums by less than one part more.
        """
        blocks = self.blocks
        rows = neighbors.contributions
        cells = self.cells * self.halves
        total = sum((block.most for block in blocks), Fraction(0))
        squares = sum((block.most**2 for block in blocks), Fraction(0))
        sides = 1
        if neighbors.relation == "replace":
            sides = 2
            p = len(self.numbers)
            c = len(self.categories)
            against = Fraction(c * c, 2) + c + Fraction(p - 1, 2) + p * SQUARE**2 / 4
            squares = 2 * squares + 2 * max(against, Fraction(0))
        touched = min(sides * rows * len(blocks), cells)
        l1 = sides * rows * total * PARTS + touched
        # The l2 norm of what rounding adds is the root of the cells that move; roots are rounded up.
        l2 = rows * _root_up(squares * PARTS**2) + _root_up(Fraction(touched))
        linf = Fraction(sides * rows * PARTS + 1)
        people = "row" if neighbors.people is None else neighbors.people
        because = f"{neighbors.relation} of one {people} with at most {rows} row(s) moves {len(blocks):,} sums together"
        return Sensitivity(touched, l1, Fraction(l2) ** 2, linf, because)


def _root_up(square: Fraction) -> int:
    """Return the least whole number whose square is at least this."""
    least = math.isqrt(-(-square.numerator // square.denominator))
    return least if least * least >= square else least + 1


def compile_moments(question: MomentMatrix, domain: Domain) -> CompiledMoments:
    """Return what the moments are over a domain.

    Raises QuestionRefused for a number without bounds, one that is constant, and for categories whose values are not declared;
    UnknownName for a column that is not declared.
    """
    check_moments(question)
    numbers = []
    for column in question.numbers:
        number, low, high = require_bounds(column.of, domain, "moment")
        if low == high:
            raise QuestionRefused(
                f"{column.alias} is declared as constant, so nothing depends on it: leave it out, or declare wider bounds"
            )
        by = -(-(high - low + 1) // _MOST_STEPS)
        within = clip(number, low * number.unit, high * number.unit)
        numbers.append(ScaledNumber(column.alias, within, low, by, (high - low) // by))
    categories = []
    for column in question.categories:
        declared = keys(column.of, domain)
        if declared.private:
            raise QuestionRefused(
                f"the values of {column.alias} are not declared, so they are not public: declare it as a category"
            )
        if len(declared.labels) < 2:
            raise QuestionRefused(
                f"{column.alias} is declared with one value, so nothing depends on it: leave it out"
            )
        categories.append(declared)
    reasons = [bool(may_be_missing(column.of, domain).columns) for column in (*question.numbers, *question.categories)]
    compiled = CompiledMoments(question, tuple(numbers), tuple(categories), any(reasons))
    if compiled.cells > _MOST_CELLS:
        raise QuestionRefused(
            f"these columns have {compiled.cells:,} moments, above {_MOST_CELLS:,}: leave out categories of many values"
        )
    return compiled


@dataclass(frozen=True, slots=True)
class MomentVector:
    """The vector of a moment matrix, in parts of a row: one noisy vector, whose sensitivity is that of all of it together."""

    question: MomentMatrix

    @property
    def unit(self) -> Fraction:
        """One part of a row."""
        return Fraction(1, PARTS)

    def parts(self, domain: Domain, neighbors: Neighbors) -> list[VectorShare]:
        """Return the sensitivity of the one vector, which gets the whole loss."""
        enforced = neighbors.enforce(None, by_group=False)
        return [(compile_moments(self.question, domain).sensitivity(enforced), Fraction(1))]

    def names(self) -> list[str]:
        """Return the name of the vector."""
        return ["moments"]

    def describe(self) -> str:
        """Return the question as a sentence."""
        return self.question.describe()

    def scans(self, domain: Domain) -> list[Scan]:
        """Return the SELECTs: of the numbers, and, where there are categories, of what is counted by them."""
        compiled = compile_moments(self.question, domain)
        text = self.question.identity()
        scans = [Scan(f"moments {text}", functools.partial(_select_products, compiled))]
        if compiled.categories:
            scans.append(Scan(f"moments by values {text}", functools.partial(_select_by_values, compiled)))
        return scans

    def exact_vectors(self, tables: Sequence[pa.Table], domain: Domain) -> list[list[int]]:
        """Return the exact moments, each rounded down to whole parts; only the curator calls it."""
        compiled = compile_moments(self.question, domain)
        exact_moments: list[int] = []
        sums = {row["fold"]: row for row in tables[0].to_pylist()}
        by_values = _read_by_values(compiled, tables[1]) if compiled.categories else {}
        for fold in range(compiled.halves):
            row = sums.get(fold, {})
            for block in compiled.blocks:
                if block.categories:
                    counts = by_values.get((fold, block.categories), {})
                    place = "t0" if not block.numbers else f"s{block.numbers[0]}"
                    exact_cells = [counts.get(cell, {}).get(place) or 0 for cell in range(block.cells)]
                else:
                    place = "t0" if not block.numbers else "s" + "_".join(map(str, block.numbers))
                    exact_cells = [row.get(place) or 0]
                exact_rows = int(row.get("t0") or 0)
                exact_moments += [_in_parts(compiled, block, int(total), exact_rows) for total in exact_cells]
        return [exact_moments]


def _in_parts(compiled: CompiledMoments, block: Block, exact_total: int, exact_rows: int) -> int:
    """Return an exact sum of products of steps as parts of a row, rounded down; squares less a half a row."""
    scale = 1
    for number in block.numbers:
        scale *= compiled.numbers[number].width
    if block.is_square:
        factor = SQUARE.numerator * PARTS
        return (2 * exact_total - exact_rows * scale) * factor // (2 * scale * SQUARE.denominator)
    return exact_total * PARTS // scale


def _prepare(compiled: CompiledMoments, on: Primitives) -> tuple[list[Any], list[Any], Any]:
    """Return the SQL of each number, of each category's code and of the fold, and keep the rows that have all of them."""
    exp = trees()
    numbers = [number.build(on) for number in compiled.numbers]
    codes = [declared.row_code(on) for declared in compiled.categories]
    if compiled.droppable:
        present = [
            exp.Not(this=exp.Is(this=exp.paren(part.copy()), expression=exp.Null())) for part in (*numbers, *codes)
        ]
        on.keep(exp.and_(*present))
    fold: Any = whole(0)
    if compiled.halves == 2:
        first = exp.EQ(this=exp.paren(on.chunk(compiled.question.folds)), expression=whole(0))
        fold = exp.paren(exp.Case(ifs=[exp.If(this=first, true=whole(0))], default=whole(1)))
    return numbers, codes, fold


def _name_columns(prefix: str, count: int) -> list[Any]:
    exp = trees()
    return [exp.column(f"{prefix}{i}") for i in range(count)]


def _select_products(compiled: CompiledMoments, on: Primitives) -> exp.Select:
    """Return the sums of all numbers and products: fold, t0 (rows), s0.. and s0_0.., in steps."""
    exp = trees()
    numbers, _, fold = _prepare(compiled, on)
    inner = [exp.alias_(fold, "fold"), *(exp.alias_(number, f"z{i}") for i, number in enumerate(numbers))]
    rows = exp.Select(expressions=inner).from_(on.source())
    cells = _name_columns("z", len(numbers))
    outer = [exp.column("fold"), exp.alias_(exp.Count(this=exp.Star()), "t0")]
    for i, cell in enumerate(cells):
        outer.append(exp.alias_(on.total(cell.copy(), Fraction(compiled.numbers[i].width)), f"s{i}"))
    for i, j in itertools.combinations_with_replacement(range(len(cells)), 2):
        largest = Fraction(compiled.numbers[i].width * compiled.numbers[j].width)
        product = exp.Mul(this=cells[i].copy(), expression=cells[j].copy())
        outer.append(exp.alias_(on.total(product, largest), f"s{i}_{j}"))
    select: exp.Select = exp.Select(expressions=outer).from_(rows.subquery("sordino_rows"))
    return select.group_by(exp.column("fold"))


def _select_by_values(compiled: CompiledMoments, on: Primitives) -> exp.Select:
    """Return counts and sums by the values of one category, or of two: fold, k0.., `left_out`, t0 and s0.., in steps."""
    exp = trees()
    numbers, codes, fold = _prepare(compiled, on)
    inner = [exp.alias_(fold, "fold")]
    inner += [exp.alias_(code, f"k{i}") for i, code in enumerate(codes)]
    inner += [exp.alias_(number, f"z{i}") for i, number in enumerate(numbers)]
    rows = exp.Select(expressions=inner).from_(on.source())
    keyed = _name_columns("k", len(codes))
    left_out = exp.alias_(exp.Anonymous(this="GROUPING", expressions=keyed), "left_out")
    outer = [exp.column("fold"), *(key.copy() for key in keyed), left_out, exp.alias_(exp.Count(this=exp.Star()), "t0")]
    for i, cell in enumerate(_name_columns("z", len(numbers))):
        outer.append(exp.alias_(on.total(cell, Fraction(compiled.numbers[i].width)), f"s{i}"))
    sets = [
        exp.Tuple(expressions=[exp.column("fold"), *(keyed[i].copy() for i in group)])
        for group in _value_groups(compiled)
    ]
    select: exp.Select = exp.Select(expressions=outer).from_(rows.subquery("sordino_rows"))
    select.set("group", exp.Group(grouping_sets=[exp.GroupingSets(expressions=sets)]))
    return select


def _value_groups(compiled: CompiledMoments) -> list[tuple[int, ...]]:
    """Return the groups of categories that rows are counted by: each by itself, and each two."""
    count = range(len(compiled.categories))
    return [*((c,) for c in count), *itertools.combinations(count, 2)]


def _read_by_values(compiled: CompiledMoments, table: pa.Table) -> dict[Any, dict[int, dict[str, Any]]]:
    """Return the exact sums of each fold and group of categories, by cell."""
    count = len(compiled.categories)
    sizes = [len(declared.labels) for declared in compiled.categories]
    groups = {sum(1 << (count - 1 - i) for i in range(count) if i not in group): group for group in _value_groups(compiled)}
    exact_sums: dict[Any, dict[int, dict[str, Any]]] = {}
    for row in table.to_pylist():
        group = groups[int(row["left_out"])]
        cell = 0
        for category in group:
            cell = cell * sizes[category] + int(row[f"k{category}"])
        exact_sums.setdefault((int(row["fold"]), group), {})[cell] = row
    return exact_sums

