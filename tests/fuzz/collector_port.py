"""The collector's HTTP under broken bytes, over a real socket: it answers soon, stores what it says, and says nothing private."""

from __future__ import annotations

import json
import random
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from collecting import LABELS, reports_of, running, task_of, with_tokens
from fuzz.mutation import bend_tree, mutate_bytes, mutate_text
from fuzz.ports import END, check_words, read_to_end, watch_log
from fuzz.surface import CANARY, Surface
from sordino.core.noise.rng import Rng
from sordino.local.collector.app import ERRORS
from sordino.local.collector.report_store import Store
from sordino.local.protocols.response import GRR

QUIET = 0.3  # seconds without a byte after which a client that is owed nothing leaves


def http_request(line: str, body: bytes = b"", /, **headers: str) -> bytes:
    stated = {"host": "collector", "connection": "close"} | {k.replace("_", "-"): v for k, v in headers.items()}
    if body and "content-length" not in stated and "transfer-encoding" not in stated:
        stated["content-length"] = str(len(body))
    head = "".join(f"{name}: {value}\r\n" for name, value in stated.items())
    return f"{line} HTTP/1.1\r\n{head}\r\n".encode("utf-8", "replace") + body


GETS = (
    "/v1/health",
    "/v1/tasks",
    "/v1/tasks/drinks",
    "/v1/tasks/drinks/token",
    "/v1/tasks/drinks/estimate?confidence=0.9&malicious=0.01",
    "/v1/tasks/meals/estimate?confidence=0.5",
    "/v1/tasks/drinks/export",
    "/v1/tasks/drinks/reports",
    "/openapi.json",
    "/",
    "/tasks/drinks",
    "/tasks/drinks/live",
    "/page/sordino.js",
)
PLACES = ("/v1/tasks/drinks/reports", "/v1/tasks/meals/reports", "/v1/tasks/none/reports", "/v1/tasks/shut/close")
TYPES = ("application/json", "text/plain; charset=utf-7", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded",
         "application/octet-stream", "*/*", "\xff", "application/json; charset=\xe9")  # fmt: skip
HOSTILE_HEADERS = (
    ("content-encoding", "gzip"),
    ("transfer-encoding", "chunked"),
    ("transfer-encoding", "gzip, chunked"),
    ("content-length", "5, 5"),
    ("content-length", "-1"),
    ("content-length", "99999999999999999999"),
    ("expect", "100-continue"),
    ("upgrade", "websocket"),
    ("range", "bytes=0-9999999999"),
    ("cookie", "a" * 5000),
    ("x-forwarded-for", "127.0.0.1"),
    ("authorization", "Bearer \xff"),
    ("authorization", "Bearer " + "a" * 300),
)


def _corpus(tasks: Sequence[Any]) -> tuple[bytes, ...]:
    rng = Rng.seeded(3)
    sent = [http_request(f"GET {path}", authorization="Bearer a") for path in GETS]
    for task, answers in zip(tasks, (["tea"], ["milk", "tea", "coffee"]), strict=True):
        body = reports_of(task, answers, rng)
        sent.append(http_request(f"POST /v1/tasks/{task.manifest.task}/reports", body, authorization="Bearer r"))
    sent.append(
        http_request("POST /v1/tasks/shut/close", b"{}", authorization="Bearer a", content_type="application/json")
    )
    return tuple(sent)


def make_request(draw: random.Random, tasks: Sequence[Any], corpus: Sequence[bytes]) -> bytes:
    """Return a request: reports with broken bytes, JSON of any depth, odd types, headers and addresses, or bytes of none."""
    act = draw.random()
    if act < 0.2:
        return mutate_bytes([draw.choice(corpus)], draw)
    who = draw.choice(["Bearer r", "Bearer r", "Bearer r", "Bearer a", "Bearer x", "Basic cjpy", ""])
    headers = {"authorization": who} if who else {}
    if draw.random() < 0.3:
        headers["content_type"] = draw.choice(TYPES)
    if draw.random() < 0.2:
        name, value = draw.choice(HOSTILE_HEADERS)
        headers[name] = value
    if act < 0.4:
        path = mutate_text(
            GETS, ["drinks", "meals", "0.9", "malicious", "confidence", "?", "&", "%00", "%ff", "..", "/"], draw
        )
        method = draw.choice(["GET", "GET", "GET", "HEAD", "PUT", "OPTIONS", "TRACE", "get", "POST"])
        path = path.replace(" ", "+").replace("\r", "").replace("\n", "")
        return http_request(f"{method} {path}", **headers)
    task = draw.choice(list(tasks))
    sound = reports_of(
        task, [draw.choice(["tea", "milk"]) for _ in range(draw.choice([1, 1, 2, 9]))], Rng.seeded(draw.getrandbits(60))
    )
    kind = draw.randrange(5)
    if kind == 0:
        body = sound
    elif kind == 1:
        body = mutate_bytes([sound], draw)
    elif kind == 2:
        body = json.dumps(bend_tree({"task": "drinks", "reports": [{"id": "x", "label": 1}]}, draw)).encode(
            "utf-8", "replace"
        )
    elif kind == 3:
        depth = draw.choice([10, 1_000, 100_000])
        body = b'{"a":' * depth + b"1" + b"}" * depth
    else:
        body = sound[:32] + draw.choice([b"", b"\0" * 40, b"\xff" * 5000, b"x" * 3_000_000])
    return http_request(f"POST {draw.choice(PLACES)}", body, **headers)


