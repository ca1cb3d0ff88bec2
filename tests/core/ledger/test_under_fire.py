"""Kills, failing disks, lost power and copies put back: shares of what `scripts/ledger_under_fire.py` runs at full size."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path

import pytest

import sordino as sd
from core.ledger.failpoints import kill_at_failpoints
from core.ledger.fire import cut_power, fail_disks, kill_spenders, put_back_copies, spend_hot_cap
from core.ledger.spenders_under_fire import KINDS, Toll
from places import ROOT
from postgres_server import Server
from sordino.core.ledger.location import Place, locate
from sordino.lab.datasets.census import write_census_project

LINES = KINDS[:2]  # where no file is this machine's


def _check(toll: Toll, *, points: int) -> Toll:
    assert toll.violations == []
    assert toll.points.total() == points
    return toll


def test_killed_spenders_lose_nothing_they_were_told(tmp_path: Path) -> None:
    toll = _check(kill_spenders(40, seed=3, make=lambda turn: tmp_path / f"{turn}.ledger"), points=40)
    assert toll.answers > 10
    assert toll.in_doubt > 0


def test_64_processes_fill_a_hot_cap_while_some_die(tmp_path: Path) -> None:
    assert _check(spend_hot_cap(tmp_path / "l", seed=21), points=64).charges == 100


def test_a_disk_that_fails_leaves_what_was_told(tmp_path: Path) -> None:
    toll = _check(fail_disks(10, seed=1, make=lambda turn: tmp_path / f"{turn}.ledger"), points=10)
    assert toll.refused > 10


def test_a_loss_of_power_leaves_what_was_told(tmp_path: Path, state: Path) -> None:
    del state
    _check(cut_power(tmp_path / "l", seed=1, cuts=12), points=12)


def test_no_copy_put_back_forgets(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    toll = _check(put_back_copies(tmp_path / "here" / "l", seed=1, times=16), points=16)
    assert toll.refused > 5


def test_an_ask_that_is_killed_anywhere_sends_nothing_unrecorded(tmp_path: Path) -> None:
    project = write_census_project(tmp_path / "census", 200, sd.Rng.seeded(1)).parent
    assert kill_at_failpoints(project, every=500).violations == []


def test_the_page_says_what_was_found() -> None:
    found = importlib.util.spec_from_file_location("ledger_under_fire", ROOT / "scripts" / "ledger_under_fire.py")
    assert found is not None
    assert found.loader is not None
    script = importlib.util.module_from_spec(found)
    found.loader.exec_module(script)
    figures = json.loads((ROOT / "bench" / "results" / "ledger-under-fire.json").read_text())
    assert script.render(figures) == (ROOT / "bench" / "results" / "ledger-under-fire.md").read_text()
    assert [trial["violations"] for trial in figures["trials"].values()] == [[]] * len(script.TRIALS)


@pytest.mark.deep
def test_10_000_killed_spenders(tmp_path: Path) -> None:
    _check(kill_spenders(10_000, seed=1, make=lambda turn: tmp_path / f"{turn}.ledger"), points=10_000)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(20))
def test_64_processes_fill_a_hot_cap_20_times(seed: int, tmp_path: Path) -> None:
    _check(spend_hot_cap(tmp_path / "l", seed=seed), points=64)


@pytest.mark.deep
def test_every_third_line_and_write_of_an_ask(tmp_path: Path) -> None:
    project = write_census_project(tmp_path / "census", 200, sd.Rng.seeded(1)).parent
    assert kill_at_failpoints(project, every=3).violations == []


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(20))
def test_2_000_disks_that_fail_or_lose_their_power(seed: int, tmp_path: Path) -> None:
    os.environ["SORDINO_STATE"] = str(tmp_path / "power")
    _check(cut_power(tmp_path / "l", seed=seed, cuts=50), points=50)
    _check(fail_disks(50, seed=seed, make=lambda turn: tmp_path / f"{turn}.ledger"), points=50)


@pytest.mark.deep
def test_300_killed_spenders_of_a_server(postgres_server: Server) -> None:
    def make(turn: int) -> Place:
        return locate(f"{postgres_server.url}/postgres#fire{turn}")

    _check(kill_spenders(300, seed=1, make=make, kinds=LINES), points=300)
