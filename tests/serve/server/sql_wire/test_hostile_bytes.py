"""Hostile bytes at the port for SQL clients: no crash, no wait without end, nothing of another's session."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from serving import COUNT
from sordino.errors import DeclarationError, QuestionRefused, SignInNeeded
from sordino.serve.server.accounts import ScramExchange, keys_of
from sordino.serve.server.sql_wire import wire_frames as wire
from sordino.serve.server.sql_wire.sql_session import SqlSession
from sordino.serve.server.sql_wire.wire_connection import WireConnection
from sordino.serve.server.sql_wire.wire_server import Limits
from sordino.serve.server.sql_wire.wire_statements import split_statements, tokens_of
from sordino.serve.server.sql_wire.wire_values import encode_cell, literal_of
from sql_clients import SqlPort, serve_sql

READERS = (
    wire.read_bind,
    wire.read_execute,
    wire.read_parse,
    wire.read_sasl_first,
    wire.read_startup,
    wire.read_target,
    wire.read_text,
)
KEYS = {1: keys_of("a token", b"salt")}
HARD = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlPort]:
    with serve_sql(tmp_path_factory.mktemp("hostile"), limits=Limits(start=1.0)) as made:
        yield made


@given(st.binary(max_size=200))
def test_every_reader_reads_or_says_that_a_frame_is_broken(body: bytes) -> None:
    for reader in READERS:
        with contextlib.suppress(wire.BrokenFrame):
            reader(body)


@given(st.lists(st.one_of(st.none(), st.binary(max_size=20)), max_size=5), st.text(alphabet="abc_", max_size=5))
def test_bind_is_read_as_it_was_written(values: list[bytes | None], name: str) -> None:
    body = name.encode() + b"\0" + b"s\0" + struct.pack("!h", 0) + struct.pack("!h", len(values))
    for one in values:
        body += struct.pack("!i", -1) if one is None else struct.pack("!i", len(one)) + one
    found = wire.read_bind(body + struct.pack("!hh", 1, 1))
    assert found == wire.Bind(name, "s", tuple((0, one) for one in values), (1,))
    with pytest.raises(wire.BrokenFrame):
        wire.read_bind(body + struct.pack("!hh", 1, 1) + b"\0")


@pytest.mark.attack("insert SQL by a name, a text or an id")
@given(
    st.binary(max_size=40),
    st.sampled_from([0, 1]),
    st.sampled_from([0, 16, 20, 21, 23, 25, 700, 701, 1082, 1114, 1700, 17]),
)
def test_a_parameter_becomes_one_literal_or_is_refused(value: bytes, form: int, oid: int) -> None:
    try:
        literal = literal_of(value, form, oid)
    except DeclarationError:
        return
    (statement,) = split_statements("SELECT COUNT(*) FROM people WHERE a = $1 AND b = 'kept; $1'")
    try:
        bound = statement.bind([literal])
    except (DeclarationError, QuestionRefused):
        return
    words = [token.text for token in tokens_of(bound)]
    assert words[-4:] == ["AND", "b", "=", "kept; $1"]
    assert len(words) == 14 + len(tokens_of(literal))
    assert len(tokens_of(literal)) <= 2  # a minus and a number, or one literal
    assert len(split_statements(bound)) == 1


@given(st.text(max_size=80))
@example("$0:")
def test_any_text_is_cut_into_statements_or_refused(text: str) -> None:
    """What is cut out is the client's text, but for the space that sets a parameter apart from what follows it."""
    try:
        found = split_statements(text)
    except (QuestionRefused, DeclarationError):
        return
    for one in found:
        assert one.text.replace(" ", "") in text.replace(" ", "")


@given(st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=10)))
def test_every_cell_has_a_form_that_its_type_has(value: Any) -> None:
    sizes = {20: 8, 23: 4, 701: 8}
    for oid in (
        (20, 23, 701) if isinstance(value, (int, float)) and not isinstance(value, bool) and value == value else ()
    ):
        if oid != 701 and abs(value) == float("inf"):
            continue
        cell = encode_cell(value, oid, 1)
        assert cell is not None
        assert len(cell) == sizes[oid]
    encode_cell(value, 25, 0)


@given(st.text(max_size=60), st.text(max_size=120))
def test_no_message_but_a_proof_signs_in(first: str, final: str) -> None:
    with pytest.raises(SignInNeeded):
        ScramExchange(first, nonce="n" * 20, salt=b"salt", binding=None, wants_binding=False).proof(final, KEYS)


def test_binding_cannot_be_taken_out_of_the_offer() -> None:
    """A client that says "y" saw no binding offered: where one was, somebody between has changed the offer."""
    for first, binding, wants, good in (
        ("y,,n=,r=abc", None, False, True),
        ("y,,n=,r=abc", b"hash", False, False),
        ("n,,n=,r=abc", b"hash", False, True),
        ("n,,n=,r=abc", b"hash", True, False),
        ("p=tls-server-end-point,,n=,r=abc", b"hash", True, True),
        ("p=tls-server-end-point,,n=,r=abc", None, True, False),
        ("p=tls-unique,,n=,r=abc", b"hash", True, False),
    ):
        with contextlib.nullcontext() if good else pytest.raises(SignInNeeded):
            ScramExchange(first, nonce="n", salt=b"s", binding=binding, wants_binding=wants)


