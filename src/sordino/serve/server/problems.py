"""Errors as problem+json (RFC 9457): the status, the class and the exit code of each. Their words hold no data anyway."""

from __future__ import annotations

import logging
import re
from typing import Any

from sordino import errors
from sordino.core.errors import SordinoError
from sordino.serve.server.access import NotThere
from sordino.serve.server.approvals import AlreadyDecided
from sordino.serve.server.database import StoreUnusable
from sordino.serve.server.question_request import OutOfDate, TooLarge

_PATH = re.compile(
    r"(?<![^\s'\"(])(?:/[^\s/'\"]+)+/(?=[^\s/'\"]+\.toml\b)"
)  # of the project file, whose name may be said
# The first that fits.
_STATUS: tuple[tuple[type[SordinoError], int], ...] = (
    (errors.SignInNeeded, 401),
    (errors.TooManyRequests, 429),
    (errors.NotAllowed, 403),
    (errors.ApprovalNeeded, 202),
    (errors.BudgetExhausted, 402),
    (errors.InDoubt, 500),
    (errors.ChargedError, 500),
    (NotThere, 404),
    (errors.QuestionRefused, 422),
    (OutOfDate, 409),
    (errors.SourceError, 503),
    (errors.LedgerError, 503),
    (errors.DeclarationChanged, 503),
    (AlreadyDecided, 409),
    (TooLarge, 413),
    (StoreUnusable, 503),
    (errors.DeclarationError, 400),
)
_TITLES = {
    1: "unexpected error",
    2: "usage or declaration",
    3: "the question is refused",
    4: "budget exhausted; nothing was charged",
    5: "charged but failed",
    6: "not allowed; nothing was charged",
    7: "an officer has to approve first; nothing was charged",
}
_LOG = logging.getLogger("sordino.server")
UNEXPECTED = "unexpected error; details are hidden because they may contain data"


def status_of(error: SordinoError) -> int:
    """Return the HTTP status of an error."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def words_of(error: SordinoError) -> str:
    """Return what may be said of an error to whoever asked: nothing of the machine that serves, such as paths.

    >>> words_of(errors.LedgerError("the ledger /srv/people.ledger cannot be used: the disk is full"))
    'the table or its ledger cannot be used now; nothing was charged. The log of the server says why'
    """
    # of the machine, for whoever runs it, whatever the way in: never of data
    if status_of(error) == 503:
        _LOG.warning("%s: %s", type(error).__name__, error)
    if status_of(error) == 503 and not isinstance(error, StoreUnusable):
        return "the table or its ledger cannot be used now; nothing was charged. The log of the server says why"
    if type(error) is errors.InDoubt and error.charge is None:
        return "the ledger could not confirm a charge, which may stand: ask again with the same request id"
    return _PATH.sub("", getattr(error, "sql", None) or str(error))


def problem_of(error: SordinoError) -> dict[str, Any]:
    """Return an error as the members of a problem: `exit_code` is what the command line would end with.

    >>> problem_of(errors.BudgetExhausted("the budget does not cover this"))["type"]
    'urn:sordino:budget-exhausted'
    """
    class_name = next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == SordinoError.__module__)
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", class_name).lower()
    plain = {
        "type": f"urn:sordino:{name}",
        "title": _TITLES[error.exit_code],
        "status": status_of(error),
        "detail": words_of(error),
        "exit_code": error.exit_code,
    }
    for key in ("charge", "approval", "request", "wait"):
        value = getattr(error, key, None)
        plain |= {} if value is None else {key: value}
    if isinstance(error, errors.ChargedError) and error.resumable:
        plain["resumable"] = True
    return plain
