"""Tabulation: many tables of the same rows asked for at once, and the vectors that such a question is answered from.

A table counts, or sums, the rows of each combination of declared keys of its columns. Which vectors are measured, and what
is made of their noisy values, an algorithm over a Queryable decides (`sordino.tables`): nothing here chooses a strategy.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast, get_args

import numpy as np

from sordino.ask.queries.adaptive.marginal import Integers, VectorShare, join_words
from sordino.ask.queries.aggregates.distinct import Distinct
from sordino.ask.queries.aggregates.sums import Count, Sum
from sordino.ask.queries.aggregation import Grouping
from sordino.ask.queries.build import AggregateExpr, Column, count, groupings
from sordino.ask.queries.expressions.compile import bind_condition, bind_number
from sordino.ask.queries.expressions.expr import Expr, col
from sordino.ask.queries.expressions.keys import Keys, keys
from sordino.ask.queries.expressions.missing import may_be_missing
from sordino.ask.queries.expressions.nodes import Bin, Name, Node, describe, plain
from sordino.ask.queries.expressions.sql_trees import Build
from sordino.ask.queries.query import Aggregate, Vector
from sordino.ask.queries.queryable import Scan
from sordino.core.domain import Domain, Real
from sordino.core.errors import QuestionRefused, SordinoError, nearest
from sordino.core.estimates.table_cells import BY_COLUMNS, Finish, name_table
from sordino.core.loss import Number, format_number, to_fraction
from sordino.core.neighbors import Neighbors, Sensitivity
from sordino.core.primitives import Primitives

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp

Table = tuple[str, ...]
Objective = Literal["sum", "greatest"]
LevelShares = Literal["equal", "least"]

# Cells of all tables together, and of the smallest of nested areas by all other columns: a release holds each.
_MOST_CELLS = 6_000_000
_MOST_TABLES = 10_000
_MOST_MEASURES = 64
# Keys of a column that is measured for ranges.
_MOST_ORDERED = 1_024
# Cells that several tables are counted by in one scan, from which each follows by sums.
_MOST_SCANNED = 1 << 18
_MEASURED = (Count, Sum, Distinct)
_SHARE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*of\s+(?:(\d+(?:\.\d+)?)|the\s+smallest\b(.*))\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class StatedError:
    """The half-width at 95% that no cell of a measure in a table may pass before it is made whole."""

    table: Table
    measure: str
    half_width: Fraction


@dataclass(frozen=True)
class Invariant:
    """Exact counts that are public already: of the cells of `columns`, `keys` has the key in each column, `counts` the count."""

    columns: Table
    measure: str
    keys: tuple[tuple[str | int | bool | None, ...], ...]
    counts: tuple[int, ...]

    @functools.cached_property
    def digest(self) -> str:
        """The SHA-256 of the keys and counts."""
        return hashlib.sha256(json.dumps([self.keys, self.counts], separators=(",", ":")).encode()).hexdigest()


@dataclass(frozen=True)
class Levels:
    """Nested areas from a public table: `columns` from the widest to that of the private table, `areas` a row for each key of it.

    `shares` of the loss are "equal" for all levels, or "least" for the least errors of the tables asked for.
    """

    columns: tuple[str, ...]
    areas: tuple[tuple[str | int, ...], ...]
    shares: LevelShares = "least"

    @functools.cached_property
    def digest(self) -> str:
        """The SHA-256 of the areas, which are too many to be read in a question."""
        return hashlib.sha256(json.dumps(self.areas, separators=(",", ":")).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Tabulation:
    """Ask for the `measures` of the rows where `where` is true, in each cell of several `tables`.

    `keys` are the columns of all tables, each once; a table names those that it has, and the empty one is the total. `weights`
    are of the tables in order, and empty where all count alike; `objective` says whether the sum or the greatest of squared
    errors is least, within the stated `errors`. Ranges of the keys of `ordered` columns have little error. Every cell of
    declared keys appears, also where no row has it. A row without a key in any column of the tabulation is in none of its
    tables, so that all are about the same rows.
    """

    tables: tuple[Table, ...]
    keys: tuple[Grouping, ...]
    measures: tuple[Aggregate, ...]
    finish: Finish = "whole"
    where: Node | None = None
    weights: tuple[Fraction, ...] = ()
    objective: Objective = "sum"
    errors: tuple[StatedError, ...] = ()
    ordered: tuple[str, ...] = ()
    levels: Levels | None = None
    invariants: tuple[Invariant, ...] = ()
    # A column by whose value each row counts, and what is done to the released numbers for publication.
    row_weights: str | None = None
    suppress_below: Fraction | None = None
    round_to: Fraction | None = None
    largest: int | None = None

    # The feature that plans the algorithm which answers such questions.
    algorithm: ClassVar[str] = "prepare_tabulation"

    @property
    def weighted_measures(self) -> tuple[Aggregate, ...]:
        """The measures as they are computed: where rows have weights, counts are sums of them, and sums of products with them."""
        return tuple(_weigh_rows(measure, self.row_weights) for measure in self.measures)

    def axes(self, table: Table) -> tuple[int, ...]:
        """Return the places of a table's columns among the keys, in ascending order."""
        places = {key.alias: i for i, key in enumerate(self.keys)}
        return tuple(sorted(places[name] for name in table))

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show the question in words in a notebook; `repr` states every part."""
        del cycle
        printer.text(f"<Question: {self.describe()}; table.plan(...) prices it, table.ask(...) answers it>")

    def describe(self) -> str:
        """Return the question as a sentence."""
        what = join_words([measure.describe() for measure in self.measures])
        words = {key.alias: describe(key.of) for key in self.keys}
        named = ["in all" if not t else "by " + " and ".join(words[name] for name in t) for t in self.tables]
        shown = named if len(named) <= 6 else [*named[:5], f"{len(named) - 5:,} more tables"]
        where = "" if self.where is None else f", where {describe(self.where)}"
        how = {
            "whole": "as whole tables that agree, none below 0",
            "linear": "as tables that agree",
            "raw": "each with noise of its own",
        }[self.finish]
        least = ""
        if self.weights:
            least = f", errors weighted {', '.join(format_number(weight) for weight in self.weights[:6])}"
            least += ", ..." if len(self.weights) > 6 else ""
        if self.objective == "greatest":
            least += ", the widest table as near as can be"
        if self.errors:
            named = [f"{format_number(e.half_width)} in {name_table(e.table) or 'the total'}" for e in self.errors[:6]]
            least += f", errors of at most {', '.join(named)}{', ...' if len(self.errors) > 6 else ''}"
        if self.ordered:
            least += f", for ranges of {join_words([words[name] for name in self.ordered])}"
        if self.levels is not None:
            least += f", areas nested as {' > '.join(self.levels.columns)}"
        public = [f"{name_table(i.columns) or 'in all'} (SHA-256 {i.digest[:16]}...)" for i in self.invariants]
        given = f"; with exact public counts by {join_words(public)}" if public else ""
        counted = "" if self.row_weights is None else f", each row counted by its {self.row_weights}"
        published = "" if self.suppress_below is None else f", none of fewer than {format_number(self.suppress_below)}"
        published += "" if self.round_to is None else f", rounded to multiples of {format_number(self.round_to)}"
        published += "" if self.largest is None else f", the {self.largest:,} largest of each group"
        return f"{what}{counted}, {'; '.join(shown)}{where}; {how}{least}{published}{given}"

    def identity(self) -> str:
        """Return canonical text: equal for equal questions."""
        data: dict[str, Any] = {
            "tabulate": [list(table) for table in self.tables],
            "keys": [[key.alias, plain(key.of)] for key in self.keys],
            "measures": [[measure.alias, measure.plain()] for measure in self.measures],
            "finish": self.finish,
            "where": plain(self.where),
            "weights": [format_number(weight) for weight in self.weights],
        }
        # What is stated seldom is only there where it is, so that earlier answers are found again.
        if self.objective != "sum":
            data["objective"] = self.objective
        if self.ordered:
            data["ordered"] = list(self.ordered)
        if self.levels is not None:
            data["levels"] = [list(self.levels.columns), self.levels.digest, self.levels.shares]
        if self.invariants:
            data["invariants"] = [[list(i.columns), i.measure, i.digest] for i in self.invariants]
        if self.errors:
            data["errors"] = [[list(e.table), e.measure, format_number(e.half_width)] for e in self.errors]
        # Only where stated, so that earlier answers are found again.
        if self.row_weights is not None:
            data["row_weights"] = self.row_weights
        for name, base in (("suppress_below", self.suppress_below), ("round_to", self.round_to)):
            if base is not None:
                data[name] = format_number(base)
        if self.largest is not None:
            data["largest"] = self.largest
        return json.dumps(data, sort_keys=True, separators=(",", ":"))


def tabulate(
    tables: Sequence[Column | Sequence[Column]],
    measures: Mapping[str, AggregateExpr] | None = None,
    *,
    finish: Finish = "whole",
    where: Expr | None = None,
    weights: Mapping[Any, Number] | Sequence[Number] | None = None,
    objective: Objective = "sum",
    errors: Mapping[Any, Number | Mapping[str, Number]] | None = None,
    ordered: Sequence[str] = (),
    levels: Mapping[str, Any] | None = None,
    invariants: Mapping[Any, Any] | None = None,
    row_weights: str | None = None,
    suppress_below: Number | None = None,
    round_to: Number | None = None,
    largest: int | None = None,
) -> Tabulation:
    """Ask for many tables at once: one plan, one charge, one answer in which the tables agree.

    A table is a list of columns, or of expressions such as `col("birth").year()`; `[]` is the total. `measures` maps the name
    of each to counts, sums of bounded numbers and counts of different values; without them rows are counted. `finish` is
    "whole" (consistent, whole, not negative), "linear" (consistent and unbiased, with exact intervals) or "raw" (each table
    with noise of its own). `weights`, by table or one for each in order, say which tables' squared errors count for more.
    `objective` "greatest" makes the greatest weighted variance of a cell least, in place of the sum over all cells. `errors` are
    half-widths at 95% that tables must not pass, {("region", "sex"): 50}, by measure where there are several, or shares of what
    is public, "3% of 1200" or "3% of the smallest region" of the invariants; a loss at which they cannot be met is refused,
    with the one that would. `ordered` names columns whose keys will be added up over ranges,
    such as ages: they are measured so that every range has little error. `levels` are nested areas, from a public table:
    {"columns": ["state", "county", "tract"], "areas": table}, the last of which is a column of the private table; tables may
    name each of them, and every area is the sum of the areas in it. `invariants` are exact counts that are public already, by
    columns: {("region",): table}, a table with these columns and one of the name of the count. They are never read from the
    data: tables agree with them, and no noise is spent on them.

    Of surveys, `row_weights` names the column of sampling weights: each row counts by its own, clipped to the declared bounds.
    Cells whose released count is below `suppress_below` are not shown, and what is shown is rounded to multiples of
    `round_to`. Of many keys, `largest` shows the k largest released counts of each group: of a table's cells that agree in all
    of its columns but the last. All three look at released numbers alone.

    Raises QuestionRefused for tables, measures or weights that make no sense; what the columns declare is checked by `plan`.

    >>> tabulate([["region", "sex"], "year"]).describe()
    'the number of rows, by region and sex; by year; as whole tables that agree, none below 0'
    """
    if finish not in get_args(Finish):
        raise QuestionRefused(f'finish is "whole", "linear" or "raw", not {finish!r:.40}')
    if where is not None and not isinstance(where, Expr):
        raise QuestionRefused('where takes a condition, such as col("age") > 30')
    if isinstance(tables, (str, Expr)) or not isinstance(tables, Sequence):
        raise QuestionRefused(
            'tabulate takes a list of tables, each a list of columns, such as [["region", "sex"], ["year"]]'
        )
    listed = [[table] if isinstance(table, (str, Expr)) else table for table in tables]
    named: dict[str, Grouping] = {}
    named_tables = tuple([_read_table(table, named) for table in listed])
    nested = None if levels is None else _read_levels(levels)
    if nested is not None:
        # Rows are counted by the smallest areas, whether a table names these or not.
        for name in nested.columns:
            named.setdefault(name, Grouping(name, col(name).node))
    question = Tabulation(
        named_tables,
        tuple(named.values()),
        _read_measures({"count": count()} if measures is None else measures),
        finish,
        None if where is None else where.node,
    )
    question = replace(question, weights=_read_weights(weights, question.tables), objective=objective)
    question = replace(question, ordered=_read_ordered(ordered), levels=nested)
    question = replace(question, invariants=_read_invariants(invariants, question))
    # A share of the smallest public count is stated in terms of these.
    question = replace(question, errors=_read_errors(errors, question))
    survey: dict[str, Any] = {
        "row_weights": row_weights,
        "suppress_below": None if suppress_below is None else to_fraction(suppress_below, name="suppress_below"),
        "round_to": None if round_to is None else to_fraction(round_to, name="round_to"),
        "largest": largest,
    }
    return check_tabulation(replace(question, **survey))


def _read_table(table: Any, named: dict[str, Grouping]) -> Table:
    """Return the names of a table's columns, and put those that are new into `named`."""
    if not isinstance(table, (list, tuple)) or not all(isinstance(column, (str, Expr)) for column in table):
        raise QuestionRefused(f"a table is a list of columns, such as ['region', 'sex'], not {table!r:.60}")
    expressions = [col(column) if isinstance(column, str) else column for column in table]
    groups = groupings([(expression.name, expression.node) for expression in expressions])
    for group in groups:
        known = named.setdefault(group.alias, group)
        if known != group:
            raise QuestionRefused(
                f"two columns of the tabulation are named {group.alias!r}, {describe(known.of)} and {describe(group.of)}: give "
                "one another name with .alias(...)"
            )
    return tuple(group.alias for group in groups)


