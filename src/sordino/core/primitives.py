"""The primitives that an engine must express in SQL for our queries, each a total function of one row.

A primitive never raises on any stored value and yields NULL for a cell that is missing or cannot be read as declared. The
trees it returns are sqlglot expressions; nothing here runs anything.

Theorem: no accepted question fails at run time because of its rows. Each primitive that takes numbers states the range for
which it is total, and its caller proves at plan, by `check_range` over exact intervals, that every number which may reach it
is in that range: a `BoundNumber` cannot be made of others, nor a constant written. Conversely, a question that some rows could
make fail would reveal by its failure, at any price, whether such rows exist.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, Protocol

from sordino.core.errors import QuestionRefused
from sordino.core.neighbors import ContributionBounds

if TYPE_CHECKING:
    from sqlglot import exp

# sums and differences of two such numbers stay within 38 decimal digits, in which engines compute
WIDEST = 10**37
# below it sums and differences of two numbers stay within 64 bits
NARROW = 2**62
# the most of a number, and of a weight, in `ProductSums`
MOST_FACTOR = 1 << 21
MOST_WEIGHT = 1 << 12


class OutOfRange(QuestionRefused):
    """A number of a question may leave the range for which primitives are total."""


def check_range(*numbers: int | Fraction | None) -> None:
    """Raise OutOfRange unless each number lies within [-WIDEST, WIDEST], where every primitive is total.

    None stands for a side without a bound, which is outside. Give it both ends of every interval that SQL computes with.
    """
    for number in numbers:
        if number is None or not -WIDEST <= number <= WIDEST:
            raise OutOfRange(
                "a number of this question may grow past 37 digits: clip its columns first, declare their bounds, or "
                "write smaller constants"
            )


@dataclass(frozen=True, slots=True)
class FloatSteps:
    """How a float x becomes whole steps: floor(x op factor + 1/2), where x is first clipped to [`first`, `last`]; NaN is missing.

    `cell` is the SQL of x. Of these steps, less `origin`, `by` are read as one, rounded down; where `by` is above 1, none is
    below `origin`. All of these whole numbers are of at most 2^52.
    """

    cell: exp.Expression
    first: float
    last: float
    op: Literal["*", "/"]
    factor: float
    origin: int = 0
    by: int = 1


@dataclass(frozen=True, slots=True)
class ShrunkWeight:
    """By what the weight of a row is cut: to `limit` // l, where l is `least` + the sum of parts * z^2 // square of each number.

    `parts`, a power of two, times z^2 stays within 2^62, and `limit` and l within 2^53.
    """

    least: int
    parts: int
    squares: tuple[int, ...]
    limit: int


@dataclass(frozen=True, slots=True)
class ProductSums:
    """What a SELECT adds up, as its `meta["products"]` says it to engines that multiply faster than SQL.

    `rows` selects whole numbers of 32 bits: where `weight` is None, w, of 0 to MOST_WEIGHT, which every row has else; z0.. as
    many as `numbers`; and where `folds` is above 1, fold, of 0 to `folds` - 1. A number for which `floats` has steps is selected
    as a double, and its steps take its place. Each lies within its `ends`, at most MOST_FACTOR apart. Of each number `numbers`
    says `times` and `less`: z is `times` * what is selected - `less`, both of at most 2^52, and itself of at most MOST_FACTOR.
    `shrunk` says by what w is cut. No |w z_i z_j| passes `most`. A row that lacks one of these takes no part. The answer has a
    row a fold: fold, t0, the sum of w, s0.. of w z_0.., and s0_0, s0_1.. of w z_i z_j for each i and each j from i on, or, with
    `squares_alone`, for j = i.
    """

    rows: exp.Select
    numbers: tuple[tuple[int, int], ...]
    ends: tuple[tuple[int, int], ...]
    folds: int
    most: int
    weight: int | None = None
    shrunk: ShrunkWeight | None = None
    floats: tuple[FloatSteps | None, ...] = ()
    squares_alone: bool = False


@dataclass(frozen=True, slots=True)
class UnitCell:
    """One value of all rows of a unit: rows, count, distinct, sum, mean, median, variance, mode, min, max, any, all, first, last.

    `form` is how it is held: a number in whole steps, a text or a truth. Missing values take no part. The first and the
    last value are those by the whole number `by`, and of several with the same one the least and the largest. A mean is
    floor(parts * mean + 1/2), computed in whole numbers; no value of it is below `low`. A median is twice the mean of the
    two values in the middle. Variances are in parts of a square step, that of a sample missing for one row. Of the values `low`
    to `low` + `parts` - 1 the mode is the most frequent, the least of several; `labels` are what they stand for, if anything.
    """

    kind: str
    form: str
    value: exp.Expression | None = None
    by: exp.Expression | None = None
    low: int = 0
    parts: int = 1
    labels: tuple[str | int | bool, ...] = ()


@dataclass(frozen=True, slots=True)
class WindowOrder:
    """One key of an ordering: an expression, whether the largest comes first, and whether missing values do."""

    by: exp.Expression
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class UnitWindow:
    """A value that a row has among its unit's rows, as SQL's OVER (PARTITION BY unit, `within` ORDER BY `order`).

    `kind` is lag, lead (by `offset` rows), first_value, last_value, nth_value (of row `offset`), row_number, rank, dense_rank,
    ntile (of `offset` parts); or rows, count, sum, mean, min or max of the rows up to this one and those of equal order, of all
    rows where there is no order, or of the rows from `frame[0]` to `frame[1]` places after this one, None for all. Where
    `by_value`, the frame is of the rows whose one number of the order lies so far from this one's. `form` is how it is held,
    as of `UnitCell`; a `wide` number takes more than 64 bits. A mean is as of `UnitCell`, by `low` and `parts`.
    """

    kind: str
    form: str
    value: exp.Expression | None = None
    within: tuple[exp.Expression, ...] = ()
    order: tuple[WindowOrder, ...] = ()
    offset: int = 1
    frame: tuple[int | None, int | None] | None = None
    wide: bool = True
    by_value: bool = False
    low: int = 0
    parts: int = 1


class Primitives(Protocol):
    """The primitives of one engine for one SELECT over one table; cells are named by their declared column.

    An engine makes new ones for each SELECT, and `source` is called last: it contains the steps that the others named.
    """

    def source(self) -> exp.Expression:
        """Return the relation to select from, each unit's contribution bounded where a column names the units."""

    def raw(self, column: str) -> exp.Expression:
        """Return the cell as it is stored; a cell of CSV is trimmed, and missing where it equals a null value."""

    def is_decimal(self, column: str) -> bool:
        """Return whether a column's numbers are whole or stored as decimals, so that a cast rounds halves away from 0."""

    def integer(self, column: str, lower: int, upper: int) -> exp.Expression:
        """Return the cell as a 64-bit whole number clipped to [lower, upper]; total for bounds within 64 bits."""

    def lattice(self, column: str, step: Fraction, lower: int, upper: int) -> exp.Expression:
        """Return floor(cell / step + 1/2) as a 64-bit whole number clipped to [lower, upper].

        Total for 2^-512 <= step <= 2^512 and bounds within 2^62. A cell held as a double reads as the decimal that it
        is nearest to, up to 10^15 steps; beyond, as a step that may be one or a few from it.
        """

    def float_steps(self, value: exp.Expression) -> FloatSteps | None:
        """Return from what double the steps that `lattice` returned are computed; None where it is otherwise, or not known."""

    def join(
        self, table: str, cells: Sequence[exp.Expression], keys: Sequence[exp.Expression], *, left: bool, copies: int
    ) -> None:
        """Join a public table where each of `keys`, of its columns sordino_key_0.., equals its cell; call it first.

        At most `copies` of its rows share a key. From then on its columns are named table.column. Without `left`, rows that
        meet no key are dropped.
        """

    def blank(self, columns: Sequence[str], condition: exp.Expression) -> None:
        """Make the cells of some columns of a joined table missing where a condition is not true."""

    def unnest(self, column: str, most: int) -> None:
        """Turn each row into one for each of the first `most` items of its list, which `column` names from then on.

        Rows whose list is missing or empty are dropped. Call it before primitives that read the column.
        """

    def join_unit(self, table: str, *, left: bool, own: bool = False) -> None:
        """Join the rows of another private table of the same people, bounded as declared, where its unit is the row's.

        With `own` these are rows of this table once more, under the name `table`. From then on its columns are named
        table.column. Without `left`, rows of units that it does not have are dropped.
        """

    def other_rows(self, table: str | None) -> Primitives:
        """Return the primitives for all rows of another private table of the same people, or of this one where None."""

    def mark_units(self, column: str, rows: Primitives, condition: exp.Expression | None) -> None:
        """Add a true or false `column`: whether the row's unit has `rows`, from `other_rows`, that meet a condition on them."""

    def mark_matches(
        self, column: str, table: str | None, condition: Callable[[Primitives], exp.Expression], *, name: str
    ) -> None:
        """Add a true or false `column`: whether the row's unit has rows in another private table that meet a condition beside it.

        They are of this table where None, and bounded as declared. `condition` is of the row with one of them, whose columns are
        named name.column there, and nowhere else.
        """

    def join_values(
        self, columns: Mapping[str, str], rows: Primitives, condition: exp.Expression | None, *, key: str, left: bool
    ) -> None:
        """Join `rows`, one a unit, from `unit_rows`, that meet a condition, where their unit is the row's.

        `columns` says what columns of theirs the new ones are; `key` names the unit where it has such a row. Without `left`,
        rows of units that have none are dropped.
        """

    def category_cell(self, column: str, *, whole: bool) -> exp.Expression:
        """Return a category's cell as text, or as a whole number where `whole`."""

    def code_of(self, cell: exp.Expression, values: Sequence[str] | Sequence[int], other: int | None) -> exp.Expression:
        """Return the place of a held cell among `values`, from 0; `other` for any other cell that is not missing.

        Total for any text, and for whole numbers within 64 bits.
        """

    def place_of(self, cell: exp.Expression, values: Sequence[str]) -> exp.Expression:
        """Return the place of a text among distinct values, from 0; NULL for any other. Total for any text.

        Texts are equal where all of their characters are, blanks too.
        """

    def is_code(self, code: exp.Expression, codes: Sequence[int], *, below: int | None = None) -> exp.Expression:
        """Return whether a whole number is one of several; NULL for NULL. Total for any, or with `below` for 0 to `below` - 1."""

    def of_groups(self, cells: exp.Select, numbers: Sequence[str] = ()) -> Primitives:
        """Return the primitives for the rows of a grouped SELECT, by the names of its columns.

        `numbers` are its columns of whole numbers, where the rows are to be read as those of a table that has these alone.
        """

    def strip(self, text: exp.Expression) -> exp.Expression:
        """Return a text without the blanks around it."""

    def keep(self, condition: exp.Expression) -> None:
        """Keep only the rows that meet a condition; call it after the condition's own primitives, before all others."""

    @property
    def has_units(self) -> bool:
        """Whether a column names each row's unit, so that contributions are bounded."""

    def bound_contributions(
        self, keys: Sequence[exp.Expression], requested: ContributionBounds | None, *, totals: bool
    ) -> list[exp.Expression]:
        """Keep, of each unit, the rows that `Neighbors.enforce` allows, where joins made several of one row.

        Rows with a key that is NULL are dropped first. Which rows are kept follows from the unit's own rows alone. If it is not
        called, `source` bounds the rows of a unit in all groups together; without units it does nothing. With `totals` all rows
        of the remaining groups stay, for `unit_total`, and `counts` marks those that count. Returns the keys, named.
        """

    def bound_periods(
        self, period: exp.Expression, window: exp.Expression, *, first: int, participation: tuple[int, int], most: int
    ) -> None:
        """Keep, of each unit, the rows from period `first` on of its first periods of each window, and `most` rows of a period.

        `participation` is how many periods of a window count, and how many a window has. In place of `bound_contributions`, where
        a column names the units; rows of earlier periods of the same windows must still be there.
        """

    def is_unit(self, column: str) -> bool:
        """Return whether a column names each row's unit."""

    def distinct_units(self) -> exp.Expression:
        """Return the cell that distinguishes units, rows without one dropped; no contribution is bounded.

        In place of `bound_contributions`, for a question that reads of the rows only which units they have: any bounds keep a
        row of each.
        """

    def counts(self) -> exp.Expression | None:
        """Return whether a row counts under the bounds on rows; None where all remaining rows do."""

    def unit_total(self, value: exp.Expression) -> exp.Expression:
        """Return, in one row of each unit and group, the sum of a whole number over all of them; NULL in the others.

        Total for a value such that the sum lies within WIDEST, after `bound_contributions` with `totals`.
        """

    def unit_groups(self) -> exp.Expression:
        """Return, in one row of each unit and group, how many groups the unit counts in; NULL in the others.

        Total after `bound_contributions` with `totals`, where a column names the units.
        """

    def label(self, code: exp.Expression, labels: Sequence[str | int | bool | None]) -> exp.Expression:
        """Return the label at a place, from 0; None is missing."""

    def unit_rows(self, values: Mapping[str, UnitCell]) -> Primitives:
        """Return the primitives for one row a unit, made of all of its rows, none capped: the unit's column and the values.

        Rows without a unit are dropped. Total where each sum over 2^48 rows, times 2000 for means, lies within WIDEST.
        """

    def add_windows(self, windows: Mapping[str, UnitWindow]) -> None:
        """Add columns that are functions of the rows of the row's unit; primitives from then on may use them.

        Rows of equal order are ordered by all cells that a question can read, so rows that no order distinguishes are alike. No
        rows are capped before. Total where each sum over 2^48 rows is within WIDEST.
        """

    def units(self, of: exp.Expression | None, *, pairs: int | None = None) -> exp.Expression:
        """Return, for `source`, one row a unit: sordino_has, its rows before any cap, or the different values of `of`.

        With `pairs`, one row for each of a unit's first so many values of `of`: the rows that have it.
        """

    def truth(self, column: str) -> exp.Expression:
        """Return the cell as true or false."""

    def days(self, column: str, lower: datetime.date, upper: datetime.date) -> exp.Expression:
        """Return the cell as days since 1970-01-01, clipped to the two days."""

    def moments(self, column: str, zone: str, step: Fraction, lower: int, upper: int) -> exp.Expression:
        """Return the cell as whole steps since 1970 in UTC, rounded down and clipped to [lower, upper].

        A cell without an offset from UTC is read by the clock of `zone`; `step` is in seconds, whole microseconds.
        """

    def look_up(self, value: exp.Expression, starts: Sequence[int], results: Sequence[int]) -> exp.Expression:
        """Return results[i] for the number i of `starts`, which ascend, that are not above the value; NULL for NULL.

        Total for a value, starts and results within WIDEST.
        """

    def text(self, column: str) -> exp.Expression:
        """Return the cell of an identifier as text."""

    def is_text(self, cell: exp.Expression, texts: Sequence[str]) -> exp.Expression:
        """Return whether a text is one of several. Total for any text."""

    def like(self, cell: exp.Expression, kind: str, pattern: str) -> exp.Expression:
        """Return whether a text matches: like and ilike (% and _ stand for any), prefix, suffix or part. Total for any text."""

    def chunk(self, count: int) -> exp.Expression:
        """Return which of `count` chunks the row's unit falls in: a public hash of its id, or of a row's declared cells.

        Total for counts from 1 to 2^62.
        """

    def clip(self, value: exp.Expression, lower: int | None, upper: int | None) -> exp.Expression:
        """Return a whole number clipped; NULL stays NULL. Total for a value and bounds within WIDEST."""

    def name(self, value: exp.Expression) -> exp.Expression:
        """Return the same value, computed once however often it is used."""

    def name_again(self, key: Hashable, build: Callable[[Primitives], exp.Expression]) -> exp.Expression:
        """Return what `build` makes, written out where it is used first and computed once for all that come after.

        Whatever has the same key is the same value.
        """

    def quotient(self, value: exp.Expression, moved: int, size: int) -> exp.Expression:
        """Return the whole quotient of a number moved by `moved`, then never below 0, and `size`; NULL for NULL."""

    def with_cell(
        self, column: str, cell: exp.Expression, build: Callable[[Primitives], exp.Expression]
    ) -> exp.Expression:
        """Return what `build` makes where `days` of a column is `cell`: of rows that were grouped by that cell, say."""

    def tabulate(
        self,
        value: exp.Expression,
        ends: tuple[int, int],
        function: Callable[[Primitives, exp.Expression], exp.Expression],
    ) -> exp.Expression:
        """Return `function` of a whole number that lies within `ends`, NULL for NULL; total where the function is.

        The function is of that number alone, and NULL for NULL. An engine may compute it once for each number, and look it up.
        """

    def wide(self, value: exp.Expression) -> exp.Expression:
        """Return a whole number in a type of at least 38 decimal digits; total for a value within WIDEST."""

    def real_function(
        self, function: str, value: exp.Expression, unit: Fraction, step: Fraction, lower: int, upper: int
    ) -> exp.Expression:
        """Return floor(f(value * unit) / step + 1/2) as a 64-bit whole number clipped to [lower, upper].

        `function` is sqrt, ln, log2, log10 or exp, computed in floating point; NULL where it has no value. Total for a
        value within WIDEST, steps as of `lattice` and bounds within 2^62.
        """

    def unclip(self, value: exp.Expression, op: str, steps: int) -> exp.Expression:
        """Return an expression that compares with a number of steps like a value, without its clipping."""

    def present(self, value: exp.Expression) -> exp.Expression:
        """Return an expression that is missing where a value is, to be counted in its place."""

    def total(self, value: exp.Expression, largest: Fraction | None) -> exp.Expression:
        """Return the aggregate SUM of a whole number, whose size is at most `largest` in any row; call it before `source`.

        Total where the sum over all rows that there may be lies within WIDEST.
        """

    def bin(self, value: exp.Expression, edges: Sequence[int]) -> exp.Expression:
        """Return i where edges[i] <= value < edges[i+1] (the last bin closed), NULL outside.

        Total for a value and edges within WIDEST; edges may not descend.
        """
