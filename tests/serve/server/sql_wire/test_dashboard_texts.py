"""Questions of the shapes that drivers and dashboards ask, written here, to the port: the catalog, snapshots and charts."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from serving import Served, write_project
from sordino.serve.server.opening import open_service
from sordino.serve.server.sql_wire.wire_server import WireServer
from sql_clients import SqlPort, make_certificate


class Port(SqlPort):
    """A port behind which answers are exact: so much may be spent that the noise is less than half a row."""

    def options(self, who: str = "ana", **more: Any) -> dict[str, Any]:
        return super().options(who, **{"options": "-c sordino.epsilon=60", **more})


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Port]:
    folder: Path = tmp_path_factory.mktemp("people")
    served = Served(open_service(write_project(folder, cap=10**9)))
    served.add("ana", "analyst", epsilon="1e8")
    tls = make_certificate(folder)
    with WireServer(served.service, tls=tls).serving(host="localhost", port=0) as server:
        yield Port(served, server, tls)
    served.service.close()


COLUMNS = [("age",), ("sex",)]
# Each with what it finds, or with how many rows at least.
ASKED: dict[str, tuple[str, list[tuple[Any, ...]] | int]] = {
    "Npgsql: types, with their element found by the function that receives them": (
        "SELECT space.nspname, one.typname, CASE WHEN receiver.proname = 'array_recv' THEN item.typname END AS item "
        "FROM pg_type one JOIN pg_namespace space ON space.oid = one.typnamespace LEFT JOIN pg_proc receiver "
        "ON receiver.oid = one.typreceive LEFT JOIN pg_type item ON item.oid = one.typelem LEFT JOIN pg_range r "
        "ON r.rngtypid = one.oid WHERE one.typtype IN ('b', 'e', 'd') AND r.rngsubtype IS NULL "
        "ORDER BY CASE WHEN one.typtype = 'b' THEN 0 ELSE 1 END",
        20,
    ),
    "Npgsql: fields of composite types": (
        "SELECT a.attname, a.atttypid FROM pg_type t JOIN pg_class c ON c.oid = t.typrelid JOIN pg_attribute a "
        "ON a.attrelid = c.oid WHERE t.typtype = 'c' AND c.relkind = 'c' AND NOT a.attisdropped",
        [],
    ),
    "ODBC of Tableau: tables by a comma join": (
        "select c.relname, n.nspname, c.relkind from pg_catalog.pg_class c, pg_catalog.pg_namespace n where c.relkind in "
        "('r', 'p') and n.oid = c.relnamespace and n.nspname not in ('pg_catalog', 'pg_toast')",
        [("people", "public", "r")],
    ),
    "ODBC of Tableau: columns, with defaults and domains": (
        "select a.attname from ((pg_class c inner join pg_namespace n on n.oid = c.relnamespace and c.relname like 'people') "
        "inner join pg_attribute a on (not a.attisdropped) and a.attnum > 0 and a.attrelid = c.oid) inner join pg_type t on "
        "t.oid = a.atttypid left outer join pg_attrdef d on a.atthasdef and d.adrelid = a.attrelid where pg_get_expr(d.adbin, "
        "d.adrelid) is null and case t.typtype when 'd' then t.typbasetype else 0 end = 0 order by a.attnum",
        COLUMNS,
    ),
    "ODBC of Tableau: a key's columns by their place in the index": (
        "select a.attname from pg_attribute a, pg_attribute ia, pg_index i where i.indisprimary = 't' and ia.attrelid = "
        "i.indexrelid and a.attrelid = i.indrelid and a.attnum = i.indkey[ia.attnum - 1]",
        [],
    ),
    "Power BI: character sets": ("select CHARACTER_SET_NAME from INFORMATION_SCHEMA.CHARACTER_SETS", []),
    "Power BI: columns, in capitals": (
        "select COLUMN_NAME, case when DATA_TYPE like '%unsigned%' then 'u' else IS_NULLABLE end from "
        "INFORMATION_SCHEMA.COLUMNS where TABLE_NAME = 'people' order by ORDINAL_POSITION",
        [("age", "YES"), ("sex", "YES")],
    ),
    "Power BI: foreign keys": (
        "select k.COLUMN_NAME from (select distinct CONSTRAINT_NAME, UNIQUE_CONSTRAINT_NAME from "
        "INFORMATION_SCHEMA.REFERENTIAL_CONSTRAINTS) r inner join INFORMATION_SCHEMA.KEY_COLUMN_USAGE k "
        "on k.CONSTRAINT_NAME = r.CONSTRAINT_NAME",
        [],
    ),
    "Power BI: unique indexes": (
        "select t.CONSTRAINT_SCHEMA || '_' || t.CONSTRAINT_NAME, k.COLUMN_NAME from INFORMATION_SCHEMA.TABLE_CONSTRAINTS t "
        "inner join INFORMATION_SCHEMA.KEY_COLUMN_USAGE k on k.CONSTRAINT_NAME = t.CONSTRAINT_NAME where t.CONSTRAINT_TYPE "
        "in ('PRIMARY KEY', 'UNIQUE')",
        [],
    ),
    "Superset: schemas": (
        "SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg_%' ORDER BY nspname",
        [("information_schema",), ("public",)],
    ),
    "Redash: columns of materialized views and of tables that may be read": (
        "SELECT c.relname, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid WHERE c.relkind = 'm' AND "
        "has_table_privilege(c.relname, 'select') UNION SELECT table_name, column_name FROM information_schema.columns WHERE "
        "has_schema_privilege(table_schema, 'usage') AND table_schema = 'public' ORDER BY 2",
        [("people", "age"), ("people", "sex")],
    ),
    "DBeaver: schemas with their comments, by a class": (
        "SELECT n.nspname, d.description FROM pg_namespace n LEFT OUTER JOIN pg_description d ON d.objoid = n.oid AND d.objsubid "
        "= 0 AND d.classoid = 'pg_namespace'::regclass WHERE n.nspname = 'public'",
        [("public", None)],
    ),
    "DBeaver: keywords without those of the standard": (
        "select count(*) > 10 from pg_catalog.pg_get_keywords() where word <> ALL ('{select,from}'::text[])",
        [(True,)],
    ),
    "DBeaver: partitions of a table": (
        "SELECT c.relname, pg_get_expr(c.relpartbound, c.oid), pg_get_partkeydef(c.oid) FROM pg_class c WHERE c.relkind "
        "NOT IN ('i', 'I', 'c')",
        [("people", None, None)],
    ),
    "DBeaver: what depends on a column": (
        "SELECT a.attname FROM pg_attribute a LEFT OUTER JOIN pg_depend dep ON dep.refobjid = a.attrelid AND dep.deptype = 'i' "
        "AND dep.refobjsubid = a.attnum AND dep.classid = dep.refclassid WHERE dep.objid IS NULL AND a.attrelid = "
        "'people'::regclass ORDER BY a.attnum",
        COLUMNS,
    ),
    "DBeaver: roles and sizes": (
        "SELECT (SELECT count(*) FROM pg_roles) > 0, pg_total_relation_size(c.oid) FROM pg_class c",
        [(True, 0)],
    ),
    "Metabase: privileges, by aliases that are words of SQL": (
        """WITH seen AS (SELECT t.tablename AS "table", has_any_column_privilege(current_user, '"' ||"""
        """ replace(t.schemaname, '"', '""') || '"."' || t.tablename || '"', 'select') AS "select" FROM pg_tables t """
        """WHERE t.schemaname !~ '^pg_') """
        'SELECT seen."table", seen."select" FROM seen',
        [("people", True)],
    ),
    "an alias that is a word of SQL": (
        'SELECT relname AS "select", relkind AS "from" FROM pg_class',
        [("people", "r")],
    ),
    "DuckDB: what the server is": (
        "SELECT pg_is_in_recovery(), (SELECT COUNT(*) FROM pg_settings WHERE name LIKE 'rds%')",
        [(False, 0)],
    ),
    "DuckDB: columns, and keys below them": (
        "SELECT attname, NULL AS con FROM pg_class c JOIN pg_attribute a ON c.oid = a.attrelid WHERE attnum > 0 UNION ALL SELECT "
        "NULL, conname FROM pg_constraint WHERE contype IN ('p', 'u') ORDER BY attname",
        [("age", None), ("sex", None)],
    ),
    "DuckDB: indexes": (
        "SELECT n.oid, i.indexname FROM pg_indexes i JOIN pg_namespace n ON i.schemaname = n.nspname",
        [],
    ),
    "Tableau: a chart": (
        'SELECT "people"."sex" AS "sex", SUM(CAST(1 AS BIGINT)) AS "cnt" FROM "public"."people" "people" GROUP BY 1',
        [("f", 500), ("m", 500)],
    ),
    "Power BI: a chart over a nested table": (
        'select "_"."sex", "_"."a0" from (select "rows"."sex" as "sex", count(1) as "a0" from "public"."people" "rows" group by '
        '"sex") "_" where not "_"."a0" is null limit 1001 offset 0',
        [("f", 500), ("m", 500)],
    ),
    "Tableau: the number of records, where there are any": (
        'SELECT SUM(1) AS "sum:Number of Records:ok" FROM "public"."people" "people" HAVING (COUNT(1) > 0)',
        [(1000,)],
    ),
    "Tableau: the same where there are none": (
        'SELECT SUM(1) AS "n", AVG("people"."age") AS "a" FROM "people" WHERE "people"."age" < 0 HAVING (COUNT(1) > 500)',
        [],
    ),
    "Superset: a big number": ("SELECT COUNT(*) AS n FROM people ORDER BY n DESC LIMIT 50000", [(1000,)]),
    "Redash: distinct totals": (
        "SELECT DISTINCT COUNT(*) AS n, COUNT(*) / 7 AS w FROM people LIMIT 1000",
        [(1000, 142)],
    ),
    "Metabase: a total with a condition and a first page": (
        "SELECT COUNT(*) AS n FROM people HAVING COUNT(*) BETWEEN 1 AND 5000 ORDER BY 1 LIMIT 10 OFFSET 0",
        [(1000,)],
    ),
    "Power BI: no rows, to learn the columns": (
        'select "n" from (select count(*) as "n" from "people") "_" limit 0',
        [],
    ),
    "a list written as text": ("SELECT COUNT(*) FROM people WHERE age = ANY('{1, 2}')", [(20,)]),
    "a list of words written as text": ("""SELECT COUNT(*) FROM people WHERE sex = ANY('{f,"m"}')""", [(1000,)]),
    "all but a list written as text": ("SELECT COUNT(*) FROM people WHERE age <> ALL('{1,2}')", [(980,)]),
    "an empty list written as text": ("SELECT COUNT(*) FROM people WHERE age = ANY('{}')", [(0,)]),
}


@pytest.mark.parametrize("what", ASKED)
def test_what_a_client_asks_is_answered(port: Port, what: str) -> None:
    text, expected = ASKED[what]
    with port.connect() as connection:
        rows = connection.execute(text.encode()).fetchall()
    if isinstance(expected, int):
        assert len(rows) >= expected
    else:
        assert rows == expected


@pytest.mark.parametrize("listed", ["{1,NULL}", "{{1},{2}}", "{1,}", "{", "1", '{"1}', '{a"b}'])
def test_a_text_that_is_no_list_is_refused_before_a_charge(port: Port, listed: str) -> None:
    before = port.spent()
    with port.connect() as connection, pytest.raises(psycopg.Error, match="ANY takes a list of constants"):
        connection.execute(f"SELECT COUNT(*) FROM people WHERE age = ANY('{listed}')".encode())
    assert port.spent() == before


def test_duckdb_copies_within_a_snapshot(port: Port) -> None:
    """As DuckDB's extension reads: several connections in one snapshot, each with a copy in binary."""
    begin = b"BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"
    with port.connect() as first, port.connect() as second:
        first.execute(begin)
        ((snapshot,),) = first.execute("SELECT pg_export_snapshot()").fetchall()
        second.execute(begin)
        second.execute(f"SET TRANSACTION SNAPSHOT '{snapshot}'".encode())
        text = b'COPY (SELECT "sex", COUNT(*) AS n FROM "public"."people" GROUP BY "sex") TO STDOUT (FORMAT "binary")'
        with second.cursor().copy(text) as copy:
            copy.set_types(["text", "int8"])
            assert list(copy.rows()) == [("f", 500), ("m", 500)]
        second.execute("COMMIT")


def test_the_time_of_day_is_text(port: Port) -> None:
    with port.connect() as connection:
        ((now, description),) = connection.execute("SELECT current_time, 'x' FROM pg_class").fetchall()
    assert (datetime.time.fromisoformat(now).tzinfo, description) == (None, "x")
