"""`sordino synth show`, `sample` and `answer`: what a model file says, at no cost. They never read the data."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from sordino.cli.shared import options as given
from sordino.cli.shared.terminal import note, paint, say, wrap
from sordino.cli.synth.arguments import ModelFile
from sordino.core.errors import DeclarationError
from sordino.core.text_table import columns_of

# Rows that are in memory at a time.
_CHUNK = 1_000_000


def synth_show(
    model: ModelFile,
    confidence: given.Confidence = 0.95,
    form: given.TextForm = given.TextFormat.table,
    plot: given.PictureFile = None,
) -> None:
    """Show how a model was made and what it cost, its columns, its cliques and its stated errors; --plot draws the columns."""
    from sordino import synth
    from sordino.cli.shared.atomic_file import open_picture

    loaded = synth.load(model)
    with open_picture(plot, confidence=confidence) as draw:
        draw(loaded)
    data = loaded.to_dict(confidence=confidence)
    if form is given.TextFormat.json:
        say(json.dumps(data, ensure_ascii=False, indent=2))
        return
    for line in _lines(data):
        say(line)


def _lines(data: dict[str, Any]) -> list[str]:
    from sordino.core.estimates.model_estimate import KIND_WORDS

    seal = "" if data["private"] else "NOT PRIVATE (its noise was seeded): "
    lines = [
        *wrap("model", f"{seal}{data['tier']} of {len(data['columns'])} columns and about {data['rows']:,} rows"),
        *wrap("made of", f"table {data['table']}, by {data['method']}"),
        *wrap("cost", f"{data['cost']}; charge {data['charge']}"),
        *wrap("protects", data["protects"] or ""),
        *(wrap("note", data["note"]) if data["note"] else []),
        *wrap("cliques", "; ".join(" x ".join(c) for c in data["cliques"])),
        *wrap("cells", f"{data['cells']:,}"),
        *(line for constraint in data["constraints"] for line in wrap("always", constraint)),
    ]
    columns = [
        [c["name"], c["type"], f"{c['keys']:,}", f"{c['codes']:,}", "a value" if c["missing"] else ""]
        for c in data["columns"]
    ]
    errors = [[KIND_WORDS[k], f"{v:,.0f}"] for k, v in data["errors"].items()]
    head = ["column", "type", "declared keys", "codes", "missing"]
    for table in (
        columns_of(head, columns, right=[False, False, True, True, False]),
        columns_of(["a count over", f"{100 * data['confidence']:g}% error"], errors, right=[False, True]),
    ):
        lines += ["", paint(table[0], "bold"), *table[1:]]
    return lines


Rows = Annotated[int | None, given.option("--rows", "N", "Default: as many as the model estimates.")]
Condition = Annotated[str | None, given.option("--where", "CONDITION", "Draw only rows that satisfy this condition.")]
Independent = Annotated[
    bool,
    typer.Option("--independent", help="Draw each row by itself, so that counts vary as in a random sample."),
]
Seed = Annotated[
    int | None,
    given.option("--seed", "N", "Draw the same rows each time. Safe: the privacy noise is already in the model."),
]


def synth_sample(
    model: ModelFile,
    rows: Rows = None,
    where: Condition = None,
    independent: Independent = False,
    seed: Seed = None,
    output: given.OutputFile = None,
    quiet: given.Quiet = False,
) -> None:
    """Draw any number of synthetic rows from a model, at no cost. Columns are as declared.

    Counts over the rows are close to what the model expects, much closer than those of independent rows: a chi-square test, a
    bootstrap or a standard error computed from repeated draws comes out far too small. --independent draws each row by itself.

    FILE ends in .csv or .parquet; without one, CSV goes to standard output. A missing value is an empty cell.
    """
    from sordino import synth
    from sordino.ask.engines.readers.table_file import check_ending, csv_lines, write_tables
    from sordino.cli.shared.atomic_file import open_atomic
    from sordino.core.noise.rng import Rng

    if output is not None:
        check_ending(output)
    if rows is not None and not 0 <= rows <= 10**9:
        raise DeclarationError("--rows must be a whole number from 0 to 10^9")
    source = synth.load(model)
    condition = None if where is None else synth.parse_condition(where, source.columns)
    rng = Rng.secure() if seed is None else Rng.seeded(seed)
    count = source.rows if rows is None else rows
    # One table at least, so that a file of no rows has its header.
    starts = range(0, max(count, 1), _CHUNK)
    tables = (
        source.sample(min(_CHUNK, count - start), where=condition, rng=rng, independent=independent) for start in starts
    )
    if output is None:
        for text in csv_lines(tables):
            sys.stdout.write(text)
        sys.stdout.flush()
    else:
        with open_atomic(output) as target:
            write_tables(target.path, tables, ending=output.suffix)
            target.commit()
        note(f"wrote {output}", quiet=quiet)
    seal = "" if source.private else "NOT PRIVATE (the model's noise was seeded): "
    cost = source.facts.get("loss", "")
    words = f"{seal}{count:,} synthetic rows from {model}: free, the model was paid for ({cost})"
    note(words, quiet=quiet and source.private)


def synth_answer(
    model: ModelFile,
    sql: given.Question = None,
    file: given.QueryFile = None,
    confidence: given.Confidence = 0.95,
    form: given.AnswerForm = None,
    output: given.OutputFile = None,
    plot: given.PictureFile = None,
    quiet: given.Quiet = False,
) -> None:
    """Answer a question from a model, with an interval, at no cost: the model is already paid for.

    It answers counts, sums and means over any condition and groups. The table in FROM is the one that was modelled, or `model`.
    """
    import sordino as sd
    from sordino.cli.ask.ask import deliver
    from sordino.cli.ask.question import text_of
    from sordino.cli.ask.render_release import chosen_format
    from sordino.cli.shared.atomic_file import open_if_named, open_picture

    answer_format = chosen_format(form, output)
    answer = sd.synth.load(model).answer(sd.sql(text_of(sql, file)))
    with open_if_named(output) as target, open_picture(plot, confidence=confidence, quiet=quiet) as draw:
        deliver([answer], answer_format, confidence=confidence, target=target, quiet=quiet)
        draw(answer)
