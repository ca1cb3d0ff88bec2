"""What all tests share."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import postgres_server as postgres
import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A Spark session on two threads; its tests are one group, so that only one worker starts it."""
    with tempfile.TemporaryDirectory(prefix="sordino-spark-", ignore_cleanup_errors=True) as place:
        session = spark_session.start(place)
        try:
            yield session
        finally:
            session.stop()