def _read_measures(measures: Any) -> tuple[Aggregate, ...]:
    if not isinstance(measures, Mapping) or not measures:
        raise QuestionRefused('measures are aggregates by name, such as measures={"income": sd.sum("income")}')
    for name, measure in measures.items():
        if not isinstance(name, str) or not name.strip():
            raise QuestionRefused(f"a measure has a name that is text, not {name!r:.40}")
        if not isinstance(measure, AggregateExpr):
            raise QuestionRefused(f'measure {name!r} is no aggregate, such as sd.count() or sd.sum("income")')
        if measure.formula is not None:
            raise QuestionRefused(
                f"measure {name!r} is a formula: tabulate what it is made of, and compute it by answer.query(...) at no cost"
            )
    return tuple(replace(cast(Any, measure.aggregate), alias=name) for name, measure in measures.items())


def _read_weights(weights: Any, tables: Sequence[Table]) -> tuple[Fraction, ...]:
    """Return a weight a table, in order; nothing where none is given."""
    if weights is None:
        return ()
    if not isinstance(weights, Mapping):
        if isinstance(weights, (str, bytes)) or not isinstance(weights, Sequence) or len(weights) != len(tables):
            raise QuestionRefused(
                f"weights are numbers by table, or {len(tables):,} of them in the order of the tables"
            )
        weights = dict(zip(tables, weights, strict=True))
    found = [Fraction(1)] * len(tables)
    for table, weight in weights.items():
        found[_place_table(table, tables, "weights")] = to_fraction(weight, name="weights")
    return tuple(found)


