"""The port for SQL clients as they use it: Debian's psql, psycopg, SQLAlchemy and pandas, by TLS and SCRAM."""

from __future__ import annotations

import datetime
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import psycopg
import pytest
import sqlalchemy as sa

from serving import COUNT
from sordino.errors import DeclarationError
from sordino.serve.server.access import ACCESS, ROLES, Role
from sordino.serve.server.accounts import visitor_of_account
from sordino.serve.server.answer_time import PublicClock
from sordino.serve.server.sql_wire.wire_server import Limits, WireServer
from sql_clients import SqlPort, psql, serve_sql

WHO: dict[Role, str] = {"analyst": "ana", "officer": "ola", "auditor": "udo"}


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlPort]:
    with serve_sql(tmp_path_factory.mktemp("sql")) as made:
        yield made


def notices_of(connection: psycopg.Connection[Any]) -> list[str]:
    found: list[str] = []
    connection.add_notice_handler(lambda said: found.append(said.message_primary or ""))
    return found


def epsilon_left(port: SqlPort, who: str = "ana") -> float:
    with port.connect(who) as connection:
        rows = connection.execute("SHOW sordino.budgets").fetchall()
    return float({row[1]: row[4] for row in rows}[who].split(": ")[1].rstrip("}"))


@pytest.mark.deep
def test_psql_describes_the_declaration(port: SqlPort) -> None:
    done = psql(port, "\\dt\n\\d people\n\\d+ people\n\\d nothing\n\\l\n\\dn\n\\conninfo\n")
    assert "| people | table | sordino" in done.stdout
    assert "age    | bigint" in done.stdout
    assert "sex    | text" in done.stdout
    assert """CHECK ("age" BETWEEN 0 AND 120)""" in done.stdout
    assert "privacy unit" not in done.stderr
    assert 'Did not find any relation named "nothing"' in done.stdout + done.stderr
    assert "ERROR" not in done.stderr
    assert "SSL connection" in done.stdout


@pytest.mark.deep
def test_psql_asks_and_says_what_it_cost(port: SqlPort) -> None:
    before = epsilon_left(port)
    text = f"SET sordino.epsilon = 0.1;\nSET sordino.intervals = on;\n{COUNT};\nEXPLAIN {COUNT};\n"
    done = psql(port, text)
    assert "n | n_lower | n_upper" in " ".join(done.stdout.split()).replace("-", "")
    assert "NOTICE:  00000: cost: epsilon 0.1, left of the share of ana" in done.stderr
    assert "error at 0.95: n +-30" in done.stderr
    assert "cost       epsilon 0.1" in done.stdout
    assert epsilon_left(port) == pytest.approx(before - 0.1)


def test_a_comment_states_the_loss_of_its_statement_alone(port: SqlPort) -> None:
    with port.connect() as connection:
        notices = notices_of(connection)
        connection.execute(f"/* epsilon 0.02 */ {COUNT}")
        assert any("cost: epsilon 0.02," in notice for notice in notices)
        notices.clear()
        with pytest.raises(psycopg.errors.InvalidParameterValue) as refused:
            connection.execute(COUNT)
        assert "SET sordino.epsilon" in (refused.value.diag.message_hint or "")
        connection.execute("SET sordino.epsilon = 0.5")
        connection.execute(f"{COUNT} -- epsilon 1/50")
        assert any("cost: epsilon 0.02," in notice for notice in notices)


def test_answers_come_as_text_and_binary_with_their_types(port: SqlPort) -> None:
    text = "SELECT sex, COUNT(*) AS n, AVG(age) AS m FROM people GROUP BY sex"
    with port.connect(options="-c sordino.epsilon=0.01 -c sordino.intervals=on") as connection:
        for binary in (False, True):
            cursor = connection.cursor(binary=binary).execute(text.encode())
            assert [c.name for c in cursor.description or ()][:4] == ["sex", "n", "n_lower", "n_upper"]
            for row in cursor.fetchall():
                assert isinstance(row[0], str)
                # a count is whole, also beside a mean
                assert all(isinstance(cell, int) for cell in row[1:4])
                assert all(isinstance(cell, float) for cell in row[4:])
                assert row[2] <= row[1] <= row[3]
        count = connection.cursor(binary=True).execute(COUNT.encode()).fetchone()
        assert count is not None
        assert all(isinstance(cell, int) for cell in count)


