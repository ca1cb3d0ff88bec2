"""Models over HTTP: a fit is one charge and a job, waits for an officer above the threshold, and what comes of it is free."""

from __future__ import annotations

import asyncio
import datetime
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

import sordino as sd
from serving import COUNT, Served, served
from sordino.errors import QuestionRefused
from sordino.serve.server import jobs
from sordino.serve.server.account_schema import JOBS
from sordino.serve.server.database import utc_now
from sordino.serve.server.http_app import curator_app
from sordino.serve.server.opening import open_service
from sordino.serve.workbench.workbench_app import workbench_app

FIT = {"table": "people", "method": "independent", "columns": ["age", "sex"], "epsilon": "0.4"}


def fit(server: Served, key: str = "k", **more: Any) -> Any:
    return server.send("POST", "/v1/models", headers={"idempotency-key": key}, json=FIT | more)


def wait_for(server: Served, job: int) -> dict[str, Any]:
    for _ in range(1000):
        found: dict[str, Any] = server.send("GET", f"/v1/jobs/{job}").json()
        if found["state"] != "running":
            return found
        time.sleep(0.02)
    raise AssertionError("the job did not end")


def test_a_fit_is_one_charge_and_its_model_is_free(server: Served, tmp_path: Path) -> None:
    begun = fit(server)
    assert begun.status_code == 201
    again = fit(server)
    job = wait_for(server, begun.json()["id"])
    assert again.json()["id"] == job["id"]
    assert (job["state"], set(job)) == ("done", set(begun.json()))
    assert [c.id for c in server.service.ledger("people").charges()] == ["c-0001"]
    at = f"/v1/models/{job['model']}"
    assert server.send("GET", at).json()["charge"] == "c-0001"
    rows = server.send("POST", f"{at}/sample", json={"rows": 5, "where": "age > 30"}).text.splitlines()
    assert (rows[0], len(rows)) == ("age,sex", 6)
    answer = server.send("POST", f"{at}/answer", json={"sql": COUNT}).json()
    assert 250 < answer["rows"][0]["n"] < 450
    path = tmp_path / "kept.model"
    path.write_bytes(server.send("GET", f"{at}/file").content)
    assert sd.synth.load(path).answer(sd.sql(COUNT)).to_dict() == answer
    assert server.service.ledger("people").spent() == sd.PureDP("0.4")
    assert fit(server, epsilon="0.3").status_code == 422  # the key began another job


@pytest.mark.deep
def test_rows_scatter_as_independent_ones_do_where_that_is_asked(server: Served) -> None:
    """300 rows, half of them of one sex: independent counts deviate by 8.7, those of the default by about 1."""
    job = wait_for(server, fit(server).json()["id"])
    at = f"/v1/models/{job['model']}/sample"

    def deviation(**how: Any) -> float:
        texts = [server.send("POST", at, json={"rows": 300, **how}).text for _ in range(12)]
        return statistics.stdev(text.count(",f") for text in texts)

    # twelve counts of deviation 8.7 have less than 3.5 of their own once in 10^4 times
    assert deviation() < 3.5 < deviation(independent=True)
    refused = server.send("POST", at, json={"rows": 3, "independent": "yes"})
    assert (refused.status_code, "independent" in refused.text) == (400, True)


def test_a_fit_above_the_threshold_waits(tmp_path: Path) -> None:
    with served(tmp_path, serve="approve_above = {epsilon = 0.1}") as server:
        waiting = fit(server)
        assert waiting.status_code == 202
        assert server.service.ledger("people").charges() == []
        (found,) = server.send("GET", "/v1/approvals?state=waiting", who="ola").json()["approvals"]
        assert (found["cost"], found["account"]) == ({"epsilon": 0.4}, "ana")
        assert "a synthetic table (Independent) of age, sex" in found["question"]
        decision = {"decision": "approved"}
        assert server.send("POST", f"/v1/approvals/{found['id']}", who="ola", json=decision).status_code == 200
        assert server.send("POST", f"/v1/approvals/{found['id']}", who="ola", json=decision).status_code == 409
        other = fit(server, epsilon="0.5")  # what was approved is this fit at this loss
        assert other.status_code == 422
        assert wait_for(server, fit(server).json()["id"])["state"] == "done"


