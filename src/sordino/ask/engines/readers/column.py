"""One column of a file as numbers, for laboratories: NOT PRIVATE."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

from sordino.core.cell_grammar import BLANKS, DECIMAL, WHOLE
from sordino.core.errors import SourceError, nearest


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
