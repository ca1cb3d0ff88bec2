"""SQL text to our trees: one SELECT of aggregates, its groups, and what is done to the answer; the rest is refused.

The text is parsed and translated; it never reaches an engine. What is not translated here cannot be asked.
"""

from __future__ import annotations

import contextlib
import datetime
import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from sordino.ask.queries import build
from sordino.ask.queries.aggregates.distinct import DISTANCES
from sordino.ask.queries.aggregates.most_common import MostCommon, most_common
from sordino.ask.queries.aggregates.quantile import median
from sordino.ask.queries.aggregation import Aggregation, Grouping, columns_of, tighten
from sordino.ask.queries.build import (
    AggregateExpr,
    collect_columns,
    correlation,
    count,
    count_distinct,
    covariance,
    groupings,
    label,
    mean,
    std,
    variance,
)
from sordino.ask.queries.expressions.expr import Expr, col
from sordino.ask.queries.expressions.keys import KeyList, check_min_units, key_list, selection_name
from sordino.ask.queries.expressions.nodes import Constant, Name, Node, Released, describe, walk
from sordino.ask.queries.expressions.sql_trees import trees, write_duckdb
from sordino.ask.queries.post_processing import FormulaColumn, PostProcessing, is_condition, rename
from sordino.ask.queries.query import check_planning
from sordino.ask.queries.sql.dialects import normalize
from sordino.ask.queries.sql.from_clause import DeclaredNames, Scope, base_table, scope_of
from sordino.ask.queries.sql.functions import cast_released
from sordino.ask.queries.sql.text import (
    Place,
    Start,
    dialect_of,
    is_same_table,
    known_dialect,
    only_known,
    parse_select,
    split_statements,
)
from sordino.ask.queries.sql.time_functions import put_moment, reads_clock
from sordino.ask.queries.sql.unit_conditions import read_exists
from sordino.ask.queries.sql.values import (
    AGGREGATES,
    Translator,
    is_unit_total,
    read_bounds,
    read_quantile,
    read_unit_total,
    take_key_list,
)
from sordino.ask.queries.sql.whole_division import ColumnKinds, cut_quotients
from sordino.core.errors import QuestionRefused, UnknownName, nearest
from sordino.core.lazy import load_feature
from sordino.core.neighbors import ContributionBounds

# the columns of tables, by name
Tables = Mapping[str, tuple[str, ...]]
Read = TypeVar("Read")

_CLAUSES = {"expressions", "from_", "from", "where", "group", "with_", "having", "order", "limit", "offset"}
_KNOWN = _CLAUSES | {"joins", "hint"}
_ONE: dict[str, Callable[[Expr], AggregateExpr]] = {
    "Avg": mean,
    "Median": median,
    "Stddev": lambda of: std(of, ddof=1),
    "StddevPop": lambda of: std(of, ddof=0),
    "StddevSamp": lambda of: std(of, ddof=1),
    "Sum": build.sum,
    "Variance": lambda of: variance(of, ddof=1),
    "VariancePop": lambda of: variance(of, ddof=0),
}
_TWO: dict[str, Callable[[Expr, Expr], AggregateExpr]] = {
    "Corr": correlation,
    "CovarPop": lambda x, y: covariance(x, y, ddof=0),
    "CovarSamp": lambda x, y: covariance(x, y, ddof=1),
}


@dataclass(frozen=True, slots=True)
class SqlSelect:
    """One SELECT as it was parsed: its tree, the declared table that it is about, where that name stands, and whose SQL it is."""

    place: Place
    tree: Any
    table: str
    source: Any
    bounds: ContributionBounds | None = None
    dialect: str = "duckdb"
    # What each item of SELECT is called without AS; empty where that is not known.
    names: tuple[str | None, ...] = ()


