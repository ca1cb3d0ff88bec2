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
    description = (
        "Ask a private table in SQL. The line holds options, the cell the question; %%sordino --plan spends nothing."
    )
    parser = _Arguments(prog="%%sordino", description=description)
    for name in _LOSS:
        parser.add_argument(f"--{name}", metavar="NUMBER", help=f"what may be lost: {name}, such as 0.1 or 1/3")
    parser.add_argument(
        "--project",
        metavar="PATH",
        help="the project file, or a server's address (its token in SORDINO_TOKEN); kept for later cells",
    )
    parser.add_argument(
        "--spender", metavar="NAME", help="whose share of the budget it counts against; kept for later cells"
    )
    parser.add_argument(
        "--confidence", metavar="NUMBER", type=float, default=0.95, help="of what --plan says of errors"
    )
    parser.add_argument("--assume-rows", metavar="N", type=int, help="a public guess of how many rows there are")
    parser.add_argument("--plan", action="store_true", help="say the price and the expected error, and spend nothing")
    parser.add_argument("--to", metavar="NAME", help="put the answer into a variable as well")
    return parser


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
        # --help has been printed; a notebook should not show an exit as a failure.
        except SystemExit:
            return None
        except SordinoError as error:
            message = getattr(error, "sql", None) or str(error)
            raise UsageError(f"{type(error).__name__}: {message}") from None

    def _answer(self, line: str, cell: str) -> Any:
        options = self._parser.parse_args(_words(line))
        if options.to is not None and not options.to.isidentifier():
            raise DeclarationError("%%sordino: --to takes the name of a variable")
        connection = self._connect(options.project, options.spender)
        if not cell.strip():
            if options.plan or any(getattr(options, name) is not None for name in _LOSS):
                raise DeclarationError(
                    "%%sordino: write the question below the line, such as SELECT COUNT(*) AS n FROM people"
                )
            return None
        loss: Mapping[str, Any] = {name: getattr(options, name) for name in _LOSS}
        plan = connection.plan(sd.sql(cell), **loss, assume_rows=options.assume_rows)
        result: Any = plan if options.plan else connection.ask(plan)
        if options.plan and not hasattr(plan, "plans"):
            # The plan's own view has no other confidence than .95.
            print(plan.describe(options.confidence))
            result = None if options.to is None else plan
        if options.to is not None:
            self._shell.user_ns[options.to] = result
        return result

    def _connect(self, project: str | None, spender: str | None) -> Any:
        stated = (project or self._stated[0], spender or self._stated[1])
        if self._connection is None or stated != self._stated:
            self._connection = sd.connect(stated[0], spender=stated[1])
            self._stated = stated
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
