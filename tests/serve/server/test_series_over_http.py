"""Series over HTTP: opened for one charge, released as jobs, read by those whose they are, and refused with a sentence."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sordino as sd
from serving import SERIES_SQL, Served, served_visits

OPEN: dict[str, Any] = {
    "name": "wards",
    "table": "visits",
    "sql": SERIES_SQL,
    "over": "day",
    "every": "day",
    "horizon": 365,
    "max_periods": 2,
    "rho": "0.5",
}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setenv("SORDINO_STATE", str(tmp_path / "state"))
    with served_visits(tmp_path) as made:
        yield made


def release(server: Served, period: str, *, key: str | None = None, who: str = "ana", name: str = "wards") -> Any:
    headers = {} if key is None else {"idempotency-key": key}
    return server.send("POST", f"/v1/series/{name}/releases", who=who, headers=headers, json={"period": period})


def wait_for(server: Served, job: int) -> dict[str, Any]:
    for _ in range(1000):
        found: dict[str, Any] = server.send("GET", f"/v1/jobs/{job}").json()
        if found["state"] != "running":
            return found
        time.sleep(0.02)
    raise AssertionError("the job did not end")


def spent(server: Served) -> sd.ZCDP:
    loss = server.service.ledger("visits").spent()
    assert isinstance(loss, sd.ZCDP)
    return loss


def test_a_series_is_opened_for_one_charge_and_its_periods_are_jobs(server: Served) -> None:
    opened = server.send("POST", "/v1/series", json=OPEN)
    assert opened.status_code == 201, opened.text
    assert (opened.json()["series"], opened.json()["charge"], opened.json()["step"]) == ("wards", "c-0001", 0)
    assert opened.json()["cost"]["rho"] == 0.5
    again = server.send("POST", "/v1/series", json=OPEN)
    assert again.json()["charge"] == "c-0001"
    assert spent(server) == sd.ZCDP("0.5", "1e-6")
    begun = release(server, "2026-11-02", key="first")
    assert begun.status_code == 201
    job = wait_for(server, begun.json()["id"])
    assert (job["kind"], job["state"], job["step"]) == ("series", "done", 1)
    assert release(server, "2026-11-02", key="first").json()["id"] == job["id"]
    other = wait_for(server, release(server, "2026-11-05", key="second").json()["id"])
    assert (other["state"], other["step"]) == ("done", 4)
    shown = server.send("GET", "/v1/series/wards").json()
    assert shown["periods"] == ["2026-11-02", "2026-11-05"]
    assert [row["period"] for row in shown["rows"]] == ["2026-11-02"] * 2 + ["2026-11-05"] * 2
    answer = server.send("GET", "/v1/series/wards/releases/2026-11-05").json()
    assert [row["count"] for row in answer["rows"]] == [row["count"] for row in shown["rows"][2:]]
    # once more, in a job of its own, it is the same
    wait_for(server, release(server, "2026-11-05").json()["id"])
    assert server.send("GET", "/v1/series/wards/releases/2026-11-05").json() == answer
    at = "/v1/series/wards/window?first=2026-11-02&last=2026-11-05"
    assert [row["count"] for row in server.send("GET", at).json()["rows"]] == [row["total"] for row in answer["rows"]]
    assert spent(server) == sd.ZCDP("0.5", "1e-6")
    server.service.ledger("visits").verify()
    lines = server.send("GET", "/v1/audit", who="ola").json()["lines"]
    assert {line["action"] for line in lines} >= {"series.open", "series.release"}


def test_a_period_that_was_not_released_is_not_released_by_looking(server: Served) -> None:
    server.send("POST", "/v1/series", json=OPEN)
    for period in ("2026-11-02", "2026-12-24"):
        assert server.send("GET", f"/v1/series/wards/releases/{period}").status_code == 404
    assert server.send("GET", "/v1/series/wards").json()["rows"] == []


def test_a_series_is_of_its_spender(server: Served) -> None:
    server.send("POST", "/v1/series", json=OPEN)
    wait_for(server, release(server, "2026-11-02").json()["id"])
    for method, path, body in (
        ("GET", "/v1/series/wards", None),
        ("GET", "/v1/series/wards/releases/2026-11-02", None),
        ("POST", "/v1/series/wards/releases", {"period": "2026-11-03"}),
    ):
        assert server.send(method, path, who="ben", json=body).status_code == 404
    assert server.send("GET", "/v1/series", who="ben").json()["series"] == []
    taken = server.send("POST", "/v1/series", who="ben", json=OPEN)
    assert taken.status_code == 422
    assert "the name 'wards' is taken" in taken.json()["detail"]
    assert spent(server) == sd.ZCDP("0.5", "1e-6")
    assert server.send("GET", "/v1/series/wards", who="udo").json()["periods"] == ["2026-11-02"]


def test_above_the_threshold_an_officer_approves_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SORDINO_STATE", str(tmp_path / "state"))
    with served_visits(tmp_path, serve="approve_above = {rho = 0.1}") as server:
        refused = server.send("POST", "/v1/series", json=OPEN)
        assert refused.status_code == 422
        assert "ask with a request id" in refused.json()["detail"]
        waits = server.send("POST", "/v1/series", json=OPEN, headers={"idempotency-key": "k"})
        assert waits.status_code == 202
        assert spent(server) == sd.ZCDP(0, "1e-6")
        number = waits.json()["approval"]
        server.send("POST", f"/v1/approvals/{number}", who="ola", json={"decision": "approved"})
        opened = server.send("POST", "/v1/series", json=OPEN, headers={"idempotency-key": "k"})
        assert opened.status_code == 201, opened.text
        assert spent(server) == sd.ZCDP("0.5", "1e-6")
        # a job of it needs no approval: it costs nothing
        assert wait_for(server, release(server, "2026-11-02").json()["id"])["state"] == "done"


BAD: list[tuple[dict[str, Any], str]] = [
    ({"name": None}, "name"),
    ({"name": "a/b"}, "name"),
    ({"evry": "day"}, "a series has no such key"),
    ({"every": "dya"}, "every is a kind of period"),
    ({"horizon": "365"}, "must be a whole number"),
    ({"max_periods": None}, "state in how many periods one counts"),
    ({"rho": "5"}, "the share of 'ana' does not cover this"),
    ({"sql": "SELECT AVG(day) FROM visits"}, ""),
    ({"table": "visit"}, "visit"),
    ({"start": "2019-01-01"}, "outside of the declared days"),
]


@pytest.mark.parametrize(("change", "words"), BAD, ids=lambda value: str(value)[:30])
def test_an_opening_that_makes_no_sense_costs_nothing(server: Served, change: dict[str, Any], words: str) -> None:
    answer = server.send("POST", "/v1/series", json=OPEN | change)
    assert 400 <= answer.status_code < 500
    assert words in answer.json()["detail"]
    assert spent(server) == sd.ZCDP(0, "1e-6")


PERIODS: list[tuple[str, str]] = [
    ("2026-11-02", "comes before 2026-11-03, the last period released"),
    ("2027-11-24", "lies beyond the horizon of 365 periods"),
    ("2031-11-24", "outside of the declared days"),
    ("yesterday", "a period is a date or text"),
]


@pytest.mark.each(2)
@pytest.mark.parametrize(("period", "words"), PERIODS)
def test_a_period_that_cannot_be_released_begins_no_job(server: Served, period: str, words: str) -> None:
    server.send("POST", "/v1/series", json=OPEN | {"start": "2026-11-01"})
    wait_for(server, release(server, "2026-11-03").json()["id"])
    jobs = server.send("GET", "/v1/jobs").json()["jobs"]
    answer = release(server, period)
    assert answer.status_code == 422
    assert words in answer.json()["detail"]
    assert server.send("GET", "/v1/jobs").json()["jobs"] == jobs
    assert server.send("POST", "/v1/series/wards/releases", json={"day": period}).status_code in (400, 422)
    assert release(server, "2026-11-05", name="ward").status_code == 404
