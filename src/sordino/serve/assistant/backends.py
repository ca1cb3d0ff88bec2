"""What an assistant's tools call: a project served here by its CuratorService, or a far server by the client. JSON in and out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import sordino as sd
from sordino.ask.project.load import find_project
from sordino.core.domain import Domain
from sordino.core.errors import DeclarationError, SignInNeeded
from sordino.serve.remote.connection import RemoteConnection
from sordino.serve.remote.questions import new_request
from sordino.serve.server.accounts import visitor_of_account
from sordino.serve.server.curator_service import CuratorService
from sordino.serve.server.opening import open_service
from sordino.serve.server.question_request import read_question_request

QuestionJson = Mapping[str, Any]


class AssistantBackend(Protocol):
    """A place where questions are planned and asked under one share."""

    def tables(self) -> list[dict[str, Any]]:
        """Return the declared tables."""

    def plan(self, asked: QuestionJson) -> dict[str, Any]:
        """Return what a question would cost and how wrong its answer would be."""

    def ask(self, asked: QuestionJson, request: str | None) -> tuple[list[dict[str, Any]], list[str], str]:
        """Return the answers, what each reveals in a sentence, and the request id that they are kept under."""

    def budgets(self) -> list[dict[str, Any]]:
        """Return how budgets stand, with the assistant's share."""

    def explain(self, charge: str) -> tuple[dict[str, Any], str]:
        """Return a past release and what it reveals at most."""

    def domain(self, table: str) -> Domain:
        """Return what is declared about a table."""


class ServedBackend:
    """Ask a project that lies here, as an account of its own: its share, and an officer's approval where one is needed."""

    def __init__(self, service: CuratorService, account: str) -> None:
        self._service = service
        self._account = account
        self._visitor()

    def _visitor(self) -> Any:
        account = self._service.account_service.accounts.find(self._account)
        if account.disabled:
            raise SignInNeeded("the account of this assistant is disabled")
        return visitor_of_account(account, via="mcp")

    def tables(self) -> list[dict[str, Any]]:
        """Return the declared tables."""
        return self._service.tables(self._visitor())

    def plan(self, asked: QuestionJson) -> dict[str, Any]:
        """Return what a question would cost."""
        question = read_question_request(asked)
        plan = self._service.plan(self._visitor(), question)
        return plan.to_dict() if hasattr(plan, "plans") else plan.to_dict(confidence=question.confidence)

    def ask(self, asked: QuestionJson, request: str | None) -> tuple[list[dict[str, Any]], list[str], str]:
        """Return the answers, on the public clock."""
        key = request or new_request()
        started = self._service.public_clock.start()
        try:
            releases = self._service.ask(self._visitor(), read_question_request(asked), request=key)
        finally:
            self._service.public_clock.sleep(started)
        return [r.to_dict() for r in releases], [_explain(r) for r in releases], key

    def budgets(self) -> list[dict[str, Any]]:
        """Return how budgets stand."""
        return self._service.budgets(self._visitor())

    def explain(self, charge: str) -> tuple[dict[str, Any], str]:
        """Return a past release and what it reveals at most."""
        release = self._service.release(self._visitor(), charge)
        return release.to_dict(), sd.explain(release)

    def domain(self, table: str) -> Domain:
        """Return what is declared about a table."""
        return self._service.project.table(table).domain


class RemoteBackend:
    """Ask a far server, with the share of its token."""

    def __init__(self, far: RemoteConnection) -> None:
        self._remote = far

    def tables(self) -> list[dict[str, Any]]:
        """Return the declared tables, as they are now."""
        self._remote.refresh()
        return self._remote.tables()

    def plan(self, asked: QuestionJson) -> dict[str, Any]:
        """Return what a question would cost."""
        plan: dict[str, Any] = self._call(self._remote.plan, asked).to_dict()
        return plan

    def ask(self, asked: QuestionJson, request: str | None) -> tuple[list[dict[str, Any]], list[str], str]:
        """Return the answers."""
        key = request or new_request()
        answer = self._call(self._remote.ask, asked, request_id=key)
        releases = answer if isinstance(answer, list) else [answer]
        return [r.to_dict() for r in releases], [_explain(r) for r in releases], key

    def _call(self, method: Callable[..., Any], asked: QuestionJson, **more: Any) -> Any:
        words = {name: value for name, value in asked.items() if name != "sql"}
        return method(sd.sql(asked["sql"]), **words, **more)

    def budgets(self) -> list[dict[str, Any]]:
        """Return how budgets stand."""
        return [budget.to_dict() for budget in self._remote.budgets()]

    def explain(self, charge: str) -> tuple[dict[str, Any], str]:
        """Return a past release and what it reveals at most."""
        release = self._remote.release(charge)
        return release.to_dict(), sd.explain(release)

    def domain(self, table: str) -> Domain:
        """Return what is declared about a table."""
        return self._remote.table(table).domain


def _explain(release: sd.Release) -> str:
    return "This is of a made-up table: it reveals nothing." if release.practice else sd.explain(release)


def open_backend(place: str | None, account: str | None) -> AssistantBackend:
    """Return the backend of a server's address, or of a project file with the account that asks; raises DeclarationError.

    Without a place it is the sordino.toml found upward from here.
    """
    far = place is not None and place.startswith(("https://", "http://"))
    if far and account is not None:
        raise DeclarationError("is of a project file: a server knows whose share its token spends", key="--account")
    if far:
        return RemoteBackend(RemoteConnection(str(place)))
    if account is None:
        raise DeclarationError("is missing: state the account whose share is spent", key="--account")
    path = find_project() if place is None else Path(place)
    return ServedBackend(open_service(path / "sordino.toml" if path.is_dir() else path), account)
