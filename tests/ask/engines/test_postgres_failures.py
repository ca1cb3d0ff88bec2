"""What fails on a PostgreSQL server: before the charge where it can be known, else the charge stands and says why."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

import postgres_server as postgres
import sordino as sd
from ask.engines.test_postgres import exact_parts
from protecting import protect
from sordino.ask.engines.postgres import PostgresEngine
from sordino.ask.engines.readers.postgres_tables import open_connection
from sordino.ask.queries.aggregation import compile_query
from sordino.ask.queries.build import Selection, as_aggregation
from sordino.core.neighbors import PrivacyUnit
from sordino.core.source import Source, source_from
from sordino.errors import ChargedError, DeclarationError, SourceError

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


def test_a_server_that_crashes_with_the_ledger_on_it_leaves_the_charge(
    postgres_server: postgres.Server, database: str
) -> None:
    people = protect(database, DOMAIN, relation="people", ledger=f"{database}#budget")
    slow_down(postgres_server, database)
    crash = threading.Timer(1, postgres_server.stop)
    crash.start()
    try:
        with pytest.raises(
            ChargedError, match=r"could not be computed; the charge stands\. The connection to the server was"
        ):
            people.ask(sd.count(), epsilon=1)
    finally:
        crash.join()
        postgres_server.start()
    run_sql(postgres_server, database, "DROP VIEW people", "ALTER TABLE fast RENAME TO people")
    assert abs(people.ask(sd.count(), epsilon=100).value - 1000) < 5
    assert [c.state for c in people.ledger.charges()] == ["reserved", "committed"]
    people.ledger.verify()
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


def assert_whole(people: sd.Curator, states: list[str]) -> None:
    """Require that the ledger holds these charges, its chain sound, and that the next question has its answer."""
    assert [charge.state for charge in people.ledger.charges()] == states
    people.ledger.verify()
    assert abs(people.ask(sd.count(), epsilon=100).value - 1000) < 5


def test_a_restart_between_questions_goes_unnoticed(
    postgres_server: postgres.Server, database: str, tmp_path: Path
) -> None:
    people = protect(database, DOMAIN, relation="people", ledger=tmp_path / "a.ledger")
    people.ask(sd.count(), epsilon=1)
    postgres_server.stop("fast")
    plan = people.plan(sd.count(), epsilon=1)  # which reads nothing
    with pytest.raises(SourceError, match="no server answers there"):
        protect(database, DOMAIN, relation="people")
    postgres_server.start()
    people.ask(plan)
    assert_whole(people, ["committed"] * 2)
    people.close()


def test_a_server_without_a_free_connection_is_said_before_the_charge(
    postgres_server: postgres.Server, database: str, tmp_path: Path
) -> None:
    import psycopg

    user = "c" + database.rpartition("/")[2][1:9]
    run_sql(
        postgres_server, database, f"CREATE ROLE {user} LOGIN CONNECTION LIMIT 1", f"GRANT SELECT ON people TO {user}"
    )
    url = database.replace("sordino@", f"{user}@")
    people = protect(url, DOMAIN, relation="people", ledger=tmp_path / "a.ledger")
    people.close()
    with psycopg.connect(url), pytest.raises(SourceError, match="no connection left"):
        people.ask(sd.count(), epsilon=1)
    assert_whole(people, [])
    people.close()


@pytest.mark.parametrize("wait", ["lock_timeout", "statement_timeout"])
def test_a_table_that_another_program_locks_is_said_before_the_charge(wait: str, database: str, tmp_path: Path) -> None:
    import psycopg

    url = f"{database}?options=-c%20{wait}%3D300ms"
    people = protect(url, DOMAIN, relation="people", ledger=tmp_path / "a.ledger")
    with psycopg.connect(database) as other:
        other.execute("LOCK TABLE people")
        with pytest.raises(SourceError, match="a lock on it"):
            people.ask(sd.count(), epsilon=1)
    assert_whole(people, [])
    people.close()


def test_a_connection_that_drops_before_the_charge_costs_nothing(
    postgres_server: postgres.Server, database: str, tmp_path: Path
) -> None:
    people = protect(database, DOMAIN, relation="people", ledger=tmp_path / "a.ledger")
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sordino' AND wait_event_type = 'Lock'"
    failed: list[Exception] = []

    def ask() -> None:
        try:
            people.ask(sd.count(), epsilon=1)
        except SourceError as error:
            failed.append(error)

    import psycopg

    with psycopg.connect(database) as other:
        other.execute("LOCK TABLE people")
        asker = threading.Thread(target=ask)
        asker.start()
        while not postgres_server.execute(end):
            time.sleep(0.02)
        asker.join()
    assert "the connection to the server was lost" in str(failed[0])
    assert_whole(people, [])
    people.close()


def test_a_full_disk_leaves_the_charge_and_says_so(
    postgres_server: postgres.Server, postgres_database: str, tmp_path: Path
) -> None:
    """The server's limit on temporary files stops a question as a full disk does; SQLSTATE 53400 for 53100."""
    rows = "SELECT CAST(i % 50000 AS TEXT) AS name, i % 90 AS age FROM generate_series(1, 150000) AS numbers(i)"
    name = postgres_database.rpartition("/")[2]
    postgres_server.execute(f"CREATE TABLE people AS {rows}", database=name)
    tight = "ALTER DATABASE {} {}"
    postgres_server.execute(
        tight.format(name, "SET work_mem = '64kB'"), tight.format(name, "SET temp_file_limit = '256kB'")
    )
    unit = sd.PrivacyUnit("name", max_rows=2)
    people = protect(postgres_database, DOMAIN, relation="people", unit=unit, ledger=tmp_path / "a.ledger")
    with pytest.raises(ChargedError, match=r"the charge stands\. The server's temp_file_limit is too low") as failed:
        people.ask(sd.count(), epsilon=1)
    assert failed.value.charge == "c-0001"
    assert [charge.state for charge in people.ledger.charges()] == ["failed"]
    people.ledger.verify()
    postgres_server.execute(f"ALTER DATABASE {name} RESET temp_file_limit")
    people.close()
    assert abs(people.ask(sd.count(), epsilon=100).value - 100_000) < 5
    people.close()