def test_an_evaluation_is_one_charge_and_its_page_stays(server: Served) -> None:
    model = wait_for(server, fit(server).json()["id"])["model"]
    at, body = f"/v1/models/{model}/evaluations", {"epsilon": "0.5", "rows": 500, "predict": "age > 50"}
    begun = server.send("POST", at, headers={"idempotency-key": "e"}, json=body).json()
    again = server.send("POST", at, headers={"idempotency-key": "e"}, json=body).json()
    job = wait_for(server, begun["id"])
    assert (again["id"], job["kind"], job["state"], job["model"]) == (begun["id"], "evaluation", "done", model)
    assert server.service.ledger("people").spent() == sd.PureDP("0.9")
    (found,) = server.send("GET", at).json()["evaluations"]
    assert (found["charge"], set(found["figures"])) == ("c-0002", {"1", "2"})
    page = server.send("GET", f"{at}/{found['id']}")
    assert page.headers["content-security-policy"] == "sandbox"
    for words in ("NOT PRIVATE",):
        assert words not in page.text
    for words in ("How far it is from the original", "Train on synthetic", "charge c-0002", "data:image/svg+xml"):
        assert words in page.text
    assert server.send("GET", f"{at}/99").status_code == 404
    audit = server.send("GET", "/v1/audit", who="udo").json()["lines"]
    assert ("model.evaluate", "c-0002") in [(line["action"], line["outcome"]) for line in audit]
    for wrong, status in (
        ({"rows": 0}, 400),
        ({"predict": "nope > 1"}, 422),
        ({"epslon": "1"}, 400),
        ({"rows": "9"}, 400),
    ):
        assert server.send("POST", at, json={"epsilon": "0.1", **wrong}).status_code == status, wrong
    assert len(server.service.ledger("people").charges()) == 2


@pytest.mark.deep
def test_an_evaluation_above_the_threshold_waits(tmp_path: Path) -> None:
    with served(tmp_path, serve="approve_above = {epsilon = 0.4}") as server:
        at = f"/v1/models/{wait_for(server, fit(server).json()['id'])['model']}/evaluations"

        def begin() -> Any:
            return server.send("POST", at, headers={"idempotency-key": "e"}, json={"epsilon": "0.5"})

        assert begin().status_code == 202
        (found,) = server.send("GET", "/v1/approvals?state=waiting", who="ola").json()["approvals"]
        assert "an evaluation of a synthetic table of 2 columns" in found["question"]
        server.send("POST", f"/v1/approvals/{found['id']}", who="ola", json={"decision": "approved"})
        assert wait_for(server, begin().json()["id"])["state"] == "done"


def test_a_fit_that_is_refused_costs_nothing(server: Served) -> None:
    for more, status in (
        ({"columns": ["nope"]}, 422),
        ({"method": "magic"}, 400),
        ({"colums": ["age"]}, 400),
        ({"epsilon": None}, 400),
        ({"cap": True}, 400),
        ({"at_most": [["age"]]}, 400),
        ({"method": "marginals", "marginals": ["age"]}, 400),
    ):
        assert fit(server, **more).status_code == status, more
    refused = wait_for(server, fit(server, "large", epsilon="5").json()["id"])
    assert (refused["state"], refused["problem"]["exit_code"]) == ("failed", 4)
    assert server.service.ledger("people").charges() == []


def test_what_a_stopped_server_left_is_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(tmp_path) as server:
        job = wait_for(server, fit(server).json()["id"])
        with server.service.store.transact() as db:
            db.execute(update(JOBS).values(state="running", ended=None))
        monkeypatch.setattr(server, "app", curator_app(server.service))
        found = server.send("GET", f"/v1/jobs/{job['id']}").json()
        assert (found["state"], found["problem"]["exit_code"]) == ("stopped", 5)
        assert "where it was charged the charge stands" in found["problem"]["detail"]


