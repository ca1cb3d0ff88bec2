"""An odd CSV file to Parquet, every cell as text, for the curator's eyes. NOT PRIVATE.

It reads raw rows, and its errors may name them: nothing here is an answer, and nothing is charged.
"""

from __future__ import annotations

import codecs
import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sordino.core.cell_grammar import DAY, FALSE, TRUE
from sordino.core.errors import DeclarationError, SourceError, arg

if TYPE_CHECKING:
    import pyarrow as pa

# The key of Parquet's metadata that holds the types.
TYPES = "sordino_types"
# A number with a leading zero is a code, and stays text.
_PLAIN = "(?:0|[1-9][0-9]{0,%d})"
# In the order of preference.
_KINDS = {
    "integer": f"[+-]?{_PLAIN % 17}(?:[.]0{{0,400}})?",
    "real": f"[+-]?(?:{_PLAIN % 400}(?:[.][0-9]{{0,400}})?|[.][0-9]{{1,400}})(?:[eE][+-]?[0-9]{{1,4}})?",
    "date": DAY,
    "boolean": "(?i)(?:" + "|".join(word.replace(".", "[.]") for word in (*TRUE, *FALSE)) + ")",
}
# Bytes parsed at a time; a row must fit in one block.
_BLOCK = 8 * 2**20


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """How an odd CSV file is written; cells in `null_values`, and empty ones, are missing."""

    header: bool
    delimiter: str = ","
    quote: str = '"'
    encoding: str = "utf-8"
    null_values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.delimiter) != 1 or len(self.quote) > 1 or self.delimiter in (self.quote, "\n", "\r"):
            raise DeclarationError("delimiter must be one character, quote one other or none")


def import_csv(
    source: str | Path,
    target: str | Path,
    *,
    header: bool,
    delimiter: str | None = None,
    quote: str = '"',
    encoding: str = "utf-8",
    null_values: Sequence[str] = (),
) -> dict[str, str | None]:
    """Copy a CSV file to Parquet, every cell as trimmed text; return the type that all cells of a column have, or None.

    Without a delimiter it is a tab in a .tsv file, else a comma. The types are noted in the file's metadata. NOT PRIVATE:
    an error names the row it stands in. Raises SourceError where the file cannot be read or a row has too few or too many
    cells, DeclarationError for an unknown encoding; `target` is then incomplete. Files larger than memory are fine.
    """
    if not Path(source).is_file():
        raise SourceError(f"source {str(source)!r} is missing: there is no such file")
    between = delimiter or default_delimiter(str(source))
    return _copy(Path(source), Path(target), CsvDialect(header, between, quote, encoding, tuple(null_values)))


def default_delimiter(source: str) -> str:
    """Return the delimiter that the ending of a file's name implies."""
    return "\t" if source.lower().endswith(".tsv") else ","


def _copy(source: Path, target: Path, dialect: CsvDialect) -> dict[str, str | None]:
    names = _column_names(source, dialect)
    check_quotes(source, dialect.quote)
    types = _copy_rows(source, target, names, dialect)
    return {name: types.get(name) for name in names}


def _column_names(source: Path, dialect: CsvDialect) -> list[str]:
    """Return the names in the first row, or c1, c2, ... for as many cells as it has."""
    encoding = dialect.encoding
    quote = dialect.quote
    try:
        with source.open(
            encoding="utf-8-sig" if encoding.lower() in ("utf-8", "utf8") else encoding, newline=""
        ) as file:
            # QUOTE_MINIMAL, or QUOTE_NONE.
            quoting: Literal[0, 3] = 0 if quote else 3
            rows = csv.reader(file, delimiter=dialect.delimiter, quotechar=quote or None, quoting=quoting, strict=True)
            first = next(rows, None)
    except LookupError:
        raise DeclarationError(f"{arg('encoding=')}{encoding!r} is not known; try utf-8, latin-1 or cp1252") from None
    except (UnicodeError, csv.Error):
        raise SourceError(
            f"row 1 of {source} cannot be read: check {arg('encoding=')}, {arg('quote=')} and {arg('delimiter=')}"
        ) from None
    except OSError as error:
        raise SourceError(f"{source} cannot be read: {error.strerror}") from None
    if not first:
        raise SourceError(f"{source} has no first row")
    names = [name.strip() for name in first] if dialect.header else [f"c{i}" for i in range(1, len(first) + 1)]
    if not all(names) or len({name.lower() for name in names}) != len(names):
        raise SourceError(f"row 1 of {source} does not name every column once; name them, or say that it is no header")
    return names


