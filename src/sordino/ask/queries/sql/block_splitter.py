"""Splits a statement into private blocks and what surrounds them, from its text alone: `BlockSplitter.split`."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, Protocol

from sordino.ask.queries.expressions.released import TOKEN
from sordino.ask.queries.expressions.sql_trees import and_parts, from_of, trees, with_of, write_duckdb
from sordino.ask.queries.sql.dialects import count_combinations
from sordino.ask.queries.sql.literal_tables import LiteralTable, join_literals, read_literals
from sordino.ask.queries.sql.outside_select import (
    BLOCK,
    KEY,
    RESERVED,
    VALUE,
    check_functions,
    only_source,
    write_outside,
)
from sordino.ask.queries.sql.row_unions import RowUnion, add_up_parts, put_source, unite_rows
from sordino.ask.queries.sql.text import Place, is_same_table
from sordino.core.errors import QuestionRefused

# What a released table is called in a SELECT over it.
ANSWER = "answer"
GROUPING = "sordino_grouping_"
# The rows of several groupings: those of ROLLUP, CUBE and GROUPING SETS.
GROUPINGS = "sordino_groupings"
# The names of an answer, and of one of its groups' values, where these are compared.
_GROUPS = "sordino_groups"
_VALUES = "sordino_values"
_WEIGHT = re.compile(r"\s*weight\s*\(\s*(\d{1,9}(?:\.\d{1,9})?)\s*\)\s*", re.IGNORECASE)
# Of a SELECT that shows and reads, and does nothing else.
_SIMPLE = ("kind", "expressions", "from_", "from", "with_", "with")
ReleasedKind = Literal["value", "list", "lookup"]


@dataclass(frozen=True, slots=True)
class ReleasedQuery:
    """A sub-query of released values in a private block: what it gives is a constant there, known before the block is asked.

    `outside` is its SQL over the answers of earlier blocks. `kind` is "value", of one row and column; "list", of all rows, as IN
    takes them; or "lookup", of a number for each key, which are its two columns. It reads the first `after` blocks.
    """

    name: str
    outside: str
    kind: ReleasedKind
    words: str
    after: int


# Whether all rows of a public table that agree in some columns, in lower case, agree in another one.
Determines = Callable[[str, Collection[str], str], bool]


class BlockReader(Protocol):
    """Reads the text of a private block; raises QuestionRefused for one that is no private question."""

    def accept(self, text: str) -> None:
        """Take a block's text, in which the released values that were declared may stand."""

    def declare(self, query: ReleasedQuery, blocks: list[str]) -> None:
        """Take a sub-query over the answers of `blocks`, whose value the blocks after it may name."""


