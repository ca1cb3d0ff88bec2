"""How people write questions in Python: count(), sum(...), mean(...), histogram(...), where, group_by, agg, alias."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sordino.ask.queries.aggregates.distinct import Distinct, DistinctSum
from sordino.ask.queries.aggregates.moments import MomentAggregate
from sordino.ask.queries.aggregates.sums import Average, Count, Sum
from sordino.ask.queries.aggregation import Aggregation, Grouping, columns_of, same_name, tighten
from sordino.ask.queries.expressions.expr import Expr, as_node, col
from sordino.ask.queries.expressions.keys import KeyList, check_min_units, key_list, selection_name
from sordino.ask.queries.expressions.nodes import (
    Connective,
    Constant,
    Exists,
    Name,
    Node,
    When,
    Windowed,
    conjoin,
    depth,
    describe,
    walk,
)
from sordino.ask.queries.frame_words import unknown_word
from sordino.ask.queries.joins import JoinKind, Unnest, state_join
from sordino.ask.queries.post_processing import FormulaColumn, rename
from sordino.ask.queries.query import Aggregate, replace_names
from sordino.ask.queries.row_steps import RowStep
from sordino.core.errors import QuestionRefused
from sordino.core.lazy import load_feature
from sordino.core.loss import Number, format_number, to_fraction
from sordino.core.neighbors import ContributionBounds

Column = str | Expr
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AggregateExpr:
    """An aggregate as a person writes it; `.alias(name)` names its column.

    `+ - * /`, `.round(digits)`, `abs()` and the other functions of numbers make a formula of aggregates, which is computed
    from what is released: `sd.sum("a") / sd.sum("b")`.
    """

    aggregate: Aggregate
    # what else a formula is computed from
    others: tuple[Aggregate, ...] = ()
    # over the aggregates by their own names
    formula: FormulaColumn | None = None

    def alias(self, name: str) -> AggregateExpr:
        """Return the same aggregate under another name."""
        if not isinstance(name, str) or not name.strip():
            raise QuestionRefused("alias takes a name that is not empty")
        if self.formula is not None:
            return replace(self, formula=replace(self.formula, alias=name))
        return AggregateExpr(replace(cast("Any", self.aggregate), alias=name))

    def round(self, digits: int = 0) -> AggregateExpr:
        """Return the released value rounded to so many decimal digits."""
        return _formula(lambda x: x.round(digits), self)

    def sqrt(self) -> AggregateExpr:
        """Return the square root of the released value; None below 0."""
        return _formula(lambda x: x.sqrt(), self)

    def ln(self) -> AggregateExpr:
        """Return the natural logarithm of the released value; None at 0 and below."""
        return _formula(lambda x: x.ln(), self)

    def clip(self, lower: Number | None, upper: Number | None) -> AggregateExpr:
        """Return the released value clipped."""
        return _formula(lambda x: x.clip(lower, upper), self)

    def __abs__(self) -> AggregateExpr:
        return _formula(abs, self)

    def __neg__(self) -> AggregateExpr:
        return _formula(lambda x: -x, self)

    def __add__(self, other: Any) -> AggregateExpr:
        return _formula(lambda x, y: x + y, self, other)

    def __radd__(self, other: Any) -> AggregateExpr:
        return _formula(lambda x, y: y + x, self, other)

    def __sub__(self, other: Any) -> AggregateExpr:
        return _formula(lambda x, y: x - y, self, other)

    def __rsub__(self, other: Any) -> AggregateExpr:
        return _formula(lambda x, y: y - x, self, other)

    def __mul__(self, other: Any) -> AggregateExpr:
        return _formula(lambda x, y: x * y, self, other)

    def __rmul__(self, other: Any) -> AggregateExpr:
        return _formula(lambda x, y: y * x, self, other)

    def __truediv__(self, other: Any) -> AggregateExpr:
        return _formula(lambda x, y: x / y, self, other)

    def __rtruediv__(self, other: Any) -> AggregateExpr:
        return _formula(lambda x, y: y / x, self, other)

    def over(self, *columns: Column) -> Expr:
        """Return the aggregate of a person's rows beside each: `col("x").mean().over("id")`; name it with `with_columns`.

        Raises QuestionRefused for a formula, and for what is no count, sum, mean, least or largest value.
        """
        aggregate = self.aggregate
        kinds: dict[type, str] = {Count: "count", Sum: "sum", Average: "mean"}
        kind = kinds.get(type(aggregate), getattr(aggregate, "kind", None))
        of: Node | None = getattr(aggregate, "of", None)
        if (
            self.formula is not None
            or kind not in ("count", "sum", "mean", "min", "max")
            or getattr(aggregate, "per_unit", None)
        ):
            raise QuestionRefused(
                f"{aggregate.describe()} over a window is computed from an answer, at no cost: "
                "release.query('SELECT *, n / SUM(n) OVER () AS share FROM answer'), or in sd.sql; over a person's own rows are "
                "count, sum, mean, min and max"
            )
        return Expr(Windowed("rows" if of is None else kind, of)).over(*columns)

    if not TYPE_CHECKING:

        def __getattr__(self, word: str) -> Any:
            """Name the word that was meant."""
            raise unknown_word(self, word, kind="AggregateExpr")

    def __repr__(self) -> str:
        if self.formula is not None:
            return f"<{describe(self.formula.node)}, as {self.formula.alias}>"
        return f"<{self.aggregate.describe()}, as {self.aggregate.alias}>"


def _formula(make: Callable[..., Expr], *operands: Any) -> AggregateExpr:
    """Return the formula that `make` writes over aggregates and numbers; an aggregate goes by its own words in it."""
    parts: dict[str, Aggregate] = {}
    expressions: list[Expr] = []
    for operand in operands:
        if not isinstance(operand, AggregateExpr):
            if isinstance(operand, Expr):
                raise QuestionRefused(
                    f"{operand} is a value of each row: a formula computes with aggregates, such as sd.sum({operand})"
                )
            expressions.append(Expr(as_node(operand)))
            continue
        parts |= {a.describe(): a for a in (operand.aggregate, *operand.others)}
        name = Name(operand.aggregate.describe()) if operand.formula is None else operand.formula.node
        expressions.append(Expr(name))
    node = make(*expressions).node
    short = rename(node, {words: a.alias for words, a in parts.items()})
    first, *others = parts.values()
    return AggregateExpr(first, tuple(others), FormulaColumn(describe(short), node))


def collect_columns(
    columns: Sequence[AggregateExpr], keys: Sequence[str] = (), unseen: Sequence[AggregateExpr] = ()
) -> ShownColumns:
    """Return the aggregates that some columns are made of, each once, the formulas over them, and which are not shown.

    `keys` are the names of the keys, `unseen` aggregates that are needed and not shown. The same aggregate twice is
    released once, under two names.
    """
    words = {part: part.describe() for one in (*columns, *unseen) for part in (one.aggregate, *one.others)}
    aggregates: dict[str, Aggregate] = {}
    for one in columns:
        if one.formula is None:
            aggregates.setdefault(words[one.aggregate], one.aggregate)
    hidden: list[str] = []
    names = {n.lower() for n in (*keys, *(a.alias for a in aggregates.values()))}
    names |= {one.formula.alias.lower() for one in columns if one.formula is not None}
    for one in (*columns, *unseen):
        for part in (one.aggregate, *one.others):
            if words[part] not in aggregates:
                alias = part.alias if part.alias.lower() not in names else words[part]
                aggregates[words[part]] = replace(cast("Any", part), alias=alias)
                names.add(alias.lower())
                hidden.append(alias)
    alias_of = {description: a.alias for description, a in aggregates.items()}
    formulas: list[FormulaColumn] = []
    layout: list[str] = []
    for one in columns:
        if one.formula is not None:
            formulas.append(FormulaColumn(one.formula.alias, rename(one.formula.node, alias_of)))
            layout.append(one.formula.alias)
            continue
        alias = alias_of[words[one.aggregate]]
        if alias != one.aggregate.alias:
            formulas.append(FormulaColumn(one.aggregate.alias, Name(alias)))
        layout += [one.aggregate.alias] if alias != one.aggregate.alias else columns_of(one.aggregate)
    if len(set(layout)) < len(layout):
        raise same_name(next(n for i, n in enumerate(layout) if n in layout[:i]))
    return ShownColumns(tuple(aggregates.values()), tuple(formulas), tuple(hidden), tuple(layout))


@dataclass(frozen=True, slots=True)
class ShownColumns:
    """The aggregates of a question, the formulas over them, the names that are not shown, and the order of those that are."""

    aggregates: tuple[Aggregate, ...]
    formulas: tuple[FormulaColumn, ...]
    hidden: tuple[str, ...]
    layout: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Selection:
    """Rows and groups chosen so far: `.join(...)`, `.where(...)`, `.group_by(...)`, then `.agg(...)`."""

    condition: Node | None = None
    groups: tuple[Grouping, ...] = ()
    steps: tuple[RowStep, ...] = ()
    share: Fraction | None = None
    key_list: KeyList | None = None
    # of per_unit: what each of its columns is, over the values of a unit
    columns: Mapping[str, Node] | None = None
    min_units: int = 1
    bounds: ContributionBounds | None = None
    key_selection: str | None = None
    # of with_columns: what each of its columns is, over those of the rows
    named: Mapping[str, Node] | None = None

    def bound_contributions(
        self, *, max_rows: int | None = None, max_groups: int | None = None, max_rows_per_group: int | None = None
    ) -> Selection:
        """Return the selection in which one unit contributes no more than this, as on a whole question."""
        return replace(self, bounds=tighten(self.bounds, ContributionBounds(max_rows, max_groups, max_rows_per_group)))

    def sample(self, rate: Number) -> Selection:
        """Return the selection that uses each unit with chance `rate` only, by a secret coin: cheaper, and noisier.

        The answer is of the sample: counts and sums are not scaled up.
        """
        share = to_fraction(rate, name="rate")
        if not 0 < share <= 1:
            raise QuestionRefused(
                f"a sample's rate must lie above 0 and up to 1, such as 0.1, not {format_number(share)}"
            )
        return replace(self, share=share)

    def join(self, table: str, *, on: str | Sequence[str] = (), how: JoinKind = "inner") -> Selection:
        """Return the selection of rows joined with a public table where its key equals column `on`, or several columns.

        A private table of the same people is joined by the privacy unit, which `on` need not name. "inner" drops rows
        without a match, "left" keeps them with missing cells; "semi" and "anti" keep the rows whose unit the other table
        has, or has not. Columns are named "table.column", or by the column alone where that is clear.
        """
        has = state_join(table, on=on, how=how)
        return self.where(has) if isinstance(has, Expr) else replace(self, steps=(*self.steps, has))

    def unnest(self, column: str) -> Selection:
        """Return the selection with one row for each item of a column of lists, which from then on is the item."""
        return replace(self, steps=(*self.steps, Unnest(column)))

    def per_unit(self, *values: AggregateExpr | Sequence[AggregateExpr], **named: AggregateExpr) -> Selection:
        """Return one row for each unit, of all of its rows that meet the conditions so far; a keyword names a column.

        Inside are count, sum, mean, min, max, any, all, count_distinct, first and last, and arithmetic over them. What
        follows is about units: `.where(...)`, `.group_by(...)` and `.agg(...)` name these columns. Sums and counts need
        `.clip(lower, upper)`: it clips a person's whole value, so no cap on rows is needed, and none acts.
        """
        from sordino.ask.queries.per_unit import PerUnit, unit_columns

        if self.groups:
            raise QuestionRefused("per_unit makes one row a person: group by its columns, after it")
        aggregates = [self._read_aggregate(one) for one in _flatten(values, named, "per_unit")]
        unit_values, columns, _ = unit_columns(aggregates)
        steps = (*self.steps, PerUnit(unit_values, self._meaning(self.condition)))
        return replace(self, condition=None, steps=steps, columns=columns, named=None)

    def _meaning(self, node: T) -> T:
        """Replace the columns of per_unit in an expression by their meaning."""
        columns = self.columns
        return node if columns is None else replace_names(node, lambda name: columns.get(name, Name(name)))

    def with_columns(self, *columns: Expr, **named: Column) -> Selection:
        """Return the selection with more columns, for the conditions, keys and aggregates after it.

        A keyword names a column, else `.alias(...)`. It is only a name: a question with it is the one in which the expression
        stands in its place. Raises QuestionRefused after group_by, and for what has no name.
        """
        if self.groups:
            raise QuestionRefused("with_columns comes before group_by; an answer is computed with by release.query")
        meanings: dict[str, Node] = {}
        for column in columns:
            if not isinstance(column, Expr) or column.name is None:
                raise QuestionRefused('with_columns takes named expressions, such as decade=col("age") // 10')
            meanings[column.name] = self._read(column.node)
        for name, of in named.items():
            if not isinstance(of, (str, Expr)):
                raise QuestionRefused(f'with_columns takes expressions, such as {name}=col("age") // 10')
            meanings[name] = self._read(col(of).node if isinstance(of, str) else of.node)
        return self._place_windows(meanings)

    def _place_windows(self, meanings: Mapping[str, Node]) -> Selection:
        """Return the selection with these columns; those that look at other rows see the rows that are chosen so far."""
        from sordino.ask.queries.sequences import SequenceValue, UnitSequence, place_windows

        values: dict[SequenceValue, None] = {}
        named = {**(self.named or {}), **{name: place_windows(node, values) for name, node in meanings.items()}}
        if not values:
            return replace(self, named=named)
        if self.columns is not None:
            raise QuestionRefused(
                "with per_unit each person has one row: take values of other rows with with_columns before it"
            )
        return replace(
            self, named=named, condition=None, steps=(*self.steps, UnitSequence(tuple(values), self.condition))
        )

    def _read(self, node: Node) -> Node:
        """Replace the columns of `with_columns` in an expression by their meaning."""
        named = self.named
        if not named:
            return node
        for at in walk(node):
            if isinstance(at, Exists) and at.matching is not None:
                # Within it a name is a column of the other table.
                twice = [n.name for n in walk(at.matching) if isinstance(n, Name) and n.name in named]
                if twice:
                    raise QuestionRefused(
                        f"exists(...) reads a column {twice[0]!r} of another table: name that of with_columns another way"
                    )
        return replace_names(node, lambda name: named.get(name, Name(name)))

    def _read_aggregate(self, one: AggregateExpr) -> AggregateExpr:
        """Replace the columns of `with_columns` in an aggregate, or in a formula over several, by their meaning."""
        named = self.named
        if not named:
            return one
        parts = (one.aggregate, *one.others)
        for part in parts:
            for node in (getattr(part, "of", None), getattr(part, "other", None), *getattr(part, "others", ())):
                if node is not None:
                    self._read(node)
        first, *others = replace_names(parts, lambda name: named.get(name, Name(name)))
        words = {old.describe(): new.describe() for old, new in zip(parts, (first, *others), strict=True)}
        formula = None if one.formula is None else replace(one.formula, node=rename(one.formula.node, words))
        return AggregateExpr(first, tuple(others), formula)

    def where(self, *conditions: Expr, **equal: Any) -> Selection:
        """Return the selection of those rows that also meet each of the conditions; `where(sex="F")` is `col("sex") == "F"`."""
        every = (*conditions, *(col(name) == value for name, value in equal.items()))
        if not every or not all(isinstance(condition, Expr) for condition in every):
            raise QuestionRefused('where takes conditions: write where(col("age") > 30)')
        nodes = [self._read(condition.node) for condition in every]
        return replace(self, condition=conjoin([self.condition, *nodes]))

    def filter(self, *conditions: Expr, **equal: Any) -> Selection:
        """Return the selection of those rows that also meet each of the conditions: it is `where`."""
        return self.where(*conditions, **equal)

    def count(self) -> Aggregation:
        """Return the question for the number of rows, of each group if there are groups: it is `.agg(sd.count())`."""
        return self.agg(count())

    def group_by(self, *columns: Column, keys: Any = None, min_units: int = 1, **named: Column) -> Selection:
        """Return the selection grouped by columns, bins of numbers, parts of days; a keyword names the key's column.

        `keys` lists the rows of the answer, as tuples or as a table that is public: exactly these appear, in this order, and
        rows of the table with other keys take no part. A column without declared values can be listed too. Where keys are
        private, "weighted" or "threshold" says how they are selected, and none of fewer than `min_units` units shows.
        """
        if not columns and not named:
            raise QuestionRefused('group_by takes columns, such as group_by("occupation")')
        stated = [(getattr(c, "name", None), _key(c)) for c in columns] + [(n, _key(c)) for n, c in named.items()]
        groups = tuple(replace(group, of=self._read(group.of)) for group in groupings(stated))
        least = max(self.min_units, check_min_units(min_units))
        how, listing = (word, None) if (word := selection_name(keys)) else (self.key_selection, keys)
        listed = (
            self.key_list if listing is None else key_list(listing, [g.alias for g in groups], before=self.key_list)
        )
        return replace(self, groups=(*self.groups, *groups), key_list=listed, min_units=least, key_selection=how)

    def agg(self, *aggregates: AggregateExpr | Sequence[AggregateExpr], **named: AggregateExpr) -> Aggregation:
        """Return the question for these aggregates; a keyword names the aggregate's column."""
        rows = Aggregation(self.condition, self.groups, (), sample=self.share, steps=self.steps, key_list=self.key_list)
        rows = replace(rows, bounds=self.bounds, min_units=self.min_units, key_selection=self.key_selection)
        question = _ask([self._read_aggregate(one) for one in _flatten(aggregates, named, "agg")], rows)
        return question if self.columns is None else question.replace_columns(lambda name: self._meaning(Name(name)))

    def select(self, *aggregates: AggregateExpr | Sequence[AggregateExpr], **named: AggregateExpr) -> Aggregation:
        """Return the question for these aggregates over all rows selected: it is `agg`, without groups."""
        if self.groups:
            raise QuestionRefused("select has no groups: end group_by with .agg(...)")
        return self.agg(*aggregates, **named)

    def value_counts(self, *columns: Column, sort: bool = False) -> Aggregation:
        """Return the question for the number of rows of each value: it is `.group_by(...).agg(sd.count())`.

        The values are in declared order; with `sort` the most frequent come first.
        """
        counts = self.group_by(*columns).agg(count())
        return counts.sort("count", descending=True) if sort else counts

    def describe(self, *columns: Column) -> Aggregation:
        """Return the question for count, mean, standard deviation (ddof=1) and quartiles of each column, under one loss.

        There is no least and no largest value, which one row decides.
        """
        if not columns:
            raise QuestionRefused('describe takes columns, such as describe("age", "hours")')
        quantiles = load_feature("quantiles")
        aggregates: list[AggregateExpr] = []
        for column in columns:
            aggregates += [count(column), mean(column), std(column, ddof=1), quantiles(column, ["0.25", "0.5", "0.75"])]
        return self.agg(aggregates)

    if not TYPE_CHECKING:

        def __getattr__(self, word: str) -> Any:
            """Name the word that was meant."""
            raise unknown_word(self, word, kind="rows")

    def keys(self) -> Aggregation:
        """Return the question for the keys alone: of private ones those that show, by the whole loss; it is `.agg()`."""
        return self.agg()


