"""`sordino sensitivity`: how far one person can move an answer, over a small universe of public values. For learning.

It asks nothing of a declared table and charges nothing; values read from a file are marked NOT PRIVATE wherever they show.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from sordino.cli.learn.render_sensitivity import Findings, Request, describe_findings, print_findings
from sordino.cli.shared.option_rules import goes_with, not_with
from sordino.cli.shared.options import PictureFile, TextForm, TextFormat, option
from sordino.cli.shared.terminal import in_terminal, paint, say
from sordino.cli.shared.universe_options import span_from, table_from, values_from
from sordino.core.errors import DeclarationError
from sordino.core.text_table import plain

if TYPE_CHECKING:
    import pyarrow as pa

    from sordino.core.loss import Number
    from sordino.reporting.picture import Picture
    from sordino.sensitivity import Change, Neighborhoods

T = TypeVar("T")

# Distances in a picture that no --profile asked for.
LEAST_DRAWN = 4


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


Queries = Annotated[
    list[str], option("--query", "Q", "count, sum, mean, median, var, std, min, max or quantile:0.9; may be repeated.")
]
Neighbors = Annotated[
    Relation | None,
    typer.Option(
        "--neighbors",
        help="How neighboring tables differ; must be stated. `both` goes with --profile.",
        show_default=False,
    ),
]
Universe = Annotated[
    list[str] | None,
    option("--universe", "V,V,..", "The values, one per person; NAME=V,V,.. for each of several columns."),
]
Column = Annotated[
    tuple[str, Path] | None,
    option(
        "--column",
        "NAME FILE",
        "Instead: a column of a Parquet file, or of a CSV file with a header line. NOT PRIVATE.",
    ),
]
Size = Annotated[int | None, option("--size", "N", "Global: any table of N of the values."), not_with("--local")]
LocalTable = Annotated[str | None, option("--local", "V,V,..", "Local: this table; first:N is the first N values.")]
Within = Annotated[int | None, option("--within", "K", "Neighbors at most K moves away."), not_with("--profile")]
Exactly = Annotated[int | None, option("--exactly", "K", "Neighbors exactly K moves away."), not_with("--profile")]
Way = Annotated[
    Direction | None,
    typer.Option(
        "--direction",
        help="With --exactly or --profile under add_remove: the direction of the K moves.",
        show_default=False,
    ),
]
Ddof = Annotated[int, option("--ddof", "D", "var and std divide by n - D."), goes_with("--query", "var", "std")]
Profile = Annotated[str | None, option("--profile", "A:B", "Print a table over the distances A to B.")]
Worlds = Annotated[
    bool,
    typer.Option("--worlds", help="Show every table, its neighbors and its local sensitivity."),
    not_with("--profile"),
]


def sensitivity(
    query: Queries,
    neighbors: Neighbors = None,
    universe: Universe = None,
    column: Column = None,
    size: Size = None,
    local: LocalTable = None,
    within: Within = None,
    exactly: Exactly = None,
    direction: Way = None,
    ddof: Ddof = 0,
    profile: Profile = None,
    worlds: Worlds = False,
    plot: PictureFile = None,
    form: TextForm = TextFormat.table,
) -> None:
    """Learn how far one person can move an answer: global, over every table of a size, or local, for one table.

    The values must be public; if they come from a file, the result is NOT PRIVATE. Nothing is charged.
    """
    if neighbors is None:
        raise DeclarationError("state --neighbors add_remove or --neighbors replace: nothing is guessed")
    way = None if direction is None else direction.value
    words = tuple(dict.fromkeys(query))
    requests: dict[str | None, Request] = {}
    for name, values in values_from(universe, column).items():
        table = None if local is None else table_from(local, values)
        rows = _rows(size, table)
        requests[name] = Request(words, neighbors.value, values, rows, table, within, exactly, way, ddof)
    span = None if profile is None else span_from(profile)
    _check(next(iter(requests.values())), span)
    from sordino.cli.shared.atomic_file import open_atomic

    with ExitStack() as stack:
        target = None if plot is None else stack.enter_context(open_atomic(plot))
        findings = {name: _find(request, span, worlds=worlds) for name, request in requests.items()}
        if target is not None and plot is not None:
            from sordino.reporting.picture import encode_picture

            target.write(encode_picture(_draw(requests, findings), plot.suffix))
    if form is TextFormat.json:
        parts = {name: describe_findings(request, findings[name]) for name, request in requests.items()}
        data = parts.get(None, {"schema": 1, "columns": parts})
        # A third is a fraction: the nearest decimal stands for it.
        say(json.dumps(data, ensure_ascii=False, indent=2, allow_nan=False, default=float))
        return
    for name, request in requests.items():
        if name is not None:
            say(paint(plain(f"column {name}"), "bold"))
        print_findings(request, findings[name])


def _rows(size: int | None, table: Sequence[Number] | None) -> int:
    rows = size if table is None else len(table)
    if rows is None:
        raise DeclarationError("state --size N, for any table of N values, or --local V,V,.. for one table")
    return rows


def _check(request: Request, span: range | None) -> None:
    """Refuse unknown queries, and options that say nothing together."""
    from sordino.lab.sensitivity.statistics import statistic_from

    for query in request.queries:
        statistic_from(query, ddof=request.ddof)
    if span is not None:
        return
    if request.neighbors == "both":
        raise DeclarationError("--neighbors both is for --profile; state add_remove or replace")
    if request.exactly is not None and request.neighbors == "add_remove" and request.direction is None:
        raise DeclarationError("--exactly K under add_remove needs --direction add, remove or either")
    if (request.within is None) == (request.exactly is None):
        raise DeclarationError("state one distance: --within K (at most K moves) or --exactly K")


def _find(request: Request, span: range | None, *, worlds: bool) -> Findings:
    """Ask the laboratory for all that the options state."""
    if span is not None:
        scopes = ("global",) if request.local is None else ("global", "local")
        return Findings(profile=_profile(request, scopes, span))
    scope = "global" if request.local is None else "local"
    how = {"within": request.within, "exactly": request.exactly, "direction": request.direction}
    changes = [_change(request, query, scope, request.neighbors, **how) for query in _track(request.queries, str)]
    if not worlds:
        return Findings(changes=changes)
    listed = [_list(request, query, **how) for query in _track(request.queries, lambda q: f"worlds of the {q}")]
    return Findings(changes=changes, worlds=listed)


def _change(request: Request, query: str, scope: str, relation: str, **distance: Any) -> Change:
    from sordino import sensitivity as sens

    values = request.universe.values
    how = {"neighbors": relation, "ddof": request.ddof, **distance}
    if scope == "global" or request.local is None:
        return sens.global_sensitivity(query, values, size=request.rows, **how)
    return sens.local_sensitivity(query, values, request.local, **how)


def _list(request: Request, query: str, **distance: Any) -> Neighborhoods:
    from sordino.sensitivity import list_neighborhoods

    how = {"neighbors": request.neighbors, "ddof": request.ddof, **distance}
    neighborhoods = list_neighborhoods(query, request.universe.values, size=request.rows, **how)
    return replace(neighborhoods, mark=request.universe.mark)


def _profile(request: Request, scopes: Sequence[str], distances: Sequence[int]) -> pa.Table:
    """Return sensitivities against distance; null where a distance leads nowhere, refused where all do."""
    from sordino.lab.sensitivity.profile import tabulate

    relations = ("add_remove", "replace") if request.neighbors == "both" else (request.neighbors,)
    cells = list(product(request.queries, scopes, relations, distances))
    refused: list[DeclarationError] = []

    def change(query: str, scope: str, relation: str, k: int) -> Change | None:
        # Replacing has no direction: in a table of both relations it stays within k.
        both = (request.neighbors, relation) == ("both", "replace")
        exact = request.exactly is not None or (request.direction is not None and not both)
        how = {"exactly": k, "direction": request.direction} if exact else {"within": k}
        try:
            return _change(request, query, scope, relation, **how)
        except DeclarationError as error:
            refused.append(error)
            return None

    profile = tabulate(_track(cells, lambda cell: f"{cell[0]}, {cell[1]}, k = {cell[3]}"), change)
    if len(refused) == len(cells):
        raise refused[0]
    mark = request.universe.mark
    return profile if mark is None else profile.replace_schema_metadata({"sordino": f"NOT PRIVATE: {mark}"})


def _draw(requests: dict[str | None, Request], findings: dict[str | None, Findings]) -> Picture:
    """Return the picture of what was found: the profile, the worlds, or the sensitivity at a few distances."""
    from sordino.lab.sensitivity.profile import join_columns
    from sordino.reporting.charts import plot

    request = next(iter(requests.values()))
    first = next(iter(findings.values()))
    if first.profile is not None:
        return plot(join_columns({name: each.profile for name, each in findings.items()}))
    if first.worlds and len(findings) == 1:
        return plot(first.worlds[0])
    most = max(LEAST_DRAWN, request.within or request.exactly or 0)
    scope = "global" if request.local is None else "local"
    verb = {"add": "added", "remove": "removed", "either": "added or removed", None: "exchanged"}[request.direction]
    moves = "" if request.exactly is None else f", exactly k records {verb}"
    title = f"Sensitivity against distance{moves}"
    steps = range(1, most + 1)
    return plot(join_columns({name: _profile(each, (scope,), steps) for name, each in requests.items()}), title=title)


def _track(items: Sequence[T], describe: Callable[[T], str]) -> Iterator[T]:
    """Yield items one by one; where a person watches, a bar on standard error says how far it is."""
    if not in_terminal(sys.stderr):
        yield from items
        return
    from rich.console import Console
    from rich.progress import Progress, TextColumn, TimeElapsedColumn

    columns = (*Progress.get_default_columns()[1:3], TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=len(items))
        for item in items:
            progress.update(task, description=describe(item))
            yield item
            progress.advance(task)