DESCRIBES = """
import sys
import psycopg

raw = psycopg.pq.PGconn.connect(sys.stdin.readline().rstrip("\\n").encode())
assert raw.status == 0, raw.error_message
raw.prepare(b"s", b"SELECT sex, COUNT(*) AS n FROM people WHERE age > $1 AND sex = $2 GROUP BY sex")
said = raw.describe_prepared(b"s")
print([said.param_type(i) for i in range(said.nparams)], [(said.fname(i), said.ftype(i)) for i in range(said.nfields)])
answers = [raw.exec_prepared(b"s", [b"30", b"f"]) for _ in range(int(sys.argv[1]))]
print([(one.ntuples, one.ftype(1)) for one in answers])
"""


@pytest.mark.deep
def test_a_described_statement_costs_nothing_and_keeps_its_columns(port: SqlPort) -> None:
    stated = psycopg.conninfo.make_conninfo(**port.options(options="-c sordino.epsilon=0.01"))
    for times in (0, 2):
        before = epsilon_left(port)
        # libpq waits within, so it has a process of its own
        command = [sys.executable, "-c", DESCRIBES, str(times)]
        done = subprocess.run(command, input=stated + "\n", capture_output=True, text=True, timeout=300, check=False)
        assert done.stdout.splitlines() == [
            "[20, 25] [(b'sex', 25), (b'n', 20)]",
            # The condition leaves one key possible.
            str([(1, 20)] * times),
        ], done.stderr
        assert epsilon_left(port) == pytest.approx(before - 0.01 * times)


HOSTILE = (
    "f' OR sex = 'm",
    "f'; SELECT 1; --",
    "' UNION SELECT 1 --",
    "f\\",
    "$1",
    "/* epsilon 2 */",
    "f'/*",
    "E'f'",
    "$$f$$",
)


@pytest.mark.attack("insert SQL by a name, a text or an id")
@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_parameter_is_a_literal_whatever_it_says(port: SqlPort, hostile: str) -> None:
    before = port.spent()
    refused = pytest.raises(psycopg.errors.UndefinedObject, match="not a declared value")
    with port.connect(options="-c sordino.epsilon=0.01") as connection, refused:
        connection.execute("SELECT COUNT(*) AS n FROM people WHERE sex = %s", (hostile,))
    assert port.spent() == before


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("DELETE FROM people", "0A000"),
        ("COPY people TO '/tmp/x'", "0A000"),
        ("SELECT COUNT(*) FROM peeple /* epsilon 0.1 */", "42704"),
        ("SELECT age FROM people /* epsilon 0.1 */", "0A000"),
        ("SELECT COUNT(*) FROM people, pg_class /* epsilon 0.1 */", "42704"),
        ("SELECT * FROM read_csv('/etc/passwd')", "42883"),
        ("SELECT * FROM duckdb_settings()", "42883"),
        ("SELECT getenv('HOME')", "42883"),
        ('SELECT * FROM "/etc/passwd"', "42704"),
        ("SELECT 'open", "0A000"),
        ("SET sordino.epsilom = 1", "42704"),
        ("SET sordino.epsilon = 'much'", "22023"),
        ("SET client_encoding = 'LATIN1'", "22023"),
        ("EXPLAIN ANALYZE SELECT COUNT(*) FROM people /* epsilon 0.1 */", "0A000"),
        ("SELECT COUNT(*) FROM people /* epsilon 9 */", "SD001"),
        ("EXECUTE nothing", "0A000"),
        ("WITH d AS (DELETE FROM pg_class RETURNING 1) SELECT * FROM d", "0A000"),
        ("SELECT * INTO x FROM pg_class", "42704"),
    ],
)
def test_refusals_have_a_state_and_cost_nothing(port: SqlPort, text: str, state: str) -> None:
    before = port.spent()
    with port.connect() as connection, pytest.raises(psycopg.Error) as refused:
        connection.execute(text.encode())
    assert refused.value.sqlstate == state, refused.value
    assert str(port.tls.certificate.parent) not in str(refused.value)
    assert port.spent() == before


