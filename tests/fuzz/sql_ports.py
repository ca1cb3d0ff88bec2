"""The port of SQL clients under broken bytes, over a real socket, before and after the sign-in.

It answers in its protocol and soon, says nothing private, charges nothing that it does not answer for, and serves a good client
afterwards.
"""

from __future__ import annotations

import os
import random
import re
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq

from fuzz.mutation import mutate_bytes, mutate_text
from fuzz.ports import END, check_words, send_and_end, watch_log
from fuzz.surface import CANARY, Surface
from serving import Served, served
from sordino.serve.server.sql_wire.wire_server import WireServer

KINDS = b"RSKZTDC12tnEINsHdcv3"  # of messages that the server sends
ASKED = "SELECT COUNT(*) AS n FROM people /* epsilon 0.000001 */"
CHARGED = re.compile(rb"(SELECT|COPY|DECLARE)\b")  # tags that complete what may have been charged
STANDS = (b"SD003", b"40003", b"57014")  # errors that say that a charge stands


def frame(kind: str, body: bytes = b"") -> bytes:
    """Return a message of a client."""
    return kind.encode() + struct.pack("!i", len(body) + 4) + body


def read_frames(answer: bytes) -> list[tuple[str, bytes]]:
    """Return the messages of a server; raises AssertionError where bytes are none of the protocol."""
    found, at = [], 0
    while at < len(answer):
        assert len(answer) - at >= 5, "half a message"
        kind, size = answer[at : at + 1], struct.unpack("!i", answer[at + 1 : at + 5])[0]
        assert kind in KINDS, f"a message of kind {kind!r}"
        assert 4 <= size <= len(answer) - at - 1, f"a message {kind!r} of {size} bytes"
        found.append((kind.decode(), answer[at + 5 : at + 1 + size]))
        at += 1 + size
    return found


def _parse(text: str, *types: int, name: str = "") -> bytes:
    stated = struct.pack("!h", len(types)) + b"".join(struct.pack("!i", one) for one in types)
    return frame("P", name.encode() + b"\0" + text.encode() + b"\0" + stated)


def _bind(*values: bytes | None, forms: Sequence[int] = (), results: Sequence[int] = (), portal: str = "") -> bytes:
    body = portal.encode() + b"\0\0" + struct.pack(f"!h{len(forms)}h", len(forms), *forms)
    body += struct.pack("!h", len(values))
    for one in values:
        body += struct.pack("!i", -1) if one is None else struct.pack("!i", len(one)) + one
    return frame("B", body + struct.pack(f"!h{len(results)}h", len(results), *results))


def _query(text: str) -> bytes:
    return frame("Q", text.encode() + b"\0")


EXECUTE, ONE_ROW, SYNC, LEAVE = frame("E", b"\0" + bytes(4)), frame("E", b"\0\0\0\0\1"), frame("S"), frame("X")
BY_SEX = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex /* epsilon 0.000001 */"
OLDER = "SELECT COUNT(*), AVG(age) FROM people WHERE age > $1 AND sex = $2 /* epsilon 0.000001 */"
TALKS: tuple[tuple[bytes, ...], ...] = (
    (_query(ASKED), _query("SELECT 1; SHOW sordino.budgets; SHOW sordino.releases; SHOW ALL")),
    (_query("BEGIN; DECLARE c CURSOR FOR " + BY_SEX + "; FETCH 1 FROM c; MOVE 1 FROM c; CLOSE c; COMMIT"),),
    (_query("COPY (" + BY_SEX + ") TO STDOUT WITH (FORMAT csv, HEADER)"), _query("EXPLAIN (FORMAT JSON) " + BY_SEX)),
    (_query("SET sordino.epsilon = 0.000001; SET sordino.request = 'r1'; SELECT COUNT(*) FROM people; RESET ALL"),),
    (_parse(OLDER, 23, 25), frame("D", b"S\0"), _bind(b"40", b"f"), frame("D", b"P\0"), EXECUTE, SYNC),
    (_parse(OLDER, 20, 25), _bind(bytes(7) + b"\x28", b"m", forms=(1, 0), results=(1,)), ONE_ROW, EXECUTE, SYNC),
    (_parse(BY_SEX), _bind(results=(1,)), EXECUTE, _bind(results=(0, 1)), frame("D", b"P\0"), EXECUTE, SYNC),
    (_parse(BY_SEX), _bind(results=(1, 0)), ONE_ROW, ONE_ROW, ONE_ROW, frame("C", b"P\0"), SYNC),
    (_parse("SELECT $1", name="s"), frame("D", b"Ss\0"), frame("C", b"Ss\0"), frame("H"), SYNC),
    (_query("SELECT c.relname, a.attname FROM pg_catalog.pg_class c JOIN pg_attribute a ON a.attrelid = c.oid"),),
    (_query("SELECT table_name FROM information_schema.tables"), frame("d", b"x"), frame("c"), frame("f", b"no\0")),
    (frame("F", b"\0\0\0\1\0\0\0\0\0\0"), SYNC),
)
SQL_WORDS = re.findall(
    r"[\w.]+|\S", " ".join([OLDER, BY_SEX, "BEGIN FETCH ALL DECLARE c COPY TO STDOUT $1 $2 $1000 NULL"])
)
LENGTHS = (-(2**31), -1, 0, 3, 4, 5, 2**20 + 1, 2**31 - 1)


