"""examples/synth_adult.py runs as it stands, and finds the public facts of the extract; where it is absent, it skips."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from places import ADULT, ROOT, needs_adult

FACTS = {"[21, 33)": 9_878, "[30, 31)": 861, "[30, 71)": 22_310, "[20, 65)": 29_568, "[20, 30)": 8_054}
JOBS = {"Sales": 3_650, "Armed-Forces": 9, "(missing)": 1_843, "Prof-specialty": 4_140}


def run(*arguments: str) -> str:
    command = [sys.executable, str(ROOT / "examples" / "synth_adult.py"), *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "SORDINO_ADULT"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.deep
@needs_adult
def test_the_textbook_in_numbers(tmp_path: Path) -> None:
    """Secure noise at epsilon 1: a range of 45 ages has the deviation 9.5, a cell of the joint table about 2: 12 deviations."""
    said = run(str(ADULT), str(tmp_path / "ages.svg"))
    assert said.startswith("NOT PRIVATE")
    for words, true in FACTS.items():
        line = next(line for line in said.splitlines() if line.startswith(words))
        numbers = [float(n.replace(",", "")) for n in re.findall(r"[0-9][0-9,.]*", line[len(words) :])]
        assert numbers[0] == true
        assert numbers[1] == pytest.approx(true, abs=120)
        assert numbers[3] == pytest.approx(true, abs=200)
    for words, true in JOBS.items():
        line = next(line for line in said.splitlines() if line.startswith(words))
        numbers = [float(n.replace(",", "")) for n in re.findall(r"-?[0-9][0-9,.]*", line[len(words) :])]
        assert numbers[0] == true
        assert numbers[1] == pytest.approx(true, abs=100)
        assert numbers[2] == pytest.approx(true, abs=400)
    young = re.search(r"aged 17 +23 +(-?[0-9.]+) +(-?[0-9.]+)", said)
    assert young is not None
    assert 40 < float(young.group(1)) < 52  # independence: 395 of 32,561 are 17, of 3,770 clerks 45.7
    assert float(young.group(2)) < 40
    assert (tmp_path / "ages.svg").read_text().startswith("<svg")