def _read_errors(errors: Any, question: Tabulation) -> tuple[StatedError, ...]:
    """Return the stated errors, in the order of the tables and measures."""
    if errors is None:
        return ()
    if not isinstance(errors, Mapping):
        raise QuestionRefused('errors are half-widths by table, such as {("region", "sex"): 50}')
    names = [measure.alias for measure in question.measures]
    stated: list[StatedError] = []
    for table, widths in errors.items():
        place = _place_table(table, question.tables, "errors")
        if not isinstance(widths, Mapping):
            if len(names) > 1:
                raise QuestionRefused(
                    f"errors of {len(names)} measures are stated by name, such as {{{names[0]!r}: 50}}"
                )
            widths = {names[0]: widths}
        for name, width in widths.items():
            if name not in names:
                raise QuestionRefused(
                    f"errors name a measure {name!r:.60} that is not asked for; {nearest(str(name), names)}"
                )
            half_width = _read_half_width(width, question.tables[place], name, question.invariants)
            stated.append(StatedError(question.tables[place], name, half_width))
    order = {table: place for place, table in enumerate(question.tables)}
    return tuple(sorted(stated, key=lambda error: (order[error.table], names.index(error.measure))))


def _read_half_width(width: Any, table: Table, measure: str, invariants: Sequence[Invariant]) -> Fraction:
    """Return a stated error: a number, "3% of 1200", or "3% of the smallest region", whose counts are public invariants."""
    if not isinstance(width, str) or "%" not in width:
        return to_fraction(width, name="errors")
    match = _SHARE.fullmatch(width)
    if match is None:
        raise QuestionRefused(
            f'errors state {width!r:.60}, a share of nothing: write "3% of 1200", or "3% of the smallest region", whose counts '
            "are public invariants"
        )
    share, number, columns = match.groups()
    if number is not None:
        return to_fraction(share, name="errors") / 100 * to_fraction(number, name="errors")
    names = frozenset(part.strip() for part in columns.split(",") if part.strip()) or frozenset(table)
    public = next((i for i in invariants if frozenset(i.columns) == names and i.measure == measure), None)
    if public is None or not min(public.counts, default=0):
        wrong = "none are stated" if public is None else "the smallest is 0"
        raise QuestionRefused(
            f"errors state {width!r:.60}, and public counts of it, which invariants give, are needed: {wrong}. The data are not "
            'read for an error: write "3% of 1200", with a figure that is public'
        )
    return to_fraction(share, name="errors") / 100 * min(public.counts)


def _read_ordered(ordered: Any) -> tuple[str, ...]:
    if isinstance(ordered, str) or not isinstance(ordered, Sequence) or not all(isinstance(o, str) for o in ordered):
        raise QuestionRefused('ordered is a list of columns, such as ["age"]')
    return tuple(ordered)


def _read_levels(levels: Any) -> Levels:
    """Return nested areas out of a mapping of columns, areas and, if wanted, shares."""
    if isinstance(levels, Levels):
        return levels
    form = 'levels are {"columns": ["state", "county", "tract"], "areas": a public table with these columns}'
    if not isinstance(levels, Mapping):
        raise QuestionRefused(form)
    for key in levels:
        if key not in ("columns", "areas", "shares"):
            raise QuestionRefused(f"levels have no {key!r:.40}; {nearest(str(key), ('columns', 'areas', 'shares'))}")
    columns = levels.get("columns")
    areas = levels.get("areas")
    if isinstance(columns, str) or not isinstance(columns, Sequence) or not all(isinstance(c, str) for c in columns):
        raise QuestionRefused(form)
    if hasattr(areas, "__arrow_c_stream__"):
        import pyarrow as pa

        table = pa.table(areas)
        missing = next((name for name in columns if name not in table.column_names), None)
        if missing is not None:
            raise QuestionRefused(f"the areas have no column {missing!r:.40}; {nearest(missing, table.column_names)}")
        areas = list(zip(*(table.column(name).to_pylist() for name in columns), strict=True))
    if isinstance(areas, (str, bytes)) or not isinstance(areas, Sequence):
        raise QuestionRefused(form)
    rows = tuple(tuple(row) if isinstance(row, (list, tuple)) else (row,) for row in areas)
    return Levels(tuple(columns), rows, levels.get("shares", "least"))


