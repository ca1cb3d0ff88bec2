"""The collector under uvicorn: what it stores, what it refuses and with which status, and that it stays up."""

from __future__ import annotations

import functools
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from collecting import KEY, LABELS, UNTIL, reports_of, running, task_of
from sordino.core.noise.rng import Rng
from sordino.errors import DeclarationError
from sordino.local.collector import app as report_endpoint
from sordino.local.collector.app import ERRORS, MOST_REPORTS
from sordino.local.collector.report_store import Store
from sordino.local.collector.service import Buckets, Limits
from sordino.local.device.client import ID_BYTES
from sordino.local.protocols.hashing import OLH
from sordino.local.protocols.memoization import memoize
from sordino.local.protocols.response import GRR
from sordino.local.protocols.unary import SUE
from sordino.local.reports import Reports
from sordino.local.task import create_task


def test_reports_are_stored_counted_and_estimated(store: str) -> None:
    """Shares of 2,000 reports within 5 deviations of the truth: false alarm 4 * 6e-7 (the seed is fixed)."""
    task, rng = task_of(), Rng.seeded(3)
    answers = [LABELS[i % 2] for i in range(2_000)]
    with running(store, [task]) as service:
        assert service.post(reports_of(task, answers[:1_999], rng)).json() == {"stored": 1999, "repeated": 0}
        assert service.post(reports_of(task, answers[1_999:], rng)).json() == {"stored": 1, "repeated": 0}
        found = service.estimate()
    assert found["reports"] == 2_000
    disk = Store.open(store)
    for chunk in disk.chunks(disk.task("drinks").number):
        ids = [chunk.ids[at : at + ID_BYTES] for at in range(0, len(chunk.ids), ID_BYTES)]
        assert ids == sorted(ids)  # random ids: the order of arrival is gone
    disk.close()
    assert [one["label"] for one in found["labels"]] == list(LABELS)
    for one, share in zip(found["labels"], (0.5, 0.5, 0, 0), strict=True):
        assert abs(one["frequency"] - share) < 5 * one["error"] / 1.96
        assert one["adversarial_lower"] <= one["lower"] <= one["upper"] <= one["adversarial_upper"]


@pytest.mark.deep
@pytest.mark.parametrize(
    "protocol",
    [
        GRR(LABELS, epsilon=1),
        memoize(GRR(LABELS, epsilon=2), epsilon=1),
        memoize(SUE(LABELS, epsilon=2), epsilon=1),
    ],
    ids=["grr", "grr twice", "sue twice"],
)
def test_every_kind_of_task_is_served(store: str, protocol: Any) -> None:
    task = task_of(protocol)
    one = task.manifest.hash + bytes(16) + bytes(task.protocol.width)
    with running(store, [task]) as service:
        assert service.post(one).status_code == 200
        assert service.estimate()["permanent"] == task.permanent
        assert httpx.get(f"{service.url}/v1/tasks/drinks", timeout=300).text == task.envelope


def test_protocols_that_only_python_speaks_are_served_too(store: str) -> None:
    olh: Any = OLH(LABELS, epsilon=1)
    made = create_task(
        KEY, olh, task="drinks", question="?", lifetime_epsilon=1, epoch="1", expires=UNTIL, origin="https://a.example"
    )
    with running(store, [made]) as service:
        assert service.post(reports_of(made, ["tea"] * 50, Rng.seeded(1))).json()["stored"] == 50
        assert service.estimate()["reports"] == 50


def test_a_resend_is_acknowledged_and_never_counted_twice(store: str) -> None:
    task, rng = task_of(), Rng.seeded(4)
    batch = reports_of(task, ["tea"] * 10, rng)
    step = 16 + task.protocol.width
    with running(store, [task]) as service:
        assert service.post(batch).status_code == 200
        again = service.post(batch)
        assert again.status_code == 409
        assert again.json()["error"]["code"] == "repeated"
        assert service.post(batch[: 32 + step]).status_code == 409
        partly = batch + reports_of(task, ["milk"], rng)[32:]
        assert service.post(partly).json() == {"stored": 1, "repeated": 10}
        twice = reports_of(task, ["milk"], rng)
        assert service.post(twice + twice[32:]).json() == {"stored": 1, "repeated": 1}
        assert service.estimate()["reports"] == 12
    with running(store, [task]) as service:
        assert service.post(batch).status_code == 409
        assert service.estimate()["reports"] == 12