def test_a_transaction_gives_nothing_back_and_says_so(port: SqlPort) -> None:
    with port.connect(autocommit=False) as connection:
        notices = notices_of(connection)
        connection.execute("SET sordino.epsilon = 0.01")
        connection.execute(COUNT.encode())
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            connection.execute("DELETE FROM people")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            connection.execute(COUNT.encode())
        connection.rollback()
        assert "ROLLBACK gives no loss back: charge c-" in notices[-1]
        with pytest.raises(psycopg.errors.InvalidParameterValue):  # the setting went with the transaction
            connection.execute(COUNT.encode())


@pytest.mark.deep
def test_sqlalchemy_and_pandas(port: SqlPort) -> None:
    options = port.options(options="-c sordino.epsilon=0.01")
    engine = sa.create_engine("postgresql+psycopg://", connect_args=options)
    seen = sa.inspect(engine)
    assert seen.get_table_names() == ["people"]
    assert [(c["name"], str(c["type"])) for c in seen.get_columns("people")] == [("age", "BIGINT"), ("sex", "TEXT")]
    assert {c["name"] for c in seen.get_check_constraints("people")} == {"people_age_check", "people_sex_check"}
    assert not seen.has_table("nothing")
    people = sa.Table("people", sa.MetaData(), autoload_with=engine)
    chosen = sa.select(people.c.sex, sa.func.count().label("n")).where(people.c.age > 10).group_by(people.c.sex)
    with engine.connect() as connection:
        assert [row.sex for row in connection.execute(chosen)] == ["f", "m"]
    frame = pd.read_sql(
        sa.text("SELECT sex, COUNT(*) AS n FROM people WHERE age > :a GROUP BY sex"), engine, params={"a": 3}
    )
    assert list(frame.columns) == ["sex", "n"]
    assert frame["n"].dtype == "int64"
    engine.dispose()


def test_what_dashboards_ask_of_the_catalog(port: SqlPort) -> None:
    asked = {
        "SELECT table_schema, table_name, table_type FROM information_schema.tables WHERE table_schema NOT IN "
        "('pg_catalog', 'information_schema')": [("public", "people", "BASE TABLE")],
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'people' ORDER BY ordinal_position": [
            ("age", "bigint"),
            ("sex", "text"),
        ],
        "SELECT current_database(), current_schema(), current_user": [("sordino", "public", "ana")],
        "SELECT 'people'::regclass::oid = c.oid FROM pg_class c": [(True,)],
        "SELECT nspname FROM pg_namespace ORDER BY 1": [("information_schema",), ("pg_catalog",), ("public",)],
        "SELECT 1": [(1,)],
        "SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a WHERE a.attrelid = 'people'::regclass "
        "AND a.attnum > 0 ORDER BY a.attnum": [("age", "bigint"), ("sex", "text")],
    }  # fmt: skip
    with port.connect() as connection:
        for text, rows in asked.items():
            assert connection.execute(text.encode()).fetchall() == rows, text
        assert psycopg.types.TypeInfo.fetch(connection, "text") is not None


