"""`sordino synth answer`: what a model says to a question, with its stated error, at no cost. It reads the model's file."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino.cli.shared.options import AnswerFormat, Confidence, OutputFile, QueryFile, Question, Quiet
from sordino.cli.shared.terminal import columns_of, note, paint, plain, say
from sordino.cli.synth.arguments import ModelFile

if TYPE_CHECKING:
    import pyarrow as pa

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
    from sordino.cli.ask.render_release import chosen_format, distinct_names
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
    with ExitStack() as stack:
        if output is not None:
            target = stack.enter_context(open_atomic(output))
            target.write(_encoded(held, answered, form, confidence))
            note(f"wrote {output}", quiet=quiet)
        elif form is AnswerFormat.table:
            for line in _lines(answered, confidence):
                say(line)
        else:
            sys.stdout.write(_encoded(held, answered, form, confidence).decode())
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


def _ends(answered: Answered, confidence: float) -> list[list[tuple[float, float]]]:
    """Return the interval of each row of each output."""
    found = answered.interval(confidence)
    if isinstance(found, tuple):
        return [[found]]
    return [list(found[name]) for name in answered.names]


def _lines(answered: Answered, confidence: float) -> list[str]:
    interval = f"{100 * confidence:g}% interval"
    told = [
        [_told(v, a, b) for v, (a, b) in zip(values, ends, strict=True)]
        for values, ends in zip(answered.values, _ends(answered, confidence), strict=True)
    ]
    if not answered.keys:
        rows = [[n, *cells[0]] for n, cells in zip(answered.names, told, strict=True)]
        body = [[n, v, f" {interval} {ends}"] for n, v, ends in rows]
        return columns_of(["", "", ""], body, right=[False, True, False])[1:]
    head = [*(n for n, _ in answered.keys), *(t for name in answered.names for t in (name, interval))]
    body = [
        [*(_label(labels[i]) for _, labels in answered.keys), *(cell for cells in told for cell in cells[i])]
        for i in range(len(answered.values[0]))
    ]
    lines = columns_of(head, body, right=[False] * len(answered.keys) + [True] * (2 * len(told)))
    lines[0] = paint(lines[0], "bold")
    return lines


def _told(value: float, low: float, high: float) -> tuple[str, str]:
    """Return a value and its interval to two figures of the error; the ends go outward."""
    error = max(high - value, value - low if math.isfinite(low) else 0.0, 1e-12)
    places = max(0, min(12, 1 - math.floor(math.log10(error))))
    step = 10.0**places

    def end(number: float, to: Any) -> str:
        return f"{number:,}" if not math.isfinite(number) else f"{to(number * step) / step + 0.0:,.{places}f}"

    return f"{round(value, places) + 0.0:,.{places}f}", f"{end(low, math.floor)} - {end(high, math.ceil)}"


def _label(label: Any) -> str:
    return "(missing)" if label is None else plain(str(label))


def _encoded(model: Model, answered: Answered, form: AnswerFormat, confidence: float) -> bytes:
    if form is AnswerFormat.json:
        return (json.dumps(_data(model, answered, confidence), ensure_ascii=False, indent=2) + "\n").encode()
    if form is AnswerFormat.table:
        return ("\n".join(_lines(answered, confidence)) + "\n").encode()
    table = _table(answered, confidence)
    if form is AnswerFormat.csv:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(table.column_names)
        writer.writerows(zip(*(c.to_pylist() for c in table.columns), strict=True))
        return text.getvalue().encode()
    import pyarrow.parquet as pq

    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def _table(answered: Answered, confidence: float) -> pa.Table:
    """Return keys and, for each output, NAME, NAME_lower and NAME_upper."""
    import pyarrow as pa

    columns: dict[str, Any] = {n: pa.array(list(v)) for n, v in answered.keys}
    for name, values, ends in zip(answered.names, answered.values, _ends(answered, confidence), strict=True):
        columns[name] = pa.array(list(values))
        columns[f"{name}_lower"] = pa.array([a for a, _ in ends])
        columns[f"{name}_upper"] = pa.array([b for _, b in ends])
    return pa.table(columns)


def _data(model: Model, answered: Answered, confidence: float) -> dict[str, Any]:
    height = len(answered.values[0])
    ends = _ends(answered, confidence)
    return {
        "schema": 1,
        "from": "a model, not the table",
        "private": model.facts.get("private") == "true",
        "question": answered.question,
        "kind": answered.kind,
        "confidence": confidence,
        "paid": model.facts.get("loss"),
        "charge": model.facts.get("charge"),
        "rows": [
            {
                **{n: labels[i] for n, labels in answered.keys},
                **{n: values[i] for n, values in zip(answered.names, answered.values, strict=True)},
            }
            for i in range(height)
        ],
        "intervals": [
            {
                n: [v if math.isfinite(v) else None for v in pairs[i]]
                for n, pairs in zip(answered.names, ends, strict=True)
            }
            for i in range(height)
        ],
    }
