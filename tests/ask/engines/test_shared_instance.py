"""Tables in memory share one DuckDB instance a process: nothing of one is seen by another, stops it or keeps it waiting."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from sqlglot import exp, parse_one

import sordino as sd
from protecting import protect
from sordino.ask.engines.duckdb import DuckDBEngine
from sordino.ask.engines.instances import shared_instance

DOMAIN = sd.Domain({"x": sd.Integer(0, 100)})
COUNT = parse_one("SELECT count(*) AS n FROM source", dialect="duckdb", into=exp.Select)
# What a connection sees of tables and views beside DuckDB's own.
VISIBLE = """
    SELECT table_name FROM duckdb_tables() WHERE NOT internal
    UNION ALL SELECT view_name FROM duckdb_views() WHERE NOT internal
"""


def engine_with(rows: int, **public: Any) -> DuckDBEngine:
    return DuckDBEngine(pa.table({"x": range(rows)}), domain=DOMAIN, unit=None, public=public)


def visible(connection: Any) -> list[str]:
    return sorted(name for (name,) in connection.execute(VISIBLE).fetchall())


def test_tables_of_one_name_never_meet() -> None:
    engines = [engine_with(rows, codes=pa.table({"x": [rows]})) for rows in (1, 2, 3)]
    assert [engine.run(COUNT).to_pylist() for engine in engines] == [[{"n": 1}], [{"n": 2}], [{"n": 3}]]
    assert [engine._connection.execute("SELECT x FROM sordino_public_codes").fetchall() for engine in engines] == [
        [(1,)],
        [(2,)],
        [(3,)],
    ]
    for engine in engines:
        engine.close()


def test_one_connection_sees_nothing_of_another_and_nothing_stays_when_it_closes() -> None:
    one, other = engine_with(5), engine_with(7)
    seen = visible(other._connection)
    with one.snapshot() as rows:
        sample = rows.sample(threshold=2**64 - 1, key=b"\0" * 32)
        assert any(name.startswith("sordino_sample") for name in visible(one._connection))
        assert visible(other._connection) == seen
        sample.close()
    one.close()
    assert other.run(COUNT).to_pylist() == [{"n": 7}]
    other.close()
    assert visible(shared_instance("rows").root.cursor()) == []


@pytest.mark.parametrize(
    "text", ["SET threads = 1", "SET memory_limit = '1MB'", "SET TimeZone = 'Asia/Tokyo'", "RESET ALL"]
)
def test_no_connection_changes_the_settings_of_all(text: str) -> None:
    engine = engine_with(1)
    with pytest.raises(duckdb.Error):
        engine._connection.execute(text)
    engine.close()


def test_a_long_question_neither_delays_another_table_nor_is_stopped_with_it() -> None:
    slow, quick = engine_with(1), engine_with(2)
    started = Event()

    def ask_long() -> str:
        started.set()
        try:
            slow._connection.execute("SELECT count(*) FROM range(10000000) a, range(10000000) b").fetchall()
        except duckdb.InterruptException:
            return "interrupted"
        return "done"

    with ThreadPoolExecutor(1) as pool:
        long = pool.submit(ask_long)
        started.wait()
        assert quick.run(COUNT).to_pylist() == [{"n": 2}]
        # An interrupt reaches the connection that it is meant for, and no other one.
        quick._connection.interrupt()
        assert quick.run(COUNT).to_pylist() == [{"n": 2}]
        assert not long.done()
        while not long.done():
            slow._connection.interrupt()
        assert long.result() == "interrupted"
    assert slow.run(COUNT).to_pylist() == [{"n": 1}]
    slow.close()
    quick.close()


def test_tables_asked_by_many_threads_at_once_answer_each_of_its_own_rows() -> None:
    tables = [protect(pa.table({"x": [0] * rows}), DOMAIN) for rows in range(1000, 1008)]

    def ask(place: int) -> bool:
        released: float = tables[place % 8].ask(sd.count(), epsilon=1000).value
        return released == 1000 + place % 8

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(64)))
    for table in tables:
        table.close()


def test_questions_to_the_dummy_table_share_one_engine_and_two_curators_share_none() -> None:
    one, other = (protect(pa.table({"x": [0]}), DOMAIN, name="people") for _ in range(2))
    values = [one.ask(sd.sum("x"), epsilon=10**6, on="dummy").value for _ in range(2)]
    assert values[0] == values[1]
    assert values[0] != other.ask(sd.sum("x"), epsilon=10**6, on="dummy").value
    engine = one._dummy_engine
    assert engine is not None
    one.close()
    assert one._dummy_engine is None
    other.close()
