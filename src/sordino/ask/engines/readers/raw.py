"""The declared columns of a file as raw rows, for evaluation in the open: NOT PRIVATE. It knows files, no model.

Laboratories read one column of it as numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sordino.ask.engines.csv_lines import copy_marked, read_csv
from sordino.ask.engines.instances import SpillDirectory
from sordino.core.cell_formats import CellFormat
from sordino.core.cell_grammar import DAY, DECIMAL, FALSE, TRUE, WHOLE
from sordino.core.domain import Boolean, Category, Date, DateTime, Domain, Integer
from sordino.core.errors import SourceError, nearest
from sordino.core.source import Csv, header_names

if TYPE_CHECKING:
    import pyarrow as pa
from decimal import Decimal

from sordino.core.cell_grammar import BLANKS


def load_rows(path: Path | str, domain: Domain, csv: Csv | None = None) -> pa.Table:
    """Return the declared columns of a Parquet or CSV file, cells read as declared; what cannot be read is missing.

    NOT PRIVATE: raw rows, and the table's schema metadata says so. `csv` says how a CSV file is written; without it a header
    line holds the names, and cells may be quoted. Raises SourceError where the file or a column is missing; no cell is ever
    in an error.

    >>> load_rows("no.csv", Domain({"sex": Boolean()}))
    Traceback (most recent call last):
        ...
    sordino.errors.SourceError: no.csv: no such file
    """
    import pyarrow as pa

    where = Path(path)
    if not where.is_file():
        raise SourceError(f"{where}: no such file")
    parquet = where.suffix.lower() in (".parquet", ".pq")
    try:
        table = _parquet(where) if parquet else _csv(where, domain, csv or Csv(header=True, quote='"'))
    except (pa.ArrowException, OSError, UnicodeDecodeError, SourceError):
        table = None
    if table is None:
        kind = "Parquet" if parquet else "CSV with as many cells a line as it has names"
        raise SourceError(f"{where} cannot be read as {kind}")
    columns: dict[str, Any] = {}
    for name in domain:
        if name not in table.column_names:
            # The first line of a CSV file may be a row, so no name in it is shown.
            hint = f"; {nearest(name, table.column_names)}" if parquet else ": check its header line, and the delimiter"
            raise SourceError(f"{where} has no column {name!r}{hint}")
        try:
            columns[name] = _cells(table.column(name), domain[name])
        except pa.ArrowException:
            columns[name] = None
        if columns[name] is None:
            kind = type(domain[name]).__name__.lower()
            raise SourceError(f"column {name!r} of {where} does not hold what is declared: {kind}")
    marker = {"sordino": "NOT PRIVATE: raw rows of a file"}
    return pa.table(columns).replace_schema_metadata(marker)


def _parquet(path: Path) -> Any:
    import pyarrow.parquet as pq

    return pq.read_table(path)


def _csv(path: Path, domain: Domain, csv: Csv) -> Any:
    """Return every column as text, trimmed, null where it is empty or means missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    formats = csv.formats(domain.columns)
    raw = _read_plain(path, csv) if csv.is_plain and not formats else _read_written(path, csv, formats)
    columns = []
    for name in raw.column_names:
        text = pc.utf8_trim_whitespace(raw[name])
        # a cell with a format of its own was read, also where it means missing
        missing = pa.array([] if name in formats else csv.missing_cells(name), pa.string())
        columns.append(pc.if_else(pc.is_in(text, value_set=missing), pa.scalar(None, pa.string()), text))
    return pa.table(columns, names=raw.column_names)


def _read_plain(path: Path, csv: Csv) -> pa.Table:
    import pyarrow as pa
    from pyarrow import csv as arrow

    header = list(header_names(path, csv))
    return arrow.read_csv(
        path,
        read_options=arrow.ReadOptions(column_names=header, skip_rows=int(csv.header)),
        parse_options=arrow.ParseOptions(delimiter=csv.between, quote_char=csv.quote or False),
        convert_options=arrow.ConvertOptions(
            column_types=dict.fromkeys(header, pa.string()), strings_can_be_null=False
        ),
    )


def _read_written(path: Path, csv: Csv, formats: Mapping[str, Sequence[CellFormat]]) -> pa.Table:
    """Read a file of another encoding, with lines aside, or with formats, as questions read it."""
    import duckdb

    with SpillDirectory() as folder, duckdb.connect() as connection:
        copy = f"{folder}/rows"
        copy_marked(str(path), copy, csv)
        rows = read_csv(str(path), csv, formats=formats, at=copy, marked=True)
        return connection.execute(f"SELECT * FROM {rows}").to_arrow_table()


_OFFSET = "(?:Z|UTC|.{10,}[+-][0-9:]+)$"


