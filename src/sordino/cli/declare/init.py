"""`sordino init`: a project file out of a table's schema alone: never a bound, a value or a row of the data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sordino.cli.shared.options import Delimiter, Header, Quiet, ends_in, option, refuse_existing
from sordino.cli.shared.terminal import note

_FILE = "A CSV, JSON lines, Parquet, Arrow, DuckDB or SQLite file, a folder of Parquet, s3://.., postgresql://.. or spark:TABLE."
Source = Annotated[str, typer.Argument(metavar="SOURCE", help=_FILE)]
Columns = Annotated[int | None, option("--columns", "N", "CSV without names: how many columns it has.")]
Quote = Annotated[str | None, option("--quote", "CHAR", "CSV: the character that cells may be quoted with, \" or '.")]
Relation = Annotated[str | None, option("--relation", "NAME", "DuckDB, PostgreSQL: the table.")]
Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="The project file.", callback=ends_in(".toml"))
]


def init(
    source: Source,
    header: Header = None,
    columns: Columns = None,
    delimiter: Delimiter = None,
    quote: Quote = None,
    relation: Relation = None,
    output: Output = Path("sordino.toml"),
    force: Annotated[bool, typer.Option("--force", help="Replace an existing project file.")] = False,
    quiet: Quiet = False,
) -> None:
    """Write a project file from a table's schema alone, and mark every blank that you must fill in.

    It contains no bound, value or row of the data: those would leak. The first line of a CSV file may be a row, so you
    must say whether it holds column names.
    """
    from sordino.ask.project.proposal import propose_project
    from sordino.ask.project.schema import FILL_IN
    from sordino.cli.shared.atomic_file import open_atomic

    refuse_existing(output, force=force, hint="--force replaces it, -o FILE writes another")
    csv: dict[str, Any] = {"header": header, "columns": columns, "delimiter": delimiter, "quote": quote}
    proposal = propose_project(source, **csv, relation=relation, directory=output.parent)
    for remark in proposal.remarks:
        note(f"note: {remark}")
    with open_atomic(output) as target:
        target.write(proposal.text.encode())
    outcome = f"wrote {output}: table {proposal.table!r}, {proposal.columns} columns, {proposal.blanks} blanks marked {FILL_IN}"
    note(outcome, quiet=quiet, aside=False)
    note("fill them in from what is public, never from the data; then: sordino check", quiet=quiet, aside=False)
