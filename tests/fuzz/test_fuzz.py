"""Broken inputs to every reader: only Sordino's own errors leave, soon, and no message holds data or a secret.

`make test` feeds each for a twentieth of a second of processor time, `make test-deep` for a share of two minutes;
$SORDINO_FUZZ_SECONDS says otherwise. What was found once stands among the examples of its reader.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fuzz.surface import feed, seconds_each
from fuzz.surfaces import SURFACES


@pytest.mark.parametrize("name", SURFACES)
def test_only_sordinos_own_errors_leave(name: str, tmp_path: Path) -> None:
    with SURFACES[name](tmp_path) as surface:
        tally = feed(surface.read, surface.make, seconds=seconds_each(), sound=surface.sound)
    assert tally.faults == []


@pytest.mark.deep
@pytest.mark.parametrize("name", SURFACES)
def test_only_sordinos_own_errors_leave_for_a_minute(name: str, tmp_path: Path, record_property: Any) -> None:
    with SURFACES[name](tmp_path) as surface:
        tally = feed(surface.read, surface.make, seconds=60 / len(SURFACES), seed=1, sound=surface.sound)
    record_property("tried", f"{name}: {tally.fed:,} inputs, {tally.read:,} read, {tally.refused:,} refused")
    assert tally.faults == []
