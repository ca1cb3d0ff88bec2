"""`sordino init`: a project file out of a table's schema alone: never a bound, a value or a row of the data."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from sordino.cli.shared.options import Delimiter, Header, Quiet, ends_in, option, refuse_existing
from sordino.cli.shared.terminal import note
from sordino.core.errors import DeclarationError

_FILE = "A CSV, JSON lines, Parquet, Arrow, DuckDB or SQLite file, a folder of Parquet, s3://.., postgresql://.. or spark:TABLE."
Source = Annotated[str, typer.Argument(metavar="SOURCE", help=_FILE)]
Columns = Annotated[int | None, option("--columns", "N", "CSV without names: how many columns it has.")]
Quote = Annotated[str | None, option("--quote", "CHAR", "CSV: the character that cells may be quoted with, \" or '.")]
Relation = Annotated[str | None, option("--relation", "NAME", "DuckDB, PostgreSQL: the table.")]
Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="The project file.", callback=ends_in(".toml"))
]

_CODEBOOK = "A public data dictionary (CSV, Excel) or metadata of CSV on the Web, whose values and bounds are declared."
Codebook = Annotated[Path | None, option("--codebook", "FILE", _CODEBOOK)]
Adult = Annotated[
    bool, typer.Option("--adult", help="SOURCE is the Adult extract of textbooks, whose declaration is known.")
]


def init(
    source: Source,
    header: Header = None,
    columns: Columns = None,
    delimiter: Delimiter = None,
    quote: Quote = None,
    relation: Relation = None,
    codebook: Codebook = None,
    adult: Adult = False,
    output: Output = Path("sordino.toml"),
    force: Annotated[bool, typer.Option("--force", help="Replace an existing project file.")] = False,
    quiet: Quiet = False,
) -> None:
    """Write a project file from a table's schema alone, and mark every blank that you must fill in.

    It contains no bound, value or row of the data: those would leak; what a --codebook says is public. The first line of a
    CSV file may be a row, so you must say whether it holds column names.
    """
    from sordino.ask.project.proposal import propose_project, read_codebook
    from sordino.ask.project.schema import FILL_IN
    from sordino.cli.shared.atomic_file import open_atomic

    refuse_existing(output, force=force, hint="--force replaces it, -o FILE writes another")
    if adult:
        if any(given is not None for given in (header, columns, delimiter, quote, relation, codebook)):
            raise DeclarationError("--adult states how its file is written: leave out all other options of the source")
        _write_adult(source, output, quiet=quiet)
        return
    known = {} if codebook is None else read_codebook(codebook)
    csv: dict[str, Any] = {"header": header, "columns": columns, "delimiter": delimiter, "quote": quote}
    proposal = propose_project(source, **csv, relation=relation, codebook=known, directory=output.parent)
    for remark in proposal.remarks:
        note(f"note: {remark}")
    with open_atomic(output) as target:
        target.write(proposal.text.encode())
    outcome = f"wrote {output}: table {proposal.table!r}, {proposal.columns} columns, {proposal.blanks} blanks marked {FILL_IN}"
    note(outcome, quiet=quiet, aside=False)
    note("fill them in from what is public, never from the data; then: sordino check", quiet=quiet, aside=False)


def _write_adult(source: str, output: Path, *, quiet: bool) -> None:
    """Write the project of the Adult extract: one row a person, a small cap, and the declaration of its description."""
    from sordino import datasets
    from sordino.ask.project.proposal import draft_of, write_template
    from sordino.ask.project.schema import FILL_IN
    from sordino.cli.shared.atomic_file import open_atomic
    from sordino.core.source import Csv

    if not Path(source).is_file():
        raise DeclarationError(f"{source} is missing: docs/adult.md says where it is, and that the file has no header")
    domain = datasets.adult_domain()
    text = write_template(
        [(name, None) for name in domain],
        source=os.path.relpath(source, output.parent),
        table="adult",
        csv=Csv(header=False, names=datasets.adult_columns(), null_values=("?",)),
        drafts={name: draft_of(domain[name]) for name in domain},
    )
    filled = {
        f'cap = {{epsilon = "{FILL_IN}"}}': "cap = {epsilon = 1.0}",
        f'neighbors = "{FILL_IN}"': 'neighbors = "add_remove"',
        f'privacy_unit = "{FILL_IN}"': 'privacy_unit = "row"',
    }
    for blank, value in filled.items():
        text = text.replace(blank, value)
    # unknown cells of the extract are a group of their own, as its description has them
    text = re.sub(r'(type = "category".*)}$', r'\1, missing = "keep"}', text, flags=re.MULTILINE)
    with open_atomic(output) as target:
        target.write(text.encode())
    note(f"wrote {output}: table 'adult', {len(domain)} columns, a cap of epsilon 1", quiet=quiet, aside=False)
    note(
        "next: sordino check, then sordino ask 'SELECT sex, COUNT(*) FROM adult GROUP BY sex' --epsilon 0.1",
        quiet=quiet,
        aside=False,
    )