@pytest.mark.parametrize("store", ["a file", "a server"])
def test_where_several_serve_a_job_stops_with_its_own_server(
    store: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that starts leaves alone what another is at; one that is silent for long is gone, and its jobs with it."""
    stated = "" if store == "a file" else f'store = "{request.getfixturevalue("postgres_database")}"'
    monkeypatch.setattr(jobs, "_BEAT", 0.05)
    go_on = threading.Event()

    def work(_: object) -> int:
        assert go_on.wait(30)
        raise QuestionRefused("enough")

    with served(tmp_path, serve=stated) as server:
        first = server.app.app.state.models.jobs
        begun = first.begin(1, "fit", {}, work, request=None).id
        other = Served(open_service(tmp_path / "sordino.toml"), server.tokens)

        def state(*, after: int) -> str:
            moment = utc_now() + datetime.timedelta(seconds=after)
            other.service.store.clock = lambda: moment
            found: str = other.send("GET", f"/v1/jobs/{begun}").json()["state"]
            return found

        assert state(after=0) == "running"
        for _ in range(500):  # it says again that it is at work
            with server.service.store.read() as db:
                row = db.execute(select(JOBS.c.started, JOBS.c.seen)).one()
            if row.seen > row.started:
                break
            time.sleep(0.02)
        assert row.seen > row.started
        assert state(after=60) == "running"
        first._closed.set()  # as if its process were gone
        assert (state(after=120), state(after=0)) == ("stopped", "stopped")
        go_on.set()
        other.service.close()


@pytest.mark.parametrize("away", [False, True], ids=["a store", "a store that is away"])
def test_a_server_that_stops_ends_the_job_under_way_and_begins_no_other(
    away: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ran all that waited, and charged it; where its store was away each kept it from ending for six minutes."""
    go_on = threading.Event()
    ran = []

    def work(_: object) -> int:
        ran.append(threading.current_thread())
        assert go_on.wait(30)
        raise QuestionRefused("enough")

    async def serve_and_stop(server: Served) -> None:
        app = server.app.app
        under_way = app.state.models.jobs
        shut_down = under_way._pool.shutdown

        def end_the_jobs_first(**options: bool) -> None:
            """End them once the server has begun to stop (before, the next would rightly begin), and before the pool knows."""
            go_on.set()
            for _ in range(20 if away else 500):
                if len(under_way._begun) <= 3:
                    break
                time.sleep(0.02)
            time.sleep(0.1)
            shut_down(**options)

        monkeypatch.setattr(under_way._pool, "shutdown", end_the_jobs_first)
        async with app.router.lifespan_context(app):
            begun = [under_way.begin(1, "fit", {}, work, request=None) for _ in range(5)]
            while len(ran) < 2:
                await asyncio.sleep(0.01)
            assert {job.state for job in begun} == {"running"}
            if away:
                server.service.store.close()
                (tmp_path / "sordino-server.db").rename(tmp_path / "away.db")

    with served(tmp_path) as server:
        asyncio.run(asyncio.wait_for(serve_and_stop(server), 20))
        assert len(ran) == 2
        assert not any(thread.is_alive() for thread in ran)
        if not away:
            states = [job.state for job in server.app.app.state.models.jobs.all()]
            assert states == ["failed", "failed", "stopped", "stopped", "stopped"]


def test_a_job_under_way_is_said_to_be_alive_while_its_server_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else another server of the store would take it for stopped after 90 seconds."""
    monkeypatch.setattr(jobs, "_BEAT", 0.05)
    go_on = threading.Event()

    def work(_: object) -> int:
        assert go_on.wait(30)
        raise QuestionRefused("enough")

    with served(tmp_path) as server:
        under_way = server.app.app.state.models.jobs
        under_way.begin(1, "fit", {}, work, request=None)
        closing = threading.Thread(target=under_way.close)
        closing.start()
        assert under_way._closing.wait(10)
        moment = server.service.store.now()
        try:
            for _ in range(200):
                with server.service.store.read() as db:
                    seen = db.execute(select(JOBS.c.seen)).scalar_one()
                if seen > moment:
                    break
                time.sleep(0.02)
            assert seen > moment
        finally:
            go_on.set()
            closing.join()


# A server that begins a job, says so, and waits to be killed.
BEGIN = """
import sys, time
from sordino.serve.server.http_app import curator_app
from sordino.serve.server.opening import open_service
from sordino.serve.workbench.workbench_app import workbench_app

service = open_service(sys.argv[1])
print(curator_app(service).app.state.models.jobs.begin(1, "fit", {}, lambda enter: time.sleep(600), request=None).id, flush=True)
time.sleep(600)
"""


@pytest.mark.deep
def test_what_a_killed_server_left_is_stopped_at_once_unless_another_serves(tmp_path: Path) -> None:
    """The kernel releases a dead server's lock on the store; a living one's is found taken, by the workbench too."""
    with served(tmp_path) as server:
        tokens, path = server.tokens, server.service.project.path

    def state(of: int) -> str:
        later = Served(open_service(tmp_path / "sordino.toml"), tokens)
        try:
            found: str = later.send("GET", f"/v1/jobs/{of}").json()["state"]
            return found
        finally:
            later.service.close()

    def state_in_workbench(of: int) -> str:
        service = open_service(tmp_path / "sordino.toml")
        try:
            assert service.store.note is None
            workbench_app(service)
            assert service.store.note is not None
            assert "another process serves from this store" in service.store.note
            with service.store.read() as db:
                found: str = db.execute(select(JOBS.c.state).where(JOBS.c.id == of)).scalar_one()
                return found
        finally:
            service.close()

    running = []
    for _ in range(2):
        process = subprocess.Popen([sys.executable, "-c", BEGIN, str(path)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        running.append((process, int(process.stdout.readline())))
    (first, job), (second, other) = running
    try:
        assert (state(job), state(other), state_in_workbench(job)) == ("running", "running", "running")
        first.kill()
        first.wait()
        # the second still serves: that the first is gone shows by its silence alone
        assert (state(job), state(other)) == ("running", "running")
    finally:
        for process in (first, second):
            process.kill()
            process.communicate()
    assert (state(job), state(other)) == ("stopped", "stopped")
