"""One line a request in the server's log, as text or as JSON: what was called and how it ended, never what was asked.

No line holds SQL, an address, a secret or an answer. The seconds are those after which the answer left, which whoever asked
measures too: an answer of private data leaves on the public clock.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

_LOG = logging.getLogger("sordino.server")
_FIELDS = ("method", "route", "status", "seconds", "account")


def log_request(*, method: str, route: str, status: int, seconds: float, account: str) -> None:
    """Write the line of a request over HTTP; `route` is the address of the API or the page, without what it names."""
    level = logging.ERROR if status == 500 else logging.WARNING if status > 500 else logging.INFO
    fields = {"method": method, "route": route, "status": status, "seconds": round(seconds, 3), "account": account}
    _LOG.log(level, "request", extra=fields)


def log_statement(*, verb: str, sqlstate: str, seconds: float, account: str) -> None:
    """Write the line of a statement of a SQL client: its first word, and 00000 or the code of its refusal."""
    level = logging.ERROR if sqlstate == "XX000" else logging.WARNING if sqlstate.startswith("58") else logging.INFO
    fields = {"method": "SQL", "route": verb, "status": sqlstate, "seconds": round(seconds, 3), "account": account}
    _LOG.log(level, "statement", extra=fields)


def write_log(form: str) -> None:
    """Write the server's log to standard error, one line a record; "off" leaves requests out, and keeps warnings."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines() if form == "json" else _TextLines())
    _LOG.handlers = [handler]
    _LOG.propagate = False
    _LOG.setLevel(logging.WARNING if form == "off" else logging.INFO)


def _fields_of(record: logging.LogRecord) -> dict[str, object]:
    moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    head: dict[str, object] = {"time": moment, "level": record.levelname.lower(), "message": record.getMessage()}
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
        said = str(message[1]).replace("\n", " ").replace("\r", " ")
        return " ".join([str(moment[1]), str(level[1]), said, *words])


def _plain(value: object) -> str:
    text = str(value)
    return text if text.isascii() and text.isprintable() and not set(text) & set(' "=\\') else json.dumps(text)
