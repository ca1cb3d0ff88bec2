"""`sordino caps`: choose privately how many rows of one unit should count. It sees the Release, never the data."""

from __future__ import annotations

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

__all__ = ["caps"]


def caps(
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    table: TableName = None,
    by: Annotated[
        str | None,
        typer.Option("--by", metavar="COLUMN", help="Also cap the keys of this column.", show_default=False),
    ] = None,
    assume_keys: Annotated[
        int | None,
        typer.Option(
            "--assume-keys",
            metavar="N",
            help="With --by: a public guess at the number of keys, where they are not declared.",
            show_default=False,
        ),
    ] = None,
    question_epsilon: Annotated[
        str | None,
        typer.Option(
            "--question-epsilon",
            metavar="E",
            help="The epsilon of one question to come; without it, that of this search.",
            show_default=False,
        ),
    ] = None,
    plot: PictureFile = None,
    confidence: Confidence = 0.95,
    form: Annotated[TextFormat, typer.Option("--format", help="Text or JSON.")] = TextFormat.table,
    project: ProjectPath = None,
    quiet: Quiet = False,
) -> None:
    """Choose max_rows, the rows of one unit that count, privately: what a cap loses against the noise it costs.

    Charged once, before data is touched. Declare the caps in the project file; `sordino ledger amend` puts them on record.
    """
    from sordino.cli.ask.question import check_confidence
    from sordino.cli.ask.render_release import cost_lines
    from sordino.cli.shared.atomic_file import open_atomic
    from sordino.cli.shared.opening import table_at
    from sordino.report.charts import plot as plotted
    from sordino.report.picture import encode_picture

    confidence = check_confidence(confidence)
    with ExitStack() as stack:
        held = table_at(project, table)
        target = (
            None if plot is None else stack.enter_context(open_atomic(plot))
        )  # before the charge: it can be written
        release = held.find_contribution_bounds(
            by=by,
            assume_keys=assume_keys,
            question_epsilon=question_epsilon,
            epsilon=epsilon,
            delta=delta,
            rho=rho,
        )
        if form is TextFormat.json:
            sys.stdout.write(json.dumps(release.to_dict(confidence=confidence), ensure_ascii=False, indent=2) + "\n")
        else:
            for name, value in release.value.items():
                say(f"{name:<10} {value:,}")
        for line in cost_lines(release):
            note(line, quiet=quiet and release.private, aside=form is TextFormat.json)
        if target is not None and plot is not None:
            target.write(encode_picture(plotted(release, confidence=confidence), plot.suffix))
            note(f"wrote {plot}", quiet=quiet)
