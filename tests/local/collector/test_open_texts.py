"""A search for frequent texts through the whole stack: a signed task, devices, the service, its store, its estimates."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from collecting import reports_of, running, task_of
from sordino.cli.main import main
from sordino.core.noise.rng import Rng
from sordino.local import Client, ClientLedger, HeavyHitters, Reports
from sordino.local.collector.report_store import Store
from sordino.local.collector.results import estimate_task, export_batch, find_task


@pytest.mark.deep
def test_texts_that_nobody_listed_are_found(store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """4,000 answers, 60% one text: its share lies in its interval (seeds are fixed), by the service and by the command."""
    protocol = HeavyHitters("abcdefghijklmnopqrstuvwxyz", length=4, epsilon=4)
    task, rng = task_of(protocol), Rng.seeded(3)
    answers = ["maté"] * 400 + ["chai"] * 2_400 + ["milk"] * 1_200  # é is in no text: those count in n
    with running(store, [task]) as service:
        assert service.estimate()["labels"] == []
        with closing(ClientLedger.open(tmp_path / "d", cap=4, rng=rng, mark=tmp_path / "m")) as ledger:
            own = Client(ledger).report(task, "chai", rng=rng, now=task.manifest.expires.replace(year=2029))
        assert service.post(own).json() == {"stored": 1, "repeated": 0}
        assert service.estimate()["labels"] == []  # some group has none yet
        assert service.post(reports_of(task, answers, rng)).json() == {"stored": 4000, "repeated": 0}
        wrong = task.manifest.hash + bytes(16) + b"\xff" * protocol.width
        assert service.post(wrong).status_code == 400
        found = service.estimate()
    assert found["reports"] == 4_001
    assert found["simultaneous"]
    assert [one["label"] for one in found["labels"]][:2] == ["chai", "milk"]
    for one, share in zip(found["labels"], (0.6, 0.3), strict=False):
        assert one["adversarial_lower"] <= one["lower"] < share < one["upper"] <= one["adversarial_upper"]
    assert main(["local", "estimate", "--store", store]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:3]] == ["chai", "milk"]
    with closing(Store.open(store)) as opened:
        again = estimate_task(opened, None, confidence=0.95, malicious=0.01, recount=True)
        stored, read = find_task(opened, None)
        batch = Reports.from_bytes(export_batch(read, opened.chunks(stored.number)), protocol)
    assert json.dumps(again) == json.dumps(found)
    assert len(batch) == 4_001
    assert protocol.find(batch).values == [one["label"] for one in found["labels"]]
