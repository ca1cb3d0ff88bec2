"""Where the project lies, and where the Adult extract is looked for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared" / "data"
ADULT = Path(os.environ.get("SORDINO_ADULT") or SHARED / "adult.data")
ADULT_DISCRETE = SHARED / "adult_discrete.csv"

needs_adult = pytest.mark.skipif(not ADULT.is_file(), reason="no Adult extract; set SORDINO_ADULT to its path")
