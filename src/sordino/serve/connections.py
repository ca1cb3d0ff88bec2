"""connect(...) and report(...): a connection from a project file or to a server, and the page of what it has released."""

from __future__ import annotations

from pathlib import Path
from typing import Any, overload

from sordino.ask.curator.connect import Connection, open_project
from sordino.core.errors import DeclarationError
from sordino.serve.remote.connection import RemoteConnection


@overload
def connect(
    project: str | Path | None = None, *, spender: str | None = None, dialect: str | None = None
) -> Connection: ...


@overload
def connect(
    project: str, *, token: str, dialect: str | None = None, patience: float = 30.0, verify: Any = True
) -> RemoteConnection: ...


def connect(
    project: str | Path | None = None,
    *,
    spender: str | None = None,
    dialect: str | None = None,
    token: str | None = None,
    patience: float = 30.0,
    verify: Any = True,
) -> Connection | RemoteConnection:
    """Return the connection that a project file declares; without a path, the sordino.toml found upward from here.

    `spender` names a team or a program with a declared share of the budget, [budgets.NAME.shares]: what is asked counts
    against the share and the budget, and is refused where either is used up. `dialect` says whose SQL the questions are
    written in, in place of what the project file says.

    An address, "https://curator.example", is that of a server: its connection has the same face, and spends the share of
    `token`, or of SORDINO_TOKEN. What is lost on the way is sent again for `patience` seconds, and charged once; `verify`
    may be an ssl.SSLContext with the authority of your own.

    Raises DeclarationError, with file, line and column, where the file breaks a rule.
    """
    if isinstance(project, str) and project.startswith(("https://", "http://")):
        if spender is not None:
            raise DeclarationError("follows from the token: a server knows whose share it spends", key="spender")
        return RemoteConnection(project, token=token, dialect=dialect, patience=patience, verify=verify)
    if token is not None:
        raise DeclarationError("goes with the address of a server, https://...", key="token")
    return open_project(project, spender=spender, dialect=dialect)


def report(
    project: str | Path | Connection | None = None, *, budget: str | None = None, output: str | Path | None = None
) -> str:
    """Return one HTML page for a board: what was asked, and what all of it reveals at most; costs nothing, reads no data.

    `project` is a connection, or the path of a project file. The page is about all budgets, or the one named, and loads nothing
    from elsewhere; `output` names a file that it is written to as well, over what is there. Raises DeclarationError where
    the project file breaks a rule, UnknownName for a budget that is not declared.
    """
    page = (project if isinstance(project, Connection) else open_project(project)).report(budget=budget)
    if output is not None:
        Path(output).write_text(page, encoding="utf-8", errors="backslashreplace")
    return page
