"""A disk that is full: what was charged is on it, at most the last in doubt counts besides, and with room the ledger goes on.

A limit on the size of a file stands for the disk: the child that has it cannot write further, wherever it is.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest

from core.ledger.faulty_disk import FaultyDisk, interpose
from places import ROOT
from sordino.core.accounting.events import LaplaceEvent
from sordino.core.ledger.ledger import Ledger
from sordino.core.ledger.records import Charge
from sordino.core.loss import PureDP
from sordino.errors import InDoubt, LedgerError

LOOP = """
import resource, sys
from sordino.core.accounting.events import LaplaceEvent
from sordino.errors import SordinoError
from sordino.core.ledger.ledger import Ledger
ledger = Ledger.existing(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
while True:
    try:
        charge = ledger.charge(LaplaceEvent("0.001"), note="", question="q")
    except SordinoError as error:
        print("refused:", type(error).__name__, error)
        break
    print(charge.id)
    try:
        ledger.commit(charge, '"' + "x" * int(sys.argv[3]) + '"')
    except SordinoError as error:
        print("unanswered:", type(error).__name__, error)
        break
"""


@pytest.mark.parametrize(
    ("room", "answer"),
    [
        (20_000, 10),
        pytest.param(50_000, 10, marks=pytest.mark.deep),
        pytest.param(50_000, 3_000, marks=pytest.mark.deep),
        pytest.param(90_000, 9_000, marks=pytest.mark.deep),
        pytest.param(120_000, 70_000, marks=pytest.mark.deep),
    ],
)
def test_a_full_disk_refuses_what_it_cannot_hold(room: int, answer: int, tmp_path: Path) -> None:
    path = tmp_path / "people.ledger"
    Ledger.open(path, cap=PureDP(100)).close()
    size = max(room, path.stat().st_size + 5_000)
    command = [sys.executable, "-c", LOOP, str(path), str(size), str(answer)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    said = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout.splitlines()
    *granted, last = said
    assert last.split(":")[0] in ("refused", "unanswered")
    assert "InDoubt" in last or last.endswith(("the disk is full; nothing was charged", "the disk failed"))
    with Ledger.existing(path) as ledger:  # where there is room again
        report = ledger.verify()
        found = [charge.id for charge in ledger.charges()]
        assert found[: len(granted)] == granted
        assert len(found) - len(granted) in ((0, 1) if last.startswith("refused: InDoubt") else (0,))
        assert report.spent.amounts()["epsilon"] * 1000 == len(found)
        assert isinstance(ledger.charge(LaplaceEvent("0.001"), note="", question="q"), Charge)


@pytest.mark.parametrize("fault", ["full", "error"])
def test_only_a_failed_sync_leaves_a_charge_in_doubt(fault: Literal["full", "error"], tmp_path: Path) -> None:
    """At each operation of a charge: a write that fails is known to be rolled back, and nothing of it is found later."""
    doubted = refused = 0
    words: set[str] = set()
    for at in range(1, 40):
        path = tmp_path / f"{at}.ledger"
        disk = FaultyDisk()
        with interpose(disk), Ledger.open(path, cap=PureDP(100)) as ledger:
            ledger.charge(LaplaceEvent("0.001"), note="", question="q")
            disk.at, disk.fault = disk.count + at, fault
            try:
                ledger.charge(LaplaceEvent("0.001"), note="", question="q")
                break
            except InDoubt:
                doubted += 1
                assert fault == "error"
            except LedgerError as error:
                refused += 1
                words.add(str(error).rpartition(": ")[2])
                disk.fault = None
                assert [charge.id for charge in ledger.charges()] == ["c-0001"]
        with Ledger.existing(path) as ledger:
            assert len(ledger.charges()) <= 2
            ledger.verify()
    assert refused > 3
    assert words <= {"the disk is full; nothing was charged", "the disk failed"}
    assert (doubted > 0) == (fault == "error")
