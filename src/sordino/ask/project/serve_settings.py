"""[serve] of sordino.toml: how `sordino serve` serves a project. It knows no accounts and opens nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from sordino.core.errors import DeclarationError
from sordino.core.loss import to_fraction

_UNITS = {"ms": Fraction(1, 1000), "s": Fraction(1)}
_STORE = "sordino-server.db"
_DAYS = 7


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """How a project is served.

    `answer_every`, in seconds, is the tick of the clock on which answers leave; with 0 they leave when they are ready, for
    tables whose rows are public, or made up: how long the work took tells something of them. `approve_above` names amounts of
    a loss, such as epsilon: a question that costs more of one waits for an officer. `approve_above_daily` is the same of all
    that a share is charged for one table within 24 hours. Where `two_person`, no officer approves a question of an account
    that they made, reset or funded within `two_person_days`. `origin` is where browsers find the server.
    """

    store: str
    answer_every: Fraction = Fraction(1, 4)
    approve_above: Mapping[str, Fraction] = field(default_factory=lambda: MappingProxyType({}))
    origin: str | None = None
    issuer: str | None = None
    client: str | None = None
    # Stores of collectors, whose estimates accounts may read.
    collections: tuple[str, ...] = ()
    # For SQL clients; without one there is no such port.
    postgres_port: int | None = None
    postgres_certificate: Path | None = None
    postgres_key: Path | None = None
    approve_above_daily: Mapping[str, Fraction] = field(default_factory=lambda: MappingProxyType({}))
    two_person: bool = True
    two_person_days: int = _DAYS
    # The form of the lines that requests write.
    log: str = "text"


def serve_settings(raw: Mapping[str, Any], *, beside: Path) -> ServeSettings:
    """Return the settings that the keys of [serve] state; a store that is a file lies `beside` a directory.

    >>> serve_settings({"answer_every": "500ms"}, beside=Path("/srv")).answer_every
    Fraction(1, 2)
    """
    store = _place(str(raw.get("store", _STORE)), beside)
    days = raw.get("two_person_days", _DAYS)
    if not 1 <= days <= 3650:
        raise DeclarationError("must be a whole number of days, from 1 to 3650", key="two_person_days")
    files = {name: raw.get(name) for name in ("postgres_certificate", "postgres_key")}
    if list(files.values()).count(None) == 1:
        raise DeclarationError("goes with postgres_key: state both, or neither", key="postgres_certificate")
    log = raw.get("log", "text")
    if log not in ("text", "json", "off"):
        raise DeclarationError('must be "text", "json" or "off"', key="log")
    openid = raw.get("openid", {})
    issuer = openid.get("issuer")
    return ServeSettings(
        store,
        _seconds(raw.get("answer_every", "250ms")),
        _amounts(raw, "approve_above"),
        None if "origin" not in raw else _origin(raw["origin"], key="origin"),
        None if issuer is None else _issuer(issuer),
        openid.get("client"),
        tuple(_place(str(stated), beside) for stated in raw.get("collections", ())),
        _port(raw.get("postgres_port")),
        log=log,
        **{name: None if stated is None else beside / stated for name, stated in files.items()},
        approve_above_daily=_amounts(raw, "approve_above_daily"),
        two_person=raw.get("two_person", True),
        two_person_days=days,
    )


def _amounts(raw: Mapping[str, Any], key: str) -> Mapping[str, Fraction]:
    amounts = {name: to_fraction(value, name=f"{key}.{name}") for name, value in raw.get(key, {}).items()}
    for name, amount in amounts.items():
        if amount < 0:
            raise DeclarationError("must not be negative", key=f"{key}.{name}")
    return MappingProxyType(amounts)


def _place(stated: str, beside: Path) -> str:
    """Return where a store lies: a server's address as it is, a file beside the project."""
    is_server = stated.startswith(("postgresql://", "postgres://"))
    return stated if is_server else str(beside / stated.removeprefix("sqlite:///"))


def _port(number: int | None) -> int | None:
    if number is not None and not 0 < number < 65536:
        raise DeclarationError("must be from 1 to 65535, such as 5432", key="postgres_port")
    return number


def _seconds(text: str) -> Fraction:
    time = re.fullmatch(r"(\d{1,6})(ms|s)", text)
    if time is None or not 0 <= int(time[1]) * _UNITS[time[2]] <= 60:
        raise DeclarationError(
            'must be a time such as "250ms" or "1s", at most 60 s; "0s" where how long an answer takes may be known',
            key="answer_every",
        )
    return int(time[1]) * _UNITS[time[2]]


def _origin(text: str, *, key: str) -> str:
    try:
        parts = urlsplit(text)
        is_origin = (
            parts.scheme in ("http", "https") and parts.hostname and not (parts.path or parts.query or parts.fragment)
        )
        is_origin = is_origin and parts.username is None and (parts.port is None or parts.port > 0)
    except ValueError:
        is_origin = False
    if not is_origin:
        raise DeclarationError('must be an origin such as "https://curator.example", without a path', key=key)
    return text


def _issuer(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("https", "http") or not parts.hostname or parts.query or parts.fragment:
        raise DeclarationError('must be an address such as "https://login.example/realm"', key="openid.issuer")
    if parts.scheme == "http" and parts.hostname not in ("127.0.0.1", "localhost", "::1"):
        raise DeclarationError("must be https: whoever answers for the issuer says who signs in", key="openid.issuer")
    return text.rstrip("/")
