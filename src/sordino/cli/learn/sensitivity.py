"""`sordino sensitivity`: how far one person can move an answer, over a small universe of public values. For learning.

It asks nothing of a declared table and charges nothing; values read from a file are marked NOT PRIVATE wherever they show.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from enum import StrEnum
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino.cli.learn.render_sensitivity import Asked, Told, data_of, tell
from sordino.cli.shared.options import PictureFile, TextFormat
from sordino.cli.shared.terminal import in_terminal, say
from sordino.cli.shared.universe_options import Values, span_from, table_from, values_from
from sordino.errors import DeclarationError

if TYPE_CHECKING:
    import pyarrow as pa

    from sordino.report.neighbor_charts import Worlds
    from sordino.report.picture import Picture
    from sordino.sensitivity import Change

__all__ = ["Direction", "Relation", "sensitivity"]

LEAST_DRAWN = 4  # distances in a picture that no --profile asked for


class Relation(StrEnum):
    """How two neighboring tables differ."""

    add_remove = "add_remove"
    swap = "replace"
    both = "both"


class Direction(StrEnum):
    """Which way exactly k records go."""

    add = "add"
    remove = "remove"
    either = "either"


def sensitivity(
    query: Annotated[
        list[str],
        typer.Option(
            "--query",
            metavar="Q",
            help="count, sum, mean, median, var, std, min, max or quantile:0.9; may be repeated.",
            show_default=False,
        ),
    ],
    neighbors: Annotated[
        Relation | None,
        typer.Option(
            "--neighbors",
            help="How neighboring tables differ; must be stated. both is for --profile.",
            show_default=False,
        ),
    ] = None,
    universe: Annotated[
        str | None,
        typer.Option("--universe", metavar="V,V,..", help="The values, one a person.", show_default=False),
    ] = None,
    column: Annotated[
        tuple[str, Path] | None,
        typer.Option(
            "--column",
            metavar="NAME FILE",
            help="Instead: a column of a Parquet file, or of a CSV file with a header line. NOT PRIVATE.",
            show_default=False,
        ),
    ] = None,
    size: Annotated[
        int | None,
        typer.Option("--size", metavar="N", help="Global: any table of N of the values.", show_default=False),
    ] = None,
    local: Annotated[
        str | None,
        typer.Option(
            "--local", metavar="V,V,..", help="Local: this table; first:N is the first N values.", show_default=False
        ),
    ] = None,
    within: Annotated[
        int | None, typer.Option("--within", metavar="K", help="Neighbors at most K moves away.", show_default=False)
    ] = None,
    exactly: Annotated[
        int | None, typer.Option("--exactly", metavar="K", help="Neighbors K moves away.", show_default=False)
    ] = None,
    direction: Annotated[
        Direction | None,
        typer.Option("--direction", help="With --exactly under add_remove: which way.", show_default=False),
    ] = None,
    ddof: Annotated[int, typer.Option("--ddof", metavar="D", help="var and std divide by n - D.")] = 0,
    profile: Annotated[
        str | None,
        typer.Option("--profile", metavar="A:B", help="A table over the distances A to B.", show_default=False),
    ] = None,
    worlds: Annotated[bool, typer.Option("--worlds", help="Show every table, its neighbors, its local value.")] = False,
    plot: PictureFile = None,
    form: Annotated[TextFormat, typer.Option("--format", help="How it is written.")] = TextFormat.table,
) -> None:
    """Learn how far one person can move an answer: global, over every table of a size, or local, for one table.

    The values are public, or NOT PRIVATE when they come from a file. Nothing is charged.
    """
    if neighbors is None:
        raise DeclarationError("state --neighbors add_remove or --neighbors replace: nothing is guessed")
    asked = _asked(query, neighbors, values_from(universe, column), size, local, within, exactly, direction, ddof)
    span = None if profile is None else span_from(profile)
    _consistent(asked, span, worlds=worlds)
    from sordino.cli.shared.atomic_file import open_atomic

    with ExitStack() as stack:
        target = None if plot is None else stack.enter_context(open_atomic(plot))
        told = Told()
        if span is not None:
            told.profile = _profile(asked, span, whole=True)
        else:
            told.changes = _worked([(q, partial(_change, asked, q)) for q in asked.queries])
        if worlds:
            told.worlds = _worked([(f"worlds of the {q}", partial(_worlds, asked, q)) for q in asked.queries])
        if target is not None and plot is not None:
            from sordino.report.picture import encode_picture

            target.write(encode_picture(_picture(asked, told), plot.suffix))
    if form is TextFormat.json:
        say(json.dumps(data_of(asked, told), ensure_ascii=False, indent=2, allow_nan=False))
    else:
        tell(asked, told)


# ---- reading the command line


def _asked(
    queries: Sequence[str],
    neighbors: Relation,
    universe: Values,
    size: int | None,
    local: str | None,
    within: int | None,
    exactly: int | None,
    direction: Direction | None,
    ddof: int,
) -> Asked:
    from sordino.sensitivity.statistics import statistic_from

    for query in queries:
        statistic_from(query, ddof=ddof)
    table = None if local is None else table_from(local, universe)
    if table is not None and size is not None and size != len(table):
        raise DeclarationError(f"--size {size} is not the size of the table of --local, {len(table)}; leave it out")
    rows = size if table is None else len(table)
    if rows is None:
        raise DeclarationError("state --size N, for any table of N values, or --local V,V,.. for one table")
    way = None if direction is None else direction.value
    distinct = tuple(dict.fromkeys(queries))
    return Asked(distinct, neighbors.value, universe, rows, table, within, exactly, way, ddof)


def _consistent(asked: Asked, span: range | None, *, worlds: bool) -> None:
    """Refuse options that say nothing together."""
    if span is not None:
        if asked.within is not None or asked.exactly is not None or worlds:
            raise DeclarationError("--profile takes its distances itself: leave out --within, --exactly and --worlds")
        return
    if asked.neighbors == "both":
        raise DeclarationError("--neighbors both is for --profile; state add_remove or replace")
    if asked.exactly is not None and asked.neighbors == "add_remove" and asked.direction is None:
        raise DeclarationError("--exactly K under add_remove needs --direction add, remove or either")
    if (asked.within is None) == (asked.exactly is None):
        raise DeclarationError("state one distance: --within K (at most K moves) or --exactly K")


# ---- working


def _change(
    asked: Asked,
    query: str,
    *,
    scope: str | None = None,
    relation: str | None = None,
    moves: dict[str, Any] | None = None,
) -> Change:
    """Return the local sensitivity where a table is given (or `scope` says so), else the global one."""
    from sordino import sensitivity as sens

    at = {"within": asked.within, "exactly": asked.exactly, "direction": asked.direction} if moves is None else moves
    how: dict[str, Any] = {"neighbors": relation or asked.neighbors, "ddof": asked.ddof, **at}
    if asked.local is not None and scope != "global":
        return sens.local_sensitivity(query, asked.universe.values, asked.local, **how)
    return sens.global_sensitivity(query, asked.universe.values, size=asked.rows, **how)


def _worlds(asked: Asked, query: str) -> Worlds:
    import numpy as np

    from sordino.report.neighbor_charts import worlds_of
    from sordino.sensitivity.moves import moves_from
    from sordino.sensitivity.statistics import statistic_from

    whole = asked.universe.values
    moves = moves_from(
        neighbors=asked.neighbors,
        within=asked.within,
        exactly=asked.exactly,
        direction=asked.direction,
        size=asked.rows,
        universe_size=len(whole),
    )
    statistic = statistic_from(query, ddof=asked.ddof)
    return worlds_of(
        whole,
        size=asked.rows,
        query=query,
        relation=f"{asked.neighbors}, {moves.words}",
        pairs=moves.pairs,
        answer=lambda table: statistic.of(np.array(table, dtype=np.float64)),
        mark=asked.universe.mark,
    )


def _profile(asked: Asked, distances: Sequence[int], *, whole: bool) -> pa.Table:
    """Return sensitivities against distance in the columns of a profile; null where a distance leads nowhere.

    `whole`: both scopes where a table is given; else the one that is asked for, its moves as the command line says.
    """
    import pyarrow as pa

    relations = ("add_remove", "replace") if asked.neighbors == "both" else (asked.neighbors,)
    scopes = ("global",) if asked.local is None else ("global", "local") if whole else ("local",)
    cells = list(product(asked.queries, scopes, relations, distances))
    refused: list[DeclarationError] = []

    def row(query: str, scope: str, relation: str, k: int) -> dict[str, Any]:
        moves = {"exactly": k, "direction": asked.direction} if asked.exactly is not None else {"within": k}
        here = {"query": query, "distance": k, "scope": scope, "relation": relation}
        try:
            found = _change(asked, query, scope=scope, relation=relation, moves=moves)
        except DeclarationError as error:
            refused.append(error)
            return {**here, "value": None, "exact": None}
        return {**here, "value": found.value, "exact": found.exact}

    rows = _worked([(f"{q}, {scope}, k = {k}", partial(row, q, scope, r, k)) for q, scope, r, k in cells])
    if len(refused) == len(cells):
        raise refused[0]
    kinds = {"query": pa.string(), "distance": pa.int64(), "scope": pa.string(), "relation": pa.string()}
    schema = pa.schema([*kinds.items(), ("value", pa.float64()), ("exact", pa.bool_())])
    mark = asked.universe.mark
    return pa.Table.from_pylist(
        rows, schema.with_metadata(None if mark is None else {"sordino": f"NOT PRIVATE: {mark}"})
    )


def _picture(asked: Asked, told: Told) -> Picture:
    """Return the picture of what is told: the profile, the worlds, or the sensitivity at a few distances."""
    from sordino.report.charts import plot

    if told.profile is not None:
        return plot(told.profile)
    if told.worlds is not None:
        return plot(told.worlds[0])
    most = max(LEAST_DRAWN, asked.within or asked.exactly or 0)
    moves = "" if asked.exactly is None else f", exactly k records{_direction(asked)}"
    return plot(_profile(asked, range(1, most + 1), whole=False), title=f"Sensitivity against distance{moves}")


def _worked(steps: Sequence[tuple[str, Callable[[], Any]]]) -> list[Any]:
    """Do the steps one by one; where a person watches, a bar on standard error says how far it is."""
    if not in_terminal(sys.stderr):
        return [step() for _, step in steps]
    from rich.console import Console
    from rich.progress import Progress, TextColumn, TimeElapsedColumn

    columns = (*Progress.get_default_columns()[1:3], TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=len(steps))
        done = []
        for name, step in steps:
            progress.update(task, description=name)
            done.append(step())
            progress.advance(task)
        return done


def _direction(asked: Asked) -> str:
    return {"add": " added", "remove": " removed", "either": " added or removed"}.get(
        asked.direction or "", " exchanged"
    )
