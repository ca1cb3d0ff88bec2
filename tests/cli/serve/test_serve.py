"""`sordino serve` from outside: accounts by commands, a server that starts and stops, the demo's accounts sign in."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from html import unescape
from pathlib import Path

import httpx
import pytest

import sordino as sd
from ports import free_port, wait_for_port
from serving import COUNT, write_project
from sordino.cli.main import main
from sordino.core.errors import BudgetExhausted
from sordino.serve.server.accounts import visitor_of_account
from sordino.serve.server.opening import open_service


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_project(tmp_path)


def start(*arguments: str, group: str = "") -> tuple[subprocess.Popen[str], str]:
    port = free_port()
    command = [sys.executable, "-m", "sordino", *group.split(), "serve", *arguments, "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for_port(port, process)
    return process, f"http://127.0.0.1:{port}"


def stop(process: subprocess.Popen[str]) -> tuple[str, str]:
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    return said


def test_from_nothing_to_an_answer(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    account = ("serve", "account")
    assert main([*account, "add", "ana", "--role", "analyst"]) == 0
    assert main([*account, "add", "ana", "--role", "analyst"]) == 2
    assert main([*account, "share", "ana", "--epsilon", "0.5"]) == 0
    assert main([*account, "share", "ana", "--rho", "0.5"]) == 2
    assert "must be of the cap's kind" in capsys.readouterr().err
    assert main([*account, "token", "ana"]) == 0
    token = capsys.readouterr().out.strip()
    process, url = start(project.name)
    headers = {"authorization": f"Bearer {token}"}
    answer = httpx.post(f"{url}/v1/ask", headers=headers, json={"sql": COUNT, "epsilon": "0.1"}, timeout=300)
    assert answer.status_code == 200
    assert answer.json()["remaining"] == {"epsilon": 0.4}
    assert main([*account, "disable", "ana"]) == 0
    # At once, in the server that runs.
    assert httpx.get(f"{url}/v1/me", headers=headers, timeout=300).status_code == 401
    out, err = stop(process)
    assert token not in out + err
    capsys.readouterr()
    assert main([*account, "list", "--format", "json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["accounts"]
    assert (one["name"], one["role"], one["disabled"]) == ("ana", "analyst", True)


@pytest.mark.deep
def test_the_demo_has_three_accounts_that_sign_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    process, url = start("--demo")
    lines = [process.stdout.readline() for _ in range(3)] if process.stdout is not None else []
    found = {}
    for line in lines:
        said = re.fullmatch(r"(http://[\d.:]+)/  (\w+) \((\w+)\) signs in with (\S+)\n", line)
        assert said is not None
        assert said[1] == url
        body = {"name": said[2], "password": said[4]}
        found[said[3]] = httpx.post(f"{url}/v1/session", json=body, timeout=300).json()["role"]
    stop(process)
    assert found == {role: role for role in ("analyst", "officer", "auditor")}


@pytest.mark.deep
def test_a_class_is_served_with_cards_and_gone_when_it_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    stated = ("--students", "2", "--epsilon", "1/2", "--rows", "1000", "--cards", "cards.html")
    process, url = start(*stated, group="learn")
    page = Path("cards.html")
    assert page.stat().st_mode & 0o777 == 0o600
    text = unescape(page.read_text(encoding="utf-8"))
    (password,) = re.findall(r"<dd>student-1</dd><dt>Password</dt><dd>([a-z0-9-]+)</dd>", text)
    with httpx.Client(base_url=url, timeout=300) as browser:
        signed = browser.post("/sign-in", data={"name": "student-1", "password": password}, headers={"origin": url})
        assert signed.status_code == 303
        # the session's cookie is of an address without TLS
        assert "household" in browser.get("/tasks").text
    token = re.findall(r'token="([^"]+)"', text)[1]
    people = sd.connect(url, token=token).table("people")
    assert people.remaining == sd.PureDP("1/2")
    answer = people.ask(sd.count(), epsilon="1/2")
    assert abs(answer.value - 1000) < 200
    with pytest.raises(BudgetExhausted):
        people.ask(sd.count(), epsilon="1/2")
    out, err = stop(process)
    assert password not in out + err
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_class_needs_an_address_and_never_replaces_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cards.html").write_text("mine")
    for more, words in (
        (("--cards", "cards.html"), "exists already"),
        (("--cards", "cards.pdf"), "cards.html works"),
        (("--host", "0.0.0.0"), "the cards need --address"),
        (("--address", "room 7"), "must begin with http://"),
        (("--rows", "5"), "--rows must be from 1,000"),
        (("--students", "0"), "--students must be from 1 to 200"),
        (("sordino.toml",), "unexpected"),
    ):
        assert main(["learn", "serve", "--students", "2", "--epsilon", "1", *more]) == 2, more
        assert words in capsys.readouterr().err.lower(), more
    assert Path("cards.html").read_text() == "mine"
    assert main(["learn", "serve", "--students", "2"]) == 2
    assert "--epsilon" in capsys.readouterr().err


def test_what_an_officer_does_on_the_command_line_counts_as_theirs(project: Path) -> None:
    """With --by the two-person rule and the audit log know who it was, as at the server; an analyst is no officer."""
    for words in (
        ("add", "ola", "--role", "officer"),
        ("add", "otto", "--role", "officer"),
        ("add", "cy", "--role", "analyst", "--by", "ola"),
        ("share", "cy", "--epsilon", "1", "--by", "ola"),
    ):
        assert main(("serve", "account", *words)) == 0
    assert main(("serve", "account", "share", "cy", "--epsilon", "2", "--by", "cy")) == 2
    service = open_service(project)
    accounts = service.account_service.accounts
    cy = accounts.find("cy")
    did = {
        name: service.account_service.two_person.involvement(
            visitor_of_account(accounts.find(name), via="token"), account=cy.id, spender="cy"
        )
        for name in ("ola", "otto")
    }
    assert did == {"ola": "funded", "otto": None}
    said = [(line["account"], line["object"]) for line in service.account_service.audit_log.lines()]
    assert ("ola", "cy added as analyst, on the command line") in said
    service.close()
