"""Errors of a far server as the classes that a local table raises: the inverse of the server's problem+json."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from sordino import errors
from sordino.core.errors import ApprovalNeeded, DeclarationError, QuestionRefused, SordinoError

_BY_EXIT: dict[int, type[SordinoError]] = {
    cls.exit_code: cls for cls in (DeclarationError, QuestionRefused, errors.BudgetExhausted, errors.ChargedError)
} | {6: errors.NotAllowed, 7: ApprovalNeeded}
_NEAR = {
    "adapt": "an algorithm runs beside the table; a model is fitted there by sd.synth.fit(table, ...)",
    "find_bounds": "the search for bounds runs beside the table: `sordino bounds` there, or a mean, which finds its own",
    "find_contribution_bounds": "the search for caps runs beside the table: `sordino caps` there",
    "above_threshold": "a session of questions is held open beside the table",
    "ledger": "the ledger stays on the server: `budgets()` and `releases()` tell what is on it",
    "project": "the project file stays on the server: `tables()` tells what is declared",
    "report": "the board's page is made on the server, by an officer",
    "amend": "a ledger is amended on the server, by its owner",
}


class NotFar(QuestionRefused, AttributeError):
    """Say that a local table has this, and a far one cannot."""


class PendingApproval(ApprovalNeeded):
    """Say that an officer has to approve a question; `.wait()` asks again until it is decided, and gives the answer."""

    def __init__(self, message: str, *, approval: int | None, request: str | None, again: Callable[..., Any]) -> None:
        super().__init__(message, approval=approval, request=request)
        self._again = again

    def wait(self, *, timeout: float | None = None, every: float = 2.0) -> Any:
        """Return the answer once an officer has approved, asking every so many seconds; to be awaited if asked asynchronously.

        Raises NotAllowed where it is declined, and this error again after `timeout` seconds.
        """
        return self._again(timeout, every)


def error_of(problem: Mapping[str, Any]) -> SordinoError:
    """Return the error that the members of a problem state, with its class, and so its exit code.

    >>> error_of({"type": "urn:sordino:budget-exhausted", "detail": "it is used up", "exit_code": 4})
    BudgetExhausted('it is used up')
    """
    name = str(problem.get("type")).removeprefix("urn:sordino:")
    classes = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, SordinoError)]
    known = {re.sub(r"(?<=[a-z])(?=[A-Z])", "-", c.__name__).lower(): c for c in classes}
    by_exit = _BY_EXIT.get(problem.get("exit_code", 1), SordinoError)
    kind = known.get(name, by_exit)
    error: SordinoError = kind(str(problem.get("detail", "the server refused this")))
    for key in ("charge", "approval", "request", "wait", "resumable"):
        if key in problem and hasattr(error, key):
            setattr(error, key, problem[key])
    return error


def refuse_near(name: str, what: object) -> NotFar | AttributeError:
    """Return the error of asking something far for what it does not have; that of a local one says why."""
    if name in _NEAR:
        return NotFar(f"{name} is not to be had from far away: {_NEAR[name]}")
    return AttributeError(f"{type(what).__name__!r} object has no attribute {name!r}")
