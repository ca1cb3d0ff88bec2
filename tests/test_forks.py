"""Forks: a child asks under the parent's ledger through connections of its own, and a charge is never left without an answer."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import select
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from protecting import protect
from sordino.ask.engines.instances import shared_instance
from sordino.errors import LedgerError, SourceError

DOMAIN = sd.Domain({"x": sd.Integer(0, 5)})
ROWS = [1, 2, 3] * 100
HANGS = 60  # seconds after which a child is killed, and its test fails
SURE = 10**4  # at this epsilon a count's noise is nothing, but with a chance of e^-10000


def test_a_fork_collects_nothing() -> None:
    # Each fork of a worker would copy all that the worker holds (see conftest.py).
    frozen = gc.get_freeze_count()
    process = os.fork()
    if not process:
        os._exit(int(gc.isenabled() or gc.get_freeze_count() <= frozen))
    assert os.waitpid(process, 0)[1] == 0
    assert gc.isenabled()
    # What was loaded before the tests stays frozen, and nothing more is.
    assert gc.get_freeze_count() <= frozen


def in_child(work: Callable[[], Any]) -> Any:
    """Return what `work` returns in a forked process, or the name of what it raises; the child must end by itself."""
    reader, writer = os.pipe()
    process = os.fork()
    if not process:
        os.close(reader)
        try:
            answer = work()
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(writer, json.dumps(answer).encode())
        os.close(writer)
        os._exit(0)
    os.close(writer)
    try:
        ready, _, _ = select.select([reader], [], [], HANGS)
        answer = json.loads(os.read(reader, 65_536)) if ready else "hangs"
        for _ in range(HANGS * 10 if ready else 0):
            done, status = os.waitpid(process, os.WNOHANG)
            if done:
                assert status == 0
                return answer
            select.select([], [], [], 0.1)
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        return f"{answer}, and does not end"
    finally:
        os.close(reader)


def write_duckdb(path: Path) -> None:
    with duckdb.connect(str(path)) as file:
        file.execute("CREATE TABLE t AS SELECT unnest(?::INTEGER[]) AS x", [ROWS])


def write_sqlite(path: Path) -> None:
    with sqlite3.connect(path) as file:
        file.execute("CREATE TABLE t (x INTEGER)")
        file.executemany("INSERT INTO t VALUES (?)", [(x,) for x in ROWS])


SOURCES: dict[str, Callable[[Path], Any]] = {
    "t.csv": lambda path: path.write_text("x\n" + "\n".join(map(str, ROWS)) + "\n"),
    "t.parquet": lambda path: pq.write_table(pa.table({"x": ROWS}), path),
    "t.duckdb": write_duckdb,
    "t.sqlite": write_sqlite,
    "memory": lambda _: None,
}


def open_table(kind: str, folder: Path) -> sd.Curator:
    path = folder / kind
    SOURCES[kind](path)
    return protect(
        pa.table({"x": ROWS}) if kind == "memory" else path,
        DOMAIN,
        ledger=folder / "people.ledger",
        relation="t" if kind in ("t.duckdb", "t.sqlite") else None,
        csv=sd.Csv(header=True) if kind == "t.csv" else None,
    )


def ask_dummy(curator: sd.Curator) -> float:
    value: float = curator.ask(sd.count(), epsilon=SURE, on="dummy").value
    return value


def states(curator: sd.Curator) -> list[str]:
    return [charge.state for charge in curator.ledger.charges()]


@pytest.mark.each(2)
@pytest.mark.parametrize("kind", SOURCES)
def test_a_child_is_answered_whatever_its_parent_asked(kind: str, tmp_path: Path) -> None:
    table = open_table(kind, tmp_path)
    assert table.ask(sd.count(), epsilon=SURE).value == len(ROWS)
    twice = [sd.count(), sd.sum("x")]
    answers = in_child(lambda: [table.ask(question, epsilon=SURE).value for question in twice])
    assert answers == [len(ROWS), sum(ROWS)]
    # The parent's own connection and thread are as they were.
    assert table.ask(sd.count(), epsilon=SURE).value == len(ROWS)
    assert states(table) == ["committed"] * 4


def test_a_child_opens_a_shared_instance_and_a_dummy_table_of_its_own(tmp_path: Path) -> None:
    table = open_table("memory", tmp_path)
    assert 900 < ask_dummy(table) < 1100
    mine = shared_instance("rows")
    assert in_child(lambda: [shared_instance("rows") is mine, 900 < ask_dummy(table) < 1100]) == [False, True]
    assert shared_instance("rows") is mine
    assert 900 < ask_dummy(table) < 1100


def test_a_pool_of_processes_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = open_table("t.parquet", tmp_path)
    table.ask(sd.count(), epsilon=SURE)
    monkeypatch.setattr(sys.modules[__name__], "POOLED", [table])
    with multiprocessing.get_context("fork").Pool(2) as pool:
        answers = pool.map_async(count_pooled, range(6)).get(HANGS)
    assert answers == [len(ROWS)] * 6
    assert states(table) == ["committed"] * 7


POOLED: list[sd.Curator] = []


def count_pooled(number: int) -> object:
    del number
    return POOLED[0].ask(sd.count(), epsilon=SURE).value


def test_a_child_of_a_child_is_answered(tmp_path: Path) -> None:
    table = open_table("memory", tmp_path)
    table.ask(sd.count(), epsilon=SURE)

    def ask_twice() -> list[Any]:
        own = table.ask(sd.count(), epsilon=SURE).value
        return [own, in_child(lambda: table.ask(sd.count(), epsilon=SURE).value)]

    assert in_child(ask_twice) == [len(ROWS)] * 2


def test_a_child_is_answered_while_a_thread_of_its_parent_asks(tmp_path: Path) -> None:
    table = open_table("t.parquet", tmp_path)
    done = threading.Event()

    def ask_on() -> None:
        while not done.is_set():
            table.ask(sd.count(), epsilon=1)

    thread = threading.Thread(target=ask_on)
    thread.start()
    try:
        answers = [in_child(lambda: table.ask(sd.count(), epsilon=SURE).value) for _ in range(4)]
    finally:
        done.set()
        thread.join()
    assert answers == [len(ROWS)] * 4
    assert set(states(table)) == {"committed"}


ENDS = """
import os, sys
import pyarrow as pa
import sordino as sd

