"""Collations of a DuckDB file: they make texts equal that differ, so that one row would decide what others count as.

The law: whatever collation a file's columns have, every answer is that of the same rows held without any.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

import sordino as sd
from ask.engines.support import ask, engine_of, exact
from sordino import col
from sordino.ask.curator.connect import Connection
from sordino.ask.queries.build import Selection
from sordino.core.neighbors import PrivacyUnit
from sordino.errors import DeclarationError

S = Selection()
COLLATIONS = ["NOCASE", "NOACCENT", "NOCASE.NOACCENT", "de", "de.NOCASE"]
WORDS = ["red", "RED", "r\u00e9d", "re\u0301d", "Red"]  # the third and fourth differ for a computer alone
SURE = 10**4  # at this epsilon a count's noise is nothing, but with a chance of e^-2000
PLACES: dict[str, Any] = {
    "WHERE": sd.sql("SELECT COUNT(*) FROM visit WHERE k = 'red'"),
    "WHERE of an identifier": sd.sql("SELECT COUNT(*) FROM visit WHERE who = 'RED1'"),
    "IN": sd.sql("SELECT COUNT(*) FROM visit WHERE k IN ('red', 'r\u00e9d')"),
    "CASE": sd.sql("SELECT SUM(CASE k WHEN 'RED' THEN 3 WHEN 'red' THEN 1 ELSE 0 END) FROM visit"),
    "LIKE": sd.sql("SELECT COUNT(*) FROM visit WHERE who LIKE 'R%'"),
    "GROUP BY": S.group_by("k").agg(sd.count(), sd.sum("x")),
    "listed keys": S.group_by("free", keys=["red", "Red"]).agg(sd.count()),
    "private keys": S.group_by("free", keys="threshold").agg(sd.count()),
    "weighted keys": S.group_by("free", keys="weighted").agg(sd.count()),
    "COUNT DISTINCT of a unit": sd.count_distinct("who"),
    "COUNT DISTINCT": sd.count_distinct("free"),
    "COUNT DISTINCT of a category": sd.count_distinct("k"),
    "most_common": sd.most_common("k"),
    "caps of rows": S.agg(sd.count(), sd.sum("x")).bound_contributions(max_rows=2),
    "caps of groups": S.group_by("k").agg(sd.count()).bound_contributions(max_groups=1, max_rows_per_group=1),
    "values of a unit": S.per_unit(n=sd.sum("x").clip(0, 50), d=sd.count_distinct("k")).agg(
        sd.count(), sd.sum("n"), sd.sum("d")
    ),
    "first and last of a unit": (
        S.per_unit(a=sd.first("k", by="x"), b=sd.min("x")).group_by("a").agg(sd.count(), sd.sum("b"))
    ),
    "join by unit": S.join("person").group_by("town").agg(sd.count(), sd.sum("x")),
    "left join by unit": S.join("person", how="left").group_by("town").agg(sd.count()),
    "EXISTS": S.where(sd.exists("person", col("town") == "RED")).agg(sd.count()),
    "join with a public table": S.join("paint", on="k").agg(sd.sum("price")),
    "unnest": S.unnest("tags").group_by("tags").agg(sd.count()),
    "unnest in WHERE": S.unnest("tags").where(col("tags") == "red").agg(sd.count()),
}
BY_ROW = ["WHERE", "IN", "CASE", "LIKE", "GROUP BY", "listed keys", "COUNT DISTINCT", "most_common", "unnest"]
BY_ROW += ["unnest in WHERE"]


def write(path: Path, collation: str, odd: str) -> None:
    """Write two tables of the same people; a row of the word `odd` is stored first."""
    words = [odd, *WORDS[:1] * 30, *WORDS * 3]
    with duckdb.connect(str(path)) as file:
        text = f"VARCHAR COLLATE {quoted(collation)}" if collation else "VARCHAR"
        file.execute(f"CREATE TABLE visits (who {text}, free {text}, k {text}, x INTEGER)")
        file.execute(f"CREATE TABLE person (id {text}, town {text})")
        visits = [(f"{word}{i % 9}", word, words[-1 - i], i % 7) for i, word in enumerate(words)]
        insert(file, "visits", visits)
        insert(file, "person", [(f"{w}{i}", w) for i in range(9) for w in WORDS[i % 3 :]])
        # the items of a list keep the collation of the column that it was made of
        file.execute("CREATE TABLE visit AS SELECT *, [k, free] AS tags FROM visits")
        file.execute(f"CREATE TABLE paint (k {text}, price INTEGER)")
        insert(file, "paint", [(w, i) for i, w in enumerate(WORDS)])
        file.execute(f"SET default_collation = {quoted(collation or 'binary')}")
        file.execute("CREATE VIEW seen AS SELECT who, free, k COLLATE NOCASE AS k, x, tags FROM visit WHERE x >= 0")


def insert(file: duckdb.DuckDBPyConnection, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert rows in their order, by one statement: one for each row takes a millisecond a row."""
    cells = ", ".join("(" + ", ".join("?" * len(row)) + ")" for row in rows)
    file.execute(f"INSERT INTO {table} VALUES {cells}", [cell for row in rows for cell in row])