def _aggregate_like(word: str, item: Any) -> str:
    """Return the aggregate to write instead of a column, or of a dict of them as pandas takes it."""
    if isinstance(item, dict) and item:
        name, function = next(iter(item.items()))
        name_of = {"avg": "mean", "average": "mean", "nunique": "count_distinct", "size": "count"}.get(
            function, function
        )
        return f"{word}(sd.{name_of}({name!r}))" if isinstance(name_of, str) else f"{word}(sd.mean({name!r}))"
    return f"{word}(sd.mean({item!r}))" if isinstance(item, str) else f"{word}(sd.count())"


def _flatten(
    aggregates: Sequence[AggregateExpr | Sequence[AggregateExpr]], named: Mapping[str, AggregateExpr], word: str
) -> list[AggregateExpr]:
    flat: list[AggregateExpr] = []
    for item in aggregates:
        if isinstance(item, Expr):
            windows = (
                "; windows over an answer are written in release.query"
                if any(isinstance(at, Windowed) for at in walk(item.node))
                else ""
            )
            raise QuestionRefused(
                f"{item} is a value of each row, and rows are never released: {word} takes aggregates, such as "
                f"sd.mean({item}) or col(...).mean(){windows}"
            )
        if not isinstance(item, (AggregateExpr, list, tuple)):
            raise QuestionRefused(
                f"{word} takes aggregates, not a {type(item).__name__}: write {_aggregate_like(word, item)}; other "
                f"questions are asked alone"
            )
        flat.extend([item] if isinstance(item, AggregateExpr) else item)
    for name, item in named.items():
        if not isinstance(item, AggregateExpr):
            raise QuestionRefused(f"{word}({name}=...) takes an aggregate, such as {word}({name}=sd.mean('age'))")
        flat.append(item.alias(name))
    if not all(isinstance(a, AggregateExpr) for a in flat):
        raise QuestionRefused(f"{word} takes aggregates, such as sd.count() and sd.mean('age')")
    return flat


