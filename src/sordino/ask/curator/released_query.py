"""SQL over one released table: what a SELECT over a release gives, at no cost.

It runs as what surrounds the private questions of a statement does: in a DuckDB instance in which no private table ever was,
by the same list of functions and within the same limits (post-processing; Dwork & Roth 2014, Proposition 2.1).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sordino.ask.curator.statement_procedure import as_parts, local_times, shown_names
from sordino.ask.queries.sql.statement import ANSWER, BLOCK, ROW, VALUE, read_over_answer
from sordino.core.errors import QuestionRefused
from sordino.core.release import Release

if TYPE_CHECKING:
    import pyarrow as pa


def query_release(release: Release, text: str) -> Release:
    """Return the answer of a SELECT over a release, which is the table `answer` in it.

    A column that is a released one as it is keeps its error and interval, where every row is a released row and none was
    left out; others have none. Cost and charge are those of the release: nothing more is charged.

    Raises QuestionRefused for a release without a table, for a text that is not one SELECT over `answer` alone, and where a
    limit of rows, memory or seconds is passed.
    """
    from sordino.ask.engines.outer import check_cells, describe, run

    if not isinstance(text, str):
        raise QuestionRefused(f'query takes SQL, such as "SELECT * FROM {ANSWER}", not a {type(text).__name__}')
    if not release.parts or release.is_search:
        raise QuestionRefused("this release has no table to be queried: it is a search, or its answer is a model")
    table = local_times(release.to_arrow())
    kinds = [_sql_type(kind) for kind in table.schema.types]
    truths = [name for name, kind in zip(release.columns, kinds, strict=True) if kind == "BOOLEAN"]
    statement = read_over_answer(text, columns=release.columns, truths=truths)
    block = f"{BLOCK}0"
    columns = [f"{VALUE}{i}" for i in range(len(kinds))]
    types = {block: [*zip(columns, kinds, strict=True), (ROW, "BIGINT")]}
    described = describe(statement.outside, types)
    check_cells(described)
    usual = [name for name, _ in described]
    if statement.traces:
        usual.pop()
    names = shown_names(statement.whole, {ANSWER: list(zip(release.columns, kinds, strict=True))}, usual)
    rows = table.rename_columns(columns).append_column(ROW, [list(range(table.num_rows))])
    computed = run(statement.outside, {block: rows}, types)
    if computed is None:
        raise QuestionRefused(
            "the SELECT fails on the released values, or passes a limit of rows, memory or 10 seconds"
        )
    traced = {names[trace.place]: release.parts[columns.index(trace.column)] for trace in statement.traces}
    places = computed.column(len(names)).to_pylist() if traced else []
    keys, outputs = as_parts(computed.select(range(len(names))), names, traced, places)
    return replace(
        release,
        question=f"{' '.join(text.split())}, where {ANSWER} is {release.question}",
        keys=keys,
        outputs=outputs,
        layout=tuple(names),
        request=None,
        notes=(*release.notes, f"computed from the answer of charge {release.charge}, at no cost"),
        chosen=(),
    )


def _sql_type(kind: pa.DataType) -> str:
    """Return the type in which DuckDB holds a column of a released table."""
    import pyarrow as pa

    checks = (
        (pa.types.is_boolean, "BOOLEAN"),
        (pa.types.is_integer, "BIGINT"),
        (pa.types.is_floating, "DOUBLE"),
        (pa.types.is_date, "DATE"),
        (pa.types.is_timestamp, "TIMESTAMP"),
    )
    return next((name for holds, name in checks if holds(kind)), "VARCHAR")
