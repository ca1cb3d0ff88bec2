"""The state of a series on durable ledgers: opened again, killed, lost, restored, and shared by processes."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import sordino as sd
from postgres_server import Server
from series.streams import FIRST, ROWS, check_numbers, day, domain, fine_numbers, open_series, open_table
from sordino.core.ledger.high_water_mark import marks_directory
from sordino.core.ledger.restoration import move_ledger, restore_ledger
from sordino.core.ledger.series_ledger import SeriesLedger
from sordino.errors import LedgerError, QuestionRefused, SourceError

FORK = multiprocessing.get_context("fork")


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory of its own: marks and keys of ledgers."""
    directory = tmp_path / "state"
    monkeypatch.setenv("SORDINO_STATE", str(directory))
    return directory


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "people.ledger"


def open_at(path: Path | str, **options: Any) -> tuple[sd.Curator, Any]:
    people = open_table(ROWS, ledger=path)
    return people, open_series(people, **options)


def key_file(path: Path | str) -> Path:
    """Return the file of the outer half of a ledger's keys."""
    return marks_directory().parent / "keys" / sd.Ledger.existing(path).id


def test_a_series_goes_on_in_another_process(path: Path) -> None:
    people, series = open_at(path)
    first = series.release(FIRST)
    people.ledger.close()

    def go_on() -> None:
        _, reopened = open_at(path)
        assert reopened.release(FIRST) == first
        reopened.release(day(1))

    process = FORK.Process(target=go_on)
    process.start()
    process.join()
    assert process.exitcode == 0
    people, series = open_at(path)
    assert series.periods == ["2026-11-01", "2026-11-02"]
    assert people.spent == sd.ZCDP("0.5")
    assert people.ledger.verify().committed == 1
    check_numbers(people)


def test_handles_of_one_series_draw_one_sequence_of_noise(path: Path) -> None:
    for number in (0, 1, 4):
        people, series = open_at(path)
        series.release(day(number))
        check_numbers(people)
        people.ledger.close()


def test_a_durable_series_has_a_name(path: Path) -> None:
    people = open_table(ROWS, ledger=path)
    with pytest.raises(QuestionRefused, match="a series on a durable ledger has a name"):
        open_series(people, name=None)
    assert people.spent == sd.ZCDP(0)


def test_the_key_lies_outside_of_the_ledger(path: Path) -> None:
    people, series = open_at(path)
    series.release(FIRST)
    outer = key_file(path)
    assert outer.stat().st_mode & 0o777 == 0o600
    assert len(outer.read_bytes()) == 32
    ledger = SeriesLedger(people.ledger)
    key = ledger.key(ledger.get("wards"), private=True)
    # Neither the whole key nor its outer half is in the ledger's files, nor is any half in an entry.
    texts = b"".join(file.read_bytes() for file in path.parent.glob("people.ledger*"))
    for secret in (outer.read_bytes(), key._key):
        assert secret not in texts
        assert secret.hex().encode() not in texts
    entries = repr(people.ledger.entries())
    assert all(half.hex() not in entries for half in key.halves)
    assert key.halves[1].hex() not in repr(ledger.get("wards"))


def _lose(outer: Path) -> None:
    outer.unlink()


def _swap(outer: Path) -> None:
    outer.write_bytes(bytes(32))


def _cut(outer: Path) -> None:
    outer.write_bytes(bytes(31))


LOST: list[tuple[Callable[[Path], None], str]] = [
    (_lose, "the series 'wards' cannot go on: its key is not on this machine"),
    (_swap, "is not the key that it was opened with"),
    (_cut, "the key of this ledger's series is damaged"),
]


@pytest.mark.parametrize(("harm", "words"), LOST, ids=["gone", "another", "cut short"])
def test_a_lost_key_ends_the_series_and_nothing_else(path: Path, harm: Callable[[Path], None], words: str) -> None:
    people, series = open_at(path)
    first = series.release(FIRST)
    outer = key_file(path)
    whole = outer.read_bytes()
    harm(outer)
    people, series = open_at(path)
    head = people.ledger.head()
    with pytest.raises(LedgerError, match=words):
        series.release(day(1))
    assert series.release(FIRST) == first
    assert people.ledger.head() == head
    assert people.spent == sd.ZCDP("0.5")
    # found again, it goes on
    outer.write_bytes(whole)
    series.release(day(1))