def _ask(aggregates: Sequence[AggregateExpr], of: Aggregation) -> Aggregation:
    """Return a question with its aggregates; the order of its columns is stated where it is not keys first."""
    columns = collect_columns(aggregates, keys := [g.alias for g in of.groups])
    layout = (*keys, *columns.layout) if columns.formulas else ()
    return replace(of, aggregates=columns.aggregates, formulas=columns.formulas, hidden=columns.hidden, layout=layout)


def count(of: Column | None = None, *, where: Expr | None = None) -> AggregateExpr:
    """Count rows, or the rows in which `of` is not missing; with `where` those of them that meet it, as FILTER does.

    >>> count()
    <the number of rows, as count>
    >>> count(where=col("age") > 30)
    <the number of rows with (if age > 30 then 1), as count>
    """
    node = None if of is None else _node(of)
    alias = "count" if node is None else f"count_{label(node)}"
    if where is not None:
        if not isinstance(where, Expr):
            raise QuestionRefused('where takes a condition, such as col("age") > 30')
        node = When(where.node, Constant(Fraction(1)) if node is None else node, None)
    return AggregateExpr(Count(node, alias))


# shadows the builtin: the field writes sd.sum
def sum(of: Column, *, per_unit: tuple[Number, Number] | None = None) -> AggregateExpr:
    """Sum a bounded number; rows in which it is missing take no part.

    `per_unit=(lower, upper)` clips each unit's total in a group instead of its rows: no cap on rows acts, and the noise
    follows from these two numbers alone.

    >>> sum("cost", per_unit=(0, 500))
    <the sum of each unit's total of cost clipped to [0, 500], as sum_cost>
    """
    node = _node(of)
    return AggregateExpr(Sum(node, f"sum_{label(node)}", None if per_unit is None else _ends(per_unit)))


