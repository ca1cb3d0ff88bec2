"""The commands of a collection: keygen, task, token, serve, estimate, close and export, as a person runs them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from sordino.core.noise.rng import Rng
from sordino.local.device.client import permanent_answer
from sordino.local.reports import Reports
from sordino.local.task import Task, read_task

Run = Callable[..., Any]

_WHAT = "--key collector.key --question Which? --label apple --label pear --epsilon 1 --epoch 2026"
_WHERE = "--expires 2100-01-01 --origin https://survey.example -o fruit.json"
CREATE = tuple(f"local task create fruit-2026 {_WHAT} {_WHERE}".split())


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> Path:
    """A directory with a key, as the working directory."""
    monkeypatch.chdir(tmp_path)
    assert run("local", "keygen", "-o", "collector.key").code == 0
    return tmp_path


def sign_task(place: Path) -> Task:
    return read_task((place / "fruit.json").read_text(), key=None)


def test_a_key_is_for_its_owner_and_never_written_over(place: Path, run: Run) -> None:
    kept = (place / "collector.key").read_bytes()
    assert (place / "collector.key").stat().st_mode & 0o777 == 0o600
    again = run("local", "keygen", "-o", "collector.key")
    assert again.code == 2
    assert "a key is never overwritten" in again.err
    assert (place / "collector.key").read_bytes() == kept
    other = run("local", "keygen", "-o", "other.key")
    assert len(other.out.strip()) == 44
    assert json.loads(kept)["secret"] not in other.out + other.err


def test_a_task_is_signed_and_shown(place: Path, run: Run) -> None:
    made = run(*CREATE, "--permanent-epsilon", "2")
    assert made.code == 0, made.err
    public = json.loads((place / "collector.key").read_text())["public"]
    shown = run("local", "task", "show", "fruit.json", "--key", public, "--cap", "2")
    assert shown.code == 0
    for words in ("fruit-2026, epoch 2026", "apple, pear", "epsilon 1 by one report, 2 by all of an epoch", public):
        assert words in " ".join(shown.out.split())
    plain = json.loads(run("local", "task", "show", "fruit.json", "--format", "json").out)
    assert plain["hash"] == sign_task(place).manifest.hash.hex()
    assert run("local", "task", "show", "fruit.json", "--cap", "1.5").code == 4
    assert "another key" in run("local", "task", "show", "fruit.json", "--key", "AAAA").err


@pytest.mark.parametrize("method", ["grr", "sue", "oue", "olh", "hadamard", "subset"])
def test_every_method_can_be_asked_for(place: Path, run: Run, method: str) -> None:
    made = run(*CREATE, "--lifetime-epsilon", "3", "--method", method, "--label", "fig")
    assert made.code == 0, made.err
    assert sign_task(place).manifest.lifetime_epsilon == 3


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ([], "state --permanent-epsilon"),
        (["--permanent-epsilon", "2", "--lifetime-epsilon", "2"], "state --permanent-epsilon"),
        (["--permanent-epsilon", "1"], "below the permanent answer's"),
        (["--permanent-epsilon", "2", "--method", "olh"], "permanent answers are made by grr, sue, oue, the"),
        (["--lifetime-epsilon", "0.5"], "at least epsilon"),
        (["--lifetime-epsilon", "1", "--label", "apple"], "repeat"),
        (["--lifetime-epsilon", "1", "--labels-file", "x"], "--label, once for each, or with --labels-file"),
        (["--lifetime-epsilon", "1", "--expires", "soon"], "--expires must be"),
        (["--lifetime-epsilon", "1", "--origin", "here"], "origin must be"),
        (["--lifetime-epsilon", "1", "--key", "fruit.txt"], "not a signing key"),
        (["--lifetime-epsilon", "1", "--epsilon", "0"], "above 0"),
    ],
)
def test_a_task_that_breaks_a_rule_is_refused(place: Path, run: Run, more: list[str], says: str) -> None:
    made = run(*CREATE, *more)
    assert made.code == 2
    assert says in " ".join(made.err.split())
    assert not (place / "fruit.json").exists()


@pytest.mark.usefixtures("place")
def test_a_task_may_ask_for_any_text(run: Run) -> None:
    asks = "local task create words --key collector.key --question Which? --alphabet abc --length 7 --epsilon 2"
    where = "--epoch 1 --lifetime-epsilon 2 --expires 2100-01-01 --origin https://survey.example -o words.json"
    assert run(*asks.split(), *where.split()).code == 0
    shown = run("local", "task", "show", "words.json")
    assert "any text of up to 7 characters, of: abc" in shown.out
    both = run(*asks.split(), "--label", "a", *where.split())
    assert (both.code, "leave out --label or --alphabet" in both.err) == (2, True)


def test_what_is_no_task_or_store_is_refused(place: Path, run: Run) -> None:
    (place / "fruit.json").write_text("{}")
    assert "a key, a manifest and a signature" in run("local", "task", "show", "fruit.json").err
    assert "cannot be read" in run("local", "task", "show", "none.json").err
    for command in (["estimate"], ["close"], ["export", "-o", "x"]):
        done = run("local", *command, "--store", "none.db")
        assert (done.code, "there is no store" in done.err) == (2, True)
    assert run("local", "token", "--store", "a.db", "--role", "admin", "--count", "0").code == 2
    assert run("local", "serve", "none.json", "--store", "a.db").code == 2


def test_a_whole_collection(place: Path, run: Run, service: Callable[..., str]) -> None:
    assert run(*CREATE, "--permanent-epsilon", "2", "--method", "sue").code == 0
    respondents = run("local", "token", "--store", "reports.db", "--role", "respondent", "--count", "2").out.split()
    assert len(respondents) == 2
    assert not any(token.encode() in (place / "reports.db").read_bytes() for token in respondents)
    url, task, rng = service("fruit.json", "--store", "reports.db", "--burst", "5000"), sign_task(place), Rng.seeded(4)
    protocol: Any = task.protocol
    body = task.manifest.hash
    for person in range(3_000):
        kept = permanent_answer(rng.bytes(32), task, person % 3 == 0)
        words = iter(rng.words(2).tolist())
        body += rng.bytes(16) + protocol.report(kept, (w >> 32 for w in words))
    sent = httpx.post(
        f"{url}/v1/tasks/fruit-2026/reports",
        content=body,
        headers={"authorization": f"Bearer {respondents[0]}"},
        timeout=300,
    )
    assert sent.json() == {"stored": 3000, "repeated": 0}

    plain = json.loads(run("local", "estimate", "--store", "reports.db", "--format", "json").out)
    assert plain["reports"] == 3000
    shares = {one["label"]: one for one in plain["labels"]}
    for label, share in (("apple", 2 / 3), ("pear", 1 / 3)):  # within 5 deviations: false alarm 1e-6
        assert abs(shares[label]["frequency"] - share) < 5 / 1.96 * shares[label]["error"]
    recounted = run("local", "estimate", "--store", "reports.db", "--format", "json", "--recount")
    assert json.loads(recounted.out) == plain
    drawn = run("local", "estimate", "--store", "reports.db", "--plot", "fruit.json", "--confidence", "0.9")
    assert drawn.code == 0, drawn.err
    picture = Path("fruit.json").read_text()
    assert all(f'"label": "{label["label"]}"' in picture for label in plain["labels"])
    assert "90% intervals" in picture
    table = run("local", "estimate", "--store", "reports.db").out
    assert "apple" in table
    assert "3,000 reports (open)" in table
    assert run("local", "estimate", "--store", "reports.db", "--format", "csv").out.startswith("label,count,")

    assert run("local", "export", "--store", "reports.db", "-o", "fruit.reports").code == 0
    reports = Reports.from_bytes((place / "fruit.reports").read_bytes(), protocol)
    assert protocol.count(reports).n == 3000
    assert run("local", "close", "--store", "reports.db").code == 0
    for _ in range(100):  # noticed within two seconds, on a machine that is not busy
        closed = httpx.post(
            f"{url}/v1/tasks/fruit-2026/reports",
            content=body[:49],
            headers={"authorization": f"Bearer {respondents[0]}"},
            timeout=300,
        )
        if closed.status_code == 410:
            break
        time.sleep(0.1)
    assert closed.json()["error"]["code"] == "closed"
    assert json.loads(run("local", "estimate", "--store", "reports.db", "--format", "json").out)["closed"] is True


@pytest.mark.deep
@pytest.mark.usefixtures("place")
def test_an_empty_task_has_no_estimate_and_a_second_collector_no_place(
    run: Run, service: Callable[..., str], spawn: Run
) -> None:
    assert run(*CREATE, "--lifetime-epsilon", "2").code == 0
    service("fruit.json", "--store", "reports.db")
    assert "no reports yet" in run("local", "estimate", "--store", "reports.db").err
    refused = run("local", "estimate", "--store", "reports.db", "--plot", "fruit.svg")
    assert "--plot draws the labels of a task that has reports" in refused.err
    assert not Path("fruit.svg").exists()
    assert "it holds: 'fruit-2026'" in run("local", "estimate", "--store", "reports.db", "--task", "nuts").err
    second = spawn("local", "serve", "fruit.json", "--store", "reports.db", "--port", "0")
    assert second.code == 2
    assert "could not start" in second.err


@pytest.fixture
def service() -> Iterator[Callable[..., str]]:
    """Start `sordino local serve` in a process of its own; it must end well when it is stopped."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> str:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = found.getsockname()[1]
        command = [sys.executable, "-m", "sordino", "local", "serve", *arguments, "--port", str(port), "--quiet"]
        started.append(subprocess.Popen(command, env=os.environ))
        for _ in range(300):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.05)
        return f"http://127.0.0.1:{port}"

    yield start
    for process in started:
        process.send_signal(signal.SIGTERM)
    assert [process.wait(20) for process in started] == [0] * len(started)
