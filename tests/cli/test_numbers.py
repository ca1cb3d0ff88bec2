"""A number is read alike wherever a command line states one: a decimal, a fraction, a percent, a logarithm."""

from __future__ import annotations

import json

import pytest

from cli.option_walk import all_commands
from cli.support import Run

COUNT = "SELECT COUNT(*) AS n FROM people"
WORLDS = ("epsilon", "worlds", "--size", "2", "--query", "mean", "--risk", "0.6", "--format", "json")
SENSITIVITY = ("sensitivity", "--neighbors", "replace", "--within", "1", "--size", "2", "--format", "json")
# a command, an option of it, and two spellings of one number
ALIKE = [
    (("plan", COUNT, "--epsilon", "0.25"), "--confidence", "0.9", "90%"),
    (("plan", COUNT, "--epsilon", "0.25"), "--confidence", "0.75", "3/4"),
    (("plan", COUNT), "--epsilon", "0.25", "1/4"),
    (("plan", COUNT), "--epsilon", "1.09861228866810969139", "ln3"),
    (("plan", COUNT), "--error", "12.5", "25/2"),
    (("local", "plan", "--size", "5", "--epsilon", "1", "--respondents", "900"), "--margin", "0.05", "5%"),
    (("local", "plan", "--size", "5", "--epsilon", "1", "--respondents", "900"), "--malicious", "0.01", "1/100"),
    (("synth", "plan", "age", "--epsilon", "0.1"), "--confidence", "0.5", "1/2"),
    ((*WORLDS, "--universe", "1,2,3"), "--epsilon", "0.5", "50%"),
    ((*WORLDS, "--universe", "1,2,3", "--epsilon", "1"), "--output", "1.5", "3/2"),
    ((*WORLDS, "--universe", "1,2,3"), "--prior", "0.25,0.25,0.5", "1/4,25%,1/2"),
    (WORLDS, "--universe", "0.5,0.25,3", "1/2,25%,3"),
    ((*SENSITIVITY, "--universe", "1,2,9"), "--query", "quantile:0.25", "quantile:1/4"),
    ((*SENSITIVITY, "--query", "mean"), "--universe", "0.5,0.75,2", "1/2,75%,2"),
]


@pytest.mark.each(3)
@pytest.mark.usefixtures("census")
@pytest.mark.parametrize(("command", "option", "decimal", "other"), ALIKE)
def test_spellings_of_a_number_give_one_answer(
    command: tuple[str, ...], option: str, decimal: str, other: str, run: Run
) -> None:
    first, second = (run(*command, option, spelling) for spelling in (decimal, other))
    assert first.code == 0, first.err
    assert second.code == 0, second.err
    assert first.out in (second.out, second.out.replace(other, decimal))
    # the same as one word
    assert run(*command, f"{option}={other}").out == second.out


@pytest.mark.usefixtures("census")
@pytest.mark.parametrize("word", ["1/0", "%", "one", "1/2/3", "ln", "", "1,5"])
def test_what_is_no_number_is_refused(word: str, run: Run) -> None:
    for command, option in ((("plan", COUNT, "--epsilon", "1"), "--confidence"), (("plan", COUNT), "--epsilon")):
        ended = run(*command, option, word)
        assert (ended.code, ended.out) == (2, "")


def test_values_that_are_no_decimals_stay_exact(run: Run) -> None:
    """Thirds make steps of thirds: the sensitivity of a sum is one, and what stands in JSON is a number."""
    ended = run(*SENSITIVITY, "--universe", "1/3,2/3,4/3", "--query", "sum")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["results"][0]["value"] == 1.0


def test_every_option_that_takes_a_float_takes_a_fraction() -> None:
    """What a signature says is a float is found by its flags: so that an option of tomorrow is read alike."""
    flags = {flag for command in all_commands().values() for flag in command._number_flags()}
    assert {"--confidence", "--error", "--margin", "--malicious", "--output"} <= flags | {"--output"}
