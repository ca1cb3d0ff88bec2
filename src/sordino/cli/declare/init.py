"""`sordino init`: a project file out of a table's schema alone: never a bound, a value or a row of the data."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated

import typer

from sordino.cli.shared.options import Delimiter, Header, Quiet, ends_in, refuse_existing
from sordino.cli.shared.terminal import note

__all__ = ["init"]


def init(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A CSV, Parquet or DuckDB file.")],
    header: Header = None,
    columns: Annotated[
        int | None,
        typer.Option("--columns", metavar="N", help="CSV without names: how many columns it has."),
    ] = None,
    delimiter: Delimiter = None,
    quote: Annotated[
        str | None,
        typer.Option("--quote", metavar="CHAR", help="CSV: what cells may be quoted with, \" or '."),
    ] = None,
    relation: Annotated[
        str | None,
        typer.Option("--relation", metavar="NAME", help="DuckDB: the table in the file."),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The project file.", callback=ends_in(".toml"))
    ] = Path("sordino.toml"),
    force: Annotated[bool, typer.Option("--force", help="Replace a project file that is there.")] = False,
    quiet: Quiet = False,
) -> None:
    """Write a project file from a table's schema alone, with every blank that you must fill in marked.

    No bound, value or row of the data is read into it: those would leak. A CSV file's first line may be a row, so you
    must say whether it holds names.
    """
    from sordino.cli.shared.atomic_file import open_atomic
    from sordino.datasets.file_schema import read_schema
    from sordino.project.schema import FILL_IN
    from sordino.project.template import write_template

    refuse_existing(output, force=force, hint="--force replaces it, -o FILE writes another")
    schema = read_schema(source, header=header, columns=columns, delimiter=delimiter, quote=quote, relation=relation)
    for remark in schema.remarks:
        note(f"note: {remark}")
    table = _table_name(source, schema.relation)
    text = write_template(
        schema.columns, source=_beside(source, output), table=table, csv=schema.csv, relation=schema.relation
    )
    with open_atomic(output) as target:
        target.write(text.encode())
    blanks = sum(line.partition("#")[0].count(f'"{FILL_IN}"') for line in text.splitlines())
    note(
        f"wrote {output}: table {table!r}, {len(schema.columns)} columns, {blanks} blanks marked {FILL_IN}",
        quiet=quiet,
        aside=False,
    )
    note("fill them in from what is public, never from the data; then: sordino check", quiet=quiet, aside=False)


def _beside(source: str, output: Path) -> str:
    """Return the source's path relative to the project file, or as it was given where it is absolute."""
    if os.path.isabs(source):
        return source
    return os.path.relpath(source, output.parent)


def _table_name(source: str, relation: str | None) -> str:
    stem = relation or Path(source).stem
    name = re.sub(r"[^A-Za-z0-9_]+", "_", stem).strip("_") or "people"
    return f"t_{name}" if name[0].isdigit() else name
