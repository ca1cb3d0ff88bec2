"""FROM: which table a SELECT is about, and what the names in it stand for, through sub-queries and WITH.

A sub-query filters rows and computes columns; it is translated by putting what its columns stand for in their place, and
its conditions beside the outer ones. A row that meets both conditions meets their conjunction, in three values too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from sordino.ask.queries.expressions.expr import Expr, col
from sordino.ask.queries.expressions.nodes import Connective, Node, depth
from sordino.ask.queries.formulas import rename
from sordino.ask.queries.joins import qualify
from sordino.ask.queries.row_steps import RowStep
from sordino.ask.queries.sql.join_clause import JoinedTable, read_join, read_unnest
from sordino.ask.queries.sql.text import CLAUSES, Place, is_same_table, only_known, trees
from sordino.ask.queries.sql.values import Translator
from sordino.core.errors import QuestionRefused, UnknownName, nearest

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
    known: Mapping[str, Scope] = field(default_factory=dict, repr=False)  # the queries that WITH names
    joined: tuple[JoinedTable, ...] = ()  # of this SELECT; a sub-query's columns are given by `columns`

    def column(self, place: Place, item: Any) -> Expr:
        """Return what a name stands for; raises UnknownName for what is not there."""
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
            raise UnknownName(f"{place.of(item)}{item.table!r} is not the table asked about")
        if self.columns is None:
            return col(item.name)
        if item.name.lower() not in self.columns:
            hint = nearest(item.name, [name for name, _ in self.every().values()])
            what = f"column {item.name!r} is not declared, so it cannot be asked about; {hint}"
            text = "'" + item.name.replace("'", "''") + "'"
            quoted = item.this.args.get("quoted") and text.isprintable()
            quotes = f"; if it is text, write {text}, in single quotes" if quoted else ""
            raise UnknownName(place.of(item) + what + quotes)
        return self.columns[item.name.lower()][1]

    def every(self) -> dict[str, tuple[str, Expr]]:
        """Return all columns that * stands for; of names that several tables have, the table's own."""
        made = dict(self.columns or {})
        for joined in self.joined:
            made = {**joined.every(), **made}
        return made

    def output_name(self, item: Any) -> str | None:
        """Return the name that an answer's column gets of a name: its own, or the one that a sub-query gave it."""
        if self.columns is None:
            return None
        joined = next((j for j in self.joined if item.table and item.table.lower() == j.alias), None)
        columns = self.every() if joined is None else joined.every()
        return columns[item.name.lower()][0]

    def restrict(self, condition: Node | None) -> Node | None:
        """Return the condition of the rows that this scope has and that meet `condition` too."""
        if self.where is None or condition is None:
            return self.where or condition
        return Connective("and", self.where, condition)


def base_table(place: Place, select: Any) -> tuple[str, Any]:
    """Return the name of the one declared table that a SELECT is about, through sub-queries, and where it stands."""
    return _base(place, select, {})


def scope_of(place: Place, select: Any, declared: DeclaredNames, known: Mapping[str, Scope] | None = None) -> Scope:
    """Return what a SELECT reads; `known` are the queries around it that WITH names."""
    return _scope(place, select, declared, known or {})


@dataclass(frozen=True, slots=True)
class DeclaredNames:
    """The names that a SELECT may use: of the table's columns, empty if not known, and of other tables with theirs."""

    table: str
    columns: tuple[str, ...] = ()
    public: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    private: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    special: Callable[[Place, Any, Scope, DeclaredNames], Expr | None] = lambda *_: (
        None
    )  # reads sub-queries in conditions

    def translator(self, place: Place, scope: Scope) -> Translator:
        """Return what translates expressions over what a SELECT reads."""
        return Translator(
            place,
            lambda item: scope.column(place, item),
            lambda item: self.special(place, item, scope, self) if type(item).__name__ in ("In", "Exists") else None,
        )

    def find(self, source: Any) -> str | None:
        """Return the declared name of another table that a name in FROM or JOIN means, None for none."""
        asked = ".".join(part.name for part in source.parts)
        tables = [*self.public, *self.private]
        same = [t for t in tables if t.lower() == asked.lower()] or [t for t in tables if is_same_table(asked, t)]
        return same[0] if same and not self.is_own(source) else None

    def is_own(self, source: Any) -> bool:
        """Return whether a name in FROM or JOIN means the table asked about."""
        return is_same_table(".".join(part.name for part in source.parts), self.table)

    def columns_of(self, table: str | None) -> dict[str, tuple[str, Expr]]:
        """Return the columns of a table by their names in lower case, of the table asked about where None."""
        named = self.columns if table is None else {**self.public, **self.private}[table]
        return {name.lower(): (name, col(name)) for name in named}


