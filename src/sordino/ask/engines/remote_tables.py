"""Tables on other machines, read by DuckDB through a file system of Python's."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sordino.ask.engines.readers.lake_tables import check_folder
from sordino.core.errors import SourceError
from sordino.core.remote_files import RemoteFile, RemoteStore, check_remote, list_remote, remote_store

if TYPE_CHECKING:
    import duckdb

    from sordino.core.source import Source


class RemoteSources:
    """Remember the sources of an engine that lie on other machines."""

    def __init__(self) -> None:
        self._stores: dict[str, RemoteStore] = {}

    def open(self, connection: duckdb.DuckDBPyConnection, source: Source) -> None:
        """Let a connection read a source; raises SourceError unless it is there, and its files are the table."""
        address = source.path
        scheme = address.partition("://")[0]
        store = next((s for known, s in self._stores.items() if known.startswith(f"{scheme}://")), None)
        if store is None:
            store = remote_store(address)
            connection.register_filesystem(_remote_file_system(scheme, store))
            connection.execute("SET enable_external_file_cache = false")
        check_remote(address, store)
        check_folder(source, lambda folder: list_remote(folder, store))
        self._stores[address] = store

    def check(self) -> None:
        """Raise SourceError unless all of them are there."""
        for address, store in self._stores.items():
            check_remote(address, store)

    def are_there(self) -> bool:
        """Return whether all of them are there."""
        try:
            self.check()
        except SourceError:
            return False
        return True


def _remote_file_system(scheme: str, store: RemoteStore) -> Any:
    """Return the file system that reads addresses of a scheme; raises SourceError where fsspec is not installed."""
    try:
        from fsspec import AbstractFileSystem
    except ImportError:
        raise SourceError(
            "files on other machines are read with fsspec, which is not installed: pip install 'sordino[remote]'"
        ) from None

    def strip(path: str) -> str:
        return path.partition("://")[2].rstrip("/") if "://" in path else path

    def info(_: Any, path: str, **_how: Any) -> dict[str, Any]:
        return store.info(strip(path))

    def ls(_: Any, path: str, detail: bool = True, **_how: Any) -> list[Any]:
        found = store.ls(strip(path))
        return found if detail else [entry["name"] for entry in found]

    def open_file(_: Any, path: str, mode: str = "rb", **_how: Any) -> RemoteFile:
        if mode != "rb":
            raise PermissionError("files on other machines are only read")
        return store.open(strip(path))

    def modified(*_: Any) -> datetime:
        return datetime.now(UTC)  # so DuckDB takes nothing that it remembers of a file for the file

    words = {"info": info, "modified": modified, "ls": ls, "open": open_file, "_strip_protocol": staticmethod(strip)}
    return type("RemoteFileSystem", (AbstractFileSystem,), {"protocol": scheme, "cachable": False, **words})()