class BlockSplitter:
    """Splits one statement; `blocks` are the private blocks found so far, equal ones once."""

    def __init__(self, tables: Mapping[str, Iterable[str]], reader: BlockReader, text: str) -> None:
        self.blocks: list[str] = []
        self.weights: dict[str, Fraction] = {}
        self.is_weighted = False
        self.constants: list[ReleasedQuery] = []
        self._tables = {table: frozenset(name.lower() for name in columns) for table, columns in tables.items()}
        self._reader = reader
        self._place = Place(text)
        # Names of WITH that stand for rows of the private table, and those for what was computed from answers.
        self._rows: dict[str, Any] = {}
        self._released: dict[str, Any] = {}
        self._written: dict[str, Any] = {}
        # Public tables by their names in lower case, and those that are read outside of the blocks.
        self.public: dict[str, str] = {}
        self.public_columns: dict[str, set[str]] = {}
        self.determines: Determines = lambda *_: False
        # Columns that declare their values.
        self.declared: frozenset[str] = frozenset()
        self.read_public: dict[str, None] = {}
        # Names of columns that hold true and false.
        self.truths: set[str] = set()
        # The column of the privacy unit, and those of all tables, in lower case.
        self.unit = ""
        self.units: frozenset[str] = frozenset()
        # Names of WITH for rows of several SELECTs, joined by UNION ALL.
        self._unions: dict[str, RowUnion] = {}
        # Names of WITH for rows that are written out.
        self._literals: dict[str, LiteralTable] = {}

    def read_weights(self, query: Any) -> None:
        """Take the hints of the statement's SELECTs, /*+ WEIGHT(3) */, out of its tree: each is of its SELECT's questions."""
        for select in query.find_all(trees().Select):
            hints = [comment[1:] for comment in select.comments or () if comment.startswith("+")]
            select.comments = [comment for comment in select.comments or () if not comment.startswith("+")]
            for hint in hints:
                weight = _WEIGHT.fullmatch(hint)
                if weight is None or not Fraction(weight[1]):
                    raise QuestionRefused(
                        f"the hint {' '.join(hint.split())[:40]!r} is not supported in a statement: WEIGHT(3) is, above 0, "
                        "of the loss of a SELECT's private questions; MAX_ROWS and its kin go with one question"
                    )
                select.meta["weight"] = Fraction(weight[1])
                self.is_weighted = True

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

    def define(self, queries: Iterable[Any]) -> None:
        """Take queries of WITH that read answers alone."""
        self._released |= {cte.alias.lower(): cte for cte in queries}

    def check_outside(self, outside: Any) -> None:
        """Raise QuestionRefused where the outside reads anything but answers, or calls a function that is not allowed."""
        exp = trees()
        answers = {f"{BLOCK}{i}" for i in range(len(self.blocks))} | self._released.keys()
        for node in outside.walk():
            if isinstance(node, exp.Table):
                self._check_table(node, answers)
        check_functions(outside)

    def _check_table(self, table: Any, answers: set[str]) -> None:
        """Raise QuestionRefused for a table that is neither an answer nor public; note a public one."""
        name = table.name.lower()
        schema = table.db.lower()
        if name in answers and not schema:
            return
        if isinstance(table.this, trees().Func):
            word = str(table.this.this) if isinstance(table.this, trees().Anonymous) else table.this.sql_name()
            raise QuestionRefused(
                f"{word.upper()} is no table around private questions: FROM names declared tables, queries of WITH, VALUES, and "
                "lists or series of constant ends"
            )
        if name not in self.public or schema.startswith(RESERVED):
            why = (
                "is not declared, or is read row by row"
                if self._tables
                else f"is not known: the released one is {ANSWER!r}"
            )
            raise QuestionRefused(f"{self._place.of(table)}table {table.name!r} {why}")
        self.read_public[self.public[name]] = None

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
        clause = with_of(query)
        if clause is None:
            return
        for cte in list(clause.expressions):
            name = cte.alias.lower()
            united = self._united_rows(cte.this)
            if united is not None:
                self._unions[name] = united
                cte.pop()
            elif self._is_of_rows(cte.this):
                self._join_literals(cte.this)
                # Rows of the private table, or one a person, under another name: they stay within the blocks that read them.
                self._release_constants(cte.this)
                self._rows[name] = cte
                cte.pop()
            else:
                literals = read_literals(cte.this, self._literals, cte.alias_column_names)
                if literals is not None:
                    self._literals[name] = literals
                self._written[name] = cte.this.copy()
                cte.set("this", self.split(cte.this))
                self._released[name] = cte
        if not clause.expressions:
            clause.pop()

    def _is_of_rows(self, query: Any) -> bool:
        """Return whether a query of WITH gives rows of the private table, or one of each person's: none is ever shown."""
        exp = trees()
        if not isinstance(query, exp.Select) or not self._reads_rows(query):
            return False
        if not self._aggregates_of(query):
            return True
        probe = exp.Select(expressions=[exp.Count(this=exp.Star())])
        units = exp.Subquery(this=query.copy(), alias=exp.TableAlias(this=exp.to_identifier("units")))
        return query.args.get("group") is not None and self._is_question(probe.from_(units))

    def _join_literals(self, select: Any) -> None:
        """Replace rows that a SELECT of private rows, or one in it, writes out and joins by constants."""
        exp = trees()
        for one in [select, *(inner for inner in select.find_all(exp.Select) if inner is not select)]:
            if self._reads_private(one):
                join_literals(one, self._literals, self._columns_of(one))

    def _united_rows(self, query: Any) -> RowUnion | None:
        """Return the SELECTs of rows that a query unites, a UNION or a SELECT of rows from one; None for any other query."""
        exp = trees()
        while isinstance(query, exp.Subquery):
            query = query.this
        if isinstance(query, exp.SetOperation):
            return unite_rows(query, self._is_row_source)
        if not isinstance(query, exp.Select) or self._aggregates_of(query) or query.find(exp.Window) is not None:
            return None
        if any(query.args.get(part) for part in ("group", "distinct", "limit", "offset", "qualify")):
            return None
        source, united = self._united_source(query)
        if source is None or united is None:
            return None
        return replace(united, selects=tuple(put_source(query, source, part) for part in united.selects))

    def _united_source(self, select: Any) -> tuple[Any, RowUnion | None]:
        """Return the source of a SELECT that is rows of several, and their SELECTs; None and None where there is none."""
        exp = trees()
        unions: list[tuple[Any, RowUnion]] = []
        for source in self._sources(select):
            united = self._unions.get(source.name.lower()) if isinstance(source, exp.Table) else None
            if isinstance(source, exp.Subquery):
                united = self._united_rows(source.this)
            if united is not None:
                unions.append((source, united))
        if len(unions) > 1:
            raise QuestionRefused(
                "rows of one UNION ALL are not joined with those of another: ask about each by itself"
            )
        return unions[0] if unions else (None, None)

    def _is_row_source(self, query: Any) -> bool:
        return isinstance(query, trees().Select) and self._reads_rows(query) and not self._aggregates_of(query)

    def _split_select(self, select: Any) -> Any:
        exp = trees()
        source, united = self._united_source(select)
        if united is not None:
            select = self._number_names(select)
            keys = list(dict.fromkeys(key for one in self._key_sets(select) for key in one))
            source, united = self._united_source(select)
            assert united is not None
            select = add_up_parts(select, source, united, keys, self._aggregates_of(select), units=self.units)
        # Counted outside of a block it would be the number of declared keys.
        self._count_keys(select)
        self._aggregate_keys(select)
        sources = list(self._sources(select))
        lateral = select.args.get("laterals") or any(isinstance(source, exp.Lateral) for source in sources)
        if lateral and self._reads_private(select):
            raise QuestionRefused(
                "LATERAL is not supported around private questions: how often one is asked may not follow from an answer; "
                "ask for each key with GROUP BY, and join the answers"
            )
        sources = self._split_listed(select, sources)
        if any(self._is_private(source) for source in sources):
            return self._split_block(select)
        for source in sources:
            if isinstance(source, exp.Subquery) and self._reads_private(source.this):
                if self._aggregates_of(select) and self._is_question_of_units(select):
                    # One value a person, then an aggregate: one question of the existing kind.
                    return self._split_block(select)
                source.set("this", self.split(source.this))
        for part in ("expressions", "having", "qualify", "order", "where"):
            parts = select.args.get(part)
            for root in parts if isinstance(parts, list) else [parts] if parts is not None else []:
                self._split_scalars(root, by_key=True)
        return select

    def _count_keys(self, select: Any) -> None:
        """Replace a count of rows of SELECT DISTINCT k, in which a missing key is a row too, by COUNT(DISTINCT k)."""
        exp = trees()
        rows = select.expressions[0].unalias().this if len(select.expressions) == 1 else None
        count_combinations(select, least=1)
        distinct = select.expressions[0].unalias().this if isinstance(rows, exp.Star) else None
        if not isinstance(distinct, exp.Distinct) or isinstance(distinct.expressions[0], exp.Tuple):
            return
        # COUNT leaves out what is missing, but counts a pair of it. Rows without a person are in no answer.
        value = distinct.expressions[0]
        if isinstance(value, exp.Column) and value.name.lower() == self.unit:
            return
        distinct.set("expressions", [exp.Tuple(expressions=[value.copy() for _ in "ab"])])
        if self._reads_rows(select) and not self._is_declared(value) and not self._is_question(select):
            distinct.set("expressions", [value])

    def _is_declared(self, node: Any) -> bool:
        return isinstance(node, trees().Column) and node.name.lower() in self.declared

    def _aggregate_keys(self, select: Any) -> None:
        """Replace aggregates over a sub-query, or WITH, that has each key once by aggregates of DISTINCT values of rows.

        As for a count alone (`count_combinations`): outside of a block, they would be of the declared keys.
        """
        exp = trees()
        sources = list(self._sources(select))
        if len(sources) != 1 or any(value for name, value in select.args.items() if name not in _SIMPLE and value):
            return
        source = sources[0]
        query = source.this
        if isinstance(source, exp.Table):
            query = self._rows[source.name.lower()].this if source.name.lower() in self._rows else None
        if not isinstance(query, exp.Select) or not self._reads_rows(query):
            return
        probe = exp.Select(expressions=[exp.Count(this=exp.Star())]).from_(exp.Subquery(this=query.copy()))
        self._count_keys(probe)
        distinct = probe.expressions[0].this
        if not isinstance(distinct, exp.Distinct):
            return
        key = distinct.expressions[0]
        is_one = len(query.expressions) == 1
        key = key.expressions[0] if is_one and isinstance(key, exp.Tuple) else key
        name = query.expressions[0].output_name.lower() if is_one else ""
        rewritten = select.copy()
        if not self._aggregates_of(rewritten):
            return
        for node in self._aggregates_of(rewritten):
            inner = node.this if isinstance(node, exp.IgnoreNulls) else node
            of = inner.this.this if isinstance(inner.this, exp.Order) else inner.this
            of = of.expressions[0] if isinstance(of, exp.Distinct) and len(of.expressions) == 1 else of
            is_key = isinstance(of, exp.Column) and of.name.lower() == name
            if not is_key and not (isinstance(inner, exp.Count) and isinstance(of, exp.Star)):
                return
            if not isinstance(inner, (exp.Count, exp.Sum, exp.Avg, exp.GroupConcat, exp.AnyValue)):
                return
            for same in [item for item in rewritten.walk() if item == node]:
                for column in [c for c in same.find_all(exp.Column) if c.name.lower() == name]:
                    column.replace(key.copy())
                if not isinstance(inner, exp.AnyValue):
                    value = next(item for item in same.walk() if isinstance(item, type(inner)))
                    value = value.this if isinstance(value.this, exp.Order) else value
                    counts_rows = isinstance(of, exp.Star)
                    value.set("this", distinct.copy() if counts_rows else exp.Distinct(expressions=[key.copy()]))
        select.set("expressions", rewritten.expressions)
        for part in ("from_", "from", "where", "joins", "laterals"):
            select.set(part, probe.args.get(part))

    def _split_listed(self, select: Any, sources: list[Any]) -> list[Any]:
        """Ask which keys there are, of sources that have each once, where a SELECT shows them one by one or lists them.

        Numbers of keys are asked of rows, or not at all: declared keys show whether or not a row has them. Returns the sources.
        """
        exp = trees()
        aggregates = self._aggregates_of(select)
        lists = all(node.find(exp.GroupConcat) is not None for node in aggregates)
        if not lists or select.args.get("distinct") or (select.args.get("group") is not None and not aggregates):
            return sources
        queries = [self._keys_of_rows(source) for source in sources]
        if any(q is None and self._is_private(s) for s, q in zip(sources, queries, strict=True)):
            return sources
        for source, query in zip(sources, queries, strict=True):
            if query is not None:
                name = exp.to_identifier(source.alias_or_name or "sordino_keys")
                source.replace(exp.Subquery(this=self._split_block(query.copy()), alias=exp.TableAlias(this=name)))
        return list(self._sources(select))

    def _keys_of_rows(self, source: Any) -> Any:
        """Return the query of a source that has each value of some columns of the rows once; None for any other source."""
        exp = trees()
        query = source.this if isinstance(source, exp.Subquery) else None
        if isinstance(source, exp.Table) and source.name.lower() in self._rows:
            query = self._rows[source.name.lower()].this
        if not isinstance(query, exp.Select) or not self._reads_rows(query) or self._aggregates_of(query):
            return None
        if not query.args.get("distinct") and query.args.get("group") is None:
            return None
        columns = [c.name.lower() for item in query.expressions for c in item.find_all(exp.Column)]
        return None if self.unit in columns or any(item.is_star for item in query.expressions) else query

    def _split_scalars(self, root: Any, *, by_key: bool = False) -> None:
        """Split the sub-queries in an expression; with `by_key` those too that are about one key of the rows around them."""
        exp = trees()
        for node in list(root.walk(prune=lambda n: isinstance(n, exp.Query))):
            if isinstance(node, exp.Subquery) and self._reads_private(node.this):
                answer = self._ask_by_key(node.this) if by_key else None
                if answer is None:
                    node.set("this", self.split(node.this))
                else:
                    node.replace(answer)
            elif isinstance(node, (exp.Select, exp.SetOperation)) and self._reads_private(node):
                # As EXISTS and ALL have it.
                node.replace(self.split(node.copy()))

    # ---- which table is read

    def _sources(self, select: Any) -> Iterator[Any]:
        start = from_of(select)
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
            return name.lower() in self._rows or any(is_same_table(name, table) for table in self._tables)
        if isinstance(source, exp.Subquery) and isinstance(source.this, exp.Select):
            return self._reads_rows(source.this) and not self._aggregates_of(source.this)
        return False

    def _reads_rows(self, select: Any) -> bool:
        return any(self._is_private(source) for source in self._sources(select))

    def _reads_private(self, query: Any) -> bool:
        exp = trees()
        return any(self._is_private(table) for table in query.find_all(exp.Table))

    def _columns_of(self, select: Any) -> frozenset[str]:
        """Return the declared columns of the private tables whose rows a SELECT reads, in lower case."""
        exp = trees()
        columns_read: set[str] = set()
        for source in self._sources(select):
            if isinstance(source, exp.Subquery) and isinstance(source.this, exp.Select):
                columns_read |= self._columns_of(source.this)
            elif isinstance(source, exp.Table):
                name = ".".join(part.name for part in source.parts)
                if name.lower() in self._rows:
                    columns_read |= self._columns_of(self._rows[name.lower()].this)
                for table, columns in self._tables.items():
                    columns_read |= columns if is_same_table(name, table) else set()
        return frozenset(columns_read)

    def _is_question(self, select: Any) -> bool:
        try:
            self._reader.accept(self._with_rows(select.copy()).sql(dialect="duckdb"))
        except QuestionRefused:
            return False
        return True

    def _is_question_of_units(self, select: Any) -> bool:
        """Return whether a SELECT over a grouped sub-query is one question, once its conditions are released values."""
        before = (len(self.blocks), len(self.constants))
        try:
            probe = self._number_names(select)
            self._join_literals(probe)
            self._join_constants(probe)
            self._release_constants(probe)
            # What is computed from its aggregates and keys, and sub-queries beside them, stay outside.
            keys = {key: f"{KEY}{i}" for i, key in enumerate(self._key_sets(probe)[0])}
            values = {aggregate: f"{VALUE}{i}" for i, aggregate in enumerate(self._aggregates_of(probe))}
            if self._is_question(_block_of(probe, keys, values)):
                return True
        except QuestionRefused:
            pass
        del self.blocks[before[0] :], self.constants[before[1] :]
        return False

    # ---- one private block

    def _split_block(self, select: Any) -> Any:
        """Return the SELECT over the answer of its keys and aggregates, which are asked as one question."""
        exp = trees()
        select = self._number_names(select)
        self._join_literals(select)
        self._join_constants(select)
        self._release_constants(select)
        self._separate_lists(select)
        self._split_scalars_of(select)
        if (listed := self._list_keys(select)) is not None:
            return listed
        self._read_keys(select)
        self._read_constants(select)
        self._drop_looked_up(select)
        _name_keys(select)
        sets = self._key_sets(select)
        aggregates = self._aggregates_of(select)
        keys = list(dict.fromkeys(key for one in sets for key in one))
        if not aggregates and not keys:
            if select.find(exp.Window) is not None:
                raise QuestionRefused(
                    "OVER is of rows of single persons here, which are never released: put windows around aggregates, such as "
                    "SUM(COUNT(*)) OVER (...)"
                )
            raise QuestionRefused("rows of single persons are never released: ask for aggregates, or GROUP BY")
        names = {key: f"{KEY}{i}" for i, key in enumerate(keys)}
        several = len(sets) > 1
        of_sets = [self._values_of_groups(select, one, names, aggregates, alone=not several) for one in sets]
        of_groups = of_sets[0]
        aggregates = [node for node in aggregates if node not in of_groups]
        self.truths |= {name for key, name in names.items() if self._is_truth(key)}
        values = {aggregate: f"{VALUE}{i}" for i, aggregate in enumerate(aggregates)}
        # Without a key and an aggregate, a single row is left.
        single = exp.Subquery(this=exp.Select(expressions=[exp.alias_(exp.Literal.number(1), "sordino_one")]))
        tables = [
            exp.to_table(self._add(select, one, names, values)) if aggregates or one else single.copy() for one in sets
        ]
        groupings = {
            node: f"{GROUPING}{i}"
            for i, node in enumerate(dict.fromkeys(select.find_all(exp.Grouping, exp.GroupingId)))
        }
        source = tables[0]
        if several:
            # Each grouping has its own values of groups, beside its keys.
            united = {node: f"{VALUE}{len(values) + i}" for i, node in enumerate(of_groups)}
            source = self._union(tables, sets, names, values, groupings, united, of_sets)
            values |= united
            of_groups = {}
        elif groupings:
            source = self._union(tables, sets, names, values, groupings, {}, of_sets)
        if of_groups:
            source.set("alias", exp.TableAlias(this=exp.to_identifier(_GROUPS)))
        return self._surround(select, source, names, {**values, **groupings}, of_groups)

    def _surround(
        self, select: Any, source: Any, names: dict[Any, str], values: dict[Any, str], of_groups: dict[Any, Any]
    ) -> Any:
        """Return the SELECT over a block's answers, in which keys and aggregates are columns of `source`.

        `names` are those of keys, `values` those of aggregates and groupings, `of_groups` sub-queries that stand for aggregates.
        """
        exp = trees()
        outer = select.copy()
        for part in ("from_", "from", "joins", "where", "group", "having", "laterals", "sample", "hint"):
            outer.set(part, None)
        having = select.args.get("having")
        if having is not None:
            outer.set("where", exp.Where(this=having.this.copy()))
        outer = outer.from_(source)
        aliases = {item.alias.lower() for item in outer.expressions if isinstance(item, exp.Alias)}
        for place, item in enumerate(outer.expressions):
            if not isinstance(item, exp.Alias):
                outer.expressions[place].replace(
                    exp.alias_(item.copy(), item.output_name or item.sql("duckdb").lower())
                )
        for node, query in of_groups.items():
            for same in [item for item in outer.walk() if item == node]:
                same.replace(query.copy())
        for part in list(outer.iter_expressions()):
            if part is not source and not isinstance(part, exp.From):
                self._swap(part, names, values)
        self._look_up_outside(outer)
        for column in outer.find_all(exp.Column):
            is_released = column.name.startswith((KEY, VALUE, GROUPING)) or column.name.lower() in aliases
            if not is_released and column.find_ancestor(exp.Subquery) is None:
                raise QuestionRefused(
                    f"{column.name} is a value of a single row beside an aggregate: GROUP BY it, or aggregate it"
                )
        return outer

    def _values_of_groups(
        self, select: Any, keys: tuple[Any, ...], every: dict[Any, str], aggregates: list[Any], *, alone: bool
    ) -> dict[Any, Any]:
        """Return sub-queries over other answers that give MODE, and STRING_AGG of DISTINCT declared values, of a group.

        MODE(x) is the value of x of the most rows, by the numbers of rows of each group and value. Beside other aggregates of
        all rows it is a question of its own, as it is alone. `keys` are those of one grouping, `every` names those of all, of
        which there is but one where `alone`.
        """
        exp = trees()
        values: dict[Any, Any] = {}
        names = {key: every[key] for key in keys}
        for node in aggregates:
            mode = _mode(node)
            of = mode[0] if mode is not None else self._listed_of(node)
            if of is None or (alone and not names and (mode is None or len(aggregates) == 1)):
                continue
            if not names and mode is not None and mode[1] is None:
                with contextlib.suppress(QuestionRefused):
                    table = self._add(select, (), {}, {exp.Mode(this=of.copy()): f"{VALUE}0"})
                    values[node] = _one_value(exp.to_table(table), f"{VALUE}0")
                    continue
            pairs = dict(names) if of in names else {**names, of: f"{KEY}{len(every)}"}
            value = exp.column(pairs[of], table=_VALUES)
            counted: dict[Any, str] = {}
            item = node.copy()
            same = [
                exp.NullSafeEQ(this=exp.column(name, table=_VALUES), expression=exp.column(name, table=_GROUPS))
                for name in names.values()
            ]
            if mode is not None:
                rows = exp.Count(this=exp.Star())
                counted = {rows if mode[1] is None else exp.Filter(this=rows, expression=mode[1].copy()): f"{VALUE}0"}
                item = exp.ArgMax(this=value, expression=exp.column(f"{VALUE}0", table=_VALUES))
                same.append(exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null())))
            else:
                for column in [part for part in item.walk() if part == of]:
                    column.replace(value.copy())
            table = self._add(select, tuple(pairs), pairs, counted)
            source = exp.to_table(table)
            source.set("alias", exp.TableAlias(this=exp.to_identifier(_VALUES)))
            query = exp.Select(expressions=[item]).from_(source)
            values[node] = exp.Subquery(this=query.where(*same, copy=False) if same else query)
        return values

    def _listed_of(self, node: Any) -> Any:
        """Return the declared column whose different values STRING_AGG lists; None for anything else."""
        exp = trees()
        lists = node.find(exp.GroupConcat)
        distinct = None if lists is None else lists.find(exp.Distinct)
        if distinct is None or isinstance(node, exp.Filter) or len(distinct.expressions) != 1:
            return None
        return distinct.expressions[0] if self._is_declared(distinct.expressions[0]) else None

    def _join_constants(self, select: Any) -> None:
        """Replace the columns of a released query that a block joins by its released values.

        Joined without a condition it has one row. Joined by its one key it has one row a key: an inner join keeps the rows
        whose key is released. So no row of the block becomes several, whatever is released.
        """
        exp = trees()
        for join in list(select.args.get("joins") or []):
            source = join.this
            key = self._key_of(source)
            name = source.alias_or_name.lower()
            side = str(join.args.get("side") or "").upper()
            # Any other join keeps or drops rows by other rules.
            if join.args.get("method") or side not in ("", "LEFT") or join.kind not in ("", "INNER", "CROSS", "OUTER"):
                continue
            if key is not None and self._joins_units(select, join):
                continue
            if not any(join.args.get(part) for part in ("on", "using", "side")) and self._is_one_row(source):
                join.pop()
                self._substitute(select, name, functools.partial(_one_value, source))
            elif key is not None and (own := _join_key_of(join, name, key, self._columns_of(select))) is not None:
                join.pop()
                self._qualify(select, source, name)
                if side != "LEFT":
                    keys = exp.Select(expressions=[exp.column(key)]).from_(source.copy())
                    select.where(exp.In(this=own.copy(), query=exp.Subquery(this=keys)), copy=False)
                self._substitute(select, name, functools.partial(self._look_up, source, key, own))

    def _qualify(self, select: Any, source: Any, name: str) -> None:
        """Qualify the columns that a released query alone has by its name."""
        exp = trees()
        query = source.this if isinstance(source, exp.Subquery) else self._written[source.name.lower()]
        theirs = {item.alias_or_name.lower() for item in query.expressions} - self._columns_of(select)
        for column in select.find_all(exp.Column):
            if not column.table and column.name.lower() in theirs:
                column.set("table", exp.to_identifier(name))

    def _joins_units(self, select: Any, join: Any) -> bool:
        """Return whether a join puts values of a row's own person beside it, which stay within the block."""
        exp = trees()
        probe = exp.Select(expressions=[exp.Count(this=exp.Star())])
        probe.set("from_", from_of(select).copy())
        probe.set("joins", [join.copy()])
        return self._is_question(probe)

    def _substitute(self, select: Any, name: str, value: Callable[[str], Any]) -> None:
        """Replace all columns that are qualified by a name by values."""
        exp = trees()
        for column in list(select.find_all(exp.Column)):
            if column.table.lower() == name:
                column.replace(value(column.name))

    def _look_up(self, source: Any, key: str, own: Any, column: str) -> Any:
        """Return a row's own key, or the released value of that key."""
        exp = trees()
        if column.lower() == key.lower():
            return own.copy()
        pairs = exp.Select(expressions=[exp.column(key), exp.column(column)]).from_(source.copy())
        return exp.Anonymous(this=self._release(pairs, "lookup"), expressions=[own.copy()])

    def _key_of(self, source: Any) -> str | None:
        """Return the column by which a released query has one row a value: its one GROUP BY key."""
        exp = trees()
        query = source.this if isinstance(source, exp.Subquery) else None
        if isinstance(source, exp.Table):
            query = self._written.get(source.name.lower())
        if not isinstance(query, exp.Select) or not self._is_computed(query) or query.args.get("joins"):
            return None
        query = self._number_names(query)
        group = query.args.get("group")
        if group is None or len(group.expressions) != 1 or any(v for n, v in group.args.items() if n != "expressions"):
            return None
        return next((i.output_name for i in query.expressions if i.unalias() == group.expressions[0]), None)

    def _release_correlated(self, query: Any) -> Any:
        """Return the released value of a row's key, for an aggregate of the rows whose key equals it; None for any other."""
        exp = trees()
        grouped = self._group_by_link(query)
        if grouped is None:
            return None
        by_key, outer, counts = grouped
        value = exp.Anonymous(this=self._release(by_key, "lookup"), expressions=[outer.copy()])
        return exp.Coalesce(this=value, expressions=[exp.Literal.number(0)]) if counts else value

    def _ask_by_key(self, query: Any) -> Any:
        """Return the answer of a row's key, outside of a private question: each key is asked once; None for any other query."""
        exp = trees()
        grouped = self._group_by_link(query)
        if grouped is None:
            return None
        by_key, outer, counts = grouped
        name = "sordino_by_key"
        answers = exp.Subquery(this=self.split(by_key), alias=exp.TableAlias(this=exp.to_identifier(name)))
        same = exp.EQ(this=exp.column("k", table=name), expression=outer.copy())
        value = exp.Subquery(this=exp.Select(expressions=[exp.column("v", table=name)]).from_(answers).where(same))
        return exp.Coalesce(this=value, expressions=[exp.Literal.number(0)]) if counts else value

    def _group_by_link(self, query: Any) -> tuple[Any, Any, bool] | None:
        """Return a correlated aggregate by its key k as v, the key of the row around it, and whether it counts; None for no such.

        (SELECT AVG(w.x) FROM t AS w WHERE w.k = o.k) is asked as SELECT w.k, AVG(w.x) FROM t AS w GROUP BY w.k.
        """
        exp = trees()
        if not isinstance(query, exp.Select):
            return None
        where = query.args.get("where")
        if where is None or len(query.expressions) != 1 or query.args.get("group") is not None:
            return None
        inner = {source.alias_or_name.lower() for source in self._sources(query)}
        parts = and_parts(where.this)
        for part in parts:
            sides = [part.this, part.expression] if isinstance(part, exp.EQ) else []
            if not all(isinstance(side, exp.Column) for side in sides):
                continue
            outer = [side for side in sides if side.table and side.table.lower() not in inner]
            if len(outer) != 1:
                continue
            key = next(side for side in sides if side is not outer[0])
            by_key = query.copy()
            rest = [other.copy() for other in parts if other is not part]
            by_key.set("where", exp.Where(this=exp.and_(*rest)) if rest else None)
            by_key.set("group", exp.Group(expressions=[key.copy()]))
            value = by_key.expressions[0].unalias()
            counts = isinstance(value, exp.Count)
            if not counts and value.find(exp.Count) is not None:
                raise QuestionRefused(
                    "a correlated COUNT stands alone: of a key without rows it is 0, and all else is missing"
                )
            by_key.set("expressions", [exp.alias_(key.copy(), "k"), exp.alias_(value, "v")])
            return by_key, outer[0], counts
        return None

    def _is_one_row(self, source: Any) -> bool:
        """Return whether a source is a released query of a single row: aggregates without GROUP BY."""
        exp = trees()
        query = source.this if isinstance(source, exp.Subquery) else None
        if isinstance(source, exp.Table) and source.name.lower() in self._released:
            query = self._released[source.name.lower()].this
        if not isinstance(query, exp.Select) or query.args.get("group") is not None:
            return False
        if isinstance(source, exp.Subquery):
            return bool(self._aggregates_of(query))
        # What WITH released is split already: its aggregates are columns of a block's one row.
        start = only_source(query, {})
        return isinstance(start, exp.Table) and not any(KEY in column.name for column in query.find_all(exp.Column))

    def _release_constants(self, select: Any) -> None:
        """Replace the sub-queries in a private block by released values: in WHERE, in keys, inside aggregates.

        They are answered first. One that reads rows of single persons stays, as the block's own meaning decides of it.
        """
        exp = trees()
        group = select.args.get("group")
        for root in (select.args.get("where"), *self._aggregates_of(select), *select.expressions):
            for node in [] if root is None else list(root.find_all(exp.Exists)):
                membership = self._as_membership(node.this)
                if membership is not None:
                    node.replace(membership)
        for root in (select.args.get("where"), *self._aggregates_of(select), *select.expressions):
            for node in [] if root is None else list(root.find_all(exp.Any, exp.All)):
                self._compare_list(node)
        inside = [select.args.get("where"), group, *self._aggregates_of(select)]
        # An item that is a key is the same expression as in GROUP BY.
        keys = [] if group is None else group.expressions
        inside += [item for item in select.expressions if item.unalias() in keys]
        inside += [source.this for source in self._sources(select) if isinstance(source, exp.Subquery)]
        for root in inside:
            if root is None:
                continue
            for node in list(root.walk(prune=self._is_condition)):
                if isinstance(node, exp.In) and self._is_condition(node):
                    self._release_list(node)
                elif self._is_condition(node):
                    node.replace(self._release_correlated(node.this) or exp.column(self._release(node.this, "value")))

    def _compare_list(self, node: Any) -> None:
        """Replace ANY and ALL by the least or the largest of released values; those for equality are IN already."""
        exp = trees()
        query = node.this.unnest()
        comparison = node.parent
        of_all = isinstance(node, exp.All)
        if not isinstance(query, exp.Select) or not self._is_computed(query) or len(query.expressions) != 1:
            return
        if isinstance(comparison, (exp.GT, exp.GTE, exp.LT, exp.LTE)) and comparison.expression is node:
            inner = query.copy()
            inner.set("expressions", [exp.alias_(inner.expressions[0].unalias(), "v")])
            above = isinstance(comparison, (exp.GT, exp.GTE))
            end = exp.Max if above == of_all else exp.Min
            values = exp.Select(expressions=[end(this=exp.column("v"))]).from_(
                exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier("sordino_compared")))
            )
            node.replace(exp.Subquery(this=values))

    def _as_membership(self, query: Any) -> Any:
        """Return EXISTS over released or public rows as IN, where one equality links them to the block's rows; else None.

        EXISTS (SELECT 1 FROM s WHERE s.k = o.k AND rest) is o.k IN (SELECT s.k FROM s WHERE rest), false where o.k is missing.
        """
        exp = trees()
        query = query.this if isinstance(query, exp.Subquery) else query
        if not isinstance(query, exp.Select) or not self._is_computed(query):
            return None
        where = query.args.get("where")
        parts = [] if where is None else and_parts(where.this)
        names = {source.alias_or_name.lower() for source in self._sources(query)}
        links = [part for part in parts if isinstance(part, exp.EQ) and self._links(part, names)]
        outer = [c for part in parts for c in part.find_all(exp.Column) if c.table and c.table.lower() not in names]
        if not links and not outer:
            counted = query.copy()
            counted.set("expressions", [exp.Count(this=exp.Star())])
            if counted.args.get("group") is not None or self._aggregates_of(query):
                counted = exp.Select(expressions=[exp.Count(this=exp.Star())]).from_(
                    query.copy().subquery("sordino_rows")
                )
            return exp.GT(this=exp.Subquery(this=counted), expression=exp.Literal.number(0))
        if len(links) != 1 or len(outer) != 1 or query.args.get("group") is not None or query.args.get("limit"):
            return None
        link = links[0]
        own, theirs = (link.this, link.expression) if link.this is outer[0] else (link.expression, link.this)
        inner = query.copy()
        rest = [part.copy() for part in parts if part is not link]
        rest.append(exp.Not(this=exp.Is(this=theirs.copy(), expression=exp.Null())))
        inner.set("where", exp.Where(this=exp.and_(*rest)))
        inner.set("expressions", [theirs.copy()])
        present = exp.Not(this=exp.Is(this=own.copy(), expression=exp.Null()))
        return exp.paren(exp.and_(present, exp.In(this=own.copy(), query=exp.Subquery(this=inner))))

    def _links(self, part: Any, names: set[str]) -> bool:
        """Return whether an equality compares a column of a sub-query's own tables with one of the rows around it."""
        exp = trees()
        sides = [part.this, part.expression]
        if not all(isinstance(side, exp.Column) for side in sides):
            return False
        outer = [side for side in sides if side.table and side.table.lower() not in names]
        return len(outer) == 1

    def _is_condition(self, node: Any) -> bool:
        """Return whether a node is a sub-query of released values: a scalar one, or IN of one."""
        exp = trees()
        if isinstance(node, exp.In) and node.args.get("query") is not None:
            return self._is_computed(node.args["query"])
        scalar = isinstance(node, exp.Subquery) and not isinstance(
            node.parent, (exp.From, exp.Join, exp.In, exp.Exists)
        )
        return scalar and self._is_computed(node)

    def _is_computed(self, query: Any) -> bool:
        """Return whether a query aggregates, or reads computed rows: then no row is that of a single person."""
        exp = trees()
        query = query.this if isinstance(query, exp.Subquery) else query
        if not isinstance(query, exp.Select):
            return isinstance(query, exp.SetOperation) and all(map(self._is_computed, (query.this, query.expression)))
        released = [s for s in self._sources(query) if isinstance(s, exp.Table) and s.name.lower() in self._released]
        nested = [s for s in self._sources(query) if isinstance(s, exp.Subquery) and self._is_computed(s)]
        grouped = query.args.get("group") is not None or bool(self._aggregates_of(query))
        tables = [s for s in self._sources(query) if isinstance(s, exp.Table)]
        if tables and all(table.name.lower() in self.public for table in tables):
            return True
        return bool(released or nested) or (grouped and self._reads_private(query))

    def _release_list(self, node: Any) -> None:
        """Replace the sub-query of IN by its released rows, unless IN is about persons."""
        exp = trees()
        probe = exp.Select(expressions=[exp.Count(this=exp.Star())])
        block = node.find_ancestor(exp.Select)
        if block is not None:
            probe.set("from_", from_of(block).copy())
            probe.set("where", exp.Where(this=node.copy()))
            if self._is_question(probe):
                return
        name = self._release(node.args["query"], "list")
        node.set("query", None)
        node.set("expressions", [exp.column(name)])

    def _release(self, query: Any, kind: ReleasedKind) -> str:
        """Split a sub-query, and return the name of its value in the blocks that come after."""
        exp = trees()
        query = query.this if isinstance(query, exp.Subquery) else query
        words = write_duckdb(query)
        outside = self.split(query.copy())
        if self._released:
            outside = exp.Select(expressions=[exp.Star()]).from_(exp.Subquery(this=outside, alias="sordino_value"))
            with_ = exp.With(expressions=[cte.copy() for cte in self._released.values()])
            outside.set("with_" if "with_" in exp.Select.arg_types else "with", with_)
        self.check_outside(outside)
        self.check_conditions(outside)
        text = write_outside(outside)
        constant = ReleasedQuery(f"{TOKEN}{len(self.constants)}", text, kind, words, len(self.blocks))
        same = next((c for c in self.constants if (c.outside, c.kind) == (constant.outside, kind)), None)
        if same is not None:
            return same.name
        self._reader.declare(constant, self.blocks)
        self.constants.append(constant)
        return constant.name

    def _split_scalars_of(self, select: Any) -> None:
        for item in [*select.expressions, *(select.args.get(part) for part in ("having", "qualify", "order"))]:
            if item is not None:
                self._split_scalars(item)

    def _number_names(self, select: Any) -> Any:
        """Return the SELECT in which GROUP BY and ORDER BY name expressions, not places or aliases."""
        exp = trees()
        select = select.copy()
        items = select.expressions
        own = self._columns_of(select)
        aliases = {item.alias.lower(): item.this for item in items if isinstance(item, exp.Alias)}

        def meant(item: Any, *, first: Collection[str]) -> Any:
            if isinstance(item, exp.Literal) and not item.is_string and item.this.isdigit():
                place = int(item.this)
                if not 1 <= place <= len(items):
                    raise QuestionRefused(f"there is no column {place} in SELECT")
                return items[place - 1].unalias().copy()
            if isinstance(item, exp.Column) and not item.table and item.name.lower() in aliases:
                return item if item.name.lower() in first else aliases[item.name.lower()].copy()
            return item

        group = select.args.get("group")
        if group is not None:
            if group.args.get("all"):
                keys = [i.unalias().copy() for i in items if i.find(exp.AggFunc) is None]
                select.set("group", exp.Group(expressions=keys))
            else:
                group.set("expressions", [meant(item, first=own) for item in group.expressions])
        order = select.args.get("order")
        for item in order.expressions if order is not None else []:
            # Columns come first in GROUP BY, and aliases in ORDER BY.
            item.set("this", meant(item.this, first=()))
        return select

    def _read_keys(self, select: Any) -> None:
        """Replace MIN, MAX, ANY_VALUE and FIRST of keys by the keys: a group has one value of each.

        So has it of a column of a public table that keys determine, in all its rows: such a column becomes a key too.
        """
        exp = trees()
        group = select.args.get("group")
        if group is None or any(value for name, value in group.args.items() if name != "expressions"):
            return
        keys = list(group.expressions)
        for node in self._aggregates_of(select):
            inner = node
            while isinstance(inner, (exp.IgnoreNulls, exp.Distinct)):
                inner = inner.this
            lists = isinstance(inner, exp.GroupConcat) and inner.find(exp.Distinct) is not None
            if (
                not (lists or isinstance(inner, (exp.Min, exp.Max, exp.AnyValue, exp.First, exp.Last)))
                or inner.expressions
            ):
                continue
            of = inner.this
            of = of.this if lists and isinstance(of, exp.Order) else of
            of = of.expressions[0] if isinstance(of, exp.Distinct) and len(of.expressions) == 1 else of
            if of is None or isinstance(of, exp.Order):
                continue
            if isinstance(of, exp.Column) and of not in keys and self._follows(of, keys, select):
                keys.append(of.copy())
                group.append("expressions", of.copy())
            if self._is_of_keys(of, keys):
                for same in [item for item in select.walk() if item == node]:
                    same.replace(of.copy())

    def _read_constants(self, select: Any) -> None:
        """Replace MIN, MAX or ANY_VALUE of a constant by the constant: a group has it, and a table of any rows."""
        exp = trees()
        group = select.args.get("group")
        of_groups = group is not None and not any(v for n, v in group.args.items() if n != "expressions")
        for node in self._aggregates_of(select):
            inner = node.this if isinstance(node, exp.IgnoreNulls) else node
            if not isinstance(inner, (exp.Min, exp.Max, exp.AnyValue)) or inner.expressions:
                continue
            constant = self._constant_of(inner.this, select)
            if constant is None:
                continue
            if not of_groups:
                some = exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(0))
                constant = exp.Case(ifs=[exp.If(this=some, true=constant)])
            for same in [item for item in select.walk() if item == node]:
                same.replace(constant.copy())

    def _constant_of(self, node: Any, select: Any) -> Any:
        """Return the constant that an expression is in all rows that a SELECT reads; None where it may be anything else."""
        exp = trees()
        if isinstance(node, exp.Column):
            joined = any(join.args.get("side") for join in select.args.get("joins") or [])
            for source in [] if joined else self._sources(select):
                query = source.this if isinstance(source, exp.Subquery) else None
                if isinstance(source, exp.Table) and source.name.lower() in self._rows:
                    query = self._rows[source.name.lower()].this
                if not isinstance(query, exp.Select) or node.table.lower() not in ("", source.alias_or_name.lower()):
                    continue
                item = next((i for i in query.expressions if i.output_name.lower() == node.name.lower()), None)
                if item is not None:
                    return self._constant_of(item.unalias(), query)
            return None
        is_made = node is None or node.find(exp.Column, exp.Query, exp.AggFunc, exp.Window, exp.Star, exp.Anonymous)
        return None if is_made else node.copy()

    def _lookups(self) -> dict[str, ReleasedQuery]:
        return {constant.name: constant for constant in self.constants if constant.kind == "lookup"}

    def _is_lookup(self, node: Any) -> bool:
        return isinstance(node, trees().Anonymous) and str(node.this) in self._lookups() and len(node.expressions) == 1

    def _drop_looked_up(self, select: Any) -> None:
        """Leave out of GROUP BY the released values of its keys, which a group has one of."""
        group = select.args.get("group")
        keys = [] if group is None else group.expressions
        rest = [key for key in keys if not (self._is_lookup(key) and key.expressions[0] in keys)]
        if len(rest) < len(keys):
            group.set("expressions", rest)

    def _look_up_outside(self, outer: Any) -> None:
        """Read the released values of keys outside of the block, from the answer that they are of."""
        import sqlglot

        exp = trees()
        lookups = self._lookups()
        for node in [n for n in outer.walk() if self._is_lookup(n)]:
            key = node.expressions[0]
            if not (isinstance(key, exp.Column) and key.name.startswith(KEY)):
                continue
            columns = exp.TableAlias(
                this=exp.to_identifier("sordino_lookup"), columns=[exp.to_identifier("k"), exp.to_identifier("v")]
            )
            pairs = exp.Subquery(this=sqlglot.parse_one(lookups[str(node.this)].outside, read="duckdb"), alias=columns)
            same = exp.NullSafeEQ(this=exp.column("k", table="sordino_lookup"), expression=key.copy())
            value = exp.Select(expressions=[exp.column("v", table="sordino_lookup")]).from_(pairs).where(same)
            node.replace(exp.Subquery(this=value))

    def _is_of_keys(self, of: Any, keys: list[Any]) -> bool:
        """Return whether an expression is a key, or computed from keys alone."""
        exp = trees()
        has_key = False
        for node in of.walk(prune=lambda n: n in keys):
            has_key = has_key or node in keys
            if isinstance(node, (exp.AggFunc, exp.Query)) or (isinstance(node, exp.Column) and node not in keys):
                return False
        return has_key

    def _follows(self, of: Any, keys: list[Any], select: Any) -> bool:
        """Return whether a column is one of a public table of which keys of the block determine it."""
        own_columns = self._columns_of(select)
        for table in self._sources(select):
            if isinstance(table, trees().Subquery) and self._follows_inside(of, keys, select, table):
                return True
            if not isinstance(table, trees().Table) or table.name.lower() not in self.public:
                continue

            def is_of(column: Any, table: Any = table) -> bool:
                if column.table:
                    return bool(column.table.lower() == table.alias_or_name.lower())
                return column.name.lower() in self.public_columns[table.name.lower()] - own_columns

            if is_of(of):
                determining = {key.name.lower() for key in keys if isinstance(key, trees().Column) and is_of(key)}
                determining |= self._equal_to_keys(select, table, keys, is_of)
                return bool(determining) and self.determines(
                    self.public[table.name.lower()], determining, of.name.lower()
                )
        return False

    def _follows_inside(self, of: Any, keys: list[Any], select: Any, source: Any) -> bool:
        """Return whether a column is one of a public table that a sub-query of rows reads, and keys of it determine it."""
        exp = trees()
        query = source.this
        if not isinstance(query, exp.Select) or self._aggregates_of(query) or query.args.get("group") is not None:
            return False
        alone = len(list(self._sources(select))) == 1
        columns = {item.output_name.lower(): item.unalias() for item in query.expressions}

        def meant(column: Any) -> Any:
            named = isinstance(column, exp.Column) and (
                column.table.lower() == source.alias.lower() if column.table else alone
            )
            column_inside = columns.get(column.name.lower()) if named else None
            return column_inside if isinstance(column_inside, exp.Column) else None

        inner = meant(of)
        inside = [column for key in keys if (column := meant(key)) is not None]
        return inner is not None and bool(inside) and self._follows(inner, inside, query)

    def _equal_to_keys(self, select: Any, table: Any, keys: list[Any], is_of: Callable[[Any], bool]) -> set[str]:
        """Return the columns of a joined table that its join compares with keys of the block for equality."""
        exp = trees()
        join = next((join for join in select.args.get("joins") or [] if join.this is table), None)
        if join is None:
            return set()
        named = {key.name.lower() for key in keys if isinstance(key, exp.Column)}
        equal = {part.name.lower() for part in join.args.get("using") or []} & named
        on = join.args.get("on")
        for part in and_parts(on):
            sides = [part.this, part.expression] if isinstance(part, exp.EQ) else []
            for one, other in zip(sides, reversed(sides), strict=True):
                if isinstance(one, exp.Column) and is_of(one) and other in keys:
                    equal.add(one.name.lower())
        return equal

    def _separate_lists(self, select: Any) -> None:
        """Ask ANY_VALUE and STRING_AGG(DISTINCT ...) of different keys, or beside other aggregates, as sub-queries."""
        exp = trees()
        aggregates = self._aggregates_of(select)
        if len(aggregates) < 2 or not self._is_simple(select):
            return
        alone: list[tuple[Any, Any]] = []
        for node in aggregates:
            query = exp.Select(expressions=[node.copy()])
            for part in ("from_", "from", "where", "joins"):
                value = select.args.get(part)
                if value is not None:
                    query.set(part, [one.copy() for one in value] if isinstance(value, list) else value.copy())
            if self._listed_column(query) is not None:
                alone.append((node, query))
        if len(alone) == len(aggregates) and self._listed_column(select) is not None:
            return
        for node, query in alone:
            for same in [item for item in select.walk() if item == node]:
                same.replace(exp.Subquery(this=query.copy()))

    def _is_simple(self, select: Any) -> bool:
        return not any(
            value for name, value in select.args.items() if value and name not in (*_SIMPLE, "where", "joins")
        )

    def _list_keys(self, select: Any) -> Any:
        """Return SELECT STRING_AGG(DISTINCT k) FROM t as one over SELECT DISTINCT k FROM t; None for any other.

        Which keys there are is a question of its own, and ANY_VALUE(k) is one of them.
        """
        exp = trees()
        column = self._listed_column(select)
        if column is None:
            return None
        inside = exp.Select(expressions=[column.copy()], group=exp.Group(expressions=[column.copy()]))
        outside = select.copy()
        for part in ("from_", "from", "joins", "where", "laterals", "sample"):
            value = select.args.get(part)
            if value is not None:
                inside.set(part, [one.copy() for one in value] if isinstance(value, list) else value.copy())
                outside.set(part, None)
        for one in outside.find_all(exp.Column):
            one.set("table", None)
        present = exp.Not(this=exp.Is(this=column.copy(), expression=exp.Null()))
        inside.where(present, copy=False)
        for place, item in enumerate(select.expressions):
            if not isinstance(item, exp.Alias):
                name = exp.to_identifier(item.output_name or item.sql("duckdb").lower(), quoted=True)
                outside.expressions[place].replace(exp.alias_(outside.expressions[place].copy(), name))
        alias = exp.TableAlias(this=exp.to_identifier("sordino_keys"))
        return outside.from_(exp.Subquery(this=self._split_block(inside), alias=alias))

    def _listed_column(self, select: Any) -> Any:
        """Return the declared column whose values, without repetition, are all that a SELECT aggregates; None for any other."""
        exp = trees()
        aggregates = self._aggregates_of(select)
        if not aggregates or select.args.get("group") is not None or select.args.get("having") is not None:
            return None
        columns: dict[Any, None] = {}
        for node in aggregates:
            inner = node.this if isinstance(node, exp.IgnoreNulls) else node
            column = inner.this
            while isinstance(column, (exp.Order, exp.Distinct)):
                distinct = isinstance(column, exp.Distinct)
                column = column.expressions[0] if distinct and len(column.expressions) == 1 else column.this
            lists = isinstance(inner, exp.GroupConcat) and inner.find(exp.Distinct) is not None
            if not (lists or isinstance(inner, exp.AnyValue)) or not isinstance(column, exp.Column):
                return None
            columns[column] = None
        if len(columns) != 1:
            return None
        column = next(iter(columns))
        return column if self._is_declared(column) else None

    def _key_sets(self, select: Any) -> list[tuple[Any, ...]]:
        """Return the keys of each grouping: one for GROUP BY, several for ROLLUP, CUBE and GROUPING SETS."""
        exp = trees()
        group = select.args.get("group")
        if group is None:
            distinct = select.args.get("distinct")
            if distinct is not None and distinct.args.get("on"):
                raise QuestionRefused("DISTINCT ON shows a row of each group: ask for aggregates, with GROUP BY")
            if distinct and not self._aggregates_of(select):
                return [tuple(item.unalias() for item in select.expressions)]
            return [()]
        sets: list[tuple[Any, ...]] = [()]
        for item in group.expressions:
            if isinstance(item, exp.Rollup):
                keys = tuple(item.expressions)
                groupings = [keys[:size] for size in range(len(keys), -1, -1)]
            elif isinstance(item, exp.Cube):
                keys = tuple(item.expressions)
                groupings = [
                    tuple(k for i, k in enumerate(keys) if not mask >> i & 1) for mask in range(2 ** len(keys))
                ]
            elif isinstance(item, exp.GroupingSets):
                groupings = [_members(one) for one in item.expressions]
            else:
                groupings = [(item,)]
            sets = [(*one, *more) for one in sets for more in groupings]
        if len(sets) > 64:
            raise QuestionRefused(f"a statement of {len(sets)} groupings is not supported: at most 64")
        return sets

    def _aggregates_of(self, select: Any) -> list[Any]:
        """Return the aggregates of a SELECT over its own rows, equal ones once, without those of windows."""
        exp = trees()
        aggregates: dict[Any, None] = {}
        wrappers = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls)

        def visit(node: Any) -> None:
            if isinstance(node, (exp.Query, exp.Grouping, exp.GroupingId)):
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
                aggregates[node] = None
                return
            for part in node.iter_expressions():
                visit(part)

        for name in ("expressions", "having", "qualify", "order"):
            parts = select.args.get(name)
            for part in parts if isinstance(parts, list) else [parts] if parts is not None else []:
                visit(part)
        return list(aggregates)

    def _add(self, select: Any, keys: tuple[Any, ...], names: dict[Any, str], values: dict[Any, str]) -> str:
        """Add the question of some keys and of all aggregates, and return the name of its answer's table."""
        text = write_duckdb(self._with_rows(_block_of(select, {key: names[key] for key in keys}, values)))
        self._reader.accept(text)
        weight = select.meta.get("weight", Fraction(1))
        if self.weights.setdefault(text, weight) != weight:
            raise QuestionRefused("equal private questions are asked once: give them one weight")
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
        self,
        tables: list[Any],
        sets: list[tuple[Any, ...]],
        names: dict[Any, str],
        values: dict[Any, str],
        groupings: dict[Any, str],
        united: dict[Any, str],
        of_sets: list[dict[Any, Any]],
    ) -> Any:
        """Return the rows of several groupings as one sub-query; keys that a grouping lacks are NULL.

        `of_sets` are the values of groups of each grouping, and `united` their names.

        GROUPING(a, b) has a binary digit for each key, 1 where the grouping lacks it.
        """
        exp = trees()
        selects = []
        for table, keys, of_groups in zip(tables, sets, of_sets, strict=True):
            items = [exp.column(n) if k in keys else exp.alias_(exp.Null(), n) for k, n in names.items()]
            for node, name in groupings.items():
                if any(key not in names for key in node.expressions):
                    raise QuestionRefused("GROUPING takes keys of GROUP BY")
                digits = "".join(str(int(key not in keys)) for key in node.expressions) or "0"
                items.append(exp.alias_(exp.Literal.number(int(digits, 2)), name))
            items += map(exp.column, values.values())
            if united:
                items += [exp.alias_(of_groups[node].copy(), name) for node, name in united.items()]
                table.set("alias", exp.TableAlias(this=exp.to_identifier(_GROUPS)))
            selects.append(exp.Select(expressions=items).from_(table))
        whole = selects[0]
        for one in selects[1:]:
            whole = exp.union(whole, one, distinct=False)
        return exp.Subquery(this=whole, alias=exp.TableAlias(this=exp.to_identifier(GROUPINGS)))

    def _swap(self, node: Any, names: dict[Any, str], values: dict[Any, str]) -> None:
        """Replace the parts of a SELECT that are columns of the answer by these columns; sub-queries stay."""
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