def _scope(place: Place, select: Any, declared: DeclaredNames, known: Mapping[str, Scope]) -> Scope:
    known = _with_scopes(place, select, declared, known)
    scope = _from(place, select, declared, known)
    for item in select.args.get("joins") or ():
        if isinstance(item.this, trees().Unnest):
            scope = _unnest(place, item, scope)
            continue
        scope = _join(place, select, item, scope, declared, known)
    return replace(scope, known=known)


def _unnest(place: Place, item: Any, scope: Scope) -> Scope:
    """Return the scope with one row for each item of a list: the item has a name of its own, the list has none any more."""
    step, joined, name = read_unnest(place, item, lambda column: scope.column(place, column))
    if joined.alias in {*scope.names, *(t.alias for t in scope.joined)}:
        raise QuestionRefused(f"{place.word('UNNEST')}two tables are named {joined.alias!r}: rename one")
    columns = None if scope.columns is None else {c: v for c, v in scope.columns.items() if c != name}
    return replace(scope, steps=(*scope.steps, step), joined=(*scope.joined, joined), columns=columns)


def _join(
    place: Place, select: Any, item: Any, scope: Scope, declared: DeclaredNames, known: Mapping[str, Scope]
) -> Scope:
    """Return the scope of the rows joined with one table more."""
    joined, where = _joined_table(place, item.this, declared, known)
    if not any(item.args.get(n) for n in ("on", "using", "method", "side")):
        _take_condition(select, item, joined, scope)
    if joined.alias in {t.alias for t in scope.joined}:
        raise QuestionRefused(f"{place.of(item.this)}{item.this.alias_or_name!r} is joined twice: join it once")
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
    found = replace(scope, steps=(*scope.steps, join), joined=(*scope.joined, joined))
    return replace(found, where=found.restrict(where))


def _take_condition(select: Any, item: Any, joined: JoinedTable, scope: Scope) -> None:
    """Make those conditions of WHERE the ON of a comma join that compare, without naming tables, its columns with others."""
    kinds = trees()
    where = select.args.get("where")
    parts = [] if where is None else list(where.this.flatten()) if isinstance(where.this, kinds.And) else [where.this]
    found = [p for p in parts if _compares_joined(p.unnest(), joined, scope)]
    if not found:
        return
    item.set("on", kinds.and_(*(p.unnest() for p in found), copy=False) if len(found) > 1 else found[0].unnest())
    item.set("kind", None)
    rest = [p for p in parts if not any(p is f for f in found)]
    if rest:
        where.set("this", kinds.and_(*rest, copy=False))
    else:
        select.set("where", None)


def _compares_joined(condition: Any, joined: JoinedTable, scope: Scope) -> bool:
    kinds = trees()
    sides = [condition.this, condition.expression] if isinstance(condition, kinds.EQ) else []
    if not sides or not all(isinstance(s, kinds.Column) for s in sides):
        return False
    before = scope.every()
    theirs = [
        s.table.lower() == joined.alias if s.table else joined.has(s.name) and s.name.lower() not in before
        for s in sides
    ]
    return theirs.count(True) == 1


