"""Lines of buckets: rows fall into small buckets by a public hash, and each bucket becomes the line through its rows.

The medians of what these lines say at two places are a robust regression on one number. Knows no data.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from sordino.ask.queries.aggregation import Grouping
from sordino.ask.queries.expressions.missing import may_be_missing
from sordino.ask.queries.expressions.nodes import Name, describe, plain
from sordino.ask.queries.expressions.sql_trees import greatest, least, whole
from sordino.ask.queries.moment_matrix import ScaledNumber, scale_number
from sordino.core.domain import Domain, Integer
from sordino.core.errors import QuestionRefused
from sordino.core.neighbors import Neighbors
from sordino.core.primitives import Primitives

if TYPE_CHECKING:
    from sqlglot import exp

# The columns of a line: what it says at each place, in whole parts of a step of y.
LEFT = "at_left"
RIGHT = "at_right"
MOST_HASHINGS = 32
# What lines say is counted in as many parts of a step of y as keep it within this size.
_MOST_PARTS = 1 << 20
# A bucket of more rows has no line, so that its products stay within 38 digits.
_MOST_ROWS = 1 << 12
# The public hash is below this; it is multiplied by odd numbers of so many bits.
_HASH = 1 << 31
_HALF_HASH = 1 << 16
_SPREAD = (0x5851F42D, 0x3C6EF35F)


@dataclass(frozen=True, slots=True)
class BucketLines:
    """A row step that makes lines of rows: the least squares of `y` on `x` in each bucket, read at two places of x.

    Each unit falls into one of `buckets` by a public hash, `hashings` times independently. `left` and `right` are places of x in
    the steps of `ScaledNumber`; the two columns of a line are in parts of such steps of y, and cut to its declared range. A
    bucket has a line where its rows have two different x at least.

    Theorem. A unit more or less exchanges at most one line a hashing for at most one other; a unit that is replaced, at most two.
    So tables of lines are neighbors under replace with `hashings` rows a unit, and twice as many where the table is under replace
    itself. Where no column names the units, that is so of each of a unit's rows. Proof. The bucket of a row is a function of the
    hash of its unit, so all its rows are in one bucket a hashing, and only the line of this bucket depends on them. Where
    a row is the unit, it is a function of the row's cells and of how many rows with the same hash, x and y are counted
    before it: these are alike to the lines, so one more adds one number at the end of the count and moves no other row. Which
    rows count under caps is a function of the unit's rows alone, and all arithmetic is exact or rounded within one bucket.
    """

    x: Name
    y: Name
    buckets: int
    hashings: int
    left: int
    right: int

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns."""
        return LEFT, RIGHT

    def numbers(self, domain: Domain) -> tuple[ScaledNumber, ScaledNumber]:
        """Return x and y over the domain of the rows; raises QuestionRefused where one has no bounds, or is constant."""
        x = scale_number(Grouping(describe(self.x), self.x), domain)
        return x, scale_number(Grouping(describe(self.y), self.y), domain)

    def check(self, domain: Domain) -> tuple[ScaledNumber, ScaledNumber]:
        """Return x and y; raises QuestionRefused for buckets, hashings or places that an engine could not hold."""
        x, y = self.numbers(domain)
        if not 1 <= self.buckets <= _HASH or not 1 <= self.hashings <= MOST_HASHINGS:
            raise QuestionRefused(f"lines are of 1 to 2^31 buckets, and of 1 to {MOST_HASHINGS} hashings")
        if not -x.width <= self.left < self.right <= x.width:
            raise QuestionRefused("lines are read at two places within the declared bounds, the left one first")
        return x, y

    def domain(self, domain: Domain) -> Domain:
        """Return the two columns of lines, in parts of steps of y."""
        _, y = self.check(domain)
        most = y.width * line_parts(y)
        steps = Integer(-most, most)
        ceiling = domain.row_ceiling * self.hashings
        return Domain({LEFT: steps, RIGHT: steps}, row_ceiling=ceiling, unreadable_rows=True)

    def neighbors(self, neighbors: Neighbors) -> Neighbors:
        """Return the relation of the lines."""
        # Rows that are each made of all rows of a unit, and then joined, are no longer named by it.
        is_named = neighbors.id_column is not None and neighbors.capped
        rows = 1 if is_named else neighbors.contributions
        sides = 2 if neighbors.relation == "replace" else 1
        return Neighbors("replace", None, copies=self.hashings * rows * sides)

    def implied_conditions(self) -> None:
        """Return None: it makes other rows, of which conditions on earlier ones say nothing."""
        return

    def apply(self, on: Primitives, domain: Domain) -> Primitives:
        """Return the primitives of the lines."""
        from sqlglot import exp

        x, y = self.check(domain)
        cells = [x.build(on), y.build(on)]
        if any(may_be_missing(node, domain).columns for node in (self.x, self.y)):
            present = [exp.Not(this=exp.Is(this=exp.Paren(this=cell.copy()), expression=exp.Null())) for cell in cells]
            on.keep(cast(exp.Expression, exp.and_(*present, copy=False)))
        hashed = on.chunk(_HASH)
        columns = [exp.alias_(cell, name) for cell, name in zip((*cells, hashed), ("x", "y", "h"), strict=True)]
        rows = exp.Select(expressions=columns).from_(on.source(), copy=False)
        if not on.has_units:
            rows = _tell_equal_rows_apart(rows)
        sums = _sum_buckets(_throw_rows(rows, self.buckets, self.hashings), on)
        return on.of_groups(_draw_lines(sums, on, (self.left, self.right), y), numbers=self.names)

    def describe(self) -> str:
        """Return the step in words."""
        often = "" if self.hashings == 1 else f", {self.hashings} times"
        return f"of the lines of {describe(self.y)} on {describe(self.x)} in {self.buckets:,} buckets by a public hash{often}"

    def plain(self) -> Any:
        """Return the step as canonical JSON data."""
        return ["lines", plain(self.x), plain(self.y), self.buckets, self.hashings, self.left, self.right]