def _ends(bounds: tuple[Number, Number]) -> tuple[Fraction, Fraction]:
    if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
        raise QuestionRefused("per_unit takes the two bounds of a unit's total, such as per_unit=(0, 500)")
    low, high = (to_fraction(b, name="per_unit") for b in bounds)
    if low > high:
        raise QuestionRefused("per_unit takes the lower bound first, such as per_unit=(0, 500)")
    return low, high


def sum_distinct(of: Column) -> AggregateExpr:
    """Sum the different values of a bounded number, each once, as SQL's SUM(DISTINCT x).

    >>> sum_distinct("age")
    <the sum of the different values of age, as sum_distinct_age>
    """
    node = _node(of)
    return AggregateExpr(DistinctSum(node, f"sum_distinct_{label(node)}"))


def sum_distances(of: Expr, power: int) -> AggregateExpr:
    """Sum how far the different values of a bounded number lie from its lower bound, or the squares where `power` is 2."""
    return AggregateExpr(DistinctSum(of.node, f"sum_distances_{label(of.node)}", power))


def mean(of: Column) -> AggregateExpr:
    """Average a number: a noisy centred sum over a noisy count, half of the cost each; bounds are found where it has none.

    >>> mean(col("age").clip(0, 90)).alias("age")
    <the mean of clip(age, 0, 90), as age>
    """
    node = _node(of)
    return AggregateExpr(Average(node, f"mean_{label(node)}"))


