"""A statement around private questions: SQL of any shape, split into private blocks and what is computed from their answers.

A SELECT that aggregates a private table is a *private block*: it alone is planned, charged and answered, as one question of
keys and aggregates. All around it - windows, second aggregates, joins of released tables, formulas, ORDER BY - is
post-processing of released values (Dwork & Roth 2014, Proposition 2.1), so it costs nothing and runs as it is written. This
file knows trees alone: which blocks there are follows from the text and never from an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sordino.ask.queries.sql.text import Place, dialect_of, is_same_table, known_dialect, trees
from sordino.core.errors import QuestionRefused

BLOCK = "sordino_block_"
_KEY = "sordino_key_"
_VALUE = "sordino_value_"
# The row of a block that a row of the answer was made of: its number, in each block and in the outside.
ROW = "sordino_row"

# What would make an answer depend on more than the released values, or take more than a statement may.
_REFUSED = (
    *("Rand", "Randn", "Randstr", "Uuid", "CurrentUser", "CurrentSchema", "ReadCSV", "ReadParquet", "Repeat", "Pad"),
    *("CurrentDate", "CurrentDatetime", "CurrentTime", "CurrentTimestamp", "Localtime", "Localtimestamp"),
    *(
        "GenerateSeries",
        "ExplodingGenerateSeries",
        "Explode",
        "Unnest",
        "Lateral",
        "TableSample",
        "Command",
        "Into",
        "Lock",
    ),
)
# Functions that sqlglot has no class for, of keys and released numbers.
_ALLOWED = frozenset(
    (
        "bar",
        "format",
        "printf",
        "strftime",
        "strptime",
        "monthname",
        "dayname",
        "even",
        "cbrt",
        "nextafter",
        "fdiv",
        "fmod",
    )
)


@dataclass(frozen=True, slots=True)
class Statement:
    """The private blocks of a statement, in DuckDB's SQL, and the SELECT over `sordino_block_0`, ... that surrounds them."""

    blocks: tuple[str, ...]
    outside: str
    traces: tuple[Trace, ...] = ()


@dataclass(frozen=True, slots=True)
class Trace:
    """A column of the answer that is a released one as it is: its place, the block, and the column there.

    The row of the block stands in the column `ROW` of the outside, which is no column of the answer.
    """

    place: int
    block: int
    column: str


def read_statement(
    text: str,
    *,
    table: str,
    columns: Iterable[str],
    truths: Iterable[str] = (),
    accept: Callable[[str], None],
    dialect: str | None = None,
) -> Statement:
    """Split a statement about a private table; `accept` raises QuestionRefused for a text that is no private question.

    Of the declared `columns`, `truths` are those that hold true and false.

    Raises QuestionRefused where a part is neither a private question nor computed from answers.
    """
    import sqlglot
    from sqlglot.errors import SqlglotError

    if "/*+" in text:
        raise QuestionRefused("hints go with one question: a statement around several has none")
    try:
        parsed = sqlglot.parse(text, read=dialect_of(text) if dialect is None else known_dialect(dialect))
    except (SqlglotError, RecursionError):
        parsed = []
    if len(parsed) != 1 or not isinstance(parsed[0], trees().Query):
        raise QuestionRefused("the text is not one SELECT")
    splitter = _Splitter(table, frozenset(name.lower() for name in columns), accept, text)
    splitter.truths |= {name.lower() for name in truths}
    try:
        outside = splitter.split(parsed[0])
        if not splitter.blocks:
            raise QuestionRefused("the statement asks nothing of a private table")
        splitter.check_outside(outside)
        splitter.check_conditions(outside)
        traces = _trace(outside)
        return Statement(tuple(splitter.blocks), _totalize(outside).sql(dialect="duckdb"), traces)
    except RecursionError:
        raise QuestionRefused("the statement is nested too deeply, or unites too many others") from None