def _read_invariants(invariants: Any, question: Tabulation) -> tuple[Invariant, ...]:
    """Return public counts out of tables by their columns, of Arrow or lists of mappings."""
    if invariants is None:
        return ()
    if not isinstance(invariants, Mapping):
        raise QuestionRefused('invariants are public tables by their columns, such as {("region",): table}')
    counted = [measure.alias for measure in question.measures if isinstance(measure, Count)]
    read: list[Invariant] = []
    for table, source in invariants.items():
        columns = (table,) if isinstance(table, str) else table
        if not isinstance(columns, tuple) or not all(isinstance(name, str) for name in columns):
            raise QuestionRefused(f"invariants are public tables by their columns, not by {table!r:.60}")
        named = name_table(columns) or "()"
        if hasattr(source, "__arrow_c_stream__"):
            import pyarrow as pa

            source = pa.table(source).to_pylist()
        if not isinstance(source, Sequence) or not all(isinstance(row, Mapping) for row in source) or not source:
            raise QuestionRefused(f"the invariant by {named} is a table of public counts, or a list of rows by column")
        names = [name for name in source[0] if name not in columns]
        missing = next((name for name in columns if name not in source[0]), None)
        if missing is not None or not names:
            raise QuestionRefused(
                f"the table of the invariant by {named} has the columns {', '.join(map(str, source[0]))}: it needs "
                f"{', '.join(map(str, (*columns, *counted[:1])))}"
            )
        for name in names:
            if name not in counted:
                raise QuestionRefused(
                    f"the invariant by {named} has a column {name!r:.40} that is no count of rows asked for; "
                    f"{nearest(str(name), counted)}"
                )
            counts = [_read_count(row.get(name), named) for row in source]
            keys = tuple(tuple(row.get(column) for column in columns) for row in source)
            read.append(Invariant(columns, name, keys, tuple(counts)))
    return tuple(read)


def _read_count(value: Any, named: str) -> int:
    try:
        count = to_fraction(value, name="invariants")
    except SordinoError:
        count = Fraction(-1)
    if count < 0 or count.denominator != 1:
        raise QuestionRefused(f"the invariant by {named} has a count {value!r:.40}: counts are whole and not below 0")
    return int(count)


def _check_invariant(question: Tabulation, invariant: Invariant) -> None:
    """Raise QuestionRefused where a public count is of no table, or its question cannot agree with it."""
    named = name_table(invariant.columns) or "()"
    if len(set(invariant.columns)) < len(invariant.columns):
        raise QuestionRefused(f"the invariant by {named} has a column twice")
    if not any(set(invariant.columns) <= set(table) for table in question.tables):
        raise QuestionRefused(f"the invariant by {named} is within no table: ask for a table with these columns")
    if not any(m.alias == invariant.measure and isinstance(m, Count) for m in question.measures):
        raise QuestionRefused(
            f"the invariant by {named} is of {invariant.measure!r:.40}, which is no count of rows asked for"
        )
    if question.finish == "raw" or question.levels is not None or question.row_weights is not None:
        raise QuestionRefused(
            'tables of counts of rows agree with invariants by least squares: without finish="raw", levels= and row_weights='
        )
    if len(invariant.keys) != len(invariant.counts) or any(count < 0 for count in invariant.counts):
        raise QuestionRefused(f"the invariant by {named} has one count of at least 0 for each key")


def _check_levels(question: Tabulation, nested: Levels) -> None:
    """Raise QuestionRefused where areas do not nest, or a question asks of them what they do not give."""
    columns = nested.columns
    if len(columns) < 2 or len(set(columns)) < len(columns):
        raise QuestionRefused("levels have at least two columns, each once, from the widest area to the smallest")
    if nested.shares not in get_args(LevelShares):
        raise QuestionRefused(f'shares of levels are "equal" or "least", not {nested.shares!r:.40}')
    if question.finish == "raw" or question.ordered:
        raise QuestionRefused('levels are one least squares over all areas: without finish="raw" and ordered=')
    for table in question.tables:
        if sum(name in columns for name in table) > 1:
            raise QuestionRefused(
                f"the table {list(table)} has several levels: one says in which areas of the others it lies"
            )
    for measure in question.measures:
        if isinstance(measure, Distinct):
            raise QuestionRefused(f"measure {measure.alias!r} counts different values, which do not add up over levels")
    if not nested.areas:
        raise QuestionRefused("the public table of the levels has no rows")
    above: dict[tuple[int, str | int], str | int] = {}
    leaves: set[str | int] = set()
    for row in nested.areas:
        if len(row) != len(columns) or not all(isinstance(label, (str, int)) for label in row):
            raise QuestionRefused(f"each row of the areas has a name in each of {', '.join(columns)}, not {row!r:.60}")
        if row[-1] in leaves:
            raise QuestionRefused(f"the areas have {columns[-1]} {row[-1]!r:.40} twice")
        leaves.add(row[-1])
        for level in range(1, len(row)):
            parent = above.setdefault((level, row[level]), row[level - 1])
            if parent != row[level - 1]:
                raise QuestionRefused(
                    f"the {columns[level]} {row[level]!r:.40} lies in {parent!r:.40} and in {row[level - 1]!r:.40}: areas nest, "
                    "so give two areas two names, such as codes"
                )


def _place_table(table: Any, tables: Sequence[Table], argument: str) -> int:
    """Return the place of a table that an argument names by its columns, in any order."""
    known = {frozenset(one): place for place, one in enumerate(tables)}
    names = (table,) if isinstance(table, str) else table
    if not isinstance(names, (tuple, frozenset)) or not all(isinstance(name, str) for name in names):
        raise QuestionRefused(f"{argument} are by table, such as {{('region', 'sex'): 3}}, not by {table!r:.60}")
    place = known.get(frozenset(names))
    if place is None:
        near = nearest(name_table(tuple(map(str, names))), [name_table(t) for t in tables])
        raise QuestionRefused(f"{argument} name a table {table!r:.60} that is not tabulated; {near}")
    return place


