"""What a client sets for its session: the loss of its questions (sordino.epsilon ...), and what clients set out of habit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, get_args

from sordino.ask.curator.plan import Share
from sordino.core.errors import DeclarationError, nearest
from sordino.core.loss import read_loss
from sordino.serve.server.curator_service import LONGEST_REQUEST
from sordino.serve.server.sql_wire.sqlstates import WireError

_LOSS = ("epsilon", "delta", "rho")
_WORDS = {"on": ("data", "dummy"), "share": get_args(Share)}
_WHOLE = ("assume_rows", "min_units", "max_rows", "max_groups", "max_rows_per_group")
# The most of each number; of the others 10**9, as in a question.
_MOST = {"assume_rows": 10**15 - 1}
# By the names of read_question_request.
_OWN = (*_LOSS, "confidence", "share", "on", *_WHOLE)
_PREFIX = "sordino."
_KNOWN = {f"{_PREFIX}{name}" for name in (*_OWN, "intervals", "request")}
_TRUTHS = {"on": True, "true": True, "yes": True, "1": True, "off": False, "false": False, "no": False, "0": False}
REPORTED = {
    "server_version": "15.0 (Sordino)",
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "DateStyle": "ISO, MDY",
    "TimeZone": "UTC",
    "IntervalStyle": "postgres",
    "integer_datetimes": "on",
    "standard_conforming_strings": "on",
    "is_superuser": "off",
    "default_transaction_read_only": "off",
    "in_hot_standby": "off",
}
# What clients set and read; it changes nothing here.
_HABITS = {
    "application_name": "",
    "extra_float_digits": "3",
    "search_path": "public",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "transaction_isolation": "read committed",
    "transaction_read_only": "off",
    "default_transaction_isolation": "read committed",
    "max_identifier_length": "63",
    "lc_collate": "C",
    "lc_ctype": "C",
    "lc_monetary": "C",
    "bytea_output": "hex",
    "row_security": "off",
    "client_min_messages": "notice",
    "jit": "off",
    "geqo": "on",
    "server_version_num": "150000",
    "session_authorization": "",
    "synchronize_seqscans": "on",
    "max_index_keys": "32",
}
# The settings that every session begins with.
SETTINGS: Mapping[str, str] = {**REPORTED, **_HABITS}
_SHOWN_AS = {name.lower(): name for name in REPORTED}
_FIXED = frozenset({"server_version", "server_encoding", "integer_datetimes", "is_superuser", "server_version_num"})
_SAFE = re.compile(r"[^\0]{0,500}")


class WireSettings:
    """Hold the settings of one session; those of a transaction that is rolled back go with it."""

    def __init__(self) -> None:
        self._at_start: dict[str, str] = {name.lower(): value for name, value in SETTINGS.items()}
        self._values = dict(self._at_start)
        # The settings before the transaction.
        self._before: dict[str, str] | None = None
        self._local: dict[str, str | None] = {}

    def start_with(self, name: str, value: str) -> None:
        """Set what the connection asks for: RESET comes back to it."""
        self.set(name, value)
        self._at_start[name.lower()] = self._values.get(name.lower(), value)

    def set(self, name: str, value: str | None, *, local: bool = False) -> None:
        """Set a setting; None resets it. Raises WireError for one that is not known, or a value that it cannot have."""
        key = name.lower()
        if key.startswith(_PREFIX):
            if key not in _KNOWN:
                raise WireError("42704", f"there is no setting {key[:60]}; {nearest(key, sorted(_KNOWN))}")
        elif key not in self._at_start:
            raise WireError("42704", f"there is no setting {key[:60]!r}")
        if value is not None:
            _check(key, value)
        if local:
            self._local.setdefault(key, self._values.get(key))
        else:
            self._local.pop(key, None)
        wanted = self._at_start.get(key) if value is None else value
        if wanted is None:
            self._values.pop(key, None)
        else:
            self._values[key] = wanted

    def reset_all(self) -> None:
        """Set all back to what the connection began with."""
        self._values = dict(self._at_start)

    def show(self, name: str) -> str:
        """Return a setting's value, empty where it is not set; raises WireError for one that is not known."""
        key = name.lower()
        if key not in self._values and key not in _KNOWN:
            raise WireError("42704", f"there is no setting {key[:60]!r}")
        return self._values.get(key, "")

    def all(self) -> Mapping[str, str]:
        """Return every setting by its name."""
        return {_SHOWN_AS.get(name, name): self._values.get(name, "") for name in sorted({*self._values, *_KNOWN})}

    def begin(self) -> None:
        """Remember the settings, as a transaction begins."""
        self._before = dict(self._values)
        self._local = {}

    def end(self, *, undo: bool) -> None:
        """End a transaction: what was set within it is undone, or only what was SET LOCAL."""
        if undo and self._before is not None:
            self._values = self._before
        for key, value in ({} if undo else self._local).items():
            if value is None:
                self._values.pop(key, None)
            else:
                self._values[key] = value
        self._before = None
        self._local = {}

    @property
    def intervals(self) -> bool:
        """Whether answers have the ends of their intervals as columns."""
        return _TRUTHS[self._values.get("sordino.intervals", "off").lower()]

    @property
    def request(self) -> str | None:
        """The request id of questions, where one is set."""
        return self._values.get("sordino.request") or None

    def words(self, stated: Mapping[str, str]) -> dict[str, Any]:
        """Return a question's settings by read_question_request's names; a loss `stated` beside it is all of its loss."""
        words: dict[str, Any] = {}
        for name in _OWN:
            value = self._values.get(_PREFIX + name)
            if value is not None:
                words[name] = int(value) if name in _WHOLE else float(value) if name == "confidence" else value
        if stated.keys() & {*_LOSS}:
            words = {name: value for name, value in words.items() if name not in _LOSS}
        beside = {name: float(value) if name == "confidence" else value for name, value in stated.items()}
        return {**words, **beside}