@dataclass(frozen=True, slots=True)
class SqlText:
    """A question as SQL text, not yet understood, or several; `select` is its tree, where it was parsed before."""

    text: str
    select: SqlSelect | None = field(default=None, compare=False, repr=False)
    dialect: str | None = None
    keys: Any = field(default=None, compare=False, repr=False)
    min_units: int = 1
    bounds: ContributionBounds | None = None
    start: Start = field(default=(0, 0), compare=False, repr=False)
    released: Mapping[str, Released] = field(default_factory=dict, compare=False, repr=False)
    # What NOW() stands for, once the question is planned.
    moment: datetime.datetime | None = None

    def at_moment(self, moment: datetime.datetime) -> SqlText:
        """Return the question in which NOW() and CURRENT_DATE are this moment and its day, in UTC; others as they are."""
        return replace(self, moment=moment, select=None) if reads_clock(self.text) else self

    def bound_contributions(
        self, *, max_rows: int | None = None, max_groups: int | None = None, max_rows_per_group: int | None = None
    ) -> SqlText:
        """Return the question in which one unit contributes no more than this, as a hint in the text would say."""
        return replace(self, bounds=tighten(self.bounds, ContributionBounds(max_rows, max_groups, max_rows_per_group)))

    def in_dialect(self, dialect: str | None) -> SqlText:
        """Return the same text, read as SQL of this dialect where it does not name its own."""
        return self if self.dialect is not None or dialect is None else replace(self, dialect=dialect)

    def statements(self) -> list[SqlText]:
        """Return the SELECTs of the text, which are separated by semicolons; several make a batch."""
        if self.select is not None:
            return [self]
        texts = split_statements(self.text, dialect=self.dialect)
        return [self] if len(texts) < 2 else [replace(self, text=text, start=start) for text, start in texts]

    def parse(self, columns: Iterable[str] = (), public: Iterable[str] = ()) -> SqlSelect:
        """Return the SELECT that the text is; raises QuestionRefused where it is not one about one table.

        `columns` and `public` are the declared names of columns and of public tables, for hints and for joins.
        """
        check_planning()
        return self.select or _not_too_deep(
            lambda: _select(self.text, columns, public, self.dialect, self.start, self.moment)
        )


def sql(text: str, *, dialect: str | None = None, keys: Any = None, min_units: int = 1) -> SqlText:
    """Say that a text is SQL: `adult.ask(sd.sql("SELECT COUNT(*) FROM adult"), epsilon=0.5)`.

    `dialect` names whose SQL it is, such as "bigquery", "postgres", "spark" or "tsql"; without it the text is DuckDB's, or
    that of whoever quotes names with backticks or [brackets], or writes TOP. `keys` lists the rows of the answer, as in
    `group_by`: tuples in the order of GROUP BY, or a public table with columns of those names. `min_units` is as there.

    Several SELECTs, separated by semicolons, are a batch: `adult.plan(sd.sql("SELECT ...; SELECT ..."), epsilon=1)`.

    >>> sql("SELECT COUNT(*) FROM adult").text
    'SELECT COUNT(*) FROM adult'
    """
    if not isinstance(text, str) or not text.strip():
        words = "empty" if isinstance(text, str) else "not a text"
        raise QuestionRefused(f'the question is {words}; ask such as "SELECT COUNT(*) AS n FROM adult"')
    named = None if dialect is None else known_dialect(dialect)
    return SqlText(text, dialect=named, keys=keys, min_units=check_min_units(min_units))


def parse_sql(
    text: str, *, table: str, columns: Iterable[str] = (), public: Tables | None = None, private: Tables | None = None
) -> Aggregation:
    """Return the question that SQL text asks about `table`; `public` and `private` tables may be joined.

    Columns without AS have the names that they have in Python. Names match the declared `columns` whatever their case.

    Raises UnknownName for another table, QuestionRefused for
    whatever is not supported, by its name and place.
    """
    declared = DeclaredNames(table, tuple(columns), public or {}, private or {}, read_exists)
    return _not_too_deep(
        lambda: _question(replace(_select(text, declared.columns, declared.public), names=()), declared)
    )


def parse_question(
    text: SqlText,
    *,
    table: str,
    columns: Iterable[str] = (),
    public: Tables | None = None,
    private: Tables | None = None,
    kinds: ColumnKinds | None = None,
) -> Aggregation | MostCommon:
    """Return the question that SQL text asks about `table`, as `parse_sql`; `SELECT MODE(column)` asks for a choice.

    `kinds` says which columns of these tables are whole numbers and days, for `/` where the dialect cuts it.

    Raises QuestionRefused also where MODE stands beside other columns or groups: a choice is a question of its own.
    """
    declared = DeclaredNames(table, tuple(columns), public or {}, private or {}, read_exists, released=text.released)
    select = text.parse(declared.columns, declared.public)
    select = _not_too_deep(lambda: replace(select, tree=cut_quotients(select.tree, kinds or {})))
    how = selection_name(text.keys)
    read = _not_too_deep(lambda: _choice(select, declared) or _question(select, declared, None if how else text.keys))
    read = replace(read, min_units=text.min_units, key_selection=how) if isinstance(read, Aggregation) else read
    return read if text.bounds is None else replace(read, bounds=tighten(read.bounds, text.bounds))


