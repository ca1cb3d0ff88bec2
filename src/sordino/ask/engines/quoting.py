"""Texts and names as SQL quotes them: nothing that is declared or written in a file becomes a word of SQL."""

from __future__ import annotations


def quote_text(value: str) -> str:
    """Return a text as a SQL constant."""
    return "'" + value.replace("'", "''") + "'"


def quote_name(value: str) -> str:
    """Return a column or table name as SQL quotes it."""
    return '"' + value.replace('"', '""') + '"'
