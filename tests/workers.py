"""Tests in several processes: `pytest --workers 2` starts two, each of which takes file after file, collects it and runs it.

So each file is collected once and not by every worker, none waits for the other, and what passed comes home as a few words: at
13,000 tests pytest-xdist spent a tenth of a run on that. A worker that dies ends the run, with the name of its test.
"""

from __future__ import annotations

import fcntl
import gc
import os
import pickle
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import IO, Any

import pytest

# How a worker is told which files were taken, and to whom it tells its reports.
_TAKEN, _TOLD = "SORDINO_TESTS_TAKEN", "SORDINO_TESTS_TOLD"

Share = Callable[[str], str]


def add_options(parser: pytest.Parser) -> None:
    """Add --workers."""
    parser.addoption("--workers", type=int, default=0, help="run files of tests in so many processes; 0: in this one")


def start(config: pytest.Config, share: Share, first: Sequence[str]) -> None:
    """Let this process be one of the workers, or start them, where the command line asks for any.

    Files of one `share` go to one worker, in turn. Shares of the names `first` are taken first, then the longest files.
    """
    if not config.option.workers:
        return
    if _TAKEN in os.environ:
        config.pluginmanager.unregister(name="terminalreporter")
        config.pluginmanager.register(_Worker(config, share, first), "sordino-worker")
    else:
        config.pluginmanager.register(_Workers(config), "sordino-workers")