def test_the_catalog_ends_what_takes_too_long(port: SqlPort, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sordino.serve.server.sql_wire.declared_catalog._SECONDS", 0.3)
    with port.connect() as connection, pytest.raises(psycopg.errors.FeatureNotSupported):
        connection.execute("SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 10000000) b")


def test_roles_hold_by_the_wire(port: SqlPort) -> None:
    assert set(WHO) == set(ROLES)
    for role, who in WHO.items():
        with port.connect(who, options="-c sordino.epsilon=0.01") as connection:
            assert connection.execute(f"EXPLAIN {COUNT}".encode()).fetchall()
            connection.execute("SET sordino.on = 'dummy'")
            assert connection.execute(COUNT.encode()).fetchone()
            connection.execute("RESET sordino.on")
            if ACCESS["question.ask"][role] == "none":
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(COUNT.encode())
            else:
                assert connection.execute(COUNT.encode()).fetchone()
            shares = {row[1] for row in connection.execute("SHOW sordino.budgets").fetchall()} - {""}
            assert shares == ({"ana"} if role == "analyst" else {"ana", "ben"})
            spenders = {row[2] for row in connection.execute("SHOW sordino.releases").fetchall()}
            assert spenders == {"ana"}
    with port.connect("ben") as connection:
        assert connection.execute("SHOW sordino.releases").fetchall() == []


def test_a_token_alone_signs_in_and_only_while_it_is_good(tmp_path: Path) -> None:
    with serve_sql(tmp_path) as port:
        accounts = port.served.service.account_service.accounts
        for who, password in (("ana", "wrong"), ("ana", port.tokens["ben"]), ("nobody", port.tokens["ana"])):
            with pytest.raises(psycopg.OperationalError, match="do not fit"):
                psycopg.connect(**{**port.options(), "user": who, "password": password})
        accounts.set_password(accounts.find("ana"), "a long enough password")
        with pytest.raises(psycopg.OperationalError, match="do not fit"):
            port.connect(password="a long enough password")
        _, second = accounts.make_token(accounts.find("ana"), "second", spender="ben")
        with port.connect(password=second, options="-c sordino.epsilon=0.01") as connection:
            notices = notices_of(connection)
            connection.execute(COUNT.encode())
            assert "the share of ben" in notices[0]
            accounts.revoke_token(accounts.tokens(accounts.find("ana"))[1])
            with pytest.raises(psycopg.Error) as ended:
                connection.execute(COUNT.encode())
            assert ended.value.sqlstate == "28000"
        with port.connect() as connection:
            accounts.change(accounts.find("ana"), disabled=True)
            with pytest.raises(psycopg.Error):
                connection.execute("SELECT 1")


def test_who_guesses_tokens_is_logged_and_then_waits(tmp_path: Path) -> None:
    with serve_sql(tmp_path) as port:
        # the bucket does not fill up meanwhile, however busy the machine is
        port.served.service.account_service._throttle._tokens._clock = lambda: 0.0
        said = []
        for _ in range(32):
            with pytest.raises(psycopg.OperationalError) as refused:
                port.connect(password="wrong")
            said.append(str(refused.value))
        assert "do not fit" in said[0]
        assert "too many tries" in said[-1]
        with port.connect() as connection:  # a good token is let in all the same
            assert connection.execute("SELECT 1").fetchone()
        lines = port.served.service.account_service.audit_log.lines()
        assert ("ana", "session.begin", "sql", "refused") in {
            (line["account"], line["action"], line["object"], line["outcome"]) for line in lines
        }


def test_plain_text_is_refused_where_there_is_a_certificate(port: SqlPort) -> None:
    with pytest.raises(psycopg.OperationalError, match="TLS alone"):
        port.connect(sslmode="disable", channel_binding="disable")
    with (
        pytest.raises(DeclarationError, match="need TLS"),
        WireServer(port.served.service).serving(host="0.0.0.0", port=0),
    ):
        pass


def test_what_an_officer_has_to_approve(tmp_path: Path) -> None:
    with serve_sql(tmp_path, serve="approve_above = {epsilon = 0.05}") as port, port.connect() as connection:
        connection.execute("SET sordino.epsilon = 0.1")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match=r"SET sordino\.request"):
            connection.execute(COUNT.encode())
        connection.execute("SET sordino.request = 'monday'")
        with pytest.raises(psycopg.Error) as waits:
            connection.execute(COUNT.encode())
        assert waits.value.sqlstate == "SD002"
        account_service = port.served.service.account_service
        account_service.decide(visitor_of_account(account_service.accounts.find("ola"), via="test"), 1, "approved")
        first = connection.execute(COUNT.encode()).fetchone()
        assert connection.execute(COUNT.encode()).fetchone() == first
    assert len(port.served.service.ledger("people").charges()) == 1