def _cells(cells: Any, column: Any) -> Any:
    """Return cells as a declared type; what cannot be read as it is missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    plain = cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells
    if pa.types.is_dictionary(plain.type):
        plain = plain.dictionary_decode()
    if isinstance(column, Category) and isinstance(column.values[0], str):
        return plain.cast(pa.string())
    if isinstance(column, Category):
        return _match(plain, WHOLE, pa.int64())
    if isinstance(column, Boolean) and pa.types.is_string(plain.type):
        low = pc.utf8_lower(plain)
        is_boolean = pc.is_in(low, value_set=pa.array([*TRUE, *FALSE]))
        return pc.if_else(is_boolean, pc.is_in(low, value_set=pa.array(TRUE)), pa.scalar(None, pa.bool_()))
    if isinstance(column, Boolean):
        return plain.cast(pa.bool_())
    if isinstance(column, Date):
        return _match(plain, DAY, pa.date32())
    if isinstance(column, DateTime):
        return _moments(plain)
    return _match(plain, WHOLE if isinstance(column, Integer) else DECIMAL, pa.float64())


def _moments(cells: Any) -> Any:
    """Return timestamps as they are; text cells without an offset from UTC as such, others missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not (pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type)):
        return cells.cast(pa.timestamp("us", getattr(cells.type, "tz", None)), safe=False)
    bare = pc.and_(pc.match_substring_regex(cells, f"^(?:{DAY})$"), pc.invert(pc.match_substring_regex(cells, _OFFSET)))
    plain = pc.if_else(bare, pc.replace_substring(cells, "/", "-"), pa.scalar(None, cells.type))
    return plain.cast(pa.timestamp("us"))


def _match(cells: Any, pattern: str, kind: Any) -> Any:
    """Return text cells of a pattern as a type, others missing; cells that are no text are cast."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not (pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type)):
        return cells.cast(kind)
    plain = pc.if_else(pc.match_substring_regex(cells, f"^(?:{pattern})$"), cells, pa.scalar(None, cells.type))
    if pa.types.is_integer(kind):
        plain = pc.replace_substring_regex(plain, r"^[+]|[.]0*$", "")
    if pa.types.is_date(kind):
        plain = pc.replace_substring(pc.utf8_slice_codeunits(plain, 0, 10), "/", "-")
    return plain.cast(kind)


def load_column(name: str, path: Path) -> tuple[tuple[float, ...], int]:
    """Return the numbers of one column of a CSV (with a header line) or Parquet file, and how many cells are missing.

    NOT PRIVATE: for laboratories only, and marked so wherever it shows. Raises SourceError where the file or the column
    is missing or no numbers; no cell is ever in an error.
    """
    import pyarrow as pa
    from pyarrow import csv, parquet

    if not path.is_file():
        raise SourceError(f"{path}: no such file")
    ending = path.suffix.lower()
    if ending not in (".csv", ".parquet", ".pq"):
        raise SourceError(f"{path} must end in .csv or .parquet")
    try:
        if ending == ".csv":
            table = csv.read_csv(path)
            names = table.column_names
        else:
            names = parquet.read_schema(path).names
            table = parquet.read_table(path, columns=[name]) if name in names else None
    except (pa.ArrowException, OSError):
        raise SourceError(f"{path} cannot be read as {ending[1:]}; a CSV file has names in its first line") from None
    if name not in names or table is None:
        # The first line of a CSV file may be a row, so no name in it is shown.
        hint = ": check its header line" if ending == ".csv" else f"; {nearest(name, names)}"
        raise SourceError(f"{path} has no column {name!r}{hint}")
    cells = _numbers(table[name])
    if not (pa.types.is_integer(cells.type) or pa.types.is_floating(cells.type) or pa.types.is_decimal(cells.type)):
        raise SourceError(
            f"column {name!r} of {path} holds {cells.type} that is not all numbers; a universe is of numbers"
        )
    # A decimal column may hold whole numbers past 2^53, which float64 would round.
    values = tuple(
        int(v) if isinstance(v, int | Decimal) and v == int(v) else float(v) for v in cells.drop_null().to_pylist()
    )
    if not values:
        raise SourceError(f"column {name!r} of {path} holds no numbers")
    return values, cells.null_count


def _numbers(cells: Any) -> Any:
    """Return text that is numbers throughout as numbers, whole ones where all are, as `sordino import` leaves it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not (pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type)):
        return cells
    text = pc.utf8_trim(cells, BLANKS)
    present = pc.if_else(pc.equal(text, ""), pa.scalar(None, text.type), text)
    for pattern, kind in ((WHOLE, pa.int64()), (DECIMAL, pa.float64())):
        if pc.all(pc.match_substring_regex(present, f"^(?:{pattern})$"), min_count=0).as_py():
            return pc.replace_substring_regex(present, r"^[+]|[.]0*$", "").cast(kind)
    return cells
