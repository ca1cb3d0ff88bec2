"""The list of mutants fits the source and the tests as they are, and its page the list; all are run by the deep test."""

from __future__ import annotations

import datetime
import functools
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mutants
from mutants import Mutant
from places import ROOT

MUTANTS = mutants.read_mutants()
ROOMS = (
    *("noise", "mechanisms", "sensitivity", "queries", "curator", "engines", "accounting", "ledger", "estimates"),
    *("clipping", "synth", "local", "collector", "server", "project", "audit", "risk"),
)


def test_every_mutant_has_its_place_and_its_room() -> None:
    assert len(MUTANTS) >= 60
    assert len({m.name for m in MUTANTS}) == len(MUTANTS)
    assert list(dict.fromkeys(m.room for m in MUTANTS)) == list(ROOMS)


def test_every_mutant_is_planted_and_uses_no_name_that_its_file_does_not_have(tmp_path: Path) -> None:
    """Anything kills such a mutant, so its killers prove nothing; the ten of a day would show it on their day alone."""
    for number, mutant in enumerate(MUTANTS):
        text = mutant.plant((mutants.SOURCE / mutant.path).read_text(encoding="utf-8"))
        (tmp_path / f"mutant_{number}.py").write_text(text, encoding="utf-8")
    # F821 is a name that nothing binds, F823 one that is read before its function binds it; what is no Python is named by itself.
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--isolated",
        "--select=F821,F823",
        "--output-format=concise",
        ".",
    ]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    told = [(MUTANTS[int(n)].name, said) for n, said in re.findall(r"^mutant_(\d+)\.py:\S+ (.*)$", found.stdout, re.M)]
    assert (found.returncode, told) == (0, []), found.stderr


@functools.cache
def names_of_tests(file: str) -> frozenset[str]:
    return frozenset(re.findall(r"^ *def (\w+)\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE))


def test_every_killer_is_there() -> None:
    for mutant in MUTANTS:
        assert mutant.killers, mutant.name
        for killer in mutant.killers:
            file, _, name = killer.partition("::")
            assert name.partition("[")[0] in names_of_tests(file), killer


def test_a_place_that_is_not_there_or_there_twice_is_named() -> None:
    for at, find in (
        ("core.noise.rng", "no such text"),
        ("core.noise.rng", "import "),
        ("core.noise.rng:Rng.no_such_function", "return"),
        ("core.noise.rng:Rng.below", "os.urandom"),  # which stands in another function of the file
    ):
        stale = Mutant("stale", "noise", at, find, "", "", ())
        with pytest.raises(ValueError, match="stale: its text is"):
            stale.plant((mutants.SOURCE / stale.path).read_text(encoding="utf-8"))


def test_a_function_that_moves_within_its_file_keeps_its_mutants() -> None:
    text = "def one():\n    return 1 + 1\n\n\nclass Two:\n    def one(self):\n        return 1 + 1\n"
    moved = "class Two:\n    @cached\n    def one(self):\n        return 1 + 1\n\n\ndef one():\n    return 1 + 1\n"
    for source in (text, moved):
        planted = Mutant("m", "noise", "core.noise.rng:Two.one", "1 + 1", "2", "", ()).plant(source)
        assert planted == source.replace("        return 1 + 1", "        return 2")


def test_the_page_lists_each_mutant_and_no_other() -> None:
    rows = [line for line in mutants.PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    told = [row for row in rows if not row.startswith("| mutant |")]
    assert len(told) == len(MUTANTS)
    for row, mutant in zip(told, MUTANTS, strict=True):
        assert row.startswith(mutants.row_start(mutant))


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tests" / "mutants.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--help",), 0, "--write"),
        (("--wirte",), 2, "--wirte"),
        (("no such mutant",), 2, "no such mutant"),
        (("--write", MUTANTS[0].name), 2, "--write is of all mutants"),
    ],
)
def test_a_command_line_that_asks_for_no_run_starts_none(
    words: tuple[str, ...], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        mutants.main(words)
    assert ended.value.code == code
    shown = capsys.readouterr()
    assert said in shown.out + shown.err


def test_ten_mutants_are_killed_by_their_tests() -> None:
    """Ten others each day, of those that took less than 1 s when the page was written; all of them in the deep tests."""
    rows = [line for line in mutants.PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    rows = [row for row in rows if not row.startswith("| mutant |")]
    quick = [m for m, row in zip(MUTANTS, rows, strict=True) if float(row.split(" | ")[-1].removesuffix(" |")) < 1]
    assert len(quick) > 100
    first = 10 * datetime.date.today().toordinal()
    names = [quick[(first + i) % len(quick)].name for i in range(10)]
    ran = run(*names)
    assert (ran.returncode, "10 killed, 0 survived" in ran.stdout) == (0, True), ran.stdout


@pytest.mark.deep
def test_all_are_killed() -> None:
    ran = run()
    assert (ran.returncode, f"{len(MUTANTS)} killed, 0 survived" in ran.stdout) == (0, True), ran.stdout[-5000:]
