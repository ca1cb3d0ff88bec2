"""Files on other machines, in S3 or behind HTTP: whether they are there, their length, and their bytes by ranges.

Credentials come from the environment and the usual files alone, ~/.aws and ~/.netrc, where the libraries look for them: an
address that holds one is refused, and nothing that a server says goes into an error.
"""

from __future__ import annotations

import fnmatch
import io
import os
import re
import threading
from collections.abc import Callable
from typing import Any, Protocol
from urllib.parse import urlsplit

from sordino.core.errors import DeclarationError, SourceError

_ADDRESS = re.compile(r"(s3a?|https?)://[^/?#@\s]+/[^?#\s]*")
_CONNECT, _READ = 10, 60  # seconds
_BLOCK = 2**18  # bytes that are fetched at least: what unpacks a file asks for few at a time


class RemoteStore(Protocol):
    """Find and open the files of one kind of server; paths are without their "s3://".

    Raises FileNotFoundError, PermissionError, or another OSError where the server cannot be reached.
    """

    def info(self, path: str) -> dict[str, Any]:
        """Return a file's or a folder's name, size and type, in fsspec's words."""

    def ls(self, path: str) -> list[dict[str, Any]]:
        """Return what a folder holds."""

    def open(self, path: str) -> RemoteFile:
        """Open a file."""


def check_address(address: str) -> None:
    """Raise DeclarationError for an address of no known form, or that may hold a credential; nothing of it is quoted."""
    if not _ADDRESS.fullmatch(address):
        raise DeclarationError(
            "a source on another machine is s3://BUCKET/KEY or https://HOST/PATH, without a user, a password, ? or #: "
            "credentials stand in the environment, in ~/.aws or in ~/.netrc, and nowhere in a declaration"
        )
    if address.startswith("http") and (address.endswith("/") or any(c in address for c in "*[")):
        raise DeclarationError(
            "a source behind HTTP is one file, as a web server lists no folder: name the file, or read a folder from S3"
        )


def check_remote(address: str, store: RemoteStore) -> None:
    """Raise SourceError unless the file, or the folder that a pattern starts with, is there and may be read."""
    plain = re.split(r"[*?\[]", address, maxsplit=1)[0]
    place = address if plain == address else os.path.dirname(plain)
    _explain(address, lambda: store.info(_strip(place)))


def list_remote(folder: str, store: RemoteStore) -> list[str]:
    """Return the names in a folder on another machine, nothing where there is no such folder."""
    try:
        return [str(entry["name"]).rstrip("/").rpartition("/")[2] for entry in store.ls(_strip(folder))]
    except OSError:
        return []


def open_remote(address: str) -> RemoteFile:
    """Open a file on another machine; raises SourceError."""
    file: RemoteFile = _explain(address, lambda: remote_store(address).open(_strip(address)))
    return file


def find_remote(address: str) -> list[str]:
    """Return the addresses of the Parquet files of a folder, of those that meet a pattern, or of the one file."""
    if not address.endswith("/") and "*" not in address:
        return [address]
    scheme, _, path = address.partition("://")
    wanted = f"{path}*.parquet" if address.endswith("/") else path
    root = os.path.dirname(re.split(r"[*?\[]", path, maxsplit=1)[0])
    found = _explain(address, lambda: _walk(remote_store(address), root))
    return sorted(f"{scheme}://{name}" for name in found if fnmatch.fnmatchcase(name, wanted))


def remote_store(address: str) -> RemoteStore:
    """Return the store that an address lies in; raises SourceError where the library that reads it is not installed."""
    return _Bucket() if address.startswith("s3") else _Site(address.partition("://")[0])


class RemoteFile(io.RawIOBase):
    """Read a file of known size by ranges, from several threads at once.

    DuckDB lets the threads of one scan share a file, and each of them seeks and then reads: between the two another
    thread may seek. So a thread that has sought reads from its own place; one that has not goes on where the last ended.
    """

    def __init__(self, size: int, fetch: Callable[[int, int], bytes]) -> None:
        super().__init__()
        self.size = size
        self._fetch = fetch
        self._place = 0
        self._sought: dict[int, int] = {}
        self._block = (0, b"")
        self._lock = threading.Lock()

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the place from which this thread reads next."""
        with self._lock:
            return self._sought.get(threading.get_ident(), self._place)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set the place from which this thread reads next."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self.tell(), io.SEEK_END: self.size}[whence]
        with self._lock:
            self._place = self._sought[threading.get_ident()] = start + offset
        return start + offset

    def read(self, size: int | None = -1) -> bytes:
        """Return bytes up to the end of the file at most; raises OSError where they are not all to be had."""
        with self._lock:
            start = self._sought.pop(threading.get_ident(), self._place)
            left = max(self.size - start, 0)
            length = left if size is None or size < 0 else min(size, left)
            self._place = start + length
            at, block = self._block
            if at <= start and start + length <= at + len(block):
                return block[start - at : start - at + length]
        found = self._fetch(start, min(max(length, _BLOCK), left)) if length else b""
        if len(found) < length:
            raise OSError("the file ends before its end")
        if length < _BLOCK:
            with self._lock:
                self._block = (start, found)
        return found[:length]

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer as far as the file goes."""
        found = self.read(len(buffer))
        buffer[: len(found)] = found
        return len(found)