def tables_of(text: str, *, dialect: str | None = None) -> list[str]:
    """Return the names of the tables that a text reads, without those of its own WITH; empty where it cannot be read."""
    import sqlglot
    from sqlglot.errors import SqlglotError

    exp = trees()
    try:
        parsed = sqlglot.parse(text, read=dialect_of(text) if dialect is None else dialect)
    except (SqlglotError, RecursionError, ValueError):
        return []
    own = {cte.alias.lower() for tree in parsed if tree for cte in tree.find_all(exp.CTE)}
    names = [".".join(p.name for p in t.parts) for tree in parsed if tree for t in tree.find_all(exp.Table)]
    return list(dict.fromkeys(name for name in names if name.lower() not in own))


class _Splitter:
    """Splits one statement; `blocks` are the private blocks found so far, equal ones once."""

    def __init__(self, table: str, columns: frozenset[str], accept: Callable[[str], None], text: str) -> None:
        self.blocks: list[str] = []
        self._table = table
        self._columns = columns
        self._accept = accept
        self._place = Place(text)
        # Names of WITH that stand for rows of the private table, and those for what was computed from answers.
        self._rows: dict[str, Any] = {}
        self._released: set[str] = set()
        # Names of columns that hold true and false.
        self.truths: set[str] = set()

    def split(self, query: Any) -> Any:
        """Return the query with its private blocks replaced by the tables of their answers."""
        exp = trees()
        self._split_with(query)
        if isinstance(query, exp.SetOperation):
            query.set("this", self.split(query.this))
            query.set("expression", self.split(query.expression))
            return query
        if isinstance(query, exp.Subquery):
            query.set("this", self.split(query.this))
            return query
        if not isinstance(query, exp.Select):
            raise QuestionRefused(f"{type(query).__name__.upper()} is not supported around private questions")
        return self._split_select(query)

    def check_outside(self, outside: Any) -> None:
        """Raise QuestionRefused where the outside reads anything but answers, or calls what it may not."""
        exp = trees()
        known = {f"{BLOCK}{i}" for i in range(len(self.blocks))} | self._released
        for node in outside.walk():
            kind = type(node).__name__
            if isinstance(node, exp.Table) and node.name.lower() not in known:
                raise QuestionRefused(
                    f"{self._place.of(node)}table {node.name!r} is not declared, or is read row by row"
                )
            if (
                kind in _REFUSED
                or kind.startswith(("Current", "Session"))
                or (isinstance(node, exp.With) and node.args.get("recursive"))
            ):
                word = node.sql_name() if isinstance(node, exp.Func) else kind.upper()
                raise QuestionRefused(
                    f"{word} is not supported around private questions: it is no function of released values"
                )
            if isinstance(node, exp.Anonymous) and str(node.this).lower() not in _ALLOWED:
                raise QuestionRefused(f"{str(node.this).upper()} is no known function of released values")

    def check_conditions(self, outside: Any) -> None:
        """Raise QuestionRefused where a number stands for a condition: DuckDB casts it, other dialects do not."""
        exp = trees()
        for alias in outside.find_all(exp.Alias):
            if self._is_truth(alias.this):
                self.truths.add(alias.alias.lower())
        for node in outside.find_all(exp.Where, exp.Having, exp.Qualify, exp.If, exp.And, exp.Or, exp.Not, exp.Join):
            operands = [node.args.get("on")] if isinstance(node, exp.Join) else [node.this]
            if isinstance(node, exp.Connector):
                operands.append(node.expression)
            # CASE x WHEN y compares.
            if isinstance(node, exp.If) and isinstance(node.parent, exp.Case) and node.parent.this is not None:
                continue
            for operand in operands:
                if operand is not None and not self._is_truth(operand):
                    raise QuestionRefused(f"{operand.sql('duckdb')} is a number, not a condition: compare it")

    def _is_truth(self, node: Any) -> bool:
        exp = trees()
        if isinstance(node, exp.Paren):
            return self._is_truth(node.this)
        if isinstance(node, exp.Column):
            return node.name.lower() in self.truths
        return isinstance(
            node, (exp.Predicate, exp.Connector, exp.Not, exp.Boolean, exp.Null, exp.Exists, exp.In, exp.Between)
        )

    def _split_with(self, query: Any) -> None:
        exp = trees()
        clause = query.args.get("with_") or query.args.get("with")
        if clause is None:
            return
        for cte in list(clause.expressions):
            name = cte.alias.lower()
            if isinstance(cte.this, exp.Select) and self._reads_rows(cte.this) and not self._aggregates_of(cte.this):
                # Rows of the private table under another name: they stay within the blocks that read them.
                self._rows[name] = cte
                cte.pop()
            else:
                cte.set("this", self.split(cte.this))
                self._released.add(name)
        if not clause.expressions:
            clause.pop()

    def _split_select(self, select: Any) -> Any:
        exp = trees()
        sources = list(self._sources(select))
        if any(self._is_private(source) for source in sources):
            return self._split_block(select)
        for source in sources:
            if isinstance(source, exp.Subquery) and self._reads_private(source.this):
                if self._aggregates_of(select) and self._is_question(select):
                    # One value a person, then an aggregate: one question of the existing kind.
                    return self._split_block(select)
                source.set("this", self.split(source.this))
        for part in ("expressions", "having", "qualify", "order", "where"):
            parts = select.args.get(part)
            for root in parts if isinstance(parts, list) else [parts] if parts is not None else []:
                self._split_scalars(root)
        return select

    def _split_scalars(self, root: Any) -> None:
        exp = trees()
        for node in list(root.walk(prune=lambda n: isinstance(n, exp.Query))):
            if isinstance(node, exp.Subquery) and self._reads_private(node.this):
                node.set("this", self.split(node.this))

    # ---- which table is read

    def _sources(self, select: Any) -> Iterator[Any]:
        start = select.args.get("from_") or select.args.get("from")
        if start is not None:
            yield start.this
        for join in select.args.get("joins") or []:
            yield join.this

    def _is_private(self, source: Any) -> bool:
        """Whether a source is rows of the private table: itself, a name of WITH for them, or a sub-query of rows."""
        exp = trees()
        if isinstance(source, exp.Table):
            name = ".".join(part.name for part in source.parts)
            if name.lower() in self._released:
                return False
            return name.lower() in self._rows or is_same_table(name, self._table)
        if isinstance(source, exp.Subquery) and isinstance(source.this, exp.Select):
            return self._reads_rows(source.this) and not self._aggregates_of(source.this)
        return False

    def _reads_rows(self, select: Any) -> bool:
        return any(self._is_private(source) for source in self._sources(select))

    def _reads_private(self, query: Any) -> bool:
        exp = trees()
        return any(self._is_private(table) for table in query.find_all(exp.Table))

    def _is_question(self, select: Any) -> bool:
        try:
            self._accept(self._with_rows(select.copy()).sql(dialect="duckdb"))
        except QuestionRefused:
            return False
        return True

    # ---- one private block

    def _split_block(self, select: Any) -> Any:
        """Return the SELECT over the answer of its keys and aggregates, which are asked as one question."""
        exp = trees()
        select = self._number_names(select)
        for part in ("where", "having"):
            clause = select.args.get(part)
            if (
                part == "where"
                and clause is not None
                and any(self._reads_private(sub.this) for sub in clause.find_all(exp.Subquery))
            ):
                raise QuestionRefused(
                    "a private question inside WHERE is not supported: ask it first, and give its value as a number"
                )
        self._split_scalars_of(select)
        aggregates = self._aggregates_of(select)
        sets = self._key_sets(select)
        keys = list(dict.fromkeys(key for one in sets for key in one))
        if not aggregates and not keys:
            raise QuestionRefused("rows of single persons are never released: ask for aggregates, or GROUP BY")
        names = {key: f"{_KEY}{i}" for i, key in enumerate(keys)}
        self.truths |= {name for key, name in names.items() if self._is_truth(key)}
        values = {aggregate: f"{_VALUE}{i}" for i, aggregate in enumerate(aggregates)}
        tables = [self._add(select, one, names, values) for one in sets]
        outer = select.copy()
        for part in ("from_", "from", "joins", "where", "group", "having", "laterals", "sample", "hint"):
            outer.set(part, None)
        having = select.args.get("having")
        if having is not None:
            outer.set("where", exp.Where(this=having.this.copy()))
        source = self._union(tables, sets, names, values) if len(sets) > 1 else exp.to_table(tables[0])
        outer = outer.from_(source)
        shown = {item.alias.lower() for item in outer.expressions if isinstance(item, exp.Alias)}
        for place, item in enumerate(outer.expressions):
            if not isinstance(item, exp.Alias):
                outer.expressions[place].replace(
                    exp.alias_(item.copy(), item.output_name or item.sql("duckdb").lower())
                )
        for part in list(outer.iter_expressions()):
            if part is not source and not isinstance(part, exp.From):
                self._swap(part, names, values)
        for column in outer.find_all(exp.Column):
            known = column.name.startswith((_KEY, _VALUE)) or column.name.lower() in shown
            if not known and column.find_ancestor(exp.Subquery) is None:
                raise QuestionRefused(
                    f"{column.name} is a value of a single row beside an aggregate: GROUP BY it, or aggregate it"
                )
        return outer

    def _split_scalars_of(self, select: Any) -> None:
        for item in [*select.expressions, *(select.args.get(part) for part in ("having", "qualify", "order"))]:
            if item is not None:
                self._split_scalars(item)

    def _number_names(self, select: Any) -> Any:
        """Return the SELECT in which GROUP BY and ORDER BY name expressions, not places or aliases."""
        exp = trees()
        select = select.copy()
        items = select.expressions
        aliases = {item.alias.lower(): item.this for item in items if isinstance(item, exp.Alias)}

        def meant(item: Any) -> Any:
            if isinstance(item, exp.Literal) and not item.is_string and item.this.isdigit():
                place = int(item.this)
                if not 1 <= place <= len(items):
                    raise QuestionRefused(f"there is no column {place} in SELECT")
                return items[place - 1].unalias().copy()
            if isinstance(item, exp.Column) and not item.table and item.name.lower() in aliases:
                return item if item.name.lower() in self._columns else aliases[item.name.lower()].copy()
            return item

        group = select.args.get("group")
        if group is not None:
            if group.args.get("all"):
                keys = [i.unalias().copy() for i in items if i.find(exp.AggFunc) is None]
                select.set("group", exp.Group(expressions=keys))
            else:
                group.set("expressions", [meant(item) for item in group.expressions])
        order = select.args.get("order")
        for item in order.expressions if order is not None else []:
            item.set("this", meant(item.this))
        return select

    def _key_sets(self, select: Any) -> list[tuple[Any, ...]]:
        """Return the keys of each grouping: one for GROUP BY, several for ROLLUP, CUBE and GROUPING SETS."""
        exp = trees()
        group = select.args.get("group")
        if group is None:
            if select.args.get("distinct") and not self._aggregates_of(select):
                return [tuple(item.unalias() for item in select.expressions)]
            return [()]
        sets: list[tuple[Any, ...]] = [()]
        for item in group.expressions:
            if isinstance(item, exp.Rollup):
                keys = tuple(item.expressions)
                chosen = [keys[:size] for size in range(len(keys), -1, -1)]
            elif isinstance(item, exp.Cube):
                keys = tuple(item.expressions)
                chosen = [tuple(k for i, k in enumerate(keys) if not mask >> i & 1) for mask in range(2 ** len(keys))]
            elif isinstance(item, exp.GroupingSets):
                chosen = [_members(one) for one in item.expressions]
            else:
                chosen = [(item,)]
            sets = [(*one, *more) for one in sets for more in chosen]
        if len(sets) > 64:
            raise QuestionRefused(f"a statement of {len(sets)} groupings is not supported: at most 64")
        return sets

    def _aggregates_of(self, select: Any) -> list[Any]:
        """Return the aggregates of a SELECT over its own rows, equal ones once; what a window aggregates is none."""
        exp = trees()
        found: dict[Any, None] = {}
        wrappers = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls)

        def visit(node: Any) -> None:
            if isinstance(node, exp.Query):
                return
            if isinstance(node, exp.Window):
                inner = node.this
                while isinstance(inner, wrappers):
                    inner = inner.this
                parts = [*inner.iter_expressions(), *(p for p in node.iter_expressions() if p is not node.this)]
                for part in parts:
                    visit(part)
                return
            if isinstance(node, exp.AggFunc) or (isinstance(node, wrappers) and node.find(exp.AggFunc) is not None):
                found[node] = None
                return
            for part in node.iter_expressions():
                visit(part)

        for name in ("expressions", "having", "qualify", "order"):
            parts = select.args.get(name)
            for part in parts if isinstance(parts, list) else [parts] if parts is not None else []:
                visit(part)
        return list(found)

    def _add(self, select: Any, keys: tuple[Any, ...], names: dict[Any, str], values: dict[Any, str]) -> str:
        """Add the question of some keys and of all aggregates, and return the name of its answer's table."""
        exp = trees()
        items = [exp.alias_(key.copy(), names[key]) for key in keys]
        items += [exp.alias_(aggregate.copy(), name) for aggregate, name in values.items()]
        block = exp.Select(expressions=items)
        for part in ("from_", "from", "joins", "where", "laterals", "sample"):
            value = select.args.get(part)
            if value is not None:
                block.set(part, [one.copy() for one in value] if isinstance(value, list) else value.copy())
        if keys:
            block.set("group", exp.Group(expressions=[key.copy() for key in keys]))
        text = self._with_rows(block).sql(dialect="duckdb")
        self._accept(text)
        if text not in self.blocks:
            self.blocks.append(text)
        return f"{BLOCK}{self.blocks.index(text)}"

    def _with_rows(self, block: Any) -> Any:
        """Return a SELECT with the definitions of WITH that stand for rows as sub-queries."""
        exp = trees()

        def inline(node: Any) -> Any:
            if isinstance(node, exp.Table) and node.name.lower() in self._rows:
                cte = self._rows[node.name.lower()]
                return exp.Subquery(
                    this=cte.this.copy(), alias=exp.TableAlias(this=exp.to_identifier(node.alias_or_name))
                )
            return node

        return block.transform(inline)

    def _union(
        self, tables: list[str], sets: list[tuple[Any, ...]], names: dict[Any, str], values: dict[Any, str]
    ) -> Any:
        """Return the rows of several groupings as one sub-query; keys that a grouping lacks are NULL."""
        exp = trees()
        selects = []
        for table, keys in zip(tables, sets, strict=True):
            items = [exp.column(n) if k in keys else exp.alias_(exp.Null(), n) for k, n in names.items()]
            selects.append(exp.Select(expressions=[*items, *map(exp.column, values.values())]).from_(table))
        whole = selects[0]
        for one in selects[1:]:
            whole = exp.union(whole, one, distinct=False)
        return exp.Subquery(this=whole, alias=exp.TableAlias(this=exp.to_identifier("sordino_groupings")))

    def _swap(self, node: Any, names: dict[Any, str], values: dict[Any, str]) -> None:
        """Put the columns of the answer in the place of the parts of the SELECT that they are; sub-queries stay."""
        exp = trees()
        if isinstance(node, exp.Query):
            return
        name = values.get(node) or names.get(node)
        if name is None and isinstance(node, exp.Column):
            same = [
                n for key, n in names.items() if isinstance(key, exp.Column) and key.name.lower() == node.name.lower()
            ]
            name = same[0] if same else None
        if name is not None:
            node.replace(exp.column(name))
            return
        for part in list(node.iter_expressions()):
            self._swap(part, names, values)


