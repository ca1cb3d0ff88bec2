"""FROM: the table that a SELECT is about, its joins, and sub-queries of one row a person."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

from sordino.ask.queries import build, unit_aggregates
from sordino.ask.queries.aggregates.quantile import median
from sordino.ask.queries.build import AggregateExpr, count, count_distinct, mean
from sordino.ask.queries.expressions.expr import Expr, col
from sordino.ask.queries.expressions.nodes import (
    Apply,
    Compare,
    Constant,
    Exists,
    Name,
    Node,
    Released,
    conjoin,
    conjuncts,
    depth,
    walk,
)
from sordino.ask.queries.expressions.sql_trees import and_parts, from_of, move_to_on, trees, with_of
from sordino.ask.queries.joins import Join, Unnest, qualify
from sordino.ask.queries.per_unit import PerUnit, UnitValues, column_names, unit_columns
from sordino.ask.queries.post_processing import FormulaColumn, rename
from sordino.ask.queries.row_steps import RowStep
from sordino.ask.queries.same_people import again
from sordino.ask.queries.sequences import UnitSequence
from sordino.ask.queries.sql.text import CLAUSES, Place, is_same_table, only_known
from sordino.ask.queries.sql.unit_windows import WindowReader, has_window, own_aggregate, qualify_names
from sordino.ask.queries.sql.values import Translator
from sordino.ask.queries.unit_aggregates import first, last
from sordino.core.errors import QuestionRefused, UnknownName, hint_quotes, nearest

# ---- A sub-query grouped by the privacy unit: one row a unit, its values computed from all of the unit's rows
#
# Whether the column that it is grouped by is the unit's, the curator says; nothing is declared here.

_ONE: dict[str, Callable[[Expr], AggregateExpr]] = {
    # any value will do, and this one does not depend on the order of rows
    "AnyValue": unit_aggregates.min,
    "Avg": mean,
    "Median": median,
    "Mode": unit_aggregates.mode,
    **dict.fromkeys(("Stddev", "StddevSamp", "Variance"), partial(build.variance, ddof=1)),
    **dict.fromkeys(("StddevPop", "VariancePop"), partial(build.variance, ddof=0)),
    "LogicalAnd": unit_aggregates.all,
    "LogicalOr": unit_aggregates.any,
    "Max": unit_aggregates.max,
    "Min": unit_aggregates.min,
    "Sum": build.sum,
}
# roots of the variance
_ROOTS = ("Stddev", "StddevPop", "StddevSamp")
_BY = {"ArgMin": first, "ArgMax": last, "First": first, "Last": last}
_ALONE = "a sub-query is grouped by the privacy unit's column alone, so that each of its rows is one unit"
_INSIDE = "COUNT, SUM, AVG, MEDIAN, MODE, VARIANCE, STDDEV, MIN, MAX, BOOL_OR, BOOL_AND, ANY_VALUE, ARG_MIN, ARG_MAX, FIRST are"
_TAKE = "take one value of it a unit, such as MAX(x), ANY_VALUE(x) or FIRST(x ORDER BY t)"


@dataclass(frozen=True, slots=True)
class UnitSelect:
    """The step that a grouped sub-query is, its columns by their names in lower case, and the units that it keeps."""

    step: PerUnit
    columns: Mapping[str, tuple[str, Expr]]
    having: Node | None


def read_unit_select(
    place: Place,
    select: Any,
    column: Callable[[Any], Expr],
    rows: Node | None,
    condition: Callable[[Any], Expr | None] = lambda _: None,
) -> UnitSelect:
    """Return what a sub-query with GROUP BY means; `column` says what a name of its rows stands for, `rows` which it has.

    `condition` reads IN and EXISTS with a sub-query: of the unit, it is one of its values.
    """
    return _Reader(place, select, column, condition).read(rows)


class _Reader:
    """Translates the items and the HAVING of one grouped sub-query."""

    def __init__(
        self, place: Place, select: Any, column: Callable[[Any], Expr], condition: Callable[[Any], Expr | None]
    ) -> None:
        self._condition = condition
        self._place = place
        self._select = select
        self._column = column
        self._values = Translator(place, column)
        self._outer = Translator(place, self._key, self._special)
        # the aggregates of what is being translated, by their words
        self._parts: dict[str, AggregateExpr] = {}
        self._unit = self._group()

    def read(self, rows: Node | None) -> UnitSelect:
        """Return the step, its columns and its condition."""
        aggregates: list[AggregateExpr] = []
        columns: dict[str, tuple[str, Expr]] = {}
        for item in self._select.expressions:
            named = isinstance(item, (trees().Alias, trees().Column, trees().Star))
            inner = item.unalias()
            name = item.alias_or_name if named else ""
            if isinstance(inner, trees().Star):
                raise self._place.refuse(inner, f"SELECT * with GROUP BY is not supported in a sub-query: {_TAKE}")
            if not name:
                raise self._place.refuse(item, "a computed column of a sub-query needs a name: write AS name")
            if name.lower() in columns:
                raise self._place.refuse(
                    item, f"a sub-query has two columns named {name.lower()!r}: name one of them with AS"
                )
            value, parts = self._translate(inner)
            columns[name.lower()] = (name, value)
            if parts:
                aggregates.append(_name_column(value, parts, name))
        values, nodes, having = unit_columns(aggregates, self._having())
        shown_columns = {low: (name, Expr(nodes.get(name, value.node))) for low, (name, value) in columns.items()}
        return UnitSelect(PerUnit(values, rows, self._unit), shown_columns, having)

    def _having(self) -> AggregateExpr | None:
        """Return the condition on a unit's values."""
        clause = self._select.args.get("having")
        if clause is None:
            return None
        condition, parts = self._translate(clause.this)
        if not parts:
            raise self._place.refuse(clause, "HAVING compares aggregates of a unit's rows: filter rows with WHERE")
        return _name_column(condition, parts, "having")

    def _translate(self, item: Any) -> tuple[Expr, list[AggregateExpr]]:
        """Return an expression over aggregates, each by its own words, and the aggregates."""
        self._parts = {}
        value = self._outer.value(item)
        return value, list(self._parts.values())

    def _group(self) -> str:
        """Return the one column that the sub-query is grouped by."""
        clause = self._select.args.get("group")
        keys = list(self._select.expressions) if clause is None else list(clause.expressions)
        others = [n for n, v in ({} if clause is None else clause.args).items() if v and n != "expressions"]
        if len(keys) > 1 and not any(item.find(trees().AggFunc) for item in self._select.expressions):
            words = ", ".join(key.sql(dialect="duckdb") for key in keys)
            raise QuestionRefused(
                f"{self._place.word('DISTINCT')}a sub-query of several columns has each combination without repetition: "
                f"COUNT(*) of it is supported, and listing it with STRING_AGG; or GROUP BY {words}, and aggregate the answer"
            )
        if len(keys) != 1 or others:
            raise QuestionRefused(f"{self._place.word('GROUP') or self._place.word('DISTINCT')}{_ALONE}: {_TAKE}")
        key = keys[0]
        if (
            isinstance(key, trees().Literal)
            and key.this.isdigit()
            and 1 <= int(key.this) <= len(self._select.expressions)
        ):
            key = self._select.expressions[int(key.this) - 1]
        if isinstance(key, trees().Column) and not self._owns(key):
            key = next((e for e in self._select.expressions if e.alias.lower() == key.name.lower()), key)
        node = self._values.value(key.unalias()).node
        if not isinstance(node, Name):
            raise self._place.refuse(key, f"{_ALONE}, not by an expression")
        return node.name

    def _key(self, item: Any) -> Expr:
        """Return what a name outside of an aggregate stands for: the unit's column, or in HAVING a column of SELECT."""
        if not item.table and not self._owns(item):
            for other in self._select.expressions:
                if isinstance(other, trees().Alias) and other.alias.lower() == item.name.lower():
                    return self._outer.value(other.this)
        value = self._column(item)
        if value.node != Name(self._unit):
            raise self._place.refuse(
                item, f"{item.name} has several values in one unit: {_TAKE.replace('x', item.name)}"
            )
        return value

    def _owns(self, item: Any) -> bool:
        try:
            self._column(item)
        except QuestionRefused:
            return False
        return True

    def _special(self, item: Any) -> Expr | None:
        """Translate an aggregate, named by its own words; None for any other tree."""
        if isinstance(item, (trees().In, trees().Exists)):
            return self._condition(item)
        aggregate = self._aggregate(item)
        if aggregate is None:
            return None
        self._parts[aggregate.aggregate.describe()] = aggregate
        value = Expr(Name(aggregate.aggregate.describe()))
        return Expr(Apply("sqrt", value.node)) if type(item).__name__ in _ROOTS else value

    def _aggregate(self, item: Any) -> AggregateExpr | None:
        kinds = trees()
        while isinstance(item, (kinds.IgnoreNulls, kinds.Paren)):
            item = item.this
        name = type(item).__name__
        if isinstance(item, kinds.Anonymous) and str(item.this).upper() == "EVERY" and len(item.expressions) == 1:
            return unit_aggregates.all(self._values.value(item.expressions[0]))
        if isinstance(item, kinds.Count):
            return self._count(item)
        if isinstance(getattr(item, "this", None), kinds.Order) or name in _BY:
            return self._by(item, name)
        if name not in _ONE:
            if isinstance(item, kinds.AggFunc):
                raise self._place.refuse(item, f"{item.sql_name()} is not computed for one unit: {_INSIDE}")
            return None
        if isinstance(item.this, kinds.Distinct) or item.expressions:
            raise self._place.refuse(item, f"{item.sql_name()} takes one column, without DISTINCT")
        value = self._values.value(item.this)
        return count() if name == "Sum" and value.node == Constant(Fraction(1)) else _ONE[name](value)

    def _count(self, item: Any) -> AggregateExpr:
        kinds = trees()
        if isinstance(item.this, kinds.Distinct) and len(item.this.expressions) == 1:
            return count_distinct(self._values.value(item.this.expressions[0]))
        if isinstance(item.this, kinds.Distinct) or item.expressions:
            raise self._place.refuse(item, "COUNT takes *, one column or DISTINCT and one column")
        if isinstance(item.this, kinds.Star):
            return count()
        value = self._values.value(item.this)
        return count() if isinstance(value.node, Constant) else count(value)

    def _by(self, item: Any, name: str) -> AggregateExpr:
        """ARG_MIN(x, t), ARG_MAX(x, t), FIRST(x ORDER BY t) and LAST(x ORDER BY t)."""
        kinds = trees()
        take = _BY.get(name, first)
        if isinstance(item.this, kinds.Order) and len(item.this.expressions) == 1 and name in (*_BY, "AnyValue"):
            order = item.this.expressions[0]
            if order.args.get("desc"):
                take = last if take is first else first
            return take(self._values.value(item.this.this), by=self._values.value(order.this))
        if name not in ("ArgMin", "ArgMax") or item.args.get("count"):
            word = item.sql_name()
            raise self._place.refuse(
                item, f"{word} of a unit's rows needs the order of one column: {word}(x ORDER BY t)"
            )
        return take(self._values.value(item.this), by=self._values.value(item.expression))