def line_parts(y: ScaledNumber) -> int:
    """Return in how many parts of a step of y lines are counted."""
    return max(_MOST_PARTS // y.width, 1)


# ---- The SQL of its rows


def _column(name: str) -> Any:
    from sqlglot import exp

    return exp.column(name)


def _select(columns: Sequence[tuple[Any, str]], rows: exp.Select, name: str) -> exp.Select:
    """Return the SELECT of columns, each with its name, from a sub-query. It takes both over: use neither again."""
    from sqlglot import exp

    # sqlglot copies what it is handed: all levels below for each level, which took half of the time of a fit.
    selected = exp.Select(expressions=[exp.alias_(of, alias, copy=False) for of, alias in columns])
    return selected.from_(rows.subquery(name, copy=False), copy=False)


def _times(one: Any, other: Any) -> Any:
    from sqlglot import exp

    return exp.Paren(this=exp.Mul(this=one, expression=other))


def _less(one: Any, other: Any) -> Any:
    from sqlglot import exp

    return exp.Paren(this=exp.Sub(this=one, expression=other))


def _part(one: Any, other: Any) -> Any:
    """Return the whole quotient of numbers that are not negative."""
    from sqlglot import exp

    return exp.Paren(this=exp.IntDiv(this=one, expression=other))


def _within_hash(of: Any) -> Any:
    """Return a number that is not negative modulo the size of the hash."""
    from sqlglot import exp

    return exp.Paren(this=exp.Mod(this=of, expression=whole(_HASH)))


def _tell_equal_rows_apart(rows: exp.Select) -> exp.Select:
    """Return the rows with a hash of their own where several have the same hash, x and y: it is mixed with their number.

    A number below 2^31 meets one below 2^31, so all products are below 2^62.
    """
    from sqlglot import exp

    keys = [_column(name) for name in ("h", "x", "y")]
    number = exp.Window(this=exp.RowNumber(), partition_by=keys)
    rows = _select(
        [(_column("x"), "x"), (_column("y"), "y"), (_column("h"), "h"), (number, "r")], rows, "sordino_hashed"
    )
    moved = exp.Add(this=_column("h"), expression=_times(_within_hash(_column("r")), whole(_SPREAD[0])))
    rows = _select([(_column("x"), "x"), (_column("y"), "y"), (_within_hash(moved), "h")], rows, "sordino_numbered")
    for factor in _SPREAD:
        upper = exp.Paren(this=exp.Add(this=_part(_column("h"), whole(_HALF_HASH)), expression=whole(factor)))
        mixed = _within_hash(_times(_column("h"), upper))
        rows = _select([(_column("x"), "x"), (_column("y"), "y"), (mixed, "h")], rows, "sordino_mixed")
    return rows


def _throw_rows(rows: exp.Select, buckets: int, hashings: int) -> exp.Select:
    """Return each row once a hashing j, with its bucket b: the upper bits of the hash times an odd number of the hashing.

    (Multiply-shift: Dietzfelbinger, Hagerup, Katajainen, Penttonen 1997, "A reliable randomized algorithm for the
    closest-pair problem", section 2.)
    """
    from sqlglot import exp

    one: list[Any] = [
        exp.Select(expressions=[exp.alias_(whole(j), "j", copy=False), exp.alias_(whole(factor), "f", copy=False)])
        for j, factor in enumerate(_factors(hashings))
    ]
    listed: Any = functools.reduce(lambda a, b: exp.Union(this=a, expression=b, distinct=False), one)
    # The product is below 2^62, and so is that of the hash and the number of buckets.
    multiplied = _within_hash(_times(_column("h"), _column("f")))
    bucket = _part(_times(multiplied, whole(buckets)), whole(_HASH))
    columns = [(_column("j"), "j"), (bucket, "b"), (_column("x"), "x"), (_column("y"), "y")]
    return _select(columns, rows, "sordino_rows").join(
        listed.subquery("sordino_hashings", copy=False), join_type="cross", copy=False
    )


def _factors(count: int) -> list[int]:
    """Return public odd numbers below 2^31, by a linear congruence (Knuth 1997, section 3.3.4, line 26)."""
    state = 1
    factors = []
    for _ in range(count):
        state = (6364136223846793005 * state + 1442695040888963407) % (1 << 64)
        factors.append(state >> 33 | 1)
    return factors


def _sum_buckets(rows: exp.Select, on: Primitives) -> exp.Select:
    """Return n, sx, sy, sxx and sxy of each bucket; all are 0 in one of too many rows."""
    from sqlglot import exp

    products = {
        "sx": _column("x"),
        "sy": _column("y"),
        "sxx": _times(_column("x"), _column("x")),
        "sxy": _times(_column("x"), _column("y")),
    }
    # Products are below 2^42, and engines add up in more than 64 bits.
    sums = [(exp.Count(this=exp.Star()), "n"), *((exp.Sum(this=of), name) for name, of in products.items())]
    grouped = _select(sums, rows, "sordino_thrown").group_by(_column("j"), _column("b"), copy=False)
    # Cut before they are multiplied, also where an engine computes what it does not return.
    few = exp.LTE(this=_column("n"), expression=whole(_MOST_ROWS))
    cut = [
        (on.wide(exp.Case(ifs=[exp.If(this=few.copy(), true=_column(name))], default=whole(0))), name)
        for name in ("n", *products)
    ]
    return _select(cut, grouped, "sordino_buckets")


def _draw_lines(sums: exp.Select, on: Primitives, places: Sequence[int], y: ScaledNumber) -> exp.Select:
    """Return what the line of each bucket says at two places, in parts of a step, rounded to the nearest and cut to the range.

    With d = n sxx - sx^2 and c = n sxy - sx sy the slope is c / d, and the line at a is (sy d + c (n a - sx)) / (n d). With 2^12
    rows of steps of x up to 2^20, and of as many parts of steps of y, d and c are below 2^66, the numerator is below 2^100, and
    no number here passes 2^104.
    """
    from sqlglot import exp

    parts = line_parts(y)
    most = y.width * parts
    determinant = _less(_times(_column("n"), _column("sxx")), _times(_column("sx"), _column("sx")))
    common = _less(_times(_column("n"), _column("sxy")), _times(_column("sx"), _column("sy")))
    kept = [(_column(name), name) for name in ("n", "sx", "sy")]
    lines = _select([*kept, (on.wide(determinant), "d"), (on.wide(common), "c")], sums, "sordino_sums")
    read = [(_times(_column("n"), _column("d")), "q")]
    for name, place in zip((LEFT, RIGHT), places, strict=True):
        from_mean = _less(_times(_column("n"), whole(place)), _column("sx"))
        numerator = exp.Add(this=_times(_column("sy"), _column("d")), expression=_times(_column("c"), from_mean))
        read.append((_times(exp.Paren(this=numerator), whole(parts)), name))
    # A bucket of one x has no line.
    read_lines = _select([(on.wide(of), name) for of, name in read], lines, "sordino_lines")
    read_lines = read_lines.where(exp.GT(this=_column("d"), expression=whole(0)), copy=False)
    reach = _times(_column("q"), whole(most))
    # Never negative, and the divisor never 0, also where an engine computes rows that it does not return.
    above: list[tuple[Any, str]] = [(greatest(_column("q"), whole(1)), "q")]
    for name in (LEFT, RIGHT):
        cut = least(greatest(_column(name), exp.Neg(this=reach.copy())), reach.copy())
        above.append((exp.Paren(this=exp.Add(this=cut, expression=reach.copy())), name))
    cut_lines = _select([(on.wide(of), name) for of, name in above], read_lines, "sordino_read")
    rounded = []
    for name in (LEFT, RIGHT):
        doubled = exp.Add(this=_times(_column(name), whole(2)), expression=_column("q"))
        part = _part(on.wide(exp.Paren(this=doubled)), on.wide(_times(_column("q"), whole(2))))
        rounded.append((exp.Cast(this=_less(part, whole(most)), to=exp.DataType.build("BIGINT")), name))
    return _select(rounded, cut_lines, "sordino_cut")
