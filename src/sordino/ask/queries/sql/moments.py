"""NOW() and CURRENT_DATE: read once, when a question is planned, so that its plan and its record say which moment it was."""

from __future__ import annotations

import datetime
import re
from typing import Any

from sordino.ask.queries.expressions.sql_trees import trees

_FUNCTIONS = (
    "NOW",
    "TODAY",
    "GETDATE",
    "GETUTCDATE",
    "SYSDATE",
    "SYSDATETIME",
    "SYSUTCDATETIME",
    "CURRENT_LOCALTIMESTAMP",
)
_DAYS = ("CurrentDate",)
_MOMENTS = ("CurrentTimestamp", "CurrentDatetime", "Localtimestamp", "UtcTimestamp", "CurrentTimestampLTZ")
_WORDS = re.compile(
    rf"\b({'|'.join(_FUNCTIONS)}|CURRENT_?(DATE|DATETIME|TIMESTAMP)|LOCALTIMESTAMP|UTC_TIMESTAMP)\b", re.IGNORECASE
)


def reads_clock(text: str) -> bool:
    """Return whether a text may ask what time it is.

    >>> reads_clock("SELECT COUNT(*) FROM t WHERE day > CURRENT_DATE - 7"), reads_clock("SELECT 1")
    (True, False)
    """
    return _WORDS.search(text) is not None


def put_moment(query: Any, moment: datetime.datetime | None) -> Any:
    """Return a tree in which NOW() and its kin are this moment, in UTC, and CURRENT_DATE its day; the tree is changed."""
    if moment is None:
        return query
    exp = trees()
    for node in reversed(list(query.walk())):
        name = type(node).__name__
        called = isinstance(node, exp.Anonymous) and not node.expressions and str(node.this).upper() in _FUNCTIONS
        # The name of a column is none of these words, unless it is quoted.
        if name in _DAYS or (called and str(node.this).upper() == "TODAY"):
            node.replace(exp.cast(exp.Literal.string(moment.date().isoformat()), "date"))
        elif name in _MOMENTS or called:
            text = moment.replace(microsecond=0, tzinfo=None).isoformat(" ")
            node.replace(exp.cast(exp.Literal.string(f"{text}+00:00"), "timestamptz"))
    return query


def current_moment() -> datetime.datetime:
    """Return what time it is, in UTC."""
    return datetime.datetime.now(datetime.UTC)
