"""`sordino synth sample`: rows drawn from a model, at no cost. It reads the model's file, nothing else."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino.cli.shared.options import OutputFile, Quiet
from sordino.cli.shared.terminal import note
from sordino.cli.synth.arguments import ModelFile
from sordino.errors import DeclarationError

if TYPE_CHECKING:
    import pyarrow as pa

    from sordino.noise.rng import Rng
    from sordino.queries.expressions.expr import Expr
    from sordino.synth.model import Model

__all__ = ["synth_sample"]

_CHUNK = 1_000_000  # rows that are in memory at a time
_ENDINGS = (".csv", ".parquet", ".pq")


def synth_sample(
    model: ModelFile,
    rows: Annotated[
        int | None,
        typer.Option("--rows", metavar="N", help="Without it: as many as the model estimates.", show_default=False),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option("--where", metavar="CONDITION", help="Draw rows that meet it alone.", show_default=False),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed",
            metavar="N",
            help="The same rows each time. Safe: the privacy noise is in the model already.",
            show_default=False,
        ),
    ] = None,
    output: OutputFile = None,
    quiet: Quiet = False,
) -> None:
    """Draw synthetic rows from a model: any number, free, columns as declared.

    FILE ends in .csv or .parquet; without one, CSV goes to standard output. A missing value is an empty cell.
    """
    from sordino.cli.shared.atomic_file import open_atomic
    from sordino.cli.synth.arguments import model_at
    from sordino.noise.rng import Rng
    from sordino.synth import parse_condition

    if output is not None and output.suffix.lower() not in _ENDINGS:
        raise DeclarationError(f"{output} must end in .csv or .parquet")
    if rows is not None and not 0 <= rows <= 10**9:
        raise DeclarationError("--rows must be a whole number from 0 to 10^9")
    held = model_at(model)
    condition = None if where is None else parse_condition(where, held.columns)
    rng = Rng.secure() if seed is None else Rng.seeded(seed)
    count = held.rows if rows is None else rows
    with ExitStack() as stack:
        target = None if output is None else stack.enter_context(open_atomic(output))
        tables = _drawn(held, count, condition, rng)
        if target is None:
            for text in _csv(tables):
                sys.stdout.write(text)
            sys.stdout.flush()
        elif output is not None:
            _write(target.path, tables, parquet=output.suffix.lower() != ".csv")
            target.commit()
            note(f"wrote {output}", quiet=quiet)
    seal = "" if held.facts.get("private") == "true" else "NOT PRIVATE (the model's noise was seeded): "
    words = f"{seal}{count:,} synthetic rows from {model}: free, the model was paid for ({held.facts.get('loss', '')})"
    note(words, quiet=quiet and not seal)


def _drawn(model: Model, rows: int, where: Expr | None, rng: Rng) -> Iterator[pa.Table]:
    """Yield the rows in tables that fit in memory; one table at least."""
    for start in range(0, max(rows, 1), _CHUNK):
        yield model.sample(min(_CHUNK, rows - start), where=where, rng=rng)


def _write(path: Path, tables: Iterator[pa.Table], *, parquet: bool) -> None:
    if not parquet:
        with path.open("w", encoding="utf-8", newline="") as file:
            file.writelines(_csv(tables))
        return
    import pyarrow.parquet as pq

    first = next(tables)
    with pq.ParquetWriter(path, first.schema) as writer:
        writer.write_table(first)
        for table in tables:
            writer.write_table(table)


def _csv(tables: Iterator[pa.Table]) -> Iterator[str]:
    """Yield the lines of a CSV file, a table at a time."""
    import pyarrow as pa
    from pyarrow import csv as arrow

    for i, table in enumerate(tables):
        style = "needed" if _odd(table) else "none"  # `needed` puts every text in quotes, and Sordino reads none
        if i == 0:
            head = io.StringIO()
            csv.writer(head, lineterminator="\n").writerow(table.column_names)
            yield head.getvalue()
        sink: Any = pa.BufferOutputStream()
        arrow.write_csv(table, sink, arrow.WriteOptions(include_header=False, quoting_style=style))
        yield sink.getvalue().to_pybytes().decode()


def _odd(table: pa.Table) -> bool:
    """Return whether a text of a table has a character that a CSV cell needs quotes for, or is empty."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = [c for c in table.columns if pa.types.is_string(c.type)]
    labels = {v for c in texts for v in pc.unique(c).to_pylist() if v is not None}
    return any(not v or any(mark in v for mark in ',"\r\n') for v in labels)