def make_talk(draw: random.Random) -> bytes:
    """Return messages of a client that has signed in: out of order, with broken lengths, bodies and texts, or cut short."""
    sent = list(draw.choice(TALKS))
    for _ in range(draw.choice([0, 1, 1, 2, 4])):
        at, act = draw.randrange(len(sent)), draw.randrange(7)
        one, other = sent[at], draw.choice(draw.choice(TALKS))
        if act == 0:  # another message, too soon or too late
            sent.insert(at, other)
        elif act == 1:
            del sent[at]
            sent = sent or [other]
        elif act == 2:  # a length that is not the body's
            lie = draw.choice([*LENGTHS, len(one) - 2, len(one), len(one) + 40])
            sent[at] = one[:1] + struct.pack("!i", lie) + one[5:]
        elif act == 3:  # a kind that is none, or another's
            sent[at] = bytes([draw.choice([0, 33, 112, 255, other[0]])]) + one[1:]
        elif act == 4:  # texts, numbers and formats within
            sent[at] = frame(chr(one[0] & 127), mutate_bytes([one[5:]], draw))
        elif act == 5 and one[:1] in b"QP":  # its SQL
            text = one[5:].decode("utf-8", "replace").strip("\0")
            changed = mutate_text([text.replace("\0", " ")], SQL_WORDS, draw).replace("\0", " ")
            whole = changed.encode("utf-8", "replace") + b"\0"
            sent[at] = frame("Q", whole) if one[:1] == b"Q" else frame("P", b"\0" + whole + b"\0\0")
        else:
            sent[at] = mutate_bytes([one], draw)
    whole = b"".join(sent)
    return whole[: draw.randrange(len(whole) + 1)] if draw.random() < 0.1 else whole


@dataclass
class SqlServer:
    """A port for SQL clients without TLS, as on loopback, over a table that nobody may see."""

    served: Served
    port: int
    log: list[str]

    def sign_in(self) -> psycopg.Connection[Any]:
        """Sign in as ana, by PostgreSQL's own library."""
        return psycopg.connect(
            host="127.0.0.1", port=self.port, user="ana", password=self.served.tokens["ana"], dbname="sordino",
            sslmode="disable", connect_timeout=20, autocommit=True,
        )  # fmt: skip

    def charges(self) -> list[Any]:
        """Return every charge of the budget."""
        return self.served.service.ledger("people").charges()

    def check_alive(self) -> None:
        """Let a good client ask, be charged and be answered."""
        with self.sign_in() as client:
            before = len(self.charges())
            assert client.execute(ASKED.encode()).fetchone()
            assert len(self.charges()) == before + 1

    def check_answer(self, answer: bytes) -> list[tuple[str, bytes]]:
        """Return the messages of an answer, which hold nothing private and no error of Python's."""
        check_words(answer.decode("utf-8", "replace"), [*self.served.tokens.values()])
        assert self.log == [], f"an error that no client saw: {self.log.pop()}"
        messages = read_frames(answer)
        for kind, body in messages:
            if kind in "EN":
                body.decode("utf-8")
                assert b"CXX000\0" not in body, f"an error of its own: {body!r:.300}"
        return messages


@contextmanager
def sql_server(place: Path) -> Iterator[SqlServer]:
    """Serve a table whose cells and place hold the canary."""
    directory = place / CANARY
    directory.mkdir()
    with served(directory, rows=10) as made:
        rows = {"age": list(range(60)), "sex": [("f", "m", CANARY)[i % 3] for i in range(60)]}
        pq.write_table(pa.table(rows), directory / "people.parquet")
        with WireServer(made.service).serving(host="127.0.0.1", port=0) as server, watch_log() as log:
            yield SqlServer(made, server.port, log)
            assert log == []


