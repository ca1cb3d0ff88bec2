"""`sordino show`: a past release as it was, at no cost. It reads the ledger, never the data."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated

import typer

from sordino.cli.shared.options import AnswerFormat, BudgetName, ChargeId, Confidence, OutputFile, ProjectPath, Quiet

__all__ = ["show"]


def show(
    charge: ChargeId,
    form: Annotated[
        AnswerFormat | None,
        typer.Option("--format", help="Without it: as the ending of FILE says, else a table.", show_default=False),
    ] = None,
    output: OutputFile = None,
    confidence: Confidence = 0.95,
    budget: BudgetName = None,
    project: ProjectPath = None,
    quiet: Quiet = False,
) -> None:
    """Show a past release as it was. Costs nothing, and the data need not be there."""
    from sordino.cli.ask.ask import deliver
    from sordino.cli.ask.question import check_confidence
    from sordino.cli.ask.render_release import chosen_format
    from sordino.cli.shared.atomic_file import open_atomic
    from sordino.cli.shared.opening import load_release, project_at

    form = chosen_format(form, output)
    confidence = check_confidence(confidence)
    release = load_release(project_at(project), charge, budget=budget)
    with ExitStack() as stack:
        target = stack.enter_context(open_atomic(output)) if output is not None else None
        deliver(release, form, confidence=confidence, target=target, quiet=quiet)