def variance(of: Column, *, ddof: int = 0) -> AggregateExpr:
    """Ask for the variance of a bounded number: noisy sum, sum of squares and count, a third of the cost each.

    The count less `ddof` divides, as in numpy: 0 for the rows themselves (SQL's VAR_POP), 1 for a sample (VAR_SAMP).

    >>> variance("age")
    <the population variance of age, as variance_age>
    """
    node = _node(of)
    return AggregateExpr(MomentAggregate("variance", node, None, _ddof(ddof), f"variance_{label(node)}"))


def std(of: Column, *, ddof: int = 0) -> AggregateExpr:
    """Ask for the standard deviation of a bounded number: the root of its variance, at the same cost.

    >>> std("age", ddof=1)
    <the sample standard deviation of age, as std_age>
    """
    node = _node(of)
    return AggregateExpr(MomentAggregate("deviation", node, None, _ddof(ddof), f"std_{label(node)}"))


def covariance(x: Column, y: Column, *, ddof: int = 0) -> AggregateExpr:
    """Ask for the covariance of two bounded numbers over the rows that have both, by four noisy sums.

    >>> covariance("age", "hours")
    <the population covariance of age and hours, as covariance_age_hours>
    """
    one = _node(x)
    other = _node(y)
    alias = f"covariance_{label(one)}_{label(other)}"
    return AggregateExpr(MomentAggregate("covariance", one, other, _ddof(ddof), alias))


