"""A project file proposed from a table's schema alone: never a bound, a value or a row of the data."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from sordino.datasets.file_schema import read_schema
from sordino.project.schema import FILL_IN
from sordino.project.template import write_template
from sordino.source import SERVERS, split_ending

__all__ = ["Proposal", "propose_project"]


@dataclass(frozen=True, slots=True)
class Proposal:
    """Hold the text of a proposed project file, its table's name, how many columns it has, and what else to know."""

    text: str
    table: str
    columns: int
    remarks: tuple[str, ...]

    @property
    def blanks(self) -> int:
        """The number of blanks, marked FILL IN, that only a person can fill."""
        return sum(line.partition("#")[0].count(f'"{FILL_IN}"') for line in self.text.splitlines())


def propose_project(
    source: str | Path,
    *,
    header: bool | None = None,
    columns: int | None = None,
    delimiter: str | None = None,
    quote: str | None = None,
    relation: str | None = None,
    directory: str | Path = ".",
) -> Proposal:
    """Return a project file for a file, a folder of Parquet or a PostgreSQL table: its schema alone, every blank marked.

    No bound, value or row of the data is read into it: those would leak. `directory` is where the project file will lie; a
    relative source is stated relative to it. A CSV file's first line may be a row, so `header` must say whether it holds
    names; that of JSON lines is one, and `header` says that its names are the columns. Raises as `read_schema` does.
    """
    schema = read_schema(
        str(source), header=header, columns=columns, delimiter=delimiter, quote=quote, relation=relation
    )
    is_server = str(source).startswith(SERVERS)
    name = (schema.relation or "").rpartition(".")[2] if is_server else schema.relation or _file_stem(source)
    table = _table_name(name)
    place = str(source) if is_server or os.path.isabs(source) else os.path.relpath(source, directory)
    if Path(source).is_dir():
        place = f"{place.rstrip('/')}/"  # by which a folder is known
    text = write_template(schema.columns, source=place, table=table, csv=schema.csv, relation=schema.relation)
    return Proposal(text, table, len(schema.columns), schema.remarks)


def _file_stem(source: str | Path) -> str:
    """Return a file's name without its ending, and without that of its compression."""
    stem, (ending, packing) = Path(source).stem, split_ending(source)
    return stem.removesuffix(Path(stem).suffix) if packing and ending else stem


def _table_name(stem: str) -> str:
    name = re.sub(r"[^A-Za-z0-9_]+", "_", stem).strip("_") or "people"
    return f"t_{name}" if name[0].isdigit() else name