def _joined_table(
    place: Place, source: Any, declared: DeclaredNames, known: Mapping[str, Scope]
) -> tuple[JoinedTable, Node | None]:
    """Return a table that is joined, or a sub-query or WITH over one, with the condition of its rows."""
    kinds = trees()
    alias = source.alias_or_name.lower()
    if isinstance(source, kinds.Subquery) or (isinstance(source, kinds.Table) and source.name.lower() in known):
        inner = (
            known[source.name.lower()]
            if isinstance(source, kinds.Table)
            else _inner(place, source.this, declared, known)
        )
        if inner.steps or inner.sample is not None or inner.columns is None:
            raise QuestionRefused(
                f"{place.word('JOIN')}JOIN takes a table, or a sub-query that filters one, nothing else"
            )
        other = None if inner.table == declared.table else inner.table
        names = {name: qualify(inner.table, name) for name, _ in declared.columns_of(other).values()}
        columns = {low: (name, Expr(rename(value.node, names))) for low, (name, value) in inner.columns.items()}
        return JoinedTable(inner.table, alias, columns), None if inner.where is None else rename(inner.where, names)
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
    named = table or declared.table
    qualified = {low: (name, col(qualify(named, name))) for low, (name, _) in declared.columns_of(table).items()}
    return JoinedTable(named, alias, qualified), None


def _from(place: Place, select: Any, declared: DeclaredNames, known: Mapping[str, Scope]) -> Scope:
    source = _source(place, select)
    if isinstance(source, trees().Subquery):
        return _rename(_inner(place, source.this, declared, known), source.alias_or_name)
    if source.name.lower() in known:
        found = known[source.name.lower()]
        if source.args.get("sample") is not None:
            raise QuestionRefused(
                f"{place.word('TABLESAMPLE')}TABLESAMPLE is not supported here: sample the table itself"
            )
        return _rename(found, source.alias_or_name)
    names = frozenset([source.name.lower(), source.alias_or_name.lower()])
    table = declared.find(source)
    columns = declared.columns_of(table) or None
    sample = _sample_rate(place, source.args.get("sample"))
    return Scope(table or declared.table, names, columns, None, sample)


def _rename(of: Scope, name: str) -> Scope:
    return replace(of, names=frozenset([name.lower()]))


def _inner(place: Place, select: Any, declared: DeclaredNames, known: Mapping[str, Scope]) -> Scope:
    """Return the scope that a sub-query makes: its rows, and its columns with what they stand for."""
    _plain_select(place, select)
    scope = _scope(place, select, declared, known)
    values = declared.translator(place, scope)
    where = select.args.get("where")
    rows = scope.restrict(None if where is None else values.value(where.this).node)
    if rows is not None:
        depth(rows)
    if _is_grouped(select):
        from sordino.ask.queries.sql.unit_select import read_unit_select

        made = read_unit_select(place, select, lambda item: scope.column(place, item), rows)
        return replace(scope, columns=made.columns, where=made.having, joined=(), steps=(*scope.steps, made.step))
    total = next((e for e in select.expressions if e.find(trees().AggFunc) is not None), None)
    if total is not None:
        raise QuestionRefused(
            f"{place.of(total)}a sub-query with aggregates has one row for each unit: add GROUP BY and the privacy unit's column"
        )
    columns: dict[str, tuple[str, Expr]] = {}
    for item in select.expressions:
        columns.update(_project(place, item, scope, values, columns))
    every = columns if scope.columns is not None else None
    if every is None and not _only_stars(select):
        every = columns
    return replace(scope, columns=every, where=rows, joined=())