def check_quotes(source: Path, quote: str) -> None:
    """Raise SourceError where a quote is never closed: it would swallow every row after it."""
    sign = quote.encode()
    if not sign:
        return
    count = 0
    with source.open("rb") as file:
        while chunk := file.read(_BLOCK):
            count += chunk.count(sign)
    if count % 2:
        rule = f"{source} holds an odd number of {quote} signs, so one is not closed; nothing was written"
        raise SourceError(f'{rule}; correct it, or state {arg("quote=")}"" if they mean nothing here')


def _copy_rows(source: Path, target: Path, names: list[str], dialect: CsvDialect) -> dict[str, str]:
    """Copy the rows, and return the type that all cells of a column can be read as, where there is one."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    types_left = {name: list(_KINDS) for name in names}
    schema = pa.schema([(name, pa.string()) for name in names])
    with pq.ParquetWriter(target, schema, compression="zstd") as writer:
        for cells in read_csv_batches(source, names, dialect, header_rows=int(dialect.header)):
            writer.write_batch(cells)
            _narrow(types_left, cells)
        # A column whose cells are all missing could be of any type, and has none.
        types = {name: left[0] for name, left in types_left.items() if 0 < len(left) < len(_KINDS)}
        writer.add_key_value_metadata({TYPES: json.dumps(types)})
    return types


def read_csv_batches(
    source: Path, names: list[str], dialect: CsvDialect, *, skip_rows: int = 0, header_rows: int = 0
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a CSV file as batches of trimmed text, missing cells as None, after lines and rows to skip.

    Raises SourceError for a row of another length, text that is not of the encoding, and where the file cannot be read.
    """
    import pyarrow as pa
    import pyarrow.csv as pc

    refused: list[Any] = []
    try:
        with pc.open_csv(source, **_csv_options(names, dialect, refused, skip_rows, header_rows)) as batches:
            for batch in batches:
                yield _trim(batch, ("", *dialect.null_values))
    except pa.ArrowInvalid as error:
        raise SourceError(describe_failure(source, refused, dialect.encoding, str(error))) from None
    except UnicodeError:
        raise SourceError(describe_bad_byte(source, dialect.encoding)) from None
    except OSError as error:
        raise SourceError(f"{source} cannot be copied: {error.strerror or 'the disk refused'}") from None


def _csv_options(
    names: list[str], dialect: CsvDialect, refused: list[Any], skip_rows: int, header_rows: int
) -> dict[str, Any]:
    """Return Arrow's options of a dialect; a row of another length stops the reading and is added to `refused`."""
    import pyarrow as pa
    import pyarrow.csv as pc

    def refuse(row: Any) -> str:
        refused.append(row)
        return "error"

    quote = dialect.quote
    return {
        "read_options": pc.ReadOptions(
            column_names=names,
            encoding=dialect.encoding,
            block_size=_BLOCK,
            skip_rows=skip_rows,
            skip_rows_after_names=header_rows,
            use_threads=False,
        ),
        "parse_options": pc.ParseOptions(
            delimiter=dialect.delimiter,
            quote_char=quote or False,
            double_quote=bool(quote),
            newlines_in_values=bool(quote),
            ignore_empty_lines=len(names) > 1,
            invalid_row_handler=refuse,
        ),
        "convert_options": pc.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False),
    }


