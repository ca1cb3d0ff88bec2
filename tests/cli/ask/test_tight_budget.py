"""`sordino budget --tight`: the charges so far as one list, beside the cap's own count."""

from __future__ import annotations

import json

import pytest

from cli.support import Run

COUNT = "SELECT COUNT(*) AS n FROM people"


@pytest.mark.deep
@pytest.mark.usefixtures("census")
def test_charges_compose_as_one_list_and_the_cap_is_unaffected(run: Run) -> None:
    for _ in range(12):
        assert run("ask", COUNT, "--epsilon", "0.1").code == 0
    before = json.loads(run("budget", "--format", "json").out)["budgets"][0]
    assert before["tight"] is None
    after = json.loads(run("budget", "--format", "json", "--tight", "--delta", "1e-2").out)["budgets"][0]
    told = after.pop("tight")
    assert after == {name: value for name, value in before.items() if name != "tight"}
    assert told["epsilon"] < 1.2
    assert told["epsilon"] == min(value for value in told["table"].values() if value is not None)
    assert 1.2 <= told["table"]["sum"] < 1.2 + 1e-9
    done = run("budget", "--tight", "--delta", "1e-2")
    assert "fixed beforehand" in " ".join((done.out + done.err).split())
    assert "the cap is unaffected" in " ".join((done.out + done.err).split())


@pytest.mark.usefixtures("census")
def test_tight_and_delta_go_together(run: Run) -> None:
    assert run("budget", "--tight").code == 2
    assert run("budget", "--delta", "1e-6").code == 2
    assert run("budget", "--tight", "--delta", "2").code in (0, 2)
    run("ask", COUNT, "--epsilon", "0.1")
    assert run("budget", "--tight", "--delta", "2").code == 2
