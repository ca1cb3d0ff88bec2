"""Tabulation: many tables of the same rows asked for at once, and the vectors that such a question is answered from.

A table counts, or sums, the rows of each combination of declared keys of its columns. Which vectors are measured, and what
is made of their noisy values, an algorithm over a Queryable decides (`sordino.tables`): nothing here chooses a strategy.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, cast, get_args

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
from sordino.core.domain import Domain
from sordino.core.errors import QuestionRefused, nearest
from sordino.core.estimates.table_cells import BY_COLUMNS, Finish, name_table
from sordino.core.loss import Number, format_number, to_fraction
from sordino.core.neighbors import Neighbors, Sensitivity
from sordino.core.primitives import Primitives

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp

Table = tuple[str, ...]

# Cells of all tables together: a release holds each with its keys.
_MOST_CELLS = 1_000_000
_MOST_TABLES = 10_000
_MOST_MEASURES = 64
# Cells that several tables are counted by in one scan, from which each follows by sums.
_MOST_SCANNED = 1 << 18
_MEASURED = (Count, Sum, Distinct)


@dataclass(frozen=True, slots=True)
class Tabulation:
    """Ask for the `measures` of the rows where `where` is true, in each cell of several `tables`.

    `keys` are the columns of all tables, each once; a table names those that it has, and the empty one is the total. `weights`
    are of the tables in order, and empty where all count alike. Every cell of declared keys appears, also where no row has
    it. A row without a key in any column of the tabulation is in none of its tables, so that all are about the same rows.
    """

    tables: tuple[Table, ...]
    keys: tuple[Grouping, ...]
    measures: tuple[Aggregate, ...]
    finish: Finish = "whole"
    where: Node | None = None
    weights: tuple[Fraction, ...] = ()
    # A column by whose value each row counts, and what is done to the released numbers for publication.
    row_weights: str | None = None
    suppress_below: Fraction | None = None
    round_to: Fraction | None = None

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
        counted = "" if self.row_weights is None else f", each row counted by its {self.row_weights}"
        published = "" if self.suppress_below is None else f", none of fewer than {format_number(self.suppress_below)}"
        published += "" if self.round_to is None else f", rounded to multiples of {format_number(self.round_to)}"
        return f"{what}{counted}, {'; '.join(shown)}{where}; {how}{least}{published}"

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
        # Only where stated, so that earlier answers are found again.
        if self.row_weights is not None:
            data["row_weights"] = self.row_weights
        for name, base in (("suppress_below", self.suppress_below), ("round_to", self.round_to)):
            if base is not None:
                data[name] = format_number(base)
        return json.dumps(data, sort_keys=True, separators=(",", ":"))


def tabulate(
    tables: Sequence[Column | Sequence[Column]],
    measures: Mapping[str, AggregateExpr] | None = None,
    *,
    finish: Finish = "whole",
    where: Expr | None = None,
    weights: Mapping[Any, Number] | Sequence[Number] | None = None,
    row_weights: str | None = None,
    suppress_below: Number | None = None,
    round_to: Number | None = None,
) -> Tabulation:
    """Ask for many tables at once: one plan, one charge, one answer in which the tables agree.

    A table is a list of columns, or of expressions such as `col("birth").year()`; `[]` is the total. `measures` maps the name
    of each to counts, sums of bounded numbers and counts of different values; without them rows are counted. `finish` is
    "whole" (consistent, whole, not negative), "linear" (consistent and unbiased, with exact intervals) or "raw" (each table
    with noise of its own). `weights`, by table or one for each in order, say which tables' squared errors count for more.

    Of surveys, `row_weights` names the column of sampling weights: each row counts by its own, clipped to the declared bounds.
    Cells whose released count is below `suppress_below` are not shown, and what is shown is rounded to multiples of
    `round_to`: both look at released numbers alone.

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
    question = Tabulation(
        named_tables,
        tuple(named.values()),
        _read_measures({"count": count()} if measures is None else measures),
        finish,
        None if where is None else where.node,
    )
    survey: dict[str, Any] = {
        "row_weights": row_weights,
        "suppress_below": None if suppress_below is None else to_fraction(suppress_below, name="suppress_below"),
        "round_to": None if round_to is None else to_fraction(round_to, name="round_to"),
    }
    return check_tabulation(replace(question, weights=_read_weights(weights, question.tables), **survey))


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
    known = {frozenset(table): place for place, table in enumerate(tables)}
    found = [Fraction(1)] * len(tables)
    for table, weight in weights.items():
        names = (table,) if isinstance(table, str) else table
        place = known.get(frozenset(names)) if isinstance(names, (tuple, frozenset)) else None
        if place is None:
            near = nearest(name_table(tuple(map(str, names))), [name_table(t) for t in tables])
            raise QuestionRefused(f"weights name a table {table!r:.60} that is not tabulated; {near}")
        found[place] = to_fraction(weight, name="weights")
    return tuple(found)


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
    idle = next((name for name in aliases if name not in used), None)
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
    _check_survey(question)
    return question


