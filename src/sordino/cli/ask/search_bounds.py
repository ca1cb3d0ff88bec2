"""`sordino bounds`: find clipping bounds of a column privately. It sees the Release, never the data."""

from __future__ import annotations

import enum
from typing import Annotated

import typer

from sordino.cli.shared.options import (
    Confidence,
    Delta,
    Epsilon,
    PictureFile,
    ProjectPath,
    Quiet,
    Rho,
    Spender,
    TableName,
    TextForm,
    TextFormat,
    option,
)
from sordino.errors import ChargedError

__all__ = ["bounds"]


class Search(enum.StrEnum):
    """The ways to search."""

    histogram = "histogram"
    ladder = "ladder"
    sparse_vector = "sparse_vector"
    quantile = "quantile"


def bounds(
    column: Annotated[str, typer.Argument(metavar="COLUMN", help="A declared column of numbers.")],
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    table: TableName = None,
    method: Annotated[
        Search, typer.Option("--method", help="`histogram` or `quantile`; for teaching, `ladder` or `sparse_vector`.")
    ] = Search.histogram,
    ladder: Annotated[
        str | None,
        option("--ladder", "B1,B2,...", "For --method ladder: ascending upper bounds, each a clipped sum of its own."),
    ] = None,
    plot: PictureFile = None,
    confidence: Confidence = 0.95,
    form: TextForm = TextFormat.table,
    spender: Spender = None,
    project: ProjectPath = None,
    quiet: Quiet = False,
) -> None:
    """Find clipping bounds of a column privately: noise hides the few rows beyond them.

    Nothing else is required. The search is charged once, before data is touched. Exit 5 means that nothing was found: the
    charge stands, and there are no bounds to use.
    """
    from sordino.cli.ask.search import deliver_search
    from sordino.cli.shared.opening import table_at

    curator = table_at(project, table, spender=spender)
    cuts = None if ladder is None else [b.strip() for b in ladder.split(",")]
    release = deliver_search(
        lambda: curator.find_bounds(column, method=method.value, ladder=cuts, epsilon=epsilon, delta=delta, rho=rho),
        plot=plot,
        form=form,
        confidence=confidence,
        quiet=quiet,
    )
    if not release.found:
        raise ChargedError(release.notes[0], charge=release.charge)
