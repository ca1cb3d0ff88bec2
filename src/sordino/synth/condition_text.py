"""Conditions and constraints from text: what follows WHERE, and a CSV file of what decides what. It knows no data."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sordino.ask.queries.expressions.expr import Expr
from sordino.ask.queries.sql.parse import parse_sql
from sordino.core.errors import DeclarationError, QuestionRefused
from sordino.synth.constraints import Constraint, determines

_PLACE = re.compile(r"^line \d+, column \d+: ")


def parse_condition(text: str, columns: Sequence[str]) -> Expr:
    """Return the condition that the words after WHERE state about columns; raises QuestionRefused for other text.

    >>> parse_condition("age > 30 AND sex = 'Female'", ["age", "sex"]) is not None
    True
    """
    if not text.strip() or ";" in text:
        raise QuestionRefused("a condition is what follows WHERE, such as \"age > 30 AND sex = 'Female'\"")
    try:
        statement = parse_sql(f"SELECT COUNT(*) AS n FROM model WHERE (\n{text}\n)", table="model", columns=columns)
    # The message is reworded: it must not point at a place in a statement that the user did not write.
    except QuestionRefused as error:
        words = _PLACE.sub("", str(error))
        kind = type(error)
    else:
        if (
            statement.where is None
            or statement.groups
            or statement.after is not None
            or statement.steps
            or len(statement.aggregates) != 1
        ):
            raise QuestionRefused("a condition is what follows WHERE alone, without GROUP BY, ORDER BY or LIMIT")
        return Expr(statement.where)
    raise kind(words)


def read_determines(path: str | Path) -> Constraint:
    """Return the constraint in a CSV file of two columns: what the first holds decides the second; empty is missing."""
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            lines = [row for row in csv.reader(file) if row]
    except (OSError, UnicodeDecodeError, csv.Error):
        raise DeclarationError(
            f"{path} cannot be read: --determines takes a CSV file of two columns in UTF-8"
        ) from None
    if len(lines) < 2 or any(len(row) != 2 for row in lines):
        raise DeclarationError(
            f"{path} must hold two columns with their names in the first line: what the first holds decides the second"
        )
    (of, column), *pairs = ([cell.strip() for cell in row] for row in lines)
    if len({a for a, _ in pairs}) != len(pairs):
        raise DeclarationError(f"{path}: each value of {of!r} is mapped once")
    return determines(of, column, {_label(a): _label(b) for a, b in pairs})


def _label(text: str) -> Any:
    """Return a label as the declaration has it: nothing for missing, whole numbers and truth values as such."""
    if not text:
        return None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    plain = text.removeprefix("-")
    return int(text) if plain.isascii() and plain.isdigit() and (plain == "0" or plain[0] != "0") else text