def _name_keys(select: Any) -> None:
    """Replace MIN, MAX or ANY_VALUE of a key by the key: all rows of a group have it."""
    exp = trees()
    group = select.args.get("group")
    keys = [] if group is None or any(v for n, v in group.args.items() if n != "expressions") else group.expressions
    parts = [*select.expressions, *(p for n in ("having", "qualify", "order") if (p := select.args.get(n)) is not None)]
    for part in parts:
        for node in list(part.walk(prune=lambda n: isinstance(n, (exp.Query, exp.Window)))):
            # Of several arguments MIN and MAX take more than one value.
            if isinstance(node, (exp.AnyValue, exp.Min, exp.Max)) and node.this in keys and not node.expressions:
                node.replace(node.this.copy())


def _block_of(select: Any, keys: Mapping[Any, str], values: Mapping[Any, str]) -> Any:
    """Return the SELECT of some keys and aggregates, under these names, of the rows that a SELECT reads."""
    exp = trees()
    block = exp.Select(expressions=[exp.alias_(node.copy(), name) for node, name in (*keys.items(), *values.items())])
    for part in ("from_", "from", "joins", "where", "laterals", "sample"):
        value = select.args.get(part)
        if value is not None:
            block.set(part, [one.copy() for one in value] if isinstance(value, list) else value.copy())
    if keys:
        block.set("group", exp.Group(expressions=[key.copy() for key in keys]))
    return block


