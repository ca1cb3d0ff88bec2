"""`sordino synth answer`: a model's answer to a question, with its stated error, at no cost. It reads the model's file."""

from __future__ import annotations

from sordino.cli.shared.options import AnswerForm, Confidence, OutputFile, QueryFile, Question, Quiet
from sordino.cli.synth.arguments import ModelFile

__all__ = ["synth_answer"]


def synth_answer(
    model: ModelFile,
    sql: Question = None,
    file: QueryFile = None,
    confidence: Confidence = 0.95,
    form: AnswerForm = None,
    output: OutputFile = None,
    quiet: Quiet = False,
) -> None:
    """Answer a question from a model, with an interval, at no cost: the model is already paid for.

    It answers counts, sums and means over any condition and groups. The table in FROM is the one that was modelled, or `model`.
    """
    import sordino as sd
    from sordino.cli.ask.ask import deliver
    from sordino.cli.ask.question import text_of
    from sordino.cli.ask.render_release import chosen_format
    from sordino.cli.shared.atomic_file import open_if_named

    chosen = chosen_format(form, output)
    answer = sd.synth.load(model).answer(sd.sql(text_of(sql, file)))
    with open_if_named(output) as target:
        deliver([answer], chosen, confidence=confidence, target=target, quiet=quiet)
