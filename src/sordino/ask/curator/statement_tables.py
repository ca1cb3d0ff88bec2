"""Questions that are tables of one cube as one tabulation: those of a batch, and the groupings of CUBE, ROLLUP and GROUPING SETS.

The groupings of a statement are asked as one question, so that their totals agree, and what surrounds them reads its answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from sordino.ask.curator.plan import TableContext
from sordino.ask.curator.statement_procedure import StatementQuestion
from sordino.ask.queries.aggregation import Aggregation, Grouping
from sordino.ask.queries.expressions.nodes import describe
from sordino.ask.queries.expressions.sql_trees import trees, write_duckdb
from sordino.ask.queries.query import Aggregate
from sordino.ask.queries.sql.block_splitter import GROUPINGS
from sordino.ask.queries.sql.outside_select import BLOCK, KEY, ROW
from sordino.ask.queries.tabulation import Tabulation, check_tabulation, compile_tabulation
from sordino.core.errors import QuestionRefused, SordinoError
from sordino.core.estimates.table_cells import BY_COLUMNS, name_table


def join_questions(questions: Sequence[Any]) -> Tabulation | None:
    """Return the tabulation that questions are the tables of; None where they are not about the same rows of one table.

    Each has the same condition, no join, sample or list of keys, and counts or sums alone; what is done to answers afterwards,
    such as ORDER BY, can be done to tables too.
    """
    if len(questions) < 2:
        return None
    keys: dict[Any, Grouping] = {}
    measures: dict[Any, Aggregate] = {}
    tables: dict[frozenset[str], tuple[str, ...]] = {}
    for question in questions:
        if not isinstance(question, Aggregation) or question.where != getattr(questions[0], "where", None):
            return None
        # The same question without what a tabulation has no words for.
        rest = replace(question, after=None, layout=(), dialect="duckdb")
        if rest != Aggregation(question.where, question.groups, question.aggregates):
            return None
        for group in question.groups:
            # The blocks of a statement have names of their own for the columns of the text.
            name = describe(group.of) if group.alias.startswith(KEY) else group.alias
            keys.setdefault(group.of, Grouping(name, group.of))
        for aggregate in question.aggregates:
            measures.setdefault(unnamed(aggregate), replace(cast(Any, aggregate), alias=aggregate.describe()))
        names = tuple(keys[group.of].alias for group in question.groups)
        tables.setdefault(frozenset(names), names)
    if len(tables) < 2 or not measures:
        return None
    try:
        return check_tabulation(
            Tabulation(tuple(tables.values()), tuple(keys.values()), tuple(measures.values()), where=questions[0].where)
        )
    except QuestionRefused:
        return None


def unnamed(aggregate: Aggregate) -> Any:
    """Return an aggregate without its name, to compare what it computes."""
    return replace(cast(Any, aggregate), alias="")


def name_groups(groups: Sequence[Grouping], tabulation: Tabulation) -> tuple[str, ...]:
    """Return the names that a tabulation has for the group-by columns of a question."""
    names = {key.of: key.alias for key in tabulation.keys}
    return tuple(names[group.of] for group in groups)


def join_groupings(question: StatementQuestion, table: TableContext) -> StatementQuestion:
    """Return a statement whose groupings are one tabulation, or the statement as it is where they are none.

    They are where all private questions of the statement are groupings of the same rows by declared keys, with the same
    counts and sums. Bounds on the groups of a unit are of one grouping, and stay with questions of their own.
    """
    statement = question.statement
    own = question.weights or statement.weights or statement.constants or statement.traces or any(question.tables)
    unit = table.neighbors.unit
    if GROUPINGS not in statement.outside or own or (unit is not None and unit.max_groups is not None):
        return question
    tabulation = join_questions(question.blocks)
    if tabulation is None:
        return question
    blocks = [cast(Aggregation, block) for block in question.blocks]
    if any({unnamed(a) for a in block.aggregates} != set(map(unnamed, tabulation.measures)) for block in blocks):
        return question
    try:
        compile_tabulation(tabulation, table.domain)
    # Keys that are not public, means, too many cells: these are asked one by one.
    except SordinoError:
        return question
    columns = tuple(_find_columns(block, tabulation) for block in blocks)
    names = [name_table(tabulation.tables[_place_of(block, tabulation)]) for block in blocks]
    return replace(
        question,
        blocks=(tabulation,),
        tables=(None,),
        statement=replace(statement, outside=_read_tables(statement.outside, names, columns)),
        columns=columns,
    )


def _place_of(block: Aggregation, tabulation: Tabulation) -> int:
    names = frozenset(name_groups(block.groups, tabulation))
    return next(place for place, table in enumerate(tabulation.tables) if frozenset(table) == names)


def _find_columns(block: Aggregation, tabulation: Tabulation) -> tuple[tuple[str, str], ...]:
    """Return each column of a block's answer with the name of the tabulation's column that it is."""
    keys = zip((group.alias for group in block.groups), name_groups(block.groups, tabulation), strict=True)
    measures = {unnamed(measure): measure.alias for measure in tabulation.measures}
    return (*keys, *((aggregate.alias, measures[unnamed(aggregate)]) for aggregate in block.aggregates))


def _read_tables(outside: str, names: Sequence[str], columns: Sequence[Sequence[tuple[str, str]]]) -> str:
    """Return the SQL around the blocks with each of them read from the rows of its table in the tabulation's answer."""
    import sqlglot

    exp = trees()
    tree = sqlglot.parse_one(outside, read="duckdb")
    places = {f"{BLOCK}{place}": place for place in range(len(names))}
    for node in [node for node in tree.find_all(exp.Table) if node.name in places]:
        place = places[node.name]
        items = [exp.alias_(exp.column(own, quoted=True), name) for name, own in columns[place]]
        rows = exp.Select(expressions=[*items, exp.column(ROW)]).from_(exp.to_table(f"{BLOCK}0"))
        of_table = exp.EQ(this=exp.column(BY_COLUMNS), expression=exp.Literal.string(names[place]))
        alias = exp.TableAlias(this=exp.to_identifier(node.alias_or_name))
        node.replace(exp.Subquery(this=rows.where(of_table), alias=alias))
    return write_duckdb(tree)
