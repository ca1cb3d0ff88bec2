"""What all tests share."""

from __future__ import annotations

import atexit
import functools
import gc
import gzip
import itertools
import json
import os
import re
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
from hypothesis.internal.charmap import charmap_file
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants
from xdist.scheduler import LoadFileScheduling

import doctest_files
import postgres_server as postgres
import spark_session
from attack_table import label_attacks, summarize
from sordino.core import registration

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.remote import Producer


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


def write_characters_of_utf8() -> None:
    """Write down which characters UTF-8 has, all but surrogates, where hypothesis keeps what it found by trying each.

    In a fresh clone each worker would look for two seconds, at its first test that draws a text.
    """
    kept = Path(charmap_file("codec-v2-utf-8"))
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        written = kept.with_name(f"{kept.name}.{os.getpid()}")
        written.write_bytes(gzip.compress(json.dumps([[[0, 0xD7FF], [0xE000, 0x10FFFF]], []]).encode()))
        written.replace(kept)


# A shell lets its jobs in the background ignore Ctrl-C, and commands inherit that: one that a test interrupts would not stop.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Shares of few tests that take four seconds of processor time or more, the longest first. Workers take shares of many tests
# first, and would wait for these at the end of a run. Those that fork stand at the beginning: a fork copies what maps a worker's
# memory, which grows to a gigabyte.
LONG = (
    "spark",
    "tests/test_forks.py",
    "tests/series/test_state.py",
    "tests/core/ledger/test_concurrency.py",
    "tests/docs/test_tours.py",
    "tests/test_mutants.py",
    "docs/models.md",
    "tests/serve/workbench/test_pages.py",
    "tests/models/test_validation.py",
    "tests/reporting/test_charts.py",
    "tests/local/collector/test_patient_http.py",
    "tests/local/collector/test_app.py",
    "tests/serve/server/test_models_over_http.py",
    "tests/serve/server/test_two_persons.py",
    "tests/synth/test_triples.py",
    "tests/synth/evaluation/test_numeric_figures.py",
    "tests/reporting/test_every_release.py",
    "tests/cli/synth/test_synth_report.py",
    "tests/reporting/test_synth.py",
    "tests/synth/test_fitting.py",
    "tests/test_architecture.py",
    "tests/ask/engines/test_sql_neighbors.py",
    "tests/ask/engines/test_same_people.py",
    "tests/fuzz/test_fuzz.py",
    "tests/attacks/test_doors.py",
    "tests/serve/workbench/test_classroom.py",
    "tests/serve/server/test_busy_visitors.py",
    "tests/clients/test_survey.py",
    "tests/core/ledger/test_postgres_ledger.py",
    "tests/local/collector/test_store.py",
    "tests/ask/engines/test_postgres_failures.py",
    "tests/examples/test_schedule.py",
    "tests/cli/serve/test_serve.py",
    "tests/examples/test_examples.py",
    "tests/models/test_gradient_vector.py",
    "tests/ask/engines/test_far_files.py",
    "tests/serve/server/test_server_kill.py",
    "tests/ask/curator/test_replicates.py",
    "tests/privacy/test_records.py",
    "tests/serve/workbench/test_repeat.py",
    "tests/reporting/test_risks.py",
    "tests/synth/test_pair_forest.py",
)
# What comes first among the deep tests: those that fork, and files of few tests that take a minute or more.
LONG_DEEP = (
    "spark",
    "tests/test_mutants.py",
    "tests/test_forks.py",
    "tests/series/test_state.py",
    "tests/core/ledger/test_concurrency.py",
    "tests/core/ledger/test_under_fire.py",
    "tests/core/ledger/test_shares.py",
    "tests/serve/server/test_server_kill.py",
    "tests/privacy/test_neighbors.py",
    "tests/synth/test_interval_coverage.py",
    "tests/synth/test_reference_numbers.py",
    "tests/models/test_median_lines.py",
    "tests/ask/curator/test_priced_is_answered.py",
    "tests/core/estimates/test_interval_bench.py",
    "tests/attacks/test_noise_timing.py",
    "tests/ask/engines/test_postgres_extremes.py",
    "tests/answers/test_right_answers.py",
)