def _project(
    place: Place, item: Any, scope: Scope, values: Translator, taken: Mapping[str, Any]
) -> Mapping[str, tuple[str, Expr]]:
    """Return the columns that one item of a sub-query's SELECT makes."""
    kinds = trees()
    if isinstance(item, kinds.Star):
        for name, value in item.args.items():
            if value:
                raise QuestionRefused(f"{place.word(name.strip('_'))}* with {name.strip('_').upper()} is not supported")
        made = scope.every()
    elif isinstance(item, kinds.Column) and isinstance(item.this, kinds.Star):
        joined = next((j for j in scope.joined if j.alias == item.table.lower()), None)
        made = dict(scope.columns or {}) if joined is None else joined.every()
    else:
        inner, name = (item.this, item.alias) if isinstance(item, kinds.Alias) else (item, item.alias_or_name)
        if not name:
            raise QuestionRefused(f"{place.of(item)}a computed column of a sub-query needs a name: write AS name")
        value = values.value(inner)
        depth(value.node)
        made = {name.lower(): (name, value)}
    for low in made:
        if low in taken:
            raise QuestionRefused(
                f"{place.of(item)}a sub-query has two columns named {low!r}: name one of them with AS"
            )
    return made


def _only_stars(select: Any) -> bool:
    return all(isinstance(item, trees().Star) for item in select.expressions)


def _with_scopes(place: Place, select: Any, declared: DeclaredNames, known: Mapping[str, Scope]) -> Mapping[str, Scope]:
    """Return the scopes that WITH names, besides those known; each may use the ones before it."""
    found = dict(known)
    for name, inner in _with(place, select):
        found[name] = _inner(place, inner, declared, found)
    return found


def _with(place: Place, select: Any) -> list[tuple[str, Any]]:
    clause = select.args.get("with_") or select.args.get("with")
    if clause is None:
        return []
    if clause.args.get("recursive"):
        raise QuestionRefused(f"{place.word('RECURSIVE')}WITH RECURSIVE is not supported: ask about the table itself")
    found = []
    for item in clause.expressions:
        if item.alias_column_names:
            raise QuestionRefused(f"{place.of(item)}{item.alias}(...) renames columns, which is not supported: use AS")
        for name, value in item.args.items():
            if value and name not in ("this", "alias"):
                word = name.strip("_").upper()
                raise QuestionRefused(f"{place.word(word)}WITH ... {word} is not supported: leave it out")
        found.append((item.alias.lower(), item.this))
    if len({name for name, _ in found}) != len(found):
        raise QuestionRefused(f"{place.word('WITH')}WITH gives two queries the same name: rename one")
    return found


def _plain_select(place: Place, select: Any) -> None:
    """Raise QuestionRefused for a sub-query that does more than filter rows, compute columns and group by the unit."""
    kinds = trees()
    if not isinstance(select, kinds.Select):
        word = type(select).__name__.upper()
        raise QuestionRefused(
            f"{place.word(word) or place.of(select)}{word} is not supported in a sub-query: use one SELECT"
        )
    grouped = {"group", "having", "distinct"} if _is_grouped(select) else set()
    only_known(place, select, _INNER | grouped, " inside a sub-query")


def _is_grouped(select: Any) -> bool:
    """Return whether a sub-query has one row a group: by GROUP BY, or as the different values of one column."""
    distinct = select.args.get("distinct")
    if distinct is not None and (distinct.args.get("on") or select.args.get("group") is not None):
        return False
    return distinct is not None or select.args.get("group") is not None


def _source(place: Place, select: Any) -> Any:
    """Return what FROM names: a table or a sub-query, with nothing else to it."""
    kinds = trees()
    clause = select.args.get("from_") or select.args.get("from")
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
    percent, method = sample.args.get("percent"), sample.args.get("method")
    rest = [n for n, v in sample.args.items() if v and n not in ("percent", "method")]
    at = place.word("TABLESAMPLE")
    if rest or percent is None or method is None or method.name.upper() != "BERNOULLI":
        raise QuestionRefused(f"{at}SAMPLE is not supported like this: write TABLESAMPLE BERNOULLI (10 PERCENT)")
    share = Translator(place, lambda item: col(item.name)).number(percent) / 100
    if not 0 < share <= 1:
        raise QuestionRefused(f"{at}TABLESAMPLE takes a share above 0 and up to 100 percent")
    return share


def _base(place: Place, select: Any, known: Mapping[str, Any]) -> tuple[str, Any]:
    named = {**known}
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