class HeldClock(PublicClock):
    """A public clock whose next tick comes when the test says, so that no test waits, or is too slow, for one."""

    def __init__(self) -> None:
        super().__init__(Fraction(1))
        self.waiting = threading.Event()
        self.ticked = threading.Event()

    def sleep(self, _started: float) -> None:
        self.waiting.set()
        assert self.ticked.wait(120)
        self.waiting.clear()


def test_a_cancel_ends_the_wait_and_says_that_a_charge_stands(tmp_path: Path) -> None:
    with serve_sql(tmp_path) as port, ThreadPoolExecutor(1) as beside:
        clock = HeldClock()
        port.served.service.public_clock = clock
        with port.connect(options="-c sordino.epsilon=0.01") as connection:

            def cancel_once_charged() -> None:
                while not port.served.service.ledger("people").charges():
                    time.sleep(0.05)
                connection.cancel_safe()

            canceler = beside.submit(cancel_once_charged)
            with pytest.raises(psycopg.errors.QueryCanceled, match="the charge stands"):
                connection.execute(COUNT.encode())
            assert not clock.ticked.is_set()
            canceler.result()
            # what was canceled has the account's thread until its tick, so the next statement does not tell when it was done
            shown = beside.submit(lambda: connection.execute("SHOW sordino.releases").fetchall())
            assert clock.waiting.wait(120)
            assert not wait([shown], timeout=0.3).done
            clock.ticked.set()
            assert len(shown.result(120)) == 1


def test_an_answer_and_a_refusal_wait_for_their_tick(tmp_path: Path) -> None:
    with serve_sql(tmp_path) as port, ThreadPoolExecutor(1) as beside:
        for text, refusal in ((COUNT, None), ("SELECT COUNT(*) AS n FROM peeple", psycopg.errors.UndefinedObject)):
            clock = HeldClock()
            port.served.service.public_clock = clock
            with port.connect(options="-c sordino.epsilon=0.01") as connection:
                answer = beside.submit(connection.execute, text.encode())
                assert clock.waiting.wait(120)
                assert not wait([answer], timeout=0.3).done
                clock.ticked.set()
                if refusal is None:
                    assert len(answer.result(120).fetchall()) == 1
                else:
                    assert isinstance(answer.exception(120), refusal)


def test_connections_are_counted(tmp_path: Path) -> None:
    with serve_sql(tmp_path, limits=Limits(account=2)) as port:
        held = [port.connect(), port.connect()]
        with pytest.raises(psycopg.OperationalError, match="2 connections at most"):
            port.connect()
        with port.connect("ben") as other:
            assert other.execute("SELECT 1").fetchone() == (1,)
        for connection in held:
            connection.close()
        for _ in range(1200):
            try:
                port.connect().close()
                break
            except psycopg.OperationalError:
                time.sleep(0.1)
        else:
            raise AssertionError("a closed connection is counted for ever")


def test_dates_and_fractions_as_parameters(port: SqlPort) -> None:
    with port.connect(options="-c sordino.epsilon=0.01") as connection:
        for value in (64, 64.5, Fraction(129, 2).__float__()):
            assert connection.execute("SELECT COUNT(*) AS n FROM people WHERE age > %s", (value,)).fetchone()
            assert connection.execute("SELECT COUNT(*) AS n FROM people WHERE age > %b", (value,)).fetchone()
        with pytest.raises(psycopg.Error):
            connection.execute("SELECT COUNT(*) AS n FROM people WHERE age > %b", (datetime.date(2020, 1, 1),))