def _name_column(value: Expr, parts: list[AggregateExpr], name: str) -> AggregateExpr:
    """Return a column over aggregates, each by its own words, under its name."""
    first_part, *others = parts
    return AggregateExpr(first_part.aggregate, tuple(p.aggregate for p in others), FormulaColumn(name, value.node))


# ---- What a SELECT joins in SQL: equi-joins of public tables, EXISTS, and CROSS JOIN UNNEST. It knows no data

_WRITE = "write JOIN regions ON adult.state = regions.state, with a table declared as [public.NAME]"
_WRITE_UNNEST = "write FROM posts CROSS JOIN UNNEST(tags) AS t(tag), and conditions in WHERE"


@dataclass(frozen=True, slots=True)
class JoinedTable:
    """A joined table in a scope: the name it goes by, and what its columns stand for, by their names in lower case."""

    table: str
    alias: str
    columns: Mapping[str, tuple[str, Expr]]
    # the columns that equal the private column of the same name, in lower case
    same: tuple[str, ...] = ()

    def has(self, name: str) -> bool:
        """Return whether a column of this name is declared."""
        return name.lower() in self.columns

    def column(self, place: Place, item: Any) -> Expr:
        """Return what a name that is qualified by this table stands for."""
        if item.name.lower() not in self.columns:
            hint = nearest(item.name, [name for name, _ in self.columns.values()])
            raise UnknownName(f"{place.of(item)}column {item.name!r} is not declared in {self.table}; {hint}")
        return self.columns[item.name.lower()][1]

    def every(self) -> dict[str, tuple[str, Expr]]:
        """Return all columns, as a sub-query's * makes them."""
        return dict(self.columns)


