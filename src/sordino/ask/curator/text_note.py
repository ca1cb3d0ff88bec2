"""The note of a question in SQL of a dialect whose texts are equal by default where ours are not. It knows no data."""

from __future__ import annotations

from collections.abc import Iterable

from sordino.ask.queries.expressions.nodes import Name, Node, walk
from sordino.core.domain import Category, Domain, Identifier

_IGNORED = {  # what a dialect's texts are equal in spite of
    "mysql": "MySQL's default collation ignores case and accents",
    "tsql": "SQL Server's default collation ignores case, and blanks at the end",
}


def text_note(dialect: str, read: Iterable[Node], domain: Domain, *, stepped: bool = False) -> tuple[str, ...]:
    """Return the note where a question reads a column of text; where its rows are made in steps, of any table with one.

    >>> text_note("mysql", [Name("job")], Domain({"job": Category(["cook"])}))
    ("texts are compared by all of their characters, 'a' is not 'A': MySQL's default collation ignores case and accents",)
    """
    if dialect not in _IGNORED:
        return ()
    texts = {name for name in domain if _is_text(domain[name])}
    named = texts if stepped else {at.name for of in read for at in walk(of) if isinstance(at, Name)}
    return (
        (f"texts are compared by all of their characters, 'a' is not 'A': {_IGNORED[dialect]}",)
        if texts & named
        else ()
    )


def _is_text(column: object) -> bool:
    return isinstance(column, Identifier) or (isinstance(column, Category) and isinstance(column.values[0], str))
