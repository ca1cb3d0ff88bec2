"""The columns that a file states of itself: names and types, never a row."""

from __future__ import annotations

from sordino.errors import DeclarationError, SourceError, nearest

__all__ = ["Columns", "duckdb_columns"]

Columns = list[tuple[str, str | None]]


def duckdb_columns(source: str, relation: str | None) -> tuple[str, Columns]:
    """Return the name of a table of a DuckDB file and its columns with their types; no row is read.

    Without `relation` the file's only table. Raises SourceError where the file cannot be opened, DeclarationError where the
    table is not there or not the only one.
    """
    import duckdb

    failed = False
    tables: list[str] = []
    found: Columns = []
    try:
        with duckdb.connect(source, read_only=True) as connection:
            tables = [
                str(row[0]) for row in connection.execute("SELECT table_name FROM information_schema.tables").fetchall()
            ]
            chosen = relation or (tables[0] if len(tables) == 1 else None)
            if chosen in tables:
                quoted = '"' + str(chosen).replace('"', '""') + '"'
                rows = connection.execute(f"SELECT column_name, column_type FROM (DESCRIBE {quoted})").fetchall()
                found = [(str(name), str(kind)) for name, kind in rows]
    except duckdb.Error:
        failed = True
    if failed:
        raise SourceError(f"source {source!r} cannot be opened as a DuckDB file: check its path, format and rights")
    if relation is not None and relation not in tables:
        raise DeclarationError(f"{source!r} has no table {relation!r}; {nearest(relation, tables)}")
    if not found:
        raise DeclarationError(f"say which table with --relation; {nearest('', tables)}")
    return relation or tables[0], found
