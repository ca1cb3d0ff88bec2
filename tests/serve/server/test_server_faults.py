"""Faults under a server that goes on serving: a full disk, a PostgreSQL server that restarts, a clock that is set back."""

from __future__ import annotations

import datetime
import resource
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx
import pytest

from postgres_server import Server as PostgresServer
from serve.server.forked_servers import Servers
from serving import COUNT, Served, served
from sordino.core.ledger.ledger import Ledger
from sordino.core.loss import PureDP
from sordino.serve.server.answer_time import PublicClock
from sordino.serve.server.database import ForwardClock

DAY = datetime.timedelta(days=1)
NOON = datetime.datetime(2026, 11, 23, 12, tzinfo=datetime.UTC)


# ---- the disk is full


@pytest.mark.deep
@pytest.mark.parametrize("room", [0, 20_000])
def test_a_full_disk_refuses_and_goes_on_when_there_is_room(
    tmp_path: Path, project: tuple[Path, str], servers: Servers, room: int
) -> None:
    """A limit on the size of files stands for the disk of ledger and store; lifted while the server runs, all goes on."""
    token, answers = project[1], dict[str, Any]()
    with servers.run() as pid:
        assert servers.ask(token, "first").status_code == 200
        sizes = [path.stat().st_size for path in tmp_path.iterdir() if path.is_file() and "parquet" not in path.name]
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (max(sizes) + room, resource.RLIM_INFINITY))
        statuses = []
        for i in range(25):
            answer = servers.ask(token, f"k{i}")
            statuses.append(answer.status_code)
            if answer.status_code == 200:
                answers[f"k{i}"] = answer.json()
            else:
                assert answer.json()["exit_code"] in (2, 5), answer.text
                assert str(tmp_path) not in answer.text
        assert set(statuses) <= {200, 500, 503}
        assert statuses[-1] != 200, "the disk never got full"
        headers = {"authorization": f"Bearer {token}"}
        plan = httpx.post(
            f"http://127.0.0.1:{servers.port}/v1/plan",
            headers=headers,
            json={"sql": COUNT, "epsilon": "1"},
            timeout=300,
        )
        assert plan.status_code == 200  # what writes nothing goes on
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        for i in range(25):
            answer = servers.ask(token, f"k{i}")
            assert answer.status_code == 200, answer.text
            assert answers.setdefault(f"k{i}", answer.json()) == answer.json()
    ledger = Ledger.existing(tmp_path / "people.ledger")
    assert sorted(c.request or "" for c in ledger.charges()) == sorted(["1:first", *(f"1:{key}" for key in answers)])
    assert ledger.verify().spent == PureDP(Fraction(26, 1000))


# ---- PostgreSQL restarts


@pytest.mark.deep
@pytest.mark.parametrize("mode", ["immediate", "fast"])
def test_postgresql_restarts_under_data_ledger_and_store(
    tmp_path: Path, postgres_server: PostgresServer, postgres_database: str, mode: str
) -> None:
    """Table, ledger and store lie on one server that restarts: the same service answers on, and nothing is charged twice."""
    name = postgres_database.rpartition("/")[2]
    postgres_server.execute(
        "CREATE SCHEMA held",
        "CREATE TABLE held.people AS SELECT i % 100 AS age, CASE i % 2 WHEN 0 THEN 'f' ELSE 'm' END AS sex "
        "FROM generate_series(0, 999) AS i",
        database=name,
    )
    with served(tmp_path) as made:
        text = (tmp_path / "sordino.toml").read_text()
        made.service.close()
    (tmp_path / "elsewhere").mkdir()
    text = text.replace('"people.ledger"', f'"{postgres_database}#people_ledger"')
    text = text.replace('source = "people.parquet"', f'source = "{postgres_database}"\nrelation = "held.people"')
    (tmp_path / "elsewhere" / "sordino.toml").write_text(f'{text}\nstore = "{postgres_database}"\n')
    server = serve_again(tmp_path / "elsewhere" / "sordino.toml")
    try:
        first = server.ask(key="k1")
        assert first.status_code == 200, first.text
        postgres_server.stop(mode)
        try:
            gone = server.ask(key="k2")
            assert (gone.status_code, postgres_database in gone.text) == (503, False), gone.text
            assert server.send("GET", "/readyz", who=None).status_code == 503
        finally:
            postgres_server.start()
        assert server.ask(key="k1").json() == first.json()
        assert server.ask(key="k2").json()["charge"] == "c-0002"
        report = server.service.ledger("people").verify()
        assert (report.committed, report.spent) == (2, PureDP("0.2"))
    finally:
        server.service.close()


def serve_again(project: Path) -> Served:
    from sordino.serve.server.opening import open_service

    made = Served(open_service(project))
    made.add("ana", "analyst", epsilon="2")
    return made


# ---- the clock is set back


def test_a_clock_set_back_runs_on() -> None:
    wall, steady = [NOON], [100.0]
    clock = ForwardClock(lambda: wall[0], steady=lambda: steady[0])
    assert clock() == NOON
    wall[0], steady[0] = NOON - DAY, 130.0
    assert clock() == NOON + datetime.timedelta(seconds=30)
    steady[0] = 160.0
    assert clock() == NOON + datetime.timedelta(seconds=60)
    wall[0] = NOON + DAY  # and forward it follows the machine's
    assert clock() == NOON + DAY


def test_a_clock_set_back_lets_nobody_in_for_longer(tmp_path: Path) -> None:
    wall, steady = [NOON], [0.0]
    with served(tmp_path) as server:
        server.service.store.clock = ForwardClock(lambda: wall[0], steady=lambda: steady[0])
        account_service = server.service.account_service
        ends = (NOON + datetime.timedelta(hours=1)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        ana = account_service.accounts.find("ana")
        server.tokens["brief"] = account_service.accounts.make_token(ana, "brief", expires=ends)[1]
        cookie = account_service.sessions.begin(account_service.accounts.find("ana"))
        first = server.ask(key="k", who="brief").json()
        wall[0] = NOON - DAY
        assert server.ask(key="k", who="brief").json() == first
        assert server.ask(key="l", who="brief").json()["charge"] == "c-0002"
        steady[0] = 3601.0
        assert server.ask(key="m", who="brief").status_code == 401
        assert account_service.sessions.find(cookie).visitor.name == "ana"
        steady[0] = 13 * 3600.0
        assert server.send("GET", "/v1/me", who=None, headers={"cookie": f"sordino={cookie}"}).status_code == 401
        lines = server.send("GET", "/v1/audit", who="udo").json()["lines"]
        assert [line["time"] for line in lines[4:]] == sorted(line["time"] for line in lines[4:])


def test_the_public_clock_and_the_throttles_know_no_wall_clock(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine's clock that jumps moves neither: both count by the steady one."""
    import time

    clock = PublicClock(Fraction(1, 4))
    began = clock.start()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert 0 < clock.wait(began) <= 0.25
    refused = [
        server.send("POST", "/v1/session", who=None, json={"name": "ana", "password": "wrong wrong wrong"}).status_code
        for _ in range(11)
    ]
    assert refused == [401] * 10 + [429]
