"""A PostgreSQL server for tests: Debian's own package, run as an unprivileged user on a loopback port."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

_BINARIES = Path("/usr/lib/postgresql")
_MISSING = "PostgreSQL is not here: scripts/system-packages installs it (Debian's package postgresql)"


@dataclass(frozen=True, slots=True)
class Server:
    """A server that runs: its URL without a database, and how it is stopped and started again."""

    url: str
    control: tuple[str, ...]
    begin: tuple[str, ...]

    def start(self) -> None:
        """Start it, again where it was stopped."""
        subprocess.run([*self.control, *self.begin], check=True, capture_output=True, cwd="/")

    def stop(self, mode: str = "immediate") -> None:
        """Stop it: at once, or fast, as a shutdown does."""
        done = subprocess.run([*self.control, "-m", mode, "stop"], capture_output=True, cwd="/", check=False)
        assert done.returncode == 0, done.stderr

    def execute(self, *statements: str, database: str = "postgres") -> list[Any]:
        """Run statements, each by itself, and return the rows of the last one, where it has any."""
        import psycopg

        with psycopg.connect(f"{self.url}/{database}", autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []


def start(place: Path) -> Server:
    """Return a server whose data lie in a new directory; skips the test where PostgreSQL or psycopg is not installed."""
    pytest.importorskip("psycopg", reason="psycopg is not here: pip install 'sordino[postgres]'")
    found = shutil.which("initdb") or next(iter(sorted(map(str, _BINARIES.glob("*/bin/initdb")))), None)
    if found is None:
        pytest.skip(_MISSING)
    before: tuple[str, ...] = ()
    if os.getuid() == 0:  # it refuses to run as root
        if shutil.which("runuser") is None:
            pytest.skip("PostgreSQL refuses to run as root, and runuser is not here")
        before = ("runuser", "-u", "postgres", "--")
        shutil.chown(place, "postgres")
    data = place / "data"
    subprocess.run(
        [*before, found, "-D", data, "-A", "trust", "-U", "sordino"], check=True, capture_output=True, cwd="/"
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = f"-c port={port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={place} -c fsync=on"
    control = (*before, str(Path(found).parent / "pg_ctl"), "-D", str(data), "-w")
    server = Server(
        f"postgresql://sordino@127.0.0.1:{port}", control, ("-l", str(place / "log"), "-o", options, "start")
    )
    server.start()
    return server