def test_one_id_may_be_used_in_two_tasks(store: str) -> None:
    first, second = task_of(), task_of(name="meals")
    with running(store, [first, second]) as service:
        for task in (first, second):
            body = task.manifest.hash + bytes(16) + bytes(task.protocol.width)
            assert service.post(body, task=task.manifest.task).status_code == 200


@pytest.mark.deep
def test_many_at_once_are_each_counted_once(store: str) -> None:
    task, rng = task_of(), Rng.seeded(5)
    bodies = [reports_of(task, ["tea"], rng) for _ in range(150)]
    with running(store, [task]) as service, httpx.Client(timeout=300) as client:
        headers = {"authorization": "Bearer r"}

        def send(body: bytes) -> int:
            return client.post(f"{service.url}/v1/tasks/drinks/reports", content=body, headers=headers).status_code

        with ThreadPoolExecutor(12) as pool:
            codes = list(pool.map(send, bodies * 2))
        assert sorted(codes) == [200] * 150 + [409] * 150
        assert service.estimate()["reports"] == 150


def test_what_is_refused_gets_a_clear_4xx_and_the_service_stays_up(store: str) -> None:
    task, other, rng = task_of(), task_of(GRR(LABELS, epsilon=1), name="meals"), Rng.seeded(6)
    good = reports_of(task, ["tea"], rng)
    padded = bytearray(good)
    padded[-1] |= 0x80  # a bit beyond the last label
    unknown = bytearray(reports_of(other, ["tea"], rng))
    unknown[-1] = 4
    cases: list[tuple[bytes, dict[str, Any], str]] = [
        (b"", {}, "malformed"),
        (b"x", {}, "malformed"),
        (good[:-1], {}, "malformed"),
        (good + b"x", {}, "malformed"),
        (good[:32], {}, "malformed"),
        (bytes(padded), {}, "malformed"),
        (bytes(unknown), {"task": "meals"}, "malformed"),
        (bytes(len(good)), {}, "wrong_manifest"),
        (other.manifest.hash + good[32:], {}, "wrong_task"),
        (good, {"task": "nothing"}, "no_task"),
        (good, {"task": "../drinks"}, "no_task"),
        (good[:32] + good[32:] * (MOST_REPORTS + 1), {}, "oversized"),
        (bytes(3_000_000), {}, "oversized"),
        (good, {"token": None}, "no_token"),
        (good, {"token": "guess"}, "no_token"),
        (good, {"token": "a"}, "wrong_role"),
    ]
    with running(store, [task, other]) as service:
        for body, how, code in cases:
            answer = service.post(body, **how)
            assert (answer.status_code, answer.json()["error"]["code"]) == (ERRORS[code][0], code), how
            assert answer.json()["error"]["says"]
        assert service.get("/v1/tasks/drinks/reports", token="r").status_code == 405
        assert service.get("/v1/nothing").status_code == 404
        chunked = httpx.post(
            f"{service.url}/v1/tasks/drinks/reports",
            content=iter([good]),
            headers={"authorization": "Bearer r"},
            timeout=300,
        )
        assert chunked.status_code == 411
        assert service.estimate()["reports"] == 0
        assert service.post(good).status_code == 200


def test_one_malformed_post_does_not_spoil_those_beside_it(store: str) -> None:
    task, rng = task_of(), Rng.seeded(7)
    good = [reports_of(task, ["tea"], rng) for _ in range(40)]
    bad = [task.manifest.hash + rng.bytes(16) + b"\xff" for _ in range(40)]
    with running(store, [task]) as service:
        with ThreadPoolExecutor(16) as pool:
            mixed = [body for pair in zip(good, bad, strict=True) for body in pair]
            codes = list(pool.map(lambda body: service.post(body).status_code, mixed))
        assert codes == [200, 400] * 40
        assert service.estimate()["reports"] == 40