def _trace(outside: Any) -> tuple[Trace, ...]:
    """Return the columns that are released ones as they are, and let the outside tell their rows.

    Only where each row of the answer is a row of one block, and none is left out because of a noisy value: a value that
    was selected by itself is no longer within its interval as often as stated.
    """
    exp = trees()
    if not isinstance(outside, exp.Select):
        return ()
    clause = outside.args.get("with_") or outside.args.get("with")
    named = {} if clause is None else {cte.alias.lower(): cte.this for cte in clause.expressions}
    columns = _lineage(outside, named)
    if columns is None:
        return ()
    found = [
        Trace(place, *columns[item.output_name.lower()])
        for place, item in enumerate(outside.expressions)
        if item.output_name.lower() in columns
    ]
    if found:
        _show_rows(outside, named)
    return tuple(found)


def _lineage(select: Any, named: dict[str, Any]) -> dict[str, tuple[int, str]] | None:
    """Return, for each column of a SELECT that is a released one, its block and name; None where rows are mixed or left out.

    `named` are the queries of WITH by their names.
    """
    exp = trees()
    others = ("joins", "where", "group", "having", "qualify", "distinct", "limit", "offset", "laterals")
    source = _only_source(select, named)
    if source is None or any(select.args.get(part) for part in others):
        return None
    if any(not isinstance(a.parent, exp.Window) for item in select.expressions for a in item.find_all(exp.AggFunc)):
        return None
    # A star would show the rows of the block too.
    if any(isinstance(star.parent, (exp.Select, exp.Column)) for star in select.find_all(exp.Star)):
        return None
    inner = None
    block = 0
    if isinstance(source, exp.Table):
        block = int(source.name.removeprefix(BLOCK))
    else:
        inner = _lineage(source, named)
        if inner is None:
            return None
    columns: dict[str, tuple[int, str]] = {}
    for item in select.expressions:
        column = item.unalias()
        if not isinstance(column, exp.Column):
            continue
        if inner is None and column.name.startswith(_VALUE):
            columns[item.output_name.lower()] = (block, column.name)
        elif inner is not None and column.name.lower() in inner:
            columns[item.output_name.lower()] = inner[column.name.lower()]
    return columns


