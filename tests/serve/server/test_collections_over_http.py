"""Collections over HTTP: what a collector has by now, beside it and without it; an officer closes one for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from collecting import LABELS, reports_of, running, store_reports, task_of, with_tokens
from serving import served
from sordino.core.noise.rng import Rng

SERVE = 'collections = ["reports.db"]'


def test_estimates_are_those_of_the_collector(tmp_path: Path) -> None:
    store, task = with_tokens(str(tmp_path / "reports.db")), task_of()
    with served(tmp_path, serve=SERVE) as server, running(store, [task]) as collector:
        assert server.send("GET", "/v1/collections").json()["collections"][0]["reports"] == 0
        assert collector.post(reports_of(task, ["tea", "milk"] * 50, Rng.seeded(3))).status_code == 200
        (found,) = server.send("GET", "/v1/collections", who="udo").json()["collections"]
        assert (found["task"], found["reports"], found["closed"]) == ("drinks", 100, False)
        assert server.send("GET", "/v1/collections/drinks").json() == collector.estimate()
        assert server.send("POST", "/v1/collections/drinks/close", who="ola").status_code == 200
        refused = collector.post(reports_of(task, ["tea"], Rng.secure()))
        assert refused.json()["error"]["code"] in ("failed", "closed")  # before it looks again, or after
        assert server.send("GET", "/v1/collections/drinks").json()["closed"]
        assert server.send("GET", "/v1/collections/drinks").json()["reports"] == 100
        audit = server.send("GET", "/v1/audit", who="udo").json()["lines"]
        assert ("ola", "collection.close", "drinks") in [(a["account"], a["action"], a["object"]) for a in audit]


def test_what_is_not_there_is_not_shown(tmp_path: Path) -> None:
    with served(tmp_path, serve=SERVE) as server:
        missing = server.send("GET", "/v1/collections")
        assert missing.status_code == 400
        assert str(tmp_path) not in missing.text
        assert not (tmp_path / "reports.db").exists()  # a look makes no store
        (tmp_path / "reports.db").write_text("no database")
        broken = server.send("GET", "/v1/collections")
        assert (broken.status_code, str(tmp_path) in broken.text) == (400, False)
        (tmp_path / "reports.db").unlink()
        store_reports(str(tmp_path / "reports.db"), task_of(), list(LABELS))
        assert server.send("GET", "/v1/collections/nope").status_code == 404
        assert server.send("POST", "/v1/collections/nope/close", who="ola").status_code == 404
        assert server.send("GET", "/v1/collections/drinks?confidence=2").status_code == 400


@pytest.mark.parametrize("serve", ["", "collections = []"])
def test_a_project_may_have_none(tmp_path: Path, serve: str) -> None:
    with served(tmp_path, serve=serve) as server:
        assert server.send("GET", "/v1/collections").json()["collections"] == []
