"""What SQL clients, drivers and dashboards send to the port by themselves: parameters, copies, and questions to the catalog.

The clients that are installed run for real; for the others stand texts of the shape that they send, written here.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import struct
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino.serve.server.sql_wire.wire_values as wire
from serving import Served
from sordino.errors import DeclarationError
from sordino.serve.server.opening import open_service
from sordino.serve.server.sql_wire.wire_server import WireServer
from sordino.serve.server.sql_wire.wire_statements import split_statements
from sql_clients import SqlPort, make_certificate

DAYS = 60
PROJECT = """
[budgets.people]
cap = {epsilon = 1e9}
ledger = "people.ledger"

[tables.stays]
source = "stays.parquet"
budget = "people"
neighbors = "add_remove"
privacy_unit = "row"

[tables.stays.columns]
ward = {type = "category", values = ["a", "b", "c"]}
days = {type = "integer", lower = 0, upper = 14}
weight = {type = "real", lower = 0, upper = 100, resolution = 0.5}
admitted = {type = "date", lower = 2021-01-01, upper = 2021-03-01}
seen = {type = "datetime", lower = 2021-01-01, upper = 2021-01-03, zone = "Europe/Berlin", resolution = "hour"}
adult = {type = "boolean"}
pid = {type = "identifier"}

