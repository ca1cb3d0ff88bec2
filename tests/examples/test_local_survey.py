"""The example of a whole collection runs as it stands: key, task, service, devices, estimate, close, export."""

from __future__ import annotations

import subprocess
import sys

from places import ROOT


def test_the_survey_example_runs() -> None:
    script = ROOT / "examples" / "local_survey.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "at most epsilon 2 of its cap of 3" in done.stdout
    assert "posted 60 reports of 49 bytes: 60 stored, 1 again" in done.stdout
    assert "NOT PRIVATE" in done.stdout
    assert done.stdout.count("with 1% malicious") == 3
    assert "exported: <Reports unary: 60 of 1 bytes>" in done.stdout
    assert done.stderr == ""
