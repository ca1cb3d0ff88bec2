"""Every command that prices or charges a question says that this machine never saw the ledger."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cli.support import Run

COUNT = ("SELECT COUNT(*) AS n FROM people", "--epsilon", "0.1")
COMMANDS = (
    ("plan", *COUNT),
    ("ask", *COUNT),
    ("bounds", "gain", "--epsilon", "0.1"),
    ("caps", "--epsilon", "0.1"),
    ("synth", "plan", "age", "--epsilon", "0.1"),
    ("synth", "fit", "--epsilon", "0.1", "--columns", "age,sex", "-o", "m.model"),
)


@pytest.mark.each(3)
@pytest.mark.usefixtures("census")
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_says_that_this_machine_never_saw_the_ledger(run: Run, state: Path, command: tuple[str, ...]) -> None:
    project = Path("sordino.toml")
    # a unit that may have several rows, so that there are caps to find
    unit = 'privacy_unit = {column = "household", max_rows = 6}'
    project.write_text(project.read_text().replace('privacy_unit = "row"', unit))
    assert run("ask", *COUNT).code == 0
    shutil.rmtree(state / "marks")
    for said in (True, command[:2] == ("synth", "plan") or command[0] == "plan"):
        ended = run(*command)
        assert ended.code == 0, ended.err
        words = " ".join((ended.out + ended.err).split())
        assert ("this machine has no high-water mark of it" in words) == said, words
        if "-o" in command:
            Path("m.model").unlink()