table = sd.protect(
    pa.table({"x": [1, 2, 3]}), domain=sd.Domain({"x": sd.Integer(0, 5)}), neighbors="add_remove", privacy_unit="row",
    budget=sd.PureDP(10**9), ledger=sys.argv[1],
)
for asks in (True, False):
    table.ask(sd.count(), epsilon=10**4)
    process = os.fork()
    if not process:
        if asks:
            table.ask(sd.count(), epsilon=10**4)
        sys.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 7
    assert os.path.isdir(table._engine._current._directory)
print(table.ask(sd.count(), epsilon=10**4).value)
"""


def test_a_child_that_ends_as_programs_do_ends_and_takes_nothing_along(tmp_path: Path) -> None:
    # DuckDB waits for the threads of a connection when it goes, and a child has none of them.
    ran = subprocess.run(
        [sys.executable, "-c", ENDS, str(tmp_path / "people.ledger")], capture_output=True, text=True, timeout=HANGS
    )
    assert (ran.returncode, ran.stdout) == (0, "3\n"), ran.stderr


def test_what_cannot_be_opened_anew_is_not_charged(tmp_path: Path) -> None:
    table = open_table("t.parquet", tmp_path)
    table.ask(sd.count(), epsilon=1)
    (tmp_path / "t.parquet").rename(tmp_path / "elsewhere.parquet")
    answer = in_child(lambda: table.ask(sd.count(), epsilon=1).value)
    assert answer.startswith(f"{SourceError.__name__}: ")
    assert states(table) == ["committed"]


def test_a_session_that_a_child_opens_is_answered(tmp_path: Path) -> None:
    table = open_table("memory", tmp_path)
    table.ask(sd.count(), epsilon=1)

    def look() -> bool:
        with table.above_threshold(count=1, epsilon=SURE) as session:
            return session.above(sd.count(), threshold=100)

    assert in_child(look) is True
    assert states(table) == ["committed"] * 2


def test_tables_of_the_same_people_are_opened_anew_as_well(tmp_path: Path) -> None:
    unit = sd.PrivacyUnit("id", max_rows=1, of="person")
    domain = sd.Domain({"id": sd.Identifier(), "x": sd.Integer(0, 5)})
    ids = pa.table({"id": [str(i) for i in range(len(ROWS))], "x": ROWS})
    opened: Any = sd.protect(
        {"here": ids, "there": ids.slice(0, 30)},
        domain={"here": domain, "there": domain},
        neighbors="add_remove",
        privacy_unit={"here": unit, "there": unit},
        budget=sd.PureDP(10**6),
        ledger=tmp_path / "people.ledger",
    )
    table = opened.table("here")
    question = table.join("there").agg(sd.count())
    assert table.ask(question, epsilon=SURE).value == 30
    assert in_child(lambda: table.ask(question, epsilon=SURE).value) == 30


def test_a_budget_in_memory_stays_in_its_process() -> None:
    table = protect(pa.table({"x": ROWS}), DOMAIN)
    table.ask(sd.count(), epsilon=1)
    assert in_child(lambda: table.ask(sd.count(), epsilon=1).value).startswith(f"{LedgerError.__name__}: ")


def test_a_child_talks_to_postgresql_by_itself(postgres_database: str, tmp_path: Path) -> None:
    import psycopg

    with psycopg.connect(postgres_database, autocommit=True) as server:
        server.execute("CREATE TABLE t AS SELECT unnest(%s::INTEGER[]) AS x", [ROWS])
    table = protect(postgres_database, DOMAIN, ledger=tmp_path / "people.ledger", relation="t")
    assert table.ask(sd.count(), epsilon=SURE).value == len(ROWS)
    for _ in range(2):
        assert in_child(lambda: table.ask(sd.count(), epsilon=SURE).value) == len(ROWS)
        assert table.ask(sd.sum("x"), epsilon=SURE).value == sum(ROWS)
    assert set(states(table)) == {"committed"}
