"""What tests of the server share: a project of few people, its service with accounts, and a client over ASGI."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
from argon2 import PasswordHasher

from answer_schemas import check_answer
from sordino.ask.project.load import load_project
from sordino.core.loss import loss_from
from sordino.serve.server.accounts import Accounts
from sordino.serve.server.curator_service import CuratorService
from sordino.serve.server.database import ServerDatabase
from sordino.serve.server.http_app import curator_app
from sordino.serve.server.opening import open_service

# httpx looks for sniffio at each request. Where it is not installed every finder of modules is asked, pytest's among them.
_modules: dict[str, Any] = sys.modules
_modules.setdefault("sniffio", None)

PROJECT = """
[budgets.people]
cap = {{epsilon = {cap}}}
ledger = "people.ledger"

[tables.people]
source = "people.parquet"
budget = "people"
neighbors = "add_remove"
privacy_unit = "row"

[tables.people.columns]
age = {{type = "integer", lower = 0, upper = 120}}
sex = {{type = "category", values = ["f", "m"]}}

[serve]
answer_every = "1ms"
{serve}
"""
COUNT = "SELECT COUNT(*) AS n FROM people WHERE age > 64"


def write_project(directory: Path, *, serve: str = "", rows: int = 1000, cap: int = 10) -> Path:
    ages = pa.array([i % 100 for i in range(rows)])
    pq.write_table(
        pa.table({"age": ages, "sex": pa.array(["fm"[i % 2] for i in range(rows)])}), directory / "people.parquet"
    )
    path = directory / "sordino.toml"
    path.write_text(PROJECT.format(serve=serve, cap=cap))
    return path


ROLES = {"ana": "analyst", "ben": "analyst", "ola": "officer", "udo": "auditor"}


def quick_accounts(store: ServerDatabase) -> Accounts:
    """Return the accounts of a store, by a hash that takes no time."""
    return Accounts(store, hasher=PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))


@cache
def store_of_accounts() -> tuple[bytes, dict[str, str]]:
    """Return the file of a store with an account of each role and its token, which are made once a process."""
    with TemporaryDirectory(prefix="sordino-store-") as place:
        path = Path(place) / "a.db"
        store = ServerDatabase.open(str(path))
        accounts = quick_accounts(store)
        tokens = {name: accounts.make_token(accounts.add(name, role), "test")[1] for name, role in ROLES.items()}
        store.close()
        return path.read_bytes(), tokens


@dataclass
class Served:
    """A service with an account of each role, the tokens of each, and requests to its application."""

    service: CuratorService
    tokens: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.service.account_service.accounts = quick_accounts(self.service.store)
        self.app = curator_app(self.service)

    def close(self) -> None:
        """End its jobs, as a server that is stopped does, and close its store."""
        self.app.app.state.models.close()
        self.service.close()

    def add(self, name: str, role: str, *, epsilon: str | None = None) -> str:
        account = self.service.account_service.accounts.add(name, role)
        self.tokens[name] = self.service.account_service.accounts.make_token(account, "test")[1]
        if epsilon is not None:
            self.give(name, "people", {"epsilon": Fraction(epsilon)})
        return self.tokens[name]

    def give(self, name: str, budget: str, amounts: dict[str, Fraction]) -> None:
        """Give a share of a budget."""
        self.service.set_share("test", name, budget, lambda _: loss_from(amounts))

    def send(
        self, method: str, path: str, *, who: str | None = "ana", headers: Mapping[str, str] | None = None, **more: Any
    ) -> httpx.Response:
        """Send a request as an account, and return the answer, which is as the OpenAPI document says."""
        sent = dict(headers or {}) | ({} if who is None else {"authorization": f"Bearer {self.tokens[who]}"})

        async def run() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
                return await client.request(method, path, headers=sent, **more)

        answer = asyncio.run(run())
        check_answer(self.app, method, path, answer)
        return answer

    def ask(
        self, sql: str = COUNT, *, epsilon: str = "0.1", key: str | None = None, who: str = "ana"
    ) -> httpx.Response:
        headers = {} if key is None else {"idempotency-key": key}
        return self.send("POST", "/v1/ask", who=who, headers=headers, json={"sql": sql, "epsilon": epsilon})


def serve_accounts(project: Path) -> Served:
    """Serve a project to an account of each role; its store is new, at the place that it states."""
    settings = load_project(project).serve
    assert settings is not None
    if settings.store.startswith("postgres"):
        made = Served(open_service(project))
        for name, role in ROLES.items():
            made.add(name, role)
        return made
    content, tokens = store_of_accounts()
    place = Path(settings.store)
    place.touch(mode=0o600)
    place.write_bytes(content)
    return Served(open_service(project), dict(tokens))


@contextmanager
def served(directory: Path, *, serve: str = "", cap: int = 10, rows: int = 1000) -> Iterator[Served]:
    """Give a served project with ana and ben (analysts with a share each), ola (officer) and udo (auditor)."""
    made = serve_accounts(write_project(directory, serve=serve, cap=cap, rows=rows))
    for name in ("ana", "ben"):
        made.give(name, "people", {"epsilon": Fraction(2)})
    try:
        yield made
    finally:
        made.close()


VISITS = """
[budgets.visits]
cap = {{rho = {cap}, delta = 1e-6}}
ledger = "visits.ledger"

[tables.visits]
source = "visits.csv"
csv = {{header = true}}
budget = "visits"
neighbors = "add_remove"
privacy_unit = {{column = "id", max_rows = 1}}

[tables.visits.columns]
day = {{type = "date", lower = 2026-01-01, upper = 2030-12-31}}
ward = {{type = "category", values = ["a", "b"]}}
id = {{type = "identifier"}}

[serve]
answer_every = "1ms"
{serve}
"""
SERIES_SQL = "SELECT ward, COUNT(*) AS count FROM visits GROUP BY ward"


def write_visits(directory: Path, *, serve: str = "", cap: int = 10) -> Path:
    """Write a project of visits by day, whose unit is a person; its series state max_periods and need no more than one."""
    lines = [f"2026-11-{1 + i % 28:02d},{'ab'[i % 2]},p{i}" for i in range(280)]
    (directory / "visits.csv").write_text("\n".join(["day,ward,id", *lines, ""]))
    path = directory / "sordino.toml"
    path.write_text(VISITS.format(serve=serve, cap=cap))
    return path


@contextmanager
def served_visits(directory: Path, *, serve: str = "", cap: int = 10) -> Iterator[Served]:
    """Give a served project of visits with ana and ben (analysts with a share each), ola (officer) and udo (auditor)."""
    made = serve_accounts(write_visits(directory, serve=serve, cap=cap))
    for name in ("ana", "ben"):
        made.give(name, "visits", {"rho": Fraction(4)})
    try:
        yield made
    finally:
        made.close()