class _Bucket:
    """S3 by Arrow, which finds credentials and regions as Amazon's own tools do."""

    def __init__(self) -> None:
        from pyarrow.fs import S3FileSystem

        place = urlsplit(os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or "")
        other = {"endpoint_override": place.netloc, "scheme": place.scheme} if place.netloc else {}
        self._files = S3FileSystem(connect_timeout=_CONNECT, request_timeout=_READ, **other)

    def info(self, path: str) -> dict[str, Any]:
        [found] = self._list([path.rstrip("/")])
        return found

    def ls(self, path: str) -> list[dict[str, Any]]:
        from pyarrow.fs import FileSelector

        return self._list(FileSelector(path.rstrip("/")))

    def open(self, path: str) -> RemoteFile:
        size = self.info(path)["size"]
        file = self._files.open_input_file(path)
        return RemoteFile(size, lambda start, length: bytes(file.read_at(length, start)))

    def _list(self, wanted: Any) -> list[dict[str, Any]]:
        from pyarrow.fs import FileType

        refused = False
        try:
            entries = self._files.get_file_info(wanted)
        except OSError as failure:  # the one place where its words are looked at; they go no further
            refused = any(word in str(failure) for word in ("ACCESS_DENIED", "status 403", "status 401"))
            entries = None
        if entries is None:
            raise PermissionError("refused") if refused else OSError("not reached")
        if any(entry.type == FileType.NotFound for entry in entries):
            raise FileNotFoundError("missing")
        kinds = {FileType.Directory: "directory", FileType.File: "file"}
        return [{"name": e.path, "size": e.size or 0, "type": kinds.get(e.type, "other")} for e in entries]


class _Site:
    """A web server that answers Range requests; a file that changes between two of them is not read on."""

    def __init__(self, scheme: str) -> None:
        self._scheme = scheme
        self._client = _web_client()

    def info(self, path: str) -> dict[str, Any]:
        size, _ = self._size(path)
        return {"name": path, "size": size, "type": "file"}

    def ls(self, path: str) -> list[dict[str, Any]]:
        return [self.info(path)]

    def open(self, path: str) -> RemoteFile:
        size, state = self._size(path)

        def fetch(start: int, length: int) -> bytes:
            status, headers, found = self._range(path, start, length)
            part = headers.get("content-range", "").partition("-")[0]
            if (status, part, _state(headers)) != (206, f"bytes {start}", state) or _total(headers) != size:
                raise OSError("the file is not as it was")
            return found

        return RemoteFile(size, fetch)

    def _size(self, path: str) -> tuple[int, str]:
        """Return a file's length, and by what the server names its state."""
        status, headers, _ = self._range(path, 0, 1)
        if status in (401, 403, 407):
            raise PermissionError("refused")
        if status in (404, 410):
            raise FileNotFoundError("missing")
        if status == 200 and headers.get("content-length") != "0":
            raise io.UnsupportedOperation("no ranges")
        if status not in (200, 206, 416):
            raise OSError("another answer")
        return (0 if status == 200 else _total(headers)), _state(headers)

    def _range(self, path: str, start: int, length: int) -> tuple[int, Any, bytes]:
        """Return the status, the headers and the bytes of a part of a file; what is no such part is not read."""
        import httpx

        asked = {"Range": f"bytes={start}-{start + length - 1}", "Accept-Encoding": "identity"}
        try:
            with self._client.stream("GET", f"{self._scheme}://{path}", headers=asked) as answer:
                found = answer.read() if answer.status_code == 206 else b""
                return answer.status_code, answer.headers, found
        except (httpx.HTTPError, httpx.InvalidURL):
            pass
        raise OSError("not reached")


def _web_client() -> Any:
    try:
        import httpx
    except ImportError:
        raise SourceError(
            "files behind HTTP are read with httpx, which is not installed: pip install 'sordino[remote]'"
        ) from None
    try:
        auth = httpx.NetRCAuth(os.environ.get("NETRC"))
    except (OSError, ValueError, SyntaxError):  # there is no such file, or it cannot be read
        auth = None
    return httpx.Client(timeout=httpx.Timeout(_READ, connect=_CONNECT), auth=auth, follow_redirects=False)


def _total(headers: Any) -> int:
    """Return the length of the whole file, of which an answer holds a part."""
    said = headers.get("content-range", "").rpartition("/")[2]
    if not said.isdigit():
        raise io.UnsupportedOperation("no length")
    return int(said)


def _state(headers: Any) -> str:
    return str(headers.get("etag") or headers.get("last-modified") or "")


def _strip(address: str) -> str:
    return address.partition("://")[2]


def _walk(store: RemoteStore, folder: str) -> list[str]:
    """Return the names of all files below a folder."""
    found: list[str] = []
    for entry in store.ls(folder):
        found += _walk(store, entry["name"]) if entry["type"] == "directory" else [entry["name"]]
    return found


def _explain(address: str, work: Callable[[], Any]) -> Any:
    """Return what `work` does; a failure becomes a SourceError of our own words."""
    try:
        return work()
    except FileNotFoundError:
        cause = "is missing: there is no such file or folder"
    except PermissionError:
        where = "the environment or ~/.aws" if address.startswith("s3") else "~/.netrc"
        cause = f"cannot be read: the server refused, so check the credentials in {where} and their rights"
    except io.UnsupportedOperation:
        cause = "cannot be read in parts: the server answers no Range requests, so copy the file here"
    except OSError:
        cause = "cannot be read: the server cannot be reached, or answers otherwise than with the file"
    raise SourceError(f"source {address!r} {cause}")