def quoted(collation: str) -> str:
    return '"binary"' if collation == "binary" else collation


def protect(path: Path | str, relation: str) -> Connection:
    words = sd.Category(WORDS)
    visit = sd.Domain(
        {
            "who": sd.Identifier(),
            "free": sd.Identifier(),
            "k": words,
            "x": sd.Integer(0, 6),
            "tags": sd.List(words, max_items=2),
        }
    )
    person = sd.Domain({"id": sd.Identifier(), "town": words})
    priced = sd.Domain({"k": words, "price": sd.Integer(0, 9)})
    opened = sd.protect(
        {"visit": path, "person": path},
        relation={"visit": relation, "person": "person"},
        domain={"visit": visit, "person": person},
        neighbors="add_remove",
        privacy_unit={
            "visit": sd.PrivacyUnit("who", max_rows=50, of="person"),
            "person": sd.PrivacyUnit("id", max_rows=2, of="person"),
        },
        budget=sd.ApproxDP(10**9, 0.5),
        ledger=None,
        rng=sd.Rng.seeded(1),
        public={"paint": sd.public(path, relation="paint", key="k", columns=priced, max_rows=1)},
    )
    assert isinstance(opened, Connection)
    return opened


def read(path: Path | str, relation: str) -> dict[str, object]:
    """Return the answer of every place, by the unit and by the row."""
    table = protect(path, relation).table("visit")
    answers: dict[str, object] = {}
    for place, question in PLACES.items():
        delta = 0.001 if place in ("private keys", "weighted keys") else None
        answers[place] = table.ask(question, epsilon=SURE, delta=delta).rows
    rows = sd.protect(
        path,
        relation=relation,
        name="visit",
        domain=sd.Domain(dict(table.domain.columns) | dict(table.domain.lists)),
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.PureDP(10**9),
        ledger=None,
        rng=sd.Rng.seeded(1),
    )
    for place in BY_ROW:
        answers[f"{place} by the row"] = rows.ask(PLACES[place], epsilon=SURE).rows
    return answers


# The word that is stored first: one that collations merge with the most common, or that word itself.
FIRST = [WORDS[1], pytest.param(WORDS[0], marks=pytest.mark.deep)]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, object]]:
    """What every place answers where no column has a collation, by the word that is stored first."""

    @functools.cache
    def read_plain(odd: str) -> dict[str, object]:
        file = tmp_path_factory.mktemp("plain") / "plain.duckdb"
        write(file, "", odd)
        return read(file, "visit")

    return read_plain


@pytest.mark.each(7)
@pytest.mark.parametrize("odd", FIRST)
@pytest.mark.parametrize(
    ("collation", "relation"),
    [
        *((collation, "visit") for collation in COLLATIONS),
        (COLLATIONS[-1], "seen"),
        *(pytest.param(collation, "seen", marks=pytest.mark.deep) for collation in COLLATIONS[:-1]),
    ],
)
def test_every_place_answers_as_without_a_collation(
    plain: Callable[[str], dict[str, object]], collation: str, relation: str, odd: str, tmp_path: Path
) -> None:
    write(tmp_path / "visits.duckdb", collation, odd)
    assert read(tmp_path / "visits.duckdb", relation) == plain(odd)


@pytest.mark.deep
@pytest.mark.parametrize("odd", FIRST)
def test_every_place_answers_as_without_a_collation_on_postgresql(
    plain: Callable[[str], dict[str, object]], odd: str, postgres_database: str, tmp_path: Path
) -> None:
    import psycopg

    write(tmp_path / "plain.duckdb", "", odd)
    with (
        psycopg.connect(postgres_database, autocommit=True) as server,
        duckdb.connect(str(tmp_path / "plain.duckdb")) as held,
    ):
        server.execute("CREATE COLLATION blind (provider = icu, locale = 'und-u-ks-level1', deterministic = false)")
        text = "TEXT COLLATE blind"
        tables = {
            "visit": f"who {text}, free {text}, k {text}, x INTEGER, tags TEXT[] COLLATE blind",
            "person": f"id {text}, town {text}",
            "paint": f"k {text}, price INTEGER",
        }
        for name, columns in tables.items():
            server.execute(f"CREATE TABLE {name} ({columns})".encode())
            rows = held.execute(f"SELECT * FROM {name}").fetchall()
            places = ", ".join(["%s"] * len(rows[0]))
            with server.cursor() as cursor:
                cursor.executemany(f"INSERT INTO {name} VALUES ({places})".encode(), rows)
    assert read(postgres_database, "visit") == plain(odd)