# ---- What a tabulation means over a domain


@dataclass(frozen=True)
class CompiledTabulation:
    """A tabulation with its meaning over a domain: declared keys, condition, and the vector that each measure is."""

    question: Tabulation
    keys: tuple[Keys, ...]
    condition: Build | None
    vectors: tuple[Vector, ...]

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
        vector = self.vectors[measure]
        enforced = neighbors.enforce(None, by_group=False)
        moved = vector.sensitivity(enforced, cells=self.cells(axes), droppable=True)
        return moved.rescale(1 / vector.unit)

    def select(self, on: Primitives, axes: Sequence[int]) -> exp.Select:
        """Return the SQL tree of every measure by some columns: k0.. (codes) and t0.. (measures, in steps)."""
        from sqlglot import exp

        if self.condition is not None:
            on.keep(self.condition(on))
        codes = [k.build(on) if k.code is None else k.code(on, k.build(on)) for k in self.keys]
        if codes:
            present = [exp.Not(this=exp.Is(this=exp.paren(code.copy()), expression=exp.Null())) for code in codes]
            on.keep(cast(exp.Expression, exp.and_(*present)))
        columns = [exp.alias_(codes[axis], f"k{i}") for i, axis in enumerate(axes)]
        terms = [vector.terms[0][1].sql(on) for vector in self.vectors]
        columns += [exp.alias_(term, f"t{i}") for i, term in enumerate(terms)]
        select = exp.Select(expressions=columns).from_(on.source())
        return select.group_by(*(exp.Literal.number(i + 1) for i in range(len(axes)))) if axes else select


def compile_tabulation(question: Tabulation, domain: Domain) -> CompiledTabulation:
    """Return what a tabulation means over a domain.

    Raises QuestionRefused where a key is not public, a measure has no bounds, or the tables have too many cells; UnknownName for
    a column that is not declared.
    """
    declared = tuple(keys(key.of, domain) for key in question.keys)
    for key, found in zip(question.keys, declared, strict=True):
        if found.private:
            raise QuestionRefused(
                f"cannot tabulate by {key.alias!r}: its keys are not public. Declare it as a category with its values"
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
    compiled = CompiledTabulation(question, declared, condition, tuple(vectors))
    total = 0
    for table, axes in zip(question.tables, compiled.axes, strict=True):
        cells = compiled.cells(axes)
        total += cells
        if total > _MOST_CELLS:
            sizes = " x ".join(str(compiled.sizes[axis]) for axis in axes)
            raise QuestionRefused(
                f"the table by {name_table(table)} has {sizes} = {cells:,} cells, and all tables together more than "
                f"{_MOST_CELLS:,}: tabulate by fewer columns, or by bins"
            )
    return compiled


def _require_weights(name: str, domain: Domain) -> None:
    """Raise QuestionRefused unless a column can weigh rows: a number with declared bounds of 0 or more."""
    values = bind_number(Name(name), domain).values
    if values.lower is None or values.upper is None:
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
    for key in question.keys:
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
            _dense(table, axes, self.measure, compiled.sizes) for table, axes in zip(tables, covers, strict=True)
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


def _dense(table: pa.Table, axes: Sequence[int], measure: int, sizes: Sequence[int]) -> Any:
    """Return the exact value of a measure in each cell: an array over the axes, of 64-bit integers where every sum fits."""
    shape = tuple(sizes[axis] for axis in axes)
    values = [0 if value is None else int(value) for value in table.column(f"t{measure}").to_pylist()]
    kind = np.int64 if sum(map(abs, values)) < 2**62 else object
    exact_cells = np.zeros(shape, dtype=kind)
    if not axes:
        exact_cells[()] = sum(values)
        return exact_cells
    codes = [
        table.column(f"k{i}").combine_chunks().cast("int64").to_numpy(zero_copy_only=False) for i in range(len(axes))
    ]
    np.add.at(exact_cells, tuple(codes), np.array(values, dtype=kind))
    return exact_cells
