"""From the words on the command line to a question about a declared table, with its plan. Nothing here charges."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sordino.errors import DeclarationError

if TYPE_CHECKING:
    from sordino.curator.curator import Curator
    from sordino.curator.plan import Plan

__all__ = ["plan_question", "text_of"]

_LARGEST = 200_000  # characters of a question


def text_of(given: str | None, file: Path | None) -> str:
    """Return the question's text: the argument, a file's, or standard input's for -; raises DeclarationError for none."""
    if (given is None) == (file is None):
        raise DeclarationError('state one question: sordino ask "SELECT COUNT(*) AS n FROM people", or -f FILE, or -')
    if given is not None and given != "-":
        return given
    try:
        if file is None or str(file) == "-":
            return sys.stdin.read(_LARGEST)
        with file.open(encoding="utf-8-sig") as lines:
            return lines.read(_LARGEST)
    except OSError as error:
        raise DeclarationError(f"the question in {file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DeclarationError(f"the question in {file or 'standard input'} is not UTF-8 text") from None


def plan_question(
    text: str,
    project: Path | None,
    *,
    epsilon: str | None,
    delta: str | None,
    rho: str | None,
    assume_rows: int | None = None,
    dialect: str | None = None,
) -> tuple[Curator, Plan]:
    """Return the curator of the table that a SQL text is about, and the plan of the question; nothing is spent.

    Numbers stay text on the way, so that they are exact.
    """
    import sordino as sd
    from sordino.cli.shared.opening import project_path

    curator, question = sd.connect(project_path(project)).read_sql(text, dialect=dialect)
    return curator, curator.plan(question, epsilon=epsilon, delta=delta, rho=rho, assume_rows=assume_rows)
