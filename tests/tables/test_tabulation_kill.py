"""kill -9 between the charge of a tabulation and its answer: the charge stands, once, and a request id gives one answer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import sordino as sd
from sordino.core.ledger.ledger import Ledger

# The process dies after the charge is durable, before the tables are read, or before the answer is on record.
CHILD = """
import os, signal, sys
from pathlib import Path
import sordino as sd
from tables.test_tabulation_kill import open_people, CUBE

where = sys.argv[2]
if where != "never":
    from sordino.ask.curator.charging import Charging
    from sordino.tables.tabulating import PreparedTabulation

    owner, name = (PreparedTabulation, "answer") if where == "before the tables are read" else (Charging, "commit")
    setattr(owner, name, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
open_people(Path(sys.argv[1])).ask(CUBE, rho="0.01", request_id="tables of March")
"""
CUBE = sd.tabulate([["region", "sex"], ["region"], []])


def open_people(ledger: Path) -> sd.Curator:
    return sd.protect(
        pa.table({"region": ["north", "south"] * 50, "sex": ["f", "m", "m", "f"] * 25}),
        domain=sd.Domain({"region": sd.Category(["north", "south"]), "sex": sd.Category(["f", "m"])}),
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.ZCDP("0.03", "1e-6"),
        ledger=ledger,
    )


def run_child(ledger: Path, where: str) -> int:
    path = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run([sys.executable, "-c", CHILD, str(ledger), where], env=environment, timeout=120).returncode


@pytest.mark.deep
@pytest.mark.parametrize("where", ["before the tables are read", "before the answer is stored"])
def test_a_killed_tabulation_is_charged_once_and_gives_nothing_away(tmp_path: Path, where: str) -> None:
    path = tmp_path / "ledger.db"
    assert run_child(path, where) == -signal.SIGKILL
    ledger = Ledger.existing(path)
    assert [charge.state for charge in ledger.charges()] == ["reserved"]
    assert ledger.spent() == sd.ZCDP("0.01", "1e-6")
    # Whether it is being answered still cannot be known, so the same id is refused and not charged again.
    with pytest.raises(sd.errors.InDoubt, match="no outcome yet"):
        open_people(path).ask(CUBE, rho="0.01", request_id="tables of March")
    assert len(ledger.charges()) == 1
    other = open_people(path).ask(CUBE, rho="0.01", request_id="tables of April")
    assert open_people(path).ask(CUBE, rho="0.01", request_id="tables of April").tables[()].equals(other.tables[()])
    assert [charge.state for charge in ledger.charges()] == ["reserved", "committed"]
    assert ledger.spent() == sd.ZCDP("0.02", "1e-6")
    ledger.verify()