def _one_value(source: Any, column: str) -> Any:
    """Return a column of a source of one row as a scalar sub-query."""
    exp = trees()
    return exp.Subquery(this=exp.Select(expressions=[exp.column(column)]).from_(source.copy()))


def _join_key_of(join: Any, name: str, key: str, own: frozenset[str]) -> Any:
    """Return the expression that a join compares with the key of the source `name`; None where it compares anything else.

    Without a table, a name that is no column of the block's `own` rows is the source's.
    """
    exp = trees()
    using = join.args.get("using")
    if using:
        return exp.column(using[0].name) if len(using) == 1 and using[0].name.lower() == key.lower() else None
    on = join.args.get("on")
    on = on.unnest() if on is not None else None
    if not isinstance(on, exp.EQ) or not all(isinstance(side, exp.Column) for side in (on.this, on.expression)):
        return None
    theirs = [
        s
        for s in (on.this, on.expression)
        if s.name.lower() == key.lower() and (s.table.lower() == name or (not s.table and key.lower() not in own))
    ]
    return next((s for s in (on.this, on.expression) if s is not theirs[0]), None) if len(theirs) == 1 else None


def _mode(node: Any) -> tuple[Any, Any] | None:
    """Return the operand of MODE, and its FILTER; None for any other aggregate."""
    exp = trees()
    condition = node.expression if isinstance(node, exp.Filter) else None
    inner = node.this if isinstance(node, exp.Filter) else node
    order = inner.expression if isinstance(inner, exp.WithinGroup) else None
    inner = inner.this if isinstance(inner, exp.WithinGroup) else inner
    if not isinstance(inner, exp.Mode):
        return None
    of = inner.this if order is None else order.expressions[0].this
    return None if of is None else (of, condition)


def _members(grouping: Any) -> tuple[Any, ...]:
    """Return the keys of one of GROUPING SETS."""
    exp = trees()
    if isinstance(grouping, exp.Tuple):
        return tuple(grouping.expressions)
    return (grouping.this,) if isinstance(grouping, exp.Paren) else (grouping,)