def parse_answers(answer: bytes) -> list[tuple[int, bytes]]:
    """Return the status and body of each response; raises AssertionError where bytes are none."""
    found = []
    while answer:
        head, blank, rest = answer.partition(b"\r\n\r\n")
        line = re.match(rb"HTTP/1\.1 (\d{3}) ", head)
        assert line is not None, f"no response: {answer[:100]!r}"
        assert blank, f"half a response: {answer[:100]!r}"
        length = re.search(rb"\r\ncontent-length: (\d+)", head, re.I)
        size = int(length[1]) if length is not None and len(rest) >= int(length[1]) else len(rest)
        size = 0 if line[1].startswith(b"1") else size  # 100 Continue: the response itself follows
        found.append((int(line[1]), rest[:size]))
        answer = rest[size:]
    return found


def converse(port: int, given: bytes) -> tuple[bytes, bool]:
    """Send a request, and return the answer and whether the server ended by itself; one that waits for more is left."""
    with socket.create_connection(("127.0.0.1", port), timeout=END) as raw:
        parts = []
        try:
            raw.sendall(given)
            raw.settimeout(QUIET)
            while part := raw.recv(1 << 16):
                parts.append(part)
        except TimeoutError:
            raw.settimeout(END)
            raw.shutdown(socket.SHUT_WR)
            return b"".join(parts) + read_to_end(raw), False
        except ConnectionError:
            return b"".join(parts), False
        return b"".join(parts), True


@contextmanager
def collector_port(place: Path) -> Iterator[Surface]:
    """Send requests to a collector: no error of its own, and every report that it acknowledges is counted, once."""
    directory = place / CANARY
    directory.mkdir()
    url = with_tokens(str(directory / "reports.db"))
    kept = Store.open(url)
    kept.add_tokens("admin", [CANARY])
    kept.close()
    tasks = [task_of(), task_of(GRR(LABELS, epsilon=1), name="meals")]
    shut = task_of(name="shut")  # the only one that an administrator's request may close
    corpus = _corpus(tasks)
    with watch_log() as log, running(url, [*tasks, shut]) as service:
        stored, lost, fed = [0], [False], [0]

        def count() -> int:
            return sum(int(service.estimate(task.manifest.task)["reports"]) for task in tasks)

        def check_counted() -> None:
            found = count()
            assert found >= stored[0], f"{stored[0]} reports were acknowledged, and {found} are counted"
            assert found == stored[0] or lost[0], f"{found} reports are counted, and {stored[0]} were acknowledged"
            stored[0], lost[0] = found, False

        def read(given: bytes) -> None:
            answer, whole = converse(service.port, given)
            lost[0] = lost[0] or not whole
            check_words(answer.decode("utf-8", "replace"), [])
            for status, body in parse_answers(answer):
                assert status < 500, f"{status}: {body[:200]!r}"
                if status == 200 and body.startswith(b'{"stored":'):
                    stored[0] += json.loads(body)["stored"]
                elif status >= 400 and body.startswith(b'{"error"'):
                    assert json.loads(body)["error"]["code"] in ERRORS
            assert log == [], f"an error that no client saw: {log.pop()}"
            fed[0] += 1
            if fed[0] % 25 == 1:
                check_counted()

        yield Surface(read, lambda draw: make_request(draw, tasks, corpus), corpus)
        check_counted()
        assert service.post(reports_of(tasks[0], ["tea"], Rng.secure())).json() == {"stored": 1, "repeated": 0}
