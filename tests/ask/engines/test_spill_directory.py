"""Directories for spilled rows: private, gone when they are not needed, and those of killed processes gone at the next start."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

import sordino as sd
from forking import Fork
from planning import engine_behind
from protecting import protect
from sordino.ask.engines import instances as spill_directory
from sordino.ask.engines.instances import SpillDirectory


def hold_a_table() -> int:
    """Open a table, print the place of its directory, and wait."""
    table = protect(pa.table({"x": [1]}), sd.Domain({"x": sd.Integer(0, 5)}))
    print(engine_behind(table)._directory, flush=True)
    sys.stdin.read()
    return 0


WAITS = """
import sys
from sordino.ask.engines.instances import SpillDirectory

held = SpillDirectory()
print(held.path, flush=True)
sys.stdin.read()
"""
RACES = """
import os, sys
from sordino.ask.engines import instances as spill_directory

for _ in range(300):
    held = spill_directory.SpillDirectory()
    spill_directory._remove_left.cache_clear()
    spill_directory._remove_left(os.environ["TMPDIR"])
    assert os.path.isdir(held.path)
    held.remove()
    assert not os.path.exists(held.path)
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary folder of its own, in which this process starts."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    spill_directory._remove_left.cache_clear()
    yield tmp_path
    spill_directory._remove_left.cache_clear()


def test_a_directory_is_private_and_goes_with_what_is_in_it(place: Path) -> None:
    held = SpillDirectory()
    path = Path(held.path)
    assert path.parent == place
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    (path / "rows.tmp").write_text("rows")
    held.remove()
    assert not path.exists()
    held.remove()


@pytest.mark.deep
def test_what_a_killed_process_left_is_removed_at_the_next_start_and_nothing_else(place: Path) -> None:
    killed = Fork(hold_a_table)
    left = Path(killed.stdout.readline().strip())
    # A program that ends by itself removes its directory; a fork of this one would end otherwise.
    alive = subprocess.Popen([sys.executable, "-c", WAITS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert alive.stdout is not None
    kept = Path(alive.stdout.readline().strip())
    try:
        (left / "duckdb_temp_storage_0.tmp").write_text("rows")
        killed.kill()
        killed.communicate()
        assert left.is_dir()
        target = place / "target"
        target.mkdir()
        others = [place / "sordino-spill-link", place / "sordino-spill-file", place / "sordino-other", target]
        others[0].symlink_to(target)
        others[1].write_text("mine")
        others[2].mkdir()
        held = SpillDirectory()
        assert not left.exists()
        assert kept.is_dir()
        assert all(path.exists() for path in others)
        held.remove()
        alive.communicate("")
        assert alive.returncode == 0
        assert not kept.exists()
    finally:
        killed.kill()
        killed.communicate()
        alive.kill()
        alive.communicate()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_another_user_stays(place: Path) -> None:
    path = place / "sordino-spill-theirs"
    path.mkdir()
    os.chown(path, 12345, -1)
    SpillDirectory().remove()
    assert path.is_dir()


@pytest.mark.deep
def test_processes_that_start_at_once_leave_each_other_alone(place: Path) -> None:
    def race(_: int) -> str:
        ran = subprocess.run([sys.executable, "-c", RACES], capture_output=True, text=True, check=False)
        return ran.stderr

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(race, range(2))) == [""] * 2
    assert list(place.iterdir()) == []
