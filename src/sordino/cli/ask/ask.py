"""`sordino ask`: charge a question once and print its private answer. It sees the Release, never the data."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from sordino.cli.shared.options import (
    AnswerForm,
    AnswerFormat,
    AssumeRows,
    Confidence,
    Delta,
    Dialect,
    Epsilon,
    OutputFile,
    ProjectPath,
    QueryFile,
    Question,
    Quiet,
    Rho,
    option,
)
from sordino.cli.shared.terminal import in_terminal, note, paint, say

if TYPE_CHECKING:
    from sordino.cli.shared.atomic_file import AtomicFile
    from sordino.release import Release

__all__ = ["ask", "deliver"]

_SCREEN = 40  # rows shown in a terminal; pipes and files get all


def ask(
    sql: Question = None,
    file: QueryFile = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    assume_rows: AssumeRows = None,
    dialect: Dialect = None,
    confidence: Confidence = 0.95,
    form: AnswerForm = None,
    output: OutputFile = None,
    request_id: Annotated[
        str | None,
        option(
            "--request-id",
            "ID",
            "Make the command safe to repeat: the same ID is charged once and returns the same answer.",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Ask a made-up table of the declared shape instead: nothing is charged or read."
        ),
    ] = False,
    project: ProjectPath = None,
    quiet: Quiet = False,
) -> None:
    """Ask a question: charged to the budget first, then answered with noise.

    A refused question (exit 2, 3) is never charged, nor is one that the budget does not cover (4). Exit 5 means that
    the charge stands without an answer: do not repeat such a command blindly.
    """
    from sordino.cli.ask.question import plan_question, text_of
    from sordino.cli.ask.render_release import chosen_format, distinct_names
    from sordino.cli.shared.atomic_file import after_charge, open_if_named

    chosen = chosen_format(form, output)
    text = text_of(sql, file)
    curator, plan = plan_question(
        text, project, epsilon=epsilon, delta=delta, rho=rho, assume_rows=assume_rows, dialect=dialect
    )
    if chosen in (AnswerFormat.csv, AnswerFormat.parquet):
        keys = len(plan.groups)
        distinct_names(plan.names[:keys], plan.names[keys:])
    with open_if_named(output) as target:
        if plan.earlier and request_id is None and not dry_run:
            last = plan.earlier[-1]
            note(f"note: this was answered before as {last}; `sordino show {last}` shows it at no cost", quiet=quiet)
        release = curator.ask(plan, request_id=request_id, on="dummy" if dry_run else "data")
        rule = f"the question was answered and charged ({release.charge}), but the answer cannot be written"
        with after_charge(release.charge, lambda: f"{rule}; `sordino show {release.charge}` shows it at no cost"):
            deliver(release, chosen, confidence=confidence, target=target, quiet=quiet)


def deliver(release: Release, form: AnswerFormat, *, confidence: float, target: AtomicFile | None, quiet: bool) -> None:
    """Print a release, or write it to its file; what it cost goes beside it unless `quiet`."""
    from sordino.cli.ask.render_release import cost_lines, encode_release
    from sordino.reporting.release_text import table_lines

    if target is not None:
        target.write(encode_release(release, form, confidence=confidence))
        note(f"wrote {target.target}", quiet=quiet)
    elif form is AnswerFormat.table:
        lines = table_lines(release, confidence=confidence, most=_SCREEN if in_terminal() else None)
        for i, line in enumerate(lines):
            say(paint(line, "bold") if i == 0 and release.keys else line)
    else:
        sys.stdout.write(encode_release(release, form, confidence=confidence).decode())
    aside = target is not None or form is not AnswerFormat.table
    for line in cost_lines(release):
        note(line, quiet=quiet and release.private, aside=aside)
    sys.stdout.flush()
