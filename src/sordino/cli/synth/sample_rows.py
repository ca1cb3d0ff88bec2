"""`sordino synth sample`: rows drawn from a model, at no cost. It reads the model's file, nothing else."""

from __future__ import annotations

import sys
from typing import Annotated

from sordino.cli.shared.options import OutputFile, Quiet, option
from sordino.cli.shared.terminal import note
from sordino.cli.synth.arguments import ModelFile
from sordino.errors import DeclarationError

__all__ = ["synth_sample"]

_CHUNK = 1_000_000  # rows that are in memory at a time


def synth_sample(
    model: ModelFile,
    rows: Annotated[int | None, option("--rows", "N", "Default: as many as the model estimates.")] = None,
    where: Annotated[str | None, option("--where", "CONDITION", "Draw only rows that satisfy this condition.")] = None,
    seed: Annotated[
        int | None,
        option("--seed", "N", "Draw the same rows each time. Safe: the privacy noise is already in the model."),
    ] = None,
    output: OutputFile = None,
    quiet: Quiet = False,
) -> None:
    """Draw any number of synthetic rows from a model, at no cost. Columns are as declared.

    FILE ends in .csv or .parquet; without one, CSV goes to standard output. A missing value is an empty cell.
    """
    from sordino import synth
    from sordino.cli.shared.atomic_file import open_atomic
    from sordino.datasets.table_file import check_ending, csv_lines, write_tables
    from sordino.noise.rng import Rng

    if output is not None:
        check_ending(output)
    if rows is not None and not 0 <= rows <= 10**9:
        raise DeclarationError("--rows must be a whole number from 0 to 10^9")
    source = synth.load(model)
    condition = None if where is None else synth.parse_condition(where, source.columns)
    rng = Rng.secure() if seed is None else Rng.seeded(seed)
    count = source.rows if rows is None else rows
    starts = range(0, max(count, 1), _CHUNK)  # one table at least
    tables = (source.sample(min(_CHUNK, count - start), where=condition, rng=rng) for start in starts)
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
