"""When answers leave: on the public clock alone, whatever the table and however long the work took - refusals too."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from serving import Served, served
from sordino.ask.engines.duckdb import DuckDBEngine
from sordino.ask.project.serve_settings import serve_settings
from sordino.core.errors import DeclarationError
from sordino.serve.server.answer_time import PublicClock

EVERY = 0.25


@pytest.mark.parametrize(
    ("took", "leaves"),
    [
        (0, 1),
        (0.1, 1),
        (0.249, 1),
        (0.25, 1),
        (0.251, 2),
        (0.5, 2),
        (0.51, 4),
        (1.0, 4),
        (1.01, 8),
        (7.9, 32),
        (8.1, 64),
    ],
)
def test_departures_are_powers_of_two(took: float, leaves: int) -> None:
    clock = PublicClock(Fraction(1, 4), clock=lambda: 100 + took)
    assert took + clock.wait(100) == pytest.approx(EVERY * leaves)


@pytest.mark.parametrize("took", [0, 0.1, 7.9])
def test_without_a_tick_answers_leave_when_they_are_ready(took: float) -> None:
    settings = serve_settings({"answer_every": "0s"}, beside=Path("/srv"))
    assert PublicClock(settings.answer_every, clock=lambda: 100 + took).wait(100) == 0


@pytest.mark.parametrize("text", ["-1s", "61s", "0", "fast", ""])
def test_a_tick_that_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(DeclarationError, match='"0s" where how long an answer takes may be known'):
        serve_settings({"answer_every": text}, beside=Path("/srv"))


def test_a_clock_that_was_set_back_waits_a_tick_and_no_less() -> None:
    assert PublicClock(Fraction(1, 4), clock=lambda: 50).wait(100) == EVERY


@contextmanager
def recorded(server: Served, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """Give the moments, counted from their requests, at which answers leave."""
    found: list[float] = []
    wait = PublicClock.wait

    def note(clock: PublicClock, started: float) -> float:
        left = wait(clock, started)
        found.append((time.monotonic() - started + left) / float(server.service.settings.answer_every))
        return 0.0  # the moment counts, not the sleep

    with monkeypatch.context() as patched:
        patched.setattr(PublicClock, "wait", note)
        yield found


@pytest.mark.attack(
    "tell what a table holds from the time of an answer",
    source="Haeberlen, Pierce, Narayan 2011, Differential privacy under fire",
)
def test_neighboring_tables_leave_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row more makes the work longer here, by a stated time: what leaves tells its size class at most."""
    run, extra = DuckDBEngine.run, [0.0]

    def slow(engine: DuckDBEngine, select: Any) -> Any:
        time.sleep(extra[0])
        return run(engine, select)

    monkeypatch.setattr(DuckDBEngine, "run", slow)
    # Longer than any of them takes, however busy the machine: nobody waits for it.
    tick = Fraction(64)
    with served(tmp_path, serve="") as server:
        object.__setattr__(server.service, "public_clock", PublicClock(tick))
        object.__setattr__(server.service.settings, "answer_every", tick)
        with recorded(server, monkeypatch) as moments:
            for extra[0] in (0.0, 0.05, 0.0, 0.05, 0.2):
                assert server.ask(epsilon="0.01").status_code == 200
            assert server.ask(epsilon="5").status_code == 402
            assert server.ask("SELECT nope FROM people").status_code == 422
    assert moments == pytest.approx([1.0] * 7, rel=1e-2)


def test_a_failure_after_the_charge_leaves_on_the_clock_too(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("a cell: 17")

    monkeypatch.setattr(DuckDBEngine, "run", fail)
    with recorded(server, monkeypatch) as moments:
        failed = server.ask(key="k")
    assert (failed.status_code, failed.json()["exit_code"], "17" in failed.text) == (500, 5, False)
    assert moments[0] == pytest.approx(2 ** round(moments[0]).bit_length() / 2, rel=0.05)
    again = server.ask(key="k")
    assert (again.status_code, again.json()["charge"]) == (500, "c-0001")  # the charge stands, and there is no second
    lines = server.send("GET", "/v1/audit", who="udo").json()["lines"]
    assert [line["outcome"] for line in lines if line["action"] == "question.ask"] == ["ChargedError"] * 2


@pytest.mark.deep
@pytest.mark.parametrize("slower", [0.0, 0.03])
def test_times_to_answer_of_neighboring_tables_cannot_be_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slower: float
) -> None:
    """Ask a table and one with a row more, 250 times each in random order: ticks are powers of two, and alike.

    A rank test raises a false alarm in 1 of 10,000 runs. To see that it has power, a neighbor is made slower by 1.5 ticks.
    """
    run, late = DuckDBEngine.run, [0.0]

    def delay(engine: DuckDBEngine, select: Any) -> Any:
        time.sleep(late[0])
        return run(engine, select)

    monkeypatch.setattr(DuckDBEngine, "run", delay)
    moments: tuple[list[float], list[float]] = ([], [])
    with ExitStack() as stack:
        servers = []
        for which, rows in enumerate((2000, 2001)):
            (tmp_path / str(which)).mkdir()
            server = stack.enter_context(served(tmp_path / str(which), rows=rows))
            object.__setattr__(server.service, "public_clock", PublicClock(Fraction(1, 50)))
            object.__setattr__(server.service.settings, "answer_every", Fraction(1, 50))
            server.ask(epsilon="0.001")
            servers.append(server)
        order = random.Random(3).sample([0, 1] * 250, 500)
        for which in order:
            late[0] = slower * which
            with recorded(servers[which], monkeypatch) as seen:
                assert servers[which].ask(epsilon="0.001").status_code == 200
            moments[which].append(round(seen[0]))
    # A busy machine wakes a few of them a tick late, whichever table was asked.
    powers = [moment.bit_count() == 1 for one in moments for moment in map(int, one)]
    assert sum(powers) >= 0.95 * len(powers)
    # Imported here, since it takes a second in each worker.
    from scipy import stats

    alike = stats.mannwhitneyu(*moments).pvalue > 1e-4
    assert alike == (not slower)
