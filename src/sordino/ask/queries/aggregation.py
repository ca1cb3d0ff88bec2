"""Aggregation: aggregates over the rows that pass a condition, in all, or in each group of declared keys."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from sordino.ask.queries.expressions.compile import bind_condition
from sordino.ask.queries.expressions.expr import Expr, col
from sordino.ask.queries.expressions.keys import (
    KeyList,
    Keys,
    compile_key_list,
    infer_key_list,
    join_keys,
    keys,
    narrow_keys,
)
from sordino.ask.queries.expressions.missing import may_be_missing
from sordino.ask.queries.expressions.nodes import (
    Arithmetic,
    Bin,
    Constant,
    Name,
    Node,
    conjoin,
    describe,
    plain,
    walk,
)
from sordino.ask.queries.expressions.sql_trees import Build
from sordino.ask.queries.frame_words import unknown_word
from sordino.ask.queries.joins import Join
from sordino.ask.queries.post_processing import FormulaColumn, PostProcessing, check_conditions, is_condition
from sordino.ask.queries.query import Aggregate, SqlAggregate, Vector, replace_names
from sordino.ask.queries.row_steps import RowStep, apply_steps, step_domain, step_neighbors
from sordino.ask.queries.sensitivity_rules import stack
from sordino.core.cell_grammar import is_unicode
from sordino.core.domain import Domain
from sordino.core.errors import QuestionRefused
from sordino.core.loss import format_number
from sordino.core.neighbors import ContributionBounds, Neighbors, Sensitivity
from sordino.core.primitives import Primitives
from sordino.core.source import PrivateTable
from sordino.core.text_table import html_table

if TYPE_CHECKING:
    from sqlglot import exp

_MOST_CELLS = 1_000_000
_MOST_AGGREGATES = 256
_SUPERSET = (
    "some of these keys may be ones that no row can have: there are too many combinations of declared values to leave "
    "them out"
)
# more than any table has: no unit's groups are all of them
MOST_PRIVATE_KEYS = 2**62


@dataclass(frozen=True, slots=True)
class Grouping:
    """One group-by column: the expression whose declared keys make the rows, and its name."""

    alias: str
    of: Node


@dataclass(frozen=True, slots=True)
class Aggregation:
    """A question for `aggregates` over the rows where `where` is true, one row for each combination of declared keys.

    Every declared key appears, also where no row has it, so the shape of the answer is public. `after` is done to the
    noisy answer. `sample` is the share of units, each by a secret coin, that are used at all. `steps` make its rows.
    `formulas` are columns computed from the released ones, `hidden` names those that are released for them alone.
    `layout` orders the columns that are shown, `dialect` says whose SQL it was; they are no part of what is asked. `bounds` are
    tighter than the table's.
    """

    where: Node | None
    groups: tuple[Grouping, ...]
    aggregates: tuple[Aggregate, ...]
    after: PostProcessing | None = None
    sample: Fraction | None = None
    steps: tuple[RowStep, ...] = ()
    # the answer's columns in the order of SELECT; empty for groups first
    layout: tuple[str, ...] = ()
    formulas: tuple[FormulaColumn, ...] = ()
    hidden: tuple[str, ...] = ()
    # the rows of the answer, where the question lists them
    key_list: KeyList | None = None
    # private keys of fewer units never show
    min_units: int = 1
    bounds: ContributionBounds | None = None
    # how private keys are selected, where the question says so
    key_selection: str | None = None
    dialect: str = field(default="duckdb", compare=False)

    def bound_contributions(
        self, *, max_rows: int | None = None, max_groups: int | None = None, max_rows_per_group: int | None = None
    ) -> Aggregation:
        """Return the question in which one unit contributes no more than this: less noise, and rows beyond are left out.

        `max_rows` bounds a unit's rows that meet the condition, `max_groups` the groups of GROUP BY that it counts in, and
        `max_rows_per_group` its rows in each. Bounds may only be tighter than those of the table's privacy unit.
        """
        return replace(self, bounds=tighten(self.bounds, ContributionBounds(max_rows, max_groups, max_rows_per_group)))

    def having(self, condition: Expr) -> Aggregation:
        """Return the question whose answer shows only rows that meet `condition` on its own noisy columns, at no cost."""
        if not isinstance(condition, Expr):
            raise QuestionRefused('having takes a condition on the answer, such as col("count") > 30')
        now = self.after or PostProcessing()
        return replace(self, after=replace(now, having=conjoin([now.having, condition.node])))

    def order_by(self, *columns: str | Expr) -> Aggregation:
        """Return the question whose answer is ordered by these of its columns; `-col("count")` for the largest first."""
        order = tuple(_order_key(c) for c in columns)
        return replace(self, after=replace(self.after or PostProcessing(), order=order))

    def limit(self, rows: int, *, offset: int = 0) -> Aggregation:
        """Return the question whose answer shows `rows` rows only, after `having` and `order_by`; `offset` are skipped first."""
        for count in (rows, offset):
            if isinstance(count, bool) or not isinstance(count, int) or count < 0:
                raise QuestionRefused("limit takes a number of rows, such as limit(10)")
        return replace(self, after=replace(self.after or PostProcessing(), limit=rows, offset=offset))

    def sort(self, *columns: str | Expr, descending: bool | Sequence[bool] = False) -> Aggregation:
        """Return the question whose answer is ordered by these of its columns: `order_by` in the words of polars.

        `descending` is of all columns, or one for each. Missing values come last.
        """
        downs = [descending] * len(columns) if isinstance(descending, bool) else list(descending)
        if not columns or len(downs) != len(columns):
            raise QuestionRefused('sort takes columns of the answer, and one descending for all or each: sort("count")')
        named = [col(column) if isinstance(column, str) else column for column in columns]
        return self.order_by(*(-column if down else column for column, down in zip(named, downs, strict=True)))

    def head(self, rows: int = 5) -> Aggregation:
        """Return the question whose answer shows its first `rows` rows: it is `limit(rows)`."""
        return self.limit(rows)

    def filter(self, *conditions: Expr) -> Aggregation:
        """Return the question whose answer shows only rows that meet each condition on its own columns: it is `having`."""
        if not conditions:
            raise QuestionRefused('filter takes conditions on the answer, such as col("count") > 30')
        question = self
        for condition in conditions:
            question = question.having(condition)
        return question

    if not TYPE_CHECKING:

        def __getattr__(self, word: str) -> Any:
            """Name the word that was meant."""
            raise unknown_word(self, word, kind="Aggregation")

    def replace_columns(self, meaning: Callable[[str], Node]) -> Aggregation:
        """Return the question with each column of its rows replaced by what it means; names of the answer stay."""
        return replace(
            self,
            where=None if self.where is None else replace_names(self.where, meaning),
            groups=replace_names(self.groups, meaning),
            aggregates=replace_names(self.aggregates, meaning),
        )

    def exact(self, on: Primitives, domain: Domain) -> exp.Select:
        """Return the SQL tree of the exact answer: columns k0.. (key codes, NULL for dropped rows) and t0.. (terms)."""
        compiled = compile_query(self, step_domain(domain, self.steps))
        return compiled.select(apply_steps(on, self.steps, domain))

    def sensitivity(self, domain: Domain, neighbors: Neighbors) -> Sensitivity:
        """Return how far one unit moves all noisy parts together."""
        compiled = compile_query(self, step_domain(domain, self.steps))
        bounded = compiled.bound(step_neighbors(neighbors, self.steps))
        return stack(tuple(itertools.chain.from_iterable(bounded.sensitivities)))

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show the question in words in a notebook; `repr` states every part."""
        del cycle
        printer.text(f"<Question: {self.describe()}; table.plan(...) prices it, table.ask(...) answers it>")

    def _repr_html_(self) -> str:
        return html_table(
            f"Question: {self.describe()}", (), (), foot="table.plan(...) prices it, table.ask(...) answers it"
        )

    @property
    def reads(self) -> dict[str, PrivateTable]:
        """The other private tables that its steps read."""
        return {name: table for step in self.steps for name, table in getattr(step, "reads", {}).items()}

    def expressions(self) -> list[Node]:
        """Return its expressions: the condition, the keys, the operands of aggregates."""
        nodes = [self.where, *(g.of for g in self.groups)]
        nodes += [getattr(a, field, None) for a in self.aggregates for field in ("of", "other")]
        nodes += [node for a in self.aggregates for node in getattr(a, "others", ())]
        return [node for node in nodes if node is not None]

    def describe(self) -> str:
        """Return the question as a sentence."""
        words = {a.alias: a.describe() for a in self.aggregates}
        columns = [w for alias, w in words.items() if alias not in self.hidden]
        columns += [f.describe(words) for f in self.formulas if f.alias not in self.hidden]
        what = _join_words(columns) if columns else "which keys there are"
        where = "" if self.where is None else f", where {describe(self.where)}"
        per = "" if not self.groups else f", for each {_join_words([describe(g.of) for g in self.groups])}"
        per += "" if self.key_list is None else f" of {self.key_list.describe()}"
        per += "" if self.min_units == 1 else f" of {self.min_units:,} units or more"
        per += "" if self.key_selection is None else f", {self.key_selection} selection of keys"
        share = "" if self.sample is None else f", of a sample of {format_number(self.sample * 100)}%"
        steps = "".join(f", {s.describe()}" for s in self.steps)
        share += "" if self.bounds is None else f", {self.bounds.describe()} of one unit"
        after = "" if self.after is None else f"; {self.after.describe()}"
        return f"{what}{per}{where}{steps}{share}{after}"

    def identity(self) -> str:
        """Return canonical text: equal for equal questions, whatever their spelling in Python or SQL."""
        data: dict[str, Any] = {
            "where": plain(self.where),
            "groups": [[g.alias, plain(g.of)] for g in self.groups],
            "aggregates": [[a.alias, a.plain()] for a in self.aggregates],
        }
        if self.formulas or self.hidden:
            data["formulas"] = [[f.alias, plain(f.node)] for f in self.formulas]
            data["hidden"] = sorted(self.hidden)
        if self.after is not None:
            data["after"] = self.after.plain()
        if self.sample is not None:
            data["sample"] = format_number(self.sample)
        if self.bounds is not None:
            data["bounds"] = self.bounds.to_dict()
        if self.steps:
            joins_only = all(isinstance(s, Join) for s in self.steps)
            data["joins" if joins_only else "steps"] = [s.plain() for s in self.steps]
        if self.min_units > 1:
            data["min_units"] = self.min_units
        if self.key_selection is not None:
            data["key_selection"] = self.key_selection
        if self.key_list is not None:
            data["keys"] = self.key_list.plain()
        return json.dumps(data, sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Possible:
    """The codes of the keys that rows may have: of each group-by column, and of all together where `rows` lists them.

    `missing` says of each column whether rows may have no key there; `exact` that every one of these keys is possible.
    """

    columns: tuple[tuple[int, ...], ...]
    rows: tuple[tuple[int, ...], ...] | None
    missing: tuple[bool, ...]
    exact: bool = True


class FindPossible(Protocol):
    """How the possible keys of a question are found: its groups with their declared keys, its condition and its steps."""

    def __call__(
        self, groups: Sequence[Grouping], declared: Sequence[Keys], where: Node | None, steps: Sequence[RowStep]
    ) -> Possible:
        """Return the codes of the keys that rows may have."""


@dataclass(frozen=True)
class CompiledQuery:
    """An aggregation with its meaning over a domain: declared keys, the condition, the parts of each aggregate."""

    keys: tuple[Keys, ...]
    condition: Build | None
    parts: tuple[tuple[Vector, ...], ...]
    terms: tuple[SqlAggregate, ...]
    unreadable_rows: bool
    # the one Keys are those of all group-by columns, as the question lists them
    listed: bool = False
    bounds: ContributionBounds | None = None
    # more keys, that divide the rows counted: no bound acts on them
    bins: tuple[Keys, ...] = ()
    # a condition on the rows counted
    within: Build | None = None
    # whether it has totals per unit
    totals: bool = False
    # which rows its keys leave out
    notes: tuple[str, ...] = ()
    # every declared key, where the question leaves out those that no row of it can have
    declared: tuple[Keys, ...] = ()
    # the question as a sentence
    words: str = ""

    @cached_property
    def cells(self) -> int:
        """The number of groups: the product of the numbers of declared keys; with private keys, as many as may be."""
        return MOST_PRIVATE_KEYS if self.private_keys else math.prod(len(k.labels) for k in self.keys)

    def key_rows(self) -> list[tuple[Any, ...]]:
        """Return the keys of each group, in order: those listed, or every combination of the declared ones."""
        if self.listed:
            return list(self.keys[0].labels)
        return list(itertools.product(*(k.labels for k in self.keys)))

    @cached_property
    def private_keys(self) -> bool:
        """Whether a group-by column has keys that are not public."""
        return any(k.private for k in self.keys)

    @property
    def droppable(self) -> bool:
        """Whether a row may count in no group."""
        return self.condition is not None or self.unreadable_rows or bool(self.keys)

    def bound(self, neighbors: Neighbors) -> BoundedQuery:
        """Return the question under a neighbor relation, with the contribution bounds that `select` enforces."""
        enforced = neighbors.enforce(self.bounds, by_group=bool(self.keys))
        droppable = self.droppable
        moved = tuple(
            tuple(part.sensitivity(enforced, cells=self.cells, droppable=droppable) for part in several)
            for several in self.parts
        )
        return BoundedQuery(self, enforced, moved)

    def select(self, on: Primitives) -> exp.Select:
        """Return the SQL tree: one scan for all parts, columns k0.. (key codes, NULL for dropped rows) and t0.. (terms)."""

        if self.condition is not None:
            # first, so that what follows is computed for the remaining rows alone
            on.keep(self.condition(on))
        if self._counts_units(on):
            # Any bounds keep a row of each unit that has one, so they need not be applied.
            cell = on.distinct_units()
            counted = [_name(_count_distinct(cell), f"t{i}") for i in range(len(self.terms))]
            return _select(counted, on.source(), 0)
        # bounds act on codes; and different values of several raw cells with one code do not add up
        direct = on.has_units or any(t.kind in ("distinct", "combinations", "distinct_sum") for t in self.terms)
        codes = [k.row_code(on) if direct else k.build(on) for k in self.keys]
        codes = on.bound_contributions(codes, self.bounds, totals=self.totals)
        if self.within is not None:
            on.keep(self.within(on))
        codes += [k.build(on) for k in self.bins]
        columns = [_name(code, f"k{i}") for i, code in enumerate(codes)]
        columns += [_name(t.sql(on), f"t{i}") for i, t in enumerate(self.terms)]
        # the source comes last, when every step has its name
        select = _select(columns, on.source(), len(codes))
        return self._by_code(select, on) if any(k.code for k in self.keys) and not direct else select

    def _counts_units(self, on: Primitives) -> bool:
        """Return whether it counts the different units of its rows, in all, and nothing else."""
        if not on.has_units or self.keys or self.bins or self.within is not None or not self.terms:
            return False
        # `presence` of a column by itself
        return all(
            t.kind == "distinct"
            and not t.others
            and t.of is not None
            and isinstance(t.of.meaning, tuple)
            and t.of.meaning[0] == "present"
            and isinstance(t.of.meaning[1], Name)
            and on.is_unit(t.of.meaning[1].name)
            for t in self.terms
        )

    def _by_code(self, cells: exp.Select, on: Primitives) -> exp.Select:
        """Return the SQL tree that makes codes of the raw cells that rows were grouped by, and adds those groups up."""
        from sqlglot import exp

        groups = on.of_groups(cells)
        columns: list[Any] = []
        for i, key in enumerate((*self.keys, *self.bins)):
            columns.append(_name(key.code_of(groups, exp.column(f"k{i}")), f"k{i}"))
        columns += [_name(exp.Sum(this=exp.column(f"t{i}")), f"t{i}") for i in range(len(self.terms))]
        return _select(columns, groups.source(), len(self.keys) + len(self.bins))


@dataclass(frozen=True, slots=True)
class BoundedQuery:
    """A compiled query, the relation of the rows that it counts, and how far one unit moves each part of each aggregate."""

    compiled: CompiledQuery
    neighbors: Neighbors
    sensitivities: tuple[tuple[Sensitivity, ...], ...]


def columns_of(aggregate: Aggregate) -> tuple[str, ...]:
    """Return the names of an aggregate's columns in the answer: several quantiles have one each."""
    several = getattr(aggregate, "columns", None)
    return (aggregate.alias,) if several is None else tuple(several())


def _name(of: exp.Expression, alias: str) -> exp.Expression:
    """Return a tree under a name; sqlglot's own function for that would copy and parse."""
    from sqlglot import exp

    return exp.Alias(this=of, alias=exp.Identifier(this=alias, quoted=False))


def _count_distinct(cell: exp.Expression) -> exp.Expression:
    from sqlglot import exp

    return exp.Count(this=exp.Distinct(expressions=[cell.copy()]))


def _select(columns: list[exp.Expression], source: exp.Expression, keys: int) -> exp.Select:
    """Return the SELECT of columns that begin with so many keys, by which they are grouped."""
    from sqlglot import exp

    grouped = {"group": exp.Group(expressions=[exp.Literal.number(i + 1) for i in range(keys)])} if keys else {}
    return exp.Select(expressions=columns, from_=exp.From(this=source), **grouped)


def compile_query(question: Aggregation, domain: Domain, *, possible: FindPossible | None = None) -> CompiledQuery:
    """Compile a question over a domain; raises QuestionRefused where it has no private answer.

    With `possible`, declared keys that no row of the question can have are left out.
    """
    names = _check_question(question, domain)
    key_columns, listed = _keys(question, domain) if question.groups or question.key_list else ((), False)
    if question.after is not None:
        question.after.check(names, _truth_columns(question, key_columns, listed=listed))
    condition = None if question.where is None else bind_condition(question.where, domain)
    # Keys that no row can have are left out, of all group-by columns together where their combinations are few.
    narrowed: Possible | None = None
    declared = key_columns
    if possible is not None and key_columns and not listed and not any(k.private for k in key_columns):
        narrowed = possible(question.groups, key_columns, question.where, question.steps)
        listed = narrowed.rows is not None
        if narrowed.rows is not None:
            key_columns = (join_keys(key_columns, narrowed.rows),)
        else:
            key_columns = tuple(narrow_keys(k, codes) for k, codes in zip(key_columns, narrowed.columns, strict=True))
    cells = math.prod(len(k.labels) for k in key_columns if not k.private)
    if cells > _MOST_CELLS:
        raise QuestionRefused(f"the declared keys make {cells} groups, above {_MOST_CELLS}: group by fewer, or by bins")
    words = question.describe()
    _check_text([words, *(g.alias for g in question.groups), *(a.alias for a in question.aggregates)])
    parts = tuple(tuple(a.parts(domain)) for a in question.aggregates)
    if question.formulas:
        _check_times(question, parts)
    terms = tuple(dict.fromkeys(t for several in parts for p in several for _, t in p.terms))
    totals = any(t.per_unit is not None for t in terms)
    lossy = domain.unreadable_rows
    return CompiledQuery(
        key_columns,
        condition,
        parts,
        terms,
        lossy,
        listed=listed,
        bounds=question.bounds,
        totals=totals,
        notes=_say_left_out(question, domain, narrowed),
        declared=() if key_columns == declared else declared,
        words=words,
    )


def _keys(question: Aggregation, domain: Domain) -> tuple[tuple[Keys, ...], bool]:
    """Return the keys of a question, and whether it lists them: then those of all its group-by columns are one."""
    groups = [(g.alias, g.of) for g in question.groups]
    listed = question.key_list or infer_key_list(question.where, groups, domain)
    if listed is None:
        return tuple(keys(of, domain) for _, of in groups), False
    return (compile_key_list(listed, groups, domain),), True


def _say_left_out(question: Aggregation, domain: Domain, possible: Possible | None) -> tuple[str, ...]:
    """Return notes on rows without a key: those in which a column is missing, as declared, and those outside of bins."""
    notes: dict[str, None] = {}
    for place, group in enumerate(question.groups):
        if possible is not None and not possible.missing[place]:
            continue
        if question.key_list is not None and group.alias in question.key_list.columns:
            continue
        reasons = may_be_missing(group.of, domain)
        if reasons.is_key:
            continue
        if reasons.columns:
            read = {at.name for at in walk(group.of) if isinstance(at, Name)}
            # A month is missing with its day, COALESCE(a, b) only where both are.
            what = describe(group.of) if read > set(reasons.columns) else " or ".join(reasons.columns)
            notes[f"rows whose {what} is missing are left out"] = None
        if isinstance(group.of, Bin) and group.of.edges is not None:
            notes[f"rows whose {describe(group.of.of)} lies outside of the bins are left out"] = None
    if possible is not None and not possible.exact:
        notes[_SUPERSET] = None
    return tuple(notes)


def _check_question(question: Aggregation, domain: Domain) -> list[str]:
    """Return the names of the answer's columns; raises QuestionRefused for a question that makes no sense of any domain.

    So it does for a domain that is not made by the question's own steps: none may be skipped.
    """
    if not question.aggregates and not question.groups:
        raise QuestionRefused("a question needs at least one aggregate, such as count(), sum(...) or mean(...)")
    if len(question.aggregates) > _MOST_AGGREGATES:
        raise QuestionRefused(f"a question may have {_MOST_AGGREGATES} aggregates, not {len(question.aggregates)}")
    names = [*(g.alias for g in question.groups), *(n for a in question.aggregates for n in columns_of(a))]
    names += [f.alias for f in question.formulas]
    _check_distinct(names)
    if question.formulas:
        _check_formulas(question)
    after = question.after
    if after is not None and not question.groups and (after.having is not None or after.limit == 0 or after.offset):
        raise QuestionRefused(
            "an answer of one row has no rows to leave out: HAVING, LIMIT 0 and OFFSET go with GROUP BY"
        )
    if domain.steps != question.steps:
        raise QuestionRefused(
            "a question with joins, unnest, exists or per_unit can only be read where its tables are known: hand it to plan "
            "or ask of its own table"
        )
    return names


def _truth_columns(question: Aggregation, key_columns: Sequence[Keys], *, listed: bool) -> set[str]:
    """Return the columns of the answer that hold true and false: keys of conditions, and formulas that are one."""
    truths = {f.alias for f in question.formulas if is_condition(f.node)}
    for place, group in enumerate(question.groups):
        labels = [row[place] for row in key_columns[0].labels] if listed else key_columns[place].labels
        if labels and all(label is None or isinstance(label, bool) for label in labels):
            truths.add(group.alias)
    return truths


def tighten(bounds: ContributionBounds | None, more: ContributionBounds) -> ContributionBounds:
    """Return both bounds together; raises QuestionRefused where `more` states none."""
    if not more.to_dict():
        raise QuestionRefused("bound_contributions takes max_rows=, max_groups= or max_rows_per_group=")
    both = (bounds or more).to_dict(), more.to_dict()
    return ContributionBounds(**{n: min(b[n] for b in both if n in b) for n in {**both[0], **both[1]}})


def _order_key(column: str | Expr) -> tuple[Node, bool]:
    """Return the expression that orders the answer, and whether the largest comes first: -x means x descending."""
    node = Name(column) if isinstance(column, str) else column.node
    if isinstance(node, Arithmetic) and node.op == "*" and node.left == Constant(Fraction(-1)):
        return node.right, True
    return node, False


def _check_formulas(question: Aggregation) -> None:
    """Raise QuestionRefused for a formula of columns without noise of a known law, or one that cannot be computed."""
    selections = {a.alias for a in question.aggregates if hasattr(a, "columns")}
    for formula in question.formulas:
        for name in formula.names():
            if name in selections:
                raise QuestionRefused(
                    "a quantile is chosen, not released with noise, so a formula of it would have no interval: ask for it by "
                    "itself, and compute with the answer"
                )
        check_conditions(formula.node)
        formula.tree({a.alias: i for i, a in enumerate(question.aggregates)})


def _check_times(question: Aggregation, parts: Sequence[Sequence[Vector]]) -> None:
    """Raise QuestionRefused for a formula of a mean that is a date: only a mean by itself, under another name, is none."""
    dated = {a.alias for a, own in zip(question.aggregates, parts, strict=True) if any(p.time for p in own)}
    for formula in question.formulas:
        if not isinstance(formula.node, Name) and dated.intersection(formula.names()):
            raise QuestionRefused(
                "a mean of dates is a date, so a formula cannot compute with it: ask for the mean of a length of time, "
                "(end - start).days()",
                sql="AVG of dates is a date, so a formula cannot compute with it: ask for AVG(DATEDIFF('day', a, b))",
            )


def _check_text(texts: Sequence[str]) -> None:
    if not all(text.isascii() or is_unicode(text) for text in texts):
        raise QuestionRefused("the question holds half of a character (a lone surrogate): write it as whole text")


def _check_distinct(names: Sequence[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise same_name(name)
        seen.add(name.lower())


def same_name(name: str) -> QuestionRefused:
    """Return the refusal of two columns of the answer that have one name."""
    words = f"two columns of the answer are named {name!r}: give one another name with"
    return QuestionRefused(f"{words} .alias(...)", sql=f"{words} AS")


def _join_words(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]