def test_an_expired_task_takes_no_reports(store: str) -> None:
    task, now = task_of(), [UNTIL.timestamp() - 1]
    with running(store, [task], clock=lambda: now[0]) as service:
        assert service.post(reports_of(task, ["tea"], Rng.seeded(1))).status_code == 200
        now[0] += 1
        answer = service.post(reports_of(task, ["tea"], Rng.seeded(2)))
        assert (answer.status_code, answer.json()["error"]["code"]) == (410, "expired")
        assert service.estimate()["reports"] == 1


def test_a_closed_task_takes_no_reports_for_ever(store: str) -> None:
    task = task_of()
    with running(store, [task]) as service:
        assert service.post(reports_of(task, ["tea"], Rng.seeded(1))).status_code == 200
        address = f"{service.url}/v1/tasks/drinks/close"
        refused = httpx.post(address, headers={"authorization": "Bearer r"}, timeout=300)
        assert refused.status_code == 403
        closed = httpx.post(address, headers={"authorization": "Bearer a"}, timeout=300)
        assert closed.json() == {"task": "drinks", "closed": True, "reports": 1}
        assert service.post(reports_of(task, ["tea"], Rng.seeded(2))).status_code == 410
    with running(store, [task]) as service:
        assert service.post(reports_of(task, ["tea"], Rng.seeded(2))).json()["error"]["code"] == "closed"
        assert service.estimate()["closed"] is True


def test_a_task_closed_beside_the_service_is_noticed(store: str) -> None:
    task = task_of()
    with running(store, [task]) as service:
        beside = Store.open(store)
        beside.close_task("drinks")
        assert service.post(reports_of(task, ["tea"], Rng.seeded(1))).status_code in (410, 503)
        assert _comes(lambda: service.post(reports_of(task, ["tea"], Rng.seeded(1))).status_code == 410)
        assert beside.task("drinks").counts == '{"n":0,"supports":[0,0,0,0]}'


def test_tokens_added_beside_the_service_are_let_in(store: str) -> None:
    task = task_of()
    with running(store, [task]) as service:
        beside = Store.open(store)
        beside.add_tokens("respondent", ["later"])
        assert _comes(lambda: service.post(reports_of(task, ["tea"], Rng.seeded(1)), token="later").status_code == 200)


def test_administrators_and_respondents_are_kept_apart(store: str) -> None:
    with running(store, [task_of()]) as service:
        for path in ("/v1/tasks/drinks/estimate", "/v1/tasks/drinks/export"):
            assert service.get(path, token=None).status_code == 401
            assert service.get(path, token="r").status_code == 403
            assert service.get(path).status_code == 200
        for wrong in (
            "confidence=2",
            "confidence=nan",
            "confidence=0",
            "malicious=1",
            "malicious=nan",
            "malicious=0.9999999",
            "malicious=-1",
        ):
            assert service.get(f"/v1/tasks/drinks/estimate?{wrong}").status_code == 422


def test_a_token_of_an_administrator_sends_no_report(store: str) -> None:
    task = task_of()
    with running(store, [task]) as service:
        refused = service.post(reports_of(task, ["tea"], Rng.seeded(1)), token="a")
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "wrong_role")
        assert service.estimate()["reports"] == 0


def test_a_token_is_checked_without_a_trace(store: str) -> None:
    with running(store, [task_of()], limits=Limits(per_minute=1, burst=3)) as service:
        before = Path(store).read_bytes()
        found = {token: service.get("/v1/tasks/drinks/token", token=token) for token in ("r", "a", "no", None)}
        assert {token: answer.status_code for token, answer in found.items()} == dict.fromkeys(found, 200)
        assert {token: answer.json()["code"] for token, answer in found.items()} == {
            "r": None,
            "a": "wrong_role",
            "no": "no_token",
            None: "no_token",
        }
        assert [answer.json()["accepted"] for answer in found.values()] == [True, False, False, False]
        assert service.get("/v1/tasks/none/token", token="r").status_code == 404
        assert service.get("/v1/tasks/drinks/token", token="other").status_code == 200
        late = service.get("/v1/tasks/drinks/token", token="another")  # unknown tokens share one bucket of three
        assert (late.status_code, late.json()["error"]["code"]) == (429, "too_many")
        assert late.headers["retry-after"] == "60"
        body = reports_of(task_of(), ["tea"] * 3, Rng.seeded(1))  # checks take nothing from what may be sent
        assert Path(store).read_bytes() == before
        assert service.post(body).status_code == 200
    with running(store, [task_of()], limits=Limits(per_minute=1, burst=3, open=True)) as service:
        assert service.get("/v1/tasks/drinks/token", token=None).json() == {
            "accepted": True,
            "code": None,
            "says": None,
        }


