"""`sordino import`: a file as people have it to typed Parquet, with a recipe, for the curator's eyes. Nothing is charged."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit, urlunsplit

import typer

from sordino.cli.shared.options import Delimiter, Force, Header, Quiet, ends_in, option, refuse_existing
from sordino.cli.shared.terminal import in_terminal, note
from sordino.core.errors import DeclarationError, arg

if TYPE_CHECKING:
    from sordino.ask.engines.readers.import_file import CellRules, ImportedColumn, ImportRecord
    from sordino.ask.engines.readers.text_tables import Layout

_FILE = "How the file is laid out"
_CELLS = "How its cells are written"
_SOURCE = (
    "CSV, Excel, OpenDocument, SPSS, SAS, Stata, JSON, fixed width, .zip, SQLite, postgresql://..; a folder or a quoted "
    "pattern of CSV files; or the recipe of an import."
)
Source = Annotated[str, typer.Argument(metavar="SOURCE", help=_SOURCE)]
Target = Annotated[
    Path | None, typer.Argument(metavar="FILE.parquet", help="The file to write.", callback=ends_in(".parquet"))
]
HeaderRows = Annotated[
    int, option("--header-rows", "N", "Rows at the top that hold names; merged cells reach right.", panel=_FILE)
]
Names = Annotated[str | None, option("--names", "A,B,C", "Names of all columns, instead of the header's.", panel=_FILE)]
Quote = Annotated[
    str | None, option("--quote", "CHAR", 'The character that cells may be quoted with; "" for none.', panel=_FILE)
]
Encoding = Annotated[
    str | None, option("--encoding", "NAME", "The encoding, such as utf-8, latin-1 or cp1252.", panel=_FILE)
]
Widths = Annotated[
    str | None, option("--widths", "N,N,..", "Fixed width: how many characters each column has.", panel=_FILE)
]
SkipFirst = Annotated[
    int, option("--skip-first", "N", "Rows above the header that are none of the table.", panel=_FILE)
]
SkipLast = Annotated[
    int, option("--skip-last", "N", "Rows at the end that are none of it, such as a total.", panel=_FILE)
]
Sheet = Annotated[str | None, option("--sheet", "NAME", "Excel, OpenDocument: the sheet; else the first.", panel=_FILE)]
Relation = Annotated[str | None, option("--relation", "NAME", "SQLite, PostgreSQL: the table.", panel=_FILE)]
Member = Annotated[str | None, option("--member", "NAME", "Zip: which of its files.", panel=_FILE)]
FileColumn = Annotated[
    str | None,
    option("--file-column", "NAME", "Many files: a column of this name says which file a row is from.", panel=_FILE),
]
_EACH = " For all columns, or COLUMN=... for one."
Null = Annotated[
    list[str] | None,
    option("--null", "TEXT", "A text that means missing, beside empty cells." + _EACH, panel=_CELLS),
]
Decimal = Annotated[
    list[str] | None, option("--decimal", "MARK", "The decimal mark: . or a comma." + _EACH, panel=_CELLS)
]
Thousands = Annotated[list[str] | None, option("--thousands", "MARK", "The mark of thousands." + _EACH, panel=_CELLS)]
Date = Annotated[list[str] | None, option("--date", "FORMAT", "How days are written: %d.%m.%Y." + _EACH, panel=_CELLS)]
TrueWord = Annotated[
    list[str] | None, option("--true", "WORD", "A word that means true, with --false." + _EACH, panel=_CELLS)
]
FalseWord = Annotated[list[str] | None, option("--false", "WORD", "A word that means false." + _EACH, panel=_CELLS)]
Type = Annotated[
    list[str] | None,
    option("--type", "COLUMN=TYPE", "integer, real, percent, amount, date, moment, boolean or text.", panel=_CELLS),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Refuse what would be guessed from the cells.", rich_help_panel=_CELLS)
]


def import_table(
    source: Source,
    target: Target = None,
    header: Header = None,
    header_rows: HeaderRows = 1,
    names: Names = None,
    delimiter: Delimiter = None,
    quote: Quote = None,
    encoding: Encoding = None,
    widths: Widths = None,
    skip_first: SkipFirst = 0,
    skip_last: SkipLast = 0,
    sheet: Sheet = None,
    relation: Relation = None,
    member: Member = None,
    file_column: FileColumn = None,
    null: Null = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    date: Date = None,
    true: TrueWord = None,
    false: FalseWord = None,
    types: Type = None,
    strict: Strict = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Convert a file as people have it to typed Parquet, and write the recipe that repeats it.

    For the curator, who may see the data (NOT PRIVATE). What is not stated is guessed from the cells: numbers with their
    marks, percent, amounts, days, truths; the guesses are shown, on a terminal you are asked about them, and the recipe
    states them. A column stays text where its cells do not agree. A row with too few or too many cells stops the import,
    and no file is written.
    """
    from sordino.ask.engines.readers.import_file import CellRules, read_recipe
    from sordino.ask.engines.readers.text_tables import Layout

    layout = Layout(
        header=header,
        header_rows=header_rows,
        names=_split(names),
        delimiter=delimiter,
        quote=quote,
        encoding=encoding,
        widths=_read_widths(widths),
        skip_first=skip_first,
        skip_last=skip_last,
        sheet=sheet,
        relation=relation,
        member=member,
        file_column=file_column,
    )
    rules = CellRules(
        null=tuple(null or ()),
        decimal=tuple(decimal or ()),
        thousands=tuple(thousands or ()),
        date=tuple(date or ()),
        true=tuple(true or ()),
        false=tuple(false or ()),
        types=tuple(types or ()),
    )
    if bool(true) != bool(false):
        raise DeclarationError(f"state {arg('true=')} and {arg('false=')} together")
    if source.endswith(".toml"):
        if layout != Layout() or rules != CellRules() or strict:
            raise DeclarationError(f"a recipe states the whole import: leave out all else, or change {source}")
        source, recipe_target, layout, rules = read_recipe(source)
        _run(source, target or Path(recipe_target), layout, rules, strict=True, recipe=False, force=force, quiet=quiet)
        return
    if target is None:
        raise DeclarationError("say which file to write, such as people.parquet")
    _run(source, target, layout, rules, strict=strict, recipe=True, force=force, quiet=quiet)


