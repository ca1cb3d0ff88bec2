"""Kills, failing disks, lost power and copies put back: shares of what `scripts/ledger_under_fire.py` runs at full size."""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Any

import pytest

import sordino as sd
from core.ledger.failpoints import kill_at_failpoints
from core.ledger.fire import (
    cut_power,
    fail_disks,
    kill_spenders,
    name_ledger,
    name_server_ledger,
    put_back_copies,
    spend_hot_cap,
    watch_in,
)
from core.ledger.spenders_under_fire import KINDS, Toll
from places import ROOT
from postgres_server import Server
from sordino.lab.datasets.census import write_census_project

LINES = KINDS[:2]  # where no file is this machine's


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    """A process that holds the ledger alone: a fork copies what maps its memory, and a worker holds a gigabyte of tests."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        yield pool


Watch = Callable[..., Toll]


@pytest.fixture
def watch(pool: Pool, state: Path) -> Watch:
    """Watch spenders in that process, and require that so many points were tried and nothing was violated."""

    def watch_points(work: Callable[..., Toll], *what: Any, points: int | None, **how: Any) -> Toll:
        toll: Toll = pool.apply(watch_in, (state, partial(work, *what, **how)))
        assert toll.violations == []
        assert points is None or toll.points.total() == points
        return toll

    return watch_points


def test_killed_spenders_lose_nothing_they_were_told(watch: Watch, tmp_path: Path) -> None:
    toll = watch(kill_spenders, 10, seed=3, make=partial(name_ledger, tmp_path), points=10)
    assert toll.answers > 2
    assert toll.in_doubt > 0


def test_24_processes_fill_a_hot_cap_while_some_die(watch: Watch, tmp_path: Path) -> None:
    assert watch(spend_hot_cap, tmp_path / "l", seed=21, spenders=24, points=24).charges == 100


def test_a_disk_that_fails_leaves_what_was_told(watch: Watch, tmp_path: Path) -> None:
    toll = watch(fail_disks, 10, seed=1, make=partial(name_ledger, tmp_path), points=10)
    assert toll.refused > 10


def test_a_loss_of_power_leaves_what_was_told(watch: Watch, tmp_path: Path) -> None:
    watch(cut_power, tmp_path / "l", seed=1, cuts=6, points=6)


def test_no_copy_put_back_forgets(watch: Watch, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    toll = watch(put_back_copies, tmp_path / "here" / "l", seed=1, times=8, points=8)
    assert toll.refused > 2


@pytest.mark.deep
def test_an_ask_that_is_killed_anywhere_sends_nothing_unrecorded(watch: Watch, tmp_path: Path) -> None:
    project = write_census_project(tmp_path / "census", 200, sd.Rng.seeded(1)).parent
    watch(kill_at_failpoints, project, every=2400, points=None)


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
def test_3_000_killed_spenders(watch: Watch, tmp_path: Path) -> None:
    watch(kill_spenders, 3_000, seed=1, make=partial(name_ledger, tmp_path), points=3_000)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(6))
def test_64_processes_fill_a_hot_cap_each_time(seed: int, watch: Watch, tmp_path: Path) -> None:
    watch(spend_hot_cap, tmp_path / "l", seed=seed, points=64)


@pytest.mark.deep
def test_every_eighth_line_and_write_of_an_ask(watch: Watch, tmp_path: Path) -> None:
    project = write_census_project(tmp_path / "census", 200, sd.Rng.seeded(1)).parent
    watch(kill_at_failpoints, project, every=8, points=None)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(8))
def test_800_disks_that_fail_or_lose_their_power(seed: int, watch: Watch, tmp_path: Path) -> None:
    watch(cut_power, tmp_path / "l", seed=seed, cuts=50, points=50)
    watch(fail_disks, 50, seed=seed, make=partial(name_ledger, tmp_path), points=50)


@pytest.mark.deep
def test_150_killed_spenders_of_a_server(watch: Watch, postgres_server: Server) -> None:
    make = partial(name_server_ledger, f"{postgres_server.url}/postgres")
    watch(kill_spenders, 150, seed=1, make=make, kinds=LINES, points=150)