def _only_source(select: Any, named: dict[str, Any]) -> Any:
    """Return the table of a block, or the SELECT, that is all that a SELECT reads; None where it reads anything else."""
    exp = trees()
    start = select.args.get("from_") or select.args.get("from")
    source = None if start is None else start.this
    if isinstance(source, exp.Table) and source.name.lower() in named:
        source = named[source.name.lower()]
    elif isinstance(source, exp.Subquery):
        source = source.this
    elif not (isinstance(source, exp.Table) and source.name.startswith(BLOCK)):
        source = None
    return source if isinstance(source, (exp.Table, exp.Select)) else None


def _show_rows(select: Any, named: dict[str, Any]) -> None:
    """Let a SELECT, and those that it reads, give the row of the block too."""
    exp = trees()
    source = _only_source(select, named)
    if isinstance(source, exp.Select):
        _show_rows(source, named)
    select.set("expressions", [*select.expressions, exp.column(ROW)])


def _members(grouping: Any) -> tuple[Any, ...]:
    """Return the keys of one of GROUPING SETS."""
    exp = trees()
    if isinstance(grouping, exp.Tuple):
        return tuple(grouping.expressions)
    return (grouping.this,) if isinstance(grouping, exp.Paren) else (grouping,)


def _totalize(outside: Any) -> Any:
    """Return the outside with functions that noise could make fail as NULL there: logarithms, roots, casts."""
    exp = trees()

    def change(node: Any) -> Any:
        if isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast):
            return exp.TryCast(**dict(node.args.items()))
        if isinstance(node, (exp.Ln, exp.Sqrt)) and not isinstance(node.parent, exp.If):
            limit = exp.GT if isinstance(node, exp.Ln) else exp.GTE
            condition = limit(this=exp.paren(node.this.copy()), expression=exp.Literal.number(0))
            return exp.Case(ifs=[exp.If(this=condition, true=node.copy())])
        return node

    return outside.transform(change)
