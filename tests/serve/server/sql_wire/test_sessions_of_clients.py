"""What clients send beside questions: the reset of a pool's connection, and settings, refused where questions would be."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from serving import COUNT
from sordino.core.loss import read_loss
from sordino.errors import SordinoError
from sordino.serve.server.curator_service import LONGEST_REQUEST
from sordino.serve.server.question_request import read_question_request
from sordino.serve.server.sql_wire.sqlstates import WireError
from sordino.serve.server.sql_wire.wire_settings import WireSettings
from sql_clients import SqlPort, serve_sql

# as asyncpg sends it whenever a connection goes back into its pool, in one message
RESET = "SELECT pg_advisory_unlock_all();\nCLOSE ALL;\nUNLISTEN *;\nRESET ALL;"
NAMES = (
    "epsilon",
    "delta",
    "rho",
    "confidence",
    "share",
    "on",
    "intervals",
    "request",
    "assume_rows",
    "min_units",
    "max_rows",
    "max_groups",
    "max_rows_per_group",
)


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlPort]:
    with serve_sql(tmp_path_factory.mktemp("sessions")) as made:
        yield made


def test_the_reset_of_a_pool_leaves_what_the_connection_began_with(port: SqlPort) -> None:
    with port.connect(options="-c sordino.epsilon=0.01") as client:
        first = client.execute(COUNT).fetchone()
        client.execute("SET sordino.epsilon = 0.02")
        client.execute(f"BEGIN; DECLARE c CURSOR WITH HOLD FOR {COUNT}; COMMIT")
        done = client.pgconn.exec_(RESET.encode())
        assert done.status == psycopg.pq.ExecStatus.COMMAND_OK, done.error_message
        assert client.execute("SHOW sordino.epsilon").fetchone() == ("0.01",)
        with pytest.raises(psycopg.errors.InvalidCursorName):
            client.execute("FETCH 1 FROM c")
        assert client.execute(COUNT).fetchone() is not None
    assert first is not None


def test_asyncpgs_pool_gives_every_answer_that_was_charged(port: SqlPort) -> None:
    asyncpg: Any = pytest.importorskip("asyncpg", reason="asyncpg is not here: it is of the extra test")
    before = len(port.served.service.ledger("people").charges())

    async def ask() -> list[Any]:
        options = port.options()
        async with asyncpg.create_pool(
            host="127.0.0.1",
            port=port.server.port,
            user="ana",
            password=options["password"],
            database="sordino",
            ssl="require",
            min_size=1,
            max_size=2,
            server_settings={"sordino.epsilon": "0.01"},
        ) as pool:
            asked = [pool.fetchval("SELECT COUNT(*) AS n FROM people WHERE age > $1", 20 + i) for i in range(6)]
            return list(await asyncio.gather(*asked))

    answers = asyncio.run(ask())
    charges = port.served.service.ledger("people").charges()[before:]
    assert len(answers) == len(charges) == 6


def test_the_catalog_names_the_function_that_it_does_not_know(port: SqlPort) -> None:
    with port.connect() as client, pytest.raises(psycopg.errors.UndefinedFunction, match="'pg_advisory_lock'"):
        client.execute("SELECT pg_advisory_lock(1)")


VALUES = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ["1e400", "-1", "x", "0", "1/0", "nan", "inf", "1e-13", "1e7", "0.5", "1/3", ".5", "1.", "007", "+1"]
    ),
    st.sampled_from(["on", "off", "data", "dummy", "equal", "error", "relative"]),
    st.integers(-5, 10**16).map(str),
    st.floats().map(str),
)


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(NAMES), VALUES)
@example("epsilon", "1e400")
@example("epsilon", "-1")
@example("on", "x")
@example("share", "most")
@example("max_rows", "0")
@example("assume_rows", "0")
@example("request", "x" * 400)
def test_a_value_that_is_set_breaks_no_later_statement(port: SqlPort, name: str, value: str) -> None:
    """Whatever SET takes, a question can be asked with: what a question would refuse, SET refuses."""
    session = WireSettings()
    session.set("sordino.epsilon", "0.5")
    refused: WireError | None = None
    try:
        session.set(f"sordino.{name}", value)
    except WireError as error:
        refused = error
    if refused is not None:
        assert (refused.code in ("22023", "55P02"), name in str(refused)) == (True, True)
        return
    assert isinstance(session.intervals, bool)
    assert len(session.request or "") <= LONGEST_REQUEST
    losses: dict[str, dict[str, Any]] = {
        "delta": {"epsilon": "0.5"},
        "rho": {"epsilon": None},
        "share": {"assume_rows": 9},
    }
    stated: dict[str, Any] = {**session.words({}), **losses.get(name, {})}
    service = port.served.service
    visitor = service.account_service.enter(port.tokens["ana"])
    try:
        asked = read_question_request({"sql": COUNT, "dialect": "postgres", **stated})
        if name in ("delta", "rho"):  # this budget counts epsilon alone
            read_loss(epsilon=asked.epsilon, delta=asked.delta, rho=asked.rho)
        elif not name.startswith(("min_", "max_")):  # which go with private keys, and with a privacy unit, alone
            service.plan(visitor, asked)
    except SordinoError as error:
        raise AssertionError(f"SET took {name} = {value!r}, and a question says: {error}") from error
