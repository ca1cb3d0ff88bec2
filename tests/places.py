"""Where the project lies, and where the Adult extract is looked for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared" / "data"
ADULT = Path(os.environ.get("SORDINO_ADULT") or SHARED / "adult.data")
ADULT_DISCRETE = SHARED / "adult_discrete.csv"


def peak_memory() -> int:
    """Return the most kilobytes that this process held since its program began: `ru_maxrss` counts its parent's too."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


def forget_peak_memory() -> None:
    """Let `peak_memory` count from what this process holds now."""
    Path("/proc/self/clear_refs").write_text("5")


needs_adult = pytest.mark.skipif(not ADULT.is_file(), reason="no Adult extract; set SORDINO_ADULT to its path")
