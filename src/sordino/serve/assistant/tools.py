"""The tools of an assistant, by the Model Context Protocol: what is public, what costs, and to plan first, said to a model.

Nothing here decides who may ask what; errors leave with their rule and hint, and nothing else. The tools are reached by standard
input and output, or by streamable HTTP on this machine with a token.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeVar

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

import sordino as sd
from sordino.core.errors import ApprovalNeeded, DeclarationError, SordinoError
from sordino.local.collector.service import serve_app
from sordino.serve.assistant.backends import AssistantBackend
from sordino.serve.server.accounts import make_secret
from sordino.serve.server.problems import UNEXPECTED, problem_of

T = TypeVar("T")
_MOST_ROWS = 200
_PLAIN = (str, int, float)
_SHOWN = ("charge", "table", "question", "columns", "rows", "confidence", "errors", "intervals", "notes", "remarks")
_INSTRUCTIONS = """\
Sensitive tables under differential privacy. Rows never leave: only aggregates do, with noise.
1. `tables` tells the columns, types and bounds. They are declared, public facts, and free.
2. Write SQL with aggregates: SELECT sex, COUNT(*) AS n, AVG(age) AS a FROM people GROUP BY sex. `dummy` has made-up rows
   of the declared shape to try it on; `ask` with practice=true answers from such rows. Both are free.
3. ALWAYS `plan` before you `ask`: planning is free, and tells the cost and the expected error. If the error is too large
   for the purpose, a larger epsilon or a coarser question helps; asking the same again to average it wastes the budget.
4. `ask` spends the budget for good: what is spent never comes back, and `budget` tells what is left. Spend as little as
   the purpose needs. A repeated request_id gives the same answer at no cost.
5. Report each number with its interval, and say that it has noise. Numbers that differ by less than their intervals do not
   differ. Never try to single out a person: a question about few people is answered with noise larger than they are."""
_FREE = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_SPENDS = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=False)


def assistant_server(backend: AssistantBackend) -> MCPServer[Any]:
    """Return the server of the tools, whose transport the caller runs."""
    server: MCPServer[Any] = MCPServer(
        "sordino", version=sd.__version__, instructions=_INSTRUCTIONS, log_level="CRITICAL"
    )
    _add_tables(server, backend)
    _add_questions(server, backend)
    _add_answers(server, backend)
    return server


def _add_tables(server: MCPServer[Any], backend: AssistantBackend) -> None:
    """Add what shows tables: all of it public."""

    @server.tool(annotations=_FREE)
    async def tables() -> dict[str, Any]:
        """List the tables with their columns, types, bounds and declared values, and whom they protect. Public and free."""
        return {"tables": await _run(backend.tables)}

    @server.tool(annotations=_FREE)
    async def dummy(table: str, rows: int = 10) -> dict[str, Any]:
        """Make up rows of a table's declared shape, at most 200, to try questions on. Nothing in them is real; free."""

        def work() -> list[dict[str, Any]]:
            if not 0 < rows <= _MOST_ROWS:
                raise DeclarationError(f"must be from 1 to {_MOST_ROWS}", key="rows")
            table_rows = sd.dummy(backend.domain(table), rows=rows).to_pylist()
            plain: list[dict[str, Any]] = json.loads(json.dumps(table_rows, default=lambda day: day.isoformat()))
            return plain

        return {"made_up": True, "table": table, "rows": await _run(work)}


def _add_questions(server: MCPServer[Any], backend: AssistantBackend) -> None:
    """Add what prices and answers a question."""

    @server.tool(annotations=_FREE)
    async def plan(
        sql: str,
        epsilon: float | str | None = None,
        delta: float | str | None = None,
        rho: float | str | None = None,
        assume_rows: int | None = None,
    ) -> dict[str, Any]:
        """Tell what a SQL question would cost and how wrong its answer would be. Free; call it before every `ask`.

        State the loss as epsilon (0.1 is little, 1 is much), epsilon and delta, or rho. `assume_rows` is your public guess
        at how many rows there are: the error of an average needs it.
        """
        return await _run(lambda: backend.plan(_state_question(sql, epsilon, delta, rho, assume_rows)))

    @server.tool(annotations=_SPENDS)
    async def ask(
        sql: str,
        epsilon: float | str | None = None,
        delta: float | str | None = None,
        rho: float | str | None = None,
        request_id: str | None = None,
        practice: bool = False,
    ) -> dict[str, Any]:
        """Answer a SQL question with noise. This SPENDS the stated loss from the budget for good; `plan` the same first.

        The answer has rows, the interval of each number, and in a sentence what it reveals. With practice=true a made-up
        table answers, at no cost. Where an officer has to approve first, nothing is charged, and the error has a
        request_id: tell the user, and ask the very same with that request_id once it is approved. After a broken
        connection ask the very same with the same request_id: it is charged once.
        """
        question = _state_question(sql, epsilon, delta, rho, None) | ({"on": "dummy"} if practice else {})
        answers, sentences, request = await _run(lambda: backend.ask(question, request_id), request_id)
        return {
            "request_id": request,
            "answers": [_show_release(one, said) for one, said in zip(answers, sentences, strict=True)],
        }