def correlation(x: Column, y: Column) -> AggregateExpr:
    """Ask for Pearson's correlation of two bounded numbers over the rows that have both, by six noisy sums.

    >>> correlation("age", "hours")
    <the correlation of age and hours, as correlation_age_hours>
    """
    one = _node(x)
    other = _node(y)
    alias = f"correlation_{label(one)}_{label(other)}"
    return AggregateExpr(MomentAggregate("correlation", one, other, 0, alias))


def count_distinct(of: Column, *others: Column, missing: bool = False) -> AggregateExpr:
    """Count the different values of a column that rows have, or combinations; of the units' own column, units.

    A combination with a missing part is none, as in SQL's COUNT(DISTINCT a, b); with `missing` it is one, as in
    COUNT(DISTINCT (a, b)).

    >>> count_distinct("occupation")
    <the number of different values of occupation, as distinct_occupation>
    """
    first, *rest = (_node(column) for column in (of, *others))
    alias = "_".join(("distinct", *map(label, (first, *rest))))
    if missing and not rest:
        raise QuestionRefused("missing= is for combinations of several columns: count_distinct(a, b, missing=True)")
    return AggregateExpr(Distinct(first, alias, tuple(rest), missing))


def histogram(of: Column, *, edges: Any = None, width: Number | None = None, by: str | None = None) -> Aggregation:
    """Ask for the number of rows in each declared value of a column, in each bin of a number, or by="month" of a date.

    >>> histogram("age", width=10).describe()
    'the number of rows, for each bin(age, width 10)'
    """
    key = col(of) if isinstance(of, str) else of
    if edges is not None or width is not None:
        key = key.bin(edges, width=width)
    key = key if by is None else key.truncate(by)
    return Selection().group_by(key).agg(count())