def _weigh_rows(measure: Aggregate, weights: str | None) -> Aggregate:
    """Return a measure in which each row counts by its weight; raises QuestionRefused where that has no meaning."""
    if weights is None:
        return measure
    weight = col(weights)
    if isinstance(measure, Count) and measure.of is None:
        return Sum(weight.node, measure.alias)
    if isinstance(measure, Sum):
        return replace(measure, of=(Expr(measure.of) * weight).node)
    raise QuestionRefused(
        f"measure {measure.alias!r} is {measure.describe()}, in which rows have no weights: with row_weights, count rows or sum "
        "numbers"
    )


def _check_survey(question: Tabulation) -> None:
    """Raise QuestionRefused for weights of rows, a threshold or a base that make no sense."""
    if question.row_weights is not None and not isinstance(question.row_weights, str):
        raise QuestionRefused('row_weights is the name of a column, such as "weight"')
    _ = question.weighted_measures
    for name, base in (("suppress_below", question.suppress_below), ("round_to", question.round_to)):
        if base is not None and base <= 0:
            raise QuestionRefused(f"{name} must be above 0, not {format_number(base)}")
    counts = any(isinstance(measure, Count) and measure.of is None for measure in question.measures)
    if question.suppress_below is not None and not counts:
        raise QuestionRefused(
            "suppress_below looks at the released count of a cell: have sd.count() among the measures"
        )
    if question.largest is None:
        return
    if not isinstance(question.largest, int) or isinstance(question.largest, bool) or question.largest < 1:
        raise QuestionRefused(
            f"largest is how many counts of each group are shown, 1 or more, not {question.largest!r:.40}"
        )
    if not counts:
        raise QuestionRefused("largest looks at the released count of a cell: have sd.count() among the measures")
    if not any(question.tables):
        raise QuestionRefused("largest chooses among the keys of a table's last column, and the total has none")


def check_tabulation(question: Tabulation) -> Tabulation:
    """Return the question; raises QuestionRefused for one that `tabulate` would not make, such as of one table twice."""
    tables = question.tables
    if not 0 < len(tables) <= _MOST_TABLES:
        raise QuestionRefused(f"a tabulation has 1 to {_MOST_TABLES:,} tables, not {len(tables):,}")
    aliases = [key.alias for key in question.keys]
    seen: dict[frozenset[str], Table] = {}
    for table in tables:
        twice = next((name for i, name in enumerate(table) if name in table[:i]), None)
        if twice is not None:
            raise QuestionRefused(f"the table {list(table)} has the column {twice!r} twice")
        unknown = next((name for name in table if name not in aliases), None)
        if unknown is not None:
            raise QuestionRefused(f"the table {list(table)} has a column {unknown!r} that is none of the tabulation's")
        other = seen.setdefault(frozenset(table), table)
        if other is not table:
            raise QuestionRefused(f"the tables {list(other)} and {list(table)} are the same: leave one out")
    used = {name for table in tables for name in table}
    nested = () if question.levels is None else question.levels.columns
    idle = next((name for name in aliases if name not in used and name not in nested), None)
    if idle is not None or len(set(aliases)) < len(aliases):
        raise QuestionRefused("the columns of a tabulation are those of its tables, each once")
    if not 0 < len(question.measures) <= _MOST_MEASURES:
        raise QuestionRefused(f"a tabulation has 1 to {_MOST_MEASURES} measures, not {len(question.measures)}")
    shown = [BY_COLUMNS, *aliases]
    for measure in question.measures:
        if not isinstance(measure, _MEASURED) or getattr(measure, "per_unit", None) is not None:
            raise QuestionRefused(
                f"measure {measure.alias!r} is {measure.describe()}: a tabulation takes counts, sums of bounded numbers and "
                "counts of different values; a mean is a sum over a count, by answer.query(...)"
            )
        shown += [measure.alias, f"{measure.alias}_low", f"{measure.alias}_high"]
    lower = [name.lower() for name in shown]
    twice = next((name for i, name in enumerate(shown) if name.lower() in lower[:i]), None)
    if twice is not None:
        raise QuestionRefused(f"two columns of the tables are named {twice!r}: give a measure or a key another name")
    if question.finish not in get_args(Finish):
        raise QuestionRefused('finish is "whole", "linear" or "raw"')
    if question.weights and len(question.weights) != len(tables):
        raise QuestionRefused(
            f"a tabulation has one weight a table, {len(tables):,} in all, not {len(question.weights):,}"
        )
    for table, weight in zip(tables, question.weights, strict=False):
        if weight <= 0:
            named = name_table(table) or "the total"
            raise QuestionRefused(f"the weight of {named} must be above 0, not {format_number(weight)}")
    if question.objective not in get_args(Objective):
        raise QuestionRefused(f'objective is "sum" or "greatest", not {question.objective!r:.40}')
    if question.errors and question.objective != "sum":
        raise QuestionRefused('errors say how wrong tables may be: state them without objective="greatest"')
    for name in question.ordered:
        if name not in aliases:
            raise QuestionRefused(f"ordered names a column {name!r:.60} of no table; {nearest(name, aliases)}")
    if len(set(question.ordered)) < len(question.ordered):
        raise QuestionRefused("ordered names each column once")
    if question.ordered and question.finish == "raw":
        raise QuestionRefused(
            'ordered columns are measured together: with finish="raw" each table has noise of its own'
        )
    if question.levels is not None:
        if not set(nested) <= set(aliases):
            raise QuestionRefused("levels are columns of the tabulation")
        _check_levels(question, question.levels)
    for invariant in question.invariants:
        _check_invariant(question, invariant)
    if len({(frozenset(i.columns), i.measure) for i in question.invariants}) < len(question.invariants):
        raise QuestionRefused("invariants state the counts of each set of columns once")
    measures = {measure.alias for measure in question.measures}
    for error in question.errors:
        if error.table not in tables or error.measure not in measures or error.half_width <= 0:
            named = name_table(error.table) or "the total"
            raise QuestionRefused(f"the error of {named} must be a half-width above 0 of a table and measure asked for")
    if len({(error.table, error.measure) for error in question.errors}) < len(question.errors):
        raise QuestionRefused("errors state each table and measure once")
    _check_survey(question)
    return question


# ---- What a tabulation means over a domain


