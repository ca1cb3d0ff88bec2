"""The README, typed word for word and in order in a fresh directory, works."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from places import ROOT
from sordino.cli.main import main

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(sh|python)\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


def test_typed_in_order_it_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Commands as they stand, then the snippet in the same directory, all in this process, which has imported what they need."""
    monkeypatch.chdir(tmp_path)
    for language, text in BLOCKS:
        if language == "python":
            exec(compile(text, "README.md", "exec"), {"__name__": "__main__"})
            continue
        for line in text.splitlines():
            program, *words = shlex.split(line)
            if program == "cd":
                # Undone after the test, as the first change of directory is.
                monkeypatch.chdir(*words)
            else:
                assert program == "sordino"
                assert main(words) == 0, line
    check_what_was_said(capsys.readouterr().out)


@pytest.mark.deep
def test_typed_into_a_shell_it_works(tmp_path: Path) -> None:
    """A newcomer's shell: `sordino` on the path, a process for each command."""
    shell = tmp_path / "bin"
    shell.mkdir()
    (shell / "sordino").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m sordino "$@"\n')
    (shell / "sordino").chmod(0o755)
    lines = ["set -e"]
    for language, text in BLOCKS:
        lines.append(text if language == "sh" else f"\"{sys.executable}\" - <<'PYTHON'\n{text}PYTHON")
    place = tmp_path / "fresh"
    place.mkdir()
    environment = {
        **os.environ,
        "PATH": f"{shell}:{os.environ['PATH']}",
        "SORDINO_STATE": str(tmp_path / "state"),
    }
    done = subprocess.run(
        ["sh", "-c", "\n".join(lines)],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    check_what_was_said(done.stdout)


def check_what_was_said(said: str) -> None:
    """Require what the README shows: charges, losses, and counts as near as their noise lets them be."""
    assert "left: 0.5 of 2" in said
    assert "charge c-0004" in said
    assert said.rstrip().endswith("PureDP(epsilon=0.25)")
    shown = dict(re.findall(r"^    (\w+) +(\d+) +\d+ - \d+$", README, flags=re.MULTILINE))
    final = said[said.rindex("occupation ") :]
    assert shown
    for job, count in shown.items():
        found = re.search(rf"^{job} +([\d,]+)", final, flags=re.MULTILINE)
        assert found, job
        assert abs(int(found[1].replace(",", "")) - int(count)) <= 80  # both noisy at scale 2: fails once in 1e15


def test_it_says_what_it_is_and_what_else_there_is() -> None:
    """That its links lead somewhere, and to every page, is checked with the other pages."""
    assert "differential privacy" in README.splitlines()[0]
    assert len(re.findall(r"!\[.+\]\(docs/jobs.svg\)", README)) == 1
    linked = set(re.findall(r"\]\(([^)#]+)\)", README))
    assert {
        f"docs/{page}.md" for page in ("synth", "local", "collector", "server", "limits", "glossary", "index")
    } <= linked
    for word in ("sordino import", "'.[plots]'", "'.[serve]'", "'.[remote]'", "examples"):
        assert word in README
