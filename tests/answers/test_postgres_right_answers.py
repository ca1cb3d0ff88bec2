"""Releases of a PostgreSQL table say what plain SQL says on the same server."""

from __future__ import annotations

import random
from typing import Any

import pytest

import postgres_server as postgres
from answers.plain_answers import compare
from answers.plain_questions import Questions
from answers.plain_shapes import EVERY_KIND, draw_question
from answers.town_tables import SHOPS, VIEWS, people_rows, protect_tables, visit_rows

TYPES = {
    "people": {
        "Person Id": "text", "age": "smallint", "Größe": "numeric(6, 2)", "it's paid": "numeric(12, 2)", "job": "text",
        "order": "varchar(9)", "town": "text", "member": "boolean", "joined": "date", "seen": "timestamptz", "balance": "bigint",
        "score": "double precision", "level": "smallint", "tags": "text[]", "marks": "integer[]",
    },
    "visits": {"member_id": "text", "cost": "integer", "kind": "text", "day": "date"},
    "shops": {"town": "text", "Kind": "text", "tax": "integer"},
}  # fmt: skip
WITHOUT = ("UPPER(job)",)  # the server's own is that of its locale


class Server:
    """A database with the raw tables, and in a schema of its own what plain SQL makes of them."""

    def __init__(self, server: postgres.Server, name: str, tables: dict[str, list[dict[str, Any]]]) -> None:
        import psycopg

        server.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")
        self.place = f"{server.url}/{name}"
        self.connection = psycopg.connect(self.place, autocommit=True)
        self.connection.execute("CREATE SCHEMA plain")
        for table, rows in tables.items():
            columns = ", ".join(f'"{column}" {kind}' for column, kind in TYPES[table].items())
            self.connection.execute(f"CREATE TABLE {table} ({columns})".encode())
            with self.connection.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN".encode()) as copy:
                for row in rows:
                    copy.write_row([row[column] for column in TYPES[table]])
            self.connection.execute(f"CREATE VIEW plain.raw_{table} AS SELECT * FROM public.{table}".encode())
        self.connection.execute("SET search_path = plain")
        for table, view in VIEWS.items():
            self.connection.execute(f"CREATE TABLE plain.{table} AS {view}".encode())

    def rows(self, text: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        return self.connection.execute(text.encode()).fetchall()


@pytest.mark.parametrize(("each", "apart"), [(1, 2), pytest.param(30, 1, marks=pytest.mark.deep)])
def test_releases_say_what_plain_sql_says(each: int, apart: int, postgres_server: postgres.Server) -> None:
    rng = random.Random(each)
    people = people_rows(300, rng)
    tables = {"people": people, "visits": visit_rows(300, people, rng), "shops": SHOPS.to_pylist()}
    server = Server(postgres_server, f"answers{each}", tables)
    connection = protect_tables(
        dict.fromkeys(("people", "visits"), server.place), each, relation=("people", "visits"), lists=True
    )
    drawn = Questions(rng, without=WITHOUT)
    kinds = [kind for kind in EVERY_KIND[::apart] for _ in range(each)]
    found = [compare(draw_question(drawn, kind), connection, server.rows) for kind in kinds]
    server.connection.close()
    wrong = [f"{c.question.text}\n  {c.question.groups}\n  {c.found}" for c in found if c.found]
    assert not wrong, "\n".join(wrong[:5])
    assert sum(c.near for c in found) >= 0.98 * sum(c.cells for c in found) > len(found)