def _add_answers(server: MCPServer[Any], backend: AssistantBackend) -> None:
    """Add what looks back: at budgets and at earlier answers."""

    @server.tool(annotations=_FREE)
    async def budget() -> dict[str, Any]:
        """Tell what the budgets are, what is spent, and what is left of them and of your own share. Free."""
        return {"budgets": await _run(backend.budgets)}

    @server.tool(annotations=_FREE)
    async def explain(charge: str) -> dict[str, Any]:
        """Show an earlier answer of yours by its charge, such as c-0001, and tell what it reveals at most. Free."""
        return _show_release(*await _run(lambda: backend.explain(charge)))


def _state_question(sql: str, epsilon: Any, delta: Any, rho: Any, assume_rows: int | None) -> dict[str, Any]:
    stated = {"epsilon": epsilon, "delta": delta, "rho": rho, "assume_rows": assume_rows}
    return {"sql": sql, **{name: value for name, value in stated.items() if value is not None}}


def _show_release(answer: dict[str, Any], sentence: str) -> dict[str, Any]:
    """Return what a model needs of a release: its numbers, how far off they are, what they cost and reveal."""
    columns = {name: answer[name] for name in _SHOWN}
    return {
        **columns,
        "practice": answer.get("practice", False),
        "cost": answer["cost"],
        "remaining": answer["remaining"],
        "protects": f"{answer['privacy_unit']}, {answer['neighbors']}",
        "reveals": sentence,
    }


async def _run(work: Callable[[], T], request: str | None = None) -> T:
    """Run work in a thread; an error leaves as a tool's error with its rule, exit code and hint, any other without words."""
    try:
        return await asyncio.to_thread(work)
    except SordinoError as error:
        content = {key: problem_of(error)[key] for key in ("title", "detail", "exit_code")}
        content |= {
            key: value
            for key in ("charge", "approval", "wait")
            if isinstance(value := getattr(error, key, None), _PLAIN)
        }
        if isinstance(error, ApprovalNeeded):
            content["request_id"] = error.request or request
        raise ToolError(json.dumps(content, ensure_ascii=False)) from None
    except Exception:
        raise ToolError(json.dumps({"title": "unexpected error", "detail": UNEXPECTED, "exit_code": 1})) from None


Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class BearerGate:
    """Let requests pass that carry one token: whoever reaches the port must not spend the share without it."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]], secret: str) -> None:
        self._app = app
        self._expected = f"Bearer {secret}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer 401."""
        authorization = dict(scope.get("headers", ())).get(b"authorization", b"")
        if scope["type"] != "http" or hmac.compare_digest(authorization, self._expected):
            await self._app(scope, receive, send)
            return
        headers = [(b"www-authenticate", b"Bearer"), (b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


def run_stdio(backend: AssistantBackend) -> None:
    """Serve the tools by standard input and output, until the input ends."""
    asyncio.run(assistant_server(backend).run_stdio_async())


def listen_http(backend: AssistantBackend, *, port: int, say: Callable[[str], None]) -> None:
    """Serve the tools at /mcp on this machine until stopped; `say` is told the address and the token, which is new each time."""
    secret = make_secret("mcp")
    app = BearerGate(assistant_server(backend).streamable_http_app(host="127.0.0.1"), secret)
    at = f"http://127.0.0.1:{port}/mcp"
    serve_app(app, host="127.0.0.1", port=port, ready=lambda: say(f"tools at {at}; Authorization: Bearer {secret}"))
