"""What a server records of itself: the audit log, the log of requests, metrics."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from sqlalchemy import insert, select
from sqlalchemy.exc import IntegrityError

from sordino import __version__
from sordino.core.loss import Loss
from sordino.serve.server.access import Visitor
from sordino.serve.server.account_schema import AUDIT
from sordino.serve.server.database import ServerDatabase, StoreUnusable
from sordino.serve.server.locks import Job

# ---- The audit log: who did what, when, and how it ended. It is only appended to, and holds no cell, no answer and
# no secret

_LOG = logging.getLogger("sordino.server")
_LONGEST = 2000
_APPEND = insert(AUDIT)


class AuditLog:
    """Append to the log of one store, and read it."""

    def __init__(self, store: ServerDatabase) -> None:
        self._store = store

    def append(self, who: Visitor | str, action: str, about: str, outcome: str = "done") -> None:
        """Append a line; `who` is a visitor, or the name of what acts without an account, such as the command line."""
        self._store.shared.write(self._line(who, action, about, outcome))

    def _line(self, who: Visitor | str, action: str, about: str, outcome: str) -> Job:
        by = (who, "", "command") if isinstance(who, str) else (who.name, who.role, who.via)
        row = dict(zip(("account", "role", "via"), by, strict=True))
        row |= {"time": self._store.now(), "action": action, "object": about[:_LONGEST], "outcome": outcome[:_LONGEST]}
        return lambda db: db.execute(_APPEND, row)

    def append_if_able(self, who: Visitor | str, action: str, about: str, outcome: str, *beside: Job) -> None:
        """Append a line about what the ledger has on record too: where the store is gone by then, the answer still leaves.

        `beside` is what else is written then, in the same transaction.
        """
        try:
            self._store.shared.write(self._line(who, action, about, outcome), *beside)
        # whatever the store says, the charge stands and its answer is on record: it leaves
        except (StoreUnusable, IntegrityError):
            _LOG.warning("the audit log could not be written: %s, %s", action, outcome)

    def lines(self, *, after: int = 0, most: int = 1000) -> list[dict[str, Any]]:
        """Return lines, oldest first, from the one after a number on."""
        statement = select(AUDIT).where(AUDIT.c.id > after).order_by(AUDIT.c.id).limit(most)
        with self._store.read() as db:
            return [dict(row._mapping) for row in db.execute(statement)]


# ---- One line a request in the server's log, as text or as JSON: what was called and how it ended, never what was
# asked
#
# No line holds SQL, an address, a secret or an answer. The seconds are those after which the answer left, which whoever asked
# measures too: an answer of private data leaves on the public clock.

_FIELDS = ("method", "route", "status", "seconds", "account", "unknown")
# What the libraries that listen have to say, such as of a request that is no HTTP, is a line like any other.
_LISTENERS = ("uvicorn", "asyncio")


def log_request(*, method: str, route: str, status: int, seconds: float, account: str, unknown: str = "") -> None:
    """Write the line of a request over HTTP; `route` is the address of the API or the page, without what it names.

    `unknown` names the parameter or key that the route does not know.
    """
    level = logging.ERROR if status == 500 else logging.WARNING if status > 500 else logging.INFO
    fields = {"method": method, "route": route, "status": status, "seconds": round(seconds, 3), "account": account}
    if unknown:
        fields["unknown"] = unknown
    _LOG.log(level, "request", extra=fields)


def log_statement(*, verb: str, sqlstate: str, seconds: float, account: str, unknown: str = "") -> None:
    """Write the line of a statement of a SQL client: its first word, and 00000 or the code of its refusal.

    `unknown` names what the catalog lacks, so that an operator learns which client asks for it.
    """
    level = logging.ERROR if sqlstate == "XX000" else logging.WARNING if sqlstate.startswith("58") else logging.INFO
    fields = {"method": "SQL", "route": verb, "status": sqlstate, "seconds": round(seconds, 3), "account": account}
    if unknown:
        level = logging.WARNING
        fields["unknown"] = unknown
    _LOG.log(level, "statement", extra=fields)


def write_log(form: str) -> None:
    """Write the server's log to standard error, one line a record; "off" leaves requests out, and keeps warnings."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines() if form == "json" else _TextLines())
    for log in (_LOG, *map(logging.getLogger, _LISTENERS)):
        log.handlers = [handler]
        log.propagate = False
        log.setLevel(logging.WARNING if form == "off" else logging.INFO)


def log_note(text: str) -> None:
    """Write a line of the server about itself, such as where it listens."""
    _LOG.info(text)


def _fields_of(record: logging.LogRecord) -> dict[str, object]:
    moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    message = " ".join(record.getMessage().split())
    head: dict[str, object] = {"time": moment, "level": record.levelname.lower(), "message": message}
    error = record.exc_info[1] if record.exc_info else None
    if error is not None:
        # The places of a trace, innermost last: an error's words and the lines of a trace may hold what was asked.
        frames = traceback.extract_tb(error.__traceback__)
        places = " ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames)
        head |= {"error": type(error).__name__, "trace": places}
    return head | {name: getattr(record, name) for name in _FIELDS if hasattr(record, name)}


class _JsonLines(logging.Formatter):
    """An object of JSON a line."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(_fields_of(record), ensure_ascii=True)


class _TextLines(logging.Formatter):
    """Time, level and message, then NAME=VALUE; what could end a line or a value is written as JSON."""

    def format(self, record: logging.LogRecord) -> str:
        moment, level, message, *values = _fields_of(record).items()
        words = [f"{name}={_plain(value)}" for name, value in values]
        return " ".join([str(moment[1]), str(level[1]), str(message[1]), *words])


def _plain(value: object) -> str:
    text = str(value)
    return text if text.isascii() and text.isprintable() and not set(text) & set(' "=\\') else json.dumps(text)


# ---- Metrics for Prometheus: public facts alone - how many answers of each status, when they left, what of each
# budget is spent
#
# An answer of private data leaves on the public clock, so its time here is one of that clock's ticks, as whoever asked measures.
# How many questions are at work is not here: it would tell when the work on one was done.

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "SQL"})


class Metrics:
    """Count what one process answered."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry(auto_describe=True)
        self._answers = Counter("sordino_http_answers", "Answers by status.", ["status"], registry=self._registry)
        self._seconds = Histogram(
            "sordino_request_seconds",
            "Seconds until an answer left.",
            ["method", "route"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._spent = Gauge("sordino_budget_spent", "Spent of a budget.", ["budget", "amount"], registry=self._registry)
        self._cap = Gauge("sordino_budget_cap", "The cap of a budget.", ["budget", "amount"], registry=self._registry)
        about = Gauge("sordino_version", "The version that serves.", ["version"], registry=self._registry)
        about.labels(__version__).set(1)

    def count(self, status: int) -> None:
        """Count an answer."""
        self._answers.labels(str(status)).inc()

    def observe(self, method: str, route: str, seconds: float) -> None:
        """Count the time of an answer; `route` is one of the application's own, so that there are few."""
        self._seconds.labels(method if method in _METHODS else "other", route).observe(seconds)

    def render(self, budgets: Iterable[tuple[str, Loss, Loss]]) -> bytes:
        """Return the metrics as text, with the name, the cap and what is spent of each budget."""
        for name, cap, spent in budgets:
            gone = spent.amounts()
            for amount, most in cap.amounts().items():
                self._cap.labels(name, amount).set(float(most))
                self._spent.labels(name, amount).set(float(gone[amount]))
        return generate_latest(self._registry)