def as_aggregation(question: object) -> Aggregation:
    """Return the aggregation that a person means by an aggregate, a list of them, or a question."""
    if isinstance(question, Aggregation):
        return question
    if isinstance(question, AggregateExpr):
        return _ask([question], Aggregation(None, (), ()))
    if isinstance(question, (list, tuple)) and question and all(isinstance(q, AggregateExpr) for q in question):
        return _ask(question, Aggregation(None, (), ()))
    if isinstance(question, Selection):
        raise QuestionRefused("this selects rows but asks nothing: end it with .agg(sd.count())")
    if isinstance(question, Expr):
        raise QuestionRefused(
            f"{question} is a value of each row, and rows are never released: ask for an aggregate, such as sd.mean({question})"
        )
    raise QuestionRefused(
        "a question is an aggregate such as sd.count(), a list of aggregates, .where(...).group_by(...).agg(...), "
        f'or sd.sql("SELECT ..."), not a {type(question).__name__}'
    )


def _ddof(ddof: int) -> int:
    if isinstance(ddof, bool) or ddof not in (0, 1):
        raise QuestionRefused("ddof is 0 (the rows themselves) or 1 (a sample)")
    return int(ddof)


def _key(of: Column) -> Node:
    if not isinstance(of, Expr):
        return _node(of)
    if isinstance(of.node, Constant):
        raise QuestionRefused("a constant needs no question: name a column")
    return of.node


def groupings(keys: Sequence[tuple[str | None, Node]]) -> tuple[Grouping, ...]:
    """Return group-by columns by the names given, None for one of their own: the column's, or words if that is taken.

    >>> [g.alias for g in groupings([(None, col("d").year().node), (None, col("d").month().node)])]
    ['year(d)', 'month(d)']
    """
    own = [label(node) for _, node in keys]
    return tuple(
        Grouping(name or (describe(node) if own.count(own[i]) > 1 else own[i]), node)
        for i, (name, node) in enumerate(keys)
    )


def _node(of: Column) -> Node:
    if isinstance(of, str):
        return col(of).node
    if isinstance(of, Expr):
        if of.name is not None:
            raise QuestionRefused(
                f"alias({of.name!r}) names a key of group_by: name the aggregate, sd.sum(...).alias(...)"
            )
        return _key(of)
    raise QuestionRefused(f"a column is named by text or by col(...), not by a {type(of).__name__}")


def label(node: Node) -> str:
    """Return the column name that an expression gets: its column's, where it has one only, else its words."""
    depth(node)
    names = {at.name for at in walk(node) if isinstance(at, Name)}
    if len(names) == 1 and not isinstance(node, Connective):
        return names.pop()
    return describe(node)