class _Workers:
    """The process that starts the workers: it collects nothing, and shows what they report."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.told: queue.Queue[tuple[int, str, Any]] = queue.Queue()
        self.running: dict[int, str] = {}  # the test of each worker

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> bool:
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        with tempfile.NamedTemporaryFile() as taken:
            workers = [self._start(number, taken.name) for number in range(self.config.option.workers)]
            try:
                self._listen(session, workers)
                for worker in workers:
                    worker.wait(timeout=600)
            finally:
                for worker in workers:
                    worker.terminate()
        return True

    def _start(self, number: int, taken: str) -> subprocess.Popen[bytes]:
        heard, told = os.pipe()
        words = [sys.executable, "-m", "pytest", *self.config.invocation_params.args]
        environment = {**os.environ, _TAKEN: taken, _TOLD: str(told)}
        worker = subprocess.Popen(
            words, cwd=self.config.invocation_params.dir, env=environment, pass_fds=[told], stdin=subprocess.DEVNULL
        )
        os.close(told)
        self.running[number] = "before its first test"
        threading.Thread(target=self._hear, args=(number, os.fdopen(heard, "rb")), daemon=True).start()
        return worker

    def _hear(self, number: int, heard: IO[bytes]) -> None:
        with heard, suppress(EOFError, pickle.UnpicklingError):
            while True:
                self.told.put((number, *pickle.load(heard)))

    def _listen(self, session: pytest.Session, workers: Sequence[subprocess.Popen[bytes]]) -> None:
        """Hand on what the workers report, until all have ended."""
        hook = self.config.hook
        while self.running:
            try:
                number, kind, what = self.told.get(timeout=1)
            except queue.Empty:
                # The pipe of one that died may still be open, in a process that a test of it forked.
                dead = [number for number in self.running if workers[number].poll() is not None]
                if dead and self.told.empty():
                    session.shouldfail = f"a worker died: {self.running[dead[0]]}"
                    raise session.Failed(session.shouldfail) from None
                continue
            if kind == "start":
                self.running[number] = what[0]
                hook.pytest_runtest_logstart(nodeid=what[0], location=what[1])
            elif kind == "passed":
                report = pytest.TestReport(keywords={}, outcome="passed", longrepr=None, **what)
                session.testscollected += report.when == "call"
                hook.pytest_runtest_logreport(report=report)
            elif kind == "report":
                report = hook.pytest_report_from_serializable(config=self.config, data=what)
                if isinstance(report, pytest.TestReport):
                    session.testscollected += report.when == "call" or not report.passed
                    hook.pytest_runtest_logreport(report=report)
                else:
                    hook.pytest_collectreport(report=report)
            elif kind == "warning":
                hook.pytest_warning_recorded.call_historic(kwargs=what)
            elif kind == "end":
                del self.running[number]
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)


class _Worker:
    """One of the workers: it takes shares of files until none is left."""

    def __init__(self, config: pytest.Config, share: Share, first: Sequence[str]) -> None:
        self.config = config
        self.share = share
        self.first = first
        self.nodes: list[Any] | None = None
        self.shares: list[list[Any]] = []
        self.taken = os.open(os.environ[_TAKEN], os.O_RDWR)
        self.told = os.fdopen(int(os.environ.pop(_TOLD)), "wb")
        os.set_inheritable(self.told.fileno(), False)
        # Commands that tests start are no workers.
        del os.environ[_TAKEN]

    def tell(self, kind: str, what: Any) -> None:
        self.told.write(pickle.dumps((kind, what)))
        self.told.flush()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> bool:
        """Find the files, and collect none of them."""
        # This hook stands in for all others, of which one is needed: it says whose asserts are rewritten.
        self.config.pluginmanager.get_plugin("assertion").pytest_collection(session)
        self.nodes = []
        session.perform_collect(genitems=False)
        named: dict[str, list[Any]] = {}
        for node in [file for folder in self.nodes for file in _files_of(folder)]:
            named.setdefault(self.share(node.nodeid.partition("::")[0]), []).append(node)
        self.nodes = None

        def place(share: str) -> tuple[int, int]:
            if share in self.first:
                return self.first.index(share), 0
            return len(self.first), -sum(node.path.stat().st_size for node in named[share])

        self.shares = [named[share] for share in sorted(named, key=place)]
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Keep folders and files from being taken for tests."""
        if self.nodes is not None:
            self.nodes[:] = items
            items.clear()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        while (number := self._take()) < len(self.shares):
            items = [item for node in self.shares[number] for item in session.genitems(node)]
            self.config.hook.pytest_collection_modifyitems(session=session, config=self.config, items=items)
            session.testscollected += len(items)
            gc.collect()
            gc.freeze()
            # After the last test of a share all is closed but what is the session's, such as a server.
            following: list[Any] = [*items[1:], session]
            for item, after in zip(items, following, strict=False):
                self.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
                if session.shouldfail or session.shouldstop:
                    break
            if session.shouldfail or session.shouldstop:
                break
        self.tell("end", None)
        return True

    def _take(self) -> int:
        """Return the number of the next share, which no other worker has."""
        fcntl.lockf(self.taken, fcntl.LOCK_EX)
        try:
            number = int(os.pread(self.taken, 20, 0) or b"0")
            os.pwrite(self.taken, str(number + 1).encode(), 0)
        finally:
            fcntl.lockf(self.taken, fcntl.LOCK_UN)
        return number

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if not report.passed:
            self.tell("report", self.config.hook.pytest_report_to_serializable(config=self.config, report=report))

    def pytest_runtest_logstart(self, nodeid: str, location: Any) -> None:
        self.tell("start", (nodeid, location))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome != "passed" or hasattr(report, "wasxfail"):
            self.tell("report", self.config.hook.pytest_report_to_serializable(config=self.config, report=report))
        else:
            names = ("nodeid", "location", "when", "sections", "duration", "start", "stop", "user_properties")
            self.tell("passed", {name: getattr(report, name) for name in names})

    def pytest_warning_recorded(self, warning_message: Any, when: Any, nodeid: str, location: Any) -> None:
        told = {"warning_message": warning_message, "when": when, "nodeid": nodeid, "location": location}
        try:
            pickle.dumps(told)
        except Exception:  # a warning of a class that only its test has
            return
        self.tell("warning", told)


def _files_of(node: Any) -> Iterator[Any]:
    """Yield the files in a folder, or what else the command line names."""
    if not isinstance(node, pytest.Directory):
        yield node
        return
    report = node.ihook.pytest_make_collect_report(collector=node)
    for child in report.result if report.passed else ():
        yield from _files_of(child)