@pytest.mark.parametrize(("stated", "found"), [("", "1h"), ("?options=-c%20statement_timeout%3D300ms", "300ms")])
def test_a_statement_ends_after_an_hour_unless_a_time_is_stated(stated: str, found: str, database: str) -> None:
    with open_connection(source_from(database + stated, relation="people")) as connection:
        assert connection.execute("SHOW statement_timeout").fetchall() == [(found,)]


def test_all_scans_of_a_question_see_one_state_of_the_rows(postgres_server: postgres.Server, database: str) -> None:
    engine = PostgresEngine(source_from(database, relation="people"), domain=DOMAIN, unit=None)
    count = compile_query(as_aggregation(sd.count()), DOMAIN).select(engine.primitives)
    with engine.snapshot() as held:
        before = held.run(count)
        run_sql(postgres_server, database, "INSERT INTO people VALUES (1, 'new')")
        assert held.run(count) == before
    assert engine.run(count) != before
    engine.close()


def test_to_open_a_table_and_to_plan_reads_no_row(postgres_server: postgres.Server, database: str) -> None:
    """Each row of this view fails where it is read; that comes after the charge, and what the server says is not passed on."""
    run_sql(
        postgres_server,
        database,
        f"CREATE VIEW traps AS SELECT CAST('{SECRET}' || name AS INT) AS age, name FROM people",
    )
    people = protect(database, DOMAIN, relation="traps")
    people.plan(sd.sum("age"), epsilon=1)
    with pytest.raises(ChargedError, match="could not be computed; the charge stands") as failed:
        people.ask(sd.sum("age"), epsilon=1)
    cause: BaseException | None = failed.value
    while cause is not None:
        assert SECRET not in str(cause)
        cause = cause.__cause__ or cause.__context__
    people.close()


def test_text_is_compared_by_its_bytes_whatever_its_collation(postgres_server: postgres.Server, database: str) -> None:
    run_sql(
        postgres_server,
        database,
        "CREATE COLLATION blind (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
        "CREATE TABLE words (t TEXT COLLATE blind)",
        "INSERT INTO words VALUES ('a'), ('A'), ('b')",
    )
    domain = sd.Domain({"t": sd.Category(["a", "b"])})
    engine = PostgresEngine(source_from(database, relation="words"), domain=domain, unit=None)
    assert exact_parts(engine, domain, Selection().group_by("t").agg(sd.count())) == [[1, 1]]
    engine.close()


def test_numbers_that_are_equal_are_one_name_however_many_zeros_they_have(
    postgres_server: postgres.Server, database: str
) -> None:
    """They are alike in the server's order, so which of them a cap keeps must not show: neither in text nor as a unit."""
    names = [("1.0", "1.00"), ("1.00", "1.0")]
    for order, (first, second) in enumerate(names):
        run_sql(
            postgres_server,
            database,
            f"CREATE TABLE ids{order} (id NUMERIC, owner NUMERIC)",
            f"INSERT INTO ids{order} VALUES ({first}, {first}), ({second}, {second}), (1.50, 10.00), (10, 10), (0.00, NULL)",
        )
        domain = sd.Domain({"id": sd.Category(["1", "1.5", "10", "1.0", "1.00"]), "owner": sd.Identifier()})
        unit = PrivacyUnit("owner", max_rows=1)
        engine = PostgresEngine(source_from(database, relation=f"ids{order}"), domain=domain, unit=unit)
        groups = exact_parts(engine, domain, Selection().group_by("id").agg(sd.count()))
        assert groups[0][0] == 1
        assert sum(groups[0]) == 2
        assert exact_parts(engine, domain, sd.count_distinct("owner")) == [[2]]
        engine.close()
