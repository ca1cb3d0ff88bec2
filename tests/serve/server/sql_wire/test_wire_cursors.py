"""Cursors and copies as real clients use them: each question is charged once, when it is declared or copied."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from serving import COUNT
from sordino.serve.server.sql_wire.wire_cursors import CopyForm, copy_lines
from sordino.serve.server.sql_wire.wire_statements import split_statements
from sordino.serve.server.sql_wire.wire_values import column_of_kind
from sql_clients import SqlPort, psql, serve_sql

GROUPS = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlPort]:
    with serve_sql(tmp_path_factory.mktemp("sql")) as made:
        yield made


def charges(port: SqlPort) -> int:
    with port.connect() as connection:
        return len(connection.execute("SHOW sordino.releases").fetchall())


def test_a_cursor_of_psycopg_is_charged_once(port: SqlPort) -> None:
    before = charges(port)
    with port.connect() as connection:
        connection.autocommit = False
        connection.execute("SET sordino.epsilon = 0.01")
        with connection.cursor("Rows") as cursor:
            cursor.execute(GROUPS)
            first = cursor.fetchone()
            rest = cursor.fetchall()
        assert first is not None
        assert [row[0] for row in (first, *rest)] == [row[0] for row in connection.execute(GROUPS).fetchall()]
        with connection.cursor("held", withhold=True) as cursor:
            cursor.execute("SELECT column_name FROM information_schema.columns WHERE table_name = 'people'")
            connection.commit()
            assert len(cursor.fetchmany(2)) == 2
    assert charges(port) == before + 2


def test_ways_that_do_not_go_forward_are_refused_and_cost_nothing(port: SqlPort) -> None:
    before = charges(port)
    with port.connect() as connection:
        connection.autocommit = True
        connection.execute("SET sordino.epsilon = 0.01")
        for text, state in [
            (f"DECLARE c SCROLL CURSOR WITH HOLD FOR {COUNT}", "0A000"),
            (f"DECLARE c CURSOR FOR {COUNT}", "25P01"),
            (f"DECLARE c FOR {COUNT}", "42601"),
            ("FETCH 3 FROM c", "34000"),
            ("FETCH BACKWARD 3 FROM c", "55000"),
            ("CLOSE c", "34000"),
            ("DECLARE c CURSOR WITH HOLD FOR DELETE FROM people", "0A000"),
            ("COPY people TO STDOUT", "0A000"),
            (f"COPY ({COUNT}) TO '/etc/passwd'", "0A000"),
            (f"COPY ({COUNT}) TO PROGRAM 'sh'", "0A000"),
            (f"COPY ({COUNT}) TO STDOUT (FORMAT binary, HEADER)", "0A000"),
            ("COPY people FROM STDIN", "0A000"),
        ]:
            with pytest.raises(psycopg.Error) as refused:
                connection.execute(text)
            assert refused.value.sqlstate == state, text
    assert charges(port) == before


def test_a_cursor_ends_with_its_transaction_and_names_are_taken_once(port: SqlPort) -> None:
    before = charges(port)
    with port.connect() as connection:
        connection.autocommit = True
        connection.execute("SET sordino.epsilon = 0.01")
        connection.execute("BEGIN")
        connection.execute(f"DECLARE c CURSOR FOR {GROUPS}")
        with pytest.raises(psycopg.errors.DuplicateCursor):
            connection.execute(f"DECLARE C CURSOR FOR {GROUPS}")
        connection.execute("ROLLBACK")
        with pytest.raises(psycopg.errors.InvalidCursorName):
            connection.execute("FETCH ALL IN c")
        connection.execute(f"DECLARE c CURSOR WITH HOLD FOR {GROUPS}")
        assert connection.execute("MOVE 1 IN c").statusmessage == "MOVE 1"
        assert len(connection.execute("FETCH FORWARD ALL IN c").fetchall()) == 1
        assert connection.execute("FETCH NEXT FROM c").fetchall() == []
        connection.execute("CLOSE ALL")
    assert charges(port) == before + 2


def test_copy_writes_what_select_answers(port: SqlPort) -> None:
    done = psql(port, f"SET sordino.epsilon = 0.01;\nCOPY ({GROUPS}) TO STDOUT (FORMAT csv, HEADER);\n")
    names, *rows = csv.reader(io.StringIO(done.stdout.split("SET\n")[-1]))
    assert names == ["sex", "n"]
    assert len(rows) == 2
    with port.connect() as connection:
        connection.execute("SET sordino.epsilon = 0.01")
        with connection.cursor().copy(f"COPY ({GROUPS}) TO STDOUT") as copied:
            assert [row[0] for row in copied.rows()] == [row[0] for row in rows]


def test_lines_of_a_copy_are_read_back_as_they_were() -> None:
    columns = [column_of_kind("a", "text"), column_of_kind("b", "whole")]
    cells: list[list[Any]] = [["", 1], [None, 2], ['x,"y"\n\\', None]]
    assert copy_lines(CopyForm(), columns, cells) == [b"\t1\n", b"\\N\t2\n", b'x,"y"\\n\\\\\t\\N\n']
    made = copy_lines(CopyForm(is_csv=True, names=True), columns, cells)
    assert made == [b"a,b\n", b'"",1\n', b",2\n", b'"x,""y""\n\\",\n']


@pytest.mark.parametrize(
    ("text", "losses"),
    [
        ("SELECT 1; /* epsilon 0.2 */ SELECT 2", [{}, {"epsilon": "0.2"}]),
        ("SELECT 1 /* epsilon 0.1 */; /* epsilon 0.2 */ SELECT 2", [{"epsilon": "0.1"}, {"epsilon": "0.2"}]),
        ("SELECT 1; -- epsilon 0.1\nSELECT 2", [{"epsilon": "0.1"}, {}]),
        ("SELECT 1;\n-- epsilon 0.1\nSELECT 2", [{}, {"epsilon": "0.1"}]),
        ("SELECT 1\n/* epsilon 0.1 */;SELECT 2", [{"epsilon": "0.1"}, {}]),
        ("COPY (SELECT 1 /* epsilon 0.1 */) TO STDOUT", [{"epsilon": "0.1"}]),
    ],
)
def test_a_comment_at_a_semicolon_is_of_the_statement_beside_it(text: str, losses: list[dict[str, str]]) -> None:
    assert [dict(statement.loss) for statement in split_statements(text)] == losses
