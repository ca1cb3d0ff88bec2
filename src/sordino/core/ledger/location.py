"""The place of a ledger: a SQLite file, or a schema of a PostgreSQL server. It opens nothing, and holds no password."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias
from urllib.parse import parse_qs, urlsplit

from sordino.core.errors import DeclarationError

_SECRETS = {"password", "sslpassword"}


@dataclass(frozen=True, slots=True)
class ServerPlace:
    """The place of a ledger on a PostgreSQL server: the address of its database, and the schema that holds it.

    The text is the address as given, which holds no password: libpq reads that from PGPASSWORD, ~/.pgpass or a service.
    """

    address: str
    schema: str

    def __str__(self) -> str:
        name = self.schema.removeprefix("sordino").removeprefix("_")
        return f"{self.address}#{name}" if name else self.address


Place: TypeAlias = Path | ServerPlace


def locate(given: str | Path | ServerPlace, *, beside: Path | None = None) -> Place:
    """Return the place of a ledger; a file's path is relative to the directory `beside`, and made absolute without one.

    `postgresql://HOST/DATABASE#NAME` is the schema sordino_NAME of a server, `sordino` without a name. Raises
    DeclarationError for an address that holds a password or a name that is none, and shows neither.

    >>> str(locate("postgresql:///people#income")), locate("postgresql:///people").schema
    ('postgresql:///people#income', 'sordino')
    """
    if isinstance(given, ServerPlace):
        return given
    if not isinstance(given, str) or not given.startswith(("postgresql://", "postgres://")):
        return _find_file(Path(given), beside)
    try:
        parts = urlsplit(given)
        secret = parts.password is not None or _SECRETS & set(parse_qs(parts.query, keep_blank_values=True))
    except ValueError:
        raise DeclarationError("the ledger's address cannot be read: write postgresql://HOST/DATABASE#NAME") from None
    if secret:
        raise DeclarationError(
            "the ledger's address holds a password, which would be shown where the address is: leave it out, and give it by "
            "PGPASSWORD, ~/.pgpass or a service file"
        )
    if re.fullmatch(r"([a-z][a-z0-9_]{0,39})?", parts.fragment) is None:
        raise DeclarationError(
            "the name of a ledger on a server, after #, is small letters, digits and _, 40 at most: postgresql://HOST/DB#people"
        )
    return ServerPlace(given.partition("#")[0], f"sordino_{parts.fragment}" if parts.fragment else "sordino")


def _find_file(given: Path, beside: Path | None) -> Path:
    """Return the file's path; raise DeclarationError where no system could hold a file of that name."""
    try:
        path = given.expanduser().resolve() if beside is None else beside / given
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return path
    except (OSError, ValueError, RuntimeError):
        # the name is too long, holds a NUL, or names a home that does not exist
        raise DeclarationError(
            "the ledger's path is none that a file can have: name another, such as people.ledger"
        ) from None
    return path
