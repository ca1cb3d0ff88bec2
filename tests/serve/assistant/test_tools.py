"""An assistant's tools by the package's own client: over standard input of a real process, and over HTTP, near and far."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

import sordino as sd
from far import far_project
from ports import free_port, wait_for_port
from serving import COUNT, Served, served
from sordino.errors import NotAllowed
from sordino.serve.assistant.backends import AssistantBackend, RemoteBackend, ServedBackend

if TYPE_CHECKING:
    from mcp import Client

TOOLS = ["tables", "dummy", "plan", "ask", "budget", "explain"]


def served_by(backend: AssistantBackend) -> Client:
    """Return a client of the tools. Each worker collects this file, and one runs it: that one imports mcp, for 1.5 seconds."""
    from mcp import Client

    from sordino.serve.assistant.tools import assistant_server

    return Client(assistant_server(backend))


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return what a tool answers; of an error its words, with "failed"."""
    found: Any = await client.call_tool(tool, arguments)
    text = found.content[0].text
    if found.is_error:
        return {"failed": True, **json.loads(text[text.index("{") :])}
    said: dict[str, Any] = json.loads(text)
    assert found.structured_content == said
    return said


async def morning(client: Client) -> None:
    """Do what a model is told to do: look, try, plan, ask, report."""
    listed = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert sorted(listed) == sorted(TOOLS)
    assert "SPENDS" in (listed["ask"].description or "")
    assert "before every `ask`" in (listed["plan"].description or "")
    assert {name for name, tool in listed.items() if tool.annotations and tool.annotations.read_only_hint} == {
        *TOOLS
    } - {"ask"}
    assert "ALWAYS `plan`" in (client.instructions or "")
    (table,) = (await call(client, "tables"))["tables"]
    assert (table["name"], table["columns"]["age"]["upper"]) == ("people", 120)
    made_up = await call(client, "dummy", table="people", rows=3)
    assert (len(made_up["rows"]), made_up["made_up"]) == (3, True)
    assert (await call(client, "ask", sql=COUNT, epsilon=1, practice=True))["answers"][0]["practice"] is True
    plan = await call(client, "plan", sql=COUNT, epsilon="0.1")
    assert (plan["cost"], plan["columns"][0]["name"]) == ({"epsilon": 0.1}, "n")
    before = (await call(client, "budget"))["budgets"][0]
    assert before["spent"] == {"epsilon": 0.0}
    asked = await call(client, "ask", sql=COUNT, epsilon="0.1")
    (answer,) = asked["answers"]
    low, high = answer["intervals"][0]["n"]
    assert low <= answer["rows"][0]["n"] <= high
    assert "Charge c-0001 answered" in answer["reveals"]
    again = await call(client, "ask", sql=COUNT, epsilon="0.1", request_id=asked["request_id"])
    assert again["answers"] == asked["answers"]
    assert (await call(client, "explain", charge="c-0001"))["rows"] == answer["rows"]
    assert (await call(client, "budget"))["budgets"][0]["spent"] == {"epsilon": 0.1}
    refused = await call(client, "plan", sql="SELECT agee FROM people", epsilon=1)
    assert (refused["failed"], refused["exit_code"]) == (True, 3)
    waiting = await call(client, "ask", sql=COUNT, epsilon="0.9")
    assert (waiting["exit_code"], waiting["approval"]) == (7, 1)
    assert waiting["request_id"]


WAITS = "approve_above = {epsilon = 0.5}"


def decide_and_ask_again(server: Served, backend: AssistantBackend, request: str) -> None:
    officer = server.service.account_service.enter(server.tokens["ola"])
    server.service.account_service.approvals.decide(
        server.service.account_service.approvals.find(1), officer, "approved"
    )
    answers, _, _ = backend.ask({"sql": COUNT, "epsilon": "0.9"}, request)
    assert answers[0]["cost"] == {"epsilon": 0.9}