def _check(key: str, value: str) -> None:
    if key in _FIXED or _SAFE.fullmatch(value) is None:
        raise WireError("55P02", f"{key} cannot be set")
    if key == "client_encoding" and value.strip("'\"").upper().replace("-", "") not in ("UTF8", "UNICODE", "SQL_ASCII"):
        raise WireError("22023", "client_encoding is UTF8 here, and nothing else")
    if key == "standard_conforming_strings" and value.lower() != "on":
        raise WireError("22023", "standard_conforming_strings stays on")
    name = key.removeprefix(_PREFIX)
    if not key.startswith(_PREFIX):
        return
    if name == "request" and len(value) > LONGEST_REQUEST:
        raise WireError("22023", f"{key} must have at most {LONGEST_REQUEST} characters")
    if name in _WHOLE and (
        re.fullmatch(r"[0-9]{1,15}", value) is None or not 1 <= int(value) <= _MOST.get(name, 10**9)
    ):
        raise WireError("22023", f"{key} must be a whole number, from 1 to {_MOST.get(name, 10**9):,}")
    if name in _WORDS and value not in _WORDS[name]:
        raise WireError("22023", f"{key} must be {' or '.join(_WORDS[name])}")
    if name == "confidence" and not (re.fullmatch(r"0?\.[0-9]{1,12}", value) and float(value) > 0):
        raise WireError("22023", f"{key} must lie between 0 and 1, such as 0.95")
    if name in _LOSS:
        try:
            # what a question at this loss would say of it; a delta goes with some epsilon
            read_loss(**{"epsilon": "1" if name == "delta" else None, "delta": None, "rho": None, name: value})
        except DeclarationError as error:
            raise WireError("22023", f"{key} {error.rule.removeprefix(name).strip()}") from None
    if name == "intervals" and value.lower() not in _TRUTHS:
        raise WireError("22023", f"{key} is on or off")
