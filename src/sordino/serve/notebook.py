"""%%sordino: ask in SQL within a notebook, by `%load_ext sordino`. It parses its arguments, calls, and returns what is shown.

IPython is imported here alone, and only once it loads this.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping
from typing import Any, NoReturn

import sordino as sd
from sordino.core.errors import DeclarationError, SordinoError

_LOSS = ("epsilon", "delta", "rho")


class _Arguments(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise DeclarationError(f"%%sordino: {message}; see %sordino --help")


def _arguments() -> _Arguments:
    said = "Ask a private table in SQL. The line holds options, the cell the question; %%sordino --plan spends nothing."
    made = _Arguments(prog="%%sordino", description=said)
    for name in _LOSS:
        made.add_argument(f"--{name}", metavar="NUMBER", help=f"what may be lost: {name}, such as 0.1 or 1/3")
    made.add_argument(
        "--project",
        metavar="PATH",
        help="the project file, or a server's address (its token in SORDINO_TOKEN); kept for later cells",
    )
    made.add_argument(
        "--spender", metavar="NAME", help="whose share of the budget it counts against; kept for later cells"
    )
    made.add_argument("--confidence", metavar="NUMBER", type=float, default=0.95, help="of what --plan says of errors")
    made.add_argument("--assume-rows", metavar="N", type=int, help="a public guess of how many rows there are")
    made.add_argument("--plan", action="store_true", help="say the price and the expected error, and spend nothing")
    made.add_argument("--to", metavar="NAME", help="put the answer into a variable as well")
    return made


class _Notebook:
    """Hold the connection of a notebook, and answer its cells."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._parser = _arguments()
        self._stated: tuple[str | None, str | None] = (None, None)
        self._connection: Any = None

    def answer(self, line: str, cell: str = "") -> Any:
        """Return the answer of a cell, a Release with its table and intervals, or with --plan its price."""
        from IPython.core.error import UsageError

        try:
            return self._answer(line, cell)
        except SystemExit:  # --help has been printed
            return None
        except SordinoError as error:
            said = getattr(error, "sql", None) or str(error)
            raise UsageError(f"{type(error).__name__}: {said}") from None

    def _answer(self, line: str, cell: str) -> Any:
        given = self._parser.parse_args(_words(line))
        if given.to is not None and not given.to.isidentifier():
            raise DeclarationError("%%sordino: --to takes the name of a variable")
        connection = self._connect(given.project, given.spender)
        if not cell.strip():
            if given.plan or any(getattr(given, name) is not None for name in _LOSS):
                raise DeclarationError(
                    "%%sordino: write the question below the line, such as SELECT COUNT(*) AS n FROM people"
                )
            return None
        loss: Mapping[str, Any] = {name: getattr(given, name) for name in _LOSS}
        plan = connection.plan(sd.sql(cell), **loss, assume_rows=given.assume_rows)
        made: Any = plan if given.plan else connection.ask(plan)
        if given.plan and not hasattr(plan, "plans"):
            print(plan.describe(given.confidence))  # the plan's own view has no other confidence
            made = None if given.to is None else plan
        if given.to is not None:
            self._shell.user_ns[given.to] = made
        return made

    def _connect(self, project: str | None, spender: str | None) -> Any:
        stated = (project or self._stated[0], spender or self._stated[1])
        if self._connection is None or stated != self._stated:
            self._connection, self._stated = sd.connect(stated[0], spender=stated[1]), stated
        return self._connection


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:
        raise DeclarationError("%%sordino: a quotation mark in the line has no end") from None


def load_ipython_extension(shell: Any) -> None:
    """Give a notebook %%sordino: called by `%load_ext sordino`."""
    notebook = _Notebook(shell)
    shell.register_magic_function(notebook.answer, magic_kind="line_cell", magic_name="sordino")
