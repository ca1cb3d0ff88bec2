"""Errors as PostgreSQL's clients know them: a SQLSTATE of five characters, a message, and a hint of what works."""

from __future__ import annotations

from sordino import errors
from sordino.core.errors import SordinoError
from sordino.serve.server.access import NotThere
from sordino.serve.server.approvals import AlreadyDecided
from sordino.serve.server.problems import UNEXPECTED, words_of

# The first that fits; the codes SD... are Sordino's own.
SQLSTATES: tuple[tuple[type[SordinoError], str, str], ...] = (
    (errors.SignInNeeded, "28000", ""),
    (errors.TooManyRequests, "53400", "Ask again later."),
    (errors.NotAllowed, "42501", ""),
    (errors.ApprovalNeeded, "SD002", "When an officer has approved it, send the same statement with the same request."),
    (errors.BudgetExhausted, "SD001", "SHOW sordino.budgets says what is left; EXPLAIN says what a question costs."),
    (errors.InDoubt, "40003", "The charge stands. SHOW sordino.releases lists what was charged."),
    (errors.ChargedError, "SD003", "The charge stands, and asking again charges again."),
    (NotThere, "42704", ""),
    (errors.UnknownName, "42704", "\\d lists the declared tables and columns."),
    (errors.QuestionRefused, "0A000", "sordino sql prints what can be asked."),
    (errors.SourceError, "58000", ""),
    (errors.LedgerError, "58000", ""),
    (errors.DeclarationChanged, "58000", ""),
    (AlreadyDecided, "55000", ""),
    (errors.DeclarationError, "22023", ""),
)
_RESUMED_HINT = "Send the same statement with the same request (SET sordino.request = 'a name'): that charges nothing."
_LOSS_HINT = "State the loss: SET sordino.epsilon = 0.1, or a comment /* epsilon 0.1 */ in the statement."


class WireError(Exception):
    """Say what the protocol or a client's session forbids: its SQLSTATE, in words that hold nothing private.

    `unknown` names what the catalog lacks, a function or relations, for the operator's log.
    """

    def __init__(self, code: str, message: str, *, hint: str = "", fatal: bool = False, unknown: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint
        self.fatal = fatal
        self.unknown = unknown


def error_fields(error: Exception) -> dict[str, str]:
    """Return the fields of an error response; an error that is not Sordino's own leaves without its words.

    >>> error_fields(errors.BudgetExhausted("the budget does not cover this"))["C"]
    'SD001'
    >>> error_fields(errors.ChargedError("no file could be opened", charge="c1", resumable=True))["H"]
    "Send the same statement with the same request (SET sordino.request = 'a name'): that charges nothing."
    """
    if isinstance(error, WireError):
        return _fields("FATAL" if error.fatal else "ERROR", error.code, str(error), error.hint)
    if not isinstance(error, SordinoError):
        return _fields("ERROR", "XX000", UNEXPECTED, "")
    code, hint = next(((code, hint) for kind, code, hint in SQLSTATES if isinstance(error, kind)), ("XX000", ""))
    message = words_of(error).replace("(Idempotency-Key)", "(SET sordino.request = 'a name')")
    if isinstance(error, errors.ChargedError) and error.resumable:
        hint = _RESUMED_HINT
    if code == "22023" and "epsilon" in message:
        hint = _LOSS_HINT
    return _fields("FATAL" if code == "28000" else "ERROR", code, message, hint)


def _fields(severity: str, code: str, message: str, hint: str) -> dict[str, str]:
    fields = {"S": severity, "V": severity, "C": code, "M": message}
    return fields | ({"H": hint} if hint else {})