@dataclass(frozen=True)
class CompiledTabulation:
    """A tabulation with its meaning over a domain: declared keys, condition, and the vector that each measure is.

    `parents` has, for each level of areas but the widest, the area of the level above that each area lies in; `invariants` the
    public counts of each measure, as arrays by columns.
    """

    question: Tabulation
    keys: tuple[Keys, ...]
    condition: Build | None
    vectors: tuple[Vector, ...]
    parents: tuple[Any, ...] = ()
    invariants: tuple[Mapping[tuple[int, ...], Any], ...] = ()

    @functools.cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of keys of each column."""
        return tuple(len(k.labels) for k in self.keys)

    def cells(self, axes: Sequence[int]) -> int:
        """Return the number of cells of a table over these columns."""
        return math.prod(self.sizes[axis] for axis in axes)

    def places(self, table: Table) -> list[int]:
        """Return the places of a table's columns among the keys, in the table's own order."""
        aliases = [key.alias for key in self.question.keys]
        return [aliases.index(name) for name in table]

    @functools.cached_property
    def axes(self) -> tuple[tuple[int, ...], ...]:
        """The columns of each table, by their places in ascending order."""
        return tuple(self.question.axes(table) for table in self.question.tables)

    def is_additive(self, measure: int) -> bool:
        """Whether margins of a measure are sums of its cells: those of counts and sums are, those of different values not."""
        return self.vectors[measure].rule is None

    def sensitivity(self, measure: int, axes: Sequence[int], neighbors: Neighbors) -> Sensitivity:
        """Return how far one unit moves a table of a measure, in whole steps of its unit.

        A row may always drop out: its key may be missing, and conditions leave rows out. Bounds act on the rows of a unit,
        whatever their cells, so that all tables are about the same rows.
        """
        return self.bound(measure, self.cells(axes), neighbors)

    def bound(self, measure: int, cells: int, neighbors: Neighbors) -> Sensitivity:
        """Return how far one unit moves so many cells, of which each row is in one at most."""
        vector = self.vectors[measure]
        enforced = neighbors.enforce(None, by_group=False)
        moved = vector.sensitivity(enforced, cells=cells, droppable=True)
        return moved.rescale(1 / vector.unit)

    @functools.cached_property
    def level_places(self) -> tuple[int, ...]:
        """The places of the columns of areas, the widest first."""
        nested = self.question.levels
        aliases = [key.alias for key in self.question.keys]
        return () if nested is None else tuple(aliases.index(name) for name in nested.columns)

    @functools.cached_property
    def scanned(self) -> tuple[int, ...]:
        """The places of the columns that rows have themselves: all but the levels above the smallest areas."""
        return tuple(i for i in range(len(self.keys)) if i not in self.level_places[:-1])

    def select(
        self, on: Primitives, axes: Sequence[int], bound: Callable[[Primitives], None] | None = None
    ) -> exp.Select:
        """Return the SQL tree of every measure by some columns: k0.. (codes) and t0.. (measures, in steps).

        `bound` bounds the rows of units that have a key in each column, in place of the declared bounds.
        """
        from sqlglot import exp

        if self.condition is not None:
            on.keep(self.condition(on))
        own = {place: self.keys[place] for place in self.scanned}
        if set(axes) == set(own) and self._may_count_cells_first(on):
            return self._select_by_cells(on, axes)
        codes = {place: k.build(on) if k.code is None else k.code(on, k.build(on)) for place, k in own.items()}
        if codes:
            present = [
                exp.Not(this=exp.Is(this=exp.paren(code.copy()), expression=exp.Null())) for code in codes.values()
            ]
            on.keep(cast(exp.Expression, exp.and_(*present)))
        if bound is not None:
            bound(on)
        columns = [exp.alias_(codes[axis], f"k{i}") for i, axis in enumerate(axes)]
        terms = [vector.terms[0][1].sql(on) for vector in self.vectors]
        columns += [exp.alias_(term, f"t{i}") for i, term in enumerate(terms)]
        return _group(exp.Select(expressions=columns).from_(on.source()), len(axes))

    def _may_count_cells_first(self, on: Primitives) -> bool:
        """Whether rows may be grouped by raw cells, and the groups by codes after: bounds and different values need the codes."""
        additive = all(self.is_additive(measure) for measure in range(len(self.vectors)))
        return additive and not on.has_units and any(self.keys[place].code for place in self.scanned)

    def _select_by_cells(self, on: Primitives, axes: Sequence[int]) -> exp.Select:
        """Return the tree of `select` that looks up codes of groups, not of rows: with 10,000 keys in half the time.

        Groups without a key in one of the columns have NULL there: `read_cells` leaves them out.
        """
        from sqlglot import exp

        cells = [exp.alias_(self.keys[axis].build(on), f"k{i}") for i, axis in enumerate(axes)]
        cells += [exp.alias_(vector.terms[0][1].sql(on), f"t{i}") for i, vector in enumerate(self.vectors)]
        groups = on.of_groups(_group(exp.Select(expressions=cells).from_(on.source()), len(axes)))
        codes = [self.keys[axis].code_of(groups, exp.column(f"k{i}")) for i, axis in enumerate(axes)]
        columns = [exp.alias_(code, f"k{i}") for i, code in enumerate(codes)]
        columns += [exp.alias_(exp.Sum(this=exp.column(f"t{i}")), f"t{i}") for i in range(len(self.vectors))]
        return _group(exp.Select(expressions=columns).from_(groups.source()), len(axes))


def _group(select: exp.Select, keys: int) -> exp.Select:
    """Return a SELECT grouped by its first columns."""
    from sqlglot import exp

    return select.group_by(*(exp.Literal.number(i + 1) for i in range(keys))) if keys else select


def compile_tabulation(question: Tabulation, domain: Domain) -> CompiledTabulation:
    """Return what a tabulation means over a domain.

    Raises QuestionRefused where a key is not public, a measure has no bounds, or the tables have too many cells; UnknownName for
    a column that is not declared.
    """
    parents: tuple[Any, ...] = ()
    if question.levels is None:
        declared = tuple(keys(key.of, domain) for key in question.keys)
    else:
        declared, parents = _find_areas(question, question.levels, domain)
    for key, found in zip(question.keys, declared, strict=True):
        if found.private:
            raise QuestionRefused(
                f"cannot tabulate by {key.alias!r}: its keys are not public. Declare it as a category with its values"
            )
        if key.alias in question.ordered and len(found.labels) > _MOST_ORDERED:
            raise QuestionRefused(
                f"{key.alias!r} has {len(found.labels):,} keys, an ordered column at most {_MOST_ORDERED:,}: tabulate it by bins"
            )
    condition = None if question.where is None else bind_condition(question.where, domain)
    vectors: list[Vector] = []
    if question.row_weights is not None:
        _require_weights(question.row_weights, domain)
    for measure in question.weighted_measures:
        parts = measure.parts(domain)
        if len(parts) != 1 or parts[0].time is not None:
            raise QuestionRefused(
                f"measure {measure.alias!r} is {measure.describe()}, which is no single number of a cell"
            )
        vectors.append(parts[0])
    public = tuple(_place_invariants(question, measure.alias, declared) for measure in question.measures)
    compiled = CompiledTabulation(question, declared, condition, tuple(vectors), parents, public)
    total = 0
    most = _MOST_CELLS
    if compiled.cells(compiled.scanned) > most and question.levels is not None:
        raise QuestionRefused(
            f"the smallest areas by all other columns have {compiled.cells(compiled.scanned):,} cells, and at most {most:,} are "
            "measured: tabulate by fewer columns, or by bins"
        )
    for table, axes in zip(question.tables, compiled.axes, strict=True):
        cells = compiled.cells(axes)
        total += cells
        if total > most:
            sizes = " x ".join(str(compiled.sizes[axis]) for axis in axes)
            raise QuestionRefused(
                f"the table by {name_table(table)} has {sizes} = {cells:,} cells, and all tables together more than "
                f"{most:,}: tabulate by fewer columns, or by bins"
            )
    return compiled


def _place_invariants(
    question: Tabulation, measure: str, declared: Sequence[Keys]
) -> dict[tuple[int, ...], np.ndarray[Any, np.dtype[np.int64]]]:
    """Return the public counts of a measure as arrays; raises QuestionRefused where one lacks a cell or contradicts another."""
    aliases = [key.alias for key in question.keys]
    placed: dict[tuple[int, ...], np.ndarray[Any, np.dtype[np.int64]]] = {}
    for invariant in question.invariants:
        if invariant.measure != measure:
            continue
        named = name_table(invariant.columns) or "()"
        own = [aliases.index(name) for name in invariant.columns]
        # Labels of whole numbers and truths may be text in a public file.
        codes = [{_label_text(label): code for code, label in enumerate(declared[place].labels)} for place in own]
        cells = np.full([len(declared[place].labels) for place in own], -1, dtype=np.int64)
        for key, exact in zip(invariant.keys, invariant.counts, strict=True):
            cell = tuple(code.get(_label_text(label), -1) for code, label in zip(codes, key, strict=True))
            if -1 in cell:
                wrong = key[cell.index(-1)]
                raise QuestionRefused(
                    f"the invariant by {named} has a key {wrong!r:.40} that {invariant.columns[cell.index(-1)]} is not "
                    "declared with"
                )
            if cells[cell] >= 0:
                raise QuestionRefused(f"the invariant by {named} has the key {list(key)!r:.60} twice")
            cells[cell] = exact
        if (cells < 0).any():
            first = np.argwhere(cells < 0)[0]
            lacking = [declared[place].labels[code] for place, code in zip(own, first, strict=True)]
            raise QuestionRefused(
                f"the invariant by {named} has no row for {lacking!r:.60}: state every declared key, also with 0"
            )
        placed[tuple(sorted(own))] = cells.transpose(np.argsort(own))
    for (one, cells), (other, others) in itertools.combinations(placed.items(), 2):
        shared = [axis for axis in one if axis in other]
        margins = [
            values.sum(axis=tuple(place for place, axis in enumerate(axes) if axis not in shared))
            for axes, values in ((one, cells), (other, others))
        ]
        if not np.array_equal(margins[0], margins[1]):
            names = [name_table(tuple(aliases[axis] for axis in axes)) or "()" for axes in (one, other, tuple(shared))]
            what = f"by {names[2]}" if shared else "in all"
            raise QuestionRefused(
                f"the invariants by {names[0]} and by {names[1]} contradict each other: their counts {what} differ"
            )
    return placed


def _label_text(label: Any) -> str:
    return str(label).lower() if isinstance(label, bool) else str(label)


def _find_areas(question: Tabulation, nested: Levels, domain: Domain) -> tuple[tuple[Keys, ...], tuple[Any, ...]]:
    """Return the keys of all columns, and the area above each area, those of a level in the order in which areas name them."""
    upper = nested.columns[:-1]
    found = {key.alias: keys(key.of, domain) for key in question.keys if key.alias not in upper}
    # Labels of whole numbers may be text in a public file.
    rows = {str(row[-1]): row for row in nested.areas}
    labels = found[nested.columns[-1]].labels
    missing = next((label for label in labels if str(label) not in rows), None)
    if missing is not None or None in labels:
        raise QuestionRefused(
            f"the public table of the levels has no row for {nested.columns[-1]} {missing!r:.40}, a declared key of the table"
        )
    below = [rows[str(label)] for label in labels]
    parents: list[Any] = []
    for level in range(len(upper) - 1, -1, -1):
        places: dict[Any, int] = {}
        parents.insert(0, np.array([places.setdefault(row[level], len(places)) for row in below], dtype=np.int64))
        first = {row[level]: row for row in reversed(below)}
        below = [first[label] for label in places]
        found[upper[level]] = Keys(tuple(places), _build_no_key)
    return tuple(found[key.alias] for key in question.keys), tuple(parents)


def _build_no_key(_: Primitives) -> exp.Expression:
    raise AssertionError("areas above the smallest are sums of these, and no column of the table")


def _require_weights(name: str, domain: Domain) -> None:
    """Raise QuestionRefused unless a column can weigh rows: a number with declared bounds of 0 or more."""
    column = domain[name]
    values = None
    # Without a step and bounds there is no number to bind: the bounds are what weights need.
    if not isinstance(column, Real) or column.step is not None:
        values = bind_number(Name(name), domain).values
    if values is None or values.lower is None or values.upper is None:
        raise QuestionRefused(
            f"the weights of rows in {name!r} have no declared bounds, so one row could count without bound: declare its lower "
            "and upper, to which weights are clipped"
        )
    if values.lower < 0:
        raise QuestionRefused(
            f"the weights of rows in {name!r} are declared from {format_number(values.lower)}: a row counts 0 times or more, so "
            "declare lower=0 or above"
        )


def describe_left_out(question: Tabulation, domain: Domain) -> tuple[str, ...]:
    """Return which rows take no part in any table, in words: those in which a key is missing, as declared, or outside of bins."""
    notes: dict[str, None] = {}
    nested = () if question.levels is None else question.levels.columns[:-1]
    for key in question.keys:
        if key.alias in nested:
            continue
        reasons = may_be_missing(key.of, domain)
        if not reasons.is_key and reasons.columns:
            notes[f"rows whose {' or '.join(reasons.columns)} is missing are left out of every table"] = None
        if isinstance(key.of, Bin) and key.of.edges is not None:
            notes[f"rows whose {describe(key.of.of)} lies outside of the bins are left out of every table"] = None
    if question.row_weights is not None:
        values = bind_number(Name(question.row_weights), domain).values
        bounds = f"[{format_number(Fraction(values.lower or 0))}, {format_number(Fraction(values.upper or 0))}]"
        notes[f"each row counts by its {question.row_weights}, clipped to {bounds}; without one it counts 0"] = None
    return tuple(notes)


# ---- The vectors that a tabulation is answered from


@dataclass(frozen=True, slots=True)
class TabulationQuery:
    """Ask for one measure of a tabulation over several tables of its columns, one noisy vector each, in row-major order.

    `tables` name columns by their places; `shares` of the loss are above 0 and sum to 1 at most.
    """

    question: Tabulation
    measure: int
    tables: tuple[tuple[int, ...], ...]
    shares: tuple[Fraction, ...]
    unit: Fraction

    def parts(self, domain: Domain, neighbors: Neighbors) -> list[VectorShare]:
        """Return each vector's sensitivity, in whole steps, and its share of the loss; one vector a table."""
        compiled = compile_tabulation(self.question, domain)
        if len(self.shares) != len(self.tables) or any(s <= 0 for s in self.shares) or sum(self.shares) > 1:
            raise QuestionRefused("the tables of a tabulation share the loss by parts above 0 that sum to 1 at most")
        if self.unit != compiled.vectors[self.measure].unit:
            raise QuestionRefused("a measure is counted in the steps of its own column")
        if any(
            list(axes) != sorted(set(axes)) or not set(axes) <= set(range(len(compiled.sizes))) for axes in self.tables
        ):
            raise QuestionRefused("a table names columns of the tabulation by their places, in ascending order")
        moved = [compiled.sensitivity(self.measure, axes, neighbors) for axes in self.tables]
        return list(zip(moved, self.shares, strict=True))

    def names(self) -> list[str]:
        """Return a name for each vector."""
        aliases = [key.alias for key in self.question.keys]
        return [name_table(tuple(aliases[axis] for axis in axes)) or "total" for axes in self.tables]

    def describe(self) -> str:
        """Return the question as a sentence."""
        return f"{self.question.measures[self.measure].describe()} by {join_words(self.names())}"

    def scans(self, domain: Domain) -> list[Scan]:
        """Return the SELECTs, all measures of the question in each: those of tables that few cells hold together are one."""
        compiled = compile_tabulation(self.question, domain)
        found = []
        for axes in self._covers(compiled):
            key = f"tabulation {self.question.identity()} by {list(axes)}"
            found.append(Scan(key, functools.partial(compiled.select, axes=axes)))
        return found

    def exact_vectors(self, tables: Sequence[pa.Table], domain: Domain) -> list[Integers]:
        """Return the exact vectors, in steps: sums over the cells of the scan that holds the table."""
        compiled = compile_tabulation(self.question, domain)
        covers = self._covers(compiled)
        scanned = [
            read_cells(table, axes, self.measure, compiled.sizes) for table, axes in zip(tables, covers, strict=True)
        ]
        exact = []
        for axes in self.tables:
            place = self._cover_of(axes, covers, additive=compiled.is_additive(self.measure))
            cover = covers[place]
            summed = tuple(i for i, axis in enumerate(cover) if axis not in axes)
            exact.append(scanned[place].sum(axis=summed).reshape(-1) if summed else scanned[place].reshape(-1))
        return exact

    def _covers(self, compiled: CompiledTabulation) -> list[tuple[int, ...]]:
        """Return the columns of each scan: every table of a measure that does not add up is scanned by itself."""
        if not compiled.is_additive(self.measure):
            return list(self.tables)
        covers: list[tuple[int, ...]] = []
        for axes in sorted(self.tables, key=lambda axes: (-compiled.cells(axes), axes)):
            if any(set(axes) <= set(cover) for cover in covers):
                continue
            for i, cover in enumerate(covers):
                both = tuple(sorted({*cover, *axes}))
                if compiled.cells(both) <= _MOST_SCANNED:
                    covers[i] = both
                    break
            else:
                covers.append(axes)
        return covers

    @staticmethod
    def _cover_of(axes: tuple[int, ...], covers: Sequence[tuple[int, ...]], *, additive: bool) -> int:
        if not additive:
            return covers.index(axes)
        return next(i for i, cover in enumerate(covers) if set(axes) <= set(cover))


