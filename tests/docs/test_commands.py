"""The commands that the pages show: each can be typed as it stands, with options that exist and nothing required left out."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer.core

from places import ROOT
from sordino.cli.main import main

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "bench" / "results").glob("*.md")])
GUIDES = ROOT / "docs" / "guides"
LINE = re.compile(r"^(?:    |\$ )?(sordino (?:.*\\\n)*.*)$", flags=re.MULTILINE)
INLINE = re.compile(r"`(sordino\s[^`]+)`")
# what a sentence may leave out of a command that it only names; a group by itself prints its help
LEFT_OUT = re.compile(
    r"^$|error: (Missing (argument|option|command)|Option '--[a-z-]+' requires (an argument|\d arguments))"
)
Parse = Callable[[list[str]], tuple[int, str]]


def words_of(command: str) -> list[str]:
    """Return the arguments that a shell would pass: without the program, comments, redirections and what follows."""
    words = shlex.split(command.replace("\\\n", " "), comments=True)
    ends = [place for place, word in enumerate(words) if word in (">", "<", "|", "&", "&&")]
    return words[1 : min(ends, default=len(words))]


def shown() -> Iterator[tuple[Path, str, bool]]:
    """Yield the page, each command on it, and whether it must be whole: on a line of its own, or in a guide with options."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for command in LINE.findall(text):
            yield page, command, True
        for command in INLINE.findall(text):
            yield page, " ".join(command.split()), page.is_relative_to(GUIDES) and " -" in command


@pytest.fixture
def parse(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Parse:
    """Run command lines up to their last option: every check of an option, and nothing of the command."""
    monkeypatch.setattr(typer.core.TyperCommand, "invoke", lambda *_: None, raising=False)

    def parsed(words: list[str]) -> tuple[int, str]:
        capfd.readouterr()
        return main(words), capfd.readouterr().err

    return parsed


def test_every_command_on_a_page_can_be_typed(parse: Parse) -> None:
    faults, whole_commands = [], 0
    for page, command, whole in shown():
        words = words_of(command)
        if words[0] == "COMMAND":
            continue
        whole_commands += whole
        code, err = parse(words)
        if code and (whole or not LEFT_OUT.search(err)):
            faults.append(f"{page.relative_to(ROOT)}: {command}: {err.strip()}")
    assert faults == []
    assert whole_commands > 50


def test_a_command_with_a_fault_is_seen(parse: Parse) -> None:
    """The publisher's guide had the first; each is refused for what is wrong with it."""
    for command, says in [
        ("sordino synth report people.model --table people --epsilon 0.5  # no -o", "Missing option '--output'"),
        ("sordino ask 'SELECT COUNT(*) AS n FROM t' --epsilan 1", "No such option: --epsilan"),
        ("sordino synth samples m.model", "No such command 'samples'"),
    ]:
        code, err = parse(words_of(command))
        assert code == 2, command
        assert says in err