def test_a_token_sends_no_faster_than_its_limit(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(report_endpoint, "Buckets", functools.partial(Buckets, clock=lambda: now[0]))
    task = task_of()
    with running(store, [task], limits=Limits(per_minute=60, burst=3)) as service:
        codes = [service.post(reports_of(task, ["tea"], Rng.seeded(n))).status_code for n in range(4)]
        assert codes == [200, 200, 200, 429]
        late = service.post(reports_of(task, ["tea"], Rng.seeded(9)))
        assert late.headers["retry-after"] == "1"
        assert service.post(reports_of(task, ["tea"], Rng.seeded(8)), token="r2").status_code == 200
        assert service.post(reports_of(task, ["tea"] * 5, Rng.seeded(8)), token="r2").status_code == 429
        now[0] += 1.05
        assert service.post(reports_of(task, ["tea"], Rng.seeded(9))).status_code == 200


def test_a_token_sends_no_more_than_its_limit_whatever_restarts(store: str) -> None:
    """A number on disk beside the reports; a report sent again is none more; another task and another token are free."""
    task, other = task_of(), task_of(name="others")
    limits = Limits(per_minute=1e9, burst=100, per_token=2)
    first = reports_of(task, ["tea", "milk"], Rng.seeded(1))
    with running(store, [task, other], limits=limits) as service:
        assert service.post(reports_of(task, ["tea"] * 3, Rng.seeded(2))).status_code == 403
        assert service.post(first).status_code == 200
        assert service.post(first).status_code == 409
        late = service.post(reports_of(task, ["tea"], Rng.seeded(3)))
        assert (late.status_code, late.json()["error"]["code"]) == (403, "used")
        asked = [service.get("/v1/tasks/drinks/token", token=token).json()["code"] for token in ("r", "r2")]
        assert asked == ["used", None]
        assert service.post(reports_of(other, ["tea"], Rng.seeded(4)), task="others").status_code == 200
        assert service.post(reports_of(task, ["tea"], Rng.seeded(5)), token="r2").status_code == 200
    with running(store, [task, other], limits=limits) as service:
        assert service.post(reports_of(task, ["tea"], Rng.seeded(6))).status_code == 403
        assert service.post(first).status_code == 409
        assert service.post(reports_of(task, ["tea"] * 2, Rng.seeded(7)), token="r2").status_code == 403
        assert service.post(reports_of(task, ["tea"], Rng.seeded(8)), token="r2").status_code == 200
        assert service.estimate()["reports"] == 4
    for most, anyone in ((0, False), (1, True)):
        with pytest.raises(DeclarationError, match="per_token"):
            Limits(per_minute=1, burst=1, open=anyone, per_token=most)


def test_an_open_task_needs_no_token_but_keeps_its_limit(store: str) -> None:
    task = task_of()
    with running(store, [task], limits=Limits(per_minute=1, burst=2, open=True)) as service:
        codes = [service.post(reports_of(task, ["tea"], Rng.seeded(n)), token=None).status_code for n in range(3)]
        assert codes == [200, 200, 429]


def test_export_is_the_batch_that_the_protocol_reads(store: str) -> None:
    task, rng = task_of(), Rng.seeded(8)
    bodies = [reports_of(task, [LABELS[n % 4]], rng) for n in range(30)]
    with running(store, [task]) as service:
        for body in bodies:
            service.post(body)
        data, found = service.get("/v1/tasks/drinks/export").content, service.estimate()
    protocol: Any = task.protocol
    reports = Reports.from_bytes(data, protocol)
    assert sorted(row.tobytes() for row in reports.rows) == sorted(body[48:] for body in bodies)
    assert data[48:] == b"".join(sorted(body[48:] for body in bodies))  # the order of arrival is gone
    frequencies = protocol.estimate(protocol.count(reports)).frequencies
    assert [one["frequency"] for one in found["labels"]] == pytest.approx(frequencies)


def test_openapi_describes_every_route(store: str) -> None:
    with running(store, [task_of()]) as service:
        plain = service.get("/openapi.json").json()
    assert plain["openapi"].startswith("3.")
    expected = {"", "/token", "/estimate", "/close", "/export", "/reports"}
    assert {p for p in plain["paths"] if p.startswith("/v1/tasks/{task}")} == {
        f"/v1/tasks/{{task}}{e}" for e in expected
    }
    assert {"200", "400", "401", "409", "410", "411", "413", "422", "429"} <= set(
        plain["paths"]["/v1/tasks/{task}/reports"]["post"]["responses"]
    )


def test_no_address_or_token_is_stored_or_logged(store: str, capfd: pytest.CaptureFixture[str]) -> None:
    task = task_of()
    with running(store, [task]) as service:
        service.post(
            reports_of(task, ["tea"], Rng.seeded(1)), **{"x-forwarded-for": "203.0.113.77", "user-agent": "mine/9"}
        )
        service.get("/v1/tasks/drinks/estimate")
        service.get("/no/such/page")
    written = b"".join(f.read_bytes() for f in Path(store).parent.iterdir())
    for telling in (b"203.0.113.77", b"127.0.0.1", b"mine/9", b"Bearer"):
        assert telling not in written
    assert capfd.readouterr() == ("", "")
    columns = Store.open(store)._db.execute("SELECT name FROM pragma_table_info('chunks')").fetchall()
    assert [name for (name,) in columns] == ["number", "task", "ids", "reports"]


def test_a_half_sent_request_does_not_hold_up_others(store: str) -> None:
    task = task_of()
    with running(store, [task]) as service:
        half = socket.create_connection(("127.0.0.1", service.port))
        half.sendall(
            b"POST /v1/tasks/drinks/reports HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer r\r\nContent-Length: 49\r\n\r\nab"
        )
        assert service.post(reports_of(task, ["tea"], Rng.seeded(1))).status_code == 200
        half.close()
        assert service.post(reports_of(task, ["tea"], Rng.seeded(2))).status_code == 200
        assert service.estimate()["reports"] == 2


_HOSTILE = (
    b"GET / HTTP/9.9\r\n\r\n",
    bytes(5_000),
    b"A" * 70_000,
    b"POST /v1/tasks/drinks/reports HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
    b"POST /v1/tasks/drinks/reports HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
    b"POST /v1/tasks/%00/reports HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx",
    b"POST /v1/tasks/drinks/reports HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff\xfe\r\nContent-Length: 49\r\n\r\n"
    + bytes(49),
)


@pytest.mark.deep
def test_hostile_requests_are_refused_and_the_service_stays_up(store: str) -> None:
    task, rng = task_of(), Rng.seeded(11)
    with running(store, [task]) as service:
        for raw in _HOSTILE:
            with socket.create_connection(("127.0.0.1", service.port), 5) as sent:
                sent.sendall(raw)
                assert sent.recv(12)[:10] == b"HTTP/1.1 4"
        for _ in range(200):
            assert 400 <= service.post(rng.bytes(rng.below(200))).status_code < 500
        for path in ("/v1/tasks/drinks/estimate?confidence=nan", "/v1/tasks/%2e%2e/estimate", "/page/..%2fapp.py"):
            assert 400 <= service.get(path).status_code < 500
        assert service.post(reports_of(task, ["tea"], rng)).status_code == 200
        assert service.estimate()["reports"] == 1


def test_a_changed_task_or_a_second_collector_is_refused(store: str) -> None:
    task = task_of()
    with running(store, [task]):
        held = Store.open(store)
        with pytest.raises(DeclarationError, match="another collector"):
            held.hold()
        held.close()
    with pytest.raises(DeclarationError, match="another manifest"), running(store, [task_of(GRR(LABELS, epsilon=1))]):
        pass


def _comes(true: Callable[[], bool]) -> bool:
    """Wait for what the service notices within two seconds; longer on a busy machine."""
    for _ in range(1200):
        if true():
            return True
        time.sleep(0.1)
    return False
