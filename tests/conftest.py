"""What all tests share."""

from __future__ import annotations

import atexit
import gc
import itertools
import os
import shutil
import signal
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

import doctest_files
import postgres_server as postgres
import shares
import spark_session
from attack_table import label_attacks, summarize
from sordino.core import registration

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# A ledger is on the disk before a question is answered: ten waits a test, of 6 ms each, where the disk is one. In memory nothing
# waits, and what a test that passes has written is removed after it (pyproject.toml).
MEMORY = Path("/dev/shm")
if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 8 * 2**30:
    os.environ["TMPDIR"] = str(MEMORY)
    tempfile.tempdir = None  # pytest has asked for it before


# OpenBLAS starts a thread for each core, and each waits for work in a loop: a fit of five numbers by scipy took eight times its
# own processor time, and two workers took it from each other. This is read where numpy is first imported, after this file.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


# Each client of httpx reads the 140 certificates of certifi, for 25 ms. Tests speak to this machine alone, whose certificates
# they name: one authority that signed nothing will do.
os.environ.setdefault("SSL_CERT_FILE", str(Path(__file__).parent / "data" / "authority.pem"))


# Collecting garbage took a third of the time in which tests are collected, and a tenth of that in which they run: modules, tests
# and parameters are a million objects that no collection frees. While tests are collected there is none.
gc.disable()
gc.set_threshold(50_000, 20, 20)


def keep_out_of_collections() -> None:
    """Let a forked process collect no garbage.

    A worker late in a run holds a gigabyte of small objects, which a fork shares until it writes to them. One full collection
    in a fork writes to all: 64 forks that happen to collect at once fill a machine of 24 GiB, and the kernel kills the worker.
    """
    gc.disable()
    gc.freeze()


os.register_at_fork(after_in_child=keep_out_of_collections)


# By themselves hypothesis ends a case after 200 ms and a test whose cases take a second to draw: on a busy machine any does.
PATIENT = [hypothesis.HealthCheck.too_slow]
hypothesis.settings.register_profile("patient", deadline=None, suppress_health_check=PATIENT)
# For mutants, each of which is to fail: the least example that fails would be searched for minutes, and nobody reads it.
GENERATE = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
hypothesis.settings.register_profile("mutants", deadline=None, suppress_health_check=PATIENT, phases=GENERATE)
hypothesis.settings.load_profile("patient")


# A shell lets its jobs in the background ignore Ctrl-C, and commands inherit that: one that a test interrupts would not stop.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    # What stands in this file is asked of the files below tests alone.
    config.pluginmanager.register(doctest_files)
    shares.register(config)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave all but each n-th case of a test marked `each(n)` to the deep tests."""
    seen = Counter[str]()
    for item in items:
        mark = item.get_closest_marker("each")
        if mark is not None:
            test = item.nodeid.partition("[")[0]
            if seen[test] % mark.args[0]:
                item.add_marker("deep")
            seen[test] += 1
    label_attacks(items)
    shares.refuse_other_machines(items)


def pytest_collection_finish() -> None:
    """Take what is loaded by now out of every later collection of garbage: it stays to the end."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """End a worker at once; in a process without workers let all go, or libraries would tell of what they take for leaks."""
    # A test may run pytest in a process of its own, which takes over the environment and is no worker.
    if hasattr(config, "workerinput"):
        # All is reported by now. Python would take a worker's million objects apart one by one, for five seconds.
        atexit._run_exitfuncs()
        os._exit(0)
    gc.unfreeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say of each attack whether it held, where attacks were asked for."""
    if config.option.markexpr != "attack":
        return
    stats = terminalreporter.stats
    outcomes = ("passed", "failed", "error", "skipped")
    reports = [(outcome, report) for outcome in outcomes for report in stats.get(outcome, [])]
    terminalreporter.section("attacks")
    for name, source, tried, verdict, places in summarize(reports):
        terminalreporter.write_line(f"{verdict:9}  {name}")
        terminalreporter.write_line(f"           source: {source}; tried: {tried}")
        terminalreporter.write_line(f"           where: {places}")


_STATES = itertools.count()


@pytest.fixture(autouse=True, scope="session")
def state_of_wider_fixtures(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the marks of ledgers that a module's fixtures open out of the user's own state, where they outlive the ledgers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SORDINO_STATE", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Keep each test's high-water marks in a directory of its own, which is there once there is one."""
    place = tmp_path_factory.getbasetemp() / f"state{next(_STATES)}"
    monkeypatch.setenv("SORDINO_STATE", str(place))
    yield place
    if place.exists():
        shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
def before_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register as a curator's own process does, before its first table: other tests of this process opened some."""
    monkeypatch.setattr(registration, "_first_table", "")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[postgres.Server]:
    """A PostgreSQL server of our own on a loopback port; skipped where it is not installed."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # syncs cost nothing there
    with tempfile.TemporaryDirectory(prefix="sordino-postgres-", dir=memory, ignore_cleanup_errors=True) as place:
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
    """A Spark session on two threads, for the one worker that has all of its tests."""
    with tempfile.TemporaryDirectory(prefix="sordino-spark-", ignore_cleanup_errors=True) as place:
        session = spark_session.start(place)
        try:
            yield session
        finally:
            session.stop()
