"""`sordino bounds`: find clipping bounds of a column privately. It sees the Release, never the data."""

from __future__ import annotations

import enum
import json
import sys
from contextlib import ExitStack
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
    TableName,
    TextFormat,
)
from sordino.cli.shared.terminal import note, say
from sordino.errors import ChargedError

__all__ = ["bounds"]


class Search(enum.StrEnum):
    """The ways to search."""

    histogram = "histogram"
    ladder = "ladder"
    sparse_vector = "sparse_vector"
    quantile = "quantile"


def bounds(
    column: Annotated[str, typer.Argument(metavar="COLUMN", help="A declared column of numbers.", show_default=False)],
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    table: TableName = None,
    method: Annotated[
        Search, typer.Option("--method", help="How to search; `histogram` is the best on most data.")
    ] = Search.histogram,
    ladder: Annotated[
        str | None,
        typer.Option(
            "--ladder",
            metavar="B1,B2,...",
            help="For --method ladder: ascending upper bounds, each a clipped sum of its own.",
            show_default=False,
        ),
    ] = None,
    plot: PictureFile = None,
    confidence: Confidence = 0.95,
    form: Annotated[TextFormat, typer.Option("--format", help="Text or JSON.")] = TextFormat.table,
    project: ProjectPath = None,
    quiet: Quiet = False,
) -> None:
    """Find bounds of a column, privately: beyond them lie so few rows that noise hides them.

    Nothing else is required: no bound is read from the data without paying for it. Charged once, before data is touched.
    Exit 5 where nothing was found: the charge stands, and there are no bounds to use.
    """
    from sordino.cli.ask.question import check_confidence
    from sordino.cli.ask.render_release import cost_lines
    from sordino.cli.shared.atomic_file import open_atomic
    from sordino.cli.shared.opening import table_at
    from sordino.report.charts import plot as plotted
    from sordino.report.picture import encode_picture

    confidence = check_confidence(confidence)
    cuts = None if ladder is None else [b.strip() for b in ladder.split(",")]
    with ExitStack() as stack:
        held = table_at(project, table)
        target = (
            None if plot is None else stack.enter_context(open_atomic(plot))
        )  # before the charge: it can be written
        release = held.find_bounds(column, method=method.value, ladder=cuts, epsilon=epsilon, delta=delta, rho=rho)
        if form is TextFormat.json:
            sys.stdout.write(json.dumps(release.to_dict(confidence=confidence), ensure_ascii=False, indent=2) + "\n")
        else:
            for name in ("lower", "upper") if release.found else ():
                say(f"{name}  {getattr(release, name):,}")
        for line in cost_lines(release):
            note(line, quiet=quiet and release.private, aside=form is TextFormat.json)
        if target is not None and plot is not None:
            target.write(encode_picture(plotted(release, confidence=confidence), plot.suffix))
            note(f"wrote {plot}", quiet=quiet)
    if not release.found:
        raise ChargedError(release.notes[0], charge=release.charge)
