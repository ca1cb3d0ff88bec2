"""A statement around private questions: SQL of any shape, split into private blocks and what is computed from their answers.

A SELECT that aggregates a private table is a *private block*: it alone is planned, charged and answered, as one question of
keys and aggregates. All around it - windows, second aggregates, joins of released tables, formulas, ORDER BY - is
post-processing of released values (Dwork & Roth 2014, Proposition 2.1), so it costs nothing and runs as it is written. This
file knows trees alone: which blocks there are follows from the text and never from an answer.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from sordino.ask.queries.expressions.sql_trees import from_of, trees, with_of, write_duckdb
from sordino.ask.queries.sql.block_splitter import (
    ANSWER,
    BlockReader,
    BlockSplitter,
    Determines,
    ReleasedQuery,
)
from sordino.ask.queries.sql.dialects import apply_dialect, count_united, join_unit_values
from sordino.ask.queries.sql.literal_tables import write_series
from sordino.ask.queries.sql.outside_select import (
    BLOCK,
    VALUE,
    Trace,
    trace_columns,
    write_outside,
)
from sordino.ask.queries.sql.statement_forms import DeclaredLists, add_up_pairs, open_pivot, rewrite_forms
from sordino.ask.queries.sql.text import dialect_of, is_same_table, known_dialect
from sordino.ask.queries.sql.time_functions import put_moment
from sordino.ask.queries.sql.whole_division import ColumnKinds, cut_quotients
from sordino.core.errors import QuestionRefused
from sordino.core.lazy import load_feature


@dataclass(frozen=True, slots=True)
class Statement:
    """The private blocks of a statement, in DuckDB's SQL, and the SELECT over `sordino_block_0`, ... that surrounds them.

    `whole` is the statement in DuckDB's SQL before it was split: columns without AS are named after it.
    """

    whole: str
    blocks: tuple[str, ...]
    outside: str
    traces: tuple[Trace, ...] = ()
    constants: tuple[ReleasedQuery, ...] = ()
    # Public tables that are read outside of the blocks.
    public: tuple[str, ...] = ()
    # Whether rows of answers are aggregated once more.
    combines: bool = False
    # What DuckDB calls the items of SELECT as they are written; empty where the text is not DuckDB's.
    names: tuple[str | None, ...] = ()
    # How the blocks share the loss, where hints in the text say so.
    weights: tuple[Fraction, ...] = ()


def read_statement(
    text: str,
    *,
    table: str,
    columns: Iterable[str],
    truths: Iterable[str] = (),
    others: Mapping[str, Iterable[str]] | None = None,
    public: Mapping[str, Sequence[str]] = MappingProxyType({}),
    determines: Determines = lambda *_: False,
    declared: DeclaredLists = MappingProxyType({}),
    unit: str | None = None,
    units: Collection[str] = (),
    reader: BlockReader,
    dialect: str | None = None,
    moment: datetime.datetime | None = None,
    kinds: ColumnKinds = MappingProxyType({}),
) -> Statement:
    """Split a statement about a private table into its blocks, each of which `reader` takes.

    `others` are the columns of other private tables, which blocks may be about too. Of the declared columns, `truths` are
    those that hold true and false, `unit` the one of the privacy unit and `units` those of all tables; `public` are the public
    tables with their columns, of which `determines` says whether some determine another in all rows, `declared` the values of
    columns that declare them, `moment` is what NOW() stands for, and `kinds` are the columns that are whole numbers and days.

    Raises QuestionRefused where a part is neither a private question nor computed from answers.
    """
    query = _parse_query(text, dialect)
    splitter = BlockSplitter({table: columns, **(others or {})}, reader, text)
    splitter.truths |= {name.lower() for name in truths}
    if "/*+" in text:
        splitter.read_weights(query)
    splitter.public = {name.lower(): name for name in public}
    splitter.declared = frozenset(declared)
    splitter.unit = (unit or "").lower()
    splitter.units = frozenset(name.lower() for name in units)
    splitter.determines = determines
    splitter.public_columns = {name.lower(): {c.lower() for c in of} for name, of in public.items()}
    try:
        _drop_schemas(query, [table, *(others or {}), *public])
        query = cut_quotients(query, kinds)
        whole = write_duckdb(query)
        query = put_moment(rewrite_forms(query, declared), moment)
        write_series(query)
        if unit is not None:
            add_up_pairs(query, unit)
        for select in list(query.find_all(trees().Select)) if units else []:
            count_united(select)
            join_unit_values(select, units)
        outside = splitter.split(query)
        splitter.check_outside(outside)
        if not splitter.blocks and not splitter.read_public:
            raise QuestionRefused("the statement asks nothing of a private table")
        splitter.check_conditions(outside)
        traces = trace_columns(outside)
        return Statement(
            whole=whole,
            blocks=tuple(splitter.blocks),
            outside=write_outside(outside),
            traces=traces,
            constants=tuple(splitter.constants),
            public=tuple(splitter.read_public),
            combines=outside.find(trees().AggFunc) is not None,
            weights=tuple(splitter.weights[block] for block in splitter.blocks) if splitter.is_weighted else (),
            names=load_feature("item_names")(text) or () if (dialect or dialect_of(text)) == "duckdb" else (),
        )
    except RecursionError:
        raise QuestionRefused("the statement is nested too deeply, or unites too many others") from None


def _drop_schemas(query: Any, declared: Collection[str]) -> None:
    """Name declared tables without a schema, "public"."people" as people: DuckDB, which types the blocks, has none here."""
    exp = trees()
    names = [name.rpartition(".")[2].lower() for name in declared]
    for node in query.find_all(exp.Table, exp.Column):
        parts = node.parts if isinstance(node, exp.Table) else node.parts[:-1]
        written = ".".join(part.name for part in parts)
        # Of two tables of one name in two schemas, which is meant stays written.
        if (
            len(parts) > 1
            and names.count(parts[-1].name.lower()) == 1
            and any(is_same_table(written, d) for d in declared)
        ):
            node.set("db", None)
            node.set("catalog", None)


def read_over_answer(text: str, *, columns: Sequence[str], truths: Iterable[str] = ()) -> Statement:
    """Read a SELECT over one released table that is named `answer`, with these columns.

    In the outside it is block 0, whose columns are VALUE0, VALUE1, ... in this order, and ROW.

    Raises QuestionRefused for what is not computed from that table alone.
    """
    exp = trees()
    query = _parse_query(text, None)
    if "/*+" in text:
        raise QuestionRefused("hints go with private questions: a SELECT over a released table has none")
    splitter = BlockSplitter({}, _NoBlocks(), text)
    splitter.blocks = [ANSWER]
    splitter.truths |= {name.lower() for name in truths}
    clause = with_of(query)
    ctes = [] if clause is None else list(clause.expressions)
    if any(cte.alias.lower() == ANSWER for cte in ctes):
        raise QuestionRefused(f"WITH may not define {ANSWER!r}: it is the released table")
    try:
        whole = write_duckdb(query)
        _expand_stars(query, columns)
        named = [
            exp.alias_(exp.column(f"{VALUE}{i}"), exp.to_identifier(name, quoted=True))
            for i, name in enumerate(columns)
        ]
        answer = exp.CTE(
            this=exp.Select(expressions=named).from_(f"{BLOCK}0"),
            alias=exp.TableAlias(this=exp.to_identifier(ANSWER)),
        )
        splitter.define([answer, *ctes])
        # Checked before it is one: recursion would be lost with the clause.
        splitter.check_outside(query)
        part = "with_" if "with_" in exp.Select.arg_types else "with"
        query.set(part, exp.With(expressions=[answer, *ctes]))
        splitter.check_outside(query)
        splitter.check_conditions(query)
        traces = trace_columns(query)
        return Statement(whole=whole, blocks=(), outside=write_outside(query), traces=traces)
    except RecursionError:
        raise QuestionRefused("the statement is nested too deeply, or unites too many others") from None


class _NoBlocks:
    """Reads a statement over answers, which has no private blocks."""

    def accept(self, text: str) -> None:
        del text
        raise QuestionRefused("a SELECT over a released table asks no private question")

    def declare(self, query: ReleasedQuery, blocks: list[str]) -> None:
        del query, blocks
        raise QuestionRefused("a SELECT over a released table asks no private question")


def _expand_stars(query: Any, columns: Sequence[str]) -> None:
    """Replace a star that stands for the released table alone by its columns."""
    exp = trees()
    for select in query.find_all(exp.Select):
        start = from_of(select)
        source = None if start is None else start.this
        if not isinstance(source, exp.Table) or source.name.lower() != ANSWER or select.args.get("joins"):
            continue
        if source.alias_column_names or source.args.get("pivots"):
            continue
        items: list[Any] = []
        for item in select.expressions:
            star = item.this if isinstance(item, exp.Column) else item
            plain = isinstance(star, exp.Star) and not any(star.args.values())
            items += [exp.column(name, quoted=True) for name in columns] if plain else [item]
        select.set("expressions", items)


def _parse_query(text: str, dialect: str | None) -> Any:
    """Return the tree of the one SELECT that a text is; raises QuestionRefused for any other."""
    import sqlglot
    from sqlglot.errors import SqlglotError

    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise QuestionRefused("the text holds half of a character, which no engine reads")
    spoken = dialect_of(text) if dialect is None else known_dialect(dialect)
    try:
        parsed = sqlglot.parse(open_pivot(text), read=spoken)
    except (SqlglotError, RecursionError):
        parsed = []
    if len(parsed) != 1 or not isinstance(parsed[0], trees().Query):
        raise QuestionRefused("the text is not one SELECT")
    # Words mean what they mean in their dialect, around a private question as in one.
    return parsed[0] if spoken == "duckdb" else apply_dialect(parsed[0], spoken)


def surrounds_questions(text: str, *, units: Iterable[str] = (), dialect: str | None = None) -> bool:
    """Return whether a text has parts that only a statement around private questions has; then that refusal applies.

    Such are windows, unions, PIVOT, ROLLUP, and sub-queries other than of one value of each person, by a column of `units`.
    """
    exp = trees()
    try:
        query = _parse_query(text, dialect)
    except QuestionRefused:
        return False
    if not isinstance(query, exp.Select):
        return True
    parts = (exp.Window, exp.Qualify, exp.Rollup, exp.Cube, exp.GroupingSets, exp.Grouping, exp.GroupingId, exp.Pivot)
    if query.find(*parts, exp.SetOperation, exp.All, exp.Any, exp.Values, exp.GenerateSeries) is not None:
        return True
    # Alone, MODE is one question.
    if query.find(exp.Mode) is not None and (query.args.get("group") is not None or len(query.expressions) > 1):
        return True
    for inner in query.find_all(exp.Select):
        if inner is query:
            continue
        if from_of(inner) is None:
            return True
        holder = inner.parent.parent if isinstance(inner.parent, exp.Subquery) else inner.parent
        group = inner.args.get("group")
        keys = [] if group is None else group.expressions
        names = {key.name.lower() for key in keys if isinstance(key, exp.Column)}
        of_units = len(keys) == 1 and names <= {name.lower() for name in units} and bool(names)
        grouped = group is not None or any(item.find(exp.AggFunc) is not None for item in inner.expressions)
        if not isinstance(holder, (exp.From, exp.Join, exp.CTE, exp.With, exp.In, exp.Exists)):
            return True
        if grouped and not of_units:
            return True
    return False


def tables_of(text: str, *, dialect: str | None = None) -> list[str]:
    """Return the names of the tables that a text reads, without those of its own WITH; empty where it cannot be read."""
    import sqlglot
    from sqlglot.errors import SqlglotError

    exp = trees()
    try:
        parsed = sqlglot.parse(open_pivot(text), read=dialect_of(text) if dialect is None else dialect)
    except (SqlglotError, RecursionError, ValueError):
        return []
    own = {cte.alias.lower() for tree in parsed if tree for cte in tree.find_all(exp.CTE)}
    names = [".".join(p.name for p in t.parts) for tree in parsed if tree for t in tree.find_all(exp.Table)]
    return list(dict.fromkeys(name for name in names if name.lower() not in own))
