"""SQL over one released table: what a SELECT over a release gives, at no cost.

It runs as what surrounds the private questions of a statement does: in a DuckDB instance in which no private table ever was,
by the same list of functions and within the same limits (post-processing; Dwork & Roth 2014, Proposition 2.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sordino.ask.curator.statement_procedure import (
    add_replicates,
    as_chosen,
    as_parts,
    local_times,
    shown_names,
    trace_noise,
)
from sordino.ask.queries.sql.block_splitter import ANSWER
from sordino.ask.queries.sql.outside_select import BLOCK, ROW, VALUE
from sordino.ask.queries.sql.statement import read_over_answer
from sordino.core.accounting.events import (
    BoundedRangeEvent,
    Composed,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    GaussianEvent,
    LaplaceEvent,
)
from sordino.core.errors import QuestionRefused
from sordino.core.estimates.replicates import BlockAnswer, ReleasedStatement
from sordino.core.estimates.selected import Selected
from sordino.core.loss import Event
from sordino.core.release import Key, Release

if TYPE_CHECKING:
    import pyarrow as pa

# What answers a question whose keys are public; of any other event, a selection of keys may be a part.
_NOISES = (BoundedRangeEvent, DiscreteGaussianEvent, DiscreteLaplaceEvent, GaussianEvent, LaplaceEvent)


def query_release(release: Release, text: str) -> Release:
    """Return the answer of a SELECT over a release, which is the table `answer` in it.

    A column that is a released one as it is keeps its error and interval, where every row is a released row and none was
    left out. Others have intervals by replicates of the noise, as those of a statement, or say why they have none. Cost and
    charge are those of the release: nothing more is charged.

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
    columns = [f"{VALUE}{i}" for i in range(len(kinds))]
    block = _as_block(release, [*zip(columns, kinds, strict=True)], table.num_rows)
    types = {block.name: [(name, kind) for name, kind, _ in block.columns]}
    described = describe(statement.outside, types)
    check_cells(described)
    usual = [name for name, _ in described]
    if statement.traces:
        usual.pop()
    names = shown_names(statement.whole, {ANSWER: list(zip(release.columns, kinds, strict=True))}, usual)
    rows = table.rename_columns(columns).append_column(ROW, [list(range(table.num_rows))])
    replicated = ReleasedStatement(statement.outside, (block,), (), ())
    noises, identity = trace_noise(replicated, names, traced=bool(statement.traces))
    computed = run(identity, {block.name: rows}, types)
    if computed is None:
        raise QuestionRefused(
            "the SELECT fails on the released values, or passes a limit of rows, memory or 10 seconds"
        )
    replicated = replace(replicated, identity=tuple(map(str, computed.column(computed.num_columns - 1).to_pylist())))
    traced = {
        names[trace.place]: as_chosen(release.parts[columns.index(trace.column)], trace) for trace in statement.traces
    }
    places = computed.column(len(names)).to_pylist() if traced else []
    keys, outputs = as_parts(computed.select(range(len(names))), names, traced, places)
    if release.statement is None:
        outputs = tuple(o if o.name in traced else add_replicates(o, names, noises, replicated) for o in outputs)
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


def _as_block(release: Release, types: Sequence[tuple[str, str]], height: int) -> BlockAnswer:
    """Return a release as the answer of a private question, under names of these types, with the number of each row."""
    cells = [tuple(part.labels) if isinstance(part, Key) else part.estimate for part in release.parts]
    columns = [(name, kind, cell) for (name, kind), cell in zip(types, cells, strict=True)]
    return BlockAnswer(f"{BLOCK}0", (*columns, (ROW, "BIGINT", tuple(range(height)))), _say_selection(release))


def _say_selection(release: Release) -> str:
    """Return in words how noisy values may have chosen the rows of a release; empty where they did not."""
    if any(isinstance(output.estimate, Selected) for output in release.outputs):
        return "it combines rows that noisy values selected"
    if any(not isinstance(event, _NOISES) for event in _single_events(release.event)):
        return "it combines rows of private keys, which noisy counts selected"
    return ""


def _single_events(event: Event) -> list[Event]:
    if isinstance(event, Composed):
        return [one for part in event.events for one in _single_events(part)]
    return [event]


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