[serve]
answer_every = "1ms"
"""
START = datetime.date(2021, 1, 1)
ROWS: list[dict[str, Any]] = [
    {
        "ward": "abc"[i % 3],
        "days": i % 15,
        "weight": i % 200 / 2,
        "admitted": START + datetime.timedelta(days=i % DAYS),
        "seen": datetime.datetime(2021, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(hours=i % 24),
        "adult": i % 4 > 0,
        "pid": str(uuid.UUID(int=i)),
    }
    for i in range(600)
]


@dataclass
class Port(SqlPort):
    """A port behind which answers are exact: so much may be spent that the noise is less than half a row."""

    def options(self, who: str = "ana", **more: Any) -> dict[str, Any]:
        return super().options(who, **{"options": "-c sordino.epsilon=60", **more})


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Port]:
    folder = tmp_path_factory.mktemp("stays")
    pq.write_table(pa.Table.from_pylist(ROWS), folder / "stays.parquet")
    (folder / "sordino.toml").write_text(PROJECT)
    served = Served(open_service(folder / "sordino.toml"))
    served.add("ana", "analyst", epsilon="1e8")
    tls = make_certificate(folder)
    with WireServer(served.service, tls=tls).serving(host="localhost", port=0) as server:
        yield Port(served, server, tls)
    served.service.close()


MARCH = datetime.date(2021, 2, 1)
NOON = datetime.datetime(2021, 1, 1, 12, tzinfo=datetime.UTC)
# Conditions with parameters, as clients write them, and which rows meet them.
BOUND: list[tuple[str, tuple[Any, ...], Any]] = [
    ("ward IN (%s,%s)", ("a", "b"), lambda row: row["ward"] in "ab"),
    ("days IN (%s,%s,%s)", (1, 2, 3), lambda row: row["days"] in (1, 2, 3)),
    ("ward = ANY(%s)", (["a", "b"],), lambda row: row["ward"] in "ab"),
    ("ward = ANY (%s::text[])", (["c"],), lambda row: row["ward"] == "c"),
    ("days = ANY(%s)", ([1, 14],), lambda row: row["days"] in (1, 14)),
    ("days <> ALL(%s)", ([1, 14],), lambda row: row["days"] not in (1, 14)),
    ("days = ANY(%s)", ([],), lambda _: False),
    ("days <> ALL(%s::bigint[])", ([],), lambda _: True),
    ("admitted >= %s AND admitted = ANY(%s)", (MARCH, [MARCH, START]), lambda row: row["admitted"] == MARCH),
    ("seen >= %s", (NOON,), lambda row: row["seen"] >= NOON),
    ("adult = %s AND weight <= %s", (False, 10.5), lambda row: not row["adult"] and row["weight"] <= 10.5),
    ("pid = %s", (uuid.UUID(int=5),), lambda row: row["pid"] == str(uuid.UUID(int=5))),
]


@pytest.mark.each(6)
@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
@pytest.mark.parametrize(
    ("condition", "values", "meets"), BOUND, ids=lambda case: "" if callable(case) else str(case)[:40]
)
def test_parameters_of_every_type_mean_what_they_say(
    port: Port, condition: str, values: tuple[Any, ...], meets: Any, binary: bool
) -> None:
    text = f"SELECT COUNT(*) AS n FROM stays WHERE {condition}"
    with port.connect() as connection:
        cursor = connection.execute(text.replace("%s", "%b" if binary else "%s").encode(), values)
        assert cursor.fetchall() == [(sum(map(meets, ROWS)),)]


# Parameters as a driver sends them: bytes, form, type, and the literal that they become.
SENT: list[tuple[bytes, int, int, str]] = [
    (b"{1,2}", 0, 1007, "ARRAY[1, 2]"),
    (b'{"a b","c\\"d",e, NULL ,"NULL"}', 0, 1009, "ARRAY['a b', 'c\"d', 'e', NULL, 'NULL']"),
    (b"{}", 0, 1009, "ARRAY[]::text[]"),
    (struct.pack("!iiI", 0, 0, 23), 1, 1007, "ARRAY[]::bigint[]"),
    (struct.pack("!iiIiiiiii", 1, 1, 23, 2, 1, 4, 7, 4, -8), 1, 1007, "ARRAY[7, -8]"),
    (struct.pack("!iiIiii", 1, 1, 25, 1, 1, -1), 1, 1009, "ARRAY[NULL]"),
    (b"2021-03-01 +00", 0, 1082, "'2021-03-01'"),
    (b"2021-03-01+05:30", 0, 1082, "'2021-03-01'"),
    (struct.pack("!q", 0), 1, 1184, "'2000-01-01 00:00:00+00:00'"),
    (uuid.UUID(int=7).bytes, 1, 2950, "'00000000-0000-0000-0000-000000000007'"),
    (b"a' OR 1=1 --", 0, 1042, "'a'' OR 1=1 --'"),
]
BROKEN: list[tuple[bytes, int, int]] = [
    *((text, 0, 1009) for text in (b"", b"a", b"{", b"{a,}", b"{,}", b'{"a}', b"{{1},{2}}", b"{a}b", b"[0:1]={1,2}")),
    *((b"{" + b"1," * 10_001 + b"1}", 0, 1007), (b"{x}", 0, 1007)),
    *((value, 1, 1007) for value in (b"", b"\0" * 11, struct.pack("!iiI", 2, 0, 23), struct.pack("!iiI", 0, 0, 25))),
    *(
        (value, 1, 1007)
        for value in (struct.pack("!iiIii", 1, 0, 23, 9, 1), struct.pack("!iiIiii", 1, 0, 23, 1, 1, -2))
    ),
    (struct.pack("!iiIii", 1, 0, 23, 2**31 - 1, 1), 1, 1007),
    (struct.pack("!iiI", 0, 0, 23) + b"x", 1, 1007),
    (b"12", 1, 2950),
]


@pytest.mark.parametrize(("value", "form", "oid", "literal"), SENT, ids=str)
def test_what_a_driver_sends_becomes_a_literal(value: bytes, form: int, oid: int, literal: str) -> None:
    assert wire.literal_of(value, form, oid) == literal


@pytest.mark.parametrize(("value", "form", "oid"), BROKEN, ids=lambda case: str(case)[:30])
def test_what_is_no_array_or_value_is_refused(value: bytes, form: int, oid: int) -> None:
    with pytest.raises(DeclarationError):
        wire.literal_of(value, form, oid)


TEXTS = [
    ("SELECT $1,$2", 2), ("a IN ($1,$2,$3)", 3), ("f($1)||$2", 2), ("'$1,$2'", 0), ('"$1,$2"', 0), ("-- $1,$2\n$1", 1),
    ("/* $1,$2 */ $2", 2), ("$$ $1,$2 $$", 0), ("$a$ $1,$2 $a$ ,$1", 1), ("a$1,b$2", 0), ("E'\\'$1,$2'", 0), ("$1::text[],$2", 2),
    ("'it''s $9,$8' ,$1", 1),
]  # fmt: skip


@pytest.mark.parametrize(("text", "count"), TEXTS, ids=str)
def test_parameters_stand_close_together_and_never_in_a_literal(text: str, count: int) -> None:
    (statement,) = split_statements(text)
    assert statement.parameters == count
    literals = [t.text for t in statement.tokens if "$" in t.text and len(t.text) > 1]
    # what a literal or a name says is as it was sent
    assert all(literal in text.replace("''", "'") for literal in literals)


def test_moments_are_instants_whatever_their_zone(port: Port) -> None:
    text = "SELECT seen, COUNT(*) AS n FROM stays WHERE seen < '2021-01-01 02:00:00+00' GROUP BY seen ORDER BY seen"
    for binary in (False, True):
        with port.connect() as connection:
            cursor = connection.cursor(binary=binary).execute(text.encode())
            rows = cursor.fetchall()
            assert [column.type_code for column in cursor.description or ()] == [1184, 20]
        first = datetime.datetime(2020, 12, 31, 23, tzinfo=datetime.UTC)
        assert [row for row in rows if row[1]] == [(first + datetime.timedelta(hours=i), 25) for i in (1, 2)]


def test_a_count_is_whole_whatever_is_asked_beside_it(port: Port) -> None:
    text = "SELECT ward, COUNT(*) AS n, AVG(days) AS m FROM stays GROUP BY ward"
    outer = "SELECT COUNT(*) AS k FROM (SELECT ward, COUNT(*) AS n FROM stays GROUP BY ward) AS t"
    with port.connect() as connection:
        assert [c.type_code for c in connection.execute(text.encode()).description or ()] == [25, 20, 701]
        cursor = connection.execute(outer.encode())
        assert [c.type_code for c in cursor.description or ()] == [20]
        assert cursor.fetchall() == [(3,)]


@pytest.mark.parametrize("form", ["(FORMAT binary)", "WITH BINARY", "(FORMAT 'binary')"])
def test_an_answer_is_copied_as_binary_tuples(port: Port, form: str) -> None:
    text = (
        f"COPY (SELECT ward, COUNT(*) AS n, MIN(1) AS o FROM (SELECT ward FROM stays) t GROUP BY ward) TO STDOUT {form}"
    )
    text = f"COPY (SELECT ward, COUNT(*) AS n FROM stays GROUP BY ward ORDER BY ward) TO STDOUT {form}"
    with port.connect() as connection, connection.cursor() as cursor:
        with cursor.copy(text.encode()) as copy:
            copy.set_types(["text", "int8"])
            assert list(copy.rows()) == [(ward, 200) for ward in "abc"]
        with cursor.copy(text.encode()) as copy:
            whole = b"".join(bytes(part) for part in copy)
    assert whole.startswith(b"PGCOPY\n\xff\r\n\0" + bytes(8))
    assert whole.endswith(b"\xff\xff")


CATALOG: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "the primary key, by JDBC": (
        "SELECT r.name, r.seq FROM (SELECT ct.relname AS name, (information_schema._pg_expandarray(con.conkey)).n AS seq, "
        "information_schema._pg_expandarray(con.conkey) AS keys, a.attnum AS num FROM pg_catalog.pg_constraint con JOIN "
        "pg_catalog.pg_class ct ON (con.conrelid = ct.oid) JOIN pg_catalog.pg_attribute a ON (a.attrelid = ct.oid) "
        "WHERE con.contype = 'p') r WHERE r.num = (r.keys).x",
        [],
    ),
    "the size of keys": ("SELECT setting FROM pg_catalog.pg_settings WHERE name='max_index_keys'", [("32",)]),
    "words of SQL": (
        "select count(*) > 50 from pg_catalog.pg_get_keywords() where word <> ALL ('{a,\"abs\",action}'::text[])",
        [(True,)],
    ),
    "which types are arrays": (
        "SELECT typname FROM pg_type WHERE typinput = 'pg_catalog.array_in'::regproc AND typelem = 20",
        [("_int8",)],
    ),
    "how types are received, by ADBC": (
        "SELECT oid, typreceive FROM pg_catalog.pg_type WHERE (typreceive != 0 OR typsend != 0) AND typname IN ('int8', 'date')"
        " AND typreceive::TEXT != 'array_recv' ORDER BY oid",
        [(20, "int8recv"), (1082, "date_recv")],
    ),
    "kinds of relations, by pgcli": (
        "SELECT c.relname FROM pg_class c WHERE c.relkind = ANY('{r,p,\"\"}') AND c.relkind <> ALL('{v}')",
        [("stays",)],
    ),
    "the search path, by Grafana": (
        "SELECT CASE WHEN quote_ident(table_schema) IN (SELECT trim(s[i]) FROM generate_series(array_lower(string_to_array("
        "current_setting('search_path'), ','), 1), array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS i,"
        " string_to_array(current_setting('search_path'), ',') s) THEN quote_ident(table_name) ELSE quote_ident(table_schema)"
        " || '.' || quote_ident(table_name) END AS \"table\" FROM information_schema.tables",
        [("stays",)],
    ),
    "columns by an identifier": (
        "SELECT column_name FROM information_schema.columns WHERE table_name = (parse_ident('public.stays'))[2] "
        "AND data_type = 'boolean'",
        [("adult",)],
    ),
    "names written by a format, by Metabase": (
        "SELECT FORMAT('%I.%I %%', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace",
        [("public.stays %",)],
    ),
    "bounds of a real column": (
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'stays_weight_check'",
        [('CHECK ("weight" BETWEEN 0 AND 100)',)],
    ),
    "a moment's type": ("SELECT format_type(atttypid, -1) FROM pg_attribute WHERE attname = 'seen'",
        [("timestamp with time zone",)]),
}  # fmt: skip


@pytest.mark.each(3)
@pytest.mark.parametrize("what", CATALOG)
def test_drivers_and_dashboards_find_what_they_look_for(port: Port, what: str) -> None:
    text, rows = CATALOG[what]
    with port.connect() as connection:
        assert connection.execute(text.encode()).fetchall() == rows


def test_arrays_are_parameters_of_the_catalog_too(port: Port) -> None:
    text = "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = ANY(%s)"
    with port.connect() as connection:
        assert connection.execute(text.encode(), (["public", "x"],)).fetchall() == [("stays",)]
        assert connection.execute(text.encode(), (["x"],)).fetchall() == []
        (now, today), *_ = connection.execute("SELECT now(), current_date").fetchall()
        assert now.tzinfo is not None
        assert abs((datetime.datetime.now(datetime.UTC) - now).total_seconds()) < 3600
        assert isinstance(today, datetime.date)


def test_what_the_catalog_lacks_is_named_to_the_client_and_the_operator(
    port: Port, caplog: pytest.LogCaptureFixture
) -> None:
    log = logging.getLogger("sordino.server")
    with port.connect() as connection, caplog.at_level(logging.INFO, logger=log.name):
        log.addHandler(caplog.handler)
        for text, named, logged in (
            ("SELECT pg_frobnicate('secret')", "'pg_frobnicate'", "function pg_frobnicate"),
            (
                "SELECT relname + 1 FROM pg_class, pg_type WHERE 'secret' = relname",
                "VARCHAR",
                "question to pg_class, pg_type",
            ),
        ):
            with pytest.raises(Exception, match=named):
                connection.execute(text.encode())
            assert [r.unknown for r in caplog.records if hasattr(r, "unknown")][-1] == logged
        log.removeHandler(caplog.handler)
    assert not any("secret" in str(vars(record)) for record in caplog.records)


def test_releases_are_listed_with_cost_and_time(port: Port) -> None:
    with port.connect() as connection:
        connection.execute("SELECT COUNT(*) AS n FROM stays")
        cursor = connection.execute("SHOW sordino.releases")
        names = [column.name for column in cursor.description or ()]
        last = dict(zip(names, cursor.fetchall()[-1], strict=True))
    assert names[:4] == ["budget", "charge", "spender", "note"]
    assert (last["cost"], last["state"]) == ("epsilon 60", "committed")
    assert datetime.datetime.fromisoformat(last["time"])


@pytest.mark.deep
def test_asyncpg_asks_through_a_pool(port: Port) -> None:
    asyncpg = pytest.importorskip("asyncpg")
    options = port.options()
    stated = {"host": "localhost", "port": options["port"], "user": "ana", "password": options["password"]}
    import ssl

    trust = ssl.create_default_context(cafile=options["sslrootcert"])

    async def ask() -> list[Any]:
        settings = {"sordino.epsilon": "60"}
        async with asyncpg.create_pool(
            **stated, database="sordino", ssl=trust, server_settings=settings, min_size=1, max_size=2
        ) as pool:
            return [
                await pool.fetchval("SELECT COUNT(*) FROM stays WHERE ward IN ($1,$2)", "a", "b"),
                await pool.fetchval(
                    "SELECT COUNT(*) FROM stays WHERE ward = ANY($1) AND days = ANY($2::int[])", ["a"], [0]
                ),
                await pool.fetchval(
                    "SELECT COUNT(*) FROM stays WHERE admitted > $1 AND seen >= $2 AND adult = $3", START, NOON, True
                ),
                await pool.fetchval("SELECT COUNT(*) FROM stays WHERE weight >= $1", 99.5),
                len(await pool.fetch("SELECT conname, conkey FROM pg_constraint WHERE conrelid = 'stays'::regclass")),
            ]

    expected = [
        400,
        sum(row["ward"] == "a" and row["days"] == 0 for row in ROWS),
        sum(row["admitted"] > START and row["seen"] >= NOON and row["adult"] for row in ROWS),
        sum(row["weight"] >= 99.5 for row in ROWS),
        5,
    ]
    assert asyncio.run(ask()) == expected


@pytest.mark.deep
def test_ibis_reads_the_schema_and_asks(port: Port) -> None:
    ibis = pytest.importorskip("ibis")
    options = port.options()
    user = {"user": "ana", "password": options["password"], "host": "localhost", "port": options["port"]}
    extra = {name: options[name] for name in ("sslmode", "sslrootcert", "options")}
    connection = ibis.postgres.connect(**user, database="sordino", **extra)
    try:
        stays = connection.table("stays")
        assert str(stays.schema()["seen"]) == "timestamp('UTC', 6)"
        counts = stays.group_by("ward").aggregate(n=stays.count()).execute()
        assert dict(zip(counts["ward"], counts["n"], strict=True)) == dict.fromkeys("abc", 200)
        assert stays.filter(stays.ward.isin(["a", "b"])).count().execute() == 400
    finally:
        connection.disconnect()


WHOLE = 20  # the number of PostgreSQL's type bigint
DOUBLE = 701
# What PostgreSQL answers, by its own rules: two whole numbers divide towards 0, any other two with a fraction.
DIVIDED: list[tuple[str, list[tuple[Any, ...]], list[int]]] = [
    ("COUNT(*) / 7, COUNT(*) / 7.0, 7 / 2", [(85, 600 / 7, 3)], [WHOLE, DOUBLE, WHOLE]),
    ("-COUNT(*) / 7, (1 - COUNT(*)) / 7, COUNT(*) / 0", [(-85, -85, None)], [WHOLE, WHOLE, WHOLE]),
    ("(SUM(days) + 300) / COUNT(*), SUM(weight) / COUNT(*)", [(7, 49.75)], [WHOLE, DOUBLE]),
    ("CAST(COUNT(*) AS float) / 7, COUNT(*)::numeric / 7", [(600 / 7, 600 / 7)], [DOUBLE, DOUBLE]),
    ("COUNT(*) / 7 * 7, COUNT(*) * 10 / 7 / 2, COUNT(*) % 7 / 2", [(595, 428, 2)], [WHOLE, WHOLE, WHOLE]),
    ("100 * COUNT(*) FILTER (WHERE adult) / COUNT(*)", [(75,)], [WHOLE]),
    ("SUM((days - 7) / 2), AVG(days / 7)", [(0, 9 / 15)], [WHOLE, DOUBLE]),
    (
        "EXTRACT(YEAR FROM MAX(x.d)) / 2 FROM (SELECT admitted AS d, COUNT(*) AS n FROM stays GROUP BY admitted) x --",
        [(1010.5,)],
        [DOUBLE],
    ),
    (
        "SUM(n) / 7, AVG(n) / 7, MAX(n) / MIN(n) FROM (SELECT ward, COUNT(*) AS n FROM stays GROUP BY ward) x --",
        [(85, 200 / 7, 1)],
        [WHOLE, DOUBLE, WHOLE],
    ),
]


@pytest.mark.each(3)
@pytest.mark.parametrize(("items", "rows", "types"), DIVIDED, ids=[items[:40] for items, _, _ in DIVIDED])
def test_whole_numbers_divide_as_in_postgresql(
    port: Port, items: str, rows: list[tuple[Any, ...]], types: list[int]
) -> None:
    with port.connect() as connection:
        cursor = connection.execute(f"SELECT {items} FROM stays".encode())
        assert [column.type_code for column in cursor.description or ()] == types
        assert [
            tuple(pytest.approx(cell, rel=1e-3) if isinstance(cell, float) else cell for cell in row) for row in rows
        ] == cursor.fetchall()


@pytest.mark.deep
@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("(days / 7) * 7", [0, 7, 14]),
        ("days / 7", [0, 1, 2]),
        ("(days - 7) / 2", [-3, -2, -1, 0, 1, 2, 3]),
        ("(admitted - DATE '2021-01-01') / 30", [0, 1]),
        ("LENGTH(ward) / 2", [0]),
    ],
)
def test_keys_of_quotients_are_those_of_postgresql(port: Port, key: str, expected: list[int]) -> None:
    with port.connect() as connection:
        rows = connection.execute(
            f"SELECT {key} AS k, COUNT(*) AS n FROM stays GROUP BY 1 ORDER BY 1".encode()
        ).fetchall()
    assert ([k for k, _ in rows], sum(n for _, n in rows)) == (expected, len(ROWS))


def test_the_ends_of_a_cut_quotient_are_whole(port: Port) -> None:
    with port.connect(options="-c sordino.epsilon=0.05 -c sordino.intervals=on") as connection:
        cursor = connection.execute("SELECT COUNT(*) / 7 AS w FROM stays")
        ((value, lower, upper),) = cursor.fetchall()
    assert {type(cell) for cell in (value, lower, upper)} == {int}
    assert lower <= value <= upper
    assert lower < upper