@pytest.mark.parametrize("odd", [None, "RED"])
def test_a_row_stored_first_decides_nothing_for_the_others(odd: str | None, tmp_path: Path) -> None:
    path = tmp_path / "words.duckdb"
    with duckdb.connect(str(path)) as file:
        file.execute("CREATE TABLE t (k VARCHAR COLLATE NOCASE)")
        file.execute("INSERT INTO t SELECT ? WHERE ? IS NOT NULL", [odd, odd])
        file.execute("INSERT INTO t SELECT 'red' FROM range(1000)")
    counts = exact(path, sd.Domain({"k": sd.Category(["red", "RED"])}), S.group_by("k").agg(sd.count()), relation="t")
    assert counts == [[1000, 0 if odd is None else 1]]


def test_items_of_lists_count_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "lists.duckdb"
    with duckdb.connect(str(path)) as file:
        file.execute("CREATE TABLE words (k VARCHAR COLLATE NOCASE)")
        file.execute("INSERT INTO words VALUES ('RED'), ('red'), ('red')")
        file.execute("CREATE TABLE t AS SELECT [k, k] AS tags FROM words")
    table = sd.protect(
        path,
        relation="t",
        domain=sd.Domain({"tags": sd.List(sd.Category(["red", "RED"]), max_items=2)}),
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.PureDP(10**9),
        ledger=None,
    )
    counts = table.ask(table.unnest("tags").group_by("tags").agg(n=sd.count()), epsilon=SURE)
    assert [row["n"] for row in counts.rows] == [4, 2]


EQUAL = {  # cells that a type of DuckDB holds equal, or more than one of which it cannot tell apart by its text
    "DOUBLE": ["-0.0", "0.0", "'nan'", "'-nan'", "1e300"],
    "FLOAT": ["-0.0", "0.0", "'nan'", "16777216", "0.1"],
    "DECIMAL(4, 2)": ["'-0.00'", "0", "1.0", "1.00"],
    "ENUM('a', 'A', 'á')": ["'A'", "'a'", "'á'"],
    "UUID": ["'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"],
    "TIMESTAMPTZ": ["'2020-01-01 00:00+00'", "'2020-01-01 01:00+01'"],
    "TIMESTAMP_NS": ["'2020-01-01'", "'2020-01-01 00:00:00.000000001'"],
}


@pytest.mark.deep
@pytest.mark.parametrize("kind", EQUAL)
def test_equal_cells_count_alike_whichever_is_stored_first(kind: str, tmp_path: Path) -> None:
    domain = sd.Domain({"who": sd.Identifier(), "c": sd.Identifier()})
    unit = PrivacyUnit("who", max_rows=2)
    questions = [
        sd.count_distinct("c"),
        S.group_by("c", keys=["0", "a", "A", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "1"]).agg(sd.count()),
        S.group_by("c", keys=["0", "a", "1"]).agg(sd.count_distinct("who")),
    ]
    path = tmp_path / "equal.duckdb"
    with duckdb.connect(str(path)) as file:
        for table, cells in (("one", EQUAL[kind]), ("other", EQUAL[kind][::-1])):
            file.execute(f"CREATE TABLE {table} (who VARCHAR, c {kind})")
            for cell in cells:
                file.execute(f"INSERT INTO {table} SELECT 'u' || i % 7, CAST({cell} AS {kind}) FROM range(20) AS r(i)")
    for named in (None, "who", "c"):
        held = None if named is None else replace(unit, column=named)
        answers = []
        for table in ("one", "other"):
            engine = engine_of(path, domain, relation=table, unit=held)
            answers.append([ask(engine, domain, question) for question in questions])
            engine.close()
        assert answers[0] == answers[1], named


@pytest.mark.deep
@pytest.mark.parametrize(
    "kind",
    [
        "BLOB",
        "BIT",
        "INTERVAL",
        "TIMETZ",
        "TIME",
        "JSON",
        "STRUCT(a VARCHAR)",
        "MAP(VARCHAR, VARCHAR)",
        "UNION(a VARCHAR)",
    ],
)
@pytest.mark.parametrize(
    "declared", [sd.Identifier(), sd.Category(["a", "b"]), sd.List(sd.Category(["a"]), max_items=2)]
)
def test_types_with_an_equality_of_their_own_are_refused_by_the_declaration(
    kind: str, declared: Any, tmp_path: Path
) -> None:
    path = tmp_path / "types.duckdb"
    held = f"{kind}[]" if isinstance(declared, sd.List) else kind
    with duckdb.connect(str(path)) as file:
        file.execute(f"CREATE TABLE t (c {held})")
    with pytest.raises(DeclarationError, match="'c' is"):
        engine_of(path, sd.Domain({"c": declared}), relation="t")