_TAKES_SPARK = re.compile(r'usefixtures\("spark"\)|^def \w+\([^)]*\bspark: ', re.MULTILINE)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling:
    """Give each file of tests to one worker, and all files that need Spark to the same, so that one Java machine serves.

    The groups of pytest-xdist 3.8 cannot do this: they write a field of items that pytest 9.2 has no more.
    """
    scheduler = LoadFileScheduling(config, log)
    scheduler._split_scope = name_share
    return scheduler


def name_share(nodeid: str) -> str:
    """Name the share of the tests that goes to one worker as a whole: a file, or all files that need one Java machine."""
    file = nodeid.partition("::")[0]
    return "spark" if needs_spark(file) else file


@functools.cache
def needs_spark(file: str) -> bool:
    """Return whether a file of tests needs the Java machine, by its name or by what its functions take.

    A file that took it in another worker would start a second machine there, for fifteen seconds.
    """
    path = Path(__file__).parent.parent / file
    return path.name.startswith("test_spark") or (
        path.suffix == ".py" and re.search(_TAKES_SPARK, path.read_text(encoding="utf-8")) is not None
    )


def pytest_configure(config: pytest.Config) -> None:
    # Of what is drawn, one part in twenty are constants that hypothesis reads out of every file that is loaded, sources and tests
    # alike: each worker of a fresh clone would parse a thousand files. The deep tests draw them.
    if config.option.markexpr == "not deep":
        pytest.MonkeyPatch().setattr(providers, "_get_local_constants", Constants, raising=False)
    # What stands in this file is asked of the files below tests alone.
    config.pluginmanager.register(doctest_files)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let each worker begin to collect at another test file, and go round.

    pytest rewrites the assertions of 550 files, for ten seconds of processor time, and keeps what it made of them: workers that
    begin at the same file would all do that in a fresh clone, and each has a part of it to do where they begin apart.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        worker = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
        workers = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        args = session.config.args
        if "tests" in args:
            files = sorted(str(path) for path in Path("tests").rglob("test_*.py"))
            begin = worker * len(files) // workers
            place = args.index("tests")
            args[place : place + 1] = files[begin:] + files[:begin]


def pytest_pycollect_makeitem(collector: pytest.Collector, obj: object) -> list[pytest.Item] | None:
    """Collect no test that is marked deep where deep tests are left out: they are half, and each worker would make them."""
    marks = getattr(obj, "pytestmark", [])
    if collector.config.option.markexpr == "not deep" and any(mark.name == "deep" for mark in marks):
        return []
    return None


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Leave all but each n-th case of a test marked `each(n)` to the deep tests; make no case that is left out."""
    mark = metafunc.definition.get_closest_marker("each")
    if mark is not None:
        for number, case in enumerate(metafunc._calls):
            if number % mark.args[0]:
                case.marks.append(pytest.mark.deep.mark)
    if metafunc.config.option.markexpr == "not deep":
        cases = [case for case in metafunc._calls if all(mark.name != "deep" for mark in case.marks)]
        # Of a function without cases pytest makes one test: where all are deep one stays, which its mark leaves out.
        metafunc._calls = cases or metafunc._calls[:1]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the tests of a worker by their shares."""
    label_attacks(items)
    # With --no-loadscope-reorder pytest-xdist hands out shares in the order of their first tests.
    if "PYTEST_XDIST_WORKER" in os.environ:
        tests = Counter(name_share(item.nodeid) for item in items)
        long = tuple(dict.fromkeys((*LONG_DEEP, *LONG))) if config.option.markexpr == "deep" else LONG
        rest = sorted((share for share in tests if share not in long), key=lambda share: (-tests[share], share))
        place = {share: number for number, share in enumerate([*long, *rest])}
        # Of two files in one share the names decide: each worker has collected them in an order of its own.
        items.sort(key=lambda item: (place[name_share(item.nodeid)], item.nodeid.partition("::")[0]))


def pytest_collection_finish() -> None:
    """Take what is loaded by now out of every later collection of garbage: it stays to the end."""
    write_characters_of_utf8()
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