def read_cells(table: pa.Table, axes: Sequence[int], measure: int, sizes: Sequence[int]) -> Any:
    """Return the exact value of a measure in each cell: an array over the axes, of 64-bit integers where every sum fits.

    Rows of the answer without a key in one of the columns are left out.
    """
    shape = tuple(sizes[axis] for axis in axes)
    for i in range(len(axes)):
        if table.column(f"k{i}").null_count:
            table = table.filter(table.column(f"k{i}").is_valid())
    values = _read_steps(table.column(f"t{measure}"))
    exact_cells = np.zeros(shape, dtype=values.dtype)
    if not axes:
        exact_cells[()] = values.sum()
        return exact_cells
    codes = tuple(
        table.column(f"k{i}").combine_chunks().cast("int64").to_numpy(zero_copy_only=False) for i in range(len(axes))
    )
    np.add.at(exact_cells, codes, values)
    return exact_cells


def _read_steps(column: pa.ChunkedArray) -> Any:
    """Return exact sums, 0 for NULL, as an array: of 64-bit integers where every sum of them fits, else of Python's."""
    import pyarrow as pa

    try:
        steps = column.combine_chunks().cast("int64").fill_null(0).to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        # Integers of 128 bits may not fit.
        steps = np.array([0 if value is None else int(value) for value in column.to_pylist()], dtype=object)
    largest = max((abs(int(steps.max())), abs(int(steps.min())))) if len(steps) else 0
    return steps.astype(np.int64 if largest * max(1, len(steps)) < 2**62 else object)