def _narrow(types: dict[str, list[str]], batch: pa.RecordBatch) -> None:
    """Leave of each column's types those that all cells of a batch can be read as; missing cells are read as any."""
    import pyarrow.compute as pc

    for name in batch.schema.names:
        cells = batch.column(name).drop_null()
        if len(cells):
            types[name] = [
                k for k in types[name] if pc.all(pc.match_substring_regex(cells, f"^(?:{_KINDS[k]})$")).as_py()
            ]


def _trim(batch: pa.RecordBatch, null_values: Sequence[str]) -> pa.RecordBatch:
    import pyarrow as pa
    import pyarrow.compute as pc

    missing = pa.array(null_values)
    none = pa.scalar(None, pa.string())
    columns = []
    for column in batch.columns:
        text = pc.ascii_trim(column, " \t\r")
        columns.append(pc.if_else(pc.is_in(text, value_set=missing), none, text))
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def describe_failure(source: Path, refused: list[Any], encoding: str, error: str) -> str:
    """Return why Arrow could not read a CSV file: the row of another length, the byte of another encoding, its own words."""
    if refused:
        row = refused[0]
        where = f"row {row.number}" if row.number is not None else "a row"
        cells = f"{row.actual_columns} cell{'s' * (row.actual_columns != 1)}"
        way = f"correct it, or state {arg('skip_first=')} or {arg('skip_last=')} for a title or a total, or {arg('delimiter=')}"
        return f"{where} of {source} has {cells}, not {row.expected_columns}: {way}; nothing was written"
    if "utf-8" in error.lower() or "utf8" in error.lower():
        return describe_bad_byte(source, encoding)
    if "straddling" in error:
        most = _BLOCK // 2**20
        return f"a row of {source} is longer than {most} MB: check {arg('quote=')}, one may not be closed; nothing was written"
    return f"{source} cannot be read as CSV ({error.splitlines()[0][:200]}); check {arg('quote=')}; nothing was written"


def describe_bad_byte(path: Path, encoding: str) -> str:
    """Return which byte does not fit an encoding, in which row it stands, and an encoding that reads the whole file."""
    others = [name for name in ("utf-8", "cp1252", "latin-1") if name != encoding.lower()]
    with path.open("rb") as file:
        start = file.read(2)
    if start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) and encoding.lower().startswith("utf-8"):
        return f"{path} begins as UTF-16 does: state {arg('encoding=')}'utf-16'; nothing was written"
    # In other encodings a byte that ends a line may be part of a character
    lines_end = not encoding.lower().startswith(("utf-16", "utf16", "utf-32", "utf32"))
    with path.open("rb") as file:
        for row, line in enumerate(file if lines_end else (), start=1):
            try:
                line.decode(encoding)
            except UnicodeDecodeError as error:
                byte = line[error.start : error.start + 1].hex()
                if encoding == "utf-8" and _is_mostly_utf8(path):
                    # another encoding would read the file, and garble what it holds
                    return (
                        f"byte 0x{byte} in row {row} of {path} is no utf-8, though other lines have letters that are: correct "
                        f"that row; nothing was written"
                    )
                fits = next((name for name in others if _decodes(path, name)), None)
                way = (
                    f"{arg('encoding=')}{fits!r} reads the whole file" if fits else f"state another {arg('encoding=')}"
                )
                return f"byte 0x{byte} in row {row} of {path} is no {encoding}: {way}; nothing was written"
    return f"{path} is not text in {encoding}: state another {arg('encoding=')}; nothing was written"


def _is_mostly_utf8(path: Path) -> bool:
    """Return whether more lines of a file hold letters beyond ASCII in UTF-8 than bytes that are none."""
    balance = 0
    with path.open("rb") as file:
        for line in file:
            if not line.isascii():
                try:
                    line.decode("utf-8")
                    balance += 1
                except UnicodeDecodeError:
                    balance -= 1
    return balance > 0


def _decodes(path: Path, encoding: str) -> bool:
    try:
        with path.open(encoding=encoding) as file:
            while file.read(1 << 20):
                pass
    except UnicodeError:
        return False
    return True