@contextmanager
def sql_session(place: Path) -> Iterator[Surface]:
    """Talk to the server as a client that has signed in: whatever was charged was answered, or said to stand."""
    with sql_server(place) as server:
        fed = [0]

        def read(given: bytes) -> None:
            before = {charge.id for charge in server.charges()}
            with closing(server.sign_in()) as client, socket.socket(fileno=os.dup(client.fileno())) as raw:
                raw.setblocking(True)
                answer = send_and_end(raw, given)
            messages = server.check_answer(answer)
            new = [charge for charge in server.charges() if charge.id not in before]
            answered = sum(
                (kind == "C" and CHARGED.match(body) is not None)
                or kind == "s"
                or (kind == "E" and any(b"C" + code in body for code in STANDS))
                for kind, body in messages
            )
            assert len(new) <= answered, f"{len(new)} charges and {answered} answers"
            assert all(charge.state == "committed" for charge in new), "a charge without a stored answer"
            fed[0] += 1
            if fed[0] % 50 == 1:
                server.check_alive()

        yield Surface(read, make_talk, tuple(b"".join(one) for one in TALKS))
        server.check_alive()


def _start(body: bytes, code: int = 196608) -> bytes:
    return struct.pack("!ii", len(body) + 8, code) + body


ANA = b"user\0ana\0database\0sordino\0"
FIRST = frame("p", b"SCRAM-SHA-256\0\0\0\0\x20n,,n=,r=fyko+d2lbbFgONRv9qkxdawL")
FINAL = frame("p", b"c=biws,r=fyko+d2lbbFgONRv9qkxdawLabc,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
STARTS: tuple[tuple[bytes, ...], ...] = (
    (_start(ANA + b"\0"), FIRST, FINAL, _query(ASKED)),
    (_start(ANA + b"options\0-c sordino.epsilon=0.1\0application_name\0psql\0\0"), FIRST, FINAL),
    (_start(b"", 80877103), _start(ANA + b"\0"), FIRST, FINAL),  # TLS, which there is not here
    (_start(b"", 80877104), _start(b"", 80877103), _start(ANA + b"\0", 196610)),
    (_start(ANA + b"_pq_.x\0y\0\0", 196609), FIRST),
    (_start(struct.pack("!ii", 1, 2), 80877102),),
    (_start(ANA + b"\0", 131072),),
    (_query(ASKED),),
    (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(60),),
)
CODES = (0, 1, 131072, 196607, 196610, 196608, 80877102, 80877103, 80877104, 80877105, 0xFFFFFFFF)


def make_start(draw: random.Random) -> bytes:
    """Return the bytes of a client that does not sign in: packets broken, out of order, lied about or cut."""
    sent = list(draw.choice(STARTS))
    for _ in range(draw.choice([1, 1, 2, 3])):
        at, act = draw.randrange(len(sent)), draw.randrange(5)
        one = sent[at]
        if act == 0:
            sent.insert(at, draw.choice(draw.choice(STARTS)))
        elif act == 1:
            size = draw.choice([*LENGTHS, len(one), len(one) + 7, 10_001]) & 0xFFFFFFFF
            sent[at] = struct.pack("!II", size, draw.choice(CODES)) + one[8:]
        elif act == 2:
            changed = mutate_bytes([one[8:] or ANA], draw)[:9000]
            sent[at] = struct.pack("!i", len(changed) + 8) + one[4:8] + changed
        elif act == 3 and one[:1] == b"p":
            sent[at] = frame("p", mutate_bytes([one[5:]], draw))
        else:
            sent[at] = mutate_bytes([one], draw)
    return b"".join(sent)


@contextmanager
def sql_start(place: Path) -> Iterator[Surface]:
    """Send bytes to the port of SQL clients as somebody without a token: nobody is let in, and nothing is charged."""
    with sql_server(place) as server:
        fed = [0]

        def read(given: bytes) -> None:
            with socket.create_connection(("127.0.0.1", server.port), timeout=END) as raw:
                answer = send_and_end(raw, given)
            while answer[:1] == b"N" and answer[1:2] in (b"", b"N", b"R", b"E", b"v"):  # no TLS: one byte, no message
                answer = answer[1:]
            messages = server.check_answer(answer)
            assert (b"R", bytes(4)) not in [(kind.encode(), body) for kind, body in messages], "let in without a token"
            assert not {kind for kind, _ in messages} & set("ZDTKC"), "answered without a token"
            fed[0] += 1
            if fed[0] % 50 == 1:
                server.check_alive()

        yield Surface(read, make_start, tuple(b"".join(one) for one in STARTS))
        server.check_alive()