def _select(
    text: str,
    columns: Iterable[str],
    public: Iterable[str],
    dialect: str | None = None,
    start: Start = (0, 0),
    moment: datetime.datetime | None = None,
) -> SqlSelect:
    place = Place(text, start)
    tree = parse_select(text, columns, dialect=dialect, start=start)
    # every hint has a +
    bounds = read_bounds(place, tree) if "+" in text else None
    dated = tree if moment is None else put_moment(tree.copy(), moment)
    normalized = normalize(dated, public={name.lower() for name in public})
    dialect_written = dialect_of(text) if dialect is None else dialect
    names = _names(text if dialect_written == "duckdb" else "", tree)
    return SqlSelect(place, normalized, *base_table(place, normalized), bounds, dialect_written, names)


def _names(text: str, tree: Any) -> tuple[str | None, ...]:
    """Return the names that DuckDB gives the items of a SELECT; none where all have names of their own."""
    kinds = trees()
    if all(isinstance(item, (kinds.Alias, kinds.Column, kinds.Star)) for item in tree.expressions):
        return ()
    names: tuple[str | None, ...] | None = load_feature("item_names")(text)
    return names or load_feature("item_names")(write_duckdb(tree)) or ()


def _check_table(select: SqlSelect, table: str) -> None:
    if not is_same_table(select.table, table):
        at = select.place.of(select.source)
        raise UnknownName(f"{at}table {select.table!r} is not declared; {nearest(select.table, [table])}")


def _choice(select: SqlSelect, declared: DeclaredNames) -> MostCommon | None:
    tree = select.tree
    place = select.place
    inner = [e.this if isinstance(e, trees().Alias) else e for e in getattr(tree, "expressions", [])]
    modes = [e for e in inner if type(e).__name__ == "Mode"]
    if not modes:
        return None
    _check_table(select, declared.table)
    if len(inner) > 1 or any(tree.args.get(n) for n in ("group", "having", "order", "limit", "joins", "with_")):
        raise QuestionRefused(
            f"{place.of(modes[0])}MODE is a question of its own: SELECT MODE(column) FROM {select.table} WHERE ..."
        )
    only_known(place, tree, _KNOWN)
    scope = scope_of(place, tree, replace(declared, public={}, private={}))
    if scope.steps or scope.sample is not None:
        raise QuestionRefused(f"{place.of(modes[0])}MODE is not supported with joins, samples or grouped sub-queries")
    values = Translator(place, lambda item: scope.column(place, item))
    where = tree.args.get("where")
    node = scope.restrict(None if where is None else values.value(where.this).node)
    named = select.names[0] if len(select.names) == 1 else None
    alias = tree.expressions[0].alias if isinstance(tree.expressions[0], trees().Alias) else named
    question = most_common(values.value(modes[0].this), where=None if node is None else Expr(node), alias=alias)
    return replace(question, bounds=select.bounds, present=True, dialect=select.dialect)


def _question(select: SqlSelect, declared: DeclaredNames, listed: object = None) -> Aggregation:
    _check_table(select, declared.table)
    only_known(select.place, select.tree, _KNOWN)
    scope = scope_of(select.place, select.tree, declared)
    read = _Reader(select, scope, declared, listed)
    return replace(read.question(), bounds=select.bounds, dialect=select.dialect)


def _not_too_deep(read: Callable[[], Read]) -> Read:
    results: list[Read] = []
    with contextlib.suppress(RecursionError):
        results.append(read())
    if not results:
        raise QuestionRefused("the question is nested too deep to be read: use IN, or simplify it")
    return results[0]


