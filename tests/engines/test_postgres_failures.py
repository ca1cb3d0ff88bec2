"""What fails on a PostgreSQL server: before the charge where it can be known, else the charge stands and says why."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

import postgres_server as postgres
import sordino as sd
from protecting import protect
from sordino.errors import ChargedError, DeclarationError, SourceError
from sordino.source import Source, source_from

DOMAIN = sd.Domain({"age": sd.Integer(0, 125), "name": sd.Identifier()})
ROWS = (
    "CREATE TABLE people AS SELECT i % 90 AS age, CAST(i AS TEXT) AS name FROM generate_series(1, 1000) AS numbers(i)"
)
SECRET = "S3CRET-9f"


@pytest.fixture
def database(postgres_server: postgres.Server, postgres_database: str) -> str:
    """The URL of a database with 1,000 people."""
    postgres_server.execute(ROWS, database=postgres_database.rpartition("/")[2])
    return postgres_database


def run_sql(server: postgres.Server, url: str, *statements: str) -> None:
    server.execute(*statements, database=url.rpartition("/")[2])


def slow_down(server: postgres.Server, url: str) -> None:
    """Put a view in place of the table that takes ten seconds to read."""
    run_sql(
        server,
        url,
        "ALTER TABLE people RENAME TO fast",
        "CREATE VIEW people AS SELECT age, name FROM fast, (SELECT pg_sleep(10)) AS slow",
    )


def test_a_server_that_is_down_is_an_error_before_the_charge(
    postgres_server: postgres.Server, database: str, tmp_path: Path
) -> None:
    people = protect(database, DOMAIN, relation="people", ledger=tmp_path / "a.ledger")
    people.ask(sd.count(), epsilon=1)
    postgres_server.stop()
    try:
        with pytest.raises(SourceError, match="no server answers there"):
            people.ask(sd.sum("age"), epsilon=1)
    finally:
        postgres_server.start()
    assert len(people.ledger.charges()) == 1
    assert abs(people.ask(sd.sum("age"), epsilon=10**4).value - 44_110) < 50  # the next ask works
    people.close()


def test_a_connection_that_drops_in_mid_query_leaves_the_charge(
    postgres_server: postgres.Server, database: str, tmp_path: Path
) -> None:
    people = protect(database, DOMAIN, relation="people", ledger=tmp_path / "a.ledger")
    slow_down(postgres_server, database)
    name = database.rpartition("/")[2]

    def kill() -> None:
        ended: list[object] = []
        while not ended:
            time.sleep(0.05)
            ended = postgres_server.execute(
                f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}' AND wait_event = 'PgSleep'"
            )

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(ChargedError, match=r"the charge stands\. The connection to the server was lost"):
        people.ask(sd.count(), epsilon=1)
    killer.join()
    assert [c.state for c in people.ledger.charges()] == ["failed"]
    run_sql(postgres_server, database, "DROP VIEW people", "ALTER TABLE fast RENAME TO people")
    assert abs(people.ask(sd.count(), epsilon=100).value - 1000) < 5
    people.close()


def test_a_statement_timeout_stops_the_question(postgres_server: postgres.Server, database: str) -> None:
    people = protect(f"{database}?options=-c%20statement_timeout%3D300ms", DOMAIN, relation="people")
    slow_down(postgres_server, database)
    with pytest.raises(ChargedError, match="its statement_timeout ran out"):
        people.ask(sd.count(), epsilon=1)
    people.close()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("DROP TABLE people", "there is no such table or view"),
        ("ALTER TABLE people DROP COLUMN age", "no such column"),
        ("ALTER TABLE people ALTER COLUMN age TYPE numeric", "not as it was when it was opened"),
    ],
)
def test_a_table_that_changed_is_refused_before_the_charge(
    change: str, says: str, postgres_server: postgres.Server, database: str
) -> None:
    people = protect(database, DOMAIN, relation="people")
    plan = people.plan(sd.count(), epsilon=1)
    run_sql(postgres_server, database, change)
    with pytest.raises((SourceError, DeclarationError), match=says):
        people.ask(plan)
    assert people.spent.amounts() == {"epsilon": 0}
    people.close()


def test_a_right_that_is_missing_is_said(postgres_server: postgres.Server, database: str) -> None:
    user = "u" + database.rpartition("/")[2][1:9]
    run_sql(postgres_server, database, f"CREATE ROLE {user} LOGIN")
    url = database.replace("sordino@", f"{user}@")
    with pytest.raises(SourceError, match="no right to read it"):
        protect(url, DOMAIN, relation="people")
    run_sql(postgres_server, database, f"GRANT SELECT (age, name) ON people TO {user}")
    people = protect(url, DOMAIN, relation="people")
    run_sql(postgres_server, database, f"REVOKE SELECT (age, name) ON people FROM {user}")
    with pytest.raises(SourceError, match="no right to read it"):
        people.ask(sd.count("age"), epsilon=1)
    people.close()


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://ann:{SECRET}@host/db",
        f"postgres://ann:{SECRET}@host",
        f"postgresql://host/db?password={SECRET}",
        f"postgresql://host/db?user=ann&PASSWORD={SECRET}",
        f"postgresql://ann:p/{SECRET}@host/db",
        f"postgresql://ann:p#{SECRET}@host/db",
        f"postgresql://ann:p?{SECRET}@host/db",
        f"postgresql://ann:{SECRET} @host/db",
    ],
)
def test_a_password_in_a_url_is_refused_and_never_shown(url: str) -> None:
    with pytest.raises(DeclarationError, match="PGPASSWORD") as refused:
        source_from(url, relation="people")
    assert SECRET not in str(refused.value)
    with pytest.raises(DeclarationError, match="PGPASSWORD"):
        Source(url, "postgresql", "people")


def test_nothing_of_a_password_shows_where_it_is_used(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", SECRET)
    people = protect(database, DOMAIN, relation="people", ledger=tmp_path / "a.ledger")
    release = people.ask(sd.count(), epsilon=1)
    shown = [repr(people), str(release), release.to_json(), (tmp_path / "a.ledger").read_bytes().decode("latin-1")]
    assert not any(SECRET in text for text in shown)
    people.close()
    with pytest.raises(SourceError, match="no such database") as refused:
        protect(database + "x", DOMAIN, relation="people")
    assert SECRET not in str(refused.value)


def test_transactions_only_read(postgres_server: postgres.Server, database: str) -> None:
    run_sql(
        postgres_server,
        database,
        "CREATE TABLE seen (n INT)",
        "CREATE FUNCTION note() RETURNS INT LANGUAGE sql AS 'INSERT INTO seen VALUES (1) RETURNING n'",
        "CREATE VIEW noted AS SELECT age, name, note() AS n FROM people",
    )
    domain = sd.Domain({"age": sd.Integer(0, 125), "n": sd.Integer(0, 1)})
    people = protect(database, domain, relation="noted")
    with pytest.raises(ChargedError):
        people.ask(sd.sum("n"), epsilon=1)
    assert postgres_server.execute("SELECT count(*) FROM seen", database=database.rpartition("/")[2]) == [(0,)]
    people.close()
