"""From the words on the command line to a question about a declared table, with its plan. Nothing here charges."""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sordino.core.errors import DeclarationError

if TYPE_CHECKING:
    import pyarrow as pa

    from sordino.ask.curator.batch import Batch
    from sordino.ask.curator.connect import Connection
    from sordino.ask.curator.plan import Plan, Share
    from sordino.ask.queries.sql.parse import SqlText

# Characters of a question.
_LARGEST = 200_000


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


def read_question(
    text: str,
    project: Path | None,
    *,
    weights: str | None,
    share: Share,
    scale: str | None,
    dialect: str | None,
    keys: Path | None,
    spender: str | None,
    bounds: Mapping[str, int | None],
    min_units: int,
) -> tuple[Connection, SqlText, dict[str, Any]]:
    """Return the connection, the question that a SQL text is, or several, and how their loss is shared.

    Numbers stay text on the way, so that they are exact.
    """
    import sordino as sd
    from sordino.ask.queries.expressions.keys import selection_name
    from sordino.cli.shared.opening import project_path

    stated = None if weights is None else weights.split(",") if "=" not in weights else read_pairs("--weights", weights)
    sizes = None if scale is None else read_pairs("--scale", scale)
    listed = keys if keys is None or selection_name(keys) else read_keys(keys)
    question = sd.sql(text, dialect=dialect, keys=listed, min_units=min_units)
    connection = sd.connect(project_path(project), spender=spender)
    if any(bound is not None for bound in bounds.values()):
        question = question.bound_contributions(**bounds)
    return connection, question, {"weights": stated, "share": share, "scale": sizes}


def plans_of(planned: Plan | Batch) -> tuple[Plan, ...]:
    """Return the plans of a batch, or the one plan."""
    from sordino.ask.curator.plan import Plan

    return (planned,) if isinstance(planned, Plan) else planned.plans


def read_pairs(flag: str, text: str) -> dict[str, str]:
    """Return what a flag such as --weights n=1,total=3 states by name.

    >>> read_pairs("--weights", "n=1, total=3")
    {'n': '1', 'total': '3'}
    """
    pairs: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not (name.strip() and equals and value.strip()) or name.strip() in pairs:
            raise DeclarationError(f"{flag} takes NAME=NUMBER, separated by commas, such as {flag} n=1,total=3")
        pairs[name.strip()] = value.strip()
    return pairs


def read_keys(path: Path) -> pa.Table:
    """Return a public list of keys from a CSV file whose header line names group-by columns; every cell stays text."""
    import pyarrow as pa

    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            names, *rows = list(csv.reader(lines)) or [[]]
    except OSError as error:
        raise DeclarationError(f"the keys in {path} cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error):
        raise DeclarationError(f"the keys in {path} are not CSV in UTF-8") from None
    rows = [row for row in rows if row]
    if not rows or any(len(row) != len(names) for row in rows):
        raise DeclarationError(
            f"the keys in {path} need a header line, then one row per key with the same number of cells"
        )
    return pa.table([pa.array(cells, pa.string()) for cells in zip(*rows, strict=True)], names=names)
