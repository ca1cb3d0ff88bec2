"""A disk that fails, tears a write in two, kills the process or loses its power at a chosen operation of SQLite.

SQLite's own functions for files are wrapped in this process, through ctypes: a copy of its default VFS opens the files, and
each write, truncation and sync of theirs passes `FaultyDisk.step` first. Nothing of Sordino's code is touched.
"""

from __future__ import annotations

import _sqlite3
import ctypes
import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import POINTER, Structure, c_char_p, c_int, c_int64, c_void_p
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Fault = Literal["kill", "tear", "full", "error"]

_FULL, _IO_ERROR, _SYNC_ERROR = 13, 778, 1034  # SQLITE_FULL, SQLITE_IOERR_WRITE, SQLITE_IOERR_FSYNC
SECTOR = 512

_WRITE = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_TRUNCATE = ctypes.CFUNCTYPE(c_int, c_void_p, c_int64)
_SYNC = ctypes.CFUNCTYPE(c_int, c_void_p, c_int)
_OPEN = ctypes.CFUNCTYPE(
    c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p
)  # parameters lie behind the name: no copy


class _Vfs(Structure):
    """The head of sqlite3_vfs, up to xOpen, and the functions after it."""

    _fields_ = [
        ("version", c_int),
        ("file_size", c_int),
        ("longest_name", c_int),
        ("next", c_void_p),
        ("name", c_char_p),
        ("data", c_void_p),
        ("open", c_void_p),
        ("others", c_void_p * 14),
    ]


class _Methods(Structure):
    """sqlite3_io_methods: the version, then 18 functions, of which write, truncate and sync are the 3rd to 5th."""

    _fields_ = [
        ("version", c_int),
        ("close", c_void_p),
        ("read", c_void_p),
        ("write", c_void_p),
        ("truncate", c_void_p),
        ("sync", c_void_p),
        ("others", c_void_p * 13),
    ]


@dataclass(frozen=True, slots=True)
class Operation:
    """State one operation on a file: a write at an offset, a truncation to a length, or a sync."""

    file: str
    kind: Literal["write", "truncate", "sync"]
    offset: int = 0
    data: bytes = b""


@dataclass
class FaultyDisk:
    """Count the operations, keep them where `log` is a list, and do `fault` at number `at`; a full disk stays full."""

    at: int = 0
    fault: Fault | None = None
    log: list[Operation] | None = None
    count: int = 0
    names: dict[int, str] = field(default_factory=dict)

    def step(self, operation: Operation, go: Callable[[bytes], int]) -> int:
        """Do the operation, or what is to happen in its place; return SQLite's code."""
        self.count += 1
        due = self.fault is not None and self.count == self.at
        if self.fault == "full" and self.count >= self.at and operation.kind == "write":
            return _FULL
        if due and self.fault in ("tear", "error"):
            go(operation.data[: len(operation.data) // 2])
        if due and self.fault in ("kill", "tear"):
            os.kill(os.getpid(), signal.SIGKILL)
        if due and self.fault == "error":
            return _SYNC_ERROR if operation.kind == "sync" else _IO_ERROR
        code = go(operation.data)
        if self.log is not None and code == 0:
            self.log.append(operation)
        return code


@contextmanager
def interpose(disk: FaultyDisk) -> Iterator[FaultyDisk]:
    """Let every SQLite file that this process opens from here on go through `disk`."""
    library = ctypes.CDLL(_sqlite3.__file__)
    library.sqlite3_vfs_find.restype = POINTER(_Vfs)
    library.sqlite3_vfs_find.argtypes = [c_char_p]
    library.sqlite3_vfs_register.argtypes = [POINTER(_Vfs), c_int]
    library.sqlite3_vfs_unregister.argtypes = [POINTER(_Vfs)]
    plain = library.sqlite3_vfs_find(None)
    vfs, tables = _Vfs.from_buffer_copy(plain.contents), dict[int, tuple[_Methods, list[Any]]]()
    vfs.name, real_open = b"faulty", _OPEN(plain.contents.open)

    def open_file(_own: int, name: int | None, file: int, flags: int, chosen: int) -> int:
        code = real_open(ctypes.addressof(plain.contents), name, file, flags, chosen)
        where = c_void_p.from_address(file)
        if where.value:
            disk.names[file] = Path(os.fsdecode(ctypes.string_at(name) if name else b"temporary")).name
            if where.value not in tables:
                tables[where.value] = _wrap(_Methods.from_address(where.value), disk)
            where.value = ctypes.addressof(tables[where.value][0])
        return int(code)

    kept = _OPEN(open_file)
    vfs.open = ctypes.cast(kept, c_void_p).value
    library.sqlite3_vfs_register(ctypes.byref(vfs), 1)
    try:
        yield disk
    finally:
        library.sqlite3_vfs_unregister(ctypes.byref(vfs))
        _KEPT.append((vfs, kept, tables))


_KEPT: list[Any] = []  # what a connection that is still open may call


def _wrap(real: _Methods, disk: FaultyDisk) -> tuple[_Methods, list[Any]]:
    """Return a copy of a table of methods whose writes, truncations and syncs go through `disk`."""
    table = _Methods.from_buffer_copy(real)
    write, truncate, sync = _WRITE(real.write), _TRUNCATE(real.truncate), _SYNC(real.sync)

    def write_through(file: int, data: int, size: int, offset: int) -> int:
        operation = Operation(disk.names[file], "write", offset, ctypes.string_at(data, size))
        return disk.step(operation, lambda part: write(file, part, len(part), offset) if part else 0)

    def truncate_through(file: int, size: int) -> int:
        return disk.step(Operation(disk.names[file], "truncate", size), lambda _: truncate(file, size))

    def sync_through(file: int, flags: int) -> int:
        return disk.step(Operation(disk.names[file], "sync"), lambda _: sync(file, flags))

    kept = [_WRITE(write_through), _TRUNCATE(truncate_through), _SYNC(sync_through)]
    table.write, table.truncate, table.sync = (ctypes.cast(one, c_void_p).value for one in kept)
    return table, kept


def lose_power(start: dict[str, bytes], log: list[Operation], draw: random.Random) -> dict[str, bytes]:
    """Return what the files may hold after a loss of power: all that was synced, and any sectors of what was not.

    Each sector of 512 bytes of a write that no sync of its file followed is there or not by itself; a file that grew
    has zeros where a later sector came through and an earlier one did not.
    """
    synced = {
        name: max((i for i, o in enumerate(log) if o.file == name and o.kind == "sync"), default=-1) for name in start
    }
    files = {name: bytearray(data) for name, data in start.items()}
    share = draw.choice([0.0, 0.2, 0.5, 0.8, 1.0])
    for i, operation in enumerate(log):
        if operation.file not in files:
            continue
        file, sure = files[operation.file], i <= synced[operation.file]
        if operation.kind == "truncate" and (sure or draw.random() < share):
            del file[operation.offset :]
        if operation.kind == "write":
            for begin in range(0, len(operation.data), SECTOR):
                if sure or draw.random() < share:
                    part, offset = operation.data[begin : begin + SECTOR], operation.offset + begin
                    file.extend(bytes(max(0, offset + len(part) - len(file))))
                    file[offset : offset + len(part)] = part
    return {name: bytes(data) for name, data in files.items()}
