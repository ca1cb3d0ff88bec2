"""The declared columns of a file as raw rows, for evaluation in the open: NOT PRIVATE. It knows files, no model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sordino.core.cell_grammar import DAY, DECIMAL, FALSE, TRUE, WHOLE
from sordino.core.domain import Boolean, Category, Date, DateTime, Domain, Integer
from sordino.core.errors import SourceError, nearest

if TYPE_CHECKING:
    import pyarrow as pa


def load_rows(
    path: Path | str,
    domain: Domain,
    *,
    names: Sequence[str] | None = None,
    delimiter: str = ",",
    null_values: Sequence[str] = (),
    quote: str = '"',
) -> pa.Table:
    """Return the declared columns of a Parquet or CSV file, cells read as declared; what cannot be read is missing.

    NOT PRIVATE: raw rows, and the table's schema metadata says so. `names`, `delimiter`, `null_values` and `quote` say how a
    CSV file is written; without `names` its first line holds them. Raises SourceError where the file or a column is missing; no
    cell is ever in an error.

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
        table = _parquet(where) if parquet else _csv(where, names, delimiter, null_values, quote)
    except (pa.ArrowException, OSError, UnicodeDecodeError):
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


def _csv(path: Path, names: Sequence[str] | None, delimiter: str, null_values: Sequence[str], quote: str) -> Any:
    """Return every column as text, trimmed, null where it is empty or one of the null values."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    header = list(names) if names is not None else _first_line(path, delimiter)
    raw = csv.read_csv(
        path,
        read_options=csv.ReadOptions(column_names=header, skip_rows=1 if names is None else 0),
        parse_options=csv.ParseOptions(delimiter=delimiter, quote_char=quote or False),
        convert_options=csv.ConvertOptions(column_types=dict.fromkeys(header, pa.string()), strings_can_be_null=False),
    )
    nothing = pa.array(["", *null_values])
    columns = []
    for name in header:
        text = pc.utf8_trim_whitespace(raw[name])
        columns.append(pc.if_else(pc.is_in(text, value_set=nothing), pa.scalar(None, pa.string()), text))
    return pa.table(columns, names=header)


def _first_line(path: Path, delimiter: str) -> list[str]:
    with path.open(encoding="utf-8-sig") as file:
        return [n.strip().strip('"') for n in file.readline().rstrip("\r\n").split(delimiter)]


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
