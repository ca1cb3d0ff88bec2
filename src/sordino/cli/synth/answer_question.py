"""`sordino synth answer`: what a model says to a question, with its stated error, at no cost. It reads the model's file."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino.cli.shared.options import AnswerFormat, Confidence, OutputFile, QueryFile, Question, Quiet
from sordino.cli.shared.terminal import note, say
from sordino.cli.synth.arguments import ModelFile

if TYPE_CHECKING:
    from sordino.synth.answers import Answered
    from sordino.synth.model import Model

__all__ = ["KIND_WORDS", "synth_answer"]

KIND_WORDS = {
    "one": "one column",
    "measured": "columns that were measured together",
    "unmeasured": "two columns that were not measured together",
    "many": "three columns or more",
}


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
    from sordino.cli.ask.question import check_confidence, text_of
    from sordino.cli.ask.render_release import chosen_format, distinct_names, encode_data, table_lines
    from sordino.cli.shared.atomic_file import open_atomic
    from sordino.cli.synth.arguments import model_at, question_of

    form = chosen_format(form, output)
    confidence = check_confidence(confidence)
    held = model_at(model)
    question = question_of(held, text_of(sql, file))
    if question.after is not None:
        question.after.check([*(g.alias for g in question.groups), *(a.alias for a in question.aggregates)])
    if form in (AnswerFormat.csv, AnswerFormat.parquet):
        distinct_names([g.alias for g in question.groups], [a.alias for a in question.aggregates])
    answered = _after(held.answer(replace(question, after=None)), question.after)
    facts = {"private": held.facts.get("private") == "true", "paid": held.facts.get("loss")}
    data = answered.to_dict(confidence=confidence) | facts | {"charge": held.facts.get("charge")}
    lines = table_lines(answered, confidence=confidence)
    if form is AnswerFormat.table:
        encoded = ("\n".join(lines) + "\n").encode()
    else:
        encoded = encode_data(answered, data, form, confidence=confidence)
    with ExitStack() as stack:
        if output is not None:
            stack.enter_context(open_atomic(output)).write(encoded)
            note(f"wrote {output}", quiet=quiet)
        elif form is AnswerFormat.table:
            for line in lines:
                say(line)
        else:
            sys.stdout.write(encoded.decode())
    aside = output is not None or form is not AnswerFormat.table
    sealed = held.facts.get("private") != "true"
    for line in _beside(model, held, answered):
        note(line, quiet=quiet and not sealed, aside=aside)


def _after(answered: Answered, after: Any) -> Answered:
    """Return the rows that HAVING, ORDER BY and LIMIT leave of an answer; it is noisy, so that is free."""
    if after is None:
        return answered
    from sordino.queries.post_processing import select_rows

    named = dict((*answered.keys, *zip(answered.names, answered.values, strict=True)))
    places = select_rows(after, named)
    return replace(
        answered,
        keys=tuple((n, tuple(v[i] for i in places)) for n, v in answered.keys),
        values=tuple(tuple(v[i] for i in places) for v in answered.values),
        deviations=tuple(tuple(v[i] for i in places) for v in answered.deviations),
    )


def _beside(path: Path, model: Model, answered: Answered) -> list[str]:
    seal = [] if model.facts.get("private") == "true" else ["NOT PRIVATE: the model's noise was seeded"]
    kind = KIND_WORDS.get(answered.kind, answered.kind)
    return [
        *seal,
        f"from the model {path}, not from the table: free, the model was paid for ({model.facts.get('loss', '')})",
        f"intervals hold on average over questions of this kind: {kind}",
        *(f"note: {n}" for n in answered.notes),
    ]
