"""The tree of errors. A message says what went wrong, the rule, and the nearest thing that works; none ever holds data.

SordinoError
├── DeclarationError (ValueError)    exit 2   a declaration, an argument or a setting breaks a rule
│   ├── SourceError                  exit 2   a file or relation is missing or cannot be opened
│   ├── DeclarationChanged           exit 2   the declaration is not the one the ledger was opened with
│   └── LedgerError                  exit 2   the ledger is damaged, rolled back or not a ledger
├── QuestionRefused (ValueError)     exit 3   the question cannot be answered privately, or is not understood
│   └── UnknownName (LookupError)    exit 3   a table, column or value that is not declared
├── BudgetExhausted                  exit 4   the cap would be passed; nothing was charged
├── ChargedError                     exit 5   a charge stands but there is no answer; asking again charges again
│   └── InDoubt                      exit 5   a request was charged and its outcome is not known
├── NotAllowed                       exit 6   a server does not let this account do this; nothing was charged
│   ├── SignInNeeded                 exit 6   a server does not know who asks
│   └── TooManyRequests              exit 6   a server was asked too often
└── ApprovalNeeded                   exit 7   an officer has to approve first; nothing was charged

Errors also know the names that books and other libraries have for the relations and statistics here, which `docs/glossary.md`
explains.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable

__all__ = [
    "ApprovalNeeded",
    "BudgetExhausted",
    "ChargedError",
    "DeclarationChanged",
    "DeclarationError",
    "InDoubt",
    "LedgerError",
    "NotAllowed",
    "QuestionRefused",
    "SignInNeeded",
    "SordinoError",
    "SourceError",
    "TooManyRequests",
    "UnknownName",
    "arg",
    "in_python",
    "instead_of",
    "nearest",
    "spell_arguments",
]


# characters of a refusal
_LONGEST = 2000


# Between these two a message names an argument, which each interface (Python, SQL, the command line) spells in its own way.
_OPEN = "\ue000"
_CLOSE = "\ue001"
_ARGUMENT = re.compile(f"{_OPEN}([^{_CLOSE}]*){_CLOSE}(?=([^\\s,;)]?))")


def arg(name: str) -> str:
    """Return an argument for a message, named as in Python: `arg("epsilon=")`, or `arg("assume_rows")` without a value.

    >>> in_python(f"state {arg('epsilon=')}1")
    'state epsilon=1'
    """
    return f"{_OPEN}{name}{_CLOSE}"


def in_python(message: str) -> str:
    """Return a message with its arguments as Python writes them."""
    return message.replace(_OPEN, "").replace(_CLOSE, "")


def spell_arguments(message: str, spell: Callable[[str, bool], str]) -> str:
    """Return a message with its arguments spelled by `spell`, which takes the name, and whether a value follows."""
    return _ARGUMENT.sub(lambda match: spell(match[1].rstrip("="), bool(match[2])), message)


class SordinoError(Exception):
    """The base of all errors that Sordino raises on purpose.

    Its text names arguments as in Python; `spelled` names them as another interface does.
    """

    exit_code = 1

    def __init__(self, message: str = "") -> None:
        super().__init__(in_python(message))
        self._message = message

    def spelled(self, spell: Callable[[str, bool], str]) -> str:
        """Return its text with its arguments spelled by `spell`, which takes the name, and whether a value follows."""
        return spell_arguments(self._message, spell)


class DeclarationError(SordinoError, ValueError):
    """A declaration, an argument or a setting breaks a rule.

    `key`, where given, is the argument or setting at fault: the message is the key and the `rule` that it breaks.

    >>> str(DeclarationError("must be above 0", key="resolution"))
    'resolution must be above 0'
    """

    exit_code = 2

    def __init__(self, rule: str, *, key: str | None = None) -> None:
        super().__init__(rule if key is None else f"{key} {rule}")
        self.rule = in_python(rule)
        self.key = key


class SourceError(DeclarationError):
    """A source of data is missing or cannot be opened."""


class DeclarationChanged(DeclarationError):
    """The declaration differs from the one that the ledger has on record."""


class LedgerError(DeclarationError):
    """A ledger is damaged, rolled back, or not a ledger."""


class QuestionRefused(SordinoError, ValueError):
    """A question cannot be answered privately, or is not understood.

    `sql`, where given, is the message for a question in SQL; `in_sql()` is the error with it. A message that quotes a very long
    question is cut.
    """

    exit_code = 3

    def __init__(self, message: str, *, sql: str | None = None) -> None:
        super().__init__(message if len(message) <= _LONGEST else f"{message[:_LONGEST]}...")
        self._in_sql = sql
        self.sql = None if sql is None else in_python(sql)

    def in_sql(self) -> QuestionRefused:
        """Return the same refusal with its message for SQL."""
        return self if self._in_sql is None else type(self)(self._in_sql)


class UnknownName(QuestionRefused, LookupError):
    """A table, a column or a value is not declared."""


class BudgetExhausted(SordinoError):
    """A charge would exceed the cap. Nothing was charged.

    `asked`, the requested loss, and `left` are losses (or their descriptions), both public.
    """

    exit_code = 4

    def __init__(self, message: str, *, asked: object = None, left: object = None) -> None:
        super().__init__(message)
        self.asked = asked
        self.left = left


class ChargedError(SordinoError):
    """A charge stands but has no answer.

    If it is `resumable`, the same request id is answered later under that charge.
    """

    exit_code = 5

    def __init__(self, message: str, *, charge: str | None = None, resumable: bool = False) -> None:
        super().__init__(message)
        self.charge = charge
        self.resumable = resumable


class InDoubt(ChargedError):
    """A request was charged earlier and its outcome is not known."""


class NotAllowed(SordinoError):
    """A server does not let an account do this. Nothing was charged."""

    exit_code = 6


class SignInNeeded(NotAllowed):
    """A server needs a sign-in for this request."""


class TooManyRequests(NotAllowed):
    """A server received too many requests; `wait` is the number of seconds until the next is allowed."""

    def __init__(self, message: str, *, wait: float = 60) -> None:
        super().__init__(message)
        self.wait = wait


class ApprovalNeeded(SordinoError):
    """An officer has to approve a question first. Nothing was charged: ask again with the same request id.

    `approval` is the number under which the officer finds it, `request` the id to ask again with.
    """

    exit_code = 7

    def __init__(self, message: str, *, approval: int | None = None, request: str | None = None) -> None:
        super().__init__(message)
        self.approval = approval
        self.request = request


def instead_of(confidence: object) -> str:
    """Return a hint for an invalid confidence: 95 is meant as 0.95.

    >>> instead_of(95), instead_of(0)
    ('did you mean 0.95?', 'such as 0.95')
    """
    if isinstance(confidence, (int, float)) and 2 <= confidence < 100:
        return f"did you mean {confidence / 100:g}?"
    return "such as 0.95"


def check_confidence(confidence: object) -> float:
    """Return a confidence as a float; raises DeclarationError unless it lies between 0 and 1."""
    if not isinstance(confidence, (int, float)) or isinstance(confidence, bool) or not 0 < confidence < 1:
        raise DeclarationError(f"confidence must lie between 0 and 1: {instead_of(confidence)}")
    return float(confidence)


def hint_quotes(name: str, columns: Iterable[str]) -> str:
    """Return how a column is written of which SQL reads the beginning alone, such as education-num; nothing for others.

    >>> hint_quotes("education", ["age", "education-num"])
    '; "education-num" is written in double quotes'
    """
    longer = next((c for c in columns if re.match(re.escape(name) + r"\W", c, re.IGNORECASE)), None)
    return "" if longer is None else f'; "{longer}" is written in double quotes'


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint naming the known name closest to `name`, or all of them when few.

    >>> nearest("agee", ["age", "occupation"])
    "did you mean 'age'?"
    >>> nearest("zzz", ["age", "sex"])
    "known: 'age', 'sex'"
    """
    names = [str(k) for k in known]
    close = difflib.get_close_matches(name, names, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    if not names:
        return "none is declared"
    first = ", ".join(repr(n) for n in names[:12])
    return f"known: {first}" + (f" and {len(names) - 12} more" if len(names) > 12 else "")


# Tracebacks and logs name the errors as users import them.
for _kind in [kind for kind in vars().values() if isinstance(kind, type) and issubclass(kind, SordinoError)]:
    _kind.__module__ = "sordino.errors"


_RELATIONS = {
    "unbounded": "add_remove",
    "addremove": "add_remove",
    "addorremove": "add_remove",
    "symmetric": "add_remove",
    "symmetricdifference": "add_remove",
    "bounded": "replace",
    "hamming": "replace",
    "swap": "replace",
    "substitute": "replace",
    "substitution": "replace",
    "replaceone": "replace",
    "changeone": "replace",
}
_STATISTICS = {
    "variance": "var",
    "stdev": "std",
    "stddev": "std",
    "standarddeviation": "std",
    "average": "mean",
    "avg": "mean",
    "minimum": "min",
    "maximum": "max",
    "total": "sum",
    "size": "count",
    "len": "count",
}
_PERCENTILE = re.compile(r"(?:percentile|pctl?|p)(\d{1,2}(?:\.\d+)?|100)")


def suggest_relation(word: object) -> str | None:
    """Return the relation that a word of the field means, None where it is none.

    >>> suggest_relation("unbounded"), suggest_relation("bounded DP"), suggest_relation("add/remove"), suggest_relation("x")
    ('add_remove', 'replace', 'add_remove', None)
    """
    return _RELATIONS.get(strip_word(word).removesuffix("dp"))


def explain_relations(word: object) -> str:
    """Return the rule that a relation breaks, with the relation that was meant where the word is known.

    >>> print(explain_relations("unbounded"))
    must be "add_remove" or "replace", not 'unbounded': that is called "add_remove" here
    """
    meant = suggest_relation(word)
    hint = "" if meant is None else f': that is called "{meant}" here'
    return f'must be "add_remove" or "replace", not {word!r}{hint}'


def suggest_statistic(word: object) -> str | None:
    """Return the statistic that a word of the field means, None where it is none.

    >>> suggest_statistic("percentile_90"), suggest_statistic("Variance"), suggest_statistic("mode")
    ('quantile:0.9', 'var', None)
    """
    plain = strip_word(word)
    percent = _PERCENTILE.fullmatch(plain)
    return f"quantile:{float(percent[1]) / 100:.12g}" if percent else _STATISTICS.get(plain)


def strip_word(word: object) -> str:
    """Return a word in lower case without the marks that join its parts; nothing for what is no text.

    >>> strip_word("Geometric-Mean"), strip_word("count_distinct")
    ('geometricmean', 'countdistinct')
    """
    return re.sub(r"[\s_/:,-]+", "", word[:40].lower()) if isinstance(word, str) else ""