@HARD
@given(st.lists(st.binary(min_size=1, max_size=60), min_size=1, max_size=4))
def test_bytes_before_the_sign_in_end_the_connection(port: SqlPort, chunks: list[bytes]) -> None:
    with socket.create_connection(("localhost", port.server.port), timeout=100) as plain, contextlib.suppress(OSError):
        for chunk in chunks:
            plain.sendall(chunk)
        plain.shutdown(socket.SHUT_WR)
        while plain.recv(1000):
            pass


@pytest.mark.attack("exhaust the reader of questions")
@HARD
@given(
    st.lists(
        st.tuples(st.sampled_from("QPBDECSHXFdcfp?"), st.one_of(st.binary(max_size=60), st.just(b"SELECT 1\0"))),
        max_size=6,
    )
)
def test_frames_of_a_signed_in_client_neither_crash_nor_hang(port: SqlPort, frames: list[tuple[str, bytes]]) -> None:
    spent = port.spent()
    asyncio.run(
        _converse(port, b"".join(kind.encode() + struct.pack("!i", len(body) + 4) + body for kind, body in frames))
    )
    assert port.spent() == spent


async def _converse(port: SqlPort, sent: bytes) -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(sent)
    reader.feed_eof()
    left, right = socket.socketpair()
    with left, right:
        _, writer = await asyncio.open_connection(sock=left)
        accounts = port.served.service.account_service.accounts
        token = accounts.tokens(accounts.find("ana"))[0].id
        session = SqlSession(port.served.service, port.server._catalog, token=token, database="sordino")
        connection = WireConnection(
            session, reader, writer, workers=port.server.workers, clock=port.served.service.public_clock
        )
        with contextlib.suppress(wire.BrokenFrame, asyncio.IncompleteReadError):
            async with asyncio.timeout(20):
                await connection.serve((1, 1))
        writer.close()


def test_half_open_connections_end_and_others_are_served_meanwhile(port: SqlPort) -> None:
    held = [socket.create_connection(("localhost", port.server.port), timeout=100) for _ in range(60)]
    for place, one in enumerate(held):
        one.sendall(b"\0\0\0"[: place % 4])
    with port.connect() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    for one in held:
        assert one.recv(10) == b""
        one.close()


def test_plain_bytes_behind_the_wish_for_tls_are_not_taken_for_the_clients(port: SqlPort) -> None:
    start = struct.pack("!ii", 40, 196608) + b"user\0ana\0".ljust(32, b"\0")
    with socket.create_connection(("localhost", port.server.port), timeout=100) as plain:
        plain.sendall(struct.pack("!ii", 8, 80877103) + start)
        context = ssl.create_default_context(cafile=str(port.tls.certificate))
        try:
            answer = plain.recv(1)
        except OSError:
            answer = b""
        if answer:  # the answer was on its way before the bytes were seen
            with pytest.raises((ssl.SSLError, ConnectionError)):
                context.wrap_socket(plain, server_hostname="localhost")


def test_a_frame_that_is_too_long_ends_the_connection(port: SqlPort) -> None:
    with port.raw() as secure:
        secure.sendall(struct.pack("!ii", 1 << 20, 196608))
        assert secure.recv(10) == b""


def test_a_guessed_cancel_key_cancels_nothing(port: SqlPort) -> None:
    with port.connect(options="-c sordino.epsilon=0.01") as connection:
        number = connection.info.backend_pid
        for key in (0, 1, 2**31):
            with port.raw() as secure:
                secure.sendall(struct.pack("!iIII", 16, 80877102, number, key))
                assert secure.recv(10) == b""
        assert connection.execute(COUNT.encode()).fetchone()


def test_sessions_see_nothing_of_each_other(port: SqlPort) -> None:
    with port.connect() as ana, port.connect("ben") as ben:
        ana.execute("SET sordino.epsilon = 0.01")
        ana.execute("SET sordino.request = 'same'")
        first = ana.execute(COUNT.encode()).fetchone()
        assert ben.execute("SHOW sordino.epsilon").fetchone() == ("",)
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            ben.execute(COUNT.encode())
        ben.execute("SET sordino.epsilon = 0.01")
        ben.execute("SET sordino.request = 'same'")
        answers = [ben.execute(COUNT.encode()).fetchone() for _ in range(2)]
        assert answers[0] == answers[1]
        assert ana.execute(COUNT.encode()).fetchone() == first
        assert {row[2] for row in ben.execute("SHOW sordino.releases").fetchall()} == {"ben"}