@pytest.mark.deep
def test_a_project_file_is_offered_over_standard_input(tmp_path: Path) -> None:
    from mcp import Client, StdioServerParameters, stdio_client

    with served(tmp_path, serve=WAITS) as server:
        project = str(server.service.project.path)
    command = ["-m", "sordino", "mcp", project, "--account", "ana"]
    parameters = StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ))

    async def run() -> None:
        async with Client(stdio_client(parameters)) as client:
            await morning(client)

    asyncio.run(run())
    (charge,) = sd.connect(project).ledger().charges()
    assert (charge.spender, charge.id) == ("ana", "c-0001")


@contextmanager
def http_tools(arguments: list[str], **environment: str) -> Iterator[tuple[str, str]]:
    """Give the address and the token of `sordino mcp --http`."""
    port = free_port()
    command = [sys.executable, "-m", "sordino", "mcp", *arguments, "--http", "--port", str(port)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})
    try:
        assert process.stderr is not None
        said = process.stderr.readline()
        found = re.search(r"tools at (\S+); Authorization: Bearer (\S+)", said)
        assert found, said
        wait_for_port(port, process)
        yield found[1], found[2]
    finally:
        process.terminate()
        process.communicate()


@pytest.mark.deep
def test_a_far_server_is_offered_over_http_to_who_has_the_token(tmp_path: Path) -> None:
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async def run(url: str, token: str) -> None:
        http = httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=60)
        async with http, Client(streamable_http_client(url, http_client=http)) as client:
            await morning(client)

    with far_project(tmp_path, serve=WAITS) as (server, address):
        with http_tools([address], SORDINO_TOKEN=server.tokens["ana"]) as (url, token):
            assert httpx.post(url, json={}, timeout=300).status_code == 401
            assert httpx.post(url, json={}, headers={"authorization": "Bearer wrong"}, timeout=300).status_code == 401
            asyncio.run(run(url, token))
        assert [c.spender for c in server.service.ledger("people").charges()] == ["ana"]


def test_an_approval_lets_the_same_request_through(tmp_path: Path) -> None:
    with far_project(tmp_path, serve=WAITS) as (server, url):
        backends: list[AssistantBackend] = [ServedBackend(server.service, "ana")]
        with sd.connect(url, token=server.tokens["ana"]) as far:
            backends.append(RemoteBackend(far))

            async def run(backend: AssistantBackend) -> str:
                async with served_by(backend) as client:
                    return str((await call(client, "ask", sql=COUNT, epsilon="0.9", request_id="r"))["request_id"])

            assert asyncio.run(run(backends[0])) == "r"
            assert asyncio.run(run(backends[1])) == "r"
            decide_and_ask_again(server, backends[0], "r")
            answers, _, _ = backends[1].ask({"sql": COUNT, "epsilon": "0.9"}, "r")
        assert [c.id for c in server.service.ledger("people").charges()] == [answers[0]["charge"]]


def test_an_account_without_the_role_or_the_share_asks_nothing(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        for name in ("ola", "udo"):
            with pytest.raises(NotAllowed):
                ServedBackend(server.service, name).ask({"sql": COUNT, "epsilon": "0.1"}, None)
        ana = ServedBackend(server.service, "ana")
        server.service.account_service.accounts.change(
            server.service.account_service.accounts.find("ana"), disabled=True
        )
        with pytest.raises(NotAllowed):
            ana.plan({"sql": COUNT, "epsilon": "0.1"})


def test_a_question_above_the_share_is_refused_with_the_hint(tmp_path: Path) -> None:
    async def run() -> dict[str, Any]:
        async with served_by(ServedBackend(server.service, "ana")) as client:
            return await call(client, "ask", sql=COUNT, epsilon=3)

    with served(tmp_path) as server:
        said = asyncio.run(run())
    assert (said["exit_code"], said["title"]) == (4, "budget exhausted; nothing was charged")
    assert server.service.ledger("people").charges() == []


def test_an_unexpected_error_says_nothing(tmp_path: Path) -> None:
    class Broken(ServedBackend):
        def budgets(self) -> list[dict[str, Any]]:
            raise RuntimeError("a cell: 4711")

    with served(tmp_path) as server:
        backend = Broken(server.service, "ana")

        async def run() -> dict[str, Any]:
            async with served_by(backend) as client:
                return await call(client, "budget")

        said = asyncio.run(run())
    assert (said["exit_code"], "4711" in str(said)) == (1, False)
