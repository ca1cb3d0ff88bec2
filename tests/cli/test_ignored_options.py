"""Options that a command would ignore beside others are refused by name, before anything is read."""

from __future__ import annotations

import pytest

from cli.support import Run

PLAN = ("local", "plan", "--epsilon", "1", "--respondents", "1000")
SIMULATE = ("local", "simulate", "--data", "missing.csv", "--column", "c", "--epsilon", "1")
TEXTS = ("--alphabet", "ab", "--length", "2")
WORLDS = ("epsilon", "worlds", "--universe", "1,2,3", "--size", "2", "--query", "mean", "--risk", "0.6")
CHOOSE = ("epsilon", "choose", "--relative-risk", "3")
REPORT = ("synth", "report", "missing.model", "--against", "missing.csv", "--non-private", "-o", "out.html")
TASK = (
    "local",
    "task",
    "create",
    "t",
    "--key",
    "missing.key",
    "--question",
    "Q",
    "--label",
    "a",
    "--label",
    "b",
    "--epsilon",
    "1",
    "--permanent-epsilon",
    "2",
    "--epoch",
    "2026",
    "--expires",
    "2027-01-01",
    "--origin",
    "https://survey.example",
    "-o",
    "t.json",
)

# the command as it works, and the options that it would ignore, each with a value
IGNORED: list[tuple[tuple[str, ...], dict[str, str]]] = [
    (
        (*PLAN, *TEXTS),
        {
            "--labels": "a,b",
            "--size": "5",
            "--margin": "0.02",
            "--malicious": "0.1",
            "--shuffled": "1e-6",
            "--plot": "p.svg",
        },
    ),
    ((*PLAN, "--size", "5"), {"--length": "3"}),
    (
        (*SIMULATE, *TEXTS),
        {
            "--labels": "a,b",
            "--p": "0.75",
            "--q": "0.25",
            "--value": "a",
            "--malicious": "0.1",
            "--protocol": "unary",
            "--plot": "p.svg",
        },
    ),
    ((*SIMULATE, "--labels", "a,b"), {"--length": "3"}),
    (WORLDS, {"--up-to": "3", "--budget": "people", "--output": "2"}),
    (CHOOSE, {"--rows": "100", "--budget": "people", "--questions": "2"}),
    (REPORT, {"--spender": "ana", "--epsilon": "1", "--delta": "1e-6", "--rho": "1"}),
    (TASK, {"--length": "3"}),
    (("budget",), {"--delta": "1e-6"}),
]


@pytest.mark.usefixtures("census")
@pytest.mark.parametrize(
    ("command", "option", "value"),
    [(command, option, value) for command, options in IGNORED for option, value in options.items()],
)
def test_an_option_that_would_be_ignored_is_refused_by_name(
    run: Run, command: tuple[str, ...], option: str, value: str
) -> None:
    ended = run(*command, option, value)
    assert ended.code == 2, ended.out
    assert option in ended.err
    assert ended.out == ""