def read_join(
    place: Place, item: Any, joined: JoinedTable, private: Callable[[Any], Expr], owns: Callable[[str], bool]
) -> tuple[Join, JoinedTable]:
    """Return one JOIN of a SELECT; `private` says what a name of the rows before it stands for, `owns` if they have one."""
    how = _how(place, item)
    on, key = _condition(place, item, joined, private, owns)
    same = tuple(k.lower() for o, k in zip(on, key, strict=True) if o.lower() == k.lower())
    return Join(joined.table, on, how, key), replace(joined, same=same)


def read_public_join(
    place: Place, item: Any, joined: JoinedTable, scope: Scope, values: Translator
) -> tuple[Join, JoinedTable]:
    """Return one JOIN of a public table; `values` translates expressions of the rows before it and of its own columns."""
    kinds = trees()
    how = _how(place, item)
    at = place.word("ON") or place.word("USING") or place.word("JOIN")
    using = item.args.get("using")
    if using:
        columns = [kinds.column(u.name) for u in using]
        parts: list[Node] = [Compare("=", scope.column(place, c).node, joined.column(place, c).node) for c in columns]
    else:
        parts = conjuncts(values.value(item.args["on"]).node)
    theirs = {at.name for _, value in joined.columns.values() for at in walk(value.node) if isinstance(at, Name)}
    pairs: dict[str, Node] = {}
    rest = []
    for part in parts:
        pair = _key_pair(part, theirs)
        if pair is None or pair[0] in pairs:
            rest.append(part)
        else:
            pairs[pair[0]] = pair[1]
    named = [{node.name for node in walk(part) if isinstance(node, Name)} for part in rest]
    if not pairs and not any(names & theirs and names - theirs for names in named):
        raise QuestionRefused(f"{at}JOIN only compares columns with a key; write filters in WHERE: {_WRITE}")
    for part in (*rest, *pairs.values()):
        depth(part)
    on = tuple(node.name if isinstance(node, Name) else node for node in pairs.values())
    key = tuple(name.removeprefix(f"{joined.table}.") for name in pairs)
    same = tuple(k.lower() for o, k in zip(on, key, strict=True) if isinstance(o, str) and o.lower() == k.lower())
    return Join(joined.table, on, how, key, condition=conjoin(rest)), replace(joined, same=same)


def _key_pair(part: Node, theirs: set[str]) -> tuple[str, Node] | None:
    """Return the public column and the expression of the rows before that a condition compares for equality; None for another."""
    if not isinstance(part, Compare) or part.op != "=":
        return None
    for one, other in ((part.left, part.right), (part.right, part.left)):
        names = {at.name for at in walk(other) if isinstance(at, Name)}
        if isinstance(one, Name) and one.name in theirs and names and not names & theirs:
            return one.name, other
    return None


def _how(place: Place, item: Any) -> Any:
    """Return "inner" or "left"; raises QuestionRefused for any other kind of join, by its name."""
    words = [str(item.args.get(n) or "").upper() for n in ("method", "side", "kind")]
    if not any(words) and not item.args.get("on") and not item.args.get("using"):
        at = place.word(",") or place.word("JOIN")
        raise QuestionRefused(f"{at}JOIN without a condition is not supported: {_WRITE}")
    if words in (["", "", ""], ["", "", "INNER"]):
        return "inner"
    if words in (["", "LEFT", ""], ["", "LEFT", "OUTER"]):
        return "left"
    # Of a public table: what reads the answer sees to the rows that it keeps.
    if words in (["", "RIGHT", ""], ["", "RIGHT", "OUTER"]):
        return "inner"
    if words == ["", "", "CROSS"]:
        raise QuestionRefused(
            f"{place.word('CROSS')}CROSS JOIN is not supported without a condition in WHERE that compares both tables: {_WRITE}"
        )
    kind = " ".join(w for w in words if w)
    raise QuestionRefused(f"{place.word(kind)}{kind} JOIN is not supported, JOIN and LEFT JOIN are: {_WRITE}")


