"""What each worker of pytest-xdist runs, and when it collects it: a plugin of pytest.

By itself every worker imports every file and makes an item of each of its tests, for twenty seconds of processor time, before the
first test runs anywhere. Here a worker lists the files, and collects one when it is that file's turn.
"""

from __future__ import annotations

import functools
import gc
import re
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from _pytest.runner import collect_one_node
from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import Scheduling

# Shares that take four seconds of processor time or more, the longest first: workers would wait for one that begins at the end
# of a run. Those that fork stand at the beginning: a fork copies what maps a worker's memory, which grows to a gigabyte.
LONG = (
    "spark",
    "tests/test_forks.py",
    "tests/series/test_state.py",
    "tests/core/ledger/test_concurrency.py",
    "tests/synth/test_pair_forest.py",
    "tests/test_mutants.py",
    "tests/core/estimates/test_formula.py",
    "tests/docs/test_tours.py",
    "tests/examples/test_examples.py",
    "tests/ask/curator/test_replicates.py",
    "tests/ask/engines/test_ibis.py",
    "tests/ask/engines/test_unit_windows.py",
    "tests/lab/risk/test_declared_tables.py",
    "tests/serve/workbench/test_pages.py",
    "tests/attacks/test_doors.py",
    "tests/ask/engines/test_sql_neighbors.py",
    "tests/serve/server/test_models_over_http.py",
    "tests/cli/serve/test_serve.py",
    "tests/clients/test_survey.py",
    "tests/reporting/test_charts.py",
    "tests/ask/engines/test_unit_rows.py",
    "tests/reporting/test_risks.py",
    "tests/ask/engines/test_collations.py",
    "tests/serve/assistant/test_tools.py",
    "tests/privacy/test_records.py",
    "tests/serve/server/test_busy_visitors.py",
    "tests/synth/test_sampling.py",
    "tests/lab/sensitivity/test_brute_force.py",
    "tests/reporting/test_every_release.py",
    "tests/fuzz/test_fuzz.py",
    "tests/test_architecture.py",
    "tests/synth/test_interval_coverage.py",
    "tests/privacy/test_transcripts.py",
    "tests/ask/engines/test_same_people.py",
    "tests/answers/test_seeded_answers.py",
    "tests/attacks/test_sql_injection.py",
    "tests/serve/server/test_open_files.py",
    "tests/ask/engines/test_postgres_questions.py",
    "tests/privacy/test_one_use.py",
    "tests/core/estimates/test_whole_values.py",
    "tests/cli/test_readme.py",
    "tests/cli/test_interrupt.py",
)


_TAKES_SPARK = re.compile(r'usefixtures\("spark"\)|^def \w+\([^)]*\bspark: ', re.MULTILINE)

_ROOT = Path(__file__).parent.parent


def name_share(nodeid: str) -> str:
    """Name the share of the tests that goes to one worker as a whole: a file, or all files that need one Java machine."""
    file = nodeid.partition("::")[0]
    return "spark" if needs_spark(file) else file


@functools.cache
def needs_spark(file: str) -> bool:
    """Return whether a file of tests needs the Java machine, by its name or by what its functions take.

    A file that took it in another worker would start a second machine there, for fifteen seconds.
    """
    path = _ROOT / file
    return path.name.startswith("test_spark") or (
        path.suffix == ".py" and path.exists() and re.search(_TAKES_SPARK, path.read_text(encoding="utf-8")) is not None
    )


def refuse_other_machines(items: list[pytest.Item]) -> None:
    """Raise if a test takes the Java machine, as pytest finds, and its file does not show it to `needs_spark`."""
    for item in items:
        if isinstance(item, pytest.Function) and "spark" in item.fixturenames and name_share(item.nodeid) != "spark":
            raise pytest.UsageError(f"{item.nodeid} takes the fixture spark, and `needs_spark` does not see it")


class LateFile(pytest.Item):
    """A file of tests that its worker collects when it runs it."""

    parent: pytest.File

    def runtest(self) -> None:
        """Never called: `LateFiles` runs the tests of the file in its place."""
        raise NotImplementedError


class LateFiles:
    """In a worker: one item a file, and the file's tests in its place when the worker comes to it."""

    def __init__(self) -> None:
        self._listing = True

    @pytest.hookimpl(tryfirst=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> pytest.CollectReport | None:
        """Do not open a file while files are listed."""
        if not self._listing or not isinstance(collector, pytest.File):
            return None
        # A file of Python may be collected twice, for its tests and for its doctests.
        late = LateFile.from_parent(collector, name=type(collector).__name__)
        return pytest.CollectReport(collector.nodeid, "passed", None, [late])

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Generator[None]:
        """Order the files, and show them to no other plugin: what -m and -k select are tests."""
        if not self._listing:
            return (yield)
        files = items[:]
        items.clear()
        yield
        # With --no-loadscope-reorder pytest-xdist hands out shares in the order of their first items.
        place = {share: number for number, share in enumerate(LONG)}
        size = {file.path: file.path.stat().st_size for file in files}
        items[:] = sorted(
            files, key=lambda file: (place.get(name_share(file.nodeid), len(LONG)), -size[file.path], file.nodeid)
        )
        self._listing = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Collect a file and run those of its tests that are selected."""
        if not isinstance(item, LateFile):
            return None
        session = item.session
        place = session.items.index(item)
        tests = self._collect(item)
        if not tests:
            # What the file before left set up is for the next one's folder.
            session._setupstate.teardown_exact(nextitem)
        for test, following in zip(tests, [*tests[1:], nextitem], strict=False):
            # The worker asks here which test the report is about.
            session.items[place] = test
            item.config.hook.pytest_runtest_protocol(item=test, nextitem=following)
            if session.shouldfail or session.shouldstop:
                break
        session.items[place] = item
        return True

    def _collect(self, late: LateFile) -> list[pytest.Item]:
        hook = late.config.hook
        # Nothing of what collecting makes is garbage.
        gc.disable()
        report = collect_one_node(late.parent)
        tests = [test for node in report.result for test in late.session.genitems(node)] if report.passed else []
        hook.pytest_collectreport(report=report)
        hook.pytest_collection_modifyitems(session=late.session, config=late.config, items=tests)
        gc.enable()
        return tests


class Shares:
    """Where the workers are started: hands out files, and says which test ran in a worker that died."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}

    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Producer) -> LoadFileScheduling:
        """Give each file of tests to one worker, and all files that need Spark to the same, so that one Java machine serves.

        The groups of pytest-xdist 3.8 cannot do this: they write a field of items that pytest 9.2 has no more.
        """
        scheduler = LoadFileScheduling(config, log)
        scheduler._split_scope = name_share
        return scheduler

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember the last test of each worker, whose setup is reported before its call."""
        node = getattr(report, "node", None)
        if node is not None:
            self._last[node.gateway.id] = report.nodeid

    def pytest_handlecrashitem(self, report: pytest.TestReport, sched: Scheduling) -> None:  # noqa: ARG002
        """Add the test to a report that names the file."""
        last = self._last.get(report.node.gateway.id)
        report.longrepr = f"{report.longrepr}, in or after {last}"


def register(config: pytest.Config) -> None:
    """Register what the process of this configuration needs."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Shares())
    elif not any("::" in arg for arg in config.args):
        config.pluginmanager.register(LateFiles())
