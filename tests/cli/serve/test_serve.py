"""`sordino serve` from outside: accounts by commands, a server that starts and stops, the demo's accounts sign in."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from collecting import free_port
from serving import COUNT, write_project
from sordino.cli.main import main
from sordino.serve.server.accounts import visitor_of_account
from sordino.serve.server.opening import open_service


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_project(tmp_path)


def start(*arguments: str) -> tuple[subprocess.Popen[str], str]:
    port = free_port()
    command = [sys.executable, "-m", "sordino", "serve", *arguments, "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for _ in range(2400):
        with suppress(httpx.HTTPError):
            httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=5)
            break
        time.sleep(0.05)
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