def _condition(
    place: Place, item: Any, joined: JoinedTable, private: Callable[[Any], Expr], owns: Callable[[str], bool]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the private columns and the public ones that a join compares, pair by pair."""
    kinds = trees()
    at = place.word("ON") or place.word("USING") or place.word("JOIN")
    using = item.args.get("using")
    on = item.args.get("on")
    if using:
        columns = [kinds.column(u.name) for u in using]
        pairs = [(private(column), joined.column(place, column)) for column in columns]
    else:
        parts = [part.unnest() for part in on.flatten()] if isinstance(on, kinds.And) else [on]
        pairs = [_sides(place, at, part, joined, private, owns) for part in parts]
    for ours, _ in pairs:
        if not isinstance(ours.node, Name):
            raise QuestionRefused(f"{at}JOIN compares a declared column of the private table, not one that is computed")
    keys = [column.node for _, column in pairs]
    if not all(isinstance(key, Name) for key in keys):
        raise QuestionRefused(f"{at}JOIN compares declared columns of {joined.table}, not computed ones")
    return (
        tuple(ours.node.name for ours, _ in pairs if isinstance(ours.node, Name)),
        tuple(key.name.removeprefix(f"{joined.table}.") for key in keys if isinstance(key, Name)),
    )


def _sides(
    place: Place, at: str, part: Any, joined: JoinedTable, private: Callable[[Any], Expr], owns: Callable[[str], bool]
) -> tuple[Expr, Expr]:
    """Return the private column and the public one that an equality in ON compares."""
    kinds = trees()
    sides = [part.this, part.expression] if isinstance(part, kinds.EQ) else []
    if len(sides) != 2 or not all(isinstance(s, kinds.Column) for s in sides):
        raise QuestionRefused(f"{at}JOIN only compares columns with a key; write filters in WHERE: {_WRITE}")
    theirs = [s for s in sides if _is_of(s, joined, owns)]
    if len(theirs) != 1:
        raise QuestionRefused(f"{at}JOIN compares a column of the table with the key of {joined.table}: {_WRITE}")
    ours = sides[1] if sides[0] is theirs[0] else sides[0]
    return private(ours), joined.column(place, theirs[0])


def _is_of(item: Any, joined: JoinedTable, owns: Callable[[str], bool]) -> bool:
    if item.table:
        return bool(item.table.lower() == joined.alias)
    return joined.has(item.name) and not owns(item.name)


def read_unnest(place: Place, item: Any, meaning: Callable[[Any], Expr]) -> tuple[Unnest, JoinedTable, str]:
    """Return the step, what its item goes by, and the list's name in the scope, in lower case."""
    kinds = trees()
    source = item.this
    at = place.word("UNNEST")
    words = [str(item.args.get(n) or "").upper() for n in ("method", "side", "kind")]
    condition = item.args.get("using") or item.args.get("on")
    if words not in (["", "", ""], ["", "", "CROSS"]) or condition:
        raise QuestionRefused(
            f"{at}UNNEST is joined without a condition, and drops rows without items: {_WRITE_UNNEST}"
        )
    if source.args.get("offset"):
        raise QuestionRefused(f"{at}UNNEST with an offset or ordinality is not supported: {_WRITE_UNNEST}")
    if len(source.expressions) != 1 or not isinstance(source.expressions[0], kinds.Column):
        raise QuestionRefused(f"{at}UNNEST takes one column of lists, nothing else: {_WRITE_UNNEST}")
    column = source.expressions[0]
    list_node = meaning(column).node
    names = source.alias_column_names
    alias = source.alias or (names[0] if names else "")
    if not isinstance(list_node, Name) or not alias or len(names) > 1:
        raise QuestionRefused(
            f"{at}UNNEST names its items, and takes a column that is declared as a list: {_WRITE_UNNEST}"
        )
    name = names[0] if names else alias
    columns = {name.lower(): (name, Expr(list_node))}
    return Unnest(list_node.name), JoinedTable(alias, alias.lower(), columns), column.name.lower()


# ---- FROM: which table a SELECT is about, and what the names in it stand for, through sub-queries and WITH
#
# A sub-query filters rows and computes columns; it is translated by putting what its columns stand for in their place, and
# its conditions beside the outer ones. A row that meets both conditions meets their conjunction, in three values too.

_INNER = {"expressions", "from_", "from", "where", "with_", "joins"}
_STAR = "SELECT * is refused: rows are never released; ask for aggregates of them"


@dataclass(frozen=True, slots=True)
class Scope:
    """What a SELECT reads: the declared table, the names it goes by, what its columns stand for, which rows it has.

    `columns` maps names in lower case; None where the declared columns are not known, so that any name goes.
    """

    table: str
    names: frozenset[str]
    columns: Mapping[str, tuple[str, Expr]] | None
    where: Node | None
    sample: Fraction | None
    steps: tuple[RowStep, ...] = ()
    # the queries that WITH names
    ctes: Mapping[str, Scope] = field(default_factory=dict, repr=False)
    # the joined tables of this SELECT; a sub-query's columns stand in `columns`
    joined: tuple[JoinedTable, ...] = ()
    # public tables whose rows a RIGHT JOIN keeps, without a match too
    kept_tables: tuple[str, ...] = ()

    def column(self, place: Place, item: Any) -> Expr:
        """Return what a name stands for; raises UnknownName for an unknown one."""
        if isinstance(item.this, trees().Star):
            raise QuestionRefused(f"{place.word('*')}{_STAR}")
        named = next((j for j in self.joined if item.table and item.table.lower() == j.alias), None)
        if named is not None:
            return named.column(place, item)
        if not item.table:
            others = [j for j in self.joined if j.has(item.name)]
            own = self.columns is not None and item.name.lower() in self.columns
            if own and all(item.name.lower() in j.same for j in others):
                others = []
            if len(others) + own > 1:
                where = ", ".join([*([self.table] if own else []), *(j.table for j in others)])
                raise QuestionRefused(
                    f"{place.of(item)}{item.name!r} is a column of each of {where}: write which one you mean"
                )
            if others:
                return others[0].column(place, item)
        if item.table and item.table.lower() not in self.names:
            raise UnknownName(
                f"{place.of(item)}{item.table!r} is not the table asked about; a sub-query compares with the rows around it by "
                "the privacy unit, or by one key that GROUP BY could have, and by all else within EXISTS and IN alone"
            )
        if self.columns is None:
            return col(item.name)
        if item.name.lower() not in self.columns:
            names = [name for name, _ in self.every().values()]
            hint = nearest(item.name, names) + hint_quotes(item.name, names)
            what = f"column {item.name!r} is not declared, so it cannot be asked about; {hint}"
            text = "'" + item.name.replace("'", "''") + "'"
            quoted = item.this.args.get("quoted") and text.isprintable()
            quotes = f"; if it is text, write {text}, in single quotes" if quoted else ""
            raise UnknownName(place.of(item) + what + quotes)
        return self.columns[item.name.lower()][1]

    def every(self) -> dict[str, tuple[str, Expr]]:
        """Return all columns that * stands for; of names that several tables have, the table's own."""
        columns = dict(self.columns or {})
        for joined in self.joined:
            columns = {**joined.every(), **columns}
        return columns

    def output_name(self, item: Any) -> str | None:
        """Return the name that an answer's column gets of a name: its own, or the one that a sub-query gave it."""
        if self.columns is None:
            return None
        joined = next((j for j in self.joined if item.table and item.table.lower() == j.alias), None)
        columns = self.every() if joined is None else joined.every()
        return columns[item.name.lower()][0]

    def restrict(self, condition: Node | None) -> Node | None:
        """Return the condition of the rows that this scope has and that meet `condition` too."""
        return conjoin([self.where, condition])


def base_table(place: Place, select: Any) -> tuple[str, Any]:
    """Return the name of the one declared table that a SELECT is about, through sub-queries, and where it stands."""
    return _base(place, select, {})


def scope_of(place: Place, select: Any, declared: DeclaredNames, ctes: Mapping[str, Scope] | None = None) -> Scope:
    """Return the scope of a SELECT; `ctes` are those of the queries around it that WITH names."""
    return _scope(place, select, declared, ctes or {})


@dataclass(frozen=True, slots=True)
class DeclaredNames:
    """The names that a SELECT may use: of the table's columns, empty if not known, and of other tables with theirs."""

    table: str
    columns: tuple[str, ...] = ()
    public: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    private: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # reads sub-queries in conditions
    special: Callable[[Place, Any, Scope, DeclaredNames], Expr | None] = lambda *_: None
    # What earlier questions of the same statement release, by its name.
    released: Mapping[str, Released] = field(default_factory=dict)

    def translator(self, place: Place, scope: Scope) -> Translator:
        """Return the translator of expressions over the columns that a SELECT reads."""
        return Translator(
            place,
            lambda item: self.column(place, item, scope),
            lambda item: self._special(place, item, scope),
        )

    def _special(self, place: Place, item: Any, scope: Scope) -> Expr | None:
        """Return what a sub-query in a condition, or a released number of each value, means; None for all else."""
        if type(item).__name__ in ("In", "Exists"):
            return self.special(place, item, scope, self)
        released = self.released.get(str(item.this).lower()) if isinstance(item, trees().Anonymous) else None
        if released is None:
            return None
        return Expr(replace(released, of=self.translator(place, scope).value(item.expressions[0]).node))

    def column(self, place: Place, item: Any, scope: Scope) -> Expr:
        """Return what a name in a SELECT stands for."""
        released = None if item.table else self.released.get(item.name)
        return scope.column(place, item) if released is None else Expr(released)

    def find(self, source: Any) -> str | None:
        """Return the declared name of another table that a name in FROM or JOIN means, None for none."""
        written = ".".join(part.name for part in source.parts)
        tables = [*self.public, *self.private]
        same = [t for t in tables if t.lower() == written.lower()] or [t for t in tables if is_same_table(written, t)]
        return same[0] if same and not self.is_own(source) else None

    def is_own(self, source: Any) -> bool:
        """Return whether a name in FROM or JOIN means the table of the question."""
        return is_same_table(".".join(part.name for part in source.parts), self.table)

    def columns_of(self, table: str | None) -> dict[str, tuple[str, Expr]]:
        """Return the columns of a table by their names in lower case; None means the table of the question."""
        named = self.columns if table is None else {**self.public, **self.private}[table]
        return {name.lower(): (name, col(name)) for name in named}


def _scope(place: Place, select: Any, declared: DeclaredNames, ctes: Mapping[str, Scope]) -> Scope:
    ctes = _with_scopes(place, select, declared, ctes)
    scope = _from(place, select, declared, ctes)
    for item in select.args.get("joins") or ():
        if isinstance(item.this, trees().Unnest):
            scope = _unnest(place, item, scope)
            continue
        scope = _join(place, select, item, scope, declared, ctes)
    return replace(scope, ctes=ctes)


def _unnest(place: Place, item: Any, scope: Scope) -> Scope:
    """Return the scope with one row for each item of a list; the item gets a name, and the list loses its own."""
    step, joined, name = read_unnest(place, item, lambda column: scope.column(place, column))
    if joined.alias in {*scope.names, *(t.alias for t in scope.joined)}:
        raise QuestionRefused(f"{place.word('UNNEST')}two tables are named {joined.alias!r}: rename one")
    columns = None if scope.columns is None else {c: v for c, v in scope.columns.items() if c != name}
    return replace(scope, steps=(*scope.steps, step), joined=(*scope.joined, joined), columns=columns)


def _join(
    place: Place, select: Any, item: Any, scope: Scope, declared: DeclaredNames, ctes: Mapping[str, Scope]
) -> Scope:
    """Return the scope of the rows joined with one table more."""
    units = _grouped_source(place, item.this, declared, ctes)
    if units is not None:
        return _join_values(place, select, item, units, scope)
    joined, where = _joined_table(place, item.this, declared, ctes, about=scope.table)
    if str(item.args.get("method") or "").upper() == "NATURAL":
        _join_same_names(place, item, joined, scope)
    keeps_public = str(item.args.get("side") or "").upper() == "RIGHT"
    if keeps_public and joined.table not in declared.public:
        raise QuestionRefused(
            f"{place.word('RIGHT')}RIGHT JOIN keeps all rows of {joined.table}: begin FROM with it, and LEFT JOIN"
        )
    if not any(item.args.get(n) for n in ("on", "using", "method", "side")):
        _take_condition(select, item, joined, scope)
    if joined.alias in {t.alias for t in scope.joined} or joined.alias in scope.names:
        raise QuestionRefused(f"{place.of(item.this)}{item.this.alias_or_name!r} is joined twice: join it once")
    if joined.table in declared.public:
        return _join_public(place, item, scope, declared, joined, where)
    conditions = _take_conditions_of_on(item)
    join, joined = read_join(
        place,
        item,
        joined,
        lambda column: scope.column(place, column),
        lambda name: name.lower() in {**(scope.columns or {}), **{c: 1 for t in scope.joined for c in t.columns}},
    )
    if where is not None and join.how == "left":
        raise QuestionRefused(
            f"{place.word('LEFT')}LEFT JOIN with a sub-query that filters rows is not supported: JOIN it, or filter in WHERE"
        )
    rows = replace(scope, steps=(*scope.steps, join), joined=(*scope.joined, joined))
    rows = replace(rows, where=rows.restrict(where))
    for condition in conditions:
        rows = replace(rows, where=rows.restrict(declared.translator(place, rows).value(condition).node))
    return rows


def _join_public(
    place: Place, item: Any, scope: Scope, declared: DeclaredNames, joined: JoinedTable, where: Node | None
) -> Scope:
    """Return the scope of the rows joined with a public table, of which those that meet `where` count."""
    values = declared.translator(place, replace(scope, joined=(*scope.joined, joined)))
    join, joined = read_public_join(place, item, joined, scope, values)
    # Filtered before the join, a row of the public table meets none: as under a condition in ON.
    join = replace(join, condition=conjoin([*conjuncts(join.condition), *conjuncts(where)]))
    kept_tables = (joined.table,) if str(item.args.get("side") or "").upper() == "RIGHT" else ()
    return replace(
        scope,
        steps=(*scope.steps, join),
        joined=(*scope.joined, joined),
        kept_tables=(*scope.kept_tables, *kept_tables),
    )


def _take_conditions_of_on(item: Any) -> list[Any]:
    """Take the conditions out of an inner join's ON that compare no two columns for equality: in WHERE they mean the same."""
    kinds = trees()
    on = item.args.get("on")
    if not isinstance(on, kinds.And) or item.args.get("side"):
        return []
    parts = [part.unnest() for part in on.flatten()]
    keys = [
        p for p in parts if isinstance(p, kinds.EQ) and all(isinstance(s, kinds.Column) for s in (p.this, p.expression))
    ]
    if not keys:
        return []
    item.set("on", kinds.and_(*keys, copy=True) if len(keys) > 1 else keys[0].copy())
    return [part for part in parts if not any(part is key for key in keys)]


def _grouped_source(place: Place, source: Any, declared: DeclaredNames, ctes: Mapping[str, Scope]) -> Scope | None:
    """Return what a joined sub-query reads that has one row a unit; None for any other source."""
    kinds = trees()
    inner = None
    if isinstance(source, kinds.Subquery) and isinstance(source.this, kinds.Select):
        inner = _inner(place, source.this, declared, ctes) if _reads_units(source.this, ctes) else None
    elif isinstance(source, kinds.Table):
        inner = ctes.get(source.name.lower())
    return inner if inner is not None and inner.steps and isinstance(inner.steps[-1], PerUnit) else None


def _reads_units(select: Any, ctes: Mapping[str, Scope]) -> bool:
    """Return whether a SELECT is grouped, or reads a grouped one."""
    kinds = trees()
    if _is_grouped(select):
        return True
    clause = from_of(select)
    source = None if clause is None else clause.this
    if isinstance(source, kinds.Subquery) and isinstance(source.this, kinds.Select):
        return _reads_units(source.this, ctes)
    return isinstance(source, kinds.Table) and source.name.lower() in ctes


def _join_values(place: Place, select: Any, item: Any, inner: Scope, scope: Scope) -> Scope:
    """Return the scope of the rows beside which values of their unit stand."""
    per_unit = inner.steps[-1]
    at = place.word("JOIN")
    other = all(isinstance(step, (PerUnit, UnitSequence)) for step in inner.steps)
    if not isinstance(per_unit, PerUnit) or not other or inner.sample is not None or inner.columns is None:
        raise QuestionRefused(
            f"{at}JOIN takes a sub-query of one row a person over one table, without joins of its own"
        )
    if any(isinstance(node, Exists) for node in _nodes((inner.steps, inner.where))):
        raise QuestionRefused(f"{at}a joined sub-query has no condition on other tables: write it in the outer WHERE")
    unit = per_unit.unit or ""
    alias = item.this.alias_or_name.lower()
    keys = {
        low: (name, col(qualify(inner.table, name))) for low, (name, v) in inner.columns.items() if v.node == Name(unit)
    }
    computed = {low: (name, Expr(Constant(Fraction(0)))) for low, (name, _) in inner.columns.items() if low not in keys}
    joined = JoinedTable(inner.table, alias, {**computed, **keys})
    if not any(item.args.get(n) for n in ("on", "using", "method", "side")):
        _take_condition(select, item, joined, scope)
    if joined.alias in {t.alias for t in scope.joined}:
        raise QuestionRefused(f"{place.of(item.this)}{item.this.alias_or_name!r} is joined twice: join it once")
    before = {**(scope.columns or {}), **{c: 1 for t in scope.joined for c in t.columns}}
    join, joined = read_join(
        place, item, joined, lambda column: scope.column(place, column), lambda name: name.lower() in before
    )
    on = join.on[0]
    if len(join.on) != 1 or not isinstance(on, str):
        raise QuestionRefused(
            f"{at}values of one person are joined by the privacy unit alone: write conditions in WHERE"
        )
    step = UnitValues(inner.table, inner.steps, inner.where, join.how, on)
    names = column_names(step)
    columns = {low: (name, Expr(rename(value.node, names))) for low, (name, value) in inner.columns.items()}
    same = tuple(low for low in keys if low == on.lower())
    return replace(
        scope, steps=(*scope.steps, step), joined=(*scope.joined, replace(joined, columns=columns, same=same))
    )


def _nodes(thing: Any) -> Iterator[Any]:
    """Yield an expression or a step, and all of its parts."""
    yield thing
    parts = thing if isinstance(thing, tuple) else ()
    if is_dataclass(thing) and not isinstance(thing, type):
        parts = tuple(getattr(thing, part.name) for part in fields(thing))
    for part in parts:
        yield from _nodes(part)


def _join_same_names(place: Place, item: Any, joined: JoinedTable, scope: Scope) -> None:
    """NATURAL JOIN is JOIN ... USING the columns that both have."""
    kinds = trees()
    names = [name for low, (name, _) in joined.columns.items() if low in scope.every()]
    if not names:
        raise QuestionRefused(f"{place.word('NATURAL')}NATURAL JOIN needs a column that both tables have: {_WRITE}")
    item.set("using", [kinds.to_identifier(name) for name in names])
    item.set("method", None)


def _take_condition(select: Any, item: Any, joined: JoinedTable, scope: Scope) -> None:
    """Move the conditions of WHERE that compare the columns of a comma join or CROSS JOIN with earlier ones to its ON.

    Equal columns are enough where there are any; what else compares both stays in WHERE then, which says the same.
    """
    where = select.args.get("where")
    parts = [] if where is None else and_parts(where.this)
    conditions = [p for p in parts if _compares_joined(p.unnest(), joined, scope)]
    conditions = conditions or [p for p in parts if _links_joined(p, joined, scope)]
    if conditions:
        move_to_on(select, item, conditions)


def _compares_joined(condition: Any, joined: JoinedTable, scope: Scope) -> bool:
    """Return whether a condition says that a column of the joined table equals one before it."""
    kinds = trees()
    sides = [condition.this, condition.expression] if isinstance(condition, kinds.EQ) else []
    return all(isinstance(s, kinds.Column) for s in sides) and _links_joined(condition, joined, scope)


def _links_joined(condition: Any, joined: JoinedTable, scope: Scope) -> bool:
    """Return whether a condition computes with columns of the joined table and of those before it, and with no others."""
    kinds = trees()
    if condition.find(kinds.Query) is not None:
        return False
    before = scope.every()
    names = {*scope.names, *(table.alias for table in scope.joined)}
    theirs: set[bool] = set()
    for column in condition.find_all(kinds.Column):
        name = column.name.lower()
        is_theirs = column.table.lower() == joined.alias if column.table else joined.has(name) and name not in before
        # What a table after this one has is not there yet.
        if not is_theirs and not (column.table.lower() in names if column.table else name in before):
            return False
        theirs.add(is_theirs)
    return len(theirs) == 2


def _joined_table(
    place: Place, source: Any, declared: DeclaredNames, ctes: Mapping[str, Scope], *, about: str
) -> tuple[JoinedTable, Node | None]:
    """Return a table that is joined with `about`, or a sub-query or WITH over one, with the condition of its rows."""
    kinds = trees()
    alias = source.alias_or_name.lower()
    if isinstance(source, kinds.Subquery) or (isinstance(source, kinds.Table) and source.name.lower() in ctes):
        inner = (
            ctes[source.name.lower()] if isinstance(source, kinds.Table) else _inner(place, source.this, declared, ctes)
        )
        if inner.steps or inner.sample is not None or inner.columns is None:
            raise QuestionRefused(
                f"{place.word('JOIN')}JOIN takes a table, or a sub-query that filters one, nothing else"
            )
        other = None if inner.table == declared.table else inner.table
        called = again(about) if inner.table == about else inner.table
        names = {name: qualify(called, name) for name, _ in declared.columns_of(other).values()}
        columns = {low: (name, Expr(rename(value.node, names))) for low, (name, value) in inner.columns.items()}
        return JoinedTable(called, alias, columns), None if inner.where is None else rename(inner.where, names)
    if not isinstance(source, kinds.Table) or not isinstance(source.this, kinds.Identifier):
        raise QuestionRefused(
            f"{place.word('JOIN')}JOIN takes a table only: write JOIN regions ON adult.state = regions.state"
        )
    for name, value in source.args.items():
        if value and name not in ("this", "alias", "db", "catalog"):
            word = name.strip("_").upper().replace("SAMPLE", "TABLESAMPLE")
            raise QuestionRefused(f"{place.word(word)}{word} of a joined table is not supported: join it whole")
    table = declared.find(source)
    if table is None and not declared.is_own(source):
        hint = nearest(source.name, [*declared.public, *declared.private])
        raise UnknownName(
            f"{place.of(source)}JOIN with {source.name!r} is not supported: it is declared neither as [public.NAME] nor as "
            f"[tables.NAME]; {hint}"
        )
    called_table = table or declared.table
    called_table = again(about) if called_table == about else called_table
    qualified = {low: (name, col(qualify(called_table, name))) for low, (name, _) in declared.columns_of(table).items()}
    return JoinedTable(called_table, alias, qualified), None


def _from(place: Place, select: Any, declared: DeclaredNames, ctes: Mapping[str, Scope]) -> Scope:
    source = _source(place, select)
    if isinstance(source, trees().Subquery):
        return _rename(_inner(place, source.this, declared, ctes), source.alias_or_name)
    if source.name.lower() in ctes:
        inner = ctes[source.name.lower()]
        if source.args.get("sample") is not None:
            raise QuestionRefused(
                f"{place.word('TABLESAMPLE')}TABLESAMPLE is not supported here: sample the table itself"
            )
        return _rename(inner, source.alias_or_name)
    names = frozenset([source.name.lower(), source.alias_or_name.lower()])
    table = declared.find(source)
    columns = declared.columns_of(table) or None
    sample = _sample_rate(place, source.args.get("sample"))
    return Scope(table or declared.table, names, columns, None, sample)


def _rename(of: Scope, name: str) -> Scope:
    return replace(of, names=frozenset([name.lower()]))


@dataclass(frozen=True, slots=True)
class UnitRows:
    """The rows that a condition's sub-query reads: of which table, made by which steps, and which count.

    `column` is the one that it selects, None where it selects several.
    """

    table: str
    steps: tuple[RowStep, ...]
    where: Node | None
    column: Node | None


def read_unit_rows(place: Place, query: Any, declared: DeclaredNames, ctes: Mapping[str, Scope]) -> UnitRows:
    """Return the rows of a sub-query in a condition, with its joins, groups and windows."""
    inner = _inner(place, query, declared, ctes)
    columns = list((inner.columns or {}).values())
    column = columns[0][1].node if len(columns) == 1 and len(query.expressions) == 1 else None
    if column is None and len(query.expressions) == 1 and isinstance(query.expressions[0], trees().Column):
        column = col(query.expressions[0].name).node
    if inner.where is not None:
        depth(inner.where)
    return UnitRows(inner.table, inner.steps, inner.where, column)


def _inner(place: Place, select: Any, declared: DeclaredNames, ctes: Mapping[str, Scope]) -> Scope:
    """Return the scope that a sub-query makes: its rows, and its columns with what they stand for."""
    _plain_select(place, select)
    scope = _scope(place, select, declared, ctes)
    values = declared.translator(place, scope)
    where = select.args.get("where")
    rows = scope.restrict(None if where is None else values.value(where.this).node)
    if rows is not None:
        depth(rows)
    if _is_grouped(select):
        if scope.kept_tables:
            table = scope.kept_tables[0]
            raise QuestionRefused(
                f"{place.word('RIGHT')}RIGHT JOIN keeps rows of {table} without a match, which are no unit's: JOIN it"
            )
        units = read_unit_select(
            place,
            select,
            lambda item: declared.column(place, item, scope),
            rows,
            lambda item: declared._special(place, item, scope),
        )
        return replace(scope, columns=units.columns, where=units.having, joined=(), steps=(*scope.steps, units.step))
    total = next((e for e in select.expressions if own_aggregate(e) is not None), None)
    if total is not None:
        raise QuestionRefused(
            f"{place.of(total)}a sub-query with aggregates has one row for each unit: add GROUP BY and the privacy unit's column"
        )
    windows: WindowReader | None = None
    if has_window(select):
        windows = WindowReader(place, select, values)
        values = _window_translator(place, declared, scope, windows)
    columns: dict[str, tuple[str, Expr]] = {}
    for item in select.expressions:
        columns.update(_project(place, item, scope, values, columns))
    every = columns if scope.columns is not None else None
    if every is None and not _only_stars(select):
        every = columns
    if windows is None:
        return replace(scope, columns=every, where=rows, joined=())
    # A window looks at the rows that WHERE keeps; QUALIFY filters rows after it.
    condition = _qualify_condition(place, select, declared, scope, windows)
    step = UnitSequence(tuple(windows.values), rows)
    return replace(scope, columns=every, where=condition, joined=(), steps=(*scope.steps, step))


def _window_translator(
    place: Place,
    declared: DeclaredNames,
    scope: Scope,
    windows: WindowReader,
    named: Callable[[Any], Any] = lambda _: None,
) -> Translator:
    """Return a translator of expressions with windows; `named` finds the meaning of a name that is no column."""

    def column(item: Any) -> Expr:
        meant = named(item)
        return declared.column(place, item, scope) if meant is None else translator.value(meant)

    def special(item: Any) -> Expr | None:
        window = windows.read(item)
        return declared._special(place, item, scope) if window is None else window

    translator = Translator(place, column, special)
    return translator


def _qualify_condition(
    place: Place, select: Any, declared: DeclaredNames, scope: Scope, windows: WindowReader
) -> Node | None:
    """Return the condition of QUALIFY, in which names of SELECT may stand."""
    clause = select.args.get("qualify")
    if clause is None:
        return None
    named = qualify_names(select, lambda name: name.lower() in scope.every())
    node = _window_translator(place, declared, scope, windows, named).value(clause.this).node
    depth(node)
    return node


def _project(
    place: Place, item: Any, scope: Scope, values: Translator, taken_names: Mapping[str, Any]
) -> Mapping[str, tuple[str, Expr]]:
    """Return the columns that one item of a sub-query's SELECT makes."""
    kinds = trees()
    if isinstance(item, kinds.Star):
        columns = _change_star(place, item, scope.every(), values)
    elif isinstance(item, kinds.Column) and isinstance(item.this, kinds.Star):
        joined = next((j for j in scope.joined if j.alias == item.table.lower()), None)
        columns = _change_star(
            place, item.this, dict(scope.columns or {}) if joined is None else joined.every(), values
        )
    else:
        inner, name = (item.this, item.alias) if isinstance(item, kinds.Alias) else (item, item.alias_or_name)
        if not name:
            raise QuestionRefused(f"{place.of(item)}a computed column of a sub-query needs a name: write AS name")
        value = values.value(inner)
        depth(value.node)
        columns = {name.lower(): (name, value)}
    for low in columns:
        if low in taken_names:
            raise QuestionRefused(
                f"{place.of(item)}a sub-query has two columns named {low!r}: name one of them with AS"
            )
    return columns


def _change_star(
    place: Place, star: Any, columns: Mapping[str, tuple[str, Expr]], values: Translator
) -> dict[str, tuple[str, Expr]]:
    """Return the columns of * without those of EXCLUDE, with the expressions of REPLACE and the names of RENAME."""
    changes = {name.strip("_"): value for name, value in star.args.items() if value}
    for name in changes.keys() - {"except", "replace", "rename"}:
        raise QuestionRefused(
            f"{place.word(name)}* with {name.upper()} is not supported: EXCLUDE, REPLACE and RENAME are"
        )
    left_out = [column.name.lower() for column in changes.get("except", [])]
    replaced = {item.alias.lower(): item.this for item in changes.get("replace", [])}
    renamed = {item.this.name.lower(): item.alias for item in changes.get("rename", [])}
    for low in (*left_out, *replaced, *renamed):
        if low not in columns:
            raise UnknownName(f"{place.word('*')}* has no column {low!r}; {nearest(low, columns)}")
    columns_shown: dict[str, tuple[str, Expr]] = {}
    for low, (name, value) in columns.items():
        if low in left_out:
            continue
        new = renamed.get(low, name)
        columns_shown[new.lower()] = (new, values.value(replaced[low]) if low in replaced else value)
    for _, value in columns_shown.values():
        depth(value.node)
    return columns_shown


def _only_stars(select: Any) -> bool:
    return all(isinstance(item, trees().Star) for item in select.expressions)


def _with_scopes(place: Place, select: Any, declared: DeclaredNames, ctes: Mapping[str, Scope]) -> Mapping[str, Scope]:
    """Return the scopes that WITH names, with those around it; each may use the ones before it."""
    scopes = dict(ctes)
    for name, inner in _with(place, select):
        scopes[name] = _inner(place, inner, declared, scopes)
    return scopes


def _with(place: Place, select: Any) -> list[tuple[str, Any]]:
    clause = with_of(select)
    if clause is None:
        return []
    if clause.args.get("recursive"):
        raise QuestionRefused(f"{place.word('RECURSIVE')}WITH RECURSIVE is not supported: ask about the table itself")
    queries = []
    for item in clause.expressions:
        if item.alias_column_names:
            raise QuestionRefused(f"{place.of(item)}{item.alias}(...) renames columns, which is not supported: use AS")
        for name, value in item.args.items():
            if value and name not in ("this", "alias"):
                word = name.strip("_").upper()
                raise QuestionRefused(f"{place.word(word)}WITH ... {word} is not supported: leave it out")
        queries.append((item.alias.lower(), item.this))
    if len({name for name, _ in queries}) != len(queries):
        raise QuestionRefused(f"{place.word('WITH')}WITH gives two queries the same name: rename one")
    return queries


def _plain_select(place: Place, select: Any) -> None:
    """Raise QuestionRefused for a sub-query that does more than filter rows, compute columns and group by the unit."""
    kinds = trees()
    if not isinstance(select, kinds.Select):
        word = type(select).__name__.upper()
        raise QuestionRefused(
            f"{place.word(word) or place.of(select)}{word} is not supported in a sub-query: use one SELECT"
        )
    more = {"group", "having", "distinct"} if _is_grouped(select) else {"qualify", "windows"}
    only_known(place, select, _INNER | more, " inside a sub-query")


def _is_grouped(select: Any) -> bool:
    """Return whether a sub-query has one row a group: by GROUP BY, or as the different values of one column."""
    distinct = select.args.get("distinct")
    if distinct is not None and (distinct.args.get("on") or select.args.get("group") is not None):
        return False
    return distinct is not None or select.args.get("group") is not None


def _source(place: Place, select: Any) -> Any:
    """Return the table or sub-query that FROM names; it has no other clauses."""
    kinds = trees()
    clause = from_of(select)
    if clause is None:
        raise QuestionRefused("a question, and each sub-query, names its table: SELECT COUNT(*) FROM adult")
    source = clause.this
    if isinstance(source, kinds.Subquery):
        allowed = {"this", "alias"}
    elif isinstance(source, kinds.Table) and isinstance(source.this, kinds.Identifier):
        allowed = {"this", "alias", "sample", "db", "catalog"}
    else:
        at = place.of(source) or place.word("FROM")
        raise QuestionRefused(f"{at}FROM takes the name of a declared table, or a sub-query, nothing else")
    for name, value in source.args.items():
        if value and name not in allowed:
            word, instead = CLAUSES.get(name, (name.strip("_").upper(), "name the declared table alone"))
            raise QuestionRefused(f"{place.word(word) or place.of(source)}{word} is not supported: {instead}")
    if source.alias_column_names:
        at = place.of(source)
        raise QuestionRefused(f"{at}{source.alias}(...) renames columns, which is not supported: use their names")
    return source


def _sample_rate(place: Place, sample: Any) -> Fraction | None:
    """Return the share of TABLESAMPLE BERNOULLI (10 PERCENT)."""
    if sample is None:
        return None
    percent = sample.args.get("percent")
    method = sample.args.get("method")
    rest = [n for n, v in sample.args.items() if v and n not in ("percent", "method")]
    at = place.word("TABLESAMPLE")
    if rest or percent is None or method is None or method.name.upper() != "BERNOULLI":
        raise QuestionRefused(f"{at}SAMPLE is not supported like this: write TABLESAMPLE BERNOULLI (10 PERCENT)")
    share = Translator(place, lambda item: col(item.name)).number(percent) / 100
    if not 0 < share <= 1:
        raise QuestionRefused(f"{at}TABLESAMPLE takes a share above 0 and up to 100 percent")
    return share


def _base(place: Place, select: Any, ctes: Mapping[str, Any]) -> tuple[str, Any]:
    named = {**ctes}
    for name, inner in _with(place, select):
        named[name] = (inner, dict(named))
    source = _source(place, select)
    if isinstance(source, trees().Subquery):
        _plain_select(place, source.this)
        return _base(place, source.this, named)
    if source.name.lower() in named:
        inner, before = named[source.name.lower()]
        _plain_select(place, inner)
        return _base(place, inner, before)
    return ".".join(part.name for part in source.parts), source
