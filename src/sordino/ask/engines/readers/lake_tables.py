"""Tables of Delta and Iceberg: which folders hold one, and how its own library hands its rows on as Arrow.

Such a folder also holds Parquet files of rows that were deleted or replaced since, so its files are not its table.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sordino.core.errors import SourceError
from sordino.core.remote_files import list_remote, remote_store
from sordino.core.source import Source

if TYPE_CHECKING:
    import pyarrow as pa

BY_LIBRARY = {  # how a table is read without Spark
    "delta": "sd.protect(DeltaTable(path), ...) with deltalake (pip install 'deltalake[pyarrow]')",
    "iceberg": "sd.protect(catalog.load_table(name), ...) with pyiceberg (pip install 'pyiceberg[pyarrow]')",
}
UNREAD = (
    "its files are gone, or hold what its library does not hand on as Arrow, as deltalake does no table with deletion vectors "
    "or column mapping: write it anew as Parquet, or read it by Spark"
)


def is_lake_table(frame: Any) -> bool:
    """Return whether an object is a DeltaTable of deltalake, or a table of pyiceberg."""
    has = {"deltalake": "to_pyarrow_dataset", "pyiceberg": "current_snapshot"}.get(_library(frame))
    return has is not None and hasattr(frame, has)


def lake_columns(frame: Any) -> list[str]:
    """Return the names of a table's columns, as its schema states them."""
    return [field.name for field in frame.schema().fields]


def load_lake_table(frame: Any, columns: Sequence[str]) -> pa.Table:
    """Return the rows of a table's current state, these columns of them; what its library raises may quote a cell."""
    found: pa.Table = (
        frame.to_pyarrow_dataset().to_table(columns=list(columns))
        if _library(frame) == "deltalake"
        else frame.scan(selected_fields=tuple(columns)).to_arrow().select(list(columns))
    )
    return found


def _library(frame: Any) -> str:
    return type(frame).__module__.partition(".")[0]


def check_folder(source: Source, names: Callable[[str], Sequence[str]] | None = None) -> None:
    """Raise SourceError where the Parquet files of a folder or a pattern are those of a Delta or an Iceberg table.

    `names` lists what a folder holds, nothing where there is no such folder; without it, it is listed where it lies.
    """
    plain = re.split(r"[*?\[]", source.place, maxsplit=1)[0]
    is_pattern = plain != source.place
    if source.format != "parquet" or not (is_pattern or source.is_folder or os.path.isdir(plain)):
        return
    folder = os.path.dirname(plain) if is_pattern else plain
    kind = _kind_of(folder, names or (_list_remote(source.path) if source.is_remote else _list_here))
    if kind:
        raise SourceError(
            f"source {source.path!r} holds the files of {'a Delta' if kind == 'delta' else 'an Iceberg'} table, among them "
            f"rows that it has deleted: read it by {BY_LIBRARY[kind]}, or by Spark with format = {kind!r}"
        )


def _kind_of(folder: str, names: Callable[[str], Sequence[str]]) -> str:
    """Return "delta" or "iceberg" where a folder, or the one that its partitions lie in, is of such a table."""
    while "=" in os.path.basename(folder):
        folder = os.path.dirname(folder)
    if "_delta_log" in names(folder):
        return "delta"
    above = os.path.dirname(folder) if os.path.basename(folder) == "data" else folder
    return "iceberg" if any(n.endswith(".metadata.json") for n in names(f"{above}/metadata")) else ""


def _list_remote(address: str) -> Callable[[str], Sequence[str]]:
    store = remote_store(address)
    return lambda folder: list_remote(folder, store)


def _list_here(folder: str) -> Sequence[str]:
    return os.listdir(folder) if os.path.isdir(folder) else ()
