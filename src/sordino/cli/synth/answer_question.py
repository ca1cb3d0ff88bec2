"""`sordino synth answer`: a model's answer to a question, with its stated error, at no cost. It reads the model's file."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated

import typer

from sordino.cli.shared.options import AnswerFormat, Confidence, OutputFile, QueryFile, Question, Quiet
from sordino.cli.synth.arguments import ModelFile

__all__ = ["synth_answer"]


def synth_answer(
    model: ModelFile,
    sql: Question = None,
    file: QueryFile = None,
    confidence: Confidence = 0.95,
    form: Annotated[
        AnswerFormat | None,
        typer.Option("--format", help="Without it: as the ending of FILE says, else a table.", show_default=False),
    ] = None,
    output: OutputFile = None,
    quiet: Quiet = False,
) -> None:
    """Answer a question from a model, with an interval: free, as the model was paid for.

    Counts, sums and means, over any condition and groups. The table in FROM is the one that was modelled, or `model`.
    """
    import sordino as sd
    from sordino.cli.ask.ask import deliver
    from sordino.cli.ask.question import text_of
    from sordino.cli.ask.render_release import chosen_format
    from sordino.cli.shared.atomic_file import open_atomic
    from sordino.cli.synth.arguments import model_at

    form = chosen_format(form, output)
    answer = model_at(model).answer(sd.sql(text_of(sql, file)))
    with ExitStack() as stack:
        target = None if output is None else stack.enter_context(open_atomic(output))
        deliver(answer, form, confidence=confidence, target=target, quiet=quiet)
