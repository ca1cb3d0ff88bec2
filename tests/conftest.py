"""What all tests share."""

import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

import postgres_server as postgres


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep each test's high-water marks in its own directory."""
    monkeypatch.setenv("SORDINO_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[postgres.Server]:
    """A PostgreSQL server of our own on a loopback port; skipped where it is not installed."""
    with tempfile.TemporaryDirectory(prefix="sordino-postgres-", ignore_cleanup_errors=True) as place:
        server = postgres.start(Path(place))
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture
def postgres_database(postgres_server: postgres.Server) -> str:
    """The URL of a new database of that server, in UTF-8."""
    name = f"t{uuid.uuid4().hex}"
    postgres_server.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")
    return f"{postgres_server.url}/{name}"