def _run(
    source: str,
    target: Path,
    layout: Layout,
    rules: CellRules,
    *,
    strict: bool,
    recipe: bool,
    force: bool,
    quiet: bool,
) -> None:
    from sordino.ask.engines.readers.import_file import import_file, write_recipe
    from sordino.cli.shared.atomic_file import open_atomic

    refuse_existing(target, force=force)
    recipe_path = target.with_suffix(".import.toml")
    if recipe:
        refuse_existing(recipe_path, force=force)

    def confirm(guesses: Sequence[ImportedColumn]) -> bool:
        if quiet or not (in_terminal() and in_terminal(sys.stdin)):
            return True
        note("guessed from the cells (NOT PRIVATE):", aside=False)
        for column in guesses:
            note(f"  {column.name}: {column.format.describe()}", aside=False)
        return typer.confirm("Convert these? Else they stay text", default=True)

    record = import_file(source, target, layout=layout, rules=rules, strict=strict, confirm=confirm)
    if recipe:
        text = write_recipe(_recipe_place(source, recipe_path), target.name, layout, rules, record.columns)
        with open_atomic(recipe_path) as file:
            file.write(text.encode())
    _report(record, target, recipe_path if recipe else None, quiet=quiet)


def _report(record: ImportRecord, target: Path, recipe: Path | None, *, quiet: bool) -> None:
    """Print what was read how, for the curator: each column, whether its format is a guess, and what else to know."""
    note(f"wrote {target}: {len(record.columns)} columns", quiet=quiet, aside=False)
    for column in record.columns:
        guess = "  (a guess)" if column.guessed and column.format.kind != "text" else ""
        labels = f", {len(column.labels)} labels of its codebook" if column.labels else ""
        note(f"  {column.name}: {column.format.describe()}{labels}{guess}", quiet=quiet, aside=False)
    for remark in record.notes:
        note(f"note: {remark}", quiet=quiet)
    if any(column.note for column in record.columns):
        note("these notes quote cells: NOT PRIVATE, for your eyes", quiet=quiet)
    if record.guesses:
        note("types and marks were read from the cells: NOT PRIVATE, until you know them otherwise", quiet=quiet)
    if recipe is not None:
        note(f"wrote {recipe}: sordino import {recipe} does it again", quiet=quiet, aside=False)
    note(f"next: sordino init {target}", quiet=quiet, aside=False)


def _recipe_place(source: str, recipe: Path) -> str:
    """Return a source as its recipe names it: relative to the recipe, an address without its password."""
    if "://" not in source:
        return os.path.relpath(source, recipe.parent)
    parts = urlsplit(source)
    if parts.password is None:
        return source
    return urlunsplit(
        parts._replace(netloc=f"{parts.username or ''}@{parts.hostname}" + (f":{parts.port}" if parts.port else ""))
    )


def _split(text: str | None) -> tuple[str, ...]:
    return () if text is None else tuple(part.strip() for part in text.split(","))


def _read_widths(text: str | None) -> tuple[int, ...]:
    widths = _split(text)
    if any(not width.isdecimal() for width in widths):
        raise DeclarationError(f"{arg('widths=')} takes whole numbers with commas between them, such as 5,3,8")
    return tuple(int(width) for width in widths)