def test_a_key_that_is_gone_is_not_made_anew(path: Path) -> None:
    """Another series of the ledger would get a key of which the first one's is no half."""
    people, _ = open_at(path)
    key_file(path).unlink()
    with pytest.raises(LedgerError, match="Put it there from the machine that opened the first one"):
        open_series(people, name="others")
    assert people.spent == sd.ZCDP("0.5")


def test_noise_that_is_drawn_otherwise_ends_the_series(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by another version of the sampler: totals would no longer be those that were released."""
    _, series = open_at(path)
    series.release(FIRST)
    people, series = open_at(path)
    head = people.ledger.head()
    monkeypatch.setattr("sordino.core.noise.rng.NoiseKey._digest", lambda *_: bytes(32))
    with pytest.raises(LedgerError, match="cannot go on"):
        series.release(day(1))
    assert people.ledger.head() == head


def test_a_restored_older_ledger_ends_the_series(path: Path) -> None:
    people, series = open_at(path)
    series.release(FIRST)
    people.ledger.close()
    copy = path.with_name("copy")
    shutil.copyfile(path, copy)
    people, series = open_at(path)
    series.release(day(1))
    people.ledger.close()
    for file in path.parent.glob("people.ledger*"):
        file.unlink()
    # put back as it is, the ledger itself is refused
    shutil.copyfile(copy, path)
    with pytest.raises(LedgerError, match="rolled back"):
        open_at(path)
    restore_ledger(path, reason="the disk was lost").close()
    people, series = open_at(path)
    with pytest.raises(LedgerError, match="the series 'wards' has ended: its ledger was restored from an older copy"):
        series.release(day(1))
    assert series.periods == ["2026-11-01"]
    people.ledger.verify()
    # its half of the key is gone from the file too
    assert SeriesLedger(people.ledger).get("wards").secret == ""


def test_a_ledger_without_its_mark_ends_the_series(path: Path) -> None:
    """With the key alone an older copy is not noticed."""
    people, series = open_at(path)
    series.release(FIRST)
    people.ledger.close()
    shutil.rmtree(marks_directory())
    people, series = open_at(path)
    with pytest.raises(LedgerError, match="used on a machine without its high-water mark"):
        series.release(day(1))


def test_rows_come_from_a_file_that_grows_and_a_file_that_is_gone_leaves_the_series_as_it_was(path: Path) -> None:
    source = path.with_name("visits.csv")
    source.write_text("day,ward,minutes\n2026-11-01,a,1\n2026-11-02,b,2\n")
    people = sd.protect(
        source,
        domain=domain(),
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.ZCDP(10),
        ledger=path,
        name="visits",
        csv=sd.Csv(header=True),
    )
    series = open_series(people)
    series.release(FIRST)
    with source.open("a") as file:
        file.write("2026-11-02,b,2\n" * 100)
    assert series.release(day(1))["count"][1] > 80
    head = people.ledger.head()
    source.unlink()
    with pytest.raises(SourceError) as refused:
        series.release(day(2))
    assert "the period could not be computed" in str(refused.value)
    assert "Nothing was released or charged" in str(refused.value)
    assert people.ledger.head() == head


def _release_many(path: Path | str, days: list[int], barrier: Any) -> None:
    people, series = open_at(path)
    barrier.wait()
    for number in days:
        try:
            series.release(day(number))
        except QuestionRefused:
            # the other process was faster
            continue
    people.ledger.close()


def test_processes_that_release_one_step_get_one_answer(path: Path) -> None:
    people, _ = open_at(path)
    people.ledger.close()
    barrier = FORK.Barrier(3)
    days = ([0, 1, 2, 3, 4], [0, 2, 4], [1, 3, 4])
    processes = [FORK.Process(target=_release_many, args=(path, one, barrier)) for one in days]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    people, series = open_at(path)
    assert series.periods[-1] == "2026-11-05"
    people.ledger.verify()
    check_numbers(people)


# ---- kill -9


class LineCounter:
    """Counts the lines of Sordino that run, and kills the process at the n-th."""

    def __init__(self, last: int | None = None) -> None:
        self.last = last
        self.count = 0

    def trace(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        """Look at one event of the interpreter, as sys.settrace asks."""
        if "/src/sordino/" not in frame.f_code.co_filename:
            return None
        if event == "line":
            self.count += 1
            if self.count == self.last:
                os.kill(os.getpid(), signal.SIGKILL)
        return self.trace


def release_in_fork(path: Path, number: int, last: int | None) -> tuple[bool, int, str]:
    """Release a day in a fork; return whether it came to its end, the lines that ran, and what it printed."""
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        code = 1
        try:
            _, series = open_at(path)
            lines = LineCounter(last)
            sys.settrace(lines.trace)
            release = series.release(day(number))
            sys.settrace(None)
            steps = [list(output.estimate.steps) for output in release.outputs]
            os.write(writing, f"{lines.count} {steps}".encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as output:
        count, _, printed = output.read().partition(" ")
    _, status = os.waitpid(process, 0)
    return os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0, int(count or 0), printed


def kill_at_lines(path: Path, kills: int) -> None:
    """Kill releases at lines spread over their whole course; after each, the next day is released under another kill.

    What was printed is what is on record, and each record is one reading of the rows beneath the noise of one key. A day
    that was recorded before its process died is answered the same, from the record.
    """
    # here too, so that no fork imports what the next ones have already
    people, series = open_at(path)
    series.release(FIRST)
    people.ledger.close()
    # how many lines each day takes, to about a hundred: the noise decides, and each day draws some of earlier days again
    beside = path.with_name("beside.ledger")
    open_at(beside)[0].ledger.close()
    counts = [release_in_fork(beside, number, None)[1] for number in range(min(kills + 1, 30))]
    assert min(counts) > 1000
    number = 1
    recorded_before_death = 0
    for turn in range(kills):
        # of late lines more, where the record is made
        lines = counts[number]
        last = 1 + (turn * 7919) % lines if turn % 2 else lines - (turn * 31) % (lines // 12)
        finished, _, printed = release_in_fork(path, number, last)
        people, series = open_at(path)
        steps = fine_numbers(people)
        is_recorded = series.periods[-1] == day(number).isoformat()
        assert is_recorded or not printed
        if printed:
            assert printed == str([steps[-1]["counts"], steps[-1]["totals"]])
        if is_recorded:
            recorded_before_death += not finished
            again = series.release(day(number))
            assert list(again.outputs[0].estimate.steps) == steps[-1]["counts"]
            assert fine_numbers(people) == steps
            number += 1
        check_numbers(people)
        people.ledger.verify()
        people.ledger.close()
        if number == 30:
            path = path.with_name(f"{turn}.ledger")
            open_at(path)[0].ledger.close()
            release_in_fork(path, 0, None)
            number = 1
    # Of two deaths it happens that none falls between the record and the end, some hundred lines that the noise moves.
    assert recorded_before_death > kills // 50 or kills < 50


def test_a_few_kills(path: Path) -> None:
    kill_at_lines(path, 2)


@pytest.mark.deep
def test_300_kills(path: Path) -> None:
    kill_at_lines(path, 300)


# ---- a ledger on a PostgreSQL server


@pytest.fixture(scope="module")
def database(postgres_server: Server) -> str:
    postgres_server.execute("CREATE DATABASE series_ledgers ENCODING 'UTF8' TEMPLATE template0")
    return f"{postgres_server.url}/series_ledgers"


@pytest.mark.deep
def test_a_series_on_a_server(database: str) -> None:
    address = f"{database}#one"
    people, series = open_at(address)
    first = series.release(FIRST)
    people.ledger.close()
    barrier = FORK.Barrier(2)
    processes = [FORK.Process(target=_release_many, args=(address, [1, 2, 3], barrier)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    people, series = open_at(address)
    assert series.release(FIRST) == first
    assert series.periods[-1] == "2026-11-04"
    people.ledger.verify()
    check_numbers(people)
    key_file(address).unlink()
    with pytest.raises(LedgerError, match="its key is not on this machine"):
        open_at(address)[1].release(day(4))


def test_a_ledger_moves_to_a_server_with_its_series(path: Path, database: str) -> None:
    people, series = open_at(path)
    first = series.release(FIRST)
    address = f"{database}#moved"
    move_ledger(people.ledger, address).close()
    people, series = open_at(address)
    assert series.release(FIRST) == first
    series.release(day(1))
    check_numbers(people)
    people.ledger.verify()