class _Reader:
    """Translates the outer SELECT."""

    def __init__(self, select: SqlSelect, scope: Scope, declared: DeclaredNames, listed: object) -> None:
        self._place = select.place
        self._listed = listed
        self._select = select.tree
        self._scope = scope
        self._values = declared.translator(select.place, scope)
        # What each item of SELECT is called: with AS, or as DuckDB calls it; None where a column's own name is meant.
        items = self._select.expressions
        usual = select.names if len(select.names) == len(items) else (None,) * len(items)
        self._named = [
            item.alias if isinstance(item, trees().Alias) else None if isinstance(item, trees().Column) else name
            for item, name in zip(items, usual, strict=True)
        ]
        # the answer's column that each item of SELECT is
        self._outputs: list[str] = []
        self._groups: tuple[Grouping, ...] = ()
        self._aggregates: list[AggregateExpr] = []
        self._constants: list[FormulaColumn] = []
        # what HAVING and ORDER BY read and SELECT does not show
        self._unseen: list[AggregateExpr] = []

    def question(self) -> Aggregation:
        """Return the question."""
        select = self._select
        self._groups = self._group_by()
        for item, name in zip(select.expressions, self._named, strict=True):
            has_alias = isinstance(item, trees().Alias)
            self._outputs.append(self._column(item.this if has_alias else item, name, has_alias=has_alias))
        keys, condition = self._rows()
        after = self._after()
        scope = self._scope
        for table in scope.kept_tables:
            self._check_kept(table)
        if not self._aggregates and not self._unseen and not self._groups:
            raise QuestionRefused("a question needs an aggregate: add COUNT(*), SUM(...) or AVG(...) to the SELECT")
        columns = collect_columns(self._aggregates, [g.alias for g in self._groups], unseen=self._unseen)
        after = None if after is None else after.rename({a.describe(): a.alias for a in columns.aggregates})
        formulas = (*columns.formulas, *self._constants)
        layout = self._layout(stated=bool(formulas))
        question = Aggregation(condition, self._groups, columns.aggregates, after, scope.sample, scope.steps, layout)
        return replace(question, formulas=formulas, hidden=columns.hidden, key_list=keys)

    def _check_kept(self, table: str) -> None:
        """Raise QuestionRefused where a RIGHT JOIN counts a public row without a match.

        Such a row has no value of the private table: sums, means and counts of its columns are those of JOIN, if the keys are
        of the public table, all of which are shown.
        """
        theirs = f"{table}."
        aggregates = [a.aggregate for a in (*self._aggregates, *self._unseen)]
        aggregates += [other for a in (*self._aggregates, *self._unseen) for other in a.others]
        keys = all(any(isinstance(at, Name) and at.name.startswith(theirs) for at in walk(g.of)) for g in self._groups)
        for aggregate in aggregates:
            of = getattr(aggregate, "of", None)
            private = of is not None and not any(isinstance(at, Name) and at.name.startswith(theirs) for at in walk(of))
            if not keys or not private:
                at = self._place.word("RIGHT")
                word = "RIGHT JOIN" if at else "LEFT JOIN"
                raise QuestionRefused(
                    f"{at}{word} keeps rows of {table} without a match, which COUNT(*) and keys of the private table would "
                    f"count, though they are no person's: JOIN {table}, which shows all its keys, or count a private column"
                )

    def _rows(self) -> tuple[KeyList | None, Node | None]:
        """Split WHERE into a key list, if it holds one, and the remaining condition.

        With a list beside the text, all of WHERE is a condition.
        """
        where = self._select.args.get("where")
        parts = [] if where is None else [where.this]
        listed = None
        rest = None
        # a list of keys is one of tuples
        if parts and where.find(trees().Tuple):
            listed, rest = take_key_list(self._place, where.this, self._groups, self._values.value)
        if self._listed is not None:
            listed = key_list(self._listed, [g.alias for g in self._groups])
            rest = None
        parts = parts if rest is None else rest
        node = None if not parts else self._values.value(trees().and_(*parts) if len(parts) > 1 else parts[0]).node
        return listed, self._scope.restrict(node)

    def _column(self, item: Any, name: str | None, *, has_alias: bool) -> str:
        """Read one item of SELECT, an aggregate, a formula, a key or a constant, and return its column's name.

        `name` is the one that AS gives it, where it `has_alias`, else the one that DuckDB gives it.
        """
        aggregate = self._aggregate(item) or self._formula(item)
        if aggregate is not None:
            own = aggregate.aggregate.alias if aggregate.formula is None else aggregate.formula.alias
            # Several quantiles are several columns, where DuckDB has a list.
            usual = name if len(columns_of(aggregate.aggregate)) == 1 else None
            alias = name if has_alias and name else self._free_name(usual or self._shorten(item, aggregate, own))
            aggregate = aggregate.alias(alias)
            self._aggregates.append(aggregate)
            return aggregate.aggregate.alias if aggregate.formula is None else aggregate.formula.alias
        node = None if isinstance(item, trees().Star) else self._values.value(item).node
        group = next((g for g in self._groups if g.of == node), None)
        if group is not None and group.alias in self._outputs:
            raise QuestionRefused(f"{self._place.of(item)}{group.alias} stands twice in SELECT: select it once")
        if group is not None:
            return group.alias
        if not isinstance(node, Constant):
            raise self._not_grouped(item)
        self._constants.append(
            FormulaColumn(name if has_alias and name else self._free_name(name or describe(node)), node)
        )
        return self._constants[-1].alias

    def _shorten(self, item: Any, aggregate: AggregateExpr, own: str) -> str:
        """Shorten an aggregate's name: a long expression in it gives way to the name that a sub-query gave it."""
        of = None if aggregate.formula is not None else getattr(aggregate.aggregate, "of", None)
        words = "" if of is None else label(of)
        return own.removesuffix(words) + str(item.this.name) if " " in words and item.this.name else own

    def _formula(self, item: Any) -> AggregateExpr | None:
        """Translate arithmetic over aggregates, such as SUM(a) / SUM(b); None without an aggregate in it."""
        if item.find(trees().AggFunc) is None:
            return None
        parts: dict[str, AggregateExpr] = {}

        def aggregate(inner: Any) -> Expr | None:
            part = self._aggregate(inner)
            if part is None:
                return cast_released(inner, values.value) if isinstance(inner, trees().Cast) else None
            parts[part.aggregate.describe()] = part
            return Expr(Name(part.aggregate.describe()))

        values = Translator(self._place, self._refuse_in_formula, aggregate)
        node = values.value(item).node
        if is_condition(node) and self._select.args.get("having") is None:
            # A formula is a number, 1 or 0; a statement gives the truth itself. HAVING may name the truth, and needs it here.
            raise QuestionRefused(
                f"{self._place.of(item)}a condition over aggregates is no formula: write CASE WHEN ... THEN 1 ELSE 0 END"
            )
        first, *others = (one.aggregate for one in parts.values())
        short = rename(node, {words: one.aggregate.alias for words, one in parts.items()})
        return AggregateExpr(first, tuple(others), FormulaColumn(describe(short), node))

    def _refuse_in_formula(self, item: Any) -> Expr:
        raise QuestionRefused(
            f"{self._place.of(item)}{item.name} is a value of a single row beside an aggregate: a formula computes with "
            f"aggregates, such as SUM({item.name})"
        )

    def _free_name(self, name: str) -> str:
        """Return a name that no column of the answer has yet: the same, or with a number."""
        names = {n.lower() for n in (*self._outputs, *(g.alias for g in self._groups))}
        tries = (f"{name}_{i}" if i else name for i in itertools.count())
        return next(t for t in tries if t.lower() not in names)

    def _layout(self, *, stated: bool) -> tuple[str, ...]:
        """Return the answer's columns as SELECT orders them, without the groups that it leaves out.

        Empty where that is keys first, unless it is to be `stated`. Keys that are listed beside the text are all shown.
        """
        several = {a.aggregate.alias: columns_of(a.aggregate) for a in self._aggregates if a.formula is None}
        groups = [g.alias for g in self._groups]
        names = [n for o in self._outputs for n in several.get(o, (o,))]
        unselected = [] if self._listed is None else [g for g in groups if g not in self._outputs]
        columns = tuple(dict.fromkeys([*unselected, *names]))
        return () if columns[: len(groups)] == tuple(groups) and not stated else columns

    # ---- groups

    def _group_by(self) -> tuple[Grouping, ...]:
        clause = self._select.args.get("group")
        if clause is None:
            return ()
        for name, value in clause.args.items():
            if value and name != "expressions":
                word = name.strip("_").upper().replace("_", " ")
                raise QuestionRefused(f"{self._place.word(word)}GROUP BY {word} is not supported: list the columns")
        return groupings([self._grouping(item) for item in clause.expressions])

    def _grouping(self, item: Any) -> tuple[str | None, Node]:
        """Return one group's name and meaning: a column, an expression, an alias of SELECT, or the place of an item.

        The name is that of the item of SELECT that means the same, however either is written.
        """
        selected = self._select.expressions
        aliases = {e.alias.lower(): e.this for e in selected if isinstance(e, trees().Alias)}
        target = item
        name = None
        if isinstance(item, trees().Literal) and not item.is_string:
            target = selected[self._at(item, "GROUP BY")]
        elif self._is_alias(item, aliases):
            target = aliases[item.name.lower()]
            name = item.name
        if isinstance(target, trees().Alias):
            name = target.alias
            target = target.this
        node = self._values.value(target).node
        if name is None:
            name = next((n for e, n in zip(selected, self._named, strict=True) if n and self._means(e, node)), None)
        if name is None and isinstance(target, trees().Column):
            name = self._scope.output_name(target)
        return name, node

    def _means(self, item: Any, node: Node) -> bool:
        """Return whether an item of SELECT is this expression of a row."""
        if item.find(trees().AggFunc, trees().Star) is not None:
            return False
        with contextlib.suppress(QuestionRefused, UnknownName):
            return self._values.value(item.unalias()).node == node
        return False

    def _is_alias(self, item: Any, aliases: dict[str, Any]) -> bool:
        """Say whether a GROUP BY name is an alias of SELECT; a column of the same name comes first, as in SQL."""
        if not isinstance(item, trees().Column) or item.table or item.name.lower() not in aliases:
            return False
        return item.name.lower() not in self._scope.every()

    def _at(self, item: Any, clause: str) -> int:
        at = int(item.this) if item.this.isdigit() else 0
        if not 1 <= at <= len(self._select.expressions):
            raise QuestionRefused(f"{self._place.of(item)}{clause} {item.this}: there is no such column in SELECT")
        return at - 1

    # ---- aggregates

    def _aggregate(self, item: Any) -> AggregateExpr | None:
        """Translate an aggregate; None for any other tree."""
        kind = type(item).__name__
        if kind not in AGGREGATES:
            return None
        if isinstance(item, trees().Count):
            return self._count(item)
        if isinstance(item.this, trees().Distinct):
            if isinstance(item, trees().Sum) and len(item.this.expressions) == 1:
                return build.sum_distinct(self._values.value(item.this.expressions[0]))
            if isinstance(item, trees().Sum) and len(item.this.expressions) == 2:
                of, power = item.this.expressions
                if isinstance(power, trees().Literal) and power.name in DISTANCES:
                    return build.sum_distances(self._values.value(of), DISTANCES[power.name])
            word = self._place.name(item) or item.sql_name()
            raise QuestionRefused(
                f"{self._place.of(item)}{word}(DISTINCT) is not supported, SUM, AVG, COUNT, VARIANCE and STDDEV of DISTINCT "
                "values are: leave DISTINCT out, which asks of all rows"
            )
        if is_unit_total(item):
            return read_unit_total(self._place, self._values, item.this)
        if kind in _ONE:
            return _ONE[kind](self._values.value(item.this))
        if kind in _TWO:
            return _TWO[kind](self._values.value(item.this), self._values.value(item.expression))
        return read_quantile(self._place, self._values, item)

    def _count(self, item: Any) -> AggregateExpr:
        kinds = trees()
        if isinstance(item.this, kinds.Distinct):
            parts = item.this.expressions
            # a row value, (a, b), is counted where a part of it is missing too
            is_row = len(parts) == 1 and isinstance(parts[0], kinds.Tuple)
            if is_row or (parts and not any(isinstance(p, kinds.Tuple) for p in parts)):
                columns = parts[0].expressions if is_row else parts
                return count_distinct(*map(self._values.value, columns), missing=is_row)
        if item.expressions or isinstance(item.this, kinds.Distinct):
            raise QuestionRefused(f"{self._place.of(item)}COUNT takes * or one column")
        if isinstance(item.this, kinds.Star):
            return count()
        value = self._values.value(item.this)
        return count() if isinstance(value.node, Constant) else count(value)

    def _not_grouped(self, item: Any) -> QuestionRefused:
        words = " ".join(item.sql(dialect="duckdb").split())
        words = words if len(words) <= 60 else words[:57] + "..."
        if isinstance(item, trees().Star):
            at = self._place.word("*")
            return QuestionRefused(f"{at}SELECT * is refused: rows are never released; ask for aggregates of them")
        return QuestionRefused(
            f"{self._place.of(item)}SELECT {words} is refused: it is a value of a single row, and rows are never released; "
            f"ask for an aggregate, such as COUNT(*) or AVG({words}), or GROUP BY {words}"
        )

    # ---- what is done to the answer

    def _after(self) -> PostProcessing | None:
        """Return HAVING, ORDER BY and LIMIT, which read the noisy answer."""
        args = self._select.args
        having, order, limit, offset = (args.get(name) for name in ("having", "order", "limit", "offset"))
        if having is None and order is None and limit is None and offset is None:
            return None
        # a grouped column comes before an alias of its name
        values = Translator(self._place, self._output_name, self._output)
        condition = None if having is None else values.value(having.this).node
        ordered = [] if order is None else [self._order_key(item, values) for item in order.expressions]
        most = None if limit is None else self._row_number(limit, "LIMIT")
        first = 0 if offset is None else self._row_number(offset, "OFFSET")
        return PostProcessing(condition, tuple(ordered), most, first)

    def _order_key(self, item: Any, values: Translator) -> tuple[Any, bool]:
        if item.args.get("nulls_first") and self._place.word("NULLS"):
            raise QuestionRefused(f"{self._place.word('NULLS')}NULLS FIRST is not supported: missing keys come last")
        if isinstance(item.this, trees().Literal) and not item.this.is_string:
            return col(self._outputs[self._at(item.this, "ORDER BY")]).node, bool(item.args.get("desc"))
        alone = item.this
        if isinstance(alone, trees().Column) and not alone.table and (alias := self._alias(alone.name)):
            # a name alone is a column of the answer, as in SQL
            return col(alias).node, bool(item.args.get("desc"))
        return values.value(alone).node, bool(item.args.get("desc"))

    def _row_number(self, item: Any, word: str) -> int:
        count_ = item.expression
        if item.args.get("limit_options") or not isinstance(count_, trees().Literal) or not count_.this.isdigit():
            raise QuestionRefused(f"{self._place.word(word)}{word} takes a number of rows, such as {word} 10")
        return int(count_.this)

    def _output(self, item: Any) -> Expr | None:
        """Return the answer's column that an aggregate or a grouped expression is; None for any other expression."""
        aggregate = self._aggregate(item)
        if aggregate is not None:
            self._unseen.append(aggregate)
            return Expr(Name(aggregate.aggregate.describe()))
        if isinstance(item, (trees().Column, trees().Literal)):
            return None
        for selected, name in zip(self._select.expressions, self._outputs, strict=True):
            inner = selected.this if isinstance(selected, trees().Alias) else selected
            if inner == item:
                return col(name)
        return None

    def _output_name(self, item: Any) -> Expr:
        """Return the answer's column that a name stands for: a grouped column first, then an alias, as in SQL."""
        node: Any = None
        with contextlib.suppress(UnknownName):
            node = self._scope.column(self._place, item).node
        group = None if node is None else next((g for g in self._groups if g.of == node), None)
        if group is not None:
            return col(group.alias)
        alias = None if item.table else self._alias(item.name)
        if alias is not None:
            return col(alias)
        if node is None:
            hint = nearest(item.name, self._outputs)
            raise UnknownName(f"{self._place.of(item)}the answer has no column {item.name!r}; {hint}")
        raise QuestionRefused(
            f"{self._place.of(item)}{item.name} is not a column of the answer: HAVING and ORDER BY read the released "
            "answer; filter rows with WHERE"
        )

    def _alias(self, name: str) -> str | None:
        """Return the answer's column of that name, whatever its case."""
        return next((o for o in self._outputs if o.lower() == name.lower()), None)
