"""`sordino import`: an odd CSV file to Parquet, every cell as text, for the curator's eyes.

It reads raw rows, and its errors may name them: nothing here is an answer, and nothing is charged.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino.cells import DAY, FALSE, TRUE
from sordino.cli.shared.options import Delimiter, Header, Quiet, delimiter_of
from sordino.cli.shared.terminal import note
from sordino.errors import DeclarationError, SourceError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["import_csv"]

TYPES = "sordino_types"  # the key of Parquet's metadata that holds them
_PLAIN = "(?:0|[1-9][0-9]{0,%d})"  # a number with a leading zero is a code, and stays text
_KINDS = {  # in the order of preference
    "integer": f"[+-]?{_PLAIN % 17}(?:[.]0{{0,400}})?",
    "real": f"[+-]?(?:{_PLAIN % 400}(?:[.][0-9]{{0,400}})?|[.][0-9]{{1,400}})(?:[eE][+-]?[0-9]{{1,4}})?",
    "date": DAY,
    "boolean": "(?i)(?:" + "|".join(word.replace(".", "[.]") for word in (*TRUE, *FALSE)) + ")",
}
_BLOCK = 8 * 2**20  # bytes parsed at a time; a row must fit in one


def import_csv(
    source: Annotated[Path, typer.Argument(metavar="FILE.csv", help="The CSV file.", show_default=False)],
    target: Annotated[Path, typer.Argument(metavar="FILE.parquet", help="The file to write.", show_default=False)],
    header: Header = None,
    delimiter: Delimiter = None,
    quote: Annotated[
        str, typer.Option("--quote", metavar="CHAR", help='What cells may be quoted with; "" for nothing.')
    ] = '"',
    encoding: Annotated[
        str, typer.Option("--encoding", metavar="NAME", help="Such as utf-8, latin-1 or cp1252.")
    ] = "utf-8",
    null: Annotated[
        list[str] | None,
        typer.Option(
            "--null", metavar="TEXT", help="A cell that means: missing. Empty ones always do.", show_default=False
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    quiet: Quiet = False,
) -> None:
    """Turn an odd CSV file into Parquet: every cell as text, trimmed. Line breaks in cells and other encodings are read.

    For the curator, who may see the data (NOT PRIVATE): an error names the row it stands in, and a type that all cells of a
    column have is noted in the file, for `sordino init` to propose. A row with too few or too many cells stops the
    import, and then no file is written. Files larger than memory are fine.
    """
    from sordino.cli.shared.atomic_file import open_atomic

    if header is None:
        raise DeclarationError("say --header if the first row holds names, else --no-header")
    if target.exists() and not force:
        raise DeclarationError(f"{target} is there already; --force replaces it")
    if not source.is_file():
        raise SourceError(f"source {str(source)!r} is missing: there is no such file")
    between = delimiter_of(delimiter, str(source))
    if len(between) != 1 or len(quote) > 1 or between in (quote, "\n", "\r"):
        raise DeclarationError("--delimiter takes one character, --quote one other or none")
    names = _names(source, header=header, delimiter=between, quote=quote, encoding=encoding)
    _balanced(source, quote)
    with open_atomic(target) as place:
        kinds = _copied(source, place.path, names, header, between, quote, encoding, ["", *(null or [])])
        place.commit()
    seen = sorted(set(kinds.values()))
    found = ", ".join(f"{sum(kind == k for k in kinds.values())} {kind}" for kind in seen)
    note(f"wrote {target}: {len(names)} columns of text", quiet=quiet, aside=False)
    if found:
        note(f"all cells of these can be read as: {found} (NOT PRIVATE; init proposes it)", quiet=quiet, aside=False)
    note(f"next: sordino init {target}", quiet=quiet, aside=False)


def _names(source: Path, *, header: bool, delimiter: str, quote: str, encoding: str) -> list[str]:
    """Return the names in the first row, or c1, c2, ... for as many cells as it has."""
    try:
        with source.open(
            encoding="utf-8-sig" if encoding.lower() in ("utf-8", "utf8") else encoding, newline=""
        ) as file:
            first = next(
                csv.reader(file, delimiter=delimiter, quotechar=quote or None, quoting=0 if quote else 3, strict=True),
                None,
            )
    except LookupError:
        raise DeclarationError(f"--encoding {encoding!r} is not known; try utf-8, latin-1 or cp1252") from None
    except (UnicodeError, csv.Error):
        raise SourceError(f"row 1 of {source} cannot be read: check --encoding, --quote and --delimiter") from None
    except OSError as error:
        raise SourceError(f"{source} cannot be read: {error.strerror}") from None
    if not first:
        raise SourceError(f"{source} has no first row")
    names = [name.strip() for name in first] if header else [f"c{i}" for i in range(1, len(first) + 1)]
    if not all(names) or len({name.lower() for name in names}) != len(names):
        raise SourceError(f"row 1 of {source} does not name every column once; name them, or --no-header")
    return names


def _balanced(source: Path, quote: str) -> None:
    """Raise SourceError where a quote is never closed: it would swallow every row after it."""
    sign, seen = quote.encode(), 0
    if not sign:
        return
    with source.open("rb") as file:
        while chunk := file.read(_BLOCK):
            seen += chunk.count(sign)
    if seen % 2:
        rule = f"{source} holds an odd number of {quote} signs, so one is not closed; nothing was written"
        raise SourceError(f'{rule}; mend it, or --quote "" if they mean nothing here')


def _copied(
    source: Path,
    place: Path,
    names: list[str],
    header: bool,
    delimiter: str,
    quote: str,
    encoding: str,
    nulls: list[str],
) -> dict[str, str]:
    """Copy the rows, and return the type that all cells of a column can be read as, where there is one."""
    import pyarrow as pa
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

    bad: list[Any] = []

    def refuse(row: Any) -> str:
        bad.append(row)
        return "error"

    reading = pc.ReadOptions(
        column_names=names,
        encoding=encoding,
        block_size=_BLOCK,
        skip_rows_after_names=1 if header else 0,
        use_threads=False,
    )
    parsing = pc.ParseOptions(
        delimiter=delimiter,
        quote_char=quote or False,
        double_quote=bool(quote),
        newlines_in_values=bool(quote),
        ignore_empty_lines=len(names) > 1,
        invalid_row_handler=refuse,
    )
    kinds = pc.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False)
    schema = pa.schema([(name, pa.string()) for name in names])
    try:
        with (
            pc.open_csv(source, read_options=reading, parse_options=parsing, convert_options=kinds) as batches,
            pq.ParquetWriter(place, schema, compression="zstd") as writer,
        ):
            kinds_left = {name: list(_KINDS) for name in names}
            for batch in batches:
                cells = _trimmed(batch, nulls)
                writer.write_batch(cells)
                _narrow(kinds_left, cells)
            found = {name: left[0] for name, left in kinds_left.items() if 0 < len(left) < len(_KINDS)}
            writer.add_key_value_metadata({TYPES: json.dumps(found)})
    except pa.ArrowInvalid as error:
        raise SourceError(_told(source, bad, str(error))) from None
    except OSError as error:
        raise SourceError(f"{source} cannot be copied: {error.strerror or 'the disk refused'}") from None
    return found


def _narrow(kinds: dict[str, list[str]], batch: pa.RecordBatch) -> None:
    """Leave of each column's types those that all cells of a batch can be read as; cells that lack are read as any."""
    import pyarrow.compute as pc

    for name in batch.schema.names:
        cells = batch.column(name).drop_null()
        if len(cells):
            kinds[name] = [
                k for k in kinds[name] if pc.all(pc.match_substring_regex(cells, f"^(?:{_KINDS[k]})$")).as_py()
            ]


def _trimmed(batch: pa.RecordBatch, nulls: list[str]) -> pa.RecordBatch:
    import pyarrow as pa
    import pyarrow.compute as pc

    missing, none = pa.array(nulls), pa.scalar(None, pa.string())
    columns = []
    for column in batch.columns:
        text = pc.ascii_trim(column, " \t\r")
        columns.append(pc.if_else(pc.is_in(text, value_set=missing), none, text))
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _told(source: Path, bad: list[Any], said: str) -> str:
    if bad:
        row = bad[0]
        where = f"row {row.number}" if row.number is not None else "a row"
        cells = f"{row.actual_columns} cell{'s' * (row.actual_columns != 1)}"
        return f"{where} of {source} has {cells}, not {row.expected_columns}; nothing was written"
    if "utf-8" in said.lower() or "utf8" in said.lower():
        return f"{source} is not text in this encoding; try --encoding latin-1 or cp1252; nothing was written"
    return f"{source} cannot be read as CSV ({said.splitlines()[0][:200]}); check --quote; nothing was written"
