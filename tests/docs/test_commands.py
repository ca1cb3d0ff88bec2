"""The commands that the pages show: each can be typed as it stands, with options that exist and nothing required left out."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.core
import typer.main

from places import ROOT
from sordino.cli.main import app, main

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


def commands() -> Iterator[tuple[str, Any]]:
    """Yield the words and the command of each command that runs by itself."""

    def walk(command: Any, words: str) -> Iterator[tuple[str, Any]]:
        for name, inner in getattr(command, "commands", {}).items():
            whole = f"{words} {name}".strip()
            if hasattr(inner, "commands"):
                yield from walk(inner, whole)
            else:
                yield whole, inner

    yield from walk(typer.main.get_command(app), "")


def long_options(command: Any) -> set[str]:
    return {flag for option in command.params for flag in (*option.opts, *option.secondary_opts) if flag[:2] == "--"}


def faults_of_the_page(page: str) -> list[str]:
    """Say which commands and options the page of the command line leaves out, and which it names that do not exist."""
    existing = dict(commands())
    table = page.partition("| task | commands |")[2].partition("\n\n")[0]
    listed = Counter(re.findall(r"`([a-z -]+)`", table))
    takers = Counter(flag for command in existing.values() for flag in long_options(command))
    # what the program itself has, and --help, which each command has
    known = set(takers) | long_options(typer.main.get_command(app)) | {"--help"}
    named = set(re.findall(r"--[a-z][a-z-]*", page))
    return [
        *(f"the command {name} is left out" for name in existing if not listed[name]),
        *(f"there is no command {name}" for name in listed if name not in existing),
        *(f"the command {name} is listed twice" for name, times in listed.items() if times > 1),
        *(f"there is no option {flag}" for flag in sorted(named - known)),
        # what fewer commands take is in their own help alone
        *(
            f"{flag} of {times} commands is left out"
            for flag, times in takers.items()
            if times > 8 and flag not in named
        ),
    ]


def test_the_page_of_the_command_line_names_what_exists_and_leaves_out_no_command() -> None:
    assert faults_of_the_page((ROOT / "docs" / "cli.md").read_text(encoding="utf-8")) == []


@pytest.mark.each(4)
@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("`synth fit`", "", "the command synth fit is left out"),
        ("`synth fit`", "`synth fit`, `synth guess`", "there is no command synth guess"),
        ("`--budget NAME`", "`--purse NAME`", "there is no option --purse"),
        ("`--confidence`", "", "--confidence of 14 commands is left out"),
    ],
)
def test_a_fault_of_the_page_is_seen(old: str, new: str, fault: str) -> None:
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert fault in faults_of_the_page(page.replace(old, new))
