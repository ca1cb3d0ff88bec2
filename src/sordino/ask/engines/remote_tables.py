"""Tables on other machines, read by DuckDB through a Python file system."""

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
    """The sources of an engine that are on other machines."""

    def __init__(self) -> None:
        self._stores: dict[str, RemoteStore] = {}

    def open(self, connection: duckdb.DuckDBPyConnection, source: Source) -> None:
        """Let a connection read a source; raises SourceError unless it exists, and its files are the table."""
        address = source.path
        scheme = address.partition("://")[0]
        store = next((s for other, s in self._stores.items() if other.startswith(f"{scheme}://")), None)
        if store is None:
            store = remote_store(address)
            connection.register_filesystem(_remote_file_system(scheme, store))
            connection.execute("SET enable_external_file_cache = false")
        check_remote(address, store)
        check_folder(source, lambda folder: list_remote(folder, store))
        self._stores[address] = store

    def check(self) -> None:
        """Raise SourceError unless all of them exist."""
        for address, store in self._stores.items():
            check_remote(address, store)

    def are_there(self) -> bool:
        """Return whether all of them exist."""
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
        entries = store.ls(strip(path))
        return entries if detail else [entry["name"] for entry in entries]

    def open_file(_: Any, path: str, mode: str = "rb", **_how: Any) -> RemoteFile:
        if mode != "rb":
            raise PermissionError("files on other machines are only read")
        return store.open(strip(path))

    def modified(*_: Any) -> datetime:
        # so that DuckDB uses nothing that it has cached of a file
        return datetime.now(UTC)

    methods = {"info": info, "modified": modified, "ls": ls, "open": open_file, "_strip_protocol": staticmethod(strip)}
    return type("RemoteFileSystem", (AbstractFileSystem,), {"protocol": scheme, "cachable": False, **methods})()
